/* manifest.h - writes what the runtime must know into the PTX (core/image.h).
 *
 * job_run() puts manifest_comment() before the template's text and
 * manifest_constant() behind it. */
#ifndef FP4GEN_MANIFEST_H
#define FP4GEN_MANIFEST_H

struct arena;
struct buf;
struct image;

/* "// fp4gen-manifest 3" to "// end-manifest", a line a key. */
void manifest_comment(const struct image *i, struct buf *out);
/* The same text without "// " as the module constant fp4gen_manifest. */
void manifest_constant(const struct image *i, struct buf *out);
/* The expression of the epilogue in a text that the runtime has read, in `a`; NULL: it
 * has none. */
const char *manifest_expr(struct arena *a, const char *ptx);

#endif
