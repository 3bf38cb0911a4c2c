/* run_unused.h - options of `gen run` that would change nothing are refused. */
#ifndef FP4GEN_RUN_UNUSED_H
#define FP4GEN_RUN_UNUSED_H

#include <stdbool.h>

#include "core/diag.h"

struct run_unused {
    const char *name;
    bool is_given;    /* and without effect */
    const char *with; /* what it goes with */
};

/* False after a report for each that is given; `op`: what the kernel does. */
bool run_refuse_unused(const struct run_unused *all, size_t count, const char *op,
                       struct diags *d);

#endif
