/* decode_tma.c - forms of the bulk copy instructions. */
#include "emu/tma.h"

static bool has(const struct op *o, enum ptx_mod m)
{
    return ptx_has(o->insn, m);
}

/* The n-th state space of the opcode, from 0: destination, then source. */
static enum ptx_mod space(const struct op *o, int n)
{
    for (int i = 0; i < o->insn->mod_count; i++) {
        enum ptx_mod m = (enum ptx_mod)o->insn->mods[i];
        if ((m == PTX_M_GLOBAL || m == PTX_M_SHARED_CTA || m == PTX_M_SHARED_CLUSTER) &&
            n-- == 0)
            return m;
    }
    return PTX_NO_MOD;
}

static void set_flags(struct op *o)
{
    if (has(o, PTX_M_MULTICAST_CLUSTER))
        o->aux[0] |= TMA_MULTICAST;
    if (has(o, PTX_M_CTA_GROUP_2))
        o->aux[0] |= TMA_PAIR;
    if (space(o, 0) == PTX_M_SHARED_CTA)
        o->aux[0] |= TMA_OWN_CTA;
}

static bool set_rank(struct decoder *d, struct op *o)
{
    static const enum ptx_mod ranks[] = {PTX_M_1D, PTX_M_2D, PTX_M_3D, PTX_M_4D,
                                         PTX_M_5D};
    static const enum ptx_mod modes[] = {
        PTX_M_IM2COL,         PTX_M_IM2COL_W,     PTX_M_IM2COL_W_128,
        PTX_M_IM2COL_NO_OFFS, PTX_M_TILE_GATHER4, PTX_M_TILE_SCATTER4,
    };
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (has(o, modes[i]))
            return decode_refuse(d, o, "of the modes only .tile");
    for (uint32_t i = 0; i < COUNT_OF(ranks); i++)
        if (has(o, ranks[i]))
            o->aux[1] = i + 1;
    if (o->aux[1] == 0)
        return decode_refuse(d, o, "the number of dimensions, .1d to .5d, is missing");
    return true;
}

static bool want_tensor(struct decoder *d, const struct op *o, int index)
{
    const struct opnd *t = &o->opnds[index];
    if (t->kind != PTX_OPND_TENSOR || t->item_count != (int)o->aux[1] + 1)
        return decode_refuse(d, o, "operand %d must be [map, {%u coordinates}]",
                             index + 1, o->aux[1]);
    return true;
}

/* Loads and stores end in an optional cache policy; a multicast mask stands before it.
 */
static bool want_tail(struct decoder *d, struct op *o, int fixed)
{
    int count = fixed;
    if (o->aux[0] & TMA_MULTICAST)
        o->aux[4] = (uint32_t)count++;
    if (has(o, PTX_M_L2_CACHE_HINT))
        count++;
    return decode_want_count(d, o, count, count);
}

bool decode_CP_ASYNC_BULK_TENSOR(struct decoder *d, struct op *o)
{
    set_flags(o);
    if (!set_rank(d, o))
        return false;
    if (space(o, 0) == PTX_M_GLOBAL) {
        o->exec = tma_store;
        return want_tail(d, o, 2) && want_tensor(d, o, 0) &&
               decode_want_address(d, o, 1);
    }
    o->exec = tma_tensor_load;
    return want_tail(d, o, 3) && decode_want_address(d, o, 0) && want_tensor(d, o, 1) &&
           decode_want_address(d, o, 2);
}

bool decode_CP_ASYNC_BULK(struct decoder *d, struct op *o)
{
    set_flags(o);
    if (has(o, PTX_M_CP_MASK) || has(o, PTX_M_IGNORE_OOB))
        return decode_refuse(d, o, ".cp_mask and .ignore_oob");
    if (space(o, 0) == PTX_M_GLOBAL) {
        o->exec = tma_store;
        return want_tail(d, o, 3) && decode_want_address(d, o, 0) &&
               decode_want_address(d, o, 1) && decode_want_reg(d, o, 2, 32);
    }
    o->exec = space(o, 1) == PTX_M_GLOBAL ? tma_plain_load : tma_plain_to_cluster;
    return want_tail(d, o, 4) && decode_want_address(d, o, 0) &&
           decode_want_address(d, o, 1) && decode_want_reg(d, o, 2, 32) &&
           decode_want_address(d, o, 3);
}

static bool set_reduction(struct decoder *d, struct op *o)
{
    static const struct {
        enum ptx_mod mod;
        enum tma_reduction op;
    } ops[] = {
        {PTX_M_ADD, TMA_ADD}, {PTX_M_MIN, TMA_MIN}, {PTX_M_MAX, TMA_MAX},
        {PTX_M_INC, TMA_INC}, {PTX_M_DEC, TMA_DEC}, {PTX_M_AND, TMA_AND},
        {PTX_M_OR, TMA_OR},   {PTX_M_XOR, TMA_XOR},
    };
    o->aux[0] |= TMA_REDUCES;
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (has(o, ops[i].mod)) {
            o->aux[2] = ops[i].op;
            /* Clusters of several host threads would add in any order, and at once. */
            if (space(o, 0) == PTX_M_GLOBAL)
                decode_order_matters(d);
            return true;
        }
    return decode_refuse(d, o, "the operation, .add and so on, is missing");
}

bool decode_CP_REDUCE_ASYNC_BULK_TENSOR(struct decoder *d, struct op *o)
{
    set_flags(o);
    o->exec = tma_store;
    return set_rank(d, o) && set_reduction(d, o) && want_tail(d, o, 2) &&
           want_tensor(d, o, 0) && decode_want_address(d, o, 1);
}

bool decode_CP_REDUCE_ASYNC_BULK(struct decoder *d, struct op *o)
{
    static const struct {
        enum ptx_type ptx;
        enum tmap_type type;
    } types[] = {
        {PTX_T_B32, TMAP_U32}, {PTX_T_U32, TMAP_U32},   {PTX_T_S32, TMAP_S32},
        {PTX_T_B64, TMAP_U64}, {PTX_T_U64, TMAP_U64},   {PTX_T_S64, TMAP_S64},
        {PTX_T_F16, TMAP_F16}, {PTX_T_BF16, TMAP_BF16}, {PTX_T_F32, TMAP_F32},
        {PTX_T_F64, TMAP_F64},
    };
    bool known = false;
    set_flags(o);
    if (!set_reduction(d, o))
        return false;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].ptx == o->type) {
            o->aux[3] = types[i].type;
            known = tma_can_reduce((enum tma_reduction)o->aux[2], types[i].type);
        }
    if (!known)
        return decode_refuse(d, o, "there is no such reduction of this type");
    if (space(o, 0) == PTX_M_GLOBAL) {
        o->exec = tma_store;
        return want_tail(d, o, 3) && decode_want_address(d, o, 0) &&
               decode_want_address(d, o, 1) && decode_want_reg(d, o, 2, 32);
    }
    o->exec = tma_plain_to_cluster;
    return want_tail(d, o, 4) && decode_want_address(d, o, 0) &&
           decode_want_address(d, o, 1) && decode_want_reg(d, o, 2, 32) &&
           decode_want_address(d, o, 3);
}

bool decode_CP_ASYNC_BULK_PREFETCH_TENSOR(struct decoder *d, struct op *o)
{
    o->exec = tma_tensor_prefetch;
    return set_rank(d, o) && want_tail(d, o, 1) && want_tensor(d, o, 0);
}

bool decode_CP_ASYNC_BULK_PREFETCH(struct decoder *d, struct op *o)
{
    o->exec = tma_plain_prefetch;
    return want_tail(d, o, 2) && decode_want_address(d, o, 0) &&
           decode_want_reg(d, o, 1, 32);
}

bool decode_CP_ASYNC_BULK_COMMIT_GROUP(struct decoder *d, struct op *o)
{
    o->exec = tma_commit_group;
    return decode_want_count(d, o, 0, 0);
}

bool decode_CP_ASYNC_BULK_WAIT_GROUP(struct decoder *d, struct op *o)
{
    o->exec = tma_wait_group;
    return decode_want_count(d, o, 1, 1) && decode_want_reg(d, o, 0, 32);
}
