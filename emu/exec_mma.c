/* exec_mma.c - mma.sync: m16n8 shapes of 4, 8, 16 and 32 bits, with and without scales.
 *
 * PTX ISA 9.0, "mma".  The warp's fragments are put together into rows, multiplied as
 * the tensor core's are (mma_any.c, mma_fp4.c), and taken apart again. */
#include "emu/decode.h"
#include "emu/lanes.h"
#include "emu/mma_warp.h"

/* aux[1] K of the shape in bytes of a row, [2] enum mma_result, [3] flags, [4] A's and
 * [5] B's enum mma_type. */
enum { AUX_K_BYTES = 1, AUX_RESULT, AUX_FLAGS, AUX_A, AUX_B };
enum {
    SATURATES = 1,
    IS_FP4 = 2,    /* E2M1 with a scale for 16 or 32 elements */
    IS_SCALED = 4, /* E4M3 and E5M2 with a scale for 32 */
    UE8M0 = 8,
    TWO_SCALES = 16, /* a row, of FP4 */
};

/* ---- fragments */

bool mma_type_of(int ptx_type, enum mma_type *type)
{
    static const struct {
        int ptx;
        enum mma_type type;
    } types[] = {
        {PTX_T_F16, MMA_F16},   {PTX_T_BF16, MMA_BF16}, {PTX_T_TF32, MMA_TF32},
        {PTX_T_E4M3, MMA_E4M3}, {PTX_T_E5M2, MMA_E5M2}, {PTX_T_E2M1, MMA_E2M1},
        {PTX_T_U8, MMA_U8},     {PTX_T_S8, MMA_S8},
    };
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].ptx == ptx_type) {
            *type = types[i].type;
            return true;
        }
    return false;
}

static const struct opnd *item(const struct opnd *list, int i)
{
    return list->kind == PTX_OPND_VECTOR ? &list->items[i] : list;
}

void mma_gather_a(struct warp *w, const struct opnd *list, int count,
                  uint8_t rows[MMA_WARP_ROWS * MMA_ROW_BYTES])
{
    memset(rows, 0, MMA_WARP_ROWS * MMA_ROW_BYTES);
    for (int r = 0; r < count; r++) {
        const uint32_t *reg = opnd_lanes(w, item(list, r));
        EACH(lane)
        {
            int row = lane / 4 + 8 * (r % 2), at = lane % 4 * 4 + r / 2 * 16;
            memcpy(rows + row * MMA_ROW_BYTES + at, &reg[lane], 4);
        }
    }
}

void mma_gather_b(struct warp *w, const struct opnd *list, int count,
                  uint8_t rows[8 * MMA_ROW_BYTES])
{
    memset(rows, 0, (size_t)8 * MMA_ROW_BYTES);
    for (int r = 0; r < count; r++) {
        const uint32_t *reg = opnd_lanes(w, item(list, r));
        EACH(lane)
        {
            memcpy(rows + lane / 4 * MMA_ROW_BYTES + lane % 4 * 4 + r * 16, &reg[lane],
                   4);
        }
    }
}

/* Row and first column of register r of a lane. */
static void place_of(int r, int lane, int *row, int *column, bool is_half)
{
    int pair = is_half ? r : r / 2; /* two columns */
    *row = lane / 4 + 8 * (pair % 2);
    *column = pair / 2 * 8 + lane % 4 * 2 + (is_half ? 0 : r % 2);
}

void mma_gather_d(struct warp *w, const struct opnd *list, enum mma_result type, int n,
                  uint32_t *d)
{
    bool half = type == MMA_TO_F16;
    for (int r = 0; r < mma_d_registers(type, n); r++) {
        const uint32_t *reg = opnd_lanes(w, item(list, r));
        EACH(lane)
        {
            int row, column;
            place_of(r, lane, &row, &column, half);
            uint32_t *to = d + column * MMA_WARP_ROWS + row;
            *to = half ? reg[lane] & 0xffff : reg[lane];
            if (half)
                to[MMA_WARP_ROWS] = reg[lane] >> 16;
        }
    }
}

void mma_scatter_d(struct warp *w, const struct opnd *list, enum mma_result type, int n,
                   const uint32_t *d)
{
    bool half = type == MMA_TO_F16;
    for (int r = 0; r < mma_d_registers(type, n); r++) {
        uint32_t *reg = opnd_lanes(w, item(list, r));
        EACH(lane)
        {
            int row, column;
            place_of(r, lane, &row, &column, half);
            const uint32_t *from = d + column * MMA_WARP_ROWS + row;
            reg[lane] = half ? *from | from[MMA_WARP_ROWS] << 16 : *from;
        }
    }
}

/* ---- scales: a word of some lanes, and which */

/* Operands behind C: word of A, {byte, thread} of A, and the same of B. */
static uint32_t id_of(struct warp *w, const struct op *op, int operand, int which)
{
    const struct opnd *list = &op->opnds[operand];
    return opnd_u32(w, item(list, which), 0) & 0xffff;
}

static bool check_ids(struct warp *w, const struct op *op)
{
    bool fp4 = op->aux[AUX_FLAGS] & IS_FP4, two = op->aux[AUX_FLAGS] & TWO_SCALES;
    uint32_t bytes = !fp4 ? 4 : two ? 3 : 1; /* byte numbers up to here */
    for (int i = 0; i < 2; i++) {
        uint32_t byte = id_of(w, op, i == 0 ? 5 : 7, 0);
        uint32_t thread = id_of(w, op, i == 0 ? 5 : 7, 1);
        if (byte < bytes && (fp4 ? byte % 2 == 0 : true) && thread < (i == 0 ? 2u : 4u))
            continue;
        report(
            w->cta->cluster->grid, w, CHECK_OPERAND,
            "byte %u and thread %u of the scales of %s are not what this shape takes",
            byte, thread, i == 0 ? "A" : "B");
        return false;
    }
    return true;
}

static void spread(const struct op *op, uint32_t word, uint32_t byte, uint8_t to[4])
{
    word >>= 8 * byte;
    if (op->aux[AUX_FLAGS] & IS_SCALED) {
        memset(to, (int)(word & 0xff), 4);
    } else if (op->aux[AUX_FLAGS] & TWO_SCALES) {
        memset(to, (int)(word & 0xff), 2);
        memset(to + 2, (int)(word >> 8 & 0xff), 2);
    } else {
        memcpy(to, &word, 4);
    }
}

static void gather_scales(struct warp *w, const struct op *op, uint8_t *sfa,
                          uint8_t *sfb)
{
    const uint32_t *a = opnd_lanes(w, item(&op->opnds[4], 0));
    const uint32_t *b = opnd_lanes(w, item(&op->opnds[6], 0));
    for (int row = 0; row < MMA_WARP_ROWS; row++) {
        int lane = row % 8 * 4 + (int)id_of(w, op, 5, 1) * 2 + row / 8;
        spread(op, a[lane], id_of(w, op, 5, 0), sfa + row * MMA_BLOCKS);
    }
    for (int row = 0; row < 8; row++) {
        int lane = row * 4 + (int)id_of(w, op, 7, 1);
        spread(op, b[lane], id_of(w, op, 7, 0), sfb + row * MMA_BLOCKS);
    }
}

/* ---- mma */

static bool is_fp8(enum mma_type type)
{
    return type == MMA_E4M3 || type == MMA_E5M2;
}

static enum flow exec_mma(struct warp *w, const struct op *op, uint32_t lanes)
{
    const struct grid *g = w->cta->cluster->grid;
    uint8_t a[MMA_WARP_ROWS * MMA_ROW_BYTES], b[8 * MMA_ROW_BYTES];
    uint8_t sfa[MMA_WARP_ROWS * MMA_BLOCKS], sfb[8 * MMA_BLOCKS];
    uint32_t d[8 * MMA_WARP_ROWS];
    uint32_t flags = op->aux[AUX_FLAGS];
    bool scaled = flags & (IS_FP4 | IS_SCALED);
    int registers = (int)op->aux[AUX_K_BYTES] / 8;
    if (lanes != ALL_LANES)
        return report(w->cta->cluster->grid, w, CHECK_DIVERGENCE,
                      "%s needs all 32 lanes, and lanes 0x%x have exited",
                      op->insn->opcode, ~lanes);
    if (scaled && !check_ids(w, op))
        return FLOW_STOP;
    enum mma_mode mode = g->mma_as_hardware ? MMA_HARDWARE : MMA_REFERENCE;
    mma_gather_a(w, &op->opnds[1], registers, a);
    mma_gather_b(w, &op->opnds[2], registers / 2, b);
    mma_gather_d(w, &op->opnds[3], (enum mma_result)op->aux[AUX_RESULT], 8, d);
    if (scaled)
        gather_scales(w, op, sfa, sfb);
    if (flags & IS_FP4) {
        struct mma_fp4 mma = {.a = a,
                              .b = b,
                              .sfa = sfa,
                              .sfb = sfb,
                              .ue8m0 = flags & UE8M0,
                              .mode = mode};
        for (int column = 0; column < 8; column++)
            for (int row = 0; row < MMA_WARP_ROWS; row++) {
                uint32_t *at = d + column * MMA_WARP_ROWS + row;
                *at = mma_fp4_element(&mma, row, column, *at);
            }
    } else {
        struct mma_any mma = {
            .a_type = (enum mma_type)op->aux[AUX_A],
            .b_type = (enum mma_type)op->aux[AUX_B],
            .result = (enum mma_result)op->aux[AUX_RESULT],
            .a = a,
            .b = b,
            .sfa = scaled ? sfa : NULL,
            .sfb = scaled ? sfb : NULL,
            .d = d,
            .rows = MMA_WARP_ROWS,
            .n = 8,
            .accumulate = true,
            .saturate = flags & SATURATES,
            .fp8_by_f16 = g->fp8_by_f16 && is_fp8((enum mma_type)op->aux[AUX_A]),
            .mode = mode,
        };
        mma_any(&mma);
    }
    mma_scatter_d(w, &op->opnds[0], (enum mma_result)op->aux[AUX_RESULT], 8, d);
    return FLOW_NEXT;
}

/* ---- decoding */

static bool want_list(struct decoder *d, const struct op *o, int index, int count)
{
    const struct opnd *list = &o->opnds[index];
    if ((list->kind != PTX_OPND_VECTOR || list->item_count != count) && count > 1)
        return decode_refuse(d, o, "operand %d must be a list of %d registers",
                             index + 1, count);
    for (int i = 0; i < count; i++) {
        const struct opnd *x = item(list, i);
        if (x->kind != PTX_OPND_REG || (!x->is_sink && x->bits != 32))
            return decode_refuse(d, o, "operand %d needs 32-bit registers", index + 1);
    }
    return true;
}

/* K of the shape. */
static int k_of(const struct op *o)
{
    static const struct {
        enum ptx_mod mod;
        int k;
    } shapes[] = {
        {PTX_M_M16N8K4, 4},   {PTX_M_M16N8K8, 8},   {PTX_M_M16N8K16, 16},
        {PTX_M_M16N8K32, 32}, {PTX_M_M16N8K64, 64},
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        if (ptx_has(o->insn, shapes[i].mod))
            return shapes[i].k;
    return 0;
}

static int bits_of(enum mma_type type)
{
    return type == MMA_TF32 ? 32 : type == MMA_F16 || type == MMA_BF16 ? 16 : 8;
}

static bool decode_scales(struct decoder *d, struct op *o, int k, bool fp4)
{
    int scale_type = o->insn->types[4];
    bool four = ptx_has(o->insn, PTX_M_SCALE_VEC_4X);
    bool one = ptx_has(o->insn, PTX_M_SCALE_VEC_1X);
    if (scale_type == PTX_T_UE8M0)
        o->aux[AUX_FLAGS] |= UE8M0;
    else if (scale_type != PTX_T_UE4M3 || !fp4 || !four)
        return decode_refuse(d, o, "there are no such scales with this kind");
    if (fp4 ? one : four)
        return decode_refuse(d, o, "so many scales do not go with this kind");
    if (fp4 && !four)
        o->aux[AUX_FLAGS] |= TWO_SCALES;
    if (k != (fp4 ? 64 : 32))
        return decode_refuse(d, o, "this kind has another shape");
    if (!decode_want_count(d, o, 8, 8) || !want_list(d, o, 4, 1) ||
        !want_list(d, o, 6, 1))
        return false;
    for (int i = 5; i < 8; i += 2)
        if (o->opnds[i].kind != PTX_OPND_VECTOR || o->opnds[i].item_count != 2)
            return decode_refuse(d, o, "operand %d must be {byte, thread}", i + 1);
    return true;
}

bool decode_MMA(struct decoder *d, struct op *o)
{
    const struct ptx_insn *i = o->insn;
    enum mma_type a, b;
    int k = k_of(o);
    if (i->type_count < 4 || k == 0)
        return decode_refuse(d, o, "of the shapes only m16n8k4 to m16n8k64");
    if (!mma_type_of(i->types[1], &a) || !mma_type_of(i->types[2], &b))
        return decode_refuse(d, o, "elements of type %s by %s",
                             ptx_type_spelling((enum ptx_type)i->types[1]),
                             ptx_type_spelling((enum ptx_type)i->types[2]));
    bool fp4 = a == MMA_E2M1 && b == MMA_E2M1 && ptx_has(i, PTX_M_BLOCK_SCALE) &&
               !ptx_has(i, PTX_M_KIND_MXF8F6F4);
    if (!fp4 && (a == MMA_E2M1 || b == MMA_E2M1))
        return decode_refuse(d, o, "E2M1 elements one a byte");
    int bits = fp4 ? 4 : bits_of(a), k_bytes = k * bits / 8;
    if (k_bytes != 16 && k_bytes != 32)
        return decode_refuse(d, o, "this shape with elements of %d bits", bits);
    int result = i->types[0];
    if (result != i->types[3])
        return decode_refuse(d, o, "C and D of different types");
    o->aux[AUX_K_BYTES] = (uint32_t)k_bytes;
    o->aux[AUX_A] = a;
    o->aux[AUX_B] = b;
    o->aux[AUX_RESULT] = result == PTX_T_F16   ? MMA_TO_F16
                         : result == PTX_T_S32 ? MMA_TO_S32
                                               : MMA_TO_F32;
    if (ptx_has(i, PTX_M_SATFINITE))
        o->aux[AUX_FLAGS] |= SATURATES;
    int d_count = mma_d_registers((enum mma_result)o->aux[AUX_RESULT], 8);
    o->exec = exec_mma;
    if (o->opnd_count < 4 || !want_list(d, o, 0, d_count) ||
        !want_list(d, o, 1, k_bytes / 8) || !want_list(d, o, 2, k_bytes / 16) ||
        !want_list(d, o, 3, d_count))
        return false;
    if (!ptx_has(i, PTX_M_BLOCK_SCALE))
        return decode_want_count(d, o, 4, 4);
    o->aux[AUX_FLAGS] |= fp4 ? IS_FP4 : IS_SCALED;
    return decode_scales(d, o, k, fp4);
}
