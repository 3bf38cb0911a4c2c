/* device_gemm.h - a generated kernel on the emulator, as a function of host arrays. */
#ifndef FP4GEN_DEVICE_GEMM_H
#define FP4GEN_DEVICE_GEMM_H

#include <stdbool.h>

#include "tests/ref.h"

struct device_gemm;

/* The f32 kernel of a tile; a failure fails the test. */
struct device_gemm *device_gemm_open(const char *tile_n, const char *tile_k);
void device_gemm_close(struct device_gemm *d);
/* g's product into the m x n floats at `out`; alpha by value or through memory. */
void device_gemm_run(struct device_gemm *d, const struct ref_gemm *g,
                     bool alpha_on_device, float *out);

#endif
