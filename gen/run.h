/* run.h - `gen run`: generate or read a kernel, run it, compare it with the reference.
 *
 * This is the part of main that sees both the generator and the runtime.  Like main
 * it prints: results to `out`, everything else to `err`. */
#ifndef FP4GEN_RUN_H
#define FP4GEN_RUN_H

#include "gen/job.h"
#include "gen/run_files.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum run_check {
    RUN_NO_CHECK,
    RUN_CHECK,      /* all of D up to 2^31 MAC, above that a stated part of it */
    RUN_CHECK_FULL, /* all of D */
};

struct run_setting;

struct fp4gen_device;

/* For who runs kernels to see how they behave, gen/trials.h. */
struct run_watch {
    bool is_trusted; /* outputs are compared elsewhere: not with the reference */
    bool
        has_device; /* the kernel is loaded: what is refused from here is the problem */
    bool is_launched;
    uint64_t hash; /* of all outputs, when the launch went well */
    /* Called after the last launch, well or not, with its device still open. */
    void (*look)(struct run_watch *w, struct fp4gen_device *d);
};

struct run_options {
    const char *ptx_path; /* kernel as it lies on disk; NULL: generate it from job */
    struct job_options job;
    int64_t m, n, k;        /* -1: not given; files give them too */
    uint64_t lda, ldb, ldd; /* row strides in bytes; 0: the smallest that is allowed */
    float alpha;
    bool alpha_on_device; /* through alpha_ptr instead of by value */
    uint64_t seed;        /* of the data when there are no files */
    enum run_check check;
    const char *driver;    /* auto, cuda, emu; NULL: auto */
    int device;            /* ordinal */
    uint32_t ctas;         /* 0: as many as there are SMs */
    int repeat;            /* launches; the time is of the fastest */
    int pad_byte;          /* what lies in scale padding, 0..255 */
    struct run_files ins;  /* --in, and --a, --b, --x */
    struct run_files outs; /* --out */
    const char *dtype;     /* "bf16": how to read 2-byte void .npy elements; or NULL */
    const char *rounding;  /* nearest, halfstep; NULL: nearest */
    /* Of the kernels beside the GEMM, gen/quantize.h. */
    const char *global;     /* a number, "amax", or NULL: from the amax of the host */
    uint64_t ldx, ldc, lds; /* row strides in bytes; 0: the smallest */
    struct run_setting *settings; /* --arg: scalars of the epilogue */
    int setting_count;
    struct run_watch *watch; /* or NULL */
};

/* Everything unset; m, n, k -1, alpha 1, repeat 1, pad_byte 0x7f. */
struct run_options run_defaults(void);

/* 0: done; 1: refused, failed, or the check failed; 2: misused. */
int verb_run(const struct run_options *o, FILE *out, FILE *err);

#endif
