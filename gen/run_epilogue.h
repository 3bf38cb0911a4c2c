/* run_epilogue.h - compares the outputs of an epilogue with what they should be.
 *
 * The sums are those of a kernel without epilogue; the expression is evaluated on the
 * host (gen/expr_eval.h), and blocks with scales are quantised by the independent
 * reference (tests/ref.h) too.  Every bit must agree, but what approximate instructions
 * make may be off as far as these may (gen/run_slack.h), whatever the driver. */
#ifndef FP4GEN_RUN_EPILOGUE_H
#define FP4GEN_RUN_EPILOGUE_H

#include "gen/expr.h"
#include "gen/run_outputs.h"

struct epilogue_run {
    const struct expr *e;
    const struct image *image;
    const struct run_arg *args;
    const struct run_output *outs;
    uint32_t m, n;
    const float *acc; /* m x n, without gaps */
    float alpha;
};

struct epilogue_compared {
    uint64_t elements, wrong; /* elements and scales, each counted once */
    uint64_t near;            /* others, but such as approximations may give */
    int output;               /* of the first one that is wrong */
    bool is_scale;
    bool by_reference; /* the quantiser of tests/ref.h says so, not the expression */
    size_t row, col;   /* col: of a scale its number in the row */
    uint32_t got, want;
};

/* Rows first, first + step ...; with step 1 amax and the padding of scales are compared
 * as well.  False: no memory. */
bool epilogue_compare(const struct epilogue_run *r, size_t first, size_t step,
                      struct epilogue_compared *out);
/* The global scales of NVFP4 outputs that are parameters, or vectors of them, and were
 * not set: such that the first rows fill the range.  `args` are those of r. */
void epilogue_choose_globals(const struct epilogue_run *r, struct run_arg *args);
/* The first output whose global scale is one value for all rows, but not a finite one
 * above 0; -1: there is none. */
int epilogue_bad_global(const struct epilogue_run *r, float *value);
/* Does it compute with approximations, whose last bits differ between machines? */
bool epilogue_is_approximate(const struct expr *e);

#endif
