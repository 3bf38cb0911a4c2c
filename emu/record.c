/* record.c - the choices of a schedule as text: FP4EMU_RECORD writes, replay reads.
 *
 *     launch 0 gemm_128x128
 *     0 w5 37.0 -> w4          # line 205 mbarrier.try_wait..., then line 230 ...
 *     0 w4 12.1 -> op w4.3     # ...
 *     0 w5 40.2 false          # ...
 *     0 w2 17.0 lanes 212      # ...
 *
 * Cluster; the warp that went last (`start` before any), its visible instructions so
 * far, the questions since the last of these; what goes on instead of what would
 * otherwise have.  Numbers of warps count through a cluster. */
#include "emu/choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CHARS 1024

/* ---- reading */

static bool refuse(char *why, size_t bytes, const char *path, int line)
{
    snprintf(why, bytes, "%s:%d: not a line of a schedule as FP4EMU_RECORD writes them",
             path, line);
    return false;
}

static bool parse_key(const char **p, struct deviation *d)
{
    int n = 0;
    if (sscanf(*p, "%" SCNu64 " start 0.%" SCNu32 " %n", &d->cluster, &d->asked, &n) ==
            2 &&
        n > 0) {
        d->warp = CHOICE_AT_START;
        *p += n;
        return true;
    }
    if (sscanf(*p, "%" SCNu64 " w%" SCNu32 " %" SCNu32 ".%" SCNu32 " %n", &d->cluster,
               &d->warp, &d->visible, &d->asked, &n) != 4 ||
        n == 0)
        return false;
    *p += n;
    return true;
}

static bool parse_choice(const char *p, struct deviation *d)
{
    if (sscanf(p, "-> op w%" SCNu32 ".%" SCNu32, &d->to, &d->ordinal) == 2) {
        d->choice = CHOICE_OP;
        return true;
    }
    if (sscanf(p, "-> w%" SCNu32, &d->to) == 1) {
        d->choice = CHOICE_WARP;
        return true;
    }
    if (sscanf(p, "lanes %" SCNu32, &d->ordinal) == 1) {
        d->choice = CHOICE_LANES;
        return true;
    }
    d->choice = CHOICE_FALSE;
    return strncmp(p, "false", 5) == 0;
}

bool deviations_read(struct deviations *out, const char *path, uint64_t launch,
                     char *why, size_t why_bytes)
{
    *out = (struct deviations){.launch = launch};
    FILE *f = fopen(path, "r");
    if (!f) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    char line[LINE_CHARS];
    uint64_t current = 0;
    bool ok = true;
    for (int number = 1; ok && fgets(line, sizeof line, f); number++) {
        const char *p = line;
        struct deviation d = {0};
        if (*p == '#' || *p == '\n' || sscanf(p, "launch %" SCNu64, &current) == 1)
            continue;
        ok = (parse_key(&p, &d) && parse_choice(p, &d)) ||
             refuse(why, why_bytes, path, number);
        if (ok && current == launch)
            deviations_add(out, &d, 1);
    }
    fclose(f);
    if (!ok)
        deviations_free(out);
    if (out->count)
        qsort(out->at, out->count, sizeof *out->at, deviation_order);
    return ok;
}

/* ---- writing */

static int by_cluster(const void *a, const void *b)
{
    const struct deviation *x = a, *y = b;
    if (x->cluster != y->cluster)
        return x->cluster < y->cluster ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void write_place(FILE *f, const struct kernel *k, uint32_t pc, const char *end)
{
    if (pc < k->op_count)
        fprintf(f, "line %d %s%s", k->ops[pc].insn->line, k->ops[pc].insn->opcode, end);
}

static void write_one(FILE *f, const struct kernel *k, const struct deviation *d)
{
    if (d->warp == CHOICE_AT_START)
        fprintf(f, "%" PRIu64 " start 0.%" PRIu32, d->cluster, d->asked);
    else
        fprintf(f, "%" PRIu64 " w%" PRIu32 " %" PRIu32 ".%" PRIu32, d->cluster, d->warp,
                d->visible, d->asked);
    switch (d->choice) {
    case CHOICE_WARP:
        fprintf(f, " -> w%" PRIu32, d->to);
        break;
    case CHOICE_OP:
        fprintf(f, " -> op w%" PRIu32 ".%" PRIu32, d->to, d->ordinal);
        break;
    case CHOICE_FALSE:
        fprintf(f, " false");
        break;
    case CHOICE_LANES:
        fprintf(f, " lanes %" PRIu32, d->ordinal);
        break;
    }
    fputs("  # ", f);
    if (d->warp != CHOICE_AT_START)
        write_place(f, k, d->from_pc, d->choice == CHOICE_FALSE ? "" : "; ");
    if (d->choice != CHOICE_FALSE)
        write_place(f, k, d->to_pc, "");
    fputc('\n', f);
}

bool deviations_write(const struct deviations *d, const char *path,
                      const struct kernel *k, uint64_t last)
{
    FILE *f = fopen(path, "a");
    if (!f)
        return false;
    for (size_t i = 0; i < d->count; i++)
        d->at[i].number = i;
    if (d->count)
        qsort(d->at, d->count, sizeof *d->at, by_cluster);
    fprintf(f, "launch %" PRIu64 " %s\n", d->launch, k->func->name);
    for (size_t i = 0; i < d->count && d->at[i].cluster <= last; i++)
        write_one(f, k, &d->at[i]);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}
