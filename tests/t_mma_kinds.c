/* t_mma_kinds.c - tcgen05.mma of the kinds other than FP4 (tests/emu/mma_kinds.ptx)
 * against plain loops, on data whose sums are exact. */
#include "tests/emu_run.h"
#include "tests/mma_data.h"
#include "tests/test.h"

#include <stdio.h>

enum source { A_IN_SHARED, A_IN_TENSOR_MEMORY };

struct problem {
    const char *kind; /* "kind::f16" */
    enum mma_type a_type, b_type;
    enum mma_result result;
    int group, m, n; /* of the pair, with group 2 */
    int swizzle;     /* code of the descriptors: 0, 2, 4, 6 */
    bool a_by_m, b_by_n, accumulate, scaled;
    enum source source;
    const char *operands; /* behind the accumulator; NULL: what fits */
    int scale_d_down;
    uint32_t masked[4];
};

static uint64_t descriptor(const struct layout *l)
{
    return (uint64_t)(l->start / 16) | (uint64_t)(l->lbo / 16) << 16 |
           (uint64_t)(l->sbo / 16) << 32 | (uint64_t)1 << 46 |
           (uint64_t)(uint32_t)l->swizzle << 61;
}

static uint32_t idesc_of(const struct problem *p)
{
    static const uint8_t codes[] = {0, 1, 2, 0, 1,
                                    3, 4, 5, 0, 1}; /* by enum mma_type */
    static const uint8_t results[] = {0, 1, 2};
    uint32_t id = (uint32_t)codes[p->a_type] << 7 | (uint32_t)codes[p->b_type] << 10 |
                  (uint32_t)p->a_by_m << 15 | (uint32_t)p->b_by_n << 16 |
                  (uint32_t)(p->n / 8) << 17 | (uint32_t)(p->m / 16) << 24;
    return p->scaled ? id | 1u << 23 | 2u << 29 | 1u << 4
                     : id | (uint32_t)results[p->result] << 4;
}

static const char *substitute(struct arena *a, const char *text, const char *from,
                              const char *to)
{
    struct buf b;
    buf_init(&b, a);
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        buf_add(&b, text, (size_t)(p - text));
        buf_add(&b, to, strlen(to));
    }
    buf_add(&b, text, strlen(text) + 1);
    return b.data;
}

static uint8_t pa[256 * 32], pb[256 * 32], scale_a[256], scale_b[256];
static uint8_t image[2][65536];

/* Scales of `rows` rows as a 512-byte block a 128 rows: byte `id` of row r's word. */
static void lay_scales(uint8_t *to, const uint8_t *scales, int rows, int id)
{
    for (int r = 0; r < rows; r++)
        to[r / 128 * 512 + r % 32 * 16 + r % 128 / 32 * 4 + id] = scales[r];
}

static void run_problem(const struct problem *p, bool lazy)
{
    size_t bytes;
    struct emu_run r = {.threads = 128, .smem_bytes = 66 * 1024, .lazy = lazy};
    struct arena *arena = arena_new();
    const char *text = file_read(arena, "tests/emu/mma_kinds.ptx", &bytes);
    CHECK(text != NULL);
    char operands[96];
    const char *a = p->source == A_IN_TENSOR_MEMORY ? "[r0]" : "ad";
    snprintf(operands, sizeof operands, "[tm], %s, bd, id, %s;", a,
             p->operands ? p->operands
             : p->scaled ? "[r1], [r2], acc"
                         : "acc");
    if (p->group == 2)
        text = substitute(arena, text, "cta_group::1", "cta_group::2");
    else
        text = substitute(arena, text, "mask, 3;", "mask, 1;");
    text = substitute(arena, text, "kind::f16 [tm], ad, bd, id, acc;",
                      arena_printf(arena, "%s %s", p->kind, operands));
    if (!p->accumulate)
        text =
            substitute(arena, text, "setp.eq.u32 acc, t, 0;", "setp.ne.u32 acc, t, 0;");
    r.ptx = text;
    r.grid[0] = r.cluster[0] = (uint32_t)p->group;

    for (int row = 0; row < p->m; row++)
        for (int k = 0; k < k_of(p->a_type); k++)
            put_element(p->a_type, pa + row * 32, k, easy_code(p->a_type));
    for (int row = 0; row < p->n; row++)
        for (int k = 0; k < k_of(p->b_type); k++)
            put_element(p->b_type, pb + row * 32, k, easy_code(p->b_type));
    for (int i = 0; i < 256; i++) {
        scale_a[i] = (uint8_t)(125 + random_below(5));
        scale_b[i] = (uint8_t)(125 + random_below(5));
    }
    int a_rows_of = p->m / p->group, b_rows_of = p->n / p->group;
    struct layout la = {.swizzle = p->swizzle, .by_row = p->a_by_m}, lb, first_b = {0};
    uint32_t used = 0, sf_at = 0;
    for (int c = 0; c < p->group; c++) {
        memset(image[c], 0x5a, sizeof image[c]);
        la.start = 0;
        lb = (struct layout){.swizzle = p->swizzle, .by_row = p->b_by_n};
        lb.start = lay(&la, p->a_type, pa + c * a_rows_of * 32, a_rows_of, image[c]);
        used = lay(&lb, p->b_type, pb + c * b_rows_of * 32, b_rows_of, image[c]);
        first_b = lb;
        sf_at = used;
        lay_scales(image[c] + used, scale_a + c * a_rows_of, a_rows_of, 2);
        lay_scales(image[c] + used + 512, scale_b, p->n, 1);
        used += 2048;
    }
    CHECK(used <= sizeof image[0]);
    la.start += 1024;
    first_b.start += 1024;
    struct layout sf = {.start = sf_at + 1024, .sbo = 128, .lbo = 16};
    uint64_t in = emu_alloc(&r, (size_t)used * 2), out = emu_alloc(&r, 2 * 131072);
    uint64_t rows = 0, sf_desc = p->scaled ? descriptor(&sf) : 0;
    for (int c = 0; c < p->group; c++)
        memcpy(emu_bytes(in) + (size_t)c * used, image[c], used);
    if (p->source == A_IN_TENSOR_MEMORY) {
        rows = emu_alloc(&r, sizeof pa);
        memcpy(emu_bytes(rows), pa, sizeof pa);
    }
    uint64_t a_desc = descriptor(&la), b_desc = descriptor(&first_b);
    /* 3 in each type of D */
    static const uint32_t threes[] = {0x4200, 0x40400000, 3};
    uint32_t id = idesc_of(p), n = (uint32_t)p->n, blocks = (n + 127) / 128;
    if (p->group == 2 && p->m == 128)
        n /= 2;
    emu_param(&r, &in, 8);
    emu_param(&r, &out, 8);
    emu_param(&r, &rows, 8);
    emu_param(&r, &a_desc, 8);
    emu_param(&r, &b_desc, 8);
    emu_param(&r, &sf_desc, 8);
    emu_param(&r, &used, 4);
    emu_param(&r, &id, 4);
    emu_param(&r, &n, 4);
    emu_param(&r, &threes[p->result], 4);
    emu_param(&r, &blocks, 4);
    EMU_FINE(&r);
    CHECK_EQ(report_warnings(r.machine.report), 0);

    for (int row = 0; row < p->m; row++)
        for (int column = 0; column < p->n; column++) {
            double want = 0, got;
            for (int k = 0; k < k_of(p->a_type); k++)
                want += double_of(p->a_type, element(p->a_type, pa + row * 32, k)) *
                        double_of(p->b_type, element(p->b_type, pb + column * 32, k));
            if (p->scaled)
                want = ldexp(want, scale_a[row] + scale_b[column] - 254);
            want += p->accumulate ? ldexp(3, -p->scale_d_down) : 0;
            int c = row / a_rows_of, own = row % a_rows_of, lane = own, at = column;
            if (p->group == 1 && p->m == 64)
                lane = own / 16 * 32 + own % 16;
            if (p->group == 2 && p->m == 128) {
                lane = own + (column >= p->n / 2 ? 64 : 0);
                at = column % (p->n / 2);
            }
            if (p->masked[lane / 32] >> lane % 32 & 1)
                want = 3;
            if (p->result == MMA_TO_F16 && want != 0) {
                int e;
                frexp(want, &e);
                want = ldexp(nearbyint(ldexp(want, 11 - e)), e - 11);
            }
            uint32_t bits = emu_u32(out)[c * 32768 + lane * 256 + at];
            struct number x = number_of(MMA_F16, bits & 0xffff);
            float f;
            memcpy(&f, &bits, 4);
            got = p->result == MMA_TO_S32 ? (int32_t)bits
                  : p->result == MMA_TO_F32
                      ? (double)f
                      : ldexp(x.negative ? -(double)x.significand : x.significand,
                              x.exponent);
            if (got != want)
                test_fail(__FILE__, __LINE__, "%s %s: D[%d][%d] is %g, not %g", p->kind,
                          lazy ? "lazy" : "eager", row, column, got, want);
        }
    emu_done(&r);
    arena_free(arena);
}

static void run_both(struct problem p)
{
    random_state = (uint64_t)p.m * 1000 + (uint64_t)p.n + (uint64_t)p.swizzle;
    run_problem(&p, false);
    run_problem(&p, true);
}

static const int swizzles[] = {0, 2, 4, 6};

TEST(kinds_along_k)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 64,
                                  s, .accumulate = false});
        run_both((struct problem){"kind::f16", MMA_BF16, MMA_BF16, MMA_TO_F32, 1, 128,
                                  32, s, .accumulate = true});
        run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128,
                                  48, s, .accumulate = false});
        run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E5M2, MMA_TO_F32, 1,
                                  128, 80, s, .accumulate = true});
        run_both((struct problem){"kind::i8", MMA_U8, MMA_S8, MMA_TO_S32, 1, 128, 32, s,
                                  .accumulate = true});
    }
}

TEST(narrow_elements_in_their_slots)
{
    run_both((struct problem){"kind::f8f6f4", MMA_E2M3, MMA_E3M2, MMA_TO_F32, 1, 128,
                              32, 2, .accumulate = false});
    run_both((struct problem){"kind::f8f6f4", MMA_E2M1, MMA_E4M3, MMA_TO_F32, 1, 128,
                              32, 2, .accumulate = false});
    run_both((struct problem){"kind::mxf8f6f4.block_scale", MMA_E3M2, MMA_E2M1,
                              MMA_TO_F32, 1, 128, 40, 2, .scaled = true});
}

TEST(block_scales_of_32)
{
    run_both((struct problem){"kind::mxf8f6f4.block_scale", MMA_E4M3, MMA_E4M3,
                              MMA_TO_F32, 1, 128, 128, 2, .scaled = true,
                              .accumulate = true});
    run_both((struct problem){"kind::mxf8f6f4.block_scale.block32", MMA_E5M2, MMA_E4M3,
                              MMA_TO_F32, 2, 256, 256, 2, .scaled = true});
}

TEST(sums_in_f16)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F16, 1, 128, 32, 2,
                              .accumulate = true});
}

TEST(operands_along_m_and_n)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128,
                                  128, s, .b_by_n = true});
        run_both((struct problem){"kind::f16", MMA_BF16, MMA_BF16, MMA_TO_F32, 1, 128,
                                  64, s, .a_by_m = true, .b_by_n = true});
        run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E4M3, MMA_TO_F32, 1,
                                  128, 128, s, .a_by_m = true, .b_by_n = true});
    }
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 2, 256, 256, 2,
                              .a_by_m = true, .b_by_n = true});
}

TEST(a_in_tensor_memory)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 64, 2,
                              .source = A_IN_TENSOR_MEMORY});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128, 64,
                              2, .source = A_IN_TENSOR_MEMORY, .accumulate = true});
    run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E5M2, MMA_TO_F32, 2, 256,
                              64, 2, .source = A_IN_TENSOR_MEMORY});
    run_both((struct problem){"kind::i8", MMA_S8, MMA_S8, MMA_TO_S32, 1, 128, 64, 2,
                              .source = A_IN_TENSOR_MEMORY, .accumulate = true});
}

TEST(other_shapes)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 64, 72, 2,
                              .accumulate = true});
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 2, 128, 64, 2,
                              .accumulate = true});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 2, 256, 96,
                              2, .accumulate = false});
}

TEST(masked_lanes_and_a_scaled_accumulator)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 32, 2,
                              .accumulate = true, .operands = "{m0, m1, m2, m3}, acc",
                              .masked = {0, 0xff, 0, 0x80000000}});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128, 32,
                              2, .accumulate = true, .operands = "acc, 3",
                              .scale_d_down = 3});
}

/* Instruction descriptors, from one that is right: M 128, N 32. */
#define RIGHT (8u << 24 | 4u << 17)
#define TO_F32 (1u << 4)

TEST(fields_that_a_kind_does_not_take)
{
    static const struct {
        const char *kind;
        uint32_t id;
        const char *words;
    } cases[] = {
        {"kind::f16", RIGHT | TO_F32 | 4, "bit 2 says sparse"},
        {"kind::f16", RIGHT | TO_F32 | 1, "reserved bits 0x1 are set"},
        {"kind::f16", RIGHT | TO_F32 | 8, "bit 3, saturation, is for integers"},
        {"kind::f16", RIGHT | TO_F32 | 2 << 7, "type 2 of A in bits 7-9"},
        {"kind::f16", RIGHT | TO_F32 | 3 << 10, "type 3 of B in bits 10-12"},
        {"kind::f16", RIGHT | TO_F32 | 1 << 10, "A and B have different types"},
        {"kind::f16", RIGHT | 2 << 4, "type 2 of D in bits 4-5"},
        {"kind::tf32", RIGHT | 2 << 7 | 2 << 10, "type 0 of D in bits 4-5"},
        {"kind::i8", RIGHT | 2 << 4 | 1 << 13, "bits 13-14, negation"},
        {"kind::i8", RIGHT | TO_F32, "type 1 of D in bits 4-5"},
        {"kind::f8f6f4", RIGHT | TO_F32 | 5 << 7 | 1 << 15, "transpose bits 15-16"},
        {"kind::f8f6f4", RIGHT | TO_F32 | 2 << 7, "type 2 of A in bits 7-9"},
        {"kind::f16", TO_F32 | 4u << 17 | 6u << 24, "M is 96; 64 or 128"},
        {"kind::f16", TO_F32 | 3u << 17 | 8u << 24, "N is 24; a multiple of 16"},
        {"kind::mxf8f6f4.block_scale", RIGHT, "bit 23 must say UE8M0 scales"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char body[1024];
        bool scaled = strstr(cases[i].kind, "block_scale") != NULL;
        snprintf(body, sizeof body,
                 ".reg .b32 a, c, id; .reg .b64 d; .reg .pred p;\n"
                 "mov.u32 a, sm; mov.u32 id, 0x%08x; mov.u64 d, 0x0000400800080040;\n"
                 "setp.ne.u32 p, a, a;\n"
                 "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a], 64;\n"
                 "ld.shared.b32 c, [a];\n"
                 "tcgen05.mma.cta_group::1.%s [c], d, d, id, %sp;\n"
                 "ret;\n",
                 (unsigned)cases[i].id, cases[i].kind,
                 scaled ? "[c+32], [c+36], " : "");
        struct emu_run r = {.body = body, .threads = 32, .smem_bytes = 4096};
        EMU_EXPECT(&r, CHECK_DESCRIPTOR, 0, cases[i].words);
        emu_done(&r);
    }
}
