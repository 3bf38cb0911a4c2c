/* mma_data.h - elements of 4 to 32 bits by their definitions, and matrices of them in
 * shared memory by the definitions of the layouts: for tests of MMAs.
 *
 * Shares nothing with the emulator but the names of the types. */
#ifndef FP4GEN_TESTS_MMA_DATA_H
#define FP4GEN_TESTS_MMA_DATA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emu/mma_any.h"

static uint64_t random_state;

static inline uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static inline uint32_t random_below(uint32_t n)
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

static inline struct number number_of(enum mma_type type, uint32_t code)
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
static inline uint32_t element(enum mma_type type, const uint8_t *row, int i)
{
    int bits = formats[type].bits, slot = bits == 4 || bits == 6 ? i / 16 * 16 : 0;
    int first = (bits == 4 || bits == 6 ? i % 16 : i) * bits;
    uint32_t x = 0;
    for (int k = 0; k < bits; k++)
        x |= (uint32_t)(row[slot + (first + k) / 8] >> (first + k) % 8 & 1) << k;
    return type == MMA_TF32 ? x >> 13 : x;
}

enum range { ANY_FINITE, NARROW, WITH_SPECIALS };

static inline bool is_finite(enum mma_type type, uint32_t code)
{
    struct number x = number_of(type, code);
    return !x.is_nan && !x.is_infinite;
}

static inline void put_element(enum mma_type type, uint8_t *row, int i, uint32_t code)
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

static inline uint32_t random_code(enum mma_type type, enum range range)
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

static inline int k_of(enum mma_type type)
{
    return 256 / (formats[type].bits < 8 ? 8 : formats[type].bits);
}

static inline double double_of(enum mma_type type, uint32_t code)
{
    if (type == MMA_U8)
        return code;
    if (type == MMA_S8)
        return code > 127 ? (double)code - 256 : code;
    struct number x = number_of(type, code);
    return ldexp(x.negative ? -(double)x.significand : x.significand, x.exponent);
}

/* A code of a small value with few digits. */
static inline uint32_t easy_code(enum mma_type type)
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

/* ---- layouts */

/* The 16-byte chunk that holds element k of a row, by the layouts' definitions; `pitch`
 * is the width of the swizzle, 16 for none; groups of eight lie `near` apart, columns
 * of chunks `far`. */
struct layout {
    int swizzle;
    bool by_row;
    uint32_t start, lbo, sbo;
};

static inline uint32_t place_of(const struct layout *l, enum mma_type type,
                                uint32_t row, uint32_t k, uint32_t *byte)
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
static inline uint32_t lay(struct layout *l, enum mma_type type, const uint8_t *packed,
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

#endif
