/* lua_env.h - what scripts in a sandbox see of Lua.  Between gen/lua.c and
 * gen/lua_env.c alone. */
#ifndef FP4GEN_LUA_ENV_H
#define FP4GEN_LUA_ENV_H

#include "gen/lua.h"

enum {
    CALL_WORK = 4,       /* of any library function */
    BYTES_PER_WORK = 16, /* allocated or passed to a library function */
    SORT_WORK = 16,      /* an element */
};

/* Makes the environment and puts it in the place of the globals. */
void env_build(struct sandbox *s, lua_State *L);

/* Round a library function: its work, and the line it is called from. */
void sandbox_begin_call(struct sandbox *s, lua_State *L, int64_t work);
void sandbox_end_call(struct sandbox *s);
/* lua_pcall() that raises again what ended the script: a script must not get the word
 * back when it is dead. */
int sandbox_pcall(struct sandbox *s, lua_State *L, int args);
size_t sandbox_string_bytes(const struct sandbox *s);

#endif
