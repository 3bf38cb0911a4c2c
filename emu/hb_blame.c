/* hb_blame.c - the messages of the happens-before engine: who, where, against whom. */
#include "emu/hb.h"
#include "emu/report.h"

#include <stdio.h>

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

static int line_of(const struct warp *w, uint32_t pc)
{
    const struct kernel *k = grid_of(w)->kernel;
    return pc < k->op_count ? k->ops[pc].insn->line : 0;
}

static const char *opcode_of(const struct warp *w, uint32_t pc)
{
    const struct kernel *k = grid_of(w)->kernel;
    return pc < k->op_count ? k->ops[pc].insn->opcode : "an instruction";
}

static const char *event_name(const struct hb_event *e)
{
    switch (e->kind) {
    case ASYNC_COPY_IN:
        return "copy";
    case ASYNC_COPY_OUT:
        return "bulk store";
    case ASYNC_MMA:
        return "mma";
    case ASYNC_TC_CP:
        return "tcgen05.cp";
    case ASYNC_WGMMA:
        return "wgmma";
    case ASYNC_COMMIT:
        return "commit";
    case ASYNC_CP:
        return "cp.async";
    }
    return "operation";
}

/* ---- notes */

static void note_party(struct warp *w, const struct hb_party *p)
{
    const struct hb *h = w->cta->cluster->hb;
    report_party(grid_of(w), "the earlier one:", h->components[p->component].warp,
                 p->pc, p->lanes);
}

/* "the commit:" */
static const char *event_role(const struct hb_event *e)
{
    switch (e->kind) {
    case ASYNC_COPY_IN:
        return "the copy:";
    case ASYNC_COPY_OUT:
        return "the bulk store:";
    case ASYNC_MMA:
        return "the tcgen05.mma:";
    case ASYNC_TC_CP:
        return "the tcgen05.cp:";
    case ASYNC_WGMMA:
        return "the wgmma:";
    case ASYNC_COMMIT:
        return "the commit:";
    case ASYNC_CP:
        return "the cp.async:";
    }
    return "the operation:";
}

static void note_event(struct warp *w, const struct hb_event *e)
{
    struct grid *g = grid_of(w);
    report_party(g, event_role(e), e->warp, e->pc, 0);
    if (e->kind == ASYNC_COPY_IN && e->component == HB_PENDING)
        report_note(g, "it is still under way");
    else if (e->kind == ASYNC_COPY_IN && e->mbar && e->mbar->hb) {
        const struct hb_seen *s = &e->mbar->hb->seen[w->index];
        bool own = e->mbar->cta == w->cta;
        report_note(
            g,
            "it signals the barrier at 0x%x of block (%u,%u,%u), initialised in "
            "line %d, in phase %llu (parity %u)",
            e->mbar->offset, e->mbar->cta->id[0], e->mbar->cta->id[1],
            e->mbar->cta->id[2], e->mbar->init_line, (unsigned long long)e->phase,
            (unsigned)(e->phase & 1));
        if (own && s->any && s->phases > 0)
            report_note(g, "this warp has last waited for phase %llu of it, in line %d",
                        (unsigned long long)s->phases - 1, line_of(w, s->pc));
        else if (own)
            report_note(g, "this warp has not waited for it");
    } else if (e->kind == ASYNC_COPY_OUT) {
        report_note(g, "its group has not been waited for by cp.async.bulk.wait_group, "
                       "as far as this thread knows");
    } else if (e->kind == ASYNC_WGMMA) {
        report_note(g,
                    "its group has not been waited for by wgmma.wait_group, as far as "
                    "this thread knows");
    } else if (e->kind == ASYNC_MMA || e->kind == ASYNC_TC_CP) {
        report_note(g, "this thread has waited for no barrier that a commit behind it "
                       "arrived on");
    }
}

static const char *access_verb(bool write)
{
    return write ? "overwritten" : "read";
}

/* "shared bytes 0x400 to 0x800 of block (0,0,0)" */
static const char *bytes_name(const struct cta *t, uint32_t from, uint32_t to,
                              char *text, size_t bytes)
{
    snprintf(text, bytes, "shared bytes 0x%x to 0x%x of block (%u,%u,%u)", from, to,
             t->id[0], t->id[1], t->id[2]);
    return text;
}

bool hb_blame_narrow(struct warp *w, const char *name, enum hb_access how, bool wrote,
                     uint64_t cluster, uint32_t pc)
{
    bool beyond = cluster != w->cta->cluster->number;
    return report_at(grid_of(w), w, CHECK_SCOPE,
                     beyond ? CHECK_IS_WARNING : CHECK_IS_PEDANTIC,
                     "%s are %s here and %s by another %s, and the %s of line %d, on "
                     "which their order rests, has a scope that does not include both",
                     name, how == HB_READ ? "read" : "written",
                     wrote ? "written" : "read", beyond ? "cluster" : "CTA",
                     opcode_of(w, pc), line_of(w, pc)) == FLOW_NEXT;
}

/* ---- shared memory */

bool hb_blame_generic(struct warp *w, struct cta *t, uint32_t at, uint32_t bytes,
                      enum hb_access how, const struct hb_party *p, bool wrote)
{
    char name[96];
    const struct hb_component *c = &w->cta->cluster->hb->components[p->component];
    bool copy = c->kind == HB_COPIES;
    enum check check = !copy            ? CHECK_DATA_RACE
                       : how == HB_READ ? CHECK_UNFINISHED_COPY
                                        : CHECK_STAGE_OVERWRITTEN;
    if (!report_wants(grid_of(w), check))
        return true;
    bytes_name(t, at, at + bytes, name, sizeof name);
    uint32_t pc;
    if (!copy && hb_is_narrow(w, (uint32_t)bits_lowest(w->cur_lanes),
                              w->cta->cluster->number, p, &pc)) {
        bool goes_on =
            hb_blame_narrow(w, name, how, wrote, w->cta->cluster->number, pc);
        note_party(w, p);
        return goes_on;
    }
    enum flow f;
    if (copy)
        f = report(
            grid_of(w), w, check,
            "%s are %s before this thread has waited for the cp.async that fills "
            "them",
            name, access_verb(how != HB_READ));
    else
        f = report(grid_of(w), w, check,
                   "%s are %s here and %s by %s, and nothing orders the two", name,
                   how == HB_READ ? "read" : "written", wrote ? "written" : "read",
                   c->warp == w ? "another lane of the warp" : "another warp");
    note_party(w, p);
    if (copy)
        report_mend(grid_of(w),
                    "execute cp.async.wait_group in the thread that copies, "
                    "then a barrier where another one reads");
    else if (c->warp == w)
        report_mend(grid_of(w), "put bar.warp.sync between them");
    return f == FLOW_NEXT;
}

static enum check check_of(const struct hb_event *e, bool write)
{
    if (!write)
        return CHECK_UNFINISHED_COPY;
    return e->kind == ASYNC_COPY_OUT ? CHECK_STORE_SOURCE : CHECK_STAGE_OVERWRITTEN;
}

static bool blame_event(struct warp *w, const struct cta *t, uint32_t from, uint32_t to,
                        bool write, const struct hb_event *e)
{
    char name[96];
    enum check check = check_of(e, write);
    if (!report_wants(grid_of(w), check))
        return true;
    bytes_name(t, from, to, name, sizeof name);
    enum flow f;
    if (e->kind == ASYNC_COPY_IN)
        f = report(grid_of(w), w, check,
                   "%s are %s before this thread has waited for the copy that %s them",
                   name, access_verb(write), "fills");
    else
        f = report(grid_of(w), w, check,
                   "%s are overwritten, and nothing shows this thread that the %s of "
                   "line %d has read them",
                   name, event_name(e), line_of(w, e->pc));
    note_event(w, e);
    hb_mbar_cause(w, e->mbar, e->warp);
    return f == FLOW_NEXT;
}

bool hb_blame_range(struct warp *w, struct cta *t, uint32_t from, uint32_t to,
                    enum hb_access how, const struct hb_event *e)
{
    return blame_event(w, t, from, to, how != HB_READ, e);
}

bool hb_blame_async(struct warp *w, const struct async_op *o, const struct cta *t,
                    uint32_t from, uint32_t to, bool write, const struct hb_event *e)
{
    w->cur_lanes = (uint32_t)1 << o->lane;
    return blame_event(w, t, from, to, write, e);
}

bool hb_blame_proxy(struct warp *w, const struct async_op *o, const struct cta *t,
                    uint32_t at, bool write, const struct hb_party *p, bool wrote,
                    bool fence_only)
{
    const struct hb_component *c = &w->cta->cluster->hb->components[p->component];
    char name[96];
    w->cur_lanes = (uint32_t)1 << o->lane;
    enum check check = !fence_only
                           ? (c->kind == HB_COPIES && !write ? CHECK_UNFINISHED_COPY
                                                             : CHECK_PROXY_RACE)
                       : wrote ? CHECK_PROXY_FENCE
                               : CHECK_ASYNC_OVER_READ;
    if (!report_wants(grid_of(w), check))
        return true;
    bytes_name(t, at, at + 4, name, sizeof name);
    /* An answer of launch control must not overtake the one that was read before. */
    bool answer =
        check == CHECK_ASYNC_OVER_READ &&
        grid_of(w)->kernel->ops[o->pc].insn->op == PTX_CLUSTERLAUNCHCONTROL_TRY_CANCEL;
    enum flow f = report_at(
        grid_of(w), w, check, answer ? CHECK_IS_ERROR : check_level(check),
        fence_only ? "%s are %s asynchronously after a generic %s, with no "
                     "fence.proxy.async between the two"
                   : "%s are %s asynchronously, and nothing orders that with a "
                     "generic %s",
        name, write ? "written" : "read", wrote ? "write" : "read");
    for (int i = 0; i < o->range_count; i++)
        if (o->ranges[i].cta == t && o->ranges[i].from <= at && at < o->ranges[i].to)
            report_note(grid_of(w), "the instruction %s shared bytes 0x%x to 0x%x",
                        write ? "writes" : "reads", o->ranges[i].from, o->ranges[i].to);
    note_party(w, p);
    return f == FLOW_NEXT;
}

bool hb_blame_unwritten(struct warp *w, const struct cta *t, uint32_t at,
                        uint32_t bytes, const struct async_op *o)
{
    char name[96];
    if (!report_wants(grid_of(w), CHECK_UNINITIALISED))
        return true;
    bytes_name(t, at, at + bytes, name, sizeof name);
    enum flow f;
    if (o) {
        w->cur_lanes = (uint32_t)1 << o->lane;
        f = report(grid_of(w), w, CHECK_UNINITIALISED,
                   "%s are read asynchronously, and nothing has written them", name);
    } else {
        f = report_at(grid_of(w), w, CHECK_UNINITIALISED, CHECK_IS_WARNING,
                      "%s are read, and nothing has written them", name);
    }
    return f == FLOW_NEXT;
}
