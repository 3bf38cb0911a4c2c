/* launch.h - from a function and its parameters to a finished grid.
 *
 * launch_prepare() checks what the driver checks and copies the parameters, so that a
 * launch can wait in a graph; launch_run() runs it here and now.  A kernel's error is
 * written as one report, on stderr or where FP4EMU_REPORT says. */
#ifndef FP4EMU_LAUNCH_H
#define FP4EMU_LAUNCH_H

#include <pthread.h>

#include "emu/libcuda.h"
#include "emu/module.h"

struct launch {
    struct CUfunc_st *function;
    uint32_t dim[3], block[3], cluster[3];
    uint32_t dyn_smem_bytes;
    bool cooperative;
    bool programmatic;  /* it may start before the launch before it has ended */
    uint8_t depends_on; /* stamp of that one: depend.h; 0: none */
    uint8_t *params;    /* 128-byte aligned, owned; NULL: none */
    uint32_t param_bytes;
};

/* Checks limits and attributes; parameters stay empty. */
CUresult launch_check(struct launch *out, const CUlaunchConfig *config,
                      struct CUfunc_st *f);
/* The same, and packs the parameters; exactly one of `params` and `extra` is given,
 * as for cuLaunchKernel.  `out` then owns memory until launch_free(). */
CUresult launch_prepare(struct launch *out, const CUlaunchConfig *config,
                        struct CUfunc_st *f, void **params, void **extra);
/* A copy with parameters of its own. */
CUresult launch_copy(struct launch *out, const struct launch *l);
void launch_free(struct launch *l);
/* What a kernel did wrong, CUDA_SUCCESS if nothing. */
CUresult launch_run(const struct launch *l);
/* Reports when the copy or fill in hand races with work of another stream. */
CUresult launch_check_across(const char *what);
/* Stamp of the newest launch. */
uint8_t launch_stamp(void);

/* CTAs of the largest number of clusters, or of single blocks, that fit a device at
 * once: what cooperative launches and occupancy queries go by. */
int launch_blocks_per_sm(const struct CUfunc_st *f, int threads,
                         uint64_t dyn_smem_bytes);

/* Numbers of the newest launch.  Needs no lock: a progress bar may ask from another
 * thread while the launch runs. */
struct launch_stats {
    uint64_t launches; /* so far, in this process */
    uint64_t ctas, ctas_done;
    uint64_t steps; /* warp instructions; complete when the launch has ended */
    double seconds; /* of a launch that has ended, else 0 */
    bool running;
};
void launch_get_stats(struct launch_stats *out);

/* Calls the program's progress function (fp4emu.h) while a launch runs. */
struct progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool wanted, ended;
};
void progress_begin(struct progress *p);
void progress_end(struct progress *p);

/* As fp4emu_visible() and fp4emu_coverage(); no launch must run. */
uint64_t launch_visible(void);
size_t launch_coverage(unsigned long long *keys, size_t count);

/* Text of the newest report, "" if there was none.  Valid until the next launch. */
const char *launch_report(void);

#endif
