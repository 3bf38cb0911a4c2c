#include "gen/trials.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base.h"
#include "gen/seen.h"
#include "runtime/fp4gen.h"

#define MAX_PROCESSES 64
#define MAX_KEYS 65536
#define STRATEGY_CHARS 5000 /* replay has a path */

/* What a process hands back, through a file. */
struct message {
    uint64_t hash, visible;
    bool has_warnings, is_refused;
    size_t key_count;
};

struct process {
    pid_t pid; /* 0: none */
    int trial;
    bool is_second; /* with its outputs compared with the reference */
    FILE *text, *report, *data;
};

/* ---- inside the process */

struct inside {
    struct run_watch watch;
    FILE *data;
};

static void *symbol(fp4gen_device *d, const char *name)
{
    return fp4gen_driver_symbol(d, name);
}

/* Asks the emulator (emu/fp4emu.h) how the launch went. */
static void look(struct run_watch *w, fp4gen_device *d)
{
    struct inside *in = (struct inside *)w;
    size_t (*last_report)(char *, size_t) = NULL;
    unsigned long long (*visible)(void) = NULL;
    size_t (*coverage)(unsigned long long *, size_t) = NULL;
    void *symbols[] = {symbol(d, "fp4emu_last_report"), symbol(d, "fp4emu_visible"),
                       symbol(d, "fp4emu_coverage")};
    memcpy(&last_report, &symbols[0], sizeof symbols[0]);
    memcpy(&visible, &symbols[1], sizeof symbols[1]);
    memcpy(&coverage, &symbols[2], sizeof symbols[2]);
    static unsigned long long keys[MAX_KEYS];
    struct message m = {.hash = w->hash};
    m.has_warnings = last_report && last_report(NULL, 0) > 0;
    m.visible = visible ? visible() : 0;
    m.key_count = coverage ? coverage(keys, MAX_KEYS) : 0;
    if (m.key_count > MAX_KEYS)
        m.key_count = MAX_KEYS;
    rewind(in->data);
    fwrite(&m, sizeof m, 1, in->data);
    fwrite(keys, sizeof keys[0], m.key_count, in->data);
    fflush(in->data);
}

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
}

static void set_environment(const struct trials *t, const struct trial *x,
                            const struct process *p)
{
    char text[64];
    snprintf(text, sizeof text, "%" PRIu64, x->seed);
    set_variable("FP4EMU_SEED", text);
    set_variable("FP4EMU_STRATEGY", t->results[p->trial].strategy);
    set_variable("FP4EMU_CHECK", t->level);
    set_variable("FP4EMU_MMA", t->mma);
    set_variable("FP4EMU_RECORD", x->record);
    set_variable("FP4EMU_COVERAGE", "1");
    set_variable("FP4EMU_QUIET", "0");
    if (t->processes > 1)
        set_variable("FP4EMU_THREADS", "1");
    snprintf(text, sizeof text, "/dev/fd/%d", fileno(p->report));
    set_variable("FP4EMU_REPORT", text);
}

/* What is wrong before the launch is wrong under every schedule.  With the kernel on
 * its device it is the problem that is wrong: a misuse. */
static int note_refused(struct inside *in, int status)
{
    const struct message m = {.is_refused = true};
    if (status == 0 || in->watch.is_launched)
        return status;
    rewind(in->data);
    fwrite(&m, sizeof m, 1, in->data);
    fflush(in->data);
    return in->watch.has_device ? 2 : status;
}

/* Nobody reads what it finds when the parent is gone, so it goes with it. */
static _Noreturn void inside(const struct trials *t, const struct process *p,
                             pid_t parent)
{
    const struct trial *x = &t->at[p->trial];
    struct inside in = {.watch = {.look = look}, .data = p->data};
    struct run_options o = *x->run;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it was gone before */
        _exit(1);
    set_environment(t, x, p);
    dup2(fileno(p->text), STDOUT_FILENO);
    dup2(fileno(p->text), STDERR_FILENO);
    in.watch.is_trusted = x->base != p->trial && !p->is_second;
    o.driver = "emu";
    o.watch = &in.watch;
    int status = note_refused(&in, verb_run(&o, stdout, stderr));
    fflush(stdout);
    fflush(stderr);
    _exit(status);
}

/* ---- outside */

/* Within how many steps should priorities change?  As many as the base has. */
static bool wants_span(const char *strategy)
{
    return strncmp(strategy, "pct:", 4) == 0 && !strchr(strategy + 4, ':');
}

static char *complete_strategy(const struct trials *t, int trial)
{
    const struct trial *x = &t->at[trial];
    const uint64_t steps = t->results[x->base].visible;
    char text[STRATEGY_CHARS];
    if (wants_span(x->strategy) && steps > 0)
        snprintf(text, sizeof text, "%s:%" PRIu64, x->strategy, steps);
    else
        snprintf(text, sizeof text, "%s", x->strategy);
    return strdup(text);
}

static bool start(struct trials *t, struct process *p, int trial, bool is_second)
{
    pid_t parent = getpid();
    struct trial_result *r = &t->results[trial];
    *p = (struct process){.trial = trial, .is_second = is_second};
    if (!r->strategy)
        r->strategy = complete_strategy(t, trial);
    if (!is_second)
        r->state = TRIAL_RUNS;
    p->text = tmpfile();
    p->report = tmpfile();
    p->data = tmpfile();
    fflush(stdout);
    fflush(stderr);
    if (p->text && p->report && p->data)
        p->pid = fork();
    if (p->pid == 0 && p->data)
        inside(t, p, parent);
    return p->pid > 0;
}

static char *contents(FILE *f)
{
    long bytes = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
    char *text = malloc((size_t)(bytes > 0 ? bytes : 0) + 1);
    if (!text)
        abort();
    rewind(f);
    text[bytes > 0 ? fread(text, 1, (size_t)bytes, f) : 0] = '\0';
    return text;
}

/* The number behind "name": of the line of JSON that tells the error. */
static int number_in(const char *json, const char *name)
{
    const char *error = strstr(json, "\"level\":\"error\"");
    const char *line = error;
    while (line && line > json && line[-1] != '\n')
        line--;
    const char *at = line ? strstr(line, name) : NULL;
    return at ? atoi(at + strlen(name)) : 0;
}

static void read_data(struct trial_result *r, FILE *data)
{
    struct message m;
    rewind(data);
    if (fread(&m, sizeof m, 1, data) != 1)
        return;
    r->hash = m.hash;
    r->visible = m.visible;
    r->has_warnings = m.has_warnings;
    r->is_refused = m.is_refused;
    r->keys = malloc(m.key_count * sizeof *r->keys + 1);
    r->key_count = r->keys ? fread(r->keys, sizeof *r->keys, m.key_count, data) : 0;
}

/* All but the strategy. */
static void forget(struct trial_result *r)
{
    free(r->keys);
    free(r->text);
    *r = (struct trial_result){.strategy = r->strategy};
}

static void finish(struct trials *t, struct process *p, int status)
{
    struct trial_result *r = &t->results[p->trial];
    forget(r);
    r->text = contents(p->text);
    char *json = contents(p->report);
    r->check = number_in(json, "\"check\":");
    r->line = number_in(json, "\"line\":");
    free(json);
    read_data(r, p->data);
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + r->signal;
    r->state = r->status == 0 ? TRIAL_FINE : TRIAL_FAILED;
    fclose(p->text);
    fclose(p->report);
    fclose(p->data);
    p->pid = 0;
}

static struct process *wait_for_one(struct process *all, int *status)
{
    for (;;) {
        pid_t pid = waitpid(-1, status, 0);
        for (int i = 0; pid > 0 && i < MAX_PROCESSES; i++)
            if (all[i].pid == pid)
                return &all[i];
        if (pid < 0 && errno != EINTR)
            return NULL;
    }
}

struct course {
    struct process processes[MAX_PROCESSES];
    int *again; /* trials whose outputs are not their base's */
    int again_count;
    int next, done, running, failed;
    /* What those in front have shown, of the base of the newest. */
    struct seen seen;
    int judged, base;
    uint64_t newest; /* seed that has shown something new; 0: none has so far */
};

static void stop_from(struct course *c, int trial)
{
    for (int i = 0; i < MAX_PROCESSES; i++)
        if (c->processes[i].pid > 0 && c->processes[i].trial >= trial)
            kill(c->processes[i].pid, SIGKILL);
}

static bool differs(const struct trials *t, int i)
{
    const struct trial_result *r = &t->results[i], *base = &t->results[t->at[i].base];
    return r->state == TRIAL_FINE && base->state == TRIAL_FINE && r->hash != base->hash;
}

/* ---- the end of a search that shows nothing new */

static bool same_base(const struct trials *t, int i, int base)
{
    return i < t->count && t->at[i].base == base;
}

static void leave_out(struct trials *t, struct course *c, int from)
{
    for (int i = from; same_base(t, i, c->base); i++) {
        for (int k = 0; k < MAX_PROCESSES; k++)
            if (c->processes[k].pid > 0 && c->processes[k].trial == i)
                kill(c->processes[k].pid, SIGKILL);
        forget(&t->results[i]);
        t->results[i].state = TRIAL_LEFT_OUT;
        if (c->failed == i) { /* it ran ahead; so did what was stopped behind it */
            c->failed = -1;
            c->next = 0;
        }
    }
}

/* Goes on in the order of the trials, whatever the order in which they end. */
static void judge(struct trials *t, struct course *c)
{
    for (; c->judged < t->count; c->judged++) {
        const struct trial *x = &t->at[c->judged];
        const struct trial_result *r = &t->results[c->judged];
        if (r->state == TRIAL_LEFT_OUT)
            continue;
        if (r->state != TRIAL_FINE)
            return;
        if (c->judged == x->base) {
            seen_clear(&c->seen);
            c->base = x->base;
            c->newest = 0;
        }
        if (seen_add(&c->seen, r->keys, r->key_count) > 0)
            c->newest = x->seed;
        int next = c->judged + 1;
        bool ends_seed = !same_base(t, next, x->base) || t->at[next].seed != x->seed;
        if (ends_seed && x->seed >= c->newest + (uint64_t)t->quiet)
            leave_out(t, c, next);
    }
}

int trials_left_out(const struct trials *t)
{
    int count = 0;
    for (int i = 0; i < t->count; i++)
        count += t->results[i].state == TRIAL_LEFT_OUT;
    return count;
}

/* ---- from one to the next */

/* The next trial that can start, or -1. */
static int next_trial(struct trials *t, struct course *c, bool *is_second)
{
    *is_second = c->again_count > 0;
    if (c->failed >= 0)
        return -1;
    if (*is_second)
        return c->again[--c->again_count];
    while (c->next < t->count && t->results[c->next].state != TRIAL_NOT_RUN)
        c->next++;
    if (c->next == t->count)
        return -1;
    const struct trial *x = &t->at[c->next];
    if (wants_span(x->strategy) && t->results[x->base].state == TRIAL_RUNS)
        return -1;
    return c->next++;
}

static void start_trial(struct trials *t, struct course *c, int trial, bool is_second)
{
    struct process *p = c->processes;
    while (p->pid > 0)
        p++;
    if (start(t, p, trial, is_second)) {
        c->running++;
        return;
    }
    t->results[trial].state = TRIAL_FAILED;
    t->results[trial].status = 1;
    if (c->failed < 0 || trial < c->failed)
        c->failed = trial;
}

/* Trials that ended before their base are compared when it is there. */
static void settle(struct trials *t, struct course *c, int trial, bool is_second)
{
    struct trial_result *r = &t->results[trial];
    if (r->state == TRIAL_FAILED) {
        if (c->failed < 0 || trial < c->failed)
            c->failed = trial;
        stop_from(c, c->failed + 1);
        return;
    }
    if (is_second) {
        r->other_bits = true;
        return;
    }
    if (t->at[trial].base == trial) {
        for (int i = trial + 1; same_base(t, i, trial); i++)
            if (differs(t, i))
                c->again[c->again_count++] = i;
    } else if (differs(t, trial)) {
        c->again[c->again_count++] = trial;
    }
}

/* One process has ended. */
static void take(struct trials *t, struct course *c, struct process *p, int status)
{
    int trial = p->trial;
    bool is_second = p->is_second;
    bool is_out = t->results[trial].state == TRIAL_LEFT_OUT;
    bool is_late = c->failed >= 0 && trial > c->failed;
    finish(t, p, status);
    c->running--;
    c->done += !is_second;
    if (is_out || is_late) {
        forget(&t->results[trial]);
        t->results[trial].state = is_out ? TRIAL_LEFT_OUT : TRIAL_NOT_RUN;
    } else {
        settle(t, c, trial, is_second);
    }
    if (t->quiet)
        judge(t, c);
}

int trials_run(struct trials *t)
{
    struct course c = {.failed = -1};
    int most = t->processes < MAX_PROCESSES ? t->processes : MAX_PROCESSES - 1;
    c.again = calloc((size_t)t->count + 1, sizeof *c.again);
    if (!c.again)
        abort();
    for (;;) {
        bool is_second = false;
        int status, trial = c.running < most ? next_trial(t, &c, &is_second) : -1;
        if (trial >= 0) {
            if (t->results[trial].state != TRIAL_LEFT_OUT)
                start_trial(t, &c, trial, is_second);
            continue;
        }
        if (c.running == 0)
            break;
        struct process *p = wait_for_one(c.processes, &status);
        if (!p)
            break;
        take(t, &c, p, status);
        if (t->progress)
            t->progress(t->arg, c.done, t->count - trials_left_out(t));
    }
    free(c.again);
    seen_clear(&c.seen);
    return c.failed;
}

void trials_free(struct trials *t)
{
    for (int i = 0; i < t->count; i++) {
        forget(&t->results[i]);
        free(t->results[i].strategy);
        t->results[i].strategy = NULL;
    }
}
