/* tc_mma_any.c - tcgen05.mma of kinds f16, tf32, f8f6f4, i8 and mxf8f6f4.
 *
 * PTX ISA 9.0, "tcgen05.mma", "Instruction descriptor", "Data path layout".  A comes
 * from shared memory or, one row a lane and 32 bytes in eight columns, from tensor
 * memory. Operands in shared memory may lie along K or along M or N. */
#include "emu/check_desc.h"
#include "emu/mma_any.h"
#include "emu/report.h"
#include "emu/tcgen05.h"
#include "emu/tmem.h"

#include <inttypes.h>
#include <stdio.h>

#define A_COLS 8 /* of A in tensor memory: 32 bytes of a row */
#define NO_COLUMN UINT32_MAX

struct any_args {
    struct smem_desc a, b;
    uint32_t idesc;
    uint32_t d, a_col, sfa, sfb; /* columns */
    uint32_t masked[8];          /* lanes that are not written, of both CTAs */
    bool accumulate;
};
_Static_assert(sizeof(struct any_args) <= sizeof((struct async_op *)0)->arg,
               "any_args must fit an async_op");

static struct grid *grid_of(const struct warp *w)
{
    return w->cta->cluster->grid;
}

/* ---- instruction descriptors */

struct fields {
    uint32_t m, n;
    enum mma_type a_type, b_type;
    enum mma_result result;
    bool a_by_m, b_by_n; /* not along K */
    bool negate, saturate;
    uint32_t sfa_id, sfb_id;
};

static bool blame(struct warp *w, uint32_t bits, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static bool blame(struct warp *w, uint32_t bits, const char *fmt, ...)
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

/* Types that a kind takes, by their code. */
static bool type_of(enum tc_kind kind, uint32_t code, enum mma_type *type)
{
    static const struct {
        uint8_t kinds; /* mask */
        uint8_t code;
        enum mma_type type;
    } types[] = {
        {1 << TC_KIND_F16, 0, MMA_F16},
        {1 << TC_KIND_F16, 1, MMA_BF16},
        {1 << TC_KIND_TF32, 2, MMA_TF32},
        {1 << TC_KIND_F8F6F4 | 1 << TC_KIND_MXF8F6F4, 0, MMA_E4M3},
        {1 << TC_KIND_F8F6F4 | 1 << TC_KIND_MXF8F6F4, 1, MMA_E5M2},
        {1 << TC_KIND_F8F6F4 | 1 << TC_KIND_MXF8F6F4, 3, MMA_E2M3},
        {1 << TC_KIND_F8F6F4 | 1 << TC_KIND_MXF8F6F4, 4, MMA_E3M2},
        {1 << TC_KIND_F8F6F4 | 1 << TC_KIND_MXF8F6F4, 5, MMA_E2M1},
        {1 << TC_KIND_I8, 0, MMA_U8},
        {1 << TC_KIND_I8, 1, MMA_S8},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if ((types[i].kinds >> kind & 1) && types[i].code == code) {
            *type = types[i].type;
            return true;
        }
    return false;
}

static bool is_narrow(enum mma_type type)
{
    return type == MMA_E2M3 || type == MMA_E3M2 || type == MMA_E2M1;
}

static bool check_result(struct warp *w, uint32_t bits, enum tc_kind kind,
                         struct fields *f)
{
    uint32_t code = bits >> 4 & 3;
    f->result = kind == TC_KIND_I8 ? MMA_TO_S32 : code == 0 ? MMA_TO_F16 : MMA_TO_F32;
    if (kind == TC_KIND_MXF8F6F4) {
        f->result = MMA_TO_F32;
        return true;
    }
    bool ok = kind == TC_KIND_I8     ? code == 2
              : kind == TC_KIND_TF32 ? code == 1
                                     : code == 0 || code == 1;
    return ok || blame(w, bits,
                       "type %u of D in bits 4-5; f16 is 0, f32 1, s32 2, and "
                       "this kind does not make it",
                       code);
}

static bool check_shape(struct warp *w, uint32_t bits, enum tc_kind kind, int group,
                        const struct fields *f)
{
    bool scaled = kind == TC_KIND_MXF8F6F4;
    if (scaled && group == 2 && f->m == 128)
        return blame(w, bits,
                     "M is 128 with .cta_group::2, whose places of scales are "
                     "not documented: not emulated");
    bool m_ok = group == 2 ? f->m == 256 || f->m == 128
                           : f->m == 128 || (f->m == 64 && !scaled);
    if (!m_ok)
        return blame(w, bits, "M is %u; %s with .cta_group::%d", f->m,
                     group == 2 ? "128 or 256"
                     : scaled   ? "128"
                                : "64 or 128",
                     group);
    uint32_t step = scaled       ? (group == 2 ? 16 : 8)
                    : group == 2 ? 32
                    : f->m == 64 ? 8
                                 : 16;
    if (kind == TC_KIND_I8 && group == 1 && f->n == 24 && f->m == 64)
        return true;
    if (f->n < step || f->n > 256 || f->n % step != 0)
        return blame(w, bits, "N is %u; a multiple of %u up to 256 with M = %u", f->n,
                     step, f->m);
    return true;
}

static bool decode_fields(struct warp *w, uint32_t bits, enum tc_kind kind, int group,
                          struct fields *f)
{
    bool scaled = kind == TC_KIND_MXF8F6F4;
    *f = (struct fields){
        .m = (bits >> 24 & 31) * 16,
        .n = (bits >> 17 & 63) * 8,
        .a_by_m = bits >> 15 & 1,
        .b_by_n = bits >> 16 & 1,
        .negate = (bits >> 13 & 1) != (bits >> 14 & 1),
        .saturate = !scaled && (bits >> 3 & 1),
        .sfa_id = scaled ? bits >> 29 & 3 : 0,
        .sfb_id = scaled ? bits >> 4 & 3 : 0,
    };
    if (bits >> 2 & 1)
        return blame(w, bits, "bit 2 says sparse, the instruction is dense");
    uint32_t reserved = scaled ? 0x8000004b : 0xe0800043;
    if (bits & reserved)
        return blame(w, bits, "reserved bits 0x%x are set", bits & reserved);
    if (f->saturate && kind != TC_KIND_I8)
        return blame(w, bits, "bit 3, saturation, is for integers");
    if ((bits >> 13 & 3) && kind == TC_KIND_I8)
        return blame(w, bits, "bits 13-14, negation, are not for integers");
    if (scaled && !(bits >> 23 & 1))
        return blame(w, bits, "bit 23 must say UE8M0 scales (1) with this kind");
    for (int i = 0; i < 2; i++) {
        uint32_t code = bits >> (i == 0 ? 7 : 10) & 7;
        if (!type_of(kind, code, i == 0 ? &f->a_type : &f->b_type))
            return blame(w, bits, "type %u of %s in bits %s does not go with this kind",
                         code, i == 0 ? "A" : "B", i == 0 ? "7-9" : "10-12");
    }
    if ((kind == TC_KIND_F16 || kind == TC_KIND_TF32) && f->a_type != f->b_type)
        return blame(w, bits, "A and B have different types");
    if ((f->a_by_m && is_narrow(f->a_type)) || (f->b_by_n && is_narrow(f->b_type)))
        return blame(w, bits,
                     "transpose bits 15-16: elements of 4 and 6 bits along M or "
                     "N are not emulated");
    return check_result(w, bits, kind, f) && check_shape(w, bits, kind, group, f);
}

/* ---- completion */

/* Rows of A in one CTA. */
static uint32_t own_rows(const struct fields *f, int count)
{
    return f->m / (uint32_t)count;
}

/* D of one CTA as mma_any() wants it, and back: the lane and column of an element. */
static uint32_t *d_cell(struct cta *c, const struct any_args *x, const struct fields *f,
                        int count, uint32_t row, uint32_t column)
{
    uint32_t lane = row;
    if (count == 1 && f->m == 64) {
        lane = row / 16 * 32 + row % 16;
    } else if (count == 2 && f->m == 128) {
        lane = row + (column >= f->n / 2 ? 64 : 0);
        column %= f->n / 2;
    }
    return tmem_column(c, x->d + column) + lane;
}

static void move_d(struct cta *c, const struct any_args *x, const struct fields *f,
                   int count, const uint32_t *masked, uint32_t *d, bool back)
{
    uint32_t rows = own_rows(f, count);
    for (uint32_t column = 0; column < f->n; column++)
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t *cell = d_cell(c, x, f, count, row, column);
            uint32_t lane = (uint32_t)(cell - c->tmem) % TMEM_LANES;
            if (!back)
                d[column * rows + row] = *cell;
            else if (!(masked[lane / 32] >> lane % 32 & 1))
                *cell = d[column * rows + row];
        }
}

static bool run_in(struct warp *w, const struct op *op, struct cta *c,
                   const struct any_args *x, const struct fields *f, int count,
                   const uint8_t *b, const uint32_t *masked)
{
    uint8_t a[MMA_LANES * MMA_ROW_BYTES];
    uint8_t sfa[MMA_LANES * MMA_BLOCKS], sfb[MMA_MAX_N * MMA_BLOCKS];
    static _Thread_local uint32_t d[MMA_MAX_N * MMA_LANES];
    uint32_t rows = own_rows(f, count);
    bool scaled = op->aux[1] == TC_KIND_MXF8F6F4;
    if (x->a_col != NO_COLUMN) {
        for (uint32_t row = 0; row < rows; row++)
            for (uint32_t i = 0; i < A_COLS; i++)
                memcpy(a + row * MMA_ROW_BYTES + i * 4,
                       tmem_column(c, x->a_col + i) + row, 4);
    } else if (f->a_by_m) {
        desc_gather_by_row(c, &x->a, mma_type_bytes(f->a_type), rows, a);
    } else {
        desc_gather(c, &x->a, rows, 2, a);
    }
    if (scaled && (!tc_gather_scales(w, c, x->sfa, rows, TC_ONE_SCALE, f->sfa_id,
                                     "scales of A", sfa) ||
                   !tc_gather_scales(w, c, x->sfb, f->n, TC_ONE_SCALE, f->sfb_id,
                                     "scales of B", sfb)))
        return false;
    move_d(c, x, f, count, masked, d, false);
    struct mma_any mma = {
        .a_type = f->a_type,
        .b_type = f->b_type,
        .result = f->result,
        .a = a,
        .b = b,
        .sfa = scaled ? sfa : NULL,
        .sfb = scaled ? sfb : NULL,
        .d = d,
        .rows = (int)rows,
        .n = (int)f->n,
        .negate = f->negate,
        .accumulate = x->accumulate,
        .saturate = f->saturate,
        .scale_d_down = (int)op->aux[5],
        .mode = grid_of(w)->mma_as_hardware ? MMA_HARDWARE : MMA_REFERENCE,
    };
    mma_any(&mma);
    move_d(c, x, f, count, masked, d, true);
    return true;
}

static bool run_any(struct async_op *o)
{
    struct warp *w = o->issuer;
    const struct op *op = &grid_of(w)->kernel->ops[o->pc];
    uint8_t b[MMA_MAX_N * MMA_ROW_BYTES];
    struct any_args x;
    struct fields f;
    struct cta *ctas[2];
    memcpy(&x, &o->arg, sizeof x);
    if (!decode_fields(w, x.idesc, (enum tc_kind)op->aux[1], (int)op->aux[0], &f))
        return false;
    int count = tc_ctas(w, op->aux[0], ctas);
    /* Each CTA of a pair holds its share of the rows of B. */
    uint32_t rows = f.n / (uint32_t)count;
    for (int i = 0; i < count; i++) {
        uint8_t *to = b + (uint32_t)i * rows * MMA_ROW_BYTES;
        if (f.b_by_n)
            desc_gather_by_row(ctas[i], &x.b, mma_type_bytes(f.b_type), rows, to);
        else
            desc_gather(ctas[i], &x.b, rows, 2, to);
    }
    for (int i = 0; i < count; i++)
        if (!run_in(w, op, ctas[i], &x, &f, count, b, x.masked + 4 * i))
            return false;
    return true;
}

/* ---- issue */

static bool check_operand(struct warp *w, struct cta *c, const struct smem_desc *d,
                          enum mma_type type, bool by_row, const char *what,
                          uint32_t rows)
{
    return by_row ? desc_check_by_row(w, c, d, mma_type_bytes(type), what, rows)
                  : desc_check(w, c, d, what, rows, 2);
}

static void touch(struct async_op *o, struct cta *c, const struct smem_desc *d,
                  enum mma_type type, bool by_row, uint32_t rows)
{
    if (by_row)
        desc_touch_by_row(o, c, d, mma_type_bytes(type), rows);
    else
        desc_touch(o, c, d, rows, 2);
}

static bool reads_columns(struct warp *w, struct tmem_op *entry, struct cta *c,
                          uint32_t col, uint32_t cols, const struct any_args *x,
                          uint32_t d_cols, const char *what)
{
    if (!tmem_owned(w, c, col, cols, what))
        return false;
    if (col < x->d + d_cols && x->d < col + cols) {
        report(grid_of(w), w, CHECK_SCALE_OVERLAP,
               "the accumulator in columns %u to %u overlaps %s from column %u", x->d,
               x->d + d_cols - 1, what, col);
        return false;
    }
    return tmem_reads(w, entry, (struct tmem_area){c, col, cols, 15}, what);
}

static bool check_columns(struct warp *w, const struct op *op, struct tmem_op *entry,
                          struct cta *c, const struct any_args *x,
                          const struct fields *f, int count)
{
    uint32_t d_cols = count == 2 && f->m == 128 ? f->n / 2 : f->n;
    uint32_t rows = own_rows(f, count);
    if (!tmem_owned(w, c, x->d, d_cols, "the accumulator"))
        return false;
    if (x->a_col != NO_COLUMN &&
        !reads_columns(w, entry, c, x->a_col, A_COLS, x, d_cols, "A"))
        return false;
    if (op->aux[1] == TC_KIND_MXF8F6F4 &&
        (!reads_columns(w, entry, c, x->sfa, tc_scale_cols(rows), x, d_cols,
                        "scales of A") ||
         !reads_columns(w, entry, c, x->sfb, tc_scale_cols(f->n), x, d_cols,
                        "scales of B")))
        return false;
    return tmem_writes(w, entry, (struct tmem_area){c, x->d, d_cols, 15},
                       "the accumulator");
}

/* A as the operand says; in tensor memory it starts at any column of lane 0. */
static bool get_a(struct warp *w, const struct op *op, int lane, const struct fields *f,
                  struct any_args *x)
{
    x->a_col = NO_COLUMN;
    if (!op->aux[2])
        return desc_decode(w, opnd_u64(w, &op->opnds[1], lane), "A", &x->a);
    if (f->a_by_m || is_narrow(f->a_type) || f->m == 64 ||
        (op->aux[0] == 2 && f->m == 128)) {
        report(
            grid_of(w), w, CHECK_OPERAND,
            "A in tensor memory is emulated for 8, 16 and 32 bits, one row a lane (M "
            "= 128, or 256 with .cta_group::2), not transposed");
        return false;
    }
    return tc_column(w, (uint32_t)opnd_address(w, &op->opnds[1], lane), "A", &x->a_col);
}

static void get_mask(struct warp *w, const struct op *op, int lane, struct any_args *x)
{
    const struct opnd *list = op->aux[3] ? &op->opnds[op->aux[3]] : NULL;
    for (int i = 0; list && i < list->item_count; i++)
        x->masked[i] = opnd_u32(w, &list->items[i], lane);
}

static bool issue_any(struct warp *w, const struct op *op, int lane)
{
    bool scaled = op->aux[1] == TC_KIND_MXF8F6F4;
    struct any_args x = {.idesc = opnd_u32(w, &op->opnds[3], lane)};
    struct fields f;
    struct cta *ctas[2];
    struct tmem_state *s = tmem_state(w, (int)op->aux[0]);
    if (!s || !tmem_peer_lives(w, (int)op->aux[0]) ||
        !decode_fields(w, x.idesc, (enum tc_kind)op->aux[1], (int)op->aux[0], &f) ||
        !get_a(w, op, lane, &f, &x) ||
        !desc_decode(w, opnd_u64(w, &op->opnds[2], lane), "B", &x.b) ||
        !tc_column(w, (uint32_t)opnd_address(w, &op->opnds[0], lane), "the accumulator",
                   &x.d) ||
        (scaled && (!tc_scale_column(w, op, 4, lane, "scales of A", &x.sfa) ||
                    !tc_scale_column(w, op, 5, lane, "scales of B", &x.sfb))))
        return false;
    x.accumulate = opnd_mask(w, &op->opnds[op->aux[4]]) >> lane & 1;
    get_mask(w, op, lane, &x);

    int count = tc_ctas(w, op->aux[0], ctas);
    uint32_t a_rows = own_rows(&f, count), b_rows = f.n / (uint32_t)count;
    struct tmem_op *entry = tmem_log(s, w, lane, TMEM_MMA);
    entry->acc_col = (uint16_t)x.d;
    entry->acc_cols = (uint16_t)f.n;
    entry->starts = !x.accumulate;
    for (int i = 0; i < count; i++)
        if ((x.a_col == NO_COLUMN &&
             !check_operand(w, ctas[i], &x.a, f.a_type, f.a_by_m, "A", a_rows)) ||
            !check_operand(w, ctas[i], &x.b, f.b_type, f.b_by_n, "B", b_rows) ||
            !check_columns(w, op, entry, ctas[i], &x, &f, count))
            return false;
    struct async_op *o = async_new(w, ASYNC_MMA, lane);
    o->in_order = true;
    o->lanes = (uint32_t)1 << lane;
    o->number = entry->number;
    o->run = run_any;
    o->cycles = f.n / 2;
    memcpy(&o->arg, &x, sizeof x);
    for (int i = 0; i < count; i++) {
        if (x.a_col == NO_COLUMN)
            touch(o, ctas[i], &x.a, f.a_type, f.a_by_m, a_rows);
        touch(o, ctas[i], &x.b, f.b_type, f.b_by_n, b_rows);
    }
    return async_issue(o);
}

enum flow tc_mma_any(struct warp *w, const struct op *op, uint32_t lanes)
{
    return tc_issue_lanes(w, op, lanes, issue_any);
}
