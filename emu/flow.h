/* flow.h - the control flow graph of one PTX function, and which registers its
 * instructions touch: for whoever decides about registers (decode_regs.c,
 * decode_watch.c). */
#ifndef FP4EMU_FLOW_H
#define FP4EMU_FLOW_H

#include "core/ptx.h"

struct block {
    int from, to;                   /* instructions, `to` excluded */
    int succs[2];                   /* blocks, -1: none; more of them are in `many` */
    const struct ptx_operand *many; /* labels of brx.idx */
    uint64_t *use, *def, *in, *out;
};

struct flow_graph {
    struct arena *arena;
    const struct ptx_func *f;
    struct block *blocks;
    int block_count;
    int *block_of_insn; /* insn_count + 1 of them */
    int words;          /* of a register set */
};

/* With blocks and their successors; the sets are not there yet.  `f` has instructions.
 */
struct flow_graph flow_graph(struct arena *a, const struct ptx_func *f);

/* Is operand 0 written, and nothing but written, when it is a register? */
bool flow_writes_first(const struct ptx_insn *i);

typedef void reg_fn(void *arg, int reg, bool write);
/* Sources before destinations.  What a guard may leave as it was counts as read. */
void flow_visit(const struct ptx_insn *i, reg_fn *fn, void *arg);

static inline bool has_bit(const uint64_t *set, int i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static inline void add_bit(uint64_t *set, int i)
{
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

#endif
