#include "core/ptx_parser.h"

#include <string.h>

#define MAX_OPERANDS 16
#define MAX_ITEMS 128

static struct ptx_operand blank(enum ptx_operand_kind kind, const struct token *at)
{
    return (struct ptx_operand){
        .kind = kind, .reg = -1, .line = at->line, .col = at->col};
}

/* ---- immediates */

static bool is_float_type(int t)
{
    return (t >= PTX_T_F16 && t <= PTX_T_F32X2) || t == PTX_T_F64;
}

/* A float literal takes the width of the instruction's last floating-point type, or of
 * its last type at all: setp.gt.u32.f64 compares doubles, mov.b64 has 64 bits. */
static bool is_double(const struct ptx_insn *insn)
{
    if (insn->op == PTX_CREATEPOLICY) /* .b64 is the policy; the fraction is a float */
        return false;
    for (int i = insn->type_count - 1; i >= 0; i--) {
        if (is_float_type(insn->types[i]))
            return insn->types[i] == PTX_T_F64;
    }
    return insn->type_count && ptx_type_bits(insn->types[insn->type_count - 1]) == 64;
}

/* mov.b64 takes a double as it is written, and nothing else. */
static bool is_bits64(const struct ptx_insn *insn)
{
    return insn->op == PTX_MOV && insn->type_count == 1 && insn->types[0] == PTX_T_B64;
}

static int64_t float_bits(const struct ptx_insn *insn, const struct constant *c)
{
    if (is_double(insn)) {
        int64_t bits;
        memcpy(&bits, &c->f, sizeof bits);
        return bits;
    }
    if (c->float_bits == 32)
        return (int64_t)c->bits;
    float f = (float)c->f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (int64_t)bits;
}

static bool parse_immediate(struct parser *p, const struct ptx_insn *insn,
                            struct ptx_operand *o)
{
    struct constant c;
    *o = blank(PTX_OPND_IMM, &p->tok);
    if (!parse_constant(p, &c))
        return false;
    o->is_float = c.is_float;
    o->imm = c.is_float ? float_bits(insn, &c) : c.i;
    if (c.is_float && c.float_bits == 32 && is_bits64(insn))
        return parse_error(p, DIAG_PTX_CONSTANT, o->line, o->col,
                           "a 64-bit type takes 0d and 16 digits");
    return true;
}

/* ---- names */

/* %tid.x is two tokens when it comes from the lexer; `t` is the first of them. */
static bool parse_sreg(struct parser *p, const struct token *t, struct ptx_operand *o)
{
    int bytes = t->bytes;
    if (p->tok.kind == TOKEN_DIRECTIVE && p->tok.text == t->text + t->bytes + 1) {
        bytes += 1 + p->tok.bytes;
        parse_next(p);
    }
    int sreg = ptx_find_sreg(t->text, bytes);
    if (sreg < 0)
        return parse_error(p, DIAG_PTX_UNDECLARED, t->line, t->col,
                           arena_strndup(p->a, t->text, (size_t)bytes));
    *o = blank(PTX_OPND_SREG, t);
    o->sreg = sreg;
    o->name = name_make(p, t->text, bytes, true)->text;
    return true;
}

static bool is_text(const struct token *t, const char *text)
{
    return strncmp(t->text, text, (size_t)t->bytes) == 0 && text[t->bytes] == '\0';
}

/* A register, a variable with an offset, a function, a special register, or `_`. */
static bool parse_word(struct parser *p, struct ptx_operand *o)
{
    struct token t = p->tok;
    struct name *n = name_of(p, &t);
    const struct symbol *s = n->symbol;
    *o = blank(PTX_OPND_SINK, &t);
    parse_next(p);
    if (!s) {
        if (is_text(&t, "_")) {
            o->name = n->text;
            return true;
        }
        return parse_sreg(p, &t, o);
    }
    switch (s->kind) {
    case SYMBOL_REG:
        *o = blank(PTX_OPND_REG, &t);
        o->reg = s->reg;
        break;
    case SYMBOL_VAR:
        *o = blank(PTX_OPND_VAR, &t);
        o->var = s->var;
        o->name = n->text;
        return !parse_accept(p, '+') || parse_integer(p, &o->imm);
    case SYMBOL_FUNC:
        *o = blank(PTX_OPND_FUNC, &t);
        break;
    }
    o->name = n->text;
    return true;
}

/* !p, or the constant !0. */
static bool parse_negated(struct parser *p, const struct ptx_insn *insn,
                          struct ptx_operand *o)
{
    struct token t = p->tok;
    parse_next(p);
    if (p->tok.kind != TOKEN_WORD) {
        if (!parse_immediate(p, insn, o))
            return false;
        o->imm = !o->imm;
    } else {
        if (!parse_word(p, o))
            return false;
        o->negated = true;
    }
    o->line = t.line;
    o->col = t.col;
    return true;
}

/* ---- braces and brackets */

static bool parse_item(struct parser *p, const struct ptx_insn *insn,
                       struct ptx_operand *o)
{
    if (p->tok.kind == TOKEN_WORD)
        return parse_word(p, o);
    if (parse_is_punct(p, '{') || parse_is_punct(p, '['))
        return parse_expected(p, "a register or a constant");
    return parse_immediate(p, insn, o);
}

/* The items up to `close`, behind whatever stands in `items` already. */
static bool parse_items(struct parser *p, const struct ptx_insn *insn, int close,
                        const char *what, struct ptx_operand *items, int *count)
{
    for (int first = *count; !parse_is_punct(p, close);) {
        if (*count > first && !parse_need(p, ',', what))
            return false;
        if (*count == MAX_ITEMS)
            return parse_error(p, DIAG_PTX_TOO_LARGE, p->tok.line, p->tok.col,
                               "the list", MAX_ITEMS, "elements");
        if (!parse_item(p, insn, &items[*count]))
            return false;
        ++*count;
    }
    parse_next(p);
    return true;
}

static void keep_items(struct parser *p, struct ptx_operand *o,
                       const struct ptx_operand *items, int count)
{
    o->items = ARENA_ARRAY(p->a, struct ptx_operand, count ? (size_t)count : 1);
    memcpy(o->items, items, (size_t)count * sizeof *items);
    o->item_count = count;
}

/* At the opening brace or parenthesis. */
static bool parse_vector(struct parser *p, const struct ptx_insn *insn, int close,
                         struct ptx_operand *o)
{
    struct ptx_operand items[MAX_ITEMS];
    int count = 0;
    *o = blank(PTX_OPND_VECTOR, &p->tok);
    parse_next(p);
    if (!parse_items(p, insn, close, close == '}' ? "',' or '}'" : "',' or ')'", items,
                     &count))
        return false;
    /* A list of one is the register itself; Triton writes all its scalars so. */
    bool is_scalar = insn->op == PTX_LD || insn->op == PTX_ST || insn->op == PTX_MOV;
    if (is_scalar && count == 1 && close == '}' && insn->vector == 1)
        *o = items[0];
    else
        keep_items(p, o, items, count);
    return true;
}

static bool parse_offset(struct parser *p, int64_t *imm)
{
    struct token t = p->tok;
    if (parse_is_punct(p, '-'))
        return parse_error(p, DIAG_PTX_MINUS, t.line, t.col);
    return !parse_accept(p, '+') || parse_integer(p, imm);
}

/* At `[`. */
static bool parse_address(struct parser *p, const struct ptx_insn *insn,
                          struct ptx_operand *o)
{
    struct token t = p->tok;
    struct ptx_operand base = {0};
    parse_next(p);
    if (p->tok.kind == TOKEN_WORD ? !parse_word(p, &base)
                                  : !parse_immediate(p, insn, &base))
        return false;
    bool is_base = base.kind == PTX_OPND_REG || base.kind == PTX_OPND_VAR ||
                   (base.kind == PTX_OPND_IMM && !base.is_float);
    if (!is_base)
        return parse_error(p, DIAG_PTX_ADDRESS, base.line, base.col,
                           base.name ? base.name : "a floating-point literal");
    if (base.kind == PTX_OPND_REG && !parse_offset(p, &base.imm))
        return false;
    if (parse_accept(p, ',')) {
        struct ptx_operand items[MAX_ITEMS];
        int count = 1;
        items[0] = base;
        *o = blank(PTX_OPND_TENSOR, &t);
        if (!parse_need(p, '{', "'{' of the coordinates") ||
            !parse_items(p, insn, '}', "',' or '}'", items, &count))
            return false;
        keep_items(p, o, items, count);
    } else {
        *o = base;
        o->kind = PTX_OPND_ADDR;
        o->line = t.line;
        o->col = t.col;
    }
    return parse_need(p, ']', "']'");
}

/* ---- one operand */

static bool parse_pair(struct parser *p, struct ptx_operand *o)
{
    struct ptx_operand items[2] = {*o};
    parse_next(p);
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "a register behind '|'");
    if (!parse_word(p, &items[1]))
        return false;
    *o = (struct ptx_operand){
        .kind = PTX_OPND_PAIR, .reg = -1, .line = items[0].line, .col = items[0].col};
    keep_items(p, o, items, 2);
    return true;
}

static bool parse_operand(struct parser *p, const struct ptx_insn *insn,
                          struct ptx_operand *o)
{
    if (p->tok.kind == TOKEN_WORD) {
        if (!parse_word(p, o))
            return false;
        bool first = o->kind == PTX_OPND_REG || o->kind == PTX_OPND_SINK;
        return !first || !parse_is_punct(p, '|') || parse_pair(p, o);
    }
    if (parse_is_punct(p, '['))
        return parse_address(p, insn, o);
    if (parse_is_punct(p, '{'))
        return parse_vector(p, insn, '}', o);
    if (parse_is_punct(p, '!'))
        return parse_negated(p, insn, o);
    if (p->tok.kind == TOKEN_INT || p->tok.kind == TOKEN_FLOAT ||
        parse_is_punct(p, '-') || parse_is_punct(p, '+') || parse_is_punct(p, '~') ||
        parse_is_punct(p, '('))
        return parse_immediate(p, insn, o);
    return parse_expected(p, "an operand");
}

static bool parse_label(struct parser *p, struct ptx_operand *o)
{
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "a label");
    *o = blank(PTX_OPND_LABEL, &p->tok);
    o->target = -1;
    o->name = name_of(p, &p->tok)->text;
    parse_next(p);
    return true;
}

/* ---- whole lists */

static void keep(struct parser *p, struct ptx_insn *insn,
                 const struct ptx_operand *operands, int count)
{
    insn->operand_count = count;
    if (!count)
        return;
    insn->operands = ARENA_ARRAY(p->a, struct ptx_operand, (size_t)count);
    memcpy(insn->operands, operands, (size_t)count * sizeof *operands);
}

static void use_label(struct parser *p, struct ptx_operand *o, enum label_kind kind)
{
    struct name *n = name_make(p, o->name, (int)strlen(o->name), false);
    scope_use_label(p, n, kind, o);
}

static bool parse_branch(struct parser *p, struct ptx_insn *insn)
{
    struct ptx_operand o[2];
    int count = 0;
    if (insn->op == PTX_BRX_IDX) {
        if (!parse_operand(p, insn, &o[count++]) ||
            !parse_need(p, ',', "',' behind the index"))
            return false;
    }
    if (!parse_label(p, &o[count++]))
        return false;
    keep(p, insn, o, count);
    struct ptx_operand *label = &insn->operands[count - 1];
    if (insn->op == PTX_BRX_IDX) {
        label->kind = PTX_OPND_VECTOR;
        use_label(p, label, LABEL_TARGETS);
    } else {
        use_label(p, label, LABEL_PLACE);
    }
    return parse_need(p, ';', "';'");
}

static bool parse_call(struct parser *p, struct ptx_insn *insn)
{
    struct ptx_operand o[4];
    int count = 3;
    o[0] = blank(PTX_OPND_VECTOR, &p->tok);
    if (parse_is_punct(p, '(') && (!parse_vector(p, insn, ')', &o[0]) ||
                                   !parse_need(p, ',', "',' behind the results")))
        return false;
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "the name of a function");
    if (!parse_word(p, &o[1]))
        return false;
    if (o[1].kind != PTX_OPND_FUNC && o[1].kind != PTX_OPND_REG)
        return parse_error(p, DIAG_PTX_CALLEE, o[1].line, o[1].col, o[1].name);
    o[2] = blank(PTX_OPND_VECTOR, &p->tok);
    bool more = parse_accept(p, ',');
    if (more && parse_is_punct(p, '(')) {
        if (!parse_vector(p, insn, ')', &o[2]))
            return false;
        more = parse_accept(p, ',');
    }
    if (more && !parse_label(p, &o[count++]))
        return false;
    keep(p, insn, o, count);
    if (more)
        use_label(p, &insn->operands[3], LABEL_PROTO);
    return parse_need(p, ';', "';'");
}

bool parse_operands(struct parser *p, struct ptx_insn *insn)
{
    struct ptx_operand operands[MAX_OPERANDS];
    int count = 0;
    if (insn->op == PTX_BRA || insn->op == PTX_BRX_IDX)
        return parse_branch(p, insn);
    if (insn->op == PTX_CALL)
        return parse_call(p, insn);
    while (!parse_is_punct(p, ';')) {
        if (count && !parse_need(p, ',', "',' or ';'"))
            return false;
        if (count == MAX_OPERANDS)
            return parse_expected(p, "';': no instruction has so many operands");
        if (!parse_operand(p, insn, &operands[count]))
            return false;
        count++;
    }
    keep(p, insn, operands, count);
    parse_next(p);
    return true;
}
