/* splice.h - what LLVM wrote for one function, as a block for a template.
 *
 * Marks become register names (see emit.h), LLVM's registers are numbered anew and get
 * the prefix, labels too; prologue, declarations and ret go. */
#ifndef FP4GEN_LLVM_SPLICE_H
#define FP4GEN_LLVM_SPLICE_H

#include <stdbool.h>

#include "core/base.h"

struct splice {
    struct buf body;       /* instructions, two spaces in, each with its newline */
    struct buf regs;       /* ".reg" lines for the registers in it */
    int insns, rare_insns; /* rare: behind a branch that is usually taken */
    int live_words;        /* most 32-bit registers that hold a value at once */
};

/* `ptx`: the module; `function`: the name of one in it.  False: not understood.
 * `constants`: do pairs of constants count as live?  ptxas keeps some of them in
 * registers all along the loop and spills others for it, in long blocks where all
 * columns are computed together; as one word each they are about right there. */
bool splice_function(struct arena *a, const char *ptx, const char *function,
                     const char *prefix, bool constants, struct splice *out);

#endif
