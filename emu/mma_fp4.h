/* mma_fp4.h - the arithmetic of tcgen05.mma on E2M1 operands with block scales.
 *
 * One call is one CTA's share of one instruction with K = 64: 128 rows of A, up to 256
 * rows of B, one scale for every 16 elements (block32 scales come in twice).
 *
 * Every block of 16 products is summed exactly and scaled exactly.  What happens to the
 * four blocks and D is the mode's affair:
 *
 *     reference  they are added exactly, and the sum is rounded once to the nearest
 * f32, ties to even. hardware   what was measured on Blackwell (MMA-Sim, arXiv
 * 2511.10909): the five terms are aligned to the largest of their exponents, each is
 * cut towards zero at 35 fraction bits, they are added exactly, and the sum is cut
 * towards zero to 24 significant bits.  An exponent is that of the scales' product, or
 * D's own.
 *
 * In both the order of operations does not show, and all paths agree bit for bit.  A
 * zero result is +0, a NaN scale or a NaN in D gives 0x7fffffff, an infinity in D
 * stays. docs/numerics.md has the distance between the modes. */
#ifndef FP4EMU_MMA_FP4_H
#define FP4EMU_MMA_FP4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MMA_LANES 128
#define MMA_MAX_N 256
#define MMA_ROW_BYTES 32 /* 64 packed elements */
#define MMA_BLOCKS 4

enum mma_isa { MMA_SCALAR, MMA_AVX2, MMA_AVX512, MMA_ISA_COUNT };
enum mma_mode { MMA_REFERENCE, MMA_HARDWARE, MMA_MODE_COUNT };

struct mma_fp4 {
    const uint8_t *a;   /* 128 rows of 32 bytes, low nibble first */
    const uint8_t *b;   /* n rows of 32 bytes */
    const uint8_t *sfa; /* 128 x 4 scale bytes */
    const uint8_t *sfb; /* n x 4 */
    uint32_t *d;        /* f32 bits, d[column * 128 + lane], as tensor memory lies */
    int n;              /* a multiple of 8 */
    bool ue8m0;         /* scales are UE8M0, else UE4M3 with the sign bit ignored */
    bool negate;        /* of A or of B, but not of both */
    bool accumulate;    /* else D is overwritten */
    enum mma_mode mode;
};

void mma_fp4(enum mma_isa isa, const struct mma_fp4 *m);

const char *mma_isa_name(enum mma_isa isa);    /* "avx2", as FP4EMU_ISA spells it */
const char *mma_mode_name(enum mma_mode mode); /* "hardware", as FP4EMU_MMA spells it */
bool mma_isa_available(enum mma_isa isa);      /* compiled in, and this CPU has it */
/* The one that `name` asks for; the best available when it is NULL or empty.  False,
 * with the reason in `why`, when there is no such path or this CPU cannot run it. */
bool mma_isa_choose(const char *name, enum mma_isa *isa, char *why, size_t why_bytes);

/* ---- between the files of this module */

/* Exponents that bound a group of scales: every nonzero one is a multiple of 2^lo and
 * at most 15/16 * 2^hi. */
struct mma_span {
    int lo, hi;
};

/* How the sum of the four blocks can be formed without error. */
enum mma_sum {
    MMA_SUM_F32,
    MMA_SUM_F64,
    MMA_SUM_WIDE, /* fixed point: mma_fp4_exact() */
};

static inline struct mma_span mma_fp4_span(const uint8_t *scales, int count, bool ue8m0)
{
    int least = 256, most = 0;
    for (int i = 0; i < count; i++) {
        int code = ue8m0 ? scales[i] + 1 : scales[i] & 0x7f;
        if (code > most)
            most = code;
        if (code != 0 && code < least)
            least = code;
    }
    if (most == 0)
        return (struct mma_span){0, 0}; /* zeros only: any span will do */
    if (ue8m0)
        return (struct mma_span){least - 128, most - 127};
    return (struct mma_span){least < 8 ? -9 : least / 8 - 10,
                             most < 8 ? -6 : most / 8 - 6};
}

/* The sum is a multiple of 2^(lo - 2) and, since 4 * 576 * (15/16)^2 < 2^11, less than
 * 2^(hi + 11); lo and hi are those of the products of scales. */
static inline enum mma_sum mma_fp4_sum(struct mma_span a, struct mma_span b)
{
    int lo = a.lo + b.lo - 2, hi = a.hi + b.hi + 11;
    if (hi - lo <= 24 && lo >= -120 && hi <= 120)
        return MMA_SUM_F32;
    /* With lo >= -149 every result below the normal f32 range is exact. */
    if (hi - lo <= 53 && lo >= -149)
        return MMA_SUM_F64;
    return MMA_SUM_WIDE;
}

float mma_fp4_scale(uint8_t code, bool ue8m0);
/* Significand and exponent of a scale that is no NaN: value = significand * 2^exponent.
 */
int32_t mma_fp4_scale_parts(uint8_t code, bool ue8m0, int *exponent);
/* Sum of a block of 16 products, in quarters; eight bytes of A and of B. */
int32_t mma_fp4_block_sum(const uint8_t *a, const uint8_t *b);
/* One element by the widest means; `lane` and `column` in the instruction's D. */
uint32_t mma_fp4_exact(const struct mma_fp4 *m, int lane, int column, uint32_t d);

/* One element in the mode of `m`. */
uint32_t mma_fp4_element(const struct mma_fp4 *m, int lane, int column, uint32_t d);

void mma_fp4_scalar(const struct mma_fp4 *m);

/* ---- mode hardware (mma_model.c) */

#define MMA_MODEL_FRACTION 35
/* What no term has: the exponent of a scale of zero, so that its block takes no part in
 * the alignment. */
#define MMA_NO_EXPONENT (-2000)

/* Exponents that terms are aligned by: of a scale, and of the f32 D. */
int mma_model_scale_exponent(uint8_t code, bool ue8m0);
static inline int mma_model_d_exponent(uint32_t d)
{
    uint32_t e = d >> 23 & 0xff;
    return (e != 0 ? (int)e : 1) - 127;
}
uint32_t mma_model_element(const struct mma_fp4 *m, int lane, int column, uint32_t d);
void mma_model_scalar(const struct mma_fp4 *m);
#if defined(__x86_64__)
void mma_fp4_avx2(const struct mma_fp4 *m);
void mma_fp4_avx512(const struct mma_fp4 *m);
void mma_model_avx2(const struct mma_fp4 *m);
void mma_model_avx512(const struct mma_fp4 *m);

/* Operands unpacked for dot products of four signed by four unsigned bytes.  Four
 * elements that lie in one 32-bit word are the even or the odd elements of eight
 * neighbours; A and B are ordered alike, and a block of 16 stays together. */
struct mma_panels {
    uint8_t a[2][8][MMA_LANES][4];       /* [even, odd][eighth of K]: halves + 12 */
    int8_t b[MMA_MAX_N][2][8][4];        /* halves */
    int32_t bias[MMA_MAX_N][MMA_BLOCKS]; /* -12 * sum of b over the block */
    float scale_a[MMA_BLOCKS][MMA_LANES];
    float scale_b[MMA_MAX_N][MMA_BLOCKS]; /* with the sign and a factor 1/4 */
    /* Mode hardware only: exponents of the scales. */
    int32_t exponent_a[MMA_BLOCKS][MMA_LANES];
    int32_t exponent_b[MMA_MAX_N][MMA_BLOCKS];
};

void mma_fp4_unpack_avx2(const struct mma_fp4 *m, struct mma_panels *p);
#endif

#endif
