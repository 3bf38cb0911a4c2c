/* tma_fills.c - which bulk copy wrote which bytes of shared memory last. */
#include "emu/report.h"
#include "emu/tma.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void fills_insert(struct fills *f, int i, struct fill piece)
{
    if (f->count == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 32;
        f->at = realloc(f->at, (size_t)f->cap * sizeof *f->at);
        if (!f->at)
            abort();
    }
    memmove(f->at + i + 1, f->at + i, (size_t)(f->count - i) * sizeof *f->at);
    f->at[i] = piece;
    f->count++;
}

static int fills_first_after(const struct fills *f, uint32_t offset)
{
    int low = 0, high = f->count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (f->at[mid].to <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low; /* first whose end lies behind `offset` */
}

void fills_add(struct fills *f, const struct fill *new_fill)
{
    int i = fills_first_after(f, new_fill->from);
    if (i < f->count && f->at[i].from == new_fill->from &&
        f->at[i].to == new_fill->to) {
        f->at[i] = *new_fill;
        return;
    }
    if (i < f->count && f->at[i].from < new_fill->from) {
        if (f->at[i].to > new_fill->to) { /* inside an old one: that becomes two */
            struct fill tail = f->at[i];
            tail.from = new_fill->to;
            fills_insert(f, i + 1, tail);
        }
        f->at[i++].to = new_fill->from;
    }
    int covered = i;
    while (covered < f->count && f->at[covered].to <= new_fill->to)
        covered++;
    if (covered > i)
        memmove(f->at + i, f->at + covered,
                (size_t)(f->count - covered) * sizeof *f->at);
    f->count -= covered - i;
    if (i < f->count && f->at[i].from < new_fill->to)
        f->at[i].from = new_fill->to;
    fills_insert(f, i, *new_fill);
}

const struct fill *fills_find(const struct fills *f, uint32_t offset)
{
    int i = fills_first_after(f, offset);
    return i < f->count && f->at[i].from <= offset ? &f->at[i] : NULL;
}

const char *fill_describe(const struct fill *f, char *text, size_t bytes)
{
    char place[512], name[64];
    report_issuer(f->issuer, f->pc, place, sizeof place);
    if (f->is_tensor)
        snprintf(text, bytes, "%s, map %s", place,
                 tma_map_name(f->issuer->cta->cluster->grid, f->map_address, name,
                              sizeof name));
    else
        snprintf(text, bytes, "%s", place);
    return text;
}

const char *tma_map_name(const struct grid *g, uint64_t address, char *text,
                         size_t bytes)
{
    uint64_t start = (uint64_t)(uintptr_t)g->params;
    const struct ptx_func *f = g->kernel->func;
    snprintf(text, bytes, "at 0x%" PRIx64, address);
    if (address < start || address >= start + g->param_bytes)
        return text;
    for (int i = 0; i < f->param_count; i++) {
        const struct ptx_var *p = f->params[i];
        uint64_t offset = address - start;
        if (offset < p->offset_bytes || offset >= p->offset_bytes + p->bytes)
            continue;
        if (offset == p->offset_bytes)
            snprintf(text, bytes, "%s", p->name);
        else
            snprintf(text, bytes, "%s+%" PRIu64, p->name, offset - p->offset_bytes);
    }
    return text;
}
