#include "emu/cluster.h"
#include "emu/choice.h"
#include "emu/coverage.h"
#include "emu/timeline.h"

#include <stdlib.h>

#include "emu/hb.h"
#include "emu/launch_control.h"
#include "emu/must.h"

static void *aligned(size_t bytes)
{
    size_t unit = 128;
    bytes = (bytes + unit - 1) / unit * unit;
    return must(aligned_alloc(unit, bytes ? bytes : unit));
}

static uint32_t cta_threads(const struct grid *g)
{
    return g->block[0] * g->block[1] * g->block[2];
}

static uint32_t cta_smem_bytes(const struct grid *g)
{
    const struct kernel *k = g->kernel;
    if (g->dyn_smem_bytes == 0)
        return SMEM_RESERVED_BYTES + k->static_smem_bytes;
    return kernel_dyn_smem_offset(k) + g->dyn_smem_bytes;
}

static void warp_new(struct cta *c, int index)
{
    const struct kernel *k = c->cluster->grid->kernel;
    struct warp *w = &c->warps[index];
    w->cta = c;
    w->index = index;
    w->regs = aligned(k->reg_bytes);
    if (k->local_bytes)
        w->local = aligned((size_t)k->local_bytes * WARP_LANES);
    if (k->call_bytes)
        w->call = aligned((size_t)k->call_bytes * WARP_LANES);
}

struct cluster *cluster_new(struct grid *g)
{
    struct cluster *c = must(calloc(1, sizeof *c));
    c->grid = g;
    memcpy(c->shape, g->cluster, sizeof c->shape);
    c->cta_count = (int)(g->cluster[0] * g->cluster[1] * g->cluster[2]);
    c->ctas = must(calloc((size_t)c->cta_count, sizeof *c->ctas));
    c->async_tail = &c->async_first;
    for (int i = 0; i < c->cta_count; i++) {
        struct cta *t = &c->ctas[i];
        t->cluster = c;
        t->rank = (uint32_t)i;
        t->smem_bytes = cta_smem_bytes(g);
        t->smem = aligned(t->smem_bytes);
        t->dyn_smem_offset = kernel_dyn_smem_offset(g->kernel);
        t->warp_count = (int)((cta_threads(g) + WARP_LANES - 1) / WARP_LANES);
        t->warps = must(calloc((size_t)t->warp_count, sizeof *t->warps));
        for (int i_warp = 0; i_warp < t->warp_count; i_warp++)
            warp_new(t, i_warp);
    }
    hb_cluster_new(c);
    return c;
}

static void release_cta(struct cta *t)
{
    tma_cta_free(t);
    tcgen05_cta_free(t);
    cpasync_free(t);
    answers_reset(t);
    registers_free(t);
    tmap_views_free(t);
    wgmma_free(t);
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->cta_count; i++) {
        struct cta *t = &c->ctas[i];
        release_cta(t);
        mbars_free(t);
        for (int k = 0; k < t->warp_count; k++) {
            spin_free(&t->warps[k]);
            free(t->warps[k].regs);
            free(t->warps[k].local);
            free(t->warps[k].call);
        }
        free(t->warps);
        free(t->smem);
    }
    barriers_free(c);
    circle_free(c);
    choices_free(c);
    coverage_free(c->coverage);
    timeline_free(c);
    async_free(c);
    hb_cluster_free(c);
    free(c->ctas);
    free(c);
}

/* ---- special registers that do not change while a warp runs */

struct place {
    const struct warp *w;
    const struct cta *c;
    const struct cluster *k;
    const struct grid *g;
};

static uint32_t cluster_of_grid(const struct grid *g, int axis)
{
    return g->dim[axis] / g->cluster[axis];
}

static uint32_t tid(const struct place *p, int lane, int axis)
{
    const uint32_t *b = p->g->block;
    uint32_t t = (uint32_t)(p->w->index * WARP_LANES + lane);
    return axis == 0 ? t % b[0] : axis == 1 ? t / b[0] % b[1] : t / b[0] / b[1];
}

static uint32_t cta_in_cluster(const struct place *p, int axis)
{
    return p->c->id[axis] % p->k->shape[axis];
}

static uint32_t cta_linear(const struct place *p)
{
    const uint32_t *id = p->c->id, *d = p->g->dim;
    return (id[2] * d[1] + id[1]) * d[0] + id[0];
}

uint64_t cluster_total(const struct grid *g)
{
    return (uint64_t)cluster_of_grid(g, 0) * cluster_of_grid(g, 1) *
           cluster_of_grid(g, 2);
}

static uint64_t sreg_value(const struct place *p, int sreg, int lane)
{
    uint32_t bit = (uint32_t)1 << lane;
    uint32_t sms = p->g->sm_count > 0 ? (uint32_t)p->g->sm_count : 148;
    switch (sreg) {
    case PTX_S_TID_X:
    case PTX_S_TID_Y:
    case PTX_S_TID_Z:
        return tid(p, lane, sreg - PTX_S_TID_X);
    case PTX_S_NTID_X:
    case PTX_S_NTID_Y:
    case PTX_S_NTID_Z:
        return p->g->block[sreg - PTX_S_NTID_X];
    case PTX_S_CTAID_X:
    case PTX_S_CTAID_Y:
    case PTX_S_CTAID_Z:
        return p->c->id[sreg - PTX_S_CTAID_X];
    case PTX_S_NCTAID_X:
    case PTX_S_NCTAID_Y:
    case PTX_S_NCTAID_Z:
        return p->g->dim[sreg - PTX_S_NCTAID_X];
    case PTX_S_CLUSTERID_X:
    case PTX_S_CLUSTERID_Y:
    case PTX_S_CLUSTERID_Z:
        return p->k->id[sreg - PTX_S_CLUSTERID_X];
    case PTX_S_NCLUSTERID_X:
    case PTX_S_NCLUSTERID_Y:
    case PTX_S_NCLUSTERID_Z:
        return cluster_of_grid(p->g, sreg - PTX_S_NCLUSTERID_X);
    case PTX_S_CLUSTER_CTAID_X:
    case PTX_S_CLUSTER_CTAID_Y:
    case PTX_S_CLUSTER_CTAID_Z:
        return cta_in_cluster(p, sreg - PTX_S_CLUSTER_CTAID_X);
    case PTX_S_CLUSTER_NCTAID_X:
    case PTX_S_CLUSTER_NCTAID_Y:
    case PTX_S_CLUSTER_NCTAID_Z:
        return p->k->shape[sreg - PTX_S_CLUSTER_NCTAID_X];
    case PTX_S_LANEID:
        return (uint32_t)lane;
    case PTX_S_WARPID:
        return (uint32_t)p->w->index;
    case PTX_S_NWARPID:
        return (uint32_t)p->c->warp_count;
    case PTX_S_SMID:
        return cta_linear(p) % sms;
    case PTX_S_NSMID:
        return sms;
    case PTX_S_CLUSTER_CTARANK:
        return p->c->rank;
    case PTX_S_CLUSTER_NCTARANK:
        return (uint32_t)p->k->cta_count;
    case PTX_S_LANEMASK_EQ:
        return bit;
    case PTX_S_LANEMASK_LE:
        return bit | (bit - 1);
    case PTX_S_LANEMASK_LT:
        return bit - 1;
    case PTX_S_LANEMASK_GE:
        return (uint32_t) ~(bit - 1);
    case PTX_S_LANEMASK_GT:
        return (uint32_t) ~(bit | (bit - 1));
    case PTX_S_TOTAL_SMEM_SIZE:
    case PTX_S_AGGR_SMEM_SIZE:
        return p->c->smem_bytes;
    case PTX_S_DYNAMIC_SMEM_SIZE:
        return p->g->dyn_smem_bytes;
    case PTX_S_RESERVED_SMEM_OFFSET_END:
    case PTX_S_RESERVED_SMEM_OFFSET_CAP:
        return SMEM_RESERVED_BYTES;
    case PTX_S_ENVREG1:
        return p->g->workspace >> 32;
    case PTX_S_ENVREG2:
        return (uint32_t)p->g->workspace;
    case PTX_S_GRIDID:
        return p->g->id;
    default:
        return 0; /* environment and performance registers, as on an idle device */
    }
}

static void fill_sregs(struct warp *w)
{
    const struct place p = {w, w->cta, w->cta->cluster, w->cta->cluster->grid};
    const struct kernel *k = p.g->kernel;
    for (int i = 0; i < k->sreg_count; i++) {
        const struct sreg_slot *s = &k->sregs[i];
        uint8_t *slot = w->regs + s->slot;
        if (s->sreg == PTX_S_IS_EXPLICIT_CLUSTER) {
            bool yes = k->func->explicit_cluster || p.k->cta_count > 1;
            uint32_t mask = yes ? ALL_LANES : 0;
            memcpy(slot, &mask, sizeof mask);
            continue;
        }
        for (int lane = 0; lane < WARP_LANES; lane++) {
            uint64_t wide = sreg_value(&p, s->sreg, lane);
            uint32_t narrow = (uint32_t)wide;
            if (s->is_wide)
                memcpy(slot + lane * 8, &wide, sizeof wide);
            else
                memcpy(slot + lane * 4, &narrow, sizeof narrow);
        }
    }
}

/* ---- a fresh cluster */

static void reset_warp(struct warp *w)
{
    struct cta *c = w->cta;
    const struct kernel *k = c->cluster->grid->kernel;
    uint32_t first = (uint32_t)w->index * WARP_LANES;
    uint32_t count = cta_threads(c->cluster->grid) - first;
    /* Registers start undefined; the same undefined each time, so that runs repeat. */
    memset(w->regs, 0xff, k->reg_bytes);
    if (k->local_bytes)
        memset(w->local, 0xff, (size_t)k->local_bytes * WARP_LANES);
    if (k->call_bytes)
        memset(w->call, 0, (size_t)k->call_bytes * WARP_LANES);
    for (int i = 0; i < WARP_LANES; i++)
        w->pc[i] = k->start_pc;
    w->live = count >= WARP_LANES ? ALL_LANES : ((uint32_t)1 << count) - 1;
    w->parked = w->yielded = w->event_lanes = w->time_lanes = w->lane_waits = 0;
    w->expired = 0;
    w->false_mbar = NULL;
    w->has_expired = w->read_clock = false;
    w->cur_pc = w->cur_lanes = 0;
    memset(w->waits, 0, sizeof w->waits);
    w->steps = 0;
    w->visible = w->asked = w->issued = 0;
    w->is_starved = w->has_left = false;
    w->polled_mbar = NULL;
    w->polled_lanes = 0;
    w->loop_count = 0;
    w->last_loop = UINT32_MAX;
    w->polled = w->spinning = false;
    w->seen_events = w->seen_global_events = UINT64_MAX;
    w->hit = NULL;
    w->carry = w->ld_pending = w->syncs = 0;
    w->dependency_seen = false;
    spin_reset(w);
    fill_sregs(w);
}

static void reset_cta(struct cta *t)
{
    const struct cluster *c = t->cluster;
    uint32_t r = t->rank;
    t->id[0] = c->id[0] * c->shape[0] + r % c->shape[0];
    t->id[1] = c->id[1] * c->shape[1] + r / c->shape[0] % c->shape[1];
    t->id[2] = c->id[2] * c->shape[2] + r / c->shape[0] / c->shape[1];
    release_cta(t);
    memset(t->smem, SMEM_POISON, t->smem_bytes);
    memset(t->tmem_allocs, 0, sizeof t->tmem_allocs);
    t->tmem = NULL;
    t->tmem_alloc_count = 0;
    t->tmem_relinquished = false;
    t->live_warps = t->warp_count;
    mbars_reset(t);
    for (int i = 0; i < t->warp_count; i++)
        reset_warp(&t->warps[i]);
}

/* SplitMix64: streams of neighbouring clusters do not resemble each other. */
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void cluster_reset(struct cluster *c, uint64_t number)
{
    const struct grid *g = c->grid;
    c->number = number;
    c->number_step = g->first_clusters ? g->first_clusters : cluster_total(g);
    c->next_number = number + c->number_step;
    c->requests = 0;
    c->dependency_waited = false;
    c->id[0] = (uint32_t)(number % cluster_of_grid(g, 0));
    number /= cluster_of_grid(g, 0);
    c->id[1] = (uint32_t)(number % cluster_of_grid(g, 1));
    c->id[2] = (uint32_t)(number / cluster_of_grid(g, 1));
    async_forget(c);
    c->async_count = 0;
    c->rng = scramble(g->seed ^ scramble(c->number));
    c->delay_count = 0;
    choices_reset(c);
    coverage_reset(c);
    timeline_reset(c);
    c->events = 0;
    c->clock = 0;
    c->steps = c->quiet_steps = c->quiet_since = c->meetings = c->polls = 0;
    c->held_since = c->haste = 0;
    circle_reset(c);
    c->wrote_global = false;
    c->next = NULL;
    c->live_ctas = c->cta_count;
    barriers_reset(c);
    for (int i = 0; i < c->cta_count; i++)
        reset_cta(&c->ctas[i]);
    hb_cluster_reset(c);
}
