/* async.c - work that goes on behind the program's back, and when it completes.
 *
 * Eager: an operation runs when it is issued, a legal schedule that hides nothing but
 * missing waits for data; for these the bytes of a completed copy stay on record until
 * some wait has returned true for the phase that they belong to.  Lazy: it runs when
 * nothing else can, oldest first; until then its bytes may not be touched. */
#include "emu/choice.h"
#include "emu/cluster.h"
#include "emu/launch_control.h"
#include "emu/report.h"

#include <stdlib.h>

/* A completed copy that no wait has shown to anybody yet. */
struct smem_record {
    struct smem_range range;
    const struct mbar *mbar;
    uint64_t phase; /* of the barrier, that the bytes belong to */
    struct warp *issuer;
    uint32_t pc;
    bool reduces;
    struct smem_record *next;
};

static bool overlap(const struct smem_range *r, const struct cta *c, uint32_t from,
                    uint32_t to)
{
    return r->cta == c && from < r->to && to > r->from;
}

/* ---- the watched part of each CTA's shared memory */

static void watch(struct cta *c, uint32_t from, uint32_t to)
{
    if (from < c->watch_from)
        c->watch_from = from;
    if (to > c->watch_to)
        c->watch_to = to;
}

static void rewatch(struct cluster *k)
{
    for (int i = 0; i < k->cta_count; i++) {
        k->ctas[i].watch_from = UINT32_MAX;
        k->ctas[i].watch_to = 0;
        answers_watch(&k->ctas[i], &k->ctas[i].watch_from, &k->ctas[i].watch_to);
    }
    for (const struct async_op *o = k->async_first; o; o = o->next)
        for (int i = 0; i < o->range_count; i++)
            watch(o->ranges[i].cta, o->ranges[i].from, o->ranges[i].to);
    for (const struct smem_record *r = k->records; r; r = r->next)
        watch(r->range.cta, r->range.from, r->range.to);
}

/* ---- records of eager copies */

static bool is_seen(const struct smem_record *r)
{
    return !r->mbar->valid || r->mbar->phase > r->phase + 1 ||
           (r->mbar->phase == r->phase + 1 && r->mbar->observed);
}

static void drop_seen(struct cluster *k)
{
    bool dropped = false;
    for (struct smem_record **p = &k->records; *p;) {
        struct smem_record *r = *p;
        if (!is_seen(r)) {
            p = &r->next;
            continue;
        }
        *p = r->next;
        free(r);
        dropped = true;
    }
    if (dropped)
        rewatch(k);
}

void async_completes(struct warp *w, const struct mbar *m)
{
    struct cluster *k = w->cta->cluster;
    const struct async_op *o = k->running;
    if (!o || o->kind != ASYNC_COPY_IN || k->grid->no_checks ||
        strategy_is_late(k->grid->strategy))
        return;
    for (int i = 0; i < o->range_count; i++) {
        const struct smem_range *range = &o->ranges[i];
        /* A pair's loads signal the even CTA's barrier for both. */
        if (!range->write || (range->cta->rank | 1) != (m->cta->rank | 1))
            continue;
        struct smem_record *r = calloc(1, sizeof *r);
        if (!r)
            abort();
        *r = (struct smem_record){*range, m,          m->phase,  o->issuer,
                                  o->pc,  o->reduces, k->records};
        k->records = r;
        watch(range->cta, range->from, range->to);
    }
}

void async_forget(struct cluster *k)
{
    while (k->records) {
        struct smem_record *r = k->records;
        k->records = r->next;
        free(r);
    }
    while (k->async_first) {
        struct async_op *o = k->async_first;
        k->async_first = o->next;
        if (o->kind == ASYNC_CP)
            free(o->arg.p[0]);
        free(o);
    }
    k->async_tail = &k->async_first;
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

/* ---- conflicts */

static const char *kind_name(enum async_kind kind)
{
    switch (kind) {
    case ASYNC_COPY_IN:
        return "copy into shared memory";
    case ASYNC_COPY_OUT:
        return "store from shared memory";
    case ASYNC_MMA:
        return "mma";
    case ASYNC_TC_CP:
        return "tcgen05.cp";
    case ASYNC_COMMIT:
        return "commit";
    case ASYNC_CP:
        return "cp.async";
    }
    return "operation";
}

static bool blame_record(struct warp *w, const struct smem_record *r, uint32_t from,
                         uint32_t to, bool write)
{
    struct grid *g = w->cta->cluster->grid;
    char place[512];
    report(g, w, write ? CHECK_STAGE_OVERWRITTEN : CHECK_UNFINISHED_COPY,
           "shared bytes 0x%x to 0x%x of block (%u,%u,%u) are %s before anybody has "
           "waited for the copy that fills them",
           from, to, r->range.cta->id[0], r->range.cta->id[1], r->range.cta->id[2],
           write ? "overwritten" : "read");
    report_note(g, "the copy: %s",
                report_issuer(r->issuer, r->pc, place, sizeof place));
    report_note(g,
                "it signals the barrier at 0x%x (initialised in line %d); no wait has "
                "returned true for its phase %llu",
                r->mbar->offset, r->mbar->init_line, (unsigned long long)r->phase);
    return false;
}

static bool blame_pending(struct warp *w, const struct async_op *o,
                          const struct smem_range *r, uint32_t from, uint32_t to,
                          bool write)
{
    struct grid *g = w->cta->cluster->grid;
    char place[512];
    enum check check = !write                      ? CHECK_UNFINISHED_COPY
                       : o->kind == ASYNC_COPY_OUT ? CHECK_STORE_SOURCE
                                                   : CHECK_STAGE_OVERWRITTEN;
    report(
        g, w, check,
        "shared bytes 0x%x to 0x%x of block (%u,%u,%u) are %s while a pending %s still "
        "%s 0x%x to 0x%x",
        from, to, r->cta->id[0], r->cta->id[1], r->cta->id[2],
        write ? "written" : "read", kind_name(o->kind), r->write ? "writes" : "reads",
        r->from, r->to);
    report_note(g, "the pending one: %s",
                report_issuer(o->issuer, o->pc, place, sizeof place));
    return false;
}

/* Operations of one FIFO, and cp.async of one warp, are in order with each other; for
 * reductions order does not matter. */
static bool ordered(const struct async_op *older, const struct async_op *o)
{
    if (!o)
        return false;
    if (older->in_order && o->in_order && older->issuer->cta == o->issuer->cta)
        return true;
    if (older->reduces && o->reduces)
        return true;
    return older->kind == ASYNC_CP && o->kind == ASYNC_CP && older->issuer == o->issuer;
}

/* The new party is the operation `o`, or a generic access when it is NULL. */
static bool check_range(struct warp *w, const struct async_op *o, struct cta *c,
                        uint32_t from, uint32_t to, bool write)
{
    struct cluster *k = c->cluster;
    if (!write)
        answers_read(c, from, to);
    if (k->grid->no_checks)
        return true;
    for (const struct async_op *p = k->async_first; p; p = p->next) {
        if (ordered(p, o))
            continue;
        for (int i = 0; i < p->range_count; i++) {
            const struct smem_range *r = &p->ranges[i];
            if ((write || r->write) && overlap(r, c, from, to))
                return blame_pending(w, p, r, from, to, write);
        }
    }
    if (!k->records)
        return true;
    for (const struct smem_record *r = k->records; r; r = r->next) {
        if (!overlap(&r->range, c, from, to) || (o && o->reduces && r->reduces))
            continue;
        if (!is_seen(r))
            return blame_record(w, r, from, to, write);
    }
    drop_seen(k);
    return true;
}

bool async_check_pending(struct warp *w, struct cta *c, uint32_t from, uint32_t to,
                         bool write)
{
    return check_range(w, NULL, c, from, to, write);
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
    w->cur_pc = o->pc;
    w->cur_lanes = (uint32_t)1 << o->lane;
    k->running = o;
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

bool async_issue(struct async_op *o)
{
    struct cluster *k = o->issuer->cta->cluster;
    bool ok = true;
    for (int i = 0; ok && i < o->range_count; i++) {
        struct smem_range *r = &o->ranges[i];
        if (r->from < r->cta->watch_to && r->to > r->cta->watch_from)
            ok = check_range(o->issuer, o, r->cta, r->from, r->to, r->write);
    }
    if (!ok) {
        recycle(k, o);
        return false;
    }
    choice_issued(o);
    if (completes_at_once(k, o))
        return run(k, o);
    *k->async_tail = o;
    k->async_tail = &o->next;
    for (int i = 0; i < o->range_count; i++)
        watch(o->ranges[i].cta, o->ranges[i].from, o->ranges[i].to);
    return true;
}

static bool complete(struct cluster *k, struct async_op **link)
{
    struct async_op *o = *link;
    *link = o->next;
    if (!o->next)
        k->async_tail = link;
    o->next = NULL;
    rewatch(k);
    return run(k, o);
}

bool async_complete(struct cluster *k, struct async_op *o)
{
    struct async_op **p = &k->async_first;
    while (*p != o)
        p = &(*p)->next;
    return complete(k, p);
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
    bool ok = complete(k, &k->async_first);
    return ok && (k->grid->strategy != STRATEGY_DELAY || release(k));
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
