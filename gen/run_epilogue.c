#include "gen/run_epilogue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "gen/expr_eval.h"
#include "gen/run_slack.h"
#include "tests/ref.h"

enum { CHUNK = 64 /* largest multiple of columns that an expression needs */ };

static size_t padded_cols(const struct epilogue_run *r)
{
    return (r->n + CHUNK - 1) / CHUNK * CHUNK;
}

/* ---- what a row should be */

struct row {
    struct arena *arena;
    const struct epilogue_run *r;
    size_t row;
    struct expr_row input;
    struct expr_arg args[EXPR_MAX_INPUTS];
    struct expr_values want[EXPR_MAX_OUTPUTS];
    bool is_approximate;
    struct slack *slack[EXPR_MAX_OUTPUTS]; /* made when asked for */
};

static const struct slack *slack(struct row *w, int k)
{
    if (!w->slack[k])
        w->slack[k] = slack_of(w->arena, w->r->e, &w->input, k);
    return w->slack[k];
}

/* Columns behind the last one read the last one, as in the kernel. */
static const uint32_t *columns_of(struct row *w, const struct run_arg *arg)
{
    const bool by_row = arg->about->kind == ARG_AUX;
    const size_t padded = padded_cols(w->r) >> arg->about->cols_shift;
    uint32_t *values = ARENA_ARRAY(w->arena, uint32_t, padded);
    for (size_t c = 0; c < padded; c++)
        values[c] = run_arg_element(arg, by_row ? w->row : 0,
                                    c < arg->cols ? c : arg->cols - 1);
    return values;
}

/* Input k of the expression.  Names, since an expression out of a PTX has its inputs in
 * another order than the manifest. */
static int arg_of(const struct epilogue_run *r, uint32_t k)
{
    int i = 0;
    while (strcmp(r->image->args[i].name, r->e->inputs[k].name) != 0)
        i++;
    return i;
}

static void fill_input(struct row *w)
{
    const struct epilogue_run *r = w->r;
    float *acc = ARENA_ARRAY(w->arena, float, padded_cols(r));
    memcpy(acc, r->acc + w->row * r->n, r->n * sizeof *acc);
    for (int k = 0; k < r->e->input_count; k++) {
        const struct run_arg *arg = &r->args[arg_of(r, (uint32_t)k)];
        switch (arg->about->kind) {
        case ARG_SCALAR:
            w->args[k].value = arg->bits;
            break;
        case ARG_ROW:
            w->args[k].value = run_arg_element(arg, 0, w->row);
            break;
        case ARG_COL:
        case ARG_AUX:
            w->args[k].values = columns_of(w, arg);
            break;
        }
    }
    w->input = (struct expr_row){.cols = (int)padded_cols(r),
                                 .row = (uint32_t)w->row,
                                 .m = r->m,
                                 .n = r->n,
                                 .alpha = r->alpha,
                                 .acc = acc,
                                 .args = w->args};
}

/* The f32 values of a node in this row, before they are quantised. */
static const float *node_values(struct row *w, const struct expr_node *n)
{
    struct expr plain = *w->r->e;
    struct expr_values v;
    plain.output_count = 1;
    plain.outputs[0] = (struct expr_output){.format = EXPR_OUT_F32, .value = n};
    expr_eval(w->arena, &plain, &w->input, &v);
    return (const float *)(const void *)v.codes;
}

/* ---- comparing */

/* `reference`: what the reference's quantiser gives, or `want` again. */
static void note(struct epilogue_compared *c, size_t row, int output, bool is_scale,
                 size_t col, uint32_t got, uint32_t want, uint32_t reference)
{
    c->elements++;
    if ((got == want && got == reference) || c->wrong++)
        return;
    c->output = output;
    c->is_scale = is_scale;
    c->by_reference = got == want;
    c->row = row;
    c->col = col;
    c->got = got;
    c->want = got == want ? reference : want;
}

static bool is_nan32(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static size_t scale_count(const struct run_output *o)
{
    return (o->d.n + o->about->scale_block - 1) / o->about->scale_block;
}

static bool has_reference(const struct expr_output *o)
{
    return expr_scale_block(o->format) && o->rounding != EXPR_STOCHASTIC &&
           !o->reciprocal && !o->scale_down;
}

static void quantize(const struct expr_output *o, const float *x, float global,
                     uint8_t *codes, uint8_t *scale)
{
    const bool halfstep = o->rounding == EXPR_HALFSTEP;
    switch (o->format) {
    case EXPR_OUT_NVFP4:
        ref_quantize_block(x, 16, global, halfstep, codes, scale);
        break;
    case EXPR_OUT_MXFP4:
        ref_quantize_mx(x, 32, halfstep ? REF_MXFP4_HALFSTEP : REF_MXFP4, codes, scale);
        break;
    case EXPR_OUT_MXFP8_E4M3:
        ref_quantize_mx(x, 32, REF_MXFP8_E4M3, codes, scale);
        break;
    default:
        ref_quantize_mx(x, 32, REF_MXFP8_E5M2, codes, scale);
    }
}

/* By the reference, from the values that the expression gives. */
static void quantize_row(struct row *w, int k, uint8_t *codes, uint8_t *scales)
{
    const struct expr_output *o = &w->r->e->outputs[k];
    const struct run_output *out = &w->r->outs[k];
    const size_t block = out->about->scale_block, cols = out->d.n;
    const float *values = node_values(w, o->value);
    const float *global = o->global ? node_values(w, o->global) : NULL;
    for (size_t b = 0; b < scale_count(out); b++) {
        float x[32] = {0};
        size_t count = cols - b * block < block ? cols - b * block : block;
        memcpy(x, values + b * block, count * sizeof *x);
        quantize(o, x, global ? global[0] : 1, codes + b * block, &scales[b]);
    }
}

static uint8_t scale_at(const struct run_output *o, size_t row, size_t b)
{
    const size_t cols = o->d.n, block = o->about->scale_block;
    return o->scales[GUARD_BYTES + run_scale_offset(row, b, cols, block)];
}

/* As note(), but others are right if they may come of approximations. */
static void note_near(struct epilogue_compared *c, struct row *w, int k, bool is_scale,
                      size_t col, uint32_t got, uint32_t want, uint32_t reference)
{
    const struct run_output *o = &w->r->outs[k];
    bool near = false;
    if (w->is_approximate && (got != want || got != reference)) {
        const size_t block = o->about->scale_block;
        const uint8_t scale =
            o->scales && !is_scale ? scale_at(o, w->row, col / block) : 0;
        near = is_scale ? slack_has_scale(slack(w, k), col, (uint8_t)got)
                        : slack_has_code(slack(w, k), col, scale, got);
    }
    c->near += near;
    note(c, w->row, k, is_scale, col, got, near ? got : want, near ? got : reference);
}

static void compare_output(struct epilogue_compared *c, struct row *w, int k)
{
    const struct expr_output *o = &w->r->e->outputs[k];
    const struct run_output *out = &w->r->outs[k];
    const struct expr_values *v = &w->want[k];
    uint8_t *codes = NULL, *scales = NULL;
    if (has_reference(o)) {
        scales = ARENA_ARRAY(w->arena, uint8_t, scale_count(out));
        codes =
            ARENA_ARRAY(w->arena, uint8_t, scale_count(out) * out->about->scale_block);
        quantize_row(w, k, codes, scales);
    }
    for (size_t col = 0; col < out->d.n; col++) {
        uint32_t got = run_output_code(out, w->row, col), want = v->codes[col];
        if (o->format == EXPR_OUT_F32 && is_nan32(got) && is_nan32(want))
            got = want;
        note_near(c, w, k, false, col, got, want, codes ? codes[col] : want);
    }
    for (size_t b = 0; out->scales && b < scale_count(out); b++)
        note_near(c, w, k, true, b, scale_at(out, w->row, b), v->scales[b],
                  scales ? scales[b] : v->scales[b]);
}

/* The least and the largest that amax may be. */
struct range {
    float low, high;
};

static void widen(struct range *r, float low, float high)
{
    r->low = low > r->low ? low : r->low;
    r->high = high > r->high ? high : r->high;
}

static void compare_row(struct epilogue_compared *c, struct row *w, struct range *amax)
{
    fill_input(w);
    expr_eval(w->arena, w->r->e, &w->input, w->want);
    for (int k = 0; k < w->r->e->output_count; k++) {
        if (w->r->e->outputs[k].format != EXPR_OUT_AMAX)
            compare_output(c, w, k);
        else if (w->is_approximate)
            widen(&amax[k], slack(w, k)->amax_low, slack(w, k)->amax_high);
        else
            widen(&amax[k], w->want[k].amax, w->want[k].amax);
    }
}

/* Scales of rows and columns outside are 0, and nothing else was written. */
static void compare_padding(struct epilogue_compared *c, const struct epilogue_run *r,
                            int k)
{
    const struct run_output *o = &r->outs[k];
    const size_t padded = (scale_count(o) + 3) / 4 * 4;
    const size_t rows = ((size_t)r->m + 127) / 128 * 128;
    for (size_t row = 0; row < rows; row++)
        for (size_t b = row < r->m ? scale_count(o) : 0; b < padded; b++)
            note(c, row, k, true, b, scale_at(o, row, b), 0, 0);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        const uint8_t before = o->scales[i],
                      behind = o->scales[o->scales_count - 1 - i];
        note(c, rows + i, k, true, 0, before, GUARD_BYTE, GUARD_BYTE);
        note(c, rows + i, k, true, 0, behind, GUARD_BYTE, GUARD_BYTE);
    }
}

static void compare_amax(struct epilogue_compared *c, const struct epilogue_run *r,
                         int k, struct range amax)
{
    uint32_t want, got = run_output_code(&r->outs[k], 0, 0);
    float x;
    memcpy(&x, &got, sizeof x);
    if (amax.low <= x && x <= amax.high)
        want = got;
    else
        memcpy(&want, &amax.high, sizeof want);
    note(c, 0, k, false, 0, got, want, want);
}

bool epilogue_compare(const struct epilogue_run *r, size_t first, size_t step,
                      struct epilogue_compared *out)
{
    struct range amax[EXPR_MAX_OUTPUTS] = {{0, 0}};
    const bool is_approximate = epilogue_is_approximate(r->e);
    *out = (struct epilogue_compared){0};
    for (size_t row = first; row < r->m; row += step) {
        struct arena *scratch = arena_new();
        struct row w = {
            .arena = scratch, .r = r, .row = row, .is_approximate = is_approximate};
        compare_row(out, &w, amax);
        arena_free(scratch);
    }
    for (int k = 0; step == 1 && k < r->e->output_count; k++) {
        if (r->outs[k].scales)
            compare_padding(out, r, k);
        if (r->e->outputs[k].format == EXPR_OUT_AMAX)
            compare_amax(out, r, k, amax[k]);
    }
    return true;
}

bool epilogue_is_approximate(const struct expr *e)
{
    struct arena *a = arena_new();
    const bool *marks = expr_reachable(e, a);
    bool found = false;
    for (int i = 0; i < e->node_count; i++) {
        enum expr_op op = e->nodes[i]->op;
        found = found || (marks[i] && op >= EXPR_EX2_APPROX && op <= EXPR_TANH_APPROX);
    }
    arena_free(a);
    return found;
}

static float largest(const struct epilogue_run *r, const struct expr_node *value)
{
    float most = 0;
    for (size_t row = 0; row < r->m; row++) {
        struct arena *scratch = arena_new();
        struct row w = {.arena = scratch, .r = r, .row = row};
        fill_input(&w);
        const float *x = node_values(&w, value);
        size_t cols = value->columns == EXPR_PAIRS ? r->n / 2 : r->n;
        for (size_t c = 0; c < cols; c++)
            if (fabsf(x[c]) > most && !isinf(x[c]))
                most = fabsf(x[c]);
        arena_free(scratch);
    }
    return most;
}

void epilogue_choose_globals(const struct epilogue_run *r, struct run_arg *args)
{
    for (int k = 0; k < r->e->output_count; k++) {
        const struct expr_output *o = &r->e->outputs[k];
        if (!o->global || o->global->op != EXPR_INPUT)
            continue;
        struct run_arg *arg = &args[arg_of(r, o->global->imm)];
        if (arg->about->has_default || arg->is_set)
            continue;
        float most = nvfp4_global_scale(largest(r, o->value));
        if (arg->data && strcmp(arg->about->type, "f32") == 0)
            run_arg_multiply(arg, most);
        else if (!arg->data)
            memcpy(&arg->bits, &most, sizeof most);
        arg->is_set = true; /* of two outputs the first counts */
    }
}

int epilogue_bad_global(const struct epilogue_run *r, float *value)
{
    int found = -1;
    for (int k = 0; found < 0 && k < r->e->output_count; k++) {
        const struct expr_node *global = r->e->outputs[k].global;
        if (!global || global->shape != EXPR_SHAPE_UNIFORM)
            continue;
        struct arena *scratch = arena_new();
        struct row w = {.arena = scratch, .r = r};
        fill_input(&w);
        *value = node_values(&w, global)[0];
        found = *value > 0 && isfinite(*value) ? -1 : k;
        arena_free(scratch);
    }
    return found;
}
