#include "emu/role.h"

#include <stdio.h>

void role_loop(struct warp *w, uint32_t pc)
{
    w->last_loop = pc;
    int i = w->loop_count;
    while (i > 0 && w->loops[i - 1] > pc)
        i--;
    if ((i > 0 && w->loops[i - 1] == pc) || i == WARP_LOOPS)
        return;
    if (w->loop_count < WARP_LOOPS)
        w->loop_count++;
    for (int k = w->loop_count - 1; k > i; k--)
        w->loops[k] = w->loops[k - 1];
    w->loops[i] = pc;
}

static bool goes_round(const struct warp *w, uint32_t pc)
{
    for (int i = 0; i < w->loop_count; i++)
        if (w->loops[i] == pc)
            return true;
    return false;
}

static uint32_t own_loop(const struct warp *w)
{
    const struct cta *c = w->cta;
    for (int i = 0; i < w->loop_count; i++) {
        bool shared = true;
        for (int k = 0; shared && k < c->warp_count; k++)
            shared = goes_round(&c->warps[k], w->loops[i]);
        if (!shared || c->warp_count == 1)
            return w->loops[i];
    }
    return UINT32_MAX;
}

static bool never_goes_on(const struct op *o)
{
    return o->guard.kind != PTX_OPND_REG &&
           (o->insn->op == PTX_BRA || o->insn->op == PTX_RET ||
            o->insn->op == PTX_EXIT || o->insn->op == PTX_TRAP);
}

const char *role_branch(const struct ptx_insn *i)
{
    return i->op == PTX_BRA && i->operand_count == 1 ? i->operands[0].name : NULL;
}

static const char *label_at(const struct kernel *k, uint32_t pc)
{
    for (uint32_t i = 0; i < k->op_count; i++) {
        const char *label = role_branch(k->ops[i].insn);
        if (label && k->ops[i].target == pc)
            return label;
    }
    return NULL;
}

/* Has an earlier branch gone there? */
static bool is_known(const struct ptx_func *f, int count, const char *label)
{
    for (int i = 0; i < count; i++) {
        const char *earlier = role_branch(&f->insns[i]);
        if (earlier && strcmp(earlier, label) == 0)
            return true;
    }
    return false;
}

bool role_labels(const struct ptx_module *m, const char *wanted, char *text,
                 size_t bytes)
{
    size_t used = 0;
    bool found = false;
    text[0] = '\0';
    for (int i = 0; i < m->func_count; i++)
        for (int k = 0; k < m->funcs[i]->insn_count; k++) {
            const char *label = role_branch(&m->funcs[i]->insns[k]);
            found = found || (label && strcmp(label, wanted) == 0);
            if (!label || used >= bytes || is_known(m->funcs[i], k, label))
                continue;
            int n =
                snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", label);
            used += n > 0 ? (size_t)n : 0;
        }
    if (used >= bytes)
        memcpy(text + bytes - 4, "...", 4);
    return found;
}

struct role role_of(const struct warp *w)
{
    const struct kernel *k = w->cta->cluster->grid->kernel;
    struct role r = {.pc = own_loop(w)};
    if (r.pc == UINT32_MAX)
        return r;
    uint32_t at = r.pc;
    while (at > k->start_pc && !never_goes_on(&k->ops[at - 1]))
        at--;
    if (at > k->start_pc)
        r.pc = at;
    r.label = label_at(k, r.pc);
    r.line = k->ops[r.pc].insn->line;
    return r;
}

const char *role_text(const struct warp *w, char *text, size_t bytes)
{
    struct role r = role_of(w);
    if (r.pc == UINT32_MAX)
        snprintf(text, bytes, "%s", "");
    else if (r.label)
        snprintf(text, bytes, "%s, line %d", r.label, r.line);
    else
        snprintf(text, bytes, "line %d", r.line);
    return text;
}
