/* decode_regs.c - which registers may share a slot.
 *
 * Programs declare thousands of virtual registers; a warp's file must stay in the
 * host's nearest cache.  Liveness per thread over the control flow graph gives each
 * register one interval of instructions; a linear scan hands out slots.  A write under
 * a guard does not end the old value's life.  Lanes run apart, but each has its own
 * place in a slot, so what holds for one thread holds for all. */
#include "emu/decode.h"
#include "emu/flow.h"

#include <stdlib.h>

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
            flow_visit(&g->f->insns[i], gather_reg, &gather);
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

/* Registers that some path reads before it writes them; NULL: none. */
static const uint64_t *needed_at_start(struct arena *a, const struct flow_graph *g)
{
    const uint64_t *in = g->blocks[0].in;
    uint64_t any = 0;
    for (int i = 0; i < g->words; i++)
        any |= in[i];
    return any ? memcpy(ARENA_ARRAY(a, uint64_t, (size_t)g->words), in,
                        (size_t)g->words * sizeof *in)
               : NULL;
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

/* ---- registers that a tcgen05.ld has still to fill
 *
 * Check 14 watches their slots until the load is waited for; so nobody else may have
 * them until then, not even those of registers that nobody reads. */

static void add_loaded(const struct ptx_operand *o, uint64_t *set)
{
    if (o->kind == PTX_OPND_REG)
        add_bit(set, o->reg);
    for (int i = 0; o->kind == PTX_OPND_VECTOR && i < o->item_count; i++)
        add_loaded(&o->items[i], set);
}

static void widen_all(const struct flow_graph *g, const uint64_t *set,
                      struct interval *v, int at)
{
    for (int r = 0; v && r < g->f->reg_count; r++)
        if (has_bit(set, r))
            widen(&v[r], at);
}

/* What is pending behind block `k`, in `set`; with `v` their intervals are widened. */
static void pass_loads(const struct flow_graph *g, const struct block *k, uint64_t *set,
                       struct interval *v)
{
    widen_all(g, set, v, k->from);
    for (int i = k->from; i < k->to; i++) {
        const struct ptx_insn *in = &g->f->insns[i];
        if (in->op == PTX_TCGEN05_LD)
            add_loaded(&in->operands[0], set);
        if (in->op != PTX_TCGEN05_WAIT || !ptx_has(in, PTX_M_LD))
            continue;
        widen_all(g, set, v, i);
        memset(set, 0, (size_t)g->words * sizeof *set);
    }
    widen_all(g, set, v, k->to - 1);
}

static bool add_pending(const struct flow_graph *g, uint64_t *pending, int block,
                        const uint64_t *more)
{
    bool changed = false;
    for (int i = 0; block >= 0 && i < g->words; i++) {
        uint64_t *at = &pending[(size_t)block * (size_t)g->words + (size_t)i];
        changed |= (more[i] & ~*at) != 0;
        *at |= more[i];
    }
    return changed;
}

static void widen_pending(struct flow_graph *g, struct interval *v)
{
    const size_t words = (size_t)g->words;
    bool any = false;
    for (int i = 0; i < g->f->insn_count; i++)
        any |= g->f->insns[i].op == PTX_TCGEN05_LD;
    if (!any)
        return;
    uint64_t *pending = ARENA_ARRAY(g->arena, uint64_t, (size_t)g->block_count * words);
    uint64_t *set = ARENA_ARRAY(g->arena, uint64_t, words);
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = 0; b < g->block_count; b++) {
            const struct block *k = &g->blocks[b];
            memcpy(set, pending + (size_t)b * words, words * sizeof *set);
            pass_loads(g, k, set, NULL);
            changed |= add_pending(g, pending, k->succs[0], set);
            changed |= add_pending(g, pending, k->succs[1], set);
            for (int i = 0; k->many && i < k->many->item_count; i++)
                changed |= add_pending(g, pending,
                                       g->block_of_insn[k->many->items[i].target], set);
        }
    }
    for (int b = 0; b < g->block_count; b++)
        pass_loads(g, &g->blocks[b], pending + (size_t)b * words, v);
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
        flow_visit(&f->insns[m.at], mention_reg, &m);
    for (int b = 0; b < g->block_count; b++) {
        const struct block *k = &g->blocks[b];
        for (int r = 0; r < f->reg_count; r++) {
            if (has_bit(k->in, r))
                widen(&v[r], k->from);
            if (has_bit(k->out, r))
                widen(&v[r], k->to - 1);
        }
    }
    widen_pending(g, v);
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
                           from_bytes, NULL};
    if (f->insn_count == 0)
        return map;
    struct arena *scratch = arena_new();
    struct flow_graph g = flow_graph(scratch, f);
    find_uses(&g);
    solve(&g);
    map.unwritten = needed_at_start(a, &g);
    struct interval *v = find_intervals(&g);
    qsort(v, (size_t)f->reg_count, sizeof *v, by_start);
    map.end_bytes = scan(scratch, v, f->reg_count, from_bytes);
    for (int i = 0; i < f->reg_count; i++)
        map.slot_of_reg[v[i].reg] = v[i].slot;
    arena_free(scratch);
    return map;
}
