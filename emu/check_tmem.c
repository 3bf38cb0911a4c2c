/* check_tmem.c - who may touch which cells of tensor memory, and when: checks 12, 13,
 * 15, 18, 20 and 31.
 *
 * A cell remembers its last writer and its last reader.  Whoever comes next must know
 * that they are complete (hb.h), unless the pipeline keeps the two in order. */
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/tmem.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

static struct tmem_state *state_of(const struct tmem_area *a)
{
    return a->cta->pipe;
}

static bool is_piped(const struct tmem_op *op)
{
    return op->kind == TMEM_CP || op->kind == TMEM_MMA;
}

/* Does this lane know that `older` is complete? */
static bool is_known(const struct warp *w, uint32_t lane, const struct tmem_op *older)
{
    struct hb_eye eye = hb_eye(w, lane);
    enum hb_kind kind = is_piped(older)          ? HB_PIPE
                        : older->kind == TMEM_LD ? HB_LOADS
                                                 : HB_STORES;
    return hb_sees(&eye, HB_PLAIN, hb_component(older->issuer, kind),
                   is_piped(older) ? (uint32_t)1 << older->lane : UINT32_MAX,
                   older->number);
}

static bool same_thread(const struct tmem_op *a, const struct tmem_op *b)
{
    return a->issuer == b->issuer && a->lane == b->lane;
}

/* ---- messages */

static const char *const kind_names[] = {"tcgen05.ld", "tcgen05.st", "tcgen05.cp",
                                         "tcgen05.mma"};

static void note_place(struct warp *w, const struct tmem_op *older)
{
    report_party(grid_of(w), "the earlier one:", older->issuer, older->pc, 0);
}

static void note_older(struct warp *w, const struct tmem_op *older)
{
    struct grid *g = grid_of(w);
    note_place(w, older);
    if (is_piped(older))
        report_note(g, "this thread has seen no wait return true for a barrier that a "
                       "commit behind it has arrived on");
    else if (!is_known(older->issuer, older->lane, older))
        report_note(g, "its warp has not executed tcgen05.wait::%s",
                    older->kind == TMEM_LD ? "ld" : "st");
    else
        report_note(g,
                    "its warp has executed tcgen05.wait::%s, but nothing orders that "
                    "before this instruction",
                    older->kind == TMEM_LD ? "ld" : "st");
}

static bool blame(struct warp *w, enum check check, const struct tmem_op *op,
                  const struct tmem_op *older, const struct tmem_area *a, uint32_t col,
                  const char *what)
{
    struct grid *g = grid_of(w);
    if (!report_wants(g, check))
        return true;
    enum flow f = report(
        g, w, check,
        "%s: tensor memory column %u of CTA %u is %s by this %s while the %s of "
        "line %d is not complete",
        what, col, a->cta->rank,
        check == CHECK_TMEM_UNFINISHED ? "used" : "overwritten", kind_names[op->kind],
        kind_names[older->kind], g->kernel->ops[older->pc].insn->line);
    note_older(w, older);
    hb_mbar_cause(w, NULL, older->issuer);
    return f == FLOW_NEXT;
}

static bool blame_fresh(struct warp *w, const struct tmem_area *a, uint32_t q,
                        uint32_t col, const char *what)
{
    return report(grid_of(w), w, CHECK_UNINITIALISED,
                  "%s: tensor memory column %u, lanes %u to %u of CTA %u, was never "
                  "written",
                  what, col, q * 32, q * 32 + 31, a->cta->rank) == FLOW_NEXT;
}

/* Check 15: the manual wants a fence on either side when the work goes from thread to
 * thread; a commit contains the first one. */
static bool check_fences(struct warp *w, const struct tmem_op *op,
                         const struct tmem_op *older)
{
    struct grid *g = grid_of(w);
    if (older->issuer == op->issuer || !report_wants(g, CHECK_TCGEN05_FENCE))
        return true;
    bool before = is_piped(older) || older->number <= older->issuer->hb->fenced_upto;
    if (before && !w->hb->acquired)
        return true;
    enum flow f;
    if (!before)
        f = report(g, w, CHECK_TCGEN05_FENCE,
                   "the %s of line %d was handed over to this thread without a "
                   "tcgen05.fence::before_thread_sync behind it",
                   kind_names[older->kind], g->kernel->ops[older->pc].insn->line);
    else
        f = report(g, w, CHECK_TCGEN05_FENCE,
                   "this %s comes after the %s of line %d in another thread, with no "
                   "tcgen05.fence::after_thread_sync behind the wait",
                   kind_names[op->kind], kind_names[older->kind],
                   g->kernel->ops[older->pc].insn->line);
    note_place(w, older);
    return f == FLOW_NEXT;
}

/* ---- the last writer, the last reader */

/* May `op` follow `older`, which wrote the cells, without a wait?  Of one thread, cp
 * and mma are pipelined in issue order (PTX ISA 9.0, "Pipelined tcgen05 Instructions");
 * that a later cp may replace scales is what every known kernel relies on. */
static bool follows_writer(const struct tmem_op *op, const struct tmem_op *older,
                           bool op_writes)
{
    /* Stores of one warp are in order with each other. */
    if (op->kind == TMEM_ST && older->kind == TMEM_ST)
        return op->issuer == older->issuer;
    if (!is_piped(op) || !same_thread(op, older))
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
    struct tmem_op *older = tmem_find(state_of(a)->log, number);
    if (!older || older == op)
        return true;
    if (!op_writes && op->kind == TMEM_LD)
        older->read = true;
    if (follows_writer(op, older, op_writes))
        return true;
    if (is_known(w, op->lane, older))
        return check_fences(w, op, older);
    return blame(w, CHECK_TMEM_UNFINISHED, op, older, a, col, what);
}

/* An accumulator that was finished, as a commit behind it says, is started anew though
 * no load has looked at it: somebody does not wait for the epilogue. */
static bool check_unread(struct warp *w, const struct tmem_op *op, uint32_t number,
                         const struct tmem_area *a)
{
    const struct tmem_op *older = tmem_find(state_of(a)->log, number);
    if (!op->starts || !older || older->kind != TMEM_MMA || older->read)
        return true;
    const struct tmem_state *s = older->issuer->cta->pipe;
    if (s->committed[older->issuer->index] < older->number ||
        !report_wants(grid_of(w), CHECK_TMEM_OVERWRITTEN))
        return true;
    enum flow f = report(
        grid_of(w), w, CHECK_TMEM_OVERWRITTEN,
        "the accumulator in tensor memory columns %u to %u is started anew before any "
        "tcgen05.ld has read what is in it",
        a->col, a->col + a->cols - 1);
    report_party(grid_of(w), "written last by:", older->issuer, older->pc, 0);
    report_note(grid_of(w), "does this warp wait until the accumulator is empty?");
    hb_mbar_cause(w, NULL, NULL);
    return f == FLOW_NEXT;
}

/* That a cp waits for an earlier mma of its thread which reads the columns is what all
 * production code relies on, and no document says so: the pedantic side of check 31. */
static bool check_order(struct warp *w, const struct tmem_op *older,
                        const struct tmem_area *a, uint32_t col)
{
    struct grid *g = grid_of(w);
    enum flow f =
        report_at(g, w, CHECK_SCALE_OVERLAP, CHECK_IS_PEDANTIC,
                  "tensor memory column %u of CTA %u is overwritten by this "
                  "tcgen05.cp while the tcgen05.mma of line %d may read scales "
                  "there: the manual promises the order of cp before mma only",
                  col, a->cta->rank, g->kernel->ops[older->pc].insn->line);
    note_older(w, older);
    report_mend(g, "wait for the commit behind that mma, or take turns between several "
                   "sets of scale columns");
    return f == FLOW_NEXT;
}

static bool check_reader(struct warp *w, struct tmem_op *op, uint32_t number,
                         const struct tmem_area *a, uint32_t col, const char *what)
{
    const struct tmem_op *older = tmem_find(state_of(a)->log, number);
    if (!older || older == op)
        return true;
    bool known = is_known(w, op->lane, older);
    if (is_piped(op) && is_piped(older) && same_thread(op, older))
        return known || op->kind != TMEM_CP || older->kind != TMEM_MMA ||
               check_order(w, older, a, col);
    if (known)
        return check_fences(w, op, older);
    enum check check =
        older->kind == TMEM_LD ? CHECK_TMEM_OVERWRITTEN : CHECK_SCALE_OVERLAP;
    return blame(w, check, op, older, a, col, what);
}

/* ---- areas */

bool tmem_reads(struct warp *w, struct tmem_op *op, struct tmem_area a,
                const char *what)
{
    struct tmem_state *s = state_of(&a);
    if (!w->hb)
        return true;
    for (uint32_t q = 0; q < TMEM_QUARTERS; q++) {
        if (!(a.quarters >> q & 1))
            continue;
        uint32_t *writer = &s->writer[q][a.col], last = 0;
        for (uint32_t i = 0; i < a.cols; i++) {
            if (writer[i] == last && last != 0)
                continue;
            last = writer[i];
            if (last == 0 ? !blame_fresh(w, &a, q, a.col + i, what)
                          : !check_writer(w, op, last, false, &a, a.col + i, what))
                return false;
        }
        for (uint32_t i = 0; i < a.cols; i++)
            s->reader[q][a.col + i] = op->number;
    }
    return true;
}

static bool are_equal(const uint32_t *x, uint32_t count)
{
    uint32_t differs = 0;
    for (uint32_t i = 0; i < count; i++)
        differs |= x[i] ^ x[0];
    return differs == 0;
}

static bool check_column(struct warp *w, struct tmem_op *op, const struct tmem_area *a,
                         uint32_t q, uint32_t i, const char *what)
{
    const struct tmem_state *s = state_of(a);
    uint32_t writer = s->writer[q][a->col + i], reader = s->reader[q][a->col + i];
    if (reader && !check_reader(w, op, reader, a, a->col + i, what))
        return false;
    if (writer == 0)
        return op->kind != TMEM_MMA || op->starts ||
               blame_fresh(w, a, q, a->col + i, what);
    return check_writer(w, op, writer, true, a, a->col + i, what) &&
           check_unread(w, op, writer, a);
}

bool tmem_writes(struct warp *w, struct tmem_op *op, struct tmem_area a,
                 const char *what)
{
    struct tmem_state *s = state_of(&a);
    if (!w->hb)
        return true;
    for (uint32_t q = 0; q < TMEM_QUARTERS; q++) {
        if (!(a.quarters >> q & 1))
            continue;
        uint32_t *writer = &s->writer[q][a.col], *reader = &s->reader[q][a.col];
        uint32_t count = a.cols;
        if (are_equal(writer, a.cols) && are_equal(reader, a.cols))
            count = 1;
        for (uint32_t i = 0; i < count; i++)
            if ((i == 0 || writer[i] != writer[i - 1] || reader[i] != reader[i - 1]) &&
                !check_column(w, op, &a, q, i, what))
                return false;
        for (uint32_t i = 0; i < a.cols; i++)
            writer[i] = op->number;
        memset(reader, 0, a.cols * sizeof *reader);
    }
    return true;
}

bool tmem_idle(struct warp *w, struct tmem_area a)
{
    struct tmem_state *s = state_of(&a);
    uint32_t lane = (uint32_t)bits_lowest(w->cur_lanes);
    for (uint32_t q = 0; w->hb && q < TMEM_QUARTERS; q++)
        for (uint32_t col = a.col; col < a.col + a.cols; col++) {
            const struct tmem_op *op = tmem_find(s->log, s->reader[q][col]);
            if (!op || is_known(w, lane, op))
                op = tmem_find(s->log, s->writer[q][col]);
            if (!op || is_known(w, lane, op) ||
                !report_wants(grid_of(w), CHECK_TMEM_IN_USE))
                continue;
            enum flow f = report(
                grid_of(w), w, CHECK_TMEM_IN_USE,
                "tensor memory column %u of CTA %u is freed while the %s of line "
                "%d is not complete",
                col, a.cta->rank, kind_names[op->kind],
                grid_of(w)->kernel->ops[op->pc].insn->line);
            note_older(w, op);
            return f == FLOW_NEXT;
        }
    return true;
}
