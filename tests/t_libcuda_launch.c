/* The emulator's libcuda.so.1: launches, their parameters and limits, what a kernel's
 * error does to its context, reports, graphs, the extensions. */
#include "tests/libcuda_api.h"

#include <pthread.h>
#include <time.h>

#define HEAD(target) ".version 8.8\n.target " target "\n.address_size 64\n"

static CUresult launch(CUfunction f, unsigned grid, unsigned block, void **params)
{
    return cu.cuLaunchKernel_(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
}

static CUresult launch_at(CUfunction f, CUdeviceptr p)
{
    void *params[] = {&p};
    return launch(f, 1, 1, params);
}

/* ---- parameters */

/* Each parameter goes to memory as it is, at its own place 32 bytes apart. */
static const char all_sizes[] =
    HEAD("sm_100") ".visible .entry k(.param .u64 out, .param .u8 a, .param .u16 b, "
                   ".param .u8 c,\n"
                   "                  .param .u32 d, .param .f64 e, .param .align 16 "
                   ".b8 f[20],\n"
                   "                  .param .u8 g, .param .align 64 .b8 h[128], "
                   ".param .b16 i)\n"
                   "{\n"
                   "  .reg .u64 p;  .reg .u16 x;  .reg .u32 y;  .reg .u64 z;\n"
                   "  ld.param.u64 p, [out];\n"
                   "  ld.param.u8 x, [a];        st.global.u8 [p], x;\n"
                   "  ld.param.u16 x, [b];       st.global.u16 [p+32], x;\n"
                   "  ld.param.u8 x, [c];        st.global.u8 [p+64], x;\n"
                   "  ld.param.u32 y, [d];       st.global.u32 [p+96], y;\n"
                   "  ld.param.u64 z, [e];       st.global.u64 [p+128], z;\n"
                   "  ld.param.u32 y, [f];       st.global.u32 [p+160], y;\n"
                   "  ld.param.u32 y, [f+16];    st.global.u32 [p+164], y;\n"
                   "  ld.param.u8 x, [g];        st.global.u8 [p+192], x;\n"
                   "  ld.param.u64 z, [h];       st.global.u64 [p+224], z;\n"
                   "  ld.param.u64 z, [h+120];   st.global.u64 [p+232], z;\n"
                   "  ld.param.u16 x, [i];       st.global.u16 [p+256], x;\n"
                   "  ret;\n"
                   "}\n";

struct packed { /* as the ABI lays the parameters out */
    CUdeviceptr out;
    unsigned char a;
    unsigned short b;
    unsigned char c;
    unsigned d;
    double e;
    _Alignas(16) unsigned char f[20];
    unsigned char g;
    _Alignas(64) unsigned char h[128];
    unsigned short i;
};

static struct packed sample(CUdeviceptr out)
{
    struct packed p = {.out = out,
                       .a = 0xa1,
                       .b = 0xb1b2,
                       .c = 0xc1,
                       .d = 0xd1d2d3d4,
                       .e = 1.5,
                       .g = 0x91,
                       .i = 0x1234};
    for (int n = 0; n < 20; n++)
        p.f[n] = (unsigned char)(n + 1);
    for (int n = 0; n < 128; n++)
        p.h[n] = (unsigned char)(n + 100);
    return p;
}

static void check_sample(CUdeviceptr out)
{
    unsigned char got[288];
    const struct packed p = sample(out);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(got, out, sizeof got), CUDA_SUCCESS);
    CHECK_EQ(got[0], p.a);
    CHECK(memcmp(got + 32, &p.b, 2) == 0);
    CHECK_EQ(got[64], p.c);
    CHECK(memcmp(got + 96, &p.d, 4) == 0);
    CHECK(memcmp(got + 128, &p.e, 8) == 0);
    CHECK(memcmp(got + 160, p.f, 4) == 0);
    CHECK(memcmp(got + 164, p.f + 16, 4) == 0);
    CHECK_EQ(got[192], p.g);
    CHECK(memcmp(got + 224, p.h, 8) == 0);
    CHECK(memcmp(got + 232, p.h + 120, 8) == 0);
    CHECK(memcmp(got + 256, &p.i, 2) == 0);
}

TEST(parameters_of_all_sizes)
{
    api_start();
    CUfunction f = load_function(all_sizes, "k");
    CUdeviceptr out = device_memory(288);
    struct packed p = sample(out);
    void *params[] = {&p.out, &p.a, &p.b, &p.c, &p.d, &p.e, p.f, &p.g, p.h, &p.i};
    CHECK_EQ(launch(f, 1, 1, params), CUDA_SUCCESS);
    check_sample(out);
    params[3] = NULL;
    CHECK_EQ(launch(f, 1, 1, params), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(launch(f, 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(parameters_in_one_buffer)
{
    api_start();
    CUfunction f = load_function(all_sizes, "k");
    CUdeviceptr out = device_memory(288);
    struct packed p = sample(out);
    size_t bytes = sizeof p; /* with the padding at the end */
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
             CUDA_SUCCESS);
    check_sample(out);
    bytes = offsetof(struct packed, i); /* too short */
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
             CUDA_ERROR_INVALID_VALUE);
    bytes = sizeof p;
    void *params[] = {&p};
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
             CUDA_ERROR_INVALID_VALUE);
    extra[2] = (void *)(uintptr_t)9;
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
             CUDA_ERROR_INVALID_VALUE);
}

/* ---- grids */

/* out[global thread] = global thread + add */
static const char index_kernel[] =
    HEAD("sm_90") ".visible .entry k(.param .u64 out, .param .u32 add)\n"
                  "{\n"
                  "  .reg .u64 p, o;  .reg .u32 t, c, n, v;\n"
                  "  ld.param.u64 p, [out];\n"
                  "  ld.param.u32 v, [add];\n"
                  "  mov.u32 t, %tid.x;  mov.u32 c, %ctaid.x;  mov.u32 n, %ntid.x;\n"
                  "  mad.lo.u32 t, c, n, t;\n"
                  "  mul.wide.u32 o, t, 4;\n"
                  "  add.u64 p, p, o;\n"
                  "  add.u32 v, v, t;\n"
                  "  st.global.u32 [p], v;\n"
                  "  ret;\n"
                  "}\n";

static void check_indices(CUdeviceptr out, unsigned count, unsigned add)
{
    unsigned *got = malloc(count * sizeof *got);
    CHECK(got);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(got, out, count * sizeof *got), CUDA_SUCCESS);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(got[i], i + add);
    free(got);
}

TEST(grid_of_blocks)
{
    unsigned add = 7;
    api_start();
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(1000 * 4);
    void *params[] = {&out, &add};
    CHECK_EQ(launch(f, 10, 100, params), CUDA_SUCCESS);
    check_indices(out, 1000, 7);
}

TEST(kernel_of_a_library)
{
    unsigned add = 3;
    CUlibrary l;
    CUkernel k;
    api_start();
    CHECK_EQ(cu.cuLibraryLoadData_(&l, index_kernel, NULL, NULL, 0, NULL, NULL, 0),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLibraryGetKernel_(&k, l, "k"), CUDA_SUCCESS);
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out, &add};
    /* A kernel may be given where a function is asked for. */
    CHECK_EQ(launch((CUfunction)(void *)k, 2, 32, params), CUDA_SUCCESS);
    check_indices(out, 64, 3);
    CHECK_EQ(cu.cuLibraryUnload_(l), CUDA_SUCCESS);
    CHECK_EQ(launch((CUfunction)(void *)k, 2, 32, params), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- where dynamic shared memory starts */

/* Its address in the window, with 40 bytes of static shared memory or none. */
static unsigned start_of_dynamic(unsigned align, bool has_static)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        HEAD("sm_100a") ".extern .shared .align %u .b8 sm[];\n"
                        ".visible .entry k(.param .u64 out)\n"
                        "{\n"
                        "  .reg .u64 o; .reg .u32 a; .shared .align 4 .b8 own[40];\n"
                        "  ld.param.u64 o, [out]; %s mov.u32 a, sm; st.global.u32 [o], "
                        "a;\n"
                        "  ret;\n"
                        "}\n",
        align, has_static ? "mov.u32 a, own;" : "");
    CUfunction f = load_function(text, "k");
    CUdeviceptr out = device_memory(4);
    void *params[] = {&out};
    CHECK_EQ(launch(f, 1, 32, params), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    unsigned start = 0;
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&start, out, sizeof start), CUDA_SUCCESS);
    return start;
}

TEST(dynamic_shared_memory_is_aligned_to_1024)
{
    api_start();
    CHECK_EQ(start_of_dynamic(16, false), 1024);
    CHECK_EQ(start_of_dynamic(16, true), 2048);
    CHECK_EQ(start_of_dynamic(1024, true), 2048);
}

TEST(dynamic_shared_memory_is_aligned_as_declared)
{
    setenv("FP4EMU_SMEM", "declared", 1);
    api_start();
    CHECK_EQ(start_of_dynamic(4, false), 1040);
    CHECK_EQ(start_of_dynamic(16, false), 1040);
    CHECK_EQ(start_of_dynamic(128, false), 1152);
    CHECK_EQ(start_of_dynamic(1024, false), 1024);
    CHECK_EQ(start_of_dynamic(16, true), 1072);
    CHECK_EQ(start_of_dynamic(1024, true), 3072);
}

TEST(limits_of_launches)
{
    unsigned add = 0;
    api_start();
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(4096);
    void *params[] = {&out, &add};
    static const unsigned bad[][7] = {
        {0, 1, 1, 1, 1, 1, 0},     {1, 0, 1, 1, 1, 1, 0},
        {1, 1, 1, 0, 1, 1, 0},     {1, 65536, 1, 1, 1, 1, 0},
        {1, 1, 65536, 1, 1, 1, 0}, {0x80000000u, 1, 1, 1, 1, 1, 0},
        {1, 1, 1, 1025, 1, 1, 0},  {1, 1, 1, 1, 1, 65, 0},
        {1, 1, 1, 32, 32, 2, 0},   {1, 1, 1, 1, 1, 1, 48 * 1024 + 1},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_EQ(cu.cuLaunchKernel_(f, bad[i][0], bad[i][1], bad[i][2], bad[i][3],
                                    bad[i][4], bad[i][5], bad[i][6], NULL, params,
                                    NULL),
                 CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 1024, 1, 1, 48 * 1024, NULL, params, NULL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuFuncSetAttribute_(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    232448),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 32, 1, 1, 232448, NULL, params, NULL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 32, 1, 1, 232449, NULL, params, NULL),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(launch(NULL, 1, 1, params), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(launch((CUfunction)(void *)&add, 1, 1, params), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
}

TEST(limits_that_the_ptx_states)
{
    api_start();
    CUfunction f = load_function(
        HEAD("sm_100") ".visible .entry k()\n.reqntid 32, 2\n{\n  ret;\n}\n", "k");
    CHECK_EQ(launch(f, 1, 64, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuLaunchKernel_(f, 1, 1, 1, 32, 2, 1, 0, NULL, NULL, NULL),
             CUDA_SUCCESS);
    f = load_function(HEAD("sm_100") ".visible .entry k()\n.maxntid 64\n{\n  ret;\n}\n",
                      "k");
    CHECK_EQ(launch(f, 1, 64, NULL), CUDA_SUCCESS);
    CHECK_EQ(launch(f, 1, 65, NULL), CUDA_ERROR_INVALID_VALUE);
    f = load_function(
        HEAD("sm_100") ".visible .entry k()\n.maxnreg 128\n{\n  ret;\n}\n", "k");
    CHECK_EQ(launch(f, 1, 512, NULL), CUDA_SUCCESS);
    CHECK_EQ(launch(f, 1, 544, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

/* ---- attributes of launches */

static CUresult launch_ex(CUfunction f, unsigned grid, void **params,
                          CUlaunchAttribute *attributes, unsigned count)
{
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = attributes,
                             .numAttrs = count};
    return cu.cuLaunchKernelEx_(&config, f, params, NULL);
}

static CUlaunchAttribute cluster_of(unsigned x, unsigned y, unsigned z)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    a.value.clusterDim.x = x;
    a.value.clusterDim.y = y;
    a.value.clusterDim.z = z;
    return a;
}

/* out[cta] = its rank in the cluster + 100 * CTAs of the cluster */
static const char cluster_kernel[] =
    HEAD("sm_90") ".visible .entry k(.param .u64 out)%s\n"
                  "{\n"
                  "  .reg .u64 p, o;  .reg .u32 c, r, n;\n"
                  "  ld.param.u64 p, [out];\n"
                  "  mov.u32 c, %%ctaid.x;\n"
                  "  mul.wide.u32 o, c, 4;\n"
                  "  add.u64 p, p, o;\n"
                  "  mov.u32 r, %%cluster_ctarank;  mov.u32 n, %%cluster_nctarank;\n"
                  "  mad.lo.u32 r, n, 100, r;\n"
                  "  st.global.u32 [p], r;\n"
                  "  ret;\n"
                  "}\n";

static CUfunction load_cluster_kernel(const char *directives)
{
    char text[1024];
    snprintf(text, sizeof text, cluster_kernel, directives);
    return load_function(text, "k");
}

static void check_ranks(CUdeviceptr out, unsigned grid, unsigned size)
{
    unsigned got[64];
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(got, out, grid * 4), CUDA_SUCCESS);
    for (unsigned i = 0; i < grid; i++)
        CHECK_EQ(got[i], i % size + 100 * size);
}

TEST(clusters_by_attribute)
{
    api_start();
    CUfunction f = load_cluster_kernel("");
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out};
    CUlaunchAttribute a = cluster_of(4, 1, 1);
    CHECK_EQ(launch_ex(f, 8, params, &a, 1), CUDA_SUCCESS);
    check_ranks(out, 8, 4);
    CHECK_EQ(launch_ex(f, 8, params, NULL, 0), CUDA_SUCCESS);
    check_ranks(out, 8, 1);
    CHECK_EQ(launch_ex(f, 6, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    a = cluster_of(2, 2, 1);
    CHECK_EQ(launch_ex(f, 8, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    a = cluster_of(0, 1, 1);
    CHECK_EQ(launch_ex(f, 8, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    a = cluster_of(16, 1, 1);
    CHECK_EQ(launch_ex(f, 32, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CHECK_EQ(cu.cuFuncSetAttribute_(
                 f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
             CUDA_SUCCESS);
    CHECK_EQ(launch_ex(f, 32, params, &a, 1), CUDA_SUCCESS);
    check_ranks(out, 32, 16);
    a = cluster_of(32, 1, 1);
    CHECK_EQ(launch_ex(f, 32, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST(clusters_by_directive)
{
    int width = 0;
    api_start();
    CUfunction f =
        load_cluster_kernel("\n.explicitcluster\n.reqnctapercluster 2, 1, 1");
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out};
    CHECK_EQ(
        cu.cuFuncGetAttribute_(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, f),
        CUDA_SUCCESS);
    CHECK_EQ(width, 2);
    CHECK_EQ(launch(f, 8, 1, params), CUDA_SUCCESS);
    check_ranks(out, 8, 2);
    CUlaunchAttribute a = cluster_of(4, 1, 1);
    CHECK_EQ(launch_ex(f, 8, params, &a, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CHECK_EQ(cu.cuFuncSetAttribute_(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4),
             CUDA_ERROR_NOT_PERMITTED);
    f = load_cluster_kernel("\n.explicitcluster");
    CHECK_EQ(launch(f, 8, 1, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    a = cluster_of(2, 1, 1);
    CHECK_EQ(launch_ex(f, 8, params, &a, 1), CUDA_SUCCESS);
}

TEST(attributes_are_known_or_refused)
{
    api_start();
    CUfunction f = load_cluster_kernel("");
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out};
    static const CUlaunchAttributeID fine[] = {
        CU_LAUNCH_ATTRIBUTE_IGNORE,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE};
    CUlaunchAttribute a;
    memset(&a, 0, sizeof a);
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        a.id = fine[i];
        CHECK_EQ(launch_ex(f, 4, params, &a, 1), CUDA_SUCCESS);
    }
    a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    CHECK_EQ(launch_ex(f, 4, params, &a, 1), CUDA_ERROR_NOT_SUPPORTED);
    a.id = (CUlaunchAttributeID)500;
    CHECK_EQ(launch_ex(f, 4, params, &a, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(launch_ex(f, 4, params, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuLaunchKernelEx_(NULL, f, params, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(cooperative_launches)
{
    unsigned add = 1;
    api_start();
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out, &add};
    CHECK_EQ(cu.cuLaunchCooperativeKernel_(f, 2, 1, 1, 32, 1, 1, 0, NULL, params),
             CUDA_SUCCESS);
    check_indices(out, 64, 1);
    CHECK_EQ(cu.cuLaunchCooperativeKernel_(f, 10000, 1, 1, 1024, 1, 1, 0, NULL, params),
             CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST(kernels_use_the_variables_of_their_module)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr counter;
    unsigned value;
    api_start();
    CHECK_EQ(cu.cuModuleLoadData_(&m,
                                  HEAD("sm_100") ".visible .global .u32 counter = 40;\n"
                                                 ".const .u32 step = 2;\n"
                                                 ".visible .entry k()\n{\n"
                                                 "  .reg .u32 a, b;\n"
                                                 "  ld.global.u32 a, [counter];\n"
                                                 "  ld.const.u32 b, [step];\n"
                                                 "  add.u32 a, a, b;\n"
                                                 "  st.global.u32 [counter], a;\n"
                                                 "  ret;\n}\n"),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&f, m, "k"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetGlobal_v2_(&counter, NULL, m, "counter"), CUDA_SUCCESS);
    CHECK_EQ(launch(f, 1, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(launch(f, 1, 1, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&value, counter, 4), CUDA_SUCCESS);
    CHECK_EQ(value, 44);
}

/* ---- errors of kernels */

static const char store_kernel[] =
    HEAD("sm_100") ".visible .entry store_it(.param .u64 out)\n"
                   "{\n"
                   "  .reg .u64 p;\n"
                   "  ld.param.u64 p, [out];\n"
                   "  st.global.u32 [p], 1;\n"
                   "  ret;\n"
                   "}\n";

static int count_of(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

TEST(error_is_sticky_until_the_context_goes)
{
    const char *report = test_tmp_path("report");
    setenv("FP4EMU_QUIET", "1", 1);
    CUcontext c, other;
    CUdeviceptr q;
    CUmodule m;
    CUstream s;
    CUevent e;
    setenv("FP4EMU_REPORT", report, 1);
    api_start();
    CHECK_EQ(cu.cuCtxCreate_v2_(&c, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&e, 0), CUDA_SUCCESS);
    CUfunction f = load_function(store_kernel, "store_it");
    CUdeviceptr p = device_memory(64);
    CHECK_EQ(launch_at(f, p + 60), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    CHECK_STR(file_text(report), "");

    CHECK_EQ(launch_at(f, p + 64), CUDA_SUCCESS); /* asynchronous: told later */
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuStreamSynchronize_(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuEventQuery_(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(launch_at(f, p), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuMemAlloc_v2_(&q, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuModuleLoadData_(&m, store_kernel), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuStreamCreate_(&s, 0), CUDA_ERROR_ILLEGAL_ADDRESS);

    /* One report, which names kernel, line, block, and what was wrong. */
    const char *text = file_text(report);
    CHECK_EQ(count_of(text, "store_it"), 1);
    CHECK(strstr(text, "\"line\":8,"));
    CHECK(strstr(text, "st.global.u32"));
    CHECK(strstr(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    CHECK(strstr(text, "FP4EMU_SEED="));

    /* Other contexts do not notice, and the end of this one ends it. */
    CHECK_EQ(cu.cuCtxCreate_v2_(&other, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    f = load_function(store_kernel, "store_it");
    p = device_memory(64);
    CHECK_EQ(launch_at(f, p), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxDestroy_v2_(other), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuCtxDestroy_v2_(c), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS); /* the primary one again */
    CHECK_EQ(count_of(file_text(report), "CUDA_ERROR_"), 1);
}

TEST(reset_heals_the_primary_context)
{
    setenv("FP4EMU_QUIET", "1", 1);
    CUcontext c = api_start();
    CUfunction f = load_function(store_kernel, "store_it");
    CHECK_EQ(launch_at(f, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxReset_v2_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain_(&c, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    CHECK_EQ(launch_at(f, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST(launch_blocking_tells_at_once)
{
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    api_start();
    CUfunction f = load_function(store_kernel, "store_it");
    CHECK_EQ(launch_at(f, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Freed memory, another context's memory after its end, a constant, a parameter. */
TEST(memory_that_is_not_there)
{
    CUdeviceptr p;
    char text[4096];
    size_t (*report)(char *, size_t);
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    api_start();
    API_EXTENSION(report, "fp4emu_last_report");
    CUfunction f = load_function(store_kernel, "store_it");
    p = device_memory(64);
    CHECK_EQ(report(text, sizeof text), 0);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_SUCCESS);
    CHECK_EQ(launch_at(f, p), CUDA_ERROR_ILLEGAL_ADDRESS);
    size_t bytes = report(text, sizeof text);
    CHECK_EQ(bytes, strlen(text));
    CHECK(strstr(text, "freed"));
    CHECK(report(text, 10) > 10);
    CHECK_EQ(strlen(text), 9);
}

TEST(misaligned_address)
{
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CUfunction f = load_function(store_kernel, "store_it");
    CHECK_EQ(launch_at(f, device_memory(64) + 2), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_MISALIGNED_ADDRESS);
}

static CUresult result_of(const char *ptx)
{
    CUfunction f = load_function(ptx, "k");
    CHECK_EQ(launch(f, 1, 1, NULL), CUDA_SUCCESS);
    return cu.cuCtxSynchronize_();
}

TEST(deadlock_is_a_timeout)
{
    const char *report = test_tmp_path("report");
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("FP4EMU_REPORT", report, 1);
    api_start();
    CHECK_EQ(result_of(HEAD("sm_90") ".visible .entry k()\n{\n"
                                     "  .shared .align 8 .b64 bar;\n"
                                     "  .reg .pred p;\n"
                                     "  mbarrier.init.shared::cta.b64 [bar], 1;\n"
                                     "WAIT:\n"
                                     "  mbarrier.try_wait.parity.shared::cta.b64 p, "
                                     "[bar], 0;\n"
                                     "  @!p bra WAIT;\n"
                                     "  ret;\n}\n"),
             CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(strstr(file_text(report), "try_wait"));
}

/* docs/emulator-checks.md, "Reports as JSON". */
TEST(reports_as_json_name_both_parties)
{
    static const char race[] =
        HEAD("sm_90") ".visible .entry k() .reqnctapercluster 2\n{\n"
                      "  .reg .pred p, q;\n"
                      "  .reg .b32 r, t, v;\n"
                      "  .shared .align 4 .b32 word;\n"
                      "  mov.u32 r, %cluster_ctarank;\n"
                      "  mov.u32 t, %tid.x;\n"
                      "  setp.eq.u32 p, r, 0;\n"
                      "  @p ret;\n"
                      "  setp.eq.u32 q, t, 3;\n"
                      "  @q st.shared.b32 [word], t;\n"
                      "  ld.shared.b32 v, [word];\n"
                      "  ret;\n}\n";
    const char *report = test_tmp_path("report"), *path = test_tmp_path("race.ptx");
    CUmodule m;
    CUfunction f;
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("FP4EMU_REPORT", report, 1);
    api_start();
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(race, file) >= 0 && fclose(file) == 0);
    CHECK_EQ(cu.cuModuleLoad_(&m, path), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&f, m, "k"), CUDA_SUCCESS);
    CHECK_EQ(launch(f, 2, 32, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_LAUNCH_FAILED);
    const char *text = file_text(report);
    CHECK(strstr(text, "\"check\":36,"));
    CHECK(strstr(text, "/race.ptx\",\"line\":15,\"opcode\":\"ld.shared.b32\","
                       "\"block\":[1,0,0],\"rank\":1,\"warp\":0,\"lanes\":\"0x1\""));
    CHECK(strstr(text, "\"others\":[{\"role\":\"the earlier one\",\"line\":14,"
                       "\"opcode\":\"st.shared.b32\",\"block\":[1,0,0],\"rank\":1,"
                       "\"warp\":0,\"lanes\":\"0x8\"}]"));
}

/* "level" says what stderr says, of remarks too. */
TEST(reports_as_json_know_errors_and_warnings)
{
    const char *report = test_tmp_path("report");
    char map[128] = {0};
    void *params[] = {map};
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("FP4EMU_REPORT", report, 1);
    setenv("FP4EMU_CHECK", "all", 1);
    api_start();
    CUfunction f = load_function(HEAD("sm_90") ".visible .entry k(.param .align 64 .b8 "
                                               "map[128])\n{\n  ret;\n}\n",
                                 "k");
    CHECK_EQ(launch(f, 1, 1, params), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    CHECK(strstr(file_text(report), "\"check\":41,"));
    CHECK(strstr(file_text(report), "\"level\":\"warning\""));
}

TEST(trap_is_a_failure)
{
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CHECK_EQ(result_of(HEAD("sm_90") ".visible .entry k()\n{\n  trap;\n  ret;\n}\n"),
             CUDA_ERROR_LAUNCH_FAILED);
}

/* Nothing on stderr but the report, and that only if it is wanted there. */
static long bytes_on_stderr(bool quiet)
{
    const char *path = test_tmp_path(quiet ? "quiet" : "loud");
    fflush(NULL);
    int saved = dup(STDERR_FILENO);
    FILE *f = fopen(path, "w");
    CHECK(f && saved >= 0);
    dup2(fileno(f), STDERR_FILENO);
    if (quiet)
        setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CUfunction k = load_function(store_kernel, "store_it");
    CUresult r = launch_at(k, 0);
    CUresult later = cu.cuCtxSynchronize_();
    fflush(NULL);
    dup2(saved, STDERR_FILENO);
    fclose(f);
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_EQ(later, CUDA_ERROR_ILLEGAL_ADDRESS);
    return (long)strlen(file_text(path));
}

TEST(report_goes_to_stderr)
{
    CHECK(bytes_on_stderr(false) > 0);
}

TEST(quiet_is_quiet)
{
    CHECK_EQ(bytes_on_stderr(true), 0);
}

TEST(a_label_that_is_not_there_is_told_once)
{
    const char *path = test_tmp_path("label");
    int saved = dup(STDERR_FILENO);
    FILE *f = fopen(path, "w");
    CHECK(f && saved >= 0);
    setenv("FP4EMU_STRATEGY", "starve:LODER", 1);
    api_start();
    CUfunction k = load_function(HEAD("sm_100") ".visible .entry k()\n{\n"
                                                "  .reg .pred p;\n"
                                                "  setp.eq.u32 p, 0, 0;\n"
                                                "  @p bra LOADER;\n"
                                                "  @p bra LOADER;\n"
                                                "  @p bra END;\n"
                                                "LOADER:\nEND:\n  ret;\n}\n",
                                 "k");
    fflush(NULL);
    dup2(fileno(f), STDERR_FILENO);
    CUresult r = launch(k, 1, 32, NULL), again = launch(k, 1, 32, NULL);
    fflush(NULL);
    dup2(saved, STDERR_FILENO);
    fclose(f);
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_EQ(again, CUDA_SUCCESS);
    CHECK_STR(file_text(path),
              "FP4EMU_STRATEGY=starve:LODER: nobody is held back, as kernel k has no "
              "branch to such a label; its module has LOADER, END\n");
}

/* ---- captures and graphs */

TEST(captured_work_runs_when_its_graph_does)
{
    CUstream s, branch;
    CUevent fork_event, join_event;
    CUgraph g;
    CUgraphExec e;
    CUstreamCaptureStatus status;
    unsigned add = 5, host[64], words[4];
    size_t count = 0;
    api_start();
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(64 * 4), side = device_memory(16);
    void *params[] = {&out, &add};
    CHECK_EQ(cu.cuStreamCreate_(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate_(&branch, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&fork_event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&join_event, 0), CUDA_SUCCESS);

    CHECK_EQ(cu.cuStreamBeginCapture_v2_(s, CU_STREAM_CAPTURE_MODE_RELAXED),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuLaunchKernel_(f, 2, 1, 1, 32, 1, 1, 0, s, params, NULL),
             CUDA_SUCCESS);
    add = 99; /* parameters are taken at capture */
    CHECK_EQ(cu.cuEventRecord_(fork_event, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitEvent_(branch, fork_event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamIsCapturing_(branch, &status), CUDA_SUCCESS);
    CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQ(cu.cuMemsetD32Async_(side, 0x55, 4, branch), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventRecord_(join_event, branch), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitEvent_(s, join_event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoHAsync_v2_(host, out, sizeof host, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamEndCapture_(s, &g), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamIsCapturing_(branch, &status), CUDA_SUCCESS);
    CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);

    CHECK_EQ(cu.cuGraphGetNodes_(g, NULL, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 3);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(words, side, 16), CUDA_SUCCESS);
    CHECK_EQ(words[0], 0xffffffff); /* nothing has happened yet */
    CHECK_EQ(cu.cuGraphInstantiateWithFlags_(&e, g, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphDestroy_(g), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        memset(host, 0, sizeof host);
        CHECK_EQ(cu.cuMemsetD8_v2_(out, 0, 256), CUDA_SUCCESS);
        CHECK_EQ(cu.cuGraphLaunch_(e, s), CUDA_SUCCESS);
        CHECK_EQ(cu.cuStreamSynchronize_(s), CUDA_SUCCESS);
        CHECK_EQ(host[63], 68);
        CHECK_EQ(cu.cuMemcpyDtoH_v2_(words, side, 16), CUDA_SUCCESS);
        CHECK_EQ(words[3], 0x55);
    }
    CHECK_EQ(cu.cuGraphExecDestroy_(e), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphExecDestroy_(e), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuGraphLaunch_(e, s), CUDA_ERROR_INVALID_HANDLE);
}

TEST(captures_that_go_wrong)
{
    CUstream s, branch;
    CUevent event;
    CUgraph g = NULL;
    api_start();
    CUdeviceptr p = device_memory(16);
    CHECK_EQ(cu.cuStreamCreate_(&s, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate_(&branch, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamBeginCapture_v2_(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cu.cuStreamEndCapture_(s, &g), CUDA_ERROR_ILLEGAL_STATE);

    /* A wait inside: the capture is lost. */
    CHECK_EQ(cu.cuStreamBeginCapture_v2_(s, CU_STREAM_CAPTURE_MODE_GLOBAL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamBeginCapture_v2_(s, CU_STREAM_CAPTURE_MODE_GLOBAL),
             CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(cu.cuStreamSynchronize_(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cu.cuMemsetD32Async_(p, 0, 1, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(cu.cuStreamEndCapture_(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(g == NULL);

    /* A branch that does not come back. */
    CHECK_EQ(cu.cuStreamBeginCapture_v2_(s, CU_STREAM_CAPTURE_MODE_GLOBAL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventRecord_(event, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventQuery_(event), CUDA_ERROR_CAPTURED_EVENT);
    CHECK_EQ(cu.cuStreamWaitEvent_(branch, event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD32Async_(p, 0, 1, branch), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamEndCapture_(branch, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK_EQ(cu.cuStreamEndCapture_(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(g == NULL);
    CHECK_EQ(cu.cuStreamSynchronize_(branch), CUDA_SUCCESS);

    /* A stream that goes in the middle takes the capture with it. */
    CHECK_EQ(cu.cuStreamBeginCapture_v2_(s, CU_STREAM_CAPTURE_MODE_GLOBAL),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD32Async_(p, 0, 1, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventRecord_(event, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitEvent_(branch, event, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamDestroy_v2_(s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamSynchronize_(branch), CUDA_SUCCESS);
}

static void add_one(void *p)
{
    ++*(int *)p;
}

TEST(graphs_by_hand)
{
    CUgraph g;
    CUgraphExec e;
    CUgraphNode fill, copy, kernel, host, empty, nodes[8];
    CUgraphNodeType type;
    CUcontext c = api_start();
    int calls = 0;
    unsigned add = 2, got[32] = {0};
    size_t count = 8;
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(128);
    void *params[] = {&out, &add};
    CHECK_EQ(cu.cuGraphCreate_(&g, 0), CUDA_SUCCESS);
    CUDA_MEMSET_NODE_PARAMS fill_params = {
        .dst = out, .value = 9, .elementSize = 4, .width = 32, .height = 1};
    CHECK_EQ(cu.cuGraphAddMemsetNode_(&fill, g, NULL, 0, &fill_params, c),
             CUDA_SUCCESS);
    CUDA_KERNEL_NODE_PARAMS kernel_params = {.func = f,
                                             .gridDimX = 1,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 16,
                                             .blockDimY = 1,
                                             .blockDimZ = 1,
                                             .kernelParams = params};
    CHECK_EQ(cu.cuGraphAddKernelNode_v2_(&kernel, g, &fill, 1, &kernel_params),
             CUDA_SUCCESS);
    CUDA_MEMCPY3D copy_params = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = out,
                                 .dstMemoryType = CU_MEMORYTYPE_HOST,
                                 .dstHost = got,
                                 .WidthInBytes = 128,
                                 .Height = 1,
                                 .Depth = 1};
    CHECK_EQ(cu.cuGraphAddMemcpyNode_(&copy, g, &kernel, 1, &copy_params, c),
             CUDA_SUCCESS);
    CUDA_HOST_NODE_PARAMS host_params = {.fn = add_one, .userData = &calls};
    CHECK_EQ(cu.cuGraphAddHostNode_(&host, g, &copy, 1, &host_params), CUDA_SUCCESS);
    CUgraphNode both[] = {host, copy};
    CHECK_EQ(cu.cuGraphAddEmptyNode_(&empty, g, both, 2), CUDA_SUCCESS);
    CUgraphNode bad = (CUgraphNode)(void *)&calls;
    CHECK_EQ(cu.cuGraphAddEmptyNode_(&empty, g, &bad, 1), CUDA_ERROR_INVALID_VALUE);
    kernel_params.blockDimX = 2000;
    CHECK_EQ(cu.cuGraphAddKernelNode_v2_(&empty, g, NULL, 0, &kernel_params),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuGraphGetNodes_(g, nodes, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 5);
    CHECK(nodes[0] == fill && nodes[3] == host && nodes[5] == NULL);
    CHECK_EQ(cu.cuGraphNodeGetType_(nodes[2], &type), CUDA_SUCCESS);
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    CHECK_EQ(cu.cuGraphInstantiateWithFlags_(&e, g, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphLaunch_(e, NULL), CUDA_SUCCESS);
    CHECK_EQ(calls, 1);
    CHECK_EQ(got[15], 17);
    CHECK_EQ(got[16], 9);
    /* What a node uses may have gone when the graph is launched. */
    CHECK_EQ(cu.cuMemFree_v2_(out), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphLaunch_(e, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(calls, 1);
    CHECK_EQ(cu.cuGraphExecDestroy_(e), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphDestroy_(g), CUDA_SUCCESS);
    CHECK_EQ(cu.cuGraphDestroy_(g), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- several threads */

static void *launch_often(void *arg)
{
    CUcontext c;
    int *failures = arg;
    unsigned add = 0, got[64];
    CUdeviceptr out;
    *failures += cu.cuCtxCreate_v2_(&c, 0, 0) != CUDA_SUCCESS;
    CUfunction f = load_function(index_kernel, "k");
    *failures += cu.cuMemAlloc_v2_(&out, sizeof got) != CUDA_SUCCESS;
    for (add = 0; add < 20; add++) {
        void *params[] = {&out, &add};
        *failures += launch(f, 2, 32, params) != CUDA_SUCCESS;
        *failures += cu.cuMemcpyDtoH_v2_(got, out, sizeof got) != CUDA_SUCCESS;
        *failures += got[0] != add || got[63] != add + 63;
    }
    *failures += cu.cuCtxDestroy_v2_(c) != CUDA_SUCCESS;
    return NULL;
}

TEST(launches_from_several_threads)
{
    pthread_t threads[4];
    int failures[4] = {0};
    api_start();
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, launch_often, &failures[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(failures[i], 0);
    }
}

/* ---- extensions */

static unsigned long long last_done, last_total;
static int progress_calls;

static void note_progress(void *arg, unsigned long long done, unsigned long long total)
{
    *(int *)arg = 1;
    progress_calls++;
    last_done = done;
    last_total = total;
}

TEST(statistics_and_progress)
{
    struct fp4emu_stats s;
    unsigned add = 0;
    int told = 0;
    int (*version)(void);
    void (*get_stats)(struct fp4emu_stats *);
    void (*set_progress)(fp4emu_progress_fn *, void *);
    api_start();
    API_EXTENSION(version, "fp4emu_version");
    API_EXTENSION(get_stats, "fp4emu_get_stats");
    API_EXTENSION(set_progress, "fp4emu_set_progress");
    CHECK_EQ(version(), FP4EMU_VERSION);
    get_stats(&s);
    CHECK_EQ(s.launches, 0);
    CUfunction f = load_function(index_kernel, "k");
    CUdeviceptr out = device_memory(64 * 4);
    void *params[] = {&out, &add};
    set_progress(note_progress, &told);
    CHECK_EQ(launch(f, 2, 32, params), CUDA_SUCCESS);
    CHECK_EQ(told, 1);
    CHECK(progress_calls >= 1);
    CHECK_EQ(last_done, 2);
    CHECK_EQ(last_total, 2);
    get_stats(&s);
    CHECK_EQ(s.launches, 1);
    CHECK_EQ(s.ctas, 2);
    CHECK_EQ(s.ctas_done, 2);
    CHECK_EQ(s.running, 0);
    CHECK(s.seconds > 0.0);
    CHECK_EQ(s.warp_instructions, 2 * 11);
    set_progress(NULL, NULL);
    progress_calls = 0;
    CHECK_EQ(launch(f, 2, 32, params), CUDA_SUCCESS);
    CHECK_EQ(progress_calls, 0);
}

TEST(seed_and_strategy_show_in_the_report)
{
    char text[4096];
    void (*set_seed)(unsigned long long);
    int (*set_strategy)(const char *);
    size_t (*report)(char *, size_t);
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    API_EXTENSION(set_seed, "fp4emu_set_seed");
    API_EXTENSION(set_strategy, "fp4emu_set_strategy");
    API_EXTENSION(report, "fp4emu_last_report");
    set_seed(12345);
    CHECK_EQ(set_strategy("lazy"), 1);
    CHECK_EQ(set_strategy("slow"), 0);
    CHECK_EQ(set_strategy(NULL), 0);
    CUfunction f = load_function(store_kernel, "store_it");
    CHECK_EQ(launch_at(f, 0), CUDA_SUCCESS);
    CHECK(report(text, sizeof text) > 0);
    CHECK(strstr(text, "FP4EMU_STRATEGY=lazy FP4EMU_SEED=12345"));
}
