/* tmpl_text.h - the text of a template, with its includes, to the text of a Lua chunk.
 *
 * One template line, one Lua line: a line of PTX becomes a call of `_` with the line's
 * number and its pieces, literals and expressions in turn. */
#ifndef FP4GEN_TMPL_TEXT_H
#define FP4GEN_TMPL_TEXT_H

#include "core/base.h"
#include "core/diag.h"

struct tmpl_line {
    const char *file; /* "templates/lib/text.ptxt" */
    int line;
    const char *text; /* up to its newline or NUL */
};

struct tmpl_text {
    struct buf lua;
    struct tmpl_line *lines; /* lines[i]: where Lua line i + 1 comes from */
    int count, room;
};

/* False after a report. */
bool tmpl_translate(struct arena *a, const char *dir, const char *name,
                    struct tmpl_text *out, struct diags *d);

/* One piece of a line of PTX.  *at moves behind it; false at the end of the line. */
struct tmpl_piece {
    bool is_value; /* text is the inside of ${ } */
    bool is_open;  /* ${ without } */
    const char *text;
    size_t chars;
};
bool tmpl_next_piece(const char **at, struct tmpl_piece *out);

#endif
