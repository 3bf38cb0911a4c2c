/* conform.h - one PTX instruction after the other, on edge cases: a GPU against the
 * emulator.
 *
 * tests/h200/conform.txt lists the instructions, conform_h200.txt what an H200 made of
 * them: a line for each, with hashes of the results.  conform_run() goes through the
 * list with either driver. */
#ifndef FP4GEN_TESTS_CONFORM_H
#define FP4GEN_TESTS_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/fp4gen.h"

#define CONFORM_SOURCES 5
#define CONFORM_GROUPS 8

struct conform_case {
    char key[96];    /* "add.s32", or the label of a longer text */
    char types[8];   /* letter of the result, then of the sources */
    char text[1024]; /* PTX, with %0 ... */
    uint32_t threads;
    bool loose; /* approximations: the emulator rounds correctly, so bits may differ */
    uint32_t hashes[CONFORM_GROUPS]; /* of results, 16 bits each */
};

struct conform {
    struct conform_case *cases;
    size_t count;
    char wrong[512]; /* what is the matter with the list, "" when nothing is */
};

/* Reads the list; false: c->wrong says why. */
bool conform_read(struct conform *c, const char *text);
void conform_free(struct conform *c);

/* Source k (from 1) of thread t. */
uint64_t conform_source(const struct conform_case *c, uint32_t t, int k);

/* Runs all, fills in hashes; `dump`, if not NULL, gets the results themselves: for each
 * case threads times 8 bytes (16 for a result of type q).  False: err. */
bool conform_run(struct conform *c, fp4gen_driver driver, FILE *dump,
                 fp4gen_error *err);

/* One line a case.  Compares with such lines; returns how many differ or are missing,
 * and says so on `out`. */
void conform_write(const struct conform *c, FILE *out);
int conform_compare(const struct conform *c, const char *recorded, FILE *out);

#endif
