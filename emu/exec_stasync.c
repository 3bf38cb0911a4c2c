/* exec_stasync.c - st.async and red.async: a register's way into another CTA.
 *
 * PTX ISA 9.0, "st.async", "red.async".  Each lane's value is an operation of its own,
 * which completes its bytes on a barrier beside the destination.  The forms for global
 * memory are plain stores and reductions that release. */
#include "emu/access.h"
#include "emu/hb.h"
#include "emu/lanes.h"
#include "emu/tma.h"

#include <inttypes.h>

#define MAX_BYTES 32

enum { AUX_BYTES, AUX_COUNT, AUX_GENERIC, AUX_REDUCES, AUX_REDUCTION, AUX_TYPE };

struct remote_store {
    uint8_t data[MAX_BYTES];
    struct cta *cta;
    uint32_t offset, mbar_offset;
};
_Static_assert(sizeof(struct remote_store) <= sizeof((struct async_op *)0)->arg,
               "remote_store must fit an async_op");

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

static bool run_store(struct async_op *o)
{
    struct warp *w = o->issuer;
    const struct op *op = &grid_of(w)->kernel->ops[o->pc];
    struct remote_store s;
    memcpy(&s, &o->arg, sizeof s);
    uint32_t bytes = op->aux[AUX_BYTES] * op->aux[AUX_COUNT];
    uint8_t *to = s.cta->smem + s.offset;
    if (s.cta->live_warps == 0) {
        report(grid_of(w), w, CHECK_CTA_EXIT,
               "the store ends in CTA %u of the cluster, which has exited",
               s.cta->rank);
        return false;
    }
    if (op->aux[AUX_REDUCES])
        tma_reduce(to, s.data, bytes, (enum tma_reduction)op->aux[AUX_REDUCTION],
                   (enum tmap_type)op->aux[AUX_TYPE]);
    else
        memcpy(to, s.data, bytes);
    return mbar_complete_tx(w, s.cta, s.mbar_offset, bytes);
}

/* Shared memory of any CTA of the cluster at an operand. */
static bool locate(struct warp *w, const struct op *op, int index, int lane,
                   uint32_t bytes, const char *what, struct cta **cta, uint32_t *offset)
{
    uint64_t address = opnd_address(w, &op->opnds[index], lane);
    bool is_generic = op->aux[AUX_GENERIC] && op->opnds[index].base != BASE_SHARED;
    if (is_generic ? address - SHARED_WINDOW >= WINDOW_BYTES : address >> 32 != 0) {
        report(grid_of(w), w, CHECK_OUT_OF_BOUNDS,
               "%s at 0x%" PRIx64 ", which is not in shared memory", what, address);
        return false;
    }
    if (!shared_at(w, (uint32_t)address, bytes, true, cta, offset))
        return false;
    if (*offset % bytes == 0)
        return true;
    report(grid_of(w), w, CHECK_ALIGNMENT,
           "%s at shared offset 0x%x is not aligned to %u bytes", what, *offset, bytes);
    return false;
}

static bool store_lane(struct warp *w, const struct op *op, int lane)
{
    uint32_t each = op->aux[AUX_BYTES], bytes = each * op->aux[AUX_COUNT];
    struct remote_store s = {0};
    struct cta *mbar_cta;
    if (!locate(w, op, 0, lane, bytes, "the destination", &s.cta, &s.offset) ||
        !locate(w, op, 2, lane, 8, "the barrier", &mbar_cta, &s.mbar_offset))
        return false;
    if (s.cta != mbar_cta) {
        report(grid_of(w), w, CHECK_OPERAND,
               "the destination is in CTA %u of the cluster, the barrier in CTA %u; "
               "both must be in the same",
               s.cta->rank, mbar_cta->rank);
        return false;
    }
    if (mbar_in(s.cta, s.offset, s.offset + bytes)) {
        report(grid_of(w), w, CHECK_BAD_BARRIER,
               "the store to shared bytes 0x%x to 0x%x would overwrite an mbarrier",
               s.offset, s.offset + bytes);
        return false;
    }
    const struct opnd *value = &op->opnds[1];
    for (uint32_t k = 0; k < op->aux[AUX_COUNT]; k++) {
        const struct opnd *o =
            value->kind == PTX_OPND_VECTOR ? &value->items[k] : value;
        uint64_t x = opnd_u64(w, o, lane);
        memcpy(s.data + k * each, &x, each);
    }
    if (w->hb && !hb_mbar_target(w, s.cta, s.mbar_offset, lane))
        return false;
    struct async_op *o = async_new(w, ASYNC_COPY_IN, lane);
    memcpy(&o->arg, &s, sizeof s);
    o->run = run_store;
    o->reduces = op->aux[AUX_REDUCES];
    async_touch(o, s.cta, s.offset, s.offset + bytes, true);
    return async_issue(o);
}

static enum flow exec_store(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        w->cur_lanes = rest & (0u - rest);
        if (!store_lane(w, op, bits_lowest(rest)))
            return FLOW_STOP;
    }
    w->cur_lanes = lanes;
    return FLOW_NEXT;
}

/* ---- decoding */

static bool decode_async(struct decoder *d, struct op *o)
{
    int bits = ptx_type_bits((enum ptx_type)o->type);
    int count = o->insn->vector > 1 ? o->insn->vector : 1;
    if (!decode_want_count(d, o, 3, 3) || !decode_want_address(d, o, 0) ||
        !decode_want_address(d, o, 2))
        return false;
    if ((bits != 32 && bits != 64) || bits / 8 * count > MAX_BYTES)
        return decode_refuse(d, o, "%d values of %d bits are too much or too little",
                             count, bits);
    if (count == 1 && o->opnds[1].kind == PTX_OPND_VECTOR &&
        o->opnds[1].item_count == 1)
        o->opnds[1] = o->opnds[1].items[0];
    if (count == 1) {
        if (!decode_want_reg(d, o, 1, bits))
            return false;
    } else if (o->opnds[1].kind != PTX_OPND_VECTOR || o->opnds[1].item_count != count) {
        return decode_refuse(d, o, ".v%d needs a list of %d registers", count, count);
    }
    o->exec = exec_store;
    o->aux[AUX_BYTES] = (uint32_t)bits / 8;
    o->aux[AUX_COUNT] = (uint32_t)count;
    o->aux[AUX_GENERIC] = access_space(o->insn) == SPACE_GENERIC;
    return true;
}

bool decode_ST_ASYNC(struct decoder *d, struct op *o)
{
    return ptx_has(o->insn, PTX_M_MMIO) ? decode_ST(d, o) : decode_async(d, o);
}

bool decode_RED_ASYNC(struct decoder *d, struct op *o)
{
    static const struct {
        enum ptx_mod mod;
        enum tma_reduction op;
    } ops[] = {
        {PTX_M_ADD, TMA_ADD}, {PTX_M_MIN, TMA_MIN}, {PTX_M_MAX, TMA_MAX},
        {PTX_M_INC, TMA_INC}, {PTX_M_DEC, TMA_DEC}, {PTX_M_AND, TMA_AND},
        {PTX_M_OR, TMA_OR},   {PTX_M_XOR, TMA_XOR},
    };
    if (ptx_has(o->insn, PTX_M_MMIO))
        return decode_RED(d, o);
    if (!decode_async(d, o))
        return false;
    o->aux[AUX_REDUCES] = true;
    o->aux[AUX_TYPE] = o->type == PTX_T_S32   ? TMAP_S32
                       : o->type == PTX_T_U64 ? TMAP_U64
                                              : TMAP_U32;
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (ptx_has(o->insn, ops[i].mod)) {
            o->aux[AUX_REDUCTION] = ops[i].op;
            if (tma_can_reduce(ops[i].op, (enum tmap_type)o->aux[AUX_TYPE]))
                return true;
        }
    return decode_refuse(d, o, "there is no such reduction of this type");
}
