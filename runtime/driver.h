/* driver.h - libcuda.so.1, the real one or the emulator, and a table of its functions.
 *
 * Nothing links to libcuda: a program that uses fp4gen starts on a machine without a
 * driver.  The rows of core/driver.def that the runtime uses become members, named
 * and typed by their ABI version (NVIDIA's cudaTypedefs.h). */
#ifndef FP4GEN_RUNTIME_DRIVER_H
#define FP4GEN_RUNTIME_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdbool.h>

#include "runtime/fp4gen.h"

struct driver {
    void *library; /* of dlopen; never closed, a driver has threads of its own */
    bool emulated;
    int version; /* as cuDriverGetVersion: 12090 */
#define DRIVER_BOTH(type, symbol, spelling, version) type symbol;
#define DRIVER_EMU(type, symbol, spelling, version)
#define DRIVER_REFUSED(type, symbol, spelling, version)
#define DRIVER(symbol, asked, version, stream, who)                                    \
    DRIVER_##who(PFN_##asked##_v##version, symbol, #symbol, version)
#include "core/driver.def"
#undef DRIVER
#undef DRIVER_BOTH
#undef DRIVER_EMU
#undef DRIVER_REFUSED
};

/* FP4GEN_DRIVER_CUDA or FP4GEN_DRIVER_EMU; calls cuInit. */
fp4gen_status driver_open(struct driver *d, fp4gen_driver which, fp4gen_error *err);

/* "DOING failed: CUDA_ERROR_... (1), invalid argument"; `what`, may be NULL, is added
 * to DOING.  Returns `status`, or FP4GEN_OUT_OF_MEMORY if that is what `r` says. */
fp4gen_status fail_cuda(const struct driver *d, fp4gen_error *err, fp4gen_status status,
                        CUresult r, const char *doing, const char *what);

/* Lowest driver version that takes PTX of `ptx_version` (times ten), 0: not known. */
int driver_version_for_ptx(int ptx_version);

#endif
