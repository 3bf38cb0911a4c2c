/* conform_main.c - `make h200-conform`: asks a GPU (or --driver emu) what the
 * instructions of conform.txt make of their edge cases.
 *
 *   conform [--driver cuda|emu] [--dump FILE] --record FILE    writes what was recorded
 *   conform [--driver cuda|emu] [--dump FILE] --compare FILE   compares with it */
#include <stdlib.h>
#include <string.h>

#include "tests/h200/conform.h"

static char *read_text(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        if (size >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
            (text = malloc((size_t)size + 1))) {
            bytes = fread(text, 1, (size_t)size, f);
            text[bytes] = '\0';
        }
    }
    if (f)
        fclose(f);
    return text;
}

static int usage(void)
{
    fprintf(stderr, "usage: conform [--driver cuda|emu] [--dump FILE] "
                    "--record FILE | --compare FILE\n");
    return 2;
}

int main(int argc, char **argv)
{
    fp4gen_driver driver = FP4GEN_DRIVER_CUDA;
    const char *record = NULL, *compare = NULL, *dump = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--driver") == 0)
            driver = strcmp(argv[i + 1], "emu") == 0 ? FP4GEN_DRIVER_EMU
                                                     : FP4GEN_DRIVER_CUDA;
        else if (strcmp(argv[i], "--record") == 0)
            record = argv[i + 1];
        else if (strcmp(argv[i], "--compare") == 0)
            compare = argv[i + 1];
        else if (strcmp(argv[i], "--dump") == 0)
            dump = argv[i + 1];
        else
            return usage();
    }
    if (argc % 2 == 0 || !record == !compare)
        return usage();
    struct conform c;
    fp4gen_error err = {0};
    char *list = read_text("tests/h200/conform.txt"), *recorded = read_text(compare);
    if (!list || (compare && !recorded)) {
        fprintf(stderr, "cannot read %s\n", list ? compare : "tests/h200/conform.txt");
        return 2;
    }
    if (!conform_read(&c, list)) {
        fprintf(stderr, "conform.txt: %s\n", c.wrong);
        return 2;
    }
    FILE *to = dump ? fopen(dump, "wb") : NULL,
         *out = record ? fopen(record, "w") : NULL;
    if ((dump && !to) || (record && !out)) {
        fprintf(stderr, "cannot write %s\n", dump && !to ? dump : record);
        return 2;
    }
    int wrong = 0;
    if (!conform_run(&c, driver, to, &err)) {
        fprintf(stderr, "%s [%s]\n", err.text, err.code);
        wrong = 1;
    } else if (record) {
        conform_write(&c, out);
    } else {
        wrong = conform_compare(&c, recorded, stdout);
        printf("%zu instructions, %d differ\n", c.count, wrong);
    }
    if (to)
        wrong |= fclose(to) != 0;
    if (out)
        wrong |= fclose(out) != 0;
    conform_free(&c);
    free(list);
    free(recorded);
    return wrong != 0;
}
