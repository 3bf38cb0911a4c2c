#include "emu/across.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/env.h"
#include "emu/hb.h"
#include "emu/libcuda.h"
#include "emu/memory.h"
#include "emu/report.h"
#include "emu/must.h"

#define PAGE_BYTES 4096u
#define WORD_BYTES 4u
#define MASKS (PAGE_BYTES / WORD_BYTES / 32)
#define BUCKETS 1024u
#define MOST_KEPT 64 /* pieces of work; the oldest are forgotten */

/* ---- clocks */

void across_clock_free(struct across_clock *k)
{
    free(k->at);
    *k = (struct across_clock){0};
}

static uint64_t clock_of(const struct across_clock *k, uint64_t stream)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->at[i].stream == stream)
            return k->at[i].number;
    return 0;
}

static void clock_add(struct across_clock *k, uint64_t stream, uint64_t number)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->at[i].stream == stream) {
            if (number > k->at[i].number)
                k->at[i].number = number;
            return;
        }
    if (k->count == k->cap) {
        k->cap = k->cap ? 2 * k->cap : 4;
        k->at = must(realloc(k->at, k->cap * sizeof *k->at));
    }
    k->at[k->count++] = (struct across_entry){stream, number};
}

static void clock_join(struct across_clock *to, const struct across_clock *from)
{
    for (size_t i = 0; i < from->count; i++)
        clock_add(to, from->at[i].stream, from->at[i].number);
}

/* ---- footprints */

struct words {
    atomic_uint read[MASKS], write[MASKS];
};

struct page {
    uint64_t number; /* address / PAGE_BYTES */
    struct page *next;
    struct words plain;
    struct words *_Atomic strong; /* NULL: no such access */
    atomic_int read_line, write_line;
};

struct footprint {
    struct page *_Atomic buckets[BUCKETS];
    pthread_mutex_t lock; /* for new pages */
};

static struct footprint *footprint_new(void)
{
    struct footprint *f = must(calloc(1, sizeof *f));
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

static void page_free(struct page *p)
{
    free(atomic_load(&p->strong));
    free(p);
}

static void footprint_free(struct footprint *f)
{
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct page *p = f->buckets[i], *next; p; p = next) {
            next = p->next;
            page_free(p);
        }
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static struct page *find_page(const struct footprint *f, uint64_t number)
{
    struct page *p = atomic_load(&f->buckets[number % BUCKETS]);
    while (p && p->number != number)
        p = p->next;
    return p;
}

static struct page *make_page(struct footprint *f, uint64_t number)
{
    pthread_mutex_lock(&f->lock);
    struct page *p = find_page(f, number);
    if (!p) {
        p = must(calloc(1, sizeof *p));
        p->number = number;
        p->next = f->buckets[number % BUCKETS];
        atomic_store(&f->buckets[number % BUCKETS], p);
    }
    pthread_mutex_unlock(&f->lock);
    return p;
}

static struct words *strong_of(struct footprint *f, struct page *p)
{
    pthread_mutex_lock(&f->lock);
    if (!p->strong)
        p->strong = must(calloc(1, sizeof *p->strong));
    pthread_mutex_unlock(&f->lock);
    return p->strong;
}

static void set_words(atomic_uint *masks, uint32_t first, uint32_t last)
{
    for (uint32_t i = first / 32; i <= last / 32; i++) {
        uint32_t from = i == first / 32 ? first % 32 : 0;
        uint32_t to = i == last / 32 ? last % 32 : 31;
        uint32_t bits = UINT32_MAX >> (31 - (to - from)) << from;
        if (bits & ~atomic_load_explicit(&masks[i], memory_order_relaxed))
            atomic_fetch_or_explicit(&masks[i], bits, memory_order_relaxed);
    }
}

void footprint_add(struct footprint *f, uint64_t address, uint64_t bytes, bool write,
                   bool strong, int line)
{
    for (uint64_t at = address, end = address + bytes, stop; at < end; at = stop) {
        uint64_t number = at / PAGE_BYTES;
        stop = (number + 1) * PAGE_BYTES < end ? (number + 1) * PAGE_BYTES : end;
        struct page *p = find_page(f, number);
        if (!p)
            p = make_page(f, number);
        struct words *words = strong ? strong_of(f, p) : &p->plain;
        set_words(write ? words->write : words->read,
                  (uint32_t)(at % PAGE_BYTES / WORD_BYTES),
                  (uint32_t)((stop - 1) % PAGE_BYTES / WORD_BYTES));
        atomic_store_explicit(write ? &p->write_line : &p->read_line, line,
                              memory_order_relaxed);
    }
}

void across_access(const struct warp *w, uint64_t address, uint64_t bytes, bool write)
{
    const struct grid *g = w->cta->cluster->grid;
    const struct ptx_insn *i = g->kernel->ops[w->cur_pc].insn;
    bool reduces =
        i->op == PTX_CP_REDUCE_ASYNC_BULK || i->op == PTX_CP_REDUCE_ASYNC_BULK_TENSOR;
    footprint_add(g->footprint, address, bytes, write,
                  reduces || (g->hb && g->hb->meaning[w->cur_pc].strong), i->line);
}

/* ---- work that the host does not know to be done */

struct piece {
    char *name;
    uint64_t stream, number;
    struct across_clock knows; /* itself included */
    struct footprint *footprint;
};

static struct piece kept[MOST_KEPT];
static size_t kept_count;
static struct piece now;

static void piece_free(struct piece *p)
{
    if (p->footprint)
        footprint_free(p->footprint);
    across_clock_free(&p->knows);
    free(p->name);
    *p = (struct piece){0};
}

static void drop(size_t i)
{
    piece_free(&kept[i]);
    memmove(&kept[i], &kept[i + 1], (kept_count - i - 1) * sizeof *kept);
    kept_count--;
}

/* Whatever is enqueued from here on comes after what the host has waited for. */
static void drop_known(const struct CUctx_st *c)
{
    for (size_t i = kept_count; i-- > 0;)
        if (kept[i].number <= clock_of(&c->host_knows, kept[i].stream))
            drop(i);
}

/* ---- streams; the per-thread default stream counts as the default one */

static uint64_t stream_id(const struct CUctx_st *c, const struct CUstream_st *s)
{
    return s ? s->id : c->id;
}

static struct across_clock *knows(struct CUctx_st *c, struct CUstream_st *s)
{
    return s ? &s->knows : &c->knows;
}

static bool waits_for_default(const struct CUstream_st *s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

static bool is_wanted(const struct CUctx_st *c)
{
    const struct CUstream_st *s = c->streams;
    return !env()->check.off && s && (s->next || !waits_for_default(s));
}

/* All that comes before the next work of the stream. */
static void join_stream(struct across_clock *to, const struct CUctx_st *c,
                        const struct CUstream_st *s)
{
    clock_join(to, s ? &s->knows : &c->knows);
    if (s && waits_for_default(s))
        clock_join(to, &c->knows);
    for (const struct CUstream_st *x = s ? NULL : c->streams; x; x = x->next)
        if (waits_for_default(x))
            clock_join(to, &x->knows);
}

void across_begin(struct CUctx_st *c, struct CUstream_st *s, const char *name)
{
    if (!is_wanted(c))
        return;
    now = (struct piece){.stream = stream_id(c, s), .footprint = footprint_new()};
    now.name = must(strdup(name));
    now.number = ++c->work_count;
    clock_join(&now.knows, &c->host_knows);
    join_stream(&now.knows, c, s);
    clock_add(&now.knows, now.stream, now.number);
}

void across_end(struct CUctx_st *c, struct CUstream_st *s)
{
    if (!now.footprint)
        return;
    clock_join(knows(c, s), &now.knows);
    if (kept_count == MOST_KEPT)
        drop(0);
    kept[kept_count++] = now;
    now = (struct piece){0};
}

struct footprint *across_footprint(void)
{
    return now.footprint;
}

void across_record(const struct CUctx_st *c, const struct CUstream_st *s,
                   struct across_clock *event)
{
    event->count = 0;
    clock_join(event, &c->host_knows);
    join_stream(event, c, s);
}

void across_wait(struct CUctx_st *c, struct CUstream_st *s,
                 const struct across_clock *event)
{
    clock_join(knows(c, s), event);
}

void across_host_waits(struct CUctx_st *c, const struct CUstream_st *s)
{
    join_stream(&c->host_knows, c, s);
    drop_known(c);
}

void across_host_waits_event(struct CUctx_st *c, const struct across_clock *event)
{
    clock_join(&c->host_knows, event);
    drop_known(c);
}

void across_host_waits_all(struct CUctx_st *c)
{
    for (size_t i = 0; i < kept_count; i++)
        clock_add(&c->host_knows, kept[i].stream, kept[i].number);
    drop_known(c);
}

static void forget(struct footprint *f, uint64_t first, uint64_t last)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        struct page *left = NULL;
        for (struct page *p = f->buckets[i], *next; p; p = next) {
            next = p->next;
            if (p->number >= first && p->number <= last) {
                page_free(p);
                continue;
            }
            p->next = left;
            left = p;
        }
        f->buckets[i] = left;
    }
}

void across_forget(uint64_t address, uint64_t bytes)
{
    /* Allocations lie a mebibyte apart, so whole pages go. */
    for (size_t i = 0; i < kept_count; i++)
        forget(kept[i].footprint, address / PAGE_BYTES,
               (address + bytes - 1) / PAGE_BYTES);
}

void across_forget_all(void)
{
    while (kept_count)
        drop(kept_count - 1);
}

/* ---- the check */

struct conflict {
    uint64_t from, to; /* addresses */
    bool writes, other_writes;
    int line, other_line;
};

static unsigned load(const atomic_uint *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static bool pages_conflict(const struct page *a, const struct page *b,
                           struct conflict *x)
{
    for (uint32_t i = 0; i < MASKS; i++) {
        unsigned read = load(&a->plain.read[i]), write = load(&a->plain.write[i]);
        unsigned other_read = load(&b->plain.read[i]);
        unsigned other_write = load(&b->plain.write[i]);
        unsigned both = (write & (other_read | other_write)) | (read & other_write);
        if (!both)
            continue;
        uint32_t first = (uint32_t)bits_lowest(both), last = first;
        while (last < 31 && both >> (last + 1) & 1)
            last++;
        x->from = a->number * PAGE_BYTES + (i * 32 + first) * WORD_BYTES;
        x->to = a->number * PAGE_BYTES + (i * 32 + last + 1) * WORD_BYTES;
        x->writes = write >> first & 1;
        x->other_writes = other_write >> first & 1;
        x->line = x->writes ? a->write_line : a->read_line;
        x->other_line = x->other_writes ? b->write_line : b->read_line;
        return true;
    }
    return false;
}

static bool flag_was_read(const struct page *reader, const struct page *writer)
{
    const struct words *r = reader->strong, *w = writer->strong;
    for (uint32_t i = 0; r && w && i < MASKS; i++)
        if (load(&r->read[i]) & load(&w->write[i]))
            return true;
    return false;
}

/* Does the work in hand overlap with `other`?  Not when a flag orders them. */
static bool find_conflict(const struct piece *other, struct conflict *x)
{
    bool found = false;
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (const struct page *p = now.footprint->buckets[i]; p; p = p->next) {
            const struct page *o = find_page(other->footprint, p->number);
            if (o && flag_was_read(p, o))
                return false;
            struct conflict here;
            if (o && pages_conflict(p, o, &here) && (!found || here.from < x->from)) {
                *x = here;
                found = true;
            }
        }
    return found;
}

static void tell(struct grid *g, const struct piece *other, const struct conflict *x)
{
    char line[32] = "", who[1024];
    if (x->line)
        snprintf(line, sizeof line, " in line %d", x->line);
    if (x->other_line)
        snprintf(who, sizeof who, "kernel %s (line %d)", other->name, x->other_line);
    else
        snprintf(who, sizeof who, "%s", other->name); /* "a copy" */
    report_at(g, NULL, CHECK_DATA_RACE, CHECK_IS_WARNING,
              "global bytes 0x%" PRIx64 " to 0x%" PRIx64 " are %s%s and %s by %s in "
              "another stream, and nothing orders the two",
              x->from, x->to, x->writes ? "written" : "read", line,
              x->other_writes ? "written" : "read", who);
    report_mend(g, "let the one stream wait for an event that is recorded in the other "
                   "one behind the work concerned (cuStreamWaitEvent)");
}

void across_check(struct grid *g)
{
    struct conflict x;
    if (!now.footprint)
        return;
    for (size_t i = kept_count; i-- > 0;) {
        const struct piece *other = &kept[i];
        if (other->number <= clock_of(&now.knows, other->stream))
            continue;
        if (!find_conflict(other, &x))
            continue;
        tell(g, other, &x);
        return;
    }
}
