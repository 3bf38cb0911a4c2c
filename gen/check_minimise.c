/* check_minimise.c - the fewest preemptions with which a kernel still fails.
 *
 * A random run is a list of choices that differ from the usual order (emu/record.c has
 * its form).  Pieces of the list are left out, larger ones first, as long as the run
 * ends in the same report: delta debugging (Zeller, Hildebrandt: "Simplifying and
 * Isolating Failure-Inducing Input", 2002).  What is left is minimal: without any
 * single one of the choices the fault does not show. */
#include "gen/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_RUNS 4000
#define BATCH 2 /* runs at a time */
#define PATH_CHARS 256

struct list {
    char **line; /* borrowed: whole lines, each with its newline */
    int count;
};

struct search {
    const struct trials *t;
    int failed;            /* the trial that is made smaller */
    char head[PATH_CHARS]; /* "launch 1 name" */
    char folder[PATH_CHARS];
    int runs;
    FILE *err;
};

static const char *file_in(const struct search *s, const char *name, char *path)
{
    snprintf(path, PATH_CHARS + 32, "%s/%s", s->folder, name);
    return path;
}

static bool write_list(const char *path, const struct search *s, const struct list *l,
                       int skip_from, int skip_to)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fputs(s->head, f);
    for (int i = 0; i < l->count; i++)
        if (i < skip_from || i >= skip_to)
            fputs(l->line[i], f);
    return fclose(f) == 0;
}

/* Same check in the same line, or the same kind of failure without a report. */
static bool is_same_fault(const struct trial_result *a, const struct trial_result *b)
{
    return b->state == TRIAL_FAILED && a->check == b->check && a->line == b->line &&
           a->signal == b->signal;
}

/* Runs the list without [from[i], to[i]) for all of up to BATCH i; the first that fails
 * in the same way, or -1. */
static int try_without(struct search *s, const struct list *l, const int *from,
                       const int *to, int count)
{
    struct trial at[BATCH + 1];
    struct trial_result results[BATCH + 1] = {{0}};
    char path[BATCH][PATH_CHARS + 32], strategy[BATCH][PATH_CHARS + 48];
    const struct trial *x = &s->t->at[s->failed];
    int found = -1, first = 0;
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "try%d", i);
        if (!write_list(file_in(s, name, path[i]), s, l, from[i], to[i]))
            return -1;
        snprintf(strategy[i], sizeof strategy[i], "replay:%s", path[i]);
    }
    /* trials_run() ends at the first failure, of whatever kind; go on behind it. */
    while (found < 0 && first < count) {
        at[0] = (struct trial){.run = x->run, .strategy = "eager", .base = 0};
        for (int i = first; i < count; i++)
            at[1 + i - first] =
                (struct trial){.run = x->run, .strategy = strategy[i], .base = 0};
        struct trials t = *s->t;
        t.at = at;
        t.results = results;
        t.count = 1 + count - first;
        t.quiet = 0;
        t.progress = NULL;
        int failed = trials_run(&t);
        s->runs += t.count - 1;
        if (failed > 0 && is_same_fault(&s->t->results[s->failed], &results[failed]))
            found = first + failed - 1;
        first = failed > 0 ? first + failed : count;
        trials_free(&t);
    }
    return found;
}

static void strike(struct list *l, int from, int to)
{
    memmove(&l->line[from], &l->line[to], (size_t)(l->count - to) * sizeof *l->line);
    l->count -= to - from;
}

/* One pass with pieces of `size`; true: something was left out. */
static bool strike_pieces(struct search *s, struct list *l, int size)
{
    bool any = false;
    for (int at = 0; at < l->count && s->runs < MOST_RUNS;) {
        int from[BATCH], to[BATCH], count = 0;
        for (int next = at; count < BATCH && next < l->count; next += size) {
            from[count] = next;
            to[count] = next + size < l->count ? next + size : l->count;
            count++;
        }
        int found = try_without(s, l, from, to, count);
        if (found >= 0) {
            strike(l, from[found], to[found]);
            at = from[found];
            any = true;
        } else {
            at = to[count - 1];
        }
        if (isatty(fileno(s->err)))
            fprintf(s->err, "\r%d choices, %d runs   ", l->count, s->runs);
    }
    return any;
}

static void minimise(struct search *s, struct list *l)
{
    const int whole_from = 0, whole_to = l->count;
    if (try_without(s, l, &whole_from, &whole_to, 1) == 0) {
        l->count = 0;
        return;
    }
    for (int size = (l->count + 1) / 2; size >= 1 && s->runs < MOST_RUNS;) {
        bool any = strike_pieces(s, l, size);
        if (size == 1 && !any)
            break;
        size = size > 1 ? (size + 1) / 2 : 1;
        if (size > l->count)
            size = l->count ? l->count : 1;
    }
    if (isatty(fileno(s->err)))
        fprintf(s->err, "\r%40s\r", "");
}

/* ---- the record */

static bool record(struct search *s, const char *strategy, uint64_t seed,
                   const char *path)
{
    const struct trial at = {.run = s->t->at[s->failed].run,
                             .strategy = strategy,
                             .seed = seed,
                             .record = path};
    struct trial_result result = {0};
    struct trials t = *s->t;
    t.at = &at;
    t.results = &result;
    t.count = 1;
    t.quiet = 0;
    t.progress = NULL;
    remove(path);
    trials_run(&t);
    bool ok = is_same_fault(&s->t->results[s->failed], &result);
    trials_free(&t);
    return ok;
}

static bool read_record(struct search *s, struct arena *a, const char *path,
                        struct list *l)
{
    size_t bytes;
    char *text = file_read(a, path, &bytes);
    int lines = 0;
    for (const char *p = text; p && *p; p++)
        lines += *p == '\n';
    l->line = ARENA_ARRAY(a, char *, (size_t)lines + 1);
    l->count = 0;
    for (char *p = text; p && *p;) {
        size_t chars = strcspn(p, "\n") + 1;
        char *line = arena_strndup(a, p, chars);
        if (strncmp(line, "launch", 6) == 0)
            snprintf(s->head, sizeof s->head, "%s", line);
        else
            l->line[l->count++] = line;
        p += chars;
    }
    return text != NULL;
}

/* ---- in words */

static void say_place(FILE *out, const char *place)
{
    /* "line 205 mbarrier.try_wait...", up to ';' or the end of the line */
    size_t chars = strcspn(place, ";\n"), line = strcspn(place, " ");
    line += 1 + strcspn(place + line + 1, " ");
    if (line < chars)
        fprintf(out, "%.*s (%.*s)", (int)line, place, (int)(chars - line - 1),
                place + line + 1);
}

static void say_choice(FILE *out, int number, const char *line)
{
    uint64_t cluster = 0;
    unsigned warp = 0, visible = 0, asked, to, ordinal;
    int n = 0, more = 0;
    const char *from = strchr(line, '#'), *behind;
    from = from ? from + 2 : "";
    behind = strchr(from, ';');
    fprintf(out, "  %d. ", number);
    if (sscanf(line, "%" SCNu64 " w%u %u.%u %n", &cluster, &warp, &visible, &asked,
               &n) == 4) {
        fprintf(out, "cluster %" PRIu64 ": warp %u stands at ", cluster, warp);
        say_place(out, from);
        fprintf(out, ", %u visible instructions behind it: ", visible);
    } else if (sscanf(line, "%" SCNu64 " start 0.%u %n", &cluster, &asked, &n) == 2) {
        fprintf(out, "cluster %" PRIu64 ": at the start ", cluster);
        behind = from - 2;
    }
    const char *what = line + n;
    const char *place = behind ? behind + 2 : from;
    if (sscanf(what, "-> op w%u.%u%n", &to, &ordinal, &more) == 2) {
        fprintf(out, "operation %u of warp %u, of ", ordinal + 1, to);
        say_place(out, place);
        fprintf(out, ", completes");
    } else if (sscanf(what, "-> w%u", &to) == 1) {
        fprintf(out, "warp %u goes on, at ", to);
        say_place(out, place);
    } else if (strncmp(what, "false", 5) == 0) {
        fprintf(out, "its wait returns false");
    } else {
        fprintf(out, "its lanes go on that stand at ");
        say_place(out, place);
    }
    fputc('\n', out);
}

static void tell(const struct search *s, const struct list *l, int before, FILE *out)
{
    if (l->count == 0) {
        fprintf(
            out,
            "minimal: none of its %d choices is needed; it fails in the usual order "
            "(%d runs)\n",
            before, s->runs);
        return;
    }
    fprintf(out,
            "minimal: %d of %d choices (%d runs).  In the usual order a warp goes on "
            "until it blocks, and\nasynchronous work completes when no warp can go on; "
            "but here\n",
            l->count, before, s->runs);
    for (int i = 0; i < l->count; i++)
        say_choice(out, i + 1, l->line[i]);
    fprintf(out, "as a file for FP4EMU_STRATEGY=replay:FILE\n%s", s->head);
    for (int i = 0; i < l->count; i++)
        fputs(l->line[i], out);
}

static bool run_search(struct search *s, struct arena *a, FILE *out)
{
    const struct trial *x = &s->t->at[s->failed];
    char path[PATH_CHARS + 32], small[PATH_CHARS + 32], strategy[PATH_CHARS + 48];
    struct list l;
    file_in(s, "record", path);
    file_in(s, "small", small);
    if (!record(s, s->t->results[s->failed].strategy, x->seed, path) ||
        !read_record(s, a, path, &l))
        return false;
    int before = l.count;
    minimise(s, &l);
    /* Once more, for the places where the choices that are left are made. */
    snprintf(strategy, sizeof strategy, "replay:%s", small);
    if (l.count && (!write_list(small, s, &l, 0, 0) || !record(s, strategy, 0, path) ||
                    !read_record(s, a, path, &l)))
        return false;
    tell(s, &l, before, out);
    return true;
}

bool check_minimise(const struct trials *t, int failed, struct arena *a, FILE *out,
                    FILE *err)
{
    static const char *const names[] = {"record", "small", "try0", "try1"};
    const char *strategy = t->at[failed].strategy, *tmp = getenv("TMPDIR");
    struct search s = {.t = t, .failed = failed, .err = err};
    char path[PATH_CHARS + 32];
    if (strncmp(strategy, "random", 6) != 0 && strncmp(strategy, "pct", 3) != 0) {
        fprintf(out, "minimal: %s makes no choices that could be left out\n", strategy);
        return true;
    }
    snprintf(s.folder, sizeof s.folder, "%s/gen-check.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(s.folder))
        return false;
    bool ok = run_search(&s, a, out);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        remove(file_in(&s, names[i], path));
    rmdir(s.folder);
    return ok;
}
