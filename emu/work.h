/* work.h - what can be put into a stream or a graph: launches, copies, fills, calls.
 *
 * All forms of cuMemcpy become one struct copy, all forms of cuMemset one struct fill.
 */
#ifndef FP4EMU_WORK_H
#define FP4EMU_WORK_H

#include "emu/launch.h"
#include "emu/libcuda.h"

enum place_kind {
    PLACE_HOST,    /* memory of the program; not device memory */
    PLACE_DEVICE,  /* in one allocation, device or mapped */
    PLACE_UNIFIED, /* either, by its address */
};

struct place {
    uint64_t address;
    enum place_kind kind;
    uint64_t pitch_bytes; /* from row to row */
    uint64_t slice_rows;  /* from slice to slice */
};

struct copy {
    struct place from, to;
    uint64_t width_bytes, rows, slices;
};

struct fill {
    uint64_t address, pitch_bytes;
    uint64_t value;
    int element_bytes; /* 1 2 4 8 */
    uint64_t width_elems, rows;
};

enum work_kind {
    WORK_NOTHING, /* an empty node */
    WORK_KERNEL,
    WORK_COPY,
    WORK_FILL,
    WORK_CALL,
};

struct work {
    enum work_kind kind;
    union {
        struct launch launch;
        struct copy copy;
        struct fill fill;
        struct {
            CUhostFn function;
            void *data;
        } call;
    } u;
};

/* The driver's description of a copy (libcuda_copy.c); NOT_SUPPORTED for arrays. */
CUresult copy_from_3d(struct copy *out, const CUDA_MEMCPY3D *d);

/* Are the addresses good now?  work_run() asks again. */
CUresult work_check(const struct work *w);
/* Does it, as work of the stream (NULL: the default one).  A kernel's error becomes the
 * context's, and is returned only when CUDA_LAUNCH_BLOCKING is set. */
CUresult work_run(struct CUctx_st *c, struct CUstream_st *s, const struct work *w);
CUresult work_copy(struct work *out, const struct work *w);
void work_free(struct work *w);

#endif
