/* t_bulk.c - plain bulk copies, groups, multicast and barriers of pairs. */
#include "emu/tma.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

/* Lane 0 of one warp; parameters are two or three buffers. */
#define BUFFERS ".param .u64 from, .param .u64 to"
#define BEGIN                                                                          \
    ".reg .pred p; .reg .b32 t, a, b, v, i; .reg .b64 f, g, x;\n"                      \
    "mov.u32 t, %tid.x; mov.u32 a, sm; add.u32 b, a, 1024;\n"                          \
    "ld.param.u64 f, [from]; ld.param.u64 g, [to];\n"                                  \
    "setp.ne.u32 p, t, 0;\n"                                                           \
    "@p bra END;\n"
#define END "END: ret;\n"
#define FIRST_LINE 7 /* of what stands between, in the module */
#define INIT                                                                           \
    "mbarrier.init.shared::cta.b64 [a], 1; fence.mbarrier_init.release.cluster;\n"
#define WAIT(n)                                                                        \
    "WAIT" #n ": mbarrier.try_wait.parity.shared::cta.b64 p, [a], " #n ";\n"           \
    "@!p bra WAIT" #n ";\n"

/* These look at fresh shared memory, and leave stores behind, on purpose. */
#define UNWRITTEN "default,-20,-23"

static void prepare(struct emu_run *r, const char *body, uint64_t *from, uint64_t *to)
{
    r->body = body;
    r->params = BUFFERS;
    r->threads = 32;
    r->smem_bytes = 8192;
    *from = emu_alloc(r, 4096);
    *to = emu_alloc(r, 4096);
    for (uint32_t i = 0; i < 1024; i++)
        emu_u32(*from)[i] = i * 0x01010101u + 7;
    emu_param(r, from, 8);
    emu_param(r, to, 8);
}

TEST(there_and_back)
{
    static const char body[] = BEGIN INIT
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 4096;\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], [f], 4096, "
        "[a];\n" WAIT(0) "cp.async.bulk.global.shared::cta.bulk_group [g], [b], 4096;\n"
                         "cp.async.bulk.commit_group;\n"
                         "cp.async.bulk.wait_group.read 0;\n" END;
    for (int lazy = 0; lazy < 2; lazy++) {
        uint64_t from, to;
        struct emu_run r = {.lazy = lazy};
        prepare(&r, body, &from, &to);
        EMU_FINE(&r);
        CHECK(memcmp(emu_bytes(from), emu_bytes(to), 4096) == 0);
        emu_done(&r);
    }
}

/* Groups close in order; one that is not waited for may still be pending (lazy). */
TEST(groups_are_waited_for_in_order)
{
    /* Three groups of one store each; after wait_group 1 two are done, and only the
     * source of the third may not be touched. */
#define STORE(i)                                                                       \
    "add.u32 v, b, " #i ";\n"                                                          \
    "add.u64 x, g, " #i ";\n"                                                          \
    "cp.async.bulk.global.shared::cta.bulk_group [x], [v], 16;\n"                      \
    "cp.async.bulk.commit_group;\n"
#define STORES STORE(0) STORE(16) STORE(32) "cp.async.bulk.wait_group.read 1;\n"
    static const char fine[] = BEGIN STORES "st.shared.b32 [b], t;\n"
                                            "st.shared.b32 [b+16], t;\n" END;
    static const char early[] = BEGIN STORES "st.shared.b32 [b+32], t;\n" END;
    uint64_t from, to;
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy, .checks = UNWRITTEN};
        prepare(&r, fine, &from, &to);
        EMU_FINE(&r);
        /* Fresh shared memory holds a pattern; it has arrived three times. */
        for (int i = 0; i < 12; i++)
            CHECK_EQ(emu_u32(to)[i], 0x7f7f7f7f);
        emu_done(&r);
    }
    struct emu_run r = {.lazy = true, .checks = UNWRITTEN};
    prepare(&r, early, &from, &to);
    EMU_EXPECT(&r, CHECK_STORE_SOURCE, FIRST_LINE + 13,
               "nothing shows this thread that the bulk store of");
    emu_done(&r);
}

TEST(an_open_group_is_not_waited_for)
{
    static const char body[] =
        BEGIN "cp.async.bulk.global.shared::cta.bulk_group [g], [b], 16;\n"
              "cp.async.bulk.wait_group 0;\n"
              "st.shared.b32 [b], t;\n" END;
    uint64_t from, to;
    struct emu_run r = {.lazy = true, .checks = UNWRITTEN};
    prepare(&r, body, &from, &to);
    EMU_EXPECT(&r, CHECK_STORE_SOURCE, FIRST_LINE + 2,
               "nothing shows this thread that the bulk store of");
    emu_done(&r);
}

TEST(integer_and_half_reductions)
{
#define REDUCE(op_type, at)                                                            \
    "add.u64 x, g, " #at ";\n"                                                         \
    "cp.reduce.async.bulk.global.shared::cta.bulk_group." op_type " [x], [b], 16;\n"
    static const char body[] = BEGIN INIT
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 16;\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], [f], 16, "
        "[a];\n" WAIT(0) REDUCE("add.u32", 0) REDUCE("min.s32", 16)
            REDUCE("max.u32", 32) REDUCE("inc.u32", 48) REDUCE("dec.u32", 64)
                REDUCE("and.b32", 80) REDUCE("or.b32", 96) REDUCE("xor.b32", 112)
                    REDUCE("add.noftz.f16", 128) REDUCE("add.noftz.bf16", 144)
                        REDUCE("add.u64", 160) REDUCE("max.s64", 176)
                            REDUCE("min.bf16", 192) "cp.async.bulk.commit_group;\n"
                                                    "cp.async.bulk.wait_group 0;\n" END;
    for (int lazy = 0; lazy < 2; lazy++) {
        uint64_t from, to;
        struct emu_run r = {.lazy = lazy};
        prepare(&r, body, &from, &to);
        static const uint32_t source[4] = {5, 0xfffffffe, 0x3c003c00, 0x3f803f80};
        static const uint32_t old[4] = {7, 3, 0x40003c00, 0x40003f80};
        memcpy(emu_bytes(from), source, 16);
        for (int i = 0; i < 13; i++)
            memcpy(emu_bytes(to) + 16 * i, old, 16);
        EMU_FINE(&r);
        uint32_t *d = emu_u32(to);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(d[i], source[i] + old[i]);
            CHECK_EQ((int32_t)d[4 + i], (int32_t)source[i] < (int32_t)old[i]
                                            ? (int32_t)source[i]
                                            : (int32_t)old[i]);
            CHECK_EQ(d[8 + i], source[i] > old[i] ? source[i] : old[i]);
            CHECK_EQ(d[12 + i], old[i] >= source[i] ? 0 : old[i] + 1);
            CHECK_EQ(d[16 + i],
                     old[i] == 0 || old[i] > source[i] ? source[i] : old[i] - 1);
            CHECK_EQ(d[20 + i], source[i] & old[i]);
            CHECK_EQ(d[24 + i], source[i] | old[i]);
            CHECK_EQ(d[28 + i], source[i] ^ old[i]);
        }
        CHECK_EQ(d[34], 0x42004000); /* f16: 1 + 1, 2 + 1 */
        CHECK_EQ(d[39], 0x40404000); /* bf16: 1 + 1, 2 + 1 */
        CHECK_EQ(d[40], 12);         /* u64: with the carry into the upper word */
        CHECK_EQ(d[41], 1);
        CHECK_EQ(d[44], 7); /* s64: the source's first pair is negative */
        CHECK_EQ(d[45], 3);
        CHECK_EQ(d[51], 0x3f803f80);
        emu_done(&r);
    }
}

TEST(bad_plain_copies)
{
    static const struct {
        const char *body;
        enum check check;
        int line;
        const char *words;
    } cases[] = {
        {BEGIN INIT
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], "
         "[f], 24, [a];\n" END,
         CHECK_ALIGNMENT, 1, "24 bytes: a bulk copy moves multiples of 16"},
        {BEGIN INIT
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b+8], "
         "[f], 16, [a];\n" END,
         CHECK_ALIGNMENT, 1, "the destination at shared offset 0x808"},
        {BEGIN INIT
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], "
         "[f+8], 16, [a];\n" END,
         CHECK_ALIGNMENT, 1, "is not aligned to 16 bytes"},
        {BEGIN INIT
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], "
         "[f+4080], 32, [a];\n" END,
         CHECK_OUT_OF_BOUNDS, 1, "bulk copy"},
        {BEGIN INIT
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], "
         "[f], 16, [a+8];\n" END,
         CHECK_BAD_BARRIER, 1, ""},
        {BEGIN "cp.async.bulk.global.shared::cta.bulk_group [g+4080], [b], 32;\n" END,
         CHECK_OUT_OF_BOUNDS, 0, "bulk store"},
        {BEGIN "cp.async.bulk.global.shared::cta.bulk_group [g], [b+7168], 32;\n" END,
         CHECK_OUT_OF_BOUNDS, 0, ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t from, to;
        struct emu_run r = {.checks = UNWRITTEN};
        prepare(&r, cases[i].body, &from, &to);
        EMU_EXPECT(&r, cases[i].check, FIRST_LINE + cases[i].line, cases[i].words);
        emu_done(&r);
    }
}

TEST(exit_while_a_copy_is_pending)
{
    static const char body[] =
        BEGIN INIT "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 16;\n"
                   "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], "
                   "[f], 16, [a];\n" END;
    uint64_t from, to;
    struct emu_run r = {.lazy = true};
    prepare(&r, body, &from, &to);
    EMU_EXPECT(&r, CHECK_CTA_EXIT, 0, "exits while a copy into its shared memory");
    emu_done(&r);
}

TEST(refused_forms)
{
    static const char *const cases[][2] = {
        {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::"
         "bytes [b], [f, {t, t, t}], [a], {i};\n",
         "of the modes only .tile"},
        {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::"
         "complete_tx::bytes [b], [f, {t, t, t, t, t}], [a];\n",
         "of the modes only .tile"},
        {"cp.async.bulk.global.shared::cta.bulk_group.cp_mask [g], [b], 16, h;\n",
         ".cp_mask"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [g], [b], 16;\n",
         "no such reduction"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[1024];
        snprintf(body, sizeof body, ".reg .b16 h;\n%s%s%s", BEGIN, cases[i][0], END);
        uint64_t from, to;
        struct emu_run r = {0};
        prepare(&r, body, &from, &to);
        if (emu_launch(&r))
            test_fail(__FILE__, __LINE__, "accepted: %s", cases[i][0]);
        if (!strstr(emu_refusal(&r), cases[i][1]))
            test_fail(__FILE__, __LINE__, "expected \"%s\", got %s", cases[i][1],
                      emu_refusal(&r));
        emu_done(&r);
    }
}

/* ---- clusters */

/* Four CTAs.  Each waits for its own barrier and dumps the 128 bytes at b.  Rank r
 * issues what stands in `issue` when its predicate `leader` (rank 0) holds. */
#define CLUSTER_PARAMS                                                                 \
    ".param .align 64 .b8 map[128], .param .u64 from, .param .u64 to, "                \
    ".param .u32 expect0, .param .u32 expect1, .param .u32 expect2, .param .u32 "      \
    "expect3"
#define CLUSTER_BEGIN                                                                  \
    ".reg .pred p, leader; .reg .b32 t, a, b, v, i, rank, e, peer, zero;\n"            \
    ".reg .b16 mask; .reg .b64 f, g, x, m;\n"                                          \
    "mov.u32 t, %tid.x; mov.u32 a, sm; add.u32 b, a, 1024; mov.u32 zero, 0;\n"         \
    "mov.u32 rank, %cluster_ctarank; mov.b64 m, map; cvta.param.u64 m, m;\n"           \
    "ld.param.u64 f, [from]; ld.param.u64 g, [to];\n"                                  \
    "ld.param.u32 e, [expect0];\n"                                                     \
    "setp.eq.u32 p, rank, 1; @p ld.param.u32 e, [expect1];\n"                          \
    "setp.eq.u32 p, rank, 2; @p ld.param.u32 e, [expect2];\n"                          \
    "setp.eq.u32 p, rank, 3; @p ld.param.u32 e, [expect3];\n"                          \
    "setp.ne.u32 p, t, 0;\n"                                                           \
    "@p bra READY;\n"                                                                  \
    "mbarrier.init.shared::cta.b64 [a], 1;\n"                                          \
    "fence.mbarrier_init.release.cluster;\n"                                           \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], e;\n"                           \
    "READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"           \
    "setp.eq.u32 leader, rank, 0;\n"                                                   \
    "setp.ne.u32 p, t, 0;\n"                                                           \
    "@p bra POLL;\n"
#define CLUSTER_END                                                                    \
    "POLL: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"                      \
    "@!p bra POLL;\n"                                                                  \
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"                  \
    "shl.b32 i, t, 2; add.u32 v, b, i; ld.shared.b32 v, [v];\n"                        \
    "shl.b32 rank, rank, 7; add.u32 i, i, rank; cvt.u64.u32 x, i; add.u64 x, x, g;\n"  \
    "st.global.b32 [x], v;\n"                                                          \
    "ret;\n"

static char why[256];

/* One row of 128 bytes a box; the tensor is `from`, 32 rows. */
static void prepare_cluster(struct emu_run *r, const char *body,
                            const uint32_t expect[4], uint64_t *from, uint64_t *to)
{
    static _Alignas(64) uint8_t map[128];
    r->body = body;
    r->params = CLUSTER_PARAMS;
    r->threads = 32;
    r->smem_bytes = 2048;
    r->grid[0] = r->cluster[0] = 4;
    *from = emu_alloc(r, 4096);
    *to = emu_alloc(r, 4096);
    for (uint32_t i = 0; i < 1024; i++)
        emu_u32(*from)[i] = 1000 + i;
    CHECK(tmap_encode(map, 0, 2, *from, (uint64_t[]){128, 32}, (uint64_t[]){128},
                      (uint32_t[]){128, 1}, (uint32_t[]){1, 1}, 0, 0, 0, 0, why,
                      sizeof why));
    emu_param(r, map, 128);
    emu_param(r, from, 8);
    emu_param(r, to, 8);
    for (int i = 0; i < 4; i++)
        emu_param(r, &expect[i], 4);
}

static void run_cluster(const char *body, const uint32_t expect[4],
                        const uint32_t want_first[4])
{
    for (int lazy = 0; lazy < 2; lazy++) {
        uint64_t from, to;
        struct emu_run r = {.lazy = lazy, .checks = UNWRITTEN};
        prepare_cluster(&r, body, expect, &from, &to);
        EMU_FINE(&r);
        for (int rank = 0; rank < 4; rank++)
            CHECK_EQ(emu_u32(to)[rank * 32], want_first[rank]);
        emu_done(&r);
    }
}

TEST(multicast_reaches_each_of_the_mask)
{
    static const char body[] = CLUSTER_BEGIN
        "mov.b16 mask, 11;\n" /* ranks 0, 1, 3 */
        "mov.u32 i, 5;\n"
        "@leader "
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx"
        "::bytes.multicast::cluster [b], [m, {zero, i}], [a], mask;\n" CLUSTER_END;
    run_cluster(body, (uint32_t[]){128, 128, 0, 128},
                (uint32_t[]){1160, 1160, 0x7f7f7f7f, 1160});
    static const char plain[] = CLUSTER_BEGIN
        "mov.b16 mask, 12;\n" /* ranks 2, 3; the issuer is not among them */
        "@leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
        "multicast::cluster [b], [f], 128, [a], mask;\n" CLUSTER_END;
    run_cluster(plain, (uint32_t[]){0, 0, 128, 128},
                (uint32_t[]){0x7f7f7f7f, 0x7f7f7f7f, 1000, 1000});
}

/* With .cta_group::2 the parity of the barrier's rank picks the CTA of each pair. */
TEST(pairs_signal_the_leaders_barrier)
{
    static const char each[] = CLUSTER_BEGIN
        "and.b32 peer, a, 0xfeffffff;\n" /* the even CTA of the pair */
        "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::"
        "complete_tx::bytes [b], [m, {zero, rank}], [peer];\n" CLUSTER_END;
    run_cluster(each, (uint32_t[]){256, 0, 256, 0},
                (uint32_t[]){1000, 1032, 1064, 1096});
    static const char multicast[] = CLUSTER_BEGIN
        "mov.b16 mask, 15;\n"
        "mapa.shared::cluster.u32 peer, a, 1;\n"
        "@leader cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile."
        "mbarrier::complete_tx::bytes.multicast::cluster [b], [m, {zero, zero}], "
        "[peer], "
        "mask;\n" CLUSTER_END;
    run_cluster(multicast, (uint32_t[]){0, 256, 0, 256},
                (uint32_t[]){1000, 1000, 1000, 1000});
}

TEST(from_cta_to_cta)
{
    /* Rank 0 fills its own b from global memory, then sends it to rank 2. */
    static const char body[] =
        CLUSTER_BEGIN "@!leader bra POLL;\n"
                      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
                      "[b], [f], 128, [a];\n"
                      "FIRST: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"
                      "@!p bra FIRST;\n"
                      "mapa.shared::cluster.u32 v, b, 2;\n"
                      "mapa.shared::cluster.u32 peer, a, 2;\n"
                      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx:"
                      ":bytes [v], [b], "
                      "128, [peer];\n" CLUSTER_END;
    run_cluster(body, (uint32_t[]){128, 0, 128, 0},
                (uint32_t[]){1000, 0x7f7f7f7f, 1000, 0x7f7f7f7f});
}

TEST(bad_clusters)
{
    static const struct {
        const char *body;
        enum check check;
        const char *words;
    } cases[] = {
        {CLUSTER_BEGIN
         "mov.b16 mask, 16;\n"
         "@leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
         "::bytes.multicast::cluster [b], [f], 128, [a], mask;\n" CLUSTER_END,
         CHECK_OPERAND, "multicast mask 0x10: the cluster has CTAs 0 to 3"},
        {CLUSTER_BEGIN
         "mapa.shared::cluster.u32 peer, a, 1;\n"
         "@leader cp.async.bulk.tensor.2d.shared::cluster.global.tile."
         "mbarrier::complete_tx::bytes [b], [m, {zero, zero}], [peer];\n" CLUSTER_END,
         CHECK_OPERAND,
         "the barrier is in CTA 1 of the cluster, the destination in CTA 0"},
        {CLUSTER_BEGIN
         "mapa.shared::cluster.u32 peer, a, 2;\n"
         "@leader cp.async.bulk.tensor.2d.cta_group::2.shared::cluster."
         "global.tile.mbarrier::complete_tx::bytes [b], [m, {zero, zero}], "
         "[peer];\n" CLUSTER_END,
         CHECK_OPERAND, "with .cta_group::2 it must be in the same pair"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t from, to;
        struct emu_run r = {0};
        prepare_cluster(&r, cases[i].body, (uint32_t[]){0, 0, 0, 0}, &from, &to);
        EMU_EXPECT(&r, cases[i].check, 0, cases[i].words);
        emu_done(&r);
    }
}

/* ---- who filled what */

static void add_fill(struct fills *f, uint32_t from, uint32_t to, uint32_t pc)
{
    struct fill x = {.from = from, .to = to, .pc = pc};
    fills_add(f, &x);
}

/* Against a table with one entry a byte. */
TEST(fills_remember_the_last_copy_of_each_byte)
{
    static uint32_t last[4096];
    struct fills f = {0};
    uint64_t state = 1;
    for (uint32_t pc = 1; pc <= 2000; pc++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t from = (uint32_t)(state >> 33) % 4000,
                 bytes = (uint32_t)(state >> 50) % 96;
        if (bytes == 0)
            continue;
        add_fill(&f, from, from + bytes, pc);
        for (uint32_t i = from; i < from + bytes; i++)
            last[i] = pc;
        for (int i = 1; i < f.count; i++)
            CHECK(f.at[i - 1].from < f.at[i - 1].to && f.at[i - 1].to <= f.at[i].from);
        for (uint32_t i = 0; i < 4096; i += pc % 37 + 1) {
            const struct fill *at = fills_find(&f, i);
            CHECK_EQ(at ? at->pc : 0, last[i]);
        }
    }
    free(f.at);
}
