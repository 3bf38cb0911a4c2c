/* expr.h - an epilogue as a pure expression: what becomes of the accumulators.
 *
 * A node stands for a value of each element, or of each row, column or block, or for
 * one value of the whole GEMM.  Equal nodes are one node.  gen/trace.c makes them from
 * a Lua function, gen/lower.c turns them into PTX, gen/expr_eval.c computes them on the
 * host.
 *
 * In the kernel one thread holds one row of the tile and computes `chunk` columns of it
 * at a time; nothing crosses threads.  Columns are those of the tile (of N), or pairs
 * (of N / 2): what remains when gate and up columns, interleaved in groups, were split.
 *
 * A constructor whose arguments do not fit, or are NULL, returns NULL; expr_fault()
 * then says why. */
#ifndef FP4GEN_EXPR_H
#define FP4GEN_EXPR_H

#include "core/base.h"

enum expr_op {
#define EXPR_OP(id, name, signature, meaning) EXPR_##id,
#include "gen/expr_ops.def"
#undef EXPR_OP
    EXPR_OP_COUNT
};

enum expr_type {
    EXPR_F32,
    EXPR_S32,
    EXPR_U32,
    EXPR_PRED,
    EXPR_TYPE_BF16, /* from here on narrow: results, widened when computed with */
    EXPR_TYPE_F16,
    EXPR_TYPE_E4M3,
    EXPR_TYPE_E5M2,
    EXPR_TYPE_E2M1,
    EXPR_TYPE_COUNT
};

enum expr_shape {
    EXPR_SHAPE_UNIFORM,
    EXPR_SHAPE_ROW,   /* one for each row */
    EXPR_SHAPE_COL,   /* one for each column */
    EXPR_SHAPE_BLOCK, /* one for each row and `block` columns */
    EXPR_SHAPE_ELEM,
};

enum expr_columns {
    EXPR_NO_COLUMNS, /* uniform or per row */
    EXPR_TILE,       /* columns of the accumulator: N */
    EXPR_PAIRS,      /* columns of pairs: N / 2 */
};

/* How a value gets into few bits. */
enum expr_path {
    EXPR_AUTO,     /* the hardware's conversion where the target has it */
    EXPR_HARDWARE, /* or a refusal */
    EXPR_INTEGER,  /* integer arithmetic with explicit rounding; the same bits */
};

/* What a node is called in its script: silu(x), not the ten nodes that compute it. */
struct expr_call {
    const char *name;
    const struct expr_node *args[4];
    int arg_count;
};

struct expr_node {
    enum expr_op op;
    enum expr_type type;
    enum expr_shape shape;
    enum expr_columns columns;
    int block; /* shape BLOCK: columns */
    const struct expr_node *args[3];
    int arg_count;
    uint32_t imm;          /* see expr_ops.def */
    int id;                /* index in expr->nodes */
    int line;              /* of the script, 0: none */
    struct expr_call call; /* name NULL: none */
};

#define EXPR_NAME_CHARS 15 /* of inputs and outputs */

enum expr_input_kind {
    EXPR_SCALAR,  /* a value, or a device pointer to one */
    EXPR_VEC_COL, /* pointer to N (or N / 2) elements */
    EXPR_VEC_ROW, /* pointer to M elements */
    EXPR_AUX,     /* pointer to M rows of N (or N / 2) elements, and a row stride */
};

struct expr_input {
    enum expr_input_kind kind;
    char name[EXPR_NAME_CHARS + 1];
    enum expr_type type; /* in memory; narrow ones are widened to f32 */
    enum expr_columns columns;
    bool has_default; /* scalars */
    uint32_t default_bits;
    bool is_scale; /* what values are divided by: finite and above 0 */
    int line;
};

enum expr_format {
    EXPR_OUT_F32,
    EXPR_OUT_BF16,
    EXPR_OUT_F16,
    EXPR_OUT_E4M3,
    EXPR_OUT_E5M2,
    EXPR_OUT_E2M1,       /* packed, low nibble first, no scales */
    EXPR_OUT_NVFP4,      /* packed E2M1, a UE4M3 scale for 16 columns */
    EXPR_OUT_MXFP4,      /* packed E2M1, a UE8M0 scale for 32 columns */
    EXPR_OUT_MXFP8_E4M3, /* a UE8M0 scale for 32 columns */
    EXPR_OUT_MXFP8_E5M2,
    EXPR_OUT_AMAX, /* one f32: the largest |x| of the tensor */
    EXPR_OUT_D,    /* of the config's D type: see expr_resolve_d() */
    EXPR_FORMAT_COUNT
};

enum expr_rounding {
    EXPR_NEAREST,
    EXPR_HALFSTEP,
    EXPR_STOCHASTIC,
};

struct expr_output {
    enum expr_format format;
    char name[EXPR_NAME_CHARS + 1];
    const struct expr_node *value;
    /* NVFP4; else NULL.  global_ok: is it far from both ends of the f32 range? */
    const struct expr_node *global, *global_ok;
    const struct expr_node *row_hash; /* STOCHASTIC, see docs/epilogues.md */
    const struct expr_node *row_ok;   /* is the row below M?  with scales and AMAX */
    enum expr_rounding rounding;
    enum expr_path path;
    bool reciprocal; /* NVFP4: x * fl(1/d) instead of x / d */
    bool is_named;   /* by the script, not by its place */
    bool scale_down; /* MX: floor of log2, may saturate; else the least that does not */
    int line;
};

#define EXPR_MAX_INPUTS 16
#define EXPR_MAX_OUTPUTS 4
#define EXPR_MAX_NODES 16384

struct expr {
    struct arena *arena; /* borrowed */
    struct expr_node **nodes;
    int node_count;
    struct expr_input inputs[EXPR_MAX_INPUTS];
    int input_count;
    struct expr_output outputs[EXPR_MAX_OUTPUTS];
    int output_count;
    int line; /* given to new nodes */
    char fault[240];
    int *table; /* of node ids + 1, open addressing */
    int table_cap;
    int node_cap;
};

struct expr *expr_new(struct arena *a);
const char *expr_fault(const struct expr *e);
/* Keeps the text (the first one counts); false. */
bool expr_refuse(struct expr *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

const struct expr_node *expr_f32(struct expr *e, float x);
const struct expr_node *expr_s32(struct expr *e, int32_t x);
const struct expr_node *expr_u32(struct expr *e, uint32_t x);
/* ACC ALPHA ROW COLUMN PAIR_COLUMN ROWS */
const struct expr_node *expr_leaf(struct expr *e, enum expr_op op);
/* The same name twice is the same input; with another kind or type it is refused. */
const struct expr_node *expr_input(struct expr *e, const struct expr_input *in);
/* Narrow arguments are widened where the signature wants f32. */
const struct expr_node *expr_op(struct expr *e, enum expr_op op,
                                const struct expr_node *const *args, int arg_count,
                                uint32_t imm);
const struct expr_node *expr_op1(struct expr *e, enum expr_op op,
                                 const struct expr_node *a);
const struct expr_node *expr_op2(struct expr *e, enum expr_op op,
                                 const struct expr_node *a, const struct expr_node *b);
const struct expr_node *expr_op3(struct expr *e, enum expr_op op,
                                 const struct expr_node *a, const struct expr_node *b,
                                 const struct expr_node *c);
/* acc * alpha, what scripts know as e.acc. */
const struct expr_node *expr_product(struct expr *e);
/* Gate or up columns of groups of `group` columns; half 0: the first group of a pair.
 */
const struct expr_node *expr_split(struct expr *e, const struct expr_node *x, int group,
                                   int half);
/* Gives a node its name for people; returns it. */
const struct expr_node *expr_named(struct expr *e, const struct expr_node *x,
                                   const char *name,
                                   const struct expr_node *const *args, int arg_count);

/* Names that a kernel's parameters have already. */
bool expr_is_taken(const char *name);
/* Takes format, value, name, global, rounding ..., and fills in what follows from them
 * (global_ok, row_hash, row_ok).  `seed`: of STOCHASTIC, else NULL.  False: a fault. */
bool expr_add_output(struct expr *e, const struct expr_output *o,
                     const struct expr_node *seed);
/* `scale` is what the values of an output `what` are divided by: a constant or a
 * default that is no finite number above 0 is refused, and an input remembers it. */
bool expr_use_scale(struct expr *e, const struct expr_node *scale, const char *what);
/* Outputs of format D become `f`: F32, BF16, F16, E4M3 or E5M2.  False: a fault. */
bool expr_resolve_d(struct expr *e, enum expr_format f);
/* Is every input used, alpha too?  Else a fault, and *line is where. */
bool expr_check_used(struct expr *e, int *line);

/* ---- what an expression needs */

/* Chunks must be a multiple of it: 1, 2, 4 ... 64; more: no chunk is large enough. */
int expr_chunk_multiple(const struct expr *e);
/* N must be a multiple of it. */
int expr_n_multiple(const struct expr *e);
int expr_out_cols(const struct expr_output *o, int tile_cols); /* of `tile_cols` */
int expr_bits(enum expr_format f);        /* of one element; AMAX: 0 */
int expr_scale_block(enum expr_format f); /* columns of a scale; 0: no scales */
/* marks[id] = is it reachable from an output? */
bool *expr_reachable(const struct expr *e, struct arena *a);

const char *expr_op_name(enum expr_op op);
const char *expr_op_meaning(enum expr_op op);
const char *expr_op_signature(enum expr_op op);
bool expr_op_find(const char *name, enum expr_op *op);
const char *expr_type_name(enum expr_type t);
const char *expr_shape_text(enum expr_shape shape); /* "for each row" */
const char *expr_format_name(enum expr_format f);   /* "nvfp4" */

/* ---- functions made of several nodes: gen/expr_math.c */

struct expr_function {
    const char *name; /* "silu" */
    int arg_count;
    const char *meaning;
    /* `precise`: no approximation; see docs/epilogues.md for the bounds. */
    const struct expr_node *(*build)(struct expr *e,
                                     const struct expr_node *const *args, bool precise);
};
const struct expr_function *expr_function_find(const char *name);
const struct expr_function *expr_function_at(int i); /* NULL past the end */

/* ---- texts: gen/expr_text.c */

/* The canonical form: equal texts are equal epilogues.  Lines and defaults are left
 * out, and what no output needs. */
void expr_write(const struct expr *e, struct buf *out);
/* Reads it back.  NULL: it is not one. */
struct expr *expr_read(struct arena *a, const char *text);
/* For people, "d = nvfp4(silu(gate) * up)", a line an output, each begun with `prefix`.
 * Values that are used twice get lines of their own. */
void expr_print(const struct expr *e, const char *prefix, struct buf *out);
/* The number that a scalar has if none is given. */
void expr_print_default(const struct expr_input *in, struct buf *out);

#endif
