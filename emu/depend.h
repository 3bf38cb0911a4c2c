/* depend.h - what a grid has written, for the next grid in its stream (check 39).
 *
 * A kernel launched with the attribute of programmatic serialization may start while
 * the one before it still runs, so it must not touch what that one writes before it has
 * executed griddepcontrol.wait.  Here launches follow one another and values are right
 * in any case; what is checked is the wait.  Memory is stamped in pieces of 16 bytes
 * with the grid that wrote it last, from when a kernel with griddepcontrol is loaded.
 */
#ifndef FP4EMU_DEPEND_H
#define FP4EMU_DEPEND_H

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

bool depend_check(struct warp *w, uint64_t address, uint64_t bytes, bool write);
/* An access to global memory.  False after a report. */
static inline bool depend_access(struct warp *w, uint64_t address, uint64_t bytes,
                                 bool write)
{
    const struct grid *g = w->cta->cluster->grid;
    if (!(g->depends_on && !w->dependency_seen) && !(write && g->stamp))
        return true;
    return depend_check(w, address, bytes, write);
}

#endif
