#include "emu/libcuda.h"

#include <stdlib.h>
#include <string.h>

#include "emu/memory.h"

/* A pool remembers its attributes; its memory comes from the registry and goes back at
 * the free, since work is done when it is enqueued. */
struct CUmemPoolHandle_st {
    cuuint64_t release_threshold, used_high, max_bytes;
    int follow_events, opportunistic, internal;
};

static struct CUmemPoolHandle_st normal_pool;
static CUmemoryPool current_pool; /* of the device; NULL: the normal one */

static const struct CUmemPoolHandle_st fresh = {
    .follow_events = 1, .opportunistic = 1, .internal = 1};

/* The default pool is there as soon as somebody asks for it. */
static CUmemoryPool default_pool(void)
{
    if (handle_kind(&normal_pool) != HANDLE_POOL) {
        normal_pool = fresh;
        if (!handle_add(&normal_pool, HANDLE_POOL))
            return NULL;
    }
    return &normal_pool;
}

static CUmemoryPool device_pool(void)
{
    return current_pool ? current_pool : default_pool();
}

static bool is_pool(CUmemoryPool p)
{
    return handle_kind(p) == HANDLE_POOL;
}

static cuuint64_t used_bytes(CUmemoryPool p)
{
    cuuint64_t sum = 0;
    for (size_t i = 0; i < memory_count(); i++)
        if (memory_nth(i)->owner == p)
            sum += memory_nth(i)->bytes;
    return sum;
}

void pool_reset(void)
{
    if (is_pool(&normal_pool)) {
        memory_free_owned(&normal_pool);
        handle_drop(&normal_pool);
    }
}

static CUresult pool_alloc(CUdeviceptr *out, CUmemoryPool pool, size_t bytes)
{
    uint64_t total;
    if (!out || !bytes || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    cuuint64_t used = used_bytes(pool);
    if (bytes > memory_available(&total) ||
        (pool->max_bytes && bytes > pool->max_bytes - used))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = memory_alloc(MEMORY_DEVICE, bytes, MEMORY_ALIGN_BYTES, pool);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (used + bytes > pool->used_high)
        pool->used_high = used + bytes;
    *out = address;
    return CUDA_SUCCESS;
}

/* Memory nodes of graphs are not emulated. */
static CUresult enter_uncaptured(CUstream stream)
{
    struct CUctx_st *c;
    struct CUstream_st *s;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS)
        r = stream_find(c, stream, &s);
    if (r == CUDA_SUCCESS && s && s->capture.graph)
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return r;
}

EXPORTED CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUresult r = enter_uncaptured(stream);
    return leave(r == CUDA_SUCCESS ? pool_alloc(out, device_pool(), bytes) : r);
}

EXPORTED CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes,
                                          CUmemoryPool pool, CUstream stream)
{
    CUresult r = enter_uncaptured(stream);
    return leave(r == CUDA_SUCCESS ? pool_alloc(out, pool, bytes) : r);
}

EXPORTED CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    CUresult r = enter_uncaptured(stream);
    if (r == CUDA_SUCCESS && p && !device_free(p))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

/* ---- pools */

static CUresult check(const void *out, CUdevice dev)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return dev == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORTED CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
    CUresult r = check(out, dev);
    if (r == CUDA_SUCCESS)
        *out = default_pool();
    return leave(r);
}

EXPORTED CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
    CUresult r = check(out, dev);
    if (r == CUDA_SUCCESS)
        *out = device_pool();
    return leave(r);
}

EXPORTED CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    CUresult r = check(pool, dev);
    if (r == CUDA_SUCCESS && !is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        current_pool = pool;
    return leave(r);
}

EXPORTED CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult r = check(out, 0);
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (!props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    if (props->location.id != 0)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    CUmemoryPool p = malloc(sizeof *p);
    if (!p || !handle_add(p, HANDLE_POOL)) {
        free(p);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *p = fresh;
    p->max_bytes = props->maxSize;
    *out = p;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult r = check(pool, 0);
    if (r == CUDA_SUCCESS && (!is_pool(pool) || pool == &normal_pool))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (current_pool == pool)
        current_pool = NULL;
    memory_free_owned(pool);
    handle_drop(pool);
    free(pool);
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult r = check(pool, 0);
    (void)keep;
    if (r == CUDA_SUCCESS && !is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

EXPORTED CUresult cuMemPoolGetAttribute(CUmemoryPool pool,
                                        CUmemPool_attribute attribute, void *value)
{
    CUresult r = check(value, 0);
    if (r == CUDA_SUCCESS && !is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    cuuint64_t used = used_bytes(pool);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        memcpy(value, &pool->follow_events, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        memcpy(value, &pool->opportunistic, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(value, &pool->internal, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(value, &pool->release_threshold, sizeof used);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        memcpy(value, &used, sizeof used);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(value, &pool->used_high, sizeof used);
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    return leave(r);
}

EXPORTED CUresult cuMemPoolSetAttribute(CUmemoryPool pool,
                                        CUmemPool_attribute attribute, void *value)
{
    CUresult r = check(value, 0);
    cuuint64_t high = 0;
    if (r == CUDA_SUCCESS && !is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        memcpy(&pool->follow_events, value, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        memcpy(&pool->opportunistic, value, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&pool->internal, value, sizeof(int));
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&pool->release_threshold, value, sizeof high);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&high, value, sizeof high);
        if (high != 0) /* it can only be started afresh */
            r = CUDA_ERROR_INVALID_VALUE;
        else
            pool->used_high = used_bytes(pool);
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    return leave(r);
}

EXPORTED CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
                                     size_t count)
{
    CUresult r = check(map, 0);
    if (r == CUDA_SUCCESS && !is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || map[i].location.id)
            r = CUDA_ERROR_INVALID_DEVICE;
    return leave(r);
}

EXPORTED CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                     CUmemLocation *location)
{
    CUresult r = check(flags, 0);
    if (r == CUDA_SUCCESS && (!is_pool(pool) || !location))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == 0
                     ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return leave(r);
}
