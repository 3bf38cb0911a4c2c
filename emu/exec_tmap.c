/* exec_tmap.c - tensor maps that kernels edit, and check 34 (2.9 of the semantics).
 *
 * PTX ISA 9.0, "tensormap.replace", "tensormap.cp_fenceproxy", "fence.proxy".  A
 * replace is a store into our own encoding (tmap.c).  Copies read maps through a proxy
 * of their own: a map in global memory that has changed must be released to it by
 * whoever changed it, and acquired by each block that uses it. */
#include "emu/hb.h"
#include "emu/tmap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "emu/cluster.h"
#include "emu/decode.h"
#include "emu/lanes.h"
#include "emu/tma.h"

#define MAP_ALIGN 64 /* of whatever a copy is to use */

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- maps in global memory that this grid has edited */

struct edit {
    uint64_t address;
    uint64_t version;          /* counts changes */
    uint8_t bytes[TMAP_BYTES]; /* as last released */
    bool released;
    const struct cluster *by; /* only to be compared: it may be gone */
    int line;                 /* of the last change */
    struct edit *next;
};

/* What a block has acquired. */
struct view {
    uint64_t address, version;
    struct view *next;
};

static struct edit *find_edit(const struct grid *g, uint64_t address)
{
    struct edit *e = g->edits;
    while (e && e->address != address)
        e = e->next;
    return e;
}

static struct edit *add_edit(struct grid *g, uint64_t address)
{
    struct edit *e = find_edit(g, address);
    if (e)
        return e;
    e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->address = address;
    e->released = true;
    e->next = g->edits;
    g->edits = e;
    return e;
}

void tmap_edits_free(struct grid *g)
{
    while (g->edits) {
        struct edit *e = g->edits;
        g->edits = e->next;
        free(e);
    }
}

static struct view *find_view(const struct cta *c, uint64_t address)
{
    struct view *v = c->views;
    while (v && v->address != address)
        v = v->next;
    return v;
}

static void set_view(struct cta *c, uint64_t address, uint64_t version)
{
    struct view *v = find_view(c, address);
    if (!v) {
        v = calloc(1, sizeof *v);
        if (!v)
            abort();
        v->address = address;
        v->next = c->views;
        c->views = v;
    }
    v->version = version;
}

void tmap_views_free(struct cta *c)
{
    while (c->views) {
        struct view *v = c->views;
        c->views = v->next;
        free(v);
    }
}

/* A change by the running instruction; `released`: it was one that releases as well. */
static void note_change(struct warp *w, uint64_t address, const uint8_t *map,
                        bool released)
{
    struct grid *g = grid_of(w);
    global_lock(g);
    struct edit *e = add_edit(g, address);
    e->version++;
    e->by = w->cta->cluster;
    e->line = g->kernel->ops[w->cur_pc].insn->line;
    e->released = released;
    if (released)
        memcpy(e->bytes, map, TMAP_BYTES);
    global_unlock(g);
}

/* Check 34: no copy through the map is on its way. */
static bool check_unused(struct warp *w, uint64_t address)
{
    for (const struct async_op *o = w->cta->cluster->async_first; o; o = o->next) {
        if (!tma_uses_map(o, address) || grid_of(w)->no_checks)
            continue;
        report(grid_of(w), w, CHECK_TENSOR_MAP,
               "the tensor map at 0x%" PRIx64
               " is changed while a copy through it is pending",
               address);
        report_party(grid_of(w), "the copy:", o->issuer, o->pc, 0);
        return false;
    }
    return true;
}

/* `map` is what the copy reads.  Called for each copy of a kernel that edits maps. */
static bool check_edit(struct warp *w, uint64_t address, const uint8_t *map)
{
    struct grid *g = grid_of(w);
    const struct edit *e = find_edit(g, address);
    const struct view *v = find_view(w->cta, address);
    const char *fault = NULL;
    if (!e || e->version == 0)
        return true;
    if (!e->released)
        fault = "has not been released to the tensormap proxy since";
    else if (memcmp(e->bytes, map, TMAP_BYTES) != 0)
        fault = "has been changed by ordinary stores since it was released";
    else if (!v || v->version != e->version)
        fault = "has not been acquired by this block since (fence.proxy."
                "tensormap::generic.acquire)";
    if (!fault)
        return true;
    report(g, w, CHECK_TENSOR_MAP,
           "the tensor map at 0x%" PRIx64 ", changed in line %d, %s", address, e->line,
           fault);
    return false;
}

bool tmap_check_use(struct warp *w, uint64_t address, const uint8_t *map)
{
    struct grid *g = grid_of(w);
    if (!g->kernel->edits_maps || g->no_checks)
        return true;
    global_lock(g);
    bool ok = check_edit(w, address, map);
    global_unlock(g);
    return ok;
}

/* Who changes a map in global memory, and who acquires it, must be in order as with
 * ordinary accesses (check 36). */
static bool tell_history(struct warp *w, uint64_t address, int lane, enum hb_access how)
{
    uint64_t addresses[WARP_LANES] = {0};
    addresses[lane] = address;
    return !w->hb ||
           hb_global_access(w, addresses, (uint32_t)1 << lane, TMAP_BYTES, how);
}

/* ---- tensormap.replace */

enum { AUX_FIELD, AUX_ORDINAL, AUX_SPACE };
enum { IN_GENERIC, IN_SHARED, IN_GLOBAL };

/* Host memory of a map, which must lie in shared or global memory.  *address is its
 * global address, 0: it is in shared memory. */
static uint8_t *map_at(struct warp *w, const struct opnd *o, uint32_t space, int lane,
                       uint64_t *address)
{
    uint64_t at = opnd_address(w, o, lane);
    bool shared = space == IN_SHARED || o->base == BASE_SHARED ||
                  (space == IN_GENERIC && at - SHARED_WINDOW < WINDOW_BYTES);
    uint32_t align = at % MAP_ALIGN;
    w->cur_lanes = (uint32_t)1 << lane;
    if (align != 0) {
        report(grid_of(w), w, CHECK_ALIGNMENT,
               "the tensor map at 0x%" PRIx64 " is not aligned to %d bytes", at,
               MAP_ALIGN);
        return NULL;
    }
    *address = 0;
    if (!shared) {
        *address = at;
        return global_at(w, at, TMAP_BYTES, true, "a change of a tensor map");
    }
    struct cta *owner;
    uint32_t offset;
    uint8_t *map = shared_at(w, (uint32_t)at, TMAP_BYTES, false, &owner, &offset);
    if (!map || (w->hb && !hb_smem_range(w, owner, offset, offset + TMAP_BYTES, lane,
                                         HB_UPDATE)))
        return NULL;
    cluster_event(w->cta->cluster);
    return map;
}

static enum flow exec_replace(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *value = &op->opnds[op->opnd_count - 1];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t address;
        char why[160];
        uint8_t *map = map_at(w, &op->opnds[0], op->aux[AUX_SPACE], lane, &address);
        if (!map || (address && !check_unused(w, address)))
            return FLOW_STOP;
        if (!tmap_replace(map, (enum tmap_field)op->aux[AUX_FIELD],
                          (int)op->aux[AUX_ORDINAL], opnd_u64(w, value, lane), why,
                          sizeof why))
            return report(grid_of(w), w, CHECK_OPERAND, "%s", why);
        if (address) {
            note_change(w, address, map, false);
            if (!tell_history(w, address, lane, HB_WRITE))
                return FLOW_STOP;
        }
    }
    return FLOW_NEXT;
}

bool decode_TENSORMAP_REPLACE(struct decoder *d, struct op *o)
{
    static const struct {
        enum ptx_mod mod;
        enum tmap_field field;
        int ordinals; /* 0: it has none */
        int bits;
    } fields[] = {
        {PTX_M_GLOBAL_ADDRESS, TMAP_ADDRESS, 0, 64},
        {PTX_M_RANK, TMAP_RANK, 0, 32},
        {PTX_M_BOX_DIM, TMAP_BOX, TMAP_MAX_RANK, 32},
        {PTX_M_GLOBAL_DIM, TMAP_DIM, TMAP_MAX_RANK, 32},
        {PTX_M_GLOBAL_STRIDE, TMAP_STRIDE, TMAP_MAX_RANK - 1, 64},
        {PTX_M_ELEMENT_STRIDE, TMAP_STEP, TMAP_MAX_RANK, 32},
        {PTX_M_ELEMTYPE, TMAP_TYPE, 0, 32},
        {PTX_M_INTERLEAVE_LAYOUT, TMAP_INTERLEAVE, 0, 32},
        {PTX_M_SWIZZLE_MODE, TMAP_SWIZZLE, 0, 32},
        {PTX_M_SWIZZLE_ATOMICITY, TMAP_ATOM, 0, 32},
        {PTX_M_FILL_MODE, TMAP_FILL, 0, 32},
    };
    size_t i = 0;
    while (i < COUNT_OF(fields) && !ptx_has(o->insn, fields[i].mod))
        i++;
    if (i == COUNT_OF(fields))
        return decode_refuse(d, o, "it names no field");
    int count = fields[i].ordinals ? 3 : 2;
    int64_t ordinal = 0;
    if (!decode_want_count(d, o, count, count) || !decode_want_address(d, o, 0) ||
        !decode_want_reg(d, o, count - 1, fields[i].bits))
        return false;
    if (count == 3 && (!opnd_is_imm(&o->opnds[1], &ordinal) || ordinal < 0 ||
                       ordinal >= fields[i].ordinals))
        return decode_refuse(d, o, "the ordinal must be a constant, 0 to %d",
                             fields[i].ordinals - 1);
    o->exec = exec_replace;
    o->aux[AUX_FIELD] = fields[i].field;
    o->aux[AUX_ORDINAL] = (uint32_t)ordinal;
    o->aux[AUX_SPACE] =
        ptx_has(o->insn, PTX_M_GLOBAL) ? IN_GLOBAL
        : ptx_has(o->insn, PTX_M_SHARED_CTA) || ptx_has(o->insn, PTX_M_SHARED)
            ? IN_SHARED
            : IN_GENERIC;
    d->kernel->edits_maps = true;
    return true;
}

/* ---- tensormap.cp_fenceproxy: the warp copies one map to global memory */

static enum flow exec_cp_fenceproxy(struct warp *w, const struct op *op, uint32_t lanes)
{
    int lane = bits_lowest(lanes);
    uint64_t to_address = opnd_address(w, &op->opnds[0], lane), ignored;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        for (int i = 0; i < 2; i++)
            if (opnd_address(w, &op->opnds[i], bits_lowest(rest)) !=
                opnd_address(w, &op->opnds[i], lane))
                return report(grid_of(w), w, CHECK_DIVERGENCE,
                              "the lanes of the warp give different addresses");
    const uint8_t *from = map_at(w, &op->opnds[1], IN_SHARED, lane, &ignored);
    uint8_t *to = from ? map_at(w, &op->opnds[0], IN_GLOBAL, lane, &to_address) : NULL;
    w->cur_lanes = lanes;
    if (!to || !check_unused(w, to_address))
        return FLOW_STOP;
    memcpy(to, from, TMAP_BYTES);
    note_change(w, to_address, to, true);
    if (w->hb) {
        if (!tell_history(w, to_address, lane, HB_WRITE))
            return FLOW_STOP;
        hb_sync(w, lanes, true); /* .sync.aligned: all lanes know of the copy */
    }
    return FLOW_NEXT;
}

bool decode_TENSORMAP_CP_FENCEPROXY(struct decoder *d, struct op *o)
{
    int64_t bytes;
    if (!decode_want_count(d, o, 3, 3) || !decode_want_address(d, o, 0) ||
        !decode_want_address(d, o, 1))
        return false;
    if (!opnd_is_imm(&o->opnds[2], &bytes) || bytes != TMAP_BYTES)
        return decode_refuse(d, o, "the size must be %d", TMAP_BYTES);
    o->exec = exec_cp_fenceproxy;
    d->kernel->edits_maps = true;
    return true;
}

/* ---- fence.proxy */

/* Releases what this cluster has changed, by ordinary stores too. */
static enum flow exec_release(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct grid *g = grid_of(w);
    (void)lanes;
    global_lock(g);
    for (struct edit *e = g->edits; e; e = e->next) {
        const uint8_t *map = (const uint8_t *)(uintptr_t)e->address;
        if (e->by != w->cta->cluster ||
            (e->released && !memcmp(e->bytes, map, TMAP_BYTES)))
            continue;
        if (e->released) {
            e->version++;
            e->line = op->insn->line;
        }
        e->released = true;
        memcpy(e->bytes, map, TMAP_BYTES);
    }
    global_unlock(g);
    return FLOW_NEXT;
}

static enum flow exec_acquire(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct grid *g = grid_of(w);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t address = opnd_address(w, &op->opnds[0], lane);
        w->cur_lanes = (uint32_t)1 << lane;
        if (!global_at(w, address, TMAP_BYTES, false, "the fence of a tensor map") ||
            !tell_history(w, address, lane, HB_READ))
            return FLOW_STOP;
        global_lock(g);
        const struct edit *e = find_edit(g, address);
        set_view(w->cta, address, e && e->released ? e->version : 0);
        global_unlock(g);
    }
    w->cur_lanes = lanes;
    return FLOW_NEXT;
}

/* Between generic and asynchronous accesses; one between names of one place orders
 * nothing here. */
static enum flow exec_proxy(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (w->hb)
        hb_fence(w, op, lanes);
    return FLOW_NEXT;
}

bool decode_FENCE_PROXY(struct decoder *d, struct op *o)
{
    o->exec = exec_proxy;
    if (!ptx_has(o->insn, PTX_M_TENSORMAP_GENERIC))
        return true;
    if (ptx_has(o->insn, PTX_M_RELEASE)) {
        o->exec = exec_release;
        return decode_want_count(d, o, 0, 0);
    }
    o->exec = exec_acquire;
    return decode_want_count(d, o, 2, 2) && decode_want_address(d, o, 0);
}
