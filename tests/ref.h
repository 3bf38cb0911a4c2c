/* ref.h - what an NVFP4 GEMM and its number formats are by definition.
 *
 * Written to be believed, not to be fast: decode tables as literals, rounding by a
 * search for the nearest value, double precision, its own loops and its own layout
 * arithmetic.  It includes nothing of core, so that a misreading there cannot hide.
 * The tests and `gen run --check` compare against it. */
#ifndef FP4GEN_REF_H
#define FP4GEN_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decoding.  OCP MX 1.0, section 5.3; PTX ISA 9.0, "Alternate Floating Point Data
 * Formats". */
double ref_e2m1(unsigned code);  /* low 4 bits */
double ref_e4m3(unsigned byte);  /* 0x7f and 0xff: NaN */
double ref_ue4m3(unsigned byte); /* the sign bit is ignored; 0x7f: NaN */
double ref_ue8m0(unsigned byte); /* 0xff: NaN */
double ref_bf16(unsigned bits);

/* Encoding: the nearest value, of two equally near ones the one with the even code;
 * beyond the largest the largest.  NaN: E2M1 gives 7 (+6), E4M3 0x7f. */
unsigned ref_e2m1_nearest(double x);
unsigned ref_e4m3_nearest(double x);
/* The two roundings of the field reports: half steps of min(|x|, 6), then a table. */
unsigned ref_e2m1_halfstep(double x);
/* One of the two values round x, by 16 random bits that follow from the seed and the
 * element's place (docs/epilogues.md, "Stochastic rounding"). */
unsigned ref_e2m1_stochastic(double x, uint32_t row, uint32_t col, uint32_t seed);
/* bf16 overflows to infinity; NaN gives 0x7fff. */
unsigned ref_bf16_nearest(double x);
/* Distance between the neighbours of x in f32 or bf16; x need not be representable. */
double ref_f32_ulp(double x);
double ref_bf16_ulp(double x);

/* Byte offset of the scale of columns 16*kb .. 16*kb+15 of `row` in the 128x4 block
 * layout of a matrix with k columns; and the bytes of the whole layout. */
size_t ref_sf_offset(size_t row, size_t kb, size_t k);
size_t ref_sf_bytes(size_t rows, size_t k);

/* One block of `count` values (16 for NVFP4): its scale byte and one code a byte.
 *   t = amax * (1/6) / global, scale = e4m3(t), code = e2m1(x / (scale * global)),
 * each operation rounded to f32; a scale of 0 gives codes of 0.  NaN does not count
 * for amax. */
void ref_quantize_block(const float *x, size_t count, float global, bool halfstep,
                        uint8_t *codes, uint8_t *scale);

/* One block of MXFP4 or MXFP8: scale = 2^(byte - 127), the least that keeps amax within
 * the largest value of the elements; code = the nearest to x / scale.  NaN does not
 * count for amax; an infinite amax counts as 2^128. */
enum ref_mx { REF_MXFP4, REF_MXFP4_HALFSTEP, REF_MXFP8_E4M3, REF_MXFP8_E5M2 };
void ref_quantize_mx(const float *x, size_t count, enum ref_mx format, uint8_t *codes,
                     uint8_t *scale);
double ref_e5m2(unsigned byte);
unsigned ref_e5m2_nearest(double x); /* saturates; NaN: 0x7f */

struct ref_gemm {
    size_t m, n, k;
    const uint8_t *a, *b;     /* packed E2M1, low nibble first */
    size_t lda, ldb;          /* bytes */
    const uint8_t *sfa, *sfb; /* 128x4 block layout */
    double alpha;
};

/* alpha * sum of a*b, and |alpha| * sum of |a*b|, with the scales in a and b. */
struct ref_dot {
    double value, magnitude;
};

struct ref_dot ref_gemm_element(const struct ref_gemm *g, size_t row, size_t col);
/* Elements (row0..row1-1) x (col0..col1-1), row by row without gaps.  Faster than one
 * by one, since every value is decoded once.  False: out of memory. */
bool ref_gemm(const struct ref_gemm *g, size_t row0, size_t row1, size_t col0,
              size_t col1, struct ref_dot *out);

/* How far a right D element may be from `r`: (K/64 + 1) 2^-23 of the magnitude, since
 * each MMA may lose one unit of the last place by truncation, and half an ulp of the
 * output.  The f32 product with alpha is rounded as well, which is inside the "+ 1". */
double ref_bound(struct ref_dot r, size_t k, bool d_is_f32);
/* |d - r.value| as a fraction of the bound: right up to 1.  Infinite where one of the
 * two is NaN and the other is not. */
double ref_error(double d, struct ref_dot r, size_t k, bool d_is_f32);

#endif
