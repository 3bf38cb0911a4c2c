#include "core/fp4.h"
#include "core/base.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SIGN_BIT 0x80000000u
#define MAGNITUDE 0x7fffffffu
#define INF_BITS 0x7f800000u

/* fl(1/6): the block scale is a product with it, so that a kernel needs no division. */
static const float one_sixth = 0x1.555556p-3f;

/* Nearest integer, ties to even, whatever the rounding mode of the thread; x >= 0 and
 * below 2^24. */
static uint32_t round_even(float x)
{
    uint32_t floor = (uint32_t)x;
    float rest = x - (float)floor; /* exact */
    return floor + (rest > 0.5f || (rest == 0.5f && (floor & 1)));
}

/* Counts the midpoints below |x|.  A midpoint itself goes to the even code, hence the
 * alternation of > and >=. */
uint8_t e2m1_encode(float x)
{
    if (isnan(x))
        return 7;
    float a = fabsf(x);
    int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
               (a >= 3.5f) + (a > 5.0f);
    return (uint8_t)(code | (signbit(x) ? 8 : 0));
}

uint8_t e2m1_encode_halfstep(float x)
{
    static const uint8_t code_of_half[13] = {0, 1, 2, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7};
    if (isnan(x))
        return 7;
    float a = fabsf(x);
    uint32_t half = a >= 6.0f ? 12 : round_even(2.0f * a);
    return (uint8_t)(code_of_half[half] | (signbit(x) ? 8 : 0));
}

float e2m1_decode(uint8_t code)
{
    static const float value[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                    4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                    -2.0f, -3.0f, -4.0f, -6.0f};
    return value[code & 15];
}

uint8_t e4m3_encode(float x)
{
    if (isnan(x))
        return 0x7f;
    uint32_t bits = bits_of_f32(x), mag = bits & MAGNITUDE;
    uint32_t sign = bits & SIGN_BIT ? 0x80 : 0;
    float a = f32_of(mag);
    uint32_t code;
    if (a > 448.0f) {
        code = 0x7e;
    } else if (a < 0x1p-6f) { /* subnormal, in steps of 2^-9; 8 is the first normal */
        code = round_even(a * 512.0f);
    } else { /* keep 3 of 23 mantissa bits; a carry runs into the exponent by itself */
        uint32_t kept = mag + 0x7ffff + (mag >> 20 & 1);
        code = (kept >> 20) - ((127 - 7) << 3);
    }
    return (uint8_t)(code | sign);
}

float e4m3_decode(uint8_t code)
{
    uint32_t sign = code & 0x80 ? SIGN_BIT : 0, mag = code & 0x7f;
    if (mag == 0x7f)
        return f32_of(sign | 0x7fc00000u);
    if (mag < 8) /* exponent 0: m * 2^-9 */
        return f32_of(sign | bits_of_f32((float)mag * 0x1p-9f));
    return f32_of(sign | ((mag + ((127 - 7) << 3)) << 20));
}

/* Code 0 is 2^-127, below float's normal range, where 2^-127 is mantissa 0x400000. */
uint8_t ue8m0_encode_up(float x)
{
    uint32_t mag = bits_of_f32(x) & MAGNITUDE;
    if (mag > INF_BITS)
        return 0xff;
    uint32_t exponent = mag >> 23, mantissa = mag & 0x7fffff;
    uint32_t code = exponent + (exponent ? mantissa != 0 : mantissa > 0x400000);
    return (uint8_t)(code > 254 ? 254 : code);
}

uint8_t ue8m0_encode_down(float x)
{
    uint32_t mag = bits_of_f32(x) & MAGNITUDE;
    if (mag > INF_BITS)
        return 0xff;
    uint32_t code = mag >> 23;
    return (uint8_t)(code > 254 ? 254 : code);
}

float ue8m0_decode(uint8_t code)
{
    if (code == 0xff)
        return f32_of(0x7fc00000u);
    return f32_of(code ? (uint32_t)code << 23 : 0x400000u);
}

uint16_t bf16_encode(float x)
{
    if (isnan(x))
        return 0x7fff;
    uint32_t bits = bits_of_f32(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bf16_decode(uint16_t bits)
{
    return f32_of((uint32_t)bits << 16);
}

uint16_t f16_encode(float x)
{
    if (isnan(x))
        return 0x7fff;
    uint32_t bits = bits_of_f32(x), mag = bits & MAGNITUDE;
    uint32_t sign = bits >> 16 & 0x8000;
    float a = f32_of(mag);
    uint32_t code;
    if (a >= 65520.0f) { /* midpoint between the largest and 2^16 */
        code = 0x7c00;
    } else if (a < 0x1p-14f) { /* subnormal, in steps of 2^-24 */
        code = round_even(a * 0x1p24f);
    } else {
        uint32_t kept = mag + 0xfff + (mag >> 13 & 1);
        code = (kept >> 13) - ((127 - 15) << 10);
    }
    return (uint16_t)(code | sign);
}

float f16_decode(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, mag = bits & 0x7fff;
    if (mag >= 0x7c00)
        return f32_of(sign | INF_BITS | (mag & 0x3ff) << 13);
    if (mag < 0x400)
        return f32_of(sign | bits_of_f32((float)mag * 0x1p-24f));
    return f32_of(sign | ((mag + ((127 - 15) << 10)) << 13));
}

size_t sf_bytes(size_t rows, size_t k)
{
    return (rows / 128 + (rows % 128 != 0)) * (k / 64 + (k % 64 != 0)) * 512;
}

/* Not below FLT_MIN: a subnormal global scale would lose bits, and its reciprocal
 * would not be finite. */
float nvfp4_global_scale(float amax)
{
    if (!(amax > 0.0f)) /* all zero, or NaN */
        return 1.0f;
    if (amax > FLT_MAX)
        amax = FLT_MAX;
    float global = amax / (448.0f * 6.0f);
    return global < FLT_MIN ? FLT_MIN : global;
}

struct block_scale {
    uint8_t code;
    float step; /* what an E2M1 code of 1.0 stands for; 0: the block is all zero */
};

static struct block_scale scale_block(const float *x, size_t elems, float global)
{
    float amax = 0.0f;
    for (size_t i = 0; i < elems; i++) {
        float a = fabsf(x[i]);
        if (a > amax) /* false for NaN, as max.f32 takes the other operand */
            amax = a;
    }
    struct block_scale s;
    s.code = e4m3_encode(fabsf(amax * one_sixth / global));
    s.step = e4m3_decode(s.code) * global;
    return s;
}

void nvfp4_quantize(const float *x, size_t rows, size_t k, float global,
                    enum fp4_rounding rounding, uint8_t *codes, size_t ld_bytes,
                    uint8_t *scales)
{
    const size_t k64 = k / 64 + (k % 64 != 0);
    memset(scales, 0, sf_bytes(rows, k));
    for (size_t row = 0; row < rows; row++) {
        const float *from = x + row * k;
        uint8_t *to = codes + row * ld_bytes;
        memset(to, 0, ld_bytes);
        for (size_t first = 0; first < k; first += 16) {
            size_t elems = k - first < 16 ? k - first : 16;
            struct block_scale s = scale_block(from + first, elems, global);
            scales[sf_offset(row, first / 16, k64)] = s.code;
            if (s.code == 0)
                continue;
            for (size_t i = first; i < first + elems; i++) {
                float q = from[i] / s.step;
                uint8_t code =
                    rounding == FP4_HALFSTEP ? e2m1_encode_halfstep(q) : e2m1_encode(q);
                to[i / 2] = (uint8_t)(to[i / 2] | code << i % 2 * 4);
            }
        }
    }
}
