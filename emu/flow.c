#include "emu/flow.h"

static bool ends_flow(const struct ptx_insn *i)
{
    return i->guard < 0 && (i->op == PTX_BRA || i->op == PTX_BRX_IDX ||
                            i->op == PTX_RET || i->op == PTX_EXIT || i->op == PTX_TRAP);
}

static bool is_branch(const struct ptx_insn *i)
{
    return i->op == PTX_BRA || i->op == PTX_BRX_IDX || i->op == PTX_RET ||
           i->op == PTX_EXIT || i->op == PTX_TRAP;
}

static const struct ptx_operand *branch_label(const struct ptx_insn *i)
{
    for (int k = 0; k < i->operand_count; k++)
        if (i->operands[k].kind == PTX_OPND_LABEL)
            return &i->operands[k];
    return NULL;
}

static const struct ptx_operand *branch_table(const struct ptx_insn *i)
{
    for (int k = 0; k < i->operand_count; k++)
        if (i->operands[k].kind == PTX_OPND_VECTOR)
            return &i->operands[k];
    return NULL;
}

bool flow_writes_first(const struct ptx_insn *i)
{
    switch (i->op) {
    case PTX_BAR:
    case PTX_BARRIER:
    case PTX_BAR_WARP_SYNC:
    case PTX_NANOSLEEP:
    case PTX_BRX_IDX:
    case PTX_BRA:
    case PTX_CALL:
    case PTX_SETMAXNREG:
    case PTX_PMEVENT:
    case PTX_TCGEN05_DEALLOC:
    case PTX_CP_ASYNC_WAIT_GROUP:
    case PTX_CP_ASYNC_BULK_WAIT_GROUP:
    case PTX_WGMMA_MMA_ASYNC:
    case PTX_WGMMA_MMA_ASYNC_SP:
        return false;
    default:
        return true;
    }
}

static void visit_operand(const struct ptx_operand *o, bool write, reg_fn *fn,
                          void *arg)
{
    switch (o->kind) {
    case PTX_OPND_REG:
        fn(arg, o->reg, write);
        break;
    case PTX_OPND_ADDR:
        if (o->reg >= 0)
            fn(arg, o->reg, false);
        break;
    case PTX_OPND_VECTOR:
    case PTX_OPND_PAIR:
        for (int k = 0; k < o->item_count; k++)
            visit_operand(&o->items[k], write, fn, arg);
        break;
    case PTX_OPND_TENSOR:
        for (int k = 0; k < o->item_count; k++)
            visit_operand(&o->items[k], false, fn, arg);
        break;
    default:
        if (o->reg > 0 && o->kind == PTX_OPND_VAR)
            break;
        break;
    }
}

void flow_visit(const struct ptx_insn *i, reg_fn *fn, void *arg)
{
    bool first = flow_writes_first(i);
    if (i->guard >= 0)
        fn(arg, i->guard, false);
    for (int k = first ? 1 : 0; k < i->operand_count; k++)
        visit_operand(&i->operands[k], false, fn, arg);
    if (first && i->operand_count > 0)
        visit_operand(&i->operands[0], i->guard < 0, fn, arg);
}

static void split_blocks(struct flow_graph *g)
{
    const struct ptx_func *f = g->f;
    int count = f->insn_count;
    bool *starts = ARENA_ARRAY(g->arena, bool, (size_t)count + 1);
    starts[0] = true;
    for (int i = 0; i < count; i++) {
        const struct ptx_insn *in = &f->insns[i];
        if (!is_branch(in))
            continue;
        starts[i + 1] = true;
        const struct ptx_operand *label = branch_label(in), *table = branch_table(in);
        if (label && label->target <= count)
            starts[label->target] = true;
        for (int k = 0; in->op == PTX_BRX_IDX && table && k < table->item_count; k++)
            if (table->items[k].target <= count)
                starts[table->items[k].target] = true;
    }
    for (int i = 0; i < count; i++)
        g->block_count += starts[i];
    g->blocks = ARENA_ARRAY(g->arena, struct block, (size_t)g->block_count + 1);
    g->block_of_insn = ARENA_ARRAY(g->arena, int, (size_t)count + 1);
    int b = -1;
    for (int i = 0; i < count; i++) {
        if (starts[i])
            g->blocks[++b].from = i;
        g->blocks[b].to = i + 1;
        g->block_of_insn[i] = b;
    }
    g->block_of_insn[count] = -1;
}

static void link_blocks(struct flow_graph *g)
{
    for (int b = 0; b < g->block_count; b++) {
        struct block *k = &g->blocks[b];
        const struct ptx_insn *last = &g->f->insns[k->to - 1];
        k->succs[0] = k->succs[1] = -1;
        if (!ends_flow(last))
            k->succs[0] = g->block_of_insn[k->to];
        const struct ptx_operand *label = branch_label(last);
        if (last->op == PTX_BRA && label)
            k->succs[1] = g->block_of_insn[label->target];
        if (last->op == PTX_BRX_IDX)
            k->many = branch_table(last);
    }
}

struct flow_graph flow_graph(struct arena *a, const struct ptx_func *f)
{
    struct flow_graph g = {.arena = a, .f = f, .words = (f->reg_count + 63) / 64};
    split_blocks(&g);
    link_blocks(&g);
    return g;
}
