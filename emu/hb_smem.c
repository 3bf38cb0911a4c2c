#include "emu/hb.h"
#include "emu/report.h"

/* One access on its way through the history. */
struct visit {
    struct warp *w;
    struct hb_smem *s;
    struct hb_eye eye;
    enum hb_access how;
    bool strong;
    hb_cell stamp;  /* of the lane */
    bool unwritten; /* bytes there may be that nothing has written */
};

/* ---- against earlier accesses */

static bool is_before(const struct visit *v, uint32_t component, uint32_t lanes,
                      uint32_t time)
{
    /* What a lane did itself came before, but for copies that go on behind its back. */
    if (component == v->eye.self->component[HB_WARP])
        lanes &= ~((uint32_t)1 << v->eye.lane);
    return !lanes || hb_sees(&v->eye, HB_PLAIN, component, lanes, time);
}

/* Finds a party of cell `c` that the access is not ordered with; false: there is none.
 */
static bool unordered(const struct visit *v, hb_cell c, struct hb_party *p)
{
    if (!c)
        return false;
    const struct hb_readers *pools = &v->s->pools;
    uint32_t component = hb_cell_component(c);
    if (component != HB_CELL_LIST) {
        uint32_t lanes = (uint32_t)1 << hb_cell_lane(c), time = hb_cell_time(c);
        if ((v->strong && (c & HB_CELL_STRONG)) || is_before(v, component, lanes, time))
            return false;
        *p = (struct hb_party){component, lanes, time, hb_cell_pc(c), NULL};
        return true;
    }
    for (uint32_t i = hb_cell_time(c); i; i = pools->reader[i].next) {
        const struct hb_reader *r = &pools->reader[i];
        if ((v->strong && r->strong) || is_before(v, r->component, r->lanes, r->time))
            continue;
        *p = (struct hb_party){r->component, r->lanes, r->time, r->pc, NULL};
        return true;
    }
    return false;
}

static inline bool is_own(const struct visit *v, hb_cell c)
{
    return ((c ^ v->stamp) & HB_CELL_OWNER) == 0;
}

/* Whoever comes in conflict with the earlier access does so with this one, if this one
 * knows of it and is not the stronger. */
static bool says_less(const struct hb_reader *r, const void *arg)
{
    const struct visit *v = arg;
    return (r->strong || !v->strong) && is_before(v, r->component, r->lanes, r->time);
}

static void forget_less(const struct visit *v, hb_cell *c)
{
    if (!*c)
        return;
    if (hb_cell_component(*c) == HB_CELL_LIST) {
        hb_cell_filter(&v->s->pools, c, says_less, v);
        return;
    }
    struct hb_reader r = hb_cell_entry(*c);
    if (says_less(&r, v))
        *c = 0;
}

static void add_access(const struct visit *v, hb_cell *c)
{
    forget_less(v, c);
    if (*c)
        hb_cell_add(&v->s->pools, c, v->stamp);
    else
        *c = v->stamp;
}

static void end_cell(const struct visit *v, hb_cell *c)
{
    if (hb_cell_component(*c) == HB_CELL_LIST)
        hb_cell_drop(&v->s->pools, *c);
    *c = 0;
}

static bool visit_write(const struct visit *v, hb_cell *write, hb_cell *read,
                        uint32_t at, uint32_t bytes)
{
    struct hb_party p;
    bool same = *write && hb_cell_component(*write) != HB_CELL_LIST &&
                hb_cell_pc(*write) == hb_cell_pc(v->stamp) &&
                hb_cell_time(*write) == hb_cell_time(v->stamp);
    /* Lanes that write one place in one instruction, as all of a warp often do: one of
     * them wins, and mostly they agree. */
    if (*write && !is_own(v, *write) && !same && unordered(v, *write, &p) &&
        !hb_blame_generic(v->w, v->s->cta, at, bytes, v->how, &p, true))
        return false;
    if (*read && !is_own(v, *read) && unordered(v, *read, &p) &&
        !hb_blame_generic(v->w, v->s->cta, at, bytes, v->how, &p, false))
        return false;
    if (v->strong) {
        forget_less(v, read);
        add_access(v, write);
    } else {
        end_cell(v, read);
        end_cell(v, write);
        *write = v->stamp;
    }
    return true;
}

/* Nothing has written there; of padded types copies leave the ends of slots out. */
static bool is_hole(const struct hb_seg *g, uint32_t at)
{
    return !g->write || (g->write->slot_bytes && at % 16 >= g->write->slot_bytes);
}

static bool visit_read(const struct visit *v, hb_cell *write, hb_cell *read,
                       uint32_t at, uint32_t bytes)
{
    struct hb_party p;
    if (*write) {
        if (!is_own(v, *write) && unordered(v, *write, &p) &&
            !hb_blame_generic(v->w, v->s->cta, at, bytes, v->how, &p, true))
            return false;
    } else if (v->unwritten && is_hole(hb_seg_at(v->s, at), at)) {
        if (!hb_blame_unwritten(v->w, v->s->cta, at, bytes, NULL))
            return false;
    }
    add_access(v, read);
    return true;
}

static bool visit_cell(const struct visit *v, hb_cell *write, hb_cell *read,
                       uint32_t at, uint32_t bytes)
{
    return v->how == HB_READ ? visit_read(v, write, read, at, bytes)
                             : visit_write(v, write, read, at, bytes);
}

static bool visit_bytes(const struct visit *v, hb_cell *write, hb_cell *read,
                        uint32_t at, uint32_t bytes)
{
    hb_cell_split(&v->s->pools, write);
    hb_cell *r = hb_cell_split(&v->s->pools, read);
    /* Only now: the second may move the first. */
    hb_cell *w = hb_cell_split(&v->s->pools, write);
    for (uint32_t i = at % 4; i < at % 4 + bytes; i++)
        if (!visit_cell(v, &w[i], &r[i], at / 4 * 4 + i, 1))
            return false;
    return true;
}

/* The bytes of one lane, in one block. */
static bool visit_words(const struct visit *v, struct hb_block *b, uint32_t at,
                        uint32_t bytes)
{
    uint32_t first = at % HB_BLOCK_BYTES / 4;
    if (bytes < 4)
        return visit_bytes(v, &b->write[first], &b->read[first], at, bytes);
    for (uint32_t i = first; i < first + bytes / 4; i++) {
        hb_cell *w = &b->write[i], *r = &b->read[i];
        uint32_t word = at / HB_BLOCK_BYTES * HB_BLOCK_BYTES + 4 * i;
        bool is_split = hb_cell_component(*w) == HB_CELL_SPLIT ||
                        hb_cell_component(*r) == HB_CELL_SPLIT;
        if (is_split ? !visit_bytes(v, w, r, word, 4) : !visit_cell(v, w, r, word, 4))
            return false;
        if (is_split && v->how != HB_READ &&
            !v->strong) { /* one writer for all four again */
            hb_cell_drop(&v->s->pools, *w);
            hb_cell_drop(&v->s->pools, *r);
            *w = v->stamp;
            *r = 0;
        }
    }
    return true;
}

/* ---- against asynchronous operations */

static bool event_before(const struct visit *v, const struct hb_event *e)
{
    return e->component != HB_PENDING &&
           hb_sees(&v->eye, HB_PLAIN, e->component, e->lanes, e->time);
}

/* An operation on from .. to that this access is not ordered with; NULL: none. */
static struct hb_seg *conflict_in(const struct visit *v, uint32_t from, uint32_t to,
                                  const struct hb_event **e, bool *unwritten)
{
    for (struct hb_seg *g = hb_seg_at(v->s, from); g && g->from < to; g = g->next) {
        *unwritten |= !g->write || g->write->slot_bytes;
        *e = g->write;
        if (*e && !event_before(v, *e))
            return g;
        for (int i = 0; v->how != HB_READ && i < g->read_count; i++) {
            *e = g->reads[i];
            if (!event_before(v, *e))
                return g;
        }
    }
    return NULL;
}

static bool check_ranges(struct visit *v, const uint32_t *offset, uint32_t lanes,
                         uint32_t bytes, uint32_t low, uint32_t high)
{
    const struct hb_event *e;
    struct warp *w = v->w;
    v->unwritten = false;
    bool several = (w->hb->some_lanes & lanes) != 0;
    if (!several && !conflict_in(v, low, high + bytes, &e, &v->unwritten))
        return true;
    v->unwritten = true;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t lane = (uint32_t)bits_lowest(rest), at = offset[lane];
        bool ignored = false;
        v->eye = hb_eye(w, lane);
        if (!conflict_in(v, at, at + bytes, &e, &ignored))
            continue;
        w->cur_lanes = (uint32_t)1 << lane;
        if (!hb_blame_range(w, v->s->cta, at, at + bytes, v->how, e))
            return false;
        w->cur_lanes = lanes;
        break;
    }
    return true;
}

/* ---- generic accesses */

static struct visit begin(struct warp *w, struct cta *t, uint32_t lane,
                          enum hb_access how)
{
    struct visit v = {
        .w = w,
        .s = &t->cluster->hb->smem[t->rank],
        .eye = hb_eye(w, lane),
        .how = how,
        .strong = hb_meaning(w)->strong,
    };
    return v;
}

bool hb_smem_access(struct warp *w, struct cta *t, const uint32_t *offset,
                    uint32_t lanes, uint32_t bytes, enum hb_access how)
{
    struct visit v = begin(w, t, (uint32_t)bits_lowest(lanes), how);
    uint32_t low = UINT32_MAX, high = 0, saved = w->cur_lanes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t at = offset[bits_lowest(rest)];
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    if (!check_ranges(&v, offset, lanes, bytes, low, high))
        return false;
    hb_cell stamp =
        hb_cell_make(hb_now(w->hb), w->hb->component[HB_WARP], 0, v.strong, w->cur_pc);
    bool several = (w->hb->some_lanes & lanes) != 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t lane = (uint32_t)bits_lowest(rest);
        w->cur_lanes = (uint32_t)1 << lane;
        v.stamp = stamp | (uint64_t)lane << 18;
        if (several)
            v.eye = hb_eye(w, lane);
        v.eye.lane = lane;
        if (!visit_words(&v, hb_block(v.s, offset[lane]), offset[lane], bytes))
            return false;
    }
    w->cur_lanes = saved;
    if (how != HB_READ)
        hb_next(w->hb);
    if (t != w->cta)
        hb_visits(w, t, lanes);
    return !v.strong || hb_smem_flags(w, t, offset, lanes, how);
}

bool hb_smem_range(struct warp *w, struct cta *t, uint32_t from, uint32_t to, int lane,
                   enum hb_access how)
{
    struct visit v = begin(w, t, (uint32_t)lane, how);
    const struct hb_event *e;
    v.stamp = hb_cell_make(hb_now(w->hb), w->hb->component[HB_WARP], (uint32_t)lane,
                           v.strong, w->cur_pc);
    if (conflict_in(&v, from, to, &e, &v.unwritten) &&
        !hb_blame_range(w, t, from, to, how, e))
        return false;
    for (uint32_t at = from; at < to; at += 4)
        if (!visit_words(&v, hb_block(v.s, at), at, 4))
            return false;
    return true;
}

bool hb_smem_copies(struct warp *w, const uint32_t *offset, const uint32_t *number,
                    uint32_t lanes, uint32_t bytes)
{
    struct visit v = begin(w, w->cta, (uint32_t)bits_lowest(lanes), HB_WRITE);
    uint32_t component = hb_component(w, HB_COPIES);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t lane = (uint32_t)bits_lowest(rest), at = offset[lane];
        const struct hb_event *e;
        bool ignored = false;
        v.eye = hb_eye(w, lane);
        v.stamp = hb_cell_make(number[lane], component, lane, false, w->cur_pc);
        w->hb->copies[lane] = (struct hb_bulk){number[lane], w->cur_pc};
        w->cur_lanes = (uint32_t)1 << lane;
        if ((conflict_in(&v, at, at + bytes, &e, &ignored) &&
             !hb_blame_range(w, w->cta, at, at + bytes, HB_WRITE, e)) ||
            !visit_words(&v, hb_block(v.s, at), at, bytes))
            return false;
    }
    w->cur_lanes = lanes;
    return true;
}
