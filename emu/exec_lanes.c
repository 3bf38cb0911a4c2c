/* exec_lanes.c - what lanes of a warp exchange: shfl, vote, match, redux, elect.
 *
 * PTX ISA 9.0, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync",
 * "activemask", "bar.warp.sync".  The machine has gathered the live lanes of the member
 * mask before it calls these (schedule.c). */
#include "emu/exec.h"
#include "emu/floats.h"

/* ---- shfl */

enum { AUX_MODE, AUX_PAIR };
enum mode { MODE_UP, MODE_DOWN, MODE_BFLY, MODE_IDX };

static enum flow exec_shfl(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *to = op->aux[AUX_PAIR] ? &op->opnds[0].items[0] : &op->opnds[0];
    uint32_t *d = opnd_lanes(w, to);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]), *b = opnd_lanes(w, &op->opnds[2]),
                   *c = opnd_lanes(w, &op->opnds[3]),
                   *members = opnd_lanes(w, &op->opnds[4]);
    uint32_t from[WARP_LANES], in_range = 0;
    memcpy(from, a, sizeof from); /* d may be a */
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        int by = (int)(b[lane] & 31), clamp = (int)(c[lane] & 31);
        int segment = (int)(c[lane] >> 8 & 31);
        int min = lane & segment, max = min | (clamp & ~segment & 31), j;
        bool inside;
        switch ((enum mode)op->aux[AUX_MODE]) {
        case MODE_UP:
            j = lane - by;
            inside = j >= max;
            break;
        case MODE_DOWN:
            j = lane + by;
            inside = j <= max;
            break;
        case MODE_BFLY:
            j = lane ^ by;
            inside = j <= max;
            break;
        default:
            j = min | (by & ~segment);
            inside = j <= max;
            break;
        }
        if (!inside)
            j = lane;
        in_range |= (uint32_t)inside << lane;
        if (!(members[lane] >> j & 1)) {
            w->cur_lanes = (uint32_t)1 << lane;
            return report(
                w->cta->cluster->grid, w, CHECK_MEMBER_MASK,
                "lane %d reads lane %d, which is not in the member mask (0x%x)", lane,
                j, members[lane]);
        }
        /* What an exited lane would have given is undefined. */
        d[lane] = lanes >> j & 1 ? from[j] : UINT32_MAX;
    }
    if (op->aux[AUX_PAIR])
        set_mask(w, &op->opnds[0].items[1], lanes, in_range);
    return FLOW_NEXT;
}

/* The member mask is the last operand; the machine reads it as a 32-bit register. */
static bool want_mask(struct decoder *d, struct op *o)
{
    return decode_want_reg(d, o, o->opnd_count - 1, 32);
}

bool decode_SHFL(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    if (!ptx_has(i, PTX_M_SYNC))
        return decode_refuse(d, o, "only the .sync form is there");
    o->aux[AUX_MODE] = ptx_has(i, PTX_M_UP)     ? MODE_UP
                       : ptx_has(i, PTX_M_DOWN) ? MODE_DOWN
                       : ptx_has(i, PTX_M_BFLY) ? MODE_BFLY
                                                : MODE_IDX;
    o->exec = exec_shfl;
    if (!decode_want_count(d, o, 5, 5))
        return false;
    o->aux[AUX_PAIR] = o->opnds[0].kind == PTX_OPND_PAIR;
    if (o->aux[AUX_PAIR] && !decode_want_pair(d, o, 32))
        return false;
    for (int k = o->aux[AUX_PAIR] ? 1 : 0; k < 4; k++)
        if (!decode_want_reg(d, o, k, 32))
            return false;
    return want_mask(d, o);
}

/* ---- vote */

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static enum flow exec_vote(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t yes = opnd_mask(w, &op->opnds[1]) & lanes;
    if (op->aux[0] == VOTE_BALLOT) {
        set_all32(w, &op->opnds[0], lanes, yes);
        return FLOW_NEXT;
    }
    bool r = op->aux[0] == VOTE_ALL   ? yes == lanes
             : op->aux[0] == VOTE_ANY ? yes != 0
                                      : yes == lanes || yes == 0;
    set_mask(w, &op->opnds[0], lanes, r ? ALL_LANES : 0);
    return FLOW_NEXT;
}

bool decode_VOTE(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    if (!ptx_has(i, PTX_M_SYNC))
        return decode_refuse(d, o, "only the .sync form is there");
    o->aux[0] = ptx_has(i, PTX_M_ALL)   ? VOTE_ALL
                : ptx_has(i, PTX_M_ANY) ? VOTE_ANY
                : ptx_has(i, PTX_M_UNI) ? VOTE_UNI
                                        : VOTE_BALLOT;
    o->exec = exec_vote;
    return decode_want_count(d, o, 3, 3) &&
           decode_want_reg(d, o, 0, o->aux[0] == VOTE_BALLOT ? 32 : 1) &&
           decode_want_reg(d, o, 1, 1) && want_mask(d, o);
}

/* ---- match */

static enum flow exec_match(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *v = &op->opnds[1];
    bool pair = op->opnds[0].kind == PTX_OPND_PAIR, all = op->aux[0];
    const struct opnd *to = pair ? &op->opnds[0].items[0] : &op->opnds[0];
    uint64_t value[WARP_LANES];
    uint32_t *d = opnd_lanes(w, to), same_as_first = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        value[bits_lowest(rest)] = opnd_u64(w, v, bits_lowest(rest));
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t same = 0;
        for (uint32_t other = lanes; other; other &= other - 1) {
            int k = bits_lowest(other);
            same |= (uint32_t)(value[k] == value[lane]) << k;
        }
        if (lane == bits_lowest(lanes))
            same_as_first = same;
        d[lane] = all ? same_as_first == lanes ? lanes : 0 : same;
    }
    if (pair)
        set_mask(w, &op->opnds[0].items[1], lanes,
                 same_as_first == lanes ? ALL_LANES : 0);
    return FLOW_NEXT;
}

bool decode_MATCH(struct decoder *d, struct op *o)
{
    o->aux[0] = ptx_has(o->insn, PTX_M_ALL);
    o->exec = exec_match;
    return decode_want_count(d, o, 3, 3) &&
           (o->opnds[0].kind == PTX_OPND_PAIR ? decode_want_pair(d, o, 32)
                                              : decode_want_reg(d, o, 0, 32)) &&
           decode_want_reg(d, o, 1, ptx_type_bits((enum ptx_type)o->type)) &&
           want_mask(d, o);
}

/* ---- redux */

enum { RED_ADD, RED_MIN, RED_MAX, RED_AND, RED_OR, RED_XOR };

static uint32_t reduce_f32(uint32_t a, uint32_t b, bool is_max, bool nan_wins)
{
    if (is_nan32(a) || is_nan32(b))
        return nan_wins || (is_nan32(a) && is_nan32(b)) ? NAN_F32 : is_nan32(a) ? b : a;
    return (order32(a) > order32(b)) == is_max ? a : b;
}

static uint32_t reduce(const struct op *op, uint32_t a, uint32_t b)
{
    bool sign = op->type == PTX_T_S32;
    uint32_t x = sign ? a ^ 0x80000000u : a, y = sign ? b ^ 0x80000000u : b;
    if (op->type == PTX_T_F32)
        return reduce_f32(a, b, op->aux[0] == RED_MAX, op->aux[2]);
    switch (op->aux[0]) {
    case RED_ADD:
        return a + b;
    case RED_MIN:
        return x < y ? a : b;
    case RED_MAX:
        return x > y ? a : b;
    case RED_AND:
        return a & b;
    case RED_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static enum flow exec_redux(struct warp *w, const struct op *op, uint32_t lanes)
{
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]);
    uint32_t clear = op->aux[1] ? 0x80000000u : 0; /* .abs */
    uint32_t r = a[bits_lowest(lanes)] & ~clear;
    for (uint32_t rest = lanes & (lanes - 1); rest; rest &= rest - 1)
        r = reduce(op, r, a[bits_lowest(rest)] & ~clear);
    if (op->type == PTX_T_F32 && is_nan32(r))
        r = NAN_F32;
    set_all32(w, &op->opnds[0], lanes, r);
    return FLOW_NEXT;
}

bool decode_REDUX(struct decoder *d, struct op *o)
{
    static const uint16_t mods[] = {PTX_M_ADD, PTX_M_MIN, PTX_M_MAX,
                                    PTX_M_AND, PTX_M_OR,  PTX_M_XOR};
    for (uint32_t i = 0; i < COUNT_OF(mods); i++)
        if (ptx_has(o->insn, (enum ptx_mod)mods[i]))
            o->aux[0] = i;
    o->aux[1] = ptx_has(o->insn, PTX_M_ABS);
    o->aux[2] = ptx_has(o->insn, PTX_M_NAN);
    o->exec = exec_redux;
    return decode_want_same(d, o, 3, 32);
}

/* ---- elect, activemask, bar.warp.sync */

static enum flow exec_elect(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *pair = &op->opnds[0];
    int leader = bits_lowest(lanes);
    set_all32(w, &pair->items[0], lanes, (uint32_t)leader);
    set_mask(w, &pair->items[1], lanes, (uint32_t)1 << leader);
    return FLOW_NEXT;
}

bool decode_ELECT(struct decoder *d, struct op *o)
{
    o->exec = exec_elect;
    return decode_want_count(d, o, 2, 2) && want_mask(d, o) &&
           decode_want_pair(d, o, 32);
}

static enum flow exec_activemask(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_all32(w, &op->opnds[0], lanes, lanes);
    return FLOW_NEXT;
}

bool decode_ACTIVEMASK(struct decoder *d, struct op *o)
{
    o->exec = exec_activemask;
    return decode_want_count(d, o, 1, 1) && decode_want_reg(d, o, 0, 32);
}

static enum flow exec_bar_warp_sync(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)w;
    (void)op;
    (void)lanes;
    return FLOW_NEXT;
}

bool decode_BAR_WARP_SYNC(struct decoder *d, struct op *o)
{
    o->exec = exec_bar_warp_sync;
    return decode_want_count(d, o, 1, 1) && want_mask(d, o);
}
