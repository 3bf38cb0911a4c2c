#include "gen/quantize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "gen/config.h"
#include "gen/lower.h"
#include "gen/tmpl.h"

static const char *const op_names[] = {
    [QUANTIZE_PLAIN] = "quantize_nvfp4",
    [QUANTIZE_DEINTERLEAVE] = "deinterleave_quantize_nvfp4",
    [QUANTIZE_SILU_MUL] = "silu_mul_quantize_nvfp4",
    [QUANTIZE_BACK] = "dequantize_nvfp4",
    [QUANTIZE_SCALES] = "convert_scales",
};
static const char *const type_names[] = {"bf16", "f16", "f32"};
static const char *const layout_names[] = {"linear", "128x4", "8x4"};
static const char *const rounding_names[] = {"nearest", "halfstep", "stochastic"};

const char *quantize_op_name(enum quantize_op op)
{
    return op_names[op];
}

const char *x_type_name(enum x_type t)
{
    return type_names[t];
}

const char *scale_layout_name(enum scale_layout l)
{
    return layout_names[l];
}

static bool to_codes(const struct quantize_config *q)
{
    return q->op <= QUANTIZE_SILU_MUL;
}

/* Columns of X for one of the result. */
static int x_width(const struct quantize_config *q)
{
    return q->op == QUANTIZE_DEINTERLEAVE || q->op == QUANTIZE_SILU_MUL ? 2 : 1;
}

static const char *form_name(const struct quantize_config *q)
{
    if (x_width(q) == 1)
        return "plain";
    return q->op == QUANTIZE_SILU_MUL && q->x_form == X_HALVES ? "halves"
                                                               : "interleaved";
}

/* The arithmetic's columns of a block of 16 results. */
static int chunk_cols(const struct quantize_config *q)
{
    return 16 * x_width(q);
}

/* ---- what is computed */

static const struct expr_node *value_of(struct expr *e, const struct quantize_config *q)
{
    const int group = 8;
    const struct expr_node *x = expr_leaf(e, EXPR_ACC);
    if (q->op == QUANTIZE_PLAIN)
        return expr_named(e, x, "x", NULL, 0);
    const struct expr_node *first = expr_split(e, x, group, 0);
    const struct expr_node *second = expr_split(e, x, group, 1);
    const struct expr_node *gate = q->up_first ? second : first;
    const struct expr_node *up = q->up_first ? first : second;
    if (q->op == QUANTIZE_DEINTERLEAVE)
        return expr_named(e, up, "h", NULL, 0);
    gate = expr_named(e, gate, "gate", NULL, 0);
    up = expr_named(e, up, "up", NULL, 0);
    const struct expr_function *silu = expr_function_find("silu");
    const struct expr_node *s = silu->build(e, &gate, q->precise);
    s = expr_named(e, s, q->precise ? "precise.silu" : "silu", &gate, 1);
    return expr_op2(e, EXPR_MUL, s, up);
}

static const struct expr_node *scalar(struct expr *e, const char *name,
                                      enum expr_type type)
{
    struct expr_input in = {.kind = EXPR_SCALAR, .type = type};
    snprintf(in.name, sizeof in.name, "%s", name);
    return expr_input(e, &in);
}

/* The kernels never compute a row that is not there. */
static const struct expr_node *always(struct expr *e)
{
    return expr_op2(e, EXPR_LT, expr_u32(e, 0), expr_u32(e, 1));
}

static struct expr *make_expr(struct arena *a, const struct quantize_config *q)
{
    struct expr *e = expr_new(a);
    struct expr_output o = {.format = EXPR_OUT_NVFP4,
                            .name = "q",
                            .value = value_of(e, q),
                            .global = scalar(e, "global", EXPR_F32),
                            .rounding = q->rounding,
                            .path = q->path,
                            .reciprocal = q->reciprocal};
    const struct expr_node *seed = NULL;
    if (q->rounding == EXPR_STOCHASTIC)
        seed = scalar(e, "seed", EXPR_U32);
    if (expr_add_output(e, &o, seed))
        e->outputs[0].row_ok = always(e);
    return e;
}

/* An infinity saturates by itself; as amax it would make all else 0. */
static struct expr *make_amax_expr(struct arena *a, const struct quantize_config *q)
{
    struct expr *e = expr_new(a);
    const struct expr_node *x = value_of(e, q);
    const struct expr_node *is_finite =
        expr_op2(e, EXPR_LT, expr_op1(e, EXPR_ABS, x), expr_f32(e, INFINITY));
    x = expr_op3(e, EXPR_SELECT, is_finite, x, expr_f32(e, 0));
    struct expr_output o = {.format = EXPR_OUT_AMAX, .name = "amax", .value = x};
    if (expr_add_output(e, &o, NULL))
        e->outputs[0].row_ok = always(e);
    return e;
}

static const struct lowered *lower(struct arena *a, const struct quantize_plan *p,
                                   const struct expr *e, struct diags *d)
{
    const struct config *c = p->config;
    if (expr_fault(e)) {
        diag_add(d, DIAG_QUANTIZE_EXPR, config_loc(c, ""), expr_fault(e));
        return NULL;
    }
    struct lower_request r = {.e = e,
                              .target = c->target,
                              .ptx_version = p->ptx_version,
                              .chunk = chunk_cols(c->quantize),
                              .prefix = "f",
                              .loc = config_loc(c, "path")};
    return lower_epilogue(a, &r, d);
}

/* ---- the plan */

const struct quantize_plan *quantize_plan(struct arena *a, const struct config *c,
                                          struct diags *d)
{
    const struct quantize_config *q = c->quantize;
    const int lowest_ptx = 86, groups = 4;
    struct quantize_plan *p = ARENA_NEW(a, struct quantize_plan);
    p->config = c;
    p->ptx_version =
        c->target->ptx_version > lowest_ptx ? c->target->ptx_version : lowest_ptx;
    p->threads = 32 * q->warps;
    p->lanes_m = 32 / q->lanes;
    p->warps_m = q->warps < q->lanes ? q->warps : q->lanes;
    p->warps_k = q->warps / p->warps_m;
    p->rows = groups * p->warps_m * p->lanes_m;
    p->cols = 16 * p->warps_k * q->lanes;
    p->x_bytes = q->x_type == X_F32 ? 4 : 2;
    p->x_words = chunk_cols(q) * p->x_bytes / 4;
    snprintf(p->kernel, sizeof p->kernel, "fp4gen_%s_%s_%08x", op_names[q->op],
             c->target->name, (unsigned)(c->hash ^ c->hash >> 32));
    if (!to_codes(q))
        return p;
    p->expr = make_expr(a, q);
    p->amax_expr = make_amax_expr(a, q);
    p->lowered = lower(a, p, p->expr, d);
    if (p->lowered)
        p->amax = lower(a, p, p->amax_expr, d);
    return p->amax ? p : NULL;
}

static const char *const templates[] = {
    [QUANTIZE_PLAIN] = "quantize",        [QUANTIZE_DEINTERLEAVE] = "quantize",
    [QUANTIZE_SILU_MUL] = "quantize",     [QUANTIZE_BACK] = "dequantize",
    [QUANTIZE_SCALES] = "convert_scales",
};

const char *quantize_template(const struct quantize_plan *p)
{
    return templates[p->config->quantize->op];
}

bool quantize_has_template(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(templates); i++)
        if (strcmp(templates[i], name) == 0)
            return true;
    return false;
}

/* ---- what the template sees */

struct values {
    struct tmpl_value list[64];
    int count;
};

static void put_text(struct values *v, const char *name, const char *text)
{
    v->list[v->count++] =
        (struct tmpl_value){.name = name, .kind = TMPL_TEXT, .text = text};
}

static void put_int(struct values *v, const char *name, int64_t n)
{
    v->list[v->count++] =
        (struct tmpl_value){.name = name, .kind = TMPL_INT, .integer = n};
}

/* Without the newline at the end: the template's line has one. */
static const char *chomped(struct arena *a, const char *text)
{
    size_t chars = strlen(text);
    return chars ? arena_strndup(a, text, chars - 1) : "  // nothing";
}

static const char *printed(struct arena *a, const struct expr *e, const char *prefix)
{
    struct buf b;
    buf_init(&b, a);
    expr_print(e, prefix, &b);
    return chomped(a, b.data);
}

static void put_arithmetic(struct arena *a, const struct quantize_plan *p,
                           struct values *v)
{
    const struct quantize_config *q = p->config->quantize;
    put_int(v, "chunk_cols", chunk_cols(q));
    put_text(v, "expression", printed(a, p->expr, ""));
    put_text(v, "decls", chomped(a, p->lowered->decls));
    put_text(v, "tile", chomped(a, p->lowered->tile.text));
    put_text(v, "chunk", chomped(a, p->lowered->chunk.text));
    put_int(v, "insns", p->lowered->chunk.insns - p->lowered->chunk.rare_insns);
    put_text(v, "amax_decls", chomped(a, p->amax->decls));
    put_text(v, "amax_tile", chomped(a, p->amax->tile.text));
    put_text(v, "amax_chunk", chomped(a, p->amax->chunk.text));
    v->list[v->count++] = (struct tmpl_value){
        .name = "seed", .kind = TMPL_BOOL, .integer = q->rounding == EXPR_STOCHASTIC};
}

/* Of a thread at most; 0: as many as it takes.  64 is half of all threads of an SM;
 * with 73 of its own choice an H200 took 6 % longer for 8192 x 8192 bf16, with 56 8 %.
 */
static int registers(const struct quantize_plan *p)
{
    const struct quantize_config *q = p->config->quantize;
    int words = q->op == QUANTIZE_DEINTERLEAVE ? p->x_words / 2 : p->x_words;
    return words > 8 ? 0 : q->reciprocal ? 72 : 64; /* without spills */
}

const struct tmpl_value *quantize_values(struct arena *a, const struct quantize_plan *p,
                                         int *count)
{
    const struct config *c = p->config;
    const struct quantize_config *q = c->quantize;
    struct values *v = ARENA_NEW(a, struct values);
    put_text(v, "kernel", p->kernel);
    put_text(v, "target", c->target->name);
    put_text(v, "ptx_version",
             arena_printf(a, "%d.%d", p->ptx_version / 10, p->ptx_version % 10));
    put_int(v, "threads", p->threads);
    put_int(v, "warps", q->warps);
    put_int(v, "lanes", q->lanes);
    put_int(v, "warps_m", p->warps_m);
    put_int(v, "warps_k", p->warps_k);
    put_int(v, "slices", q->lanes / p->warps_m);
    put_int(v, "rows", p->rows);
    put_int(v, "cols", p->cols);
    put_text(v, "x_type", type_names[q->x_type]);
    put_int(v, "x_bytes", p->x_bytes);
    put_int(v, "x_words", p->x_words);
    put_int(v, "x_width", x_width(q));
    put_text(v, "x_form", form_name(q));
    put_text(v, "x_shape", x_width(q) == 2 ? "m x 2k" : "m x k");
    /* The half of an interleaved X that is not read: 0, 1, or -1 */
    put_int(v, "skip", q->op != QUANTIZE_DEINTERLEAVE ? -1 : q->up_first ? 1 : 0);
    put_int(v, "registers", registers(p));
    put_text(v, "layout", layout_names[q->layout]);
    put_text(v, "from", layout_names[q->from]);
    if (to_codes(q))
        put_arithmetic(a, p, v);
    *count = v->count;
    return v->list;
}

/* ---- the image */

static void add_param(struct image *i, const char *name, enum image_param_kind kind)
{
    struct image_param *p = &i->params[i->param_count++];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->kind = kind;
}

static void add_params(const struct quantize_config *q, struct image *out)
{
    static const struct {
        const char *name;
        enum image_param_kind kind;
        unsigned ops; /* bit 0: to codes, 1: back, 2: scales */
    } params[] = {
        {"x", PARAM_PTR, 3},        {"ldx", PARAM_U64, 3},
        {"codes", PARAM_PTR, 3},    {"ldc", PARAM_U64, 3},
        {"from", PARAM_PTR, 4},     {"ldf", PARAM_U64, 4},
        {"scales", PARAM_PTR, 7},   {"lds", PARAM_U64, 7},
        {"m", PARAM_U32, 7},        {"k", PARAM_U32, 7},
        {"global", PARAM_F32, 3},   {"global_ptr", PARAM_PTR, 3},
        {"amax_ptr", PARAM_PTR, 1}, {"global_out", PARAM_PTR, 1},
        {"seed", PARAM_U32, 1},
    };
    unsigned op = to_codes(q) ? 1 : q->op == QUANTIZE_BACK ? 2 : 4;
    for (size_t i = 0; i < COUNT_OF(params); i++)
        if (params[i].ops & op)
            add_param(out, params[i].name, params[i].kind);
}

void quantize_image(const struct quantize_plan *p, struct image *out)
{
    const struct config *c = p->config;
    const struct quantize_config *q = c->quantize;
    *out = (struct image){.ptx_version = p->ptx_version,
                          .tile = {(uint32_t)p->rows, (uint32_t)p->cols, 16},
                          .stages = 1,
                          .cluster = {1, 1, 1},
                          .threads = (uint32_t)p->threads};
    snprintf(out->generator, sizeof out->generator, "fp4gen %s", "0.1.0");
    snprintf(out->config, sizeof out->config, "%s", c->name);
    snprintf(out->config_hash, sizeof out->config_hash, "%016llx",
             (unsigned long long)c->hash);
    snprintf(out->op, sizeof out->op, "%s", op_names[q->op]);
    snprintf(out->kernel, sizeof out->kernel, "%s", p->kernel);
    snprintf(out->target, sizeof out->target, "%s", c->target->name);
    snprintf(out->layout, sizeof out->layout, "%s", layout_names[q->layout]);
    if (q->op == QUANTIZE_SCALES)
        snprintf(out->from_layout, sizeof out->from_layout, "%s",
                 layout_names[q->from]);
    if (q->op != QUANTIZE_SCALES) {
        snprintf(out->x_type, sizeof out->x_type, "%s", type_names[q->x_type]);
        snprintf(out->x_form, sizeof out->x_form, "%s", form_name(q));
    }
    if (to_codes(q)) {
        snprintf(out->x_order, sizeof out->x_order, "%s",
                 q->up_first ? "up_gate" : "gate_up");
        snprintf(out->division, sizeof out->division, "%s",
                 q->reciprocal ? "reciprocal" : "exact");
        snprintf(out->rounding, sizeof out->rounding, "%s",
                 rounding_names[q->rounding]);
    }
    add_params(q, out);
}

void quantize_describe(const struct quantize_plan *p, struct buf *out)
{
    const struct config *c = p->config;
    const struct quantize_config *q = c->quantize;
    buf_printf(out, "%s for %s: %s", c->name, c->target->name, op_names[q->op]);
    if (q->op == QUANTIZE_SCALES)
        buf_printf(out, ", scales %s to %s\n", layout_names[q->from],
                   layout_names[q->layout]);
    else
        buf_printf(out, ", X %s %s, scales %s\n", type_names[q->x_type], form_name(q),
                   layout_names[q->layout]);
    buf_printf(
        out,
        "  a CTA           %d warps: %d rows x %d columns of the result\n"
        "  a warp          %d lanes along K, %d along M; a lane has 16 columns in "
        "4 rows, 32 apart%s\n",
        q->warps, p->rows, p->cols, q->lanes, p->lanes_m,
        q->op == QUANTIZE_BACK ? " (as many, 16 bytes at a time)" : "");
    if (!p->lowered)
        return;
    const struct lowered *l = p->lowered;
    struct arena *a = out->arena;
    buf_printf(out, "  computed\n%s\n", printed(a, p->expr, "    "));
    buf_printf(
        out,
        "  instructions    %.1f a value of PTX by LLVM, %d more where values are "
        "extreme; %d registers\n",
        lower_insns_per_value(p->expr, l), l->chunk.rare_insns,
        l->chunk.live_words + l->tile_words);
    buf_printf(out, "  bytes           %g read, 0.5625 written a value\n",
               (double)p->x_bytes * x_width(q));
}
