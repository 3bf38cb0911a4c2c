/* hb_clock.h - vector clocks: what somebody knows to have happened.
 *
 * A component is whoever does things in an order of its own: a warp, the bulk stores of
 * a warp, an mbarrier with its phases.  Lanes of a warp share a component; since a lane
 * may run ahead of the last sync of its warp, an entry has two times: the lanes in
 * `mask` are known up to `ahead`, the others up to `base`.  Two lanes that are ahead by
 * different times take the later one, which may miss a race and never invents one. */
#ifndef FP4EMU_HB_CLOCK_H
#define FP4EMU_HB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct hb_entry {
    uint32_t base, ahead; /* mask 0: ahead does not count */
    uint32_t mask;
};

struct hb_clock {
    struct hb_entry *at;
    uint32_t count, cap; /* components behind the last one: nothing is known of them */
};

void hb_clock_free(struct hb_clock *c);
void hb_clock_add(struct hb_clock *c, uint32_t component, uint32_t lanes,
                  uint32_t time);
void hb_clock_join(struct hb_clock *c, const struct hb_clock *other);
/* Room for `count` components. */
void hb_clock_reserve(struct hb_clock *c, uint32_t count);

static inline void hb_clock_clear(struct hb_clock *c)
{
    c->count = 0;
}

/* Up to when is this lane of the component known? */
static inline uint32_t hb_clock_of(const struct hb_clock *c, uint32_t component,
                                   uint32_t lane)
{
    if (component >= c->count)
        return 0;
    const struct hb_entry *e = &c->at[component];
    return e->mask >> lane & 1 ? e->ahead : e->base;
}

static inline bool hb_clock_has(const struct hb_clock *c, uint32_t component,
                                uint32_t lanes, uint32_t time)
{
    if (component >= c->count)
        return false;
    const struct hb_entry *e = &c->at[component];
    return time <= e->base || (time <= e->ahead && (lanes & ~e->mask) == 0);
}

/* All that somebody knows: plainly, and what of it has been fenced into the async
 * proxy, for shared and for global memory.  `others`: of clusters that sent word
 * through global memory (hb_global.c). */
enum hb_proxy { HB_PLAIN, HB_ASYNC_SHARED, HB_ASYNC_GLOBAL, HB_PROXIES };

struct hb_know {
    struct hb_clock of[HB_PROXIES];
    struct hb_others *others;
};

void hb_know_free(struct hb_know *k);
void hb_know_clear(struct hb_know *k);
bool hb_know_is_empty(const struct hb_know *k);
void hb_know_join(struct hb_know *k, const struct hb_know *other);
/* Adds an event that needs no fence: the completion of asynchronous work. */
void hb_know_add(struct hb_know *k, uint32_t component, uint32_t lanes, uint32_t time);

/* ---- hb_global.c */
struct hb_others;
void hb_others_free(struct hb_others *o);
/* Into *o, which may be NULL. */
void hb_others_join(struct hb_others **o, const struct hb_others *other);

#endif
