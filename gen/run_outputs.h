/* run_outputs.h - what an epilogue reads and writes beside the operands, on the host:
 * random arguments, and guarded memory for outputs.
 *
 * The lists are in the order of the image. */
#ifndef FP4GEN_RUN_OUTPUTS_H
#define FP4GEN_RUN_OUTPUTS_H

#include "core/base.h"
#include "core/diag.h"
#include "core/image.h"
#include "gen/run_check.h"

struct run_arg {
    const struct image_arg *about;
    uint32_t bits; /* of a scalar */
    bool is_set;   /* by --arg, or chosen for its output */
    size_t rows, cols, ld_bytes;
    uint8_t *data; /* rows x ld_bytes; NULL: a scalar */
    uint64_t address;
};

struct run_output {
    const struct image_output *about;
    struct d_matrix d; /* without bits: amax, one f32 */
    uint8_t *bytes;    /* guard, rows, guard */
    size_t bytes_count;
    uint8_t *scales; /* guard, the 128x4 layout, guard; NULL: none */
    size_t scales_count;
    uint64_t address, scales_address; /* of the guards */
};

struct run_setting { /* --arg name=value */
    const char *name;
    double value;
};

/* Values from -2 to 2, s32 and u32 from 0 to 255; scales, and scalars without a default
 * if they are not set, 0.5 to 2.  False: no memory, or after a report. */
bool run_args_make(struct run_arg *args, const struct image *i, uint32_t m, uint32_t n,
                   uint64_t seed, const struct run_setting *set, int set_count,
                   struct diags *d);
void run_args_free(struct run_arg *args, const struct image *i);
/* Of a scalar. */
double run_arg_value(const struct run_arg *arg);
/* The element's bits: f32 of a narrow one. */
uint32_t run_arg_element(const struct run_arg *arg, size_t row, size_t col);
/* All elements of a vector or tile of floats. */
void run_arg_multiply(struct run_arg *arg, float by);

/* `ldd`: row stride of the first one, 0: the smallest.  False: no memory. */
bool run_outputs_make(struct run_output *outs, const struct image *i, uint32_t m,
                      uint32_t n, uint64_t ldd, uint8_t poison);
void run_outputs_free(struct run_output *outs, const struct image *i);
/* Code of an element, and byte of the scale of columns block * b on. */
uint32_t run_output_code(const struct run_output *o, size_t row, size_t col);
/* Bytes of scales of `rows` rows with `cols` columns. */
size_t run_scale_bytes(size_t rows, size_t cols, size_t block);
size_t run_scale_offset(size_t row, size_t b, size_t cols, size_t block);

#endif
