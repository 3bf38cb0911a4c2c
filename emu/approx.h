/* approx.h - results of approximate instructions (.approx, .full).
 *
 * Hardware is a few units off in the last place, as docs/numerics.md lists; which way
 * changes from part to part.  Here results are the correctly rounded ones, or, with
 * FP4EMU_APPROX=perturb, those or a neighbour: which one is a function of the seed, the
 * instruction and its operands.  A kernel whose output then changes by more than it may
 * relies on what no hardware promises. */
#ifndef FP4EMU_APPROX_H
#define FP4EMU_APPROX_H

#include "emu/floats.h"

/* `bits` is the correctly rounded result in `f` from the operands a and b (0: it has
 * one). What the PTX ISA's tables fix stays: NaN, infinity and zero as operand or
 * result, and subnormal operands, which count as zero there.  With ftz no result is
 * subnormal. */
static inline uint32_t approx_result(const struct warp *w, const struct op *op,
                                     const struct format *f, bool ftz, uint32_t bits,
                                     uint32_t a, uint32_t b)
{
    const struct grid *g = w->cta->cluster->grid;
    uint32_t sign = (uint32_t)1 << (f->exp_bits + f->man_bits), size = bits & ~sign;
    uint32_t normal = (uint32_t)1 << f->man_bits, operand = a & (sign - 1);
    if (!g->perturb || size == 0 || size > f->max || operand < normal ||
        operand > f->max)
        return bits;
    uint64_t h = g->seed * 0x9e3779b97f4a7c15u + (uint64_t)op->insn->op;
    h = (h ^ ((uint64_t)b << 32 | a)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 29) * 0x94d049bb133111ebu;
    uint32_t other = size + (uint32_t)((h >> 33) % 3) - 1;
    bool fits = other <= f->max && other >= (ftz ? normal : 1);
    return (bits & sign) | (fits ? other : size);
}

#endif
