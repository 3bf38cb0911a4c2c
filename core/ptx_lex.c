#include "core/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHAR_WORD = 1,  /* may stand inside a word */
    CHAR_FIRST = 2, /* may start one */
    CHAR_DIGIT = 4,
    CHAR_SPACE = 8, /* but not a newline */
};

#define W (CHAR_WORD | CHAR_FIRST)
#define D (CHAR_WORD | CHAR_DIGIT)
static const unsigned char classes[256] = {
    [' '] = CHAR_SPACE,  ['\t'] = CHAR_SPACE, ['\r'] = CHAR_SPACE, ['\v'] = CHAR_SPACE,
    ['\f'] = CHAR_SPACE, ['a'] = W,           ['b'] = W,           ['c'] = W,
    ['d'] = W,           ['e'] = W,           ['f'] = W,           ['g'] = W,
    ['h'] = W,           ['i'] = W,           ['j'] = W,           ['k'] = W,
    ['l'] = W,           ['m'] = W,           ['n'] = W,           ['o'] = W,
    ['p'] = W,           ['q'] = W,           ['r'] = W,           ['s'] = W,
    ['t'] = W,           ['u'] = W,           ['v'] = W,           ['w'] = W,
    ['x'] = W,           ['y'] = W,           ['z'] = W,           ['A'] = W,
    ['B'] = W,           ['C'] = W,           ['D'] = W,           ['E'] = W,
    ['F'] = W,           ['G'] = W,           ['H'] = W,           ['I'] = W,
    ['J'] = W,           ['K'] = W,           ['L'] = W,           ['M'] = W,
    ['N'] = W,           ['O'] = W,           ['P'] = W,           ['Q'] = W,
    ['R'] = W,           ['S'] = W,           ['T'] = W,           ['U'] = W,
    ['V'] = W,           ['W'] = W,           ['X'] = W,           ['Y'] = W,
    ['Z'] = W,           ['_'] = W,           ['$'] = W,           ['%'] = CHAR_FIRST,
    ['0'] = D,           ['1'] = D,           ['2'] = D,           ['3'] = D,
    ['4'] = D,           ['5'] = D,           ['6'] = D,           ['7'] = D,
    ['8'] = D,           ['9'] = D,
};
#undef W
#undef D

static bool is_word(char c)
{
    return classes[(unsigned char)c] & CHAR_WORD;
}

static bool is_digit(char c)
{
    return classes[(unsigned char)c] & CHAR_DIGIT;
}

void lex_init(struct lexer *l, const char *text, size_t bytes)
{
    *l = (struct lexer){.at = text, .end = text + bytes, .line_start = text, .line = 1};
}

static void newline(struct lexer *l)
{
    l->at++;
    l->line++;
    l->line_start = l->at;
}

static void begin(const struct lexer *l, struct token *t)
{
    t->text = l->at;
    t->line = l->line;
    t->col = (int)(l->at - l->line_start) + 1;
}

/* False: a comment that is never closed, and `t` is where it opens. */
static bool skip_blank(struct lexer *l, struct token *t)
{
    for (;;) {
        char c = *l->at;
        if (classes[(unsigned char)c] & CHAR_SPACE) {
            l->at++;
        } else if (c == '\n') {
            newline(l);
        } else if (c == '/' && l->at[1] == '/') {
            l->at = memchr(l->at, '\n', (size_t)(l->end - l->at));
            if (!l->at)
                l->at = l->end;
        } else if (c == '/' && l->at[1] == '*') {
            begin(l, t);
            l->at += 2;
            while (!(l->at[0] == '*' && l->at[1] == '/')) {
                if (l->at >= l->end)
                    return false;
                if (*l->at == '\n')
                    newline(l);
                else
                    l->at++;
            }
            l->at += 2;
        } else {
            return true;
        }
    }
}

static void fail(struct lexer *l, struct token *t, const char *why)
{
    t->kind = TOKEN_BAD;
    t->bad = why;
    t->bytes = (int)(l->at - t->text);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static void skip_word_rest(struct lexer *l)
{
    while (is_word(*l->at))
        l->at++;
}

/* Digits of one base, up to `max_digits` of them; false: none, or past 64 bits. */
static bool scan_digits(struct lexer *l, int base, int max_digits, uint64_t *value)
{
    uint64_t v = 0, b = (uint64_t)base;
    int digits = 0, x;
    while (digits < max_digits && (x = digit_value(*l->at)) < base) {
        if (v > (UINT64_MAX - (uint64_t)x) / b)
            return false;
        v = v * b + (uint64_t)x;
        l->at++;
        digits++;
    }
    *value = v;
    return digits > 0;
}

static void lex_hex_float(struct lexer *l, struct token *t, int digits)
{
    const char *first = l->at += 2;
    bool ok = scan_digits(l, 16, digits, &t->value);
    if (!ok || l->at - first != digits || is_word(*l->at)) {
        skip_word_rest(l);
        fail(l, t,
             digits == 8 ? "0f takes exactly 8 hexadecimal digits"
                         : "0d takes exactly 16 hexadecimal digits");
        return;
    }
    t->kind = TOKEN_FLOAT;
    t->float_bits = digits * 4;
}

static void lex_decimal_float(struct lexer *l, struct token *t)
{
    char text[64];
    const char *p = t->text;
    size_t n = 0;
    bool exponent = false;
    while (n < sizeof text - 1 &&
           (is_digit(*p) || *p == '.' || *p == 'e' || *p == 'E' ||
            (exponent && (*p == '+' || *p == '-')))) {
        exponent = *p == 'e' || *p == 'E';
        text[n++] = *p++;
    }
    text[n] = '\0';
    char *stop;
    double v = strtod(text, &stop);
    l->at = p;
    if (n == sizeof text - 1 || *stop || is_word(*p)) {
        skip_word_rest(l);
        fail(l, t, "not a number");
        return;
    }
    t->kind = TOKEN_FLOAT;
    t->float_bits = 64;
    memcpy(&t->value, &v, sizeof v);
}

static void lex_number(struct lexer *l, struct token *t)
{
    char c = l->at[0] == '0' ? l->at[1] : '\0';
    if (c == 'f' || c == 'F') {
        lex_hex_float(l, t, 8);
        return;
    }
    if (c == 'd' || c == 'D') {
        lex_hex_float(l, t, 16);
        return;
    }
    int base = 10;
    if (c == 'x' || c == 'X' || c == 'b' || c == 'B') {
        base = c == 'x' || c == 'X' ? 16 : 2;
        l->at += 2;
    } else {
        const char *p = l->at;
        while (is_digit(*p))
            p++;
        if (*p == '.' || *p == 'e' || *p == 'E') {
            lex_decimal_float(l, t);
            return;
        }
        if (l->at[0] == '0')
            base = 8;
    }
    bool ok = scan_digits(l, base, 70, &t->value);
    if (ok && (*l->at == 'U' || *l->at == 'u'))
        l->at++;
    if (!ok || is_word(*l->at)) {
        skip_word_rest(l);
        fail(l, t, "not a number of at most 64 bits");
        return;
    }
    t->kind = TOKEN_INT;
}

static void lex_string(struct lexer *l, struct token *t)
{
    const char *first = ++l->at;
    while (*l->at != '"') {
        if (*l->at == '\n' || l->at >= l->end) {
            fail(l, t, "a string must end on its line");
            return;
        }
        l->at += *l->at == '\\' && l->at[1] && l->at[1] != '\n' ? 2 : 1;
    }
    t->kind = TOKEN_STRING;
    t->text = first;
    t->bytes = (int)(l->at - first);
    l->at++;
}

static void lex_punct(struct lexer *l, struct token *t)
{
    static const struct {
        char first, second;
        int punct;
    } pairs[] = {{'<', '<', PUNCT_SHL},     {'>', '>', PUNCT_SHR},
                 {'<', '=', PUNCT_LE},      {'>', '=', PUNCT_GE},
                 {'=', '=', PUNCT_EQ},      {'!', '=', PUNCT_NE},
                 {'&', '&', PUNCT_AND_AND}, {'|', '|', PUNCT_OR_OR}};
    char c = *l->at;
    t->kind = TOKEN_PUNCT;
    t->punct = (unsigned char)c;
    l->at++;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (pairs[i].first == c && pairs[i].second == *l->at) {
            t->punct = pairs[i].punct;
            l->at++;
            break;
        }
    }
    if (c == '\0' || !strchr("{}[](),;:+-*/%<>=!&|^~?@", c))
        fail(l, t, "this character has no meaning in PTX");
}

void lex_next(struct lexer *l, struct token *t)
{
    if (!skip_blank(l, t)) {
        fail(l, t, "this comment is not closed");
        t->bytes = 2;
        return;
    }
    begin(l, t);
    const char *p = l->at;
    unsigned char class = classes[(unsigned char)*p];
    if (class & CHAR_FIRST) {
        uint32_t h = 0x811c9dc5u;
        do {
            h = (h ^ (unsigned char)*p++) * 0x01000193u;
        } while (is_word(*p));
        t->kind = TOKEN_WORD;
        t->hash = h;
        l->at = p;
        t->bytes = (int)(p - t->text);
        if (t->bytes == 1 && *t->text == '%') {
            t->kind = TOKEN_PUNCT;
            t->punct = '%';
        }
        return;
    }
    if (p >= l->end) {
        t->kind = TOKEN_END;
        t->bytes = 0;
        return;
    }
    if (class & CHAR_DIGIT || (*p == '.' && is_digit(p[1]))) {
        if (*p == '.')
            lex_decimal_float(l, t);
        else
            lex_number(l, t);
    } else if (*p == '.' && classes[(unsigned char)p[1]] & CHAR_FIRST) {
        t->text = ++p;
        while (is_word(*p) || (p[0] == ':' && p[1] == ':' && is_word(p[2])))
            p += *p == ':' ? 2 : 1;
        l->at = p;
        t->kind = TOKEN_DIRECTIVE;
    } else if (*p == '"') {
        lex_string(l, t);
        return;
    } else {
        lex_punct(l, t);
    }
    t->bytes = (int)(l->at - t->text);
}

void lex_opcode(struct lexer *l, struct token *t)
{
    const char *p = l->at;
    uint32_t h = t->hash;
    for (;;) {
        if (is_word(*p) || (*p == '.' && is_word(p[1]))) {
            h = (h ^ (unsigned char)*p++) * 0x01000193u;
        } else if (p[0] == ':' && p[1] == ':' && is_word(p[2])) {
            h = (h ^ ':') * 0x01000193u;
            h = (h ^ ':') * 0x01000193u;
            p += 2;
        } else {
            break;
        }
    }
    t->hash = h;
    t->bytes = (int)(p - t->text);
    l->at = p;
}

void lex_skip_line(struct lexer *l)
{
    const char *p = memchr(l->at, '\n', (size_t)(l->end - l->at));
    l->at = p ? p : l->end;
}

bool lex_skip_block(struct lexer *l)
{
    int depth = 1;
    struct token t;
    while (depth > 0) {
        lex_next(l, &t);
        if (t.kind == TOKEN_END || l->at >= l->end)
            return depth == 1 && t.kind == TOKEN_PUNCT && t.punct == '}';
        if (t.kind == TOKEN_PUNCT && t.punct == '{')
            depth++;
        if (t.kind == TOKEN_PUNCT && t.punct == '}')
            depth--;
    }
    return true;
}
