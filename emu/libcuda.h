/* libcuda.h - what the files of the driver share: the lock, contexts, streams, events.
 *
 * An exported entry point checks its arguments and calls inward.  It begins with one of
 * the enter functions and ends with `return leave(...)`; in between it holds the one
 * lock of the driver.  Work runs when it is enqueued: a launch keeps the lock to its
 * end, so launches of several threads follow one another. */
#ifndef FP4EMU_LIBCUDA_H
#define FP4EMU_LIBCUDA_H

/* All ABI versions under their own names: cuda.h else renames them behind our back. */
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#include "core/base.h"
#include "emu/across.h"
#include "emu/handle.h"

/* cudaProfiler.h is not among the headers that every CUDA package brings. */
CUresult cuProfilerInitialize(const char *config, const char *output, int mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

#define DRIVER_VERSION 13020
#define LIMIT_COUNT 10

struct device;
struct work;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;

struct CUctx_st {
    uint64_t id;
    unsigned flags;
    CUresult sticky; /* what a kernel did wrong: every later call returns it */
    CUfunc_cache cache;
    CUsharedconfig banks;
    size_t limits[LIMIT_COUNT];
    struct CUstream_st *streams; /* created ones */
    uint8_t written_by;          /* as in a stream, of the default one */
    struct CUevent_st *events;
    struct CUmod_st *modules;
    struct across_clock knows, host_knows; /* the default stream; the program */
    uint64_t work_count;                   /* so far, where these count */
};

/* Where a stream or an event stands in a capture. */
struct capture {
    struct CUgraph_st *graph;     /* being captured into; NULL: not capturing */
    struct CUgraphNode_st **last; /* what comes next depends on these; owned */
    size_t last_count;
};

struct CUstream_st {
    uint64_t id;
    struct CUctx_st *context;
    unsigned flags;
    int priority;
    CUsynchronizationPolicy sync_policy;
    struct capture capture;
    uint8_t written_by; /* stamp of the launch that is its newest work; 0: none is */
    struct across_clock knows;
    struct CUstream_st *next;
};

struct CUevent_st {
    struct CUctx_st *context;
    unsigned flags;
    bool recorded;
    double seconds;         /* on a monotonic clock */
    struct capture capture; /* of the stream that it was recorded in */
    struct across_clock knows;
    struct CUevent_st *next;
};

/* ---- entering and leaving (libcuda.c) */

/* Takes the lock.  NOT_INITIALIZED before cuInit. */
CUresult enter(void);
/* The same, and *c is the calling thread's current context, free of sticky errors. */
CUresult enter_context(struct CUctx_st **c);
/* Gives the lock back, returns `r`. */
CUresult leave(CUresult r);
/* Around calls of the program's own functions. */
void unlock_for_callback(void);
void lock_after_callback(void);

double clock_seconds(void);
uint64_t next_id(void);
const struct device *shown_device(void);

/* ---- contexts (libcuda_ctx.c) */

/* The calling thread's current context; INVALID_CONTEXT when there is none,
 * CONTEXT_IS_DESTROYED when it has gone.  Sticky errors are not looked at. */
CUresult context_current(struct CUctx_st **c);

/* ---- parts of a context that go with it */

void stream_free_all(struct CUctx_st *c);
void event_free_all(struct CUctx_st *c);
void module_unload_all(struct CUctx_st *c);

/* ---- streams (libcuda_stream.c) */

/* Is `s` a stream of `c` (NULL and the two special handles are)?  *out is NULL for
 * the default streams. */
CUresult stream_find(struct CUctx_st *c, CUstream s, struct CUstream_st **out);
/* Does `w` now, or makes it a node when the stream is being captured.  Takes over what
 * `w` owns in any case. */
CUresult stream_submit(struct CUctx_st *c, CUstream s, struct work *w);

/* ---- memory (libcuda_mem.c, libcuda_pool.c) */

/* Frees an address of any kind that cuMemFree takes; false: it is none. */
bool device_free(CUdeviceptr p);
/* How much device memory may still be allocated: the device's, or what the host has. */
uint64_t memory_available(uint64_t *total);
/* The default pool and its memory go with the last context. */
void pool_reset(void);

#endif
