/* expr_output.c - outputs of an expression, and what the whole of it needs. */
#include "core/base.h"
#include "gen/expr.h"

#include <math.h>
#include <string.h>

static bool is_scale(uint32_t bits)
{
    return bits != 0 && bits < 0x7f800000u; /* not 0, infinite, NaN, negative */
}

/* For messages: a NaN without its sign. */
static double scale_value(uint32_t bits)
{
    const float x = f32_of(bits);
    return isnan(x) ? NAN : (double)x;
}

bool expr_use_scale(struct expr *e, const struct expr_node *scale, const char *what)
{
    struct expr_input *in = NULL;
    if (scale && scale->op == EXPR_INPUT)
        in = &e->inputs[scale->imm];
    if (scale && scale->op == EXPR_CONST && scale->type == EXPR_F32 &&
        !is_scale(scale->imm))
        return expr_refuse(e,
                           "%s: the scale is %g as f32, but must be a finite number "
                           "above 0",
                           what, scale_value(scale->imm));
    if (in && in->type == EXPR_F32 && in->has_default && !is_scale(in->default_bits))
        return expr_refuse(e,
                           "%s: the default of '%s', a scale, is %g as f32, but must "
                           "be a finite number above 0",
                           what, in->name, scale_value(in->default_bits));
    if (in)
        in->is_scale = true;
    return true;
}

static const struct expr_node *both(struct expr *e, const struct expr_node *a,
                                    const struct expr_node *b)
{
    return expr_op2(e, EXPR_AND, a, b);
}

/* Within these bounds, and with |x| up to 2^64, the quotient x / d of a block is exact
 * by one product and two fma; outside, the block is scaled by a power of two first
 * (gen/llvm/quantize.c). */
static const struct expr_node *far_from_ends(struct expr *e, const struct expr_node *x)
{
    return both(e, expr_op2(e, EXPR_GE, x, expr_f32(e, 0x1p-40f)),
                expr_op2(e, EXPR_LE, x, expr_f32(e, 0x1p40f)));
}

/* Scrambles 32 bits: each bit of x changes about half of the result's.  The shifts and
 * factors are docs/epilogues.md's, the same in gen/expr_eval.c and gen/llvm. */
static const struct expr_node *scramble(struct expr *e, const struct expr_node *x)
{
    static const struct {
        uint32_t shift, factor;
    } steps[] = {{16, 0x7feb352du}, {15, 0x846ca68bu}, {16, 1}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        x = expr_op2(e, EXPR_XOR, x,
                     expr_op2(e, EXPR_SHR, x, expr_u32(e, steps[i].shift)));
        if (steps[i].factor != 1)
            x = expr_op2(e, EXPR_MUL, x, expr_u32(e, steps[i].factor));
    }
    return x;
}

static const struct expr_node *row_hash(struct expr *e, const struct expr_node *seed)
{
    const struct expr_node *row =
        expr_op2(e, EXPR_MUL, expr_leaf(e, EXPR_ROW), expr_u32(e, 0x9e3779b1u));
    return scramble(e, expr_op2(e, EXPR_ADD, row, seed));
}

static bool is_fp4_scaled(enum expr_format f)
{
    return f == EXPR_OUT_NVFP4 || f == EXPR_OUT_MXFP4;
}

static bool fit_output(struct expr *e, const struct expr_output *o)
{
    if (!o->value)
        return expr_refuse(e, "%s: the value is missing", expr_format_name(o->format));
    if (o->value->shape != EXPR_SHAPE_ELEM)
        return expr_refuse(e,
                           "output '%s' has one value %s, not one of each element: "
                           "combine it with e.acc or e.aux, as in e.acc + x",
                           o->name, expr_shape_text(o->value->shape));
    for (int i = 0; i < e->output_count; i++)
        if (strcmp(e->outputs[i].name, o->name) == 0)
            return expr_refuse(e, "two outputs have the name '%s': give one { name = }",
                               o->name);
    if (strcmp(o->name, "d") != 0 && expr_is_taken(o->name))
        return expr_refuse(e, "'%s' is a parameter of the kernel already", o->name);
    if (e->output_count == EXPR_MAX_OUTPUTS)
        return expr_refuse(e, "more than %d outputs", EXPR_MAX_OUTPUTS);
    if (o->global && o->global->columns != EXPR_NO_COLUMNS)
        return expr_refuse(e, "%s: the global scale must be the same in all columns",
                           expr_format_name(o->format));
    if (o->global && o->global->type != EXPR_F32)
        return expr_refuse(e, "%s: the global scale is %s, but must be f32",
                           expr_format_name(o->format),
                           expr_type_name(o->global->type));
    if (o->rounding == EXPR_STOCHASTIC && o->path == EXPR_HARDWARE)
        return expr_refuse(e,
                           "stochastic rounding is defined by integer arithmetic; the "
                           "hardware draws other random bits: path = \"auto\"");
    return true;
}

bool expr_add_output(struct expr *e, const struct expr_output *wanted,
                     const struct expr_node *seed)
{
    struct expr_output o = *wanted;
    if (!fit_output(e, &o))
        return false;
    if (o.format == EXPR_OUT_NVFP4) {
        if (!o.global)
            return expr_refuse(e, "nvfp4 needs its global scale: { global = }");
        o.global_ok = far_from_ends(e, o.global);
    }
    if (o.rounding == EXPR_STOCHASTIC) {
        if (!seed || !is_fp4_scaled(o.format))
            return expr_refuse(e,
                               "stochastic rounding is for nvfp4 and mxfp4, and needs "
                               "{ seed = }");
        if (seed->type != EXPR_U32 || seed->columns != EXPR_NO_COLUMNS)
            return expr_refuse(e, "the seed is %s, but must be one u32 for all columns",
                               expr_type_name(seed->type));
        o.row_hash = row_hash(e, seed);
    }
    if (expr_scale_block(o.format) || o.format == EXPR_OUT_AMAX)
        o.row_ok =
            expr_op2(e, EXPR_LT, expr_leaf(e, EXPR_ROW), expr_leaf(e, EXPR_ROWS));
    if (expr_fault(e))
        return false;
    if (o.line == 0)
        o.line = e->line;
    e->outputs[e->output_count++] = o;
    return true;
}

bool expr_resolve_d(struct expr *e, enum expr_format f)
{
    static const struct {
        enum expr_format format;
        enum expr_op cast;
    } casts[] = {
        {EXPR_OUT_F32, EXPR_TO_F32},   {EXPR_OUT_BF16, EXPR_TO_BF16},
        {EXPR_OUT_F16, EXPR_TO_F16},   {EXPR_OUT_E4M3, EXPR_TO_E4M3},
        {EXPR_OUT_E5M2, EXPR_TO_E5M2},
    };
    for (int i = 0; i < e->output_count; i++) {
        struct expr_output *o = &e->outputs[i];
        if (o->format != EXPR_OUT_D)
            continue;
        for (size_t k = 0; k < COUNT_OF(casts); k++)
            if (casts[k].format == f) {
                o->value = expr_op1(e, casts[k].cast, o->value);
                o->format = f;
            }
        if (o->format == EXPR_OUT_D)
            return expr_refuse(e, "%s is no type of D", expr_format_name(f));
    }
    return expr_fault(e) == NULL;
}

bool *expr_reachable(const struct expr *e, struct arena *a)
{
    bool *marks = ARENA_ARRAY(a, bool, (size_t)e->node_count + 1);
    for (int i = 0; i < e->output_count; i++) {
        const struct expr_output *o = &e->outputs[i];
        const struct expr_node *roots[] = {o->value, o->global, o->global_ok,
                                           o->row_hash, o->row_ok};
        for (size_t r = 0; r < COUNT_OF(roots); r++)
            if (roots[r])
                marks[roots[r]->id] = true;
    }
    /* Arguments stand before the nodes that use them. */
    for (int i = e->node_count - 1; i >= 0; i--)
        for (int k = 0; marks[i] && k < e->nodes[i]->arg_count; k++)
            marks[e->nodes[i]->args[k]->id] = true;
    return marks;
}

bool expr_check_used(struct expr *e, int *line)
{
    bool *marks = expr_reachable(e, e->arena);
    bool has_acc = false, has_alpha = false;
    bool has_input[EXPR_MAX_INPUTS] = {false};
    for (int i = 0; i < e->node_count; i++) {
        if (!marks[i])
            continue;
        has_acc = has_acc || e->nodes[i]->op == EXPR_ACC;
        has_alpha = has_alpha || e->nodes[i]->op == EXPR_ALPHA;
        if (e->nodes[i]->op == EXPR_INPUT)
            has_input[e->nodes[i]->imm] = true;
    }
    *line = e->output_count ? e->outputs[0].line : e->line;
    for (int i = 0; i < e->input_count; i++)
        for (int k = 0; k < e->output_count; k++)
            if (strcmp(e->inputs[i].name, e->outputs[k].name) == 0) {
                *line = e->inputs[i].line;
                return expr_refuse(e,
                                   "'%s' is the name of a parameter and of output %d, "
                                   "which has it%s: give one another name",
                                   e->inputs[i].name, k + 1,
                                   e->outputs[k].is_named ? "" : " by itself");
            }
    for (int i = 0; i < e->input_count; i++)
        if (!has_input[i]) {
            *line = e->inputs[i].line;
            return expr_refuse(
                e, "parameter '%s' is asked for, but no output depends on it",
                e->inputs[i].name);
        }
    if (!has_acc)
        return expr_refuse(e, "no output depends on the product: use e.acc");
    if (!has_alpha)
        return expr_refuse(
            e, "alpha would be ignored: use e.acc, which is alpha times the "
               "sum, or multiply by e.alpha");
    return true;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

int expr_chunk_multiple(const struct expr *e)
{
    struct arena *a = arena_new();
    bool *marks = expr_reachable(e, a);
    int need = 1;
    for (int i = 0; i < e->node_count; i++) {
        const struct expr_node *n = e->nodes[i];
        if (!marks[i])
            continue;
        if (n->op == EXPR_SPLIT)
            need = max_int(need, (int)(n->imm / 2 * 2));
        if (n->op == EXPR_JOIN)
            need = max_int(need, (int)n->imm * 2);
        if (n->shape == EXPR_SHAPE_BLOCK)
            need = max_int(need, n->block * (n->columns == EXPR_PAIRS ? 2 : 1));
    }
    arena_free(a);
    for (int i = 0; i < e->output_count; i++) {
        const struct expr_output *o = &e->outputs[i];
        int bits = expr_bits(o->format);
        int unit = max_int(expr_scale_block(o->format), bits ? 32 / bits : 1);
        need = max_int(need, unit * (o->value->columns == EXPR_PAIRS ? 2 : 1));
    }
    return need;
}

int expr_n_multiple(const struct expr *e)
{
    struct arena *a = arena_new();
    bool *marks = expr_reachable(e, a);
    int need = 1;
    for (int i = 0; i < e->node_count; i++) {
        const struct expr_node *n = e->nodes[i];
        if (marks[i] && n->op == EXPR_SPLIT)
            need = max_int(need, (int)(n->imm / 2 * 2));
        if (marks[i] && n->op == EXPR_JOIN)
            need = max_int(need, (int)n->imm * 2);
        if (marks[i] && n->columns == EXPR_PAIRS)
            need = max_int(need, 2);
    }
    arena_free(a);
    for (int i = 0; i < e->output_count; i++) {
        const struct expr_output *o = &e->outputs[i];
        if (expr_bits(o->format) == 4) /* whole bytes */
            need = max_int(need, o->value->columns == EXPR_PAIRS ? 4 : 2);
    }
    return need;
}

int expr_out_cols(const struct expr_output *o, int tile_cols)
{
    return o->value->columns == EXPR_PAIRS ? tile_cols / 2 : tile_cols;
}
