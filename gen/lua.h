/* lua.h - Lua 5.4 as a sandbox: a script can neither reach the machine nor outlast it.
 *
 * A script sees arithmetic, strings, tables and pcall, and nothing that opens files,
 * loads code or waits.  Four limits hold whatever it does, each set by the caller:
 * memory in all, the size of one block, the length of one string, and work (executed
 * instructions, with allocated bytes and library calls counted in).  Processor time is
 * the last resort.  A script whose work is used up is dead: pcall() in the script does
 * not get the error back, it is raised again until the outermost call returns.
 *
 * What is left out, and why: gen/lua_env.c, above the list of functions. */
#ifndef FP4GEN_LUA_H
#define FP4GEN_LUA_H

#include <lua.h>

#include "core/base.h"

struct sandbox;

struct sandbox_limits {
    size_t memory_bytes;
    size_t block_bytes; /* a table's array or hash part, the stack, a function's code */
    size_t string_bytes;
    int64_t work; /* about one unit an instruction */
    int cpu_ms;
};

enum sandbox_fault_kind {
    SANDBOX_SYNTAX,
    SANDBOX_ERROR,  /* error(), a nil index ... */
    SANDBOX_WORK,   /* work or processor time used up */
    SANDBOX_MEMORY, /* memory, a block or a string over its limit */
};

struct sandbox_fault {
    enum sandbox_fault_kind kind;
    int line;         /* of the chunk; 0: unknown */
    const char *text; /* in the arena; without "chunk:line: " */
};

struct sandbox *sandbox_open(const struct sandbox_limits *limits);
void sandbox_close(struct sandbox *s);
/* Calls into it that can fail belong into a lua_CFunction run by sandbox_call(). */
lua_State *sandbox_state(struct sandbox *s);
/* The table of what scripts see; absent names in it raise an error that says so. */
void sandbox_push_env(struct sandbox *s);

/* Compiles `text` and leaves the function on the stack.  Its first upvalue is _ENV. */
bool sandbox_load(struct sandbox *s, struct arena *a, const char *text, size_t bytes,
                  struct sandbox_fault *fault);
/* lua_pcall() with the function and `args` arguments on the stack; results stay there.
 * Each call starts with the whole budget. */
bool sandbox_call(struct sandbox *s, struct arena *a, int args, int results,
                  struct sandbox_fault *fault);
/* Counts `work` units of a lua_CFunction's own; raises an error when they are used up.
 */
void sandbox_spend(struct sandbox *s, lua_State *L, int64_t work);
/* True once the work was used up: the state must be closed, it cannot run again. */
bool sandbox_is_dead(const struct sandbox *s);

#endif
