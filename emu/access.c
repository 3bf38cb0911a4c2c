#include "emu/access.h"
#include "emu/depend.h"
#include "emu/hb.h"
#include "emu/memory.h"
#include "emu/report.h"

#include <inttypes.h>

enum space access_space(const struct ptx_insn *i)
{
    for (int k = 0; k < i->mod_count; k++) {
        switch (i->mods[k]) {
        case PTX_M_GLOBAL:
        case PTX_M_CONST:
            return SPACE_GLOBAL;
        case PTX_M_SHARED:
        case PTX_M_SHARED_CTA:
            return SPACE_SHARED_CTA;
        case PTX_M_SHARED_CLUSTER:
            return SPACE_SHARED_CLUSTER;
        case PTX_M_LOCAL:
            return SPACE_LOCAL;
        case PTX_M_PARAM:
        case PTX_M_PARAM_ENTRY:
        case PTX_M_PARAM_FUNC:
            return SPACE_PARAM;
        default:
            break;
        }
    }
    return SPACE_GENERIC;
}

/* ---- operands as addresses */

static uint64_t start_of(const struct warp *w, const struct opnd *o)
{
    switch ((enum opnd_base)o->base) {
    case BASE_SHARED:
        return (uint64_t)w->cta->rank << SMEM_RANK_SHIFT;
    case BASE_PARAM:
        return (uint64_t)(uintptr_t)w->cta->cluster->grid->params;
    default:
        return 0;
    }
}

uint64_t opnd_address(const struct warp *w, const struct opnd *o, int lane)
{
    if (o->base != BASE_REG)
        return start_of(w, o) + (uint64_t)o->imm;
    if (o->bits == 64) {
        const uint64_t *r = opnd_lanes(w, o);
        return r[lane] + (uint64_t)o->imm;
    }
    const uint32_t *r = opnd_lanes(w, o);
    return (uint32_t)(r[lane] + (uint32_t)o->imm);
}

uint64_t opnd_u64(const struct warp *w, const struct opnd *o, int lane)
{
    if (o->bits == 1)
        return opnd_mask(w, o) >> lane & 1;
    if (o->bits == 64) {
        const uint64_t *r = opnd_lanes(w, o);
        return r[lane];
    }
    const uint32_t *r = opnd_lanes(w, o);
    return r[lane];
}

uint32_t opnd_u32(const struct warp *w, const struct opnd *o, int lane)
{
    return (uint32_t)opnd_u64(w, o, lane);
}

/* ---- global memory */

static bool contains(const struct allocation *a, uint64_t address, uint64_t bytes)
{
    return a && address >= a->address && bytes <= a->bytes &&
           address - a->address <= a->bytes - bytes;
}

static uint8_t *host(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

static bool in_params(const struct grid *g, uint64_t address, uint64_t bytes)
{
    uint64_t from = (uint64_t)(uintptr_t)g->params;
    return g->params && address >= from && bytes <= g->param_bytes &&
           address - from <= g->param_bytes - bytes;
}

static const char *access_word(bool write)
{
    return write ? "writes" : "reads";
}

static bool blame_global(struct warp *w, uint64_t address, uint64_t bytes, bool write,
                         int lane, const char *what)
{
    struct grid *g = w->cta->cluster->grid;
    char text[256];
    if (lane >= 0)
        w->cur_lanes = (uint32_t)1 << lane;
    report(g, w, CHECK_OUT_OF_BOUNDS, "%s %s %" PRIu64 " bytes at 0x%" PRIx64 ": %s",
           what, access_word(write), bytes, address,
           in_params(g, address, bytes)
               ? "in the kernel's parameters, which are read-only"
               : memory_describe(address, bytes, text, sizeof text));
    return false;
}

/* Remembers the allocation in w->hit. */
static bool find_global(struct warp *w, uint64_t address, uint64_t bytes, bool write)
{
    if (!contains(w->hit, address, bytes)) {
        const struct allocation *a = memory_find(address);
        if (!contains(a, address, bytes))
            return !write && in_params(w->cta->cluster->grid, address, bytes);
        w->hit = a;
    }
    return !write || w->hit->writable;
}

static void note_write(struct warp *w)
{
    w->cta->cluster->wrote_global = true;
    cluster_event(w->cta->cluster);
}

uint8_t *global_at(struct warp *w, uint64_t address, uint64_t bytes, bool write,
                   const char *what)
{
    if (!find_global(w, address, bytes ? bytes : 1, write)) {
        blame_global(w, address, bytes, write, -1, what);
        return NULL;
    }
    if (write)
        note_write(w);
    return host(address);
}

static bool blame_alignment(struct warp *w, const struct op *op, uint64_t address,
                            uint32_t bytes, int lane)
{
    w->cur_lanes = (uint32_t)1 << lane;
    report(w->cta->cluster->grid, w, CHECK_ALIGNMENT,
           "%s of %u bytes at 0x%" PRIx64 ", which is no multiple of %u",
           op->insn->opcode, bytes, address, bytes);
    return false;
}

/* All lanes aligned and inside the allocation of the last access. */
static bool global_is_plain(const struct warp *w, const uint64_t *address,
                            uint32_t lanes, uint32_t bytes, bool write)
{
    uint64_t low = UINT64_MAX, high = 0, any = 0;
    if (!w->hit || (write && !w->hit->writable))
        return false;
    for (int i = 0; i < WARP_LANES; i++) {
        uint64_t in = 0 - (uint64_t)(lanes >> i & 1);
        uint64_t up = address[i] & in, down = address[i] | ~in;
        high = up > high ? up : high;
        low = down < low ? down : low;
        any |= up;
    }
    return !(any & (bytes - 1)) && contains(w->hit, low, high - low + bytes);
}

static enum hb_access access_kind(const struct op *op, bool write)
{
    return op->insn->op == PTX_ATOM || op->insn->op == PTX_RED ? HB_UPDATE
           : write                                             ? HB_WRITE
                                                               : HB_READ;
}

static bool global_lanes(struct warp *w, const struct op *op, const uint64_t *address,
                         uint32_t lanes, uint32_t bytes, bool write, struct access *a)
{
    a->global |= lanes;
    if (global_is_plain(w, address, lanes, bytes, write)) {
        for (int i = 0; i < WARP_LANES; i++)
            a->at[i] = host(address[i]); /* of idle lanes: not looked at */
        return depend_lanes(w, address, lanes, bytes, write) &&
               (!w->hb ||
                hb_global_access(w, address, lanes, bytes, access_kind(op, write)));
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t at = address[lane];
        if (at & (bytes - 1))
            return blame_alignment(w, op, at, bytes, lane);
        if (!find_global(w, at, bytes, write))
            return blame_global(w, at, bytes, write, lane, op->insn->opcode);
        a->at[lane] = host(at);
    }
    return depend_lanes(w, address, lanes, bytes, write) &&
           (!w->hb ||
            hb_global_access(w, address, lanes, bytes, access_kind(op, write)));
}

/* ---- shared memory */

static bool blame_shared(struct warp *w, uint32_t address, uint32_t bytes,
                         bool cluster_ok)
{
    struct cta *t = w->cta;
    struct cluster *c = t->cluster;
    uint32_t rank = address >> SMEM_RANK_SHIFT, offset = address & SMEM_OFFSET_MASK;
    if (rank >= (uint32_t)c->cta_count)
        report(c->grid, w, CHECK_OUT_OF_BOUNDS,
               "shared address 0x%x names block %u of a cluster of %d", address, rank,
               c->cta_count);
    else if (rank != t->rank && !cluster_ok)
        report(c->grid, w, CHECK_OUT_OF_BOUNDS,
               "shared address 0x%x lies in block %u of the cluster, and .shared::cta "
               "reaches only the own one (%u)",
               address, rank, t->rank);
    else if (c->ctas[rank].live_warps == 0)
        report(
            c->grid, w,
            hb_has_left_barrier(&c->ctas[rank]) ? CHECK_CLUSTER_BARRIER
                                                : CHECK_CTA_EXIT,
            "shared address 0x%x lies in block %u of the cluster, which has exited%s",
            address, rank,
            hb_has_left_barrier(&c->ctas[rank])
                ? " between its arrive and its wait at the cluster barrier"
                : "");
    else if (offset < SMEM_RESERVED_BYTES)
        report(
            c->grid, w, CHECK_OUT_OF_BOUNDS,
            "%u bytes at shared address 0x%x: the first %d bytes of the window belong "
            "to the system",
            bytes, address, SMEM_RESERVED_BYTES);
    else
        report(
            c->grid, w, CHECK_OUT_OF_BOUNDS,
            "%u bytes at shared address 0x%x: the block's shared memory ends at 0x%x "
            "(%u bytes static, %u dynamic from 0x%x)",
            bytes, address, t->rank << SMEM_RANK_SHIFT | t->smem_bytes,
            c->grid->kernel->static_smem_bytes, c->grid->dyn_smem_bytes,
            t->dyn_smem_offset);
    return false;
}

uint8_t *shared_at(struct warp *w, uint32_t address, uint32_t bytes, bool cluster_ok,
                   struct cta **owner, uint32_t *offset)
{
    struct cluster *c = w->cta->cluster;
    uint32_t rank = address >> SMEM_RANK_SHIFT, from = address & SMEM_OFFSET_MASK;
    bool fine = rank < (uint32_t)c->cta_count && (rank == w->cta->rank || cluster_ok) &&
                from >= SMEM_RESERVED_BYTES && bytes <= w->cta->smem_bytes &&
                from <= w->cta->smem_bytes - bytes &&
                (c->ctas[rank].live_warps > 0 || rank == w->cta->rank);
    if (!fine) {
        blame_shared(w, address, bytes, cluster_ok);
        return NULL;
    }
    struct cta *t = &c->ctas[rank];
    if (owner)
        *owner = t;
    if (offset)
        *offset = from;
    return t->smem + from;
}

static bool blame_mbar(struct warp *w, const struct op *op, struct cta *t,
                       uint32_t from, uint32_t bytes, bool write)
{
    struct grid *g = t->cluster->grid;
    report(
        g, w, CHECK_BAD_BARRIER,
        "%s %s %u bytes at shared offset 0x%x of block (%u,%u,%u), where an mbarrier "
        "stands: only mbarrier instructions may touch it before mbarrier.inval",
        op->insn->opcode, access_word(write), bytes, from, t->id[0], t->id[1],
        t->id[2]);
    for (const struct mbar *m = t->mbars; m; m = m->next_of_cta)
        if (m->valid && m->offset < from + bytes && m->offset + 8 > from)
            report_note(g, "the mbarrier at 0x%x was initialised in line %d", m->offset,
                        m->init_line);
    return false;
}

static uint8_t *shared_lane(struct warp *w, const struct op *op, uint32_t address,
                            uint32_t bytes, bool write, bool cluster_ok, int lane)
{
    struct cta *t;
    uint32_t from;
    w->cur_lanes = (uint32_t)1 << lane;
    uint8_t *p = shared_at(w, address, bytes, cluster_ok, &t, &from);
    if (!p)
        return NULL;
    if (address & (bytes - 1)) {
        blame_alignment(w, op, address, bytes, lane);
        return NULL;
    }
    if (mbar_in(t, from, from + bytes)) {
        blame_mbar(w, op, t, from, bytes, write);
        return NULL;
    }
    async_check_access(t, from, from + bytes, write);
    if (t->cluster->coverage)
        coverage_touch(t, w->cur_pc, from, from + bytes, write);
    return p;
}

/* All lanes in the own window, aligned, away from barriers and pending copies: nothing
 * more to ask.  Addresses are offsets in the own window here, if they are in it. */
static bool shared_is_plain(const struct cta *t, const uint32_t *offset, uint32_t lanes,
                            uint32_t bytes)
{
    uint32_t low = UINT32_MAX, high = 0, any = 0;
    for (int i = 0; i < WARP_LANES; i++) {
        uint32_t in = 0u - (lanes >> i & 1);
        uint32_t at = offset[i];
        uint32_t up = at & in, down = at | ~in;
        high = up > high ? up : high;
        low = down < low ? down : low;
        any |= up;
    }
    return low >= SMEM_RESERVED_BYTES && high <= t->smem_bytes &&
           high + bytes <= t->smem_bytes && !(any & (bytes - 1)) &&
           (low >= t->mbar_to || high + bytes <= t->mbar_from) &&
           (low >= t->watch_to || high + bytes <= t->watch_from) &&
           !t->cluster->coverage;
}

/* Tells the history of each CTA whose memory the lanes touch. */
static bool note_shared(struct warp *w, const struct op *op, const uint32_t *address,
                        uint32_t lanes, uint32_t bytes, bool write)
{
    uint32_t offset[WARP_LANES];
    if (op->insn->op == PTX_CP_ASYNC) /* it tells by itself */
        return true;
    for (uint32_t rest = lanes; rest;) {
        uint32_t rank = address[bits_lowest(rest)] >> SMEM_RANK_SHIFT, same = 0;
        for (uint32_t k = rest; k; k &= k - 1) {
            int lane = bits_lowest(k);
            if (address[lane] >> SMEM_RANK_SHIFT != rank)
                continue;
            same |= (uint32_t)1 << lane;
            offset[lane] = address[lane] & SMEM_OFFSET_MASK;
        }
        rest &= ~same;
        if (!hb_smem_access(w, &w->cta->cluster->ctas[rank], offset, same, bytes,
                            access_kind(op, write)))
            return false;
    }
    return true;
}

static bool shared_lanes(struct warp *w, const struct op *op, const uint32_t *address,
                         uint32_t lanes, uint32_t bytes, bool write, bool cluster_ok,
                         struct access *a)
{
    struct cta *t = w->cta;
    uint32_t offset[WARP_LANES];
    for (int i = 0; i < WARP_LANES; i++)
        offset[i] = address[i] - (t->rank << SMEM_RANK_SHIFT);
    if (shared_is_plain(t, offset, lanes, bytes)) {
        for (int i = 0; i < WARP_LANES; i++)
            a->at[i] = t->smem + (lanes >> i & 1 ? offset[i] : 0);
    } else {
        uint32_t cur = w->cur_lanes;
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            int lane = bits_lowest(rest);
            a->at[lane] =
                shared_lane(w, op, address[lane], bytes, write, cluster_ok, lane);
            if (!a->at[lane])
                return false;
        }
        w->cur_lanes = cur;
    }
    a->shared |= lanes;
    return !w->hb || note_shared(w, op, address, lanes, bytes, write);
}

/* ---- local memory and the call area */

static bool private_lanes(struct warp *w, const struct op *op, uint8_t *area,
                          uint32_t area_bytes, const uint64_t *address, uint32_t lanes,
                          uint32_t bytes, const char *name, struct access *a)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t at = address[lane];
        if (bytes > area_bytes || at > area_bytes - bytes) {
            w->cur_lanes = (uint32_t)1 << lane;
            report(w->cta->cluster->grid, w, CHECK_OUT_OF_BOUNDS,
                   "%s of %u bytes at %s address 0x%" PRIx64
                   ": a thread has %u bytes of it",
                   op->insn->opcode, bytes, name, at, area_bytes);
            return false;
        }
        if (at & (bytes - 1))
            return blame_alignment(w, op, at, bytes, lane);
        a->at[lane] = area + (size_t)lane * area_bytes + at;
    }
    return true;
}

/* ---- all of them */

static void addresses(const struct warp *w, const struct opnd *o, uint64_t *address)
{
    if (o->base == BASE_REG && o->bits == 64) {
        const uint64_t *r = opnd_lanes(w, o);
        for (int i = 0; i < WARP_LANES; i++)
            address[i] = r[i] + (uint64_t)o->imm;
    } else if (o->base == BASE_REG) {
        const uint32_t *r = opnd_lanes(w, o);
        for (int i = 0; i < WARP_LANES; i++)
            address[i] = (uint32_t)(r[i] + (uint32_t)o->imm);
    } else {
        uint64_t at = start_of(w, o) + (uint64_t)o->imm;
        for (int i = 0; i < WARP_LANES; i++)
            address[i] = at;
    }
}

static bool in_window(uint64_t address, uint64_t window)
{
    return address - window < WINDOW_BYTES;
}

static bool generic_lanes(struct warp *w, const struct op *op, const uint64_t *address,
                          uint32_t lanes, uint32_t bytes, bool write, struct access *a)
{
    const struct kernel *k = w->cta->cluster->grid->kernel;
    uint32_t shared = 0, local = 0;
    uint32_t short_address[WARP_LANES];
    uint64_t offset[WARP_LANES];
    for (int i = 0; i < WARP_LANES; i++) {
        shared |= (uint32_t)in_window(address[i], SHARED_WINDOW) << i;
        local |= (uint32_t)in_window(address[i], LOCAL_WINDOW) << i;
        short_address[i] = (uint32_t)address[i];
        offset[i] = address[i] - LOCAL_WINDOW;
    }
    shared &= lanes;
    local &= lanes;
    lanes &= ~(shared | local);
    if (shared && !shared_lanes(w, op, short_address, shared, bytes, write, true, a))
        return false;
    if (local && !private_lanes(w, op, w->local, k->local_bytes, offset, local, bytes,
                                "local", a))
        return false;
    return !lanes || global_lanes(w, op, address, lanes, bytes, write, a);
}

bool access_lanes(struct warp *w, const struct op *op, const struct opnd *o,
                  uint32_t lanes, enum space space, uint32_t bytes, bool write,
                  struct access *a)
{
    const struct grid *g = w->cta->cluster->grid;
    uint64_t address[WARP_LANES];
    addresses(w, o, address);
    a->shared = a->global = 0;
    if (o->base == BASE_CALL)
        return private_lanes(w, op, w->call, g->kernel->call_bytes, address, lanes,
                             bytes, "parameter", a);
    if (space == SPACE_LOCAL || o->base == BASE_LOCAL)
        return private_lanes(w, op, w->local, g->kernel->local_bytes, address, lanes,
                             bytes, "local", a);
    if (space == SPACE_SHARED_CTA || space == SPACE_SHARED_CLUSTER ||
        o->base == BASE_SHARED) {
        uint32_t short_address[WARP_LANES];
        uint64_t any = 0;
        for (int i = 0; i < WARP_LANES; i++) {
            short_address[i] = (uint32_t)address[i];
            any |= address[i] & (0 - (uint64_t)(lanes >> i & 1));
        }
        if (any >> 32) {
            report(w->cta->cluster->grid, w, CHECK_OUT_OF_BOUNDS,
                   "%s with an address that is not in the shared window (a generic "
                   "address without cvta.to.shared?)",
                   op->insn->opcode);
            return false;
        }
        return shared_lanes(w, op, short_address, lanes, bytes, write,
                            space == SPACE_SHARED_CLUSTER, a);
    }
    if (space == SPACE_GENERIC)
        return generic_lanes(w, op, address, lanes, bytes, write, a);
    return global_lanes(w, op, address, lanes, bytes, write, a);
}

void access_changed(struct warp *w, const struct access *a)
{
    if (a->global)
        note_write(w);
    else if (a->shared)
        cluster_event(w->cta->cluster);
}

uint8_t *generic_at(struct warp *w, uint64_t address, uint32_t bytes, bool write,
                    int lane, const char *what)
{
    w->cur_lanes = (uint32_t)1 << lane;
    if (in_window(address, SHARED_WINDOW))
        return shared_at(w, (uint32_t)address, bytes, true, NULL, NULL);
    return global_at(w, address, bytes, write, what);
}
