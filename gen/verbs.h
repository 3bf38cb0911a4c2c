/* verbs.h - what main calls; each prints, and returns the exit status. */
#ifndef FP4GEN_VERBS_H
#define FP4GEN_VERBS_H

#include <stdio.h>

#include "gen/opts.h"

int verb_emit(const struct opts *o, FILE *out, FILE *err);
int verb_plan(const struct opts *o, FILE *out, FILE *err);
int verb_list(const struct opts *o, FILE *out, FILE *err);
int verb_ops(FILE *out);

/* Each with its source line and caret, from the file or from what is built in. */
void print_diags(const struct diags *d, FILE *err);

/* Writes what is buffered, so that it comes before messages.  False: `d` says why it
 * did not arrive, and main need not. */
bool flush_result(FILE *out, struct diags *d);

#endif
