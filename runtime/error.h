/* error.h - fills the caller's fp4gen_error from the texts of core/diag.def. */
#ifndef FP4GEN_RUNTIME_ERROR_H
#define FP4GEN_RUNTIME_ERROR_H

#include "core/diag.h"
#include "runtime/fp4gen.h"

/* The texts as literals, so that the compiler checks the arguments against them. */
#define DIAG(id, code, text) static const char error_text_##id[] = text;
#include "core/diag.def"
#undef DIAG

#define ERROR(id) DIAG_##id, error_text_##id

/* uint64_t is written %llu in the texts. */
#define U64(x) ((unsigned long long)(x))

/* Returns `status`, so that `return fail(...)` ends a function:
 *     return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(GEMM_ODD_K), g->k);
 * `err` may be NULL. */
fp4gen_status fail(fp4gen_error *err, fp4gen_status status, enum diag_code code,
                   const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Adds to the text, on a line of its own. */
void fail_note(fp4gen_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
