/* exec_cvt.c - cvt between integers and floats of one value a register.
 *
 * PTX ISA 9.0, "cvt".  Sources are cut to the instruction's type, results widened to
 * the destination register by its sign; conversions to integers saturate.  Packed
 * narrow formats are in exec_narrow.c. */
#include "emu/exec.h"
#include "emu/narrow.h"
#include "emu/floats.h"

enum { AUX_ROUND, AUX_FLAGS, AUX_TO_BITS, AUX_FROM_BITS, AUX_INTEGRAL };
enum { FLAG_FTZ = 1, FLAG_SAT = 2, FLAG_RELU = 4, FLAG_SATFINITE = 8 };

static uint64_t low_bits(int bits)
{
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static uint64_t extend(uint64_t x, int bits, bool sign)
{
    x &= low_bits(bits);
    uint64_t top = (uint64_t)1 << (bits - 1);
    return sign ? (x ^ top) - top : x;
}

static bool is_signed(int t)
{
    return t == PTX_T_S8 || t == PTX_T_S16 || t == PTX_T_S32 || t == PTX_T_S64;
}

/* Into the destination register, extended from `bits` to its width. */
static void put_int(struct warp *w, const struct op *op, int lane, uint64_t x)
{
    const struct opnd *d = &op->opnds[0];
    x = extend(x, (int)op->aux[AUX_TO_BITS], is_signed(op->first_type));
    if (d->bits == 64) {
        uint64_t *r = opnd_lanes(w, d);
        r[lane] = x;
    } else {
        uint32_t *r = opnd_lanes(w, d);
        r[lane] = (uint32_t)(x & low_bits(d->bits));
    }
}

/* ---- integer to integer */

static uint64_t clamp_int(uint64_t x, bool from_signed, int bits, bool to_signed)
{
    bool negative = from_signed && x >> 63;
    if (to_signed) {
        uint64_t max = low_bits(bits - 1), min = 0 - max - 1;
        if (negative)
            return s64_of(x) < s64_of(min) ? min : x;
        return x > max ? max : x;
    }
    if (negative)
        return 0;
    return x > low_bits(bits) ? low_bits(bits) : x;
}

static enum flow exec_int_int(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool from_signed = is_signed(op->type), sat = op->aux[AUX_FLAGS] & FLAG_SAT;
    int from = (int)op->aux[AUX_FROM_BITS];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t x = extend(opnd_u64(w, &op->opnds[1], lane), from, from_signed);
        if (sat)
            x = clamp_int(x, from_signed, (int)op->aux[AUX_TO_BITS],
                          is_signed(op->first_type));
        put_int(w, op, lane, x);
    }
    return FLOW_NEXT;
}

EXEC1(u64_u32, uint64_t, uint32_t, a)
EXEC1(s64_s32, uint64_t, uint32_t, (uint64_t)(int64_t)s32_of(a))
EXEC1(u32_u64, uint32_t, uint64_t, a)
EXEC1(u16_u32, uint32_t, uint32_t, a & 0xffffu)
EXEC1(u32_u16, uint32_t, uint32_t, a)

/* ---- integer to float */

/* How many low bits an integer has beyond the 53 that a double holds. */
static int excess_bits(uint64_t m)
{
    int drop = 0;
    while (drop < 11 && m >> (53 + drop))
        drop++;
    return drop;
}

/* Magnitude as a double, rounded to odd where it has more than 53 bits. */
static double magnitude(uint64_t m)
{
    int drop = excess_bits(m);
    uint64_t kept = m >> drop;
    if (m & low_bits(drop))
        kept |= 1;
    return ldexp((double)kept, drop);
}

/* To f64 in any direction: 53 bits are kept. */
static double int_to_f64(uint64_t m, bool negative, enum rounding r)
{
    int drop = excess_bits(m);
    uint64_t kept = m >> drop, rest = m & low_bits(drop);
    if (rest != 0) {
        uint64_t half = (uint64_t)1 << (drop - 1);
        kept += r == ROUND_NEAREST ? rest > half || (rest == half && (kept & 1))
                : r == ROUND_UP    ? !negative
                : r == ROUND_DOWN  ? negative
                                   : false;
    }
    double x = ldexp((double)kept, drop);
    return negative ? -x : x;
}

static uint32_t saturate_bits(uint32_t h, const struct format *f)
{
    uint32_t one = (uint32_t)f->bias << f->man_bits;
    if ((h & ~((uint32_t)1 << (f->exp_bits + f->man_bits))) > f->inf ||
        h >> (f->exp_bits + f->man_bits))
        return 0;
    return h > one ? one : h;
}

static const struct format *format_of(int type)
{
    switch (type) {
    case PTX_T_F16:
        return &format_f16;
    case PTX_T_BF16:
        return &format_bf16;
    case PTX_T_TF32:
        return &format_tf32;
    default:
        return &format_f32;
    }
}

/* The result of type first_type from a value that is exact or rounded to odd. */
static uint64_t make_float(const struct op *op, double x)
{
    uint32_t flags = op->aux[AUX_FLAGS];
    enum rounding r = (enum rounding)op->aux[AUX_ROUND];
    if (flags & FLAG_RELU && !(x > 0) && x == x)
        x = 0;
    if (op->first_type == PTX_T_F64) {
        if (flags & FLAG_SAT)
            x = !(x > 0) ? 0 : x > 1 ? 1 : x;
        return canon64(x, 0, 0);
    }
    const struct format *f = format_of(op->first_type);
    uint32_t h = float_encode(f, x, r, flags & FLAG_SATFINITE);
    if (op->first_type == PTX_T_TF32) {
        bool nan = x != x;
        return nan ? NAN_F32 : h << 13;
    }
    if (flags & FLAG_FTZ && op->first_type == PTX_T_F32)
        h = flush(h);
    return flags & FLAG_SAT ? saturate_bits(h, f) : h;
}

static void put_float(struct warp *w, const struct op *op, int lane, uint64_t x)
{
    if (op->opnds[0].bits == 64) {
        uint64_t *r = opnd_lanes(w, &op->opnds[0]);
        r[lane] = x;
    } else {
        uint32_t *r = opnd_lanes(w, &op->opnds[0]);
        r[lane] = (uint32_t)x;
    }
}

static enum flow exec_int_float(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool from_signed = is_signed(op->type);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t x = extend(opnd_u64(w, &op->opnds[1], lane),
                            (int)op->aux[AUX_FROM_BITS], from_signed);
        bool negative = from_signed && x >> 63;
        uint64_t m = negative ? 0 - x : x;
        double v = op->first_type == PTX_T_F64
                       ? int_to_f64(m, negative, (enum rounding)op->aux[AUX_ROUND])
                       : (negative ? -magnitude(m) : magnitude(m));
        put_float(w, op, lane, make_float(op, v));
    }
    return FLOW_NEXT;
}

EXEC1(f32_s32, uint32_t, uint32_t, bits_of_f32((float)s32_of(a)))
EXEC1(f32_u32, uint32_t, uint32_t, bits_of_f32((float)a))

/* ---- float to integer or float */

static double float_value(const struct op *op, uint64_t bits)
{
    switch (op->type) {
    case PTX_T_F64:
        return f64_of(bits);
    case PTX_T_F16:
        return float_decode(&format_f16, (uint32_t)bits & 0xffffu);
    case PTX_T_BF16:
        return float_decode(&format_bf16, (uint32_t)bits & 0xffffu);
    default:
        return f32_of(op->aux[AUX_FLAGS] & FLAG_FTZ ? flush((uint32_t)bits)
                                                    : (uint32_t)bits);
    }
}

static double integral(double x, enum rounding r)
{
    return r == ROUND_NEAREST ? nearbyint(x)
           : r == ROUND_ZERO  ? trunc(x)
           : r == ROUND_DOWN  ? floor(x)
                              : ceil(x);
}

static uint64_t to_int(const struct op *op, double x)
{
    int bits = (int)op->aux[AUX_TO_BITS];
    bool to_signed = is_signed(op->first_type);
    if (x != x)
        return op->type == PTX_T_F64 || bits == 64 ? (uint64_t)1 << (bits - 1) : 0;
    x = integral(x, (enum rounding)op->aux[AUX_ROUND]);
    if (to_signed) {
        double limit = ldexp(1, bits - 1);
        if (x >= limit)
            return low_bits(bits - 1);
        return x < -limit ? (uint64_t)1 << (bits - 1) : (uint64_t)(int64_t)x;
    }
    if (x >= ldexp(1, bits))
        return low_bits(bits);
    return x > 0 ? (uint64_t)x : 0;
}

static enum flow exec_float_int(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        double x = float_value(op, opnd_u64(w, &op->opnds[1], lane));
        put_int(w, op, lane, to_int(op, x));
    }
    return FLOW_NEXT;
}

/* A NaN of f64 in a narrower format: quiet, with its sign and the top of its payload.
 */
static uint32_t narrow_nan(const struct format *f, uint64_t wide)
{
    uint32_t payload =
        (uint32_t)(wide >> (52 - f->man_bits)) & ((1u << f->man_bits) - 1);
    return (uint32_t)(wide >> 63) << (f->exp_bits + f->man_bits) | f->inf |
           1u << (f->man_bits - 1) | payload;
}

static uint64_t wide_nan(const struct format *f, uint32_t bits)
{
    uint64_t payload = bits & ((1u << f->man_bits) - 1);
    return (uint64_t)(bits >> (f->exp_bits + f->man_bits) & 1) << 63 |
           (uint64_t)0x7ff << 52 | payload << (52 - f->man_bits);
}

/* What a NaN becomes.  Sign and payload stay where f64 or bf16 is read, and on the way
 * to f64; otherwise it is the canonical one (all as an H200 has it). */
static uint64_t convert_nan(const struct op *op, uint64_t bits)
{
    const struct format *from = format_of(op->type), *to = format_of(op->first_type);
    bool ftz = op->aux[AUX_FLAGS] & FLAG_FTZ;
    if (op->type == PTX_T_F64)
        return op->first_type == PTX_T_F64 ? quiet64(bits) : narrow_nan(to, bits);
    if (op->first_type == PTX_T_F64)
        return quiet64(wide_nan(from, ftz ? from->nan : (uint32_t)bits));
    if (op->type == PTX_T_BF16 && op->first_type == PTX_T_F32)
        return (bits & 0xffffu) << 16;
    if (op->first_type != PTX_T_TF32)
        return to->nan;
    if (op->aux[AUX_ROUND] != ROUND_AWAY)
        return (uint64_t)to->nan << 13;
    /* .rna is arithmetic on integers there. */
    return (bits & ~(uint64_t)0x1fff) -
           (op->aux[AUX_FLAGS] & FLAG_SATFINITE ? 0x2000u : 0);
}

static enum flow exec_float_float(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t bits = opnd_u64(w, &op->opnds[1], lane);
        double x = float_value(op, bits);
        if (x != x && !(op->aux[AUX_FLAGS] & FLAG_SAT)) {
            put_float(w, op, lane, convert_nan(op, bits));
            continue;
        }
        if (op->aux[AUX_INTEGRAL])
            x = integral(x, (enum rounding)op->aux[AUX_ROUND]);
        put_float(w, op, lane, make_float(op, x));
    }
    return FLOW_NEXT;
}

EXEC1(f32_bf16, uint32_t, uint32_t, a << 16)

/* ---- decoding */

static bool is_packed(int t)
{
    switch (t) {
    case PTX_T_F16X2:
    case PTX_T_BF16X2:
    case PTX_T_E4M3X2:
    case PTX_T_E5M2X2:
    case PTX_T_E2M3X2:
    case PTX_T_E3M2X2:
    case PTX_T_E2M1X2:
    case PTX_T_UE8M0X2:
    case PTX_T_E4M3X4:
    case PTX_T_E5M2X4:
    case PTX_T_E2M3X4:
    case PTX_T_E3M2X4:
    case PTX_T_E2M1X4:
        return true;
    default:
        return false;
    }
}

static bool is_int(int t)
{
    return is_signed(t) || t == PTX_T_U8 || t == PTX_T_U16 || t == PTX_T_U32 ||
           t == PTX_T_U64;
}

static bool says_integral(const struct ptx_insn *i)
{
    return ptx_has(i, PTX_M_RNI) || ptx_has(i, PTX_M_RZI) || ptx_has(i, PTX_M_RMI) ||
           ptx_has(i, PTX_M_RPI);
}

/* Any register that is wide enough. */
static bool want_at_least(struct decoder *d, struct op *o, int index, int bits)
{
    struct opnd *p = &o->opnds[index];
    if (p->is_const)
        return decode_want_reg(d, o, index, bits);
    if (p->kind != PTX_OPND_REG || p->bits == 1 || (p->bits < bits && !p->is_sink))
        return decode_refuse(d, o, "operand %d must be a register of %d bits or more",
                             index + 1, bits);
    return true;
}

static exec_fn *fast(const struct op *o, bool plain)
{
    int to = o->first_type, from = o->type, d = o->opnds[0].bits, s = o->opnds[1].bits;
    if (!plain)
        return NULL;
    if ((to == PTX_T_U64 || to == PTX_T_S64) && from == PTX_T_U32 && d == 64 && s == 32)
        return exec_u64_u32;
    if ((to == PTX_T_U64 || to == PTX_T_S64) && from == PTX_T_S32 && d == 64 && s == 32)
        return exec_s64_s32;
    if ((to == PTX_T_U32 || to == PTX_T_S32) &&
        (from == PTX_T_U64 || from == PTX_T_S64) && d == 32 && s == 64)
        return exec_u32_u64;
    if ((to == PTX_T_U16 || to == PTX_T_S16) &&
        (from == PTX_T_U32 || from == PTX_T_S32) && d == 16 && s == 32)
        return exec_u16_u32;
    if ((to == PTX_T_U32 || to == PTX_T_S32) && from == PTX_T_U16 && d == 32 && s == 16)
        return exec_u32_u16;
    if (to == PTX_T_F32 && from == PTX_T_S32)
        return exec_f32_s32;
    if (to == PTX_T_F32 && from == PTX_T_U32)
        return exec_f32_u32;
    if (to == PTX_T_F32 && from == PTX_T_BF16)
        return exec_f32_bf16;
    return NULL;
}

bool decode_CVT(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    if (i->type_count != 2)
        return decode_refuse(d, o, "it needs two types");
    if (ptx_has(i, PTX_M_RS))
        return decode_refuse(d, o, "stochastic rounding is missing");
    if (is_packed(o->type) || is_packed(o->first_type))
        return decode_narrow(d, o);
    int to = ptx_type_bits((enum ptx_type)o->first_type);
    int from = ptx_type_bits((enum ptx_type)o->type);
    o->aux[AUX_ROUND] = rounding_of(i);
    o->aux[AUX_FLAGS] = (ptx_has(i, PTX_M_FTZ) ? FLAG_FTZ : 0u) |
                        (ptx_has(i, PTX_M_SAT) ? FLAG_SAT : 0u) |
                        (ptx_has(i, PTX_M_RELU) ? FLAG_RELU : 0u) |
                        (ptx_has(i, PTX_M_SATFINITE) ? FLAG_SATFINITE : 0u);
    o->aux[AUX_TO_BITS] = (uint32_t)to;
    o->aux[AUX_FROM_BITS] = (uint32_t)from;
    o->aux[AUX_INTEGRAL] = says_integral(i);
    if (!decode_want_count(d, o, 2, 2) || !want_at_least(d, o, 0, to) ||
        !want_at_least(d, o, 1, from))
        return false;
    bool to_int = is_int(o->first_type), from_int = is_int(o->type);
    o->exec = to_int     ? from_int ? exec_int_int : exec_float_int
              : from_int ? exec_int_float
                         : exec_float_float;
    if (!to_int && o->opnds[0].bits != (to <= 32 && to > 16 ? 32 : to) &&
        !o->opnds[0].is_sink)
        return decode_refuse(d, o, "the destination must have %d bits", to);
    exec_fn *f = fast(o, o->aux[AUX_ROUND] == ROUND_NEAREST && !o->aux[AUX_FLAGS]);
    if (f)
        o->exec = f;
    return true;
}
