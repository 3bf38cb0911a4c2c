/* run_sums.h - the sums that an epilogue starts from: the same product by the same tile
 * without epilogue, in f32. */
#ifndef FP4GEN_RUN_SUMS_H
#define FP4GEN_RUN_SUMS_H

#include "gen/job.h"
#include "runtime/fp4gen.h"

/* `g` has operands on the device; alpha is left out.  *out: m rows of *ld_bytes,
 * between guards as d_poison() makes them, to be freed.  False: `e` says why, or *job
 * has diagnostics; *job is to be freed in any case. */
bool sums_run(fp4gen_device *device, const struct job_options *o, const fp4gen_gemm *g,
              struct job **job, uint8_t **out, size_t *ld_bytes, fp4gen_error *e);

#endif
