/* nearest.h - the known word that a mistyped one was probably meant to be. */
#ifndef FP4GEN_NEAREST_H
#define FP4GEN_NEAREST_H

/* NULL when none of the `count` words is near. */
const char *nearest_word(const char *typed, const char *const *words, int count);

#endif
