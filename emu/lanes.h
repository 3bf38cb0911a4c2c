/* lanes.h - how an exec_ function walks its lanes, and bits as integers.
 *
 * Registers are read and written as uint32_t or uint64_t lanes only; floats go through
 * the casts of core/base.h.  A full warp takes a plain loop over 32 lanes into a local
 * array, which compilers turn into vector code, since the array cannot overlap a
 * register. */
#ifndef FP4EMU_LANES_H
#define FP4EMU_LANES_H

#include "emu/machine.h"
#include "emu/report.h"

/* Two's complement values without the conversions that C leaves to the implementation
 * being visible everywhere. */
static inline int32_t s32_of(uint32_t x)
{
    int32_t s;
    memcpy(&s, &x, sizeof s);
    return s;
}

static inline int64_t s64_of(uint64_t x)
{
    int64_t s;
    memcpy(&s, &x, sizeof s);
    return s;
}

static inline int32_t s16_of(uint32_t x)
{
    return s32_of((x & 0xffffu) ^ 0x8000u) - 0x8000;
}

static inline int32_t s8_of(uint32_t x)
{
    return s32_of((x & 0xffu) ^ 0x80u) - 0x80;
}

#define EACH(i) for (int i = 0; i < WARP_LANES; i++)

/* static exec_NAME with one to three sources; `expr` computes the destination's lane
 * from a, b, c, whose C types are TA, TB, TC (uint32_t or uint64_t). */
#define EXEC1(name, TD, TA, expr)                                                      \
    static enum flow exec_##name(struct warp *w, const struct op *op, uint32_t lanes)  \
    {                                                                                  \
        TD *d_ = opnd_lanes(w, &op->opnds[0]);                                         \
        const TA *a_ = opnd_lanes(w, &op->opnds[1]);                                   \
        if (lanes == ALL_LANES) {                                                      \
            TD t_[WARP_LANES];                                                         \
            EACH(i_)                                                                   \
            {                                                                          \
                const TA a = a_[i_];                                                   \
                t_[i_] = (TD)(expr);                                                   \
            }                                                                          \
            memcpy(d_, t_, sizeof t_);                                                 \
            return FLOW_NEXT;                                                          \
        }                                                                              \
        for (uint32_t rest_ = lanes; rest_; rest_ &= rest_ - 1) {                      \
            int i_ = bits_lowest(rest_);                                               \
            const TA a = a_[i_];                                                       \
            d_[i_] = (TD)(expr);                                                       \
        }                                                                              \
        return FLOW_NEXT;                                                              \
    }

#define EXEC2(name, TD, TA, TB, expr)                                                  \
    static enum flow exec_##name(struct warp *w, const struct op *op, uint32_t lanes)  \
    {                                                                                  \
        TD *d_ = opnd_lanes(w, &op->opnds[0]);                                         \
        const TA *a_ = opnd_lanes(w, &op->opnds[1]);                                   \
        const TB *b_ = opnd_lanes(w, &op->opnds[2]);                                   \
        if (lanes == ALL_LANES) {                                                      \
            TD t_[WARP_LANES];                                                         \
            EACH(i_)                                                                   \
            {                                                                          \
                const TA a = a_[i_];                                                   \
                const TB b = b_[i_];                                                   \
                t_[i_] = (TD)(expr);                                                   \
            }                                                                          \
            memcpy(d_, t_, sizeof t_);                                                 \
            return FLOW_NEXT;                                                          \
        }                                                                              \
        for (uint32_t rest_ = lanes; rest_; rest_ &= rest_ - 1) {                      \
            int i_ = bits_lowest(rest_);                                               \
            const TA a = a_[i_];                                                       \
            const TB b = b_[i_];                                                       \
            d_[i_] = (TD)(expr);                                                       \
        }                                                                              \
        return FLOW_NEXT;                                                              \
    }

#define EXEC3(name, TD, TA, TB, TC, expr)                                              \
    static enum flow exec_##name(struct warp *w, const struct op *op, uint32_t lanes)  \
    {                                                                                  \
        TD *d_ = opnd_lanes(w, &op->opnds[0]);                                         \
        const TA *a_ = opnd_lanes(w, &op->opnds[1]);                                   \
        const TB *b_ = opnd_lanes(w, &op->opnds[2]);                                   \
        const TC *c_ = opnd_lanes(w, &op->opnds[3]);                                   \
        if (lanes == ALL_LANES) {                                                      \
            TD t_[WARP_LANES];                                                         \
            EACH(i_)                                                                   \
            {                                                                          \
                const TA a = a_[i_];                                                   \
                const TB b = b_[i_];                                                   \
                const TC c = c_[i_];                                                   \
                t_[i_] = (TD)(expr);                                                   \
            }                                                                          \
            memcpy(d_, t_, sizeof t_);                                                 \
            return FLOW_NEXT;                                                          \
        }                                                                              \
        for (uint32_t rest_ = lanes; rest_; rest_ &= rest_ - 1) {                      \
            int i_ = bits_lowest(rest_);                                               \
            const TA a = a_[i_];                                                       \
            const TB b = b_[i_];                                                       \
            const TC c = c_[i_];                                                       \
            d_[i_] = (TD)(expr);                                                       \
        }                                                                              \
        return FLOW_NEXT;                                                              \
    }

/* A predicate register's new value: `mask` in `lanes`, the old one elsewhere. */
static inline void set_mask(struct warp *w, const struct opnd *o, uint32_t lanes,
                            uint32_t mask)
{
    uint32_t *p = opnd_lanes(w, o);
    *p = (*p & ~lanes) | (mask & lanes);
}

/* Writes the same value to a 32-bit register of `lanes`. */
static inline void set_all32(struct warp *w, const struct opnd *o, uint32_t lanes,
                             uint32_t value)
{
    uint32_t *d = opnd_lanes(w, o);
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
        d[bits_lowest(rest)] = value;
}

#endif
