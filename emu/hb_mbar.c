/* hb_mbar.c - what mbarriers, named barriers and the cluster's barrier make known, and
 * checks 6, 11, 22 and 37. */
#include "emu/hb.h"
#include "emu/report.h"

#include <stdio.h>
#include <stdlib.h>

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- mbarriers */

void hb_mbar_free(struct mbar *m)
{
    if (!m->hb)
        return;
    hb_know_free(&m->hb->arriving);
    hb_know_free(&m->hb->done);
    free(m->hb->seen);
    free(m->hb);
    m->hb = NULL;
}

/* Of its component, when `phases` of its phases are over. */
static uint32_t time_of(const struct mbar *m, uint64_t phases)
{
    return m->hb->start + 1 + (uint32_t)phases;
}

void hb_mbar_init(struct warp *w, struct mbar *m, int lane)
{
    struct hb *h = w->cta->cluster->hb;
    size_t warps = (size_t)m->cta->warp_count;
    if (!m->hb) {
        m->hb = calloc(1, sizeof *m->hb);
        if (!m->hb || !(m->hb->seen = malloc(warps * sizeof *m->hb->seen)))
            abort();
    }
    struct hb_mbar *b = m->hb;
    if (b->cluster_run != h->run) { /* of an earlier cluster */
        b->cluster_run = h->run;
        b->component = hb_component_new(h, HB_MBAR, w, m);
        b->start = b->last = 0;
    }
    b->start = b->last;
    b->last = b->start + 1;
    b->is_remote = false;
    b->signal_count = 0;
    hb_know_clear(&b->arriving);
    hb_know_clear(&b->done);
    memset(b->seen, 0, warps * sizeof *b->seen);
    b->init_warp = w;
    b->init_lane = lane;
    hb_learn_plain(w, (uint32_t)1 << lane, b->component, UINT32_MAX, b->start + 1);
}

static const char *name_of(const struct mbar *m, char *text, size_t bytes)
{
    snprintf(text, bytes, "the barrier at 0x%x of block (%u,%u,%u)", m->offset,
             m->cta->id[0], m->cta->id[1], m->cta->id[2]);
    return text;
}

static void note_init(struct warp *w, const struct mbar *m)
{
    report_party(grid_of(w), "initialised at", m->hb->init_warp, m->init_pc, 0);
}

/* Check 11: does this lane, or the asynchronous work that it issues, know that the
 * barrier is there? */
static bool check_init(struct warp *w, const struct mbar *m, int lane, bool async)
{
    bool remote = m->cta != w->cta;
    struct hb_eye e = hb_eye(w, (uint32_t)lane);
    uint32_t component = m->hb->component, time = m->hb->start + 1;
    bool ordered = hb_sees(&e, HB_PLAIN, component, UINT32_MAX, time);
    /* What a thread issues comes behind what it has initialised itself. */
    bool own = m->hb->init_warp == w && m->hb->init_lane == lane && !remote;
    bool fenced = ordered && hb_sees(&e, HB_ASYNC_SHARED, component, UINT32_MAX, time);
    if (fenced || (ordered && (own || !async) && !remote) ||
        !report_wants(grid_of(w), CHECK_INIT_NOT_VISIBLE))
        return true;
    char name[96];
    name_of(m, name, sizeof name);
    enum flow f;
    if (!ordered)
        f = report(grid_of(w), w, CHECK_INIT_NOT_VISIBLE,
                   "%s is used, but nothing orders this after its mbarrier.init", name);
    else
        f = report(grid_of(w), w, CHECK_INIT_NOT_VISIBLE,
                   "%s is used %s, but no fence made its mbarrier.init visible there",
                   name, async ? "by asynchronous work" : "from another CTA");
    note_init(w, m);
    return f == FLOW_NEXT;
}

bool hb_mbar_use(struct warp *w, struct mbar *m, int lane)
{
    return !m->hb || check_init(w, m, lane, false);
}

bool hb_mbar_target(struct warp *w, struct cta *c, uint32_t offset, int lane)
{
    struct mbar *m = mbar_find(c, offset);
    if (!m || !m->hb)
        return true;
    m->hb->is_remote |= c != w->cta;
    hb_mbar_acts(w);
    return check_init(w, m, lane, true);
}

/* Who signalled last, for the CTA's exit: threads of other CTAs, asynchronous work. */
static void note_signal(struct mbar *m, struct warp *w, uint32_t component,
                        uint32_t lanes, uint32_t time)
{
    struct hb_mbar *b = m->hb;
    struct hb_signal *s = NULL;
    for (int i = 0; i < b->signal_count; i++)
        if (b->signals[i].component == component)
            s = &b->signals[i];
    if (!s && b->signal_count < HB_SIGNALS)
        s = &b->signals[b->signal_count++];
    if (s)
        *s = (struct hb_signal){component, lanes, time, w->cur_pc, w};
}

/* Check 37: the manual's default is CTA scope, also for a barrier of another CTA. */
static bool check_scope(struct warp *w, const struct mbar *m, const char *what)
{
    if (!m->hb->is_remote || hb_meaning(w)->scope != HB_SCOPE_CTA ||
        !report_wants(grid_of(w), CHECK_SCOPE))
        return true;
    char name[96];
    return report(grid_of(w), w, CHECK_SCOPE,
                  "%s %s has CTA scope, but threads of several CTAs meet there", what,
                  name_of(m, name, sizeof name)) == FLOW_NEXT;
}

bool hb_mbar_arrive(struct warp *w, struct mbar *m, uint32_t lanes)
{
    struct hb_mbar *b = m->hb;
    const struct async_op *o = w->cta->cluster->running;
    if (!b)
        return true;
    if (o) {
        const struct hb_event *e = o->event;
        if (!e)
            return true;
        if (e->know)
            hb_know_join(&b->arriving, e->know);
        if (o->kind == ASYNC_CP)
            hb_clock_add(&b->arriving.of[HB_PLAIN], e->component, e->lanes, e->time);
        else
            hb_know_add(&b->arriving, e->component, e->lanes, e->time);
        note_signal(m, w, e->component, e->lanes, e->time);
        return true;
    }
    if (!check_init(w, m, bits_lowest(lanes), false))
        return false;
    hb_mbar_acts(w);
    hb_now(w->hb); /* the arrival is an event of its own: check 22 */
    bool relaxed = hb_meaning(w)->relaxed;
    if (relaxed)
        hb_release_relaxed(w, lanes, &b->arriving, &b->arriving);
    else
        hb_release(w, lanes, &b->arriving);
    if (m->cta == w->cta)
        return true;
    b->is_remote = true;
    if (relaxed)
        note_signal(m, w, b->component, UINT32_MAX, time_of(m, m->phase + 1));
    else
        note_signal(m, w, w->hb->component[HB_WARP], lanes, w->hb->time);
    return check_scope(w, m, "the arrival on");
}

void hb_mbar_bytes(struct warp *w, struct mbar *m)
{
    struct async_op *o = w->cta->cluster->running;
    if (!m->hb || !o || !o->event)
        return;
    struct hb_event *e = o->event;
    e->component = m->hb->component;
    e->lanes = UINT32_MAX;
    e->time = time_of(m, m->phase + 1);
    e->mbar = m;
    e->phase = m->phase;
    note_signal(m, o->issuer, e->component, e->lanes, e->time);
}

void hb_mbar_phase(struct mbar *m)
{
    struct hb_mbar *b = m->hb;
    if (!b)
        return;
    b->last = time_of(m, m->phase + 1);
    hb_know_join(&b->done, &b->arriving);
    hb_know_add(&b->done, b->component, UINT32_MAX, b->last);
    hb_know_clear(&b->arriving);
}

/* ---- check 6: parities */

void hb_mbar_acts(struct warp *w)
{
    w->hb->acts++;
}

static void note_seen(struct warp *w, const struct mbar *m, const struct hb_seen *s)
{
    if (s->any) {
        report_party(grid_of(w), "its wait before:", w, s->pc, s->lanes);
        report_note(grid_of(w), "that one returned true with %llu phases complete",
                    (unsigned long long)s->phases);
    }
    note_init(w, m);
}

/* The warp asks for a phase by its parity. */
static bool check_parity(struct warp *w, struct mbar *m, uint32_t lanes, bool yes)
{
    struct hb_seen *s = &m->hb->seen[w->index];
    enum flow f = FLOW_NEXT;
    char name[96];
    bool lapped = m->phase >= s->phases + 2;
    bool again = yes && s->any && s->phases == m->phase && s->lanes == lanes &&
                 s->acts != w->hb->acts;
    if (lapped) {
        f = report(grid_of(w), w, CHECK_PARITY,
                   "%llu phases of %s are complete that this warp has not waited for: "
                   "the parity cannot tell which one is meant",
                   (unsigned long long)(m->phase - s->phases),
                   name_of(m, name, sizeof name));
        note_seen(w, m, s);
    } else if (again) {
        f = report(grid_of(w), w, CHECK_PARITY,
                   "the wait on %s returns true for phase %lld, which this warp has "
                   "seen before and acted on since; it means the phase after the next",
                   name_of(m, name, sizeof name), (long long)m->phase - 1);
        note_seen(w, m, s);
    }
    if (lapped || again) {
        s->in_doubt = true;
        s->doubt_pc = w->cur_pc;
        s->doubt_phase = m->phase;
    } else if (yes && s->doubt_phase != m->phase) {
        s->in_doubt = false;
    }
    if (yes && !(s->any && s->phases == m->phase)) {
        s->any = true;
        s->phases = m->phase;
        s->acts = w->hb->acts;
        s->pc = w->cur_pc;
        s->lanes = lanes;
    } else if (lapped) {
        s->phases = m->phase - 1;
    }
    return f == FLOW_NEXT;
}

static bool has_signalled(const struct mbar *m, const struct warp *w)
{
    for (int i = 0; i < m->signal_count; i++)
        if (m->signals[i].warp == w)
            return true;
    return false;
}

/* A wait of `w` that was in doubt, on `m` or on a barrier that `other` signals. */
static void find_cause(const struct warp *w, const struct mbar *m,
                       const struct warp *other)
{
    struct grid *g = grid_of(w);
    char name[96];
    for (const struct mbar *x = w->cta->mbars; x; x = x->next_of_cta) {
        const struct hb_seen *s = x->valid && x->hb ? &x->hb->seen[w->index] : NULL;
        if (!s || !s->in_doubt || !(x == m || !other || has_signalled(x, other)))
            continue;
        report_note(g,
                    "the cause: the wait of warp %d in line %d on %s, which check 6 "
                    "tells of",
                    w->index, g->kernel->ops[s->doubt_pc].insn->line,
                    name_of(x, name, sizeof name));
        report_raise(g, CHECK_PARITY, s->doubt_pc);
    }
}

void hb_mbar_cause(const struct warp *w, const struct mbar *m, const struct warp *other)
{
    find_cause(w, m, other);
    if (other && other != w)
        find_cause(other, m, w);
}

bool hb_mbar_parity(struct warp *w, const struct mbar *m, int lane, uint32_t parity)
{
    char name[96];
    if (parity <= 1 || !report_wants(grid_of(w), CHECK_PARITY))
        return true;
    uint32_t saved = w->cur_lanes;
    w->cur_lanes = (uint32_t)1 << lane;
    enum flow f = report(grid_of(w), w, CHECK_PARITY,
                         "a wait on %s for the phase of parity %u: a parity is 0 or 1",
                         name_of(m, name, sizeof name), parity);
    report_mend(grid_of(w), "take the lowest bit of what counts the phases");
    w->cur_lanes = saved;
    return f == FLOW_NEXT;
}

bool hb_mbar_wait(struct warp *w, struct mbar *m, uint32_t lanes, uint32_t yes,
                  bool parity)
{
    struct hb_mbar *b = m->hb;
    if (!b)
        return true;
    if (!check_init(w, m, bits_lowest(lanes), false) ||
        !check_scope(w, m, "the wait for") ||
        (parity && !check_parity(w, m, lanes, yes != 0)))
        return false;
    if (!yes)
        return true;
    if (hb_meaning(w)->relaxed) {
        /* libcu++ 13.0 relies on it in for_each_canceled_block. */
        hb_acquire_relaxed(w, yes, &b->done, HB_PEND_BARRIER, w->cur_pc);
        return true;
    }
    w->hb->acquired = true;
    struct hb_eye e = hb_eye(w, (uint32_t)bits_lowest(yes));
    bool known = m->phase > 0 && (yes & (yes - 1)) == 0 &&
                 hb_sees(&e, HB_PLAIN, b->component, UINT32_MAX, b->last);
    if (!known)
        hb_acquire(w, yes, &b->done);
    return true;
}

/* ---- named barriers */

static struct hb_view *bar_of(struct cta *t, uint32_t number)
{
    return &t->cluster->hb->bars[t->rank * HB_BARS + number];
}

void hb_bar_arrive(struct warp *w, uint32_t number, uint32_t lanes)
{
    struct hb_view *bar = bar_of(w->cta, number);
    hb_barrier_release(w, lanes, bar);
    hb_release(w, lanes, &bar->know);
}

void hb_bar_release(struct cta *t, uint32_t number, const uint32_t *waiting)
{
    struct hb_view *bar = bar_of(t, number);
    for (int i = 0; i < t->warp_count; i++)
        if (waiting[i]) {
            hb_acquire(&t->warps[i], waiting[i], &bar->know);
            hb_barrier_acquire(&t->warps[i], waiting[i], bar);
        }
    hb_view_clear(bar);
}

/* ---- the cluster's barrier */

void hb_cluster_arrive(struct warp *w, uint32_t lanes)
{
    struct hb *h = w->cta->cluster->hb;
    if (hb_meaning(w)->relaxed)
        hb_release_relaxed(w, lanes, &h->cluster_bar, &h->cluster_bar);
    else
        hb_release(w, lanes, &h->cluster_bar);
}

void hb_cluster_complete(struct cluster *c)
{
    hb_know_join(&c->hb->cluster_done, &c->hb->cluster_bar);
    hb_know_clear(&c->hb->cluster_bar);
}

void hb_cluster_wait(struct warp *w, uint32_t lanes)
{
    hb_acquire(w, lanes, &w->cta->cluster->hb->cluster_done);
}

/* ---- exits: checks 22 and 23 */

/* Work of a lane that exits, which it has not waited for. */
static bool check_left_behind(struct warp *w, uint32_t lane, const struct hb_bulk *b,
                              enum hb_kind kind, enum check check, const char *what)
{
    struct hb_eye e = hb_eye(w, lane);
    if (!b->group ||
        hb_sees(&e, HB_PLAIN, hb_component(w, kind), (uint32_t)1 << lane, b->group))
        return true;
    enum flow f = report(grid_of(w), w, check,
                         "lane %u exits without having waited for its %s", lane, what);
    report_party(grid_of(w), "issued at", w, b->pc, (uint32_t)1 << lane);
    return f == FLOW_NEXT;
}

bool hb_exit(struct warp *w, uint32_t lanes)
{
    struct hb_warp *h = w->hb;
    bool ok = true;
    hb_release(w, lanes, &w->cta->cluster->hb->smem[w->cta->rank].exit);
    for (uint32_t rest = lanes; rest && ok; rest &= rest - 1) {
        uint32_t lane = (uint32_t)bits_lowest(rest);
        ok = check_left_behind(w, lane, &h->bulk[lane], HB_BULK_READS,
                               CHECK_STORES_AT_EXIT, "bulk store") &&
             check_left_behind(w, lane, &h->copies[lane], HB_COPIES, CHECK_LOST_TAIL,
                               "cp.async");
    }
    return ok;
}

void hb_left_barrier(struct cta *t)
{
    t->cluster->hb->smem[t->rank].left_barrier = true;
}

bool hb_has_left_barrier(const struct cta *t)
{
    return t->cluster->hb && t->cluster->hb->smem[t->rank].left_barrier;
}

void hb_visits(struct warp *w, struct cta *t, uint32_t lanes)
{
    struct hb_smem *s = &t->cluster->hb->smem[t->rank];
    int i = 0;
    while (i < s->visitor_count && s->visitors[i].warp != w)
        i++;
    if (i == s->visitor_count) {
        if (i == s->visitor_cap) {
            s->visitor_cap = i ? 2 * i : 4;
            s->visitors =
                realloc(s->visitors, (size_t)s->visitor_cap * sizeof *s->visitors);
            if (!s->visitors)
                abort();
        }
        s->visitor_count++;
        s->visitors[i] = (struct hb_visitor){.warp = w};
    }
    s->visitors[i].lanes = lanes;
    s->visitors[i].time = hb_now(w->hb);
    s->visitors[i].pc = w->cur_pc;
}

static bool blame_exit(struct warp *w, const struct cta *t, const struct warp *other,
                       uint32_t pc, const char *what)
{
    report(grid_of(w), w, CHECK_CTA_EXIT,
           "block (%u,%u,%u) exits, and none of its threads has waited for %s",
           t->id[0], t->id[1], t->id[2], what);
    report_party(grid_of(w), "it comes from", other, pc, 0);
    report_note(grid_of(w), "in another schedule it would come after the exit");
    return false;
}

/* Whatever others send to this CTA must have come, as far as its threads know. */
bool hb_cta_end(struct warp *w, struct cta *t)
{
    const struct hb_smem *s = &t->cluster->hb->smem[t->rank];
    const struct hb_clock *known = &s->exit.of[HB_PLAIN];
    char name[96], what[160];
    for (const struct mbar *m = t->mbars; m; m = m->next_of_cta)
        for (int i = 0; m->valid && m->hb && i < m->hb->signal_count; i++) {
            const struct hb_signal *x = &m->hb->signals[i];
            if (hb_clock_has(known, x->component, x->lanes, x->time))
                continue;
            snprintf(what, sizeof what, "what signals %s",
                     name_of(m, name, sizeof name));
            return blame_exit(w, t, x->warp, x->pc, what);
        }
    for (int i = 0; i < s->visitor_count; i++) {
        const struct hb_visitor *v = &s->visitors[i];
        if (!hb_clock_has(known, v->warp->hb->component[HB_WARP], v->lanes, v->time))
            return blame_exit(w, t, v->warp, v->pc,
                              "an access to its shared memory from another CTA");
    }
    return true;
}
