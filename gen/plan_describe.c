/* The picture of `gen plan`. */
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "gen/config.h"
#include "gen/lower.h"
#include "gen/plan.h"

static void put_smem(const struct plan *p, struct buf *out)
{
    buf_printf(out,
               "  shared memory   %6u of %u bytes    %d stages x %u, epilogue %u, "
               "barriers %u\n",
               p->smem_bytes, p->smem_limit_bytes, p->stages, p->stage_bytes,
               p->staging_bytes, p->barrier_bytes);
    buf_printf(out, "    a stage       A %u + B %u + SFA %u + SFB %u\n", p->a_bytes,
               p->b_bytes, p->sfa_bytes, p->sfb_bytes);
    buf_puts(out, "    from byte     ");
    for (int s = 0; s < p->stages; s++)
        buf_printf(out, "%u  ", (uint32_t)s * p->stage_bytes);
    buf_printf(out, "| staging %u | barriers %u | end %u\n", p->staging_offset,
               p->barrier_offset, p->smem_bytes);
}

static void put_tmem(const struct plan *p, struct buf *out)
{
    buf_printf(out,
               "  tensor memory   %6d of %d columns   %d x accumulator %d, %d x scales "
               "(A %d, B %d)\n",
               p->tmem_used_cols, p->config->target->tmem_cols, p->acc_count,
               p->acc_cols, p->sf_sets, p->mmas * p->sfa_cols, p->mmas * p->sfb_cols);
    /* One character for eight columns. */
    const int cell = 8;
    buf_puts(out, "    columns       |");
    for (int c = 0; c < p->config->target->tmem_cols; c += cell) {
        char mark = '.';
        if (c < p->sf_col)
            mark = (char)('0' + (c - p->acc_col) / p->acc_cols);
        else if (c < p->tmem_used_cols)
            mark = (char)('a' + (c - p->sf_col) / p->sf_set_cols);
        buf_printf(out, "%c", mark);
    }
    buf_printf(out, "|  0-1 accumulators, a.. scale sets; %d allocated\n",
               p->tmem_cols);
}

static void put_barriers(const struct plan *p, struct buf *out)
{
    buf_printf(out, "  barriers        full[%d] at %u: 1 arrival + %u bytes\n",
               p->stages, p->full_bar, p->tx_bytes);
    buf_printf(out, "                  empty[%d] at %u: 1 commit\n", p->stages,
               p->empty_bar);
    buf_printf(out, "                  acc_full[%d] at %u: 1 commit\n", p->acc_count,
               p->acc_full_bar);
    buf_printf(out, "                  acc_empty[%d] at %u: %d epilogue warps\n",
               p->acc_count, p->acc_empty_bar, p->epilogue_warps);
}

static void put_schedule(const struct plan *p, struct buf *out)
{
    buf_printf(out,
               "  warps           0-%d epilogue, %d load, %d mma and tensor memory: %d "
               "threads\n",
               p->epilogue_warps - 1, p->load_warp, p->mma_warp, p->threads);
    const int file = 65536, most = 255;
    int budget = file / p->threads;
    buf_printf(
        out,
        "  registers       at most %d a thread (%d / %d threads, 255 by encoding)\n",
        budget < most ? budget : most, file, p->threads);
    buf_puts(out, "  schedule\n");
    buf_printf(out, "    load          empty[s] | expect %u | A B SFA SFB | next s\n",
               p->tx_bytes);
    buf_puts(out, "    mma           full[s]  | cp 0");
    for (int i = 0; i < p->mmas; i++) {
        buf_printf(out, " | mma %d", i);
        if (i + 1 < p->mmas)
            buf_printf(out, "  cp %d", i + 1);
    }
    buf_puts(out, " | empty[s]      ... last step: acc_full[a]\n");
    buf_printf(
        out,
        "    epilogue      acc_full[a] | ld | %d x { wait, %s | %s | staging } | "
        "last wait: acc_empty[a]\n",
        p->config->tile_n / p->chunk_cols,
        p->acc_sets == 2 ? "ld next" : "ld next behind it",
        p->lowered ? "expression" : "* alpha");
    if (p->acc_count == 2)
        buf_puts(out, "    two accumulators: the epilogue of a tile runs beside the "
                      "next tile's MMAs\n"
                      "      mma       [ tile 0 -> acc 0 ][ tile 1 -> acc 1 ][ tile 2 "
                      "-> acc 0 ]\n"
                      "      epilogue                     [ acc 0           ][ acc 1   "
                      "        ]\n");
    else
        buf_puts(
            out,
            "    one accumulator: MMAs and epilogue of consecutive tiles take turns\n"
            "      mma       [ tile 0 ]            [ tile 1 ]\n"
            "      epilogue            [ tile 0 ]            [ tile 1 ]\n");
    if (p->sf_sets < p->stages)
        buf_printf(out,
                   "    %d scale sets for %d stages: a copy waits for the commit %d "
                   "steps back\n",
                   p->sf_sets, p->stages, p->sf_sets);
}

static void put_output(const struct plan_output *o, const struct plan *p,
                       struct buf *out)
{
    const char *format = expr_format_name(o->format);
    buf_printf(out, "    output        %s, %s: ", o->name, format);
    if (!o->words) {
        buf_puts(out, "one atomic maximum a warp\n");
        return;
    }
    buf_printf(out, "%d columns a tile, ", p->config->tile_n >> o->cols_shift);
    if (o->panels > 1)
        buf_printf(out, "%d x ", o->panels);
    buf_printf(out, "%u bytes a row stored after %d chunk%s", o->row_bytes,
               o->group_chunks, o->group_chunks > 1 ? "s" : "");
    if (o->scale_block)
        buf_printf(out, "; a scale byte for %d, %d at once", o->scale_block,
                   o->scale_bytes * o->hold_scales);
    buf_puts(out, "\n");
}

/* What a launch has to bring along. */
static void put_parameters(const struct expr *e, struct buf *out)
{
    static const char *const shapes[][2] = {
        [EXPR_SCALAR] = {"a value or a device pointer", ""},
        [EXPR_VEC_COL] = {"N of them", "N/2 of them"},
        [EXPR_VEC_ROW] = {"M of them", ""},
        [EXPR_AUX] = {"M x N of them, with a row stride",
                      "M x N/2 of them, with a row stride"},
    };
    for (int i = 0; i < e->input_count; i++) {
        const struct expr_input *in = &e->inputs[i];
        buf_printf(out, "    parameter     %s, %s: %s", in->name,
                   expr_type_name(in->type),
                   shapes[in->kind][in->columns == EXPR_PAIRS]);
        if (in->has_default) {
            buf_puts(out, "; ");
            expr_print_default(in, out);
            buf_puts(out, " unless given");
        }
        buf_puts(out, "\n");
    }
}

static void put_epilogue(const struct plan *p, struct buf *out)
{
    const struct config *c = p->config;
    const struct lowered *l = p->lowered;
    buf_printf(out,
               "  epilogue        %s, %d columns at a time in %d set%s of registers\n",
               c->epilogue, p->chunk_cols, p->acc_sets, p->acc_sets > 1 ? "s" : "");
    if (l)
        expr_print(c->expr, "    ", out);
    if (l)
        put_parameters(c->expr, out);
    if (l)
        buf_printf(out,
                   "    instructions  %.1f a value of %s: %d a chunk, %d of them for "
                   "extreme values; %d a tile\n",
                   lower_insns_per_value(c->expr, l), p->outputs[0].name,
                   l->chunk.insns, l->chunk.rare_insns, l->tile.insns);
    else
        buf_printf(out, "    instructions  %.1f a value\n",
                   p->outputs[0].bits == 32 ? 0.5 : 1.0);
    buf_printf(out, "    registers     about %d a thread", p->epilogue_registers);
    if (p->step)
        buf_printf(out, "; computed %d columns at a time, for few of them", p->step);
    buf_puts(out, "\n");
    for (int k = 0; k < p->output_count; k++)
        put_output(&p->outputs[k], p, out);
}

void plan_describe(const struct plan *p, struct buf *out)
{
    const struct config *c = p->config;
    buf_printf(out, "%s for %s: tile %d x %d x %d, D %s, epilogue %s\n", c->name,
               c->target->name, c->tile_m, c->tile_n, c->tile_k,
               expr_format_name(p->outputs[0].format), c->epilogue);
    put_smem(p, out);
    put_tmem(p, out);
    put_barriers(p, out);
    put_epilogue(p, out);
    put_schedule(p, out);
}
