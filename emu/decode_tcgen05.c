/* decode_tcgen05.c - forms of the tcgen05 instructions, and which are not here yet. */
#include "emu/tcgen05.h"
#include "emu/tmem.h"

static bool has(const struct op *o, enum ptx_mod m)
{
    return ptx_has(o->insn, m);
}

static bool set_group(struct decoder *d, struct op *o)
{
    o->aux[0] = has(o, PTX_M_CTA_GROUP_1) ? 1 : has(o, PTX_M_CTA_GROUP_2) ? 2 : 0;
    return o->aux[0] ||
           decode_refuse(d, o, ".cta_group::1 or .cta_group::2 is missing");
}

bool decode_TCGEN05_ALLOC(struct decoder *d, struct op *o)
{
    o->exec = tmem_alloc;
    o->aux[1] = has(o, PTX_M_SHARED_CTA);
    return set_group(d, o) && decode_want_count(d, o, 2, 2) &&
           decode_want_address(d, o, 0) && decode_want_reg(d, o, 1, 32);
}

bool decode_TCGEN05_DEALLOC(struct decoder *d, struct op *o)
{
    o->exec = tmem_dealloc;
    return set_group(d, o) && decode_want_count(d, o, 2, 2) &&
           decode_want_reg(d, o, 0, 32) && decode_want_reg(d, o, 1, 32);
}

bool decode_TCGEN05_RELINQUISH_ALLOC_PERMIT(struct decoder *d, struct op *o)
{
    o->exec = tmem_relinquish;
    return set_group(d, o) && decode_want_count(d, o, 0, 0);
}

/* Shape, registers and packing of a load or store whose registers are operand `regs`.
 */
static bool set_access(struct decoder *d, struct op *o, int regs, enum ptx_mod pack)
{
    static const struct {
        enum ptx_mod mod;
        enum tc_shape shape;
        int regs; /* for each .x */
    } shapes[] = {
        {PTX_M_32X32B, TC_32X32B, 1},     {PTX_M_16X64B, TC_16X64B, 1},
        {PTX_M_16X128B, TC_16X128B, 2},   {PTX_M_16X256B, TC_16X256B, 4},
        {PTX_M_16X32BX2, TC_16X32BX2, 1},
    };
    int count = 0;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        if (has(o, shapes[i].mod)) {
            o->aux[0] = shapes[i].shape;
            count = shapes[i].regs * o->insn->repeat;
        }
    if (count < 1 || count > 128)
        return decode_refuse(d, o, "there is no such shape and repetition");
    o->aux[1] = (uint32_t)count;
    o->aux[2] = has(o, pack);
    if (o->aux[2] && o->aux[0] != TC_32X32B && o->aux[0] != TC_16X32BX2)
        return decode_refuse(d, o, "16-bit packing with this shape");
    const struct opnd *list = &o->opnds[regs];
    if (list->kind != PTX_OPND_VECTOR || list->item_count != count)
        return decode_refuse(d, o, "it needs %d registers in braces", count);
    for (int i = 0; i < count; i++)
        if (list->items[i].kind != PTX_OPND_REG ||
            (list->items[i].bits != 32 && !list->items[i].is_sink))
            return decode_refuse(d, o, "register %d of the list is not one of 32 bits",
                                 i + 1);
    return true;
}

/* 16x32bx2 has an immediate: how far its second half is from the first. */
static bool set_split(struct decoder *d, struct op *o, int index)
{
    int64_t split;
    if (!has(o, PTX_M_16X32BX2))
        return decode_want_count(d, o, 2, 2);
    if (!decode_want_count(d, o, 3, 3))
        return false;
    if (!opnd_is_imm(&o->opnds[index], &split) || split < 0 || split >= TMEM_COLS)
        return decode_refuse(d, o,
                             "the offset of the second half must be an immediate "
                             "number of columns");
    o->aux[3] = (uint32_t)split;
    return true;
}

bool decode_TCGEN05_LD(struct decoder *d, struct op *o)
{
    o->exec = tc_ld;
    return set_split(d, o, 2) && set_access(d, o, 0, PTX_M_PACK_16B) &&
           decode_want_address(d, o, 1);
}

bool decode_TCGEN05_ST(struct decoder *d, struct op *o)
{
    o->exec = tc_st;
    return set_split(d, o, 1) &&
           set_access(d, o, o->opnd_count - 1, PTX_M_UNPACK_16B) &&
           decode_want_address(d, o, 0);
}

bool decode_TCGEN05_WAIT(struct decoder *d, struct op *o)
{
    o->exec = tc_wait;
    o->aux[0] = has(o, PTX_M_LD) ? TMEM_LD : TMEM_ST;
    if (!has(o, PTX_M_LD) && !has(o, PTX_M_ST))
        return decode_refuse(d, o, "tcgen05.wait is ::ld or ::st");
    return decode_want_count(d, o, 0, 0);
}

bool decode_TCGEN05_FENCE(struct decoder *d, struct op *o)
{
    o->exec = tc_fence;
    return decode_want_count(d, o, 0, 0);
}

bool decode_TCGEN05_CP(struct decoder *d, struct op *o)
{
    o->exec = tc_cp;
    if (!set_group(d, o) || !decode_want_count(d, o, 2, 2))
        return false;
    if (o->insn->type_count > 0)
        return decode_refuse(d, o,
                             "unpacking of 4-bit and 6-bit elements while copying");
    if (has(o, PTX_M_32X128B) && has(o, PTX_M_WARPX4))
        o->aux[1] = TC_CP_32X128B_X4;
    else if (has(o, PTX_M_64X128B) && has(o, PTX_M_WARPX2_02_13))
        o->aux[1] = TC_CP_64X128B_02_13;
    else if (has(o, PTX_M_64X128B) && has(o, PTX_M_WARPX2_01_23))
        o->aux[1] = TC_CP_64X128B_01_23;
    else if (has(o, PTX_M_128X128B))
        o->aux[1] = TC_CP_128X128B;
    else if (has(o, PTX_M_128X256B))
        o->aux[1] = TC_CP_128X256B;
    else if (has(o, PTX_M_4X256B))
        o->aux[1] = TC_CP_4X256B;
    else
        return decode_refuse(d, o,
                             "there is no such shape (32x128b goes with .warpx4, "
                             "64x128b with .warpx2)");
    return decode_want_address(d, o, 0) && decode_want_reg(d, o, 1, 64);
}

static bool set_kind(struct decoder *d, struct op *o)
{
    bool nvf4 = has(o, PTX_M_KIND_MXF4NVF4), mxf4 = has(o, PTX_M_KIND_MXF4);
    bool b16 = has(o, PTX_M_BLOCK16) || has(o, PTX_M_SCALE_VEC_4X);
    bool b32 = has(o, PTX_M_BLOCK32) || has(o, PTX_M_SCALE_VEC_2X);
    if (!has(o, PTX_M_BLOCK_SCALE))
        return decode_refuse(d, o, "this kind needs .block_scale");
    if (nvf4 && !b16 && !b32)
        return decode_refuse(d, o, "kind::mxf4nvf4 needs .block16 or .block32");
    if (mxf4 && b16)
        return decode_refuse(d, o, "kind::mxf4 has blocks of 32 only");
    o->aux[1] = b16 ? 16 : 32;
    o->aux[2] = mxf4;
    return true;
}

/* A list of masks, and how far D is scaled down, may stand behind the descriptor and
 * behind the predicate. */
static bool decode_plain_mma(struct decoder *d, struct op *o)
{
    int64_t down = 0;
    int at = 4;
    if (o->opnd_count > at && o->opnds[at].kind == PTX_OPND_VECTOR) {
        const struct opnd *list = &o->opnds[at];
        int want = o->aux[0] == 2 ? 8 : 4;
        if (list->item_count != want)
            return decode_refuse(d, o, "the mask of lanes needs %d registers", want);
        for (int i = 0; i < want; i++)
            if (list->items[i].kind != PTX_OPND_REG || list->items[i].bits != 32)
                return decode_refuse(d, o, "the mask of lanes needs 32-bit registers");
        o->aux[3] = (uint32_t)at++;
    }
    o->aux[4] = (uint32_t)at;
    if (o->opnd_count == at + 2) {
        if (o->aux[1] != TC_KIND_F16 && o->aux[1] != TC_KIND_TF32)
            return decode_refuse(d, o, "D is scaled with kinds f16 and tf32 only");
        if (!opnd_is_imm(&o->opnds[at + 1], &down) || down < 0 || down > 15)
            return decode_refuse(d, o, "the scale of D must be a constant, 0 to 15");
        o->aux[5] = (uint32_t)down;
    }
    return decode_want_count(d, o, at + 1, at + 2) && decode_want_reg(d, o, at, 1);
}

static bool decode_any_mma(struct decoder *d, struct op *o)
{
    static const struct {
        enum ptx_mod mod;
        enum tc_kind kind;
    } kinds[] = {
        {PTX_M_KIND_F16, TC_KIND_F16},           {PTX_M_KIND_TF32, TC_KIND_TF32},
        {PTX_M_KIND_F8F6F4, TC_KIND_F8F6F4},     {PTX_M_KIND_I8, TC_KIND_I8},
        {PTX_M_KIND_MXF8F6F4, TC_KIND_MXF8F6F4},
    };
    size_t i = 0;
    while (i < COUNT_OF(kinds) && !has(o, kinds[i].mod))
        i++;
    if (i == COUNT_OF(kinds))
        return decode_refuse(d, o, "the kind is missing");
    o->exec = tc_mma_any;
    o->aux[1] = kinds[i].kind;
    if (has(o, PTX_M_ASHIFT))
        return decode_refuse(d, o, ".ashift");
    o->aux[2] = o->opnd_count > 1 && o->opnds[1].kind == PTX_OPND_ADDR;
    if (!decode_want_address(d, o, 0) ||
        !(o->aux[2] ? decode_want_address(d, o, 1) : decode_want_reg(d, o, 1, 64)) ||
        !decode_want_reg(d, o, 2, 64) || !decode_want_reg(d, o, 3, 32))
        return false;
    if (o->aux[1] != TC_KIND_MXF8F6F4)
        return decode_plain_mma(d, o);
    o->aux[4] = 6;
    return decode_want_count(d, o, 7, 7) && decode_want_address(d, o, 4) &&
           decode_want_address(d, o, 5) && decode_want_reg(d, o, 6, 1);
}

bool decode_TCGEN05_MMA(struct decoder *d, struct op *o)
{
    if (!set_group(d, o))
        return false;
    if (!has(o, PTX_M_KIND_MXF4NVF4) && !has(o, PTX_M_KIND_MXF4))
        return decode_any_mma(d, o);
    o->exec = tc_mma;
    if (!set_kind(d, o))
        return false;
    if (has(o, PTX_M_ASHIFT))
        return decode_refuse(d, o, ".ashift");
    if (o->opnd_count > 1 && o->opnds[1].kind == PTX_OPND_ADDR)
        return decode_refuse(d, o, "A in tensor memory");
    return decode_want_count(d, o, 7, 7) && decode_want_address(d, o, 0) &&
           decode_want_reg(d, o, 1, 64) && decode_want_reg(d, o, 2, 64) &&
           decode_want_reg(d, o, 3, 32) && decode_want_address(d, o, 4) &&
           decode_want_address(d, o, 5) && decode_want_reg(d, o, 6, 1);
}

bool decode_TCGEN05_COMMIT(struct decoder *d, struct op *o)
{
    o->exec = tc_commit;
    o->aux[1] = has(o, PTX_M_MULTICAST_CLUSTER);
    o->aux[2] = has(o, PTX_M_SHARED_CLUSTER);
    int count = o->aux[1] ? 2 : 1;
    return set_group(d, o) && decode_want_count(d, o, count, count) &&
           decode_want_address(d, o, 0) && (!o->aux[1] || decode_want_reg(d, o, 1, 16));
}
