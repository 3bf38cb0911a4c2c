#include <errno.h>
#include <string.h>

#include "gen/embed.h"
#include "gen/verbs.h"

static const char *find_source(struct arena *a, const char *file)
{
    size_t bytes;
    if (!file)
        return NULL;
    const struct embedded *e = embedded_find(file);
    const char *text = file_read(a, file, &bytes);
    return text ? text : e ? (const char *)e->data : NULL;
}

void print_diags(const struct diags *d, FILE *err)
{
    for (const struct diag *g = d->first; g; g = g->next) {
        struct buf text;
        buf_init(&text, d->arena);
        diag_format(g, g->loc.line > 0 ? find_source(d->arena, g->loc.file) : NULL,
                    &text);
        fputs(text.data, err);
    }
}

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
