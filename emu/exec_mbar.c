/* exec_mbar.c - mbarrier objects (2.7 of the semantics) and the instructions on them.
 *
 * PTX ISA 9.0, "mbarrier".  The state lies beside shared memory; a state operand holds
 * the phase in its upper half and the pending count in its lower one. */
#include "emu/cluster.h"
#include "emu/access.h"
#include "emu/hb.h"
#include "emu/choice.h"
#include "emu/coverage.h"
#include "emu/depend.h"
#include "emu/lanes.h"
#include "emu/timeline.h"

#include <stdlib.h>

#define MAX_COUNT ((1u << 20) - 1)
#define MAX_TX ((int64_t)((1 << 20) - 1))

static unsigned hash(uint32_t offset)
{
    return offset / 8 % MBAR_HASH;
}

static struct mbar *find_any(const struct cta *c, uint32_t offset)
{
    struct mbar *m = c->mbar_hash[hash(offset)];
    while (m && m->offset != offset)
        m = m->next;
    return m;
}

struct mbar *mbar_find(const struct cta *c, uint32_t offset)
{
    struct mbar *m = find_any(c, offset);
    return m && m->valid ? m : NULL;
}

bool mbar_in_range(const struct cta *c, uint32_t from, uint32_t to)
{
    for (const struct mbar *m = c->mbars; m; m = m->next_of_cta)
        if (m->valid && m->offset < to && m->offset + 8 > from)
            return true;
    return false;
}

/* Valid barriers lie between mbar_from and mbar_to. */
static void find_extent(struct cta *c)
{
    c->mbar_from = UINT32_MAX;
    c->mbar_to = 0;
    for (const struct mbar *m = c->mbars; m; m = m->next_of_cta) {
        if (!m->valid)
            continue;
        c->mbar_from = m->offset < c->mbar_from ? m->offset : c->mbar_from;
        c->mbar_to = m->offset + 8 > c->mbar_to ? m->offset + 8 : c->mbar_to;
    }
}

static struct mbar *add(struct cta *c, uint32_t offset)
{
    struct mbar *m = c->mbar_spare;
    if (m) {
        c->mbar_spare = m->next_of_cta;
    } else {
        m = calloc(1, sizeof *m);
        if (!m)
            abort();
    }
    struct hb_mbar *hb = m->hb;
    memset(m, 0, sizeof *m);
    m->hb = hb;
    m->cta = c;
    m->offset = offset;
    m->next = c->mbar_hash[hash(offset)];
    c->mbar_hash[hash(offset)] = m;
    m->next_of_cta = c->mbars;
    c->mbars = m;
    return m;
}

void mbars_reset(struct cta *c)
{
    while (c->mbars) {
        struct mbar *m = c->mbars;
        c->mbars = m->next_of_cta;
        m->next_of_cta = c->mbar_spare;
        c->mbar_spare = m;
    }
    memset(c->mbar_hash, 0, sizeof c->mbar_hash);
    find_extent(c);
}

void mbars_free(struct cta *c)
{
    mbars_reset(c);
    while (c->mbar_spare) {
        struct mbar *m = c->mbar_spare;
        c->mbar_spare = m->next_of_cta;
        hb_mbar_free(m);
        free(m);
    }
}

/* ---- what changes a barrier */

static struct mbar *want(struct warp *w, struct cta *c, uint32_t offset)
{
    struct grid *g = c->cluster->grid;
    struct mbar *m = find_any(c, offset);
    if (c->live_warps == 0) {
        report(g, w, CHECK_CTA_EXIT,
               "the barrier at 0x%x belongs to block (%u,%u,%u), which has exited",
               offset, c->id[0], c->id[1], c->id[2]);
        return NULL;
    }
    if (m && m->valid)
        return m;
    report(g, w, CHECK_BAD_BARRIER, "there is no barrier at 0x%x of block (%u,%u,%u)%s",
           offset, c->id[0], c->id[1], c->id[2],
           m ? ": it was invalidated" : ": mbarrier.init has not been executed there");
    if (m)
        report_note(g, "it was initialised in line %d", m->init_line);
    return NULL;
}

static void remember(struct mbar *m, struct warp *w, struct mbar_signal did)
{
    int i = 0;
    while (i < m->signal_count &&
           (m->signals[i].pc != w->cur_pc || m->signals[i].warp != w))
        i++;
    if (i == MBAR_SIGNALS)
        return;
    struct mbar_signal *s = &m->signals[i];
    if (i == m->signal_count || s->phase != m->phase)
        *s = (struct mbar_signal){.warp = w, .pc = w->cur_pc, .phase = m->phase};
    s->arrivals += did.arrivals;
    s->expected += did.expected;
    s->received += did.received;
    m->signal_count += i == m->signal_count;
}

static void test_phase(struct mbar *m)
{
    if (m->pending != 0 || m->tx != 0)
        return;
    coverage_phase(m);
    timeline_phase(m);
    hb_mbar_phase(m);
    m->phase++;
    m->pending = m->expected;
    m->observed = false;
    m->tx_expected = m->tx_completed = 0;
    cluster_event(m->cta->cluster);
    wake_mbar(m);
}

/* Check 7: for every phase some wait must return true before anything of the next one
 * arrives, or a parity wait can no longer tell the two apart. */
static bool check_overrun(struct warp *w, const struct mbar *m, const char *what)
{
    struct grid *g = m->cta->cluster->grid;
    if (m->phase == 0 || m->observed || g->no_checks)
        return true;
    report(
        g, w, CHECK_PHASE_OVERRUN,
        "%s on the barrier at 0x%x of block (%u,%u,%u) belongs to its phase %llu, but "
        "no wait has returned true for phase %llu yet",
        what, m->offset, m->cta->id[0], m->cta->id[1], m->cta->id[2],
        (unsigned long long)m->phase, (unsigned long long)m->phase - 1);
    report_note(g, "the barrier was initialised in line %d for %u arrivals",
                m->init_line, m->expected);
    return false;
}

/* `tellers`: lanes that release with this arrival, 0 when they have done so already. */
static bool arrive(struct warp *w, struct mbar *m, uint32_t count, uint32_t tellers)
{
    struct grid *g = m->cta->cluster->grid;
    if (!check_overrun(w, m, "an arrival"))
        return false;
    if (count > m->pending) {
        report(g, w, CHECK_ARRIVAL_COUNT,
               "%u arrivals on the barrier at 0x%x of block (%u,%u,%u), which expects "
               "only %u more in phase %llu (of %u)",
               count, m->offset, m->cta->id[0], m->cta->id[1], m->cta->id[2],
               m->pending, (unsigned long long)m->phase, m->expected);
        report_note(g, "initialised in line %d; %lld bytes are still to come",
                    m->init_line, (long long)m->tx);
        note_signals(g, m);
        return false;
    }
    if (w->hb && tellers && !hb_mbar_arrive(w, m, tellers))
        return false;
    m->pending -= count;
    coverage_arrive(w, m);
    timeline_arrive(w, m);
    remember(m, w, (struct mbar_signal){.arrivals = count});
    cluster_event(m->cta->cluster);
    test_phase(m);
    return true;
}

bool mbar_arrive(struct warp *w, struct cta *c, uint32_t offset, uint32_t count)
{
    struct mbar *m = want(w, c, offset);
    return m && arrive(w, m, count, w->cur_lanes);
}

static bool check_tx(struct warp *w, const struct mbar *m)
{
    if (m->tx <= MAX_TX && m->tx >= -MAX_TX)
        return true;
    report(
        m->cta->cluster->grid, w, CHECK_BYTE_COUNT,
        "the barrier at 0x%x of block (%u,%u,%u) waits for %lld bytes: more than the "
        "%lld that a barrier can count (%lld expected, %lld received)",
        m->offset, m->cta->id[0], m->cta->id[1], m->cta->id[2], (long long)m->tx,
        (long long)MAX_TX, (long long)m->tx_expected, (long long)m->tx_completed);
    note_signals(m->cta->cluster->grid, m);
    return false;
}

static bool expect(struct warp *w, struct mbar *m, uint32_t bytes)
{
    m->tx += bytes;
    m->tx_expected += bytes;
    remember(m, w, (struct mbar_signal){.expected = bytes});
    cluster_event(m->cta->cluster);
    return check_tx(w, m);
}

bool mbar_expect_tx(struct warp *w, struct cta *c, uint32_t offset, uint32_t bytes)
{
    struct mbar *m = want(w, c, offset);
    return m && expect(w, m, bytes);
}

bool mbar_complete_tx(struct warp *w, struct cta *c, uint32_t offset, uint32_t bytes)
{
    struct mbar *m = want(w, c, offset);
    if (!m || !check_overrun(w, m, "bytes"))
        return false;
    hb_mbar_bytes(w, m);
    m->tx -= bytes;
    m->tx_completed += bytes;
    coverage_arrive(w, m);
    timeline_arrive(w, m);
    remember(m, w, (struct mbar_signal){.received = bytes});
    cluster_event(c->cluster);
    if (!check_tx(w, m))
        return false;
    test_phase(m);
    return true;
}

bool mbars_at_end(struct cluster *c)
{
    for (int i = 0; !c->grid->no_checks && i < c->cta_count; i++)
        for (const struct mbar *m = c->ctas[i].mbars; m; m = m->next_of_cta) {
            if (!m->valid || m->tx == 0)
                continue;
            struct warp *w = &c->ctas[i].warps[0];
            w->cur_pc = m->init_pc;
            w->cur_lanes = 0;
            report(c->grid, w, CHECK_BYTE_COUNT,
                   "the kernel has ended, and the barrier at 0x%x of block (%u,%u,%u) "
                   "%s %lld bytes (%lld expected, %lld received in phase %llu)",
                   m->offset, c->ctas[i].id[0], c->ctas[i].id[1], c->ctas[i].id[2],
                   m->tx > 0 ? "still waits for" : "was sent too many:",
                   (long long)(m->tx > 0 ? m->tx : -m->tx), (long long)m->tx_expected,
                   (long long)m->tx_completed, (unsigned long long)m->phase);
            note_signals(c->grid, m);
            return false;
        }
    return true;
}

/* ---- instructions */

enum { AUX_ADDRESS, AUX_GENERIC, AUX_CLUSTER, AUX_EXPECT, AUX_NOCOMPLETE, AUX_PARITY };

/* The CTA and offset that a lane's address operand names. */
static bool locate(struct warp *w, const struct op *op, int lane, struct cta **c,
                   uint32_t *offset)
{
    uint64_t a = opnd_address(w, &op->opnds[op->aux[AUX_ADDRESS]], lane);
    struct grid *g = w->cta->cluster->grid;
    w->cur_lanes = (uint32_t)1 << lane;
    if (op->aux[AUX_GENERIC] && op->opnds[op->aux[AUX_ADDRESS]].base != BASE_SHARED) {
        if (a - SHARED_WINDOW >= WINDOW_BYTES) {
            report(g, w, CHECK_BAD_BARRIER,
                   "the generic address 0x%llx is not in shared memory, where barriers "
                   "lie",
                   (unsigned long long)a);
            return false;
        }
        a -= SHARED_WINDOW;
    }
    if (a >> 32) {
        report(g, w, CHECK_BAD_BARRIER, "0x%llx is no shared address",
               (unsigned long long)a);
        return false;
    }
    if (a % 8) {
        report(g, w, CHECK_BAD_BARRIER,
               "the barrier address 0x%llx is no multiple of 8", (unsigned long long)a);
        return false;
    }
    return shared_at(w, (uint32_t)a, 8, op->aux[AUX_CLUSTER], c, offset) != NULL;
}

static bool decode_mbar(struct decoder *d, struct op *o, int address, exec_fn *exec)
{
    enum space space = access_space(o->insn);
    o->aux[AUX_ADDRESS] = (uint32_t)address;
    o->aux[AUX_GENERIC] = space == SPACE_GENERIC;
    o->aux[AUX_CLUSTER] = space == SPACE_SHARED_CLUSTER;
    o->exec = exec;
    return decode_want_address(d, o, address);
}

static enum flow exec_init(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t count = opnd_u32(w, &op->opnds[1], lane), offset;
        struct cta *c;
        if (!locate(w, op, lane, &c, &offset))
            return FLOW_STOP;
        if (count < 1 || count > MAX_COUNT)
            return report(c->cluster->grid, w, CHECK_BAD_BARRIER,
                          "mbarrier.init for %u arrivals: 1 to %u are allowed", count,
                          MAX_COUNT);
        struct mbar *m = find_any(c, offset);
        if (m && m->valid) {
            report(c->cluster->grid, w, CHECK_BAD_BARRIER,
                   "mbarrier.init over the barrier at 0x%x, which is in use", offset);
            report_note(c->cluster->grid, "it was initialised in line %d",
                        m->init_line);
            return FLOW_STOP;
        }
        if (w->hb && !hb_smem_range(w, c, offset, offset + 8, lane, HB_WRITE))
            return FLOW_STOP;
        if (!m)
            m = add(c, offset);
        m->valid = true;
        m->expected = m->pending = count;
        m->tx = m->tx_expected = m->tx_completed = 0;
        m->phase = 0;
        m->observed = false;
        m->signal_count = 0;
        m->arrived = m->done = 0;
        m->init_line = op->insn->line;
        m->init_pc = w->cur_pc;
        if (w->hb)
            hb_mbar_init(w, m, lane);
        find_extent(c);
        cluster_event(c->cluster);
    }
    return FLOW_NEXT;
}

bool decode_MBARRIER_INIT(struct decoder *d, struct op *o)
{
    return decode_want_count(d, o, 2, 2) && decode_mbar(d, o, 0, exec_init) &&
           decode_want_reg(d, o, 1, 32);
}

static enum flow exec_inval(struct warp *w, const struct op *op, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        struct cta *c;
        uint32_t offset;
        if (!locate(w, op, bits_lowest(rest), &c, &offset))
            return FLOW_STOP;
        struct mbar *m = want(w, c, offset);
        if (!m)
            return FLOW_STOP;
        if (m->tx != 0 && !c->cluster->grid->no_checks)
            return report(c->cluster->grid, w, CHECK_BYTE_COUNT,
                          "mbarrier.inval of the barrier at 0x%x, which waits for %lld "
                          "bytes",
                          offset, (long long)m->tx);
        m->valid = false;
        find_extent(c);
        cluster_event(c->cluster);
    }
    return FLOW_NEXT;
}

bool decode_MBARRIER_INVAL(struct decoder *d, struct op *o)
{
    return decode_want_count(d, o, 1, 1) && decode_mbar(d, o, 0, exec_inval);
}

static enum flow exec_tx(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool is_expect = op->insn->op == PTX_MBARRIER_EXPECT_TX;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct cta *c;
        uint32_t offset, bytes = opnd_u32(w, &op->opnds[1], lane);
        if (!locate(w, op, lane, &c, &offset))
            return FLOW_STOP;
        struct mbar *m = mbar_find(c, offset);
        if (w->hb && m && !hb_mbar_use(w, m, lane))
            return FLOW_STOP;
        if (!(is_expect ? mbar_expect_tx : mbar_complete_tx)(w, c, offset, bytes))
            return FLOW_STOP;
    }
    return FLOW_NEXT;
}

bool decode_MBARRIER_EXPECT_TX(struct decoder *d, struct op *o)
{
    return decode_want_count(d, o, 2, 2) && decode_mbar(d, o, 0, exec_tx) &&
           decode_want_reg(d, o, 1, 32);
}

bool decode_MBARRIER_COMPLETE_TX(struct decoder *d, struct op *o)
{
    return decode_MBARRIER_EXPECT_TX(d, o);
}

static uint64_t state_of(const struct mbar *m)
{
    return m->phase << 32 | m->pending;
}

static enum flow exec_arrive(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool drop = op->insn->op == PTX_MBARRIER_ARRIVE_DROP;
    bool expects = op->aux[AUX_EXPECT];
    uint64_t *state = opnd_lanes(w, &op->opnds[0]);
    const struct mbar *last = NULL;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct cta *c;
        uint32_t offset;
        uint32_t number = op->opnd_count > 2 ? opnd_u32(w, &op->opnds[2], lane) : 1;
        uint32_t count = expects ? 1 : number;
        if (!locate(w, op, lane, &c, &offset))
            return FLOW_STOP;
        struct mbar *m = want(w, c, offset);
        if (!m)
            return FLOW_STOP;
        if (count < 1 || count > MAX_COUNT)
            return report(c->cluster->grid, w, CHECK_ARRIVAL_COUNT,
                          "an arrival count of %u: 1 to %u are allowed", count,
                          MAX_COUNT);
        if (op->aux[AUX_NOCOMPLETE] && count >= m->pending && m->tx == 0)
            return report(
                c->cluster->grid, w, CHECK_ARRIVAL_COUNT,
                ".noComplete promises not to complete the phase of the barrier "
                "at 0x%x, but it would",
                offset);
        uint64_t before = state_of(m);
        if (expects && !expect(w, m, number))
            return FLOW_STOP;
        if (drop) {
            if (count > m->expected)
                return report(c->cluster->grid, w, CHECK_ARRIVAL_COUNT,
                              "mbarrier.arrive_drop of %u from %u expected arrivals",
                              count, m->expected);
            m->expected -= count;
        }
        /* Lanes that arrive on one barrier together tell what they know together. */
        if (!arrive(w, m, count, m == last ? 0 : rest))
            return FLOW_STOP;
        last = m;
        state[lane] = before;
    }
    return FLOW_NEXT;
}

static bool decode_arrive(struct decoder *d, struct op *o)
{
    o->aux[AUX_EXPECT] = ptx_has(o->insn, PTX_M_EXPECT_TX);
    o->aux[AUX_NOCOMPLETE] = ptx_has(o->insn, PTX_M_NOCOMPLETE);
    return decode_want_count(d, o, 2, 3) && decode_mbar(d, o, 1, exec_arrive) &&
           decode_want_reg(d, o, 0, 64) &&
           (o->opnd_count == 2 || decode_want_reg(d, o, 2, 32));
}

bool decode_MBARRIER_ARRIVE(struct decoder *d, struct op *o)
{
    return decode_arrive(d, o);
}

bool decode_MBARRIER_ARRIVE_DROP(struct decoder *d, struct op *o)
{
    return decode_arrive(d, o);
}

/* ---- waits */

static struct mbar *waited(struct warp *w, const struct op *op, int lane)
{
    struct cta *c;
    uint32_t offset;
    uint64_t rank = opnd_address(w, &op->opnds[op->aux[AUX_ADDRESS]], lane);
    rank = (uint32_t)rank >> SMEM_RANK_SHIFT;
    if (rank != w->cta->rank && rank < (uint64_t)w->cta->cluster->cta_count) {
        w->cur_lanes = (uint32_t)1 << lane;
        report(w->cta->cluster->grid, w, CHECK_BAD_BARRIER,
               "a wait for a barrier of CTA %u of the cluster: only the own CTA's (%u) "
               "can be waited for",
               (unsigned)rank, w->cta->rank);
        return NULL;
    }
    return locate(w, op, lane, &c, &offset) ? want(w, c, offset) : NULL;
}

static bool is_past(const struct warp *w, const struct op *op, const struct mbar *m,
                    int lane)
{
    if (op->aux[AUX_PARITY])
        return (m->phase & 1) != (opnd_u32(w, &op->opnds[2], lane) & 1);
    return m->phase != opnd_u64(w, &op->opnds[2], lane) >> 32;
}

/* All strategies but eager give each try_wait one false before it parks, so that a
 * program which does not look at the answer does not get its wait all the same. */
static bool is_first_false(struct warp *w, const struct mbar *m)
{
    enum strategy strategy = m->cta->cluster->grid->strategy;
    if (strategy_explores(strategy))
        return choice_false(w);
    if (strategy == STRATEGY_EAGER)
        return false;
    bool first = w->false_mbar != m || w->false_phase != m->phase;
    w->false_mbar = m;
    w->false_phase = m->phase;
    return first;
}

/* What the lanes that got a true may rely on from here on. */
static bool note_waits(struct warp *w, const struct op *op,
                       struct mbar *const *barriers, uint32_t lanes, uint32_t yes)
{
    for (uint32_t rest = lanes; rest;) {
        struct mbar *m = barriers[bits_lowest(rest)];
        uint32_t same = 0;
        for (uint32_t k = rest; k; k &= k - 1)
            if (barriers[bits_lowest(k)] == m)
                same |= k & (0u - k);
        rest &= ~same;
        w->cur_lanes = same;
        for (uint32_t k = op->aux[AUX_PARITY] ? same : 0; k; k &= k - 1) {
            int lane = bits_lowest(k);
            if (!hb_mbar_parity(w, m, lane, opnd_u32(w, &op->opnds[2], lane)))
                return false;
        }
        if (!hb_mbar_wait(w, m, same, yes & same, op->aux[AUX_PARITY]))
            return false;
    }
    w->cur_lanes = lanes;
    return true;
}

/* For the report of a deadlock, should nothing else ever happen. */
static void note_poll(struct warp *w, const struct mbar *m, uint32_t lanes)
{
    if (w->polled_mbar != m || w->polled_phase != m->phase)
        w->polled_lanes = 0;
    w->polled_mbar = m;
    w->polled_phase = m->phase;
    w->polled_lanes |= lanes;
}

static enum flow exec_wait(struct warp *w, const struct op *op, uint32_t lanes)
{
    bool may_park = op->insn->op == PTX_MBARRIER_TRY_WAIT;
    uint32_t yes = 0, same = 0;
    struct mbar *first = NULL, *barriers[WARP_LANES];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        struct mbar *m = waited(w, op, lane);
        if (!m)
            return FLOW_STOP;
        barriers[lane] = m;
        if (is_past(w, op, m, lane)) {
            yes |= (uint32_t)1 << lane;
            m->observed = m->phase > 0;
            timeline_waited(w, m);
        } else {
            first = first ? first : m;
            note_poll(w, m, (uint32_t)1 << lane);
            coverage_wait(w, m);
            same |= (uint32_t)(m == first) << lane;
        }
    }
    w->cur_lanes = lanes;
    if (w->hb && !note_waits(w, op, barriers, lanes, yes))
        return FLOW_STOP;
    uint32_t expired = w->expired & lanes;
    w->expired &= ~lanes;
    if (may_park && first && !yes && !expired && !is_first_false(w, first)) {
        if (same == lanes)
            return park_mbar(w, lanes, first, first->phase);
        return park(w, lanes, "one of several mbarriers");
    }
    w->has_expired |= expired != 0;
    if (yes)
        depend_passed_barrier(w);
    set_mask(w, &op->opnds[0], lanes, yes);
    return yes == lanes || may_park ? FLOW_NEXT : FLOW_YIELD;
}

static bool decode_wait(struct decoder *d, struct op *o)
{
    o->aux[AUX_PARITY] = ptx_has(o->insn, PTX_M_PARITY);
    return decode_want_count(d, o, 3, 4) && decode_mbar(d, o, 1, exec_wait) &&
           decode_want_reg(d, o, 0, 1) &&
           decode_want_reg(d, o, 2, o->aux[AUX_PARITY] ? 32 : 64);
}

bool decode_MBARRIER_TEST_WAIT(struct decoder *d, struct op *o)
{
    return decode_wait(d, o);
}

bool decode_MBARRIER_TRY_WAIT(struct decoder *d, struct op *o)
{
    return decode_wait(d, o);
}

EXEC1(pending_count, uint32_t, uint64_t, a)

bool decode_MBARRIER_PENDING_COUNT(struct decoder *d, struct op *o)
{
    o->exec = exec_pending_count;
    return decode_want_count(d, o, 2, 2) && decode_want_reg(d, o, 0, 32) &&
           decode_want_reg(d, o, 1, 64);
}
