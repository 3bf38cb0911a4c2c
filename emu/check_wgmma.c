/* check_wgmma.c - check 14 for wgmma: its registers, between the threads and itself.
 *
 * PTX ISA 9.0, "wgmma.fence" and "wgmma.wait_group".  What decode_fragments.c has
 * numbered is kept for each warp: the group of the newest wgmma that has a register as
 * accumulator, or in A, and whether the thread has touched it since its last fence. */
#include "emu/hb.h"
#include "emu/report.h"

#include <stdlib.h>

struct hb_fragment {
    uint32_t d_group, a_group; /* of the newest wgmma, 0: none; and where that is: */
    uint32_t d_pc, a_pc;
    uint32_t touched; /* 1 + fences so far */
    uint32_t touched_pc;
};

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

void hb_fragments_reset(struct hb_warp *h, const struct warp *w)
{
    uint32_t count = grid_of(w)->kernel->fragment_count;
    if (count == 0)
        return;
    h->wgmma_fences = h->wgmma_done = 0;
    if (!h->fragments && !(h->fragments = malloc(count * sizeof *h->fragments)))
        abort();
    memset(h->fragments, 0, count * sizeof *h->fragments);
}

static const struct ptx_insn *insn_at(const struct warp *w, uint32_t pc)
{
    return grid_of(w)->kernel->ops[pc].insn;
}

/* ---- a thread, while a wgmma is not complete */

static bool blame_pending(struct warp *w, uint16_t number, bool write, bool is_d)
{
    const struct hb_fragment *x = &w->hb->fragments[number];
    struct grid *g = grid_of(w);
    /* To read A changes nothing, though the manual forbids that as well. */
    enum flow f = report_at(
        g, w, CHECK_LD_REGISTER, is_d || write ? CHECK_IS_ERROR : CHECK_IS_PEDANTIC,
        "%s %s register %s, %s of a wgmma that this warp has not waited for",
        insn_at(w, w->cur_pc)->opcode, write ? "writes" : "reads",
        g->kernel->fragments[number], is_d ? "an accumulator" : "in A");
    report_party(g, "the wgmma:", w, is_d ? x->d_pc : x->a_pc, 0);
    report_mend(g, "execute wgmma.commit_group, and wgmma.wait_group for that group, "
                   "before the register is touched");
    return f == FLOW_NEXT;
}

static bool touch(struct warp *w, uint16_t number, bool write)
{
    struct hb_fragment *x = &w->hb->fragments[number];
    uint32_t done = w->hb->wgmma_done;
    x->touched = w->hb->wgmma_fences + 1;
    x->touched_pc = w->cur_pc;
    if (x->d_group > done)
        return blame_pending(w, number, write, true);
    return x->a_group <= done || blame_pending(w, number, write, false);
}

/* ---- a wgmma */

static bool blame_fence(struct warp *w, uint16_t number)
{
    struct grid *g = grid_of(w);
    uint32_t pc = w->hb->fragments[number].touched_pc;
    enum flow f =
        report_at(g, w, CHECK_LD_REGISTER, CHECK_IS_ERROR,
                  "this wgmma works on register %s, which was touched in line %d, and "
                  "no wgmma.fence has come since",
                  g->kernel->fragments[number], insn_at(w, pc)->line);
    report_party(g, "touched:", w, pc, 0);
    report_mend(g, "execute wgmma.fence between them");
    return f == FLOW_NEXT;
}

static bool blame_first(struct warp *w)
{
    struct grid *g = grid_of(w);
    enum flow f = report_at(g, w, CHECK_LD_REGISTER, CHECK_IS_ERROR,
                            "this is the first wgmma of the warp, and no wgmma.fence "
                            "stands in front of it");
    report_mend(g, "execute wgmma.fence in front of it");
    return f == FLOW_NEXT;
}

/* ".m64n128k16" */
static bool same_shape(const struct ptx_insn *a, const struct ptx_insn *b)
{
    const char *x = strstr(a->opcode, ".m64n"), *y = strstr(b->opcode, ".m64n");
    size_t length = x ? strcspn(x + 1, ".") + 1 : 0;
    return a == b || (x && y && strncmp(x, y, length) == 0 && y[length] == '.');
}

static bool use(struct warp *w, uint16_t number, uint32_t group, bool is_d)
{
    struct hb_warp *h = w->hb;
    struct hb_fragment *x = &h->fragments[number];
    if (x->touched == h->wgmma_fences + 1) {
        x->touched = 0;
        if (!blame_fence(w, number))
            return false;
    }
    /* MMAs of one shape on one accumulator come one behind the other by themselves. */
    bool in_order =
        is_d && x->d_group && same_shape(insn_at(w, w->cur_pc), insn_at(w, x->d_pc));
    if (x->d_group > h->wgmma_done && !in_order &&
        !blame_pending(w, number, is_d, true))
        return false;
    if (is_d && x->a_group > h->wgmma_done && !blame_pending(w, number, true, false))
        return false;
    if (is_d) {
        x->d_group = group;
        x->d_pc = w->cur_pc;
    } else {
        x->a_group = group;
        x->a_pc = w->cur_pc;
    }
    return true;
}

bool hb_wgmma_issued(struct warp *w, const struct op *op, uint32_t group)
{
    const struct fragments *x = op->fragments;
    if (!x || !report_wants(grid_of(w), CHECK_LD_REGISTER))
        return true;
    if (w->hb->wgmma_fences == 0) {
        w->hb->wgmma_fences = 1;
        if (!blame_first(w))
            return false;
    }
    for (int i = 0; i < x->read_count; i++)
        if (!use(w, x->reads[i], group, false))
            return false;
    for (int i = 0; i < x->write_count; i++)
        if (!use(w, x->writes[i], group, true))
            return false;
    return true;
}

void hb_wgmma_fence(struct warp *w)
{
    w->hb->wgmma_fences++;
}

void hb_wgmma_waited(struct warp *w, uint32_t group)
{
    if (group > w->hb->wgmma_done)
        w->hb->wgmma_done = group;
}

bool hb_check_fragments(struct warp *w, const struct op *op)
{
    const struct fragments *x = op->fragments;
    if (x->is_wgmma || !report_wants(grid_of(w), CHECK_LD_REGISTER))
        return true;
    for (int i = 0; i < x->read_count; i++)
        if (!touch(w, x->reads[i], false))
            return false;
    for (int i = 0; i < x->write_count; i++)
        if (!touch(w, x->writes[i], true))
            return false;
    return true;
}
