/* ref.c - the definitions behind ref.h, spelled out. */
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>

static const double e2m1_values[16] = {
    0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
    -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
};

/* One row an exponent field: 0 is subnormal, 15 is normal but for its last value. */
static const double e4m3_values[16][8] = {
    {0.0, 0.001953125, 0.00390625, 0.005859375, 0.0078125, 0.009765625, 0.01171875,
     0.013671875},
    {0.015625, 0.017578125, 0.01953125, 0.021484375, 0.0234375, 0.025390625, 0.02734375,
     0.029296875},
    {0.03125, 0.03515625, 0.0390625, 0.04296875, 0.046875, 0.05078125, 0.0546875,
     0.05859375},
    {0.0625, 0.0703125, 0.078125, 0.0859375, 0.09375, 0.1015625, 0.109375, 0.1171875},
    {0.125, 0.140625, 0.15625, 0.171875, 0.1875, 0.203125, 0.21875, 0.234375},
    {0.25, 0.28125, 0.3125, 0.34375, 0.375, 0.40625, 0.4375, 0.46875},
    {0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375},
    {1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875},
    {2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75},
    {4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5},
    {8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0},
    {16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0, 30.0},
    {32.0, 36.0, 40.0, 44.0, 48.0, 52.0, 56.0, 60.0},
    {64.0, 72.0, 80.0, 88.0, 96.0, 104.0, 112.0, 120.0},
    {128.0, 144.0, 160.0, 176.0, 192.0, 208.0, 224.0, 240.0},
    {256.0, 288.0, 320.0, 352.0, 384.0, 416.0, 448.0, (double)NAN},
};

double ref_e2m1(unsigned code)
{
    return e2m1_values[code & 15];
}

double ref_ue4m3(unsigned byte)
{
    return e4m3_values[(byte >> 3) & 15][byte & 7];
}

double ref_e4m3(unsigned byte)
{
    return byte & 0x80 ? -ref_ue4m3(byte) : ref_ue4m3(byte);
}

double ref_ue8m0(unsigned byte)
{
    return (byte & 0xff) == 0xff ? (double)NAN : ldexp(1.0, (int)(byte & 0xff) - 127);
}

double ref_bf16(unsigned bits)
{
    int exponent = (int)(bits >> 7 & 0xff);
    double fraction = (double)(bits & 0x7f) / 128;
    double value = exponent == 255 ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, -126)
                                   : ldexp(1 + fraction, exponent - 127);
    return bits & 0x8000 ? -value : value;
}

/* The code in 0..last whose value is nearest to x >= 0; of two the even one. */
static unsigned nearest(double x, unsigned last, double (*value)(unsigned))
{
    unsigned best = 0;
    for (unsigned code = 1; code <= last; code++) {
        double here = fabs(x - value(code)), there = fabs(x - value(best));
        if (here < there || (here == there && code % 2 == 0))
            best = code;
    }
    return best;
}

unsigned ref_e2m1_nearest(double x)
{
    if (isnan(x))
        return 7;
    return nearest(fmin(fabs(x), 6), 7, ref_e2m1) + (signbit(x) ? 8 : 0);
}

unsigned ref_e4m3_nearest(double x)
{
    if (isnan(x))
        return 0x7f;
    return nearest(fmin(fabs(x), 448), 0x7e, ref_ue4m3) + (signbit(x) ? 0x80 : 0);
}

unsigned ref_e2m1_halfstep(double x)
{
    static const unsigned codes[13] = {0, 1, 2, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7};
    if (isnan(x))
        return 7;
    double steps = 2 * fmin(fabs(x), 6), below = floor(steps);
    unsigned h = (unsigned)below;
    double rest = steps - below;
    if (rest > 0.5 || (rest == 0.5 && h % 2 == 1))
        h++;
    return codes[h] + (signbit(x) ? 8 : 0);
}

static uint32_t scramble(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

unsigned ref_e2m1_stochastic(double x, uint32_t row, uint32_t col, uint32_t seed)
{
    if (isnan(x))
        return 7;
    uint32_t h = scramble(row * 0x9e3779b1u + seed);
    uint32_t bits = scramble(h + col / 2 * 0x85ebca77u);
    uint32_t r = col % 2 ? bits >> 16 : bits & 0xffff;
    double size = fmin(fabs(x), 6);
    unsigned code = 0;
    while (code < 7 && ref_e2m1(code + 1) <= size)
        code++;
    if (code < 7) {
        double lo = ref_e2m1(code), hi = ref_e2m1(code + 1);
        code += floor(65536 * (size - lo) / (hi - lo)) + r >= 65536;
    }
    return code + (signbit(x) ? 8 : 0);
}

/* Exponent of the last place of `bits` significant ones around |x|, normal down to
 * 2^-126. */
static int last_place(double x, int bits)
{
    int exponent;
    frexp(x, &exponent); /* x = f * 2^exponent, 0.5 <= f < 1 */
    if (x == 0 || exponent - 1 < -126)
        exponent = -125;
    return exponent - bits;
}

double ref_f32_ulp(double x)
{
    return ldexp(1.0, last_place(x, 24));
}

double ref_bf16_ulp(double x)
{
    return ldexp(1.0, last_place(x, 8));
}

unsigned ref_bf16_nearest(double x)
{
    if (isnan(x))
        return 0x7fff;
    unsigned sign = signbit(x) ? 0x8000 : 0;
    if (isinf(x))
        return sign | 0x7f80;
    /* Counts of the last place are codes, but for the offset of the exponent. */
    int place = last_place(x, 8);
    double count = ldexp(fabs(x), -place), below = floor(count);
    unsigned n = (unsigned)below; /* 128..255 when normal, less when subnormal */
    if (count - below > 0.5 || (count - below == 0.5 && n % 2 == 1))
        n++;
    unsigned exponent_above_lowest = (unsigned)(place + 133);
    unsigned code = exponent_above_lowest * 128 + n;
    return sign | (code > 0x7f80 ? 0x7f80 : code);
}

size_t ref_sf_offset(size_t row, size_t kb, size_t k)
{
    size_t blocks_across = (k + 63) / 64; /* of 128 rows x 4 scales */
    size_t block = (row / 128) * blocks_across + kb / 4;
    size_t row_in_block = row % 128;
    size_t line = row_in_block % 32;  /* of 16 bytes */
    size_t group = row_in_block / 32; /* of 4 bytes in a line */
    return block * 512 + line * 16 + group * 4 + kb % 4;
}

size_t ref_sf_bytes(size_t rows, size_t k)
{
    return (rows + 127) / 128 * ((k + 63) / 64) * 512;
}

void ref_quantize_block(const float *x, size_t count, float global, bool halfstep,
                        uint8_t *codes, uint8_t *scale)
{
    float amax = 0;
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i]) > amax) /* false for NaN */
            amax = fabsf(x[i]);
    const float sixth = 1.0f / 6.0f;
    float t = amax * sixth;
    t = t / global;
    unsigned s = ref_e4m3_nearest(fabs((double)t));
    float d = (float)ref_ue4m3(s) * global;
    *scale = (uint8_t)s;
    for (size_t i = 0; i < count; i++) {
        float q = x[i] / d;
        unsigned code =
            halfstep ? ref_e2m1_halfstep((double)q) : ref_e2m1_nearest((double)q);
        codes[i] = (uint8_t)(s == 0 ? 0 : code);
    }
}

double ref_e5m2(unsigned byte)
{
    int exponent = (int)(byte >> 2 & 31);
    double fraction = (double)(byte & 3) / 4;
    double value = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, -14)
                                   : ldexp(1 + fraction, exponent - 15);
    return byte & 0x80 ? -value : value;
}

unsigned ref_e5m2_nearest(double x)
{
    if (isnan(x))
        return 0x7f;
    return nearest(fmin(fabs(x), 57344), 0x7b, ref_e5m2) | (signbit(x) ? 0x80u : 0);
}

static unsigned encode_mx(enum ref_mx format, double q)
{
    switch (format) {
    case REF_MXFP4:
        return ref_e2m1_nearest(q);
    case REF_MXFP4_HALFSTEP:
        return ref_e2m1_halfstep(q);
    case REF_MXFP8_E4M3:
        return ref_e4m3_nearest(q);
    default:
        return ref_e5m2_nearest(q);
    }
}

void ref_quantize_mx(const float *x, size_t count, enum ref_mx format, uint8_t *codes,
                     uint8_t *scale)
{
    const double most = format == REF_MXFP8_E4M3   ? 448
                        : format == REF_MXFP8_E5M2 ? 57344
                                                   : 6;
    double amax = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs((double)x[i]) > amax) /* false for NaN */
            amax = fabs((double)x[i]);
    if (isinf(amax))
        amax = 0x1p128;
    unsigned s = 0;
    while (s < 254 && amax > most * ref_ue8m0(s))
        s++;
    *scale = (uint8_t)s;
    for (size_t i = 0; i < count; i++) {
        float q = (float)((double)x[i] / ref_ue8m0(s)); /* exact but for subnormals */
        codes[i] = (uint8_t)encode_mx(format, (double)q);
        if (most == 6 && amax == 0)
            codes[i] = 0; /* a block of zeros, whatever their signs */
    }
}

/* Row `row` of an operand as plain numbers. */
static void decode_row(const uint8_t *codes, size_t ld, const uint8_t *scales,
                       size_t row, size_t k, double *out)
{
    for (size_t i = 0; i < k; i++) {
        unsigned byte = codes[row * ld + i / 2];
        unsigned code = i % 2 == 0 ? byte & 15 : byte >> 4;
        out[i] = ref_e2m1(code) * ref_ue4m3(scales[ref_sf_offset(row, i / 16, k)]);
    }
}

struct ref_dot ref_gemm_element(const struct ref_gemm *g, size_t row, size_t col)
{
    struct ref_dot dot = {0, 0};
    for (size_t i = 0; i < g->k; i++) {
        unsigned byte_a = g->a[row * g->lda + i / 2];
        unsigned byte_b = g->b[col * g->ldb + i / 2];
        double a = ref_e2m1(i % 2 == 0 ? byte_a & 15 : byte_a >> 4);
        double b = ref_e2m1(i % 2 == 0 ? byte_b & 15 : byte_b >> 4);
        double sa = ref_ue4m3(g->sfa[ref_sf_offset(row, i / 16, g->k)]);
        double sb = ref_ue4m3(g->sfb[ref_sf_offset(col, i / 16, g->k)]);
        dot.value += (a * sa) * (b * sb);
        dot.magnitude += fabs((a * sa) * (b * sb));
    }
    if (g->k > 0) { /* nothing stays nothing, whatever alpha */
        dot.value *= g->alpha;
        dot.magnitude *= fabs(g->alpha);
    }
    return dot;
}

enum { STRIP = 4 }; /* columns at a time: as many independent sums */

/* b holds STRIP rows, element i of row j at i * STRIP + j. */
static void dot_strip(const double *a, const double *b, size_t k, double alpha,
                      struct ref_dot *out)
{
    double value[STRIP] = {0}, magnitude[STRIP] = {0};
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < STRIP; j++) {
            double product = a[i] * b[i * STRIP + j];
            value[j] += product;
            magnitude[j] += fabs(product);
        }
    for (size_t j = 0; j < STRIP; j++)
        out[j] = k == 0
                     ? (struct ref_dot){0, 0}
                     : (struct ref_dot){value[j] * alpha, magnitude[j] * fabs(alpha)};
}

bool ref_gemm(const struct ref_gemm *g, size_t row0, size_t row1, size_t col0,
              size_t col1, struct ref_dot *out)
{
    if (row0 >= row1 || col0 >= col1)
        return true;
    size_t rows = row1 - row0, cols = col1 - col0, k = g->k;
    double *a = malloc((rows * k + 1) * sizeof *a);
    double *b_row = malloc((k + 1) * sizeof *b_row);
    double *b = malloc((k * STRIP + 1) * sizeof *b);
    bool done = a && b_row && b;
    for (size_t r = 0; done && r < rows; r++)
        decode_row(g->a, g->lda, g->sfa, row0 + r, k, a + r * k);
    for (size_t c = 0; done && c < cols; c += STRIP) {
        size_t count = cols - c < STRIP ? cols - c : STRIP;
        for (size_t j = 0; j < count; j++) {
            decode_row(g->b, g->ldb, g->sfb, col0 + c + j, k, b_row);
            for (size_t i = 0; i < k; i++)
                b[i * STRIP + j] = b_row[i];
        }
        for (size_t j = count; j < STRIP; j++)
            for (size_t i = 0; i < k; i++)
                b[i * STRIP + j] = 0;
        for (size_t r = 0; r < rows; r++) {
            struct ref_dot dots[STRIP];
            dot_strip(a + r * k, b, k, g->alpha, dots);
            for (size_t j = 0; j < count; j++)
                out[r * cols + c + j] = dots[j];
        }
    }
    free(a);
    free(b_row);
    free(b);
    return done;
}

/* What truncation in the MMAs and rounding in the product with alpha may cost. */
static double lost_in_sums(struct ref_dot r, size_t k)
{
    double mmas = (double)((k + 63) / 64);
    return (mmas + 1) * ldexp(r.magnitude, -23);
}

double ref_bound(struct ref_dot r, size_t k, bool d_is_f32)
{
    double sums = lost_in_sums(r, k);
    double largest = fabs(r.value) + sums;
    return sums + 0.5 * (d_is_f32 ? ref_f32_ulp(largest) : ref_bf16_ulp(largest));
}

double ref_error(double d, struct ref_dot r, size_t k, bool d_is_f32)
{
    if (isnan(d) || isnan(r.value))
        return isnan(d) && isnan(r.value) ? 0 : (double)INFINITY;
    if (isinf(d) || isinf(r.value)) {
        /* Half an ulp above the last number; from here on an infinity is nearest. */
        double overflow = d_is_f32 ? 0x1.ffffffp127 : 0x1.ffp127;
        bool reached = isinf(r.value) || fabs(r.value) + lost_in_sums(r, k) >= overflow;
        bool right = isinf(d) && reached && signbit(d) == signbit(r.value);
        return right ? 0 : (double)INFINITY;
    }
    return fabs(d - r.value) / ref_bound(r, k, d_is_f32);
}
