/* exec_half.c - arithmetic on f16, bf16 and their pairs.
 *
 * PTX ISA 9.0, "Half Precision Floating Point Instructions".  Computed exactly (or
 * rounded to odd) in double, then rounded once. */
#include "emu/exec.h"
#include "emu/floats.h"

enum { AUX_BF16, AUX_FTZ, AUX_SAT, AUX_RELU, AUX_NAN, AUX_FLAGS };
enum { FLAG_XORSIGN = 1, FLAG_ABS = 2, FLAG_PAIR = 4 };

static const struct format *format_of(const struct op *op)
{
    return op->aux[AUX_BF16] ? &format_bf16 : &format_f16;
}

static uint32_t flush16(uint32_t h, const struct format *f)
{
    uint32_t exponent = ((1u << f->exp_bits) - 1) << f->man_bits;
    return (h & exponent) == 0 ? h & 0x8000u : h;
}

static bool is_nan16(uint32_t h, const struct format *f)
{
    return (h & 0x7fffu) > f->inf;
}

static uint32_t order16(uint32_t h)
{
    return h & 0x8000u ? ~h & 0xffffu : h | 0x8000u;
}

static uint32_t extremum(uint32_t a, uint32_t b, const struct op *op)
{
    const struct format *f = format_of(op);
    bool is_max = op->insn->op == PTX_MAX, nan_wins = op->aux[AUX_NAN];
    uint32_t sign = 0;
    if (op->aux[AUX_FTZ]) {
        a = flush16(a, f);
        b = flush16(b, f);
    }
    if (op->aux[AUX_FLAGS] & FLAG_XORSIGN) {
        sign = (a ^ b) & 0x8000u;
        a &= 0x7fffu;
        b &= 0x7fffu;
    }
    bool an = is_nan16(a, f), bn = is_nan16(b, f);
    if ((an && bn) || (nan_wins && (an || bn)))
        return f->nan;
    if (an)
        return b | sign;
    if (bn)
        return a | sign;
    return ((order16(a) > order16(b)) == is_max ? a : b) | sign;
}

static double combine(enum ptx_op what, double a, double b, double c)
{
    switch (what) {
    case PTX_ADD:
        return fma_to_odd(a, 1, b);
    case PTX_SUB:
        return fma_to_odd(a, 1, -b);
    case PTX_MUL:
        return a * b;
    case PTX_DIV:
        return div_to_odd(a, b);
    default:
        return fma_to_odd(a, b, c);
    }
}

static uint32_t arithmetic(uint32_t a, uint32_t b, uint32_t c, const struct op *op)
{
    const struct format *f = format_of(op);
    if (op->aux[AUX_FTZ]) {
        a = flush16(a, f);
        b = flush16(b, f);
        c = flush16(c, f);
    }
    double x = combine(op->insn->op, float_decode(f, a), float_decode(f, b),
                       float_decode(f, c));
    uint32_t h = float_encode(f, x, ROUND_NEAREST, false);
    if (op->aux[AUX_FTZ])
        h = flush_result(f, h, x, ROUND_NEAREST);
    if (op->aux[AUX_SAT]) {
        uint32_t one = (uint32_t)f->bias << f->man_bits;
        if (is_nan16(h, f) || h & 0x8000u)
            h = 0;
        else if (h > one)
            h = one;
    }
    if (op->aux[AUX_RELU] && !is_nan16(h, f) && h & 0x8000u)
        h = 0;
    return h;
}

static uint32_t one_value(uint32_t a, uint32_t b, uint32_t c, const struct op *op)
{
    const struct format *f = format_of(op);
    a &= 0xffffu;
    b &= 0xffffu;
    c &= 0xffffu;
    switch (op->insn->op) {
    case PTX_MIN:
    case PTX_MAX: {
        uint32_t mask = op->aux[AUX_FLAGS] & FLAG_ABS ? 0x7fffu : 0xffffu;
        uint32_t r = extremum(a & mask, b & mask, op);
        return op->opnd_count == 4 ? extremum(r, c & mask, op) : r;
    }
    case PTX_NEG:
    case PTX_ABS:
        /* As exec_float.c has it. */
        if (is_nan16(a, f))
            return f->nan;
        a = op->aux[AUX_FTZ] ? flush16(a, f) : a;
        return op->insn->op == PTX_NEG ? a ^ 0x8000u : a & 0x7fffu;
    default:
        return arithmetic(a, b, c, op);
    }
}

static enum flow exec_half(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]);
    const uint32_t *b = op->opnd_count > 2 ? opnd_lanes(w, &op->opnds[2]) : a;
    const uint32_t *c = op->opnd_count > 3 ? opnd_lanes(w, &op->opnds[3]) : a;
    bool pair = op->aux[AUX_FLAGS] & FLAG_PAIR;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t r = one_value(a[lane], b[lane], c[lane], op);
        if (pair)
            r |= one_value(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16, op) << 16;
        d[lane] = r;
    }
    return FLOW_NEXT;
}

bool decode_half(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    bool pair = o->type == PTX_T_F16X2 || o->type == PTX_T_BF16X2;
    enum rounding r = rounding_of(i);
    if (r != ROUND_NEAREST)
        return decode_refuse(d, o, "16-bit floats round to nearest only");
    if (i->op == PTX_DIV || i->op == PTX_REM || i->op == PTX_MAD)
        return decode_no_type(d, o);
    o->aux[AUX_BF16] = o->type == PTX_T_BF16 || o->type == PTX_T_BF16X2;
    o->aux[AUX_FTZ] = ptx_has(i, PTX_M_FTZ);
    o->aux[AUX_SAT] = ptx_has(i, PTX_M_SAT);
    o->aux[AUX_RELU] = ptx_has(i, PTX_M_RELU);
    o->aux[AUX_NAN] = ptx_has(i, PTX_M_NAN);
    bool xorsign = ptx_has(i, PTX_M_XORSIGN);
    o->aux[AUX_FLAGS] = (pair ? FLAG_PAIR : 0u) | (xorsign ? FLAG_XORSIGN : 0u) |
                        (ptx_has(i, PTX_M_ABS) && !xorsign ? FLAG_ABS : 0u);
    o->exec = exec_half;
    int operands = i->op == PTX_FMA                                               ? 4
                   : i->op == PTX_NEG || i->op == PTX_ABS                         ? 2
                   : (i->op == PTX_MIN || i->op == PTX_MAX) && o->opnd_count == 4 ? 4
                                                                                  : 3;
    return decode_want_same(d, o, operands, pair ? 32 : 16);
}
