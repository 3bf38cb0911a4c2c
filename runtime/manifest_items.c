#include "runtime/manifest_read.h"

#include <string.h>

/* ---- tensors */

static const char *const symbols[SYM_COUNT] = {
    [SYM_ONE] = "",
    [SYM_M] = "m",
    [SYM_N] = "n",
    [SYM_K] = "k",
    [SYM_K2] = "k2",
    [SYM_K64] = "k64",
    [SYM_M128] = "m128",
    [SYM_N128] = "n128",
    [SYM_LDA] = "lda",
    [SYM_LDB] = "ldb",
    [SYM_PIECES] = "o0_pieces",
    [SYM_PIECES + 1] = "o1_pieces",
    [SYM_PIECES + 2] = "o2_pieces",
    [SYM_PIECES + 3] = "o3_pieces",
    [SYM_LD] = "o0_ld",
    [SYM_LD + 1] = "o1_ld",
    [SYM_LD + 2] = "o2_ld",
    [SYM_LD + 3] = "o3_ld",
};

/* INT, SYMBOL or INT*SYMBOL. */
static bool read_size(struct span s, struct image_size *out)
{
    const uint64_t max = (uint64_t)1 << 40;
    *out = (struct image_size){1, SYM_ONE};
    struct span symbol = s;
    if (s.chars && s.at[0] >= '0' && s.at[0] <= '9') {
        struct span factor = span_take(&symbol, '*');
        if (!span_u64(factor, max, &out->factor))
            return false;
        if (factor.chars == s.chars)
            return true;
    }
    int found = span_find(symbol, symbols, COUNT_OF(symbols));
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
        if (count == max || !read_size(span_take(&list, ','), &out[count]))
            return -1;
        count++;
    }
    return count;
}

static bool tensor_is_new(const struct reader *r, const char *name)
{
    for (int i = 0; i < r->out->tensor_count; i++)
        if (strcmp(r->out->tensors[i].name, name) == 0)
            return false;
    return true;
}

bool read_tensor(struct reader *r)
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
    if (!read_text(r, span_take(&rest, ' '), t->name, sizeof t->name))
        return false;
    if (!tensor_is_new(r, t->name))
        return bad_value(r, r->value, "each tensor once");
    if (!span_take_field(&rest, "type", &type) ||
        !span_take_field(&rest, "dims", &field))
        return bad_value(r, r->value, form);
    t->rank = read_sizes(field, t->dims, 5);
    if (t->rank < 1 || !span_take_field(&rest, "strides", &field) ||
        read_sizes(field, t->strides, 4) != t->rank - 1 ||
        !span_take_field(&rest, "box", &field))
        return bad_value(r, r->value, form);
    for (int i = 0; i < t->rank; i++)
        if (!span_u32(span_take(&field, ','), 1, 256, &t->box[i]))
            return bad_value(r, r->value, form);
    if (field.chars || !span_take_field(&rest, "swizzle", &swizzle) ||
        !span_take_field(&rest, "l2", &l2) || rest.chars)
        return bad_value(r, r->value, form);
    t->type = span_find(type, types, COUNT_OF(types));
    t->swizzle = span_find(swizzle, swizzles, COUNT_OF(swizzles));
    t->l2_promotion = span_find(l2, promotions, COUNT_OF(promotions));
    if (t->type < 0)
        return bad_value(r, type, "a CUtensorMapDataType, like 16u4_align8b");
    if (t->swizzle < 0)
        return bad_value(r, swizzle, "a CUtensorMapSwizzle, like 128b");
    if (t->l2_promotion < 0)
        return bad_value(r, l2, "none, 64b, 128b or 256b");
    r->out->tensor_count++;
    return true;
}

/* ---- outputs, arguments, parameters */

static bool read_columns(struct span s, uint32_t *shift)
{
    *shift = span_is(s, "n/2");
    return *shift || span_is(s, "n");
}

bool read_output(struct reader *r)
{
    static const char form[] = "NAME format=F cols=n|n/2|0 bits=B scales=S";
    if (r->out->output_count == IMAGE_MAX_OUTPUTS)
        return bad_value(r, r->value, "4 outputs at most");
    struct image_output *o = &r->out->outputs[r->out->output_count];
    struct span rest = r->value, format, cols, bits, scales;
    if (!read_text(r, span_take(&rest, ' '), o->name, sizeof o->name))
        return false;
    for (int i = 0; i < r->out->output_count; i++)
        if (strcmp(r->out->outputs[i].name, o->name) == 0)
            return bad_value(r, r->value, "each output once");
    if (!span_take_field(&rest, "format", &format) ||
        !span_take_field(&rest, "cols", &cols) ||
        !span_take_field(&rest, "bits", &bits) ||
        !span_take_field(&rest, "scales", &scales) || rest.chars ||
        !span_u32(bits, 0, 32, &o->bits) || !span_u32(scales, 0, 32, &o->scale_block))
        return bad_value(r, r->value, form);
    bool is_matrix = o->bits != 0;
    if (is_matrix ? !read_columns(cols, &o->cols_shift) : !span_is(cols, "0"))
        return bad_value(r, r->value, form);
    if ((o->bits & (o->bits - 1)) || (o->bits && o->bits < 4))
        return bad_value(r, bits, "0, 4, 8, 16 or 32");
    if (o->scale_block && o->scale_block != 16 && o->scale_block != 32)
        return bad_value(r, scales, "0, 16 or 32");
    r->out->output_count++;
    return read_text(r, format, o->format, sizeof o->format);
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = memchr(digits, c, 16);
    return at ? (int)(at - digits) : -1;
}

/* 0x and eight digits */
static bool read_bits(struct span s, uint32_t *out)
{
    *out = 0;
    if (s.chars != 10 || s.at[0] != '0' || s.at[1] != 'x')
        return false;
    for (size_t i = 2; i < s.chars; i++) {
        int digit = hex_digit(s.at[i]);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

bool read_arg(struct reader *r)
{
    static const char *const kinds[] = {[ARG_SCALAR] = "scalar",
                                        [ARG_COL] = "col",
                                        [ARG_ROW] = "row",
                                        [ARG_AUX] = "aux"};
    static const char *const types[] = {"f32", "s32", "u32", "bf16", "f16"};
    static const char form[] =
        "NAME kind=scalar|col|row|aux type=T, then cols=n|n/2 of "
        "col and aux, use=scale, default=0x... of a scalar";
    if (r->out->arg_count == IMAGE_MAX_ARGS)
        return bad_value(r, r->value, "16 arguments at most");
    struct image_arg *arg = &r->out->args[r->out->arg_count];
    struct span rest = r->value, kind, type, field;
    if (!read_text(r, span_take(&rest, ' '), arg->name, sizeof arg->name))
        return false;
    for (int i = 0; i < r->out->arg_count; i++)
        if (strcmp(r->out->args[i].name, arg->name) == 0)
            return bad_value(r, r->value, "each argument once");
    if (!span_take_field(&rest, "kind", &kind) ||
        !span_take_field(&rest, "type", &type))
        return bad_value(r, r->value, form);
    int found = span_find(kind, kinds, COUNT_OF(kinds));
    if (found < 0 || span_find(type, types, COUNT_OF(types)) < 0)
        return bad_value(r, r->value, form);
    arg->kind = (enum image_arg_kind)found;
    bool has_cols = arg->kind == ARG_COL || arg->kind == ARG_AUX;
    if (has_cols && (!span_take_field(&rest, "cols", &field) ||
                     !read_columns(field, &arg->cols_shift)))
        return bad_value(r, r->value, form);
    struct span behind = rest;
    if (span_take_field(&behind, "use", &field) && span_is(field, "scale")) {
        arg->is_scale = 1;
        rest = behind;
    }
    if (arg->kind == ARG_SCALAR && rest.chars) {
        arg->has_default = span_take_field(&rest, "default", &field) &&
                           read_bits(field, &arg->default_bits);
        if (!arg->has_default)
            return bad_value(r, r->value, form);
    }
    if (rest.chars)
        return bad_value(r, r->value, form);
    r->out->arg_count++;
    return read_text(r, type, arg->type, sizeof arg->type);
}

/* "o0_ld": output 0 */
static bool find_output(const struct image *i, const char *name, struct image_param *p)
{
    static const struct {
        const char *end;
        enum image_source source;
        enum image_param_kind kind;
    } ends[] = {
        {"_ptr", FROM_OUTPUT_PTR, PARAM_PTR},
        {"_ld", FROM_OUTPUT_LD, PARAM_U64},
        {"_scales", FROM_OUTPUT_SCALES, PARAM_PTR},
    };
    if (name[0] != 'o' || name[1] < '0' || name[1] - '0' >= i->output_count)
        return false;
    for (size_t e = 0; e < COUNT_OF(ends); e++)
        if (strcmp(name + 2, ends[e].end) == 0 && p->kind == ends[e].kind) {
            p->source = ends[e].source;
            p->index = name[1] - '0';
            return true;
        }
    return false;
}

/* "arg_bias", "argptr_cap", "argld_c" */
static bool find_arg(const struct image *i, const char *name, struct image_param *p)
{
    static const struct {
        const char *kind;
        enum image_source source;
    } kinds[] = {
        {"arg_", FROM_ARG}, {"argptr_", FROM_ARG_PTR}, {"argld_", FROM_ARG_LD}};
    size_t k = 0, chars = 0;
    for (; k < COUNT_OF(kinds); k++) {
        chars = strlen(kinds[k].kind);
        if (strncmp(name, kinds[k].kind, chars) == 0)
            break;
    }
    if (k == COUNT_OF(kinds))
        return false;
    p->source = kinds[k].source;
    for (p->index = 0; p->index < i->arg_count; p->index++) {
        const struct image_arg *arg = &i->args[p->index];
        const bool is_scalar = arg->kind == ARG_SCALAR;
        if (strcmp(name + chars, arg->name) != 0)
            continue;
        if (p->source == FROM_ARG)
            return p->kind == (is_scalar ? PARAM_B32 : PARAM_PTR);
        return p->source == FROM_ARG_PTR ? is_scalar && p->kind == PARAM_PTR
                                         : arg->kind == ARG_AUX && p->kind == PARAM_U64;
    }
    return false;
}

/* A map whose address the runtime knows. */
static bool find_tensor(const struct image *i, const char *name)
{
    static const char *const operands[] = {"a", "b", "sfa", "sfb"};
    for (size_t e = 0; e < COUNT_OF(operands); e++)
        if (strcmp(name, operands[e]) == 0)
            return true;
    return name[0] == 'o' && name[1] >= '0' && name[1] - '0' < i->output_count &&
           name[2] == '\0' && i->outputs[name[1] - '0'].bits != 0;
}

static bool find_source(const struct image *i, struct image_param *p)
{
    static const struct {
        const char *name;
        enum image_param_kind kind;
    } problem[] = {{"m", PARAM_U32},
                   {"n", PARAM_U32},
                   {"k", PARAM_U32},
                   {"alpha", PARAM_F32},
                   {"alpha_ptr", PARAM_PTR}};
    p->source = FROM_PROBLEM;
    for (size_t e = 0; e < COUNT_OF(problem); e++)
        if (strcmp(p->name, problem[e].name) == 0 && p->kind == problem[e].kind)
            return true;
    return find_output(i, p->name, p) || find_arg(i, p->name, p);
}

/* Of the kernels beside the GEMM: runtime/quantize.c has the same names. */
static bool read_quantize_param(struct reader *r, const struct image_param *p)
{
    static const char *const names[] = {
        [PARAM_TENSOR_MAP] = "",
        [PARAM_U32] = " m k seed ",
        [PARAM_U64] = " ldx ldc lds ldf ",
        [PARAM_F32] = " global ",
        [PARAM_B32] = "",
        [PARAM_PTR] = " x codes scales from global_ptr amax_ptr global_out ",
    };
    char padded[sizeof p->name + 2] = " ";
    strcat(strcat(padded, p->name), " ");
    if (!strstr(names[p->kind], padded))
        return bad_value(r, r->value, "a parameter of docs/manifest.md");
    r->out->param_count++;
    return true;
}

bool read_param(struct reader *r)
{
    static const char *const kinds[] = {
        [PARAM_TENSOR_MAP] = "tensor-map",
        [PARAM_U32] = "u32",
        [PARAM_U64] = "u64",
        [PARAM_F32] = "f32",
        [PARAM_B32] = "b32",
        [PARAM_PTR] = "ptr",
    };
    if (r->out->param_count == IMAGE_MAX_PARAMS)
        return bad_value(r, r->value, "64 parameters at most");
    struct image_param *p = &r->out->params[r->out->param_count];
    struct span kind_name = r->value;
    if (!read_text(r, span_take(&kind_name, ' '), p->name, sizeof p->name))
        return false;
    int kind = span_find(kind_name, kinds, COUNT_OF(kinds));
    if (kind < 0)
        return bad_value(r, r->value, "NAME and tensor-map, u32, u64, f32, b32 or ptr");
    p->kind = (enum image_param_kind)kind;
    if (r->out->op[0] && strcmp(r->out->op, "gemm") != 0)
        return read_quantize_param(r, p);
    if (p->kind == PARAM_TENSOR_MAP ? !find_tensor(r->out, p->name)
                                    : !find_source(r->out, p))
        return bad_value(
            r, r->value,
            "a, b, sfa, sfb, o0 of an output as tensor-map; m, n, k as u32, "
            "alpha as f32, alpha_ptr as ptr; o0_ptr, o0_ld, o0_scales of an "
            "output, arg_NAME, argptr_NAME, argld_NAME of an argument, as its kind "
            "needs");
    if (p->kind == PARAM_TENSOR_MAP && tensor_is_new(r, p->name))
        return bad_value(r, r->value, "a tensor that a line above describes");
    r->out->param_count++;
    return true;
}
