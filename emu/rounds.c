/* rounds.c - which warp of a cluster has the next turn.
 *
 * Warps in turn, each until it blocks; under the exploring strategies one choice after
 * the other.  When nobody can do anything, pending asynchronous work completes (lazy
 * strategy), then virtual time passes; when neither is left the cluster is stuck.
 *
 * Nobody waits for ever, since on a device all make progress: what a strategy holds
 * back gets a turn when the others have gone on for long enough (is_patient). */
#include "emu/choice.h"
#include "emu/cluster.h"
#include "emu/coverage.h"
#include "emu/timeline.h"

#define ROUND_PICKS 4 /* for each warp, before an exploring cluster looks around */

/* Instructions after which those held back have a turn: half as many from one time to
 * the next, until the others have come to a standstill by themselves. */
#define MOST_PATIENCE 65536u
#define MOST_HASTE 8

/* A read by which clusters may wait for one another counts as so many instructions of
 * the cluster's slice: what it waits for comes all the sooner. */
#define POLL_STEPS 512

/* A round in which all wait for time to pass counts as so many without effect. */
#define IDLE_STEPS 64

struct round {
    bool failed;
    bool busy;  /* somebody did something other than poll in vain */
    bool timed; /* somebody has read a clock */
    bool polls; /* somebody polled who is not yet proven to spin */
    uint64_t steps;
};

static void after_turn(struct warp *w, enum turn turn, uint64_t events, uint64_t global,
                       struct round *r)
{
    struct cluster *c = w->cta->cluster;
    /* Asked once: what changes from here on is news to it. */
    uint64_t now = atomic_load(&c->grid->global_events);
    bool quiet = c->events == events && now == global;
    bool sleeps = turn == TURN_BLOCKED && (w->time_lanes || w->has_expired);
    bool blocks = turn == TURN_BLOCKED && !sleeps;
    r->timed |= w->read_clock;
    if (!quiet || (blocks && w->read_clock)) {
        r->busy = true;
        spin_reset(w);
    } else if (w->read_clock) {
        r->polls = true;
    } else {
        if (w->seen_events != events || w->seen_global_events != global)
            spin_reset(w);
        else if (!w->spinning)
            spin_look(w);
        if (!w->spinning) {
            r->polls |= !blocks;
            r->busy |= blocks || turn == TURN_OVER;
        }
    }
    w->seen_events = c->events;
    w->seen_global_events = now;
}

/* False: it has failed. */
static bool run_turn(struct warp *w, struct round *r, enum turn *turn)
{
    struct cluster *c = w->cta->cluster;
    uint64_t events = c->events, steps = w->steps;
    uint64_t global = atomic_load(&c->grid->global_events);
    *turn = warp_turn(w);
    r->steps += w->steps - steps;
    c->steps += w->steps - steps;
    if (*turn == TURN_FAILED) {
        r->failed = true;
        return false;
    }
    after_turn(w, *turn, events, global, r);
    return true;
}

/* False: what is held back is to have its turn now, although others can go on.  In a
 * loop that waits for it, and that nobody sees through, they could for ever. */
static bool is_patient(struct cluster *c)
{
    if (c->steps - c->held_since < MOST_PATIENCE >> c->haste)
        return true;
    c->held_since = c->steps;
    c->haste += c->haste < MOST_HASTE;
    return false;
}

static void regain_patience(struct cluster *c)
{
    c->held_since = c->steps;
    c->haste = 0;
}

static void run_warps(struct cluster *c, struct round *r, bool starved)
{
    enum turn turn;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            struct warp *w = &c->ctas[i].warps[k];
            if (choice_starves(w) == starved && warp_can_run(w) &&
                !run_turn(w, r, &turn))
                return;
        }
}

static bool any_can_run(struct cluster *c)
{
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++)
            if (warp_can_run(&c->ctas[i].warps[k]))
                return true;
    return false;
}

/* One choice after the other, for about `steps`, until somebody should look whether
 * time must pass. */
static void explore(struct cluster *c, struct round *r, uint64_t steps)
{
    int picks = ROUND_PICKS * c->cta_count * c->ctas[0].warp_count;
    bool leave = false;
    while (picks-- > 0 && c->live_ctas > 0 && r->steps < steps) {
        struct pick p = choice_next(c, leave);
        leave = false;
        if (p.op) {
            r->busy = true;
            r->failed = !async_complete(c, p.op);
        } else if (p.w) {
            enum turn turn;
            if (run_turn(p.w, r, &turn))
                leave = turn == TURN_POLLED || turn == TURN_OVER;
        }
        if (r->failed || (!p.op && !p.w))
            return;
    }
    r->polls = r->polls || any_can_run(c);
}

static struct round run_round(struct cluster *c, uint64_t steps)
{
    struct round r = {0};
    if (c->choices) {
        explore(c, &r, steps);
        return r;
    }
    run_warps(c, &r, false);
    if (c->grid->strategy != STRATEGY_STARVE || r.failed || !c->live_ctas)
        return r;
    /* Those that are held back come when the others have done nothing. */
    if (!r.busy)
        regain_patience(c);
    if (!r.busy || !is_patient(c))
        run_warps(c, &r, true);
    return r;
}

/* Lets time pass until the first sleeper wakes.  False: nobody sleeps who could still
 * do something. */
static bool skip_to_sleeper(struct cluster *c)
{
    uint64_t until = UINT64_MAX;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            const struct warp *w = &c->ctas[i].warps[k];
            for (uint32_t rest = w->spinning ? 0 : w->time_lanes; rest;
                 rest &= rest - 1) {
                const struct wait *wait = &w->waits[bits_lowest(rest)];
                if (wait->lanes && wait->kind == WAIT_TIME && wait->until < until)
                    until = wait->until;
            }
        }
    if (until == UINT64_MAX)
        return false;
    if (until > c->clock)
        c->clock = until;
    c->quiet_steps += IDLE_STEPS;
    return true;
}

/* try_wait may return false at any time, so before the cluster counts as stuck, those
 * parked in one get a false: a peek must not hold up what its warp would do next.  A
 * loop around it comes back in the same state and is then known to spin. */
static bool expire_waits(struct cluster *c)
{
    bool any = false;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++) {
            struct warp *w = &c->ctas[i].warps[k];
            for (uint32_t rest = w->spinning ? 0 : w->parked; rest; rest &= rest - 1) {
                const struct wait *wait = &w->waits[bits_lowest(rest)];
                uint32_t lanes = wait->lanes & w->parked;
                if (!lanes || wait->kind != WAIT_MBAR)
                    continue;
                w->expired |= lanes;
                wake(w, lanes);
                any = true;
            }
        }
    return any;
}

/* The longer nothing else happens, the more. */
static void pass_time(struct cluster *c, uint64_t *hurry)
{
    c->clock += *hurry;
    *hurry *= *hurry < (uint64_t)1 << 40 ? 2 : 1;
    c->quiet_steps += IDLE_STEPS;
}

static bool finish(struct cluster *c)
{
    while (c->async_first)
        if (!async_step(c))
            return false;
    return mbars_at_end(c);
}

static bool is_overtaken(const struct cluster *c)
{
    unsigned long long failed = atomic_load(&c->grid->failed_cluster);
    return atomic_load(&c->grid->repeat) || (failed != 0 && failed - 1 < c->number);
}

/* Of the limit of steps, without anything that others can see. */
#define QUIET_SHARE 16

/* A kernel that never ends, although its state never comes back. */
static bool is_endless(struct cluster *c, uint64_t steps)
{
    uint64_t events = c->events + atomic_load(&c->grid->global_events);
    uint64_t limit = c->grid->step_limit;
    c->quiet_steps = events == c->quiet_since ? c->quiet_steps + steps : 0;
    c->quiet_since = events;
    if (limit == 0 || (c->steps < limit && c->quiet_steps < limit / QUIET_SHARE))
        return false;
    endless_report(c);
    return true;
}

/* Operations that a strategy holds back until nothing else can run. */
static bool complete_one(struct cluster *c, bool standstill)
{
    if (standstill)
        regain_patience(c);
    return (!standstill && is_patient(c)) || async_step(c);
}

static uint64_t slice_steps(const struct cluster *c)
{
    return c->steps + c->polls * POLL_STEPS;
}

static enum progress run_rounds(struct cluster *c, uint64_t step_budget, bool alone)
{
    c->slice_end = c->clock + step_budget;
    uint64_t hurry = 1, events = c->events, end = slice_steps(c) + step_budget;
    for (;;) {
        struct round r = run_round(c, end - slice_steps(c));
        if (c->events != events)
            hurry = 1;
        events = c->events;
        if (r.failed || is_overtaken(c))
            return PROGRESS_FAILED;
        if (c->live_ctas == 0)
            return finish(c) ? PROGRESS_DONE : PROGRESS_FAILED;
        if (is_endless(c, r.steps))
            return PROGRESS_FAILED;
        if (r.busy && circle_look(c, r.timed))
            r.busy = r.polls = false;
        bool holds = c->async_first && !c->choices;
        if (!holds && c->grid->strategy != STRATEGY_STARVE)
            c->held_since = c->steps;
        if (r.busy) {
            if (holds && !complete_one(c, false))
                return PROGRESS_FAILED;
        } else if (c->async_first) {
            if (!complete_one(c, true))
                return PROGRESS_FAILED;
        } else if (r.timed && alone) {
            /* Everybody waits for time to pass. */
            pass_time(c, &hurry);
        } else if (!r.polls && !skip_to_sleeper(c)) {
            if (!expire_waits(c))
                return PROGRESS_STUCK;
            pass_time(c, &hurry);
        } else if (!alone) {
            return PROGRESS_IDLE;
        }
        if (slice_steps(c) >= end)
            return PROGRESS_SLICE;
    }
}

enum progress cluster_run(struct cluster *c, uint64_t step_budget, bool alone)
{
    enum progress p = run_rounds(c, step_budget, alone);
    if (p == PROGRESS_DONE || p == PROGRESS_FAILED) {
        choices_end(c);
        coverage_end(c);
        timeline_end(c);
    }
    /* Counted here and not at each store: other clusters look between their turns. */
    if (c->wrote_global)
        atomic_fetch_add(&c->grid->global_events, 1);
    c->wrote_global = false;
    return p;
}
