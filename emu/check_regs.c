/* check_regs.c - check 14 for tcgen05.ld: registers that it has still to fill.
 *
 * The load is asynchronous.  Reading a destination makes the hardware wait for it, as
 * production code relies on; writing one before tcgen05.wait::ld loses either value. */
#include "emu/hb.h"
#include "emu/report.h"

#include <stdlib.h>

#define SLOT_BYTES (4u * WARP_LANES) /* of a 32-bit register */

static uint8_t *busy_of(struct warp *w)
{
    struct hb_warp *h = w->hb;
    if (!h->busy) {
        const struct kernel *k = w->cta->cluster->grid->kernel;
        h->busy = calloc(k->reg_bytes / SLOT_BYTES + 1, 1);
        if (!h->busy)
            abort();
    }
    return h->busy;
}

void hb_load_issued(struct warp *w, const struct opnd *items, uint32_t count)
{
    uint8_t *busy = busy_of(w);
    for (uint32_t i = 0; i < count; i++)
        if (!items[i].is_sink)
            busy[items[i].slot / SLOT_BYTES] = 1;
    if (w->ld_pending < HB_LOADS_KEPT)
        w->hb->loads[w->ld_pending++] = w->cur_pc;
}

void hb_loads_waited(struct warp *w)
{
    const struct op *ops = w->cta->cluster->grid->kernel->ops;
    uint8_t *busy = busy_of(w);
    for (uint32_t i = 0; i < w->ld_pending; i++) {
        const struct opnd *to = &ops[w->hb->loads[i]].opnds[0];
        for (int k = 0; k < to->item_count; k++)
            busy[to->items[k].slot / SLOT_BYTES] = 0;
    }
    w->ld_pending = 0;
}

/* Registers in front of which no result goes. */
static bool has_result(const struct op *op)
{
    switch (op->insn->op) {
    case PTX_BAR:
    case PTX_BARRIER:
        return ptx_has(op->insn, PTX_M_RED);
    case PTX_BRX_IDX:
    case PTX_CALL:
    case PTX_NANOSLEEP:
    case PTX_SETMAXNREG:
    case PTX_TCGEN05_DEALLOC:
        return false;
    default:
        return op->opnd_count > 0;
    }
}

static bool is_busy(const struct warp *w, const struct opnd *o)
{
    if (o->kind == PTX_OPND_VECTOR || o->kind == PTX_OPND_PAIR) {
        for (int i = 0; i < o->item_count; i++)
            if (is_busy(w, &o->items[i]))
                return true;
        return false;
    }
    if (o->kind != PTX_OPND_REG || o->is_const || o->is_sink || o->bits == 1)
        return false;
    for (uint32_t at = 0; at < (o->bits > 32 ? o->bits / 32u : 1); at++)
        if (w->hb->busy[o->slot / SLOT_BYTES + at])
            return true;
    return false;
}

bool hb_check_registers(struct warp *w, const struct op *op)
{
    if (!has_result(op) || !is_busy(w, &op->opnds[0]))
        return true;
    struct grid *g = w->cta->cluster->grid;
    enum flow f = report(g, w, CHECK_LD_REGISTER,
                         "%s writes a register that a tcgen05.ld has still to fill",
                         op->insn->opcode);
    for (uint32_t i = 0; i < w->ld_pending; i++)
        report_party(g, "not waited for:", w, w->hb->loads[i], 0);
    return f == FLOW_NEXT;
}
