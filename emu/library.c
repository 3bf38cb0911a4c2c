/* library.c - vprintf and __assertfail.
 *
 * vprintf(format, arguments): the arguments lie packed in local memory, each at its
 * natural alignment: 4 bytes for integers, 8 for doubles, pointers and long long.  Text
 * goes to stdout, that of a failed assertion to stderr, as CUDA has it. */
#include "emu/library.h"
#include "emu/lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_TEXT 4096

/* ---- memory of the calling lane */

static uint8_t *lane_bytes(struct warp *w, uint64_t address, uint32_t bytes, int lane,
                           const char *what)
{
    const struct kernel *k = w->cta->cluster->grid->kernel;
    uint64_t offset = address - LOCAL_WINDOW;
    if (offset < k->local_bytes && bytes <= k->local_bytes - offset)
        return w->local + (size_t)lane * k->local_bytes + offset;
    return generic_at(w, address, bytes, false, lane, what);
}

/* NULL after a report. */
static char *lane_string(struct warp *w, uint64_t address, int lane, const char *what)
{
    size_t cap = 64, bytes = 0;
    char *s = malloc(cap);
    while (s) {
        const uint8_t *p = lane_bytes(w, address + bytes, 1, lane, what);
        if (!p) {
            free(s);
            return NULL;
        }
        s[bytes] = (char)*p;
        if (!*p || bytes == MAX_TEXT) {
            s[bytes] = '\0';
            return s;
        }
        if (++bytes == cap) {
            char *more = realloc(s, cap *= 2);
            if (!more)
                free(s);
            s = more;
        }
    }
    abort();
}

static uint64_t argument(const struct warp *w, const struct opnd *x, int lane)
{
    uint32_t area = w->cta->cluster->grid->kernel->call_bytes;
    uint64_t value = 0;
    memcpy(&value, w->call + (size_t)lane * area + x->imm, x->var->bytes);
    return value;
}

/* ---- vprintf */

struct printing {
    struct warp *w;
    int lane;
    uint64_t at; /* of the next argument */
    char text[MAX_TEXT];
    size_t used;
    int count; /* of arguments */
};

/* Formats come from the kernel, so the compiler cannot check them; `one` picks exactly
 * the argument that a conversion names. */
static int (*const format_one)(char *, size_t, const char *, ...) = snprintf;

static void add(struct printing *p, const char *s, size_t bytes)
{
    if (bytes > sizeof p->text - p->used)
        bytes = sizeof p->text - p->used;
    memcpy(p->text + p->used, s, bytes);
    p->used += bytes;
}

static bool next_argument(struct printing *p, uint32_t bytes, uint64_t *value)
{
    p->at = (p->at + bytes - 1) / bytes * bytes;
    const uint8_t *at = lane_bytes(p->w, p->at, bytes, p->lane, "vprintf argument");
    if (!at)
        return false;
    *value = 0;
    memcpy(value, at, bytes);
    p->at += bytes;
    p->count++;
    return true;
}

/* One conversion: `spec` is "%...c" with the length letters taken out. */
static bool convert(struct printing *p, char *spec, size_t spec_bytes, char letter,
                    bool is_long)
{
    char out[MAX_TEXT + 1];
    uint64_t x;
    int n = 0;
    size_t end = spec_bytes;
    switch (letter) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (!next_argument(p, is_long ? 8 : 4, &x))
            return false;
        spec[end++] = 'l';
        spec[end++] = 'l';
        spec[end++] = letter;
        spec[end] = '\0';
        if (!is_long && (letter == 'd' || letter == 'i'))
            x = (uint64_t)(int64_t)s32_of((uint32_t)x);
        n = format_one(out, sizeof out, spec, (unsigned long long)x);
        break;
    case 'c':
        if (!next_argument(p, 4, &x))
            return false;
        spec[end++] = 'c';
        spec[end] = '\0';
        n = format_one(out, sizeof out, spec, (int)(x & 0xff));
        break;
    case 'p':
        if (!next_argument(p, 8, &x))
            return false;
        n = snprintf(out, sizeof out, "0x%" PRIx64, x);
        break;
    case 's': {
        if (!next_argument(p, 8, &x))
            return false;
        char *s = lane_string(p->w, x, p->lane, "vprintf string");
        if (!s)
            return false;
        spec[end++] = 's';
        spec[end] = '\0';
        n = format_one(out, sizeof out, spec, s);
        free(s);
        break;
    }
    default: /* floating point */
        if (!next_argument(p, 8, &x))
            return false;
        spec[end++] = letter;
        spec[end] = '\0';
        n = format_one(out, sizeof out, spec, f64_of(x));
        break;
    }
    if (n > 0)
        add(p, out, (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
    return true;
}

/* A width or a precision: digits, or a star that takes an argument.  No more than there
 * is room for, since what lies behind is cut off: a kernel may ask for a gigabyte. */
static bool read_extent(struct printing *p, const char **format, int *extent)
{
    const char *s = *format;
    const int room = (int)(sizeof p->text - p->used);
    uint64_t x;
    *extent = 0;
    if (*s == '*') {
        if (!next_argument(p, 4, &x))
            return false;
        *extent = (int)s32_of((uint32_t)x);
        s++;
    } else {
        for (; *s >= '0' && *s <= '9'; s++)
            *extent = *extent < MAX_TEXT ? *extent * 10 + (*s - '0') : MAX_TEXT;
    }
    *extent = *extent > room ? room : *extent < -room ? -room : *extent;
    *format = s;
    return true;
}

/* Copies flags, width and precision into `spec`, of `cap` bytes. */
static bool read_spec(struct printing *p, const char **format, char *spec, size_t cap,
                      size_t *used, bool *is_long)
{
    const char *s = *format;
    int width, precision = -1, n = 0;
    spec[(*used)++] = '%';
    for (; *s && strchr("-+ #0", *s); s++)
        if (*used < cap / 2)
            spec[(*used)++] = *s;
    if (!read_extent(p, &s, &width))
        return false;
    if (*s == '.') {
        s++;
        if (!read_extent(p, &s, &precision))
            return false;
    }
    /* A negative width is a flag and a width, a negative precision none. */
    if (width)
        n = snprintf(spec + *used, cap - *used, "%d", width);
    *used += (size_t)n;
    n = precision < 0 ? 0 : snprintf(spec + *used, cap - *used, ".%d", precision);
    *used += (size_t)n;
    for (; *s && strchr("hlLqjzt", *s); s++)
        *is_long |= *s != 'h';
    *format = s;
    return true;
}

static bool print_lane(struct printing *p, const char *format)
{
    for (const char *s = format; *s; s++) {
        if (*s != '%') {
            add(p, s, 1);
            continue;
        }
        if (s[1] == '%') {
            add(p, ++s, 1);
            continue;
        }
        char spec[64];
        size_t used = 0;
        bool is_long = false;
        s++;
        if (!read_spec(p, &s, spec, sizeof spec, &used, &is_long))
            return false;
        if (!*s)
            break;
        if (!strchr("diuxXocpsfFeEgGaA", *s)) {
            add(p, spec, used);
            add(p, s, 1);
        } else if (!convert(p, spec, used, *s, is_long)) {
            return false;
        }
    }
    return true;
}

/* A kernel that prints without end must not fill a disk. */
static bool print(struct warp *w, const struct printing *p)
{
    struct grid *g = w->cta->cluster->grid;
    uint64_t bytes = atomic_fetch_add(&g->printed, p->used) + p->used;
    if (g->print_limit && bytes > g->print_limit) {
        w->cur_lanes = (uint32_t)1 << p->lane;
        report(g, w, CHECK_LIMIT, "the launch has printed more than %llu bytes",
               (unsigned long long)g->print_limit);
        report_mend(g, "if it should, raise the limit: FP4EMU_PRINT");
        return false;
    }
    fwrite(p->text, 1, p->used, stdout);
    return true;
}

static enum flow exec_vprintf(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *in = op->opnds[2].items, *out = op->opnds[0].items;
    uint32_t area = w->cta->cluster->grid->kernel->call_bytes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        struct printing p = {.w = w, .lane = bits_lowest(rest)};
        char *format =
            lane_string(w, argument(w, &in[0], p.lane), p.lane, "vprintf format");
        if (!format)
            return FLOW_STOP;
        p.at = argument(w, &in[1], p.lane);
        bool fine = print_lane(&p, format);
        free(format);
        if (!fine)
            return FLOW_STOP;
        if (!print(w, &p))
            return FLOW_STOP;
        if (op->opnds[0].item_count > 0)
            memcpy(w->call + (size_t)p.lane * area + out[0].imm, &p.count,
                   sizeof p.count);
    }
    fflush(stdout);
    return FLOW_NEXT;
}

/* ---- __assertfail(message, file, line, function, charSize) */

static enum flow exec_assertfail(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct opnd *in = op->opnds[2].items;
    const struct grid *g = w->cta->cluster->grid;
    int lane = bits_lowest(lanes);
    char *message = lane_string(w, argument(w, &in[0], lane), lane, "assert message");
    char *file =
        message ? lane_string(w, argument(w, &in[1], lane), lane, "assert file") : NULL;
    char *func =
        file ? lane_string(w, argument(w, &in[3], lane), lane, "assert function")
             : NULL;
    enum flow flow = FLOW_STOP;
    if (func) {
        uint32_t line = (uint32_t)argument(w, &in[2], lane);
        uint32_t t = (uint32_t)(w->index * WARP_LANES + lane);
        const uint32_t *id = w->cta->id, *b = g->block;
        fprintf(stderr,
                "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` "
                "failed.\n",
                file, line, func, id[0], id[1], id[2], t % b[0], t / b[0] % b[1],
                t / b[0] / b[1], message);
        w->cur_lanes = (uint32_t)1 << lane;
        flow = report(w->cta->cluster->grid, w, CHECK_ASSERT,
                      "%s:%u: assertion `%s` failed", file, line, message);
    }
    free(message);
    free(file);
    free(func);
    return flow;
}

bool decode_library_call(struct decoder *d, struct op *o, const char *name)
{
    bool is_printf = strcmp(name, "vprintf") == 0;
    if (!is_printf && strcmp(name, "__assertfail") != 0)
        return decode_refuse(d, o,
                             "the module has no function '%s', and of the system's "
                             "only vprintf and __assertfail are there",
                             name);
    const struct opnd *list = &o->opnds[2];
    if (list->item_count != (is_printf ? 2 : 5))
        return decode_refuse(d, o, "%s does not have %d arguments", name,
                             list->item_count);
    for (int i = 0; i < list->item_count; i++)
        if (list->items[i].base != BASE_CALL || !list->items[i].var ||
            list->items[i].var->bytes > 8)
            return decode_refuse(d, o, "arguments must be .param variables");
    for (int i = 0; i < o->opnds[0].item_count; i++)
        if (o->opnds[0].items[i].base != BASE_CALL || !o->opnds[0].items[i].var)
            return decode_refuse(d, o, "results must be .param variables");
    o->exec = is_printf ? exec_vprintf : exec_assertfail;
    decode_order_matters(d);
    return true;
}
