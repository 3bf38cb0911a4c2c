/* async.c - work that goes on behind the program's back, and when it completes.
 *
 * Eager: an operation runs when it is issued.  Lazy: it runs when nothing else can,
 * oldest first.  Other strategies lie between.  Whether somebody may touch its bytes
 * meanwhile, and afterwards, is judged when it is issued (hb_async.c), for all
 * schedules alike. */
#include "emu/choice.h"
#include "emu/cluster.h"
#include "emu/hb.h"
#include "emu/launch_control.h"
#include "emu/report.h"
#include "emu/timeline.h"

#include <stdlib.h>

/* Of a cluster.  Then the oldest completes, whatever the strategy: a program that
 * issues and never waits must not take all memory. */
#define MOST_PENDING 16384

static bool overlap(const struct smem_range *r, const struct cta *c, uint32_t from,
                    uint32_t to)
{
    return r->cta == c && from < r->to && to > r->from;
}

/* ---- where unread answers of launch control lie */

static void rewatch(struct cluster *k)
{
    for (int i = 0; i < k->cta_count; i++) {
        k->ctas[i].watch_from = UINT32_MAX;
        k->ctas[i].watch_to = 0;
        answers_watch(&k->ctas[i], &k->ctas[i].watch_from, &k->ctas[i].watch_to);
    }
}

void async_forget(struct cluster *k)
{
    while (k->async_first) {
        struct async_op *o = k->async_first;
        k->async_first = o->next;
        if (o->kind == ASYNC_CP)
            free(o->arg.p[0]);
        hb_async_gone(k, o);
        free(o);
    }
    k->async_tail = &k->async_first;
    k->async_pending = 0;
    k->running = NULL;
    rewatch(k);
}

void async_free(struct cluster *k)
{
    async_forget(k);
    while (k->async_free) {
        struct async_op *o = k->async_free;
        k->async_free = o->next;
        free(o);
    }
}

/* ---- order */

/* Operations of one FIFO, and cp.async of one warp, are in order with each other; for
 * reductions order does not matter. */
static bool ordered(const struct async_op *older, const struct async_op *o)
{
    if (older->in_order && o->in_order && older->issuer->cta == o->issuer->cta)
        return true;
    if (older->reduces && o->reduces)
        return true;
    return older->kind == ASYNC_CP && o->kind == ASYNC_CP && older->issuer == o->issuer;
}

void async_read_answers(struct cta *c, uint32_t from, uint32_t to)
{
    answers_read(c, from, to);
}

/* ---- issue and completion */

struct async_op *async_new(struct warp *w, enum async_kind kind, int lane)
{
    struct cluster *k = w->cta->cluster;
    struct async_op *o = k->async_free;
    if (o) {
        k->async_free = o->next;
        memset(o, 0, sizeof *o);
    } else {
        o = calloc(1, sizeof *o);
        if (!o)
            abort();
    }
    o->kind = kind;
    o->issuer = w;
    o->pc = w->cur_pc;
    o->lane = lane;
    o->id = k->async_count++;
    return o;
}

void async_touch(struct async_op *o, struct cta *c, uint32_t from, uint32_t to,
                 bool write)
{
    struct smem_range *last = o->range_count ? &o->ranges[o->range_count - 1] : NULL;
    if (last && last->cta == c && last->write == write && from <= last->to &&
        to >= last->from) {
        last->from = from < last->from ? from : last->from;
        last->to = to > last->to ? to : last->to;
        return;
    }
    if (o->range_count < ASYNC_MAX_RANGES) {
        o->ranges[o->range_count++] = (struct smem_range){c, from, to, write};
        return;
    }
    /* Full: widen the nearest one, which may see a conflict where there is none only
     * if a kernel scatters one operation over more than 20 places. */
    for (int i = 0; i < o->range_count; i++) {
        struct smem_range *r = &o->ranges[i];
        if (r->cta == c && r->write == write) {
            r->from = from < r->from ? from : r->from;
            r->to = to > r->to ? to : r->to;
            return;
        }
    }
}

static void recycle(struct cluster *k, struct async_op *o)
{
    if (o->kind == ASYNC_CP)
        free(o->arg.p[0]);
    hb_async_gone(k, o);
    o->next = k->async_free;
    k->async_free = o;
}

void async_drop(struct async_op *o)
{
    recycle(o->issuer->cta->cluster, o);
}

static bool run(struct cluster *k, struct async_op *o)
{
    struct warp *w = o->issuer;
    uint32_t pc = w->cur_pc, lanes = w->cur_lanes;
    struct async_op *outer = k->running;
    for (int writes = 0; k->coverage && writes < 2; writes++)
        for (int i = 0; i < o->range_count; i++)
            if (o->ranges[i].write == (writes == 1))
                coverage_touch(o->ranges[i].cta, o->pc, o->ranges[i].from,
                               o->ranges[i].to, writes == 1);
    w->cur_pc = o->pc;
    w->cur_lanes = (uint32_t)1 << o->lane;
    k->running = o;
    timeline_complete(o);
    bool ok = o->run(o);
    k->running = outer;
    if (ok) {
        w->cur_pc = pc;
        w->cur_lanes = lanes;
    }
    cluster_event(k);
    recycle(k, o);
    return ok;
}

/* Must `older` be complete before `o` may be? */
static bool comes_first(const struct async_op *older, const struct async_op *o)
{
    if (ordered(older, o))
        return true;
    for (int i = 0; i < older->range_count; i++)
        for (int j = 0; j < o->range_count; j++) {
            const struct smem_range *a = &older->ranges[i], *b = &o->ranges[j];
            if ((a->write || b->write) && overlap(a, b->cta, b->from, b->to))
                return true;
        }
    return false;
}

struct async_op *async_front_of(struct cluster *k, struct async_op *o)
{
    for (struct async_op *p = k->async_first; p && p != o; p = p->next)
        if (comes_first(p, o))
            return async_front_of(k, p);
    return o;
}

static bool is_held(struct cluster *k, const struct async_op *o)
{
    const struct rule *r = &k->grid->rule;
    return o->kind == (enum async_kind)r->op && ++k->delay_count == r->number;
}

/* Does it complete here and now? */
static bool completes_at_once(struct cluster *k, struct async_op *o)
{
    switch (k->grid->strategy) {
    case STRATEGY_EAGER:
    case STRATEGY_STARVE:
        return true;
    case STRATEGY_DELAY:
        o->is_held = is_held(k, o);
        return !o->is_held && async_front_of(k, o) == o;
    default:
        return false;
    }
}

static bool complete(struct cluster *k, struct async_op **link)
{
    struct async_op *o = *link;
    k->async_pending--;
    *link = o->next;
    if (!o->next)
        k->async_tail = link;
    o->next = NULL;
    return run(k, o);
}

bool async_complete(struct cluster *k, struct async_op *o)
{
    struct async_op **p = &k->async_first;
    while (*p && *p != o)
        p = &(*p)->next;
    return *p && complete(k, p);
}

/* Behind one that was held back, all that waited for it complete. */
static bool release(struct cluster *k)
{
    for (struct async_op *o = k->async_first; o;) {
        if (o->is_held || async_front_of(k, o) != o) {
            o = o->next;
            continue;
        }
        if (!async_complete(k, o))
            return false;
        o = k->async_first;
    }
    return true;
}

static bool complete_oldest(struct cluster *k)
{
    return complete(k, &k->async_first) &&
           (k->grid->strategy != STRATEGY_DELAY || release(k));
}

bool async_issue(struct async_op *o)
{
    struct cluster *k = o->issuer->cta->cluster;
    for (int i = 0; i < o->range_count; i++)
        async_check_access(o->ranges[i].cta, o->ranges[i].from, o->ranges[i].to,
                           o->ranges[i].write);
    if (o->issuer->hb && !hb_async_issue(o)) {
        recycle(k, o);
        return false;
    }
    choice_issued(o);
    timeline_issue(o);
    if (completes_at_once(k, o))
        return run(k, o);
    *k->async_tail = o;
    k->async_tail = &o->next;
    return ++k->async_pending <= MOST_PENDING || complete_oldest(k);
}

static struct async_op *newest(struct cluster *k)
{
    struct async_op *last = k->async_first;
    while (last->next)
        last = last->next;
    return async_front_of(k, last);
}

bool async_step(struct cluster *k)
{
    if (!k->async_first)
        return false;
    if (k->grid->strategy == STRATEGY_REVERSE)
        return async_complete(k, newest(k));
    return complete_oldest(k);
}

/* Completes `o` and, before it, all that must come first.  An operation may complete
 * others while it runs only through program threads, which do not run meanwhile. */
static bool complete_with_older(struct cluster *k, struct async_op *o)
{
    for (;;) {
        struct async_op *front = async_front_of(k, o);
        bool is_last = front == o;
        if (!async_complete(k, front))
            return false;
        if (is_last)
            return true;
    }
}

bool async_drain(struct cluster *k, bool (*wanted)(const struct async_op *, void *),
                 void *arg)
{
    struct async_op *o = k->async_first;
    while (o) {
        if (!wanted(o, arg)) {
            o = o->next;
            continue;
        }
        if (!complete_with_older(k, o))
            return false;
        o = k->async_first;
    }
    return true;
}
