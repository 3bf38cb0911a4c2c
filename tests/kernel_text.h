/* kernel_text.h - a PTX text that passes for a kernel of ours, and changes to it. */
#ifndef FP4GEN_KERNEL_TEXT_H
#define FP4GEN_KERNEL_TEXT_H

#include "core/base.h"

/* Lines of a manifest, from "fp4gen-manifest 3" to "end-manifest". */
extern const char kernel_manifest[];
/* Of a kernel with two outputs and four arguments. */
extern const char kernel_epilogue[];

/* A PTX text around the lines of a manifest: comment, an empty kernel
 * fp4gen_test_kernel, constant. */
char *kernel_text(struct arena *a, const char *manifest);
/* `text` with the first `from` replaced by `to`; the test fails when there is none. */
char *text_replaced(struct arena *a, const char *text, const char *from,
                    const char *to);

#endif
