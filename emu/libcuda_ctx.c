#include "emu/libcuda.h"

#include <stdlib.h>
#include <string.h>

#include "emu/device.h"
#include "emu/memory.h"

#define STACK_MAX 64
#define LOWEST_PRIORITY 0
#define HIGHEST_PRIORITY (-5)

static const size_t normal_limits[LIMIT_COUNT] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

/* The handle of the device's primary context is the same in every life of it. */
static struct CUctx_st primary;
static unsigned primary_count, primary_flags;
static unsigned open_count; /* contexts of either kind */

/* The thread's stack of contexts.  The ids tell a context from a later one at the same
 * address. */
static _Thread_local struct {
    struct CUctx_st *context;
    uint64_t id;
} stack[STACK_MAX];
static _Thread_local int depth;

static bool is_live(const struct CUctx_st *c)
{
    return handle_kind(c) == HANDLE_CONTEXT;
}

CUresult context_current(struct CUctx_st **c)
{
    *c = NULL;
    if (depth == 0 || !stack[depth - 1].context)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct CUctx_st *top = stack[depth - 1].context;
    if (!is_live(top) || (top != &primary && top->id != stack[depth - 1].id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *c = top;
    return CUDA_SUCCESS;
}

static CUresult push(struct CUctx_st *c)
{
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth].context = c;
    stack[depth].id = c->id;
    depth++;
    return CUDA_SUCCESS;
}

static CUresult open_context(struct CUctx_st *c, unsigned flags)
{
    *c = (struct CUctx_st){.id = next_id(), .flags = flags};
    memcpy(c->limits, normal_limits, sizeof c->limits);
    if (!handle_add(c, HANDLE_CONTEXT))
        return CUDA_ERROR_OUT_OF_MEMORY;
    open_count++;
    return CUDA_SUCCESS;
}

/* All that belongs to the context goes; nothing of it is left in any table. */
static void close_context(struct CUctx_st *c)
{
    stream_free_all(c);
    event_free_all(c);
    module_unload_all(c);
    memory_free_owned(c);
    across_forget_all();
    across_clock_free(&c->knows);
    across_clock_free(&c->host_knows);
    handle_drop(c);
    if (c != &primary)
        free(c);
    if (--open_count == 0)
        pool_reset();
}

static CUresult check_device(CUdevice dev)
{
    return dev == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static bool flags_are_good(unsigned flags)
{
    return (flags & ~(unsigned)CU_CTX_FLAGS_MASK) == 0 &&
           (flags & CU_CTX_SCHED_MASK) <= CU_CTX_SCHED_BLOCKING_SYNC;
}

/* ---- the primary context */

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = out ? check_device(dev) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !is_live(&primary))
        r = open_context(&primary, primary_flags);
    if (r == CUDA_SUCCESS) {
        primary_count++;
        *out = &primary;
    }
    return leave(r);
}

EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = check_device(dev);
    if (r == CUDA_SUCCESS && primary_count == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && --primary_count == 0 && is_live(&primary))
        close_context(&primary);
    return leave(r);
}

EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return cuDevicePrimaryCtxRelease_v2(dev);
}

/* Those who retained it keep their count, as with the real driver: the next retain
 * opens the context again. */
EXPORTED CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = check_device(dev);
    if (r == CUDA_SUCCESS && is_live(&primary))
        close_context(&primary);
    return leave(r);
}

EXPORTED CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return cuDevicePrimaryCtxReset_v2(dev);
}

EXPORTED CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = check_device(dev);
    if (r == CUDA_SUCCESS && !flags_are_good(flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        primary_flags = flags;
        primary.flags = flags;
    }
    return leave(r);
}

EXPORTED CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

EXPORTED CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags,
                                             int *active)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = flags && active ? check_device(dev) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *flags = primary_flags;
        *active = is_live(&primary);
    }
    return leave(r);
}

/* ---- created contexts */

static CUresult create(CUcontext *out, unsigned flags, CUdevice dev)
{
    CUresult r = check_device(dev);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !flags_are_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *c = malloc(sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = open_context(c, flags);
    if (r != CUDA_SUCCESS) {
        free(c);
        return r;
    }
    r = push(c);
    if (r != CUDA_SUCCESS)
        close_context(c);
    else
        *out = c;
    return r;
}

EXPORTED CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice dev)
{
    CUresult r = enter();
    return leave(r == CUDA_SUCCESS ? create(out, flags, dev) : r);
}

EXPORTED CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity,
                                 int count, unsigned int flags, CUdevice dev)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && (affinity || count))
        r = CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return leave(r == CUDA_SUCCESS ? create(out, flags, dev) : r);
}

EXPORTED CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params,
                                 unsigned int flags, CUdevice dev)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && params && params->numExecAffinityParams)
        r = CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (r == CUDA_SUCCESS && params && params->cigParams)
        r = CUDA_ERROR_NOT_SUPPORTED;
    return leave(r == CUDA_SUCCESS ? create(out, flags, dev) : r);
}

EXPORTED CUresult cuCtxDestroy_v2(CUcontext c)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (!is_live(c) || c == &primary)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth > 0 && stack[depth - 1].context == c)
        depth--;
    close_context(c);
    return leave(CUDA_SUCCESS);
}

/* ---- the thread's stack */

EXPORTED CUresult cuCtxPushCurrent_v2(CUcontext c)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = is_live(c) ? push(c) : CUDA_ERROR_INVALID_CONTEXT;
    return leave(r);
}

EXPORTED CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && depth == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS) {
        depth--;
        if (out)
            *out = stack[depth].context;
    }
    return leave(r);
}

EXPORTED CUresult cuCtxSetCurrent(CUcontext c)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return leave(r);
    if (c && !is_live(c))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth > 0)
        depth--;
    return leave(c ? push(c) : CUDA_SUCCESS);
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *out)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = depth > 0 ? stack[depth - 1].context : NULL;
    return leave(r);
}

/* ---- queries and settings */

/* `c`, or the current context for NULL. */
static CUresult pick(CUcontext c, struct CUctx_st **out)
{
    if (!c)
        return context_current(out);
    *out = c;
    return is_live(c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORTED CUresult cuCtxGetDevice_v2(CUdevice *dev, CUcontext c)
{
    struct CUctx_st *picked;
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = dev ? pick(c, &picked) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *dev = 0;
    return leave(r);
}

EXPORTED CUresult cuCtxGetDevice(CUdevice *dev)
{
    return cuCtxGetDevice_v2(dev, NULL);
}

/* Work was done when it was enqueued; what is left to hear of is its error. */
EXPORTED CUresult cuCtxSynchronize_v2(CUcontext c)
{
    struct CUctx_st *picked;
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = pick(c, &picked);
    if (r == CUDA_SUCCESS)
        across_host_waits_all(picked);
    return leave(r == CUDA_SUCCESS ? picked->sticky : r);
}

EXPORTED CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

EXPORTED CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (unsigned)limit >= LIMIT_COUNT)
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (r == CUDA_SUCCESS)
        *value = c->limits[limit];
    return leave(r);
}

EXPORTED CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (unsigned)limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (r == CUDA_SUCCESS)
        c->limits[limit] = value;
    return leave(r);
}

EXPORTED CUresult cuCtxGetApiVersion(CUcontext c, unsigned int *version)
{
    struct CUctx_st *picked;
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = version ? pick(c, &picked) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *version = 3020;
    return leave(r);
}

EXPORTED CUresult cuCtxGetId(CUcontext c, unsigned long long *id)
{
    struct CUctx_st *picked;
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = id ? pick(c, &picked) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *id = picked->id;
    return leave(r);
}

EXPORTED CUresult cuCtxGetFlags(unsigned int *flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = c->flags;
    return leave(r);
}

EXPORTED CUresult cuCtxSetFlags(unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !flags_are_good(flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        c->flags = flags;
    return leave(r);
}

EXPORTED CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && least)
        *least = LOWEST_PRIORITY;
    if (r == CUDA_SUCCESS && greatest)
        *greatest = HIGHEST_PRIORITY;
    return leave(r);
}

EXPORTED CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *config = c->cache;
    return leave(r);
}

EXPORTED CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        c->cache = config;
    return leave(r);
}

EXPORTED CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *config = c->banks;
    return leave(r);
}

EXPORTED CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS &&
        (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        c->banks = config;
    return leave(r);
}

EXPORTED CUresult cuCtxResetPersistingL2Cache(void)
{
    struct CUctx_st *c;
    return leave(enter_context(&c));
}

EXPORTED CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity,
                                       CUexecAffinityType type)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    (void)affinity;
    (void)type;
    return leave(r == CUDA_SUCCESS ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : r);
}

/* One device: it has no peers. */
EXPORTED CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult r = enter();
    (void)flags;
    if (r == CUDA_SUCCESS)
        r = is_live(peer) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
                          : CUDA_ERROR_INVALID_CONTEXT;
    return leave(r);
}

EXPORTED CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        r = is_live(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                          : CUDA_ERROR_INVALID_CONTEXT;
    return leave(r);
}
