/* run_state.h - one `gen run`, for the files that it is made of: run.c, which does it,
 * run_inputs.c, which reads what it multiplies, and run_verify.c, which looks at what
 * came out. */
#ifndef FP4GEN_RUN_STATE_H
#define FP4GEN_RUN_STATE_H

#include "core/image.h"
#include "gen/npy.h"
#include "gen/run.h"
#include "gen/run_data.h"
#include "gen/run_outputs.h"
#include "runtime/fp4gen.h"
#include "tests/ref.h"

/* One run: everything that must be given back at its end. */
struct run {
    const struct run_options *o;
    FILE *out, *err;
    struct arena *arena;
    struct diags *diags;
    struct job *job;         /* NULL when the kernel comes from a file */
    const struct expr *expr; /* of the epilogue; NULL: identity, or unknown */
    const char *ptx;
    size_t ptx_bytes;
    struct image image;
    struct npy a_file, b_file, sfa_file, sfb_file;
    struct operand a, b;
    struct run_arg args[IMAGE_MAX_ARGS];
    struct run_output outs[IMAGE_MAX_OUTPUTS];
    float alpha; /* with the global scales of A and B in it */
    fp4gen_device *device;
    fp4gen_device_info info;
    fp4gen_kernel *kernel;
    fp4gen_gemm gemm;
    fp4gen_output gemm_outputs[IMAGE_MAX_OUTPUTS];
    fp4gen_arg gemm_args[IMAGE_MAX_ARGS];
    double seconds; /* of the fastest launch */
};

/* Both print or note what is wrong, and return false. */
bool run_print_error(const struct run *r, const fp4gen_error *e);
bool run_no_memory(const struct run *r, const char *what);
/* The matrices that are given as files. */
bool run_read_inputs(struct run *r);
/* Fills in gemm's sizes and strides; false after a report: a misuse. */
bool run_choose_sizes(struct run *r);
/* The operands: from the files, or random. */
bool run_make_operands(struct run *r);
struct ref_gemm run_reference(const struct run *r, float alpha);
/* Was everything written, and nothing else; and, if that is asked for, is it right? */
bool run_verify(struct run *r);
/* Both operands came from files: how much of their product has FP4 cost? */
void run_print_loss(const struct run *r);

#endif
