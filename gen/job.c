#include "gen/job.h"

#include <string.h>

#include "core/ptx.h"
#include "gen/manifest.h"

static int count_lines(const char *text, size_t bytes)
{
    int lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* The map of the template's text, for the text with `before` and `after` lines round
 * it. */
static void widen_map(struct job *j, const struct line_map *inner, int before,
                      int after)
{
    struct line_map *m = &j->map;
    m->file = inner->file;
    m->count = before + inner->count + after;
    m->lines = ARENA_ARRAY(j->arena, int, (size_t)m->count + 1);
    m->files = ARENA_ARRAY(j->arena, const char *, (size_t)m->count + 1);
    memcpy(m->lines + before, inner->lines, (size_t)inner->count * sizeof *m->lines);
    memcpy(m->files + before, inner->files, (size_t)inner->count * sizeof *m->files);
}

static const char *line_text(struct arena *a, const char *text, int line)
{
    for (int i = 1; i < line; i++) {
        text = strchr(text, '\n');
        if (!text)
            return "";
        text++;
    }
    text += strspn(text, " \t");
    return arena_strndup(a, text, strcspn(text, "\n"));
}

/* What the parser says of a line of PTX is told of the template's line. */
static void report_ptx(struct job *j, const struct diags *found)
{
    const char *ptx = j->image.ptx;
    for (const struct diag *g = found->first; g; g = g->next) {
        int i = g->loc.line - 1;
        bool is_mapped = i >= 0 && i < j->map.count && j->map.lines[i] > 0;
        struct loc loc = {"generated PTX", g->loc.line, 0};
        if (is_mapped)
            loc = (struct loc){j->map.files[i], j->map.lines[i], 0};
        diag_copy(j->diags, g, loc);
        if (is_mapped)
            diag_note(j->diags, loc_none(), "line %d of the PTX: %s", g->loc.line,
                      line_text(j->arena, ptx, g->loc.line));
    }
}

static bool check(struct job *j)
{
    struct diags *found = diags_new(j->arena);
    struct ptx_module *m =
        ptx_parse(j->arena, NULL, j->image.ptx, j->image.ptx_bytes, found);
    if (m)
        ptx_check(m, found);
    report_ptx(j, found);
    return found->count == 0;
}

static bool make_plan(struct job *j)
{
    if (j->config->quantize)
        j->quantize = quantize_plan(j->arena, j->config, j->diags);
    else
        j->plan = plan_build(j->arena, j->config, j->diags);
    return j->quantize || j->plan;
}

static char *expand(struct job *j, size_t *bytes, struct line_map *map)
{
    if (j->plan) {
        plan_image(j->plan, &j->image);
        return tmpl_expand(j->arena, j->config->template_name, j->plan, bytes, map,
                           j->diags);
    }
    quantize_image(j->quantize, &j->image);
    int count;
    const struct tmpl_value *values = quantize_values(j->arena, j->quantize, &count);
    return tmpl_expand_values(j->arena, quantize_template(j->quantize), values, count,
                              bytes, map, j->diags);
}

static void generate(struct job *j, const struct job_options *o)
{
    j->config =
        config_load(j->arena, o->path, o->overrides, o->override_count, j->diags);
    if (!j->config)
        return;
    size_t bytes;
    struct line_map inner;
    if (!make_plan(j) || o->plan_only)
        return;
    char *body = expand(j, &bytes, &inner);
    if (!body)
        return;
    struct buf text;
    buf_init(&text, j->arena);
    manifest_comment(&j->image, &text);
    int before = count_lines(text.data, text.bytes);
    buf_add(&text, body, bytes);
    size_t end = text.bytes;
    manifest_constant(&j->image, &text);
    widen_map(j, &inner, before, count_lines(text.data + end, text.bytes - end));
    j->image.ptx = text.data;
    j->image.ptx_bytes = text.bytes;
    if (o->check)
        check(j);
}

struct job *job_run(const struct job_options *o)
{
    struct arena *a = arena_new();
    struct job *j = ARENA_NEW(a, struct job);
    j->arena = a;
    j->diags = diags_new(a);
    generate(j, o);
    return j;
}

void job_free(struct job *j)
{
    if (j)
        arena_free(j->arena);
}
