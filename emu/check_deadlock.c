/* check_deadlock.c - tells why nobody can go on (check 25, or 8 and 9).
 *
 * Who waits for whom is a graph of warps: a barrier waits for those that have signalled
 * it in earlier phases and not yet in this one, a named barrier for those that have not
 * arrived.  The first line names the wait that explains most: bytes that do not add up,
 * an arrival of somebody who has exited, the shortest circle, and then the rest.  Where
 * nobody is left who owes the bytes or the arrival it is check 8 or 9. */
#include "emu/cluster.h"
#include "emu/report.h"
#include "emu/role.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_LINES 64 /* of waiting warps; a cluster may have hundreds */
#define TEXT_CHARS 512

struct waiter {
    struct warp *w;
    const struct wait *wait; /* NULL: it polls in vain */
    const struct mbar *mbar; /* that it waits for, or polls; or NULL */
    uint32_t lanes, pc;
};

struct stuck {
    struct cluster *c;
    struct waiter *at;
    int count, room;
};

/* ---- groups of lanes that wait */

static void add(struct stuck *s, const struct waiter *x)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->at = realloc(s->at, (size_t)s->room * sizeof *s->at);
        if (!s->at)
            abort();
    }
    s->at[s->count++] = *x;
}

static void add_groups(struct stuck *s, struct warp *w)
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
        if (x.wait && x.wait->kind == WAIT_MBAR)
            x.mbar = x.wait->mbar;
        else if ((!x.wait || x.wait->kind == WAIT_TIME) &&
                 (w->polled_lanes & x.lanes) && w->polled_mbar->valid &&
                 w->polled_mbar->phase == w->polled_phase)
            x.mbar = w->polled_mbar;
        add(s, &x);
    }
}

/* ---- who waits for whom */

static uint32_t warps_of(const struct cluster *c)
{
    return (uint32_t)c->cta_count * (uint32_t)c->ctas[0].warp_count;
}

static uint32_t number_of(const struct warp *w)
{
    return w->cta->rank * (uint32_t)w->cta->warp_count + (uint32_t)w->index;
}

static struct warp *warp_at(struct cluster *c, uint32_t number)
{
    uint32_t each = (uint32_t)c->ctas[0].warp_count;
    return &c->ctas[number / each].warps[number % each];
}

/* Must this one still do something before `x` can go on?  *signal: how it has done so
 * for an mbarrier, in earlier phases. */
static bool waits_for(const struct waiter *x, const struct warp *other,
                      const struct mbar_signal **signal)
{
    *signal = NULL;
    if (x->mbar) {
        const struct mbar *m = x->mbar;
        bool already = false;
        for (int i = 0; i < m->signal_count; i++) {
            const struct mbar_signal *s = &m->signals[i];
            if (s->warp != other)
                continue;
            already |= s->phase == m->phase;
            if (s->phase < m->phase && !*signal)
                *signal = s;
        }
        return *signal && !already;
    }
    if (!x->wait || other == x->w)
        return false;
    if (x->wait->kind == WAIT_BARRIER)
        return other->cta == x->w->cta && other->live &&
               !barrier_has(other, x->wait->number);
    if (x->wait->kind == WAIT_CLUSTER)
        return other->live && !cluster_barrier_has(other);
    return false;
}

static bool any_waits_for(const struct stuck *s, uint32_t from, uint32_t to)
{
    const struct mbar_signal *signal;
    for (int i = 0; i < s->count; i++)
        if (number_of(s->at[i].w) == from &&
            waits_for(&s->at[i], warp_at(s->c, to), &signal))
            return true;
    return false;
}

/* The shortest way from `start` back to it: numbers of warps into `circle`, its length;
 * 0: there is none. */
static uint32_t find_circle(const struct stuck *s, uint32_t start, uint32_t *circle)
{
    uint32_t n = warps_of(s->c), first = 0, last = 0, length = 0;
    uint32_t *queue = calloc(n, sizeof *queue), *from = calloc(n, sizeof *from);
    if (!queue || !from)
        abort();
    queue[last++] = start;
    while (first < last && length == 0) {
        uint32_t at = queue[first++];
        for (uint32_t to = 0; to < n && length == 0; to++) {
            if ((to != start && from[to]) || !any_waits_for(s, at, to))
                continue;
            if (to != start) {
                from[to] = at + 1;
                queue[last++] = to;
                continue;
            }
            for (uint32_t k = at;; k = from[k] - 1) {
                memmove(circle + 1, circle, length++ * sizeof *circle);
                circle[0] = k;
                if (k == start)
                    break;
            }
        }
    }
    free(queue);
    free(from);
    return length;
}

static uint32_t shortest_circle(const struct stuck *s, uint32_t *circle)
{
    uint32_t n = warps_of(s->c), best = 0;
    uint32_t *found = calloc(n, sizeof *found);
    if (!found)
        abort();
    for (uint32_t start = 0; start < n; start++) {
        uint32_t length = find_circle(s, start, found);
        if (length && (!best || length < best)) {
            best = length;
            memcpy(circle, found, length * sizeof *circle);
        }
    }
    free(found);
    return best;
}

/* Somebody has signalled the barrier in the phase before and has exited: its arrival is
 * lost. */
static const struct mbar_signal *lost_arrival(const struct stuck *s,
                                              const struct waiter *x)
{
    const struct mbar_signal *signal;
    if (!x->mbar || x->mbar->pending == 0)
        return NULL;
    for (uint32_t i = 0; i < warps_of(s->c); i++) {
        const struct warp *w = warp_at(s->c, i);
        if (!w->live && waits_for(x, w, &signal))
            return signal;
    }
    return NULL;
}

/* ---- which check it is */

/* Is there no other wait that may be the cause of this one? */
static bool all_wait_for(const struct stuck *s, const struct mbar *m)
{
    for (int i = 0; i < s->count; i++) {
        const struct waiter *x = &s->at[i];
        bool polls =
            !x->wait || x->wait->kind == WAIT_EVENT || x->wait->kind == WAIT_TIME;
        if (x->mbar ? x->mbar != m : polls)
            return false;
    }
    return true;
}

static bool has_debtor(const struct stuck *s, const struct waiter *x)
{
    const struct mbar_signal *signal;
    for (uint32_t i = 0; i < warps_of(s->c); i++) {
        const struct warp *w = warp_at(s->c, i);
        if (w->live && waits_for(x, w, &signal))
            return true;
    }
    return false;
}

/* Did any of what this phase lacks come?  If none did, its senders may be stuck. */
static bool has_begun(const struct mbar *m)
{
    for (int i = 0; i < m->signal_count; i++)
        if (m->pending && m->signals[i].phase == m->phase && m->signals[i].arrivals)
            return true;
    return m->tx_completed != 0;
}

static enum check check_of(const struct stuck *s, const struct waiter *x)
{
    const struct mbar *m = x->mbar;
    if (x->wait && x->wait->kind == WAIT_ALIGNED)
        return CHECK_DIVERGENCE;
    if (x->wait && x->wait->kind == WAIT_LANES)
        return CHECK_MEMBER_MASK;
    if (!m || !m->valid || has_debtor(s, x) ||
        !(has_begun(m) || lost_arrival(s, x) || all_wait_for(s, m)))
        return CHECK_DEADLOCK;
    return m->pending == 0 ? CHECK_BYTE_COUNT : CHECK_ARRIVAL_COUNT;
}

/* ---- the wait to put first */

static int weight(const struct stuck *s, const struct waiter *x, bool has_circle)
{
    /* The warp's other lanes wait or poll for something: that is the cause. */
    bool others_wait = (x->w->live & ~x->w->lane_waits) != 0;
    if (x->wait && x->wait->kind == WAIT_ALIGNED)
        return others_wait ? 0 : 10;
    if (x->wait && x->wait->kind == WAIT_LANES)
        return others_wait ? 0 : 9;
    if (x->mbar && x->mbar->pending == 0 && x->mbar->tx != 0)
        return 8;
    if (lost_arrival(s, x))
        return 7;
    if (x->mbar && !has_circle && has_begun(x->mbar) && !has_debtor(s, x))
        return 6;
    if (x->mbar)
        return 5;
    if (!x->wait)
        return circle_holds(s->c) ? 5 : 1; /* the others wait for it at the barrier */
    return x->wait->kind == WAIT_BARRIER ? 4 : x->wait->kind == WAIT_CLUSTER ? 3 : 2;
}

static const struct waiter *heaviest(const struct stuck *s, uint32_t *circle,
                                     uint32_t length)
{
    const struct waiter *best = &s->at[0];
    int most = -1;
    for (int i = 0; i < s->count; i++) {
        int own = weight(s, &s->at[i], length > 0);
        /* Of waits that lack arrivals, one in the circle. */
        bool in_circle = length && number_of(s->at[i].w) == circle[0] && s->at[i].mbar;
        own = 2 * own + (in_circle && own <= 5);
        if (own > most) {
            most = own;
            best = &s->at[i];
        }
    }
    return best;
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
    if (x->mbar && !(wait && wait->kind == WAIT_MBAR)) {
        int n = snprintf(text, bytes, "it polls without end ");
        describe_mbar(x->mbar, text + n, bytes - (size_t)n);
        return;
    }
    if (!wait && !x->w->spinning) {
        snprintf(text, bytes, "nothing, it runs on");
        return;
    }
    if (!wait) {
        snprintf(text, bytes,
                 circle_holds(x->w->cta->cluster)
                     ? "it goes round a loop through a barrier, and nothing that it "
                       "reads changes"
                     : "it polls without end, and nothing that it reads changes");
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

/* "warp 5 (MMA, line 230)" */
static const char *name_warp(const struct warp *w, char *text, size_t bytes)
{
    char role[128];
    role_text(w, role, sizeof role);
    if (w->cta->cluster->cta_count > 1)
        snprintf(text, bytes, "warp %d of CTA %u%s%s%s", w->index, w->cta->rank,
                 role[0] ? " (" : "", role, role[0] ? ")" : "");
    else
        snprintf(text, bytes, "warp %d%s%s%s", w->index, role[0] ? " (" : "", role,
                 role[0] ? ")" : "");
    return text;
}

/* Neighbours that wait at one place for one thing share a line. */
static bool is_alike(const struct waiter *a, const struct waiter *b)
{
    if (a->w->cta != b->w->cta || a->pc != b->pc || a->mbar != b->mbar ||
        !a->wait != !b->wait || a->lanes != b->lanes)
        return false;
    return !a->wait ||
           (a->wait->kind == b->wait->kind && a->wait->number == b->wait->number &&
            a->wait->what == b->wait->what);
}

static void note_waiters(const struct stuck *s)
{
    struct grid *g = s->c->grid;
    int lines = 0;
    for (int i = 0; i < s->count; i++) {
        const struct waiter *x = &s->at[i];
        char place[TEXT_CHARS], what[TEXT_CHARS], role[128];
        int last = i;
        while (last + 1 < s->count && is_alike(x, &s->at[last + 1]) &&
               s->at[last + 1].w->index == s->at[last].w->index + 1)
            last++;
        if (lines++ >= MAX_LINES) {
            report_note(g, "... and %d more groups of lanes", s->count - i);
            return;
        }
        x->w->cur_lanes = x->lanes;
        describe_wait(x, what, sizeof what);
        role_text(x->w, role, sizeof role);
        report_place(x->w, x->pc, place, sizeof place);
        if (last > i)
            report_note(g, "%s%s%s%s, and likewise warps to %d, wait: %s", place,
                        role[0] ? " (" : "", role, role[0] ? ")" : "",
                        s->at[last].w->index, what);
        else
            report_note(g, "%s%s%s%s waits: %s", place, role[0] ? " (" : "", role,
                        role[0] ? ")" : "", what);
        i = last;
    }
}

static void note_circle(const struct stuck *s, const uint32_t *circle, uint32_t length)
{
    struct grid *g = s->c->grid;
    for (uint32_t i = 0; i < length; i++) {
        struct warp *to = warp_at(s->c, circle[(i + 1) % length]);
        const struct mbar_signal *signal = NULL;
        char a[TEXT_CHARS], b[TEXT_CHARS];
        for (int k = 0; k < s->count; k++) {
            const struct waiter *x = &s->at[k];
            if (number_of(x->w) != circle[i] || !waits_for(x, to, &signal))
                continue;
            name_warp(x->w, a, sizeof a);
            name_warp(to, b, sizeof b);
            if (signal)
                report_note(g,
                            "%s %s waits for %s, which signalled the barrier at 0x%x "
                            "from line %d in phase %llu and not yet in phase %llu",
                            i ? "  and" : "circle:", a, b, x->mbar->offset,
                            g->kernel->ops[signal->pc].insn->line,
                            (unsigned long long)signal->phase,
                            (unsigned long long)x->mbar->phase);
            else
                report_note(g, "%s %s waits for %s to arrive at the %s barrier",
                            i ? "  and" : "circle:", a, b,
                            x->wait->kind == WAIT_CLUSTER ? "cluster" : "named");
            break;
        }
    }
}

static void note_lost(const struct stuck *s, const struct waiter *x)
{
    const struct mbar_signal *signal = lost_arrival(s, x);
    char name[TEXT_CHARS];
    if (signal)
        report_note(s->c->grid,
                    "lost arrival: %s signalled it from line %d in phase %llu, and has "
                    "exited",
                    name_warp(signal->warp, name, sizeof name),
                    s->c->grid->kernel->ops[signal->pc].insn->line,
                    (unsigned long long)signal->phase);
}

/* ---- the barriers that somebody waits for, and who has signalled them so far */

/* "4 arrivals, 512 bytes expected, 0 received" */
static const char *amount_text(const struct mbar_signal *s, char *text, size_t bytes)
{
    char arrivals[32] = "", expected[48] = "", received[48] = "";
    if (s->arrivals)
        snprintf(arrivals, sizeof arrivals, ", %u arrival%s", s->arrivals,
                 s->arrivals > 1 ? "s" : "");
    if (s->expected)
        snprintf(expected, sizeof expected, ", %lld bytes expected",
                 (long long)s->expected);
    if (s->received)
        snprintf(received, sizeof received, ", %lld bytes received",
                 (long long)s->received);
    snprintf(text, bytes, "%s%s%s", arrivals, expected, received);
    if (text[0])
        text[0] = ':';
    return text;
}

void note_signals(struct grid *g, const struct mbar *m)
{
    char name[TEXT_CHARS], amount[160];
    for (int i = 0; i < m->signal_count; i++) {
        const struct mbar_signal *s = &m->signals[i];
        const struct ptx_insn *insn = g->kernel->ops[s->pc].insn;
        report_note(g, "  signalled from line %d (%s) by %s, last in phase %llu%s",
                    insn->line, insn->opcode, name_warp(s->warp, name, sizeof name),
                    (unsigned long long)s->phase,
                    amount_text(s, amount, sizeof amount));
    }
    if (m->signal_count == 0)
        report_note(g, "  nothing has signalled it so far");
}

static void note_mbar(struct grid *g, const struct mbar *m)
{
    char what[TEXT_CHARS];
    describe_mbar(m, what, sizeof what);
    report_note(g, "%s; phase %llu (parity %u), initialised in line %d", what,
                (unsigned long long)m->phase, (unsigned)(m->phase & 1), m->init_line);
    note_signals(g, m);
}

static void note_mbars(const struct stuck *s)
{
    int lines = 0;
    for (int i = 0; i < s->count; i++) {
        bool is_new = s->at[i].mbar != NULL;
        for (int k = 0; is_new && k < i; k++)
            is_new = s->at[k].mbar != s->at[i].mbar;
        if (is_new && lines++ < MAX_LINES)
            note_mbar(s->c->grid, s->at[i].mbar);
    }
}

static struct stuck find_waiters(struct cluster *c)
{
    struct stuck s = {.c = c};
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++)
            add_groups(&s, &c->ctas[i].warps[k]);
    return s;
}

void endless_report(struct cluster *c)
{
    struct stuck s = find_waiters(c);
    if (s.count == 0)
        return;
    const struct waiter *busiest = &s.at[0];
    for (int i = 1; i < s.count; i++)
        if (s.at[i].w->steps > busiest->w->steps)
            busiest = &s.at[i];
    busiest->w->cur_pc = busiest->pc;
    busiest->w->cur_lanes = busiest->lanes;
    report(
        c->grid, busiest->w, CHECK_DEADLOCK,
        "the kernel does not end: a cluster has executed %llu warp instructions, and "
        "the last %llu of them have done nothing that another warp could see",
        (unsigned long long)c->steps, (unsigned long long)c->quiet_steps);
    report_mend(c->grid, "if it only takes long, raise the limit: FP4EMU_STEPS");
    note_waiters(&s);
    note_mbars(&s);
    free(s.at);
}

/* Check 28: registers are waited for, and a warp keeps those that it should give up. */
static struct warp *who_keeps_registers(const struct stuck *s, char *text, size_t bytes)
{
    for (int i = 0; i < s->count; i++) {
        const struct waiter *x = &s->at[i];
        struct warp *keeps = x->wait && registers_waits(x->w, x->pc)
                                 ? registers_kept(x->w->cta, text, bytes)
                                 : NULL;
        if (keeps)
            return keeps;
    }
    return NULL;
}

void deadlock_report(struct cluster *c)
{
    struct stuck s = find_waiters(c);
    if (s.count == 0)
        return;
    uint32_t *circle = calloc(warps_of(c), sizeof *circle);
    if (!circle)
        abort();
    uint32_t length = shortest_circle(&s, circle);
    const struct waiter *first = heaviest(&s, circle, length);
    char what[TEXT_CHARS];
    describe_wait(first, what, sizeof what);
    first->w->cur_pc = first->pc;
    first->w->cur_lanes = first->lanes;
    enum check check = check_of(&s, first);
    struct warp *keeps = who_keeps_registers(&s, what, sizeof what);
    if (keeps)
        check = CHECK_REGISTERS;
    report(c->grid, keeps ? keeps : first->w, check, "nobody can go on; %s", what);
    if (check != CHECK_DEADLOCK)
        report_hang(c->grid);
    if (check == CHECK_ARRIVAL_COUNT)
        report_mend(c->grid, "let the count of mbarrier.init be the number of arrivals "
                             "of a phase, and each of them come in every phase");
    note_lost(&s, first);
    note_circle(&s, circle, length);
    note_waiters(&s);
    note_mbars(&s);
    free(circle);
    free(s.at);
}
