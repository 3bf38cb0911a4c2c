/* depend.h - what a grid has touched, for the next grid in its stream (check 39).
 *
 * A kernel launched with the attribute of programmatic serialization may start while
 * the one before it still runs, so before it has executed griddepcontrol.wait it must
 * not touch what that one writes, nor write what that one reads.  Here launches follow
 * one another and values are right in any case; what is checked is the wait.  Memory is
 * stamped in pieces of 16 bytes with the grid that wrote it last, and with the one that
 * read it last, from when a kernel with griddepcontrol is loaded. */
#ifndef FP4EMU_DEPEND_H
#define FP4EMU_DEPEND_H

#include "emu/across.h"
#include "emu/machine.h"

/* Some kernel uses griddepcontrol. */
void depend_want(void);
/* A stamp for the grid that is about to run; 0: nobody wants stamps. */
uint8_t depend_stamp(void);

/* The warp has passed a barrier: it knows what the cluster's other warps knew. */
static inline void depend_passed_barrier(struct warp *w)
{
    w->syncs++;
    w->dependency_seen |= w->cta->cluster->dependency_waited;
}

/* Is there anything to do for an access at all? */
static inline bool depend_watches(const struct warp *w)
{
    const struct grid *g = w->cta->cluster->grid;
    return g->stamp || g->footprint || (g->depends_on && !w->dependency_seen);
}

bool depend_check(struct warp *w, uint64_t address, uint64_t bytes, bool write);
/* An access to global memory.  False after a report. */
static inline bool depend_access(struct warp *w, uint64_t address, uint64_t bytes,
                                 bool write)
{
    return !depend_watches(w) || depend_check(w, address, bytes, write);
}

bool depend_check_lanes(struct warp *w, const uint64_t *address, uint32_t lanes,
                        uint32_t bytes, bool write);
/* The same for each of the lanes. */
static inline bool depend_lanes(struct warp *w, const uint64_t *address, uint32_t lanes,
                                uint32_t bytes, bool write)
{
    return !depend_watches(w) || depend_check_lanes(w, address, lanes, bytes, write);
}

#endif
