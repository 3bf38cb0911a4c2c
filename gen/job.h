/* job.h - the pipeline: config -> plan -> template -> PTX text -> parse, check ->
 * image. */
#ifndef FP4GEN_JOB_H
#define FP4GEN_JOB_H

#include "core/diag.h"
#include "core/image.h"
#include "gen/config.h"
#include "gen/plan.h"
#include "gen/quantize.h"
#include "gen/tmpl.h"

struct job {
    struct arena *arena; /* owned: job_free() */
    struct diags *diags;
    struct config *config;
    const struct plan *plan;              /* NULL: not a GEMM */
    const struct quantize_plan *quantize; /* NULL: a GEMM */
    struct image image;                   /* ptx text inside the arena */
    struct line_map map;
};

struct job_options {
    const char *path; /* config file, NULL: defaults */
    const struct config_override *overrides;
    int override_count;
    bool check;     /* parse and check the output */
    bool plan_only; /* stop before the template */
};

/* Always returns a job; job->diags->count != 0 means that it failed. */
struct job *job_run(const struct job_options *o);
void job_free(struct job *j);

#endif
