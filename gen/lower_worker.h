/* lower_worker.h - the process that has LLVM loaded.
 *
 * It is started by the first request, answers one after the other, and ends with this
 * process.  If LLVM ends it, that request fails and the next one starts another. */
#ifndef FP4GEN_LOWER_WORKER_H
#define FP4GEN_LOWER_WORKER_H

#include "core/base.h"

enum worker_outcome {
    WORKER_DONE,
    WORKER_ABSENT,  /* the library cannot be opened */
    WORKER_REFUSED, /* LLVM said no, or died */
};

/* Where the library is, or would be: FP4GEN_LLVM_LIB, else beside the program. */
const char *worker_library(struct arena *a);
/* *reply: the reply, or what went wrong; in `a`. */
enum worker_outcome worker_ask(struct arena *a, const char *request, const char **reply,
                               size_t *reply_bytes);

#endif
