/* tmpl.h - template + plan to PTX text and a line map.
 *
 * A .ptxt file is PTX.  A line with % in column 0 is Lua; ${expr} puts a value into
 * PTX; all else is copied.  Every template line becomes one line of Lua, so Lua's own
 * errors carry the template's line numbers.  templates/README.md is the manual. */
#ifndef FP4GEN_TMPL_H
#define FP4GEN_TMPL_H

#include "core/base.h"
#include "core/diag.h"

struct plan;

struct line_map {
    const char *file;   /* of the template */
    const char **files; /* files[i], lines[i]: template line of output line i + 1; */
    int *lines;         /* another file where it came from an include; 0: from none */
    int count;
};

/* Expands templates/NAME.ptxt.  NULL after a report.  A template is compiled when it is
 * first used and kept; threads that expand at once have a Lua state each. */
char *tmpl_expand(struct arena *a, const char *name, const struct plan *p,
                  size_t *bytes, struct line_map *map, struct diags *d);

/* One thing that a template of no plan sees as p.NAME. */
struct tmpl_value {
    const char *name;
    enum { TMPL_TEXT, TMPL_INT, TMPL_BOOL } kind;
    const char *text;
    int64_t integer; /* INT, BOOL */
};
/* The same for a template whose `p` is made of `count` values. */
char *tmpl_expand_values(struct arena *a, const char *name,
                         const struct tmpl_value *values, int count, size_t *bytes,
                         struct line_map *map, struct diags *d);

/* Names of all templates, separated by spaces. */
const char *tmpl_names(struct arena *a);

/* Files in `dir` (NAME.ptxt, lib/NAME.ptxt) take precedence over the built-in ones; for
 * work on templates.  Not while another thread expands.  NULL: the built-in ones. */
void tmpl_use_dir(const char *dir);
/* Forgets all compiled templates. */
void tmpl_close(void);

#endif
