#include <string.h>

#include "gen/embed.h"
#include "gen/trace.h"
#include "gen/verbs.h"

enum { NAME_COLS = 16, CONFIG_COLS = 28, MOST_WORDS = 32 };

struct words {
    const char *word[MOST_WORDS];
    int count;
};

static struct words split(struct arena *a, const char *text)
{
    struct words w = {.count = 0};
    while (*text && w.count < MOST_WORDS) {
        size_t chars = strcspn(text, " ");
        w.word[w.count++] = arena_strndup(a, text, chars);
        text += chars;
        text += strspn(text, " ");
    }
    return w;
}

static struct words allowed(struct arena *a, const char *path)
{
    const struct config_field *f;
    for (int i = 0; (f = config_field_at(a, i)); i++)
        if (strcmp(f->path, path) == 0)
            return split(a, f->words);
    return (struct words){.count = 0};
}

/* The name of the i-th built-in config, NULL past the last one. */
static const char *config_name(struct arena *a, int index, const struct embedded **file)
{
    const char *folder = "configs/", *end = ".lua";
    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path;
        if (strncmp(path, folder, strlen(folder)) != 0 || index-- > 0)
            continue;
        *file = &embedded_files[i];
        path += strlen(folder);
        return arena_strndup(a, path, strlen(path) - strlen(end));
    }
    return NULL;
}

/* One combination of tile, target and output type. */
struct combination {
    const char *m, *n, *k, *target, *d_type;
};

static struct config *load(struct arena *a, const char *name,
                           const struct combination *c)
{
    const struct config_override overrides[] = {
        {"tile.m", c->m},      {"tile.n", c->n},      {"tile.k", c->k},
        {"target", c->target}, {"d.type", c->d_type},
    };
    return config_load(a, name, overrides, (int)COUNT_OF(overrides), diags_new(a));
}

static int most_stages(const struct config *c)
{
    return plan_max_stages(c, c->target->smem_bytes);
}

typedef void visit_fn(struct arena *a, const struct combination *c, FILE *out);

static void visit_tiles(struct arena *a, struct combination c, visit_fn *visit,
                        FILE *out)
{
    struct words m = allowed(a, "tile.m"), n = allowed(a, "tile.n"),
                 k = allowed(a, "tile.k");
    for (int i = 0; i < m.count; i++)
        for (int j = 0; j < n.count; j++)
            for (int l = 0; l < k.count; l++) {
                c.m = m.word[i];
                c.n = n.word[j];
                c.k = k.word[l];
                visit(a, &c, out);
            }
}

static void show_tile(struct arena *a, const struct combination *c, FILE *out)
{
    const struct config *config = load(a, NULL, c);
    if (config)
        fprintf(out, "  %sx%sx%-*s %-8s 2 to %d\n", c->m, c->n,
                NAME_COLS - (int)strlen(c->m) - (int)strlen(c->n) - 3, c->k, c->d_type,
                most_stages(config));
}

static void list_configs(struct arena *a, FILE *out)
{
    const struct embedded *file;
    const char *name;
    fputs("configs\n", out);
    for (int i = 0; (name = config_name(a, i, &file)); i++) {
        const char *text = (const char *)file->data;
        text += strspn(text, "- "); /* the comment on top says what it is */
        fprintf(out, "  %-*s %.*s\n", CONFIG_COLS, name, (int)strcspn(text, "\n"),
                text);
    }
}

/* What a launch brings along: "c[m][n] bf16, beta f32 = 1". */
static const char *parameters_of(struct arena *a, const char *epilogue)
{
    static const char *const shapes[][2] = {
        [EXPR_SCALAR] = {"", ""},
        [EXPR_VEC_COL] = {"[n]", "[n/2]"},
        [EXPR_VEC_ROW] = {"[m]", "[m]"},
        [EXPR_AUX] = {"[m][n]", "[m][n/2]"},
    };
    const struct expr *e = trace_named(a, epilogue, loc_none(), diags_new(a));
    struct buf b;
    buf_init(&b, a);
    for (int i = 0; e && i < e->input_count; i++) {
        const struct expr_input *in = &e->inputs[i];
        buf_printf(&b, "%s%s%s %s", i ? ", " : "; takes ", in->name,
                   shapes[in->kind][in->columns == EXPR_PAIRS],
                   expr_type_name(in->type));
        if (!in->has_default)
            continue;
        buf_puts(&b, " = ");
        expr_print_default(in, &b);
    }
    return b.bytes ? b.data : "";
}

static void list_epilogues(struct arena *a, FILE *out)
{
    int count;
    const struct trace_name *names = trace_names(a, &count);
    fputs("epilogues\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "  %-*s %s%s\n", NAME_COLS + 5, names[i].name, names[i].summary,
                parameters_of(a, names[i].name));
}

static void list_fields(struct arena *a, const char *constructor, FILE *out)
{
    fprintf(out, "%-*s %-14s (in %s { ... }, and for --set FIELD=VALUE)\n",
            NAME_COLS + 2, "fields", "default", constructor);
    const struct config_field *f;
    for (int i = 0; (f = config_field_at(a, i)); i++)
        if (strcmp(f->constructor, constructor) == 0)
            fprintf(out, "  %-*s %-14s %s (%s)\n", NAME_COLS, f->path, f->fallback,
                    f->meaning, f->allowed);
}

static void list_all(struct arena *a, FILE *out)
{
    list_configs(a, out);
    list_epilogues(a, out);
    struct words targets = allowed(a, "target"), types = allowed(a, "d.type");
    fputs("targets\n", out);
    for (int i = 0; i < targets.count; i++)
        fprintf(out, "  %-*s %s\n", NAME_COLS, targets.word[i],
                target_find(targets.word[i])->runs_on);
    fputs("tiles (M x N x K, elements), output types, stages\n", out);
    const struct config *fallback = config_load(a, NULL, NULL, 0, diags_new(a));
    for (int i = 0; i < types.count; i++) {
        struct combination c = {.target = fallback->target->name,
                                .d_type = types.word[i]};
        visit_tiles(a, c, show_tile, out);
    }
    list_fields(a, "gemm", out);
    list_fields(a, "quantize", out);
}

static void show_arguments(struct arena *a, const struct combination *c, FILE *out)
{
    const struct embedded *file;
    const char *name;
    for (int i = 0; (name = config_name(a, i, &file)); i++)
        if (load(a, name, c))
            fprintf(out, "%s --tile %sx%sx%s --target %s --d-type %s\n", name, c->m,
                    c->n, c->k, c->target, c->d_type);
}

static void list_matrix(struct arena *a, FILE *out)
{
    struct words targets = allowed(a, "target"), types = allowed(a, "d.type");
    for (int t = 0; t < targets.count; t++)
        for (int i = 0; i < types.count; i++) {
            struct combination c = {.target = targets.word[t], .d_type = types.word[i]};
            visit_tiles(a, c, show_arguments, out);
        }
}

int verb_list(const struct opts *o, FILE *out, FILE *err)
{
    (void)err;
    struct arena *a = arena_new();
    if (o->matrix)
        list_matrix(a, out);
    else
        list_all(a, out);
    arena_free(a);
    return 0;
}
