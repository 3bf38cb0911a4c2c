/* manifest.h - reads what a launch needs from the PTX's own text.
 *
 * core/image.h says how the manifest looks, gen/manifest.c writes it.  It stands in the
 * text twice, as comment and as constant; a file whose two copies differ is truncated
 * or was edited by hand, and is refused. */
#ifndef FP4GEN_RUNTIME_MANIFEST_H
#define FP4GEN_RUNTIME_MANIFEST_H

#include "core/image.h"
#include "runtime/fp4gen.h"

/* `ptx` is borrowed by `out`; ptx[bytes] must be NUL. */
fp4gen_status manifest_read(struct image *out, const char *ptx, size_t bytes,
                            fp4gen_error *err);

#endif
