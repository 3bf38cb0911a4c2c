/* t_mma_any.c - the arithmetic of MMAs of the kinds other than FP4, bit for bit against
 * long integers. */
#include "tests/mma_data.h"
#include "tests/natural.h"
#include "tests/test.h"

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

static uint8_t a_rows[ROWS * 32], b_rows[COLUMNS * 32], sfa[ROWS * 4], sfb[COLUMNS * 4];
static uint32_t d_cells[ROWS * COLUMNS], d_before[ROWS * COLUMNS];

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
                random_state = ((uint64_t)a * 16 + (uint64_t)b) * 100 +
                               (uint64_t)range * 10 + (uint64_t)i;
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
