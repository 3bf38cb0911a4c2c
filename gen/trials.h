/* trials.h - runs one kernel after the other under one schedule after the other, each
 * in a process of its own on the emulator, some processes at a time.
 *
 * A process of its own: the emulator reads its environment once, a fault ends a CUDA
 * context, and a kernel that brings the emulator down must not take the verdict along.
 * They end when this process ends, however that comes. */
#ifndef FP4GEN_TRIALS_H
#define FP4GEN_TRIALS_H

#include "gen/run.h"

struct trial {
    const struct run_options *run; /* borrowed: kernel and problem */
    const char *strategy; /* as FP4EMU_STRATEGY; pct:D gets its span from the base */
    uint64_t seed;
    const char *record; /* file for FP4EMU_RECORD, or NULL */
    int base;           /* trial whose outputs, compared with the reference, these must
                           equal bit for bit; itself: it is compared with the reference */
};

enum trial_state {
    TRIAL_NOT_RUN,
    TRIAL_RUNS,
    TRIAL_FINE,
    TRIAL_FAILED,
    TRIAL_LEFT_OUT /* the seeds before it have shown nothing new */
};

struct trial_result {
    enum trial_state state;
    bool has_warnings; /* of the emulator */
    bool other_bits;   /* right, but not bit for bit as the base */
    bool is_refused;   /* no launch came about: status says whose fault it is */
    int signal;        /* that ended the process, or 0 */
    int status;        /* else its exit status */
    int check, line;   /* of the error in its report; 0: there is none */
    uint64_t hash;     /* of outputs */
    uint64_t visible;  /* instructions of a cluster that others can see, at most */
    uint64_t *keys;    /* coverage: what came to pass, as hashes; owned */
    size_t key_count;
    char *text;     /* all that it wrote, owned */
    char *strategy; /* that it ran under, complete; owned */
};

struct trials {
    const struct trial *at;
    struct trial_result *results; /* as many */
    int count;
    int processes; /* at a time */
    int quiet;     /* so many seeds in a row that show nothing new are the last ones of
                      their base; 0: all are run */
    const char *level, *mma; /* FP4EMU_CHECK, FP4EMU_MMA; NULL: as they are */
    /* Called when a trial has ended; may be NULL. */
    void (*progress)(void *arg, int done, int count);
    void *arg;
};

/* Runs until all are done or left out, or one has failed and those before it are done:
 * its number; -1: all are fine.  The outcome does not depend on who ends first. */
int trials_run(struct trials *t);
int trials_left_out(const struct trials *t);
void trials_free(struct trials *t); /* what results own */

#endif
