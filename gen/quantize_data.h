/* quantize_data.h - data for the kernels beside the GEMM, and what must come out.
 *
 * The reference is tests/ref.c: quantised blocks bit for bit; where silu is
 * approximate, every scale and code must be one that a value within `silu_error` gives.
 */
#ifndef FP4GEN_QUANTIZE_DATA_H
#define FP4GEN_QUANTIZE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/image.h"

/* A problem on the host.  Outputs lie between guards, and are poisoned. */
struct quantize_data {
    const struct image *image;          /* borrowed */
    size_t m, k;                        /* rows, columns of the codes */
    size_t ldx, ldc, lds, ldf;          /* bytes; lds and ldf of linear scales */
    uint8_t *x, *codes, *scales, *from; /* NULL: the op has none */
    size_t x_bytes, codes_bytes, scales_bytes, from_bytes; /* without guards */
    float global;
    uint32_t seed;
};

#define QUANTIZE_GUARD_BYTES 1024 /* before and behind each array */
#define QUANTIZE_GUARD_BYTE 0xa5  /* there, between rows, and in outputs */

/* image, m, k, strides and global are set; false: no memory.  Inputs are random: mostly
 * numbers of everyday size, some blocks of zeros, a few infinities, NaN, subnormals. */
bool quantize_data_make(struct quantize_data *q, uint64_t seed);
void quantize_data_free(struct quantize_data *q);

/* The element of X (m x k or m x 2k). */
float quantize_x(const struct quantize_data *q, size_t row, size_t col);
void quantize_set_x(struct quantize_data *q, size_t row, size_t col, float x);
/* Of what is quantised, over the finite values. */
float quantize_amax(const struct quantize_data *q);
/* Byte of the scale of (row, block of 16) in a layout. */
size_t quantize_scale_at(const char *layout, size_t row, size_t block, size_t k,
                         size_t ld);

struct quantize_verdict {
    uint64_t values, blocks;
    uint64_t wrong;     /* codes, scales, elements of X */
    uint64_t strayed;   /* bytes that must not change, and scales of padding not 0 */
    size_t row, col;    /* of the first wrong one */
    unsigned got, want; /* its code, scale, or bits */
    const char *what;   /* "code", "scale", "element" */
    const char *strayed_in;
    size_t stray_at; /* bytes from the start of the array; may be in a guard */
};
/* Looks at what came back; in `threads` threads. */
struct quantize_verdict quantize_compare(const struct quantize_data *q, int threads);

#endif
