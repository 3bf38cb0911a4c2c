/* exec_cpasync.c - cp.async, the copies that each thread makes for itself.
 *
 * PTX ISA 9.0, "cp.async", "cp.async.commit_group", "cp.async.wait_group",
 * "cp.async.mbarrier.arrive".  4, 8 or 16 bytes a lane, zeros beyond the source size.
 * Groups are per lane and apart from those of bulk copies; the copies of one
 * instruction are one operation. */
#include "emu/access.h"
#include "emu/hb.h"
#include "emu/cluster.h"
#include "emu/lanes.h"

#include <stdlib.h>

enum { AUX_BYTES, AUX_SOURCE };
enum { SOURCE_FULL, SOURCE_SIZE, SOURCE_IGNORE };

#define KEPT_GROUPS 8

struct lane_groups {
    uint32_t closed; /* groups that were committed; copies go to the one after */
    /* Copies are numbered for hb.h: a number is used until a group is committed or an
     * arrival asked for, and these are those of the newest groups. */
    uint32_t number, number_of[KEPT_GROUPS];
};

/* One instruction's copies; or, with bytes 0, its arrivals on a barrier. */
struct copies {
    uint32_t lanes, bytes;
    uint32_t group[WARP_LANES];
    uint32_t source_bytes[WARP_LANES];
    uint8_t *to[WARP_LANES];
    const uint8_t *from[WARP_LANES];
    struct cta *cta;
    uint32_t offset[WARP_LANES]; /* of the barrier */
};

static struct lane_groups *groups_of(struct warp *w)
{
    struct cta *t = w->cta;
    if (!t->copies) {
        t->copies =
            calloc((size_t)t->warp_count * WARP_LANES, sizeof(struct lane_groups));
        if (!t->copies)
            abort();
    }
    return (struct lane_groups *)t->copies + (size_t)w->index * WARP_LANES;
}

static bool run(struct async_op *o)
{
    const struct copies *c = o->arg.p[0];
    for (uint32_t rest = c->lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (c->bytes == 0) {
            if (!mbar_arrive(o->issuer, c->cta, c->offset[lane], 1))
                return false;
            continue;
        }
        memset(c->to[lane], 0, c->bytes);
        if (c->source_bytes[lane])
            memcpy(c->to[lane], c->from[lane], c->source_bytes[lane]);
    }
    return true;
}

static struct async_op *new_op(struct warp *w, uint32_t lanes, struct copies **copies)
{
    struct async_op *o = async_new(w, ASYNC_CP, bits_lowest(lanes));
    struct copies *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->lanes = lanes;
    const struct lane_groups *g = groups_of(w);
    for (int i = 0; i < WARP_LANES; i++)
        c->group[i] = g[i].closed;
    o->arg.p[0] = c;
    o->run = run;
    *copies = c;
    return o;
}

/* ---- cp.async */

static uint32_t source_size(const struct warp *w, const struct op *op, int lane)
{
    uint32_t bytes = op->aux[AUX_BYTES];
    if (op->aux[AUX_SOURCE] == SOURCE_IGNORE)
        return opnd_mask(w, &op->opnds[3]) >> lane & 1 ? 0 : bytes;
    if (op->aux[AUX_SOURCE] == SOURCE_SIZE)
        return opnd_u32(w, &op->opnds[3], lane);
    return bytes;
}

static bool tell_copies(struct warp *w, const struct access *to, uint32_t lanes,
                        uint32_t bytes)
{
    const struct lane_groups *g = groups_of(w);
    uint32_t offset[WARP_LANES], number[WARP_LANES];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        offset[lane] = (uint32_t)(to->at[lane] - w->cta->smem);
        number[lane] = g[lane].number + 1;
    }
    return hb_smem_copies(w, offset, number, lanes, bytes);
}

static enum flow exec_cp_async(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct cluster *k = w->cta->cluster;
    struct access to, from;
    struct copies *c;
    uint32_t bytes = op->aux[AUX_BYTES], reading = 0;
    if (!access_lanes(w, op, &op->opnds[0], lanes, SPACE_SHARED_CTA, bytes, true, &to))
        return FLOW_STOP;
    struct async_op *o = new_op(w, lanes, &c);
    c->bytes = bytes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t size = source_size(w, op, lane);
        c->source_bytes[lane] = size;
        c->to[lane] = to.at[lane];
        reading |= (uint32_t)(size > 0) << lane;
        if (size > bytes) {
            w->cur_lanes = (uint32_t)1 << lane;
            report(k->grid, w, CHECK_OPERAND,
                   "cp.async of %u bytes with a source size of %u", bytes, size);
            async_drop(o);
            return FLOW_STOP;
        }
        uint32_t offset = (uint32_t)(to.at[lane] - w->cta->smem);
        async_touch(o, w->cta, offset, offset + bytes, true);
    }
    if (reading && !access_lanes(w, op, &op->opnds[1], reading, SPACE_GLOBAL, bytes,
                                 false, &from)) {
        async_drop(o);
        return FLOW_STOP;
    }
    for (uint32_t rest = reading; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        c->from[lane] = from.at[lane];
    }
    if (w->hb && !tell_copies(w, &to, lanes, bytes)) {
        async_drop(o);
        return FLOW_STOP;
    }
    return async_issue(o) ? FLOW_NEXT : FLOW_STOP;
}

bool decode_CP_ASYNC(struct decoder *d, struct op *o)
{
    int64_t bytes;
    if (!decode_want_count(d, o, 3, 5) || !decode_want_address(d, o, 0) ||
        !decode_want_address(d, o, 1))
        return false;
    if (!opnd_is_imm(&o->opnds[2], &bytes) || (bytes != 4 && bytes != 8 && bytes != 16))
        return decode_refuse(d, o, "the size must be an immediate 4, 8 or 16");
    o->aux[AUX_BYTES] = (uint32_t)bytes;
    o->exec = exec_cp_async;
    int policy = ptx_has(o->insn, PTX_M_L2_CACHE_HINT) ? 1 : 0;
    if (o->opnd_count - policy < 4)
        return true;
    if (o->opnds[3].bits == 1 && !o->opnds[3].is_const) {
        o->aux[AUX_SOURCE] = SOURCE_IGNORE;
        return true;
    }
    o->aux[AUX_SOURCE] = SOURCE_SIZE;
    return decode_want_reg(d, o, 3, 32);
}

/* ---- groups */

static void close_groups(struct lane_groups *groups, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        struct lane_groups *g = &groups[bits_lowest(rest)];
        g->number++;
        g->number_of[g->closed % KEPT_GROUPS] = g->number;
        g->closed++;
    }
}

static enum flow exec_commit(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    struct lane_groups *g = groups_of(w);
    close_groups(g, lanes);
    return FLOW_NEXT;
}

bool decode_CP_ASYNC_COMMIT_GROUP(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_commit;
    return true;
}

struct waiting {
    const struct warp *w;
    uint32_t lanes;
    uint32_t before[WARP_LANES]; /* groups below this number must be complete */
};

static bool is_waited_for(const struct async_op *o, void *arg)
{
    const struct waiting *x = arg;
    if (o->kind != ASYNC_CP || o->issuer != x->w)
        return false;
    const struct copies *c = o->arg.p[0];
    for (uint32_t rest = c->bytes ? c->lanes & x->lanes : 0; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (c->group[lane] < x->before[lane])
            return true;
    }
    return false;
}

/* Each lane knows now of its own copies. */
static void tell_waited(struct warp *w, const struct waiting *x)
{
    const struct lane_groups *g = groups_of(w);
    for (uint32_t rest = x->lanes; rest;) {
        int first = bits_lowest(rest);
        uint32_t before = x->before[first], number = 0, same = 0;
        if (before > 0)
            number = g[first].number_of[(before - 1) % KEPT_GROUPS];
        for (uint32_t k = rest; k; k &= k - 1)
            if (x->before[bits_lowest(k)] == before)
                same |= k & (0u - k);
        rest &= ~same;
        if (before > 0 && g[first].closed - before < KEPT_GROUPS)
            hb_learn_plain(w, same, hb_component(w, HB_COPIES), same, number);
    }
}

/* aux[0]: newest groups that may stay; aux[1]: the open one must be complete, too, as
 * if it were committed first. */
static enum flow exec_wait(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct lane_groups *g = groups_of(w);
    struct waiting x = {.w = w, .lanes = lanes};
    if (op->aux[1])
        close_groups(g, lanes);
    for (int i = 0; i < WARP_LANES; i++) {
        uint32_t stay = op->aux[0];
        x.before[i] = g[i].closed > stay ? g[i].closed - stay : 0;
    }
    if (w->hb)
        tell_waited(w, &x);
    return async_drain(w->cta->cluster, is_waited_for, &x) ? FLOW_NEXT : FLOW_STOP;
}

bool decode_CP_ASYNC_WAIT_GROUP(struct decoder *d, struct op *o)
{
    int64_t stay;
    o->exec = exec_wait;
    if (!decode_want_count(d, o, 1, 1))
        return false;
    if (!opnd_is_imm(&o->opnds[0], &stay) || stay < 0)
        return decode_refuse(d, o, "the number of groups must be an immediate");
    o->aux[0] = (uint32_t)stay;
    return true;
}

bool decode_CP_ASYNC_WAIT_ALL(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_wait;
    o->aux[1] = true;
    return true;
}

/* ---- cp.async.mbarrier.arrive */

static enum flow exec_arrive(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct copies *c;
    struct async_op *o = new_op(w, lanes, &c);
    c->cta = w->cta;
    o->lanes = lanes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint64_t a = opnd_address(w, &op->opnds[0], lane);
        if (op->aux[0] && op->opnds[0].base != BASE_SHARED)
            a -= SHARED_WINDOW;
        if (a >> 32 || !shared_at(w, (uint32_t)a, 8, false, NULL, &c->offset[lane])) {
            if (a >> 32)
                report(w->cta->cluster->grid, w, CHECK_BAD_BARRIER,
                       "0x%llx is no shared address", (unsigned long long)a);
            async_drop(o);
            return FLOW_STOP;
        }
        struct mbar *m = mbar_find(w->cta, c->offset[lane]);
        struct lane_groups *g = &groups_of(w)[lane];
        o->number = ++g->number;
        if (m && w->hb && !hb_mbar_use(w, m, lane)) {
            async_drop(o);
            return FLOW_STOP;
        }
        /* Without .noinc the arrival to come is one more to wait for. */
        if (m && !op->aux[1])
            m->pending++;
    }
    return async_issue(o) ? FLOW_NEXT : FLOW_STOP;
}

bool decode_CP_ASYNC_MBARRIER_ARRIVE(struct decoder *d, struct op *o)
{
    o->aux[0] = access_space(o->insn) == SPACE_GENERIC;
    o->aux[1] = ptx_has(o->insn, PTX_M_NOINC);
    o->exec = exec_arrive;
    return decode_want_count(d, o, 1, 1) && decode_want_address(d, o, 0);
}

/* ---- the end of a CTA */

static bool is_of_cta(const struct async_op *o, void *arg)
{
    return o->kind == ASYNC_CP && o->issuer->cta == arg;
}

/* Copies that nobody waits for are lost work, no error. */
bool cpasync_cta_end(struct warp *w, struct cta *c)
{
    return async_drain(w->cta->cluster, is_of_cta, c);
}

void cpasync_free(struct cta *c)
{
    free(c->copies);
    c->copies = NULL;
}
