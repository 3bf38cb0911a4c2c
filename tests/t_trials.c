/* t_trials.c - many runs of a kernel in processes of their own, and what they have
 * seen. */
#include "gen/seen.h"
#include "gen/trials.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(seen_counts_what_is_new)
{
    struct seen s = {.count = 0};
    const uint64_t first[] = {7, 3, 7, UINT64_MAX}, second[] = {3, 0, 7, 0};
    CHECK_EQ(seen_add(&s, first, 4), 3);
    CHECK_EQ(seen_add(&s, first, 4), 0);
    CHECK_EQ(seen_add(&s, second, 4), 1);
    CHECK_EQ(seen_add(&s, NULL, 0), 0);
    CHECK_EQ(s.count, 4);
    for (size_t i = 1; i < s.count; i++)
        CHECK(s.at[i - 1] < s.at[i]);
    uint64_t many[1000];
    for (uint64_t i = 0; i < 1000; i++)
        many[i] = i * 7919 % 1009;
    CHECK_EQ(seen_add(&s, many, 1000), 1000 - 3);
    seen_clear(&s);
    CHECK_EQ(s.count, 0);
}

#define MOST 64

static struct run_options options;
static struct trial at[MOST];
static struct trial_result results[MOST];

static struct trials small_kernel(int count)
{
    static const struct config_override tile[] = {{.field = "tile.m", .value = "128"},
                                                  {.field = "tile.n", .value = "64"},
                                                  {.field = "tile.k", .value = "128"},
                                                  {.field = "stages", .value = "2"}};
    unsetenv("FP4GEN_EMU_LIB");
    options = run_defaults();
    options.job.overrides = tile;
    options.job.override_count = COUNT_OF(tile);
    options.m = options.n = 8;
    options.k = 320;
    options.ctas = 1;
    options.check = RUN_CHECK;
    return (struct trials){
        .at = at, .results = results, .count = count, .processes = 2};
}

static void fine(struct trials *t)
{
    int failed = trials_run(t);
    if (failed >= 0)
        test_fail(__FILE__, __LINE__, "%s", t->results[failed].text);
}

TEST(the_span_of_pct_is_what_the_base_has_counted)
{
    struct trials t = small_kernel(3);
    at[0] = (struct trial){.run = &options, .strategy = "eager"};
    at[1] = (struct trial){.run = &options, .strategy = "pct:3", .seed = 1};
    at[2] = (struct trial){.run = &options, .strategy = "pct:3:77", .seed = 1};
    fine(&t);
    char want[64];
    CHECK(results[0].visible > 100 && results[0].visible < 100000);
    snprintf(want, sizeof want, "pct:3:%llu", (unsigned long long)results[0].visible);
    CHECK_STR(results[1].strategy, want);
    CHECK_STR(results[2].strategy, "pct:3:77");
    trials_free(&t);
}

TEST(kernels_beside_the_gemm_are_watched_too)
{
    struct trials t = small_kernel(2);
    options.job = (struct job_options){.path = "quantize_nvfp4"};
    options.n = -1;
    options.m = 5;
    options.ctas = 0;
    at[0] = (struct trial){.run = &options, .strategy = "eager"};
    at[1] = (struct trial){.run = &options, .strategy = "pct:2", .seed = 1};
    fine(&t);
    CHECK(results[0].visible > 0 && results[0].hash != 0);
    CHECK_EQ(results[0].hash, results[1].hash);
    CHECK(strstr(results[0].text, "values") && !strstr(results[1].text, "values"));
    CHECK(strncmp(results[1].strategy, "pct:2:", 6) == 0);
    trials_free(&t);
}

/* Under one and the same schedule only the first run shows anything. */
TEST(what_shows_nothing_new_is_left_out)
{
    for (int processes = 1; processes <= 7; processes += 3) {
        struct trials t = small_kernel(24);
        t.processes = processes;
        t.quiet = 3;
        for (int i = 0; i < 24; i++)
            at[i] = (struct trial){.run = &options,
                                   .strategy = "eager",
                                   .seed = (uint64_t)(i % 12),
                                   .base = i / 12 * 12};
        fine(&t);
        for (int i = 0; i < 24; i++)
            CHECK_EQ(results[i].state, i % 12 <= 3 ? TRIAL_FINE : TRIAL_LEFT_OUT);
        CHECK_EQ(trials_left_out(&t), 16);
        trials_free(&t);
    }
}

/* A fault behind the end of the search does not count, in whatever order they end. */
TEST(a_fault_that_is_left_out_is_none)
{
    static struct run_options bad;
    for (int last = 2; last <= 5; last++) {
        struct trials t = small_kernel(8);
        t.processes = 3;
        t.quiet = 3;
        bad = options;
        bad.ptx_path = "no/such/file.ptx";
        for (int i = 0; i < 8; i++)
            at[i] = (struct trial){.run = i >= last ? &bad : &options,
                                   .strategy = "eager",
                                   .seed = (uint64_t)i};
        CHECK_EQ(trials_run(&t), last > 3 ? -1 : last);
        CHECK_EQ(trials_left_out(&t), last > 3 ? 4 : 0);
        trials_free(&t);
    }
}
