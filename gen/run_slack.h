/* run_slack.h - how far an output may be off because approximate instructions are.
 *
 * Hardware's ex2, lg2, rcp, rsqrt, sqrt and tanh keep the bounds of docs/numerics.md;
 * the host rounds correctly.  Each of them in an expression is moved by its bound in
 * turn, and what that changes in the value of an output is added up (to first order,
 * with a quarter on top).  A code is right when some value so near to the host's has
 * it, a scale when some amax has. */
#ifndef FP4GEN_RUN_SLACK_H
#define FP4GEN_RUN_SLACK_H

#include "gen/expr_eval.h"

struct slack {
    const struct expr_output *output;
    const float *value, *by; /* of its value before it is stored, one a column */
    int cols;
    float global;              /* NVFP4 */
    const uint8_t *low, *high; /* scales */
    float amax_low, amax_high;
};

/* Do approximations move the outputs of `e` a little when they move a little?  Not
 * where something is rounded, compared or looked at bit by bit on the way. */
bool slack_is_small(const struct expr *e);
/* Of output k in one row; lives in `a`. */
struct slack *slack_of(struct arena *a, const struct expr *e, const struct expr_row *r,
                       int k);
/* Is it right?  `scale` is the one that the block of the column was given. */
bool slack_has_code(const struct slack *s, size_t col, uint8_t scale, uint32_t code);
bool slack_has_scale(const struct slack *s, size_t block, uint8_t scale);

#endif
