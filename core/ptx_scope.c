#include "core/ptx_parser.h"

#include <string.h>

static void rehash(struct parser *p)
{
    uint32_t slots = p->name_slots ? p->name_slots * 2 : 512;
    struct name **names = ARENA_ARRAY(p->a, struct name *, slots);
    for (uint32_t i = 0; i < p->name_slots; i++) {
        struct name *n = p->names[i];
        if (!n)
            continue;
        uint32_t at = n->hash & (slots - 1);
        while (names[at])
            at = (at + 1) & (slots - 1);
        names[at] = n;
    }
    p->names = names;
    p->name_slots = slots;
}

static struct name *intern(struct parser *p, const char *s, int bytes, uint32_t hash,
                           bool copy)
{
    if (p->name_count * 2 >= p->name_slots)
        rehash(p);
    uint32_t at = hash & (p->name_slots - 1);
    for (struct name *n; (n = p->names[at]); at = (at + 1) & (p->name_slots - 1)) {
        if (n->hash == hash && n->bytes == bytes &&
            memcmp(n->text, s, (size_t)bytes) == 0)
            return n;
    }
    struct name *n = ARENA_NEW(p->a, struct name);
    n->text = copy ? arena_strndup(p->a, s, (size_t)bytes) : s;
    n->bytes = bytes;
    n->hash = hash;
    p->names[at] = n;
    p->name_count++;
    return n;
}

struct name *name_of(struct parser *p, const struct token *t)
{
    return intern(p, t->text, t->bytes, t->hash, true);
}

struct name *name_make(struct parser *p, const char *s, int bytes, bool copy)
{
    return intern(p, s, bytes, lex_hash(s, bytes), copy);
}

void scope_open(struct parser *p)
{
    struct scope *s = ARENA_NEW(p->a, struct scope);
    s->outer = p->scope;
    s->line = p->tok.line;
    s->col = p->tok.col;
    p->scope = s;
    p->depth++;
}

static void settle(struct parser *p, struct label_use *u, const struct label *l)
{
    if (l->kind != u->kind) {
        static const char *const kinds[] = {
            "a place in the code", "a .branchtargets list", "a .callprototype"};
        parse_error(p, DIAG_PTX_LABEL_KIND, u->line, u->col, u->name->text,
                    kinds[l->kind], kinds[u->kind]);
        return;
    }
    u->operand->target = l->target;
    if (l->kind == LABEL_TARGETS) {
        u->operand->items = l->places;
        u->operand->item_count = l->place_count;
    }
}

/* Labels may stand behind their uses, so uses wait until their scope closes; what
 * this scope does not have is then looked for in the one around it. */
static void settle_uses(struct parser *p, struct scope *s)
{
    for (struct label_use *u = s->uses, *next; u; u = next) {
        next = u->next;
        struct label *l = u->name->label;
        if (l && l->scope == s) {
            settle(p, u, l);
        } else if (s->outer && s->outer->outer) {
            u->next = s->outer->uses;
            s->outer->uses = u;
        } else {
            parse_error(p, DIAG_PTX_NO_LABEL, u->line, u->col, u->name->text,
                        p->func ? p->func->name : "");
        }
    }
}

void scope_close(struct parser *p)
{
    struct scope *s = p->scope;
    settle_uses(p, s);
    for (struct symbol *y = s->symbols; y; y = y->next)
        y->name->symbol = y->shadowed;
    for (struct label *l = s->labels; l; l = l->next)
        l->name->label = l->shadowed;
    p->scope = s->outer;
    p->depth--;
}

static void twice(struct parser *p, const struct name *n, int line, int col, int before)
{
    parse_error(p, DIAG_PTX_TWICE, line, col, n->text);
    if (!p->stopped)
        diag_note(p->d, parse_loc(p, before, 0), "'%s' was declared here", n->text);
}

struct symbol *scope_declare(struct parser *p, struct name *n, enum symbol_kind kind,
                             int line, int col)
{
    if (n->symbol && n->symbol->scope == p->scope) {
        twice(p, n, line, col, n->symbol->line);
        return NULL;
    }
    struct symbol *s = ARENA_NEW(p->a, struct symbol);
    *s = (struct symbol){.kind = kind,
                         .name = n,
                         .next = p->scope->symbols,
                         .reg = -1,
                         .scope = p->scope,
                         .shadowed = n->symbol,
                         .line = line};
    n->symbol = s;
    p->scope->symbols = s;
    return s;
}

struct label *scope_label(struct parser *p, struct name *n, enum label_kind kind,
                          int line, int col)
{
    if (n->label && n->label->scope == p->scope) {
        twice(p, n, line, col, n->label->line);
        return NULL;
    }
    struct label *l = ARENA_NEW(p->a, struct label);
    *l = (struct label){.kind = kind,
                        .name = n,
                        .next = p->scope->labels,
                        .target = p->func->insn_count,
                        .scope = p->scope,
                        .shadowed = n->label,
                        .line = line};
    n->label = l;
    p->scope->labels = l;
    return l;
}

void scope_use_label(struct parser *p, struct name *n, enum label_kind kind,
                     struct ptx_operand *o)
{
    struct label_use *u = ARENA_NEW(p->a, struct label_use);
    *u = (struct label_use){.name = n,
                            .kind = kind,
                            .operand = o,
                            .line = o->line,
                            .col = o->col,
                            .next = p->scope->uses};
    p->scope->uses = u;
}
