/* plan.h - decides where everything of one kernel lives.
 *
 * plan_build() turns a checked config into byte offsets, barriers and tensor memory
 * columns.  Templates read the plan and lay out nothing themselves.
 *
 * Shared memory, from its 1024-byte aligned start:
 *   stages x { A | B | SFA | SFB }, epilogue staging, barriers and the TMEM address */
#ifndef FP4GEN_PLAN_H
#define FP4GEN_PLAN_H

#include <stdint.h>

#include "gen/expr.h"

struct arena;
struct config;
struct diags;

struct lowered;

/* One output.  A thread has a row of it; a chunk of accumulators gives `words`
 * registers, which are stored to shared memory 16 bytes at a time and go out by TMA,
 * 32 rows of a warp together. */
struct plan_output {
    const char *name; /* "d" */
    enum expr_format format;
    int bits;        /* of an element; amax: 0, and all below too */
    int cols_shift;  /* columns: N >> cols_shift; 1: of pairs */
    int scale_block; /* columns of a scale; 0: none */
    int chunk_cols, words;
    int scale_bytes;      /* of a chunk: 1, 2, 4; 0: none */
    int hold_words;       /* chunks whose words make 16 bytes: 1 or 2 */
    int hold_scales;      /* chunks whose scales are stored at once: 1 or 2 */
    int group_chunks;     /* of one store */
    int panels;           /* boxes of a store, one beside the other */
    int piece_elems;      /* in 16 bytes */
    int box_elems;        /* a panel's columns, in elements of the tensor map */
    int map_shift;        /* columns >> map_shift: those of the map; E2M1: 1, bytes */
    int map_type;         /* CUtensorMapDataType */
    int swizzle;          /* CUtensorMapSwizzle */
    uint32_t row_bytes;   /* of a panel */
    uint32_t panel_bytes; /* 32 rows */
    uint32_t staging_offset,
        staging_warp; /* first panel of warp 0; bytes to the next */
};

struct plan {
    const struct config *config; /* borrowed: same arena */
    char kernel[128];            /* entry name */
    int stages;
    int mmas; /* MMAs per stage, each K = 64 elements */
    /* bytes of one stage, and offsets in it */
    uint32_t a_bytes, b_bytes, sfa_bytes, sfb_bytes, stage_bytes;
    uint32_t a_offset, b_offset, sfa_offset, sfb_offset;
    uint32_t row_bytes; /* pitch of A and B rows in a stage: K tile / 2 */
    int swizzle;        /* CUtensorMapSwizzle of A and B */
    int sfb_blocks;     /* 128-row blocks of SFB that a tile touches */
    /* epilogue: chunks of chunk_cols accumulators a thread */
    int chunk_cols;
    int acc_sets; /* of registers: 2, one is loaded while the other is computed with */
    int unroll;   /* chunks in the text: 2 where there are two sets or two are held */
    struct plan_output outputs[EXPR_MAX_OUTPUTS];
    int output_count;
    const struct lowered *lowered;            /* NULL: D = alpha * sum, no expression */
    const char *chunk_text[2], *tail_text[2]; /* its blocks, for each set */
    int epilogue_registers;                   /* of a thread, estimated */
    int step; /* columns of a chunk that are computed together; 0: all */
    uint32_t staging_offset, staging_bytes;
    /* barriers, byte offsets in shared memory */
    uint32_t barrier_offset, barrier_bytes;
    uint32_t full_bar, empty_bar;         /* arrays of `stages` */
    uint32_t acc_full_bar, acc_empty_bar; /* arrays of `acc_count` */
    uint32_t tmem_word;
    uint32_t smem_bytes; /* dynamic shared memory of one CTA */
    uint32_t smem_limit_bytes;
    /* tensor memory, 32-bit columns */
    int acc_count;                 /* accumulators: 2, or 1 for N = 256 */
    int acc_col, acc_cols;         /* first, and columns of one */
    int sf_col, sf_set_cols;       /* first scale set, and columns of one */
    int sf_sets;                   /* min(stages, what fits); 2 at least */
    int sfa_cols, sfb_cols;        /* of one K = 64 step */
    int tmem_used_cols, tmem_cols; /* used; allocated (a power of two) */
    /* constants that go into the PTX */
    uint32_t idesc;
    uint64_t ab_desc, sf_desc; /* shared memory descriptors without the address */
    uint32_t tx_bytes;         /* bytes that complete one full barrier phase */
    int threads, epilogue_warps, load_warp, mma_warp;
};

/* Lays out one kernel, in `a`.  NULL when it does not fit; `d` then says why. */
const struct plan *plan_build(struct arena *a, const struct config *c, struct diags *d);

/* Exact maximum of stages for the config in `limit_bytes` of shared memory; 0: none. */
int plan_max_stages(const struct config *c, uint32_t limit_bytes);

struct image;
/* What the runtime needs: the manifest's content, without the text of the kernel. */
void plan_image(const struct plan *p, struct image *out);

struct buf;
/* The picture of `gen plan`: shared memory, tensor memory, barriers, roles, schedule.
 */
void plan_describe(const struct plan *p, struct buf *out);

#endif
