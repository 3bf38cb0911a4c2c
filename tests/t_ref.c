/* t_ref.c - is the reference right?  Against literals, against laws, and against
 * NVIDIA's own host conversions. */
#include "tests/ref.h"
#include "tests/nv_codecs.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(e2m1_values_and_ties)
{
    /* cases N1 and N2 */
    static const struct {
        double x;
        unsigned code, halfstep;
    } rows[] = {
        {0, 0, 0},        {0.25, 0, 0},  {0.2500001, 1, 1}, {0.75, 2, 2}, {1.25, 2, 2},
        {1.75, 4, 4},     {2.5, 4, 4},   {3.5, 6, 6},       {5.0, 6, 6},  {5.25, 7, 6},
        {5.1, 7, 6},      {2.6, 5, 4},   {3.3, 5, 6},       {6, 7, 7},    {1e30, 7, 7},
        {INFINITY, 7, 7}, {1e-40, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(ref_e2m1_nearest(rows[i].x), rows[i].code);
        CHECK_EQ(ref_e2m1_nearest(-rows[i].x), rows[i].code + 8);
        CHECK_EQ(ref_e2m1_halfstep(rows[i].x), rows[i].halfstep);
        CHECK_EQ(ref_e2m1_halfstep(-rows[i].x), rows[i].halfstep + 8);
    }
    CHECK_EQ(ref_e2m1_nearest((double)NAN), 7);
    CHECK_EQ(ref_e2m1_nearest(-(double)NAN), 7);
}

TEST(e4m3_values_and_ties)
{
    /* cases N3, N4, N5 */
    static const struct {
        double x;
        unsigned code;
    } rows[] = {
        {250, 0x78},    {248, 0x78},     {244, 0x77},       {240, 0x77},
        {0.001, 0x01},  {0x1p-10, 0x00}, {1.5 / 512, 0x02}, {448, 0x7e},
        {464, 0x7e},    {480, 0x7e},     {500, 0x7e},       {INFINITY, 0x7e},
        {0x1p-6, 0x08}, {0x1p-9, 0x01},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(ref_e4m3_nearest(rows[i].x), rows[i].code);
        CHECK_EQ(ref_e4m3_nearest(-rows[i].x), rows[i].code + 0x80);
    }
    CHECK_EQ(ref_e4m3_nearest((double)NAN), 0x7f);
}

TEST(e4m3_table_is_the_formula)
{
    /* case N7, and the traps of the reports: bias 7, subnormals m/512, exponent 15 */
    for (unsigned byte = 0; byte < 127; byte++) {
        int exponent = (int)byte >> 3;
        double m = byte & 7;
        double value = exponent == 0 ? m / 512 : (1 + m / 8) * ldexp(1.0, exponent - 7);
        CHECK(ref_e4m3(byte) == value);
        CHECK(ref_e4m3(byte + 128) == -value);
        CHECK(ref_ue4m3(byte + 128) == value);
        CHECK_EQ(ref_e4m3_nearest(value), byte);
    }
    CHECK(isnan(ref_e4m3(0x7f)) && isnan(ref_e4m3(0xff)) && isnan(ref_ue4m3(0xff)));
    CHECK(ref_e4m3(1) == 0.001953125);
    CHECK(ref_e4m3(0x7e) == 448);
}

TEST(bf16_goes_there_and_back)
{
    for (unsigned bits = 0; bits < 0x7f80; bits++) {
        double value = ref_bf16(bits), next = ref_bf16(bits + 1);
        CHECK_EQ(ref_bf16_nearest(value), bits);
        CHECK_EQ(ref_bf16_nearest(-value), bits + 0x8000);
        if (isinf(next))
            next = 0x1p128;
        CHECK(next > value);
        double middle = value + (next - value) / 2;
        CHECK_EQ(ref_bf16_nearest(middle), bits + bits % 2);
        CHECK_EQ(ref_bf16_nearest(nextafter(middle, 0)), bits);
        CHECK_EQ(ref_bf16_nearest(nextafter(middle, next)), bits + 1);
        if (value != 0)
            CHECK(ref_bf16_ulp(value) == next - value);
    }
    CHECK_EQ(ref_bf16_nearest((double)NAN), 0x7fff);
    CHECK_EQ(ref_bf16_nearest(-(double)INFINITY), 0xff80);
    CHECK(ref_f32_ulp(1) == 0x1p-23 && ref_f32_ulp(1.99) == 0x1p-23);
    CHECK(ref_f32_ulp(2) == 0x1p-22 && ref_f32_ulp(0) == 0x1p-149);
}

/* Asks NVIDIA and the reference about one number. */
static void agree(float x)
{
    double exact = (double)x;
    if (nv_e2m1_encode(x) != ref_e2m1_nearest(exact) ||
        nv_e4m3_encode(x) != ref_e4m3_nearest(exact) ||
        (!isnan(x) && nv_bf16_encode(x) != ref_bf16_nearest(exact)))
        test_fail(__FILE__, __LINE__, "%a: e2m1 %x %x, e4m3 %x %x, bf16 %x %x", exact,
                  nv_e2m1_encode(x), ref_e2m1_nearest(exact), nv_e4m3_encode(x),
                  ref_e4m3_nearest(exact), nv_bf16_encode(x), ref_bf16_nearest(exact));
}

static void agree_around(float x)
{
    agree(x);
    agree(nextafterf(x, INFINITY));
    agree(nextafterf(x, -INFINITY));
    agree(-x);
    agree(nextafterf(-x, INFINITY));
    agree(nextafterf(-x, -INFINITY));
}

TEST(nvidia_decodes_alike)
{
    if (!nv_available())
        SKIP("no g++ or no cuda_fp4.h");
    for (unsigned code = 0; code < 16; code++) {
        CHECK((double)nv_e2m1_decode(code) == ref_e2m1(code));
        CHECK(!signbit(nv_e2m1_decode(code)) == !signbit(ref_e2m1(code)));
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        if (isnan(ref_e4m3(byte)))
            CHECK(isnan(nv_e4m3_decode(byte)));
        else
            CHECK((double)nv_e4m3_decode(byte) == ref_e4m3(byte));
        if (isnan(ref_ue8m0(byte)))
            CHECK(isnan(nv_ue8m0_decode(byte)));
        else
            CHECK((double)nv_ue8m0_decode(byte) == ref_ue8m0(byte));
    }
}

TEST(nvidia_encodes_alike)
{
    if (!nv_available())
        SKIP("no g++ or no cuda_fp4.h");
    for (unsigned code = 0; code < 8; code++) {
        agree_around((float)ref_e2m1(code));
        if (code < 7)
            agree_around((float)((ref_e2m1(code) + ref_e2m1(code + 1)) / 2));
    }
    for (unsigned byte = 0; byte < 0x7f; byte++) {
        agree_around((float)ref_ue4m3(byte));
        if (byte < 0x7e)
            agree_around((float)((ref_ue4m3(byte) + ref_ue4m3(byte + 1)) / 2));
    }
    agree_around(464.0f);
    agree_around(480.0f);
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        uint32_t word =
            bits << 16 | (bits % 3 == 0 ? 0x8000 : bits * 2654435761u >> 16);
        float x, exact;
        memcpy(&x, &word, sizeof x);
        word = bits << 16;
        memcpy(&exact, &word, sizeof exact);
        agree(exact);
        agree(x);
    }
}

TEST(scale_offsets)
{
    /* tcgen05 facts, table of "128x4 blocks" */
    CHECK_EQ(ref_sf_offset(0, 0, 512), 0);
    CHECK_EQ(ref_sf_offset(1, 0, 512), 16);
    CHECK_EQ(ref_sf_offset(31, 0, 512), 496);
    CHECK_EQ(ref_sf_offset(32, 0, 512), 4);
    CHECK_EQ(ref_sf_offset(127, 3, 512), 511);
    CHECK_EQ(ref_sf_offset(0, 4, 512), 512);
    CHECK_EQ(ref_sf_offset(128, 0, 512), 4096);
    CHECK_EQ(ref_sf_offset(200, 17, 512), 6281);

    /* Every scale of a padded matrix has a byte of its own, and none is left over. */
    enum { ROWS = 384, K = 320 };
    static unsigned char seen[ROWS * K / 16];
    CHECK_EQ(ref_sf_bytes(ROWS, K), sizeof seen);
    CHECK_EQ(ref_sf_bytes(ROWS - 127, K - 63), sizeof seen);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t kb = 0; kb < K / 16; kb++) {
            size_t at = ref_sf_offset(row, kb, K - 10);
            CHECK(at < sizeof seen && !seen[at]);
            seen[at] = 1;
        }
}

TEST(blocks_are_quantised_by_definition)
{
    float x[16] = {0};
    uint8_t codes[16], scale;

    /* case N8: zeros in a tensor with amax 1 */
    ref_quantize_block(x, 16, 1.0f / 2688, false, codes, &scale);
    CHECK_EQ(scale, 0);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(codes[i], 0);

    /* amax 6, global 1: the scale is 1 and codes are those of the values */
    for (int i = 0; i < 16; i++)
        x[i] = (float)ref_e2m1((unsigned)i);
    ref_quantize_block(x, 16, 1, false, codes, &scale);
    CHECK_EQ(scale, 0x38);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(codes[i], i);

    /* case N11: below half of the smallest subnormal the block vanishes */
    for (int i = 0; i < 16; i++)
        x[i] = 6 * 0x1p-11f;
    ref_quantize_block(x, 16, 1, false, codes, &scale);
    CHECK_EQ(scale, 0);
    CHECK_EQ(codes[0], 0);

    /* 5.2 of amax 6 is where the double rounding of the reports goes astray */
    x[0] = 6;
    x[1] = 5.2f;
    ref_quantize_block(x, 16, 1, false, codes, &scale);
    CHECK_EQ(codes[1], 7);
    ref_quantize_block(x, 16, 1, true, codes, &scale);
    CHECK_EQ(codes[1], 6);

    x[2] = INFINITY;
    ref_quantize_block(x, 16, 1, false, codes, &scale);
    CHECK_EQ(scale, 0x7e);
    CHECK_EQ(codes[2], 7);
}

enum { M = 133, N = 70, K = 200, LD = K / 2 + 12 };

struct problem {
    struct ref_gemm g;
    uint8_t a[M * LD], b[N * LD];
    uint8_t sfa[2 * 4 * 512], sfb[4 * 512];
};

static struct problem *random_problem(unsigned seed)
{
    struct problem *p = calloc(1, sizeof *p);
    CHECK(p);
    p->g = (struct ref_gemm){M, N, K, p->a, p->b, LD, LD, p->sfa, p->sfb, 0.75};
    uint64_t state = seed;
    uint8_t *const parts[] = {p->a, p->b, p->sfa, p->sfb};
    const size_t bytes[] = {sizeof p->a, sizeof p->b, sizeof p->sfa, sizeof p->sfb};
    for (size_t part = 0; part < COUNT_OF(parts); part++)
        for (size_t i = 0; i < bytes[part]; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint8_t byte = (uint8_t)(state >> 56);
            bool is_scale = part >= 2;
            parts[part][i] =
                is_scale && (byte & 0x7f) == 0x7f ? 0x38 : byte; /* no NaN */
        }
    return p;
}

TEST(gemm_is_its_elements)
{
    struct problem *p = random_problem(1);
    static struct ref_dot dots[M * N], part[10 * 3];
    CHECK(ref_gemm(&p->g, 0, M, 0, N, dots));
    CHECK(ref_gemm(&p->g, 120, 130, 67, 70, part));
    for (size_t row = 0; row < M; row++)
        for (size_t col = 0; col < N; col++) {
            struct ref_dot one = ref_gemm_element(&p->g, row, col);
            CHECK(dots[row * N + col].value == one.value);
            CHECK(dots[row * N + col].magnitude == one.magnitude);
            CHECK(fabs(one.value) <= one.magnitude);
            if (row >= 120 && row < 130 && col >= 67)
                CHECK(part[(row - 120) * 3 + col - 67].value == one.value);
        }
    free(p);
}

TEST(one_hot_selects)
{
    /* A row of A with one 1.0 at column k and scale 1.0 gives column k of B. */
    struct problem *p = random_problem(2);
    p->g.alpha = 1;
    memset(p->a, 0, sizeof p->a);
    memset(p->sfa, 0x38, sizeof p->sfa);
    for (size_t row = 0; row < M; row++) {
        size_t k = row * 37 % K;
        p->a[row * LD + k / 2] = k % 2 ? 0x20 : 0x02;
        for (size_t col = 0; col < N; col++) {
            unsigned byte = p->b[col * LD + k / 2];
            unsigned code = k % 2 ? byte >> 4 : byte & 15;
            size_t at = (col % 32) * 16 + col / 32 * 4 + k / 64 * 512 + k % 64 / 16;
            double want = ref_e2m1(code) * ref_ue4m3(p->sfb[at]);
            CHECK(ref_gemm_element(&p->g, row, col).value == want);
        }
    }
    free(p);
}

TEST(bound_catches_what_lies_outside)
{
    struct ref_dot r = {3.0, 5.0};
    double bound = 3 * 5.0 * 0x1p-23 + 0.5 * 0x1p-6; /* K = 128; bf16 ulp of 3 */
    CHECK(ref_bound(r, 128, false) == bound);
    CHECK(ref_error(3 + bound, r, 128, false) <= 1);
    CHECK(ref_error(3 - bound * 1.001, r, 128, false) > 1);
    CHECK(ref_error(3.0 + 0x1p-6, r, 128, false) > 1); /* the next bf16 is refused */
    CHECK(ref_error(3.0 + 0x1p-6, r, 128, true) > 1000);
    CHECK(isinf(ref_error((double)NAN, r, 128, true)));
    r.value = (double)NAN;
    CHECK(isinf(ref_error(3, r, 128, true)));
    CHECK(ref_error((double)NAN, r, 128, true) == 0);
}

TEST(infinities_are_right_where_the_type_ends)
{
    const double inf = (double)INFINITY;
    struct ref_dot huge = {-5e38, 5e38}, large = {3.2e38, 3.2e38}, all = {inf, inf};
    CHECK(ref_error(-inf, huge, 64, true) == 0);
    CHECK(ref_error(-inf, huge, 64, false) == 0);
    CHECK(isinf(ref_error(inf, huge, 64, true)));
    CHECK(ref_error(-0x1.fep127, huge, 64, false) > 1);
    CHECK(isinf(ref_error(inf, large, 64, false)));
    large.value = 0x1.ff8p127; /* between the ends of bf16 and of f32 */
    CHECK(ref_error(inf, large, 64, false) == 0);
    CHECK(isinf(ref_error(inf, large, 64, true)));
    CHECK(ref_error(inf, all, 64, true) == 0);
    CHECK(isinf(ref_error(3, all, 64, true)));
    CHECK(isinf(ref_error(-inf, all, 64, true)));
}
