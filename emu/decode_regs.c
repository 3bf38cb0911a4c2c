/* decode_regs.c - which registers may share a slot.
 *
 * Programs declare thousands of virtual registers; a warp's file must stay in the
 * host's nearest cache.  Liveness per thread over the control flow graph gives each
 * register one interval of instructions; a linear scan hands out slots.  A write under
 * a guard does not end the old value's life.  Lanes run apart, but each has its own
 * place in a slot, so what holds for one thread holds for all. */
#include "emu/decode.h"

#include <stdlib.h>

struct block {
    int from, to;                   /* instructions, `to` excluded */
    int succs[2];                   /* blocks, -1: none; more of them are in `many` */
    const struct ptx_operand *many; /* labels of brx.idx */
    uint64_t *use, *def, *in, *out;
};

struct flow_graph {
    struct arena *arena;
    const struct ptx_func *f;
    struct block *blocks;
    int block_count;
    int *block_of_insn; /* insn_count + 1 of them */
    int words;          /* of a register set */
};

uint8_t reg_bits(enum ptx_type t)
{
    int bits = ptx_type_bits(t);
    if (bits <= 1)
        return 1;
    return (uint8_t)(bits <= 8    ? 8
                     : bits <= 16 ? 16
                     : bits <= 32 ? 32
                     : bits <= 64 ? 64
                                  : 128);
}

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

/* Is operand 0 written, and nothing but written, when it is a register? */
static bool writes_first(const struct ptx_insn *i)
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

typedef void reg_fn(void *arg, int reg, bool write);

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

/* Sources before destinations. */
static void visit_insn(const struct ptx_insn *i, reg_fn *fn, void *arg)
{
    bool first = writes_first(i);
    if (i->guard >= 0)
        fn(arg, i->guard, false);
    for (int k = first ? 1 : 0; k < i->operand_count; k++)
        visit_operand(&i->operands[k], false, fn, arg);
    if (first && i->operand_count > 0)
        visit_operand(&i->operands[0], i->guard < 0, fn, arg);
}

static bool has_bit(const uint64_t *set, int i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void add_bit(uint64_t *set, int i)
{
    set[i / 64] |= (uint64_t)1 << (i % 64);
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

struct gather {
    uint64_t *use, *def;
};

static void gather_reg(void *arg, int reg, bool write)
{
    struct gather *g = arg;
    if (write)
        add_bit(g->def, reg);
    else if (!has_bit(g->def, reg))
        add_bit(g->use, reg);
}

/* A guarded or partial write counts as a use: what was there before may live on. */
static void find_uses(struct flow_graph *g)
{
    for (int b = 0; b < g->block_count; b++) {
        struct block *k = &g->blocks[b];
        size_t words = (size_t)g->words;
        k->use = ARENA_ARRAY(g->arena, uint64_t, words);
        k->def = ARENA_ARRAY(g->arena, uint64_t, words);
        k->in = ARENA_ARRAY(g->arena, uint64_t, words);
        k->out = ARENA_ARRAY(g->arena, uint64_t, words);
        struct gather gather = {k->use, k->def};
        for (int i = k->from; i < k->to; i++)
            visit_insn(&g->f->insns[i], gather_reg, &gather);
    }
}

static void join(struct flow_graph *g, struct block *k, int succ)
{
    if (succ < 0)
        return;
    for (int i = 0; i < g->words; i++)
        k->out[i] |= g->blocks[succ].in[i];
}

static void solve(struct flow_graph *g)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (int b = g->block_count - 1; b >= 0; b--) {
            struct block *k = &g->blocks[b];
            join(g, k, k->succs[0]);
            join(g, k, k->succs[1]);
            for (int i = 0; k->many && i < k->many->item_count; i++)
                join(g, k, g->block_of_insn[k->many->items[i].target]);
            for (int i = 0; i < g->words; i++) {
                uint64_t in = k->use[i] | (k->out[i] & ~k->def[i]);
                changed |= in != k->in[i];
                k->in[i] = in;
            }
        }
    }
}

struct interval {
    int reg, from, to; /* instructions, both included; from -1: never mentioned */
    uint32_t slot, bytes;
};

struct mention {
    struct interval *intervals;
    int at;
};

static void widen(struct interval *v, int at)
{
    if (v->from < 0 || at < v->from)
        v->from = at;
    if (at > v->to)
        v->to = at;
}

static void mention_reg(void *arg, int reg, bool write)
{
    (void)write;
    struct mention *m = arg;
    widen(&m->intervals[reg], m->at);
}

static struct interval *find_intervals(struct flow_graph *g)
{
    const struct ptx_func *f = g->f;
    struct interval *v =
        ARENA_ARRAY(g->arena, struct interval, (size_t)f->reg_count + 1);
    for (int r = 0; r < f->reg_count; r++) {
        uint8_t bits = reg_bits(f->regs[r].type);
        v[r] = (struct interval){.reg = r, .from = -1, .to = -1};
        v[r].bytes = bits == 1     ? 4
                     : bits == 128 ? 16 * WARP_LANES
                     : bits == 64  ? 8 * WARP_LANES
                                   : 4 * WARP_LANES;
    }
    struct mention m = {v, 0};
    for (m.at = 0; m.at < f->insn_count; m.at++)
        visit_insn(&f->insns[m.at], mention_reg, &m);
    for (int b = 0; b < g->block_count; b++) {
        const struct block *k = &g->blocks[b];
        for (int r = 0; r < f->reg_count; r++) {
            if (has_bit(k->in, r))
                widen(&v[r], k->from);
            if (has_bit(k->out, r))
                widen(&v[r], k->to - 1);
        }
    }
    return v;
}

static int by_start(const void *x, const void *y)
{
    const struct interval *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->reg < b->reg ? -1 : a->reg > b->reg;
}

/* Free slots of one width. */
struct pool {
    uint32_t *slots;
    int count;
};

static struct pool *pool_for(struct pool *pools, uint32_t bytes)
{
    return &pools[bytes == 4                      ? 0
                  : bytes / (4 * WARP_LANES) == 1 ? 1
                  : bytes / (8 * WARP_LANES) == 1 ? 2
                                                  : 3];
}

static uint32_t scan(struct arena *a, struct interval *v, int count, uint32_t end)
{
    struct pool pools[4];
    for (int i = 0; i < 4; i++)
        pools[i] = (struct pool){ARENA_ARRAY(a, uint32_t, (size_t)count + 33), 0};
    struct interval **active = ARENA_ARRAY(a, struct interval *, (size_t)count + 1);
    int active_count = 0;
    for (int i = 0; i < count; i++) {
        if (v[i].from < 0)
            continue;
        int kept = 0;
        for (int k = 0; k < active_count; k++) {
            if (active[k]->to >= v[i].from) {
                active[kept++] = active[k];
                continue;
            }
            struct pool *p = pool_for(pools, active[k]->bytes);
            p->slots[p->count++] = active[k]->slot;
        }
        active_count = kept;
        struct pool *p = pool_for(pools, v[i].bytes);
        if (p->count == 0 && v[i].bytes == 4) {
            for (uint32_t s = 4 * WARP_LANES; s > 0; s -= 4)
                p->slots[p->count++] = end + s - 4;
            end += 4 * WARP_LANES;
        } else if (p->count == 0) {
            p->slots[p->count++] = end;
            end += v[i].bytes;
        }
        v[i].slot = p->slots[--p->count];
        active[active_count++] = &v[i];
    }
    return end;
}

struct slot_map slots_assign(struct arena *a, const struct ptx_func *f,
                             uint32_t from_bytes)
{
    struct slot_map map = {ARENA_ARRAY(a, uint32_t, (size_t)f->reg_count + 1),
                           from_bytes};
    if (f->insn_count == 0)
        return map;
    struct arena *scratch = arena_new();
    struct flow_graph g = {.arena = scratch, .f = f, .words = (f->reg_count + 63) / 64};
    split_blocks(&g);
    link_blocks(&g);
    find_uses(&g);
    solve(&g);
    struct interval *v = find_intervals(&g);
    qsort(v, (size_t)f->reg_count, sizeof *v, by_start);
    map.end_bytes = scan(scratch, v, f->reg_count, from_bytes);
    for (int i = 0; i < f->reg_count; i++)
        map.slot_of_reg[v[i].reg] = v[i].slot;
    arena_free(scratch);
    return map;
}
