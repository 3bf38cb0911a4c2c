#include "gen/tmpl_text.h"

#include <errno.h>
#include <string.h>

#include "gen/embed.h"

enum { MOST_INCLUDES = 16 }; /* within each other */

struct translator {
    struct arena *arena;
    const char *dir;
    struct tmpl_text *out;
    struct diags *d;
    const char *open_files[MOST_INCLUDES];
    int depth;
};

static size_t line_chars(const char *text)
{
    return strcspn(text, "\r\n");
}

static bool at_line_end(const char *at)
{
    return *at == '\0' || *at == '\n' || *at == '\r';
}

/* The } that closes what begins at `at`, past strings and inner braces; NULL: none. */
static const char *closing_brace(const char *at)
{
    int depth = 0;
    for (; !at_line_end(at); at++) {
        if (*at == '"' || *at == '\'') {
            char quote = *at++;
            while (!at_line_end(at) && *at != quote)
                at += *at == '\\' && !at_line_end(at + 1) ? 2 : 1;
            if (at_line_end(at))
                return NULL;
        } else if (*at == '{') {
            depth++;
        } else if (*at == '}' && depth-- == 0) {
            return at;
        }
    }
    return NULL;
}

bool tmpl_next_piece(const char **at, struct tmpl_piece *out)
{
    const char *text = *at;
    *out = (struct tmpl_piece){.text = text};
    if (at_line_end(text))
        return false;
    if (text[0] == '$' && text[1] == '{') {
        const char *end = closing_brace(text + 2);
        out->is_value = true;
        out->is_open = !end;
        out->text = text + 2;
        out->chars = end ? (size_t)(end - text) - 2 : line_chars(text + 2);
        *at = end ? end + 1 : text + line_chars(text);
        return true;
    }
    while (!at_line_end(text) && !(text[0] == '$' && text[1] == '{'))
        text++;
    out->chars = (size_t)(text - *at);
    *at = text;
    return true;
}

static void put_quoted(struct buf *b, const char *text, size_t chars)
{
    buf_puts(b, "\"");
    for (size_t i = 0; i < chars; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c < ' ')
            buf_printf(b, "\\%03d", c);
        else
            buf_add(b, &text[i], 1);
    }
    buf_puts(b, "\"");
}

static struct loc place(const struct tmpl_line *l, const char *at)
{
    return (struct loc){l->file, l->line, (int)(at - l->text) + 1};
}

static bool put_ptx_line(struct translator *t, const struct tmpl_line *l)
{
    struct buf *lua = &t->out->lua;
    struct tmpl_piece piece;
    bool ok = true;
    buf_printf(lua, ";_(%d", t->out->count);
    for (const char *at = l->text; tmpl_next_piece(&at, &piece);) {
        buf_puts(lua, ",");
        if (!piece.is_value) {
            put_quoted(lua, piece.text, piece.chars);
        } else if (piece.is_open) {
            diag_add(t->d, DIAG_TMPL_UNFINISHED, place(l, piece.text - 2));
            ok = false;
        } else {
            buf_puts(lua, "(");
            buf_add(lua, piece.text, piece.chars);
            buf_puts(lua, ")");
        }
    }
    buf_puts(lua, ")\n");
    return ok;
}

static void add_line(struct translator *t, const char *file, int line, const char *text)
{
    struct tmpl_text *out = t->out;
    if (out->count == out->room) {
        int room = out->room ? 2 * out->room : 512;
        struct tmpl_line *more = ARENA_ARRAY(t->arena, struct tmpl_line, (size_t)room);
        if (out->count)
            memcpy(more, out->lines, (size_t)out->count * sizeof *more);
        out->lines = more;
        out->room = room;
    }
    out->lines[out->count++] = (struct tmpl_line){file, line, text};
}

/* The line's Lua, behind the %.  Is it an include?  *name is NULL when it is spelled
 * wrongly. */
static bool is_include(struct arena *a, const char *lua, const char **name)
{
    const char *word = "include";
    lua += strspn(lua, " \t");
    if (strncmp(lua, word, strlen(word)) != 0)
        return false;
    lua += strlen(word);
    size_t space = strspn(lua, " \t");
    if (space == 0 && *lua != '"' && *lua != '\'' && !at_line_end(lua))
        return false; /* include_this = ... */
    lua += space;
    *name = NULL;
    if (*lua != '"' && *lua != '\'')
        return !strchr("=(.,", *lua) || at_line_end(lua);
    const char *begin = lua + 1;
    size_t chars = strspn(begin, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *rest = begin + chars;
    if (chars == 0 || *rest != *lua)
        return true;
    rest++;
    rest += strspn(rest, " \t");
    if (at_line_end(rest) || strncmp(rest, "--", 2) == 0)
        *name = arena_strndup(a, begin, chars);
    return true;
}

static bool translate_file(struct translator *t, const char *path, const char *name,
                           struct loc from);

static bool translate_include(struct translator *t, const struct tmpl_line *l,
                              const char *name)
{
    struct loc loc = place(l, l->text + strcspn(l->text, "i"));
    if (!name) {
        diag_add(t->d, DIAG_TMPL_INCLUDE, loc,
                 "include takes a name in quotes: % include \"tile_order\"");
        return false;
    }
    const char *path = arena_printf(t->arena, "lib/%s.ptxt", name);
    for (int i = 0; i < t->depth; i++)
        if (strcmp(t->open_files[i], path) == 0) {
            diag_add(t->d, DIAG_TMPL_INCLUDE, loc,
                     arena_printf(t->arena, "'%s' includes itself", name));
            return false;
        }
    if (t->depth == MOST_INCLUDES) {
        diag_add(t->d, DIAG_TMPL_INCLUDE, loc, "too many includes within each other");
        return false;
    }
    return translate_file(t, path, name, loc);
}

/* The text of templates/PATH and the name to tell it by; NULL: there is none. */
static const char *read_file(struct translator *t, const char *path, const char **file)
{
    if (t->dir) {
        size_t bytes;
        *file = arena_printf(t->arena, "%s/%s", t->dir, path);
        const char *text = file_read(t->arena, *file, &bytes);
        if (text || errno != ENOENT)
            return text;
    }
    *file = arena_printf(t->arena, "templates/%s", path);
    const struct embedded *e = embedded_find(*file);
    return e ? (const char *)e->data : NULL;
}

static bool translate_file(struct translator *t, const char *path, const char *name,
                           struct loc from)
{
    const char *file;
    const char *text = read_file(t, path, &file);
    if (!text) {
        diag_add(t->d, DIAG_TMPL_MISSING, from, name);
        diag_note(t->d, loc_none(), "it would be %s/%s", t->dir ? t->dir : "templates",
                  path);
        return false;
    }
    t->open_files[t->depth++] = path;
    bool ok = true;
    for (int line = 1; *text; line++) {
        const char *included;
        if (*text == '%' && is_include(t->arena, text + 1, &included)) {
            struct tmpl_line here = {file, line, text};
            ok &= translate_include(t, &here, included);
        } else {
            add_line(t, file, line, text);
            if (*text != '%') {
                ok &= put_ptx_line(t, &t->out->lines[t->out->count - 1]);
            } else {
                buf_add(&t->out->lua, text + 1, line_chars(text + 1));
                buf_puts(&t->out->lua, "\n");
            }
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    t->depth--;
    return ok;
}

bool tmpl_translate(struct arena *a, const char *dir, const char *name,
                    struct tmpl_text *out, struct diags *d)
{
    struct translator t = {.arena = a, .dir = dir, .out = out, .d = d};
    *out = (struct tmpl_text){0};
    buf_init(&out->lua, a);
    buf_puts(&out->lua, "");
    return translate_file(&t, arena_printf(a, "%s.ptxt", name), name, loc_none());
}
