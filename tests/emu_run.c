#include "tests/emu_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "emu/memory.h"
#include "tests/test.h"

uint64_t emu_alloc(struct emu_run *r, size_t bytes)
{
    uint64_t address = memory_alloc(MEMORY_DEVICE, bytes, 512, r);
    if (!address || r->buffer_count == (int)COUNT_OF(r->buffers))
        abort();
    memset(emu_bytes(address), 0, bytes);
    r->buffers[r->buffer_count++] = address;
    return address;
}

uint8_t *emu_bytes(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

uint32_t *emu_u32(uint64_t address)
{
    return (uint32_t *)(uintptr_t)address;
}

void emu_param(struct emu_run *r, const void *value, uint32_t bytes)
{
    r->param_end = align_up(r->param_end, bytes < 64 ? bytes : 64);
    if (r->param_end + bytes > sizeof r->param_bytes)
        abort();
    memcpy(r->param_bytes + r->param_end, value, bytes);
    r->param_end += bytes;
}

static const char *module_text(struct emu_run *r)
{
    if (r->ptx)
        return r->ptx;
    /* Line numbers of the body are those of the test's string plus the one line here.
     */
    return arena_printf(r->arena,
                        ".version 8.8 .target sm_100a .address_size 64 .extern .shared "
                        ".align 1024 .b8 sm[]; .visible .entry test(%s) {\n%s\n}\n",
                        r->params ? r->params : "", r->body);
}

bool emu_launch(struct emu_run *r)
{
    r->arena = arena_new();
    r->diags = diags_new(r->arena);
    const char *text = module_text(r);
    struct ptx_module *m =
        ptx_parse(r->arena, "test.ptx", text, strlen(text), r->diags);
    const struct ptx_func *f = NULL;
    for (int i = 0; m && i < m->func_count; i++)
        if (m->funcs[i]->is_entry)
            f = m->funcs[i];
    struct kernel *k = f ? kernel_decode(r->arena, m, f, NULL, 0, r->diags) : NULL;
    r->machine = (struct grid){.report = report_new()};
    if (!k)
        return false;
    struct grid *g = &r->machine;
    g->kernel = k;
    for (int i = 0; i < 3; i++) {
        g->dim[i] = r->grid[i] ? r->grid[i] : 1;
        g->cluster[i] = r->cluster[i] ? r->cluster[i] : 1;
        g->block[i] = 1;
    }
    g->block[0] = (uint32_t)r->threads;
    g->dyn_smem_bytes = r->smem_bytes;
    g->params = r->param_bytes;
    g->param_bytes = f->param_bytes;
    g->strategy = r->lazy ? STRATEGY_LAZY : STRATEGY_EAGER;
    char why[256];
    if (r->strategy &&
        !strategy_parse(r->strategy, &g->strategy, &g->rule, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s: %s", r->strategy, why);
    g->seed = r->seed ? r->seed : 1;
    g->perturb = r->perturb;
    g->threads = 1;
    g->plan = r->plan;
    g->record = r->record;
    g->first_clusters = r->first_clusters;
    g->registers = r->registers;
    if (!check_set_parse(r->checks ? r->checks : "default", &r->check_set, why,
                         sizeof why))
        test_fail(__FILE__, __LINE__, "%s: %s", r->checks, why);
    g->checks = &r->check_set;
    g->no_checks = r->check_set.off;
    return grid_run(g);
}

const char *emu_report(const struct emu_run *r)
{
    return report_text(r->machine.report);
}

const char *emu_refusal(const struct emu_run *r)
{
    struct buf text;
    buf_init(&text, r->arena);
    for (const struct diag *d = r->diags->first; d; d = d->next)
        diag_format(d, NULL, &text);
    return text.data ? text.data : "";
}

void emu_done(struct emu_run *r)
{
    report_free(r->machine.report);
    arena_free(r->arena);
    for (int i = 0; i < r->buffer_count; i++)
        memory_free(r->buffers[i]);
}

static const char *name_of_strategy(const struct emu_run *r)
{
    return r->strategy ? r->strategy : r->lazy ? "lazy" : "eager";
}

static _Noreturn void unexpected(const char *file, int line, const struct emu_run *r,
                                 const char *what)
{
    const char *text = emu_report(r);
    test_fail(file, line, "%s: %s; got\n%s%s", name_of_strategy(r), what,
              text[0] ? text : "no report\n", emu_refusal(r));
}

void emu_fine(const char *file, int line, struct emu_run *r)
{
    if (!emu_launch(r) || emu_report(r)[0])
        unexpected(file, line, r, "expected no report");
}

void emu_expect(const char *file, int line, struct emu_run *r, enum check check,
                int ptx_line, const char *words)
{
    char what[512];
    bool ended = emu_launch(r);
    const struct report *report = r->machine.report;
    snprintf(what, sizeof what, "expected %s, line %d, \"%s\"", check_title(check),
             ptx_line, words);
    bool found = report_has_warning(report, check, ptx_line) ||
                 (!ended && report_check(report) == check &&
                  (ptx_line == 0 || report_line(report) == ptx_line));
    if (!found || !strstr(emu_report(r), words))
        unexpected(file, line, r, what);
}
