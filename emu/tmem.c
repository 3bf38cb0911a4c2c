/* tmem.c - the log of tcgen05 operations, and checks 12, 13, 17, 20 and 31 with it. */
#include "emu/tmem.h"

#include <stdlib.h>

#include "emu/env.h"
#include "emu/report.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- state */

struct cta *tmem_peer(struct cta *c)
{
    uint32_t rank = c->rank ^ 1;
    return rank < (uint32_t)c->cluster->cta_count ? &c->cluster->ctas[rank] : NULL;
}

static struct tmem_state *make_state(struct cta *c)
{
    if (!c->pipe) {
        struct tmem_state *s = calloc(1, sizeof *s);
        char why[128];
        if (!s)
            abort();
        s->log = &s->own_log;
        /* env_read() has refused what this CPU cannot do. */
        if (!mma_isa_choose(env()->isa, &s->isa, why, sizeof why))
            s->isa = MMA_SCALAR;
        c->pipe = s;
    }
    return c->pipe;
}

struct tmem_state *tmem_state_if_any(struct cta *c)
{
    return c->pipe;
}

struct tmem_state *tmem_state(struct warp *w, int group)
{
    struct cta *c = w->cta;
    struct tmem_state *s = make_state(c);
    if (s->group == group)
        return s;
    if (s->group != 0 && s->group != group) {
        report(
            grid_of(w), w, CHECK_TMEM_LEAK,
            ".cta_group::%d after .cta_group::%d: all tcgen05 instructions of a kernel "
            "use one",
            group, s->group);
        return NULL;
    }
    if (group == 2) {
        struct cta *peer = tmem_peer(c);
        if (!peer) {
            report(grid_of(w), w, CHECK_OPERAND,
                   ".cta_group::2 needs a pair of CTAs, but the cluster has %d and "
                   "this is "
                   "CTA %u",
                   c->cluster->cta_count, c->rank);
            return NULL;
        }
        s->log = &make_state(c->rank & 1 ? peer : c)->own_log;
        make_state(peer)->log = s->log;
    }
    s->group = group;
    return s;
}

bool tmem_peer_lives(struct warp *w, int group)
{
    if (group == 1 || tmem_peer(w->cta)->live_warps > 0)
        return true;
    report(grid_of(w), w, CHECK_CTA_EXIT,
           ".cta_group::2, but CTA %u, the other half of the pair, has exited",
           tmem_peer(w->cta)->rank);
    return false;
}

void tcgen05_cta_free(struct cta *c)
{
    free(c->pipe);
    free(c->tmem);
    c->pipe = NULL;
    c->tmem = NULL;
}

/* Check 16: what was allocated must be freed. */
bool tcgen05_cta_end(struct warp *w, struct cta *c)
{
    if (c->tmem_alloc_count == 0)
        return true;
    report(grid_of(w), w, CHECK_TMEM_LEAK,
           "block (%u,%u,%u) exits with tensor memory columns %u to %u allocated",
           c->id[0], c->id[1], c->id[2], c->tmem_allocs[0].col,
           c->tmem_allocs[0].col + c->tmem_allocs[0].cols - 1);
    return false;
}

bool tmem_owned(struct warp *w, struct cta *c, uint32_t col, uint32_t cols,
                const char *what)
{
    for (int i = 0; i < c->tmem_alloc_count; i++) {
        const struct tmem_alloc *a = &c->tmem_allocs[i];
        if (col >= a->col && col + cols <= a->col + a->cols)
            return true;
    }
    report(grid_of(w), w, CHECK_TMEM_OUTSIDE,
           "%s: tensor memory columns %u to %u of CTA %u are not in one allocation",
           what, col, col + cols - 1, c->rank);
    for (int i = 0; i < c->tmem_alloc_count; i++)
        report_note(grid_of(w), "allocated: columns %u to %u", c->tmem_allocs[i].col,
                    c->tmem_allocs[i].col + c->tmem_allocs[i].cols - 1);
    return false;
}

/* ---- the log */

struct tmem_op *tmem_log(struct tmem_state *s, struct warp *w, int lane,
                         enum tmem_kind kind)
{
    struct tmem_log *log = s->log;
    log->issued++;
    struct tmem_op *op = &log->ops[log->issued % TMEM_LOG_OPS];
    *op = (struct tmem_op){
        .number = log->issued,
        .kind = (uint8_t)kind,
        .lane = (uint8_t)lane,
        .issuer = w,
        .pc = w->cur_pc,
    };
    if (kind == TMEM_LD)
        s->last_ld[w->index] = log->issued;
    return op;
}

static struct tmem_op *log_find(struct tmem_log *log, uint32_t number)
{
    struct tmem_op *op = &log->ops[number % TMEM_LOG_OPS];
    return number != 0 && op->number == number ? op : NULL;
}

static bool is_observed(const struct tmem_commit *k)
{
    return !k->mbar->valid || k->mbar->phase > k->phase + 1 ||
           (k->mbar->phase == k->phase + 1 && k->mbar->observed);
}

static bool is_done(struct tmem_log *log, struct tmem_op *op)
{
    const struct tmem_state *s = op->issuer->cta->pipe;
    if (op->done)
        return true;
    switch ((enum tmem_kind)op->kind) {
    case TMEM_LD:
        op->done = op->number <= s->waited_ld[op->issuer->index];
        break;
    case TMEM_ST:
        op->done = op->number <= s->waited_st[op->issuer->index];
        break;
    case TMEM_CP:
    case TMEM_MMA:
        op->done = op->number <= log->forgotten;
        for (uint32_t i = 0; !op->done && i < TMEM_LOG_COMMITS; i++) {
            const struct tmem_commit *k = &log->commits[i];
            op->done = k->number >= op->number && k->issuer == op->issuer &&
                       k->lane == op->lane && is_observed(k);
        }
        break;
    }
    return op->done;
}

void tmem_committed(struct tmem_log *log, uint32_t number, const struct warp *issuer,
                    int lane, const struct mbar *m)
{
    struct tmem_commit *k = &log->commits[log->commit_count++ % TMEM_LOG_COMMITS];
    if (k->number > log->forgotten)
        log->forgotten =
            k->number; /* nothing can be proven any more: assume the best */
    *k = (struct tmem_commit){number, (uint8_t)lane, issuer, m, m->phase};
}

void tmem_waited(struct warp *w, enum tmem_kind kind)
{
    struct tmem_state *s = w->cta->pipe;
    if (s)
        (kind == TMEM_LD ? s->waited_ld : s->waited_st)[w->index] = s->log->issued;
}

/* ---- hazards */

static const char *const kind_names[] = {"tcgen05.ld", "tcgen05.st", "tcgen05.cp",
                                         "tcgen05.mma"};

static bool blame(struct warp *w, enum check check, const struct tmem_op *op,
                  const struct tmem_op *other, const struct tmem_area *a, uint32_t col,
                  const char *what)
{
    char place[512];
    struct grid *g = grid_of(w);
    const char *verb = check == CHECK_TMEM_OVERWRITTEN ? "is overwritten" : "is used";
    report(g, w, check,
           "%s: tensor memory column %u of CTA %u %s by this %s while the %s of line "
           "%d is "
           "not complete",
           what, col, a->cta->rank, verb, kind_names[op->kind], kind_names[other->kind],
           g->kernel->ops[other->pc].insn->line);
    report_note(g, "the earlier one: %s",
                report_issuer(other->issuer, other->pc, place, sizeof place));
    if (other->kind == TMEM_MMA || other->kind == TMEM_CP)
        report_note(g,
                    "no wait has returned true for a barrier that a commit behind it "
                    "has arrived on");
    else
        report_note(g, "its warp has not executed tcgen05.wait::%s",
                    other->kind == TMEM_LD ? "ld" : "st");
    return false;
}

static bool same_thread(const struct tmem_op *a, const struct tmem_op *b)
{
    return a->issuer == b->issuer && a->lane == b->lane;
}

/* May `op` follow `older`, which wrote the cells, without a wait?  Of one thread, cp
 * and mma are pipelined in issue order (PTX ISA 9.0, "Pipelined tcgen05 Instructions");
 * that a later cp may replace scales is what every known kernel relies on. */
static bool follows_writer(const struct tmem_op *op, const struct tmem_op *older,
                           bool op_writes)
{
    if ((op->kind != TMEM_MMA && op->kind != TMEM_CP) || !same_thread(op, older))
        return false;
    if (older->kind == TMEM_CP)
        return op->kind == TMEM_CP || !op_writes;
    return older->kind == TMEM_MMA && op->kind == TMEM_MMA && op_writes &&
           op->acc_col == older->acc_col && op->acc_cols == older->acc_cols;
}

static bool check_writer(struct warp *w, struct tmem_op *op, uint32_t number,
                         bool op_writes, const struct tmem_area *a, uint32_t col,
                         const char *what)
{
    struct tmem_log *log = ((struct tmem_state *)a->cta->pipe)->log;
    struct tmem_op *older = log_find(log, number);
    if (!older || older == op)
        return true;
    if (!op_writes && op->kind == TMEM_LD)
        older->read = true;
    /* Stores of one warp are in order with each other. */
    if (op->kind == TMEM_ST && older->kind == TMEM_ST && op->issuer == older->issuer)
        return true;
    if (follows_writer(op, older, op_writes) || is_done(log, older))
        return true;
    return blame(w, CHECK_TMEM_UNFINISHED, op, older, a, col, what);
}

/* An accumulator that was finished, as a commit behind it says, is started anew though
 * no load has looked at it: somebody does not wait for the epilogue. */
static bool check_unread(struct warp *w, const struct tmem_op *op, uint32_t number,
                         const struct tmem_area *a)
{
    struct tmem_log *log = ((struct tmem_state *)a->cta->pipe)->log;
    const struct tmem_op *older = log_find(log, number);
    if (!op->starts || !older || older->kind != TMEM_MMA || older->read)
        return true;
    for (uint32_t i = 0; i < TMEM_LOG_COMMITS; i++) {
        const struct tmem_commit *k = &log->commits[i];
        if (k->number < older->number || k->issuer != older->issuer)
            continue;
        char place[512];
        report(
            grid_of(w), w, CHECK_TMEM_OVERWRITTEN,
            "the accumulator in tensor memory columns %u to %u is started anew before "
            "any tcgen05.ld has read what is in it",
            a->col, a->col + a->cols - 1);
        report_note(grid_of(w), "written last by: %s",
                    report_issuer(older->issuer, older->pc, place, sizeof place));
        report_note(grid_of(w), "does this warp wait until the accumulator is empty?");
        return false;
    }
    return true;
}

static struct tmem_state *state_of(const struct tmem_area *a)
{
    return a->cta->pipe;
}

static bool blame_fresh(struct warp *w, const struct tmem_area *a, uint32_t q,
                        uint32_t col, const char *what)
{
    report(grid_of(w), w, CHECK_UNINITIALISED,
           "%s: tensor memory column %u, lanes %u to %u of CTA %u, was never written",
           what, col, q * 32, q * 32 + 31, a->cta->rank);
    return false;
}

bool tmem_reads(struct warp *w, struct tmem_op *op, struct tmem_area a,
                const char *what)
{
    struct tmem_state *s = state_of(&a);
    if (grid_of(w)->no_checks)
        return true;
    for (uint32_t q = 0; q < TMEM_QUARTERS; q++) {
        if (!(a.quarters >> q & 1))
            continue;
        uint32_t *writer = &s->writer[q][a.col], last = 0;
        for (uint32_t i = 0; i < a.cols; i++) {
            if (writer[i] == last && last != 0)
                continue;
            last = writer[i];
            if (last == 0)
                return blame_fresh(w, &a, q, a.col + i, what);
            if (!check_writer(w, op, last, false, &a, a.col + i, what))
                return false;
        }
        if (op->kind == TMEM_LD)
            for (uint32_t i = 0; i < a.cols; i++)
                s->reader[q][a.col + i] = op->number;
    }
    return true;
}

/* Any load whose warp has not waited for it? */
static bool loads_pending(const struct tmem_state *s, int warps)
{
    for (int i = 0; i < warps; i++)
        if (s->last_ld[i] > s->waited_ld[i])
            return true;
    return false;
}

static bool check_readers(struct warp *w, struct tmem_op *op, const struct tmem_area *a,
                          uint32_t q, const char *what)
{
    struct tmem_state *s = state_of(a);
    uint32_t last = 0;
    for (uint32_t i = 0; i < a->cols; i++) {
        uint32_t number = s->reader[q][a->col + i];
        if (number == last)
            continue;
        last = number;
        struct tmem_op *older = log_find(s->log, number);
        if (older && !is_done(s->log, older))
            return blame(w, CHECK_TMEM_OVERWRITTEN, op, older, a, a->col + i, what);
    }
    return true;
}

bool tmem_writes(struct warp *w, struct tmem_op *op, struct tmem_area a,
                 const char *what)
{
    struct tmem_state *s = state_of(&a);
    if (grid_of(w)->no_checks)
        return true;
    bool pending = loads_pending(s, a.cta->warp_count);
    for (uint32_t q = 0; q < TMEM_QUARTERS; q++) {
        if (!(a.quarters >> q & 1))
            continue;
        if (pending && !check_readers(w, op, &a, q, what))
            return false;
        uint32_t *writer = &s->writer[q][a.col], last = UINT32_MAX;
        for (uint32_t i = 0; i < a.cols; i++) {
            if (writer[i] == last)
                continue;
            last = writer[i];
            if (last == 0 && op->kind == TMEM_MMA && !op->starts)
                return blame_fresh(w, &a, q, a.col + i, what);
            if (!check_writer(w, op, last, true, &a, a.col + i, what) ||
                !check_unread(w, op, last, &a))
                return false;
        }
        for (uint32_t i = 0; i < a.cols; i++)
            writer[i] = op->number;
    }
    return true;
}

bool tmem_idle(struct warp *w, struct tmem_area a)
{
    struct tmem_state *s = state_of(&a);
    for (uint32_t q = 0; q < TMEM_QUARTERS; q++)
        for (uint32_t col = a.col; col < a.col + a.cols; col++) {
            struct tmem_op *op = log_find(s->log, s->writer[q][col]);
            if (!op || is_done(s->log, op))
                op = log_find(s->log, s->reader[q][col]);
            if (!op || is_done(s->log, op) || grid_of(w)->no_checks)
                continue;
            char place[512];
            report(
                grid_of(w), w, CHECK_TMEM_IN_USE,
                "tensor memory column %u of CTA %u is freed while the %s of line %d is "
                "not complete",
                col, a.cta->rank, kind_names[op->kind],
                grid_of(w)->kernel->ops[op->pc].insn->line);
            report_note(grid_of(w), "the earlier one: %s",
                        report_issuer(op->issuer, op->pc, place, sizeof place));
            return false;
        }
    return true;
}
