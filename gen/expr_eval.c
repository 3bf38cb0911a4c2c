#include "gen/expr_eval.h"

#include <math.h>
#include <string.h>

#include "core/fp4.h"

#define SIGN_BIT 0x80000000u

struct eval {
    struct arena *arena;
    const struct expr *e;
    const struct expr_row *row;
    uint32_t **values; /* values[node id][index] */
};

static uint32_t bits_of(float x)
{
    return x != x ? 0x7fffffffu : bits_of_f32(x); /* arithmetic gives one NaN */
}

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* ---- casts */

static uint8_t e5m2_encode(float x)
{
    if (isnan(x))
        return 0x7f;
    float size = fminf(fabsf(x), 57344.0f), place = 0x1p-16f;
    uint32_t code = 0; /* where the numbers with this last place begin, less 4 */
    for (; size >= 8 * place; place *= 2)
        code += 4;
    code += (uint32_t)nearbyintf(size / place);
    return (uint8_t)(code | (signbit(x) ? 0x80 : 0));
}

static float e5m2_decode(uint32_t code)
{
    return f16_decode((uint16_t)(code << 8));
}

uint32_t expr_narrow_code(enum expr_type t, float x)
{
    switch (t) {
    case EXPR_TYPE_BF16:
        return bf16_encode(x);
    case EXPR_TYPE_F16:
        return f16_encode(x);
    case EXPR_TYPE_E4M3:
        return e4m3_encode(x);
    case EXPR_TYPE_E5M2:
        return e5m2_encode(x);
    default:
        return e2m1_encode(x);
    }
}

static float narrow_value(enum expr_type t, uint32_t code)
{
    switch (t) {
    case EXPR_TYPE_BF16:
        return bf16_decode((uint16_t)code);
    case EXPR_TYPE_F16:
        return f16_decode((uint16_t)code);
    case EXPR_TYPE_E4M3:
        return e4m3_decode((uint8_t)code);
    case EXPR_TYPE_E5M2:
        return e5m2_decode(code);
    default:
        return e2m1_decode((uint8_t)code);
    }
}

/* ---- operations */

/* -0 below +0 */
static bool is_less(float a, float b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static float extremum(float a, float b, bool want_less, bool keep_nan)
{
    if (isnan(a) || isnan(b))
        return keep_nan ? NAN : isnan(a) ? b : a;
    return is_less(a, b) == want_less ? a : b;
}

static float to_int_clamped(float x, double low, double high)
{
    double y = rint((double)x);
    return isnan(x) ? 0.0f : (float)(y < low ? low : y > high ? high : y);
}

static float unary(enum expr_op op, float a)
{
    switch (op) {
    case EXPR_FLOOR:
        return floorf(a);
    case EXPR_CEIL:
        return ceilf(a);
    case EXPR_TRUNC:
        return truncf(a);
    case EXPR_ROUND:
        return rintf(a);
    case EXPR_SQRT_RN:
        return sqrtf(a);
    case EXPR_EX2_APPROX:
        return flush((float)exp2((double)flush(a)));
    case EXPR_LG2_APPROX:
        return flush((float)log2((double)flush(a)));
    case EXPR_RCP_APPROX:
        return flush(1.0f / flush(a));
    case EXPR_RSQRT_APPROX:
        return flush((float)(1.0 / sqrt((double)flush(a))));
    case EXPR_SQRT_APPROX:
        return flush(sqrtf(flush(a)));
    default:
        return (float)tanh((double)a);
    }
}

static uint32_t float_op(enum expr_op op, float a, float b, float c)
{
    switch (op) {
    case EXPR_ADD:
        return bits_of(a + b);
    case EXPR_SUB:
        return bits_of(a - b);
    case EXPR_MUL:
        return bits_of(a * b);
    case EXPR_DIV:
        return bits_of(a / b);
    case EXPR_FMA:
        return bits_of(fmaf(a, b, c));
    case EXPR_MIN:
        return bits_of(extremum(a, b, true, false));
    case EXPR_MAX:
        return bits_of(extremum(a, b, false, false));
    case EXPR_MINIMUM:
        return bits_of(extremum(a, b, true, true));
    case EXPR_MAXIMUM:
        return bits_of(extremum(a, b, false, true));
    default:
        return bits_of(unary(op, a));
    }
}

static bool compare_float(enum expr_op op, float a, float b)
{
    switch (op) {
    case EXPR_LT:
        return a < b;
    case EXPR_LE:
        return a <= b;
    case EXPR_GT:
        return a > b;
    case EXPR_GE:
        return a >= b;
    case EXPR_EQ:
        return a == b;
    default:
        return a != b;
    }
}

static bool compare_int(enum expr_op op, bool is_less_than, bool is_equal)
{
    switch (op) {
    case EXPR_LT:
        return is_less_than;
    case EXPR_LE:
        return is_less_than || is_equal;
    case EXPR_GT:
        return !is_less_than && !is_equal;
    case EXPR_GE:
        return !is_less_than;
    case EXPR_EQ:
        return is_equal;
    default:
        return !is_equal;
    }
}

static uint32_t int_op(enum expr_op op, bool is_signed, uint32_t a, uint32_t b)
{
    bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (op) {
    case EXPR_ADD:
        return a + b;
    case EXPR_SUB:
        return a - b;
    case EXPR_MUL:
        return a * b;
    case EXPR_MIN:
        return less ? a : b;
    case EXPR_MAX:
        return less ? b : a;
    case EXPR_NEG:
        return 0u - a;
    case EXPR_ABS:
        return is_signed && a & SIGN_BIT ? 0u - a : a;
    case EXPR_SHL:
        return b < 32 ? a << b : 0;
    default: { /* SHR */
        bool ones = is_signed && a & SIGN_BIT;
        uint32_t shifted = b < 32 ? a >> b : 0;
        uint32_t filled = b == 0 ? 0 : b < 32 ? ~(0xffffffffu >> b) : 0xffffffffu;
        return shifted | (ones ? filled : 0);
    }
    }
}

static uint32_t apply(const struct expr_node *n, uint32_t a, uint32_t b, uint32_t c)
{
    enum expr_type t = n->arg_count ? n->args[0]->type : n->type;
    switch (n->op) {
    case EXPR_NEG:
    case EXPR_ABS:
        if (t == EXPR_F32)
            return n->op == EXPR_NEG ? a ^ SIGN_BIT : a & ~SIGN_BIT;
        return int_op(n->op, t == EXPR_S32, a, b);
    case EXPR_COPYSIGN:
        return (a & ~SIGN_BIT) | (b & SIGN_BIT);
    case EXPR_SHL:
    case EXPR_SHR:
        return int_op(n->op, t == EXPR_S32, a, b);
    case EXPR_AND:
        return a & b;
    case EXPR_OR:
        return a | b;
    case EXPR_XOR:
        return a ^ b;
    case EXPR_NOT:
        return t == EXPR_PRED ? !a : ~a;
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE:
        if (t == EXPR_F32)
            return compare_float(n->op, f32_of(a), f32_of(b));
        return compare_int(n->op, t == EXPR_S32 ? (int32_t)a < (int32_t)b : a < b,
                           a == b);
    case EXPR_IS_NAN:
        return isnan(f32_of(a)) ? 1u : 0u;
    case EXPR_SELECT:
        return a ? b : c;
    case EXPR_TO_INT:
        if (f32_of(a) >= 0x1p31f)
            return 0x7fffffffu;
        return (uint32_t)(int32_t)to_int_clamped(f32_of(a), -0x1p31, 0x1p31);
    case EXPR_TO_UINT:
        if (f32_of(a) >= 0x1p32f)
            return 0xffffffffu;
        return (uint32_t)to_int_clamped(f32_of(a), 0, 0x1p32);
    case EXPR_INT_TO_FLOAT:
        return bits_of((float)(int32_t)a);
    case EXPR_UINT_TO_FLOAT:
        return bits_of((float)a);
    case EXPR_AS_INT:
    case EXPR_AS_UINT:
    case EXPR_BITS:
    case EXPR_FROM_BITS:
    case EXPR_TO_F32:
        return a;
    case EXPR_TO_BF16:
    case EXPR_TO_F16:
    case EXPR_TO_E4M3:
    case EXPR_TO_E5M2:
    case EXPR_TO_E2M1:
        return expr_narrow_code(n->type, f32_of(a));
    case EXPR_WIDEN: /* of a NaN in bf16 the bits stay, as in vectors and tiles */
        return t == EXPR_TYPE_BF16 ? a << 16 : bits_of(narrow_value(t, a));
    default:
        if (t == EXPR_F32)
            return float_op(n->op, f32_of(a), f32_of(b), f32_of(c));
        return int_op(n->op, t == EXPR_S32, a, b);
    }
}

/* How far hardware may be from y = op(x): PTX ISA 9.0, and docs/numerics.md. */
static float approximation_error(enum expr_op op, float x, float y)
{
    switch (op) {
    case EXPR_EX2_APPROX:
        return 0x1p-22f * fabsf(y);
    case EXPR_LG2_APPROX:
        return x > 0.5f && x < 2 ? 0x1p-22f : 0x1p-22f * fabsf(y);
    case EXPR_RSQRT_APPROX:
        return 0x1.13p-23f * fabsf(y); /* 2^-22.9 */
    case EXPR_TANH_APPROX:
        return 0x1p-11f * fabsf(y);
    default: /* rcp, sqrt */
        return 0x1p-23f * fabsf(y);
    }
}

/* ---- nodes */

static int cols_of(const struct eval *v, enum expr_columns c)
{
    return c == EXPR_PAIRS ? v->row->cols / 2 : v->row->cols;
}

static int value_count(const struct eval *v, const struct expr_node *n)
{
    if (n->columns == EXPR_NO_COLUMNS)
        return 1;
    int cols = cols_of(v, n->columns);
    return n->shape == EXPR_SHAPE_BLOCK ? cols / n->block : cols;
}

static uint32_t value_at(const struct eval *v, const struct expr_node *n, int i,
                         int per)
{
    if (n->columns == EXPR_NO_COLUMNS)
        return v->values[n->id][0];
    return v->values[n->id][i * per / (n->shape == EXPR_SHAPE_BLOCK ? n->block : 1)];
}

static bool is_inside(const struct eval *v, enum expr_columns c, int i)
{
    unsigned shift = c == EXPR_PAIRS;
    return (v->row->col >> shift) + (uint32_t)i < v->row->n >> shift;
}

static uint32_t masked(const struct eval *v, const struct expr_node *n, int i)
{
    return is_inside(v, n->columns, i) ? value_at(v, n, i, 1) : 0;
}

static float amax_of(const float *x, int count)
{
    float amax = 0;
    for (int i = 0; i < count; i++)
        amax = extremum(amax, fabsf(x[i]), false, false);
    return amax;
}

static void eval_leaf(const struct eval *v, const struct expr_node *n, uint32_t *out)
{
    const struct expr_row *r = v->row;
    int count = value_count(v, n);
    for (int i = 0; i < count; i++)
        switch (n->op) {
        case EXPR_CONST:
            out[i] = n->imm;
            break;
        case EXPR_ACC:
            memcpy(&out[i], &r->acc[i], sizeof out[i]);
            break;
        case EXPR_ALPHA:
            memcpy(&out[i], &r->alpha, sizeof out[i]);
            break;
        case EXPR_ROW:
            out[i] = r->row;
            break;
        case EXPR_ROWS:
            out[i] = r->m;
            break;
        case EXPR_COLUMN:
            out[i] = r->col + (uint32_t)i;
            break;
        case EXPR_PAIR_COLUMN:
            out[i] = r->col / 2 + (uint32_t)i;
            break;
        default: {
            const struct expr_arg *arg = &r->args[n->imm];
            out[i] = n->columns == EXPR_NO_COLUMNS ? arg->value : arg->values[i];
        }
        }
}

static void eval_reduction(const struct eval *v, const struct expr_node *n,
                           uint32_t *out)
{
    float *x = ARENA_ARRAY(v->arena, float, (size_t)n->block);
    for (int b = 0; b < value_count(v, n); b++) {
        for (int i = 0; i < n->block; i++)
            x[i] = f32_of(masked(v, n->args[0], b * n->block + i));
        float best = x[0];
        for (int i = 1; i < n->block; i++)
            best = extremum(best, x[i], n->op == EXPR_BLOCK_MIN, false);
        out[b] = bits_of(n->op == EXPR_BLOCK_AMAX ? amax_of(x, n->block) : best);
    }
}

static void eval_node(struct eval *v, const struct expr_node *n)
{
    int count = value_count(v, n);
    uint32_t *out = ARENA_ARRAY(v->arena, uint32_t, (size_t)count);
    v->values[n->id] = out;
    if (n->arg_count == 0) {
        eval_leaf(v, n, out);
        return;
    }
    int group = (int)(n->op == EXPR_SPLIT ? n->imm / 2 : n->imm),
        half = (int)n->imm % 2;
    int per = n->shape == EXPR_SHAPE_BLOCK ? n->block : 1;
    switch (n->op) {
    case EXPR_BLOCK_AMAX:
    case EXPR_BLOCK_MAX:
    case EXPR_BLOCK_MIN:
        eval_reduction(v, n, out);
        return;
    case EXPR_SPLIT:
        for (int i = 0; i < count; i++)
            out[i] =
                value_at(v, n->args[0], (i / group * 2 + half) * group + i % group, 1);
        return;
    case EXPR_JOIN:
        for (int i = 0; i < count; i++)
            out[i] = value_at(v, n->args[i / group % 2],
                              i / group / 2 * group + i % group, 1);
        return;
    default:
        break;
    }
    for (int i = 0; i < count; i++) {
        uint32_t x[3] = {0, 0, 0};
        for (int k = 0; k < n->arg_count; k++)
            x[k] = value_at(v, n->args[k], i, per);
        out[i] = apply(n, x[0], x[1], x[2]);
    }
}

static void move(const struct eval *v, const struct expr_node *n)
{
    uint32_t *out = v->values[n->id];
    int per = n->shape == EXPR_SHAPE_BLOCK ? n->block : 1;
    for (int i = 0; i < value_count(v, n); i++) {
        float y = f32_of(out[i]), by;
        if (!isfinite(y))
            continue;
        if (v->row->move)
            by = v->row->move[i];
        else
            by =
                approximation_error(n->op, f32_of(value_at(v, n->args[0], i, per)), y) *
                (v->row->move_down ? -1.0f : 1.0f);
        out[i] = bits_of(y + by);
    }
}

/* ---- outputs with scales */

static uint32_t scramble(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* See docs/epilogues.md, "Stochastic rounding". */
static uint32_t stochastic_code(const struct eval *v, const struct expr_output *o,
                                float q, int i)
{
    uint32_t column = (v->row->col >> (o->value->columns == EXPR_PAIRS)) + (uint32_t)i;
    uint32_t random =
        scramble(value_at(v, o->row_hash, 0, 1) + (column >> 1) * 0x85ebca77u);
    random = column % 2 ? random >> 16 : random & 0xffff;
    float size = isnan(q) ? 6.0f : fminf(fabsf(q), 6.0f);
    float step = size < 2 ? 0.5f : size < 4 ? 1.0f : 2.0f;
    uint32_t places = ((uint32_t)(size / step * 65536.0f) + random) >> 16;
    uint32_t base = step == 0.5f ? 0 : step == 1.0f ? 2 : 4;
    return (places + base) | (signbit(q) && !isnan(q) ? 8 : 0);
}

static uint32_t fp4_code(const struct eval *v, const struct expr_output *o, float q,
                         int i)
{
    if (o->rounding == EXPR_STOCHASTIC)
        return stochastic_code(v, o, q, i);
    return o->rounding == EXPR_HALFSTEP ? e2m1_encode_halfstep(q) : e2m1_encode(q);
}

static void nvfp4_block(const struct eval *v, const struct expr_output *o, int first,
                        const float *x, struct expr_values *out)
{
    float global = f32_of(value_at(v, o->global, 0, 1));
    float t = amax_of(x, 16) * 0x1.555556p-3f / global;
    uint8_t scale = e4m3_encode(fabsf(t));
    float d = e4m3_decode(scale) * global, y = 1.0f / d;
    out->scales[first / 16] = scale;
    for (int i = 0; i < 16; i++) {
        float q = o->reciprocal ? x[i] * y : x[i] / d;
        out->codes[first + i] = scale ? fp4_code(v, o, q, first + i) : 0;
    }
}

/* scale = 2^(code - 127): the least that does not saturate, or 2^floor(log2(amax)) over
 * the largest value's power of two. */
static uint8_t power_code(enum expr_format f, bool down, float amax)
{
    int exponent = f == EXPR_OUT_MXFP4 ? 2 : f == EXPR_OUT_MXFP8_E4M3 ? 8 : 15;
    float mantissa = f == EXPR_OUT_MXFP4 ? 1.5f : 1.75f;
    int at = 0;
    if (!isfinite(amax))
        return (uint8_t)(255 - exponent);
    float fraction = 2 * frexpf(amax, &at); /* amax = fraction * 2^(at - 1) */
    int code = at - 1 + 127;
    if (amax == 0 || code < 1) /* 0 or subnormal: the exponent's field is 0 */
        return 0;
    if (!down && fraction > mantissa)
        code++;
    return (uint8_t)(code > exponent ? code - exponent : 0);
}

static void mx_block(const struct eval *v, const struct expr_output *o, int first,
                     const float *x, struct expr_values *out)
{
    float amax = amax_of(x, 32);
    uint8_t scale = power_code(o->format, o->scale_down, amax);
    out->scales[first / 32] = scale;
    for (int i = 0; i < 32; i++) {
        float q = ldexpf(x[i], 127 - scale);
        uint32_t *code = &out->codes[first + i];
        if (o->format == EXPR_OUT_MXFP8_E4M3)
            *code = e4m3_encode(q);
        else if (o->format == EXPR_OUT_MXFP8_E5M2)
            *code = e5m2_encode(q);
        else
            *code = amax > 0 ? fp4_code(v, o, q, first + i) : 0;
    }
}

static void eval_output(const struct eval *v, const struct expr_output *o,
                        struct expr_values *out)
{
    int cols = cols_of(v, o->value->columns), block = expr_scale_block(o->format);
    bool row_ok = !o->row_ok || value_at(v, o->row_ok, 0, 1);
    float *x = ARENA_ARRAY(v->arena, float, (size_t)cols);
    *out = (struct expr_values){0};
    if (!block && o->format != EXPR_OUT_AMAX) {
        out->codes = v->values[o->value->id];
        return;
    }
    for (int i = 0; i < cols; i++)
        x[i] = f32_of(masked(v, o->value, i));
    if (!block) {
        out->amax = row_ok ? amax_of(x, cols) : 0;
        return;
    }
    out->codes = ARENA_ARRAY(v->arena, uint32_t, (size_t)cols);
    out->scales = ARENA_ARRAY(v->arena, uint8_t, (size_t)(cols / block));
    for (int i = 0; i < cols; i += block) {
        if (o->format == EXPR_OUT_NVFP4)
            nvfp4_block(v, o, i, x + i, out);
        else
            mx_block(v, o, i, x + i, out);
        if (!row_ok)
            out->scales[i / block] = 0;
    }
}

void expr_eval(struct arena *a, const struct expr *e, const struct expr_row *r,
               struct expr_values *out)
{
    struct eval v = {.arena = a, .e = e, .row = r};
    bool *marks = expr_reachable(e, a);
    v.values = ARENA_ARRAY(a, uint32_t *, (size_t)e->node_count + 1);
    for (int i = 0; i < e->node_count; i++)
        if (marks[i]) {
            eval_node(&v, e->nodes[i]);
            if (e->nodes[i] == r->moved)
                move(&v, e->nodes[i]);
        }
    for (int i = 0; i < e->output_count; i++)
        eval_output(&v, &e->outputs[i], &out[i]);
}
