#include "core/ptx_parser.h"

#include <string.h>

/* ---- types */

/* Registers and variables have these; .bf16 and the narrow ones exist only inside
 * opcodes and live in .b registers. */
static bool is_fundamental(enum ptx_type t)
{
    return (t >= PTX_T_PRED && t <= PTX_T_B128) || (t >= PTX_T_U8 && t <= PTX_T_F64) ||
           t == PTX_T_F16X2;
}

/* `.v4 .f32`, `.b8`: the vector is 1 when none is written. */
bool parse_type(struct parser *p, enum ptx_type *type, int *vector)
{
    *vector = 1;
    if (parse_is_directive(p, "v2") || parse_is_directive(p, "v4") ||
        parse_is_directive(p, "v8")) {
        *vector = p->tok.text[1] - '0';
        parse_next(p);
    }
    if (p->tok.kind == TOKEN_DIRECTIVE) {
        *type = ptx_find_type(p->tok.text, p->tok.bytes);
        if (*type && is_fundamental(*type)) {
            parse_next(p);
            return true;
        }
    }
    return parse_expected(p, "a type such as .b32 or .f32");
}

static bool parse_align(struct parser *p, uint32_t *align)
{
    if (!parse_is_directive(p, "align"))
        return true;
    parse_next(p);
    struct token t = p->tok;
    int64_t v;
    if (!parse_integer(p, &v))
        return false;
    if (v < 1 || v > 1 << 20 || (v & (v - 1)) != 0)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           "an alignment is a power of two");
    *align = (uint32_t)v;
    return true;
}

/* ---- registers */

int add_reg(struct parser *p, const char *name, enum ptx_type type, int line)
{
    struct ptx_func *f = p->func;
    f->regs = parse_grow(p, f->regs, f->reg_count, &p->reg_cap, sizeof *f->regs);
    f->regs[f->reg_count] = (struct ptx_reg){name, type, line};
    return f->reg_count++;
}

static bool declare_reg(struct parser *p, struct name *n, enum ptx_type type, int line,
                        int col)
{
    if (p->func->reg_count >= PTX_MAX_REGS)
        return parse_error(p, DIAG_PTX_TOO_LARGE, line, col, n->text, PTX_MAX_REGS,
                           "registers in one function");
    struct symbol *s = scope_declare(p, n, SYMBOL_REG, line, col);
    if (!s)
        return false;
    s->reg = add_reg(p, n->text, type, line);
    return true;
}

/* `%r<5>` declares %r0 to %r4. */
static bool declare_range(struct parser *p, const struct token *t, enum ptx_type type)
{
    int64_t count;
    parse_next(p);
    struct token number = p->tok;
    if (p->tok.kind != TOKEN_INT)
        return parse_expected(p, "the number of registers");
    count = (int64_t)number.value;
    parse_next(p);
    if (!parse_need(p, '>', "'>'"))
        return false;
    if (count < 0 || count > PTX_MAX_REGS)
        return parse_error(p, DIAG_PTX_TOO_LARGE, number.line, number.col,
                           name_of(p, t)->text, PTX_MAX_REGS,
                           "registers in one function");
    size_t each = (size_t)t->bytes + 8;
    char *names = arena_alloc(p->a, (size_t)count * each);
    for (int64_t i = 0; i < count; i++, names += each) {
        char digits[8];
        int n = 0, bytes = t->bytes;
        for (int64_t v = i; v || n == 0; v /= 10)
            digits[n++] = (char)('0' + v % 10);
        memcpy(names, t->text, (size_t)t->bytes);
        while (n)
            names[bytes++] = digits[--n];
        if (!declare_reg(p, name_make(p, names, bytes, false), type, t->line, t->col))
            return false;
    }
    return true;
}

bool parse_regs(struct parser *p)
{
    enum ptx_type type = PTX_NO_TYPE;
    int vector = 1;
    parse_next(p);
    struct token at = p->tok;
    if (!parse_type(p, &type, &vector))
        return false;
    if (vector > 1)
        return parse_error(p, DIAG_PTX_NO_VECTORS, at.line, at.col);
    do {
        struct token t = p->tok;
        if (t.kind != TOKEN_WORD)
            return parse_expected(p, "the name of a register");
        if (ptx_find_sreg(t.text, t.bytes) >= 0)
            return parse_error(p, DIAG_PTX_SREG_NAME, t.line, t.col,
                               name_of(p, &t)->text);
        parse_next(p);
        bool ok = parse_is_punct(p, '<')
                      ? declare_range(p, &t, type)
                      : declare_reg(p, name_of(p, &t), type, t.line, t.col);
        if (!ok)
            return false;
    } while (parse_accept(p, ','));
    return parse_need(p, ';', "',' or ';'");
}

/* ---- initialisers */

#define MAX_DIMS 4

struct init {
    struct ptx_var *var;
    struct buf bytes;
    uint64_t dims[MAX_DIMS]; /* 0: counted from the initialiser (first one only) */
    uint32_t strides[MAX_DIMS];
    int dim_count, reloc_cap;
    uint32_t element_bytes;
};

static bool store(struct parser *p, struct init *in, uint64_t at, uint64_t bits,
                  const struct token *t)
{
    static const char zeros[256];
    uint64_t end = at + in->element_bytes;
    if (end > PTX_MAX_INIT_BYTES)
        return parse_error(p, DIAG_PTX_TOO_LARGE, t->line, t->col, in->var->name,
                           (int)PTX_MAX_INIT_BYTES, "initialised bytes");
    while (in->bytes.bytes < end) {
        uint64_t more = end - in->bytes.bytes;
        buf_add(&in->bytes, zeros, more < sizeof zeros ? (size_t)more : sizeof zeros);
    }
    for (uint32_t i = 0; i < in->element_bytes && i < 8; i++)
        in->bytes.data[at + i] = (char)(bits >> (8 * i) & 0xff);
    return true;
}

/* name, name + 4, generic(name + 4): the address of something. */
static bool parse_address_init(struct parser *p, struct init *in, uint64_t at)
{
    struct token t = p->tok;
    struct ptx_reloc r = {.offset_bytes = (uint32_t)at, .bytes = in->element_bytes};
    r.generic = t.bytes == 7 && memcmp(t.text, "generic", 7) == 0;
    if (r.generic) {
        parse_next(p);
        if (!parse_need(p, '(', "'(' behind generic"))
            return false;
        t = p->tok;
        if (t.kind != TOKEN_WORD)
            return parse_expected(p, "the name of a variable");
    }
    struct symbol *s = name_of(p, &t)->symbol;
    if (!s || s->kind == SYMBOL_REG)
        return parse_error(p, DIAG_PTX_UNDECLARED, t.line, t.col, name_of(p, &t)->text);
    parse_next(p);
    if (s->kind == SYMBOL_VAR)
        r.var = s->var;
    else
        r.func = s->func->name;
    if (parse_accept(p, '+') && !parse_integer(p, &r.addend))
        return false;
    if (r.generic && !parse_need(p, ')', "')'"))
        return false;
    if (in->element_bytes != 8 && in->element_bytes != 4)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           "an address needs an element of 4 or 8 bytes");
    struct ptx_var *v = in->var;
    v->relocs =
        parse_grow(p, v->relocs, v->reloc_count, &in->reloc_cap, sizeof *v->relocs);
    v->relocs[v->reloc_count++] = r;
    return store(p, in, at, 0, &t);
}

static bool parse_element(struct parser *p, struct init *in, uint64_t at)
{
    struct token t = p->tok;
    if (t.kind == TOKEN_WORD && !(t.bytes == 7 && memcmp(t.text, "WARP_SZ", 7) == 0))
        return parse_address_init(p, in, at);
    struct constant c;
    if (!parse_constant(p, &c))
        return false;
    enum ptx_type type = in->var->type;
    bool is_float = type == PTX_T_F32 || type == PTX_T_F64;
    if (c.is_float != is_float)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           is_float ? "a floating-point literal is expected here"
                                    : "an integer is expected here");
    uint64_t bits = (uint64_t)c.i;
    if (type == PTX_T_F64) {
        memcpy(&bits, &c.f, sizeof bits);
    } else if (type == PTX_T_F32) {
        float f = (float)c.f;
        uint32_t low;
        memcpy(&low, &f, sizeof low);
        bits = c.float_bits == 32 ? c.bits : low;
    }
    return store(p, in, at, bits, &t);
}

static bool parse_init_list(struct parser *p, struct init *in, int dim, uint64_t at)
{
    if (dim == in->dim_count)
        return parse_element(p, in, at);
    if (!parse_need(p, '{', "'{' of an initialiser"))
        return false;
    uint64_t n = 0;
    while (!parse_is_punct(p, '}')) {
        if (n && !parse_need(p, ',', "',' or '}' in an initialiser"))
            return false;
        if (parse_is_punct(p, '}'))
            break;
        if (in->dims[dim] && n == in->dims[dim])
            return parse_error(p, DIAG_PTX_INIT_OVER, p->tok.line, p->tok.col,
                               in->var->name, (unsigned long long)in->dims[dim]);
        if (!parse_init_list(p, in, dim + 1, at + n * in->strides[dim]))
            return false;
        n++;
    }
    parse_next(p);
    if (dim == 0 && !in->dims[0])
        in->dims[0] = n;
    return true;
}

/* ---- variables */

/* `[4][8]` behind a name, and the vector as a last dimension. */
static bool parse_dims(struct parser *p, struct init *in, int vector)
{
    struct ptx_var *v = in->var;
    while (parse_accept(p, '[')) {
        struct token t = p->tok;
        int64_t n = 0;
        if (in->dim_count == MAX_DIMS - 1)
            return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                               "an array has at most three dimensions here");
        if (in->dim_count > 0 || !parse_is_punct(p, ']')) {
            if (!parse_integer(p, &n))
                return false;
            if (n < 1)
                return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                                   "a dimension is at least 1");
            if (n > PTX_MAX_VAR_BYTES)
                return parse_error(p, DIAG_PTX_TOO_LARGE, t.line, t.col, v->name,
                                   (int)PTX_MAX_VAR_BYTES, "bytes in one variable");
        }
        in->dims[in->dim_count++] = (uint64_t)n;
        if (!parse_need(p, ']', "']'"))
            return false;
    }
    if (vector > 1)
        in->dims[in->dim_count++] = (uint64_t)vector;
    uint64_t bytes = in->element_bytes;
    for (int i = in->dim_count - 1; i >= 0; i--) {
        in->strides[i] = (uint32_t)bytes;
        bytes *= in->dims[i];
        if (bytes > PTX_MAX_VAR_BYTES)
            return parse_error(p, DIAG_PTX_TOO_LARGE, v->line, 0, v->name,
                               (int)PTX_MAX_VAR_BYTES, "bytes in one variable");
    }
    v->bytes = (uint32_t)bytes;
    return true;
}

static bool parse_initialiser(struct parser *p, struct init *in)
{
    struct ptx_var *v = in->var;
    bool counted = in->dim_count && !in->dims[0];
    if (!parse_is_punct(p, '='))
        return true;
    if (v->space != PTX_GLOBAL && v->space != PTX_CONST)
        return parse_expected(p, "';': only .global and .const have initialisers");
    parse_next(p);
    buf_init(&in->bytes, p->a);
    if (!parse_init_list(p, in, 0, 0))
        return false;
    uint64_t bytes = counted ? in->dims[0] * in->strides[0] : v->bytes;
    if (bytes > PTX_MAX_INIT_BYTES)
        return parse_error(p, DIAG_PTX_TOO_LARGE, v->line, 0, v->name,
                           (int)PTX_MAX_INIT_BYTES, "initialised bytes");
    v->bytes = (uint32_t)bytes;
    uint8_t *init = arena_alloc(p->a, v->bytes ? v->bytes : 1);
    if (in->bytes.bytes)
        memcpy(init, in->bytes.data, in->bytes.bytes);
    v->init = init;
    return true;
}

static const struct {
    const char *name;
    enum ptx_space space;
} spaces[] = {{"global", PTX_GLOBAL}, {"shared", PTX_SHARED}, {"local", PTX_LOCAL},
              {"const", PTX_CONST},   {"param", PTX_PARAM},   {"reg", PTX_REG}};

static bool parse_space(struct parser *p, enum ptx_space *space)
{
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        if (parse_is_directive(p, spaces[i].name)) {
            *space = spaces[i].space;
            parse_next(p);
            return true;
        }
    }
    return parse_expected(p, "a state space such as .shared");
}

/* .attribute(.managed), .attribute(.unified(1, 2)) */
static bool skip_attribute(struct parser *p)
{
    if (!parse_is_directive(p, "attribute"))
        return true;
    parse_next(p);
    int depth = 0;
    do {
        if (p->tok.kind == TOKEN_END || p->tok.kind == TOKEN_BAD ||
            parse_is_punct(p, ';'))
            return parse_expected(p, "')' of .attribute");
        depth += parse_is_punct(p, '(') - parse_is_punct(p, ')');
        parse_next(p);
    } while (depth > 0);
    return true;
}

static void add_var(struct parser *p, struct ptx_var *v)
{
    if (p->func) {
        struct ptx_func *f = p->func;
        f->vars =
            parse_grow(p, f->vars, f->var_count, &p->func_var_cap, sizeof *f->vars);
        f->vars[f->var_count++] = v;
    } else {
        struct ptx_module *m = p->m;
        m->vars = parse_grow(p, m->vars, m->var_count, &p->var_cap, sizeof *m->vars);
        m->vars[m->var_count++] = v;
    }
}

static uint32_t natural_bytes(enum ptx_type type)
{
    return (uint32_t)ptx_type_bits(type) / 8;
}

static struct ptx_var *new_var(struct parser *p, struct name *n, enum ptx_space space,
                               enum ptx_type type, int line)
{
    struct ptx_var *v = ARENA_NEW(p->a, struct ptx_var);
    v->name = n->text;
    v->space = space;
    v->type = type;
    v->line = line;
    v->reg = -1;
    return v;
}

/* A name may be declared .extern any number of times beside its definition. */
static bool parse_again(struct parser *p, struct init *in, struct ptx_var *old)
{
    if (!parse_initialiser(p, in))
        return false;
    if (!in->var->is_extern)
        *old = *in->var;
    return true;
}

static bool parse_declarator(struct parser *p, const struct ptx_var *like, int vector,
                             enum linkage linkage)
{
    struct token t = p->tok;
    if (t.kind != TOKEN_WORD)
        return parse_expected(p, "the name of a variable");
    struct name *n = name_of(p, &t);
    parse_next(p);
    struct init in = {.element_bytes = natural_bytes(like->type)};
    struct ptx_var *v = in.var = new_var(p, n, like->space, like->type, t.line);
    v->align_bytes =
        like->align_bytes ? like->align_bytes : in.element_bytes * (uint32_t)vector;
    v->is_extern = linkage == LINK_EXTERN;
    v->is_visible =
        linkage == LINK_VISIBLE || linkage == LINK_WEAK || linkage == LINK_COMMON;
    if (!parse_dims(p, &in, vector))
        return false;
    struct symbol *before = n->symbol;
    if (before && before->scope == p->scope && before->kind == SYMBOL_VAR &&
        before->var->space == v->space && (v->is_extern || before->var->is_extern))
        return parse_again(p, &in, before->var);
    /* Declared before its initialiser is read, which may point at it. */
    struct symbol *s = scope_declare(p, n, SYMBOL_VAR, t.line, t.col);
    if (!s)
        return false;
    s->var = v;
    if (!parse_initialiser(p, &in))
        return false;
    if (!v->bytes && !v->is_extern)
        return parse_error(p, DIAG_PTX_NO_SIZE, t.line, t.col, v->name);
    add_var(p, v);
    return true;
}

bool parse_vars(struct parser *p, enum linkage linkage)
{
    struct ptx_var like = {0};
    int vector;
    if (!parse_space(p, &like.space) || !skip_attribute(p) ||
        !parse_align(p, &like.align_bytes))
        return false;
    struct token t = p->tok;
    if (!parse_type(p, &like.type, &vector))
        return false;
    if (like.type == PTX_T_PRED)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           "predicates live in registers only");
    do {
        if (!parse_declarator(p, &like, vector, linkage))
            return false;
    } while (parse_accept(p, ','));
    return parse_need(p, ';', "'=', ',' or ';'");
}

/* ---- formal parameters */

/* .ptr .global .align 16: what a pointer parameter points at, a promise to compilers.
 */
static bool skip_ptr(struct parser *p)
{
    uint32_t align;
    if (!parse_is_directive(p, "ptr"))
        return true;
    parse_next(p);
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        if (parse_is_directive(p, spaces[i].name)) {
            parse_next(p);
            break;
        }
    }
    return parse_align(p, &align);
}

struct ptx_var *parse_formal(struct parser *p)
{
    struct ptx_var like = {0};
    int vector;
    struct token at = p->tok;
    if (!parse_is_directive(p, "param") && !parse_is_directive(p, "reg")) {
        parse_expected(p, "'.param' or ')'");
        return NULL;
    }
    if (!parse_space(p, &like.space) || !parse_align(p, &like.align_bytes))
        return NULL;
    struct token t = p->tok;
    if (!parse_type(p, &like.type, &vector) || !skip_ptr(p))
        return NULL;
    if (like.space == PTX_PARAM && like.type == PTX_T_PRED) {
        parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                    "predicates live in registers only");
        return NULL;
    }
    if (p->tok.kind != TOKEN_WORD) {
        parse_expected(p, "the name of a parameter");
        return NULL;
    }
    t = p->tok;
    struct name *n = name_of(p, &t);
    parse_next(p);
    struct init in = {.element_bytes = natural_bytes(like.type)};
    struct ptx_var *v = in.var = new_var(p, n, like.space, like.type, t.line);
    if (like.space == PTX_REG) {
        v->reg = add_reg(p, n->text, like.type, t.line);
    } else {
        v->align_bytes =
            like.align_bytes ? like.align_bytes : in.element_bytes * (uint32_t)vector;
        if (!parse_dims(p, &in, vector))
            return NULL;
    }
    if (n->bytes == 1 && *n->text == '_') /* in prototypes: a parameter without name */
        return v;
    bool is_reg = like.space == PTX_REG;
    struct symbol *s =
        scope_declare(p, n, is_reg ? SYMBOL_REG : SYMBOL_VAR, at.line, t.col);
    if (!s)
        return NULL;
    s->reg = v->reg;
    s->var = v;
    return v;
}
