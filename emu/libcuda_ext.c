#include "emu/fp4emu.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "emu/env.h"
#include "emu/launch.h"
#include "emu/libcuda.h"

#define PROGRESS_NS 100000000L

EXPORTED int fp4emu_version(void)
{
    return FP4EMU_VERSION;
}

/* The lock is taken, but cuInit need not have been called. */
EXPORTED void fp4emu_set_seed(unsigned long long seed)
{
    (void)enter();
    env_set_seed(seed);
    (void)leave(CUDA_SUCCESS);
}

EXPORTED int fp4emu_set_strategy(const char *name)
{
    enum strategy strategy;
    struct rule rule;
    char why[160];
    if (!name || !strategy_parse(name, &strategy, &rule, why, sizeof why))
        return 0;
    (void)enter();
    env_set_strategy(strategy, &rule);
    (void)leave(CUDA_SUCCESS);
    return 1;
}

EXPORTED size_t fp4emu_last_report(char *text, size_t bytes)
{
    (void)enter();
    const char *report = launch_report();
    size_t length = strlen(report);
    if (text && bytes) {
        size_t keep = length < bytes ? length : bytes - 1;
        memcpy(text, report, keep);
        text[keep] = '\0';
    }
    (void)leave(CUDA_SUCCESS);
    return length;
}

EXPORTED void fp4emu_get_stats(struct fp4emu_stats *out)
{
    struct launch_stats s;
    launch_get_stats(&s);
    *out = (struct fp4emu_stats){
        .launches = s.launches,
        .ctas = s.ctas,
        .ctas_done = s.ctas_done,
        .warp_instructions = s.steps,
        .seconds = s.seconds,
        .running = s.running,
    };
}

EXPORTED unsigned long long fp4emu_visible(void)
{
    return launch_visible();
}

EXPORTED size_t fp4emu_coverage(unsigned long long *keys, size_t count)
{
    (void)enter();
    size_t n = launch_coverage(keys, count);
    (void)leave(CUDA_SUCCESS);
    return n;
}

/* ---- progress */

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static fp4emu_progress_fn *progress_fn;
static void *progress_arg;

EXPORTED void fp4emu_set_progress(fp4emu_progress_fn *fn, void *arg)
{
    pthread_mutex_lock(&progress_lock);
    progress_fn = fn;
    progress_arg = arg;
    pthread_mutex_unlock(&progress_lock);
}

static void tell_progress(void)
{
    struct launch_stats s;
    launch_get_stats(&s);
    pthread_mutex_lock(&progress_lock);
    if (progress_fn)
        progress_fn(progress_arg, s.ctas_done, s.ctas);
    pthread_mutex_unlock(&progress_lock);
}

static void *watch(void *arg)
{
    struct progress *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_NS;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
        if (p->ended)
            break;
        pthread_mutex_unlock(&p->lock);
        tell_progress();
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void progress_begin(struct progress *p)
{
    pthread_mutex_lock(&progress_lock);
    p->wanted = progress_fn != NULL;
    pthread_mutex_unlock(&progress_lock);
    if (!p->wanted)
        return;
    p->ended = false;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->wanted = pthread_create(&p->thread, NULL, watch, p) == 0;
}

void progress_end(struct progress *p)
{
    if (!p->wanted)
        return;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    tell_progress();
}
