/* Operands against the column `operands` of ptx_ops.def, which explains the letters. */
#include "core/ptx_checker.h"

#include "core/ptx_names.h"

/* ---- types */

static bool is_int(enum ptx_type t)
{
    return t >= PTX_T_U8 && t <= PTX_T_S64;
}

static bool is_bits(enum ptx_type t)
{
    return t >= PTX_T_B8 && t <= PTX_T_B128;
}

/* These have registers of their own; all other formats live in .b registers only. */
static bool is_float(enum ptx_type t)
{
    return t == PTX_T_F16 || t == PTX_T_F16X2 || t == PTX_T_F32 || t == PTX_T_F64;
}

bool ptx_type_agrees(enum ptx_type want, enum ptx_type type, bool wider)
{
    if (want == PTX_T_PRED || type == PTX_T_PRED)
        return want == type;
    int want_bits = ptx_type_bits(want), bits = ptx_type_bits(type);
    if (wider ? bits < want_bits : bits != want_bits)
        return false;
    if (is_bits(type) || is_bits(want))
        return true;
    if (is_int(want))
        return is_int(type);
    return want == type;
}

static bool constant_agrees(enum ptx_type want, const struct ptx_operand *o)
{
    if (want == PTX_T_F32 || want == PTX_T_F64)
        return o->is_float;
    if (o->is_float)
        return want == PTX_T_B32 || want == PTX_T_B64;
    return is_int(want) || is_bits(want) || want == PTX_T_PRED;
}

static enum ptx_type widened(enum ptx_type t)
{
    switch (t) {
    case PTX_T_U16:
        return PTX_T_U32;
    case PTX_T_S16:
        return PTX_T_S32;
    case PTX_T_U32:
        return PTX_T_U64;
    case PTX_T_S32:
        return PTX_T_S64;
    default:
        return t;
    }
}

static enum ptx_type type_of(const struct ptx_insn *insn,
                             const struct ptx_spec_alt *alt)
{
    enum ptx_type t = alt->type;
    bool written =
        alt->kind == 'd' || alt->kind == 'e' || alt->kind == 'D' || alt->kind == 'E';
    if (!t && insn->type_count) {
        int at = written ? 0 : insn->type_count - 1;
        if (alt->position)
            at = alt->position - 1;
        t = insn->types[at < insn->type_count ? at : 0];
    }
    if (!t)
        t = PTX_T_B32;
    return alt->wide ? widened(t) : t;
}

/* ---- one operand */

struct place {
    const struct checker *c;
    const struct ptx_insn *insn;
    const struct ptx_spec_alt *alt;
    enum ptx_type type;
    int index;
};

static enum ptx_type reg_type(const struct place *p, const struct ptx_operand *o)
{
    return p->c->f->regs[o->reg].type;
}

static bool is_reg(const struct place *p, const struct ptx_operand *o,
                   enum ptx_type type, bool wider)
{
    return o->kind == PTX_OPND_REG && !o->negated &&
           ptx_type_agrees(type, reg_type(p, o), wider);
}

static bool is_pred(const struct place *p, const struct ptx_operand *o)
{
    return o->kind == PTX_OPND_REG && reg_type(p, o) == PTX_T_PRED;
}

static bool is_constant(const struct ptx_operand *o, enum ptx_type type)
{
    return o->kind == PTX_OPND_IMM && constant_agrees(type, o);
}

/* A register, or {registers} when the opcode has .v2 to .v8. */
static bool fits_written(const struct place *p, const struct ptx_operand *o, bool sink)
{
    if (p->insn->vector == 1)
        return is_reg(p, o, p->type, p->alt->wider) ||
               (sink && o->kind == PTX_OPND_SINK);
    if (o->kind != PTX_OPND_VECTOR || o->item_count != p->insn->vector)
        return false;
    int regs = 0;
    for (int i = 0; i < o->item_count; i++) {
        if (o->items[i].kind == PTX_OPND_SINK)
            continue;
        if (!is_reg(p, &o->items[i], p->type, p->alt->wider))
            return false;
        regs++;
    }
    return regs > 0;
}

static bool fits_read(const struct place *p, const struct ptx_operand *o,
                      bool constants)
{
    bool wider = p->alt->wider;
    if (p->insn->vector == 1)
        return is_reg(p, o, p->type, wider) || (constants && is_constant(o, p->type));
    /* Policies and offsets beside a vector are single all the same. */
    if (p->alt->type)
        return is_reg(p, o, p->type, wider) || is_constant(o, p->type);
    if (o->kind != PTX_OPND_VECTOR || o->item_count != p->insn->vector)
        return false;
    for (int i = 0; i < o->item_count; i++) {
        if (!is_reg(p, &o->items[i], p->type, wider) &&
            !is_constant(&o->items[i], p->type))
            return false;
    }
    return true;
}

static bool fits_list(const struct place *p, const struct ptx_operand *o, bool sinks)
{
    if (o->kind != PTX_OPND_VECTOR)
        return false;
    int regs = 0;
    for (int i = 0; i < o->item_count; i++) {
        const struct ptx_operand *item = &o->items[i];
        bool reg = is_reg(p, item, p->type, p->alt->wider);
        bool ok = reg || (sinks && item->kind == PTX_OPND_SINK) ||
                  (p->index > 0 && is_constant(item, p->type));
        if (!ok)
            return false;
        regs += reg;
    }
    return regs > 0;
}

static bool fits_pair(const struct place *p, const struct ptx_operand *o)
{
    if (o->kind != PTX_OPND_PAIR)
        return false;
    const struct ptx_operand *a = &o->items[0], *b = &o->items[1];
    return (is_reg(p, a, p->type, false) || a->kind == PTX_OPND_SINK) &&
           (is_pred(p, b) || b->kind == PTX_OPND_SINK);
}

static bool fits_address(const struct place *p, const struct ptx_operand *o)
{
    if (o->kind != PTX_OPND_ADDR)
        return false;
    if (p->alt->type) /* tensor memory: 32-bit registers only */
        return o->reg >= 0 && ptx_type_agrees(p->alt->type, reg_type(p, o), false) &&
               !is_float(reg_type(p, o));
    if (o->reg < 0)
        return o->var || ptx_has(p->insn, PTX_M_LOCAL);
    enum ptx_type t = reg_type(p, o);
    int bits = ptx_type_bits(t);
    return (is_int(t) || is_bits(t)) && (bits == 32 || bits == 64);
}

static bool fits_tensor(const struct place *p, const struct ptx_operand *o)
{
    if (o->kind != PTX_OPND_TENSOR)
        return false;
    const struct ptx_operand *map = &o->items[0];
    if (map->kind == PTX_OPND_REG ? !is_reg(p, map, PTX_T_U64, false)
                                  : map->kind != PTX_OPND_VAR)
        return false;
    for (int i = 1; i < o->item_count; i++) {
        if (!is_reg(p, &o->items[i], PTX_T_S32, false) &&
            !is_constant(&o->items[i], PTX_T_S32))
            return false;
    }
    return true;
}

static bool fits_mov_source(const struct place *p, const struct ptx_operand *o)
{
    enum ptx_type sreg;
    switch (o->kind) {
    case PTX_OPND_REG:
        return p->type == PTX_T_PRED ? is_pred(p, o) : is_reg(p, o, p->type, false);
    case PTX_OPND_IMM:
        return constant_agrees(p->type, o);
    case PTX_OPND_SREG:
        sreg = ptx_sreg_type(o->sreg);
        return !is_float(p->type) &&
               (ptx_type_agrees(p->type, sreg, false) ||
                (ptx_type_bits(p->type) == 16 && ptx_type_bits(sreg) == 32));
    case PTX_OPND_VAR:
    case PTX_OPND_FUNC:
        return is_int(p->type) || is_bits(p->type);
    case PTX_OPND_VECTOR: /* its elements are for ptx_rule.c */
        return is_bits(p->type);
    default:
        return false;
    }
}

static bool alt_fits(const struct place *p, const struct ptx_operand *o)
{
    switch (p->alt->kind) {
    case 'd':
        return fits_written(p, o, false);
    case 'e':
        return fits_written(p, o, true);
    case 'D':
        return fits_written(p, o, true) || fits_pair(p, o);
    case 'E':
        return fits_pair(p, o);
    case 'r':
        return fits_read(p, o, true);
    case 'R':
        return fits_read(p, o, false);
    case 'q':
        return is_pred(p, o) && !o->negated;
    case 'Q':
        if (o->kind == PTX_OPND_PAIR)
            return (is_pred(p, &o->items[0]) || o->items[0].kind == PTX_OPND_SINK) &&
                   (is_pred(p, &o->items[1]) || o->items[1].kind == PTX_OPND_SINK);
        return is_pred(p, o) && !o->negated;
    case 'p':
        return is_pred(p, o);
    case 'P':
        return is_pred(p, o) || is_constant(o, PTX_T_PRED);
    case 'i':
        return o->kind == PTX_OPND_IMM && !o->is_float;
    case 'a':
        return fits_address(p, o);
    case 't':
        return fits_tensor(p, o);
    case 'l':
        return o->kind == PTX_OPND_LABEL;
    case 'v':
        return fits_list(p, o, false);
    case 'V':
        return fits_list(p, o, true);
    case '_':
        return o->kind == PTX_OPND_SINK;
    case 'z':
        return o->kind == PTX_OPND_VAR || is_reg(p, o, p->type, false);
    case 'm':
        return is_reg(p, o, p->type, false) ||
               (o->kind == PTX_OPND_VECTOR && is_bits(p->type));
    case 'n':
        return fits_mov_source(p, o);
    default: /* x* */
        return true;
    }
}

static bool fits(const struct checker *c, const struct ptx_insn *insn,
                 const struct ptx_spec *spec, int index)
{
    for (int i = 0; i < spec->alt_count; i++) {
        const struct ptx_spec_alt *alt = &spec->alts[i];
        struct place p = {c, insn, alt, type_of(insn, alt), index};
        if (alt_fits(&p, &insn->operands[index]))
            return true;
    }
    return false;
}

/* ---- saying what is wrong */

static const char *alt_text(struct arena *a, const struct ptx_insn *insn,
                            const struct ptx_spec_alt *alt)
{
    const char *type = ptx_type_spelling(type_of(insn, alt));
    const char *wider = alt->wider ? " or wider" : "";
    bool vector = insn->vector > 1 && !alt->type;
    switch (alt->kind) {
    case 'd':
    case 'e':
    case 'D':
    case 'm':
        if (vector)
            return arena_printf(a, "a list {} of %d .%s registers", insn->vector, type);
        return arena_printf(a, "a .%s register%s%s", type, wider,
                            alt->kind == 'e' ? " or '_'" : "");
    case 'E':
        return arena_printf(a, "a pair of a .%s register (or '_') and a predicate, r|p",
                            type);
    case 'r':
    case 'n':
        if (vector)
            return arena_printf(a, "a list {} of %d .%s registers or constants",
                                insn->vector, type);
        return arena_printf(a, "a .%s register%s or constant", type, wider);
    case 'R':
        return arena_printf(a, "a .%s register (no constant)", type);
    case 'q':
        return "a predicate register";
    case 'Q':
        return "a predicate register or a pair p|q";
    case 'p':
        return "a predicate";
    case 'P':
        return "a predicate, or a constant for true or false";
    case 'i':
        return "an integer constant";
    case 'a':
        return alt->type ? "an address in a 32-bit register, [r]" : "an address, [r]";
    case 't':
        return "[map, {x, y}]: a 64-bit address and 32-bit integer coordinates";
    case 'l':
        return "a label";
    case 'v':
    case 'V':
        return arena_printf(a, "a list {} of .%s registers", type);
    case '_':
        return "the sink '_'";
    case 'z':
        return arena_printf(a, "a .%s register or a variable", type);
    default:
        return "something else";
    }
}

/* Which of its parts is the wrong one: the map, or a coordinate. */
static const char *tensor_text(const struct checker *c, const struct ptx_operand *o)
{
    for (int i = 0; i < o->item_count; i++) {
        const struct ptx_operand *item = &o->items[i];
        if (item->kind != PTX_OPND_REG)
            continue;
        enum ptx_type type = c->f->regs[item->reg].type;
        if (!ptx_type_agrees(i ? PTX_T_S32 : PTX_T_U64, type, false))
            return arena_printf(c->d->arena, "a tensor with the .%s register %s as %s",
                                ptx_type_spelling(type), item->name,
                                i ? "a coordinate" : "its map");
    }
    return "a tensor map with coordinates";
}

static const char *operand_text(const struct checker *c, const struct ptx_operand *o)
{
    struct arena *a = c->d->arena;
    switch (o->kind) {
    case PTX_OPND_REG:
        return arena_printf(a, "the .%s register %s%s",
                            ptx_type_spelling(c->f->regs[o->reg].type),
                            o->negated ? "!" : "", o->name);
    case PTX_OPND_SREG:
        return arena_printf(a, "the special register %s (only mov reads those)",
                            o->name);
    case PTX_OPND_IMM:
        if (o->is_float)
            return "a floating-point constant";
        return arena_printf(a, "the constant %lld", (long long)o->imm);
    case PTX_OPND_VAR:
        return arena_printf(a, "the variable %s (mov takes its address)", o->name);
    case PTX_OPND_ADDR:
        if (o->reg >= 0)
            return arena_printf(a, "[.%s register %s]",
                                ptx_type_spelling(c->f->regs[o->reg].type), o->name);
        return o->name ? arena_printf(a, "[%s]", o->name)
                       : "a constant address (only .local has those)";
    case PTX_OPND_VECTOR:
        for (int i = 0; i < o->item_count; i++) {
            const struct ptx_operand *item = &o->items[i];
            if (item->kind == PTX_OPND_REG)
                return arena_printf(
                    a, "a list {} of %d, among them the .%s register %s", o->item_count,
                    ptx_type_spelling(c->f->regs[item->reg].type), item->name);
        }
        return arena_printf(a, "a list {} of %d", o->item_count);
    case PTX_OPND_TENSOR:
        return tensor_text(c, o);
    case PTX_OPND_PAIR:
        return "a pair a|b";
    case PTX_OPND_LABEL:
        return arena_printf(a, "the label %s", o->name);
    case PTX_OPND_FUNC:
        return arena_printf(a, "the function %s", o->name);
    case PTX_OPND_SINK:
        return "the sink '_'";
    }
    return "";
}

bool check_operand_error(struct checker *c, const struct ptx_insn *insn, int index,
                         const char *expected)
{
    const struct ptx_operand *o = &insn->operands[index];
    return check_error(c, DIAG_OP_OPERAND, o->line, o->col, index + 1, insn->opcode,
                       operand_text(c, o), expected);
}

static bool spec_error(struct checker *c, const struct ptx_insn *insn,
                       const struct ptx_spec *spec, int index)
{
    struct arena *a = c->d->arena;
    const char *expected = alt_text(a, insn, &spec->alts[0]);
    for (int i = 1; i < spec->alt_count; i++)
        expected =
            arena_printf(a, "%s, or %s", expected, alt_text(a, insn, &spec->alts[i]));
    return check_operand_error(c, insn, index, expected);
}

/* ---- whole lists */

static bool applies(const struct ptx_insn *insn, const struct ptx_spec *spec)
{
    for (int i = 0; i < spec->when_count; i++) {
        if (ptx_has(insn, (enum ptx_mod)spec->when[i]))
            return true;
    }
    return spec->when_count == 0;
}

void match_range(const struct ptx_insn *insn, const struct ptx_form *form, int *least,
                 int *most)
{
    *least = *most = 0;
    for (int i = 0; i < form->spec_count; i++) {
        const struct ptx_spec *spec = &form->specs[i];
        if (spec->alts[0].kind == 'x') {
            *most += 100;
        } else if (applies(insn, spec)) {
            *least += !spec->optional;
            *most += 1;
        }
    }
}

static bool count_error(struct checker *c, const struct ptx_insn *insn,
                        const struct ptx_form *form)
{
    int least, most;
    match_range(insn, form, &least, &most);
    const char *range =
        least == most
            ? arena_printf(c->d->arena, "%d operand%s", least, least == 1 ? "" : "s")
            : arena_printf(c->d->arena, "%d to %d operands", least, most);
    check_error(c, DIAG_OP_COUNT, insn->line, insn->col, insn->opcode, range,
                insn->operand_count);
    if (c->stopped)
        return false;
    for (int i = 0; i < form->spec_count; i++) {
        const struct ptx_spec *spec = &form->specs[i];
        if (spec->when_count && applies(insn, spec) && insn->operand_count < most)
            diag_note(c->d, loc_none(), "'.%s' brings an operand of its own: %s",
                      ptx_mod_spelling((enum ptx_mod)spec->when[0]),
                      alt_text(c->d->arena, insn, &spec->alts[0]));
        if (spec->when_count && !applies(insn, spec) && insn->operand_count > most)
            diag_note(c->d, loc_none(), "one more is allowed with '.%s'",
                      ptx_mod_spelling((enum ptx_mod)spec->when[0]));
    }
    return false;
}

bool match_operands(struct checker *c, const struct ptx_insn *insn,
                    const struct ptx_form *form)
{
    int at = 0, count = insn->operand_count, least, most;
    match_range(insn, form, &least, &most);
    if (count < least || count > most)
        return count_error(c, insn, form);
    int spare = count - least; /* optional ones that are there */
    for (int i = 0; i < form->spec_count; i++) {
        const struct ptx_spec *spec = &form->specs[i];
        if (spec->alts[0].kind == 'x')
            return true;
        if (!applies(insn, spec))
            continue;
        if (spec->optional) {
            if (spare > 0 && fits(c, insn, spec, at)) {
                at++;
                spare--;
            }
        } else if (!fits(c, insn, spec, at)) {
            return spec_error(c, insn, spec, at);
        } else {
            at++;
        }
    }
    if (at == count)
        return true;
    /* An optional operand that is there and fits none of its places. */
    for (int i = form->spec_count - 1; i >= 0; i--) {
        if (form->specs[i].optional && applies(insn, &form->specs[i]))
            return spec_error(c, insn, &form->specs[i], at);
    }
    return count_error(c, insn, form);
}
