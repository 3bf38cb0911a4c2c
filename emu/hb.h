/* hb.h - the happens-before engine: what is ordered with what, and what is not.
 *
 * Values are computed one operation at a time.  Beside them this keeps, for each warp,
 * what it knows to have happened (hb_clock.h): a release puts it into a barrier or a
 * flag, an acquire takes it from there.  Shared, global and tensor memory keep who
 * touched which bytes last; an access that does not know of an earlier one it conflicts
 * with is told, whether or not this schedule happened to give the right data.
 *
 * The instructions call these hooks; w->hb is NULL when FP4EMU_CHECK is off.  Functions
 * that return bool are false after an error that ends the launch.
 *
 *     hb.c         warps and lanes, release and acquire
 *     hb_fence.c   fences, and the relaxed accesses that need one
 *     hb_mbar.c    barriers of all kinds, exits; checks 6, 11, 22, 23, 37, 41
 *     hb_smem.c    shared memory: generic accesses (storage: hb_cells.c)
 *     hb_async.c   shared memory: asynchronous operations
 *     hb_global.c  global memory, between clusters too
 *     hb_flag.c    addresses that release and acquire
 *     hb_blame.c   the messages
 *
 * Tensor memory is check_tmem.c's, registers are those of check_regs.c and
 * check_fresh.c. */
#ifndef FP4EMU_HB_H
#define FP4EMU_HB_H

#include "emu/hb_clock.h"
#include "emu/hb_smem.h"
#include "emu/machine.h"

/* ---- components */

enum hb_kind {
    HB_WARP,        /* what a warp does itself; one for each, in order */
    HB_BULK_READS,  /* of its bulk stores, by group */
    HB_BULK_WRITES, /* the same, when all of them is done */
    HB_COPIES,      /* its cp.async */
    HB_LOADS,       /* its tcgen05.ld */
    HB_STORES,      /* its tcgen05.st */
    HB_PIPE,        /* its tcgen05.mma and cp */
    HB_WGMMA,       /* its wgmma, by group */
    HB_KINDS_OF_WARP,
    HB_MBAR = HB_KINDS_OF_WARP, /* an mbarrier: 1 initialised, 2 + n: phase n is over */
};

struct hb_component {
    enum hb_kind kind;
    struct warp *warp;
    const struct mbar *mbar;
};

#define HB_PENDING UINT32_MAX /* component of what is not complete */
#define HB_BARS 16            /* named barriers of a CTA */

/* ---- warps */

enum hb_scope { HB_SCOPE_CTA, HB_SCOPE_CLUSTER, HB_SCOPE_GPU, HB_SCOPE_SYS };

/* What a relaxed read has seen: by the narrowest fence that makes it known. */
enum hb_pend {
    HB_PEND_CTA,
    HB_PEND_CLUSTER,
    HB_PEND_GPU,
    HB_PEND_BARRIER, /* a named barrier does as well */
    HB_PEND_NARROW,  /* none: the scope on the other side is too narrow */
    HB_PENDS
};

/* Reach of a fence: all of the grid, or less. */
enum hb_reach { HB_WIDE, HB_NARROW, HB_REACHES };

/* What some lanes know. */
struct hb_view {
    uint32_t lanes;
    struct hb_know know;
    bool more;                         /* one of the following is not empty */
    struct hb_know fenced[HB_REACHES]; /* by fences that release */
    struct hb_know pending[HB_PENDS];
    struct hb_know narrow; /* known, were the scopes wider: check 37 */
    uint32_t narrow_pc;    /* of one that is too narrow */
};

#define HB_LOADS_KEPT 32

/* The newest bulk store, or cp.async, of a lane. */
struct hb_bulk {
    uint32_t group, pc; /* group, or number; 0: none */
};

struct hb_warp {
    struct warp *warp;
    uint32_t component[HB_KINDS_OF_WARP]; /* 0, but for HB_WARP: not there yet */
    uint32_t time;                        /* of its accesses */
    bool published;       /* others may know of this time: the next access is later */
    bool synced;          /* ... and all lanes do */
    uint32_t absent;      /* lanes that never existed */
    struct hb_view all;   /* what all lanes know */
    struct hb_view *some; /* what lanes know beyond that, since they diverged */
    int some_count, some_cap;
    uint32_t some_lanes; /* union of their lanes */
    /* What the lanes did themselves before a fence, for those who have not met since.
     */
    uint32_t fenced_lanes[HB_REACHES], fenced_at[HB_REACHES][WARP_LANES];
    uint32_t fence_pc; /* of the newest one that is narrow, and its scope */
    enum hb_scope fence_scope;
    struct hb_bulk bulk[WARP_LANES], copies[WARP_LANES];
    uint64_t acts;        /* counts arrivals and asynchronous work: check 6 */
    uint32_t fenced_upto; /* tcgen05 operations with a before_thread_sync behind: 15 */
    bool acquired;        /* something since the last after_thread_sync */
    uint8_t *busy; /* 32-bit registers that pending tcgen05.ld fill: check_regs.c */
    uint32_t loads[HB_LOADS_KEPT];     /* pcs of these, w->ld_pending of them */
    struct hb_fragment *fragments;     /* registers of wgmma: check_wgmma.c; or NULL */
    uint32_t wgmma_fences, wgmma_done; /* done: the newest group waited for */
    struct hb_fresh *fresh; /* registers that watches number: check_fresh.c; or NULL */
};

/* One lane's knowledge, for a while. */
struct hb_eye {
    const struct hb_warp *self;
    uint32_t lane;
    const struct hb_know *all, *some; /* some: NULL or what this lane knows beyond */
};

/* Whom somebody is in conflict with. */
struct hb_party {
    uint32_t component, lanes, time, pc;
    const void *other; /* of another cluster */
};

/* What of asynchronous work those who come later ask for. */
struct hb_event {
    uint32_t component, lanes, time; /* HB_PENDING: not complete */
    enum async_kind kind;
    uint32_t pc;
    struct warp *warp;
    int lane;
    bool reduces;            /* adds to what is there: any order will do */
    uint8_t slot_bytes;      /* of each 16 that it writes, the first; 0: all */
    const struct mbar *mbar; /* that a copy signals, in this phase of it */
    uint64_t phase;
    struct hb_know *know; /* commits: what the arrival tells */
    uint32_t uses;
    struct hb_event *next; /* spare ones */
};

struct hb {
    struct cluster *cluster;
    uint64_t run; /* counts the clusters that were run here */
    struct hb_component *components;
    uint32_t component_count, component_cap, warp_count;
    struct hb_warp *warps;
    struct hb_smem *smem; /* of each CTA */
    struct hb_view *bars; /* HB_BARS of each CTA: of those that have arrived */
    struct hb_know cluster_bar, cluster_done;
    struct hb_flags *flags; /* addresses that released something */
    struct hb_event *spare_events;
};

/* What an instruction means for ordering, by pc. */
struct hb_meaning {
    bool strong; /* not a weak access */
    bool acquires, releases;
    bool relaxed;  /* says so */
    bool constant; /* .nc */
    uint8_t scope; /* enum hb_scope */
};

struct hb_grid {
    struct hb_meaning *meaning; /* of each op */
    bool strict;                /* pedantic: lanes are ordered by bar.warp.sync alone */
    bool scopes;                /* check 37 is on within clusters too */
    struct hb_memory *memory;   /* global memory */
    _Atomic uint8_t *maps;      /* of each 64 bytes of the parameters: a map was used */
};

/* ---- the life of it */

void hb_grid_begin(struct grid *g); /* g->hb stays NULL when checks are off */
void hb_grid_end(struct grid *g);
/* Global memory as the grid found it, and nothing known of it. */
void hb_grid_undo(struct grid *g);
void hb_cluster_new(struct cluster *c);
void hb_cluster_reset(struct cluster *c);
void hb_cluster_free(struct cluster *c);

/* ---- threads */

static inline const struct hb_meaning *hb_meaning(const struct warp *w)
{
    return &w->cta->cluster->grid->hb->meaning[w->cur_pc];
}

uint32_t hb_component_new(struct hb *h, enum hb_kind kind, struct warp *w,
                          const struct mbar *m);
/* Component of this warp; made when first asked for. */
uint32_t hb_component(struct warp *w, enum hb_kind kind);
/* The time of an access that the warp makes now. */
static inline uint32_t hb_now(struct hb_warp *h)
{
    h->time += h->published;
    h->published = false;
    return h->time;
}

/* The next access has another time, so that one instruction can be told from the same
 * one executed again. */
static inline void hb_next(struct hb_warp *h)
{
    h->published = true;
    h->synced = false;
}

struct hb_eye hb_eye(const struct warp *w, uint32_t lane);
static inline bool hb_sees(const struct hb_eye *e, enum hb_proxy proxy,
                           uint32_t component, uint32_t lanes, uint32_t time)
{
    return hb_clock_has(&e->all->of[proxy], component, lanes, time) ||
           (e->some && hb_clock_has(&e->some->of[proxy], component, lanes, time));
}

/* The lanes wait for each other at a .sync, or at .aligned; `orders`: bar.warp.sync and
 * barriers, which order memory by the letter of the manual. */
void hb_sync(struct warp *w, uint32_t lanes, bool orders);
/* Publishes what the lanes know and have done; takes it up. */
void hb_release(struct warp *w, uint32_t lanes, struct hb_know *into);
void hb_acquire(struct warp *w, uint32_t lanes, const struct hb_know *from);
/* The lanes know of an event that needs no fence; or of one that does. */
void hb_learn(struct warp *w, uint32_t lanes, uint32_t component, uint32_t of_lanes,
              uint32_t time);
void hb_learn_plain(struct warp *w, uint32_t lanes, uint32_t component,
                    uint32_t of_lanes, uint32_t time);

/* ---- views (hb.c): for hb_fence.c */

static inline bool hb_are_all(const struct warp *w, uint32_t lanes)
{
    return (w->live & ~lanes) == 0;
}

/* Calls for views that belong to exactly these lanes, which are not all. */
typedef void hb_view_fn(struct hb_view *v, void *arg);
void hb_each_view(struct hb_warp *h, uint32_t lanes, hb_view_fn *fn, void *arg);
void hb_view_clear(struct hb_view *v);
void hb_view_free(struct hb_view *v);
void hb_view_join(struct hb_view *v, const struct hb_view *other);

/* ---- fences (hb_fence.c) */

void hb_fence(struct warp *w, const struct op *op, uint32_t lanes);
/* A relaxed operation publishes what a fence in front of it has made ready, by the
 * reach of the fence. */
void hb_release_relaxed(struct warp *w, uint32_t lanes, struct hb_know *wide,
                        struct hb_know *narrow);
/* It takes up what a fence behind it will make known. */
void hb_acquire_relaxed(struct warp *w, uint32_t lanes, const struct hb_know *from,
                        enum hb_pend kind, uint32_t pc);
/* Order that rests on too narrow a scope, of the instruction at pc. */
void hb_acquire_narrow(struct warp *w, uint32_t lanes, const struct hb_know *from,
                       uint32_t pc);
/* The lanes have met: what each has fenced, all have. */
void hb_fences_met(struct warp *w, uint32_t lanes, struct hb_view *v);
/* At a named barrier: what its threads have fenced and read, besides what they know. */
void hb_barrier_release(struct warp *w, uint32_t lanes, struct hb_view *bar);
void hb_barrier_acquire(struct warp *w, uint32_t lanes, const struct hb_view *bar);
/* Would the lane know of these if scopes were wider?  Then of whose, in *pc. `cluster`:
 * whose component it is. */
bool hb_is_narrow(const struct warp *w, uint32_t lane, uint64_t cluster,
                  const struct hb_party *p, uint32_t *pc);

/* ---- barriers (hb_mbar.c) */

#define HB_SIGNALS 4

/* A warp of another CTA that has used the shared memory of this one: check 22. */
struct hb_visitor {
    struct warp *warp;
    uint32_t lanes, time, pc;
};

struct hb_mbar {
    uint64_t cluster_run; /* in which the component is valid */
    uint32_t component;   /* start + 1: initialised, start + 2 + n: phase n is over */
    uint32_t start, last;
    struct hb_know arriving, done;
    struct warp *init_warp;
    int init_lane;
    bool is_remote; /* threads or work of several CTAs meet here */
    /* Newest ones of other CTAs and of asynchronous work: check 22. */
    struct hb_signal {
        uint32_t component, lanes, time, pc;
        const struct warp *warp;
    } signals[HB_SIGNALS];
    int signal_count;
    /* Of each warp: the newest phase that it has seen, and what it had done then. */
    struct hb_seen {
        bool any;
        uint64_t phases, acts;
        uint32_t pc, lanes;
        bool in_doubt; /* check 6 has told of a wait, at this pc, in this phase */
        uint32_t doubt_pc;
        uint64_t doubt_phase;
    } * seen;
};

void hb_mbar_free(struct mbar *m);
void hb_mbar_init(struct warp *w, struct mbar *m, int lane);
/* A lane uses it other than by an arrival: check 11. */
bool hb_mbar_use(struct warp *w, struct mbar *m, int lane);
/* Asynchronous work that the lane issues is going to signal it. */
bool hb_mbar_target(struct warp *w, struct cta *c, uint32_t offset, int lane);
/* A lane asks for a phase by this parity. */
bool hb_mbar_parity(struct warp *w, const struct mbar *m, int lane, uint32_t parity);
/* Before the lanes, or the operation that is completing, arrive. */
bool hb_mbar_arrive(struct warp *w, struct mbar *m, uint32_t lanes);
/* Before bytes of the operation that is completing arrive. */
void hb_mbar_bytes(struct warp *w, struct mbar *m);
/* Its phase m->phase is over; called before it is counted up. */
void hb_mbar_phase(struct mbar *m);
/* A wait of these lanes; `yes`: those that it returned true for. */
bool hb_mbar_wait(struct warp *w, struct mbar *m, uint32_t lanes, uint32_t yes,
                  bool parity);
/* The warp has done what a wait is to protect: check 6. */
void hb_mbar_acts(struct warp *w);
/* A stage was used too early, says the newest report (4, 5, 12 or 13): if a wait of one
 * of the two warps was in doubt, on `m` or on a barrier that the other one signals,
 * that is the cause, and check 6 an error.  NULL: unknown. */
void hb_mbar_cause(const struct warp *w, const struct mbar *m,
                   const struct warp *other);

void hb_bar_arrive(struct warp *w, uint32_t number, uint32_t lanes);
/* Complete: the lanes waiting[] of each warp go on. */
void hb_bar_release(struct cta *t, uint32_t number, const uint32_t *waiting);
void hb_cluster_arrive(struct warp *w, uint32_t lanes);
void hb_cluster_complete(struct cluster *c);
void hb_cluster_wait(struct warp *w, uint32_t lanes);
/* The lanes exit; the CTA has no thread left: checks 22 and 23. */
bool hb_exit(struct warp *w, uint32_t lanes);
bool hb_cta_end(struct warp *w, struct cta *c);
void hb_visits(struct warp *w, struct cta *c, uint32_t lanes);
/* Threads of the CTA have left between arrive and wait: check 33. */
void hb_left_barrier(struct cta *c);
bool hb_has_left_barrier(const struct cta *c);
/* A tensor map was used: check 41 names parameters that never are. */
void hb_map_used(struct grid *g, uint64_t address);

/* ---- shared memory (hb_smem.c) */

enum hb_access { HB_READ, HB_WRITE, HB_UPDATE };

/* A generic access of bytes at offset[lane] in each lane. */
bool hb_smem_access(struct warp *w, struct cta *c, const uint32_t *offset,
                    uint32_t lanes, uint32_t bytes, enum hb_access how);
/* One lane's, of any number of words. */
bool hb_smem_range(struct warp *w, struct cta *c, uint32_t from, uint32_t to, int lane,
                   enum hb_access how);
/* What a cp.async of this number writes. */
bool hb_smem_copies(struct warp *w, const uint32_t *offset, const uint32_t *number,
                    uint32_t lanes, uint32_t bytes);

/* hb_cells.c */
hb_cell *hb_cell_split(struct hb_readers *p, hb_cell *c);
struct hb_reader hb_cell_entry(hb_cell c); /* of a cell for one */
/* One more beside those that are there. */
void hb_cell_add(struct hb_readers *p, hb_cell *c, hb_cell stamp);
/* Takes out of a cell that is a list. */
typedef bool hb_entry_fn(const struct hb_reader *r, const void *arg);
void hb_cell_filter(struct hb_readers *p, hb_cell *c, hb_entry_fn *goes,
                    const void *arg);
struct hb_block *hb_block(struct hb_smem *s, uint32_t at);
void hb_seg_read(struct hb_smem *s, struct hb_seg *g, struct hb_event *e);

/* ---- asynchronous work (hb_async.c) */

struct hb_event *hb_event_keep(struct hb_event *e);
void hb_event_drop(struct hb *h, struct hb_event *e);
void hb_events_free(struct hb *h);
/* Checks the ranges of `o` and takes note of them.  `o` has its lanes and number. */
bool hb_async_issue(struct async_op *o);
/* `o` has been run, or dropped. */
void hb_async_gone(struct cluster *c, struct async_op *o);
void hb_bulk_issued(struct warp *w, uint32_t lanes, uint32_t group);
/* cp.async.bulk.wait_group; closed[lane]: groups so far.  `all`: not .read. */
void hb_bulk_waited(struct warp *w, uint32_t lanes, const uint32_t *closed,
                    uint32_t left_open, bool all);

/* ---- global memory and flags (hb_global.c) */

struct hb_memory *hb_memory_new(void);
void hb_memory_free(struct hb_memory *m);
void hb_memory_undo(struct hb_memory *m); /* of what it has kept */
bool hb_global_access(struct warp *w, const uint64_t *address, uint32_t lanes,
                      uint32_t bytes, enum hb_access how);
/* Is the allocation there one that the grid writes?  `write`: it is now. */
bool hb_global_tracked(struct warp *w, uint64_t address, bool write);
/* A bulk copy, at its issue: reads, or writes in this group of the lane's stores. */
bool hb_global_async(struct warp *w, int lane, uint32_t group, uint64_t address,
                     uint64_t bytes, bool write, bool reduces);
/* Strong accesses of shared memory. */
bool hb_smem_flags(struct warp *w, const struct cta *c, const uint32_t *offset,
                   uint32_t lanes, enum hb_access how);
void hb_flags_reset(struct hb *h);
void hb_flags_free(struct hb *h);

/* ---- registers (check_regs.c) */

/* A tcgen05.ld into these registers; the warp's are waited for. */
void hb_load_issued(struct warp *w, const struct opnd *items, uint32_t count);
void hb_loads_waited(struct warp *w);
/* Called while w->ld_pending. */
bool hb_check_registers(struct warp *w, const struct op *op);

/* ---- registers of wgmma (check_wgmma.c) */

void hb_fragments_reset(struct hb_warp *h, const struct warp *w);
/* Before an op that has fragments. */
bool hb_check_fragments(struct warp *w, const struct op *op);
/* A wgmma, in this group of its warp. */
bool hb_wgmma_issued(struct warp *w, const struct op *op, uint32_t group);
void hb_wgmma_fence(struct warp *w);
/* Groups up to this one are complete. */
void hb_wgmma_waited(struct warp *w, uint32_t group);

/* ---- registers that were never written (check_fresh.c) */

void hb_fresh_reset(struct hb_warp *h, const struct warp *w);
/* Before the lanes come to an op that has a watch; its guard is not looked at yet. */
bool hb_watch(struct warp *w, const struct op *op, uint32_t pc, uint32_t lanes);

/* ---- messages (hb_blame.c); true: the launch goes on */

bool hb_blame_generic(struct warp *w, struct cta *t, uint32_t at, uint32_t bytes,
                      enum hb_access how, const struct hb_party *p, bool wrote);
/* Check 37, for bytes of this name that a thread of `cluster` has touched: the scope of
 * the instruction at pc is too narrow. */
bool hb_blame_narrow(struct warp *w, const char *name, enum hb_access how, bool wrote,
                     uint64_t cluster, uint32_t pc);
bool hb_blame_range(struct warp *w, struct cta *t, uint32_t from, uint32_t to,
                    enum hb_access how, const struct hb_event *e);
bool hb_blame_async(struct warp *w, const struct async_op *o, const struct cta *t,
                    uint32_t from, uint32_t to, bool write, const struct hb_event *e);
bool hb_blame_proxy(struct warp *w, const struct async_op *o, const struct cta *t,
                    uint32_t at, bool write, const struct hb_party *p, bool wrote,
                    bool fence_only);
bool hb_blame_unwritten(struct warp *w, const struct cta *t, uint32_t at,
                        uint32_t bytes, const struct async_op *o);

#endif
