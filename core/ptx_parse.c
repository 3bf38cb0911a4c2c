#include "core/ptx_parser.h"

#include <string.h>

/* ---- tokens and errors */

struct loc parse_loc(const struct parser *p, int line, int col)
{
    return (struct loc){p->m->file, line, col};
}

static const char *where(const struct parser *p)
{
    if (p->func)
        return arena_printf(p->a, "'%s', which begins at line %d", p->func->name,
                            p->func->line);
    return p->m->func_count ? "a declaration" : "its first declarations";
}

/* The end of the text where something was still open: one clear message, once. */
void parse_truncated(struct parser *p)
{
    if (p->stopped)
        return;
    p->errors++;
    p->stopped = true;
    diag_add(p->d, DIAG_PTX_CUT, parse_loc(p, p->tok.line, p->tok.col), where(p));
}

bool parse_error(struct parser *p, enum diag_code code, int line, int col, ...)
{
    if (p->stopped)
        return false;
    va_list args;
    va_start(args, col);
    diag_vadd(p->d, code, parse_loc(p, line, col), args);
    va_end(args);
    if (++p->errors >= PTX_MAX_ERRORS) {
        diag_note(p->d, loc_none(), "that was error %d; the rest is not looked at",
                  p->errors);
        p->stopped = true;
    }
    return false;
}

void parse_next(struct parser *p)
{
    lex_next(&p->lexer, &p->tok);
    if (p->tok.kind == TOKEN_PUNCT) {
        if (p->tok.punct == '{')
            p->open_braces++;
        else if (p->tok.punct == '}')
            p->open_braces--;
    }
}

static const char *token_text(const struct parser *p)
{
    const struct token *t = &p->tok;
    int bytes = t->bytes > 40 ? 40 : t->bytes;
    const char *more = t->bytes > 40 ? "..." : "";
    switch (t->kind) {
    case TOKEN_END:
        return "the end of the text";
    case TOKEN_DIRECTIVE:
        return arena_printf(p->a, "'.%.*s%s'", bytes, t->text, more);
    case TOKEN_STRING:
        return "a string";
    default:
        return arena_printf(p->a, "'%.*s%s'", bytes, t->text, more);
    }
}

bool parse_expected(struct parser *p, const char *what)
{
    const struct token *t = &p->tok;
    if (t->kind == TOKEN_END) {
        parse_truncated(p);
        return false;
    }
    if (t->kind == TOKEN_BAD) {
        bool printable = t->bytes > 0;
        for (int i = 0; i < t->bytes && i < 40; i++)
            printable = printable && t->text[i] >= ' ' && t->text[i] < 127;
        return parse_error(p, DIAG_PTX_TOKEN, t->line, t->col,
                           printable ? token_text(p) : "unprintable bytes", t->bad);
    }
    return parse_error(p, DIAG_PTX_SYNTAX, t->line, t->col, token_text(p), what);
}

bool parse_is_punct(const struct parser *p, int punct)
{
    return p->tok.kind == TOKEN_PUNCT && p->tok.punct == punct;
}

bool parse_is_directive(const struct parser *p, const char *name)
{
    size_t bytes = (size_t)p->tok.bytes;
    return p->tok.kind == TOKEN_DIRECTIVE && strncmp(p->tok.text, name, bytes) == 0 &&
           name[bytes] == '\0';
}

bool parse_accept(struct parser *p, int punct)
{
    if (!parse_is_punct(p, punct))
        return false;
    parse_next(p);
    return true;
}

bool parse_need(struct parser *p, int punct, const char *what)
{
    return parse_accept(p, punct) || parse_expected(p, what);
}

void parse_resync(struct parser *p)
{
    while (p->tok.kind != TOKEN_END) {
        if (parse_accept(p, ';'))
            return;
        /* A brace that the statement did not open closes the block around it. */
        if (parse_is_punct(p, '}') && p->open_braces < 0)
            return;
        parse_next(p);
    }
}

void *parse_grow(struct parser *p, void *list, int count, int *cap, size_t bytes)
{
    if (count < *cap)
        return list;
    *cap = *cap ? *cap * 2 : 16;
    void *grown = arena_alloc(p->a, (size_t)*cap * bytes);
    if (count)
        memcpy(grown, list, (size_t)count * bytes);
    return grown;
}

/* ---- headers */

static bool parse_version(struct parser *p)
{
    struct token t = p->tok;
    parse_next(p);
    /* "8.8" lexes as a decimal float; its text is what counts. */
    const char *s = p->tok.text;
    if (p->tok.kind != TOKEN_FLOAT || p->tok.bytes != 3 || s[1] != '.')
        return parse_expected(p, "a version such as 8.8");
    p->m->version = (s[0] - '0') * 10 + (s[2] - '0');
    p->m->version_line = t.line;
    parse_next(p);
    return true;
}

static bool parse_target(struct parser *p)
{
    parse_next(p);
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "a target such as sm_100f");
    p->m->target_name = name_of(p, &p->tok)->text;
    p->m->target = target_find(p->m->target_name);
    p->m->target_line = p->tok.line;
    p->m->target_col = p->tok.col;
    parse_next(p);
    while (parse_accept(p, ',')) { /* debug, texmode_... */
        if (p->tok.kind != TOKEN_WORD)
            return parse_expected(p, "a target option");
        parse_next(p);
    }
    return true;
}

static bool parse_address_size(struct parser *p)
{
    int line = p->tok.line, col = p->tok.col;
    int64_t bits;
    parse_next(p);
    if (!parse_integer(p, &bits))
        return false;
    if (bits != 64)
        return parse_error(p, DIAG_PTX_ADDRESS_SIZE, line, col, (long long)bits);
    return true;
}

/* `.section name { ... }`: debug information, of no use here. */
static bool skip_section(struct parser *p)
{
    parse_next(p);
    if (p->tok.kind != TOKEN_WORD && p->tok.kind != TOKEN_DIRECTIVE)
        return parse_expected(p, "the name of a section");
    parse_next(p);
    if (!parse_is_punct(p, '{'))
        return parse_expected(p, "'{'");
    int line = p->tok.line;
    p->open_braces--;
    if (!lex_skip_block(&p->lexer)) {
        if (!p->stopped) {
            p->errors++;
            p->stopped = true;
            diag_add(p->d, DIAG_PTX_CUT, parse_loc(p, line, 1),
                     "the .section that begins here");
        }
        return false;
    }
    parse_next(p);
    return true;
}

bool parse_skip_statement(struct parser *p)
{
    while (!parse_is_punct(p, ';')) {
        if (p->tok.kind == TOKEN_END || p->tok.kind == TOKEN_BAD)
            return parse_expected(p, "';'");
        parse_next(p);
    }
    parse_next(p);
    return true;
}

/* ---- functions */

static bool parse_formals(struct parser *p, struct ptx_var ***list, int *count,
                          uint32_t *bytes)
{
    int cap = 0;
    if (!parse_need(p, '(', "'('"))
        return false;
    while (!parse_is_punct(p, ')')) {
        if (*count && !parse_need(p, ',', "',' or ')' behind a parameter"))
            return false;
        struct ptx_var *v = parse_formal(p);
        if (!v)
            return false;
        if (v->space == PTX_PARAM) {
            v->offset_bytes = align_up(*bytes, v->align_bytes);
            *bytes = v->offset_bytes + v->bytes;
        }
        *list = parse_grow(p, *list, *count, &cap, sizeof **list);
        (*list)[(*count)++] = v;
    }
    parse_next(p);
    return true;
}

/* `.reqntid 192, 1, 1`: what is not written is 1. */
static bool parse_extent(struct parser *p, uint32_t extent[3])
{
    parse_next(p);
    for (int i = 0; i < 3; i++)
        extent[i] = 1;
    for (int i = 0; i < 3; i++) {
        struct token t = p->tok;
        int64_t v;
        if (!parse_integer(p, &v))
            return false;
        if (v < 1 || v > 0x7fffffff)
            return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                               "an extent is 1 to 2147483647");
        extent[i] = (uint32_t)v;
        if (!parse_accept(p, ','))
            return true;
    }
    return parse_expected(p, "at most three extents");
}

static bool parse_count(struct parser *p, uint32_t *count)
{
    parse_next(p);
    struct token t = p->tok;
    int64_t v;
    if (!parse_integer(p, &v))
        return false;
    if (v < 0 || v > 0x7fffffff)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           "a count of 0 to 2147483647 is expected here");
    *count = (uint32_t)v;
    return true;
}

/* Between a function's parameters and its body. */
static bool parse_attributes(struct parser *p, struct ptx_func *f)
{
    while (p->tok.kind == TOKEN_DIRECTIVE) {
        uint32_t unused;
        bool ok = true;
        if (parse_is_directive(p, "reqntid"))
            ok = parse_extent(p, f->reqntid);
        else if (parse_is_directive(p, "maxntid"))
            ok = parse_extent(p, f->maxntid);
        else if (parse_is_directive(p, "reqnctapercluster"))
            ok = parse_extent(p, f->reqnctapercluster);
        else if (parse_is_directive(p, "minnctapersm"))
            ok = parse_count(p, &f->minnctapersm);
        else if (parse_is_directive(p, "maxnreg"))
            ok = parse_count(p, &f->maxnreg);
        else if (parse_is_directive(p, "maxclusterrank"))
            ok = parse_count(p, &f->maxclusterrank);
        else if (parse_is_directive(p, "maxnctapersm") ||
                 parse_is_directive(p, "abi_preserve") ||
                 parse_is_directive(p, "abi_preserve_control"))
            ok = parse_count(p, &unused);
        else if (parse_is_directive(p, "explicitcluster")) {
            f->explicit_cluster = true;
            parse_next(p);
        } else if (parse_is_directive(p, "blocksareclusters")) {
            f->blocks_are_clusters = true;
            parse_next(p);
        } else if (parse_is_directive(p, "noreturn")) {
            parse_next(p);
        } else if (parse_is_directive(p, "pragma")) {
            ok = parse_skip_statement(p);
        } else {
            return parse_expected(p, "'{', ';' or a directive such as .reqntid");
        }
        if (!ok)
            return false;
    }
    return true;
}

static void add_func(struct parser *p, struct ptx_func *f)
{
    struct ptx_module *m = p->m;
    m->funcs = parse_grow(p, m->funcs, m->func_count, &p->func_cap, sizeof *m->funcs);
    m->funcs[m->func_count++] = f;
}

/* A function is declared before its parameters are read: they belong to its scope,
 * and it may be declared any number of times but has one body. */
static struct ptx_func *declare_func(struct parser *p, const struct token *t,
                                     bool is_entry)
{
    struct name *n = name_of(p, t);
    struct symbol *s = n->symbol;
    if (s && s->kind == SYMBOL_FUNC && s->func->is_entry == is_entry)
        return s->func;
    s = scope_declare(p, n, SYMBOL_FUNC, t->line, t->col);
    if (!s)
        return NULL;
    s->func = ARENA_NEW(p->a, struct ptx_func);
    s->func->name = n->text;
    s->func->is_entry = is_entry;
    add_func(p, s->func);
    return s->func;
}

static bool parse_header(struct parser *p, struct ptx_func *f, struct token *name)
{
    uint32_t return_bytes = 0;
    if (!f->is_entry && parse_is_punct(p, '(') &&
        !parse_formals(p, &f->returns, &f->return_count, &return_bytes))
        return false;
    if (p->tok.kind != TOKEN_WORD)
        return parse_expected(p, "the name of a function");
    *name = p->tok;
    f->name = name_of(p, name)->text;
    parse_next(p);
    if (parse_is_punct(p, '(') &&
        !parse_formals(p, &f->params, &f->param_count, &f->param_bytes))
        return false;
    return parse_attributes(p, f) &&
           (parse_is_punct(p, '{') || parse_is_punct(p, ';') ||
            parse_expected(p, "'{' or ';'"));
}

/* Behind a broken header its body would only confuse: over it, or over the `;`. */
static bool skip_func(struct parser *p)
{
    while (p->tok.kind != TOKEN_END && !parse_is_punct(p, '{') &&
           !parse_is_punct(p, ';'))
        parse_next(p);
    if (parse_is_punct(p, '{') && !lex_skip_block(&p->lexer))
        parse_truncated(p);
    parse_next(p);
    return true;
}

/* Its header is read in a scope of its own and then belongs to the function that the
 * module has under this name. */
static bool parse_func_rest(struct parser *p, struct ptx_func *fresh)
{
    struct scope *scope = p->scope;
    struct token name = {0};
    if (!parse_header(p, fresh, &name))
        return skip_func(p);
    p->scope = scope->outer;
    struct ptx_func *f = declare_func(p, &name, fresh->is_entry);
    p->scope = scope;
    if (!f)
        return skip_func(p);
    if (parse_accept(p, ';')) {
        if (!f->has_body)
            *f = *fresh;
        return true;
    }
    if (f->has_body) {
        parse_error(p, DIAG_PTX_TWICE, name.line, name.col, f->name);
        return skip_func(p);
    }
    *f = *fresh;
    f->has_body = true;
    p->func = f;
    return parse_body(p);
}

/* At `.entry` or `.func`. */
static bool parse_func(struct parser *p, bool is_entry)
{
    struct ptx_func fresh = {.is_entry = is_entry, .name = "", .line = p->tok.line};
    struct scope *outside = p->scope;
    p->func = &fresh;
    p->insn_cap = p->reg_cap = p->func_var_cap = 0;
    scope_open(p);
    parse_next(p);
    bool ok = parse_func_rest(p, &fresh);
    while (p->scope != outside)
        scope_close(p);
    p->func = NULL;
    return ok;
}

/* ---- the module */

static bool parse_linked(struct parser *p, enum linkage linkage)
{
    if (parse_is_directive(p, "entry"))
        return parse_func(p, true);
    if (parse_is_directive(p, "func"))
        return parse_func(p, false);
    if (parse_is_directive(p, "global") || parse_is_directive(p, "const") ||
        parse_is_directive(p, "shared") || parse_is_directive(p, "local"))
        return parse_vars(p, linkage);
    return parse_expected(p, ".entry, .func or a variable's state space");
}

static bool parse_linkage(struct parser *p, enum linkage *linkage)
{
    static const struct {
        const char *name;
        enum linkage linkage;
    } all[] = {{"visible", LINK_VISIBLE},
               {"extern", LINK_EXTERN},
               {"weak", LINK_WEAK},
               {"common", LINK_COMMON}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (parse_is_directive(p, all[i].name)) {
            *linkage = all[i].linkage;
            parse_next(p);
            return true;
        }
    }
    *linkage = LINK_NONE;
    return false;
}

static bool parse_declaration(struct parser *p)
{
    enum linkage linkage;
    if (p->tok.kind != TOKEN_DIRECTIVE)
        return parse_expected(p, "a directive such as .visible, .entry or .global");
    if (parse_linkage(p, &linkage))
        return parse_linked(p, linkage);
    if (parse_is_directive(p, "version"))
        return parse_expected(p, "a declaration: .version stands once, on top");
    if (parse_is_directive(p, "target"))
        return parse_target(p);
    if (parse_is_directive(p, "address_size"))
        return parse_address_size(p);
    if (parse_is_directive(p, "file") || parse_is_directive(p, "loc")) {
        lex_skip_line(&p->lexer);
        parse_next(p);
        return true;
    }
    if (parse_is_directive(p, "section"))
        return skip_section(p);
    if (parse_is_directive(p, "pragma") || parse_is_directive(p, "alias"))
        return parse_skip_statement(p);
    return parse_linked(p, LINK_NONE);
}

/* A module starts with .version and .target; text without them is not PTX at all, and
 * one message about that is worth more than twenty about its words. */
static bool parse_head(struct parser *p)
{
    struct token t = p->tok;
    if (!parse_is_directive(p, "version"))
        return parse_error(p, DIAG_PTX_NOT_PTX, t.line, t.col,
                           t.kind == TOKEN_END ? "is empty" : "does not start with it");
    if (!parse_version(p))
        return false;
    if (!parse_is_directive(p, "target"))
        return parse_expected(p, "'.target' behind .version");
    return parse_target(p);
}

/* Behind an error outside all functions: to what surely starts a declaration, so that
 * one brace too many does not report each line of the code behind it. */
static void resync_module(struct parser *p)
{
    static const char *const starts[] = {"visible", "extern", "weak", "entry", "func"};
    while (p->tok.kind != TOKEN_END) {
        for (size_t i = 0; i < COUNT_OF(starts); i++) {
            if (parse_is_directive(p, starts[i]))
                return;
        }
        parse_next(p);
    }
}

static void parse_module(struct parser *p)
{
    if (!parse_head(p))
        return;
    while (p->tok.kind != TOKEN_END && !p->stopped) {
        const char *at = p->tok.text;
        if (parse_declaration(p) || p->stopped)
            continue;
        if (p->tok.text == at)
            parse_next(p);
        resync_module(p);
    }
}

struct ptx_module *ptx_parse(struct arena *a, const char *file, const char *text,
                             size_t bytes, struct diags *d)
{
    struct parser p = {.a = a, .d = d, .m = ARENA_NEW(a, struct ptx_module)};
    p.m->file = file;
    /* A copy, so that the lexer may lean on the NUL behind it. */
    lex_init(&p.lexer, arena_strndup(a, text, bytes), bytes);
    scope_open(&p);
    parse_next(&p);
    parse_module(&p);
    return p.errors ? NULL : p.m;
}

const struct ptx_func *ptx_find_func(const struct ptx_module *m, const char *name)
{
    for (int i = 0; i < m->func_count; i++) {
        if (strcmp(m->funcs[i]->name, name) == 0)
            return m->funcs[i];
    }
    return NULL;
}
