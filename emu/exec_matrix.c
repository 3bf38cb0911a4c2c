/* exec_matrix.c - ldmatrix, stmatrix and movmatrix of 8x8 matrices of 16-bit elements.
 *
 * PTX ISA 9.0, "ldmatrix", "stmatrix".  Lane 8i + r gives the address of row r of
 * matrix i, 16 bytes.  Lane t holds elements 2(t mod 4) and the next of row t / 4; with
 * .trans the matrix is transposed on its way. */
#include "emu/access.h"
#include "emu/lanes.h"

#define MATRIX_ROWS 8
#define ROW_BYTES 16

enum { AUX_COUNT, AUX_TRANS };

static const struct opnd *fragment(const struct op *op, int list, uint32_t i)
{
    const struct opnd *o = &op->opnds[list];
    return o->kind == PTX_OPND_VECTOR ? &o->items[i] : o;
}

/* Where element e (0 or 1) of lane t's fragment lies in a matrix. */
static uint8_t *element_at(const struct access *a, const struct op *op, uint32_t matrix,
                           int t, int e)
{
    int row = t / 4, col = 2 * (t % 4) + e;
    if (op->aux[AUX_TRANS]) {
        int r = row;
        row = col;
        col = r;
    }
    return a->at[(int)matrix * MATRIX_ROWS + row] + 2 * col;
}

/* Row addresses of all matrices. */
static bool rows(struct warp *w, const struct op *op, int address, bool write,
                 struct access *a)
{
    uint32_t count = op->aux[AUX_COUNT] * MATRIX_ROWS;
    uint32_t givers = count >= WARP_LANES ? ALL_LANES : ((uint32_t)1 << count) - 1;
    if ((w->live & givers) != givers) {
        report(w->cta->cluster->grid, w, CHECK_DIVERGENCE,
               "lanes 0x%x give the row addresses, and some have exited", givers);
        return false;
    }
    enum space space = access_space(op->insn);
    return access_lanes(w, op, &op->opnds[address], givers, space, ROW_BYTES, write, a);
}

static enum flow exec_ldmatrix(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    if (!rows(w, op, 1, false, &a))
        return FLOW_STOP;
    uint32_t value[4][WARP_LANES];
    for (uint32_t i = 0; i < op->aux[AUX_COUNT]; i++)
        for (int t = 0; t < WARP_LANES; t++) {
            uint16_t low, high;
            memcpy(&low, element_at(&a, op, i, t, 0), 2);
            memcpy(&high, element_at(&a, op, i, t, 1), 2);
            value[i][t] = (uint32_t)high << 16 | low;
        }
    for (uint32_t i = 0; i < op->aux[AUX_COUNT]; i++) {
        uint32_t *d = opnd_lanes(w, fragment(op, 0, i));
        for (uint32_t rest = lanes; rest; rest &= rest - 1)
            d[bits_lowest(rest)] = value[i][bits_lowest(rest)];
    }
    return FLOW_NEXT;
}

static enum flow exec_stmatrix(struct warp *w, const struct op *op, uint32_t lanes)
{
    struct access a;
    if (!rows(w, op, 0, true, &a))
        return FLOW_STOP;
    access_changed(w, &a);
    for (uint32_t i = 0; i < op->aux[AUX_COUNT]; i++) {
        const uint32_t *s = opnd_lanes(w, fragment(op, 1, i));
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            int t = bits_lowest(rest);
            uint16_t low = (uint16_t)s[t], high = (uint16_t)(s[t] >> 16);
            memcpy(element_at(&a, op, i, t, 0), &low, 2);
            memcpy(element_at(&a, op, i, t, 1), &high, 2);
        }
    }
    return FLOW_NEXT;
}

static bool decode_matrix(struct decoder *d, struct op *o, int list, int address)
{
    int count = o->insn->repeat;
    if (o->type != PTX_T_B16 || !ptx_has(o->insn, PTX_M_M8N8))
        return decode_refuse(d, o, "only .m8n8 with .b16 elements is there");
    if (count != 1 && count != 2 && count != 4)
        return decode_refuse(d, o, ".x1, .x2 or .x4 is needed");
    if (!decode_want_count(d, o, 2, 2) || !decode_want_address(d, o, address))
        return false;
    const struct opnd *v = &o->opnds[list];
    if (v->kind == PTX_OPND_VECTOR ? v->item_count != count : count != 1)
        return decode_refuse(d, o, "a list of %d registers is needed", count);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        const struct opnd *x = fragment(o, list, i);
        if (x->kind != PTX_OPND_REG || (x->bits != 32 && !x->is_sink))
            return decode_refuse(d, o, "32-bit registers are needed");
    }
    o->aux[AUX_COUNT] = (uint32_t)count;
    o->aux[AUX_TRANS] = ptx_has(o->insn, PTX_M_TRANS);
    return true;
}

bool decode_LDMATRIX(struct decoder *d, struct op *o)
{
    o->exec = exec_ldmatrix;
    return decode_matrix(d, o, 0, 1);
}

bool decode_STMATRIX(struct decoder *d, struct op *o)
{
    o->exec = exec_stmatrix;
    return decode_matrix(d, o, 1, 0);
}

/* ---- movmatrix: a transposed matrix from registers to registers */

static enum flow exec_movmatrix(struct warp *w, const struct op *op, uint32_t lanes)
{
    uint32_t *d = opnd_lanes(w, &op->opnds[0]);
    const uint32_t *a = opnd_lanes(w, &op->opnds[1]);
    uint16_t elements[MATRIX_ROWS][MATRIX_ROWS];
    for (int t = 0; t < WARP_LANES; t++)
        for (int e = 0; e < 2; e++)
            elements[t / 4][t % 4 * 2 + e] = (uint16_t)(a[t] >> 16 * e);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int t = bits_lowest(rest), row = t / 4, column = t % 4 * 2;
        d[t] = elements[column][row] | (uint32_t)elements[column + 1][row] << 16;
    }
    return FLOW_NEXT;
}

bool decode_MOVMATRIX(struct decoder *d, struct op *o)
{
    o->exec = exec_movmatrix;
    return decode_want_count(d, o, 2, 2) && decode_want_reg(d, o, 0, 32) &&
           decode_want_reg(d, o, 1, 32);
}
