/* coverage.h - what came to pass under a schedule, as a set of hashes.
 *
 * For each barrier the order of arrivals and waits within a phase; for each KiB of
 * shared memory the pairs of instructions of which one reads what the other wrote.
 * When further seeds add nothing, there is little point in more of them. */
#ifndef FP4EMU_COVERAGE_H
#define FP4EMU_COVERAGE_H

#include "emu/machine.h"

struct coverage; /* a set; not NULL in a grid: wanted */

struct coverage *coverage_new(void);
void coverage_free(struct coverage *s);
size_t coverage_keys(const struct coverage *s, unsigned long long *keys, size_t count);

/* A cluster has one while it runs; what is in it becomes part of the grid's. */
void coverage_reset(struct cluster *c);
void coverage_end(struct cluster *c);

/* These do nothing unless the cluster has one. */
void coverage_arrive(const struct warp *w, struct mbar *m);
void coverage_wait(const struct warp *w, struct mbar *m);
void coverage_phase(struct mbar *m); /* is complete */
/* coverage_touch() stands in machine.h. */

#endif
