/* check_deadlock.c - tells why nobody can go on (check 25).
 *
 * The first line names the wait that explains most: a barrier that has all its arrivals
 * but not its bytes before one that lacks arrivals, and any of them before the rest. */
#include "emu/cluster.h"
#include "emu/report.h"

#include <stdio.h>

#define MAX_LINES 64 /* of waiting warps; a cluster may have hundreds */

struct waiter {
    struct warp *w;
    const struct wait *wait; /* NULL: it polls in vain */
    uint32_t lanes, pc;
};

typedef void waiter_fn(void *arg, const struct waiter *x);

static void each_group(struct warp *w, waiter_fn *fn, void *arg)
{
    for (uint32_t rest = w->live; rest;) {
        int lane = bits_lowest(rest);
        struct waiter x = {.w = w, .pc = w->pc[lane]};
        for (int i = 0; i < WARP_LANES; i++)
            if (w->parked >> lane & 1 && w->waits[i].lanes >> lane & 1)
                x.wait = &w->waits[i];
        for (int i = lane; i < WARP_LANES; i++) {
            uint32_t bit = (uint32_t)1 << i;
            bool same = w->pc[i] == x.pc && (w->parked & bit) == (w->parked >> lane & 1)
                                                                     << i;
            if ((rest & bit) && same && (!x.wait || (x.wait->lanes & bit)))
                x.lanes |= bit;
        }
        rest &= ~x.lanes;
        if (x.wait && x.wait->kind == WAIT_TIME)
            x.pc = x.wait->number; /* it stands behind the nanosleep */
        fn(arg, &x);
    }
}

static void each_waiter(struct cluster *c, waiter_fn *fn, void *arg)
{
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++)
            each_group(&c->ctas[i].warps[k], fn, arg);
}

/* ---- the wait to put first */

static int weight(const struct waiter *x)
{
    if (!x->wait)
        return 1;
    /* The warp's other lanes wait or poll for something: that is the cause. */
    bool others_wait = (x->w->live & ~x->w->lane_waits) != 0;
    switch (x->wait->kind) {
    case WAIT_ALIGNED:
        return others_wait ? 0 : 9;
    case WAIT_LANES:
        return others_wait ? 0 : 8;
    case WAIT_MBAR:
        return x->wait->mbar->pending == 0 && x->wait->mbar->tx != 0 ? 7 : 5;
    case WAIT_BARRIER:
        return 4;
    case WAIT_CLUSTER:
        return 3;
    default:
        return 2;
    }
}

static void keep_heaviest(void *arg, const struct waiter *x)
{
    struct waiter *best = arg;
    if (!best->w || weight(x) > weight(best))
        *best = *x;
}

/* ---- what is missing, in words */

static void describe_mbar(const struct mbar *m, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "the barrier at 0x%x of block (%u,%u,%u)", m->offset,
                     m->cta->id[0], m->cta->id[1], m->cta->id[2]);
    size_t at = n < 0 || (size_t)n >= bytes ? bytes - 1 : (size_t)n;
    text += at;
    bytes -= at;
    if (!m->valid)
        snprintf(text, bytes, ", which is invalidated");
    else if (m->pending == 0 && m->tx > 0)
        snprintf(text, bytes,
                 ": all arrivals are there, but %lld bytes are missing (%lld expected, "
                 "%lld received)",
                 (long long)m->tx, (long long)m->tx_expected,
                 (long long)m->tx_completed);
    else if (m->pending == 0 && m->tx < 0)
        snprintf(
            text, bytes,
            ": %lld bytes more than expected have come (%lld expected, %lld received)",
            -(long long)m->tx, (long long)m->tx_expected, (long long)m->tx_completed);
    else if (m->tx != 0)
        snprintf(text, bytes,
                 ": %u of %u arrivals are missing, and %lld bytes (%lld expected, %lld "
                 "received)",
                 m->pending, m->expected, (long long)m->tx, (long long)m->tx_expected,
                 (long long)m->tx_completed);
    else
        snprintf(text, bytes, ": %u of %u arrivals are missing", m->pending,
                 m->expected);
}

static void describe_wait(const struct waiter *x, char *text, size_t bytes)
{
    char more[256];
    const struct wait *wait = x->wait;
    if (!wait) {
        snprintf(text, bytes,
                 "it polls without end, and nothing that it reads changes");
        return;
    }
    switch (wait->kind) {
    case WAIT_MBAR:
        describe_mbar(wait->mbar, text, bytes);
        break;
    case WAIT_BARRIER:
        snprintf(text, bytes, "named barrier %u: %s", wait->number,
                 barrier_describe(x->w->cta, wait->number, more, sizeof more));
        break;
    case WAIT_CLUSTER:
        snprintf(text, bytes, "the cluster barrier: %s",
                 cluster_barrier_describe(x->w->cta->cluster, more, sizeof more));
        break;
    case WAIT_LANES:
        snprintf(text, bytes, "the other lanes of its member mask");
        break;
    case WAIT_ALIGNED:
        snprintf(text, bytes, "all live lanes (0x%x) of its warp: .aligned",
                 x->w->live);
        break;
    case WAIT_TIME:
        snprintf(text, bytes, "it sleeps and polls, and nothing that it reads changes");
        break;
    case WAIT_EVENT:
        snprintf(text, bytes, "%s", wait->what);
        break;
    }
}

struct lines {
    struct grid *g;
    int count;
};

static void note_waiter(void *arg, const struct waiter *x)
{
    struct lines *l = arg;
    if (l->count++ >= MAX_LINES)
        return;
    char place[512], what[512];
    x->w->cur_lanes = x->lanes;
    describe_wait(x, what, sizeof what);
    report_note(l->g, "%s waits: %s", report_place(x->w, x->pc, place, sizeof place),
                what);
}

/* ---- the barriers, and who has arrived on them so far */

static void note_mbar(struct grid *g, const struct mbar *m)
{
    char what[512];
    describe_mbar(m, what, sizeof what);
    report_note(g, "%s; phase %llu (parity %u), initialised in line %d", what,
                (unsigned long long)m->phase, (unsigned)(m->phase & 1), m->init_line);
    for (int i = 0; i < m->arrive_pc_count; i++) {
        const struct ptx_insn *insn = g->kernel->ops[m->arrive_pcs[i]].insn;
        report_note(g, "  so far signalled from line %d (%s)", insn->line,
                    insn->opcode);
    }
    if (m->arrive_pc_count == 0)
        report_note(g, "  nothing has signalled it so far");
}

static void note_mbars(struct cluster *c)
{
    int count = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (const struct mbar *m = c->ctas[i].mbars; m; m = m->next_of_cta)
            if (m->valid && count++ < MAX_LINES)
                note_mbar(c->grid, m);
}

void deadlock_report(struct cluster *c)
{
    struct waiter first = {0};
    each_waiter(c, keep_heaviest, &first);
    if (!first.w)
        return;
    char what[512];
    describe_wait(&first, what, sizeof what);
    first.w->cur_pc = first.pc;
    first.w->cur_lanes = first.lanes;
    enum check check = CHECK_DEADLOCK;
    if (first.wait && first.wait->kind == WAIT_ALIGNED)
        check = CHECK_DIVERGENCE;
    else if (first.wait && first.wait->kind == WAIT_LANES)
        check = CHECK_MEMBER_MASK;
    report(c->grid, first.w, check, "nobody can go on; %s", what);
    struct lines lines = {c->grid, 0};
    each_waiter(c, note_waiter, &lines);
    if (lines.count > MAX_LINES)
        report_note(c->grid, "... and %d more groups of lanes",
                    lines.count - MAX_LINES);
    note_mbars(c);
}
