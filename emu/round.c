#include "emu/round.h"
#include "core/base.h"

#include <math.h>
#include <string.h>

const struct format format_e2m1 = {2, 1, 1, 0x7, 0, 0};
const struct format format_e2m3 = {2, 3, 1, 0x1f, 0, 0};
const struct format format_e3m2 = {3, 2, 3, 0x1f, 0, 0};
const struct format format_e4m3 = {4, 3, 7, 0x7e, 0, 0x7f};
const struct format format_e5m2 = {5, 2, 15, 0x7b, 0x7c, 0x7f};
const struct format format_f16 = {5, 10, 15, 0x7bff, 0x7c00, 0x7fff};
const struct format format_bf16 = {8, 7, 127, 0x7f7f, 0x7f80, 0x7fff};
const struct format format_tf32 = {8, 10, 127, 0x3fbff, 0x3fc00, 0x3ffff};
const struct format format_f32 = {8, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fffffff};

/* A finite, non-zero |x| as significand * 2^-drop units of the format's last place:
 * `code` counts whole units, `rest` what is below, of `drop` bits. */
struct split {
    uint64_t code, rest;
    int drop;
};

static struct split split(const struct format *f, double x)
{
    uint64_t b = bits_of_f64(x) & INT64_MAX;
    int e = (int)(b >> 52);
    uint64_t significand = b & (((uint64_t)1 << 52) - 1);
    if (e == 0)
        e = 1;
    else
        significand |= (uint64_t)1 << 52;
    /* Exponent of the result, before rounding; subnormals share the lowest one. */
    int exponent = e - 1023 + f->bias;
    bool normal = exponent >= 1 && significand >> 52;
    int drop = 52 - f->man_bits + (normal ? 0 : 1 - exponent);
    struct split s = {0, significand, drop};
    if (drop > 63) {
        /* Far below half a unit; keep that it is not zero. */
        s.drop = 63;
        s.rest = 1;
        return s;
    }
    s.code = significand >> drop;
    s.rest = significand & (((uint64_t)1 << drop) - 1);
    /* The hidden bit of `code` adds one to the exponent field. */
    if (normal)
        s.code += (uint64_t)(exponent - 1) << f->man_bits;
    return s;
}

static uint32_t overflow(const struct format *f, bool to_max, bool satfinite)
{
    return to_max || satfinite || !f->inf ? f->max : f->inf;
}

static uint32_t sign_bit(const struct format *f, double x)
{
    return signbit(x) ? (uint32_t)1 << (f->exp_bits + f->man_bits) : 0;
}

static bool round_up(const struct split *s, enum rounding r, bool negative)
{
    uint64_t half = (uint64_t)1 << (s->drop - 1);
    switch (r) {
    case ROUND_NEAREST:
        return s->rest > half || (s->rest == half && (s->code & 1));
    case ROUND_AWAY:
        return s->rest >= half;
    case ROUND_ZERO:
        return false;
    case ROUND_DOWN:
        return negative && s->rest;
    case ROUND_UP:
        return !negative && s->rest;
    }
    return false;
}

uint32_t float_encode(const struct format *f, double x, enum rounding r, bool satfinite)
{
    bool negative = signbit(x);
    uint32_t sign = sign_bit(f, x);
    if (isnan(x))
        return f->nan ? f->nan : f->max;
    if (isinf(x))
        return sign | overflow(f, false, satfinite);
    if (x == 0)
        return sign;
    struct split s = split(f, x);
    uint64_t code = s.code + round_up(&s, r, negative);
    if (code <= f->max)
        return sign | (uint32_t)code;
    bool to_max = r == ROUND_ZERO || (r == ROUND_DOWN && !negative) ||
                  (r == ROUND_UP && negative);
    return sign | overflow(f, to_max, satfinite);
}

double float_decode(const struct format *f, uint32_t code)
{
    uint32_t sign = code >> (f->exp_bits + f->man_bits) & 1;
    uint32_t body = code & (((uint32_t)1 << (f->exp_bits + f->man_bits)) - 1);
    double x;
    if (f->inf && body == f->inf) {
        x = INFINITY;
    } else if (f->nan && body > f->max) {
        x = NAN;
    } else {
        int e = (int)(body >> f->man_bits);
        uint32_t man = body & (((uint32_t)1 << f->man_bits) - 1);
        if (e == 0)
            e = 1;
        else
            man |= (uint32_t)1 << f->man_bits;
        x = ldexp(man, e - f->bias - f->man_bits);
    }
    return sign ? -x : x;
}

/* `near` is a value rounded to nearest, `error` has the sign of exact - near. */
static double to_odd(double near, double error)
{
    uint64_t b = bits_of_f64(near);
    if (error == 0 || isnan(error) || (b & 1) || !isfinite(near))
        return near;
    /* An even neighbour was taken: step to the odd one on the exact value's side. */
    bool away = (error > 0) == !signbit(near);
    if (near == 0)
        return error > 0 ? f64_of(1) : f64_of(((uint64_t)1 << 63) | 1);
    return f64_of(away ? b + 1 : b - 1);
}

double fma_to_odd(double a, double b, double c)
{
    double p = a * b; /* exact: 48 bits at most */
    double s = p + c;
    /* TwoSum (Knuth): the error of the addition, exactly. */
    double t = s - p;
    double error = (p - (s - t)) + (c - t);
    return to_odd(s, error);
}

double div_to_odd(double a, double b)
{
    double q = a / b;
    if (!isfinite(q) || q == 0 || isinf(b))
        return q;
    /* The remainder is exact; its sign relative to b tells the side. */
    double r = fma(-q, b, a);
    return to_odd(q, signbit(b) ? -r : r);
}

double sqrt_to_odd(double a)
{
    double s = sqrt(a);
    if (!isfinite(s) || s == 0)
        return s;
    return to_odd(s, fma(-s, s, a));
}
