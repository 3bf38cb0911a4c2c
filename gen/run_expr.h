/* run_expr.h - the epilogue of a kernel that comes as PTX: its manifest has the
 * expression, so what the kernel writes can be compared without its config. */
#ifndef FP4GEN_RUN_EXPR_H
#define FP4GEN_RUN_EXPR_H

struct arena;
struct expr;
struct image;

/* In `a`; `i` was read from `ptx`.  NULL: it has none, or one that does not go with the
 * rest of the manifest, and cannot be evaluated. */
const struct expr *run_expr_read(struct arena *a, const struct image *i,
                                 const char *ptx);

#endif
