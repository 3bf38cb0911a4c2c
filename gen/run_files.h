/* run_files.h - the files that `gen run` reads and writes: --in and --out, NAME=FILE.
 *
 * docs/files.md says what is in them. */
#ifndef FP4GEN_RUN_FILES_H
#define FP4GEN_RUN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/diag.h"
#include "gen/npy.h"

#define RUN_MOST_FILES 32

struct run_file {
    const char *name; /* NULL: the first output */
    const char *path;
};

struct run_files {
    struct run_file list[RUN_MOST_FILES];
    int count;
};

/* Something that was computed, and can be written. */
struct run_result {
    const char *name;
    enum npy_type type;
    const void *data; /* rows, ld_bytes apart */
    size_t rows, cols, ld_bytes;
};

/* NULL: not given. */
const char *run_file(const struct run_files *f, const char *name);
/* Is each one of `names`, which end with NULL?  False after reports, with `code`, which
 * is DIAG_RUN_IN or DIAG_RUN_OUT, about `kernel`. */
bool run_files_known(const struct run_files *f, const char *const *names,
                     enum diag_code code, const char *kernel, struct diags *d);
/* Writes those results that are asked for, each file whole or not at all. */
bool run_files_write(const struct run_files *f, const struct run_result *results,
                     int count, struct diags *d);

/* Values that quantise to something that is not their neighbour are told. */
void run_note_odd(const char *path, const struct npy *x, bool is_silu, FILE *err);

/* Do scales of a matrix have the shape of their layout? */
bool run_scales_fit(const char *path, const struct npy *scales, const char *layout,
                    size_t rows, size_t cols, struct diags *d);

#endif
