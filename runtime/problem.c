#include "runtime/problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "runtime/error.h"

#define MAX_SIZE                                                                       \
    0x7fffff00u /* TMA coordinates are signed, and tiles reach past the end */
#define MAX_STRIDE ((uint64_t)1 << 40)

static const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;

static uint64_t ceil_div_u64(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

uint64_t output_row_bytes(const struct image_output *o, uint32_t n)
{
    return ((uint64_t)(n >> o->cols_shift) * o->bits + 7) / 8;
}

/* Fills in a stride that was left 0, and refuses one that no tensor map takes. */
static fp4gen_status check_stride(const char *name, uint64_t row_bytes,
                                  uint64_t *stride, fp4gen_error *err)
{
    uint64_t padded = ceil_div_u64(row_bytes, 16) * 16;
    if (*stride == 0 && row_bytes % 16 != 0)
        return fail(err, bad, ERROR(GEMM_DENSE), name, U64(row_bytes), name,
                    U64(padded));
    if (*stride == 0)
        *stride = row_bytes;
    if (*stride >= MAX_STRIDE)
        return fail(err, bad, ERROR(GEMM_STRIDE_LONG), name, U64(*stride));
    if (*stride % 16 != 0)
        return fail(err, bad, ERROR(GEMM_STRIDE), name, U64(*stride),
                    U64(ceil_div_u64(*stride, 16) * 16));
    if (*stride < row_bytes)
        return fail(err, bad, ERROR(GEMM_STRIDE_SHORT), name, U64(*stride),
                    U64(row_bytes));
    return FP4GEN_OK;
}

static fp4gen_status check_address(const char *name, uint64_t address, uint64_t unit,
                                   fp4gen_error *err)
{
    if (address == 0)
        return fail(err, bad, ERROR(NULL_ADDRESS), name);
    if (address % unit != 0)
        return fail(err, bad, ERROR(GEMM_ADDRESS), name, U64(address), U64(unit));
    return FP4GEN_OK;
}

static fp4gen_status check_sizes(const struct image *i, const fp4gen_gemm *g,
                                 fp4gen_error *err)
{
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"m", g->m}, {"n", g->n}, {"k", g->k}};
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        if (sizes[s].value > MAX_SIZE)
            return fail(err, bad, ERROR(GEMM_SIZE), sizes[s].name, sizes[s].value,
                        MAX_SIZE);
    if (g->k % 2 != 0)
        return fail(err, bad, ERROR(GEMM_ODD_K), g->k, g->k + 1);
    if (g->n % i->n_multiple != 0)
        return fail(err, bad, ERROR(GEMM_N_MULTIPLE), g->n, i->epilogue, i->n_multiple);
    return FP4GEN_OK;
}

/* ---- names */

struct names {
    char text[1024];
};

static const char *output_names(const struct image *i, struct names *out)
{
    size_t at = 0;
    out->text[0] = '\0';
    for (int k = 0; k < i->output_count; k++)
        at += (size_t)snprintf(out->text + at, sizeof out->text - at, "%s%s (%s)",
                               k ? ", " : "", i->outputs[k].name, i->outputs[k].format);
    return out->text;
}

static const char *const kind_words[] = {[ARG_SCALAR] = "scalar",
                                         [ARG_COL] = "vector, one for each column",
                                         [ARG_ROW] = "vector, one for each row",
                                         [ARG_AUX] = "tile"};

static const char *arg_names(const struct image *i, struct names *out)
{
    static const char *const kinds[] = {[ARG_SCALAR] = "",
                                        [ARG_COL] = " for each column",
                                        [ARG_ROW] = " for each row",
                                        [ARG_AUX] = " for each element"};
    size_t at = 0;
    snprintf(out->text, sizeof out->text, "none");
    for (int k = 0; k < i->arg_count; k++)
        at += (size_t)snprintf(out->text + at, sizeof out->text - at, "%s%s (%s%s)",
                               k ? ", " : "", i->args[k].name, i->args[k].type,
                               kinds[i->args[k].kind]);
    return out->text;
}

static int find_output(const struct image *i, const char *name)
{
    int k = 0;
    while (k < i->output_count && (!name || strcmp(i->outputs[k].name, name) != 0))
        k++;
    return k;
}

static int find_arg(const struct image *i, const char *name)
{
    int k = 0;
    while (k < i->arg_count && (!name || strcmp(i->args[k].name, name) != 0))
        k++;
    return k;
}

/* Is there a list, and no longer than any kernel's?  Behind its end nobody looks. */
static fp4gen_status check_list(const char *name, const void *list, uint32_t count,
                                uint32_t max, fp4gen_error *err)
{
    if (count > max)
        return fail(err, bad, ERROR(LIST_COUNT), name, count, max);
    if (count && !list)
        return fail(err, bad, ERROR(LIST_NULL), name, count);
    return FP4GEN_OK;
}

/* ---- outputs */

static fp4gen_status take_outputs(struct problem *p, const struct image *i,
                                  bool *is_given, fp4gen_error *err)
{
    const fp4gen_gemm *g = &p->g;
    struct names names;
    fp4gen_status s =
        check_list("outputs", g->outputs, g->output_count, IMAGE_MAX_OUTPUTS, err);
    for (uint32_t o = 0; !s && o < g->output_count; o++) {
        const fp4gen_output *out = &g->outputs[o];
        int k = find_output(i, out->name);
        if (k == i->output_count)
            return fail(err, bad, ERROR(OUTPUT_UNKNOWN), i->epilogue,
                        out->name ? out->name : "", output_names(i, &names));
        if (is_given[k] || (k == 0 && (g->d || g->ldd || g->d_scales)))
            return fail(err, bad, ERROR(OUTPUT_TWICE), i->outputs[k].name);
        is_given[k] = true;
        p->outputs[k] = *out;
    }
    if (!is_given[0])
        p->outputs[0] =
            (fp4gen_output){.address = g->d, .ld = g->ldd, .scales = g->d_scales};
    is_given[0] = true;
    return s;
}

static fp4gen_status check_output(const struct image_output *o, fp4gen_output *out,
                                  uint32_t n, bool addresses, fp4gen_error *err)
{
    const bool is_matrix = o->bits != 0;
    fp4gen_status s = FP4GEN_OK;
    if (!is_matrix && out->ld)
        return fail(err, bad, ERROR(OPTION_UNUSED), "output", o->name, "ld", o->format);
    if (!o->scale_block && out->scales)
        return fail(err, bad, ERROR(OPTION_UNUSED), "output", o->name, "scales",
                    o->format);
    if (is_matrix)
        s = check_stride(o->name, output_row_bytes(o, n), &out->ld, err);
    if (!s && addresses)
        s = check_address(o->name, out->address, is_matrix ? 16 : 4, err);
    if (!s && addresses && o->scale_block) {
        char name[32];
        snprintf(name, sizeof name, "scales of %s", o->name);
        s = check_address(name, out->scales, 16, err);
    }
    return s;
}

static fp4gen_status make_outputs(struct problem *p, const struct image *i,
                                  bool addresses, fp4gen_error *err)
{
    bool is_given[IMAGE_MAX_OUTPUTS] = {false};
    struct names names;
    fp4gen_status s = take_outputs(p, i, is_given, err);
    for (int k = 0; !s && k < i->output_count; k++) {
        if (!is_given[k] && addresses)
            return fail(err, bad, ERROR(OUTPUT_MISSING), i->outputs[k].name,
                        i->epilogue, output_names(i, &names));
        if (is_given[k])
            s = check_output(&i->outputs[k], &p->outputs[k], p->g.n, addresses, err);
    }
    return s;
}

/* ---- arguments */

/* The bits of a scalar. */
static fp4gen_status convert(const struct image_arg *arg, double value, uint32_t *bits,
                             fp4gen_error *err)
{
    if (strcmp(arg->type, "f32") == 0) {
        float x = (float)value;
        memcpy(bits, &x, sizeof x);
        if (arg->is_scale && !(x > 0 && isfinite(x)))
            return fail(err, bad, ERROR(ARG_SCALE), arg->name,
                        isnan(value) ? NAN : value, /* without its sign */
                        beyond_f32(value));
        if (isinf(x) && isfinite(value))
            return fail(err, bad, ERROR(ARG_RANGE), arg->name, value,
                        beyond_f32(value));
        return FP4GEN_OK;
    }
    const bool is_signed = strcmp(arg->type, "s32") == 0;
    const double low = is_signed ? INT32_MIN : 0;
    const double high = is_signed ? INT32_MAX : UINT32_MAX;
    if (!(value >= low && value <= high) || value != floor(value))
        return fail(err, bad, ERROR(ARG_VALUE), arg->name, isnan(value) ? NAN : value,
                    low, high); /* without its sign */
    *bits = is_signed ? (uint32_t)(int32_t)value : (uint32_t)value;
    return FP4GEN_OK;
}

static fp4gen_status take_arg(struct problem *p, const struct image *i, int k,
                              const fp4gen_arg *given, bool addresses,
                              fp4gen_error *err)
{
    const struct image_arg *arg = &i->args[k];
    struct problem_arg *out = &p->args[k];
    fp4gen_status s = FP4GEN_OK;
    if (arg->kind != ARG_AUX && given->ld)
        return fail(err, bad, ERROR(OPTION_UNUSED), "parameter", arg->name, "ld",
                    kind_words[arg->kind]);
    if (arg->kind != ARG_SCALAR && given->value != 0)
        return fail(err, bad, ERROR(OPTION_UNUSED), "parameter", arg->name, "value",
                    kind_words[arg->kind]);
    *out = (struct problem_arg){.address = given->address, .ld = given->ld};
    if (arg->kind == ARG_SCALAR && given->address == 0)
        return convert(arg, given->value, &out->bits, err);
    if (arg->kind == ARG_AUX) {
        bool is_narrow =
            strcmp(arg->type, "bf16") == 0 || strcmp(arg->type, "f16") == 0;
        uint64_t cols = p->g.n >> arg->cols_shift;
        s = check_stride(arg->name, cols * (is_narrow ? 2 : 4), &out->ld, err);
    }
    if (!s && addresses)
        s = check_address(arg->name, out->address, arg->kind == ARG_SCALAR ? 4 : 16,
                          err);
    return s;
}

static fp4gen_status make_args(struct problem *p, const struct image *i, bool addresses,
                               fp4gen_error *err)
{
    bool is_given[IMAGE_MAX_ARGS] = {false};
    struct names names;
    fp4gen_status s =
        check_list("args", p->g.args, p->g.arg_count, IMAGE_MAX_ARGS, err);
    for (uint32_t a = 0; !s && a < p->g.arg_count; a++) {
        const fp4gen_arg *given = &p->g.args[a];
        int k = find_arg(i, given->name);
        if (k == i->arg_count)
            return fail(err, bad, ERROR(ARG_UNKNOWN), i->epilogue,
                        given->name ? given->name : "", arg_names(i, &names));
        if (is_given[k])
            return fail(err, bad, ERROR(ARG_TWICE), given->name);
        is_given[k] = true;
        s = take_arg(p, i, k, given, addresses, err);
    }
    for (int k = 0; !s && k < i->arg_count; k++) {
        if (is_given[k])
            continue;
        if (!i->args[k].has_default && addresses)
            return fail(err, bad, ERROR(ARG_MISSING), i->args[k].name, i->epilogue,
                        arg_names(i, &names));
        p->args[k] = (struct problem_arg){.bits = i->args[k].default_bits};
    }
    return s;
}

/* ---- the whole */

/* Operands are not needed when k is 0. */
static fp4gen_status check_operands(const fp4gen_gemm *g, fp4gen_error *err)
{
    fp4gen_status s = FP4GEN_OK;
    const struct {
        const char *name;
        uint64_t address;
    } operands[] = {{"a", g->a}, {"b", g->b}, {"sfa", g->sfa}, {"sfb", g->sfb}};
    for (size_t o = 0; !s && g->k && o < COUNT_OF(operands); o++)
        s = check_address(operands[o].name, operands[o].address, 16, err);
    if (!s && g->alpha_ptr)
        s = check_address("alpha_ptr", g->alpha_ptr, 4, err);
    return s;
}

fp4gen_status problem_make(struct problem *p, const struct image *i,
                           const fp4gen_gemm *g, bool addresses, fp4gen_error *err)
{
    *p = (struct problem){.g = *g};
    fp4gen_status s = check_sizes(i, g, err);
    if (!s)
        s = make_outputs(p, i, addresses, err);
    if (!s)
        s = check_stride("a", g->k / 2, &p->g.lda, err);
    if (!s)
        s = check_stride("b", g->k / 2, &p->g.ldb, err);
    if (!s)
        s = make_args(p, i, addresses, err);
    if (!s && addresses)
        s = check_operands(&p->g, err);
    if (!s && (!g->output_count || g->d))
        p->g.ldd = p->outputs[0].ld;
    return s;
}
