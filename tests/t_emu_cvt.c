/* t_emu_cvt.c - conversions, exhaustively where the format is small.
 *
 * Narrow formats are rounded here by searching a table of all their values, which is
 * built from the definition of the format; wide ones by the host in the rounding mode
 * that is asked for. */
#include "tests/emu_insn.h"
#include "tests/test.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef const uint64_t *src;
typedef uint64_t (*operand_list)[EMU_INSN_SOURCES];

static float f_of(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static uint64_t bits_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static double d_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- formats */

struct format {
    const char *name;
    int bits, exp_bits, man_bits, bias;
    uint32_t largest; /* code of the largest finite value */
    uint32_t nan;     /* what NaN becomes */
    bool has_inf;
};

static const struct format e2m1 = {"e2m1x2", 4, 2, 1, 1, 0x7, 0x7, false};
static const struct format e2m3 = {"e2m3x2", 6, 2, 3, 1, 0x1f, 0x1f, false};
static const struct format e3m2 = {"e3m2x2", 6, 3, 2, 3, 0x1f, 0x1f, false};
static const struct format e4m3 = {"e4m3x2", 8, 4, 3, 7, 0x7e, 0x7f, false};
static const struct format e5m2 = {"e5m2x2", 8, 5, 2, 15, 0x7b, 0x7f, true};
static const struct format f16 = {"f16x2", 16, 5, 10, 15, 0x7bff, 0x7fff, true};
static const struct format bf16 = {"bf16x2", 16, 8, 7, 127, 0x7f7f, 0x7fff, true};

static double value_of(const struct format *f, uint32_t code)
{
    uint32_t e = code >> f->man_bits & ((1u << f->exp_bits) - 1);
    uint32_t m = code & ((1u << f->man_bits) - 1);
    double x = e == 0 ? ldexp(m, 1 - f->bias - f->man_bits)
                      : ldexp(m + (1u << f->man_bits), (int)e - f->bias - f->man_bits);
    return code >> (f->bits - 1) & 1 ? -x : x;
}

enum direction { NEAREST, ZERO, DOWN, UP };

static uint32_t search(const struct format *f, double x, enum direction dir,
                       bool satfinite)
{
    uint32_t sign = signbit(x) ? 1u << (f->bits - 1) : 0, low = 0, high = f->largest;
    if (isnan(x))
        return f->nan;
    bool away = (dir == UP && !sign) || (dir == DOWN && sign);
    x = fabs(x);
    uint32_t beyond = satfinite || !f->has_inf ? f->largest : f->largest + 1;
    if (isinf(x))
        return sign | beyond;
    while (low < high) {
        uint32_t mid = (low + high + 1) / 2;
        if (value_of(f, mid) <= x)
            low = mid;
        else
            high = mid - 1;
    }
    double at = value_of(f, low);
    if (at == x)
        return sign | low;
    /* The one above the largest counts as if the exponent went on. */
    double next =
        low < f->largest ? value_of(f, low + 1) : at + (at - value_of(f, low - 1));
    uint32_t above = low < f->largest ? low + 1 : beyond;
    bool up =
        dir == NEAREST ? x - at > next - x || (x - at == next - x && (low & 1)) : away;
    return sign | (up ? above : low);
}

/* Every value, every midpoint, and their neighbours, as f32 bits. */
static size_t interesting(const struct format *f, operand_list *list)
{
    size_t count = 0;
    *list = calloc((size_t)(f->largest + 2) * 12 + 16, sizeof **list);
    if (!*list)
        abort();
    for (uint32_t code = 0; code <= f->largest; code++) {
        double at = value_of(f, code);
        double next = code < f->largest ? value_of(f, code + 1)
                                        : at + (at - value_of(f, code - 1));
        float points[] = {(float)at, (float)((at + next) / 2)};
        for (int k = 0; k < 2; k++)
            for (int step = -1; step <= 1; step++) {
                float x = step == 0 ? points[k]
                                    : nextafterf(points[k], step < 0 ? 0.0f : INFINITY);
                (*list)[count++][0] = bits_of(x);
                (*list)[count++][0] = bits_of(-x);
            }
    }
    static const uint64_t more[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u,
                                    0x7f7fffffu, 0xff7fffffu, 0x00000001u, 0x80000001u};
    for (size_t i = 0; i < COUNT_OF(more); i++)
        (*list)[count++][0] = more[i];
    return count;
}

static uint64_t *run(const char *text, const char *types, size_t count,
                     operand_list list)
{
    uint64_t *results = calloc(count, sizeof *results);
    if (!results)
        abort();
    struct emu_insn i = {text, types};
    emu_insn_run(&i, count, (const uint64_t(*)[EMU_INSN_SOURCES])list, results);
    return results;
}

/* ---- two f32 into a pair */

static uint32_t spacing(const struct format *f)
{
    return f->bits == 4 ? 4 : f->bits == 16 ? 16 : 8;
}

static void check_pair(const struct format *f, const char *mods, enum direction dir)
{
    operand_list list;
    size_t count = interesting(f, &list);
    bool satfinite = strstr(mods, "satfinite"), relu = strstr(mods, "relu");
    /* The second source runs through the list backwards. */
    for (size_t i = 0; i < count; i++)
        list[i][1] = list[count - 1 - i][0];
    char text[128];
    strcpy(text, "cvt.");
    strcat(text, mods);
    strcat(text, ".");
    strcat(text, f->name);
    strcat(text, ".f32 %0, %1, %2;");
    uint64_t *got = run(text,
                        f->bits == 4    ? "brr"
                        : f->bits == 16 ? "rrr"
                                        : "hrr",
                        count, list);
    for (size_t i = 0; i < count; i++) {
        uint32_t want = 0;
        for (int k = 0; k < 2; k++) {
            float x = f_of(list[i][k]);
            uint32_t code =
                relu && !isnan(x) && !(x > 0) ? 0 : search(f, x, dir, satfinite);
            want |= code << (k == 0 ? spacing(f) : 0);
        }
        if (got[i] != want)
            test_fail(__FILE__, __LINE__, "%s of 0x%llx, 0x%llx gives 0x%llx, not 0x%x",
                      text, (unsigned long long)list[i][0],
                      (unsigned long long)list[i][1], (unsigned long long)got[i], want);
    }
    free(got);
    free(list);
}

TEST(fp4_from_f32)
{
    check_pair(&e2m1, "rn.satfinite", NEAREST);
    check_pair(&e2m1, "rn.satfinite.relu", NEAREST);
}

TEST(fp6_from_f32)
{
    check_pair(&e2m3, "rn.satfinite", NEAREST);
    check_pair(&e3m2, "rn.satfinite", NEAREST);
    check_pair(&e3m2, "rn.satfinite.relu", NEAREST);
}

TEST(fp8_from_f32)
{
    check_pair(&e4m3, "rn.satfinite", NEAREST);
    check_pair(&e5m2, "rn.satfinite", NEAREST);
    check_pair(&e4m3, "rn.satfinite.relu", NEAREST);
}

TEST(f16_pairs_from_f32)
{
    check_pair(&f16, "rn", NEAREST);
    check_pair(&f16, "rz", ZERO);
    check_pair(&f16, "rn.satfinite", NEAREST);
    check_pair(&f16, "rn.relu", NEAREST);
}

TEST(bf16_pairs_from_f32)
{
    check_pair(&bf16, "rn", NEAREST);
    check_pair(&bf16, "rz", ZERO);
    check_pair(&bf16, "rn.satfinite", NEAREST);
    check_pair(&bf16, "rn.relu", NEAREST);
}

/* The cases of the field reports: codes for E2M1 and E4M3. */
TEST(values_from_the_field)
{
    static const struct {
        float x;
        uint32_t e2m1, e4m3;
    } rows[] = {
        {5.25f, 7, 0x4a},      {5.1f, 7, 0x4a},       {2.6f, 5, 0x42},
        {3.3f, 5, 0x45},       {0.25f, 0, 0x28},      {0.75f, 2, 0x34},
        {1.25f, 2, 0x3a},      {1.75f, 4, 0x3e},      {2.5f, 4, 0x42},
        {3.5f, 6, 0x46},       {5.0f, 6, 0x4a},       {250, 7, 0x78},
        {248, 7, 0x78},        {244, 7, 0x77},        {240, 7, 0x77},
        {0.001f, 0, 0x01},     {448, 7, 0x7e},        {464, 7, 0x7e},
        {480, 7, 0x7e},        {500, 7, 0x7e},        {INFINITY, 7, 0x7e},
        {0.0009765625f, 0, 0}, {1.5f / 512, 0, 0x02},
    };
    uint64_t list[COUNT_OF(rows)][EMU_INSN_SOURCES] = {{0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        list[i][0] = bits_of(rows[i].x);
    uint64_t *fp4 =
        run("cvt.rn.satfinite.e2m1x2.f32 %0, %1, %2;", "brr", COUNT_OF(rows), list);
    uint64_t *fp8 =
        run("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;", "hrr", COUNT_OF(rows), list);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(fp4[i], rows[i].e2m1 << 4);
        CHECK_EQ(fp8[i], rows[i].e4m3 << 8);
    }
    free(fp4);
    free(fp8);
}

/* ---- back to f16 */

static void check_back(const struct format *f, const char *text, const char *types)
{
    size_t codes = (size_t)1 << f->bits, count = codes * 4;
    operand_list list = calloc(count, sizeof *list);
    if (!list)
        abort();
    for (size_t i = 0; i < count; i++)
        list[i][0] = i % codes << spacing(f) | (i * 7 + 3) % codes;
    uint64_t *got = run(text, types, count, list);
    for (size_t i = 0; i < count; i++) {
        uint64_t want = 0;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t code =
                (uint32_t)(list[i][0] >> (k * spacing(f))) & (uint32_t)(codes - 1);
            uint32_t body = code & (uint32_t)(codes / 2 - 1);
            double x = value_of(f, code);
            if (f->has_inf && body == f->largest + 1)
                x = code == body ? INFINITY : -INFINITY;
            else if (body > f->largest)
                x = NAN;
            want |= (uint64_t)search(&f16, x, NEAREST, false) << (16 * k);
        }
        if (got[i] != want)
            test_fail(__FILE__, __LINE__, "%s of 0x%llx gives 0x%llx, not 0x%llx", text,
                      (unsigned long long)list[i][0], (unsigned long long)got[i],
                      (unsigned long long)want);
    }
    free(got);
    free(list);
}

TEST(narrow_formats_to_f16)
{
    check_back(&e2m1, "cvt.rn.f16x2.e2m1x2 %0, %1;", "rb");
    check_back(&e4m3, "cvt.rn.f16x2.e4m3x2 %0, %1;", "rh");
    check_back(&e5m2, "cvt.rn.f16x2.e5m2x2 %0, %1;", "rh");
    check_back(&e2m3, "cvt.rn.f16x2.e2m3x2 %0, %1;", "rh");
    check_back(&e3m2, "cvt.rn.f16x2.e3m2x2 %0, %1;", "rh");
}

TEST(fp8_from_f16)
{
    operand_list list = calloc(65536, sizeof *list);
    if (!list)
        abort();
    for (uint64_t i = 0; i < 65536; i++)
        list[i][0] = (i ^ 0x5a5a) << 16 | i;
    uint64_t *got = run("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;", "hr", 65536, list);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t want = 0;
        for (int k = 0; k < 2; k++) {
            uint32_t h = k ? i ^ 0x5a5a : i, body = h & 0x7fff;
            double x = body > 0x7c00    ? (double)NAN
                       : body == 0x7c00 ? (h >> 15 ? -INFINITY : INFINITY)
                                        : value_of(&f16, h);
            want |= search(&e4m3, x, NEAREST, true) << (8 * k);
        }
        if (got[i] != want)
            test_fail(__FILE__, __LINE__, "0x%x gives 0x%llx, not 0x%x", i,
                      (unsigned long long)got[i], want);
    }
    free(got);
    free(list);
}

/* ---- ue8m0: powers of two, the sign ignored */

static uint32_t power_of_two(double x, bool up)
{
    if (isnan(x))
        return 0xff;
    x = fabs(x);
    for (uint32_t code = 0; code < 0xff; code++) {
        double at = ldexp(1, (int)code - 127);
        if (up ? at >= x : code == 0xfe || ldexp(1, (int)code - 126) > x)
            return code;
    }
    return 0xfe;
}

TEST(ue8m0_from_f32)
{
    size_t count = 0;
    operand_list list = calloc(2048, sizeof *list);
    if (!list)
        abort();
    for (int e = -149; e < 128; e++)
        for (int step = -1; step <= 1; step++) {
            float x = ldexpf(1, e);
            x = step == 0 ? x : nextafterf(x, step < 0 ? 0.0f : INFINITY);
            list[count][0] = bits_of(e % 2 ? x : -x);
            list[count++][1] = bits_of(1.5f);
        }
    static const uint64_t more[] = {0, 0x80000000u, 0x7f800000u, 0x7fc00000u,
                                    0x7f7fffffu};
    for (size_t i = 0; i < COUNT_OF(more); i++)
        list[count++][0] = more[i];
    uint64_t *up = run("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;", "hrr", count, list);
    uint64_t *down =
        run("cvt.rz.satfinite.ue8m0x2.f32 %0, %1, %2;", "hrr", count, list);
    for (size_t i = 0; i < count; i++) {
        double x = f_of(list[i][0]), y = f_of(list[i][1]);
        CHECK_EQ(up[i], power_of_two(x, true) << 8 | power_of_two(y, true));
        CHECK_EQ(down[i], power_of_two(x, false) << 8 | power_of_two(y, false));
    }
    CHECK_EQ(up[0] & 0xff, 0x80); /* 1.5 */
    free(up);
    free(down);
    free(list);
}

TEST(ue8m0_to_bf16)
{
    uint64_t list[256][EMU_INSN_SOURCES] = {{0}};
    for (uint64_t i = 0; i < 256; i++)
        list[i][0] = (255 - i) << 8 | i;
    uint64_t *got = run("cvt.rn.bf16x2.ue8m0x2 %0, %1;", "rh", 256, list);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t low = i == 255 ? 0x7fff : i == 0 ? 0x0040 : i << 7;
        uint32_t j = 255 - i, high = j == 255 ? 0x7fff : j == 0 ? 0x0040 : j << 7;
        CHECK_EQ(got[i], (uint64_t)high << 16 | low);
    }
    free(got);
}

/* ---- one value: f16 and bf16 */

static uint64_t widened(const struct format *f, uint32_t code)
{
    uint32_t body = code & 0x7fff;
    if (body > f->largest + 1)
        return 0x7fffffffu;
    if (body == f->largest + 1)
        return code >> 15 ? 0xff800000u : 0x7f800000u;
    return bits_of((float)value_of(f, code));
}

TEST(all_halves_to_f32)
{
    operand_list list = calloc(65536, sizeof *list);
    if (!list)
        abort();
    for (uint64_t i = 0; i < 65536; i++)
        list[i][0] = i;
    uint64_t *half = run("cvt.f32.f16 %0, %1;", "rh", 65536, list);
    uint64_t *brain = run("cvt.f32.bf16 %0, %1;", "rh", 65536, list);
    for (uint32_t i = 0; i < 65536; i++) {
        CHECK_EQ(half[i], widened(&f16, i));
        CHECK_EQ(brain[i], i << 16); /* NaN as well */
    }
    free(half);
    free(brain);
    free(list);
}

static void check_half(const struct format *f, const char *text, enum direction dir)
{
    operand_list list;
    size_t count = interesting(f, &list);
    uint64_t *got = run(text, "hr", count, list);
    for (size_t i = 0; i < count; i++) {
        uint32_t want = search(f, f_of(list[i][0]), dir, false);
        if (got[i] != want)
            test_fail(__FILE__, __LINE__, "%s of 0x%llx gives 0x%llx, not 0x%x", text,
                      (unsigned long long)list[i][0], (unsigned long long)got[i], want);
    }
    free(got);
    free(list);
}

TEST(halves_from_f32_in_every_direction)
{
    check_half(&f16, "cvt.rn.f16.f32 %0, %1;", NEAREST);
    check_half(&f16, "cvt.rz.f16.f32 %0, %1;", ZERO);
    check_half(&f16, "cvt.rm.f16.f32 %0, %1;", DOWN);
    check_half(&f16, "cvt.rp.f16.f32 %0, %1;", UP);
    check_half(&bf16, "cvt.rn.bf16.f32 %0, %1;", NEAREST);
    check_half(&bf16, "cvt.rm.bf16.f32 %0, %1;", DOWN);
}

/* ---- between integers */

static const uint64_t edges[] = {
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x10000,
    0x7fffffffu,
    0x80000000u,
    0xffffff80u,
    0xffffffffu,
    0x100000000u,
    0x7fffffffffffffffu,
    0x8000000000000000u,
    0xffffffffffffff7fu,
    0xffffffffffffffffu,
};

static int64_t sign(uint64_t x, int bits)
{
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    x &= ones;
    return x >> (bits - 1) & 1 ? -(int64_t)(ones - x) - 1 : (int64_t)x;
}

static void ints(int line, const char *text, const char *types, emu_want *want)
{
    struct emu_insn i = {text, types};
    emu_insn_check(__FILE__, line, &i, edges, COUNT_OF(edges), NULL, 0, want);
}

#define INTS(text, types, want) ints(__LINE__, text, types, want)
#define WANT(name, expr)                                                               \
    static uint64_t name(src s)                                                        \
    {                                                                                  \
        return (uint64_t)(expr);                                                       \
    }

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

WANT(low8, s[0] & 0xff)
WANT(low16, s[0] & 0xffff)
WANT(low32, s[0] & 0xffffffffu)
WANT(s64_s8, sign(s[0], 8))
WANT(s32_s8, (uint64_t)sign(s[0], 8) & 0xffffffffu)
WANT(s16_s8, (uint64_t)sign(s[0], 8) & 0xffff)
WANT(s64_s16, sign(s[0], 16))
WANT(s64_s32, sign(s[0], 32))
WANT(u64_u32, s[0] & 0xffffffffu)
WANT(s8_sat_s32, (uint64_t)clamp(sign(s[0], 32), -128, 127) & 0xffffffffu)
WANT(u8_sat_s32, clamp(sign(s[0], 32), 0, 255))
WANT(u16_sat_u32, (s[0] & 0xffffffffu) > 0xffff ? 0xffff : s[0] & 0xffff)
WANT(s32_sat_s64,
     (uint64_t)clamp(sign(s[0], 64), -2147483647 - 1, 2147483647) & 0xffffffffu)
WANT(s32_sat_u64, s[0] > 0x7fffffff ? 0x7fffffff : s[0])
WANT(u32_sat_s64, clamp(sign(s[0], 64), 0, 0xffffffff))

TEST(integers_cut_extend_and_saturate)
{
    INTS("cvt.u32.u8 %0, %1;", "rr", low8);
    INTS("cvt.u16.u32 %0, %1;", "hr", low16);
    INTS("cvt.u32.u16 %0, %1;", "rh", low16);
    INTS("cvt.u32.u64 %0, %1;", "rd", low32);
    INTS("cvt.s64.s8 %0, %1;", "dr", s64_s8);
    INTS("cvt.s32.s8 %0, %1;", "rh", s32_s8);
    INTS("cvt.s16.s8 %0, %1;", "hr", s16_s8);
    INTS("cvt.s64.s16 %0, %1;", "dh", s64_s16);
    INTS("cvt.s64.s32 %0, %1;", "dr", s64_s32);
    INTS("cvt.u64.u32 %0, %1;", "dr", u64_u32);
    INTS("cvt.s8.s32 %0, %1;", "rr", s32_s8);
    INTS("cvt.sat.s8.s32 %0, %1;", "rr", s8_sat_s32);
    INTS("cvt.sat.u8.s32 %0, %1;", "rr", u8_sat_s32);
    INTS("cvt.sat.u16.u32 %0, %1;", "hr", u16_sat_u32);
    INTS("cvt.sat.s32.s64 %0, %1;", "rd", s32_sat_s64);
    INTS("cvt.sat.s32.u64 %0, %1;", "rd", s32_sat_u64);
    INTS("cvt.sat.u32.s64 %0, %1;", "rd", u32_sat_s64);
}

WANT(pack_u8, (uint64_t)clamp(sign(s[0], 32), 0, 255) << 8 |
                  (uint64_t)clamp(sign(s[1], 32), 0, 255) | (s[2] & 0xffff) << 16)
WANT(pack_s16, ((uint64_t)clamp(sign(s[0], 32), -32768, 32767) & 0xffff) << 16 |
                   ((uint64_t)clamp(sign(s[1], 32), -32768, 32767) & 0xffff))

TEST(packing_with_saturation)
{
    INTS("cvt.pack.sat.s16.s32 %0, %1, %2;", "rrr", pack_s16);
    INTS("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;", "rrrr", pack_u8);
}

/* ---- integers and floats */

static int mode;

static uint64_t f_bits(float x)
{
    return isnan(x) ? 0x7fffffffu : bits_of(x);
}

static uint64_t want_f32_s32(src s)
{
    volatile int32_t x = (int32_t)sign(s[0], 32);
    fesetround(mode);
    volatile float r = (float)x;
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

static uint64_t want_f32_u64(src s)
{
    volatile uint64_t x = s[0];
    fesetround(mode);
    volatile float r = (float)x;
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

static uint64_t want_f32_s64(src s)
{
    volatile int64_t x = sign(s[0], 64);
    fesetround(mode);
    volatile float r = (float)x;
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

static uint64_t want_f64_u64(src s)
{
    if (s[0] == 0)
        return 0; /* clang makes -0 of it when rounding down */
    volatile uint64_t x = s[0];
    fesetround(mode);
    volatile double r = (double)x;
    fesetround(FE_TONEAREST);
    double out = r;
    uint64_t b;
    memcpy(&b, &out, sizeof b);
    return b;
}

static const struct {
    const char *name;
    int mode;
} modes[] = {{"rn", FE_TONEAREST},
             {"rz", FE_TOWARDZERO},
             {"rm", FE_DOWNWARD},
             {"rp", FE_UPWARD}};

static void in_all_modes(int line, const char *rest, const char *types,
                         const uint64_t *values, size_t count, bool integral,
                         emu_want *want)
{
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        char text[128];
        strcpy(text, "cvt.");
        strcat(text, modes[k].name);
        strcat(text, integral ? "i" : "");
        strcat(text, rest);
        mode = modes[k].mode;
        struct emu_insn i = {text, types};
        emu_insn_check(__FILE__, line, &i, values, count, NULL, 0, want);
    }
}

static const uint64_t near_ties[] = {
    0,
    1,
    16777215,
    16777216,
    16777217,
    16777218,
    16777219,
    33554434,
    0x7fffffbfu,
    0x7fffffc0u,
    0x7fffffffu,
    0x80000000u,
    0xffffff7fu,
    0xfffffffeu,
    0x0100000100000000u,
    0x0100000100000001u,
    0x0020000000000001u,
    0x0020000000000003u,
    0x7ffffffffffffdffu,
    0x8000008000000000u,
    0x8000008000000001u,
    0xfffffffffffffbffu,
    0xffffffffffffffffu,
};

TEST(integers_to_floats_in_every_direction)
{
    in_all_modes(__LINE__, ".f32.s32 %0, %1;", "rr", near_ties, COUNT_OF(near_ties),
                 false, want_f32_s32);
    in_all_modes(__LINE__, ".f32.u64 %0, %1;", "rd", near_ties, COUNT_OF(near_ties),
                 false, want_f32_u64);
    in_all_modes(__LINE__, ".f32.s64 %0, %1;", "rd", near_ties, COUNT_OF(near_ties),
                 false, want_f32_s64);
    in_all_modes(__LINE__, ".f64.u64 %0, %1;", "dd", near_ties, COUNT_OF(near_ties),
                 false, want_f64_u64);
}

static const uint64_t floats[] = {
    0x00000000u, 0x80000000u, 0x3effffffu, 0x3f000000u, 0x3f000001u, 0xbf000000u,
    0x3fc00000u, 0x40200000u, 0xc0200000u, 0x40600000u, 0x42fe0000u, 0x42feffffu,
    0x42ff0000u, 0xc3000000u, 0xc3008000u, 0x437f8000u, 0x43800000u, 0x477fff00u,
    0x4f000000u, 0xcf000000u, 0x4effffffu, 0x4f800000u, 0x5f000000u, 0x5effffffu,
    0xdf000000u, 0x5f800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u,
    0x00000001u, 0x80000001u,
};

/* Rounded to an integer in the mode that is set. */
static double integral(double x)
{
    fesetround(mode);
    volatile double in = x;
    volatile double r = nearbyint(in);
    fesetround(FE_TONEAREST);
    return r;
}

static uint64_t clamp_signed(double x, int bits)
{
    double limit = ldexp(1, bits - 1);
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (x >= limit)
        return ones >> 1;
    if (x <= -limit)
        return (ones >> 1) + 1;
    return (uint64_t)(int64_t)x & ones;
}

static uint64_t clamp_unsigned(double x, int bits)
{
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return x <= 0 ? 0 : x >= ldexp(1, bits) ? ones : (uint64_t)x;
}

WANT(s32_f32, clamp_signed(integral(f_of(s[0])), 32))
WANT(u32_f32, clamp_unsigned(integral(f_of(s[0])), 32))
WANT(s16_f32, clamp_signed(integral(f_of(s[0])), 16))
WANT(u8_f32, clamp_unsigned(integral(f_of(s[0])), 8))
WANT(s8_f32, (uint64_t)sign(clamp_signed(integral(f_of(s[0])), 8), 8) & 0xffffffffu)
WANT(s64_f32, clamp_signed(integral(f_of(s[0])), 64))
WANT(u64_f32, clamp_unsigned(integral(f_of(s[0])), 64))
WANT(f32_f32, f_bits((float)integral(f_of(s[0]))))

TEST(floats_to_integers_in_every_direction)
{
    in_all_modes(__LINE__, ".s32.f32 %0, %1;", "rr", floats, COUNT_OF(floats), true,
                 s32_f32);
    in_all_modes(__LINE__, ".u32.f32 %0, %1;", "rr", floats, COUNT_OF(floats), true,
                 u32_f32);
    in_all_modes(__LINE__, ".s16.f32 %0, %1;", "hr", floats, COUNT_OF(floats), true,
                 s16_f32);
    in_all_modes(__LINE__, ".u8.f32 %0, %1;", "rr", floats, COUNT_OF(floats), true,
                 u8_f32);
    in_all_modes(__LINE__, ".s8.f32 %0, %1;", "rr", floats, COUNT_OF(floats), true,
                 s8_f32);
    in_all_modes(__LINE__, ".s64.f32 %0, %1;", "dr", floats, COUNT_OF(floats), true,
                 s64_f32);
    in_all_modes(__LINE__, ".u64.f32 %0, %1;", "dr", floats, COUNT_OF(floats), true,
                 u64_f32);
    in_all_modes(__LINE__, ".f32.f32 %0, %1;", "rr", floats, COUNT_OF(floats), true,
                 f32_f32);
}

TEST(nan_to_integers)
{
    static const struct {
        const char *text, *types;
        uint64_t nan, want;
    } rows[] = {
        {"cvt.rzi.s32.f32 %0, %1;", "rr", 0x7fc00000u, 0},
        {"cvt.rzi.u32.f32 %0, %1;", "rr", 0xffc00000u, 0},
        {"cvt.rzi.s64.f32 %0, %1;", "dr", 0x7fc00000u, 0x8000000000000000u},
        {"cvt.rzi.u64.f32 %0, %1;", "dr", 0x7fc00000u, 0x8000000000000000u},
        {"cvt.rzi.s32.f64 %0, %1;", "rd", 0x7ff8000000000000u, 0x80000000u},
        {"cvt.rni.s32.f16 %0, %1;", "rh", 0x7e00, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t list[1][EMU_INSN_SOURCES] = {{rows[i].nan}};
        uint64_t *got = run(rows[i].text, rows[i].types, 1, list);
        CHECK_EQ(got[0], rows[i].want);
        free(got);
    }
}

/* ---- f64, tf32, .sat, .ftz */

static uint64_t want_f32_f64(src s)
{
    volatile double x = d_of(s[0]);
    fesetround(mode);
    volatile float r = (float)x;
    fesetround(FE_TONEAREST);
    float kept = r;
    uint32_t b; /* a NaN's own bits: as on a GPU, sign and payload stay */
    memcpy(&b, &kept, sizeof b);
    return b;
}

static uint64_t want_f64_f32(src s)
{
    double x = f_of(s[0]);
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static uint64_t want_sat(src s)
{
    float x = f_of(s[0]);
    return !(x > 0) ? 0 : x > 1 ? 0x3f800000u : s[0];
}

static uint64_t want_ftz(src s)
{
    return fpclassify(f_of(s[0])) == FP_SUBNORMAL ? s[0] & 0x80000000u : s[0];
}

/* Ten bits of mantissa, ties away from zero. */
static uint64_t want_tf32_rna(src s)
{
    if ((s[0] & 0x7f800000u) == 0x7f800000u)
        return s[0];
    uint64_t kept = s[0] & ~(uint64_t)0x1fff;
    return kept + (s[0] & 0x1000 ? 0x2000 : 0);
}

TEST(wide_floats)
{
    static const uint64_t doubles[] = {0,
                                       0x8000000000000000u,
                                       0x3ff0000000000001u,
                                       0x3ff0000010000000u,
                                       0x3ff0000030000000u,
                                       0xbff0000010000001u,
                                       0x36a0000000000000u,
                                       0x3690000000000001u,
                                       0xb690000000000000u,
                                       0x47efffffe0000000u,
                                       0x47effffff0000000u,
                                       0x47efffffefffffffu,
                                       0x380fffffffffffffu,
                                       0x7fefffffffffffffu,
                                       0x7ff0000000000000u,
                                       0xfff0000000000000u,
                                       0x7ff8000000000000u,
                                       0x0000000000000001u};
    in_all_modes(__LINE__, ".f32.f64 %0, %1;", "rd", doubles, COUNT_OF(doubles), false,
                 want_f32_f64);
    struct emu_insn wide = {"cvt.f64.f32 %0, %1;", "dr"};
    emu_insn_check(__FILE__, __LINE__, &wide, floats, COUNT_OF(floats), NULL, 0,
                   want_f64_f32);
    struct emu_insn sat = {"cvt.sat.f32.f32 %0, %1;", "rr"};
    emu_insn_check(__FILE__, __LINE__, &sat, floats, COUNT_OF(floats), NULL, 0,
                   want_sat);
    struct emu_insn ftz = {"cvt.ftz.f32.f32 %0, %1;", "rr"};
    emu_insn_check(__FILE__, __LINE__, &ftz, floats, COUNT_OF(floats), NULL, 0,
                   want_ftz);
    struct emu_insn tf32 = {"cvt.rna.tf32.f32 %0, %1;", "rr"};
    static const uint64_t values[] = {0x3f800fffu, 0x3f801000u, 0x3f801001u,
                                      0xbf803000u, 0x3f7fffffu, 0x00001000u,
                                      0x7f800000u};
    emu_insn_check(__FILE__, __LINE__, &tf32, values, COUNT_OF(values), NULL, 0,
                   want_tf32_rna);
}
