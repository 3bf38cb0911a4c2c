/* quantize.h - the kernels beside the GEMM: to NVFP4 and back, and scales from one
 * layout to another.
 *
 *   quantize_nvfp4              X                          -> codes, scales
 *   deinterleave_quantize_nvfp4 X = [gate*8, h*8, ...]: h  -> codes, scales
 *   silu_mul_quantize_nvfp4     X = gate and up: silu(gate) * up -> codes, scales
 *   dequantize_nvfp4            codes, scales              -> X
 *   convert_scales              scales                     -> scales
 *
 * What is computed comes from the expression language and LLVM, as in the epilogue of
 * the GEMM, so both give the same bits; memory and layouts are the template's. */
#ifndef FP4GEN_QUANTIZE_H
#define FP4GEN_QUANTIZE_H

#include "core/base.h"
#include "core/diag.h"
#include "gen/expr.h"

struct config;
struct image;
struct lowered;
struct tmpl_value;

enum quantize_op {
    QUANTIZE_PLAIN,
    QUANTIZE_DEINTERLEAVE,
    QUANTIZE_SILU_MUL,
    QUANTIZE_BACK,
    QUANTIZE_SCALES,
};

enum x_type {
    X_BF16,
    X_F16,
    X_F32,
};

enum x_form {
    X_HALVES,
    X_INTERLEAVED,
};

enum scale_layout {
    LAYOUT_LINEAR,
    LAYOUT_128X4,
    LAYOUT_8X4,
};

struct quantize_config {
    enum quantize_op op;
    enum x_type x_type;
    enum x_form x_form;
    bool up_first; /* up before gate; or h before gate */
    enum scale_layout layout, from;
    enum expr_rounding rounding;
    enum expr_path path;
    bool reciprocal;
    bool precise; /* silu */
    int lanes, warps;
};

/* A lane has the same four scales' worth of columns, one block of 16, in four rows that
 * are 32 apart; `lanes` lanes of a warp lie along K, 32 / lanes along M. */
struct quantize_plan {
    const struct config *config; /* borrowed: same arena */
    char kernel[112];            /* entry; "_amax" is added for the other one */
    int threads, rows, cols;     /* rows x cols of the result: a CTA's */
    int warps_m, warps_k, lanes_m;
    int x_bytes; /* of an element of X */
    int x_words; /* of X that a block of 16 results needs, 32-bit */
    int ptx_version;
    const struct expr *expr, *amax_expr; /* NULL where nothing is quantised */
    const struct lowered *lowered, *amax;
};

/* NULL after a report. */
const struct quantize_plan *quantize_plan(struct arena *a, const struct config *c,
                                          struct diags *d);
/* What the runtime needs. */
void quantize_image(const struct quantize_plan *p, struct image *out);
/* What the template sees as `p`; *count of them. */
const struct tmpl_value *quantize_values(struct arena *a, const struct quantize_plan *p,
                                         int *count);
const char *quantize_template(const struct quantize_plan *p);
/* Is it one that quantize_template() may return? */
bool quantize_has_template(const char *name);
/* The picture of `gen plan`. */
void quantize_describe(const struct quantize_plan *p, struct buf *out);

const char *quantize_op_name(enum quantize_op op);
const char *x_type_name(enum x_type t);
const char *scale_layout_name(enum scale_layout l);

#endif
