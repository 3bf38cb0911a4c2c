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
    const char *file; /* of the template */
    int *lines;       /* lines[i]: template line of output line i + 1 */
    int count;
};

/* Expands templates/NAME.ptxt.  NULL after a report.  Templates are compiled once a
 * process; the cache is per thread-safe engine, see tmpl.c. */
char *tmpl_expand(struct arena *a, const char *name, const struct plan *p,
                  size_t *bytes, struct line_map *map, struct diags *d);

#endif
