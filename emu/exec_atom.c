/* exec_atom.c - atom and red.
 *
 * PTX ISA 9.0, "atom", "red".  Lanes go one after the other, lowest first.  Vector
 * forms are atomic for each element only.  f32 addition in global memory flushes
 * subnormal inputs and results; elsewhere it does not. */
#include "emu/access.h"
#include "emu/exec.h"
#include "emu/floats.h"

enum { AUX_SPACE, AUX_BYTES, AUX_ACTION, AUX_COUNT, AUX_FIRST, AUX_RETURNS };

enum action {
    ACT_ADD,
    ACT_MIN,
    ACT_MAX,
    ACT_AND,
    ACT_OR,
    ACT_XOR,
    ACT_EXCH,
    ACT_CAS,
    ACT_INC,
    ACT_DEC,
};

/* ---- values */

static uint64_t half_action(const struct format *f, enum action act, uint32_t x,
                            uint32_t y)
{
    if (act == ACT_ADD)
        return float_encode(f, fma_to_odd(float_decode(f, x), 1, float_decode(f, y)),
                            ROUND_NEAREST, false);
    bool xn = (x & 0x7fffu) > f->inf, yn = (y & 0x7fffu) > f->inf;
    if (xn || yn)
        return xn && yn ? f->nan : xn ? y : x;
    uint32_t ox = x & 0x8000u ? ~x & 0xffffu : x | 0x8000u;
    uint32_t oy = y & 0x8000u ? ~y & 0xffffu : y | 0x8000u;
    return (ox > oy) == (act == ACT_MAX) ? x : y;
}

static uint64_t float_action(int type, enum action act, uint64_t old, uint64_t b,
                             bool is_global)
{
    uint32_t x = (uint32_t)old, y = (uint32_t)b;
    switch (type) {
    case PTX_T_F32:
        if (!is_global)
            return canon(f32_of(x) + f32_of(y));
        return flush(canon(f32_of(flush(x)) + f32_of(flush(y))));
    case PTX_T_F64:
        /* In global memory a NaN is not quieted, in shared memory the old one is
         * preferred (an H200). */
        if (is_global && (is_nan64(old) || is_nan64(b)))
            return is_nan64(b) ? b : old;
        return canon64(f64_of(old) + f64_of(b), b, old);
    case PTX_T_F16:
        return half_action(&format_f16, act, x & 0xffffu, y & 0xffffu);
    case PTX_T_BF16:
        return half_action(&format_bf16, act, x & 0xffffu, y & 0xffffu);
    case PTX_T_F16X2:
        return half_action(&format_f16, act, x >> 16, y >> 16) << 16 |
               half_action(&format_f16, act, x & 0xffffu, y & 0xffffu);
    default:
        return half_action(&format_bf16, act, x >> 16, y >> 16) << 16 |
               half_action(&format_bf16, act, x & 0xffffu, y & 0xffffu);
    }
}

static bool is_less(int type, uint64_t a, uint64_t b)
{
    switch (type) {
    case PTX_T_S32:
        return s32_of((uint32_t)a) < s32_of((uint32_t)b);
    case PTX_T_S64:
        return s64_of(a) < s64_of(b);
    default:
        return a < b;
    }
}

static uint64_t act_on(const struct op *op, uint64_t old, uint64_t b, uint64_t c,
                       bool is_global)
{
    enum action act = (enum action)op->aux[AUX_ACTION];
    if (type_is_float(op->type))
        return float_action(op->type, act, old, b, is_global);
    switch (act) {
    case ACT_ADD:
        return old + b;
    case ACT_MIN:
        return is_less(op->type, b, old) ? b : old;
    case ACT_MAX:
        return is_less(op->type, old, b) ? b : old;
    case ACT_AND:
        return old & b;
    case ACT_OR:
        return old | b;
    case ACT_XOR:
        return old ^ b;
    case ACT_EXCH:
        return b;
    case ACT_CAS:
        return old == b ? c : old;
    case ACT_INC:
        return old >= b ? 0 : old + 1;
    case ACT_DEC:
        return old == 0 || old > b ? b : old - 1;
    }
    return old;
}

/* ---- one lane */

static const struct opnd *element(const struct opnd *o, uint32_t k)
{
    return o->kind == PTX_OPND_VECTOR ? &o->items[k] : o;
}

static void put(struct warp *w, const struct opnd *o, int lane, uint64_t value)
{
    if (o->bits == 64) {
        uint64_t *r = opnd_lanes(w, o);
        r[lane] = value;
    } else {
        uint32_t *r = opnd_lanes(w, o);
        r[lane] = (uint32_t)value;
    }
}

/* True when memory has changed: a failed compare-and-swap must not wake anybody. */
static bool atom_lane(struct warp *w, const struct op *op, uint8_t *at, int lane,
                      bool is_global)
{
    uint32_t bytes = op->aux[AUX_BYTES], first = op->aux[AUX_FIRST];
    bool changed = false, cas = op->aux[AUX_ACTION] == ACT_CAS;
    uint64_t mask = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * bytes)) - 1;
    for (uint32_t k = 0; k < op->aux[AUX_COUNT]; k++) {
        uint64_t old = 0;
        memcpy(&old, at + k * bytes, bytes);
        uint64_t b = opnd_u64(w, element(&op->opnds[first], k), lane) & mask;
        uint64_t c = cas ? opnd_u64(w, &op->opnds[first + 1], lane) & mask : 0;
        uint64_t new = act_on(op, old, b, c, is_global) & mask;
        memcpy(at + k * bytes, &new, bytes);
        changed |= new != old;
        if (op->aux[AUX_RETURNS])
            put(w, element(&op->opnds[0], k), lane, old);
    }
    return changed;
}

static bool atom128_lane(struct warp *w, const struct op *op, uint8_t *at, int lane)
{
    const uint8_t *b = opnd_lanes(w, &op->opnds[2]);
    bool cas = op->aux[AUX_ACTION] == ACT_CAS;
    const uint8_t *c = cas ? opnd_lanes(w, &op->opnds[3]) : b;
    uint8_t old[16], new[16];
    size_t from = (size_t)lane * 16;
    memcpy(old, at, 16);
    memcpy(new, c + from, 16);
    if (cas && memcmp(old, b + from, 16) != 0)
        memcpy(new, old, 16);
    memcpy(at, new, 16);
    memcpy((uint8_t *)opnd_lanes(w, &op->opnds[0]) + from, old, 16);
    return memcmp(old, new, 16) != 0;
}

static enum flow exec_atom(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct grid *g = w->cta->cluster->grid;
    struct access a;
    uint32_t bytes = op->aux[AUX_BYTES] * op->aux[AUX_COUNT];
    int address = op->aux[AUX_RETURNS] ? 1 : 0;
    if (!access_lanes(w, op, &op->opnds[address], lanes, (enum space)op->aux[AUX_SPACE],
                      bytes, true, &a))
        return FLOW_STOP;
    bool changed = false;
    if (a.global)
        global_lock(g);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (op->aux[AUX_BYTES] == 16)
            changed |= atom128_lane(w, op, a.at[lane], lane);
        else
            changed |= atom_lane(w, op, a.at[lane], lane, a.global >> lane & 1);
    }
    if (a.global)
        global_unlock(g);
    if (changed)
        access_changed(w, &a);
    return FLOW_NEXT;
}

/* ---- decoding */

static const struct {
    uint16_t mod, action;
} actions[] = {
    {PTX_M_ADD, ACT_ADD},   {PTX_M_MIN, ACT_MIN}, {PTX_M_MAX, ACT_MAX},
    {PTX_M_AND, ACT_AND},   {PTX_M_OR, ACT_OR},   {PTX_M_XOR, ACT_XOR},
    {PTX_M_EXCH, ACT_EXCH}, {PTX_M_CAS, ACT_CAS}, {PTX_M_INC, ACT_INC},
    {PTX_M_DEC, ACT_DEC},
};

static bool want_data(struct decoder *d, struct op *o, int index, int bits)
{
    struct opnd *v = &o->opnds[index];
    int count = o->insn->vector;
    if (count == 1)
        return decode_want_reg(d, o, index, bits);
    if (v->kind != PTX_OPND_VECTOR || v->item_count != count)
        return decode_refuse(d, o, ".v%d needs a list of %d registers", count, count);
    for (int k = 0; k < count; k++)
        if (!v->items[k].is_sink &&
            (v->items[k].kind != PTX_OPND_REG ||
             (v->items[k].bits != bits && !v->items[k].is_const)))
            return decode_refuse(d, o, "element %d must be a %d-bit register", k + 1,
                                 bits);
    return true;
}

static bool decode_atom(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    bool returns = i->op == PTX_ATOM, found = false;
    int bits = ptx_type_bits((enum ptx_type)o->type);
    for (size_t k = 0; k < COUNT_OF(actions) && !found; k++)
        if (ptx_has(i, (enum ptx_mod)actions[k].mod)) {
            o->aux[AUX_ACTION] = actions[k].action;
            found = true;
        }
    if (!found)
        return decode_refuse(d, o, "the operation is missing");
    bool cas = o->aux[AUX_ACTION] == ACT_CAS;
    bool bitwise = o->aux[AUX_ACTION] == ACT_EXCH || cas;
    if (bits < 16 || (bits == 128 && !bitwise) ||
        (o->type == PTX_T_F32 && o->aux[AUX_ACTION] != ACT_ADD) ||
        (o->type == PTX_T_F64 && o->aux[AUX_ACTION] != ACT_ADD))
        return decode_no_type(d, o);
    enum space space = access_space(i);
    int first = returns ? 2 : 1, operands = first + 1 + cas;
    o->aux[AUX_SPACE] = space;
    o->aux[AUX_BYTES] = (uint32_t)bits / 8;
    o->aux[AUX_COUNT] = (uint32_t)i->vector;
    o->aux[AUX_FIRST] = (uint32_t)first;
    o->aux[AUX_RETURNS] = returns;
    o->exec = exec_atom;
    /* Integer reductions give the same whoever comes first. */
    if (space != SPACE_SHARED_CTA && space != SPACE_SHARED_CLUSTER &&
        (returns || type_is_float(o->type))) {
        o->may_poll = returns;
        decode_order_matters(d);
    }
    /* One more operand is a cache policy. */
    if (!decode_want_count(d, o, operands, operands + 1) ||
        !decode_want_address(d, o, returns ? 1 : 0) || !want_data(d, o, first, bits))
        return false;
    return (!returns || want_data(d, o, 0, bits)) &&
           (!cas || decode_want_reg(d, o, first + 1, bits));
}

bool decode_ATOM(struct decoder *d, struct op *o)
{
    return decode_atom(d, o);
}

bool decode_RED(struct decoder *d, struct op *o)
{
    return decode_atom(d, o);
}
