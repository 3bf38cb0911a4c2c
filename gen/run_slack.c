#include "gen/run_slack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"

/* ---- which expressions */

static bool is_approximation(const struct expr_node *n)
{
    return n->op >= EXPR_EX2_APPROX && n->op <= EXPR_TANH_APPROX;
}

static bool is_narrow(const struct expr_node *n)
{
    return n->op >= EXPR_TO_BF16 && n->op <= EXPR_TO_E2M1;
}

static bool is_step(const struct expr_node *n)
{
    switch (n->op) {
    case EXPR_FLOOR:
    case EXPR_CEIL:
    case EXPR_TRUNC:
    case EXPR_ROUND:
    case EXPR_TO_INT:
    case EXPR_TO_UINT:
    case EXPR_BITS:
    case EXPR_AS_INT:
    case EXPR_AS_UINT:
    case EXPR_COPYSIGN:
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE:
    case EXPR_WIDEN:
        return true;
    default:
        return false;
    }
}

bool slack_is_small(const struct expr *e)
{
    struct arena *a = arena_new();
    const bool *reached = expr_reachable(e, a);
    bool *moved = ARENA_ARRAY(a, bool, (size_t)e->node_count + 1), small = true;
    for (int i = 0; i < e->node_count; i++) { /* arguments come first */
        const struct expr_node *n = e->nodes[i];
        bool from = false;
        for (int k = 0; k < n->arg_count; k++)
            from = from || moved[n->args[k]->id];
        moved[n->id] = from || is_approximation(n);
        /* copysign is a step in its sign alone. */
        bool sign_moves = n->op != EXPR_COPYSIGN || moved[n->args[1]->id];
        small = small && !(reached[i] && from && is_step(n) && sign_moves);
    }
    for (int k = 0; k < e->output_count; k++) {
        const struct expr_node *global = e->outputs[k].global;
        small = small && !(global && moved[global->id]);
    }
    arena_free(a);
    return small;
}

/* ---- values, and how they move */

/* The node whose value is stored. */
static const struct expr_node *stored(const struct expr_output *o)
{
    return is_narrow(o->value) ? o->value->args[0] : o->value;
}

static const float *values_of(struct arena *a, const struct expr *e,
                              const struct expr_row *r, const struct expr_node *n)
{
    struct expr one = *e;
    struct expr_values v;
    one.output_count = 1;
    one.outputs[0] = (struct expr_output){.format = EXPR_OUT_F32, .value = n};
    expr_eval(a, &one, r, &v);
    return (const float *)(const void *)v.codes;
}

static int column_count(const struct expr_output *o, const struct expr_row *r)
{
    return stored(o)->columns == EXPR_NO_COLUMNS ? 1
           : stored(o)->columns == EXPR_PAIRS    ? r->cols / 2
                                                 : r->cols;
}

static float distance(float x, float y)
{
    return isfinite(x) && isfinite(y) ? fabsf(x - y) : 0;
}

static float *sum_of_moves(struct arena *a, const struct expr *e,
                           const struct expr_row *r, const struct expr_output *o,
                           const float *value, int cols)
{
    float *by = ARENA_ARRAY(a, float, (size_t)cols);
    const bool *reached = expr_reachable(e, a);
    for (int i = 0; i < e->node_count; i++) {
        if (!reached[i] || !is_approximation(e->nodes[i]))
            continue;
        /* Both ways: behind an abs or a max one of them may not show. */
        struct expr_row probe = *r;
        probe.moved = e->nodes[i];
        const float *up = values_of(a, e, &probe, stored(o));
        probe.move_down = true;
        const float *down = values_of(a, e, &probe, stored(o));
        for (int c = 0; c < cols; c++)
            by[c] += fmaxf(distance(up[c], value[c]), distance(down[c], value[c]));
    }
    /* The rest of the terms, and roundings that fall the other way. */
    for (int c = 0; c < cols; c++)
        by[c] = isfinite(value[c])
                    ? 1.25f * by[c] + 0x1p-22f * fabsf(value[c]) + 0x1p-126f
                    : 0;
    return by;
}

/* Output k where all values are nearer to zero, or farther. */
static void at_the_end(struct arena *a, const struct expr *e, const struct expr_row *r,
                       int k, const struct slack *s, bool outward,
                       struct expr_values *out)
{
    struct expr one = *e;
    struct expr_row probe = *r;
    float *move = ARENA_ARRAY(a, float, (size_t)s->cols);
    for (int c = 0; c < s->cols; c++) {
        float in = fminf(s->by[c], fabsf(s->value[c]));
        move[c] = copysignf(outward ? s->by[c] : in, s->value[c]) * (outward ? 1 : -1);
    }
    probe.moved = stored(&e->outputs[k]);
    probe.move = move;
    one.output_count = 1;
    one.outputs[0] = e->outputs[k];
    expr_eval(a, &one, &probe, out);
}

struct slack *slack_of(struct arena *a, const struct expr *e, const struct expr_row *r,
                       int k)
{
    struct slack *s = ARENA_NEW(a, struct slack);
    const struct expr_output *o = s->output = &e->outputs[k];
    s->cols = column_count(o, r);
    s->value = values_of(a, e, r, stored(o));
    s->by = sum_of_moves(a, e, r, o, s->value, s->cols);
    if (o->global)
        s->global = values_of(a, e, r, o->global)[0];
    if (expr_scale_block(o->format) || o->format == EXPR_OUT_AMAX) {
        struct expr_values in, out;
        at_the_end(a, e, r, k, s, false, &in);
        at_the_end(a, e, r, k, s, true, &out);
        s->low = in.scales;
        s->high = out.scales;
        s->amax_low = in.amax;
        s->amax_high = out.amax;
    }
    return s;
}

/* ---- codes */

static enum expr_type type_of(const struct expr_output *o)
{
    switch (o->format) {
    case EXPR_OUT_NVFP4:
    case EXPR_OUT_MXFP4:
        return EXPR_TYPE_E2M1;
    case EXPR_OUT_MXFP8_E4M3:
        return EXPR_TYPE_E4M3;
    case EXPR_OUT_MXFP8_E5M2:
        return EXPR_TYPE_E5M2;
    default:
        return o->value->type;
    }
}

/* Sign and size as a number that grows with the value. */
static int64_t order(uint32_t code, int bits)
{
    int64_t sign = code >> (bits - 1) & 1, size = code & ((1u << (bits - 1)) - 1);
    return sign ? -size : size;
}

static uint32_t code_of(enum expr_type type, float x)
{
    uint32_t bits;
    if (type != EXPR_F32)
        return expr_narrow_code(type, x);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static int bits_of(enum expr_type type)
{
    return type == EXPR_TYPE_E2M1                             ? 4
           : type == EXPR_TYPE_E4M3 || type == EXPR_TYPE_E5M2 ? 8
           : type == EXPR_F32                                 ? 32
                                                              : 16;
}

bool slack_has_code(const struct slack *s, size_t col, uint8_t scale, uint32_t code)
{
    const struct expr_output *o = s->output;
    const enum expr_type type = type_of(o);
    const int bits = bits_of(type);
    size_t at = s->cols == 1 ? 0 : col;
    float x = s->value[at], by = s->by[at], d = 1;
    if (isnan(x)) /* any NaN of f32, which has no code of its own here */
        return type == EXPR_F32 ? (code & 0x7fffffffu) > 0x7f800000u
                                : code == code_of(type, x);
    if (expr_scale_block(o->format)) {
        d = o->format == EXPR_OUT_NVFP4 ? e4m3_decode(scale) * s->global
                                        : ldexpf(1, scale - 127);
        if (o->format != EXPR_OUT_MXFP8_E4M3 && o->format != EXPR_OUT_MXFP8_E5M2 &&
            scale == 0)
            return code == 0 || code == 8;
        if (isfinite(x)) /* of division = "reciprocal", too */
            by += 0x1p-20f * fabsf(x);
    }
    /* Other roundings take the next code at most. */
    int64_t more = o->rounding == EXPR_NEAREST ? 0 : 1;
    int64_t low = order(code_of(type, (x - by) / d), bits) - more;
    int64_t high = order(code_of(type, (x + by) / d), bits) + more;
    int64_t got = order(code, bits);
    return low <= got && got <= high;
}

bool slack_has_scale(const struct slack *s, size_t block, uint8_t scale)
{
    return s->low[block] <= scale && scale <= s->high[block];
}
