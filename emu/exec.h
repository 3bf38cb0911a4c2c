/* exec.h - what the decoders of the arithmetic families share. */
#ifndef FP4EMU_EXEC_H
#define FP4EMU_EXEC_H

#include "emu/machine.h"

static inline bool type_is_float(int t)
{
    switch (t) {
    case PTX_T_F16:
    case PTX_T_F32:
    case PTX_T_F64:
    case PTX_T_BF16:
    case PTX_T_F16X2:
    case PTX_T_BF16X2:
    case PTX_T_F32X2:
        return true;
    default:
        return false;
    }
}

static inline bool type_is_half(int t)
{
    return t == PTX_T_F16 || t == PTX_T_BF16 || t == PTX_T_F16X2 || t == PTX_T_BF16X2;
}

static inline bool type_is_signed(int t)
{
    return t == PTX_T_S8 || t == PTX_T_S16 || t == PTX_T_S32 || t == PTX_T_S64 ||
           t == PTX_T_S16X2;
}

/* The first `count` operands are registers of `bits`; no more operands than that. */
static inline bool decode_want_same(struct decoder *d, struct op *o, int count,
                                    int bits)
{
    if (!decode_want_count(d, o, count, count))
        return false;
    for (int i = 0; i < count; i++)
        if (!decode_want_reg(d, o, i, bits))
            return false;
    return true;
}

/* d|p: a register of `bits`, and a predicate; either may be a sink. */
static inline bool decode_want_pair(struct decoder *d, const struct op *o, int bits)
{
    const struct opnd *p = &o->opnds[0];
    if (p->kind != PTX_OPND_PAIR || p->item_count != 2)
        return decode_refuse(d, o, "it needs a pair d|p");
    for (int i = 0; i < 2; i++) {
        const struct opnd *x = &p->items[i];
        if (!x->is_sink &&
            (x->kind != PTX_OPND_REG || x->is_const || x->bits != (i == 0 ? bits : 1)))
            return decode_refuse(
                d, o, "the pair needs a %d-bit register and a predicate", bits);
    }
    return true;
}

static inline bool decode_no_type(struct decoder *d, const struct op *o)
{
    return decode_refuse(d, o, "it does not exist for type .%s",
                         ptx_type_spelling((enum ptx_type)o->type));
}

/* exec_float.c and exec_half.c: add sub mul fma div neg abs min max of floats. */
bool decode_float(struct decoder *d, struct op *o);
bool decode_half(struct decoder *d, struct op *o);

#endif
