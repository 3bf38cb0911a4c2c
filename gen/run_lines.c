#include "gen/run_lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES 200 /* of one report; a deadlock names many */

/* The emulator's extension fp4emu_last_report (emu/fp4emu.h), if the driver has it.
 * NULL: there is nothing.  To be freed. */
static char *last_report(const fp4gen_device *d)
{
    size_t (*get)(char *, size_t) = NULL;
    void *symbol = fp4gen_driver_symbol(d, "fp4emu_last_report");
    memcpy(&get, &symbol, sizeof symbol);
    size_t bytes = get ? get(NULL, 0) : 0;
    char *text = bytes ? malloc(bytes + 1) : NULL;
    if (text)
        get(text, bytes + 1);
    return text;
}

static int ascending(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* All N of "line N". */
static int find_lines(const char *text, int *lines)
{
    int count = 0;
    for (const char *p = text; (p = strstr(p, "line ")) && count < MOST_LINES;) {
        p += 5;
        if (isdigit((unsigned char)*p))
            lines[count++] = atoi(p);
    }
    qsort(lines, (size_t)count, sizeof *lines, ascending);
    return count;
}

void run_tell_lines(const fp4gen_device *d, const struct line_map *map, FILE *err)
{
    const char *quiet = getenv("FP4EMU_QUIET");
    int lines[MOST_LINES], told = 0;
    char *text = quiet && strcmp(quiet, "1") == 0 ? NULL : last_report(d);
    int count = text ? find_lines(text, lines) : 0;
    for (int i = 0; i < count; i++) {
        int at = lines[i] - 1;
        bool is_new = i == 0 || lines[i] != lines[i - 1];
        if (!is_new || at < 0 || at >= map->count || map->lines[at] == 0)
            continue;
        fprintf(err, "%s  line %d is from %s:%d\n",
                told++ ? "" : "these lines of the PTX come from templates:\n", lines[i],
                map->files[at], map->lines[at]);
    }
    free(text);
}
