#include "gen/run_outputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fp4.h"
#include "gen/run_data.h"

/* ---- arguments */

static size_t elem_bytes(const struct image_arg *a)
{
    return strcmp(a->type, "bf16") == 0 || strcmp(a->type, "f16") == 0 ? 2 : 4;
}

static bool is_integer(const struct image_arg *a)
{
    return strcmp(a->type, "s32") == 0 || strcmp(a->type, "u32") == 0;
}

static uint32_t bits_of(const struct image_arg *a, float x)
{
    if (elem_bytes(a) == 4)
        return bits_of_f32(x);
    return strcmp(a->type, "bf16") == 0 ? bf16_encode(x) : f16_encode(x);
}

static float positive(uint64_t word)
{
    return 0.5f + 1.5f * (float)(word >> 40) * 0x1p-24f;
}

/* The bits of a random element, in its own type. */
static uint32_t random_bits(const struct image_arg *a, uint64_t word)
{
    if (is_integer(a))
        return (uint32_t)(word >> 56);
    float x = (float)(word >> 40) * 0x1p-22f - 2;
    return bits_of(a, a->is_scale ? positive(word) : x);
}

static void fill_arg(struct run_arg *arg, uint64_t seed, unsigned stream)
{
    const size_t elem = elem_bytes(arg->about);
    for (size_t row = 0; row < arg->rows; row++)
        for (size_t col = 0; col < arg->cols; col++) {
            uint64_t word = random_word(seed, stream, row * arg->cols + col);
            uint32_t bits = random_bits(arg->about, word);
            memcpy(arg->data + row * arg->ld_bytes + col * elem, &bits, elem);
        }
}

static bool make_arg(struct run_arg *arg, uint32_t m, uint32_t n, uint64_t seed,
                     unsigned stream)
{
    const struct image_arg *about = arg->about;
    if (about->kind == ARG_SCALAR) {
        const uint64_t word = random_word(seed, stream, 0);
        arg->bits = about->has_default  ? about->default_bits
                    : is_integer(about) ? random_bits(about, word)
                                        : bits_of_f32(positive(word));
        return true;
    }
    arg->rows = about->kind == ARG_AUX ? m : 1;
    arg->cols = about->kind == ARG_ROW ? m : n >> about->cols_shift;
    arg->ld_bytes = (arg->cols * elem_bytes(about) + 15) / 16 * 16;
    size_t bytes;
    if (!matrix_bytes(arg->rows, arg->ld_bytes, &bytes))
        return false;
    arg->data = calloc(bytes + 1, 1);
    if (arg->data)
        fill_arg(arg, seed, stream);
    return arg->data != NULL;
}

/* The bits of a scalar that was given as a number. */
static bool set_scalar(struct run_arg *arg, double value, struct diags *d)
{
    const struct image_arg *about = arg->about;
    const double low = strcmp(about->type, "s32") == 0 ? INT32_MIN : 0;
    const double high = low < 0 ? INT32_MAX : UINT32_MAX;
    arg->is_set = true;
    if (!is_integer(about)) {
        const float x = (float)value;
        arg->bits = bits_of_f32(x);
        if (about->is_scale && !(x > 0 && isfinite(x)))
            diag_add(d, DIAG_ARG_SCALE, loc_none(), about->name,
                     isnan(value) ? NAN : value, beyond_f32(value));
        else if (isinf(x) && isfinite(value))
            diag_add(d, DIAG_ARG_RANGE, loc_none(), about->name, value,
                     beyond_f32(value));
        else
            return true;
        return false;
    }
    if (value >= low && value <= high && value == floor(value)) {
        arg->bits = low < 0 ? (uint32_t)(int32_t)value : (uint32_t)value;
        return true;
    }
    diag_add(d, DIAG_ARG_VALUE, loc_none(), about->name, isnan(value) ? NAN : value,
             low, high);
    return false;
}

static bool apply(struct run_arg *args, const struct image *i,
                  const struct run_setting *s, struct diags *d)
{
    struct buf known;
    buf_init(&known, d->arena);
    buf_puts(&known, "");
    for (int k = 0; k < i->arg_count; k++) {
        if (i->args[k].kind != ARG_SCALAR)
            continue;
        if (strcmp(i->args[k].name, s->name) == 0)
            return set_scalar(&args[k], s->value, d);
        buf_printf(&known, "%s%s", known.bytes ? ", " : "", i->args[k].name);
    }
    diag_add(d, DIAG_RUN_ARG, loc_none(), i->epilogue, s->name,
             known.bytes ? known.data : "none");
    return false;
}

bool run_args_make(struct run_arg *args, const struct image *i, uint32_t m, uint32_t n,
                   uint64_t seed, const struct run_setting *set, int set_count,
                   struct diags *d)
{
    const unsigned first_stream = 32; /* behind those of the operands */
    bool ok = true;
    for (int k = 0; k < i->arg_count; k++) {
        args[k] = (struct run_arg){.about = &i->args[k]};
        ok = ok && make_arg(&args[k], m, n, seed, first_stream + (unsigned)k);
    }
    for (int s = 0; ok && s < set_count; s++)
        ok = apply(args, i, &set[s], d);
    return ok;
}

double run_arg_value(const struct run_arg *arg)
{
    float x;
    memcpy(&x, &arg->bits, sizeof x);
    if (strcmp(arg->about->type, "f32") == 0)
        return (double)x;
    return strcmp(arg->about->type, "s32") == 0 ? (double)(int32_t)arg->bits
                                                : (double)arg->bits;
}

void run_args_free(struct run_arg *args, const struct image *i)
{
    for (int k = 0; k < i->arg_count; k++) {
        free(args[k].data);
        args[k].data = NULL;
    }
}

uint32_t run_arg_element(const struct run_arg *arg, size_t row, size_t col)
{
    const size_t elem = elem_bytes(arg->about);
    const uint8_t *at = arg->data + row * arg->ld_bytes + col * elem;
    uint32_t bits = 0;
    memcpy(&bits, at, elem);
    if (elem == 4)
        return bits;
    bool is_bf16 = strcmp(arg->about->type, "bf16") == 0;
    return bits_of_f32(is_bf16 ? bf16_decode((uint16_t)bits)
                               : f16_decode((uint16_t)bits));
}

void run_arg_multiply(struct run_arg *arg, float by)
{
    const size_t elem = elem_bytes(arg->about);
    for (size_t row = 0; row < arg->rows; row++)
        for (size_t col = 0; col < arg->cols; col++) {
            uint32_t bits = run_arg_element(arg, row, col);
            float x;
            memcpy(&x, &bits, sizeof x);
            bits = bits_of(arg->about, x * by);
            memcpy(arg->data + row * arg->ld_bytes + col * elem, &bits, elem);
        }
}

/* ---- outputs */

size_t run_scale_bytes(size_t rows, size_t cols, size_t block)
{
    size_t groups = (cols + 4 * block - 1) / (4 * block);
    return (rows + 127) / 128 * groups * 512;
}

size_t run_scale_offset(size_t row, size_t b, size_t cols, size_t block)
{
    return sf_offset(row, b, (cols + 4 * block - 1) / (4 * block));
}

static bool make_output(struct run_output *o, uint32_t m, uint32_t n, uint64_t ldd,
                        uint8_t poison)
{
    const struct image_output *about = o->about;
    const size_t cols = n >> about->cols_shift;
    size_t bytes = sizeof(float);
    o->d = (struct d_matrix){.m = about->bits ? m : 1,
                             .n = about->bits ? cols : 1,
                             .bits = about->bits ? about->bits : 32,
                             .is_f32 = about->bits == 0 || about->bits == 32};
    o->d.ld_bytes = ldd ? (size_t)ldd : (cols * o->d.bits / 8 + 15) / 16 * 16;
    if (about->bits == 0)
        o->d.ld_bytes = sizeof(float);
    if (!matrix_bytes(o->d.m, o->d.ld_bytes, &bytes))
        return false;
    o->bytes_count = bytes + 2 * GUARD_BYTES;
    o->bytes = malloc(o->bytes_count);
    if (!o->bytes)
        return false;
    d_poison(&o->d, o->bytes, poison);
    if (about->bits == 0) /* raised from 0 */
        memset(o->bytes + GUARD_BYTES, 0, sizeof(float));
    if (!about->scale_block)
        return true;
    o->scales_count = run_scale_bytes(m, cols, about->scale_block) + 2 * GUARD_BYTES;
    o->scales = malloc(o->scales_count);
    if (o->scales)
        memset(o->scales, GUARD_BYTE, o->scales_count);
    return o->scales != NULL;
}

bool run_outputs_make(struct run_output *outs, const struct image *i, uint32_t m,
                      uint32_t n, uint64_t ldd, uint8_t poison)
{
    bool ok = true;
    for (int k = 0; k < i->output_count; k++) {
        outs[k] = (struct run_output){.about = &i->outputs[k]};
        ok = ok && make_output(&outs[k], m, n, k == 0 ? ldd : 0, poison);
    }
    return ok;
}

void run_outputs_free(struct run_output *outs, const struct image *i)
{
    for (int k = 0; k < i->output_count; k++) {
        free(outs[k].bytes);
        free(outs[k].scales);
        outs[k].bytes = outs[k].scales = NULL;
    }
}

uint32_t run_output_code(const struct run_output *o, size_t row, size_t col)
{
    const uint8_t *at = o->bytes + GUARD_BYTES + row * o->d.ld_bytes;
    uint32_t bits = 0;
    if (o->d.bits == 4)
        return at[col / 2] >> (col % 2 * 4) & 15;
    memcpy(&bits, at + col * o->d.bits / 8, o->d.bits / 8);
    return bits;
}
