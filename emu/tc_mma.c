/* tc_mma.c - what the tensor core does on its own: mma, cp, commit.
 *
 * One thread issues; the operations of a CTA, or of a pair, run in issue order
 * (async.c: in_order).  Issue checks descriptors, columns and what is still at work;
 * completion reads shared and tensor memory as they are then. */
#include <inttypes.h>

#include "emu/check_desc.h"
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/tcgen05.h"
#include "emu/tmem.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

int tc_ctas(struct warp *w, uint32_t group, struct cta *ctas[2])
{
    ctas[0] = ctas[1] = w->cta;
    if (group != 2)
        return 1;
    ctas[~w->cta->rank & 1] = tmem_peer(w->cta);
    return 2;
}

/* One thread issues; 32 of them would do it 32 times (PTX ISA 9.0, "Issue
 * Granularity"). */
static bool check_one_lane(struct warp *w, uint32_t lanes)
{
    return (lanes & (lanes - 1)) == 0 ||
           report(
               grid_of(w), w, CHECK_COLLAPSED_WORK,
               "%d lanes execute this, and each does it anew; one elected lane should",
               bits_count(lanes)) == FLOW_NEXT;
}

enum flow tc_issue_lanes(struct warp *w, const struct op *op, uint32_t lanes,
                         tc_issue_fn *issue)
{
    if (!check_one_lane(w, lanes))
        return FLOW_STOP;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        if (!issue(w, op, bits_lowest(rest)))
            return FLOW_STOP;
    return FLOW_NEXT;
}

bool tc_column(struct warp *w, uint32_t address, const char *what, uint32_t *col)
{
    *col = address & 0xffff;
    if (address >> 16 == 0)
        return true;
    report(grid_of(w), w, CHECK_TMEM_OUTSIDE,
           "%s: address 0x%08x names lane %u; it must be 0 here", what, address,
           address >> 16);
    return false;
}

/* ---- cp */

struct cp_args {
    uint64_t desc;
    uint32_t col;
};

static const struct {
    uint32_t rows, chunks; /* in shared memory; a chunk is 16 bytes, four columns */
} cp_shapes[] = {
    [TC_CP_32X128B_X4] = {32, 1},    [TC_CP_64X128B_02_13] = {64, 1},
    [TC_CP_64X128B_01_23] = {64, 1}, [TC_CP_128X128B] = {128, 1},
    [TC_CP_128X256B] = {128, 2},     [TC_CP_4X256B] = {4, 2},
};

/* Lanes that row `row` goes to; how many. */
static int cp_lanes(enum tc_cp_shape shape, uint32_t row, uint32_t lanes[4])
{
    switch (shape) {
    case TC_CP_32X128B_X4:
        for (uint32_t q = 0; q < 4; q++)
            lanes[q] = q * 32 + row;
        return 4;
    case TC_CP_64X128B_02_13:
        lanes[0] = row;
        lanes[1] = row + 64;
        return 2;
    case TC_CP_64X128B_01_23:
        lanes[0] = row / 32 * 64 + row % 32;
        lanes[1] = lanes[0] + 32;
        return 2;
    case TC_CP_128X128B:
    case TC_CP_128X256B:
        lanes[0] = row;
        return 1;
    case TC_CP_4X256B: /* the last four lanes of each quarter */
        for (uint32_t q = 0; q < 4; q++)
            lanes[q] = q * 32 + 28 + row;
        return 4;
    }
    return 0;
}

static bool run_cp(struct async_op *o)
{
    struct warp *w = o->issuer;
    const struct op *op = &grid_of(w)->kernel->ops[o->pc];
    enum tc_cp_shape shape = (enum tc_cp_shape)op->aux[1];
    struct cp_args args;
    struct smem_desc desc;
    struct cta *ctas[2];
    memcpy(&args, &o->arg, sizeof args);
    if (!desc_decode(w, args.desc, "cp", &desc))
        return false;
    int count = tc_ctas(w, op->aux[0], ctas);
    for (int i = 0; i < count; i++)
        for (uint32_t row = 0; row < cp_shapes[shape].rows; row++) {
            uint32_t lanes[4];
            int lane_count = cp_lanes(shape, row, lanes);
            for (uint32_t chunk = 0; chunk < cp_shapes[shape].chunks; chunk++) {
                uint32_t words[4];
                memcpy(words, ctas[i]->smem + desc_chunk(&desc, row, chunk), 16);
                uint32_t *to = tmem_column(ctas[i], args.col + 4 * chunk);
                for (int word = 0; word < 4; word++, to += TMEM_LANES)
                    for (int lane = 0; lane < lane_count; lane++)
                        to[lanes[lane]] = words[word];
            }
        }
    return true;
}

static bool issue_cp(struct warp *w, const struct op *op, int lane)
{
    enum tc_cp_shape shape = (enum tc_cp_shape)op->aux[1];
    uint32_t rows = cp_shapes[shape].rows, chunks = cp_shapes[shape].chunks;
    struct cp_args args = {.desc = opnd_u64(w, &op->opnds[1], lane)};
    struct smem_desc desc;
    struct cta *ctas[2];
    struct tmem_state *s = tmem_state(w, (int)op->aux[0]);
    if (!s || !tmem_peer_lives(w, (int)op->aux[0]) ||
        !tc_column(w, (uint32_t)opnd_address(w, &op->opnds[0], lane), "the destination",
                   &args.col) ||
        !desc_decode(w, args.desc, "cp", &desc))
        return false;
    int count = tc_ctas(w, op->aux[0], ctas);
    struct tmem_op *entry = tmem_log(s, w, lane, TMEM_CP);
    for (int i = 0; i < count; i++)
        if (!desc_check(w, ctas[i], &desc, "cp", rows, chunks) ||
            (shape == TC_CP_32X128B_X4 &&
             !desc_check_scales(w, ctas[i], &desc, "cp")) ||
            !tmem_owned(w, ctas[i], args.col, 4 * chunks, "the destination") ||
            !tmem_writes(w, entry,
                         (struct tmem_area){ctas[i], args.col, 4 * chunks, 15},
                         "the destination"))
            return false;
    struct async_op *o = async_new(w, ASYNC_TC_CP, lane);
    o->in_order = true;
    o->lanes = (uint32_t)1 << lane;
    o->number = entry->number;
    o->run = run_cp;
    memcpy(&o->arg, &args, sizeof args);
    for (int i = 0; i < count; i++)
        desc_touch(o, ctas[i], &desc, rows, chunks);
    return async_issue(o);
}

enum flow tc_cp(struct warp *w, const struct op *op, uint32_t lanes)
{
    return tc_issue_lanes(w, op, lanes, issue_cp);
}

/* ---- mma */

struct mma_args {
    struct smem_desc a, b;
    struct instr_desc desc;
    uint32_t d, sfa, sfb; /* columns */
    bool accumulate;
};
_Static_assert(sizeof(struct mma_args) <= sizeof((struct async_op *)0)->arg,
               "mma_args must fit an async_op");

bool tc_gather_scales(struct warp *w, struct cta *c, uint32_t col, uint32_t rows,
                      uint32_t block, uint32_t id, const char *what, uint8_t *to)
{
    for (uint32_t i = 0; i < tc_scale_cols(rows); i++) {
        const uint32_t *words = tmem_column(c, col + i);
        for (uint32_t q = 1; q < TMEM_QUARTERS; q++) {
            if (memcmp(words, words + 32 * q, 128) == 0)
                continue;
            report(
                grid_of(w), w, CHECK_SCALE_COPIES,
                "%s in tensor memory column %u of CTA %u: lanes %u to %u differ from "
                "lanes 0 to 31; all four quarters must hold the scales",
                what, col + i, c->rank, q * 32, q * 32 + 31);
            return false;
        }
        for (uint32_t row = i * 32; row < rows && row < i * 32 + 32; row++) {
            uint32_t word = words[row % 32];
            if (block == 16) {
                memcpy(to + row * 4, &word, 4);
            } else if (block == TC_ONE_SCALE) {
                memset(to + row * 4, (int)(word >> 8 * id & 0xff), 4);
            } else {
                word >>= 8 * id;
                memset(to + row * 4, (int)(word & 0xff), 2);
                memset(to + row * 4 + 2, (int)(word >> 8 & 0xff), 2);
            }
        }
    }
    return true;
}

static bool run_mma(struct async_op *o)
{
    struct warp *w = o->issuer;
    const struct op *op = &grid_of(w)->kernel->ops[o->pc];
    uint8_t a[MMA_LANES * MMA_ROW_BYTES], b[MMA_MAX_N * MMA_ROW_BYTES];
    uint8_t sfa[MMA_LANES * MMA_BLOCKS], sfb[MMA_MAX_N * MMA_BLOCKS];
    struct mma_args args;
    struct cta *ctas[2];
    memcpy(&args, &o->arg, sizeof args);
    const struct instr_desc *desc = &args.desc;
    int count = tc_ctas(w, op->aux[0], ctas);
    /* Each CTA of a pair holds its share of the rows of B. */
    uint32_t rows = desc->n / (uint32_t)count;
    for (int i = 0; i < count; i++)
        desc_gather(ctas[i], &args.b, rows, 2, b + (uint32_t)i * rows * MMA_ROW_BYTES);
    for (int i = 0; i < count; i++) {
        struct cta *c = ctas[i];
        desc_gather(c, &args.a, MMA_LANES, 2, a);
        if (!tc_gather_scales(w, c, args.sfa, MMA_LANES, op->aux[1], desc->sfa_id,
                              "scales of A", sfa) ||
            !tc_gather_scales(w, c, args.sfb, desc->n, op->aux[1], desc->sfb_id,
                              "scales of B", sfb))
            return false;
        struct mma_fp4 mma = {
            .a = a,
            .b = b,
            .sfa = sfa,
            .sfb = sfb,
            .d = tmem_column(c, args.d),
            .n = (int)desc->n,
            .ue8m0 = desc->ue8m0,
            .negate = desc->negate,
            .accumulate = args.accumulate,
            .mode = grid_of(w)->mma_as_hardware ? MMA_HARDWARE : MMA_REFERENCE,
        };
        mma_fp4(tmem_state_if_any(c)->isa, &mma);
    }
    return true;
}

static bool overlap(uint32_t a, uint32_t a_cols, uint32_t b, uint32_t b_cols)
{
    return a < b + b_cols && b < a + a_cols;
}

bool tc_scale_column(struct warp *w, const struct op *op, int index, int lane,
                     const char *what, uint32_t *col)
{
    /* Bits 30-31 are a byte number that programs keep there for the instruction
     * descriptor. */
    uint32_t address = (uint32_t)opnd_address(w, &op->opnds[index], lane) & 0x3fffffff;
    if (!tc_column(w, address, what, col))
        return false;
    if (*col % 2 == 0)
        return true;
    report(grid_of(w), w, CHECK_ALIGNMENT,
           "%s at tensor memory column %u: scales start at even columns", what, *col);
    return false;
}

/* Columns and hazards, in one CTA. */
static bool check_columns(struct warp *w, struct tmem_op *entry, struct cta *c,
                          const struct mma_args *args)
{
    uint32_t n = args->desc.n, sfb_cols = tc_scale_cols(n),
             sfa_cols = tc_scale_cols(MMA_LANES);
    if (!tmem_owned(w, c, args->d, n, "the accumulator") ||
        !tmem_owned(w, c, args->sfa, sfa_cols, "scales of A") ||
        !tmem_owned(w, c, args->sfb, sfb_cols, "scales of B"))
        return false;
    bool a_in_d = overlap(args->d, n, args->sfa, sfa_cols);
    if (a_in_d || overlap(args->d, n, args->sfb, sfb_cols)) {
        report(
            grid_of(w), w, CHECK_SCALE_OVERLAP,
            "the accumulator in columns %u to %u overlaps the scales of %s from column "
            "%u",
            args->d, args->d + n - 1, a_in_d ? "A" : "B",
            a_in_d ? args->sfa : args->sfb);
        return false;
    }
    return tmem_reads(w, entry, (struct tmem_area){c, args->sfa, sfa_cols, 15},
                      "scales of A") &&
           tmem_reads(w, entry, (struct tmem_area){c, args->sfb, sfb_cols, 15},
                      "scales of B") &&
           tmem_writes(w, entry, (struct tmem_area){c, args->d, n, 15},
                       "the accumulator");
}

static bool issue_mma(struct warp *w, const struct op *op, int lane)
{
    struct mma_args args = {0};
    struct cta *ctas[2];
    struct tmem_state *s = tmem_state(w, (int)op->aux[0]);
    if (!s || !tmem_peer_lives(w, (int)op->aux[0]) ||
        !idesc_decode(w, opnd_u32(w, &op->opnds[3], lane), (int)op->aux[0], op->aux[2],
                      (int)op->aux[1], &args.desc) ||
        !desc_decode(w, opnd_u64(w, &op->opnds[1], lane), "A", &args.a) ||
        !desc_decode(w, opnd_u64(w, &op->opnds[2], lane), "B", &args.b) ||
        !tc_column(w, (uint32_t)opnd_address(w, &op->opnds[0], lane), "the accumulator",
                   &args.d) ||
        !tc_scale_column(w, op, 4, lane, "scales of A", &args.sfa) ||
        !tc_scale_column(w, op, 5, lane, "scales of B", &args.sfb))
        return false;
    args.accumulate = opnd_mask(w, &op->opnds[6]) >> lane & 1;

    int count = tc_ctas(w, op->aux[0], ctas);
    uint32_t b_rows = args.desc.n / (uint32_t)count;
    struct tmem_op *entry = tmem_log(s, w, lane, TMEM_MMA);
    entry->acc_col = (uint16_t)args.d;
    entry->acc_cols = (uint16_t)args.desc.n;
    entry->starts = !args.accumulate;
    for (int i = 0; i < count; i++)
        if (!desc_check(w, ctas[i], &args.a, "A", MMA_LANES, 2) ||
            !desc_check(w, ctas[i], &args.b, "B", b_rows, 2) ||
            !check_columns(w, entry, ctas[i], &args))
            return false;
    struct async_op *o = async_new(w, ASYNC_MMA, lane);
    o->in_order = true;
    o->lanes = (uint32_t)1 << lane;
    o->number = entry->number;
    o->run = run_mma;
    o->cycles = args.desc.n / 2;
    memcpy(&o->arg, &args, sizeof args);
    for (int i = 0; i < count; i++) {
        desc_touch(o, ctas[i], &args.a, MMA_LANES, 2);
        desc_touch(o, ctas[i], &args.b, b_rows, 2);
    }
    return async_issue(o);
}

enum flow tc_mma(struct warp *w, const struct op *op, uint32_t lanes)
{
    return tc_issue_lanes(w, op, lanes, issue_mma);
}

/* ---- commit */

struct commit_args {
    uint32_t number; /* newest operation that it stands for */
    uint32_t offset; /* of the barrier */
    uint32_t mask;   /* CTAs of the cluster */
};

static bool run_commit(struct async_op *o)
{
    struct warp *w = o->issuer;
    struct cluster *k = w->cta->cluster;
    struct commit_args args;
    memcpy(&args, &o->arg, sizeof args);
    for (uint32_t rest = args.mask; rest; rest &= rest - 1) {
        struct cta *c = &k->ctas[bits_lowest(rest)];
        if (c->live_warps == 0) {
            report(grid_of(w), w, CHECK_CTA_EXIT,
                   "the commit arrives in CTA %u of the cluster, which has exited",
                   c->rank);
            return false;
        }
        if (!mbar_arrive(w, c, args.offset, 1))
            return false;
    }
    return true;
}

static bool issue_commit(struct warp *w, const struct op *op, int lane)
{
    struct cluster *k = w->cta->cluster;
    struct tmem_state *s = tmem_state(w, (int)op->aux[0]);
    uint64_t address = opnd_address(w, &op->opnds[0], lane);
    if (!s)
        return false;
    if (!op->aux[2] && address - SHARED_WINDOW >= WINDOW_BYTES) {
        report(grid_of(w), w, CHECK_BAD_BARRIER,
               "generic address 0x%" PRIx64 " of the barrier is not in shared memory",
               address);
        return false;
    }
    struct cta *owner;
    struct commit_args args = {.number = s->log->issued};
    if (!shared_at(w, (uint32_t)address, 8, true, &owner, &args.offset))
        return false;
    args.mask = 1u << owner->rank;
    if (op->aux[1]) {
        args.mask = opnd_u32(w, &op->opnds[1], lane) & 0xffff;
        if (args.mask == 0 || args.mask >> k->cta_count != 0) {
            report(grid_of(w), w, CHECK_OPERAND,
                   "multicast mask 0x%x: the cluster has CTAs 0 to %d", args.mask,
                   k->cta_count - 1);
            return false;
        }
    }
    for (uint32_t rest = w->hb ? args.mask : 0; rest; rest &= rest - 1)
        if (!hb_mbar_target(w, &k->ctas[bits_lowest(rest)], args.offset, lane))
            return false;
    struct async_op *o = async_new(w, ASYNC_COMMIT, lane);
    o->in_order = true;
    o->lanes = (uint32_t)1 << lane;
    o->number = args.number;
    tmem_committed(w);
    o->run = run_commit;
    memcpy(&o->arg, &args, sizeof args);
    return async_issue(o);
}

enum flow tc_commit(struct warp *w, const struct op *op, uint32_t lanes)
{
    return tc_issue_lanes(w, op, lanes, issue_commit);
}
