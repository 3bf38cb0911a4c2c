#include <errno.h>
#include <string.h>

#include "gen/verbs.h"

int verb_emit(const struct opts *o, FILE *out, FILE *err)
{
    struct job *j = job_run(&o->run.job);
    int status = 1;
    if (j->diags->count == 0 && o->output &&
        !file_write(o->output, j->image.ptx, j->image.ptx_bytes))
        diag_add(j->diags, DIAG_CLI_OUTPUT, (struct loc){"gen", 0, 0}, o->output,
                 strerror(errno));
    print_diags(j->diags, err);
    if (j->diags->count == 0) {
        if (!o->output)
            fwrite(j->image.ptx, 1, j->image.ptx_bytes,
                   out); /* main looks for errors */
        status = 0;
    }
    job_free(j);
    return status;
}
