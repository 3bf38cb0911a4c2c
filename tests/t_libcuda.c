/* The emulator's libcuda.so.1: what it exports, which ABI version a caller gets, the
 * environment, the device, contexts, threads. */
#include "tests/libcuda_api.h"

#include <pthread.h>
#include <sys/wait.h>

/* ---- names */

struct row {
    const char *exported, *asked;
    int version;
    const char *stream, *who;
};

static const struct row rows[] = {
#define DRIVER(exported, asked, version, stream, who)                                  \
    {#exported, #asked, version, #stream, #who},
#include "core/driver.def"
#undef DRIVER
};

static bool is_expected(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        size_t bytes = strlen(r->exported);
        if (strcmp(name, r->exported) == 0 || strcmp(name, r->asked) == 0)
            return true;
        if (strncmp(name, r->exported, bytes) == 0 &&
            ((strcmp(name + bytes, "_ptds") == 0 && strcmp(r->stream, "PTDS") == 0) ||
             (strcmp(name + bytes, "_ptsz") == 0 && strcmp(r->stream, "PTSZ") == 0)))
            return true;
    }
    return false;
}

TEST(exports_are_the_rows_of_driver_def)
{
    char name[256];
    api_open();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        libcuda_symbol(rows[i].exported);
        libcuda_symbol(rows[i].asked);
        if (strcmp(rows[i].stream, "NONE") != 0) {
            snprintf(name, sizeof name, "%s_%s", rows[i].exported,
                     strcmp(rows[i].stream, "PTDS") == 0 ? "ptds" : "ptsz");
            libcuda_symbol(name);
        }
    }
}

TEST(nothing_else_is_exported)
{
    char command[5000], line[512], name[256], type;
    int seen = 0;
    snprintf(command, sizeof command, "nm -D --defined-only '%s'", libcuda_path());
    FILE *f = popen(command, "r");
    CHECK(f);
    while (fgets(line, sizeof line, f)) {
        CHECK_EQ(sscanf(line, "%*x %c %255s", &type, name), 2);
        name[strcspn(name, "@")] = '\0';
        if (!is_expected(name))
            test_fail(__FILE__, __LINE__, "%s is exported and no row of driver.def",
                      name);
        seen++;
    }
    if (pclose(f) != 0)
        SKIP("no nm here");
    CHECK(seen > (int)COUNT_OF(rows));
}

TEST(soname)
{
    api_open();
    void *again = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(again == cu.library);
}

/* 5.2 of the semantics: the ABI that was current at a version, not the newest. */
TEST(versions_of_entry_points)
{
    static const struct {
        const char *asked;
        int version;
        const char *exported; /* NULL: none */
        CUdriverProcAddressQueryResult status;
    } cases[] = {
        {"cuCtxCreate", 3019, NULL, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
        {"cuCtxCreate", 3020, "cuCtxCreate_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxCreate", 11039, "cuCtxCreate_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxCreate", 11040, "cuCtxCreate_v3", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxCreate", 12049, "cuCtxCreate_v3", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxCreate", 12050, "cuCtxCreate_v4", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxCreate", 99000, "cuCtxCreate_v4", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDeviceGetUuid", 9020, "cuDeviceGetUuid", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDevicePrimaryCtxRelease", 7000, "cuDevicePrimaryCtxRelease",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDevicePrimaryCtxReset", 10020, "cuDevicePrimaryCtxReset",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuDevicePrimaryCtxSetFlags", 11000, "cuDevicePrimaryCtxSetFlags_v2",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuGetProcAddress", 11030, "cuGetProcAddress", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuGetProcAddress", 12000, "cuGetProcAddress_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxGetDevice", 12090, "cuCtxGetDevice", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxSynchronize", 12090, "cuCtxSynchronize", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuCtxSynchronize", 13000, "cuCtxSynchronize_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuGraphAddKernelNode", 11080, "cuGraphAddKernelNode",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuEventElapsedTime", 12079, "cuEventElapsedTime",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2",
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuMemAlloc", 2000, NULL, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
        {"cuMemAlloc", 12000, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
        {"cuTensorMapEncodeTiled", 11080, NULL,
         CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
        {"cuMemAlloc_v2", 12000, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
        {"cuNoSuchCall", 12000, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
        {"", 12000, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
    };
    api_open();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (cuuint64_t flags = 0; flags < 3; flags++) {
            CUdriverProcAddressQueryResult status;
            void *p = &status;
            CHECK_EQ(cu.cuGetProcAddress_v2_(cases[i].asked, &p, cases[i].version,
                                             flags, &status),
                     CUDA_SUCCESS);
            CHECK_EQ(status, cases[i].status);
            CHECK(p == (cases[i].exported ? libcuda_symbol(cases[i].exported) : NULL));
        }
    }
}

TEST(cuGetProcAddress_without_status)
{
    void *p = &p;
    api_open();
    CHECK_EQ(cu.cuGetProcAddress_("cuInit", &p, 12000, 0), CUDA_SUCCESS);
    CHECK(p == libcuda_symbol("cuInit"));
    CHECK_EQ(cu.cuGetProcAddress_("", &p, 12000, 0), CUDA_ERROR_NOT_FOUND);
    CHECK(p == NULL);
    CHECK_EQ(cu.cuGetProcAddress_v2_(NULL, &p, 12000, 0, NULL),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuGetProcAddress_v2_("cuInit", NULL, 12000, 0, NULL),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuGetProcAddress_v2_("cuInit", &p, 12000, 8, NULL),
             CUDA_ERROR_INVALID_VALUE);
}

TEST(refused_entry_points)
{
    PFN_cuTexObjectDestroy_v5000 destroy;
    PFN_cuIpcCloseMemHandle_v4010 close_handle;
    void *p;
    api_start();
    CHECK_EQ(cu.cuGetProcAddress_v2_("cuTexObjectDestroy", &p, 12000, 0, NULL),
             CUDA_SUCCESS);
    memcpy(&destroy, &p, sizeof p);
    CHECK_EQ(destroy(0), CUDA_ERROR_NOT_SUPPORTED);
    p = libcuda_symbol("cuIpcCloseMemHandle");
    memcpy(&close_handle, &p, sizeof p);
    CHECK_EQ(close_handle(0), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu.cuTensorMapEncodeIm2col_(
                 NULL, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, NULL, NULL, NULL, NULL, NULL,
                 1, 1, NULL, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             CUDA_ERROR_NOT_SUPPORTED);
    const void *table;
    CUuuid id = {{0}};
    CHECK_EQ(cu.cuGetExportTable_(&table, &id), CUDA_ERROR_NOT_FOUND);
}

TEST(error_names)
{
    const char *text = "";
    api_open();
    CHECK_EQ(cu.cuGetErrorName_(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
    CHECK_STR(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    CHECK_EQ(cu.cuGetErrorString_(CUDA_ERROR_NO_BINARY_FOR_GPU, &text), CUDA_SUCCESS);
    CHECK(strlen(text) > 10);
    CHECK_EQ(cu.cuGetErrorName_((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    CHECK(text == NULL);
    CHECK_EQ(cu.cuGetErrorString_(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- start and environment */

TEST(nothing_works_before_cuInit)
{
    int n, version = 0;
    CUdeviceptr p;
    api_open();
    CHECK_EQ(cu.cuDeviceGetCount_(&n), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cu.cuMemAlloc_v2_(&p, 1), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cu.cuDriverGetVersion_(&version), CUDA_SUCCESS);
    CHECK_EQ(version, 13020);
    CHECK_EQ(cu.cuInit_(1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuInit_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuInit_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetCount_(&n), CUDA_SUCCESS);
    CHECK_EQ(n, 1);
}

/* cuInit with `name` set to `value` in a process of its own; what it printed. */
static const char *init_output(const char *name, const char *value, int *result)
{
    static char text[4096];
    int pipes[2], status;
    fflush(NULL);
    CHECK_EQ(pipe(pipes), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        setenv(name, value, 1);
        api_open();
        int first = (int)cu.cuInit_(0);
        int second = (int)cu.cuInit_(0); /* says nothing the second time */
        fflush(NULL);
        _exit(first == second ? first : 99);
    }
    close(pipes[1]);
    size_t bytes = 0;
    ssize_t got;
    while ((got = read(pipes[0], text + bytes, sizeof text - 1 - bytes)) > 0)
        bytes += (size_t)got;
    text[bytes] = '\0';
    close(pipes[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    *result = WEXITSTATUS(status);
    return text;
}

TEST(bad_environment_fails_cuInit)
{
    static const char *const cases[][2] = {
        {"FP4EMU_DEVICE", "sm_75"},
        {"FP4EMU_DEVICE", "100"},
        {"FP4EMU_SEED", "12x"},
        {"FP4EMU_SEED", "-1"},
        {"FP4EMU_SEED", " 1"},
        {"FP4EMU_SEED", "18446744073709551616"},
        {"FP4EMU_SEED", "0x"},
        {"FP4EMU_STRATEGY", "Lazy"},
        {"FP4EMU_STRATEGY", "chance"},
        {"FP4EMU_CHECK", "on"},
        {"FP4EMU_CHECK", "default,-21"},
        {"FP4EMU_CHECK", "+77"},
        {"FP4EMU_QUIET", "yes"},
        {"FP4EMU_ISA", "sse"},
        {"FP4EMU_THREADS", "0"},
        {"FP4EMU_THREADS", "257"},
        {"FP4EMU_THREADS", "two"},
        {"FP4EMU_REPORT", "/no/such/directory/x"},
        {"FP4EMU_MMA", "exact"},
        {"FP4EMU_APPROX", "random"},
        {"FP4EMU_CLUSTERS", "0"},
        {"FP4EMU_STRATEGY", "eager:1"},
        {"FP4EMU_STRATEGY", "random:0"},
        {"FP4EMU_STRATEGY", "random:1.5"},
        {"FP4EMU_STRATEGY", "random:0.5x"},
        {"FP4EMU_STRATEGY", "pct:0"},
        {"FP4EMU_STRATEGY", "pct:3:x"},
        {"FP4EMU_STRATEGY", "starve"},
        {"FP4EMU_STRATEGY", "starve:32"},
        {"FP4EMU_STRATEGY", "starve:3-1"},
        {"FP4EMU_STRATEGY", "delay:load"},
        {"FP4EMU_STRATEGY", "delay:mma:0"},
        {"FP4EMU_STRATEGY", "replay"},
        {"FP4EMU_STRATEGY", "replay:/no/no"},
        {"FP4EMU_RECORD", "/no/such/directory/x"},
        {"FP4EMU_STRATGY", "lazy"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int result;
        const char *text = init_output(cases[i][0], cases[i][1], &result);
        if (result != CUDA_ERROR_INVALID_VALUE)
            test_fail(__FILE__, __LINE__, "%s=%s passed", cases[i][0], cases[i][1]);
        /* One line that names the variable, and what is allowed. */
        CHECK(strstr(text, cases[i][0]));
        CHECK(strchr(text, '\n') && strchr(text, '\n')[1] == '\0');
        if (i + 1 == COUNT_OF(cases)) {
            CHECK(strstr(text, "FP4EMU_STRATEGY"));
        } else {
            CHECK(strstr(text, cases[i][1]));
            CHECK(strstr(text, "allowed: "));
        }
    }
}

TEST(good_environment_is_silent)
{
    static const char *const cases[][2] = {
        {"FP4EMU_DEVICE", "sm_90"},
        {"FP4EMU_SEED", "18446744073709551615"},
        {"FP4EMU_SEED", "0xFFFFffffFFFFffff"},
        {"FP4EMU_STRATEGY", "lazy"},
        {"FP4EMU_STRATEGY", "random:0.25"},
        {"FP4EMU_STRATEGY", "random:1"},
        {"FP4EMU_STRATEGY", "pct:3:100"},
        {"FP4EMU_STRATEGY", "starve:0-3"},
        {"FP4EMU_STRATEGY", "starve:EPILOGUE"},
        {"FP4EMU_STRATEGY", "delay:tma_load:5"},
        {"FP4EMU_CHECK", "all"},
        {"FP4EMU_CHECK", "pedantic,-37"},
        {"FP4EMU_CHECK", "default,+15,-3,6=error,36=warn"},
        {"FP4EMU_CHECK", "-3"},
        {"FP4EMU_QUIET", "1"},
        {"FP4EMU_ISA", "scalar"},
        {"FP4EMU_ISA", "auto"},
        {"FP4EMU_MMA", "hardware"},
        {"FP4EMU_APPROX", "perturb"},
        {"FP4EMU_CLUSTERS", "1"},
        {"FP4EMU_CLUSTERS", "all"},
        {"FP4EMU_THREADS", "auto"},
        {"FP4EMU_THREADS", "256"},
        {"FP4EMU_SEED", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int result;
        const char *text = init_output(cases[i][0], cases[i][1], &result);
        CHECK_EQ(result, CUDA_SUCCESS);
        CHECK_STR(text, "");
    }
}

/* ---- device */

TEST(every_attribute_has_a_value)
{
    api_start();
    for (int a = 1; a < (int)CU_DEVICE_ATTRIBUTE_MAX; a++) {
        int value = -12345;
        if (cu.cuDeviceGetAttribute_(&value, (CUdevice_attribute)a, 0) != CUDA_SUCCESS)
            test_fail(__FILE__, __LINE__, "attribute %d is refused", a);
        CHECK(value != -12345);
    }
    int value;
    CHECK_EQ(cu.cuDeviceGetAttribute_(&value, (CUdevice_attribute)9999, 0),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuDeviceGetAttribute_(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1),
             CUDA_ERROR_INVALID_DEVICE);
}

static int attribute(CUdevice_attribute a)
{
    int value = -1;
    CHECK_EQ(cu.cuDeviceGetAttribute_(&value, a, 0), CUDA_SUCCESS);
    return value;
}

static void check_profile(const char *name, int major, int minor, int sms, int smem,
                          int threads)
{
    char text[64];
    int got_major, got_minor;
    setenv("FP4EMU_DEVICE", name, 1);
    api_start();
    CHECK_EQ(cu.cuDeviceGetName_(text, sizeof text, 0), CUDA_SUCCESS);
    CHECK(strstr(text, name));
    CHECK_EQ(cu.cuDeviceComputeCapability_(&got_major, &got_minor, 0), CUDA_SUCCESS);
    CHECK_EQ(got_major, major);
    CHECK_EQ(got_minor, minor);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), major);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), minor);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), sms);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), smem);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR), threads);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), 1);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED), 1);
}

TEST(profile_sm_90)
{
    check_profile("sm_90", 9, 0, 132, 232448, 2048);
}

TEST(profile_sm_100)
{
    check_profile("sm_100", 10, 0, 148, 232448, 2048);
}

TEST(profile_sm_103)
{
    check_profile("sm_103", 10, 3, 148, 232448, 2048);
}

TEST(profile_sm_120)
{
    check_profile("sm_120", 12, 0, 170, 101376, 1536);
}

TEST(device_identity)
{
    char text[32];
    CUuuid uuid;
    CUdevice dev = 7;
    size_t total, left, all;
    api_start();
    CHECK_EQ(cu.cuDeviceGet_(&dev, 1), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cu.cuDeviceGet_(&dev, 0), CUDA_SUCCESS);
    CHECK_EQ(dev, 0);
    CHECK_EQ(cu.cuDeviceGetPCIBusId_(text, sizeof text, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetByPCIBusId_(&dev, text), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetByPCIBusId_(&dev, "01:00"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetByPCIBusId_(&dev, "0000:02:00.0"),
             CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cu.cuDeviceGetByPCIBusId_(&dev, "x"), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuDeviceGetUuid_v2_(&uuid, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceTotalMem_v2_(&total, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemGetInfo_v2_(&left, &all), CUDA_SUCCESS);
    CHECK_EQ(all, total);
    CHECK(left > 0 && left <= total);
}

/* ---- contexts */

TEST(context_stack)
{
    CUcontext primary = api_start(), a, b, now;
    CHECK_EQ(cu.cuCtxCreate_v2_(&a, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxCreate_v4_(&b, NULL, CU_CTX_SCHED_SPIN, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxGetCurrent_(&now), CUDA_SUCCESS);
    CHECK(now == b);
    CHECK_EQ(cu.cuCtxPopCurrent_v2_(&now), CUDA_SUCCESS);
    CHECK(now == b);
    CHECK_EQ(cu.cuCtxPushCurrent_v2_(b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxDestroy_v2_(b), CUDA_SUCCESS); /* pops it */
    CHECK_EQ(cu.cuCtxGetCurrent_(&now), CUDA_SUCCESS);
    CHECK(now == a);
    CHECK_EQ(cu.cuCtxPushCurrent_v2_(b), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuCtxDestroy_v2_(b), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuCtxDestroy_v2_(primary), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuCtxSetCurrent_(primary), CUDA_SUCCESS); /* in place of a */
    CHECK_EQ(cu.cuCtxDestroy_v2_(a), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSetCurrent_(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxGetCurrent_(&now), CUDA_SUCCESS);
    CHECK(now == primary); /* what api_start set */
    CHECK_EQ(cu.cuCtxSetCurrent_(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuCtxPopCurrent_v2_(&now), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(destroyed_context_stays_on_the_stack)
{
    CUcontext a;
    CUdeviceptr p;
    api_start();
    CHECK_EQ(cu.cuCtxCreate_v2_(&a, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPushCurrent_v2_(a), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxDestroy_v2_(a), CUDA_SUCCESS); /* pops one of two */
    CHECK_EQ(cu.cuMemAlloc_v2_(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(primary_context_counts)
{
    CUcontext first = api_start(), second;
    unsigned flags;
    int active;
    CUdeviceptr p = device_memory(64);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain_(&second, 0), CUDA_SUCCESS);
    CHECK(first == second);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, 64), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxRelease_v2_(0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu.cuDevicePrimaryCtxGetState_(0, &flags, &active), CUDA_SUCCESS);
    CHECK_EQ(active, 0);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain_(&second, 0), CUDA_SUCCESS);
    /* The same handle, and nothing left of the old life. */
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST(reset_frees_everything)
{
    CUstream s;
    CUevent e;
    CUdeviceptr p;
    size_t before, after, total;
    api_start();
    CHECK_EQ(cu.cuMemGetInfo_v2_(&before, &total), CUDA_SUCCESS);
    p = device_memory(1 << 20);
    CHECK_EQ(cu.cuStreamCreate_(&s, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&e, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxReset_v2_(0), CUDA_SUCCESS);
    api_start();
    CHECK_EQ(cu.cuMemGetInfo_v2_(&after, &total), CUDA_SUCCESS);
    CHECK_EQ(before, after);
    CHECK_EQ(cu.cuStreamSynchronize_(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventQuery_(e), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_ERROR_INVALID_VALUE);
}

TEST(limits_of_a_context)
{
    size_t value;
    api_start();
    CHECK_EQ(cu.cuCtxGetLimit_(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
    CHECK_EQ(value, 1024);
    CHECK_EQ(cu.cuCtxSetLimit_(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxGetLimit_(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
    CHECK_EQ(value, 4096);
    CHECK_EQ(cu.cuCtxSetLimit_((CUlimit)77, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

/* ---- several threads */

static void *use_memory(void *arg)
{
    CUcontext c;
    int *failures = arg;
    if (cu.cuCtxCreate_v2_(&c, 0, 0) != CUDA_SUCCESS)
        ++*failures;
    for (int i = 0; i < 200; i++) {
        CUdeviceptr p = 0;
        unsigned char byte = 0;
        if (cu.cuMemAlloc_v2_(&p, 64 + (size_t)i * 3) != CUDA_SUCCESS ||
            cu.cuMemsetD8_v2_(p, (unsigned char)i, 64) != CUDA_SUCCESS ||
            cu.cuMemcpyDtoH_v2_(&byte, p + 63, 1) != CUDA_SUCCESS ||
            byte != (unsigned char)i || (i % 2 && cu.cuMemFree_v2_(p) != CUDA_SUCCESS))
            ++*failures;
    }
    if (cu.cuCtxDestroy_v2_(c) != CUDA_SUCCESS)
        ++*failures;
    return NULL;
}

TEST(threads_share_the_driver)
{
    pthread_t threads[4];
    int failures[4] = {0};
    size_t before, after, total;
    api_start();
    CHECK_EQ(cu.cuMemGetInfo_v2_(&before, &total), CUDA_SUCCESS);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, use_memory, &failures[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(failures[i], 0);
    }
    CHECK_EQ(cu.cuMemGetInfo_v2_(&after, &total), CUDA_SUCCESS);
    CHECK_EQ(before, after);
}
