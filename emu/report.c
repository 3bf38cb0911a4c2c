#include "emu/report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_WARNINGS 100
#define MAX_NOTES 160
#define MAX_PARTIES 16

struct entry {
    enum check check;
    enum check_action action;
    uint64_t cluster; /* number of the one that it happened in */
    const char *kernel, *opcode, *file;
    int line, warp; /* warp -1: unknown */
    uint32_t block[3], lanes, pc;
    int rank; /* of the CTA in its cluster; -1: it is alone there */
    bool is_hang;
    char *text, *mend;
    char *notes[MAX_NOTES];
    int note_count;
    struct party {
        const char *role; /* static text */
        struct report_party who;
    } parties[MAX_PARTIES];
    int party_count;
};

struct report {
    pthread_mutex_t lock;
    struct entry error; /* check NONE: none so far */
    struct entry warnings[MAX_WARNINGS];
    int warning_count, left_out;
    char *text; /* of the last report_text() or report_json() */
    size_t bytes, cap_bytes;
};

/* What the last report() of this host thread made: notes belong to it.  NULL when it
 * was not kept. */
static _Thread_local struct entry *newest;

struct report *report_new(void)
{
    struct report *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    pthread_mutex_init(&r->lock, NULL);
    newest = NULL;
    return r;
}

static void clear(struct entry *e)
{
    for (int i = 0; i < e->note_count; i++)
        free(e->notes[i]);
    free(e->text);
    free(e->mend);
    *e = (struct entry){.check = CHECK_NONE};
}

void report_reset(struct report *r)
{
    clear(&r->error);
    for (int i = 0; i < r->warning_count; i++)
        clear(&r->warnings[i]);
    r->warning_count = r->left_out = 0;
    newest = NULL;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    report_reset(r);
    pthread_mutex_destroy(&r->lock);
    free(r->text);
    free(r);
}

enum check report_check(const struct report *r)
{
    return r->error.check;
}

bool report_is_hang(const struct report *r)
{
    return r->error.is_hang;
}

int report_line(const struct report *r)
{
    return r->error.line;
}

/* Warnings of clusters behind the one that failed may or may not have come about. */
static bool is_kept(const struct report *r, const struct entry *e)
{
    return r->error.check == CHECK_NONE || e->cluster <= r->error.cluster;
}

int report_warnings(const struct report *r)
{
    int count = 0;
    for (int i = 0; i < r->warning_count; i++)
        count += is_kept(r, &r->warnings[i]);
    return count;
}

bool report_has_warning(const struct report *r, enum check check, int line)
{
    for (int i = 0; i < r->warning_count; i++)
        if (r->warnings[i].check == check && (line == 0 || r->warnings[i].line == line))
            return true;
    return false;
}

/* ---- text */

static void add(struct report *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void add(struct report *r, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int chars = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
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

static void add_place(struct report *r, const struct entry *e)
{
    add(r, "line %d (%s) block (%u,%u,%u)", e->line, e->opcode, e->block[0],
        e->block[1], e->block[2]);
    if (e->rank >= 0)
        add(r, " rank %d", e->rank);
    add(r, " warp %d lanes 0x%x", e->warp, e->lanes);
}

static void add_entry(struct report *r, const struct entry *e)
{
    const char *what = strchr(e->kernel, ' ') ? "" : "kernel "; /* "a copy" is none */
    add(r, "%s in %s%s: %s [%s]\n", e->action == CHECK_STOP ? "error" : "warning", what,
        e->kernel, e->text, check_title(e->check));
    if (e->warp >= 0) {
        add(r, "  at %s%s", e->file ? e->file : "", e->file ? " " : "");
        add_place(r, e);
        add(r, "\n");
    }
    for (int i = 0; i < e->note_count; i++)
        add(r, "  %s\n", e->notes[i]);
    const char *mend = e->mend ? e->mend : check_mend(e->check);
    if (mend[0])
        add(r, "  mend: %s\n", mend);
}

/* By line, then by check: the order in which host threads came does not show. */
static int by_place(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;
    int line = ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
    return line ? line : ((*x)->check > (*y)->check) - ((*x)->check < (*y)->check);
}

typedef void entry_fn(struct report *r, const struct entry *e, const char *more);

static void each(struct report *r, entry_fn *fn, const char *more)
{
    const struct entry *sorted[MAX_WARNINGS];
    size_t count = 0;
    for (int i = 0; i < r->warning_count; i++)
        if (is_kept(r, &r->warnings[i]))
            sorted[count++] = &r->warnings[i];
    qsort(sorted, count, sizeof *sorted, by_place);
    for (size_t i = 0; i < count; i++)
        fn(r, sorted[i], more);
    if (r->error.check != CHECK_NONE)
        fn(r, &r->error, more);
}

static void text_of(struct report *r, const struct entry *e, const char *more)
{
    (void)more;
    add_entry(r, e);
}

static void restart(struct report *r)
{
    r->bytes = 0;
    add(r, "%s", "");
}

const char *report_text(struct report *r)
{
    restart(r);
    each(r, text_of, "");
    if (r->left_out)
        add(r, "  ... and further warnings at %d more places\n", r->left_out);
    return r->text;
}

/* ---- JSON */

static void add_string(struct report *r, const char *s)
{
    add(r, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            add(r, "\\%c", c);
        else if (c < 0x20)
            add(r, "\\u%04x", c);
        else
            add(r, "%c", c);
    }
    add(r, "\"");
}

static void json_of_party(struct report *r, const struct party *p)
{
    const struct report_party *w = &p->who;
    size_t chars = strlen(p->role);
    bool has_colon = chars && p->role[chars - 1] == ':';
    add(r, "{\"role\":\"%.*s\",\"line\":%d,\"opcode\":", (int)(chars - has_colon),
        p->role, w->insn ? w->insn->line : 0);
    add_string(r, w->insn ? w->insn->opcode : "?");
    add(r, ",\"block\":[%u,%u,%u],\"rank\":%d,\"warp\":%d", w->block[0], w->block[1],
        w->block[2], w->rank > 0 ? w->rank : 0, w->warp);
    if (w->lanes)
        add(r, ",\"lanes\":\"0x%x\"", w->lanes);
    add(r, "}");
}

static void json_of(struct report *r, const struct entry *e, const char *more)
{
    add(r, "{\"check\":%d,\"title\":", (int)e->check);
    add_string(r, check_title(e->check));
    add(r,
        ",\"level\":\"%s\",\"kernel\":", e->action == CHECK_STOP ? "error" : "warning");
    add_string(r, e->kernel);
    add(r, ",\"file\":");
    add_string(r, e->file ? e->file : "");
    add(r, ",\"line\":%d,\"opcode\":", e->line);
    add_string(r, e->opcode);
    add(r, ",\"block\":[%u,%u,%u],\"rank\":%d,\"warp\":%d,\"lanes\":\"0x%x\",\"text\":",
        e->block[0], e->block[1], e->block[2], e->rank > 0 ? e->rank : 0, e->warp,
        e->lanes);
    add_string(r, e->text);
    add(r, ",\"others\":[");
    for (int i = 0; i < e->party_count; i++) {
        add(r, "%s", i ? "," : "");
        json_of_party(r, &e->parties[i]);
    }
    add(r, "],\"notes\":[");
    for (int i = 0; i < e->note_count; i++) {
        add(r, "%s", i ? "," : "");
        add_string(r, e->notes[i]);
    }
    add(r, "],\"mend\":");
    add_string(r, e->mend ? e->mend : check_mend(e->check));
    add(r, "%s%s}\n", more[0] ? "," : "", more);
}

const char *report_json(struct report *r, const char *more)
{
    restart(r);
    each(r, json_of, more);
    return r->text;
}

/* ---- places */

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

/* ---- making one */

/* Lowers g->failed_cluster to `number` + 1, so that higher ones stop. */
static void mark_failed(struct grid *g, uint64_t number)
{
    unsigned long long seen = atomic_load(&g->failed_cluster);
    while ((seen == 0 || seen > number + 1) &&
           !atomic_compare_exchange_weak(&g->failed_cluster, &seen, number + 1))
        continue;
}

static char *text_v(const char *fmt, va_list args) PRINTF_LIKE(1, 0);

static char *text_v(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int chars = vsnprintf(NULL, 0, fmt, args);
    size_t bytes = (size_t)(chars < 0 ? 0 : chars) + 1;
    char *text = malloc(bytes);
    if (!text)
        abort();
    text[0] = '\0';
    if (chars >= 0)
        vsnprintf(text, bytes, fmt, again);
    va_end(again);
    return text;
}

static void fill(struct entry *e, struct grid *g, const struct warp *w,
                 uint64_t cluster, enum check check, enum check_action action)
{
    const struct ptx_insn *i = w ? insn_at(w, w->cur_pc) : NULL;
    clear(e);
    e->check = check;
    e->action = action;
    e->cluster = cluster;
    e->kernel = g->kernel->func->name;
    e->file = g->kernel->module->file;
    e->opcode = i ? i->opcode : "?";
    e->line = i ? i->line : 0;
    e->is_hang = check == CHECK_DEADLOCK;
    e->warp = w ? w->index : -1;
    e->pc = w ? w->cur_pc : 0;
    e->lanes = w ? w->cur_lanes : 0;
    e->rank = -1;
    if (w)
        memcpy(e->block, w->cta->id, sizeof e->block);
    if (w && w->cta->cluster->cta_count > 1)
        e->rank = (int)w->cta->rank;
}

/* Where a warning goes; NULL: it is known already, or there are too many. */
static struct entry *warning_at(struct report *r, const struct warp *w,
                                uint64_t cluster, enum check check)
{
    uint32_t pc = w ? w->cur_pc : 0;
    for (int i = 0; i < r->warning_count; i++) {
        struct entry *e = &r->warnings[i];
        if (e->check == check && e->pc == pc)
            return cluster < e->cluster ? e : NULL;
    }
    if (r->warning_count == MAX_WARNINGS) {
        r->left_out++;
        return NULL;
    }
    return &r->warnings[r->warning_count++];
}

static enum flow record(struct grid *g, struct warp *w, enum check check,
                        enum check_action action, const char *fmt, va_list args)
    PRINTF_LIKE(5, 0);

static enum flow record(struct grid *g, struct warp *w, enum check check,
                        enum check_action action, const char *fmt, va_list args)
{
    struct report *r = g->report;
    uint64_t cluster = w ? w->cta->cluster->number : UINT64_MAX - 1;
    newest = NULL;
    if (action == CHECK_OFF)
        return FLOW_NEXT;
    pthread_mutex_lock(&r->lock);
    if (action == CHECK_WARN)
        newest = warning_at(r, w, cluster, check);
    else if (r->error.check == CHECK_NONE || cluster < r->error.cluster)
        newest = &r->error;
    if (newest) {
        fill(newest, g, w, cluster, check, action);
        newest->text = text_v(fmt, args);
    }
    pthread_mutex_unlock(&r->lock);
    if (action == CHECK_WARN)
        return FLOW_NEXT;
    mark_failed(g, cluster);
    return FLOW_STOP;
}

bool report_wants(const struct grid *g, enum check check)
{
    return check_action(g->checks, check) != CHECK_OFF;
}

enum flow report(struct grid *g, struct warp *w, enum check check, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    enum flow f = record(g, w, check, check_action(g->checks, check), fmt, args);
    va_end(args);
    return f;
}

enum flow report_at(struct grid *g, struct warp *w, enum check check,
                    enum check_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    enum flow f =
        record(g, w, check, check_action_at(g->checks, check, level), fmt, args);
    va_end(args);
    return f;
}

void report_note(struct grid *g, const char *fmt, ...)
{
    struct report *r = g->report;
    pthread_mutex_lock(&r->lock);
    if (newest && newest->note_count < MAX_NOTES) {
        va_list args;
        va_start(args, fmt);
        newest->notes[newest->note_count++] = text_v(fmt, args);
        va_end(args);
    }
    pthread_mutex_unlock(&r->lock);
}

void report_raise(struct grid *g, enum check check, uint32_t pc)
{
    struct report *r = g->report;
    if (check_action_at(g->checks, check, CHECK_IS_ERROR) != CHECK_STOP)
        return;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; newest && i < r->warning_count; i++)
        if (r->warnings[i].check == check && r->warnings[i].pc == pc)
            r->warnings[i].action = CHECK_STOP;
    pthread_mutex_unlock(&r->lock);
}

void report_party_at(struct grid *g, const char *role, const struct report_party *p)
{
    char rank[24] = "", lanes[24] = "";
    if (p->rank >= 0)
        snprintf(rank, sizeof rank, " rank %d", p->rank);
    if (p->lanes)
        snprintf(lanes, sizeof lanes, " lanes 0x%x", p->lanes);
    report_note(g, "%s line %d (%s) block (%u,%u,%u)%s warp %d%s", role,
                p->insn ? p->insn->line : 0, p->insn ? p->insn->opcode : "?",
                p->block[0], p->block[1], p->block[2], rank, p->warp, lanes);
    pthread_mutex_lock(&g->report->lock);
    if (newest && newest->party_count < MAX_PARTIES)
        newest->parties[newest->party_count++] = (struct party){role, *p};
    pthread_mutex_unlock(&g->report->lock);
}

void report_party(struct grid *g, const char *role, const struct warp *w, uint32_t pc,
                  uint32_t lanes)
{
    const struct cta *c = w->cta;
    struct report_party p = {
        .insn = insn_at(w, pc),
        .block = {c->id[0], c->id[1], c->id[2]},
        .lanes = lanes,
        .rank = c->cluster->cta_count > 1 ? (int)c->rank : -1,
        .warp = w->index,
    };
    report_party_at(g, role, &p);
}

void report_hang(struct grid *g)
{
    pthread_mutex_lock(&g->report->lock);
    if (newest)
        newest->is_hang = true;
    pthread_mutex_unlock(&g->report->lock);
}

void report_mend(struct grid *g, const char *fmt, ...)
{
    struct report *r = g->report;
    pthread_mutex_lock(&r->lock);
    if (newest) {
        va_list args;
        va_start(args, fmt);
        free(newest->mend);
        newest->mend = text_v(fmt, args);
        va_end(args);
    }
    pthread_mutex_unlock(&r->lock);
}
