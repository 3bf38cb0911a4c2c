/* exec_bar.c - named barriers of a CTA (bar, barrier) and the barrier of the cluster.
 *
 * PTX ISA 9.0, "bar, barrier", "barrier.cluster", "exit".  Lanes arrive; a warp all of
 * whose live lanes have arrived counts as 32 threads.  Without a count the barrier
 * waits for all threads that have not exited; a count that is stated is not lowered by
 * exits. */
#include "emu/cluster.h"
#include "emu/depend.h"
#include "emu/hb.h"
#include "emu/lanes.h"
#include "emu/timeline.h"

#include <stdio.h>
#include <stdlib.h>

#define BARRIERS 16
#define MAX_WARPS 32

enum { AUX_KIND, AUX_COUNT, AUX_RED };
enum kind { KIND_SYNC, KIND_ARRIVE, KIND_RED };
enum red { RED_NONE, RED_POPC, RED_AND, RED_OR };

struct barrier {
    uint32_t count; /* threads; 0: all that live */
    bool active;    /* somebody has arrived in this generation */
    enum red red;
    uint32_t arrived[MAX_WARPS];
    uint32_t waiting[MAX_WARPS];
    uint32_t released[MAX_WARPS]; /* those lanes may go on */
    uint32_t sum, result;         /* of .red: lanes whose predicate is true */
};

struct barriers {
    struct barrier b[BARRIERS];
};

static struct barriers *of_cta(struct cta *t)
{
    if (!t->sync) {
        t->sync = calloc(1, sizeof(struct barriers));
        if (!t->sync)
            abort();
    }
    return t->sync;
}

/* ---- completion */

static uint32_t threads_in(const struct cta *t, const struct barrier *b)
{
    uint32_t threads = 0;
    for (int i = 0; i < t->warp_count; i++) {
        uint32_t a = b->arrived[i], live = t->warps[i].live;
        threads += a && (a & live) == live ? WARP_LANES : (uint32_t)bits_count(a);
    }
    return threads;
}

static bool is_complete(const struct cta *t, const struct barrier *b)
{
    if (!b->active)
        return false;
    if (b->count)
        return threads_in(t, b) >= b->count;
    for (int i = 0; i < t->warp_count; i++)
        if (t->warps[i].live & ~b->arrived[i])
            return false;
    return true;
}

static void release(struct cta *t, struct barrier *b)
{
    timeline_bar_release(t, (uint32_t)(b - ((struct barriers *)t->sync)->b));
    if (t->cluster->hb)
        hb_bar_release(t, (uint32_t)(b - ((struct barriers *)t->sync)->b), b->waiting);
    uint32_t total = 0;
    for (int i = 0; i < t->warp_count; i++)
        total += (uint32_t)bits_count(b->arrived[i]);
    b->result = b->red == RED_AND  ? b->sum == total
                : b->red == RED_OR ? b->sum != 0
                                   : b->sum;
    for (int i = 0; i < t->warp_count; i++) {
        struct warp *w = &t->warps[i];
        b->released[i] |= b->waiting[i];
        if (b->waiting[i])
            depend_passed_barrier(w);
        else
            w->syncs += b->arrived[i] != 0;
        wake(w, b->waiting[i] & w->parked);
        b->waiting[i] = b->arrived[i] = 0;
    }
    b->active = false;
    b->sum = 0;
    cluster_meeting(t->cluster);
}

/* A stated count is not lowered by exits: can so many still come?  `w` is the warp that
 * arrives or exits. */
static bool check_possible(struct warp *w, struct barrier *b)
{
    struct cta *t = w->cta;
    uint32_t possible = 0;
    for (int i = 0; i < t->warp_count; i++)
        if (b->arrived[i] || t->warps[i].live)
            possible += WARP_LANES;
    if (!b->active || possible >= b->count)
        return true;
    report(
        t->cluster->grid, w, CHECK_NAMED_BARRIER,
        "barrier %u waits for %u threads, and the others have exited: no more than %u "
        "can come",
        (unsigned)(b - ((struct barriers *)t->sync)->b), b->count, possible);
    report_mend(t->cluster->grid, "let all threads that are counted arrive before they "
                                  "exit, or count fewer");
    return false;
}

/* ---- bar, barrier */

static bool check_arrival(struct warp *w, const struct op *op, const struct barrier *b,
                          uint32_t number, uint32_t count, uint32_t lanes)
{
    struct grid *g = w->cta->cluster->grid;
    if (count % WARP_LANES || (op->aux[AUX_KIND] == KIND_ARRIVE && count == 0))
        report(g, w, CHECK_NAMED_BARRIER,
               "barrier %u with %u threads: the number must be a multiple of 32%s",
               number, count, op->aux[AUX_KIND] == KIND_ARRIVE ? " and not 0" : "");
    else if (b->arrived[w->index] & lanes)
        report(g, w, CHECK_NAMED_BARRIER,
               "warp %d arrives at barrier %u a second time (lanes 0x%x) before the "
               "others have come",
               w->index, number, b->arrived[w->index] & lanes);
    else if (b->active && b->count != count)
        report(g, w, CHECK_NAMED_BARRIER,
               "barrier %u is used for %u threads here, and for %u by those who have "
               "arrived (0: the whole block)",
               number, count, b->count);
    else if (b->active && b->red != (enum red)op->aux[AUX_RED])
        report(g, w, CHECK_NAMED_BARRIER,
               "barrier %u: .red is mixed with other instructions", number);
    else
        return true;
    return false;
}

static void put_result(struct warp *w, const struct op *op, uint32_t lanes,
                       const struct barrier *b)
{
    if (op->aux[AUX_RED] == RED_POPC)
        set_all32(w, &op->opnds[0], lanes, b->result);
    else if (op->aux[AUX_RED] != RED_NONE)
        set_mask(w, &op->opnds[0], lanes, b->result ? ALL_LANES : 0);
}

/* `back` have waited and go on; the others of the group have only just come. */
static enum flow split(struct warp *w, const struct op *op, uint32_t lanes,
                       uint32_t back)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        w->pc[lane] = back >> lane & 1 ? op->next : w->cur_pc;
    }
    return FLOW_JUMP;
}

static enum flow exec_barrier(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct cta *t = w->cta;
    int first = op->aux[AUX_KIND] == KIND_RED ? 1 : 0, lane = bits_lowest(lanes);
    uint32_t number = opnd_u32(w, &op->opnds[first], lane);
    uint32_t count = op->aux[AUX_COUNT] ? opnd_u32(w, &op->opnds[first + 1], lane) : 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int i = bits_lowest(rest);
        if (opnd_u32(w, &op->opnds[first], i) != number ||
            (op->aux[AUX_COUNT] && opnd_u32(w, &op->opnds[first + 1], i) != count))
            return report(t->cluster->grid, w, CHECK_DIVERGENCE,
                          "barrier number and count must be the same in all lanes");
    }
    if (number >= BARRIERS)
        return report(t->cluster->grid, w, CHECK_NAMED_BARRIER,
                      "there is no barrier %u: a block has 16", number);
    struct barrier *b = &of_cta(t)->b[number];
    uint32_t back = b->released[w->index] & lanes;
    if (back) {
        b->released[w->index] &= ~back;
        timeline_bar_pass(w, number);
        put_result(w, op, back, b);
        return back == lanes ? FLOW_NEXT : split(w, op, lanes, back);
    }
    uint32_t fresh = lanes & ~b->waiting[w->index];
    if (fresh) {
        if (!check_arrival(w, op, b, number, count, fresh))
            return FLOW_STOP;
        b->active = true;
        b->count = count;
        b->red = (enum red)op->aux[AUX_RED];
        b->arrived[w->index] |= fresh;
        timeline_bar_arrive(w, number);
        if (op->aux[AUX_RED] != RED_NONE)
            b->sum += (uint32_t)bits_count(
                opnd_mask(w, &op->opnds[op->opnd_count - 1]) & fresh);
        cluster_meeting(t->cluster);
        if (w->hb)
            hb_bar_arrive(w, number, fresh);
        if (op->aux[AUX_KIND] != KIND_ARRIVE)
            b->waiting[w->index] |= lanes;
        if (is_complete(t, b)) {
            release(t, b);
            b->released[w->index] &= ~lanes;
            if (op->aux[AUX_KIND] != KIND_ARRIVE) {
                depend_passed_barrier(w);
                timeline_bar_pass(w, number);
            }
            put_result(w, op, lanes, b);
            return FLOW_NEXT;
        }
        if (!check_possible(w, b))
            return FLOW_STOP;
        if (op->aux[AUX_KIND] == KIND_ARRIVE)
            return FLOW_NEXT;
    }
    return park_for(w, lanes, (struct wait){.kind = WAIT_BARRIER, .number = number});
}

static bool decode_barrier(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    o->aux[AUX_KIND] = ptx_has(i, PTX_M_ARRIVE) ? KIND_ARRIVE
                       : ptx_has(i, PTX_M_RED)  ? KIND_RED
                                                : KIND_SYNC;
    o->aux[AUX_RED] = o->aux[AUX_KIND] != KIND_RED ? RED_NONE
                      : ptx_has(i, PTX_M_POPC)     ? RED_POPC
                      : ptx_has(i, PTX_M_AND)      ? RED_AND
                                                   : RED_OR;
    o->exec = exec_barrier;
    bool red = o->aux[AUX_KIND] == KIND_RED;
    int least = red ? 3 : 1, most = red ? 4 : 2;
    if (!decode_want_count(d, o, least, most))
        return false;
    o->aux[AUX_COUNT] = o->opnd_count == most;
    if (!decode_want_reg(d, o, red ? 1 : 0, 32) ||
        (o->aux[AUX_COUNT] && !decode_want_reg(d, o, red ? 2 : 1, 32)))
        return false;
    return !red || (decode_want_reg(d, o, 0, o->aux[AUX_RED] == RED_POPC ? 32 : 1) &&
                    decode_want_reg(d, o, o->opnd_count - 1, 1));
}

bool decode_BAR(struct decoder *d, struct op *o)
{
    return decode_barrier(d, o);
}

bool decode_BARRIER(struct decoder *d, struct op *o)
{
    return decode_barrier(d, o);
}

const char *barrier_describe(const struct cta *t, uint32_t number, char *text,
                             size_t bytes)
{
    const struct barriers *all = t->sync;
    const struct barrier *b = &all->b[number];
    uint32_t need = b->count;
    for (int i = 0; !b->count && i < t->warp_count; i++)
        need += t->warps[i].live ? WARP_LANES : 0;
    int n = snprintf(text, bytes, "%u of %u threads have arrived, of warps",
                     threads_in(t, b), need);
    for (int i = 0; i < t->warp_count && n > 0 && (size_t)n < bytes; i++)
        if (b->arrived[i])
            n += snprintf(text + n, bytes - (size_t)n, " %d", i);
    return text;
}

bool barrier_has(const struct warp *w, uint32_t number)
{
    const struct barriers *all = w->cta->sync;
    return all && (w->live & ~all->b[number].arrived[w->index]) == 0;
}

/* ---- barrier.cluster: every live thread arrives once, then waits */

struct cluster_barrier {
    uint32_t *arrived; /* of each warp of each CTA: in this generation */
    uint32_t *passed;  /* may leave its wait: the generation has completed */
};

static size_t warps_of(const struct cluster *c)
{
    return (size_t)c->cta_count * (size_t)c->ctas[0].warp_count;
}

static struct cluster_barrier *of_cluster(struct cluster *c)
{
    struct cluster_barrier *b = c->sync;
    if (b)
        return b;
    b = c->sync = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->arrived = calloc(warps_of(c), sizeof *b->arrived);
    b->passed = calloc(warps_of(c), sizeof *b->passed);
    if (!b->arrived || !b->passed)
        abort();
    return b;
}

static size_t place_of(const struct warp *w)
{
    return (size_t)w->cta->rank * (size_t)w->cta->warp_count + (size_t)w->index;
}

/* Somebody may be the last one that was missing. */
static void try_release(struct cluster *c, struct cluster_barrier *b)
{
    uint32_t any = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            const struct warp *w = &c->ctas[i].warps[k];
            if (w->live & ~b->arrived[place_of(w)])
                return;
            any |= b->arrived[place_of(w)];
        }
    if (!any)
        return;
    timeline_bar_release(&c->ctas[0], BARRIERS);
    if (c->hb)
        hb_cluster_complete(c);
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            struct warp *w = &c->ctas[i].warps[k];
            b->passed[place_of(w)] |= b->arrived[place_of(w)] & w->live;
            b->arrived[place_of(w)] = 0;
            wake(w, b->passed[place_of(w)] & w->parked);
        }
    cluster_meeting(c);
}

static enum flow exec_cluster_arrive(struct warp *w, const struct op *op,
                                     uint32_t lanes)
{
    (void)op;
    struct cluster *c = w->cta->cluster;
    struct cluster_barrier *b = of_cluster(c);
    uint32_t again = (b->arrived[place_of(w)] | b->passed[place_of(w)]) & lanes;
    if (again)
        return report(c->grid, w, CHECK_CLUSTER_BARRIER,
                      "lanes 0x%x arrive at the cluster barrier again without a wait "
                      "between",
                      again);
    b->arrived[place_of(w)] |= lanes;
    timeline_bar_arrive(w, BARRIERS);
    if (w->hb)
        hb_cluster_arrive(w, lanes);
    cluster_meeting(c);
    try_release(c, b);
    return FLOW_NEXT;
}

static enum flow exec_cluster_wait(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    struct cluster *c = w->cta->cluster;
    struct cluster_barrier *b = of_cluster(c);
    uint32_t *passed = &b->passed[place_of(w)];
    uint32_t stray = lanes & ~(*passed | b->arrived[place_of(w)]);
    if (stray)
        return report(c->grid, w, CHECK_CLUSTER_BARRIER,
                      "lanes 0x%x wait at the cluster barrier without having arrived",
                      stray);
    if (lanes & ~*passed)
        return park_for(w, lanes, (struct wait){.kind = WAIT_CLUSTER});
    *passed &= ~lanes;
    timeline_bar_pass(w, BARRIERS);
    if (w->hb)
        hb_cluster_wait(w, lanes);
    depend_passed_barrier(w);
    return FLOW_NEXT;
}

bool decode_BARRIER_CLUSTER_ARRIVE(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_cluster_arrive;
    return true;
}

bool decode_BARRIER_CLUSTER_WAIT(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_cluster_wait;
    return true;
}

bool cluster_barrier_has(const struct warp *w)
{
    const struct cluster_barrier *b = w->cta->cluster->sync;
    return b && (w->live & ~b->arrived[place_of(w)]) == 0;
}

const char *cluster_barrier_describe(const struct cluster *c, char *text, size_t bytes)
{
    const struct cluster_barrier *b = c->sync;
    int arrived = 0, live = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            const struct warp *w = &c->ctas[i].warps[k];
            arrived += bits_count(b->arrived[place_of(w)] & w->live);
            live += bits_count(w->live);
        }
    snprintf(text, bytes, "%d of %d live threads have arrived", arrived, live);
    return text;
}

/* ---- exits, and the life of all this */

bool barriers_after_exit(struct warp *w)
{
    struct cta *t = w->cta;
    struct barriers *all = t->sync;
    for (int i = 0; all && i < BARRIERS; i++) {
        if (is_complete(t, &all->b[i]))
            release(t, &all->b[i]);
        else if (!check_possible(w, &all->b[i]))
            return false;
    }
    struct cluster_barrier *b = t->cluster->sync;
    if (b) {
        if (w->hb && ((b->passed[place_of(w)] | b->arrived[place_of(w)]) & ~w->live))
            hb_left_barrier(t);
        b->passed[place_of(w)] &= w->live;
        b->arrived[place_of(w)] &= w->live;
        try_release(t->cluster, b);
    }
    return true;
}

void barriers_reset(struct cluster *c)
{
    struct cluster_barrier *b = c->sync;
    if (b) {
        memset(b->arrived, 0, warps_of(c) * sizeof *b->arrived);
        memset(b->passed, 0, warps_of(c) * sizeof *b->passed);
    }
    for (int i = 0; i < c->cta_count; i++)
        if (c->ctas[i].sync)
            memset(c->ctas[i].sync, 0, sizeof(struct barriers));
}

size_t barriers_state(const struct cluster *c, uint8_t *to)
{
    const struct cluster_barrier *b = c->sync;
    size_t bytes = sizeof(struct barriers), words = warps_of(c) * sizeof(uint32_t);
    for (int i = 0; to && i < c->cta_count; i++, to += bytes)
        if (c->ctas[i].sync)
            memcpy(to, c->ctas[i].sync, bytes);
        else
            memset(to, 0, bytes);
    if (to && b) {
        memcpy(to, b->arrived, words);
        memcpy(to + words, b->passed, words);
    } else if (to) {
        memset(to, 0, 2 * words);
    }
    return bytes * (size_t)c->cta_count + 2 * words;
}

void barriers_free(struct cluster *c)
{
    struct cluster_barrier *b = c->sync;
    if (b) {
        free(b->arrived);
        free(b->passed);
        free(b);
    }
    for (int i = 0; i < c->cta_count; i++)
        free(c->ctas[i].sync);
}
