/* runtime/problem.c: outputs and arguments of epilogues, by their names. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_driver.h"
#include "tests/kernel_text.h"
#include "tests/test.h"

static fp4gen_kernel *load_epilogue(fp4gen_device *dev)
{
    setenv("FAKE_PARAMS", "17", 1);
    return load_fake_kernel(dev, kernel_epilogue);
}

static uint64_t param(int i)
{
    uint64_t v;
    memcpy(&v, calls()->params + 8 * i, 8);
    return v;
}

static uint32_t param_bits(int i)
{
    return (uint32_t)(param(i) & 0xffffffffu);
}

static const fp4gen_arg all_args[] = {
    {.name = "c", .address = 0x90000, .ld = 1056},
    {.name = "bias", .address = 0x80000},
    {.name = "d_global", .value = 0.25},
};

TEST(info_of_an_epilogue)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    fp4gen_kernel_info info;
    fp4gen_kernel_get_info(k, &info);
    CHECK_STR(info.epilogue, "custom");
    CHECK_EQ(info.n_multiple, 16);
    CHECK_EQ(info.output_count, 2);
    CHECK_STR(info.outputs[0].format, "nvfp4");
    CHECK_EQ(info.outputs[0].cols_shift, 1);
    CHECK_EQ(info.outputs[0].scale_block, 16);
    CHECK_STR(info.outputs[1].name, "amax");
    CHECK_EQ(info.arg_count, 4);
    CHECK_STR(info.args[1].name, "shift");
    CHECK_STR(info.args[1].kind, "scalar");
    CHECK_STR(info.args[1].type, "s32");
    CHECK_EQ(info.args[1].has_default, 1);
    CHECK_STR(info.args[3].kind, "aux");
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(arguments_come_by_name)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    const fp4gen_output amax = {.name = "amax", .address = 0x70004};
    fp4gen_gemm g = good_gemm();
    fp4gen_error err = {0};
    g.n = 528;
    g.d_scales = 0x60000;
    g.ldd = 144;
    g.args = all_args;
    g.arg_count = 3;
    g.outputs = &amax;
    g.output_count = 1;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(param(6), 0x50000);
    CHECK_EQ(param(7), 144);
    CHECK_EQ(param(8), 0x60000);
    CHECK_EQ(param(9), 0x70004);
    CHECK_EQ(param_bits(10), 0x3e800000); /* 0.25 */
    CHECK_EQ(param(11), 0);
    CHECK_EQ(param_bits(12), 0xfffffffe); /* the default */
    CHECK_EQ(param(13), 0);
    CHECK_EQ(param(14), 0x80000);
    CHECK_EQ(param(15), 0x90000);
    CHECK_EQ(param(16), 1056);
    CHECK_EQ(calls()->dims[0], 128); /* 264 columns of 4 bits: 8 whole pieces of 16 */

    /* The first output by its name, a scalar on the device, one that is an integer. */
    const fp4gen_output both[] = {
        amax, {.name = "d", .address = 0xa0000, .ld = 160, .scales = 0xb0000}};
    const fp4gen_arg args[] = {all_args[0],
                               all_args[1],
                               {.name = "d_global", .address = 0xc0004, .value = 3},
                               {.name = "shift", .value = -7}};
    g.d = g.ldd = g.d_scales = 0;
    g.outputs = both;
    g.output_count = 2;
    g.args = args;
    g.arg_count = 4;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(param(6), 0xa0000);
    CHECK_EQ(param(7), 160);
    CHECK_EQ(param(8), 0xb0000);
    CHECK_EQ(param(11), 0xc0004);
    CHECK_EQ(param_bits(12), 0xfffffff9);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(wrong_outputs)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    fp4gen_output outs[] = {{.name = "amax", .address = 0x70004},
                            {.name = "d", .address = 0xa0000, .scales = 0xb0000}};
    fp4gen_gemm g = good_gemm();
    g.n = 512;
    g.args = all_args;
    g.arg_count = 3;
    g.outputs = outs;
    g.d_scales = 0x60000;
    check_run(k, g, "output-missing",
              "output 'amax' of the epilogue custom is not given");
    check_run(k, g, "output-missing", "it has: d (nvfp4), amax (amax)");
    g.output_count = 2;
    check_run(k, g, "output-twice", "'d'");
    g.d = g.d_scales = 0;
    check_run(k, g, "", "");
    outs[1].name = "e";
    check_run(k, g, "output-unknown", "has no output 'e'; it has: d (nvfp4)");
    outs[1] = outs[0];
    check_run(k, g, "output-twice", "'amax'");
    outs[1] = (fp4gen_output){.name = "d", .address = 0xa0000};
    check_run(k, g, "null-address", "scales of d");
    outs[1].scales = 0xb0008;
    check_run(k, g, "gemm-address", "scales of d");
    outs[1].scales = 0xb0000;
    outs[1].ld = 120;
    check_run(k, g, "gemm-stride", "ldd is 120");
    outs[1].ld = 0;
    outs[0].address = 0x70002;
    check_run(k, g, "gemm-address", "amax: the address 0x70002 is not a multiple of 4");
    outs[0].address = 0x70004;
    g.n = 520;
    check_run(k, g, "gemm-n-multiple",
              "n is 520; the epilogue custom takes multiples of 16");
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(wrong_arguments)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    const fp4gen_output amax = {.name = "amax", .address = 0x70004};
    fp4gen_arg args[4];
    fp4gen_gemm g = good_gemm();
    memcpy(args, all_args, sizeof all_args);
    g.n = 528;
    g.ldd = 144;
    g.d_scales = 0x60000;
    g.outputs = &amax;
    g.output_count = 1;
    g.args = args;
    check_run(k, g, "arg-missing",
              "parameter 'd_global' of the epilogue custom is not");
    check_run(
        k, g, "arg-missing",
        "d_global (f32), shift (s32), bias (f32 for each column), c (bf16 for each "
        "element)");
    g.arg_count = 3;
    check_run(k, g, "", "");
    args[3] = args[0];
    g.arg_count = 4;
    check_run(k, g, "arg-twice", "'c'");
    args[3].name = "beta";
    check_run(k, g, "arg-unknown", "the epilogue custom has no parameter 'beta'");
    args[3].name = NULL;
    check_run(k, g, "arg-unknown", "no parameter ''");
    args[3] = (fp4gen_arg){.name = "shift", .value = 2.5};
    check_run(k, g, "arg-value",
              "'shift' is 2.5, but must be a whole number from -2147483648");
    args[3].value = 3e9;
    check_run(k, g, "arg-value", "to 2147483647");
    args[3].value = 2147483648;
    check_run(k, g, "arg-value", "'shift' is 2147483648, but must");
    args[3].value = 3;
    args[0].ld = 1040;
    check_run(k, g, "gemm-stride-short", "ldc is 1040 bytes, but a row has 1056");
    args[0].ld = 0;
    check_run(k, g, "", "");
    args[0].address = 0x90008;
    check_run(k, g, "gemm-address", "c: the address 0x90008");
    args[0].address = 0;
    check_run(k, g, "null-address", "c: the address is null");
    args[0] = all_args[0];
    static const double bad_scales[] = {0, -0.0, -1, NAN, -NAN, INFINITY, 1e-60, 1e60};
    for (size_t i = 0; i < sizeof bad_scales / sizeof *bad_scales; i++) {
        args[2].value = bad_scales[i];
        check_run(k, g, "quantize-global",
                  isnan(bad_scales[i]) ? "parameter 'd_global' is nan, but values are"
                  : bad_scales[i] == 1e-60 ? "is 1e-60, below 1.4e-45, the smallest"
                  : bad_scales[i] == 1e60  ? "is 1e+60, above 3.4028235e38, the"
                                           : "a finite number above 0 is allowed");
    }
    args[2].address = 0x1000; /* nobody looks behind it */
    check_run(k, g, "", "");
    args[2].address = 0x1002;
    check_run(k, g, "gemm-address",
              "d_global: the address 0x1002 is not a multiple of 4");
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(lists_that_are_not_there)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    const fp4gen_output amax = {.name = "amax", .address = 0x70004};
    fp4gen_gemm g = good_gemm();
    g.n = 512;
    g.d_scales = 0x60000;
    g.args = all_args;
    g.arg_count = 3;
    g.output_count = 3;
    check_run(k, g, "list-null", "outputs is a null pointer, but 3 entries");
    g.outputs = &amax;
    g.output_count = UINT32_MAX;
    check_run(k, g, "list-count", "outputs has 4294967295 entries");
    g.output_count = 5;
    check_run(k, g, "list-count", "no kernel has more than 4");
    g.output_count = 1;
    g.args = NULL;
    g.arg_count = 4;
    check_run(k, g, "list-null", "args is a null pointer, but 4 entries");
    g.args = all_args;
    g.arg_count = (uint32_t)-1;
    check_run(k, g, "list-count", "no kernel has more than 16");
    g.args = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_check(k, &g, &err), FP4GEN_BAD_ARGUMENT);
    g.arg_count = 3;
    CHECK_EQ(fp4gen_check(k, &g, &err), FP4GEN_BAD_ARGUMENT);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(options_without_effect)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    fp4gen_output outs[] = {{.name = "amax", .address = 0x70004},
                            {.name = "d", .address = 0xa0000, .scales = 0xb0000}};
    fp4gen_arg args[4];
    fp4gen_gemm g = good_gemm();
    memcpy(args, all_args, sizeof all_args);
    args[3] = (fp4gen_arg){.name = "shift", .value = 3};
    g.n = 512;
    g.d = g.ldd = 0;
    g.outputs = outs;
    g.output_count = 2;
    g.args = args;
    g.arg_count = 4;
    check_run(k, g, "", "");
    g.ldd = 256;
    check_run(k, g, "output-twice", "'d'");
    g.ldd = 0;
    outs[0].ld = 16;
    check_run(k, g, "option-unused", "output 'amax': ld has no meaning for amax");
    outs[0].ld = 0;
    outs[0].scales = 0xc0000;
    check_run(k, g, "option-unused", "output 'amax': scales has no meaning");
    outs[0].scales = 0;
    args[0].value = 1;
    check_run(k, g, "option-unused", "'c': value has no meaning for tile");
    args[0].value = 0;
    args[1].value = NAN;
    check_run(k, g, "option-unused", "'bias': value has no meaning for vector");
    args[1].value = 0;
    args[1].ld = 16;
    check_run(k, g, "option-unused", "'bias': ld has no meaning for vector");
    args[1].ld = 0;
    args[3].ld = 4;
    check_run(k, g, "option-unused", "'shift': ld has no meaning for scalar");
    args[3].ld = 0;
    check_run(k, g, "", "");
    fp4gen_unload(k);
    k = load_kernel(dev);
    g = good_gemm();
    g.d_scales = 0x60000;
    check_run(k, g, "option-unused", "output 'd': scales has no meaning for");
    fp4gen_unload(k);
    fp4gen_close(dev);
}

/* Calls that return no status leave what they can. */
TEST(null_handles_of_calls_without_a_status)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_epilogue(dev);
    fp4gen_kernel_info info;
    fp4gen_device_info device;
    memset(&info, 1, sizeof info);
    memset(&device, 1, sizeof device);
    fp4gen_kernel_get_info(NULL, &info);
    CHECK_STR(info.name, "");
    CHECK_EQ(info.output_count, 0);
    fp4gen_kernel_get_info(k, NULL);
    fp4gen_device_get_info(NULL, &device);
    CHECK_STR(device.name, "");
    fp4gen_device_get_info(dev, NULL);
    CHECK(!fp4gen_driver_symbol(NULL, "cuInit"));
    CHECK(!fp4gen_driver_symbol(dev, NULL));
    fp4gen_unload(k);
    fp4gen_close(dev);
}
