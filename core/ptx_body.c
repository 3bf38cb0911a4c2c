#include "core/ptx_parser.h"

#include <string.h>

/* ---- opcodes: a kernel of thousands of instructions has some hundred of them */

static void rehash(struct parser *p)
{
    uint32_t slots = p->opcode_slots ? p->opcode_slots * 2 : 256;
    struct opcode_entry *opcodes = ARENA_ARRAY(p->a, struct opcode_entry, slots);
    for (uint32_t i = 0; i < p->opcode_slots; i++) {
        const struct opcode_entry *e = &p->opcodes[i];
        if (!e->text)
            continue;
        uint32_t at = e->hash & (slots - 1);
        while (opcodes[at].text)
            at = (at + 1) & (slots - 1);
        opcodes[at] = *e;
    }
    p->opcodes = opcodes;
    p->opcode_slots = slots;
}

static bool read_opcode(struct parser *p, const struct token *t,
                        struct opcode_entry *free_entry)
{
    const char *part = NULL;
    int part_bytes = 0;
    char *text = arena_strndup(p->a, t->text, (size_t)t->bytes);
    struct ptx_opcode code;
    switch (ptx_opcode_read(text, t->bytes, &code, &part, &part_bytes)) {
    case PTX_OPCODE_OK:
        break;
    case PTX_OPCODE_UNKNOWN:
        return parse_error(p, DIAG_PTX_UNKNOWN_OP, t->line, t->col, text);
    case PTX_OPCODE_PART:
        return parse_error(p, DIAG_PTX_UNKNOWN_PART, t->line,
                           t->col + (int)(part - text), part_bytes, part, text);
    case PTX_OPCODE_LONG:
        return parse_error(p, DIAG_PTX_LONG_OPCODE, t->line, t->col, text);
    }
    *free_entry = (struct opcode_entry){text, t->bytes, t->hash, code};
    p->opcode_count++;
    return true;
}

static const struct opcode_entry *find_opcode(struct parser *p, const struct token *t)
{
    if (p->opcode_count * 2 >= p->opcode_slots)
        rehash(p);
    uint32_t at = t->hash & (p->opcode_slots - 1);
    struct opcode_entry *e;
    for (; (e = &p->opcodes[at])->text; at = (at + 1) & (p->opcode_slots - 1)) {
        if (e->hash == t->hash && e->bytes == t->bytes &&
            memcmp(e->text, t->text, (size_t)t->bytes) == 0)
            return e;
    }
    return read_opcode(p, t, e) ? e : NULL;
}

/* ---- statements */

/* `ld.global .u32`: blanks may part an opcode, and then it comes in pieces. */
static void join_opcode(struct parser *p, struct token *t)
{
    while (p->tok.kind == TOKEN_DIRECTIVE) {
        t->text = arena_printf(p->a, "%.*s.%.*s", t->bytes, t->text, p->tok.bytes,
                               p->tok.text);
        t->bytes += 1 + p->tok.bytes;
        t->hash = lex_hash(t->text, t->bytes);
        parse_next(p);
    }
}

/* At the first word of an opcode. */
static bool parse_insn(struct parser *p, int guard, bool guard_negated)
{
    struct token t = p->tok;
    lex_opcode(&p->lexer, &t);
    parse_next(p);
    if (p->tok.kind == TOKEN_DIRECTIVE)
        join_opcode(p, &t);
    const struct opcode_entry *e = find_opcode(p, &t);
    if (!e)
        return false;
    struct ptx_insn insn = {.op = e->code.op,
                            .type_count = e->code.type_count,
                            .mod_count = e->code.mod_count,
                            .vector = e->code.vector,
                            .repeat = e->code.repeat,
                            .guard = guard,
                            .guard_negated = guard_negated,
                            .line = t.line,
                            .col = t.col,
                            .opcode = e->text};
    memcpy(insn.types, e->code.types, sizeof insn.types);
    memcpy(insn.mods, e->code.mods, sizeof insn.mods);
    if (!parse_operands(p, &insn))
        return false;
    struct ptx_func *f = p->func;
    f->insns = parse_grow(p, f->insns, f->insn_count, &p->insn_cap, sizeof *f->insns);
    f->insns[f->insn_count++] = insn;
    return true;
}

/* At `@`. */
static bool parse_guarded(struct parser *p)
{
    parse_next(p);
    bool negated = parse_accept(p, '!');
    struct token t = p->tok;
    if (t.kind != TOKEN_WORD)
        return parse_expected(p, "a predicate behind '@'");
    const struct name *n = name_of(p, &t);
    if (!n->symbol || n->symbol->kind != SYMBOL_REG)
        return parse_error(p, DIAG_PTX_UNDECLARED, t.line, t.col, n->text);
    int guard = n->symbol->reg;
    parse_next(p);
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "an instruction behind the predicate");
    return parse_insn(p, guard, negated);
}

/* name: .branchtargets a, b; */
static bool parse_targets(struct parser *p, struct label *l)
{
    int cap = 0;
    parse_next(p);
    do {
        if (p->tok.kind != TOKEN_WORD)
            return parse_expected(p, "a label");
        l->places = parse_grow(p, l->places, l->place_count, &cap, sizeof *l->places);
        l->places[l->place_count++] =
            (struct ptx_operand){.kind = PTX_OPND_LABEL,
                                 .reg = -1,
                                 .target = -1,
                                 .name = name_of(p, &p->tok)->text,
                                 .line = p->tok.line,
                                 .col = p->tok.col};
        parse_next(p);
    } while (parse_accept(p, ','));
    /* Only now does the list stay where it is. */
    for (int i = 0; i < l->place_count; i++) {
        struct ptx_operand *o = &l->places[i];
        struct name *n = name_make(p, o->name, (int)strlen(o->name), false);
        scope_use_label(p, n, LABEL_PLACE, o);
    }
    return parse_need(p, ';', "',' or ';'");
}

/* At a word that a colon follows. */
static bool parse_labelled(struct parser *p)
{
    struct token t = p->tok;
    enum label_kind kind = LABEL_PLACE;
    parse_next(p);
    parse_next(p);
    if (parse_is_directive(p, "branchtargets"))
        kind = LABEL_TARGETS;
    else if (parse_is_directive(p, "callprototype") ||
             parse_is_directive(p, "calltargets"))
        kind = LABEL_PROTO;
    struct label *l = scope_label(p, name_of(p, &t), kind, t.line, t.col);
    if (kind == LABEL_PLACE)
        return true; /* after an error too: the statement is over */
    if (!l)
        return false;
    return kind == LABEL_TARGETS ? parse_targets(p, l) : parse_skip_statement(p);
}

static bool is_label(const struct parser *p)
{
    const char *s = p->lexer.at;
    while (*s == ' ' || *s == '\t')
        s++;
    return *s == ':' && s[1] != ':';
}

static bool parse_body_directive(struct parser *p)
{
    if (parse_is_directive(p, "reg"))
        return parse_regs(p);
    if (parse_is_directive(p, "shared") || parse_is_directive(p, "local") ||
        parse_is_directive(p, "param") || parse_is_directive(p, "global") ||
        parse_is_directive(p, "const"))
        return parse_vars(p, LINK_NONE);
    if (parse_is_directive(p, "loc") || parse_is_directive(p, "file")) {
        lex_skip_line(&p->lexer);
        parse_next(p);
        return true;
    }
    if (parse_is_directive(p, "pragma"))
        return parse_skip_statement(p);
    return parse_expected(p, "a statement: an instruction, a label, .reg, a variable");
}

static bool parse_statement(struct parser *p)
{
    if (p->tok.kind == TOKEN_WORD)
        return is_label(p) ? parse_labelled(p) : parse_insn(p, -1, false);
    if (p->tok.kind == TOKEN_DIRECTIVE)
        return parse_body_directive(p);
    if (parse_is_punct(p, '@'))
        return parse_guarded(p);
    return parse_expected(p, "a statement: an instruction, a label, .reg, a variable");
}

bool parse_body(struct parser *p)
{
    const struct scope *outside = p->scope;
    while (!p->stopped) {
        if (p->tok.kind == TOKEN_END) {
            parse_truncated(p);
        } else if (parse_is_punct(p, '{')) {
            scope_open(p);
            parse_next(p);
        } else if (parse_is_punct(p, '}')) {
            scope_close(p);
            parse_next(p);
            if (p->scope == outside)
                return true;
        } else {
            const char *at = p->tok.text;
            p->open_braces = 0;
            if (parse_statement(p) || p->stopped)
                continue;
            if (p->tok.text == at && !parse_is_punct(p, ';'))
                parse_next(p);
            parse_resync(p);
        }
    }
    return false;
}
