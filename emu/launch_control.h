/* launch_control.h - cluster launch control: clusters that take over others.
 *
 * Which cluster a request gets is settled beforehand, so that a run is the same on any
 * number of host threads.  Of the clusters launched at first, number i owns the
 * unlaunched ones i + n, i + 2n ... (n: launched at first); it takes them over in this
 * order, and when it exits the next one it has left is launched in its place. */
#ifndef FP4EMU_LAUNCH_CONTROL_H
#define FP4EMU_LAUNCH_CONTROL_H

#include "emu/machine.h"

/* Clusters of a grid. */
uint64_t cluster_total(const struct grid *g);

/* Answers in shared memory that nobody has read yet: the bytes at from .. to - 1 have
 * been read. */
void answers_read(struct cta *c, uint32_t from, uint32_t to);
/* Widens from .. to by the places of unread answers. */
void answers_watch(const struct cta *c, uint32_t *from, uint32_t *to);
/* A fresh CTA. */
void answers_reset(struct cta *c);

#endif
