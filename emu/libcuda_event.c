#include "emu/libcuda.h"

#include <stdlib.h>

#include "emu/graph.h"

#define EVENT_FLAGS                                                                    \
    (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

/* Work is done when it is enqueued, so an event is complete once it is recorded.  Its
 * time is the host's clock: what passes between two events is what emulation took. */

static CUresult enter_event(CUevent e)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EVENT)
        r = CUDA_ERROR_INVALID_HANDLE;
    return r == CUDA_SUCCESS ? e->context->sticky : r;
}

EXPORTED CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    struct CUctx_st *c;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (!out || (flags & ~(unsigned)EVENT_FLAGS)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (flags & CU_EVENT_INTERPROCESS))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e || !handle_add(e, HANDLE_EVENT)) {
        free(e);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    e->context = c;
    e->flags = flags;
    e->next = c->events;
    c->events = e;
    *out = e;
    return leave(CUDA_SUCCESS);
}

static void event_free(struct CUevent_st *e)
{
    struct CUevent_st **p = &e->context->events;
    while (*p != e)
        p = &(*p)->next;
    *p = e->next;
    capture_forget(&e->capture);
    handle_drop(e);
    across_clock_free(&e->knows);
    free(e);
}

void event_free_all(struct CUctx_st *c)
{
    while (c->events)
        event_free(c->events);
}

EXPORTED CUresult cuEventDestroy_v2(CUevent e)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EVENT)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        event_free(e);
    return leave(r);
}

EXPORTED CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned int flags)
{
    struct CUctx_st *c;
    struct CUstream_st *stream;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EVENT)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && flags > CU_EVENT_RECORD_EXTERNAL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && e->context != c)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    capture_forget(&e->capture);
    if (stream && stream->capture.graph)
        return leave(capture_copy(&e->capture, &stream->capture));
    across_record(c, stream, &e->knows);
    e->recorded = true;
    e->seconds = clock_seconds();
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuEventRecord(CUevent e, CUstream s)
{
    return cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_DEFAULT);
}

EXPORTED CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags)
{
    struct CUctx_st *c;
    struct CUstream_st *stream;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EVENT)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && flags > CU_EVENT_WAIT_EXTERNAL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && e->capture.graph) /* brings the stream into the capture */
        r = stream ? capture_join(stream, &e->capture)
                   : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    else if (r == CUDA_SUCCESS && stream && stream->capture.graph && e->recorded)
        r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    else if (r == CUDA_SUCCESS)
        across_wait(c, stream, &e->knows);
    return leave(r);
}

EXPORTED CUresult cuEventQuery(CUevent e)
{
    CUresult r = enter_event(e);
    if (r == CUDA_SUCCESS && e->capture.graph)
        r = CUDA_ERROR_CAPTURED_EVENT;
    else if (r == CUDA_SUCCESS)
        across_host_waits_event(e->context, &e->knows);
    return leave(r);
}

EXPORTED CUresult cuEventSynchronize(CUevent e)
{
    return cuEventQuery(e);
}

EXPORTED CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    CUresult r = enter_event(start);
    if (r == CUDA_SUCCESS && handle_kind(end) != HANDLE_EVENT)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && !ms)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (!start->recorded || !end->recorded ||
                              ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        *ms = (float)((end->seconds - start->seconds) * 1e3);
    return leave(r);
}

EXPORTED CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}
