/* The emulator's libcuda.so.1: memory, copies, fills, streams, events, tensor maps. */
#include "tests/libcuda_api.h"

#include <time.h>

TEST(fresh_memory_is_poisoned)
{
    unsigned char bytes[1000];
    api_start();
    CUdeviceptr p = device_memory(sizeof bytes);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(bytes, p, sizeof bytes), CUDA_SUCCESS);
    for (size_t i = 0; i < sizeof bytes; i++)
        CHECK_EQ(bytes[i], 0xff);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 1, sizeof bytes), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_SUCCESS);
    /* Nor does a new allocation see what an old one held. */
    for (int i = 0; i < 100; i++) {
        p = device_memory(sizeof bytes);
        CHECK_EQ(cu.cuMemcpyDtoH_v2_(bytes, p, sizeof bytes), CUDA_SUCCESS);
        CHECK_EQ(bytes[i * 7], 0xff);
        CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_SUCCESS);
    }
}

TEST(copies_stay_in_their_allocation)
{
    unsigned char bytes[300] = {0};
    api_start();
    CUdeviceptr p = device_memory(256), q = device_memory(256);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, bytes, 256), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, bytes, 257), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p + 255, bytes, 1), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p + 256, bytes, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p - 1, bytes, 2), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, bytes, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_((CUdeviceptr)(uintptr_t)bytes, bytes, 1),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_((void *)(uintptr_t)q, p, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyDtoD_v2_(q, p, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyDtoD_v2_(q, p, 256), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, 257), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemFree_v2_(p + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemFree_v2_(p), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, bytes, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemFree_v2_(0), CUDA_SUCCESS);
    CUdeviceptr none;
    CHECK_EQ(cu.cuMemAlloc_v2_(&none, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemAlloc_v2_(&none, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu.cuMemAlloc_v2_(NULL, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST(cuMemcpy_takes_any_address)
{
    char from[32] = "unified addressing", to[32] = "", third[32] = "";
    api_start();
    CUdeviceptr p = device_memory(32);
    CHECK_EQ(cu.cuMemcpy_(p, (CUdeviceptr)(uintptr_t)from, 32), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyAsync_((CUdeviceptr)(uintptr_t)to, p, 32, NULL), CUDA_SUCCESS);
    CHECK_STR(to, from);
    CHECK_EQ(
        cu.cuMemcpy_((CUdeviceptr)(uintptr_t)third, (CUdeviceptr)(uintptr_t)to, 32),
        CUDA_SUCCESS);
    CHECK_STR(third, from);
    CHECK_EQ(cu.cuMemcpy_(p + 1, (CUdeviceptr)(uintptr_t)from, 32),
             CUDA_ERROR_INVALID_VALUE);
}

TEST(alignment_of_allocations)
{
    api_start();
    for (size_t bytes = 1; bytes < (1u << 22); bytes = bytes * 3 + 1) {
        CUdeviceptr p = device_memory(bytes);
        CHECK_EQ(p % 512, 0);
        if (bytes >= (2u << 20))
            CHECK_EQ(p % (2u << 20), 0);
        else
            CHECK(p % 1024 != 0); /* not more than is promised */
    }
}

TEST(fills)
{
    uint32_t words[16];
    unsigned short halves[4];
    api_start();
    CUdeviceptr p = device_memory(64);
    CHECK_EQ(cu.cuMemsetD32_v2_(p, 0x01020304, 16), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD16_v2_(p + 2, 0xbeef, 3), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(p + 60, 0x7f, 1), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(words, p, 64), CUDA_SUCCESS);
    CHECK_EQ(words[0], 0xbeef0304);
    CHECK_EQ(words[1], 0xbeefbeef);
    CHECK_EQ(words[2], 0x01020304);
    CHECK_EQ(words[15], 0x0102037f);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(halves, p, 8), CUDA_SUCCESS);
    CHECK_EQ(halves[1], 0xbeef);
    CHECK_EQ(cu.cuMemsetD32_v2_(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemsetD16_v2_(p + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemsetD32_v2_(p, 0, 17), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemsetD32Async_(p, 5, 16, NULL), CUDA_SUCCESS);
}

TEST(fills_in_two_dimensions)
{
    unsigned char bytes[8 * 32];
    api_start();
    CUdeviceptr p = device_memory(sizeof bytes);
    CHECK_EQ(cu.cuMemsetD8_v2_(p, 0, sizeof bytes), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD2D8_v2_(p + 1, 32, 9, 3, 8), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD2D16_v2_(p + 8, 32, 0x0807, 2, 8), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD2D32_v2_(p + 16, 32, 0x04030201, 1, 2), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(bytes, p, sizeof bytes), CUDA_SUCCESS);
    for (int y = 0; y < 8; y++) {
        for (int x = 0; x < 32; x++) {
            int want = x >= 1 && x < 4              ? 9
                       : x >= 8 && x < 12           ? (x % 2 ? 8 : 7)
                       : x >= 16 && x < 20 && y < 2 ? x - 15
                                                    : 0;
            CHECK_EQ(bytes[y * 32 + x], want);
        }
    }
    CHECK_EQ(cu.cuMemsetD2D8_v2_(p, 32, 9, 32, 9), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemsetD2D8_v2_(p, 2, 9, 3, 2), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemsetD2D32_v2_(p, 30, 9, 3, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST(copies_in_two_dimensions)
{
    unsigned char host[6][10], back[4][5];
    size_t pitch;
    CUdeviceptr p;
    api_start();
    for (int i = 0; i < 60; i++)
        host[i / 10][i % 10] = (unsigned char)i;
    CHECK_EQ(cu.cuMemAllocPitch_v2_(&p, &pitch, 5, 4, 4), CUDA_SUCCESS);
    CHECK_EQ(pitch % 512, 0);
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = 10,
                        .srcXInBytes = 3,
                        .srcY = 1,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = 5,
                        .Height = 4};
    CHECK_EQ(cu.cuMemcpy2D_v2_(&in), CUDA_SUCCESS);
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = p,
                         .srcPitch = pitch,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = back,
                         .WidthInBytes = 5,
                         .Height = 4}; /* pitch 0: dense */
    CHECK_EQ(cu.cuMemcpy2D_v2_(&out), CUDA_SUCCESS);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 5; x++)
            CHECK_EQ(back[y][x], (y + 1) * 10 + x + 3);
    in.Height = 5; /* a row past the end of the allocation */
    CHECK_EQ(cu.cuMemcpy2D_v2_(&in), CUDA_ERROR_INVALID_VALUE);
    in.Height = 4;
    in.dstPitch = 4;
    CHECK_EQ(cu.cuMemcpy2D_v2_(&in), CUDA_ERROR_INVALID_VALUE);
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    CHECK_EQ(cu.cuMemcpy2D_v2_(&in), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu.cuMemcpy2D_v2_(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(copies_in_three_dimensions)
{
    unsigned char host[3][4][8], back[2][2][3];
    api_start();
    CUdeviceptr p = device_memory(sizeof host);
    for (size_t i = 0; i < sizeof host; i++)
        ((unsigned char *)host)[i] = (unsigned char)i;
    CHECK_EQ(cu.cuMemcpyHtoD_v2_(p, host, sizeof host), CUDA_SUCCESS);
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = p,
                       .srcPitch = 8,
                       .srcHeight = 4,
                       .srcXInBytes = 2,
                       .srcY = 1,
                       .srcZ = 1,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = back,
                       .WidthInBytes = 3,
                       .Height = 2,
                       .Depth = 2};
    CHECK_EQ(cu.cuMemcpy3D_v2_(&c), CUDA_SUCCESS);
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 3; x++)
                CHECK_EQ(back[z][y][x], host[z + 1][y + 1][x + 2]);
    c.Depth = 3;
    CHECK_EQ(cu.cuMemcpy3D_v2_(&c), CUDA_ERROR_INVALID_VALUE);
    c.Depth = SIZE_MAX;
    CHECK_EQ(cu.cuMemcpy3D_v2_(&c), CUDA_ERROR_INVALID_VALUE);
}

TEST(host_memory)
{
    static char own[4096];
    void *p;
    CUdeviceptr d;
    unsigned type;
    api_start();
    CHECK_EQ(cu.cuMemHostAlloc_(&p, 100, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
    CHECK_EQ(((char *)p)[99], 0);
    CHECK_EQ(cu.cuMemHostGetDevicePointer_v2_(&d, p, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(d, 5, 100), CUDA_SUCCESS);
    CHECK_EQ(((char *)p)[99], 5);
    CHECK_EQ(cu.cuPointerGetAttribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d),
             CUDA_SUCCESS);
    CHECK_EQ(type, CU_MEMORYTYPE_HOST);
    CHECK_EQ(cu.cuMemFree_v2_(d), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemFreeHost_(p), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemFreeHost_(p), CUDA_ERROR_INVALID_VALUE);

    CHECK_EQ(cu.cuMemHostGetDevicePointer_v2_(&d, own, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemHostRegister_v2_(own, sizeof own, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemHostRegister_v2_(own + 4000, 200, 0),
             CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_EQ(cu.cuMemHostGetDevicePointer_v2_(&d, own + 10, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemsetD8_v2_(d, 'x', 1), CUDA_SUCCESS);
    CHECK_EQ(own[10], 'x');
    CHECK_EQ(cu.cuMemHostUnregister_(own + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_EQ(cu.cuMemHostUnregister_(own), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemHostUnregister_(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_EQ(cu.cuMemHostAlloc_(&p, 100, 0x80), CUDA_ERROR_INVALID_VALUE);
}

TEST(pointer_attributes)
{
    CUcontext c = api_start(), owner;
    CUdeviceptr p = device_memory(1000), start, managed;
    size_t bytes;
    unsigned long long id[2];
    unsigned flag;
    int ordinal;
    char local;
    CHECK_EQ(cu.cuMemGetAddressRange_v2_(&start, &bytes, p + 999), CUDA_SUCCESS);
    CHECK_EQ(start, p);
    CHECK_EQ(bytes, 1000);
    CHECK_EQ(cu.cuMemGetAddressRange_v2_(&start, &bytes, p + 1000),
             CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cu.cuMemAllocManaged_(&managed, 8, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuPointerGetAttribute_(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p + 5),
             CUDA_SUCCESS);
    CHECK(owner == c);
    CHECK_EQ(cu.cuPointerGetAttribute_(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, p),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuPointerGetAttribute_(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, managed),
             CUDA_SUCCESS);
    CHECK(id[0] != id[1]);
    CHECK_EQ(cu.cuPointerGetAttribute_(&flag, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed),
             CUDA_SUCCESS);
    CHECK_EQ(flag, 1);
    CHECK_EQ(
        cu.cuPointerGetAttribute_(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p),
        CUDA_SUCCESS);
    CHECK_EQ(ordinal, 0);
    CHECK_EQ(cu.cuPointerGetAttribute_(&flag, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       (CUdeviceptr)(uintptr_t)&local),
             CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                    CU_POINTER_ATTRIBUTE_CONTEXT};
    void *results[] = {&flag, &bytes, &owner};
    CHECK_EQ(cu.cuPointerGetAttributes_(3, wanted, results, p + 7), CUDA_SUCCESS);
    CHECK_EQ(flag, CU_MEMORYTYPE_DEVICE);
    CHECK_EQ(bytes, 1000);
    CHECK_EQ(
        cu.cuPointerGetAttributes_(3, wanted, results, (CUdeviceptr)(uintptr_t)&local),
        CUDA_SUCCESS);
    CHECK_EQ(flag, 0);
    CHECK(owner == NULL);
}

TEST(pools)
{
    CUmemoryPool normal, own;
    CUdeviceptr p, q;
    CUstream s;
    cuuint64_t used = 0, threshold = 12345;
    api_start();
    CHECK_EQ(cu.cuStreamCreate_(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuDeviceGetDefaultMemPool_(&normal, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemAllocAsync_(&p, 1000, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemPoolGetAttribute_(normal, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
             CUDA_SUCCESS);
    CHECK_EQ(used, 1000);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                            .maxSize = 4096};
    CHECK_EQ(cu.cuMemPoolCreate_(&own, &props), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemAllocFromPoolAsync_(&q, 4000, own, s), CUDA_SUCCESS);
    CUdeviceptr none;
    CHECK_EQ(cu.cuMemAllocFromPoolAsync_(&none, 97, own, s), CUDA_ERROR_OUT_OF_MEMORY);
    CUmemoryPool of;
    CHECK_EQ(cu.cuPointerGetAttribute_(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q),
             CUDA_SUCCESS);
    CHECK(of == own);
    CHECK_EQ(
        cu.cuMemPoolSetAttribute_(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        CUDA_SUCCESS);
    threshold = 0;
    CHECK_EQ(
        cu.cuMemPoolGetAttribute_(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
        CUDA_SUCCESS);
    CHECK_EQ(threshold, 12345);
    CHECK_EQ(cu.cuMemFreeAsync_(p, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemFreeAsync_(p, s), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemPoolDestroy_(own), CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemFree_v2_(q), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemPoolDestroy_(own), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuMemPoolDestroy_(normal), CUDA_ERROR_INVALID_VALUE);
}

/* ---- streams and events */

TEST(streams_and_events)
{
    CUcontext c = api_start(), of, other;
    CUstream s, foreign;
    CUevent a, b;
    float ms = -1;
    int priority;
    unsigned flags;
    CHECK_EQ(cu.cuStreamCreateWithPriority_(&s, CU_STREAM_NON_BLOCKING, -99),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamGetPriority_(s, &priority), CUDA_SUCCESS);
    CHECK_EQ(priority, -5); /* the highest there is */
    CHECK_EQ(cu.cuStreamGetFlags_(s, &flags), CUDA_SUCCESS);
    CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cu.cuStreamGetCtx_(s, &of), CUDA_SUCCESS);
    CHECK(of == c);
    CHECK_EQ(cu.cuEventCreate_(&a, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&b, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventElapsedTime_(&ms, a, a), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventRecord_(a, s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventQuery_(a), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventRecord_(b, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventElapsedTime_v2_(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventDestroy_v2_(b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventCreate_(&b, 0), CUDA_SUCCESS);
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    CHECK_EQ(cu.cuEventRecord_(b, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventSynchronize_(b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventElapsedTime_(&ms, a, b), CUDA_SUCCESS);
    CHECK(ms >= 2.0f && ms < 10000.0f);
    CHECK_EQ(cu.cuStreamWaitEvent_(s, a, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamSynchronize_(s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamQuery_(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamDestroy_v2_(s), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamDestroy_v2_(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventRecord_(a, s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cu.cuEventCreate_(&b, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING),
             CUDA_ERROR_NOT_SUPPORTED);

    CHECK_EQ(cu.cuCtxCreate_v2_(&other, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate_(&foreign, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxPopCurrent_v2_(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamSynchronize_(foreign), CUDA_SUCCESS);
    CUdeviceptr p = device_memory(4);
    CHECK_EQ(cu.cuMemsetD32Async_(p, 0, 1, foreign), CUDA_ERROR_INVALID_CONTEXT);
}

static void note_call(void *p)
{
    ++*(int *)p;
}

static void note_callback(CUstream s, CUresult r, void *p)
{
    (void)s;
    if (r == CUDA_SUCCESS)
        *(int *)p += 10;
}

TEST(host_functions)
{
    int calls = 0;
    api_start();
    CHECK_EQ(cu.cuLaunchHostFunc_(NULL, note_call, &calls), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamAddCallback_(NULL, note_callback, &calls, 0), CUDA_SUCCESS);
    CHECK_EQ(calls, 11);
    CHECK_EQ(cu.cuLaunchHostFunc_(NULL, NULL, &calls), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.cuStreamAddCallback_(NULL, NULL, &calls, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(values_in_memory)
{
    uint64_t value;
    api_start();
    CUdeviceptr p = device_memory(8);
    CHECK_EQ(cu.cuStreamWriteValue64_v2_(NULL, p, 0x1122334455667788u, 0),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(&value, p, 8), CUDA_SUCCESS);
    CHECK(value == 0x1122334455667788u);
    CHECK_EQ(cu.cuStreamWriteValue32_v2_(NULL, p, 7, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitValue32_v2_(NULL, p, 7, CU_STREAM_WAIT_VALUE_EQ),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitValue32_v2_(NULL, p, 6, CU_STREAM_WAIT_VALUE_GEQ),
             CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitValue32_v2_(NULL, p, 8, CU_STREAM_WAIT_VALUE_EQ),
             CUDA_ERROR_NOT_SUPPORTED); /* would wait for ever */
    CHECK_EQ(cu.cuStreamWriteValue32_v2_(NULL, p + 8, 7, 0), CUDA_ERROR_INVALID_VALUE);
}

/* ---- tensor maps */

static CUresult encode(CUtensorMap *map, CUdeviceptr address, cuuint64_t stride)
{
    cuuint64_t dims[2] = {64, 32}, strides[1] = {stride};
    cuuint32_t box[2] = {64, 8}, steps[2] = {1, 1};
    return cu.cuTensorMapEncodeTiled_(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)(uintptr_t)address, dims,
        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

TEST(tensor_maps)
{
    static CUtensorMap a, b; /* 64-byte aligned */
    char why[256] = "";
    size_t (*reason)(char *, size_t);
    api_start();
    API_EXTENSION(reason, "fp4emu_tensor_map_error");
    CUdeviceptr p = device_memory(4096), q = device_memory(4096);
    CHECK_EQ(encode(&a, p, 128), CUDA_SUCCESS);
    CHECK_EQ(encode(&b, q, 128), CUDA_SUCCESS);
    CHECK(memcmp(&a, &b, sizeof a) != 0);
    CHECK_EQ(cu.cuTensorMapReplaceAddress_(&a, (void *)(uintptr_t)q), CUDA_SUCCESS);
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK_EQ(cu.cuTensorMapReplaceAddress_(&a, (void *)(uintptr_t)(q + 8)),
             CUDA_ERROR_INVALID_VALUE);
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK_EQ(encode(&a, p, 120), CUDA_ERROR_INVALID_VALUE);
    CHECK(reason(why, sizeof why) > 0);
    CHECK(strstr(why, "120"));
    CHECK_EQ(encode((CUtensorMap *)(void *)((char *)&a + 8), p, 128),
             CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(encode(NULL, p, 128), CUDA_ERROR_INVALID_VALUE);
    memset(&a, 0, sizeof a);
    CHECK_EQ(cu.cuTensorMapReplaceAddress_(&a, (void *)(uintptr_t)q),
             CUDA_ERROR_INVALID_VALUE);
}
