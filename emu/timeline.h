/* timeline.h - virtual time of a launch: when things would happen, by a simple model.
 *
 * The emulator computes values in whatever order a schedule takes; beside them this
 * keeps a clock for each warp and each engine of the first clusters.  An instruction
 * costs its warp a fixed number of cycles, an engine does one operation after the
 * other, and who waits goes on when what it waits for is there by these clocks.  The
 * model is meant for seeing who waits for whom, not for predicting how long a kernel
 * takes; emu/README.md has its numbers.
 *
 * c->timeline is NULL unless the launch is traced, and for clusters behind the first.
 */
#ifndef FP4EMU_TIMELINE_H
#define FP4EMU_TIMELINE_H

#include "emu/machine.h"

#define TIMELINE_CLUSTERS 4       /* are traced */
#define TIMELINE_EVENTS (1 << 16) /* of each of them, at most */

/* Why a warp stands still. */
enum stall {
    STALL_LOAD,    /* bytes of a copy into shared memory */
    STALL_TENSOR,  /* a commit of the tensor pipe */
    STALL_WARPS,   /* an arrival of another warp */
    STALL_BARRIER, /* named and cluster barriers */
    STALL_STORE,   /* a bulk store */
    STALL_TMEM,    /* tcgen05.ld and st */
    STALL_SLEEP,
    STALL_COUNT
};

/* A piece of one track. */
struct span {
    enum span_kind {
        SPAN_RUN,    /* of a warp */
        SPAN_WAIT,   /* of a warp; `what` is its enum stall */
        SPAN_LOAD,   /* of the copy engine; `what` bytes */
        SPAN_STORE,  /* the same */
        SPAN_MMA,    /* of the tensor pipe */
        SPAN_CP,     /* the same */
        SPAN_COMMIT, /* the same, takes no time; `what` the barrier's offset */
        SPAN_PHASE,  /* of the barrier at offset `what` */
    } kind;
    uint32_t cta, warp; /* rank; of whoever issued it */
    uint32_t pc, what;
    uint64_t from, to; /* cycles */
};

/* ---- a launch */

/* All that was traced so far in this process, bounded; spans of clusters are added as
 * they end. */
struct trace;
struct trace *trace_new(void);
void trace_free(struct trace *t);
/* A launch begins, and ends: the file is written anew, valid at any time.  A text with
 * the stalls of each role goes to `summary`, which the caller frees. */
void trace_start(struct trace *t, const struct grid *g);
bool trace_end(struct trace *t, const struct grid *g, const char *path, char **summary);
/* timeline.c: a cluster's spans and sums; under the grid's lock. */
void trace_add(struct trace *t, const struct cluster *c, const struct span *spans,
               int count, bool is_cut);
struct trace_warp {
    char role[96];
    uint64_t end; /* cycles from the start of the cluster to the warp's exit */
    uint64_t stalls[STALL_COUNT];
};
void trace_add_warp(struct trace *t, const struct cluster *c, const struct warp *w,
                    const struct trace_warp *sums);

/* ---- a cluster */

void timeline_reset(struct cluster *c);
void timeline_end(struct cluster *c);
void timeline_free(struct cluster *c);

/* The hooks; each does nothing where c->timeline is NULL. */
void timeline_step(struct warp *w, const struct op *op); /* executed */
void timeline_issue(struct async_op *o);
void timeline_complete(struct async_op *o); /* before its work is done */
void timeline_arrive(struct warp *w, struct mbar *m);
void timeline_phase(struct mbar *m);                        /* is complete */
void timeline_waited(struct warp *w, const struct mbar *m); /* a wait returned true */
void timeline_bar_arrive(struct warp *w, uint32_t number);  /* 16: the cluster's */
void timeline_bar_release(struct cta *t, uint32_t number);
void timeline_bar_pass(struct warp *w, uint32_t number);
void timeline_bulk_wait(struct warp *w, uint32_t upto, bool read_only); /* groups */
void timeline_sleep(struct warp *w, uint64_t ns);

#endif
