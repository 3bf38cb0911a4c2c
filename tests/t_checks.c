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

/* The kernel that does wrong, with its line marked. */
static char *bad_one(struct arena *a, const char *text)
{
    char *bad = without(a, text, "//good");
    char *mark = strstr(bad, "//bad <");
    if (mark)
        memcpy(mark, "//<    ", 7);
    return bad;
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
    const char *bad = bad_one(a, text);
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

/* ---- the examples of docs/emulator-checks.md */

/* Words with one space between them, without what documents leave out: the name of
 * kernel and file, and where memory lies. */
static const char *plain(struct arena *a, const char *text, size_t bytes)
{
    char *out = arena_alloc(a, bytes + 2), *to = out;
    for (const char *p = text, *end = text + bytes; p < end;) {
        static const char *const left_out[] = {" in kernel test", "test.ptx "};
        size_t skip = 0;
        for (size_t i = 0; i < COUNT_OF(left_out); i++)
            if (strncmp(p, left_out[i], strlen(left_out[i])) == 0)
                skip = strlen(left_out[i]);
        if (strncmp(p, "0x", 2) == 0 && strspn(p + 2, "0123456789abcdef") > 8)
            skip = strspn(p + 2, "0123456789abcdef") + 2;
        if (skip) {
            p += skip;
        } else if (*p == ' ' || *p == '\n') {
            if (to > out && to[-1] != ' ')
                *to++ = ' ';
            p++;
        } else {
            *to++ = *p++;
        }
    }
    while (to > out && to[-1] == ' ')
        to--;
    *to = '\0';
    return out;
}

TEST(the_document_shows_what_is_reported)
{
    struct arena *a = arena_new();
    size_t bytes;
    const char *doc = file_read(a, "docs/emulator-checks.md", &bytes);
    CHECK(doc != NULL);
    int count = 0;
    for (const char *at = strstr(doc, "\n`" FOLDER "/"); at;
         at = strstr(at, "\n`" FOLDER "/"), count++) {
        const char *name = at + 2, *block = strstr(name, "`:\n\n```\n");
        CHECK(block && block < strchr(name, '\n'));
        const char *path = arena_strndup(a, name, (size_t)(block - name));
        const char *text = file_read(a, path, &bytes);
        CHECK(text != NULL);
        const char *from = block + strlen("`:\n\n```\n"), *to = strstr(from, "```");
        const char *report = emu_script_report(a, path, bad_one(a, text));
        if (!strstr(plain(a, report, strlen(report)),
                    plain(a, from, (size_t)(to - from))))
            test_fail(path, 0, "docs/emulator-checks.md shows another report than\n%s",
                      report);
        at = to;
    }
    CHECK(count > 35);
    arena_free(a);
}
