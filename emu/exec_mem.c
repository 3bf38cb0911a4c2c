/* exec_mem.c - ld, st, st.bulk, fences, and hints that change no value.
 *
 * PTX ISA 9.0, "Data Movement and Conversion Instructions".  One operation at a time is
 * sequentially consistent, stronger than any .sem asks for; cache hints do nothing. */
#include "emu/access.h"
#include "emu/hb.h"
#include "emu/lanes.h"

enum { AUX_SPACE, AUX_ELEM_BYTES, AUX_COUNT, AUX_SIGNED };

static bool is_signed(int type)
{
    return type == PTX_T_S8 || type == PTX_T_S16 || type == PTX_T_S32 ||
           type == PTX_T_S64;
}

/* ---- ld */

/* The register's lane from the bytes in memory, widened as the type says. */
static void load_element(void *reg, int lane, int reg_bits, const uint8_t *at,
                         uint32_t bytes, bool sign)
{
    uint64_t value = 0;
    if (bytes == 16) {
        memcpy((uint8_t *)reg + lane * 16, at, 16);
        return;
    }
    /* Little-endian host and device. */
    memcpy(&value, at, bytes);
    if (sign && bytes < 8) {
        uint64_t top = (uint64_t)1 << (bytes * 8 - 1);
        value = (value ^ top) - top;
    }
    if (reg_bits == 64) {
        uint64_t *r = reg;
        r[lane] = value;
    } else {
        uint32_t *r = reg, low = (uint32_t)value;
        r[lane] = reg_bits == 32 ? low : low & ((1u << reg_bits) - 1);
    }
}

static const struct opnd *element(const struct op *op, int index, uint32_t k)
{
    const struct opnd *o = &op->opnds[index];
    return o->kind == PTX_OPND_VECTOR ? &o->items[k] : o;
}

static enum flow exec_ld(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    uint32_t bytes = op->aux[AUX_ELEM_BYTES], count = op->aux[AUX_COUNT];
    if (!access_lanes(w, op, &op->opnds[1], lanes, (enum space)op->aux[AUX_SPACE],
                      bytes * count, false, &a))
        return FLOW_STOP;
    for (uint32_t k = 0; k < count; k++) {
        const struct opnd *d = element(op, 0, k);
        void *reg = opnd_lanes(w, d);
        if (bytes == 4 && d->bits == 32) {
            uint32_t *r = reg;
            if (lanes == ALL_LANES)
                EACH(i) memcpy(&r[i], a.at[i] + k * 4, 4);
            for (uint32_t rest = lanes == ALL_LANES ? 0 : lanes; rest;
                 rest &= rest - 1) {
                int lane = bits_lowest(rest);
                memcpy(&r[lane], a.at[lane] + k * 4, 4);
            }
            continue;
        }
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            int lane = bits_lowest(rest);
            load_element(reg, lane, d->bits, a.at[lane] + k * bytes, bytes,
                         op->aux[AUX_SIGNED]);
        }
    }
    return FLOW_NEXT;
}

/* A parameter at a fixed offset: the same value in all lanes. */
static enum flow exec_ld_param(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct grid *g = w->cta->cluster->grid;
    uint32_t bytes = op->aux[AUX_ELEM_BYTES], count = op->aux[AUX_COUNT];
    uint64_t from = (uint64_t)op->opnds[1].imm;
    if (bytes * count > g->param_bytes || from > g->param_bytes - bytes * count)
        return report(w->cta->cluster->grid, w, CHECK_OUT_OF_BOUNDS,
                      "%s of %u bytes at offset %llu: the kernel has %u bytes of "
                      "parameters",
                      op->insn->opcode, bytes * count, (unsigned long long)from,
                      g->param_bytes);
    for (uint32_t k = 0; k < count; k++) {
        const struct opnd *d = element(op, 0, k);
        void *reg = opnd_lanes(w, d);
        for (uint32_t rest = lanes; rest; rest &= rest - 1)
            load_element(reg, bits_lowest(rest), d->bits, g->params + from + k * bytes,
                         bytes, op->aux[AUX_SIGNED]);
    }
    return FLOW_NEXT;
}

/* Bytes in memory of one element of the type; 0: it cannot be loaded or stored. */
static uint32_t memory_bytes(int type)
{
    int bits = ptx_type_bits((enum ptx_type)type);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128
               ? (uint32_t)bits / 8
               : 0;
}

static bool orders_clusters(const struct ptx_insn *i, enum space space)
{
    bool strong = ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) ||
                  ptx_has(i, PTX_M_ACQUIRE) || ptx_has(i, PTX_M_RELEASE) ||
                  ptx_has(i, PTX_M_MMIO);
    return strong && (space == SPACE_GLOBAL || space == SPACE_GENERIC);
}

/* Common to ld and st: `data` and `address` are operand numbers. */
static bool decode_access(struct decoder *d, struct op *o, int data, int address)
{
    const struct ptx_insn *i = o->insn;
    /* One more operand is a cache policy. */
    if (!decode_want_count(d, o, 2, 3) || !decode_want_address(d, o, address))
        return false;
    uint32_t bytes = memory_bytes(o->type);
    if (!bytes)
        return decode_refuse(d, o, "type .%s has no size in memory",
                             ptx_type_spelling((enum ptx_type)o->type));
    enum space space = access_space(i);
    o->aux[AUX_SPACE] = space;
    o->aux[AUX_ELEM_BYTES] = bytes;
    o->aux[AUX_COUNT] = (uint32_t)i->vector;
    o->aux[AUX_SIGNED] = is_signed(o->type);
    if (orders_clusters(i, space)) {
        o->may_poll = i->op == PTX_LD;
        decode_order_matters(d);
    }
    struct opnd *v = &o->opnds[data];
    if (i->vector > 1 && (v->kind != PTX_OPND_VECTOR || v->item_count != i->vector))
        return decode_refuse(d, o, ".v%d needs a list of %d registers", i->vector,
                             i->vector);
    if (v->kind == PTX_OPND_VECTOR && v->item_count == 1 && i->vector == 1)
        *v = v->items[0];
    for (int k = 0; k < i->vector; k++) {
        struct opnd *r = i->vector > 1 ? &v->items[k] : v;
        if (r->is_sink)
            continue;
        if (r->kind != PTX_OPND_REG || r->bits == 1 || r->bits < bytes * 8)
            return decode_refuse(d, o, "a register of at least %u bits is needed",
                                 bytes * 8);
        if (bytes == 16 && r->bits != 128)
            return decode_refuse(d, o, "a .b128 register is needed");
    }
    return true;
}

static bool decode_ld(struct decoder *d, struct op *o)
{
    if (!decode_access(d, o, 0, 1))
        return false;
    bool fixed = o->opnds[1].base == BASE_PARAM && o->aux[AUX_SPACE] == SPACE_PARAM;
    o->exec = fixed ? exec_ld_param : exec_ld;
    return true;
}

bool decode_LD(struct decoder *d, struct op *o)
{
    return decode_ld(d, o);
}

bool decode_LDU(struct decoder *d, struct op *o)
{
    return decode_ld(d, o);
}

/* ---- st */

static enum flow exec_st(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    uint32_t bytes = op->aux[AUX_ELEM_BYTES], count = op->aux[AUX_COUNT];
    if (!access_lanes(w, op, &op->opnds[0], lanes, (enum space)op->aux[AUX_SPACE],
                      bytes * count, true, &a))
        return FLOW_STOP;
    access_changed(w, &a);
    for (uint32_t k = 0; k < count; k++) {
        const struct opnd *s = element(op, 1, k);
        const uint8_t *reg = opnd_lanes(w, s);
        uint32_t stride = s->bits == 128 ? 16 : s->bits == 64 ? 8 : 4;
        if (bytes == 4) {
            if (lanes == ALL_LANES)
                EACH(i) memcpy(a.at[i] + k * 4, reg + (uint32_t)i * stride, 4);
            for (uint32_t rest = lanes == ALL_LANES ? 0 : lanes; rest;
                 rest &= rest - 1) {
                int lane = bits_lowest(rest);
                memcpy(a.at[lane] + k * 4, reg + (uint32_t)lane * stride, 4);
            }
            continue;
        }
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            int lane = bits_lowest(rest);
            memcpy(a.at[lane] + k * bytes, reg + (uint32_t)lane * stride, bytes);
        }
    }
    return FLOW_NEXT;
}

bool decode_ST(struct decoder *d, struct op *o)
{
    if (!decode_access(d, o, 1, 0))
        return false;
    if (o->aux[AUX_SPACE] == SPACE_PARAM && o->opnds[0].base == BASE_PARAM)
        return decode_refuse(d, o, "kernel parameters are read-only");
    o->exec = exec_st;
    return true;
}

/* ---- st.bulk: zero fill of shared memory */

static enum flow exec_st_bulk(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool generic = op->aux[AUX_SPACE] == SPACE_GENERIC;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t size = opnd_u64(w, &op->opnds[1], lane);
        uint64_t address = opnd_address(w, &op->opnds[0], lane);
        struct cta *t;
        uint32_t from;
        w->cur_lanes = (uint32_t)1 << lane;
        if (size % 8 || address % 8)
            return report(
                w->cta->cluster->grid, w, CHECK_ALIGNMENT,
                "st.bulk of %llu bytes at 0x%llx: both must be multiples of 8",
                (unsigned long long)size, (unsigned long long)address);
        if (generic && address - SHARED_WINDOW >= WINDOW_BYTES)
            return report(w->cta->cluster->grid, w, CHECK_OUT_OF_BOUNDS,
                          "st.bulk at 0x%llx, which is not in shared memory",
                          (unsigned long long)address);
        if (size == 0)
            continue;
        uint8_t *p = shared_at(w, (uint32_t)address,
                               size > UINT32_MAX ? UINT32_MAX : (uint32_t)size, generic,
                               &t, &from);
        if (!p)
            return FLOW_STOP;
        uint32_t to = from + (uint32_t)size;
        if (mbar_in(t, from, to))
            return report(w->cta->cluster->grid, w, CHECK_BAD_BARRIER,
                          "st.bulk overwrites an mbarrier between 0x%x and 0x%x", from,
                          to);
        if (w->hb && !hb_smem_range(w, t, from, to, lane, HB_WRITE))
            return FLOW_STOP;
        memset(p, 0, (size_t)size);
        cluster_event(t->cluster);
    }
    return FLOW_NEXT;
}

bool decode_ST_BULK(struct decoder *d, struct op *o)
{
    int64_t init = 0;
    if (!decode_want_count(d, o, 3, 3) || !decode_want_address(d, o, 0))
        return false;
    if (!opnd_is_imm(&o->opnds[2], &init) || init != 0)
        return decode_refuse(d, o, "the initial value must be 0");
    o->aux[AUX_SPACE] = access_space(o->insn);
    o->exec = exec_st_bulk;
    return true;
}

/* ---- no effect on values */

static enum flow exec_nothing(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)w;
    (void)op;
    (void)lanes;
    return FLOW_NEXT;
}

#define NOTHING(id)                                                                    \
    bool decode_##id(struct decoder *d, struct op *o)                                  \
    {                                                                                  \
        (void)d;                                                                       \
        o->exec = exec_nothing;                                                        \
        return true;                                                                   \
    }

NOTHING(PREFETCH)
NOTHING(PREFETCHU)
NOTHING(APPLYPRIORITY)
NOTHING(DISCARD)
NOTHING(PMEVENT)

/* Values do not need them, what is known of their order does. */
static enum flow exec_fence(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (w->hb)
        hb_fence(w, op, lanes);
    return FLOW_NEXT;
}

#define FENCE(id)                                                                      \
    bool decode_##id(struct decoder *d, struct op *o)                                  \
    {                                                                                  \
        (void)d;                                                                       \
        o->exec = exec_fence;                                                          \
        return true;                                                                   \
    }

FENCE(MEMBAR)
FENCE(FENCE)
FENCE(FENCE_MBARRIER_INIT)

/* A policy is an opaque number; no copy looks at it. */
static enum flow exec_createpolicy(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint64_t *d = opnd_lanes(w, &op->opnds[0]);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        d[bits_lowest(rest)] = 0;
    return FLOW_NEXT;
}

bool decode_CREATEPOLICY(struct decoder *d, struct op *o)
{
    o->exec = exec_createpolicy;
    return decode_want_reg(d, o, 0, 64);
}
