/* emit.h - an epilogue expression to LLVM IR, for one of three blocks of PTX.
 *
 * The function that is built has neither parameters nor results.  Where a value comes
 * in or goes out stands an empty-handed inline assembly whose text, "@in NAME r" or
 * "@out NAME r", survives into the PTX; gen/llvm/splice.c turns these marks into the
 * register names of the template.
 *
 * Only what this header offers is emitted: the NVPTX backend ends the process on many
 * other operations (exp, log, tanh, sin, lrint ...). */
#ifndef FP4GEN_LLVM_EMIT_H
#define FP4GEN_LLVM_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <llvm-c/Core.h>

#include "core/base.h"
#include "core/target.h"
#include "gen/expr.h"

enum emit_block {
    EMIT_TILE,  /* once for a row of a tile: what does not depend on the column */
    EMIT_CHUNK, /* `chunk` columns, all of them inside N */
    EMIT_TAIL,  /* likewise where the last ones may be outside */
    EMIT_BLOCK_COUNT
};

/* A value that the tile block computes and the chunk blocks use. */
struct emit_hoist {
    const struct expr_node *node;      /* NULL: what follows */
    const struct expr_output *inverse; /* 1 / its global scale; NULL: what follows */
    int aux;                           /* the address of the row of this input */
};

/* The template's registers, see gen/lower.h. */
struct emit_names {
    char v[32], alpha[32], row[32], col[32], m[32], n[32];
};

struct emit {
    struct arena *arena;
    const struct expr *e;
    const bool *reachable;
    const int *levels; /* of a node: how often columns were regrouped below it */
    int level_count;
    const struct target *target;
    const char *prefix; /* of registers */
    const struct emit_names *names;
    int chunk;       /* columns of the tile */
    int step;        /* of these at a time, see gen/llvm/steps.c; 0: all */
    bool packed_f32; /* f32x2 arithmetic */
    struct emit_hoist *hoists;
    int hoist_count;

    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef at, entry; /* entry: where the incoming values are */
    LLVMValueRef function;
    LLVMTypeRef i1, i16, i32, i64, f32, f32x2, pointer;
    enum emit_block block;
    LLVMValueRef **values; /* values[node id][index] */
    uint64_t *done;        /* done[node id]: those that are there; only in steps */
    LLVMValueRef amax[EXPR_MAX_OUTPUTS];      /* of the columns so far */
    LLVMValueRef scales[EXPR_MAX_OUTPUTS][4]; /* codes of the blocks so far */
    LLVMValueRef made, order; /* i32, see emit_behind(); NULL: nothing yet */
    struct emit_in {
        const char *name;
        LLVMValueRef value;
        struct emit_in *next;
    } * ins;
};

/* `em` has arena, e, target, chunk, step, prefix and names; the rest is filled in. */
void emit_open(struct emit *em);
void emit_close(struct emit *em);
/* Adds the function of one block to the module, named after it. */
void emit_function(struct emit *em, enum emit_block block);
const char *emit_block_name(enum emit_block block);

/* ---- operations, all of them: gen/llvm/ir.c */

LLVMValueRef emit_in(struct emit *em, const char *name, LLVMTypeRef type);
void emit_out(struct emit *em, const char *name, LLVMValueRef v);
LLVMValueRef emit_f32(struct emit *em, float x);
LLVMValueRef emit_i32(struct emit *em, uint32_t x);
LLVMValueRef emit_bits(struct emit *em, LLVMValueRef f);  /* f32 to i32 */
LLVMValueRef emit_float(struct emit *em, LLVMValueRef i); /* i32 to f32 */
/* An intrinsic on values of one type; `overload` NULL where the name says all. */
LLVMValueRef emit_call(struct emit *em, const char *intrinsic, LLVMTypeRef overload,
                       LLVMValueRef *args, unsigned count);
LLVMValueRef emit_call1(struct emit *em, const char *intrinsic, LLVMValueRef a);
LLVMValueRef emit_call2(struct emit *em, const char *intrinsic, LLVMValueRef a,
                        LLVMValueRef b);
/* Pure inline assembly. */
LLVMValueRef emit_asm(struct emit *em, const char *text, const char *constraints,
                      LLVMTypeRef result, LLVMValueRef *args, unsigned count);
/* ADD SUB MUL FMA of f32 on `count` values, in pairs where the target can.  b and c may
 * be NULL as the operation wants. */
LLVMValueRef emit_arith_one(struct emit *em, enum expr_op op, LLVMValueRef a,
                            LLVMValueRef b, LLVMValueRef c);
void emit_arith(struct emit *em, enum expr_op op, int count, LLVMValueRef *a,
                LLVMValueRef *b, LLVMValueRef *c, LLVMValueRef *out);

/* In threes: a maximum of three is one instruction from sm_100 on. */
LLVMValueRef emit_fold(struct emit *em, const char *intrinsic, LLVMValueRef *x,
                       int count);
/* Largest of |x|; NaN does not count, nothing but NaN gives 0. */
LLVMValueRef emit_amax(struct emit *em, LLVMValueRef *x, int count);

/* ---- gen/llvm/input.c */

int emit_cols(const struct emit *em, enum expr_columns c); /* of a chunk */
LLVMValueRef emit_column(struct emit *em, enum expr_columns c, int i);
/* The thread's row, or the last one where it is outside M. */
LLVMValueRef emit_row_inside(struct emit *em);
/* TAIL: x where column i is inside N, else 0; otherwise x. */
LLVMValueRef emit_masked(struct emit *em, enum expr_columns c, int i, LLVMValueRef x);
LLVMValueRef emit_wide(struct emit *em, LLVMValueRef i); /* u32 to 64 bits */
/* "arg" and "bias": "arg_bias"; with "argld" its row stride: what the template calls
 * it. */
const char *emit_arg_name(struct emit *em, const char *kind,
                          const struct expr_input *in);
void emit_input(struct emit *em, const struct expr_node *n, int first, int count,
                LLVMValueRef *out);
/* first and count of that must be multiples of it: elements of one load. */
int emit_input_unit(const struct emit *em, const struct expr_node *n);

/* ---- nodes: gen/llvm/node.c */

/* Values first .. first + count - 1. */
void emit_node(struct emit *em, const struct expr_node *n, int first, int count);
int emit_count(const struct emit *em, const struct expr_node *n); /* of its values */
bool emit_is_column_free(const struct expr_node *n);
/* "PREFIX_h3": the i-th value that crosses from the tile block; and the row of an AUX
 * input.
 */
const char *emit_hoist_name(struct emit *em, int i);
LLVMValueRef emit_hoisted_row(struct emit *em, int input);
LLVMValueRef emit_hoisted_inverse(struct emit *em, const struct expr_output *o);
/* Value of node `n` for element (or block) `i` of a consumer; `per` is how many columns
 * one of the consumer's values has: 1, 16 or 32. */
LLVMValueRef emit_value(struct emit *em, const struct expr_node *n, int i, int per);

/* ---- gen/llvm/steps.c: few columns at a time, through to the outputs */

void emit_steps(struct emit *em);
/* i32 as it is, but not before what earlier steps have made. */
LLVMValueRef emit_behind(struct emit *em, LLVMValueRef i);
/* That i32 or f32 is something that the next step has to wait for. */
void emit_made(struct emit *em, LLVMValueRef v);
/* Columns first .. first + count - 1 of an output, whole words and blocks of them, in
 * order: what comes in parts goes out with the last ones. */
void emit_output(struct emit *em, int output, int first, int count);

/* ---- gen/llvm/convert.c: into few bits and back */

bool emit_uses_hardware(const struct emit *em, enum expr_type t, enum expr_path path);
/* Codes of `count` values, packed into count * bits / 32 words. */
void emit_pack(struct emit *em, enum expr_type t, enum expr_path path, int count,
               LLVMValueRef *x, LLVMValueRef *words);
/* E2M1 by integers, from twice the values; these are numbers of sizes below 14. */
void emit_pack_doubled(struct emit *em, int count, LLVMValueRef *twice,
                       LLVMValueRef *words);
/* x rounded to type t, as an f32. */
LLVMValueRef emit_round_trip(struct emit *em, enum expr_type t, LLVMValueRef x);
/* Code of one value by integer arithmetic, i32; *value, if asked for: what it stands
 * for, without sign and for NaN undefined. */
LLVMValueRef emit_code(struct emit *em, enum expr_type t, LLVMValueRef x,
                       LLVMValueRef *value);
/* `count` codes of `bits` bits, the first one lowest, into one word. */
LLVMValueRef emit_join_codes(struct emit *em, LLVMValueRef *codes, int count, int bits);

/* ---- gen/llvm/quantize.c: outputs with scales */

void emit_nvfp4(struct emit *em, int output, int first, int count);
/* Do codes of this output come from 2 x / d, by integers? */
bool emit_is_doubled(const struct emit *em, const struct expr_output *o);
void emit_mx(struct emit *em, int output, int first, int count);

#endif
