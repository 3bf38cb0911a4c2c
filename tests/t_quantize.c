/* The kernels of gen/quantize.h on the emulator: against tests/ref.c, and against
 * NVIDIA's host conversions where these are there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "gen/run_data.h"
#include "tests/lower_run.h"
#include "tests/nv_codecs.h"
#include "tests/quantize_device.h"
#include "tests/ref.h"
#include "tests/test.h"

/* Both FP4 paths, and the one of sm_90: scales by hardware, codes by integers. */
static const char *const path_words[] = {
    "quantize_nvfp4 target=sm_80 path=integer",
    "quantize_nvfp4 target=sm_90",
    "quantize_nvfp4 target=sm_100f path=hardware",
};

static unsigned code_of(const struct quantize_data *d, size_t row, size_t col)
{
    unsigned byte = d->codes[row * d->ldc + col / 2];
    return col % 2 ? byte >> 4 : byte & 15;
}

static unsigned scale_of(const struct quantize_data *d, size_t row, size_t block)
{
    return d->scales[quantize_scale_at(d->image->layout, row, block, d->k, d->lds)];
}

static void try(const char *words, size_t m, size_t k, enum quantize_global global)
{
    struct quantize_device q = quantize_open(words);
    for (size_t more = 0; more < 2; more++) {
        struct quantize_data d = quantize_problem(&q, m, k, more, m * 1000 + k + more);
        d.seed = 7;
        quantize_check(&q, &d, global);
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

/* ---- numbers */

/* Every block begins with 6, so with a global scale of 1 its step is 1.  Returns how
 * many codes were compared one by one. */
static size_t try_codes(const char *words, const char *x_type, const float *x,
                        size_t count)
{
    struct arena *a = arena_new();
    struct quantize_device q =
        quantize_open(arena_printf(a, "%s x.type=%s", words, x_type));
    const size_t per_row = 15 * 64, rows = (count + per_row - 1) / per_row;
    struct quantize_data d = quantize_problem(&q, rows, 1024, 0, 1);
    d.global = 1;
    for (size_t row = 0; row < rows; row++)
        for (size_t col = 0; col < 1024; col++) {
            size_t i = row * per_row + col / 16 * 15 + col % 16 - 1;
            float v = col % 16 == 0 ? 6 : i < count ? x[i] : 0;
            quantize_set_x(&d, row, col, v);
        }
    quantize_check(&q, &d, GLOBAL_BY_VALUE);
    size_t compared = 0;
    for (size_t i = 0; i < count; i++) {
        size_t row = i / per_row, rest = i % per_row;
        size_t col = rest / 15 * 16 + rest % 15 + 1;
        float v = quantize_x(&d, row, col);
        if (scale_of(&d, row, col / 16) != 0x38)
            continue; /* something in the block is larger than 6 */
        unsigned got = code_of(&d, row, col), want = ref_e2m1_nearest((double)v);
        if (got != want || (nv_available() && got != nv_e2m1_encode(v)))
            test_fail(__FILE__, __LINE__, "%s: %a has code %u, expected %u", words,
                      (double)v, got, want);
        compared++;
    }
    quantize_data_free(&d);
    quantize_close(&q);
    arena_free(a);
    return compared;
}

TEST_SLOW(all_bf16_values)
{
    float *x = calloc(65536, sizeof *x);
    CHECK(x != NULL);
    /* Sorted by size, the small ones share blocks. */
    for (uint32_t i = 0; i < 65536; i++)
        x[i] = bf16_decode((uint16_t)(i >> 1 | i << 15));
    for (size_t p = 0; p < COUNT_OF(path_words); p++)
        CHECK(try_codes(path_words[p], "bf16", x, 65536) >= 2 * 0x40c0);
    free(x);
}

TEST_SLOW(all_f16_values)
{
    float *x = calloc(65536, sizeof *x);
    CHECK(x != NULL);
    for (uint32_t i = 0; i < 65536; i++)
        x[i] = f16_decode((uint16_t)(i >> 1 | i << 15));
    for (size_t p = 0; p < COUNT_OF(path_words); p++)
        CHECK(try_codes(path_words[p], "f16", x, 65536) >= 2 * 0x4600);
    free(x);
}

static float moved(float x, int ulps)
{
    for (; ulps > 0; ulps--)
        x = nextafterf(x, INFINITY);
    for (; ulps < 0; ulps++)
        x = nextafterf(x, -INFINITY);
    return x;
}

TEST(midpoints_of_e2m1_and_their_neighbours)
{
    static const float mids[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f,
                                 0.5f,  1.0f,  1.5f,  2.0f,  3.0f, 4.0f, 6.0f};
    float x[COUNT_OF(mids) * 18 + 4] = {0, -0.0f, 0x1p-149f, -0x1p-130f};
    size_t count = 4;
    for (size_t i = 0; i < COUNT_OF(mids); i++)
        for (int ulps = -4; ulps <= 4; ulps++) {
            float v = moved(mids[i], ulps);
            x[count++] = v > 6 ? 6 : v;
            x[count++] = v > 6 ? -6 : -v;
        }
    for (size_t p = 0; p < COUNT_OF(path_words); p++)
        CHECK_EQ(try_codes(path_words[p], "f32", x, count), count);
}

/* With a global scale of 1 the scale of a block is e4m3(amax / 6). */
TEST_SLOW(midpoints_of_e4m3_and_their_neighbours)
{
    for (size_t p = 0; p < COUNT_OF(path_words); p++) {
        struct arena *a = arena_new();
        struct quantize_device q =
            quantize_open(arena_printf(a, "%s x.type=f32", path_words[p]));
        const size_t rows = 0x7e, steps = 41;
        struct quantize_data d = quantize_problem(&q, rows, 16 * steps, 0, 1);
        d.global = 1;
        for (size_t row = 0; row < rows; row++) {
            unsigned code = (unsigned)row;
            double mid = (ref_ue4m3(code) + ref_ue4m3(code + 1)) / 2;
            if (code == 0x7d)
                mid = 464; /* between the largest and what would follow */
            for (size_t s = 0; s < steps; s++)
                for (size_t i = 0; i < 16; i++)
                    quantize_set_x(&d, row, 16 * s + i,
                                   i == 3 ? moved((float)(6 * mid), (int)s - 20) : 0);
        }
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        bool both[0x7f] = {false};
        for (size_t row = 0; row < rows; row++)
            for (size_t s = 0; s < steps; s++) {
                float amax = quantize_x(&d, row, 16 * s + 3);
                float t = amax * 0x1.555556p-3f;
                unsigned got = scale_of(&d, row, s);
                CHECK_EQ(got, ref_e4m3_nearest((double)t));
                if (nv_available())
                    CHECK_EQ(got, nv_e4m3_encode(t));
                both[row] |= got != scale_of(&d, row, 0);
            }
        for (size_t row = 0; row < 0x7d; row++)
            CHECK(both[row]); /* the midpoint was among them */
        quantize_data_free(&d);
        quantize_close(&q);
        arena_free(a);
    }
}

/* 250 and 248 are 0x78, 244 and 240 0x77; beyond 448 0x7e, never 0x7f. */
TEST(scales_of_the_reports)
{
    static const struct {
        float t;
        unsigned scale;
    } rows[] = {{250, 0x78}, {248, 0x78}, {244, 0x77}, {240, 0x77}, {448, 0x7e},
                {464, 0x7e}, {480, 0x7e}, {500, 0x7e}, {0.001f, 1}, {1.5f / 512, 2}};
    for (size_t p = 0; p < COUNT_OF(path_words); p++) {
        struct arena *a = arena_new();
        struct quantize_device q =
            quantize_open(arena_printf(a, "%s x.type=f32", path_words[p]));
        struct quantize_data d = quantize_problem(&q, COUNT_OF(rows), 16, 0, 1);
        d.global = 1;
        for (size_t row = 0; row < d.m; row++)
            for (size_t i = 0; i < 16; i++)
                quantize_set_x(&d, row, i, i == 5 ? 6 * rows[row].t : 0);
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        for (size_t row = 0; row < d.m; row++)
            CHECK_EQ(scale_of(&d, row, 0), rows[row].scale);
        quantize_data_free(&d);
        quantize_close(&q);
        arena_free(a);
    }
}

/* ---- trials */

static void try_trials(const char *words, size_t m, size_t k, int trials)
{
    struct quantize_device q = quantize_open(words);
    for (int i = 0; i < trials; i++) {
        struct quantize_data d =
            quantize_problem(&q, m, k, 0, (uint64_t)i * 77 + m * 5 + k);
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

static void try_both_roundings(size_t m, size_t k, int trials)
{
    try_trials("quantize_nvfp4 target=sm_80", m, k, trials);
    try_trials("quantize_nvfp4 target=sm_80 rounding=halfstep", m, k, trials);
}

TEST_SLOW(five_hundred_trials_of_each_small_size)
{
    try_both_roundings(1, 16, 500);
    try_both_roundings(1, 64, 500);
    try_both_roundings(8, 64, 500);
}

TEST_SLOW(five_hundred_trials_of_128_by_256)
{
    try_both_roundings(128, 256, 500);
}

TEST_SLOW(larger_trials)
{
    try_both_roundings(300, 1040, 6);
    try_trials("quantize_nvfp4 target=sm_100f", 300, 1040, 6);
}

TEST_SLOW(forms_types_roundings_divisions)
{
    static const char *const words[] = {
        "quantize_nvfp4 x.type=f16",
        "quantize_nvfp4 x.type=f32 target=sm_90",
        "quantize_nvfp4 division=reciprocal",
        "quantize_nvfp4 division=reciprocal target=sm_100f rounding=halfstep",
        "quantize_nvfp4 rounding=stochastic",
        "deinterleave_quantize_nvfp4",
        "deinterleave_quantize_nvfp4 x.order=up_gate x.type=f32",
        "silu_mul_quantize_nvfp4",
        "silu_mul_quantize_nvfp4 x.form=interleaved target=sm_100f",
        "silu_mul_quantize_nvfp4 x.form=interleaved x.order=up_gate x.type=f32",
        "silu_mul_quantize_nvfp4 x.order=up_gate x.type=f16 math=precise",
        "silu_mul_quantize_nvfp4 x.type=f32 rounding=halfstep division=reciprocal",
        "dequantize_nvfp4",
        "dequantize_nvfp4 x.type=f16",
        "dequantize_nvfp4 x.type=f32 target=sm_90",
    };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        try(words[i], 140, 232, GLOBAL_BY_POINTER);
        try(words[i], 33, 8, GLOBAL_BY_VALUE);
    }
}

/* ---- places */

TEST_SLOW(every_layout_at_odd_sizes)
{
    static const size_t sizes[][2] = {{1, 1},    {1, 16},    {7, 17},
                                      {8, 64},   {9, 80},    {127, 96},
                                      {128, 47}, {129, 464}, {257, 130}};
    static const char *const layouts[] = {"linear", "128x4", "8x4"};
    struct arena *a = arena_new();
    for (size_t l = 0; l < COUNT_OF(layouts); l++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            const size_t m = sizes[i][0], k = sizes[i][1];
            try(arena_printf(a, "quantize_nvfp4 layout=%s", layouts[l]), m, k,
                GLOBAL_BY_POINTER);
            try(arena_printf(a, "quantize_nvfp4 layout=%s x.type=f32", layouts[l]), m,
                k, GLOBAL_BY_VALUE);
            try(arena_printf(a, "dequantize_nvfp4 layout=%s", layouts[l]), m, k,
                GLOBAL_BY_VALUE);
            for (size_t from = 0; from < COUNT_OF(layouts); from++)
                try(arena_printf(a, "convert_scales from=%s layout=%s", layouts[from],
                                 layouts[l]),
                    m, k, GLOBAL_BY_VALUE);
        }
    arena_free(a);
}

TEST_SLOW(every_shape_of_a_cta)
{
    static const char *const lanes[] = {"4", "8", "16", "32"};
    static const char *const warps[] = {"1", "2", "4", "8"};
    struct arena *a = arena_new();
    for (size_t l = 0; l < COUNT_OF(lanes); l++)
        for (size_t w = 0; w < COUNT_OF(warps); w++)
            for (int op = 0; op < 3; op++) {
                static const char *const ops[] = {"quantize_nvfp4", "dequantize_nvfp4",
                                                  "convert_scales"};
                try(arena_printf(a, "%s lanes=%s warps=%s", ops[op], lanes[l],
                                 warps[w]),
                    131, 1050, GLOBAL_BY_VALUE);
            }
    arena_free(a);
}

/* Grids have 32768 rows of CTAs along y, the rest along z. */
TEST_SLOW(more_rows_than_a_grid_has_along_y)
{
    struct quantize_device q =
        quantize_open("quantize_nvfp4 layout=8x4 lanes=32 warps=1");
    const size_t rows = 128 * 1100; /* 32 slices of 128 rows */
    struct quantize_data d = quantize_problem(&q, rows, 16, 0, 5);
    quantize_check(&q, &d, GLOBAL_BY_VALUE);
    quantize_data_free(&d);
    quantize_close(&q);
}

TEST(nothing_to_do_does_nothing)
{
    struct quantize_device q = quantize_open("quantize_nvfp4");
    fp4gen_quantize_args a = {.k = 64, .global = 1};
    CHECK_EQ(fp4gen_quantize(q.kernel, &a, NULL), FP4GEN_OK);
    a = (fp4gen_quantize_args){.m = 64, .global = 1};
    CHECK_EQ(fp4gen_quantize(q.kernel, &a, NULL), FP4GEN_OK);
    float ms = -1;
    CHECK_EQ(fp4gen_quantize_timed(q.kernel, &a, &ms, NULL), FP4GEN_OK);
    CHECK(ms >= 0);
    quantize_close(&q);
}

TEST(bytes_of_scales)
{
    CHECK_EQ(fp4gen_scale_bytes("128x4", 129, 65, 0), 2 * 2 * 512);
    CHECK_EQ(fp4gen_scale_bytes("8x4", 9, 64, 0), 2 * 32);
    CHECK_EQ(fp4gen_scale_bytes("linear", 3, 40, 0), 9);
    CHECK_EQ(fp4gen_scale_bytes("linear", 3, 40, 7), 2 * 7 + 3);
    CHECK_EQ(fp4gen_scale_bytes("linear", 0, 40, 7), 0);
    CHECK_EQ(fp4gen_scale_bytes("4x4", 3, 40, 7), 0);
    CHECK_EQ(fp4gen_scale_bytes(NULL, 3, 40, 7), 0);
}

/* ---- the global scale */

TEST_SLOW(amax_in_a_first_pass)
{
    try("quantize_nvfp4", 300, 500, GLOBAL_BY_AMAX);
    try("quantize_nvfp4 x.type=f32 target=sm_90", 3, 17, GLOBAL_BY_AMAX);
    try("deinterleave_quantize_nvfp4", 130, 72, GLOBAL_BY_AMAX);
    try("silu_mul_quantize_nvfp4", 130, 72, GLOBAL_BY_AMAX);
    try("silu_mul_quantize_nvfp4 x.form=interleaved x.type=f32", 40, 24,
        GLOBAL_BY_AMAX);
    /* Exactly that of the host, infinities and NaN left out. */
    struct quantize_device q = quantize_open("quantize_nvfp4 x.type=f32");
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct quantize_data d = quantize_problem(&q, 70, 90, 0, seed);
        quantize_set_x(&d, 3, 3, INFINITY);
        quantize_set_x(&d, 4, 4, NAN);
        quantize_set_x(&d, 69, 89, -100 - (float)seed);
        float want = nvfp4_global_scale(100 + (float)seed);
        quantize_check(&q, &d, GLOBAL_BY_AMAX);
        CHECK(d.global == want);
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

TEST(tensors_at_the_ends)
{
    static const float sizes[] = {0, 0x1p-149f, 0x1p-126f, 3.4e38f, INFINITY};
    struct quantize_device q = quantize_open("quantize_nvfp4 x.type=f32");
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct quantize_data d = quantize_problem(&q, 5, 48, 0, 1);
        for (size_t row = 0; row < 5; row++)
            for (size_t col = 0; col < 48; col++)
                quantize_set_x(&d, row, col, col == 20 ? sizes[i] : 0);
        float amax = isinf(sizes[i]) ? 0 : sizes[i];
        quantize_check(&q, &d, GLOBAL_BY_AMAX);
        CHECK(d.global == nvfp4_global_scale(amax));
        CHECK(isfinite(d.global) && d.global > 0);
        CHECK_EQ(code_of(&d, 2, 0), 0);
        CHECK_EQ(scale_of(&d, 2, 0), 0); /* a block of zeros */
        if (sizes[i] == 0)
            CHECK_EQ(scale_of(&d, 2, 1), 0);
        if (isinf(sizes[i])) {
            CHECK_EQ(scale_of(&d, 2, 1), 0x7e);
            CHECK_EQ(code_of(&d, 2, 20), 7);
        }
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

/* By the letter a zero times an infinite fl(1/d) is a NaN, code 7 (docs/numerics.md);
 * but the nibble behind an odd k is no value, and 0. */
TEST(nothing_behind_an_odd_k)
{
    static const char *const words[] = {
        "quantize_nvfp4 x.type=f32 division=reciprocal",
        "quantize_nvfp4 target=sm_100f x.type=f32 division=reciprocal",
        "quantize_nvfp4 x.type=f32 division=reciprocal layout=linear"};
    for (size_t w = 0; w < COUNT_OF(words); w++) {
        struct quantize_device q = quantize_open(words[w]);
        for (size_t k = 1; k < 36; k += 2) {
            struct quantize_data d = quantize_problem(&q, 5, k, 0, k);
            d.global = 0x1p-147f; /* d is 2^-147 times the scale */
            for (size_t row = 0; row < 5; row++)
                for (size_t col = 0; col < k; col++)
                    quantize_set_x(&d, row, col,
                                   col % 5 == 3 ? 0 : 0x1p-149f * (float)(9 + col));
            quantize_check(&q, &d, GLOBAL_BY_VALUE);
            for (size_t row = 0; row < 5; row++) {
                CHECK_EQ(code_of(&d, row, 0), 7);
                CHECK_EQ(code_of(&d, row, k - 1), 7);
                CHECK_EQ(d.codes[row * d.ldc + k / 2] >> 4, 0);
            }
            quantize_data_free(&d);
        }
        quantize_close(&q);
    }
}

/* Behind a pointer nobody looks: by the letter of docs/numerics.md, and what is padding
 * stays 0. */
TEST(global_scales_that_are_none)
{
    static const float globals[] = {0,          -0.0f,    -1,        -0x1p-149f,
                                    -0x1p-130f, INFINITY, -INFINITY, NAN};
    for (size_t p = 0; p < COUNT_OF(path_words); p++) {
        struct quantize_device q = quantize_open(path_words[p]);
        for (size_t g = 0; g < COUNT_OF(globals); g++) {
            struct quantize_data d = quantize_problem(&q, 37, 75, g, 100 + g);
            d.global = globals[g];
            quantize_check(&q, &d, GLOBAL_BY_POINTER);
            quantize_data_free(&d);
        }
        quantize_close(&q);
    }
}

TEST(amax_may_be_there_already)
{
    struct quantize_device q = quantize_open("quantize_nvfp4 layout=linear");
    struct quantize_data d = quantize_problem(&q, 8, 32, 0, 3);
    const float amax = 1234.5f;
    uint64_t x, codes, scales, scalars;
    CHECK_EQ(fp4gen_alloc(q.dev, &x, 512, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_alloc(q.dev, &codes, 128, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_alloc(q.dev, &scales, 16, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_alloc(q.dev, &scalars, 16, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_upload(q.dev, x, d.x, 512, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_upload(q.dev, scalars, &amax, 4, NULL), FP4GEN_OK);
    fp4gen_quantize_args a = {.m = 8,
                              .k = 32,
                              .x = x,
                              .codes = codes,
                              .scales = scales,
                              .amax_ptr = scalars,
                              .amax_is_ready = 1,
                              .global_out = scalars + 4};
    fp4gen_error err = {0};
    fp4gen_quantize(q.kernel, &a, &err);
    CHECK_STR(err.text, "");
    float out[2];
    CHECK_EQ(fp4gen_download(q.dev, out, scalars, 8, NULL), FP4GEN_OK);
    CHECK(out[0] == amax && out[1] == nvfp4_global_scale(amax));
    const uint64_t all[] = {x, codes, scales, scalars};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        CHECK_EQ(fp4gen_free(q.dev, all[i], NULL), FP4GEN_OK);
    quantize_data_free(&d);
    quantize_close(&q);
}

/* ---- blocks that are odd */

TEST(zeros_lost_blocks_nan_and_infinity)
{
    for (size_t p = 0; p < COUNT_OF(path_words); p++) {
        struct quantize_device q = quantize_open(path_words[p]);
        struct quantize_data d = quantize_problem(&q, 1, 16 * 6, 0, 1);
        d.global = 1;
        for (size_t col = 0; col < d.k; col++)
            quantize_set_x(&d, 0, col, col / 16 == 5 ? NAN : 0);
        quantize_set_x(&d, 0, 16, 0x1p-8f); /* t = 2^-8 / 6 < 2^-10: lost */
        quantize_set_x(&d, 0, 32, NAN);
        quantize_set_x(&d, 0, 33, -6);
        quantize_set_x(&d, 0, 48, -INFINITY);
        quantize_set_x(&d, 0, 49, 5);
        quantize_set_x(&d, 0, 64, -0.0f);
        quantize_set_x(&d, 0, 65, -3);
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        static const unsigned scales[] = {0, 0, 0x38, 0x7e, 0x30, 0};
        static const unsigned codes[][2] = {{0, 0},  {0, 0},  {7, 15},
                                            {15, 0}, {8, 15}, {0, 0}};
        for (size_t b = 0; b < 6; b++) {
            CHECK_EQ(scale_of(&d, 0, b), scales[b]);
            CHECK_EQ(code_of(&d, 0, 16 * b), codes[b][0]);
            CHECK_EQ(code_of(&d, 0, 16 * b + 1), codes[b][1]);
        }
        quantize_data_free(&d);
        quantize_close(&q);
    }
}

/* Any float32 bits, any global scale, both ways of conversion: the same bytes. */
TEST_SLOW(paths_agree_on_anything)
{
    static const float globals[] = {1, 0x1p-126f, 0x1p-45f, 0x1p60f, 1.2e35f, 0.37f};
    for (size_t g = 0; g < COUNT_OF(globals); g++) {
        uint8_t *codes = NULL, *scales = NULL;
        for (size_t p = 0; p < COUNT_OF(path_words); p++) {
            struct arena *a = arena_new();
            struct quantize_device q =
                quantize_open(arena_printf(a, "%s x.type=f32", path_words[p]));
            struct quantize_data d = quantize_problem(&q, 128, 512, 0, 1);
            d.global = globals[g];
            for (size_t i = 0; i < d.x_bytes / 4; i++) {
                uint32_t bits = (uint32_t)random_word(g, 1, i);
                if (random_word(g, 2, i / 16) % 4) /* sizes near each other */
                    bits = (bits & 0x80ffffff) |
                           (uint32_t)(random_word(g, 3, i / 16) << 24 & 0x7f000000);
                if ((bits & 0x7fffffff) > 0x7f800000)
                    bits = 0x7fc00000;
                memcpy(d.x + 4 * i, &bits, 4);
            }
            quantize_check(&q, &d, GLOBAL_BY_POINTER);
            if (codes) {
                CHECK(memcmp(codes, d.codes, d.codes_bytes) == 0);
                CHECK(memcmp(scales, d.scales, d.scales_bytes) == 0);
            } else {
                codes = malloc(d.codes_bytes);
                scales = malloc(d.scales_bytes);
                CHECK(codes && scales);
                memcpy(codes, d.codes, d.codes_bytes);
                memcpy(scales, d.scales, d.scales_bytes);
            }
            quantize_data_free(&d);
            quantize_close(&q);
            arena_free(a);
        }
        free(codes);
        free(scales);
    }
}

TEST(random_rounding_repeats_by_its_seed)
{
    struct quantize_device q = quantize_open("quantize_nvfp4 rounding=stochastic");
    uint8_t first[64 * 128];
    for (uint32_t run = 0; run < 3; run++) {
        struct quantize_data d = quantize_problem(&q, 64, 256, 0, 9);
        d.seed = run == 2 ? 6 : 5;
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        CHECK_EQ(d.codes_bytes, sizeof first);
        if (run == 0)
            memcpy(first, d.codes, sizeof first);
        else
            CHECK_EQ(memcmp(first, d.codes, sizeof first) == 0, run == 1);
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

/* silu(1) * 2 = 1.4621, silu(2) * 1 = 1.7616: which is the gate is a choice. */
TEST(gate_and_up_are_not_confused)
{
    static const struct {
        const char *words;
        float want;
    } rows[] = {
        {"silu_mul_quantize_nvfp4", 1.4621172f},
        {"silu_mul_quantize_nvfp4 x.order=up_gate", 1.7615942f},
        {"silu_mul_quantize_nvfp4 x.form=interleaved", 1.4621172f},
        {"silu_mul_quantize_nvfp4 x.form=interleaved x.order=up_gate", 1.7615942f},
        {"deinterleave_quantize_nvfp4", 2},
        {"deinterleave_quantize_nvfp4 x.order=up_gate", 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct quantize_device q = quantize_open(rows[i].words);
        struct quantize_data d = quantize_problem(&q, 2, 32, 0, 1);
        bool halves = strstr(rows[i].words, "silu") && !strstr(rows[i].words, "inter");
        for (size_t row = 0; row < 2; row++)
            for (size_t col = 0; col < 64; col++) {
                bool second = halves ? col >= 32 : col / 8 % 2;
                quantize_set_x(&d, row, col, second ? 2 : 1);
            }
        quantize_run(&q, &d, GLOBAL_BY_AMAX);
        CHECK_NEAR(d.global * 2688, rows[i].want, 1e-5);
        CHECK_EQ(code_of(&d, 1, 31), 7);
        CHECK_EQ(scale_of(&d, 1, 1), 0x7e);
        quantize_data_free(&d);
        quantize_close(&q);
    }
}

TEST(every_code_with_every_scale)
{
    static const float globals[] = {1, 0x1p-120f, 3.7e34f, 0.3f};
    struct quantize_device q = quantize_open("dequantize_nvfp4 x.type=f32");
    for (size_t g = 0; g < COUNT_OF(globals); g++) {
        struct quantize_data d = quantize_problem(&q, 256, 16, 0, 1);
        d.global = globals[g];
        for (size_t row = 0; row < 256; row++) {
            for (size_t i = 0; i < 8; i++)
                d.codes[row * d.ldc + i] = (uint8_t)(2 * i + (2 * i + 1) * 16);
            d.scales[quantize_scale_at("128x4", row, 0, 16, 0)] = (uint8_t)row;
        }
        quantize_run(&q, &d, GLOBAL_BY_POINTER);
        for (size_t row = 0; row < 256; row++)
            for (unsigned i = 0; i < 16; i++) {
                float step = (float)ref_ue4m3((unsigned)row) * globals[g];
                float want = (float)ref_e2m1(i) * step, got = quantize_x(&d, row, i);
                CHECK(isnan(want) ? isnan(got) : memcmp(&want, &got, 4) == 0);
            }
        quantize_data_free(&d);
    }
    quantize_close(&q);
}

/* ---- targets: the emulated device is that of the process's first module */

static void try_target(const char *target)
{
    static const char *const words[] = {
        "quantize_nvfp4",
        "quantize_nvfp4 x.type=f16 rounding=stochastic layout=linear",
        "quantize_nvfp4 x.type=f32 rounding=halfstep layout=8x4",
        "quantize_nvfp4 path=integer division=reciprocal",
        "deinterleave_quantize_nvfp4",
        "silu_mul_quantize_nvfp4",
        "silu_mul_quantize_nvfp4 x.form=interleaved math=precise x.type=f32",
        "dequantize_nvfp4",
        "convert_scales",
    };
    bool has_ptxas = true;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct arena *a = arena_new();
        struct quantize_device q =
            quantize_open(arena_printf(a, "%s target=%s", words[i], target));
        has_ptxas = lower_assemble(a, q.job->image.ptx, target) && has_ptxas;
        struct quantize_data d = quantize_problem(&q, 35, 40, 0, 1);
        quantize_check(&q, &d, GLOBAL_BY_VALUE);
        quantize_data_free(&d);
        quantize_close(&q);
        arena_free(a);
    }
    if (!has_ptxas)
        SKIP("there is no ptxas");
}

TEST_SLOW(assembled_and_run_for_sm_80)
{
    try_target("sm_80");
}

TEST_SLOW(assembled_and_run_for_sm_89)
{
    try_target("sm_89");
}

TEST_SLOW(assembled_and_run_for_sm_90a)
{
    try_target("sm_90a");
}

TEST_SLOW(assembled_and_run_for_sm_100f)
{
    try_target("sm_100f");
}

TEST_SLOW(assembled_and_run_for_sm_100a)
{
    try_target("sm_100a");
}

TEST_SLOW(assembled_and_run_for_sm_103a)
{
    try_target("sm_103a");
}

TEST_SLOW(assembled_and_run_for_sm_120)
{
    try_target("sm_120");
}

TEST_SLOW(assembled_and_run_for_sm_120a)
{
    try_target("sm_120a");
}
