/* ptx_parser.h - what the parser's files share; nobody else includes this.
 *
 *   ptx_parse.c    module level: versions, functions and their headers
 *   ptx_body.c     function bodies: scopes, labels, instructions
 *   ptx_operand.c  operands
 *   ptx_decl.c     .reg and variables with their initialisers
 *   ptx_expr.c     constant expressions
 *   ptx_scope.c    names, and what they mean where
 *
 * Functions that parse return false after they have reported; whoever parses a
 * statement then skips to its `;` and goes on. */
#ifndef FP4GEN_PTX_PARSER_H
#define FP4GEN_PTX_PARSER_H

#include "core/ptx.h"
#include "core/ptx_lex.h"
#include "core/ptx_names.h"

#define PTX_MAX_ERRORS 20
/* Fences against texts that would eat the machine; far above what compilers emit. */
#define PTX_MAX_REGS (1 << 20)
#define PTX_MAX_VAR_BYTES (1u << 30)
#define PTX_MAX_INIT_BYTES (1u << 26)
#define PTX_MAX_DEPTH 64

struct scope;

enum symbol_kind {
    SYMBOL_REG,
    SYMBOL_VAR,
    SYMBOL_FUNC,
};

struct symbol {
    enum symbol_kind kind;
    struct name *name;
    struct symbol *next; /* of the same scope */
    int reg;
    struct ptx_var *var;
    struct ptx_func *func;
    struct scope *scope;
    struct symbol *shadowed; /* what the name meant outside */
    int line;
};

enum label_kind {
    LABEL_PLACE,
    LABEL_TARGETS, /* name: .branchtargets a, b; */
    LABEL_PROTO,   /* name: .callprototype ... or .calltargets ... */
};

struct label {
    enum label_kind kind;
    struct name *name;
    struct label *next;         /* of the same scope */
    int target;                 /* PLACE */
    struct ptx_operand *places; /* TARGETS */
    int place_count;
    struct scope *scope;
    struct label *shadowed;
    int line;
};

/* An identifier, once per spelling; the innermost meaning is at hand. */
struct name {
    const char *text; /* NUL-terminated */
    int bytes;
    uint32_t hash;
    struct symbol *symbol;
    struct label *label;
};

/* A use of a label, settled when the scope that has the label closes. */
struct label_use {
    struct name *name;
    enum label_kind kind;
    struct ptx_operand *operand;
    int line, col;
    struct label_use *next;
};

struct scope {
    struct scope *outer;
    struct symbol *symbols; /* declared here */
    struct label *labels;
    struct label_use *uses;
    int line, col;
};

/* A distinct dotted opcode of this module. */
struct opcode_entry {
    const char *text; /* NUL-terminated, NULL: free */
    int bytes;
    uint32_t hash;
    struct ptx_opcode code;
};

struct parser {
    struct arena *a;
    struct diags *d;
    struct lexer lexer;
    struct token tok;
    struct ptx_module *m;
    int func_cap, var_cap; /* of the module's lists */

    struct name **names;
    uint32_t name_count, name_slots;
    struct opcode_entry *opcodes;
    uint32_t opcode_count, opcode_slots;

    struct scope *scope; /* innermost */
    int depth;
    struct ptx_func *func; /* whose body is parsed, else NULL */
    int insn_cap, reg_cap, func_var_cap;
    int open_braces; /* of the statement at hand: {a, b} */
    int errors;
    bool stopped; /* truncated, or too many errors */
};

/* ---- tokens and errors (ptx_parse.c) */

void parse_next(struct parser *p);
struct loc parse_loc(const struct parser *p, int line, int col);
/* False always, so that callers can return it. */
bool parse_error(struct parser *p, enum diag_code code, int line, int col, ...);
/* "found X, expected Y" at the current token. */
bool parse_expected(struct parser *p, const char *what);
bool parse_is_punct(const struct parser *p, int punct);
bool parse_is_directive(const struct parser *p, const char *name);
/* Eats the token when it is this one. */
bool parse_accept(struct parser *p, int punct);
bool parse_need(struct parser *p, int punct, const char *what);
/* Behind the `;` of a broken statement, or in front of the `}` that ends its block. */
void parse_resync(struct parser *p);
/* A list grows to hold one more of `bytes` each. */
void *parse_grow(struct parser *p, void *list, int count, int *cap, size_t bytes);

/* ---- names (ptx_scope.c) */

struct name *name_of(struct parser *p, const struct token *t);
struct name *name_make(struct parser *p, const char *s, int bytes, bool copy);
void scope_open(struct parser *p);
void scope_close(struct parser *p);
/* NULL after an error: the scope has that name already. */
struct symbol *scope_declare(struct parser *p, struct name *n, enum symbol_kind kind,
                             int line, int col);
struct label *scope_label(struct parser *p, struct name *n, enum label_kind kind,
                          int line, int col);
void scope_use_label(struct parser *p, struct name *n, enum label_kind kind,
                     struct ptx_operand *o);

/* ---- constant expressions (ptx_expr.c) */

struct constant {
    bool is_float;
    int float_bits; /* how it was written; 64 after arithmetic */
    int64_t i;
    double f;
    uint64_t bits; /* of a float literal */
};

bool parse_constant(struct parser *p, struct constant *c);
/* A whole expression that must be an integer. */
bool parse_integer(struct parser *p, int64_t *value);

/* ---- declarations (ptx_decl.c) */

bool parse_type(struct parser *p, enum ptx_type *type, int *vector);
/* At `.reg`; to behind its `;`. */
bool parse_regs(struct parser *p);
int add_reg(struct parser *p, const char *name, enum ptx_type type, int line);

enum linkage {
    LINK_NONE,
    LINK_VISIBLE,
    LINK_EXTERN,
    LINK_WEAK,
    LINK_COMMON,
};

/* At a state-space directive; to behind the `;`. */
bool parse_vars(struct parser *p, enum linkage linkage);
/* One formal parameter, at `.param` or `.reg`. */
struct ptx_var *parse_formal(struct parser *p);

/* ---- bodies (ptx_body.c, ptx_operand.c) */

/* At the `{`; to behind the matching `}`. */
bool parse_body(struct parser *p);
/* To the `;` and over it. */
bool parse_operands(struct parser *p, struct ptx_insn *insn);
/* A truncated text is told once, with what was open. */
void parse_truncated(struct parser *p);
/* Over everything to behind the `;`. */
bool parse_skip_statement(struct parser *p);

#endif
