/* epilogue_lab.h - kernels with epilogues on the emulator, and what comes out of them.
 *
 *     struct lab *lab = lab_open();
 *     struct job *j = lab_job(&(struct lab_kernel){.tile_n = 128, .epilogue =
 * "swiglu"}); struct lab_run *r = lab_run(lab, j, lab_problem(lab, 300, 520, 464),
 * 0.002f); lab_check(r); lab_run_free(r);
 *
 * Whatever goes wrong fails the test. */
#ifndef FP4GEN_EPILOGUE_LAB_H
#define FP4GEN_EPILOGUE_LAB_H

#include "gen/job.h"
#include "gen/run_outputs.h"
#include "runtime/fp4gen.h"

struct lab;

struct lab_kernel {
    int tile_n, tile_k; /* 0: 256 */
    const char *d_type, *target;
    const char *epilogue; /* a name, or "function(e) ... end" */
    bool is_refused;      /* diagnostics are expected: job->diags */
};

/* Random operands, and their sums by a kernel without epilogue. */
struct lab_problem {
    uint32_t m, n, k;
    uint64_t a, b, sfa, sfb; /* on the device */
    float *sums;             /* m x n */
    bool is_pattern;
};

struct lab_run {
    const struct job *job;
    struct image image;
    const struct lab_problem *problem;
    float alpha;
    struct run_arg args[IMAGE_MAX_ARGS];
    struct run_output outs[IMAGE_MAX_OUTPUTS];
};

struct lab *lab_open(void);
void lab_close(struct lab *lab);
struct job *lab_job(const struct lab_kernel *k);
/* Made when first asked for. */
const struct lab_problem *lab_problem(struct lab *lab, uint32_t m, uint32_t n,
                                      uint32_t k);
/* Sums of chosen values: those of row r and column c are the E2M1 values of row_code(r)
 * and col_code(c) multiplied. */
typedef unsigned lab_code(size_t i);
const struct lab_problem *lab_pattern(struct lab *lab, uint32_t m, uint32_t n,
                                      lab_code *row_code, lab_code *col_code);
/* Random arguments, but `set`. */
struct lab_run *lab_run_with(struct lab *lab, const struct job *j,
                             const struct lab_problem *p, float alpha,
                             const struct run_setting *set, int set_count);
struct lab_run *lab_run(struct lab *lab, const struct job *j,
                        const struct lab_problem *p, float alpha);
/* Every bit of every output, nothing beside them. */
void lab_check(const struct lab_run *r);
void lab_run_free(struct lab_run *r);

#endif
