/* mma_model.c - the FP4 mma as hardware was measured to do it, in integers.
 *
 * A term is an integer below 2^19 (a block's sum in quarters, times two significands of
 * four bits) with 8 fraction bits, or D's significand with 23; shifted to 35 fraction
 * bits of the largest exponent, five of them fit 50 bits. */
#include "emu/mma_fp4.h"

#include <math.h>
#include <string.h>

int mma_model_scale_exponent(uint8_t code, bool ue8m0)
{
    int exponent;
    int32_t significand = mma_fp4_scale_parts(code, ue8m0, &exponent);
    if (significand == 0)
        return MMA_NO_EXPONENT;
    return ue8m0 ? exponent : exponent + 3; /* of a significand 1.000 to 1.111 */
}

/* `value` units of 2^-fraction, at `below` under the largest exponent, in units of
 * 2^-35, cut towards zero. */
static int64_t align(int64_t value, int fraction, int below)
{
    int left = MMA_MODEL_FRACTION - fraction - below;
    if (left >= 0)
        return value * ((int64_t)1 << left);
    return left > -63 ? value / ((int64_t)1 << -left) : 0;
}

/* sum * 2^(exponent - 35), cut towards zero to what an f32 holds. */
static uint32_t cut_to_f32(int64_t sum, int exponent)
{
    uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
    int unit = exponent - MMA_MODEL_FRACTION; /* exponent of the lowest bit */
    while (magnitude >> 24 != 0 || (unit < -149 && magnitude != 0)) {
        magnitude >>= 1;
        unit++;
    }
    float f = ldexpf((float)magnitude, unit);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return sum < 0 && bits != 0 ? bits | 0x80000000 : bits;
}

uint32_t mma_model_element(const struct mma_fp4 *m, int lane, int column, uint32_t d)
{
    const uint8_t nan = m->ue8m0 ? 0xff : 0x7f;
    int64_t terms[MMA_BLOCKS];
    int exponents[MMA_BLOCKS], largest = mma_model_d_exponent(d);
    for (int i = 0; i < MMA_BLOCKS; i++) {
        uint8_t sa = m->sfa[lane * MMA_BLOCKS + i] & nan;
        uint8_t sb = m->sfb[column * MMA_BLOCKS + i] & nan;
        if (sa == nan || sb == nan)
            return 0x7fffffff;
        int ignored;
        int64_t scale = (int64_t)mma_fp4_scale_parts(sa, m->ue8m0, &ignored) *
                        mma_fp4_scale_parts(sb, m->ue8m0, &ignored);
        /* A UE8M0 significand of 1 counts as 1.000. */
        scale *= m->ue8m0 ? 64 : 1;
        int32_t block = mma_fp4_block_sum(m->a + lane * MMA_ROW_BYTES + i * 8,
                                          m->b + column * MMA_ROW_BYTES + i * 8);
        terms[i] = (m->negate ? -block : block) * scale;
        exponents[i] = mma_model_scale_exponent(sa, m->ue8m0) +
                       mma_model_scale_exponent(sb, m->ue8m0);
        largest = exponents[i] > largest ? exponents[i] : largest;
    }
    uint32_t fraction = d & 0x7fffff;
    if ((d >> 23 & 0xff) == 0xff)
        return fraction != 0 ? 0x7fffffff : d;
    int64_t significand = d >> 23 & 0xff ? 0x800000 | fraction : fraction;
    int64_t sum = align(d >> 31 ? -significand : significand, 23,
                        largest - mma_model_d_exponent(d));
    for (int i = 0; i < MMA_BLOCKS; i++)
        sum += align(terms[i], 8, largest - exponents[i]);
    return cut_to_f32(sum, largest);
}

void mma_model_scalar(const struct mma_fp4 *m)
{
    for (int column = 0; column < m->n; column++)
        for (int lane = 0; lane < MMA_LANES; lane++) {
            uint32_t *d = m->d + column * MMA_LANES + lane;
            *d = mma_model_element(m, lane, column, m->accumulate ? *d : 0);
        }
}
