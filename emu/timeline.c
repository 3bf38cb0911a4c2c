#include "emu/timeline.h"
#include "emu/cluster.h"
#include "emu/role.h"
#include "emu/must.h"

#include <stdlib.h>

/* Cycles.  An SM moves 64 bytes a cycle from L2, and 128 a cycle inside; an MMA of
 * M = 128 takes N / 2 whatever its kind. */
enum {
    COST_ISSUE = 4,          /* any warp instruction: dependent issue */
    COST_SHARED = 24,        /* ld, st, atom of shared memory */
    COST_GLOBAL = 500,       /* ld, atom of global memory; stores are not waited for */
    COST_MBARRIER = 20,      /* arrive, wait */
    COST_BARRIER = 20,       /* bar.sync, from the last arrival */
    COST_CLUSTER = 180,      /* barrier.cluster likewise */
    COST_COPY_LATENCY = 700, /* of bulk copies, either way */
    COST_TMEM_LATENCY = 40,  /* of tcgen05.ld and st */
    COST_ALLOC = 200,        /* tcgen05.alloc, dealloc */
    COST_CP = 16,            /* tcgen05.cp */
    COST_COMMIT = 20,        /* arrival behind the pipe */
    L2_BYTES = 64,           /* a cycle */
    SM_BYTES = 128,
};

#define BARS 17       /* named barriers, and the cluster's */
#define GROUPS 32     /* newest bulk groups of a warp whose times are kept */
#define CLOCK_SHARE 1 /* a cycle is shown as a nanosecond */

struct clock_of_warp {
    uint64_t now, run_from;
    uint64_t tmem_done; /* tcgen05.ld and st so far */
    struct {
        uint64_t read, done;
    } groups[GROUPS];
    uint64_t stalls[STALL_COUNT];
};

struct clock_of_cta {
    uint64_t load_free, store_free, pipe_free;
    uint64_t bar_arrived[BARS], bar_done[BARS];
};

struct timeline {
    struct clock_of_warp *warps;
    struct clock_of_cta *ctas;
    uint64_t running; /* when the operation that completes now is done */
    enum stall running_kind;
    bool is_running;
    struct span *spans;
    int span_count;
    bool is_cut; /* there were more */
};

static struct timeline *of(const struct warp *w)
{
    return w->cta->cluster->timeline;
}

static uint32_t number_of(const struct warp *w)
{
    return w->cta->rank * (uint32_t)w->cta->warp_count + (uint32_t)w->index;
}

static struct clock_of_warp *clock_of(const struct warp *w)
{
    return &of(w)->warps[number_of(w)];
}

/* ---- spans */

static void add(struct timeline *t, struct span s)
{
    if (t->span_count == TIMELINE_EVENTS) {
        t->is_cut = true;
        return;
    }
    t->spans[t->span_count++] = s;
}

/* The warp stands still until `until`, if that is to come. */
static void stall(struct warp *w, uint64_t until, enum stall why)
{
    struct timeline *t = of(w);
    struct clock_of_warp *k = clock_of(w);
    if (until <= k->now)
        return;
    struct span s = {.cta = w->cta->rank, .warp = (uint32_t)w->index, .pc = w->cur_pc};
    if (k->now > k->run_from) {
        s.kind = SPAN_RUN;
        s.from = k->run_from;
        s.to = k->now;
        add(t, s);
    }
    s.kind = SPAN_WAIT;
    s.what = (uint32_t)why;
    s.from = k->now;
    s.to = until;
    add(t, s);
    k->stalls[why] += until - k->now;
    k->now = k->run_from = until;
}

/* ---- warps */

static uint64_t cost_of(const struct op *op)
{
    const struct ptx_insn *i = op->insn;
    switch (i->op) {
    case PTX_LD:
    case PTX_ATOM:
        return !op->visible ? COST_ISSUE
               : ptx_has(i, PTX_M_SHARED) || ptx_has(i, PTX_M_SHARED_CTA) ||
                       ptx_has(i, PTX_M_SHARED_CLUSTER)
                   ? COST_SHARED
                   : COST_GLOBAL;
    case PTX_ST:
    case PTX_LDMATRIX:
    case PTX_STMATRIX:
        return op->visible ? COST_SHARED : COST_ISSUE;
    case PTX_MBARRIER_ARRIVE:
    case PTX_MBARRIER_TRY_WAIT:
    case PTX_MBARRIER_TEST_WAIT:
        return COST_MBARRIER;
    case PTX_TCGEN05_ALLOC:
    case PTX_TCGEN05_DEALLOC:
        return COST_ALLOC;
    default:
        return COST_ISSUE;
    }
}

/* 32 lanes of 4 bytes in each column of a register. */
static uint64_t tmem_cycles(const struct ptx_insn *i)
{
    uint64_t registers = i->repeat > 0 ? (uint64_t)i->repeat : 1;
    return registers * WARP_LANES * 4 / SM_BYTES + COST_TMEM_LATENCY;
}

void timeline_step(struct warp *w, const struct op *op)
{
    struct timeline *t = of(w);
    if (!t)
        return;
    struct clock_of_warp *k = clock_of(w);
    k->now += cost_of(op);
    if (op->insn->op == PTX_TCGEN05_LD || op->insn->op == PTX_TCGEN05_ST) {
        uint64_t from = k->now > k->tmem_done ? k->now : k->tmem_done;
        k->tmem_done = from + tmem_cycles(op->insn);
    } else if (op->insn->op == PTX_TCGEN05_WAIT) {
        stall(w, k->tmem_done, STALL_TMEM);
    }
}

void timeline_sleep(struct warp *w, uint64_t ns)
{
    if (of(w))
        stall(w, clock_of(w)->now + ns * CLOCK_SHARE, STALL_SLEEP);
}

/* ---- engines */

void timeline_issue(struct async_op *o)
{
    if (of(o->issuer))
        o->issued = clock_of(o->issuer)->now;
}

static uint64_t bytes_of(const struct async_op *o, bool write)
{
    uint64_t bytes = 0;
    for (int i = 0; i < o->range_count; i++)
        if (o->ranges[i].write == write)
            bytes += o->ranges[i].to - o->ranges[i].from;
    return bytes;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void complete_load(struct timeline *t, const struct async_op *o, struct span *s)
{
    struct clock_of_cta *c = &t->ctas[o->issuer->cta->rank];
    uint64_t bytes = bytes_of(o, true), cycles = (bytes + L2_BYTES - 1) / L2_BYTES;
    s->kind = SPAN_LOAD;
    s->what = (uint32_t)bytes;
    s->from = later(o->issued, c->load_free);
    c->load_free = s->from + cycles;
    s->to = c->load_free + COST_COPY_LATENCY;
}

static void complete_store(struct timeline *t, const struct async_op *o, struct span *s)
{
    struct clock_of_cta *c = &t->ctas[o->issuer->cta->rank];
    struct clock_of_warp *k = &t->warps[number_of(o->issuer)];
    uint64_t bytes = bytes_of(o, false);
    s->kind = SPAN_STORE;
    s->what = (uint32_t)bytes;
    s->from = later(o->issued, c->store_free);
    uint64_t read = s->from + (bytes + SM_BYTES - 1) / SM_BYTES;
    c->store_free = s->from + (bytes + L2_BYTES - 1) / L2_BYTES;
    s->to = c->store_free + COST_COPY_LATENCY;
    uint32_t g = o->number % GROUPS;
    k->groups[g].read = later(k->groups[g].read, read);
    k->groups[g].done = later(k->groups[g].done, s->to);
}

static void complete_pipe(struct timeline *t, const struct async_op *o, struct span *s)
{
    struct clock_of_cta *c = &t->ctas[o->issuer->cta->rank];
    s->from = later(o->issued, c->pipe_free);
    s->kind = o->kind == ASYNC_MMA     ? SPAN_MMA
              : o->kind == ASYNC_TC_CP ? SPAN_CP
                                       : SPAN_COMMIT;
    s->to = s->from + (o->kind == ASYNC_MMA     ? o->cycles
                       : o->kind == ASYNC_TC_CP ? COST_CP
                                                : 0);
    c->pipe_free = s->to;
}

void timeline_complete(struct async_op *o)
{
    struct timeline *t = of(o->issuer);
    if (!t)
        return;
    struct span s = {
        .cta = o->issuer->cta->rank, .warp = (uint32_t)o->issuer->index, .pc = o->pc};
    t->running_kind = STALL_TENSOR;
    switch (o->kind) {
    case ASYNC_COPY_IN:
    case ASYNC_CP:
        t->running_kind = STALL_LOAD;
        complete_load(t, o, &s);
        break;
    case ASYNC_COPY_OUT:
        complete_store(t, o, &s);
        break;
    default:
        complete_pipe(t, o, &s);
        break;
    }
    add(t, s);
    t->running = s.to + (o->kind == ASYNC_COMMIT ? COST_COMMIT : 0);
}

/* ---- barriers */

void timeline_arrive(struct warp *w, struct mbar *m)
{
    struct timeline *t = of(w);
    if (!t)
        return;
    bool is_async = w->cta->cluster->running != NULL;
    uint64_t when = is_async ? t->running : clock_of(w)->now;
    if (when < m->arrived)
        return;
    m->arrived = when;
    m->last_kind = (uint8_t)(is_async ? t->running_kind : STALL_WARPS);
    m->last_pc = w->cur_pc;
}

void timeline_phase(struct mbar *m)
{
    struct timeline *t = m->cta->cluster->timeline;
    if (!t)
        return;
    add(t, (struct span){.kind = SPAN_PHASE,
                         .cta = m->cta->rank,
                         .pc = m->last_pc,
                         .what = m->offset,
                         .from = m->done,
                         .to = later(m->arrived, m->done)});
    m->done = later(m->arrived, m->done);
    m->done_kind = m->last_kind;
    m->arrived = 0;
}

void timeline_waited(struct warp *w, const struct mbar *m)
{
    if (of(w) && m->phase > 0)
        stall(w, m->done, (enum stall)m->done_kind);
}

void timeline_bar_arrive(struct warp *w, uint32_t number)
{
    struct timeline *t = of(w);
    if (!t)
        return;
    struct clock_of_cta *c = &t->ctas[number < BARS - 1 ? w->cta->rank : 0];
    c->bar_arrived[number] = later(c->bar_arrived[number], clock_of(w)->now);
}

void timeline_bar_release(struct cta *cta, uint32_t number)
{
    struct timeline *t = cta->cluster->timeline;
    if (!t)
        return;
    struct clock_of_cta *c = &t->ctas[number < BARS - 1 ? cta->rank : 0];
    c->bar_done[number] =
        c->bar_arrived[number] + (number < BARS - 1 ? COST_BARRIER : COST_CLUSTER);
    c->bar_arrived[number] = 0;
}

void timeline_bar_pass(struct warp *w, uint32_t number)
{
    struct timeline *t = of(w);
    if (t)
        stall(w, t->ctas[number < BARS - 1 ? w->cta->rank : 0].bar_done[number],
              STALL_BARRIER);
}

void timeline_bulk_wait(struct warp *w, uint32_t upto, bool read_only)
{
    struct timeline *t = of(w);
    uint64_t until = 0;
    for (uint32_t g = upto > GROUPS - 1 ? upto - GROUPS + 1 : 1; t && g <= upto; g++) {
        struct clock_of_warp *k = clock_of(w);
        until = later(until, read_only ? k->groups[g % GROUPS].read
                                       : k->groups[g % GROUPS].done);
    }
    if (t)
        stall(w, until, STALL_STORE);
}

/* ---- a cluster */

void timeline_reset(struct cluster *c)
{
    if (!c->grid->trace || c->number >= TIMELINE_CLUSTERS) {
        timeline_free(c);
        return;
    }
    size_t warps = (size_t)c->cta_count * (size_t)c->ctas[0].warp_count;
    struct timeline *t = c->timeline;
    if (!t) {
        t = c->timeline = must(calloc(1, sizeof *t));
        t->warps = must(calloc(warps, sizeof *t->warps));
        t->ctas = must(calloc((size_t)c->cta_count, sizeof *t->ctas));
        t->spans = must(malloc(TIMELINE_EVENTS * sizeof *t->spans));
    }
    memset(t->warps, 0, warps * sizeof *t->warps);
    memset(t->ctas, 0, (size_t)c->cta_count * sizeof *t->ctas);
    t->span_count = 0;
    t->is_cut = false;
}

void timeline_end(struct cluster *c)
{
    struct timeline *t = c->timeline;
    if (!t)
        return;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            const struct warp *w = &c->ctas[i].warps[k];
            const struct clock_of_warp *x = clock_of(w);
            if (x->now > x->run_from)
                add(t, (struct span){.kind = SPAN_RUN,
                                     .cta = w->cta->rank,
                                     .warp = (uint32_t)w->index,
                                     .pc = w->cur_pc,
                                     .from = x->run_from,
                                     .to = x->now});
        }
    global_lock(c->grid);
    trace_add(c->grid->trace, c, t->spans, t->span_count, t->is_cut);
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            const struct warp *w = &c->ctas[i].warps[k];
            const struct clock_of_warp *x = clock_of(w);
            struct trace_warp sums = {.end = x->now};
            role_text(w, sums.role, sizeof sums.role);
            memcpy(sums.stalls, x->stalls, sizeof sums.stalls);
            trace_add_warp(c->grid->trace, c, w, &sums);
        }
    global_unlock(c->grid);
}

void timeline_free(struct cluster *c)
{
    if (!c->timeline)
        return;
    free(c->timeline->warps);
    free(c->timeline->ctas);
    free(c->timeline->spans);
    free(c->timeline);
    c->timeline = NULL;
}
