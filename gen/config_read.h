/* config_read.h - the raw fields of a config: what the Lua file gave to gemm { ... } or
 * quantize { ... }, and where it stands in the text.  gen/config.c checks them. */
#ifndef FP4GEN_CONFIG_READ_H
#define FP4GEN_CONFIG_READ_H

#include <stdint.h>

#include "core/base.h"
#include "core/diag.h"

struct expr;

enum value_kind {
    VALUE_TEXT,    /* from Lua: a string */
    VALUE_INTEGER, /* also a float without a fraction */
    VALUE_BOOL,
    VALUE_TABLE,
    VALUE_EPILOGUE, /* a function, traced: `expr`; NULL: that failed and was told */
    VALUE_OTHER,    /* a fraction, a function ... */
    VALUE_TYPED,    /* from the command line: any of the above as text */
};

struct config_value {
    const char *path; /* "tile.n"; "tile" for the table itself */
    enum value_kind kind;
    const char *text;  /* TEXT, TYPED: the text */
    const char *shown; /* for messages: "sm_100f" with its quotes, 96, a function */
    int64_t integer;   /* INTEGER, BOOL */
    bool is_unnamed;   /* stands at a number, not at a name */
    struct expr *expr;
    struct loc loc;
};

struct config_values {
    struct config_value *values; /* in the order of the text */
    int count;
    struct loc gemm;         /* the constructor */
    const char *constructor; /* gemm or quantize */
};

/* False after a report. */
bool config_read(struct arena *a, const char *file, const char *source, size_t bytes,
                 struct config_values *out, struct diags *d);

/* Where the fields of a constructor stand in the text. */
struct source_place {
    const char *path; /* "" for the constructor's name */
    int line, col;    /* of the value, or of the word */
};

/* The call of `constructor` on `line` (0: the first one).  Returns the number of
 * places; fields whose constructor does not stand there literally are missing. */
int source_places(struct arena *a, const char *source, const char *constructor,
                  int line, struct source_place **out);

#endif
