/* t_emu_machine.c - grids: host threads, clusters that wait for each other, virtual
 * time, which report counts, register slots, vprintf and assertions. */
#include "emu/memory.h"
#include "emu/report.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define HEAD ".version 8.8\n.target sm_100a\n.address_size 64\n"

struct run {
    struct arena *arena;
    struct diags *diags;
    struct grid grid;
    uint64_t buffer; /* of 64 KiB, zeroed: the one parameter */
    _Alignas(128) uint8_t params[128];
};

#define BUFFER_BYTES 65536u

static const struct placed_var *place(struct run *r, const struct ptx_module *m,
                                      int *count)
{
    struct placed_var *vars = ARENA_ARRAY(r->arena, struct placed_var, 32);
    *count = 0;
    for (int i = 0; i < m->var_count; i++) {
        const struct ptx_var *v = m->vars[i];
        if (v->space != PTX_GLOBAL && v->space != PTX_CONST)
            continue;
        uint64_t at = memory_alloc(MEMORY_GLOBAL, v->bytes, 512, r);
        if (v->init)
            memcpy((void *)(uintptr_t)at, v->init, v->bytes);
        vars[(*count)++] = (struct placed_var){v, at};
    }
    return vars;
}

static void prepare(struct run *r, const char *text, uint32_t blocks, uint32_t threads)
{
    *r = (struct run){.arena = arena_new()};
    r->diags = diags_new(r->arena);
    struct ptx_module *m =
        ptx_parse(r->arena, "machine.ptx", text, strlen(text), r->diags);
    CHECK(m != NULL);
    CHECK(ptx_check(m, r->diags));
    const struct ptx_func *f = ptx_find_func(m, "test");
    int count;
    const struct placed_var *vars = place(r, m, &count);
    struct kernel *k = kernel_decode(r->arena, m, f, vars, count, r->diags);
    CHECK(k != NULL);
    r->buffer = memory_alloc(MEMORY_DEVICE, BUFFER_BYTES, 512, r);
    memset((void *)(uintptr_t)r->buffer, 0, BUFFER_BYTES);
    memcpy(r->params, &r->buffer, 8);
    r->grid.kernel = k;
    for (int i = 0; i < 3; i++)
        r->grid.dim[i] = r->grid.block[i] = r->grid.cluster[i] = 1;
    r->grid.dim[0] = blocks;
    r->grid.block[0] = threads;
    r->grid.params = r->params;
    r->grid.param_bytes = f->param_bytes;
    r->grid.report = report_new();
    /* Kernels here let all threads write one place, on purpose. */
    static struct check_set checks;
    char why[128];
    CHECK(check_set_parse("default,-36", &checks, why, sizeof why));
    r->grid.checks = &checks;
}

static uint32_t *words(const struct run *r)
{
    return (uint32_t *)(uintptr_t)r->buffer;
}

static void done(struct run *r)
{
    report_free(r->grid.report);
    memory_free_owned(r);
    arena_free(r->arena);
}

static bool has(const struct run *r, const char *text)
{
    return strstr(report_text(r->grid.report), text) != NULL;
}

static void fine(struct run *r)
{
    if (!grid_run(&r->grid))
        test_fail(__FILE__, __LINE__, "%s", report_text(r->grid.report));
}

/* ---- host threads */

/* Sums of floats that do not commute, and tickets: who comes first shows. */
static const char order[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 c, t, k; .reg .b64 o, q; .reg .f32 f;\n"
         "mov.u32 c, %ctaid.x; mov.u32 t, %tid.x; ld.param.u64 o, [y];\n"
         "mad.lo.u32 k, c, 37, t; cvt.rn.f32.u32 f, k; mul.f32 f, f, 0f3dcccccd;\n"
         "red.global.add.f32 [o], f;\n"
         "atom.global.add.u32 k, [o+4], 1; mad.lo.u32 t, c, 32, t;\n"
         "mad.wide.u32 q, t, 4, o; st.global.u32 [q+8], k; }\n";

TEST(the_number_of_host_threads_does_not_show)
{
    uint32_t *first = malloc(BUFFER_BYTES);
    CHECK(first != NULL);
    static const int threads[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        struct run r;
        prepare(&r, order, 64, 32);
        r.grid.threads = threads[i];
        CHECK(r.grid.kernel->order_matters);
        fine(&r);
        if (i == 0)
            memcpy(first, words(&r), BUFFER_BYTES);
        CHECK(memcmp(first, words(&r), BUFFER_BYTES) == 0);
        done(&r);
    }
    free(first);
}

/* Plain loads and stores of one word by all blocks: a race, which nothing tells the
 * decoder.  With threads enough it went wrong in one run of 25. */
static const char racing[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 c, v, i; .reg .b64 o, q; .reg .pred p;\n"
         "mov.u32 c, %ctaid.x; ld.param.u64 o, [y]; mov.u32 i, 0;\n"
         "L: ld.global.u32 v, [o]; mad.lo.u32 v, v, 3, c; st.global.u32 [o], v;\n"
         "add.u32 i, i, 1; setp.lt.u32 p, i, 200; @p bra L;\n"
         "mad.wide.u32 q, c, 4, o; st.global.u32 [q+4], v; }\n";

/* Runs it on so many threads; false when the memory or the report is another one than
 * what `words_then` and `told_then` hold, which the first run fills in. */
static bool races_alike(const char *checks, int threads, uint32_t *words_then,
                        char *told_then, size_t bytes)
{
    struct check_set set;
    struct run r;
    char why[128], told[4096];
    prepare(&r, racing, 64, 1);
    CHECK(check_set_parse(checks, &set, why, sizeof why));
    r.grid.checks = &set;
    r.grid.threads = threads;
    CHECK(!r.grid.kernel->order_matters);
    bool ok = grid_run(&r.grid);
    CHECK_EQ(ok, strcmp(checks, "default") != 0);
    CHECK(has(&r, ok ? "warning" : "error"));
    const char *text = strchr(report_text(r.grid.report), '\n'); /* no addresses */
    snprintf(told, sizeof told, "%d %.*s", report_warnings(r.grid.report),
             (int)strcspn(text + 1, "\n"), text + 1);
    if (!told_then[0]) {
        snprintf(told_then, bytes, "%s", told);
        memcpy(words_then, words(&r), BUFFER_BYTES);
    }
    bool alike = strcmp(told, told_then) == 0 &&
                 (!ok || memcmp(words_then, words(&r), BUFFER_BYTES) == 0);
    done(&r);
    return alike;
}

TEST(races_of_clusters_repeat_themselves)
{
    static const char *const checks[] = {"default", "default,36=warn"};
    uint32_t *first = malloc(BUFFER_BYTES);
    CHECK(first != NULL);
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        char told[4096] = "";
        CHECK(races_alike(checks[i], 1, first, told, sizeof told));
        for (int k = 0; k < 20; k++)
            CHECK(races_alike(checks[i], 8, first, told, sizeof told));
    }
    free(first);
}

static const char plain[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 c, t, n; .reg .b64 o;\n"
         "mov.u32 c, %ctaid.x; mov.u32 t, %tid.x; ld.param.u64 o, [y];\n"
         "red.global.add.u32 [o], t;\n"
         "mad.wide.u32 o, c, 4, o; st.global.u32 [o+64], c; }\n";

TEST(integer_reductions_may_run_in_parallel)
{
    struct run r;
    prepare(&r, plain, 5000, 64);
    r.grid.threads = 4;
    CHECK(!r.grid.kernel->order_matters);
    fine(&r);
    CHECK_EQ(words(&r)[0], 5000 * 2016);
    for (uint32_t i = 0; i < 5000; i++)
        CHECK_EQ(words(&r)[16 + i], i);
    CHECK_EQ(atomic_load(&r.grid.ctas_done), 5000);
    CHECK_EQ(atomic_load(&r.grid.steps), 5000 * 2 * 7);
    done(&r);
}

/* Block i waits for block i+1: all must be resident, on however many threads.  Weak
 * loads, so that nothing tells the decoder. */
static const char chain[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 c, n, v; .reg .b64 o; .reg .pred p;\n"
         "mov.u32 c, %ctaid.x; mov.u32 n, %nctaid.x; ld.param.u64 o, [y];\n"
         "mad.wide.u32 o, c, 4, o; add.u32 c, c, 1; setp.eq.u32 p, c, n; @p bra GO;\n"
         "WAIT: ld.global.u32 v, [o+4]; setp.eq.u32 p, v, 0; @p bra WAIT;\n"
         "GO: st.global.u32 [o], c; }\n";

TEST(clusters_may_wait_for_later_ones)
{
    for (int threads = 1; threads <= 3; threads++) {
        struct run r;
        prepare(&r, chain, 100, 32);
        r.grid.threads = threads;
        fine(&r);
        for (uint32_t i = 0; i < 100; i++)
            CHECK_EQ(words(&r)[i], i + 1);
        done(&r);
    }
}

/* Blocks 3, 7 and 11 fail. */
static const char failing[] = HEAD
    ".visible .entry test(.param .u64 y) {\n"
    ".reg .b32 c, k, n; .reg .pred p;\n"
    "mov.u32 c, %ctaid.x; and.b32 k, c, 3; setp.eq.u32 p, k, 3;\n"
    "mov.u32 n, c;\n"
    "LATE: setp.eq.u32 p, n, 0; @p bra NOW; sub.u32 n, n, 1; bra LATE;\n" /* 3 is last
                                                                           */
    "NOW: setp.eq.u32 p, k, 3; @p trap; }\n";

TEST(the_report_is_of_the_lowest_cluster)
{
    for (int i = 0; i < 5; i++) {
        struct run r;
        prepare(&r, failing, 64, 32);
        r.grid.threads = 4;
        CHECK(!grid_run(&r.grid));
        CHECK_EQ(report_check(r.grid.report), CHECK_TRAP);
        CHECK(has(&r, "block (3,0,0)"));
        done(&r);
    }
}

static const char all_stuck[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 v; .reg .b64 o; .reg .pred p;\n"
         "ld.param.u64 o, [y];\n"
         "WAIT: ld.volatile.global.u32 v, [o]; setp.eq.u32 p, v, 0; @p bra WAIT; }\n";

TEST(a_deadlock_of_all_clusters_is_told_of_the_first)
{
    struct run r;
    prepare(&r, all_stuck, 20, 64);
    CHECK(!grid_run(&r.grid));
    CHECK_EQ(report_check(r.grid.report), CHECK_DEADLOCK);
    CHECK(has(&r, "block (0,0,0)") && has(&r, "polls without end"));
    done(&r);
}

/* ---- virtual time */

static const char patient[] = HEAD ".visible .entry test(.param .u64 y) {\n"
                                   ".reg .b64 o, a, b; .reg .pred p;\n"
                                   "ld.param.u64 o, [y]; mov.u64 a, %clock64;\n"
                                   "WAIT: mov.u64 b, %clock64; sub.u64 b, b, a; "
                                   "setp.lt.u64 p, b, 100000000000; @p bra WAIT;\n"
                                   "st.global.u64 [o], b; }\n";

TEST(time_passes_when_everybody_waits_for_it)
{
    struct run r;
    prepare(&r, patient, 3, 32);
    fine(&r);
    CHECK(words(&r)[1] > 0); /* more than 2^32 */
    done(&r);
}

static const char time_out[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 v; .reg .b64 o, a, b; .reg .pred p;\n"
         "ld.param.u64 o, [y]; mov.u64 a, %globaltimer;\n"
         "WAIT: ld.volatile.global.u32 v, [o]; setp.ne.u32 p, v, 0; @p bra DONE;\n"
         "nanosleep.u32 1000; mov.u64 b, %globaltimer; sub.u64 b, b, a;\n"
         "setp.lt.u64 p, b, 2000000000; @p bra WAIT;\n"
         "trap;\n"
         "DONE: ret; }\n";

TEST(a_programs_own_time_out_comes_before_the_deadlock_report)
{
    struct run r;
    prepare(&r, time_out, 1, 32);
    CHECK(!grid_run(&r.grid));
    CHECK_EQ(report_check(r.grid.report), CHECK_TRAP);
    done(&r);
}

/* A loop that changes only a register comes to its end, however long it is. */
static const char counting[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 i; .reg .b64 o; .reg .pred p;\n"
         "ld.param.u64 o, [y]; mov.u32 i, 0;\n"
         "L: add.u32 i, i, 1; setp.lt.u32 p, i, 3000000; @p bra L;\n"
         "st.global.u32 [o], i; }\n";

TEST(work_without_effect_is_no_livelock)
{
    struct run r;
    prepare(&r, counting, 1, 32);
    fine(&r);
    CHECK_EQ(words(&r)[0], 3000000);
    done(&r);
}

/* ---- limits */

/* Forever, with a state that never comes back: one warp counts and stores, one counts.
 */
static const char endless[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 t, s; .reg .b64 i, o; .reg .pred p, q;\n"
         "ld.param.u64 o, [y]; ld.global.u32 s, [o]; mov.u32 t, %tid.x; mov.u64 i, 0;\n"
         "setp.ge.u32 p, t, 32; setp.ne.u32 q, s, 0; and.pred q, q, p;\n"
         "L: add.u64 i, i, 1; @!q bra L;\n"
         "st.global.u64 [o+8], i; bra L; }\n";

TEST(a_kernel_that_never_ends_is_stopped)
{
    for (uint32_t stores = 0; stores < 2; stores++) {
        struct run r;
        prepare(&r, endless, 1, 64);
        words(&r)[0] = stores;
        r.grid.step_limit = 1600000;
        CHECK(!grid_run(&r.grid));
        CHECK_EQ(report_check(r.grid.report), CHECK_DEADLOCK);
        CHECK(has(&r, "does not end") && has(&r, "FP4EMU_STEPS"));
        CHECK(has(&r, "it runs on"));
        /* Without a store, a sixteenth of the limit is enough. */
        CHECK((atomic_load(&r.grid.steps) > 1000000) == (stores == 1));
        done(&r);
    }
}

/* Nobody sees through a wait that counts its rounds.  What it waits for is told. */
static const char counted_wait[] =
    HEAD ".extern .shared .align 16 .b8 sm[];\n"
         ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 a, n; .reg .pred q; mov.u32 a, sm; mov.u32 n, 0;\n"
         "mbarrier.init.shared::cta.b64 [a], 2;\n"
         "mbarrier.arrive.shared::cta.b64 _, [a];\n"
         "L: mbarrier.try_wait.parity.shared::cta.b64 q, [a], 0; @q ret;\n"
         "nanosleep.u32 20; add.u32 n, n, 1; bra L; }\n";

TEST(a_limit_names_the_barrier_that_is_waited_for)
{
    struct run r;
    prepare(&r, counted_wait, 1, 1);
    r.grid.dyn_smem_bytes = 64;
    r.grid.step_limit = 100000000;
    CHECK(!grid_run(&r.grid));
    CHECK_EQ(report_check(r.grid.report), CHECK_DEADLOCK);
    CHECK(has(&r, "does not end") && has(&r, "1 of 2 arrivals are missing"));
    CHECK(has(&r, "signalled from line 8"));
    CHECK(atomic_load(&r.grid.steps) < 1000000);
    done(&r);
}

/* Copies that nobody waits for. */
static const char hoarding[] =
    HEAD ".extern .shared .align 16 .b8 sm[];\n"
         ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 a, i; .reg .b64 o; .reg .pred p;\n"
         "mov.u32 a, sm; ld.param.u64 o, [y]; mov.u32 i, 0;\n"
         "L: cp.async.ca.shared.global [a], [o], 4;\n"
         "add.u32 i, i, 1; setp.lt.u32 p, i, 1000000; @p bra L;\n"
         "cp.async.wait_all; }\n";

static long peak_kib(void)
{
    struct rusage u;
    CHECK_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_maxrss;
}

TEST(pending_work_is_bounded)
{
    static const enum strategy late[] = {STRATEGY_LAZY, STRATEGY_DELAY};
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        struct run r;
        prepare(&r, hoarding, 1, 1);
        r.grid.dyn_smem_bytes = 1024;
        r.grid.strategy = late[i];
        r.grid.rule.op = ASYNC_CP;
        r.grid.rule.number = 1;
        long before = peak_kib();
        fine(&r);
        /* AddressSanitizer holds back 256 MiB that were freed. */
        CHECK(peak_kib() - before < 600 * 1024);
        done(&r);
    }
}

TEST(clusters_that_find_no_room_are_told)
{
    struct run r;
    prepare(&r, chain, 100, 32);
    r.grid.most_resident = 40;
    CHECK(!grid_run(&r.grid));
    CHECK_EQ(report_check(r.grid.report), CHECK_DEADLOCK);
    CHECK(has(&r, "60 clusters are not launched: the device has room for 40"));
    done(&r);
}

/* ---- checks can be left out */

static const char overrun[] = HEAD ".extern .shared .align 16 .b8 sm[];\n"
                                   ".visible .entry test(.param .u64 y) {\n"
                                   ".reg .b32 a; mov.u32 a, sm;\n"
                                   "mbarrier.init.shared::cta.b64 [a], 1;\n"
                                   "mbarrier.arrive.shared::cta.b64 _, [a];\n"
                                   "mbarrier.arrive.shared::cta.b64 _, [a]; }\n";

TEST(hazard_checks_can_be_left_out)
{
    struct run r;
    prepare(&r, overrun, 1, 1);
    r.grid.dyn_smem_bytes = 64;
    CHECK(!grid_run(&r.grid));
    CHECK_EQ(report_check(r.grid.report), CHECK_PHASE_OVERRUN);
    CHECK_EQ(report_line(r.grid.report), 9);
    done(&r);
    prepare(&r, overrun, 1, 1);
    r.grid.dyn_smem_bytes = 64;
    r.grid.no_checks = true;
    fine(&r);
    done(&r);
}

/* ---- registers */

TEST(registers_share_slots)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, HEAD ".visible .entry test(.param .u64 y) {\n"
                      ".reg .b32 r<2000>; .reg .b64 o; .reg .pred p<500>;\n"
                      "ld.param.u64 o, [y]; ld.global.u32 r0, [o];\n");
    for (int i = 1; i < 2000; i++)
        buf_printf(&b, "add.u32 r%d, r%d, %d;\n", i, i - 1, i % 3);
    for (int i = 0; i < 500; i++)
        buf_printf(&b, "setp.eq.u32 p%d, r1999, %d; @p%d st.global.u32 [o+4], r1999;\n",
                   i, 1998 + i, i);
    buf_puts(&b, "}\n");
    struct run r;
    prepare(&r, b.data, 1, 32);
    /* scrap, one pointer, two or three words, one line of predicates */
    CHECK(r.grid.kernel->reg_bytes <= 512 + 256 + 4 * 128);
    fine(&r);
    CHECK_EQ(words(&r)[1], 666 * 3 + 1);
    done(&r);
    arena_free(a);
}

/* A value that lives round a loop keeps its slot, and so does one that only some lanes
 * write under a guard. */
static const char living[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 t, keep, i, x, z; .reg .b64 o; .reg .pred p, q;\n"
         "mov.u32 t, %tid.x; ld.param.u64 o, [y]; mad.wide.u32 o, t, 4, o;\n"
         "mov.u32 keep, 5; setp.lt.u32 q, t, 7; @q mov.u32 keep, 9;\n"
         "mov.u32 i, 0;\n"
         "L: mov.u32 x, i; add.u32 x, x, keep; mov.u32 z, x; add.u32 i, i, 1;\n"
         "setp.lt.u32 p, i, 4; @p bra L;\n"
         "st.global.u32 [o], z; }\n";

TEST(values_outlive_loops_and_guards)
{
    struct run r;
    prepare(&r, living, 1, 32);
    fine(&r);
    for (uint32_t t = 0; t < 32; t++)
        CHECK_EQ(words(&r)[t], 3 + (t < 7 ? 9 : 5));
    done(&r);
}

/* ---- vprintf, __assertfail */

/* What `fn` writes to a stream, as a string in `a`. */
static char *capture(struct arena *a, FILE *stream, struct run *r, bool want)
{
    const char *path = test_tmp_path("out.txt");
    fflush(stream);
    int kept = dup(fileno(stream));
    CHECK(kept >= 0);
    CHECK(freopen(path, "w", stream) != NULL);
    bool ok = grid_run(&r->grid);
    fflush(stream);
    CHECK(dup2(kept, fileno(stream)) >= 0);
    close(kept);
    CHECK_EQ(ok, want);
    size_t bytes;
    char *text = file_read(a, path, &bytes);
    CHECK(text != NULL);
    return text;
}

static const char printing[] = HEAD
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    ".global .align 1 .b8 fmt[40] = "
    "{37,100,32,37,117,32,37,108,108,120,32,37,46,50,102,32,"
    "37,45,52,115,124,37,99,37,37,32,37,42,100,10};\n" /* %d %u %llx %.2f %-4s|%c%%
                                                          %*d\n */
    ".global .align 1 .b8 word[4] = {97,98,0};\n"
    ".visible .entry test(.param .u64 y) {\n"
    ".local .align 8 .b8 args[64];\n"
    ".reg .b32 t, n; .reg .b64 l, g, f, w, o;\n"
    "mov.u32 t, %tid.x; mov.u64 l, args; cvta.local.u64 g, l;\n"
    "sub.s32 n, t, 3; st.local.u32 [l], n; st.local.u32 [l+4], 4000000000;\n"
    "st.local.u64 [l+8], 0x123456789abcdef0; st.local.f64 [l+16], 0d4009000000000000;\n"
    "mov.u64 w, word; cvta.global.u64 w, w; st.local.u64 [l+24], w;\n"
    "st.local.u32 [l+32], 65; st.local.u32 [l+36], 5; st.local.u32 [l+40], t;\n"
    "mov.u64 f, fmt; cvta.global.u64 f, f;\n"
    "{ .param .b64 p0, p1; .param .b32 q; st.param.b64 [p0], f; st.param.b64 [p1], g;\n"
    "call.uni (q), vprintf, (p0, p1); ld.param.b32 n, [q]; }\n"
    "ld.param.u64 o, [y]; st.global.u32 [o], n; }\n";

TEST(vprintf_formats_each_lane)
{
    struct run r;
    prepare(&r, printing, 1, 2);
    char *text = capture(r.arena, stdout, &r, true);
    CHECK_STR(text, "-3 4000000000 123456789abcdef0 3.12 ab  |A%     0\n"
                    "-2 4000000000 123456789abcdef0 3.12 ab  |A%     1\n");
    CHECK_EQ(words(&r)[0], 8);
    done(&r);
}

/* %999999999d %.*f, with a star of -2147483648 and what is cut off behind 4096 bytes.
 */
static const char wide[] = HEAD
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    ".global .align 1 .b8 fmt[40] = "
    "{37,46,42,102,124,37,42,100,124,37,48,51,100,124,37,57,57,57,57,57,57,57,57,57,"
    "100,33};\n" /* %.*f|%*d|%03d|%999999999d! */
    ".visible .entry test(.param .u64 y) {\n"
    ".local .align 8 .b8 args[64];\n"
    ".reg .b32 n; .reg .b64 l, g, f;\n"
    "mov.u64 l, args; cvta.local.u64 g, l;\n"
    "st.local.u32 [l], 0x80000000; st.local.f64 [l+8], 0d3ff0000000000000;\n"
    "st.local.u32 [l+16], -3; st.local.u32 [l+20], 7;\n"
    "st.local.u32 [l+24], 5; st.local.u32 [l+28], 6;\n"
    "mov.u64 f, fmt; cvta.global.u64 f, f;\n"
    "{ .param .b64 p0, p1; .param .b32 q; st.param.b64 [p0], f; st.param.b64 [p1], g;\n"
    "call.uni (q), vprintf, (p0, p1); } }\n";

TEST(printing_is_as_wide_as_there_is_room)
{
    struct run r;
    prepare(&r, wide, 1, 1);
    char *text = capture(r.arena, stdout, &r, true);
    CHECK(strncmp(text, "1.000000|7  |005|    ", 21) == 0);
    CHECK_EQ(strlen(text), 4096);
    CHECK_EQ(text[4095], '6');
    done(&r);
}

TEST(printing_has_a_limit)
{
    struct run r;
    prepare(&r, printing, 20, 32);
    r.grid.print_limit = 1000;
    char *text = capture(r.arena, stdout, &r, false);
    CHECK(strlen(text) <= 1000 && strlen(text) > 900);
    CHECK_EQ(report_check(r.grid.report), CHECK_LIMIT);
    CHECK(has(&r, "more than 1000 bytes") && has(&r, "FP4EMU_PRINT"));
    done(&r);
}

static const char asserting[] =
    HEAD ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, "
         ".param .b64 n, "
         ".param .b64 s);\n"
         ".global .align 1 .b8 word[4] = {97,98,0};\n"
         ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 t; .reg .b64 w; .reg .pred p;\n"
         "mov.u32 t, %tid.x; setp.ne.u32 p, t, 33; @p exit;\n"
         "mov.u64 w, word; cvta.global.u64 w, w;\n"
         "{ .param .b64 a, b, d, e; .param .b32 c;\n"
         "st.param.b64 [a], w; st.param.b64 [b], w; st.param.b32 [c], 77;\n"
         "st.param.b64 [d], w; st.param.b64 [e], 1;\n"
         "call.uni __assertfail, (a, b, c, d, e); } }\n";

TEST(assertions_end_the_launch)
{
    struct run r;
    prepare(&r, asserting, 1, 64);
    char *text = capture(r.arena, stderr, &r, false);
    CHECK_STR(text,
              "ab:77: ab: block: [0,0,0], thread: [33,0,0] Assertion `ab` failed.\n");
    CHECK_EQ(report_check(r.grid.report), CHECK_ASSERT);
    CHECK(has(&r, "ab:77"));
    done(&r);
}

/* ---- special registers */

static const char special[] =
    HEAD ".visible .entry test(.param .u64 y) {\n"
         ".reg .b32 a, b, c, d, t; .reg .b64 o; .reg .pred p;\n"
         "mov.u32 a, %tid.x; mov.u32 b, %tid.y; mov.u32 c, %tid.z;\n"
         "mov.u32 d, %ntid.x; mad.lo.u32 t, b, d, a; mov.u32 a, %ntid.y; mul.lo.u32 a, "
         "a, d;\n"
         "mad.lo.u32 t, c, a, t;\n"
         "ld.param.u64 o, [y]; mad.wide.u32 o, t, 16, o;\n"
         "mov.u32 a, %laneid; mov.u32 b, %warpid; mov.u32 c, %lanemask_lt; mov.u32 d, "
         "%nwarpid;\n"
         "mov.u32 t, %ctaid.z; setp.eq.u32 p, t, 1; @p st.global.v4.u32 [o], {a, b, c, "
         "d}; }\n";

TEST(special_registers)
{
    struct run r;
    prepare(&r, special, 2, 3);
    r.grid.dim[2] = 2;
    r.grid.block[1] = 5;
    r.grid.block[2] = 4;
    fine(&r);
    for (uint32_t t = 0; t < 60; t++) {
        const uint32_t *row = words(&r) + t * 4;
        CHECK_EQ(row[0], t % 32);
        CHECK_EQ(row[1], t / 32);
        CHECK_EQ(row[2], (1u << t % 32) - 1);
        CHECK_EQ(row[3], 2);
    }
    done(&r);
}
