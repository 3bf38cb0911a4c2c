/* run_check.h - compares D with the independent reference, tests/ref.h. */
#ifndef FP4GEN_RUN_CHECK_H
#define FP4GEN_RUN_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/ref.h"

struct npy;

#define GUARD_BYTES 4096 /* before and behind D */
#define GUARD_BYTE 0xa5  /* there, and between D's rows */
/* Of D's elements before a launch: a NaN, which kernels seldom write.  Where they seem
 * to have written nothing, another launch with the other one tells. */
#define POISON_BYTE 0xff
#define OTHER_POISON_BYTE 0x5a

struct d_matrix {
    const uint8_t *bytes; /* guard, m rows of ld_bytes, guard */
    size_t m, n, ld_bytes;
    bool is_f32;
    size_t bits;    /* of an element; 0: as is_f32 says */
    uint8_t poison; /* what elements were made of */
};

/* Fills `bytes`, which are D's from now on, with guards and `poison`. */
void d_poison(struct d_matrix *d, uint8_t *bytes, uint8_t poison);
double d_element(const struct d_matrix *d, size_t row, size_t col);

struct d_place {
    size_t row, col;
};

/* Every byte must be as it was, or part of an element; every element written.  The
 * latter shows in elements of 16 and 32 bits, where the poison is a NaN. */
struct d_touched {
    size_t unwritten, strayed; /* elements, bytes */
    struct d_place first_unwritten;
    int64_t first_strayed; /* bytes from the start of D */
};
struct d_touched d_check_touched(const struct d_matrix *d);
/* The same, of D after two launches with another poison each: an element that is
 * neither poison, or both, is written. */
struct d_touched d_check_touched_twice(const struct d_matrix *d,
                                       const struct d_matrix *again);

struct d_compared {
    uint64_t elements; /* that were compared */
    uint64_t wrong;    /* of them, beyond the bound */
    double worst;      /* in units of the bound */
    struct d_place at; /* of the worst */
    double got, want;
};

/* All of D in `threads` threads.  False: out of memory. */
bool d_compare_all(const struct d_matrix *d, const struct ref_gemm *g, int threads,
                   struct d_compared *out);
/* The first and last rows and columns of every tile, and `count` random elements. */
bool d_compare_part(const struct d_matrix *d, const struct ref_gemm *g, size_t tile_m,
                    size_t tile_n, size_t count, uint64_t seed, struct d_compared *out);

/* Against the product of what the operands were quantised from: the loss of FP4. */
struct d_loss {
    double relative; /* norm of the difference by the norm of the product */
    double worst;    /* largest difference */
    uint64_t elements;
};
struct d_loss d_measure_loss(const struct d_matrix *d, const struct npy *a,
                             const struct npy *b, double alpha, size_t count,
                             uint64_t seed);

#endif
