/* fuzz_npy.c - damaged .npy files for the reader of matrices. */
#include "core/base.h"
#include "gen/npy.h"
#include "tests/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

const char *const fuzz_name = "npy";

const struct fuzz_seed *fuzz_seeds(void)
{
    static const char f32[] =
        "\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } "
        "  "
        "                                                         \n"
        "abcdabcdabcdabcdabcdabcd";
    static const char f16[] = "\x93NUMPY\x02\0F\0\0\0{'shape': (4, 2), 'descr': '<f2', "
                              "'fortran_order': False, }"
                              "          \nabababababababab";
    static const struct fuzz_seed seeds[] = {
        {f32, sizeof f32 - 1}, {f16, sizeof f16 - 1}, {NULL, 0}};
    return seeds;
}

void fuzz_one(const char *text, size_t bytes)
{
    const char *path = "build/fuzz-npy.npy";
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct npy n;
    if (npy_read(path, true, &n, d)) {
        float sum = 0; /* all of it must be there */
        for (size_t i = 0; i < n.rows * n.cols; i++)
            sum += n.data[i];
        volatile float sink = sum;
        (void)sink;
        npy_free(&n);
    } else if (d->count == 0) {
        abort(); /* refused without saying why */
    }
    arena_free(a);
}
