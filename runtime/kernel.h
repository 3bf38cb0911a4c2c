/* kernel.h - a loaded kernel, for the other files of the runtime. */
#ifndef FP4GEN_RUNTIME_KERNEL_H
#define FP4GEN_RUNTIME_KERNEL_H

#include "core/image.h"
#include "runtime/module.h"

struct fp4gen_kernel {
    struct image image; /* its ptx is not kept */
    fp4gen_module *module;
    CUfunction function;
    CUfunction amax; /* of kernels to codes, else NULL */
    uint32_t sm_count;
    uint64_t zeros; /* on the device: the operands of a GEMM with k = 0 */
};

/* FP4GEN_OK when the kernel is one that `function` launches: a GEMM or not. */
fp4gen_status kernel_is_for(const fp4gen_kernel *k, bool gemm, const char *function,
                            fp4gen_error *err);

/* Runs `work` between two events of the stream, and waits for it. */
typedef fp4gen_status kernel_work(fp4gen_kernel *k, const void *args,
                                  fp4gen_error *err);
fp4gen_status kernel_timed(fp4gen_kernel *k, kernel_work *work, const void *args,
                           void *on_stream, float *milliseconds, fp4gen_error *err);

#endif
