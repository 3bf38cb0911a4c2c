#include "core/diag.h"

#include <string.h>

static const struct {
    const char *name, *text;
} messages[] = {
#define DIAG(id, code, text) {code, text},
#include "core/diag.def"
#undef DIAG
};

struct diags *diags_new(struct arena *a)
{
    struct diags *d = ARENA_NEW(a, struct diags);
    d->arena = a;
    d->tail = &d->first;
    return d;
}

const char *diag_code_name(enum diag_code code)
{
    return messages[code].name;
}

struct diag *diag_vadd(struct diags *d, enum diag_code code, struct loc loc,
                       va_list args)
{
    struct diag *g = ARENA_NEW(d->arena, struct diag);
    g->text = arena_vprintf(d->arena, messages[code].text, args);
    g->code = code;
    g->loc = loc;
    *d->tail = g;
    d->tail = &g->next;
    d->count++;
    return g;
}

struct diag *diag_add(struct diags *d, enum diag_code code, struct loc loc, ...)
{
    va_list args;
    va_start(args, loc);
    struct diag *g = diag_vadd(d, code, loc, args);
    va_end(args);
    return g;
}

void diag_note(struct diags *d, struct loc loc, const char *fmt, ...)
{
    struct diag *newest = d->first;
    while (newest && newest->next)
        newest = newest->next;
    if (!newest)
        return;
    struct diag_note *n = ARENA_NEW(d->arena, struct diag_note);
    va_list args;
    va_start(args, fmt);
    n->text = arena_vprintf(d->arena, fmt, args);
    va_end(args);
    n->loc = loc;
    struct diag_note **end = &newest->notes;
    while (*end)
        end = &(*end)->next;
    *end = n;
}

static struct loc copy_loc(struct arena *a, struct loc loc)
{
    if (loc.file)
        loc.file = arena_strdup(a, loc.file);
    return loc;
}

struct diag *diag_copy(struct diags *d, const struct diag *g, struct loc loc)
{
    struct diag *copy = ARENA_NEW(d->arena, struct diag);
    copy->code = g->code;
    copy->loc = copy_loc(d->arena, loc);
    copy->text = arena_strdup(d->arena, g->text);
    *d->tail = copy;
    d->tail = &copy->next;
    d->count++;
    for (const struct diag_note *n = g->notes; n; n = n->next)
        diag_note(d, copy_loc(d->arena, n->loc), "%s", n->text);
    return copy;
}

static void format_loc(struct loc loc, struct buf *out)
{
    if (!loc.file)
        return;
    buf_puts(out, loc.file);
    if (loc.line)
        buf_printf(out, ":%d", loc.line);
    if (loc.line && loc.col)
        buf_printf(out, ":%d", loc.col);
    buf_puts(out, ": ");
}

static void format_source_line(struct loc loc, const char *source, struct buf *out)
{
    for (int line = 1; line < loc.line; line++) {
        source = strchr(source, '\n');
        if (!source)
            return;
        source++;
    }
    int chars = (int)strcspn(source, "\r\n");
    if (chars == 0 || chars > 200)
        return;
    for (int i = 0; i < chars; i++) /* a terminal should not see the rest of these */
        if ((unsigned char)source[i] < ' ' && source[i] != '\t')
            return;
    buf_printf(out, "%5d | %.*s\n", loc.line, chars, source);
    if (loc.col < 1 || loc.col > chars + 1)
        return;
    buf_puts(out, "      | ");
    for (int i = 0; i + 1 < loc.col; i++)
        buf_puts(out, source[i] == '\t' ? "\t" : " ");
    buf_puts(out, "^\n");
}

void diag_format(const struct diag *g, const char *source, struct buf *out)
{
    format_loc(g->loc, out);
    buf_printf(out, "error: %s [%s]\n", g->text, messages[g->code].name);
    if (source && g->loc.line > 0)
        format_source_line(g->loc, source, out);
    for (const struct diag_note *n = g->notes; n; n = n->next) {
        format_loc(n->loc, out);
        buf_printf(out, "note: %s\n", n->text);
    }
}
