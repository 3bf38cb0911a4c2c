/* runtime/manifest.c: what gen writes is read, and nothing else is. */
#include "runtime/manifest.h"
#include "tests/kernel_text.h"
#include "tests/test.h"

#include "core/image.h"
#include "gen/manifest.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static fp4gen_error read_text(const char *text, struct image *out)
{
    fp4gen_error err = {0};
    fp4gen_status status = manifest_read(out, text, strlen(text), &err);
    CHECK_EQ(status, err.status);
    return err;
}

/* The manifest with one replacement is refused with this code, and the message has
 * these words. */
static void check_refused_of(const char *manifest, const char *from, const char *to,
                             const char *code, const char *words)
{
    struct arena *a = arena_new();
    struct image image;
    fp4gen_error err =
        read_text(kernel_text(a, text_replaced(a, manifest, from, to)), &image);
    CHECK_EQ(err.status, FP4GEN_BAD_PTX);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
    arena_free(a);
}

static void check_refused(const char *from, const char *to, const char *code,
                          const char *words)
{
    check_refused_of(kernel_manifest, from, to, code, words);
}

TEST(manifest_is_read)
{
    struct arena *a = arena_new();
    struct image m;
    fp4gen_error err = read_text(kernel_text(a, kernel_manifest), &m);
    CHECK_STR(err.text, "");
    CHECK_STR(m.generator, "fp4gen 0.1.0");
    CHECK_STR(m.config, "nvfp4_gemm");
    CHECK_STR(m.config_hash, "0123456789abcdef");
    CHECK_STR(m.kernel, "fp4gen_test_kernel");
    CHECK_STR(m.target, "sm_100f");
    CHECK_EQ(m.ptx_version, 88);
    CHECK_EQ(m.tile[0], 128);
    CHECK_EQ(m.tile[1], 256);
    CHECK_EQ(m.tile[2], 256);
    CHECK_EQ(m.stages, 4);
    CHECK_EQ(m.cluster[2], 1);
    CHECK_EQ(m.smem_bytes, 229632);
    CHECK_EQ(m.threads, 192);
    CHECK_STR(m.epilogue, "identity");
    CHECK_EQ(m.n_multiple, 1);
    CHECK_EQ(m.output_count, 1);
    CHECK_STR(m.outputs[0].name, "d");
    CHECK_STR(m.outputs[0].format, "bf16");
    CHECK_EQ(m.outputs[0].bits, 16);
    CHECK_EQ(m.arg_count, 0);
    CHECK_EQ(m.tensor_count, 5);
    CHECK_STR(m.tensors[2].name, "sfa");
    CHECK_EQ(m.tensors[2].type, CU_TENSOR_MAP_DATA_TYPE_UINT16);
    CHECK_EQ(m.tensors[2].rank, 3);
    CHECK_EQ(m.tensors[2].dims[0].factor, 256);
    CHECK_EQ(m.tensors[2].dims[0].symbol, SYM_ONE);
    CHECK_EQ(m.tensors[2].dims[2].symbol, SYM_M128);
    CHECK_EQ(m.tensors[2].strides[1].factor, 512);
    CHECK_EQ(m.tensors[2].strides[1].symbol, SYM_K64);
    CHECK_EQ(m.tensors[2].box[1], 4);
    CHECK_EQ(m.tensors[0].type, CU_TENSOR_MAP_DATA_TYPE_UINT8);
    CHECK_EQ(m.tensors[0].dims[0].symbol, SYM_K2);
    CHECK_EQ(m.tensors[4].dims[0].symbol, SYM_PIECES);
    CHECK_EQ(m.tensors[4].dims[0].factor, 8);
    CHECK_EQ(m.tensors[4].strides[0].symbol, SYM_LD);
    CHECK_EQ(m.tensors[0].swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    CHECK_EQ(m.tensors[0].l2_promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    CHECK_EQ(m.param_count, 12);
    CHECK_STR(m.params[11].name, "o0_ld");
    CHECK_EQ(m.params[11].source, FROM_OUTPUT_LD);
    CHECK_EQ(m.params[11].kind, PARAM_U64);
    CHECK_STR(m.params[9].name, "alpha_ptr");
    CHECK_EQ(m.params[9].kind, PARAM_PTR);
    arena_free(a);
}

TEST(epilogues_are_read)
{
    struct arena *a = arena_new();
    struct image m;
    CHECK_STR(read_text(kernel_text(a, kernel_epilogue), &m).text, "");
    CHECK_EQ(m.n_multiple, 16);
    CHECK_EQ(m.output_count, 2);
    CHECK_EQ(m.outputs[0].bits, 4);
    CHECK_EQ(m.outputs[0].cols_shift, 1);
    CHECK_EQ(m.outputs[0].scale_block, 16);
    CHECK_STR(m.outputs[1].name, "amax");
    CHECK_EQ(m.outputs[1].bits, 0);
    CHECK_EQ(m.arg_count, 4);
    CHECK_EQ(m.args[0].kind, ARG_SCALAR);
    CHECK_EQ(m.args[0].has_default, 0);
    CHECK_EQ(m.args[0].is_scale, 1);
    CHECK_EQ(m.args[1].is_scale, 0);
    CHECK_STR(m.args[1].type, "s32");
    CHECK_EQ(m.args[1].has_default, 1);
    CHECK_EQ(m.args[1].default_bits, 0xfffffffe);
    CHECK_EQ(m.args[2].kind, ARG_COL);
    CHECK_EQ(m.args[2].cols_shift, 1);
    CHECK_EQ(m.args[3].kind, ARG_AUX);
    CHECK_EQ(m.args[3].cols_shift, 0);
    static const struct {
        int param;
        enum image_source source;
        int index;
    } sources[] = {{6, FROM_OUTPUT_PTR, 0},    {7, FROM_OUTPUT_LD, 0},
                   {8, FROM_OUTPUT_SCALES, 0}, {9, FROM_OUTPUT_PTR, 1},
                   {10, FROM_ARG, 0},          {11, FROM_ARG_PTR, 0},
                   {12, FROM_ARG, 1},          {14, FROM_ARG, 2},
                   {15, FROM_ARG, 3},          {16, FROM_ARG_LD, 3}};
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        CHECK_EQ(m.params[sources[i].param].source, sources[i].source);
        CHECK_EQ(m.params[sources[i].param].index, sources[i].index);
    }
    arena_free(a);
}

TEST(wrong_outputs_and_arguments)
{
    static const char code[] = "manifest-value";
    static const struct {
        const char *from, *to, *words;
    } rows[] = {
        {"output: amax", "output: d", "each output once"},
        {"format=nvfp4 ", "", "NAME format=F"},
        {"cols=n/2 bits=4", "cols=m bits=4", "NAME format=F"},
        {"cols=0 bits=0", "cols=n bits=0", "NAME format=F"},
        {"bits=4", "bits=5", "0, 4, 8, 16 or 32"},
        {"bits=4", "bits=2", "0, 4, 8, 16 or 32"},
        {"scales=16", "scales=8", "0, 16 or 32"},
        {"scales=16", "scales=16 x", "NAME format=F"},
        {"n-multiple: 16", "n-multiple: 0", "1 to 64"},
        {"arg: shift", "arg: d_global", "each argument once"},
        {"kind=aux", "kind=tile", "NAME kind="},
        {"type=bf16 cols", "type=e4m3 cols", "NAME kind="},
        {"type=f32 cols=n/2", "type=f32", "NAME kind="},
        {"0xfffffffe", "0xfffffff", "NAME kind="},
        {"0xfffffffe", "0xFFFFFFFE", "NAME kind="},
        {"use=scale\n", "use=scale x\n", "NAME kind="},
        {"use=scale", "use=scal", "NAME kind="},
        {"expr: n", "expr: \x7f", "printable ASCII"},
        {"param: o1_ptr", "param: o1_ld", "o0_ld"},
        {"param: o1_ptr", "param: o2_ptr", "o0_ptr"},
        {"param: o0 tensor-map", "param: o1 tensor-map", "o0 of an output"},
        {"param: arg_bias ptr", "param: arg_bias b32", "arg_NAME"},
        {"param: arg_bias ptr", "param: argld_bias u64", "arg_NAME"},
        {"param: arg_bias ptr", "param: arg_mias ptr", "arg_NAME"},
        {"param: argld_c u64", "param: argptr_c ptr", "arg_NAME"},
        {"param: arg_shift b32", "param: arg_shift u32", "arg_NAME"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_refused_of(kernel_epilogue, rows[i].from, rows[i].to, code,
                         rows[i].words);
    struct arena *a = arena_new();
    struct buf outputs, args;
    buf_init(&outputs, a);
    buf_init(&args, a);
    for (int i = 0; i < IMAGE_MAX_OUTPUTS; i++)
        buf_printf(&outputs, "output: q%d format=bf16 cols=n bits=16 scales=0\n", i);
    for (int i = 0; i < IMAGE_MAX_ARGS; i++)
        buf_printf(&args, "arg: q%d kind=row type=f32\n", i);
    buf_puts(&outputs, "output: amax");
    buf_puts(&args, "arg: c");
    check_refused_of(kernel_epilogue, "output: amax", outputs.data, code,
                     "4 outputs at most");
    check_refused_of(kernel_epilogue, "arg: c", args.data, code,
                     "16 arguments at most");
    check_refused("output: d", "output: d\n", code, "NAME format=F");
    arena_free(a);
}

/* What gen writes is what the runtime reads. */
static void check_read_back(const char *manifest)
{
    struct arena *a = arena_new();
    struct image first, again;
    const char *text = kernel_text(a, manifest);
    CHECK_STR(read_text(text, &first).text, "");
    CHECK(first.expr == NULL);
    first.expr = manifest_expr(a, text);
    struct buf b;
    buf_init(&b, a);
    manifest_comment(&first, &b);
    buf_puts(&b,
             ".version 8.8\n.target sm_100f\n.entry fp4gen_test_kernel() { ret; }\n");
    manifest_constant(&first, &b);
    CHECK_STR(read_text(b.data, &again).text, "");
    const char *expr = manifest_expr(a, b.data);
    CHECK_STR(expr ? expr : "", first.expr ? first.expr : "");
    CHECK((expr != NULL) == (manifest == kernel_epilogue));
    first.ptx = again.ptx = first.expr = NULL;
    first.ptx_bytes = again.ptx_bytes = 0;
    CHECK(memcmp(&first, &again, sizeof first) == 0);
    arena_free(a);
}

TEST(manifest_of_the_generator_is_read_back)
{
    check_read_back(kernel_manifest);
    check_read_back(kernel_epilogue);
}

TEST(manifest_with_carriage_returns)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    for (const char *c = kernel_text(a, kernel_manifest); *c; c++)
        buf_printf(&b, *c == '\n' ? "\r%c" : "%c", *c);
    struct image m;
    CHECK_STR(read_text(b.data, &m).text, "");
    CHECK_STR(m.epilogue, "identity");
    arena_free(a);
}

TEST(not_ours)
{
    struct image m;
    static const char *const texts[] = {"", "\n", ".version 8.8\n.target sm_100f\n",
                                        "// fp4gen-manifesto 1\n",
                                        "x // fp4gen-manifest 3\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK_STR(read_text(texts[i], &m).code, "kernel-not-ours");
    fp4gen_error err = {0};
    CHECK_EQ(manifest_read(&m, "\177ELF\0\0\0", 7, &err), FP4GEN_BAD_PTX);
    CHECK_STR(err.code, "kernel-binary");
    CHECK_EQ(manifest_read(&m, "\177ELF\0\0\0", 7, NULL), FP4GEN_BAD_PTX);
}

/* Cut anywhere, the text is refused, and never read past its end. */
TEST(truncated_anywhere)
{
    struct arena *a = arena_new();
    struct image m;
    const char *text = kernel_text(a, kernel_manifest);
    size_t bytes = strlen(text);
    for (size_t cut = 0; cut + 3 < bytes; cut++) { /* the last bytes are "};\n" */
        char *part = malloc(cut + 1); /* exact, for the address sanitizer */
        CHECK(part != NULL);
        memcpy(part, text, cut);
        part[cut] = '\0';
        fp4gen_error err = {0};
        if (!manifest_read(&m, part, cut, &err))
            test_fail(__FILE__, __LINE__, "accepted with %zu of %zu bytes", cut, bytes);
        CHECK(strlen(err.text) > 20);
        free(part);
    }
    const char *in_manifest = strstr(text, "// stages");
    CHECK_STR(read_text(arena_strndup(a, text, (size_t)(in_manifest - text)), &m).code,
              "manifest-truncated");
    const char *in_kernel = strstr(text, "ret;");
    CHECK_STR(read_text(arena_strndup(a, text, (size_t)(in_kernel - text)), &m).code,
              "kernel-truncated");
    CHECK_STR(read_text(arena_strndup(a, text, bytes - 40), &m).code,
              "kernel-truncated");
    arena_free(a);
}

TEST(unknown_manifest_version)
{
    check_refused("fp4gen-manifest 3", "fp4gen-manifest 1", "manifest-version",
                  "'1', this fp4gen reads version 3; generate the kernel again");
    check_refused("fp4gen-manifest 3", "fp4gen-manifest 4", "manifest-version", "'4'");
    check_refused("fp4gen-manifest 3", "fp4gen-manifest x", "manifest-version",
                  "line 2");
}

TEST(manifest_lines)
{
    check_refused("stages: 4\n", "", "manifest-missing", "'stages'");
    check_refused("param:", "parameter:", "manifest-key", "'parameter'");
    check_refused("stages: 4\n", "stages: 4\nstages: 4\n", "manifest-twice", "line 11");
    check_refused("stages: 4\n", "stages 4\n", "manifest-line", "'// stages 4'");
    check_refused("kernel: fp4gen_test_kernel", "kernel: fp4gen_test", "manifest-entry",
                  "fp4gen_test");
    check_refused("target: sm_100f", "target: sm_100a", "manifest-directive",
                  "sm_100a");
    check_refused("ptx-version: 8.8", "ptx-version: 8.6", "manifest-directive", "8.6");
}

/* `count` times the character. */
static char *run_of(struct arena *a, char c, int count)
{
    char *s = arena_alloc(a, (size_t)count + 1);
    memset(s, c, (size_t)count);
    return s;
}

TEST(overlong_values)
{
    struct arena *a = arena_new();
    check_refused("nvfp4_gemm", run_of(a, 'x', 64), "manifest-long",
                  "64 characters, 63 are allowed");
    check_refused("fp4gen_test_kernel", run_of(a, 'x', 128), "manifest-long",
                  "'kernel'");
    check_refused("identity", run_of(a, 'x', 100000), "manifest-long", "'epilogue'");
    check_refused("sm_100f", run_of(a, 's', 16), "manifest-long", "'target'");
    check_refused("tensor: a", arena_printf(a, "tensor: %s", run_of(a, 'a', 16)),
                  "manifest-long", "'tensor'");
    check_refused("param: m", arena_printf(a, "param: %s", run_of(a, 'm', 24)),
                  "manifest-long", "'param'");
    struct image m; /* the longest that fit */
    char *fits = text_replaced(a, kernel_manifest, "nvfp4_gemm", run_of(a, 'x', 63));
    CHECK_STR(read_text(kernel_text(a, fits), &m).text, "");
    CHECK_EQ(strlen(m.config), 63);
    arena_free(a);
}

TEST(wrong_values)
{
    static const char code[] = "manifest-value";
    check_refused("generator: fp4gen 0.1.0", "generator: ", code, "generator");
    check_refused("nvfp4_gemm", "nv\x01", code, "printable");
    check_refused("0123456789abcdef", "0123456789abcdeg", code, "16 hexadecimal");
    check_refused("0123456789abcdef", "0123", code, "16 hexadecimal");
    check_refused("fp4gen_test_kernel", "two words", code, "letters");
    check_refused("sm_100f", "sm_1", code, "'sm_1'");
    check_refused("8.8", "8", code, "8.8");
    check_refused("8.8", "8.8.8", code, "8.8");
    check_refused("tile: 128 256 256", "tile: 128 256", code, "three numbers");
    check_refused("tile: 128 256 256", "tile: 128 256 256 1", code, "three numbers");
    check_refused("tile: 128 256 256", "tile: 0 256 256", code, "1 to 65536");
    check_refused("cluster: 1 1 1", "cluster: 17 1 1", code, "1 to 16");
    check_refused("stages: 4", "stages: -4", code, "1 to 1024");
    check_refused("stages: 4", "stages: 99999999999999999999", code, "1 to 1024");
    check_refused("smem-bytes: 229632", "smem-bytes: 0x8", code, "16777216");
    check_refused("threads: 192", "threads: 1025", code, "1 to 1024");
}

TEST(wrong_tensors)
{
    static const char code[] = "manifest-value";
    check_refused("tensor: b", "tensor: a", code, "each tensor once");
    check_refused("type=uint8", "type=fp4", code, "'fp4'");
    check_refused("type=uint8", "typ=uint16", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=k,q", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=k,", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=k,m,m,m,m,m", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=4*,m", code, "NAME type=T");
    check_refused("dims=k2,m", "dims=99999999999999,m", code, "NAME type=T");
    check_refused("strides=lda", "strides=", code, "NAME type=T");
    check_refused("strides=lda", "strides=lda,lda", code, "NAME type=T");
    check_refused("box=128,128", "box=256", code, "NAME type=T");
    check_refused("box=128,128", "box=256,128,1", code, "NAME type=T");
    check_refused("box=128,128", "box=257,128", code, "NAME type=T");
    check_refused("swizzle=128b", "swizzle=7", code, "CUtensorMapSwizzle");
    check_refused("l2=256b", "l2=512b", code, "256b");
    check_refused("l2=256b", "l2=256b x", code, "NAME type=T");
    struct arena *a = arena_new();
    struct buf many;
    buf_init(&many, a);
    for (int i = 0; i < IMAGE_MAX_TENSORS - 4; i++)
        buf_printf(&many,
                   "tensor: t%d type=uint8 dims=m strides= box=16 swizzle=none "
                   "l2=none\n",
                   i);
    buf_puts(&many, "param: a tensor-map\n");
    check_refused("param: a tensor-map\n", many.data, code, "16 tensors at most");
    arena_free(a);
}

TEST(wrong_params)
{
    static const char code[] = "manifest-value";
    check_refused("param: a tensor-map", "param: c tensor-map", code,
                  "o0 of an output as tensor-map");
    check_refused("tensor: sfa", "tensor: sfc", code, "line above");
    check_refused("param: m u32", "param: q u32", code, "m, n, k as u32");
    check_refused("param: m u32", "param: n k u32", code, "tensor-map, u32");
    check_refused("param: m u32", "param: m", code, "tensor-map, u32");
    check_refused("param: alpha f32", "param: m f32", code, "alpha as f32");
    check_refused("param: alpha_ptr ptr", "param: alpha ptr", code, "alpha_ptr as ptr");
    struct arena *a = arena_new();
    struct buf many;
    buf_init(&many, a);
    for (int i = 0; i < IMAGE_MAX_PARAMS; i++)
        buf_puts(&many, "param: m u32\n");
    check_refused("param: m u32\n", many.data, code, "64 parameters at most");
    arena_free(a);
}

TEST(comment_and_constant_must_agree)
{
    struct arena *a = arena_new();
    struct image m;
    const char *text = kernel_text(a, kernel_manifest);
    CHECK_STR(read_text(text_replaced(a, text, "stages: 4", "stages: 5"), &m).code,
              "manifest-copies");
    CHECK_STR(read_text(text_replaced(a, text, "] = {102,", "] = {102,102,"), &m).code,
              "manifest-copies");
    CHECK_STR(read_text(text_replaced(a, text, "] = {102,", "] = {256,"), &m).code,
              "manifest-copies");
    CHECK_STR(read_text(text_replaced(a, text, "10};", "10,10};"), &m).code,
              "manifest-copies");
    CHECK_STR(read_text(text_replaced(a, text, ",10};", "};"), &m).code,
              "manifest-copies");
    /* White space is nobody's business. */
    CHECK_STR(
        read_text(text_replaced(a, text, "] = {102,", "] = {\n  102 ,\n "), &m).text,
        "");
    arena_free(a);
}
