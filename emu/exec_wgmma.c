/* exec_wgmma.c - wgmma: MMAs of a warp group on descriptors of shared memory.
 *
 * PTX ISA 9.0, "wgmma.mma_async".  One operation of the four warps of a group: a warp
 * that comes to it waits for the others, and the last one runs it for all, each with
 * its sixteen rows.  Registers change at issue; that shared memory is read, and
 * registers are not the threads', until wgmma.wait_group has come back is what the
 * happens-before engine is told.  Of shared memory the wait of one warp speaks for its
 * group. */
#include "emu/check_desc.h"
#include "emu/cluster.h"
#include "emu/decode.h"
#include "emu/hb.h"
#include "emu/lanes.h"
#include "emu/mma_warp.h"

#include <inttypes.h>
#include <stdlib.h>

#define GROUP_WARPS 4
#define GROUP_ROWS 64

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- a warp's part in its group */

struct group_warp {
    uint32_t closed;     /* groups of wgmmas */
    const struct op *at; /* where it waits for the other warps; NULL: it does not */
    bool done;           /* another warp has run that one; it may go on */
};

static struct group_warp *state_of(const struct warp *w)
{
    struct cta *c = w->cta;
    if (!c->wgmma &&
        !(c->wgmma = calloc((size_t)c->warp_count, sizeof(struct group_warp))))
        abort();
    return (struct group_warp *)c->wgmma + w->index;
}

static uint32_t *closed_of(const struct warp *w)
{
    return &state_of(w)->closed;
}

/* Warp i of its group, which may have exited; NULL: the block has no such warp. */
static struct warp *mate(const struct warp *w, int i)
{
    int index = w->index / GROUP_WARPS * GROUP_WARPS + i;
    return index < w->cta->warp_count ? &w->cta->warps[index] : NULL;
}

void wgmma_free(struct cta *c)
{
    free(c->wgmma);
    c->wgmma = NULL;
}

static enum flow exec_commit_group(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    (void)lanes;
    ++*closed_of(w);
    return FLOW_NEXT;
}

struct group_wait {
    struct warp *warp;
    uint32_t done; /* groups up to this one are complete */
};

static bool is_waited_for(const struct async_op *o, void *arg)
{
    const struct group_wait *wait = arg;
    const struct warp *issuer = o->issuer;
    return o->kind == ASYNC_WGMMA && issuer->cta == wait->warp->cta &&
           issuer->index / GROUP_WARPS == wait->warp->index / GROUP_WARPS &&
           o->number <= wait->done;
}

static enum flow exec_wait_group(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t closed = *closed_of(w), open = opnd_u32(w, &op->opnds[0], 0);
    struct group_wait wait = {w, closed > open ? closed - open : 0};
    if (wait.done == 0)
        return FLOW_NEXT;
    if (w->hb) {
        struct warp *other;
        for (int i = 0; i < GROUP_WARPS && (other = mate(w, i)); i++)
            hb_learn(w, lanes, hb_component(other, HB_WGMMA), ALL_LANES, wait.done);
        hb_wgmma_waited(w, wait.done);
    }
    return async_drain(w->cta->cluster, is_waited_for, &wait) ? FLOW_NEXT : FLOW_STOP;
}

static enum flow exec_fence(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    (void)lanes;
    if (w->hb)
        hb_wgmma_fence(w);
    return FLOW_NEXT;
}

bool decode_WGMMA_FENCE(struct decoder *d, struct op *o)
{
    o->exec = exec_fence;
    return decode_want_count(d, o, 0, 0);
}

bool decode_WGMMA_COMMIT_GROUP(struct decoder *d, struct op *o)
{
    o->exec = exec_commit_group;
    return decode_want_count(d, o, 0, 0);
}

bool decode_WGMMA_WAIT_GROUP(struct decoder *d, struct op *o)
{
    int64_t open;
    if (!decode_want_count(d, o, 1, 1))
        return false;
    if (!opnd_is_imm(&o->opnds[0], &open) || open < 0)
        return decode_refuse(d, o, "the number of groups must be a constant");
    o->exec = exec_wait_group;
    return decode_want_reg(d, o, 0, 32);
}

/* ---- descriptors, which are not those of tcgen05 */

static bool decode_desc(struct warp *w, uint64_t bits, const char *what,
                        struct smem_desc *d)
{
    static const struct {
        enum tmap_swizzle swizzle;
        uint32_t pitch;
    } modes[4] = {
        {TMAP_SWIZZLE_NONE, 16},
        {TMAP_SWIZZLE_128B, 128},
        {TMAP_SWIZZLE_64B, 64},
        {TMAP_SWIZZLE_32B, 32},
    };
    *d = (struct smem_desc){
        .bits = bits,
        .start = (uint32_t)(bits & 0x3fff) * 16,
        .lbo = (uint32_t)(bits >> 16 & 0x3fff) * 16,
        .sbo = (uint32_t)(bits >> 32 & 0x3fff) * 16,
        .swizzle = modes[bits >> 62].swizzle,
        .atom = TMAP_ATOM_16B,
        .pitch = modes[bits >> 62].pitch,
    };
    if (bits & 0x3ff1c000c000c000) {
        report(grid_of(w), w, CHECK_DESCRIPTOR,
               "descriptor of %s, 0x%016" PRIx64
               ": reserved bits are set (is it one for tcgen05?)",
               what, bits);
        return false;
    }
    uint32_t base = (uint32_t)(bits >> 49 & 7), at = d->start >> 7 & 7;
    if (d->swizzle == TMAP_SWIZZLE_NONE ||
        (base == 0 ? (at & (d->pitch / 16 - 1)) == 0 : base == at))
        return true;
    report(grid_of(w), w, CHECK_DESCRIPTOR,
           "descriptor of %s, 0x%016" PRIx64
           ": base offset %u, but the start 0x%x is not that far into the pattern",
           what, bits, base, d->start);
    return false;
}

/* ---- mma_async */

/* aux[0] N, [1] enum mma_result, [2] enum mma_type of A and << 8 of B, [3] flags. */
enum { AUX_N, AUX_RESULT, AUX_TYPES, AUX_FLAGS };
enum { A_IN_REGISTERS = 1, A_BY_ROW = 2, B_BY_ROW = 4, NEGATES = 8, SATURATES = 16 };

static bool done_already(struct async_op *o)
{
    (void)o;
    return true;
}

static void touch(struct async_op *o, struct cta *c, const struct smem_desc *d,
                  bool by_row, uint32_t bytes, uint32_t rows)
{
    if (by_row)
        desc_touch_by_row(o, c, d, bytes, rows);
    else
        desc_touch(o, c, d, rows, 2);
}

static bool check(struct warp *w, const struct smem_desc *d, bool by_row,
                  uint32_t bytes, const char *what, uint32_t rows)
{
    return by_row ? desc_check_by_row(w, w->cta, d, bytes, what, rows)
                  : desc_check(w, w->cta, d, what, rows, 2);
}

/* The sixteen rows of A that are this warp's. */
static void gather_a(struct warp *w, const struct op *op, const struct smem_desc *d,
                     uint32_t bytes, uint8_t *rows)
{
    uint32_t first = (uint32_t)w->index % GROUP_WARPS * MMA_WARP_ROWS;
    uint8_t all[GROUP_ROWS * MMA_ROW_BYTES];
    if (op->aux[AUX_FLAGS] & A_IN_REGISTERS) {
        mma_gather_a(w, &op->opnds[1], 4, rows);
        return;
    }
    if (op->aux[AUX_FLAGS] & A_BY_ROW)
        desc_gather_by_row(w->cta, d, bytes, GROUP_ROWS, all);
    else
        desc_gather(w->cta, d, GROUP_ROWS, 2, all);
    memcpy(rows, all + first * MMA_ROW_BYTES, (size_t)MMA_WARP_ROWS * MMA_ROW_BYTES);
}

static bool issue(struct warp *w, const struct op *op, const struct smem_desc *a,
                  const struct smem_desc *b)
{
    uint32_t flags = op->aux[AUX_FLAGS], n = op->aux[AUX_N];
    uint32_t a_bytes = mma_type_bytes((enum mma_type)(op->aux[AUX_TYPES] & 0xff));
    uint32_t b_bytes = mma_type_bytes((enum mma_type)(op->aux[AUX_TYPES] >> 8));
    struct async_op *o = async_new(w, ASYNC_WGMMA, 0);
    o->lanes = ALL_LANES;
    o->number = *closed_of(w) + 1;
    o->run = done_already;
    if (!(flags & A_IN_REGISTERS))
        touch(o, w->cta, a, flags & A_BY_ROW, a_bytes, GROUP_ROWS);
    touch(o, w->cta, b, flags & B_BY_ROW, b_bytes, n);
    return async_issue(o);
}

/* What the operation is to one of the warps. */
static bool run_part(struct warp *w, const struct op *op)
{
    uint32_t flags = op->aux[AUX_FLAGS], n = op->aux[AUX_N];
    enum mma_type a_type = (enum mma_type)(op->aux[AUX_TYPES] & 0xff);
    enum mma_type b_type = (enum mma_type)(op->aux[AUX_TYPES] >> 8);
    struct smem_desc a = {0}, b;
    if ((!(flags & A_IN_REGISTERS) &&
         (!decode_desc(w, opnd_u64(w, &op->opnds[1], 0), "A", &a) ||
          !check(w, &a, flags & A_BY_ROW, mma_type_bytes(a_type), "A", GROUP_ROWS))) ||
        !decode_desc(w, opnd_u64(w, &op->opnds[2], 0), "B", &b) ||
        !check(w, &b, flags & B_BY_ROW, mma_type_bytes(b_type), "B", n) ||
        (w->hb && !hb_wgmma_issued(w, op, *closed_of(w) + 1)) || !issue(w, op, &a, &b))
        return false;
    uint8_t a_rows[MMA_WARP_ROWS * MMA_ROW_BYTES], b_rows[MMA_MAX_N * MMA_ROW_BYTES];
    static _Thread_local uint32_t d[MMA_MAX_N * MMA_WARP_ROWS];
    gather_a(w, op, &a, mma_type_bytes(a_type), a_rows);
    if (flags & B_BY_ROW)
        desc_gather_by_row(w->cta, &b, mma_type_bytes(b_type), n, b_rows);
    else
        desc_gather(w->cta, &b, n, 2, b_rows);
    enum mma_result result = (enum mma_result)op->aux[AUX_RESULT];
    mma_gather_d(w, &op->opnds[0], result, (int)n, d);
    struct mma_any mma = {
        .a_type = a_type,
        .b_type = b_type,
        .result = result,
        .a = a_rows,
        .b = b_rows,
        .d = d,
        .rows = MMA_WARP_ROWS,
        .n = (int)n,
        .negate = flags & NEGATES,
        .accumulate = opnd_mask(w, &op->opnds[3]) & 1,
        .saturate = flags & SATURATES,
        .is_wgmma = true,
        .mode = grid_of(w)->mma_as_hardware ? MMA_HARDWARE : MMA_REFERENCE,
    };
    mma_any(&mma);
    mma_scatter_d(w, &op->opnds[0], result, (int)n, d);
    return true;
}

/* The last of its group has come. */
static bool run_group(struct warp *w)
{
    struct warp *other;
    for (int i = 0; i < GROUP_WARPS && (other = mate(w, i)); i++) {
        struct group_warp *state = state_of(other);
        const struct op *op = state->at;
        if (!op)
            continue; /* it has exited */
        state->at = NULL;
        state->done = other != w;
        other->cur_pc = (uint32_t)(op - grid_of(w)->kernel->ops);
        other->cur_lanes = ALL_LANES;
        if (!run_part(other, op))
            return false;
    }
    cluster_event(w->cta->cluster);
    return true;
}

static enum flow blame_apart(struct warp *w, const struct op *op,
                             const struct warp *other)
{
    return report(
        grid_of(w), w, CHECK_DIVERGENCE,
        "all warps of a warp group must execute the same %s; warp %d of group "
        "%d is at that of line %d",
        op->insn->opcode, other->index, other->index / GROUP_WARPS,
        state_of(other)->at->insn->line);
}

static enum flow exec_mma_async(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct group_warp *own = state_of(w);
    bool waits = false;
    if (own->done) {
        own->done = false;
        return FLOW_NEXT;
    }
    if (lanes != ALL_LANES || !mate(w, GROUP_WARPS - 1))
        return report(grid_of(w), w, CHECK_DIVERGENCE,
                      "%s needs all 128 threads of a warp group", op->insn->opcode);
    own->at = op;
    for (int i = 0; i < GROUP_WARPS; i++) {
        const struct warp *other = mate(w, i);
        const struct op *at = state_of(other)->at;
        if (at && at != op && blame_apart(w, op, other) == FLOW_STOP)
            return FLOW_STOP;
        waits |= !at && other->live;
    }
    if (waits)
        return park(w, lanes,
                    "the other warps of its warp group, to come to this wgmma");
    return run_group(w) ? FLOW_NEXT : FLOW_STOP;
}

/* ---- decoding */

/* N of a shape with 32 bytes of K; 0: it is another one. */
static uint32_t n_of(const struct op *o, int bytes)
{
    static const struct {
        enum ptx_mod mod;
        uint16_t n, k;
    } shapes[] = {
#define WGMMA_N(n)                                                                     \
    {PTX_M_M64N##n##K8, n, 8}, {PTX_M_M64N##n##K16, n, 16}, {PTX_M_M64N##n##K32, n, 32},
        WGMMA_N(8) WGMMA_N(16) WGMMA_N(24) WGMMA_N(32) WGMMA_N(40) WGMMA_N(48)
            WGMMA_N(56) WGMMA_N(64) WGMMA_N(72) WGMMA_N(80) WGMMA_N(88) WGMMA_N(96)
                WGMMA_N(104) WGMMA_N(112) WGMMA_N(120) WGMMA_N(128) WGMMA_N(136)
                    WGMMA_N(144) WGMMA_N(152) WGMMA_N(160) WGMMA_N(168) WGMMA_N(176)
                        WGMMA_N(184) WGMMA_N(192) WGMMA_N(200) WGMMA_N(208) WGMMA_N(216)
                            WGMMA_N(224) WGMMA_N(232) WGMMA_N(240) WGMMA_N(248)
                                WGMMA_N(256)
#undef WGMMA_N
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        if (ptx_has(o->insn, shapes[i].mod) && shapes[i].k * bytes == MMA_ROW_BYTES)
            return shapes[i].n;
    return 0;
}

static bool want_registers(struct decoder *d, const struct op *o, int index, int count)
{
    const struct opnd *list = &o->opnds[index];
    if (list->kind != PTX_OPND_VECTOR || list->item_count != count)
        return decode_refuse(d, o, "operand %d must be a list of %d registers",
                             index + 1, count);
    for (int i = 0; i < count; i++)
        if (list->items[i].kind != PTX_OPND_REG ||
            (!list->items[i].is_sink && list->items[i].bits != 32))
            return decode_refuse(d, o, "operand %d needs 32-bit registers", index + 1);
    return true;
}

/* Behind scale-d: scale-a, scale-b (1 or -1), then trans-a and trans-b of 16 bits. */
static bool decode_options(struct decoder *d, struct op *o, bool is_float, bool is_half)
{
    bool in_registers = o->aux[AUX_FLAGS] & A_IN_REGISTERS;
    int64_t x[4] = {1, 1, 0, 0};
    int scales = is_float ? 2 : 0, trans = is_half ? in_registers ? 1 : 2 : 0;
    if (!decode_want_count(d, o, 4 + scales + trans, 4 + scales + trans))
        return false;
    for (int i = 0; i < scales + trans; i++)
        if (!opnd_is_imm(&o->opnds[4 + i], &x[i < scales ? i : 4 - trans + i - scales]))
            return decode_refuse(d, o, "operand %d must be a constant", 5 + i);
    if (x[0] * x[0] != 1 || x[1] * x[1] != 1)
        return decode_refuse(d, o, "the scales of A and B are 1 or -1");
    if (x[0] * x[1] < 0)
        o->aux[AUX_FLAGS] |= NEGATES;
    o->aux[AUX_FLAGS] |= (x[2] ? A_BY_ROW : 0u) | (x[3] ? B_BY_ROW : 0u);
    return true;
}

bool decode_WGMMA_MMA_ASYNC(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    enum mma_type a, b;
    if (i->type_count < 3 || !mma_type_of(i->types[1], &a) ||
        !mma_type_of(i->types[2], &b) || a == MMA_E2M1)
        return decode_refuse(d, o, "elements of one bit");
    uint32_t n = n_of(o, (int)mma_type_bytes(a));
    if (n == 0)
        return decode_refuse(d, o, "this shape with these elements");
    int result = i->types[0];
    o->aux[AUX_N] = n;
    o->aux[AUX_RESULT] = result == PTX_T_F16   ? MMA_TO_F16
                         : result == PTX_T_S32 ? MMA_TO_S32
                                               : MMA_TO_F32;
    o->aux[AUX_TYPES] = (uint32_t)a | (uint32_t)b << 8;
    if (ptx_has(i, PTX_M_SATFINITE))
        o->aux[AUX_FLAGS] |= SATURATES;
    o->exec = exec_mma_async;
    if (o->opnd_count < 4)
        return decode_refuse(d, o, "operands are missing");
    if (o->opnds[1].kind == PTX_OPND_VECTOR)
        o->aux[AUX_FLAGS] |= A_IN_REGISTERS;
    return want_registers(
               d, o, 0, mma_d_registers((enum mma_result)o->aux[AUX_RESULT], (int)n)) &&
           (o->opnds[1].kind == PTX_OPND_VECTOR ? want_registers(d, o, 1, 4)
                                                : decode_want_reg(d, o, 1, 64)) &&
           decode_want_reg(d, o, 2, 64) && decode_want_reg(d, o, 3, 1) &&
           decode_options(d, o, result != PTX_T_S32, a == MMA_F16 || a == MMA_BF16);
}
