/* gen/run_data.c, gen/run_check.c and the refusals of gen/run.c.  What a run on the
 * emulator gives is in t_gemm_*.c and tests/test_*.py; here are the parts that decide
 * whether such a run has passed. */
#include "gen/npy.h"
#include "gen/run.h"
#include "gen/run_check.h"
#include "gen/run_data.h"
#include "gen/run_outputs.h"
#include "tests/kernel_text.h"
#include "tests/ref.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Operands */

TEST(random_operands_depend_on_seed_and_place_alone)
{
    struct operand a, wide, other;
    CHECK(operand_alloc(&a, 130, 96, 48) && operand_alloc(&wide, 130, 96, 80) &&
          operand_alloc(&other, 130, 96, 48));
    operand_random(&a, 7, 0, 0x7f);
    operand_random(&wide, 7, 0, 0x00);
    operand_random(&other, 8, 0, 0x7f);
    for (size_t row = 0; row < 130; row++)
        CHECK(memcmp(a.codes + row * 48, wide.codes + row * 80, 48) == 0);
    CHECK(memcmp(a.codes, other.codes, a.codes_bytes) != 0);
    CHECK(memcmp(a.scales, other.scales, a.scales_bytes) != 0);
    operand_random(&other, 7, 1, 0x7f);
    CHECK(memcmp(a.codes, other.codes, a.codes_bytes) != 0);
    int count[16] = {0}; /* 12480 codes, 780 of each */
    for (size_t i = 0; i < a.codes_bytes; i++) {
        count[a.codes[i] & 15]++;
        count[a.codes[i] >> 4]++;
    }
    for (int code = 0; code < 16; code++)
        CHECK_NEAR(count[code], 780, 150);
    operand_free(&a);
    operand_free(&wide);
    operand_free(&other);
}

/* Worked out by hand from docs/numerics.md, so that the description stays true. */
TEST(random_words_are_as_described)
{
    const uint64_t g = 0x9e3779b97f4a7c15u;
    uint64_t z[3] = {5 + g, 0, 0};
    for (int i = 0; i < 3; i++) {
        z[i] = (z[i] ^ z[i] >> 30) * 0xbf58476d1ce4e5b9u;
        z[i] = (z[i] ^ z[i] >> 27) * 0x94d049bb133111ebu;
        z[i] ^= z[i] >> 31;
        if (i == 0)
            z[1] = z[0] + 3; /* stream */
        if (i == 1)
            z[2] = z[1] + (11 + 1) * g; /* word */
    }
    CHECK_EQ(random_word(5, 3, 11), z[2]);
}

/* Of a vector, and of a scalar; and only what is no finite number above 0 is refused.
 */
TEST(scales_are_above_0)
{
    static const struct image image = {
        .epilogue = "custom",
        .arg_count = 3,
        .args = {{.name = "g", .kind = ARG_ROW, .type = "f32", .is_scale = 1},
                 {.name = "s", .kind = ARG_ROW, .type = "f16", .is_scale = 1},
                 {.name = "d", .kind = ARG_SCALAR, .type = "f32", .is_scale = 1}}};
    static const double bad[] = {0, -1, NAN, INFINITY, 1e-60};
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct run_arg args[3];
    CHECK(run_args_make(args, &image, 500, 16, 1, NULL, 0, d));
    run_arg_multiply(&args[0], 0x1p-100f);
    for (size_t row = 0; row < 500; row++)
        for (int k = 0; k < 2; k++) {
            uint32_t bits = run_arg_element(&args[k], 0, row);
            float x;
            memcpy(&x, &bits, sizeof x);
            x *= k ? 1 : 0x1p100f;
            CHECK(x >= 0.5f && x <= 2);
        }
    CHECK(run_arg_value(&args[2]) >= 0.5 && run_arg_value(&args[2]) <= 2);
    run_args_free(args, &image);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const struct run_setting set = {"d", bad[i]};
        d = diags_new(a);
        CHECK(!run_args_make(args, &image, 500, 16, 1, &set, 1, d));
        CHECK_DIAG(d, "quantize-global", 0);
        run_args_free(args, &image);
    }
    arena_free(a);
}

TEST(padding_is_where_nothing_may_be_used)
{
    struct operand a;
    CHECK(operand_alloc(&a, 130, 90, 64)); /* 45 bytes, 6 blocks of 8 */
    operand_random(&a, 1, 0, 0x7f);
    size_t padded = 0;
    for (size_t row = 0; row < 256; row++)
        for (size_t kb = 0; kb < 8; kb++) {
            uint8_t byte = a.scales[ref_sf_offset(row, kb, 90)];
            bool used = row < 130 && kb < 6;
            CHECK_EQ(byte == 0x7f, !used);
            CHECK(!used || (byte >= 0x28 && byte < 0x48));
            padded += !used;
        }
    CHECK_EQ(padded, 256 * 8 - 130 * 6);
    for (size_t row = 0; row < 130; row++)
        for (size_t i = 45; i < 64; i++)
            CHECK_EQ(a.codes[row * 64 + i], 0x7f);
    operand_free(&a);
}

TEST(quantised_operands_agree_with_the_reference)
{
    enum { ROWS = 5, COLS = 51 };
    static float data[ROWS * COLS];
    for (size_t i = 0; i < COUNT_OF(data); i++)
        data[i] = (float)((double)(random_word(3, 0, i) >> 40) * 0x1p-24 - 0.5);
    data[77] = INFINITY;
    data[78] = NAN;
    struct npy x = {.rows = ROWS, .cols = COLS, .data = data};
    struct operand a;
    CHECK(operand_alloc(&a, ROWS, COLS + 1, 32));
    operand_quantize(&a, &x, FP4_NEAREST, 0x55);
    float amax = 0; /* of the finite ones */
    for (size_t i = 0; i < COUNT_OF(data); i++)
        if (isfinite(data[i]))
            amax = fmaxf(amax, fabsf(data[i]));
    CHECK_NEAR(a.global, amax / 2688.0f, 0);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t k = 0; k < COLS; k += 16) {
            uint8_t codes[16], scale;
            size_t count = COLS - k < 16 ? COLS - k : 16;
            ref_quantize_block(data + row * COLS + k, count, a.global, false, codes,
                               &scale);
            CHECK_EQ(a.scales[ref_sf_offset(row, k / 16, COLS)], scale);
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(a.codes[row * 32 + (k + i) / 2] >> (k + i) % 2 * 4 & 15,
                         codes[i]);
        }
        CHECK_EQ(a.codes[row * 32 + COLS / 2] >> 4, 0); /* the column that was added */
        CHECK_EQ(a.codes[row * 32 + 26], 0x55);
    }
    operand_free(&a);
}

/* ---- Comparison */

enum { M = 300, N = 260, K = 80, LD = N * 4 + 12 };

struct problem {
    struct operand a, b;
    struct ref_gemm ref;
    struct d_matrix d;
    uint8_t *bytes;
};

static float *element(struct problem *p, size_t row, size_t col)
{
    return (float *)(void *)(p->bytes + GUARD_BYTES + row * LD + col * 4);
}

/* D as a right kernel leaves it: from the reference itself. */
static struct problem make_problem(void)
{
    struct problem p;
    CHECK(operand_alloc(&p.a, M, K, 48) && operand_alloc(&p.b, N, K, 48));
    operand_random(&p.a, 1, 0, 0x7f);
    operand_random(&p.b, 1, 1, 0x7f);
    p.ref = (struct ref_gemm){.m = M,
                              .n = N,
                              .k = K,
                              .a = p.a.codes,
                              .b = p.b.codes,
                              .lda = 48,
                              .ldb = 48,
                              .sfa = p.a.scales,
                              .sfb = p.b.scales,
                              .alpha = 0.3}; /* inexact */
    p.bytes = malloc(2 * GUARD_BYTES + M * LD);
    CHECK(p.bytes != NULL);
    p.d = (struct d_matrix){.m = M, .n = N, .ld_bytes = LD, .is_f32 = true};
    d_poison(&p.d, p.bytes, POISON_BYTE);
    CHECK_EQ(d_check_touched(&p.d).unwritten, M * N);
    CHECK_EQ(d_check_touched(&p.d).strayed, 0);
    struct ref_dot *dots = malloc(sizeof *dots * M * N);
    CHECK(dots && ref_gemm(&p.ref, 0, M, 0, N, dots));
    for (size_t row = 0; row < M; row++)
        for (size_t col = 0; col < N; col++)
            *element(&p, row, col) = (float)dots[row * N + col].value;
    free(dots);
    return p;
}

static void free_problem(struct problem *p)
{
    operand_free(&p->a);
    operand_free(&p->b);
    free(p->bytes);
}

TEST(right_results_pass)
{
    struct problem p = make_problem();
    struct d_touched t = d_check_touched(&p.d);
    CHECK_EQ(t.unwritten, 0);
    CHECK_EQ(t.strayed, 0);
    struct d_compared c;
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK(d_compare_all(&p.d, &p.ref, threads, &c));
        CHECK_EQ(c.elements, M * N);
        CHECK_EQ(c.wrong, 0);
        CHECK(c.worst > 0 && c.worst <= 1);
    }
    CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 4096, 9, &c));
    CHECK_EQ(c.wrong, 0);
    CHECK(c.elements < M * N);
    free_problem(&p);
}

TEST(untouched_and_strayed_bytes_are_found)
{
    struct problem p = make_problem();
    memset(element(&p, 299, 259), POISON_BYTE, 4);
    memset(element(&p, 17, 3), POISON_BYTE, 4);
    struct d_touched t = d_check_touched(&p.d);
    CHECK_EQ(t.unwritten, 2);
    CHECK_EQ(t.first_unwritten.row, 17);
    CHECK_EQ(t.first_unwritten.col, 3);
    CHECK_EQ(t.strayed, 0);
    p.bytes[0] = 0;
    CHECK_EQ(d_check_touched(&p.d).strayed, 1);
    CHECK_EQ(d_check_touched(&p.d).first_strayed, -GUARD_BYTES);
    p.bytes[2 * GUARD_BYTES + M * LD - 1] = 0;
    CHECK_EQ(d_check_touched(&p.d).strayed, 2);
    p.bytes[GUARD_BYTES + 5 * LD + N * 4] = 0; /* between rows */
    CHECK_EQ(d_check_touched(&p.d).strayed, 3);
    CHECK_EQ(d_check_touched(&p.d).first_strayed, 5 * LD + N * 4);
    free_problem(&p);
}

TEST(one_wrong_element_is_found)
{
    struct problem p = make_problem();
    struct d_compared c;
    *element(&p, 123, 45) += 0.5f;
    CHECK(d_compare_all(&p.d, &p.ref, 2, &c));
    CHECK_EQ(c.wrong, 1);
    CHECK_EQ(c.at.row, 123);
    CHECK_EQ(c.at.col, 45);
    CHECK(c.worst > 1);
    CHECK_NEAR(c.got - c.want, 0.5, 1e-3);
    *element(&p, 200, 200) = NAN;
    CHECK(d_compare_all(&p.d, &p.ref, 2, &c));
    CHECK_EQ(c.wrong, 2);
    CHECK(isinf(c.worst));
    free_problem(&p);
}

/* Tiles of 128 x 64: rows 0 127 128 255 256 299, columns 0 63 64 .. 255 256 259. */
TEST(edges_of_all_tiles_are_compared)
{
    static const size_t rows[] = {0, 127, 128, 255, 256, 299},
                        cols[] = {0, 63, 64, 127, 128, 191, 192, 255, 256, 259};
    struct problem p = make_problem();
    struct d_compared c;
    CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 0, 0, &c));
    CHECK_EQ(c.elements, COUNT_OF(rows) * N + COUNT_OF(cols) * M);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        float *x = element(&p, rows[i], 37), right = *x;
        *x = right + 1;
        CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 0, 0, &c));
        CHECK_EQ(c.wrong, 1);
        *x = right;
    }
    for (size_t i = 0; i < COUNT_OF(cols); i++) {
        float *x = element(&p, 99, cols[i]), right = *x;
        *x = right + 1;
        CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 0, 0, &c));
        CHECK_EQ(c.wrong, 1);
        *x = right;
    }
    *element(&p, 100, 100) += 1; /* inside a tile: only by chance */
    CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 0, 0, &c));
    CHECK_EQ(c.wrong, 0);
    CHECK(d_compare_part(&p.d, &p.ref, 128, 64, 2000000, 0, &c));
    CHECK(c.wrong > 0);
    free_problem(&p);
}

TEST(loss_against_the_unquantised_product)
{
    float a[2 * 2] = {1, 2, 3, 4}, b[1 * 2] = {1, 1};
    struct npy x = {.rows = 2, .cols = 2, .data = a},
               y = {.rows = 1, .cols = 2, .data = b};
    static uint8_t bytes[2 * GUARD_BYTES + 2 * 16];
    struct d_matrix d = {
        .bytes = bytes, .m = 2, .n = 1, .ld_bytes = 16, .is_f32 = true};
    float d0 = 3.0f, d1 = 8.0f; /* right: 3 and 7 */
    memcpy(bytes + GUARD_BYTES, &d0, 4);
    memcpy(bytes + GUARD_BYTES + 16, &d1, 4);
    struct d_loss l = d_measure_loss(&d, &x, &y, 1.0, 0, 0);
    CHECK_EQ(l.elements, 2);
    CHECK_NEAR(l.worst, 1, 1e-12);
    CHECK_NEAR(l.relative, 1 / sqrt(58), 1e-12);
    l = d_measure_loss(&d, &x, &y, 2.0, 100, 0); /* right: 6 and 14 */
    CHECK_EQ(l.elements, 100);
    CHECK_NEAR(l.worst, 6, 1e-12);
}

/* ---- Refusals of the verb */

/* Runs it; the status, what it printed to `err`. */
static int run_verb(struct arena *a, const struct run_options *o, char **err_text)
{
    FILE *out = tmpfile(), *err = tmpfile();
    CHECK(out && err);
    int status = verb_run(o, out, err);
    long bytes = ftell(err);
    CHECK(bytes >= 0);
    *err_text = arena_alloc(a, (size_t)bytes + 1);
    rewind(err);
    CHECK_EQ(fread(*err_text, 1, (size_t)bytes, err), bytes);
    fclose(out);
    fclose(err);
    return status;
}

static void check_verb(const struct run_options *o, int status, const char *words)
{
    struct arena *a = arena_new();
    char *err;
    CHECK_EQ(run_verb(a, o, &err), status);
    if (!strstr(err, words))
        CHECK_STR(err, words);
    arena_free(a);
}

static void use_fake_driver(void)
{
    char program[4096] = "";
    CHECK(readlink("/proc/self/exe", program, sizeof program - 64) > 0);
    strcpy(strrchr(program, '/'), "/fake/libcuda.so.1");
    CHECK(dlopen(program, RTLD_NOW) != NULL);
}

static struct run_options kernel_options(struct arena *a)
{
    struct run_options o = run_defaults();
    const char *path = test_tmp_path("kernel.ptx");
    const char *text = kernel_text(a, kernel_manifest);
    CHECK(file_write(path, text, strlen(text)));
    o.ptx_path = path;
    o.driver = "cuda";
    o.m = 300;
    o.n = 520;
    o.k = 1088;
    return o;
}

/* The fake driver launches nothing: D stays as it was, and that is noticed. */
TEST(kernel_that_writes_nothing_fails)
{
    struct arena *a = arena_new();
    use_fake_driver();
    struct run_options o = kernel_options(a);
    check_verb(&o, 1,
               "error: 156000 elements of d were not written, the first is d[0][0] "
               "[run-unwritten]");
    arena_free(a);
}

TEST(sizes_and_strides_of_the_command_line)
{
    struct arena *a = arena_new();
    use_fake_driver();
    struct run_options o = kernel_options(a);
    o.n = -1;
    check_verb(&o, 2, "-n is missing");
    o = kernel_options(a);
    o.k = (int64_t)1 << 32;
    check_verb(&o, 2, "-k 4294967296 is too large");
    o.k = 1087;
    check_verb(&o, 1, "k is 1087: two FP4 values share a byte");
    o = kernel_options(a);
    o.ldb = 1000;
    check_verb(&o, 1, "ldb is 1000 bytes, not a multiple of 16");
    o.ldb = 16;
    check_verb(&o, 1, "ldb is 16 bytes, but a row has 544");
    o = kernel_options(a);
    o.m = 0;
    check_verb(&o, 0, "");
    o.m = 0x7fffff00;
    o.n = 0x7fffff00;
    check_verb(&o, 1, "memory");
    arena_free(a);
}

TEST(kernel_files)
{
    struct arena *a = arena_new();
    use_fake_driver();
    struct run_options o = kernel_options(a);
    o.ptx_path = test_tmp_path("absent.ptx");
    check_verb(&o, 1, "absent.ptx: error: cannot be read: No such file");
    o = kernel_options(a);
    CHECK(file_write(o.ptx_path, ".version 8.8\n", 13));
    check_verb(&o, 1, "kernel.ptx: error: not a kernel of fp4gen");
    o = kernel_options(a);
    const char *text = kernel_text(a, kernel_manifest);
    CHECK(file_write(o.ptx_path, text, strlen(text) / 2));
    check_verb(&o, 1, "kernel.ptx: error: the PTX is truncated");
    setenv("FAKE_LOAD", "218", 1);
    o = kernel_options(a);
    check_verb(&o, 1,
               "[cuda-call]\nthe driver's log:\nline 7; fatal: a fake complaint\n");
    arena_free(a);
}

static const char *matrix_file(const char *name, size_t rows, size_t cols)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    float *x = ARENA_ARRAY(a, float, rows *cols);
    for (size_t i = 0; i < rows * cols; i++)
        x[i] = (float)i;
    x[0] = NAN;
    const char *path = test_tmp_path(name);
    CHECK(npy_write(path, NPY_F32, x, rows, cols, cols * 4, d));
    arena_free(a);
    return path;
}

TEST(matrices_that_do_not_fit)
{
    struct arena *a = arena_new();
    use_fake_driver();
    struct run_options o = kernel_options(a);
    o.m = o.n = o.k = -1;
    o.ins = (struct run_files){.list = {{"a", matrix_file("a.npy", 3, 32)},
                                        {"b", matrix_file("b.npy", 5, 34)}},
                               .count = 2};
    check_verb(&o, 1, "b.npy: error: the matrix is 5 x 34, and ");
    o.ins.count = 1;
    check_verb(&o, 2, "-n is missing");
    o.ins.count = 2;
    o.ins.list[1].path = matrix_file("b2.npy", 5, 32);
    o.k = 64;
    check_verb(&o, 2, "the file has k = 32, but -k 64 is given");
    o.k = -1;
    check_verb(&o, 1, "a.npy: note: 1 NaN");
    o.ins.list[0].path = test_tmp_path("absent.npy");
    check_verb(&o, 1, "absent.npy: error: cannot be read");
    arena_free(a);
}
