/* exec_ctl.c - branches, calls, returns, exits, traps, sleep.
 *
 * PTX ISA 9.0, "Control Flow Instructions", "Miscellaneous Instructions".  A .func body
 * is decoded once, with registers of its own: calls need no stack because functions
 * that call themselves are refused when the kernel is decoded. */
#include "emu/cluster.h"
#include "emu/decode.h"
#include "emu/lanes.h"
#include "emu/library.h"
#include "emu/timeline.h"

/* ---- bra, brx.idx */

static enum flow exec_bra(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)w;
    (void)op;
    (void)lanes;
    return FLOW_BRANCH;
}

bool decode_BRA(struct decoder *d, struct op *o)
{
    if (o->opnd_count != 1 || o->opnds[0].kind != PTX_OPND_LABEL)
        return decode_refuse(d, o, "it needs one label");
    o->exec = exec_bra;
    return true;
}

static enum flow exec_brx(struct warp *w, const struct op *op, uint32_t lanes)
{
    const uint32_t *index = opnd_lanes(w, &op->opnds[0]);
    const struct opnd *table = &op->opnds[1];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        if (index[lane] >= (uint32_t)table->item_count) {
            w->cur_lanes = (uint32_t)1 << lane;
            return report(w->cta->cluster->grid, w, CHECK_OPERAND,
                          "brx.idx with index %u, and the table has %d targets",
                          index[lane], table->item_count);
        }
        w->pc[lane] = (uint32_t)table->items[index[lane]].imm;
    }
    return FLOW_JUMP;
}

bool decode_BRX_IDX(struct decoder *d, struct op *o)
{
    if (o->opnd_count != 2 || o->opnds[1].kind != PTX_OPND_VECTOR)
        return decode_refuse(d, o, "it needs an index and a list of targets");
    o->exec = exec_brx;
    return decode_want_reg(d, o, 0, 32);
}

/* ---- exit, ret */

static enum flow exec_exit(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    return exit_lanes(w, lanes) ? FLOW_JUMP : FLOW_STOP;
}

/* aux[0]: slot that holds where each lane came from. */
static enum flow exec_return(struct warp *w, const struct op *op, uint32_t lanes)
{
    const uint8_t *slot = w->regs + op->aux[0];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        memcpy(&w->pc[lane], slot + lane * 4, 4);
    }
    return FLOW_JUMP;
}

bool decode_EXIT(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_exit;
    return true;
}

bool decode_RET(struct decoder *d, struct op *o)
{
    bool in_entry = d->unit->func->is_entry;
    o->exec = in_entry ? exec_exit : exec_return;
    o->aux[0] = d->unit->return_slot;
    return true;
}

/* ---- trap, brkpt */

static enum flow exec_trap(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)lanes;
    return report(w->cta->cluster->grid, w, CHECK_TRAP, "the kernel executes %s",
                  op->insn->opcode);
}

bool decode_TRAP(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_trap;
    return true;
}

bool decode_BRKPT(struct decoder *d, struct op *o)
{
    (void)d;
    o->exec = exec_trap;
    return true;
}

/* ---- nanosleep: virtual time */

static enum flow exec_nanosleep(struct warp *w, const struct op *op, uint32_t lanes)
{
    const uint32_t *t = opnd_lanes(w, &op->opnds[0]);
    uint32_t longest = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        longest = t[lane] > longest ? t[lane] : longest;
        w->pc[lane] = op->next;
    }
    struct wait wait = {.kind = WAIT_TIME, .number = w->cur_pc};
    wait.until = w->cta->cluster->clock + longest;
    timeline_sleep(w, longest);
    park_for(w, lanes, wait);
    return FLOW_JUMP;
}

bool decode_NANOSLEEP(struct decoder *d, struct op *o)
{
    o->exec = exec_nanosleep;
    return decode_want_count(d, o, 1, 1) && decode_want_reg(d, o, 0, 32);
}

/* ---- call: two records, the call and the collecting of its results */

struct copy {
    uint32_t from, to, bytes; /* in a lane's call area */
};

struct call {
    uint32_t return_slot;
    struct copy *in, *out;
    int in_count, out_count;
};

static void copy_all(struct warp *w, uint32_t lanes, const struct copy *copies,
                     int count)
{
    uint32_t area = w->cta->cluster->grid->kernel->call_bytes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        uint8_t *lane = w->call + (size_t)bits_lowest(rest) * area;
        for (int i = 0; i < count; i++)
            memmove(lane + copies[i].to, lane + copies[i].from, copies[i].bytes);
    }
}

static enum flow exec_call(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct call *call = op->data;
    uint8_t *slot = w->regs + call->return_slot;
    uint32_t back = op->next - 1;
    copy_all(w, lanes, call->in, call->in_count);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        memcpy(slot + bits_lowest(rest) * 4, &back, 4);
    return FLOW_BRANCH;
}

static enum flow exec_collect(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct call *call = op->data;
    copy_all(w, lanes, call->out, call->out_count);
    return FLOW_NEXT;
}

static bool decode_copies(struct decoder *d, struct op *o, const struct opnd *list,
                          struct ptx_var **params, int count, bool into,
                          struct copy **copies)
{
    if (list->item_count != count)
        return decode_refuse(d, o, "the function has %d, not %d, %s", count,
                             list->item_count, into ? "parameters" : "results");
    *copies = ARENA_ARRAY(d->arena, struct copy, (size_t)count + 1);
    for (int i = 0; i < count; i++) {
        const struct opnd *x = &list->items[i];
        if (x->base != BASE_CALL || !x->var)
            return decode_refuse(d, o,
                                 "arguments and results must be .param variables");
        uint32_t outer = (uint32_t)x->imm, inner = decode_call_offset(d, params[i]);
        uint32_t bytes =
            x->var->bytes < params[i]->bytes ? x->var->bytes : params[i]->bytes;
        (*copies)[i] = into ? (struct copy){outer, inner, bytes}
                            : (struct copy){inner, outer, bytes};
    }
    return true;
}

static bool decode_unit_call(struct decoder *d, struct op *o, const struct unit *callee)
{
    const struct ptx_func *f = callee->func;
    struct call *call = ARENA_NEW(d->arena, struct call);
    call->return_slot = callee->return_slot;
    call->in_count = f->param_count;
    call->out_count = f->return_count;
    if (!decode_copies(d, o, &o->opnds[2], f->params, f->param_count, true,
                       &call->in) ||
        !decode_copies(d, o, &o->opnds[0], f->returns, f->return_count, false,
                       &call->out))
        return false;
    o->exec = exec_call;
    o->data = call;
    o->target = callee->first_pc;
    struct op *collect = o + 1;
    *collect = (struct op){.exec = exec_collect, .insn = o->insn, .data = call};
    collect->guard.kind = PTX_OPND_SINK;
    collect->next = o->next;
    return true;
}

bool decode_CALL(struct decoder *d, struct op *o)
{
    if (o->opnd_count < 3 || o->opnds[0].kind != PTX_OPND_VECTOR ||
        o->opnds[2].kind != PTX_OPND_VECTOR)
        return decode_refuse(d, o, "it needs results, a function and arguments");
    if (o->opnds[1].kind != PTX_OPND_FUNC)
        return decode_refuse(d, o, "calls through a register are missing");
    const char *name = o->insn->operands[1].name;
    const struct unit *callee = decode_find_unit(d, name);
    return callee ? decode_unit_call(d, o, callee) : decode_library_call(d, o, name);
}
