/* verb_check.c - the recipe: which schedules a kernel is run under, and the verdict.
 *
 * Random schedules alone miss faults: a missing wait for a free accumulator passes most
 * of them.  So the earliest and the latest schedule come first, then each warp is held
 * back as long as the others can go on, and chance comes last. */
#include "gen/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/run_expr.h"
#include "gen/seen.h"
#include "gen/verbs.h"
#include "runtime/fp4gen.h"
#include "runtime/manifest.h"

#define USUAL_SEEDS 8
#define MATRIX_SEEDS 1
#define MOST_SEEDS 1000 /* where it is for what they show to end it */
#define PROCESSES 2
#define BAR_CHARS 30
#define FEW_CTAS 2
#define WARP_THREADS 32

enum { DONE = 0, FAILED = 1 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the kernel and its problems */

/* `ptx`: what it was read from, NULL where it was generated. */
static bool fill_kernel(struct arena *a, const struct image *i, const char *ptx,
                        struct check_kernel *k)
{
    *k = (struct check_kernel){.name = arena_strdup(a, i->kernel),
                               .stages = i->stages,
                               .warps = (i->threads + WARP_THREADS - 1) / WARP_THREADS,
                               .n_multiple = i->n_multiple ? i->n_multiple : 1,
                               .is_gemm = !i->op[0],
                               .has_reference = !ptx || i->op[0] ||
                                                strcmp(i->epilogue, "identity") == 0 ||
                                                run_expr_read(a, i, ptx)};
    memcpy(k->tile, i->tile, sizeof k->tile);
    return true;
}

static bool read_image(struct arena *a, const char *ptx, size_t bytes, const char *path,
                       struct check_kernel *k, FILE *err)
{
    fp4gen_error e = {0};
    struct image image;
    if (manifest_read(&image, ptx, bytes, &e) == FP4GEN_OK)
        return fill_kernel(a, &image, ptx, k);
    fprintf(err, "%s%serror: %s [%s]\n", path ? path : "", path ? ": " : "", e.text,
            e.code);
    return false;
}

bool check_read_kernel(struct arena *a, const struct run_options *run,
                       struct check_kernel *k, FILE *err)
{
    if (!run->ptx_path) {
        struct job *job = job_run(&run->job);
        bool ok = job->diags->count == 0;
        if (ok)
            ok = fill_kernel(a, &job->image, NULL, k);
        else
            print_diags(job->diags, err);
        job_free(job);
        return ok;
    }
    size_t bytes;
    const char *ptx = file_read(a, run->ptx_path, &bytes);
    if (ptx)
        return read_image(a, ptx, bytes, run->ptx_path, k, err);
    struct diags *d = diags_new(a);
    diag_add(d, DIAG_RUN_PTX, (struct loc){.file = run->ptx_path}, strerror(errno));
    print_diags(d, err);
    return false;
}

void check_choose_sizes(struct run_options *run, const struct check_kernel *k, int i)
{
    if (!k->is_gemm) {
        run->m = run->m < 0 ? (i == 0 ? 300 : 129) : run->m;
        run->k = run->k < 0 ? (i == 0 ? 1088 : 480) : run->k;
        return;
    }
    const int64_t m = k->tile[0], n = k->tile[1], step = k->tile[2];
    /* Two or three tiles each way; K goes round the ring once and a bit, or is odd in
     * the sense of scales: no whole block of 64, and none of 16. */
    if (run->m < 0)
        run->m = i == 0 ? m + 44 : 2 * m + 1;
    if (run->n < 0) {
        run->n = (i == 0 ? 2 * n + 24 : n + 73) + k->n_multiple - 1;
        run->n -= run->n % k->n_multiple;
    }
    if (run->k < 0)
        run->k = i == 0 ? ((int64_t)k->stages + 1) * step + 32 : 2 * step + 74;
    if (run->ctas == 0)
        run->ctas = i == 0 ? FEW_CTAS : 1;
}

/* ---- the schedules */

struct recipe {
    struct arena *arena;
    struct trial *trials;
    int count, room;
};

static void add(struct recipe *p, const struct run_options *run, const char *strategy,
                uint64_t seed, int base)
{
    if (p->count == p->room) {
        int room = p->room ? 2 * p->room : 64;
        struct trial *more = ARENA_ARRAY(p->arena, struct trial, (size_t)room);
        if (p->count)
            memcpy(more, p->trials, (size_t)p->count * sizeof *more);
        p->trials = more;
        p->room = room;
    }
    p->trials[p->count++] =
        (struct trial){.run = run, .strategy = strategy, .seed = seed, .base = base};
}

static void add_recipe(struct recipe *p, const struct run_options *run,
                       const struct check_kernel *k, int seeds)
{
    static const char *const chances[] = {"random:0.3", "random:0.05", "random:1"};
    const int base = p->count;
    add(p, run, "eager", 0, base);
    add(p, run, "lazy", 0, base);
    add(p, run, "reverse", 0, base);
    for (uint32_t w = 0; w < k->warps && w < 32; w++)
        add(p, run, arena_printf(p->arena, "starve:%u", w), 0, base);
    for (int s = 1; s <= seeds; s++) {
        add(p, run, chances[(s - 1) % (int)COUNT_OF(chances)], (uint64_t)s, base);
        add(p, run, arena_printf(p->arena, "pct:%d", 2 + (s - 1) % 4), (uint64_t)s,
            base);
    }
}

/* ---- while it runs */

struct bar {
    FILE *err;
    double begin_s;
    bool is_shown;
};

static void draw_bar(void *arg, int done, int count)
{
    struct bar *b = arg;
    int filled = (int)((int64_t)done * BAR_CHARS / count);
    fprintf(b->err, "\r[%-*.*s] %d of %d runs, %.0f s", BAR_CHARS, filled,
            "##############################", done, count, now_s() - b->begin_s);
    fflush(b->err);
    b->is_shown = true;
}

static void wipe_bar(const struct bar *b)
{
    if (b->is_shown)
        fprintf(b->err, "\r%*s\r", BAR_CHARS + 40, "");
}

/* ---- the verdict */

/* The options that make this kernel and problem, as on the command line. */
static const char *arguments(struct arena *a, const struct run_options *run)
{
    struct buf b;
    buf_init(&b, a);
    if (run->ptx_path)
        buf_printf(&b, " %s", run->ptx_path);
    else if (run->job.path)
        buf_printf(&b, " %s", run->job.path);
    for (int i = 0; i < run->job.override_count; i++)
        buf_printf(&b, " --set %s=%s", run->job.overrides[i].field,
                   run->job.overrides[i].value);
    buf_printf(&b, " -m %" PRId64, run->m);
    if (run->n >= 0)
        buf_printf(&b, " -n %" PRId64, run->n);
    buf_printf(&b, " -k %" PRId64, run->k);
    if (run->ctas)
        buf_printf(&b, " --ctas %u", run->ctas);
    if (run->seed)
        buf_printf(&b, " --seed %" PRIu64, run->seed);
    if (run->alpha != 1)
        buf_printf(&b, " --alpha %.9g", (double)run->alpha);
    return b.data;
}

static const char *repeat(struct arena *a, const struct trials *t, int i)
{
    const struct trial *x = &t->at[i];
    struct buf b;
    buf_init(&b, a);
    buf_printf(&b, "FP4EMU_STRATEGY=%s FP4EMU_SEED=%" PRIu64, t->results[i].strategy,
               x->seed);
    if (t->level)
        buf_printf(&b, " FP4EMU_CHECK=%s", t->level);
    if (t->mma)
        buf_printf(&b, " FP4EMU_MMA=%s", t->mma);
    buf_printf(&b, " gen run%s --driver emu --check", arguments(a, x->run));
    return b.data;
}

static int tell_fault(struct arena *a, const struct trials *t, int i, bool minimise,
                      FILE *out, FILE *err)
{
    const struct trial *x = &t->at[i];
    const struct trial_result *r = &t->results[i];
    if (r->is_refused) { /* as gen run does: no schedule has to do with it */
        fputs(r->text, err);
        return r->status;
    }
    fprintf(out, "FAULT under %s", r->strategy);
    if (x->seed)
        fprintf(out, ", seed %" PRIu64, x->seed);
    fprintf(out, ", run %d of %d:\n", i + 1, t->count);
    if (r->text)
        fputs(r->text, out);
    if (r->signal)
        fprintf(out, "the emulator ended with signal %d\n", r->signal);
    fprintf(out, "again with\n  %s\n", repeat(a, t, i));
    if (minimise && !check_minimise(t, i, a, out, err))
        fprintf(err, "the schedule could not be made smaller\n");
    return FAILED;
}

/* How many different things came to pass, and which run was the last to add one. */
static size_t count_keys(const struct trials *t, int *last)
{
    struct seen seen = {.count = 0};
    *last = 0;
    for (int i = 0; i < t->count; i++)
        if (seen_add(&seen, t->results[i].keys, t->results[i].key_count) > 0)
            *last = i;
    size_t count = seen.count;
    seen_clear(&seen);
    return count;
}

/* Warnings do not make a fault; each text is shown once. */
static void tell_warnings(const struct trials *t, FILE *out)
{
    int shown = 0;
    for (int i = 0; i < t->count; i++) {
        const struct trial_result *r = &t->results[i];
        const char *text = r->has_warnings ? strstr(r->text, "warning") : NULL;
        bool is_new = text != NULL;
        for (int k = 0; is_new && k < i; k++) {
            const char *other = t->results[k].has_warnings
                                    ? strstr(t->results[k].text, "warning")
                                    : NULL;
            size_t chars = strcspn(text, "\n");
            is_new = !other || strncmp(other, text, chars + 1) != 0;
        }
        if (is_new && shown++ < 4)
            fprintf(out, "under %s, seed %" PRIu64 ":\n%s", r->strategy, t->at[i].seed,
                    text);
    }
}

static void tell_verdict(const struct trials *t, const struct check_kernel *k,
                         double seconds, FILE *out)
{
    int last = 0, other = 0, warned = 0;
    size_t keys = count_keys(t, &last);
    int left_out = trials_left_out(t);
    for (int i = 0; i < t->count; i++) {
        other += t->results[i].other_bits;
        warned += t->results[i].has_warnings;
    }
    tell_warnings(t, out);
    if (t->results[0].text) {
        const char *second = strchr(t->results[0].text, '\n');
        if (second && !t->results[0].has_warnings)
            fputs(second + 1, out);
    }
    fprintf(out, "%s: %d schedules, no fault%s", k->name, t->count - left_out,
            warned ? ", but warnings" : "");
    if (left_out)
        fprintf(out, "; %d left out, with nothing new in %d seeds", left_out, t->quiet);
    if (other)
        fprintf(out,
                k->has_reference ? "; %d with other bits, also right"
                                 : "; %d with other bits than the first",
                other);
    if (keys)
        fprintf(out, "; %zu orders and pairs seen, the last new ones in run %d", keys,
                last + 1);
    fprintf(out, "; %.1f s\n", seconds);
    if (!k->has_reference)
        fputs(
            "values were compared with those of the first run alone: the PTX holds no "
            "expression of its\nepilogue that can be evaluated; give its config to "
            "compare them with a reference\n",
            out);
}

/* ---- one kernel, or many */

static int run_plan(struct trials *t, FILE *err, double *seconds)
{
    struct bar bar = {.err = err, .begin_s = now_s()};
    if (isatty(fileno(err))) {
        t->progress = draw_bar;
        t->arg = &bar;
    }
    int failed = trials_run(t);
    wipe_bar(&bar);
    *seconds = now_s() - bar.begin_s;
    return failed;
}

static int seeds_of(const struct check_options *o)
{
    int usual = o->matrix ? MATRIX_SEEDS : USUAL_SEEDS;
    return o->seeds >= 0 ? o->seeds : o->stop_after ? MOST_SEEDS : usual;
}

static int check_one(struct arena *a, const struct run_options *run,
                     const struct check_options *o, FILE *out, FILE *err)
{
    struct run_options *own = ARENA_NEW(a, struct run_options);
    struct check_kernel k;
    *own = *run;
    if (!check_read_kernel(a, run, &k, err))
        return FAILED;
    check_choose_sizes(own, &k, 0);
    own->check = k.has_reference ? RUN_CHECK : RUN_NO_CHECK;
    struct recipe p = {.arena = a};
    add_recipe(&p, own, &k, seeds_of(o));
    struct trials t = {.at = p.trials, .count = p.count, .processes = PROCESSES};
    t.results = ARENA_ARRAY(a, struct trial_result, (size_t)p.count);
    t.level = o->level;
    t.mma = o->mma;
    t.quiet = o->stop_after;
    double seconds;
    int failed = run_plan(&t, err, &seconds), status = DONE;
    if (failed < 0) {
        tell_verdict(&t, &k, seconds, out);
    } else {
        status = tell_fault(a, &t, failed, o->minimise, out, err);
    }
    trials_free(&t);
    return status;
}

static int check_all(struct arena *a, const struct run_options *run,
                     const struct check_options *o, FILE *out, FILE *err)
{
    struct diags *d = diags_new(a);
    int count = 0;
    struct run_options *runs = check_matrix(a, run, &count, d);
    if (!runs) {
        print_diags(d, err);
        return FAILED;
    }
    struct recipe p = {.arena = a};
    for (int i = 0; i < count; i++) {
        struct check_kernel k;
        if (!check_read_kernel(a, &runs[i], &k, err))
            return FAILED;
        check_choose_sizes(&runs[i], &k, i % 2);
        runs[i].check = RUN_CHECK;
        add_recipe(&p, &runs[i], &k, seeds_of(o));
    }
    struct trials t = {.at = p.trials, .count = p.count, .processes = PROCESSES};
    t.results = ARENA_ARRAY(a, struct trial_result, (size_t)p.count);
    t.level = o->level;
    t.mma = o->mma;
    t.quiet = o->stop_after;
    double seconds;
    int failed = run_plan(&t, err, &seconds), status = DONE;
    tell_warnings(&t, out);
    if (failed < 0) {
        fprintf(out, "%d kernels, two problems each, %d runs: no fault; %.1f s\n",
                count / 2, t.count - trials_left_out(&t), seconds);
    } else {
        status = tell_fault(a, &t, failed, o->minimise, out, err);
    }
    trials_free(&t);
    return status;
}

int verb_check(const struct run_options *run, const struct check_options *o, FILE *out,
               FILE *err)
{
    struct arena *a = arena_new();
    int status = (o->matrix ? check_all : check_one)(a, run, o, out, err);
    struct diags *d = diags_new(a);
    if (!flush_result(out, d)) {
        print_diags(d, err);
        status = status ? status : 1;
    }
    arena_free(a);
    return status;
}
