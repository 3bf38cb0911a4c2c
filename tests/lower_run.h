/* lower_run.h - an epilogue as a kernel of its own, run on the emulator and compared
 * with expr_eval() bit for bit.
 *
 * A thread has a row, as in the GEMM; it walks along the row in chunks, the last one
 * through the tail block where N is no multiple of the chunk. */
#ifndef FP4GEN_LOWER_RUN_H
#define FP4GEN_LOWER_RUN_H

#include "core/base.h"
#include "core/diag.h"
#include "gen/expr.h"
#include "gen/lower.h"

/* The inside of `function(e) ... end`; outputs e.d() become bf16.  NULL after a report.
 */
struct expr *lower_trace_or(struct arena *a, const char *body, struct diags *d);
/* ... a failure fails the test. */
struct expr *lower_trace(struct arena *a, const char *body);

struct lower_run {
    const char *target; /* "sm_100f" */
    int chunk, step;    /* see gen/lower.h */
    const struct expr *e;
    uint32_t rows, m, n; /* rows: of acc, threads; at least m */
    float alpha;
    const float *acc; /* rows x n_padded, n rounded up to the chunk */
    /* Of input i: scalar bits, or elements (f32 s32 u32: 32 bits, bf16 f16: 16). */
    uint32_t scalars[EXPR_MAX_INPUTS];
    const void
        *vectors[EXPR_MAX_INPUTS]; /* AUX: m rows, without gaps but to 16 bytes */
    /* -- filled in */
    const struct lowered *lowered;
    uint32_t words_per_chunk, chunks;
    uint32_t *words; /* [row][chunk][word]: words, scale words, amax of each output */
};

size_t lower_padded_cols(const struct lower_run *r);
/* Row stride of an AUX input with `cols` elements. */
size_t lower_aux_stride_bytes(const struct expr_input *in, size_t cols);
/* The kernel's text. */
const char *lower_kernel(struct arena *a, struct lower_run *r);
/* Lowers and runs it; whatever goes wrong fails the test. */
void lower_run(struct arena *a, struct lower_run *r);
/* Runs it, and compares every word with expr_eval(). */
void lower_run_check(struct arena *a, struct lower_run *r);
/* Codes of output k in row `row`, one an element; scales, one a block. */
void lower_codes(const struct lower_run *r, int k, uint32_t row, uint32_t *codes,
                 uint8_t *scales);

/* Assembles; false: ptxas is not there.  A refusal fails the test. */
bool lower_assemble(struct arena *a, const char *text, const char *target);

#endif
