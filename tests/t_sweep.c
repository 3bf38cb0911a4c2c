/* t_sweep.c - every kernel that the generator can write, on the emulator.
 *
 * Tiles x output types x stages 2..max x problem shapes x completion strategies x what
 * lies in the padding.  The expected D of a shape is known once: its elements keep the
 * reference's bound, and after that every other kernel must give the same bits, since
 * all of them add up K in the same order and the emulator rounds once an MMA.
 *
 * All of it is some 30000 launches, a minute or two of processor time. */
#include "gen/job.h"
#include "runtime/fp4gen.h"
#include "tests/ref.h"
#include "tests/test.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 4, NS = 4, KS = 6, SHAPES = MS * NS * KS };
static const uint32_t all_m[MS] = {1, 127, 129, 300};
static const uint32_t all_n[NS] = {8, 464, 520, 77};
static const uint32_t all_k[KS] = {64, 96, 464, 1056, 48, 82};

static const char *const tiles[] = {"64", "128", "192", "256"};
static const char *const tile_ks[] = {"128", "256"};
static const char *const d_types[] = {"bf16", "f32"};
static const char *const strategies[] = {"eager", "lazy"};

enum { PADS = 2 };
static const unsigned char pads[PADS] = {0x7f, 0x00}; /* NaN, and zero */
static const float alpha = 0.37f;

struct shape {
    uint32_t m, n, k;
    size_t lda, ldb;
    uint8_t *a, *b, *sfa[PADS], *sfb[PADS];
    struct ref_dot *want; /* m x n */
};

static uint64_t random_state;

static uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

/* Mostly 2^-2 .. 2^3, now and then anything but NaN. */
static uint8_t random_scale(void)
{
    uint32_t r = random_u32();
    uint8_t any = (uint8_t)(r >> 8 & 0x7f);
    return r % 16 == 0 && any != 0x7f ? any : (uint8_t)(0x28 + (r >> 8) % 0x28);
}

static void *need(void *p)
{
    CHECK(p);
    return p;
}

/* Codes and scales of one operand; all that does not count is garbage. */
static void make_operand(uint32_t rows, uint32_t k, size_t ld, uint8_t **codes,
                         uint8_t *scales[PADS])
{
    *codes = need(malloc(rows * ld));
    for (size_t i = 0; i < rows * ld; i++)
        (*codes)[i] = (uint8_t)random_u32();
    size_t bytes = ref_sf_bytes(rows, k);
    for (int p = 0; p < PADS; p++) {
        scales[p] = need(malloc(bytes));
        memset(scales[p], pads[p], bytes);
    }
    for (size_t row = 0; row < rows; row++)
        for (size_t kb = 0; kb < (k + 15) / 16; kb++)
            scales[0][ref_sf_offset(row, kb, k)] =
                scales[1][ref_sf_offset(row, kb, k)] = random_scale();
}

static void make_shape(struct shape *s, int index)
{
    s->m = all_m[index % MS];
    s->n = all_n[index / MS % NS];
    s->k = all_k[index / MS / NS];
    random_state = (uint64_t)index + 1;
    s->lda = (s->k / 2 + 15) / 16 * 16 + 16 * (size_t)(index % 2);
    s->ldb = (s->k / 2 + 15) / 16 * 16;
    make_operand(s->m, s->k, s->lda, &s->a, s->sfa);
    make_operand(s->n, s->k, s->ldb, &s->b, s->sfb);
    s->want = need(malloc(sizeof *s->want * s->m * s->n));
    const struct ref_gemm g = {s->m,   s->n,   s->k,      s->a,      s->b,
                               s->lda, s->ldb, s->sfa[0], s->sfb[0], (double)alpha};
    CHECK(ref_gemm(&g, 0, s->m, 0, s->n, s->want));
}

/* What one worker process has on its device. */
struct worker {
    struct shape shapes[SHAPES]; /* made when first met */
    fp4gen_device *dev;
    uint64_t a[SHAPES], b[SHAPES], sfa[SHAPES][PADS], sfb[SHAPES][PADS];

    uint8_t *bits[SHAPES][2]; /* dense D of each output type, once known */
    int runs;
};

struct kernel_case {
    const char *tile_n, *tile_k, *d_type;
    bool is_f32;
    int stages; /* 0: auto */
};

static void must(fp4gen_status status, const fp4gen_error *err, const char *doing)
{
    if (status != FP4GEN_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", doing, err->text);
}

static uint64_t to_device(fp4gen_device *dev, const void *data, size_t bytes)
{
    fp4gen_error err;
    uint64_t address;
    must(fp4gen_alloc(dev, &address, bytes, &err), &err, "alloc");
    must(fp4gen_upload(dev, address, data, bytes, &err), &err, "upload");
    return address;
}

static void use_shape(struct worker *w, int index)
{
    struct shape *s = &w->shapes[index];
    if (s->m)
        return;
    make_shape(s, index);
    w->a[index] = to_device(w->dev, s->a, s->m * s->lda);
    w->b[index] = to_device(w->dev, s->b, s->n * s->ldb);
    for (int p = 0; p < PADS; p++) {
        w->sfa[index][p] = to_device(w->dev, s->sfa[p], ref_sf_bytes(s->m, s->k));
        w->sfb[index][p] = to_device(w->dev, s->sfb[p], ref_sf_bytes(s->n, s->k));
    }
}

static double element(const uint8_t *d, bool is_f32)
{
    float f;
    if (is_f32) {
        memcpy(&f, d, sizeof f);
        return (double)f;
    }
    return ref_bf16((unsigned)d[0] | (unsigned)d[1] << 8);
}

/* D as it came back, without the gaps between rows, which must be untouched. */
static uint8_t *dense(const uint8_t *d, const struct shape *s, size_t ldd,
                      size_t row_bytes, const char *name)
{
    uint8_t *out = need(malloc(s->m * row_bytes));
    for (size_t row = 0; row < s->m; row++) {
        memcpy(out + row * row_bytes, d + row * ldd, row_bytes);
        for (size_t i = row_bytes; i < ldd; i++)
            if (d[row * ldd + i] != 0xa5)
                test_fail(__FILE__, __LINE__, "%s: wrote behind row %zu of D", name,
                          row);
    }
    return out;
}

static void check_elements(const uint8_t *d, const struct shape *s, bool is_f32,
                           const char *name)
{
    size_t elem = is_f32 ? 4 : 2;
    for (size_t i = 0; i < (size_t)s->m * s->n; i++) {
        double x = element(d + i * elem, is_f32);
        double error = ref_error(x, s->want[i], s->k, is_f32);
        if (!(error <= 1))
            test_fail(__FILE__, __LINE__,
                      "%s: D[%zu][%zu] is %.9g, expected %.9g: %.3g of the bound", name,
                      i / s->n, i % s->n, x, s->want[i].value, error);
    }
}

static void run_shape(struct worker *w, fp4gen_kernel *k, const struct kernel_case *c,
                      int index, int pad, const char *kernel_name)
{
    use_shape(w, index);
    const struct shape *s = &w->shapes[index];
    char name[256];
    snprintf(name, sizeof name, "%s m=%u n=%u k=%u padding=0x%02x %s", kernel_name,
             s->m, s->n, s->k, pads[pad], getenv("FP4EMU_STRATEGY"));
    use_shape(w, index);
    size_t row_bytes = (size_t)s->n * (c->is_f32 ? 4 : 2);
    size_t ldd = (row_bytes + 15) / 16 * 16 + 16 * (size_t)(index % 3);
    size_t bytes = (s->m - 1) * ldd + row_bytes;
    uint8_t *d = need(malloc(s->m * ldd));
    fp4gen_error err = {0};
    uint64_t address;
    must(fp4gen_alloc(w->dev, &address, bytes, &err), &err, name);
    must(fp4gen_fill(w->dev, address, 0xa5, bytes, &err), &err, name);
    const fp4gen_gemm g = {
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = w->a[index],
        .b = w->b[index],
        .d = address,
        .sfa = w->sfa[index][pad],
        .sfb = w->sfb[index][pad],
        .lda = s->lda,
        .ldb = s->ldb,
        .ldd = ldd,
        .alpha = alpha,
        .ctas = (uint32_t)(w->runs % 4), /* 0: one a tile; else a CTA walks many */
    };
    must(fp4gen_run(k, &g, &err), &err, name);
    must(fp4gen_sync(w->dev, NULL, &err), &err, name);
    memset(d, 0xa5, s->m * ldd);
    must(fp4gen_download(w->dev, d, address, bytes, &err), &err, name);
    must(fp4gen_free(w->dev, address, &err), &err, name);

    uint8_t *bits = dense(d, s, ldd, row_bytes, name);
    uint8_t **known = &w->bits[index][c->is_f32];
    if (!*known) {
        check_elements(bits, s, c->is_f32, name);
        *known = bits;
    } else {
        if (memcmp(bits, *known, s->m * row_bytes) != 0) {
            check_elements(bits, s, c->is_f32, name);
            test_fail(__FILE__, __LINE__, "%s: other bits than the kernels before",
                      name);
        }
        free(bits);
    }
    free(d);
    w->runs++;
}

static struct job *make_kernel(const struct kernel_case *c)
{
    char stages[16];
    snprintf(stages, sizeof stages, "%d", c->stages);
    struct config_override set[8];
    int count = 0;
    set[count++] = (struct config_override){"tile.n", c->tile_n};
    set[count++] = (struct config_override){"tile.k", c->tile_k};
    set[count++] = (struct config_override){"d.type", c->d_type};
    set[count++] = (struct config_override){"stages", c->stages ? stages : "auto"};
    const struct job_options options = {
        .overrides = set, .override_count = count, .check = true};
    struct job *j = job_run(&options);
    if (j->diags->count)
        test_fail(__FILE__, __LINE__, "%s", j->diags->first->text);
    return j;
}

static int max_stages(struct kernel_case c)
{
    c.stages = 0;
    struct job *j = make_kernel(&c);
    int stages = j->plan->stages;
    job_free(j);
    CHECK(stages >= 2);
    return stages;
}

/* The shapes that kernel number `i` meets: all, or a few. */
static bool meets(int kernel, int shape, int strategy, bool full)
{
    return full || (shape + 7 * kernel + 5 * strategy) % 18 == 0;
}

static void run_kernel(struct worker *w, const struct kernel_case *c, int number,
                       int strategy, bool full)
{
    struct job *j = make_kernel(c);
    fp4gen_kernel *k;
    fp4gen_error err;
    must(fp4gen_load(&k, w->dev, j->image.ptx, j->image.ptx_bytes, &err), &err,
         j->image.kernel);
    for (int shape = 0; shape < SHAPES; shape++)
        if (meets(number, shape, strategy, full))
            for (int pad = 0; pad < PADS; pad++)
                if (full || pad == (number + shape) % PADS)
                    run_shape(w, k, c, shape, pad, j->image.kernel);
    fp4gen_unload(k);
    job_free(j);
}

static struct worker *worker_open(int strategy)
{
    setenv("FP4EMU_STRATEGY", strategies[strategy], 1);
    struct worker *w = need(calloc(1, sizeof *w));
    fp4gen_error err;
    must(fp4gen_open(&w->dev, FP4GEN_DRIVER_EMU, 0, "sm_100f", &err), &err, "open");
    return w;
}

static void worker_close(struct worker *w)
{
    for (int i = 0; i < SHAPES; i++) {
        free(w->shapes[i].a);
        free(w->shapes[i].b);
        for (int p = 0; p < PADS; p++) {
            free(w->shapes[i].sfa[p]);
            free(w->shapes[i].sfb[p]);
        }
        free(w->shapes[i].want);
        for (int t = 0; t < 2; t++)
            free(w->bits[i][t]);
    }
    fp4gen_close(w->dev);
    free(w);
}

/* One test is one strategy and a quarter of the kernels; main.c runs each in a process
 * of its own, so that the strategy can be chosen before the driver opens. */
static void sweep(int strategy, int part)
{
    const int parts = 4;
    struct worker *w = worker_open(strategy);
    int number = 0;
    for (size_t n = 0; n < COUNT_OF(tiles); n++)
        for (size_t k = 0; k < COUNT_OF(tile_ks); k++)
            for (size_t t = 0; t < COUNT_OF(d_types); t++) {
                struct kernel_case c = {.tile_n = tiles[n],
                                        .tile_k = tile_ks[k],
                                        .d_type = d_types[t],
                                        .is_f32 = t == 1};
                int most = max_stages(c);
                for (c.stages = 2; c.stages <= most; c.stages++, number++)
                    if (number % parts == part)
                        run_kernel(w, &c, number, strategy, true);
            }
    CHECK(w->runs > 0);
    worker_close(w);
}

TEST_SLOW(eager_part_1)
{
    sweep(0, 0);
}

TEST_SLOW(eager_part_2)
{
    sweep(0, 1);
}

TEST_SLOW(eager_part_3)
{
    sweep(0, 2);
}

TEST_SLOW(eager_part_4)
{
    sweep(0, 3);
}

TEST_SLOW(lazy_part_1)
{
    sweep(1, 0);
}

TEST_SLOW(lazy_part_2)
{
    sweep(1, 1);
}

TEST_SLOW(lazy_part_3)
{
    sweep(1, 2);
}

TEST_SLOW(lazy_part_4)
{
    sweep(1, 3);
}

/* The few kernels that also run under the sanitizers. */
TEST(smoke)
{
    struct worker *w = worker_open(1);
    const struct kernel_case cases[] = {
        {"64", "128", "bf16", false, 3},
        {"256", "256", "f32", true, 0},
    };
    for (int i = 0; i < (int)COUNT_OF(cases); i++)
        run_kernel(w, &cases[i], 5 * i, 1, false);
    CHECK(w->runs >= 4);
    worker_close(w);
}
