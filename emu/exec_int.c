/* exec_int.c - arithmetic on integers.
 *
 * PTX ISA 9.0, "Integer Arithmetic Instructions", "Extended-Precision Integer
 * Arithmetic Instructions".  16-bit values sit zero-extended in 32-bit lanes. */
#include "emu/exec.h"
#include "emu/lanes.h"

/* ---- helpers on values */

static uint32_t add16x2(uint32_t a, uint32_t b)
{
    return ((a & 0xffff0000u) + (b & 0xffff0000u)) | ((a + b) & 0xffffu);
}

static uint32_t saturated(int64_t x)
{
    x = x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
    return (uint32_t)x;
}

static uint64_t mulhi_u64(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t mid = a1 * b0 + (a0 * b0 >> 32);
    uint64_t mid2 = a0 * b1 + (uint32_t)mid;
    return a1 * b1 + (mid >> 32) + (mid2 >> 32);
}

static uint64_t mulhi_s64(uint64_t a, uint64_t b)
{
    return mulhi_u64(a, b) - (s64_of(a) < 0 ? b : 0) - (s64_of(b) < 0 ? a : 0);
}

static uint32_t mulhi_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

static uint32_t mulhi_s32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)((int64_t)s32_of(a) * s32_of(b)) >> 32);
}

static uint32_t u24(uint32_t a)
{
    return a & 0xffffffu;
}

static int64_t s24(uint32_t a)
{
    return (int64_t)((a & 0xffffffu) ^ 0x800000u) - 0x800000;
}

/* ---- add, sub, mul, mad */

EXEC2(add16, uint32_t, uint32_t, uint32_t, (a + b) & 0xffffu)
EXEC2(add32, uint32_t, uint32_t, uint32_t, a + b)
EXEC2(add64, uint64_t, uint64_t, uint64_t, a + b)
EXEC2(add16x2, uint32_t, uint32_t, uint32_t, add16x2(a, b))
EXEC2(add_sat, uint32_t, uint32_t, uint32_t, saturated((int64_t)s32_of(a) + s32_of(b)))
EXEC2(sub16, uint32_t, uint32_t, uint32_t, (a - b) & 0xffffu)
EXEC2(sub32, uint32_t, uint32_t, uint32_t, a - b)
EXEC2(sub64, uint64_t, uint64_t, uint64_t, a - b)
EXEC2(sub16x2, uint32_t, uint32_t, uint32_t,
      ((a & 0xffff0000u) - (b & 0xffff0000u)) | ((a - b) & 0xffffu))
EXEC2(sub_sat, uint32_t, uint32_t, uint32_t, saturated((int64_t)s32_of(a) - s32_of(b)))

EXEC2(mul_lo16, uint32_t, uint32_t, uint32_t, (a * b) & 0xffffu)
EXEC2(mul_lo32, uint32_t, uint32_t, uint32_t, a *b)
EXEC2(mul_lo64, uint64_t, uint64_t, uint64_t, a *b)
EXEC2(mul_hi_u16, uint32_t, uint32_t, uint32_t, a *b >> 16)
EXEC2(mul_hi_s16, uint32_t, uint32_t, uint32_t,
      (uint32_t)(s16_of(a) * s16_of(b)) >> 16 & 0xffffu)
EXEC2(mul_hi_u32, uint32_t, uint32_t, uint32_t, mulhi_u32(a, b))
EXEC2(mul_hi_s32, uint32_t, uint32_t, uint32_t, mulhi_s32(a, b))
EXEC2(mul_hi_u64, uint64_t, uint64_t, uint64_t, mulhi_u64(a, b))
EXEC2(mul_hi_s64, uint64_t, uint64_t, uint64_t, mulhi_s64(a, b))
EXEC2(mul_wide_u16, uint32_t, uint32_t, uint32_t, a *b)
EXEC2(mul_wide_s16, uint32_t, uint32_t, uint32_t, (uint32_t)(s16_of(a) * s16_of(b)))
EXEC2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)a *b)
EXEC2(mul_wide_s32, uint64_t, uint32_t, uint32_t,
      (uint64_t)((int64_t)s32_of(a) * s32_of(b)))

EXEC3(mad_lo16, uint32_t, uint32_t, uint32_t, uint32_t, (a * b + c) & 0xffffu)
EXEC3(mad_lo32, uint32_t, uint32_t, uint32_t, uint32_t, a *b + c)
EXEC3(mad_lo64, uint64_t, uint64_t, uint64_t, uint64_t, a *b + c)
EXEC3(mad_hi_u16, uint32_t, uint32_t, uint32_t, uint32_t, ((a * b >> 16) + c) & 0xffffu)
EXEC3(mad_hi_s16, uint32_t, uint32_t, uint32_t, uint32_t,
      (((uint32_t)(s16_of(a) * s16_of(b)) >> 16) + c) & 0xffffu)
EXEC3(mad_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, mulhi_u32(a, b) + c)
EXEC3(mad_hi_s32, uint32_t, uint32_t, uint32_t, uint32_t, mulhi_s32(a, b) + c)
EXEC3(mad_hi_sat, uint32_t, uint32_t, uint32_t, uint32_t,
      saturated((int64_t)s32_of(mulhi_s32(a, b)) + s32_of(c)))
EXEC3(mad_hi_u64, uint64_t, uint64_t, uint64_t, uint64_t, mulhi_u64(a, b) + c)
EXEC3(mad_hi_s64, uint64_t, uint64_t, uint64_t, uint64_t, mulhi_s64(a, b) + c)
EXEC3(mad_wide_u16, uint32_t, uint32_t, uint32_t, uint32_t, a *b + c)
EXEC3(mad_wide_s16, uint32_t, uint32_t, uint32_t, uint32_t,
      (uint32_t)(s16_of(a) * s16_of(b)) + c)
EXEC3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)a *b + c)
EXEC3(mad_wide_s32, uint64_t, uint32_t, uint32_t, uint64_t,
      (uint64_t)((int64_t)s32_of(a) * s32_of(b)) + c)

EXEC2(mul24_lo_u, uint32_t, uint32_t, uint32_t, u24(a) * u24(b))
EXEC2(mul24_lo_s, uint32_t, uint32_t, uint32_t, (uint64_t)(s24(a) * s24(b)))
EXEC2(mul24_hi_u, uint32_t, uint32_t, uint32_t, (uint64_t)u24(a) * u24(b) >> 16)
EXEC2(mul24_hi_s, uint32_t, uint32_t, uint32_t, (uint64_t)(s24(a) * s24(b)) >> 16)
EXEC3(mad24_lo_u, uint32_t, uint32_t, uint32_t, uint32_t, u24(a) * u24(b) + c)
EXEC3(mad24_lo_s, uint32_t, uint32_t, uint32_t, uint32_t,
      (uint32_t)(uint64_t)(s24(a) * s24(b)) + c)
EXEC3(mad24_hi_u, uint32_t, uint32_t, uint32_t, uint32_t,
      (uint32_t)((uint64_t)u24(a) * u24(b) >> 16) + c)
EXEC3(mad24_hi_s, uint32_t, uint32_t, uint32_t, uint32_t,
      (uint32_t)((uint64_t)(s24(a) * s24(b)) >> 16) + c)
EXEC3(mad24_hi_sat, uint32_t, uint32_t, uint32_t, uint32_t,
      saturated((s24(a) * s24(b) >> 16) + s32_of(c)))

/* The columns are .u16 .s16 .u32 .s32 .u64 .s64. */
enum column { U16, S16, U32, S32, U64, S64, COLUMNS };

static int column_of(int type)
{
    switch (type) {
    case PTX_T_U16:
        return U16;
    case PTX_T_S16:
        return S16;
    case PTX_T_U32:
        return U32;
    case PTX_T_S32:
        return S32;
    case PTX_T_U64:
        return U64;
    case PTX_T_S64:
        return S64;
    default:
        return -1;
    }
}

static const int column_bits[COLUMNS] = {16, 16, 32, 32, 64, 64};

static exec_fn *const add_table[COLUMNS] = {exec_add16, exec_add16, exec_add32,
                                            exec_add32, exec_add64, exec_add64};
static exec_fn *const sub_table[COLUMNS] = {exec_sub16, exec_sub16, exec_sub32,
                                            exec_sub32, exec_sub64, exec_sub64};
static exec_fn *const mul_lo[COLUMNS] = {exec_mul_lo16, exec_mul_lo16, exec_mul_lo32,
                                         exec_mul_lo32, exec_mul_lo64, exec_mul_lo64};
static exec_fn *const mul_hi[COLUMNS] = {exec_mul_hi_u16, exec_mul_hi_s16,
                                         exec_mul_hi_u32, exec_mul_hi_s32,
                                         exec_mul_hi_u64, exec_mul_hi_s64};
static exec_fn *const mul_wide[COLUMNS] = {exec_mul_wide_u16, exec_mul_wide_s16,
                                           exec_mul_wide_u32, exec_mul_wide_s32};
static exec_fn *const mad_lo[COLUMNS] = {exec_mad_lo16, exec_mad_lo16, exec_mad_lo32,
                                         exec_mad_lo32, exec_mad_lo64, exec_mad_lo64};
static exec_fn *const mad_hi[COLUMNS] = {exec_mad_hi_u16, exec_mad_hi_s16,
                                         exec_mad_hi_u32, exec_mad_hi_s32,
                                         exec_mad_hi_u64, exec_mad_hi_s64};
static exec_fn *const mad_wide[COLUMNS] = {exec_mad_wide_u16, exec_mad_wide_s16,
                                           exec_mad_wide_u32, exec_mad_wide_s32};

/* ---- with carry */

enum { AUX_WRITES_CC, AUX_READS_CC, AUX_HI };

/* a + b + in, and whether it overflows `bits`. */
static uint64_t add_carry(uint64_t a, uint64_t b, uint64_t in, int bits, uint32_t *out)
{
    uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    uint64_t s = (a + b) & mask;
    uint64_t t = (s + in) & mask;
    *out = (uint32_t)(s < a) | (uint32_t)(t < s);
    return t;
}

static uint64_t product_part(uint64_t a, uint64_t b, int type, bool hi)
{
    if (!hi)
        return type == PTX_T_U32 || type == PTX_T_S32 ? (uint32_t)(a * b) : a * b;
    switch (type) {
    case PTX_T_U32:
        return mulhi_u32((uint32_t)a, (uint32_t)b);
    case PTX_T_S32:
        return mulhi_s32((uint32_t)a, (uint32_t)b);
    case PTX_T_U64:
        return mulhi_u64(a, b);
    default:
        return mulhi_s64(a, b);
    }
}

static void put(struct warp *w, const struct opnd *o, int lane, int bits,
                uint64_t value)
{
    if (bits == 64) {
        uint64_t *r = opnd_lanes(w, o);
        r[lane] = value;
    } else {
        uint32_t *r = opnd_lanes(w, o);
        r[lane] = (uint32_t)value;
    }
}

/* add.cc addc sub.cc subc mad.cc madc: rare, so one general function. */
static enum flow exec_carry(struct warp *w, const struct op *op, uint32_t lanes)
{
    int bits = ptx_type_bits((enum ptx_type)op->type);
    uint64_t mask = bits == 64 ? UINT64_MAX : UINT32_MAX;
    enum ptx_op what = op->insn->op;
    bool is_sub = what == PTX_SUB || what == PTX_SUBC;
    bool is_mad = what == PTX_MAD || what == PTX_MADC;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = opnd_u64(w, &op->opnds[1], lane),
                 b = opnd_u64(w, &op->opnds[2], lane);
        uint64_t in = op->aux[AUX_READS_CC] ? w->carry >> lane & 1 : 0;
        uint32_t out;
        if (is_mad) {
            a = product_part(a, b, op->type, op->aux[AUX_HI]);
            b = opnd_u64(w, &op->opnds[3], lane);
        }
        if (is_sub) {
            /* a - b - borrow = a + ~b + 1 - borrow; the flag is the borrow. */
            a = add_carry(a, ~b & mask, 1 - in, bits, &out);
            out = !out;
        } else {
            a = add_carry(a, b, in, bits, &out);
        }
        put(w, &op->opnds[0], lane, bits, a);
        if (op->aux[AUX_WRITES_CC])
            w->carry = (w->carry & ~((uint32_t)1 << lane)) | out << lane;
    }
    return FLOW_NEXT;
}

static bool decode_carry(struct decoder *d, struct op *o, int operands, bool reads)
{
    int c = column_of(o->type);
    if (c < U32)
        return decode_no_type(d, o);
    o->aux[AUX_WRITES_CC] = ptx_has(o->insn, PTX_M_CC);
    o->aux[AUX_READS_CC] = reads;
    o->aux[AUX_HI] = ptx_has(o->insn, PTX_M_HI);
    o->exec = exec_carry;
    return decode_want_same(d, o, operands, column_bits[c]);
}

static bool decode_sum(struct decoder *d, struct op *o, exec_fn *const *table,
                       exec_fn *sat, exec_fn *packed)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    if (ptx_has(o->insn, PTX_M_CC))
        return decode_carry(d, o, 3, false);
    if (o->type == PTX_T_U16X2 || o->type == PTX_T_S16X2) {
        o->exec = packed;
        return decode_want_same(d, o, 3, 32);
    }
    int c = column_of(o->type);
    if (c < 0)
        return decode_no_type(d, o);
    o->exec = table[c];
    if (ptx_has(o->insn, PTX_M_SAT)) {
        if (c != S32)
            return decode_refuse(d, o, ".sat exists for .s32 only");
        o->exec = sat;
    }
    return decode_want_same(d, o, 3, column_bits[c]);
}

bool decode_ADD(struct decoder *d, struct op *o)
{
    return decode_sum(d, o, add_table, exec_add_sat, exec_add16x2);
}

bool decode_SUB(struct decoder *d, struct op *o)
{
    return decode_sum(d, o, sub_table, exec_sub_sat, exec_sub16x2);
}

bool decode_ADDC(struct decoder *d, struct op *o)
{
    return decode_carry(d, o, 3, true);
}

bool decode_SUBC(struct decoder *d, struct op *o)
{
    return decode_carry(d, o, 3, true);
}

bool decode_MADC(struct decoder *d, struct op *o)
{
    return decode_carry(d, o, 4, true);
}

static bool decode_product(struct decoder *d, struct op *o, int operands,
                           exec_fn *const *lo, exec_fn *const *hi, exec_fn *const *wide)
{
    int c = column_of(o->type);
    if (c < 0)
        return decode_no_type(d, o);
    bool is_wide = ptx_has(o->insn, PTX_M_WIDE);
    o->exec = is_wide ? wide[c] : ptx_has(o->insn, PTX_M_HI) ? hi[c] : lo[c];
    if (!o->exec)
        return decode_no_type(d, o);
    int bits = column_bits[c], wide_bits = is_wide ? bits * 2 : bits;
    if (!decode_want_count(d, o, operands, operands) ||
        !decode_want_reg(d, o, 0, wide_bits) || !decode_want_reg(d, o, 1, bits) ||
        !decode_want_reg(d, o, 2, bits))
        return false;
    return operands == 3 || decode_want_reg(d, o, 3, wide_bits);
}

bool decode_MUL(struct decoder *d, struct op *o)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    return decode_product(d, o, 3, mul_lo, mul_hi, mul_wide);
}

bool decode_MAD(struct decoder *d, struct op *o)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    if (ptx_has(o->insn, PTX_M_CC))
        return decode_carry(d, o, 4, false);
    if (!decode_product(d, o, 4, mad_lo, mad_hi, mad_wide))
        return false;
    if (ptx_has(o->insn, PTX_M_SAT)) {
        if (o->type != PTX_T_S32 || !ptx_has(o->insn, PTX_M_HI))
            return decode_refuse(d, o, ".sat exists for .hi.s32 only");
        o->exec = exec_mad_hi_sat;
    }
    return true;
}

static bool decode_24(struct decoder *d, struct op *o, int operands,
                      exec_fn *const *table)
{
    if (o->type != PTX_T_U32 && o->type != PTX_T_S32)
        return decode_no_type(d, o);
    o->exec = ptx_has(o->insn, PTX_M_SAT)
                  ? exec_mad24_hi_sat
                  : table[2 * ptx_has(o->insn, PTX_M_HI) + (o->type == PTX_T_S32)];
    return decode_want_same(d, o, operands, 32);
}

bool decode_MUL24(struct decoder *d, struct op *o)
{
    static exec_fn *const table[] = {exec_mul24_lo_u, exec_mul24_lo_s, exec_mul24_hi_u,
                                     exec_mul24_hi_s};
    return decode_24(d, o, 3, table);
}

bool decode_MAD24(struct decoder *d, struct op *o)
{
    static exec_fn *const table[] = {exec_mad24_lo_u, exec_mad24_lo_s, exec_mad24_hi_u,
                                     exec_mad24_hi_s};
    return decode_24(d, o, 4, table);
}

/* ---- div and rem: a zero divisor ends the launch, since what hardware returns is not
 * defined and a kernel that divides by zero is wrong.  (On an H200 the quotient has all
 * bits set, the lower 32 of 64 where the dividend is below 2^32; the remainder is the
 * dividend, of 16 bits 0xffff.) */

static uint64_t quotient(uint64_t a, uint64_t b, bool sign, bool remainder)
{
    if (!sign)
        return remainder ? a % b : a / b;
    int64_t x = s64_of(a), y = s64_of(b);
    if (y == -1) /* INT64_MIN / -1 wraps */
        return remainder ? 0 : 0 - a;
    return (uint64_t)(remainder ? x % y : x / y);
}

static enum flow exec_div(struct warp *w, const struct op *op, uint32_t lanes)
{
    int bits = ptx_type_bits((enum ptx_type)op->type);
    uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    bool sign = type_is_signed(op->type), remainder = op->insn->op == PTX_REM;
    uint64_t top = (uint64_t)1 << (bits - 1);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = opnd_u64(w, &op->opnds[1], lane) & mask;
        uint64_t b = opnd_u64(w, &op->opnds[2], lane) & mask;
        if (b == 0) {
            w->cur_lanes = (uint32_t)1 << lane;
            return report(w->cta->cluster->grid, w, CHECK_ARITHMETIC,
                          "%s divides 0x%llx by zero", op->insn->opcode,
                          (unsigned long long)a);
        }
        if (sign) {
            a = (a ^ top) - top;
            b = (b ^ top) - top;
        }
        put(w, &op->opnds[0], lane, bits, quotient(a, b, sign, remainder) & mask);
    }
    return FLOW_NEXT;
}

static bool decode_div(struct decoder *d, struct op *o)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    int c = column_of(o->type);
    if (c < 0)
        return decode_no_type(d, o);
    o->exec = exec_div;
    return decode_want_same(d, o, 3, column_bits[c]);
}

bool decode_DIV(struct decoder *d, struct op *o)
{
    return decode_div(d, o);
}

bool decode_REM(struct decoder *d, struct op *o)
{
    return decode_div(d, o);
}

/* ---- one source */

EXEC1(neg16, uint32_t, uint32_t, (0u - a) & 0xffffu)
EXEC1(neg32, uint32_t, uint32_t, 0u - a)
EXEC1(neg64, uint64_t, uint64_t, 0u - a)
EXEC1(abs16, uint32_t, uint32_t, a & 0x8000u ? (0u - a) & 0xffffu : a)
EXEC1(abs32, uint32_t, uint32_t, a >> 31 ? 0u - a : a)
EXEC1(abs64, uint64_t, uint64_t, a >> 63 ? 0u - a : a)

static bool decode_unary(struct decoder *d, struct op *o, exec_fn *f16, exec_fn *f32,
                         exec_fn *f64)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    int c = column_of(o->type);
    if (c != S16 && c != S32 && c != S64)
        return decode_no_type(d, o);
    o->exec = c == S16 ? f16 : c == S32 ? f32 : f64;
    return decode_want_same(d, o, 2, column_bits[c]);
}

bool decode_NEG(struct decoder *d, struct op *o)
{
    return decode_unary(d, o, exec_neg16, exec_neg32, exec_neg64);
}

bool decode_ABS(struct decoder *d, struct op *o)
{
    return decode_unary(d, o, exec_abs16, exec_abs32, exec_abs64);
}

/* ---- min, max */

static uint32_t max_s32(uint32_t a, uint32_t b)
{
    return s32_of(a) > s32_of(b) ? a : b;
}

static uint32_t min_s32(uint32_t a, uint32_t b)
{
    return s32_of(a) < s32_of(b) ? a : b;
}

static uint32_t max_s16(uint32_t a, uint32_t b)
{
    return s16_of(a) > s16_of(b) ? a & 0xffffu : b & 0xffffu;
}

static uint32_t min_s16(uint32_t a, uint32_t b)
{
    return s16_of(a) < s16_of(b) ? a & 0xffffu : b & 0xffffu;
}

static uint32_t max_u16(uint32_t a, uint32_t b)
{
    return (a & 0xffffu) > (b & 0xffffu) ? a & 0xffffu : b & 0xffffu;
}

static uint32_t min_u16(uint32_t a, uint32_t b)
{
    return (a & 0xffffu) < (b & 0xffffu) ? a & 0xffffu : b & 0xffffu;
}

#define HALVES(f) ((uint32_t)f(a >> 16, b >> 16) << 16 | f(a, b))

EXEC2(max_u16, uint32_t, uint32_t, uint32_t, max_u16(a, b))
EXEC2(min_u16, uint32_t, uint32_t, uint32_t, min_u16(a, b))
EXEC2(max_s16, uint32_t, uint32_t, uint32_t, max_s16(a, b))
EXEC2(min_s16, uint32_t, uint32_t, uint32_t, min_s16(a, b))
EXEC2(max_u32, uint32_t, uint32_t, uint32_t, a > b ? a : b)
EXEC2(min_u32, uint32_t, uint32_t, uint32_t, a < b ? a : b)
EXEC2(max_s32, uint32_t, uint32_t, uint32_t, max_s32(a, b))
EXEC2(min_s32, uint32_t, uint32_t, uint32_t, min_s32(a, b))
EXEC2(max_u64, uint64_t, uint64_t, uint64_t, a > b ? a : b)
EXEC2(min_u64, uint64_t, uint64_t, uint64_t, a < b ? a : b)
EXEC2(max_s64, uint64_t, uint64_t, uint64_t, s64_of(a) > s64_of(b) ? a : b)
EXEC2(min_s64, uint64_t, uint64_t, uint64_t, s64_of(a) < s64_of(b) ? a : b)
EXEC2(max_u16x2, uint32_t, uint32_t, uint32_t, HALVES(max_u16))
EXEC2(min_u16x2, uint32_t, uint32_t, uint32_t, HALVES(min_u16))
EXEC2(max_s16x2, uint32_t, uint32_t, uint32_t, HALVES(max_s16))
EXEC2(min_s16x2, uint32_t, uint32_t, uint32_t, HALVES(min_s16))
EXEC2(max_relu, uint32_t, uint32_t, uint32_t, max_s32(max_s32(a, b), 0))
EXEC2(min_relu, uint32_t, uint32_t, uint32_t, max_s32(min_s32(a, b), 0))

/* Halves that are negative become 0. */
static inline uint32_t relu16x2(uint32_t x)
{
    return x & ~((x >> 15 & 0x10001u) * 0xffffu);
}

EXEC2(max_relu16x2, uint32_t, uint32_t, uint32_t, relu16x2(HALVES(max_s16)))
EXEC2(min_relu16x2, uint32_t, uint32_t, uint32_t, relu16x2(HALVES(min_s16)))

static bool decode_extremum(struct decoder *d, struct op *o, exec_fn *const *table,
                            exec_fn *relu, exec_fn *relu2, exec_fn *unsigned2,
                            exec_fn *signed2)
{
    if (type_is_float(o->type))
        return decode_float(d, o);
    bool is_relu = ptx_has(o->insn, PTX_M_RELU);
    if (o->type == PTX_T_U16X2 || o->type == PTX_T_S16X2) {
        o->exec = o->type == PTX_T_U16X2 ? unsigned2 : is_relu ? relu2 : signed2;
        return decode_want_same(d, o, 3, 32);
    }
    int c = column_of(o->type);
    if (c < 0)
        return decode_no_type(d, o);
    o->exec = is_relu ? relu : table[c];
    return decode_want_same(d, o, 3, column_bits[c]);
}

bool decode_MAX(struct decoder *d, struct op *o)
{
    static exec_fn *const table[COLUMNS] = {exec_max_u16, exec_max_s16, exec_max_u32,
                                            exec_max_s32, exec_max_u64, exec_max_s64};
    return decode_extremum(d, o, table, exec_max_relu, exec_max_relu16x2,
                           exec_max_u16x2, exec_max_s16x2);
}

bool decode_MIN(struct decoder *d, struct op *o)
{
    static exec_fn *const table[COLUMNS] = {exec_min_u16, exec_min_s16, exec_min_u32,
                                            exec_min_s32, exec_min_u64, exec_min_s64};
    return decode_extremum(d, o, table, exec_min_relu, exec_min_relu16x2,
                           exec_min_u16x2, exec_min_s16x2);
}

/* ---- sums of differences and of small products */

EXEC3(sad_u16, uint32_t, uint32_t, uint32_t, uint32_t,
      (c + (a > b ? a - b : b - a)) & 0xffffu)
EXEC3(sad_s16, uint32_t, uint32_t, uint32_t, uint32_t,
      (c + (s16_of(a) > s16_of(b) ? a - b : b - a)) & 0xffffu)
EXEC3(sad_u32, uint32_t, uint32_t, uint32_t, uint32_t, c + (a > b ? a - b : b - a))
EXEC3(sad_s32, uint32_t, uint32_t, uint32_t, uint32_t,
      c + (s32_of(a) > s32_of(b) ? a - b : b - a))
EXEC3(sad_u64, uint64_t, uint64_t, uint64_t, uint64_t, c + (a > b ? a - b : b - a))
EXEC3(sad_s64, uint64_t, uint64_t, uint64_t, uint64_t,
      c + (s64_of(a) > s64_of(b) ? a - b : b - a))

bool decode_SAD(struct decoder *d, struct op *o)
{
    static exec_fn *const table[COLUMNS] = {exec_sad_u16, exec_sad_s16, exec_sad_u32,
                                            exec_sad_s32, exec_sad_u64, exec_sad_s64};
    int c = column_of(o->type);
    if (c < 0)
        return decode_no_type(d, o);
    o->exec = table[c];
    return decode_want_same(d, o, 4, column_bits[c]);
}

static int32_t byte_of(uint32_t x, int i, bool sign)
{
    uint32_t b = x >> (8 * i) & 0xffu;
    return sign ? s8_of(b) : (int32_t)b;
}

static int32_t half_of(uint32_t x, int i, bool sign)
{
    uint32_t h = x >> (16 * i) & 0xffffu;
    return sign ? s16_of(h) : (int32_t)h;
}

static enum flow exec_dp(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool sign_a = op->first_type == PTX_T_S32, sign_b = op->type == PTX_T_S32;
    bool is_dp4a = op->insn->op == PTX_DP4A;
    int from = ptx_has(op->insn, PTX_M_HI) ? 2 : 0;
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]),
                   *c = opnd_lanes(w, &op->opnds[3]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        int64_t sum = 0;
        for (int i = 0; is_dp4a && i < 4; i++)
            sum += byte_of(a[lane], i, sign_a) * byte_of(b[lane], i, sign_b);
        for (int i = 0; !is_dp4a && i < 2; i++)
            sum += half_of(a[lane], i, sign_a) * byte_of(b[lane], from + i, sign_b);
        d[lane] = c[lane] + (uint32_t)(uint64_t)sum;
    }
    return FLOW_NEXT;
}

static bool decode_dp(struct decoder *d, struct op *o)
{
    o->exec = exec_dp;
    return decode_want_same(d, o, 4, 32);
}

bool decode_DP4A(struct decoder *d, struct op *o)
{
    return decode_dp(d, o);
}

bool decode_DP2A(struct decoder *d, struct op *o)
{
    return decode_dp(d, o);
}
