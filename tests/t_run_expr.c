/* The expression in a manifest: what comes back out of a PTX, and texts that are none.
 */
#include "gen/run_expr.h"

#include "gen/expr_eval.h"
#include "gen/job.h"
#include "gen/manifest.h"
#include "gen/trace.h"
#include "runtime/manifest.h"
#include "tests/kernel_text.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static struct job *kernel(struct arena *a, const char *epilogue)
{
    struct config_override *set = ARENA_ARRAY(a, struct config_override, 2);
    set[0] = (struct config_override){"epilogue", epilogue};
    set[1] = (struct config_override){"tile.n", "64"};
    const struct job_options o = {.overrides = set, .override_count = 2};
    struct job *j = job_run(&o);
    if (j->diags->count)
        test_fail(__FILE__, __LINE__, "%s: %s", epilogue, j->diags->first->text);
    return j;
}

static const char *text_of(struct arena *a, const struct expr *e)
{
    struct buf b;
    buf_init(&b, a);
    expr_write(e, &b);
    return b.data;
}

TEST(every_named_epilogue_comes_back)
{
    struct arena *a = arena_new();
    int count;
    const struct trace_name *names = trace_names(a, &count);
    for (int i = 0; i < count; i++) {
        struct job *j = kernel(a, names[i].name);
        struct image image;
        fp4gen_error e = {0};
        CHECK_EQ(manifest_read(&image, j->image.ptx, j->image.ptx_bytes, &e), 0);
        const struct expr *read = run_expr_read(a, &image, j->image.ptx);
        if (strcmp(names[i].name, "identity") == 0)
            CHECK(!read);
        else
            CHECK_STR(text_of(a, read), text_of(a, j->config->expr));
        job_free(j);
    }
    arena_free(a);
}

/* The comment alone: gen looks at it when the runtime has read the whole. */
static const struct expr *read_lines(struct arena *a, const struct image *i,
                                     const char *text)
{
    struct image with = *i;
    struct buf b;
    with.expr = text;
    buf_init(&b, a);
    manifest_comment(&with, &b);
    return run_expr_read(a, i, b.data);
}

/* gate * up of groups of 8, for the manifest of swiglu_nvfp4. */
static const char pairs[] = "expr 1\n"
                            "n unscaled f32 0\n"
                            "n alpha f32 0\n"
                            "n mul f32 0 0 1\n"
                            "n split f32 10 2\n"
                            "n split f32 11 2\n"
                            "n mul f32 0 3 4\n"
                            "i scalar d_global f32 0\n"
                            "n input f32 0\n"
                            "n const f32 2b800000\n"
                            "n ge pred 0 6 7\n"
                            "n row u32 0\n"
                            "n rows u32 0\n"
                            "n lt pred 0 9 10\n"
                            "o nvfp4 5 6 8 -1 11 0 0 0 0\n";
static const char bias[] = "expr 1\n"
                           "n unscaled f32 0\n"
                           "n alpha f32 0\n"
                           "n mul f32 0 0 1\n"
                           "i col bias f32 1\n"
                           "n input f32 0\n"
                           "n add f32 0 2 3\n"
                           "n bf16 bf16 0 4\n"
                           "o bf16 5 -1 -1 -1 -1 0 0 0 0\n";

TEST(texts_that_do_not_go_with_the_manifest)
{
    static const struct {
        const char *text, *from, *to;
    } rows[] = {
        {pairs, "expr 1", "expr 2"},
        {pairs, "split f32 10", "split f32 80"}, /* groups of 64 columns */
        {pairs, "split f32 10", "split f32 20"}, /* another multiple of N */
        {pairs, "scalar d_global", "scalar e_global"},
        {pairs, "scalar d_global f32", "scalar d_global u32"},
        {pairs, "scalar d_global", "row d_global"},
        {pairs, "d_global f32 0", "d_global f32 1"}, /* a scalar of columns */
        {pairs, "nvfp4 5 6", "nvfp4 5 -1"},          /* no global scale */
        {pairs, "nvfp4 5 6", "nvfp4 5 5"},           /* one for each element */
        {pairs, "nvfp4 5 6", "nvfp4 5 8"},           /* a predicate */
        {pairs, "nvfp4 5", "nvfp4 6"},               /* the same everywhere */
        {pairs, "nvfp4 5", "nvfp4 2"},               /* of N columns */
        {pairs, "nvfp4 5", "nvfp4 99"},
        {pairs, "o nvfp4", "o mxfp4"},
        {pairs, "8 -1 11 0", "8 -1 -1 0"}, /* rows below M? */
        {pairs, "8 -1 11 0", "8 -1 11 2"}, /* stochastic, no hash */
        {pairs, "8 -1 11 0", "8 -1 11 7"},
        {bias, "col bias f32 1", "col bias f32 2"},
        {bias, "col bias f32", "col bias bf16"},
        {bias, "i col bias f32 1\n", ""},
        {bias, "o bf16", "x bf16"},
        {bias, "o bf16", "o f32"},
    };
    struct arena *a = arena_new();
    struct job *swiglu = kernel(a, "swiglu_nvfp4"), *add = kernel(a, "bias");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct image *image =
            rows[i].text == pairs ? &swiglu->image : &add->image;
        CHECK(read_lines(a, image, rows[i].text));
        if (read_lines(a, image,
                       text_replaced(a, rows[i].text, rows[i].from, rows[i].to)))
            test_fail(__FILE__, __LINE__, "'%s' is taken for '%s'", rows[i].to,
                      rows[i].from);
    }
    job_free(swiglu);
    job_free(add);
    arena_free(a);
}

/* Whatever is taken can be evaluated. */
static void evaluate(struct arena *a, const struct expr *e)
{
    const float acc[64] = {1, -2, 3};
    const uint32_t values[64] = {0x3f800000, 0xbf800000};
    struct expr_arg args[EXPR_MAX_INPUTS];
    struct expr_values out[EXPR_MAX_OUTPUTS];
    for (int i = 0; i < EXPR_MAX_INPUTS; i++)
        args[i] = (struct expr_arg){0x3f800000, values};
    const struct expr_row row = {
        .cols = 64, .m = 1, .n = 64, .alpha = 1, .acc = acc, .args = args};
    expr_eval(a, e, &row, out);
    for (int k = 0; k < e->output_count; k++)
        CHECK(e->outputs[k].format == EXPR_OUT_AMAX || out[k].codes);
}

TEST(damaged_texts_do_no_harm)
{
    static const char *const names[] = {"swiglu_nvfp4", "swiglu_interleaved",
                                        "residual", "swiglu_amax", "geglu_nvfp4"};
    uint32_t random = 2463534242u;
    int taken = 0;
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct job *j = kernel(a, names[i]);
        const char *text = text_of(a, j->config->expr);
        for (int trial = 0; trial < 2000; trial++) {
            struct arena *scratch = arena_new();
            char *wrong = arena_strdup(scratch, text);
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            wrong[7 + random % (strlen(text) - 8)] = "0123456789 -ionf"[random >> 28];
            const struct expr *e = read_lines(scratch, &j->image, wrong);
            if (e)
                evaluate(scratch, e);
            taken += e != NULL;
            arena_free(scratch);
        }
        job_free(j);
    }
    CHECK(taken > 100); /* other constants, or operands of the same kind */
    arena_free(a);
}
