/* fake_libcuda.c - a libcuda.so.1 that runs nothing, for tests of what the runtime does
 * when the driver is old, refuses, or has other devices.  Environment variables say
 * how it behaves; fake_calls() says what it was asked.
 *
 *   FAKE_VERSION=12080   FAKE_CC=90,100 (a device each)   FAKE_INIT=100
 *   FAKE_LOAD=222        FAKE_LAUNCH=719  FAKE_SYNC=700    CUresults to return
 *
 * With -DOLD it lacks cuTensorMapEncodeTiled, as drivers before CUDA 12.0 do. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_libcuda.h"

#define EXPORTED __attribute__((visibility("default")))

static struct fake fake;

EXPORTED struct fake *fake_calls(void);
struct fake *fake_calls(void)
{
    return &fake;
}

static int setting(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

/* i-th number of FAKE_CC; its length when `i` is -1. */
static int compute_capability(int i)
{
    const char *list = getenv("FAKE_CC");
    int count = 0, value = 100;
    for (const char *p = list && *list ? list : "100"; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (count++ == i)
            value = atoi(p);
    }
    return i < 0 ? count : value;
}

EXPORTED CUresult cuInit(unsigned flags)
{
    (void)flags;
    return (CUresult)setting("FAKE_INIT", 0);
}

EXPORTED CUresult cuDriverGetVersion(int *version)
{
    *version = setting("FAKE_VERSION", 12090);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuGetErrorName(CUresult r, const char **name)
{
    *name = "FAKE_ERROR_NAME";
    return (int)r >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORTED CUresult cuGetErrorString(CUresult r, const char **text)
{
    *text = "the text of a fake error";
    return (int)r >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORTED CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetCount(int *count)
{
    *count = compute_capability(-1);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "Fake %d", device);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a,
                                       CUdevice device)
{
    switch ((int)a) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = compute_capability(device) / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = compute_capability(device) % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 7;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = 232448;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(uintptr_t)(device + 1);
    fake.retains++;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    fake.releases++;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPushCurrent(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (++fake.depth > fake.max_depth)
        fake.max_depth = fake.depth;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPopCurrent(CUcontext *context)
{
    *context = NULL;
    fake.depth--;
    return CUDA_SUCCESS;
}

static CUresult needs_context(void)
{
    return fake.depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORTED CUresult cuCtxSynchronize(void)
{
    return needs_context();
}

EXPORTED CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
                                     unsigned count, CUjit_option *options,
                                     void **values)
{
    int error = setting("FAKE_LOAD", 0);
    if (needs_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    for (unsigned i = 0; error && i < count; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            strcpy(values[i], "line 7; fatal: a fake complaint");
    if (error)
        return (CUresult)error;
    size_t bytes = strlen(image) + 1;
    char *copy = malloc(bytes);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *module = (CUmodule)memcpy(copy, image, bytes);
    fake.loads++;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    fake.unloads++;
    return needs_context();
}

EXPORTED CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                      const char *name)
{
    *function = (CUfunction)strstr((const char *)module, name);
    return *function ? needs_context() : CUDA_ERROR_NOT_FOUND;
}

EXPORTED CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction f)
{
    (void)a, (void)f;
    *value = 0;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value)
{
    (void)f;
    if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        fake.smem_attribute = value;
    return needs_context();
}

EXPORTED CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params,
                                   void **extra)
{
    (void)f, (void)extra;
    fake.launches++;
    fake.grid[0] = c->gridDimX, fake.grid[1] = c->gridDimY, fake.grid[2] = c->gridDimZ;
    fake.block[0] = c->blockDimX, fake.block[1] = c->blockDimY;
    fake.block[2] = c->blockDimZ;
    fake.smem_bytes = c->sharedMemBytes;
    fake.stream = c->hStream;
    memset(fake.cluster, 0, sizeof fake.cluster);
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        fake.cluster[0] = c->attrs[i].value.clusterDim.x;
        fake.cluster[1] = c->attrs[i].value.clusterDim.y;
        fake.cluster[2] = c->attrs[i].value.clusterDim.z;
    }
    /* The fixture's kernel has twelve; others pass none.  None is shorter than 8 bytes
     * in the runtime's memory. */
    for (int i = 0; params && i < setting("FAKE_PARAMS", 12); i++)
        memcpy(fake.params + 8 * i, params[i], 8);
    return needs_context() ? CUDA_ERROR_INVALID_CONTEXT
                           : (CUresult)setting("FAKE_LAUNCH", 0);
}

EXPORTED CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    if (bytes > (size_t)1 << 30)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    *address = (CUdeviceptr)(uintptr_t)p;
    return p ? needs_context() : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORTED CUresult cuMemFree(CUdeviceptr address)
{
    free((void *)(uintptr_t)address);
    return needs_context();
}

EXPORTED CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return needs_context();
}

EXPORTED CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return needs_context();
}

EXPORTED CUresult cuMemsetD8(CUdeviceptr to, unsigned char byte, size_t bytes)
{
    memset((void *)(uintptr_t)to, byte, bytes);
    return needs_context();
}

EXPORTED CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char byte,
                                    size_t width, size_t height, CUstream stream)
{
    (void)stream, (void)byte;
    fake.memsets++;
    fake.memset_to = to;
    fake.memset_pitch = pitch;
    fake.memset_width = width;
    fake.memset_height = height;
    return needs_context();
}

EXPORTED CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return needs_context() ? CUDA_ERROR_INVALID_CONTEXT
                           : (CUresult)setting("FAKE_SYNC", 0);
}

EXPORTED CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)&fake;
    return needs_context();
}

EXPORTED CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return needs_context();
}

EXPORTED CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return needs_context();
}

/* The oldest form, which cuda.h hides behind the newest. */
#undef cuEventElapsedTime
EXPORTED CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
EXPORTED CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    (void)begin, (void)end;
    *milliseconds = 2.5f;
    return needs_context();
}

EXPORTED CUresult cuEventDestroy(CUevent event)
{
    (void)event;
    return needs_context();
}

#ifndef OLD
EXPORTED CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    if (interleave || fill || element_strides[0] != 1)
        return CUDA_ERROR_INVALID_VALUE;
    fake.encodes++;
    fake.type = (int)type;
    fake.rank = (int)rank;
    fake.address = (uintptr_t)address;
    memcpy(fake.dims, dims, rank * sizeof *dims);
    memcpy(fake.strides, strides, (rank - 1) * sizeof *strides);
    memcpy(fake.box, box, rank * sizeof *box);
    fake.swizzle = (int)swizzle;
    fake.l2_promotion = (int)l2;
    memset(map, 0, sizeof *map);
    memcpy(map, &fake.address, sizeof fake.address);
    return needs_context();
}
#endif
