/* exec_float.c - add sub mul fma mad div neg abs min max of f32, f64 and f32x2.
 *
 * PTX ISA 9.0, "Floating Point Instructions".  The plain f32 forms have functions of
 * their own; directed rounding, .ftz, .sat and mixed types take the general one. */
#include "emu/approx.h"
#include "emu/exec.h"

enum { AUX_ROUND, AUX_FTZ, AUX_SAT, AUX_A_HALF, AUX_MINMAX };

enum half_kind { HALF_NONE, HALF_F16, HALF_BF16 };

/* ---- plain f32 and f64 */

EXEC2(add_f32, uint32_t, uint32_t, uint32_t, canon(f32_of(a) + f32_of(b)))
EXEC2(sub_f32, uint32_t, uint32_t, uint32_t, canon(f32_of(a) - f32_of(b)))
EXEC2(mul_f32, uint32_t, uint32_t, uint32_t, canon(f32_of(a) * f32_of(b)))
EXEC2(div_f32, uint32_t, uint32_t, uint32_t, canon(f32_of(a) / f32_of(b)))
EXEC3(fma_f32, uint32_t, uint32_t, uint32_t, uint32_t,
      canon(fmaf(f32_of(a), f32_of(b), f32_of(c))))

EXEC2(add_f64, uint64_t, uint64_t, uint64_t, canon64(f64_of(a) + f64_of(b), a, b))
EXEC2(sub_f64, uint64_t, uint64_t, uint64_t, canon64(f64_of(a) - f64_of(b), a, b))
EXEC2(mul_f64, uint64_t, uint64_t, uint64_t, canon64(f64_of(a) * f64_of(b), a, b))
EXEC2(div_f64, uint64_t, uint64_t, uint64_t, canon64(f64_of(a) / f64_of(b), b, a))
EXEC3(fma_f64, uint64_t, uint64_t, uint64_t, uint64_t,
      canon64(fma(f64_of(a), f64_of(b), f64_of(c)), a, is_nan64(b) ? b : c))

/* On hardware an addition: NaN becomes the canonical one (an H200). */
EXEC1(neg_f32, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : a ^ 0x80000000u)
EXEC1(abs_f32, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : a & 0x7fffffffu)
EXEC1(neg_f32_ftz, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : flush(a) ^ 0x80000000u)
EXEC1(abs_f32_ftz, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : flush(a) & 0x7fffffffu)
EXEC1(neg_f64, uint64_t, uint64_t, is_nan64(a) ? quiet64(a) : a ^ (uint64_t)1 << 63)
EXEC1(abs_f64, uint64_t, uint64_t, is_nan64(a) ? quiet64(a) : a &INT64_MAX)

/* ---- min and max: a NaN operand loses, or wins with .NaN; -0 is less than +0 */

enum {
    MINMAX_MAX = 1,
    MINMAX_NAN = 2,
    MINMAX_FTZ = 4,
    MINMAX_XORSIGN = 8,
    MINMAX_ABS = 16
};

static inline uint32_t extremum32(uint32_t a, uint32_t b, uint32_t how)
{
    uint32_t sign = 0;
    if (how & MINMAX_FTZ) {
        a = flush(a);
        b = flush(b);
    }
    if (how & MINMAX_XORSIGN) {
        sign = (a ^ b) & 0x80000000u;
        a &= 0x7fffffffu;
        b &= 0x7fffffffu;
    }
    bool greater = order32(a) > order32(b);
    uint32_t r = greater == (how & MINMAX_MAX) ? a : b;
    uint32_t other = how & MINMAX_NAN ? NAN_F32 : 0;
    if (is_nan32(a))
        r = other | (is_nan32(b) ? NAN_F32 : b);
    else if (is_nan32(b))
        r = other | a;
    if (is_nan32(r))
        return NAN_F32;
    return r | sign;
}

EXEC2(max_f32, uint32_t, uint32_t, uint32_t, extremum32(a, b, MINMAX_MAX))
EXEC2(min_f32, uint32_t, uint32_t, uint32_t, extremum32(a, b, 0))
EXEC2(minmax_f32, uint32_t, uint32_t, uint32_t, extremum32(a, b, op->aux[AUX_MINMAX]))
EXEC3(minmax3_f32, uint32_t, uint32_t, uint32_t, uint32_t,
      extremum32(extremum32(a, b, op->aux[AUX_MINMAX]), c, op->aux[AUX_MINMAX]))
EXEC3(minmax3_abs_f32, uint32_t, uint32_t, uint32_t, uint32_t,
      extremum32(extremum32(a & 0x7fffffffu, b & 0x7fffffffu, op->aux[AUX_MINMAX]),
                 c & 0x7fffffffu, op->aux[AUX_MINMAX]))
EXEC2(minmax_abs_f32, uint32_t, uint32_t, uint32_t,
      extremum32(a & 0x7fffffffu, b & 0x7fffffffu, op->aux[AUX_MINMAX]))

static uint64_t extremum64(uint64_t a, uint64_t b, bool is_max)
{
    if (is_nan64(a))
        return is_nan64(b) ? quiet64(b) : b;
    if (is_nan64(b))
        return a;
    return (order64(a) > order64(b)) == is_max ? a : b;
}

EXEC2(max_f64, uint64_t, uint64_t, uint64_t, extremum64(a, b, true))
EXEC2(min_f64, uint64_t, uint64_t, uint64_t, extremum64(a, b, false))

/* ---- the general f32 function */

/* a * b + c of values that are f32 or narrower, with the sign that IEEE 754 gives an
 * exact zero; the products and sums of the other instructions are special cases. */
static double fma_exactly(double a, double b, double c, enum rounding r)
{
    double x = fma_to_odd(a, b, c);
    if (x == 0) {
        double p = a * b;
        /* Zeros of one sign keep it; all other exact zeros are -0 when rounding down.
         */
        if (p == 0 && c == 0 && signbit(p) == signbit(c))
            return p;
        return r == ROUND_DOWN ? -0.0 : 0.0;
    }
    return x;
}

static double combine(enum ptx_op what, double a, double b, double c, enum rounding r)
{
    switch (what) {
    case PTX_ADD:
        return fma_exactly(a, 1, b, r);
    case PTX_SUB:
        return fma_exactly(a, 1, -b, r);
    case PTX_MUL:
        return a * b;
    case PTX_DIV:
        return div_to_odd(a, b);
    default:
        return fma_exactly(a, b, c, r);
    }
}

static double operand(uint32_t bits, uint32_t half, bool ftz)
{
    if (half == HALF_F16)
        return float_decode(&format_f16, bits & 0xffffu);
    if (half == HALF_BF16)
        return float_decode(&format_bf16, bits & 0xffffu);
    return f32_of(ftz ? flush(bits) : bits);
}

static uint32_t general32(const struct op *op, uint32_t a, uint32_t b, uint32_t c)
{
    enum rounding r = (enum rounding)op->aux[AUX_ROUND];
    bool ftz = op->aux[AUX_FTZ];
    uint32_t half = op->aux[AUX_A_HALF];
    enum ptx_op what = op->insn->op;
    bool is_fma = what == PTX_FMA || what == PTX_MAD;
    double x = combine(what, operand(a, half, ftz), operand(b, is_fma ? half : 0, ftz),
                       operand(c, 0, ftz), r);
    uint32_t bits = float_encode(&format_f32, x, r, false);
    if (ftz)
        bits = flush_result(&format_f32, bits, x, r);
    return op->aux[AUX_SAT] ? saturate(bits) : bits;
}

EXEC2(general2, uint32_t, uint32_t, uint32_t, general32(op, a, b, 0))
EXEC2(approx_div, uint32_t, uint32_t, uint32_t,
      approx_result(w, op, &format_f32, op->aux[AUX_FTZ], general32(op, a, b, 0), a, b))
EXEC3(general3, uint32_t, uint32_t, uint32_t, uint32_t, general32(op, a, b, c))

static uint64_t pair_of(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

EXEC2(pair2, uint64_t, uint64_t, uint64_t,
      pair_of(general32(op, (uint32_t)(a >> 32), (uint32_t)(b >> 32), 0),
              general32(op, (uint32_t)a, (uint32_t)b, 0)))
EXEC3(pair3, uint64_t, uint64_t, uint64_t, uint64_t,
      pair_of(general32(op, (uint32_t)(a >> 32), (uint32_t)(b >> 32),
                        (uint32_t)(c >> 32)),
              general32(op, (uint32_t)a, (uint32_t)b, (uint32_t)c)))
EXEC2(add_pair, uint64_t, uint64_t, uint64_t,
      pair_of(canon(f32_of((uint32_t)(a >> 32)) + f32_of((uint32_t)(b >> 32))),
              canon(f32_of((uint32_t)a) + f32_of((uint32_t)b))))
EXEC2(mul_pair, uint64_t, uint64_t, uint64_t,
      pair_of(canon(f32_of((uint32_t)(a >> 32)) * f32_of((uint32_t)(b >> 32))),
              canon(f32_of((uint32_t)a) * f32_of((uint32_t)b))))

/* ---- f64 with directed rounding: the host's own, switched for the instruction */

static enum flow exec_directed64(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint64_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    const uint64_t *c = op->opnd_count > 3 ? opnd_lanes(w, &op->opnds[3]) : b;
    fesetround(host_rounding((enum rounding)op->aux[AUX_ROUND]));
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        /* volatile: must not be computed before the mode is set, or after. */
        volatile double x = f64_of(a[lane]), y = f64_of(b[lane]), z = f64_of(c[lane]),
                        r;
        switch (op->insn->op) {
        case PTX_ADD:
            r = x + y;
            break;
        case PTX_SUB:
            r = x - y;
            break;
        case PTX_MUL:
            r = x * y;
            break;
        case PTX_DIV:
            r = x / y;
            break;
        default:
            r = fma(x, y, z);
            break;
        }
        bool three = op->opnd_count > 3, is_div = op->insn->op == PTX_DIV;
        d[lane] = canon64(r, is_div ? b[lane] : a[lane],
                          is_div                        ? a[lane]
                          : three && !is_nan64(b[lane]) ? c[lane]
                                                        : b[lane]);
    }
    fesetround(FE_TONEAREST);
    return FLOW_NEXT;
}

/* ---- decoding */

static bool decode_extremum(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    bool is_max = i->op == PTX_MAX;
    int operands = o->opnd_count == 4 ? 4 : 3;
    if (o->type == PTX_T_F64) {
        o->exec = is_max ? exec_max_f64 : exec_min_f64;
        return decode_want_same(d, o, 3, 64);
    }
    if (o->type != PTX_T_F32)
        return decode_no_type(d, o);
    uint32_t how = (is_max ? MINMAX_MAX : 0u) |
                   (ptx_has(i, PTX_M_NAN) ? MINMAX_NAN : 0u) |
                   (ptx_has(i, PTX_M_FTZ) ? MINMAX_FTZ : 0u) |
                   (ptx_has(i, PTX_M_XORSIGN) ? MINMAX_XORSIGN : 0u);
    bool absolute = ptx_has(i, PTX_M_ABS) && !ptx_has(i, PTX_M_XORSIGN);
    o->aux[AUX_MINMAX] = how;
    if (operands == 4)
        o->exec = absolute ? exec_minmax3_abs_f32 : exec_minmax3_f32;
    else if (absolute)
        o->exec = exec_minmax_abs_f32;
    else
        o->exec = how == MINMAX_MAX ? exec_max_f32
                  : how == 0        ? exec_min_f32
                                    : exec_minmax_f32;
    return decode_want_same(d, o, operands, 32);
}

static exec_fn *plain32(enum ptx_op what)
{
    switch (what) {
    case PTX_ADD:
        return exec_add_f32;
    case PTX_SUB:
        return exec_sub_f32;
    case PTX_MUL:
        return exec_mul_f32;
    case PTX_DIV:
        return exec_div_f32;
    default:
        return exec_fma_f32;
    }
}

static exec_fn *plain64(enum ptx_op what)
{
    switch (what) {
    case PTX_ADD:
        return exec_add_f64;
    case PTX_SUB:
        return exec_sub_f64;
    case PTX_MUL:
        return exec_mul_f64;
    case PTX_DIV:
        return exec_div_f64;
    default:
        return exec_fma_f64;
    }
}

/* add.rn.f32.bf16 d, a, c: a is narrow, the rest f32; fma has two narrow ones. */
static bool decode_mixed(struct decoder *d, struct op *o, int operands)
{
    int narrow = operands == 4 ? 2 : 1;
    o->aux[AUX_A_HALF] = o->type == PTX_T_F16 ? HALF_F16 : HALF_BF16;
    o->exec = operands == 4 ? exec_general3 : exec_general2;
    if (!decode_want_count(d, o, operands, operands))
        return false;
    for (int i = 0; i < operands; i++)
        if (!decode_want_reg(d, o, i, i >= 1 && i <= narrow ? 16 : 32))
            return false;
    return true;
}

static bool decode_arithmetic(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    int operands = i->op == PTX_FMA || i->op == PTX_MAD ? 4 : 3;
    enum rounding r = rounding_of(i);
    o->aux[AUX_ROUND] = r;
    o->aux[AUX_FTZ] = ptx_has(i, PTX_M_FTZ);
    o->aux[AUX_SAT] = ptx_has(i, PTX_M_SAT);
    bool plain = r == ROUND_NEAREST && !o->aux[AUX_FTZ] && !o->aux[AUX_SAT];
    if (o->first_type == PTX_T_F32 && (o->type == PTX_T_F16 || o->type == PTX_T_BF16))
        return decode_mixed(d, o, operands);
    switch (o->type) {
    case PTX_T_F32:
        o->exec = ptx_has(i, PTX_M_APPROX) || ptx_has(i, PTX_M_FULL) ? exec_approx_div
                  : plain                                            ? plain32(i->op)
                  : operands == 4                                    ? exec_general3
                                                                     : exec_general2;
        return decode_want_same(d, o, operands, 32);
    case PTX_T_F32X2:
        if (i->op == PTX_DIV)
            return decode_no_type(d, o);
        o->exec = operands == 4 ? exec_pair3 : exec_pair2;
        if (plain && i->op == PTX_ADD)
            o->exec = exec_add_pair;
        if (plain && i->op == PTX_MUL)
            o->exec = exec_mul_pair;
        return decode_want_same(d, o, operands, 64);
    case PTX_T_F64:
        o->exec = r == ROUND_NEAREST ? plain64(i->op) : exec_directed64;
        return decode_want_same(d, o, operands, 64);
    default:
        return decode_no_type(d, o);
    }
}

bool decode_float(struct decoder *d, struct op *o)
{
    bool ftz = ptx_has(o->insn, PTX_M_FTZ);
    if (type_is_half(o->type) && o->first_type != PTX_T_F32)
        return decode_half(d, o);
    switch (o->insn->op) {
    case PTX_NEG:
    case PTX_ABS: {
        bool neg = o->insn->op == PTX_NEG;
        if (o->type == PTX_T_F64) {
            o->exec = neg ? exec_neg_f64 : exec_abs_f64;
            return decode_want_same(d, o, 2, 64);
        }
        if (o->type != PTX_T_F32)
            return decode_no_type(d, o);
        o->exec = neg   ? ftz ? exec_neg_f32_ftz : exec_neg_f32
                  : ftz ? exec_abs_f32_ftz
                        : exec_abs_f32;
        return decode_want_same(d, o, 2, 32);
    }
    case PTX_MIN:
    case PTX_MAX:
        return decode_extremum(d, o);
    case PTX_REM:
        return decode_no_type(d, o);
    default:
        return decode_arithmetic(d, o);
    }
}

bool decode_FMA(struct decoder *d, struct op *o)
{
    return decode_float(d, o);
}
