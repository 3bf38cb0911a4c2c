/* env.h - the environment variables of the emulator: one table, read once.
 *
 * cuInit reads them.  A value that is not allowed makes cuInit fail with one message
 * that names variable, value and what is allowed; so does an FP4EMU_ variable that does
 * not exist, which is a typing error as a rule. */
#ifndef FP4EMU_ENV_H
#define FP4EMU_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/checks.h"

#include "emu/mma_fp4.h"
#include "emu/strategy.h"

enum { ENV_CLUSTERS_AUTO = 0, ENV_CLUSTERS_ALL = -1 };

struct env {
    const char *device; /* name of a profile; NULL: by the first module */
    const char *report; /* file that reports are appended to; NULL: stderr */
    const char *isa;    /* scalar, avx2, avx512; NULL: the best there is */
    uint64_t seed;
    enum strategy strategy;
    struct rule rule;
    const char *trace;      /* file for the time line; NULL: none */
    const char *record;     /* file that choices are appended to; NULL: none */
    struct check_set check; /* all zero: the default */
    uint64_t steps, print;  /* limits: warp instructions of a cluster; bytes; 0: none */
    bool coverage;          /* fp4emu_coverage() is wanted */
    bool quiet;             /* no reports on stderr */
    int threads;            /* host threads of a launch; 0: as many as there are CPUs */
    enum mma_mode mma;
    bool smem_as_declared; /* dynamic shared memory is aligned as the kernel says */
    bool perturb;          /* results of approximate instructions */
    int clusters;          /* that are launched at first, or one of these */
};

/* One row of the table, for --help, the README and tests. */
struct env_row {
    const char *name, *allowed, *normal, *meaning;
};
const struct env_row *env_row(size_t i); /* NULL past the end */

/* Reads the variables into `e`, whose strings are borrowed from the environment.  False
 * with a message in `error` when one is bad. */
bool env_read(struct env *e, char *error, size_t error_bytes);

/* What the process runs with: the normal values until env_use(). */
const struct env *env(void);
/* Copies `e`, strings too. */
void env_use(const struct env *e);
/* For the extension entry points. */
void env_set_seed(uint64_t seed);
void env_set_strategy(enum strategy strategy, const struct rule *rule);

#endif
