#include "emu/choice.h"
#include "emu/cluster.h"

#include <stdlib.h>

#define MAX_CHANGES 64
#define MAX_DEVIATIONS (1u << 20) /* of a cluster that are kept */
#define FALSE_SHARE 125000        /* of try_waits that would park, in millionths */
#define AGE_STEPS 32768           /* of the cluster, in which nobody is passed over */

struct choices {
    struct warp *last; /* that went */
    uint32_t asked;    /* before any warp has gone */
    struct pick next;  /* decided in the middle of a turn */
    bool is_decided;
    uint64_t points;         /* visible instructions of all warps */
    int64_t *priority;       /* pct: of each warp; the highest goes */
    int64_t lowest, highest; /* below, above all that were drawn */
    uint64_t *seen;          /* pct: steps of each warp when last looked at, */
    uint64_t seen_ops;       /* and how many operations there had been */
    uint64_t next_look;
    uint64_t op_since; /* steps when the last operation was picked, or none pended */
    uint64_t change_at[MAX_CHANGES];
    struct deviations made;
};

/* ---- chance: the cluster's own stream, xorshift64* */

static uint64_t draw(struct cluster *c)
{
    uint64_t x = c->rng ? c->rng : 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    c->rng = x;
    return x * 0x2545f4914f6cdd1du;
}

static uint32_t below(struct cluster *c, uint32_t count)
{
    return (uint32_t)((draw(c) >> 32) * count >> 32);
}

static bool happens(struct cluster *c, uint32_t millionths)
{
    return below(c, 1000000) < millionths;
}

/* ---- numbers of warps */

static uint32_t warp_count(const struct cluster *c)
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

static struct async_op *op_of(struct cluster *c, uint32_t issuer, uint32_t ordinal)
{
    for (struct async_op *o = c->async_first; o; o = o->next)
        if (number_of(o->issuer) == issuer && o->ordinal == ordinal)
            return o;
    return NULL;
}

/* ---- lists of deviations */

void deviations_add(struct deviations *d, const struct deviation *from, size_t count)
{
    if (d->count + count > d->cap) {
        d->cap = 2 * (d->count + count);
        d->at = realloc(d->at, d->cap * sizeof *d->at);
        if (!d->at)
            abort();
    }
    if (count)
        memcpy(d->at + d->count, from, count * sizeof *from);
    d->count += count;
}

void deviations_free(struct deviations *d)
{
    free(d->at);
    *d = (struct deviations){0};
}

static struct deviation key_of(struct cluster *c)
{
    struct choices *s = c->choices;
    struct deviation d = {.cluster = c->number, .warp = CHOICE_AT_START};
    if (!s->last) {
        d.asked = s->asked++;
        return d;
    }
    d.warp = number_of(s->last);
    d.visible = s->last->visible;
    d.asked = s->last->asked++;
    d.from_pc = s->last->cur_pc;
    return d;
}

/* Order of a plan: by cluster, then by the key. */
int deviation_order(const void *a, const void *b)
{
    const struct deviation *x = a, *y = b;
    const uint64_t xs[] = {x->cluster, x->warp, x->visible, x->asked};
    const uint64_t ys[] = {y->cluster, y->warp, y->visible, y->asked};
    for (int i = 0; i < 4; i++)
        if (xs[i] != ys[i])
            return xs[i] < ys[i] ? -1 : 1;
    return 0;
}

static const struct deviation *planned(const struct cluster *c,
                                       const struct deviation *key)
{
    const struct deviations *plan = c->grid->plan;
    if (!plan || plan->count == 0)
        return NULL;
    return bsearch(key, plan->at, plan->count, sizeof *key, deviation_order);
}

static void keep(struct cluster *c, const struct deviation *d)
{
    struct choices *s = c->choices;
    if (c->grid->record && s->made.count < MAX_DEVIATIONS)
        deviations_add(&s->made, d, 1);
}

/* ---- a cluster's beginning and end */

/* Priorities of warps are a random permutation above those that changes give. */
static void begin_pct(struct cluster *c)
{
    struct choices *s = c->choices;
    const struct rule *r = &c->grid->rule;
    uint32_t count = warp_count(c);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = below(c, i + 1);
        s->priority[i] = s->priority[k];
        s->priority[k] = (int64_t)i << 32 | INT32_MAX;
    }
    for (uint32_t i = 0; i + 1 < r->changes; i++)
        s->change_at[i] = 1 + below(c, r->span);
}

void choices_reset(struct cluster *c)
{
    const struct grid *g = c->grid;
    if (!strategy_explores(g->strategy))
        return;
    if (!c->choices) {
        c->choices = calloc(1, sizeof *c->choices);
        if (!c->choices)
            abort();
        c->choices->priority = calloc(warp_count(c), sizeof(int64_t));
        c->choices->seen = calloc(warp_count(c), sizeof(uint64_t));
        if (!c->choices->priority || !c->choices->seen)
            abort();
    }
    struct choices *s = c->choices;
    int64_t *priority = s->priority;
    uint64_t *seen = s->seen;
    deviations_free(&s->made);
    *s = (struct choices){.priority = priority, .seen = seen};
    s->highest = (int64_t)1 << 62;
    memset(seen, 0xff, warp_count(c) * sizeof *seen);
    s->next_look = AGE_STEPS;
    if (g->strategy == STRATEGY_PCT)
        begin_pct(c);
}

void choices_end(struct cluster *c)
{
    if (!c->choices || !c->grid->record)
        return;
    global_lock(c->grid);
    deviations_add(c->grid->record, c->choices->made.at, c->choices->made.count);
    global_unlock(c->grid);
    c->choices->made.count = 0;
}

void choices_free(struct cluster *c)
{
    if (!c->choices)
        return;
    deviations_free(&c->choices->made);
    free(c->choices->priority);
    free(c->choices->seen);
    free(c->choices);
    c->choices = NULL;
}

/* ---- who can go on */

/* Behind the warp that went last, in turn; itself first or last. */
static struct warp *next_warp(struct cluster *c, bool leave)
{
    struct choices *s = c->choices;
    uint32_t count = warp_count(c), from = s->last ? number_of(s->last) : count - 1;
    if (s->last && !leave && warp_can_run(s->last))
        return s->last;
    for (uint32_t i = 1; i <= count; i++) {
        struct warp *w = warp_at(c, (from + i) % count);
        if (warp_can_run(w))
            return w;
    }
    return NULL;
}

/* An operation completes when no warp can run, or they have run on for so long that
 * they may be waiting for it. */
static struct pick default_pick(struct cluster *c, bool leave)
{
    struct choices *s = c->choices;
    struct pick p = {0};
    if (!c->async_first)
        s->op_since = c->steps;
    if (c->steps - s->op_since < 2 * AGE_STEPS)
        p.w = next_warp(c, leave);
    if (!p.w)
        p.op = c->async_first;
    return p;
}

static struct pick random_pick(struct cluster *c)
{
    uint32_t count = warp_count(c), candidates = 0;
    for (uint32_t i = 0; i < count; i++)
        candidates += warp_can_run(warp_at(c, i));
    for (const struct async_op *o = c->async_first; o; o = o->next)
        candidates++;
    if (candidates == 0)
        return (struct pick){0};
    uint32_t wanted = below(c, candidates);
    for (uint32_t i = 0; i < count; i++)
        if (warp_can_run(warp_at(c, i)) && wanted-- == 0)
            return (struct pick){.w = warp_at(c, i)};
    for (struct async_op *o = c->async_first; o; o = o->next)
        if (wanted-- == 0)
            return (struct pick){.op = async_front_of(c, o)};
    return (struct pick){0};
}

/* Those above may wait for those below in a loop that never blocks.  So whoever has
 * been passed over from one look to the next rises above all. */
static void raise_passed_over(struct cluster *c)
{
    struct choices *s = c->choices;
    for (uint32_t i = 0; i < warp_count(c); i++) {
        struct warp *w = warp_at(c, i);
        bool can = warp_can_run(w);
        if (can && w->steps == s->seen[i])
            s->priority[i] = ++s->highest;
        s->seen[i] = can ? w->steps : UINT64_MAX;
    }
    for (struct async_op *o = c->async_first; o; o = o->next)
        if (o->id < s->seen_ops)
            o->priority = ++s->highest;
    s->seen_ops = c->async_count;
    s->next_look = c->steps + AGE_STEPS;
}

static struct pick pct_pick(struct cluster *c, bool leave)
{
    struct choices *s = c->choices;
    if (c->steps >= s->next_look)
        raise_passed_over(c);
    struct pick best = {0};
    int64_t highest = INT64_MIN;
    if (leave && s->last)
        s->priority[number_of(s->last)] = --s->lowest; /* it polls: others first */
    for (uint32_t i = 0; i < warp_count(c); i++) {
        struct warp *w = warp_at(c, i);
        if (s->priority[i] > highest && warp_can_run(w)) {
            highest = s->priority[i];
            best.w = w;
        }
    }
    struct async_op *op = NULL;
    for (struct async_op *o = c->async_first; o; o = o->next)
        if (o->priority > highest) {
            highest = o->priority;
            op = o;
        }
    return op ? (struct pick){.op = async_front_of(c, op)} : best;
}

static struct pick planned_pick(struct cluster *c, const struct deviation *key,
                                struct pick otherwise)
{
    const struct deviation *d = planned(c, key);
    if (d && d->choice == CHOICE_WARP && d->to < warp_count(c)) {
        struct warp *w = warp_at(c, d->to);
        if (warp_can_run(w))
            return (struct pick){.w = w};
    }
    if (d && d->choice == CHOICE_OP) {
        struct async_op *o = op_of(c, d->to, d->ordinal);
        if (o)
            return (struct pick){.op = async_front_of(c, o)};
    }
    return otherwise;
}

/* ---- the choices */

static struct pick choose(struct cluster *c, bool leave, bool free_choice)
{
    struct choices *s = c->choices;
    struct deviation key = key_of(c);
    struct pick usual = default_pick(c, leave), p = usual;
    switch (c->grid->strategy) {
    case STRATEGY_RANDOM:
        if (free_choice)
            p = random_pick(c);
        break;
    case STRATEGY_PCT:
        p = pct_pick(c, leave);
        break;
    default:
        p = planned_pick(c, &key, usual);
        break;
    }
    if ((p.w || p.op) && (p.w != usual.w || p.op != usual.op)) {
        key.choice = p.w ? CHOICE_WARP : CHOICE_OP;
        key.to = number_of(p.w ? p.w : p.op->issuer);
        key.ordinal = p.op ? p.op->ordinal : 0;
        key.to_pc = p.op ? p.op->pc : p.w->pc[bits_lowest(p.w->live)];
        keep(c, &key);
    }
    if (p.op)
        s->op_since = c->steps;
    return p;
}

bool choice_stay(struct warp *w)
{
    struct cluster *c = w->cta->cluster;
    struct choices *s = c->choices;
    s->points++;
    for (uint32_t i = 0; c->grid->strategy == STRATEGY_PCT && i < c->grid->rule.changes;
         i++)
        if (s->change_at[i] == s->points)
            s->priority[number_of(w)] = (int64_t)i + 1;
    bool moves =
        c->grid->strategy != STRATEGY_RANDOM || happens(c, c->grid->rule.share);
    s->next = choose(c, false, moves);
    s->is_decided = s->next.w != w;
    return !s->is_decided;
}

struct pick choice_next(struct cluster *c, bool leave)
{
    struct choices *s = c->choices;
    struct pick p = s->is_decided ? s->next : choose(c, leave, true);
    s->is_decided = false;
    if (p.w)
        s->last = p.w;
    return p;
}

bool choice_false(struct warp *w)
{
    struct cluster *c = w->cta->cluster;
    struct deviation key = key_of(c);
    bool no = false;
    if (c->grid->strategy == STRATEGY_REPLAY) {
        const struct deviation *d = planned(c, &key);
        no = d && d->choice == CHOICE_FALSE;
    } else {
        no = happens(c, FALSE_SHARE);
    }
    key.choice = CHOICE_FALSE;
    key.from_pc = w->cur_pc;
    if (no)
        keep(c, &key);
    return no;
}

int choice_lanes(struct warp *w, const uint32_t *pcs, int count)
{
    struct cluster *c = w->cta->cluster;
    struct deviation key = key_of(c);
    int i = 0;
    if (c->grid->strategy == STRATEGY_REPLAY) {
        const struct deviation *d = planned(c, &key);
        for (int k = 0; d && d->choice == CHOICE_LANES && k < count; k++)
            if (pcs[k] == d->ordinal)
                i = k;
    } else if (happens(c, c->grid->strategy == STRATEGY_RANDOM ? c->grid->rule.share
                                                               : FALSE_SHARE)) {
        i = (int)below(c, (uint32_t)count);
    }
    key.choice = CHOICE_LANES;
    key.ordinal = key.to_pc = pcs[i];
    key.to = key.warp;
    if (i != 0)
        keep(c, &key);
    return i;
}

void choice_issued(struct async_op *o)
{
    struct cluster *c = o->issuer->cta->cluster;
    o->ordinal = o->issuer->issued++;
    if (c->grid->strategy == STRATEGY_PCT)
        o->priority = (int64_t)below(c, warp_count(c) + 1) << 32 | below(c, INT32_MAX);
}

bool choice_starves(const struct warp *w)
{
    const struct grid *g = w->cta->cluster->grid;
    uint32_t i = (uint32_t)w->index;
    if (g->strategy != STRATEGY_STARVE)
        return false;
    return w->is_starved || (i >= g->rule.first && i <= g->rule.last);
}
