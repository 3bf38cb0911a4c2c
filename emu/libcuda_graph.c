#include "emu/libcuda.h"

#include <string.h>

#include "emu/graph.h"

/* ---- capture */

EXPORTED CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
    struct CUctx_st *c;
    struct CUstream_st *stream = NULL;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && !stream) /* the default streams cannot be captured */
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (r == CUDA_SUCCESS && stream->capture.graph)
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUgraph_st *g = graph_new();
    if (!g)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    g->origin = stream;
    g->capture_id = next_id();
    stream->capture.graph = g;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamBeginCapture(CUstream s)
{
    return cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

EXPORTED CUresult cuStreamEndCapture(CUstream s, CUgraph *out)
{
    struct CUctx_st *c;
    struct CUstream_st *stream = NULL;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r == CUDA_SUCCESS && (!stream || !stream->capture.graph))
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS && stream->capture.graph->origin != stream)
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    return leave(r == CUDA_SUCCESS ? capture_end(stream, out) : r);
}

/* Every argument but `status` may be NULL. */
static CUresult capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **needs, size_t *count)
{
    struct CUctx_st *c;
    struct CUstream_st *stream = NULL;
    CUresult r = enter_context(&c);
    if (r == CUDA_SUCCESS && !status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stream_find(c, s, &stream);
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUgraph_st *g = stream ? stream->capture.graph : NULL;
    *status = !g          ? CU_STREAM_CAPTURE_STATUS_NONE
              : g->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return leave(CUDA_SUCCESS);
    if (id)
        *id = g->capture_id;
    if (graph)
        *graph = g;
    if (needs)
        *needs = stream->capture.last;
    if (count)
        *count = stream->capture.last_count;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    return capture_info(s, status, NULL, NULL, NULL, NULL);
}

EXPORTED CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *status,
                                         cuuint64_t *id)
{
    return capture_info(s, status, id, NULL, NULL, NULL);
}

EXPORTED CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status,
                                            cuuint64_t *id, CUgraph *graph,
                                            const CUgraphNode **needs, size_t *count)
{
    return capture_info(s, status, id, graph, needs, count);
}

EXPORTED CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status,
                                            cuuint64_t *id, CUgraph *graph,
                                            const CUgraphNode **needs,
                                            const CUgraphEdgeData **edges,
                                            size_t *count)
{
    if (edges)
        *edges = NULL; /* all edges are plain ones */
    return capture_info(s, status, id, graph, needs, count);
}

/* Calls that a mode forbids during a capture are allowed here in every mode. */
EXPORTED CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUresult r = enter();
    if (r == CUDA_SUCCESS &&
        (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        CUstreamCaptureMode before = now;
        now = *mode;
        *mode = before;
    }
    return leave(r);
}

/* ---- graphs */

EXPORTED CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && (!out || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *out = graph_new();
        r = *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return leave(r);
}

static CUresult enter_graph(CUgraph g)
{
    CUresult r = enter();
    return r == CUDA_SUCCESS && handle_kind(g) != HANDLE_GRAPH
               ? CUDA_ERROR_INVALID_HANDLE
               : r;
}

EXPORTED CUresult cuGraphDestroy(CUgraph g)
{
    CUresult r = enter_graph(g);
    if (r == CUDA_SUCCESS && g->origin) /* a capture still fills it */
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS)
        graph_free(g);
    return leave(r);
}

/* Under the lock; takes over `w`. */
static CUresult add_node(CUgraphNode *out, CUgraph g, const CUgraphNode *needs,
                         size_t count, struct work *w)
{
    CUresult r = out && (needs || !count) ? work_check(w) : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
        if (handle_kind(needs[i]) != HANDLE_NODE || needs[i]->graph != g)
            r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        work_free(w);
        return r;
    }
    *out = graph_add(g, w, needs, count);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult add_kernel(CUgraphNode *out, CUgraph g, const CUgraphNode *needs,
                           size_t count, CUfunction f, const CUlaunchConfig *config,
                           void **params, void **extra)
{
    struct work w = {.kind = WORK_KERNEL};
    CUresult r = enter_graph(g);
    if (r == CUDA_SUCCESS && handle_kind(f) != HANDLE_FUNCTION)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = launch_prepare(&w.u.launch, config, f, params, extra);
    return leave(r == CUDA_SUCCESS ? add_node(out, g, needs, count, &w) : r);
}

EXPORTED CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g,
                                       const CUgraphNode *needs, size_t count,
                                       const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig config = {.gridDimX = p->gridDimX,
                                   .gridDimY = p->gridDimY,
                                   .gridDimZ = p->gridDimZ,
                                   .blockDimX = p->blockDimX,
                                   .blockDimY = p->blockDimY,
                                   .blockDimZ = p->blockDimZ,
                                   .sharedMemBytes = p->sharedMemBytes};
    return add_kernel(out, g, needs, count, p->func, &config, p->kernelParams,
                      p->extra);
}

EXPORTED CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g,
                                          const CUgraphNode *needs, size_t count,
                                          const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS_v1 plain = {
        .func = p->func ? p->func : (CUfunction)(void *)p->kern,
        .gridDimX = p->gridDimX,
        .gridDimY = p->gridDimY,
        .gridDimZ = p->gridDimZ,
        .blockDimX = p->blockDimX,
        .blockDimY = p->blockDimY,
        .blockDimZ = p->blockDimZ,
        .sharedMemBytes = p->sharedMemBytes,
        .kernelParams = p->kernelParams,
        .extra = p->extra};
    return cuGraphAddKernelNode(out, g, needs, count, &plain);
}

EXPORTED CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g,
                                       const CUgraphNode *needs, size_t count,
                                       const CUDA_MEMCPY3D *p, CUcontext context)
{
    struct work w = {.kind = WORK_COPY};
    CUresult r = enter_graph(g);
    (void)context;
    if (r == CUDA_SUCCESS)
        r = copy_from_3d(&w.u.copy, p);
    return leave(r == CUDA_SUCCESS ? add_node(out, g, needs, count, &w) : r);
}

EXPORTED CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g,
                                       const CUgraphNode *needs, size_t count,
                                       const CUDA_MEMSET_NODE_PARAMS *p,
                                       CUcontext context)
{
    CUresult r = enter_graph(g);
    (void)context;
    if (r == CUDA_SUCCESS &&
        (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct work w = {.kind = WORK_FILL,
                     .u.fill = {.address = p->dst,
                                .pitch_bytes = p->pitch,
                                .value = p->value,
                                .element_bytes = (int)p->elementSize,
                                .width_elems = p->width,
                                .rows = p->height}};
    return leave(add_node(out, g, needs, count, &w));
}

EXPORTED CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph g,
                                     const CUgraphNode *needs, size_t count,
                                     const CUDA_HOST_NODE_PARAMS *p)
{
    CUresult r = enter_graph(g);
    if (r == CUDA_SUCCESS && !p)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct work w = {.kind = WORK_CALL, .u.call = {p->fn, p->userData}};
    return leave(add_node(out, g, needs, count, &w));
}

EXPORTED CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g,
                                      const CUgraphNode *needs, size_t count)
{
    struct work w = {.kind = WORK_NOTHING};
    CUresult r = enter_graph(g);
    return leave(r == CUDA_SUCCESS ? add_node(out, g, needs, count, &w) : r);
}

/* With `nodes` NULL only their number is told; surplus places are set to NULL. */
EXPORTED CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count)
{
    CUresult r = enter_graph(g);
    if (r == CUDA_SUCCESS && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUgraphNode_st *n = g->first;
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = n;
        n = n ? n->next : NULL;
    }
    if (!nodes || *count > g->node_count)
        *count = g->node_count;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *type)
{
    static const CUgraphNodeType types[] = {
        [WORK_NOTHING] = CU_GRAPH_NODE_TYPE_EMPTY,
        [WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [WORK_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
        [WORK_CALL] = CU_GRAPH_NODE_TYPE_HOST,
    };
    CUresult r = enter();
    if (r == CUDA_SUCCESS && (!type || handle_kind(n) != HANDLE_NODE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *type = types[n->work.kind];
    return leave(r);
}

/* ---- executable graphs */

EXPORTED CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g,
                                              unsigned long long flags)
{
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CUresult r = enter_graph(g);
    if (r == CUDA_SUCCESS && (!out || (flags & ~(known | 4ull))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS) {
        *out = exec_new(g);
        r = *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return leave(r);
}

EXPORTED CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g,
                                     CUgraphNode *error_node, char *log,
                                     size_t log_bytes)
{
    if (error_node)
        *error_node = NULL;
    if (log && log_bytes)
        log[0] = '\0';
    return cuGraphInstantiateWithFlags(out, g, 0);
}

EXPORTED CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g,
                                        CUgraphNode *error_node, char *log,
                                        size_t log_bytes)
{
    return cuGraphInstantiate(out, g, error_node, log, log_bytes);
}

EXPORTED CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = cuGraphInstantiateWithFlags(out, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                      : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

static CUresult enter_exec(CUgraphExec e, CUstream s, struct CUctx_st **c)
{
    struct CUstream_st *stream;
    CUresult r = enter_context(c);
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EXEC)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        r = stream_find(*c, s, &stream);
    if (r == CUDA_SUCCESS && stream && stream->capture.graph)
        r = capture_break(stream); /* child graphs are not emulated */
    return r;
}

EXPORTED CUresult cuGraphUpload(CUgraphExec e, CUstream s)
{
    struct CUctx_st *c;
    return leave(enter_exec(e, s, &c));
}

EXPORTED CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    struct CUctx_st *c;
    CUresult r = enter_exec(e, s, &c);
    /* A host node runs without the lock and might destroy what is being run, or the
     * stream. */
    for (size_t i = 0;
         r == CUDA_SUCCESS && handle_kind(e) == HANDLE_EXEC && i < e->count; i++) {
        struct CUstream_st *stream;
        r = stream_find(c, s, &stream);
        if (r == CUDA_SUCCESS)
            r = work_run(c, stream, &e->works[i]);
        if (c->sticky != CUDA_SUCCESS)
            break;
    }
    return leave(r);
}

EXPORTED CUresult cuGraphExecDestroy(CUgraphExec e)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(e) != HANDLE_EXEC)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        exec_free(e);
    return leave(r);
}
