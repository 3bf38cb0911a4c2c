#include "gen/run_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/npy.h"

/* Scales of random operands: 0.25 to 3.75.  A wide range would let a few blocks hide
 * the errors of all others behind the bound. */
#define FIRST_SCALE 0x28 /* 2^-2 */
#define SCALES 32        /* four exponents, all mantissas */

bool matrix_bytes(uint64_t rows, uint64_t row_bytes, size_t *out)
{
    const uint64_t most = (uint64_t)1 << 39; /* beyond is a slip, not a matrix */
    *out = 0;
    if (rows && row_bytes > most / rows)
        return false;
    *out = (size_t)(rows * row_bytes);
    return true;
}

bool operand_alloc(struct operand *o, size_t rows, size_t k, size_t ld_bytes)
{
    *o = (struct operand){.rows = rows, .k = k, .ld_bytes = ld_bytes, .global = 1};
    if (!matrix_bytes(rows, ld_bytes, &o->codes_bytes))
        return false;
    o->scales_bytes = sf_bytes(rows, k); /* less, but for the blocks' padding */
    o->codes = malloc(o->codes_bytes + 1);
    o->scales = malloc(o->scales_bytes + 1);
    if (o->codes && o->scales)
        return true;
    operand_free(o);
    return false;
}

void operand_free(struct operand *o)
{
    free(o->codes);
    free(o->scales);
    *o = (struct operand){0};
}

/* Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators" (2014), the
 * finaliser of SplitMix64. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t random_word(uint64_t seed, unsigned stream, uint64_t n)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    return mix(mix(mix(seed + step) + stream) + (n + 1) * step);
}

static void pad_operand(struct operand *o, uint8_t pad)
{
    const size_t used = (o->k + 1) / 2;
    for (size_t row = 0; row < o->rows; row++)
        memset(o->codes + row * o->ld_bytes + used, pad, o->ld_bytes - used);
    const size_t k64 = o->k / 64 + (o->k % 64 != 0), blocks = (o->k + 15) / 16;
    const size_t all_rows = (o->rows + 127) / 128 * 128;
    for (size_t row = 0; row < all_rows; row++) {
        size_t first = row < o->rows ? blocks : 0;
        for (size_t kb = first; kb < 4 * k64; kb++)
            o->scales[sf_offset(row, kb, k64)] = pad;
    }
}

void operand_random(struct operand *o, uint64_t seed, unsigned stream, uint8_t pad)
{
    const size_t used = (o->k + 1) / 2, words = (used + 7) / 8;
    const size_t k64 = o->k / 64 + (o->k % 64 != 0), blocks = (o->k + 15) / 16;
    for (size_t row = 0; row < o->rows; row++) {
        uint64_t word = 0;
        for (size_t i = 0; i < used; i++) {
            word =
                i % 8 ? word >> 8 : random_word(seed, 2 * stream, row * words + i / 8);
            o->codes[row * o->ld_bytes + i] = (uint8_t)word;
        }
        for (size_t kb = 0; kb < blocks; kb++) {
            word = random_word(seed, 2 * stream + 1, row * blocks + kb);
            o->scales[sf_offset(row, kb, k64)] =
                (uint8_t)(FIRST_SCALE + (word >> 32) % SCALES);
        }
    }
    o->global = 1;
    pad_operand(o, pad);
}

/* Of the finite values: an infinity saturates by itself and must not flatten others. */
static float finite_amax(const struct npy *x)
{
    float amax = 0;
    for (size_t i = 0; i < x->rows * x->cols; i++) {
        float a = fabsf(x->data[i]);
        if (a > amax && !isinf(a))
            amax = a;
    }
    return amax;
}

void operand_quantize(struct operand *o, const struct npy *x,
                      enum fp4_rounding rounding, uint8_t pad)
{
    o->global = nvfp4_global_scale(finite_amax(x));
    /* An even k one above the columns leaves a high nibble, which is 0 then. */
    nvfp4_quantize(x->data, x->rows, x->cols, o->global, rounding, o->codes,
                   o->ld_bytes, o->scales);
    pad_operand(o, pad);
}

void operand_take(struct operand *o, const struct npy *codes, const struct npy *scales,
                  uint8_t pad)
{
    for (size_t row = 0; row < o->rows; row++)
        memcpy(o->codes + row * o->ld_bytes, codes->bytes + row * codes->cols,
               codes->cols);
    memcpy(o->scales, scales->bytes, scales->rows * scales->cols);
    o->global = 1;
    pad_operand(o, pad);
}

void scales_shape(const char *layout, size_t rows, size_t cols, size_t block,
                  size_t shape[2])
{
    const bool is_linear = strcmp(layout, "linear") == 0;
    const size_t unit = is_linear ? 1 : strcmp(layout, "128x4") == 0 ? 128 : 8;
    const size_t across = is_linear ? 1 : 4, blocks = (cols + block - 1) / block;
    shape[0] = (rows + unit - 1) / unit * unit;
    shape[1] = (blocks + across - 1) / across * across;
}
