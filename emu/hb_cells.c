/* hb_cells.c - storage of hb_smem.h: blocks of cells, lists of readers, segments. */
#include "emu/hb.h"
#include "emu/must.h"

#include <stdlib.h>

/* ---- pools of readers and of divided words */

void hb_readers_free(struct hb_readers *p)
{
    free(p->reader);
    free(p->split);
    *p = (struct hb_readers){0};
}

void hb_readers_reset(struct hb_readers *p)
{
    p->reader_count = p->split_count = 1; /* 0 is none */
    p->reader_spare = p->split_spare = 0;
}

static uint32_t reader_new(struct hb_readers *p)
{
    uint32_t i = p->reader_spare;
    if (i) {
        p->reader_spare = p->reader[i].next;
        return i;
    }
    if (p->reader_count + 1 >= p->reader_cap) {
        p->reader_cap = p->reader_cap ? p->reader_cap * 2 : 64;
        p->reader = must(realloc(p->reader, p->reader_cap * sizeof *p->reader));
    }
    return p->reader_count++;
}

static uint32_t split_new(struct hb_readers *p)
{
    uint32_t i = p->split_spare;
    if (i) {
        p->split_spare = p->split[i].next;
        return i;
    }
    if (p->split_count + 1 >= p->split_cap) {
        p->split_cap = p->split_cap ? p->split_cap * 2 : 64;
        p->split = must(realloc(p->split, p->split_cap * sizeof *p->split));
    }
    return p->split_count++;
}

static hb_cell pooled(uint32_t kind, uint32_t index)
{
    return (uint64_t)index << 36 | (uint64_t)kind << 23;
}

void hb_cell_drop(struct hb_readers *p, hb_cell c)
{
    if (hb_cell_component(c) == HB_CELL_LIST) {
        uint32_t first = hb_cell_time(c), last = first;
        while (p->reader[last].next)
            last = p->reader[last].next;
        p->reader[last].next = p->reader_spare;
        p->reader_spare = first;
    } else if (hb_cell_component(c) == HB_CELL_SPLIT) {
        uint32_t i = hb_cell_time(c);
        for (int k = 0; k < 4; k++)
            hb_cell_drop(p, p->split[i].byte[k]);
        p->split[i].next = p->split_spare;
        p->split_spare = i;
    }
}

static hb_cell copy_of(struct hb_readers *p, hb_cell c)
{
    if (hb_cell_component(c) != HB_CELL_LIST)
        return c;
    uint32_t first = 0;
    for (uint32_t i = hb_cell_time(c); i; i = p->reader[i].next) {
        uint32_t k = reader_new(p);
        p->reader[k] = p->reader[i];
        p->reader[k].next = first;
        first = k;
    }
    return pooled(HB_CELL_LIST, first);
}

hb_cell *hb_cell_split(struct hb_readers *p, hb_cell *c)
{
    if (hb_cell_component(*c) != HB_CELL_SPLIT) {
        uint32_t i = split_new(p);
        for (int k = 1; k < 4; k++) {
            hb_cell copy = copy_of(p, *c);
            p->split[i].byte[k] = copy;
        }
        p->split[i].byte[0] = *c;
        *c = pooled(HB_CELL_SPLIT, i);
    }
    return p->split[hb_cell_time(*c)].byte;
}

struct hb_reader hb_cell_entry(hb_cell c)
{
    return (struct hb_reader){
        .component = hb_cell_component(c),
        .lanes = (uint32_t)1 << hb_cell_lane(c),
        .time = hb_cell_time(c),
        .pc = hb_cell_pc(c),
        .strong = (c & HB_CELL_STRONG) != 0,
    };
}

static uint32_t entry_new(struct hb_readers *p, hb_cell c, uint32_t next)
{
    uint32_t i = reader_new(p);
    p->reader[i] = hb_cell_entry(c);
    p->reader[i].next = next;
    return i;
}

void hb_cell_filter(struct hb_readers *p, hb_cell *c, hb_entry_fn *goes,
                    const void *arg)
{
    uint32_t first = 0, last = 0;
    for (uint32_t i = hb_cell_time(*c), next; i; i = next) {
        next = p->reader[i].next;
        if (goes(&p->reader[i], arg)) {
            p->reader[i].next = p->reader_spare;
            p->reader_spare = i;
            continue;
        }
        if (last)
            p->reader[last].next = i;
        else
            first = i;
        last = i;
    }
    if (last)
        p->reader[last].next = 0;
    *c = first ? pooled(HB_CELL_LIST, first) : 0;
}

/* Entries of a lane that has come again: the later one tells more, if it is not the
 * stronger. */
static bool comes_again(const struct hb_reader *old, const struct hb_reader *x)
{
    return old->component == x->component && old->lanes == x->lanes &&
           (old->strong || !x->strong);
}

static bool is_taken_over(const struct hb_reader *old, const void *arg)
{
    return comes_again(old, arg);
}

void hb_cell_add(struct hb_readers *p, hb_cell *c, hb_cell stamp)
{
    struct hb_reader x = hb_cell_entry(stamp);
    if (*c && hb_cell_component(*c) != HB_CELL_LIST)
        *c = pooled(HB_CELL_LIST, entry_new(p, *c, 0));
    if (*c) {
        for (uint32_t i = hb_cell_time(*c); i; i = p->reader[i].next) {
            struct hb_reader *r = &p->reader[i];
            if (r->component != x.component)
                continue;
            if (r->time == x.time && r->strong == x.strong) {
                r->lanes |= x.lanes;
                r->pc = x.pc;
                return;
            }
            /* Of lanes that came together, this one has gone on. */
            if (r->lanes != x.lanes && (r->strong || !x.strong))
                r->lanes &= ~x.lanes;
        }
        hb_cell_filter(p, c, is_taken_over, &x);
    }
    *c = *c ? pooled(HB_CELL_LIST, entry_new(p, stamp, hb_cell_time(*c))) : stamp;
}

/* ---- the window of a CTA */

void hb_smem_new(struct hb_smem *s, struct cta *t)
{
    s->cta = t;
    s->block_count = t->smem_bytes / HB_BLOCK_BYTES + 1;
    s->blocks = must(calloc(s->block_count, sizeof *s->blocks));
    s->page = must(calloc(s->block_count, sizeof *s->page));
    hb_readers_reset(&s->pools);
}

static void seg_clear(struct hb_smem *s, struct hb_seg *g)
{
    struct hb *h = s->cta->cluster->hb;
    hb_event_drop(h, g->write);
    for (int i = 0; i < g->read_count; i++)
        hb_event_drop(h, g->reads[i]);
    g->write = NULL;
    g->read_count = 0;
}

static struct hb_seg *seg_new(struct hb_smem *s, uint32_t from, uint32_t to)
{
    struct hb_seg *g = s->spare_segs;
    if (g)
        s->spare_segs = g->next;
    else
        g = must(malloc(sizeof *g));
    *g = (struct hb_seg){.from = from, .to = to};
    return g;
}

static void seg_free(struct hb_smem *s, struct hb_seg *g)
{
    seg_clear(s, g);
    g->next = s->spare_segs;
    s->spare_segs = g;
}

static void set_pages(struct hb_smem *s, struct hb_seg *g)
{
    uint32_t i = (g->from + HB_BLOCK_BYTES - 1) / HB_BLOCK_BYTES;
    for (; i * HB_BLOCK_BYTES < g->to && i < s->block_count; i++)
        s->page[i] = g;
}

void hb_smem_reset(struct hb_smem *s)
{
    hb_cells_clear(s, 0, s->block_count * HB_BLOCK_BYTES);
    hb_readers_reset(&s->pools);
    while (s->first) {
        struct hb_seg *g = s->first;
        s->first = g->next;
        seg_free(s, g);
    }
    s->first = seg_new(s, 0, s->block_count * HB_BLOCK_BYTES);
    set_pages(s, s->first);
    hb_know_clear(&s->exit);
    s->left_barrier = false;
    s->visitor_count = 0;
}

void hb_smem_free(struct hb_smem *s)
{
    hb_cells_clear(s, 0, s->block_count * HB_BLOCK_BYTES);
    while (s->first) {
        struct hb_seg *g = s->first;
        s->first = g->next;
        seg_free(s, g);
    }
    while (s->spare_segs) {
        struct hb_seg *g = s->spare_segs;
        s->spare_segs = g->next;
        free(g);
    }
    while (s->spare_blocks) {
        struct hb_block *b = s->spare_blocks;
        s->spare_blocks = b->next;
        free(b);
    }
    hb_readers_free(&s->pools);
    hb_know_free(&s->exit);
    free(s->visitors);
    free(s->blocks);
    free(s->page);
}

struct hb_seg *hb_seg_at(struct hb_smem *s, uint32_t at)
{
    struct hb_seg *g = s->page[at / HB_BLOCK_BYTES];
    while (g->to <= at)
        g = g->next;
    return g;
}

struct hb_seg *hb_seg_split(struct hb_smem *s, uint32_t at)
{
    struct hb_seg *g = hb_seg_at(s, at);
    if (g->from == at)
        return g;
    struct hb_seg *tail = seg_new(s, at, g->to);
    tail->write = hb_event_keep(g->write);
    tail->read_count = g->read_count;
    for (int i = 0; i < g->read_count; i++)
        tail->reads[i] = hb_event_keep(g->reads[i]);
    tail->next = g->next;
    g->next = tail;
    g->to = at;
    set_pages(s, tail);
    return tail;
}

void hb_seg_write(struct hb_smem *s, uint32_t from, uint32_t to, struct hb_event *e)
{
    struct hb_seg *g = hb_seg_split(s, from);
    hb_seg_split(s, to);
    bool grows = g->to < to;
    while (g->to < to) {
        struct hb_seg *next = g->next;
        g->to = next->to;
        g->next = next->next;
        seg_free(s, next);
    }
    if (grows)
        set_pages(s, g);
    hb_event_keep(e);
    seg_clear(s, g);
    g->write = e;
}

void hb_seg_read(struct hb_smem *s, struct hb_seg *g, struct hb_event *e)
{
    struct hb *h = s->cta->cluster->hb;
    for (int i = 0; i < g->read_count; i++) {
        struct hb_event *r = g->reads[i];
        if (r == e)
            return;
        /* Of one component in order: who knows of the later one knows of both. */
        if (r->component == e->component && r->lanes == e->lanes &&
            r->component != HB_PENDING) {
            g->reads[i] = hb_event_keep(e);
            hb_event_drop(h, r);
            return;
        }
    }
    if (g->read_count == HB_SEG_READS) { /* the oldest is forgotten */
        hb_event_drop(h, g->reads[0]);
        for (int i = 1; i < HB_SEG_READS; i++)
            g->reads[i - 1] = g->reads[i];
        g->read_count--;
    }
    g->reads[g->read_count++] = hb_event_keep(e);
}

struct hb_block *hb_block(struct hb_smem *s, uint32_t at)
{
    struct hb_block **b = &s->blocks[at / HB_BLOCK_BYTES];
    if (*b)
        return *b;
    *b = s->spare_blocks;
    if (*b)
        s->spare_blocks = (*b)->next;
    else
        *b = must(malloc(sizeof **b));
    memset(*b, 0, sizeof **b);
    return *b;
}

static void clear_words(struct hb_smem *s, struct hb_block *b, uint32_t first,
                        uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        hb_cell_drop(&s->pools, b->write[i]);
        hb_cell_drop(&s->pools, b->read[i]);
        b->write[i] = b->read[i] = 0;
    }
}

void hb_cells_clear(struct hb_smem *s, uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at < to;) {
        uint32_t block = at / HB_BLOCK_BYTES, end = (block + 1) * HB_BLOCK_BYTES;
        end = end < to ? end : to;
        struct hb_block *b = s->blocks[block];
        if (b) {
            uint32_t first = at % HB_BLOCK_BYTES / 4;
            uint32_t last = (end - 1) % HB_BLOCK_BYTES / 4 + 1;
            clear_words(s, b, first, last);
            if (first == 0 && last == HB_BLOCK_WORDS) {
                b->next = s->spare_blocks;
                s->spare_blocks = b;
                s->blocks[block] = NULL;
            }
        }
        at = end;
    }
}
