/* decode_fragments.c - which instructions touch registers that a wgmma works on: its
 * accumulators, and its A where that is in registers (check 14, check_wgmma.c). */
#include "emu/decode.h"
#include "emu/flow.h"

struct numbering {
    struct decoder *d;
    const struct ptx_func *f;
    uint32_t *number_of; /* of a register, 1 on; 0: none */
    uint16_t *reads, *writes;
    uint16_t read_count, write_count;
};

static const struct ptx_insn *wgmma_at(const struct ptx_func *f, int i)
{
    return f->insns[i].op == PTX_WGMMA_MMA_ASYNC ? &f->insns[i] : NULL;
}

static int items_of(const struct ptx_operand *o)
{
    return o->kind == PTX_OPND_VECTOR ? o->item_count : 0;
}

static void number(struct numbering *n, const struct ptx_operand *list)
{
    struct kernel *k = n->d->kernel;
    for (int i = 0; i < items_of(list); i++) {
        int reg = list->items[i].kind == PTX_OPND_REG ? list->items[i].reg : -1;
        if (reg < 0 || n->number_of[reg] || k->fragment_count == UINT16_MAX)
            continue;
        k->fragments[k->fragment_count] = n->f->regs[reg].name;
        n->number_of[reg] = ++k->fragment_count;
    }
}

static void collect(void *arg, int reg, bool write)
{
    struct numbering *n = arg;
    if (!n->number_of[reg])
        return;
    uint16_t number = (uint16_t)(n->number_of[reg] - 1);
    if (write)
        n->writes[n->write_count++] = number;
    else
        n->reads[n->read_count++] = number;
}

static void collect_list(struct numbering *n, const struct ptx_operand *list,
                         bool write)
{
    for (int i = 0; i < items_of(list); i++)
        if (list->items[i].kind == PTX_OPND_REG && list->items[i].reg >= 0)
            collect(n, list->items[i].reg, write);
}

static uint16_t *copy(struct arena *a, const uint16_t *from, uint16_t count)
{
    uint16_t *to = ARENA_ARRAY(a, uint16_t, (size_t)count + 1);
    memcpy(to, from, count * sizeof *to);
    return to;
}

static int most_registers(const struct ptx_operand *o)
{
    int count = 1;
    for (int i = 0; i < o->item_count; i++)
        count += most_registers(&o->items[i]);
    return count;
}

static void give(struct numbering *n, int index, struct op *o)
{
    const struct ptx_insn *i = &n->f->insns[index];
    struct arena *scratch = arena_new();
    int most = 2; /* the guard, twice */
    for (int k = 0; k < i->operand_count; k++)
        most += 2 * most_registers(&i->operands[k]);
    n->reads = ARENA_ARRAY(scratch, uint16_t, (size_t)most);
    n->writes = ARENA_ARRAY(scratch, uint16_t, (size_t)most);
    n->read_count = n->write_count = 0;
    if (wgmma_at(n->f, index) && i->operand_count > 1) {
        collect_list(n, &i->operands[0], true);
        collect_list(n, &i->operands[1], false);
    } else {
        flow_visit(i, collect, n);
    }
    if (n->read_count || n->write_count) {
        struct fragments *x = ARENA_NEW(n->d->arena, struct fragments);
        x->is_wgmma = wgmma_at(n->f, index);
        x->read_count = n->read_count;
        x->write_count = n->write_count;
        x->reads = copy(n->d->arena, n->reads, n->read_count);
        x->writes = copy(n->d->arena, n->writes, n->write_count);
        o->fragments = x;
    }
    arena_free(scratch);
}

void decode_fragments(struct decoder *d, const struct unit *u)
{
    const struct ptx_func *f = u->func;
    struct kernel *k = d->kernel;
    uint32_t from = k->fragment_count;
    bool any = false;
    for (int i = 0; i < f->insn_count && !any; i++)
        any = wgmma_at(f, i);
    if (!any)
        return;
    struct arena *scratch = arena_new();
    struct numbering n = {.d = d, .f = f};
    n.number_of = ARENA_ARRAY(scratch, uint32_t, (size_t)f->reg_count + 1);
    const char **names =
        ARENA_ARRAY(d->arena, const char *, (size_t)from + (size_t)f->reg_count + 1);
    if (from)
        memcpy(names, k->fragments, from * sizeof *names);
    k->fragments = names;
    for (int i = 0; i < f->insn_count; i++)
        if (wgmma_at(f, i) && f->insns[i].operand_count > 1) {
            number(&n, &f->insns[i].operands[0]);
            number(&n, &f->insns[i].operands[1]);
        }
    for (int i = 0; i < f->insn_count; i++)
        give(&n, i, &k->ops[u->pc_of_insn[i]]);
    arena_free(scratch);
}
