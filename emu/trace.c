/* trace.c - what was traced, as JSON that Perfetto and Chrome open, and as a text.
 *
 * "Trace Event Format": complete events ("ph":"X") with ts and dur in microseconds; a
 * process is a CTA, a thread is a warp, an engine or a barrier.  Spans of one track
 * must not overlap, or viewers drop them: copies that are under way at the same time
 * lie on tracks side by side.  A cycle of the model is shown as a nanosecond. */
#include "emu/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base.h"

#define MAX_BYTES ((size_t)48 << 20) /* of the file */
#define MAX_ROLES 32
#define GAP 1000 /* cycles between two launches */

/* Threads of a CTA: warps have their numbers. */
enum {
    TRACK_PIPE = 1000,
    TRACK_BARRIER = 2000,
    TRACK_LOADS = 100000,
    TRACK_STORES = 200000,
};

struct role_sums {
    char name[96];
    uint64_t warps, cycles;
    uint64_t stalls[STALL_COUNT];
};

struct trace {
    struct arena *arena;
    struct buf events;                   /* JSON, each with a comma in front */
    struct buf parts[TIMELINE_CLUSTERS]; /* of this launch: clusters end in any order */
    bool is_full, is_cut;
    uint64_t start, end; /* of this launch on the common time line */
    struct role_sums roles[MAX_ROLES];
    int role_count;
    unsigned launches;
};

static const char *const stall_names[STALL_COUNT] = {
    [STALL_LOAD] = "copies in",    [STALL_TENSOR] = "tensor pipe",
    [STALL_WARPS] = "other warps", [STALL_BARRIER] = "barriers",
    [STALL_STORE] = "stores",      [STALL_TMEM] = "tmem ld/st",
    [STALL_SLEEP] = "sleep",
};

struct trace *trace_new(void)
{
    struct trace *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->arena = arena_new();
    buf_init(&t->events, t->arena);
    for (int i = 0; i < TIMELINE_CLUSTERS; i++)
        buf_init(&t->parts[i], t->arena);
    return t;
}

void trace_free(struct trace *t)
{
    if (!t)
        return;
    arena_free(t->arena);
    free(t);
}

/* ---- JSON */

static void put_text(struct buf *b, const char *s)
{
    buf_puts(b, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_printf(b, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            buf_printf(b, "\\u%04x", (unsigned char)*s);
        else
            buf_add(b, s, 1);
    }
    buf_puts(b, "\"");
}

static void put_us(struct buf *b, const char *name, uint64_t cycles)
{
    buf_printf(b, ",\"%s\":%" PRIu64 ".%03u", name, cycles / 1000,
               (unsigned)(cycles % 1000));
}

static unsigned process_of(const struct trace *t, const struct cluster *c,
                           uint32_t rank)
{
    return t->launches * 1000 + (unsigned)c->number * MAX_CLUSTER_CTAS + rank;
}

static struct buf *part_of(struct trace *t, const struct cluster *c)
{
    return &t->parts[c->number];
}

static void put_name(struct buf *b, const char *what, unsigned process, unsigned track,
                     const char *name)
{
    buf_printf(b,
               ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,"
               "\"args\":{\"name\":",
               what, process, track);
    put_text(b, name);
    buf_puts(b, "}}");
}

/* Copies of a CTA in one direction: until when the newest one of each track takes. */
struct side_by_side {
    uint64_t *until;
    int count, cap;
};

/* The first track that is free; spans come in the order of their starts. */
static unsigned free_track(struct side_by_side *t, const struct span *s)
{
    int i = 0;
    while (i < t->count && t->until[i] > s->from)
        i++;
    if (i == t->cap) {
        t->cap = i ? 2 * i : 8;
        t->until = realloc(t->until, (size_t)t->cap * sizeof *t->until);
        if (!t->until)
            abort();
    }
    t->count += i == t->count;
    t->until[i] = s->to;
    return (unsigned)i;
}

/* tracks: of this CTA, loads and stores. */
static unsigned track_of(const struct span *s, struct side_by_side *tracks)
{
    switch (s->kind) {
    case SPAN_RUN:
    case SPAN_WAIT:
        return s->warp;
    case SPAN_LOAD:
        return TRACK_LOADS + free_track(&tracks[0], s);
    case SPAN_STORE:
        return TRACK_STORES + free_track(&tracks[1], s);
    case SPAN_MMA:
    case SPAN_CP:
    case SPAN_COMMIT:
        return TRACK_PIPE;
    case SPAN_PHASE:
        break;
    }
    return TRACK_BARRIER + s->what / 8;
}

static void name_span(const struct span *s, const struct ptx_insn *i, char *text,
                      size_t bytes)
{
    switch (s->kind) {
    case SPAN_RUN:
        snprintf(text, bytes, "run");
        break;
    case SPAN_WAIT:
        snprintf(text, bytes, "wait: %s", stall_names[s->what]);
        break;
    case SPAN_LOAD:
    case SPAN_STORE:
        snprintf(text, bytes, "%s %" PRIu32 " B, line %d",
                 s->kind == SPAN_LOAD ? "load" : "store", s->what, i->line);
        break;
    case SPAN_MMA:
        snprintf(text, bytes, "mma, line %d", i->line);
        break;
    case SPAN_CP:
        snprintf(text, bytes, "cp, line %d", i->line);
        break;
    case SPAN_COMMIT:
        snprintf(text, bytes, "commit, line %d", i->line);
        break;
    case SPAN_PHASE:
        snprintf(text, bytes, "phase");
        break;
    }
}

static void put_span(struct trace *t, const struct cluster *c, const struct span *s,
                     unsigned track)
{
    const struct ptx_insn *i = c->grid->kernel->ops[s->pc].insn;
    struct buf *b = part_of(t, c);
    char name[96];
    name_span(s, i, name, sizeof name);
    buf_puts(b, ",\n{\"ph\":\"X\",\"name\":");
    put_text(b, name);
    buf_printf(b, ",\"pid\":%u,\"tid\":%u", process_of(t, c, s->cta), track);
    put_us(b, "ts", t->start + s->from);
    put_us(b, "dur", s->to - s->from);
    buf_printf(b, ",\"args\":{\"line\":%d,\"instruction\":", i->line);
    put_text(b, i->opcode);
    if (s->kind != SPAN_RUN && s->kind != SPAN_WAIT && s->kind != SPAN_PHASE)
        buf_printf(b, ",\"warp\":%" PRIu32, s->warp);
    buf_puts(b, "}}");
    if (t->start + s->to > t->end)
        t->end = t->start + s->to;
}

static void name_tracks(struct trace *t, const struct cluster *c, uint32_t rank)
{
    const struct cta *cta = &c->ctas[rank];
    unsigned process = process_of(t, c, rank);
    char name[256];
    snprintf(name, sizeof name, "launch %u %s block (%u,%u,%u)", t->launches,
             c->grid->kernel->func->name, cta->id[0], cta->id[1], cta->id[2]);
    put_name(part_of(t, c), "process_name", process, 0, name);
    put_name(part_of(t, c), "thread_name", process, TRACK_PIPE, "tensor pipe");
    for (const struct mbar *m = cta->mbars; m; m = m->next_of_cta) {
        snprintf(name, sizeof name, "barrier 0x%x, line %d", m->offset, m->init_line);
        put_name(part_of(t, c), "thread_name", process, TRACK_BARRIER + m->offset / 8,
                 name);
    }
}

/* "TMA loads", "TMA loads 2" and so on. */
static void name_copies(struct trace *t, const struct cluster *c, uint32_t rank,
                        unsigned first, const char *what, int count)
{
    char name[64];
    for (int i = 0; i == 0 || i < count; i++) {
        snprintf(name, sizeof name, i ? "%s %d" : "%s", what, i + 1);
        put_name(part_of(t, c), "thread_name", process_of(t, c, rank),
                 first + (unsigned)i, name);
    }
}

void trace_add(struct trace *t, const struct cluster *c, const struct span *spans,
               int count, bool is_cut)
{
    struct side_by_side tracks[MAX_CLUSTER_CTAS][2] = {0};
    t->is_cut |= is_cut;
    if (t->is_full)
        return;
    for (int i = 0; i < c->cta_count; i++)
        name_tracks(t, c, (uint32_t)i);
    for (int i = 0; i < count && !t->is_full; i++) {
        put_span(t, c, &spans[i], track_of(&spans[i], tracks[spans[i].cta]));
        t->is_full = t->events.bytes + part_of(t, c)->bytes > MAX_BYTES;
    }
    for (int i = 0; i < c->cta_count; i++) {
        name_copies(t, c, (uint32_t)i, TRACK_LOADS, "TMA loads", tracks[i][0].count);
        name_copies(t, c, (uint32_t)i, TRACK_STORES, "TMA stores", tracks[i][1].count);
        free(tracks[i][0].until);
        free(tracks[i][1].until);
    }
}

/* ---- roles */

void trace_add_warp(struct trace *t, const struct cluster *c, const struct warp *w,
                    const struct trace_warp *sums)
{
    char name[128];
    snprintf(name, sizeof name, "warp %d%s%s", w->index, sums->role[0] ? " " : "",
             sums->role);
    if (!t->is_full)
        put_name(part_of(t, c), "thread_name", process_of(t, c, w->cta->rank),
                 (unsigned)w->index, name);
    const char *role = sums->role[0] ? sums->role : "no loop of its own";
    int i = 0;
    while (i < t->role_count && strcmp(t->roles[i].name, role) != 0)
        i++;
    if (i == MAX_ROLES)
        return;
    struct role_sums *r = &t->roles[i];
    if (i == t->role_count) {
        t->role_count++;
        *r = (struct role_sums){0};
        snprintf(r->name, sizeof r->name, "%s", role);
    }
    r->warps++;
    r->cycles += sums->end;
    for (int k = 0; k < STALL_COUNT; k++)
        r->stalls[k] += sums->stalls[k];
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return whole ? (unsigned)((100 * part + whole / 2) / whole) : 0;
}

static void summarise(const struct trace *t, const struct grid *g, struct buf *b)
{
    buf_printf(b, "virtual time of %s: %" PRIu64 " cycles (a model: emu/README.md)\n",
               g->kernel->func->name, t->end - t->start);
    buf_printf(b, "  %-28s %5s %5s", "role", "warps", "runs");
    for (int k = 0; k < STALL_COUNT; k++)
        buf_printf(b, " %11s", stall_names[k]);
    buf_puts(b, "\n");
    for (int i = 0; i < t->role_count; i++) {
        const struct role_sums *r = &t->roles[i];
        uint64_t stalled = 0;
        for (int k = 0; k < STALL_COUNT; k++)
            stalled += r->stalls[k];
        buf_printf(b, "  %-28s %5" PRIu64 " %4u%%", r->name, r->warps,
                   percent(r->cycles - stalled, r->cycles));
        for (int k = 0; k < STALL_COUNT; k++)
            buf_printf(b, " %10u%%", percent(r->stalls[k], r->cycles));
        buf_puts(b, "\n");
    }
    if (t->is_full || t->is_cut)
        buf_puts(b, "  the trace is cut: there were more events than are kept\n");
}

/* ---- a launch */

void trace_start(struct trace *t, const struct grid *g)
{
    (void)g;
    t->start = t->end ? t->end + GAP : 0;
    t->end = t->start;
    t->role_count = 0;
    t->launches++;
    for (int i = 0; i < TIMELINE_CLUSTERS; i++)
        t->parts[i].bytes = 0;
}

static int by_name(const void *a, const void *b)
{
    const struct role_sums *x = a, *y = b;
    return strcmp(x->name, y->name);
}

bool trace_end(struct trace *t, const struct grid *g, const char *path, char **summary)
{
    for (int i = 0; i < TIMELINE_CLUSTERS; i++)
        if (t->parts[i].bytes)
            buf_add(&t->events, t->parts[i].data, t->parts[i].bytes);
    qsort(t->roles, (size_t)t->role_count, sizeof t->roles[0], by_name);
    struct arena *a = arena_new();
    struct buf file, text;
    buf_init(&file, a);
    buf_init(&text, a);
    buf_printf(
        &file,
        "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"time\":\"virtual: one cycle "
        "of a model is shown as one nanosecond\",\"cut\":%s},\n\"traceEvents\":[",
        t->is_full || t->is_cut ? "true" : "false");
    if (t->events.bytes)
        buf_add(&file, t->events.data + 1, t->events.bytes - 1);
    buf_puts(&file, "\n]}\n");
    bool ok = file_write(path, file.data, file.bytes);
    summarise(t, g, &text);
    *summary = malloc(text.bytes + 1);
    if (*summary)
        memcpy(*summary, text.data, text.bytes + 1);
    arena_free(a);
    return ok;
}
