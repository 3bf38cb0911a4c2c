/* trace_value.h - what a script holds: values, outputs, and sources of values. */
#ifndef FP4GEN_TRACE_VALUE_H
#define FP4GEN_TRACE_VALUE_H

#include <lua.h>

#include "gen/expr.h"
#include "gen/lua.h"

struct tracer {
    struct sandbox *sandbox;
    struct arena *arena;
    struct expr *e;
    struct made_output *made; /* the last one first */
};

/* An output that must be returned, or the script has made it in vain. */
struct made_output {
    enum expr_format format;
    int line;
    bool is_used;
    struct made_output *next;
};

enum held_kind {
    HELD_VALUE,
    HELD_OUTPUT, /* also a value, if it has one without scales */
    HELD_SOURCE, /* e.bias, e.param ...: a call gives a value */
};

/* The userdata. */
struct held {
    enum held_kind kind;
    const struct expr_node *node; /* VALUE */
    struct expr_output output;    /* OUTPUT; name "": none was given */
    const struct expr_node *seed;
    struct made_output *made; /* OUTPUT; NULL: it may be left aside */
    struct expr_input source; /* SOURCE; name "": it has no name of its own */
};

/* All closures of the tracer have it as their first upvalue. */
struct tracer *trace_upvalue(lua_State *L);
/* Counts an operation, and notes the script's line for the nodes that follow. */
struct tracer *trace_begin(lua_State *L);
/* Raises the expression's fault, if there is one. */
void trace_check(lua_State *L, struct tracer *t);
void trace_push(lua_State *L, const struct expr_node *n);
struct held *trace_push_held(lua_State *L, enum held_kind kind);
/* The userdata at `index`; NULL: something else. */
struct held *trace_held(lua_State *L, int index);
/* The value at `index`; a number becomes a constant of type `t`.  `what` is the
 * function's name, for messages. */
const struct expr_node *trace_value(lua_State *L, struct tracer *t, int index,
                                    enum expr_type type, const char *what);
/* Makes the metatable of all userdata in the registry. */
void trace_open_values(lua_State *L, struct tracer *t);
/* The script's variables m and n, row and column of an element, where it has none of
 * these names; off again when its function has run. */
void trace_set_places(lua_State *L, struct tracer *t, bool on);
/* The operation `op` on `count` values from index 1 on; the result is on the stack. */
int trace_apply(lua_State *L, enum expr_op op, int count);

/* Raises an error where a call has more values than `most`. */
void trace_check_count(lua_State *L, int most, const char *what);

/* ---- options, { name = value, ... } at `index`; nil and none are empty */

/* `known`: names separated by blanks.  Any other field raises an error. */
void trace_check_options(lua_State *L, int index, const char *known, const char *what);
/* Pushes the field; false, with nothing pushed: it is not there. */
bool trace_option(lua_State *L, int index, const char *name);
/* One of the words, by its place; `fallback` when it is not there. */
int trace_word_option(lua_State *L, int index, const char *name,
                      const char *const *words, int count, int fallback,
                      const char *what);

#endif
