#include "emu/hb_clock.h"

#include <stdlib.h>
#include <string.h>

void hb_clock_free(struct hb_clock *c)
{
    free(c->at);
    *c = (struct hb_clock){0};
}

void hb_clock_reserve(struct hb_clock *c, uint32_t count)
{
    if (count > c->cap) {
        uint32_t cap = c->cap ? c->cap * 2 : 32;
        c->cap = cap < count ? count : cap;
        c->at = realloc(c->at, c->cap * sizeof *c->at);
        if (!c->at)
            abort();
    }
    if (count > c->count) {
        memset(c->at + c->count, 0, (count - c->count) * sizeof *c->at);
        c->count = count;
    }
}

static inline void raise_base(struct hb_entry *e, uint32_t time)
{
    if (time > e->base)
        e->base = time;
    if (e->ahead <= e->base)
        e->ahead = e->mask = 0;
}

static inline void raise_ahead(struct hb_entry *e, uint32_t lanes, uint32_t time)
{
    if (time <= e->base)
        return;
    e->mask |= lanes;
    if (time > e->ahead)
        e->ahead = time;
}

void hb_clock_add(struct hb_clock *c, uint32_t component, uint32_t lanes, uint32_t time)
{
    hb_clock_reserve(c, component + 1);
    struct hb_entry *e = &c->at[component];
    if (lanes == UINT32_MAX)
        raise_base(e, time);
    else
        raise_ahead(e, lanes, time);
}

void hb_clock_join(struct hb_clock *c, const struct hb_clock *other)
{
    if (other->count == 0)
        return;
    hb_clock_reserve(c, other->count);
    const struct hb_entry *from = other->at;
    struct hb_entry *to = c->at;
    for (uint32_t i = 0; i < other->count; i++) {
        if (from[i].base > to[i].base)
            raise_base(&to[i], from[i].base);
        if (from[i].mask)
            raise_ahead(&to[i], from[i].mask, from[i].ahead);
    }
}

void hb_know_free(struct hb_know *k)
{
    for (int i = 0; i < HB_PROXIES; i++)
        hb_clock_free(&k->of[i]);
    hb_others_free(k->others);
    k->others = NULL;
}

void hb_know_clear(struct hb_know *k)
{
    for (int i = 0; i < HB_PROXIES; i++)
        hb_clock_clear(&k->of[i]);
    hb_others_free(k->others);
    k->others = NULL;
}

bool hb_know_is_empty(const struct hb_know *k)
{
    return k->of[HB_PLAIN].count == 0 && k->of[HB_ASYNC_SHARED].count == 0 &&
           k->of[HB_ASYNC_GLOBAL].count == 0 && !k->others;
}

void hb_know_join(struct hb_know *k, const struct hb_know *other)
{
    for (int i = 0; i < HB_PROXIES; i++)
        hb_clock_join(&k->of[i], &other->of[i]);
    if (other->others)
        hb_others_join(&k->others, other->others);
}

void hb_know_add(struct hb_know *k, uint32_t component, uint32_t lanes, uint32_t time)
{
    for (int i = 0; i < HB_PROXIES; i++)
        hb_clock_add(&k->of[i], component, lanes, time);
}
