/* t_mma_warp.c - mma.sync and movmatrix: fragments as the manual lays them, against
 * plain loops on data whose sums are exact. */
#include "emu/mma_fp4.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* Small values of each type and their codes. */
struct value {
    uint32_t code;
    double is;
};
static const struct value f16s[] = {{0, 0},       {0x3c00, 1}, {0xc000, -2},
                                    {0x3800, .5}, {0x4200, 3}, {0xbe00, -1.5}};
static const struct value bf16s[] = {{0, 0},       {0x3f80, 1}, {0xc000, -2},
                                     {0x3f00, .5}, {0x4040, 3}, {0xbfc0, -1.5}};
static const struct value tf32s[] = {{0, 0},           {0x3f800000, 1},
                                     {0xc0000000, -2}, {0x3f000fff, .5},
                                     {0x40400000, 3},  {0xbfc00000, -1.5}};
static const struct value e4m3s[] = {{0, 0},     {0x38, 1}, {0xc0, -2},
                                     {0x30, .5}, {0x44, 3}, {0xbc, -1.5}};
static const struct value e5m2s[] = {{0, 0},     {0x3c, 1}, {0xc0, -2},
                                     {0x38, .5}, {0x42, 3}, {0xbe, -1.5}};
static const struct value e2m1s[] = {{0, 0},  {2, 1}, {12, -2},
                                     {1, .5}, {5, 3}, {11, -1.5}};
static const struct value u8s[] = {{0, 0}, {1, 1},     {200, 200},
                                   {7, 7}, {255, 255}, {9, 9}};
static const struct value s8s[] = {{0, 0}, {1, 1},    {200, -56},
                                   {7, 7}, {255, -1}, {128, -128}};

struct shape {
    const char *text; /* opcode, without "mma.sync.aligned." */
    const struct value *a, *b;
    int bits, k;
    char d;     /* f, h or s */
    int scales; /* a row: 0, 1, 2, 4 */
    int byte, thread_a, thread_b;
};

/* Elements of a register, lowest first, are `each` neighbours along K.  The manual's
 * figures, read for each width: A's row and first k of register r of a lane. */
static void place_a(int r, int lane, int each, int *row, int *k)
{
    *row = lane / 4 + (r == 1 || r == 3 ? 8 : 0);
    *k = lane % 4 * each + (r >= 2 ? 4 * each : 0);
}

static void place_b(int r, int lane, int each, int *column, int *k)
{
    *column = lane / 4;
    *k = lane % 4 * each + r * 4 * each;
}

static const char body_format[] =
    ".reg .b32 t, a<4>, b<2>, c<4>, d<4>, sa, sb; .reg .b64 p, q;\n"
    "ld.param.u64 p, [in]; ld.param.u64 q, [out]; mov.u32 t, %%tid.x;\n"
    "mad.wide.u32 p, t, 64, p; mad.wide.u32 q, t, 16, q;\n"
    "ld.global.v4.b32 {a0,a1,a2,a3}, [p]; ld.global.v2.b32 {b0,b1}, [p+16];\n"
    "ld.global.v2.b32 {sa,sb}, [p+24]; ld.global.v4.b32 {c0,c1,c2,c3}, [p+32];\n"
    "mma.sync.aligned.%s %s, %s, %s, %s%s;\n"
    "st.global.v4.b32 [q], {d0,d1,d2,d3};\nret;\n";

static double scale_of(int scales, uint8_t byte)
{
    if (scales == 4) /* UE4M3: 0.5, 1, 2 */
        return byte == 0x30 ? .5 : byte == 0x38 ? 1 : 2;
    return ldexp(1, byte - 127);
}

static void check_shape(const struct shape *s)
{
    int each = 32 / s->bits, a_regs = s->k * s->bits / 64, b_regs = a_regs / 2;
    static const char *const a_lists[] = {"", "", "{a0,a1}", "", "{a0,a1,a2,a3}"};
    static const char *const b_lists[] = {"", "{b0}", "{b0,b1}"};
    bool half = s->d == 'h';
    char body[1024], scales[64] = "";
    if (s->scales)
        snprintf(scales, sizeof scales, ", sa, {%d, %d}, sb, {%d, %d}", s->byte,
                 s->thread_a, s->byte, s->thread_b);
    snprintf(body, sizeof body, body_format, s->text,
             half ? "{d0,d1}" : "{d0,d1,d2,d3}", a_lists[a_regs], b_lists[b_regs],
             half ? "{c0,c1}" : "{c0,c1,c2,c3}", scales);
    char ptx[2048];
    snprintf(
        ptx, sizeof ptx,
        ".version 9.0\n.target %s\n.address_size 64\n.visible .entry test(.param .u64 "
        "in, .param .u64 out)\n{\n%s}\n",
        s->scales || strstr(s->text, "kind") ? "sm_120a" : "sm_90a", body);
    struct emu_run r = {.ptx = ptx, .threads = 32};
    uint64_t in = emu_alloc(&r, (size_t)32 * 64), out = emu_alloc(&r, (size_t)32 * 16);
    emu_param(&r, &in, 8);
    emu_param(&r, &out, 8);

    double a[16][64] = {{0}}, b[8][64] = {{0}}, c[16][8], sa[16][4], sb[8][4];
    uint32_t *words = emu_u32(in);
    for (int i = 0; i < 32 * 16; i++)
        words[i] = random_bits(); /* what must not matter */
    for (int lane = 0; lane < 32; lane++) {
        uint32_t *of = words + lane * 16;
        for (int i = 0; i < a_regs + b_regs; i++) {
            bool is_a = i < a_regs;
            int row, k, reg = is_a ? i : i - a_regs;
            uint32_t word = 0;
            if (is_a)
                place_a(reg, lane, each, &row, &k);
            else
                place_b(reg, lane, each, &row, &k);
            for (int e = 0; e < each; e++) {
                const struct value *v = (is_a ? s->a : s->b) + random_bits() % 6;
                word |= v->code << (e * s->bits) % 32;
                (is_a ? a[row] : b[row])[k + e] = v->is;
            }
            of[is_a ? reg : 4 + reg] = word;
        }
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;
            int value = (int)(random_bits() % 41) - 20;
            float f = (float)value;
            c[row][column] = value;
            if (s->d == 's')
                of[8 + i] = (uint32_t)value;
            else if (s->d == 'f')
                memcpy(&of[8 + i], &f, 4);
        }
        if (half) /* 1 in all */
            of[8] = of[9] = 0x3c003c00;
    }
    static const uint8_t ue4m3[] = {0x30, 0x38, 0x40};
    for (int i = 0; i < s->scales * 16; i++) {
        int row = i / s->scales, block = i % s->scales;
        uint8_t x = s->scales == 4 ? ue4m3[random_bits() % 3] : (uint8_t)(126 + i % 3);
        uint8_t y = s->scales == 4 ? ue4m3[random_bits() % 3] : (uint8_t)(125 + i % 4);
        sa[row][block] = scale_of(s->scales, x);
        int lane = row % 8 * 4 + s->thread_a * 2 + row / 8;
        ((uint8_t *)(words + lane * 16 + 6))[s->byte + block] = x;
        if (row >= 8)
            continue;
        sb[row][block] = scale_of(s->scales, y);
        ((uint8_t *)(words + (row * 4 + s->thread_b) * 16 + 7))[s->byte + block] = y;
    }
    EMU_FINE(&r);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            double want = half ? 1 : c[row][column];
            for (int k = 0; k < s->k; k++) {
                int block = s->scales ? k * s->scales / s->k : 0;
                want += a[row][k] * b[column][k] *
                        (s->scales ? sa[row][block] * sb[column][block] : 1);
            }
            int lane = row % 8 * 4 + column / 2;
            const uint32_t *of = emu_u32(out) + lane * 4;
            double got;
            float f;
            if (half) {
                uint32_t h = of[row / 8] >> column % 2 * 16 & 0xffff;
                got = ldexp((h & 0x3ff) | 0x400, (int)(h >> 10 & 31) - 25);
                got = (h & 0x7fff) == 0 ? 0 : h & 0x8000 ? -got : got;
            } else if (s->d == 's') {
                got = (int32_t)of[row / 8 * 2 + column % 2];
            } else {
                memcpy(&f, &of[row / 8 * 2 + column % 2], 4);
                got = (double)f;
            }
            if (got != want)
                test_fail(__FILE__, __LINE__, "%s: D[%d][%d] is %g, not %g", s->text,
                          row, column, got, want);
        }
    emu_done(&r);
}

TEST(mma_of_16_and_32_bits)
{
    static const struct shape shapes[] = {
        {"m16n8k16.row.col.f32.f16.f16.f32", f16s, f16s, 16, 16, 'f', 0, 0, 0, 0},
        {"m16n8k8.row.col.f32.f16.f16.f32", f16s, f16s, 16, 8, 'f', 0, 0, 0, 0},
        {"m16n8k16.row.col.f16.f16.f16.f16", f16s, f16s, 16, 16, 'h', 0, 0, 0, 0},
        {"m16n8k16.row.col.f32.bf16.bf16.f32", bf16s, bf16s, 16, 16, 'f', 0, 0, 0, 0},
        {"m16n8k8.row.col.f32.bf16.bf16.f32", bf16s, bf16s, 16, 8, 'f', 0, 0, 0, 0},
        {"m16n8k8.row.col.f32.tf32.tf32.f32", tf32s, tf32s, 32, 8, 'f', 0, 0, 0, 0},
        {"m16n8k4.row.col.f32.tf32.tf32.f32", tf32s, tf32s, 32, 4, 'f', 0, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        check_shape(&shapes[i]);
}

TEST(mma_of_8_bits)
{
    static const struct shape shapes[] = {
        {"m16n8k32.row.col.f32.e4m3.e5m2.f32", e4m3s, e5m2s, 8, 32, 'f', 0, 0, 0, 0},
        {"m16n8k16.row.col.f32.e5m2.e4m3.f32", e5m2s, e4m3s, 8, 16, 'f', 0, 0, 0, 0},
        {"m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", e4m3s, e4m3s, 8, 32, 'f', 0,
         0, 0, 0},
        {"m16n8k32.row.col.s32.u8.s8.s32", u8s, s8s, 8, 32, 's', 0, 0, 0, 0},
        {"m16n8k16.row.col.satfinite.s32.s8.u8.s32", s8s, u8s, 8, 16, 's', 0, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        check_shape(&shapes[i]);
}

TEST(mma_with_block_scales)
{
    static const struct shape shapes[] = {
        {"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32."
         "ue4m3",
         e2m1s, e2m1s, 4, 64, 'f', 4, 0, 0, 0},
        {"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32."
         "ue4m3",
         e2m1s, e2m1s, 4, 64, 'f', 4, 0, 1, 3},
        {"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32."
         "ue8m0",
         e2m1s, e2m1s, 4, 64, 'f', 2, 2, 1, 2},
        {"m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32."
         "ue8m0",
         e2m1s, e2m1s, 4, 64, 'f', 2, 0, 0, 1},
        {"m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32."
         "ue8m0",
         e4m3s, e5m2s, 8, 32, 'f', 1, 3, 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        check_shape(&shapes[i]);
}

TEST(forms_that_are_refused)
{
    static const char *const cases[][2] = {
        {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {q}, {q}, {q}, {q};",
         "of the shapes only"},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {a,a,a,a}, {a,a}, {a}, "
         "{a,a,a,a};",
         "elements of type s4"},
        {"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32 {a,a,a,a}, "
         "{a,a,a,a}, {a,a}, {a,a,a,a};",
         "E2M1 elements one a byte"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char ptx[1024];
        snprintf(ptx, sizeof ptx,
                 ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry "
                 "test()\n{\n.reg .b32 a; .reg .f64 q;\n%s\nret;\n}\n",
                 cases[i][0]);
        struct emu_run r = {.ptx = ptx, .threads = 32};
        CHECK(!emu_launch(&r));
        if (!strstr(emu_refusal(&r), cases[i][1]))
            test_fail(__FILE__, __LINE__, "expected \"%s\", got %s", cases[i][1],
                      emu_refusal(&r));
        emu_done(&r);
    }
}

TEST(movmatrix_transposes)
{
    static const char ptx[] =
        ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry test(.param "
        ".u64 "
        "out)\n{\n.reg .b32 t, a, b; .reg .b64 q;\n"
        "ld.param.u64 q, [out]; mov.u32 t, %tid.x; mad.wide.u32 q, t, 4, q;\n"
        "shl.b32 a, t, 1; mad.lo.u32 a, a, 65537, 65536;\n" /* element i of row-major: i
                                                             */
        "movmatrix.sync.aligned.m8n8.trans.b16 b, a;\n"
        "st.global.b32 [q], b;\nret;\n}\n";
    struct emu_run r = {.ptx = ptx, .threads = 32};
    uint64_t out = emu_alloc(&r, 128);
    emu_param(&r, &out, 8);
    EMU_FINE(&r);
    for (int i = 0; i < 64; i++) {
        uint16_t x;
        memcpy(&x, emu_bytes(out) + 2 * i, 2);
        CHECK_EQ(x, i % 8 * 8 + i / 8);
    }
    emu_done(&r);
}
