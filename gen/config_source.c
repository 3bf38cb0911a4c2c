/* Where a field stands in the text of a config.  Lua keeps lines of calls only, so the
 * constructor is searched for in the source, past comments and strings. */
#include <ctype.h>
#include <string.h>

#include "gen/config_read.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_OTHER, /* one character, or "==" as '=' '=' does not occur */
};

struct token {
    enum token_kind kind;
    const char *text;
    size_t chars;
    int line, col;
};

struct scanner {
    const char *at, *line_start;
    int line;
    struct arena *arena;
    struct source_place *places;
    int count, room;
};

static void newline(struct scanner *s)
{
    s->line++;
    s->line_start = s->at + 1;
}

/* [[ ... ]] or [==[ ... ]==]: true and past it; else `at` stays. */
static bool skip_long_bracket(struct scanner *s)
{
    const char *p = s->at;
    size_t level = 0;
    if (*p++ != '[')
        return false;
    for (; *p == '='; p++)
        level++;
    if (*p != '[')
        return false;
    for (s->at = p + 1; *s->at; s->at++) {
        if (*s->at == '\n')
            newline(s);
        if (*s->at == ']' && strspn(s->at + 1, "=") == level &&
            s->at[level + 1] == ']') {
            s->at += level + 2;
            return true;
        }
    }
    return true;
}

static void skip_string(struct scanner *s)
{
    char quote = *s->at++;
    for (; *s->at && *s->at != quote; s->at++) {
        if (*s->at == '\\' && s->at[1])
            s->at++;
        if (*s->at == '\n')
            newline(s);
    }
    if (*s->at)
        s->at++;
}

static void skip_space(struct scanner *s)
{
    for (;;) {
        if (*s->at == '\n') {
            newline(s);
            s->at++;
        } else if (isspace((unsigned char)*s->at)) {
            s->at++;
        } else if (s->at[0] == '-' && s->at[1] == '-') {
            s->at += 2;
            if (!skip_long_bracket(s))
                s->at += strcspn(s->at, "\n");
        } else {
            return;
        }
    }
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static struct token next_token(struct scanner *s)
{
    skip_space(s);
    struct token t = {TOKEN_OTHER, s->at, 1, s->line, (int)(s->at - s->line_start) + 1};
    if (!*s->at) {
        t.kind = TOKEN_END;
        t.chars = 0;
    } else if (is_name_char(*s->at)) { /* numbers too: nobody asks for them */
        t.kind = TOKEN_NAME;
        while (is_name_char(s->at[t.chars]))
            t.chars++;
        s->at += t.chars;
    } else if (*s->at == '"' || *s->at == '\'') {
        t.kind = TOKEN_STRING;
        skip_string(s);
        t.chars = (size_t)(s->at - t.text);
    } else if (skip_long_bracket(s)) {
        t.kind = TOKEN_STRING;
        t.chars = (size_t)(s->at - t.text);
    } else {
        if (strchr("=~<>", *s->at) && s->at[1] == '=')
            t.chars = 2;
        s->at += t.chars;
    }
    return t;
}

static bool is(const struct token *t, const char *text)
{
    return t->kind != TOKEN_STRING && t->chars == strlen(text) &&
           memcmp(t->text, text, t->chars) == 0;
}

static void add_place(struct scanner *s, const char *path, const struct token *t)
{
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 32;
        struct source_place *more =
            ARENA_ARRAY(s->arena, struct source_place, (size_t)room);
        if (s->count)
            memcpy(more, s->places, (size_t)s->count * sizeof *more);
        s->places = more;
        s->room = room;
    }
    s->places[s->count++] = (struct source_place){path, t->line, t->col};
}

/* Is this the key of a field?  Then its name, and *t becomes the value's first token.
 */
static const char *field_name(struct scanner *s, struct token *t)
{
    struct scanner saved = *s;
    struct token key = *t, next = next_token(s);
    const char *text = key.text;
    size_t chars = key.chars;
    if (is(&key, "[") && next.kind == TOKEN_STRING && next.chars >= 2 &&
        *next.text != '[') {
        text = next.text + 1;
        chars = next.chars - 2;
        next = next_token(s);
        if (!is(&next, "]")) {
            *s = saved;
            return NULL;
        }
        next = next_token(s);
    } else if (key.kind != TOKEN_NAME) {
        *s = saved;
        return NULL;
    }
    if (!is(&next, "=")) {
        *s = saved;
        return NULL;
    }
    *t = next_token(s);
    return arena_strndup(s->arena, text, chars);
}

/* -1, 0 or 1: how the token changes the depth of what commas belong to. */
static int nesting(const struct token *t)
{
    static const char *const open[] = {"{", "(", "[", "function", "if", "do", "repeat"};
    static const char *const close[] = {"}", ")", "]", "end", "until"};
    for (size_t i = 0; i < COUNT_OF(open); i++)
        if (is(t, open[i]))
            return 1;
    for (size_t i = 0; i < COUNT_OF(close); i++)
        if (is(t, close[i]))
            return -1;
    return 0;
}

/* Past the opening brace of a table; `prefix` is "" or "tile.".  Ends behind the
 * closing one. */
static void scan_fields(struct scanner *s, const char *prefix)
{
    struct token t = next_token(s);
    while (t.kind != TOKEN_END && !is(&t, "}")) {
        const char *name = field_name(s, &t);
        if (name) {
            const char *path = arena_printf(s->arena, "%s%s", prefix, name);
            add_place(s, path, &t);
            if (is(&t, "{") && !*prefix) {
                scan_fields(s, arena_printf(s->arena, "%s.", path));
                t = next_token(s);
            }
        }
        int depth = 0;
        while (t.kind != TOKEN_END) {
            if (depth == 0 && (is(&t, ",") || is(&t, ";") || is(&t, "}")))
                break;
            depth += nesting(&t);
            t = next_token(s);
        }
        if (is(&t, ",") || is(&t, ";"))
            t = next_token(s);
    }
}

int source_places(struct arena *a, const char *source, const char *constructor,
                  int line, struct source_place **out)
{
    struct scanner s = {.at = source, .line_start = source, .line = 1, .arena = a};
    struct token t = next_token(&s);
    while (t.kind != TOKEN_END && !(is(&t, constructor) && t.line >= line))
        t = next_token(&s);
    if (t.kind != TOKEN_END && (line == 0 || t.line == line)) {
        add_place(&s, "", &t);
        t = next_token(&s);
        if (is(&t, "("))
            t = next_token(&s);
        if (is(&t, "{"))
            scan_fields(&s, "");
    }
    *out = s.places;
    return s.count;
}
