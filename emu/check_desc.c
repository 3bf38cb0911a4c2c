/* check_desc.c - check 29: matrix and instruction descriptors. */
#include "emu/check_desc.h"

#include <inttypes.h>
#include <stdio.h>

#include "emu/report.h"
#include "emu/tma.h"

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* A line that takes the descriptor apart, below any complaint about it. */
static bool blame(struct warp *w, const struct smem_desc *d)
{
    report_note(
        grid_of(w),
        "the descriptor 0x%016" PRIx64 ": start 0x%x, leading offset %u, stride "
        "of 8 rows %u bytes, %s swizzle",
        d->bits, d->start, d->lbo, d->sbo, tmap_swizzle_name(d->swizzle, d->atom));
    return false;
}

/* ---- one descriptor by itself */

bool desc_decode(struct warp *w, uint64_t bits, const char *what, struct smem_desc *d)
{
    static const struct {
        bool legal;
        enum tmap_swizzle swizzle;
        enum tmap_atom atom;
        uint32_t pitch;
    } modes[8] = {
        [0] = {true, TMAP_SWIZZLE_NONE, TMAP_ATOM_16B, 16},
        [1] = {true, TMAP_SWIZZLE_128B, TMAP_ATOM_32B, 128},
        [2] = {true, TMAP_SWIZZLE_128B, TMAP_ATOM_16B, 128},
        [4] = {true, TMAP_SWIZZLE_64B, TMAP_ATOM_16B, 64},
        [6] = {true, TMAP_SWIZZLE_32B, TMAP_ATOM_16B, 32},
    };
    unsigned mode = (unsigned)(bits >> 61);
    *d = (struct smem_desc){
        .bits = bits,
        .start = (uint32_t)(bits & 0x3fff) * 16,
        .lbo = (uint32_t)(bits >> 16 & 0x3fff) * 16,
        .sbo = (uint32_t)(bits >> 32 & 0x3fff) * 16,
        .swizzle = modes[mode].swizzle,
        .atom = modes[mode].atom,
        .pitch = modes[mode].pitch,
    };
    if (!modes[mode].legal) {
        report(
            grid_of(w), w, CHECK_DESCRIPTOR,
            "descriptor of %s: swizzle code %u in bits 61-63; 0 none, 1 128B with 32B "
            "atoms, 2 128B, 4 64B, 6 32B",
            what, mode);
        return blame(w, d);
    }
    if ((bits >> 46 & 7) != 1) {
        report(
            grid_of(w), w, CHECK_DESCRIPTOR,
            "descriptor of %s: bits 46-48 are %u and must be 1 (is it one for wgmma?)",
            what, (unsigned)(bits >> 46 & 7));
        return blame(w, d);
    }
    if (bits >> 52 & 1) {
        report(grid_of(w), w, CHECK_DESCRIPTOR,
               "descriptor of %s: bit 52, absolute leading offset, is for sm_103a with "
               "K = 96 and is not emulated",
               what);
        return blame(w, d);
    }
    if ((bits >> 14 & 3) || (bits >> 30 & 3) || (bits >> 53 & 0xff)) {
        report(grid_of(w), w, CHECK_DESCRIPTOR,
               "descriptor of %s: reserved bits (14-15, 30-31, 53-60) are not zero",
               what);
        return blame(w, d);
    }
    /* The pattern repeats every eight rows; the absolute address decides where a chunk
     * lies, and the base offset has to say the same.  Inside a line of 128 bytes an
     * operand may start only in the first row, where a step along K leads. */
    unsigned base = (unsigned)(bits >> 49 & 7), at = d->start >> 7 & 7;
    unsigned mask = d->pitch / 16 - 1;
    bool agrees = base == 0 ? (at & mask) == 0 : base == at;
    if (d->swizzle != TMAP_SWIZZLE_NONE &&
        (!agrees || (d->start & 127 & ~(d->pitch - 1)) != 0)) {
        report(grid_of(w), w, CHECK_DESCRIPTOR,
               "descriptor of %s: base offset %u, but the swizzle pattern of %u bytes "
               "begins %u bytes before the start 0x%x",
               what, base, d->pitch * 8,
               d->start & (d->pitch * 8 - 1) & ~(d->pitch - 1), d->start);
        return blame(w, d);
    }
    return true;
}

/* ---- a descriptor and the memory it points to */

static uint32_t groups_of(uint32_t rows)
{
    return (rows + 7) / 8;
}

/* First byte of the eight-row group that holds the row in which the operand starts:
 * a start that was advanced along K stays inside its row. */
static uint32_t group_from(const struct smem_desc *d, uint32_t group)
{
    uint32_t start =
        d->swizzle == TMAP_SWIZZLE_NONE ? d->start : d->start & ~(d->pitch - 1);
    return start + group * d->sbo;
}

static uint32_t group_to(const struct smem_desc *d, uint32_t group, uint32_t chunks)
{
    uint32_t to = group_from(d, group) + 8 * d->pitch;
    return d->swizzle == TMAP_SWIZZLE_NONE ? to + (chunks - 1) * d->lbo : to;
}

static bool check_window(struct warp *w, struct cta *c, const struct smem_desc *d,
                         const char *what, uint32_t rows, uint32_t chunks)
{
    uint32_t from = group_from(d, 0), to = group_to(d, groups_of(rows) - 1, chunks);
    if (from >= SMEM_RESERVED_BYTES && to <= c->smem_bytes)
        return true;
    report(grid_of(w), w, CHECK_DESCRIPTOR,
           "descriptor of %s: its %u rows lie at 0x%x to 0x%x, the shared memory of "
           "CTA %u "
           "at 0x%x to 0x%x",
           what, rows, from, to, c->rank, SMEM_RESERVED_BYTES, c->smem_bytes);
    return blame(w, d);
}

static void note_fill(struct warp *w, const struct fill *f)
{
    char text[640];
    report_note(grid_of(w), "the copy that filled 0x%x to 0x%x: %s", f->from, f->to,
                fill_describe(f, text, sizeof text));
}

static bool blame_fill(struct warp *w, const struct smem_desc *d, const struct fill *f)
{
    blame(w, d);
    note_fill(w, f);
    return false;
}

/* One group of rows against the copy that filled its first byte. */
static bool check_fill(struct warp *w, const struct smem_desc *d, const char *what,
                       uint32_t rows, uint32_t from, const struct fill *f)
{
    if (!f->is_tensor)
        return true; /* plain bytes: their layout is the program's own affair */
    if (f->swizzle != d->swizzle || f->atom != d->atom) {
        report(
            grid_of(w), w, CHECK_DESCRIPTOR,
            "descriptor of %s: %s swizzle, but the bytes at 0x%x were written with %s "
            "swizzle",
            what, tmap_swizzle_name(d->swizzle, d->atom), from,
            tmap_swizzle_name((enum tmap_swizzle)f->swizzle, (enum tmap_atom)f->atom));
        return blame_fill(w, d, f);
    }
    if (d->swizzle != TMAP_SWIZZLE_NONE && rows > 8 && d->sbo != 8 * f->pitch_bytes) {
        report(
            grid_of(w), w, CHECK_DESCRIPTOR,
            "descriptor of %s: groups of 8 rows %u bytes apart (stride field %u), but "
            "the copy has laid rows %u bytes apart: %u (field %u)",
            what, d->sbo, d->sbo / 16, f->pitch_bytes, 8 * f->pitch_bytes,
            f->pitch_bytes / 2);
        return blame_fill(w, d, f);
    }
    return true;
}

/* Rows that came through different maps are seldom one operand: a warning. */
static bool check_map(struct warp *w, const struct smem_desc *d, const char *what,
                      uint32_t from, const struct fill *f, const struct fill *first)
{
    if (!f->is_tensor || !first->is_tensor || f->map_address == first->map_address)
        return true;
    enum flow flow =
        report_at(grid_of(w), w, CHECK_DESCRIPTOR, CHECK_IS_WARNING,
                  "descriptor of %s: its rows begin in what one tensor map "
                  "has filled, and at 0x%x in what another one has",
                  what, from);
    blame_fill(w, d, first);
    note_fill(w, f);
    return flow == FLOW_NEXT;
}

/* All groups of eight rows, `shift` bytes further than the descriptor starts. */
static bool check_fills(struct warp *w, struct cta *c, const struct smem_desc *d,
                        const char *what, uint32_t rows, uint32_t shift)
{
    const struct fills *fills = &tma_state(c)->fills;
    const struct fill *f = fills_find(fills, group_from(d, 0) + shift), *first = f;
    if (!f)
        return true; /* written by the program's own stores */
    for (uint32_t g = 0; g < groups_of(rows); g++) {
        uint32_t from = group_from(d, g) + shift;
        uint32_t to = from + (g * 8 + 8 > rows ? rows - g * 8 : 8) * d->pitch;
        if (from < f->from || from >= f->to) {
            f = fills_find(fills, from);
            if (!f) {
                report(grid_of(w), w, CHECK_DESCRIPTOR,
                       "descriptor of %s: row %u at 0x%x lies outside what copies have "
                       "filled",
                       what, g * 8, from);
                return blame_fill(w, d, first);
            }
        }
        if ((f != first || g == 0) && (!check_fill(w, d, what, rows, from, f) ||
                                       !check_map(w, d, what, from, f, first)))
            return false;
        /* A group may straddle two copies, when both lie alike. */
        for (const struct fill *next = f; next->to < to;) {
            uint32_t edge = next->to;
            next = fills_find(fills, edge);
            if (!next) {
                report(
                    grid_of(w), w, CHECK_DESCRIPTOR,
                    "descriptor of %s: rows from %u at 0x%x to 0x%x reach beyond 0x%x, "
                    "where what copies have filled ends",
                    what, g * 8, from, to, edge);
                return blame_fill(w, d, f);
            }
            if (!check_fill(w, d, what, rows, edge, next))
                return false;
        }
    }
    return true;
}

bool desc_check(struct warp *w, struct cta *c, const struct smem_desc *d,
                const char *what, uint32_t rows, uint32_t chunks)
{
    if (d->swizzle != TMAP_SWIZZLE_NONE &&
        d->start % d->pitch + chunks * 16 > d->pitch) {
        report(
            grid_of(w), w, CHECK_DESCRIPTOR,
            "descriptor of %s: it starts %u bytes into a row of %u bytes, which leaves "
            "no room for the %u bytes of a step",
            what, d->start % d->pitch, d->pitch, chunks * 16);
        return blame(w, d);
    }
    if (!check_window(w, c, d, what, rows, chunks))
        return false;
    if (grid_of(w)->no_checks || !c->bulk)
        return true;
    if (d->swizzle != TMAP_SWIZZLE_NONE)
        return check_fills(w, c, d, what, rows, 0);
    for (uint32_t i = 0; i < chunks; i++)
        if (!check_fills(w, c, d, what, rows, i * d->lbo))
            return false;
    return true;
}

bool desc_check_scales(struct warp *w, struct cta *c, const struct smem_desc *d,
                       const char *what)
{
    if (grid_of(w)->no_checks || !c->bulk)
        return true;
    const struct fill *f = fills_find(&tma_state(c)->fills, d->start);
    if (!f || (d->swizzle == TMAP_SWIZZLE_NONE && d->sbo == 128))
        return true;
    report(
        grid_of(w), w, CHECK_DESCRIPTOR,
        "descriptor of %s: %s swizzle and groups of 8 rows %u bytes apart; a block of "
        "scales is 32 rows of 16 bytes without gaps: no swizzle, 128 (field 8)",
        what, tmap_swizzle_name(d->swizzle, d->atom), d->sbo);
    return blame_fill(w, d, f);
}

void desc_touch(struct async_op *o, struct cta *c, const struct smem_desc *d,
                uint32_t rows, uint32_t chunks)
{
    for (uint32_t g = 0; g < groups_of(rows); g++)
        async_touch(o, c, group_from(d, g), group_to(d, g, chunks), false);
}

void desc_gather(const struct cta *c, const struct smem_desc *d, uint32_t rows,
                 uint32_t chunks, uint8_t *to)
{
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < chunks; i++, to += 16)
            memcpy(to, c->smem + desc_chunk(d, row, i), 16);
}

/* ---- instruction descriptors */

static bool blame_idesc(struct warp *w, uint32_t bits, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static bool blame_idesc(struct warp *w, uint32_t bits, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    report(grid_of(w), w, CHECK_DESCRIPTOR,
           "instruction descriptor 0x%08" PRIx32 ": %s", bits, text);
    return false;
}

bool idesc_decode(struct warp *w, uint32_t bits, int cta_group, bool is_mxf4, int block,
                  struct instr_desc *i)
{
    *i = (struct instr_desc){
        .m = (bits >> 24 & 31) * 16,
        .n = (bits >> 17 & 63) * 8,
        .sfa_id = bits >> 29 & 3,
        .sfb_id = bits >> 4 & 3,
        .ue8m0 = bits >> 23 & 1,
        .negate = (bits >> 13 & 1) != (bits >> 14 & 1),
    };
    unsigned step = cta_group == 2 ? 16 : 8;
    if (bits >> 2 & 1)
        return blame_idesc(w, bits, "bit 2 says sparse, the instruction is dense");
    if (bits >> 31)
        return blame_idesc(w, bits, "bit 31, K = 96, is for sm_103a and not emulated");
    if (bits & 0x104b) /* 0, 1, 3, 6, 12 */
        return blame_idesc(w, bits, "reserved bits 0x%x are set", bits & 0x104b);
    if ((bits >> 7 & 7) != 1)
        return blame_idesc(w, bits, "type %u of A in bits 7-9; E2M1 is 1 here",
                           bits >> 7 & 7);
    if ((bits >> 10 & 3) != 1)
        return blame_idesc(w, bits, "type %u of B in bits 10-11; E2M1 is 1 here",
                           bits >> 10 & 3);
    if (bits >> 15 & 3)
        return blame_idesc(w, bits,
                           "transpose bits 15-16 are %u; 4-bit types are K-major "
                           "only",
                           bits >> 15 & 3);
    if (i->n < step || i->n > 256 || i->n % step != 0)
        return blame_idesc(w, bits,
                           cta_group == 2
                               ? "N is %u; with .cta_group::2 a multiple of 16 "
                                 "from 16 to 256"
                               : "N is %u; a multiple of 8 from 8 to 256",
                           i->n);
    if (cta_group == 2 && i->m == 128)
        return blame_idesc(w, bits,
                           "M is %u with .cta_group::2, whose places of scales are not "
                           "documented: not emulated",
                           i->m);
    if (i->m != (cta_group == 2 ? 256u : 128u))
        return blame_idesc(
            w, bits,
            cta_group == 2 ? "M is %u; with .cta_group::2 it is that of the pair, 256"
                           : "M is %u; with .cta_group::1 it is 128",
            i->m);
    if (!i->ue8m0 && (is_mxf4 || block == 32))
        return blame_idesc(w, bits,
                           "bit 23 says UE4M3 scales, which go with kind::mxf4nvf4 and "
                           "block16 only (this is block%u)",
                           (unsigned)block);
    if (block == 16 && (i->sfa_id || i->sfb_id))
        return blame_idesc(w, bits, "scale ids must be 0 with block16, not %u",
                           i->sfa_id ? i->sfa_id : i->sfb_id);
    if ((i->sfa_id & 1) || (i->sfb_id & 1))
        return blame_idesc(w, bits, "scale id %u with block32; 0 or 2",
                           i->sfa_id & 1 ? i->sfa_id : i->sfb_id);
    return true;
}
