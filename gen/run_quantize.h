/* run_quantize.h - `gen run` of a kernel beside the GEMM (gen/quantize.h). */
#ifndef FP4GEN_RUN_QUANTIZE_H
#define FP4GEN_RUN_QUANTIZE_H

#include "gen/run.h"

/* The kernel's text and its manifest; like verb_run() from there on.  `map`: where its
 * lines come from, or NULL. */
int run_quantize(const struct run_options *o, const struct image *image,
                 const char *ptx, size_t ptx_bytes, const struct line_map *map,
                 struct diags *d, FILE *out, FILE *err);

#endif
