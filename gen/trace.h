/* trace.h - the Lua function of an epilogue, run once with `e`, to an expression.
 *
 * Nothing is computed: values are nodes, and the operators of Lua make new ones.  What
 * the language has is in docs/epilogues.md; gen/epilogues.lua holds those with a name.
 */
#ifndef FP4GEN_TRACE_H
#define FP4GEN_TRACE_H

#include <lua.h>

#include "core/base.h"
#include "core/diag.h"
#include "gen/expr.h"
#include "gen/lua.h"

/* For lua_CFunctions that run inside sandbox_call(): takes the function on top of the
 * stack, calls it with `e` and returns what it makes; raises Lua errors, at the
 * script's lines.  The expression lives in `a`; outputs e.d() are to be settled with
 * expr_resolve_d(). */
struct expr *trace_function(lua_State *L, struct sandbox *s, struct arena *a);

/* The same from outside: the function is on top of the sandbox's stack and is taken
 * away.  NULL after a report at a line of `file`. */
struct expr *trace_call(struct sandbox *s, struct arena *a, const char *file,
                        struct diags *d);

/* What became of a call, as a message at the fault's line of `file`. */
void trace_report(const char *file, const struct sandbox_fault *f, struct diags *d);

/* The built-in epilogue `name`.  NULL after a report at `loc`. */
struct expr *trace_named(struct arena *a, const char *name, struct loc loc,
                         struct diags *d);

struct trace_name {
    const char *name, *summary;
};
/* The built-in epilogues in the order of their file; *count of them. */
const struct trace_name *trace_names(struct arena *a, int *count);

#endif
