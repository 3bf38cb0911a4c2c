/* expr_math.c - functions that are made of several operations.
 *
 * The fast forms lean on the approximations of the hardware; the precise forms use only
 * correctly rounded operations, so the kernel and expr_eval() agree bit for bit.  Their
 * polynomials are minimax fits (Remez) rounded to f32; docs/epilogues.md has the error
 * bounds, tests/t_expr.c checks them. */
#include "core/base.h"
#include "gen/expr.h"

#include <math.h>
#include <string.h>

typedef const struct expr_node *Node;

#define LOG2E 0x1.715476p+0f
#define LN2 0x1.62e430p-1f

static Node number(struct expr *e, float x)
{
    return expr_f32(e, x);
}

static Node add(struct expr *e, Node a, Node b)
{
    return expr_op2(e, EXPR_ADD, a, b);
}

static Node sub(struct expr *e, Node a, Node b)
{
    return expr_op2(e, EXPR_SUB, a, b);
}

static Node mul(struct expr *e, Node a, Node b)
{
    return expr_op2(e, EXPR_MUL, a, b);
}

static Node divide(struct expr *e, Node a, Node b)
{
    return expr_op2(e, EXPR_DIV, a, b);
}

static Node fma_of(struct expr *e, Node a, Node b, Node c)
{
    return expr_op3(e, EXPR_FMA, a, b, c);
}

static Node unary(struct expr *e, enum expr_op op, Node a)
{
    return expr_op1(e, op, a);
}

static Node choose(struct expr *e, Node p, Node a, Node b)
{
    return expr_op3(e, EXPR_SELECT, p, a, b);
}

/* NaN stays NaN. */
static Node clamp_to(struct expr *e, Node x, Node lo, Node hi)
{
    return expr_op2(e, EXPR_MAXIMUM, expr_op2(e, EXPR_MINIMUM, x, hi), lo);
}

/* c[0] + c[1] x + ... */
static Node polynomial(struct expr *e, Node x, const float *c, int count)
{
    Node y = number(e, c[count - 1]);
    for (int i = count - 2; i >= 0; i--)
        y = fma_of(e, y, x, number(e, c[i]));
    return y;
}

/* ---- exponentials */

/* y * 2^n for an integral n in -152 .. 130, in two steps: the first is exact, so that a
 * subnormal result is rounded once. */
static Node scale_by_power(struct expr *e, Node y, Node n)
{
    Node i = unary(e, EXPR_TO_INT, n);
    Node half = expr_op2(e, EXPR_SHR, i, expr_s32(e, 1));
    Node rest = sub(e, i, half);
    Node parts[2] = {half, rest};
    for (int k = 0; k < 2; k++) {
        Node biased = add(e, parts[k], expr_s32(e, 127));
        Node bits = expr_op2(e, EXPR_SHL, biased, expr_s32(e, 23));
        y = mul(e, y, unary(e, EXPR_FROM_BITS, unary(e, EXPR_AS_UINT, bits)));
    }
    return y;
}

static Node precise_exp(struct expr *e, Node x)
{
    static const float c[] = {0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.555916p-5f,
                              0x1.123fc6p-7f, 0x1.6a1a72p-10f};
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    x = clamp_to(e, x, number(e, -104), number(e, 89));
    Node n = unary(e, EXPR_ROUND, mul(e, x, number(e, LOG2E)));
    Node r = fma_of(e, n, number(e, -ln2_high), x);
    r = fma_of(e, n, number(e, -ln2_low), r);
    Node p = fma_of(e, polynomial(e, r, c, COUNT_OF(c)), mul(e, r, r), r);
    return scale_by_power(e, add(e, p, number(e, 1)), n);
}

static Node precise_exp2(struct expr *e, Node x)
{
    static const float c[] = {0x1.62e430p-1f, 0x1.ebfbdcp-3f,  0x1.c6aed8p-5f,
                              0x1.3b2d68p-7f, 0x1.5f4704p-10f, 0x1.41f620p-13f};
    x = clamp_to(e, x, number(e, -151), number(e, 129));
    Node n = unary(e, EXPR_ROUND, x);
    Node r = sub(e, x, n);
    Node p = fma_of(e, polynomial(e, r, c, COUNT_OF(c)), r, number(e, 1));
    return scale_by_power(e, p, n);
}

static Node build_exp(struct expr *e, const Node *a, bool precise)
{
    if (precise)
        return precise_exp(e, a[0]);
    return unary(e, EXPR_EX2_APPROX, mul(e, a[0], number(e, LOG2E)));
}

static Node build_exp2(struct expr *e, const Node *a, bool precise)
{
    return precise ? precise_exp2(e, a[0]) : unary(e, EXPR_EX2_APPROX, a[0]);
}

/* ---- logarithms */

/* x = 2^k (1 + f) with 1 + f in sqrt(1/2) .. sqrt(2); *log1p is log(1 + f). */
static void split_log(struct expr *e, Node x, Node *k, Node *log1p)
{
    static const float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4dep-3f,
                              -0x1.555c7ap-3f, 0x1.2333f4p-3f,  -0x1.fc1672p-4f,
                              0x1.e71bb6p-4f,  -0x1.de9c22p-4f, 0x1.146ad4p-4f};
    Node tiny = expr_op2(e, EXPR_LT, x, number(e, 0x1p-126f));
    Node scaled = choose(e, tiny, mul(e, x, number(e, 0x1p24f)), x);
    Node bits = unary(e, EXPR_AS_INT, unary(e, EXPR_BITS, scaled));
    Node exponent =
        expr_op2(e, EXPR_SHR, sub(e, bits, expr_s32(e, 0x3f3504f3)), expr_s32(e, 23));
    bits = sub(e, bits, expr_op2(e, EXPR_SHL, exponent, expr_s32(e, 23)));
    Node f =
        sub(e, unary(e, EXPR_FROM_BITS, unary(e, EXPR_AS_UINT, bits)), number(e, 1));
    *k = add(e, unary(e, EXPR_INT_TO_FLOAT, exponent),
             choose(e, tiny, number(e, -24), number(e, 0)));
    Node p = fma_of(e, polynomial(e, f, c, COUNT_OF(c)), f, number(e, -0.5f));
    *log1p = fma_of(e, mul(e, f, f), p, f);
}

/* What the arithmetic above does not give by itself: 0, infinity, NaN, negatives. */
static Node log_specials(struct expr *e, Node x, Node y)
{
    y = choose(e, expr_op2(e, EXPR_LT, x, number(e, INFINITY)), y, x);
    y = choose(e, expr_op2(e, EXPR_EQ, x, number(e, 0)), number(e, -INFINITY), y);
    return choose(e, expr_op2(e, EXPR_LT, x, number(e, 0)), number(e, NAN), y);
}

static Node build_log(struct expr *e, const Node *a, bool precise)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    if (!precise)
        return mul(e, unary(e, EXPR_LG2_APPROX, a[0]), number(e, LN2));
    Node k, y;
    split_log(e, a[0], &k, &y);
    y = fma_of(e, k, number(e, ln2_low), y);
    return log_specials(e, a[0], fma_of(e, k, number(e, ln2_high), y));
}

static Node build_log2(struct expr *e, const Node *a, bool precise)
{
    const float log2e_low = 0x1.4ae0c0p-26f; /* log2(e) - LOG2E */
    if (!precise)
        return unary(e, EXPR_LG2_APPROX, a[0]);
    Node k, y;
    split_log(e, a[0], &k, &y);
    Node low = mul(e, y, number(e, log2e_low));
    Node high = mul(e, y, number(e, LOG2E));
    Node rest = fma_of(e, y, number(e, LOG2E), unary(e, EXPR_NEG, high));
    Node sum = add(e, k, high); /* |k| >= 1 > high, or k = 0: what is lost is known */
    Node lost = sub(e, high, sub(e, sum, k));
    return log_specials(e, a[0], add(e, sum, add(e, lost, add(e, rest, low))));
}

/* ---- tanh, erf */

static Node build_tanh(struct expr *e, const Node *a, bool precise)
{
    static const float c[] = {-0x1.55553ap-2f, 0x1.1108bep-3f, -0x1.b875aap-5f,
                              0x1.53b7dap-6f, -0x1.7d5c06p-8f};
    Node x = a[0];
    if (!precise)
        return unary(e, EXPR_TANH_APPROX, x);
    Node size = unary(e, EXPR_ABS, x), square = mul(e, x, x);
    Node small = fma_of(e, mul(e, x, square), polynomial(e, square, c, COUNT_OF(c)), x);
    Node grown = add(e, precise_exp(e, add(e, size, size)), number(e, 1));
    Node large = sub(e, number(e, 1), divide(e, number(e, 2), grown));
    Node y = choose(e, expr_op2(e, EXPR_LT, size, number(e, 0.6f)), small, large);
    return expr_op2(e, EXPR_COPYSIGN, y, x);
}

/* erf(x) = 1 - 2^(-x p(x)); the absolute error counts, near 0 too. */
static Node fast_erf(struct expr *e, Node x)
{
    static const float c[] = {0x1.a0bef4p+0f,  0x1.d62f2cp-1f, 0x1.3113dep-3f,
                              -0x1.e28cd0p-6f, 0x1.2dc26ep-9f, 0x1.e3fde4p-12f,
                              -0x1.a45afep-14f};
    Node size = expr_op2(e, EXPR_MINIMUM, unary(e, EXPR_ABS, x), number(e, 4));
    Node p = mul(e, polynomial(e, size, c, COUNT_OF(c)), unary(e, EXPR_NEG, size));
    Node y = sub(e, number(e, 1), unary(e, EXPR_EX2_APPROX, p));
    return expr_op2(e, EXPR_COPYSIGN, y, x);
}

static Node build_erf(struct expr *e, const Node *a, bool precise)
{
    static const float inner[] = {0x1.06eba8p-3f,  -0x1.812742p-2f, 0x1.ce2e0ap-4f,
                                  -0x1.b80e90p-6f, 0x1.54c7f6p-8f,  -0x1.aa3f30p-11f,
                                  0x1.5cd4b2p-14f};
    static const float outer[] = {-0x1.6e56c4p-13f, 0x1.2127e4p+0f,  0x1.44460cp-1f,
                                  0x1.bb83e6p-4f,   -0x1.9b8e7ep-6f, 0x1.115acap-8f,
                                  -0x1.c7910cp-12f, 0x1.61ea5ap-16f};
    Node x = a[0];
    if (!precise)
        return fast_erf(e, x);
    Node size = unary(e, EXPR_ABS, x), square = mul(e, x, x);
    Node small = fma_of(e, x, polynomial(e, square, inner, COUNT_OF(inner)), x);
    Node near = expr_op2(e, EXPR_MINIMUM, size, number(e, 4));
    Node p = polynomial(e, near, outer, COUNT_OF(outer));
    Node large = sub(e, number(e, 1), precise_exp(e, unary(e, EXPR_NEG, p)));
    Node y = choose(e, expr_op2(e, EXPR_LT, size, number(e, 0.9375f)), small, large);
    return expr_op2(e, EXPR_COPYSIGN, y, x);
}

/* ---- roots and reciprocals */

static Node build_rcp(struct expr *e, const Node *a, bool precise)
{
    return precise ? divide(e, number(e, 1), a[0]) : unary(e, EXPR_RCP_APPROX, a[0]);
}

static Node build_sqrt(struct expr *e, const Node *a, bool precise)
{
    return unary(e, precise ? EXPR_SQRT_RN : EXPR_SQRT_APPROX, a[0]);
}

static Node build_rsqrt(struct expr *e, const Node *a, bool precise)
{
    if (!precise)
        return unary(e, EXPR_RSQRT_APPROX, a[0]);
    return divide(e, number(e, 1), unary(e, EXPR_SQRT_RN, a[0]));
}

/* ---- activations */

static Node build_clamp(struct expr *e, const Node *a, bool precise)
{
    (void)precise;
    return clamp_to(e, a[0], a[1], a[2]);
}

static Node build_relu(struct expr *e, const Node *a, bool precise)
{
    (void)precise;
    return expr_op2(e, EXPR_MAXIMUM, a[0], number(e, 0));
}

static Node build_relu2(struct expr *e, const Node *a, bool precise)
{
    Node positive = build_relu(e, a, precise);
    return mul(e, positive, positive);
}

/* 1 / (1 + exp(-k x)); `factor` is -k log2(e). */
static Node fast_sigmoid(struct expr *e, Node x, Node factor)
{
    Node grown = unary(e, EXPR_EX2_APPROX, mul(e, x, factor));
    return unary(e, EXPR_RCP_APPROX, add(e, grown, number(e, 1)));
}

/* x * sigmoid(y): with e = exp(-|y|), x / (1 + e) or x e / (1 + e), so that nothing
 * overflows. */
static Node precise_gate(struct expr *e, Node x, Node y)
{
    Node size = unary(e, EXPR_ABS, y);
    Node shrunk = precise_exp(e, unary(e, EXPR_NEG, size));
    Node above = choose(e, expr_op2(e, EXPR_LT, y, number(e, 0)), mul(e, x, shrunk), x);
    return divide(e, above, add(e, shrunk, number(e, 1)));
}

static Node build_sigmoid(struct expr *e, const Node *a, bool precise)
{
    if (precise)
        return precise_gate(e, number(e, 1), a[0]);
    return fast_sigmoid(e, a[0], number(e, -LOG2E));
}

static Node build_silu(struct expr *e, const Node *a, bool precise)
{
    if (precise)
        return precise_gate(e, a[0], a[0]);
    return mul(e, a[0], fast_sigmoid(e, a[0], number(e, -LOG2E)));
}

/* x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is x/2 (1 + tanh(...)) without
 * its cancellation. */
static Node build_gelu_tanh(struct expr *e, const Node *a, bool precise)
{
    const float linear = 1.5957691216f, cubic = linear * 0.044715f;
    Node x = a[0], square = mul(e, x, x);
    if (precise) {
        Node inner = mul(e, x, fma_of(e, square, number(e, cubic), number(e, linear)));
        return precise_gate(e, x, inner);
    }
    Node factor =
        fma_of(e, square, number(e, -LOG2E * cubic), number(e, -LOG2E * linear));
    return mul(e, x, fast_sigmoid(e, x, factor));
}

static Node build_gelu_erf(struct expr *e, const Node *a, bool precise)
{
    Node inner = mul(e, a[0], number(e, 0x1.6a09e6p-1f)); /* sqrt(1/2) */
    Node half = mul(e, a[0], number(e, 0.5f));
    return fma_of(e, half, build_erf(e, &inner, precise), half);
}

static Node build_softcap(struct expr *e, const Node *a, bool precise)
{
    Node inner =
        precise ? divide(e, a[0], a[1]) : mul(e, a[0], divide(e, number(e, 1), a[1]));
    return mul(e, a[1], build_tanh(e, &inner, precise));
}

static const struct expr_function functions[] = {
    {"exp", 1, "e to the power of a", build_exp},
    {"exp2", 1, "2 to the power of a", build_exp2},
    {"log", 1, "natural logarithm", build_log},
    {"log2", 1, "binary logarithm", build_log2},
    {"tanh", 1, "hyperbolic tangent", build_tanh},
    {"erf", 1, "error function", build_erf},
    {"rcp", 1, "1 / a", build_rcp},
    {"sqrt", 1, "square root", build_sqrt},
    {"rsqrt", 1, "1 / sqrt(a)", build_rsqrt},
    {"clamp", 3, "a within b .. c; NaN stays", build_clamp},
    {"relu", 1, "max(a, 0); NaN stays", build_relu},
    {"relu2", 1, "relu(a) squared", build_relu2},
    {"sigmoid", 1, "1 / (1 + exp(-a))", build_sigmoid},
    {"silu", 1, "a * sigmoid(a)", build_silu},
    {"gelu_tanh", 1, "a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)))", build_gelu_tanh},
    {"gelu_erf", 1, "a/2 (1 + erf(a / sqrt(2)))", build_gelu_erf},
    {"softcap", 2, "b * tanh(a / b)", build_softcap},
};

const struct expr_function *expr_function_at(int i)
{
    return i >= 0 && i < (int)COUNT_OF(functions) ? &functions[i] : NULL;
}

const struct expr_function *expr_function_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}
