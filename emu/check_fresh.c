/* check_fresh.c - check 20 for registers: who reads one that its lane never wrote.
 *
 * Called at the ops that decode_watch.c has found; watch.h has the rules. */
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/watch.h"

#include <stdlib.h>

#define NOT_YET UINT32_MAX

struct hb_fresh {
    uint32_t written; /* lanes in which it holds a value */
    uint32_t pc;      /* else: where what it is made of was read; NOT_YET: it is that */
    uint16_t origin;  /* ... and which register that is */
};

void hb_fresh_reset(struct hb_warp *h, const struct warp *w)
{
    const struct grid *g = w->cta->cluster->grid;
    const struct kernel *k = g->kernel;
    if (k->watched_count == 0 || !report_wants(g, CHECK_UNINITIALISED))
        return;
    if (!h->fresh)
        h->fresh = malloc(k->watched_count * sizeof *h->fresh);
    if (!h->fresh)
        abort();
    for (uint32_t i = 0; i < k->watched_count; i++)
        h->fresh[i] = (struct hb_fresh){0, NOT_YET, (uint16_t)i};
}

static uint32_t written(const struct hb_fresh *f, uint16_t number)
{
    return number == WATCH_NONE ? ALL_LANES : f[number].written;
}

/* Told once: it counts as written from here on. */
static bool tell(struct warp *w, uint16_t number, uint32_t lanes)
{
    struct grid *g = w->cta->cluster->grid;
    const struct kernel *k = g->kernel;
    struct hb_fresh *f = &w->hb->fresh[number];
    enum flow flow;
    w->cur_lanes = lanes;
    f->written |= lanes;
    if (f->origin == number)
        flow = report_at(g, w, CHECK_UNINITIALISED, CHECK_IS_WARNING,
                         "register %s is read, and nothing has written it",
                         k->watched[number]);
    else
        flow = report_at(g, w, CHECK_UNINITIALISED, CHECK_IS_WARNING,
                         "register %s is read, which was computed from %s, and nothing "
                         "had written that",
                         k->watched[number], k->watched[f->origin]);
    if (f->pc != NOT_YET)
        report_note(g, "%s was read at line %d (%s)", k->watched[f->origin],
                    k->ops[f->pc].insn->line, k->ops[f->pc].insn->opcode);
    report_mend(g, "write it on every path that leads here");
    return flow == FLOW_NEXT;
}

/* Of the lanes, those that do not store to local memory. */
static uint32_t not_local(const struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t out = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (opnd_address(w, &op->opnds[0], lane) - LOCAL_WINDOW >= WINDOW_BYTES)
            out |= (uint32_t)1 << lane;
    }
    return out;
}

static bool check_reads(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct watch *x = op->watch;
    const struct hb_fresh *f = w->hb->fresh;
    uint32_t holes = lanes;
    for (int i = 0; i < x->read_count; i++) {
        uint32_t bad = lanes & ~written(f, x->reads[i]);
        holes &= i >= x->apart ? bad : ALL_LANES;
        if (i < x->apart && bad && !tell(w, x->reads[i], bad))
            return false;
    }
    if (x->apart == x->read_count || !holes)
        return true;
    holes = not_local(w, op, holes);
    return !holes || tell(w, x->reads[x->apart], holes);
}

static uint32_t value_of(const struct warp *w, const struct op *op, int operand)
{
    return operand < op->opnd_count ? opnd_mask(w, &op->opnds[operand]) : 0;
}

/* Lanes in which result `k` has a value. */
static uint32_t result(const struct warp *w, const struct op *op, int k)
{
    const struct watch *x = op->watch;
    const struct hb_fresh *f = w->hb->fresh;
    uint32_t any = 0, all = ALL_LANES, a, b;
    switch (x->rule) {
    case WATCH_TELL:
    case WATCH_FRESH:
        return ALL_LANES;
    case WATCH_EACH:
        return written(f, x->reads[k]);
    case WATCH_SELP:
        a = value_of(w, op, 3);
        return written(f, x->reads[2]) &
               ((a & written(f, x->reads[0])) | (~a & written(f, x->reads[1])));
    case WATCH_AND:
    case WATCH_OR:
        a = value_of(w, op, 1);
        b = value_of(w, op, 2);
        if (x->rule == WATCH_AND) {
            a = ~a;
            b = ~b;
        }
        /* Where one of them decides, the other may hold anything. */
        a &= written(f, x->reads[0]);
        b &= written(f, x->reads[1]);
        return a | b | (written(f, x->reads[0]) & written(f, x->reads[1]));
    default:
        for (int i = 0; i < x->read_count; i++) {
            any |= written(f, x->reads[i]);
            all &= written(f, x->reads[i]);
        }
        return x->rule == WATCH_ALL ? any : all;
    }
}

/* The first of what is read that lacks a value in these lanes. */
static uint16_t cause_of(const struct warp *w, const struct watch *x, int k,
                         uint32_t lanes)
{
    for (int i = x->rule == WATCH_EACH ? k : 0; i < x->read_count; i++)
        if (lanes & ~written(w->hb->fresh, x->reads[i]))
            return x->reads[i];
    return WATCH_NONE;
}

static void note_results(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct watch *x = op->watch;
    struct hb_fresh *f = w->hb->fresh;
    uint32_t good = 0;
    uint16_t cause = WATCH_NONE;
    for (int k = 0; k < x->write_count; k++) {
        if (k == 0 || x->rule == WATCH_EACH) {
            good = result(w, op, k);
            cause = cause_of(w, x, k, lanes & ~good);
        }
        if (x->writes[k] == WATCH_NONE)
            continue;
        struct hb_fresh *to = &f[x->writes[k]];
        if (lanes & ~good && cause != WATCH_NONE) {
            to->origin = f[cause].origin;
            to->pc = f[cause].pc == NOT_YET ? w->cur_pc : f[cause].pc;
        }
        to->written = (to->written & ~lanes) | (lanes & good);
    }
}

bool hb_watch(struct warp *w, const struct op *op, uint32_t pc, uint32_t lanes)
{
    const struct watch *x = op->watch;
    if (!w->hb->fresh)
        return true;
    uint32_t bad = lanes & ~written(w->hb->fresh, x->guard);
    w->cur_pc = pc;
    if (bad && !tell(w, x->guard, bad))
        return false;
    if (op->guard.kind == PTX_OPND_REG)
        lanes &= opnd_mask(w, &op->guard);
    if (lanes && x->rule == WATCH_TELL && !check_reads(w, op, lanes))
        return false;
    if (lanes)
        note_results(w, op, lanes);
    return true;
}
