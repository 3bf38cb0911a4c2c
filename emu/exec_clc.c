/* exec_clc.c - clusterlaunchcontrol: try_cancel and query_cancel (2.11 of the
 * semantics).
 *
 * PTX ISA 9.0, "clusterlaunchcontrol.try_cancel".  The answer is opaque to programs;
 * here its words are a mark that tells success from failure, and the first CTA of the
 * cluster that will not be launched.  It is written like a bulk copy.  Check 38 is on
 * what programs do with it. */
#include <inttypes.h>
#include <stdlib.h>

#include "emu/hb.h"
#include "emu/decode.h"
#include "emu/launch_control.h"
#include "emu/lanes.h"

#define ANSWER_BYTES 16
#define ANSWER_YES 0x79434c43u /* "CLCy" */
#define ANSWER_NO 0x6e434c43u  /* "CLCn" */

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- answers that wait to be read */

/* One request's answer in one CTA. */
struct answer {
    uint32_t offset;
    uint32_t request; /* counts in the cluster; the CTAs of a multicast share it */
    struct warp *issuer;
    uint32_t pc;
    struct answer *next;
};

struct answers {
    struct answer *unread;
    bool saw_failure; /* some thread of the CTA has queried a failed answer */
};

static struct answers *answers_of(struct cta *c)
{
    if (!c->answers && !(c->answers = calloc(1, sizeof(struct answers))))
        abort();
    return c->answers;
}

static void drop_request(struct cta *c, uint32_t request)
{
    struct answers *all = c->answers;
    for (struct answer **p = all ? &all->unread : NULL; p && *p;) {
        struct answer *a = *p;
        if (a->request != request) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        free(a);
    }
}

/* One CTA that reads its copy is enough: the others may be told by it. */
void answers_read(struct cta *c, uint32_t from, uint32_t to)
{
    struct answers *all = c->answers;
    for (struct answer *a = all ? all->unread : NULL; a; a = a->next) {
        if (a->offset >= to || a->offset + ANSWER_BYTES <= from)
            continue;
        uint32_t request = a->request;
        for (int i = 0; i < c->cluster->cta_count; i++)
            drop_request(&c->cluster->ctas[i], request);
        return;
    }
}

void answers_watch(const struct cta *c, uint32_t *from, uint32_t *to)
{
    const struct answers *all = c->answers;
    for (const struct answer *a = all ? all->unread : NULL; a; a = a->next) {
        *from = a->offset < *from ? a->offset : *from;
        *to = a->offset + ANSWER_BYTES > *to ? a->offset + ANSWER_BYTES : *to;
    }
}

void answers_reset(struct cta *c)
{
    struct answers *all = c->answers;
    while (all && all->unread) {
        struct answer *a = all->unread;
        all->unread = a->next;
        free(a);
    }
    free(all);
    c->answers = NULL;
}

static void add_unread(struct cta *c, const struct async_op *o, uint32_t offset,
                       uint32_t request)
{
    struct answers *all = answers_of(c);
    struct answer *a = malloc(sizeof *a);
    if (!a)
        abort();
    *a = (struct answer){offset, request, o->issuer, o->pc, all->unread};
    all->unread = a;
    answers_watch(c, &c->watch_from, &c->watch_to);
}

/* ---- try_cancel */

/* One CTA's copy of an answer, on its way. */
struct cancel {
    uint32_t words[4];
    struct cta *cta;
    uint32_t offset, mbar_offset, request;
};
_Static_assert(sizeof(struct cancel) <= sizeof((struct async_op *)0)->arg,
               "cancel must fit an async_op");

/* Takes the next cluster that this one owns off the list of those to be launched. */
static void take_over(struct cluster *c, uint32_t words[4])
{
    const struct grid *g = c->grid;
    uint64_t number = c->next_number;
    words[0] = ANSWER_NO;
    words[1] = words[2] = words[3] = UINT32_MAX;
    if (number >= cluster_total(g))
        return;
    c->next_number += c->number_step;
    words[0] = ANSWER_YES;
    for (int axis = 0; axis < 3; axis++) {
        uint32_t count = g->dim[axis] / g->cluster[axis];
        words[1 + axis] = (uint32_t)(number % count) * g->cluster[axis];
        number /= count;
    }
    atomic_fetch_add(&c->grid->ctas_done, (unsigned long long)c->cta_count);
}

static bool is_gone(struct warp *w, const struct cta *c)
{
    if (c->live_warps > 0)
        return false;
    report(
        grid_of(w), w, CHECK_CTA_EXIT,
        "an answer of cluster launch control goes to CTA %u of the cluster, which has "
        "exited",
        c->rank);
    return true;
}

/* Check 38: all arrivals of the phase are there, but bytes are too many. */
static bool check_bytes(struct warp *w, const struct cancel *c)
{
    const struct mbar *m = mbar_find(c->cta, c->mbar_offset);
    if (!m || m->pending != 0 || m->tx >= 0 || grid_of(w)->no_checks)
        return true;
    report(
        grid_of(w), w, CHECK_LAUNCH_CONTROL,
        "the answer brings 16 bytes to the barrier at 0x%x of block (%u,%u,%u), which "
        "expects %lld in this phase",
        m->offset, c->cta->id[0], c->cta->id[1], c->cta->id[2],
        (long long)m->tx_expected);
    return false;
}

static bool run_cancel(struct async_op *o)
{
    struct cancel c;
    memcpy(&c, &o->arg, sizeof c);
    if (is_gone(o->issuer, c.cta))
        return false;
    memcpy(c.cta->smem + c.offset, c.words, ANSWER_BYTES);
    add_unread(c.cta, o, c.offset, c.request);
    return mbar_complete_tx(o->issuer, c.cta, c.mbar_offset, ANSWER_BYTES) &&
           check_bytes(o->issuer, &c);
}

/* Offset in the own CTA of an address operand, shared or generic. */
static bool own_offset(struct warp *w, const struct op *op, int index, int lane,
                       uint32_t bytes, const char *what, uint32_t *offset)
{
    uint64_t address = opnd_address(w, &op->opnds[index], lane);
    bool is_generic = op->aux[1] && op->opnds[index].base != BASE_SHARED;
    if (is_generic ? address - SHARED_WINDOW >= WINDOW_BYTES : address >> 32 != 0) {
        report(grid_of(w), w, CHECK_OUT_OF_BOUNDS,
               "%s at 0x%" PRIx64 ", which is not in shared memory", what, address);
        return false;
    }
    if (!shared_at(w, (uint32_t)address, bytes, false, NULL, offset))
        return false;
    if (*offset % bytes == 0)
        return true;
    report(grid_of(w), w, CHECK_ALIGNMENT,
           "%s at shared offset 0x%x is not aligned to %u bytes", what, *offset, bytes);
    return false;
}

/* Check 38: the slot's last answer must have been read. */
static bool check_slot(struct warp *w, const struct cta *c, uint32_t offset)
{
    const struct answers *all = c->answers;
    const struct answer *a = all ? all->unread : NULL;
    while (a && a->offset != offset)
        a = a->next;
    if (!a || grid_of(w)->no_checks)
        return true;
    report(grid_of(w), w, CHECK_LAUNCH_CONTROL,
           "a request for shared offset 0x%x of block (%u,%u,%u), but the answer that "
           "lies there has not been read",
           offset, c->id[0], c->id[1], c->id[2]);
    report_party(grid_of(w), "it is the answer to", a->issuer, a->pc, 0);
    return false;
}

/* The request reaches the barrier of its own CTA as the thread itself would, so that
 * order in the program is enough (libcu++ 13.0 goes by that); not so in other CTAs. */
static bool tell_hb(struct warp *w, struct cta *c, uint32_t offset, int lane)
{
    struct mbar *m = mbar_find(c, offset);
    if (c != w->cta || !m)
        return hb_mbar_target(w, c, offset, lane);
    hb_mbar_acts(w);
    return hb_mbar_use(w, m, lane);
}

static bool try_cancel(struct warp *w, const struct op *op, int lane)
{
    struct cluster *k = w->cta->cluster;
    const struct answers *own = w->cta->answers;
    struct cancel c = {.request = k->requests};
    if (!own_offset(w, op, 0, lane, ANSWER_BYTES, "the answer", &c.offset) ||
        !own_offset(w, op, 1, lane, 8, "the barrier", &c.mbar_offset))
        return false;
    if (own && own->saw_failure && !grid_of(w)->no_checks) {
        report(grid_of(w), w, CHECK_LAUNCH_CONTROL,
               "a further request, after the block has seen that one failed");
        return false;
    }
    k->requests++;
    take_over(k, c.words);
    for (int i = 0; i < k->cta_count; i++) {
        c.cta = op->aux[0] ? &k->ctas[i] : w->cta;
        if (i > 0 && !op->aux[0])
            break;
        if (mbar_in(c.cta, c.offset, c.offset + ANSWER_BYTES)) {
            report(grid_of(w), w, CHECK_BAD_BARRIER,
                   "the answer at 0x%x would overwrite an mbarrier", c.offset);
            return false;
        }
        if (is_gone(w, c.cta) || !check_slot(w, c.cta, c.offset))
            return false;
        if (w->hb && !tell_hb(w, c.cta, c.mbar_offset, lane))
            return false;
        struct async_op *o = async_new(w, ASYNC_COPY_IN, lane);
        memcpy(&o->arg, &c, sizeof c);
        o->run = run_cancel;
        async_touch(o, c.cta, c.offset, c.offset + ANSWER_BYTES, true);
        if (!async_issue(o))
            return false;
    }
    return true;
}

static enum flow exec_try_cancel(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        w->cur_lanes = rest & (0u - rest);
        if (!try_cancel(w, op, bits_lowest(rest)))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

bool decode_CLUSTERLAUNCHCONTROL_TRY_CANCEL(struct decoder *d, struct op *o)
{
    o->exec = exec_try_cancel;
    o->aux[0] = ptx_has(o->insn, PTX_M_MULTICAST_CLUSTER_ALL);
    o->aux[1] = !ptx_has(o->insn, PTX_M_SHARED_CTA);
    d->kernel->takes_over = true;
    return decode_want_count(d, o, 2, 2) && decode_want_address(d, o, 0) &&
           decode_want_address(d, o, 1);
}

/* ---- query_cancel */

/* The answer in a lane's register.  False after a report: it is none. */
static bool get_answer(struct warp *w, const struct op *op, int lane, uint32_t words[4])
{
    const uint8_t *reg = opnd_lanes(w, &op->opnds[1]);
    memcpy(words, reg + lane * ANSWER_BYTES, ANSWER_BYTES);
    if (words[0] == ANSWER_YES || words[0] == ANSWER_NO)
        return true;
    w->cur_lanes = (uint32_t)1 << lane;
    report(
        grid_of(w), w, CHECK_LAUNCH_CONTROL,
        "the register holds no answer of try_cancel (was it loaded before the answer "
        "came?): 0x%08x%08x%08x%08x",
        words[3], words[2], words[1], words[0]);
    return false;
}

static enum flow exec_is_canceled(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t yes = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t words[4];
        if (!get_answer(w, op, lane, words))
            return FLOW_STOP;
        yes |= (uint32_t)(words[0] == ANSWER_YES) << lane;
    }
    if (yes != lanes)
        answers_of(w->cta)->saw_failure = true;
    set_mask(w, &op->opnds[0], lanes, yes);
    return FLOW_NEXT;
}

/* aux[0]: the axis, 3: all of them. */
static enum flow exec_first_ctaid(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *to = &op->opnds[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t words[4];
        if (!get_answer(w, op, lane, words))
            return FLOW_STOP;
        if (words[0] == ANSWER_NO) {
            w->cur_lanes = (uint32_t)1 << lane;
            return report(grid_of(w), w, CHECK_LAUNCH_CONTROL,
                          "the request has failed, there is no first CTA; ask "
                          "is_canceled before");
        }
        if (op->aux[0] < 3) {
            uint32_t *d = opnd_lanes(w, to);
            d[lane] = words[1 + op->aux[0]];
            continue;
        }
        for (int axis = 0; axis < 3; axis++) {
            uint32_t *d = opnd_lanes(w, &to->items[axis]);
            d[lane] = words[1 + axis];
        }
        /* The fourth one says nothing. */
        uint32_t *d = opnd_lanes(w, &to->items[3]);
        d[lane] = 0;
    }
    return FLOW_NEXT;
}

bool decode_CLUSTERLAUNCHCONTROL_QUERY_CANCEL(struct decoder *d, struct op *o)
{
    static const enum ptx_mod axes[] = {
        PTX_M_GET_FIRST_CTAID_X, PTX_M_GET_FIRST_CTAID_Y, PTX_M_GET_FIRST_CTAID_Z};
    if (!decode_want_count(d, o, 2, 2) || !decode_want_reg(d, o, 1, 128))
        return false;
    if (ptx_has(o->insn, PTX_M_IS_CANCELED)) {
        o->exec = exec_is_canceled;
        return decode_want_reg(d, o, 0, 1);
    }
    o->exec = exec_first_ctaid;
    o->aux[0] = 3;
    for (uint32_t i = 0; i < COUNT_OF(axes); i++)
        if (ptx_has(o->insn, axes[i]))
            o->aux[0] = i;
    if (o->aux[0] < 3)
        return decode_want_reg(d, o, 0, 32);
    const struct opnd *v = &o->opnds[0];
    if (v->kind != PTX_OPND_VECTOR || v->item_count != 4)
        return decode_refuse(d, o, "it needs a list of four registers");
    for (int i = 0; i < 4; i++)
        if (!v->items[i].is_sink && (v->items[i].is_const || v->items[i].bits != 32))
            return decode_refuse(d, o, "element %d must be a 32-bit register", i + 1);
    return true;
}
