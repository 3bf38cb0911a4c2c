/* t_fp4_many.c - many numbers through the conversions and the quantiser: hardware's and
 * integer path, against tests/ref.c and NVIDIA's host functions.
 *
 * Some millions in `make test`; 10^8 each in `make check-all` (FP4GEN_TEST_ALL=1). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lower_run.h"
#include "tests/nv_codecs.h"
#include "tests/quantize_device.h"
#include "tests/ref.h"
#include "tests/test.h"

enum { ROWS = 2048, COLS = 512, BATCH = ROWS * COLS }; /* 2^20 values */

static int batches(void)
{
    const char *all = getenv("FP4GEN_TEST_ALL");
    return all && strcmp(all, "1") == 0 ? (100000000 + BATCH - 1) / BATCH : 2;
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

/* ---- conversions */

static void check_code(const char *target, const char *format, float x, unsigned got,
                       unsigned want)
{
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s: %s of %a is %x, not %x", target, format,
                  (double)x, got, want);
}

/* Any bits, on `target`. */
static void convert_many(const char *target, const char *path)
{
    struct arena *a = arena_new();
    const struct expr *e = lower_trace(
        a, arena_printf(a,
                        "local x, p = e.unscaled, '%s' return e.e2m1(x, { path = p }), "
                        "e.e4m3(x, { name = 'y', path = p }), "
                        "e.e5m2(x, { name = 'z', path = p }), "
                        "e.bf16(e.acc, { name = 'w' })",
                        path));
    uint64_t s = 88172645463325252u;
    for (int b = 0; b < batches(); b++) {
        struct arena *scratch = arena_new();
        float *x = ARENA_ARRAY(scratch, float, BATCH);
        for (int i = 0; i < BATCH; i++)
            x[i] = f32_of((uint32_t)next_random(&s));
        struct lower_run r = {.target = target,
                              .chunk = 64,
                              .e = e,
                              .n = COLS,
                              .rows = ROWS,
                              .m = ROWS,
                              .alpha = 1,
                              .acc = x};
        lower_run(scratch, &r);
        for (uint32_t row = 0; row < ROWS; row++) {
            uint32_t codes[4][COLS];
            for (int k = 0; k < 4; k++)
                lower_codes(&r, k, row, codes[k], NULL);
            for (int i = 0; i < COLS; i++) {
                float v = x[row * COLS + (uint32_t)i];
                check_code(target, "e2m1", v, codes[0][i], ref_e2m1_nearest((double)v));
                check_code(target, "bf16", v, codes[3][i], ref_bf16_nearest((double)v));
                /* The reference's search is slow for 8 bits. */
                if (!nv_available() || i % 16 == 0) {
                    check_code(target, "e4m3", v, codes[1][i],
                               ref_e4m3_nearest((double)v));
                    check_code(target, "e5m2", v, codes[2][i],
                               ref_e5m2_nearest((double)v));
                }
                if (!nv_available())
                    continue;
                check_code("NVIDIA's header", "e2m1", v, nv_e2m1_encode(v),
                           codes[0][i]);
                check_code("NVIDIA's header", "e4m3", v, nv_e4m3_encode(v),
                           codes[1][i]);
                check_code("NVIDIA's header", "e5m2", v, nv_e5m2_encode(v),
                           codes[2][i]);
            }
        }
        arena_free(scratch);
    }
    arena_free(a);
}

TEST_SLOW(conversions_by_hardware)
{
    convert_many("sm_100f", "hardware");
}

TEST_SLOW(conversions_by_integers)
{
    convert_many("sm_80", "integer");
}

/* ---- NVFP4 */

/* What a block may hold, for a tensor with this global scale. */
static void fill_block(float *x, float global, int kind, uint64_t *s)
{
    static const float edges[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    float size = exp2f(21 * uniform(s) - 11) * global;
    float step = (float)ref_ue4m3(1 + (unsigned)(next_random(s) % 0x7e)) * global;
    for (int i = 0; i < 16; i++) {
        uint32_t bits = (uint32_t)next_random(s);
        switch (kind) {
        case 0: /* everyday values under every scale */
            x[i] = (uniform(s) + uniform(s) + uniform(s) - 1.5f) * size;
            break;
        case 1: /* beside the places where a code changes */
            x[i] = f32_of(bits_of_f32(edges[bits % 7] * step) + (bits >> 8) % 7 - 3);
            x[i] = i == 0 ? 6 * step : bits >> 31 ? -x[i] : x[i];
            break;
        case 2: /* any exponent, subnormals among them */
            x[i] = ldexpf((float)(int32_t)bits, (int)(next_random(s) % 276) - 180);
            break;
        default: /* any bits */
            x[i] = f32_of(bits);
        }
    }
}

static void quantise_many(const char *words)
{
    static const int exponents[] = {-12, -8, 0, -17, 60, -60, 120, -126};
    uint64_t s = 521288629;
    struct quantize_device q = quantize_open(words);
    for (int b = 0; b < batches(); b++) {
        struct quantize_data d = quantize_problem(&q, ROWS, COLS, 0, 1);
        d.global = ldexpf(1 + uniform(&s), exponents[(size_t)b % COUNT_OF(exponents)]);
        for (size_t row = 0; row < ROWS; row++)
            for (size_t col = 0; col < COLS; col += 16) {
                float x[16];
                fill_block(x, d.global, (int)(row % 4), &s);
                for (size_t i = 0; i < 16; i++)
                    quantize_set_x(&d, row, col + i, x[i]);
            }
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

TEST_SLOW(nearest_by_hardware)
{
    quantise_many("quantize_nvfp4 x.type=f32 target=sm_100f path=hardware");
}

TEST_SLOW(nearest_by_integers)
{
    quantise_many("quantize_nvfp4 x.type=f32 target=sm_80 path=integer");
}

TEST_SLOW(nearest_of_sm_90)
{
    quantise_many("quantize_nvfp4 x.type=f32 target=sm_90");
}

TEST_SLOW(halfstep_by_hardware)
{
    quantise_many(
        "quantize_nvfp4 x.type=f32 target=sm_100f path=hardware rounding=halfstep");
}

TEST_SLOW(halfstep_by_integers)
{
    quantise_many(
        "quantize_nvfp4 x.type=f32 target=sm_80 path=integer rounding=halfstep");
}
