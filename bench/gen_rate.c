/* gen_rate.c - kernels a second on one core, as a tuner's sweep asks for them.
 *
 *     build/release/bench/gen_rate SECONDS      prints "unchecked N" and "checked N"
 *
 * Walks over tiles, output types and stage counts, so that no two kernels in a row are
 * the same. */
#include "gen/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void one_kernel(int number, bool check)
{
    static const char *const n[] = {"64", "128", "192", "256"};
    static const char *const k[] = {"128", "256"};
    static const char *const types[] = {"bf16", "f32"};
    static const char *const stages[] = {"2", "3", "4", "auto"};
    const struct config_override set[] = {
        {"tile.n", n[number % 4]},
        {"tile.k", k[number / 4 % 2]},
        {"d.type", types[number / 8 % 2]},
        {"stages", stages[number / 16 % 4]},
    };
    const struct job_options o = {
        .overrides = set, .override_count = (int)COUNT_OF(set), .check = check};
    struct job *j = job_run(&o);
    if (j->diags->count) {
        fprintf(stderr, "gen_rate: %s\n", j->diags->first->text);
        exit(1);
    }
    job_free(j);
}

static double rate(double seconds, bool check)
{
    one_kernel(0, check); /* templates are compiled once a process */
    int count = 0;
    double start = now_s(), end;
    do
        one_kernel(count++, check);
    while ((end = now_s()) - start < seconds);
    return count / (end - start);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    printf("unchecked %.1f\n", rate(seconds, false));
    printf("checked %.1f\n", rate(seconds, true));
    return 0;
}
