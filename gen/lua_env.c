#include "gen/lua_env.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

static const struct {
    const char *name, *reason;
} left_out[] = {
    /* Files, the system, other code. */
    {"io", "files are out of reach here"},
    {"os", "the system is out of reach here"},
    {"package", "modules cannot be loaded here"},
    {"require", "modules cannot be loaded here"},
    {"dofile", "files are out of reach here"},
    {"loadfile", "files are out of reach here"},
    {"load", "code cannot be made from text here"},
    {"debug", "the interpreter is out of reach here"},
    {"print", "nothing is printed here; error(value) shows a value"},
    /* Ways round the limits: finalizers run where hooks do not; metamethods turn table
     * functions into endless loops; a coroutine has hooks of its own. */
    {"collectgarbage", "memory is managed by the limits here"},
    {"setmetatable", "metatables are left out here"},
    {"getmetatable", "metatables are left out here"},
    {"coroutine", "coroutines are left out here"},
    /* Matching can take time exponential in the pattern, inside one call. */
    {"string.find", "patterns are left out here, their run time has no bound"},
    {"string.match", "patterns are left out here, their run time has no bound"},
    {"string.gmatch", "patterns are left out here, their run time has no bound"},
    {"string.gsub", "patterns are left out here, their run time has no bound"},
    {"string.pack", "binary data is left out here"},
    {"string.unpack", "binary data is left out here"},
    {"string.packsize", "binary data is left out here"},
    {"string.dump", "code cannot be made from text here"},
    {"utf8", "only bytes are known here"},
    /* Its range is not bound to the table's length. */
    {"table.move", "it is left out here; write a loop"},
    /* The same script must give the same kernel. */
    {"math.random", "the same script must always give the same result"},
    {"math.randomseed", "the same script must always give the same result"},
    {"_G", "use the variable's name"},
};

enum cost {
    COST_CALL,
    COST_TABLE, /* walks the table */
    COST_SORT,
};

/* What a script sees of Lua's library, besides what is defined below. */
static const struct {
    const char *lib, *name;
    enum cost cost;
} kept[] = {
    {"", "assert", COST_CALL},        {"", "error", COST_CALL},
    {"", "ipairs", COST_CALL},        {"", "next", COST_TABLE},
    {"", "select", COST_CALL},        {"", "tonumber", COST_CALL},
    {"", "tostring", COST_CALL},      {"", "type", COST_CALL},
    {"string", "byte", COST_CALL},    {"string", "char", COST_CALL},
    {"string", "format", COST_CALL},  {"string", "len", COST_CALL},
    {"string", "lower", COST_CALL},   {"string", "reverse", COST_CALL},
    {"string", "sub", COST_CALL},     {"string", "upper", COST_CALL},
    {"table", "concat", COST_TABLE},  {"table", "insert", COST_TABLE},
    {"table", "pack", COST_CALL},     {"table", "remove", COST_TABLE},
    {"table", "sort", COST_SORT},     {"table", "unpack", COST_TABLE},
    {"math", "abs", COST_CALL},       {"math", "acos", COST_CALL},
    {"math", "asin", COST_CALL},      {"math", "atan", COST_CALL},
    {"math", "ceil", COST_CALL},      {"math", "cos", COST_CALL},
    {"math", "deg", COST_CALL},       {"math", "exp", COST_CALL},
    {"math", "floor", COST_CALL},     {"math", "fmod", COST_CALL},
    {"math", "huge", COST_CALL},      {"math", "log", COST_CALL},
    {"math", "max", COST_CALL},       {"math", "maxinteger", COST_CALL},
    {"math", "min", COST_CALL},       {"math", "mininteger", COST_CALL},
    {"math", "modf", COST_CALL},      {"math", "pi", COST_CALL},
    {"math", "rad", COST_CALL},       {"math", "sin", COST_CALL},
    {"math", "sqrt", COST_CALL},      {"math", "tan", COST_CALL},
    {"math", "tointeger", COST_CALL}, {"math", "type", COST_CALL},
    {"math", "ult", COST_CALL},
};

static const char *const libs[] = {"string", "table", "math"};

static struct sandbox *upvalue_sandbox(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int64_t cost_of_arguments(lua_State *L, enum cost cost)
{
    int64_t work = CALL_WORK;
    for (int i = lua_gettop(L); i > 0; i--) {
        if (lua_type(L, i) == LUA_TSTRING) {
            work += (int64_t)(lua_rawlen(L, i) / BYTES_PER_WORK);
        } else if (cost != COST_CALL && lua_type(L, i) == LUA_TTABLE) {
            /* With holes the length can be 2^62; a table function walks all of it. */
            int64_t elems = (int64_t)lua_rawlen(L, i);
            if (elems > INT64_MAX / 64)
                elems = INT64_MAX / 64;
            work += elems * (cost == COST_SORT ? SORT_WORK : 1) + CALL_WORK;
        }
    }
    return work;
}

/* Every library function is called through this. */
static int call_kept(lua_State *L)
{
    struct sandbox *s = upvalue_sandbox(L);
    lua_CFunction f = lua_tocfunction(L, lua_upvalueindex(2));
    enum cost cost = (enum cost)lua_tointeger(L, lua_upvalueindex(3));
    sandbox_begin_call(s, L, cost_of_arguments(L, cost));
    int results = f(L);
    sandbox_end_call(s);
    return results;
}

/* string.rep of Lua loops n times even for an empty string. */
static int string_rep(lua_State *L)
{
    struct sandbox *s = upvalue_sandbox(L);
    size_t bytes, sep_bytes;
    const char *text = luaL_checklstring(L, 1, &bytes);
    lua_Integer n = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &sep_bytes);
    const size_t most = sandbox_string_bytes(s);
    size_t unit = bytes + sep_bytes;
    if (n <= 0 || unit == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (unit > most || (lua_Unsigned)n > most / unit)
        return luaL_error(L, "string.rep makes more than %d bytes", (int)most);
    sandbox_spend(s, L, CALL_WORK + (int64_t)n);
    luaL_Buffer b;
    luaL_buffinitsize(L, &b, unit * (size_t)n);
    for (lua_Integer i = 0; i < n; i++) {
        if (i > 0)
            luaL_addlstring(&b, sep, sep_bytes);
        luaL_addlstring(&b, text, bytes);
    }
    luaL_pushresult(&b);
    return 1;
}

static int script_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    bool ok = sandbox_pcall(upvalue_sandbox(L), L, lua_gettop(L) - 1) == LUA_OK;
    lua_pushboolean(L, ok);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* The handler runs after the stack was unwound: while the error is being raised from a
 * hook no other hook would run, and it could loop for ever. */
static int script_xpcall(lua_State *L)
{
    luaL_checkany(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* f h h f args */
    bool ok = sandbox_pcall(upvalue_sandbox(L), L, lua_gettop(L) - 4) == LUA_OK;
    if (ok) {
        lua_pushboolean(L, true);
        lua_replace(L, 3);
        return lua_gettop(L) - 2;
    }
    lua_pushboolean(L, false);
    lua_insert(L, 3); /* f h false h error */
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - 2;
}

/* Lua's order of names changes from run to run; pairs() here goes through numbers, then
 * texts, then false and true, each in their order, then the rest. */
static int key_rank(lua_State *L, int key)
{
    switch (lua_type(L, key)) {
    case LUA_TNUMBER:
        return 0;
    case LUA_TSTRING:
        return 1;
    case LUA_TBOOLEAN:
        return 2 + lua_toboolean(L, key);
    default:
        return 4;
    }
}

static bool key_before(lua_State *L, int a, int b)
{
    int rank = key_rank(L, a), other = key_rank(L, b);
    if (rank != other)
        return rank < other;
    return rank < 2 && lua_compare(L, a, b, LUA_OPLT);
}

/* Heap sort of t[1 .. n] on top of the stack: no callback, no recursion. */
static void sift_down(lua_State *L, lua_Integer root, lua_Integer n)
{
    for (lua_Integer child; (child = 2 * root) <= n; root = child) {
        lua_rawgeti(L, -1, child);
        if (child < n) {
            lua_rawgeti(L, -2, child + 1);
            if (key_before(L, -2, -1)) {
                child++;
                lua_remove(L, -2);
            } else {
                lua_pop(L, 1);
            }
        }
        lua_rawgeti(L, -2, root); /* keys child root */
        if (!key_before(L, -1, -2)) {
            lua_pop(L, 2);
            return;
        }
        lua_rawseti(L, -3, child);
        lua_rawseti(L, -2, root);
    }
}

static void sort_keys(lua_State *L, lua_Integer n)
{
    for (lua_Integer root = n / 2; root > 0; root--)
        sift_down(L, root, n);
    for (lua_Integer last = n; last > 1; last--) {
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, last);
        lua_rawseti(L, -3, 1);
        lua_rawseti(L, -2, last);
        sift_down(L, 1, last - 1);
    }
}

/* Upvalues: the table, its keys, how many were visited. */
static int next_pair(lua_State *L)
{
    for (lua_Integer i = lua_tointeger(L, lua_upvalueindex(3)) + 1;; i++) {
        lua_settop(L, 0);
        lua_pushinteger(L, i);
        lua_replace(L, lua_upvalueindex(3));
        if (lua_rawgeti(L, lua_upvalueindex(2), i) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, 1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
            return 2; /* else it was removed on the way */
    }
}

static int script_pairs(lua_State *L)
{
    struct sandbox *s = upvalue_sandbox(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    sandbox_begin_call(s, L, CALL_WORK);
    lua_newtable(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_rawseti(L, 2, ++n)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
    }
    sandbox_spend(s, L, SORT_WORK * n);
    sort_keys(L, n);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_pair, 3);
    sandbox_end_call(s);
    return 1;
}

/* __index of the environment and of the libraries. */
static int absent(lua_State *L)
{
    const char *lib = lua_tostring(L, lua_upvalueindex(1));
    const char *key = luaL_tolstring(L, 2, NULL);
    const char *name = *lib ? lua_pushfstring(L, "%s.%s", lib, key) : key;
    for (size_t i = 0; i < COUNT_OF(left_out); i++)
        if (strcmp(name, left_out[i].name) == 0)
            return luaL_error(L, "no '%s': %s", name, left_out[i].reason);
    if (*lib)
        return luaL_error(L, "no '%s' in Lua's %s library", key, lib);
    return luaL_error(L, "variable '%s' is not defined (a text stands in quotes)", key);
}

/* The table on the top of the stack refuses names that it does not have. */
static void refuse_absent(lua_State *L, const char *lib)
{
    lua_createtable(L, 0, 1);
    lua_pushstring(L, lib);
    lua_pushcclosure(L, absent, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

static void add_own(struct sandbox *s, lua_State *L, const char *name, lua_CFunction f)
{
    lua_pushlightuserdata(L, s);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

/* Copies the kept functions of `lib` from the table at `from` to the one on top. */
static void add_kept(struct sandbox *s, lua_State *L, const char *lib, int from)
{
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        if (strcmp(kept[i].lib, lib) != 0)
            continue;
        lua_pushlightuserdata(L, s);
        if (lua_getfield(L, from, kept[i].name) == LUA_TFUNCTION) {
            lua_pushinteger(L, kept[i].cost);
            lua_pushcclosure(L, call_kept, 3);
        } else {
            lua_remove(L, -2);
        }
        lua_setfield(L, -2, kept[i].name);
    }
}

void env_build(struct sandbox *s, lua_State *L)
{
    static const lua_CFunction openers[] = {luaopen_string, luaopen_table,
                                            luaopen_math};
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 1);
    int base = lua_gettop(L);
    lua_createtable(L, 0, 32);
    int env = lua_gettop(L);
    add_kept(s, L, "", base);
    add_own(s, L, "pairs", script_pairs);
    add_own(s, L, "pcall", script_pcall);
    add_own(s, L, "xpcall", script_xpcall);
    for (size_t i = 0; i < COUNT_OF(libs); i++) {
        lua_pushcfunction(L, openers[i]);
        lua_call(L, 0, 1);
        lua_createtable(L, 0, 32);
        add_kept(s, L, libs[i], lua_gettop(L) - 1);
        if (i == 0)
            add_own(s, L, "rep", string_rep);
        refuse_absent(L, libs[i]);
        lua_setfield(L, env, libs[i]);
        lua_pop(L, 1);
    }
    refuse_absent(L, "");

    /* ("x"):rep(3) finds our functions. */
    lua_pushliteral(L, "");
    lua_createtable(L, 0, 1);
    lua_getfield(L, env, "string");
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);

    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pop(L, 1);
}
