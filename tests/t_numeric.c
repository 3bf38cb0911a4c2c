/* t_numeric.c - laws that a GEMM obeys, on data that is exact in f32.
 *
 * No stored numbers and no reference: what is compared are two runs of generated
 * kernels. All products are multiples of 2^-4 below 2^19, so no sum of them is ever
 * rounded. */
#include "tests/device_gemm.h"
#include "tests/ref.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { M = 148, N = 200, K = 448, LD = K / 2, KBS = K / 16 };

struct data {
    struct ref_gemm g;
    uint8_t a[M * LD], b[N * LD];
    uint8_t sfa[2 * (K / 64) * 512], sfb[2 * (K / 64) * 512];
};

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Any codes; scales 0.5, 1, 2 and 4. */
static void fill(uint8_t *codes, uint8_t *scales, size_t rows)
{
    for (size_t i = 0; i < rows * LD; i++)
        codes[i] = (uint8_t)below(256);
    for (size_t row = 0; row < rows; row++)
        for (size_t kb = 0; kb < KBS; kb++)
            scales[ref_sf_offset(row, kb, K)] = (uint8_t)(0x30 + 8 * below(4));
}

static struct data *make_data(unsigned seed)
{
    struct data *p = calloc(1, sizeof *p);
    CHECK(p);
    state = seed;
    fill(p->a, p->sfa, M);
    fill(p->b, p->sfb, N);
    p->g = (struct ref_gemm){M, N, K, p->a, p->b, LD, LD, p->sfa, p->sfb, 1};
    return p;
}

static float *run(const struct ref_gemm *g)
{
    float *out = calloc(g->m * g->n, sizeof *out);
    CHECK(out);
    struct device_gemm *d = device_gemm_open("192", "128");
    device_gemm_run(d, g, false, out);
    device_gemm_close(d);
    return out;
}

static unsigned code_at(const uint8_t *codes, size_t row, size_t k)
{
    return k % 2 ? codes[row * LD + k / 2] >> 4 : codes[row * LD + k / 2] & 15;
}

static void set_code(uint8_t *codes, size_t row, size_t k, unsigned code)
{
    uint8_t *at = &codes[row * LD + k / 2];
    *at = (uint8_t)(k % 2 ? (*at & 0x0f) | code << 4 : (*at & 0xf0) | code);
}

TEST(doubled_scales_double_d)
{
    struct data *p = make_data(1);
    float *once = run(&p->g);
    for (size_t row = 0; row < M; row++)
        for (size_t kb = 0; kb < KBS; kb++)
            p->sfa[ref_sf_offset(row, kb, K)] += 8; /* the exponent */
    float *twice = run(&p->g);
    for (size_t i = 0; i < M * N; i++)
        CHECK_NEAR(twice[i], 2 * once[i], 0);
    free(once);
    free(twice);
    free(p);
}

TEST(one_hot_a_selects_from_b)
{
    struct data *p = make_data(2);
    memset(p->a, 0, sizeof p->a);
    for (size_t row = 0; row < M; row++)
        set_code(p->a, row, row * 3 % K, 2); /* 1.0 */
    float *d = run(&p->g);
    for (size_t row = 0; row < M; row++)
        for (size_t col = 0; col < N; col++) {
            size_t k = row * 3 % K;
            double scale = ref_ue4m3(p->sfa[ref_sf_offset(row, k / 16, K)]) *
                           ref_ue4m3(p->sfb[ref_sf_offset(col, k / 16, K)]);
            CHECK_NEAR(d[row * N + col], scale * ref_e2m1(code_at(p->b, col, k)), 0);
        }
    free(d);
    free(p);
}

/* Moves column block kb (16 values and their scale) to another place, by `to`. */
static void permute(uint8_t *codes, uint8_t *scales, size_t rows, const size_t to[KBS])
{
    uint8_t *old_codes = malloc(rows * LD), *old_scales = malloc(2 * (K / 64) * 512);
    CHECK(old_codes && old_scales);
    memcpy(old_codes, codes, rows * LD);
    memcpy(old_scales, scales, 2 * (K / 64) * 512);
    for (size_t row = 0; row < rows; row++)
        for (size_t kb = 0; kb < KBS; kb++) {
            memcpy(codes + row * LD + to[kb] * 8, old_codes + row * LD + kb * 8, 8);
            scales[ref_sf_offset(row, to[kb], K)] =
                old_scales[ref_sf_offset(row, kb, K)];
        }
    free(old_codes);
    free(old_scales);
}

TEST(blocks_of_k_commute)
{
    struct data *p = make_data(3);
    float *before = run(&p->g);
    size_t to[KBS];
    for (size_t i = 0; i < KBS; i++)
        to[i] = (i * 5 + 3) % KBS; /* 28 and 5 have no common factor */
    permute(p->a, p->sfa, M, to);
    permute(p->b, p->sfb, N, to);
    float *after = run(&p->g);
    CHECK(memcmp(before, after, sizeof(float) * M * N) == 0);
    free(before);
    free(after);
    free(p);
}

TEST(exchanged_operands_transpose_d)
{
    struct data *p = make_data(4);
    const struct ref_gemm other = {N, M, K, p->b, p->a, LD, LD, p->sfb, p->sfa, 1};
    float *d = run(&p->g), *t = run(&other);
    for (size_t row = 0; row < M; row++)
        for (size_t col = 0; col < N; col++)
            CHECK_NEAR(d[row * N + col], t[col * M + row], 0);
    free(d);
    free(t);
    free(p);
}

TEST(negated_a_negates_d)
{
    struct data *p = make_data(5);
    float *plus = run(&p->g);
    for (size_t i = 0; i < sizeof p->a; i++)
        p->a[i] ^= 0x88;
    float *minus = run(&p->g);
    for (size_t i = 0; i < M * N; i++)
        CHECK_NEAR(minus[i], -plus[i], 0);
    free(plus);
    free(minus);
    free(p);
}

TEST(k_in_two_parts_adds_up)
{
    /* The first 192 columns and the rest; a scale of zero takes a block away. */
    struct data *p = make_data(6);
    float *whole = run(&p->g);
    struct data *first = make_data(6), *rest = make_data(6);
    for (size_t row = 0; row < M; row++)
        for (size_t kb = 0; kb < KBS; kb++)
            (kb < 12 ? rest : first)->sfa[ref_sf_offset(row, kb, K)] = 0;
    float *d1 = run(&first->g), *d2 = run(&rest->g);
    for (size_t i = 0; i < M * N; i++)
        CHECK_NEAR(whole[i], d1[i] + d2[i], 0);
    first->g.k = 192; /* dense scales of 192 columns are another array */
    uint8_t *short_sfa = calloc(1, ref_sf_bytes(M, 192));
    uint8_t *short_sfb = calloc(1, ref_sf_bytes(N, 192));
    CHECK(short_sfa && short_sfb);
    for (size_t kb = 0; kb < 12; kb++) {
        for (size_t row = 0; row < M; row++)
            short_sfa[ref_sf_offset(row, kb, 192)] = p->sfa[ref_sf_offset(row, kb, K)];
        for (size_t row = 0; row < N; row++)
            short_sfb[ref_sf_offset(row, kb, 192)] = p->sfb[ref_sf_offset(row, kb, K)];
    }
    first->g.sfa = short_sfa;
    first->g.sfb = short_sfb;
    float *d3 = run(&first->g);
    CHECK(memcmp(d1, d3, sizeof(float) * M * N) == 0);
    free(whole);
    free(d1);
    free(d2);
    free(d3);
    free(short_sfa);
    free(short_sfb);
    free(first);
    free(rest);
    free(p);
}

TEST(alpha_comes_by_value_or_from_memory)
{
    struct data *p = make_data(7);
    float *plain = run(&p->g);
    p->g.alpha = 0.25;
    float *by_value = run(&p->g);
    float *from_memory = calloc(M * N, sizeof *from_memory);
    CHECK(from_memory);
    struct device_gemm *d = device_gemm_open("64", "256");
    device_gemm_run(d, &p->g, true, from_memory);
    device_gemm_close(d);
    for (size_t i = 0; i < M * N; i++)
        CHECK_NEAR(by_value[i], 0.25f * plain[i], 0);
    CHECK(memcmp(by_value, from_memory, sizeof(float) * M * N) == 0);
    free(plain);
    free(by_value);
    free(from_memory);
    free(p);
}
