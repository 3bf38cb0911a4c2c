/* mma_fp4.c - choice of the vector path, the scalar path, and the exact sum.
 *
 * Elements are held doubled (E2M1 counts in halves), so that a block of 16 products is
 * an integer of at most 16 * 12 * 12 = 2304 quarters.  A UE4M3 scale has four
 * significant bits and spans 2^-9 .. 448: the sum of four scaled blocks always fits the
 * 53 bits of an f64, and for scales of similar size the 24 bits of an f32.  UE8M0
 * scales may lie 2^254 apart; such sums are formed in fixed point. */
#include "emu/mma_fp4.h"
#include "core/base.h"
#include "emu/wide.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const int8_t halves[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                  0, -1, -2, -3, -4, -6, -8, -12};

/* ---- scales */

/* Eight neighbours of one exponent: 1.0, 1.125 ... 1.875 times 8 * ulp. */
#define UE4M3_ROW(ulp)                                                                 \
    8 * (ulp), 9 * (ulp), 10 * (ulp), 11 * (ulp), 12 * (ulp), 13 * (ulp), 14 * (ulp),  \
        15 * (ulp)

static const float ue4m3[128] = {
    0,
    1 / 512.f,
    2 / 512.f,
    3 / 512.f,
    4 / 512.f,
    5 / 512.f,
    6 / 512.f,
    7 / 512.f,
    UE4M3_ROW(1 / 512.f),
    UE4M3_ROW(1 / 256.f),
    UE4M3_ROW(1 / 128.f),
    UE4M3_ROW(1 / 64.f),
    UE4M3_ROW(1 / 32.f),
    UE4M3_ROW(1 / 16.f),
    UE4M3_ROW(1 / 8.f),
    UE4M3_ROW(1 / 4.f),
    UE4M3_ROW(1 / 2.f),
    UE4M3_ROW(1.f),
    UE4M3_ROW(2.f),
    UE4M3_ROW(4.f),
    UE4M3_ROW(8.f),
    UE4M3_ROW(16.f),
    8 * 32.f,
    9 * 32.f,
    10 * 32.f,
    11 * 32.f,
    12 * 32.f,
    13 * 32.f,
    14 * 32.f,
    NAN,
};

float mma_fp4_scale(uint8_t code, bool ue8m0)
{
    if (!ue8m0)
        return ue4m3[code & 0x7f];
    if (code == 0xff)
        return NAN;
    return ldexpf(1, code - 127);
}

/* ---- one element */

int32_t mma_fp4_block_sum(const uint8_t *a, const uint8_t *b)
{
    int32_t sum = 0;
    for (int i = 0; i < MMA_ROW_BYTES / MMA_BLOCKS; i++)
        sum += halves[a[i] & 15] * halves[b[i] & 15] +
               halves[a[i] >> 4] * halves[b[i] >> 4];
    return sum;
}

int32_t mma_fp4_scale_parts(uint8_t code, bool ue8m0, int *exponent)
{
    if (ue8m0) {
        *exponent = code - 127;
        return 1;
    }
    code &= 0x7f;
    *exponent = code < 8 ? -9 : code / 8 - 10;
    return code < 8 ? code : 8 + code % 8;
}

static uint32_t result_bits(float f)
{
    return f != f ? 0x7fffffff : bits_of_f32(f);
}

uint32_t mma_fp4_exact(const struct mma_fp4 *m, int lane, int column, uint32_t d)
{
    const uint8_t nan = m->ue8m0 ? 0xff : 0x7f;
    struct wide sum = {{0}};
    for (int i = 0; i < MMA_BLOCKS; i++) {
        uint8_t sa = m->sfa[lane * MMA_BLOCKS + i] & nan;
        uint8_t sb = m->sfb[column * MMA_BLOCKS + i] & nan;
        if (sa == nan || sb == nan)
            return 0x7fffffff;
        int ea, eb;
        int32_t scale = mma_fp4_scale_parts(sa, m->ue8m0, &ea) *
                        mma_fp4_scale_parts(sb, m->ue8m0, &eb);
        int32_t block = mma_fp4_block_sum(m->a + lane * MMA_ROW_BYTES + i * 8,
                                          m->b + column * MMA_ROW_BYTES + i * 8);
        wide_add(&sum, (int64_t)(m->negate ? -block : block) * scale, ea + eb - 2);
    }
    uint32_t exponent = d >> 23 & 0xff, fraction = d & 0x7fffff;
    if (exponent == 0xff)
        return fraction != 0 ? 0x7fffffff : d;
    int64_t significand = exponent != 0 ? 0x800000 | fraction : fraction;
    wide_add(&sum, d >> 31 ? -significand : significand,
             exponent != 0 ? (int)exponent - 150 : -149);
    return result_bits(wide_round(&sum));
}

/* Rounds the exact sum x + d once.  Where the f64 sum is inexact its last bit is made
 * odd, which keeps the second rounding, to 24 bits, from seeing a false tie. */
static float round_once(double x, double d)
{
    double sum = x + d;
    double back = sum - x;
    double error = (x - (sum - back)) + (d - back);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && (bits & 1) == 0 && isfinite(sum)) {
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
        memcpy(&sum, &bits, sizeof bits);
    }
    return (float)sum;
}

uint32_t mma_fp4_element(const struct mma_fp4 *m, int lane, int column, uint32_t d)
{
    if (m->mode == MMA_HARDWARE)
        return mma_model_element(m, lane, column, d);
    const uint8_t *sfa = m->sfa + lane * MMA_BLOCKS,
                  *sfb = m->sfb + column * MMA_BLOCKS;
    if (mma_fp4_sum(mma_fp4_span(sfa, MMA_BLOCKS, m->ue8m0),
                    mma_fp4_span(sfb, MMA_BLOCKS, m->ue8m0)) == MMA_SUM_WIDE)
        return mma_fp4_exact(m, lane, column, d);
    double x = 0;
    for (int i = 0; i < MMA_BLOCKS; i++)
        x += mma_fp4_block_sum(m->a + lane * MMA_ROW_BYTES + i * 8,
                               m->b + column * MMA_ROW_BYTES + i * 8) *
             ((double)mma_fp4_scale(sfa[i], m->ue8m0) * (m->negate ? -.25 : .25) *
              (double)mma_fp4_scale(sfb[i], m->ue8m0));
    return result_bits(round_once(x, (double)f32_of(d)));
}

void mma_fp4_scalar(const struct mma_fp4 *m)
{
    struct mma_span span_a = mma_fp4_span(m->sfa, MMA_LANES * MMA_BLOCKS, m->ue8m0);
    for (int column = 0; column < m->n; column++) {
        const uint8_t *sfb = m->sfb + column * MMA_BLOCKS;
        const uint8_t *b = m->b + column * MMA_ROW_BYTES;
        bool wide = mma_fp4_sum(span_a, mma_fp4_span(sfb, MMA_BLOCKS, m->ue8m0)) ==
                    MMA_SUM_WIDE;
        double scale_b[MMA_BLOCKS];
        for (int i = 0; i < MMA_BLOCKS; i++)
            scale_b[i] =
                (m->negate ? -.25 : .25) * (double)mma_fp4_scale(sfb[i], m->ue8m0);
        for (int lane = 0; lane < MMA_LANES; lane++) {
            uint32_t *d = m->d + column * MMA_LANES + lane;
            uint32_t old = m->accumulate ? *d : 0;
            if (wide) {
                *d = mma_fp4_exact(m, lane, column, old);
                continue;
            }
            double x = 0;
            for (int i = 0; i < MMA_BLOCKS; i++)
                x += mma_fp4_block_sum(m->a + lane * MMA_ROW_BYTES + i * 8, b + i * 8) *
                     ((double)mma_fp4_scale(m->sfa[lane * MMA_BLOCKS + i], m->ue8m0) *
                      scale_b[i]);
            *d = result_bits(round_once(x, (double)f32_of(old)));
        }
    }
}

/* ---- choice */

static const char *const isa_names[MMA_ISA_COUNT] = {"scalar", "avx2", "avx512"};

static const char *const mode_names[MMA_MODE_COUNT] = {"reference", "hardware"};

const char *mma_isa_name(enum mma_isa isa)
{
    return isa_names[isa];
}

const char *mma_mode_name(enum mma_mode mode)
{
    return mode_names[mode];
}

bool mma_isa_available(enum mma_isa isa)
{
    switch (isa) {
    case MMA_SCALAR:
        return true;
#if defined(__x86_64__)
    case MMA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case MMA_AVX512:
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni") && mma_isa_available(MMA_AVX2);
#endif
    default:
        return false;
    }
}

bool mma_isa_choose(const char *name, enum mma_isa *isa, char *why, size_t why_bytes)
{
    if (name == NULL || name[0] == 0) {
        *isa = MMA_AVX512;
        while (!mma_isa_available(*isa))
            *isa = (enum mma_isa)(*isa - 1);
        return true;
    }
    for (int i = 0; i < MMA_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) != 0)
            continue;
        *isa = (enum mma_isa)i;
        if (mma_isa_available(*isa))
            return true;
        snprintf(why, why_bytes, "this CPU or build has no %s", name);
        return false;
    }
    snprintf(why, why_bytes, "there is no such path");
    return false;
}

void mma_fp4(enum mma_isa isa, const struct mma_fp4 *m)
{
    assert(m->n > 0 && m->n <= MMA_MAX_N && m->n % 8 == 0);
    bool model = m->mode == MMA_HARDWARE;
    switch (isa) {
#if defined(__x86_64__)
    case MMA_AVX512:
        (model ? mma_model_avx512 : mma_fp4_avx512)(m);
        return;
    case MMA_AVX2:
        (model ? mma_model_avx2 : mma_fp4_avx2)(m);
        return;
#endif
    default:
        (model ? mma_model_scalar : mma_fp4_scalar)(m);
        return;
    }
}
