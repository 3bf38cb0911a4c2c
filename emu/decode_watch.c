/* decode_watch.c - which instructions may read a register that nothing has written.
 *
 * Registers that liveness needs at a function's start are followed forward: at each
 * instruction a set of those that may lack a value.  A guarded write does not give one,
 * since other lanes may read; check_fresh.c then goes by lanes.  Most kernels have no
 * such register, and nothing is done for them while they run. */
#include "emu/decode.h"
#include "emu/flow.h"
#include "emu/watch.h"

#include <string.h>

#define MOST_REGISTERS 0xfffe

struct access {
    const struct ptx_insn *insn;
    enum watch_rule rule;
    int *reads, *writes; /* registers; -1: something that has a value */
    int read_count, write_count, apart;
    bool *lack; /* may this read find nothing?  The last one: the guard */
};

struct analysis {
    struct decoder *d;
    const struct unit *unit;
    struct flow_graph g;
    struct access *at; /* of each instruction */
    uint64_t **sets; /* of each block: registers that may lack a value where it begins;
                        then those where it ends of which somebody must know it */
    uint64_t *now;   /* the same, at the instruction in hand */
    uint64_t *tracked;   /* all that somebody must know about */
    uint16_t *number_of; /* of each register: in watches */
};

/* ---- what an instruction does with registers */

static bool is_pred(const struct ptx_insn *i)
{
    return i->type_count > 0 && i->types[i->type_count - 1] == PTX_T_PRED;
}

/* x ^ x and x - x: the result does not depend on what x holds. */
static bool is_zero(const struct ptx_insn *i)
{
    return i->operand_count == 3 && i->operands[1].kind == PTX_OPND_REG &&
           i->operands[2].kind == PTX_OPND_REG &&
           i->operands[1].reg == i->operands[2].reg;
}

static enum watch_rule rule_of(const struct ptx_insn *i)
{
    switch (i->op) {
    case PTX_AND:
        return is_pred(i) ? WATCH_AND : WATCH_ALL;
    case PTX_OR:
        return is_pred(i) ? WATCH_OR : WATCH_ALL;
    case PTX_XOR:
        return is_zero(i) ? WATCH_FRESH : is_pred(i) ? WATCH_ANY : WATCH_ALL;
    case PTX_SUB:
        return is_zero(i) ? WATCH_FRESH : WATCH_ANY;
    case PTX_SELP:
        return WATCH_SELP;
    case PTX_MOV:
    case PTX_LOP3:
    case PTX_PRMT:
    case PTX_BFI:
    case PTX_SHF:
    case PTX_CVT_PACK:
        return WATCH_ALL;
    case PTX_CVT: /* two sources: halves of a word */
        return i->operand_count > 2 ? WATCH_ALL : WATCH_ANY;
    case PTX_MMA:
        return WATCH_EACH;
    case PTX_ST: /* arguments of a call may be left open */
        return ptx_has(i, PTX_M_PARAM) ? WATCH_FRESH : WATCH_TELL;
    case PTX_CALL:
    case PTX_SHFL: /* what other lanes hold */
    case PTX_WGMMA_MMA_ASYNC:
        return WATCH_FRESH;
    default:
        return i->op <= PTX_ISSPACEP ? WATCH_ANY : WATCH_TELL;
    }
}

static bool has_result(const struct ptx_insn *i)
{
    return flow_writes_first(i) || i->op == PTX_CALL || i->op == PTX_WGMMA_MMA_ASYNC ||
           ((i->op == PTX_BAR || i->op == PTX_BARRIER) && ptx_has(i, PTX_M_RED));
}

static int count_registers(const struct ptx_operand *o)
{
    int count = 1;
    for (int i = 0; i < o->item_count; i++)
        count += count_registers(&o->items[i]);
    return count;
}

/* Registers of an operand that is read.  Of a word that is put together, a constant is
 * a part as well. */
static void add_reads(struct access *x, const struct ptx_operand *o, bool is_part)
{
    if ((o->kind == PTX_OPND_REG || o->kind == PTX_OPND_ADDR) && o->reg >= 0)
        x->reads[x->read_count++] = o->reg;
    else if (x->rule == WATCH_SELP || x->rule == WATCH_AND || x->rule == WATCH_OR ||
             x->rule == WATCH_EACH || is_part)
        if (o->kind != PTX_OPND_VECTOR)
            x->reads[x->read_count++] = -1;
    for (int i = 0; i < o->item_count; i++)
        add_reads(x, &o->items[i], o->kind == PTX_OPND_VECTOR);
}

static void add_writes(struct access *x, const struct ptx_operand *o)
{
    if (o->kind == PTX_OPND_ADDR && o->reg >= 0)
        x->reads[x->read_count++] = o->reg;
    if (o->kind == PTX_OPND_REG || o->kind == PTX_OPND_SINK)
        x->writes[x->write_count++] = o->kind == PTX_OPND_REG ? o->reg : -1;
    for (int i = 0; i < o->item_count; i++) {
        if (o->kind == PTX_OPND_TENSOR)
            add_reads(x, &o->items[i], false);
        else
            add_writes(x, &o->items[i]);
    }
}

/* Is this what a store writes?  Some parts of a vector may be left open, and local
 * memory is what registers are spilled to. */
static bool is_stored(const struct ptx_insn *i, const struct ptx_operand *o)
{
    return i->op == PTX_ST && o == &i->operands[1];
}

static void find_access(struct arena *a, const struct ptx_insn *i, struct access *x)
{
    int most = 1;
    for (int k = 0; k < i->operand_count; k++)
        most += count_registers(&i->operands[k]);
    *x = (struct access){.insn = i, .rule = rule_of(i)};
    x->reads = ARENA_ARRAY(a, int, (size_t)most);
    x->lack = ARENA_ARRAY(a, bool, (size_t)most + 1);
    x->writes = ARENA_ARRAY(a, int, (size_t)most);
    for (int k = 0; k < i->operand_count; k++) {
        const struct ptx_operand *o = &i->operands[k];
        if ((k == 0 && has_result(i)) || i->op == PTX_CALL)
            add_writes(x, o);
        else if (!is_stored(i, o) && (i->op != PTX_MMA || k == 3))
            add_reads(x, o, false);
    }
    x->apart = x->read_count;
    for (int k = 0; k < i->operand_count; k++)
        if (is_stored(i, &i->operands[k]) && !ptx_has(i, PTX_M_LOCAL))
            add_reads(x, &i->operands[k], false);
    if (x->rule == WATCH_EACH && x->read_count != x->write_count)
        x->rule = WATCH_FRESH;
}

/* ---- which registers may lack a value */

static void drop_bit(uint64_t *set, int i)
{
    set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static bool lacks(const struct analysis *n, int reg)
{
    return reg >= 0 && has_bit(n->now, reg);
}

/* Do its results lack a value when what it reads does?  Not of WATCH_EACH. */
static bool result_lacks(const struct analysis *n, const struct access *x)
{
    if (x->rule == WATCH_TELL || x->rule == WATCH_FRESH)
        return false;
    int count = 0;
    for (int i = 0; i < x->read_count; i++)
        count += lacks(n, x->reads[i]);
    return x->rule == WATCH_ALL ? count > 0 && count == x->read_count : count > 0;
}

/* Goes forward over one instruction.  Elements of an accumulator may be read and
 * written by it; each is read before it is written. */
static void pass(struct analysis *n, const struct access *x)
{
    bool lack = x->rule != WATCH_EACH && x->write_count > 0 && result_lacks(n, x);
    for (int k = 0; k < x->write_count; k++) {
        if (x->rule == WATCH_EACH)
            lack = lacks(n, x->reads[k]);
        if (x->writes[k] >= 0 && lack)
            add_bit(n->now, x->writes[k]);
        else if (x->writes[k] >= 0 && x->insn->guard < 0)
            drop_bit(n->now, x->writes[k]);
    }
}

static void enter(struct analysis *n, int block)
{
    memcpy(n->now, n->sets[block], (size_t)n->g.words * sizeof *n->now);
}

/* n->now into what another block has. */
static bool flow_into(struct analysis *n, int block)
{
    bool changed = false;
    for (int i = 0; block >= 0 && i < n->g.words; i++) {
        uint64_t more = n->now[i] & ~n->sets[block][i];
        n->sets[block][i] |= more;
        changed |= more != 0;
    }
    return changed;
}

static void find_lacks(struct analysis *n)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = 0; b < n->g.block_count; b++) {
            const struct block *k = &n->g.blocks[b];
            enter(n, b);
            for (int i = k->from; i < k->to; i++)
                pass(n, &n->at[i]);
            changed |= flow_into(n, k->succs[0]);
            changed |= flow_into(n, k->succs[1]);
            for (int i = 0; k->many && i < k->many->item_count; i++)
                changed |= flow_into(n, n->g.block_of_insn[k->many->items[i].target]);
        }
    }
    for (int b = 0; b < n->g.block_count; b++) {
        enter(n, b);
        for (int i = n->g.blocks[b].from; i < n->g.blocks[b].to; i++) {
            struct access *x = &n->at[i];
            for (int k = 0; k < x->read_count; k++)
                x->lack[k] = lacks(n, x->reads[k]);
            x->lack[x->read_count] = lacks(n, x->insn->guard);
            pass(n, x);
        }
    }
}

/* ---- of which of them somebody must know */

static bool is_needed(const struct analysis *n, const struct access *x)
{
    for (int k = 0; k < x->write_count; k++)
        if (x->writes[k] >= 0 && has_bit(n->now, x->writes[k]))
            return true;
    return false;
}

static void need(struct analysis *n, int reg)
{
    add_bit(n->now, reg);
    add_bit(n->tracked, reg);
}

/* Goes backward over one instruction: a register matters when a lack of it is told
 * here, or when one that matters is made of it. */
static void pass_back(struct analysis *n, const struct access *x)
{
    bool matters = x->rule == WATCH_TELL || (x->rule != WATCH_FRESH && is_needed(n, x));
    for (int k = 0; k < x->write_count; k++)
        if (x->writes[k] >= 0 && x->insn->guard < 0)
            drop_bit(n->now, x->writes[k]);
    for (int k = 0; matters && k < x->read_count; k++)
        if (x->lack[k])
            need(n, x->reads[k]);
    if (x->lack[x->read_count])
        need(n, x->insn->guard);
}

/* What `block` needs where it begins is needed where those in front of it end. */
static bool flow_back(struct analysis *n, int block)
{
    bool changed = false;
    for (int b = 0; b < n->g.block_count; b++) {
        const struct block *k = &n->g.blocks[b];
        bool leads = k->succs[0] == block || k->succs[1] == block;
        for (int i = 0; k->many && i < k->many->item_count; i++)
            leads |= n->g.block_of_insn[k->many->items[i].target] == block;
        if (leads)
            changed |= flow_into(n, b);
    }
    return changed;
}

static void find_needs(struct analysis *n)
{
    for (int b = 0; b < n->g.block_count; b++)
        memset(n->sets[b], 0, (size_t)n->g.words * sizeof *n->now);
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = n->g.block_count - 1; b >= 0; b--) {
            enter(n, b);
            for (int i = n->g.blocks[b].to - 1; i >= n->g.blocks[b].from; i--)
                pass_back(n, &n->at[i]);
            changed |= flow_back(n, b);
        }
    }
}

static bool number_tracked(struct analysis *n)
{
    const struct ptx_func *f = n->g.f;
    struct kernel *k = n->d->kernel;
    uint32_t count = k->watched_count;
    for (int r = 0; r < f->reg_count; r++) {
        n->number_of[r] = WATCH_NONE;
        if (has_bit(n->tracked, r) && count < MOST_REGISTERS)
            n->number_of[r] = (uint16_t)count++;
    }
    if (count == k->watched_count)
        return false;
    const char **names = ARENA_ARRAY(n->d->arena, const char *, count);
    if (k->watched_count)
        memcpy(names, k->watched, k->watched_count * sizeof *names);
    for (int r = 0; r < f->reg_count; r++)
        if (n->number_of[r] != WATCH_NONE)
            names[n->number_of[r]] = f->regs[r].name;
    k->watched = names;
    k->watched_count = count;
    return true;
}

/* ---- watches */

static uint16_t *numbers(const struct analysis *n, const int *regs, int count)
{
    uint16_t *out = ARENA_ARRAY(n->d->arena, uint16_t, (size_t)count + 1);
    for (int i = 0; i < count; i++)
        out[i] = regs[i] < 0 ? WATCH_NONE : n->number_of[regs[i]];
    return out;
}

/* n->now is what is needed behind it. */
static void give_watch(struct analysis *n, const struct access *x, struct op *o)
{
    bool some = false, told = x->lack[x->read_count];
    for (int i = 0; i < x->read_count; i++)
        some |= x->lack[i];
    told |= some && x->rule == WATCH_TELL;
    if (!told && !is_needed(n, x))
        return;
    struct watch *w = ARENA_NEW(n->d->arena, struct watch);
    w->rule = (uint8_t)(some || x->rule == WATCH_TELL ? x->rule : WATCH_FRESH);
    w->guard = x->lack[x->read_count] ? n->number_of[x->insn->guard] : WATCH_NONE;
    w->read_count = (uint16_t)x->read_count;
    w->write_count = (uint16_t)x->write_count;
    w->apart = (uint16_t)x->apart;
    w->reads = numbers(n, x->reads, x->read_count);
    w->writes = numbers(n, x->writes, x->write_count);
    for (int i = 0; i < x->read_count; i++)
        if (!x->lack[i]) /* it has a value here, whatever its lanes have written */
            w->reads[i] = WATCH_NONE;
    o->watch = w;
}

static void give_watches(struct analysis *n)
{
    for (int b = 0; b < n->g.block_count; b++) {
        enter(n, b);
        for (int i = n->g.blocks[b].to - 1; i >= n->g.blocks[b].from; i--) {
            give_watch(n, &n->at[i], &n->d->kernel->ops[n->unit->pc_of_insn[i]]);
            pass_back(n, &n->at[i]);
        }
    }
}

void decode_watch(struct decoder *d, const struct unit *u)
{
    struct arena *scratch = arena_new();
    const struct ptx_func *f = u->func;
    struct analysis n = {.d = d, .unit = u, .g = flow_graph(scratch, f)};
    size_t words = (size_t)n.g.words;
    n.at = ARENA_ARRAY(scratch, struct access, (size_t)f->insn_count + 1);
    for (int i = 0; i < f->insn_count; i++)
        find_access(scratch, &f->insns[i], &n.at[i]);
    n.sets = ARENA_ARRAY(scratch, uint64_t *, (size_t)n.g.block_count);
    for (int b = 0; b < n.g.block_count; b++)
        n.sets[b] = ARENA_ARRAY(scratch, uint64_t, words);
    n.now = ARENA_ARRAY(scratch, uint64_t, words);
    n.tracked = ARENA_ARRAY(scratch, uint64_t, words);
    n.number_of = ARENA_ARRAY(scratch, uint16_t, (size_t)f->reg_count + 1);
    memcpy(n.sets[0], u->unwritten, words * sizeof *n.now);
    find_lacks(&n);
    find_needs(&n);
    if (number_tracked(&n))
        give_watches(&n);
    arena_free(scratch);
}
