/* t_fast_math.c - the fast functions of epilogues as kernels for sm_90a, through the
 * driver: every output is within what its approximations may be off (gen/run_slack.h).
 *
 * On the emulator, as it is and with FP4EMU_APPROX=perturb; with FP4GEN_TEST_GPU=1 on a
 * GPU, where it prints how far they were off. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/run_slack.h"
#include "runtime/fp4gen.h"
#include "tests/lower_run.h"
#include "tests/test.h"

enum { ROWS = 512, COLS = 64, CHUNK = 32, THREADS = 128 };

static const char *const bodies[] = {
    "return e.f32(e.exp(e.acc))",           "return e.f32(e.exp2(e.acc))",
    "return e.f32(e.log(e.acc))",           "return e.f32(e.log2(e.acc))",
    "return e.f32(e.tanh(e.acc))",          "return e.f32(e.erf(e.acc))",
    "return e.f32(e.rcp(e.acc))",           "return e.f32(e.sqrt(e.acc))",
    "return e.f32(e.rsqrt(e.acc))",         "return e.f32(e.sigmoid(e.acc))",
    "return e.f32(e.silu(e.acc))",          "return e.f32(e.gelu_tanh(e.acc))",
    "return e.f32(e.gelu_erf(e.acc))",      "return e.f32(e.softcap(e.acc, 30))",
    "return e.bf16(e.softcap(e.acc, 30))",  "return e.f16(e.silu(e.acc))",
    "return e.e4m3(e.gelu_tanh(e.acc))",    "return e.mxfp8(e.silu(e.acc))",
    "return e.mxfp4(e.softcap(e.acc, 30))",
};

static bool on_gpu(void)
{
    const char *wish = getenv("FP4GEN_TEST_GPU");
    return wish && *wish && *wish != '0';
}

/* Signs and sizes from 2^-12 to 2^5, and what is special. */
static void fill(float *acc)
{
    static const float special[] = {0,   -0.0f, INFINITY,  -INFINITY,
                                    NAN, 1,     0x1p-130f, 88};
    uint64_t x = 7;
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        float size = ldexpf(1 + (float)(x >> 41) * 0x1p-23f, (int)(x >> 32) % 17 - 12);
        acc[i] = i % 61 == 7 ? special[i / 61 % COUNT_OF(special)]
                 : x >> 63   ? -size
                             : size;
    }
}

static void run(fp4gen_device *dev, struct arena *a, struct lower_run *r)
{
    fp4gen_error err = {0};
    fp4gen_module *module = NULL;
    const char *ptx = lower_kernel(a, r);
    size_t acc_bytes = (size_t)ROWS * COLS * 4;
    size_t out_bytes = (size_t)ROWS * r->chunks * r->words_per_chunk * 4;
    uint64_t acc = 0, out = 0;
    r->words = ARENA_ARRAY(a, uint32_t, out_bytes / 4);
    void *params[] = {&acc, &out, &r->rows, &r->m, &r->n, &r->alpha};
    fp4gen_launch l = {.entry = "epilogue",
                       .grid = {ROWS / THREADS, 1, 1},
                       .block = {THREADS, 1, 1},
                       .params = params};
    if (fp4gen_module_load(&module, dev, ptx, strlen(ptx), &err) ||
        fp4gen_alloc(dev, &acc, acc_bytes, &err) ||
        fp4gen_alloc(dev, &out, out_bytes, &err) ||
        fp4gen_upload(dev, acc, r->acc, acc_bytes, &err) ||
        fp4gen_module_launch(module, &l, &err) || fp4gen_sync(dev, NULL, &err) ||
        fp4gen_download(dev, r->words, out, out_bytes, &err))
        test_fail(__FILE__, __LINE__, "%s", err.text);
    fp4gen_free(dev, acc, NULL);
    fp4gen_free(dev, out, NULL);
    fp4gen_module_unload(module);
}

struct count {
    int others, worse;
    double worst; /* of f32: in units of what is allowed */
};

static void compare(const char *body, const struct lower_run *r, uint32_t row,
                    struct count *c)
{
    struct arena *a = arena_new();
    const struct expr_output *o = &r->e->outputs[0];
    struct expr_row input = {.cols = COLS,
                             .row = row,
                             .m = ROWS,
                             .n = COLS,
                             .alpha = 1,
                             .acc = r->acc + (size_t)row * COLS};
    struct expr_values want;
    uint32_t codes[COLS];
    uint8_t scales[COLS];
    const struct slack *s = slack_of(a, r->e, &input, 0);
    const int block = expr_scale_block(o->format);
    expr_eval(a, r->e, &input, &want);
    lower_codes(r, 0, row, codes, scales);
    for (int b = 0; block && b < COLS / block; b++) {
        c->others += scales[b] != want.scales[b];
        c->worse += !slack_has_scale(s, (size_t)b, scales[b]);
    }
    for (size_t i = 0; i < COLS; i++) {
        float got;
        memcpy(&got, &codes[i], sizeof got);
        c->others += codes[i] != want.codes[i] && !(isnan(got) && isnan(s->value[i]));
        if (!slack_has_code(s, i, block ? scales[i / (size_t)block] : 0, codes[i]) &&
            !c->worse++)
            printf("%s of %a: 0x%x, not near 0x%x\n", body, (double)input.acc[i],
                   codes[i], want.codes[i]);
        double off = fabs((double)got - (double)s->value[i]) / (double)s->by[i];
        if (o->format == EXPR_OUT_F32 && off > c->worst)
            c->worst = off;
    }
    arena_free(a);
}

/* How many were others than the host's. */
static int try_all(void)
{
    static float acc[ROWS * COLS];
    fp4gen_device *dev = NULL;
    fp4gen_error err = {0};
    int others = 0, worse = 0;
    fill(acc);
    if (fp4gen_open(&dev, on_gpu() ? FP4GEN_DRIVER_CUDA : FP4GEN_DRIVER_EMU, -1,
                    "sm_90a", &err))
        test_fail(__FILE__, __LINE__, "%s", err.text);
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct arena *a = arena_new();
        struct lower_run r = {.target = "sm_90a",
                              .chunk = CHUNK,
                              .e = lower_trace(a, bodies[i]),
                              .rows = ROWS,
                              .m = ROWS,
                              .n = COLS,
                              .alpha = 1,
                              .acc = acc};
        struct count c = {0};
        CHECK(slack_is_small(r.e));
        run(dev, a, &r);
        for (uint32_t row = 0; row < ROWS; row++)
            compare(bodies[i], &r, row, &c);
        if (on_gpu())
            printf("%-40s %5.1f %% others, at most %.3f of the bound\n", bodies[i],
                   100.0 * c.others / (ROWS * COLS), c.worst);
        others += c.others;
        worse += c.worse;
        arena_free(a);
    }
    fp4gen_close(dev);
    CHECK_EQ(worse, 0);
    return others;
}

TEST(as_the_host_or_near)
{
    setenv("FP4EMU_DEVICE", "sm_90", 1);
    int others = try_all();
    CHECK(on_gpu() || others == 0);
}

TEST(near_when_perturbed)
{
    if (on_gpu())
        SKIP("a GPU is as it is");
    setenv("FP4EMU_DEVICE", "sm_90", 1);
    setenv("FP4EMU_APPROX", "perturb", 1);
    CHECK(try_all() > 1000);
}
