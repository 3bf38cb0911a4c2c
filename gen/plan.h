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

struct arena;
struct config;
struct diags;

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
    /* epilogue: chunks of chunk_cols columns, one staging area a warp */
    int chunk_cols, d_elem_bytes, d_swizzle;
    uint32_t staging_offset, staging_bytes, staging_warp_bytes;
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
