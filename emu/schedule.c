/* schedule.c - who steps next inside a warp.
 *
 * Of the lanes that can run, those with the smallest pc, together; this reconverges at
 * joins by itself.  A group that parks, or whose poll failed, lets the others go first.
 * Which warp has the next turn: rounds.c. */
#include "emu/choice.h"
#include "emu/cluster.h"
#include "emu/hb.h"
#include "emu/report.h"
#include "emu/role.h"
#include "emu/timeline.h"

#define TURN_STEPS 2048  /* of one warp, before the next one gets its turn */
#define GROUP_STEPS 1024 /* of one lane group, while other lanes of the warp wait */

/* ---- parking */

enum flow park_for(struct warp *w, uint32_t lanes, struct wait wait)
{
    for (int i = 0; i < WARP_LANES; i++)
        w->waits[i].lanes &= ~lanes;
    wait.lanes = lanes;
    w->waits[bits_lowest(lanes)] = wait;
    w->parked |= lanes;
    w->event_lanes &= ~lanes;
    w->time_lanes &= ~lanes;
    w->lane_waits &= ~lanes;
    if (wait.kind == WAIT_EVENT)
        w->event_lanes |= lanes;
    else if (wait.kind == WAIT_TIME)
        w->time_lanes |= lanes;
    else if (wait.kind == WAIT_LANES || wait.kind == WAIT_ALIGNED)
        w->lane_waits |= lanes;
    return FLOW_PARK;
}

enum flow park(struct warp *w, uint32_t lanes, const char *what)
{
    return park_for(w, lanes, (struct wait){.kind = WAIT_EVENT, .what = what});
}

enum flow park_mbar(struct warp *w, uint32_t lanes, const struct mbar *m,
                    uint64_t phase)
{
    return park_for(w, lanes,
                    (struct wait){.kind = WAIT_MBAR, .mbar = m, .phase = phase});
}

void wake(struct warp *w, uint32_t lanes)
{
    w->parked &= ~lanes;
    w->event_lanes &= ~lanes;
    w->time_lanes &= ~lanes;
    w->lane_waits &= ~lanes;
}

void wake_mbar(const struct mbar *m)
{
    struct cta *c = m->cta;
    for (int k = 0; k < c->warp_count; k++) {
        struct warp *w = &c->warps[k];
        for (uint32_t rest = w->parked; rest; rest &= rest - 1) {
            const struct wait *wait = &w->waits[bits_lowest(rest)];
            uint32_t lanes = wait->lanes & w->parked;
            if (lanes && wait->kind == WAIT_MBAR && wait->mbar == m &&
                wait->phase != m->phase)
                wake(w, lanes);
        }
    }
}

/* Events and time wake without being told to. */
static void wake_due(struct warp *w)
{
    const struct cluster *c = w->cta->cluster;
    if (w->event_lanes && w->seen_events != c->events)
        wake(w, w->event_lanes);
    for (uint32_t rest = w->time_lanes; rest; rest &= rest - 1) {
        const struct wait *wait = &w->waits[bits_lowest(rest)];
        if (wait->kind == WAIT_TIME && wait->until <= c->clock)
            wake(w, wait->lanes & w->time_lanes);
    }
}

/* ---- exits */

static bool blame_pending_copy(struct warp *w, struct cta *t)
{
    struct grid *g = t->cluster->grid;
    for (const struct async_op *o = t->cluster->async_first; o; o = o->next)
        for (int i = 0; i < o->range_count; i++) {
            const struct smem_range *r = &o->ranges[i];
            if (r->cta != t || !r->write)
                continue;
            char place[512];
            report(g, w, CHECK_CTA_EXIT,
                   "the block's last thread exits while a copy into its shared memory "
                   "(bytes 0x%x to 0x%x) is pending",
                   r->from, r->to);
            report_note(g, "the copy: %s",
                        report_place(o->issuer, o->pc, place, sizeof place));
            return false;
        }
    return true;
}

static bool end_cta(struct warp *w, struct cta *t)
{
    struct cluster *c = t->cluster;
    if (!cpasync_cta_end(w, t) || !blame_pending_copy(w, t) || !tma_cta_end(w, t) ||
        !tcgen05_cta_end(w, t) || (w->hb && !hb_cta_end(w, t)) ||
        !registers_cta_end(w, t))
        return false;
    c->live_ctas--;
    atomic_fetch_add(&c->grid->ctas_done, 1);
    return true;
}

bool exit_lanes(struct warp *w, uint32_t lanes)
{
    struct cta *t = w->cta;
    if (w->hb && !hb_exit(w, lanes))
        return false;
    w->live &= ~lanes;
    wake(w, w->lane_waits);
    cluster_event(t->cluster);
    if (!w->live)
        t->live_warps--;
    return barriers_after_exit(w) && (t->live_warps > 0 || w->live || end_cta(w, t));
}

/* ---- lanes that wait for each other inside a warp */

struct group {
    uint32_t pc, lanes;
    uint32_t stop; /* smallest pc of other lanes that can run; UINT32_MAX: none */
};

static uint32_t lanes_at(const struct warp *w, uint32_t among, uint32_t pc)
{
    uint32_t lanes = 0;
    for (int i = 0; i < WARP_LANES; i++)
        lanes |= (uint32_t)(w->pc[i] == pc) << i;
    return lanes & among;
}

static void store_pc(struct warp *w, uint32_t lanes, uint32_t pc)
{
    if (lanes == ALL_LANES) {
        for (int i = 0; i < WARP_LANES; i++)
            w->pc[i] = pc;
        return;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        w->pc[bits_lowest(rest)] = pc;
}

/* All lanes of the warp wait for one another, in different places. */
static enum flow blame_divergence(struct warp *w, uint32_t lanes)
{
    struct grid *g = w->cta->cluster->grid;
    const struct op *op = &g->kernel->ops[w->cur_pc];
    w->cur_lanes = lanes;
    if (op->aligned)
        report(
            g, w, CHECK_DIVERGENCE,
            "%s is .aligned: all live lanes (0x%x) must execute it together, but only "
            "0x%x do",
            op->insn->opcode, w->live, lanes);
    else
        report(g, w, CHECK_MEMBER_MASK,
               "lanes 0x%x wait at %s for the others of their member mask, who wait "
               "elsewhere",
               lanes, op->insn->opcode);
    for (uint32_t rest = w->live & ~lanes; rest;) {
        uint32_t pc = w->pc[bits_lowest(rest)], others = lanes_at(w, rest, pc);
        char place[512];
        w->cur_lanes = others;
        report_note(g, "lanes 0x%x wait at %s", others,
                    report_place(w, pc, place, sizeof place));
        rest &= ~others;
    }
    return FLOW_STOP;
}

static enum flow wait_for_lanes(struct warp *w, uint32_t lanes, uint32_t pc,
                                enum wait_kind kind)
{
    store_pc(w, lanes, pc);
    park_for(w, lanes, (struct wait){.kind = kind});
    if ((w->lane_waits & w->live) == w->live)
        return blame_divergence(w, lanes);
    return FLOW_PARK;
}

/* An .aligned instruction takes all live lanes at once. */
static enum flow align(struct warp *w, const struct op *op, const struct group *g,
                       uint32_t *active)
{
    if (g->lanes != *active) {
        report(w->cta->cluster->grid, w, CHECK_DIVERGENCE,
               "%s is .aligned, but its guard is false in lanes 0x%x", op->insn->opcode,
               g->lanes & ~*active);
        return FLOW_STOP;
    }
    uint32_t same = lanes_at(w, w->lane_waits & w->live, g->pc);
    wake(w, same);
    *active |= same;
    if (*active == w->live)
        return FLOW_NEXT;
    return wait_for_lanes(w, *active, g->pc, WAIT_ALIGNED);
}

static uint32_t mask_of(const struct warp *w, const struct op *op, int lane)
{
    const uint32_t *masks = opnd_lanes(w, &op->opnds[op->opnd_count - 1]);
    return masks[lane];
}

/* bar.warp.sync need not be the same instruction in all lanes: those that already wait
 * in other places with the same mask. */
static uint32_t warp_syncs_elsewhere(const struct warp *w, uint32_t mask)
{
    const struct op *ops = w->cta->cluster->grid->kernel->ops;
    uint32_t lanes = 0;
    for (uint32_t rest = w->lane_waits & w->live & mask; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        const struct op *op = &ops[w->pc[lane]];
        if (op->insn->op == PTX_BAR_WARP_SYNC && mask_of(w, op, lane) == mask)
            lanes |= (uint32_t)1 << lane;
    }
    return lanes;
}

/* .sync with a member mask: *active becomes the lanes that execute together. */
static enum flow gather(struct warp *w, const struct op *op, uint32_t pc,
                        uint32_t *active)
{
    uint32_t same = lanes_at(w, w->lane_waits & w->live, pc);
    wake(w, same);
    uint32_t lanes = *active | same;
    uint32_t mask = mask_of(w, op, bits_lowest(*active));
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        uint32_t own = mask_of(w, op, lane);
        if (!(own >> lane & 1)) {
            w->cur_lanes = (uint32_t)1 << lane;
            report(w->cta->cluster->grid, w, CHECK_MEMBER_MASK,
                   "lane %d executes %s with member mask 0x%x, which it is not in",
                   lane, op->insn->opcode, own);
            return FLOW_STOP;
        }
        if (own != mask)
            lanes &= ~((uint32_t)1 << lane);
    }
    *active = lanes;
    uint32_t need = mask & w->live;
    if (lanes == need)
        return FLOW_NEXT;
    if (op->insn->op == PTX_BAR_WARP_SYNC) {
        uint32_t elsewhere = warp_syncs_elsewhere(w, mask);
        if ((lanes | elsewhere) == need) {
            const struct op *ops = w->cta->cluster->grid->kernel->ops;
            for (uint32_t rest = elsewhere; rest; rest &= rest - 1) {
                int lane = bits_lowest(rest);
                w->pc[lane] = ops[w->pc[lane]].next;
            }
            wake(w, elsewhere);
            return FLOW_NEXT;
        }
    }
    return wait_for_lanes(w, lanes, pc, WAIT_LANES);
}

/* ---- one turn of one warp */

/* The smallest pc among `lanes`, or by chance another one. */
static uint32_t choose_pc(struct warp *w, uint32_t lanes)
{
    uint32_t pcs[WARP_LANES];
    int count = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint32_t at = w->pc[bits_lowest(rest)];
        int i = 0;
        while (i < count && pcs[i] < at)
            i++;
        if (i < count && pcs[i] == at)
            continue;
        memmove(&pcs[i + 1], &pcs[i], (size_t)(count - i) * sizeof pcs[0]);
        pcs[i] = at;
        count++;
    }
    bool explores = w->cta->cluster->choices != NULL;
    return pcs[explores && count > 1 ? choice_lanes(w, pcs, count) : 0];
}

/* False: nobody can run, or everybody who can has just polled in vain. */
static bool choose(struct warp *w, struct group *g)
{
    uint32_t ready = w->live & ~w->parked;
    uint32_t first = ready & ~w->yielded;
    if (!first) {
        bool polled = w->yielded != 0;
        w->yielded = 0;
        first = ready;
        if (polled || !ready)
            return false;
    }
    uint32_t pc = w->pc[bits_lowest(first)];
    g->stop = UINT32_MAX;
    if (lanes_at(w, ready, pc) == ready) {
        *g = (struct group){pc, ready, UINT32_MAX};
        w->yielded = 0;
        return true;
    }
    pc = choose_pc(w, first);
    g->pc = pc;
    g->lanes = lanes_at(w, ready, pc);
    w->yielded &= ~g->lanes;
    for (uint32_t rest = ready & ~g->lanes; rest; rest &= rest - 1) {
        uint32_t at = w->pc[bits_lowest(rest)];
        /* A yielded group behind us must not call us back at once. */
        if (at > pc && at < g->stop)
            g->stop = at;
    }
    return true;
}

/* Executes the group's next instruction.  True: the group is still one and goes on at
 * g->pc; false: pcs are stored, choose again (or stop, see *flow). */
static bool step(struct warp *w, struct group *g, enum flow *flow)
{
    const struct op *op = &w->cta->cluster->grid->kernel->ops[g->pc];
    uint32_t active = g->lanes;
    *flow = FLOW_NEXT;
    if (op->watch && w->hb && !hb_watch(w, op, g->pc, active)) {
        *flow = FLOW_STOP;
        return false;
    }
    if (op->guard.kind == PTX_OPND_REG) {
        active &= opnd_mask(w, &op->guard);
        if (!active) {
            g->pc = op->next;
            return true;
        }
    }
    w->cur_pc = g->pc;
    w->cur_lanes = active;
    uint32_t bystanders = g->lanes & ~active;
    if (op->aligned && active != w->live) {
        *flow = align(w, op, g, &active);
    } else if (op->gathers) {
        *flow = gather(w, op, g->pc, &active);
        /* Lanes with another mask stay where they are. */
        uint32_t apart = g->lanes & ~bystanders & ~active;
        if (apart) {
            store_pc(w, apart, g->pc);
            g->lanes &= ~apart;
            g->stop = g->pc;
        }
    }
    if (*flow == FLOW_NEXT) {
        g->lanes |= active;
        w->cur_lanes = active;
        if (w->hb && (op->aligned || op->gathers))
            hb_sync(
                w, op->gathers ? mask_of(w, op, bits_lowest(active)) & w->live : active,
                op->insn->op == PTX_BAR_WARP_SYNC);
        bool ok = (!w->ld_pending || hb_check_registers(w, op)) &&
                  (!op->fragments || !w->hb || hb_check_fragments(w, op));
        *flow = ok ? op->exec(w, op, active) : FLOW_STOP;
    }
    switch (*flow) {
    case FLOW_NEXT:
        g->pc = op->next;
        return true;
    case FLOW_BRANCH:
        if (op->target <= g->pc && op->target != w->last_loop)
            role_loop(w, op->target);
        if (bystanders && ptx_has(op->insn, PTX_M_UNI)) {
            *flow = report(w->cta->cluster->grid, w, CHECK_DIVERGENCE,
                           "bra.uni promises that all lanes agree, but 0x%x branch and "
                           "0x%x do not",
                           active, bystanders);
            break;
        }
        if (!bystanders) {
            g->pc = op->target;
            return true;
        }
        store_pc(w, active, op->target);
        break;
    case FLOW_JUMP:
    case FLOW_STOP:
        break;
    case FLOW_YIELD:
        store_pc(w, active, op->next);
        w->yielded |= active;
        break;
    case FLOW_PARK:
        store_pc(w, active, g->pc);
        break;
    }
    store_pc(w, bystanders, op->next);
    return false;
}

/* Behind a visible instruction others may go on, if the schedule wants it so. */
static bool goes_on(struct warp *w, bool is_starved)
{
    const struct cluster *c = w->cta->cluster;
    if (c->choices)
        return c->clock < c->slice_end && choice_stay(w);
    return !is_starved;
}

enum turn warp_turn(struct warp *w)
{
    struct cluster *c = w->cta->cluster;
    const struct op *ops = c->grid->kernel->ops;
    const uint32_t starve_pc = c->grid->starve_pc;
    const bool is_starved = choice_starves(w), asks = c->choices || is_starved;
    const bool is_traced = c->timeline != NULL;
    struct group g;
    struct loop loop = {.events = c->events};
    uint32_t steps = 0;
    enum turn end = TURN_BLOCKED;
    bool left = false;
    if (!w->has_left)
        w->polled = w->read_clock = w->has_expired = false;
    while (choose(w, &g)) {
        bool alone = g.lanes == (w->live & ~w->parked);
        uint32_t limit = steps + (alone ? TURN_STEPS : GROUP_STEPS);
        enum flow flow = FLOW_NEXT;
        bool together = true;
        while (together && g.pc < g.stop && steps < limit) {
            uint32_t from = g.pc;
            together = step(w, &g, &flow);
            steps++;
            c->clock++;
            if (is_traced && flow != FLOW_PARK)
                timeline_step(w, &ops[from]);
            w->is_starved |= from == starve_pc;
            if (ops[from].visible && flow != FLOW_PARK) {
                w->visible++;
                w->asked = 0;
                c->polls += ops[from].may_poll;
                if (asks && flow != FLOW_STOP && !goes_on(w, is_starved)) {
                    left = true;
                    break;
                }
            }
            if (g.pc > from || !together || !alone)
                continue;
            /* Back at the head of a loop. */
            store_pc(w, g.lanes, g.pc);
            if (spin_at_loop(w, &loop))
                break;
        }
        if (together) {
            store_pc(w, g.lanes, g.pc);
            if (!alone && (steps >= limit || left))
                w->yielded |= g.lanes;
        }
        if (flow == FLOW_STOP) {
            end = TURN_FAILED;
            break;
        }
        if (flow == FLOW_YIELD)
            w->polled = true;
        if (steps >= TURN_STEPS || w->spinning || left) {
            end = TURN_OVER;
            break;
        }
    }
    if (end == TURN_BLOCKED && (w->live & ~w->parked))
        end = w->polled ? TURN_POLLED : TURN_OVER;
    w->steps += steps;
    w->has_left = left;
    return end;
}

bool warp_can_run(struct warp *w)
{
    struct cluster *c = w->cta->cluster;
    if (!w->live)
        return false;
    if (w->event_lanes | w->time_lanes)
        wake_due(w);
    if (w->spinning && (w->seen_events != c->events ||
                        w->seen_global_events != atomic_load(&c->grid->global_events)))
        spin_reset(w);
    return (w->live & ~w->parked) && !w->spinning;
}
