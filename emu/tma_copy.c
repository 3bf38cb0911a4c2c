/* tma_copy.c - moves one box of a tensor between global and shared memory.
 *
 * The box is walked row by row; a row that lies whole inside the tensor moves in
 * 16-byte chunks straight to where the swizzle puts them, others go through a buffer.
 */
#include "emu/depend.h"
#include "emu/report.h"
#include "emu/tma.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_ROW_BYTES 2048 /* 256 elements of 8 bytes */

/* A box, clipped to the tensor. */
struct walk {
    const struct tma_copy *copy;
    struct tmap_box box;
    uint32_t bits;                /* of an element */
    int64_t first[TMAP_MAX_RANK]; /* counts along each dimension that are inside: */
    int64_t end[TMAP_MAX_RANK];   /* first .. end - 1 */
    bool empty;                   /* nothing is inside */
    bool whole_rows;              /* rows that are inside at all are so to both ends */
    uint32_t skip_bytes, keep_bytes; /* of a row: in front of the inside part; inside */
    uint8_t *tensor;                 /* host address of coordinates 0 .. 0 */
};

/* A store writes whole 16-byte pieces of a row, past the last element if need be
 * (measured on an H200 with 1-, 2- and 4-byte elements); loads end at the last one. */
static int64_t written_elems(const struct walk *v)
{
    const uint64_t piece_bits = 128;
    uint64_t row_bits = v->copy->map.dim[0] * v->bits;
    return (int64_t)((row_bits + piece_bits - 1) / piece_bits * piece_bits / v->bits);
}

static void clip(struct walk *v, bool whole_pieces)
{
    const struct tmap *t = &v->copy->map;
    for (int i = 0; i < TMAP_MAX_RANK; i++) {
        int64_t at = i < t->rank ? v->copy->at[i] : 0;
        int64_t step = i == 0 || i >= t->rank ? 1 : t->step[i];
        int64_t elems = i == 0 && whole_pieces ? written_elems(v) : (int64_t)t->dim[i];
        int64_t room = elems - at; /* elements from `at` to the edge */
        v->first[i] = at < 0 ? (-at + step - 1) / step : 0;
        v->end[i] = room <= 0 ? 0 : (room + step - 1) / step;
        if (v->end[i] > v->box.count[i])
            v->end[i] = v->box.count[i];
        v->empty |= v->first[i] >= v->end[i];
    }
    v->whole_rows = v->first[0] == 0 && v->end[0] == v->box.count[0];
    if (!v->empty) {
        v->skip_bytes = (uint32_t)v->first[0] * v->bits / 8;
        v->keep_bytes = (uint32_t)(v->end[0] - v->first[0]) * v->bits / 8;
    }
}

/* Byte offset in the tensor of element `count` along each dimension. */
static int64_t tensor_offset(const struct walk *v, const int64_t count[TMAP_MAX_RANK])
{
    const struct tmap *t = &v->copy->map;
    int64_t offset = (v->copy->at[0] + count[0]) * v->bits / 8;
    for (int i = 1; i < t->rank; i++)
        offset += (v->copy->at[i] + count[i] * t->step[i]) * (int64_t)t->stride[i];
    return offset;
}

/* Finds the memory behind what is inside.  False after a report. */
static bool begin(struct walk *v, struct warp *w, const struct tma_copy *c, bool write,
                  bool whole_pieces)
{
    *v = (struct walk){.copy = c, .box = tmap_box(&c->map)};
    v->bits = (uint32_t)tmap_type_bits((enum tmap_type)c->map.type);
    clip(v, whole_pieces);
    if (v->empty)
        return true;
    int64_t last[TMAP_MAX_RANK];
    for (int i = 0; i < TMAP_MAX_RANK; i++)
        last[i] = v->end[i] - 1;
    last[0] = v->first[0];
    int64_t from = tensor_offset(v, v->first);
    int64_t to = tensor_offset(v, last) + v->keep_bytes;
    char name[64], what[128];
    snprintf(what, sizeof what, "tensor %s through map %s", write ? "store" : "copy",
             tma_map_name(w->cta->cluster->grid, c->address, name, sizeof name));
    uint8_t *host = global_at(w, c->map.address + (uint64_t)from, (uint64_t)(to - from),
                              write, what);
    if (!host)
        return false;
    v->tensor = host - from;
    return true;
}

static bool is_inside(const struct walk *v, const int64_t count[TMAP_MAX_RANK])
{
    for (int i = 1; i < TMAP_MAX_RANK; i++)
        if (count[i] < v->first[i] || count[i] >= v->end[i])
            return false;
    return !v->empty;
}

/* Next row, dimension 1 fastest; false behind the last one. */
static bool next_row(const struct walk *v, int64_t count[TMAP_MAX_RANK])
{
    for (int i = 1; i < TMAP_MAX_RANK; i++) {
        if (++count[i] < v->box.count[i])
            return true;
        count[i] = 0;
    }
    return false;
}

/* ---- chunks in shared memory */

/* tmap_swizzle() as one shift and mask, for a loop over chunks. */
struct pattern {
    uint32_t shift, mask;
    bool flip; /* swap the 8-byte halves of chunks in odd 128-byte lines */
};

static struct pattern pattern_of(const struct tmap *t)
{
    static const struct pattern plain[] = {
        {0, 0, false}, {3, 0x10, false}, {3, 0x30, false}};
    static const struct pattern of_128[] = {
        {3, 0x70, false}, {2, 0x60, false}, {2, 0x60, true}, {1, 0x40, false}};
    return t->swizzle == TMAP_SWIZZLE_128B ? of_128[t->atom] : plain[t->swizzle];
}

static void put_row(uint8_t *smem, uint32_t offset, const uint8_t *row, uint32_t bytes,
                    struct pattern p)
{
    if (p.mask == 0) {
        memcpy(smem + offset, row, bytes);
        return;
    }
    for (uint32_t end = offset + bytes; offset < end; offset += 16, row += 16) {
        uint8_t *to = smem + (offset ^ (offset >> p.shift & p.mask));
        if (p.flip && (offset >> 7 & 1)) {
            memcpy(to, row + 8, 8);
            memcpy(to + 8, row, 8);
        } else {
            memcpy(to, row, 16);
        }
    }
}

static void get_row(const uint8_t *smem, uint32_t offset, uint8_t *row, uint32_t bytes,
                    struct pattern p)
{
    if (p.mask == 0) {
        memcpy(row, smem + offset, bytes);
        return;
    }
    for (uint32_t end = offset + bytes; offset < end; offset += 16, row += 16)
        memcpy(row, smem + (offset ^ (offset >> p.shift & p.mask)), 16);
}

/* Padded types: 16 elements in so many bytes at the start of each 16-byte slot.  The
 * rest is undefined. */
uint32_t tma_slot_bytes(const struct tmap *t)
{
    return t->type == TMAP_B4X16_P64 ? 8 : t->type == TMAP_B6X16_P32 ? 12 : 16;
}

static void pad_row(uint8_t *slots, const uint8_t *row, uint32_t row_bytes,
                    uint32_t data)
{
    for (uint32_t i = 0; i < row_bytes / data; i++) {
        memcpy(slots + i * 16, row + i * data, data);
        memset(slots + i * 16 + data, SMEM_POISON, 16 - data);
    }
}

static void unpad_row(uint8_t *row, const uint8_t *slots, uint32_t row_bytes,
                      uint32_t data)
{
    for (uint32_t i = 0; i < row_bytes / data; i++)
        memcpy(row + i * data, slots + i * 16, data);
}

/* What stands for elements outside the tensor.  The NaN is 0x7ff7 in every 16 bits, for
 * types of 32 and 64 bits too (measured on an H200, driver 13.0). */
static void fill_row(uint8_t *row, uint32_t bytes, const struct tmap *t)
{
    for (uint32_t i = 0; i < bytes; i++)
        row[i] = t->fill == TMAP_FILL_ZERO ? 0 : i % 2 == 0 ? 0xf7 : 0x7f;
}

/* Loads, not stores, of tf32 round to its 10 bits, ties to even (H200, as above); the
 * .ftz of f32 changes nothing. */
static void round_tf32(uint8_t *row, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += 4) {
        uint32_t x;
        memcpy(&x, row + at, 4);
        if ((x & 0x7fffffff) > 0x7f800000)
            x = 0x7fffe000;
        else
            x = (x + 0xfff + (x >> 13 & 1)) & ~0x1fffu;
        memcpy(row + at, &x, 4);
    }
}

bool tma_load_box(struct warp *w, const struct tma_copy *c)
{
    struct walk v;
    if (!begin(&v, w, c, false, false))
        return false;
    const struct tmap *t = &c->map;
    struct pattern pattern = pattern_of(t);
    uint32_t data = tma_slot_bytes(t);
    bool rounds = t->type == TMAP_TF32 || t->type == TMAP_TF32_FTZ;
    uint8_t outside[MAX_ROW_BYTES], edge[MAX_ROW_BYTES], slots[MAX_ROW_BYTES];
    fill_row(outside, v.box.row_bytes, t);
    memcpy(edge, outside, v.box.row_bytes);

    int64_t count[TMAP_MAX_RANK] = {v.first[0]};
    uint32_t offset = c->offset;
    do {
        const uint8_t *row = outside;
        if (is_inside(&v, count)) {
            row = v.tensor + tensor_offset(&v, count);
            if (!depend_access(w, (uint64_t)(uintptr_t)row, v.keep_bytes, false))
                return false;
            if (!v.whole_rows || rounds) {
                memcpy(edge + v.skip_bytes, row, v.keep_bytes);
                row = edge;
            }
            if (rounds)
                round_tf32(edge + v.skip_bytes, v.keep_bytes);
        }
        if (data != 16) {
            pad_row(slots, row, v.box.row_bytes, data);
            row = slots;
        }
        put_row(c->cta->smem, offset, row, v.box.smem_row_bytes, pattern);
        offset += v.box.pitch_bytes;
    } while (next_row(&v, count));
    return true;
}

/* Rows of the box that are inside, from shared memory, one after the other. */
static bool out_of_shared(struct warp *w, const struct tma_copy *c, int op)
{
    struct walk v;
    if (!begin(&v, w, c, true, op < 0))
        return false;
    if (v.empty)
        return true;
    const struct tmap *t = &c->map;
    struct pattern pattern = pattern_of(t);
    uint32_t data = tma_slot_bytes(t);
    uint8_t row[MAX_ROW_BYTES], slots[MAX_ROW_BYTES];

    int64_t count[TMAP_MAX_RANK] = {v.first[0]};
    uint32_t offset = c->offset;
    do {
        if (is_inside(&v, count)) {
            uint8_t *to = v.tensor + tensor_offset(&v, count);
            if (!depend_access(w, (uint64_t)(uintptr_t)to, v.keep_bytes, true))
                return false;
            if (data != 16) {
                get_row(c->cta->smem, offset, slots, v.box.smem_row_bytes, pattern);
                unpad_row(row, slots, v.box.row_bytes, data);
            } else if (op < 0 && v.whole_rows) {
                get_row(c->cta->smem, offset, to, v.box.row_bytes, pattern);
                offset += v.box.pitch_bytes;
                continue;
            } else {
                get_row(c->cta->smem, offset, row, v.box.row_bytes, pattern);
            }
            if (op < 0)
                memcpy(to, row + v.skip_bytes, v.keep_bytes);
            else
                tma_reduce(to, row + v.skip_bytes, v.keep_bytes, (enum tma_reduction)op,
                           (enum tmap_type)t->type);
        }
        offset += v.box.pitch_bytes;
    } while (next_row(&v, count));
    return true;
}

bool tma_each_row(struct warp *w, const struct tma_copy *c, bool write, bool reduces,
                  tma_row_fn *fn, void *arg)
{
    struct walk v;
    if (!begin(&v, w, c, write, write && !reduces))
        return false;
    int64_t count[TMAP_MAX_RANK] = {v.first[0]};
    if (v.empty)
        return true;
    do {
        if (is_inside(&v, count) &&
            !fn(w, (uint64_t)(uintptr_t)(v.tensor + tensor_offset(&v, count)),
                v.keep_bytes, arg))
            return false;
    } while (next_row(&v, count));
    return true;
}

bool tma_store_box(struct warp *w, const struct tma_copy *c)
{
    return out_of_shared(w, c, -1);
}

bool tma_reduce_box(struct warp *w, const struct tma_copy *c, enum tma_reduction op)
{
    return out_of_shared(w, c, (int)op);
}
