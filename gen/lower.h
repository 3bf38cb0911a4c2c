/* lower.h - an epilogue as blocks of PTX for a template.
 *
 * LLVM does the work, in libfp4gen-llvm.so and in a process of its own, so that nothing
 * here waits for it to be loaded and nothing here dies with it; results are kept in
 * memory and on disk.  The three blocks:
 *
 *   tile    once for a thread and a tile: what depends on the row alone
 *   chunk   `chunk` columns from register `col` on, all of them below N
 *   tail    the same where columns may lie outside; needed for the last chunk of a row
 *
 * A block is text in braces with its own registers.  It reads and writes registers of
 * the template by name (all .b32, where not said otherwise):
 *
 *   read     v0 .. v{chunk-1}   accumulators      alpha
 *            row                row of D of this thread; rows from m on are padding
 *            col                first column of the chunk, a multiple of `chunk`
 *            m, n               sizes of the accumulator matrix, below 2^31
 *            arg_NAME           scalar parameter; or .b64: global address of a vector
 *                               or of a second tile
 *            argld_NAME         .b64: row stride of a second tile, bytes
 *   written  o{k}_w{i}          output k, packed, lowest column in the lowest bits
 *            o{k}_s{i}          its scales, one a byte; 0 for padding rows
 *            o{k}_amax          its amax of this chunk, f32, never negative, 0 for
 *                               padding rows
 *
 * lowered->decls declares all but v, alpha, row, col, m and n.  Addresses of vectors
 * and tiles, and strides, are multiples of 16 bytes. */
#ifndef FP4GEN_LOWER_H
#define FP4GEN_LOWER_H

#include "core/base.h"
#include "core/diag.h"
#include "core/target.h"
#include "gen/expr.h"

#define LOWER_REVISION 4 /* of the text of requests and replies */

struct lower_block {
    const char *text; /* "{ ... }" with a newline behind it; "" when there is nothing */
    int insns;        /* PTX instructions, without the pairing of registers */
    int rare_insns;   /* of these: jumped over but for extreme values */
    int live_words;   /* most 32-bit registers that hold a value at once */
};

struct lowered {
    const char *decls;
    struct lower_block tile, chunk, tail;
    int tile_words; /* 32-bit registers from the tile block to the chunks */
    int chunk_cols;
};

/* What the template calls what a block reads; NULL: the name itself. */
struct lower_names {
    const char *v, *alpha, *row, *col, *m, *n;
};

struct lower_request {
    const struct expr *e;
    const struct target *target;
    int ptx_version;    /* times ten, at least the target's and 86 */
    int chunk;          /* 16, 32 or 64 tile columns */
    int step;           /* of these at a time, 8, for few registers; 0: all */
    const char *prefix; /* of the block's own registers and labels: "ep" */
    struct lower_names names;
    struct loc loc; /* for messages */
};

/* NULL after a report. */
const struct lowered *lower_epilogue(struct arena *a, const struct lower_request *r,
                                     struct diags *d);

/* Of the chunk or the tile block: 128 KB of instructions, about what an SM keeps near;
 * and what LLVM and ptxas have done in seconds. */
#define LOWER_MOST_INSNS 8192
/* A lower bound for them, without asking LLVM. */
int lower_size(const struct expr *e, int chunk);

/* Words of output `o` in a chunk, and words of its scales. */
int lower_words(const struct expr_output *o, int chunk);
int lower_scale_words(const struct expr_output *o, int chunk);
/* Instructions per value of the first output, of the usual way through `chunk`. */
double lower_insns_per_value(const struct expr *e, const struct lowered *l);

#endif
