/* The emulator's libcuda.so.1: loading modules and libraries, what is refused and what
 * the log says then, functions, variables, occupancy. */
#include "tests/libcuda_api.h"

#define HEAD(target) ".version 8.8\n.target " target "\n.address_size 64\n"
#define EMPTY_KERNEL ".visible .entry k()\n{\n  ret;\n}\n"

/* Loads `ptx` with a log buffer; what the log holds. */
static const char *load_log(const void *ptx, CUresult *result)
{
    static char log[4096], info[16];
    CUmodule m;
    memset(log, 'x', sizeof log);
    memset(info, 'x', sizeof info);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_WALL_TIME,
                              CU_JIT_OPTIMIZATION_LEVEL,
                              CU_JIT_GENERATE_LINE_INFO};
    void *values[] = {(void *)(uintptr_t)sizeof log,
                      log,
                      info,
                      (void *)(uintptr_t)sizeof info,
                      NULL,
                      (void *)(uintptr_t)3,
                      (void *)(uintptr_t)1};
    float ms;
    *result = cu.cuModuleLoadDataEx_(&m, ptx, 7, options, values);
    CHECK_EQ((uintptr_t)values[0], strlen(log) + 1); /* used, with the NUL */
    CHECK_EQ((uintptr_t)values[3], 1);
    CHECK_STR(info, "");
    memcpy(&ms, &values[4], sizeof ms);
    CHECK(ms > 0.0f && ms < 60000.0f);
    return log;
}

static void check_refused(const void *image, CUresult want, const char *words)
{
    CUresult r;
    const char *log = load_log(image, &r);
    CHECK_EQ(r, want);
    if (strncmp(log, "line ", 5) != 0 || !strstr(log, "error") || !strstr(log, words))
        test_fail(__FILE__, __LINE__, "the log is: %s", log);
}

TEST(a_module_loads_silently)
{
    CUresult r;
    api_start();
    CHECK_STR(load_log(HEAD("sm_100") EMPTY_KERNEL, &r), "");
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_STR(
        load_log("// a comment\n/* and\nanother */\n" HEAD("sm_100") EMPTY_KERNEL, &r),
        "");
    CHECK_EQ(r, CUDA_SUCCESS);
}

TEST(images_that_are_not_ptx)
{
    api_start();
    check_refused("\x7f"
                  "ELF\x02\x01\x01",
                  CUDA_ERROR_NO_BINARY_FOR_GPU, "cubin");
    check_refused("\x50\xed\x55\xba", CUDA_ERROR_NO_BINARY_FOR_GPU, "fat binary");
    check_refused("hello", CUDA_ERROR_INVALID_IMAGE, ".version");
    check_refused("", CUDA_ERROR_INVALID_IMAGE, ".version");
    check_refused("/* never closed", CUDA_ERROR_INVALID_IMAGE, ".version");
    CUmodule m;
    CHECK_EQ(cu.cuModuleLoadFatBinary_(&m, "\x50\xed\x55\xba"),
             CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_EQ(cu.cuModuleLoadFatBinary_(&m, HEAD("sm_100") EMPTY_KERNEL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleLoadData_(&m, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleLoadData_(NULL, HEAD("sm_100") EMPTY_KERNEL),
             CUDA_ERROR_INVALID_VALUE);
}

TEST(ptx_of_a_later_version)
{
    api_start();
    check_refused(
        "// x\n.version 9.9\n.target sm_100\n.address_size 64\nnew_directive;\n",
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "9.9");
    check_refused(".version 10.0\n.target sm_100\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                  "10.0");
}

TEST(ptx_with_a_mistake_names_its_line)
{
    CUresult r;
    api_start();
    const char *log =
        load_log(HEAD("sm_100") ".visible .entry k()\n{\n  bogus.s32;\n}\n", &r);
    CHECK_EQ(r, CUDA_ERROR_INVALID_PTX);
    CHECK_EQ(strncmp(log, "line 6; error", 13), 0);
    check_refused(HEAD("sm_100") ".visible .entry k()\n{\n  ret;\n", /* cut off */
                  CUDA_ERROR_INVALID_PTX, "line ");
}

TEST(instruction_that_the_target_lacks)
{
    api_start();
    check_refused(HEAD("sm_100") ".visible .entry k()\n{\n"
                                 "  tcgen05.wait::ld.sync.aligned;\n  ret;\n}\n",
                  CUDA_ERROR_INVALID_PTX, "line 6; error");
}

TEST(module_for_another_device)
{
    setenv("FP4EMU_DEVICE", "sm_100", 1);
    api_start();
    check_refused(HEAD("sm_90a") EMPTY_KERNEL, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "FP4EMU_DEVICE=sm_90");
    check_refused(HEAD("sm_103a") EMPTY_KERNEL, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "FP4EMU_DEVICE=sm_103");
    CUresult r;
    load_log(HEAD("sm_90") EMPTY_KERNEL, &r); /* plain targets run on later devices */
    CHECK_EQ(r, CUDA_SUCCESS);
    load_log(HEAD("sm_100f") EMPTY_KERNEL, &r);
    CHECK_EQ(r, CUDA_SUCCESS);
    load_log(HEAD("sm_100a") EMPTY_KERNEL, &r);
    CHECK_EQ(r, CUDA_SUCCESS);
}

TEST(family_runs_on_its_later_member)
{
    CUresult r;
    setenv("FP4EMU_DEVICE", "sm_103", 1);
    api_start();
    load_log(HEAD("sm_100f") EMPTY_KERNEL, &r);
    CHECK_EQ(r, CUDA_SUCCESS);
    check_refused(HEAD("sm_100a") EMPTY_KERNEL, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "FP4EMU_DEVICE=sm_100 ");
}

TEST(first_module_says_what_the_device_is)
{
    CUresult r;
    int major = 0;
    api_start();
    /* What cannot be loaded decides nothing. */
    load_log(HEAD("sm_120a") ".visible .entry k()\n{\n  bogus;\n}\n", &r);
    CHECK_EQ(r, CUDA_ERROR_INVALID_PTX);
    CHECK_EQ(cu.cuDeviceGetAttribute_(&major,
                                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
             CUDA_SUCCESS);
    CHECK_EQ(major, 10);
    load_log(HEAD("sm_90a") EMPTY_KERNEL, &r);
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetAttribute_(&major,
                                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
             CUDA_SUCCESS);
    CHECK_EQ(major, 9);
    check_refused(HEAD("sm_100f") EMPTY_KERNEL, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "FP4EMU_DEVICE=sm_100");
}

TEST(log_buffers_of_any_size)
{
    CUmodule m;
    char log[12];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    api_start();
    for (uintptr_t bytes = 0; bytes < sizeof log; bytes++) {
        void *values[] = {log, (void *)bytes};
        memset(log, '#', sizeof log);
        CHECK_EQ(cu.cuModuleLoadDataEx_(&m, "hello", 2, options, values),
                 CUDA_ERROR_INVALID_IMAGE);
        CHECK_EQ((uintptr_t)values[1], bytes);
        CHECK_EQ(log[bytes], '#'); /* nothing behind the buffer */
        CHECK(bytes == 0 || log[bytes - 1] == '\0');
    }
    options[0] = (CUjit_option)999;
    void *values[] = {log, NULL};
    CHECK_EQ(cu.cuModuleLoadDataEx_(&m, "hello", 1, options, values),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleLoadDataEx_(&m, "hello", 1, NULL, NULL),
             CUDA_ERROR_INVALID_VALUE);
}

static const char variables[] = HEAD(
    "sm_100") ".visible .global .align 4 .u32 counter = 5;\n"
              ".global .align 8 .b8 zeros[100];\n"
              ".const .align 2 .u16 table[3] = {1, 2, 0xbeef};\n"
              ".global .align 8 .u64 pointer = generic(counter);\n"
              ".visible .entry one(.param .u32 a, .param .align 16 .b8 b[20], .param "
              ".u8 c)\n"
              ".maxntid 64, 2, 1\n{\n  .shared .align 4 .b8 buffer[1000];\n"
              "  st.shared.u32 [buffer], 0;\n  ret;\n}\n"
              ".visible .entry two()\n.reqntid 32\n{\n  ret;\n}\n";

TEST(variables_of_a_module)
{
    CUmodule m;
    CUdeviceptr p, counter;
    size_t bytes;
    unsigned value;
    uint64_t pointer;
    unsigned short table[3];
    unsigned char zeros[100];
    api_start();
    CHECK_EQ(cu.cuModuleLoadData_(&m, variables), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&counter, &bytes, m, "counter"), CUDA_SUCCESS);
    CHECK_EQ(bytes, 4);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&value, counter, 4), CUDA_SUCCESS);
    CHECK_EQ(value, 5);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&value, counter, 5), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&p, NULL, m, "table"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(table, p, 6), CUDA_SUCCESS);
    CHECK_EQ(table[2], 0xbeef);
    table[0] = 77; /* the host may write constants */
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, table, 2), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&p, &bytes, m, "zeros"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(zeros, p, 100), CUDA_SUCCESS);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(zeros[i], 0);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&p, NULL, m, "pointer"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&pointer, p, 8), CUDA_SUCCESS);
    CHECK(pointer == counter);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&p, NULL, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cu.cuMemFree_v2_(counter), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleUnload_(m), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&value, counter, 4), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleUnload_(m), CUDA_ERROR_INVALID_HANDLE);
}

static int get(CUfunction f, CUfunction_attribute a)
{
    int value = -1;
    CHECK_EQ(cu.cuFuncGetAttribute_(&value, a, f), CUDA_SUCCESS);
    return value;
}

TEST(functions_of_a_module)
{
    CUmodule m;
    CUfunction one, two, all[3] = {NULL, NULL, NULL};
    const char *name;
    unsigned count;
    size_t offset, bytes;
    api_start();
    CHECK_EQ(cu.cuModuleLoadData_(&m, variables), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&one, m, "one"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&two, m, "two"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&all[0], m, "three"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cu.cuModuleGetFunctionCount_(&count, m), CUDA_SUCCESS);
    CHECK_EQ(count, 2);
    CHECK_EQ(cu.cuModuleEnumerateFunctions_(all, 3, m), CUDA_SUCCESS);
    CHECK(all[0] == one && all[1] == two && all[2] == NULL);
    CHECK_EQ(cu.cuFuncGetName_(&name, two), CUDA_SUCCESS);
    CHECK_STR(name, "two");
    CHECK_EQ(cu.cuFuncGetParamInfo_(one, 1, &offset, &bytes), CUDA_SUCCESS);
    CHECK_EQ(offset, 16);
    CHECK_EQ(bytes, 20);
    CHECK_EQ(cu.cuFuncGetParamInfo_(one, 2, &offset, &bytes), CUDA_SUCCESS);
    CHECK_EQ(offset, 36);
    CHECK_EQ(cu.cuFuncGetParamInfo_(one, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(get(one, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
    CHECK_EQ(get(two, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 32);
    CHECK_EQ(get(one, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 1000);
    CHECK_EQ(get(one, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 6);
    CHECK_EQ(get(one, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 100);
    CHECK_EQ(get(two, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 48 * 1024);
    CHECK_EQ(cu.cuFuncSetAttribute_(
                 two, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
             CUDA_SUCCESS);
    CHECK_EQ(get(two, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 232448);
    CHECK_EQ(cu.cuFuncSetAttribute_(
                 two, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuFuncSetAttribute_(
                 one, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
             CUDA_ERROR_INVALID_VALUE); /* it has static shared memory too */
    CHECK_EQ(cu.cuFuncSetAttribute_(one, CU_FUNC_ATTRIBUTE_NUM_REGS, 5),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuModuleUnload_(m), CUDA_SUCCESS);
    CHECK_EQ(cu.cuFuncGetName_(&name, two), CUDA_ERROR_INVALID_HANDLE);
}

TEST(libraries)
{
    CUlibrary l;
    CUkernel k;
    CUfunction f;
    CUmodule m;
    CUdeviceptr p;
    const char *name;
    unsigned count;
    size_t offset, bytes;
    api_start();
    CHECK_EQ(cu.cuLibraryLoadData_(&l, variables, NULL, NULL, 0, NULL, NULL, 0),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLibraryGetKernelCount_(&count, l), CUDA_SUCCESS);
    CHECK_EQ(count, 2);
    CHECK_EQ(cu.cuLibraryGetKernel_(&k, l, "one"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuLibraryGetKernel_(&k, l, "none"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cu.cuLibraryGetKernel_(&k, l, "one"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuKernelGetName_(&name, k), CUDA_SUCCESS);
    CHECK_STR(name, "one");
    CHECK_EQ(cu.cuKernelGetParamInfo_(k, 0, &offset, &bytes), CUDA_SUCCESS);
    CHECK_EQ(bytes, 4);
    CHECK_EQ(cu.cuKernelGetFunction_(&f, k), CUDA_SUCCESS);
    CHECK_EQ(cu.cuFuncGetName_(&name, f), CUDA_SUCCESS);
    CHECK_STR(name, "one");
    CHECK_EQ(cu.cuLibraryGetGlobal_(&p, &bytes, l, "counter"), CUDA_SUCCESS);
    CHECK_EQ(bytes, 4);
    CHECK_EQ(cu.cuLibraryGetModule_(&m, l), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleUnload_(m), CUDA_ERROR_NOT_PERMITTED);
    CHECK_EQ(cu.cuLibraryUnload_(l), CUDA_SUCCESS);
    CHECK_EQ(cu.cuLibraryUnload_(l), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuKernelGetName_(&name, k), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuLibraryLoadData_(&l, "x", NULL, NULL, 0, NULL, NULL, 0),
             CUDA_ERROR_INVALID_IMAGE);
}

TEST(linking_one_text)
{
    CUlinkState s;
    void *image;
    size_t bytes;
    CUmodule m;
    static char text[] = HEAD("sm_100") EMPTY_KERNEL;
    api_start();
    CHECK_EQ(cu.cuLinkCreate_v2_(0, NULL, NULL, &s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuLinkAddData_v2_(s, CU_JIT_INPUT_CUBIN, text, sizeof text, "t", 0,
                                  NULL, NULL),
             CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu.cuLinkAddData_v2_(s, CU_JIT_INPUT_PTX, text, sizeof text, "t", 0, NULL,
                                  NULL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLinkComplete_(s, &image, &bytes), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleLoadData_(&m, image), CUDA_SUCCESS);
    CHECK_EQ(cu.cuLinkDestroy_(s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuLinkDestroy_(s), CUDA_ERROR_INVALID_HANDLE);
}

TEST(modules_from_files)
{
    CUmodule m;
    const char *path = test_tmp_path("k.ptx");
    api_start();
    CHECK_EQ(cu.cuModuleLoad_(&m, path), CUDA_ERROR_FILE_NOT_FOUND);
    CHECK(file_write(path, HEAD("sm_100") EMPTY_KERNEL,
                     strlen(HEAD("sm_100") EMPTY_KERNEL)));
    CHECK_EQ(cu.cuModuleLoad_(&m, path), CUDA_SUCCESS);
}

TEST(occupancy)
{
    int blocks, grid, block;
    size_t bytes;
    api_start();
    CUfunction f = load_function(HEAD("sm_100") ".visible .entry k()\n.maxnreg 64\n"
                                                "{\n  ret;\n}\n",
                                 "k");
    CHECK_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, f, 128, 0),
             CUDA_SUCCESS);
    CHECK_EQ(blocks, 8); /* registers: 65536 / (64 * 128) */
    CHECK_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, f, 32, 0),
             CUDA_SUCCESS);
    CHECK_EQ(blocks, 32); /* blocks of an SM */
    CHECK_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, f, 128, 100000),
             CUDA_SUCCESS);
    CHECK_EQ(blocks, 2); /* shared memory: 233472 / (100096 + 1024) */
    CHECK_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, f, 0, 0),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuOccupancyMaxPotentialBlockSize_(&grid, &block, f, NULL, 0, 0),
             CUDA_SUCCESS);
    CHECK_EQ(block, 1024);
    CHECK_EQ(grid, 148);
    CHECK_EQ(cu.cuOccupancyAvailableDynamicSMemPerBlock_(&bytes, f, 2, 128),
             CUDA_SUCCESS);
    CHECK_EQ(bytes, 116736 - 1024);
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {2, 1, 1}};
    CUlaunchConfig config = {.gridDimX = 2,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1024,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &cluster,
                             .numAttrs = 1};
    CHECK_EQ(cu.cuOccupancyMaxActiveClusters_(&blocks, f, &config), CUDA_SUCCESS);
    CHECK_EQ(blocks, 74);
}
