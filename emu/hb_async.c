/* hb_async.c - bulk copies, tcgen05 operations: what they touch, and against whom. */
#include "emu/hb.h"
#include "emu/report.h"

#include <stdlib.h>

/* ---- events */

static struct hb_event *event_new(struct hb *h)
{
    struct hb_event *e = h->spare_events;
    if (e)
        h->spare_events = e->next;
    else if (!(e = malloc(sizeof *e)))
        abort();
    *e = (struct hb_event){.component = HB_PENDING, .uses = 1};
    return e;
}

struct hb_event *hb_event_keep(struct hb_event *e)
{
    if (e)
        e->uses++;
    return e;
}

void hb_event_drop(struct hb *h, struct hb_event *e)
{
    if (!e || --e->uses > 0)
        return;
    if (e->know) {
        hb_know_free(e->know);
        free(e->know);
    }
    e->next = h->spare_events;
    h->spare_events = e;
}

void hb_events_free(struct hb *h)
{
    while (h->spare_events) {
        struct hb_event *e = h->spare_events;
        h->spare_events = e->next;
        free(e);
    }
}

static bool is_piped(enum async_kind kind)
{
    return kind == ASYNC_MMA || kind == ASYNC_TC_CP;
}

static void fill_event(struct hb_event *e, const struct async_op *o)
{
    struct warp *w = o->issuer;
    e->kind = o->kind;
    e->pc = o->pc;
    e->warp = w;
    e->lane = o->lane;
    e->reduces = o->reduces;
    e->slot_bytes = o->slot_bytes;
    switch (o->kind) {
    case ASYNC_COPY_IN:
        return; /* hb_mbar_bytes() says when */
    case ASYNC_COPY_OUT:
        e->component = hb_component(w, HB_BULK_READS);
        break;
    case ASYNC_MMA:
    case ASYNC_TC_CP:
    case ASYNC_COMMIT:
        e->component = hb_component(w, HB_PIPE);
        break;
    case ASYNC_WGMMA:
        e->component = hb_component(w, HB_WGMMA);
        break;
    case ASYNC_CP:
        e->component = hb_component(w, HB_COPIES);
        break;
    }
    e->lanes = o->lanes;
    e->time = o->number;
}

/* A commit tells what its pipe has done, and what had been fenced into the asynchronous
 * proxy before: that is what its operations could build upon. */
static void fill_commit(struct hb_event *e, const struct async_op *o)
{
    struct hb_eye eye = hb_eye(o->issuer, (uint32_t)o->lane);
    e->know = calloc(1, sizeof *e->know);
    if (!e->know)
        abort();
    for (int i = 0; i < HB_PROXIES; i++) {
        enum hb_proxy p = i == HB_PLAIN ? HB_ASYNC_SHARED : (enum hb_proxy)i;
        hb_clock_join(&e->know->of[i], &eye.all->of[p]);
        if (eye.some)
            hb_clock_join(&e->know->of[i], &eye.some->of[p]);
    }
}

/* ---- one range */

struct pass {
    struct async_op *o;
    struct warp *w;
    struct hb_eye eye;
    struct hb_smem *s;
    struct hb_event *event;
    bool is_generic; /* asynchronous, but no bulk copy: st.async, red.async */
    struct smem_range range;
};

static bool event_before(const struct pass *x, const struct hb_event *e)
{
    if (e == x->event || (e->reduces && x->o->reduces))
        return true;
    if (is_piped(e->kind) && is_piped(x->o->kind) && e->warp == x->w &&
        e->lane == x->o->lane)
        return true;
    return e->component != HB_PENDING &&
           hb_sees(&x->eye, HB_PLAIN, e->component, e->lanes, e->time);
}

static bool check_segment(const struct pass *x, const struct hb_seg *g)
{
    const struct hb_event *e = g->write;
    if (e && !event_before(x, e))
        return hb_blame_async(x->w, x->o, x->range.cta, g->from, g->to, x->range.write,
                              e);
    for (int i = 0; x->range.write && i < g->read_count; i++)
        if (!event_before(x, g->reads[i]))
            return hb_blame_async(x->w, x->o, x->range.cta, g->from, g->to, true,
                                  g->reads[i]);
    return true;
}

/* Generic accesses: ordered at all, and with a fence between?  `wrote`: c is of a
 * write.
 */
static bool check_party(const struct pass *x, uint32_t at, struct hb_party p,
                        bool wrote)
{
    uint32_t others = p.lanes;
    if (p.component == x->eye.self->component[HB_WARP])
        others &= ~((uint32_t)1 << x->eye.lane);
    if (others && !hb_sees(&x->eye, HB_PLAIN, p.component, others, p.time))
        return hb_blame_proxy(x->w, x->o, x->range.cta, at, x->range.write, &p, wrote,
                              false);
    if (!x->is_generic &&
        !hb_sees(&x->eye, HB_ASYNC_SHARED, p.component, p.lanes, p.time))
        return hb_blame_proxy(x->w, x->o, x->range.cta, at, x->range.write, &p, wrote,
                              true);
    return true;
}

static bool check_cell(const struct pass *x, uint32_t at, hb_cell c, bool wrote)
{
    const struct hb_readers *pools = &x->s->pools;
    uint32_t kind = hb_cell_component(c);
    if (kind == HB_CELL_SPLIT) {
        for (uint32_t i = 0; i < 4; i++) {
            hb_cell byte = pools->split[hb_cell_time(c)].byte[i];
            if (byte && !check_cell(x, at + i, byte, wrote))
                return false;
        }
        return true;
    }
    if (kind == HB_CELL_LIST) {
        for (uint32_t i = hb_cell_time(c); i; i = pools->reader[i].next) {
            const struct hb_reader *r = &pools->reader[i];
            struct hb_party p = {r->component, r->lanes, r->time, r->pc, NULL};
            if (!check_party(x, at, p, wrote))
                return false;
        }
        return true;
    }
    struct hb_party p = {kind, (uint32_t)1 << hb_cell_lane(c), hb_cell_time(c),
                         hb_cell_pc(c), NULL};
    return check_party(x, at, p, wrote);
}

static bool check_cells(const struct pass *x, const struct hb_block *b, uint32_t block,
                        uint32_t from, uint32_t to)
{
    hb_cell last_write = 0, last_read = 0;
    uint32_t base = block * HB_BLOCK_BYTES;
    for (uint32_t i = (from - base) / 4; i < (to - base + 3) / 4; i++) {
        hb_cell w = b->write[i], r = x->range.write ? b->read[i] : 0;
        if (w && w != last_write && !check_cell(x, base + 4 * i, w, true))
            return false;
        if (r && r != last_read && !check_cell(x, base + 4 * i, r, false))
            return false;
        last_write = w;
        last_read = r;
    }
    return true;
}

static bool is_written(const struct hb_smem *s, uint32_t from, uint32_t to,
                       uint32_t *at)
{
    for (*at = from; *at < to; *at += 4) {
        const struct hb_block *b = s->blocks[*at / HB_BLOCK_BYTES];
        if (!b || !b->write[*at % HB_BLOCK_BYTES / 4])
            return false;
    }
    return true;
}

static bool check_range(const struct pass *x)
{
    uint32_t from = x->range.from, to = x->range.to, at;
    for (const struct hb_seg *g = hb_seg_at(x->s, from); g && g->from < to;
         g = g->next) {
        if (!check_segment(x, g))
            return false;
        uint32_t low = g->from > from ? g->from : from, high = g->to < to ? g->to : to;
        if (!g->write && !x->range.write && !is_written(x->s, low, high, &at) &&
            !hb_blame_unwritten(x->w, x->range.cta, at, 4, x->o))
            return false;
    }
    for (uint32_t low = from; low < to;) {
        uint32_t block = low / HB_BLOCK_BYTES, end = (block + 1) * HB_BLOCK_BYTES;
        end = end < to ? end : to;
        const struct hb_block *b = x->s->blocks[block];
        if (b && !check_cells(x, b, block, low, end))
            return false;
        low = end;
    }
    return true;
}

static void note_range(const struct pass *x)
{
    uint32_t from = x->range.from, to = x->range.to;
    if (x->range.write) {
        hb_seg_write(x->s, from, to, x->event);
        hb_cells_clear(x->s, from, to);
        return;
    }
    hb_seg_split(x->s, from);
    hb_seg_split(x->s, to);
    for (struct hb_seg *g = hb_seg_at(x->s, from); g && g->from < to; g = g->next)
        hb_seg_read(x->s, g, x->event);
}

bool hb_async_issue(struct async_op *o)
{
    struct warp *w = o->issuer;
    struct hb *h = w->cta->cluster->hb;
    o->event = event_new(h);
    fill_event(o->event, o);
    if (o->kind == ASYNC_COMMIT)
        fill_commit(o->event, o);
    if (o->kind == ASYNC_CP || o->kind == ASYNC_COMMIT)
        return true;
    struct pass x = {
        .o = o, .w = w, .eye = hb_eye(w, (uint32_t)o->lane), .event = o->event};
    const struct ptx_insn *insn = w->cta->cluster->grid->kernel->ops[o->pc].insn;
    enum ptx_op op = insn->op;
    x.is_generic = op == PTX_ST_ASYNC || op == PTX_RED_ASYNC ||
                   (op == PTX_CLUSTERLAUNCHCONTROL_TRY_CANCEL &&
                    !ptx_has(insn, PTX_M_MULTICAST_CLUSTER_ALL));
    for (int i = 0; i < o->range_count; i++) {
        x.range = o->ranges[i];
        x.s = &h->smem[x.range.cta->rank];
        if (x.range.from < x.range.to && !check_range(&x))
            return false;
    }
    for (int i = 0; i < o->range_count; i++) {
        x.range = o->ranges[i];
        x.s = &h->smem[x.range.cta->rank];
        if (x.range.from < x.range.to)
            note_range(&x);
    }
    hb_mbar_acts(w);
    return true;
}

void hb_async_gone(struct cluster *c, struct async_op *o)
{
    if (o->event)
        hb_event_drop(c->hb, o->event);
    o->event = NULL;
}

/* ---- waits of the issuer */

void hb_bulk_issued(struct warp *w, uint32_t lanes, uint32_t group)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        w->hb->bulk[bits_lowest(rest)] = (struct hb_bulk){group, w->cur_pc};
}

void hb_bulk_waited(struct warp *w, uint32_t lanes, const uint32_t *closed,
                    uint32_t left_open, bool all)
{
    uint32_t rest = lanes;
    while (rest) {
        /* Lanes that have closed the same number of groups learn together. */
        uint32_t count = closed[bits_lowest(rest)], same = 0;
        for (uint32_t k = rest; k; k &= k - 1)
            if (closed[bits_lowest(k)] == count)
                same |= k & (0u - k);
        rest &= ~same;
        if (count <= left_open)
            continue;
        uint32_t of = same | w->hb->absent;
        hb_learn(w, same, hb_component(w, HB_BULK_READS), of, count - left_open);
        if (all)
            hb_learn(w, same, hb_component(w, HB_BULK_WRITES), of, count - left_open);
    }
}
