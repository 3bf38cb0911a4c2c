/* plugin.h - the one function of libfp4gen-llvm.so.
 *
 * The library is opened with dlopen in a process of its own (gen/lower.c), because
 * loading LLVM takes 50 ms and LLVM may end the process. */
#ifndef FP4GEN_LLVM_PLUGIN_H
#define FP4GEN_LLVM_PLUGIN_H

#include <stddef.h>

#define LOWER_ENTRY "fp4gen_lower"

/* Request: "target NAME\nptx VERSION\nchunk COLUMNS\nprefix P\nnames V ALPHA ROW COL M
 * N\n", then expr_write()'s text.  Reply: as gen/lower.c reads it; malloc'ed, NULL with
 * *error (malloc'ed too) when LLVM refused.  `fatal` is told what LLVM says before it
 * ends the process. */
typedef char *lower_entry(const char *request, size_t *reply_bytes, char **error,
                          void (*fatal)(const char *text));

#endif
