#include "runtime/manifest_read.h"

#include <string.h>

#include "core/target.h"

static bool read_generator(struct reader *r)
{
    return read_text(r, r->value, r->out->generator, sizeof r->out->generator);
}

static bool read_config(struct reader *r)
{
    return read_text(r, r->value, r->out->config, sizeof r->out->config);
}

static bool read_hash(struct reader *r)
{
    struct span v = r->value;
    bool hex = v.chars == 16;
    for (size_t i = 0; hex && i < v.chars; i++)
        hex = memchr("0123456789abcdef", v.at[i], 16) != NULL;
    if (!hex)
        return bad_value(r, v, "16 hexadecimal digits");
    return read_text(r, v, r->out->config_hash, sizeof r->out->config_hash);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$';
}

static bool read_kernel(struct reader *r)
{
    for (size_t i = 0; i < r->value.chars; i++)
        if (!is_name_char(r->value.at[i]))
            return bad_value(r, r->value, "letters, digits, _ and $");
    return read_text(r, r->value, r->out->kernel, sizeof r->out->kernel);
}

static bool read_target(struct reader *r)
{
    if (!read_text(r, r->value, r->out->target, sizeof r->out->target))
        return false;
    if (!target_find(r->out->target))
        return bad_value(r, r->value, "a target that this version of fp4gen knows");
    return true;
}

static bool read_ptx_version(struct reader *r)
{
    struct span minor = r->value, major = span_take(&minor, '.');
    uint32_t tens, ones;
    if (!span_u32(major, 1, 99, &tens) || !span_u32(minor, 0, 9, &ones))
        return bad_value(r, r->value, "a number like 8.8");
    r->out->ptx_version = (int)(tens * 10 + ones);
    return true;
}

static bool read_three(struct reader *r, uint32_t out[3], uint32_t max,
                       const char *allowed)
{
    struct span rest = r->value;
    for (int i = 0; i < 3; i++)
        if (!span_u32(span_take(&rest, ' '), 1, max, &out[i]))
            return bad_value(r, r->value, allowed);
    return rest.chars == 0 || bad_value(r, r->value, allowed);
}

static bool read_tile(struct reader *r)
{
    return read_three(r, r->out->tile, 65536, "three numbers m n k, 1 to 65536");
}

static bool read_cluster(struct reader *r)
{
    return read_three(r, r->out->cluster, 16, "three numbers, 1 to 16");
}

static bool read_stages(struct reader *r)
{
    return span_u32(r->value, 1, 1024, &r->out->stages) ||
           bad_value(r, r->value, "1 to 1024");
}

static bool read_smem(struct reader *r)
{
    return span_u32(r->value, 0, 1 << 24, &r->out->smem_bytes) ||
           bad_value(r, r->value, "0 to 16777216 bytes");
}

static bool read_threads(struct reader *r)
{
    return span_u32(r->value, 1, 1024, &r->out->threads) ||
           bad_value(r, r->value, "1 to 1024");
}

static bool read_epilogue(struct reader *r)
{
    return read_text(r, r->value, r->out->epilogue, sizeof r->out->epilogue);
}

static bool read_n_multiple(struct reader *r)
{
    return span_u32(r->value, 1, 64, &r->out->n_multiple) ||
           bad_value(r, r->value, "1 to 64");
}

/* For gen, which evaluates it; here it is only text. */
static bool read_expr(struct reader *r)
{
    for (size_t i = 0; i < r->value.chars; i++)
        if (r->value.at[i] < ' ' || r->value.at[i] > '~')
            return bad_value(r, r->value, "printable ASCII");
    return true;
}

/* ---- ops beside the GEMM: gen/quantize.h */

enum { /* which keys an op has */
       GEMM = 1,
       TO_CODES = 2,
       BACK = 4,
       SCALES = 8,
       ALL = 15,
};

static const struct {
    const char *name;
    unsigned bit;
} ops[] = {
    {"gemm", GEMM},
    {"quantize_nvfp4", TO_CODES},
    {"deinterleave_quantize_nvfp4", TO_CODES},
    {"silu_mul_quantize_nvfp4", TO_CODES},
    {"dequantize_nvfp4", BACK},
    {"convert_scales", SCALES},
};

static unsigned op_bit(const struct image *i)
{
    for (size_t k = 0; k < COUNT_OF(ops); k++)
        if (strcmp(i->op, ops[k].name) == 0)
            return ops[k].bit;
    return GEMM; /* the key is missing */
}

static bool read_op(struct reader *r)
{
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (span_is(r->value, ops[i].name))
            return read_text(r, r->value, r->out->op, sizeof r->out->op);
    return bad_value(r, r->value, "an op that this version of fp4gen knows");
}

static bool read_word(struct reader *r, const char *const *words, size_t count,
                      char *out, size_t bytes, const char *allowed)
{
    return span_find(r->value, words, count) >= 0 ? read_text(r, r->value, out, bytes)
                                                  : bad_value(r, r->value, allowed);
}

static bool read_x_type(struct reader *r)
{
    static const char *const words[] = {"bf16", "f16", "f32"};
    return read_word(r, words, COUNT_OF(words), r->out->x_type, sizeof r->out->x_type,
                     "bf16, f16 or f32");
}

static bool read_x_form(struct reader *r)
{
    static const char *const words[] = {"plain", "halves", "interleaved"};
    return read_word(r, words, COUNT_OF(words), r->out->x_form, sizeof r->out->x_form,
                     "plain, halves or interleaved");
}

static bool read_x_order(struct reader *r)
{
    static const char *const words[] = {"gate_up", "up_gate"};
    return read_word(r, words, COUNT_OF(words), r->out->x_order, sizeof r->out->x_order,
                     "gate_up or up_gate");
}

static bool read_division(struct reader *r)
{
    static const char *const words[] = {"exact", "reciprocal"};
    return read_word(r, words, COUNT_OF(words), r->out->division,
                     sizeof r->out->division, "exact or reciprocal");
}

static const char *const layouts[] = {"linear", "128x4", "8x4"};

static bool read_layout(struct reader *r)
{
    return read_word(r, layouts, COUNT_OF(layouts), r->out->layout,
                     sizeof r->out->layout, "linear, 128x4 or 8x4");
}

static bool read_from_layout(struct reader *r)
{
    return read_word(r, layouts, COUNT_OF(layouts), r->out->from_layout,
                     sizeof r->out->from_layout, "linear, 128x4 or 8x4");
}

static bool read_rounding(struct reader *r)
{
    static const char *const words[] = {"nearest", "halfstep", "stochastic"};
    return read_word(r, words, COUNT_OF(words), r->out->rounding,
                     sizeof r->out->rounding, "nearest, halfstep or stochastic");
}

/* ---- all keys */

static const struct {
    const char *name;
    bool (*read)(struct reader *r);
    unsigned ops;
    bool repeats, is_optional;
} keys[] = {
    {"generator", read_generator, ALL, false, false},
    {"config", read_config, ALL, false, false},
    {"config-hash", read_hash, ALL, false, false},
    {"op", read_op, ALL, false, true}, /* missing: gemm */
    {"kernel", read_kernel, ALL, false, false},
    {"target", read_target, ALL, false, false},
    {"ptx-version", read_ptx_version, ALL, false, false},
    {"tile", read_tile, ALL, false, false},
    {"stages", read_stages, GEMM, false, false},
    {"cluster", read_cluster, GEMM, false, false},
    {"smem-bytes", read_smem, GEMM, false, false},
    {"threads", read_threads, ALL, false, false},
    {"epilogue", read_epilogue, GEMM, false, false},
    {"n-multiple", read_n_multiple, GEMM, false, false},
    {"output", read_output, GEMM, true, false},
    {"arg", read_arg, GEMM, true, true},
    {"expr", read_expr, GEMM, true, true},
    {"tensor", read_tensor, GEMM, true, false},
    {"x-type", read_x_type, TO_CODES | BACK, false, false},
    {"x-form", read_x_form, TO_CODES | BACK, false, false},
    {"layout", read_layout, TO_CODES | BACK | SCALES, false, false},
    {"from-layout", read_from_layout, SCALES, false, false},
    {"x-order", read_x_order, TO_CODES, false, false},
    {"rounding", read_rounding, TO_CODES, false, false},
    {"division", read_division, TO_CODES, false, false},
    {"param", read_param, ALL, true, false},
};

bool read_key(struct reader *r, uint32_t *seen)
{
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        if (!span_is(r->key, keys[i].name))
            continue;
        if ((*seen >> i & 1) && !keys[i].repeats) {
            fail(r->err, bad, ERROR(MANIFEST_TWICE), r->line, keys[i].name);
            return false;
        }
        *seen |= 1u << i;
        return keys[i].read(r);
    }
    fail(r->err, bad, ERROR(MANIFEST_KEY), r->line, span_shown(r->key), r->key.at);
    return false;
}

bool check_keys(const struct reader *r, uint32_t seen)
{
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (!(seen >> i & 1) && !keys[i].is_optional && keys[i].ops & op_bit(r->out)) {
            fail(r->err, bad, ERROR(MANIFEST_MISSING), keys[i].name);
            return false;
        } else if ((seen >> i & 1) && !(keys[i].ops & op_bit(r->out))) {
            fail(r->err, bad, ERROR(MANIFEST_FOREIGN), keys[i].name, r->out->op);
            return false;
        }
    return true;
}
