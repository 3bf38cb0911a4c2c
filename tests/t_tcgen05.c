/* t_tcgen05.c - tensor memory: allocation, loads and stores of every shape, copies, and
 * what must not be done with it. */
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* ---- allocation: one warp, `body` between alloc-free frames */

#define BEGIN                                                                          \
    ".reg .pred p; .reg .b32 t, a, c, d, v; .reg .b64 g;\n"                            \
    "mov.u32 t, %tid.x; mov.u32 a, sm;\n"                                              \
    "ld.param.u64 g, [to];\n"
#define FIRST_LINE 5 /* of what follows, in the module */
#define ALLOC(at, cols)                                                                \
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a+" #at "], " #cols ";"  \
    "\n"
#define ADDRESS(reg, at) "ld.shared.b32 " #reg ", [a+" #at "];\n"
#define FREE(reg, cols)                                                                \
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 " #reg ", " #cols ";\n"

static uint64_t prepare(struct emu_run *r, const char *body, int threads)
{
    r->body = body;
    r->params = ".param .u64 to";
    r->threads = threads;
    r->smem_bytes = 8192;
    uint64_t to = emu_alloc(r, 1 << 18);
    emu_param(r, &to, 8);
    return to;
}

static void expect(const char *body, int threads, enum check check, int line,
                   const char *words)
{
    struct emu_run r = {0};
    prepare(&r, body, threads);
    EMU_EXPECT(&r, check, line, words);
    emu_done(&r);
}

TEST(columns_come_lowest_first)
{
    static const char body[] =
        BEGIN ALLOC(0, 256) ALLOC(4, 128) ALLOC(8, 128) ADDRESS(c, 4) FREE(c, 128)
            ALLOC(12, 64) "shl.b32 v, t, 2; add.u32 v, v, a; ld.shared.b32 v, [v];\n"
                          "setp.gt.u32 p, t, 3;\n"
                          "@p bra DONE;\n"
                          "cvt.u64.u32 g, t;\n"
                          "shl.b64 g, g, 2;\n"
                          ".reg .b64 h; ld.param.u64 h, [to]; add.u64 g, g, h; "
                          "st.global.b32 [g], v;\n"
                          "DONE: bar.warp.sync 0xffffffff;\n" ADDRESS(c, 0) FREE(c, 256)
                              ADDRESS(c, 8) FREE(c, 128) ADDRESS(c, 12)
                                  FREE(c, 64) "tcgen05.relinquish_alloc_permit.cta_"
                                              "group::1.sync.aligned;\n"
                                              "ret;\n";
    struct emu_run r = {.checks = "default,-20"}; /* it stores words that are fresh */
    uint64_t to = prepare(&r, body, 32);
    EMU_FINE(&r);
    CHECK_EQ(emu_u32(to)[0], 0);
    CHECK_EQ(emu_u32(to)[1], 256);
    CHECK_EQ(emu_u32(to)[2], 384);
    CHECK_EQ(emu_u32(to)[3], 256);
    emu_done(&r);
}

TEST(bad_allocations)
{
    expect(BEGIN ALLOC(0, 64) "ret;\n", 32, CHECK_TMEM_LEAK, 0,
           "exits with tensor memory columns 0 to 63 allocated");
    expect(BEGIN
           "mov.u32 v, 48; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 "
           "[a], v;\nret;\n",
           32, CHECK_OPERAND, FIRST_LINE, "48 columns: 32, 64, 128, 256 or 512");
    expect(BEGIN ALLOC(0, 32) ALLOC(4, 64) "ret;\n", 32, CHECK_TMEM_LEAK,
           FIRST_LINE + 1, "must not grow");
    expect(BEGIN "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" ALLOC(
               0, 32) "ret;\n",
           32, CHECK_TMEM_LEAK, FIRST_LINE + 1, "has given up its permit");
    expect(BEGIN ALLOC(0, 64) ADDRESS(c, 0) FREE(c, 32) "ret;\n", 32, CHECK_TMEM_LEAK,
           FIRST_LINE + 2, "that is no allocation of this CTA");
    expect(
        BEGIN ALLOC(
            0, 64) "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\nret;\n",
        32, CHECK_TMEM_LEAK, FIRST_LINE + 1,
        "all tcgen05 instructions of a kernel use one");
    expect(BEGIN
           "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [a], 32;\nret;\n",
           32, CHECK_OPERAND, FIRST_LINE, "needs a pair of CTAs");
    expect(BEGIN ALLOC(0, 512) ALLOC(4, 32) "ret;\n", 32, CHECK_DEADLOCK, 0,
           "free tensor memory columns");
}

TEST(a_pair_allocates_together)
{
    static const char body[] =
        BEGIN "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [a], 128;\n"
              "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [a+4], 64;\n"
              "ld.shared.b32 c, [a]; ld.shared.b32 d, [a+4];\n"
              ".reg .b32 k; mov.u32 k, %cluster_ctarank; shl.b32 k, k, 3;\n"
              ".reg .b64 h; cvt.u64.u32 h, k; add.u64 g, g, h;\n"
              "setp.ne.u32 p, t, 0;\n"
              "@p bra DONE;\n"
              "st.global.b32 [g], c; st.global.b32 [g+4], d;\n"
              "DONE: bar.warp.sync 0xffffffff;\n"
              "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
              "tcgen05.dealloc.cta_group::2.sync.aligned.b32 d, 64;\n"
              "tcgen05.dealloc.cta_group::2.sync.aligned.b32 c, 128;\n"
              "ret;\n";
    struct emu_run r = {.grid = {2}, .cluster = {2}};
    uint64_t to = prepare(&r, body, 32);
    EMU_FINE(&r);
    CHECK_EQ(emu_u32(to)[0], 0);
    CHECK_EQ(emu_u32(to)[1], 128);
    CHECK_EQ(emu_u32(to)[2], 0);
    CHECK_EQ(emu_u32(to)[3], 128);
    emu_done(&r);
}

TEST(a_commit_of_nothing_arrives_at_once)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        static const char body[] =
            BEGIN "setp.ne.u32 p, t, 0;\n"
                  "@p bra END;\n"
                  "mbarrier.init.shared::cta.b64 [a], 1;\n"
                  "fence.mbarrier_init.release.cluster;\n"
                  "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster."
                  "b64 [a];\n"
                  "POLL: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"
                  "@!p bra POLL;\n"
                  ".reg .b64 h; cvt.u64.u32 h, a; cvta.shared.u64 h, h;\n"
                  "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [h];\n"
                  "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 1;\n"
                  "@!p bra AGAIN;\n"
                  "END: ret;\n";
        struct emu_run r = {.lazy = lazy};
        prepare(&r, body, 32);
        EMU_FINE(&r);
        emu_done(&r);
    }
}

TEST(one_lane_issues)
{
    expect(BEGIN ALLOC(0, 32) "tcgen05.commit.cta_group::1.mbarrier::arrive::one."
                              "shared::cluster.b64 [a+8];\n"
                              "ret;\n",
           32, CHECK_COLLAPSED_WORK, FIRST_LINE + 1, "32 lanes execute this");
}

/* ---- loads and stores */

/* Four warps.  Cell (lane, column) of the first 128 columns gets lane << 16 | column by
 * 32x32b stores, then `access` runs with the warp's address in `c` and its own
 * registers r0 .. r127, which are dumped: out[thread * 128 + register]. */
static const char shapes_body[] =
    ".reg .pred p; .reg .b32 t, a, c, d, v, w, q; .reg .b32 r<128>; .reg .b64 g, x;\n"
    "mov.u32 t, %%tid.x; mov.u32 a, sm; ld.param.u64 g, [to];\n"
    "shr.u32 w, t, 5;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra READY;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a], 256;\n"
    "READY: tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "ld.shared.b32 c, [a];\n"
    "shl.b32 v, w, 21; add.u32 c, c, v;\n"
    "shl.b32 v, t, 16; mov.u32 d, c; mov.u32 q, 0;\n"
    "FILL: tcgen05.st.sync.aligned.32x32b.x1.b32 [d], {v};\n"
    "add.u32 v, v, 1; add.u32 d, d, 1; add.u32 q, q, 1;\n"
    "setp.lt.u32 p, q, 256;\n"
    "@p bra FILL;\n"
    "tcgen05.wait::st.sync.aligned;\n"
    "%s\n"
    "tcgen05.wait::ld.sync.aligned;\n"
    "tcgen05.wait::st.sync.aligned;\n"
    "mul.wide.u32 x, t, 512; add.u64 g, g, x;\n"
    "%s\n" /* stores of the registers */
    "tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra END;\n"
    "ld.shared.b32 c, [a];\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 c, 256;\n"
    "END: ret;\n";

static void list_registers(char *text, size_t bytes, int count)
{
    size_t n = 0;
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%sr%d", i ? "," : "", i);
}

/* Runs one access; false where it was refused. */
static uint64_t run_access(struct emu_run *r, const char *access, int registers)
{
    static char body[32768], dump[16384];
    size_t n = 0;
    dump[0] = 0;
    for (int i = 0; i < registers; i++)
        n += (size_t)snprintf(dump + n, sizeof dump - n, "st.global.b32 [g+%d], r%d;\n",
                              4 * i, i);
    snprintf(body, sizeof body, shapes_body, access, dump);
    uint64_t to = prepare(r, body, 128);
    EMU_FINE(r);
    return to;
}

struct shape {
    const char *name;
    int per_x; /* registers for each .x */
    int most_x;
};

static const struct shape shapes[] = {
    {"32x32b", 1, 128},
    {"16x64b", 1, 64},
    {"16x128b", 2, 32},
    {"16x256b", 4, 16},
};

/* Lane and column of register r of thread t; from the tables of PTX ISA 9.0, "Data
 * Movement Shape", written out anew. */
static void place(const char *shape, int t, int r, int *lane, int *column)
{
    int row = t / 4, in_row = t % 4;
    if (!strcmp(shape, "32x32b")) {
        *lane = t;
        *column = r;
    } else if (!strcmp(shape, "16x64b")) {
        *lane = row + (in_row & 1 ? 8 : 0);
        *column = 2 * r + (in_row >> 1);
    } else if (!strcmp(shape, "16x128b")) {
        *lane = row + (r & 1 ? 8 : 0);
        *column = (r >> 1) * 4 + in_row;
    } else {
        *lane = row + (r & 2 ? 8 : 0);
        *column = (r >> 2) * 8 + in_row * 2 + (r & 1);
    }
}

static void check_shape(const struct shape *s, int x, int lane_base, int col_base)
{
    static char access[4096], list[2048];
    int count = s->per_x * x;
    list_registers(list, sizeof list, count);
    snprintf(access, sizeof access,
             "add.u32 d, c, %d;\ntcgen05.ld.sync.aligned.%s.x%d.b32 {%s}, [d];",
             lane_base * 65536 + col_base, s->name, x, list);
    struct emu_run r = {0};
    uint64_t to = run_access(&r, access, count);
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < count; i++) {
            int lane, column;
            place(s->name, t % 32, i, &lane, &column);
            lane += t / 32 * 32 + lane_base;
            column += col_base;
            if (emu_u32(to)[t * 128 + i] != (uint32_t)(lane << 16 | column))
                test_fail(__FILE__, __LINE__,
                          "%s.x%d thread %d register %d: %08x, "
                          "expected lane %d column %d",
                          s->name, x, t, i, emu_u32(to)[t * 128 + i], lane, column);
        }
    emu_done(&r);
}

TEST(loads_of_each_shape)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (int x = 1; x <= shapes[i].most_x; x *= 2) {
            check_shape(&shapes[i], x, 0, 0);
            check_shape(&shapes[i], x, i == 0 ? 0 : 16, 5);
        }
}

TEST(loads_in_two_halves)
{
    static const char access[] =
        "add.u32 d, c, 3;\n"
        "tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {r0,r1,r2,r3}, [d], 40;";
    struct emu_run r = {0};
    uint64_t to = run_access(&r, access, 4);
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < 4; i++) {
            int lane = t / 32 * 32 + t % 16, column = 3 + i + (t % 32 >= 16 ? 40 : 0);
            CHECK_EQ(emu_u32(to)[t * 128 + i], lane << 16 | column);
        }
    emu_done(&r);
}

TEST(loads_pack_and_stores_unpack)
{
    static const char access[] =
        "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {r0,r1}, [c];\n"
        "mov.u32 r2, 0x11112222; mov.u32 r3, 0x33334444;\n"
        "add.u32 d, c, 8;\n"
        "tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [d], {r2,r3};\n"
        "tcgen05.wait::st.sync.aligned;\n"
        "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r4,r5,r6,r7}, [d];";
    struct emu_run r = {0};
    uint64_t to = run_access(&r, access, 8);
    for (int t = 0; t < 128; t++) {
        const uint32_t *got = emu_u32(to) + t * 128;
        CHECK_EQ(got[0], 0x00010000);
        CHECK_EQ(got[1], 0x00030002);
        CHECK_EQ(got[4], 0x2222);
        CHECK_EQ(got[5], 0x1111);
        CHECK_EQ(got[6], 0x4444);
        CHECK_EQ(got[7], 0x3333);
    }
    emu_done(&r);
}

/* Stored by one shape, loaded by 32x32b: what lies where. */
TEST(stores_of_each_shape)
{
    for (size_t i = 1; i < COUNT_OF(shapes); i++) {
        static char access[8192], list[2048], all[2048];
        char fill[2048];
        size_t n = 0;
        int count = shapes[i].per_x * 4;
        for (int k = 0; k < count; k++)
            n += (size_t)snprintf(fill + n, sizeof fill - n, "add.u32 r%d, v, %d; ", k,
                                  k);
        list_registers(list, sizeof list, count);
        list_registers(all, sizeof all, 64);
        snprintf(access, sizeof access,
                 "shl.b32 v, t, 8; add.u32 v, v, 0x70000000;\n%s\n"
                 "tcgen05.st.sync.aligned.%s.x4.b32 [c], {%s};\n"
                 "tcgen05.wait::st.sync.aligned;\n"
                 "tcgen05.ld.sync.aligned.32x32b.x64.b32 {%s}, [c];",
                 fill, shapes[i].name, list, all);
        struct emu_run r = {0};
        uint64_t to = run_access(&r, access, 64);
        static uint32_t want[128][64];
        for (int t = 0; t < 128; t++)
            for (int k = 0; k < 64; k++)
                want[t][k] = (uint32_t)(t << 16 | k);
        for (int t = 0; t < 128; t++)
            for (int k = 0; k < count; k++) {
                int lane, column;
                place(shapes[i].name, t % 32, k, &lane, &column);
                want[t / 32 * 32 + lane][column] =
                    0x70000000u + (uint32_t)(t * 256 + k);
            }
        for (int t = 0; t < 128; t++)
            for (int k = 0; k < 64; k++)
                CHECK_EQ(emu_u32(to)[t * 128 + k], want[t][k]);
        emu_done(&r);
    }
}

/* The quarter comes from the warp; the address may say 0 or the same. */
TEST(lane_quarters)
{
    struct emu_run r = {0};
    uint64_t to = run_access(&r,
                             "and.b32 d, c, 0xffff;\n"
                             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [d];",
                             1);
    for (int t = 0; t < 128; t++)
        CHECK_EQ(emu_u32(to)[t * 128], t << 16);
    emu_done(&r);

    static const struct {
        const char *access;
        enum check check;
        const char *words;
    } cases[] = {
        {"add.u32 d, c, 0x200000;\n", CHECK_LANE_QUARTER,
         "reaches lanes 96 to 127 only"},
        {"add.u32 d, c, 0x80000;\n", CHECK_TMEM_OUTSIDE, "starts at multiples of 32"},
        {"add.u32 d, c, t;\n", CHECK_LANE_QUARTER, "all lanes must agree"},
        {"add.u32 d, c, 256;\n", CHECK_TMEM_OUTSIDE, "columns 256 to 256 of CTA 0"},
        {"add.u32 d, c, 600;\n", CHECK_TMEM_OUTSIDE, "allocated: columns 0 to 255"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        static char body[8192], access[512];
        snprintf(access, sizeof access,
                 "%stcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [d];", cases[i].access);
        snprintf(body, sizeof body, shapes_body, access, "");
        expect(body, 128, cases[i].check, 0, cases[i].words);
    }
}

TEST(waits_between_loads_and_stores)
{
    static char body[8192];
    snprintf(body, sizeof body, shapes_body,
             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [c];\n"
             "tcgen05.st.sync.aligned.32x32b.x1.b32 [c], {r1};",
             "");
    expect(body, 128, CHECK_TMEM_OVERWRITTEN, 0, "has not executed tcgen05.wait::ld");
    snprintf(body, sizeof body, shapes_body,
             "tcgen05.st.sync.aligned.32x32b.x1.b32 [c], {r1};\n"
             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [c];",
             "");
    expect(body, 128, CHECK_TMEM_UNFINISHED, 0, "has not executed tcgen05.wait::st");
    expect(BEGIN ALLOC(0, 32)
               ADDRESS(c, 0) "tcgen05.ld.sync.aligned.32x32b.x1.b32 {v}, [c];\n" FREE(
                   c, 32) "ret;\n",
           32, CHECK_UNINITIALISED, FIRST_LINE + 2, "was never written");
    expect(BEGIN ALLOC(0, 32)
               ADDRESS(c, 0) "tcgen05.st.sync.aligned.32x32b.x1.b32 [c], {v};\n" FREE(
                   c, 32) "ret;\n",
           32, CHECK_TMEM_IN_USE, FIRST_LINE + 3, "is freed while the tcgen05.st");
}

/* ---- cp */

/* Warp 0 fills 4096 bytes at sm+1024, one lane copies, all four warps dump 8 columns:
 * out[lane * 8 + column].  %s: shape, %d: stride field, %s: wait or not. */
static const char cp_body[] =
    ".reg .pred p; .reg .b32 t, a, c, d, v, w, i, b; .reg .b32 r<8>; .reg .b64 g, x, "
    "s;\n"
    "mov.u32 t, %%tid.x; mov.u32 a, sm; ld.param.u64 g, [to]; add.u32 b, a, 1024;\n"
    "shr.u32 w, t, 5;\n"
    "setp.ne.u32 p, t, 0;\n"
    "@p bra INIT;\n"
    "mbarrier.init.shared::cta.b64 [a+8], 1;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "INIT: bar.warp.sync 0xffffffff;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra READY;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a], 64;\n"
    "READY: shl.b32 i, t, 2;\n"
    "FILL: cvt.u64.u32 x, i; add.u64 x, x, g; ld.global.b32 v, [x+65536];\n"
    "add.u32 d, b, i; st.shared.b32 [d], v; add.u32 i, i, 512;\n"
    "setp.lt.u32 p, i, 4096;\n"
    "@p bra FILL;\n"
    "fence.proxy.async.shared::cta;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
    "ld.shared.b32 c, [a];\n"
    "shl.b32 v, w, 21; add.u32 d, c, v;\n"
    "mov.u32 r0, 0; mov.u32 r1, 0; mov.u32 r2, 0; mov.u32 r3, 0;\n"
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [d], {r0,r1,r2,r3,r0,r1,r2,r3};\n"
    "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "setp.ne.u32 p, t, 0;\n"
    "@p bra WAIT;\n"
    "shr.u32 v, b, 4; and.b32 v, v, 0x3fff; cvt.u64.u32 s, v;\n"
    "add.u64 s, s, 0x%llx;\n"
    "tcgen05.cp.cta_group::1.%s [c], s;\n" /* line 30 of the module */
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [a+8];\n"
    "%s"
    "POLL: mbarrier.try_wait.parity.shared::cta.b64 p, [a+8], 0;\n"
    "@!p bra POLL;\n"
    "LOAD: bar.sync 0;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "tcgen05.ld.sync.aligned.32x32b.x8.b32 {r0,r1,r2,r3,r4,r5,r6,r7}, [d];\n"
    "tcgen05.wait::ld.sync.aligned;\n"
    "mul.wide.u32 x, t, 32; add.u64 x, x, g;\n"
    "st.global.b32 [x], r0; st.global.b32 [x+4], r1; st.global.b32 [x+8], r2;\n"
    "st.global.b32 [x+12], r3; st.global.b32 [x+16], r4; st.global.b32 [x+20], r5;\n"
    "st.global.b32 [x+24], r6; st.global.b32 [x+28], r7;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra END;\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 c, 64;\n"
    "END: ret;\n";
#define CP_LINE 30
#define WAIT_ALL "WAIT: bar.warp.sync 0xffffffff;\n" /* all poll */
#define NO_WAIT "WAIT: bra LOAD;\n"

/* No swizzle, 16-byte rows in groups of `sbo` bytes, second chunk `lbo` bytes on. */
static unsigned long long cp_descriptor(uint32_t lbo, uint32_t sbo)
{
    return (1ull << 46) | (unsigned long long)(sbo / 16) << 32 |
           (unsigned long long)(lbo / 16) << 16;
}

struct cp_case {
    const char *shape;
    int rows, chunks;
};

/* Rows that end up in `lane`, -1: none. */
static int cp_row(const char *shape, int lane)
{
    if (!strcmp(shape, "32x128b.warpx4"))
        return lane % 32;
    if (!strcmp(shape, "64x128b.warpx2::02_13"))
        return lane % 64;
    if (!strcmp(shape, "64x128b.warpx2::01_23"))
        return lane / 64 * 32 + lane % 32;
    if (!strcmp(shape, "4x256b"))
        return lane % 32 >= 28 ? lane % 32 - 28 : -1;
    return lane;
}

TEST(copies_of_each_shape)
{
    static const struct cp_case cases[] = {
        {"32x128b.warpx4", 32, 1},
        {"64x128b.warpx2::02_13", 64, 1},
        {"64x128b.warpx2::01_23", 64, 1},
        {"128x128b", 128, 1},
        {"128x256b", 128, 2},
        {"4x256b", 4, 2},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int lazy = 0; lazy < 2; lazy++) {
            static char body[8192];
            uint32_t sbo = 128 * (uint32_t)cases[i].chunks, lbo = 128;
            snprintf(body, sizeof body, cp_body, cp_descriptor(lbo, sbo),
                     cases[i].shape, WAIT_ALL);
            struct emu_run r = {.lazy = lazy};
            uint64_t to = prepare(&r, body, 128);
            uint32_t *source = emu_u32(to + 65536);
            for (int k = 0; k < 1024; k++)
                source[k] = random_bits();
            EMU_FINE(&r);
            for (int lane = 0; lane < 128; lane++)
                for (int col = 0; col < 8; col++) {
                    int row = cp_row(cases[i].shape, lane), chunk = col / 4;
                    uint32_t at = (uint32_t)(row / 8) * sbo + (uint32_t)(row % 8) * 16 +
                                  (uint32_t)chunk * lbo;
                    uint32_t want = row < 0 || chunk >= cases[i].chunks
                                        ? 0
                                        : source[at / 4 + (uint32_t)(col % 4)];
                    if (emu_u32(to)[lane * 8 + col] != want)
                        test_fail(__FILE__, __LINE__, "%s lane %d column %d",
                                  cases[i].shape, lane, col);
                }
            emu_done(&r);
        }
}

/* Global layout of scales, then the copy: the identity on (row, block of K). */
TEST(a_block_of_scales_arrives_by_row)
{
    static char body[8192];
    snprintf(body, sizeof body, cp_body, cp_descriptor(16, 128), "32x128b.warpx4",
             WAIT_ALL);
    struct emu_run r = {0};
    uint64_t to = prepare(&r, body, 128);
    for (int row = 0; row < 128; row++)
        for (int kb = 0; kb < 4; kb++)
            emu_bytes(to + 65536)[row % 32 * 16 + row / 32 * 4 + kb] =
                (uint8_t)(row * 4 + kb);
    EMU_FINE(&r);
    for (int row = 0; row < 128; row++)
        for (int kb = 0; kb < 4; kb++)
            for (int copy = 0; copy < 4; copy++) {
                int lane = copy * 32 + row % 32, col = row / 32;
                CHECK_EQ(emu_bytes(to)[lane * 32 + col * 4 + kb],
                         (uint8_t)(row * 4 + kb));
            }
    emu_done(&r);
}

TEST(reading_before_the_copy_is_known_to_be_done)
{
    static char body[8192];
    snprintf(body, sizeof body, cp_body, cp_descriptor(16, 128), "32x128b.warpx4",
             NO_WAIT);
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        prepare(&r, body, 128);
        EMU_EXPECT(&r, CHECK_TMEM_UNFINISHED, CP_LINE + 7,
                   "while the tcgen05.cp of line 30 is not complete");
        emu_done(&r);
    }
}

TEST(bad_copies)
{
    static char body[8192];
    static const struct {
        unsigned long long desc;
        enum check check;
        const char *words;
    } cases[] = {
        {128ull << 32, CHECK_DESCRIPTOR, "bits 46-48 are 0 and must be 1"},
        {1ull << 46 | 8ull << 32 | 3ull << 61, CHECK_DESCRIPTOR, "swizzle code 3"},
        {1ull << 46 | 8ull << 32 | 5ull << 61, CHECK_DESCRIPTOR, "swizzle code 5"},
        {1ull << 46 | 8ull << 32 | 7ull << 61, CHECK_DESCRIPTOR, "swizzle code 7"},
        {1ull << 46 | 8ull << 32 | 1ull << 55, CHECK_DESCRIPTOR, "reserved bits"},
        {1ull << 46 | 8ull << 32 | 1ull << 14, CHECK_DESCRIPTOR, "reserved bits"},
        {1ull << 46 | 8ull << 32 | 1ull << 52, CHECK_DESCRIPTOR, "bit 52"},
        {1ull << 46 | 0x3fffull << 32, CHECK_DESCRIPTOR, "the shared memory of CTA 0"},
        {1ull << 46 | 64ull << 32 | 2ull << 61 | 8, CHECK_DESCRIPTOR,
         "base offset 0, but the swizzle pattern of 1024 bytes begins 128 bytes "
         "before"},
        {1ull << 46 | 64ull << 32 | 2ull << 61 | 1ull << 49, CHECK_DESCRIPTOR,
         "base offset 1"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(body, sizeof body, cp_body, cases[i].desc, "32x128b.warpx4", WAIT_ALL);
        expect(body, 128, cases[i].check, CP_LINE, cases[i].words);
    }
}

TEST(refused_forms)
{
    static const char *const cases[][2] = {
        {"tcgen05.mma.cta_group::1.kind::f16.ashift [c], [c], g, a, p;\n", ".ashift"},
        {"tcgen05.mma.cta_group::1.kind::f8f6f4 [c], g, g, a, p, 3;\n",
         "kinds f16 and tf32 only"},
        {"tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [c], [c], g, a, "
         "[c], "
         "[c], p;\n",
         "A in tensor memory"},
        {"tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [c], g;\n", "unpacking"},
        {"tcgen05.ld.sync.aligned.16x64b.x1.pack::16b.b32 {v}, [c];\n",
         "16-bit packing with this shape"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[1024];
        snprintf(body, sizeof body, "%s%sret;\n", BEGIN, cases[i][0]);
        struct emu_run r = {0};
        prepare(&r, body, 32);
        if (emu_launch(&r))
            test_fail(__FILE__, __LINE__, "accepted: %s", cases[i][0]);
        if (!strstr(emu_refusal(&r), cases[i][1]))
            test_fail(__FILE__, __LINE__, "expected \"%s\", got %s%s", cases[i][1],
                      emu_refusal(&r), emu_report(&r));
        emu_done(&r);
    }
}
