/* opts.h - the command line: which verb, and what it is asked for. */
#ifndef FP4GEN_OPTS_H
#define FP4GEN_OPTS_H

#include <stdio.h>

#include "core/base.h"
#include "core/diag.h"
#include "gen/check.h"
#include "gen/run.h"

enum verb {
#define VERB(id, name, arguments, summary) VERB_##id,
#include "gen/opts.def"
#undef VERB
    VERB_COUNT
};

struct opts {
    enum verb verb;
    enum verb topic; /* of help; VERB_COUNT: all of them */
    bool show_version;
    const char *path; /* config, NULL: defaults */
    struct config_override *overrides;
    int override_count;
    const char *templates_dir;
    const char *output; /* -o; NULL: stdout */
    bool check;
    bool matrix;
    struct run_options run; /* complete, with path and overrides */
    struct check_options checks;
};

/* NULL after a report: misuse, the exit status is 2. */
struct opts *opts_parse(struct arena *a, int argc, char **argv, struct diags *d);

/* `topic` VERB_COUNT: the whole program. */
void help_show(enum verb topic, FILE *out);
/* "emit"; NULL past the last verb. */
const char *verb_name(int verb);

#endif
