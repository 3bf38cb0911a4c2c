/* t_tcmma.c - tcgen05.mma on the machine: where operands, scales and results lie, one
 * CTA and a pair, and check 29 on what is wrong with it.  The arithmetic itself is
 * t_mma.c's affair and taken from there. */
#include "emu/mma_fp4.h"
#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* ---- the kernel: shared memory is filled from a ready-made image, then `steps` MMAs
 *
 * $G is the CTA group, $K kind and block, $M the mask of the commit.  Both CTAs of a
 * pair fill their own memory; the leader issues.  Tensor memory: D at 0, scales of A at
 * 256, of B at 272.
 */
#define PARAMS                                                                         \
    ".param .align 64 .b8 map[128], .param .u64 image, .param .u64 out, "              \
    ".param .u64 a_desc, .param .u64 b_desc, .param .u32 idesc, .param .u32 n_steps, " \
    ".param .u32 a_step, .param .u32 b_step, .param .u32 sf_step, .param .u32 b_at, "  \
    ".param .u32 sfa_at, .param .u32 sfb_at, .param .u32 bytes, .param .u32 n_cols, "  \
    ".param .u32 mode, .param .u64 sf_desc, .param .u32 map_bytes"
enum { ACCUMULATE = 1, A_BY_MAP = 2, NO_WAIT = 4, STORE_SCALES = 8 };

static const char kernel[] =
    ".reg .pred p, acc, q; .reg .b16 mask;\n"
    ".reg .b32 t, a, b, c, d, v, w, i, j, k, id, n, steps, rank, sa, sb, md, as, bs;\n"
    ".reg .b32 r<8>; .reg .b64 m, g, x, ad, bd, sd, s, im;\n"
    "mov.u32 t, %tid.x; mov.u32 a, sm; add.u32 b, a, 1024; shr.u32 w, t, 5;\n"
    "mov.u32 rank, %cluster_ctarank; ld.param.u32 md, [mode];\n"
    "mov.b64 m, map; cvta.param.u64 m, m;\n"
    "ld.param.u64 im, [image]; ld.param.u64 g, [out]; ld.param.u32 v, [bytes];\n"
    "mul.wide.u32 x, rank, v; add.u64 im, im, x;\n"
    "mul.wide.u32 x, rank, 131072; add.u64 g, g, x;\n"
    "ld.param.u32 n, [n_cols]; ld.param.u32 steps, [n_steps]; ld.param.u32 id, "
    "[idesc];\n"
    "setp.ne.u32 p, t, 0;\n"
    "@p bra INIT;\n"
    "mbarrier.init.shared::cta.b64 [a+8], 1; mbarrier.init.shared::cta.b64 [a+16], 1;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "and.b32 i, md, 2; setp.ne.u32 p, i, 0; mov.u32 j, 0; ld.param.u32 k, "
    "[map_bytes];\n"
    "@p sub.u32 v, v, 16384;\n"
    "selp.b32 k, k, 0, p; add.u32 k, k, v;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a+8], k;\n"
    "@!p bra PLAIN;\n"
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [b], "
    "[m, {j, j}], [a+8];\n"
    "add.u64 im, im, 16384; add.u32 b, b, 16384;\n"
    "PLAIN: cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [b], [im], "
    "v, "
    "[a+8];\n"
    "INIT: bar.warp.sync 0xffffffff;\n"
    "add.u32 b, a, 1024;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra READY;\n"
    "tcgen05.alloc.cta_group::$G.sync.aligned.shared::cta.b32 [a], 512;\n"
    "READY: bar.sync 0;\n"
    "FULL: mbarrier.try_wait.parity.shared::cta.b64 p, [a+8], 0;\n"
    "@!p bra FULL;\n"
    "ld.shared.b32 c, [a];\n"
    "shl.b32 d, w, 21; add.u32 d, d, c;\n"
    /* Accumulation needs something to add to. */
    "and.b32 i, md, 1; setp.ne.u32 acc, i, 0; mov.u32 i, 0; add.u32 j, d, 0;\n"
    "@!acc bra CLEARED;\n"
    "mov.b32 r0, 0f41200000;\n"
    "CLEAR: tcgen05.st.sync.aligned.32x32b.x1.b32 [j], {r0};\n"
    "add.u32 i, i, 1; add.u32 j, j, 1; setp.lt.u32 p, i, n;\n"
    "@p bra CLEAR;\n"
    "tcgen05.wait::st.sync.aligned;\n"
    "CLEARED: tcgen05.fence::before_thread_sync;\n"
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "or.b32 i, rank, t; setp.ne.u32 p, i, 0;\n"
    "@p bra ISSUED;\n"
    "shr.u32 v, b, 4; cvt.u64.u32 x, v;\n"
    "ld.param.u64 ad, [a_desc]; add.u64 ad, ad, x;\n"
    "ld.param.u64 bd, [b_desc]; add.u64 bd, bd, x;\n"
    "ld.param.u32 v, [b_at]; shr.u32 v, v, 4; cvt.u64.u32 s, v; add.u64 bd, bd, s;\n"
    "ld.param.u64 sd, [sf_desc]; add.u64 sd, sd, x;\n"
    "ld.param.u32 v, [sfa_at]; shr.u32 v, v, 4; cvt.u64.u32 s, v; add.u64 s, s, sd;\n"
    "ld.param.u32 k, [sf_step]; shr.u32 k, k, 2;\n" /* 512-byte blocks of B a step */
    "add.u32 sa, c, 256; mov.u32 i, 0;\n"
    "CP_A: tcgen05.cp.cta_group::$G.32x128b.warpx4 [sa], s;\n" /* line CP_LINE */
    "add.u64 s, s, 32; add.u32 sa, sa, 4; add.u32 i, i, 1; setp.lt.u32 p, i, steps;\n"
    "@p bra CP_A;\n"
    "ld.param.u32 v, [sfb_at]; shr.u32 v, v, 4; cvt.u64.u32 s, v; add.u64 s, s, sd;\n"
    "add.u32 sb, c, 272; mov.u32 i, 0; mul.lo.u32 j, k, steps;\n"
    "CP_B: tcgen05.cp.cta_group::$G.32x128b.warpx4 [sb], s;\n"
    "add.u64 s, s, 32; add.u32 sb, sb, 4; add.u32 i, i, 1; setp.lt.u32 p, i, j;\n"
    "@p bra CP_B;\n"
    "add.u32 sa, c, 256; add.u32 sb, c, 272; ld.param.u32 v, [sf_step]; mov.u32 i, 0;\n"
    "ld.param.u32 as, [a_step]; ld.param.u32 bs, [b_step];\n"
    "STEP: tcgen05.mma.cta_group::$G.kind::$K [c], ad, bd, id, [sa], [sb], acc;\n"
    "setp.eq.u32 acc, 0, 0; add.u32 i, i, 1; setp.lt.u32 p, i, steps;\n"
    "cvt.u64.u32 x, as; add.u64 ad, ad, x; cvt.u64.u32 x, bs; add.u64 bd, bd, x;\n"
    "add.u32 sa, sa, 4; add.u32 sb, sb, v;\n"
    "@p bra STEP;\n"
    "mov.b16 mask, $M;\n"
    "tcgen05.commit.cta_group::$G.mbarrier::arrive::one.shared::cluster.multicast::"
    "cluster.b64 [a+16], mask;\n"
    "ISSUED: and.b32 i, md, 4; setp.ne.u32 p, i, 0;\n"
    "@p bra DONE;\n"
    "POLL: mbarrier.try_wait.parity.shared::cta.b64 p, [a+16], 0;\n"
    "@!p bra POLL;\n"
    "DONE: bar.sync 0; tcgen05.fence::after_thread_sync;\n"
    "mul.wide.u32 x, t, 1024; add.u64 g, g, x; mov.u32 i, 0;\n"
    "DUMP: tcgen05.ld.sync.aligned.32x32b.x8.b32 {r0,r1,r2,r3,r4,r5,r6,r7}, [d];\n"
    "tcgen05.wait::ld.sync.aligned;\n"
    "st.global.v4.b32 [g], {r0,r1,r2,r3}; st.global.v4.b32 [g+16], {r4,r5,r6,r7};\n"
    "add.u64 g, g, 32; add.u32 d, d, 8; add.u32 i, i, 8; setp.lt.u32 p, i, n;\n"
    "@p bra DUMP;\n"
    "tcgen05.fence::before_thread_sync;\n"
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    "setp.ne.u32 p, w, 0;\n"
    "@p bra END;\n"
    "tcgen05.dealloc.cta_group::$G.sync.aligned.b32 c, 512;\n"
    "END: ret;\n";

/* Line of the module in which `words` stand. */
static int line_of(const char *words)
{
    const char *at = strstr(kernel, words);
    int line = 2;
    for (const char *p = kernel; p < at; p++)
        line += *p == '\n';
    return line;
}

/* ---- operands */

enum { MAX_STEPS = 4 };

struct problem {
    int group;        /* 1 or 2 */
    const char *kind; /* "mxf4nvf4.block_scale.block16" */
    int block;        /* 16 or 32 */
    uint32_t n, steps;
    int swizzle; /* code of the descriptor: 0, 2, 4, 6 (and 1) */
    bool ue8m0, negate_a, negate_b;
    uint32_t mode;
    /* logical operands: rows of steps * 32 bytes, scale bytes one per block */
    uint8_t a[256][MAX_STEPS * 32], b[256][MAX_STEPS * 32];
    uint8_t sfa[256][MAX_STEPS * 4], sfb[256][MAX_STEPS * 4];
};

static struct problem problem(void)
{
    struct problem p = {
        .group = 1,
        .kind = "mxf4nvf4.block_scale.block16",
        .block = 16,
        .n = 128,
        .steps = 4,
        .swizzle = 2,
    };
    return p;
}

static void fill(struct problem *p)
{
    for (int row = 0; row < 256; row++) {
        for (int i = 0; i < MAX_STEPS * 32; i++) {
            p->a[row][i] = (uint8_t)random_bits();
            p->b[row][i] = (uint8_t)random_bits();
        }
        for (int i = 0; i < MAX_STEPS * 4; i++) {
            p->sfa[row][i] =
                (uint8_t)(p->ue8m0 ? 120 + random_bits() % 16 : random_bits() % 127);
            p->sfb[row][i] =
                (uint8_t)(p->ue8m0 ? 120 + random_bits() % 16 : random_bits() % 127);
        }
    }
}

/* What shared memory of CTA `rank` must hold, from sm + 1024 on, and how to say so. */
struct image {
    uint8_t bytes[81920];
    uint32_t b_at, sfa_at, sfb_at, end;
    uint64_t a_desc, b_desc;
    uint32_t a_step, b_step, sf_step;
};

static uint32_t pitch_of(int swizzle)
{
    return swizzle == 0 ? 16 : swizzle == 6 ? 32 : swizzle == 4 ? 64 : 128;
}

/* Shared offset of 16 bytes of a row; sm + 1024 is a multiple of 1024. */
static uint32_t chunk_at(int swizzle, uint32_t rows, uint32_t row, uint32_t chunk)
{
    if (swizzle == 0) /* 8 x 16-byte core matrices: down the rows, then along K */
        return chunk * rows * 16 + row * 16;
    uint32_t at = row * pitch_of(swizzle) + chunk * 16;
    uint32_t bits = swizzle == 2   ? (at >> 7 & 7) << 4
                    : swizzle == 4 ? (at >> 7 & 3) << 4
                    : swizzle == 6 ? (at >> 7 & 1) << 4
                                   : (at >> 7 & 3) << 5;
    return at ^ bits;
}

static uint64_t descriptor(int swizzle, uint32_t rows)
{
    uint64_t sbo = swizzle == 0 ? 128 : 8 * pitch_of(swizzle);
    uint64_t lbo = swizzle == 0 ? rows * 16 : 16;
    return (uint64_t)swizzle << 61 | (uint64_t)1 << 46 | sbo / 16 << 32 |
           lbo / 16 << 16;
}

static void put_operand(const struct problem *p, struct image *m, uint32_t at,
                        const uint8_t (*rows)[MAX_STEPS * 32], uint32_t count)
{
    for (uint32_t row = 0; row < count; row++)
        for (uint32_t chunk = 0; chunk < p->steps * 2; chunk++)
            memcpy(m->bytes + at + chunk_at(p->swizzle, count, row, chunk),
                   rows[row] + chunk * 16, 16);
}

/* Blocks of 128 rows x 4 bytes.  A step of block32 uses two bytes of a row; two steps
 * share a block when `p` has blocks of 32, which is tested apart. */
static void put_scales(struct image *m, uint32_t at,
                       const uint8_t (*rows)[MAX_STEPS * 4], uint32_t first,
                       uint32_t blocks, uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++)
        for (uint32_t block = 0; block < blocks; block++)
            for (uint32_t row = 0; row < 128; row++)
                memcpy(m->bytes + at + (step * blocks + block) * 512 + row % 32 * 16 +
                           row / 32 * 4,
                       rows[(first + block * 128 + row) % 256] + step * 4, 4);
}

static void make_image(const struct problem *p, uint32_t rank, struct image *m)
{
    uint32_t b_rows = p->n / (uint32_t)p->group, blocks = (p->n + 127) / 128;
    uint32_t row_bytes = p->swizzle == 0 ? p->steps * 32 : pitch_of(p->swizzle);
    memset(m->bytes, 0x5a, sizeof m->bytes);
    m->b_at = 128 * row_bytes;
    m->sfa_at = m->b_at + align_up(b_rows * row_bytes, 1024);
    m->sfb_at = m->sfa_at + p->steps * 512;
    m->end = m->sfb_at + p->steps * blocks * 512;
    m->a_desc = descriptor(p->swizzle, 128);
    m->b_desc = descriptor(p->swizzle, b_rows);
    m->a_step = p->swizzle == 0 ? 2 * 128 : 2;
    m->b_step = p->swizzle == 0 ? 2 * b_rows : 2;
    m->sf_step = 4 * blocks;
    put_operand(p, m, 0, p->a + rank * 128, 128);
    put_operand(p, m, m->b_at, p->b + rank * b_rows, b_rows);
    put_scales(m, m->sfa_at, p->sfa, rank * 128, 1, p->steps);
    put_scales(m, m->sfb_at, p->sfb, 0, blocks, p->steps);
}

static uint32_t idesc_of(const struct problem *p)
{
    return 0x480 | (p->n / 8) << 17 | (uint32_t)p->ue8m0 << 23 |
           (uint32_t)p->group << 27 | (uint32_t)p->negate_a << 13 |
           (uint32_t)p->negate_b << 14;
}

/* The kernel for this problem. */
static const char *text_of(const struct problem *p)
{
    static char text[16384];
    const char *group = p->group == 2 ? "2" : "1", *mask = p->group == 2 ? "3" : "1";
    size_t n = 0;
    for (const char *k = kernel; *k; k++) {
        if (*k != '$') {
            text[n++] = *k;
            continue;
        }
        k++;
        const char *value = *k == 'G' ? group : *k == 'K' ? p->kind : mask;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", value);
    }
    text[n] = 0;
    return text;
}

/* Parameters that a test may spoil after prepare() has set them. */
struct call {
    _Alignas(64) uint8_t map[128];
    uint64_t image, out, a_desc, b_desc;
    uint32_t idesc, steps, a_step, b_step, sf_step, b_at, sfa_at, sfb_at, bytes, n,
        mode;
    uint64_t sf_desc;
    uint32_t map_bytes; /* of the box, with A_BY_MAP */
};

static struct image images[2];

static void prepare(struct emu_run *r, const struct problem *p, struct call *c)
{
    *c = (struct call){0};
    for (uint32_t rank = 0; rank < (uint32_t)p->group; rank++)
        make_image(p, rank, &images[rank]);
    const struct image *m = &images[0];
    c->image = emu_alloc(r, 2 * (size_t)m->end);
    c->out = emu_alloc(r, 2 * 131072);
    for (uint32_t rank = 0; rank < (uint32_t)p->group; rank++)
        memcpy(emu_bytes(c->image) + rank * m->end, images[rank].bytes, m->end);
    c->a_desc = m->a_desc;
    c->b_desc = m->b_desc;
    c->idesc = idesc_of(p);
    c->steps = p->steps;
    c->a_step = m->a_step;
    c->b_step = m->b_step;
    c->sf_step = m->sf_step;
    c->b_at = m->b_at;
    c->sfa_at = m->sfa_at;
    c->sfb_at = m->sfb_at;
    c->bytes = m->end;
    c->n = p->n;
    c->mode = p->mode;
    c->sf_desc = (uint64_t)1 << 46 | (uint64_t)8 << 32 | (uint64_t)1 << 16;
}

static void finish(struct emu_run *r, const struct problem *p, const struct call *c)
{
    r->body = text_of(p);
    r->params = PARAMS;
    r->threads = 128;
    r->smem_bytes = 1024 + images[0].end;
    r->grid[0] = r->cluster[0] = (uint32_t)p->group;
    emu_param(r, c->map, 128);
    emu_param(r, &c->image, 8);
    emu_param(r, &c->out, 8);
    emu_param(r, &c->a_desc, 8);
    emu_param(r, &c->b_desc, 8);
    const uint32_t words[] = {c->idesc,   c->steps, c->a_step, c->b_step,
                              c->sf_step, c->b_at,  c->sfa_at, c->sfb_at,
                              c->bytes,   c->n,     c->mode};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        emu_param(r, &words[i], 4);
    emu_param(r, &c->sf_desc, 8);
    emu_param(r, &c->map_bytes, 4);
}

/* D of the CTA with this rank, step by step. */
static void expected(const struct problem *p, uint32_t rank, uint32_t *d)
{
    static uint8_t a[128 * 32], b[256 * 32], sfa[512], sfb[1024];
    const float ten = 10;
    for (size_t i = 0; i < 256 * 128; i++)
        memcpy(&d[i], &ten, 4);
    for (uint32_t step = 0; step < p->steps; step++) {
        for (uint32_t row = 0; row < 256; row++) {
            if (row < 128) {
                memcpy(a + row * 32, p->a[rank * 128 + row] + step * 32, 32);
                memcpy(sfa + row * 4, p->sfa[rank * 128 + row] + step * 4, 4);
            }
            memcpy(b + row * 32, p->b[row] + step * 32, 32);
            memcpy(sfb + row * 4, p->sfb[row] + step * 4, 4);
        }
        if (p->block == 32) /* bytes 0 and 1 of each word, twice */
            for (int i = 0; i < 256; i++) {
                if (i < 128)
                    memcpy(sfa + i * 4,
                           (uint8_t[]){sfa[i * 4], sfa[i * 4], sfa[i * 4 + 1],
                                       sfa[i * 4 + 1]},
                           4);
                memcpy(
                    sfb + i * 4,
                    (uint8_t[]){sfb[i * 4], sfb[i * 4], sfb[i * 4 + 1], sfb[i * 4 + 1]},
                    4);
            }
        struct mma_fp4 m = {.a = a,
                            .b = b,
                            .sfa = sfa,
                            .sfb = sfb,
                            .d = d,
                            .n = (int)p->n,
                            .ue8m0 = p->ue8m0,
                            .negate = p->negate_a != p->negate_b,
                            .accumulate = step > 0 || (p->mode & ACCUMULATE)};
        mma_fp4(MMA_SCALAR, &m);
    }
}

static void check(struct problem *p)
{
    static uint32_t want[256 * 128];
    fill(p);
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        struct call c;
        prepare(&r, p, &c);
        finish(&r, p, &c);
        EMU_FINE(&r);
        for (uint32_t rank = 0; rank < (uint32_t)p->group; rank++) {
            expected(p, rank, want);
            for (uint32_t row = 0; row < 128; row++)
                for (uint32_t col = 0; col < p->n; col++) {
                    uint32_t got = emu_u32(c.out)[rank * 32768 + row * 256 + col];
                    if (got != want[col * 128 + row])
                        test_fail(__FILE__, __LINE__,
                                  "CTA %u row %u column %u: %08x, expected %08x", rank,
                                  row, col, got, want[col * 128 + row]);
                }
        }
        emu_done(&r);
    }
}

TEST(tiles_of_each_width)
{
    static const uint32_t widths[] = {8, 16, 64, 72, 128, 136, 192, 256};
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        struct problem p = problem();
        p.n = widths[i];
        check(&p);
    }
}

TEST(operands_of_each_swizzle)
{
    static const int modes[][2] = {{2, 4}, {4, 2}, {6, 1}, {0, 4}, {1, 4}};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct problem p = problem();
        p.swizzle = modes[i][0];
        p.steps = (uint32_t)modes[i][1];
        check(&p);
    }
}

TEST(accumulation_and_signs)
{
    for (int i = 0; i < 8; i++) {
        struct problem p = problem();
        p.n = 32;
        p.mode = i & 1 ? ACCUMULATE : 0;
        p.negate_a = i & 2;
        p.negate_b = i & 4;
        check(&p);
    }
}

TEST(other_scales)
{
    struct problem p = problem();
    p.ue8m0 = true;
    check(&p);
    p.kind = "mxf4nvf4.block_scale.scale_vec::4X";
    check(&p);
    p.block = 32;
    p.kind = "mxf4nvf4.block_scale.block32";
    check(&p);
    p.kind = "mxf4.block_scale.block32";
    check(&p);
    p.kind = "mxf4.block_scale";
    check(&p);
}

TEST(second_half_of_a_scale_word)
{
    struct problem p = problem();
    static uint32_t want[256 * 128];
    p.ue8m0 = true;
    p.block = 32;
    p.steps = 1;
    p.kind = "mxf4.block_scale.scale_vec::2X";
    fill(&p);
    struct emu_run r = {0};
    struct call c;
    prepare(&r, &p, &c);
    c.idesc |= 2u << 4 | 2u << 29;
    finish(&r, &p, &c);
    EMU_FINE(&r);
    for (int row = 0; row < 256;
         row++) { /* what the ids select, where `expected` looks */
        memcpy(p.sfa[row], p.sfa[row] + 2, 2);
        memcpy(p.sfb[row], p.sfb[row] + 2, 2);
    }
    expected(&p, 0, want);
    for (uint32_t row = 0; row < 128; row++)
        for (uint32_t col = 0; col < 128; col++)
            CHECK_EQ(emu_u32(c.out)[row * 256 + col], want[col * 128 + row]);
    emu_done(&r);
}

TEST(pairs)
{
    static const uint32_t widths[] = {32, 128, 256};
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        struct problem p = problem();
        p.group = 2;
        p.n = widths[i];
        check(&p);
        p.mode = ACCUMULATE;
        check(&p);
    }
}

/* ---- what is wrong must be found, at its line */

typedef void spoil_fn(struct call *c);

static void check_bad(struct problem *p, spoil_fn *spoil, enum check check, int line,
                      const char *words)
{
    fill(p);
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        struct call c;
        prepare(&r, p, &c);
        spoil(&c);
        finish(&r, p, &c);
        EMU_EXPECT(&r, check, line, words);
        emu_done(&r);
    }
}

#define SPOIL(name, statement)                                                         \
    static void name(struct call *c)                                                   \
    {                                                                                  \
        statement;                                                                     \
    }
SPOIL(sparse, c->idesc |= 4)
SPOIL(reserved, c->idesc |= 8)
SPOIL(type_a, c->idesc = (c->idesc & ~0x380u) | 5 << 7)
SPOIL(type_b, c->idesc ^= 0x400)
SPOIL(transposed, c->idesc |= 1 << 16)
SPOIL(n_zero, c->idesc &= ~0x7e0000u)
SPOIL(n_large, c->idesc |= 0x7e0000)
SPOIL(m_256, c->idesc ^= 3u << 27)
SPOIL(m_64, c->idesc = (c->idesc & ~(31u << 24)) | 4u << 24)
SPOIL(scale_id, c->idesc |= 2u << 29)
SPOIL(k_96, c->idesc |= 1u << 31)
SPOIL(no_version, c->a_desc &= ~((uint64_t)7 << 46))
SPOIL(base_offset, c->b_desc |= (uint64_t)3 << 49)
SPOIL(past_the_row, c->a_desc += 7)
SPOIL(off_the_pattern, c->a_desc += 8)
SPOIL(second_row, c->b_desc += 4)
SPOIL(outside, c->b_desc |= (uint64_t)0x3fff << 32)
SPOIL(overlapping, c->idesc = (c->idesc & ~0x7e0000u) | 32u << 17)
SPOIL(nothing, (void)c)

TEST(bad_instruction_descriptors)
{
    static const struct {
        spoil_fn *spoil;
        const char *words;
    } cases[] = {
        {sparse, "bit 2 says sparse"},
        {reserved, "reserved bits 0x8"},
        {type_a, "type 5 of A"},
        {type_b, "type 0 of B"},
        {transposed, "transpose bits 15-16 are 2"},
        {n_zero, "N is 0; a multiple of 8"},
        {n_large, "N is 504; a multiple of 8 from 8 to 256"},
        {m_256, "M is 256; with .cta_group::1 it is 128"},
        {m_64, "M is 64; with .cta_group::1 it is 128"},
        {scale_id, "scale ids must be 0 with block16, not 2"},
        {k_96, "K = 96"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct problem p = problem();
        check_bad(&p, cases[i].spoil, CHECK_DESCRIPTOR, line_of("tcgen05.mma"),
                  cases[i].words);
    }
    struct problem p = problem();
    p.kind = "mxf4.block_scale.block32";
    check_bad(&p, nothing, CHECK_DESCRIPTOR, line_of("tcgen05.mma"),
              "bit 23 says UE4M3 scales");
    p = problem();
    p.group = 2;
    p.n = 64;
    check_bad(&p, m_256, CHECK_DESCRIPTOR, line_of("tcgen05.mma"),
              "M is 128 with .cta_group::2");
}

TEST(bad_matrix_descriptors)
{
    static const struct {
        spoil_fn *spoil;
        const char *words;
    } cases[] = {
        {no_version, "descriptor of A: bits 46-48 are 0"},
        {base_offset, "descriptor of B: base offset 3"},
        {past_the_row, "it starts 112 bytes into a row of 128 bytes"},
        {off_the_pattern,
         "base offset 0, but the swizzle pattern of 1024 bytes begins 128"},
        {outside, "descriptor of B: its 128 rows lie at"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct problem p = problem();
        check_bad(&p, cases[i].spoil, CHECK_DESCRIPTOR, line_of("tcgen05.mma"),
                  cases[i].words);
    }
    struct problem p = problem();
    p.swizzle = 4;
    p.steps = 2;
    check_bad(
        &p, second_row, CHECK_DESCRIPTOR, line_of("tcgen05.mma"),
        "descriptor of B: base offset 0, but the swizzle pattern of 512 bytes begins "
        "64 bytes before");
}

TEST(accumulator_over_scales)
{
    /* D at 0 reaches column 255: let A's scales be copied to 256 and D start there. */
    struct problem p = problem();
    p.n = 256;
    check(&p);
    static char body[16384];
    fill(&p);
    struct emu_run r = {0};
    struct call c;
    prepare(&r, &p, &c);
    finish(&r, &p, &c);
    snprintf(body, sizeof body, "%s", text_of(&p));
    char *at = strstr(body, "block16 [c]");
    CHECK(at != NULL);
    memcpy(at, "block16 [v]", 11); /* v is the step of scale columns: 8 */
    r.body = body;
    EMU_EXPECT(&r, CHECK_SCALE_OVERLAP, line_of("tcgen05.mma"),
               "the accumulator in columns 8 to 263 overlaps the scales of A");
    emu_done(&r);
    (void)overlapping;
}

TEST(result_read_before_it_is_known_to_be_complete)
{
    struct problem p = problem();
    p.mode = NO_WAIT;
    check_bad(&p, nothing, CHECK_TMEM_UNFINISHED, line_of("tcgen05.ld"),
              "while the tcgen05.mma of line");
}

/* ---- against the copy that filled the operand */

static uint64_t map_address;

/* A through a tensor map: 256 elements by 128 rows in global memory, 128 bytes apart.
 */
static void by_map(struct call *c, uint32_t box_k, uint32_t box_rows, int swizzle)
{
    char why[256];
    c->mode |= A_BY_MAP;
    if (!tmap_encode(c->map, TMAP_B4X16, 2, map_address, (uint64_t[]){256, 128},
                     (uint64_t[]){128}, (uint32_t[]){box_k, box_rows},
                     (uint32_t[]){1, 1}, 0, swizzle, 0, 0, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s", why);
    c->map_bytes = box_k / 2 * box_rows;
}

SPOIL(map_alone, by_map(c, 256, 128, 3))
SPOIL(stride_field, by_map(c, 256, 128, 3);
      c->a_desc = (c->a_desc & ~((uint64_t)0x3fff << 32)) | (uint64_t)32 << 32)
SPOIL(other_swizzle, by_map(c, 256, 128, 3);
      c->a_desc = (c->a_desc & ~((uint64_t)7 << 61)) | (uint64_t)1 << 61)
SPOIL(half_a_box, by_map(c, 256, 64, 3))
SPOIL(no_swizzle_in_map, by_map(c, 256, 128, 0))

TEST(descriptors_are_compared_with_copies)
{
    struct emu_run holder = {.arena = arena_new()};
    holder.machine.report = report_new();
    map_address = emu_alloc(&holder, 16384);
    struct problem p = problem();
    fill(&p);

    /* The map lays A out as the image does. */
    struct emu_run r = {0};
    struct call c;
    static uint32_t want[256 * 128];
    for (uint32_t row = 0; row < 128; row++)
        memcpy(emu_bytes(map_address) + row * 128, p.a[row], 128);
    prepare(&r, &p, &c);
    map_alone(&c);
    finish(&r, &p, &c);
    EMU_FINE(&r);
    expected(&p, 0, want);
    for (uint32_t row = 0; row < 128; row++)
        for (uint32_t col = 0; col < 128; col++)
            CHECK_EQ(emu_u32(c.out)[row * 256 + col], want[col * 128 + row]);
    emu_done(&r);

    int line = line_of("tcgen05.mma");
    check_bad(
        &p, stride_field, CHECK_DESCRIPTOR, line,
        "descriptor of A: groups of 8 rows 512 bytes apart (stride field 32), but the "
        "copy has laid rows 128 bytes apart: 1024 (field 64)");
    check_bad(&p, stride_field, CHECK_DESCRIPTOR, line, "map map");
    check_bad(
        &p, other_swizzle, CHECK_DESCRIPTOR, line,
        "128B (32B atoms) swizzle, but the bytes at 0x800 were written with 128B");
    check_bad(&p, half_a_box, CHECK_DESCRIPTOR, line,
              "descriptor of A: row 64 at 0x2800 lies outside what copies have filled");
    check_bad(&p, no_swizzle_in_map, CHECK_DESCRIPTOR, line,
              "were written with no swizzle");
    emu_done(&holder);
}

SPOIL(scale_stride, c->sf_desc += (uint64_t)8 << 32)
SPOIL(scale_swizzle, c->sf_desc |= (uint64_t)6 << 61)

TEST(bad_scale_descriptors)
{
    struct problem p = problem();
    check_bad(
        &p, scale_stride, CHECK_DESCRIPTOR, line_of("CP_A: tcgen05.cp"),
        "groups of 8 rows 256 bytes apart; a block of scales is 32 rows of 16 bytes");
    check_bad(&p, scale_swizzle, CHECK_DESCRIPTOR, line_of("CP_A: tcgen05.cp"),
              "32B swizzle");
}

/* ---- kernels with one place changed */

/* Replaces the first `from` by `to` in the kernel of `p`. */
static const char *changed(const struct problem *p, const char *from, const char *to)
{
    static char text[20480];
    const char *original = text_of(p), *at = strstr(original, from);
    if (!at)
        test_fail(__FILE__, __LINE__, "no \"%s\" in the kernel", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - original), original, to,
             at + strlen(from));
    return text;
}

static void check_changed(struct problem *p, bool lazy, const char *from,
                          const char *to, enum check check, int line, const char *words)
{
    struct emu_run r = {.lazy = lazy};
    struct call c;
    fill(p);
    prepare(&r, p, &c);
    finish(&r, p, &c);
    r.body = changed(p, from, to);
    EMU_EXPECT(&r, check, line, words);
    emu_done(&r);
}

#define CP_A "CP_A: tcgen05.cp.cta_group::1.32x128b.warpx4 [sa], s;"
#define LAST_COMMIT "cluster.b64 [a+16], mask;"
/* One more MMA behind the commit, with the operands of the first. */
#define AGAIN(d, accumulate)                                                           \
    LAST_COMMIT                                                                        \
    " sub.u64 ad, ad, 8; sub.u64 bd, bd, 8; add.u32 sa, c, 256; add.u32 sb, "          \
    "c, 272; setp." accumulate ".u32 acc, n, n; tcgen05.mma.cta_group::1."             \
    "kind::mxf4nvf4.block_scale.block16 [" d "], ad, bd, id, [sa], [sb], acc;"

TEST(scales_that_are_not_there)
{
    int line = line_of("tcgen05.mma");
    for (int lazy = 0; lazy < 2; lazy++) {
        struct problem p = problem();
        check_changed(
            &p, lazy, CP_A, "CP_A: ", CHECK_UNINITIALISED, line,
            "scales of A: tensor memory column 256, lanes 0 to 31 of CTA 0, was "
            "never written");
        check_changed(&p, lazy, CP_A,
                      "CP_A: tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [sa], s;",
                      CHECK_SCALE_COPIES, line,
                      "lanes 32 to 63 differ from lanes 0 to 31");
        check_changed(&p, lazy, "add.u32 sa, c, 256; add.u32 sb, c, 272; ld.param",
                      "add.u32 sa, c, 257; add.u32 sb, c, 272; ld.param",
                      CHECK_ALIGNMENT, line,
                      "scales of A at tensor memory column 257: scales start at even");
        check_changed(&p, lazy, "add.u32 sb, c, 272; ld.param",
                      "add.u32 sb, c, 510; ld.param", CHECK_TMEM_OUTSIDE, line,
                      "scales of B: tensor memory columns 510 to 513");
    }
}

TEST(accumulators_at_the_wrong_time)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct problem p = problem();
        p.mode = ACCUMULATE;
        check_changed(&p, lazy, "@!acc bra CLEARED;", "bra CLEARED;",
                      CHECK_UNINITIALISED, line_of("tcgen05.mma"),
                      "the accumulator: tensor memory column 0");
        p.mode = 0;
        /* Another accumulator that overlaps the first: not pipelined with it. */
        check_changed(
            &p, lazy, LAST_COMMIT, AGAIN("c+8", "eq"), CHECK_TMEM_UNFINISHED,
            line_of("cluster.b64 [a+16]"),
            "column 8 of CTA 0 is used by this tcgen05.mma while the tcgen05.mma");
    }
    struct problem p = problem();
    check_changed(&p, false, LAST_COMMIT, AGAIN("c", "ne"), CHECK_TMEM_OVERWRITTEN,
                  line_of("cluster.b64 [a+16]"),
                  "is started anew before any tcgen05.ld has read what is in it");
}

TEST(columns_freed_while_in_use)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct problem p = problem();
        p.mode = NO_WAIT;
        check_changed(&p, lazy, "DONE: bar.sync 0;",
                      "DONE: bar.sync 0; setp.ne.u32 p, w, 0; @p bra END; "
                      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 c, 512; ret;",
                      CHECK_TMEM_IN_USE, line_of("DONE:"),
                      "is freed while the tcgen05.mma of line");
    }
}
