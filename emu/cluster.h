/* cluster.h - one cluster on one host thread: its memory, and who steps next. */
#ifndef FP4EMU_CLUSTER_H
#define FP4EMU_CLUSTER_H

#include "emu/machine.h"

/* Memory for any cluster of `g`; used for one after the other. */
struct cluster *cluster_new(struct grid *g);
/* Makes it cluster `number`, fresh. */
void cluster_reset(struct cluster *c, uint64_t number);
void cluster_free(struct cluster *c);

enum progress {
    PROGRESS_DONE,   /* all threads have exited */
    PROGRESS_SLICE,  /* its turn is over; it can go on */
    PROGRESS_IDLE,   /* ... but it only polls, or waits for time to pass */
    PROGRESS_STUCK,  /* only a change of global memory can free it */
    PROGRESS_FAILED, /* see the report */
};

/* Runs until about `step_budget` warp instructions are done.  `alone`: no other cluster
 * is there that could do anything, so that virtual time may hurry. */
enum progress cluster_run(struct cluster *c, uint64_t step_budget, bool alone);

/* ---- schedule.c, for the exec_ functions that let lanes wait or go */

/* Could it do something now?  Wakes what events and time wake. */
bool warp_can_run(struct warp *w);

enum turn {
    TURN_BLOCKED, /* no lane can run */
    TURN_OVER,    /* it could go on */
    TURN_POLLED,  /* ... but only to poll again */
    TURN_LEFT, /* ... and so could other lanes of the warp, which have not been asked */
    TURN_FAILED,
};

/* Steps until it blocks, or somebody else should have a turn. */
enum turn warp_turn(struct warp *w);
/* Takes `lanes` out of whatever they wait for. */
void wake(struct warp *w, uint32_t lanes);
/* All groups that wait for `m`. */
void wake_mbar(const struct mbar *m);
enum flow park_for(struct warp *w, uint32_t lanes, struct wait wait);
/* The lanes leave the program: not live any more.  False after a report. */
bool exit_lanes(struct warp *w, uint32_t lanes);
/* exec_bar.c: barriers on which only exited threads are missing are released. */
bool barriers_after_exit(struct warp *w);

/* ---- async.c */
void async_forget(struct cluster *c); /* whatever is pending or on record */
void async_free(struct cluster *c);   /* and its spare memory */

/* ---- exec_mbar.c */
void mbars_reset(struct cta *c);
void mbars_free(struct cta *c);
bool mbars_at_end(struct cluster *c); /* check 8: bytes that never came */

/* ---- exec_bar.c, exec_cpasync.c: state of a CTA */
void barriers_reset(struct cluster *c);
void barriers_free(struct cluster *c);
/* "64 of 128 threads have arrived: warps 0 1" */
const char *barrier_describe(const struct cta *c, uint32_t number, char *text,
                             size_t bytes);
/* Has it arrived there, with all its lanes? */
bool barrier_has(const struct warp *w, uint32_t number);
bool cluster_barrier_has(const struct warp *w);
/* Who has arrived where, for comparisons; `to` NULL: how many bytes that takes. */
size_t barriers_state(const struct cluster *c, uint8_t *to);
const char *cluster_barrier_describe(const struct cluster *c, char *text, size_t bytes);
bool cpasync_cta_end(struct warp *w, struct cta *c);
void cpasync_free(struct cta *c);

/* ---- exec_tmap.c */
void tmap_views_free(struct cta *c);
void tmap_edits_free(struct grid *g);

/* ---- exec_wgmma.c */
void wgmma_free(struct cta *c);

/* ---- exec_regs.c */
bool registers_cta_end(struct warp *w, struct cta *c);
/* At a standstill: is what stands at `pc` a setmaxnreg that waits for registers? */
bool registers_waits(const struct warp *w, uint32_t pc);
/* ... and which warp keeps some that its group has given up; NULL: none. */
struct warp *registers_kept(const struct cta *c, char *text, size_t bytes);
void registers_free(struct cta *c);

/* ---- check_spin.c */

/* What take_turn() knows of the loop that the warp may be in. */
struct loop {
    uint64_t events;
    uint32_t rounds, compare; /* loop heads seen without an event; looks to come */
};
/* Called at the head of a loop, within one turn; true: w->spinning was set. */
bool spin_at_loop(struct warp *w, struct loop *l);
/* Called at the end of a turn in which nothing changed in the cluster; sets
 * w->spinning when the warp is in a state in which it was before. */
void spin_look(struct warp *w);
void spin_reset(struct warp *w);
void spin_free(struct warp *w);
/* Called behind a round in which warps have gone on: do they only meet at barriers,
 * round and round?  All that can run then count as spinning. */
bool circle_look(struct cluster *c, bool timed);
/* Has it found so, and has nothing changed since? */
bool circle_holds(const struct cluster *c);
void circle_reset(struct cluster *c);
void circle_free(struct cluster *c);

/* ---- check_deadlock.c: reports that no warp of the cluster can go on, and why. */
void deadlock_report(struct cluster *c);
/* Notes of the newest report: who has signalled the barrier so far, and with what. */
void note_signals(struct grid *g, const struct mbar *m);
/* ... that it has reached the limit of steps, and where its warps stand. */
void endless_report(struct cluster *c);

#endif
