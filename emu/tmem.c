/* tmem.c - state of tensor memory, the log of tcgen05 operations; checks 16 and 17. */
#include "emu/tmem.h"

#include <stdlib.h>

#include "emu/env.h"
#include "emu/hb.h"
#include "emu/report.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- state */

struct cta *tmem_peer(struct cta *c)
{
    uint32_t rank = c->rank ^ 1;
    return rank < (uint32_t)c->cluster->cta_count ? &c->cluster->ctas[rank] : NULL;
}

static struct tmem_state *make_state(struct cta *c)
{
    if (!c->pipe) {
        struct tmem_state *s = calloc(1, sizeof *s);
        char why[128];
        if (!s)
            abort();
        s->log = &s->own_log;
        /* env_read() has refused what this CPU cannot do. */
        if (!mma_isa_choose(env()->isa, &s->isa, why, sizeof why))
            s->isa = MMA_SCALAR;
        c->pipe = s;
    }
    return c->pipe;
}

struct tmem_state *tmem_state_if_any(struct cta *c)
{
    return c->pipe;
}

struct tmem_state *tmem_state(struct warp *w, int group)
{
    struct cta *c = w->cta;
    struct tmem_state *s = make_state(c);
    if (s->group == group)
        return s;
    if (s->group != 0 && s->group != group) {
        report(
            grid_of(w), w, CHECK_TMEM_LEAK,
            ".cta_group::%d after .cta_group::%d: all tcgen05 instructions of a kernel "
            "use one",
            group, s->group);
        return NULL;
    }
    if (group == 2) {
        struct cta *peer = tmem_peer(c);
        if (!peer) {
            report(grid_of(w), w, CHECK_OPERAND,
                   ".cta_group::2 needs a pair of CTAs, but the cluster has %d and "
                   "this is "
                   "CTA %u",
                   c->cluster->cta_count, c->rank);
            return NULL;
        }
        s->log = &make_state(c->rank & 1 ? peer : c)->own_log;
        make_state(peer)->log = s->log;
    }
    s->group = group;
    return s;
}

bool tmem_peer_lives(struct warp *w, int group)
{
    if (group == 1 || tmem_peer(w->cta)->live_warps > 0)
        return true;
    report(grid_of(w), w, CHECK_CTA_EXIT,
           ".cta_group::2, but CTA %u, the other half of the pair, has exited",
           tmem_peer(w->cta)->rank);
    return false;
}

void tcgen05_cta_free(struct cta *c)
{
    free(c->pipe);
    free(c->tmem);
    c->pipe = NULL;
    c->tmem = NULL;
}

/* Check 16: what was allocated must be freed. */
bool tcgen05_cta_end(struct warp *w, struct cta *c)
{
    if (c->tmem_alloc_count == 0)
        return true;
    report(grid_of(w), w, CHECK_TMEM_LEAK,
           "block (%u,%u,%u) exits with tensor memory columns %u to %u allocated",
           c->id[0], c->id[1], c->id[2], c->tmem_allocs[0].col,
           c->tmem_allocs[0].col + c->tmem_allocs[0].cols - 1);
    return false;
}

bool tmem_owned(struct warp *w, struct cta *c, uint32_t col, uint32_t cols,
                const char *what)
{
    for (int i = 0; i < c->tmem_alloc_count; i++) {
        const struct tmem_alloc *a = &c->tmem_allocs[i];
        if (col >= a->col && col + cols <= a->col + a->cols)
            return true;
    }
    report(grid_of(w), w, CHECK_TMEM_OUTSIDE,
           "%s: tensor memory columns %u to %u of CTA %u are not in one allocation",
           what, col, col + cols - 1, c->rank);
    for (int i = 0; i < c->tmem_alloc_count; i++)
        report_note(grid_of(w), "allocated: columns %u to %u", c->tmem_allocs[i].col,
                    c->tmem_allocs[i].col + c->tmem_allocs[i].cols - 1);
    return false;
}

/* ---- the log */

struct tmem_op *tmem_log(struct tmem_state *s, struct warp *w, int lane,
                         enum tmem_kind kind)
{
    struct tmem_log *log = s->log;
    log->issued++;
    struct tmem_op *op = &log->ops[log->issued % TMEM_LOG_OPS];
    *op = (struct tmem_op){
        .number = log->issued,
        .kind = (uint8_t)kind,
        .lane = (uint8_t)lane,
        .issuer = w,
        .pc = w->cur_pc,
    };
    return op;
}

struct tmem_op *tmem_find(struct tmem_log *log, uint32_t number)
{
    struct tmem_op *op = &log->ops[number % TMEM_LOG_OPS];
    return number != 0 && op->number == number ? op : NULL;
}

void tmem_waited(struct warp *w, enum tmem_kind kind, uint32_t lanes)
{
    struct tmem_state *s = w->cta->pipe;
    if (s && w->hb)
        hb_learn(w, lanes, hb_component(w, kind == TMEM_LD ? HB_LOADS : HB_STORES),
                 UINT32_MAX, s->log->issued);
}

void tmem_fenced(struct warp *w, bool before)
{
    struct tmem_state *s = w->cta->pipe;
    if (!w->hb)
        return;
    if (!before)
        w->hb->acquired = false;
    else if (s)
        w->hb->fenced_upto = s->log->issued;
}

void tmem_committed(struct warp *w)
{
    struct tmem_state *s = w->cta->pipe;
    s->committed[w->index] = s->log->issued;
}
