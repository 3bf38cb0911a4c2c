#include "runtime/manifest.h"

#include <stdbool.h>
#include <string.h>

#include "core/target.h"
#include "runtime/error.h"

#define BEGIN "// fp4gen-manifest "
#define END "// end-manifest"
#define SHOWN 60 /* characters of a wrong value that a message repeats */

struct span { /* borrowed text, not NUL-terminated */
    const char *at;
    size_t chars;
};

struct reader {
    struct image *out;
    fp4gen_error *err;
    const char *rest, *end; /* of the text */
    int line;
    struct span key, value; /* of the line that is being read */
};

static bool span_is(struct span s, const char *text)
{
    return s.chars == strlen(text) && memcmp(s.at, text, s.chars) == 0;
}

static int shown(struct span s)
{
    return s.chars > SHOWN ? SHOWN : (int)s.chars;
}

/* Next line without its end; false at the end of the text. */
static bool next_line(struct reader *r, struct span *line)
{
    if (r->rest == r->end)
        return false;
    const char *stop = memchr(r->rest, '\n', (size_t)(r->end - r->rest));
    line->at = r->rest;
    line->chars = (size_t)((stop ? stop : r->end) - r->rest);
    r->rest = stop ? stop + 1 : r->end;
    r->line++;
    if (line->chars && line->at[line->chars - 1] == '\r')
        line->chars--;
    return true;
}

/* The part of `s` up to `stop`, which is taken away from it together with the stop;
 * all of it when there is no stop. */
static struct span take(struct span *s, char stop)
{
    const char *found = s->chars ? memchr(s->at, stop, s->chars) : NULL;
    struct span part = {s->at, found ? (size_t)(found - s->at) : s->chars};
    size_t gone = part.chars + (found != NULL);
    s->at += gone;
    s->chars -= gone;
    return part;
}

static bool bad_value(const struct reader *r, struct span value, const char *allowed)
{
    fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_VALUE), r->line, (int)r->key.chars,
         r->key.at, shown(value), value.chars ? value.at : "", allowed);
    return false;
}

static bool read_u64(struct span s, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;
    if (s.chars == 0 || s.chars > 19)
        return false;
    for (size_t i = 0; i < s.chars; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    }
    *out = n;
    return n <= max;
}

static bool read_u32(struct span s, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t n;
    if (!read_u64(s, max, &n) || n < min)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* Into a field of `bytes` with its NUL; printable characters only. */
static bool read_text(const struct reader *r, struct span s, char *out, size_t bytes)
{
    if (s.chars >= bytes) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_LONG), r->line, (int)r->key.chars,
             r->key.at, s.chars, bytes - 1);
        return false;
    }
    for (size_t i = 0; i < s.chars; i++)
        if (s.at[i] < ' ' || s.at[i] > '~')
            return bad_value(r, s, "printable ASCII");
    if (s.chars == 0)
        return bad_value(r, s, "a text that is not empty");
    memcpy(out, s.at, s.chars);
    out[s.chars] = '\0';
    return true;
}

static int find_name(struct span s, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && span_is(s, names[i]))
            return (int)i;
    return -1;
}

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
    struct span minor = r->value, major = take(&minor, '.');
    uint32_t tens, ones;
    if (!read_u32(major, 1, 99, &tens) || !read_u32(minor, 0, 9, &ones))
        return bad_value(r, r->value, "a number like 8.8");
    r->out->ptx_version = (int)(tens * 10 + ones);
    return true;
}

static bool read_three(struct reader *r, uint32_t out[3], uint32_t max,
                       const char *allowed)
{
    struct span rest = r->value;
    for (int i = 0; i < 3; i++)
        if (!read_u32(take(&rest, ' '), 1, max, &out[i]))
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
    return read_u32(r->value, 1, 1024, &r->out->stages) ||
           bad_value(r, r->value, "1 to 1024");
}

static bool read_smem(struct reader *r)
{
    return read_u32(r->value, 0, 1 << 24, &r->out->smem_bytes) ||
           bad_value(r, r->value, "0 to 16777216 bytes");
}

static bool read_threads(struct reader *r)
{
    return read_u32(r->value, 1, 1024, &r->out->threads) ||
           bad_value(r, r->value, "1 to 1024");
}

static bool read_d_type(struct reader *r)
{
    if (!span_is(r->value, "bf16") && !span_is(r->value, "f32"))
        return bad_value(r, r->value, "bf16 or f32");
    return read_text(r, r->value, r->out->d_type, sizeof r->out->d_type);
}

static bool read_epilogue(struct reader *r)
{
    return read_text(r, r->value, r->out->epilogue, sizeof r->out->epilogue);
}

static const char *const symbols[] = {
    [SYM_ONE] = "",      [SYM_M] = "m",       [SYM_N] = "n",     [SYM_K] = "k",
    [SYM_K2] = "k2",     [SYM_N8] = "n8",     [SYM_N4] = "n4",   [SYM_K64] = "k64",
    [SYM_M128] = "m128", [SYM_N128] = "n128", [SYM_LDA] = "lda", [SYM_LDB] = "ldb",
    [SYM_LDD] = "ldd",
};

/* INT, SYMBOL or INT*SYMBOL. */
static bool read_size(struct span s, struct image_size *out)
{
    const uint64_t max = (uint64_t)1 << 40;
    *out = (struct image_size){1, SYM_ONE};
    struct span symbol = s;
    if (s.chars && s.at[0] >= '0' && s.at[0] <= '9') {
        struct span factor = take(&symbol, '*');
        if (!read_u64(factor, max, &out->factor))
            return false;
        if (factor.chars == s.chars)
            return true;
    }
    int found = find_name(symbol, symbols, COUNT_OF(symbols));
    if (found <= SYM_ONE)
        return false;
    out->symbol = (enum image_symbol)found;
    return true;
}

/* A list with commas between, at most `max`; its length or -1. */
static int read_sizes(struct span list, struct image_size *out, int max)
{
    int count = 0;
    while (list.chars) {
        if (count == max || !read_size(take(&list, ','), &out[count]))
            return -1;
        count++;
    }
    return count;
}

/* "NAME=" and what follows up to the next space. */
static bool take_field(struct span *rest, const char *name, struct span *out)
{
    *out = take(rest, ' ');
    return span_is(take(out, '='), name);
}

static bool tensor_is_new(const struct reader *r, const char *name)
{
    for (int i = 0; i < r->out->tensor_count; i++)
        if (strcmp(r->out->tensors[i].name, name) == 0)
            return false;
    return true;
}

static bool read_tensor(struct reader *r)
{
    static const char *const types[] = {
        "uint8",        "uint16",       "uint32",        "int32",
        "uint64",       "int64",        "float16",       "float32",
        "float64",      "bfloat16",     "float32_ftz",   "tfloat32",
        "tfloat32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b",
    };
    static const char *const swizzles[] = {
        "none",         "32b", "64b", "128b", "128b_atom_32b", "128b_atom_32b_flip_8b",
        "128b_atom_64b"};
    static const char *const promotions[] = {"none", "64b", "128b", "256b"};
    static const char form[] = "NAME type=T dims=D,.. strides=S,.. box=N,.. swizzle=S "
                               "l2=L with 1 to 5 dimensions";
    if (r->out->tensor_count == IMAGE_MAX_TENSORS)
        return bad_value(r, r->value, "16 tensors at most");
    struct image_tensor *t = &r->out->tensors[r->out->tensor_count];
    struct span rest = r->value, field, type, swizzle, l2;
    if (!read_text(r, take(&rest, ' '), t->name, sizeof t->name))
        return false;
    if (!tensor_is_new(r, t->name))
        return bad_value(r, r->value, "each tensor once");
    if (!take_field(&rest, "type", &type) || !take_field(&rest, "dims", &field))
        return bad_value(r, r->value, form);
    t->rank = read_sizes(field, t->dims, 5);
    if (t->rank < 1 || !take_field(&rest, "strides", &field) ||
        read_sizes(field, t->strides, 4) != t->rank - 1 ||
        !take_field(&rest, "box", &field))
        return bad_value(r, r->value, form);
    for (int i = 0; i < t->rank; i++)
        if (!read_u32(take(&field, ','), 1, 256, &t->box[i]))
            return bad_value(r, r->value, form);
    if (field.chars || !take_field(&rest, "swizzle", &swizzle) ||
        !take_field(&rest, "l2", &l2) || rest.chars)
        return bad_value(r, r->value, form);
    t->type = find_name(type, types, COUNT_OF(types));
    t->swizzle = find_name(swizzle, swizzles, COUNT_OF(swizzles));
    t->l2_promotion = find_name(l2, promotions, COUNT_OF(promotions));
    if (t->type < 0)
        return bad_value(r, type, "a CUtensorMapDataType, like 16u4_align8b");
    if (t->swizzle < 0)
        return bad_value(r, swizzle, "a CUtensorMapSwizzle, like 128b");
    if (t->l2_promotion < 0)
        return bad_value(r, l2, "none, 64b, 128b or 256b");
    r->out->tensor_count++;
    return true;
}

static bool read_param(struct reader *r)
{
    static const char *const kinds[] = {
        [PARAM_TENSOR_MAP] = "tensor-map",
        [PARAM_U32] = "u32",
        [PARAM_U64] = "u64",
        [PARAM_F32] = "f32",
        [PARAM_PTR] = "ptr",
    };
    static const char *const quantize_names[] = {
        [PARAM_TENSOR_MAP] = "",
        [PARAM_U32] = " m k seed ",
        [PARAM_U64] = " ldx ldc lds ldf ",
        [PARAM_F32] = " global ",
        [PARAM_PTR] = " x codes scales from global_ptr amax_ptr global_out ",
    };
    static const char *const names[] = {
        [PARAM_TENSOR_MAP] = " a b sfa sfb d ",
        [PARAM_U32] = " m n k ",
        [PARAM_U64] = " ldd ",
        [PARAM_F32] = " alpha ",
        [PARAM_PTR] = " alpha_ptr d_ptr ",
    };
    if (r->out->param_count == IMAGE_MAX_PARAMS)
        return bad_value(r, r->value, "32 parameters at most");
    struct image_param *p = &r->out->params[r->out->param_count];
    struct span kind_name = r->value;
    if (!read_text(r, take(&kind_name, ' '), p->name, sizeof p->name))
        return false;
    int kind = find_name(kind_name, kinds, COUNT_OF(kinds));
    if (kind < 0)
        return bad_value(r, r->value, "NAME and tensor-map, u32, u64, f32 or ptr");
    p->kind = (enum image_param_kind)kind;
    char padded[sizeof p->name + 2] = " ";
    strcat(strcat(padded, p->name), " ");
    if (r->out->op[0] && strcmp(r->out->op, "gemm") != 0)
        return strstr(quantize_names[kind], padded) && ++r->out->param_count
                   ? true
                   : bad_value(r, r->value, "a parameter of docs/manifest.md");
    if (!strstr(names[kind], padded))
        return bad_value(r, r->value,
                         "a, b, sfa, sfb, d as tensor-map, m, n, k as u32, ldd as u64, "
                         "alpha as f32, d_ptr, alpha_ptr as ptr");
    if (p->kind == PARAM_TENSOR_MAP && tensor_is_new(r, p->name))
        return bad_value(r, r->value, "a tensor that a line above describes");
    r->out->param_count++;
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
    return find_name(r->value, words, count) >= 0 ? read_text(r, r->value, out, bytes)
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
    {"d-type", read_d_type, GEMM, false, false},
    {"epilogue", read_epilogue, GEMM, false, false},
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

/* "// key: value"; notes the key in `seen`. */
static bool read_line(struct reader *r, struct span line, uint32_t *seen)
{
    struct span rest = line;
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    if (line.chars < 3 || memcmp(line.at, "// ", 3) != 0 ||
        !memchr(line.at, ':', line.chars)) {
        fail(r->err, bad, ERROR(MANIFEST_LINE), r->line, shown(line), line.at);
        return false;
    }
    rest.at += 3;
    rest.chars -= 3;
    r->key = take(&rest, ':');
    if (rest.chars && rest.at[0] == ' ') {
        rest.at++;
        rest.chars--;
    }
    r->value = rest;
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
    fail(r->err, bad, ERROR(MANIFEST_KEY), r->line, shown(r->key), r->key.at);
    return false;
}

/* Leaves `block` as the manifest's lines, the first and the last included. */
static bool read_comment(struct reader *r, struct span *block)
{
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    struct span line = {r->rest, 0};
    uint32_t version = 0, seen = 0;
    do {
        if (!next_line(r, &line)) {
            fail(r->err, bad, ERROR(KERNEL_NOT_OURS));
            return false;
        }
    } while (line.chars < strlen(BEGIN) || memcmp(line.at, BEGIN, strlen(BEGIN)) != 0);
    block->at = line.at;
    struct span number = {line.at + strlen(BEGIN), line.chars - strlen(BEGIN)};
    if (!read_u32(number, 1, 1u << 30, &version) || version != IMAGE_MANIFEST_VERSION) {
        fail(r->err, bad, ERROR(MANIFEST_VERSION), r->line, shown(number), number.at,
             IMAGE_MANIFEST_VERSION);
        return false;
    }
    for (;;) {
        /* A line without its end is cut off, even where it reads well. */
        if (!next_line(r, &line) || r->rest == r->end) {
            fail(r->err, bad, ERROR(MANIFEST_TRUNCATED), r->line);
            return false;
        }
        if (span_is(line, END))
            break;
        if (!read_line(r, line, &seen))
            return false;
    }
    block->chars = (size_t)(r->rest - block->at);
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

/* The character of the comment that the constant must have next, -1 at the end. */
static int next_expected(struct span *block, bool *line_start)
{
    if (*line_start && block->chars) { /* skip "// " */
        size_t skip = block->chars < 3 ? block->chars : 3;
        block->at += skip;
        block->chars -= skip;
    }
    *line_start = false;
    if (!block->chars)
        return -1;
    int c = (unsigned char)*block->at;
    block->at++;
    block->chars--;
    if (c == '\r')
        return next_expected(block, line_start);
    *line_start = c == '\n';
    return c;
}

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* The constant comes behind the kernel, so a text that was cut off lacks it. */
static bool check_constant(const struct reader *r, struct span block)
{
    static const char name[] = " fp4gen_manifest[";
    const char *p = strstr(r->rest, name);
    if (!p) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(KERNEL_TRUNCATED), r->line);
        return false;
    }
    p += strcspn(p, "{");
    bool line_start = true;
    bool same = *p == '{';
    while (same) {
        p = skip_space(p + 1); /* behind { or , */
        size_t digits = strspn(p, "0123456789");
        uint32_t byte = 0;
        int want = next_expected(&block, &line_start);
        same = read_u32((struct span){p, digits}, 0, 255, &byte) && (int)byte == want;
        p = skip_space(p + digits);
        if (*p == '\0') {
            fail(r->err, FP4GEN_BAD_PTX, ERROR(KERNEL_TRUNCATED), r->line);
            return false;
        }
        if (*p != ',')
            break;
    }
    if (!same || *p != '}' || next_expected(&block, &line_start) != -1) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_COPIES));
        return false;
    }
    return true;
}

/* `word` at the start of a line, and the word behind it. */
static struct span find_directive(const char *text, const char *word)
{
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p = skip_space(p);
        if (strncmp(p, word, strlen(word)) == 0) {
            p += strlen(word);
            p += strspn(p, " \t");
            return (struct span){p, strcspn(p, " \t\r\n,")};
        }
    }
    return (struct span){text, 0};
}

static bool check_directive(const struct reader *r, const char *word, const char *want)
{
    struct span has = find_directive(r->rest, word);
    if (span_is(has, want))
        return true;
    fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_DIRECTIVE), word + 1, want, word,
         shown(has), has.at);
    return false;
}

static bool has_entry(const char *text, const char *kernel)
{
    size_t chars = strlen(kernel);
    for (const char *p = text; (p = strstr(p, ".entry")); p++) {
        const char *name = skip_space(p + strlen(".entry"));
        if (strncmp(name, kernel, chars) == 0 && !is_name_char(name[chars]))
            return true;
    }
    return false;
}

fp4gen_status manifest_read(struct image *out, const char *ptx, size_t bytes,
                            fp4gen_error *err)
{
    struct reader r = {.out = out, .err = err, .rest = ptx, .end = ptx + bytes};
    struct span block;
    memset(out, 0, sizeof *out);
    out->ptx = ptx;
    out->ptx_bytes = bytes;
    const char *nul = memchr(ptx, '\0', bytes);
    if (nul) {
        return fail(err, FP4GEN_BAD_PTX, ERROR(KERNEL_BINARY), (size_t)(nul - ptx));
    }
    if (!read_comment(&r, &block))
        return FP4GEN_BAD_PTX;
    char version[16];
    version[0] = (char)('0' + out->ptx_version / 10 % 10);
    version[1] = '.';
    version[2] = (char)('0' + out->ptx_version % 10);
    version[3] = '\0';
    if (!check_constant(&r, block) || !check_directive(&r, ".version", version) ||
        !check_directive(&r, ".target", out->target))
        return FP4GEN_BAD_PTX;
    if (!has_entry(r.rest, out->kernel))
        return fail(err, FP4GEN_BAD_PTX, ERROR(MANIFEST_ENTRY), out->kernel);
    return FP4GEN_OK;
}
