/* exec_set.c - setp, set, selp, slct.
 *
 * PTX ISA 9.0, "Comparison and Selection Instructions".  A comparison of all lanes is a
 * lane mask, which is what a predicate register holds. */
#include "emu/exec.h"
#include "emu/floats.h"

enum { AUX_COMPARE, AUX_BOOL, AUX_FTZ, AUX_KIND };

enum compare {
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_UNORDERED = 8, /* added: true when an operand is NaN */
    CMP_NUM = 16,
    CMP_NAN = 17,
};

enum bool_op { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR };

enum kind {
    KIND_U16,
    KIND_S16,
    KIND_U32,
    KIND_S32,
    KIND_U64,
    KIND_S64,
    KIND_F16,
    KIND_BF16,
    KIND_F32,
    KIND_F64,
    KIND_F16X2,
    KIND_BF16X2,
    KIND_NONE,
};

/* ---- comparisons of 32 lanes at once */

#define COMPARE(expr)                                                                  \
    do {                                                                               \
        EACH(i)                                                                        \
        m |= (uint32_t)(expr) << i;                                                    \
    } while (0)

#define COMPARE_ALL(x, y)                                                              \
    switch (how) {                                                                     \
    case CMP_EQ:                                                                       \
        COMPARE(x == y);                                                               \
        break;                                                                         \
    case CMP_NE:                                                                       \
        COMPARE(x != y);                                                               \
        break;                                                                         \
    case CMP_LT:                                                                       \
        COMPARE(x < y);                                                                \
        break;                                                                         \
    case CMP_LE:                                                                       \
        COMPARE(x <= y);                                                               \
        break;                                                                         \
    case CMP_GT:                                                                       \
        COMPARE(x > y);                                                                \
        break;                                                                         \
    default:                                                                           \
        COMPARE(x >= y);                                                               \
        break;                                                                         \
    }

static uint32_t compare_u32(const uint32_t *a, const uint32_t *b, enum compare how)
{
    uint32_t m = 0;
    COMPARE_ALL(a[i], b[i])
    return m;
}

static uint32_t compare_s32(const uint32_t *a, const uint32_t *b, enum compare how)
{
    uint32_t m = 0;
    COMPARE_ALL(s32_of(a[i]), s32_of(b[i]))
    return m;
}

static uint32_t compare_s16(const uint32_t *a, const uint32_t *b, enum compare how)
{
    uint32_t m = 0;
    COMPARE_ALL(s16_of(a[i]), s16_of(b[i]))
    return m;
}

static uint32_t compare_u64(const uint64_t *a, const uint64_t *b, enum compare how)
{
    uint32_t m = 0;
    COMPARE_ALL(a[i], b[i])
    return m;
}

static uint32_t compare_s64(const uint64_t *a, const uint64_t *b, enum compare how)
{
    uint32_t m = 0;
    COMPARE_ALL(s64_of(a[i]), s64_of(b[i]))
    return m;
}

/* C's own operators are false with a NaN, except !=, which PTX calls .neu. */
static bool compare_numbers(double x, double y, enum compare how)
{
    bool unordered = x != x || y != y;
    if (how == CMP_NUM)
        return !unordered;
    if (how == CMP_NAN)
        return unordered;
    if (unordered)
        return how & CMP_UNORDERED;
    switch (how % CMP_UNORDERED) {
    case CMP_EQ:
        return x == y;
    case CMP_NE:
        return x != y;
    case CMP_LT:
        return x < y;
    case CMP_LE:
        return x <= y;
    case CMP_GT:
        return x > y;
    default:
        return x >= y;
    }
}

static uint32_t compare_f32(const uint32_t *a, const uint32_t *b, enum compare how,
                            bool ftz)
{
    uint32_t m = 0;
    EACH(i)
    {
        float x = f32_of(ftz ? flush(a[i]) : a[i]),
              y = f32_of(ftz ? flush(b[i]) : b[i]);
        m |= (uint32_t)compare_numbers(x, y, how) << i;
    }
    return m;
}

static uint32_t compare_f64(const uint64_t *a, const uint64_t *b, enum compare how)
{
    uint32_t m = 0;
    EACH(i) m |= (uint32_t)compare_numbers(f64_of(a[i]), f64_of(b[i]), how) << i;
    return m;
}

static double half_value(uint32_t h, const struct format *f, bool ftz)
{
    double x = float_decode(f, h & 0xffffu);
    return ftz && fpclassify(x) != FP_ZERO && fabs(x) < ldexp(1, 1 - f->bias) ? 0 : x;
}

static uint32_t compare_half(const uint32_t *a, const uint32_t *b, enum compare how,
                             bool ftz, const struct format *f, int shift)
{
    uint32_t m = 0;
    EACH(i)
    m |= (uint32_t)compare_numbers(half_value(a[i] >> shift, f, ftz),
                                   half_value(b[i] >> shift, f, ftz), how)
         << i;
    return m;
}

/* `shift` picks the half of a packed pair. */
static uint32_t compare(const struct warp *w, const struct op *op, int shift)
{
    const void *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    enum compare how = (enum compare)op->aux[AUX_COMPARE];
    bool ftz = op->aux[AUX_FTZ];
    switch ((enum kind)op->aux[AUX_KIND]) {
    case KIND_U16:
    case KIND_U32:
        return compare_u32(a, b, how);
    case KIND_S16:
        return compare_s16(a, b, how);
    case KIND_S32:
        return compare_s32(a, b, how);
    case KIND_U64:
        return compare_u64(a, b, how);
    case KIND_S64:
        return compare_s64(a, b, how);
    case KIND_F32:
        return compare_f32(a, b, how, ftz);
    case KIND_F64:
        return compare_f64(a, b, how);
    case KIND_F16:
    case KIND_F16X2:
        return compare_half(a, b, how, ftz, &format_f16, shift);
    case KIND_BF16:
    case KIND_BF16X2:
        return compare_half(a, b, how, ftz, &format_bf16, shift);
    case KIND_NONE:
        break;
    }
    return 0;
}

static bool is_packed(const struct op *op)
{
    return op->aux[AUX_KIND] == KIND_F16X2 || op->aux[AUX_KIND] == KIND_BF16X2;
}

static uint32_t combine(const struct warp *w, const struct op *op, uint32_t mask)
{
    if (op->aux[AUX_BOOL] == BOOL_NONE)
        return mask;
    uint32_t c = opnd_mask(w, &op->opnds[3]);
    return op->aux[AUX_BOOL] == BOOL_AND  ? mask & c
           : op->aux[AUX_BOOL] == BOOL_OR ? mask | c
                                          : mask ^ c;
}

/* ---- setp */

static enum flow exec_setp(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t mask = combine(w, op, compare(w, op, 0));
    set_mask(w, &op->opnds[0], lanes, mask);
    return FLOW_NEXT;
}

static enum flow exec_setp_pair(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool packed = is_packed(op);
    uint32_t low = compare(w, op, 0);
    uint32_t p = combine(w, op, low);
    uint32_t q = combine(w, op, packed ? compare(w, op, 16) : ~low);
    set_mask(w, &op->opnds[0].items[0], lanes, p);
    set_mask(w, &op->opnds[0].items[1], lanes, q);
    return FLOW_NEXT;
}

static const struct {
    uint16_t mod, compare;
    bool floats, is_unsigned;
} comparisons[] = {
    {PTX_M_EQ, CMP_EQ, true, false},
    {PTX_M_NE, CMP_NE, true, false},
    {PTX_M_LT, CMP_LT, true, false},
    {PTX_M_LE, CMP_LE, true, false},
    {PTX_M_GT, CMP_GT, true, false},
    {PTX_M_GE, CMP_GE, true, false},
    {PTX_M_LO, CMP_LT, false, true},
    {PTX_M_LS, CMP_LE, false, true},
    {PTX_M_HI, CMP_GT, false, true},
    {PTX_M_HS, CMP_GE, false, true},
    {PTX_M_EQU, CMP_EQ | CMP_UNORDERED, true, false},
    {PTX_M_NEU, CMP_NE | CMP_UNORDERED, true, false},
    {PTX_M_LTU, CMP_LT | CMP_UNORDERED, true, false},
    {PTX_M_LEU, CMP_LE | CMP_UNORDERED, true, false},
    {PTX_M_GTU, CMP_GT | CMP_UNORDERED, true, false},
    {PTX_M_GEU, CMP_GE | CMP_UNORDERED, true, false},
    {PTX_M_NUM, CMP_NUM, true, false},
    {PTX_M_IS_NAN, CMP_NAN, true, false},
};

static enum kind kind_of(int type)
{
    switch (type) {
    case PTX_T_B16:
    case PTX_T_U16:
        return KIND_U16;
    case PTX_T_S16:
        return KIND_S16;
    case PTX_T_B32:
    case PTX_T_U32:
        return KIND_U32;
    case PTX_T_S32:
        return KIND_S32;
    case PTX_T_B64:
    case PTX_T_U64:
        return KIND_U64;
    case PTX_T_S64:
        return KIND_S64;
    case PTX_T_F16:
        return KIND_F16;
    case PTX_T_BF16:
        return KIND_BF16;
    case PTX_T_F32:
        return KIND_F32;
    case PTX_T_F64:
        return KIND_F64;
    case PTX_T_F16X2:
        return KIND_F16X2;
    case PTX_T_BF16X2:
        return KIND_BF16X2;
    default:
        return KIND_NONE;
    }
}

/* Modifiers, sources and the predicate to combine with; not the destination. */
static bool decode_comparison(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    enum kind kind = kind_of(o->type);
    if (kind == KIND_NONE)
        return decode_no_type(d, o);
    bool found = false;
    for (size_t k = 0; k < COUNT_OF(comparisons) && !found; k++) {
        if (!ptx_has(i, (enum ptx_mod)comparisons[k].mod))
            continue;
        found = true;
        o->aux[AUX_COMPARE] = comparisons[k].compare;
        bool is_float = kind >= KIND_F16;
        if (is_float ? !comparisons[k].floats : comparisons[k].compare > CMP_GE)
            return decode_refuse(d, o, "this comparison does not exist for type .%s",
                                 ptx_type_spelling((enum ptx_type)o->type));
        if (comparisons[k].is_unsigned && type_is_signed(o->type))
            return decode_refuse(d, o, "this comparison is for unsigned types");
    }
    if (!found)
        return decode_refuse(d, o, "the comparison is missing");
    o->aux[AUX_KIND] = kind;
    o->aux[AUX_FTZ] = ptx_has(i, PTX_M_FTZ);
    o->aux[AUX_BOOL] = ptx_has(i, PTX_M_AND)   ? BOOL_AND
                       : ptx_has(i, PTX_M_OR)  ? BOOL_OR
                       : ptx_has(i, PTX_M_XOR) ? BOOL_XOR
                                               : BOOL_NONE;
    int operands = o->aux[AUX_BOOL] == BOOL_NONE ? 3 : 4;
    int bits = ptx_type_bits((enum ptx_type)o->type);
    return decode_want_count(d, o, operands, operands) &&
           decode_want_reg(d, o, 1, bits) && decode_want_reg(d, o, 2, bits) &&
           (operands == 3 || decode_want_reg(d, o, 3, 1));
}

bool decode_SETP(struct decoder *d, struct op *o)
{
    if (!decode_comparison(d, o))
        return false;
    if (o->opnds[0].kind == PTX_OPND_PAIR) {
        o->exec = exec_setp_pair;
        return decode_want_pair(d, o, 1);
    }
    o->exec = exec_setp;
    return decode_want_reg(d, o, 0, 1);
}

/* ---- set: the truth as a number */

static uint32_t truth(int type)
{
    switch (type) {
    case PTX_T_F32:
        return 0x3f800000u;
    case PTX_T_F16:
    case PTX_T_F16X2:
        return 0x3c00u;
    case PTX_T_BF16:
    case PTX_T_BF16X2:
        return 0x3f80u;
    case PTX_T_U16:
    case PTX_T_S16:
        return 0xffffu;
    default:
        return UINT32_MAX;
    }
}

static enum flow exec_set(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    bool packed = is_packed(op);
    uint32_t low = combine(w, op, compare(w, op, 0));
    uint32_t high = packed ? combine(w, op, compare(w, op, 16)) : 0;
    uint32_t yes = truth(op->first_type);
    if (packed) /* integers too: one of 16 bits in each half */
        yes &= 0xffffu;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        d[lane] = (low >> lane & 1 ? yes : 0) | (high >> lane & 1 ? yes << 16 : 0);
    }
    return FLOW_NEXT;
}

bool decode_SET(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->first_type);
    if (o->insn->type_count < 2 || (bits != 16 && bits != 32))
        return decode_no_type(d, o);
    o->exec = exec_set;
    return decode_comparison(d, o) && decode_want_reg(d, o, 0, bits);
}

/* ---- selp, slct */

static enum flow exec_selp32(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    uint32_t p = opnd_mask(w, &op->opnds[3]);
    if (lanes == ALL_LANES) {
        uint32_t t[WARP_LANES];
        EACH(i) t[i] = p >> i & 1 ? a[i] : b[i];
        memcpy(d, t, sizeof t);
        return FLOW_NEXT;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int i = bits_lowest(rest);
        d[i] = p >> i & 1 ? a[i] : b[i];
    }
    return FLOW_NEXT;
}

static enum flow exec_selp64(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint64_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]);
    uint32_t p = opnd_mask(w, &op->opnds[3]);
    if (lanes == ALL_LANES) {
        uint64_t t[WARP_LANES];
        EACH(i) t[i] = p >> i & 1 ? a[i] : b[i];
        memcpy(d, t, sizeof t);
        return FLOW_NEXT;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int i = bits_lowest(rest);
        d[i] = p >> i & 1 ? a[i] : b[i];
    }
    return FLOW_NEXT;
}

bool decode_SELP(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->type);
    if (bits != 16 && bits != 32 && bits != 64)
        return decode_no_type(d, o);
    o->exec = bits == 64 ? exec_selp64 : exec_selp32;
    if (!decode_want_count(d, o, 4, 4))
        return false;
    for (int i = 0; i < 3; i++)
        if (!decode_want_reg(d, o, i, bits))
            return false;
    return decode_want_reg(d, o, 3, 1);
}

static bool is_not_negative(uint32_t c, int type, bool ftz)
{
    if (type == PTX_T_S32)
        return !(c >> 31);
    return f32_of(ftz ? flush(c) : c) >= 0;
}

EXEC3(slct32, uint32_t, uint32_t, uint32_t, uint32_t,
      is_not_negative(c, op->type, op->aux[AUX_FTZ]) ? a : b)
EXEC3(slct64, uint64_t, uint64_t, uint64_t, uint32_t,
      is_not_negative(c, op->type, op->aux[AUX_FTZ]) ? a : b)

bool decode_SLCT(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->first_type);
    if (o->type != PTX_T_S32 && o->type != PTX_T_F32)
        return decode_no_type(d, o);
    o->aux[AUX_FTZ] = ptx_has(o->insn, PTX_M_FTZ);
    o->exec = bits == 64 ? exec_slct64 : exec_slct32;
    if (!decode_want_count(d, o, 4, 4))
        return false;
    for (int i = 0; i < 3; i++)
        if (!decode_want_reg(d, o, i, bits))
            return false;
    return decode_want_reg(d, o, 3, 32);
}
