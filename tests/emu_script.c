#include "tests/emu_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#define MAX_VALUES 4096

struct element {
    const char *name;
    int bytes;
    bool is_float;
};

static const struct element elements[] = {
    {"u8", 1, false},  {"u16", 2, false}, {"b16", 2, false}, {"u32", 4, false},
    {"s32", 4, false}, {"f32", 4, true},  {"u64", 8, false}, {"f64", 8, true},
};

struct buffer {
    char name[16];
    const struct element *type;
    uint64_t address;
    size_t count;
};

struct script {
    const char *path, *text;
    struct emu_run run;
    struct buffer buffers[8];
    int buffer_count;
    char checks[64];
    char words[256]; /* of report or refuse; "" when it must go well */
    int check;       /* of report, 0: refuse */
};

static _Noreturn void bad(const struct script *s, const char *line, const char *why)
{
    test_fail(s->path, 0, "%s: %.*s", why, (int)strcspn(line, "\n"), line);
}

/* ---- values */

static void put(uint8_t *to, const struct element *e, double x, long long n,
                bool is_int)
{
    float f = is_int ? (float)n : (float)x;
    double d = is_int ? (double)n : x;
    unsigned long long u = (unsigned long long)n;
    if (!e->is_float)
        memcpy(to, &u, (size_t)e->bytes);
    else if (e->bytes == 4)
        memcpy(to, &f, 4);
    else
        memcpy(to, &d, 8);
}

/* One number at *p: an integer as long as it looks like one. */
static void number(const struct script *s, const char **p, double *x, long long *n,
                   bool *is_int)
{
    char *end_int, *end_float;
    *n = **p == '-' ? strtoll(*p, &end_int, 0) : (long long)strtoull(*p, &end_int, 0);
    *x = strtod(*p, &end_float);
    *is_int = end_int >= end_float || (end_int[0] == '.' && end_int[1] == '.');
    if (end_int == *p && end_float == *p)
        bad(s, *p, "not a number");
    *p = *is_int ? end_int : end_float;
}

static size_t values(const struct script *s, const char *p, const struct element *e,
                     uint8_t *to)
{
    size_t count = 0;
    size_t step = (size_t)e->bytes;
    for (;;) {
        p += strspn(p, " ");
        if (*p == '\n' || *p == '\0')
            return count;
        double x, x2;
        long long n, n2, repeat = 1;
        bool is_int, is_int2;
        number(s, &p, &x, &n, &is_int);
        if (*p == '*' && is_int) {
            repeat = n;
            p++;
            number(s, &p, &x, &n, &is_int);
        }
        n2 = n;
        if (p[0] == '.' && p[1] == '.') {
            p += 2;
            number(s, &p, &x2, &n2, &is_int2);
        }
        for (long long k = 0; k < repeat; k++)
            for (long long v = n; v <= n2; v++) {
                if (count == MAX_VALUES)
                    bad(s, p, "too many values");
                put(to + count++ * step, e, x, v, is_int);
            }
    }
}

/* ---- directives */

static const struct element *element(const struct script *s, const char *name)
{
    for (size_t i = 0; i < COUNT_OF(elements); i++)
        if (strcmp(name, elements[i].name) == 0)
            return &elements[i];
    bad(s, name, "unknown type");
}

static struct buffer *add_buffer(struct script *s, const char *name, const char *type,
                                 size_t count)
{
    if (s->buffer_count == (int)COUNT_OF(s->buffers))
        bad(s, name, "too many buffers");
    struct buffer *b = &s->buffers[s->buffer_count++];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->type = element(s, type);
    b->count = count;
    b->address = emu_alloc(&s->run, count * (size_t)b->type->bytes);
    emu_param(&s->run, &b->address, 8);
    return b;
}

static void add_map(struct script *s, const char *line)
{
    char name[16], why[160];
    unsigned long long dims[2];
    uint32_t box[2];
    _Alignas(64) uint8_t map[TMAP_BYTES];
    if (sscanf(line, " map %15s %llu %llu : %u %u", name, &dims[0], &dims[1], &box[0],
               &box[1]) != 5)
        bad(s, line, "map BUFFER WIDTH HEIGHT : BOX BOX");
    for (int i = 0; i < s->buffer_count; i++)
        if (strcmp(s->buffers[i].name, name) == 0) {
            uint64_t sizes[2] = {dims[0], dims[1]};
            uint32_t steps[2] = {1, 1};
            if (!tmap_encode(map, TMAP_U8, 2, s->buffers[i].address, sizes, sizes, box,
                             steps, 0, 0, 0, 0, why, sizeof why))
                bad(s, line, why);
            emu_param(&s->run, map, sizeof map);
            return;
        }
    bad(s, line, "no such buffer");
}

static void directive(struct script *s, const char *line)
{
    char word[16] = "", name[64] = "", type[16] = "";
    long count = 0;
    const char *colon = strstr(line, " :");
    static _Alignas(8) uint8_t scratch[MAX_VALUES * 8];
    sscanf(line, "%15s %63s %15s %ld", word, name, type, &count);
    if (strcmp(word, "block") == 0) {
        s->run.threads = atoi(name);
    } else if (strcmp(word, "grid") == 0) {
        s->run.grid[0] = (uint32_t)atoi(name);
    } else if (strcmp(word, "cluster") == 0) {
        s->run.cluster[0] = (uint32_t)atoi(name);
    } else if (strcmp(word, "smem") == 0) {
        s->run.smem_bytes = (uint32_t)atoi(name);
    } else if (strcmp(word, "registers") == 0) {
        s->run.registers = (uint32_t)atoi(name);
    } else if (strcmp(word, "in") == 0 && colon) {
        size_t n = values(s, colon + 2, element(s, type), scratch);
        struct buffer *b = add_buffer(s, name, type, n);
        memcpy(emu_bytes(b->address), scratch, n * (size_t)b->type->bytes);
    } else if (strcmp(word, "out") == 0) {
        add_buffer(s, name, type, (size_t)count);
    } else if (strcmp(word, "arg") == 0) {
        const struct element *e = element(s, name);
        values(s, strstr(line, type), e, scratch);
        emu_param(&s->run, scratch, (uint32_t)e->bytes);
    } else if (strcmp(word, "map") == 0) {
        add_map(s, line);
    } else if (strcmp(word, "report") == 0) {
        s->check = atoi(name);
        snprintf(s->words, sizeof s->words, "%.*s",
                 (int)strcspn(strstr(line, type), "\n"), strstr(line, type));
    } else if (strcmp(word, "refuse") == 0) {
        snprintf(s->words, sizeof s->words, "%.*s",
                 (int)strcspn(strstr(line, name), "\n"), strstr(line, name));
    } else if (strcmp(word, "checks") == 0) {
        snprintf(s->checks, sizeof s->checks, "%s", name);
        s->run.checks = s->checks;
    } else if (strcmp(word, "expect") != 0 && strcmp(word, "strategy") != 0 &&
               strcmp(word, "clusters") != 0) {
        bad(s, line, "unknown directive");
    }
}

typedef void directive_fn(struct script *s, const char *line);

static void each_directive(struct script *s, directive_fn *fn)
{
    for (const char *p = strstr(s->text, "//:"); p; p = strstr(p + 3, "//:"))
        fn(s, p + 3);
}

static void check_expect(struct script *s, const char *line)
{
    char word[16] = "", name[16] = "";
    sscanf(line, "%15s %15s", word, name);
    if (strcmp(word, "expect") != 0)
        return;
    static _Alignas(8) uint8_t want[MAX_VALUES * 8];
    for (int i = 0; i < s->buffer_count; i++) {
        const struct buffer *b = &s->buffers[i];
        if (strcmp(b->name, name) != 0)
            continue;
        size_t n = values(s, strstr(line, " :") + 2, b->type, want);
        size_t bytes = (size_t)b->type->bytes;
        const uint8_t *got = emu_bytes(b->address);
        for (size_t k = 0; k < n; k++) {
            unsigned long long g = 0, w = 0;
            memcpy(&g, got + k * bytes, bytes);
            memcpy(&w, want + k * bytes, bytes);
            if (g != w)
                test_fail(s->path, 0, "%s: %s[%zu] is 0x%llx, not 0x%llx",
                          s->run.strategy, name, k, g, w);
        }
        return;
    }
    bad(s, line, "no such buffer");
}

/* ---- a run */

static int marked_line(const char *text)
{
    const char *mark = strstr(text, "//<");
    int line = mark ? 1 : 0;
    for (const char *p = text; mark && p < mark; p++)
        line += *p == '\n';
    return line;
}

static struct script script_of(const char *path, const char *text, const char *strategy)
{
    struct script s = {.path = path, .text = text};
    s.run.ptx = text;
    s.run.threads = 32;
    s.run.registers = 168;
    s.run.strategy = strategy;
    each_directive(&s, directive);
    return s;
}

const char *emu_script_report(struct arena *a, const char *path, const char *text)
{
    const char *lazy = strstr(text, "//: strategy lazy");
    struct script s = script_of(path, text, lazy ? "lazy" : "eager");
    emu_launch(&s.run);
    const char *report = arena_strdup(a, emu_report(&s.run));
    emu_done(&s.run);
    return report;
}

void emu_script_run(const char *path, const char *text, const char *strategy,
                    uint64_t seed, uint32_t first)
{
    const char *only = strstr(text, "//: strategy ");
    if (only && strncmp(only + 13, strategy, strlen(strategy)) != 0)
        return;
    struct script s = script_of(path, text, strategy);
    s.run.seed = seed;
    s.run.first_clusters = first;
    if (s.words[0] && s.check) {
        emu_expect(path, 0, &s.run, (enum check)s.check, marked_line(text), s.words);
    } else if (s.words[0]) {
        if (emu_launch(&s.run))
            test_fail(path, 0, "it ran; expected a refusal: %s", s.words);
        const char *refusal = emu_refusal(&s.run);
        char place[32];
        snprintf(place, sizeof place, "test.ptx:%d:", marked_line(text));
        if (!strstr(refusal, s.words) || !strstr(refusal, place))
            test_fail(path, 0, "expected \"%s\" in line %d; got\n%s", s.words,
                      marked_line(text), refusal);
    } else {
        emu_fine(path, 0, &s.run);
        each_directive(&s, check_expect);
    }
    emu_done(&s.run);
}
