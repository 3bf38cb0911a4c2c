/* t_emu_files.c - runs tests/emu/NAME.ptx, each as its own comments say, on the
 * machine.
 *
 *     //: block 64                  threads of a block; also grid, cluster, smem:
 * numbers
 *     //: in x u32 : 1 2 0..31      a buffer with these values, the next parameter
 *     //: out y f32 64              a zeroed buffer of 64 elements, the next parameter
 *     //: arg u32 7                 a value, the next parameter
 *     //: expect y : 3*1.5 0..60    what the buffer must hold: N*V repeats, A..B counts
 *     //: report 25 words           the launch must end so, with these words, in the
 *                                   line that is marked //<
 *     //: refuse words              the decoder must not take it, in the line marked so
 *     //: strategy lazy             not in both ways
 *     //: checks pedantic           as FP4EMU_CHECK
 *     //: clusters 1 2 0            as often, with so many launched at first (0: all)
 *
 * Every file runs under the eager and the lazy strategy; those that must go well run
 * under all others too, with several seeds. */
#include "tests/emu_run.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VALUES 4096
#define FOLDER "tests/emu"

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

/* ---- a file */

static int marked_line(const char *text)
{
    const char *mark = strstr(text, "//<");
    int line = mark ? 1 : 0;
    for (const char *p = text; mark && p < mark; p++)
        line += *p == '\n';
    return line;
}

static void run_once(const char *path, const char *text, const char *strategy,
                     uint64_t seed, uint32_t first)
{
    const char *only = strstr(text, "//: strategy ");
    if (only && strncmp(only + 13, strategy, strlen(strategy)) != 0)
        return;
    struct script s = {.path = path, .text = text};
    s.run.ptx = text;
    s.run.threads = 32;
    s.run.registers = 168;
    s.run.strategy = strategy;
    s.run.seed = seed;
    s.run.first_clusters = first;
    each_directive(&s, directive);
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

static void run_strategies(const char *path, const char *text, uint32_t first)
{
    static const char *const others[] = {
        "reverse",        "random",        "random:1", "pct",
        "pct:5:99",       "starve:0",      "starve:1", "starve:2-9",
        "delay:tma_load", "delay:commit:2"};
    run_once(path, text, "eager", 1, first);
    run_once(path, text, "lazy", 1, first);
    if (strstr(text, "//: report") || strstr(text, "//: refuse"))
        return;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        for (uint64_t seed = 1; seed <= (strchr("rp", others[i][0]) ? 5 : 1); seed++)
            run_once(path, text, others[i], seed, first);
}

static void run_text(const char *path, const char *text)
{
    static const char word[] = "//: clusters";
    const char *p = strstr(text, word);
    char *end = NULL;
    if (p)
        p += sizeof word - 1;
    do {
        uint32_t first = p ? (uint32_t)strtoul(p, &end, 10) : 0;
        run_strategies(path, text, first);
        p = end;
    } while (p && *p == ' ');
}

/* All files whose name begins so; at least one. */
static void run_all(const char *prefix)
{
    struct arena *a = arena_new();
    DIR *dir = opendir(FOLDER);
    if (!dir)
        test_fail(__FILE__, __LINE__, "no folder %s here", FOLDER);
    int count = 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t bytes, length = strlen(e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || length < 5 ||
            strcmp(e->d_name + length - 4, ".ptx") != 0)
            continue;
        const char *path = arena_printf(a, "%s/%s", FOLDER, e->d_name);
        const char *text = file_read(a, path, &bytes);
        CHECK(text != NULL);
        run_text(path, text);
        count++;
    }
    closedir(dir);
    CHECK(count > 0);
    arena_free(a);
}

TEST(flow)
{
    run_all("flow_");
}

TEST(memory)
{
    run_all("mem_");
}

TEST(warps)
{
    run_all("warp_");
}

TEST(barriers)
{
    run_all("bar_");
}

TEST(mbarriers)
{
    run_all("mbar_");
}

TEST(launch_control)
{
    run_all("clc_");
}

TEST(clusters)
{
    run_all("cluster_");
}

TEST(registers)
{
    run_all("regs_");
}

TEST(faults)
{
    run_all("fault_");
}

TEST(refusals)
{
    run_all("refuse_");
}
