/* across.h - races between kernels, copies and fills of different streams (check 36).
 *
 * Here work runs when it is enqueued, one piece after the other; on a device what is in
 * different streams may overlap unless an event, a wait of the host or the default
 * stream orders it.  Each stream, event and the host keep what they know to be done;
 * each piece of work keeps which words of device memory it read and wrote, until the
 * host knows that it is done.  Nothing is kept while a context has no two streams that
 * can overlap.  Under the driver's lock, but for footprint_add(). */
#ifndef FP4EMU_ACROSS_H
#define FP4EMU_ACROSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUstream_st;
struct grid;
struct warp;
struct footprint;

/* Up to which number the work of each stream is known to be done. */
struct across_clock {
    struct across_entry {
        uint64_t stream, number;
    } * at;
    size_t count, cap;
};

void across_clock_free(struct across_clock *k);

/* Around one piece of work of a stream (NULL: the default one).  `name` of a kernel, or
 * "a copy". */
void across_begin(struct CUctx_st *c, struct CUstream_st *s, const char *name);
void across_end(struct CUctx_st *c, struct CUstream_st *s);
/* Of the work in hand; NULL: nobody wants to know. */
struct footprint *across_footprint(void);
/* A word of an atomic, volatile or ordered access is `strong`: two of these are no
 * race, and a flag that one kernel wrote and another one read orders the two. */
void footprint_add(struct footprint *f, uint64_t address, uint64_t bytes, bool write,
                   bool strong, int line);
/* The same for an access of the kernel that runs. */
void across_access(const struct warp *w, uint64_t address, uint64_t bytes, bool write);
/* Compares the work in hand with what may overlap it; a warning in the grid's report.
 */
void across_check(struct grid *g);

/* ---- what is ordered */

void across_record(const struct CUctx_st *c, const struct CUstream_st *s,
                   struct across_clock *event);
void across_wait(struct CUctx_st *c, struct CUstream_st *s,
                 const struct across_clock *event);
void across_host_waits(struct CUctx_st *c, const struct CUstream_st *s);
void across_host_waits_event(struct CUctx_st *c, const struct across_clock *event);
void across_host_waits_all(struct CUctx_st *c);
/* The memory was freed, and is somebody else's when it is used again. */
void across_forget(uint64_t address, uint64_t bytes);
/* The context goes. */
void across_forget_all(void);

#endif
