/* t_checks.c - each hazard check by a small kernel that provokes it, and its twin.
 *
 * tests/checks/NN_name.ptx is both: lines that end in //bad (//bad <, where it is the
 * line to name) belong to the one that does wrong only, those that end in //good to the
 * right one only.  The first must end in a
 * report of check NN, as its comments say (emu_script.h); the other must go well, with
 * no warning, under every strategy.  Check 39 takes two launches: t_libcuda_grids.c. */
#include "tests/emu_script.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/checks"
#define CHECKS 41

/* A copy of the text without the lines that `tag` marks; their numbers stay. */
static char *without(struct arena *a, const char *text, const char *tag)
{
    size_t bytes = strlen(text) + 1;
    char *copy = arena_alloc(a, bytes);
    memcpy(copy, text, bytes);
    for (char *line = copy; *line;) {
        size_t length = strcspn(line, "\n");
        char *found = strstr(line, tag);
        if (found && found < line + length)
            memset(line, ' ', length);
        line += length + (line[length] != '\0');
    }
    return copy;
}

static void run_pair(struct arena *a, const char *path, int number)
{
    static const char *const strategies[] = {"eager", "lazy",     "reverse", "random",
                                             "pct",   "starve:0", "starve:1"};
    size_t bytes;
    const char *text = file_read(a, path, &bytes);
    char want[32];
    snprintf(want, sizeof want, "//: report %d ", number);
    CHECK(text != NULL);
    if (!strstr(text, want))
        test_fail(path, 0, "it has no line %s", want);
    char *bad = without(a, text, "//good");
    char *mark = strstr(bad, "//bad <");
    if (mark)
        memcpy(mark, "//<    ", 7);
    const char *good = without(a, without(a, text, "//bad"), "//: report");
    for (size_t i = 0; i < 2; i++)
        emu_script_run(path, bad, strategies[i], 1, 0);
    for (size_t i = 0; i < COUNT_OF(strategies); i++)
        emu_script_run(path, good, strategies[i], 1, 0);
}

static void run_range(int from, int to)
{
    struct arena *a = arena_new();
    DIR *dir = opendir(FOLDER);
    if (!dir)
        test_fail(__FILE__, __LINE__, "no folder %s here", FOLDER);
    int count[CHECKS + 1] = {0};
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        int number = atoi(e->d_name);
        if (number < from || number > to || number > CHECKS)
            continue;
        run_pair(a, arena_printf(a, "%s/%s", FOLDER, e->d_name), number);
        count[number]++;
    }
    closedir(dir);
    arena_free(a);
    for (int i = from; i <= to; i++)
        if (count[i] == 0 && i != 39)
            test_fail(__FILE__, __LINE__, "no kernel provokes check %d", i);
}

TEST(proxies_copies_and_stages)
{
    run_range(1, 5);
}

TEST(barriers)
{
    run_range(6, 11);
}

TEST(tensor_memory)
{
    run_range(12, 20);
}

TEST(memory_and_exits)
{
    run_range(21, 24);
}

TEST(threads)
{
    run_range(25, 28);
}

TEST(descriptors_and_scales)
{
    run_range(29, 31);
}

TEST(barriers_maps_alignment)
{
    run_range(32, 35);
}

TEST(races_and_scopes)
{
    run_range(36, 41);
}
