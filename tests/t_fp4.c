/* Numerics of core/fp4.c.  The oracle is the definition itself: among all values of a
 * format the nearest one, of two equally near the one with the even code.  It shares
 * nothing with the code under test but IEEE doubles. */
#include "core/fp4.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Value of a small float format, from its definition. */
static double format_value(unsigned code, int mantissa_bits, int bias)
{
    int exponent = (int)(code >> mantissa_bits);
    double mantissa = code & ((1u << mantissa_bits) - 1);
    double one = (double)(1u << mantissa_bits);
    return exponent ? ldexp(1 + mantissa / one, exponent - bias)
                    : ldexp(mantissa / one, 1 - bias);
}

/* Code of the value nearest to a >= 0 among codes 0..last. */
static unsigned nearest(double a, unsigned last, int mantissa_bits, int bias)
{
    unsigned best = 0;
    if (a > format_value(last, mantissa_bits, bias)) /* differences would round away */
        return last;
    for (unsigned code = 1; code <= last; code++) {
        double d = fabs(format_value(code, mantissa_bits, bias) - a);
        double best_d = fabs(format_value(best, mantissa_bits, bias) - a);
        if (d < best_d || (d == best_d && code % 2 == 0))
            best = code;
    }
    return best;
}

/* Floats that matter: every sign, exponent and leading mantissa bit, with the bits
 * below at, above and under the middle. */
#define SAMPLES (0x10000u * 6)

static float sample(uint32_t i)
{
    static const uint32_t low_bits[6] = {0x0000, 0x0001, 0x7fff,
                                         0x8000, 0x8001, 0xffff};
    return f32_of((i / 6) << 16 | low_bits[i % 6]);
}

/* N1 */
TEST(e2m1_rounds_once)
{
    CHECK_EQ(e2m1_encode(5.25f), 7);
    CHECK_EQ(e2m1_encode(5.1f), 7);
    CHECK_EQ(e2m1_encode(2.6f), 5);
    CHECK_EQ(e2m1_encode(3.3f), 5);
    CHECK_EQ(e2m1_encode(-5.1f), 15);
}

/* N1, the mode that existing caches were written with */
TEST(halfstep_rounds_twice)
{
    CHECK_EQ(e2m1_encode_halfstep(5.25f), 6);
    CHECK_EQ(e2m1_encode_halfstep(5.1f), 6);
    CHECK_EQ(e2m1_encode_halfstep(2.6f), 4);
    CHECK_EQ(e2m1_encode_halfstep(3.3f), 6);
    CHECK_EQ(e2m1_encode_halfstep(-3.3f), 14);
}

/* N2 */
TEST(e2m1_ties_go_to_the_even_code)
{
    static const float midpoint[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    static const int code[7] = {0, 2, 2, 4, 4, 6, 6};
    for (int i = 0; i < 7; i++) { /* between codes i and i + 1 */
        CHECK_EQ(e2m1_encode(midpoint[i]), code[i]);
        CHECK_EQ(e2m1_encode(-midpoint[i]), code[i] | 8);
        CHECK_EQ(e2m1_encode(nextafterf(midpoint[i], 9.0f)), i + 1);
        CHECK_EQ(e2m1_encode(nextafterf(midpoint[i], 0.0f)), i);
    }
}

TEST(e2m1_saturates_and_keeps_the_sign_of_zero)
{
    CHECK_EQ(e2m1_encode(6.0f), 7);
    CHECK_EQ(e2m1_encode(7.0f), 7);
    CHECK_EQ(e2m1_encode(1e30f), 7);
    CHECK_EQ(e2m1_encode(INFINITY), 7);
    CHECK_EQ(e2m1_encode(-INFINITY), 15);
    CHECK_EQ(e2m1_encode(NAN), 7);
    CHECK_EQ(e2m1_encode(-NAN), 7);
    CHECK_EQ(e2m1_encode(0.0f), 0);
    CHECK_EQ(e2m1_encode(-0.0f), 8);
    CHECK_EQ(e2m1_encode(-1e-40f), 8);
}

TEST(e2m1_is_the_nearest_value_for_every_kind_of_float)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float x = sample(i);
        if (isnan(x) || isinf(x))
            continue;
        unsigned want = nearest(fabs((double)x), 7, 1, 1) | (signbit(x) ? 8u : 0u);
        if (e2m1_encode(x) != want)
            CHECK_EQ(e2m1_encode(x), want);
    }
}

TEST(e2m1_decodes_what_it_encodes)
{
    for (uint8_t code = 0; code < 16; code++) {
        float x = e2m1_decode(code);
        CHECK_NEAR(fabsf(x), format_value(code & 7, 1, 1), 0);
        CHECK_EQ(!!signbit(x), code >> 3);
        CHECK_EQ(e2m1_encode(x), code);
        CHECK_EQ(e2m1_encode_halfstep(x), code);
        CHECK_EQ(bits_of_f32(e2m1_decode(code | 0xa0)),
                 bits_of_f32(x)); /* low 4 bits count */
    }
}

/* The whole table of half steps, and where the two modes part: (2.5, 2.75),
 * (3.25, 3.5) and (5, 5.25]. */
TEST(halfstep_table)
{
    static const int code[13] = {0, 1, 2, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7};
    for (int h = 0; h <= 12; h++)
        CHECK_EQ(e2m1_encode_halfstep((float)h * 0.5f), code[h]);
    for (int h = 0; h < 12; h++) { /* between two half steps: to the even one */
        float tie = (float)h * 0.5f + 0.25f;
        CHECK_EQ(e2m1_encode_halfstep(tie), code[h + h % 2]);
        CHECK_EQ(e2m1_encode_halfstep(nextafterf(tie, 9.0f)), code[h + 1]);
        CHECK_EQ(e2m1_encode_halfstep(nextafterf(tie, 0.0f)), code[h]);
    }
    CHECK_EQ(e2m1_encode_halfstep(NAN), 7);
    CHECK_EQ(e2m1_encode_halfstep(INFINITY), 7);
    CHECK_EQ(e2m1_encode_halfstep(-1e30f), 15);
    CHECK_EQ(e2m1_encode_halfstep(-0.0f), 8);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float x = sample(i), a = fabsf(x);
        if (isnan(x))
            continue;
        bool apart = (a > 2.5f && a < 2.75f) || (a > 3.25f && a < 3.5f) ||
                     (a > 5.0f && a <= 5.25f);
        if ((e2m1_encode_halfstep(x) != e2m1_encode(x)) != apart)
            test_fail(__FILE__, __LINE__, "at %a", (double)x);
    }
}

/* N3 */
TEST(e4m3_carries_into_the_exponent)
{
    CHECK_EQ(e4m3_encode(250.0f), 0x78);
    CHECK_EQ(e4m3_encode(248.0f), 0x78);
    CHECK_EQ(e4m3_encode(244.0f), 0x77);
    CHECK_EQ(e4m3_encode(240.0f), 0x77);
}

/* N4 */
TEST(e4m3_subnormals_are_steps_of_2_to_minus_9)
{
    CHECK_EQ(e4m3_encode(0.001f), 0x01);
    CHECK_EQ(e4m3_encode(0x1p-10f), 0x00);
    CHECK_EQ(e4m3_encode(1.5f / 512), 0x02);
    CHECK_EQ(e4m3_encode(7.5f / 512), 0x08);
    CHECK_EQ(e4m3_encode(nextafterf(0x1p-10f, 1.0f)), 0x01);
}

/* N5 */
TEST(e4m3_saturates_and_never_gives_nan)
{
    static const float x[] = {448, 464, 465, 480, 500, 1e30f, FLT_MAX, INFINITY};
    for (size_t i = 0; i < COUNT_OF(x); i++) {
        CHECK_EQ(e4m3_encode(x[i]), 0x7e);
        CHECK_EQ(e4m3_encode(-x[i]), 0xfe);
    }
    CHECK_EQ(e4m3_encode(NAN), 0x7f);
    CHECK_EQ(e4m3_encode(-NAN), 0x7f);
    CHECK_EQ(e4m3_encode(-0.0f), 0x80);
}

/* N7 */
TEST(e4m3_decodes_all_256_bytes)
{
    CHECK_NEAR(e4m3_decode(0x01), 0.001953125, 0);
    CHECK_NEAR(e4m3_decode(0x08), 0.015625, 0);
    CHECK_NEAR(e4m3_decode(0x78), 256, 0); /* exponent 15 is a normal one */
    CHECK_NEAR(e4m3_decode(0x7e), 448, 0);
    CHECK(isnan(e4m3_decode(0x7f)));
    CHECK(isnan(e4m3_decode(0xff)));
    for (unsigned code = 0; code < 256; code++) {
        float x = e4m3_decode((uint8_t)code);
        if ((code & 0x7f) == 0x7f)
            continue;
        CHECK_NEAR(fabsf(x), format_value(code & 0x7f, 3, 7), 0);
        CHECK_EQ(!!signbit(x), code >> 7);
        CHECK_EQ(e4m3_encode(x), code);
    }
}

TEST(e4m3_is_the_nearest_value_for_every_kind_of_float)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float x = sample(i);
        if (isnan(x) || isinf(x))
            continue;
        unsigned want =
            nearest(fabs((double)x), 0x7e, 3, 7) | (signbit(x) ? 0x80u : 0u);
        if (e4m3_encode(x) != want)
            CHECK_EQ(e4m3_encode(x), want);
    }
}

TEST(ue8m0_rounds_up_or_down_to_a_power_of_two)
{
    CHECK_EQ(ue8m0_encode_down(1.0f), 0x7f);
    CHECK_EQ(ue8m0_encode_up(1.0f), 0x7f);
    CHECK_EQ(ue8m0_encode_down(1.5f), 0x7f);
    CHECK_EQ(ue8m0_encode_up(1.5f), 0x80);
    CHECK_EQ(ue8m0_encode_up(-1.5f), 0x80);
    CHECK_EQ(ue8m0_encode_up(0.0f), 0);
    CHECK_EQ(ue8m0_encode_up(FLT_MAX), 0xfe);
    CHECK_EQ(ue8m0_encode_up(INFINITY), 0xfe);
    CHECK_EQ(ue8m0_encode_down(INFINITY), 0xfe);
    CHECK_EQ(ue8m0_encode_up(NAN), 0xff);
    CHECK_EQ(ue8m0_encode_down(NAN), 0xff);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        double a = fabs((double)sample(i));
        if (isnan(a) || isinf(a))
            continue;
        int up = 0, down = 254;
        while (up < 254 && ldexp(1, up - 127) < a)
            up++;
        while (down > 0 && ldexp(1, down - 127) > a)
            down--;
        if (ue8m0_encode_up(sample(i)) != up || ue8m0_encode_down(sample(i)) != down)
            test_fail(__FILE__, __LINE__, "at %a: up %d, down %d", a, up, down);
    }
    for (int code = 0; code < 255; code++)
        CHECK_NEAR(ue8m0_decode((uint8_t)code), ldexp(1, code - 127), 0);
    CHECK(isnan(ue8m0_decode(0xff)));
}

TEST(f16_decodes_and_encodes_all_values)
{
    for (unsigned code = 0; code < 0x10000; code++) {
        float x = f16_decode((uint16_t)code);
        if ((code & 0x7fff) > 0x7c00) {
            if (!isnan(x))
                test_fail(__FILE__, __LINE__, "0x%04x is NaN", code);
            continue;
        }
        double want = (code & 0x7fff) == 0x7c00 ? (double)INFINITY
                                                : format_value(code & 0x7fff, 10, 15);
        if (fabs((double)x) != want || !!signbit(x) != code >> 15 ||
            f16_encode(x) != code)
            test_fail(__FILE__, __LINE__, "0x%04x: %a", code, (double)x);
    }
    CHECK_EQ(f16_encode(NAN), 0x7fff);
    CHECK_EQ(f16_encode(65519.99f), 0x7bff);
    CHECK_EQ(f16_encode(65520.0f), 0x7c00);
    CHECK_EQ(f16_encode(-INFINITY), 0xfc00);
    CHECK_EQ(f16_encode(0x1p-25f), 0);
    CHECK_EQ(f16_encode(nextafterf(0x1p-25f, 1.0f)), 1);
    CHECK_EQ(f16_encode(1.0f + 0x1p-11f), 0x3c00);
    CHECK_EQ(f16_encode(1.0f + 0x3p-11f), 0x3c02);
}

TEST(bf16_rounds_to_nearest_even)
{
    for (unsigned code = 0; code < 0x10000; code++) {
        float x = bf16_decode((uint16_t)code);
        if (bits_of_f32(x) != code << 16)
            CHECK_EQ(bits_of_f32(x), code << 16);
        if (!isnan(x) && bf16_encode(x) != code)
            CHECK_EQ(bf16_encode(x), code);
    }
    CHECK_EQ(bf16_encode(NAN), 0x7fff);
    CHECK_EQ(bf16_encode(f32_of(0x3f808000)), 0x3f80);
    CHECK_EQ(bf16_encode(f32_of(0x3f818000)), 0x3f82);
    CHECK_EQ(bf16_encode(f32_of(0x3f808001)), 0x3f81);
    CHECK_EQ(bf16_encode(FLT_MAX), 0x7f80);
}

/* The table in PTX terms is in docs/numerics.md; these rows were worked out by hand. */
TEST(sf_offsets)
{
    static const struct {
        size_t row, kb, k64, offset;
    } rows[] = {{0, 0, 8, 0},      {1, 0, 8, 16},     {31, 0, 8, 496},
                {32, 0, 8, 4},     {127, 3, 8, 511},  {0, 4, 8, 512},
                {128, 0, 8, 4096}, {200, 17, 8, 6281}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_EQ(sf_offset(rows[i].row, rows[i].kb, rows[i].k64), rows[i].offset);
    CHECK_EQ(sf_bytes(128, 64), 512);
    CHECK_EQ(sf_bytes(129, 65), 2048);
    CHECK_EQ(sf_bytes(1, 16), 512);
    CHECK_EQ(sf_bytes(0, 64), 0);
    CHECK_EQ(sf_bytes(64, 0), 0);
}

TEST(sf_offset_is_one_to_one)
{
    static uint8_t seen[2 * 3 * 512];
    for (size_t row = 0; row < 256; row++) {
        for (size_t kb = 0; kb < 12; kb++) {
            size_t at = sf_offset(row, kb, 3);
            CHECK(at < sizeof seen);
            CHECK_EQ(seen[at]++, 0);
        }
    }
}

TEST(global_scale_is_finite_and_positive)
{
    CHECK_NEAR(nvfp4_global_scale(2688.0f), 1, 0);
    CHECK_NEAR(nvfp4_global_scale(1.0f), 1.0f / 2688.0f, 0);
    static const float odd[] = {0,       -0.0f,    FLT_TRUE_MIN, FLT_MIN,
                                FLT_MAX, INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        float g = nvfp4_global_scale(odd[i]);
        CHECK(g > 0 && isfinite(g) && isfinite(1 / g));
    }
}

/* A block of one row in, codes and the scale byte out. */
static uint8_t quantize_block(const float x[16], float global, uint8_t codes[8])
{
    uint8_t scales[512];
    nvfp4_quantize(x, 1, 16, global, FP4_NEAREST, codes, 8, scales);
    return scales[0];
}

static int code_at(const uint8_t *codes, size_t i)
{
    return codes[i / 2] >> i % 2 * 4 & 15;
}

/* N8 */
TEST(block_of_zeros_has_scale_zero)
{
    float x[32] = {0};
    uint8_t codes[16], scales[512];
    x[20] = 1.0f;
    x[3] = -0.0f;
    nvfp4_quantize(x, 1, 32, nvfp4_global_scale(1.0f), FP4_NEAREST, codes, 16, scales);
    CHECK_EQ(scales[0], 0x00);
    for (size_t i = 0; i < 16; i++) {
        CHECK_EQ(code_at(codes, i), 0);
        CHECK_NEAR(e2m1_decode((uint8_t)code_at(codes, i)) * e4m3_decode(scales[0]), 0,
                   0);
    }
    CHECK_EQ(scales[1], 0x7e);
    CHECK_EQ(code_at(codes, 20), 7);
    CHECK_EQ(code_at(codes, 21), 0);
}

/* N9 */
TEST(tensor_of_zeros)
{
    static float x[4 * 48];
    uint8_t codes[4 * 32], scales[512];
    memset(codes, 0xff, sizeof codes);
    memset(scales, 0xff, sizeof scales);
    float global = nvfp4_global_scale(0.0f);
    CHECK(isfinite(global) && global > 0);
    nvfp4_quantize(x, 4, 48, global, FP4_NEAREST, codes, 32, scales);
    for (size_t i = 0; i < sizeof codes; i++)
        CHECK_EQ(codes[i], 0);
    for (size_t i = 0; i < sizeof scales; i++)
        CHECK_EQ(scales[i], 0);
}

/* N11: t = amax/6/global; half of the smallest subnormal, 2^-10, ties to 0. */
TEST(scale_under_half_a_subnormal_is_zero)
{
    float x[16] = {6 * 0x1p-11f, -6 * 0x1p-11f};
    uint8_t codes[8];
    CHECK_EQ(quantize_block(x, 1.0f, codes), 0x00);
    for (size_t i = 0; i < 16; i++)
        CHECK_EQ(code_at(codes, i), 0);
    x[2] = 6 * 0x1.01p-10f; /* its twin just above */
    CHECK_EQ(quantize_block(x, 1.0f, codes), 0x01);
    CHECK_EQ(code_at(codes, 2), 5); /* 0x1.8p-8 / 0x1p-9 = 3 */
}

TEST(nan_and_infinity_in_a_block)
{
    float x[16] = {3.0f, -6.0f, NAN, 0.0f, -NAN};
    uint8_t codes[8];
    CHECK_EQ(quantize_block(x, 1.0f, codes), 0x38); /* 1.0: NaN has no part in amax */
    CHECK_EQ(code_at(codes, 0), 5);
    CHECK_EQ(code_at(codes, 1), 15);
    CHECK_EQ(code_at(codes, 2), 7);
    CHECK_EQ(code_at(codes, 3), 0);
    CHECK_EQ(code_at(codes, 4), 7);
    for (size_t i = 0; i < 16; i++)
        x[i] = NAN;
    CHECK_EQ(quantize_block(x, 1.0f, codes), 0x00);
    CHECK_EQ(code_at(codes, 0), 0);
    for (size_t i = 0; i < 16; i++)
        x[i] = 1.0f;
    x[5] = -INFINITY;
    CHECK_EQ(quantize_block(x, 1.0f, codes), 0x7e);
    CHECK_EQ(code_at(codes, 5), 15);
    CHECK_EQ(code_at(codes, 0), 0);
}

/* Numbers from a generator of this file's own; not uniform: exponents vary. */
static float random_float(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint32_t r = (uint32_t)(*state >> 33);
    return ldexpf((float)(r & 0xffff) / 65536.0f - 0.5f, (int)(r >> 16 & 7) - 3);
}

/* One element by the definition, step by step in floats, with the oracle's rounding. */
static unsigned defined_code(float x, unsigned scale, float global)
{
    float step = (float)format_value(scale, 3, 7) * global;
    float q = x / step;
    unsigned sign = signbit(q) ? 8 : 0;
    return scale ? nearest(fabs((double)q), 7, 1, 1) | sign : 0;
}

static void check_against_definition(size_t rows, size_t k, uint64_t *state)
{
    size_t ld = (k + 1) / 2 + 5, k64 = (k + 63) / 64;
    float *x = calloc(rows * k, sizeof *x);
    uint8_t *codes = malloc(rows * ld), *scales = malloc(sf_bytes(rows, k));
    CHECK(x && codes && scales);
    memset(codes, 0xa5, rows * ld);
    memset(scales, 0xa5, sf_bytes(rows, k));
    float amax = 0;
    for (size_t i = 0; i < rows * k; i++) {
        x[i] = random_float(state);
        amax = fmaxf(amax, fabsf(x[i]));
    }
    float global = nvfp4_global_scale(amax);
    nvfp4_quantize(x, rows, k, global, FP4_NEAREST, codes, ld, scales);
    size_t nonzero = 0;
    for (size_t row = 0; row < rows; row++) {
        for (size_t kb = 0; kb * 16 < k; kb++) {
            float block = 0;
            for (size_t i = kb * 16; i < k && i < kb * 16 + 16; i++)
                block = fmaxf(block, fabsf(x[row * k + i]));
            float t = block * (float)(1.0 / 6.0);
            t = t / global;
            unsigned scale = nearest(t, 0x7e, 3, 7);
            CHECK_EQ(scales[sf_offset(row, kb, k64)], scale);
            nonzero += scale != 0;
            for (size_t i = kb * 16; i < k && i < kb * 16 + 16; i++)
                CHECK_EQ(code_at(codes + row * ld, i),
                         defined_code(x[row * k + i], scale, global));
        }
        if (k % 2)
            CHECK_EQ(code_at(codes + row * ld, k), 0);
        for (size_t i = (k + 1) / 2; i < ld; i++)
            CHECK_EQ(codes[row * ld + i], 0);
    }
    size_t bytes_nonzero = 0;
    for (size_t i = 0; i < sf_bytes(rows, k); i++)
        bytes_nonzero += scales[i] != 0;
    CHECK_EQ(bytes_nonzero, nonzero); /* padding is 0 */
    free(x);
    free(codes);
    free(scales);
}

TEST(quantize_follows_the_definition)
{
    uint64_t state = 1;
    for (int trial = 0; trial < 500; trial++) {
        check_against_definition(1, 16, &state);
        check_against_definition(1, 64, &state);
        check_against_definition(8, 64, &state);
    }
    check_against_definition(130, 200, &state);
    check_against_definition(3, 81, &state);
    check_against_definition(33, 17, &state);
    check_against_definition(257, 464, &state);
}

/* fl(1/6) and one rounding a step: t differs from amax / (6 * global) now and then, and
 * bytes with it; these are the definition's. */
TEST(scale_uses_the_reciprocal_of_six)
{
    uint64_t state = 7;
    int differ = 0;
    for (int i = 0; i < 200000; i++) {
        float x[16] = {fabsf(random_float(&state))};
        uint8_t codes[8];
        float global = 1.0f / 2688.0f;
        float t = x[0] * 0x1.555556p-3f / global;
        differ += t != x[0] / 6.0f / global;
        CHECK_EQ(quantize_block(x, global, codes), nearest(t, 0x7e, 3, 7));
    }
    CHECK(differ > 1000);
}

TEST(halfstep_mode_quantizes_with_its_table)
{
    float x[16] = {6.0f, 5.2f, 2.6f, -3.3f, 0.25f};
    uint8_t codes[8], scales[512];
    nvfp4_quantize(x, 1, 16, 1.0f, FP4_HALFSTEP, codes, 8, scales);
    CHECK_EQ(scales[0], 0x38);
    CHECK_EQ(code_at(codes, 0), 7);
    CHECK_EQ(code_at(codes, 1), 6);
    CHECK_EQ(code_at(codes, 2), 4);
    CHECK_EQ(code_at(codes, 3), 14);
    CHECK_EQ(code_at(codes, 4), 0);
}
