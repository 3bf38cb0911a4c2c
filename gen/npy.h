/* npy.h - matrices in NumPy's .npy files, versions 1 to 3.
 *
 * Strict: two dimensions, C order, little endian; f32, f16, bf16 as the 2-byte void
 * that numpy makes of it, or bytes.  Format: numpy's documentation, "numpy.lib.format".
 */
#ifndef FP4GEN_NPY_H
#define FP4GEN_NPY_H

#include "core/diag.h"

enum npy_type {
    NPY_F32,  /* '<f4' */
    NPY_F16,  /* '<f2' */
    NPY_U8,   /* '|u1': packed codes, FP8, bytes of scales */
    NPY_BF16, /* '|V2': numpy has no bf16 of its own */
};

struct npy {
    size_t rows, cols;
    enum npy_type type; /* of the file */
    float *data;        /* row by row, widened to f32; npy_free() */
    uint8_t *bytes;     /* of NPY_U8, in place of data */
};

/* False after a report.  2-byte void is refused unless `void_is_bf16`.  npy_read()
 * refuses bytes, npy_read_u8() all else; npy_read_any() takes both. */
bool npy_read(const char *path, bool void_is_bf16, struct npy *out, struct diags *d);
bool npy_read_u8(const char *path, struct npy *out, struct diags *d);
bool npy_read_any(const char *path, bool void_is_bf16, struct npy *out,
                  struct diags *d);
void npy_free(struct npy *n);

/* `data` is rows x cols elements of `type`, rows `stride_bytes` apart.  The file
 * appears whole or not at all. */
bool npy_write(const char *path, enum npy_type type, const void *data, size_t rows,
               size_t cols, size_t stride_bytes, struct diags *d);

#endif
