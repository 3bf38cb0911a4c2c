/* Diagnostics as people see them, with the line of the source. */
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

bool flush_result(FILE *out, struct diags *d)
{
    errno = 0;
    bool failed = ferror(out) != 0;
    if (fflush(out) == 0 && !failed)
        return true;
    diag_add(d, DIAG_CLI_STDOUT, (struct loc){"gen", 0, 0},
             strerror(errno ? errno : EIO));
    clearerr(out);
    return false;
}
