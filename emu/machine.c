/* machine.c - a grid: clusters on host threads.
 *
 * Clusters share only global memory, so each host thread takes the next one and runs
 * it. One that waits for what another one has to write to global memory is laid aside
 * and taken up again when that memory has changed.  Kernels whose result may depend on
 * who comes first (kernel->order_matters) run on one thread, so that every run of a
 * launch gives the same bits whatever the number of threads.  What a kernel does with
 * plain loads and stores shows only when two clusters meet in the same bytes
 * (hb_global.c): then all is undone, and the grid runs once more, on one thread. */
#include "emu/choice.h"
#include "emu/cluster.h"
#include "emu/coverage.h"
#include "emu/hb.h"
#include "emu/launch_control.h"
#include "emu/report.h"
#include "emu/role.h"

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define SLICE_STEPS 200000 /* of one cluster, before another one gets its turn */
#define MAX_THREADS 256

struct run {
    struct grid *grid;
    uint64_t order_factor, order_start; /* number_of_start() */
    uint64_t slice_rng;                 /* 0: slices are all as long (next_slice) */
    pthread_mutex_t lock;
    pthread_mutex_t memory; /* see global_lock */
    pthread_cond_t changed;
    uint64_t cluster_count;
    uint64_t first_count, next_number;   /* launched at first; the next of these */
    struct cluster *ready, **ready_tail; /* resident, can run */
    struct cluster *stuck;               /* resident, wait for global memory */
    struct cluster *spare;               /* memory for further ones */
    unsigned long long stuck_events;     /* global_events when the newest got stuck */
    int running;                         /* threads inside cluster_run */
    int idle_turns;                      /* since somebody last did more than poll */
    int resident;
    bool fresh_due; /* a slice has ended: a cluster that has not started comes next */
    bool stop;
};

static void append(struct run *r, struct cluster *c)
{
    c->next = NULL;
    *r->ready_tail = c;
    r->ready_tail = &c->next;
}

static struct cluster *pop(struct run *r)
{
    struct cluster *c = r->ready;
    if (!c)
        return NULL;
    r->ready = c->next;
    if (!r->ready)
        r->ready_tail = &r->ready;
    return c;
}

/* The lowest number first, so that a deadlock is always told of the same cluster. */
static void lay_aside(struct run *r, struct cluster *c, unsigned long long events)
{
    struct cluster **p = &r->stuck;
    while (*p && (*p)->number < c->number)
        p = &(*p)->next;
    c->next = *p;
    *p = c;
    r->stuck_events = events;
}

static void take_up(struct run *r)
{
    while (r->stuck) {
        struct cluster *c = r->stuck;
        r->stuck = c->next;
        append(r, c);
    }
}

/* FP4EMU_CLUSTERS may be too few for those that wait for one another. */
static void note_unlaunched(const struct run *r)
{
    uint64_t count = 0;
    for (const struct cluster *c = r->stuck; c; c = c->next)
        if (c->next_number < r->cluster_count)
            count += (r->cluster_count - 1 - c->next_number) / c->number_step + 1;
    if (r->next_number < r->first_count)
        report_note(r->grid,
                    "%llu clusters are not launched: the device has room for %llu",
                    (unsigned long long)(r->first_count - r->next_number),
                    (unsigned long long)r->grid->most_resident);
    if (count > 0)
        report_note(r->grid,
                    "%llu clusters are not launched: at first %llu are, the others as "
                    "these exit (FP4EMU_CLUSTERS)",
                    (unsigned long long)count, (unsigned long long)r->first_count);
}

/* Clusters after a failed one need not run, those before it must: the lowest number's
 * report is the launch's. */
static bool is_wanted(const struct run *r, uint64_t number)
{
    unsigned long long failed = atomic_load(&r->grid->failed_cluster);
    return !atomic_load(&r->grid->repeat) && (failed == 0 || number < failed - 1);
}

/* As on a device, a cluster that waits for one that finds no room never sees it. */
static bool has_room(const struct run *r)
{
    uint64_t most = r->grid->most_resident;
    return most == 0 || (uint64_t)r->resident < most;
}

/* Which cluster is launched as the i-th: by number, or where strategies explore in an
 * order that the seed gives. */
static uint64_t number_of_start(const struct run *r, uint64_t i)
{
    return (r->order_start + i % r->first_count * r->order_factor) % r->first_count;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    return b ? divisor(b, a % b) : a;
}

static void choose_order(struct run *r)
{
    const struct grid *g = r->grid;
    uint64_t n = r->first_count, seed = g->seed * 0x9e3779b97f4a7c15u + 1;
    r->order_factor = 1;
    r->order_start = 0;
    if (n < 2 || (g->strategy != STRATEGY_RANDOM && g->strategy != STRATEGY_PCT))
        return;
    if (g->kernel->order_matters)
        r->slice_rng = seed;
    r->order_start = (seed >> 33) % n;
    r->order_factor = (seed >> 17 & 0xffff) % n;
    while (divisor(r->order_factor, n) != 1)
        r->order_factor = (r->order_factor + 1) % n;
}

/* Where clusters speak to each other one of them may be overtaken anywhere, so chance
 * says how long it goes on, from a few instructions to many.  Under the lock; there is
 * one thread then, so that the seed decides. */
static uint64_t next_slice(struct run *r)
{
    if (!r->slice_rng)
        return SLICE_STEPS;
    r->slice_rng = r->slice_rng * 6364136223846793005u + 1442695040888963407u;
    return (uint64_t)1 << (r->slice_rng >> 60);
}

/* The next cluster to launch whose outcome still counts; false: there is none. */
static bool next_start(struct run *r, uint64_t *number)
{
    while (r->next_number < r->first_count) {
        *number = number_of_start(r, r->next_number++);
        if (is_wanted(r, *number))
            return true;
    }
    return false;
}

/* Under the lock.  NULL: nothing can run now; r->stop: nothing ever will. */
static struct cluster *choose(struct run *r)
{
    if (r->stop)
        return NULL;
    unsigned long long failed = atomic_load(&r->grid->failed_cluster);
    uint64_t number;
    if (r->stuck && atomic_load(&r->grid->global_events) != r->stuck_events)
        take_up(r);
    /* Fresh ones come before those that only poll, and after each slice of another one:
     * they may do what the others wait for, whether or not that shows. */
    bool all_idle = r->ready && r->idle_turns >= r->resident;
    if (r->ready && !all_idle && !r->fresh_due)
        return pop(r);
    r->fresh_due = false;
    if (has_room(r) && next_start(r, &number)) {
        struct cluster *c = r->spare;
        if (c)
            r->spare = c->next;
        else
            c = cluster_new(r->grid);
        cluster_reset(c, number);
        r->resident++;
        r->idle_turns = 0;
        return c;
    }
    if (r->ready)
        return pop(r);
    if (r->running == 0) {
        r->stop = true;
        if (r->stuck && failed == 0 && !atomic_load(&r->grid->repeat)) {
            deadlock_report(r->stuck);
            note_unlaunched(r);
        }
        pthread_cond_broadcast(&r->changed);
    }
    return NULL;
}

static void settle(struct run *r, struct cluster *c, enum progress p,
                   unsigned long long events)
{
    r->idle_turns = p == PROGRESS_IDLE ? r->idle_turns + 1 : 0;
    switch (p) {
    case PROGRESS_SLICE:
        r->fresh_due = true;
        append(r, c);
        break;
    case PROGRESS_IDLE:
        append(r, c);
        break;
    case PROGRESS_STUCK:
        lay_aside(r, c, events);
        break;
    case PROGRESS_DONE:
        if (c->next_number < r->cluster_count && is_wanted(r, c->next_number)) {
            cluster_reset(c, c->next_number);
            append(r, c);
            break;
        }
        /* fall through */
    case PROGRESS_FAILED:
        r->resident--;
        c->next = r->spare;
        r->spare = c;
        break;
    }
}

static uint64_t steps_of(const struct cluster *c)
{
    uint64_t steps = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++)
            steps += c->ctas[i].warps[k].steps;
    return steps;
}

static uint64_t visible_of(const struct cluster *c)
{
    uint64_t visible = 0;
    for (int i = 0; i < c->cta_count; i++)
        for (int k = 0; k < c->ctas[i].warp_count; k++)
            visible += c->ctas[i].warps[k].visible;
    return visible;
}

static void note_visible(struct grid *g, unsigned long long visible)
{
    unsigned long long most = atomic_load(&g->visible);
    while (visible > most && !atomic_compare_exchange_weak(&g->visible, &most, visible))
        continue;
}

static void *work(void *arg)
{
    struct run *r = arg;
    fenv_t saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV); /* to nearest, subnormals kept */
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct cluster *c = choose(r);
        if (!c) {
            if (!r->stop)
                pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        bool alone = r->running == 0 && !r->stuck && r->next_number == r->first_count &&
                     (!r->ready || r->idle_turns >= r->resident);
        uint64_t slice = next_slice(r);
        r->running++;
        pthread_mutex_unlock(&r->lock);
        unsigned long long events = atomic_load(&r->grid->global_events);
        enum progress p =
            is_wanted(r, c->number) ? cluster_run(c, slice, alone) : PROGRESS_FAILED;
        if (p == PROGRESS_DONE || p == PROGRESS_FAILED) {
            atomic_fetch_add(&r->grid->steps, steps_of(c));
            note_visible(r->grid, visible_of(c));
        }
        pthread_mutex_lock(&r->lock);
        r->running--;
        settle(r, c, p, events);
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    fesetenv(&saved);
    return NULL;
}

void global_lock(struct grid *g)
{
    struct run *r = g->run;
    pthread_mutex_lock(&r->memory);
}

void global_unlock(struct grid *g)
{
    struct run *r = g->run;
    pthread_mutex_unlock(&r->memory);
}

/* As it was before the first of them ran. */
static void undo(struct grid *g)
{
    hb_grid_undo(g);
    report_reset(g->report);
    if (g->coverage) {
        coverage_free(g->coverage);
        g->coverage = coverage_new();
    }
    if (g->record)
        g->record->count = 0;
    atomic_store(&g->ctas_done, 0);
    atomic_store(&g->steps, 0);
    atomic_store(&g->visible, 0);
    atomic_store(&g->global_events, 0);
    atomic_store(&g->failed_cluster, 0);
    atomic_store(&g->repeat, false);
}

static int thread_count(const struct grid *g, uint64_t clusters)
{
    long count = g->threads > 0 ? g->threads : sysconf(_SC_NPROCESSORS_ONLN);
    if (g->kernel->order_matters || count < 1)
        count = 1;
    if (count > MAX_THREADS)
        count = MAX_THREADS;
    return clusters < (uint64_t)count ? (int)clusters : (int)count;
}

static void free_list(struct cluster *c)
{
    while (c) {
        struct cluster *next = c->next;
        cluster_free(c);
        c = next;
    }
}

/* The instruction behind the label that starve names: where a branch to it goes. */
static uint32_t find_label(const struct grid *g)
{
    const struct kernel *k = g->kernel;
    const char *name = rule_label(g->strategy, &g->rule);
    for (uint32_t pc = 0; name && pc < k->op_count; pc++) {
        const char *label = role_branch(k->ops[pc].insn);
        if (label && strcmp(label, name) == 0)
            return k->ops[pc].target;
    }
    return UINT32_MAX;
}

/* On so many host threads. */
static void run_once(struct grid *g, int wanted)
{
    struct run r = {.grid = g};
    r.cluster_count = cluster_total(g);
    r.first_count = r.cluster_count;
    if (g->first_clusters && g->first_clusters < r.cluster_count)
        r.first_count = g->first_clusters;
    choose_order(&r);
    r.ready_tail = &r.ready;
    pthread_mutex_init(&r.lock, NULL);
    pthread_mutex_init(&r.memory, NULL);
    pthread_cond_init(&r.changed, NULL);
    g->run = &r;
    pthread_t threads[MAX_THREADS];
    int started = 0;
    /* The caller's thread is one of them: it is there when no other can be had. */
    while (started < wanted - 1 &&
           pthread_create(&threads[started], NULL, work, &r) == 0)
        started++;
    if (r.cluster_count > 0)
        work(&r);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free_list(r.ready);
    free_list(r.stuck);
    free_list(r.spare);
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.memory);
    pthread_mutex_destroy(&r.lock);
    g->run = NULL;
}

bool grid_run(struct grid *g)
{
    uint64_t clusters = cluster_total(g), first = g->first_clusters;
    int threads = thread_count(g, first && first < clusters ? first : clusters);
    g->starve_pc = find_label(g);
    hb_grid_begin(g);
    /* Of tensor maps that change, and of a trace, nothing is taken back. */
    g->may_repeat = threads > 1 && g->hb && !g->kernel->edits_maps && !g->trace;
    atomic_store(&g->repeat, false);
    run_once(g, threads);
    if (atomic_load(&g->repeat)) {
        undo(g);
        g->may_repeat = false;
        run_once(g, 1);
    }
    hb_grid_end(g);
    tmap_edits_free(g);
    return report_check(g->report) == CHECK_NONE;
}
