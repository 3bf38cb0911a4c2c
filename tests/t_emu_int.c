/* t_emu_int.c - integer and bit instructions against definitions written out plainly.
 */
#include "tests/emu_insn.h"
#include "tests/test.h"

#include <string.h>

static const uint64_t edges[] = {
    0,
    1,
    2,
    7,
    0x7f,
    0x80,
    0x7fff,
    0x8000,
    0xffff,
    0x12345678,
    0x7fffffff,
    0x80000000u,
    0xfffffffeu,
    0xffffffffu,
    0x7fffffffffffffffu,
    0x8000000000000000u,
    0xfedcba9876543210u,
    0xffffffffffffffffu,
};
static const uint64_t shifts[] = {0,  1,  5,  15, 16, 17,  31,
                                  32, 33, 63, 64, 65, 255, 0xffffffffu};
static const uint64_t divisors[] = {1,
                                    3,
                                    0x7fff,
                                    0x8001,
                                    0x7fffffff,
                                    0x80000001u,
                                    0xffffffffu,
                                    0x8000000000000001u,
                                    0xffffffffffffffffu};

typedef const uint64_t *src;

static void check_all(int line, const char *text, const char *types, emu_want *want)
{
    struct emu_insn i = {text, types};
    emu_insn_check(__FILE__, line, &i, edges, COUNT_OF(edges), NULL, 0, want);
}

static void check_last(int line, const char *text, const char *types,
                       const uint64_t *last, size_t last_count, emu_want *want)
{
    struct emu_insn i = {text, types};
    emu_insn_check(__FILE__, line, &i, edges, COUNT_OF(edges), last, last_count, want);
}

#define SAME(text, types, want) check_all(__LINE__, text, types, want)
#define SHIFT(text, types, want)                                                       \
    check_last(__LINE__, text, types, shifts, COUNT_OF(shifts), want)
#define DIVIDE(text, types, want)                                                      \
    check_last(__LINE__, text, types, divisors, COUNT_OF(divisors), want)

#define WANT(name, expr)                                                               \
    static uint64_t name(src s)                                                        \
    {                                                                                  \
        return (uint64_t)(expr);                                                       \
    }

/* ---- values as signed numbers, written without casts that depend on the compiler */

static int64_t sign(uint64_t x, int bits)
{
    uint64_t top = (uint64_t)1 << (bits - 1);
    if (!(x & top))
        return (int64_t)x;
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return -(int64_t)(ones - x) - 1;
}

static uint64_t cut(uint64_t x, int bits)
{
    return bits == 64 ? x : x % ((uint64_t)1 << bits);
}

/* 128-bit product by shifting and adding. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t high = 0, low = 0;
    for (int i = 63; i >= 0; i--) {
        high = high << 1 | low >> 63;
        low <<= 1;
        if (a >> i & 1) {
            low += b;
            high += low < b;
        }
    }
    return high;
}

static uint64_t high_signed(uint64_t a, uint64_t b)
{
    bool negative = (a ^ b) >> 63;
    uint64_t x = a >> 63 ? 0 - a : a, y = b >> 63 ? 0 - b : b;
    uint64_t high = high_product(x, y), low = x * y;
    if (!negative)
        return high;
    return ~high + (low == 0);
}

/* ---- sums */

WANT(add16, cut(s[0] + s[1], 16))
WANT(add32, cut(s[0] + s[1], 32))
WANT(add64, s[0] + s[1])
WANT(sub16, cut(s[0] - s[1], 16))
WANT(sub32, cut(s[0] - s[1], 32))
WANT(sub64, s[0] - s[1])

static uint64_t clamp32(int64_t x)
{
    if (x > 2147483647)
        x = 2147483647;
    if (x < -2147483647 - 1)
        x = -2147483647 - 1;
    return cut((uint64_t)x, 32);
}

WANT(add_sat, clamp32(sign(s[0], 32) + sign(s[1], 32)))
WANT(sub_sat, clamp32(sign(s[0], 32) - sign(s[1], 32)))
WANT(add16x2, cut((s[0] >> 16) + (s[1] >> 16), 16) << 16 | cut(s[0] + s[1], 16))

TEST(sums_wrap_or_saturate)
{
    SAME("add.u16 %0, %1, %2;", "hhh", add16);
    SAME("add.s16 %0, %1, %2;", "hhh", add16);
    SAME("add.u32 %0, %1, %2;", "rrr", add32);
    SAME("add.s32 %0, %1, %2;", "rrr", add32);
    SAME("add.u64 %0, %1, %2;", "ddd", add64);
    SAME("add.s64 %0, %1, %2;", "ddd", add64);
    SAME("add.sat.s32 %0, %1, %2;", "rrr", add_sat);
    SAME("sub.s16 %0, %1, %2;", "hhh", sub16);
    SAME("sub.u32 %0, %1, %2;", "rrr", sub32);
    SAME("sub.s64 %0, %1, %2;", "ddd", sub64);
    SAME("sub.sat.s32 %0, %1, %2;", "rrr", sub_sat);
    SAME("add.u16x2 %0, %1, %2;", "rrr", add16x2);
    SAME("add.s16x2 %0, %1, %2;", "rrr", add16x2);
}

/* The carry of one addition goes into the next, lane by lane. */
WANT(add_wide, (s[0] + s[1]) >> 32)
WANT(carry64, s[0] + s[1] < s[0])
WANT(borrow32, cut(0 - (uint64_t)(s[0] < s[1]), 32))
WANT(carry_chain, cut((s[0] + s[1] + 1) >> 32, 32))
WANT(mad_carry, (cut(s[0] * s[1], 32) + s[2]) >> 32)
WANT(madc_hi, cut((s[0] * s[1] >> 32) + s[2] + ((s[0] + s[1]) >> 32), 32))

TEST(carries_chain)
{
    SAME("{ .reg .u32 z; @add.cc.u32 z, %1, %2; @addc.u32 %0, 0, 0; }", "rrr",
         add_wide);
    SAME("{ .reg .u64 z; @add.cc.u64 z, %1, %2; @addc.u64 %0, 0, 0; }", "ddd", carry64);
    SAME("{ .reg .u32 z; @sub.cc.u32 z, %1, %2; @subc.u32 %0, 0, 0; }", "rrr",
         borrow32);
    SAME(
        "{ .reg .u32 z; @add.cc.u32 z, -1, 1; @addc.cc.u32 z, %1, %2; @addc.u32 %0, 0, "
        "0; }",
        "rrr", carry_chain);
    SAME("{ .reg .u32 z; @mad.lo.cc.u32 z, %1, %2, %3; @addc.u32 %0, 0, 0; }", "rrrr",
         mad_carry);
    SAME("{ .reg .u32 z; @add.cc.u32 z, %1, %2; @madc.hi.u32 %0, %1, %2, %3; }", "rrrr",
         madc_hi);
}

/* ---- products */

WANT(mul_lo16, cut(s[0] * s[1], 16))
WANT(mul_lo32, cut(s[0] * s[1], 32))
WANT(mul_lo64, s[0] * s[1])
WANT(mul_hi_u16, s[0] * s[1] >> 16)
WANT(mul_hi_s16, cut((uint64_t)(sign(s[0], 16) * sign(s[1], 16)) >> 16, 16))
WANT(mul_hi_u32, s[0] * s[1] >> 32)
WANT(mul_hi_s32, (uint64_t)(sign(s[0], 32) * sign(s[1], 32)) >> 32)
WANT(mul_hi_u64, high_product(s[0], s[1]))
WANT(mul_hi_s64, high_signed(s[0], s[1]))
WANT(wide_u16, s[0] * s[1])
WANT(wide_s16, cut((uint64_t)(sign(s[0], 16) * sign(s[1], 16)), 32))
WANT(wide_s32, sign(s[0], 32) * sign(s[1], 32))
WANT(mad_lo32, cut(s[0] * s[1] + s[2], 32))
WANT(mad_lo64, s[0] * s[1] + s[2])
WANT(mad_hi_s32, cut(((uint64_t)(sign(s[0], 32) * sign(s[1], 32)) >> 32) + s[2], 32))
WANT(mad_hi_sat, clamp32(sign((uint64_t)(sign(s[0], 32) * sign(s[1], 32)) >> 32, 32) +
                         sign(s[2], 32)))
WANT(mad_wide_u32, s[0] * s[1] + s[2])
WANT(mad_wide_s32, (uint64_t)(sign(s[0], 32) * sign(s[1], 32)) + s[2])
WANT(mul24_s, cut((uint64_t)(sign(cut(s[0], 24), 24) * sign(cut(s[1], 24), 24)), 32))
WANT(mul24_hi, cut(cut(s[0], 24) * cut(s[1], 24) >> 16, 32))

TEST(products)
{
    SAME("mul.lo.u16 %0, %1, %2;", "hhh", mul_lo16);
    SAME("mul.lo.s32 %0, %1, %2;", "rrr", mul_lo32);
    SAME("mul.lo.s64 %0, %1, %2;", "ddd", mul_lo64);
    SAME("mul.hi.u16 %0, %1, %2;", "hhh", mul_hi_u16);
    SAME("mul.hi.s16 %0, %1, %2;", "hhh", mul_hi_s16);
    SAME("mul.hi.u32 %0, %1, %2;", "rrr", mul_hi_u32);
    SAME("mul.hi.s32 %0, %1, %2;", "rrr", mul_hi_s32);
    SAME("mul.hi.u64 %0, %1, %2;", "ddd", mul_hi_u64);
    SAME("mul.hi.s64 %0, %1, %2;", "ddd", mul_hi_s64);
    SAME("mul.wide.u16 %0, %1, %2;", "rhh", wide_u16);
    SAME("mul.wide.s16 %0, %1, %2;", "rhh", wide_s16);
    SAME("mul.wide.u32 %0, %1, %2;", "drr", wide_u16);
    SAME("mul.wide.s32 %0, %1, %2;", "drr", wide_s32);
    SAME("mul24.lo.s32 %0, %1, %2;", "rrr", mul24_s);
    SAME("mul24.hi.u32 %0, %1, %2;", "rrr", mul24_hi);
}

TEST(products_and_sums)
{
    SAME("mad.lo.s32 %0, %1, %2, %3;", "rrrr", mad_lo32);
    SAME("mad.lo.u64 %0, %1, %2, %3;", "dddd", mad_lo64);
    SAME("mad.hi.s32 %0, %1, %2, %3;", "rrrr", mad_hi_s32);
    SAME("mad.hi.sat.s32 %0, %1, %2, %3;", "rrrr", mad_hi_sat);
    SAME("mad.wide.u32 %0, %1, %2, %3;", "drrd", mad_wide_u32);
    SAME("mad.wide.s32 %0, %1, %2, %3;", "drrd", mad_wide_s32);
}

/* ---- quotients: C's own, which truncate; the one overflow wraps */

static int64_t quotient(int64_t a, int64_t b, int bits)
{
    if (b == -1)
        return sign(cut(0 - (uint64_t)a, bits), bits);
    return a / b;
}

static int64_t remainder_of(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

WANT(div_u, s[0] / s[1])
WANT(rem_u, s[0] % s[1])
WANT(div_s16, cut((uint64_t)quotient(sign(s[0], 16), sign(s[1], 16), 16), 16))
WANT(div_s32, cut((uint64_t)quotient(sign(s[0], 32), sign(s[1], 32), 32), 32))
WANT(div_s64, quotient(sign(s[0], 64), sign(s[1], 64), 64))
WANT(rem_s32, cut((uint64_t)remainder_of(sign(s[0], 32), sign(s[1], 32)), 32))
WANT(rem_s64, remainder_of(sign(s[0], 64), sign(s[1], 64)))

TEST(quotients_truncate)
{
    DIVIDE("div.u16 %0, %1, %2;", "hhh", div_u);
    DIVIDE("div.u32 %0, %1, %2;", "rrr", div_u);
    DIVIDE("div.u64 %0, %1, %2;", "ddd", div_u);
    DIVIDE("rem.u32 %0, %1, %2;", "rrr", rem_u);
    DIVIDE("rem.u64 %0, %1, %2;", "ddd", rem_u);
    DIVIDE("div.s16 %0, %1, %2;", "hhh", div_s16);
    DIVIDE("div.s32 %0, %1, %2;", "rrr", div_s32);
    DIVIDE("div.s64 %0, %1, %2;", "ddd", div_s64);
    DIVIDE("rem.s32 %0, %1, %2;", "rrr", rem_s32);
    DIVIDE("rem.s64 %0, %1, %2;", "ddd", rem_s64);
}

/* ---- signs, extrema, differences */

WANT(neg32, cut(0 - s[0], 32))
WANT(neg16, cut(0 - s[0], 16))
WANT(neg64, 0 - s[0])
WANT(abs16, cut(sign(s[0], 16) < 0 ? 0 - s[0] : s[0], 16))
WANT(abs32, cut(sign(s[0], 32) < 0 ? 0 - s[0] : s[0], 32))
WANT(abs64, sign(s[0], 64) < 0 ? 0 - s[0] : s[0])
WANT(min_u, s[0] < s[1] ? s[0] : s[1])
WANT(max_u, s[0] < s[1] ? s[1] : s[0])
WANT(min_s16, sign(s[0], 16) < sign(s[1], 16) ? s[0] : s[1])
WANT(max_s32, sign(s[0], 32) < sign(s[1], 32) ? s[1] : s[0])
WANT(min_s64, sign(s[0], 64) < sign(s[1], 64) ? s[0] : s[1])
WANT(max_relu, sign(max_s32(s), 32) < 0 ? 0 : max_s32(s))

static uint64_t max_s16x2(src s)
{
    uint64_t high[] = {s[0] >> 16, s[1] >> 16}, low[] = {cut(s[0], 16), cut(s[1], 16)};
    uint64_t h = sign(high[0], 16) > sign(high[1], 16) ? high[0] : high[1];
    uint64_t l = sign(low[0], 16) > sign(low[1], 16) ? low[0] : low[1];
    return h << 16 | l;
}

WANT(sad_u32, cut(s[2] + (s[0] > s[1] ? s[0] - s[1] : s[1] - s[0]), 32))
WANT(sad_s32, cut(s[2] + (uint64_t)(sign(s[0], 32) > sign(s[1], 32)
                                        ? sign(s[0], 32) - sign(s[1], 32)
                                        : sign(s[1], 32) - sign(s[0], 32)),
                  32))

TEST(signs_and_extrema)
{
    SAME("neg.s16 %0, %1;", "hh", neg16);
    SAME("neg.s32 %0, %1;", "rr", neg32);
    SAME("neg.s64 %0, %1;", "dd", neg64);
    SAME("abs.s16 %0, %1;", "hh", abs16);
    SAME("abs.s32 %0, %1;", "rr", abs32);
    SAME("abs.s64 %0, %1;", "dd", abs64);
    SAME("min.u16 %0, %1, %2;", "hhh", min_u);
    SAME("min.u32 %0, %1, %2;", "rrr", min_u);
    SAME("max.u32 %0, %1, %2;", "rrr", max_u);
    SAME("max.u64 %0, %1, %2;", "ddd", max_u);
    SAME("min.s16 %0, %1, %2;", "hhh", min_s16);
    SAME("max.s32 %0, %1, %2;", "rrr", max_s32);
    SAME("min.s64 %0, %1, %2;", "ddd", min_s64);
    SAME("max.relu.s32 %0, %1, %2;", "rrr", max_relu);
    SAME("max.s16x2 %0, %1, %2;", "rrr", max_s16x2);
    SAME("sad.u32 %0, %1, %2, %3;", "rrrr", sad_u32);
    SAME("sad.s32 %0, %1, %2, %3;", "rrrr", sad_s32);
}

static uint64_t dp4a(src s)
{
    int64_t sum = sign(s[2], 32);
    for (int i = 0; i < 4; i++)
        sum += sign(s[0] >> (8 * i) & 255, 8) * (int64_t)(s[1] >> (8 * i) & 255);
    return cut((uint64_t)sum, 32);
}

static uint64_t dp2a_hi(src s)
{
    int64_t sum = sign(s[2], 32);
    for (int i = 0; i < 2; i++)
        sum +=
            (int64_t)(s[0] >> (16 * i) & 0xffff) * sign(s[1] >> (16 + 8 * i) & 255, 8);
    return cut((uint64_t)sum, 32);
}

TEST(small_dot_products)
{
    SAME("dp4a.s32.u32 %0, %1, %2, %3;", "rrrr", dp4a);
    SAME("dp2a.hi.u32.s32 %0, %1, %2, %3;", "rrrr", dp2a_hi);
}

/* ---- logic and shifts */

WANT(and_, s[0] & s[1])
WANT(or_, s[0] | s[1])
WANT(xor_, s[0] ^ s[1])
WANT(not16, cut(~s[0], 16))
WANT(not32, cut(~s[0], 32))
WANT(not64, ~s[0])
WANT(notp, !s[0])
WANT(cnot, s[0] == 0)

TEST(logic)
{
    SAME("and.b16 %0, %1, %2;", "hhh", and_);
    SAME("and.b32 %0, %1, %2;", "rrr", and_);
    SAME("and.b64 %0, %1, %2;", "ddd", and_);
    SAME("or.b32 %0, %1, %2;", "rrr", or_);
    SAME("or.b64 %0, %1, %2;", "ddd", or_);
    SAME("xor.b16 %0, %1, %2;", "hhh", xor_);
    SAME("xor.b64 %0, %1, %2;", "ddd", xor_);
    SAME("not.b16 %0, %1;", "hh", not16);
    SAME("not.b32 %0, %1;", "rr", not32);
    SAME("not.b64 %0, %1;", "dd", not64);
    SAME("cnot.b32 %0, %1;", "rr", cnot);
    SAME("and.pred %0, %1, %2;", "ppp", and_);
    SAME("or.pred %0, %1, %2;", "ppp", or_);
    SAME("xor.pred %0, %1, %2;", "ppp", xor_);
    SAME("not.pred %0, %1;", "pp", notp);
}

static uint64_t lop3_e8(src s)
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i++) {
        uint64_t at = (s[0] >> i & 1) * 4 + (s[1] >> i & 1) * 2 + (s[2] >> i & 1);
        r |= ((uint64_t)0xe8 >> at & 1) << i;
    }
    return r;
}

static uint64_t lop3_17(src s)
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i++) {
        uint64_t at = (s[0] >> i & 1) * 4 + (s[1] >> i & 1) * 2 + (s[2] >> i & 1);
        r |= ((uint64_t)0x17 >> at & 1) << i;
    }
    return r;
}

TEST(lop3_follows_its_table)
{
    SAME("lop3.b32 %0, %1, %2, %3, 0xe8;", "rrrr", lop3_e8);
    SAME("lop3.b32 %0, %1, %2, %3, 0x17;", "rrrr", lop3_17);
}

WANT(shl16, s[1] > 15 ? 0 : cut(s[0] << s[1], 16))
WANT(shl32, s[1] > 31 ? 0 : cut(s[0] << s[1], 32))
WANT(shl64, s[1] > 63 ? 0 : s[0] << s[1])
WANT(shr_u16, s[1] > 15 ? 0 : s[0] >> s[1])
WANT(shr_u32, s[1] > 31 ? 0 : s[0] >> s[1])
WANT(shr_u64, s[1] > 63 ? 0 : s[0] >> s[1])

/* floor(a / 2^n), one bit at a time. */
static uint64_t shift_signed(uint64_t a, uint64_t n, int bits)
{
    int64_t x = sign(a, bits);
    for (uint64_t i = 0; i < n && i < 64; i++)
        x = x < 0 ? -(-(x + 1) / 2) - 1 : x / 2;
    return cut((uint64_t)x, bits);
}

WANT(shr_s16, shift_signed(s[0], s[1], 16))
WANT(shr_s32, shift_signed(s[0], s[1], 32))
WANT(shr_s64, shift_signed(s[0], s[1], 64))

TEST(shifts_clamp)
{
    SHIFT("shl.b16 %0, %1, %2;", "hhr", shl16);
    SHIFT("shl.b32 %0, %1, %2;", "rrr", shl32);
    SHIFT("shl.b64 %0, %1, %2;", "ddr", shl64);
    SHIFT("shr.u16 %0, %1, %2;", "hhr", shr_u16);
    SHIFT("shr.u32 %0, %1, %2;", "rrr", shr_u32);
    SHIFT("shr.b64 %0, %1, %2;", "ddr", shr_u64);
    SHIFT("shr.s16 %0, %1, %2;", "hhr", shr_s16);
    SHIFT("shr.s32 %0, %1, %2;", "rrr", shr_s32);
    SHIFT("shr.s64 %0, %1, %2;", "ddr", shr_s64);
}

/* The two registers as one of 64 bits, %2 above %1. */
static uint64_t funnel(src s, uint64_t n, bool left)
{
    uint64_t both = s[1] << 32 | s[0];
    if (n == 32)
        return left ? s[0] : s[1];
    return cut(left ? both << n >> 32 : both >> n, 32);
}

WANT(shf_l_wrap, funnel(s, s[2] % 32, true))
WANT(shf_r_wrap, funnel(s, s[2] % 32, false))
WANT(shf_l_clamp, funnel(s, s[2] > 32 ? 32 : s[2], true))
WANT(shf_r_clamp, funnel(s, s[2] > 32 ? 32 : s[2], false))

TEST(funnel_shifts)
{
    SHIFT("shf.l.wrap.b32 %0, %1, %2, %3;", "rrrr", shf_l_wrap);
    SHIFT("shf.r.wrap.b32 %0, %1, %2, %3;", "rrrr", shf_r_wrap);
    SHIFT("shf.l.clamp.b32 %0, %1, %2, %3;", "rrrr", shf_l_clamp);
    SHIFT("shf.r.clamp.b32 %0, %1, %2, %3;", "rrrr", shf_r_clamp);
}

/* ---- bit fields */

/* Beyond 255 PTX leaves it open. */
static uint64_t place(uint64_t x, int bits)
{
    return bits == 32 ? x & 255 : x < 255 ? x : 255;
}

static uint64_t field(src s, int bits, bool is_signed)
{
    uint64_t pos = place(s[1], bits), len = place(s[2], bits), r = 0;
    uint64_t top =
        pos + len - 1 < (uint64_t)bits - 1 ? pos + len - 1 : (uint64_t)bits - 1;
    uint64_t fill = is_signed && len ? s[0] >> top & 1 : 0;
    for (uint64_t i = 0; i < (uint64_t)bits; i++) {
        bool inside = i < len && pos + i < (uint64_t)bits;
        r += (inside ? s[0] >> (pos + i) & 1 : fill) << i;
    }
    return r;
}

WANT(bfe_u32, field(s, 32, false))
WANT(bfe_s32, field(s, 32, true))
WANT(bfe_u64, field(s, 64, false))
WANT(bfe_s64, field(s, 64, true))

static uint64_t bfi_32(src s)
{
    uint64_t pos = s[2] & 255, len = s[3] & 255, r = 0;
    for (uint64_t i = 0; i < 32; i++)
        r |= (i >= pos && i < pos + len ? s[0] >> (i - pos) & 1 : s[1] >> i & 1) << i;
    return r;
}

static uint64_t bfi_64(src s)
{
    uint64_t pos = place(s[2], 64), len = place(s[3], 64), r = 0;
    for (uint64_t i = 0; i < 64; i++)
        r |= (i >= pos && i < pos + len ? s[0] >> (i - pos) & 1 : s[1] >> i & 1) << i;
    return r;
}

TEST(bit_fields)
{
    static const uint64_t few[] = {0,  1,  5,  16,  31,         32,
                                   40, 63, 64, 255, 0x12345680, 0xfedcba9876543210u};
    static const struct {
        const char *text, *types;
        emu_want *want;
    } rows[] = {
        {"bfe.u32 %0, %1, %2, %3;", "rrrr", bfe_u32},
        {"bfe.s32 %0, %1, %2, %3;", "rrrr", bfe_s32},
        {"bfe.u64 %0, %1, %2, %3;", "ddrr", bfe_u64},
        {"bfe.s64 %0, %1, %2, %3;", "ddrr", bfe_s64},
        {"bfi.b32 %0, %1, %2, %3, %4;", "rrrrr", bfi_32},
        {"bfi.b64 %0, %1, %2, %3, %4;", "dddrr", bfi_64},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct emu_insn insn = {rows[i].text, rows[i].types};
        emu_insn_check(__FILE__, __LINE__, &insn, few, COUNT_OF(few), NULL, 0,
                       rows[i].want);
    }
}

/* ---- counting bits */

static uint64_t lead(uint64_t x, int bits)
{
    uint64_t n = 0;
    while (n < (uint64_t)bits && !(x >> ((uint64_t)bits - 1 - n) & 1))
        n++;
    return n;
}

static uint64_t ones(uint64_t x)
{
    uint64_t n = 0;
    for (; x; x >>= 1)
        n += x & 1;
    return n;
}

static uint64_t mirrored(uint64_t x, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        r = r << 1 | (x >> i & 1);
    return r;
}

static uint64_t leading(uint64_t x, int bits, bool is_signed)
{
    if (is_signed && sign(x, bits) < 0)
        x = cut(~x, bits);
    return x == 0 ? 0xffffffffu : (uint64_t)bits - 1 - lead(x, bits);
}

WANT(clz32, lead(s[0], 32))
WANT(clz64, lead(s[0], 64))
WANT(popc, ones(s[0]))
WANT(brev32, mirrored(s[0], 32))
WANT(brev64, mirrored(s[0], 64))
WANT(bfind_u32, leading(s[0], 32, false))
WANT(bfind_s32, leading(s[0], 32, true))
WANT(bfind_s64, leading(s[0], 64, true))
WANT(bfind_shift, leading(s[0], 32, false) == 0xffffffffu
                      ? 0xffffffffu
                      : 31 - leading(s[0], 32, false))

static uint64_t fns(src s)
{
    int64_t base = sign(s[1], 32), n = sign(s[2], 32);
    if (base < 0 || base > 31)
        return 0xffffffffu;
    if (n == 0)
        return s[0] >> base & 1 ? (uint64_t)base : 0xffffffffu;
    int64_t seen = 0;
    for (int64_t i = base; i >= 0 && i<32; i += n> 0 ? 1 : -1) {
        seen += (int64_t)(s[0] >> i & 1);
        if ((s[0] >> i & 1) && seen == (n > 0 ? n : -n))
            return (uint64_t)i;
    }
    return 0xffffffffu;
}

TEST(counting_bits)
{
    SAME("clz.b32 %0, %1;", "rr", clz32);
    SAME("clz.b64 %0, %1;", "rd", clz64);
    SAME("popc.b32 %0, %1;", "rr", popc);
    SAME("popc.b64 %0, %1;", "rd", popc);
    SAME("brev.b32 %0, %1;", "rr", brev32);
    SAME("brev.b64 %0, %1;", "dd", brev64);
    SAME("bfind.u32 %0, %1;", "rr", bfind_u32);
    SAME("bfind.s32 %0, %1;", "rr", bfind_s32);
    SAME("bfind.s64 %0, %1;", "rd", bfind_s64);
    SAME("bfind.shiftamt.u32 %0, %1;", "rr", bfind_shift);
    static const uint64_t offsets[] = {0, 1, 2, 3, 0xffffffffu, 0xfffffffeu, 40};
    check_last(__LINE__, "fns.b32 %0, %1, %2, %3;", "rrrr", offsets, COUNT_OF(offsets),
               fns);
}

/* ---- prmt, bmsk, szext */

static uint64_t byte_at(src s, uint64_t i)
{
    return i < 4 ? s[0] >> (8 * i) & 255 : s[1] >> (8 * (i - 4)) & 255;
}

static uint64_t prmt(src s)
{
    uint64_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t sel = s[2] >> (4 * i) & 15, b = byte_at(s, sel & 7);
        if (sel & 8)
            b = b >> 7 ? 255 : 0;
        r |= b << (8 * i);
    }
    return r;
}

static uint64_t prmt_f4e(src s)
{
    uint64_t r = 0, from = s[2] & 3;
    for (uint64_t i = 0; i < 4; i++)
        r |= byte_at(s, from + i) << (8 * i);
    return r;
}

static uint64_t prmt_b4e(src s)
{
    uint64_t r = 0, from = s[2] & 3;
    for (uint64_t i = 0; i < 4; i++)
        r |= byte_at(s, (from + 8 - i) % 8) << (8 * i);
    return r;
}

static uint64_t prmt_rc8(src s)
{
    return byte_at(s, s[2] & 3) * 0x01010101u;
}

static uint64_t prmt_ecl(src s)
{
    uint64_t r = 0;
    for (uint64_t i = 0; i < 4; i++)
        r |= byte_at(s, i > (s[2] & 3) ? i : s[2] & 3) << (8 * i);
    return r;
}

static uint64_t prmt_ecr(src s)
{
    uint64_t r = 0;
    for (uint64_t i = 0; i < 4; i++)
        r |= byte_at(s, i < (s[2] & 3) ? i : s[2] & 3) << (8 * i);
    return r;
}

static uint64_t prmt_rc16(src s)
{
    uint64_t half = s[0] >> (16 * (s[2] & 1)) & 0xffff;
    return half << 16 | half;
}

static uint64_t bmsk_clamp(src s)
{
    uint64_t r = 0;
    for (uint64_t i = 0; i < 32; i++)
        r |= (uint64_t)(i >= s[0] && i - s[0] < s[1]) << i;
    return r;
}

static uint64_t szext_s(src s)
{
    uint64_t n = s[1] & 31;
    return n == 0 ? 0 : cut((uint64_t)sign(cut(s[0], (int)n), (int)n), 32);
}

TEST(permutes_and_masks)
{
    SAME("prmt.b32 %0, %1, %2, %3;", "rrrr", prmt);
    SAME("prmt.b32.f4e %0, %1, %2, %3;", "rrrr", prmt_f4e);
    SAME("prmt.b32.b4e %0, %1, %2, %3;", "rrrr", prmt_b4e);
    SAME("prmt.b32.rc8 %0, %1, %2, %3;", "rrrr", prmt_rc8);
    SAME("prmt.b32.ecl %0, %1, %2, %3;", "rrrr", prmt_ecl);
    SAME("prmt.b32.ecr %0, %1, %2, %3;", "rrrr", prmt_ecr);
    SAME("prmt.b32.rc16 %0, %1, %2, %3;", "rrrr", prmt_rc16);
    SHIFT("bmsk.clamp.b32 %0, %1, %2;", "rrr", bmsk_clamp);
    SHIFT("szext.wrap.s32 %0, %1, %2;", "rrr", szext_s);
}

/* ---- comparisons of integers, selections, moves */

WANT(lt_s32, sign(s[0], 32) < sign(s[1], 32))
WANT(ge_u16, s[0] >= s[1])
WANT(le_s16, sign(s[0], 16) <= sign(s[1], 16))
WANT(gt_s64, sign(s[0], 64) > sign(s[1], 64))
WANT(eq_, s[0] == s[1])
WANT(ne_, s[0] != s[1])
WANT(hi_, s[0] > s[1])
WANT(lt_and, sign(s[0], 32) < sign(s[1], 32) && s[2])
WANT(lt_xor_not, (s[0] < s[1]) != !s[2])
WANT(set_u32, s[0] < s[1] ? 0xffffffffu : 0)
WANT(set_f32, s[0] < s[1] ? 0x3f800000u : 0)
WANT(selp, s[2] ? s[0] : s[1])
WANT(slct, sign(s[2], 32) >= 0 ? s[0] : s[1])
WANT(second_of_pair, !(s[0] < s[1]) || s[2])

TEST(comparisons_and_selections)
{
    SAME("setp.lt.s32 %0, %1, %2;", "prr", lt_s32);
    SAME("setp.ge.u16 %0, %1, %2;", "phh", ge_u16);
    SAME("setp.le.s16 %0, %1, %2;", "phh", le_s16);
    SAME("setp.gt.s64 %0, %1, %2;", "pdd", gt_s64);
    SAME("setp.eq.b64 %0, %1, %2;", "pdd", eq_);
    SAME("setp.ne.b32 %0, %1, %2;", "prr", ne_);
    SAME("setp.hi.u32 %0, %1, %2;", "prr", hi_);
    SAME("setp.lt.and.s32 %0, %1, %2, %3;", "prrp", lt_and);
    SAME("setp.lt.xor.u32 %0, %1, %2, !%3;", "prrp", lt_xor_not);
    SAME("{ .reg .pred z; @setp.lt.or.u32 z|%0, %1, %2, %3; }", "prrp", second_of_pair);
    SAME("set.lt.u32.u32 %0, %1, %2;", "rrr", set_u32);
    SAME("set.lt.f32.u32 %0, %1, %2;", "rrr", set_f32);
    SAME("selp.b16 %0, %1, %2, %3;", "hhhp", selp);
    SAME("selp.u32 %0, %1, %2, %3;", "rrrp", selp);
    SAME("selp.b64 %0, %1, %2, %3;", "dddp", selp);
    SAME("slct.u32.s32 %0, %1, %2, %3;", "rrrr", slct);
    SAME("slct.b64.s32 %0, %1, %2, %3;", "dddr", slct);
}

WANT(first, s[0])
WANT(pack2, s[1] << 32 | s[0])
WANT(pack4, s[3] << 48 | s[2] << 32 | s[1] << 16 | s[0])
WANT(pack_bytes, s[3] << 24 | s[2] << 16 | s[1] << 8 | s[0])
WANT(high32, s[0] >> 32)
WANT(third16, s[0] >> 32 & 0xffff)
WANT(high16, s[0] >> 16)

TEST(moves_pack_and_unpack)
{
    SAME("mov.b16 %0, %1;", "hh", first);
    SAME("mov.b32 %0, %1;", "rr", first);
    SAME("mov.b64 %0, %1;", "dd", first);
    SAME("mov.pred %0, %1;", "pp", first);
    SAME("mov.b64 %0, {%1, %2};", "drr", pack2);
    SAME("mov.b64 {_, %0}, %1;", "rd", high32);
    SAME("{ .reg .b16 a, b, c; @mov.b64 {a, b, %0, c}, %1; }", "hd", third16);
    SAME("{ .reg .b16 a; @mov.b32 {a, %0}, %1; }", "hr", high16);
    static const uint64_t few[] = {0, 1, 0x80, 0xff, 0x7fff, 0xffff};
    struct emu_insn four = {"mov.b64 %0, {%1, %2, %3, %4};", "dhhhh"};
    emu_insn_check(__FILE__, __LINE__, &four, few, COUNT_OF(few), NULL, 0, pack4);
    struct emu_insn bytes = {"mov.b32 %0, {%1, %2, %3, %4};", "rbbbb"};
    emu_insn_check(__FILE__, __LINE__, &bytes, few, COUNT_OF(few), NULL, 0, pack_bytes);
}
