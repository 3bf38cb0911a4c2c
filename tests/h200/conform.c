#include "tests/h200/conform.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 4096u
#define ALL_THREADS 65536u /* where a source goes through all 16-bit values */
#define BLOCK 256u
#define SCRATCH_BYTES 16u /* of global and of shared memory for a thread */
#define MODULE_CASES 64u

/* ---- sources: a letter says the width of the register and what comes into it
 *
 *   h H r R d D   16, 32, 64 bits of integer; capitals are never 0
 *   s             32 bits: shift amounts, positions, lengths
 *   e b f F       f16, bf16 (16-bit registers), f32, f64
 *   E B           f16x2, bf16x2
 *   x X           32 and 64 random bits
 *   u v           thread number as 32 and 16 bits: all pairs of bytes, all of 16 bits
 *   M             32 bits, not 0, the same for a warp
 *   p             predicate
 *   1 2 3 4 5 6   64 bits of matrix elements: e4m3, e5m2, f16, bf16, tf32, bytes
 *   A C           two f32, four f16 to add them to
 * and as results h r d, p, q (two registers of 64 bits: %0 and %9) */

static int bits_of(char type)
{
    return strchr("hHebv", type)           ? 16
           : strchr("dDFX123456ACq", type) ? 64
           : type == 'p'                   ? 1
                                           : 32;
}

static const uint64_t int_pool[] = {
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    33,
    64,
    100,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0x8001,
    0xfffe,
    0xffff,
    0x10000,
    0x7fffff,
    0x800000,
    0xffffff,
    0x7fffffff,
    0x80000000,
    0x80000001,
    0xfffffffe,
    0xffffffff,
    0x100000000,
    0x123456789abcdef0,
    0x7fffffffffffffff,
    0x8000000000000000,
    0x8000000000000001,
    0xfffffffffffffffe,
    0xffffffffffffffff,
    0x5555555555555555,
    0xfedcba9876543210,
    0xffffffff80000000,
    0x00ff00ff7f808000,
};
static const uint64_t shift_pool[] = {
    0,     1,      2,       7,      8,          15,         16,         17,
    24,    30,     31,      32,     33,         47,         48,         63,
    64,    65,     95,      127,    128,        255,        256,        257,
    0x110, 0xffff, 0x10000, 0x1f20, 0x7fffffff, 0x80000000, 0xffffffe0, 0xffffffff,
};
static const uint64_t f32_pool[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
    0x80800000, 0x00ffffff, 0x33800000, 0x3effffff, 0x3f000000, 0xbf000000, 0x3f7fffff,
    0x3f800000, 0xbf800000, 0x3f800001, 0x3fc00000, 0x40200000, 0x40490fdb, 0xc0490fdb,
    0x43000000, 0x43800000, 0xc3800000, 0x477fe000, 0x477ff000, 0x47800000, 0x4effffff,
    0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0xdf000000, 0x5f800000, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff,
    0xffbfffff, 0x38800000, 0x387fc000, 0x33000000, 0x33000001, 0x4b000000, 0x4b7fffff,
    0x42b17218, 0xc2b17218, 0x204a6691, 0x1fa1e58f, 0x7e800000, 0x00400000, 0x3e000000,
};
static const uint64_t f64_pool[] = {
    0,
    0x8000000000000000,
    1,
    0x8000000000000001,
    0x000fffffffffffff,
    0x0010000000000000,
    0x3ff0000000000000,
    0xbff0000000000000,
    0x3ff0000000000001,
    0x3fe0000000000000,
    0xbfe0000000000000,
    0x3fefffffffffffff,
    0x3ff8000000000000,
    0x4004000000000000,
    0x7fefffffffffffff,
    0xffefffffffffffff,
    0x7ff0000000000000,
    0xfff0000000000000,
    0x7ff8000000000000,
    0xfff8000000000000,
    0x7ff0000000000001,
    0xfff8000000000123,
    0x7fffffffffffffff,
    0x47efffffe0000000,
    0x47efffffefffffff,
    0x47effffff0000000,
    0x3690000000000000,
    0x36a0000000000000,
    0x380fffffffffffff,
    0x41dfffffffc00000,
    0x41dfffffffe00000,
    0x41e0000000000000,
    0xc1e0000000000000,
    0xc1e0000000200000,
    0x41efffffffe00000,
    0x41f0000000000000,
    0x43dfffffffffffff,
    0x43e0000000000000,
    0xc3e0000000000000,
    0x43efffffffffffff,
    0x43f0000000000000,
    0x4330000000000001,
    0x40effc0000000000,
    0x40f0000000000000,
};
static const uint64_t f16_pool[] = {
    0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x8400, 0x0401, 0x3bff, 0x3c00,
    0xbc00, 0x3c01, 0x3800, 0xb800, 0x3e00, 0x4100, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
    0x7e00, 0xfe00, 0x7c01, 0x7fff, 0xffff, 0x6400, 0x5bf8, 0x5c00, 0x1400, 0x4248,
};
static const uint64_t bf16_pool[] = {
    0,      0x8000, 1,      0x8001, 0x007f, 0x0080, 0x8080, 0x0081, 0x3f7f, 0x3f80,
    0xbf80, 0x3f81, 0x3f00, 0xbf00, 0x3fc0, 0x4020, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
    0x7fc0, 0xffc0, 0x7f81, 0x7fff, 0xffff, 0x4b00, 0x5f80, 0x43e0, 0x3380, 0x4049,
};

struct pool {
    const uint64_t *values;
    size_t count;
};
#define POOL(x) ((struct pool){x, sizeof x / sizeof *x})

static struct pool pool_of(char type)
{
    return strchr("hHrRdD", type) ? POOL(int_pool)
           : type == 's'          ? POOL(shift_pool)
           : type == 'f'          ? POOL(f32_pool)
           : type == 'F'          ? POOL(f64_pool)
           : strchr("eE", type)   ? POOL(f16_pool)
           : strchr("bB", type)   ? POOL(bf16_pool)
                                  : (struct pool){NULL, 0};
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Random bits; half of the floats get an exponent near that of 1. */
static uint64_t random_bits(char type, uint64_t h)
{
    uint64_t x = mix(h);
    if (h >> 8 & 1)
        return x;
    switch (type) {
    case 'f':
        return (x & 0x807fffff) | (120 + x / 0x100000000 % 14) << 23;
    case 'F':
        return (x & 0x800fffffffffffff) | (1016 + h / 0x1000 % 14) << 52;
    case 'e':
    case 'E':
        return (x & 0x83ff83ff) | (11 + h / 0x1000 % 7) << 10 |
               (11 + h / 0x8000 % 7) << 26;
    case 'b':
    case 'B':
        return (x & 0x807f807f) | (121 + h / 0x1000 % 12) << 7 |
               (121 + h / 0x8000 % 12) << 23;
    default:
        return x >> h / 0x1000 % 64; /* integers of all lengths */
    }
}

static uint64_t pick(char type, struct pool p, uint64_t h)
{
    uint64_t x = p.values[h % p.count];
    return type == 'E' || type == 'B' ? x | p.values[(h >> 32) % p.count] << 16 : x;
}

/* Elements of matrices: finite, near 1 in seven of eight warps, else any. */
static uint64_t elements(char type, uint32_t t, uint64_t h)
{
    uint64_t x = mix(h), y = 0;
    bool any = t / 32 % 8 == 7;
    for (int i = 0; i < 64; i += type == '5' || type == 'A' ? 32
                                 : strchr("34C", type)      ? 16
                                                            : 8) {
        uint64_t r = mix(x + (uint64_t)i), e = r >> 40;
        uint64_t code;
        switch (type) {
        case '1': /* any of e4m3 but NaN */
            code = (r & 0x7f) == 0x7f ? 0x38 : r & 0xff;
            break;
        case '2': /* finite of e5m2, seldom beyond 2^8 */
            code = (r & 0x83) | (any ? e % 31 : 7 + e % 16) << 2;
            break;
        case '3':
            code = (r & 0x83ff) | (any ? e % 26 : 10 + e % 10) << 10;
            break;
        case '4':
            code = (r & 0x807f) | (any ? 96 + e % 64 : 122 + e % 10) << 7;
            break;
        case '5':
            code = (r & 0x807fffff) | (any ? 96 + e % 64 : 122 + e % 10) << 23;
            break;
        case 'A':
            code = (r & 0x807fffff) | (any ? 80 + e % 90 : 120 + e % 20) << 23;
            break;
        case 'C':
            code = (r & 0x83ff) | (10 + e % 14) << 10;
            break;
        default:
            code = r & 0xff;
            break;
        }
        y |= code << i;
    }
    return y;
}

static uint64_t source_bits(const struct conform_case *c, uint32_t t, int k)
{
    char type = c->types[k];
    uint64_t h = mix((uint64_t)t << 8 | (uint64_t)k);
    struct pool p = pool_of(type);
    if (type == 'u' || type == 'v')
        return t;
    if (type == 'M')
        return mix(t / 32) & mix(t / 32 + 1000) ? mix(t / 32) & mix(t / 32 + 1000) : 1;
    if (strchr("123456AC", type))
        return elements(type, t, h);
    if (type == 'p')
        return h & 1;
    if (!p.values)
        return mix(h);
    /* All combinations if there is room, then chance. */
    uint64_t all = 1, below = 1;
    for (int i = 1; c->types[i]; i++) {
        size_t n = pool_of(c->types[i]).count;
        all *= n ? n : 1;
        below *= i < k && n ? n : 1;
    }
    if (all <= c->threads && t < all && type != 'E' && type != 'B')
        return p.values[t / below % p.count];
    return h >> 60 > (all > c->threads ? 4 : 7) ? pick(type, p, h)
                                                : random_bits(type, h);
}

uint64_t conform_source(const struct conform_case *c, uint32_t t, int k)
{
    int bits = bits_of(c->types[k]);
    uint64_t x = source_bits(c, t, k);
    x &= bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return x == 0 && strchr("HRD", c->types[k]) ? 1 : x;
}

/* ---- the list */

static bool fail(struct conform *c, const char *what, const char *line)
{
    snprintf(c->wrong, sizeof c->wrong, "%s: %.*s", what, (int)strcspn(line, "\n"),
             line);
    return false;
}

/* Adds one case whose alternatives have been chosen. */
static bool add(struct conform *c, const char *types, const char *text)
{
    struct conform_case *more = realloc(c->cases, (c->count + 1) * sizeof *more);
    if (!more)
        return fail(c, "no memory", text);
    c->cases = more;
    struct conform_case *x = &c->cases[c->count++];
    memset(x, 0, sizeof *x);
    x->loose = types[0] == '~';
    if (strlen(types + x->loose) > CONFORM_SOURCES + 1)
        return fail(c, "too many sources", text);
    snprintf(x->types, sizeof x->types, "%s", types + x->loose);
    x->threads = strpbrk(x->types, "uv") ? ALL_THREADS : THREADS;
    if (text[0] == '[') {
        size_t n = strcspn(text, "]");
        if (text[n] == '\0' || n > sizeof x->key)
            return fail(c, "no end of the label", text);
        memcpy(x->key, text + 1, n - 1);
        snprintf(x->text, sizeof x->text, "%s", text + n + 1);
        return true;
    }
    snprintf(x->key, sizeof x->key, "%s", text);
    size_t at = (size_t)snprintf(x->text, sizeof x->text, "%s ", text);
    for (int k = 0; x->types[k]; k++)
        at += (size_t)snprintf(x->text + at, sizeof x->text - at, "%s%%%d",
                               k ? ", " : "", k);
    snprintf(x->text + at, sizeof x->text - at, ";");
    return true;
}

/* `text` with the alternative `chosen` in the place of the first <...>; in a text that
 * has a label, of all that read the same. */
static void choose(char *to, size_t bytes, const char *text, const char *chosen,
                   size_t length)
{
    const char *group = strchr(text, '<');
    size_t group_bytes = strcspn(group, ">") + 1, at = 0;
    bool all = text[0] == '[', done = false;
    for (const char *s = text; *s && at + length + 1 < bytes;) {
        if (!(done && !all) && strncmp(s, group, group_bytes) == 0) {
            memcpy(to + at, chosen, length);
            at += length;
            s += group_bytes;
            done = true;
        } else {
            to[at++] = *s++;
        }
    }
    to[at] = '\0';
}

/* Each <a|b> stands for a and for b. */
static bool expand(struct conform *c, const char *types, const char *text)
{
    const char *open = strchr(text, '<');
    if (!open)
        return add(c, types, text);
    const char *close = strchr(open, '>');
    if (!close)
        return fail(c, "no > after <", text);
    for (const char *at = open + 1; at <= close;) {
        size_t n = strcspn(at, "|>");
        char one[1024];
        choose(one, sizeof one, text, at, n);
        if (!expand(c, types, one))
            return false;
        at += n + 1;
    }
    return true;
}

bool conform_read(struct conform *c, const char *text)
{
    memset(c, 0, sizeof *c);
    while (*text) {
        char line[1024] = "", types[16] = "";
        size_t at = 0;
        /* Lines that begin with blanks go on. */
        do {
            size_t n = strcspn(text, "\n");
            if (at + n + 2 > sizeof line)
                return fail(c, "line too long", text);
            memcpy(line + at, text, n);
            at += n;
            text += n + (text[n] == '\n');
        } while (*text == ' ' && line[0] != '#');
        line[at] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        size_t n = strcspn(line, " ");
        if (n >= sizeof types || line[n] == '\0')
            return fail(c, "no types", line);
        memcpy(types, line, n);
        if (!expand(c, types, line + n + strspn(line + n, " ")))
            return false;
    }
    return true;
}

void conform_free(struct conform *c)
{
    free(c->cases);
    memset(c, 0, sizeof *c);
}

/* ---- PTX */

static const char *register_type(char type)
{
    int bits = bits_of(type);
    return bits == 1 ? "pred" : bits == 16 ? "b16" : bits == 32 ? "b32" : "b64";
}

static void put_text(FILE *f, const char *text)
{
    for (const char *s = text; *s; s++) {
        if (*s == '%' && s[1] >= '0' && s[1] <= '9')
            fprintf(f, "x%c", *++s);
        else
            fputc(*s, f);
    }
}

/* In the text, `ga` and `sa` are addresses of 16 bytes of the thread in global and
 * shared memory, which hold sources 1 and 2. */
static void put_entry(FILE *f, const struct conform_case *c, size_t number)
{
    bool pair = c->types[0] == 'q';
    fprintf(f,
            ".visible .entry c%zu(.param .u64 in, .param .u64 out, .param .u64 sc)\n{\n"
            ".shared .align 16 .b8 sm[%u];\n.reg .b32 t, u, sa; .reg .b64 i, o, ga;\n",
            number, BLOCK * SCRATCH_BYTES);
    for (int k = 0; c->types[k]; k++)
        fprintf(f, ".reg .%s x%d;\n", register_type(c->types[k]), k);
    if (pair)
        fprintf(f, ".reg .b64 x9;\n");
    fprintf(f,
            "mov.u32 t, %%tid.x; mov.u32 sa, sm; mad.lo.u32 sa, t, %u, sa;\n"
            "mov.u32 u, %%ctaid.x; mad.lo.u32 t, u, %u, t;\n"
            "ld.param.u64 i, [in]; mad.wide.u32 i, t, %u, i;\n"
            "ld.param.u64 o, [out]; mad.wide.u32 o, t, %u, o;\n"
            "ld.param.u64 ga, [sc]; mad.wide.u32 ga, t, %u, ga;\n"
            "{ .reg .b64 a, b; ld.global.v2.b64 {a, b}, [i]; st.global.v2.b64 [ga], "
            "{a, b}; "
            "st.shared.v2.b64 [sa], {a, b}; }\n",
            SCRATCH_BYTES, BLOCK, (CONFORM_SOURCES + 1) * 8, pair ? 16 : 8,
            SCRATCH_BYTES);
    for (int k = 1; c->types[k]; k++) {
        if (c->types[k] == 'p')
            fprintf(f, "ld.global.b32 u, [i+%d]; setp.ne.b32 x%d, u, 0;\n", (k - 1) * 8,
                    k);
        else
            fprintf(f, "ld.global.%s x%d, [i+%d];\n", register_type(c->types[k]), k,
                    (k - 1) * 8);
    }
    put_text(f, c->text);
    if (c->types[0] == 'p')
        fprintf(f, "\n{ .reg .b64 r; selp.b64 r, 1, 0, x0; st.global.b64 [o], r; }\n");
    else if (pair)
        fprintf(f, "\nst.global.v2.b64 [o], {x0, x9};\n");
    else
        fprintf(f, "\n{ .reg .b64 r; cvt.u64.u%d r, x0; st.global.b64 [o], r; }\n",
                bits_of(c->types[0]));
    fprintf(f, "ret;\n}\n");
}

/* ---- running */

struct run {
    struct conform *conform;
    fp4gen_device *dev;
    fp4gen_error *err;
    uint64_t in, out, scratch;
    uint64_t *host_in, *host_out;
    FILE *dump;
};

static uint32_t hash(uint32_t h, uint64_t x)
{
    return (uint32_t)(mix(x ^ (uint64_t)h << 16 ^ h) >> 32);
}

static bool run_case(struct run *r, fp4gen_module *module, size_t number)
{
    struct conform_case *c = &r->conform->cases[number];
    uint32_t words = c->types[0] == 'q' ? 2 : 1;
    size_t stride = CONFORM_SOURCES + 1, out_bytes = (size_t)c->threads * words * 8;
    char entry[24];
    memset(r->host_in, 0, c->threads * stride * 8);
    for (uint32_t t = 0; t < c->threads; t++)
        for (int k = 1; c->types[k]; k++)
            r->host_in[t * stride + (size_t)k - 1] = conform_source(c, t, k);
    snprintf(entry, sizeof entry, "c%zu", number);
    void *params[] = {&r->in, &r->out, &r->scratch};
    fp4gen_launch l = {.entry = entry,
                       .grid = {c->threads / BLOCK, 1, 1},
                       .block = {BLOCK, 1, 1},
                       .params = params};
    if (fp4gen_upload(r->dev, r->in, r->host_in, c->threads * stride * 8, r->err) ||
        fp4gen_fill(r->dev, r->out, 0xee, out_bytes, r->err) ||
        fp4gen_module_launch(module, &l, r->err) || fp4gen_sync(r->dev, NULL, r->err) ||
        fp4gen_download(r->dev, r->host_out, r->out, out_bytes, r->err)) {
        fprintf(stderr, "in %s: %s\n", c->key, c->text);
        return false;
    }
    for (uint32_t g = 0; g < CONFORM_GROUPS; g++) {
        uint32_t h = g, each = c->threads * words / CONFORM_GROUPS;
        for (uint32_t i = 0; i < each; i++)
            h = hash(h, r->host_out[g * each + i]);
        c->hashes[g] = h & 0xffff;
    }
    return !r->dump || fwrite(r->host_out, 1, out_bytes, r->dump) == out_bytes;
}

static bool run_module(struct run *r, size_t first, size_t end)
{
    char *text = NULL;
    size_t bytes = 0;
    fp4gen_module *module = NULL;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return false;
    fprintf(f, ".version 8.7\n.target sm_90a\n.address_size 64\n");
    for (size_t i = first; i < end; i++)
        put_entry(f, &r->conform->cases[i], i);
    fclose(f);
    bool ok = !fp4gen_module_load(&module, r->dev, text, bytes, r->err);
    for (size_t i = first; ok && i < end; i++)
        ok = run_case(r, module, i);
    fp4gen_module_unload(module);
    free(text);
    return ok;
}

bool conform_run(struct conform *c, fp4gen_driver driver, FILE *dump, fp4gen_error *err)
{
    struct run r = {.conform = c, .err = err, .dump = dump};
    size_t in_bytes = ALL_THREADS * (CONFORM_SOURCES + 1) * 8;
    size_t out_bytes = ALL_THREADS * 16;
    r.host_in = malloc(in_bytes);
    r.host_out = malloc(out_bytes);
    bool ok =
        r.host_in && r.host_out && !fp4gen_open(&r.dev, driver, -1, "sm_90a", err);
    if (ok)
        ok = !fp4gen_alloc(r.dev, &r.in, in_bytes, err) &&
             !fp4gen_alloc(r.dev, &r.out, out_bytes, err) &&
             !fp4gen_alloc(r.dev, &r.scratch, ALL_THREADS * SCRATCH_BYTES, err);
    for (size_t i = 0; ok && i < c->count; i += MODULE_CASES)
        ok = run_module(&r, i,
                        i + MODULE_CASES < c->count ? i + MODULE_CASES : c->count);
    if (r.dev) {
        fp4gen_free(r.dev, r.in, NULL);
        fp4gen_free(r.dev, r.out, NULL);
        fp4gen_free(r.dev, r.scratch, NULL);
        fp4gen_close(r.dev);
    }
    free(r.host_in);
    free(r.host_out);
    return ok;
}

/* ---- what was recorded */

static void line_of(const struct conform_case *c, char *to, size_t bytes)
{
    size_t at = 0;
    for (int g = 0; g < CONFORM_GROUPS; g++)
        at += (size_t)snprintf(to + at, bytes - at, "%04x", c->hashes[g]);
    snprintf(to + at, bytes - at, " %s %s", c->types, c->key);
}

void conform_write(const struct conform *c, FILE *out)
{
    char line[256];
    for (size_t i = 0; i < c->count; i++) {
        line_of(&c->cases[i], line, sizeof line);
        fprintf(out, "%s\n", line);
    }
}

int conform_compare(const struct conform *c, const char *recorded, FILE *out)
{
    int wrong = 0;
    for (size_t i = 0; i < c->count; i++) {
        char line[256];
        size_t n = strcspn(recorded, "\n");
        line_of(&c->cases[i], line, sizeof line);
        size_t names = 4 * CONFORM_GROUPS;
        if (n != strlen(line) ||
            memcmp(line + names, recorded + names, n - names) != 0) {
            fprintf(out, "line %zu: %.*s is recorded where the list has %s\n", i + 1,
                    (int)n, recorded, line + names + 1);
            return wrong + 1;
        }
        int g = 0;
        while (g < CONFORM_GROUPS && memcmp(line + 4 * g, recorded + 4 * g, 4) == 0)
            g++;
        if (g < CONFORM_GROUPS && !c->cases[i].loose) {
            uint32_t each = c->cases[i].threads / CONFORM_GROUPS;
            fprintf(out, "%s: other results than recorded in threads %u to %u\n",
                    line + names + 1, (uint32_t)g * each, (uint32_t)(g + 1) * each - 1);
            wrong++;
        }
        recorded += n + (recorded[n] == '\n');
    }
    return wrong;
}
