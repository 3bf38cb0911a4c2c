/* hb_global.c - who touched which bytes of global memory last, in all clusters.
 *
 * For allocations that the grid writes there are pages of 4 KiB, each with sorted runs.
 * A run is what one instruction of a warp touched side by side, so that a coalesced
 * access is one run and its lanes follow from the address.  Weak accesses are kept
 * apart from strong ones, which do not take their place.  Two readers, and two strong
 * writers, of different warps are remembered for each byte.  What is read before the
 * first write to its allocation goes into a list, of which pages are made when that
 * write comes.  All of it is under one lock: clusters run on several host threads. */
#include "emu/hb_global.h"
#include "emu/memory.h"
#include "emu/report.h"
#include "emu/must.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES 4096u
#define ONE_LANE 31           /* each_shift: all bytes are the same lane's */
#define MOST_EARLY (1u << 20) /* reads in front of a first write, of a grid */
#define RECENT 1024

struct run {
    uint32_t cluster, time, pc;
    uint16_t component, warp;  /* warp: its number in the cluster */
    uint16_t from, to, origin; /* in the page; origin: first byte of lane `lane` */
    uint8_t kind;              /* enum hb_kind */
    uint8_t lane, each_shift;  /* bytes of a lane: 1 << each_shift */
    bool strong;
};

struct runs {
    struct run *at;
    uint32_t count, cap;
};

struct history {
    struct runs last, older; /* older: what other warps have taken the place of */
};

struct page {
    struct history writes[2], reads[2]; /* weak, strong */
    uint8_t *before;                    /* its bytes when the grid began */
};

struct early { /* a read; from, to and origin of `run` are not used */
    uint64_t at;
    uint32_t bytes;
    struct run run;
};

struct area { /* one allocation */
    uint64_t address, bytes;
    struct page **pages; /* NULL: not written so far */
    struct early *early;
    uint32_t early_count, early_cap;
    struct area *next;
};

#define AREA_HASH 256

struct hb_memory {
    pthread_mutex_t lock;
    struct area *areas[AREA_HASH];
    atomic_uint written_count; /* of areas */
    uint32_t early_count;
    struct early *recent[RECENT]; /* the same ones again, in a loop */
    struct hb_flags *flags;
};

static struct hb_memory *memory_of(const struct warp *w)
{
    return w->cta->cluster->grid->hb->memory;
}

struct hb_memory *hb_memory_new(void)
{
    struct hb_memory *m = must(calloc(1, sizeof *m));
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void page_free(struct page *p)
{
    for (int i = 0; p && i < 2; i++) {
        free(p->writes[i].last.at);
        free(p->writes[i].older.at);
        free(p->reads[i].last.at);
        free(p->reads[i].older.at);
    }
    if (p)
        free(p->before);
    free(p);
}

static void area_free(struct area *a)
{
    for (uint64_t i = 0; a->pages && i < a->bytes / PAGE_BYTES + 2; i++)
        page_free(a->pages[i]);
    free(a->pages);
    free(a->early);
    free(a);
}

void hb_memory_free(struct hb_memory *m)
{
    for (int i = 0; i < AREA_HASH; i++)
        while (m->areas[i]) {
            struct area *a = m->areas[i];
            m->areas[i] = a->next;
            area_free(a);
        }
    hb_flags_delete(m->flags);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- undoing what a grid has written, so that it can be run once more */

static uint64_t page_bytes(const struct area *a, uint64_t number)
{
    uint64_t left = a->bytes - number * PAGE_BYTES;
    return left < PAGE_BYTES ? left : PAGE_BYTES;
}

static uint8_t *page_host(const struct area *a, uint64_t number)
{
    return (uint8_t *)(uintptr_t)(a->address + number * PAGE_BYTES);
}

/* In front of the first write. */
static void keep_before(struct page *p, const struct area *a, uint64_t number)
{
    if (p->before)
        return;
    p->before = must(malloc(PAGE_BYTES));
    memcpy(p->before, page_host(a, number), page_bytes(a, number));
}

void hb_memory_undo(struct hb_memory *m)
{
    for (int i = 0; i < AREA_HASH; i++)
        for (struct area *a = m->areas[i]; a; a = a->next)
            for (uint64_t k = 0; a->pages && k * PAGE_BYTES < a->bytes; k++)
                if (a->pages[k] && a->pages[k]->before)
                    memcpy(page_host(a, k), a->pages[k]->before, page_bytes(a, k));
}

static struct area **slot_of(struct hb_memory *m, uint64_t address)
{
    return &m->areas[(address >> 9) * 0x9e3779b97f4a7c15u >> 56];
}

/* Of the allocation that holds the address; NULL: there is none. */
static struct area *area_of(const struct warp *w, uint64_t address)
{
    struct hb_memory *m = memory_of(w);
    const struct allocation *a = w->hit;
    if (!a || address < a->address || address - a->address >= a->bytes)
        a = memory_find(address);
    if (!a)
        return NULL;
    struct area **slot = slot_of(m, a->address);
    for (struct area *x = *slot; x; x = x->next)
        if (x->address == a->address)
            return x;
    struct area *x = must(calloc(1, sizeof *x));
    x->address = a->address;
    x->bytes = a->bytes;
    x->next = *slot;
    *slot = x;
    return x;
}

/* ---- runs */

static uint32_t first_behind(const struct runs *r, uint32_t at)
{
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (r->at[mid].to <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void insert(struct runs *r, uint32_t i, const struct run *x)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 8;
        r->at = must(realloc(r->at, r->cap * sizeof *r->at));
    }
    memmove(r->at + i + 1, r->at + i, (r->count - i) * sizeof *r->at);
    r->at[i] = *x;
    r->count++;
}

/* In place of whatever is there. */
static void put(struct runs *r, const struct run *x)
{
    uint32_t i = first_behind(r, x->from);
    if (i < r->count && r->at[i].from < x->from) {
        struct run tail = r->at[i];
        r->at[i].to = x->from;
        if (tail.to > x->to) {
            tail.from = x->to;
            insert(r, i + 1, &tail);
        }
        i++;
    }
    uint32_t end = i;
    while (end < r->count && r->at[end].to <= x->to)
        end++;
    if (end < r->count && r->at[end].from < x->to)
        r->at[end].from = x->to;
    if (end > i) {
        r->at[i] = *x;
        memmove(r->at + i + 1, r->at + end, (r->count - end) * sizeof *r->at);
        r->count -= end - i - 1;
        return;
    }
    insert(r, i, x);
}

static bool same_warp(const struct run *a, const struct run *b)
{
    return a->cluster == b->cluster && a->warp == b->warp;
}

/* In place of whatever is there; that of other warps is kept one step longer: of two
 * readers in no order, one may be the writer that comes next, and of two strong writers
 * the one who orders what comes next. */
static void put_beside(struct history *h, const struct run *x)
{
    struct runs *last = &h->last;
    for (uint32_t i = first_behind(last, x->from);
         i < last->count && last->at[i].from < x->to; i++) {
        struct run old = last->at[i];
        if (same_warp(&old, x))
            continue;
        old.from = old.from > x->from ? old.from : x->from;
        old.to = old.to < x->to ? old.to : x->to;
        put(&h->older, &old);
    }
    put(last, x);
}

static void put_access(struct page *p, const struct run *x, bool write)
{
    if (write && !x->strong)
        put(&p->writes[0].last, x);
    else
        put_beside(write ? &p->writes[x->strong] : &p->reads[x->strong], x);
}

static uint32_t lanes_of(const struct run *r, uint32_t from, uint32_t to)
{
    if (r->each_shift == ONE_LANE)
        return (uint32_t)1 << r->lane;
    from = from > r->from ? from : r->from;
    to = to < r->to ? to : r->to;
    uint32_t first = r->lane + ((from - r->origin) >> r->each_shift);
    uint32_t last = r->lane + ((to - 1 - r->origin) >> r->each_shift);
    return UINT32_MAX >> (31 - (last - first)) << first;
}

/* ---- checks */

struct pass {
    struct warp *w;
    struct hb_eye eye;
    enum hb_access how;
    bool async;    /* through the asynchronous proxy */
    bool looks;    /* it leaves no trace */
    bool constant; /* .nc: nothing is to write there */
    struct run me; /* from, to and origin are of the piece in hand */
    uint64_t page; /* address of its first byte */
};

/* Lanes of the run whose order with this access is not that of one lane's program. */
static uint32_t lanes_apart(const struct pass *x, const struct run *r)
{
    const struct run *me = &x->me;
    uint32_t lanes = lanes_of(r, me->from, me->to);
    /* Lanes that write one place in one instruction: one of them wins, and mostly they
     * agree. */
    if (r->cluster == me->cluster && r->warp == me->warp && r->pc == me->pc &&
        r->time == me->time && r->kind == me->kind)
        return 0;
    if (r->cluster != me->cluster || r->warp != me->warp || r->kind != HB_WARP)
        return lanes;
    if (r->lane == me->lane && r->each_shift == me->each_shift &&
        r->origin == me->origin)
        return 0; /* each lane the same bytes again */
    uint32_t mine = lanes_of(me, r->from, r->to);
    return mine & (mine - 1) ? lanes : lanes & ~mine;
}

static bool knows(const struct pass *x, enum hb_proxy proxy, const struct run *r,
                  uint32_t lanes)
{
    if (r->cluster == (uint32_t)x->w->cta->cluster->number)
        return hb_sees(&x->eye, proxy, r->component, lanes, r->time);
    assert(x->eye.all);
    const struct hb_know *a = hb_others_find(x->eye.all->others, r->cluster);
    const struct hb_know *b =
        x->eye.some ? hb_others_find(x->eye.some->others, r->cluster) : NULL;
    return (a && hb_clock_has(&a->of[proxy], r->component, lanes, r->time)) ||
           (b && hb_clock_has(&b->of[proxy], r->component, lanes, r->time));
}

static void note_run(const struct pass *x, const struct run *r, uint32_t lanes)
{
    const struct cluster *c = x->w->cta->cluster;
    const struct grid *g = c->grid;
    uint32_t warps = (uint32_t)c->ctas[0].warp_count, rank = r->warp / warps;
    uint32_t per[3], id[3], number = r->cluster;
    for (int i = 0; i < 3; i++)
        per[i] = g->dim[i] / c->shape[i];
    id[0] = number % per[0] * c->shape[0] + rank % c->shape[0];
    id[1] = number / per[0] % per[1] * c->shape[1] + rank / c->shape[0] % c->shape[1];
    id[2] = number / per[0] / per[1] * c->shape[2] + rank / c->shape[0] / c->shape[1];
    struct report_party p = {
        .insn = g->kernel->ops[r->pc].insn,
        .block = {id[0], id[1], id[2]},
        .lanes = lanes,
        .rank = c->cta_count > 1 ? (int)rank : -1,
        .warp = (int)(r->warp % warps),
    };
    report_party_at(c->grid, "the earlier one:", &p);
}

static bool blame(const struct pass *x, const struct run *r, uint32_t lanes, bool wrote,
                  bool fence_only)
{
    struct grid *g = x->w->cta->cluster->grid;
    enum check check = fence_only ? CHECK_PROXY_FENCE : CHECK_DATA_RACE;
    uint32_t from = r->from > x->me.from ? r->from : x->me.from;
    uint32_t to = r->to < x->me.to ? r->to : x->me.to;
    bool writes = x->how != HB_READ;
    if (r->cluster != x->me.cluster && g->may_repeat) {
        atomic_store(&g->repeat, true);
        return false;
    }
    if (!report_wants(g, check))
        return true;
    x->w->cur_lanes = lanes_of(&x->me, from, to);
    struct hb_party p = {r->component, lanes, r->time, r->pc, NULL};
    uint32_t pc, first = (uint32_t)bits_lowest(x->w->cur_lanes);
    if (!fence_only && hb_is_narrow(x->w, first, r->cluster, &p, &pc)) {
        char name[96];
        snprintf(name, sizeof name, "global bytes 0x%" PRIx64 " to 0x%" PRIx64,
                 x->page + from, x->page + to);
        bool goes_on = hb_blame_narrow(x->w, name, x->how, wrote, r->cluster, pc);
        note_run(x, r, lanes);
        return goes_on;
    }
    enum flow f;
    if (fence_only)
        f = report(g, x->w, check,
                   "global bytes 0x%" PRIx64 " to 0x%" PRIx64 " are %s asynchronously "
                   "after a generic %s, with no fence.proxy.async between the two",
                   x->page + from, x->page + to, writes ? "written" : "read",
                   wrote ? "write" : "read");
    else
        f = report(g, x->w, check,
                   "global bytes 0x%" PRIx64 " to 0x%" PRIx64 " are %s here and %s by "
                   "another %s, and nothing orders the two",
                   x->page + from, x->page + to, writes ? "written" : "read",
                   wrote ? "written" : "read",
                   r->cluster != x->me.cluster ? "cluster" : "warp or lane");
    note_run(x, r, lanes);
    if (!fence_only && r->kind == HB_BULK_WRITES)
        report_mend(g, "execute cp.async.bulk.wait_group 0 (without .read) behind the "
                       "bulk store, then order the two by a barrier or a flag");
    else if (!fence_only && r->cluster != x->me.cluster)
        report_mend(g, "let the one release a flag at .gpu scope and the other acquire "
                       "it, or give each cluster bytes of its own");
    return f == FLOW_NEXT;
}

/* Ordered, and still wrong: .nc reads by a way that knows nothing of stores. */
static bool blame_constant(const struct pass *x, const struct run *r, uint32_t lanes)
{
    struct grid *g = x->w->cta->cluster->grid;
    uint32_t from = r->from > x->me.from ? r->from : x->me.from;
    uint32_t to = r->to < x->me.to ? r->to : x->me.to;
    if (!report_wants(g, CHECK_DATA_RACE))
        return true;
    x->w->cur_lanes = lanes_of(&x->me, from, to);
    enum flow f =
        report(g, x->w, CHECK_DATA_RACE,
               "global bytes 0x%" PRIx64 " to 0x%" PRIx64 " are read by ld.global.nc, "
               "and this grid has written them",
               x->page + from, x->page + to);
    note_run(x, r, lanes);
    report_mend(g, "read them without .nc, which is for memory that nothing writes "
                   "while the kernel runs");
    return f == FLOW_NEXT;
}

static bool check_runs(const struct pass *x, const struct runs *r, bool wrote)
{
    for (uint32_t i = first_behind(r, x->me.from);
         i < r->count && r->at[i].from < x->me.to; i++) {
        const struct run *run = &r->at[i];
        bool is_async = run->kind == HB_BULK_WRITES;
        uint32_t lanes = lanes_of(run, x->me.from, x->me.to);
        uint32_t others = lanes_apart(x, run);
        if (others && !knows(x, HB_PLAIN, run, others)) {
            if (!blame(x, run, others, wrote, false))
                return false;
        } else if (x->async && !is_async && wrote &&
                   !knows(x, HB_ASYNC_GLOBAL, run, lanes)) {
            if (!blame(x, run, lanes, wrote, true))
                return false;
        } else if (x->constant && wrote && !blame_constant(x, run, lanes)) {
            return false;
        }
    }
    return true;
}

/* Two strong accesses are in no conflict. */
static bool check_history(const struct pass *x, const struct history h[2], bool wrote)
{
    for (int i = 0; i < (x->me.strong ? 1 : 2); i++)
        if (!check_runs(x, &h[i].last, wrote) || !check_runs(x, &h[i].older, wrote))
            return false;
    return true;
}

static void remember(struct hb_memory *m, struct area *a, const struct run *r,
                     uint64_t address, uint64_t bytes)
{
    struct early **recent =
        &m->recent[((address >> 2) * 0x9e3779b97f4a7c15u >> 40 ^ r->component) %
                   RECENT];
    struct early *e = *recent;
    if (e && e->at == address && e->bytes == bytes && same_warp(&e->run, r) &&
        e->run.pc == r->pc && e->run.lane == r->lane) {
        e->run.time = r->time;
        return;
    }
    if (m->early_count == MOST_EARLY)
        return;
    if (a->early_count == a->early_cap) {
        memset(m->recent, 0, sizeof m->recent);
        a->early_cap = a->early_cap ? 2 * a->early_cap : 64;
        a->early = must(realloc(a->early, a->early_cap * sizeof *a->early));
    }
    m->early_count++;
    *recent = &a->early[a->early_count++];
    **recent = (struct early){address, (uint32_t)bytes, *r};
}

/* The next piece of a run, up to the end of a page, and that page. */
static struct page **piece(struct run *r, struct area *a, uint64_t at, uint64_t end,
                           uint64_t *stop)
{
    uint64_t number = at / PAGE_BYTES;
    *stop = (number + 1) * PAGE_BYTES;
    *stop = *stop < end ? *stop : end;
    r->from = r->origin = (uint16_t)(at % PAGE_BYTES);
    r->to = (uint16_t)((*stop - 1) % PAGE_BYTES + 1);
    return &a->pages[number];
}

/* The first write to it comes. */
static void begin_writes(struct hb_memory *m, struct area *a)
{
    if (a->pages)
        return;
    a->pages = must(calloc(a->bytes / PAGE_BYTES + 2, sizeof *a->pages));
    atomic_fetch_add(&m->written_count, 1);
    for (uint32_t i = 0; i < a->early_count; i++) {
        struct early *e = &a->early[i];
        uint64_t first = e->at - a->address, end = first + e->bytes, stop;
        uint8_t lane = e->run.lane;
        for (uint64_t at = first; at < end; at = stop) {
            struct page **p = piece(&e->run, a, at, end, &stop);
            if (!*p)
                *p = must(calloc(1, sizeof **p));
            if (e->run.each_shift != ONE_LANE)
                e->run.lane = (uint8_t)(lane + ((at - first) >> e->run.each_shift));
            put_access(*p, &e->run, false);
        }
    }
    free(a->early);
    memset(m->recent, 0, sizeof m->recent);
    m->early_count -= a->early_count;
    a->early = NULL;
    a->early_count = a->early_cap = 0;
}

/* One piece, `bytes` side by side, of the area. */
static bool visit(struct pass *x, struct area *a, uint64_t address, uint64_t bytes)
{
    uint64_t at = address - a->address, end = at + bytes;
    uint8_t lane = x->me.lane;
    while (at < end) {
        uint64_t stop;
        struct page **p = piece(&x->me, a, at, end, &stop);
        if (!*p && x->looks) {
            at = stop;
            continue;
        }
        if (!*p)
            *p = must(calloc(1, sizeof **p));
        x->page = a->address + at / PAGE_BYTES * PAGE_BYTES;
        if (x->me.each_shift != ONE_LANE)
            x->me.lane =
                (uint8_t)(lane + ((at + a->address - address) >> x->me.each_shift));
        if (!check_history(x, (*p)->writes, true) ||
            (x->how != HB_READ && !check_history(x, (*p)->reads, false)))
            return false;
        if (x->how != HB_READ && x->w->cta->cluster->grid->may_repeat)
            keep_before(*p, a, at / PAGE_BYTES);
        if (!x->looks)
            put_access(*p, &x->me, x->how != HB_READ);
        at = stop;
    }
    x->me.lane = lane;
    return true;
}

static struct pass begin(struct warp *w, enum hb_access how, enum hb_kind kind)
{
    struct cluster *c = w->cta->cluster;
    struct pass x = {.w = w, .how = how, .async = kind == HB_BULK_WRITES};
    x.constant = how == HB_READ && !x.async && hb_meaning(w)->constant;
    x.me = (struct run){
        .cluster = (uint32_t)c->number,
        .time = hb_now(w->hb),
        .pc = w->cur_pc,
        .component = (uint16_t)hb_component(w, kind),
        .warp = (uint16_t)(w->cta->rank * (uint32_t)w->cta->warp_count +
                           (uint32_t)w->index),
        .kind = (uint8_t)kind,
        .each_shift = ONE_LANE,
        .strong = hb_meaning(w)->strong,
    };
    return x;
}

static uint8_t log2_of(uint32_t x)
{
    uint8_t n = 0;
    while (x >> (n + 1))
        n++;
    return n;
}

static bool visit_lanes(struct pass *x, const uint64_t *address, uint32_t lanes,
                        uint32_t bytes)
{
    struct warp *w = x->w;
    struct hb_memory *m = memory_of(w);
    bool together = (w->hb->some_lanes & lanes) == 0, ok = true;
    uint8_t shift = log2_of(bytes);
    for (uint32_t rest = lanes; rest && ok;) {
        uint32_t first = (uint32_t)bits_lowest(rest), last = first;
        rest &= rest - 1;
        while (together && last < 31 && rest >> (last + 1) & 1 &&
               address[last + 1] == address[last] + bytes) {
            last++;
            rest &= rest - 1;
        }
        struct area *a = area_of(w, address[first]);
        if (!a)
            continue;
        uint64_t all = (uint64_t)(last - first + 1) * bytes;
        x->me.lane = (uint8_t)first;
        x->me.each_shift = first == last ? ONE_LANE : shift;
        if (!a->pages && x->how == HB_READ) {
            remember(m, a, &x->me, address[first], all);
            continue;
        }
        begin_writes(m, a);
        x->eye = hb_eye(w, first);
        ok = visit(x, a, address[first], all);
    }
    return ok;
}

static bool tell_flags(struct warp *w, const uint64_t *address, uint32_t lanes,
                       enum hb_access how)
{
    struct hb_memory *m = memory_of(w);
    bool ok = true;
    for (uint32_t rest = lanes; rest && ok; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        w->cur_lanes = (uint32_t)1 << lane;
        ok =
            hb_flag(w, &m->flags, address[lane], lane, how != HB_WRITE, how != HB_READ);
    }
    return ok;
}

bool hb_global_access(struct warp *w, const uint64_t *address, uint32_t lanes,
                      uint32_t bytes, enum hb_access how)
{
    struct hb_memory *m = memory_of(w);
    bool strong = hb_meaning(w)->strong;
    uint32_t saved = w->cur_lanes;
    struct pass x = begin(w, how, HB_WARP);
    pthread_mutex_lock(&m->lock);
    bool ok = visit_lanes(&x, address, lanes, bytes) &&
              (!strong || tell_flags(w, address, lanes, how));
    pthread_mutex_unlock(&m->lock);
    if (how != HB_READ)
        hb_next(w->hb);
    if (ok)
        w->cur_lanes = saved;
    return ok;
}

bool hb_global_tracked(struct warp *w, uint64_t address, bool write)
{
    struct hb_memory *m = memory_of(w);
    if (!write && atomic_load(&m->written_count) == 0)
        return false;
    pthread_mutex_lock(&m->lock);
    struct area *a = area_of(w, address);
    if (a && write)
        begin_writes(m, a);
    bool yes = a && a->pages;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

bool hb_global_async(struct warp *w, int lane, uint32_t group, uint64_t address,
                     uint64_t bytes, bool write, bool reduces)
{
    struct hb_memory *m = memory_of(w);
    struct pass x = begin(w, write ? HB_WRITE : HB_READ, HB_BULK_WRITES);
    x.me.strong = reduces;
    x.me.time = group;
    x.me.lane = (uint8_t)lane;
    x.eye = hb_eye(w, (uint32_t)lane);
    pthread_mutex_lock(&m->lock);
    struct area *a = area_of(w, address);
    if (a && write)
        begin_writes(m, a);
    x.looks = !write;
    bool ok = !a || !a->pages || visit(&x, a, address, bytes);
    pthread_mutex_unlock(&m->lock);
    return ok;
}
