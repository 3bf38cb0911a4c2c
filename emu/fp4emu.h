/* fp4emu.h - what the emulator's libcuda.so.1 offers beyond the driver API.
 *
 * Reached through dlsym, as the driver's own entry points are; a real driver has none
 * of them.  All may be called from any thread at any time, also while a launch runs. */
#ifndef FP4EMU_H
#define FP4EMU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FP4EMU_VERSION 1

/* FP4EMU_VERSION of the library. */
int fp4emu_version(void);

/* As FP4EMU_SEED and FP4EMU_STRATEGY, for the launches that follow.  False (0): there
 * is no such strategy. */
void fp4emu_set_seed(unsigned long long seed);
int fp4emu_set_strategy(const char *name);

/* The newest report into `text`, cut off at `bytes` with a NUL.  Returns its whole
 * length, 0 when there was none. */
size_t fp4emu_last_report(char *text, size_t bytes);

/* Likewise: which rule the calling thread's last cuTensorMapEncodeTiled broke. */
size_t fp4emu_tensor_map_error(char *text, size_t bytes);

struct fp4emu_stats {
    unsigned long long launches; /* in this process, so far */
    /* of the newest launch: */
    unsigned long long ctas, ctas_done;
    unsigned long long warp_instructions; /* grows as clusters end */
    double seconds;                       /* 0 while it runs */
    int running;
};
void fp4emu_get_stats(struct fp4emu_stats *out);

/* Of the newest launch: instructions of one cluster that others can see, at most.  A
 * schedule may choose behind each of them. */
unsigned long long fp4emu_visible(void);

/* What came to pass in the newest launch that may come to pass otherwise under another
 * schedule, as hashes: for each barrier the orders of arrivals and waits within a
 * phase, for each piece of shared memory the pairs of instructions of which one reads
 * what the other wrote.  Only with FP4EMU_COVERAGE=1.  Stores up to `count`; returns
 * how many. */
size_t fp4emu_coverage(unsigned long long *keys, size_t count);

/* `fn` is called about ten times a second while a launch runs, from a thread of the
 * emulator, and once when it has ended.  NULL: no more calls. */
typedef void fp4emu_progress_fn(void *arg, unsigned long long ctas_done,
                                unsigned long long ctas);
void fp4emu_set_progress(fp4emu_progress_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
