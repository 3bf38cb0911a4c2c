/* seen.h - a set of numbers that grows: what came to pass under schedules so far. */
#ifndef FP4GEN_SEEN_H
#define FP4GEN_SEEN_H

#include <stddef.h>
#include <stdint.h>

struct seen {
    uint64_t *at; /* ascending */
    size_t count, room;
};

/* How many of them are new. */
size_t seen_add(struct seen *s, const uint64_t *keys, size_t count);
void seen_clear(struct seen *s);

#endif
