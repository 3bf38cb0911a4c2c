#include "gen/manifest.h"

#include <string.h>

#include "core/base.h"
#include "core/image.h"

static const char *type_name(int type)
{
    switch (type) { /* CUtensorMapDataType */
    case 0:
        return "uint8";
    case 1:
        return "uint16";
    case 6:
        return "float16";
    case 7:
        return "float32";
    case 9:
        return "bfloat16";
    case 13:
        return "16u4_align8b";
    default:
        return "?";
    }
}

static const char *swizzle_name(int swizzle)
{
    static const char *const names[] = {"none", "32b", "64b", "128b"};
    return names[swizzle];
}

static const char *l2_name(int l2)
{
    static const char *const names[] = {"none", "64b", "128b", "256b"};
    return names[l2];
}

static void put_size(struct buf *out, struct image_size s)
{
    static const char *const symbols[SYM_COUNT] = {
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
    if (s.symbol == SYM_ONE)
        buf_printf(out, "%llu", (unsigned long long)s.factor);
    else if (s.factor == 1)
        buf_puts(out, symbols[s.symbol]);
    else
        buf_printf(out, "%llu*%s", (unsigned long long)s.factor, symbols[s.symbol]);
}

static void put_tensor(struct buf *out, const struct image_tensor *t)
{
    buf_printf(out, "tensor: %s type=%s dims=", t->name, type_name(t->type));
    for (int i = 0; i < t->rank; i++) {
        buf_puts(out, i ? "," : "");
        put_size(out, t->dims[i]);
    }
    buf_puts(out, " strides=");
    for (int i = 0; i + 1 < t->rank; i++) {
        buf_puts(out, i ? "," : "");
        put_size(out, t->strides[i]);
    }
    buf_puts(out, " box=");
    for (int i = 0; i < t->rank; i++)
        buf_printf(out, "%s%u", i ? "," : "", t->box[i]);
    buf_printf(out, " swizzle=%s l2=%s\n", swizzle_name(t->swizzle),
               l2_name(t->l2_promotion));
}

static const char *columns(uint32_t shift)
{
    return shift ? "n/2" : "n";
}

static void put_output(struct buf *out, const struct image_output *o)
{
    buf_printf(out, "output: %s format=%s cols=%s bits=%u scales=%u\n", o->name,
               o->format, o->bits ? columns(o->cols_shift) : "0", o->bits,
               o->scale_block);
}

static void put_arg(struct buf *out, const struct image_arg *a)
{
    static const char *const kinds[] = {[ARG_SCALAR] = "scalar",
                                        [ARG_COL] = "col",
                                        [ARG_ROW] = "row",
                                        [ARG_AUX] = "aux"};
    buf_printf(out, "arg: %s kind=%s type=%s", a->name, kinds[a->kind], a->type);
    if (a->kind == ARG_COL || a->kind == ARG_AUX)
        buf_printf(out, " cols=%s", columns(a->cols_shift));
    if (a->is_scale)
        buf_puts(out, " use=scale");
    if (a->has_default)
        buf_printf(out, " default=0x%08x", a->default_bits);
    buf_puts(out, "\n");
}

static void put_expr(struct buf *out, const char *text)
{
    for (; *text; text += strcspn(text, "\n") + 1)
        buf_printf(out, "expr: %.*s\n", (int)strcspn(text, "\n"), text);
}

static void put_gemm_keys(const struct image *i, struct buf *out)
{
    buf_printf(out, "stages: %u\n", i->stages);
    buf_printf(out, "cluster: %u %u %u\n", i->cluster[0], i->cluster[1], i->cluster[2]);
    buf_printf(out, "smem-bytes: %u\n", i->smem_bytes);
    buf_printf(out, "threads: %u\n", i->threads);
    buf_printf(out, "epilogue: %s\n", i->epilogue);
    buf_printf(out, "n-multiple: %u\n", i->n_multiple);
    for (int k = 0; k < i->output_count; k++)
        put_output(out, &i->outputs[k]);
    for (int k = 0; k < i->arg_count; k++)
        put_arg(out, &i->args[k]);
    if (i->expr)
        put_expr(out, i->expr);
    for (int t = 0; t < i->tensor_count; t++)
        put_tensor(out, &i->tensors[t]);
}

static void put_quantize_keys(const struct image *i, struct buf *out)
{
    const struct {
        const char *key, *value;
    } keys[] = {
        {"x-type", i->x_type},     {"x-form", i->x_form},
        {"layout", i->layout},     {"from-layout", i->from_layout},
        {"x-order", i->x_order},   {"rounding", i->rounding},
        {"division", i->division},
    };
    buf_printf(out, "threads: %u\n", i->threads);
    for (size_t k = 0; k < COUNT_OF(keys); k++)
        if (keys[k].value[0])
            buf_printf(out, "%s: %s\n", keys[k].key, keys[k].value);
}

static void put_manifest(const struct image *i, struct buf *out)
{
    static const char *const kinds[] = {
        [PARAM_TENSOR_MAP] = "tensor-map",
        [PARAM_U32] = "u32",
        [PARAM_U64] = "u64",
        [PARAM_F32] = "f32",
        [PARAM_B32] = "b32",
        [PARAM_PTR] = "ptr",
    };
    buf_printf(out, "fp4gen-manifest %d\n", IMAGE_MANIFEST_VERSION);
    buf_printf(out, "generator: %s\n", i->generator);
    buf_printf(out, "config: %s\n", i->config);
    buf_printf(out, "config-hash: %s\n", i->config_hash);
    if (i->op[0])
        buf_printf(out, "op: %s\n", i->op);
    buf_printf(out, "kernel: %s\n", i->kernel);
    buf_printf(out, "target: %s\n", i->target);
    buf_printf(out, "ptx-version: %d.%d\n", i->ptx_version / 10, i->ptx_version % 10);
    buf_printf(out, "tile: %u %u %u\n", i->tile[0], i->tile[1], i->tile[2]);
    if (i->op[0])
        put_quantize_keys(i, out);
    else
        put_gemm_keys(i, out);
    for (int p = 0; p < i->param_count; p++)
        buf_printf(out, "param: %s %s\n", i->params[p].name, kinds[i->params[p].kind]);
    buf_puts(out, "end-manifest\n");
}

void manifest_comment(const struct image *i, struct buf *out)
{
    struct buf text;
    buf_init(&text, out->arena);
    put_manifest(i, &text);
    for (const char *line = text.data; *line;) {
        size_t bytes = strcspn(line, "\n") + 1;
        buf_puts(out, "// ");
        buf_add(out, line, bytes);
        line += bytes;
    }
}

void manifest_constant(const struct image *i, struct buf *out)
{
    struct buf text;
    buf_init(&text, out->arena);
    put_manifest(i, &text);
    const size_t per_line = 24;
    buf_puts(out, "\n// The manifest again, for readers of the assembled module.\n");
    buf_printf(out, ".visible .const .align 8 .b8 fp4gen_manifest[%zu] = {",
               text.bytes);
    for (size_t b = 0; b < text.bytes; b++) {
        char number[8], *end = number + sizeof number, *at = end;
        unsigned value = (unsigned char)text.data[b];
        do
            *--at = (char)('0' + value % 10);
        while (value /= 10);
        if (b)
            *--at = ',';
        buf_puts(out, b % per_line == 0 ? (b ? ",\n  " : "\n  ") : "");
        if (b && b % per_line == 0)
            at++; /* the comma is on the line above */
        buf_add(out, at, (size_t)(end - at));
    }
    buf_puts(out, "};\n");
}

const char *manifest_expr(struct arena *a, const char *ptx)
{
    static const char begin[] = "// expr: ", end[] = "// end-manifest";
    struct buf text;
    buf_init(&text, a);
    for (const char *line = ptx; line && strncmp(line, end, sizeof end - 1) != 0;) {
        const char *next = strchr(line, '\n');
        if (next && strncmp(line, begin, sizeof begin - 1) == 0) {
            line += sizeof begin - 1;
            buf_add(&text, line, strcspn(line, "\r\n"));
            buf_puts(&text, "\n");
        }
        line = next ? next + 1 : NULL;
    }
    return text.bytes ? text.data : NULL;
}
