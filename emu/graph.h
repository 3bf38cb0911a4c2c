/* graph.h - graphs of work, and the capture of streams into them.
 *
 * A node comes after the nodes that it depends on, so the order of creation is an order
 * to run them in. */
#ifndef FP4EMU_GRAPH_H
#define FP4EMU_GRAPH_H

#include "emu/libcuda.h"
#include "emu/work.h"

struct CUgraphNode_st {
    struct CUgraph_st *graph;
    struct work work;
    struct CUgraphNode_st **needs;
    size_t need_count;
    bool reached; /* scratch of capture_end() */
    struct CUgraphNode_st *next;
};

struct CUgraph_st {
    struct CUgraphNode_st *first, **tail;
    size_t node_count;
    struct CUstream_st *origin; /* of the capture that fills it; NULL: none does */
    uint64_t capture_id;
    bool broken; /* the capture did what cannot be captured */
};

struct CUgraphExec_st {
    struct work *works;
    size_t count;
};

struct CUgraph_st *graph_new(void); /* NULL: out of memory */
void graph_free(struct CUgraph_st *g);
/* Takes over `w`; NULL: out of memory. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *g, struct work *w,
                                 struct CUgraphNode_st *const *needs, size_t count);
struct CUgraphExec_st *exec_new(const struct CUgraph_st *g); /* NULL: out of memory */
void exec_free(struct CUgraphExec_st *e);

/* ---- capture */

/* Makes `w` a node behind what the stream has captured so far; takes over `w`. */
CUresult capture_work(struct CUstream_st *s, struct work *w);
/* An event takes a stream's place in a capture, or gives it to another stream. */
CUresult capture_copy(struct capture *to, const struct capture *from);
CUresult capture_join(struct CUstream_st *s, const struct capture *from);
void capture_forget(struct capture *c);
/* A call that cannot be captured: the capture is lost.  Returns what to answer. */
CUresult capture_break(struct CUstream_st *s);
/* Ends the capture that began in `s`.  *out is its graph, NULL with the reason returned
 * when it was broken or has a branch that does not lead back to `s`. */
CUresult capture_end(struct CUstream_st *s, struct CUgraph_st **out);
/* `s` goes: a capture that began in it goes too. */
void capture_abandon(struct CUstream_st *s);

#endif
