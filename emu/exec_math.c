/* exec_math.c - reciprocals, roots, exponentials and sines; copysign, testp.
 *
 * PTX ISA 9.0, "Floating Point Instructions".  Approximations are the value that double
 * arithmetic rounds to, or what approx.h makes of it. */
#include "emu/approx.h"
#include "emu/exec.h"

enum { AUX_ROUND, AUX_FTZ, AUX_FN, AUX_APPROX };

enum fn { FN_RCP, FN_SQRT, FN_RSQRT, FN_EX2, FN_LG2, FN_SIN, FN_COS, FN_TANH };

/* The result to odd, or so close to exact that it does not matter. */
static double apply(enum fn fn, double x)
{
    switch (fn) {
    case FN_RCP:
        return div_to_odd(1, x);
    case FN_SQRT:
        return sqrt_to_odd(x);
    case FN_RSQRT:
        return 1 / sqrt(x);
    case FN_EX2:
        return exp2(x);
    case FN_LG2:
        return log2(x);
    case FN_SIN:
        return sin(x);
    case FN_COS:
        return cos(x);
    case FN_TANH:
        return tanh(x);
    }
    return 0;
}

static uint32_t math32(const struct warp *w, const struct op *op, uint32_t a)
{
    bool ftz = op->aux[AUX_FTZ];
    double y = apply((enum fn)op->aux[AUX_FN], f32_of(ftz ? flush(a) : a));
    uint32_t r = float_encode(&format_f32, y, (enum rounding)op->aux[AUX_ROUND], false);
    if (ftz)
        r = flush_result(&format_f32, r, y, (enum rounding)op->aux[AUX_ROUND]);
    return op->aux[AUX_APPROX] ? approx_result(w, op, &format_f32, ftz, r, a, 0) : r;
}

EXEC1(math32, uint32_t, uint32_t, math32(w, op, a))

static uint32_t math16(const struct warp *w, const struct op *op, uint32_t a)
{
    bool bf16 = op->type == PTX_T_BF16 || op->type == PTX_T_BF16X2;
    const struct format *f = bf16 ? &format_bf16 : &format_f16;
    double y = apply((enum fn)op->aux[AUX_FN], float_decode(f, a & 0xffffu));
    uint32_t r = float_encode(f, y, ROUND_NEAREST, false);
    return approx_result(w, op, f, false, r, a & 0xffffu, 0);
}

EXEC1(math16, uint32_t, uint32_t, math16(w, op, a))
EXEC1(math16x2, uint32_t, uint32_t, math16(w, op, a >> 16) << 16 | math16(w, op, a))

/* f64 in any direction: the host's own, switched for the moment. */
static uint64_t math64(const struct op *op, uint64_t a)
{
    enum rounding r = (enum rounding)op->aux[AUX_ROUND];
    enum fn fn = (enum fn)op->aux[AUX_FN];
    /* volatile: must not be computed before the mode is set, or after. */
    volatile double x = f64_of(a), y;
    if (r != ROUND_NEAREST)
        fesetround(host_rounding(r));
    y = fn == FN_SQRT ? sqrt(x) : fn == FN_RCP ? 1 / x : 1 / sqrt(x);
    if (r != ROUND_NEAREST)
        fesetround(FE_TONEAREST);
    return canon64(y, a, a);
}

EXEC1(math64, uint64_t, uint64_t, math64(op, a))
/* .approx.ftz.f64 gives the upper 32 bits only; subnormals are zero. */
EXEC1(math64_upper, uint64_t, uint64_t,
      math64(op, a << 1 >> 53 ? a : a & (uint64_t)1 << 63) & 0xffffffff00000000u)

static bool decode_math(struct decoder *d, struct op *o, enum fn fn)
{
    const struct ptx_insn *i = o->insn;
    bool approx = ptx_has(i, PTX_M_APPROX);
    o->aux[AUX_ROUND] = rounding_of(i);
    o->aux[AUX_FTZ] = ptx_has(i, PTX_M_FTZ);
    o->aux[AUX_FN] = fn;
    o->aux[AUX_APPROX] = approx;
    switch (o->type) {
    case PTX_T_F32:
        o->exec = exec_math32;
        return decode_want_same(d, o, 2, 32);
    case PTX_T_F64:
        if (fn > FN_RSQRT)
            return decode_no_type(d, o);
        o->exec = approx && o->aux[AUX_FTZ] ? exec_math64_upper : exec_math64;
        return decode_want_same(d, o, 2, 64);
    case PTX_T_F16:
    case PTX_T_BF16:
        if (fn != FN_EX2 && fn != FN_TANH)
            return decode_no_type(d, o);
        o->exec = exec_math16;
        return decode_want_same(d, o, 2, 16);
    case PTX_T_F16X2:
    case PTX_T_BF16X2:
        if (fn != FN_EX2 && fn != FN_TANH)
            return decode_no_type(d, o);
        o->exec = exec_math16x2;
        return decode_want_same(d, o, 2, 32);
    default:
        return decode_no_type(d, o);
    }
}

#define MATH(id)                                                                       \
    bool decode_##id(struct decoder *d, struct op *o)                                  \
    {                                                                                  \
        return decode_math(d, o, FN_##id);                                             \
    }

MATH(RCP)
MATH(SQRT)
MATH(RSQRT)
MATH(EX2)
MATH(LG2)
MATH(SIN)
MATH(COS)
MATH(TANH)

/* ---- copysign d, a, b: the sign of a on the value of b */

EXEC2(copysign32, uint32_t, uint32_t, uint32_t, (a & 0x80000000u) | (b & 0x7fffffffu))
EXEC2(copysign64, uint64_t, uint64_t, uint64_t,
      (a & (uint64_t)1 << 63) | (b & (uint64_t)INT64_MAX))

bool decode_COPYSIGN(struct decoder *d, struct op *o)
{
    if (o->type != PTX_T_F32 && o->type != PTX_T_F64)
        return decode_no_type(d, o);
    bool is_wide = o->type == PTX_T_F64;
    o->exec = is_wide ? exec_copysign64 : exec_copysign32;
    return decode_want_same(d, o, 3, is_wide ? 64 : 32);
}

/* ---- testp */

static bool test(enum ptx_mod property, int class, bool zero_or_normal)
{
    switch (property) {
    case PTX_M_FINITE:
        return class != FP_NAN && class != FP_INFINITE;
    case PTX_M_INFINITE:
        return class == FP_INFINITE;
    case PTX_M_NUMBER:
        return class != FP_NAN;
    case PTX_M_NOTANUMBER:
        return class == FP_NAN;
    case PTX_M_NORMAL:
        return zero_or_normal;
    default:
        return class == FP_SUBNORMAL;
    }
}

static enum flow exec_testp(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t mask = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = opnd_u64(w, &op->opnds[1], lane);
        int class = op->type == PTX_T_F64 ? fpclassify(f64_of(a))
                                          : fpclassify(f32_of((uint32_t)a));
        bool yes = test((enum ptx_mod)op->aux[0], class,
                        class == FP_NORMAL || class == FP_ZERO);
        mask |= (uint32_t)yes << lane;
    }
    set_mask(w, &op->opnds[0], lanes, mask);
    return FLOW_NEXT;
}

bool decode_TESTP(struct decoder *d, struct op *o)
{
    static const uint16_t properties[] = {PTX_M_FINITE, PTX_M_INFINITE,
                                          PTX_M_NUMBER, PTX_M_NOTANUMBER,
                                          PTX_M_NORMAL, PTX_M_SUBNORMAL};
    for (size_t i = 0; i < COUNT_OF(properties); i++)
        if (ptx_has(o->insn, (enum ptx_mod)properties[i]))
            o->aux[0] = properties[i];
    if (o->type != PTX_T_F32 && o->type != PTX_T_F64)
        return decode_no_type(d, o);
    o->exec = exec_testp;
    return decode_want_count(d, o, 2, 2) && decode_want_reg(d, o, 0, 1) &&
           decode_want_reg(d, o, 1, o->type == PTX_T_F64 ? 64 : 32);
}
