/* natural.h - long integers for tests of rounding: sums that nothing is lost from.
 *
 * Nothing but integer arithmetic on 16-bit digits, and nothing that the emulator uses.
 */
#ifndef FP4GEN_TESTS_NATURAL_H
#define FP4GEN_TESTS_NATURAL_H

#include <stdbool.h>
#include <stdint.h>

/* 2^-400 is the unit; all that an mma adds lies below 2^400. */
#define DIGITS 50
#define UNIT_EXPONENT (-400)

struct natural {
    uint32_t digit[DIGITS + 4];
};

static inline void natural_add(struct natural *n, uint32_t value, int exponent)
{
    int shift = exponent - UNIT_EXPONENT;
    uint64_t low = (uint64_t)value << (shift % 16);
    for (int i = shift / 16; low != 0; i++, low >>= 16) {
        low += n->digit[i];
        n->digit[i] = low & 0xffff;
    }
}

static inline int natural_compare(const struct natural *a, const struct natural *b)
{
    for (int i = DIGITS + 3; i >= 0; i--)
        if (a->digit[i] != b->digit[i])
            return a->digit[i] > b->digit[i] ? 1 : -1;
    return 0;
}

static inline struct natural natural_subtract(const struct natural *a,
                                              const struct natural *b)
{
    struct natural r;
    uint32_t borrow = 0;
    for (int i = 0; i < DIGITS + 4; i++) {
        uint32_t take = b->digit[i] + borrow;
        borrow = a->digit[i] < take;
        r.digit[i] = (a->digit[i] + (borrow << 16)) - take;
    }
    return r;
}

static inline unsigned natural_bit(const struct natural *n, int exponent)
{
    int bit = exponent - UNIT_EXPONENT;
    return n->digit[bit / 16] >> (bit % 16) & 1;
}

/* Bits of the f32 nearest to n, ties to even. */
static inline uint32_t natural_to_f32(const struct natural *n)
{
    int top = 399;
    while (top > UNIT_EXPONENT && !natural_bit(n, top))
        top--;
    if (!natural_bit(n, top))
        return 0;
    int last = top - 23 < -149 ? -149 : top - 23;
    uint32_t kept = 0;
    for (int e = top; e >= last; e--)
        kept = kept * 2 + natural_bit(n, e);
    bool above_half = false;
    for (int e = UNIT_EXPONENT; e < last - 1; e++)
        above_half |= natural_bit(n, e) != 0;
    if (natural_bit(n, last - 1) && (above_half || kept % 2 == 1))
        kept++;
    if (kept == 1 << 24) {
        kept = 1 << 23;
        last++;
    }
    if (kept < 1 << 23)
        return kept; /* subnormal: last is -149 */
    return last + 150 >= 255 ? 0x7f800000
                             : (uint32_t)(last + 150) << 23 | (kept - (1 << 23));
}

/* Drops what lies below 2^exponent. */
static inline void natural_cut(struct natural *n, int exponent)
{
    for (int e = UNIT_EXPONENT; e < exponent && e < 400; e++) {
        int bit = e - UNIT_EXPONENT;
        n->digit[bit / 16] &= ~(1u << (bit % 16));
    }
}

/* Bits of the largest f32 not above n. */
static inline uint32_t natural_cut_to_f32(struct natural *n)
{
    int top = 399;
    while (top > UNIT_EXPONENT && !natural_bit(n, top))
        top--;
    natural_cut(n, top - 23 < -149 ? -149 : top - 23);
    return natural_to_f32(n);
}

#endif
