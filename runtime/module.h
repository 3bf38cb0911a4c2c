/* module.h - a loaded PTX text and its launches, for the other files of the runtime. */
#ifndef FP4GEN_RUNTIME_MODULE_H
#define FP4GEN_RUNTIME_MODULE_H

#include "runtime/device.h"

struct fp4gen_module {
    fp4gen_device *dev; /* borrowed: closed after the module */
    CUmodule module;
};

/* The driver and the manifest's reader want a NUL at the end.  malloc; NULL: no memory.
 */
char *copy_text(const char *ptx, size_t bytes);

/* A function that may be launched with `smem_bytes` of dynamic shared memory. */
fp4gen_status module_function(const fp4gen_module *m, const char *entry,
                              uint32_t smem_bytes, CUfunction *out, fp4gen_error *err);
fp4gen_status module_launch(const fp4gen_module *m, CUfunction function,
                            const fp4gen_launch *l, fp4gen_error *err);

#endif
