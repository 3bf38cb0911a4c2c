#include "emu/libcuda.h"

#include <stdlib.h>
#include <string.h>

#include "emu/graph.h"
#include "emu/memory.h"
#include "emu/work.h"

#define LOWEST_PRIORITY 0
#define HIGHEST_PRIORITY (-5)

static bool is_default(CUstream s)
{
    return s == NULL || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD;
}

CUresult stream_find(struct CUctx_st *c, CUstream s, struct CUstream_st **out)
{
    *out = NULL;
    if (is_default(s))
        return CUDA_SUCCESS;
    if (handle_kind(s) != HANDLE_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = s;
    return s->context == c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult stream_submit(struct CUctx_st *c, CUstream s, struct work *w)
{
    struct CUstream_st *stream;
    CUresult r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && stream && stream->capture.graph) {
        r = work_check(w);
        if (r == CUDA_SUCCESS)
            return capture_work(stream, w);
    } else if (r == CUDA_SUCCESS) {
        uint8_t *written_by = stream ? &stream->written_by : &c->written_by;
        bool is_kernel = w->kind == WORK_KERNEL;
        if (is_kernel && w->u.launch.programmatic)
            w->u.launch.depends_on = *written_by;
        r = work_run(c, stream, w);
        *written_by = is_kernel ? launch_stamp() : 0;
    }
    work_free(w);
    return r;
}

/* The context whose work `s` holds; for calls that any context may make. */
static CUresult enter_stream(CUstream s, struct CUctx_st **c)
{
    CUresult r;
    if (is_default(s))
        return enter_context(c);
    r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    if (handle_kind(s) != HANDLE_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    *c = s->context;
    return (*c)->sticky;
}

/* ---- streams */

EXPORTED CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags,
                                             int priority)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!out || flags > CU_STREAM_NON_BLOCKING))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s || !handle_add(s, HANDLE_STREAM)) {
        free(s);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    s->id = next_id();
    s->context = c;
    s->flags = flags;
    s->priority = priority > LOWEST_PRIORITY    ? LOWEST_PRIORITY
                  : priority < HIGHEST_PRIORITY ? HIGHEST_PRIORITY
                                                : priority;
    s->sync_policy = CU_SYNC_POLICY_AUTO;
    s->next = c->streams;
    c->streams = s;
    *out = s;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

static void stream_free(struct CUstream_st *s)
{
    struct CUstream_st **p = &s->context->streams;
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    capture_abandon(s);
    handle_drop(s);
    across_clock_free(&s->knows);
    free(s);
}

void stream_free_all(struct CUctx_st *c)
{
    while (c->streams)
        stream_free(c->streams);
}

EXPORTED CUresult cuStreamDestroy_v2(CUstream s)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(s) != HANDLE_STREAM)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        stream_free(s);
    return leave(r);
}

/* Nothing is ever pending, but in a capture nothing has happened yet either. */
static CUresult wait_for(CUstream s)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !is_default(s) && s->capture.graph)
        r = capture_break(s);
    else if (r == CUDA_SUCCESS)
        across_host_waits(c, is_default(s) ? NULL : s);
    return leave(r);
}

EXPORTED CUresult cuStreamQuery(CUstream s)
{
    return wait_for(s);
}

EXPORTED CUresult cuStreamSynchronize(CUstream s)
{
    return wait_for(s);
}

EXPORTED CUresult cuStreamGetPriority(CUstream s, int *priority)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !priority)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *priority = is_default(s) ? 0 : s->priority;
    return leave(r);
}

EXPORTED CUresult cuStreamGetFlags(CUstream s, unsigned int *flags)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = is_default(s) ? CU_STREAM_DEFAULT : s->flags;
    return leave(r);
}

EXPORTED CUresult cuStreamGetId(CUstream s, unsigned long long *id)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !id)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) /* the context's own number is its default stream's */
        *id = is_default(s) ? c->id : s->id;
    return leave(r);
}

EXPORTED CUresult cuStreamGetCtx(CUstream s, CUcontext *out)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = c;
    return leave(r);
}

EXPORTED CUresult cuStreamGetCtx_v2(CUstream s, CUcontext *out, CUgreenCtx *green)
{
    CUresult r = cuStreamGetCtx(s, out);
    if (r == CUDA_SUCCESS && green)
        *green = NULL;
    return r;
}

EXPORTED CUresult cuStreamGetDevice(CUstream s, CUdevice *dev)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !dev)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *dev = 0;
    return leave(r);
}

EXPORTED CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr p, size_t bytes,
                                         unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    (void)bytes;
    if (r == CUDA_SUCCESS && (flags > CU_MEM_ATTACH_SINGLE || !memory_find(p)))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

/* ---- attributes: kept, and without effect */

EXPORTED CUresult cuStreamGetAttribute(CUstream s, CUstreamAttrID attribute,
                                       CUstreamAttrValue *value)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    memset(value, 0, sizeof *value);
    switch ((int)attribute) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = is_default(s) ? CU_SYNC_POLICY_AUTO : s->sync_policy;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = is_default(s) ? 0 : s->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    return leave(r);
}

EXPORTED CUresult cuStreamSetAttribute(CUstream s, CUstreamAttrID attribute,
                                       const CUstreamAttrValue *value)
{
    struct CUctx_st *c;
    CUresult r = enter_stream(s, &c);
    if (r == CUDA_SUCCESS && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    switch ((int)attribute) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (!is_default(s))
            s->sync_policy = value->syncPolicy;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        if (!is_default(s))
            s->priority = value->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    return leave(r);
}

EXPORTED CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS &&
        (handle_kind(to) != HANDLE_STREAM || handle_kind(from) != HANDLE_STREAM))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS) {
        to->sync_policy = from->sync_policy;
        to->priority = from->priority;
    }
    return leave(r);
}

/* ---- callbacks, values in memory */

struct stream_call {
    CUstream stream;
    CUstreamCallback function;
    void *data;
};

static void call_back(void *p)
{
    struct stream_call *call = p;
    call->function(call->stream, CUDA_SUCCESS, call->data);
}

EXPORTED CUresult cuStreamAddCallback(CUstream s, CUstreamCallback function, void *data,
                                      unsigned int flags)
{
    struct CUctx_st *c;
    struct CUstream_st *stream;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!function || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && stream && stream->capture.graph)
        r = capture_break(stream);
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct stream_call call = {s, function, data}; /* it is called before we return */
    struct work w = {.kind = WORK_CALL, .u.call = {call_back, &call}};
    return leave(stream_submit(c, s, &w));
}

static CUresult write_value(CUstream s, CUdeviceptr p, uint64_t value, int bytes,
                            unsigned flags)
{
    struct CUctx_st *c;
    struct work w = {
        .kind = WORK_FILL,
        .u.fill = {.address = p,
                   .value = value,
                   .element_bytes = bytes,
                   .width_elems = 1,
                   .rows = 1},
    };
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS &&
        (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r == CUDA_SUCCESS ? stream_submit(c, s, &w) : r);
}

/* Work runs when it is enqueued, so a value that is not there yet would never come from
 * this thread: such a wait is refused instead of hanging. */
static CUresult wait_value(CUstream s, CUdeviceptr p, uint64_t value, size_t bytes,
                           unsigned flags)
{
    struct CUctx_st *c;
    struct CUstream_st *stream;
    uint64_t now = 0;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && stream && stream->capture.graph)
        r = capture_break(stream);
    if (r == CUDA_SUCCESS && (p % bytes || !memory_contains(p, bytes)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    memcpy(&now, (const void *)(uintptr_t)p, bytes);
    uint64_t top = UINT64_C(1) << (8 * bytes - 1);
    bool holds = false;
    switch (flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic */
        holds = ((now - value) & top) == 0;
        break;
    case CU_STREAM_WAIT_VALUE_EQ:
        holds = now == value;
        break;
    case CU_STREAM_WAIT_VALUE_AND:
        holds = (now & value) != 0;
        break;
    case CU_STREAM_WAIT_VALUE_NOR:
        holds = (~(now | value) & (top | (top - 1))) != 0;
        break;
    default:
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (holds) /* whoever wrote it, and what came before that */
        across_host_waits_all(c);
    return leave(holds ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
}

EXPORTED CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr p, cuuint32_t value,
                                          unsigned int flags)
{
    return write_value(s, p, value, 4, flags);
}

EXPORTED CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr p, cuuint64_t value,
                                          unsigned int flags)
{
    return write_value(s, p, value, 8, flags);
}

EXPORTED CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr p, cuuint32_t value,
                                         unsigned int flags)
{
    return wait_value(s, p, value, 4, flags);
}

EXPORTED CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr p, cuuint64_t value,
                                         unsigned int flags)
{
    return wait_value(s, p, value, 8, flags);
}

EXPORTED CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t value,
                                       unsigned int flags)
{
    return write_value(s, p, value, 4, flags);
}

EXPORTED CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr p, cuuint64_t value,
                                       unsigned int flags)
{
    return write_value(s, p, value, 8, flags);
}

EXPORTED CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t value,
                                      unsigned int flags)
{
    return wait_value(s, p, value, 4, flags);
}

EXPORTED CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr p, cuuint64_t value,
                                      unsigned int flags)
{
    return wait_value(s, p, value, 8, flags);
}
