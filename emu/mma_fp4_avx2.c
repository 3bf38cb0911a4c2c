/* mma_fp4_avx2.c - the FP4 mma with 256-bit integer and float vectors.
 *
 * Lanes of tensor memory lie along the vector: eight rows of A against one row of B at
 * a time.  vpmaddubsw multiplies unsigned by signed bytes, so A is held with 12 added
 * and the sums start at -12 * sum(B).  No 16-bit sum overflows: 8 * 24 * 12 = 2304. */
#include "emu/mma_fp4.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define LANES 8 /* of one vector */
#define GROUPS (MMA_LANES / LANES)

/* ---- unpacking */

/* Eight rows of eight 32-bit words to eight words of eight rows. */
AVX2 static void transpose(__m256i r[8])
{
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

AVX2 static void unpack_a(const struct mma_fp4 *m, struct mma_panels *p)
{
    const __m256i halves = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i low = _mm256_set1_epi8(15);
    for (int row = 0; row < MMA_LANES; row += 8) {
        __m256i r[8];
        for (int i = 0; i < 8; i++)
            r[i] = _mm256_loadu_si256(
                (const __m256i *)(const void *)(m->a + (row + i) * MMA_ROW_BYTES));
        transpose(r);
        for (int i = 0; i < 8; i++) {
            __m256i even = _mm256_and_si256(r[i], low);
            __m256i odd = _mm256_and_si256(_mm256_srli_epi16(r[i], 4), low);
            _mm256_store_si256((__m256i *)(void *)p->a[0][i][row],
                               _mm256_shuffle_epi8(halves, even));
            _mm256_store_si256((__m256i *)(void *)p->a[1][i][row],
                               _mm256_shuffle_epi8(halves, odd));
        }
    }
}

AVX2 static void unpack_b(const struct mma_fp4 *m, struct mma_panels *p)
{
    const __m256i halves = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    const __m256i low = _mm256_set1_epi8(15);
    for (int row = 0; row < m->n; row++) {
        __m256i r = _mm256_loadu_si256(
            (const __m256i *)(const void *)(m->b + row * MMA_ROW_BYTES));
        __m256i even = _mm256_shuffle_epi8(halves, _mm256_and_si256(r, low));
        __m256i odd =
            _mm256_shuffle_epi8(halves, _mm256_and_si256(_mm256_srli_epi16(r, 4), low));
        _mm256_store_si256((__m256i *)(void *)p->b[row][0], even);
        _mm256_store_si256((__m256i *)(void *)p->b[row][1], odd);
        /* Bytes to 16-bit pairs, to words, to sums of the two words of a block. */
        __m256i pairs =
            _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_add_epi8(even, odd));
        __m256i words = _mm256_madd_epi16(pairs, _mm256_set1_epi16(-12));
        __m128i sums = _mm_hadd_epi32(_mm256_castsi256_si128(words),
                                      _mm256_extracti128_si256(words, 1));
        _mm_store_si128((__m128i *)(void *)p->bias[row], sums);
    }
}

AVX2 void mma_fp4_unpack_avx2(const struct mma_fp4 *m, struct mma_panels *p)
{
    unpack_a(m, p);
    unpack_b(m, p);
    float value[256];
    for (int code = 0; code < 256; code++)
        value[code] = mma_fp4_scale((uint8_t)code, m->ue8m0);
    for (int row = 0; row < MMA_LANES; row++)
        for (int i = 0; i < MMA_BLOCKS; i++)
            p->scale_a[i][row] = value[m->sfa[row * MMA_BLOCKS + i]];
    const float factor = m->negate ? -.25f : .25f;
    for (int i = 0; i < m->n * MMA_BLOCKS; i++)
        p->scale_b[i / MMA_BLOCKS][i % MMA_BLOCKS] = factor * value[m->sfb[i]];
    if (m->mode != MMA_HARDWARE)
        return;
    int32_t exponent[256];
    for (int code = 0; code < 256; code++)
        exponent[code] = mma_model_scale_exponent((uint8_t)code, m->ue8m0);
    for (int row = 0; row < MMA_LANES; row++)
        for (int i = 0; i < MMA_BLOCKS; i++)
            p->exponent_a[i][row] = exponent[m->sfa[row * MMA_BLOCKS + i]];
    for (int i = 0; i < m->n * MMA_BLOCKS; i++)
        p->exponent_b[i / MMA_BLOCKS][i % MMA_BLOCKS] = exponent[m->sfb[i]];
}

/* ---- products */

/* Products of a word of a row of B and of eight rows of A, in pairs. */
AVX2 static inline __m256i pair_sums(const struct mma_panels *p, int lane, int column,
                                     int half, int word)
{
    __m256i a =
        _mm256_load_si256((const __m256i *)(const void *)p->a[half][word][lane]);
    __m256i b = _mm256_castps_si256(
        _mm256_broadcast_ss((const float *)(const void *)p->b[column][half][word]));
    return _mm256_maddubs_epi16(a, b);
}

/* Sums of one block, in quarters, of eight rows of A and one of B. */
AVX2 static inline __m256i block_sums(const struct mma_panels *p, int lane, int column,
                                      int block)
{
    int i = block * 2;
    __m256i even = _mm256_add_epi16(pair_sums(p, lane, column, 0, i),
                                    pair_sums(p, lane, column, 0, i + 1));
    __m256i odd = _mm256_add_epi16(pair_sums(p, lane, column, 1, i),
                                   pair_sums(p, lane, column, 1, i + 1));
    __m256i sum = _mm256_madd_epi16(_mm256_add_epi16(even, odd), _mm256_set1_epi16(1));
    return _mm256_add_epi32(sum, _mm256_set1_epi32(p->bias[column][block]));
}

AVX2 static inline __m256 canonical_nan(__m256 x)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

AVX2 static inline __m256 add_block_f32(__m256 x, const struct mma_panels *p, int lane,
                                        int column, int block)
{
    __m256 scale = _mm256_mul_ps(_mm256_load_ps(&p->scale_a[block][lane]),
                                 _mm256_broadcast_ss(&p->scale_b[column][block]));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(block_sums(p, lane, column, block)),
                           scale, x);
}

/* The blocks are written out: loops of four are not unrolled at -O2. */
AVX2 static inline __m256 element_f32(const struct mma_panels *p, int lane, int column,
                                      __m256 d)
{
    __m256 x = add_block_f32(_mm256_setzero_ps(), p, lane, column, 0);
    x = add_block_f32(x, p, lane, column, 1);
    x = add_block_f32(x, p, lane, column, 2);
    x = add_block_f32(x, p, lane, column, 3);
    return _mm256_add_ps(x, d);
}

/* x + d to 24 bits with one rounding, as round_once() in mma_fp4.c.  Only an f64 sum
 * that lies in the middle between two f32 can be rounded wrongly the second time. */
AVX2 static inline __m128 round_once(__m256d x, __m256d d)
{
    const __m256i tail = _mm256_set1_epi64x(0x1fffffff);
    const __m256i tie = _mm256_set1_epi64x(0x10000000);
    __m256d sum = _mm256_add_pd(x, d);
    __m256i bits = _mm256_castpd_si256(sum);
    __m256i middle = _mm256_cmpeq_epi64(_mm256_and_si256(bits, tail), tie);
    if (!_mm256_testz_si256(middle, middle)) {
        const __m256d zero = _mm256_setzero_pd();
        __m256d back = _mm256_sub_pd(sum, x);
        __m256d error = _mm256_add_pd(_mm256_sub_pd(x, _mm256_sub_pd(sum, back)),
                                      _mm256_sub_pd(d, back));
        __m256i inexact = _mm256_and_si256(
            middle, _mm256_castpd_si256(_mm256_cmp_pd(error, zero, _CMP_NEQ_OQ)));
        /* All ones, -1, where the error points towards zero; else +1. */
        __m256i signs = _mm256_xor_si256(_mm256_castpd_si256(error), bits);
        __m256i inward = _mm256_cmpgt_epi64(_mm256_setzero_si256(), signs);
        __m256i step = _mm256_or_si256(inward, _mm256_set1_epi64x(1));
        bits = _mm256_add_epi64(bits, _mm256_and_si256(inexact, step));
        sum = _mm256_castsi256_pd(bits);
    }
    return _mm256_cvtpd_ps(sum);
}

AVX2 static inline void add_block_f64(__m256d x[2], const struct mma_panels *p,
                                      int lane, int column, int block)
{
    __m256i sums = block_sums(p, lane, column, block);
    __m256d b = _mm256_set1_pd((double)p->scale_b[column][block]);
    __m256d low = _mm256_cvtps_pd(_mm_load_ps(&p->scale_a[block][lane]));
    __m256d high = _mm256_cvtps_pd(_mm_load_ps(&p->scale_a[block][lane + 4]));
    x[0] = _mm256_fmadd_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(sums)),
                           _mm256_mul_pd(low, b), x[0]);
    x[1] = _mm256_fmadd_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(sums, 1)),
                           _mm256_mul_pd(high, b), x[1]);
}

AVX2 static inline __m256 element_f64(const struct mma_panels *p, int lane, int column,
                                      __m256 d)
{
    __m256d x[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    add_block_f64(x, p, lane, column, 0);
    add_block_f64(x, p, lane, column, 1);
    add_block_f64(x, p, lane, column, 2);
    add_block_f64(x, p, lane, column, 3);
    __m128 r_low = round_once(x[0], _mm256_cvtps_pd(_mm256_castps256_ps128(d)));
    __m128 r_high = round_once(x[1], _mm256_cvtps_pd(_mm256_extractf128_ps(d, 1)));
    return _mm256_set_m128(r_high, r_low);
}

AVX2 void mma_fp4_avx2(const struct mma_fp4 *m)
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
        for (int column = 0; column < m->n; column++) {
            uint32_t *at = m->d + column * MMA_LANES + lane;
            __m256 d = m->accumulate ? _mm256_loadu_ps((const float *)(const void *)at)
                                     : _mm256_setzero_ps();
            switch (mma_fp4_sum(span_a, span_b[column])) {
            case MMA_SUM_F32:
                d = element_f32(&p, lane, column, d);
                break;
            case MMA_SUM_F64:
                d = element_f64(&p, lane, column, d);
                break;
            case MMA_SUM_WIDE:
                for (int i = 0; i < LANES; i++)
                    at[i] =
                        mma_fp4_exact(m, lane + i, column, m->accumulate ? at[i] : 0);
                continue;
            }
            _mm256_storeu_ps((float *)(void *)at, canonical_nan(d));
        }
    }
}

/* ---- mode hardware
 *
 * The integers of mma_model.c, held in f64: 2^(35 - largest exponent) times a term is
 * exact, and so is everything else but the cuts. */

/* Largest exponent of the terms of eight lanes. */
AVX2 static inline __m256i largest_exponent(const struct mma_panels *p, int lane,
                                            int column, __m256i d)
{
    __m256i field = _mm256_and_si256(_mm256_srli_epi32(d, 23), _mm256_set1_epi32(0xff));
    field = _mm256_max_epi32(field, _mm256_set1_epi32(1));
    __m256i largest = _mm256_sub_epi32(field, _mm256_set1_epi32(127));
    for (int i = 0; i < MMA_BLOCKS; i++) {
        __m256i a =
            _mm256_load_si256((const __m256i *)(const void *)&p->exponent_a[i][lane]);
        __m256i b = _mm256_set1_epi32(p->exponent_b[column][i]);
        largest = _mm256_max_epi32(largest, _mm256_add_epi32(a, b));
    }
    return largest;
}

AVX2 static inline __m256d power_of_two(__m128i exponent)
{
    __m256i e = _mm256_cvtepi32_epi64(_mm_add_epi32(exponent, _mm_set1_epi32(1023)));
    return _mm256_castsi256_pd(_mm256_slli_epi64(e, 52));
}

AVX2 static inline __m256d cut(__m256d x)
{
    return _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

AVX2 static inline __m256d model_term(const struct mma_panels *p, int lane, int column,
                                      int block, __m128i sums, __m256d unit)
{
    __m256d a = _mm256_cvtps_pd(_mm_load_ps(&p->scale_a[block][lane]));
    __m256d b = _mm256_set1_pd((double)p->scale_b[column][block]);
    __m256d term = _mm256_mul_pd(_mm256_cvtepi32_pd(sums), _mm256_mul_pd(a, b));
    return cut(_mm256_mul_pd(term, unit));
}

/* Cut towards zero to an f32, below its normal range too; -0 becomes +0. */
AVX2 static inline __m128 cut_to_f32(__m256d x)
{
    const __m256d least = _mm256_set1_pd(0x1p-126), sign = _mm256_set1_pd(-0.0);
    const __m256d kept = _mm256_castsi256_pd(_mm256_set1_epi64x(~0x1fffffffLL));
    __m256d normal = _mm256_and_pd(x, kept);
    __m256d small = _mm256_mul_pd(cut(_mm256_mul_pd(x, _mm256_set1_pd(0x1p149))),
                                  _mm256_set1_pd(0x1p-149));
    __m256d is_small = _mm256_cmp_pd(_mm256_andnot_pd(sign, x), least, _CMP_LT_OQ);
    __m256d is_nan = _mm256_cmp_pd(x, x, _CMP_UNORD_Q);
    x = _mm256_blendv_pd(_mm256_blendv_pd(normal, small, is_small), x, is_nan);
    return _mm256_cvtpd_ps(_mm256_add_pd(x, _mm256_setzero_pd()));
}

AVX2 static inline __m256 model_element(const struct mma_panels *p, int lane,
                                        int column, __m256 d)
{
    __m256i largest = largest_exponent(p, lane, column, _mm256_castps_si256(d));
    __m256i fraction = _mm256_set1_epi32(MMA_MODEL_FRACTION);
    __m256i up = _mm256_sub_epi32(fraction, largest);
    __m256i down = _mm256_sub_epi32(largest, fraction);
    __m256d unit[2] = {power_of_two(_mm256_castsi256_si128(up)),
                       power_of_two(_mm256_extracti128_si256(up, 1))};
    __m256d sum[2] = {
        cut(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(d)), unit[0])),
        cut(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(d, 1)), unit[1])),
    };
    for (int i = 0; i < MMA_BLOCKS; i++) {
        __m256i sums = block_sums(p, lane, column, i);
        __m128i low = _mm256_castsi256_si128(sums);
        __m128i high = _mm256_extracti128_si256(sums, 1);
        sum[0] = _mm256_add_pd(sum[0], model_term(p, lane, column, i, low, unit[0]));
        sum[1] =
            _mm256_add_pd(sum[1], model_term(p, lane + 4, column, i, high, unit[1]));
    }
    __m256d back[2] = {power_of_two(_mm256_castsi256_si128(down)),
                       power_of_two(_mm256_extracti128_si256(down, 1))};
    return _mm256_set_m128(cut_to_f32(_mm256_mul_pd(sum[1], back[1])),
                           cut_to_f32(_mm256_mul_pd(sum[0], back[0])));
}

AVX2 void mma_model_avx2(const struct mma_fp4 *m)
{
    _Alignas(64) struct mma_panels p;
    mma_fp4_unpack_avx2(m, &p);
    for (int lane = 0; lane < MMA_LANES; lane += LANES)
        for (int column = 0; column < m->n; column++) {
            float *at = (float *)(void *)(m->d + column * MMA_LANES + lane);
            __m256 d = m->accumulate ? _mm256_loadu_ps(at) : _mm256_setzero_ps();
            _mm256_storeu_ps(at, canonical_nan(model_element(&p, lane, column, d)));
        }
}
#endif
