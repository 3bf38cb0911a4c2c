/* exec_tma.c - bulk copies: plain and through tensor maps, groups, prefetches.
 *
 * Issue checks everything that the instruction alone can tell and hands an operation to
 * async.c; completion moves the bytes, notes who filled shared memory (check 29) and
 * signals the barrier.  A multicast is one operation per destination. */
#include "emu/depend.h"
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/tma.h"
#include "emu/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TENSOR_ALIGN_BYTES 128
#define PLAIN_ALIGN_BYTES 16

/* ---- state of a CTA */

struct tma_state *tma_state(struct cta *c)
{
    if (!c->bulk) {
        struct tma_state *s = calloc(1, sizeof *s);
        size_t lanes = (size_t)c->warp_count * WARP_LANES;
        if (!s || !(s->closed = calloc(lanes, sizeof *s->closed)))
            abort();
        c->bulk = s;
    }
    return c->bulk;
}

void tma_cta_free(struct cta *c)
{
    struct tma_state *s = c->bulk;
    if (s) {
        free(s->closed);
        free(s->fills.at);
        free(s);
    }
    c->bulk = NULL;
}

/* Copies into a CTA that exits are the machine's affair; stores that it leaves behind
 * complete later, and nobody else can touch their source then. */
bool tma_cta_end(struct warp *w, struct cta *c)
{
    (void)w;
    (void)c;
    return true;
}

static uint32_t *closed_groups(struct warp *w)
{
    return tma_state(w->cta)->closed + w->index * WARP_LANES;
}

/* ---- what the parts of an instruction must be */

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* Reads and checks the tensor map of a lane. */
static bool get_map(struct warp *w, const struct op *op, const struct opnd *tensor,
                    int lane, struct tma_copy *c)
{
    char why[256], name[64];
    c->address = opnd_address(w, &tensor->items[0], lane);
    if (c->address % 64 != 0) {
        report(grid_of(w), w, CHECK_ALIGNMENT,
               "tensor map at 0x%" PRIx64 " is not aligned to 64 bytes", c->address);
        return false;
    }
    if (c->address - SHARED_WINDOW < WINDOW_BYTES) {
        report(
            grid_of(w), w, CHECK_TENSOR_MAP,
            "the tensor map lies in shared memory; copies read maps in global memory, "
            "parameters included");
        return false;
    }
    const uint8_t *map = global_at(w, c->address, TMAP_BYTES, false, "tensor map");
    if (!map || !tmap_check_use(w, c->address, map))
        return false;
    tma_map_name(grid_of(w), c->address, name, sizeof name);
    if (w->hb)
        hb_map_used(grid_of(w), c->address);
    if (!tmap_decode(map, &c->map, why, sizeof why)) {
        report(grid_of(w), w, CHECK_OPERAND, "tensor map %s: %s", name, why);
        return false;
    }
    if (c->map.rank != op->aux[1]) {
        report(grid_of(w), w, CHECK_OPERAND,
               "tensor map %s has %u dimensions, the instruction %u", name, c->map.rank,
               op->aux[1]);
        return false;
    }
    if (c->map.interleave != TMAP_INTERLEAVE_NONE) {
        report(grid_of(w), w, CHECK_OPERAND,
               "tensor map %s is interleaved, which is not emulated", name);
        return false;
    }
    return true;
}

static bool get_coordinates(struct warp *w, const struct opnd *tensor, int lane,
                            bool is_store, struct tma_copy *c)
{
    char name[64];
    for (int i = 0; i < c->map.rank; i++)
        c->at[i] = (int32_t)opnd_u32(w, &tensor->items[i + 1], lane);
    tma_map_name(grid_of(w), c->address, name, sizeof name);
    /* A first coordinate off the 16-byte grid is an illegal instruction, for loads and
     * stores (measured on an H200); so are negative ones in stores. */
    enum tmap_type type = (enum tmap_type)c->map.type;
    int multiple = type == TMAP_B4X16_P64 || type == TMAP_B6X16_P32
                       ? 16
                       : 128 / tmap_type_bits(type);
    if (c->at[0] % multiple != 0) {
        report(grid_of(w), w, CHECK_ALIGNMENT,
               "coordinate 0 is %d: a multiple of %d, 16 bytes, for type %s of map %s",
               c->at[0], multiple, tmap_type_name(type), name);
        return false;
    }
    if (is_store)
        for (int i = 0; i < c->map.rank; i++)
            if (c->at[i] < 0) {
                report(grid_of(w), w, CHECK_OPERAND,
                       "coordinate %d is %d: stores through map %s must not start in "
                       "front of the tensor",
                       i, c->at[i], name);
                return false;
            }
    return true;
}

/* Shared memory at an operand: address, bounds, alignment. */
static bool get_shared(struct warp *w, uint32_t address, uint32_t bytes,
                       bool cluster_ok, uint32_t align, const char *what,
                       struct cta **cta, uint32_t *offset)
{
    if (!shared_at(w, address, bytes, cluster_ok, cta, offset))
        return false;
    if (*offset % align != 0) {
        report(grid_of(w), w, CHECK_ALIGNMENT,
               "%s at shared offset 0x%x is not aligned to %u bytes", what, *offset,
               align);
        return false;
    }
    return true;
}

static bool get_destination(struct warp *w, const struct op *op, uint32_t address,
                            uint32_t bytes, uint32_t align, struct tma_copy *c)
{
    if (!get_shared(w, address, bytes, !(op->aux[0] & TMA_OWN_CTA), align,
                    "the destination", &c->cta, &c->offset))
        return false;
    if (mbar_in(c->cta, c->offset, c->offset + bytes)) {
        report(grid_of(w), w, CHECK_BAD_BARRIER,
               "the copy to shared bytes 0x%x to 0x%x would overwrite an mbarrier",
               c->offset, c->offset + bytes);
        return false;
    }
    return true;
}

static bool get_barrier(struct warp *w, const struct op *op, uint32_t address,
                        struct tma_copy *c)
{
    if (!get_shared(w, address, 8, true, 8, "the barrier", &c->mbar_cta,
                    &c->mbar_offset))
        return false;
    bool same = c->mbar_cta == c->cta ||
                ((op->aux[0] & TMA_PAIR) && (c->mbar_cta->rank ^ 1) == c->cta->rank);
    if (!(op->aux[0] & TMA_MULTICAST) && !same) {
        report(grid_of(w), w, CHECK_OPERAND,
               "the barrier is in CTA %u of the cluster, the destination in CTA %u",
               c->mbar_cta->rank, c->cta->rank);
        report_note(grid_of(w), op->aux[0] & TMA_PAIR
                                    ? "with .cta_group::2 it must be in the same pair"
                                    : "only .cta_group::2 lets them differ, in a pair");
        return false;
    }
    return true;
}

/* ---- completion */

static void take_copy(const struct async_op *o, struct tma_copy *c)
{
    memcpy(c, &o->arg, sizeof *c);
}

static void note_fill(const struct async_op *o, const struct tma_copy *c,
                      uint32_t bytes, bool is_tensor)
{
    struct fill f = {
        .from = c->offset,
        .to = c->offset + bytes,
        .issuer = o->issuer,
        .pc = o->pc,
    };
    if (is_tensor) {
        f.is_tensor = true;
        f.swizzle = c->map.swizzle;
        f.atom = c->map.atom;
        f.pitch_bytes = tmap_box(&c->map).pitch_bytes;
        f.map_address = c->address;
    }
    fills_add(&tma_state(c->cta)->fills, &f);
}

static bool is_gone(struct warp *w, const struct cta *c, const char *what)
{
    if (c->live_warps > 0)
        return false;
    report(grid_of(w), w, CHECK_CTA_EXIT,
           "%s in CTA %u of the cluster, which has exited", what, c->rank);
    return true;
}

static bool run_tensor_load(struct async_op *o)
{
    struct tma_copy c;
    take_copy(o, &c);
    if (is_gone(o->issuer, c.cta, "the copy ends") || !tma_load_box(o->issuer, &c))
        return false;
    struct tmap_box box = tmap_box(&c.map);
    note_fill(o, &c, box.smem_bytes, true);
    return mbar_complete_tx(o->issuer, c.mbar_cta, c.mbar_offset, box.data_bytes);
}

static bool run_tensor_store(struct async_op *o)
{
    struct tma_copy c;
    take_copy(o, &c);
    const struct op *op = &grid_of(o->issuer)->kernel->ops[o->pc];
    bool ok = op->aux[0] & TMA_REDUCES
                  ? tma_reduce_box(o->issuer, &c, (enum tma_reduction)op->aux[2])
                  : tma_store_box(o->issuer, &c);
    atomic_fetch_add(&grid_of(o->issuer)->global_events, 1);
    return ok;
}

static bool run_plain_load(struct async_op *o)
{
    struct tma_copy c;
    take_copy(o, &c);
    if (is_gone(o->issuer, c.cta, "the copy ends"))
        return false;
    const uint8_t *from =
        c.from_cta ? c.from_cta->smem + c.from_offset
                   : global_at(o->issuer, c.address, c.bytes, false, "bulk copy");
    if (!from || (!c.from_cta && !depend_access(o->issuer, c.address, c.bytes, false)))
        return false;
    const struct op *op = &grid_of(o->issuer)->kernel->ops[o->pc];
    if (op->aux[0] & TMA_REDUCES)
        tma_reduce(c.cta->smem + c.offset, from, c.bytes,
                   (enum tma_reduction)op->aux[2], (enum tmap_type)op->aux[3]);
    else
        memmove(c.cta->smem + c.offset, from, c.bytes);
    note_fill(o, &c, c.bytes, false);
    return mbar_complete_tx(o->issuer, c.mbar_cta, c.mbar_offset, c.bytes);
}

static bool run_plain_store(struct async_op *o)
{
    struct tma_copy c;
    take_copy(o, &c);
    const struct op *op = &grid_of(o->issuer)->kernel->ops[o->pc];
    uint8_t *to = global_at(o->issuer, c.address, c.bytes, true, "bulk store");
    if (!to || !depend_access(o->issuer, c.address, c.bytes, true))
        return false;
    if (op->aux[0] & TMA_REDUCES)
        tma_reduce(to, c.cta->smem + c.offset, c.bytes, (enum tma_reduction)op->aux[2],
                   (enum tmap_type)op->aux[3]);
    else
        memcpy(to, c.cta->smem + c.offset, c.bytes);
    atomic_fetch_add(&grid_of(o->issuer)->global_events, 1);
    return true;
}

bool tma_uses_map(const struct async_op *o, uint64_t address)
{
    struct tma_copy c;
    if (o->run != run_tensor_load && o->run != run_tensor_store)
        return false;
    take_copy(o, &c);
    return c.address == address;
}

/* ---- issue */

static bool issue(struct warp *w, enum async_kind kind, int lane,
                  const struct tma_copy *c, uint32_t bytes,
                  bool (*run)(struct async_op *))
{
    if (w->hb && kind == ASYNC_COPY_IN &&
        !hb_mbar_target(w, c->mbar_cta, c->mbar_offset, lane))
        return false;
    struct async_op *o = async_new(w, kind, lane);
    memcpy(&o->arg, c, sizeof *c);
    o->run = run;
    o->reduces = kind == ASYNC_COPY_IN &&
                 (grid_of(w)->kernel->ops[w->cur_pc].aux[0] & TMA_REDUCES);
    if (run == run_tensor_load && tma_slot_bytes(&c->map) < 16)
        o->slot_bytes = (uint8_t)tma_slot_bytes(&c->map);
    o->lanes = c->lanes;
    o->number = c->group + 1;
    if (w->hb && kind == ASYNC_COPY_OUT)
        hb_bulk_issued(w, c->lanes, o->number);
    async_touch(o, c->cta, c->offset, c->offset + bytes, kind == ASYNC_COPY_IN);
    if (c->from_cta)
        async_touch(o, c->from_cta, c->from_offset, c->from_offset + bytes, false);
    return async_issue(o);
}

/* What a tensor copy touches in global memory, told to the history (hb.h). */
struct telling {
    int lane;
    uint32_t group;
    bool write, reduces;
};

static bool tell_row(struct warp *w, uint64_t address, uint64_t bytes, void *arg)
{
    const struct telling *t = arg;
    return hb_global_async(w, t->lane, t->group, address, bytes, t->write, t->reduces);
}

static bool tell_box(struct warp *w, const struct tma_copy *c, struct telling t)
{
    return !w->hb || !hb_global_tracked(w, c->map.address, t.write) ||
           tma_each_row(w, c, t.write, t.reduces, tell_row, &t);
}

/* Issues a load to its one destination, or to each CTA of the mask. */
static bool issue_load(struct warp *w, const struct op *op, int lane,
                       struct tma_copy *c, uint32_t bytes,
                       bool (*run)(struct async_op *))
{
    if (!(op->aux[0] & TMA_MULTICAST))
        return issue(w, ASYNC_COPY_IN, lane, c, bytes, run);
    struct cluster *k = w->cta->cluster;
    uint32_t mask = opnd_u32(w, &op->opnds[op->aux[4]], lane) & 0xffff;
    uint32_t parity = c->mbar_cta->rank & 1;
    if (mask == 0 || mask >> k->cta_count != 0) {
        report(grid_of(w), w, CHECK_OPERAND,
               "multicast mask 0x%x: the cluster has CTAs 0 to %d", mask,
               k->cta_count - 1);
        return false;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        uint32_t rank = (uint32_t)bits_lowest(rest);
        c->cta = &k->ctas[rank];
        c->mbar_cta = c->cta;
        if ((op->aux[0] & TMA_PAIR) && (rank ^ 1) < (uint32_t)k->cta_count)
            c->mbar_cta = &k->ctas[(rank & ~1u) | parity];
        if (is_gone(w, c->cta, "a multicast ends") ||
            !issue(w, ASYNC_COPY_IN, lane, c, bytes, run))
            return false;
    }
    return true;
}

static bool blame_lanes(struct warp *w, uint32_t lanes)
{
    return report(grid_of(w), w, CHECK_COLLAPSED_WORK,
                  "%d lanes execute this with the same shared memory, and each does it "
                  "anew; one elected lane should",
                  bits_count(lanes)) == FLOW_NEXT;
}

/* Check 40: lanes that fill one place, each anew. */
static bool check_lanes(struct warp *w, const struct op *op, uint32_t lanes)
{
    int first = bits_lowest(lanes);
    for (uint32_t rest = lanes & (lanes - 1); rest; rest &= rest - 1)
        if (opnd_address(w, &op->opnds[0], bits_lowest(rest)) !=
            opnd_address(w, &op->opnds[0], first))
            return true;
    return (lanes & (lanes - 1)) == 0 || blame_lanes(w, lanes);
}

enum flow tma_tensor_load(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (!check_lanes(w, op, lanes))
        return FLOW_STOP;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct tma_copy c = {0};
        if (!get_map(w, op, &op->opnds[1], lane, &c) ||
            !get_coordinates(w, &op->opnds[1], lane, false, &c))
            return FLOW_STOP;
        struct tmap_box box = tmap_box(&c.map);
        if (!get_destination(w, op, (uint32_t)opnd_address(w, &op->opnds[0], lane),
                             box.smem_bytes, TENSOR_ALIGN_BYTES, &c) ||
            !get_barrier(w, op, (uint32_t)opnd_address(w, &op->opnds[2], lane), &c) ||
            !tell_box(w, &c, (struct telling){.lane = lane}) ||
            !issue_load(w, op, lane, &c, box.smem_bytes, run_tensor_load))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

/* Size operand of the plain forms. */
static bool get_bytes(struct warp *w, const struct opnd *o, int lane,
                      struct tma_copy *c)
{
    c->bytes = opnd_u32(w, o, lane);
    if (c->bytes % PLAIN_ALIGN_BYTES == 0)
        return true;
    report(grid_of(w), w, CHECK_ALIGNMENT,
           "%u bytes: a bulk copy moves multiples of 16", c->bytes);
    return false;
}

static bool get_global(struct warp *w, const struct opnd *o, int lane,
                       struct tma_copy *c)
{
    c->address = opnd_address(w, o, lane);
    if (c->address % PLAIN_ALIGN_BYTES == 0)
        return true;
    report(grid_of(w), w, CHECK_ALIGNMENT,
           "global address 0x%" PRIx64 " of a bulk copy is not aligned to 16 bytes",
           c->address);
    return false;
}

enum flow tma_plain_load(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (!check_lanes(w, op, lanes))
        return FLOW_STOP;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct tma_copy c = {0};
        if (!get_bytes(w, &op->opnds[2], lane, &c) ||
            !get_global(w, &op->opnds[1], lane, &c) ||
            !get_destination(w, op, (uint32_t)opnd_address(w, &op->opnds[0], lane),
                             c.bytes, PLAIN_ALIGN_BYTES, &c) ||
            !get_barrier(w, op, (uint32_t)opnd_address(w, &op->opnds[3], lane), &c) ||
            (w->hb && !hb_global_async(w, lane, 0, c.address, c.bytes, false, false)) ||
            !issue_load(w, op, lane, &c, c.bytes, run_plain_load))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

/* From the own shared memory into that of another CTA of the cluster. */
enum flow tma_plain_to_cluster(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (!check_lanes(w, op, lanes))
        return FLOW_STOP;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct tma_copy c = {0};
        if (!get_bytes(w, &op->opnds[2], lane, &c) ||
            !get_shared(w, (uint32_t)opnd_address(w, &op->opnds[1], lane), c.bytes,
                        false, PLAIN_ALIGN_BYTES, "the source", &c.from_cta,
                        &c.from_offset) ||
            !get_destination(w, op, (uint32_t)opnd_address(w, &op->opnds[0], lane),
                             c.bytes, PLAIN_ALIGN_BYTES, &c) ||
            !get_barrier(w, op, (uint32_t)opnd_address(w, &op->opnds[3], lane), &c) ||
            !issue(w, ASYNC_COPY_IN, lane, &c, c.bytes, run_plain_load))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

/* Production code lets all lanes of a warp execute one and the same store: it runs once
 * and belongs to a group of each lane.  Reductions are never folded. */
static bool same_for_all(struct warp *w, const struct op *op, uint32_t lanes)
{
    const uint32_t *closed = closed_groups(w);
    int first = bits_lowest(lanes);
    const struct opnd *tensor = op->aux[1] ? &op->opnds[0] : NULL;
    for (uint32_t rest = lanes & (lanes - 1); rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (closed[lane] != closed[first] || opnd_address(w, &op->opnds[1], lane) !=
                                                 opnd_address(w, &op->opnds[1], first))
            return false;
        for (int i = 1; tensor && i < tensor->item_count; i++)
            if (opnd_u32(w, &tensor->items[i], lane) !=
                opnd_u32(w, &tensor->items[i], first))
                return false;
        const struct opnd *to = tensor ? &tensor->items[0] : &op->opnds[0];
        if (opnd_address(w, to, lane) != opnd_address(w, to, first) ||
            (!tensor &&
             opnd_u32(w, &op->opnds[2], lane) != opnd_u32(w, &op->opnds[2], first)))
            return false;
    }
    return true;
}

static bool get_source(struct warp *w, const struct op *op, int lane, uint32_t bytes,
                       uint32_t align, struct tma_copy *c)
{
    return get_shared(w, (uint32_t)opnd_address(w, &op->opnds[1], lane), bytes, false,
                      align, "the source", &c->cta, &c->offset);
}

static bool store_tensor(struct warp *w, const struct op *op, int lane, uint32_t lanes)
{
    struct tma_copy c = {.lanes = lanes, .group = closed_groups(w)[lane]};
    if (!get_map(w, op, &op->opnds[0], lane, &c) ||
        !get_coordinates(w, &op->opnds[0], lane, true, &c))
        return false;
    enum tmap_type type = (enum tmap_type)c.map.type;
    bool reduces = op->aux[0] & TMA_REDUCES;
    if (type == TMAP_B4X16_P64 ||
        (reduces && !tma_can_reduce((enum tma_reduction)op->aux[2], type))) {
        report(grid_of(w), w, CHECK_OPERAND, "tensors of type %s cannot be %s so",
               tmap_type_name(type), reduces ? "reduced" : "stored");
        return false;
    }
    struct tmap_box box = tmap_box(&c.map);
    return get_source(w, op, lane, box.smem_bytes, TENSOR_ALIGN_BYTES, &c) &&
           tell_box(w, &c, (struct telling){lane, c.group + 1, true, reduces}) &&
           issue(w, ASYNC_COPY_OUT, lane, &c, box.smem_bytes, run_tensor_store);
}

static bool store_plain(struct warp *w, const struct op *op, int lane, uint32_t lanes)
{
    struct tma_copy c = {.lanes = lanes, .group = closed_groups(w)[lane]};
    return get_bytes(w, &op->opnds[2], lane, &c) &&
           get_global(w, &op->opnds[0], lane, &c) &&
           get_source(w, op, lane, c.bytes, PLAIN_ALIGN_BYTES, &c) &&
           (!w->hb || hb_global_async(w, lane, c.group + 1, c.address, c.bytes, true,
                                      op->aux[0] & TMA_REDUCES)) &&
           issue(w, ASYNC_COPY_OUT, lane, &c, c.bytes, run_plain_store);
}

enum flow tma_store(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool (*store)(struct warp *, const struct op *, int, uint32_t) =
        op->aux[1] ? store_tensor : store_plain;
    bool reduces = op->aux[0] & TMA_REDUCES, same = same_for_all(w, op, lanes);
    if (same && !reduces)
        return store(w, op, bits_lowest(lanes), lanes) ? FLOW_NEXT : FLOW_STOP;
    if (same && (lanes & (lanes - 1)) != 0 && !blame_lanes(w, lanes))
        return FLOW_STOP;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        if (!store(w, op, bits_lowest(rest), rest & (0u - rest)))
            return FLOW_STOP;
    return FLOW_NEXT;
}

/* ---- groups */

enum flow tma_commit_group(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    uint32_t *closed = closed_groups(w);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        closed[bits_lowest(rest)]++;
    return FLOW_NEXT;
}

struct group_wait {
    struct warp *warp;
    uint32_t lanes, left_open; /* groups that may stay incomplete */
};

static bool is_waited_for(const struct async_op *o, void *arg)
{
    const struct group_wait *wait = arg;
    if (o->kind != ASYNC_COPY_OUT || o->issuer != wait->warp)
        return false;
    struct tma_copy c;
    take_copy(o, &c);
    const uint32_t *closed = closed_groups(wait->warp);
    for (uint32_t rest = c.lanes & wait->lanes; rest; rest &= rest - 1) {
        uint32_t newest = closed[bits_lowest(rest)];
        if (newest > wait->left_open && c.group < newest - wait->left_open)
            return true;
    }
    return false;
}

/* Reads and writes of a store are done together, so .read waits for the same. */
enum flow tma_wait_group(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct group_wait wait = {w, lanes, opnd_u32(w, &op->opnds[0], bits_lowest(lanes))};
    uint32_t closed = closed_groups(w)[bits_lowest(lanes)];
    if (closed > wait.left_open)
        timeline_bulk_wait(w, closed - wait.left_open, ptx_has(op->insn, PTX_M_READ));
    if (w->hb)
        hb_bulk_waited(w, lanes, closed_groups(w), wait.left_open,
                       !ptx_has(op->insn, PTX_M_READ));
    return async_drain(w->cta->cluster, is_waited_for, &wait) ? FLOW_NEXT : FLOW_STOP;
}

/* ---- prefetches: a wrong one is told, a right one changes nothing */

enum flow tma_tensor_prefetch(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        struct tma_copy c = {0};
        if (!get_map(w, op, &op->opnds[0], bits_lowest(rest), &c) ||
            !get_coordinates(w, &op->opnds[0], bits_lowest(rest), false, &c))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

enum flow tma_plain_prefetch(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        struct tma_copy c = {0};
        if (!get_bytes(w, &op->opnds[1], bits_lowest(rest), &c) ||
            !get_global(w, &op->opnds[0], bits_lowest(rest), &c))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}
