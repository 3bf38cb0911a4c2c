/* manifest_read.h - reading one line of a manifest; for the files of the reader alone.
 *
 *   manifest.c        the text: where the manifest stands, its copy, the directives
 *   manifest_keys.c   keys, and which of them a kernel has
 *   manifest_items.c  tensors, outputs, arguments, parameters */
#ifndef FP4GEN_RUNTIME_MANIFEST_READ_H
#define FP4GEN_RUNTIME_MANIFEST_READ_H

#include <stdbool.h>

#include "core/base.h"
#include "core/image.h"
#include "runtime/error.h"

struct span { /* borrowed text, not NUL-terminated */
    const char *at;
    size_t chars;
};

struct reader {
    struct image *out;
    fp4gen_error *err;
    const char *rest, *end; /* of the text */
    int line;
    struct span key, value; /* of the line that is being read */
};

bool span_is(struct span s, const char *text);
/* Characters of it that a message repeats. */
int span_shown(struct span s);
/* The part of `s` up to `stop`, which is taken away from it together with the stop;
 * all of it when there is no stop. */
struct span span_take(struct span *s, char stop);
/* "NAME=" and what follows up to the next space. */
bool span_take_field(struct span *rest, const char *name, struct span *out);
bool span_u64(struct span s, uint64_t max, uint64_t *out);
bool span_u32(struct span s, uint32_t min, uint32_t max, uint32_t *out);
/* -1: none of them. */
int span_find(struct span s, const char *const *names, size_t count);

/* Reports a value that is not allowed; false. */
bool bad_value(const struct reader *r, struct span value, const char *allowed);
/* Into a field of `bytes` with its NUL; printable characters only. */
bool read_text(const struct reader *r, struct span s, char *out, size_t bytes);

/* The line's value goes into the image.  False after a report. */
bool read_tensor(struct reader *r);
bool read_output(struct reader *r);
bool read_arg(struct reader *r);
bool read_param(struct reader *r);

/* The line "key: value" in r->key and r->value; notes the key in *seen. */
bool read_key(struct reader *r, uint32_t *seen);
/* Behind the last line: has the kernel all keys that it needs, and no other? */
bool check_keys(const struct reader *r, uint32_t seen);

#endif
