#include "emu/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- graphs and nodes */

struct CUgraph_st *graph_new(void)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g || !handle_add(g, HANDLE_GRAPH)) {
        free(g);
        return NULL;
    }
    g->tail = &g->first;
    return g;
}

void graph_free(struct CUgraph_st *g)
{
    while (g->first) {
        struct CUgraphNode_st *n = g->first;
        g->first = n->next;
        work_free(&n->work);
        handle_drop(n);
        free(n->needs);
        free(n);
    }
    handle_drop(g);
    free(g);
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *g, struct work *w,
                                 struct CUgraphNode_st *const *needs, size_t count)
{
    struct CUgraphNode_st *n = calloc(1, sizeof *n);
    struct CUgraphNode_st **copy = malloc((count + 1) * sizeof(*copy));
    if (!n || !copy || !handle_add(n, HANDLE_NODE)) {
        free(n);
        free(copy);
        work_free(w);
        return NULL;
    }
    if (count)
        memcpy(copy, needs, count * sizeof(*copy));
    n->graph = g;
    n->work = *w;
    n->needs = copy;
    n->need_count = count;
    *g->tail = n;
    g->tail = &n->next;
    g->node_count++;
    return n;
}

/* ---- executable graphs */

struct CUgraphExec_st *exec_new(const struct CUgraph_st *g)
{
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->works = calloc(g->node_count + 1, sizeof *e->works);
    bool fine = e->works && handle_add(e, HANDLE_EXEC);
    for (const struct CUgraphNode_st *n = g->first; fine && n; n = n->next) {
        fine = work_copy(&e->works[e->count], &n->work) == CUDA_SUCCESS;
        e->count += fine;
    }
    if (!fine) {
        exec_free(e);
        return NULL;
    }
    return e;
}

void exec_free(struct CUgraphExec_st *e)
{
    for (size_t i = 0; i < e->count; i++)
        work_free(&e->works[i]);
    handle_drop(e);
    free(e->works);
    free(e);
}

/* ---- capture */

void capture_forget(struct capture *c)
{
    free(c->last);
    *c = (struct capture){0};
}

CUresult capture_copy(struct capture *to, const struct capture *from)
{
    struct CUgraphNode_st **last = malloc((from->last_count + 1) * sizeof(*last));
    if (!last)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (from->last_count)
        memcpy(last, from->last, from->last_count * sizeof(*last));
    *to = (struct capture){from->graph, last, from->last_count};
    return CUDA_SUCCESS;
}

CUresult capture_join(struct CUstream_st *s, const struct capture *from)
{
    struct capture *to = &s->capture;
    if (!to->graph)
        return capture_copy(to, from);
    if (to->graph != from->graph)
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    struct CUgraphNode_st **last =
        realloc(to->last, (to->last_count + from->last_count + 1) * sizeof(*last));
    if (!last)
        return CUDA_ERROR_OUT_OF_MEMORY;
    to->last = last;
    for (size_t i = 0; i < from->last_count; i++) {
        size_t k = 0;
        while (k < to->last_count && to->last[k] != from->last[i])
            k++;
        to->last[k] = from->last[i];
        to->last_count += k == to->last_count;
    }
    return CUDA_SUCCESS;
}

CUresult capture_work(struct CUstream_st *s, struct work *w)
{
    struct capture *c = &s->capture;
    if (c->graph->broken) {
        work_free(w);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    struct CUgraphNode_st *n = graph_add(c->graph, w, c->last, c->last_count);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct CUgraphNode_st **last = c->last ? c->last : malloc(sizeof(*last));
    if (!last)
        return CUDA_ERROR_OUT_OF_MEMORY;
    last[0] = n;
    c->last = last;
    c->last_count = 1;
    return CUDA_SUCCESS;
}

CUresult capture_break(struct CUstream_st *s)
{
    bool was = s->capture.graph->broken;
    s->capture.graph->broken = true;
    return was ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* No stream and no event of the context is in the capture any more. */
static void forget_graph(struct CUctx_st *c, const struct CUgraph_st *g)
{
    for (struct CUstream_st *s = c->streams; s; s = s->next)
        if (s->capture.graph == g)
            capture_forget(&s->capture);
    for (struct CUevent_st *e = c->events; e; e = e->next)
        if (e->capture.graph == g)
            capture_forget(&e->capture);
}

void capture_abandon(struct CUstream_st *s)
{
    struct CUgraph_st *g = s->capture.graph;
    if (g && g->origin == s) {
        forget_graph(s->context, g);
        capture_forget(&s->capture); /* it may have left the list already */
        graph_free(g);
    } else if (g) {
        g->broken = true; /* what the stream captured can no longer be joined */
        capture_forget(&s->capture);
    }
}

/* Marks all nodes that come before the last ones of `s`, and those. */
static bool mark_reached(const struct CUstream_st *s)
{
    const struct CUgraph_st *g = s->capture.graph;
    struct CUgraphNode_st **all = malloc((g->node_count + 1) * sizeof(*all));
    size_t count = 0;

    if (!all)
        return false;
    for (struct CUgraphNode_st *n = g->first; n; n = n->next) {
        n->reached = false;
        all[count++] = n;
    }
    for (size_t i = 0; i < s->capture.last_count; i++)
        s->capture.last[i]->reached = true;
    while (count-- > 0) /* a node's needs are older than the node */
        for (size_t i = 0; all[count]->reached && i < all[count]->need_count; i++)
            all[count]->needs[i]->reached = true;
    free(all);
    return true;
}

static bool is_joined(const struct CUstream_st *branch)
{
    for (size_t i = 0; i < branch->capture.last_count; i++)
        if (!branch->capture.last[i]->reached)
            return false;
    return true;
}

CUresult capture_end(struct CUstream_st *s, struct CUgraph_st **out)
{
    struct CUgraph_st *g = s->capture.graph;
    CUresult r = g->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS && !mark_reached(s))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    for (const struct CUstream_st *b = s->context->streams; b; b = b->next)
        if (r == CUDA_SUCCESS && b->capture.graph == g && !is_joined(b))
            r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    forget_graph(s->context, g);
    g->origin = NULL;
    if (r != CUDA_SUCCESS) {
        graph_free(g);
        g = NULL;
    }
    *out = g;
    return r;
}
