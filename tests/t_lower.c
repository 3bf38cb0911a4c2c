/* gen/lower: every operation on every target, assembled and run; named epilogues; the
 * worker, the cache, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/trace.h"
#include "tests/lower_run.h"
#include "tests/test.h"

static const char *const targets[] = {"sm_80",   "sm_90a",  "sm_100f",
                                      "sm_100a", "sm_103a", "sm_120a"};

/* Half of them everyday numbers, half of them anything: infinities, subnormals, NaN. */
static float *random_floats(struct arena *a, size_t count, uint64_t seed)
{
    static const float special[] = {0.0f,      -0.0f,     1.0f,     -1.0f,
                                    0.5f,      INFINITY,  1e30f,    -1e-40f,
                                    0x1p-149f, -INFINITY, 0x1p126f, NAN};
    float *x = ARENA_ARRAY(a, float, count);
    uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        uint32_t bits = (uint32_t)(s >> 16);
        if (bits % 4 == 0)
            memcpy(&x[i], &bits, 4);
        else if (bits % 16 == 1)
            x[i] = special[(bits >> 8) % COUNT_OF(special)];
        else
            x[i] = (float)((int)(bits >> 8) - (1 << 23)) * 0x1p-20f;
        if (x[i] != x[i]) { /* the one NaN that arithmetic gives */
            bits = 0x7fffffff;
            memcpy(&x[i], &bits, 4);
        }
    }
    return x;
}

/* Values for all inputs of r->e, and acc. */
static void fill_inputs(struct arena *a, struct lower_run *r, uint64_t seed)
{
    r->acc = random_floats(a, r->rows * lower_padded_cols(r), seed);
    for (int i = 0; i < r->e->input_count; i++) {
        const struct expr_input *in = &r->e->inputs[i];
        float *x =
            random_floats(a, (size_t)(r->m + 1) * (r->n + 16), seed + 77 + (uint64_t)i);
        r->vectors[i] = x; /* as 16-bit elements anything, too */
        float scalar = 0.37f + (float)i;
        memcpy(&r->scalars[i], &scalar, 4);
        if (in->type == EXPR_S32 || in->type == EXPR_U32)
            r->scalars[i] = 12345u + (uint32_t)i;
    }
}

static void try_steps(const char *target, const struct expr *e, int chunk, int step,
                      bool run)
{
    struct arena *a = arena_new();
    struct buf text;
    buf_init(&text, a);
    expr_print(e, "", &text);
    printf("%s, %d columns, step %d: %s", target, chunk, step,
           text.data); /* seen when it fails */
    struct lower_run r = {.target = target,
                          .chunk = chunk,
                          .step = step,
                          .e = e,
                          .rows = 40,
                          .m = 37,
                          .n = (uint32_t)(2 * chunk + chunk / 2),
                          .alpha = 0.75f};
    fill_inputs(a, &r, 11);
    lower_assemble(a, lower_kernel(a, &r), target);
    if (run)
        lower_run_check(a, &r);
    arena_free(a);
}

static void try_on(const char *target, const struct expr *e, int chunk, bool run)
{
    try_steps(target, e, chunk, 0, run);
    if (strcmp(target, chunk == 64 ? "sm_80" : "sm_100f") == 0)
        try_steps(target, e, chunk, 8, run);
}

static void try_everywhere(const char *body)
{
    struct arena *a = arena_new();
    struct expr *e = lower_trace(a, body);
    int chunk = expr_chunk_multiple(e);
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        try_on(targets[i], e, chunk < 16 ? 16 : chunk, true);
    arena_free(a);
}

TEST_SLOW(arithmetic)
{
    try_everywhere(
        "local x, b = e.acc, e.bias \n"
        "return e.f32(e.add(x, b)), e.f32((x - b) * x, { name = 'y' }), \n"
        "  e.f32(x / b, { name = 'z' }), e.f32(e.fma(x, b, 3), { name = 'w' })");
    try_everywhere("local x, b = e.acc, e.bias \n"
                   "return e.f32(e.min(x, b)), e.f32(e.max(x, b), { name = 'y' }), \n"
                   "  e.f32(e.minimum(x, b), { name = 'z' }), \n"
                   "  e.f32(e.maximum(x, b), { name = 'w' })");
    try_everywhere("local x = e.acc \n"
                   "return e.f32(-x), e.f32(e.abs(x), { name = 'y' }), \n"
                   "  e.f32(e.copysign(x, e.bias), { name = 'z' }), \n"
                   "  e.f32(x^3 + e.unscaled, { name = 'w' })");
    try_everywhere(
        "local x = e.acc \n"
        "return e.f32(e.floor(x)), e.f32(e.ceil(x), { name = 'y' }), \n"
        "  e.f32(e.trunc(x), { name = 'z' }), e.f32(e.round(x), { name = 'w' })");
    try_everywhere("local x = e.acc \n"
                   "return e.f32(e.clamp(x, -1, e.param 'hi')), \n"
                   "  e.f32(e.relu2(x), { name = 'y' }), \n"
                   "  e.f32(e.softcap(x, 30), { name = 'z' })");
}

/* ---- each row of gen/expr_ops.def and each function of gen/expr_math.c, by itself */

/* Four outputs share a kernel. */
struct bundle {
    struct arena *arena;
    const char *text; /* "e.f32(...), e.f32(...)" */
    int count;
    bool seen[EXPR_OP_COUNT];
};

static void try_body(struct bundle *b, const char *body)
{
    const struct expr *e = lower_trace(b->arena, body);
    for (int i = 0; i < e->node_count; i++)
        b->seen[e->nodes[i]->op] = true;
    try_everywhere(body);
}

static void flush_bundle(struct bundle *b)
{
    if (b->count)
        try_body(b, arena_printf(b->arena, "return %s", b->text));
    b->count = 0;
}

/* `value` is f32. */
static void add_value(struct bundle *b, const char *value)
{
    b->text =
        arena_printf(b->arena, "%s%se.f32(%s, { name = 'y%d' })",
                     b->count ? b->text : "", b->count ? ", " : "", value, b->count);
    if (++b->count == EXPR_MAX_OUTPUTS)
        flush_bundle(b);
}

/* Argument `i` of a type that has the letter `type` in signatures. */
static const char *argument(char type, int i)
{
    static const char *const texts[][3] = {
        {"e.acc", "e.bias", "e.row_scale"},
        {"e.to_int(e.acc)", "e.to_int(e.bias)", "e.to_int(e.row_scale)"},
        {"e.bits(e.acc)", "e.bits(e.bias)", "e.bits(e.row_scale)"},
        {"e.lt(e.acc, e.bias)", "e.ge(e.bias, 1)", "e.isnan(e.acc)"},
    };
    return texts[strchr("fsup", type) - "fsup"][i];
}

/* The operation on arguments of `type` where its signature leaves that open. */
static void add_operation(struct bundle *b, enum expr_op op, char type)
{
    static const char *const as_f32[] = {"%s", "e.from_int(%s)", "e.from_uint(%s)",
                                         "e.select(%s, 1, 2)"};
    const char *signature = expr_op_signature(op);
    const char *call = arena_printf(b->arena, "e.%s(", expr_op_name(op));
    int i = 0;
    for (; signature[i] != ':'; i++)
        call = arena_printf(
            b->arena, "%s%s%s", call, i ? ", " : "",
            argument(strchr("nilv", signature[i]) ? type : signature[i], i));
    char result = strchr("nilv", signature[i + 1]) ? type : signature[i + 1];
    const char *around = as_f32[strchr("fsup", result) - "fsup"];
    const char *value = arena_printf(b->arena, "%s)", call);
    struct buf text;
    buf_init(&text, b->arena);
    for (const char *c = around; *c; c++)
        if (*c == '%')
            buf_puts(&text, value), c++;
        else
            buf_printf(&text, "%c", *c);
    add_value(b, text.data);
}

TEST_SLOW(every_operation)
{
    static const char *const open[] = {"nfsu", "isu", "lsup", "vfsup"};
    static const char *const others[] = {
        "e.acc * e.alpha + e.unscaled + e.param 's'",
        "e.from_uint(e.row_index + e.col_index)",
        ("e.acc - e.block_amax(e.acc, 16) - e.block_max(e.acc, 16) * "
         "e.block_min(e.acc, 16)"),
        "e.bf16(e.acc) + e.f16(e.acc) + e.e4m3(e.acc) + e.e5m2(e.acc) + e.e2m1(e.acc)",
        "e.interleave(4, e.interleaved(4))",
    };
    struct bundle b = {.arena = arena_new()};
    for (int op = EXPR_ADD; op < EXPR_OP_COUNT; op++) {
        const char *types = "f"; /* of no consequence where the signature has none */
        for (size_t i = 0; i < COUNT_OF(open); i++)
            if (strchr(expr_op_signature((enum expr_op)op), open[i][0]))
                types = open[i] + 1;
        for (; *types; types++)
            add_operation(&b, (enum expr_op)op, *types);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++)
        add_value(&b, others[i]);
    flush_bundle(&b);
    try_body(&b, "local g, u = e.interleaved(8) "
                 "return e.nvfp4(g * u + e.from_uint(e.pair_index), "
                 "{ global = 1, rounding = 'stochastic', seed = 1 })");
    for (int op = 0; op < EXPR_OP_COUNT; op++)
        if (!b.seen[op])
            test_fail(__FILE__, __LINE__, "no test has %s",
                      expr_op_name((enum expr_op)op));
    arena_free(b.arena);
}

static void try_functions(const char *form)
{
    struct bundle b = {.arena = arena_new()};
    const struct expr_function *f;
    for (int i = 0; (f = expr_function_at(i)) != NULL; i++) {
        const char *call = arena_printf(b.arena, "e.%s.%s(", form, f->name);
        for (int k = 0; k < f->arg_count; k++)
            call =
                arena_printf(b.arena, "%s%s%s", call, k ? ", " : "", argument('f', k));
        add_value(&b, arena_printf(b.arena, "%s)", call));
    }
    flush_bundle(&b);
    arena_free(b.arena);
}

TEST_SLOW(every_fast_function)
{
    try_functions("fast");
}

TEST_SLOW(every_precise_function)
{
    try_functions("precise");
}

/* ---- together */

TEST_SLOW(integers)
{
    try_everywhere("local i = e.to_int(e.acc) \n"
                   "return e.f32(e.from_int(i * 3 + 7 - (i >> 3))), \n"
                   "  e.f32(e.from_int(e.min(i, -5)), { name = 'y' }), \n"
                   "  e.f32(e.from_int(e.max(-i, e.abs(i))), { name = 'z' }), \n"
                   "  e.f32(e.from_int(i << (i & 63)), { name = 'w' })");
    try_everywhere(
        "local u = e.bits(e.acc) \n"
        "return e.f32(e.from_uint(u >> (u & 63))), \n"
        "  e.f32(e.from_bits(u ~ (u << 1) | 5), { name = 'y' }), \n"
        "  e.f32(e.from_uint(e.min(e.to_uint(e.acc), ~u)), { name = 'z' }), \n"
        "  e.f32(e.from_int(e.as_int(u) >> (e.as_int(u) & 63)), { name = 'w' })");
    try_everywhere(
        "local u = e.as_uint(e.to_int(e.acc)) + e.param('start', { type = 'u32' }) \n"
        "return e.f32(e.from_uint(u + e.row_index * e.u32(3) + e.col_index))");
}

TEST_SLOW(predicates)
{
    try_everywhere(
        "local x, b = e.acc, e.bias \n"
        "local p = e.lt(x, b) & ~e.isnan(x) | e.ge(x, 2) \n"
        "return e.f32(e.select(p, x, b)), \n"
        "  e.f32(e.select(e.le(x, b) ~ e.gt(x, 0), 1, x), { name = 'y' }), \n"
        "  e.f32(e.select(e.eq(x, b), x, e.select(e.ne(x, x), 5, 7)), "
        "{ name = 'z' })");
    try_everywhere("local i, u = e.to_int(e.acc), e.bits(e.acc) \n"
                   "local p = e.lt(i, 3) & e.ge(u, 77) ~ e.eq(i, 0) \n"
                   "return e.f32(e.from_int(e.select(p, i, 5))), \n"
                   "  e.f32(e.select(e.gt(u, 0x80000000), e.acc, 0), { name = 'y' })");
}

TEST_SLOW(casts_and_widening)
{
    try_everywhere(
        "local x = e.acc \n"
        "return e.bf16(x), e.f16(x, { name = 'y' }), e.e4m3(x, { name = 'z' }), \n"
        "  e.e5m2(x, { name = 'w' })");
    try_everywhere("local x = e.acc \n"
                   "return e.e2m1(x), e.e4m3(x, { name = 'y', path = 'integer' }), \n"
                   "  e.e5m2(x, { name = 'z', path = 'integer' }), \n"
                   "  e.e2m1(x, { name = 'w', path = 'integer' })");
    try_everywhere("local x = e.acc \n"
                   "return e.f32(e.bf16(x) * 2 + e.from_uint(e.bits(e.bf16(x)))), \n"
                   "  e.f32(e.f16(x) * 2, { name = 'y' }), \n"
                   "  e.f32(e.e4m3(x) + e.e5m2(x), { name = 'z' }), \n"
                   "  e.f32(e.e2m1(x) * 2, { name = 'w' })");
    try_everywhere("return e.e4m3(e.acc, { scale = e.param 's' }), \n"
                   "  e.e5m2(e.acc, { scale = e.param 's', division = 'reciprocal', "
                   "name = 'y' })");
}

TEST_SLOW(inputs)
{
    try_everywhere("return e.f32(e.acc + e.bias * e.row_scale), \n"
                   "  e.f32(e.acc + e.aux('c', { type = 'f32' }), { name = 'y' }), \n"
                   "  e.f32(e.acc * e.aux('h', { type = 'f16' }), { name = 'z' })");
    try_everywhere(
        "return e.f32(e.acc + e.col('bb', { type = 'bf16' }) \n"
        "  + e.col('f', { type = 'f16' }) * e.row('r', { type = 'bf16' })), \n"
        "  e.f32(e.acc + e.aux 'c', { name = 'y' }), \n"
        "  e.f32(e.acc * e.alpha + e.from_int(e.col('i', { type = 's32' })), "
        "{ name = 'z' })");
    try_everywhere("local gate, up = e.interleaved(8) \n"
                   "local s = e.col('s', { per = 'pair' }) \n"
                   "return e.f32(gate * up + s + e.aux('c', { per = 'pair' }) \n"
                   "  + e.from_uint(e.pair_index))");
}

TEST_SLOW(columns)
{
    try_everywhere("local g, u = e.interleaved(1, { order = 'up_gate' }) \n"
                   "local h, v = e.interleaved(4, { of = e.acc + e.bias }) \n"
                   "return e.f32(g - u), e.f32(h * v, { name = 'y' }), \n"
                   "  e.f32(e.interleave(4, h, g), { name = 'z' })");
    try_everywhere("local g, u = e.interleaved(16) \n"
                   "return e.f32(g - u * e.block_amax(u, 16)), \n"
                   "  e.f32(e.interleave(2, u, g), { name = 'y' })");
    try_everywhere("local x = e.acc \n"
                   "return e.f32(x - e.block_amax(x, 16) * e.block_max(x, 32)), \n"
                   "  e.f32(e.block_min(x, 16) + e.bias, { name = 'y' }), e.amax(x)");
}

TEST_SLOW(outputs_with_scales)
{
    static const char *const paths[] = {"auto", "integer"};
    static const char *const roundings[] = {"rounding = 'nearest'",
                                            "rounding = 'halfstep'",
                                            "rounding = 'stochastic', seed = 7"};
    struct arena *a = arena_new();
    for (size_t p = 0; p < COUNT_OF(paths); p++)
        for (size_t r = 0; r < COUNT_OF(roundings); r++) {
            try_everywhere(arena_printf(
                a,
                "return e.nvfp4(e.acc, { global = e.param 'g', path = '%s', %s }), \n"
                "  e.mxfp4(e.acc, { name = 'y', path = '%s', %s })",
                paths[p], roundings[r], paths[p], roundings[r]));
            try_everywhere(arena_printf(
                a,
                "local g, u = e.interleaved(8) \n"
                "return e.nvfp4(g * u, { global = e.row 'g', division = 'reciprocal', "
                "path = '%s', %s }), e.bf16(g * u, { name = 'y' }), e.amax(g)",
                paths[p], roundings[r]));
        }
    try_everywhere(
        "return e.mxfp8(e.acc), e.mxfp8(e.acc, { type = 'e5m2', name = 'y' }), \n"
        "  e.mxfp8(e.acc, { scale = 'down', path = 'integer', name = 'z' }), \n"
        "  e.mxfp4(e.acc, { scale = 'down', name = 'w' })");
    arena_free(a);
}

/* ---- any operation on the results of any others */

struct pool {
    const struct expr_node *nodes[64];
    int count;
    uint64_t state;
};

static uint32_t draw(struct pool *p, uint32_t below)
{
    p->state ^= p->state << 13;
    p->state ^= p->state >> 7;
    p->state ^= p->state << 17;
    return (uint32_t)(p->state >> 20) % below;
}

static const struct expr_node *pick(struct pool *p, enum expr_type type)
{
    for (;;) {
        const struct expr_node *n = p->nodes[draw(p, (uint32_t)p->count)];
        if (n->type == type)
            return n;
    }
}

/* The type that a letter of a signature stands for; `open` where it leaves that open.
 */
static enum expr_type letter_type(char letter, enum expr_type open)
{
    const char *found = strchr("fsup", letter);
    return found ? (enum expr_type)(found - "fsup") : open;
}

/* Which NaN it is nobody promises (docs/epilogues.md): 3 stands for all of them. */
static const struct expr_node *told(struct expr *e, const struct expr_node *x)
{
    return expr_op3(e, EXPR_SELECT, expr_op1(e, EXPR_IS_NAN, x), expr_f32(e, 3), x);
}

static const struct expr_node *draw_operation(struct pool *p, struct expr *e)
{
    static const enum expr_op casts[] = {EXPR_TO_BF16, EXPR_TO_F16, EXPR_TO_E4M3,
                                         EXPR_TO_E5M2, EXPR_TO_E2M1};
    static const enum expr_op blocks[] = {EXPR_BLOCK_AMAX, EXPR_BLOCK_MAX,
                                          EXPR_BLOCK_MIN};
    if (draw(p, 10) == 0)
        return expr_op1(
            e, EXPR_WIDEN,
            expr_op1(e, casts[draw(p, COUNT_OF(casts))], pick(p, EXPR_F32)));
    if (draw(p, 12) == 0) {
        const struct expr_node *x = pick(p, EXPR_F32);
        return expr_op(e, blocks[draw(p, COUNT_OF(blocks))], &x, 1, 16u << draw(p, 2));
    }
    enum expr_op op = EXPR_ADD + draw(p, EXPR_OP_COUNT - EXPR_ADD);
    const char *signature = expr_op_signature(op);
    const enum expr_type open = draw(p, 4);
    const struct expr_node *args[3];
    int count = 0;
    for (; signature[count] != ':'; count++)
        args[count] = pick(p, letter_type(signature[count], open));
    if (op == EXPR_BITS || op == EXPR_COPYSIGN)
        args[count - 1] = told(e, args[count - 1]);
    return expr_op(e, op, args, count, 0);
}

/* Some two dozen operations, and as many outputs of f32 as hold their results. */
static struct expr *random_epilogue(struct arena *a, uint64_t seed)
{
    static const struct expr_input inputs[] = {
        {.kind = EXPR_VEC_COL, .name = "v", .type = EXPR_F32, .columns = EXPR_TILE},
        {.kind = EXPR_AUX, .name = "c", .type = EXPR_TYPE_BF16, .columns = EXPR_TILE},
        {.kind = EXPR_VEC_ROW, .name = "r", .type = EXPR_F32},
        {.kind = EXPR_SCALAR, .name = "s", .type = EXPR_F32},
    };
    struct expr *e = expr_new(a);
    struct pool p = {.state = seed * 0x9e3779b97f4a7c15u + 1};
    p.nodes[p.count++] = expr_product(e);
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        p.nodes[p.count++] = expr_input(e, &inputs[i]);
    const struct expr_node *x = p.nodes[0], *c = p.nodes[2];
    p.nodes[p.count++] = expr_op1(e, EXPR_TO_INT, x);
    p.nodes[p.count++] = expr_op1(e, EXPR_BITS, told(e, c));
    p.nodes[p.count++] = expr_op2(e, EXPR_LT, x, c);
    p.nodes[p.count++] = expr_s32(e, -7);
    p.nodes[p.count++] = expr_u32(e, 5);
    while (p.count < 36) {
        const struct expr_node *n = draw_operation(&p, e);
        e->fault[0] = '\0'; /* types that do not go together: another draw */
        if (n)
            p.nodes[p.count++] = n;
    }
    for (int i = p.count - 1; i > 0 && e->output_count < EXPR_MAX_OUTPUTS; i--) {
        struct expr_output o = {.format = EXPR_OUT_F32, .value = p.nodes[i]};
        if (o.value->type == EXPR_PRED)
            o.value = expr_op3(e, EXPR_SELECT, o.value, x, c);
        else if (o.value->type != EXPR_F32)
            o.value = expr_op1(
                e, o.value->type == EXPR_S32 ? EXPR_INT_TO_FLOAT : EXPR_UINT_TO_FLOAT,
                o.value);
        if (o.value->shape != EXPR_SHAPE_ELEM)
            o.value = expr_op2(e, EXPR_ADD, o.value, x);
        o.value = expr_op1(e, EXPR_TO_F32, told(e, o.value));
        snprintf(o.name, sizeof o.name, "y%d", i);
        CHECK(expr_add_output(e, &o, NULL));
    }
    return e;
}

TEST_SLOW(random_epilogues)
{
    const char *all = getenv("FP4GEN_TEST_ALL");
    const uint64_t count = all && strcmp(all, "1") == 0 ? 1000 : 40;
    for (uint64_t i = 0; i < count; i++) {
        struct arena *a = arena_new();
        struct expr *e = random_epilogue(a, i);
        int least = expr_chunk_multiple(e);
        try_on(targets[i % COUNT_OF(targets)], e, least < 16 ? 16 : least, true);
        arena_free(a);
    }
}

TEST_SLOW(named_epilogues)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    int count;
    const struct trace_name *names = trace_names(a, &count);
    CHECK(count >= 17);
    for (int i = 0; i < count; i++) {
        struct expr *e = trace_named(a, names[i].name, loc_none(), d);
        CHECK(e != NULL);
        CHECK(expr_resolve_d(e, EXPR_OUT_BF16));
        for (int chunk = 16; chunk <= 64; chunk *= 2)
            if (chunk >= expr_chunk_multiple(e))
                try_on("sm_100f", e, chunk, true);
        for (size_t t = 0; t < COUNT_OF(targets); t++)
            try_on(targets[t], e, 64, strcmp(targets[t], "sm_80") == 0);
    }
    arena_free(a);
}

TEST(the_template_says_what_its_registers_are_called)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct expr *e = lower_trace(a, "return e.bf16(e.acc + e.bias * e.row_scale)");
    struct lower_request request = {
        .e = e,
        .target = target_find("sm_100f"),
        .ptx_version = 88,
        .chunk = 16,
        .prefix = "x",
        .names = {
            .v = "sum", .alpha = "factor", .row = "my_row", .col = "at", .m = "ms"}};
    const struct lowered *l = lower_epilogue(a, &request, d);
    if (!l && d->first->code == DIAG_EPILOGUE_NO_LLVM)
        SKIP("no LLVM 22");
    CHECK(l != NULL);
    CHECK(strstr(l->chunk.text, "{sum0, sum1}") && strstr(l->chunk.text, "factor"));
    CHECK(strstr(l->chunk.text, " at, 4;") && strstr(l->tile.text, "my_row"));
    CHECK(strstr(l->tile.text, " ms, -1;") && strstr(l->tail.text, " n, -1;"));
    CHECK(strstr(l->tile.text, "x_h0") && strstr(l->decls, "x_h0"));
    CHECK(!strstr(l->chunk.text, "v0") && !strstr(l->tail.text, "alpha}"));
    arena_free(a);
}
