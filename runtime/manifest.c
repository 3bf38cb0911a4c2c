#include "runtime/manifest.h"

#include <string.h>

#include "runtime/manifest_read.h"

#define BEGIN "// fp4gen-manifest "
#define END "// end-manifest"

/* ---- pieces of a line */

enum { SHOWN = 60 };

bool span_is(struct span s, const char *text)
{
    return s.chars == strlen(text) && memcmp(s.at, text, s.chars) == 0;
}

int span_shown(struct span s)
{
    return s.chars > SHOWN ? SHOWN : (int)s.chars;
}

struct span span_take(struct span *s, char stop)
{
    const char *found = s->chars ? memchr(s->at, stop, s->chars) : NULL;
    struct span part = {s->at, found ? (size_t)(found - s->at) : s->chars};
    size_t gone = part.chars + (found != NULL);
    s->at += gone;
    s->chars -= gone;
    return part;
}

bool bad_value(const struct reader *r, struct span value, const char *allowed)
{
    fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_VALUE), r->line, (int)r->key.chars,
         r->key.at, span_shown(value), value.chars ? value.at : "", allowed);
    return false;
}

bool span_u64(struct span s, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;
    if (s.chars == 0 || s.chars > 19)
        return false;
    for (size_t i = 0; i < s.chars; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    }
    *out = n;
    return n <= max;
}

bool span_u32(struct span s, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t n;
    if (!span_u64(s, max, &n) || n < min)
        return false;
    *out = (uint32_t)n;
    return true;
}

bool read_text(const struct reader *r, struct span s, char *out, size_t bytes)
{
    if (s.chars >= bytes) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_LONG), r->line, (int)r->key.chars,
             r->key.at, s.chars, bytes - 1);
        return false;
    }
    for (size_t i = 0; i < s.chars; i++)
        if (s.at[i] < ' ' || s.at[i] > '~')
            return bad_value(r, s, "printable ASCII");
    if (s.chars == 0)
        return bad_value(r, s, "a text that is not empty");
    memcpy(out, s.at, s.chars);
    out[s.chars] = '\0';
    return true;
}

int span_find(struct span s, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && span_is(s, names[i]))
            return (int)i;
    return -1;
}

bool span_take_field(struct span *rest, const char *name, struct span *out)
{
    *out = span_take(rest, ' ');
    return span_is(span_take(out, '='), name);
}

/* ---- the comment */

/* Next line without its end; false at the end of the text. */
static bool next_line(struct reader *r, struct span *line)
{
    if (r->rest == r->end)
        return false;
    const char *stop = memchr(r->rest, '\n', (size_t)(r->end - r->rest));
    line->at = r->rest;
    line->chars = (size_t)((stop ? stop : r->end) - r->rest);
    r->rest = stop ? stop + 1 : r->end;
    r->line++;
    if (line->chars && line->at[line->chars - 1] == '\r')
        line->chars--;
    return true;
}

/* "// key: value"; notes the key in *seen. */
static bool read_line(struct reader *r, struct span line, uint32_t *seen)
{
    struct span rest = line;
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    if (line.chars < 3 || memcmp(line.at, "// ", 3) != 0 ||
        !memchr(line.at, ':', line.chars)) {
        fail(r->err, bad, ERROR(MANIFEST_LINE), r->line, span_shown(line), line.at);
        return false;
    }
    rest.at += 3;
    rest.chars -= 3;
    r->key = span_take(&rest, ':');
    if (rest.chars && rest.at[0] == ' ') {
        rest.at++;
        rest.chars--;
    }
    r->value = rest;
    return read_key(r, seen);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$';
}

/* Leaves `block` as the manifest's lines, the first and the last included. */
static bool read_comment(struct reader *r, struct span *block)
{
    const fp4gen_status bad = FP4GEN_BAD_PTX;
    struct span line = {r->rest, 0};
    uint32_t version = 0, seen = 0;
    do {
        if (!next_line(r, &line)) {
            fail(r->err, bad, ERROR(KERNEL_NOT_OURS));
            return false;
        }
    } while (line.chars < strlen(BEGIN) || memcmp(line.at, BEGIN, strlen(BEGIN)) != 0);
    block->at = line.at;
    struct span number = {line.at + strlen(BEGIN), line.chars - strlen(BEGIN)};
    if (!span_u32(number, 1, 1u << 30, &version) || version != IMAGE_MANIFEST_VERSION) {
        fail(r->err, bad, ERROR(MANIFEST_VERSION), r->line, span_shown(number),
             number.at, IMAGE_MANIFEST_VERSION);
        return false;
    }
    for (;;) {
        /* A line without its end is cut off, even where it reads well. */
        if (!next_line(r, &line) || r->rest == r->end) {
            fail(r->err, bad, ERROR(MANIFEST_TRUNCATED), r->line);
            return false;
        }
        if (span_is(line, END))
            break;
        if (!read_line(r, line, &seen))
            return false;
    }
    block->chars = (size_t)(r->rest - block->at);
    return check_keys(r, seen);
}

/* The character of the comment that the constant must have next, -1 at the end. */
static int next_expected(struct span *block, bool *line_start)
{
    if (*line_start && block->chars) { /* skip "// " */
        size_t skip = block->chars < 3 ? block->chars : 3;
        block->at += skip;
        block->chars -= skip;
    }
    *line_start = false;
    if (!block->chars)
        return -1;
    int c = (unsigned char)*block->at;
    block->at++;
    block->chars--;
    if (c == '\r')
        return next_expected(block, line_start);
    *line_start = c == '\n';
    return c;
}

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* The constant comes behind the kernel, so a text that was cut off lacks it. */
static bool check_constant(const struct reader *r, struct span block)
{
    static const char name[] = " fp4gen_manifest[";
    const char *p = strstr(r->rest, name);
    if (!p) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(KERNEL_TRUNCATED), r->line);
        return false;
    }
    p += strcspn(p, "{");
    bool line_start = true;
    bool same = *p == '{';
    while (same) {
        p = skip_space(p + 1); /* behind { or , */
        size_t digits = strspn(p, "0123456789");
        uint32_t byte = 0;
        int want = next_expected(&block, &line_start);
        same = span_u32((struct span){p, digits}, 0, 255, &byte) && (int)byte == want;
        p = skip_space(p + digits);
        if (*p == '\0') {
            fail(r->err, FP4GEN_BAD_PTX, ERROR(KERNEL_TRUNCATED), r->line);
            return false;
        }
        if (*p != ',')
            break;
    }
    if (!same || *p != '}' || next_expected(&block, &line_start) != -1) {
        fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_COPIES));
        return false;
    }
    return true;
}

/* `word` at the start of a line, and the word behind it. */
static struct span find_directive(const char *text, const char *word)
{
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p = skip_space(p);
        if (strncmp(p, word, strlen(word)) == 0) {
            p += strlen(word);
            p += strspn(p, " \t");
            return (struct span){p, strcspn(p, " \t\r\n,")};
        }
    }
    return (struct span){text, 0};
}

static bool check_directive(const struct reader *r, const char *word, const char *want)
{
    struct span has = find_directive(r->rest, word);
    if (span_is(has, want))
        return true;
    fail(r->err, FP4GEN_BAD_PTX, ERROR(MANIFEST_DIRECTIVE), word + 1, want, word,
         span_shown(has), has.at);
    return false;
}

static bool has_entry(const char *text, const char *kernel)
{
    size_t chars = strlen(kernel);
    for (const char *p = text; (p = strstr(p, ".entry")); p++) {
        const char *name = skip_space(p + strlen(".entry"));
        if (strncmp(name, kernel, chars) == 0 && !is_name_char(name[chars]))
            return true;
    }
    return false;
}

fp4gen_status manifest_read(struct image *out, const char *ptx, size_t bytes,
                            fp4gen_error *err)
{
    struct reader r = {.out = out, .err = err, .rest = ptx, .end = ptx + bytes};
    struct span block;
    memset(out, 0, sizeof *out);
    out->ptx = ptx;
    out->ptx_bytes = bytes;
    const char *nul = memchr(ptx, '\0', bytes);
    if (nul) {
        return fail(err, FP4GEN_BAD_PTX, ERROR(KERNEL_BINARY), (size_t)(nul - ptx));
    }
    if (!read_comment(&r, &block))
        return FP4GEN_BAD_PTX;
    char version[16];
    version[0] = (char)('0' + out->ptx_version / 10 % 10);
    version[1] = '.';
    version[2] = (char)('0' + out->ptx_version % 10);
    version[3] = '\0';
    if (!check_constant(&r, block) || !check_directive(&r, ".version", version) ||
        !check_directive(&r, ".target", out->target))
        return FP4GEN_BAD_PTX;
    if (!has_entry(r.rest, out->kernel))
        return fail(err, FP4GEN_BAD_PTX, ERROR(MANIFEST_ENTRY), out->kernel);
    return FP4GEN_OK;
}
