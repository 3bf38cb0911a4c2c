/* plan_epilogue.c - how many columns a thread takes at a time, and what becomes of
 * them.
 *
 * Decided together, since each limits the others: the chunk (16, 32 or 64
 * accumulators), the rows of the staging area, and with them its size.  Larger chunks
 * cost registers and spread the loop's overhead over more values; rows of 64 bytes keep
 * the staging area so small that it costs no stage. */
#include "gen/plan_epilogue.h"

#include <assert.h>
#include <string.h>

#include "gen/config.h"
#include "gen/lower.h"

/* CUtensorMapDataType, CUtensorMapSwizzle (cuda.h). */
enum {
    TYPE_UINT8 = 0,
    TYPE_FLOAT16 = 6,
    TYPE_FLOAT32 = 7,
    TYPE_BFLOAT16 = 9,
    SWIZZLE_NONE = 0,
    SWIZZLE_32B = 1,
    SWIZZLE_64B = 2,
};

enum {
    WARP_ROWS = 32,
    PIECE_BYTES = 16, /* of a lane's store to shared memory */
    SCALE_GROUP = 4,  /* bytes side by side in the 128x4 layout */
    MOST_REGISTERS = 255,
    SPARE_REGISTERS = 16, /* ptxas orders instructions in its own way */
    AVAILABLE_REGISTERS = MOST_REGISTERS - SPARE_REGISTERS,
    KERNEL_REGISTERS = 60, /* of the epilogue's loop, beside values */
    OUTPUT_REGISTERS = 6,  /* ... for each output */
    /* Where ptxas mixes columns as it likes, in no steps: ... for each further output;
     * instructions of a chunk that cost one more. */
    MIXED_OUTPUT_REGISTERS = 4,
    MIXED_INSNS = 128,
};

static const uint32_t row_sizes[] = {64, 48, 32, 16};
static const int chunks[] = {64, 32, 16};

static int map_type(enum expr_format f)
{
    switch (f) {
    case EXPR_OUT_F32:
        return TYPE_FLOAT32;
    case EXPR_OUT_F16:
        return TYPE_FLOAT16;
    case EXPR_OUT_BF16:
        return TYPE_BFLOAT16;
    default:
        return TYPE_UINT8;
    }
}

/* Shared memory has 32 banks of 4 bytes; the eight lanes that store 16 bytes at once
 * must meet each bank once.  Rows of 16 and 48 bytes, odd multiples of 16, do that by
 * themselves; 32 and 64 with the swizzle of that size. */
static int swizzle_of(uint32_t row_bytes)
{
    return row_bytes == 64 ? SWIZZLE_64B : row_bytes == 32 ? SWIZZLE_32B : SWIZZLE_NONE;
}

static void choose_rows(struct plan_output *o, int tile_n, int chunk)
{
    uint32_t tile_bytes = (uint32_t)((tile_n >> o->cols_shift) * o->bits / 8);
    uint32_t chunk_bytes = (uint32_t)o->words * 4;
    for (size_t i = 0; i < COUNT_OF(row_sizes); i++) {
        uint32_t row = row_sizes[i];
        if (tile_bytes % row || (row % chunk_bytes && chunk_bytes % row))
            continue;
        o->row_bytes = row;
        break;
    }
    o->group_chunks =
        chunk_bytes < o->row_bytes ? (int)(o->row_bytes / chunk_bytes) : 1;
    o->panels = chunk_bytes > o->row_bytes ? (int)(chunk_bytes / o->row_bytes) : 1;
    o->hold_words = chunk_bytes < PIECE_BYTES ? PIECE_BYTES / (int)chunk_bytes : 1;
    o->piece_elems = PIECE_BYTES * 8 / o->bits;
    o->map_shift = o->bits == 4;
    o->map_type = map_type(o->format);
    o->box_elems = (int)o->row_bytes * 8 / o->bits >> o->map_shift;
    o->swizzle = swizzle_of(o->row_bytes);
    o->panel_bytes = o->row_bytes * WARP_ROWS;
    o->chunk_cols = chunk >> o->cols_shift;
}

static void lay_out_output(struct plan_output *o, const struct config *c, int chunk)
{
    o->bits = expr_bits(o->format);
    o->scale_block = expr_scale_block(o->format);
    o->chunk_cols = chunk >> o->cols_shift;
    o->words = o->chunk_cols * o->bits / 32;
    o->scale_bytes = o->scale_block ? o->chunk_cols / o->scale_block : 0;
    /* Two chunks' scales lie side by side where a tile begins with an even chunk. */
    bool even = c->tile_n / chunk % 2 == 0;
    o->hold_scales = even && o->scale_bytes && o->scale_bytes < SCALE_GROUP ? 2 : 1;
    if (o->words)
        choose_rows(o, c->tile_n, chunk);
}

static void lay_out_outputs(struct plan *p, const struct config *c, int chunk)
{
    const struct expr *e = c->expr;
    static const char identity_name[] = "d";
    uint32_t at = 0;
    p->chunk_cols = chunk;
    p->output_count = e ? e->output_count : 1;
    for (int k = 0; k < p->output_count; k++) {
        struct plan_output *o = &p->outputs[k];
        *o = (struct plan_output){.name = identity_name,
                                  .format = c->d_type == D_F32 ? EXPR_OUT_F32
                                                               : EXPR_OUT_BF16};
        if (e) {
            o->name = e->outputs[k].name;
            o->format = e->outputs[k].format;
            o->cols_shift = e->outputs[k].value->columns == EXPR_PAIRS;
        }
        lay_out_output(o, c, chunk);
        o->staging_offset = at;
        o->staging_warp = o->panel_bytes * (uint32_t)o->panels;
        at += o->staging_warp * (uint32_t)p->epilogue_warps;
    }
    p->staging_bytes = at;
}

/* Every word of a chunk lies in pieces of 16 bytes, two chunks' at most. */
static bool pieces_fit(const struct plan *p, uint32_t most_bytes)
{
    for (int k = 0; k < p->output_count; k++) {
        uint32_t bytes = (uint32_t)p->outputs[k].words * 4;
        if (bytes && (2 * bytes < PIECE_BYTES || bytes > most_bytes))
            return false;
    }
    return true;
}

static void choose_sets(struct plan *p, const struct config *c, int sets)
{
    const int tile_chunks = c->tile_n / p->chunk_cols;
    p->acc_sets = tile_chunks > 1 ? sets : 1;
    p->unroll = p->acc_sets;
    for (int k = 0; k < p->output_count; k++)
        if (p->outputs[k].hold_words == 2 || p->outputs[k].hold_scales == 2)
            p->unroll = 2;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Fitted to what ptxas 13.0 used, and spilled, for the epilogues of
 * tests/random_epilogues.py: blocks of 1000 instructions and more, and of several
 * outputs, need up to 30 registers more than hold values at once in LLVM's order. */
static int mixed_registers(const struct plan *p)
{
    int scaled = 0;
    for (int k = 0; k < p->output_count; k++)
        scaled += p->outputs[k].scale_block != 0;
    if (!p->lowered)
        return 0;
    if (p->step) /* the columns of a block are still mixed */
        return MIXED_OUTPUT_REGISTERS * scaled;
    return p->lowered->chunk.insns / MIXED_INSNS +
           MIXED_OUTPUT_REGISTERS * (p->output_count - 1);
}

static int estimate_registers(const struct plan *p)
{
    const struct lowered *l = p->lowered;
    int words = p->chunk_cols;
    if (l)
        words = l->tile_words + max_int(l->chunk.live_words, l->tail.live_words);
    return KERNEL_REGISTERS + OUTPUT_REGISTERS * p->output_count + words +
           mixed_registers(p) + (p->acc_sets - 1) * p->chunk_cols;
}

/* The n-th choice: chunks whose outputs fill a staging row first, from large to small;
 * then those that need several.  False: there is none. */
static bool try_chunk(struct plan *p, const struct config *c, int n)
{
    int need = c->expr ? expr_chunk_multiple(c->expr) : 1;
    for (int wide = 0; wide < 2; wide++)
        for (size_t i = 0; i < COUNT_OF(chunks); i++) {
            /* wide ones from small to large */
            int chunk = chunks[wide ? COUNT_OF(chunks) - 1 - i : i];
            if (chunk < need || c->tile_n % chunk)
                continue;
            lay_out_outputs(p, c, chunk);
            if (pieces_fit(p, wide ? 256 : row_sizes[0]) &&
                (!wide || !pieces_fit(p, row_sizes[0])) && n-- == 0)
                return true;
        }
    return false;
}

void plan_outputs(struct plan *p, const struct config *c)
{
    try_chunk(p, c, 0); /* 64 columns are enough for every expression */
    choose_sets(p, c, 2);
}

/* ---- the blocks */

/* In steps of few columns where all at once needs too many registers. */
static const int steps[] = {0, 8};

static const struct lowered *lower(struct plan *p, struct arena *a,
                                   const struct config *c, const char *set,
                                   struct diags *d)
{
    const struct lower_request request = {.e = c->expr,
                                          .target = c->target,
                                          .ptx_version = PLAN_PTX_VERSION,
                                          .chunk = p->chunk_cols,
                                          .step = p->step,
                                          .prefix = "ep",
                                          .names = {.v = set},
                                          .loc = config_loc(c, "epilogue")};
    return lower_epilogue(a, &request, d);
}

/* The same blocks for each set of registers. */
static bool set_texts(struct plan *p, struct arena *a, const struct config *c,
                      struct diags *d)
{
    static const char *const sets[] = {"v", "u"};
    for (int set = 0; p->lowered && set < p->acc_sets; set++) {
        const struct lowered *l = set ? lower(p, a, c, sets[set], d) : p->lowered;
        if (!l)
            return false;
        p->chunk_text[set] = l->chunk.text;
        p->tail_text[set] = l->tail.text;
    }
    return true;
}

/* If it is mixing that needs too many registers, as many columns and sets in steps. */
static bool unmix(struct plan *p, struct arena *a, const struct config *c, bool *failed,
                  struct diags *d)
{
    struct plan other = *p;
    if (p->step || p->epilogue_registers - mixed_registers(p) > AVAILABLE_REGISTERS)
        return false;
    other.step = steps[COUNT_OF(steps) - 1];
    other.lowered = lower(&other, a, c, "v", d);
    *failed = !other.lowered;
    if (*failed)
        return false;
    other.epilogue_registers = estimate_registers(&other);
    if (other.epilogue_registers > AVAILABLE_REGISTERS ||
        other.lowered->chunk.insns > LOWER_MOST_INSNS)
        return false;
    *p = other;
    return true;
}

/* Two sets if they fit, else one. */
static bool fit_registers(struct plan *p, struct arena *a, const struct config *c,
                          bool *failed, struct diags *d)
{
    for (int sets = 2; sets >= 1 && !*failed; sets--) {
        choose_sets(p, c, sets);
        p->epilogue_registers = estimate_registers(p);
        if (p->epilogue_registers <= AVAILABLE_REGISTERS || unmix(p, a, c, failed, d))
            return true;
    }
    return false;
}

/* What stands in the way of the way that came nearest. */
struct least {
    int registers, chunk; /* 0: none was compiled */
    int size;             /* instructions of a chunk that is too long; 0: none is */
    int size_chunk;
};

/* Finds chunk and order; false: there is none, or LLVM failed and *failed is set. */
static bool choose(struct plan *p, struct arena *a, const struct config *c,
                   struct least *least, bool *failed, struct diags *d)
{
    *least = (struct least){0};
    *failed = false;
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        for (int n = 0; try_chunk(p, c, n); n++) {
            p->step = steps[i];
            int size = c->expr ? lower_size(c->expr, p->chunk_cols) : 0;
            if (size <= LOWER_MOST_INSNS && c->expr) {
                p->lowered = lower(p, a, c, "v", d);
                *failed = !p->lowered;
                if (*failed)
                    return false;
                size = max_int(p->lowered->chunk.insns, p->lowered->tile.insns);
            }
            if (size > LOWER_MOST_INSNS) {
                if (!least->size || size < least->size) {
                    least->size = size;
                    least->size_chunk = p->chunk_cols;
                }
                continue;
            }
            if (fit_registers(p, a, c, failed, d))
                return true;
            if (*failed)
                return false;
            if (!least->registers || p->epilogue_registers < least->registers) {
                least->registers = p->epilogue_registers;
                least->chunk = p->chunk_cols;
            }
            if (!c->expr)
                break;
        }
    return false;
}

/* What would do: the same without one of the outputs. */
static void advise(const struct plan *p, struct arena *a, const struct config *c,
                   struct diags *d)
{
    const struct expr *e = c->expr;
    for (int k = 0; e->output_count > 1 && k < e->output_count; k++) {
        struct plan other = *p;
        struct config without = *c;
        struct expr *rest = ARENA_NEW(a, struct expr);
        struct least least;
        bool failed;
        *rest = *e;
        rest->output_count--;
        for (int i = k; i < rest->output_count; i++)
            rest->outputs[i] = e->outputs[i + 1];
        without.expr = rest;
        if (choose(&other, a, &without, &least, &failed, diags_new(a)))
            diag_note(d, loc_none(), "without output '%s' it fits: about %d registers",
                      e->outputs[k].name, other.epilogue_registers);
        else if (least.registers)
            diag_note(d, loc_none(), "without output '%s' it needs about %d",
                      e->outputs[k].name, least.registers);
    }
    int need = expr_chunk_multiple(e);
    if (need > chunks[COUNT_OF(chunks) - 1])
        diag_note(d, loc_none(),
                  "groups, blocks and scales need %d columns in one thread; smaller "
                  "ones would need fewer registers",
                  need);
    diag_note(d, loc_none(),
              "values of whole blocks and groups wait in registers; what a second "
              "kernel computes from D needs none here");
}

bool plan_epilogue(struct plan *p, struct arena *a, const struct config *c,
                   struct diags *d)
{
    const struct loc loc = config_loc(c, "epilogue");
    struct least least;
    bool failed;
    if (choose(p, a, c, &least, &failed, d))
        return set_texts(p, a, c, d);
    if (failed)
        return false;
    if (least.registers) {
        diag_add(d, DIAG_EPILOGUE_REGISTERS, loc, least.registers, least.chunk,
                 AVAILABLE_REGISTERS);
        advise(p, a, c, d);
        return false;
    }
    assert(least.size); /* 64 columns are enough for every expression */
    diag_add(d, DIAG_EPILOGUE_SIZE, loc, least.size, least.size_chunk,
             LOWER_MOST_INSNS);
    return false;
}
