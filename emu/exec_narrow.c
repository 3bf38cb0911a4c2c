/* exec_narrow.c - cvt of pairs: f16x2, bf16x2, e4m3x2, e5m2x2, e2m3x2, e3m2x2, e2m1x2,
 * ue8m0x2; cvt.pack.
 *
 * PTX ISA 9.0, "cvt", "cvt.pack".  The first of two sources goes to the high half.  FP8
 * and FP6 elements take a byte each, e2m1 a nibble. */
#include "emu/narrow.h"
#include "emu/exec.h"
#include "emu/floats.h"

enum { AUX_ROUND, AUX_RELU, AUX_SATFINITE, AUX_TO_SHIFT, AUX_FROM_SHIFT };

/* ---- elements */

static const struct format *format_of(int packed_type)
{
    switch (packed_type) {
    case PTX_T_F16X2:
        return &format_f16;
    case PTX_T_BF16X2:
        return &format_bf16;
    case PTX_T_E4M3X2:
        return &format_e4m3;
    case PTX_T_E5M2X2:
        return &format_e5m2;
    case PTX_T_E2M3X2:
        return &format_e2m3;
    case PTX_T_E3M2X2:
        return &format_e3m2;
    case PTX_T_E2M1X2:
        return &format_e2m1;
    default:
        return NULL; /* ue8m0x2 is no sign-and-mantissa format */
    }
}

/* Bits from one element to the next. */
static uint32_t spacing(int packed_type)
{
    switch (packed_type) {
    case PTX_T_F16X2:
    case PTX_T_BF16X2:
        return 16;
    case PTX_T_E2M1X2:
        return 4;
    default:
        return 8;
    }
}

/* The power of two below (toward zero) or above |x|, as its biased exponent. */
static uint32_t ue8m0_encode(double x, enum rounding r, bool satfinite)
{
    if (x != x)
        return 0xff;
    x = fabs(x);
    if (x <= ldexp(1, -127))
        return 0;
    if (isinf(x))
        return satfinite ? 0xfe : 0xff;
    int e;
    double m = frexp(x, &e); /* x = m 2^e, m in [0.5, 1) */
    int code = e - 1 + 127 + (r == ROUND_UP && m > 0.5);
    return code > 0xfe ? satfinite ? 0xfe : 0xff : (uint32_t)code;
}

static double ue8m0_decode(uint32_t code)
{
    return code == 0xff ? NAN : ldexp(1, (int)code - 127);
}

static uint32_t encode(const struct op *op, double x)
{
    const struct format *f = format_of(op->first_type);
    enum rounding r = (enum rounding)op->aux[AUX_ROUND];
    if (!f)
        return ue8m0_encode(x, r, op->aux[AUX_SATFINITE]);
    if (op->aux[AUX_RELU] && !(x > 0) && x == x)
        x = 0;
    return float_encode(f, x, r, op->aux[AUX_SATFINITE]);
}

static double decode(const struct op *op, uint32_t packed, int element)
{
    const struct format *f = format_of(op->type);
    uint32_t bits = op->aux[AUX_FROM_SHIFT];
    uint32_t code = packed >> ((uint32_t)element * bits) & ((1u << bits) - 1);
    return f ? float_decode(f, code) : ue8m0_decode(code);
}

/* ---- from two f32, and from a pair */

static enum flow exec_from_f32(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t high = encode(op, f32_of(a[lane])), low = encode(op, f32_of(b[lane]));
        d[lane] = high << op->aux[AUX_TO_SHIFT] | low;
    }
    return FLOW_NEXT;
}

static enum flow exec_from_pair(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t x = a[lane];
        d[lane] = encode(op, decode(op, x, 1)) << op->aux[AUX_TO_SHIFT] |
                  encode(op, decode(op, x, 0));
    }
    return FLOW_NEXT;
}

/* ---- quick ones, for the epilogues that use them */

static inline uint32_t bf16_of(uint32_t a)
{
    if (is_nan32(a))
        return 0x7fffu;
    return (a + 0x7fffu + (a >> 16 & 1)) >> 16;
}

EXEC2(bf16x2_f32, uint32_t, uint32_t, uint32_t, bf16_of(a) << 16 | bf16_of(b))

/* Thresholds of 2.13; a tie goes to the even code. */
static inline uint32_t e2m1_of(uint32_t bits)
{
    float x = f32_of(bits & 0x7fffffffu);
    uint32_t code = (uint32_t)(x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) +
                    (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
    return is_nan32(bits) ? 7 : code | (bits >> 31) << 3;
}

EXEC2(e2m1x2_f32, uint32_t, uint32_t, uint32_t, e2m1_of(a) << 4 | e2m1_of(b))

/* ---- decoding */

static int packed_bits(int type)
{
    return type == PTX_T_F16X2 || type == PTX_T_BF16X2 ? 32
           : type == PTX_T_E2M1X2                      ? 8
                                                       : 16;
}

bool decode_narrow(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    bool known = format_of(o->first_type) || o->first_type == PTX_T_UE8M0X2;
    bool from_f32 = o->type == PTX_T_F32;
    if (!known || !(from_f32 || format_of(o->type) || o->type == PTX_T_UE8M0X2))
        return decode_refuse(d, o, "this pair of types is missing");
    o->aux[AUX_ROUND] = rounding_of(i);
    o->aux[AUX_RELU] = ptx_has(i, PTX_M_RELU);
    o->aux[AUX_SATFINITE] = ptx_has(i, PTX_M_SATFINITE);
    o->aux[AUX_TO_SHIFT] = spacing(o->first_type);
    o->aux[AUX_FROM_SHIFT] = from_f32 ? 0 : spacing(o->type);
    int operands = from_f32 ? 3 : 2;
    if (!decode_want_count(d, o, operands, operands) ||
        !decode_want_reg(d, o, 0, packed_bits(o->first_type)) ||
        !decode_want_reg(d, o, 1, from_f32 ? 32 : packed_bits(o->type)) ||
        (from_f32 && !decode_want_reg(d, o, 2, 32)))
        return false;
    o->exec = from_f32 ? exec_from_f32 : exec_from_pair;
    bool plain = o->aux[AUX_ROUND] == ROUND_NEAREST && !o->aux[AUX_RELU];
    if (plain && from_f32 && o->first_type == PTX_T_E2M1X2)
        o->exec = exec_e2m1x2_f32;
    if (plain && from_f32 && o->first_type == PTX_T_BF16X2 && !o->aux[AUX_SATFINITE])
        o->exec = exec_bf16x2_f32;
    return true;
}

/* ---- cvt.pack.sat: two s32 behind the low bits of c */

static uint32_t clamp_to(uint32_t x, uint32_t bits, bool sign)
{
    int64_t v = s32_of(x);
    int64_t max = ((int64_t)1 << (sign ? bits - 1 : bits)) - 1,
            min = sign ? -max - 1 : 0;
    v = v > max ? max : v < min ? min : v;
    return (uint32_t)(uint64_t)v & ((1u << bits) - 1);
}

static enum flow exec_cvt_pack(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    const uint32_t *c = op->opnd_count > 3 ? opnd_lanes(w, &op->opnds[3]) : NULL;
    uint32_t bits = op->aux[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t r = clamp_to(a[lane], bits, op->aux[1]) << bits |
                     clamp_to(b[lane], bits, op->aux[1]);
        if (bits < 16)
            r |= (c ? c[lane] : 0) << (2 * bits);
        d[lane] = r;
    }
    return FLOW_NEXT;
}

bool decode_CVT_PACK(struct decoder *d, struct op *o)
{
    int to = o->first_type;
    o->aux[0] = (uint32_t)ptx_type_bits((enum ptx_type)to);
    o->aux[1] = to == PTX_T_S16 || to == PTX_T_S8 || to == PTX_T_S4 || to == PTX_T_S2;
    o->exec = exec_cvt_pack;
    if (!decode_want_count(d, o, 3, 4))
        return false;
    return decode_want_same(d, o, o->opnd_count, 32);
}
