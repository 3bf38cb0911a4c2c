/* expr_eval.h - an epilogue computed on the host, for some columns of one row.
 *
 * Every operation is done as expr_ops.def says, so the result is that of the kernel bit
 * for bit, except after an approximation: these are computed in double and rounded,
 * which is what the emulator does; hardware may differ in the last places. */
#ifndef FP4GEN_EXPR_EVAL_H
#define FP4GEN_EXPR_EVAL_H

#include <stdbool.h>

#include "gen/expr.h"

/* What an input is.  Values are f32 bits (narrow inputs widened), or s32 and u32. */
struct expr_arg {
    uint32_t value;         /* SCALAR; VEC_ROW: of this row */
    const uint32_t *values; /* VEC_COL, AUX: of this row, from the first column on */
};

struct expr_row {
    int cols;     /* tile columns, a multiple of expr_chunk_multiple() */
    uint32_t col; /* the first, a multiple of it too */
    uint32_t row, m, n;
    float alpha;
    const float *acc;            /* cols */
    const struct expr_arg *args; /* as e->inputs */
    /* For run_slack.h: the values of a node are moved, by `move`, or without it by what
     * the instruction may be off at most, up or down. */
    const struct expr_node *moved;
    const float *move;
    bool move_down;
};

struct expr_values {
    uint32_t *codes; /* one an element; f32 and bf16: the bits */
    uint8_t *scales; /* one a block */
    float amax;
};

/* The code of x in a type of 16, 8 or 4 bits, as casts and outputs have it. */
uint32_t expr_narrow_code(enum expr_type t, float x);

/* Fills out[0 .. output_count - 1]; arrays live in `a`.  Columns from N on: elements
 * are what the padding of the operands gives, blocks see zeros. */
void expr_eval(struct arena *a, const struct expr *e, const struct expr_row *r,
               struct expr_values *out);

#endif
