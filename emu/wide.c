#include "emu/wide.h"

#include <math.h>
#include <stdbool.h>

void wide_add(struct wide *w, int64_t value, int exponent)
{
    int shift = exponent - WIDE_UNIT;
    uint64_t magnitude = (uint64_t)(value < 0 ? -value : value); /* below 2^32 */
    uint64_t low = magnitude << (shift % 32);
    int64_t sign = value < 0 ? -1 : 1;
    w->digit[shift / 32] += sign * (int64_t)(low & 0xffffffff);
    w->digit[shift / 32 + 1] += sign * (int64_t)(low >> 32);
}

/* Carries until all digits but the highest are in 0 .. 2^32 - 1. */
static void wide_settle(struct wide *w)
{
    for (int i = 0; i + 1 < WIDE_DIGITS; i++) {
        int64_t low = (int64_t)((uint64_t)w->digit[i] & 0xffffffff);
        w->digit[i + 1] += (w->digit[i] - low) / ((int64_t)1 << 32);
        w->digit[i] = low;
    }
}

static bool wide_bit(const struct wide *w, int bit)
{
    return w->digit[bit / 32] >> (bit % 32) & 1;
}

double wide_to_odd(struct wide *w)
{
    wide_settle(w);
    bool negative = w->digit[WIDE_DIGITS - 1] < 0;
    if (negative) {
        for (int i = 0; i < WIDE_DIGITS; i++)
            w->digit[i] = -w->digit[i];
        wide_settle(w);
    }
    int top = WIDE_DIGITS * 32 - 1;
    while (top >= 0 && !wide_bit(w, top))
        top--;
    int unit = top > 52 ? top - 52 : 0;
    uint64_t kept = 0;
    for (int i = top; i >= unit; i--)
        kept = kept << 1 | wide_bit(w, i);
    for (int i = 0; i < unit; i++)
        kept |= wide_bit(w, i);
    double result = ldexp((double)kept, unit + WIDE_UNIT);
    return negative ? -result : result;
}

float wide_round(struct wide *w)
{
    return (float)wide_to_odd(w);
}
