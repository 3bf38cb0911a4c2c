/* t_mma_any.c - MMAs of the kinds other than FP4: the arithmetic bit for bit against
 * long integers, then the instructions against plain loops. */
#include "emu/mma_any.h"
#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/natural.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)(((uint64_t)random_bits() * n) >> 32);
}

/* ---- the formats once more, by their definitions */

static const struct {
    const char *name;
    int bits, exponent_bits, fraction_bits, bias;
    int specials; /* 0 none, 1 the top exponent is infinity and NaN, 2 all ones is NaN
                   */
} formats[] = {
    [MMA_F16] = {"f16", 16, 5, 10, 15, 1},    [MMA_BF16] = {"bf16", 16, 8, 7, 127, 1},
    [MMA_TF32] = {"tf32", 32, 8, 10, 127, 1}, [MMA_E4M3] = {"e4m3", 8, 4, 3, 7, 2},
    [MMA_E5M2] = {"e5m2", 8, 5, 2, 15, 1},    [MMA_E2M3] = {"e2m3", 6, 2, 3, 1, 0},
    [MMA_E3M2] = {"e3m2", 6, 3, 2, 3, 0},     [MMA_E2M1] = {"e2m1", 4, 2, 1, 1, 0},
    [MMA_U8] = {"u8", 8, 0, 8, 0, 0},         [MMA_S8] = {"s8", 8, 0, 7, 0, 0},
};

/* (-1)^negative * significand * 2^exponent; `lead` is the exponent that counts in mode
 * hardware. */
struct number {
    bool negative, is_nan, is_infinite;
    uint32_t significand;
    int exponent, lead;
};

static struct number number_of(enum mma_type type, uint32_t code)
{
    int f = formats[type].fraction_bits, e = formats[type].exponent_bits;
    uint32_t field = code >> f & ((1u << e) - 1), fraction = code & ((1u << f) - 1);
    struct number x = {.negative = code >> (e + f) & 1};
    if (formats[type].specials == 1 && field == (1u << e) - 1) {
        x.is_nan = fraction != 0;
        x.is_infinite = fraction == 0;
        return x;
    }
    x.is_nan = formats[type].specials == 2 && field == (1u << e) - 1 &&
               fraction == (1u << f) - 1;
    x.significand = field ? fraction | 1u << f : fraction;
    x.lead = (field ? (int)field : 1) - formats[type].bias;
    x.exponent = x.lead - f;
    return x;
}

/* Element i of a row of 32 bytes: 4 and 6 bits lie in the first 8 or 12 bytes of 16. */
static uint32_t element(enum mma_type type, const uint8_t *row, int i)
{
    int bits = formats[type].bits, slot = bits == 4 || bits == 6 ? i / 16 * 16 : 0;
    int first = (bits == 4 || bits == 6 ? i % 16 : i) * bits;
    uint32_t x = 0;
    for (int k = 0; k < bits; k++)
        x |= (uint32_t)(row[slot + (first + k) / 8] >> (first + k) % 8 & 1) << k;
    return type == MMA_TF32 ? x >> 13 : x;
}

static uint32_t f16_of(const struct natural *n)
{
    /* Through the same steps as an f32 with other limits. */
    int top = 399;
    while (top > UNIT_EXPONENT && !natural_bit(n, top))
        top--;
    if (!natural_bit(n, top))
        return 0;
    int last = top - 10 < -24 ? -24 : top - 10;
    uint32_t kept = 0;
    bool rest = false;
    for (int e = top; e >= last; e--)
        kept = kept * 2 + natural_bit(n, e);
    for (int e = UNIT_EXPONENT; e < last - 1; e++)
        rest |= natural_bit(n, e) != 0;
    if (natural_bit(n, last - 1) && (rest || kept % 2 == 1))
        kept++;
    if (kept == 1 << 11) {
        kept = 1 << 10;
        last++;
    }
    if (kept < 1 << 10)
        return kept;
    return last + 25 >= 31 ? 0x7c00 : (uint32_t)(last + 25) << 10 | (kept - (1 << 10));
}

struct sum {
    struct natural of[2]; /* positive, negative */
    bool is_nan, infinite[2];
};

static void add_term(struct sum *s, uint32_t significand, int exponent, bool negative,
                     int cut)
{
    struct natural term = {{0}};
    natural_add(&term, significand, exponent);
    if (cut > UNIT_EXPONENT)
        natural_cut(&term, cut);
    for (int i = 0; i < DIGITS; i++)
        natural_add(&s->of[negative], term.digit[i], UNIT_EXPONENT + 16 * i);
}

static uint32_t finish(const struct mma_any *m, struct sum *s)
{
    bool half = m->result == MMA_TO_F16;
    if (s->is_nan || (s->infinite[0] && s->infinite[1]))
        return half ? 0x7fff : 0x7fffffff;
    bool is_infinite = s->infinite[0] || s->infinite[1];
    bool negative =
        is_infinite ? s->infinite[1] : natural_compare(&s->of[1], &s->of[0]) > 0;
    uint32_t sign = negative ? half ? 0x8000 : 0x80000000 : 0;
    if (is_infinite)
        return sign | (half ? 0x7c00 : 0x7f800000);
    struct natural r = natural_subtract(&s->of[negative], &s->of[!negative]);
    uint32_t bits = half                      ? f16_of(&r)
                    : m->mode == MMA_HARDWARE ? natural_cut_to_f32(&r)
                                              : natural_to_f32(&r);
    return bits ? bits | sign : 0;
}

static uint32_t expected(const struct mma_any *m, int row, int column, uint32_t old)
{
    int count = 256 / (formats[m->a_type].bits < 8 ? 8 : formats[m->a_type].bits);
    int scale = 0, largest = -126;
    struct sum s = {0};
    struct number d = {0}, a[32], b[32];
    if (m->sfa) {
        uint8_t sa = m->sfa[row * 4], sb = m->sfb[column * 4];
        s.is_nan = sa == 255 || sb == 255;
        scale = sa + sb - 254;
    }
    if (m->accumulate && m->result == MMA_TO_F16) {
        d = number_of(MMA_F16, old & 0xffff);
    } else if (m->accumulate) {
        d.negative = old >> 31;
        d.lead = (old >> 23 & 255 ? (int)(old >> 23 & 255) : 1) - 127;
        d.significand = (old & 0x7fffff) | (old >> 23 & 255 ? 1u << 23 : 0);
        d.exponent = d.lead - 23;
        d.is_nan = (old & 0x7fffffff) > 0x7f800000;
        d.is_infinite = (old & 0x7fffffff) == 0x7f800000;
    }
    d.exponent -= m->scale_d_down;
    s.is_nan |= d.is_nan;
    s.infinite[d.negative] |= d.is_infinite;
    /* A scaled-down D is one of f32's own, with its own leading bit. */
    int d_lead = d.lead - m->scale_d_down, least = m->result == MMA_TO_F16 ? -14 : -126;
    if (d.significand != 0) {
        int top = d.exponent;
        for (uint32_t x = d.significand; x > 1; x >>= 1)
            top++;
        d_lead = top > least ? top : least;
    }
    if (d.significand && !d.is_nan && !d.is_infinite && d_lead > largest)
        largest = d_lead;
    for (int k = 0; k < count; k++) {
        a[k] = number_of(m->a_type, element(m->a_type, m->a + row * 32, k));
        b[k] = number_of(m->b_type, element(m->b_type, m->b + column * 32, k));
        bool a_zero = !a[k].significand && !a[k].is_infinite;
        bool b_zero = !b[k].significand && !b[k].is_infinite;
        bool infinite = a[k].is_infinite || b[k].is_infinite;
        s.is_nan |= a[k].is_nan || b[k].is_nan || (infinite && (a_zero || b_zero));
        s.infinite[(a[k].negative != b[k].negative) != m->negate] |= infinite;
        int lead = a[k].lead + b[k].lead + scale;
        if (!infinite && a[k].significand && b[k].significand && lead > largest)
            largest = lead;
    }
    int cut = m->mode == MMA_HARDWARE ? largest - 25 : UNIT_EXPONENT;
    if (d.significand)
        add_term(&s, d.significand, d.exponent, d.negative, cut);
    for (int k = 0; k < count; k++)
        if (a[k].significand && b[k].significand)
            add_term(&s, a[k].significand * b[k].significand,
                     a[k].exponent + b[k].exponent + scale,
                     (a[k].negative != b[k].negative) != m->negate, cut);
    return finish(m, &s);
}

/* ---- random operands against it */

enum { ROWS = 128, COLUMNS = 16 };
enum range { ANY_FINITE, NARROW, WITH_SPECIALS };

static uint8_t a_rows[ROWS * 32], b_rows[COLUMNS * 32], sfa[ROWS * 4], sfb[COLUMNS * 4];
static uint32_t d_cells[ROWS * COLUMNS], d_before[ROWS * COLUMNS];

static bool is_finite(enum mma_type type, uint32_t code)
{
    struct number x = number_of(type, code);
    return !x.is_nan && !x.is_infinite;
}

static void put_element(enum mma_type type, uint8_t *row, int i, uint32_t code)
{
    int bits = formats[type].bits, slot = bits == 4 || bits == 6 ? i / 16 * 16 : 0;
    int first = (bits == 4 || bits == 6 ? i % 16 : i) * bits;
    if (type == MMA_TF32)
        code = code << 13 | random_below(1 << 13); /* what is ignored */
    for (int k = 0; k < bits; k++) {
        uint8_t *byte = &row[slot + (first + k) / 8];
        *byte = (uint8_t)((*byte & ~(1u << (first + k) % 8)) | (code >> k & 1)
                                                                   << (first + k) % 8);
    }
}

static uint32_t random_code(enum mma_type type, enum range range)
{
    int bits = type == MMA_TF32 ? 19 : formats[type].bits;
    for (;;) {
        uint32_t code = random_bits() & ((1u << bits) - 1);
        if (range == NARROW && formats[type].exponent_bits > 3) {
            /* exponents -2 to 2 */
            int f = formats[type].fraction_bits, e = formats[type].exponent_bits;
            uint32_t field = (uint32_t)formats[type].bias - 2 + random_below(5);
            code = (code & ~(((1u << e) - 1) << f)) | field << f;
        }
        if ((range == WITH_SPECIALS && random_below(8) == 0) || is_finite(type, code))
            return code;
    }
}

static void fill_rows(enum mma_type type, enum range range, uint8_t *rows, int count)
{
    int k = 256 / (formats[type].bits < 8 ? 8 : formats[type].bits);
    for (int i = 0; i < count * 32; i++)
        rows[i] = (uint8_t)random_bits(); /* gaps of narrow types, too */
    for (int row = 0; row < count; row++)
        for (int i = 0; i < k; i++)
            put_element(type, rows + row * 32, i, random_code(type, range));
}

static uint32_t random_d(enum mma_result result, enum range range)
{
    uint32_t x = random_bits();
    if (result == MMA_TO_F16)
        return range == WITH_SPECIALS ? x & 0xffff
                                      : (x & 0x83ff) | random_below(31) << 10;
    if (range == NARROW)
        return (x & 0x807fffff) | (120 + random_below(16)) << 23;
    return range == WITH_SPECIALS && random_below(4) == 0
               ? x | 0x7f800000
               : (x & 0x807fffff) | random_below(255) << 23;
}

static void check_any(struct mma_any *m, enum range range, int samples)
{
    fill_rows(m->a_type, range, a_rows, ROWS);
    fill_rows(m->b_type, range, b_rows, COLUMNS);
    for (int i = 0; i < ROWS; i++)
        memset(sfa + 4 * i, (int)random_below(range == WITH_SPECIALS ? 256 : 255), 4);
    for (int i = 0; i < COLUMNS; i++)
        memset(sfb + 4 * i, (int)random_below(range == WITH_SPECIALS ? 256 : 255), 4);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        d_before[i] = d_cells[i] = random_d(m->result, range);
    m->a = a_rows;
    m->b = b_rows;
    m->d = d_cells;
    m->rows = ROWS;
    m->n = COLUMNS;
    mma_any(m);
    for (int i = 0; i < samples; i++) {
        int row = (int)random_below(ROWS), column = (int)random_below(COLUMNS);
        uint32_t old = d_before[column * ROWS + row];
        uint32_t want = expected(m, row, column, old),
                 got = d_cells[column * ROWS + row];
        if (got != want)
            test_fail(__FILE__, __LINE__,
                      "%s x %s, %s: row %d column %d D %08x: %08x, "
                      "expected %08x",
                      formats[m->a_type].name, formats[m->b_type].name,
                      mma_mode_name(m->mode), row, column, (unsigned)old, (unsigned)got,
                      (unsigned)want);
    }
}

static void check_types(enum mma_type a, enum mma_type b, enum mma_result result,
                        bool scaled)
{
    for (int mode = 0; mode < MMA_MODE_COUNT; mode++)
        for (int range = ANY_FINITE; range <= WITH_SPECIALS; range++)
            for (int i = 0; i < 3; i++) {
                random_state =
                    (uint64_t)(((int)a * 16 + (int)b) * 100 + range * 10 + i);
                struct mma_any m = {
                    .a_type = a,
                    .b_type = b,
                    .result = result,
                    .sfa = scaled ? sfa : NULL,
                    .sfb = scaled ? sfb : NULL,
                    .negate = i == 1,
                    .accumulate = i != 2,
                    .scale_d_down = i == 1 && !scaled ? 3 : 0,
                    .mode = (enum mma_mode)mode,
                };
                check_any(&m, (enum range)range, 300);
            }
}

TEST(f16_and_bf16)
{
    check_types(MMA_F16, MMA_F16, MMA_TO_F32, false);
    check_types(MMA_BF16, MMA_BF16, MMA_TO_F32, false);
}

TEST(f16_sums)
{
    check_types(MMA_F16, MMA_F16, MMA_TO_F16, false);
    check_types(MMA_E4M3, MMA_E5M2, MMA_TO_F16, false);
}

TEST(tf32)
{
    check_types(MMA_TF32, MMA_TF32, MMA_TO_F32, false);
}

TEST(eight_bits_and_fewer)
{
    static const enum mma_type types[] = {MMA_E4M3, MMA_E5M2, MMA_E2M3, MMA_E3M2,
                                          MMA_E2M1};
    for (size_t a = 0; a < COUNT_OF(types); a++)
        check_types(types[a], types[(a * 2 + 1) % 5], MMA_TO_F32, false);
}

TEST(scaled_eight_bits_and_fewer)
{
    static const enum mma_type types[] = {MMA_E4M3, MMA_E5M2, MMA_E2M3, MMA_E3M2,
                                          MMA_E2M1};
    for (size_t a = 0; a < COUNT_OF(types); a++)
        check_types(types[a], types[(a * 3 + 1) % 5], MMA_TO_F32, true);
}

TEST(integers)
{
    for (int i = 0; i < 8; i++) {
        struct mma_any m = {.a_type = i & 1 ? MMA_S8 : MMA_U8,
                            .b_type = i & 2 ? MMA_S8 : MMA_U8,
                            .result = MMA_TO_S32,
                            .a = a_rows,
                            .b = b_rows,
                            .d = d_cells,
                            .rows = ROWS,
                            .n = COLUMNS,
                            .accumulate = true,
                            .saturate = i >= 4};
        random_state = (uint64_t)i;
        for (size_t k = 0; k < sizeof a_rows; k++)
            a_rows[k] = (uint8_t)random_bits();
        for (size_t k = 0; k < sizeof b_rows; k++)
            b_rows[k] = (uint8_t)random_bits();
        for (int k = 0; k < ROWS * COLUMNS; k++)
            d_before[k] = d_cells[k] = k % 3 ? random_bits() : 0x7ffffff0;
        mma_any(&m);
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++) {
                int64_t sum = (int32_t)d_before[column * ROWS + row];
                for (int k = 0; k < 32; k++) {
                    int a = a_rows[row * 32 + k], b = b_rows[column * 32 + k];
                    sum += (int64_t)(i & 1 && a > 127 ? a - 256 : a) *
                           (i & 2 && b > 127 ? b - 256 : b);
                }
                if (i >= 4 && sum > INT32_MAX)
                    sum = INT32_MAX;
                if (i >= 4 && sum < INT32_MIN)
                    sum = INT32_MIN;
                CHECK_EQ(d_cells[column * ROWS + row], (uint32_t)sum);
            }
    }
}

/* ---- the instructions, on data whose sums are exact */

enum source { A_IN_SHARED, A_IN_TENSOR_MEMORY };

struct problem {
    const char *kind; /* "kind::f16" */
    enum mma_type a_type, b_type;
    enum mma_result result;
    int group, m, n; /* of the pair, with group 2 */
    int swizzle;     /* code of the descriptors: 0, 2, 4, 6 */
    bool a_by_m, b_by_n, accumulate, scaled;
    enum source source;
    const char *operands; /* behind the accumulator; NULL: what fits */
    int scale_d_down;
    uint32_t masked[4];
};

static int k_of(enum mma_type type)
{
    return 256 / (formats[type].bits < 8 ? 8 : formats[type].bits);
}

static double double_of(enum mma_type type, uint32_t code)
{
    if (type == MMA_U8)
        return code;
    if (type == MMA_S8)
        return code > 127 ? (double)code - 256 : code;
    struct number x = number_of(type, code);
    return ldexp(x.negative ? -(double)x.significand : x.significand, x.exponent);
}

/* A code of a small value with few digits. */
static uint32_t easy_code(enum mma_type type)
{
    if (type == MMA_U8 || type == MMA_S8)
        return random_bits() & 0xff;
    for (;;) {
        uint32_t code = random_code(type, NARROW);
        double x = double_of(type, code);
        if (fabs(x) <= 8 && x * 8 == floor(x * 8))
            return code;
    }
}

/* The 16-byte chunk that holds element k of a row, by the layouts' definitions; `pitch`
 * is the width of the swizzle, 16 for none; groups of eight lie `near` apart, columns
 * of chunks `far`. */
struct layout {
    int swizzle;
    bool by_row;
    uint32_t start, lbo, sbo;
};

static uint32_t place_of(const struct layout *l, enum mma_type type, uint32_t row,
                         uint32_t k, uint32_t *byte)
{
    uint32_t bits = (uint32_t)(formats[type].bits < 8 ? 8 : formats[type].bits);
    uint32_t along = (l->by_row ? row : k) * bits / 8, across = l->by_row ? k : row;
    uint32_t width = l->swizzle == 2   ? 128
                     : l->swizzle == 4 ? 64
                     : l->swizzle == 6 ? 32
                                       : 16;
    uint32_t chunk = along / 16, at;
    *byte = along % 16;
    if (l->swizzle == 0)
        at = l->start + across / 8 * (l->by_row ? l->lbo : l->sbo) + across % 8 * 16 +
             chunk * (l->by_row ? l->sbo : l->lbo);
    else
        at = l->start + across / 8 * l->sbo + across % 8 * width +
             chunk / (width / 16) * l->lbo + chunk % (width / 16) * 16;
    uint32_t mask = width / 16 - 1;
    return at ^ ((at / 128 & mask) << 4);
}

/* Lays `rows` rows of codes into an image of shared memory; returns the end. */
static uint32_t lay(struct layout *l, enum mma_type type, const uint8_t *packed,
                    int rows, uint8_t *image)
{
    uint32_t width = l->swizzle == 2   ? 128
                     : l->swizzle == 4 ? 64
                     : l->swizzle == 6 ? 32
                                       : 16;
    uint32_t end = l->start;
    if (l->by_row) {
        uint32_t bits = (uint32_t)formats[type].bits;
        uint32_t row_bytes = (uint32_t)rows * bits / 8;
        l->sbo = l->swizzle ? 8 * width : 128; /* eight k; or chunks of rows */
        l->lbo =
            l->swizzle ? 8 * width * (uint32_t)k_of(type) / 8 : 128 * (row_bytes / 16);
        if (l->swizzle == 0)
            l->sbo = 128;
    } else {
        l->sbo = 8 * width;
        l->lbo = l->swizzle ? 16 : 8 * 16 * (uint32_t)((rows + 7) / 8);
    }
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < 32; i++) {
            uint32_t bits = (uint32_t)(formats[type].bits < 8 ? 8 : formats[type].bits);
            uint32_t k = (uint32_t)i * 8 / bits, byte;
            uint32_t at = place_of(l, type, (uint32_t)row, k, &byte);
            byte = l->by_row ? byte + (uint32_t)i % (bits / 8) : (uint32_t)i % 16;
            image[at + byte] = packed[row * 32 + i];
            end = at + 16 > end ? at + 16 : end;
        }
    return (end + 1023) / 1024 * 1024;
}

static uint64_t descriptor(const struct layout *l)
{
    return (uint64_t)(l->start / 16) | (uint64_t)(l->lbo / 16) << 16 |
           (uint64_t)(l->sbo / 16) << 32 | (uint64_t)1 << 46 |
           (uint64_t)(uint32_t)l->swizzle << 61;
}

static uint32_t idesc_of(const struct problem *p)
{
    static const uint8_t codes[] = {0, 1, 2, 0, 1,
                                    3, 4, 5, 0, 1}; /* by enum mma_type */
    static const uint8_t results[] = {0, 1, 2};
    uint32_t id = (uint32_t)codes[p->a_type] << 7 | (uint32_t)codes[p->b_type] << 10 |
                  (uint32_t)p->a_by_m << 15 | (uint32_t)p->b_by_n << 16 |
                  (uint32_t)(p->n / 8) << 17 | (uint32_t)(p->m / 16) << 24;
    return p->scaled ? id | 1u << 23 | 2u << 29 | 1u << 4
                     : id | (uint32_t)results[p->result] << 4;
}

static const char *substitute(struct arena *a, const char *text, const char *from,
                              const char *to)
{
    struct buf b;
    buf_init(&b, a);
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        buf_add(&b, text, (size_t)(p - text));
        buf_add(&b, to, strlen(to));
    }
    buf_add(&b, text, strlen(text) + 1);
    return b.data;
}

static uint8_t pa[256 * 32], pb[256 * 32], scale_a[256], scale_b[256];
static uint8_t image[2][65536];

/* Scales of `rows` rows as a 512-byte block a 128 rows: byte `id` of row r's word. */
static void lay_scales(uint8_t *to, const uint8_t *scales, int rows, int id)
{
    for (int r = 0; r < rows; r++)
        to[r / 128 * 512 + r % 32 * 16 + r % 128 / 32 * 4 + id] = scales[r];
}

static void run_problem(const struct problem *p, bool lazy)
{
    size_t bytes;
    struct emu_run r = {.threads = 128, .smem_bytes = 66 * 1024, .lazy = lazy};
    struct arena *arena = arena_new();
    const char *text = file_read(arena, "tests/emu/mma_kinds.ptx", &bytes);
    CHECK(text != NULL);
    char operands[96];
    const char *a = p->source == A_IN_TENSOR_MEMORY ? "[r0]" : "ad";
    snprintf(operands, sizeof operands, "[tm], %s, bd, id, %s;", a,
             p->operands ? p->operands
             : p->scaled ? "[r1], [r2], acc"
                         : "acc");
    if (p->group == 2)
        text = substitute(arena, text, "cta_group::1", "cta_group::2");
    else
        text = substitute(arena, text, "mask, 3;", "mask, 1;");
    text = substitute(arena, text, "kind::f16 [tm], ad, bd, id, acc;",
                      arena_printf(arena, "%s %s", p->kind, operands));
    if (!p->accumulate)
        text =
            substitute(arena, text, "setp.eq.u32 acc, t, 0;", "setp.ne.u32 acc, t, 0;");
    r.ptx = text;
    r.grid[0] = r.cluster[0] = (uint32_t)p->group;

    for (int row = 0; row < p->m; row++)
        for (int k = 0; k < k_of(p->a_type); k++)
            put_element(p->a_type, pa + row * 32, k, easy_code(p->a_type));
    for (int row = 0; row < p->n; row++)
        for (int k = 0; k < k_of(p->b_type); k++)
            put_element(p->b_type, pb + row * 32, k, easy_code(p->b_type));
    for (int i = 0; i < 256; i++) {
        scale_a[i] = (uint8_t)(125 + random_below(5));
        scale_b[i] = (uint8_t)(125 + random_below(5));
    }
    int a_rows_of = p->m / p->group, b_rows_of = p->n / p->group;
    struct layout la = {.swizzle = p->swizzle, .by_row = p->a_by_m}, lb, first_b = {0};
    uint32_t used = 0, sf_at = 0;
    for (int c = 0; c < p->group; c++) {
        memset(image[c], 0x5a, sizeof image[c]);
        la.start = 0;
        lb = (struct layout){.swizzle = p->swizzle, .by_row = p->b_by_n};
        lb.start = lay(&la, p->a_type, pa + c * a_rows_of * 32, a_rows_of, image[c]);
        used = lay(&lb, p->b_type, pb + c * b_rows_of * 32, b_rows_of, image[c]);
        first_b = lb;
        sf_at = used;
        lay_scales(image[c] + used, scale_a + c * a_rows_of, a_rows_of, 2);
        lay_scales(image[c] + used + 512, scale_b, p->n, 1);
        used += 2048;
    }
    CHECK(used <= sizeof image[0]);
    la.start += 1024;
    first_b.start += 1024;
    struct layout sf = {.start = sf_at + 1024, .sbo = 128, .lbo = 16};
    uint64_t in = emu_alloc(&r, (size_t)used * 2), out = emu_alloc(&r, 2 * 131072);
    uint64_t rows = 0, sf_desc = p->scaled ? descriptor(&sf) : 0;
    for (int c = 0; c < p->group; c++)
        memcpy(emu_bytes(in) + (size_t)c * used, image[c], used);
    if (p->source == A_IN_TENSOR_MEMORY) {
        rows = emu_alloc(&r, sizeof pa);
        memcpy(emu_bytes(rows), pa, sizeof pa);
    }
    uint64_t a_desc = descriptor(&la), b_desc = descriptor(&first_b);
    /* 3 in each type of D */
    static const uint32_t threes[] = {0x4200, 0x40400000, 3};
    uint32_t id = idesc_of(p), n = (uint32_t)p->n, blocks = (n + 127) / 128;
    if (p->group == 2 && p->m == 128)
        n /= 2;
    emu_param(&r, &in, 8);
    emu_param(&r, &out, 8);
    emu_param(&r, &rows, 8);
    emu_param(&r, &a_desc, 8);
    emu_param(&r, &b_desc, 8);
    emu_param(&r, &sf_desc, 8);
    emu_param(&r, &used, 4);
    emu_param(&r, &id, 4);
    emu_param(&r, &n, 4);
    emu_param(&r, &threes[p->result], 4);
    emu_param(&r, &blocks, 4);
    EMU_FINE(&r);
    CHECK_EQ(report_warnings(r.machine.report), 0);

    for (int row = 0; row < p->m; row++)
        for (int column = 0; column < p->n; column++) {
            double want = 0, got;
            for (int k = 0; k < k_of(p->a_type); k++)
                want += double_of(p->a_type, element(p->a_type, pa + row * 32, k)) *
                        double_of(p->b_type, element(p->b_type, pb + column * 32, k));
            if (p->scaled)
                want = ldexp(want, scale_a[row] + scale_b[column] - 254);
            want += p->accumulate ? ldexp(3, -p->scale_d_down) : 0;
            int c = row / a_rows_of, own = row % a_rows_of, lane = own, at = column;
            if (p->group == 1 && p->m == 64)
                lane = own / 16 * 32 + own % 16;
            if (p->group == 2 && p->m == 128) {
                lane = own + (column >= p->n / 2 ? 64 : 0);
                at = column % (p->n / 2);
            }
            if (p->masked[lane / 32] >> lane % 32 & 1)
                want = 3;
            if (p->result == MMA_TO_F16 && want != 0) {
                int e;
                frexp(want, &e);
                want = ldexp(nearbyint(ldexp(want, 11 - e)), e - 11);
            }
            uint32_t bits = emu_u32(out)[c * 32768 + lane * 256 + at];
            struct number x = number_of(MMA_F16, bits & 0xffff);
            float f;
            memcpy(&f, &bits, 4);
            got = p->result == MMA_TO_S32 ? (int32_t)bits
                  : p->result == MMA_TO_F32
                      ? (double)f
                      : ldexp(x.negative ? -(double)x.significand : x.significand,
                              x.exponent);
            if (got != want)
                test_fail(__FILE__, __LINE__, "%s %s: D[%d][%d] is %g, not %g", p->kind,
                          lazy ? "lazy" : "eager", row, column, got, want);
        }
    emu_done(&r);
    arena_free(arena);
}

static void run_both(struct problem p)
{
    random_state = (uint64_t)(p.m * 1000 + p.n + p.swizzle);
    run_problem(&p, false);
    run_problem(&p, true);
}

static const int swizzles[] = {0, 2, 4, 6};

TEST(kinds_along_k)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 64,
                                  s, .accumulate = false});
        run_both((struct problem){"kind::f16", MMA_BF16, MMA_BF16, MMA_TO_F32, 1, 128,
                                  32, s, .accumulate = true});
        run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128,
                                  48, s, .accumulate = false});
        run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E5M2, MMA_TO_F32, 1,
                                  128, 80, s, .accumulate = true});
        run_both((struct problem){"kind::i8", MMA_U8, MMA_S8, MMA_TO_S32, 1, 128, 32, s,
                                  .accumulate = true});
    }
}

TEST(narrow_elements_in_their_slots)
{
    run_both((struct problem){"kind::f8f6f4", MMA_E2M3, MMA_E3M2, MMA_TO_F32, 1, 128,
                              32, 2, .accumulate = false});
    run_both((struct problem){"kind::f8f6f4", MMA_E2M1, MMA_E4M3, MMA_TO_F32, 1, 128,
                              32, 2, .accumulate = false});
    run_both((struct problem){"kind::mxf8f6f4.block_scale", MMA_E3M2, MMA_E2M1,
                              MMA_TO_F32, 1, 128, 40, 2, .scaled = true});
}

TEST(block_scales_of_32)
{
    run_both((struct problem){"kind::mxf8f6f4.block_scale", MMA_E4M3, MMA_E4M3,
                              MMA_TO_F32, 1, 128, 128, 2, .scaled = true,
                              .accumulate = true});
    run_both((struct problem){"kind::mxf8f6f4.block_scale.block32", MMA_E5M2, MMA_E4M3,
                              MMA_TO_F32, 2, 256, 256, 2, .scaled = true});
}

TEST(sums_in_f16)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F16, 1, 128, 32, 2,
                              .accumulate = true});
}

TEST(operands_along_m_and_n)
{
    for (size_t i = 0; i < COUNT_OF(swizzles); i++) {
        int s = swizzles[i];
        run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128,
                                  128, s, .b_by_n = true});
        run_both((struct problem){"kind::f16", MMA_BF16, MMA_BF16, MMA_TO_F32, 1, 128,
                                  64, s, .a_by_m = true, .b_by_n = true});
        run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E4M3, MMA_TO_F32, 1,
                                  128, 128, s, .a_by_m = true, .b_by_n = true});
    }
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 2, 256, 256, 2,
                              .a_by_m = true, .b_by_n = true});
}

TEST(a_in_tensor_memory)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 64, 2,
                              .source = A_IN_TENSOR_MEMORY});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128, 64,
                              2, .source = A_IN_TENSOR_MEMORY, .accumulate = true});
    run_both((struct problem){"kind::f8f6f4", MMA_E4M3, MMA_E5M2, MMA_TO_F32, 2, 256,
                              64, 2, .source = A_IN_TENSOR_MEMORY});
    run_both((struct problem){"kind::i8", MMA_S8, MMA_S8, MMA_TO_S32, 1, 128, 64, 2,
                              .source = A_IN_TENSOR_MEMORY, .accumulate = true});
}

TEST(other_shapes)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 64, 72, 2,
                              .accumulate = true});
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 2, 128, 64, 2,
                              .accumulate = true});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 2, 256, 96,
                              2, .accumulate = false});
}

TEST(masked_lanes_and_a_scaled_accumulator)
{
    run_both((struct problem){"kind::f16", MMA_F16, MMA_F16, MMA_TO_F32, 1, 128, 32, 2,
                              .accumulate = true, .operands = "{m0, m1, m2, m3}, acc",
                              .masked = {0, 0xff, 0, 0x80000000}});
    run_both((struct problem){"kind::tf32", MMA_TF32, MMA_TF32, MMA_TO_F32, 1, 128, 32,
                              2, .accumulate = true, .operands = "acc, 3",
                              .scale_d_down = 3});
}
