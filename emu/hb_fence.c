/* hb_fence.c - fences, and the relaxed accesses that order memory with the help of one.
 *
 * A fence that releases makes ready what its lane knows; a relaxed write behind it
 * hands that on.  What a relaxed read has seen is pending until a fence that acquires
 * makes it known.  Both count for as far as the scope of the fence reaches: order that
 * would be there with wider scopes is kept apart, for check 37.
 *
 * What lanes have made ready, and what is pending, they share where they meet: a lane
 * may fence, meet others at a barrier, and one of these write the flag. */
#include "emu/hb.h"
#include "emu/hb_global.h"

struct fencing {
    struct warp *warp;
    uint32_t lanes, now;
    bool shared, global; /* fence.proxy.async of that space */
    bool acquires, releases, inits;
    bool is_barrier; /* a named barrier, which acquires a little */
    enum hb_scope scope;
};

/* ---- fences */

/* Initialisations of mbarriers that the view knows of: visible to asynchronous work and
 * to other CTAs from here on. */
static void fence_inits(struct hb_view *v, const struct fencing *f)
{
    const struct hb *h = f->warp->cta->cluster->hb;
    const struct hb_clock *all = &f->warp->hb->all.know.of[HB_PLAIN],
                          *own = &v->know.of[HB_PLAIN];
    for (uint32_t i = h->warp_count; i < h->component_count; i++) {
        if (h->components[i].kind != HB_MBAR)
            continue;
        uint32_t init = h->components[i].mbar->hb->start + 1;
        if (hb_clock_of(all, i, 0) < init && hb_clock_of(own, i, 0) < init)
            continue;
        hb_know_add(&v->know, i, UINT32_MAX, init);
        hb_know_add(&v->fenced[HB_WIDE], i, UINT32_MAX, init);
        v->more = true;
    }
}

static void fence_proxy(struct hb_view *v, const struct fencing *f, enum hb_proxy p)
{
    struct hb_warp *h = f->warp->hb;
    hb_clock_join(&v->know.of[p], &v->know.of[HB_PLAIN]);
    if (v != &h->all)
        hb_clock_join(&v->know.of[p], &h->all.know.of[HB_PLAIN]);
    hb_clock_add(&v->know.of[p], h->component[HB_WARP], f->lanes | h->absent, f->now);
}

static bool is_enough(const struct fencing *f, enum hb_pend kind)
{
    if (f->is_barrier)
        return kind == HB_PEND_BARRIER;
    return kind == HB_PEND_BARRIER ||
           (kind != HB_PEND_NARROW && (int)f->scope >= (int)kind);
}

static void fence_pending(struct hb_view *v, const struct hb_view *from,
                          const struct fencing *f)
{
    for (int i = 0; from->more && i < HB_PENDS; i++) {
        enum hb_pend kind = (enum hb_pend)i;
        if (hb_know_is_empty(&from->pending[i]))
            continue;
        if (is_enough(f, kind)) {
            hb_know_join(&v->know, &from->pending[i]);
        } else if (!f->is_barrier || kind == HB_PEND_NARROW) {
            hb_know_join(&v->narrow, &from->pending[i]);
            v->narrow_pc = kind == HB_PEND_NARROW ? from->narrow_pc : f->warp->cur_pc;
            v->more = true;
        }
    }
}

static void fence_view(struct hb_view *v, void *arg)
{
    const struct fencing *f = arg;
    struct hb_warp *h = f->warp->hb;
    if (f->acquires) {
        fence_pending(v, v, f);
        if (v != &h->all)
            fence_pending(v, &h->all, f);
    }
    if (f->inits)
        fence_inits(v, f);
    if (f->shared)
        fence_proxy(v, f, HB_ASYNC_SHARED);
    if (f->global)
        fence_proxy(v, f, HB_ASYNC_GLOBAL);
    if (f->releases) {
        enum hb_reach reach = f->scope >= HB_SCOPE_GPU ? HB_WIDE : HB_NARROW;
        hb_know_join(&v->fenced[reach], &v->know);
        if (v != &h->all)
            hb_know_join(&v->fenced[reach], &h->all.know);
        v->more = true;
    }
}

static void fence_lanes(struct hb_warp *h, struct fencing f)
{
    if (!hb_are_all(f.warp, f.lanes)) {
        hb_each_view(h, f.lanes, fence_view, &f);
        return;
    }
    fence_view(&h->all, &f);
    for (int k = 0; k < h->some_count; k++) {
        struct fencing own = f;
        own.lanes = h->some[k].lanes;
        fence_view(&h->some[k], &own);
    }
}

/* Each lane has fenced what it did itself, and not what the others did. */
static void fence_own(struct hb_warp *h, const struct fencing *f)
{
    enum hb_reach reach = f->scope >= HB_SCOPE_GPU ? HB_WIDE : HB_NARROW;
    h->fenced_lanes[reach] |= f->lanes;
    for (uint32_t rest = f->lanes; rest; rest &= rest - 1)
        h->fenced_at[reach][bits_lowest(rest)] = f->now;
    if (reach == HB_NARROW) {
        h->fence_pc = f->warp->cur_pc;
        h->fence_scope = f->scope;
    }
}

void hb_fence(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct hb_warp *h = w->hb;
    const struct ptx_insn *i = op->insn;
    const struct hb_meaning *m = hb_meaning(w);
    struct fencing f = {
        .warp = w, .lanes = lanes, .now = h->time, .scope = (enum hb_scope)m->scope};
    if (i->op == PTX_FENCE_PROXY) {
        if (!ptx_has(i, PTX_M_ASYNC))
            return; /* .alias: one address space here; .tensormap: exec_tmap.c */
        f.shared = ptx_has(i, PTX_M_SHARED_CTA) || ptx_has(i, PTX_M_SHARED_CLUSTER);
        f.global = ptx_has(i, PTX_M_GLOBAL);
        if (!f.shared && !f.global)
            f.shared = f.global = true;
    } else if (i->op == PTX_FENCE_MBARRIER_INIT) {
        f.inits = true;
    } else {
        f.acquires = m->acquires;
        f.releases = m->releases;
        f.inits = m->releases && m->scope != HB_SCOPE_CTA;
    }
    fence_lanes(h, f);
    if (f.releases)
        fence_own(h, &f);
    h->published = true;
    h->synced = false;
}

/* ---- relaxed accesses */

/* What these lanes did themselves before their fences. */
static void add_own(const struct hb_warp *h, uint32_t lanes, enum hb_reach reach,
                    struct hb_know *k)
{
    for (uint32_t rest = lanes & h->fenced_lanes[reach]; rest;) {
        uint32_t time = h->fenced_at[reach][bits_lowest(rest)], same = 0;
        for (uint32_t left = rest; left; left &= left - 1)
            if (h->fenced_at[reach][bits_lowest(left)] == time)
                same |= left & -left;
        hb_clock_add(&k->of[HB_PLAIN], h->component[HB_WARP], same | h->absent, time);
        rest &= ~same;
    }
}

void hb_release_relaxed(struct warp *w, uint32_t lanes, struct hb_know *wide,
                        struct hb_know *narrow)
{
    const struct hb_warp *h = w->hb;
    struct hb_know *into[HB_REACHES] = {wide, narrow};
    for (int r = 0; r < HB_REACHES; r++) {
        if (h->all.more)
            hb_know_join(into[r], &h->all.fenced[r]);
        for (int i = 0; i < h->some_count; i++)
            if (h->some[i].lanes & lanes && h->some[i].more)
                hb_know_join(into[r], &h->some[i].fenced[r]);
        add_own(h, lanes, (enum hb_reach)r, into[r]);
    }
}

struct pend {
    const struct hb_know *from;
    enum hb_pend kind;
    bool is_narrow;
    uint32_t pc;
};

static void pend_view(struct hb_view *v, void *arg)
{
    const struct pend *p = arg;
    hb_know_join(p->is_narrow ? &v->narrow : &v->pending[p->kind], p->from);
    if (p->is_narrow || p->kind == HB_PEND_NARROW)
        v->narrow_pc = p->pc;
    v->more = true;
}

static void pend_lanes(struct warp *w, uint32_t lanes, struct pend p)
{
    if (hb_know_is_empty(p.from))
        return;
    if (hb_are_all(w, lanes))
        pend_view(&w->hb->all, &p);
    else
        hb_each_view(w->hb, lanes, pend_view, &p);
}

void hb_acquire_relaxed(struct warp *w, uint32_t lanes, const struct hb_know *from,
                        enum hb_pend kind, uint32_t pc)
{
    pend_lanes(w, lanes, (struct pend){.from = from, .kind = kind, .pc = pc});
}

void hb_acquire_narrow(struct warp *w, uint32_t lanes, const struct hb_know *from,
                       uint32_t pc)
{
    pend_lanes(w, lanes, (struct pend){.from = from, .is_narrow = true, .pc = pc});
}

/* ---- where lanes meet */

void hb_fences_met(struct warp *w, uint32_t lanes, struct hb_view *v)
{
    struct hb_warp *h = w->hb;
    for (int r = 0; r < HB_REACHES; r++) {
        if (!(h->fenced_lanes[r] & lanes))
            continue;
        add_own(h, lanes, (enum hb_reach)r, &v->fenced[r]);
        h->fenced_lanes[r] &= ~lanes;
        v->more = true;
    }
}

static void share(struct hb_view *v, const struct hb_view *from)
{
    struct hb_view more = *from;
    more.know = (struct hb_know){0};
    hb_view_join(v, &more);
}

void hb_barrier_release(struct warp *w, uint32_t lanes, struct hb_view *bar)
{
    struct hb_warp *h = w->hb;
    struct fencing f = {.warp = w,
                        .lanes = lanes,
                        .now = h->time,
                        .acquires = true,
                        .is_barrier = true};
    fence_lanes(h, f);
    if (h->all.more)
        share(bar, &h->all);
    for (int i = 0; i < h->some_count; i++)
        if (h->some[i].lanes & lanes && h->some[i].more)
            share(bar, &h->some[i]);
    for (int r = 0; r < HB_REACHES; r++) {
        add_own(h, lanes, (enum hb_reach)r, &bar->fenced[r]);
        bar->more |= (h->fenced_lanes[r] & lanes) != 0;
    }
}

static void share_view(struct hb_view *v, void *arg)
{
    share(v, arg);
}

void hb_barrier_acquire(struct warp *w, uint32_t lanes, const struct hb_view *bar)
{
    struct hb_view more = *bar;
    if (!bar->more)
        return;
    if (hb_are_all(w, lanes))
        share(&w->hb->all, bar);
    else
        hb_each_view(w->hb, lanes, share_view, &more);
}

/* ---- check 37 */

static bool covers(const struct hb_view *v, const struct warp *w, uint64_t cluster,
                   const struct hb_party *p, uint32_t *pc)
{
    const struct hb_know *k = &v->narrow;
    if (!v->more)
        return false;
    if (cluster != w->cta->cluster->number)
        k = hb_others_find(k->others, cluster);
    if (!k || !hb_clock_has(&k->of[HB_PLAIN], p->component, p->lanes, p->time))
        return false;
    *pc = v->narrow_pc;
    return true;
}

bool hb_is_narrow(const struct warp *w, uint32_t lane, uint64_t cluster,
                  const struct hb_party *p, uint32_t *pc)
{
    const struct hb_warp *h = w->hb;
    if (covers(&h->all, w, cluster, p, pc))
        return true;
    for (int i = 0; i < h->some_count; i++)
        if (h->some[i].lanes >> lane & 1 && covers(&h->some[i], w, cluster, p, pc))
            return true;
    return false;
}
