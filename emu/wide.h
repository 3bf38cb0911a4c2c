/* wide.h - sums of products without any rounding, in fixed point.
 *
 * Wide enough for products of two bf16, two tf32, two scaled elements, and for an f32:
 * from 2^-320 to 2^300. */
#ifndef FP4EMU_WIDE_H
#define FP4EMU_WIDE_H

#include <stdint.h>

#define WIDE_DIGITS 20 /* of 32 bits */
#define WIDE_UNIT (-320)

/* All zero: 0.  Digits are signed until settled. */
struct wide {
    int64_t digit[WIDE_DIGITS];
};

/* Adds value * 2^exponent; |value| is below 2^32, and at most 2^31 are added. */
void wide_add(struct wide *w, int64_t value, int exponent);
/* As an f64 whose last bit is set if anything is cut off behind it: one more rounding,
 * to 50 bits or fewer, is then right. */
double wide_to_odd(struct wide *w);
/* The nearest f32, ties to even. */
float wide_round(struct wide *w);

#endif
