/* Constant expressions, PTX ISA 9.0 "Constant Expressions": C's operators on 64-bit
 * integers, and + - * / on floating-point literals. */
#include "core/ptx_parser.h"

#include <string.h>

static bool expression(struct parser *p, int least, struct constant *c, int depth);

static double float_value(uint64_t bits, int float_bits)
{
    if (float_bits == 32) {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        return (double)f;
    }
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static struct constant integer(int64_t i)
{
    return (struct constant){.i = i};
}

static struct constant real(double f)
{
    struct constant c = {.is_float = true, .float_bits = 64, .f = f};
    memcpy(&c.bits, &f, sizeof f);
    return c;
}

static struct constant negate(struct constant c)
{
    if (!c.is_float)
        return integer((int64_t)(0 - (uint64_t)c.i));
    c.f = -c.f;
    c.bits ^= 1ull << (c.float_bits - 1);
    return c;
}

static bool unary(struct parser *p, struct constant *c, int depth)
{
    struct token t = p->tok;
    *c = (struct constant){0};
    if (depth > PTX_MAX_DEPTH)
        return parse_error(p, DIAG_PTX_DEPTH, t.line, t.col);
    if (t.kind == TOKEN_INT) {
        *c = integer((int64_t)t.value);
        parse_next(p);
        return true;
    }
    if (t.kind == TOKEN_FLOAT) {
        *c = (struct constant){.is_float = true,
                               .float_bits = t.float_bits,
                               .f = float_value(t.value, t.float_bits),
                               .bits = t.value};
        parse_next(p);
        return true;
    }
    if (t.kind == TOKEN_WORD && t.bytes == 7 && memcmp(t.text, "WARP_SZ", 7) == 0) {
        *c = integer(32);
        parse_next(p);
        return true;
    }
    if (parse_accept(p, '(')) {
        /* The casts that the language has; both leave the 64 bits alone. */
        if (parse_is_directive(p, "s64") || parse_is_directive(p, "u64")) {
            parse_next(p);
            return parse_need(p, ')', "')' behind the cast") && unary(p, c, depth + 1);
        }
        return expression(p, 0, c, depth + 1) && parse_need(p, ')', "')'");
    }
    if (parse_accept(p, '+'))
        return unary(p, c, depth + 1);
    if (parse_accept(p, '-')) {
        if (p->tok.kind == TOKEN_FLOAT && p->tok.bytes > 1 && p->tok.text[0] == '0' &&
            strchr("fFdD", p->tok.text[1]))
            return parse_expected(p, "no '-' before it: its bits hold the sign");
        if (!unary(p, c, depth + 1))
            return false;
        *c = negate(*c);
        return true;
    }
    if (parse_is_punct(p, '!') || parse_is_punct(p, '~')) {
        parse_next(p);
        if (!unary(p, c, depth + 1))
            return false;
        if (c->is_float)
            return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                               "! and ~ take integers");
        *c = integer(t.punct == '!' ? !c->i : ~c->i);
        return true;
    }
    return parse_expected(p, "a constant");
}

/* Of binary operators; higher binds tighter, 0: not one.  The conditional is 1. */
static int precedence(const struct token *t)
{
    if (t->kind != TOKEN_PUNCT)
        return 0;
    switch (t->punct) {
    case '?':
        return 1;
    case PUNCT_OR_OR:
        return 2;
    case PUNCT_AND_AND:
        return 3;
    case '|':
        return 4;
    case '^':
        return 5;
    case '&':
        return 6;
    case PUNCT_EQ:
    case PUNCT_NE:
        return 7;
    case '<':
    case '>':
    case PUNCT_LE:
    case PUNCT_GE:
        return 8;
    case PUNCT_SHL:
    case PUNCT_SHR:
        return 9;
    case '+':
    case '-':
        return 10;
    case '*':
    case '/':
    case '%':
        return 11;
    default:
        return 0;
    }
}

static bool real_op(int op, double a, double b, struct constant *c)
{
    switch (op) {
    case '+':
        *c = real(a + b);
        return true;
    case '-':
        *c = real(a - b);
        return true;
    case '*':
        *c = real(a * b);
        return true;
    case '/':
        if (b == 0)
            return false;
        *c = real(a / b);
        return true;
    default:
        return false;
    }
}

static bool integer_op(int op, int64_t a, int64_t b, int64_t *r)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case '+':
        *r = (int64_t)(ua + ub);
        return true;
    case '-':
        *r = (int64_t)(ua - ub);
        return true;
    case '*':
        *r = (int64_t)(ua * ub);
        return true;
    case '/':
    case '%':
        if (b == 0)
            return false;
        if (b == -1) /* INT64_MIN / -1 does not fit */
            *r = op == '/' ? (int64_t)(0 - ua) : 0;
        else
            *r = op == '/' ? a / b : a % b;
        return true;
    case PUNCT_SHL:
        *r = ub > 63 ? 0 : (int64_t)(ua << ub);
        return true;
    case PUNCT_SHR:
        *r = ub > 63 ? (a < 0 ? -1 : 0) : a >> ub;
        return true;
    case '<':
        *r = a < b;
        return true;
    case '>':
        *r = a > b;
        return true;
    case PUNCT_LE:
        *r = a <= b;
        return true;
    case PUNCT_GE:
        *r = a >= b;
        return true;
    case PUNCT_EQ:
        *r = a == b;
        return true;
    case PUNCT_NE:
        *r = a != b;
        return true;
    case '&':
        *r = a & b;
        return true;
    case '^':
        *r = a ^ b;
        return true;
    case '|':
        *r = a | b;
        return true;
    case PUNCT_AND_AND:
        *r = a && b;
        return true;
    case PUNCT_OR_OR:
        *r = a || b;
        return true;
    default:
        return false;
    }
}

static bool binary(struct parser *p, const struct token *t, struct constant *c,
                   struct constant b)
{
    if (c->is_float || b.is_float) {
        double x = c->is_float ? c->f : (double)c->i;
        double y = b.is_float ? b.f : (double)b.i;
        if (!real_op(t->punct, x, y, c))
            return parse_error(p, DIAG_PTX_CONSTANT, t->line, t->col,
                               "floating-point literals have + - * / only, and no "
                               "division by zero");
        return true;
    }
    int64_t r;
    if (!integer_op(t->punct, c->i, b.i, &r))
        return parse_error(p, DIAG_PTX_CONSTANT, t->line, t->col, "division by zero");
    *c = integer(r);
    return true;
}

static bool expression(struct parser *p, int least, struct constant *c, int depth)
{
    if (!unary(p, c, depth))
        return false;
    for (int level; (level = precedence(&p->tok)) > least;) {
        struct token t = p->tok;
        parse_next(p);
        struct constant b = {0}, other = {0};
        if (t.punct == '?') {
            bool yes = c->is_float ? c->f != 0 : c->i != 0;
            if (!expression(p, 0, &b, depth + 1) ||
                !parse_need(p, ':', "':' of the conditional") ||
                !expression(p, 0, &other, depth + 1))
                return false;
            *c = yes ? b : other;
        } else if (!expression(p, level, &b, depth + 1) || !binary(p, &t, c, b)) {
            return false;
        }
    }
    return true;
}

bool parse_constant(struct parser *p, struct constant *c)
{
    return expression(p, 0, c, 0);
}

bool parse_integer(struct parser *p, int64_t *value)
{
    struct token t = p->tok;
    struct constant c = {0};
    if (!parse_constant(p, &c))
        return false;
    if (c.is_float)
        return parse_error(p, DIAG_PTX_CONSTANT, t.line, t.col,
                           "an integer is expected here");
    *value = c.i;
    return true;
}
