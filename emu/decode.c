/* decode.c - struct ptx_func to struct kernel: one record per instruction.
 *
 * Registers, special registers and immediates all become slots, so that exec_ functions
 * fetch 32 lanes the same way.  Each opcode family then picks its exec_ function and
 * refuses the forms that it does not have (decode_refuse), so that nothing is found
 * missing while a kernel runs.  Called .func bodies are laid behind the entry's. */
#include "emu/decode.h"
#include "emu/env.h"

#include <assert.h>

#define SCRAP_BYTES (16 * WARP_LANES) /* start of the register file: what sinks get */

static decode_fn *const families[PTX_OP_COUNT] = {
#define PTX_OP(id, spelling, isa, needs, mods, operands, emulated)                     \
    PTX_EMULATED_##emulated(id)
#define PTX_EMULATED_EMU(id) [PTX_##id] = decode_##id,
#define PTX_EMULATED_NO_EMU(id)
#include "core/ptx_ops.def"
#undef PTX_OP
#undef PTX_EMULATED_EMU
#undef PTX_EMULATED_NO_EMU
};

/* ---- refusals */

static void refuse_insn(struct decoder *d, const struct ptx_insn *i, const char *why)
{
    assert(i);
    struct loc loc = {d->module->file, i->line, i->col};
    diag_add(d->diags, DIAG_EMU_FORM, loc, i->opcode, why);
    d->failed = true;
}

bool decode_refuse(struct decoder *d, const struct op *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    refuse_insn(d, o->insn, arena_vprintf(d->arena, fmt, args));
    va_end(args);
    return false;
}

bool decode_want_count(struct decoder *d, const struct op *o, int least, int most)
{
    if (o->opnd_count >= least && o->opnd_count <= most)
        return true;
    if (least == most)
        return decode_refuse(d, o, "it has %d operands, not %d", o->opnd_count, least);
    return decode_refuse(d, o, "it has %d operands, not %d to %d", o->opnd_count, least,
                         most);
}

bool decode_want_reg(struct decoder *d, const struct op *o, int index, int bits)
{
    if (index >= o->opnd_count)
        return decode_refuse(d, o, "operand %d is missing", index + 1);
    struct opnd *p = &o->opnds[index];
    if (p->is_sink)
        return true;
    if (p->kind != PTX_OPND_REG)
        return decode_refuse(d, o, "operand %d must be a register", index + 1);
    if (p->is_const) {
        /* An immediate takes whatever width is asked for. */
        uint64_t value = (uint64_t)p->imm;
        if (bits == 1)
            value = value ? ALL_LANES : 0;
        else if (bits < 64)
            value &= ((uint64_t)1 << bits) - 1;
        p->slot = decode_const(d, value, bits > 32);
        p->bits = (uint8_t)bits;
        return true;
    }
    if (p->bits != bits)
        return decode_refuse(d, o, "operand %d is a %d-bit register, not %d bits",
                             index + 1, p->bits, bits);
    return true;
}

bool decode_want_address(struct decoder *d, const struct op *o, int index)
{
    if (index < o->opnd_count && o->opnds[index].kind == PTX_OPND_ADDR)
        return true;
    return decode_refuse(d, o, "operand %d must be an address in brackets", index + 1);
}

bool opnd_is_imm(const struct opnd *o, int64_t *value)
{
    if (o->kind != PTX_OPND_REG || !o->is_const)
        return false;
    *value = o->imm;
    return true;
}

struct arena *decode_arena(struct decoder *d)
{
    return d->arena;
}

void decode_order_matters(struct decoder *d)
{
    d->kernel->order_matters = true;
}

/* ---- constants and special registers */

uint32_t decode_const(struct decoder *d, uint64_t value, bool is_wide)
{
    unsigned h = (unsigned)((value ^ value >> 17 ^ value >> 41) + is_wide) %
                 COUNT_OF(d->const_hash);
    for (struct const_slot *c = d->const_hash[h]; c; c = c->next)
        if (c->value == value && c->is_wide == is_wide)
            return c->slot;
    uint32_t bytes = (is_wide ? 8 : 4) * WARP_LANES;
    if (d->const_bytes + bytes > d->const_cap) {
        uint32_t cap = d->const_cap ? d->const_cap * 2 : 16384;
        uint8_t *more = arena_alloc(d->arena, cap + 64);
        more += 64 - (uintptr_t)more % 64;
        if (d->const_bytes)
            memcpy(more, d->consts, d->const_bytes);
        d->consts = more;
        d->const_cap = cap;
    }
    struct const_slot *c = ARENA_NEW(d->arena, struct const_slot);
    *c = (struct const_slot){value, d->const_bytes, is_wide, d->const_hash[h]};
    d->const_hash[h] = c;
    for (int lane = 0; lane < WARP_LANES; lane++) {
        uint32_t low = (uint32_t)value;
        if (is_wide)
            memcpy(d->consts + c->slot + lane * 8, &value, 8);
        else
            memcpy(d->consts + c->slot + lane * 4, &low, 4);
    }
    d->const_bytes += bytes;
    return c->slot;
}

static bool sreg_is_dynamic(int s)
{
    return s == PTX_S_CLOCK || s == PTX_S_CLOCK_HI || s == PTX_S_CLOCK64 ||
           s == PTX_S_GLOBALTIMER || s == PTX_S_GLOBALTIMER_LO ||
           s == PTX_S_GLOBALTIMER_HI;
}

static const uint8_t sreg_types[PTX_SREG_COUNT] = {
#define PTX_SREG(id, spelling, type) [PTX_S_##id] = PTX_T_##type,
#include "core/ptx_sregs.def"
#undef PTX_SREG
};

static uint32_t sreg_slot(struct decoder *d, int sreg, uint8_t bits)
{
    struct kernel *k = d->kernel;
    for (int i = 0; i < k->sreg_count; i++)
        if (k->sregs[i].sreg == sreg)
            return k->sregs[i].slot;
    if (k->sreg_count == d->sreg_cap) {
        int cap = d->sreg_cap ? d->sreg_cap * 2 : 16;
        struct sreg_slot *more = ARENA_ARRAY(d->arena, struct sreg_slot, (size_t)cap);
        if (k->sreg_count)
            memcpy(more, k->sregs, (size_t)k->sreg_count * sizeof *more);
        k->sregs = more;
        d->sreg_cap = cap;
    }
    uint32_t slot = k->reg_bytes;
    k->reg_bytes += (bits == 64 ? 8u : 4u) * WARP_LANES;
    k->sregs[k->sreg_count++] = (struct sreg_slot){slot, (uint16_t)sreg, bits == 64};
    return slot;
}

/* ---- operands */

static bool decode_operand(struct decoder *d, const struct op *op,
                           const struct ptx_operand *p, struct opnd *o);

static bool decode_items(struct decoder *d, const struct op *op,
                         const struct ptx_operand *p, struct opnd *o)
{
    o->item_count = p->item_count;
    o->items = ARENA_ARRAY(d->arena, struct opnd, (size_t)p->item_count + 1);
    for (int i = 0; i < p->item_count; i++)
        if (!decode_operand(d, op, &p->items[i], &o->items[i]))
            return false;
    return true;
}

static void decode_sreg(struct decoder *d, int sreg, struct opnd *o)
{
    o->bits = reg_bits((enum ptx_type)sreg_types[sreg]);
    o->imm = sreg;
    if (sreg_is_dynamic(sreg)) {
        o->kind = PTX_OPND_SREG;
    } else if (sreg == PTX_S_WARP_SZ) {
        o->is_const = true;
        o->imm = WARP_LANES;
        o->slot = decode_const(d, WARP_LANES, false);
    } else {
        o->slot = sreg_slot(d, sreg, o->bits);
    }
}

static bool decode_start(struct decoder *d, const struct op *op,
                         const struct ptx_operand *p, struct opnd *o)
{
    if (p->var) {
        if (!decode_var(d, p->var, o))
            return decode_refuse(d, op, "variable %s has no place in device memory",
                                 p->var->name);
        o->imm += p->imm;
        return true;
    }
    o->imm = p->imm;
    if (p->reg < 0)
        return true;
    o->base = BASE_REG;
    o->slot = d->unit->slot_of_reg[p->reg];
    o->bits = reg_bits(d->unit->func->regs[p->reg].type);
    if (o->bits != 32 && o->bits != 64)
        return decode_refuse(d, op, "an address cannot stand in a %d-bit register",
                             o->bits);
    return true;
}

static bool decode_operand(struct decoder *d, const struct op *op,
                           const struct ptx_operand *p, struct opnd *o)
{
    o->kind = PTX_OPND_REG;
    o->negated = p->negated;
    int type_bits = ptx_type_bits((enum ptx_type)op->type);
    switch (p->kind) {
    case PTX_OPND_REG:
        o->slot = d->unit->slot_of_reg[p->reg];
        o->bits = reg_bits(d->unit->func->regs[p->reg].type);
        return true;
    case PTX_OPND_SREG:
        decode_sreg(d, p->sreg, o);
        return true;
    case PTX_OPND_IMM:
        o->is_const = true;
        o->imm = p->imm;
        o->bits = type_bits > 32 ? 64 : 32;
        o->slot = decode_const(d, o->bits == 64 ? (uint64_t)p->imm : (uint32_t)p->imm,
                               o->bits == 64);
        return true;
    case PTX_OPND_SINK:
        o->is_sink = true;
        o->bits = 64;
        return true; /* slot 0: scrap */
    case PTX_OPND_VAR:
    case PTX_OPND_ADDR:
        o->kind = (uint8_t)p->kind;
        return decode_start(d, op, p, o);
    case PTX_OPND_VECTOR:
    case PTX_OPND_PAIR:
        o->kind = (uint8_t)p->kind;
        return decode_items(d, op, p, o);
    case PTX_OPND_TENSOR:
        o->kind = (uint8_t)p->kind;
        if (!decode_items(d, op, p, o))
            return false;
        if (p->item_count > 0 && p->items[0].kind == PTX_OPND_REG) {
            o->items[0] = (struct opnd){.kind = PTX_OPND_ADDR};
            return decode_start(d, op, &p->items[0], &o->items[0]);
        }
        return true;
    case PTX_OPND_LABEL:
        o->kind = PTX_OPND_LABEL;
        o->imm = d->unit->pc_of_insn[p->target];
        return true;
    case PTX_OPND_FUNC:
        o->kind = PTX_OPND_FUNC;
        return true;
    }
    return decode_refuse(d, op, "operand of an unknown kind");
}

/* ---- units */

struct unit *decode_find_unit(struct decoder *d, const char *name)
{
    for (int i = 0; i < d->unit_count; i++)
        if (strcmp(d->units[i].func->name, name) == 0)
            return &d->units[i];
    return NULL;
}

static const char *callee_of(const struct ptx_insn *i)
{
    if (i->op != PTX_CALL || i->operand_count < 2 ||
        i->operands[1].kind != PTX_OPND_FUNC)
        return NULL;
    return i->operands[1].name;
}

static enum visit *visit_of(struct decoder *d, const struct ptx_func *f)
{
    int i = 0;
    while (d->module->funcs[i] != f)
        i++;
    return &d->visits[i];
}

/* Functions with a body that are called, directly or through others; callees first, so
 * that they have the smaller pcs and lanes inside a call go before those outside. */
static bool add_unit(struct decoder *d, const struct ptx_func *f,
                     const struct ptx_insn *call)
{
    enum visit *visit = visit_of(d, f);
    if (*visit == VISIT_DONE)
        return true;
    if (*visit == VISIT_OPEN) {
        refuse_insn(d, call,
                    "the function calls itself, and recursion is not emulated");
        return false;
    }
    *visit = VISIT_OPEN;
    for (int i = 0; i < f->insn_count; i++) {
        const char *name = callee_of(&f->insns[i]);
        const struct ptx_func *callee = name ? ptx_find_func(d->module, name) : NULL;
        if (callee && callee->has_body && !add_unit(d, callee, &f->insns[i]))
            return false;
    }
    *visit = VISIT_DONE;
    d->units[d->unit_count++].func = f;
    return true;
}

/* A call of a .func takes two records, the call and the collecting of results. */
static uint32_t records_of(struct decoder *d, const struct ptx_insn *i)
{
    const char *name = callee_of(i);
    return name && decode_find_unit(d, name) ? 2 : 1;
}

static void number_units(struct decoder *d)
{
    uint32_t pc = 0;
    for (int u = 0; u < d->unit_count; u++) {
        struct unit *unit = &d->units[u];
        const struct ptx_func *f = unit->func;
        unit->first_pc = pc;
        if (f->is_entry)
            d->kernel->start_pc = pc;
        unit->pc_of_insn = ARENA_ARRAY(d->arena, uint32_t, (size_t)f->insn_count + 1);
        for (int i = 0; i < f->insn_count; i++) {
            unit->pc_of_insn[i] = pc;
            pc += records_of(d, &f->insns[i]);
        }
        unit->pc_of_insn[f->insn_count] = pc++; /* the return at the end of the text */
    }
    d->kernel->op_count = pc;
    d->kernel->ops = ARENA_ARRAY(d->arena, struct op, pc);
}

static void assign_registers(struct decoder *d)
{
    uint32_t end = SCRAP_BYTES;
    for (int u = 0; u < d->unit_count; u++) {
        struct slot_map map = slots_assign(d->arena, d->units[u].func, end);
        d->units[u].slot_of_reg = map.slot_of_reg;
        d->units[u].unwritten = map.unwritten;
        end = map.end_bytes;
        if (!d->units[u].func->is_entry) {
            d->units[u].return_slot = end;
            end += 4 * WARP_LANES;
        }
    }
    d->kernel->reg_bytes = end;
}

/* ---- instructions */

static bool gathers(const struct ptx_insn *i)
{
    switch (i->op) {
    case PTX_BAR_WARP_SYNC:
        return true;
    case PTX_ELECT:
    case PTX_SHFL:
    case PTX_VOTE:
    case PTX_MATCH:
    case PTX_REDUX:
        return ptx_has(i, PTX_M_SYNC);
    default:
        return false;
    }
}

/* Arithmetic, branches and what a lane keeps to itself commute with what others do. */
static bool is_visible(const struct ptx_insn *i)
{
    switch (i->op) {
    case PTX_LD:
    case PTX_ST:
        return !ptx_has(i, PTX_M_LOCAL) && !ptx_has(i, PTX_M_PARAM) &&
               !ptx_has(i, PTX_M_CONST);
    case PTX_ST_BULK:
    case PTX_ST_ASYNC:
    case PTX_RED_ASYNC:
    case PTX_ATOM:
    case PTX_RED:
    case PTX_MULTIMEM_LD_REDUCE:
    case PTX_MULTIMEM_ST:
    case PTX_MULTIMEM_RED:
    case PTX_BAR_WARP_SYNC:
    case PTX_NANOSLEEP:
    case PTX_SETMAXNREG:
    case PTX_LDMATRIX:
    case PTX_STMATRIX:
        return true;
    default:
        break;
    }
    return (i->op >= PTX_CP_ASYNC && i->op <= PTX_TENSORMAP_CP_FENCEPROXY) ||
           (i->op >= PTX_BAR && i->op <= PTX_BARRIER_CLUSTER_WAIT) ||
           (i->op >= PTX_CLUSTERLAUNCHCONTROL_TRY_CANCEL &&
            i->op <= PTX_MBARRIER_TRY_WAIT) ||
           i->op >= PTX_TCGEN05_ALLOC;
}

static bool decode_guard(struct decoder *d, const struct ptx_insn *i, struct op *o)
{
    o->guard.kind = PTX_OPND_SINK;
    if (i->guard < 0)
        return true;
    o->guard.kind = PTX_OPND_REG;
    o->guard.bits = 1;
    o->guard.negated = i->guard_negated;
    o->guard.slot = d->unit->slot_of_reg[i->guard];
    if (reg_bits(d->unit->func->regs[i->guard].type) != 1)
        return decode_refuse(d, o, "the guard %s is no predicate",
                             d->unit->func->regs[i->guard].name);
    return true;
}

static void decode_insn(struct decoder *d, const struct ptx_insn *i, uint32_t pc)
{
    struct op *o = &d->kernel->ops[pc];
    o->insn = i;
    o->next = pc + records_of(d, i);
    o->type = i->type_count ? i->types[i->type_count - 1] : (uint8_t)PTX_NO_TYPE;
    o->first_type = i->type_count ? i->types[0] : (uint8_t)PTX_NO_TYPE;
    o->aligned = i->op == PTX_BAR || ptx_has(i, PTX_M_ALIGNED);
    o->gathers = gathers(i);
    o->visible = is_visible(i);
    decode_fn *family = families[i->op];
    if (!family) {
        refuse_insn(d, i, "the emulator does not have this instruction");
        return;
    }
    if (!decode_guard(d, i, o))
        return;
    o->opnd_count = i->operand_count;
    o->opnds = ARENA_ARRAY(d->arena, struct opnd, (size_t)i->operand_count + 1);
    for (int k = 0; k < i->operand_count; k++) {
        if (!decode_operand(d, o, &i->operands[k], &o->opnds[k]))
            return;
        if (o->opnds[k].kind == PTX_OPND_LABEL)
            o->target = (uint32_t)o->opnds[k].imm;
    }
    bool known = family(d, o);
    assert(d->failed || (known && o->exec));
    (void)known;
}

static void decode_unit(struct decoder *d, struct unit *unit)
{
    /* Stands for the return at the end of a text that does not say so itself. */
    static const struct ptx_insn end = {.op = PTX_RET, .guard = -1, .opcode = "ret"};
    const struct ptx_func *f = unit->func;
    d->unit = unit;
    for (int i = 0; i < f->insn_count; i++)
        decode_insn(d, &f->insns[i], unit->pc_of_insn[i]);
    struct ptx_insn *ret = ARENA_NEW(d->arena, struct ptx_insn);
    *ret = end;
    ret->line = f->insn_count ? f->insns[f->insn_count - 1].line : f->line;
    decode_insn(d, ret, unit->pc_of_insn[f->insn_count]);
}

/* Kernels in wide use declare 16 and go by 1024, as hardware gives where there is no
 * static shared memory. */
uint32_t kernel_dyn_smem_offset(const struct kernel *k)
{
    uint32_t end = SMEM_RESERVED_BYTES + k->static_smem_bytes;
    if (!env()->smem_as_declared)
        return align_up(end, 1024);
    uint32_t align = k->dyn_smem_align > 16 ? k->dyn_smem_align : 16;
    uint32_t offset = align_up(end, align);
    return offset % (2 * align) ? offset : offset + align;
}

struct kernel *kernel_decode(struct arena *a, const struct ptx_module *m,
                             const struct ptx_func *f, const struct placed_var *vars,
                             int var_count, struct diags *d)
{
    struct kernel *k = ARENA_NEW(a, struct kernel);
    struct decoder dec = {
        .arena = a,
        .module = m,
        .kernel = k,
        .diags = d,
        .placed = vars,
        .placed_count = var_count,
        .visits = ARENA_ARRAY(a, enum visit, (size_t)m->func_count + 1),
        .units = ARENA_ARRAY(a, struct unit, (size_t)m->func_count + 1),
    };
    k->module = m;
    k->func = f;
    if (!add_unit(&dec, f, NULL) || !decode_place_vars(&dec))
        return NULL;
    number_units(&dec);
    assign_registers(&dec);
    for (int u = 0; u < dec.unit_count; u++)
        decode_unit(&dec, &dec.units[u]);
    for (int u = 0; u < dec.unit_count && !dec.failed; u++)
        if (dec.units[u].unwritten)
            decode_watch(&dec, &dec.units[u]);
    for (int u = 0; u < dec.unit_count && !dec.failed; u++)
        decode_fragments(&dec, &dec.units[u]);
    k->reg_bytes = align_up(k->reg_bytes, 64);
    k->consts = dec.consts;
    return dec.failed ? NULL : k;
}
