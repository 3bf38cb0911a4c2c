#include "gen/run_expr.h"

#include <string.h>

#include "core/image.h"
#include "gen/expr.h"
#include "gen/manifest.h"

enum { MOST_CHUNK = 64 };

static bool is_uniform_or_row(const struct expr_node *n, enum expr_type t)
{
    return n && n->columns == EXPR_NO_COLUMNS && n->type == t;
}

static bool fits_arg(const struct expr_input *in, const struct image *i)
{
    static const enum image_arg_kind kinds[] = {[EXPR_SCALAR] = ARG_SCALAR,
                                                [EXPR_VEC_COL] = ARG_COL,
                                                [EXPR_VEC_ROW] = ARG_ROW,
                                                [EXPR_AUX] = ARG_AUX};
    for (int k = 0; k < i->arg_count; k++) {
        const struct image_arg *arg = &i->args[k];
        if (strcmp(arg->name, in->name) != 0)
            continue;
        const bool has_cols = arg->kind == ARG_COL || arg->kind == ARG_AUX;
        const enum expr_columns columns = !has_cols         ? EXPR_NO_COLUMNS
                                          : arg->cols_shift ? EXPR_PAIRS
                                                            : EXPR_TILE;
        return kinds[in->kind] == arg->kind && in->columns == columns &&
               strcmp(expr_type_name(in->type), arg->type) == 0;
    }
    return false;
}

static bool fits_output(const struct expr_output *o, const struct image_output *out)
{
    const bool is_nvfp4 = o->format == EXPR_OUT_NVFP4;
    const bool is_random = o->rounding == EXPR_STOCHASTIC;
    const bool has_rows = o->format == EXPR_OUT_AMAX || expr_scale_block(o->format);
    return o->format != EXPR_OUT_D &&
           strcmp(expr_format_name(o->format), out->format) == 0 &&
           o->rounding >= EXPR_NEAREST && o->rounding <= EXPR_STOCHASTIC &&
           o->value->shape == EXPR_SHAPE_ELEM &&
           (!out->bits ||
            (o->value->columns == EXPR_PAIRS) == (out->cols_shift == 1)) &&
           (!has_rows || o->value->type == EXPR_F32) &&
           (!is_nvfp4 || is_uniform_or_row(o->global, EXPR_F32)) &&
           (!is_random || is_uniform_or_row(o->row_hash, EXPR_U32)) &&
           (!has_rows || is_uniform_or_row(o->row_ok, EXPR_PRED));
}

static bool fits(const struct expr *e, const struct image *i)
{
    bool ok = e->input_count == i->arg_count && e->output_count == i->output_count &&
              expr_chunk_multiple(e) <= MOST_CHUNK &&
              expr_n_multiple(e) == (int)i->n_multiple;
    for (int k = 0; ok && k < e->input_count; k++)
        ok = fits_arg(&e->inputs[k], i);
    for (int k = 0; ok && k < e->output_count; k++)
        ok = fits_output(&e->outputs[k], &i->outputs[k]);
    return ok;
}

const struct expr *run_expr_read(struct arena *a, const struct image *i,
                                 const char *ptx)
{
    const char *text = manifest_expr(a, ptx);
    const struct expr *e = text ? expr_read(a, text) : NULL;
    return e && fits(e, i) ? e : NULL;
}
