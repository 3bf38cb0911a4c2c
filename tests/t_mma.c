/* t_mma.c - the FP4 arithmetic in both modes, bit for bit, against long integers. */
#include "emu/mma_fp4.h"
#include "tests/natural.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the reference */

static const unsigned e2m1_halves[8] = {0, 1, 2, 3, 4, 6, 8, 12};

/* value = significand * 2^exponent; false for NaN */
static bool scale_value(unsigned byte, bool ue8m0, unsigned *significand, int *exponent)
{
    if (ue8m0) {
        *significand = 1;
        *exponent = (int)byte - 127;
        return byte != 255;
    }
    unsigned e = byte >> 3 & 15, m = byte & 7;
    *significand = e != 0 ? m + 8 : m;
    *exponent = (e != 0 ? (int)e : 1) - 10;
    return (byte & 127) != 127;
}

/* Exponent of a number of this format as one with the digit before the point 1, or 0
 * for what lies below its normal range; that of a zero is no exponent at all. */
static int scale_exponent(unsigned byte, bool ue8m0)
{
    if (ue8m0)
        return (int)byte - 127;
    unsigned e = byte >> 3 & 15;
    if ((byte & 127) == 0)
        return -1000;
    return (e != 0 ? (int)e : 1) - 7;
}

/* Mode hardware: five terms, each cut at 35 digits behind the point of the one with the
 * largest exponent; a sum, cut. */
static uint32_t expected_of_model(const struct mma_fp4 *m, int row, int column,
                                  uint32_t d)
{
    struct natural sums[2] = {{{0}}, {{0}}}; /* of positive and of negative terms */
    int largest = -126;
    unsigned d_field = d >> 23 & 255, d_fraction = d & 0x7fffff;
    if (m->accumulate && d_field > 1)
        largest = (int)d_field - 127;
    for (int block = 0; block < 4; block++) {
        unsigned sa = m->sfa[row * 4 + block], sb = m->sfb[column * 4 + block];
        int e = scale_exponent(sa, m->ue8m0) + scale_exponent(sb, m->ue8m0);
        largest = e > largest ? e : largest;
    }
    for (int block = 0; block < 4; block++) {
        unsigned sa, sb;
        int ea, eb, sum = 0;
        if (!scale_value(m->sfa[row * 4 + block], m->ue8m0, &sa, &ea) ||
            !scale_value(m->sfb[column * 4 + block], m->ue8m0, &sb, &eb))
            return 0x7fffffff;
        for (int k = block * 16; k < block * 16 + 16; k++) {
            unsigned a = m->a[row * 32 + k / 2] >> (k % 2 * 4) & 15;
            unsigned b = m->b[column * 32 + k / 2] >> (k % 2 * 4) & 15;
            int product = (int)(e2m1_halves[a & 7] * e2m1_halves[b & 7]);
            sum += ((a ^ b) >> 3 & 1) != m->negate ? -product : product;
        }
        struct natural term = {{0}};
        natural_add(&term, (unsigned)abs(sum) * sa * sb, ea + eb - 2);
        natural_cut(&term, largest - 35);
        for (int i = 0; i < DIGITS; i++)
            natural_add(&sums[sum < 0], term.digit[i], UNIT_EXPONENT + 16 * i);
    }
    if (m->accumulate) {
        if (d_field == 255)
            return d_fraction ? 0x7fffffff : d;
        struct natural term = {{0}};
        natural_add(&term, d_field ? d_fraction + (1 << 23) : d_fraction,
                    (d_field ? (int)d_field : 1) - 150);
        natural_cut(&term, largest - 35);
        for (int i = 0; i < DIGITS; i++)
            natural_add(&sums[d >> 31], term.digit[i], UNIT_EXPONENT + 16 * i);
    }
    bool negative = natural_compare(&sums[1], &sums[0]) > 0;
    struct natural r = natural_subtract(&sums[negative], &sums[!negative]);
    uint32_t bits = natural_cut_to_f32(&r);
    return bits != 0 && negative ? bits | 0x80000000 : bits;
}

static uint32_t expected(const struct mma_fp4 *m, int row, int column, uint32_t d)
{
    if (m->mode == MMA_HARDWARE)
        return expected_of_model(m, row, column, d);
    struct natural plus = {{0}}, minus = {{0}};
    for (int k = 0; k < 64; k++) {
        unsigned a = m->a[row * 32 + k / 2] >> (k % 2 * 4) & 15;
        unsigned b = m->b[column * 32 + k / 2] >> (k % 2 * 4) & 15;
        unsigned sa, sb;
        int ea, eb;
        if (!scale_value(m->sfa[row * 4 + k / 16], m->ue8m0, &sa, &ea) ||
            !scale_value(m->sfb[column * 4 + k / 16], m->ue8m0, &sb, &eb))
            return 0x7fffffff;
        bool negative = ((a ^ b) >> 3 & 1) != m->negate;
        natural_add(negative ? &minus : &plus,
                    e2m1_halves[a & 7] * e2m1_halves[b & 7] * sa * sb, ea + eb - 2);
    }
    if (m->accumulate) {
        unsigned e = d >> 23 & 255, f = d & 0x7fffff;
        if (e == 255)
            return f ? 0x7fffffff : d;
        natural_add(d >> 31 ? &minus : &plus, e ? f + (1 << 23) : f,
                    (e ? (int)e : 1) - 150);
    }
    int order = natural_compare(&plus, &minus);
    if (order == 0)
        return 0;
    struct natural r =
        order > 0 ? natural_subtract(&plus, &minus) : natural_subtract(&minus, &plus);
    return natural_to_f32(&r) | (order > 0 ? 0 : 0x80000000);
}

/* ---- data */

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

struct data {
    uint8_t a[128 * 32], b[256 * 32], sfa[128 * 4], sfb[256 * 4];
    uint32_t d[256 * 128];
    struct mma_fp4 mma;
};

enum scales { NARROW, ANY_FINITE, SUBNORMAL, WITH_NAN };
enum old_d { SMALL, RANDOM_F32, TIES, HUGE_D, SPECIAL };

static uint8_t random_scale(enum scales kind, bool ue8m0)
{
    switch (kind) {
    case NARROW:
        return (uint8_t)(ue8m0 ? 124 + random_below(5) : 0x38 + random_below(16));
    case ANY_FINITE:
        return (uint8_t)(random_below(ue8m0 ? 255 : 127) |
                         (!ue8m0 && random_below(4) == 0 ? 0x80 : 0));
    case SUBNORMAL:
        return (uint8_t)random_below(ue8m0 ? 3 : 10);
    case WITH_NAN:
        if (random_below(40) == 0)
            return ue8m0 ? 0xff : random_below(2) ? 0x7f : 0xff;
        return (uint8_t)random_below(ue8m0 ? 255 : 127);
    }
    return 0;
}

static uint32_t random_d(enum old_d kind)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x7f800001, 0xffffffff, 1,
                                       0x80000001, 0x7f7fffff, 0x00800000, 0x33000000};
    switch (kind) {
    case SMALL:
        return bits_of_f32((float)(int)(random_below(2001) - 1000) / 8);
    case RANDOM_F32: /* finite, any exponent */
        return (random_bits() & 0x807fffff) | random_below(255) << 23;
    case TIES: /* last place near the least quantum of the products */
        return (random_bits() & 0x807fffff) | (127 + random_below(30)) << 23;
    case HUGE_D:
        return (random_bits() & 0x807fffff) | (250 + random_below(5)) << 23;
    case SPECIAL:
        return special[random_below(sizeof special / sizeof special[0])];
    }
    return 0;
}

static void fill(struct data *x, enum scales scales, enum old_d old_d, bool ue8m0)
{
    for (size_t i = 0; i < sizeof x->a; i++)
        x->a[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < sizeof x->b; i++)
        x->b[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < sizeof x->sfa; i++)
        x->sfa[i] = random_scale(scales, ue8m0);
    for (size_t i = 0; i < sizeof x->sfb; i++)
        x->sfb[i] = random_scale(scales, ue8m0);
    for (size_t i = 0; i < 256 * 128; i++)
        x->d[i] = random_d(old_d);
    x->mma = (struct mma_fp4){.a = x->a,
                              .b = x->b,
                              .sfa = x->sfa,
                              .sfb = x->sfb,
                              .d = x->d,
                              .n = 256,
                              .ue8m0 = ue8m0,
                              .accumulate = true};
}

/* Runs every path that this CPU has on the same data. */
static void check_mode(struct data *x, enum mma_mode mode, int samples)
{
    x->mma.mode = mode;
    static uint32_t before[256 * 128], scalar[256 * 128];
    const size_t bytes = (size_t)x->mma.n * 128 * 4;
    memcpy(before, x->d, bytes);
    mma_fp4(MMA_SCALAR, &x->mma);
    memcpy(scalar, x->d, bytes);
    for (int i = 0; i < samples; i++) {
        int row = (int)random_below(128),
            column = (int)random_below((uint32_t)x->mma.n);
        uint32_t want = expected(&x->mma, row, column, before[column * 128 + row]);
        uint32_t got = scalar[column * 128 + row];
        if (got != want)
            test_fail(
                __FILE__, __LINE__, "%s: row %d column %d D %08x: %08x, expected %08x",
                mma_mode_name(mode), row, column, (unsigned)before[column * 128 + row],
                (unsigned)got, (unsigned)want);
    }
    for (int isa = MMA_AVX2; isa < MMA_ISA_COUNT; isa++) {
        if (!mma_isa_available((enum mma_isa)isa))
            continue;
        memcpy(x->d, before, bytes);
        mma_fp4((enum mma_isa)isa, &x->mma);
        for (int i = 0; i < x->mma.n * 128; i++)
            if (x->d[i] != scalar[i])
                test_fail(__FILE__, __LINE__,
                          "%s, %s: row %d column %d D %08x: %08x, scalar %08x",
                          mma_mode_name(mode), mma_isa_name((enum mma_isa)isa), i % 128,
                          i / 128, (unsigned)before[i], (unsigned)x->d[i],
                          (unsigned)scalar[i]);
    }
    memcpy(x->d, before, bytes);
}

/* Leaves the reference mode's result in D. */
static void check_all_paths(struct data *x, int samples)
{
    check_mode(x, MMA_HARDWARE, samples);
    check_mode(x, MMA_REFERENCE, samples);
    mma_fp4(MMA_SCALAR, &x->mma);
}

static struct data data;

static void check_mix(enum scales scales, bool ue8m0)
{
    for (int old_d = SMALL; old_d <= SPECIAL; old_d++)
        for (int i = 0; i < 2; i++) {
            random_state =
                (uint64_t)scales * 1000 + (uint64_t)(old_d * 10 + i) + ue8m0 * 500;
            fill(&data, scales, (enum old_d)old_d, ue8m0);
            data.mma.negate = i == 1;
            check_all_paths(&data, 3000);
        }
}

TEST(scales_of_similar_size)
{
    check_mix(NARROW, false);
}

TEST(scales_of_any_size)
{
    check_mix(ANY_FINITE, false);
}

TEST(subnormal_scales)
{
    check_mix(SUBNORMAL, false);
}

TEST(nan_scales_poison_their_rows_and_columns)
{
    check_mix(WITH_NAN, false);
}

TEST(ue8m0_scales)
{
    check_mix(NARROW, true);
    check_mix(ANY_FINITE, true);
    check_mix(SUBNORMAL, true);
    check_mix(WITH_NAN, true);
}

TEST(without_accumulation_old_values_do_not_matter)
{
    random_state = 7;
    fill(&data, ANY_FINITE, SPECIAL, false);
    data.mma.accumulate = false;
    check_all_paths(&data, 3000);
    uint32_t first = data.d[5];
    data.d[5] = 0x7fffffff;
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[5], first);
}

TEST(every_multiple_of_eight_columns)
{
    for (int n = 8; n <= 256; n += 8) {
        random_state = (uint64_t)n;
        fill(&data, NARROW, SMALL, false);
        data.mma.n = n;
        uint32_t beyond = n < 256 ? data.d[n * 128] : 0;
        check_all_paths(&data, 100);
        if (n < 256)
            CHECK_EQ(data.d[n * 128], beyond);
    }
}

TEST(zero_is_positive)
{
    memset(&data, 0, sizeof data);
    random_state = 3;
    fill(&data, NARROW, SMALL, false);
    memset(data.a, 0x88, sizeof data.a); /* -0 */
    for (int i = 0; i < 256 * 128; i++)
        data.d[i] = 0x80000000;
    check_all_paths(&data, 1000);
    CHECK_EQ(data.d[0], 0);
}

/* One product of 1 * 1 at scale 1, 2^-24 beside D = 1: the tie goes to even; with a
 * little more it must not, though an f64 sum of 2^-60 would be lost. */
TEST(one_rounding_only)
{
    memset(&data, 0, sizeof data);
    fill(&data, NARROW, SMALL, true);
    memset(data.a, 0, sizeof data.a);
    memset(data.b, 0, sizeof data.b);
    memset(data.sfa, 127, sizeof data.sfa);
    memset(data.sfb, 127, sizeof data.sfb);
    data.a[0] = data.b[0] = 2; /* element 0: 1.0 */
    data.a[8] = data.b[8] = 2; /* element 16 */
    data.sfa[0] = 127 - 24;
    data.sfa[1] = 127 - 36;
    for (int i = 0; i < 128 * 256; i++)
        data.d[i] = bits_of_f32(1);
    check_all_paths(&data, 10);
    CHECK_EQ(data.d[0], bits_of_f32(1) + 1);
    data.sfa[1] = 127 - 60;
    data.d[0] = bits_of_f32(1);
    check_all_paths(&data, 10);
    CHECK_EQ(data.d[0], bits_of_f32(1) + 1);
    data.a[8] = 0;
    data.d[0] = bits_of_f32(1);
    check_all_paths(&data, 10);
    CHECK_EQ(data.d[0], bits_of_f32(1));
}

/* What tells the modes apart: the second cut, the first, and their direction. */
TEST(hardware_cuts_towards_zero)
{
    memset(&data, 0, sizeof data);
    fill(&data, NARROW, SMALL, true);
    memset(data.a, 0, sizeof data.a);
    memset(data.b, 0, sizeof data.b);
    memset(data.sfa, 127, sizeof data.sfa);
    memset(data.sfb, 127, sizeof data.sfb);
    data.mma.mode = MMA_HARDWARE;
    data.a[0] = data.b[0] = 2; /* 1.0 in element 0, of a scale of 2^-24 */
    data.sfa[0] = 127 - 24;
    data.a[8] = data.b[8] = 2; /* and in element 16, of one of 2^-26 */
    data.sfa[1] = 127 - 26;
    data.d[0] = bits_of_f32(1);
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[0], bits_of_f32(1)); /* to nearest it would go up */
    data.b[0] = data.b[8] = 10;          /* -1.0 */
    data.d[0] = bits_of_f32(1);
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[0], bits_of_f32(1) - 2); /* 1 - 2^-24 - 2^-26, cut */
    /* A term of 2^-36 is cut off whole, and its neighbour of 2^-35 is not. */
    data.sfa[0] = 127 - 36;
    data.a[8] = 0;
    data.d[0] = bits_of_f32(1);
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[0], bits_of_f32(1));
    data.sfa[0] = 127 - 35;
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[0], bits_of_f32(1) - 1);
    /* The scales alone set the exponent, though the block's sum is zero. */
    data.sfa[1] = 127 + 10;
    data.d[0] = bits_of_f32(1);
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK_EQ(data.d[0], bits_of_f32(1));
}

TEST(modes_are_equal_on_small_integers)
{
    static uint32_t before[256 * 128], reference[256 * 128];
    random_state = 11;
    fill(&data, NARROW, SMALL, false);
    memset(data.sfa, 0x38, sizeof data.sfa);
    memset(data.sfb, 0x38, sizeof data.sfb);
    memcpy(before, data.d, sizeof before);
    mma_fp4(MMA_SCALAR, &data.mma);
    memcpy(reference, data.d, sizeof before);
    memcpy(data.d, before, sizeof before);
    data.mma.mode = MMA_HARDWARE;
    mma_fp4(MMA_SCALAR, &data.mma);
    CHECK(memcmp(data.d, reference, sizeof reference) == 0);
}

TEST(forced_paths)
{
    enum mma_isa isa;
    char why[128];
    CHECK(mma_isa_choose(NULL, &isa, why, sizeof why));
    CHECK(mma_isa_available(isa));
    CHECK(mma_isa_choose("scalar", &isa, why, sizeof why));
    CHECK_EQ(isa, MMA_SCALAR);
    CHECK(!mma_isa_choose("sse9", &isa, why, sizeof why));
    CHECK_STR(why, "there is no such path");
    for (int i = 0; i < MMA_ISA_COUNT; i++) {
        bool chosen =
            mma_isa_choose(mma_isa_name((enum mma_isa)i), &isa, why, sizeof why);
        CHECK_EQ(chosen, mma_isa_available((enum mma_isa)i));
        if (!chosen)
            CHECK(strstr(why, "this CPU or build has no") != NULL);
    }
}

/* The best of ten runs, in time of this thread's own. */
static double microseconds(enum mma_isa isa, int repeats)
{
    double best = 1e30;
    for (int run = 0; run < 10; run++) {
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (int i = 0; i < repeats; i++)
            mma_fp4(isa, &data.mma);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double us = (double)(to.tv_sec - from.tv_sec) * 1e6 +
                    (double)(to.tv_nsec - from.tv_nsec) / 1e3;
        best = us / repeats < best ? us / repeats : best;
    }
    return best;
}

/* Not a benchmark (that is bench/): a path that is slower than scalar code is broken.
 */
TEST(vector_paths_are_faster)
{
    for (int i = 0; i < 3; i++) {
        random_state = 1;
        fill(&data, i == 1 ? ANY_FINITE : NARROW, SMALL, false);
        data.mma.mode = i == 2 ? MMA_HARDWARE : MMA_REFERENCE;
        double scalar = microseconds(MMA_SCALAR, 1);
        for (int isa = MMA_AVX2; isa < MMA_ISA_COUNT; isa++)
            if (mma_isa_available((enum mma_isa)isa)) {
                double vector = microseconds((enum mma_isa)isa, 50);
                printf("%s, %s: %.1f us, scalar %.1f us\n",
                       mma_mode_name(data.mma.mode), mma_isa_name((enum mma_isa)isa),
                       vector, scalar);
                CHECK(vector < scalar);
            }
    }
}
