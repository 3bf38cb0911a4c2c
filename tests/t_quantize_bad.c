/* What the kernels of gen/quantize.h refuse, and wrong kernels that `gen run` finds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/run.h"
#include "gen/run_outputs.h"
#include "runtime/manifest.h"
#include "tests/quantize_device.h"
#include "tests/test.h"

/* ---- configs */

static void refuse_config(const char *path, const char *field, const char *value,
                          const char *code)
{
    struct job_options o = {
        .path = path,
        .overrides = &(struct config_override){field, value},
        .override_count = 1,
        .check = true,
    };
    struct job *j = job_run(&o);
    CHECK_EQ(j->diags->count, 1);
    CHECK_DIAG(j->diags, code, 0);
    job_free(j);
}

TEST(fields_that_an_op_does_not_use)
{
    refuse_config("quantize_nvfp4", "x.form", "halves", "field-unused");
    refuse_config("quantize_nvfp4", "x.order", "up_gate", "field-unused");
    refuse_config("quantize_nvfp4", "math", "precise", "field-unused");
    refuse_config("deinterleave_quantize_nvfp4", "x.form", "interleaved",
                  "field-unused");
    refuse_config("dequantize_nvfp4", "rounding", "halfstep", "field-unused");
    refuse_config("dequantize_nvfp4", "path", "integer", "field-unused");
    refuse_config("convert_scales", "x.type", "f16", "field-unused");
    refuse_config("quantize_nvfp4", "from", "8x4", "field-unused");
}

TEST(values_that_are_not_allowed)
{
    refuse_config("quantize_nvfp4", "x.type", "e4m3", "field-value");
    refuse_config("quantize_nvfp4", "layout", "4x4", "field-value");
    refuse_config("quantize_nvfp4", "rounding", "up", "field-value");
    refuse_config("quantize_nvfp4", "target", "sm_75", "field-value");
    refuse_config("quantize_nvfp4", "lanes", "3", "field-value");
    refuse_config("quantize_nvfp4", "warps", "many", "field-type");
    refuse_config("quantize_nvfp4", "tile.m", "128", "field-unknown");
    refuse_config("quantize_nvfp4", "x.kind", "bf16", "field-unknown");
    refuse_config(NULL, "x.type", "bf16", "field-unknown"); /* of a GEMM */
    refuse_config("quantize_nvfp4", "path", "hardware", "epilogue-path");
}

TEST(random_rounding_is_defined_by_integers)
{
    const struct config_override fields[] = {
        {"target", "sm_100f"}, {"path", "hardware"}, {"rounding", "stochastic"}};
    struct job *j = job_run(&(struct job_options){
        .path = "quantize_nvfp4", .overrides = fields, .override_count = 3});
    CHECK_DIAG(j->diags, "quantize-expr", 0);
    job_free(j);
}

TEST(errors_in_a_file_have_its_line)
{
    const char *path = test_tmp_path("q.lua");
    const char *text = "-- mine\nquantize {\n  op = \"convert_scales\",\n"
                       "  x = { type = \"f16\" },\n  lanes = 5,\n}\n";
    CHECK(file_write(path, text, strlen(text)));
    struct job *j = job_run(&(struct job_options){.path = path});
    CHECK_EQ(j->diags->count, 2);
    CHECK_DIAG(j->diags, "field-unused", 4);
    CHECK_DIAG(j->diags, "field-value", 5);
    job_free(j);
    text = "quantize {}\ngemm {}\n";
    CHECK(file_write(path, text, strlen(text)));
    j = job_run(&(struct job_options){.path = path});
    CHECK_DIAG(j->diags, "config-two-gemms", 2);
    job_free(j);
}

/* ---- arguments */

struct bad_args {
    const char *code;
    fp4gen_quantize_args args;
};

static void refuse_args(const char *words, const struct bad_args *rows, size_t count)
{
    struct quantize_device q = quantize_open(words);
    for (size_t i = 0; i < count; i++) {
        fp4gen_error err = {0};
        fp4gen_quantize_args a = rows[i].args;
        CHECK_EQ(fp4gen_quantize(q.kernel, &a, &err), FP4GEN_BAD_ARGUMENT);
        CHECK_STR(err.code, rows[i].code);
        CHECK(err.text[0] != '\0');
    }
    quantize_close(&q);
}

#define ADDRESSES .x = 256, .codes = 256, .scales = 256
#define CONVERT .scales = 256, .from = 256, .m = 4, .k = 64
#define SIZES .m = 4, .k = 64, .global = 1

TEST(arguments_are_checked_by_name)
{
    const struct bad_args plain[] = {
        {"quantize-size", {ADDRESSES, .m = 0x7fffff01, .k = 64, .global = 1}},
        {"quantize-size", {ADDRESSES, .m = 1, .k = 0x3fffff01, .global = 1}},
        {"quantize-dense", {ADDRESSES, .m = 1, .k = 20, .global = 1}},
        {"quantize-dense", {ADDRESSES, .m = 1, .k = 24, .global = 1}}, /* codes */
        {"quantize-stride", {ADDRESSES, SIZES, .ldx = 136}},
        {"quantize-stride", {ADDRESSES, SIZES, .ldc = 40}},
        {"quantize-stride-short", {ADDRESSES, SIZES, .ldx = 112}},
        {"quantize-stride-short", {ADDRESSES, SIZES, .ldc = 16}},
        {"quantize-stride-long", {ADDRESSES, SIZES, .ldx = (uint64_t)1 << 40}},
        {"quantize-stride-unused", {ADDRESSES, SIZES, .lds = 4}},
        {"quantize-global", {ADDRESSES, .m = 4, .k = 64}},
        {"quantize-global", {ADDRESSES, .m = 4, .k = 64, .global = -1}},
        {"quantize-global", {ADDRESSES, .m = 4, .k = 64, .global = INFINITY}},
        {"quantize-global", {ADDRESSES, .m = 4, .k = 64, .global = NAN}},
        {"quantize-global-twice",
         {ADDRESSES, SIZES, .global_ptr = 256, .amax_ptr = 256}},
        {"quantize-amax", {ADDRESSES, SIZES, .amax_is_ready = 1}},
        {"null-address", {.codes = 256, .scales = 256, SIZES}},
        {"null-address", {.x = 256, .scales = 256, SIZES}},
        {"null-address", {.x = 256, .codes = 256, SIZES}},
        {"gemm-address", {.x = 264, .codes = 256, .scales = 256, SIZES}},
        {"gemm-address", {.x = 256, .codes = 264, .scales = 256, SIZES}},
        {"gemm-address", {.x = 256, .codes = 256, .scales = 264, SIZES}},
        {"field-unused", {ADDRESSES, SIZES, .from = 256}},
        {"field-unused", {ADDRESSES, SIZES, .ldf = 16}},
        {"gemm-address", {ADDRESSES, SIZES, .global_ptr = 258}},
        {"gemm-address", {ADDRESSES, SIZES, .amax_ptr = 258}},
        {"gemm-address", {ADDRESSES, SIZES, .global_out = 258}},
    };
    refuse_args("quantize_nvfp4", plain, COUNT_OF(plain));
    const struct bad_args linear[] = {
        {"quantize-stride-short", {ADDRESSES, SIZES, .lds = 3}},
        {"quantize-stride-long", {ADDRESSES, SIZES, .lds = (uint64_t)1 << 40}},
    };
    refuse_args("quantize_nvfp4 layout=linear", linear, COUNT_OF(linear));
    const struct bad_args halves[] = {
        {"quantize-k", {ADDRESSES, .m = 1, .k = 20, .global = 1}},
    };
    refuse_args("silu_mul_quantize_nvfp4", halves, 1);
    const struct bad_args groups[] = {
        {"quantize-k", {ADDRESSES, .m = 1, .k = 36, .global = 1}},
    };
    refuse_args("silu_mul_quantize_nvfp4 x.form=interleaved x.type=f32", groups, 1);
    refuse_args("deinterleave_quantize_nvfp4", groups, 1);
    const struct bad_args back[] = {
        {"field-unused", {ADDRESSES, SIZES, .amax_ptr = 256}},
        {"field-unused", {ADDRESSES, SIZES, .global_out = 256}},
        {"field-unused", {ADDRESSES, SIZES, .from = 256}},
    };
    refuse_args("dequantize_nvfp4", back, COUNT_OF(back));
    const struct bad_args scales[] = {
        {"null-address", {.scales = 256, .m = 4, .k = 64}},
        {"null-address", {.from = 256, .m = 4, .k = 64}},
        {"quantize-stride-short",
         {.scales = 256, .from = 256, .m = 4, .k = 64, .ldf = 1}},
        {"field-unused", {CONVERT, .x = 256}},
        {"field-unused", {CONVERT, .ldx = 16}},
        {"field-unused", {CONVERT, .codes = 256}},
        {"field-unused", {CONVERT, .ldc = 16}},
        {"field-unused", {CONVERT, .global_ptr = 256}},
        {"field-unused", {CONVERT, .amax_ptr = 256}},
        {"field-unused", {CONVERT, .global_out = 256}},
    };
    refuse_args("convert_scales", scales, COUNT_OF(scales));
}

TEST(a_kernel_is_launched_by_its_own_function)
{
    struct quantize_device q = quantize_open("quantize_nvfp4");
    fp4gen_error err = {0};
    fp4gen_gemm g = {.m = 1, .n = 16, .k = 32};
    CHECK_EQ(fp4gen_run(q.kernel, &g, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "kernel-op");
    struct job *j = job_run(&(struct job_options){.path = "nvfp4_gemm"});
    fp4gen_kernel *gemm = NULL;
    CHECK_EQ(fp4gen_load(&gemm, q.dev, j->image.ptx, j->image.ptx_bytes, &err),
             FP4GEN_OK);
    fp4gen_quantize_args a = {ADDRESSES, SIZES};
    CHECK_EQ(fp4gen_quantize(gemm, &a, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "kernel-op");
    float ms;
    CHECK_EQ(fp4gen_quantize(NULL, &a, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "null-argument");
    CHECK_EQ(fp4gen_quantize_check(q.kernel, NULL, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_EQ(fp4gen_quantize_timed(NULL, &a, &ms, &err), FP4GEN_BAD_ARGUMENT);
    fp4gen_unload(gemm);
    job_free(j);
    quantize_close(&q);
}

/* ---- manifests */

/* The text with `from` replaced in the manifest's comment, which is read first. */
static void refuse_manifest(const char *path, const char *from, const char *to,
                            const char *code)
{
    struct job *j = job_run(&(struct job_options){.path = path});
    CHECK_EQ(j->diags->count, 0);
    const char *ptx = j->image.ptx, *at = strstr(ptx, from);
    CHECK(at != NULL);
    const char *text =
        arena_printf(j->arena, "%.*s%s%s", (int)(at - ptx), ptx, to, at + strlen(from));
    struct image image;
    fp4gen_error err = {0};
    CHECK_EQ(manifest_read(&image, text, strlen(text), &err), FP4GEN_BAD_PTX);
    CHECK_STR(err.code, code);
    job_free(j);
}

TEST(manifests_of_other_ops)
{
    refuse_manifest("quantize_nvfp4", "op: quantize_nvfp4", "op: quantize_nvfp5",
                    "manifest-value");
    refuse_manifest("quantize_nvfp4", "x-type: bf16", "x-type: bf61", "manifest-value");
    refuse_manifest("quantize_nvfp4", "x-form: plain", "x-form: plane",
                    "manifest-value");
    refuse_manifest("quantize_nvfp4", "layout: 128x4", "layout: 128x5",
                    "manifest-value");
}

TEST(keys_belong_to_ops)
{
    refuse_manifest("quantize_nvfp4", "rounding: nearest", "rounding: up",
                    "manifest-value");
    refuse_manifest("quantize_nvfp4", "division: exact", "division: no",
                    "manifest-value");
    refuse_manifest("quantize_nvfp4", "x-order: gate_up", "x-order: up",
                    "manifest-value");
    refuse_manifest("convert_scales", "from-layout: linear", "from-layout: 4",
                    "manifest-value");
    refuse_manifest("convert_scales", "param: from ptr", "param: a ptr",
                    "manifest-value");
    refuse_manifest("quantize_nvfp4", "// op: quantize_nvfp4",
                    "// op: dequantize_nvfp4", "manifest-foreign");
    refuse_manifest("convert_scales", "// from-layout: linear",
                    "// from-layout: linear\n// x-type: bf16", "manifest-foreign");
    refuse_manifest("quantize_nvfp4", "// layout: 128x4\n", "", "manifest-missing");
    refuse_manifest("nvfp4_gemm", "// stages", "// layout: 128x4\n// stages",
                    "manifest-foreign");
}

/* ---- gen run */

struct told {
    int status;
    const char *text;
};

static struct told run(struct arena *a, struct run_options *o)
{
    const char *path = test_tmp_path("told");
    FILE *f = fopen(path, "w+");
    CHECK(f != NULL);
    struct told t = {.status = verb_run(o, f, f)};
    fclose(f);
    size_t bytes;
    t.text = file_read(a, path, &bytes);
    return t;
}

static struct run_options options(const char *path)
{
    struct run_options o = run_defaults();
    o.job = (struct job_options){.path = path, .check = true};
    o.driver = "emu";
    o.check = RUN_CHECK;
    o.m = 40;
    o.k = 96;
    return o;
}

TEST(what_run_refuses)
{
    struct arena *a = arena_new();
    struct run_options o = options("quantize_nvfp4");
    struct told t = run(a, &o);
    CHECK_EQ(t.status, 0);
    CHECK(strstr(t.text, "3840 values, 240 blocks compared, 0 wrong"));
    o.n = 5;
    t = run(a, &o);
    CHECK_EQ(t.status, 2);
    CHECK(strstr(t.text, "-n has no meaning for op = quantize_nvfp4 [field-unused]"));
    o = options("quantize_nvfp4");
    o.k = -1;
    t = run(a, &o);
    CHECK_EQ(t.status, 2);
    CHECK(strstr(t.text, "[run-size-x]"));
    o = options("quantize_nvfp4");
    o.ldx = 200;
    t = run(a, &o);
    CHECK_EQ(t.status, 1);
    CHECK(strstr(t.text, "[quantize-stride]"));
    o = options("quantize_nvfp4");
    struct run_setting setting = {"global", 2};
    o.settings = &setting;
    o.setting_count = 1;
    t = run(a, &o);
    CHECK_EQ(t.status, 2);
    CHECK(
        strstr(t.text, "--arg has no meaning for op = quantize_nvfp4 [field-unused]"));
    o = options("nvfp4_gemm");
    o.n = 16;
    o.global = "1";
    t = run(a, &o);
    CHECK_EQ(t.status, 2);
    CHECK(strstr(t.text, "[field-unused]"));
    arena_free(a);
}

/* The kernel with one place changed, run. */
static struct told run_changed(struct arena *a, const char *from, const char *to)
{
    struct job *j = job_run(&(struct job_options){.path = "quantize_nvfp4"});
    CHECK_EQ(j->diags->count, 0);
    const char *at = strstr(j->image.ptx, from);
    CHECK(at != NULL);
    const char *text = arena_printf(a, "%.*s%s%s", (int)(at - j->image.ptx),
                                    j->image.ptx, to, at + strlen(from));
    const char *path = test_tmp_path("changed.ptx");
    CHECK(file_write(path, text, strlen(text)));
    job_free(j);
    struct run_options o = options(NULL);
    o.ptx_path = path;
    o.k = 80; /* rows of codes have 8 bytes of padding */
    return run(a, &o);
}

TEST(wrong_kernels_are_found)
{
    struct arena *a = arena_new();
    struct told t = run_changed(a, "0f3E2AAAAB", "0f3E2CCCCC"); /* 1 / 6 */
    CHECK_EQ(t.status, 1);
    CHECK(strstr(t.text, "the scale of") && strstr(t.text, "[run-quantize]"));
    t = run_changed(a, "st.global.v2.b32  [codes]", "st.global.v2.b32  [codes + 8]");
    CHECK_EQ(t.status, 1);
    CHECK(strstr(t.text, "[run-quantize]") && strstr(t.text, "in codes"));
    CHECK(strstr(t.text, "[run-quantize-strayed]"));
    t = run_changed(a, "st.global.b32  [from], arg_global", "st.global.b32  [from], x");
    CHECK_EQ(t.status, 1);
    CHECK(strstr(t.text, "[run-global]"));
    arena_free(a);
}

TEST(wrong_layouts_are_found)
{
    struct arena *a = arena_new();
    struct told t = run_changed(a, "0x6240", "0x6420");
    CHECK_EQ(t.status, 1);
    CHECK(strstr(t.text, "[run-quantize]"));
    t = run_changed(a, "and.b32       y, y, 12", "and.b32       y, y, 8");
    CHECK_EQ(t.status, 1);
    arena_free(a);
}
