/* mma_any.h - the arithmetic of MMAs on elements of 4 to 32 bits.
 *
 * One call is one CTA's share of one instruction: `rows` rows of A by `n` rows of B, 32
 * bytes of operand each.  The modes are those of mma_fp4.h; in mode hardware every
 * product is a term of its own, with 25 fraction bits, and sums in f16 are rounded to
 * nearest (MMA-Sim, arXiv 2511.10909).  Integers are exact, and wrap or saturate.
 *
 * NaN in any operand, infinity times zero and infinities of both signs give 0x7fffffff
 * (f16: 0x7fff). */
#ifndef FP4EMU_MMA_ANY_H
#define FP4EMU_MMA_ANY_H

#include "emu/mma_fp4.h"

enum mma_type {
    MMA_F16,
    MMA_BF16,
    MMA_TF32, /* of 32 bits, the lower 13 ignored */
    MMA_E4M3,
    MMA_E5M2,
    MMA_E2M3, /* 6 bits: 16 elements in the first 12 of 16 bytes */
    MMA_E3M2,
    MMA_E2M1, /* 4 bits: 16 elements in the first 8 of 16 bytes */
    MMA_U8,
    MMA_S8,
};

enum mma_result { MMA_TO_F16, MMA_TO_F32, MMA_TO_S32 };

#define MMA_ANY_MAX_K 32

struct mma_any {
    enum mma_type a_type, b_type;
    enum mma_result result;
    const uint8_t *a, *b;     /* rows of 32 bytes */
    const uint8_t *sfa, *sfb; /* UE8M0, four equal bytes a row; NULL: no scales */
    uint32_t *d; /* d[column * rows + row]; f16 in the lower half, the upper is 0 */
    int rows, n;
    bool negate; /* the products */
    bool accumulate;
    bool saturate;    /* integers */
    int scale_d_down; /* D is first multiplied by 2^-this */
    bool is_wgmma;    /* mode hardware of FP8: 13 fraction bits, and 13 in the result */
    bool fp8_by_f16;  /* mode hardware: elements are made f16; 0 1 of each four are
                         summed, then 2 3, then D is added, as ptxas has it before
                         sm_120 (it was seen on an H200) */
    enum mma_mode mode;
};

void mma_any(const struct mma_any *m);
/* Elements of a row, and bytes that one takes there; narrow ones take 1. */
int mma_any_k(enum mma_type type);
static inline uint32_t mma_type_bytes(enum mma_type type)
{
    return (uint32_t)(MMA_ROW_BYTES / mma_any_k(type));
}

#endif
