#include "gen/trace_value.h"

#include <float.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"

/* Of the metatable, in the registry. */
#define HELD_NAME "fp4gen value"

enum { NODE_WORK = 20, MOST_POWER = 8 };

/* ---- places and errors */

struct tracer *trace_upvalue(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int script_line(lua_State *L)
{
    lua_Debug at;
    for (int level = 1; lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "l", &at);
        if (at.currentline > 0)
            return at.currentline;
    }
    return 0;
}

struct tracer *trace_begin(lua_State *L)
{
    struct tracer *t = trace_upvalue(L);
    sandbox_spend(t->sandbox, L, NODE_WORK);
    t->e->line = script_line(L);
    return t;
}

void trace_check(lua_State *L, struct tracer *t)
{
    const char *fault = expr_fault(t->e);
    if (!fault)
        return;
    lua_pushstring(L, fault);
    t->e->fault[0] = '\0'; /* a script may pcall() and go on */
    luaL_error(L, "%s", lua_tostring(L, -1));
}

/* ---- userdata */

struct held *trace_push_held(lua_State *L, enum held_kind kind)
{
    struct held *h = lua_newuserdatauv(L, sizeof *h, 0);
    *h = (struct held){.kind = kind};
    luaL_setmetatable(L, HELD_NAME);
    return h;
}

void trace_push(lua_State *L, const struct expr_node *n)
{
    trace_push_held(L, HELD_VALUE)->node = n;
}

struct held *trace_held(lua_State *L, int index)
{
    return luaL_testudata(L, index, HELD_NAME);
}

static const struct expr_node *constant(lua_State *L, struct tracer *t, int index,
                                        enum expr_type type, const char *what)
{
    double x = lua_tonumber(L, index);
    if (type == EXPR_F32) {
        if (isfinite(x) && fabs(x) > (double)FLT_MAX)
            luaL_error(L, "%s: %f is too large for f32", what, x);
        return expr_f32(t->e, (float)x);
    }
    int is_whole;
    lua_Integer i = lua_tointegerx(L, index, &is_whole);
    lua_Integer low = type == EXPR_S32 ? INT32_MIN : 0;
    lua_Integer high = type == EXPR_S32 ? INT32_MAX : UINT32_MAX;
    if (!is_whole || i < low || i > high)
        luaL_error(L, "%s: %f is no %s", what, x, expr_type_name(type));
    return type == EXPR_S32 ? expr_s32(t->e, (int32_t)i) : expr_u32(t->e, (uint32_t)i);
}

const struct expr_node *trace_value(lua_State *L, struct tracer *t, int index,
                                    enum expr_type type, const char *what)
{
    if (lua_type(L, index) == LUA_TNUMBER) {
        if (type == EXPR_PRED)
            luaL_error(L,
                       "%s: a number stands where a predicate must be: e.lt(a, b) "
                       "and the like make one",
                       what);
        return constant(L, t, index, type, what);
    }
    struct held *h = trace_held(L, index);
    if (lua_type(L, index) == LUA_TBOOLEAN)
        luaL_error(
            L,
            "%s: a value or a number is expected, not %s: ==, ~=, and, or, not "
            "of Lua are done while the kernel is generated, and a value is never "
            "== a number; e.eq(a, b) and the like compare each element",
            what, lua_toboolean(L, index) ? "true" : "false");
    if (!h) {
        luaL_error(L, "%s: a value or a number is expected, not %s", what,
                   lua_isnone(L, index) ? "nothing" : luaL_typename(L, index));
        return NULL;
    }
    const struct expr_node *n = NULL;
    switch (h->kind) {
    case HELD_VALUE:
        return h->node;
    case HELD_OUTPUT:
        if (h->made && !h->output.name[0])
            h->made->is_used = true;
        if (expr_scale_block(h->output.format) || h->output.format == EXPR_OUT_AMAX)
            luaL_error(L, "%s: %s(...) is an output, not a value to compute with", what,
                       expr_format_name(h->output.format));
        return h->output.value;
    case HELD_SOURCE:
        if (!h->source.name[0])
            luaL_error(L, "%s: a parameter needs a name, as in e.param \"scale\"",
                       what);
        n = expr_input(t->e, &h->source);
        trace_check(L, t);
        break;
    }
    return n;
}

/* ---- operations */

/* What a number becomes: the letter's type, or that of the values that share it. */
static enum expr_type number_type(lua_State *L, const char *signature, int count,
                                  char letter)
{
    switch (letter) {
    case 'f':
        return EXPR_F32;
    case 's':
        return EXPR_S32;
    case 'u':
        return EXPR_U32;
    case 'p':
        return EXPR_PRED;
    default:
        break;
    }
    for (int i = 0; i < count; i++) {
        struct held *h = signature[i] == letter ? trace_held(L, i + 1) : NULL;
        if (!h)
            continue;
        enum expr_type type = h->kind == HELD_VALUE    ? h->node->type
                              : h->kind == HELD_SOURCE ? h->source.type
                                                       : EXPR_F32;
        return type >= EXPR_TYPE_BF16 ? EXPR_F32 : type;
    }
    return letter == 'i' || letter == 'l' ? EXPR_S32 : EXPR_F32;
}

int trace_apply(lua_State *L, enum expr_op op, int count)
{
    struct tracer *t = trace_begin(L);
    const char *signature = expr_op_signature(op), *name = expr_op_name(op);
    int wanted = (int)strcspn(signature, ":");
    const struct expr_node *args[3] = {NULL, NULL, NULL};
    if (count != wanted)
        luaL_error(L, "%s takes %d values, not %d", name, wanted, count);
    for (int i = 0; i < wanted; i++)
        args[i] = trace_value(L, t, i + 1,
                              number_type(L, signature, wanted, signature[i]), name);
    const struct expr_node *n = expr_op(t->e, op, args, wanted, 0);
    trace_check(L, t);
    trace_push(L, n);
    return 1;
}

static int apply_binary(lua_State *L)
{
    return trace_apply(L, (enum expr_op)lua_tointeger(L, lua_upvalueindex(2)), 2);
}

static int apply_unary(lua_State *L)
{
    lua_settop(L, 1); /* Lua passes the operand twice */
    return trace_apply(L, (enum expr_op)lua_tointeger(L, lua_upvalueindex(2)), 1);
}

static int power(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    int is_whole;
    lua_Integer n = lua_tointegerx(L, 2, &is_whole);
    if (!is_whole || n < 1 || n > MOST_POWER)
        luaL_error(L, "a ^ b: b must be a whole number from 1 to %d", MOST_POWER);
    const struct expr_node *x = trace_value(L, t, 1, EXPR_F32, "^"), *y = NULL;
    for (; n > 0; n >>= 1, x = n > 0 ? expr_op2(t->e, EXPR_MUL, x, x) : x)
        if (n & 1)
            y = y ? expr_op2(t->e, EXPR_MUL, y, x) : x;
    trace_check(L, t);
    trace_push(L, y);
    return 1;
}

static int refuse_comparison(lua_State *L)
{
    return luaL_error(L,
                      "==, ~=, <, <=, >, >= of Lua must be true or false while the "
                      "kernel is generated: e.eq(a, b), e.lt(a, b) and the like make "
                      "predicates for e.select(p, a, b)");
}

static int refuse_index(lua_State *L)
{
    return luaL_error(L, "a value of an epilogue has no field '%s'",
                      luaL_tolstring(L, 2, NULL));
}

static int refuse_other(lua_State *L)
{
    return luaL_error(L, "%s does not work on a value of an epilogue",
                      lua_tostring(L, lua_upvalueindex(2)));
}

/* ---- sources: e.bias, e.param "name", e.aux("c", { type = "f32" }) */

static void read_default(lua_State *L, int index, struct expr_input *in)
{
    if (!trace_option(L, index, "default"))
        return;
    if (lua_type(L, -1) != LUA_TNUMBER)
        luaL_error(L, "default is %s, but must be a number", luaL_typename(L, -1));
    if (isnan(lua_tonumber(L, -1)))
        luaL_error(L, "default of '%s' is NaN, which all results would be", in->name);
    struct tracer *t = trace_upvalue(L);
    const struct expr_node *n = constant(L, t, lua_gettop(L), in->type, "default");
    in->has_default = true;
    in->default_bits = n->imm;
    lua_pop(L, 1);
}

static void read_source_options(lua_State *L, int index, struct expr_input *in)
{
    static const char *const types[] = {"f32", "bf16", "f16", "s32", "u32"};
    static const enum expr_type type_of[] = {EXPR_F32, EXPR_TYPE_BF16, EXPR_TYPE_F16,
                                             EXPR_S32, EXPR_U32};
    static const char *const per[] = {"column", "pair"};
    bool scalar = in->kind == EXPR_SCALAR;
    bool has_columns = in->kind == EXPR_VEC_COL || in->kind == EXPR_AUX;
    trace_check_options(L, index,
                        scalar        ? "type default"
                        : has_columns ? "type per"
                                      : "type",
                        in->name);
    int fallback = 0;
    while (type_of[fallback] != in->type)
        fallback++;
    in->type = type_of[trace_word_option(L, index, "type", types, COUNT_OF(types),
                                         fallback, in->name)];
    if (scalar && in->type >= EXPR_TYPE_BF16)
        luaL_error(L, "'%s': a scalar is f32, s32 or u32", in->name);
    if (scalar)
        read_default(L, index, in);
    if (has_columns)
        in->columns = trace_word_option(L, index, "per", per, 2, 0, in->name)
                          ? EXPR_PAIRS
                          : EXPR_TILE;
}

/* e.bias(n), e.row_scale(m), e.aux(m, n): the element's own place, said once more.
 * How many arguments that took. */
static int take_place(lua_State *L, const struct expr_input *in)
{
    static const char *const shown[] = {
        [EXPR_VEC_COL] = "n", [EXPR_VEC_ROW] = "m", [EXPR_AUX] = "m, n"};
    int count = 0;
    if (!trace_held(L, 2))
        return 0;
    for (int column = 0; column < 2; column++) {
        if (in->kind == (column ? EXPR_VEC_ROW : EXPR_VEC_COL))
            continue;
        struct held *h = trace_held(L, 2 + count++);
        enum expr_op wanted = column ? EXPR_COLUMN : EXPR_ROW;
        if (!h || h->kind != HELD_VALUE || h->node->op != wanted)
            luaL_error(L,
                       "'%s' is read at the element's own place alone: (%s), or "
                       "without",
                       in->name, shown[in->kind]);
    }
    return count;
}

void trace_set_places(lua_State *L, struct tracer *t, bool on)
{
    static const struct {
        const char *name;
        enum expr_op op;
    } places[] = {{"m", EXPR_ROW}, {"n", EXPR_COLUMN}};
    sandbox_push_env(t->sandbox);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const struct expr_node *node = expr_leaf(t->e, places[i].op);
        lua_pushstring(L, places[i].name);
        lua_rawget(L, -2);
        struct held *h = trace_held(L, -1);
        bool is_ours = h && h->kind == HELD_VALUE && h->node == node;
        bool is_free = lua_isnil(L, -1);
        lua_pop(L, 1);
        if (on ? !is_free : !is_ours)
            continue;
        lua_pushstring(L, places[i].name);
        if (on)
            trace_push(L, node);
        else
            lua_pushnil(L);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}

static int call_source(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    struct held *h = trace_held(L, 1);
    if (!h || h->kind != HELD_SOURCE)
        return luaL_error(L, "a value of an epilogue cannot be called");
    struct expr_input in = h->source;
    int options = 2;
    if (lua_type(L, 2) == LUA_TSTRING) {
        const char *name = lua_tostring(L, 2);
        if (strlen(name) > EXPR_NAME_CHARS)
            luaL_error(L, "'%s' is longer than %d characters", name, EXPR_NAME_CHARS);
        snprintf(in.name, sizeof in.name, "%s", name);
        options = 3;
    } else if (!in.name[0]) {
        luaL_error(L, "a parameter needs a name, as in e.param \"scale\"");
    } else {
        options += take_place(L, &in);
    }
    read_source_options(L, options, &in);
    if (lua_gettop(L) > options)
        luaL_error(L, "'%s': a name and a table of options are all there can be",
                   in.name);
    const struct expr_node *n = expr_input(t->e, &in);
    trace_check(L, t);
    trace_push(L, n);
    return 1;
}

/* ---- options */

void trace_check_count(lua_State *L, int most, const char *what)
{
    if (lua_gettop(L) > most)
        luaL_error(L, "%s takes %d values, options counted, not %d", what, most,
                   lua_gettop(L));
}

void trace_check_options(lua_State *L, int index, const char *known, const char *what)
{
    if (lua_isnoneornil(L, index))
        return;
    if (lua_type(L, index) != LUA_TTABLE)
        luaL_error(L, "%s: options are a table, { name = value }, not %s", what,
                   luaL_typename(L, index));
    lua_pushnil(L);
    while (lua_next(L, index)) {
        lua_pop(L, 1);
        bool found = false;
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        size_t chars;
        for (const char *s = known; name && *s; s += chars + (s[chars] == ' ')) {
            chars = strcspn(s, " ");
            found = found || (strlen(name) == chars && strncmp(s, name, chars) == 0);
        }
        if (!found)
            luaL_error(L, "%s has no option '%s'; there %s: %s", what,
                       luaL_tolstring(L, -1, NULL), strchr(known, ' ') ? "are" : "is",
                       known);
    }
}

bool trace_option(lua_State *L, int index, const char *name)
{
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    if (lua_getfield(L, index, name) != LUA_TNIL)
        return true;
    lua_pop(L, 1);
    return false;
}

int trace_word_option(lua_State *L, int index, const char *name,
                      const char *const *words, int count, int fallback,
                      const char *what)
{
    if (!trace_option(L, index, name))
        return fallback;
    const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    luaL_Buffer b;
    for (int i = 0; word && i < count; i++)
        if (strcmp(word, words[i]) == 0) {
            lua_pop(L, 1);
            return i;
        }
    const char *shown = luaL_tolstring(L, -1, NULL);
    luaL_buffinit(L, &b);
    for (int i = 0; i < count; i++) {
        luaL_addstring(&b, i ? (i + 1 < count ? ", " : " or ") : "");
        luaL_addstring(&b, words[i]);
    }
    luaL_pushresult(&b);
    return luaL_error(L, "%s: %s is '%s', but must be %s", what, name, shown,
                      lua_tostring(L, -1));
}

/* ---- the metatable */

void trace_open_values(lua_State *L, struct tracer *t)
{
    static const struct {
        const char *event;
        enum expr_op op;
        int count;
    } operators[] = {
        {"__add", EXPR_ADD, 2}, {"__sub", EXPR_SUB, 2},  {"__mul", EXPR_MUL, 2},
        {"__div", EXPR_DIV, 2}, {"__unm", EXPR_NEG, 1},  {"__band", EXPR_AND, 2},
        {"__bor", EXPR_OR, 2},  {"__bxor", EXPR_XOR, 2}, {"__bnot", EXPR_NOT, 1},
        {"__shl", EXPR_SHL, 2}, {"__shr", EXPR_SHR, 2},
    };
    static const struct {
        const char *event, *sign;
        lua_CFunction function;
    } others[] = {
        {"__pow", "", power},
        {"__lt", "", refuse_comparison},
        {"__le", "", refuse_comparison},
        {"__eq", "", refuse_comparison},
        {"__index", "", refuse_index},
        {"__call", "", call_source},
        {"__mod", "%", refuse_other},
        {"__idiv", "//", refuse_other},
        {"__concat", "..", refuse_other},
        {"__len", "#", refuse_other},
        {"__newindex", "assignment to a field", refuse_other},
    };
    lua_pushnil(L); /* a table of another tracer must not answer for this one */
    lua_setfield(L, LUA_REGISTRYINDEX, HELD_NAME);
    luaL_newmetatable(L, HELD_NAME);
    for (size_t i = 0; i < COUNT_OF(operators); i++) {
        lua_pushlightuserdata(L, t);
        lua_pushinteger(L, operators[i].op);
        lua_pushcclosure(L, operators[i].count == 2 ? apply_binary : apply_unary, 2);
        lua_setfield(L, -2, operators[i].event);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        lua_pushlightuserdata(L, t);
        lua_pushstring(L, others[i].sign);
        lua_pushcclosure(L, others[i].function, 2);
        lua_setfield(L, -2, others[i].event);
    }
    lua_pop(L, 1);
}
