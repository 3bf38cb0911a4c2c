/* exec_regs.c - setmaxnreg, and check 28 (2.12 of the semantics).
 *
 * PTX ISA 9.0, "setmaxnreg".  PTX registers are virtual, so no value is lost by a
 * change; what stays is the account: what a warp gives up goes to the pool of its
 * block, and an increase waits until the pool has enough.  All four warps of a warp
 * group must make the same changes, with a barrier between two of them. */
#include <stdio.h>
#include <stdlib.h>

#include "emu/cluster.h"
#include "emu/lanes.h"

#define GROUP_WARPS 4
#define MIN_REGISTERS 24
#define MAX_REGISTERS 256
#define MAX_CHANGES 16 /* that are compared within a group; later ones are not */

enum { AUX_COUNT, AUX_IS_INC };

struct warp_registers {
    uint32_t count;   /* of a thread */
    uint32_t changes; /* so far */
    uint32_t syncs;   /* of the warp, when it made the last one */
};

struct group_registers {
    uint32_t pcs[MAX_CHANGES]; /* of the instructions, in the order of the first warp */
    uint32_t known;            /* of pcs */
};

struct registers {
    uint32_t pool; /* registers that nobody holds */
    struct warp_registers *warps;
    struct group_registers *groups;
};

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

static uint32_t launched_with(const struct cta *c)
{
    return (c->cluster->grid->registers + 7) / 8 * 8;
}

static struct registers *registers_of(struct cta *c)
{
    struct registers *r = c->registers;
    if (r)
        return r;
    size_t warps = (size_t)c->warp_count;
    r = c->registers = calloc(1, sizeof *r);
    if (!r || !(r->warps = calloc(warps, sizeof *r->warps)) ||
        !(r->groups = calloc(warps / GROUP_WARPS + 1, sizeof *r->groups)))
        abort();
    for (int i = 0; i < c->warp_count; i++)
        r->warps[i].count = launched_with(c);
    return r;
}

void registers_free(struct cta *c)
{
    struct registers *r = c->registers;
    if (!r)
        return;
    free(r->warps);
    free(r->groups);
    free(r);
    c->registers = NULL;
}

/* ---- check 28 */

static int line_of(const struct warp *w, uint32_t pc)
{
    return grid_of(w)->kernel->ops[pc].insn->line;
}

/* The same instructions in all warps of the group, in the same order. */
static bool check_group(struct warp *w, struct registers *r)
{
    struct group_registers *group = &r->groups[w->index / GROUP_WARPS];
    uint32_t number = r->warps[w->index].changes;
    if (number >= MAX_CHANGES)
        return true;
    if (number == group->known) {
        group->pcs[group->known++] = w->cur_pc;
        return true;
    }
    if (group->pcs[number] == w->cur_pc)
        return true;
    report(
        grid_of(w), w, CHECK_REGISTERS,
        "all warps of a warp group must execute the same setmaxnreg; another warp of "
        "group %d has executed that of line %d here",
        w->index / GROUP_WARPS, line_of(w, group->pcs[number]));
    return false;
}

static bool check_change(struct warp *w, const struct op *op, struct registers *r)
{
    const struct warp_registers *own = &r->warps[w->index];
    uint32_t count = op->aux[AUX_COUNT];
    if (op->aux[AUX_IS_INC] ? count < own->count : count > own->count) {
        report(grid_of(w), w, CHECK_REGISTERS, "%s to %u registers, and warp %d has %u",
               op->insn->opcode, count, w->index, own->count);
        if (own->changes == 0)
            report_note(
                grid_of(w),
                "%u is what the kernel was launched with (.maxnreg, or what the "
                "driver assumes)",
                own->count);
        return false;
    }
    if (own->changes > 0 && own->syncs == w->syncs) {
        report(grid_of(w), w, CHECK_REGISTERS,
               "a second setmaxnreg in warp %d with no barrier after the first",
               w->index);
        return false;
    }
    return check_group(w, r);
}

/* Could the pool ever have so many?  The other warps keep the least that is allowed. */
static bool check_possible(struct warp *w, const struct registers *r, uint32_t count)
{
    const struct cta *c = w->cta;
    uint32_t total = r->pool, least = 0;
    for (int i = 0; i < c->warp_count; i++) {
        total += r->warps[i].count * WARP_LANES;
        least += (i / GROUP_WARPS == w->index / GROUP_WARPS ? count : MIN_REGISTERS) *
                 WARP_LANES;
    }
    if (least <= total)
        return true;
    report(grid_of(w), w, CHECK_REGISTERS,
           "%u registers a thread for this warp group can never be had: the block has "
           "%u, and with %d for each thread of the others that makes %u",
           count, total, MIN_REGISTERS, least);
    return false;
}

/* ---- setmaxnreg */

/* As ptxas does, which says so in an advisory. */
static enum flow ignore(struct warp *w, const struct op *op)
{
    return report_at(grid_of(w), w, CHECK_REGISTERS, CHECK_IS_WARNING,
                     "%s has no effect: the kernel states no bound of registers "
                     "(.maxnreg, or .maxntid with .minnctapersm)",
                     op->insn->opcode);
}

static enum flow exec_setmaxnreg(struct warp *w, const struct op *op, uint32_t lanes)
{
    if (grid_of(w)->registers == 0)
        return ignore(w, op);
    struct registers *r = registers_of(w->cta);
    struct warp_registers *own = &r->warps[w->index];
    uint32_t count = op->aux[AUX_COUNT];
    bool checked = !grid_of(w)->no_checks;
    if (checked && !check_change(w, op, r))
        return FLOW_STOP;
    if (count > own->count) {
        uint32_t more = (count - own->count) * WARP_LANES;
        if (checked && !check_possible(w, r, count))
            return FLOW_STOP;
        if (more > r->pool)
            return park(w, lanes,
                        "registers that other warps give up (setmaxnreg.dec)");
        r->pool -= more;
    } else {
        r->pool += (own->count - count) * WARP_LANES;
        cluster_event(w->cta->cluster);
    }
    own->count = count;
    own->changes++;
    own->syncs = w->syncs;
    return FLOW_NEXT;
}

bool decode_SETMAXNREG(struct decoder *d, struct op *o)
{
    int64_t count;
    if (!decode_want_count(d, o, 1, 1))
        return false;
    if (!opnd_is_imm(&o->opnds[0], &count) || count < MIN_REGISTERS ||
        count > MAX_REGISTERS || count % 8 != 0)
        return decode_refuse(d, o,
                             "the count must be a constant, %d to %d in steps of 8",
                             MIN_REGISTERS, MAX_REGISTERS);
    o->exec = exec_setmaxnreg;
    o->aux[AUX_COUNT] = (uint32_t)count;
    o->aux[AUX_IS_INC] = ptx_has(o->insn, PTX_M_INC);
    return true;
}

/* The first warp that lacks a change which its group has made; -1: none. */
static int who_left_out(const struct cta *c)
{
    const struct registers *r = c->registers;
    for (int i = 0; r && i < c->warp_count; i++)
        if (r->warps[i].changes < r->groups[i / GROUP_WARPS].known)
            return i;
    return -1;
}

/* `w` is whom the report names. */
static bool blame_left_out(struct warp *w, const struct cta *c, int i, const char *how)
{
    const struct registers *r = c->registers;
    w->cur_pc = r->groups[i / GROUP_WARPS].pcs[r->warps[i].changes];
    report(c->cluster->grid, w, CHECK_REGISTERS,
           "all warps of a warp group must execute the same setmaxnreg; warp %d of "
           "group %d %s without this one",
           i, i / GROUP_WARPS, how);
    return false;
}

/* The block's last thread exits. */
bool registers_cta_end(struct warp *w, struct cta *c)
{
    int i = c->cluster->grid->no_checks ? -1 : who_left_out(c);
    return i < 0 || blame_left_out(w, c, i, "has exited");
}

bool registers_waits(const struct warp *w, uint32_t pc)
{
    return grid_of(w)->kernel->ops[pc].insn->op == PTX_SETMAXNREG;
}

struct warp *registers_kept(const struct cta *c, char *text, size_t bytes)
{
    const struct registers *r = c->registers;
    int i = c->cluster->grid->no_checks ? -1 : who_left_out(c);
    if (i < 0)
        return NULL;
    struct warp *w = &c->warps[i];
    for (uint32_t rest = w->live & w->parked; rest; rest &= rest - 1)
        if (registers_waits(w, w->pc[bits_lowest(rest)]))
            return NULL; /* it may yet come to that change */
    w->cur_pc = r->groups[i / GROUP_WARPS].pcs[r->warps[i].changes];
    w->cur_lanes = ALL_LANES;
    snprintf(text, bytes,
             "warp %d of group %d %s without this setmaxnreg, which the others of its "
             "group have executed",
             i, i / GROUP_WARPS, w->live ? "waits elsewhere" : "has exited");
    return w;
}
