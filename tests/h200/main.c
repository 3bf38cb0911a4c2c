/* main.c - `make h200-test`: runs tma_copy.ptx on a real GPU (or --driver emu).
 *
 * The program and libfp4gen's sources are all that it needs, besides cuda.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/h200/tma_copy.h"

static char *read_text(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        if (size > 0 && fseek(f, 0, SEEK_SET) == 0 && (text = malloc((size_t)size)))
            *bytes = fread(text, 1, (size_t)size, f);
    }
    if (f)
        fclose(f);
    return text;
}

int main(int argc, char **argv)
{
    fp4gen_driver driver = FP4GEN_DRIVER_CUDA;
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--driver") == 0 && i + 1 < argc)
            driver =
                strcmp(argv[++i], "emu") == 0 ? FP4GEN_DRIVER_EMU : FP4GEN_DRIVER_CUDA;
        else
            path = argv[i];
    }
    size_t bytes = 0;
    char *ptx = path ? read_text(path, &bytes) : NULL;
    if (!ptx) {
        fprintf(stderr, "usage: %s [--driver cuda|emu] tests/h200/tma_copy.ptx\n",
                argv[0]);
        return 2;
    }
    int failed = tma_copy_test(driver, ptx, bytes, stdout);
    free(ptx);
    return failed != 0;
}
