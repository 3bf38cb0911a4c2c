/* Quantising epilogues, on the emulator, against tests/ref.c and NVIDIA's host
 * functions: the hardware's conversions (sm_100f), those of FP8 alone (sm_90a),
 * integers (sm_80). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "tests/lower_run.h"
#include "tests/nv_codecs.h"
#include "tests/ref.h"
#include "tests/test.h"

static const char *const targets[] = {"sm_100f", "sm_90a", "sm_80"};

/* Multiplying by alpha = 1 leaves everything but the sign of a NaN. */
static float canonical(float x)
{
    return x != x ? f32_of(0x7fffffff) : x;
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s >> 16;
}

static float uniform(uint64_t *s) /* 0 .. 1 */
{
    return (float)(next_random(s) & 0xffffff) * 0x1p-24f;
}

static float gaussian(uint64_t *s)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform(s);
    return sum - 6;
}

/* ---- casts */

/* All bf16 values, then every midpoint of the three formats with its neighbours. */
static float *interesting(struct arena *a, uint32_t *count)
{
    float *x = ARENA_ARRAY(a, float, 70000);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 65536; i++)
        x[n++] = f32_of(i << 16); /* NaN of both signs too */
    double (*const values[])(unsigned) = {ref_e2m1, ref_ue4m3, ref_e5m2};
    static const unsigned last[] = {7, 0x7e, 0x7b};
    for (int f = 0; f < 3; f++)
        for (unsigned code = 0; code <= last[f]; code++) {
            double next = code < last[f] ? values[f](code + 1)
                                         : 2 * values[f](code) - values[f](code - 1);
            float middle = (float)((values[f](code) + next) / 2);
            for (uint32_t k = 0; k < 7; k++)
                for (uint32_t sign = 0; sign < 2; sign++)
                    x[n++] = f32_of((bits_of_f32(middle) + k - 3) | sign << 31);
        }
    *count = align_up(n, 16 * 128);
    return x;
}

TEST_SLOW(casts_of_all_values)
{
    struct arena *a = arena_new();
    uint32_t count;
    float *x = interesting(a, &count);
    struct expr *e =
        lower_trace(a, "local x = e.unscaled return e.e2m1(x), "
                       "e.e4m3(x, { name = 'y' }), e.e5m2(x, { name = 'z' }), "
                       "e.bf16(e.acc, { name = 'w' })");
    for (size_t t = 0; t < COUNT_OF(targets); t++) {
        struct lower_run r = {.target = targets[t],
                              .chunk = 64,
                              .e = e,
                              .n = 128,
                              .rows = count / 128,
                              .m = count / 128,
                              .alpha = 1,
                              .acc = x};
        lower_run(a, &r);
        for (uint32_t row = 0; row < r.rows; row++) {
            uint32_t codes[4][128];
            for (int k = 0; k < 4; k++)
                lower_codes(&r, k, row, codes[k], NULL);
            for (int i = 0; i < 128; i++) {
                float v = x[row * 128 + (uint32_t)i];
                unsigned want[] = {
                    ref_e2m1_nearest((double)v), ref_e4m3_nearest((double)v),
                    ref_e5m2_nearest((double)v), ref_bf16_nearest((double)v)};
                for (int k = 0; k < 4; k++)
                    if (codes[k][i] != want[k])
                        test_fail(__FILE__, __LINE__, "%s: output %d of %a: %x, not %x",
                                  targets[t], k, (double)v, codes[k][i], want[k]);
                if (nv_available() && (codes[0][i] != nv_e2m1_encode(v) ||
                                       codes[1][i] != nv_e4m3_encode(v) ||
                                       codes[2][i] != nv_e5m2_encode(v)))
                    test_fail(__FILE__, __LINE__, "NVIDIA's header differs at %a",
                              (double)v);
            }
        }
    }
    arena_free(a);
}

/* ---- NVFP4 */

/* Rows of `cols` values, each with its own global scale. */
struct blocks {
    uint32_t rows, cols;
    float *x, *global;
};

static struct blocks blocks_new(struct arena *a, uint32_t rows, uint32_t cols)
{
    struct blocks b = {rows, cols, ARENA_ARRAY(a, float, (size_t)rows *cols),
                       ARENA_ARRAY(a, float, rows)};
    return b;
}

enum mode { NEAREST, HALFSTEP, RECIPROCAL, MODES };

static const char *const mode_options[] = {"", ", rounding = 'halfstep'",
                                           ", division = 'reciprocal'"};

static void reciprocal_block(const float *x, float global, uint8_t *codes,
                             uint8_t *scale)
{
    float amax = 0;
    for (int i = 0; i < 16; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    float t = amax * 0x1.555556p-3f / global;
    *scale = (uint8_t)ref_e4m3_nearest(fabs((double)t));
    float d = (float)ref_e4m3(*scale) * global, y = 1.0f / d;
    for (int i = 0; i < 16; i++) {
        float q = x[i] * y;
        codes[i] = (uint8_t)(*scale ? ref_e2m1_nearest((double)q) : 0);
    }
}

static void check_blocks(const struct blocks *b, const char *target, const char *path,
                         enum mode mode)
{
    struct arena *a = arena_new();
    struct expr *e = lower_trace(
        a,
        arena_printf(a, "return e.nvfp4(e.acc, { global = e.row 'g', path = '%s'%s })",
                     path, mode_options[mode]));
    struct lower_run r = {.target = target,
                          .chunk = b->cols % 64 == 0 ? 64 : 16,
                          .e = e,
                          .n = b->cols,
                          .rows = b->rows,
                          .m = b->rows,
                          .alpha = 1,
                          .acc = b->x,
                          .vectors = {b->global}};
    lower_run(a, &r);
    uint32_t *codes = ARENA_ARRAY(a, uint32_t, b->cols);
    uint8_t *scales = ARENA_ARRAY(a, uint8_t, b->cols);
    for (uint32_t row = 0; row < b->rows; row++) {
        lower_codes(&r, 0, row, codes, scales);
        for (uint32_t c = 0; c < b->cols; c += 16) {
            const float *x = b->x + (size_t)row * b->cols + c;
            uint8_t want[16], scale;
            if (mode == RECIPROCAL)
                reciprocal_block(x, b->global[row], want, &scale);
            else
                ref_quantize_block(x, 16, b->global[row], mode == HALFSTEP, want,
                                   &scale);
            if (scales[c / 16] != scale)
                test_fail(__FILE__, __LINE__,
                          "%s %s mode %d: scale %02x, not %02x; global %a", target,
                          path, (int)mode, scales[c / 16], scale,
                          (double)b->global[row]);
            for (int i = 0; i < 16; i++)
                if (codes[c + (uint32_t)i] != want[i])
                    test_fail(__FILE__, __LINE__,
                              "%s %s mode %d: code of %a is %x, not %x; scale %02x, "
                              "global %a",
                              target, path, (int)mode, (double)x[i],
                              codes[c + (uint32_t)i], want[i], scale,
                              (double)b->global[row]);
        }
    }
    arena_free(a);
}

static void check_everywhere(const struct blocks *b)
{
    for (int mode = 0; mode < MODES; mode++) {
        check_blocks(b, "sm_100f", "hardware", (enum mode)mode);
        check_blocks(b, "sm_100f", "integer", (enum mode)mode);
        check_blocks(b, "sm_90a", "auto", (enum mode)mode);
        check_blocks(b, "sm_80", "auto", (enum mode)mode);
    }
}

/* `trials` tensors of `rows` x `cols`, one below the other. */
static struct blocks gaussian_tensors(struct arena *a, uint32_t trials, uint32_t rows,
                                      uint32_t cols)
{
    struct blocks b = blocks_new(a, trials * rows, cols);
    uint64_t s = 88172645463325252u + rows * 1000 + cols;
    for (uint32_t t = 0; t < trials; t++) {
        float size = exp2f(20 * uniform(&s) - 10), amax = 0;
        float *x = b.x + (size_t)t * rows * cols;
        for (size_t i = 0; i < (size_t)rows * cols; i++) {
            x[i] = gaussian(&s) * size * (i / 16 % 7 == 3 ? 0x1p-9f : 1);
            if (t % 3 == 0) /* as they come out of a bf16 tensor */
                x[i] = bf16_decode(bf16_encode(x[i]));
            amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        }
        for (uint32_t row = 0; row < rows; row++)
            b.global[t * rows + row] = nvfp4_global_scale(amax);
    }
    return b;
}

TEST_SLOW(five_hundred_tensors_of_each_size)
{
    static const uint32_t sizes[][2] = {{1, 16}, {1, 64}, {8, 64}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct arena *a = arena_new();
        struct blocks b = gaussian_tensors(a, 500, sizes[i][0], sizes[i][1]);
        check_everywhere(&b);
        arena_free(a);
    }
}

TEST_SLOW(tensors_of_128_by_256)
{
    struct arena *a = arena_new();
    struct blocks b = gaussian_tensors(a, 25, 128, 256);
    check_blocks(&b, "sm_100f", "auto", NEAREST);
    check_blocks(&b, "sm_80", "auto", NEAREST);
    check_blocks(&b, "sm_100f", "auto", HALFSTEP);
    check_blocks(&b, "sm_80", "auto", HALFSTEP);
    arena_free(a);
}

TEST_SLOW(all_bf16_values_in_blocks)
{
    static const float globals[] = {1.0f, 0x1.8p-12f, 0x1.123456p-5f, 0x1p40f,
                                    0x1p-60f};
    struct arena *a = arena_new();
    for (size_t g = 0; g < COUNT_OF(globals); g++) {
        struct blocks b = blocks_new(a, 1024, 64);
        for (uint32_t i = 0; i < 65536; i++) /* a block has values of one size */
            b.x[i] = canonical(f32_of(i << 16));
        for (uint32_t row = 0; row < b.rows; row++)
            b.global[row] = globals[g];
        check_everywhere(&b);
    }
    arena_free(a);
}

/* Where a code changes: T * scale * global and its neighbours, for many scales. */
TEST_SLOW(values_next_to_thresholds)
{
    static const float thresholds[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 4096, 64);
    uint64_t s = 362436069;
    for (uint32_t row = 0; row < b.rows; row++) {
        float global = f32_of(0x3f800000u | (uint32_t)(next_random(&s) & 0x7fffff));
        global *= exp2f((float)(int)(next_random(&s) % 60) - 30);
        b.global[row] = global;
        for (uint32_t c = 0; c < 64; c += 16) {
            unsigned scale = 1 + (unsigned)(next_random(&s) % 0x7e);
            float d = (float)ref_ue4m3(scale) * global;
            float *x = b.x + row * 64 + c;
            x[0] = 6 * d; /* gives this scale */
            for (int i = 1; i < 16; i++) {
                float edge = thresholds[next_random(&s) % 7] * d;
                x[i] = f32_of(bits_of_f32(edge) + (uint32_t)(next_random(&s) % 7) - 3);
                x[i] = next_random(&s) % 2 ? x[i] : -x[i];
            }
        }
    }
    check_everywhere(&b);
    arena_free(a);
}

/* A row of 64 columns with any 32 bits in its blocks. */
static void fill_row(struct blocks *b, uint32_t row, uint64_t *s)
{
    for (uint32_t c = 0; c < 64; c++) {
        uint32_t bits = (uint32_t)next_random(s);
        float x = canonical(f32_of(bits));
        if (c / 16 == row % 4) /* one block of what this global scale is for */
            x = gaussian(s) * 100 * b->global[row];
        else if (c / 16 == (row + 1) % 4) /* subnormals and small numbers */
            x = f32_of((bits & 0x803fffff) | bits % 3 << 22);
        else if (c / 16 == (row + 2) % 4) /* up to 2^64 */
            x = ldexpf(gaussian(s), (int)(bits % 80) - 18);
        b->x[row * 64 + c] = x;
    }
}

/* Global scales from one end of the range to the other. */
TEST_SLOW(extreme_values_and_scales)
{
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 4096, 64);
    uint64_t s = 521288629;
    for (uint32_t row = 0; row < b.rows; row++) {
        int exponent = (int)(row % 256) - 128;
        float mantissa = 1 + uniform(&s);
        b.global[row] = exponent < -126 ? 0x1p-126f : ldexpf(mantissa, exponent);
        fill_row(&b, row, &s);
    }
    check_everywhere(&b);
    arena_free(a);
}

/* What nobody should ask for is defined too, and the same on all paths: by the letter,
 * docs/numerics.md.  Zeros of both signs, and blocks of nothing but them. */
TEST(global_scales_that_are_none)
{
    static const float odd[] = {0,          -0.0f,    -1,        -0.37f,
                                -0x1p-70f,  -0x1p70f, -0x1p127f, -0x1p-149f,
                                -0x1p-128f, INFINITY, -INFINITY};
    const uint32_t count = COUNT_OF(odd) + 1;
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 32 * count, 64);
    uint64_t s = 88675123;
    for (uint32_t row = 0; row < b.rows; row++) {
        uint32_t g = row % count;
        b.global[row] = g < COUNT_OF(odd) ? odd[g] : f32_of(0x7fffffff);
        fill_row(&b, row, &s);
        float *x = b.x + row * 64;
        for (uint32_t c = 0; c < 64; c++)
            if (!isfinite(x[c]) && row / count % 2)
                x[c] = 0;
            else if (row / count == 3 || c % 16 == row / count % 16)
                x[c] = row / count % 4 < 2 ? 0.0f : -0.0f;
    }
    check_everywhere(&b);
    arena_free(a);
}

/* d so small that fl(1/d) is infinite: by the letter a zero becomes 0 * inf, a NaN, and
 * with it code 7; any other value saturates. */
TEST(a_reciprocal_that_is_infinite)
{
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 128, 64);
    for (uint32_t row = 0; row < b.rows; row++) {
        b.global[row] = 0x1p-149f * (float)(1 + row % 8); /* d = 2^-149 .. 2^-137 */
        for (uint32_t c = 0; c < 64; c++) {
            float x = 0x1p-149f * (float)(1 + (row * 64 + c) % 48);
            b.x[row * 64 + c] = c % 3 == 0 ? 0.0f : c % 3 == 1 ? -x : x;
        }
    }
    struct expr *e = lower_trace(a, "return e.nvfp4(e.acc, { global = e.row 'g', "
                                    "division = 'reciprocal' })");
    struct lower_run r = {.target = "sm_100f",
                          .chunk = 64,
                          .e = e,
                          .n = b.cols,
                          .rows = b.rows,
                          .m = b.rows,
                          .alpha = 1,
                          .acc = b.x,
                          .vectors = {b.global}};
    lower_run_check(a, &r); /* with expr_eval() too */
    uint32_t codes[64];
    uint8_t scales[64];
    for (uint32_t row = 0; row < b.rows; row++) {
        lower_codes(&r, 0, row, codes, scales);
        for (int c = 0; c < 64; c++) {
            CHECK(scales[c / 16] > 0);
            CHECK_EQ(codes[c], c % 3 == 1 ? 15 : 7);
        }
    }
    check_everywhere(&b);
    arena_free(a);
}

/* N8, N11 of cases.md, NaN and infinities by hand. */
TEST(zeros_lost_blocks_and_nan)
{
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 1, 96);
    b.global[0] = 1;
    for (int i = 0; i < 16; i++) {
        b.x[i] = i % 2 ? -0.0f : 0.0f;      /* zeros */
        b.x[16 + i] = 0x1p-10f * 6 * 0.99f; /* t just below half the least scale */
        b.x[32 + i] = i ? 1.0f : canonical(NAN);
        b.x[48 + i] = canonical(NAN);
        b.x[64 + i] = i == 3 ? -INFINITY : i == 4 ? INFINITY : 1;
        b.x[80 + i] = (float)i - 8;
    }
    check_everywhere(&b);
    struct expr *e = lower_trace(a, "return e.nvfp4(e.acc, { global = 1 })");
    struct lower_run r = {.target = "sm_100f",
                          .chunk = 32,
                          .e = e,
                          .n = 96,
                          .rows = 2,
                          .m = 1,
                          .alpha = 1};
    float acc[2 * 96];
    memcpy(acc, b.x, sizeof acc / 2);
    memcpy(acc + 96, b.x, sizeof acc / 2);
    r.acc = acc;
    lower_run(a, &r);
    uint32_t codes[96];
    uint8_t scales[96];
    lower_codes(&r, 0, 0, codes, scales);
    for (int i = 0; i < 32; i++)
        CHECK_EQ(codes[i], 0);
    CHECK_EQ(scales[0] | scales[1], 0);
    CHECK_EQ(codes[32], 7);
    CHECK_EQ(codes[33], 7);
    CHECK_EQ(scales[3], 0);
    CHECK_EQ(codes[48], 0);
    CHECK_EQ(scales[4], 0x7e);
    CHECK_EQ(codes[67], 15);
    CHECK_EQ(codes[68], 7);
    CHECK_EQ(codes[64], 0);               /* 1 / 448 */
    lower_codes(&r, 0, 1, codes, scales); /* padding: no scales */
    for (int i = 0; i < 6; i++)
        CHECK_EQ(scales[i], 0);
    arena_free(a);
}

/* The last block of a row has what is left of it, as if zeros followed. */
TEST(a_block_that_ends_early)
{
    struct arena *a = arena_new();
    struct expr *e = lower_trace(a, "return e.nvfp4(e.acc, { global = e.param 'g' }), "
                                    "e.mxfp4(e.acc, { name = 'y' }), e.amax(e.acc)");
    for (uint32_t n = 2; n < 64; n += 2) {
        float acc[64];
        struct lower_run r = {.target = "sm_80",
                              .chunk = 32,
                              .e = e,
                              .n = n,
                              .rows = 1,
                              .m = 1,
                              .alpha = 1,
                              .acc = acc,
                              .scalars = {0x3c000000}};
        for (uint32_t i = 0; i < 64; i++)
            acc[i] = i < n ? (float)i : 1e30f;
        lower_run_check(a, &r);
        uint32_t codes[64];
        uint8_t scales[4], want[16], scale;
        lower_codes(&r, 0, 0, codes, scales);
        uint32_t first = (n - 1) / 16 * 16;
        ref_quantize_block(acc + first, n - first, 0x1p-7f, false, want, &scale);
        CHECK_EQ(scales[first / 16], scale);
        for (uint32_t i = first; i < n; i++)
            CHECK_EQ(codes[i], want[i - first]);
    }
    arena_free(a);
}

/* q = x y, q - (d q - x) y is x / d for every d, at every place where a code changes.
 * The mantissas decide: in the safe range nothing over- or underflows. */
TEST_SLOW(the_quotient_is_exact_for_every_divisor)
{
    static const float thresholds[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    long differences = 0;
    for (uint32_t mantissa = 0; mantissa < 1u << 23; mantissa++) {
        float d = f32_of(0x3f800000u | mantissa), y = 1.0f / d;
        for (size_t t = 0; t < COUNT_OF(thresholds); t++) {
            uint32_t edge = bits_of_f32((float)((double)d * (double)thresholds[t]));
            for (uint32_t k = 0; k < 5; k++) {
                float x = f32_of(edge + k - 2), q = x * y;
                float rest = fmaf(d, q, -x);
                differences += fmaf(rest, -y, q) != x / d;
            }
        }
    }
    CHECK_EQ(differences, 0);
}

/* ---- MX */

/* Definition of the scale, by search: the least power of two s with amax <= most * s.
 */
static unsigned least_power(double amax, double most)
{
    unsigned code = 0;
    while (code < 254 && amax > most * ldexp(1, (int)code - 127))
        code++;
    return code;
}

static unsigned floor_power(double amax, int exponent)
{
    int at;
    if (amax < 0x1p-126)
        return 0;
    frexp(amax, &at);
    at = at - 1 - exponent + 127;
    return at < 0 ? 0 : (unsigned)at;
}

/* NVIDIA's conversion says the same: of amax / most, rounded up, and of amax. */
static void check_nv_scale(double amax, double most, int exponent, bool down,
                           unsigned scale)
{
    float size = down ? (float)amax : (float)(amax / most);
    if (!down && (double)size * most < amax)
        size = nextafterf(size, INFINITY);
    unsigned code = down ? nv_ue8m0_encode_down(size) : nv_ue8m0_encode_up(size);
    if (down)
        code = code < (unsigned)exponent ? 0 : code - (unsigned)exponent;
    if (code != scale)
        test_fail(__FILE__, __LINE__, "NVIDIA's header differs at amax %a of %a: %02x",
                  amax, most, code);
}

static void check_mx(const struct blocks *b, const char *target, bool down)
{
    static const struct {
        double most;
        int exponent;
        unsigned (*encode)(double);
    } formats[] = {{6, 2, ref_e2m1_nearest},
                   {448, 8, ref_e4m3_nearest},
                   {57344, 15, ref_e5m2_nearest}};
    struct arena *a = arena_new();
    const char *word = down ? "down" : "up";
    struct expr *e = lower_trace(
        a, arena_printf(a,
                        "local x = e.acc return e.mxfp4(x, { scale = '%s' }), "
                        "e.mxfp8(x, { name = 'y', scale = '%s' }), "
                        "e.mxfp8(x, { name = 'z', type = 'e5m2', scale = '%s' })",
                        word, word, word));
    struct lower_run r = {.target = target,
                          .chunk = 64,
                          .e = e,
                          .n = b->cols,
                          .rows = b->rows,
                          .m = b->rows,
                          .alpha = 1,
                          .acc = b->x};
    lower_run_check(a, &r);
    uint32_t *codes = ARENA_ARRAY(a, uint32_t, b->cols);
    uint8_t *scales = ARENA_ARRAY(a, uint8_t, b->cols);
    for (uint32_t row = 0; row < b->rows; row++)
        for (int k = 0; k < 3; k++) {
            lower_codes(&r, k, row, codes, scales);
            for (uint32_t c = 0; c < b->cols; c += 32) {
                const float *x = b->x + (size_t)row * b->cols + c;
                double amax = 0;
                for (int i = 0; i < 32; i++)
                    amax = fmax(amax, fabs((double)x[i]));
                unsigned scale = down ? floor_power(amax, formats[k].exponent)
                                      : least_power(amax, formats[k].most);
                if (isinf(amax))
                    scale = 255 - (unsigned)formats[k].exponent;
                else if (nv_available())
                    check_nv_scale(amax, formats[k].most, formats[k].exponent, down,
                                   scale);
                if (scales[c / 32] != scale)
                    test_fail(__FILE__, __LINE__, "%s: output %d: scale %02x, not %02x",
                              target, k, scales[c / 32], scale);
                for (uint32_t i = 0; i < 32; i++) {
                    double q = (double)x[i] / ldexp(1, (int)scale - 127);
                    unsigned want = k == 0 && amax == 0 ? 0 : formats[k].encode(q);
                    if (codes[c + i] != want)
                        test_fail(__FILE__, __LINE__,
                                  "%s: output %d: code of %a / %a is %x, not %x",
                                  target, k, (double)x[i], ldexp(1, (int)scale - 127),
                                  codes[c + i], want);
                }
            }
        }
    arena_free(a);
}

/* It counts as 2^128, "up" and "down" alike. */
TEST(an_infinity_in_an_mx_block)
{
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 1, 64);
    for (int i = 0; i < 64; i++)
        b.x[i] = ldexpf(i % 3 ? 1.5f : -1, i < 32 ? 127 - i : 2 * i);
    b.x[7] = -INFINITY;
    b.x[40] = INFINITY;
    b.x[41] = canonical(NAN);
    for (size_t t = 0; t < COUNT_OF(targets); t++)
        for (int down = 0; down < 2; down++)
            check_mx(&b, targets[t], down);
    arena_free(a);
}

TEST_SLOW(mx_blocks_of_all_bf16_values)
{
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, 1024, 64);
    for (uint32_t i = 0; i < 65536; i++)
        b.x[i] = canonical(f32_of(i << 16));
    struct blocks wide = gaussian_tensors(a, 200, 1, 128);
    for (size_t t = 0; t < COUNT_OF(targets); t++)
        for (int down = 0; down < 2; down++) {
            check_mx(&b, targets[t], down);
            check_mx(&wide, targets[t], down);
        }
    arena_free(a);
}

/* Every power of two that can be a scale, from just below to just above: amax is `most`
 * or 1 times it, and up to four units of the last place away. */
TEST_SLOW(mx_scales_and_their_neighbours)
{
    static const float mosts[] = {1, 6, 448, 57344, 1.75f};
    enum { POWERS = 288, STEPS = 8 };
    struct arena *a = arena_new();
    struct blocks b = blocks_new(a, POWERS, 32 * STEPS * COUNT_OF(mosts));
    for (uint32_t row = 0; row < POWERS; row++)
        for (uint32_t c = 0; c < b.cols; c += 32) {
            float edge = ldexpf(mosts[c / 32 / STEPS], (int)row - 158);
            uint32_t step = c / 32 % STEPS;
            float *x = b.x + (size_t)row * b.cols + c;
            if (edge == 0 || isinf(edge))
                edge = 1;
            for (uint32_t i = 0; i < 32; i++)
                x[i] = i == step ? -f32_of(bits_of_f32(edge) + step - 3) : edge / 5;
        }
    for (size_t t = 0; t < COUNT_OF(targets); t++)
        for (int down = 0; down < 2; down++)
            check_mx(&b, targets[t], down);
    arena_free(a);
}

/* ---- stochastic rounding */

static void round_at_random(struct arena *a, const char *target, uint32_t seed,
                            const float *acc, uint32_t rows, uint32_t *codes)
{
    struct expr *e = lower_trace(a, "return e.nvfp4(e.acc, { global = 1, rounding = "
                                    "'stochastic', seed = e.param('seed', { type = "
                                    "'u32' }) })");
    struct lower_run r = {.target = target,
                          .chunk = 64,
                          .e = e,
                          .n = 64,
                          .rows = rows,
                          .m = rows,
                          .alpha = 1,
                          .acc = acc,
                          .scalars = {seed}};
    uint8_t scales[64];
    lower_run(a, &r);
    for (uint32_t row = 0; row < rows; row++)
        lower_codes(&r, 0, row, codes + (size_t)row * 64, scales);
}

TEST_SLOW(random_rounding_is_fair_and_repeats)
{
    enum { ROWS = 512, COUNT = ROWS * 64 };
    static const float parts[] = {0.1f, 0.25f, 0.5f, 0.9f};
    static const float lower[] = {0, 0.5f, 1, 1.5f, 2, 3, 4};
    static const float upper[] = {0.5f, 1, 1.5f, 2, 3, 4, 6};
    struct arena *a = arena_new();
    float *acc = ARENA_ARRAY(a, float, COUNT);
    uint32_t *first = ARENA_ARRAY(a, uint32_t, COUNT),
             *again = ARENA_ARRAY(a, uint32_t, COUNT);
    for (size_t p = 0; p < COUNT_OF(parts); p++)
        for (size_t v = 0; v < COUNT_OF(lower); v++) {
            float x = lower[v] + (upper[v] - lower[v]) * parts[p];
            for (int i = 0; i < COUNT; i++)
                acc[i] = i % 16 == 0 ? 6 : i % 2 ? x : -x; /* scale 1 */
            round_at_random(a, "sm_100f", 42, acc, ROWS, first);
            long ups = 0, all = 0;
            for (int i = 0; i < COUNT; i++) {
                if (i % 16 == 0) {
                    CHECK_EQ(first[i], 7);
                    continue;
                }
                double size = ref_e2m1(first[i] & 7);
                CHECK(size == (double)lower[v] || size == (double)upper[v]);
                CHECK_EQ(first[i] >> 3, i % 2 == 0);
                ups += size == (double)upper[v];
                all++;
            }
            double share = (double)ups / (double)all;
            double sigma =
                sqrt((double)parts[p] * (1 - (double)parts[p]) / (double)all);
            CHECK_NEAR(share, (double)parts[p], 4.5 * sigma);
            if (p != 1 || v != 2)
                continue;
            round_at_random(a, "sm_80", 42, acc, ROWS, again);
            CHECK(memcmp(first, again, COUNT * sizeof *first) == 0);
            round_at_random(a, "sm_80", 43, acc, ROWS, again);
            CHECK(memcmp(first, again, COUNT * sizeof *first) != 0);
        }
    arena_free(a);
}

/* The bits are those of docs/epilogues.md: the same for NVFP4 and MXFP4, any target. */
TEST_SLOW(random_bits_are_those_of_the_documentation)
{
    enum { ROWS = 300, COLS = 64 };
    static const uint32_t seed = 0xfedcba98;
    struct arena *a = arena_new();
    struct expr *e = lower_trace(
        a, "local r = { global = 1, rounding = 'stochastic', "
           "seed = e.param('seed', { type = 'u32' }) } "
           "local s = { name = 'y', rounding = 'stochastic', seed = r.seed } "
           "return e.nvfp4(e.unscaled * e.alpha, r), e.mxfp4(e.acc, s)");
    float *acc = ARENA_ARRAY(a, float, ROWS *COLS);
    uint64_t s = 2463534242u;
    for (int i = 0; i < ROWS * COLS; i++) {
        float x = uniform(&s) * (i % 3 ? 6.0f : 0.51f);
        x = i % 7 == 0 ? floorf(4 * x) / 4 : x; /* values, and middles */
        x = i % 97 == 0 ? 0x1p-140f : i % 89 == 0 ? 0 : x;
        acc[i] = i % 16 == 0 ? 6 : i % 2 ? x : -x; /* every scale is 1 */
    }
    for (size_t t = 0; t < COUNT_OF(targets); t++) {
        struct lower_run r = {.target = targets[t],
                              .chunk = 64,
                              .e = e,
                              .n = COLS,
                              .rows = ROWS,
                              .m = ROWS,
                              .alpha = 1,
                              .acc = acc,
                              .scalars = {seed}};
        lower_run(a, &r);
        for (uint32_t row = 0; row < ROWS; row++)
            for (int k = 0; k < 2; k++) {
                uint32_t codes[COLS];
                uint8_t scales[COLS];
                lower_codes(&r, k, row, codes, scales);
                CHECK_EQ(scales[0], k ? 127 : 0x38);
                for (uint32_t col = 0; col < COLS; col++) {
                    float x = acc[row * COLS + col];
                    unsigned want = ref_e2m1_stochastic((double)x, row, col, seed);
                    if (codes[col] != want)
                        test_fail(__FILE__, __LINE__,
                                  "%s: output %d of %a at %u, %u is %x, not %x",
                                  targets[t], k, (double)x, row, col, codes[col], want);
                }
            }
    }
    arena_free(a);
}
