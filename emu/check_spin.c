/* check_spin.c - sees through polling loops.
 *
 * A warp whose registers, local memory and program counters are all what they were at
 * an earlier time, and which of its lanes have had their turn too, with nothing changed
 * in the cluster since, will repeat itself until something changes.  Nothing is assumed
 * about the shape of the loop.  The earlier state is taken anew after 1, 2, 4 ... looks
 * (Brent's method), so that a loop of any length is found, and a warp that really
 * computes pays a comparison that fails at once. */
#include "emu/cluster.h"

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
    struct spin *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->state = malloc(k->reg_bytes + local_bytes(k) + call_bytes(k));
    if (!s->state)
        abort();
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
