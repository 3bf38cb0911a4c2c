#include "gen/tmpl.h"

#include <dirent.h>
#include <lauxlib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/image.h"
#include "gen/config.h"
#include "gen/embed.h"
#include "gen/lower.h"
#include "gen/lua.h"
#include "gen/nearest.h"
#include "gen/plan.h"
#include "gen/tmpl_text.h"

enum { MOST_OUTPUT_BYTES = 16 << 20 };

static const struct sandbox_limits limits = {
    .memory_bytes = 64 << 20,
    .block_bytes = 4 << 20,
    .string_bytes = 1 << 20,
    .work = 20000000,
    .cpu_ms = 3000,
};

/* A compiled template. */
struct unit {
    struct unit *next;
    const char *name;
    struct tmpl_line *lines; /* of Lua line i + 1 */
    int line_count;
    int function; /* in Lua's registry */
};

/* A Lua state with what was compiled in it; one thread at a time has it. */
struct engine {
    struct engine *next;
    struct arena *arena; /* units, their texts */
    struct sandbox *sandbox;
    struct unit *units;
    int plan, plan_fields; /* in Lua's registry: p, and the table behind it */
    /* The expansion that runs. */
    const struct unit *unit;
    const struct plan *input; /* NULL: values */
    const struct tmpl_value *values;
    int value_count;
    struct buf text;
    int *out_lines; /* Lua line of each line of `text` */
    int out_count, out_room;
};

static struct {
    pthread_mutex_t lock;
    struct engine *idle;
    char *dir;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct engine *upvalue_engine(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- what a line of PTX calls */

static void add_integer(struct buf *b, lua_Integer n)
{
    char digits[24], *end = digits + sizeof digits, *at = end;
    lua_Unsigned rest = n < 0 ? 0 - (lua_Unsigned)n : (lua_Unsigned)n;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (n < 0)
        *--at = '-';
    buf_add(b, at, (size_t)(end - at));
}

/* The text inside ${ } that is piece `index` of a line. */
static const char *piece_text(lua_State *L, const char *line, int index)
{
    struct tmpl_piece piece = {0};
    for (int i = 0; i <= index && tmpl_next_piece(&line, &piece); i++)
        continue;
    lua_pushlstring(L, piece.text, piece.chars);
    return lua_tostring(L, -1);
}

static int refuse_value(struct engine *e, lua_State *L, int arg)
{
    lua_Integer lua_line = lua_tointeger(L, 1);
    const char *expr = piece_text(L, e->unit->lines[lua_line - 1].text, arg - 2);
    if (lua_type(L, arg) == LUA_TNUMBER)
        return luaL_error(L, "${%s} is %f, not a whole number", expr,
                          lua_tonumber(L, arg));
    return luaL_error(L, "${%s} is %s%s, not a string or a whole number", expr,
                      lua_isnil(L, arg) ? "" : "a ", luaL_typename(L, arg));
}

static void add_output_line(struct engine *e, int lua_line)
{
    if (e->out_count == e->out_room) {
        int room = e->out_room ? 2 * e->out_room : 1024;
        int *more = ARENA_ARRAY(e->text.arena, int, (size_t)room);
        if (e->out_count)
            memcpy(more, e->out_lines, (size_t)e->out_count * sizeof *more);
        e->out_lines = more;
        e->out_room = room;
    }
    e->out_lines[e->out_count++] = lua_line;
}

/* _(line, piece, ...) */
static int emit_line(lua_State *L)
{
    struct engine *e = upvalue_engine(L);
    struct buf *b = &e->text;
    int args = lua_gettop(L), lua_line = (int)lua_tointeger(L, 1);
    size_t before = b->bytes;
    for (int i = 2; i <= args; i++) {
        size_t bytes;
        int is_whole = 0;
        lua_Integer n;
        switch (lua_type(L, i)) {
        case LUA_TSTRING: {
            const char *s = lua_tolstring(L, i, &bytes);
            buf_add(b, s, bytes);
            break;
        }
        case LUA_TNUMBER:
            n = lua_tointegerx(L, i, &is_whole);
            if (!is_whole)
                return refuse_value(e, L, i);
            add_integer(b, n);
            break;
        default:
            return refuse_value(e, L, i);
        }
    }
    buf_add(b, "\n", 1);
    if (b->bytes > MOST_OUTPUT_BYTES)
        return luaL_error(L, "the output grows beyond %d bytes",
                          (int)MOST_OUTPUT_BYTES);
    for (const char *at = b->data + before, *end = b->data + b->bytes; at < end; at++) {
        add_output_line(e, lua_line);
        at = memchr(at, '\n', (size_t)(end - at));
    }
    return 0;
}

/* ---- helpers of templates */

static int helper_hex(lua_State *L)
{
    char text[24];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)luaL_checkinteger(L, 1));
    lua_pushstring(L, text);
    return 1;
}

/* A float literal of PTX: its bits, so that no digit is lost. */
static int helper_f32(lua_State *L)
{
    char text[16];
    float value = (float)luaL_checknumber(L, 1);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text, sizeof text, "0f%08X", bits);
    lua_pushstring(L, text);
    return 1;
}

/* ---- p */

static void push_int(lua_State *L, int x)
{
    lua_pushinteger(L, x);
}

static void push_u32(lua_State *L, uint32_t x)
{
    lua_pushinteger(L, x);
}

/* The bits of a descriptor; hex() shows them unsigned. */
static void push_u64(lua_State *L, uint64_t x)
{
    lua_pushinteger(L, (lua_Integer)x);
}

static void push_bool(lua_State *L, bool x)
{
    lua_pushboolean(L, x);
}

static void push_text(lua_State *L, const char *x)
{
    lua_pushstring(L, x ? x : "");
}

#define PUSH(L, x)                                                                     \
    _Generic((x), int                                                                   \
             : push_int, uint32_t                                                       \
             : push_u32, uint64_t                                                       \
             : push_u64, bool                                                           \
             : push_bool, char *                                                        \
             : push_text, const char *                                                  \
             : push_text)(L, x)

/* "8.8"; borrowed until the next call in the thread of the engine. */
static const char *version_of(char text[16], int version)
{
    snprintf(text, 16, "%d.%d", version / 10, version % 10);
    return text;
}

static int unknown_member(lua_State *L)
{
    return luaL_error(L, "there is no field '%s' here", luaL_tolstring(L, 2, NULL));
}

/* The table on top of the stack goes into the list below it. */
static void add_member(lua_State *L, int index)
{
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, unknown_member);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_rawseti(L, -2, index);
}

static void push_output(lua_State *L, int index, const struct plan_output *o)
{
    lua_createtable(L, 0, 20);
    push_int(L, index - 1);
    lua_setfield(L, -2, "index");
#define OUTPUT_FIELD(name, expression)                                                 \
    PUSH(L, expression);                                                               \
    lua_setfield(L, -2, #name);
#include "gen/tmpl_fields.def"
#undef OUTPUT_FIELD
    add_member(L, index);
}

static void push_arg(lua_State *L, int index, const struct image_arg *arg)
{
    lua_createtable(L, 0, 4);
#define ARG_FIELD(name, expression)                                                    \
    PUSH(L, expression);                                                               \
    lua_setfield(L, -2, #name);
#include "gen/tmpl_fields.def"
#undef ARG_FIELD
    add_member(L, index);
}

/* Fills the table on top of the stack. */
static void set_fields(lua_State *L, const struct plan *p)
{
    char version[16];
    struct image image, *i = &image;
    const struct config *c = p->config;
    plan_image(p, i);
#define version_text(v) version_of(version, v)
#define FIELD(name, expression)                                                        \
    PUSH(L, expression);                                                               \
    lua_setfield(L, -2, #name);
#include "gen/tmpl_fields.def"
#undef FIELD
#undef version_text
    lua_createtable(L, p->output_count, 0);
    for (int k = 0; k < p->output_count; k++)
        push_output(L, k + 1, &p->outputs[k]);
    lua_setfield(L, -2, "outputs");
    lua_createtable(L, image.arg_count, 0);
    for (int k = 0; k < image.arg_count; k++)
        push_arg(L, k + 1, &image.args[k]);
    lua_setfield(L, -2, "args");
}

static void set_values(lua_State *L, const struct tmpl_value *v, int count)
{
    for (int i = 0; i < count; i++) {
        if (v[i].kind == TMPL_TEXT)
            lua_pushstring(L, v[i].text);
        else if (v[i].kind == TMPL_INT)
            lua_pushinteger(L, v[i].integer);
        else
            lua_pushboolean(L, v[i].integer != 0);
        lua_setfield(L, -2, v[i].name);
    }
}

/* What the last expansion left in the table on top of the stack. */
static void clear_fields(lua_State *L)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, -4);
    }
}

enum { MOST_FIELDS = 256 };

/* __index of the table of fields, which is argument 1. */
static int unknown_field(lua_State *L)
{
    const char *names[MOST_FIELDS];
    int count = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        if (count < MOST_FIELDS)
            names[count++] = lua_tostring(L, -1);
    }
    const char *key = luaL_tolstring(L, 2, NULL);
    const char *near = nearest_word(key, names, count);
    if (near)
        return luaL_error(L, "the plan has no field '%s'; did you mean '%s'?", key,
                          near);
    return luaL_error(L, "the plan has no field '%s'", key);
}

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "the plan is read-only: '%s' cannot be set",
                      luaL_tolstring(L, 2, NULL));
}

/* p is a userdata, so that even known fields cannot be overwritten; reads go on to a
 * table, and from there to unknown_field(). */
static void make_plan(struct engine *e, lua_State *L)
{
    lua_createtable(L, 0, 64);
    lua_pushvalue(L, -1);
    e->plan_fields = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, unknown_field);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    e->plan = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
}

/* ---- engines */

static struct engine *engine_open(void)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->arena = arena_new();
    e->sandbox = sandbox_open(&limits);
    lua_State *L = sandbox_state(e->sandbox);
    sandbox_push_env(e->sandbox);
    lua_pushcfunction(L, helper_hex);
    lua_setfield(L, -2, "hex");
    lua_pushcfunction(L, helper_f32);
    lua_setfield(L, -2, "f32");
    lua_pop(L, 1);
    make_plan(e, L);
    return e;
}

static void engine_close(struct engine *e)
{
    sandbox_close(e->sandbox);
    arena_free(e->arena);
    free(e);
}

static struct engine *engine_take(void)
{
    pthread_mutex_lock(&pool.lock);
    struct engine *e = pool.idle;
    if (e)
        pool.idle = e->next;
    pthread_mutex_unlock(&pool.lock);
    return e ? e : engine_open();
}

static void engine_give(struct engine *e)
{
    if (sandbox_is_dead(e->sandbox)) {
        engine_close(e);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    e->next = pool.idle;
    pool.idle = e;
    pthread_mutex_unlock(&pool.lock);
}

void tmpl_close(void)
{
    pthread_mutex_lock(&pool.lock);
    for (struct engine *e = pool.idle, *next; e; e = next) {
        next = e->next;
        engine_close(e);
    }
    pool.idle = NULL;
    pthread_mutex_unlock(&pool.lock);
}

void tmpl_use_dir(const char *dir)
{
    tmpl_close();
    free(pool.dir);
    pool.dir = NULL;
    if (!dir)
        return;
    pool.dir = malloc(strlen(dir) + 1);
    if (!pool.dir)
        abort();
    strcpy(pool.dir, dir);
}

enum { MOST_NAMES = 256 };

/* Keeps the names sorted, each once. */
static void add_name(struct arena *a, const char **names, int *count, const char *file)
{
    const char *end = strstr(file, ".ptxt");
    if (!end || end[5] != '\0' || strchr(file, '/') || *count == MOST_NAMES)
        return;
    const char *name = arena_strndup(a, file, (size_t)(end - file));
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789")])
        return;
    int at = *count;
    while (at > 0 && strcmp(names[at - 1], name) > 0)
        at--;
    if (at > 0 && strcmp(names[at - 1], name) == 0)
        return;
    memmove(names + at + 1, names + at, (size_t)(*count - at) * sizeof *names);
    names[at] = name;
    ++*count;
}

const char *tmpl_names(struct arena *a)
{
    const char *folder = "templates/";
    const char *names[MOST_NAMES];
    int count = 0;
    for (int i = 0; i < embedded_count; i++)
        if (strncmp(embedded_files[i].path, folder, strlen(folder)) == 0)
            add_name(a, names, &count, embedded_files[i].path + strlen(folder));
    DIR *dir = pool.dir ? opendir(pool.dir) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        add_name(a, names, &count, entry->d_name);
    if (dir)
        closedir(dir);
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "");
    for (int i = 0; i < count; i++)
        buf_printf(&b, "%s%s", i ? " " : "", names[i]);
    return b.data;
}

/* ---- faults */

/* "... (to close 'for' at line 12) ...": Lua's line to the template's. */
static const char *translate_lines(struct arena *a, const struct tmpl_line *lines,
                                   int count, const char *text)
{
    const char *words = " at line ", *at = strstr(text, words);
    if (!at)
        return text;
    at += strlen(words);
    char *end;
    long line = strtol(at, &end, 10);
    if (line < 1 || line > count)
        return text;
    const struct tmpl_line *l = &lines[line - 1];
    return arena_printf(a, "%.*s%d of %s%s", (int)(at - text), text, l->line, l->file,
                        end);
}

/* Column of what the message begins with: ${ } of the line. */
static int find_column(const struct tmpl_line *l, const char *text)
{
    const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;
    if (!end)
        return 0;
    size_t chars = (size_t)(end - text) + 1;
    for (const char *at = l->text; *at && *at != '\n'; at++)
        if (strncmp(at, text, chars) == 0)
            return (int)(at - l->text) + 1;
    return 0;
}

static void report_fault(struct arena *a, const struct tmpl_line *lines, int count,
                         const struct sandbox_fault *f, struct diags *d)
{
    static const enum diag_code codes[] = {
        [SANDBOX_SYNTAX] = DIAG_TMPL_SYNTAX,
        [SANDBOX_ERROR] = DIAG_TMPL_LUA,
        [SANDBOX_WORK] = DIAG_TMPL_LIMIT,
        [SANDBOX_MEMORY] = DIAG_TMPL_LIMIT,
    };
    struct loc loc = loc_none();
    int line = f->line > count ? count : f->line; /* an error at the end */
    if (line > 0) {
        const struct tmpl_line *l = &lines[line - 1];
        loc = (struct loc){arena_strdup(a, l->file), l->line, find_column(l, f->text)};
    }
    diag_add(d, codes[f->kind], loc, translate_lines(a, lines, count, f->text));
}

/* ---- expanding */

static struct unit *compile(struct engine *e, struct arena *a, const char *name,
                            struct diags *d)
{
    struct tmpl_text text;
    struct diags *found = diags_new(e->arena);
    if (!tmpl_translate(e->arena, pool.dir, name, &text, found)) {
        for (const struct diag *g = found->first; g; g = g->next)
            diag_copy(d, g, g->loc);
        return NULL;
    }
    struct sandbox_fault fault;
    if (!sandbox_load(e->sandbox, a, text.lua.data, text.lua.bytes, &fault)) {
        report_fault(a, text.lines, text.count, &fault, d);
        return NULL;
    }
    struct unit *u = ARENA_NEW(e->arena, struct unit);
    u->name = arena_strdup(e->arena, name);
    u->lines = text.lines;
    u->line_count = text.count;
    u->function = luaL_ref(sandbox_state(e->sandbox), LUA_REGISTRYINDEX);
    u->next = e->units;
    e->units = u;
    return u;
}

static const struct unit *find_unit(struct engine *e, struct arena *a, const char *name,
                                    struct diags *d)
{
    for (const struct unit *u = e->units; u; u = u->next)
        if (strcmp(u->name, name) == 0)
            return u;
    return compile(e, a, name, d);
}

/* Everything of an expansion that can raise a Lua error. */
static int expand(lua_State *L)
{
    struct engine *e = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->plan_fields);
    clear_fields(L);
    if (e->input)
        set_fields(L, e->input);
    else
        set_values(L, e->values, e->value_count);
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->unit->function);
    /* Globals of a template live as long as its expansion. */
    lua_createtable(L, 0, 8);
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->plan);
    lua_setfield(L, -2, "p");
    lua_pushlightuserdata(L, e);
    lua_pushcclosure(L, emit_line, 1);
    lua_setfield(L, -2, "_");
    lua_createtable(L, 0, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 0);
    return 0;
}

static char *run(struct engine *e, struct arena *a, size_t *bytes, struct line_map *map,
                 struct diags *d)
{
    lua_State *L = sandbox_state(e->sandbox);
    buf_init(&e->text, a);
    buf_puts(&e->text, "");
    e->out_count = e->out_room = 0;
    lua_pushcfunction(L, expand);
    lua_pushlightuserdata(L, e);
    struct sandbox_fault fault;
    if (!sandbox_call(e->sandbox, a, 1, 0, &fault)) {
        report_fault(a, e->unit->lines, e->unit->line_count, &fault, d);
        return NULL;
    }
    map->count = e->out_count;
    map->lines = ARENA_ARRAY(a, int, (size_t)map->count + 1);
    map->files = ARENA_ARRAY(a, const char *, (size_t)map->count + 1);
    const char *engine_file = NULL, *file = NULL;
    for (int i = 0; i < map->count; i++) {
        const struct tmpl_line *l = &e->unit->lines[e->out_lines[i] - 1];
        if (l->file != engine_file) {
            engine_file = l->file;
            file = arena_strdup(a, l->file);
        }
        map->lines[i] = l->line;
        map->files[i] = file;
    }
    *bytes = e->text.bytes;
    return e->text.data;
}

static char *expand_in(struct engine *e, struct arena *a, const char *name,
                       size_t *bytes, struct line_map *map, struct diags *d)
{
    char *text = NULL;
    *map = (struct line_map){.file = arena_printf(a, "templates/%s.ptxt", name)};
    e->unit = find_unit(e, a, name, d);
    if (e->unit)
        text = run(e, a, bytes, map, d);
    engine_give(e);
    return text;
}

char *tmpl_expand(struct arena *a, const char *name, const struct plan *p,
                  size_t *bytes, struct line_map *map, struct diags *d)
{
    struct engine *e = engine_take();
    e->input = p;
    return expand_in(e, a, name, bytes, map, d);
}

char *tmpl_expand_values(struct arena *a, const char *name,
                         const struct tmpl_value *values, int count, size_t *bytes,
                         struct line_map *map, struct diags *d)
{
    struct engine *e = engine_take();
    e->input = NULL;
    e->values = values;
    e->value_count = count;
    return expand_in(e, a, name, bytes, map, d);
}
