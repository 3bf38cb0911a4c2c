/* check_matrix.c - every tile, depth and output type that a config can have. */
#include "gen/check.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 5, MOST_WORDS = 64 };

struct matrix {
    struct arena *arena;
    const struct run_options *run;
    struct run_options *out;
    int count, room;
};

struct words {
    const char *word[MOST_WORDS];
    int count;
};

/* What schema.def allows for a field. */
static struct words allowed(struct arena *a, const char *path)
{
    struct words w = {.count = 0};
    const struct config_field *f;
    for (int i = 0; (f = config_field_at(a, i)); i++) {
        if (strcmp(f->path, path) != 0)
            continue;
        for (const char *at = f->words; *at && w.count < MOST_WORDS;) {
            size_t chars = strcspn(at, " ");
            w.word[w.count++] = arena_strndup(a, at, chars);
            at += chars;
            at += strspn(at, " ");
        }
        break;
    }
    return w;
}

static void add(struct matrix *x, const struct config_override *more)
{
    const struct job_options *job = &x->run->job;
    size_t count = (size_t)job->override_count + FIELDS;
    struct config_override *all = ARENA_ARRAY(x->arena, struct config_override, count);
    if (job->override_count)
        memcpy(all, job->overrides, (size_t)job->override_count * sizeof *all);
    memcpy(all + job->override_count, more, FIELDS * sizeof *all);
    if (x->count + 2 > x->room) {
        x->room = x->room ? 2 * x->room : 64;
        struct run_options *bigger =
            ARENA_ARRAY(x->arena, struct run_options, (size_t)x->room);
        if (x->count)
            memcpy(bigger, x->out, (size_t)x->count * sizeof *bigger);
        x->out = bigger;
    }
    for (int i = 0; i < 2; i++) { /* two problems */
        struct run_options *r = &x->out[x->count++];
        *r = *x->run;
        r->job.overrides = all;
        r->job.override_count = (int)count;
    }
}

/* All depths of one tile and type; 0 when the config refuses it. */
static int add_depths(struct matrix *x, struct config_override *fields)
{
    const struct job_options *job = &x->run->job;
    struct arena *a = arena_new();
    struct config_override all[64];
    size_t own = (size_t)job->override_count;
    int most = 0;
    if (own + FIELDS <= COUNT_OF(all)) {
        if (own)
            memcpy(all, job->overrides, own * sizeof *all);
        memcpy(all + own, fields, (FIELDS - 1) * sizeof *all);
        struct config *c =
            config_load(a, job->path, all, (int)own + FIELDS - 1, diags_new(a));
        if (c && !c->quantize)
            most = plan_max_stages(c, c->target->smem_bytes);
    }
    arena_free(a);
    for (int stages = 2; stages <= most; stages++) {
        fields[FIELDS - 1].value = arena_printf(x->arena, "%d", stages);
        add(x, fields);
    }
    return most;
}

struct run_options *check_matrix(struct arena *a, const struct run_options *run,
                                 int *count, struct diags *d)
{
    struct matrix x = {.arena = a, .run = run};
    const struct words m = allowed(a, "tile.m"), n = allowed(a, "tile.n"),
                       k = allowed(a, "tile.k"), types = allowed(a, "d.type");
    struct config_override fields[FIELDS] = {{.field = "tile.m"},
                                             {.field = "tile.n"},
                                             {.field = "tile.k"},
                                             {.field = "d.type"},
                                             {.field = "stages"}};
    for (int i = 0; i < m.count * n.count * k.count * types.count; i++) {
        fields[0].value = m.word[i % m.count];
        fields[1].value = n.word[i / m.count % n.count];
        fields[2].value = k.word[i / m.count / n.count % k.count];
        fields[3].value = types.word[i / m.count / n.count / k.count];
        add_depths(&x, fields);
    }
    *count = x.count;
    if (x.count)
        return x.out;
    /* Nothing fits: what the config itself has to say is the reason. */
    config_load(a, run->job.path, run->job.overrides, run->job.override_count, d);
    if (d->count == 0)
        diag_add(d, DIAG_CHECK_MATRIX, loc_none());
    return NULL;
}
