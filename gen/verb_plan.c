#include "gen/verbs.h"

int verb_plan(const struct opts *o, FILE *out, FILE *err)
{
    struct job_options options = o->run.job;
    options.plan_only = true;
    struct job *j = job_run(&options);
    int status = j->diags->count == 0 ? 0 : 1;
    print_diags(j->diags, err);
    if (status == 0) {
        struct buf text;
        buf_init(&text, j->arena);
        if (j->plan)
            plan_describe(j->plan, &text);
        else
            quantize_describe(j->quantize, &text);
        fwrite(text.data, 1, text.bytes, out);
    }
    job_free(j);
    return status;
}
