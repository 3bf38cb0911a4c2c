/* check.h - `gen check`: one kernel, or all of a config, under many schedules. */
#ifndef FP4GEN_CHECK_H
#define FP4GEN_CHECK_H

#include "gen/trials.h"

struct check_options {
    const char *level, *mma; /* NULL: as the environment says, or the defaults */
    int seeds;               /* of random and of pct, each; -1: as many as is usual */
    int stop_after;          /* seeds in a row that show nothing new; 0: never */
    bool minimise;
    bool matrix;
};

/* 0: no fault; 1: a fault, or it could not be run; 2: misused. */
int verb_check(const struct run_options *run, const struct check_options *o, FILE *out,
               FILE *err);

/* check_minimise.c: the fewest choices of the schedule of `failed` with which it still
 * fails in the same way, told in words.  False: it could not be found out. */
bool check_minimise(const struct trials *t, int failed, struct arena *a, FILE *out,
                    FILE *err);
/* check_matrix.c: all kernels of a config, each with two problems.  Allocated in `a`;
 * NULL after a report in `d`. */
struct run_options *check_matrix(struct arena *a, const struct run_options *run,
                                 int *count, struct diags *d);

/* What a kernel is, for the sizes and the schedules that suit it. */
struct check_kernel {
    const char *name;
    uint32_t tile[3], stages, warps, n_multiple;
    bool is_gemm;
    bool has_reference; /* false: PTX without the expression of its epilogue */
};
/* False after messages. */
bool check_read_kernel(struct arena *a, const struct run_options *run,
                       struct check_kernel *k, FILE *err);
/* The i-th problem for it: few CTAs with several tiles each, rings that go round, tails
 * in all directions.  Sizes that are given stay. */
void check_choose_sizes(struct run_options *run, const struct check_kernel *k, int i);

#endif
