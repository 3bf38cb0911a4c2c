/* run_data.h - what `gen run` multiplies: random NVFP4 operands, or quantised matrices.
 */
#ifndef FP4GEN_RUN_DATA_H
#define FP4GEN_RUN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fp4.h"

struct npy;

struct operand {
    size_t rows, k;  /* elements */
    size_t ld_bytes; /* row stride of codes */
    uint8_t *codes;  /* rows * ld_bytes */
    uint8_t *scales; /* sf_bytes(rows, k), 128x4 block layout */
    size_t codes_bytes, scales_bytes;
    float global; /* factor of all its values; 1 for random ones */
};

/* rows * row_bytes; false: more than any machine has. */
bool matrix_bytes(uint64_t rows, uint64_t row_bytes, size_t *out);
/* Memory for an operand; false: there is none. */
bool operand_alloc(struct operand *o, size_t rows, size_t k, size_t ld_bytes);
void operand_free(struct operand *o);

/* Codes and scales from `seed`, as docs/numerics.md says; `stream` 0 is A, 1 is B.
 * Whatever a kernel may not read, or may read and must not use, is `pad`: bytes of rows
 * behind k, scales behind k and behind the last row. */
void operand_random(struct operand *o, uint64_t seed, unsigned stream, uint8_t pad);
/* From a matrix with the operand's rows, and k or fewer columns; the rest of k is 0. */
void operand_quantize(struct operand *o, const struct npy *x,
                      enum fp4_rounding rounding, uint8_t pad);

/* From codes and their scales as they are, with the operand's rows and k. */
void operand_take(struct operand *o, const struct npy *codes, const struct npy *scales,
                  uint8_t pad);

/* Rows and columns of the scales of a matrix with one for `block` columns, padding and
 * all: what a layout holds as an array in the order of memory. */
void scales_shape(const char *layout, size_t rows, size_t cols, size_t block,
                  size_t shape[2]);

/* The counter-based generator behind it: the n-th word of a stream. */
uint64_t random_word(uint64_t seed, unsigned stream, uint64_t n);

#endif
