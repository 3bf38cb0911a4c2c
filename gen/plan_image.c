#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "core/image.h"
#include "gen/config.h"
#include "gen/plan_epilogue.h"

/* CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion (cuda.h). */
enum {
    TYPE_UINT8 = 0,
    TYPE_UINT16 = 1,
    SWIZZLE_NONE = 0,
    L2_128B = 2,
    L2_256B = 3,
};

enum {
    SF_BLOCK_BYTES = 512, /* 128 rows x 4 scales */
    WARP_ROWS = 32,
    MOST_EXPR_BYTES = 32768, /* half of what constants have */
};

static struct image_size size_of(uint64_t factor, enum image_symbol symbol)
{
    return (struct image_size){factor, symbol};
}

static void set_matrix(struct image_tensor *t, const char *name, int type,
                       enum image_symbol cols, enum image_symbol rows,
                       enum image_symbol stride, uint32_t box_cols, uint32_t box_rows,
                       int swizzle, int l2)
{
    *t = (struct image_tensor){.type = type, .rank = 2, .swizzle = swizzle};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->l2_promotion = l2;
    t->dims[0] = size_of(1, cols);
    t->dims[1] = size_of(1, rows);
    t->strides[0] = size_of(1, stride);
    t->box[0] = box_cols;
    t->box[1] = box_rows;
}

/* Scales as 16-bit words: {a 512-byte block, blocks along K, row blocks}.  What lies
 * past the last K block or row block is then zero-filled by the copy. */
static void set_scales(struct image_tensor *t, const char *name,
                       enum image_symbol row_blocks, int k_blocks, int blocks)
{
    *t = (struct image_tensor){.type = TYPE_UINT16, .rank = 3, .swizzle = SWIZZLE_NONE};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->l2_promotion = L2_128B;
    t->dims[0] = size_of(SF_BLOCK_BYTES / 2, SYM_ONE);
    t->dims[1] = size_of(1, SYM_K64);
    t->dims[2] = size_of(1, row_blocks);
    t->strides[0] = size_of(SF_BLOCK_BYTES, SYM_ONE);
    t->strides[1] = size_of(SF_BLOCK_BYTES, SYM_K64);
    t->box[0] = SF_BLOCK_BYTES / 2;
    t->box[1] = (uint32_t)k_blocks;
    t->box[2] = (uint32_t)blocks;
}

/* A tensor store writes whole 16-byte pieces of a row, past the tensor's last column
 * too (measured on an H200): the map ends before a piece that the row does not fill,
 * and the epilogue stores what is left itself. */
static void set_output(struct image_tensor *t, const struct plan_output *o, int k)
{
    *t = (struct image_tensor){
        .type = o->map_type, .rank = 2, .swizzle = o->swizzle, .l2_promotion = L2_128B};
    snprintf(t->name, sizeof t->name, "o%d", k);
    t->dims[0] = size_of((uint64_t)(o->piece_elems >> o->map_shift),
                         (enum image_symbol)(SYM_PIECES + k));
    t->dims[1] = size_of(1, SYM_M);
    t->strides[0] = size_of(1, (enum image_symbol)(SYM_LD + k));
    t->box[0] = (uint32_t)o->box_elems;
    t->box[1] = WARP_ROWS;
}

PRINTF_LIKE(3, 4)
static void add_param(struct image *i, enum image_param_kind kind, const char *name,
                      ...)
{
    struct image_param *p = &i->params[i->param_count++];
    va_list args;
    va_start(args, name);
    vsnprintf(p->name, sizeof p->name, name, args);
    va_end(args);
    p->kind = kind;
}

static void add_output(struct image *i, const struct plan_output *o)
{
    struct image_output *out = &i->outputs[i->output_count++];
    snprintf(out->name, sizeof out->name, "%s", o->name);
    snprintf(out->format, sizeof out->format, "%s", expr_format_name(o->format));
    out->bits = (uint32_t)o->bits;
    out->cols_shift = (uint32_t)o->cols_shift;
    out->scale_block = (uint32_t)o->scale_block;
}

static void add_output_params(struct image *i, const struct plan *p)
{
    for (int k = 0; k < p->output_count; k++) {
        add_param(i, PARAM_PTR, "o%d_ptr", k);
        if (p->outputs[k].bits)
            add_param(i, PARAM_U64, "o%d_ld", k);
        if (p->outputs[k].scale_block)
            add_param(i, PARAM_PTR, "o%d_scales", k);
    }
}

static void add_arg(struct image *i, const struct expr_input *in)
{
    static const enum image_arg_kind kinds[] = {[EXPR_SCALAR] = ARG_SCALAR,
                                                [EXPR_VEC_COL] = ARG_COL,
                                                [EXPR_VEC_ROW] = ARG_ROW,
                                                [EXPR_AUX] = ARG_AUX};
    struct image_arg *arg = &i->args[i->arg_count++];
    snprintf(arg->name, sizeof arg->name, "%s", in->name);
    snprintf(arg->type, sizeof arg->type, "%s", expr_type_name(in->type));
    arg->kind = kinds[in->kind];
    arg->cols_shift = in->columns == EXPR_PAIRS;
    arg->is_scale = in->is_scale;
    arg->has_default = in->has_default;
    arg->default_bits = in->default_bits;
}

static void add_arg_params(struct image *i, const struct expr *e)
{
    for (int k = 0; k < e->input_count; k++) {
        const char *name = e->inputs[k].name;
        bool scalar = e->inputs[k].kind == EXPR_SCALAR;
        add_param(i, scalar ? PARAM_B32 : PARAM_PTR, "arg_%s", name);
        if (scalar)
            add_param(i, PARAM_PTR, "argptr_%s", name);
        if (e->inputs[k].kind == EXPR_AUX)
            add_param(i, PARAM_U64, "argld_%s", name);
    }
}

/* NULL: it is too long for the manifest. */
static const char *expr_text(const struct expr *e)
{
    struct buf text;
    buf_init(&text, e->arena);
    expr_write(e, &text);
    return text.bytes <= MOST_EXPR_BYTES ? text.data : NULL;
}

void plan_image(const struct plan *p, struct image *out)
{
    const struct config *c = p->config;
    *out = (struct image){0};
    snprintf(out->generator, sizeof out->generator, "fp4gen %s", "0.1.0");
    snprintf(out->config, sizeof out->config, "%s", c->name);
    snprintf(out->config_hash, sizeof out->config_hash, "%016llx",
             (unsigned long long)c->hash);
    snprintf(out->kernel, sizeof out->kernel, "%s", p->kernel);
    snprintf(out->target, sizeof out->target, "%s", c->target->name);
    out->ptx_version = PLAN_PTX_VERSION;
    out->tile[0] = (uint32_t)c->tile_m;
    out->tile[1] = (uint32_t)c->tile_n;
    out->tile[2] = (uint32_t)c->tile_k;
    out->stages = (uint32_t)p->stages;
    out->cluster[0] = out->cluster[1] = out->cluster[2] = 1;
    out->smem_bytes = p->smem_bytes;
    out->threads = (uint32_t)p->threads;
    snprintf(out->epilogue, sizeof out->epilogue, "%s", c->epilogue);
    out->n_multiple = c->expr ? (uint32_t)expr_n_multiple(c->expr) : 1;
    for (int k = 0; k < p->output_count; k++)
        add_output(out, &p->outputs[k]);
    for (int k = 0; c->expr && k < c->expr->input_count; k++)
        add_arg(out, &c->expr->inputs[k]);
    if (c->expr)
        out->expr = expr_text(c->expr);

    struct image_tensor *t = out->tensors;
    /* Bytes, not 4-bit elements: the copy engine then fills the end of a row with zeros
     * byte by byte (measured on an H200), whatever lies between k and the stride. */
    const uint32_t row = p->row_bytes;
    set_matrix(t++, "a", TYPE_UINT8, SYM_K2, SYM_M, SYM_LDA, row, (uint32_t)c->tile_m,
               p->swizzle, L2_256B);
    set_matrix(t++, "b", TYPE_UINT8, SYM_K2, SYM_N, SYM_LDB, row, (uint32_t)c->tile_n,
               p->swizzle, L2_256B);
    set_scales(t++, "sfa", SYM_M128, p->mmas, 1);
    set_scales(t++, "sfb", SYM_N128, p->mmas, p->sfb_blocks);
    for (int k = 0; k < p->output_count; k++)
        if (p->outputs[k].bits)
            set_output(t++, &p->outputs[k], k);
    out->tensor_count = (int)(t - out->tensors);

    for (int i = 0; i < out->tensor_count; i++)
        add_param(out, PARAM_TENSOR_MAP, "%s", out->tensors[i].name);
    add_param(out, PARAM_U32, "m");
    add_param(out, PARAM_U32, "n");
    add_param(out, PARAM_U32, "k");
    add_param(out, PARAM_F32, "alpha");
    add_param(out, PARAM_PTR, "alpha_ptr");
    add_output_params(out, p);
    if (c->expr)
        add_arg_params(out, c->expr);
}
