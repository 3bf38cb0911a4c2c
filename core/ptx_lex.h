/* ptx_lex.h - PTX text to tokens; only the parser's own files include this.
 *
 * A dotted opcode is no token of its own: at the start of a statement the parser
 * asks for it with lex_opcode(), elsewhere `.x` is a directive token. */
#ifndef FP4GEN_PTX_LEX_H
#define FP4GEN_PTX_LEX_H

#include "core/base.h"

enum token_kind {
    TOKEN_END,       /* of the text */
    TOKEN_WORD,      /* add, %r1, $L__BB0_1, _ */
    TOKEN_DIRECTIVE, /* .reg: text without the dot */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING, /* text without the quotes */
    TOKEN_PUNCT,
    TOKEN_BAD, /* `bad` says why */
};

/* Operators of two characters; all others are their own character. */
enum {
    PUNCT_SHL = 256,
    PUNCT_SHR,
    PUNCT_LE,
    PUNCT_GE,
    PUNCT_EQ,
    PUNCT_NE,
    PUNCT_AND_AND,
    PUNCT_OR_OR,
};

struct token {
    enum token_kind kind;
    int punct;
    const char *text; /* in the lexer's text, not NUL-terminated */
    int bytes;
    uint32_t hash; /* of a word */
    int line, col;
    uint64_t value; /* INT; FLOAT: bits of the literal */
    int float_bits; /* 32 for 0f.., 64 for 0d.. and decimal ones */
    const char *bad;
};

struct lexer {
    const char *at, *end; /* *end is NUL */
    const char *line_start;
    int line;
};

/* `text` is NUL-terminated at text[bytes]. */
void lex_init(struct lexer *l, const char *text, size_t bytes);
void lex_next(struct lexer *l, struct token *t);
/* The word `t` grows over all `.part` and `::part` that touch it. */
void lex_opcode(struct lexer *l, struct token *t);
/* For directives that end with their line and carry no `;` (.loc, .file). */
void lex_skip_line(struct lexer *l);
/* From behind an opening brace to behind its match; false: the text ended. */
bool lex_skip_block(struct lexer *l);

/* FNV-1a over 32 bits, as tokens carry it. */
static inline uint32_t lex_hash(const char *s, int bytes)
{
    uint32_t h = 0x811c9dc5u;
    for (int i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)s[i]) * 0x01000193u;
    return h;
}

#endif
