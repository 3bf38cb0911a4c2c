/* t_epilogue.c - every named epilogue in every tile, on the emulator: each output, bit
 * for bit, is what the expression makes of the sums of a kernel without epilogue, and
 * what the reference's quantiser makes of its values.
 *
 * `make test` meets every epilogue, every tile width, every shape and both completion
 * strategies, but not all of their combinations; FP4GEN_FULL_SWEEP=1 does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/trace.h"
#include "tests/epilogue_lab.h"
#include "tests/test.h"

static const uint32_t all_m[] = {1, 127, 129, 300};
static const uint32_t all_n[] = {8, 464, 520};
static const uint32_t all_k[] = {64, 464};
static const int tile_ns[] = {64, 128, 192, 256};
static const int tile_ks[] = {128, 256};
static const char *const d_types[] = {"bf16", "f32"};

/* Small enough that gates are not all 0 or 1. */
static const float alpha = 0.002f;

static bool is_full(void)
{
    const char *wish = getenv("FP4GEN_FULL_SWEEP");
    return wish && *wish && *wish != '0';
}

static bool has_d(const char *epilogue)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct expr *e = trace_named(a, epilogue, loc_none(), d);
    bool found = false;
    for (int i = 0; i < e->output_count; i++)
        found = found || e->outputs[i].format == EXPR_OUT_D;
    arena_free(a);
    return found;
}

/* Kernel number `i` meets shape number `s`: all, or one in 6, others each time. */
static bool meets(int kernel, int shape)
{
    return is_full() || (shape + 5 * kernel) % 6 == 0;
}

static int run_shapes(struct lab *lab, const struct job *j, int number)
{
    int shape = 0, runs = 0;
    for (size_t m = 0; m < COUNT_OF(all_m); m++)
        for (size_t n = 0; n < COUNT_OF(all_n); n++)
            for (size_t k = 0; k < COUNT_OF(all_k); k++, shape++) {
                uint32_t multiple = j->image.n_multiple;
                uint32_t cols = (all_n[n] + multiple - 1) / multiple * multiple;
                if (!meets(number, shape))
                    continue;
                const struct lab_problem *p =
                    lab_problem(lab, all_m[m], cols, all_k[k]);
                struct lab_run *r = lab_run(lab, j, p, alpha);
                lab_check(r);
                lab_run_free(r);
                runs++;
            }
    return runs;
}

/* Quarter `part` of the kernels. */
static void sweep(const char *strategy, int part)
{
    const int parts = 4;
    setenv("FP4EMU_STRATEGY", strategy, 1);
    struct arena *a = arena_new();
    struct lab *lab = lab_open();
    int count, number = 0, runs = 0;
    const struct trace_name *names = trace_names(a, &count);
    CHECK(count >= 20);
    for (int e = 0; e < count; e++) {
        const size_t types = has_d(names[e].name) ? COUNT_OF(d_types) : 1;
        for (size_t t = 0; t < types; t++)
            for (size_t n = 0; n < COUNT_OF(tile_ns); n++)
                for (size_t k = 0; k < COUNT_OF(tile_ks); k++, number++) {
                    if (number % parts != part ||
                        strcmp(names[e].name, "identity") == 0)
                        continue;
                    const struct lab_kernel kernel = {.tile_n = tile_ns[n],
                                                      .tile_k = tile_ks[k],
                                                      .d_type =
                                                          types > 1 ? d_types[t] : NULL,
                                                      .epilogue = names[e].name};
                    struct job *j = lab_job(&kernel);
                    runs += run_shapes(lab, j, number / parts);
                    job_free(j);
                }
    }
    CHECK(runs > 100);
    lab_close(lab);
    arena_free(a);
}

TEST_SLOW(eager_part_1)
{
    sweep("eager", 0);
}

TEST_SLOW(eager_part_2)
{
    sweep("eager", 1);
}

TEST_SLOW(eager_part_3)
{
    sweep("eager", 2);
}

TEST_SLOW(eager_part_4)
{
    sweep("eager", 3);
}

TEST_SLOW(lazy_part_1)
{
    sweep("lazy", 0);
}

TEST_SLOW(lazy_part_2)
{
    sweep("lazy", 1);
}

TEST_SLOW(lazy_part_3)
{
    sweep("lazy", 2);
}

TEST_SLOW(lazy_part_4)
{
    sweep("lazy", 3);
}

/* The few that also run under the sanitizers. */
TEST(smoke)
{
    static const struct lab_kernel kernels[] = {
        {.tile_n = 64, .epilogue = "swiglu_nvfp4"},
        {.tile_n = 192, .epilogue = "residual", .d_type = "f32"},
        {.tile_n = 128, .epilogue = "swiglu_amax"},
    };
    struct lab *lab = lab_open();
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        struct job *j = lab_job(&kernels[i]);
        struct lab_run *r = lab_run(lab, j, lab_problem(lab, 129, 208, 80), alpha);
        lab_check(r);
        lab_run_free(r);
        job_free(j);
    }
    lab_close(lab);
}
