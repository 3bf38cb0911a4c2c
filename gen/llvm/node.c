/* node.c - one node of the expression: its values in a chunk. */
#include "gen/llvm/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

static LLVMTypeRef type_of(struct emit *em, enum expr_type t)
{
    return t == EXPR_F32 ? em->f32 : t == EXPR_PRED ? em->i1 : em->i32;
}

int emit_count(const struct emit *em, const struct expr_node *n)
{
    if (emit_is_column_free(n))
        return 1;
    int cols = emit_cols(em, n->columns);
    return n->shape == EXPR_SHAPE_BLOCK ? cols / n->block : cols;
}

static Value column_free_value(struct emit *em, const struct expr_node *n)
{
    if (n->op == EXPR_CONST) {
        if (n->type != EXPR_F32)
            return emit_i32(em, n->imm);
        float x;
        memcpy(&x, &n->imm, sizeof x);
        /* A NaN's bits do not survive the double of LLVMConstReal. */
        return LLVMConstBitCast(LLVMConstInt(em->i32, n->imm, 0), em->f32);
    }
    if (n->op == EXPR_ALPHA)
        return emit_in(em, em->names->alpha, em->f32);
    if (n->op == EXPR_ROWS)
        return emit_in(em, em->names->m, em->i32);
    if (n->op == EXPR_ROW)
        return emit_in(em, em->names->row, em->i32);
    if (n->op == EXPR_INPUT && em->e->inputs[n->imm].kind == EXPR_SCALAR)
        return emit_in(em, emit_arg_name(em, "arg", &em->e->inputs[n->imm]),
                       type_of(em, n->type));
    for (int i = 0; i < em->hoist_count; i++)
        if (em->hoists[i].node == n) {
            LLVMTypeRef type = n->type == EXPR_F32 ? em->f32 : em->i32;
            Value v = emit_in(em, emit_hoist_name(em, i), type);
            return n->type == EXPR_PRED
                       ? LLVMBuildICmp(em->at, LLVMIntNE, v, emit_i32(em, 0), "")
                       : v;
        }
    return NULL;
}

Value emit_value(struct emit *em, const struct expr_node *n, int i, int per)
{
    if (emit_is_column_free(n)) {
        if (!em->values[n->id]) {
            em->values[n->id] = ARENA_ARRAY(em->arena, Value, 1);
            em->values[n->id][0] = column_free_value(em, n);
        }
        return em->values[n->id][0];
    }
    int own = n->shape == EXPR_SHAPE_BLOCK ? n->block : 1;
    return em->values[n->id][i * per / own];
}

static Value shift(struct emit *em, const struct expr_node *n, Value a, Value amount)
{
    bool is_signed = n->type == EXPR_S32 && n->op == EXPR_SHR;
    if (is_signed) { /* 31 shifts in the sign everywhere */
        amount = emit_call2(em, "llvm.umin", amount, emit_i32(em, 31));
        return LLVMBuildAShr(em->at, a, amount, "");
    }
    Value fits = LLVMBuildICmp(em->at, LLVMIntULT, amount, emit_i32(em, 32), "");
    Value low = LLVMBuildAnd(em->at, amount, emit_i32(em, 31), "");
    Value v = n->op == EXPR_SHL ? LLVMBuildShl(em->at, a, low, "")
                                : LLVMBuildLShr(em->at, a, low, "");
    return LLVMBuildSelect(em->at, fits, v, emit_i32(em, 0), "");
}

static Value compare(struct emit *em, const struct expr_node *n, Value a, Value b)
{
    static const LLVMRealPredicate real[] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOGT,
                                             LLVMRealOGE, LLVMRealOEQ, LLVMRealUNE};
    static const LLVMIntPredicate is_signed[] = {LLVMIntSLT, LLVMIntSLE, LLVMIntSGT,
                                                 LLVMIntSGE, LLVMIntEQ,  LLVMIntNE};
    static const LLVMIntPredicate is_unsigned[] = {LLVMIntULT, LLVMIntULE, LLVMIntUGT,
                                                   LLVMIntUGE, LLVMIntEQ,  LLVMIntNE};
    int row = (int)n->op - (int)EXPR_LT;
    enum expr_type t = n->args[0]->type;
    if (t == EXPR_F32)
        return LLVMBuildFCmp(em->at, real[row], a, b, "");
    return LLVMBuildICmp(em->at, t == EXPR_S32 ? is_signed[row] : is_unsigned[row], a,
                         b, "");
}

static Value integer_arith(struct emit *em, const struct expr_node *n, Value a, Value b)
{
    bool is_signed = n->type == EXPR_S32;
    switch (n->op) {
    case EXPR_ADD:
        return LLVMBuildAdd(em->at, a, b, "");
    case EXPR_SUB:
        return LLVMBuildSub(em->at, a, b, "");
    case EXPR_MUL:
        return LLVMBuildMul(em->at, a, b, "");
    case EXPR_MIN:
        return emit_call2(em, is_signed ? "llvm.smin" : "llvm.umin", a, b);
    case EXPR_MAX:
        return emit_call2(em, is_signed ? "llvm.smax" : "llvm.umax", a, b);
    case EXPR_NEG:
        return LLVMBuildNeg(em->at, a, "");
    default: { /* ABS; of the lowest integer it is itself */
        if (!is_signed)
            return a;
        Value args[] = {a, LLVMConstInt(em->i1, 0, 0)};
        return emit_call(em, "llvm.abs", em->i32, args, 2);
    }
    }
}

static Value unary_f32(struct emit *em, enum expr_op op, Value a)
{
    switch (op) {
    case EXPR_NEG:
        return LLVMBuildFNeg(em->at, a, "");
    case EXPR_ABS:
        return emit_call1(em, "llvm.fabs", a);
    case EXPR_FLOOR:
        return emit_call1(em, "llvm.floor", a);
    case EXPR_CEIL:
        return emit_call1(em, "llvm.ceil", a);
    case EXPR_TRUNC:
        return emit_call1(em, "llvm.trunc", a);
    case EXPR_ROUND:
        return emit_call1(em, "llvm.roundeven", a);
    case EXPR_SQRT_RN:
        return emit_call1(em, "llvm.nvvm.sqrt.rn.f", a);
    case EXPR_EX2_APPROX:
        return emit_call1(em, "llvm.nvvm.ex2.approx.ftz", a);
    case EXPR_LG2_APPROX:
        return emit_call1(em, "llvm.nvvm.lg2.approx.ftz.f", a);
    case EXPR_RCP_APPROX:
        return emit_call1(em, "llvm.nvvm.rcp.approx.ftz.f", a);
    case EXPR_RSQRT_APPROX:
        return emit_call1(em, "llvm.nvvm.rsqrt.approx.ftz.f", a);
    case EXPR_SQRT_APPROX:
        return emit_call1(em, "llvm.nvvm.sqrt.approx.ftz.f", a);
    default: /* TANH_APPROX has no intrinsic that takes plain f32 */
        return emit_asm(em, "tanh.approx.f32 \t$0, $1;", "=f,f", em->f32, &a, 1);
    }
}

/* One value of a node whose arguments are a, b, c. */
static Value compute(struct emit *em, const struct expr_node *n, Value a, Value b,
                     Value c)
{
    bool is_f32 = n->type == EXPR_F32;
    switch (n->op) {
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
        return is_f32 ? emit_arith_one(em, n->op, a, b, c) : integer_arith(em, n, a, b);
    case EXPR_FMA:
        return emit_arith_one(em, n->op, a, b, c);
    case EXPR_DIV:
        return LLVMBuildFDiv(em->at, a, b, "");
    case EXPR_MIN:
        return is_f32 ? emit_call2(em, "llvm.minnum", a, b)
                      : integer_arith(em, n, a, b);
    case EXPR_MAX:
        return is_f32 ? emit_call2(em, "llvm.maxnum", a, b)
                      : integer_arith(em, n, a, b);
    case EXPR_MINIMUM:
        return emit_call2(em, "llvm.minimum", a, b);
    case EXPR_MAXIMUM:
        return emit_call2(em, "llvm.maximum", a, b);
    case EXPR_COPYSIGN:
        return emit_call2(em, "llvm.copysign", a, b);
    case EXPR_NEG:
    case EXPR_ABS:
        return is_f32 ? unary_f32(em, n->op, a) : integer_arith(em, n, a, NULL);
    case EXPR_FLOOR:
    case EXPR_CEIL:
    case EXPR_TRUNC:
    case EXPR_ROUND:
    case EXPR_SQRT_RN:
    case EXPR_EX2_APPROX:
    case EXPR_LG2_APPROX:
    case EXPR_RCP_APPROX:
    case EXPR_RSQRT_APPROX:
    case EXPR_SQRT_APPROX:
    case EXPR_TANH_APPROX:
        return unary_f32(em, n->op, a);
    case EXPR_AND:
        return LLVMBuildAnd(em->at, a, b, "");
    case EXPR_OR:
        return LLVMBuildOr(em->at, a, b, "");
    case EXPR_XOR:
        return LLVMBuildXor(em->at, a, b, "");
    case EXPR_NOT:
        return LLVMBuildNot(em->at, a, "");
    case EXPR_SHL:
    case EXPR_SHR:
        return shift(em, n, a, b);
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_EQ:
    case EXPR_NE:
        return compare(em, n, a, b);
    case EXPR_IS_NAN:
        return LLVMBuildFCmp(em->at, LLVMRealUNO, a, a, "");
    case EXPR_SELECT:
        return LLVMBuildSelect(em->at, a, b, c, "");
    case EXPR_TO_INT:
        return emit_call1(em, "llvm.nvvm.f2i.rn", a);
    case EXPR_TO_UINT:
        return emit_call1(em, "llvm.nvvm.f2ui.rn", a);
    case EXPR_INT_TO_FLOAT:
        return LLVMBuildSIToFP(em->at, a, em->f32, "");
    case EXPR_UINT_TO_FLOAT:
        return LLVMBuildUIToFP(em->at, a, em->f32, "");
    case EXPR_AS_INT:
    case EXPR_AS_UINT:
    case EXPR_TO_F32:
        return a;
    case EXPR_BITS:
        return emit_bits(em, a);
    case EXPR_FROM_BITS:
        return emit_float(em, a);
    default:
        return NULL; /* leaves and what emit_node() does itself */
    }
}

static void emit_reduction(struct emit *em, const struct expr_node *n, int first,
                           int end, Value *out)
{
    const struct expr_node *arg = n->args[0];
    Value *x = ARENA_ARRAY(em->arena, Value, (size_t)n->block);
    for (int b = first; b < end; b++) {
        for (int i = 0; i < n->block; i++) {
            int at = b * n->block + i;
            x[i] = emit_masked(em, n->columns, at, emit_value(em, arg, at, 1));
        }
        out[b] = n->op == EXPR_BLOCK_AMAX  ? emit_amax(em, x, n->block)
                 : n->op == EXPR_BLOCK_MAX ? emit_fold(em, "llvm.maxnum", x, n->block)
                                           : emit_fold(em, "llvm.minnum", x, n->block);
    }
}

/* Splitting and joining columns only renames values. */
static void emit_regrouped(struct emit *em, const struct expr_node *n, int first,
                           int end, Value *out)
{
    bool splits = n->op == EXPR_SPLIT;
    int group = (int)(splits ? n->imm / 2 : n->imm), half = (int)(n->imm % 2);
    for (int i = first; i < end; i++) {
        if (splits)
            out[i] = emit_value(em, n->args[0],
                                (i / group * 2 + half) * group + i % group, 1);
        else
            out[i] = emit_value(em, n->args[i / group % 2],
                                i / group / 2 * group + i % group, 1);
    }
}

void emit_node(struct emit *em, const struct expr_node *n, int first, int count)
{
    if (!em->values[n->id])
        em->values[n->id] = ARENA_ARRAY(em->arena, Value, (size_t)emit_count(em, n));
    Value *out = em->values[n->id];
    const int end = first + count, per = n->shape == EXPR_SHAPE_BLOCK ? n->block : 1;
    switch (n->op) {
    case EXPR_ACC:
        for (int i = first; i < end; i++) {
            const char *name = arena_printf(em->arena, "%s%d", em->names->v, i);
            out[i] = emit_in(em, name, em->f32);
            if (em->order)
                out[i] = emit_float(em, emit_behind(em, emit_bits(em, out[i])));
        }
        return;
    case EXPR_INPUT:
        emit_input(em, n, first, count, out);
        return;
    case EXPR_COLUMN:
    case EXPR_PAIR_COLUMN:
        for (int i = first; i < end; i++)
            out[i] = emit_column(em, n->columns, i);
        return;
    case EXPR_SPLIT:
    case EXPR_JOIN:
        emit_regrouped(em, n, first, end, out);
        return;
    case EXPR_BLOCK_AMAX:
    case EXPR_BLOCK_MAX:
    case EXPR_BLOCK_MIN:
        emit_reduction(em, n, first, end, out);
        return;
    case EXPR_WIDEN:
        for (int i = first; i < end; i++) {
            const struct expr_node *cast = n->args[0];
            Value x = emit_value(em, cast->args[0], i, per);
            out[i] = emit_round_trip(em, cast->type, x);
        }
        return;
    case EXPR_TO_BF16:
    case EXPR_TO_F16:
    case EXPR_TO_E4M3:
    case EXPR_TO_E5M2:
    case EXPR_TO_E2M1:
        return; /* done where it is used: packed for an output, or widened */
    default:
        break;
    }
    Value *args[3] = {NULL, NULL, NULL};
    for (int k = 0; k < n->arg_count; k++) {
        args[k] = ARENA_ARRAY(em->arena, Value, (size_t)count);
        for (int i = 0; i < count; i++)
            args[k][i] = emit_value(em, n->args[k], first + i, per);
    }
    bool paired = n->type == EXPR_F32 && (n->op == EXPR_ADD || n->op == EXPR_SUB ||
                                          n->op == EXPR_MUL || n->op == EXPR_FMA);
    if (paired) {
        emit_arith(em, n->op, count, args[0], args[1], args[2], out + first);
        return;
    }
    for (int i = 0; i < count; i++)
        out[first + i] =
            compute(em, n, args[0] ? args[0][i] : NULL, args[1] ? args[1][i] : NULL,
                    args[2] ? args[2][i] : NULL);
}
