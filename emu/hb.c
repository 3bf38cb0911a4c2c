#include "emu/hb.h"

#include <stdlib.h>

#include "emu/report.h"
#include "emu/must.h"

/* ---- what instructions mean */

static enum hb_scope scope_of(const struct ptx_insn *i)
{
    return ptx_has(i, PTX_M_SYS)       ? HB_SCOPE_SYS
           : ptx_has(i, PTX_M_GPU)     ? HB_SCOPE_GPU
           : ptx_has(i, PTX_M_CLUSTER) ? HB_SCOPE_CLUSTER
                                       : HB_SCOPE_CTA;
}

static struct hb_meaning meaning_of(const struct ptx_insn *i)
{
    struct hb_meaning m = {.relaxed = ptx_has(i, PTX_M_RELAXED),
                           .constant = ptx_has(i, PTX_M_NC),
                           .scope = (uint8_t)scope_of(i)};
    bool acquire = ptx_has(i, PTX_M_ACQUIRE), release = ptx_has(i, PTX_M_RELEASE);
    bool both = ptx_has(i, PTX_M_ACQ_REL) || ptx_has(i, PTX_M_SC);
    switch (i->op) {
    case PTX_ATOM:
    case PTX_RED:
        m.strong = true;
        m.acquires = (acquire || both) && i->op == PTX_ATOM;
        m.releases = release || both;
        if (!ptx_has(i, PTX_M_CTA) && m.scope == HB_SCOPE_CTA)
            m.scope = HB_SCOPE_GPU;
        break;
    case PTX_MEMBAR:
        m.acquires = m.releases = true;
        m.scope = ptx_has(i, PTX_M_SYS)  ? HB_SCOPE_SYS
                  : ptx_has(i, PTX_M_GL) ? HB_SCOPE_GPU
                                         : HB_SCOPE_CTA;
        break;
    case PTX_FENCE:
        m.acquires = acquire || both;
        m.releases = release || both;
        break;
    case PTX_FENCE_PROXY: /* of the tensormap proxy: no thread synchronises by them */
    case PTX_TENSORMAP_CP_FENCEPROXY:
        break;
    default:
        m.strong = acquire || release || m.relaxed || ptx_has(i, PTX_M_VOLATILE) ||
                   ptx_has(i, PTX_M_MMIO);
        m.acquires = acquire;
        m.releases = release;
        if (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_MMIO))
            m.scope = HB_SCOPE_SYS;
        break;
    }
    return m;
}

void hb_grid_begin(struct grid *g)
{
    g->hb = NULL;
    if (g->no_checks)
        return;
    const struct kernel *k = g->kernel;
    struct hb_grid *h = must(calloc(1, sizeof *h));
    h->meaning = must(calloc(k->op_count + 1, sizeof *h->meaning));
    for (uint32_t i = 0; i < k->op_count; i++)
        if (k->ops[i].insn)
            h->meaning[i] = meaning_of(k->ops[i].insn);
    h->strict = g->checks && g->checks->pedantic;
    h->scopes = report_wants(g, CHECK_SCOPE);
    h->memory = hb_memory_new();
    h->maps = must(calloc(g->param_bytes / 64 + 1, sizeof *h->maps));
    g->hb = h;
}

void hb_map_used(struct grid *g, uint64_t address)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)g->params;
    if (offset < g->param_bytes)
        g->hb->maps[offset / 64] = 1;
}

/* Check 41: parameters that look like tensor maps and are not used. */
static void remark_maps(struct grid *g)
{
    const struct ptx_func *f = g->kernel->func;
    for (int i = 0; i < f->param_count; i++) {
        const struct ptx_var *p = f->params[i];
        if (p->bytes == 128 && p->align_bytes >= 64 && p->offset_bytes % 64 == 0 &&
            report_check(g->report) == CHECK_NONE && !g->hb->maps[p->offset_bytes / 64])
            report(g, NULL, CHECK_LOST_TAIL,
                   "parameter %s looks like a tensor map, and no copy has used it",
                   p->name);
    }
}

void hb_grid_undo(struct grid *g)
{
    hb_memory_undo(g->hb->memory);
    hb_memory_free(g->hb->memory);
    g->hb->memory = hb_memory_new();
    memset(g->hb->maps, 0, g->param_bytes / 64 + 1);
}

void hb_grid_end(struct grid *g)
{
    if (!g->hb)
        return;
    remark_maps(g);
    hb_memory_free(g->hb->memory);
    free(g->hb->maps);
    free(g->hb->meaning);
    free(g->hb);
    g->hb = NULL;
}

/* ---- components */

uint32_t hb_component_new(struct hb *h, enum hb_kind kind, struct warp *w,
                          const struct mbar *m)
{
    if (h->component_count == h->component_cap) {
        h->component_cap = h->component_cap ? h->component_cap * 2 : 64;
        h->components =
            must(realloc(h->components, h->component_cap * sizeof *h->components));
    }
    h->components[h->component_count] = (struct hb_component){kind, w, m};
    return h->component_count++;
}

uint32_t hb_component(struct warp *w, enum hb_kind kind)
{
    uint32_t *c = &w->hb->component[kind];
    if (*c == 0 && kind != HB_WARP)
        *c = hb_component_new(w->cta->cluster->hb, kind, w, NULL);
    return *c;
}

/* ---- views */

void hb_view_clear(struct hb_view *v)
{
    hb_know_clear(&v->know);
    if (v->more) {
        for (int i = 0; i < HB_REACHES; i++)
            hb_know_clear(&v->fenced[i]);
        for (int i = 0; i < HB_PENDS; i++)
            hb_know_clear(&v->pending[i]);
        hb_know_clear(&v->narrow);
    }
    v->more = false;
    v->lanes = 0;
}

void hb_view_free(struct hb_view *v)
{
    hb_know_free(&v->know);
    for (int i = 0; i < HB_REACHES; i++)
        hb_know_free(&v->fenced[i]);
    for (int i = 0; i < HB_PENDS; i++)
        hb_know_free(&v->pending[i]);
    hb_know_free(&v->narrow);
}

void hb_view_join(struct hb_view *v, const struct hb_view *other)
{
    hb_know_join(&v->know, &other->know);
    if (!other->more)
        return;
    for (int i = 0; i < HB_REACHES; i++)
        hb_know_join(&v->fenced[i], &other->fenced[i]);
    for (int i = 0; i < HB_PENDS; i++)
        hb_know_join(&v->pending[i], &other->pending[i]);
    hb_know_join(&v->narrow, &other->narrow);
    if (!hb_know_is_empty(&other->narrow) ||
        !hb_know_is_empty(&other->pending[HB_PEND_NARROW]))
        v->narrow_pc = other->narrow_pc;
    v->more = true;
}

static struct hb_view *view_new(struct hb_warp *h, uint32_t lanes)
{
    if (h->some_count == h->some_cap) {
        int cap = h->some_cap ? h->some_cap * 2 : 4;
        h->some = must(realloc(h->some, (size_t)cap * sizeof *h->some));
        for (int i = h->some_cap; i < cap; i++)
            h->some[i] = (struct hb_view){0};
        h->some_cap = cap;
    }
    struct hb_view *v = &h->some[h->some_count++];
    hb_view_clear(v);
    v->lanes = lanes;
    h->some_lanes |= lanes;
    return v;
}

/* Views that the lanes share with others are divided first. */
void hb_each_view(struct hb_warp *h, uint32_t lanes, hb_view_fn *fn, void *arg)
{
    uint32_t rest = lanes;
    for (int i = 0, count = h->some_count; i < count; i++) {
        uint32_t common = h->some[i].lanes & lanes;
        if (!common)
            continue;
        rest &= ~common;
        if (common != h->some[i].lanes) {
            struct hb_view *part = view_new(h, h->some[i].lanes & ~common);
            hb_view_join(part, &h->some[i]);
            h->some[i].lanes = common;
        }
        fn(&h->some[i], arg);
    }
    if (rest)
        fn(view_new(h, rest), arg);
}

struct hb_eye hb_eye(const struct warp *w, uint32_t lane)
{
    const struct hb_warp *h = w->hb;
    struct hb_eye e = {h, lane, &h->all.know, NULL};
    if (h->some_lanes >> lane & 1)
        for (int i = 0; i < h->some_count; i++)
            if (h->some[i].lanes >> lane & 1)
                e.some = &h->some[i].know;
    return e;
}

/* ---- the lanes of a warp */

void hb_sync(struct warp *w, uint32_t lanes, bool orders)
{
    struct hb_warp *h = w->hb;
    if (!orders && w->cta->cluster->grid->hb->strict)
        return;
    if (h->synced && h->some_count == 0 && h->published)
        return; /* nothing has happened since the last one */
    uint32_t own = h->component[HB_WARP], now = h->time;
    if (hb_are_all(w, lanes)) {
        for (int i = 0; i < h->some_count; i++)
            hb_view_join(&h->all, &h->some[i]);
        h->some_count = 0;
        h->some_lanes = 0;
        hb_clock_add(&h->all.know.of[HB_PLAIN], own, lanes | h->absent, now);
        hb_fences_met(w, lanes, &h->all);
        h->synced = true;
    } else {
        /* What these lanes know now, they all know. */
        struct hb_view sum = {0};
        for (int i = 0; i < h->some_count; i++)
            if (h->some[i].lanes & lanes)
                hb_view_join(&sum, &h->some[i]);
        hb_clock_add(&sum.know.of[HB_PLAIN], own, lanes, now);
        hb_fences_met(w, lanes, &sum);
        int kept = 0;
        h->some_lanes = 0;
        for (int i = 0; i < h->some_count; i++) {
            struct hb_view v = h->some[i];
            v.lanes &= ~lanes;
            if (v.lanes) {
                h->some[i] = h->some[kept];
                h->some[kept++] = v;
                h->some_lanes |= v.lanes;
            }
        }
        h->some_count = kept;
        hb_view_join(view_new(h, lanes), &sum);
        hb_view_free(&sum);
        h->synced = false;
    }
    h->published = true;
}

/* ---- release and acquire */

void hb_release(struct warp *w, uint32_t lanes, struct hb_know *into)
{
    struct hb_warp *h = w->hb;
    hb_know_join(into, &h->all.know);
    if (h->some_lanes & lanes)
        for (int i = 0; i < h->some_count; i++)
            if (h->some[i].lanes & lanes)
                hb_know_join(into, &h->some[i].know);
    hb_clock_add(&into->of[HB_PLAIN], h->component[HB_WARP], lanes | h->absent,
                 h->time);
    h->published = true;
    h->synced = false;
}

static void acquire_view(struct hb_view *v, void *arg)
{
    hb_know_join(&v->know, arg);
}

void hb_acquire(struct warp *w, uint32_t lanes, const struct hb_know *from)
{
    struct hb_warp *h = w->hb;
    union {
        const struct hb_know *in;
        void *arg;
    } u = {.in = from};
    if (hb_know_is_empty(from))
        return;
    h->acquired = true;
    if (hb_are_all(w, lanes))
        hb_know_join(&h->all.know, from);
    else
        hb_each_view(h, lanes, acquire_view, u.arg);
}

struct learning {
    uint32_t component, lanes, time;
    bool plain_only;
};

static void learn_view(struct hb_view *v, void *arg)
{
    const struct learning *l = arg;
    if (l->plain_only)
        hb_clock_add(&v->know.of[HB_PLAIN], l->component, l->lanes, l->time);
    else
        hb_know_add(&v->know, l->component, l->lanes, l->time);
}

static void learn(struct warp *w, uint32_t lanes, struct learning l)
{
    if (hb_are_all(w, lanes))
        learn_view(&w->hb->all, &l);
    else
        hb_each_view(w->hb, lanes, learn_view, &l);
}

void hb_learn(struct warp *w, uint32_t lanes, uint32_t component, uint32_t of_lanes,
              uint32_t time)
{
    learn(w, lanes, (struct learning){component, of_lanes, time, false});
}

void hb_learn_plain(struct warp *w, uint32_t lanes, uint32_t component,
                    uint32_t of_lanes, uint32_t time)
{
    learn(w, lanes, (struct learning){component, of_lanes, time, true});
}

/* ---- clusters */

static void warp_reset(struct hb_warp *h, struct warp *w, uint32_t component)
{
    for (int i = 0; i < h->some_count; i++)
        hb_view_clear(&h->some[i]);
    hb_view_clear(&h->all);
    memset(h->component, 0, sizeof h->component);
    h->component[HB_WARP] = component;
    h->warp = w;
    h->time = 1;
    h->published = h->synced = false;
    h->absent = ~w->live;
    h->some_count = 0;
    h->some_lanes = 0;
    memset(h->fenced_lanes, 0, sizeof h->fenced_lanes);
    memset(h->bulk, 0, sizeof h->bulk);
    memset(h->copies, 0, sizeof h->copies);
    h->fenced_upto = 0;
    h->acts = 0;
    h->acquired = false;
    w->ld_pending = 0;
    if (h->busy)
        memset(h->busy, 0, w->cta->cluster->grid->kernel->reg_bytes / 128 + 1);
    hb_fresh_reset(h, w);
    hb_fragments_reset(h, w);
    w->hb = h;
}

void hb_cluster_new(struct cluster *c)
{
    if (!c->grid->hb)
        return;
    struct hb *h = c->hb = must(calloc(1, sizeof *h));
    h->cluster = c;
    for (int i = 0; i < c->cta_count; i++)
        h->warp_count += (uint32_t)c->ctas[i].warp_count;
    h->warps = must(calloc(h->warp_count, sizeof *h->warps));
    h->smem = must(calloc((size_t)c->cta_count, sizeof *h->smem));
    h->bars = must(calloc((size_t)c->cta_count * HB_BARS, sizeof *h->bars));
    for (int i = 0; i < c->cta_count; i++)
        hb_smem_new(&h->smem[i], &c->ctas[i]);
}

void hb_cluster_reset(struct cluster *c)
{
    struct hb *h = c->hb;
    if (!h)
        return;
    h->component_count = 0;
    h->run++;
    uint32_t n = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++, n++) {
            struct warp *w = &c->ctas[i].warps[k];
            warp_reset(&h->warps[n], w, n);
            hb_component_new(h, HB_WARP, w, NULL);
        }
    hb_know_clear(&h->cluster_bar);
    hb_know_clear(&h->cluster_done);
    for (int i = 0; i < c->cta_count * HB_BARS; i++)
        hb_view_clear(&h->bars[i]);
    for (int i = 0; i < c->cta_count; i++)
        hb_smem_reset(&h->smem[i]);
    hb_flags_reset(h);
}

void hb_cluster_free(struct cluster *c)
{
    struct hb *h = c->hb;
    if (!h)
        return;
    for (uint32_t i = 0; i < h->warp_count; i++) {
        hb_view_free(&h->warps[i].all);
        for (int k = 0; k < h->warps[i].some_cap; k++)
            hb_view_free(&h->warps[i].some[k]);
        free(h->warps[i].some);
        free(h->warps[i].busy);
        free(h->warps[i].fresh);
        free(h->warps[i].fragments);
    }
    for (int i = 0; i < c->cta_count; i++)
        hb_smem_free(&h->smem[i]);
    for (int i = 0; i < c->cta_count * HB_BARS; i++)
        hb_view_free(&h->bars[i]);
    hb_know_free(&h->cluster_bar);
    hb_know_free(&h->cluster_done);
    hb_flags_free(h);
    hb_events_free(h);
    free(h->bars);
    free(h->smem);
    free(h->warps);
    free(h->components);
    free(h);
    c->hb = NULL;
}
