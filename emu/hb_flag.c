/* hb_flag.c - addresses that threads synchronise through: release, acquire, atomics.
 *
 * A flag holds what its releases have published, by cluster.  Flags in shared memory
 * are the cluster's own; those in global memory are the grid's, under its lock. */
#include "emu/hb.h"
#include "emu/hb_global.h"
#include "emu/report.h"
#include "emu/must.h"

#include <stdlib.h>

/* ---- knowledge of other clusters */

void hb_others_free(struct hb_others *o)
{
    if (!o)
        return;
    for (uint32_t i = 0; i < o->count; i++)
        hb_know_free(&o->at[i].know);
    free(o->at);
    free(o);
}

const struct hb_know *hb_others_find(const struct hb_others *o, uint64_t cluster)
{
    for (uint32_t i = 0; o && i < o->count; i++)
        if (o->at[i].cluster == cluster)
            return &o->at[i].know;
    return NULL;
}

static struct hb_know *others_entry(struct hb_others **o, uint64_t cluster)
{
    if (!*o)
        *o = must(calloc(1, sizeof **o));
    struct hb_others *all = *o;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->at[i].cluster == cluster)
            return &all->at[i].know;
    if (all->count == all->cap) {
        all->cap = all->cap ? all->cap * 2 : 4;
        all->at = must(realloc(all->at, all->cap * sizeof *all->at));
    }
    all->at[all->count] = (struct hb_other){.cluster = cluster};
    return &all->at[all->count++].know;
}

/* Clocks only: what others know of others has been laid flat. */
static void join_clocks(struct hb_know *k, const struct hb_know *other)
{
    for (int i = 0; i < HB_PROXIES; i++)
        hb_clock_join(&k->of[i], &other->of[i]);
}

void hb_others_join(struct hb_others **o, const struct hb_others *other)
{
    for (uint32_t i = 0; i < other->count; i++)
        join_clocks(others_entry(o, other->at[i].cluster), &other->at[i].know);
}

/* `k` is what threads of `cluster` have published. */
static void add_published(struct hb_others **o, uint64_t cluster,
                          const struct hb_know *k)
{
    join_clocks(others_entry(o, cluster), k);
    if (k->others)
        hb_others_join(o, k->others);
}

/* The same, for a thread of `cluster` to take up. */
static void take_up(struct hb_know *k, uint64_t cluster, const struct hb_others *o)
{
    for (uint32_t i = 0; o && i < o->count; i++)
        if (o->at[i].cluster == cluster)
            join_clocks(k, &o->at[i].know);
        else
            join_clocks(others_entry(&k->others, o->at[i].cluster), &o->at[i].know);
}

/* ---- tables */

struct hb_flag {
    uint64_t address;
    struct hb_others *told;
    uint8_t scope; /* of the newest of its releases */
    uint32_t pc;   /* of that one */
    uint64_t cluster;
    uint32_t cta;
    /* The same by relaxed writes, where scopes do not reach all of the grid. */
    struct hb_others *told_near;
    enum hb_scope near_scope;
    uint32_t near_pc; /* of the fence or write that is narrow */
};

struct hb_flags {
    struct hb_flag *at;
    uint32_t count, cap; /* cap: a power of two; address 0: free */
};

static uint32_t slot_of(const struct hb_flags *f, uint64_t address)
{
    uint32_t i = (uint32_t)((address >> 2) * 0x9e3779b97f4a7c15u >> 40);
    i &= f->cap - 1;
    while (f->at[i].address && f->at[i].address != address)
        i = (i + 1) & (f->cap - 1);
    return i;
}

static struct hb_flag *find(const struct hb_flags *f, uint64_t address)
{
    if (!f || f->count == 0)
        return NULL;
    struct hb_flag *x = &f->at[slot_of(f, address)];
    return x->address ? x : NULL;
}

static void grow(struct hb_flags *f)
{
    struct hb_flags old = *f;
    f->cap = f->cap ? f->cap * 2 : 64;
    f->at = must(calloc(f->cap, sizeof *f->at));
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.at[i].address)
            f->at[slot_of(f, old.at[i].address)] = old.at[i];
    free(old.at);
}

static struct hb_flag *find_or_add(struct hb_flags **flags, uint64_t address)
{
    if (!*flags)
        *flags = must(calloc(1, sizeof **flags));
    struct hb_flags *f = *flags;
    if (2 * f->count >= f->cap)
        grow(f);
    struct hb_flag *x = &f->at[slot_of(f, address)];
    if (!x->address) {
        *x = (struct hb_flag){.address = address, .scope = HB_SCOPE_SYS};
        f->count++;
    }
    return x;
}

static void flags_clear(struct hb_flags *f)
{
    if (!f || f->count == 0)
        return;
    for (uint32_t i = 0; i < f->cap; i++) {
        hb_others_free(f->at[i].told);
        hb_others_free(f->at[i].told_near);
        f->at[i] = (struct hb_flag){0};
    }
    f->count = 0;
}

void hb_flags_delete(struct hb_flags *f)
{
    flags_clear(f);
    if (f)
        free(f->at);
    free(f);
}

void hb_flags_reset(struct hb *h)
{
    flags_clear(h->flags);
}

void hb_flags_free(struct hb *h)
{
    hb_flags_delete(h->flags);
    h->flags = NULL;
}

/* ---- one access */

/* Check 37: is the reader inside the scope of the release, and the other way round? */
static bool check_scopes(struct warp *w, const struct hb_flag *f,
                         const struct hb_meaning *m)
{
    struct grid *g = w->cta->cluster->grid;
    bool beyond = f->cluster != w->cta->cluster->number;
    if (!beyond && f->cta == w->cta->rank)
        return true;
    enum hb_scope need = beyond ? HB_SCOPE_GPU : HB_SCOPE_CLUSTER;
    if (f->scope >= need && m->scope >= need)
        return true;
    const struct ptx_insn *i = g->kernel->ops[f->pc].insn;
    enum flow flow = report_at(
        g, w, CHECK_SCOPE, beyond ? CHECK_IS_WARNING : CHECK_IS_PEDANTIC,
        "this acquire and the release of line %d are in different %s, which the "
        "scope of %s does not include",
        i->line, beyond ? "clusters" : "CTAs of a cluster",
        f->scope < need ? "the release" : "the acquire");
    report_note(g, "the release: line %d (%s)", i->line, i->opcode);
    return flow == FLOW_NEXT;
}

/* What a fence behind this read has to be. */
static enum hb_pend pend_of(const struct warp *w, const struct hb_flag *f,
                            const struct hb_meaning *m)
{
    const struct hb_grid *g = w->cta->cluster->grid->hb;
    bool beyond = f->cluster != w->cta->cluster->number;
    bool own = !beyond && f->cta == w->cta->rank;
    /* Old code has .volatile, or atomics that name no semantics, and bar.sync alone. */
    if (!g->strict && (own || (!m->relaxed && !m->releases)))
        return HB_PEND_BARRIER;
    if (beyond)
        return m->scope >= HB_SCOPE_GPU ? HB_PEND_GPU : HB_PEND_NARROW;
    if (own || !g->scopes)
        return HB_PEND_CTA;
    return m->scope >= HB_SCOPE_CLUSTER ? HB_PEND_CLUSTER : HB_PEND_NARROW;
}

/* Do the scopes of told_near leave this reader out? */
static bool is_too_near(const struct warp *w, const struct hb_flag *f)
{
    if (f->cluster != w->cta->cluster->number)
        return true;
    return f->cta != w->cta->rank && f->near_scope < HB_SCOPE_CLUSTER &&
           w->cta->cluster->grid->hb->scopes;
}

static bool acquire(struct warp *w, const struct hb_flag *f, int lane,
                    const struct hb_meaning *m)
{
    struct hb_know k = {0}, near = {0};
    uint32_t lanes = (uint32_t)1 << lane;
    bool too_near = f->told_near && is_too_near(w, f), has_told = f->told != NULL;
    take_up(&k, w->cta->cluster->number, f->told);
    take_up(too_near ? &near : &k, w->cta->cluster->number, f->told_near);
    if (m->acquires) {
        hb_acquire(w, lanes, &k);
        hb_acquire_narrow(w, lanes, &near, f->near_pc);
    } else {
        hb_acquire_relaxed(w, lanes, &k, pend_of(w, f, m), w->cur_pc);
        hb_acquire_relaxed(w, lanes, &near, HB_PEND_NARROW, f->near_pc);
    }
    hb_know_free(&k);
    hb_know_free(&near);
    return !m->acquires || !has_told || check_scopes(w, f, m);
}

static void tell(struct hb_others **told, const struct warp *w, const struct hb_know *k)
{
    if (!hb_know_is_empty(k))
        add_published(told, w->cta->cluster->number, k);
}

static void publish(struct warp *w, struct hb_flags **flags, struct hb_flag *f,
                    uint64_t address, int lane, const struct hb_meaning *m, bool joins)
{
    struct hb_know k = {0}, near = {0};
    bool is_narrow = m->scope < HB_SCOPE_GPU; /* of a relaxed write */
    if (m->releases)
        hb_release(w, (uint32_t)1 << lane, &k);
    else
        hb_release_relaxed(w, (uint32_t)1 << lane, is_narrow ? &near : &k, &near);
    bool is_empty = hb_know_is_empty(&k) && hb_know_is_empty(&near);
    if (!f && is_empty)
        return;
    if (!f)
        f = find_or_add(flags, address);
    if (!joins) { /* a plain store ends what was told before */
        hb_others_free(f->told);
        hb_others_free(f->told_near);
        f->told = f->told_near = NULL;
    }
    if (!is_empty) {
        bool by_write = is_narrow && m->scope <= w->hb->fence_scope;
        tell(&f->told, w, &k);
        tell(&f->told_near, w, &near);
        f->scope = m->scope;
        f->pc = w->cur_pc;
        f->near_scope = by_write ? (enum hb_scope)m->scope : w->hb->fence_scope;
        f->near_pc = by_write ? w->cur_pc : w->hb->fence_pc;
        f->cluster = w->cta->cluster->number;
        f->cta = w->cta->rank;
    }
    hb_know_free(&k);
    hb_know_free(&near);
}

bool hb_smem_flags(struct warp *w, const struct cta *c, const uint32_t *offset,
                   uint32_t lanes, enum hb_access how)
{
    uint32_t saved = w->cur_lanes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        w->cur_lanes = (uint32_t)1 << lane;
        /* Offset 0 belongs to the system, so that no address is 0. */
        uint64_t address = (uint64_t)c->rank << 32 | offset[lane];
        if (!hb_flag(w, &c->cluster->hb->flags, address, lane, how != HB_WRITE,
                     how != HB_READ))
            return false;
    }
    w->cur_lanes = saved;
    return true;
}

bool hb_flag(struct warp *w, struct hb_flags **flags, uint64_t address, int lane,
             bool reads, bool writes)
{
    const struct hb_meaning *m = hb_meaning(w);
    struct hb_flag *f = find(*flags, address);
    if (reads && f && (f->told || f->told_near) && !acquire(w, f, lane, m))
        return false;
    if (writes)
        publish(w, flags, f, address, lane, m, reads);
    return true;
}
