#include "gen/config_read.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lua.h"
#include "gen/trace.h"

static const struct sandbox_limits limits = {
    .memory_bytes = 4 << 20,
    .block_bytes = 64 << 10,
    .string_bytes = 16 << 10,
    .work = 2000000,
    .cpu_ms = 500,
};

struct reader {
    struct arena *arena;
    const char *file, *source;
    struct config_values *out;
    int room;
    int calls;               /* of the constructors */
    int line;                /* of the first */
    int second_line;         /* of the second, 0: unknown */
    const char *second;      /* name of the second call */
    const char *not_a_table; /* what the first was given instead */
    int epilogue;            /* the function, in Lua's registry; 0: none */
};

static struct config_value *add_value(struct reader *r, const char *path)
{
    struct config_values *all = r->out;
    if (all->count == r->room) {
        int room = r->room ? 2 * r->room : 64;
        struct config_value *more =
            ARENA_ARRAY(r->arena, struct config_value, (size_t)room);
        if (all->count)
            memcpy(more, all->values, (size_t)all->count * sizeof *more);
        all->values = more;
        r->room = room;
    }
    struct config_value *v = &all->values[all->count++];
    v->path = path;
    return v;
}

/* Printable and short, so that a message stays a message. */
static const char *show_text(struct reader *r, lua_State *L, int index)
{
    const size_t most_chars = 60;
    size_t chars;
    const char *s = lua_tolstring(L, index, &chars);
    bool is_long = chars > most_chars;
    char *shown = arena_strndup(r->arena, s, is_long ? most_chars : chars);
    for (size_t i = 0; i < (is_long ? most_chars : chars); i++)
        if ((unsigned char)shown[i] < ' ' || shown[i] == 127)
            shown[i] = '?';
    return arena_printf(r->arena, "%s%s", shown, is_long ? "..." : "");
}

/* The value on top of the stack as people would write it. */
static const char *show(struct reader *r, lua_State *L)
{
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        return arena_printf(r->arena, "\"%s\"", show_text(r, L, -1));
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1))
            return arena_printf(r->arena, "%lld", (long long)lua_tointeger(L, -1));
        return arena_printf(r->arena, "%.14g", (double)lua_tonumber(L, -1));
    case LUA_TBOOLEAN:
        return lua_toboolean(L, -1) ? "true" : "false";
    default:
        return arena_printf(r->arena, "a %s", luaL_typename(L, -1));
    }
}

static void fill_value(struct reader *r, struct config_value *v, lua_State *L)
{
    v->shown = show(r, L);
    v->kind = VALUE_OTHER;
    int is_whole = 0;
    switch (lua_type(L, -1)) {
    case LUA_TSTRING: {
        size_t chars;
        v->text = arena_strdup(r->arena, lua_tolstring(L, -1, &chars));
        v->kind = strlen(v->text) == chars ? VALUE_TEXT : VALUE_OTHER;
        break;
    }
    case LUA_TNUMBER:
        v->integer = lua_tointegerx(L, -1, &is_whole);
        v->kind = is_whole ? VALUE_INTEGER : VALUE_OTHER;
        break;
    case LUA_TBOOLEAN:
        v->kind = VALUE_BOOL;
        v->integer = lua_toboolean(L, -1);
        break;
    case LUA_TTABLE:
        v->kind = VALUE_TABLE;
        break;
    default:
        break;
    }
}

/* The table on top of the stack. */
static void read_table(struct reader *r, lua_State *L, const char *prefix)
{
    luaL_checkstack(L, 4, "config");
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        bool has_name = lua_type(L, -2) == LUA_TSTRING;
        const char *name = has_name ? show_text(r, L, -2) : "";
        if (strchr(name, '.')) /* ["tile.m"] is a name of its own, no part of tile */
            name = arena_printf(r->arena, "[\"%s\"]", name);
        struct config_value *v =
            add_value(r, arena_printf(r->arena, "%s%s", prefix, name));
        v->is_unnamed = !has_name;
        fill_value(r, v, L);
        if (lua_iscfunction(L, -1)) {
            v->shown = "one of Lua's own functions";
        } else if (lua_isfunction(L, -1) && strcmp(v->path, "epilogue") == 0) {
            v->kind = VALUE_EPILOGUE;
            lua_pushvalue(L, -1);
            r->epilogue = luaL_ref(L, LUA_REGISTRYINDEX);
        }
        if (has_name && v->kind == VALUE_TABLE && !*prefix)
            read_table(r, L, arena_printf(r->arena, "%s.", name));
        lua_pop(L, 1);
    }
}

static int call_line(lua_State *L)
{
    lua_Debug at;
    if (!lua_getstack(L, 1, &at))
        return 0;
    lua_getinfo(L, "l", &at);
    return at.currentline > 0 ? at.currentline : 0; /* a tail call has no line */
}

static const char *const constructors[] = {"gemm", "quantize"};

static int construct(lua_State *L)
{
    struct reader *r = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = constructors[lua_tointeger(L, lua_upvalueindex(2))];
    int line = call_line(L);
    r->calls++;
    if (r->calls > 1) {
        if (r->calls == 2) {
            r->second_line = line;
            r->second = name;
        }
        return 0;
    }
    r->line = line;
    r->out->constructor = name;
    if (lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TTABLE) {
        read_table(r, L, "");
        return 0;
    }
    if (lua_gettop(L) == 0) {
        r->not_a_table = "nothing";
    } else if (lua_gettop(L) > 1) {
        r->not_a_table = arena_printf(r->arena, "%d values", lua_gettop(L));
    } else {
        lua_settop(L, 1);
        r->not_a_table = show(r, L);
    }
    return 0;
}

/* Once the script has ended, while its state still lives. */
static void trace_epilogue(struct reader *r, struct sandbox *s, struct diags *d)
{
    for (int i = 0; i < r->out->count; i++) {
        struct config_value *v = &r->out->values[i];
        if (v->kind != VALUE_EPILOGUE)
            continue;
        lua_rawgeti(sandbox_state(s), LUA_REGISTRYINDEX, r->epilogue);
        v->expr = trace_call(s, r->arena, r->file, d);
    }
}

static bool run(struct reader *r, size_t bytes, struct sandbox_fault *fault,
                struct diags *d)
{
    struct sandbox *s = sandbox_open(&limits);
    lua_State *L = sandbox_state(s);
    sandbox_push_env(s);
    for (size_t i = 0; i < COUNT_OF(constructors); i++) {
        lua_pushlightuserdata(L, r);
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, construct, 2);
        lua_setfield(L, -2, constructors[i]);
    }
    lua_pop(L, 1);
    bool ok = sandbox_load(s, r->arena, r->source, bytes, fault) &&
              sandbox_call(s, r->arena, 0, 0, fault);
    if (ok)
        trace_epilogue(r, s, d);
    sandbox_close(s);
    return ok;
}

static void report_fault(const char *file, const struct sandbox_fault *f,
                         struct diags *d)
{
    static const enum diag_code codes[] = {
        [SANDBOX_SYNTAX] = DIAG_CONFIG_SYNTAX,
        [SANDBOX_ERROR] = DIAG_CONFIG_LUA,
        [SANDBOX_WORK] = DIAG_CONFIG_WORK,
        [SANDBOX_MEMORY] = DIAG_CONFIG_MEMORY,
    };
    diag_add(d, codes[f->kind], (struct loc){file, f->line, 0}, f->text);
}

static int compare_values(const void *a, const void *b)
{
    const struct config_value *x = a, *y = b;
    if (x->loc.line != y->loc.line)
        return x->loc.line < y->loc.line ? -1 : 1;
    if (x->loc.col != y->loc.col)
        return x->loc.col < y->loc.col ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Gives each value its place; Lua's order of the fields is random, the text's is not.
 */
static void locate(struct reader *r, struct diags *d)
{
    struct source_place *places;
    struct config_values *all = r->out;
    int count = source_places(r->arena, r->source, all->constructor, r->line, &places);
    all->gemm = (struct loc){r->file, r->line, 0};
    if (count > 0)
        all->gemm = (struct loc){r->file, places[0].line, places[0].col};
    for (int i = 0; i < all->count; i++) {
        struct config_value *v = &all->values[i];
        v->loc = all->gemm;
        /* A field of a table that stands elsewhere: the table's place. */
        size_t group_chars = strcspn(v->path, ".");
        for (int p = 0; p < count; p++) {
            bool is_group = strlen(places[p].path) == group_chars &&
                            memcmp(places[p].path, v->path, group_chars) == 0;
            if (strcmp(places[p].path, v->path) == 0 || (is_group && v->path[0]))
                v->loc = (struct loc){r->file, places[p].line, places[p].col};
        }
    }
    for (int i = 1; i < count; i++)
        for (int p = 1; p < i; p++)
            if (strcmp(places[i].path, places[p].path) == 0) {
                diag_add(d, DIAG_FIELD_TWICE,
                         (struct loc){r->file, places[i].line, places[i].col},
                         places[i].path);
                diag_note(d, (struct loc){r->file, places[p].line, places[p].col},
                          "set here first");
                break;
            }
    if (all->count > 1)
        qsort(all->values, (size_t)all->count, sizeof *all->values, compare_values);
}

bool config_read(struct arena *a, const char *file, const char *source, size_t bytes,
                 struct config_values *out, struct diags *d)
{
    *out = (struct config_values){.gemm = {file, 0, 0}, .constructor = "gemm"};
    struct reader r = {.arena = a, .file = file, .source = source, .out = out};
    struct sandbox_fault fault;
    int before = d->count;
    if (!run(&r, bytes, &fault, d)) {
        report_fault(file, &fault, d);
        return false;
    }
    if (r.calls == 0) {
        diag_add(d, DIAG_CONFIG_NO_GEMM, (struct loc){file, 0, 0});
        return false;
    }
    locate(&r, d);
    if (r.calls > 1) {
        diag_add(d, DIAG_CONFIG_TWO_GEMMS, (struct loc){file, r.second_line, 0},
                 r.second);
        diag_note(d, out->gemm, "called here first");
    }
    if (r.not_a_table)
        diag_add(d, DIAG_CONFIG_GEMM_ARG, out->gemm, out->constructor, out->constructor,
                 r.not_a_table);
    return d->count == before;
}
