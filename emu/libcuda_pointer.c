#include "emu/libcuda.h"

#include <string.h>

#include "emu/memory.h"

/* ---- cuPointerGetAttribute: what the registry knows of an address */

union answer {
    CUcontext context;
    CUmemoryPool pool;
    CUdeviceptr address;
    void *host;
    unsigned long long u64;
    size_t bytes;
    unsigned u32;
    int i32;
};

static bool is_host(const struct allocation *m)
{
    return m->kind == MEMORY_HOST || m->kind == MEMORY_REGISTERED;
}

/* The context that `m` was allocated in, NULL: of a pool or a library. */
static CUcontext context_of(const struct allocation *m)
{
    union {
        const void *in;
        CUcontext out;
    } owner = {.in = m->owner};
    return handle_kind(m->owner) == HANDLE_CONTEXT ? owner.out : NULL;
}

static CUmemoryPool pool_of(const struct allocation *m)
{
    union {
        const void *in;
        CUmemoryPool out;
    } owner = {.in = m->owner};
    return handle_kind(m->owner) == HANDLE_POOL ? owner.out : NULL;
}

/* `m` NULL: the address is none of ours; *a is then what such an address gets.  Returns
 * the answer's size, 0: there is no such attribute. */
static size_t query(const struct allocation *m, CUdeviceptr p, int attribute,
                    union answer *a)
{
    bool both = m && (is_host(m) || m->kind == MEMORY_MANAGED);

    memset(a, 0, sizeof *a);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        a->context = m ? context_of(m) : NULL;
        return sizeof a->context;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        a->u32 = m ? (is_host(m) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE) : 0;
        return sizeof a->u32;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        a->address = m ? p : 0;
        return sizeof a->address;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        a->host = both ? (void *)(uintptr_t)p : NULL;
        return sizeof a->host;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        a->u64 = m ? m->id : 0;
        return sizeof a->u64;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        a->u32 = m && m->kind == MEMORY_MANAGED;
        return sizeof a->u32;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        a->i32 = m ? 0 : -2; /* CU_DEVICE_INVALID */
        return sizeof a->i32;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        a->address = m ? m->address : 0;
        return sizeof a->address;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        a->bytes = m ? (size_t)m->bytes : 0;
        return sizeof a->bytes;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        a->u32 = m != NULL;
        return sizeof a->u32;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        a->u32 = m ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
        return sizeof a->u32;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        a->pool = m ? pool_of(m) : NULL;
        return sizeof a->pool;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return sizeof a->u64; /* none */
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case 21: /* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, new in CUDA 12.8 */
        return sizeof a->u32; /* no */
    default:
        return 0;
    }
}

EXPORTED CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                        CUdeviceptr p)
{
    union answer a;
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return leave(r);
    const struct allocation *m = memory_find(p);
    if (!data || !m)
        return leave(CUDA_ERROR_INVALID_VALUE);
    size_t bytes = query(m, p, (int)attribute, &a);
    if (!bytes)
        return leave((int)attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS
                         ? CUDA_ERROR_NOT_SUPPORTED
                         : CUDA_ERROR_INVALID_VALUE);
    memcpy(data, &a, bytes);
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuPointerGetAttributes(unsigned int count,
                                         CUpointer_attribute *attributes, void **data,
                                         CUdeviceptr p)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (!attributes || !data)
        return leave(CUDA_ERROR_INVALID_VALUE);
    const struct allocation *m = memory_find(p);
    for (unsigned i = 0; i < count; i++) {
        union answer a;
        size_t bytes = query(m, p, (int)attributes[i], &a);
        if (!bytes || !data[i])
            return leave(CUDA_ERROR_INVALID_VALUE);
        memcpy(data[i], &a, bytes);
    }
    return leave(CUDA_SUCCESS);
}

/* Copies are synchronous in any case. */
EXPORTED CUresult cuPointerSetAttribute(const void *value,
                                        CUpointer_attribute attribute, CUdeviceptr p)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS &&
        (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !memory_find(p)))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}
