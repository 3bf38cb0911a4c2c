#include "emu/coverage.h"
#include "emu/cluster.h"
#include "emu/must.h"

#include <stdlib.h>

#define PIECE_SHIFT 10 /* KiB */
#define PIECES 256     /* of a CTA's window */

struct coverage {
    uint64_t *slots; /* 0: empty; open addressing */
    size_t room, count;
    uint32_t *writers; /* of a cluster: 1 + pc, for each piece of each CTA */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b * 0x9e3779b97f4a7c15u) + 0x2545f4914f6cdd1du;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

struct coverage *coverage_new(void)
{
    struct coverage *s = must(calloc(1, sizeof *s));
    s->room = 256;
    s->slots = must(calloc(s->room, sizeof *s->slots));
    return s;
}

void coverage_free(struct coverage *s)
{
    if (!s)
        return;
    free(s->slots);
    free(s->writers);
    free(s);
}

static void add(struct coverage *s, uint64_t key)
{
    key += key == 0;
    if (2 * s->count >= s->room) {
        struct coverage bigger = {.room = 4 * s->room};
        bigger.slots = must(calloc(bigger.room, sizeof *bigger.slots));
        for (size_t i = 0; i < s->room; i++)
            if (s->slots[i])
                add(&bigger, s->slots[i]);
        free(s->slots);
        s->slots = bigger.slots;
        s->room = bigger.room;
    }
    size_t i = key % s->room;
    while (s->slots[i] && s->slots[i] != key)
        i = (i + 1) % s->room;
    s->count += s->slots[i] == 0;
    s->slots[i] = key;
}

size_t coverage_keys(const struct coverage *s, unsigned long long *keys, size_t count)
{
    size_t stored = 0;
    for (size_t i = 0; s && i < s->room && stored < count; i++)
        if (s->slots[i])
            keys[stored++] = s->slots[i];
    return s ? s->count : 0;
}

/* ---- of a cluster */

void coverage_reset(struct cluster *c)
{
    if (!c->grid->coverage)
        return;
    size_t pieces = (size_t)c->cta_count * PIECES;
    if (!c->coverage) {
        c->coverage = coverage_new();
        c->coverage->writers = must(calloc(pieces, sizeof(uint32_t)));
    }
    struct coverage *s = c->coverage;
    memset(s->slots, 0, s->room * sizeof *s->slots);
    memset(s->writers, 0, pieces * sizeof *s->writers);
    s->count = 0;
}

void coverage_end(struct cluster *c)
{
    if (!c->coverage)
        return;
    global_lock(c->grid);
    for (size_t i = 0; i < c->coverage->room; i++)
        if (c->coverage->slots[i])
            add(c->grid->coverage, c->coverage->slots[i]);
    global_unlock(c->grid);
}

/* ---- barriers */

static void event(const struct warp *w, struct mbar *m, uint64_t what)
{
    uint64_t who = (uint64_t)w->cta->rank << 8 | (uint64_t)w->index;
    m->order = mix(m->order, what << 60 | who << 32 | w->cur_pc);
}

void coverage_arrive(const struct warp *w, struct mbar *m)
{
    if (m->cta->cluster->coverage)
        event(w, m, 1);
}

/* Once for each warp and phase: how often it polls does not matter. */
void coverage_wait(const struct warp *w, struct mbar *m)
{
    uint64_t bit = (uint64_t)1 << w->index % 64;
    if (!m->cta->cluster->coverage || m->waiters & bit)
        return;
    m->waiters |= bit;
    event(w, m, 2);
}

void coverage_phase(struct mbar *m)
{
    struct coverage *s = m->cta->cluster->coverage;
    if (!s)
        return;
    add(s, mix(m->order, (uint64_t)m->cta->rank << 32 | m->offset));
    m->order = m->waiters = 0;
}

/* ---- shared memory */

void coverage_touch(const struct cta *c, uint32_t pc, uint32_t from, uint32_t to,
                    bool write)
{
    struct coverage *s = c->cluster->coverage;
    if (!s || to <= from)
        return;
    uint32_t *writers = s->writers + (size_t)c->rank * PIECES;
    for (uint32_t i = from >> PIECE_SHIFT; i <= (to - 1) >> PIECE_SHIFT && i < PIECES;
         i++) {
        if (write)
            writers[i] = pc + 1;
        else if (writers[i])
            add(s, mix((uint64_t)writers[i] << 32 | pc,
                       (uint64_t)1 << 63 | (uint64_t)c->rank << 32 | i));
    }
}
