#include "gen/trace.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "gen/trace_value.h"

/* ---- functions of e */

static int call_op(lua_State *L)
{
    return trace_apply(L, (enum expr_op)lua_tointeger(L, lua_upvalueindex(2)),
                       lua_gettop(L));
}

static int call_function(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    const struct expr_function *f =
        expr_function_at((int)lua_tointeger(L, lua_upvalueindex(2)));
    bool precise = lua_toboolean(L, lua_upvalueindex(3));
    const struct expr_node *args[4];
    if (lua_gettop(L) != f->arg_count)
        luaL_error(L, "%s takes %d values, not %d", f->name, f->arg_count,
                   lua_gettop(L));
    for (int i = 0; i < f->arg_count; i++)
        args[i] = trace_value(L, t, i + 1, EXPR_F32, f->name);
    const struct expr_node *n = f->build(t->e, args, precise);
    trace_check(L, t);
    const char *shown =
        precise ? arena_printf(t->arena, "precise.%s", f->name) : f->name;
    trace_push(L, expr_named(t->e, n, shown, args, f->arg_count));
    return 1;
}

/* A whole number at `index`. */
static int columns_at(lua_State *L, int index, const char *what)
{
    int is_whole;
    lua_Integer n = lua_tointegerx(L, index, &is_whole);
    if (!is_whole || n < 1 || n > 1 << 20)
        luaL_error(L, "%s: a number of columns is expected, not %s", what,
                   luaL_tolstring(L, index, NULL));
    return (int)n;
}

/* e.interleaved(8, { order = "gate_up", of = x }): gate, up */
static int call_interleaved(lua_State *L)
{
    static const char *const orders[] = {"gate_up", "up_gate"};
    const char *what = "interleaved";
    struct tracer *t = trace_begin(L);
    trace_check_count(L, 2, what);
    int group = columns_at(L, 1, what);
    trace_check_options(L, 2, "order of", what);
    int order = trace_word_option(L, 2, "order", orders, 2, 0, what);
    const struct expr_node *x;
    if (trace_option(L, 2, "of"))
        x = trace_value(L, t, lua_gettop(L), EXPR_F32, what);
    else
        x = expr_product(t->e);
    for (int i = 0; i < 2; i++) {
        const struct expr_node *half = expr_split(t->e, x, group, i ^ order);
        trace_check(L, t);
        trace_push(L, expr_named(t->e, half, i ? "up" : "gate", NULL, 0));
    }
    return 2;
}

static int call_interleave(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    trace_check_count(L, 3, "interleave");
    uint32_t group = (uint32_t)columns_at(L, 1, "interleave");
    const struct expr_node *args[2];
    for (int i = 0; i < 2; i++)
        args[i] = trace_value(L, t, i + 2, EXPR_F32, "interleave");
    const struct expr_node *n = expr_op(t->e, EXPR_JOIN, args, 2, group);
    trace_check(L, t);
    trace_push(L, n);
    return 1;
}

static int call_block(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    enum expr_op op = (enum expr_op)lua_tointeger(L, lua_upvalueindex(2));
    trace_check_count(L, 2, expr_op_name(op));
    const struct expr_node *x = trace_value(L, t, 1, EXPR_F32, expr_op_name(op));
    uint32_t cols = (uint32_t)columns_at(L, 2, expr_op_name(op));
    const struct expr_node *n = expr_op(t->e, op, &x, 1, cols);
    trace_check(L, t);
    trace_push(L, n);
    return 1;
}

static int call_integer(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    enum expr_type type = (enum expr_type)lua_tointeger(L, lua_upvalueindex(2));
    trace_check_count(L, 1, expr_type_name(type));
    if (lua_type(L, 1) != LUA_TNUMBER)
        luaL_error(L,
                   "%s makes a constant of a number; e.to_int, e.to_uint and e.bits "
                   "convert values",
                   expr_type_name(type));
    trace_push(L, trace_value(L, t, 1, type, expr_type_name(type)));
    return 1;
}

/* ---- outputs */

static void read_name(lua_State *L, struct expr_output *o)
{
    if (!trace_option(L, 2, "name"))
        return;
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "name: %s is not a text; as in { name = \"y\" }",
                   luaL_tolstring(L, -1, NULL));
    const char *name = lua_tostring(L, -1);
    size_t chars = strlen(name);
    bool ok = chars > 0 && chars <= EXPR_NAME_CHARS;
    for (size_t i = 0; i < chars; i++)
        ok = ok && (name[i] == '_' || (name[i] >= 'a' && name[i] <= 'z') ||
                    (name[i] >= 'A' && name[i] <= 'Z') ||
                    (i > 0 && name[i] >= '0' && name[i] <= '9'));
    if (!ok)
        luaL_error(L,
                   "name: '%s' is no name: a letter, then letters, digits and _, %d at "
                   "most",
                   name, EXPR_NAME_CHARS);
    snprintf(o->name, sizeof o->name, "%s", name);
    o->is_named = true;
    lua_pop(L, 1);
}

/* Each one is to be returned, but a cast without a name is also a value. */
static void push_output(lua_State *L, struct tracer *t, const struct expr_output *o,
                        const struct expr_node *seed)
{
    struct held *h = trace_push_held(L, HELD_OUTPUT);
    h->output = *o;
    h->seed = seed;
    if (!o->name[0] && o->format != EXPR_OUT_D && !expr_scale_block(o->format) &&
        o->format != EXPR_OUT_AMAX)
        return;
    struct made_output *made = ARENA_NEW(t->arena, struct made_output);
    *made = (struct made_output){.format = o->format, .line = o->line, .next = t->made};
    t->made = made;
    h->made = made;
}

static const struct expr_node *value_option(lua_State *L, struct tracer *t,
                                            const char *name, enum expr_type type)
{
    if (!trace_option(L, 2, name))
        return NULL;
    const struct expr_node *n = trace_value(L, t, lua_gettop(L), type, name);
    lua_pop(L, 1);
    return n;
}

static const char *const paths[] = {"auto", "hardware", "integer"};
static const char *const divisions[] = {"exact", "reciprocal"};
static const char *const roundings[] = {"nearest", "halfstep", "stochastic"};

/* x / scale, or x times the reciprocal, which is computed once. */
static const struct expr_node *unscaled(lua_State *L, struct tracer *t,
                                        const struct expr_node *x, const char *what)
{
    int division = trace_word_option(L, 2, "division", divisions, 2, 0, what);
    const struct expr_node *scale = value_option(L, t, "scale", EXPR_F32);
    if (!scale) {
        if (division)
            luaL_error(L, "%s: division without a scale", what);
        return x;
    }
    expr_use_scale(t->e, scale, what);
    if (!division)
        return expr_op2(t->e, EXPR_DIV, x, scale);
    const struct expr_node *inverse =
        expr_op2(t->e, EXPR_DIV, expr_f32(t->e, 1), scale);
    return expr_op2(t->e, EXPR_MUL, x, inverse);
}

/* e.bf16(x), e.e4m3(x, { scale = s }) ...: one code for each element */
static int call_cast(lua_State *L)
{
    struct tracer *t = trace_begin(L);
    enum expr_op op = (enum expr_op)lua_tointeger(L, lua_upvalueindex(2));
    enum expr_format f = (enum expr_format)lua_tointeger(L, lua_upvalueindex(3));
    const char *what = expr_format_name(f);
    bool is_fp8 = f == EXPR_OUT_E4M3 || f == EXPR_OUT_E5M2;
    bool has_path = is_fp8 || f == EXPR_OUT_E2M1;
    trace_check_count(L, 2, what);
    trace_check_options(L, 2,
                        is_fp8     ? "name scale division path"
                        : has_path ? "name path"
                                   : "name",
                        what);
    const struct expr_node *x = trace_value(L, t, 1, EXPR_F32, what);
    if (is_fp8)
        x = unscaled(L, t, x, what);
    uint32_t path =
        has_path ? (uint32_t)trace_word_option(L, 2, "path", paths, 3, 0, what) : 0;
    struct expr_output o = {.format = f, .line = t->e->line};
    read_name(L, &o);
    o.value = f == EXPR_OUT_D ? x : expr_op(t->e, op, &x, 1, path);
    trace_check(L, t);
    if (f == EXPR_OUT_D && o.value->type != EXPR_F32)
        luaL_error(L, "d: the value is %s, but must be f32",
                   expr_type_name(o.value->type));
    push_output(L, t, &o, NULL);
    return 1;
}

static int call_scaled(lua_State *L)
{
    static const char *const directions[] = {"up", "down"};
    static const char *const types[] = {"e4m3", "e5m2"};
    struct tracer *t = trace_begin(L);
    enum expr_format f = (enum expr_format)lua_tointeger(L, lua_upvalueindex(2));
    const char *what = lua_tostring(L, lua_upvalueindex(3));
    trace_check_count(L, 2, what);
    trace_check_options(L, 2,
                        f == EXPR_OUT_NVFP4 ? "name global rounding seed path division"
                        : f == EXPR_OUT_MXFP4 ? "name scale rounding seed path"
                        : f == EXPR_OUT_AMAX  ? "name"
                                              : "name scale type path",
                        what);
    struct expr_output o = {.format = f, .line = t->e->line};
    o.value = trace_value(L, t, 1, EXPR_F32, what);
    if (o.value->type >= EXPR_TYPE_BF16)
        o.value = expr_op1(t->e, EXPR_WIDEN, o.value);
    if (o.value && o.value->type != EXPR_F32)
        luaL_error(L, "%s: the value is %s, but must be f32", what,
                   expr_type_name(o.value->type));
    read_name(L, &o);
    o.path = (enum expr_path)trace_word_option(L, 2, "path", paths, 3, 0, what);
    o.rounding =
        (enum expr_rounding)trace_word_option(L, 2, "rounding", roundings, 3, 0, what);
    o.reciprocal = trace_word_option(L, 2, "division", divisions, 2, 0, what) != 0;
    if (f == EXPR_OUT_NVFP4)
        o.global = value_option(L, t, "global", EXPR_F32);
    else
        o.scale_down = trace_word_option(L, 2, "scale", directions, 2, 0, what) != 0;
    if (f == EXPR_OUT_MXFP8_E4M3 && trace_word_option(L, 2, "type", types, 2, 0, what))
        o.format = EXPR_OUT_MXFP8_E5M2;
    if (f == EXPR_OUT_NVFP4 && !o.global)
        luaL_error(L,
                   "nvfp4 needs its global scale: { global = e.param \"d_global\" }");
    expr_use_scale(t->e, o.global, what);
    const struct expr_node *seed = value_option(L, t, "seed", EXPR_U32);
    bool is_random = o.rounding == EXPR_STOCHASTIC;
    if (is_random != (seed != NULL))
        luaL_error(L,
                   is_random ? "%s: stochastic rounding needs { seed = }"
                             : "%s: seed is for rounding = \"stochastic\"",
                   what);
    trace_check(L, t);
    push_output(L, t, &o, seed);
    return 1;
}

/* ---- e itself */

/* A function, or a field that is a value or a source of values. */
static int get_field(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
        return 1;
    lua_pop(L, 1);
    static const struct {
        const char *field, *name;
        enum expr_input_kind kind;
        enum expr_type type;
    } sources[] = {
        {"param", "", EXPR_SCALAR, EXPR_F32},
        {"col", "", EXPR_VEC_COL, EXPR_F32},
        {"row", "", EXPR_VEC_ROW, EXPR_F32},
        {"bias", "bias", EXPR_VEC_COL, EXPR_F32},
        {"row_scale", "row_scale", EXPR_VEC_ROW, EXPR_F32},
        {"aux", "c", EXPR_AUX, EXPR_TYPE_BF16},
    };
    static const struct {
        const char *field;
        enum expr_op op;
    } leaves[] = {
        {"unscaled", EXPR_ACC},           {"alpha", EXPR_ALPHA},
        {"row_index", EXPR_ROW},          {"col_index", EXPR_COLUMN},
        {"pair_index", EXPR_PAIR_COLUMN},
    };
    struct tracer *t = trace_begin(L);
    const char *field = luaL_tolstring(L, 2, NULL);
    if (strcmp(field, "acc") == 0) {
        trace_push(L, expr_product(t->e));
        return 1;
    }
    for (size_t i = 0; i < COUNT_OF(leaves); i++)
        if (strcmp(field, leaves[i].field) == 0) {
            trace_push(L, expr_leaf(t->e, leaves[i].op));
            return 1;
        }
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        if (strcmp(field, sources[i].field) == 0) {
            struct expr_input *in = &trace_push_held(L, HELD_SOURCE)->source;
            *in = (struct expr_input){.kind = sources[i].kind, .type = sources[i].type};
            snprintf(in->name, sizeof in->name, "%s", sources[i].name);
            if (in->kind == EXPR_VEC_COL || in->kind == EXPR_AUX)
                in->columns = EXPR_TILE;
            return 1;
        }
    return luaL_error(L, "e has no '%s': see docs/epilogues.md", field);
}

static void set_closure(lua_State *L, struct tracer *t, const char *name,
                        lua_CFunction f, lua_Integer a, lua_Integer b)
{
    lua_pushlightuserdata(L, t);
    lua_pushinteger(L, a);
    lua_pushinteger(L, b);
    lua_pushcclosure(L, f, 3);
    lua_setfield(L, -2, name);
}

static int get_form(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
        return 1;
    return luaL_error(L, "there is no function '%s' in e.fast and e.precise",
                      luaL_tolstring(L, 2, NULL));
}

static int refuse_assignment(lua_State *L)
{
    return luaL_error(L,
                      "e.%s = ... changes nothing: e is only read; keep what you "
                      "compute in a local variable, and return the outputs",
                      luaL_tolstring(L, 2, NULL));
}

/* In place of the table on top of the stack an empty one, through which it is read. */
static void make_read_only(lua_State *L, struct tracer *t, lua_CFunction get)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushlightuserdata(L, t);
    lua_pushvalue(L, -4);
    lua_pushcclosure(L, get, 2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_assignment);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* e.fast and e.precise */
static void set_forms(lua_State *L, struct tracer *t, const char *name, bool precise)
{
    const struct expr_function *f;
    lua_newtable(L);
    for (int i = 0; (f = expr_function_at(i)) != NULL; i++) {
        lua_pushlightuserdata(L, t);
        lua_pushinteger(L, i);
        lua_pushboolean(L, precise);
        lua_pushcclosure(L, call_function, 3);
        lua_setfield(L, -2, f->name);
    }
    make_read_only(L, t, get_form);
    lua_setfield(L, -2, name);
}

static void push_e(lua_State *L, struct tracer *t)
{
    static const struct {
        const char *name;
        enum expr_op op;
        enum expr_format format;
    } casts[] = {
        {"f32", EXPR_TO_F32, EXPR_OUT_F32},    {"bf16", EXPR_TO_BF16, EXPR_OUT_BF16},
        {"f16", EXPR_TO_F16, EXPR_OUT_F16},    {"e4m3", EXPR_TO_E4M3, EXPR_OUT_E4M3},
        {"e5m2", EXPR_TO_E5M2, EXPR_OUT_E5M2}, {"e2m1", EXPR_TO_E2M1, EXPR_OUT_E2M1},
        {"d", EXPR_TO_F32, EXPR_OUT_D},
    };
    static const struct {
        const char *name;
        enum expr_format format;
    } scaled[] = {
        {"nvfp4", EXPR_OUT_NVFP4},
        {"mxfp4", EXPR_OUT_MXFP4},
        {"mxfp8", EXPR_OUT_MXFP8_E4M3},
        {"amax", EXPR_OUT_AMAX},
    };
    static const enum expr_op blocks[] = {EXPR_BLOCK_AMAX, EXPR_BLOCK_MAX,
                                          EXPR_BLOCK_MIN};
    const struct expr_function *f;
    lua_newtable(L);
    for (int op = EXPR_ADD; op < EXPR_OP_COUNT; op++)
        set_closure(L, t, expr_op_name((enum expr_op)op), call_op, op, 0);
    for (int i = 0; (f = expr_function_at(i)) != NULL; i++) {
        set_closure(L, t, f->name, call_function, i, 0);
        lua_getfield(L, -1, f->name);
        lua_pushboolean(L, false);
        lua_setupvalue(L, -2, 3);
        lua_pop(L, 1);
    }
    for (size_t i = 0; i < COUNT_OF(casts); i++)
        set_closure(L, t, casts[i].name, call_cast, casts[i].op, casts[i].format);
    for (size_t i = 0; i < COUNT_OF(scaled); i++) {
        lua_pushlightuserdata(L, t);
        lua_pushinteger(L, scaled[i].format);
        lua_pushstring(L, scaled[i].name);
        lua_pushcclosure(L, call_scaled, 3);
        lua_setfield(L, -2, scaled[i].name);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        set_closure(L, t, expr_op_name(blocks[i]), call_block, blocks[i], 0);
    set_closure(L, t, "interleaved", call_interleaved, 0, 0);
    set_closure(L, t, "interleave", call_interleave, 0, 0);
    set_closure(L, t, "s32", call_integer, EXPR_S32, 0);
    set_closure(L, t, "u32", call_integer, EXPR_U32, 0);
    set_forms(L, t, "fast", false);
    set_forms(L, t, "precise", true);
    make_read_only(L, t, get_field);
}

/* ---- the function's results */

/* As luaL_error() would say it, for a line that is not the present one. */
static void raise_at(lua_State *L, const lua_Debug *about, int line, const char *text)
{
    lua_pushfstring(L, "%s:%d: %s", about->short_src, line, text);
    lua_error(L);
}

static void add_output(lua_State *L, struct tracer *t, const lua_Debug *about,
                       int index)
{
    struct held *h = trace_held(L, index);
    if (!h || h->kind != HELD_OUTPUT) {
        const char *what = h ? "a value without a type" : luaL_typename(L, index);
        raise_at(
            L, about, about->linedefined,
            arena_printf(t->arena,
                         "the epilogue returns %s where an output must be: e.d(x), "
                         "e.bf16(x), e.nvfp4(x, { global = }) ...",
                         what));
        return;
    }
    struct expr_output o = h->output;
    if (h->made)
        h->made->is_used = true;
    if (!o.name[0] && o.format == EXPR_OUT_AMAX)
        snprintf(o.name, sizeof o.name, "amax");
    else if (!o.name[0] && t->e->output_count == 0)
        snprintf(o.name, sizeof o.name, "d");
    else if (!o.name[0])
        snprintf(o.name, sizeof o.name, "d%d", t->e->output_count + 1);
    if (!expr_add_output(t->e, &o, h->seed))
        raise_at(L, about, o.line, expr_fault(t->e));
}

/* Results from `first` on: outputs, or one list of them. */
static void add_outputs(lua_State *L, struct tracer *t, const lua_Debug *about,
                        int first)
{
    int count = lua_gettop(L) - first + 1;
    if (count == 1 && lua_type(L, first) == LUA_TTABLE) {
        lua_Integer list_count = (lua_Integer)lua_rawlen(L, first);
        for (lua_Integer i = 1; i <= list_count && i <= EXPR_MAX_OUTPUTS + 1; i++) {
            lua_geti(L, first, i);
            add_output(L, t, about, lua_gettop(L));
        }
    } else {
        for (int i = 0; i < count; i++)
            add_output(L, t, about, first + i);
    }
    if (t->e->output_count == 0)
        raise_at(L, about, about->linedefined,
                 "the epilogue returns nothing: return e.d(x), e.nvfp4(...) ...");
    for (const struct made_output *m = t->made; m; m = m->next)
        if (!m->is_used)
            raise_at(L, about, m->line,
                     arena_printf(t->arena,
                                  "the output %s(...) is made here, but the epilogue "
                                  "does not return it: return all outputs, in one list "
                                  "or side by side",
                                  expr_format_name(m->format)));
}

struct expr *trace_function(lua_State *L, struct sandbox *s, struct arena *a)
{
    lua_Debug about;
    lua_pushvalue(L, -1);
    lua_getinfo(L, ">S", &about);
    struct tracer *t = ARENA_NEW(a, struct tracer);
    *t = (struct tracer){.sandbox = s, .arena = a, .e = expr_new(a)};
    luaL_checkstack(L, 8 + EXPR_MAX_OUTPUTS, "epilogue");
    trace_open_values(L, t);
    int first = lua_gettop(L), line;
    trace_set_places(L, t, true);
    push_e(L, t);
    lua_call(L, 1, LUA_MULTRET);
    trace_set_places(L, t, false);
    add_outputs(L, t, &about, first);
    if (!expr_check_used(t->e, &line))
        raise_at(L, &about, line, expr_fault(t->e));
    lua_settop(L, first - 1);
    return t->e;
}

struct call {
    struct sandbox *sandbox;
    struct arena *arena;
    struct expr *e;
};

static int call_traced(lua_State *L)
{
    struct call *c = lua_touserdata(L, lua_upvalueindex(1));
    c->e = trace_function(L, c->sandbox, c->arena);
    return 0;
}

void trace_report(const char *file, const struct sandbox_fault *f, struct diags *d)
{
    static const enum diag_code codes[] = {
        [SANDBOX_SYNTAX] = DIAG_CONFIG_SYNTAX,
        [SANDBOX_ERROR] = DIAG_EPILOGUE,
        [SANDBOX_WORK] = DIAG_CONFIG_WORK,
        [SANDBOX_MEMORY] = DIAG_CONFIG_MEMORY,
    };
    diag_add(d, codes[f->kind], (struct loc){file, f->line, 0}, f->text);
}

struct expr *trace_call(struct sandbox *s, struct arena *a, const char *file,
                        struct diags *d)
{
    struct call c = {.sandbox = s, .arena = a};
    struct sandbox_fault fault;
    lua_State *L = sandbox_state(s);
    lua_pushlightuserdata(L, &c);
    lua_pushcclosure(L, call_traced, 1);
    lua_insert(L, -2);
    if (sandbox_call(s, a, 1, 0, &fault))
        return c.e;
    trace_report(file, &fault, d);
    return NULL;
}
