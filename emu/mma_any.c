/* mma_any.c - see mma_any.h.
 *
 * Products of two elements are exact in f64.  Sums are formed in f64 as well, and the
 * error of each addition with them (Knuth's TwoSum): where there was none, the sum is
 * exact; where there was, the element is formed anew in fixed point. */
#include "emu/mma_any.h"

#include <math.h>
#include <string.h>

#include "emu/round.h"
#include "emu/wide.h"

#define ROWS_MAX 128
#define FRACTION 25
#define COARSE_FRACTION 13

int mma_any_k(enum mma_type type)
{
    switch (type) {
    case MMA_F16:
    case MMA_BF16:
        return 16;
    case MMA_TF32:
        return 8;
    default:
        return 32;
    }
}

/* ---- elements */

/* Code of element i of a row. */
static uint32_t code_of(enum mma_type type, const uint8_t *row, int i)
{
    uint32_t x = 0;
    switch (type) {
    case MMA_F16:
    case MMA_BF16:
        memcpy(&x, row + 2 * i, 2);
        return x;
    case MMA_TF32:
        memcpy(&x, row + 4 * i, 4);
        return x >> 13;
    case MMA_E2M3:
    case MMA_E3M2: {
        int bit = i % 16 * 6;
        memcpy(&x, row + i / 16 * 16 + bit / 8, 2);
        return x >> bit % 8 & 0x3f;
    }
    case MMA_E2M1:
        return row[i / 16 * 16 + i % 16 / 2] >> (i % 2 * 4) & 15;
    default:
        return row[i];
    }
}

static const struct format *format_of(enum mma_type type)
{
    static const struct format *const formats[] = {
        [MMA_F16] = &format_f16,   [MMA_BF16] = &format_bf16, [MMA_TF32] = &format_tf32,
        [MMA_E4M3] = &format_e4m3, [MMA_E5M2] = &format_e5m2, [MMA_E2M3] = &format_e2m3,
        [MMA_E3M2] = &format_e3m2, [MMA_E2M1] = &format_e2m1,
    };
    return formats[type];
}

/* A finite element as significand * 2^exponent, the significand an integer with the
 * format's fraction bits; `align` is the exponent that mode hardware aligns by. */
struct parts {
    int32_t significand;
    int exponent, align;
};

static struct parts parts_of(const struct format *f, uint32_t code)
{
    uint32_t field = code >> f->man_bits & ((1u << f->exp_bits) - 1);
    int32_t significand = (int32_t)(code & ((1u << f->man_bits) - 1));
    int align = (field ? (int)field : 1) - f->bias;
    if (field)
        significand |= (int32_t)1 << f->man_bits;
    if (code >> (f->exp_bits + f->man_bits) & 1)
        significand = -significand;
    return (struct parts){significand, align - f->man_bits, align};
}

/* ---- operands, unpacked: element k of all rows side by side */

struct operands {
    double a[MMA_ANY_MAX_K][ROWS_MAX], b[MMA_MAX_N][MMA_ANY_MAX_K];
    uint32_t a_code[MMA_ANY_MAX_K][ROWS_MAX], b_code[MMA_MAX_N][MMA_ANY_MAX_K];
    int a_scale[ROWS_MAX], b_scale[MMA_MAX_N]; /* exponents */
    bool a_nan[ROWS_MAX], b_nan[MMA_MAX_N];    /* scales */
};

static void unpack(const struct mma_any *m, struct operands *x)
{
    int k_count = mma_any_k(m->a_type);
    for (int row = 0; row < m->rows; row++)
        for (int k = 0; k < k_count; k++) {
            uint32_t code = code_of(m->a_type, m->a + row * MMA_ROW_BYTES, k);
            double value = float_decode(format_of(m->a_type), code);
            x->a_code[k][row] = code;
            x->a[k][row] = m->negate ? -value : value;
        }
    for (int row = 0; row < m->n; row++)
        for (int k = 0; k < k_count; k++) {
            uint32_t code = code_of(m->b_type, m->b + row * MMA_ROW_BYTES, k);
            x->b_code[row][k] = code;
            x->b[row][k] = float_decode(format_of(m->b_type), code);
        }
    for (int row = 0; row < m->rows; row++) {
        x->a_scale[row] = m->sfa ? m->sfa[row * MMA_BLOCKS] - 127 : 0;
        x->a_nan[row] = m->sfa && m->sfa[row * MMA_BLOCKS] == 0xff;
    }
    for (int row = 0; row < m->n; row++) {
        x->b_scale[row] = m->sfb ? m->sfb[row * MMA_BLOCKS] - 127 : 0;
        x->b_nan[row] = m->sfb && m->sfb[row * MMA_BLOCKS] == 0xff;
    }
}

/* ---- D */

static double old_d(const struct mma_any *m, uint32_t bits)
{
    double d;
    if (!m->accumulate)
        return 0;
    d = float_decode(m->result == MMA_TO_F16 ? &format_f16 : &format_f32,
                     m->result == MMA_TO_F16 ? bits & 0xffff : bits);
    return m->scale_d_down ? ldexp(d, -m->scale_d_down) : d;
}

/* A zero result is +0. */
static uint32_t encode(const struct mma_any *m, double x, enum rounding r)
{
    const struct format *f = m->result == MMA_TO_F16 ? &format_f16 : &format_f32;
    if (x == 0)
        return 0;
    uint32_t code = float_encode(f, x, r, false);
    uint32_t sign = 1u << (f->exp_bits + f->man_bits);
    return (code & ~sign) == 0 ? 0 : code;
}

/* ---- mode reference */

/* The nearest f64 whose last bit is odd if something is cut off behind it. */
static double to_odd(double sum, double error)
{
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error == 0 || (bits & 1))
        return sum;
    bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    memcpy(&sum, &bits, sizeof sum);
    return sum;
}

static uint32_t exact(const struct mma_any *m, const struct operands *x, int row,
                      int column, double d)
{
    struct wide sum = {{0}};
    const struct format *fa = format_of(m->a_type), *fb = format_of(m->b_type);
    for (int k = 0; k < mma_any_k(m->a_type); k++) {
        struct parts a = parts_of(fa, x->a_code[k][row]);
        struct parts b = parts_of(fb, x->b_code[column][k]);
        int64_t product = (int64_t)a.significand * b.significand;
        wide_add(&sum, m->negate ? -product : product,
                 a.exponent + b.exponent + x->a_scale[row] + x->b_scale[column]);
    }
    int exponent;
    double significand = ldexp(frexp(d, &exponent), 24); /* an integer */
    if (d != 0)
        wide_add(&sum, (int64_t)significand, exponent - 24);
    return encode(m, wide_to_odd(&sum), ROUND_NEAREST);
}

static void column_reference(const struct mma_any *m, const struct operands *x,
                             int column)
{
    uint32_t *at = m->d + column * m->rows;
    double sum[ROWS_MAX], inexact[ROWS_MAX];
    for (int row = 0; row < m->rows; row++)
        sum[row] = inexact[row] = 0;
    for (int k = 0; k < mma_any_k(m->a_type); k++) {
        double b = x->b[column][k];
        const double *a = x->a[k];
        for (int row = 0; row < m->rows; row++) {
            double p = a[row] * b, s = sum[row] + p, t = s - p;
            inexact[row] += fabs((sum[row] - t) + (p - (s - t)));
            sum[row] = s;
        }
    }
    for (int row = 0; row < m->rows; row++) {
        double d = old_d(m, at[row]), p = sum[row];
        if (x->a_nan[row] || x->b_nan[column])
            p = NAN;
        if (m->sfa)
            p = ldexp(p, x->a_scale[row] + x->b_scale[column]);
        double s = p + d, t = s - p;
        if (!isfinite(s))
            at[row] = encode(m, s, ROUND_NEAREST);
        else if (inexact[row] != 0)
            at[row] = exact(m, x, row, column, d);
        else
            at[row] = encode(m, to_odd(s, (p - (s - t)) + (d - t)), ROUND_NEAREST);
    }
}

/* ---- mode hardware */

static int d_exponent(const struct mma_any *m, double d)
{
    int least = m->result == MMA_TO_F16 ? -14 : -126, exponent;
    if (d == 0)
        return -126;
    frexp(d, &exponent);
    return exponent - 1 > least ? exponent - 1 : least;
}

/* To 14 significant bits, towards zero. */
static double cut_to_e8m13(double x)
{
    int exponent;
    double significand = frexp(x, &exponent);
    if (exponent < -125)
        return ldexp(trunc(ldexp(x, 126 + 13)), -126 - 13);
    return ldexp(trunc(ldexp(significand, 14)), exponent - 14);
}

/* The exponent that an element is aligned by: its field's, but as f16 of e4m3 it has
 * none that are subnormal. */
static int align_of(const struct mma_any *m, enum mma_type type, uint32_t code)
{
    struct parts p = parts_of(format_of(type), code);
    int exponent;
    if (!m->fp8_by_f16 || p.significand == 0)
        return p.align;
    frexp(ldexp(p.significand, p.exponent), &exponent);
    return exponent - 1 > -14 ? exponent - 1 : -14;
}

/* Is element k in this step of a sum? */
static bool in_step(const struct mma_any *m, int k, int step)
{
    return !m->fp8_by_f16 || k / 2 % 2 == step;
}

/* The terms of one element, aligned to the largest exponent and cut. */
static uint32_t modelled(const struct mma_any *m, const struct operands *x, int row,
                         int column, double d, int step)
{
    int scale = x->a_scale[row] + x->b_scale[column];
    bool coarse = m->is_wgmma && mma_any_k(m->a_type) == 32;
    int fraction = coarse ? COARSE_FRACTION : FRACTION;
    int largest = d_exponent(m, d);
    double plain = d, products[MMA_ANY_MAX_K];
    for (int k = 0; k < mma_any_k(m->a_type); k++) {
        products[k] = in_step(m, k, step) ? x->a[k][row] * x->b[column][k] : 0;
        plain += products[k];
        if (products[k] == 0 || !isfinite(products[k]))
            continue;
        int e = align_of(m, m->a_type, x->a_code[k][row]) +
                align_of(m, m->b_type, x->b_code[column][k]) + scale;
        largest = e > largest ? e : largest;
    }
    if (x->a_nan[row] || x->b_nan[column])
        plain = NAN;
    if (!isfinite(plain))
        return encode(m, plain, ROUND_NEAREST);
    double unit = ldexp(1, fraction - largest + scale);
    int64_t sum = (int64_t)ldexp(d, fraction - largest);
    for (int k = 0; k < mma_any_k(m->a_type); k++)
        sum += (int64_t)(products[k] * unit);
    double result = ldexp((double)sum, largest - fraction);
    if (m->result == MMA_TO_F32 && fabs(result) >= 0x1p128)
        result = result < 0 ? -INFINITY : INFINITY;
    if (coarse && m->result == MMA_TO_F32)
        result = cut_to_e8m13(result);
    return encode(m, result, m->result == MMA_TO_F16 ? ROUND_NEAREST : ROUND_ZERO);
}

/* Two sums that begin with 0 and with the first one; D is added at last. */
static uint32_t modelled_by_f16(const struct mma_any *m, const struct operands *x,
                                int row, int column, uint32_t d)
{
    const struct format *f = m->result == MMA_TO_F16 ? &format_f16 : &format_f32;
    uint32_t sum = modelled(m, x, row, column, 0, 0);
    sum = modelled(m, x, row, column, float_decode(f, sum), 1);
    return encode(m, fma_to_odd(float_decode(f, sum), 1, old_d(m, d)), ROUND_NEAREST);
}

static void column_hardware(const struct mma_any *m, const struct operands *x,
                            int column)
{
    uint32_t *at = m->d + column * m->rows;
    for (int row = 0; row < m->rows; row++)
        at[row] = m->fp8_by_f16 ? modelled_by_f16(m, x, row, column, at[row])
                                : modelled(m, x, row, column, old_d(m, at[row]), 0);
}

/* ---- integers */

static int32_t byte_of(enum mma_type type, uint8_t code)
{
    return type == MMA_S8 ? (code ^ 0x80) - 0x80 : code;
}

static void column_integer(const struct mma_any *m, int column)
{
    uint32_t *at = m->d + column * m->rows;
    const uint8_t *b = m->b + column * MMA_ROW_BYTES;
    for (int row = 0; row < m->rows; row++) {
        const uint8_t *a = m->a + row * MMA_ROW_BYTES;
        int64_t sum = 0;
        for (int k = 0; k < MMA_ROW_BYTES; k++)
            sum += (int64_t)byte_of(m->a_type, a[k]) * byte_of(m->b_type, b[k]);
        int32_t old;
        memcpy(&old, &at[row], sizeof old);
        sum = (m->negate ? -sum : sum) + (m->accumulate ? old : 0);
        if (m->saturate)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        at[row] = (uint32_t)((uint64_t)sum & 0xffffffff);
    }
}

void mma_any(const struct mma_any *m)
{
    if (m->result == MMA_TO_S32) {
        for (int column = 0; column < m->n; column++)
            column_integer(m, column);
        return;
    }
    static _Thread_local struct operands operands; /* too large for a stack */
    struct operands *x = &operands;
    unpack(m, x);
    for (int column = 0; column < m->n; column++)
        if (m->mode == MMA_HARDWARE)
            column_hardware(m, x, column);
        else
            column_reference(m, x, column);
}
