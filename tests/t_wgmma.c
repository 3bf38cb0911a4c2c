/* t_wgmma.c - wgmma against plain loops, on data whose sums are exact, and what must
 * not happen before wgmma.wait_group. */
#include "tests/emu_run.h"
#include "tests/mma_data.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

/* One wgmma: shared memory is an image, D comes from `old` and goes to `out`. */
static const char head[] =
    ".version 8.8\n.target sm_90a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry test(.param .u64 image, .param .u64 out, .param .u64 a_regs, "
    ".param .u64 a_desc, .param .u64 b_desc, .param .u32 bytes, .param .u32 old)\n"
    "{\n.reg .pred p, acc; .reg .b32 t, a, v, x<4>, d<128>; .reg .b64 g, ad, bd, x;\n"
    "mov.u32 t, %tid.x; mov.u32 a, sm; setp.ne.u32 p, t, 0;\n"
    "@p bra READY;\n"
    "mbarrier.init.shared::cta.b64 [a], 1; fence.mbarrier_init.release.cluster;\n"
    "ld.param.u32 v, [bytes]; ld.param.u64 g, [image];\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], v;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a+1024], [g], "
    "v, "
    "[a];\n"
    "READY: bar.sync 0;\n"
    "FULL: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"
    "@!p bra FULL;\n"
    "shr.u32 v, a, 4; cvt.u64.u32 x, v;\n"
    "ld.param.u64 ad, [a_desc]; add.u64 ad, ad, x;\n"
    "ld.param.u64 bd, [b_desc]; add.u64 bd, bd, x;\n"
    "ld.param.u64 g, [a_regs]; mad.wide.u32 g, t, 16, g;\n"
    "ld.global.v4.b32 {x0,x1,x2,x3}, [g];\n"
    "setp.lt.u32 acc, t, 128; ld.param.u32 v, [old];\n";

struct problem {
    const char *types; /* "f32.f16.f16" */
    enum mma_type a_type, b_type;
    enum mma_result result;
    int n, swizzle; /* code of tcgen05's descriptors */
    bool a_by_row, b_by_row, accumulate, in_registers, negate;
};

static uint64_t gmma_descriptor(const struct layout *l)
{
    int mode = l->swizzle == 2 ? 1 : l->swizzle == 4 ? 2 : l->swizzle == 6 ? 3 : 0;
    return (uint64_t)(l->start / 16) | (uint64_t)(l->lbo / 16) << 16 |
           (uint64_t)(l->sbo / 16) << 32 | (uint64_t)(uint32_t)mode << 62;
}

static void add(char **to, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void add(char **to, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    *to += vsprintf(*to, fmt, args);
    va_end(args);
}

static void add_list(char **to, const char *name, int count)
{
    for (int i = 0; i < count; i++)
        add(to, "%s%s%d", i ? "," : "{", name, i);
    add(to, "}");
}

/* The kernel; `between` stands behind the wgmma and its commit, in front of the wait.
 */
static char *text_of(const struct problem *p, const char *between)
{
    char *text = malloc(65536), *end = text;
    int registers = p->result == MMA_TO_F16 ? p->n / 4 : p->n / 2;
    bool is_half = p->a_type == MMA_F16 || p->a_type == MMA_BF16;
    add(&end, "%s", head);
    for (int i = 0; i < registers; i++)
        add(&end, "mov.b32 d%d, v;\n", i);
    add(&end, "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%dk%d.%s ",
        p->n, k_of(p->a_type), p->types);
    add_list(&end, "d", registers);
    if (p->in_registers)
        add(&end, ", {x0,x1,x2,x3}");
    else
        add(&end, ", ad");
    add(&end, ", bd, %s", p->accumulate ? "acc" : "0");
    if (p->result != MMA_TO_S32)
        add(&end, ", %d, 1", p->negate ? -1 : 1);
    if (is_half && !p->in_registers)
        add(&end, ", %d", p->a_by_row);
    if (is_half)
        add(&end, ", %d", p->b_by_row);
    add(&end, ";\nwgmma.commit_group.sync.aligned;\n%s", between);
    add(&end, "wgmma.wait_group.sync.aligned 0;\nld.param.u64 g, [out];\n"
              "mad.wide.u32 g, t, 512, g;\n");
    for (int i = 0; i < registers; i++)
        add(&end, "st.global.b32 [g+%d], d%d;\n", i * 4, i);
    add(&end, "ret;\n}\n");
    return text;
}

static uint8_t pa[64 * 32], pb[256 * 32], image[65536];

/* Shared memory and parameters; the caller frees x->ptx. */
static uint64_t prepare(struct emu_run *r, const struct problem *p, const char *between)
{
    r->ptx = text_of(p, between);
    r->threads = 128;
    r->smem_bytes = 66 * 1024;
    for (int row = 0; row < 64; row++)
        for (int k = 0; k < k_of(p->a_type); k++)
            put_element(p->a_type, pa + row * 32, k, easy_code(p->a_type));
    for (int row = 0; row < p->n; row++)
        for (int k = 0; k < k_of(p->b_type); k++)
            put_element(p->b_type, pb + row * 32, k, easy_code(p->b_type));
    memset(image, 0x5a, sizeof image);
    struct layout la = {.swizzle = p->swizzle, .by_row = p->a_by_row}, lb = la;
    lb.by_row = p->b_by_row;
    lb.start = lay(&la, p->a_type, pa, 64, image);
    uint32_t used = lay(&lb, p->b_type, pb, p->n, image);
    la.start += 1024;
    lb.start += 1024;
    uint64_t in = emu_alloc(r, used), out = emu_alloc(r, 65536),
             regs = emu_alloc(r, 2048);
    memcpy(emu_bytes(in), image, used);
    /* Registers of A: warp by warp sixteen rows, in the manual's figure. */
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < 4; i++) {
            int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8;
            memcpy(emu_bytes(regs) + t * 16 + i * 4,
                   pa + row * 32 + t % 4 * 4 + i / 2 * 16, 4);
        }
    uint64_t a_desc = gmma_descriptor(&la), b_desc = gmma_descriptor(&lb);
    static const uint32_t threes[] = {0x42004200, 0x40400000, 3};
    emu_param(r, &in, 8);
    emu_param(r, &out, 8);
    emu_param(r, &regs, 8);
    emu_param(r, &a_desc, 8);
    emu_param(r, &b_desc, 8);
    emu_param(r, &used, 4);
    emu_param(r, &threes[p->result], 4);
    return out;
}

static void done(struct emu_run *r)
{
    char *text = (char *)(uintptr_t)r->ptx;
    emu_done(r);
    free(text);
}

static void run_problem(struct problem p)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        random_state = (uint64_t)p.n * 10 + (uint64_t)p.swizzle;
        uint64_t out = prepare(&r, &p, "");
        EMU_FINE(&r);
        CHECK_EQ(report_warnings(r.machine.report), 0);
        for (int row = 0; row < 64; row++)
            for (int column = 0; column < p.n; column++) {
                double want = 0, got;
                for (int k = 0; k < k_of(p.a_type); k++)
                    want += double_of(p.a_type, element(p.a_type, pa + row * 32, k)) *
                            double_of(p.b_type, element(p.b_type, pb + column * 32, k));
                want = (p.negate ? -want : want) + (p.accumulate ? 3 : 0);
                int t = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
                int pair = column / 8 * 2 + row % 16 / 8; /* two columns */
                const uint32_t *of = emu_u32(out) + t * 128;
                float f;
                if (p.result == MMA_TO_F16) {
                    uint32_t h = of[pair] >> column % 2 * 16 & 0xffff;
                    int e;
                    got = double_of(MMA_F16, h);
                    frexp(want, &e);
                    want = ldexp(nearbyint(ldexp(want, 11 - e)), e - 11);
                } else if (p.result == MMA_TO_S32) {
                    got = (int32_t)of[pair * 2 + column % 2];
                } else {
                    memcpy(&f, &of[pair * 2 + column % 2], 4);
                    got = (double)f;
                }
                if (got != want)
                    test_fail(__FILE__, __LINE__,
                              "%s n %d swizzle %d: D[%d][%d] is %g, not "
                              "%g",
                              p.types, p.n, p.swizzle, row, column, got, want);
            }
        done(&r);
    }
}

static const int swizzles[] = {0, 2, 4, 6};

TEST(operands_along_k)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_problem((struct problem){"f32.f16.f16", MMA_F16, MMA_F16, MMA_TO_F32, 64, s,
                                     .accumulate = true});
        run_problem((struct problem){"f32.bf16.bf16", MMA_BF16, MMA_BF16, MMA_TO_F32,
                                     136, s, .negate = true});
        run_problem((struct problem){"f32.tf32.tf32", MMA_TF32, MMA_TF32, MMA_TO_F32,
                                     256, s, .accumulate = true});
        run_problem((struct problem){"f32.e4m3.e5m2", MMA_E4M3, MMA_E5M2, MMA_TO_F32, 8,
                                     s, .accumulate = true});
        run_problem((struct problem){"s32.u8.s8", MMA_U8, MMA_S8, MMA_TO_S32, 64, s,
                                     .accumulate = true});
    }
}

TEST(operands_along_rows)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_problem((struct problem){"f32.f16.f16", MMA_F16, MMA_F16, MMA_TO_F32, 128,
                                     s, .b_by_row = true});
        run_problem((struct problem){"f32.bf16.bf16", MMA_BF16, MMA_BF16, MMA_TO_F32,
                                     64, s, .a_by_row = true, .b_by_row = true,
                                     .accumulate = true});
    }
}

TEST(a_in_registers)
{
    run_problem((struct problem){"f32.f16.f16", MMA_F16, MMA_F16, MMA_TO_F32, 64, 2,
                                 .in_registers = true, .b_by_row = true});
    run_problem((struct problem){"f32.tf32.tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 32, 2,
                                 .in_registers = true});
    run_problem((struct problem){"f32.e5m2.e4m3", MMA_E5M2, MMA_E4M3, MMA_TO_F32, 64, 2,
                                 .in_registers = true, .negate = true});
    run_problem((struct problem){"s32.s8.s8", MMA_S8, MMA_S8, MMA_TO_S32, 16, 2,
                                 .in_registers = true});
}

TEST(sums_in_f16)
{
    run_problem((struct problem){"f16.f16.f16", MMA_F16, MMA_F16, MMA_TO_F16, 64, 2,
                                 .accumulate = true});
}

static const struct problem simple = {
    "f32.f16.f16", MMA_F16, MMA_F16, MMA_TO_F32, 64, 2, .accumulate = true};

TEST(three_warps_are_no_group)
{
    struct emu_run r = {0};
    prepare(&r, &simple, "");
    r.threads = 96;
    EMU_EXPECT(&r, CHECK_DIVERGENCE, 0, "needs all 128 threads of a warp group");
    done(&r);
}

static void misuse(const char *between, enum check check, const char *words)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        prepare(&r, &simple, between);
        EMU_EXPECT(&r, check, 0, words);
        done(&r);
    }
}

#define OVERWRITE                                                                      \
    "setp.ne.u32 p, t, 0;\n"                                                           \
    "@p bra LATER;\n"                                                                  \
    "ld.param.u64 g, [image];\n"                                                       \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 16;\n"                          \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a+1024], "     \
    "[g], 16, "                                                                        \
    "[a];\n"                                                                           \
    "LATER: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 1;\n"                     \
    "@!p bra LATER;\n"

TEST(operands_are_overwritten_before_the_wait)
{
    misuse("bar.sync 0;\n" OVERWRITE, CHECK_STAGE_OVERWRITTEN, "wgmma");
}

TEST(operands_may_be_overwritten_behind_it)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct emu_run r = {.lazy = lazy};
        prepare(&r, &simple,
                "wgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n" OVERWRITE);
        EMU_FINE(&r);
        CHECK_EQ(report_warnings(r.machine.report), 0);
        done(&r);
    }
}

TEST(descriptors_of_tcgen05_are_told)
{
    misuse("or.b64 bd, bd, 0x400000000000;\n"
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0,d1,d2,d3}, ad, bd, "
           "acc, 1, "
           "1, 0, 0;\n",
           CHECK_DESCRIPTOR, "is it one for tcgen05?");
}
