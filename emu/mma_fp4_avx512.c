/* mma_fp4_avx512.c - the FP4 mma with 512-bit vectors and VNNI.
 *
 * As mma_fp4_avx2.c, with sixteen rows of A at a time, all of K of them in sixteen
 * registers while the rows of B go by; vpdpbusd adds four products at once. */
#include "emu/mma_fp4.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))
#define LANES 16

/* One 32-bit word of sixteen rows of A. */
AVX512 static inline __m512i rows_of(const struct mma_panels *p, int half, int word,
                                     int lane)
{
    return _mm512_load_si512(p->a[half][word][lane]);
}

/* One 32-bit word of a row of B, sixteen times. */
AVX512 static inline __m512i word_of(const struct mma_panels *p, int column, int half,
                                     int word)
{
    int32_t b;
    __builtin_memcpy(&b, p->b[column][half][word], sizeof b);
    return _mm512_set1_epi32(b);
}

/* Sums of one block, in quarters, of sixteen rows of A and one of B. */
AVX512 static inline __m512i block_sums(const __m512i a[16], const struct mma_panels *p,
                                        int column, int block)
{
    int i = block * 2;
    __m512i sum = _mm512_set1_epi32(p->bias[column][block]);
    sum = _mm512_dpbusd_epi32(sum, a[i], word_of(p, column, 0, i));
    sum = _mm512_dpbusd_epi32(sum, a[i + 1], word_of(p, column, 0, i + 1));
    sum = _mm512_dpbusd_epi32(sum, a[i + 8], word_of(p, column, 1, i));
    return _mm512_dpbusd_epi32(sum, a[i + 9], word_of(p, column, 1, i + 1));
}

AVX512 static inline __m512 add_block_f32(__m512 x, const __m512i a[16],
                                          const struct mma_panels *p, int lane,
                                          int column, int block)
{
    __m512 scale = _mm512_mul_ps(_mm512_load_ps(&p->scale_a[block][lane]),
                                 _mm512_set1_ps(p->scale_b[column][block]));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(block_sums(a, p, column, block)), scale,
                           x);
}

AVX512 static inline __m512 element_f32(const __m512i a[16], const struct mma_panels *p,
                                        int lane, int column, __m512 d)
{
    __m512 x = add_block_f32(_mm512_setzero_ps(), a, p, lane, column, 0);
    x = add_block_f32(x, a, p, lane, column, 1);
    x = add_block_f32(x, a, p, lane, column, 2);
    x = add_block_f32(x, a, p, lane, column, 3);
    return _mm512_add_ps(x, d);
}

/* See mma_fp4_avx2.c. */
AVX512 static inline __m256 round_once(__m512d x, __m512d d)
{
    const __m512i tail = _mm512_set1_epi64(0x1fffffff);
    const __m512i tie = _mm512_set1_epi64(0x10000000);
    __m512d sum = _mm512_add_pd(x, d);
    __m512i bits = _mm512_castpd_si512(sum);
    __mmask8 middle = _mm512_cmpeq_epi64_mask(_mm512_and_si512(bits, tail), tie);
    if (middle != 0) {
        const __m512d zero = _mm512_setzero_pd();
        __m512d back = _mm512_sub_pd(sum, x);
        __m512d error = _mm512_add_pd(_mm512_sub_pd(x, _mm512_sub_pd(sum, back)),
                                      _mm512_sub_pd(d, back));
        __mmask8 inexact = _mm512_mask_cmp_pd_mask(middle, error, zero, _CMP_NEQ_OQ);
        __mmask8 inward = _mm512_cmplt_epi64_mask(
            _mm512_xor_si512(_mm512_castpd_si512(error), bits), _mm512_setzero_si512());
        __m512i one = _mm512_set1_epi64(1);
        bits = _mm512_mask_sub_epi64(bits, inexact & inward, bits, one);
        bits = _mm512_mask_add_epi64(bits, inexact & (__mmask8)~inward, bits, one);
        sum = _mm512_castsi512_pd(bits);
    }
    return _mm512_cvtpd_ps(sum);
}

AVX512 static inline void add_block_f64(__m512d x[2], const __m512i a[16],
                                        const struct mma_panels *p, int lane,
                                        int column, int block)
{
    __m512i sums = block_sums(a, p, column, block);
    __m512d b = _mm512_set1_pd((double)p->scale_b[column][block]);
    __m512d low = _mm512_cvtps_pd(_mm256_load_ps(&p->scale_a[block][lane]));
    __m512d high = _mm512_cvtps_pd(_mm256_load_ps(&p->scale_a[block][lane + 8]));
    x[0] = _mm512_fmadd_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(sums)),
                           _mm512_mul_pd(low, b), x[0]);
    x[1] = _mm512_fmadd_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(sums, 1)),
                           _mm512_mul_pd(high, b), x[1]);
}

AVX512 static inline __m512 element_f64(const __m512i a[16], const struct mma_panels *p,
                                        int lane, int column, __m512 d)
{
    __m512d x[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    add_block_f64(x, a, p, lane, column, 0);
    add_block_f64(x, a, p, lane, column, 1);
    add_block_f64(x, a, p, lane, column, 2);
    add_block_f64(x, a, p, lane, column, 3);
    __m256 d_high =
        _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(d), 1));
    __m256 r_low = round_once(x[0], _mm512_cvtps_pd(_mm512_castps512_ps256(d)));
    __m256 r_high = round_once(x[1], _mm512_cvtps_pd(d_high));
    return _mm512_castsi512_ps(
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_castps_si256(r_low)),
                           _mm256_castps_si256(r_high), 1));
}

AVX512 static inline void put(uint32_t *at, __m512 d)
{
    __mmask16 nan = _mm512_cmp_ps_mask(d, d, _CMP_UNORD_Q);
    _mm512_storeu_si512(at, _mm512_mask_mov_epi32(_mm512_castps_si512(d), nan,
                                                  _mm512_set1_epi32(0x7fffffff)));
}

/* Sixteen rows of A by those columns whose sums are of one kind.  One function a kind,
 * and A by name: so the sixteen vectors of A stay in registers. */
#define GROUP(name, kind, element)                                                     \
    AVX512 static void name(const struct mma_fp4 *m, const struct mma_panels *p,       \
                            int lane, const uint8_t *kinds)                            \
    {                                                                                  \
        const __m512i a[16] = {                                                        \
            rows_of(p, 0, 0, lane), rows_of(p, 0, 1, lane), rows_of(p, 0, 2, lane),    \
            rows_of(p, 0, 3, lane), rows_of(p, 0, 4, lane), rows_of(p, 0, 5, lane),    \
            rows_of(p, 0, 6, lane), rows_of(p, 0, 7, lane), rows_of(p, 1, 0, lane),    \
            rows_of(p, 1, 1, lane), rows_of(p, 1, 2, lane), rows_of(p, 1, 3, lane),    \
            rows_of(p, 1, 4, lane), rows_of(p, 1, 5, lane), rows_of(p, 1, 6, lane),    \
            rows_of(p, 1, 7, lane),                                                    \
        };                                                                             \
        for (int column = 0; column < m->n; column++) {                                \
            uint32_t *at = m->d + column * MMA_LANES + lane;                           \
            if (kinds[column] == (kind))                                               \
                put(at, element(a, p, lane, column,                                    \
                                m->accumulate ? _mm512_loadu_ps(at)                    \
                                              : _mm512_setzero_ps()));                 \
        }                                                                              \
    }
GROUP(group_f32, MMA_SUM_F32, element_f32)
GROUP(group_f64, MMA_SUM_F64, element_f64)

static void group_wide(const struct mma_fp4 *m, int lane, const uint8_t *kinds)
{
    for (int column = 0; column < m->n; column++) {
        uint32_t *at = m->d + column * MMA_LANES + lane;
        for (int i = 0; kinds[column] == MMA_SUM_WIDE && i < LANES; i++)
            at[i] = mma_fp4_exact(m, lane + i, column, m->accumulate ? at[i] : 0);
    }
}

AVX512 void mma_fp4_avx512(const struct mma_fp4 *m)
{
    _Alignas(64) struct mma_panels p;
    mma_fp4_unpack_avx2(m, &p);
    struct mma_span span_b[MMA_MAX_N];
    for (int column = 0; column < m->n; column++)
        span_b[column] =
            mma_fp4_span(m->sfb + column * MMA_BLOCKS, MMA_BLOCKS, m->ue8m0);

    for (int lane = 0; lane < MMA_LANES; lane += LANES) {
        struct mma_span span_a =
            mma_fp4_span(m->sfa + lane * MMA_BLOCKS, LANES * MMA_BLOCKS, m->ue8m0);
        uint8_t kinds[MMA_MAX_N];
        int count[3] = {0};
        for (int column = 0; column < m->n; column++) {
            enum mma_sum kind = mma_fp4_sum(span_a, span_b[column]);
            kinds[column] = (uint8_t)kind;
            count[kind]++;
        }
        if (count[MMA_SUM_F32])
            group_f32(m, &p, lane, kinds);
        if (count[MMA_SUM_F64])
            group_f64(m, &p, lane, kinds);
        if (count[MMA_SUM_WIDE])
            group_wide(m, lane, kinds);
    }
}

/* ---- mode hardware: see mma_fp4_avx2.c */

AVX512 static inline __m512i largest_exponent(const struct mma_panels *p, int lane,
                                              int column, __m512i d)
{
    __m512i field = _mm512_and_si512(_mm512_srli_epi32(d, 23), _mm512_set1_epi32(0xff));
    field = _mm512_max_epi32(field, _mm512_set1_epi32(1));
    __m512i largest = _mm512_sub_epi32(field, _mm512_set1_epi32(127));
    for (int i = 0; i < MMA_BLOCKS; i++) {
        __m512i a = _mm512_load_si512(&p->exponent_a[i][lane]);
        __m512i b = _mm512_set1_epi32(p->exponent_b[column][i]);
        largest = _mm512_max_epi32(largest, _mm512_add_epi32(a, b));
    }
    return largest;
}

AVX512 static inline __m512d power_of_two(__m256i exponent)
{
    __m512i e =
        _mm512_cvtepi32_epi64(_mm256_add_epi32(exponent, _mm256_set1_epi32(1023)));
    return _mm512_castsi512_pd(_mm512_slli_epi64(e, 52));
}

AVX512 static inline __m512d cut(__m512d x)
{
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

AVX512 static inline __m512d model_term(const struct mma_panels *p, int lane,
                                        int column, int block, __m256i sums,
                                        __m512d unit)
{
    __m512d a = _mm512_cvtps_pd(_mm256_load_ps(&p->scale_a[block][lane]));
    __m512d b = _mm512_set1_pd((double)p->scale_b[column][block]);
    __m512d term = _mm512_mul_pd(_mm512_cvtepi32_pd(sums), _mm512_mul_pd(a, b));
    return cut(_mm512_mul_pd(term, unit));
}

AVX512 static inline void add_model_block(__m512d sum[2], const __m512i a[16],
                                          const struct mma_panels *p, int lane,
                                          int column, int block, const __m512d unit[2])
{
    __m512i sums = block_sums(a, p, column, block);
    __m256i low = _mm512_castsi512_si256(sums);
    __m256i high = _mm512_extracti64x4_epi64(sums, 1);
    sum[0] = _mm512_add_pd(sum[0], model_term(p, lane, column, block, low, unit[0]));
    sum[1] =
        _mm512_add_pd(sum[1], model_term(p, lane + 8, column, block, high, unit[1]));
}

AVX512 static inline __m256 cut_to_f32(__m512d x)
{
    const __m512i kept = _mm512_set1_epi64(~0x1fffffffLL);
    __mmask8 is_small =
        _mm512_cmp_pd_mask(_mm512_abs_pd(x), _mm512_set1_pd(0x1p-126), _CMP_LT_OQ);
    __mmask8 is_number = _mm512_cmp_pd_mask(x, x, _CMP_ORD_Q);
    __m512d small = _mm512_mul_pd(cut(_mm512_mul_pd(x, _mm512_set1_pd(0x1p149))),
                                  _mm512_set1_pd(0x1p-149));
    x = _mm512_castsi512_pd(_mm512_mask_and_epi64(_mm512_castpd_si512(x), is_number,
                                                  _mm512_castpd_si512(x), kept));
    x = _mm512_mask_mov_pd(x, is_small, small);
    return _mm512_cvtpd_ps(_mm512_add_pd(x, _mm512_setzero_pd()));
}

AVX512 static inline __m512 model_element(const __m512i a[16],
                                          const struct mma_panels *p, int lane,
                                          int column, __m512 d)
{
    __m512i largest = largest_exponent(p, lane, column, _mm512_castps_si512(d));
    __m512i fraction = _mm512_set1_epi32(MMA_MODEL_FRACTION);
    __m512i up = _mm512_sub_epi32(fraction, largest);
    __m512i down = _mm512_sub_epi32(largest, fraction);
    __m512d unit[2] = {power_of_two(_mm512_castsi512_si256(up)),
                       power_of_two(_mm512_extracti64x4_epi64(up, 1))};
    __m256 d_high =
        _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(d), 1));
    __m512d sum[2] = {
        cut(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(d)), unit[0])),
        cut(_mm512_mul_pd(_mm512_cvtps_pd(d_high), unit[1])),
    };
    add_model_block(sum, a, p, lane, column, 0, unit);
    add_model_block(sum, a, p, lane, column, 1, unit);
    add_model_block(sum, a, p, lane, column, 2, unit);
    add_model_block(sum, a, p, lane, column, 3, unit);
    __m256 r_low =
        cut_to_f32(_mm512_mul_pd(sum[0], power_of_two(_mm512_castsi512_si256(down))));
    __m256 r_high = cut_to_f32(
        _mm512_mul_pd(sum[1], power_of_two(_mm512_extracti64x4_epi64(down, 1))));
    return _mm512_castsi512_ps(
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_castps_si256(r_low)),
                           _mm256_castps_si256(r_high), 1));
}

GROUP(group_model, MMA_SUM_F64, model_element)

AVX512 void mma_model_avx512(const struct mma_fp4 *m)
{
    _Alignas(64) struct mma_panels p;
    uint8_t kinds[MMA_MAX_N]; /* all alike */
    __builtin_memset(kinds, MMA_SUM_F64, sizeof kinds);
    mma_fp4_unpack_avx2(m, &p);
    for (int lane = 0; lane < MMA_LANES; lane += LANES)
        group_model(m, &p, lane, kinds);
}
#endif
