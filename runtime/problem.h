/* problem.h - one call of fp4gen_run: sizes and strides checked, outputs and arguments
 * found by their names and put in the order of the manifest. */
#ifndef FP4GEN_RUNTIME_PROBLEM_H
#define FP4GEN_RUNTIME_PROBLEM_H

#include <stdbool.h>

#include "core/image.h"
#include "runtime/fp4gen.h"

struct problem {
    fp4gen_gemm g; /* strides are complete */
    fp4gen_output outputs[IMAGE_MAX_OUTPUTS];
    struct problem_arg {
        uint32_t bits; /* of a scalar */
        uint64_t address, ld;
    } args[IMAGE_MAX_ARGS];
};

/* `addresses` false: looks at sizes and strides alone, and misses nothing else. */
fp4gen_status problem_make(struct problem *p, const struct image *i,
                           const fp4gen_gemm *g, bool addresses, fp4gen_error *err);
uint64_t output_row_bytes(const struct image_output *o, uint32_t n);

#endif
