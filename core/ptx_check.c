#include "core/ptx_checker.h"

#include <string.h>

#define MAX_ERRORS 20
#define NEWEST_VERSION 90 /* of .version that we know the rules of, times ten */

static const struct {
    int op; /* -1: any */
    enum ptx_mod mod;
    int isa;
    uint32_t needs;
} parts[] = {
#define PTX_ANY_OP -1
#define PTX_PART(op, mod, isa, needs) {PTX_##op, PTX_M_##mod, isa, needs},
#include "core/ptx_parts.def"
#undef PTX_PART
};

bool check_error(struct checker *c, enum diag_code code, int line, int col, ...)
{
    if (c->stopped)
        return false;
    va_list args;
    va_start(args, col);
    diag_vadd(c->d, code, (struct loc){c->m->file, line, col}, args);
    va_end(args);
    if (++c->errors >= MAX_ERRORS) {
        diag_note(c->d, loc_none(), "that was error %d; the rest is not looked at",
                  c->errors);
        c->stopped = true;
    }
    return false;
}

/* ---- targets and versions */

static void note_targets(struct checker *c, uint32_t needs)
{
    struct buf b;
    buf_init(&b, c->d->arena);
    const struct target *t;
    for (int i = 0; (t = target_at(i)); i++) {
        if ((t->features & needs) == needs)
            buf_printf(&b, "%s%s", b.bytes ? ", " : "", t->name);
    }
    if (b.bytes && !c->stopped)
        diag_note(c->d, loc_none(), "targets that have it: %s", b.data);
}

static bool has_features(const struct checker *c, uint32_t needs)
{
    return !c->m->target || (c->m->target->features & needs) == needs;
}

static bool check_version(struct checker *c, const struct ptx_insn *insn,
                          const char *what, int isa)
{
    if (c->m->version >= isa)
        return true;
    return check_error(c, DIAG_OP_VERSION, insn->line, insn->col, what, isa / 10,
                       isa % 10, c->m->version / 10, c->m->version % 10);
}

/* The family itself is reported once: a kernel for the wrong target uses it often. */
static bool check_family(struct checker *c, const struct ptx_insn *insn)
{
    const struct ptx_op_info *info = ptx_op_info(insn->op);
    bool known = has_features(c, info->needs), recent = c->m->version >= info->isa;
    if (known && recent)
        return true;
    if (c->reported[insn->op])
        return false;
    c->reported[insn->op] = true;
    if (!known) {
        check_error(c, DIAG_OP_TARGET, insn->line, insn->col, info->spelling,
                    c->m->target->name);
        note_targets(c, info->needs);
        return false;
    }
    return check_version(c, insn, info->spelling, info->isa);
}

/* `.scale_vec::4X` on sm_100f: ptxas refuses the spelling, not what it says. */
static void note_scale_vec(struct checker *c, enum ptx_mod mod)
{
    if (c->stopped)
        return;
    const char *alias = mod == PTX_M_SCALE_VEC_4X ? ".block16" : ".block32";
    if (has_features(c, FEAT_TCGEN05))
        diag_note(c->d, loc_none(),
                  "only this spelling needs an 'a' target: write %s, which means the "
                  "same and is in %s from .version 8.8 on",
                  alias, c->m->target->name);
}

/* Where in the line the part `spelling` of the opcode stands. */
static int part_col(const struct ptx_insn *insn, const char *spelling)
{
    size_t bytes = strlen(spelling);
    for (const char *s = insn->opcode; (s = strstr(s, spelling)); s++) {
        bool starts = s > insn->opcode && (s[-1] == '.' || *spelling == ':');
        if (starts && (s[bytes] == '.' || s[bytes] == '\0'))
            return insn->col + (int)(s - insn->opcode);
    }
    return insn->col;
}

static bool check_parts(struct checker *c, const struct ptx_insn *insn)
{
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (parts[i].op >= 0 && parts[i].op != (int)insn->op)
            continue;
        if (!ptx_has(insn, parts[i].mod))
            continue;
        const char *what =
            arena_printf(c->d->arena, "'.%s' of %s", ptx_mod_spelling(parts[i].mod),
                         ptx_op_spelling(insn->op));
        if (!has_features(c, parts[i].needs)) {
            int col = part_col(insn, ptx_mod_spelling(parts[i].mod));
            check_error(c, DIAG_OP_TARGET, insn->line, col, what, c->m->target->name);
            if (parts[i].needs == FEAT_SCALE_VEC)
                note_scale_vec(c, parts[i].mod);
            note_targets(c, parts[i].needs);
            return false;
        }
        if (!check_version(c, insn, what, parts[i].isa))
            return false;
    }
    return true;
}

/* ---- forms */

static const char *group_text(struct checker *c, const struct ptx_group *g)
{
    struct buf b;
    buf_init(&b, c->d->arena);
    for (int i = 0; i < g->count && i < 8; i++)
        buf_printf(&b, "%s.%s", i ? ", " : "",
                   ptx_part_spelling(c->d->arena, g->any[i]));
    if (g->count > 8)
        buf_puts(&b, ", ...");
    return b.data;
}

static bool report_misfit(struct checker *c, const struct ptx_insn *insn,
                          const struct ptx_fit *fit)
{
    const char *part;
    switch (fit->misfit) {
    case MISFIT_PART:
        part = ptx_part_spelling(c->d->arena, fit->part);
        return check_error(c, DIAG_OP_MODIFIER, insn->line, part_col(insn, part), part,
                           insn->opcode);
    case MISFIT_LACKS:
        return check_error(c, DIAG_OP_LACKS, insn->line, insn->col, insn->opcode,
                           fit->group->count > 1 ? "one of " : "",
                           group_text(c, fit->group));
    default:
        return check_error(c, DIAG_OP_TYPES, insn->line, insn->col, insn->opcode,
                           ptx_op_spelling(insn->op));
    }
}

static bool check_form(struct checker *c, const struct ptx_insn *insn,
                       const struct ptx_form *form)
{
    if (!has_features(c, form->needs)) {
        check_error(c, DIAG_OP_TARGET, insn->line, insn->col, insn->opcode,
                    c->m->target->name);
        note_targets(c, form->needs);
        return false;
    }
    return check_version(c, insn, insn->opcode, form->isa);
}

/* Of several forms that fit an opcode, the one that takes as many operands as there
 * are, and that target and version have. */
static int form_rank(const void *context, const struct ptx_insn *insn,
                     const struct ptx_form *form)
{
    const struct checker *c = context;
    int least, most;
    match_range(insn, form, &least, &most);
    bool counted = insn->operand_count >= least && insn->operand_count <= most;
    bool there = has_features(c, form->needs) && c->m->version >= form->isa;
    return counted * 2 + there;
}

static const struct ptx_form *judge(struct checker *c, const struct ptx_insn *insn)
{
    if (!check_family(c, insn))
        return NULL;
    struct ptx_fit fit = ptx_fit(insn, form_rank, c);
    if (fit.misfit != MISFIT_NONE) {
        report_misfit(c, insn, &fit);
        return NULL;
    }
    return check_form(c, insn, fit.form) && check_parts(c, insn) ? fit.form : NULL;
}

static uint32_t slot_of(const struct checker *c, const struct ptx_insn *insn)
{
    uint64_t key = (uint64_t)(uintptr_t)insn->opcode + (uint64_t)insn->operand_count;
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 40) & (c->opcode_slots - 1);
}

static void grow(struct checker *c)
{
    struct checked *old = c->opcodes;
    uint32_t slots = c->opcode_slots;
    c->opcode_slots = slots ? slots * 2 : 512;
    c->opcodes = ARENA_ARRAY(c->d->arena, struct checked, c->opcode_slots);
    for (uint32_t i = 0; i < slots; i++) {
        if (!old[i].opcode)
            continue;
        struct ptx_insn key = {.opcode = old[i].opcode,
                               .operand_count = old[i].operand_count};
        uint32_t at = slot_of(c, &key);
        while (c->opcodes[at].opcode)
            at = (at + 1) & (c->opcode_slots - 1);
        c->opcodes[at] = old[i];
    }
}

static const struct ptx_form *form_of(struct checker *c, const struct ptx_insn *insn)
{
    if (c->opcode_count * 2 >= c->opcode_slots)
        grow(c);
    uint32_t at = slot_of(c, insn);
    struct checked *e;
    for (; (e = &c->opcodes[at])->opcode; at = (at + 1) & (c->opcode_slots - 1)) {
        if (e->opcode == insn->opcode && e->operand_count == insn->operand_count)
            return e->form;
    }
    *e = (struct checked){insn->opcode, insn->operand_count, judge(c, insn)};
    c->opcode_count++;
    return e->form;
}

/* ---- functions and the module */

static void check_guard(struct checker *c, const struct ptx_insn *insn)
{
    const struct ptx_reg *r = insn->guard < 0 ? NULL : &c->f->regs[insn->guard];
    if (r && r->type != PTX_T_PRED)
        check_error(c, DIAG_OP_GUARD, insn->line, insn->col, r->name,
                    ptx_type_spelling(r->type));
}

/* All tcgen05 instructions of a kernel work in one CTA or in pairs (PTX ISA 9.0,
 * "tcgen05 ... cta_group"). */
static void check_group(struct checker *c, const struct ptx_insn *insn)
{
    bool one = ptx_has(insn, PTX_M_CTA_GROUP_1), two = ptx_has(insn, PTX_M_CTA_GROUP_2);
    if (insn->op < PTX_TCGEN05_ALLOC || insn->op > PTX_TCGEN05_FENCE || (!one && !two))
        return;
    if (!c->group) {
        c->group = insn;
    } else if (ptx_has(c->group, PTX_M_CTA_GROUP_1) != one) {
        check_error(c, DIAG_OP_GROUP, insn->line, insn->col, c->f->name, one ? 1 : 2,
                    one ? 2 : 1, c->group->line);
    }
}

static void check_insn(struct checker *c, const struct ptx_insn *insn)
{
    check_guard(c, insn);
    const struct ptx_form *form = form_of(c, insn);
    if (!form)
        return;
    check_group(c, insn);
    if (match_operands(c, insn, form))
        check_rules(c, insn);
}

static void check_extents(struct checker *c, const char *what, const uint32_t e[3],
                          uint64_t most)
{
    uint64_t product = e[0];
    for (int i = 1; i < 3 && product <= most; i++)
        product *= e[i];
    if (product > most)
        check_error(c, DIAG_PTX_EXTENT, c->f->line, 0, c->f->name, what,
                    (unsigned long long)product, (unsigned long long)most);
}

static void check_func(struct checker *c)
{
    const struct ptx_func *f = c->f;
    check_extents(c, ".reqntid", f->reqntid, 1024);
    check_extents(c, ".maxntid", f->maxntid, 1024);
    bool clusters = f->reqnctapercluster[0] || f->explicit_cluster ||
                    f->maxclusterrank || f->blocks_are_clusters;
    if (clusters && !has_features(c, FEAT_SM_90)) {
        check_error(c, DIAG_OP_TARGET, f->line, 0, "a cluster", c->m->target->name);
        note_targets(c, FEAT_SM_90);
    }
    for (int i = 0; i < f->reg_count && c->m->version < 83; i++) {
        if (f->regs[i].type == PTX_T_B128) {
            check_error(c, DIAG_OP_VERSION, f->regs[i].line, 0, "a .b128 register", 8,
                        3, c->m->version / 10, c->m->version % 10);
            break;
        }
    }
    c->group = NULL;
    for (int i = 0; i < f->insn_count && !c->stopped; i++)
        check_insn(c, &f->insns[i]);
}

static void check_target(struct checker *c)
{
    const struct ptx_module *m = c->m;
    if (m->version > NEWEST_VERSION)
        check_error(c, DIAG_PTX_VERSION_HIGH, m->version_line, 0, m->version / 10,
                    m->version % 10, NEWEST_VERSION / 10, NEWEST_VERSION % 10);
    if (!m->target) {
        check_error(c, DIAG_PTX_TARGET, m->target_line, m->target_col, m->target_name);
        note_targets(c, 0);
    } else if (m->version < m->target->ptx_version) {
        check_error(c, DIAG_PTX_VERSION_LOW, m->version_line, 0, m->target->name,
                    m->target->ptx_version / 10, m->target->ptx_version % 10,
                    m->version / 10, m->version % 10);
    }
}

bool ptx_check(const struct ptx_module *m, struct diags *d)
{
    struct checker c = {.m = m, .d = d};
    check_target(&c);
    for (int i = 0; i < m->func_count && !c.stopped; i++) {
        c.f = m->funcs[i];
        check_func(&c);
    }
    return c.errors == 0;
}
