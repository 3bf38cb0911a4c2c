#include "emu/libcuda.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "emu/device.h"
#include "emu/env.h"
#include "emu/fp4emu.h"

/* ---- lock, clock, numbers */

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized;

CUresult enter(void)
{
    pthread_mutex_lock(&driver_lock);
    return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult enter_context(struct CUctx_st **c)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    r = context_current(c);
    return r == CUDA_SUCCESS ? (*c)->sticky : r;
}

CUresult leave(CUresult r)
{
    pthread_mutex_unlock(&driver_lock);
    return r;
}

void unlock_for_callback(void)
{
    pthread_mutex_unlock(&driver_lock);
}

void lock_after_callback(void)
{
    pthread_mutex_lock(&driver_lock);
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t next_id(void)
{
    static uint64_t last;
    return ++last;
}

const struct device *shown_device(void)
{
    const struct device *d = device_current();
    return d ? d : device_at(0);
}

/* ---- start */

EXPORTED CUresult cuInit(unsigned int flags)
{
    static bool told; /* a program may try again and again */
    struct env e;
    char error[512];

    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    if (initialized)
        return leave(CUDA_SUCCESS);
    if (!env_read(&e, error, sizeof error)) {
        if (!told)
            fprintf(stderr, "fp4gen emulator: %s\n", error);
        told = true;
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    env_use(&e);
    if (e.device)
        device_force(device_find(e.device));
    initialized = true;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)error) {
#define ERROR(code, id, text)                                                          \
    case code:                                                                         \
        *name = #id;                                                                   \
        return CUDA_SUCCESS;
#include "emu/errors.def"
#undef ERROR
    default:
        *name = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORTED CUresult cuGetErrorString(CUresult error, const char **string)
{
    if (!string)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)error) {
#define ERROR(code, id, text)                                                          \
    case code:                                                                         \
        *string = text;                                                                \
        return CUDA_SUCCESS;
#include "emu/errors.def"
#undef ERROR
    default:
        *string = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Private tables of NVIDIA's own runtime: there are none here. */
EXPORTED CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- entry points by name */

CUresult fp4emu_refused(void);

/* All REFUSED rows of driver.def lead here; the linker gives it their names.  Callers
 * pass arguments that it does not look at. */
EXPORTED CUresult fp4emu_refused(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

typedef void (*any_fn)(void);

static const struct entry {
    const char *name;
    int version;
    any_fn fn;
} entry_points[] = {
#define DRIVER(exported, asked, version, stream, who)                                  \
    {#asked, version, DRIVER_FN_##who(exported)},
#define DRIVER_FN_BOTH(exported) (any_fn)(exported)
#define DRIVER_FN_EMU(exported) (any_fn)(exported)
#define DRIVER_FN_REFUSED(exported) (any_fn) fp4emu_refused
#include "core/driver.def"
#undef DRIVER
#undef DRIVER_FN_BOTH
#undef DRIVER_FN_EMU
#undef DRIVER_FN_REFUSED
};

/* The ABI that was current at `version`.  Streams of all kinds behave alike here, so
 * the forms for the per-thread default stream are the plain ones. */
static CUdriverProcAddressQueryResult find_entry(const char *name, int version,
                                                 any_fn *fn)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    int best = -1;

    *fn = NULL;
    for (size_t i = 0; i < COUNT_OF(entry_points); i++) {
        const struct entry *e = &entry_points[i];
        if (strcmp(e->name, name) != 0)
            continue;
        if (e->version > version) {
            if (!*fn)
                status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        } else if (e->version > best) {
            best = e->version;
            *fn = e->fn;
            status = CU_GET_PROC_ADDRESS_SUCCESS;
        }
    }
    return status;
}

EXPORTED CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                      cuuint64_t flags,
                                      CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    any_fn fn;

    if (!symbol || !pfn || (flags & ~known) || flags == known)
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found = find_entry(symbol, version, &fn);
    /* C has no conversion between pointers to functions and to objects; POSIX has. */
    memcpy(pfn, &fn, sizeof *pfn);
    if (status)
        *status = found;
    return found == CU_GET_PROC_ADDRESS_SUCCESS || status ? CUDA_SUCCESS
                                                          : CUDA_ERROR_NOT_FOUND;
}

EXPORTED CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
                                   cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}

/* ---- profiler: nothing to switch on */

EXPORTED CUresult cuProfilerStart(void)
{
    return leave(enter());
}

EXPORTED CUresult cuProfilerStop(void)
{
    return leave(enter());
}

EXPORTED CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
    (void)config;
    (void)output;
    (void)mode;
    return leave(enter());
}
