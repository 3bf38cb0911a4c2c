/* tmem_alloc.c - tcgen05.alloc, dealloc and relinquish_alloc_permit (checks 16 and 18).
 *
 * Each CTA has 512 columns of its own; that CTAs of one SM compete for them is not
 * modelled.  Fresh columns hold a pattern that is NaN as a scale. */
#include <stdlib.h>

#include "emu/hb.h"
#include "emu/report.h"
#include "emu/tmem.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

static bool is_free(const struct cta *c, uint32_t col, uint32_t cols)
{
    for (int i = 0; i < c->tmem_alloc_count; i++) {
        const struct tmem_alloc *a = &c->tmem_allocs[i];
        if (col < a->col + a->cols && col + cols > a->col)
            return false;
    }
    return true;
}

/* Lowest place that is free, in `peer` as well when there is one; TMEM_COLS: none. */
static uint32_t find_free(const struct cta *c, const struct cta *peer, uint32_t cols)
{
    uint32_t col = 0;
    while (col + cols <= TMEM_COLS &&
           !(is_free(c, col, cols) && (!peer || is_free(peer, col, cols))))
        col += 32;
    return col + cols <= TMEM_COLS ? col : TMEM_COLS;
}

static void take(struct cta *c, uint32_t col, uint32_t cols)
{
    struct tmem_state *s = tmem_state_if_any(c);
    if (!c->tmem) {
        c->tmem = aligned_alloc(64, sizeof(uint32_t) * TMEM_COLS * TMEM_LANES);
        if (!c->tmem)
            abort();
    }
    memset(tmem_column(c, col), SMEM_POISON, sizeof(uint32_t) * cols * TMEM_LANES);
    for (int q = 0; q < TMEM_QUARTERS; q++) {
        memset(&s->writer[q][col], 0, cols * sizeof s->writer[q][0]);
        memset(&s->reader[q][col], 0, cols * sizeof s->reader[q][0]);
    }
    c->tmem_allocs[c->tmem_alloc_count++] = (struct tmem_alloc){col, cols};
    s->last_alloc_cols = cols;
}

static bool check_request(struct warp *w, struct tmem_state *s, uint32_t cols)
{
    const struct cta *c = w->cta;
    if (cols < 32 || cols > TMEM_COLS || (cols & (cols - 1)) != 0)
        report(grid_of(w), w, CHECK_OPERAND,
               "%u columns: 32, 64, 128, 256 or 512 can be allocated", cols);
    else if (c->tmem_relinquished)
        report(grid_of(w), w, CHECK_TMEM_LEAK,
               "the CTA has given up its permit to allocate tensor memory");
    else if (s->last_alloc_cols != 0 && cols > s->last_alloc_cols)
        report(
            grid_of(w), w, CHECK_TMEM_LEAK,
            "%u columns after an allocation of %u: allocations of a CTA must not grow",
            cols, s->last_alloc_cols);
    else
        return true;
    return false;
}

/* Check 26: these take the operands of the whole warp as one. */
static bool check_uniform(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (int i = 0; i < op->opnd_count; i++)
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            const struct opnd *o = &op->opnds[i];
            bool is_address = o->kind == PTX_OPND_ADDR || o->kind == PTX_OPND_VAR;
            int first = bits_lowest(lanes), lane = bits_lowest(rest);
            if (is_address ? opnd_address(w, o, lane) == opnd_address(w, o, first)
                           : opnd_u64(w, o, lane) == opnd_u64(w, o, first))
                continue;
            report(grid_of(w), w, CHECK_DIVERGENCE,
                   "operand %d must be the same in all lanes; lanes %d and %d differ",
                   i + 1, first, lane);
            return false;
        }
    return true;
}

/* A pair gets the same columns in both CTAs, once one warp of each has asked. */
static enum flow grant_pair(struct warp *w, uint32_t lanes, struct tmem_state *s,
                            uint32_t cols)
{
    struct cta *c = w->cta, *peer = tmem_peer(c);
    struct tmem_state *other = tmem_state_if_any(peer);
    s->asked_cols = cols;
    if (other->asked_cols == 0)
        return park(w, lanes, "the peer CTA to allocate tensor memory too");
    if (other->asked_cols != cols)
        return report(grid_of(w), w, CHECK_TMEM_LEAK,
                      "%u columns, but the other CTA of the pair asks for %u", cols,
                      other->asked_cols);
    uint32_t col = find_free(c, peer, cols);
    if (col == TMEM_COLS)
        return park(w, lanes, "free tensor memory columns in both CTAs");
    take(c, col, cols);
    take(peer, col, cols);
    s->asked_cols = other->asked_cols = 0;
    s->granted = other->granted = true;
    s->granted_col = other->granted_col = col;
    cluster_event(c->cluster);
    return FLOW_NEXT;
}

/* Where the address goes, an ordinary store: aux[1] says that it is .shared::cta, else
 * a generic address. */
static uint8_t *result_word(struct warp *w, const struct op *op, int lane)
{
    uint64_t address = opnd_address(w, &op->opnds[0], lane);
    if (!op->aux[1] && address - SHARED_WINDOW >= WINDOW_BYTES)
        return generic_at(w, address, 4, true, lane, "tcgen05.alloc");
    struct cta *owner;
    uint32_t offset;
    uint8_t *word = shared_at(w, (uint32_t)address, 4, false, &owner, &offset);
    if (!word ||
        (w->hb && !hb_smem_range(w, owner, offset, offset + 4, lane, HB_WRITE)))
        return NULL;
    return word;
}

enum flow tmem_alloc(struct warp *w, const struct op *op, uint32_t lanes)
{
    int lane = bits_lowest(lanes);
    struct cta *c = w->cta;
    struct tmem_state *s = tmem_state(w, (int)op->aux[0]);
    uint32_t cols = opnd_u32(w, &op->opnds[1], lane), col;
    if (!check_uniform(w, op, lanes))
        return FLOW_STOP;
    if (!s || (!s->granted &&
               (!tmem_peer_lives(w, (int)op->aux[0]) || !check_request(w, s, cols))))
        return FLOW_STOP;
    if (op->aux[0] == 2) {
        if (!s->granted) {
            enum flow f = grant_pair(w, lanes, s, cols);
            if (f != FLOW_NEXT)
                return f;
        }
        s->granted = false;
        col = s->granted_col;
    } else {
        col = find_free(c, NULL, cols);
        if (col == TMEM_COLS)
            return park(w, lanes, "free tensor memory columns");
        take(c, col, cols);
    }
    uint8_t *word = result_word(w, op, lane);
    if (!word)
        return FLOW_STOP;
    memcpy(word, &col, 4);
    cluster_event(c->cluster);
    /* The manual's examples load the address right behind. */
    if (w->hb)
        hb_sync(w, lanes, true);
    return FLOW_NEXT;
}

enum flow tmem_dealloc(struct warp *w, const struct op *op, uint32_t lanes)
{
    int lane = bits_lowest(lanes);
    struct cta *c = w->cta;
    uint32_t address = opnd_u32(w, &op->opnds[0], lane);
    uint32_t cols = opnd_u32(w, &op->opnds[1], lane);
    if (!check_uniform(w, op, lanes))
        return FLOW_STOP;
    if (!tmem_state(w, (int)op->aux[0]))
        return FLOW_STOP;
    for (int i = 0; i < c->tmem_alloc_count; i++) {
        const struct tmem_alloc *a = &c->tmem_allocs[i];
        if (a->col != address || a->cols != cols)
            continue;
        if (!tmem_idle(w, (struct tmem_area){c, address, cols, 15}))
            return FLOW_STOP;
        c->tmem_allocs[i] = c->tmem_allocs[--c->tmem_alloc_count];
        cluster_event(c->cluster);
        return FLOW_NEXT;
    }
    report(grid_of(w), w, CHECK_TMEM_LEAK,
           "address 0x%08x, %u columns: that is no allocation of this CTA", address,
           cols);
    for (int i = 0; i < c->tmem_alloc_count; i++)
        report_note(grid_of(w), "allocated: address 0x%08x, %u columns",
                    c->tmem_allocs[i].col, c->tmem_allocs[i].cols);
    return FLOW_STOP;
}

enum flow tmem_relinquish(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)lanes;
    if (!tmem_state(w, (int)op->aux[0]))
        return FLOW_STOP;
    w->cta->tmem_relinquished = true;
    return FLOW_NEXT;
}
