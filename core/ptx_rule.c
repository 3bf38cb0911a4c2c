/* What ptx_ops.def cannot say: values, counts and combinations, family by family.
 * ptxas 13.0 refuses each of these. */
#include "core/ptx_checker.h"

static bool rule_error(struct checker *c, const struct ptx_insn *insn, const char *why)
{
    return check_error(c, DIAG_OP_RULE, insn->line, insn->col, insn->opcode, why);
}

/* A constant operand (a register can hold anything) must be among allowed values. */
static bool value_error(struct checker *c, const struct ptx_insn *insn, int index,
                        const char *allowed)
{
    const struct ptx_operand *o = &insn->operands[index];
    return check_error(c, DIAG_OP_VALUE, o->line, o->col, index + 1, insn->opcode,
                       (long long)o->imm, allowed);
}

static const struct ptx_operand *constant_at(const struct ptx_insn *insn, int index)
{
    bool is = index < insn->operand_count && insn->operands[index].kind == PTX_OPND_IMM;
    return is ? &insn->operands[index] : NULL;
}

static bool check_multiple(struct checker *c, const struct ptx_insn *insn, int index,
                           int64_t unit, const char *allowed)
{
    const struct ptx_operand *o = constant_at(insn, index);
    return !o || (o->imm >= 0 && o->imm % unit == 0) ||
           value_error(c, insn, index, allowed);
}

/* ---- addresses */

static enum ptx_space space_of(enum ptx_mod mod)
{
    switch (mod) {
    case PTX_M_GLOBAL:
        return PTX_GLOBAL;
    case PTX_M_SHARED:
    case PTX_M_SHARED_CTA:
    case PTX_M_SHARED_CLUSTER:
        return PTX_SHARED;
    case PTX_M_LOCAL:
        return PTX_LOCAL;
    case PTX_M_CONST:
        return PTX_CONST;
    case PTX_M_PARAM:
    case PTX_M_PARAM_ENTRY:
    case PTX_M_PARAM_FUNC:
        return PTX_PARAM;
    default:
        return PTX_GENERIC;
    }
}

static enum ptx_space insn_space(const struct ptx_insn *insn)
{
    for (int i = 0; i < insn->mod_count; i++) {
        enum ptx_space s = space_of((enum ptx_mod)insn->mods[i]);
        if (s != PTX_GENERIC)
            return s;
    }
    return PTX_GENERIC;
}

static const char *space_name(enum ptx_space s)
{
    static const char *const names[] = {
        "a generic address", "a register", ".param", ".global",
        ".shared",           ".local",     ".const"};
    return names[s];
}

/* For instructions with one address in one state space. */
static bool check_address(struct checker *c, const struct ptx_insn *insn)
{
    enum ptx_space space = insn_space(insn);
    for (int i = 0; i < insn->operand_count; i++) {
        const struct ptx_operand *o = &insn->operands[i];
        if (o->kind != PTX_OPND_ADDR)
            continue;
        if (o->reg >= 0) {
            bool small = ptx_type_bits(c->f->regs[o->reg].type) == 32;
            if (small && (space == PTX_GLOBAL || space == PTX_GENERIC))
                return check_operand_error(c, insn, i,
                                           "an address in a 64-bit register");
        } else if (!o->var) {
            continue; /* a constant, in .local */
        } else if (space == PTX_GENERIC ? o->var->space == PTX_PARAM
                                        : o->var->space != space) {
            return check_error(c, DIAG_OP_SPACE, o->line, o->col, o->var->name,
                               space_name(o->var->space), insn->opcode,
                               space_name(space));
        }
    }
    return true;
}

static bool is_own_param(const struct ptx_func *f, const struct ptx_var *v)
{
    for (int i = 0; i < f->param_count; i++) {
        if (f->params[i] == v)
            return true;
    }
    return false;
}

/* ---- loads and stores */

static bool is_store(const struct ptx_insn *insn)
{
    return insn->op == PTX_ST;
}

static bool check_vector(struct checker *c, const struct ptx_insn *insn)
{
    int bits = ptx_type_bits(insn->types[0]) * insn->vector;
    bool has_l2 = ptx_has(insn, PTX_M_L2_EVICT_NORMAL) ||
                  ptx_has(insn, PTX_M_L2_EVICT_FIRST) ||
                  ptx_has(insn, PTX_M_L2_EVICT_LAST);
    if (bits <= 128) {
        if (has_l2)
            return rule_error(
                c, insn,
                "only 256-bit accesses (.v8.b32, .v4.b64) take "
                ".L2::evict_ here; others take a policy, .L2::cache_hint");
        return true;
    }
    if (bits > 256)
        return rule_error(c, insn, "a vector has at most 256 bits");
    enum ptx_space space = insn_space(insn);
    if (space != PTX_GLOBAL && space != PTX_GENERIC)
        return rule_error(c, insn, "a vector of more than 128 bits must be in .global");
    if (c->m->version < 88)
        return check_error(c, DIAG_OP_VERSION, insn->line, insn->col, insn->opcode, 8,
                           8, c->m->version / 10, c->m->version % 10);
    if (c->m->target && !(c->m->target->features & FEAT_SM_100))
        return check_error(c, DIAG_OP_TARGET, insn->line, insn->col, insn->opcode,
                           c->m->target->name);
    return true;
}

/* {d1, r2} would be read with two different widths. */
static bool check_one_width(struct checker *c, const struct ptx_insn *insn, int index)
{
    const struct ptx_operand *o = &insn->operands[index];
    int bits = 0;
    for (int i = 0; o->kind == PTX_OPND_VECTOR && i < o->item_count; i++) {
        if (o->items[i].kind != PTX_OPND_REG)
            continue;
        int b = ptx_type_bits(c->f->regs[o->items[i].reg].type);
        if (bits && b != bits)
            return rule_error(c, insn, "all registers of a list have one width");
        bits = b;
    }
    return true;
}

static bool check_ld_st(struct checker *c, const struct ptx_insn *insn)
{
    bool prefetches = ptx_has(insn, PTX_M_L2_64B) || ptx_has(insn, PTX_M_L2_128B) ||
                      ptx_has(insn, PTX_M_L2_256B);
    enum ptx_space space = insn_space(insn);
    if (prefetches && space != PTX_GLOBAL && space != PTX_GENERIC)
        return rule_error(c, insn, "only .global is prefetched into L2");
    if (is_store(insn) && space == PTX_PARAM && c->f->is_entry &&
        insn->operands[0].var && is_own_param(c->f, insn->operands[0].var))
        return rule_error(c, insn, "a kernel cannot write to its own parameters");
    return check_address(c, insn) && check_vector(c, insn) &&
           check_one_width(c, insn, is_store(insn) ? 1 : 0);
}

/* ---- mov: packing and unpacking */

static bool check_mov(struct checker *c, const struct ptx_insn *insn)
{
    for (int i = 0; i < 2; i++) {
        const struct ptx_operand *o = &insn->operands[i];
        if (o->kind != PTX_OPND_VECTOR)
            continue;
        int bits = ptx_type_bits(insn->types[0]), regs = 0;
        if (insn->operands[1 - i].kind != PTX_OPND_REG)
            return rule_error(c, insn, "a list goes to or comes from one register");
        if (o->item_count != 2 && o->item_count != 4)
            return rule_error(c, insn, "a list has 2 or 4 elements");
        bits /= o->item_count;
        for (int k = 0; k < o->item_count; k++) {
            const struct ptx_operand *item = &o->items[k];
            bool is_reg = item->kind == PTX_OPND_REG;
            bool ok = is_reg ? ptx_type_bits(c->f->regs[item->reg].type) == bits
                             : (item->kind == PTX_OPND_SINK && i == 0) ||
                                   (item->kind == PTX_OPND_IMM && i == 1);
            if (!ok || bits < 8)
                return check_operand_error(
                    c, insn, i,
                    arena_printf(c->d->arena, "a list {} of %d registers of %d bits",
                                 o->item_count, bits));
            regs += is_reg;
        }
        if (!regs)
            return rule_error(c, insn, "a list holds one register at least");
    }
    return true;
}

/* ---- barriers */

static bool check_bar(struct checker *c, const struct ptx_insn *insn)
{
    int id = ptx_has(insn, PTX_M_RED) ? 1 : 0;
    const struct ptx_operand *o = constant_at(insn, id);
    if (o && (o->imm < 0 || o->imm > 15))
        return value_error(c, insn, id, "barriers are numbered 0 to 15");
    return check_multiple(c, insn, id + 1, 32, "whole warps: a multiple of 32 threads");
}

static bool check_setmaxnreg(struct checker *c, const struct ptx_insn *insn)
{
    int64_t n = insn->operands[0].imm;
    return (n >= 24 && n <= 256 && n % 8 == 0) ||
           value_error(c, insn, 0, "24 to 256 in steps of 8");
}

/* ---- conversions */

/* ptxas takes .sat between integers only where it can matter. */
static bool check_cvt(struct checker *c, const struct ptx_insn *insn)
{
    static const struct {
        enum ptx_type type;
        int low_bits,
            high_bits; /* values are -2^low_bits (0: none) to 2^high_bits - 1 */
    } ranges[] = {{PTX_T_U8, 0, 8},    {PTX_T_S8, 7, 7},   {PTX_T_U16, 0, 16},
                  {PTX_T_S16, 15, 15}, {PTX_T_U32, 0, 32}, {PTX_T_S32, 31, 31},
                  {PTX_T_U64, 0, 64},  {PTX_T_S64, 63, 63}};
    int to = -1, from = -1;
    for (int i = 0; i < (int)COUNT_OF(ranges); i++) {
        if (ranges[i].type == insn->types[0])
            to = i;
        if (ranges[i].type == insn->types[1])
            from = i;
    }
    if (!ptx_has(insn, PTX_M_SAT) || to < 0 || from < 0 ||
        ranges[to].low_bits < ranges[from].low_bits ||
        ranges[to].high_bits < ranges[from].high_bits)
        return true;
    return rule_error(c, insn,
                      "ptxas takes no .sat where the result holds every value of the "
                      "source; leave it out");
}

/* ---- asynchronous copies */

static bool check_cp_async(struct checker *c, const struct ptx_insn *insn)
{
    int64_t n = insn->operands[2].imm;
    if (ptx_has(insn, PTX_M_CG))
        return n == 16 || value_error(c, insn, 2, "16 bytes with .cg");
    return n == 4 || n == 8 || n == 16 || value_error(c, insn, 2, "4, 8 or 16 bytes");
}

static int dimensions(const struct ptx_insn *insn)
{
    for (int i = 0; i < 5; i++) {
        if (ptx_has(insn, (enum ptx_mod)(PTX_M_1D + i)))
            return i + 1;
    }
    return 0;
}

static bool check_tensor(struct checker *c, const struct ptx_insn *insn)
{
    for (int i = 0; i < insn->operand_count; i++) {
        const struct ptx_operand *o = &insn->operands[i];
        if (o->kind != PTX_OPND_TENSOR)
            continue;
        bool rows =
            ptx_has(insn, PTX_M_TILE_GATHER4) || ptx_has(insn, PTX_M_TILE_SCATTER4);
        int wanted = rows ? 5 : dimensions(insn);
        if (o->item_count - 1 != wanted)
            return check_error(c, DIAG_OP_LIST, insn->line, insn->col, insn->opcode,
                               wanted, "coordinates", o->item_count - 1);
        if (o->items[0].var && o->items[0].var->space == PTX_PARAM)
            return rule_error(
                c, insn,
                "the map is found by its generic address: mov.b64 r, name; "
                "cvta.param.u64 r, r;");
    }
    return true;
}

/* Fields of a tensor map and the largest constant that each takes: an index of a
 * dimension, or a code of the PTX ISA's tables ("tensormap.replace"). */
static bool check_replace(struct checker *c, const struct ptx_insn *insn)
{
    static const struct {
        enum ptx_mod field;
        int most;
    } fields[] = {{PTX_M_BOX_DIM, 4},       {PTX_M_GLOBAL_DIM, 4},
                  {PTX_M_GLOBAL_STRIDE, 4}, {PTX_M_ELEMENT_STRIDE, 4},
                  {PTX_M_ELEMTYPE, 15},     {PTX_M_INTERLEAVE_LAYOUT, 2},
                  {PTX_M_SWIZZLE_MODE, 3},  {PTX_M_SWIZZLE_ATOMICITY, 3},
                  {PTX_M_FILL_MODE, 1}};
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct ptx_operand *o = constant_at(insn, 1);
        if (!ptx_has(insn, fields[i].field))
            continue;
        int most = fields[i].most;
        if (fields[i].field == PTX_M_SWIZZLE_MODE && c->m->target &&
            c->m->target->cc == 103 && c->m->target->suffix == 'a')
            most = 4; /* 96-byte swizzle */
        if (!o || o->imm < 0 || o->imm > most)
            return check_operand_error(
                c, insn, 1, arena_printf(c->d->arena, "a constant from 0 to %d", most));
    }
    return true;
}

static bool check_constant(struct checker *c, const struct ptx_insn *insn, int index,
                           int64_t value, const char *allowed)
{
    const struct ptx_operand *o = constant_at(insn, index);
    return !o || o->imm == value || value_error(c, insn, index, allowed);
}

/* ---- lists whose length the opcode gives */

static bool check_list(struct checker *c, const struct ptx_insn *insn, int index,
                       int wanted)
{
    int found = insn->operands[index].item_count;
    return found == wanted || check_error(c, DIAG_OP_LIST, insn->line, insn->col,
                                          insn->opcode, wanted, "registers", found);
}

static bool check_tcgen05_ld_st(struct checker *c, const struct ptx_insn *insn)
{
    int per = 1;
    if (ptx_has(insn, PTX_M_16X128B))
        per = 2;
    if (ptx_has(insn, PTX_M_16X256B))
        per = 4;
    int wanted = insn->repeat * per;
    if (wanted > 128)
        return rule_error(c, insn,
                          arena_printf(c->d->arena,
                                       "this shape goes up to .x%d, 128 registers",
                                       128 / per));
    bool load = insn->op != PTX_TCGEN05_ST;
    return check_list(c, insn, load ? 0 : insn->operand_count - 1, wanted);
}

static bool check_matrix(struct checker *c, const struct ptx_insn *insn)
{
    int wanted = insn->repeat * (ptx_has(insn, PTX_M_M16N16) ? 2 : 1);
    return check_list(c, insn, insn->op == PTX_LDMATRIX ? 0 : 1, wanted);
}

/* ---- tcgen05 */

static bool check_columns(struct checker *c, const struct ptx_insn *insn)
{
    const struct ptx_operand *o = constant_at(insn, 1);
    int64_t n = o ? o->imm : 32;
    return (n >= 32 && n <= 512 && (n & (n - 1)) == 0) ||
           value_error(c, insn, 1, "32, 64, 128, 256 or 512 columns");
}

/* Integers: 'a' targets, but not sm_103a, and no feature bit of ours says that. */
static bool check_kind_i8(struct checker *c, const struct ptx_insn *insn)
{
    const struct target *t = c->m->target;
    if (!ptx_has(insn, PTX_M_KIND_I8) || !t || (t->suffix == 'a' && t->cc != 103))
        return true;
    return check_error(
        c, DIAG_OP_TARGET, insn->line, insn->col,
        arena_printf(c->d->arena, "'.kind::i8' of %s", ptx_op_spelling(insn->op)),
        t->name);
}

static bool check_tcgen05_mma(struct checker *c, const struct ptx_insn *insn)
{
    if (!check_kind_i8(c, insn))
        return false;
    for (int i = 4; i < insn->operand_count; i++) {
        if (insn->operands[i].kind == PTX_OPND_VECTOR &&
            !check_list(c, insn, i, ptx_has(insn, PTX_M_CTA_GROUP_2) ? 8 : 4))
            return false;
    }
    /* Behind the predicate there may be scale-input-d: D is divided by 2 to this. */
    int last = insn->operand_count - 1;
    const struct ptx_operand *o = last > 4 ? constant_at(insn, last) : NULL;
    bool is_scale = o && insn->operands[last - 1].kind != PTX_OPND_VECTOR &&
                    insn->operands[last - 1].kind != PTX_OPND_ADDR;
    return !is_scale || (o->imm >= 0 && o->imm <= 15) ||
           value_error(c, insn, last, "0 to 15");
}

/* ---- calls */

static bool check_call(struct checker *c, const struct ptx_insn *insn)
{
    const struct ptx_operand *o = insn->operands;
    if (o[1].kind == PTX_OPND_REG)
        return insn->operand_count == 4 ||
               rule_error(c, insn,
                          "a call through a register names its .callprototype");
    const struct ptx_func *f = ptx_find_func(c->m, o[1].name);
    if (f && f->is_entry)
        return rule_error(c, insn, "a kernel (.entry) cannot be called");
    if (f && (o[0].item_count != f->return_count || o[2].item_count != f->param_count))
        return check_error(c, DIAG_OP_CALL, insn->line, insn->col, f->name,
                           f->return_count, f->param_count, o[0].item_count,
                           o[2].item_count);
    return true;
}

bool check_rules(struct checker *c, const struct ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_LD:
    case PTX_ST:
        return check_ld_st(c, insn);
    case PTX_LDU:
    case PTX_ATOM:
    case PTX_RED:
    case PTX_PREFETCH:
    case PTX_PREFETCHU:
    case PTX_MBARRIER_INIT:
    case PTX_MBARRIER_INVAL:
    case PTX_MBARRIER_EXPECT_TX:
    case PTX_MBARRIER_COMPLETE_TX:
    case PTX_MBARRIER_ARRIVE:
    case PTX_MBARRIER_ARRIVE_DROP:
    case PTX_MBARRIER_TEST_WAIT:
    case PTX_MBARRIER_TRY_WAIT:
        return check_address(c, insn);
    case PTX_MOV:
        return check_mov(c, insn);
    case PTX_CVT:
        return check_cvt(c, insn);
    case PTX_BAR:
    case PTX_BARRIER:
        return check_bar(c, insn);
    case PTX_SETMAXNREG:
        return check_setmaxnreg(c, insn);
    case PTX_CP_ASYNC:
        return check_cp_async(c, insn);
    case PTX_CP_ASYNC_BULK:
    case PTX_CP_REDUCE_ASYNC_BULK:
        return check_multiple(c, insn, 2, 16, "a multiple of 16 bytes");
    case PTX_CP_ASYNC_BULK_PREFETCH:
        return check_multiple(c, insn, 1, 16, "a multiple of 16 bytes");
    case PTX_CP_ASYNC_BULK_TENSOR:
    case PTX_CP_REDUCE_ASYNC_BULK_TENSOR:
    case PTX_CP_ASYNC_BULK_PREFETCH_TENSOR:
        return check_tensor(c, insn);
    case PTX_FENCE_PROXY:
        return check_constant(c, insn, 1, 128, "128 bytes, the size of a tensor map");
    case PTX_TENSORMAP_CP_FENCEPROXY:
        return check_constant(c, insn, 2, 128, "128 bytes, the size of a tensor map");
    case PTX_TENSORMAP_REPLACE:
        return check_replace(c, insn);
    case PTX_ST_BULK:
        return check_constant(c, insn, 2, 0, "0, the only value to fill with");
    case PTX_LDMATRIX:
    case PTX_STMATRIX:
        return check_matrix(c, insn);
    case PTX_TCGEN05_ALLOC:
    case PTX_TCGEN05_DEALLOC:
        return check_columns(c, insn);
    case PTX_TCGEN05_LD:
    case PTX_TCGEN05_ST:
        return check_tcgen05_ld_st(c, insn);
    case PTX_TCGEN05_MMA:
        return check_tcgen05_mma(c, insn);
    case PTX_TCGEN05_MMA_SP:
    case PTX_TCGEN05_MMA_WS:
    case PTX_TCGEN05_MMA_WS_SP:
        return check_kind_i8(c, insn);
    case PTX_CALL:
        return check_call(c, insn);
    default:
        return true;
    }
}
