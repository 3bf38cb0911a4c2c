/* trace_named.c - the epilogues that have a name: gen/epilogues.lua. */
#include "gen/trace.h"

#include <lauxlib.h>
#include <string.h>

#include "gen/embed.h"

#define NAMED_FILE "gen/epilogues.lua"

struct named {
    struct sandbox *sandbox;
    struct arena *arena;
    const char *wanted; /* NULL: only list them */
    struct expr *found;
    struct trace_name names[64];
    int count;
};

/* epilogue("relu", "max(x, 0)", function(e) ... end) */
static int define(lua_State *L)
{
    struct named *n = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = luaL_checkstring(L, 1), *summary = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    if (n->count < (int)COUNT_OF(n->names))
        n->names[n->count++] = (struct trace_name){arena_strdup(n->arena, name),
                                                   arena_strdup(n->arena, summary)};
    if (n->wanted && strcmp(name, n->wanted) == 0) {
        lua_settop(L, 3);
        n->found = trace_function(L, n->sandbox, n->arena);
    }
    return 0;
}

static bool run_named(struct named *n, struct sandbox_fault *fault)
{
    static const struct sandbox_limits limits = {
        .memory_bytes = 4 << 20,
        .block_bytes = 256 << 10,
        .string_bytes = 16 << 10,
        .work = 2000000,
        .cpu_ms = 500,
    };
    const struct embedded *file = embedded_find(NAMED_FILE);
    struct sandbox *s = sandbox_open(&limits);
    lua_State *L = sandbox_state(s);
    n->sandbox = s;
    sandbox_push_env(s);
    lua_pushlightuserdata(L, n);
    lua_pushcclosure(L, define, 1);
    lua_setfield(L, -2, "epilogue");
    lua_pop(L, 1);
    bool ok = sandbox_load(s, n->arena, (const char *)file->data, file->bytes, fault) &&
              sandbox_call(s, n->arena, 0, 0, fault);
    sandbox_close(s);
    return ok;
}

struct expr *trace_named(struct arena *a, const char *name, struct loc loc,
                         struct diags *d)
{
    struct named n = {.arena = a, .wanted = name};
    struct sandbox_fault fault;
    if (!run_named(&n, &fault)) {
        trace_report(NAMED_FILE, &fault, d);
        return NULL;
    }
    if (n.found)
        return n.found;
    struct buf known;
    buf_init(&known, a);
    for (int i = 0; i < n.count; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", n.names[i].name);
    diag_add(d, DIAG_EPILOGUE_NAME, loc, name, known.data);
    return NULL;
}

const struct trace_name *trace_names(struct arena *a, int *count)
{
    struct named n = {.arena = a};
    struct sandbox_fault fault;
    *count = run_named(&n, &fault) ? n.count : 0;
    struct trace_name *names =
        ARENA_ARRAY(a, struct trace_name, (size_t)(*count ? *count : 1));
    memcpy(names, n.names, (size_t)*count * sizeof *names);
    return names;
}
