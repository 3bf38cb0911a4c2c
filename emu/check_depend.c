/* check_depend.c - griddepcontrol, and check 39: see depend.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "emu/depend.h"
#include "emu/lanes.h"

#define PIECE_BYTES 16
#define PAGE_PIECES 4096
#define PAGE_BYTES ((uint64_t)PIECE_BYTES * PAGE_PIECES)
#define BUCKETS 16384
#define LAST_STAMP 255

enum touch { WRITTEN, READ, TOUCHES };

struct page {
    uint64_t number; /* address / PAGE_BYTES */
    struct page *next;
    atomic_uchar stamps[TOUCHES][PAGE_PIECES];
};

static _Atomic(struct page *) buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool wanted;
static uint8_t newest;

/* ---- stamps */

static struct page *find_page(uint64_t number)
{
    struct page *p = atomic_load(&buckets[number % BUCKETS]);
    while (p && p->number != number)
        p = p->next;
    return p;
}

static struct page *make_page(uint64_t number)
{
    pthread_mutex_lock(&lock);
    struct page *p = find_page(number);
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            abort();
        p->number = number;
        p->next = atomic_load(&buckets[number % BUCKETS]);
        atomic_store(&buckets[number % BUCKETS], p);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

void depend_want(void)
{
    atomic_store(&wanted, true);
}

/* Under the driver's lock, as all launches are. */
uint8_t depend_stamp(void)
{
    if (!atomic_load(&wanted))
        return 0;
    if (newest == LAST_STAMP) {
        for (int i = 0; i < BUCKETS; i++)
            for (struct page *p = atomic_load(&buckets[i]); p; p = p->next)
                for (int k = 0; k < TOUCHES * PAGE_PIECES; k++)
                    atomic_store_explicit(&p->stamps[k / PAGE_PIECES][k % PAGE_PIECES],
                                          0, memory_order_relaxed);
        newest = 0;
    }
    return ++newest;
}

static void stamp_bytes(enum touch touch, uint8_t stamp, uint64_t address,
                        uint64_t bytes)
{
    uint64_t last = (address + bytes - 1) / PIECE_BYTES;
    struct page *page = NULL;
    for (uint64_t piece = address / PIECE_BYTES; piece <= last; piece++) {
        if (!page || page->number != piece / PAGE_PIECES)
            page = find_page(piece / PAGE_PIECES);
        if (!page)
            page = make_page(piece / PAGE_PIECES);
        atomic_store_explicit(&page->stamps[touch][piece % PAGE_PIECES], stamp,
                              memory_order_relaxed);
    }
}

static bool has_stamp(enum touch touch, uint8_t stamp, uint64_t address, uint64_t bytes)
{
    uint64_t last = (address + bytes - 1) / PIECE_BYTES;
    for (uint64_t piece = address / PIECE_BYTES; piece <= last; piece++) {
        struct page *page = find_page(piece / PAGE_PIECES);
        if (!page) {
            piece |= PAGE_PIECES - 1;
            continue;
        }
        if (atomic_load_explicit(&page->stamps[touch][piece % PAGE_PIECES],
                                 memory_order_relaxed) == stamp)
            return true;
    }
    return false;
}

/* ---- check 39 */

static bool blame(struct warp *w, uint64_t address, uint64_t bytes, bool write,
                  enum touch before)
{
    struct grid *g = w->cta->cluster->grid;
    report(g, w, CHECK_DEPENDENT_LAUNCH,
           "%" PRIu64 " bytes at 0x%" PRIx64 " are %s, which the grid before has %s, "
           "and this warp has not waited for it",
           bytes, address, write ? "overwritten" : "read",
           before == WRITTEN ? "written" : "read");
    report_note(g, "with programmatic serialization the grid before may still run: "
                   "griddepcontrol.wait comes first, in this warp or behind a barrier "
                   "with one that has executed it");
    return false;
}

bool depend_check(struct warp *w, uint64_t address, uint64_t bytes, bool write)
{
    const struct grid *g = w->cta->cluster->grid;
    if (bytes == 0)
        return true;
    if (g->depends_on && !w->dependency_seen && !g->no_checks) {
        if (has_stamp(WRITTEN, g->depends_on, address, bytes))
            return blame(w, address, bytes, write, WRITTEN);
        if (write && has_stamp(READ, g->depends_on, address, bytes))
            return blame(w, address, bytes, write, READ);
    }
    if (g->footprint)
        across_access(w, address, bytes, write);
    if (g->stamp)
        stamp_bytes(write ? WRITTEN : READ, g->stamp, address, bytes);
    return true;
}

bool depend_check_lanes(struct warp *w, const uint64_t *address, uint32_t lanes,
                        uint32_t bytes, bool write)
{
    uint32_t all = w->cur_lanes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = bits_lowest(rest);
        w->cur_lanes = (uint32_t)1 << lane;
        if (!depend_check(w, address[lane], bytes, write))
            return false;
    }
    w->cur_lanes = all;
    return true;
}

/* ---- griddepcontrol */

static enum flow exec_wait(struct warp *w, const struct op *op, uint32_t lanes)
{
    (void)op;
    (void)lanes;
    w->dependency_seen = true;
    w->cta->cluster->dependency_waited = true;
    return FLOW_NEXT;
}

/* The next grid of the stream comes after this one here, whatever it would be allowed.
 */
static enum flow exec_launch_dependents(struct warp *w, const struct op *op,
                                        uint32_t lanes)
{
    (void)w;
    (void)op;
    (void)lanes;
    return FLOW_NEXT;
}

bool decode_GRIDDEPCONTROL(struct decoder *d, struct op *o)
{
    (void)d;
    depend_want();
    o->exec = ptx_has(o->insn, PTX_M_WAIT) ? exec_wait : exec_launch_dependents;
    return true;
}
