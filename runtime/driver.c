/* dladdr: POSIX.1-2024, and glibc's under _GNU_SOURCE since long before. */
#define _GNU_SOURCE
#include "runtime/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/error.h"

/* PTX ISA 9.0, "Release Notes": the CUDA release that brought each version. */
static const struct {
    int ptx, driver;
} ptx_versions[] = {
    {80, 12000}, {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040}, {85, 12050},
    {86, 12070}, {87, 12080}, {88, 12090}, {90, 13000}, {91, 13010},
};

int driver_version_for_ptx(int ptx_version)
{
    for (size_t i = 0; i < COUNT_OF(ptx_versions); i++)
        if (ptx_versions[i].ptx >= ptx_version)
            return ptx_versions[i].driver;
    return 0;
}

fp4gen_status fail_cuda(const struct driver *d, fp4gen_error *err, fp4gen_status status,
                        CUresult r, const char *doing, const char *what)
{
    const char *name = "unknown error", *text = "the driver has no text for it";
    d->cuGetErrorName(r, &name);
    d->cuGetErrorString(r, &text);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        status = FP4GEN_OUT_OF_MEMORY;
    fail(err, status, ERROR(CUDA_CALL), doing, what ? " " : "", what ? what : "",
         name ? name : "unknown error", (int)r, text ? text : "");
    if (err)
        err->cuda = (int)r;
    return status;
}

/* The file that a program of `path` or a library of `path` finds the emulator in: in
 * the source tree and, behind fp4gen/, where `make install` puts it. */
static void *open_beside(const char *path, const char *lib)
{
    static const char *const places[] = {"emu", "fp4gen/emu"};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < COUNT_OF(places); i++) {
        char file[PATH_MAX + 64];
        snprintf(file, sizeof file, "%.*s/%s%s/libcuda.so.1", (int)(slash - path), path,
                 lib, places[i]);
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

/* FP4GEN_EMU_LIB; else below the directory of libfp4gen.so or ../lib of the program. */
static void *open_emulator(fp4gen_error *err)
{
    /* The emulator carries the real driver's SONAME.  Whichever is loaded first answers
     * to the bare name from then on, so the real one, if there is one, goes first. */
    dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    const char *named = getenv("FP4GEN_EMU_LIB");
    if (named && *named) {
        void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail(err, FP4GEN_NO_DRIVER, ERROR(EMU_LIB), named, dlerror());
        else if (!dlsym(library, "cuInit"))
            fail(err, FP4GEN_NO_DRIVER, ERROR(EMU_FOREIGN), named);
        else
            return library;
        return NULL;
    }
    void *library = NULL;
    char program[PATH_MAX] = "?";
    Dl_info self = {.dli_fname = NULL};
    if (dladdr((const void *)ptx_versions, &self) && self.dli_fname)
        library = open_beside(self.dli_fname, "");
    ssize_t chars = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!library && chars > 0) {
        program[chars] = '\0';
        library = open_beside(program, "../lib/");
    }
    if (!library)
        fail(err, FP4GEN_NO_DRIVER, ERROR(EMU_NOT_FOUND),
             self.dli_fname ? self.dli_fname : "?", program);
    return library;
}

/* Where there is no real driver, the emulator that this process has opened before
 * answers to its name: it is not what is asked for.  An emulator that the whole program
 * sees is: gen-emu has put it there in place of the driver. */
static void *open_real(fp4gen_error *err)
{
    static const char *const emulators_own = "fp4emu_version";
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(err, FP4GEN_NO_DRIVER, ERROR(NO_LIBCUDA), dlerror());
    else if (dlsym(library, emulators_own) && !dlsym(RTLD_DEFAULT, emulators_own))
        fail(err, FP4GEN_NO_DRIVER, ERROR(NO_LIBCUDA),
             "libcuda.so.1 is the emulator that this process has opened before");
    else
        return library;
    return NULL;
}

/* POSIX: a pointer from dlsym may be taken for a function pointer through its bytes. */
static bool find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

fp4gen_status driver_open(struct driver *d, fp4gen_driver which, fp4gen_error *err)
{
    memset(d, 0, sizeof *d);
    d->library = which == FP4GEN_DRIVER_EMU ? open_emulator(err) : open_real(err);
    if (!d->library)
        return FP4GEN_NO_DRIVER;
    PFN_cuDriverGetVersion_v2020 get_version;
    if (find_symbol(d->library, "cuDriverGetVersion", &get_version))
        get_version(&d->version);
    d->emulated = dlsym(d->library, "fp4emu_version") != NULL;
    const char *missing = NULL;
    int since = 0;
#define DRIVER_BOTH(type, symbol, spelling, version)                                   \
    if (!find_symbol(d->library, spelling, &d->symbol) && (version) > since) {         \
        missing = spelling;                                                            \
        since = version;                                                               \
    }
#define DRIVER_EMU(type, symbol, spelling, version)
#define DRIVER_REFUSED(type, symbol, spelling, version)
#define DRIVER(symbol, asked, version, stream, who)                                    \
    DRIVER_##who(PFN_##asked##_v##version, symbol, #symbol, version)
#include "core/driver.def"
#undef DRIVER
#undef DRIVER_BOTH
#undef DRIVER_EMU
#undef DRIVER_REFUSED
    if (missing)
        return fail(err, FP4GEN_NO_DRIVER, ERROR(DRIVER_SYMBOL), missing,
                    d->version / 1000, d->version % 1000 / 10, since / 1000,
                    since % 1000 / 10);
    CUresult r = d->cuInit(0);
    if (r)
        return fail_cuda(d, err, FP4GEN_NO_DEVICE, r, "starting the driver (cuInit)",
                         NULL);
    return FP4GEN_OK;
}
