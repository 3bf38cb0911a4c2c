/* exec_tcgen05.c - tensor memory to registers and back.
 *
 * Loads and stores run at once: what asynchronous execution can do to a program that
 * waits correctly is nothing, and check 12 and 13 find those that do not. */
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/tcgen05.h"
#include "emu/tmem.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* Lane and column, relative to the address, of register r of thread t.  Shapes of PTX
 * ISA 9.0, "tcgen05 Data-movement shape". */
static void place(enum tc_shape shape, uint32_t split, uint32_t t, uint32_t r,
                  uint32_t *lane, uint32_t *col)
{
    switch (shape) {
    case TC_32X32B:
        *lane = t;
        *col = r;
        return;
    case TC_16X64B:
        *lane = t / 4 + 8 * (t % 2);
        *col = 2 * r + t / 2 % 2;
        return;
    case TC_16X128B:
        *lane = t / 4 + 8 * (r % 2);
        *col = 4 * (r / 2) + t % 4;
        return;
    case TC_16X256B:
        *lane = t / 4 + 8 * (r / 2 % 2);
        *col = 8 * (r / 4) + 2 * (t % 4) + r % 2;
        return;
    case TC_16X32BX2:
        *lane = t % 16;
        *col = t / 16 * split + r;
        return;
    }
}

/* What one ld or st touches. */
struct access {
    uint32_t lane, col; /* of the address, the lane with the warp's own quarter */
    uint32_t regs;      /* of a thread */
    uint32_t packed;    /* 2: a register holds the low halves of two columns; else 1 */
    enum tc_shape shape;
    uint32_t split;
    struct tmem_area areas[2];
    int area_count;
};

static uint32_t columns_of(const struct access *a)
{
    uint32_t cells = a->regs * a->packed;
    switch (a->shape) {
    case TC_16X64B:
    case TC_16X128B:
    case TC_16X256B:
        return cells * 2; /* 16 lanes of twice as many columns */
    case TC_32X32B:
    case TC_16X32BX2:
        break;
    }
    return cells;
}

/* The hardware takes the quarter from the warp and ignores the address's; one that is
 * neither 0 nor the warp's own is a misunderstanding (check 19). */
static bool get_access(struct warp *w, const struct op *op, const struct opnd *address,
                       uint32_t lanes, struct access *a)
{
    uint32_t at = (uint32_t)opnd_address(w, address, bits_lowest(lanes));
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t other = (uint32_t)opnd_address(w, address, bits_lowest(rest));
        if (other == at)
            continue;
        if (report(grid_of(w), w, CHECK_LANE_QUARTER,
                   "lane %d gives address 0x%08x, lane %d 0x%08x: all lanes must agree",
                   bits_lowest(lanes), at, bits_lowest(rest), other) == FLOW_STOP)
            return false;
        break;
    }
    uint32_t quarter = (uint32_t)w->index % 4, lane = at >> 16;
    if ((lane >= TMEM_LANES || (lane / 32 != 0 && lane / 32 != quarter)) &&
        report(grid_of(w), w, CHECK_LANE_QUARTER,
               "address 0x%08x names lane %u; warp %d reaches lanes %u to %u only", at,
               lane, w->index, quarter * 32, quarter * 32 + 31) == FLOW_STOP)
        return false;
    *a = (struct access){
        .lane = quarter * 32 + lane % 32,
        .col = at & 0xffff,
        .regs = op->aux[1],
        .packed = op->aux[2] ? 2 : 1,
        .shape = (enum tc_shape)op->aux[0],
        .split = op->aux[3],
    };
    uint32_t step = a->shape == TC_32X32B ? 32 : 16;
    if (lane % step != 0) {
        report(grid_of(w), w, CHECK_TMEM_OUTSIDE,
               "address 0x%08x names lane %u: this shape starts at multiples of %u", at,
               lane, step);
        return false;
    }
    uint32_t cols = columns_of(a);
    a->areas[0] = (struct tmem_area){w->cta, a->col, cols, 1u << quarter};
    a->area_count = 1;
    if (a->shape == TC_16X32BX2) {
        a->areas[1] =
            (struct tmem_area){w->cta, a->col + a->split, cols, 1u << quarter};
        a->area_count = 2;
    }
    for (int i = 0; i < a->area_count; i++)
        if (!tmem_owned(w, w->cta, a->areas[i].col, cols, "the access"))
            return false;
    return true;
}

static uint32_t *cell(struct warp *w, const struct access *a, uint32_t t, uint32_t r)
{
    uint32_t lane = 0, col = 0;
    place(a->shape, a->split, t, r, &lane, &col);
    return tmem_column(w->cta, a->col + col) + a->lane + lane;
}

enum flow tc_ld(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    if (!get_access(w, op, &op->opnds[1], lanes, &a))
        return FLOW_STOP;
    struct tmem_op *entry =
        tmem_log(tmem_state_if_any(w->cta), w, bits_lowest(lanes), TMEM_LD);
    for (int i = 0; i < a.area_count; i++)
        if (!tmem_reads(w, entry, a.areas[i], "tcgen05.ld"))
            return FLOW_STOP;
    for (uint32_t r = 0; r < a.regs; r++) {
        uint32_t *to = opnd_lanes(w, &op->opnds[0].items[r]);
        if (a.shape == TC_32X32B && a.packed == 1 && lanes == ALL_LANES) {
            memcpy(to, cell(w, &a, 0, r), 4 * WARP_LANES);
            continue;
        }
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            uint32_t t = (uint32_t)bits_lowest(rest);
            to[t] = a.packed == 1 ? *cell(w, &a, t, r)
                                  : (*cell(w, &a, t, 2 * r) & 0xffff) |
                                        *cell(w, &a, t, 2 * r + 1) << 16;
        }
    }
    if (w->hb)
        hb_load_issued(w, op->opnds[0].items, a.regs);
    return FLOW_NEXT;
}

enum flow tc_st(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    if (!get_access(w, op, &op->opnds[0], lanes, &a))
        return FLOW_STOP;
    struct tmem_op *entry =
        tmem_log(tmem_state_if_any(w->cta), w, bits_lowest(lanes), TMEM_ST);
    for (int i = 0; i < a.area_count; i++)
        if (!tmem_writes(w, entry, a.areas[i], "tcgen05.st"))
            return FLOW_STOP;
    const struct opnd *items = op->opnds[op->opnd_count - 1].items;
    for (uint32_t r = 0; r < a.regs; r++) {
        const uint32_t *from = opnd_lanes(w, &items[r]);
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            uint32_t t = (uint32_t)bits_lowest(rest);
            if (a.packed == 1) {
                *cell(w, &a, t, r) = from[t];
            } else {
                *cell(w, &a, t, 2 * r) = from[t] & 0xffff;
                *cell(w, &a, t, 2 * r + 1) = from[t] >> 16;
            }
        }
    }
    return FLOW_NEXT;
}

enum flow tc_wait(struct warp *w, const struct op *op, uint32_t lanes)
{
    tmem_waited(w, (enum tmem_kind)op->aux[0], lanes);
    if (w->hb && (enum tmem_kind)op->aux[0] == TMEM_LD)
        hb_loads_waited(w);
    return FLOW_NEXT;
}

/* Values do not need it, check 15 asks for it. */
enum flow tc_fence(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)lanes;
    tmem_fenced(w, ptx_has(op->insn, PTX_M_BEFORE_THREAD_SYNC));
    return FLOW_NEXT;
}
