/* floats.h - rules that all f32 instructions share: canonical NaN, .ftz, .sat. */
#ifndef FP4EMU_FLOATS_H
#define FP4EMU_FLOATS_H

#include <fenv.h>
#include <math.h>

#include "emu/lanes.h"
#include "emu/round.h"

#define NAN_F32 0x7fffffffu
#define NAN_F64 0xfff8000000000000u /* what f64 instructions make out of numbers */

static inline bool is_nan32(uint32_t a)
{
    return a << 1 > 0xff000000u;
}

static inline bool is_nan64(uint64_t a)
{
    return a << 1 > 0xffe0000000000000u;
}

/* The bits of an f32 result: NaN is always the same one. */
static inline uint32_t canon(float x)
{
    return x != x ? NAN_F32 : bits_of_f32(x);
}

/* Subnormals become zero of the same sign. */
static inline uint32_t flush(uint32_t a)
{
    return (a & 0x7f800000u) == 0 ? a & 0x80000000u : a;
}

/* .ftz of a result that is `bits` in format f, and was x before it was rounded.  Zero
 * is what would be subnormal had it been rounded with as many digits as a normal number
 * has: also some that became the least normal number by losing digits (an H200). */
static inline uint32_t flush_result(const struct format *f, uint32_t bits, double x,
                                    enum rounding r)
{
    double least = ldexp(1, 1 - f->bias), step = ldexp(least, -1 - f->man_bits);
    double size = fabs(x);
    bool away = r == (signbit(x) ? ROUND_DOWN : ROUND_UP);
    if (r == ROUND_NEAREST ? size < least - step / 2
        : away             ? size <= least - step
                           : size < least)
        return bits & (uint32_t)1 << (f->exp_bits + f->man_bits);
    return bits;
}

/* [0, 1]; NaN gives 0. */
static inline uint32_t saturate(uint32_t a)
{
    if (is_nan32(a) || a >> 31)
        return 0;
    return a > 0x3f800000u ? 0x3f800000u : a;
}

/* f64 instructions keep a NaN's sign and payload. */
static inline uint64_t quiet64(uint64_t a)
{
    return a | (uint64_t)1 << 51;
}

/* An f64 result: a NaN operand passes through, quieted; other NaNs are the default.  Of
 * two it is the second one, for div the first, for fma the second, third or first. */
static inline uint64_t canon64(double x, uint64_t a, uint64_t b)
{
    if (!(x != x))
        return bits_of_f64(x);
    return is_nan64(b) ? quiet64(b) : is_nan64(a) ? quiet64(a) : NAN_F64;
}

/* Floats in the order of their values, -0 below +0, as unsigned integers. */
static inline uint32_t order32(uint32_t a)
{
    return a >> 31 ? ~a : a | 0x80000000u;
}

static inline uint64_t order64(uint64_t a)
{
    return a >> 63 ? ~a : a | (uint64_t)1 << 63;
}

/* .rn .rz .rm .rp of an opcode; nearest when it says nothing. */
static inline enum rounding rounding_of(const struct ptx_insn *i)
{
    for (int k = 0; k < i->mod_count; k++) {
        switch (i->mods[k]) {
        case PTX_M_RN:
        case PTX_M_RNI:
            return ROUND_NEAREST;
        case PTX_M_RZ:
        case PTX_M_RZI:
            return ROUND_ZERO;
        case PTX_M_RM:
        case PTX_M_RMI:
            return ROUND_DOWN;
        case PTX_M_RP:
        case PTX_M_RPI:
            return ROUND_UP;
        case PTX_M_RNA:
            return ROUND_AWAY;
        default:
            break;
        }
    }
    return ROUND_NEAREST;
}

static inline int host_rounding(enum rounding r)
{
    return r == ROUND_ZERO   ? FE_TOWARDZERO
           : r == ROUND_DOWN ? FE_DOWNWARD
           : r == ROUND_UP   ? FE_UPWARD
                             : FE_TONEAREST;
}

#endif
