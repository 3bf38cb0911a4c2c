#define _DEFAULT_SOURCE /* _SC_PHYS_PAGES */

#include "emu/libcuda.h"

#include <unistd.h>

#include "emu/device.h"
#include "emu/memory.h"

#define PITCH_BYTES 512
#define HOST_ALLOC_FLAGS                                                               \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                            \
     CU_MEMHOSTALLOC_WRITECOMBINED)
#define HOST_REGISTER_FLAGS                                                            \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                      \
     CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

uint64_t memory_available(uint64_t *total)
{
    /* The device's memory is the host's: some of it is left to the rest. */
    uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t most = host / 8 * 7;
    uint64_t used = memory_used_bytes();

    *total = shown_device()->memory_bytes;
    if (most > *total)
        most = *total;
    return most > used ? most - used : 0;
}

static CUresult device_alloc(CUdeviceptr *out, enum memory_kind kind, size_t bytes,
                             const void *owner)
{
    uint64_t total;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (kind != MEMORY_HOST && bytes > memory_available(&total))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = memory_alloc(kind, bytes, MEMORY_ALIGN_BYTES, owner);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = address;
    return CUDA_SUCCESS;
}

/* ---- device memory */

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    return leave(r == CUDA_SUCCESS ? device_alloc(out, MEMORY_DEVICE, bytes, c) : r);
}

EXPORTED CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width,
                                     size_t height, unsigned int element_bytes)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (!pitch || !width || !height || width > SIZE_MAX / 2 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return leave(CUDA_ERROR_INVALID_VALUE);
    size_t row = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
    if (height > SIZE_MAX / row)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    r = device_alloc(out, MEMORY_DEVICE, row * height, c);
    if (r == CUDA_SUCCESS)
        *pitch = row;
    return leave(r);
}

EXPORTED CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && flags != CU_MEM_ATTACH_GLOBAL &&
        flags != CU_MEM_ATTACH_HOST)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = device_alloc(out, MEMORY_MANAGED, bytes, c);
    if (r == CUDA_SUCCESS)
        memory_label(*out, NULL, flags);
    return leave(r);
}

bool device_free(CUdeviceptr p)
{
    const struct allocation *m = memory_find(p);
    if (!m || m->address != p ||
        (m->kind != MEMORY_DEVICE && m->kind != MEMORY_MANAGED))
        return false;
    across_forget(p, m->bytes);
    return memory_free(p);
}

EXPORTED CUresult cuMemFree_v2(CUdeviceptr p)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && p && !device_free(p))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && p)
        across_host_waits_all(c); /* it waits for the device */
    return leave(r);
}

EXPORTED CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    uint64_t all, left = memory_available(&all);
    if (available)
        *available = (size_t)left;
    if (total)
        *total = (size_t)all;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
                                          CUdeviceptr p)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    const struct allocation *m = memory_find(p);
    if (!m)
        return leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = m->address;
    if (bytes)
        *bytes = (size_t)m->bytes;
    return leave(CUDA_SUCCESS);
}

/* ---- host memory */

static CUresult host_alloc(void **out, size_t bytes, unsigned flags)
{
    struct CUctx_st *c;
    CUdeviceptr p;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!out || (flags & ~(unsigned)HOST_ALLOC_FLAGS)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = device_alloc(&p, MEMORY_HOST, bytes, c);
    if (r == CUDA_SUCCESS) {
        memory_label(p, NULL, flags);
        *out = (void *)(uintptr_t)p;
    }
    return leave(r);
}

EXPORTED CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    return host_alloc(out, bytes, flags);
}

EXPORTED CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    return host_alloc(out, bytes, 0);
}

static const struct allocation *host_memory(const void *p)
{
    const struct allocation *m = memory_find((uint64_t)(uintptr_t)p);
    return m && (m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED) ? m : NULL;
}

EXPORTED CUresult cuMemFreeHost(void *p)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    const struct allocation *m = r == CUDA_SUCCESS ? host_memory(p) : NULL;
    if (r == CUDA_SUCCESS && p &&
        (!m || m->kind != MEMORY_HOST || !memory_free((uint64_t)(uintptr_t)p)))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

EXPORTED CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (!p || !bytes || bytes > UINTPTR_MAX - address ||
        (flags & ~(unsigned)HOST_REGISTER_FLAGS) || memory_is_device_address(address))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!memory_add(MEMORY_REGISTERED, p, bytes, c))
        return leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    memory_label(address, NULL, flags);
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    return cuMemHostRegister_v2(p, bytes, flags);
}

EXPORTED CUresult cuMemHostUnregister(void *p)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r != CUDA_SUCCESS)
        return leave(r);
    const struct allocation *m = host_memory(p);
    if (!m || m->kind != MEMORY_REGISTERED || !memory_free((uint64_t)(uintptr_t)p))
        return leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p,
                                               unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!out || flags || !host_memory(p)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUdeviceptr)(uintptr_t)p;
    return leave(r);
}

EXPORTED CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!flags || !host_memory(p)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = host_memory(p)->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return leave(r);
}

/* ---- hints about managed memory: it is everywhere already */

static CUresult hint(CUdeviceptr p, size_t bytes)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    const struct allocation *m = r == CUDA_SUCCESS ? memory_find(p) : NULL;
    if (r == CUDA_SUCCESS &&
        (!bytes || !m || m->kind != MEMORY_MANAGED || !memory_contains(p, bytes)))
        r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

EXPORTED CUresult cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice,
                                 CUmemLocation location)
{
    (void)advice;
    (void)location;
    return leave(hint(p, bytes));
}

EXPORTED CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice,
                              CUdevice dev)
{
    (void)advice;
    (void)dev;
    return leave(hint(p, bytes));
}

EXPORTED CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes,
                                        CUmemLocation location, unsigned int flags,
                                        CUstream stream)
{
    (void)location;
    (void)stream;
    CUresult r = hint(p, bytes);
    return leave(r == CUDA_SUCCESS && flags ? CUDA_ERROR_INVALID_VALUE : r);
}

EXPORTED CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice dev,
                                     CUstream stream)
{
    (void)dev;
    (void)stream;
    return leave(hint(p, bytes));
}
