/* quantize_device.h - a kernel beside the GEMM on the emulator, over the host arrays of
 * gen/quantize_data.h. */
#ifndef FP4GEN_QUANTIZE_DEVICE_H
#define FP4GEN_QUANTIZE_DEVICE_H

#include "gen/job.h"
#include "gen/quantize_data.h"
#include "runtime/fp4gen.h"

struct quantize_device {
    struct job *job;
    fp4gen_device *dev;
    fp4gen_kernel *kernel;
};

/* "quantize_nvfp4 target=sm_80 layout=linear": a config and its fields.  A failure
 * fails the test. */
struct quantize_device quantize_open(const char *words);
void quantize_close(struct quantize_device *q);

/* Where the global scale comes from. */
enum quantize_global {
    GLOBAL_BY_VALUE, /* data->global */
    GLOBAL_BY_POINTER,
    GLOBAL_BY_AMAX, /* a first pass; data->global is what the kernel took */
};

/* A problem of the kernel: strides that are 0 become the least, and data is random. */
struct quantize_data quantize_problem(const struct quantize_device *q, size_t m,
                                      size_t k, size_t more_stride, uint64_t seed);
/* Runs it; codes, scales or X come back into `data`. */
void quantize_run(struct quantize_device *q, struct quantize_data *data,
                  enum quantize_global global);
/* ... and compares; anything wrong fails the test. */
void quantize_check(struct quantize_device *q, struct quantize_data *data,
                    enum quantize_global global);

#endif
