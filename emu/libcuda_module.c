#include "emu/libcuda.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/memory.h"
#include "emu/module.h"

/* A library is a module that belongs to no context.  A program may use it in all of
 * them; its variables are there once. */
struct CUlib_st {
    struct CUmod_st *module;
};

static CUresult result_of(enum module_result r)
{
    switch (r) {
    case MODULE_OK:
        return CUDA_SUCCESS;
    case MODULE_BAD_IMAGE:
        return CUDA_ERROR_INVALID_IMAGE;
    case MODULE_NO_PTX:
    case MODULE_BAD_TARGET:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case MODULE_BAD_VERSION:
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    case MODULE_BAD_PTX:
        return CUDA_ERROR_INVALID_PTX;
    case MODULE_NOT_EMULATED:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_ERROR_UNKNOWN;
}

/* ---- options of the PTX compiler */

struct jit {
    char *error_log, *info_log;
    size_t error_bytes, info_bytes;
    void **error_size, **info_size, **wall_time; /* where results go, NULL: not asked */
    int max_registers;
    const char *file; /* NULL: the image comes from memory */
};

/* Values are passed in the pointers themselves. */
static unsigned value_of(void *const *p)
{
    return (unsigned)(uintptr_t)*p;
}

static CUresult read_options(struct jit *j, unsigned count, const CUjit_option *options,
                             void **values)
{
    *j = (struct jit){0};
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        switch ((int)options[i]) {
        case CU_JIT_MAX_REGISTERS:
            j->max_registers = (int)value_of(&values[i]);
            break;
        case CU_JIT_WALL_TIME:
            j->wall_time = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            j->info_log = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            j->info_size = &values[i];
            j->info_bytes = value_of(&values[i]);
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            j->error_log = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            j->error_size = &values[i];
            j->error_bytes = value_of(&values[i]);
            break;
        default: /* how to compile: nothing is compiled here */
            if ((int)options[i] < 0 || (int)options[i] >= (int)CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
            break;
        }
    }
    return CUDA_SUCCESS;
}

/* Returns how many bytes were written, with the NUL. */
static size_t write_log(char *to, size_t bytes, const char *text)
{
    if (!to || !bytes)
        return 0;
    int length = snprintf(to, bytes, "%s", text);
    return length < 0 ? 0 : (size_t)length < bytes ? (size_t)length + 1 : bytes;
}

static void write_results(const struct jit *j, const char *log, double seconds)
{
    float ms = (float)(seconds * 1e3);
    size_t error = write_log(j->error_log, j->error_bytes, log);
    size_t info = write_log(j->info_log, j->info_bytes, "");
    if (j->error_size)
        *j->error_size = (void *)(uintptr_t)error;
    if (j->info_size)
        *j->info_size = (void *)(uintptr_t)info;
    if (j->wall_time) /* a float in the first four bytes of the place */
        memcpy(j->wall_time, &ms, sizeof ms);
}

static bool enter_handles(struct CUmod_st *m, const void *object, enum handle_kind kind)
{
    bool fine = handle_add(object, kind);
    for (int i = 0; i < m->function_count; i++)
        fine = fine && handle_add(&m->functions[i], HANDLE_FUNCTION);
    return fine;
}

static void drop_handles(const struct CUmod_st *m, const void *object)
{
    handle_drop(object);
    for (int i = 0; i < m->function_count; i++)
        handle_drop(&m->functions[i]);
}

static CUresult load(struct CUmod_st **out, const void *image, const void *owner,
                     const struct jit *j)
{
    struct arena *scratch = arena_new();
    struct buf log;
    double start = clock_seconds();

    buf_init(&log, scratch);
    enum module_result r =
        module_load(out, image, owner, j->file, j->max_registers, &log);
    write_results(j, log.data ? log.data : "", clock_seconds() - start);
    arena_free(scratch);
    assert(r != MODULE_OK || *out);
    return result_of(r);
}

/* ---- modules */

/* Under the lock. */
static CUresult load_module(struct CUctx_st *c, CUmodule *out, const void *image,
                            const struct jit *j)
{
    struct CUmod_st *m;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = load(&m, image, c, j);
    if (r != CUDA_SUCCESS)
        return r;
    if (!enter_handles(m, m, HANDLE_MODULE)) {
        drop_handles(m, m);
        module_unload(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->next = c->modules;
    c->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuModuleLoadDataEx(CUmodule *out, const void *image,
                                     unsigned int count, CUjit_option *options,
                                     void **values)
{
    struct CUctx_st *c;
    struct jit j;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS)
        r = read_options(&j, count, options, values);
    return leave(r == CUDA_SUCCESS ? load_module(c, out, image, &j) : r);
}

EXPORTED CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

EXPORTED CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadDataEx(out, image, 0, NULL, NULL);
}

EXPORTED CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    struct CUctx_st *c;
    struct jit j = {0};
    size_t bytes;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !path)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct arena *scratch = arena_new();
    const char *text = file_read(scratch, path, &bytes);
    j.file = path;
    r = text ? load_module(c, out, text, &j) : CUDA_ERROR_FILE_NOT_FOUND;
    arena_free(scratch);
    return leave(r);
}

static void unload(struct CUctx_st *c, struct CUmod_st *m)
{
    struct CUmod_st **p = &c->modules;
    while (*p != m)
        p = &(*p)->next;
    *p = m->next;
    drop_handles(m, m);
    module_unload(m);
}

void module_unload_all(struct CUctx_st *c)
{
    while (c->modules)
        unload(c, c->modules);
}

static CUresult enter_module(CUmodule m, const void *out)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && handle_kind(m) != HANDLE_MODULE)
        r = CUDA_ERROR_INVALID_HANDLE;
    return r;
}

EXPORTED CUresult cuModuleUnload(CUmodule m)
{
    CUresult r = enter_module(m, m);
    if (r == CUDA_ERROR_INVALID_VALUE)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && handle_kind(m->owner) == HANDLE_LIBRARY)
        r = CUDA_ERROR_NOT_PERMITTED; /* it goes with its library */
    if (r == CUDA_SUCCESS) {
        union {
            const void *in;
            struct CUctx_st *out;
        } owner = {.in = m->owner};
        unload(owner.out, m);
    }
    return leave(r);
}

EXPORTED CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    CUresult r = enter_module(m, out);
    if (r == CUDA_SUCCESS && !name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    *out = module_find_kernel(m, name);
    return leave(*out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

static CUresult find_variable(const struct CUmod_st *m, const char *name,
                              CUdeviceptr *address, size_t *bytes)
{
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct placed_var *v = module_variable(m, name);
    if (!v)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = v->address;
    if (bytes)
        *bytes = v->var->bytes;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule m,
                                       const char *name)
{
    CUresult r = enter_module(m, name);
    return leave(r == CUDA_SUCCESS ? find_variable(m, name, address, bytes) : r);
}

EXPORTED CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && !mode)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *mode = CU_MODULE_EAGER_LOADING;
    return leave(r);
}

EXPORTED CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule m)
{
    CUresult r = enter_module(m, count);
    if (r == CUDA_SUCCESS)
        *count = (unsigned)m->function_count;
    return leave(r);
}

EXPORTED CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count,
                                             CUmodule m)
{
    CUresult r = enter_module(m, functions);
    for (unsigned i = 0;
         r == CUDA_SUCCESS && i < count && i < (unsigned)m->function_count; i++)
        functions[i] = &m->functions[i];
    return leave(r);
}

/* ---- libraries */

static CUresult load_library(CUlibrary *out, const void *image, const struct jit *j)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUlib_st *l = calloc(1, sizeof *l);
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = load(&l->module, image, l, j);
    if (r != CUDA_SUCCESS) {
        free(l);
        return r;
    }
    if (!enter_handles(l->module, l, HANDLE_LIBRARY) ||
        !handle_add(l->module, HANDLE_MODULE)) {
        drop_handles(l->module, l);
        module_unload(l->module);
        free(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = l;
    return CUDA_SUCCESS;
}

static CUresult load_library_of(CUlibrary *out, const void *image, const char *file,
                                const CUjit_option *options, void **values,
                                unsigned int count)
{
    struct jit j;
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = read_options(&j, count, options, values);
    j.file = file;
    return leave(r == CUDA_SUCCESS ? load_library(out, image, &j) : r);
}

/* Options of the library itself (whether to keep the binary) make no difference. */
EXPORTED CUresult cuLibraryLoadData(CUlibrary *out, const void *image,
                                    CUjit_option *jit_options, void **jit_values,
                                    unsigned int jit_count, CUlibraryOption *options,
                                    void **values, unsigned int count)
{
    (void)options;
    (void)values;
    (void)count;
    return load_library_of(out, image, NULL, jit_options, jit_values, jit_count);
}

EXPORTED CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path,
                                        CUjit_option *jit_options, void **jit_values,
                                        unsigned int jit_count,
                                        CUlibraryOption *options, void **values,
                                        unsigned int count)
{
    size_t bytes;
    (void)options;
    (void)values;
    (void)count;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    struct arena *scratch = arena_new();
    const char *text = file_read(scratch, path, &bytes);
    CUresult r =
        text ? load_library_of(out, text, path, jit_options, jit_values, jit_count)
             : CUDA_ERROR_FILE_NOT_FOUND;
    arena_free(scratch);
    return r;
}

static CUresult enter_library(CUlibrary l, const void *out)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(l) != HANDLE_LIBRARY)
        r = CUDA_ERROR_INVALID_HANDLE;
    return r == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : r;
}

EXPORTED CUresult cuLibraryUnload(CUlibrary l)
{
    CUresult r = enter_library(l, l);
    if (r != CUDA_SUCCESS)
        return leave(r);
    drop_handles(l->module, l);
    handle_drop(l->module);
    module_unload(l->module);
    free(l);
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name)
{
    CUresult r = enter_library(l, out && name ? out : NULL);
    if (r != CUDA_SUCCESS)
        return leave(r);
    *out = (CUkernel)(void *)module_find_kernel(l->module, name);
    return leave(*out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

EXPORTED CUresult cuLibraryGetModule(CUmodule *out, CUlibrary l)
{
    CUresult r = enter_library(l, out);
    if (r == CUDA_SUCCESS)
        *out = l->module;
    return leave(r);
}

EXPORTED CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary l,
                                     const char *name)
{
    CUresult r = enter_library(l, l);
    return leave(r == CUDA_SUCCESS ? find_variable(l->module, name, address, bytes)
                                   : r);
}

/* .attribute(.managed) variables lie where the others do. */
EXPORTED CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary l,
                                      const char *name)
{
    return cuLibraryGetGlobal(address, bytes, l, name);
}

EXPORTED CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary l)
{
    CUresult r = enter_library(l, count);
    if (r == CUDA_SUCCESS)
        *count = (unsigned)l->module->function_count;
    return leave(r);
}

EXPORTED CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count,
                                            CUlibrary l)
{
    CUresult r = enter_library(l, kernels);
    if (r != CUDA_SUCCESS)
        return leave(r);
    for (unsigned i = 0; i < count && i < (unsigned)l->module->function_count; i++)
        kernels[i] = (CUkernel)(void *)&l->module->functions[i];
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k)
{
    CUresult r = enter();
    const struct CUfunc_st *f = (const void *)k;
    if (r == CUDA_SUCCESS && handle_kind(k) != HANDLE_FUNCTION)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && (!out || handle_kind(f->module->owner) != HANDLE_LIBRARY))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        union {
            const void *in;
            CUlibrary out;
        } owner = {.in = f->module->owner};
        *out = owner.out;
    }
    return leave(r);
}
