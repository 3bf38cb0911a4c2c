#include "gen/lua.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/lua_env.h"

/* Every chunk has this name; sandbox_fault gives the line apart from the text. */
#define CHUNK "lua"

enum {
    HOOK_INSNS = 200,     /* instructions between two looks at the budget */
    COLLECT_WORK = 20000, /* a whole garbage collection */
    CLOCK_WORK = 5000,    /* between two looks at the clock */
    HARD_FACTOR = 4,      /* allocations beyond a limit this large fail at once */
};

enum memory_limit {
    NO_LIMIT,
    LIMIT_MEMORY,
    LIMIT_BLOCK,
    LIMIT_STRING,
};

struct sandbox {
    lua_State *L;
    struct sandbox_limits limits;
    struct arena *arena; /* borrowed, during a call */
    bool armed;          /* limits hold only while a script runs or is compiled */
    bool dead;
    size_t used_bytes;
    int64_t work, clock_at;
    double cpu_start;
    /* An allocation that went over a limit, to be told when Lua can raise an error. */
    enum memory_limit over;
    size_t over_bytes;
    int over_line;
    int call_line; /* of the call to a library function that is running, or 0 */
    struct sandbox_fault fault;
    char text[200];
};

/* ---- where are we */

static int current_line(lua_State *L)
{
    lua_Debug at;
    for (int level = 0; lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "l", &at);
        if (at.currentline > 0)
            return at.currentline;
    }
    return 0;
}

/* The line in front of a message of Lua's own, 0 if there is none; *text moves on. */
static int strip_place(const char **text)
{
    const size_t name_chars = sizeof CHUNK - 1;
    if (strncmp(*text, CHUNK ":", name_chars + 1) != 0)
        return 0;
    char *end;
    long line = strtol(*text + name_chars + 1, &end, 10);
    if (line < 1 || line > 1000000000 || strncmp(end, ": ", 2) != 0)
        return 0;
    *text = end + 2;
    return (int)line;
}

/* ---- limits */

static double cpu_seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void hook(lua_State *L, lua_Debug *at);

/* Never returns; from here on every instruction of the state raises this again. */
static void die(struct sandbox *s, lua_State *L)
{
    if (!s->dead) {
        s->dead = true;
        s->fault.line = current_line(L);
        lua_sethook(L, hook, LUA_MASKCOUNT, 1);
    }
    lua_pushliteral(L, "out of budget");
    lua_error(L);
}

static void describe_memory(struct sandbox *s)
{
    const struct sandbox_limits *l = &s->limits;
    s->fault.kind = SANDBOX_MEMORY;
    switch (s->over) {
    case LIMIT_STRING:
        snprintf(s->text, sizeof s->text,
                 "a string of %zu bytes; at most %zu are allowed", s->over_bytes,
                 l->string_bytes);
        break;
    case LIMIT_BLOCK:
        snprintf(
            s->text, sizeof s->text,
            "a table or a recursion that takes %zu bytes in one piece; at most %zu "
            "are allowed",
            s->over_bytes, l->block_bytes);
        break;
    case LIMIT_MEMORY:
    case NO_LIMIT:
        snprintf(s->text, sizeof s->text, "more than %zu bytes of memory in use",
                 l->memory_bytes);
        break;
    }
}

static void check_memory(struct sandbox *s, lua_State *L)
{
    if (s->over == LIMIT_MEMORY && !s->dead) {
        s->over = NO_LIMIT;
        s->work += COLLECT_WORK;
        lua_gc(L, LUA_GCCOLLECT);
        if (s->used_bytes <= s->limits.memory_bytes)
            s->over = NO_LIMIT;
        else
            s->over = LIMIT_MEMORY;
    }
    if (s->over == NO_LIMIT || s->dead)
        return;
    describe_memory(s);
    die(s, L);
}

static void check_work(struct sandbox *s, lua_State *L)
{
    const struct sandbox_limits *l = &s->limits;
    if (s->dead)
        die(s, L);
    bool too_long = false;
    if (s->work >= s->clock_at) {
        s->clock_at = s->work + CLOCK_WORK;
        too_long = (cpu_seconds() - s->cpu_start) * 1e3 > l->cpu_ms;
    }
    if (s->work <= l->work && !too_long)
        return;
    s->fault.kind = SANDBOX_WORK;
    if (too_long)
        snprintf(s->text, sizeof s->text, "still running after %d ms", l->cpu_ms);
    else
        snprintf(s->text, sizeof s->text, "still running after %lld steps",
                 (long long)l->work);
    die(s, L);
}

static void hook(lua_State *L, lua_Debug *at)
{
    (void)at;
    void *self;
    lua_getallocf(L, &self);
    struct sandbox *s = self;
    s->work += HOOK_INSNS;
    if (s->over != NO_LIMIT) {
        check_memory(s, L);
        lua_sethook(L, hook, LUA_MASKCOUNT, HOOK_INSNS);
    }
    check_work(s, L);
}

void sandbox_spend(struct sandbox *s, lua_State *L, int64_t work)
{
    s->work = work > INT64_MAX / 2 - s->work ? INT64_MAX / 2 : s->work + work;
    check_work(s, L);
}

/* A little over a limit is granted and told at the next instruction, because an error
 * raised there has a line; what is far over is refused here. */
static bool may_grow(struct sandbox *s, const void *old, size_t tag, size_t bytes,
                     size_t grow_bytes)
{
    const struct sandbox_limits *l = &s->limits;
    bool is_string = !old && tag == LUA_TSTRING;
    size_t total = s->used_bytes + grow_bytes;
    enum memory_limit over = NO_LIMIT;
    size_t excess = bytes, limit = 0;
    if (is_string && bytes > l->string_bytes + 64) { /* 64: header, NUL */
        over = LIMIT_STRING;
        limit = l->string_bytes;
    } else if (bytes > l->block_bytes) {
        over = LIMIT_BLOCK;
        limit = l->block_bytes;
    } else if (total > l->memory_bytes) {
        over = LIMIT_MEMORY;
        excess = total;
        limit = l->memory_bytes;
    }
    if (over == NO_LIMIT)
        return true;
    if (s->over == NO_LIMIT || over != LIMIT_MEMORY) {
        s->over = over;
        s->over_bytes = bytes;
    }
    lua_sethook(s->L, hook, LUA_MASKCOUNT, 1);
    if (excess / HARD_FACTOR <= limit)
        return true;
    /* The stack may be on the move when an old block grows. */
    s->over_line = old ? s->call_line : current_line(s->L);
    s->work += COLLECT_WORK; /* Lua collects and asks again */
    return false;
}

static void *allocate(void *self, void *old, size_t old_bytes, size_t bytes)
{
    struct sandbox *s = self;
    size_t had = old ? old_bytes : 0;
    if (bytes == 0) {
        free(old);
        s->used_bytes -= had;
        return NULL;
    }
    if (bytes > had && s->armed) {
        if (!may_grow(s, old, old_bytes, bytes, bytes - had))
            return NULL;
        s->work += (int64_t)((bytes - had) / BYTES_PER_WORK);
    }
    void *p = realloc(old, bytes);
    if (p)
        s->used_bytes += bytes - had;
    return p;
}

/* ---- for the functions of the environment, see lua_env.h */

void sandbox_begin_call(struct sandbox *s, lua_State *L, int64_t work)
{
    sandbox_spend(s, L, work);
    s->call_line = current_line(L);
}

void sandbox_end_call(struct sandbox *s)
{
    s->call_line = 0;
}

int sandbox_pcall(struct sandbox *s, lua_State *L, int args)
{
    sandbox_spend(s, L, CALL_WORK);
    int status = lua_pcall(L, args, LUA_MULTRET, 0);
    s->call_line = 0;
    if (s->dead)
        die(s, L);
    if (status == LUA_ERRMEM) { /* refused outright: told as any other limit */
        describe_memory(s);
        die(s, L);
    }
    return status;
}

size_t sandbox_string_bytes(const struct sandbox *s)
{
    return s->limits.string_bytes;
}

/* ---- running */

/* Keeps what an uncaught error said, at the place where it was raised. */
static int keep_error(lua_State *L)
{
    struct sandbox *s = lua_touserdata(L, lua_upvalueindex(1));
    if (s->dead)
        return 1;
    s->fault.kind = SANDBOX_ERROR;
    s->fault.line = 0;
    if (lua_type(L, 1) == LUA_TSTRING) {
        const char *text = lua_tostring(L, 1);
        s->fault.line = strip_place(&text);
        s->fault.text = arena_strdup(s->arena, text);
    } else if (lua_isinteger(L, 1)) {
        s->fault.text =
            arena_printf(s->arena, "error(%lld)", (long long)lua_tointeger(L, 1));
    } else {
        s->fault.text = arena_printf(s->arena, "the error is a %s value, not a text",
                                     luaL_typename(L, 1));
    }
    if (s->fault.line == 0)
        s->fault.line = current_line(L);
    return 1;
}

static void arm(struct sandbox *s, struct arena *a)
{
    s->arena = a;
    s->armed = true;
    s->work = 0;
    s->clock_at = CLOCK_WORK;
    s->cpu_start = cpu_seconds();
    s->over = NO_LIMIT;
    s->over_line = 0;
    s->call_line = 0;
    s->fault = (struct sandbox_fault){0};
    lua_sethook(s->L, hook, LUA_MASKCOUNT, HOOK_INSNS);
}

static bool disarm(struct sandbox *s, int status, struct sandbox_fault *fault)
{
    s->armed = false;
    lua_sethook(s->L, NULL, 0, 0);
    if (status == LUA_OK && !s->dead && s->over == NO_LIMIT)
        return true;
    if (status == LUA_ERRMEM || (s->over != NO_LIMIT && !s->dead)) {
        describe_memory(s);
        s->fault.line = s->over_line;
    }
    if (s->dead || s->fault.kind == SANDBOX_MEMORY)
        s->fault.text = arena_strdup(s->arena, s->text);
    else if (!s->fault.text)
        s->fault.text = arena_strdup(s->arena, "error in error handling");
    *fault = s->fault;
    return false;
}

struct reader {
    const char *text;
    size_t bytes;
    int line; /* that was given out last */
};

/* A line at a time: some errors of the compiler have no line, they get this one. */
static const char *read_line(lua_State *L, void *self, size_t *bytes)
{
    (void)L;
    struct reader *r = self;
    const char *line = r->text;
    if (r->bytes == 0)
        return NULL;
    const char *end = memchr(line, '\n', r->bytes);
    *bytes = end ? (size_t)(end - line) + 1 : r->bytes;
    r->text += *bytes;
    r->bytes -= *bytes;
    r->line++;
    return line;
}

bool sandbox_load(struct sandbox *s, struct arena *a, const char *text, size_t bytes,
                  struct sandbox_fault *fault)
{
    lua_State *L = s->L;
    struct reader r = {text, bytes, 0};
    arm(s, a);
    int status = lua_load(L, read_line, &r, "=" CHUNK, "t");
    if (status != LUA_OK && status != LUA_ERRMEM) {
        const char *said = lua_tostring(L, -1);
        s->fault.kind = SANDBOX_SYNTAX;
        s->fault.line = strip_place(&said);
        s->fault.text = arena_strdup(a, said);
        if (s->fault.line == 0)
            s->fault.line = r.line;
    }
    s->over_line = r.line;
    if (disarm(s, status, fault))
        return true;
    lua_pop(L, 1);
    return false;
}

bool sandbox_call(struct sandbox *s, struct arena *a, int args, int results,
                  struct sandbox_fault *fault)
{
    const int handler = 1; /* keep_error, see sandbox_open() */
    lua_State *L = s->L;
    int base = lua_gettop(L) - args - 1;
    arm(s, a);
    int status = lua_pcall(L, args, results, handler);
    if (disarm(s, status, fault))
        return true;
    lua_settop(L, base);
    return false;
}

struct sandbox *sandbox_open(const struct sandbox_limits *limits)
{
    struct sandbox *s = calloc(1, sizeof *s);
    if (s) {
        s->limits = *limits;
        s->L = lua_newstate(allocate, s);
    }
    if (!s || !s->L) {
        fputs("fp4gen: out of host memory\n", stderr);
        abort();
    }
    lua_pushlightuserdata(s->L, s);
    lua_pushcclosure(s->L, keep_error, 1);
    env_build(s, s->L);
    return s;
}

void sandbox_close(struct sandbox *s)
{
    if (!s)
        return;
    lua_close(s->L);
    free(s);
}

lua_State *sandbox_state(struct sandbox *s)
{
    return s->L;
}

void sandbox_push_env(struct sandbox *s)
{
    lua_rawgeti(s->L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

bool sandbox_is_dead(const struct sandbox *s)
{
    return s->dead;
}
