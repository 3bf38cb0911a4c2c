/* t_emu_files.c - runs tests/emu/NAME.ptx, each as its own comments say (emu_script.h).
 *
 * Every file runs under the eager and the lazy strategy; those that must go well run
 * under all others too, with several seeds. */
#include "tests/emu_script.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "tests/emu"

static void run_strategies(const char *path, const char *text, uint32_t first)
{
    static const char *const others[] = {
        "reverse",        "random",        "random:1", "pct",
        "pct:5:99",       "starve:0",      "starve:1", "starve:2-9",
        "delay:tma_load", "delay:commit:2"};
    emu_script_run(path, text, "eager", 1, first);
    emu_script_run(path, text, "lazy", 1, first);
    if (strstr(text, "//: report") || strstr(text, "//: refuse"))
        return;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        for (uint64_t seed = 1; seed <= (strchr("rp", others[i][0]) ? 5 : 1); seed++)
            emu_script_run(path, text, others[i], seed, first);
}

static void run_text(const char *path, const char *text)
{
    static const char word[] = "//: clusters";
    const char *p = strstr(text, word);
    char *end = NULL;
    if (p)
        p += sizeof word - 1;
    do {
        uint32_t first = p ? (uint32_t)strtoul(p, &end, 10) : 0;
        run_strategies(path, text, first);
        p = end;
    } while (p && *p == ' ');
}

/* All files whose name begins so; at least one. */
static void run_all(const char *prefix)
{
    struct arena *a = arena_new();
    DIR *dir = opendir(FOLDER);
    if (!dir)
        test_fail(__FILE__, __LINE__, "no folder %s here", FOLDER);
    int count = 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t bytes, length = strlen(e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || length < 5 ||
            strcmp(e->d_name + length - 4, ".ptx") != 0)
            continue;
        const char *path = arena_printf(a, "%s/%s", FOLDER, e->d_name);
        const char *text = file_read(a, path, &bytes);
        CHECK(text != NULL);
        run_text(path, text);
        count++;
    }
    closedir(dir);
    CHECK(count > 0);
    arena_free(a);
}

TEST(flow)
{
    run_all("flow_");
}

TEST(memory)
{
    run_all("mem_");
}

TEST(warps)
{
    run_all("warp_");
}

TEST(barriers)
{
    run_all("bar_");
}

TEST(mbarriers)
{
    run_all("mbar_");
}

TEST(launch_control)
{
    run_all("clc_");
}

TEST(clusters)
{
    run_all("cluster_");
}

/* What production kernels do and no check may call wrong. */
TEST(idioms)
{
    run_all("idiom_");
}

/* Blocks that wait for one another: all that are resident make progress. */
TEST(grids)
{
    run_all("grid_");
}

TEST(registers)
{
    run_all("regs_");
}

TEST(faults)
{
    run_all("fault_");
}

TEST(refusals)
{
    run_all("refuse_");
}
