/* fuzz.h - mutated input for one parser, for some seconds.
 *
 * Each fuzz_NAME.c defines fuzz_name, fuzz_seeds and fuzz_one(), and becomes a program:
 *
 *     build/release-san-clang/tests/fuzz_ptx [SECONDS [SEED]]
 *
 * A crash is the sanitizer's; the input that made it stands in build/crash-NAME.  */
#ifndef FP4GEN_FUZZ_H
#define FP4GEN_FUZZ_H

#include <stddef.h>

extern const char *const fuzz_name;
/* What to start from; `text` is NULL at the end.  Asked for once. */
struct fuzz_seed {
    const char *text;
    size_t bytes;
};
const struct fuzz_seed *fuzz_seeds(void);
/* `text` ends in a NUL that `bytes` does not count. */
void fuzz_one(const char *text, size_t bytes);

#endif
