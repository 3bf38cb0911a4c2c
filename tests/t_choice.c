/* t_choice.c - who goes on under the strategies that explore, and their choices as
 * text. */
#include "emu/choice.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- schedules of a kernel that tells who came when */

enum { WARPS = 4, STEPS = 8, EVENTS = WARPS * STEPS };

/* Lane 0 of each warp puts the warp's number into the log, STEPS times; visible
 * instructions are the add and the store. */
static const char body[] =
    ".reg .b32 t, w, i, k; .reg .b64 o, x; .reg .pred p;\n"
    "mov.u32 t, %tid.x; ld.param.u64 o, [to]; shr.u32 w, t, 5; and.b32 t, t, 31;\n"
    "setp.ne.u32 p, t, 0; @p bra END; mov.u32 i, 0;\n"
    "LOOP: atom.relaxed.gpu.global.add.u32 k, [o], 1;\n"
    "mad.wide.u32 x, k, 4, o; st.relaxed.gpu.global.u32 [x+4], w;\n"
    "add.u32 i, i, 1; setp.lt.u32 p, i, 8; @p bra LOOP;\n"
    "END: ret;\n";

struct course {
    uint32_t warp[EVENTS];
};

static struct course run(const char *strategy, uint64_t seed,
                         const struct deviations *plan, struct deviations *record)
{
    struct emu_run r = {.body = body,
                        .params = ".param .u64 to",
                        .threads = WARPS * 32,
                        .strategy = strategy,
                        .seed = seed,
                        .plan = plan,
                        .record = record};
    struct course c;
    uint64_t to = emu_alloc(&r, 4096);
    emu_param(&r, &to, 8);
    EMU_FINE(&r);
    CHECK_EQ(emu_u32(to)[0], EVENTS);
    memcpy(c.warp, emu_u32(to) + 1, sizeof c.warp);
    emu_done(&r);
    return c;
}

static bool equal(const struct course *a, const struct course *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Stretches of one warp. */
static int stretches(const struct course *c)
{
    int count = 1;
    for (int i = 1; i < EVENTS; i++)
        count += c->warp[i] != c->warp[i - 1];
    return count;
}

TEST(a_seed_is_a_schedule)
{
    static const char *const strategies[] = {"random", "random:1", "pct", "pct:6:64"};
    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        int different = 0;
        struct course first = run(strategies[i], 1, NULL, NULL);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct course c = run(strategies[i], seed, NULL, NULL);
            struct course again = run(strategies[i], seed, NULL, NULL);
            CHECK(equal(&c, &again));
            different += !equal(&c, &first);
        }
        CHECK(different >= 15);
    }
}

TEST(random_asks_as_often_as_it_is_told)
{
    int rare = 0, always = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct course c = run("random:0.000001", seed, NULL, NULL);
        rare += stretches(&c);
        c = run("random:1", seed, NULL, NULL);
        always += stretches(&c);
    }
    CHECK_EQ(rare, 50 * WARPS);
    /* Asked twice an entry, a warp goes on in one of about four cases each time. */
    CHECK(always > 50 * EVENTS * 7 / 10);
}

/* D - 1 changes of priority interrupt D - 1 times at most. */
TEST(pct_changes_as_often_as_its_depth_says)
{
    int most[7] = {0};
    for (int depth = 1; depth <= 6; depth++)
        for (uint64_t seed = 1; seed <= 60; seed++) {
            char strategy[32];
            snprintf(strategy, sizeof strategy, "pct:%d:64", depth);
            struct course c = run(strategy, seed, NULL, NULL);
            int count = stretches(&c);
            CHECK(count <= WARPS + depth - 1);
            most[depth] = count > most[depth] ? count : most[depth];
        }
    CHECK_EQ(most[1], WARPS);
    CHECK_EQ(most[2], WARPS + 1);
    CHECK(most[6] >= WARPS + 3);
}

TEST(pct_begins_with_any_order)
{
    bool seen[256] = {false};
    int orders = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct course c = run("pct:1", seed, NULL, NULL);
        unsigned order = 0;
        for (int i = 0; i < WARPS; i++)
            order = order << 2 | c.warp[i * STEPS];
        orders += !seen[order];
        seen[order] = true;
    }
    CHECK_EQ(orders, 24);
}

TEST(starved_warps_come_last)
{
    for (unsigned w = 0; w < WARPS; w++) {
        char strategy[32];
        snprintf(strategy, sizeof strategy, "starve:%u", w);
        struct course c = run(strategy, 1, NULL, NULL);
        for (int i = EVENTS - STEPS; i < EVENTS; i++)
            CHECK_EQ(c.warp[i], w);
    }
    struct course c = run("starve:0-1", 1, NULL, NULL);
    for (int i = 0; i < EVENTS / 2; i++)
        CHECK(c.warp[i] >= 2);
}

/* ---- what was chosen, and again */

static struct deviations copy_of(const struct deviations *d)
{
    struct deviations c = {.launch = d->launch};
    deviations_add(&c, d->at, d->count);
    qsort(c.at, c.count, sizeof *c.at, deviation_order);
    return c;
}

TEST(a_record_is_replayed)
{
    const char *file = "/dev/null"; /* strategy_parse() wants one */
    char replay[64];
    snprintf(replay, sizeof replay, "replay:%s", file);
    struct course usual = run(replay, 1, NULL, NULL);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct deviations made = {.count = 0}, again = {.count = 0};
        struct course c = run(seed % 2 ? "random" : "pct:5:64", seed, NULL, &made);
        struct deviations plan = copy_of(&made);
        struct course replayed = run(replay, 1, &plan, &again);
        CHECK(equal(&c, &replayed));
        CHECK_EQ(made.count, again.count);
        for (size_t i = 0; i < made.count; i++)
            CHECK_EQ(deviation_order(&made.at[i], &again.at[i]), 0);
        CHECK((made.count == 0) == equal(&c, &usual));
        deviations_free(&made);
        deviations_free(&again);
        deviations_free(&plan);
    }
    /* Lines that were struck out leave a schedule still. */
    struct deviations made = {.count = 0};
    run("random:1", 3, NULL, &made);
    CHECK(made.count > 8);
    struct deviations plan = copy_of(&made);
    plan.count /= 2;
    run(replay, 1, &plan, NULL);
    plan.count = 0;
    struct course none = run(replay, 1, &plan, NULL);
    CHECK(equal(&none, &usual));
    deviations_free(&made);
    deviations_free(&plan);
}

/* ---- as text */

static const char *path(void)
{
    static const char *made;
    return made ? made : (made = test_tmp_path("choices"));
}

static void make_file(const char *text)
{
    FILE *f = fopen(path(), "w");
    CHECK(f != NULL);
    fputs(text, f);
    CHECK_EQ(fclose(f), 0);
}

static bool read_all(uint64_t launch, struct deviations *d, char *why)
{
    return deviations_read(d, path(), launch, why, 256);
}

TEST(choices_survive_a_file)
{
    static const struct ptx_func func = {.name = "k"};
    static const struct kernel kernel = {.func = &func};
    const struct deviation all[] = {
        {.cluster = 7, .warp = 3, .visible = 40, .asked = 2, .choice = CHOICE_FALSE},
        {.cluster = 0,
         .warp = CHOICE_AT_START,
         .asked = 4,
         .choice = CHOICE_WARP,
         .to = 9},
        {.cluster = 0,
         .warp = 12,
         .visible = UINT32_MAX,
         .choice = CHOICE_OP,
         .to = 1,
         .ordinal = 77},
        {.cluster = UINT64_MAX - 2, .warp = 1, .choice = CHOICE_WARP, .to = 2},
        {.cluster = 0, .warp = 2, .visible = 5, .choice = CHOICE_LANES, .ordinal = 212},
    };
    struct deviations d = {.launch = 3}, back;
    char why[256];
    make_file("launch 2 other\n# a remark\n\n5 w1 2.3 false\n");
    deviations_add(&d, all, COUNT_OF(all));
    CHECK(deviations_write(&d, path(), &kernel, UINT64_MAX));
    CHECK(read_all(3, &back, why));
    CHECK_EQ(back.count, COUNT_OF(all));
    for (size_t i = 1; i < back.count; i++)
        CHECK(deviation_order(&back.at[i - 1], &back.at[i]) < 0);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const struct deviation *x =
            bsearch(&all[i], back.at, back.count, sizeof *x, deviation_order);
        CHECK(x != NULL);
        CHECK_EQ(x->choice, all[i].choice);
        CHECK_EQ(x->to, all[i].choice == CHOICE_LANES ? 0 : all[i].to);
        CHECK_EQ(x->ordinal, all[i].ordinal);
    }
    deviations_free(&back);
    CHECK(read_all(2, &back, why));
    CHECK_EQ(back.count, 1);
    CHECK_EQ(back.at[0].cluster, 5);
    deviations_free(&back);
    CHECK(read_all(4, &back, why));
    CHECK_EQ(back.count, 0);
    /* Clusters behind the one that failed may or may not have gone so far. */
    make_file("");
    CHECK(deviations_write(&d, path(), &kernel, 0));
    CHECK(read_all(3, &back, why));
    CHECK_EQ(back.count, 3);
    deviations_free(&back);
    deviations_free(&d);
}

TEST(lines_that_are_none_are_told)
{
    static const char *const bad[] = {
        "0 w1 2.3 sideways\n", "0 w1 2 false\n",   "w1 2.3 false\n",   "0 w1 2.3\n",
        "0 start 1.0 -> w2\n", "0 w1 2.3 -> op\n", "0 w1 2.3 -> x1\n",
    };
    struct deviations d;
    char why[256], want[300];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, "launch 0 k\n# remark\n%s", bad[i]);
        make_file(text);
        if (read_all(0, &d, why))
            test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
        snprintf(want, sizeof want, "%s:3: not a line of a schedule ", path());
        CHECK(strncmp(why, want, strlen(want)) == 0);
        CHECK_EQ(d.count, 0);
    }
    unlink(path());
    CHECK(!read_all(0, &d, why) && strstr(why, "No such file"));
}

/* ---- clusters overtake each other too */

/* A lock that is taken by an atomic compare-and-swap, or looked at and then taken. */
#define COUNT_UNDER_LOCK(take)                                                         \
    ".reg .pred p; .reg .b32 t, v; .reg .b64 o;\n"                                     \
    "mov.u32 t, %tid.x; ld.param.u64 o, [to]; setp.ne.u32 p, t, 0; @p bra END;\n"      \
    "TRY: " take "setp.ne.u32 p, v, 0; @p bra TRY;\n"                                  \
    "ld.global.u32 v, [o+4]; add.u32 v, v, 1; st.global.u32 [o+4], v;\n"               \
    "st.release.gpu.global.u32 [o], 0;\n"                                              \
    "END: ret;\n"

static bool count_is_right(const char *text, const char *strategy, uint64_t seed)
{
    struct emu_run r = {.body = text,
                        .params = ".param .u64 to",
                        .threads = 32,
                        .grid = {4, 1, 1},
                        .strategy = strategy,
                        .seed = seed};
    uint64_t to = emu_alloc(&r, 64);
    emu_param(&r, &to, 8);
    bool right = emu_launch(&r) && emu_u32(to)[1] == 4;
    emu_done(&r);
    return right;
}

TEST(clusters_are_interrupted_where_they_speak_to_each_other)
{
    static const char sound[] =
        COUNT_UNDER_LOCK("atom.acquire.gpu.global.cas.b32 v, [o], 0, 1;\n");
    /* Two may see the lock free before either has taken it. */
    static const char broken[] =
        COUNT_UNDER_LOCK("ld.acquire.gpu.global.u32 v, [o]; setp.ne.u32 p, v, 0;\n"
                         "@p bra TRY; st.relaxed.gpu.global.u32 [o], 1;\n");
    static const char *const strategies[] = {"random", "pct"};
    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        int told = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            CHECK(count_is_right(sound, strategies[i], seed));
            bool right = count_is_right(broken, strategies[i], seed);
            CHECK_EQ(count_is_right(broken, strategies[i], seed), right);
            told += !right;
        }
        CHECK(told > 0);
    }
}
