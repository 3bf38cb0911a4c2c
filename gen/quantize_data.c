#include "gen/quantize_data.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "gen/run_data.h"
#include "tests/ref.h"

enum { BLOCK = 16, MOST_THREADS = 64 };

/* Of silu(gate) * up in f32 with the target's approximations, relative. */
static const double silu_error = 0x1p-16;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_wide(const struct quantize_data *q)
{
    return !is(q->image->x_form, "plain");
}

static bool is_silu(const struct quantize_data *q)
{
    return is(q->image->op, "silu_mul_quantize_nvfp4");
}

static size_t elem_bytes(const struct quantize_data *q)
{
    return is(q->image->x_type, "f32") ? 4 : 2;
}

static size_t x_cols(const struct quantize_data *q)
{
    return q->k * (is_wide(q) ? 2 : 1);
}

/* ---- elements */

static uint8_t *x_at(const struct quantize_data *q, size_t row, size_t col)
{
    return q->x + row * q->ldx + col * elem_bytes(q);
}

static float decode(const char *type, const uint8_t *at)
{
    float x;
    uint16_t half;
    if (is(type, "f32")) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&half, at, sizeof half);
    return is(type, "bf16") ? (float)ref_bf16(half) : f16_decode(half);
}

/* Returns the bits. */
static uint32_t encode(const char *type, float x, uint8_t *at)
{
    uint32_t bits;
    if (is(type, "f32")) {
        memcpy(&bits, &x, sizeof bits);
        memcpy(at, &x, sizeof x);
        return bits;
    }
    uint16_t half = is(type, "bf16") ? bf16_encode(x) : f16_encode(x);
    memcpy(at, &half, sizeof half);
    return half;
}

float quantize_x(const struct quantize_data *q, size_t row, size_t col)
{
    return decode(q->image->x_type, x_at(q, row, col));
}

void quantize_set_x(struct quantize_data *q, size_t row, size_t col, float x)
{
    encode(q->image->x_type, x, x_at(q, row, col));
}

/* Column of X with the gate (half 0) or what goes with it (half 1) of result `col`. */
static size_t column_of(const struct quantize_data *q, size_t col, int half)
{
    const size_t group = 8;
    if (!is_wide(q))
        return col;
    size_t second = (size_t)(half ^ is(q->image->x_order, "up_gate"));
    if (is(q->image->x_form, "halves"))
        return col + second * q->k;
    return col / group * 2 * group + second * group + col % group;
}

/* In double: exact but for silu. */
static double value_of(const struct quantize_data *q, size_t row, size_t col)
{
    double up = quantize_x(q, row, column_of(q, col, 1));
    if (!is_silu(q))
        return up;
    double gate = quantize_x(q, row, column_of(q, col, 0));
    return gate / (1 + exp(-gate)) * up;
}

float quantize_amax(const struct quantize_data *q)
{
    float amax = 0;
    for (size_t row = 0; row < q->m; row++)
        for (size_t col = 0; col < q->k; col++) {
            float a = fabsf((float)value_of(q, row, col));
            if (a > amax && isfinite(a))
                amax = a;
        }
    return amax;
}

/* ---- layouts */

size_t quantize_scale_at(const char *layout, size_t row, size_t block, size_t k,
                         size_t ld)
{
    if (is(layout, "linear"))
        return row * ld + block;
    if (is(layout, "128x4"))
        return ref_sf_offset(row, block, k);
    size_t across = (k + 63) / 64; /* tiles of 8 rows x 4 scales */
    return (row / 8 * across + block / 4) * 32 + row % 8 * 4 + block % 4;
}

static size_t scales_bytes(const char *layout, size_t m, size_t k, size_t ld)
{
    if (m == 0 || k == 0)
        return 0;
    size_t shape[2];
    scales_shape(layout, m, k, BLOCK, shape);
    return quantize_scale_at(layout, shape[0] - 1, shape[1] - 1, k, ld) + 1;
}

/* ---- memory */

static bool make_array(uint8_t **out, size_t bytes)
{
    uint8_t *all = malloc(bytes + 2 * QUANTIZE_GUARD_BYTES);
    if (!all)
        return false;
    memset(all, QUANTIZE_GUARD_BYTE, bytes + 2 * QUANTIZE_GUARD_BYTES);
    *out = all + QUANTIZE_GUARD_BYTES;
    return true;
}

static void free_array(uint8_t *a)
{
    if (a)
        free(a - QUANTIZE_GUARD_BYTES);
}

void quantize_data_free(struct quantize_data *q)
{
    free_array(q->x);
    free_array(q->codes);
    free_array(q->scales);
    free_array(q->from);
    q->x = q->codes = q->scales = q->from = NULL;
}

static float special(uint32_t word)
{
    static const float list[] = {NAN,    INFINITY,   -INFINITY, -0.0f,
                                 1e-40f, -0x1p-133f, 0x1p-126f, 1.0f};
    return list[word % 8];
}

/* Sums of four even numbers, near enough to a normal distribution; some rows are 2^-12
 * smaller than others. */
static void fill_x(struct quantize_data *q, uint64_t seed)
{
    const size_t cols = x_cols(q);
    for (size_t row = 0; row < q->m; row++)
        for (size_t col = 0; col < cols; col++) {
            uint64_t w = random_word(seed, 32, row * cols + col);
            uint64_t b = random_word(seed, 33, row * cols + col / BLOCK);
            int sum = (int)(w & 0xffff) + (int)(w >> 16 & 0xffff) +
                      (int)(w >> 32 & 0xffff) + (int)(w >> 48) - 2 * 65535;
            float x = ldexpf((float)sum, -16 - (int)(b % 13));
            if (b >> 8 & 0x3f)
                quantize_set_x(q, row, col,
                               w % 2039 == 7 ? special((uint32_t)(w >> 20)) : x);
            else
                quantize_set_x(q, row, col, 0);
        }
}

/* Scales below NaN; padding is what a reader must not mind. */
static void fill_scales(uint8_t *scales, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        scales[i] = (uint8_t)(random_word(seed, 34, i) % 0x7f);
}

static void fill_codes(struct quantize_data *q, uint64_t seed)
{
    for (size_t row = 0; row < q->m; row++)
        for (size_t i = 0; i < (q->k + 1) / 2; i++)
            q->codes[row * q->ldc + i] =
                (uint8_t)random_word(seed, 35, row * q->ldc + i);
}

bool quantize_data_make(struct quantize_data *q, uint64_t seed)
{
    const struct image *i = q->image;
    bool has_x = i->x_type[0] != '\0', is_back = is(i->op, "dequantize_nvfp4");
    q->x = q->codes = q->scales = q->from = NULL;
    q->x_bytes = q->m * q->ldx;
    q->codes_bytes = q->m * q->ldc;
    q->scales_bytes = scales_bytes(i->layout, q->m, q->k, q->lds);
    q->from_bytes =
        i->from_layout[0] ? scales_bytes(i->from_layout, q->m, q->k, q->ldf) : 0;
    if ((has_x && !make_array(&q->x, q->x_bytes)) ||
        (has_x && !make_array(&q->codes, q->codes_bytes)) ||
        !make_array(&q->scales, q->scales_bytes) ||
        (i->from_layout[0] && !make_array(&q->from, q->from_bytes))) {
        quantize_data_free(q);
        return false;
    }
    if (is_back) {
        fill_codes(q, seed);
        fill_scales(q->scales, q->scales_bytes, seed);
    } else if (has_x) {
        fill_x(q, seed);
    } else {
        fill_scales(q->from, q->from_bytes, seed);
    }
    return true;
}

/* ---- comparing */

static void note_wrong(struct quantize_verdict *v, const char *what, size_t row,
                       size_t col, unsigned got, unsigned want)
{
    if (v->wrong++)
        return;
    v->what = what;
    v->row = row;
    v->col = col;
    v->got = got;
    v->want = want;
}

static unsigned code_at(const struct quantize_data *q, size_t row, size_t col)
{
    unsigned byte = q->codes[row * q->ldc + col / 2];
    return col % 2 ? byte >> 4 : byte & 15;
}

/* Codes in the order of what they stand for: -7 .. 7; both zeros are 0. */
static int rank(unsigned code)
{
    return code & 8 ? -(int)(code & 7) : (int)(code & 7);
}

/* x is over its block's step already; the place counts for random rounding. */
static unsigned code_for(const struct quantize_data *q, float x, size_t row, size_t col)
{
    if (is(q->image->rounding, "stochastic"))
        return ref_e2m1_stochastic((double)x, (uint32_t)row, (uint32_t)col, q->seed);
    return is(q->image->rounding, "halfstep") ? ref_e2m1_halfstep((double)x)
                                              : ref_e2m1_nearest((double)x);
}

static float quotient(const struct quantize_data *q, float x, float d)
{
    return is(q->image->division, "reciprocal") ? x * (1.0f / d) : x / d;
}

static void compare_exact(const struct quantize_data *q, size_t row, size_t col,
                          const float *x, size_t count, unsigned scale,
                          struct quantize_verdict *v)
{
    uint8_t codes[BLOCK], want_scale;
    ref_quantize_block(x, count, q->global, is(q->image->rounding, "halfstep"), codes,
                       &want_scale);
    if (scale != want_scale)
        note_wrong(v, "scale", row, col, scale, want_scale);
    float d = (float)ref_ue4m3(want_scale) * q->global;
    bool is_reference =
        is(q->image->division, "exact") && !is(q->image->rounding, "stochastic");
    for (size_t i = 0; i < count; i++) {
        unsigned got = code_at(q, row, col + i), want = codes[i];
        if (!is_reference && want_scale)
            want = code_for(q, quotient(q, x[i], d), row, col + i);
        if (got != want)
            note_wrong(v, "code", row, col + i, got, want);
    }
}

/* h is known up to silu_error; so are the scale and the codes. */
static void compare_near(const struct quantize_data *q, size_t row, size_t col,
                         const double *h, size_t count, unsigned scale,
                         struct quantize_verdict *v)
{
    double amax = 0;
    for (size_t i = 0; i < count; i++)
        amax = fmax(amax, fabs(h[i])); /* NaN does not count */
    float low = (float)(amax * (1 - silu_error)) * (1.0f / 6) / q->global;
    float high = (float)(amax * (1 + silu_error)) * (1.0f / 6) / q->global;
    unsigned least = ref_e4m3_nearest((double)low),
             most = ref_e4m3_nearest((double)high);
    if (scale < least || scale > most)
        note_wrong(v, "scale", row, col, scale, least);
    float d = (float)ref_ue4m3(scale) * q->global;
    for (size_t i = 0; i < count; i++) {
        unsigned got = code_at(q, row, col + i);
        if (scale == 0) {
            if (got != 0)
                note_wrong(v, "code", row, col + i, got, 0);
            continue;
        }
        if (isnan(h[i]))
            continue;
        double wide = fabs(h[i]) * silu_error;
        unsigned a = code_for(q, quotient(q, (float)(h[i] - wide), d), row, col + i);
        unsigned b = code_for(q, quotient(q, (float)(h[i] + wide), d), row, col + i);
        if (rank(got) < rank(a) || rank(got) > rank(b))
            note_wrong(v, "code", row, col + i, got, a);
    }
}

static void compare_codes_row(const struct quantize_data *q, size_t row,
                              struct quantize_verdict *v)
{
    for (size_t col = 0; col < q->k; col += BLOCK) {
        size_t count = q->k - col < BLOCK ? q->k - col : BLOCK;
        double h[BLOCK];
        float x[BLOCK];
        bool finite = true;
        for (size_t i = 0; i < count; i++) {
            h[i] = value_of(q, row, col + i);
            x[i] = (float)h[i];
            finite = finite && isfinite(h[i]);
        }
        size_t at = quantize_scale_at(q->image->layout, row, col / BLOCK, q->k, q->lds);
        unsigned scale = q->scales[at];
        if (!is_silu(q))
            compare_exact(q, row, col, x, count, scale, v);
        else if (finite) /* -inf * 0 and the like are the approximation's affair */
            compare_near(q, row, col, h, count, scale, v);
        v->blocks++;
        v->values += count;
    }
    if (q->k % 2 && q->codes[row * q->ldc + q->k / 2] >> 4)
        note_wrong(v, "code", row, q->k, q->codes[row * q->ldc + q->k / 2] >> 4, 0);
}

static void compare_x_row(const struct quantize_data *q, size_t row,
                          struct quantize_verdict *v)
{
    for (size_t col = 0; col < q->k; col++) {
        size_t at = quantize_scale_at(q->image->layout, row, col / BLOCK, q->k, q->lds);
        float d = (float)ref_ue4m3(q->scales[at]) * q->global;
        float x = (float)ref_e2m1(code_at(q, row, col)) * d;
        uint8_t bytes[4];
        uint32_t want = encode(q->image->x_type, x, bytes), got = 0;
        memcpy(&got, x_at(q, row, col), elem_bytes(q));
        if (got != want)
            note_wrong(v, "element", row, col, got, want);
        v->values++;
    }
}

static void compare_scales_row(const struct quantize_data *q, size_t row,
                               struct quantize_verdict *v)
{
    const struct image *i = q->image;
    for (size_t b = 0; b < (q->k + 15) / 16; b++) {
        unsigned got = q->scales[quantize_scale_at(i->layout, row, b, q->k, q->lds)];
        unsigned want =
            q->from[quantize_scale_at(i->from_layout, row, b, q->k, q->ldf)];
        if (got != want)
            note_wrong(v, "scale", row, b * BLOCK, got, want);
        v->blocks++;
    }
}

static void stray(struct quantize_verdict *v, const char *array, size_t at)
{
    if (!v->strayed++) {
        v->strayed_in = array;
        v->stray_at = at;
    }
}

/* Guards, and what lies between rows. */
static void check_rows(const uint8_t *a, size_t bytes, size_t rows, size_t ld,
                       size_t used, const char *name, struct quantize_verdict *v)
{
    for (size_t i = 0; i < QUANTIZE_GUARD_BYTES; i++) {
        if ((a - QUANTIZE_GUARD_BYTES)[i] != QUANTIZE_GUARD_BYTE)
            stray(v, name, i - QUANTIZE_GUARD_BYTES);
        if (a[bytes + i] != QUANTIZE_GUARD_BYTE)
            stray(v, name, bytes + i);
    }
    for (size_t row = 0; row < rows; row++)
        for (size_t i = used; i < ld && row * ld + i < bytes; i++)
            if (a[row * ld + i] != QUANTIZE_GUARD_BYTE)
                stray(v, name, row * ld + i);
}

static void check_padding(const struct quantize_data *q, struct quantize_verdict *v)
{
    const char *layout = q->image->layout;
    size_t shape[2];
    scales_shape(layout, q->m, q->k, BLOCK, shape);
    const size_t rows = shape[0], blocks = shape[1];
    bool is_linear = is(layout, "linear");
    check_rows(q->scales, q->scales_bytes, is_linear ? q->m : 0, q->lds,
               is_linear ? blocks : 0, "scales", v);
    for (size_t row = 0; !is_linear && row < rows; row++)
        for (size_t b = row < q->m ? (q->k + 15) / 16 : 0; b < blocks; b++) {
            size_t at = quantize_scale_at(layout, row, b, q->k, q->lds);
            if (q->scales[at] != 0)
                stray(v, "padding of scales", at);
        }
}

struct job_part {
    const struct quantize_data *q;
    size_t first, end;
    struct quantize_verdict verdict;
};

static void *compare_rows(void *arg)
{
    struct job_part *p = arg;
    const char *op = p->q->image->op;
    for (size_t row = p->first; row < p->end; row++)
        if (is(op, "dequantize_nvfp4"))
            compare_x_row(p->q, row, &p->verdict);
        else if (is(op, "convert_scales"))
            compare_scales_row(p->q, row, &p->verdict);
        else
            compare_codes_row(p->q, row, &p->verdict);
    return NULL;
}

static void merge(struct quantize_verdict *into, const struct quantize_verdict *v)
{
    struct quantize_verdict sum = into->wrong ? *into : *v;
    sum.values = into->values + v->values;
    sum.blocks = into->blocks + v->blocks;
    sum.wrong = into->wrong + v->wrong;
    *into = sum;
}

struct quantize_verdict quantize_compare(const struct quantize_data *q, int threads)
{
    struct job_part parts[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    bool started[MOST_THREADS] = {false};
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct job_part){.q = q,
                                     .first = q->m * (size_t)i / (size_t)threads,
                                     .end = q->m * (size_t)(i + 1) / (size_t)threads};
        if (i > 0)
            started[i] = pthread_create(&ids[i], NULL, compare_rows, &parts[i]) == 0;
    }
    struct quantize_verdict v = {0};
    for (int i = 0; i < threads; i++) {
        if (started[i])
            pthread_join(ids[i], NULL);
        else
            compare_rows(&parts[i]);
        merge(&v, &parts[i].verdict);
    }
    bool is_back = is(q->image->op, "dequantize_nvfp4");
    if (is_back)
        check_rows(q->x, q->x_bytes, q->m, q->ldx, x_cols(q) * elem_bytes(q), "x", &v);
    else
        check_padding(q, &v);
    if (q->codes && !is_back)
        check_rows(q->codes, q->codes_bytes, q->m, q->ldc, (q->k + 1) / 2, "codes", &v);
    return v;
}
