/* gen/expr, gen/trace: what an epilogue means, the bounds of its functions, refusals.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gen/expr_eval.h"
#include "gen/trace.h"
#include "tests/lower_run.h"
#include "tests/kernel_text.h"
#include "tests/ref.h"
#include "tests/test.h"

enum { COLS = 1 << 16 };

/* ---- functions against libm */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu_tanh(double x)
{
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
    return 0.5 * x * erfc(-x / 1.41421356237309504880);
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static double relu2(double x)
{
    return relu(x) * relu(x);
}

struct bound {
    const char *name;
    double (*exact)(double);
    double ulps;     /* of an f32 result; 0: see below */
    double relative; /* to |x|; the error of what multiplies x */
    double absolute;
    double growth; /* relative to the result, times |x| */
};

/* docs/epilogues.md has this table. */
static const struct bound precise_bounds[] = {
    {"relu", relu, 0, 0, 0, 0},
    {"relu2", relu2, 0.5, 0, 0, 0},
    {"exp", exp, 1, 0, 0, 0},
    {"exp2", exp2, 1, 0, 0, 0},
    {"log", log, 1, 0, 0, 0},
    {"log2", log2, 2, 0, 0, 0},
    {"tanh", tanh, 1.5, 0, 0, 0},
    {"erf", erf, 1.5, 0, 0, 0},
    {"rcp", reciprocal, 0.5, 0, 0, 0},
    {"sqrt", sqrt, 0.5, 0, 0, 0},
    {"rsqrt", reciprocal_root, 1.5, 0, 0, 0},
    {"sigmoid", sigmoid, 2.5, 0, 0, 0},
    {"silu", silu, 0, 0x1p-22, 0, 0},
    {"gelu_tanh", gelu_tanh, 0, 0x1p-22, 0, 0},
    {"gelu_erf", gelu_erf, 0, 0x1p-22, 0, 0},
};

/* Of the emulator; the hardware's own error comes on top (docs/epilogues.md). */
static const struct bound fast_bounds[] = {
    {"relu", relu, 0, 0, 0, 0},
    {"relu2", relu2, 0.5, 0, 0, 0},
    {"exp", exp, 2, 0, 0x1p-126, 0x1p-23},
    {"exp2", exp2, 0.6, 0, 0x1p-126, 0},
    {"log", log, 1.6, 0, 0, 0},
    {"log2", log2, 0.6, 0, 0, 0},
    {"rcp", reciprocal, 0.6, 0, 0, 0},
    {"sqrt", sqrt, 0.6, 0, 0, 0},
    {"rsqrt", reciprocal_root, 0.6, 0, 0, 0},
    {"tanh", tanh, 0.6, 0, 0, 0},
    {"erf", erf, 0, 0, 0x1p-21, 0},
    {"sigmoid", sigmoid, 0, 0, 0x1p-22, 0},
    {"silu", silu, 0, 0x1p-22, 0, 0},
    {"gelu_tanh", gelu_tanh, 0, 0x1p-22, 0, 0},
    {"gelu_erf", gelu_erf, 0, 0x1p-21, 0, 0},
};

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s >> 16;
}

/* All bf16 values first, then any floats and, every other one, those within 128 of 0.
 */
static void fill(float *x, int round)
{
    uint64_t s = 88172645463325252u + (uint64_t)round;
    for (uint32_t i = 0; i < COLS; i++) {
        uint32_t bits = round == 0 ? i << 16 : (uint32_t)next_random(&s);
        if (round > 0 && i % 2)
            x[i] = (float)((int)(bits >> 7) - (1 << 24)) * 0x1p-17f;
        else
            memcpy(&x[i], &bits, 4);
    }
}

static bool is_near(const struct bound *b, bool precise, float x, float got)
{
    double want = b->exact((double)x);
    if (isnan(want) || isnan((double)x))
        return isnan(got) || (!precise && fabs((double)x) < 0x1p-126);
    if (!precise && (fabs((double)x) < 0x1p-126 || fabs(want) < 0x1p-126))
        return true; /* flushed */
    if (isinf((double)x))
        return (double)got == want || b->relative > 0; /* infinity times 0 */
    if (isinf((double)(float)want) || isinf(got))
        return (double)got == want || fabs(want) > 0x1.fffffep127;
    double allowed = b->ulps * ref_f32_ulp(want) + b->relative * fabs((double)x) +
                     b->absolute + b->growth * fabs((double)x) * fabs(want) + 0x1p-149;
    return fabs((double)got - want) <= allowed;
}

static void check_bound(const struct bound *b, bool precise, int rounds)
{
    static float x[COLS];
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    const struct expr_node *acc = expr_leaf(e, EXPR_ACC);
    const struct expr_node *y = expr_function_find(b->name)->build(e, &acc, precise);
    struct expr_output o = {.format = EXPR_OUT_F32, .name = "d"};
    o.value = expr_op1(e, EXPR_TO_F32, y);
    CHECK(expr_add_output(e, &o, NULL));
    for (int round = 0; round < rounds; round++) {
        struct arena *scratch = arena_new();
        struct expr_row row = {.cols = COLS, .m = 1, .n = COLS, .alpha = 1, .acc = x};
        struct expr_values out;
        fill(x, round);
        expr_eval(scratch, e, &row, &out);
        for (int i = 0; i < COLS; i++) {
            float got;
            memcpy(&got, &out.codes[i], 4);
            if (!is_near(b, precise, x[i], got))
                test_fail(__FILE__, __LINE__, "%s%s(%a) is %a, but must be %a",
                          precise ? "precise." : "fast.", b->name, (double)x[i],
                          (double)got, b->exact((double)x[i]));
        }
        arena_free(scratch);
    }
    arena_free(a);
}

static bool has_bound(const struct bound *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

TEST(every_function_of_one_value_has_a_bound)
{
    const struct expr_function *f;
    for (int i = 0; (f = expr_function_at(i)) != NULL; i++)
        if (f->arg_count == 1 &&
            (!has_bound(precise_bounds, COUNT_OF(precise_bounds), f->name) ||
             !has_bound(fast_bounds, COUNT_OF(fast_bounds), f->name)))
            test_fail(__FILE__, __LINE__, "no test compares %s with libm", f->name);
}

TEST_SLOW(precise_functions_keep_their_bounds)
{
    for (size_t i = 0; i < COUNT_OF(precise_bounds); i++)
        check_bound(&precise_bounds[i], true, 40);
}

TEST_SLOW(fast_functions_keep_their_bounds)
{
    for (size_t i = 0; i < COUNT_OF(fast_bounds); i++)
        check_bound(&fast_bounds[i], false, 40);
}

/* Value of an epilogue's first output, f32, in column 0. */
static float value_of(const char *body, float acc0, float acc8)
{
    struct arena *a = arena_new();
    struct expr *e = lower_trace(a, body);
    float acc[64], got;
    for (int i = 0; i < 64; i++)
        acc[i] = i / 8 % 2 ? acc8 : acc0;
    struct expr_row row = {.cols = 64, .m = 1, .n = 64, .alpha = 1, .acc = acc};
    struct expr_values out[EXPR_MAX_OUTPUTS];
    expr_eval(a, e, &row, out);
    memcpy(&got, &out[0].codes[0], 4);
    arena_free(a);
    return got;
}

static float precise_of(const char *name, float x)
{
    struct arena *a = arena_new();
    float y =
        value_of(arena_printf(a, "return e.f32(e.precise.%s(e.acc))", name), x, x);
    arena_free(a);
    return y;
}

TEST(ends_of_precise_functions)
{
    CHECK(precise_of("exp", INFINITY) == INFINITY);
    CHECK(precise_of("exp", -INFINITY) == 0);
    CHECK(precise_of("exp", 0) == 1);
    CHECK(isnan(precise_of("exp", NAN)));
    CHECK(precise_of("exp2", -149) == 0x1p-149f);
    CHECK(precise_of("exp2", 128) == INFINITY);
    CHECK(precise_of("exp2", 10) == 1024);
    CHECK(precise_of("log", 0) == -INFINITY);
    CHECK(precise_of("log", -0.0f) == -INFINITY);
    CHECK(isnan(precise_of("log", -1)));
    CHECK(precise_of("log", 1) == 0);
    CHECK(precise_of("log", INFINITY) == INFINITY);
    CHECK(precise_of("log2", 0x1p-149f) == -149);
    CHECK(precise_of("log2", 8) == 3);
    CHECK(precise_of("tanh", INFINITY) == 1);
    CHECK(precise_of("tanh", -INFINITY) == -1);
    CHECK(signbit(precise_of("tanh", -0.0f)));
    CHECK(precise_of("erf", INFINITY) == 1);
    CHECK(precise_of("erf", -INFINITY) == -1);
    CHECK(signbit(precise_of("erf", -0.0f)));
    CHECK(precise_of("sigmoid", INFINITY) == 1);
    CHECK(precise_of("sigmoid", -INFINITY) == 0);
    CHECK(precise_of("silu", INFINITY) == INFINITY);
    CHECK(isnan(precise_of("relu", NAN)));
    CHECK(isnan(precise_of("silu", NAN)));
}

/* N16 of cases.md: the order is said, not guessed. */
TEST(gate_and_up_in_both_orders)
{
    CHECK_NEAR(value_of("local g, u = e.interleaved(8, { order = 'gate_up' }) "
                        "return e.f32(e.precise.silu(g) * u)",
                        1, 2),
               1.4621171572600098, 1e-6);
    CHECK_NEAR(value_of("local g, u = e.interleaved(8, { order = 'up_gate' }) "
                        "return e.f32(e.precise.silu(g) * u)",
                        1, 2),
               1.7615941559557649, 1e-6);
    CHECK_NEAR(value_of("local g, u = e.interleaved(8) return e.f32(g - 10 * u)", 1, 2),
               -19, 0);
}

/* ---- one meaning, one node, one text */

TEST(equal_nodes_are_one)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    const struct expr_node *x = expr_product(e), *two = expr_f32(e, 2);
    CHECK(expr_op2(e, EXPR_MUL, x, two) == expr_op2(e, EXPR_MUL, x, expr_f32(e, 2)));
    CHECK(expr_op2(e, EXPR_MUL, x, two) != expr_op2(e, EXPR_MUL, two, x));
    CHECK(expr_f32(e, 0.0f) != expr_f32(e, -0.0f));
    CHECK(expr_s32(e, 1) != expr_u32(e, 1));
    int count = e->node_count;
    for (int i = 0; i < 1000; i++)
        expr_f32(e, (float)i);
    CHECK_EQ(e->node_count, count + 998); /* 0 and 2 were there */
    arena_free(a);
}

TEST(named_epilogues_survive_their_text)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    int count;
    const struct trace_name *names = trace_names(a, &count);
    CHECK(count >= 17);
    for (int i = 0; i < count; i++) {
        struct expr *e = trace_named(a, names[i].name, loc_none(), d);
        CHECK(e && expr_resolve_d(e, EXPR_OUT_F16));
        struct buf first, second;
        buf_init(&first, a);
        buf_init(&second, a);
        expr_write(e, &first);
        struct expr *again = expr_read(a, first.data);
        CHECK(again != NULL);
        expr_write(again, &second);
        CHECK_STR(first.data, second.data);
        CHECK_EQ(expr_chunk_multiple(e), expr_chunk_multiple(again));
    }
    arena_free(a);
}

TEST(damaged_texts_are_refused)
{
    static const char *const texts[] = {
        "",
        "expr 2\n",
        "expr 1\nn unscaled f32 0",
        "expr 1\nn nothing f32 0\n",
        "expr 1\nn neg f32 0 5\n",
        "expr 1\nn neg s32 0\n",
        "expr 1\nx\n",
        "expr 1\nn input f32 3\n",
        "expr 1\ni scalar s f99 0\n",
        "expr 1\nn unscaled f32 0\no d9 0 -1 -1 -1 -1 0 0 0 0\n",
        "expr 1\nn unscaled f32 0\nn unscaled f32 0\n",
    };
    /* One way to write each: what a reader of numbers would overlook. */
    static const char good[] = "expr 1\n"
                               "n unscaled f32 0\n"
                               "n const f32 2b800000\n"
                               "n mul f32 0 0 1\n"
                               "n bf16 bf16 0 2\n"
                               "o bf16 3 -1 -1 -1 -1 0 0 0 0\n";
    static const char *const edits[][2] = {
        {"2b800000", "2b-1"},
        {"2b800000", "const"},
        {"2b800000", "2B800000"},
        {"2b800000", "12b800000"},
        {"f32 0 0 1", "f32 0 0 1x"},
        {"f32 0 0 1", "f32 0 0  1"},
        {"f32 0 0 1", "f32 0 0 1 1 1"},
        {"f32 0 0 1", "f32 0 0 +1"},
        {"-1 -1 0 0", "-1 -1 2147483648 0"},
        {"-1 -1 0 0", "-1 -1 3 0"},
        {"-1 -1 0 0", "-1 -1 -1 0"},
        {"-1 -1 0 0", "-1 -1 0 2147483648"},
        {"-1 -1 0 0", "-1 -1 0 3"},
        {"-1 -1 0 0", "-1 -1 0 -1"},
        {"0 0 0\n", "0 2 0\n"},
        {"0 0 0\n", "0 0 7\n"},
        {"0 0 0\n", "0 0 0 9\n"},
        {"3 -1", "3 -2"},
        {"3 -1", "3 99"},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK(!expr_read(a, texts[i]));
    CHECK(expr_read(a, good) != NULL);
    for (size_t i = 0; i < COUNT_OF(edits); i++)
        if (expr_read(a, text_replaced(a, good, edits[i][0], edits[i][1])))
            test_fail(__FILE__, __LINE__, "read with %s", edits[i][1]);
    arena_free(a);
}

static const char *printed(struct arena *a, const char *body)
{
    struct buf b;
    buf_init(&b, a);
    expr_print(lower_trace(a, body), "", &b);
    return b.data;
}

TEST(epilogues_are_shown_as_they_were_written)
{
    struct arena *a = arena_new();
    CHECK_STR(printed(a, "local gate, up = e.interleaved(8) "
                         "return e.nvfp4(e.silu(gate) * up, { global = e.param 'g' })"),
              "d = nvfp4(silu(gate) * up, global = g, division = exact, rounding = "
              "nearest, path = auto)\n");
    CHECK_STR(printed(a, "local h = e.relu(e.acc + e.bias) "
                         "return e.bf16((h - 1) * 2 - (3 - h)), e.amax(h)"),
              "t1 = relu(acc + bias)\n"
              "d = bf16((t1 - 1) * 2 - (3 - t1))\n"
              "amax = amax(t1)\n");
    CHECK_STR(printed(a, "return e.f32(e.select(e.lt(e.acc, 0) | e.isnan(e.acc), "
                         "e.block_amax(e.acc, 16), -e.acc))"),
              "d = f32(select(lt(acc, 0) | isnan(acc), block_amax(acc, 16), -acc))\n");
    arena_free(a);
}

TEST(needs_of_an_expression)
{
    static const struct {
        const char *body;
        int chunk, n;
    } rows[] = {
        {"return e.f32(e.acc)", 1, 1},
        {"return e.bf16(e.acc)", 2, 1},
        {"return e.nvfp4(e.acc, { global = 1 })", 16, 2},
        {"return e.mxfp4(e.acc)", 32, 2},
        {"return e.mxfp8(e.acc)", 32, 1},
        {"local g, u = e.interleaved(8) return e.bf16(g * u)", 16, 16},
        {"local g, u = e.interleaved(1) return e.nvfp4(g * u, { global = 1 })", 32, 4},
        {"local g, u = e.interleaved(32) return e.f32(g * u)", 64, 64},
        {"local g, u = e.interleaved(8) return e.mxfp4(g * u)", 64, 16},
        {"local g, u = e.interleaved(2) return e.f32(e.interleave(16, g, u))", 32, 32},
        {"return e.f32(e.acc - e.block_amax(e.acc, 32))", 32, 1},
    };
    struct arena *a = arena_new();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct expr *e = lower_trace(a, rows[i].body);
        CHECK_EQ(expr_chunk_multiple(e), rows[i].chunk);
        CHECK_EQ(expr_n_multiple(e), rows[i].n);
    }
    arena_free(a);
}

TEST(inputs_are_found_once)
{
    struct arena *a = arena_new();
    struct expr *e = lower_trace(
        a,
        "local b = e.bias \n return e.f32(e.acc * e.param('s', { default = 2 }) + b \n"
        " + e.param('s', { default = 2 }) + e.bias() + e.bias 'bias' + e.aux)");
    CHECK_EQ(e->input_count, 3);
    CHECK_STR(e->inputs[0].name, "s");
    CHECK(e->inputs[0].has_default);
    CHECK_EQ(e->inputs[0].default_bits, 0x40000000);
    CHECK_STR(e->inputs[1].name, "bias");
    CHECK_EQ(e->inputs[2].kind, EXPR_AUX);
    CHECK_EQ(e->inputs[2].type, EXPR_TYPE_BF16);
    arena_free(a);
}

/* e.bias(n) is e.bias: where an element lies may be said. */
TEST(places_may_be_said)
{
    struct arena *a = arena_new();
    CHECK_STR(printed(a, "return e.f32(e.acc * e.row_scale(m) + e.bias(n) + \n"
                         "e.aux(m, n, { type = 'f32' }) + e.from_uint(n))"),
              "d = f32(acc * row_scale + bias + c + from_uint(column))\n");
    CHECK_STR(printed(a, "local n = 2 return e.f32(e.acc * n + e.from_uint(m))"),
              "d = f32(acc * 2 + from_uint(row))\n");
    struct diags *d = diags_new(a);
    CHECK(!lower_trace_or(a, "n = 2 return e.f32(e.acc + e.bias(n))", d));
    CHECK(strstr(d->first->text, "options are a table"));
    arena_free(a);
}

/* ---- refusals, each with its line */

static const struct {
    const char *body;
    int line;
    const char *words;
} refusals[] = {
    {"local x = e.acc\n return e.f32(x + nil)", 2, "a value or a number is expected"},
    {"return e.f32(\n e.acc + 'a')", 2, "not string"},
    {"return e.f32(e.foo)", 1, "e has no 'foo'"},
    {"return e.f32(e.precise.foo(e.acc))", 1, "no function 'foo'"},
    {"return e.f32(e.acc.x)", 1, "no field 'x'"},
    {"if e.acc < 0 then end", 1, "e.lt(a, b)"},
    {"if e.acc == e.alpha then end", 1, "e.select(p, a, b)"},
    {"return e.acc", 1, "a value without a type"},
    {"return 1", 1, "returns number"},
    {"local x = e.acc", 1, "returns nothing"},
    {"return { e.f32(e.acc), 3 }", 1, "returns number"},
    {"return e.f32(e.acc // 2)", 1, "// does not work"},
    {"return e.f32(e.acc ^ 0.5)", 1, "whole number"},
    {"return e.f32(e.acc(1))", 1, "cannot be called"},
    {"return e.f32(math.max(e.acc, 0))", 1, "e.lt(a, b)"},
    {"return e.f32(math.exp(e.acc))", 1, "number expected, got"},
    {"return e.f32(e.fma(e.acc, 2))", 1, "fma takes 3 values, not 2"},
    {"return e.f32(e.clamp(e.acc, 1))", 1, "clamp takes 3 values, not 2"},
    {"return e.f32(e.acc + e.to_int(e.acc))", 1, "add of f32 and s32"},
    {"return e.f32(e.acc & 3)", 1, "band: value 1 is f32"},
    {"return e.f32(e.select(e.acc, 1, 2))", 1,
     "value 1 is f32, but must be a predicate"},
    {"return e.f32(e.select(1, e.acc, 2))", 1, "a number stands where a predicate"},
    {"return e.f32(e.acc + 1e40)", 1, "too large for f32"},
    {"return e.f32(e.from_int(e.to_int(e.acc) + 0.5))", 1, "is no s32"},
    {"return e.f32(e.from_uint(e.bits(e.acc) + -1))", 1, "is no u32"},
    {"return e.f32(e.param)", 1, "needs a name"},
    {"return e.f32(e.acc * e.param())", 1, "needs a name"},
    {"return e.f32(e.acc * e.param 'alpha')", 1, "a parameter of the kernel already"},
    {"return e.f32(e.acc * e.param '9a')", 1, "'9a' is no name"},
    {"return e.f32(e.acc * e.param 'much_too_long_for_one')", 1, "longer than 15"},
    {"return e.f32(e.acc * e.param('s', { defualt = 1 }))", 1, "no option 'defualt'"},
    {"return e.f32(e.acc * e.param('s', { type = 'f64' }))", 1,
     "type is 'f64', but must be f32, bf16, f16, s32 or u32"},
    {"return e.f32(e.acc * e.param('s', { type = 'bf16' }))", 1, "a scalar is f32"},
    {"return e.f32(e.acc * e.param('s', { default = 'x' }))", 1, "must be a number"},
    {"return e.f32(e.acc * e.param('s', {}, 3))", 1, "all there can be"},
    {"return e.f32(e.acc * e.param 's' + e.col 's')", 1, "already a scalar of f32"},
    {"return e.f32(e.acc + e.bias(m))", 1, "'bias' is read at the element's own place"},
    {"return e.f32(e.acc + e.row_scale(n))", 1, "own place alone: (m), or without"},
    {"return e.f32(e.acc + e.aux(n, m))", 1, "own place alone: (m, n), or without"},
    {"return e.f32(e.acc + e.aux(m))", 1, "own place alone: (m, n), or without"},
    {"return e.f32(e.acc + e.bias(n + 1))", 1, "own place alone: (n), or without"},
    {"return e.f32(e.acc + e.bias(n, n))", 1, "options are a table"},
    {"return e.f32(e.acc * n)", 1, "mul of f32 and u32"},
    {"local s = e.param 's'\n return e.f32(e.acc)", 1,
     "'s' is asked for, but no output"},
    {"\n return e.f32(e.unscaled)", 2, "alpha would be ignored"},
    {"return e.f32(e.bias + e.alpha + e.row_scale)", 1,
     "no output depends on the product"},
    {"return e.f32(e.alpha)", 1,
     "output 'd' has one value for all of the matrix, not one of each element: "
     "combine"},
    {"return e.f32(e.bias)", 1, "one value for each column, not one of each element"},
    {"return e.f32(e.row_scale)", 1, "one value for each row, not one of each element"},
    {"return e.f32(e.block_amax(e.acc, 16))", 1, "for each block of columns, not one"},
    {"local g, u = e.interleaved(3)", 1, "groups of 3 columns"},
    {"local g, u = e.interleaved(64)", 1, "groups of 64 columns"},
    {"local g, u = e.interleaved()", 1, "a number of columns"},
    {"local g, u = e.interleaved(8, { order = 'up' })", 1,
     "must be gate_up or up_gate"},
    {"local g, u = e.interleaved(8, { of = e.alpha })", 1,
     "the value is one for all of the matrix; it must be one of each element or "
     "column"},
    {"local g, u = e.interleaved(8, { of = e.block_amax(e.acc, 16) })", 1,
     "the value is one for each block of columns; it must be"},
    {"local g, u = e.interleaved(8)\n return e.f32(g + e.acc)", 2,
     "one value has the columns of pairs (N/2), the other the columns of the tile (N)"},
    {"local g, u = e.interleaved(8)\n local a, b = e.interleaved(8, { of = g })", 2,
     "the value has the columns of pairs"},
    {"return e.f32(e.interleave(8, e.acc, e.acc))", 1,
     "the value has the columns of the"},
    {"return e.f32(e.block_amax(e.acc, 8))", 1, "only 16 or 32"},
    {"return e.f32(e.block_amax(e.bias, 16))", 1, "not one of each element"},
    {"return e.nvfp4(e.acc)", 1, "needs its global scale"},
    {"return e.nvfp4(e.acc, { global = 0 })", 1,
     "nvfp4: the scale is 0 as f32, but must be a finite number above 0"},
    {"return e.nvfp4(e.acc, { global = -0.5 })", 1, "the scale is -0.5 as f32"},
    {"return e.nvfp4(e.acc, { global = 1/0 })", 1, "the scale is inf as f32"},
    {"return e.nvfp4(e.acc, { global = 0/0 })", 1, "the scale is nan as f32"},
    {"return e.nvfp4(e.acc, { global = 1e-60 })", 1, "the scale is 0 as f32"},
    {"return e.nvfp4(e.acc, { global = e.param('g', { default = 0 }) })", 1,
     "nvfp4: the default of 'g', a scale, is 0 as f32, but must be a finite number "
     "above"},
    {"return e.e4m3(e.acc, { scale = -1 })", 1,
     "e4m3: the scale is -1 as f32, but must be a finite number above 0"},
    {"return e.e5m2(e.acc, { scale = e.param('s', { default = -2 }) })", 1,
     "e5m2: the default of 's', a scale, is -2 as f32, but must be a finite number "
     "above"},
    {"return e.nvfp4(e.acc, { global = e.bias })", 1, "same in all columns"},
    {"return e.nvfp4(e.acc, { global = e.param('g', { type = 'u32' }) })", 1,
     "the global scale is u32"},
    {"return e.nvfp4(e.acc, { glob = 1 })", 1, "no option 'glob'"},
    {"return e.nvfp4(e.acc, { global = 1, rounding = 'up' })", 1,
     "must be nearest, halfstep or stochastic"},
    {"return e.nvfp4(e.acc, { global = 1, rounding = 'stochastic' })", 1,
     "needs { seed"},
    {"return e.nvfp4(e.acc, { global = 1, seed = 1 })", 1, "seed is for"},
    {"return e.nvfp4(e.acc, { global = 1, seed = 1.5, rounding = 'stochastic' })", 1,
     "seed: 1.5"},
    {"return e.nvfp4(e.acc, { global = 1, seed = 1, rounding = 'stochastic', "
     "path = 'hardware' })",
     1, "the hardware draws other random bits"},
    {"return e.nvfp4(e.bits(e.acc), { global = 1 })", 1, "is u32, but must be f32"},
    {"return e.nvfp4(e.acc, 3)", 1, "options are a table"},
    {"return e.f32(e.nvfp4(e.acc, { global = 1 }) + 1)", 1,
     "is an output, not a value"},
    {"return e.e4m3(e.acc, { division = 'reciprocal' })", 1,
     "division without a scale"},
    {"return e.f32(e.acc), e.bf16(e.acc, { name = 'd' })", 1,
     "two outputs have the name"},
    {"return e.f32(e.acc, { name = 'a b' })", 1, "'a b' is no name"},
    {"return e.f32(e.acc, { name = 5 })", 1, "name: 5 is not a text"},
    {"return e.f32(e.acc, { name = true })", 1, "name: true is not a text"},
    {"return e.f32(e.acc), e.f32(e.acc), e.f32(e.acc), e.f32(e.acc), e.f32(e.acc)", 1,
     "more than 4 outputs"},
    {"return e.d(e.to_int(e.acc))", 1, "d: the value is s32"},
    {"return e.bf16(e.bits(e.acc))", 1, "bf16: value 1 is u32"},
    {"local x = e.acc\n for i = 1, 20000 do x = x + i end\n return e.f32(x)", 2,
     "more than 16384 operations"},
    {"while true do local x = e.acc end", 1, "still running"},
};

TEST(wrong_epilogues_are_refused_at_their_line)
{
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        struct arena *a = arena_new();
        struct diags *d = diags_new(a);
        if (lower_trace_or(a, refusals[i].body, d))
            test_fail(__FILE__, __LINE__, "taken: %s", refusals[i].body);
        const struct diag *g = d->first;
        if (d->count != 1 || !strstr(g->text, refusals[i].words) ||
            g->loc.line != refusals[i].line)
            test_fail(__FILE__, __LINE__, "%s\nline %d: %s\nexpected line %d: %s",
                      refusals[i].body, g->loc.line, g->text, refusals[i].line,
                      refusals[i].words);
        bool is_limit = strstr(refusals[i].words, "still running") != NULL;
        CHECK_DIAG(d, is_limit ? "config-work" : "epilogue", refusals[i].line);
        arena_free(a);
    }
}

TEST(an_unknown_name_is_told_with_the_known_ones)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!trace_named(a, "swigloo", (struct loc){"x.lua", 7, 0}, d));
    CHECK_DIAG(d, "epilogue-name", 7);
    CHECK(strstr(d->first->text, "swiglu_nvfp4") != NULL);
    arena_free(a);
}
