/* t_emu_float.c - floating-point instructions against the host's own arithmetic, with
 * its rounding mode switched for the directed forms. */
#include "tests/emu_insn.h"
#include "tests/test.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef const uint64_t *src;

static const uint64_t floats[] = {
    0x00000000u,                           /* 0 */
    0x80000000u,                           /* -0 */
    0x00000001u,                           /* smallest subnormal */
    0x807fffffu,                           /* largest subnormal, negative */
    0x00800000u,                           /* smallest normal */
    0x00800001u, 0x3f800000u,              /* 1 */
    0xbf800001u,                           /* -1 - ulp */
    0x3f7fffffu,                           /* 1 - ulp / 2 */
    0x3eaaaaabu,                           /* 1/3 */
    0x40490fdbu,                           /* pi */
    0xc0a00000u,                           /* -5 */
    0x4b800001u,                           /* 2^24 + 2 */
    0x33800000u,                           /* 2^-24 */
    0xb4000001u, 0x5f000000u, 0x7f7fffffu, /* largest */
    0xff7fffffu, 0x7f800000u,              /* inf */
    0xff800000u, 0x7fc00000u,              /* NaN */
    0xffa00001u,                           /* signalling NaN */
};

static const uint64_t doubles[] = {
    0x0000000000000000u, 0x8000000000000000u, 0x0000000000000001u, 0x800fffffffffffffu,
    0x0010000000000000u, 0x3ff0000000000000u, 0xbff0000000000001u, 0x3fd5555555555555u,
    0x400921fb54442d18u, 0xc014000000000000u, 0x4340000000000001u, 0x3ca0000000000000u,
    0x7fefffffffffffffu, 0xffefffffffffffffu, 0x7ff0000000000000u, 0xfff0000000000000u,
};

static float f(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static double d(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* PTX: every NaN that an f32 instruction makes is this one. */
static uint64_t f_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return isnan(x) ? 0x7fffffffu : b;
}

static uint64_t d_bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* ---- f32 in four directions: the host does it in the mode that is set */

static int mode; /* FE_... for the running check */

static float in_mode(char what, float x, float y, float z)
{
    volatile float a = x, b = y, c = z, r = 0;
    fesetround(mode);
    switch (what) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 's':
        r = sqrtf(a);
        break;
    default:
        r = fmaf(a, b, c);
        break;
    }
    fesetround(FE_TONEAREST);
    return r;
}

static uint64_t want_add(src s)
{
    return f_bits(in_mode('+', f(s[0]), f(s[1]), 0));
}

static uint64_t want_sub(src s)
{
    return f_bits(in_mode('-', f(s[0]), f(s[1]), 0));
}

static uint64_t want_mul(src s)
{
    return f_bits(in_mode('*', f(s[0]), f(s[1]), 0));
}

static uint64_t want_div(src s)
{
    return f_bits(in_mode('/', f(s[0]), f(s[1]), 0));
}

static uint64_t want_fma(src s)
{
    return f_bits(in_mode('f', f(s[0]), f(s[1]), f(s[2])));
}

static uint64_t want_rcp(src s)
{
    return f_bits(in_mode('/', 1, f(s[0]), 0));
}

static uint64_t want_sqrt(src s)
{
    return f_bits(in_mode('s', f(s[0]), 0, 0));
}

static const struct {
    const char *name;
    int mode;
} modes[] = {{"rn", FE_TONEAREST},
             {"rz", FE_TOWARDZERO},
             {"rm", FE_DOWNWARD},
             {"rp", FE_UPWARD}};

static void all_modes(int line, const char *before, const char *after,
                      const char *types, const uint64_t *values, size_t count,
                      emu_want *want)
{
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        char text[128];
        strcpy(text, before);
        strcat(text, modes[k].name);
        strcat(text, after);
        mode = modes[k].mode;
        struct emu_insn i = {text, types};
        emu_insn_check(__FILE__, line, &i, values, count, NULL, 0, want);
    }
    mode = FE_TONEAREST;
}

#define MODES(before, after, types, want)                                              \
    all_modes(__LINE__, before, after, types, floats, COUNT_OF(floats), want)
#define MODES64(before, after, types, want)                                            \
    all_modes(__LINE__, before, after, types, doubles, COUNT_OF(doubles), want)

static void plain(int line, const char *text, const char *types, emu_want *want)
{
    struct emu_insn i = {text, types};
    emu_insn_check(__FILE__, line, &i, floats, COUNT_OF(floats), NULL, 0, want);
}

#define PLAIN(text, types, want) plain(__LINE__, text, types, want)

TEST(f32_rounds_in_every_direction)
{
    MODES("add.", ".f32 %0, %1, %2;", "rrr", want_add);
    MODES("sub.", ".f32 %0, %1, %2;", "rrr", want_sub);
    MODES("mul.", ".f32 %0, %1, %2;", "rrr", want_mul);
    MODES("div.", ".f32 %0, %1, %2;", "rrr", want_div);
    MODES("fma.", ".f32 %0, %1, %2, %3;", "rrrr", want_fma);
    MODES("mad.", ".f32 %0, %1, %2, %3;", "rrrr", want_fma);
    MODES("rcp.", ".f32 %0, %1;", "rr", want_rcp);
    MODES("sqrt.", ".f32 %0, %1;", "rr", want_sqrt);
    PLAIN("add.f32 %0, %1, %2;", "rrr", want_add);
}

/* ---- f64 */

static double in_mode64(char what, double x, double y, double z)
{
    volatile double a = x, b = y, c = z, r = 0;
    fesetround(mode);
    r = what == '+'   ? a + b
        : what == '-' ? a - b
        : what == '*' ? a * b
        : what == '/' ? a / b
        : what == 's' ? sqrt(a)
                      : fma(a, b, c);
    fesetround(FE_TONEAREST);
    return r;
}

/* A NaN out of numbers: the sign is set, as on hardware. */
static uint64_t made64(double x)
{
    return isnan(x) ? 0xfff8000000000000u : d_bits(x);
}

static uint64_t want_add64(src s)
{
    return made64(in_mode64('+', d(s[0]), d(s[1]), 0));
}

static uint64_t want_sub64(src s)
{
    return made64(in_mode64('-', d(s[0]), d(s[1]), 0));
}

static uint64_t want_mul64(src s)
{
    return made64(in_mode64('*', d(s[0]), d(s[1]), 0));
}

static uint64_t want_div64(src s)
{
    return made64(in_mode64('/', d(s[0]), d(s[1]), 0));
}

static uint64_t want_fma64(src s)
{
    return made64(in_mode64('f', d(s[0]), d(s[1]), d(s[2])));
}

static uint64_t want_sqrt64(src s)
{
    return made64(in_mode64('s', d(s[0]), 0, 0));
}

static uint64_t want_rcp64(src s)
{
    return made64(in_mode64('/', 1, d(s[0]), 0));
}

TEST(f64_rounds_in_every_direction)
{
    MODES64("add.", ".f64 %0, %1, %2;", "ddd", want_add64);
    MODES64("sub.", ".f64 %0, %1, %2;", "ddd", want_sub64);
    MODES64("mul.", ".f64 %0, %1, %2;", "ddd", want_mul64);
    MODES64("div.", ".f64 %0, %1, %2;", "ddd", want_div64);
    MODES64("fma.", ".f64 %0, %1, %2, %3;", "dddd", want_fma64);
    MODES64("sqrt.", ".f64 %0, %1;", "dd", want_sqrt64);
    MODES64("rcp.", ".f64 %0, %1;", "dd", want_rcp64);
}

/* ---- .ftz and .sat */

static uint64_t flushed(uint64_t bits)
{
    return fpclassify(f(bits)) == FP_SUBNORMAL ? bits & 0x80000000u : bits;
}

static uint64_t want_add_ftz(src s)
{
    return flushed(f_bits(f(flushed(s[0])) + f(flushed(s[1]))));
}

static uint64_t want_mul_ftz(src s)
{
    double p = (double)f(flushed(s[0])) * f(flushed(s[1])); /* exact */
    uint64_t r = f_bits((float)p);
    /* Subnormal had it kept its 24 digits; far from the end of the range it does. */
    return fabsf((float)(p * 0x1p64)) < 0x1p-62f ? r & 0x80000000u : r;
}

static uint64_t want_fma_sat(src s)
{
    float x = fmaf(f(s[0]), f(s[1]), f(s[2]));
    return isnan(x) || x <= 0 ? 0 : x >= 1 ? 0x3f800000u : f_bits(x);
}

static uint64_t want_neg_ftz(src s)
{
    return f_bits(-f(flushed(s[0])));
}

static uint64_t want_neg(src s)
{
    return f_bits(-f(s[0]));
}

static uint64_t want_abs(src s)
{
    return f_bits(fabsf(f(s[0])));
}

TEST(flushing_and_saturation)
{
    PLAIN("add.ftz.f32 %0, %1, %2;", "rrr", want_add_ftz);
    PLAIN("mul.rn.ftz.f32 %0, %1, %2;", "rrr", want_mul_ftz);
    PLAIN("fma.rn.sat.f32 %0, %1, %2, %3;", "rrrr", want_fma_sat);
    PLAIN("neg.ftz.f32 %0, %1;", "rr", want_neg_ftz);
    PLAIN("neg.f32 %0, %1;", "rr", want_neg);
    PLAIN("abs.f32 %0, %1;", "rr", want_abs);
}

/* ---- pairs of f32 */

static uint64_t want_fma_pair(src s)
{
    uint64_t r = 0;
    for (int k = 0; k < 64; k += 32)
        r |= f_bits(in_mode('f', f(s[0] >> k), f(s[1] >> k), f(s[2] >> k))) << k;
    return r;
}

static uint64_t want_add_pair(src s)
{
    uint64_t r = 0;
    for (int k = 0; k < 64; k += 32)
        r |= f_bits(in_mode('+', f(s[0] >> k), f(s[1] >> k), 0)) << k;
    return r;
}

TEST(pairs_of_f32)
{
    static const uint64_t pairs[] = {0x3f80000000000000u, 0x40490fdb80000001u,
                                     0xff7fffff3eaaaaabu, 0x7fc000004b800001u,
                                     0x007fffffbf800001u};
    all_modes(__LINE__, "add.", ".f32x2 %0, %1, %2;", "ddd", pairs, COUNT_OF(pairs),
              want_add_pair);
    all_modes(__LINE__, "fma.", ".f32x2 %0, %1, %2, %3;", "dddd", pairs,
              COUNT_OF(pairs), want_fma_pair);
}

/* ---- extrema */

static bool below(float x, float y)
{
    if (x == 0 && y == 0)
        return signbit(x) && !signbit(y);
    return x < y;
}

static uint64_t extremum(uint64_t a, uint64_t b, bool max, bool nan)
{
    float x = f(a), y = f(b);
    if (isnan(x) || isnan(y)) {
        if (nan || (isnan(x) && isnan(y)))
            return 0x7fffffffu;
        return isnan(x) ? b : a;
    }
    return below(x, y) == max ? b : a;
}

static uint64_t want_max(src s)
{
    return extremum(s[0], s[1], true, false);
}

static uint64_t want_min(src s)
{
    return extremum(s[0], s[1], false, false);
}

static uint64_t want_max_nan(src s)
{
    return extremum(s[0], s[1], true, true);
}

static uint64_t want_max3(src s)
{
    uint64_t r = extremum(s[0], s[1], true, false);
    return extremum(r, s[2], true, false);
}

static uint64_t want_min_xorsign(src s)
{
    uint64_t r = extremum(s[0] & 0x7fffffffu, s[1] & 0x7fffffffu, false, false);
    return isnan(f(r)) ? 0x7fffffffu : r | ((s[0] ^ s[1]) & 0x80000000u);
}

static uint64_t want_max64(src s)
{
    double x = d(s[0]), y = d(s[1]);
    if (x == 0 && y == 0)
        return signbit(x) ? s[1] : s[0];
    return x < y ? s[1] : s[0];
}

TEST(extrema_and_nan)
{
    PLAIN("max.f32 %0, %1, %2;", "rrr", want_max);
    PLAIN("min.f32 %0, %1, %2;", "rrr", want_min);
    PLAIN("max.NaN.f32 %0, %1, %2;", "rrr", want_max_nan);
    PLAIN("max.f32 %0, %1, %2, %3;", "rrrr", want_max3);
    PLAIN("min.xorsign.abs.f32 %0, %1, %2;", "rrr", want_min_xorsign);
    struct emu_insn i = {"max.f64 %0, %1, %2;", "ddd"};
    emu_insn_check(__FILE__, __LINE__, &i, doubles, COUNT_OF(doubles), NULL, 0,
                   want_max64);
}

/* ---- comparisons */

#define COMPARE(name, expr)                                                            \
    static uint64_t name(src s)                                                        \
    {                                                                                  \
        float a = f(s[0]), b = f(s[1]);                                                \
        bool u = isunordered(a, b);                                                    \
        (void)u;                                                                       \
        return (uint64_t)(expr);                                                       \
    }

COMPARE(eq, a == b)
COMPARE(ne, !u && a != b)
COMPARE(lt, isless(a, b))
COMPARE(ge, isgreaterequal(a, b))
COMPARE(equ, u || a == b)
COMPARE(neu, u || a != b)
COMPARE(ltu, u || a < b)
COMPARE(geu, u || a >= b)
COMPARE(gtu, u || a > b)
COMPARE(leu, u || a <= b)
COMPARE(num, !u)
COMPARE(nan_, u)

static uint64_t want_eq_ftz(src s)
{
    return f(flushed(s[0])) == f(flushed(s[1]));
}

static uint64_t want_slct(src s)
{
    return f(s[2]) >= 0 ? s[0] : s[1];
}

static uint64_t want_copysign(src s)
{
    return (s[0] & 0x80000000u) | (s[1] & 0x7fffffffu);
}

static uint64_t want_finite(src s)
{
    return isfinite(f(s[0])) ? 1 : 0;
}

static uint64_t want_normal(src s)
{
    return isnormal(f(s[0])) || f(s[0]) == 0;
}

static uint64_t want_subnormal(src s)
{
    return fpclassify(f(s[0])) == FP_SUBNORMAL;
}

TEST(comparisons_with_nan)
{
    PLAIN("setp.eq.f32 %0, %1, %2;", "prr", eq);
    PLAIN("setp.ne.f32 %0, %1, %2;", "prr", ne);
    PLAIN("setp.lt.f32 %0, %1, %2;", "prr", lt);
    PLAIN("setp.ge.f32 %0, %1, %2;", "prr", ge);
    PLAIN("setp.equ.f32 %0, %1, %2;", "prr", equ);
    PLAIN("setp.neu.f32 %0, %1, %2;", "prr", neu);
    PLAIN("setp.ltu.f32 %0, %1, %2;", "prr", ltu);
    PLAIN("setp.geu.f32 %0, %1, %2;", "prr", geu);
    PLAIN("setp.gtu.f32 %0, %1, %2;", "prr", gtu);
    PLAIN("setp.leu.f32 %0, %1, %2;", "prr", leu);
    PLAIN("setp.num.f32 %0, %1, %2;", "prr", num);
    PLAIN("setp.nan.f32 %0, %1, %2;", "prr", nan_);
    PLAIN("setp.eq.ftz.f32 %0, %1, %2;", "prr", want_eq_ftz);
    PLAIN("slct.f32.f32 %0, %1, %2, %3;", "rrrr", want_slct);
    PLAIN("copysign.f32 %0, %1, %2;", "rrr", want_copysign);
    PLAIN("testp.finite.f32 %0, %1;", "pr", want_finite);
    PLAIN("testp.normal.f32 %0, %1;", "pr", want_normal);
    PLAIN("testp.subnormal.f32 %0, %1;", "pr", want_subnormal);
}

/* ---- approximations: within what PTX allows */

static double tolerance;
static double (*exact)(double);

static double reciprocal(double x)
{
    return 1 / x;
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static void near_exact(int line, const char *text, double (*fn)(double),
                       double relative)
{
    static const float inputs[] = {0.001f, 0.3f, 0.5f, 1, 1.7f, 2, 3.1f, 10, 77.7f};
    uint64_t operands[COUNT_OF(inputs)][EMU_INSN_SOURCES] = {{0}};
    uint64_t results[COUNT_OF(inputs)];
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        operands[i][0] = f_bits(inputs[i]);
    struct emu_insn insn = {text, "rr"};
    emu_insn_run(&insn, COUNT_OF(inputs), (const uint64_t(*)[EMU_INSN_SOURCES])operands,
                 results);
    exact = fn;
    tolerance = relative;
    for (size_t i = 0; i < COUNT_OF(inputs); i++) {
        double want = exact(inputs[i]);
        if (fabs(f(results[i]) - want) > tolerance * fmax(fabs(want), 0.1))
            test_fail(__FILE__, line, "%s of %g gives %g, not %g", text, inputs[i],
                      f(results[i]), want);
    }
}

TEST(approximations_are_close)
{
    near_exact(__LINE__, "rcp.approx.ftz.f32 %0, %1;", reciprocal, 1.2e-7);
    near_exact(__LINE__, "sqrt.approx.f32 %0, %1;", sqrt, 1.2e-7);
    near_exact(__LINE__, "rsqrt.approx.f32 %0, %1;", reciprocal_root, 1.2e-7);
    near_exact(__LINE__, "ex2.approx.f32 %0, %1;", exp2, 1.2e-7);
    near_exact(__LINE__, "lg2.approx.f32 %0, %1;", log2, 1.2e-7);
    near_exact(__LINE__, "sin.approx.f32 %0, %1;", sin, 1e-6);
    near_exact(__LINE__, "cos.approx.f32 %0, %1;", cos, 1e-6);
    near_exact(__LINE__, "tanh.approx.f32 %0, %1;", tanh, 1e-6);
}

TEST(approximations_at_the_edges)
{
    /* input and result side by side */
    static const uint64_t rows[][3] = {
        {0, 0x00000000u, 0x7f800000u}, /* rcp(0) = inf */
        {0, 0x80000000u, 0xff800000u}, {0, 0x7f800000u, 0},
        {0, 0x00000001u, 0x7f800000u},                                /* flushed */
        {1, 0xff800000u, 0},                                          /* 2^-inf */
        {1, 0x7f800000u, 0x7f800000u}, {1, 0x43000000u, 0x7f800000u}, /* 2^128 */
        {2, 0x00000000u, 0xff800000u},                                /* log2(0) */
        {2, 0xbf800000u, 0x7fffffffu}, {3, 0xbf800000u, 0x7fffffffu}, /* sqrt(-1) */
        {3, 0x80000000u, 0x80000000u},
    };
    static const char *const texts[] = {
        "rcp.approx.ftz.f32 %0, %1;", "ex2.approx.f32 %0, %1;",
        "lg2.approx.f32 %0, %1;", "sqrt.rn.f32 %0, %1;"};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t operand[1][EMU_INSN_SOURCES] = {{rows[i][1]}}, result;
        struct emu_insn insn = {texts[rows[i][0]], "rr"};
        emu_insn_run(&insn, 1, (const uint64_t(*)[EMU_INSN_SOURCES])operand, &result);
        CHECK_EQ(result, rows[i][2]);
    }
}

/* ---- 16-bit floats: the exact value in long double, rounded by searching */

struct half {
    int exp_bits, man_bits;
};

static const struct half f16 = {5, 10}, bf16 = {8, 7};
static const struct half *half; /* of the running check */

static long double half_value(uint64_t code)
{
    int bias = (1 << (half->exp_bits - 1)) - 1;
    int e = (int)(code >> half->man_bits & ((1u << half->exp_bits) - 1));
    long double man = (long double)(code & ((1u << half->man_bits) - 1));
    long double x;
    if (e == (1 << half->exp_bits) - 1)
        x = man == 0 ? (long double)INFINITY : (long double)NAN;
    else if (e == 0)
        x = ldexpl(man, 1 - bias - half->man_bits);
    else
        x = ldexpl(man + (1 << half->man_bits), e - bias - half->man_bits);
    return code >> 15 & 1 ? -x : x;
}

/* Nearest code, ties to even; past the midpoint to what would follow the largest: inf.
 */
static uint64_t half_code(long double x)
{
    uint64_t inf = ((1u << half->exp_bits) - 1) << half->man_bits, low = 0,
             high = inf - 1;
    if (isnan(x))
        return 0x7fff;
    uint64_t sign = signbit(x) ? 0x8000u : 0;
    x = fabsl(x);
    long double largest = half_value(inf - 1), step = largest - half_value(inf - 2);
    if (x >= largest + step / 2)
        return sign | inf;
    while (low < high) { /* largest code that is not above x */
        uint64_t mid = (low + high + 1) / 2;
        if (half_value(mid) <= x)
            low = mid;
        else
            high = mid - 1;
    }
    if (low == inf - 1)
        return sign | low;
    long double under = x - half_value(low), over = half_value(low + 1) - x;
    bool up = over < under || (over == under && (low & 1));
    return sign | (low + up);
}

static uint64_t want_hadd(src s)
{
    return half_code(half_value(s[0]) + half_value(s[1]));
}

static uint64_t want_hmul(src s)
{
    return half_code(half_value(s[0]) * half_value(s[1]));
}

static uint64_t want_hfma(src s)
{
    return half_code(half_value(s[0]) * half_value(s[1]) + half_value(s[2]));
}

static uint64_t want_hfma_relu(src s)
{
    uint64_t r = want_hfma(s);
    return r & 0x8000u && r <= 0xff80u && !isnan(half_value(r)) ? 0 : r;
}

static uint64_t want_hfma2(src s)
{
    uint64_t low[] = {s[0] & 0xffff, s[1] & 0xffff, s[2] & 0xffff};
    uint64_t high[] = {s[0] >> 16, s[1] >> 16, s[2] >> 16};
    return want_hfma(high) << 16 | want_hfma(low);
}

TEST(f16_arithmetic_rounds_once)
{
    /* Everything that long double holds exactly in a sum: 64 bits. */
    static const uint64_t codes[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
                                     0x3c00, 0xbc01, 0x3555, 0x5640, 0x1001,
                                     0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00};
    half = &f16;
    struct emu_insn add = {"add.rn.f16 %0, %1, %2;", "hhh"};
    emu_insn_check(__FILE__, __LINE__, &add, codes, COUNT_OF(codes), NULL, 0,
                   want_hadd);
    struct emu_insn mul = {"mul.rn.f16 %0, %1, %2;", "hhh"};
    emu_insn_check(__FILE__, __LINE__, &mul, codes, COUNT_OF(codes), NULL, 0,
                   want_hmul);
    struct emu_insn fma = {"fma.rn.f16 %0, %1, %2, %3;", "hhhh"};
    emu_insn_check(__FILE__, __LINE__, &fma, codes, COUNT_OF(codes), NULL, 0,
                   want_hfma);
    struct emu_insn relu = {"fma.rn.relu.f16 %0, %1, %2, %3;", "hhhh"};
    emu_insn_check(__FILE__, __LINE__, &relu, codes, COUNT_OF(codes), NULL, 0,
                   want_hfma_relu);
    static const uint64_t pairs[] = {0x3c000001, 0xbc013555, 0x7bff5640, 0x10018400,
                                     0x04003c01};
    struct emu_insn fma2 = {"fma.rn.f16x2 %0, %1, %2, %3;", "rrrr"};
    emu_insn_check(__FILE__, __LINE__, &fma2, pairs, COUNT_OF(pairs), NULL, 0,
                   want_hfma2);
}

TEST(bf16_arithmetic_rounds_once)
{
    static const uint64_t codes[] = {0x0000, 0x8000, 0x3f80, 0xbf81, 0x3eab, 0x4049,
                                     0x3c01, 0x42ff, 0x3b80, 0xc47f, 0x7f80, 0x7fc0};
    half = &bf16;
    struct emu_insn add = {"add.rn.bf16 %0, %1, %2;", "hhh"};
    emu_insn_check(__FILE__, __LINE__, &add, codes, COUNT_OF(codes), NULL, 0,
                   want_hadd);
    struct emu_insn fma = {"fma.rn.bf16 %0, %1, %2, %3;", "hhhh"};
    emu_insn_check(__FILE__, __LINE__, &fma, codes, COUNT_OF(codes), NULL, 0,
                   want_hfma);
    static const uint64_t pairs[] = {0x3f803eab, 0xbf814049, 0x42ff3b80};
    struct emu_insn fma2 = {"fma.rn.bf16x2 %0, %1, %2, %3;", "rrrr"};
    emu_insn_check(__FILE__, __LINE__, &fma2, pairs, COUNT_OF(pairs), NULL, 0,
                   want_hfma2);
}

static uint64_t want_hmax(src s)
{
    long double x = half_value(s[0]), y = half_value(s[1]);
    if (isnan(x))
        return isnan(y) ? 0x7fff : s[1];
    if (isnan(y))
        return s[0];
    if (x == 0 && y == 0)
        return s[0] & s[1];
    return x > y ? s[0] : s[1];
}

static uint64_t want_hmax_nan2(src s)
{
    uint64_t r = 0;
    for (int k = 0; k < 32; k += 16) {
        uint64_t pair[] = {s[0] >> k & 0xffff, s[1] >> k & 0xffff};
        bool nan = isnan(half_value(pair[0])) || isnan(half_value(pair[1]));
        r |= (nan ? 0x7fffu : want_hmax(pair)) << k;
    }
    return r;
}

TEST(extrema_of_halves)
{
    static const uint64_t codes[] = {0x0000, 0x8000, 0x3c00, 0xbc01,
                                     0x7c00, 0xfc00, 0x7e01};
    half = &f16;
    struct emu_insn max = {"max.f16 %0, %1, %2;", "hhh"};
    emu_insn_check(__FILE__, __LINE__, &max, codes, COUNT_OF(codes), NULL, 0,
                   want_hmax);
    static const uint64_t pairs[] = {0x3f80bf81, 0x00008000, 0x7fc13eab, 0x80007f80};
    half = &bf16;
    struct emu_insn max2 = {"max.NaN.bf16x2 %0, %1, %2;", "rrr"};
    emu_insn_check(__FILE__, __LINE__, &max2, pairs, COUNT_OF(pairs), NULL, 0,
                   want_hmax_nan2);
}

/* Mixed: a bf16 or f16 source widened into an f32 sum. */
static uint64_t want_mixed_add(src s)
{
    return f_bits((float)half_value(s[0]) + f(s[1]));
}

static uint64_t want_mixed_fma(src s)
{
    return f_bits(fmaf((float)half_value(s[0]), (float)half_value(s[1]), f(s[2])));
}

TEST(mixed_precision_sums)
{
    static const uint64_t codes[] = {0x3f80,     0xbf81,     0x3eab,
                                     0x40490fdb, 0x33800001, 0x4b800001};
    half = &bf16;
    struct emu_insn add = {"add.rn.f32.bf16 %0, %1, %2;", "rhr"};
    emu_insn_check(__FILE__, __LINE__, &add, codes, COUNT_OF(codes), NULL, 0,
                   want_mixed_add);
    struct emu_insn fma = {"fma.rn.f32.bf16 %0, %1, %2, %3;", "rhhr"};
    emu_insn_check(__FILE__, __LINE__, &fma, codes, COUNT_OF(codes), NULL, 0,
                   want_mixed_fma);
}

TEST(the_callers_rounding_mode_is_left_alone)
{
    fesetround(FE_UPWARD);
    uint64_t operand[1][EMU_INSN_SOURCES] = {{0x3f800000u, 0x33800000u}}, result;
    struct emu_insn insn = {"add.f32 %0, %1, %2;",
                            "rrr"}; /* 1 + 2^-24: a tie, to even */
    emu_insn_run(&insn, 1, (const uint64_t(*)[EMU_INSN_SOURCES])operand, &result);
    CHECK_EQ(result, 0x3f800000u);
    CHECK_EQ(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
}
