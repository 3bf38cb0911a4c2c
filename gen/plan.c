#include "gen/plan.h"

#include <stdio.h>
#include <string.h>

#include "gen/config.h"
#include "gen/plan_epilogue.h"

/* CUtensorMapSwizzle (cuda.h). */
enum { SWIZZLE_64B = 2, SWIZZLE_128B = 3 };

enum {
    MMA_K = 64,           /* elements of one mxf4nvf4 instruction */
    SF_BLOCK_BYTES = 512, /* 128 rows x 4 scales */
    SF_BLOCK_ROWS = 128,
    SF_BLOCK_COLS = 4,      /* tensor memory columns of one scale block */
    TILE_ALIGN_BYTES = 1024 /* natural boundary of the 128-byte swizzle */
};

/* Everything that does not depend on the number of stages. */
static void lay_out_stage(struct plan *p, const struct config *c)
{
    p->config = c;
    p->mmas = c->tile_k / MMA_K;
    p->row_bytes = (uint32_t)c->tile_k / 2;
    p->swizzle = p->row_bytes == 128 ? SWIZZLE_128B : SWIZZLE_64B;
    /* Tiles of 64 and 192 columns may start in the middle of a 128-row block of
     * scales; their columns then begin 64 rows, two columns, into it. */
    p->sfb_blocks = (c->tile_n + SF_BLOCK_ROWS - 1) / SF_BLOCK_ROWS;
    p->a_bytes = (uint32_t)c->tile_m * p->row_bytes;
    p->b_bytes = (uint32_t)c->tile_n * p->row_bytes;
    p->sfa_bytes = (uint32_t)(p->mmas * SF_BLOCK_BYTES);
    p->sfb_bytes = (uint32_t)(p->sfb_blocks * p->mmas * SF_BLOCK_BYTES);
    p->a_offset = 0;
    p->b_offset = p->a_offset + p->a_bytes;
    p->sfa_offset = p->b_offset + p->b_bytes;
    p->sfb_offset = p->sfa_offset + p->sfa_bytes;
    p->stage_bytes = align_up(p->sfb_offset + p->sfb_bytes, TILE_ALIGN_BYTES);
    p->tx_bytes = p->a_bytes + p->b_bytes + p->sfa_bytes + p->sfb_bytes;

    p->epilogue_warps = 4;
    p->load_warp = 4;
    p->mma_warp = 5;
    p->threads = 32 * 6;
    p->acc_count = c->tile_n <= 192 ? 2 : 1;
    p->acc_col = 0;
    p->acc_cols = c->tile_n;
    p->sfa_cols = SF_BLOCK_COLS;
    p->sfb_cols = SF_BLOCK_COLS * p->sfb_blocks;
    p->sf_col = p->acc_col + p->acc_count * p->acc_cols;
    p->sf_set_cols = p->mmas * (p->sfa_cols + p->sfb_cols);
}

static void lay_out_ring(struct plan *p, int stages)
{
    const uint32_t bar = 8;
    const uint32_t accs = (uint32_t)p->acc_count;
    p->stages = stages;
    p->staging_offset = (uint32_t)stages * p->stage_bytes;
    p->barrier_offset = p->staging_offset + p->staging_bytes;
    p->full_bar = p->barrier_offset;
    p->empty_bar = p->full_bar + bar * (uint32_t)stages;
    p->acc_full_bar = p->empty_bar + bar * (uint32_t)stages;
    p->acc_empty_bar = p->acc_full_bar + bar * accs;
    p->tmem_word = p->acc_empty_bar + bar * accs;
    p->smem_bytes = align_up(p->tmem_word + 4, 16);
    p->barrier_bytes = p->smem_bytes - p->barrier_offset;
}

static int stages_in(struct plan *p, uint32_t limit_bytes)
{
    const int most = 32;
    int fit = 0;
    for (int s = 1; s <= most; s++) {
        lay_out_ring(p, s);
        if (p->smem_bytes <= limit_bytes)
            fit = s;
    }
    return fit;
}

int plan_max_stages(const struct config *c, uint32_t limit_bytes)
{
    struct plan p = {0};
    lay_out_stage(&p, c);
    plan_outputs(&p, c);
    return stages_in(&p, limit_bytes);
}

static bool smem_fits(struct plan *p, const struct config *c, struct diags *d)
{
    const uint32_t limit = c->target->smem_bytes;
    const int least = 2;
    int most = stages_in(p, limit);
    int stages = c->stages == STAGES_AUTO ? most : c->stages;
    lay_out_ring(p, stages < least ? least : stages);
    p->smem_limit_bytes = limit;
    if (stages >= least && stages <= most)
        return true;
    const char *field = c->stages == STAGES_AUTO ? "tile" : "stages";
    diag_add(d, DIAG_SMEM_OVER, config_loc(c, field), p->stages, p->smem_bytes,
             p->smem_bytes > limit ? p->smem_bytes - limit : 0, c->target->name, limit);
    diag_note(d, loc_none(),
              "a stage is A %u + B %u + scales %u = %u; epilogue %u, barriers %u",
              p->a_bytes, p->b_bytes, p->sfa_bytes + p->sfb_bytes, p->stage_bytes,
              p->staging_bytes, p->barrier_bytes);
    if (most >= least)
        diag_note(d, loc_none(), "%d stages fit", most);
    else
        diag_note(d, loc_none(),
                  "choose a smaller tile.n or tile.k; two stages is the least");
    return false;
}

static bool tmem_fits(struct plan *p, const struct config *c, struct diags *d)
{
    const int least = 2;
    int left = c->target->tmem_cols - p->sf_col;
    int sets = left > 0 ? left / p->sf_set_cols : 0;
    p->sf_sets = sets < p->stages ? sets : p->stages;
    p->tmem_used_cols = p->sf_col + p->sf_sets * p->sf_set_cols;
    p->tmem_cols = 32;
    while (p->tmem_cols < p->tmem_used_cols)
        p->tmem_cols *= 2;
    if (p->sf_sets >= least)
        return true;
    int need = p->sf_col + least * p->sf_set_cols;
    diag_add(d, DIAG_TMEM_OVER, config_loc(c, "tile"), need,
             need - c->target->tmem_cols, c->target->name, c->target->tmem_cols);
    diag_note(d, loc_none(),
              "%d accumulators of %d columns, %d sets of %d scale columns",
              p->acc_count, p->acc_cols, least, p->sf_set_cols);
    return false;
}

/* PTX ISA 9.0, "Instruction descriptor", kinds mxf4 and mxf4nvf4: E2M1 operands (1),
 * UE4M3 scales (bit 23 clear), scale ids 0. */
static uint32_t instruction_descriptor(int m, int n)
{
    const uint32_t e2m1 = 1;
    return e2m1 << 7 | e2m1 << 10 | (uint32_t)(n >> 3) << 17 | (uint32_t)(m >> 7) << 27;
}

/* PTX ISA 9.0, "Shared memory descriptor": strides in units of 16 bytes, bits 46-48
 * are 0b001, swizzle code in bits 61-63.  The address goes into bits 0-13. */
static uint64_t smem_descriptor(uint32_t stride_bytes, unsigned swizzle_code)
{
    const uint64_t leading = 1, constant = 1;
    return leading << 16 | (uint64_t)(stride_bytes >> 4) << 32 | constant << 46 |
           (uint64_t)swizzle_code << 61;
}

const struct plan *plan_build(struct arena *a, const struct config *c, struct diags *d)
{
    struct plan *p = ARENA_NEW(a, struct plan);
    lay_out_stage(p, c);
    if (!plan_epilogue(p, a, c, d) || !smem_fits(p, c, d) || !tmem_fits(p, c, d))
        return NULL;
    const unsigned code_128b = 2, code_64b = 4;
    const uint32_t rows_of_group = 8;
    p->idesc = instruction_descriptor(c->tile_m, c->tile_n);
    p->ab_desc = smem_descriptor(rows_of_group * p->row_bytes,
                                 p->swizzle == SWIZZLE_128B ? code_128b : code_64b);
    p->sf_desc = smem_descriptor(rows_of_group * 16, 0);
    const char *type = expr_format_name(p->outputs[0].format);
    snprintf(p->kernel, sizeof p->kernel,
             "fp4gen_nvfp4_gemm_%dx%dx%d_s%d_%s%s%s_%s_%08x", c->tile_m, c->tile_n,
             c->tile_k, p->stages, c->expr ? c->epilogue : "", c->expr ? "_" : "", type,
             c->target->name, (unsigned)(c->hash ^ c->hash >> 32));
    return p;
}
