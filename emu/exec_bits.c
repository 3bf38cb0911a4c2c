/* exec_bits.c - logic, shifts and bit fields.
 *
 * PTX ISA 9.0, "Logic and Shift Instructions", and the bit instructions of "Integer
 * Arithmetic Instructions".  Shift amounts clamp at the width. */
#include "emu/exec.h"
#include "emu/lanes.h"

static int type_bits(const struct op *o)
{
    return ptx_type_bits((enum ptx_type)o->type);
}

/* ---- and, or, xor, not */

EXEC2(and32, uint32_t, uint32_t, uint32_t, a &b)
EXEC2(and64, uint64_t, uint64_t, uint64_t, a &b)
EXEC2(or32, uint32_t, uint32_t, uint32_t, a | b)
EXEC2(or64, uint64_t, uint64_t, uint64_t, a | b)
EXEC2(xor32, uint32_t, uint32_t, uint32_t, a ^ b)
EXEC2(xor64, uint64_t, uint64_t, uint64_t, a ^ b)
EXEC1(not16, uint32_t, uint32_t, ~a & 0xffffu)
EXEC1(not32, uint32_t, uint32_t, ~a)
EXEC1(not64, uint64_t, uint64_t, ~a)
EXEC1(cnot16, uint32_t, uint32_t, (a & 0xffffu) == 0)
EXEC1(cnot32, uint32_t, uint32_t, a == 0)
EXEC1(cnot64, uint64_t, uint64_t, a == 0)

/* Predicates are lane masks. */
static enum flow exec_and_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_mask(w, &op->opnds[0], lanes,
             opnd_mask(w, &op->opnds[1]) & opnd_mask(w, &op->opnds[2]));
    return FLOW_NEXT;
}

static enum flow exec_or_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_mask(w, &op->opnds[0], lanes,
             opnd_mask(w, &op->opnds[1]) | opnd_mask(w, &op->opnds[2]));
    return FLOW_NEXT;
}

static enum flow exec_xor_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_mask(w, &op->opnds[0], lanes,
             opnd_mask(w, &op->opnds[1]) ^ opnd_mask(w, &op->opnds[2]));
    return FLOW_NEXT;
}

static enum flow exec_not_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_mask(w, &op->opnds[0], lanes, ~opnd_mask(w, &op->opnds[1]));
    return FLOW_NEXT;
}

/* 16-bit values need no masking where zeros above stay zeros. */
static bool decode_logic(struct decoder *d, struct op *o, int operands, exec_fn *pred,
                         exec_fn *narrow, exec_fn *f32, exec_fn *f64)
{
    int bits = type_bits(o);
    if (bits != 1 && bits != 16 && bits != 32 && bits != 64)
        return decode_no_type(d, o);
    o->exec = bits == 1 ? pred : bits == 16 ? narrow : bits == 32 ? f32 : f64;
    return decode_want_same(d, o, operands, bits);
}

bool decode_AND(struct decoder *d, struct op *o)
{
    return decode_logic(d, o, 3, exec_and_pred, exec_and32, exec_and32, exec_and64);
}

bool decode_OR(struct decoder *d, struct op *o)
{
    return decode_logic(d, o, 3, exec_or_pred, exec_or32, exec_or32, exec_or64);
}

bool decode_XOR(struct decoder *d, struct op *o)
{
    return decode_logic(d, o, 3, exec_xor_pred, exec_xor32, exec_xor32, exec_xor64);
}

bool decode_NOT(struct decoder *d, struct op *o)
{
    return decode_logic(d, o, 2, exec_not_pred, exec_not16, exec_not32, exec_not64);
}

bool decode_CNOT(struct decoder *d, struct op *o)
{
    if (type_bits(o) == 1)
        return decode_no_type(d, o);
    return decode_logic(d, o, 2, NULL, exec_cnot16, exec_cnot32, exec_cnot64);
}

/* ---- lop3 */

static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (uint32_t i = 0; i < 8; i++)
        if (table >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

EXEC3(lop3, uint32_t, uint32_t, uint32_t, uint32_t, lop3(a, b, c, op->aux[0]))

/* lop3.and/.or d|p, a, b, c, table, q: p = (d != 0) and/or q. */
static enum flow exec_lop3_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *pair = &op->opnds[0];
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]),
                   *c = opnd_lanes(w, &op->opnds[3]);
    uint32_t *d = opnd_lanes(w, &pair->items[0]);
    uint32_t q = opnd_mask(w, &op->opnds[5]), mask = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t r = lop3(a[lane], b[lane], c[lane], op->aux[0]);
        d[lane] = r;
        mask |= (uint32_t)(r != 0) << lane;
    }
    set_mask(w, &pair->items[1], lanes, op->aux[1] ? mask | q : mask & q);
    return FLOW_NEXT;
}

bool decode_LOP3(struct decoder *d, struct op *o)
{
    int64_t table;
    bool pred = ptx_has(o->insn, PTX_M_AND) || ptx_has(o->insn, PTX_M_OR);
    if (!decode_want_count(d, o, pred ? 6 : 5, pred ? 6 : 5))
        return false;
    if (!opnd_is_imm(&o->opnds[4], &table))
        return decode_refuse(d, o, "the truth table must be an immediate");
    for (int i = 1; i < 4; i++)
        if (!decode_want_reg(d, o, i, 32))
            return false;
    o->aux[0] = (uint32_t)table & 0xffu;
    o->aux[1] = ptx_has(o->insn, PTX_M_OR);
    o->exec = pred ? exec_lop3_pred : exec_lop3;
    if (!pred)
        return decode_want_reg(d, o, 0, 32);
    return decode_want_pair(d, o, 32) && decode_want_reg(d, o, 5, 1);
}

/* ---- shifts */

EXEC2(shl16, uint32_t, uint32_t, uint32_t, b > 15 ? 0 : a << b & 0xffffu)
EXEC2(shl32, uint32_t, uint32_t, uint32_t, b > 31 ? 0 : a << b)
EXEC2(shl64, uint64_t, uint64_t, uint32_t, b > 63 ? 0 : a << b)
EXEC2(shr_u16, uint32_t, uint32_t, uint32_t, b > 15 ? 0 : (a & 0xffffu) >> b)
EXEC2(shr_u32, uint32_t, uint32_t, uint32_t, b > 31 ? 0 : a >> b)
EXEC2(shr_u64, uint64_t, uint64_t, uint32_t, b > 63 ? 0 : a >> b)
/* Arithmetic shifts without right shifts of negative values. */
EXEC2(shr_s16, uint32_t, uint32_t, uint32_t,
      (a & 0x8000u ? ~((~a & 0xffffu) >> (b > 15 ? 15 : b))
                   : (a & 0xffffu) >> (b > 15 ? 15 : b)) &
          0xffffu)
EXEC2(shr_s32, uint32_t, uint32_t, uint32_t,
      a >> 31 ? ~(~a >> (b > 31 ? 31 : b)) : a >> (b > 31 ? 31 : b))
EXEC2(shr_s64, uint64_t, uint64_t, uint32_t,
      a >> 63 ? ~(~a >> (b > 63 ? 63 : b)) : a >> (b > 63 ? 63 : b))

static bool decode_shift(struct decoder *d, struct op *o, exec_fn *f16, exec_fn *f32,
                         exec_fn *f64)
{
    int bits = type_bits(o);
    if (bits != 16 && bits != 32 && bits != 64)
        return decode_no_type(d, o);
    o->exec = bits == 16 ? f16 : bits == 32 ? f32 : f64;
    return decode_want_count(d, o, 3, 3) && decode_want_reg(d, o, 0, bits) &&
           decode_want_reg(d, o, 1, bits) && decode_want_reg(d, o, 2, 32);
}

bool decode_SHL(struct decoder *d, struct op *o)
{
    return decode_shift(d, o, exec_shl16, exec_shl32, exec_shl64);
}

bool decode_SHR(struct decoder *d, struct op *o)
{
    if (type_is_signed(o->type))
        return decode_shift(d, o, exec_shr_s16, exec_shr_s32, exec_shr_s64);
    return decode_shift(d, o, exec_shr_u16, exec_shr_u32, exec_shr_u64);
}

static uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t n)
{
    return n == 0 ? b : n > 31 ? a : b << n | a >> (32 - n);
}

static uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t n)
{
    return n == 0 ? a : n > 31 ? b : b << (32 - n) | a >> n;
}

EXEC3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(a, b, c & 31))
EXEC3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(a, b, c & 31))
EXEC3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(a, b, c))
EXEC3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(a, b, c))

bool decode_SHF(struct decoder *d, struct op *o)
{
    bool right = ptx_has(o->insn, PTX_M_R), clamp = ptx_has(o->insn, PTX_M_CLAMP);
    o->exec = right   ? clamp ? exec_shf_r_clamp : exec_shf_r_wrap
              : clamp ? exec_shf_l_clamp
                      : exec_shf_l_wrap;
    return decode_want_same(d, o, 4, 32);
}

/* ---- bit fields */

/* What an H200 makes of positions and lengths beyond 255, which PTX leaves open: forms
 * of 32 bits look at the low byte, those of 64 bits at all of it. */
static uint32_t field_operand(uint32_t x, int bits)
{
    return bits == 32 || x < 0xffu ? x & 0xffu : 0xffu;
}

static uint64_t extract(uint64_t a, uint32_t pos, uint32_t len, int bits, bool sign)
{
    pos = field_operand(pos, bits);
    len = field_operand(len, bits);
    uint32_t msb = (uint32_t)bits - 1;
    bool fill = false;
    if (sign && len != 0) {
        uint32_t at = pos + len - 1 < msb ? pos + len - 1 : msb;
        fill = a >> at & 1;
    }
    uint64_t r = 0;
    for (uint32_t i = 0; i <= msb; i++) {
        bool bit = i < len && pos + i <= msb ? a >> (pos + i) & 1 : fill;
        r |= (uint64_t)bit << i;
    }
    return r;
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, int bits)
{
    pos = field_operand(pos, bits);
    len = field_operand(len, bits);
    for (uint32_t i = 0; i < len && pos + i < (uint32_t)bits; i++) {
        uint64_t bit = (uint64_t)1 << (pos + i);
        b = (b & ~bit) | (a >> i & 1) << (pos + i);
    }
    return b;
}

/* As insert, in a few operations. */
static uint32_t insert32(uint32_t a, uint32_t b, uint32_t pos, uint32_t len)
{
    pos &= 0xffu;
    len &= 0xffu;
    if (pos > 31 || len == 0)
        return b;
    uint32_t ones = len > 31 ? UINT32_MAX : (1u << len) - 1;
    return (b & ~(ones << pos)) | (a & ones) << pos;
}

EXEC3(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(a, b, c, 32, false))
EXEC3(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract(a, b, c, 32, true))
EXEC3(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extract(a, b, c, 64, false))
EXEC3(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extract(a, b, c, 64, true))

bool decode_BFE(struct decoder *d, struct op *o)
{
    int bits = type_bits(o);
    if (bits != 32 && bits != 64)
        return decode_no_type(d, o);
    bool sign = type_is_signed(o->type);
    o->exec = bits == 32 ? sign ? exec_bfe_s32 : exec_bfe_u32
              : sign     ? exec_bfe_s64
                         : exec_bfe_u64;
    return decode_want_count(d, o, 4, 4) && decode_want_reg(d, o, 0, bits) &&
           decode_want_reg(d, o, 1, bits) && decode_want_reg(d, o, 2, 32) &&
           decode_want_reg(d, o, 3, 32);
}

static enum flow exec_bfi(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool is_wide = op->aux[0] == 64;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t pos = opnd_u32(w, &op->opnds[3], lane);
        uint32_t len = opnd_u32(w, &op->opnds[4], lane);
        if (is_wide) {
            uint64_t *d = opnd_lanes(w, &op->opnds[0]);
            d[lane] = insert(opnd_u64(w, &op->opnds[1], lane),
                             opnd_u64(w, &op->opnds[2], lane), pos, len, 64);
        } else {
            uint32_t *d = opnd_lanes(w, &op->opnds[0]);
            d[lane] = insert32(opnd_u32(w, &op->opnds[1], lane),
                               opnd_u32(w, &op->opnds[2], lane), pos, len);
        }
    }
    return FLOW_NEXT;
}

bool decode_BFI(struct decoder *d, struct op *o)
{
    int bits = type_bits(o);
    if (bits != 32 && bits != 64)
        return decode_no_type(d, o);
    o->aux[0] = (uint32_t)bits;
    o->exec = exec_bfi;
    if (!decode_want_count(d, o, 5, 5))
        return false;
    for (int i = 0; i < 3; i++)
        if (!decode_want_reg(d, o, i, bits))
            return false;
    return decode_want_reg(d, o, 3, 32) && decode_want_reg(d, o, 4, 32);
}

static uint32_t leading_zeros(uint64_t a, int bits)
{
    uint32_t n = 0;
    for (int i = bits - 1; i >= 0 && !(a >> i & 1); i--)
        n++;
    return n;
}

/* Index of the highest bit that is not the sign. */
static uint32_t find_leading(uint64_t a, int bits, bool sign, bool shiftamt)
{
    if (sign && a >> (bits - 1) & 1)
        a = ~a & (bits == 64 ? UINT64_MAX : UINT32_MAX);
    uint32_t zeros = leading_zeros(a, bits);
    if (zeros == (uint32_t)bits)
        return UINT32_MAX;
    return shiftamt ? zeros : (uint32_t)bits - 1 - zeros;
}

static uint32_t reverse32(uint32_t a)
{
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
    return a >> 16 | a << 16;
}

EXEC1(bfind32, uint32_t, uint32_t, find_leading(a, 32, op->aux[0], op->aux[1]))
EXEC1(bfind64, uint32_t, uint64_t, find_leading(a, 64, op->aux[0], op->aux[1]))
EXEC1(brev32, uint32_t, uint32_t, reverse32(a))
EXEC1(brev64, uint64_t, uint64_t,
      (uint64_t)reverse32((uint32_t)a) << 32 | reverse32((uint32_t)(a >> 32)))
EXEC1(popc32, uint32_t, uint32_t, bits_count(a))
EXEC1(popc64, uint32_t, uint64_t,
      bits_count((uint32_t)a) + bits_count((uint32_t)(a >> 32)))
EXEC1(clz32, uint32_t, uint32_t, leading_zeros(a, 32))
EXEC1(clz64, uint32_t, uint64_t, leading_zeros(a, 64))

static bool decode_bit_unary(struct decoder *d, struct op *o, exec_fn *f32,
                             exec_fn *f64, int result_bits)
{
    int bits = type_bits(o);
    if (bits != 32 && bits != 64)
        return decode_no_type(d, o);
    o->exec = bits == 32 ? f32 : f64;
    return decode_want_count(d, o, 2, 2) &&
           decode_want_reg(d, o, 0, result_bits ? result_bits : bits) &&
           decode_want_reg(d, o, 1, bits);
}

bool decode_BFIND(struct decoder *d, struct op *o)
{
    o->aux[0] = type_is_signed(o->type);
    o->aux[1] = ptx_has(o->insn, PTX_M_SHIFTAMT);
    return decode_bit_unary(d, o, exec_bfind32, exec_bfind64, 32);
}

bool decode_BREV(struct decoder *d, struct op *o)
{
    return decode_bit_unary(d, o, exec_brev32, exec_brev64, 0);
}

bool decode_POPC(struct decoder *d, struct op *o)
{
    return decode_bit_unary(d, o, exec_popc32, exec_popc64, 32);
}

bool decode_CLZ(struct decoder *d, struct op *o)
{
    return decode_bit_unary(d, o, exec_clz32, exec_clz64, 32);
}

/* ---- fns: the offset-th set bit of mask, counted from base upwards or downwards */

static uint32_t find_nth(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == INT32_MIN)
        return 0; /* as an H200 has it */
    if (base > 31)
        return UINT32_MAX;
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    int step = offset > 0 ? 1 : -1;
    int32_t left = offset > 0 ? offset : 0 - offset;
    for (int pos = (int)base; pos >= 0 && pos < 32; pos += step)
        if ((mask >> pos & 1) && --left == 0)
            return (uint32_t)pos;
    return UINT32_MAX;
}

EXEC3(fns, uint32_t, uint32_t, uint32_t, uint32_t, find_nth(a, b, s32_of(c)))

bool decode_FNS(struct decoder *d, struct op *o)
{
    o->exec = exec_fns;
    return decode_want_same(d, o, 4, 32);
}

/* ---- prmt */

static uint32_t pick(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t byte = (uint32_t)(both >> (8 * (selector & 7))) & 0xffu;
    if (selector & 8)
        return byte & 0x80u ? 0xffu : 0;
    return byte;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= pick(a, b, c >> (4 * i) & 15) << (8 * i);
    return r;
}

/* The selector of each mode, by the two low bits of c. */
static const uint16_t prmt_modes[][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, /* .f4e */
    {0x5670, 0x6701, 0x7012, 0x0123}, /* .b4e */
    {0x0000, 0x1111, 0x2222, 0x3333}, /* .rc8 */
    {0x3210, 0x3211, 0x3222, 0x3333}, /* .ecl */
    {0x0000, 0x1110, 0x2210, 0x3210}, /* .ecr */
    {0x1010, 0x3232, 0x1010, 0x3232}, /* .rc16 */
};

EXEC3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permute(a, b, c))
EXEC3(prmt_mode, uint32_t, uint32_t, uint32_t, uint32_t,
      permute(a, b, prmt_modes[op->aux[0]][c & 3]))

bool decode_PRMT(struct decoder *d, struct op *o)
{
    static const uint16_t mods[] = {PTX_M_F4E, PTX_M_B4E, PTX_M_RC8,
                                    PTX_M_ECL, PTX_M_ECR, PTX_M_RC16};
    o->exec = exec_prmt;
    for (uint32_t i = 0; i < COUNT_OF(mods); i++)
        if (ptx_has(o->insn, (enum ptx_mod)mods[i])) {
            o->exec = exec_prmt_mode;
            o->aux[0] = i;
        }
    return decode_want_same(d, o, 4, 32);
}

/* ---- bmsk, szext */

static uint32_t bit_mask(uint32_t pos, uint32_t len, bool wrap)
{
    if (wrap) {
        pos &= 31;
        len &= 31;
    }
    if (pos > 31 || len == 0)
        return 0;
    uint32_t ones = len > 31 ? UINT32_MAX : (1u << len) - 1;
    return ones << pos;
}

static uint32_t extend(uint32_t a, uint32_t n, bool sign, bool wrap)
{
    if (wrap)
        n &= 31;
    if (n == 0)
        return 0;
    if (n > 31)
        return a;
    uint32_t low = a & ((1u << n) - 1), top = 1u << (n - 1);
    return sign ? (low ^ top) - top : low;
}

EXEC2(bmsk, uint32_t, uint32_t, uint32_t, bit_mask(a, b, op->aux[1]))
EXEC2(szext, uint32_t, uint32_t, uint32_t, extend(a, b, op->aux[0], op->aux[1]))

bool decode_BMSK(struct decoder *d, struct op *o)
{
    o->aux[1] = ptx_has(o->insn, PTX_M_WRAP);
    o->exec = exec_bmsk;
    return decode_want_same(d, o, 3, 32);
}

bool decode_SZEXT(struct decoder *d, struct op *o)
{
    o->aux[0] = type_is_signed(o->type);
    o->aux[1] = ptx_has(o->insn, PTX_M_WRAP);
    o->exec = exec_szext;
    return decode_want_same(d, o, 3, 32);
}
