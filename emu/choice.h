/* choice.h - who goes on, where a schedule may choose.
 *
 * The strategies that explore (random, pct, replay) ask after every instruction that
 * others can see, and whenever a warp cannot go on.  What they would do without being
 * told is the default: the same warp goes on, or the next one that can, or the oldest
 * operation completes when no warp can.  A choice that differs is a deviation.  It is
 * named by the warp that went last, how many visible instructions it has behind it, and
 * how often it was asked there, so that a list of deviations from which some are struck
 * out still means something. */
#ifndef FP4EMU_CHOICE_H
#define FP4EMU_CHOICE_H

#include "emu/machine.h"

enum choice {
    CHOICE_WARP,  /* this warp goes on */
    CHOICE_OP,    /* this operation completes */
    CHOICE_FALSE, /* try_wait returns false instead of waiting */
    CHOICE_LANES, /* of a warp that has diverged, the lanes at this instruction go on */
};

#define CHOICE_AT_START 0xffffu /* before any warp has run */

struct deviation {
    uint64_t cluster;
    uint32_t warp; /* that went last: number in the cluster, or CHOICE_AT_START */
    uint32_t visible, asked;
    enum choice choice;
    uint32_t to;             /* WARP: its number; OP: its issuer's */
    uint32_t ordinal;        /* OP: how many the issuer had issued before; LANES: pc */
    uint32_t from_pc, to_pc; /* where both stand, for people */
    uint64_t number;         /* in the order made */
};

/* All deviations of a launch, made or to be made. */
struct deviations {
    struct deviation *at; /* made: in order; to be made: by deviation_order() */
    size_t count, cap;
    uint64_t launch;
};
void deviations_add(struct deviations *d, const struct deviation *from, size_t count);
void deviations_free(struct deviations *d);
int deviation_order(const void *a, const void *b); /* for qsort and bsearch */
/* record.c: as text.  Reads launch number `launch`; false: `why` has line and reason.
 */
bool deviations_read(struct deviations *out, const char *path, uint64_t launch,
                     char *why, size_t why_bytes);
/* Appends.  Clusters behind `last` are left out. */
bool deviations_write(const struct deviations *d, const char *path,
                      const struct kernel *k, uint64_t last);

struct pick {
    struct warp *w;
    struct async_op *op; /* neither: nobody can go on */
};

/* A fresh cluster; what the last one did becomes part of the grid's record. */
void choices_reset(struct cluster *c);
void choices_end(struct cluster *c);
void choices_free(struct cluster *c);

/* The warp has executed a visible instruction: does it go on? */
bool choice_stay(struct warp *w);
/* `leave`: the warp that went last could go on, but has had its turn or polled. */
struct pick choice_next(struct cluster *c, bool leave);
/* Before a try_wait parks. */
bool choice_false(struct warp *w);
/* Among groups of lanes at these pcs, ascending; an index. */
int choice_lanes(struct warp *w, const uint32_t *pcs, int count);
/* An operation was issued: its priority. */
void choice_issued(struct async_op *o);

/* Held back by starve. */
bool choice_starves(const struct warp *w);

#endif
