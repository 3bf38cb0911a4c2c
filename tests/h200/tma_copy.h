/* tma_copy.h - libfp4gen on a real sm_90 GPU, or on the emulator as one. */
#ifndef FP4GEN_TMA_COPY_H
#define FP4GEN_TMA_COPY_H

#include <stdio.h>

#include "runtime/fp4gen.h"

/* Loads `ptx` (tma_copy.ptx), copies matrices of several shapes and compares every
 * byte; then asks what happens when things go wrong.  Prints a line a step to `out`,
 * the last is "PASS" or "FAIL" with the device's name.  Returns the number of failed
 * steps. */
int tma_copy_test(fp4gen_driver driver, const char *ptx, size_t ptx_bytes, FILE *out);

#endif
