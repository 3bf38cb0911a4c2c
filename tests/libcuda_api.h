/* libcuda_api.h - the emulator's libcuda.so.1 as t_libcuda*.c call it: opened by path,
 * every function looked up by the name that driver.def exports, nothing linked.
 *
 *     CHECK_EQ(cu.cuMemAlloc_v2_(&p, 100), CUDA_SUCCESS);
 *
 * The underscore at the end keeps cuda.h from renaming the members. */
#ifndef FP4GEN_TESTS_LIBCUDA_API_H
#define FP4GEN_TESTS_LIBCUDA_API_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cudaTypedefs.h>

#include "emu/fp4emu.h"
#include "tests/test.h"

/* X(exported, asked, version): rows of driver.def that the tests call. */
#define API_ROWS(X)                                                                    \
    X(cuInit, cuInit, 2000)                                                            \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020)                                    \
    X(cuGetProcAddress, cuGetProcAddress, 11030)                                       \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000)                                    \
    X(cuGetErrorName, cuGetErrorName, 6000)                                            \
    X(cuGetErrorString, cuGetErrorString, 6000)                                        \
    X(cuGetExportTable, cuGetExportTable, 3000)                                        \
    X(cuDeviceGet, cuDeviceGet, 2000)                                                  \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000)                                        \
    X(cuDeviceGetName, cuDeviceGetName, 2000)                                          \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040)                                      \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020)                                     \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                                \
    X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000)                      \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010)                                  \
    X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010)                              \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020)                     \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020)                                   \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                        \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000)                  \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000)                      \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000)                    \
    X(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000)                \
    X(cuCtxCreate_v2, cuCtxCreate, 3020)                                               \
    X(cuCtxCreate_v4, cuCtxCreate, 12050)                                              \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000)                                             \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000)                                     \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000)                                       \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                          \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                          \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000)                                            \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000)                                        \
    X(cuCtxGetLimit, cuCtxGetLimit, 3010)                                              \
    X(cuCtxSetLimit, cuCtxSetLimit, 3010)                                              \
    X(cuModuleLoad, cuModuleLoad, 2000)                                                \
    X(cuModuleLoadData, cuModuleLoadData, 2000)                                        \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)                                    \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000)                              \
    X(cuModuleUnload, cuModuleUnload, 2000)                                            \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000)                                  \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020)                                   \
    X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040)                       \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040)                   \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000)                                     \
    X(cuLibraryUnload, cuLibraryUnload, 12000)                                         \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000)                                   \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000)                                   \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000)                                   \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040)                         \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000)                                 \
    X(cuKernelGetName, cuKernelGetName, 12030)                                         \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040)                               \
    X(cuLinkCreate_v2, cuLinkCreate, 6050)                                             \
    X(cuLinkAddData_v2, cuLinkAddData, 6050)                                           \
    X(cuLinkComplete, cuLinkComplete, 5050)                                            \
    X(cuLinkDestroy, cuLinkDestroy, 5050)                                              \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020)                                    \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000)                                    \
    X(cuFuncGetName, cuFuncGetName, 12030)                                             \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040)                                   \
    X(cuLaunchKernel, cuLaunchKernel, 4000)                                            \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                                       \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)                      \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000)                                       \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                     \
      cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050)                               \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050)        \
    X(cuOccupancyAvailableDynamicSMemPerBlock,                                         \
      cuOccupancyAvailableDynamicSMemPerBlock, 10020)                                  \
    X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070)               \
    X(cuMemAlloc_v2, cuMemAlloc, 3020)                                                 \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020)                                       \
    X(cuMemFree_v2, cuMemFree, 3020)                                                   \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020)                                            \
    X(cuMemFreeHost, cuMemFreeHost, 2000)                                              \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050)                                   \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000)                                  \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020)                   \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000)                                      \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020)                                             \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020)                             \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000)                              \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000)                            \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020)                                         \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020)                                           \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020)                                         \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020)                                       \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020)                         \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)                             \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020)                             \
    X(cuMemcpy, cuMemcpy, 4000)                                                        \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000)                                              \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020)                                             \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020)                                   \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020)                                             \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020)                                   \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020)                                             \
    X(cuMemcpy2D_v2, cuMemcpy2D, 3020)                                                 \
    X(cuMemcpy3D_v2, cuMemcpy3D, 3020)                                                 \
    X(cuMemsetD8_v2, cuMemsetD8, 3020)                                                 \
    X(cuMemsetD16_v2, cuMemsetD16, 3020)                                               \
    X(cuMemsetD32_v2, cuMemsetD32, 3020)                                               \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020)                                        \
    X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020)                                             \
    X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020)                                           \
    X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020)                                           \
    X(cuStreamCreate, cuStreamCreate, 2000)                                            \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050)                    \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000)                                       \
    X(cuStreamQuery, cuStreamQuery, 2000)                                              \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000)                                  \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020)                                      \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000)                                  \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050)                                  \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050)                                        \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020)                                            \
    X(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070)                            \
    X(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070)                            \
    X(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070)                              \
    X(cuEventCreate, cuEventCreate, 2000)                                              \
    X(cuEventRecord, cuEventRecord, 2000)                                              \
    X(cuEventQuery, cuEventQuery, 2000)                                                \
    X(cuEventSynchronize, cuEventSynchronize, 2000)                                    \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000)                                    \
    X(cuEventElapsedTime_v2, cuEventElapsedTime, 12080)                                \
    X(cuEventDestroy_v2, cuEventDestroy, 4000)                                         \
    X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000)                           \
    X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000)                         \
    X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000)                     \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010)                            \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000)                                   \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000)                                 \
    X(cuGraphCreate, cuGraphCreate, 10000)                                             \
    X(cuGraphDestroy, cuGraphDestroy, 10000)                                           \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000)                            \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000)                               \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000)                               \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 10000)                                   \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000)                                 \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000)                                         \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000)                                   \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)                 \
    X(cuGraphLaunch, cuGraphLaunch, 10000)                                             \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000)

static struct {
    void *library;
#define API_MEMBER(exported, asked, version) PFN_##asked##_v##version exported##_;
    API_ROWS(API_MEMBER)
#undef API_MEMBER
} cu;

static inline const char *libcuda_path(void)
{
    static char path[4096];
    const char *lib = getenv("FP4GEN_LIB");
    if (lib) {
        snprintf(path, sizeof path, "%s/emu/libcuda.so.1", lib);
        return path;
    }
    /* Run by hand: build/release/tests/t_libcuda and build/release/lib. */
    ssize_t chars = readlink("/proc/self/exe", path, sizeof path - 64);
    CHECK(chars > 0);
    path[chars] = '\0';
    for (int i = 0; i < 2; i++)
        *strrchr(path, '/') = '\0';
    strcat(path, "/lib/emu/libcuda.so.1");
    return path;
}

static inline void *libcuda_symbol(const char *name)
{
    void *p = dlsym(cu.library, name);
    if (!p)
        test_fail(__FILE__, __LINE__, "libcuda.so.1 has no %s", name);
    return p;
}

static inline void api_open(void)
{
    cu.library = dlopen(libcuda_path(), RTLD_NOW | RTLD_LOCAL);
    if (!cu.library)
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    void *p;
#define API_FIND(exported, asked, version)                                             \
    p = libcuda_symbol(#exported);                                                     \
    memcpy(&cu.exported##_, &p, sizeof p);
    API_ROWS(API_FIND)
#undef API_FIND
}

/* Opened, initialised, the primary context current. */
static inline CUcontext api_start(void)
{
    CUcontext c;
    CUdevice dev;
    api_open();
    CHECK_EQ(cu.cuInit_(0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGet_(&dev, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDevicePrimaryCtxRetain_(&c, dev), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSetCurrent_(c), CUDA_SUCCESS);
    return c;
}

/* An extension entry point of emu/fp4emu.h into the function pointer `*fn`. */
#define API_EXTENSION(fn, name)                                                        \
    do {                                                                               \
        void *extension_symbol = libcuda_symbol(name);                                 \
        memcpy(&(fn), &extension_symbol, sizeof extension_symbol);                     \
    } while (0)

static inline CUfunction load_function(const char *ptx, const char *name)
{
    CUmodule m;
    CUfunction f;
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUresult r = cu.cuModuleLoadDataEx_(&m, ptx, 2, options, values);
    if (r != CUDA_SUCCESS)
        test_fail(__FILE__, __LINE__, "loading gives %d: %s", (int)r, log);
    CHECK_EQ(cu.cuModuleGetFunction_(&f, m, name), CUDA_SUCCESS);
    return f;
}

static inline CUdeviceptr device_memory(size_t bytes)
{
    CUdeviceptr p = 0;
    CHECK_EQ(cu.cuMemAlloc_v2_(&p, bytes), CUDA_SUCCESS);
    return p;
}

/* What was written to `path`, NUL-terminated, from a static buffer. */
static inline const char *file_text(const char *path)
{
    static char text[65536];
    FILE *f = fopen(path, "r");
    size_t bytes = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[bytes] = '\0';
    if (f)
        fclose(f);
    return text;
}

#endif
