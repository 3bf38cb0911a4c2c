/* exec_mov.c - mov in all its meanings, and instructions on addresses.
 *
 * PTX ISA 9.0, "mov", "cvta", "mapa", "getctarank", "isspacep".  What a mov is (copy,
 * pack, unpack, address, clock) is settled when it is decoded. */
#include "emu/access.h"
#include "emu/exec.h"
#include "emu/lanes.h"

/* ---- copies */

EXEC1(mov16, uint32_t, uint32_t, a & 0xffffu)
EXEC1(mov32, uint32_t, uint32_t, a)
EXEC1(mov64, uint64_t, uint64_t, a)

static enum flow exec_mov_pred(struct warp *w, const struct op *op, uint32_t lanes)
{
    set_mask(w, &op->opnds[0], lanes, opnd_mask(w, &op->opnds[1]));
    return FLOW_NEXT;
}

static enum flow exec_mov128(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint8_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint8_t *a = opnd_lanes(w, &op->opnds[1]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        memmove(d + lane * 16, a + lane * 16, 16);
    }
    return FLOW_NEXT;
}

/* ---- pack and unpack: low element first */

/* A register's lane as up to 16 bytes, low byte first. */
static uint8_t *lane_bytes(struct warp *w, const struct opnd *o, int lane)
{
    int stride = o->bits == 128 ? 16 : o->bits == 64 ? 8 : 4;
    return (uint8_t *)opnd_lanes(w, o) + lane * stride;
}

static void put_bytes(struct warp *w, const struct opnd *o, int lane,
                      const uint8_t *bytes, uint32_t count)
{
    uint8_t *d = lane_bytes(w, o, lane);
    memcpy(d, bytes, count);
    if (count < 4 && !o->is_sink)
        memset(d + count, 0, 4 - count); /* narrow ones sit zero-extended */
}

static enum flow exec_pack(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *v = &op->opnds[1];
    uint32_t each = op->aux[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint8_t whole[16];
        for (int k = 0; k < v->item_count; k++)
            memcpy(whole + (uint32_t)k * each, lane_bytes(w, &v->items[k], lane), each);
        put_bytes(w, &op->opnds[0], lane, whole, each * (uint32_t)v->item_count);
    }
    return FLOW_NEXT;
}

static enum flow exec_unpack(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *v = &op->opnds[0];
    uint32_t each = op->aux[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint8_t whole[16];
        memcpy(whole, lane_bytes(w, &op->opnds[1], lane),
               each * (uint32_t)v->item_count);
        for (int k = 0; k < v->item_count; k++)
            if (!v->items[k].is_sink)
                put_bytes(w, &v->items[k], lane, whole + (uint32_t)k * each, each);
    }
    return FLOW_NEXT;
}

/* mov.b64 d, {lo, hi} and back: what most packing is. */
static enum flow exec_pack_2x32(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *v = &op->opnds[1];
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *lo = opnd_lanes(w, &v->items[0]), *hi = opnd_lanes(w, &v->items[1]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int i = bits_lowest(rest);
        d[i] = (uint64_t)hi[i] << 32 | lo[i];
    }
    return FLOW_NEXT;
}

static enum flow exec_unpack_2x32(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *v = &op->opnds[0];
    const uint64_t *s = opnd_lanes(w, &op->opnds[1]);
    uint32_t *lo = opnd_lanes(w, &v->items[0]), *hi = opnd_lanes(w, &v->items[1]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int i = bits_lowest(rest);
        uint64_t x = s[i];
        lo[i] = (uint32_t)x;
        hi[i] = (uint32_t)(x >> 32);
    }
    return FLOW_NEXT;
}

static bool decode_vector_mov(struct decoder *d, struct op *o, int vector)
{
    int bits = ptx_type_bits((enum ptx_type)o->type);
    struct opnd *v = &o->opnds[vector];
    if (!decode_want_reg(d, o, 1 - vector, bits))
        return false;
    if (v->item_count < 1 || bits % v->item_count)
        return decode_refuse(d, o, "%d bits do not divide into %d elements", bits,
                             v->item_count);
    int each = bits / v->item_count;
    if (each < 8)
        return decode_refuse(d, o, "elements must have 8 bits or more");
    for (int k = 0; k < v->item_count; k++) {
        struct opnd *e = &v->items[k];
        if (e->kind != PTX_OPND_REG || e->bits == 1 ||
            (!e->is_sink && !e->is_const && e->bits != each))
            return decode_refuse(d, o, "element %d must be a %d-bit register", k + 1,
                                 each);
    }
    o->aux[0] = (uint32_t)each / 8;
    bool halves = each == 32 && v->item_count == 2;
    for (int k = 0; k < v->item_count; k++)
        halves &= !v->items[k].is_const || v->items[k].bits == 32;
    if (vector == 1)
        o->exec = halves ? exec_pack_2x32 : exec_pack;
    else
        o->exec = halves ? exec_unpack_2x32 : exec_unpack;
    return true;
}

/* ---- addresses and clocks */

static enum flow exec_mov_address(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t at = opnd_address(w, &op->opnds[1], 0);
    if (op->opnds[0].bits == 32) {
        set_all32(w, &op->opnds[0], lanes, (uint32_t)at);
        return FLOW_NEXT;
    }
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        d[bits_lowest(rest)] = at;
    return FLOW_NEXT;
}

/* Virtual time: one nanosecond, and one clock, an executed warp instruction. */
static enum flow exec_mov_clock(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t now = w->cta->cluster->clock;
    w->read_clock = true;
    switch (op->opnds[1].imm) {
    case PTX_S_CLOCK_HI:
    case PTX_S_GLOBALTIMER_HI:
        now >>= 32;
        break;
    default:
        break;
    }
    if (op->opnds[0].bits == 32) {
        set_all32(w, &op->opnds[0], lanes, (uint32_t)now);
        return FLOW_NEXT;
    }
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        d[bits_lowest(rest)] = now;
    return FLOW_NEXT;
}

bool decode_MOV(struct decoder *d, struct op *o)
{
    if (!decode_want_count(d, o, 2, 2))
        return false;
    const struct opnd *to = &o->opnds[0], *from = &o->opnds[1];
    int bits = ptx_type_bits((enum ptx_type)o->type);
    if (to->kind == PTX_OPND_VECTOR)
        return decode_vector_mov(d, o, 0);
    if (from->kind == PTX_OPND_VECTOR)
        return decode_vector_mov(d, o, 1);
    if (from->kind == PTX_OPND_FUNC || from->kind == PTX_OPND_LABEL)
        return decode_refuse(d, o, "addresses of functions and labels are missing");
    if (from->kind == PTX_OPND_VAR) {
        if (from->base == BASE_CALL)
            return decode_refuse(d, o,
                                 "the address of a call's argument cannot be taken");
        o->exec = exec_mov_address;
        return decode_want_reg(d, o, 0, bits) &&
               (bits == 32 || bits == 64 || decode_no_type(d, o));
    }
    if (from->kind == PTX_OPND_SREG) {
        o->exec = exec_mov_clock;
        decode_order_matters(d); /* how far time has come depends on who runs when */
        return decode_want_reg(d, o, 0, from->bits);
    }
    switch (bits) {
    case 1:
        o->exec = exec_mov_pred;
        break;
    case 16:
        o->exec = exec_mov16;
        /* mov.u16 r, %tid.x takes the lower half. */
        return decode_want_reg(d, o, 0, 16) &&
               decode_want_reg(d, o, 1, from->bits == 32 && !from->is_const ? 32 : 16);
    case 32:
        o->exec = exec_mov32;
        break;
    case 64:
        o->exec = exec_mov64;
        break;
    case 128:
        o->exec = exec_mov128;
        if (from->is_const)
            return decode_refuse(d, o, "a 128-bit immediate is missing");
        break;
    default:
        return decode_no_type(d, o);
    }
    return decode_want_reg(d, o, 0, bits) && decode_want_reg(d, o, 1, bits);
}

/* ---- cvta */

/* aux[0]: what is added to the address, aux[1] the upper half; aux[2]: which operand
 * bits stay. */
static enum flow exec_cvta(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    const struct opnd *a = &op->opnds[1];
    uint64_t add = (uint64_t)op->aux[1] << 32 | op->aux[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t at =
            a->kind == PTX_OPND_VAR ? opnd_address(w, a, lane) : opnd_u64(w, a, lane);
        d[lane] = at + add;
    }
    return FLOW_NEXT;
}

bool decode_CVTA(struct decoder *d, struct op *o)
{
    enum space space = access_space(o->insn);
    uint64_t window = space == SPACE_SHARED_CTA || space == SPACE_SHARED_CLUSTER
                          ? SHARED_WINDOW
                      : space == SPACE_LOCAL ? LOCAL_WINDOW
                                             : 0;
    if (space == SPACE_GENERIC)
        return decode_refuse(d, o, "the state space is missing");
    if (o->type != PTX_T_U64)
        return decode_refuse(d, o, "addresses have 64 bits");
    if (ptx_has(o->insn, PTX_M_TO))
        window = 0 - window;
    o->aux[0] = (uint32_t)window;
    o->aux[1] = (uint32_t)(window >> 32);
    o->exec = exec_cvta;
    if (!decode_want_count(d, o, 2, 2) || !decode_want_reg(d, o, 0, 64))
        return false;
    return o->opnds[1].kind == PTX_OPND_VAR || decode_want_reg(d, o, 1, 64);
}

/* ---- mapa, getctarank, isspacep */

static uint64_t address_of(const struct warp *w, const struct opnd *o, int lane)
{
    return o->kind == PTX_OPND_VAR ? opnd_address(w, o, lane) : opnd_u64(w, o, lane);
}

static enum flow exec_mapa(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct cluster *c = w->cta->cluster;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = address_of(w, &op->opnds[1], lane);
        uint32_t rank = opnd_u32(w, &op->opnds[2], lane);
        if (rank >= (uint32_t)c->cta_count) {
            w->cur_lanes = (uint32_t)1 << lane;
            return report(c->grid, w, CHECK_OUT_OF_BOUNDS,
                          "mapa to block %u of a cluster of %d", rank, c->cta_count);
        }
        a = (a & ~((uint64_t)0xff << SMEM_RANK_SHIFT)) | (uint64_t)rank
                                                             << SMEM_RANK_SHIFT;
        if (op->opnds[0].bits == 64) {
            uint64_t *d = opnd_lanes(w, &op->opnds[0]);
            d[lane] = a;
        } else {
            uint32_t *d = opnd_lanes(w, &op->opnds[0]);
            d[lane] = (uint32_t)a;
        }
    }
    return FLOW_NEXT;
}

bool decode_MAPA(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->type);
    o->exec = exec_mapa;
    if (!decode_want_count(d, o, 3, 3) || !decode_want_reg(d, o, 0, bits) ||
        !decode_want_reg(d, o, 2, 32))
        return false;
    return o->opnds[1].kind == PTX_OPND_VAR || decode_want_reg(d, o, 1, bits);
}

static enum flow exec_getctarank(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t a = (uint32_t)address_of(w, &op->opnds[1], lane);
        d[lane] = a >> SMEM_RANK_SHIFT & 0xffu;
    }
    return FLOW_NEXT;
}

bool decode_GETCTARANK(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->type);
    o->exec = exec_getctarank;
    if (!decode_want_count(d, o, 2, 2) || !decode_want_reg(d, o, 0, 32))
        return false;
    return o->opnds[1].kind == PTX_OPND_VAR || decode_want_reg(d, o, 1, bits);
}

static enum flow exec_isspacep(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct grid *g = w->cta->cluster->grid;
    uint32_t mask = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = opnd_u64(w, &op->opnds[1], lane);
        bool shared = a - SHARED_WINDOW < WINDOW_BYTES,
             local = a - LOCAL_WINDOW < WINDOW_BYTES;
        bool own = (uint32_t)a >> SMEM_RANK_SHIFT == w->cta->rank;
        bool param = a - (uint64_t)(uintptr_t)g->params < g->param_bytes;
        bool yes = false;
        switch ((enum space)op->aux[0]) {
        case SPACE_SHARED_CTA:
            yes = shared && own;
            break;
        case SPACE_SHARED_CLUSTER:
            yes = shared;
            break;
        case SPACE_LOCAL:
            yes = local;
            break;
        case SPACE_PARAM:
            yes = param;
            break;
        default: /* the parameter block is part of global memory */
            yes = !shared && !local;
            break;
        }
        mask |= (uint32_t)yes << lane;
    }
    set_mask(w, &op->opnds[0], lanes, mask);
    return FLOW_NEXT;
}

bool decode_ISSPACEP(struct decoder *d, struct op *o)
{
    o->aux[0] = access_space(o->insn);
    if (ptx_has(o->insn, PTX_M_CONST))
        return decode_refuse(d, o, "const and global memory are not told apart");
    o->exec = exec_isspacep;
    return decode_want_count(d, o, 2, 2) && decode_want_reg(d, o, 0, 1) &&
           decode_want_reg(d, o, 1, 64);
}
