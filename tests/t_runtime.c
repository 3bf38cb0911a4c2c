/* libfp4gen against a driver that only takes notes (tests/fake_libcuda.c): what is
 * refused and in which words, and what reaches the driver when nothing is. */
#include "runtime/fp4gen.h"
#include "runtime/tensor_map.h"
#include "tests/fake_driver.h"
#include "tests/kernel_text.h"
#include "tests/test.h"

#include <cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Tensor maps */

static fp4gen_tensor_desc good_map(void)
{
    return (fp4gen_tensor_desc){.name = "x",
                                .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                .rank = 2,
                                .address = 0x7f0000000010,
                                .dims = {3466, 100},
                                .strides = {6944},
                                .box = {64, 128},
                                .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                                .l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
}

static void check_map(const fp4gen_tensor_desc *t, const char *code, const char *words)
{
    fp4gen_error err = {0};
    CHECK_EQ(tensor_map_check(t, &err), *code ? FP4GEN_BAD_ARGUMENT : FP4GEN_OK);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
    CHECK_EQ(tensor_map_check(t, NULL), *code ? FP4GEN_BAD_ARGUMENT : FP4GEN_OK);
}

/* H3 */
TEST(row_stride_of_6932_bytes_names_the_16_byte_rule)
{
    fp4gen_tensor_desc t = good_map();
    check_map(&t, "", "");
    t.strides[0] = 6932;
    check_map(&t, "tensor-stride", "6932 bytes, not a multiple of 16,");
    check_map(&t, "tensor-stride", "pad to 6944");
    t.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    t.address = 0x7f0000000020;
    t.dims[0] = 128 * 100;
    t.box[0] = 128;
    check_map(&t, "tensor-stride", "6932 bytes, not a multiple of 32,");
    t.strides[0] = 6928; /* a multiple of 16 is not enough here */
    check_map(&t, "tensor-stride", "pad to 6944");
    t.strides[0] = 6944;
    check_map(&t, "", "");
}

/* H4 */
TEST(tensor_map_rules_are_named)
{
    fp4gen_tensor_desc t = good_map();
    t.box[1] = 257;
    check_map(&t, "tensor-box", "dimension 1 of the box has 257");
    t.box[1] = 0;
    check_map(&t, "tensor-box", "1 to 256");
    t.box[1] = 256;
    check_map(&t, "", "");

    t = good_map();
    t.dims[1] = 0;
    check_map(&t, "tensor-dim", "dimension 1 has 0");
    t.dims[1] = ((uint64_t)1 << 32) + 1;
    check_map(&t, "tensor-dim", "4294967297");
    t.dims[1] = (uint64_t)1 << 32;
    check_map(&t, "", "");

    t = good_map();
    t.strides[0] = (uint64_t)1 << 40;
    check_map(&t, "tensor-stride-range", "1099511627776");
    t.strides[0] -= 16;
    check_map(&t, "", "");
    t.strides[0] = 0;
    check_map(&t, "tensor-stride-zero", "100 elements");
    t.dims[1] = 1;
    check_map(&t, "", "");

    t = good_map();
    t.address += 8;
    check_map(&t, "tensor-address", "0x7f0000000018 is not a multiple of 16");
    t.address = 0;
    check_map(&t, "null-address", "x");
}

TEST(tensor_map_rules_of_the_other_arguments)
{
    fp4gen_tensor_desc t = good_map();
    t.rank = 0;
    check_map(&t, "tensor-rank", "rank 0");
    t.rank = 6;
    check_map(&t, "tensor-rank", "rank 6");

    t = good_map();
    t.type = 16;
    check_map(&t, "tensor-type", "type 16");
    t.type = -1;
    check_map(&t, "tensor-type", "type -1");

    t = good_map();
    t.swizzle = 7;
    check_map(&t, "tensor-swizzle", "swizzle 7");
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    check_map(&t, "tensor-swizzle-box", "128 bytes; swizzle 64b allows 64");
    t.box[0] = 32;
    check_map(&t, "", "");
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
    check_map(&t, "tensor-swizzle-box", "64 bytes; swizzle 32b allows 32");
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    t.box[0] = 256;
    check_map(&t, "", "");

    t = good_map();
    t.l2_promotion = 4;
    check_map(&t, "tensor-l2", "promotion 4");

    t = good_map();
    t.box[0] = 4;
    check_map(&t, "tensor-box-bytes", "4 elements of type bfloat16, are 64 bits");
}

TEST(tensor_map_rules_of_packed_types)
{
    fp4gen_tensor_desc t = good_map();
    t.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
    t.box[0] = 256;
    check_map(&t, "", "");
    t.dims[0] = 3467;
    check_map(&t, "tensor-dim-unit", "3467 elements, not a multiple of 2");
    t.dims[0] = 3466;
    t.box[0] = 48;
    check_map(&t, "tensor-box-bytes", "192 bits");

    t = good_map();
    t.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
    check_map(&t, "tensor-address", "multiple of 32");
    t.address += 16;
    check_map(&t, "tensor-dim-unit", "multiple of 128");
    t.dims[0] = 256;
    check_map(&t, "tensor-box-padded", "64 elements; type 16u6_align16b needs 128");
    t.box[0] = 128;
    check_map(&t, "", "");
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    check_map(&t, "tensor-swizzle-type", "64b");
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B;
    check_map(&t, "", "");
    t.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    check_map(&t, "tensor-swizzle-type", "16u4_align16b");
}

/* ---- Drivers */

/* fp4gen_open fails with this status, code and words. */
static void check_open(fp4gen_driver driver, int ordinal, const char *target,
                       fp4gen_status status, const char *code, const char *words)
{
    fp4gen_device *dev = (fp4gen_device *)&status;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_open(&dev, driver, ordinal, target, &err), status);
    CHECK(dev == NULL);
    CHECK_EQ(err.status, status);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
}

TEST(missing_libcuda)
{
    if (dlopen("libcuda.so.1", RTLD_NOW))
        SKIP("this machine has a driver");
    check_open(FP4GEN_DRIVER_CUDA, 0, NULL, FP4GEN_NO_DRIVER, "no-libcuda",
               "libcuda.so.1");
}

TEST(missing_emulator)
{
    setenv("FP4GEN_EMU_LIB", "/no/such/file.so", 1);
    check_open(FP4GEN_DRIVER_EMU, 0, NULL, FP4GEN_NO_DRIVER, "emu-lib",
               "/no/such/file.so");
}

TEST(emulator_that_is_no_driver)
{
    setenv("FP4GEN_EMU_LIB", "libm.so.6", 1);
    check_open(FP4GEN_DRIVER_EMU, 0, NULL, FP4GEN_NO_DRIVER, "emu-foreign",
               "libm.so.6, which is not a CUDA driver");
}

TEST(auto_without_anything_says_both_reasons)
{
    if (dlopen("libcuda.so.1", RTLD_NOW))
        SKIP("this machine has a driver");
    unsetenv("FP4GEN_DRIVER");
    setenv("FP4GEN_EMU_LIB", "/no/such/file.so", 1);
    check_open(FP4GEN_DRIVER_AUTO, 0, NULL, FP4GEN_NO_DRIVER, "emu-lib",
               "no NVIDIA driver");
}

TEST(old_driver_lacks_tensor_maps)
{
    setenv("FAKE_VERSION", "11080", 1);
    load_fake("fake-old");
    check_open(
        FP4GEN_DRIVER_CUDA, 0, NULL, FP4GEN_NO_DRIVER, "driver-symbol",
        "cuTensorMapEncodeTiled: it is a driver of CUDA 11.8, and one of CUDA 12.0");
}

TEST(driver_without_device)
{
    load_fake("fake");
    setenv("FAKE_INIT", "100", 1);
    check_open(FP4GEN_DRIVER_CUDA, 0, NULL, FP4GEN_NO_DEVICE, "cuda-call",
               "FAKE_ERROR_NAME (100)");
    setenv("FAKE_INIT", "", 1);
    check_open(FP4GEN_DRIVER_CUDA, 1, NULL, FP4GEN_NO_DEVICE, "no-device",
               "no device 1: the driver has 1");
    check_open(FP4GEN_DRIVER_CUDA, -5, NULL, FP4GEN_NO_DEVICE, "no-device",
               "no device -5: the driver has 1");
}

TEST(unknown_target_or_driver_name)
{
    load_fake("fake");
    check_open((fp4gen_driver)9, 0, NULL, FP4GEN_BAD_ARGUMENT, "driver-value",
               "no driver 9; FP4GEN_DRIVER_AUTO (0)");
    check_open(FP4GEN_DRIVER_CUDA, 0, "sm_99", FP4GEN_BAD_ARGUMENT, "target-name",
               "'sm_99'");
    setenv("FP4GEN_DRIVER", "gpu", 1);
    check_open(FP4GEN_DRIVER_AUTO, 0, NULL, FP4GEN_BAD_ARGUMENT, "driver-name",
               "'gpu'");
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_open(NULL, FP4GEN_DRIVER_CUDA, 0, NULL, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "null-argument");
}

static void check_device(fp4gen_driver driver, int ordinal, const char *target,
                         const char *name, const char *note)
{
    fp4gen_device *dev = NULL;
    fp4gen_error err = {0};
    fp4gen_open(&dev, driver, ordinal, target, &err);
    CHECK_STR(err.text, "");
    fp4gen_device_info info;
    fp4gen_device_get_info(dev, &info);
    CHECK_STR(info.name, name);
    if (!strstr(info.note, note))
        CHECK_STR(info.note, note);
    CHECK_EQ(info.sm_count, 7);
    fp4gen_close(dev);
}

TEST(device_is_chosen_by_target)
{
    load_fake("fake");
    setenv("FAKE_CC", "90,103,100", 1);
    check_device(FP4GEN_DRIVER_CUDA, -1, "sm_100f", "Fake 1", "");
    check_device(FP4GEN_DRIVER_CUDA, -1, "sm_100a", "Fake 2", "");
    check_device(FP4GEN_DRIVER_CUDA, -1, "sm_120a", "Fake 0", "");
    check_device(FP4GEN_DRIVER_CUDA, 2, "sm_90a", "Fake 2", "");
    check_device(FP4GEN_DRIVER_AUTO, -1, "sm_90a", "Fake 0", "");
    check_device(FP4GEN_DRIVER_AUTO, -1, NULL, "Fake 0", "");
    CHECK_EQ(calls()->retains, calls()->releases);
}

/* The other fake stands in for the emulator; AUTO has no use for the real driver's
 * device and says so. */
TEST(auto_takes_the_emulator_when_no_device_fits)
{
    struct arena *a = arena_new();
    unsetenv("FP4GEN_DRIVER");
    load_fake("fake");
    setenv("FAKE_CC", "90", 1);
    const char *copy = test_tmp_path("libemu.so");
    size_t bytes;
    char *library = file_read(a, fake_path(a, "fake"), &bytes);
    CHECK(library && file_write(copy, library, bytes));
    setenv("FP4GEN_EMU_LIB", copy, 1);
    check_device(FP4GEN_DRIVER_AUTO, -1, "sm_100f", "Fake 0",
                 "Fake 0 has compute capability 90");
    CHECK_EQ(calls()->retains, 0); /* the copy was used */
    setenv("FP4GEN_DRIVER", "cuda", 1);
    check_device(FP4GEN_DRIVER_AUTO, -1, "sm_100f", "Fake 0", "");
    CHECK_EQ(calls()->retains, 1);
    setenv("FP4GEN_DRIVER", "emu", 1);
    check_device(FP4GEN_DRIVER_AUTO, -1, "sm_90a", "Fake 0", "");
    CHECK_EQ(calls()->retains, 1);
    arena_free(a);
}

/* ---- Loading */

static void check_load(fp4gen_device *dev, const char *text, fp4gen_status status,
                       const char *code, const char *words)
{
    fp4gen_kernel *k = (fp4gen_kernel *)&status;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_load(&k, dev, text, strlen(text), &err), status);
    CHECK(k == NULL);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
    CHECK_EQ(calls()->depth, 0);
}

TEST(driver_too_old_for_the_ptx)
{
    struct arena *a = arena_new();
    setenv("FAKE_VERSION", "12080", 1);
    fp4gen_device *dev = open_fake();
    const char *text = kernel_text(a, kernel_manifest);
    check_load(
        dev, text, FP4GEN_LOAD_FAILED, "driver-old",
        "PTX 8.8 needs a driver of CUDA 12.9 or later, this one is of CUDA 12.8");
    setenv("FAKE_VERSION", "12090", 1);
    fp4gen_close(dev);
    dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_unload(k);
    fp4gen_close(dev);
    arena_free(a);
}

TEST(device_that_cannot_run_the_target)
{
    struct arena *a = arena_new();
    setenv("FAKE_CC", "90", 1);
    fp4gen_device *dev = open_fake();
    check_load(
        dev, kernel_text(a, kernel_manifest), FP4GEN_LOAD_FAILED, "device-target",
        "Fake 0 has compute capability 90, and code for sm_100f runs on sm_100 and "
        "sm_103 parts");
    fp4gen_close(dev);
    arena_free(a);
}

TEST(log_of_the_driver_is_in_the_error)
{
    struct arena *a = arena_new();
    fp4gen_device *dev = open_fake();
    setenv("FAKE_LOAD", "218", 1);
    check_load(dev, kernel_text(a, kernel_manifest), FP4GEN_LOAD_FAILED, "cuda-call",
               "FAKE_ERROR_NAME (218), the text of a fake error\nthe driver's log:\n"
               "line 7; fatal: a fake complaint");
    setenv("FAKE_LOAD", "2", 1);
    check_load(dev, kernel_text(a, kernel_manifest), FP4GEN_OUT_OF_MEMORY, "cuda-call",
               "(2)");
    fp4gen_close(dev);
    arena_free(a);
}

TEST(kernel_needs_more_shared_memory_than_there_is)
{
    struct arena *a = arena_new();
    fp4gen_device *dev = open_fake();
    const char *text =
        kernel_text(a, text_replaced(a, kernel_manifest, "229632", "232449"));
    check_load(dev, text, FP4GEN_BAD_ARGUMENT, "device-smem",
               "needs 232449 bytes of shared memory, the device has 232448");
    check_load(dev, "hello", FP4GEN_BAD_PTX, "kernel-not-ours", "fp4gen");
    CHECK_EQ(calls()->loads, calls()->unloads);
    fp4gen_close(dev);
    arena_free(a);
}

TEST(kernel_info)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_kernel_info info;
    fp4gen_kernel_get_info(k, &info);
    CHECK_STR(info.name, "fp4gen_test_kernel");
    CHECK_STR(info.target, "sm_100f");
    CHECK_EQ(info.tile_n, 256);
    CHECK_EQ(info.threads, 192);
    CHECK_EQ(info.d_is_f32, 0);
    CHECK_STR(info.epilogue, "identity");
    CHECK_EQ(info.output_count, 1);
    CHECK_STR(info.outputs[0].format, "bf16");
    CHECK_EQ(info.arg_count, 0);
    CHECK_EQ(calls()->smem_attribute, 229632);
    fp4gen_unload(k);
    CHECK_EQ(calls()->unloads, 1);
    fp4gen_close(dev);
}

/* ---- Running */

TEST(launch_gets_what_the_manifest_says)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_gemm g = good_gemm();
    fp4gen_error err = {0};
    g.alpha_ptr = 0x60004;
    g.stream = &g;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    const struct fake *f = calls();
    CHECK_EQ(f->launches, 1);
    CHECK_EQ(f->encodes, 5);
    CHECK_EQ(f->grid[0], 7); /* 9 tiles, 7 SMs */
    CHECK_EQ(f->grid[1], 1);
    CHECK_EQ(f->block[0], 192);
    CHECK_EQ(f->smem_bytes, 229632);
    CHECK_EQ(f->cluster[0], 0);
    CHECK(f->stream == &g);
    uint64_t maps[5], addresses[3];
    uint32_t sizes[3];
    float alpha;
    memcpy(maps, f->params, sizeof maps);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(maps[i], 0x10000 * (i + 1));
    for (int i = 0; i < 3; i++)
        memcpy(&sizes[i], f->params + 40 + 8 * i, 4);
    CHECK_EQ(sizes[0], 300);
    CHECK_EQ(sizes[1], 520);
    CHECK_EQ(sizes[2], 1088);
    memcpy(&alpha, f->params + 64, 4);
    CHECK_NEAR(alpha, 0.5, 0);
    memcpy(addresses, f->params + 72, 24);
    CHECK_EQ(addresses[0], 0x60004);
    CHECK_EQ(addresses[1], 0x50000); /* d_ptr */
    CHECK_EQ(addresses[2], 1040);    /* ldd */
    /* The newest map is D's. */
    CHECK_EQ(f->rank, 2);
    CHECK_EQ(f->dims[0], 520);
    CHECK_EQ(f->dims[1], 300);
    CHECK_EQ(f->strides[0], 1040);
    CHECK_EQ(f->box[0], 32);
    CHECK_EQ(f->type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    CHECK_EQ(f->depth, 0);
    CHECK_EQ(f->max_depth, 1);
    g.ctas = 3;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(f->grid[0], 3);
    g.ctas = 1000;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(f->grid[0], 9);
    float ms = 0;
    CHECK_EQ(fp4gen_run_timed(k, &g, &ms, &err), FP4GEN_OK);
    CHECK_NEAR(ms, 2.5, 0);
    CHECK_EQ(f->depth, 0);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

/* A tensor store writes whole 16 bytes of a row: the map leaves out columns that do not
 * fill them. */
TEST(map_of_d_ends_at_whole_16_bytes)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    static const uint32_t cols[][2] = {
        {520, 520}, {523, 520}, {527, 520}, {8, 8}, {5, 8}};
    for (size_t i = 0; i < COUNT_OF(cols); i++) {
        fp4gen_gemm g = good_gemm();
        g.n = cols[i][0];
        g.ldd = 1056;
        CHECK_EQ(fp4gen_run(k, &g, NULL), FP4GEN_OK);
        CHECK_EQ(calls()->dims[0], cols[i][1]);
    }
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(scale_map_counts_blocks_not_elements)
{
    struct arena *a = arena_new();
    fp4gen_device *dev = open_fake();
    /* sfa last, so that the fake remembers it */
    char *text = kernel_text(
        a,
        text_replaced(
            a, text_replaced(a, kernel_manifest, "param: sfa tensor-map\n", ""),
            "param: o0 tensor-map\n", "param: o0 tensor-map\nparam: sfa tensor-map\n"));
    fp4gen_kernel *k = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_load(&k, dev, text, strlen(text), &err), FP4GEN_OK);
    fp4gen_gemm g = good_gemm();
    g.k = 1120; /* 17.5 groups of 64 */
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    const struct fake *f = calls();
    CHECK_EQ(f->rank, 3);
    CHECK_EQ(f->dims[0], 256);
    CHECK_EQ(f->dims[1], 18);
    CHECK_EQ(f->dims[2], 3);
    CHECK_EQ(f->strides[0], 512);
    CHECK_EQ(f->strides[1], 512 * 18);
    fp4gen_unload(k);
    fp4gen_close(dev);
    arena_free(a);
}

TEST(cluster_rounds_the_grid_up)
{
    struct arena *a = arena_new();
    fp4gen_device *dev = open_fake();
    char *text = kernel_text(
        a, text_replaced(a, kernel_manifest, "cluster: 1 1 1", "cluster: 2 1 1"));
    fp4gen_kernel *k = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_load(&k, dev, text, strlen(text), &err), FP4GEN_OK);
    fp4gen_gemm g = good_gemm();
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(calls()->grid[0], 8);
    CHECK_EQ(calls()->cluster[0], 2);
    fp4gen_unload(k);
    fp4gen_close(dev);
    arena_free(a);
}

TEST(empty_products)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_error err = {0};
    fp4gen_gemm g = {.m = 0, .n = 520, .k = 64};
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    g = (fp4gen_gemm){.m = 300, .n = 0, .k = 64};
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(calls()->launches, 0);
    /* Without K the operands are zeros of the runtime: the epilogue still runs. */
    g = (fp4gen_gemm){.m = 300, .n = 520, .k = 0, .d = 0x1000, .ldd = 1056};
    g.alpha = NAN;
    g.alpha_ptr = 0x2000;
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    const struct fake *f = calls();
    uint64_t maps[5];
    uint32_t sizes[3];
    CHECK_EQ(f->launches, 1);
    memcpy(maps, f->params, sizeof maps);
    for (int i = 0; i < 3; i++)
        memcpy(&sizes[i], f->params + 40 + 8 * i, 4);
    CHECK(maps[0] != 0 && maps[0] == maps[1] && maps[0] == maps[3]);
    CHECK_EQ(maps[4], 0x1000);
    CHECK_EQ(sizes[0], 300);
    CHECK_EQ(sizes[1], 520);
    CHECK_EQ(sizes[2], 64);
    float alpha;
    uint64_t alpha_ptr;
    memcpy(&alpha, f->params + 64, sizeof alpha);
    memcpy(&alpha_ptr, f->params + 72, sizeof alpha_ptr);
    CHECK(alpha == 0); /* and so D, although alpha is none */
    CHECK_EQ(alpha_ptr, 0);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(arguments_of_a_gemm)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_gemm g = good_gemm();
    g.k = 1087;
    check_run(k, g, "gemm-odd-k", "pad with zeros to 1088");
    g.k = 1090; /* rows of 545 bytes */
    check_run(k, g, "gemm-dense", "dense rows of a are 545 bytes");
    g.lda = 552;
    check_run(k, g, "gemm-stride", "lda is 552 bytes, not a multiple of 16");
    check_run(k, g, "gemm-stride", "pad rows to 560");
    g.lda = 544;
    check_run(k, g, "gemm-stride-short", "lda is 544 bytes, but a row has 545");
    g.lda = UINT64_MAX; /* no advice to pad it */
    check_run(k, g, "gemm-stride-long", "lda is 18446744073709551615");
    g.lda = 560;
    check_run(k, g, "gemm-dense", "of b are 545");
    g.ldb = (uint64_t)1 << 40;
    check_run(k, g, "gemm-stride-long", "ldb is 1099511627776");
    g.ldb = 560;
    check_run(k, g, "", "");

    g = good_gemm();
    g.n = 521;
    check_run(k, g, "gemm-dense", "dense rows of d are 1042 bytes");
    g.ldd = 1056;
    check_run(k, g, "", "");
    g.m = 0xffffffff;
    check_run(k, g, "gemm-size", "m is 4294967295");

    static const char *const names[] = {"a", "b", "sfa", "sfb", "d"};
    for (size_t i = 0; i < 5; i++) {
        struct arena *a = arena_new();
        g = good_gemm();
        uint64_t *address[] = {&g.a, &g.b, &g.sfa, &g.sfb, &g.d};
        *address[i] += 8;
        check_run(k, g, "gemm-address",
                  arena_printf(a, "%s: the address 0x", names[i]));
        *address[i] = 0;
        check_run(k, g, "null-address", names[i]);
        arena_free(a);
    }
    g = good_gemm();
    g.alpha_ptr = 0x1002;
    check_run(k, g, "gemm-address",
              "alpha_ptr: the address 0x1002 is not a multiple of 4");
    CHECK_EQ(fp4gen_run(NULL, &g, NULL), FP4GEN_BAD_ARGUMENT);
    CHECK_EQ(fp4gen_run(k, NULL, NULL), FP4GEN_BAD_ARGUMENT);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(f32_kernels_have_rows_of_four_bytes)
{
    struct arena *a = arena_new();
    fp4gen_device *dev = open_fake();
    char *manifest = text_replaced(a, kernel_manifest, "format=bf16 cols=n bits=16",
                                   "format=f32 cols=n bits=32");
    manifest = text_replaced(
        a, manifest, "bfloat16 dims=8*o0_pieces,m strides=o0_ld box=32,32 swizzle=64b",
        "float32 dims=4*o0_pieces,m strides=o0_ld box=32,32 swizzle=128b");
    const char *text = kernel_text(a, manifest);
    fp4gen_kernel *k = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_load(&k, dev, text, strlen(text), &err), FP4GEN_OK);
    fp4gen_gemm g = good_gemm();
    g.ldd = 1040;
    check_run(k, g, "gemm-stride-short", "ldd is 1040 bytes, but a row has 2080");
    g.ldd = 0;
    check_run(k, g, "", "");
    CHECK_EQ(calls()->strides[0], 2080);
    fp4gen_unload(k);
    fp4gen_close(dev);
    arena_free(a);
}

TEST(faults_of_a_kernel_come_back)
{
    fp4gen_device *dev = open_fake();
    fp4gen_kernel *k = load_kernel(dev);
    fp4gen_gemm g = good_gemm();
    fp4gen_error err = {0};
    setenv("FAKE_LAUNCH", "701", 1);
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_LAUNCH_FAILED);
    CHECK_EQ(err.cuda, 701);
    CHECK(strstr(err.text, "launching fp4gen_test_kernel failed") != NULL);
    setenv("FAKE_LAUNCH", "", 1);
    setenv("FAKE_SYNC", "700", 1);
    CHECK_EQ(fp4gen_run(k, &g, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_sync(dev, NULL, &err), FP4GEN_LAUNCH_FAILED);
    CHECK_EQ(err.cuda, 700);
    CHECK_EQ(calls()->depth, 0);
    fp4gen_unload(k);
    fp4gen_close(dev);
}

TEST(memory)
{
    fp4gen_device *dev = open_fake();
    fp4gen_error err = {0};
    uint64_t p = 0;
    unsigned char out[100], in[100];
    CHECK_EQ(fp4gen_alloc(dev, &p, (size_t)1 << 40, &err), FP4GEN_OUT_OF_MEMORY);
    CHECK_EQ(p, 0);
    CHECK_EQ(fp4gen_alloc(dev, &p, 0, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_free(dev, p, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_alloc(dev, &p, sizeof in, &err), FP4GEN_OK);
    memset(in, 5, sizeof in);
    CHECK_EQ(fp4gen_upload(dev, p, in, sizeof in, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_fill(dev, p + 50, 0xab, 50, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_download(dev, out, p, sizeof out, &err), FP4GEN_OK);
    CHECK_EQ(out[49], 5);
    CHECK_EQ(out[50], 0xab);
    CHECK_EQ(fp4gen_upload(dev, 0, in, 1, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_EQ(fp4gen_download(dev, NULL, p, 1, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_EQ(fp4gen_fill(dev, 0, 0, 1, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_EQ(fp4gen_fill(dev, 0, 0, 0, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_free(dev, p, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_free(dev, 0, &err), FP4GEN_OK);
    CHECK_EQ(calls()->depth, 0);
    fp4gen_close(dev);
    fp4gen_close(NULL);
    fp4gen_unload(NULL);
    fp4gen_module_unload(NULL);
}

TEST(modules_of_any_kernel)
{
    static const char text[] =
        ".version 8.0\n.target sm_90a\n.entry other() { ret; }\n";
    setenv("FAKE_CC", "90", 1);
    fp4gen_device *dev = open_fake();
    fp4gen_module *m = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_module_load(&m, dev, text, sizeof text - 1, &err), FP4GEN_OK);
    fp4gen_launch l = {.entry = "other",
                       .grid = {4, 2, 1},
                       .block = {128, 1, 1},
                       .cluster = {2, 1, 1},
                       .smem_bytes = 1024};
    CHECK_EQ(fp4gen_module_launch(m, &l, &err), FP4GEN_OK);
    CHECK_EQ(calls()->cluster[0], 2);
    CHECK_EQ(calls()->grid[1], 2);
    CHECK_EQ(calls()->smem_attribute, 1024);
    l.cluster[0] = 3;
    CHECK_EQ(fp4gen_module_launch(m, &l, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "launch-cluster");
    l.cluster[0] = 2;
    l.grid[2] = 0;
    CHECK_EQ(fp4gen_module_launch(m, &l, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "launch-shape");
    l.grid[2] = 1;
    l.entry = "another";
    CHECK_EQ(fp4gen_module_launch(m, &l, &err), FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "no-entry");
    fp4gen_module_unload(m);
    m = NULL;
    CHECK_EQ(fp4gen_module_load(&m, dev, NULL, 0, &err), FP4GEN_BAD_ARGUMENT);
    fp4gen_tensor_desc t = good_map();
    fp4gen_tensor_map maps[2];
    CHECK_EQ(fp4gen_encode(dev, &maps[0], &t, &err), FP4GEN_OK);
    CHECK_EQ(calls()->address, t.address);
    CHECK_EQ(calls()->strides[0], 6944);
    CHECK_EQ(
        fp4gen_encode(dev, (fp4gen_tensor_map *)(void *)(maps[0].bytes + 32), &t, &err),
        FP4GEN_BAD_ARGUMENT);
    CHECK_STR(err.code, "tensor-map-align");
    fp4gen_close(dev);
}
