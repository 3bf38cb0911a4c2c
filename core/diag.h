/* diag.h - what is wrong with a user's input, and how it is told.
 *
 * A step records all that it finds in a `struct diags` and returns false or NULL;
 * only main prints.  The texts of all messages stand in diag.def. */
#ifndef FP4GEN_DIAG_H
#define FP4GEN_DIAG_H

#include "core/base.h"

struct loc {
    const char *file; /* borrowed, NULL: no place in a file */
    int line, col;    /* from 1; 0: unknown */
};

enum diag_code {
#define DIAG(id, code, text) DIAG_##id,
#include "core/diag.def"
#undef DIAG
    DIAG_COUNT
};

struct diag_note {
    struct loc loc;
    const char *text;
    struct diag_note *next;
};

struct diag {
    enum diag_code code;
    struct loc loc;
    const char *text;
    struct diag_note *notes;
    struct diag *next;
};

struct diags {
    struct arena *arena; /* borrowed */
    struct diag *first, **tail;
    int count;
};

struct diags *diags_new(struct arena *a);
/* The arguments fill the message's text in diag.def. */
struct diag *diag_add(struct diags *d, enum diag_code code, struct loc loc, ...);
struct diag *diag_vadd(struct diags *d, enum diag_code code, struct loc loc,
                       va_list args);
/* Adds a line below the newest message. */
void diag_note(struct diags *d, struct loc loc, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Adds what another step found, with its notes, at `loc`. */
struct diag *diag_copy(struct diags *d, const struct diag *g, struct loc loc);
const char *diag_code_name(enum diag_code code); /* "smem-over" */
/* "file:line:col: error: text [code]", the source line with a caret below it when
 * `source` (the text of loc.file, may be NULL) is given, then the notes. */
void diag_format(const struct diag *g, const char *source, struct buf *out);

static inline struct loc loc_none(void)
{
    return (struct loc){0};
}

#endif
