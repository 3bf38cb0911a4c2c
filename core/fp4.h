/* fp4.h - E2M1, UE4M3, UE8M0 on the host: encode, decode, pack; scale layouts.
 *
 * Rounding is to nearest, ties to even, as the hardware conversions do it
 * (PTX ISA 9.0, "cvt": e2m1x2, e4m3x2, ue8m0x2). */
#ifndef FP4GEN_FP4_H
#define FP4GEN_FP4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fp4_rounding {
    FP4_NEAREST,  /* one rounding: the hardware's */
    FP4_HALFSTEP, /* two roundings through half steps, for existing caches */
};

/* 4-bit code; saturates at 6; NaN gives +6 (code 7), as cvt.rn.satfinite does. */
uint8_t e2m1_encode(float x);
uint8_t e2m1_encode_halfstep(float x);
float e2m1_decode(uint8_t code); /* low 4 bits */
/* 8-bit code with the sign bit; saturates at 448 (0x7e); NaN gives 0x7f. */
uint8_t e4m3_encode(float x);
float e4m3_decode(uint8_t code);    /* 0x7f and 0xff: NaN */
uint8_t ue8m0_encode_up(float x);   /* cvt.rp.satfinite */
uint8_t ue8m0_encode_down(float x); /* cvt.rz.satfinite */
float ue8m0_decode(uint8_t code);
uint16_t bf16_encode(float x); /* nearest even; NaN: 0x7fff */
float bf16_decode(uint16_t bits);
uint16_t f16_encode(float x);
float f16_decode(uint16_t bits);

/* Byte offset of the scale of (row, kb) in the 128x4 block layout; k64 = ceil(K/64). */
static inline size_t sf_offset(size_t row, size_t kb, size_t k64)
{
    return ((row / 128) * k64 + kb / 4) * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 +
           kb % 4;
}
size_t sf_bytes(size_t rows, size_t k); /* ceil(rows/128) * ceil(k/64) * 512 */

/* docs/numerics.md: global = amax / (448 * 6), finite and positive always. */
float nvfp4_global_scale(float amax);
/* rows x k floats (row stride k) to packed codes (row stride ld_bytes) and scales in
 * the 128x4 layout; padding of both is set to 0.  A block whose scale is 0 gets zero
 * codes.  NaN in a block: see docs/numerics.md. */
void nvfp4_quantize(const float *x, size_t rows, size_t k, float global,
                    enum fp4_rounding rounding, uint8_t *codes, size_t ld_bytes,
                    uint8_t *scales);

#endif
