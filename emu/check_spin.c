/* check_spin.c - sees through polling loops.
 *
 * A warp whose registers, local memory and program counters are all what they were at
 * an earlier time, and which of its lanes have had their turn too, with nothing changed
 * in the cluster since, will repeat itself until something changes.  Nothing is assumed
 * about the shape of the loop.  The earlier state is taken anew after 1, 2, 4 ... looks
 * (Brent's method), so that a loop of any length is found, and a warp that really
 * computes pays a comparison that fails at once.
 *
 * Warps that meet at barriers wake one another, so that none of them comes back to its
 * state with nothing changed.  Their cluster does: where nothing but arrivals has
 * happened between two equal states, and all warps that can run have run, no order of
 * theirs leads anywhere else. */
#include "emu/cluster.h"
#include "emu/must.h"

#include <stdlib.h>

struct spin {
    uint32_t pc[WARP_LANES];
    uint32_t live, parked, yielded;
    uint32_t looks,
        next;       /* looks since the state was taken, and when to take it anew */
    uint8_t *state; /* registers, then local memory, then the call area */
};

static size_t local_bytes(const struct kernel *k)
{
    return (size_t)k->local_bytes * WARP_LANES;
}

static size_t call_bytes(const struct kernel *k)
{
    return (size_t)k->call_bytes * WARP_LANES;
}

static size_t state_bytes(const struct kernel *k)
{
    return k->reg_bytes + local_bytes(k) + call_bytes(k);
}

static void take(struct spin *s, const struct warp *w, const struct kernel *k)
{
    memcpy(s->pc, w->pc, sizeof s->pc);
    s->live = w->live;
    s->parked = w->parked;
    s->yielded = w->yielded;
    memcpy(s->state, w->regs, k->reg_bytes);
    if (k->local_bytes)
        memcpy(s->state + k->reg_bytes, w->local, local_bytes(k));
    if (k->call_bytes)
        memcpy(s->state + k->reg_bytes + local_bytes(k), w->call, call_bytes(k));
    s->looks = 0;
}

static bool is_same(const struct spin *s, const struct warp *w, const struct kernel *k)
{
    return s->live == w->live && s->parked == w->parked && s->yielded == w->yielded &&
           memcmp(s->pc, w->pc, sizeof s->pc) == 0 &&
           memcmp(s->state, w->regs, k->reg_bytes) == 0 &&
           (!k->local_bytes ||
            memcmp(s->state + k->reg_bytes, w->local, local_bytes(k)) == 0) &&
           (!k->call_bytes || memcmp(s->state + k->reg_bytes + local_bytes(k), w->call,
                                     call_bytes(k)) == 0);
}

static struct spin *spin_of(struct warp *w, const struct kernel *k)
{
    if (w->spin)
        return w->spin;
    struct spin *s = must(calloc(1, sizeof *s));
    s->state = must(malloc(state_bytes(k)));
    w->spin = s;
    return s;
}

void spin_look(struct warp *w)
{
    const struct kernel *k = w->cta->cluster->grid->kernel;
    struct spin *s = spin_of(w, k);
    if (s->next == 0) {
        s->next = 1;
        take(s, w, k);
        return;
    }
    if (is_same(s, w, k)) {
        w->spinning = true;
        return;
    }
    if (++s->looks >= s->next) {
        s->next *= s->next < 1u << 30 ? 2 : 1;
        take(s, w, k);
    }
}

/* Most polling loops are short: after some rounds two or three comparisons settle it
 * long before the turn is over. */
bool spin_at_loop(struct warp *w, struct loop *l)
{
    const struct cluster *c = w->cta->cluster;
    if (l->events != c->events) {
        *l = (struct loop){.events = c->events};
        return false;
    }
    l->rounds++;
    if ((w->spin && w->spin->next) || l->rounds < 32)
        return false; /* the looks between turns are on it, or it is too early */
    struct spin *s = spin_of(w, c->grid->kernel);
    if (l->compare > 0) {
        l->compare--;
        if (is_same(s, w, c->grid->kernel))
            w->spinning = true;
        return w->spinning;
    }
    if ((l->rounds & (l->rounds - 1)) == 0) {
        take(s, w, c->grid->kernel);
        l->compare = 3;
    }
    return false;
}

void spin_reset(struct warp *w)
{
    w->spinning = false;
    if (w->spin)
        w->spin->next = 0;
}

void spin_free(struct warp *w)
{
    if (!w->spin)
        return;
    free(w->spin->state);
    free(w->spin);
    w->spin = NULL;
}

/* ---- loops through barriers */

#define CIRCLE_ROUNDS 64 /* with nothing but meetings, before the first look */

struct circle {
    uint64_t changes, global; /* when these rounds began */
    uint32_t rounds, looks, next;
    bool found;
    uint8_t *barriers; /* barriers_state(), and room for another one */
    struct spin *at;   /* of each warp */
    uint64_t *steps;   /* likewise */
};

static int warps_of(const struct cluster *c)
{
    return c->cta_count * c->ctas[0].warp_count;
}

static struct warp *warp_at(const struct cluster *c, int i)
{
    int each = c->ctas[0].warp_count;
    return &c->ctas[i / each].warps[i % each];
}

static void make_room(struct circle *s, const struct cluster *c)
{
    size_t count = (size_t)warps_of(c), bytes = state_bytes(c->grid->kernel);
    if (s->at)
        return;
    s->barriers = must(malloc(2 * barriers_state(c, NULL)));
    s->at = must(calloc(count, sizeof *s->at));
    s->steps = must(calloc(count, sizeof *s->steps));
    for (size_t i = 0; i < count; i++)
        s->at[i].state = must(malloc(bytes));
}

static void take_all(struct circle *s, const struct cluster *c)
{
    make_room(s, c);
    for (int i = 0; i < warps_of(c); i++) {
        take(&s->at[i], warp_at(c, i), c->grid->kernel);
        s->steps[i] = warp_at(c, i)->steps;
    }
    barriers_state(c, s->barriers);
    s->looks = 0;
}

static bool all_same(const struct circle *s, const struct cluster *c)
{
    size_t bytes = barriers_state(c, NULL);
    for (int i = 0; i < warps_of(c); i++) {
        const struct warp *w = warp_at(c, i);
        bool has_run = w->steps != s->steps[i] || !(w->live & ~w->parked);
        if (!has_run || !is_same(&s->at[i], w, c->grid->kernel))
            return false;
    }
    barriers_state(c, s->barriers + bytes);
    return memcmp(s->barriers, s->barriers + bytes, bytes) == 0;
}

bool circle_holds(const struct cluster *c)
{
    const struct circle *s = c->circle;
    return s && s->found && s->changes == c->events - c->meetings &&
           s->global == atomic_load(&c->grid->global_events);
}

bool circle_look(struct cluster *c, bool timed)
{
    uint64_t changes = c->events - c->meetings;
    uint64_t global = atomic_load(&c->grid->global_events);
    struct circle *s = c->circle;
    if (!s)
        s = c->circle = must(calloc(1, sizeof *s));
    if (timed || s->changes != changes || s->global != global) {
        circle_reset(c);
        s->changes = changes;
        s->global = global;
        return false;
    }
    if (++s->rounds < CIRCLE_ROUNDS)
        return false;
    if (s->next == 0) {
        s->next = 1;
        take_all(s, c);
        return false;
    }
    if (!all_same(s, c)) {
        if (++s->looks >= s->next) {
            s->next *= s->next < 1u << 30 ? 2 : 1;
            take_all(s, c);
        }
        return false;
    }
    s->found = true;
    for (int i = 0; i < warps_of(c); i++) {
        struct warp *w = warp_at(c, i);
        w->spinning = (w->live & ~w->parked) != 0;
        w->seen_events = c->events;
        w->seen_global_events = global;
    }
    return true;
}

void circle_reset(struct cluster *c)
{
    if (c->circle) {
        c->circle->rounds = c->circle->next = 0;
        c->circle->found = false;
    }
}

void circle_free(struct cluster *c)
{
    struct circle *s = c->circle;
    for (int i = 0; s && s->at && i < warps_of(c); i++)
        free(s->at[i].state);
    if (s) {
        free(s->barriers);
        free(s->at);
        free(s->steps);
    }
    free(s);
    c->circle = NULL;
}
