#include "emu/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct report {
    pthread_mutex_t lock;
    enum check check;
    uint64_t cluster; /* number of the one that failed */
    int line;
    char *text; /* NULL until the first error */
    size_t bytes, cap_bytes;
};

/* Did the last report() of this host thread get kept?  Notes then belong to it. */
static _Thread_local bool was_kept;

struct report *report_new(void)
{
    struct report *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->text);
    free(r);
}

enum check report_check(const struct report *r)
{
    return r->check;
}

const char *report_text(const struct report *r)
{
    return r->text ? r->text : "";
}

int report_line(const struct report *r)
{
    return r->line;
}

static const char *check_name(enum check c)
{
    switch (c) {
    case CHECK_NONE:
        break;
    case CHECK_UNFINISHED_COPY:
        return "check 4, read of an unfinished copy";
    case CHECK_STAGE_OVERWRITTEN:
        return "check 5, stage overwritten too early";
    case CHECK_PHASE_OVERRUN:
        return "check 7, phase overrun";
    case CHECK_BYTE_COUNT:
        return "check 8, byte count";
    case CHECK_ARRIVAL_COUNT:
        return "check 9, arrival count";
    case CHECK_BAD_BARRIER:
        return "check 10, bad barrier";
    case CHECK_TMEM_UNFINISHED:
        return "check 12, tensor memory used before it is complete";
    case CHECK_TMEM_OVERWRITTEN:
        return "check 13, tensor memory overwritten too early";
    case CHECK_TMEM_LEAK:
        return "check 16, tensor memory allocation";
    case CHECK_TMEM_OUTSIDE:
        return "check 17, outside tensor memory";
    case CHECK_TMEM_IN_USE:
        return "check 18, tensor memory freed while in use";
    case CHECK_LANE_QUARTER:
        return "check 19, lane quarter";
    case CHECK_UNINITIALISED:
        return "check 20, read of what was never written";
    case CHECK_OUT_OF_BOUNDS:
        return "check 21, out of bounds";
    case CHECK_CTA_EXIT:
        return "check 22, exit of a CTA that is still needed";
    case CHECK_STORE_SOURCE:
        return "check 24, source of a store overwritten";
    case CHECK_DEADLOCK:
        return "check 25, deadlock";
    case CHECK_DIVERGENCE:
        return "check 26, divergence";
    case CHECK_MEMBER_MASK:
        return "check 27, member mask";
    case CHECK_REGISTERS:
        return "check 28, setmaxnreg";
    case CHECK_DESCRIPTOR:
        return "check 29, descriptor";
    case CHECK_SCALE_COPIES:
        return "check 30, scale factors not replicated";
    case CHECK_SCALE_OVERLAP:
        return "check 31, scales and accumulator overlap";
    case CHECK_NAMED_BARRIER:
        return "check 32, named barrier";
    case CHECK_CLUSTER_BARRIER:
        return "check 33, cluster barrier";
    case CHECK_TENSOR_MAP:
        return "check 34, tensor map proxy";
    case CHECK_ALIGNMENT:
        return "check 35, alignment";
    case CHECK_LAUNCH_CONTROL:
        return "check 38, launch control";
    case CHECK_COLLAPSED_WORK:
        return "check 40, the same work by several lanes";
    case CHECK_TRAP:
        return "trap";
    case CHECK_ASSERT:
        return "assertion failed";
    case CHECK_ARITHMETIC:
        return "arithmetic";
    case CHECK_OPERAND:
        return "operand";
    }
    return "error";
}

static void add(struct report *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void add_v(struct report *r, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

static void add_v(struct report *r, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int chars = vsnprintf(NULL, 0, fmt, args);
    size_t need = r->bytes + (size_t)(chars < 0 ? 0 : chars) + 1;
    if (need > r->cap_bytes) {
        r->cap_bytes = need * 2;
        r->text = realloc(r->text, r->cap_bytes);
        if (!r->text)
            abort();
    }
    if (chars >= 0)
        vsnprintf(r->text + r->bytes, r->cap_bytes - r->bytes, fmt, again);
    r->bytes = need - 1;
    va_end(again);
}

static void add(struct report *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_v(r, fmt, args);
    va_end(args);
}

static const struct ptx_insn *insn_at(const struct warp *w, uint32_t pc)
{
    const struct kernel *k = w->cta->cluster->grid->kernel;
    return pc < k->op_count ? k->ops[pc].insn : NULL;
}

const char *report_place(const struct warp *w, uint32_t pc, char *text, size_t bytes)
{
    const struct ptx_insn *i = insn_at(w, pc);
    const struct cta *c = w->cta;
    snprintf(text, bytes, "line %d (%s) block (%u,%u,%u) warp %d lanes 0x%x",
             i ? i->line : 0, i ? i->opcode : "?", c->id[0], c->id[1], c->id[2],
             w->index, w->cur_lanes);
    return text;
}

const char *report_issuer(const struct warp *w, uint32_t pc, char *text, size_t bytes)
{
    const struct ptx_insn *i = insn_at(w, pc);
    const struct cta *c = w->cta;
    snprintf(text, bytes, "line %d (%s) block (%u,%u,%u) warp %d", i ? i->line : 0,
             i ? i->opcode : "?", c->id[0], c->id[1], c->id[2], w->index);
    return text;
}

/* Lowers g->failed_cluster to `number` + 1, so that higher ones stop. */
static void mark_failed(struct grid *g, uint64_t number)
{
    unsigned long long seen = atomic_load(&g->failed_cluster);
    while ((seen == 0 || seen > number + 1) &&
           !atomic_compare_exchange_weak(&g->failed_cluster, &seen, number + 1))
        continue;
}

enum flow report(struct grid *g, struct warp *w, enum check check, const char *fmt, ...)
{
    struct report *r = g->report;
    uint64_t cluster = w ? w->cta->cluster->number : UINT64_MAX - 1;
    pthread_mutex_lock(&r->lock);
    was_kept = !r->text || cluster < r->cluster;
    if (was_kept) {
        const struct ptx_insn *i = w ? insn_at(w, w->cur_pc) : NULL;
        char place[512];
        r->bytes = 0;
        r->check = check;
        r->cluster = cluster;
        r->line = i ? i->line : 0;
        add(r, "error in kernel %s: ", g->kernel->func->name);
        va_list args;
        va_start(args, fmt);
        add_v(r, fmt, args);
        va_end(args);
        add(r, " [%s]\n", check_name(check));
        if (w)
            add(r, "  at %s%s%s\n",
                g->kernel->module->file ? g->kernel->module->file : "",
                g->kernel->module->file ? " " : "",
                report_place(w, w->cur_pc, place, sizeof place));
    }
    pthread_mutex_unlock(&r->lock);
    mark_failed(g, cluster);
    return FLOW_STOP;
}

void report_note(struct grid *g, const char *fmt, ...)
{
    struct report *r = g->report;
    pthread_mutex_lock(&r->lock);
    if (was_kept) {
        add(r, "  ");
        va_list args;
        va_start(args, fmt);
        add_v(r, fmt, args);
        va_end(args);
        add(r, "\n");
    }
    pthread_mutex_unlock(&r->lock);
}
