/* steps.c - a chunk in steps of few columns, each through to the outputs.
 *
 * Level by level (gen/llvm/emit.c) many values wait at once: fine while there are
 * registers for them.  Here a value is computed when the first output wants it, and
 * what waits is accumulators, words of outputs, and the blocks that are being looked
 * at.  The bits are the same.
 *
 * ptxas would take such an order for chance: it mixes the steps again, until all 255
 * registers are in use and then some.  So what a step reads is changed by nothing at
 * all, a 0 that is computed from what the step before has made. */
#include "gen/llvm/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

void emit_made(struct emit *em, Value v)
{
    if (LLVMTypeOf(v) == em->f32)
        v = emit_bits(em, v);
    em->made = em->made ? LLVMBuildXor(em->at, em->made, v, "") : v;
}

Value emit_behind(struct emit *em, Value i)
{
    return em->order ? LLVMBuildXor(em->at, i, em->order, "") : i;
}

/* m has no sign, which only we know. */
static void close_step(struct emit *em)
{
    Value m = emit_in(em, em->names->m, em->i32);
    Value zero = LLVMBuildAShr(em->at, m, emit_i32(em, 31), "");
    em->order = LLVMBuildAnd(em->at, em->made, zero, "");
    em->made = NULL;
}

static uint64_t mask_of(int first, int count)
{
    return (count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX) << first;
}

/* Values of argument k that values `wanted` of n are made of. */
static uint64_t wanted_of(const struct expr_node *n, int k, uint64_t wanted)
{
    const struct expr_node *arg = n->args[k];
    const int per = n->shape == EXPR_SHAPE_BLOCK ? n->block : 1;
    const int own = arg->shape == EXPR_SHAPE_BLOCK ? arg->block : 1;
    const bool splits = n->op == EXPR_SPLIT, joins = n->op == EXPR_JOIN;
    const int group = (int)(splits ? n->imm / 2 : n->imm), half = (int)(n->imm % 2);
    uint64_t found = 0;
    for (int i = 0; i < 64; i++) {
        if (!(wanted >> i & 1))
            continue;
        if (splits)
            found |= mask_of((i / group * 2 + half) * group + i % group, 1);
        else if (joins && i / group % 2 == k)
            found |= mask_of(i / group / 2 * group + i % group, 1);
        else if (!joins)
            found |= mask_of(i * per / own, per > own ? per / own : 1);
    }
    return found;
}

/* Whole loads. */
static uint64_t widened(const struct emit *em, const struct expr_node *n,
                        uint64_t wanted)
{
    const int unit = emit_input_unit(em, n);
    uint64_t found = 0;
    for (int i = 0; i < 64; i += unit)
        if (wanted & mask_of(i, unit))
            found |= mask_of(i, unit);
    return found;
}

static void emit_runs(struct emit *em, const struct expr_node *n, uint64_t wanted)
{
    for (int first = 0; first < 64; first++) {
        int count = 0;
        while (first + count < 64 && wanted >> (first + count) & 1)
            count++;
        if (count)
            emit_node(em, n, first, count);
        first += count;
    }
}

static bool is_reduction(const struct expr_node *n)
{
    return n->op == EXPR_BLOCK_AMAX || n->op == EXPR_BLOCK_MAX ||
           n->op == EXPR_BLOCK_MIN;
}

static void demand(struct emit *em, const struct expr_node *root, uint64_t wanted);

/* What blocks are found from, in steps as well. */
static void demand_block(struct emit *em, const struct expr_node *n, uint64_t wanted)
{
    const struct expr_node *arg = n->args[0];
    uint64_t all = wanted_of(n, 0, wanted);
    const int per = arg->columns == EXPR_PAIRS ? 2 : 1, step = em->step / per;
    for (int first = 0; first < 64; first += step)
        if (all & mask_of(first, step))
            demand(em, arg, all & mask_of(first, step));
}

/* need[id]: values that are not there yet.  Arguments stand before the nodes that use
 * them. */
static void find_needs(struct emit *em, const struct expr_node *root, uint64_t wanted,
                       uint64_t *need)
{
    need[root->id] = wanted;
    for (int i = root->id; i >= 0; i--) {
        const struct expr_node *n = em->e->nodes[i];
        need[i] &= ~em->done[i];
        if (need[i] && n->op == EXPR_INPUT)
            need[i] = widened(em, n, need[i]) & ~em->done[i];
        for (int k = 0; need[i] && k < n->arg_count; k++)
            if (!emit_is_column_free(n->args[k]))
                need[n->args[k]->id] |= wanted_of(n, k, need[i]);
    }
}

/* Makes values `wanted` of `root`, and those that they are made of. */
static void demand(struct emit *em, const struct expr_node *root, uint64_t wanted)
{
    struct arena *a = arena_new();
    uint64_t *need = ARENA_ARRAY(a, uint64_t, (size_t)root->id + 1);
    find_needs(em, root, wanted, need);
    for (int i = 0; i < root->id; i++) /* a block of blocks finds the inner ones made */
        if (need[i] && is_reduction(em->e->nodes[i]))
            demand_block(em, em->e->nodes[i], need[i]);
    for (int i = 0; i <= root->id; i++) {
        need[i] &= ~em->done[i];
        if (need[i])
            emit_runs(em, em->e->nodes[i], need[i]);
        em->done[i] |= need[i];
    }
    arena_free(a);
}

/* Tile columns of what an output stores at once: words and blocks are not divided. */
static int output_unit(const struct emit *em, const struct expr_output *o)
{
    int bits = expr_bits(o->format), block = expr_scale_block(o->format);
    int cols = block ? block : bits ? 32 / bits : 1;
    if (o->value->columns == EXPR_PAIRS)
        cols *= 2;
    return cols > em->step ? cols : em->step;
}

/* Of output k in a step: its amax so far, or values that wait for the rest of a block;
 * what is stored reports itself. */
static void note_made(struct emit *em, int k, int first, int count)
{
    const struct expr_output *o = &em->e->outputs[k];
    const bool narrow = o->value->type >= EXPR_TYPE_BF16;
    for (int i = first; i < first + count && !em->amax[k]; i++)
        emit_made(em, emit_value(em, narrow ? o->value->args[0] : o->value, i, 1));
    if (em->amax[k])
        emit_made(em, em->amax[k]);
}

/* Values of `cols` tile columns that an earlier step made for a block are read by this
 * one: so these, too, are changed by nothing. */
static void order_values(struct emit *em, int first, int cols)
{
    for (int i = 0; em->order && i < em->e->node_count; i++) {
        const struct expr_node *n = em->e->nodes[i];
        const int per = n->columns == EXPR_PAIRS ? 2 : 1;
        if (n->type != EXPR_F32 || n->shape == EXPR_SHAPE_BLOCK ||
            emit_is_column_free(n))
            continue;
        for (int k = first / per; k < (first + cols) / per; k++)
            if (em->done[i] & mask_of(k, 1)) {
                Value *v = &em->values[i][k];
                *v = emit_float(em, emit_behind(em, emit_bits(em, *v)));
            }
    }
}

void emit_steps(struct emit *em)
{
    const struct expr *e = em->e;
    em->done = ARENA_ARRAY(em->arena, uint64_t, (size_t)e->node_count + 1);
    for (int end = em->step; end <= em->chunk; end += em->step) {
        order_values(em, end - em->step, em->step);
        for (int k = 0; k < e->output_count; k++) {
            const struct expr_output *o = &e->outputs[k];
            const int per = o->value->columns == EXPR_PAIRS ? 2 : 1;
            const int unit = output_unit(em, o), first = (end - em->step) / per;
            demand(em, o->value, mask_of(first, em->step / per));
            if (end % unit == 0)
                emit_output(em, k, (end - unit) / per, unit / per);
            if (end % unit || em->amax[k])
                note_made(em, k, first, em->step / per);
        }
        close_step(em);
    }
}
