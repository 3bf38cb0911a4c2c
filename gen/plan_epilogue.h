/* plan_epilogue.h - the part of a plan that the epilogue decides. */
#ifndef FP4GEN_PLAN_EPILOGUE_H
#define FP4GEN_PLAN_EPILOGUE_H

#include "core/base.h"
#include "core/diag.h"
#include "gen/plan.h"

#define PLAN_PTX_VERSION 88 /* times ten */

/* Chunk and outputs as they are unless registers forbid it; asks no compiler. */
void plan_outputs(struct plan *p, const struct config *c);
/* The whole: compiles the expression, and chooses the chunk by its registers too.
 * p->epilogue_warps is known. */
bool plan_epilogue(struct plan *p, struct arena *a, const struct config *c,
                   struct diags *d);

#endif
