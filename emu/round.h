/* round.h - one rounding from a double to any narrower float, in any direction.
 *
 * Every value of f32 and below is a double, and so is every product of two of them;
 * sums come as a double rounded to odd, which keeps what a second rounding needs to
 * know. */
#ifndef FP4EMU_ROUND_H
#define FP4EMU_ROUND_H

#include <stdbool.h>
#include <stdint.h>

enum rounding {
    ROUND_NEAREST, /* ties to even */
    ROUND_ZERO,
    ROUND_DOWN,
    ROUND_UP,
    ROUND_AWAY, /* .rna: to nearest, ties away from zero */
};

struct format {
    int exp_bits, man_bits, bias;
    uint32_t max; /* code of the largest finite value, without sign */
    uint32_t inf; /* 0: none, overflow then gives max */
    uint32_t nan; /* 0: none, NaN then gives max */
};

extern const struct format format_e2m1, format_e2m3, format_e3m2, format_e4m3,
    format_e5m2, format_f16, format_bf16, format_tf32, format_f32;

/* Code with the sign bit above exponent and mantissa.  NaN: the format's, sign clear.
 */
uint32_t float_encode(const struct format *f, double x, enum rounding r,
                      bool satfinite);
double float_decode(const struct format *f, uint32_t code);
/* The exact a * b + c (a, b, c from f32 or narrower) as a double rounded to odd: one
 * more rounding to at most 32 bits, in any direction, is then right. */
double fma_to_odd(double a, double b, double c);
/* Quotient and square root likewise. */
double div_to_odd(double a, double b);
double sqrt_to_odd(double a);

#endif
