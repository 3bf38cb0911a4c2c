/* ir.c - the operations that are emitted: marks, constants, intrinsics, arithmetic. */
#include "gen/llvm/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

/* ---- marks */

static Value mark_in(struct emit *em, const char *name, LLVMTypeRef type)
{
    char *text = arena_printf(em->arena, "@in %s $0", name);
    const char *constraint = type == em->i64 ? "=l" : type == em->f32 ? "=f" : "=r";
    LLVMTypeRef f = LLVMFunctionType(type, NULL, 0, 0);
    Value mark = LLVMGetInlineAsm(f, text, strlen(text), constraint, strlen(constraint),
                                  1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(em->entry, f, mark, NULL, 0, "");
}

Value emit_in(struct emit *em, const char *name, LLVMTypeRef type)
{
    for (struct emit_in *in = em->ins; in; in = in->next)
        if (strcmp(in->name, name) == 0)
            return in->value;
    struct emit_in *in = ARENA_NEW(em->arena, struct emit_in);
    in->name = arena_strdup(em->arena, name);
    in->value = mark_in(em, name, type);
    in->next = em->ins;
    em->ins = in;
    return in->value;
}

void emit_out(struct emit *em, const char *name, Value v)
{
    char *text = arena_printf(em->arena, "@out %s $0", name);
    LLVMTypeRef type = LLVMTypeOf(v);
    const char *constraint = type == em->i64 ? "l" : type == em->f32 ? "f" : "r";
    LLVMTypeRef f = LLVMFunctionType(LLVMVoidTypeInContext(em->context), &type, 1, 0);
    Value mark = LLVMGetInlineAsm(f, text, strlen(text), constraint, strlen(constraint),
                                  1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(em->at, f, mark, &v, 1, "");
    if (em->step && em->block != EMIT_TILE)
        emit_made(em, v);
}

/* ---- operations */

Value emit_f32(struct emit *em, float x)
{
    return LLVMConstReal(em->f32, (double)x);
}

Value emit_i32(struct emit *em, uint32_t x)
{
    return LLVMConstInt(em->i32, x, 0);
}

Value emit_bits(struct emit *em, Value f)
{
    return LLVMBuildBitCast(em->at, f, em->i32, "");
}

Value emit_float(struct emit *em, Value i)
{
    return LLVMBuildBitCast(em->at, i, em->f32, "");
}

Value emit_call(struct emit *em, const char *intrinsic, LLVMTypeRef overload,
                Value *args, unsigned count)
{
    unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
    LLVMTypeRef *types = overload ? &overload : NULL;
    size_t type_count = overload ? 1 : 0;
    Value f = LLVMGetIntrinsicDeclaration(em->module, id, types, type_count);
    LLVMTypeRef type = LLVMIntrinsicGetType(em->context, id, types, type_count);
    return LLVMBuildCall2(em->at, type, f, args, count, "");
}

/* Those of nvvm have their type in the name. */
static LLVMTypeRef overload_of(const char *intrinsic, Value a)
{
    bool fixed = strncmp(intrinsic, "llvm.nvvm.", 10) == 0 &&
                 strcmp(intrinsic, "llvm.nvvm.ex2.approx.ftz") != 0;
    return fixed ? NULL : LLVMTypeOf(a);
}

Value emit_call1(struct emit *em, const char *intrinsic, Value a)
{
    return emit_call(em, intrinsic, overload_of(intrinsic, a), &a, 1);
}

Value emit_call2(struct emit *em, const char *intrinsic, Value a, Value b)
{
    Value args[] = {a, b};
    return emit_call(em, intrinsic, overload_of(intrinsic, a), args, 2);
}

Value emit_asm(struct emit *em, const char *text, const char *constraints,
               LLVMTypeRef result, Value *args, unsigned count)
{
    LLVMTypeRef types[16];
    for (unsigned i = 0; i < count; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef f = LLVMFunctionType(result, types, count, 0);
    Value code =
        LLVMGetInlineAsm(f, text, strlen(text), constraints, strlen(constraints), 0, 0,
                         LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(em->at, f, code, args, count, "");
}

Value emit_arith_one(struct emit *em, enum expr_op op, Value a, Value b, Value c)
{
    Value args[] = {a, b, c};
    switch (op) {
    case EXPR_ADD:
        return LLVMBuildFAdd(em->at, a, b, "");
    case EXPR_SUB:
        return LLVMBuildFSub(em->at, a, b, "");
    case EXPR_MUL:
        return LLVMBuildFMul(em->at, a, b, "");
    default:
        return emit_call(em, "llvm.fma", LLVMTypeOf(a), args, 3);
    }
}

static Value pair(struct emit *em, Value low, Value high)
{
    Value v = LLVMGetPoison(em->f32x2);
    v = LLVMBuildInsertElement(em->at, v, low, emit_i32(em, 0), "");
    return LLVMBuildInsertElement(em->at, v, high, emit_i32(em, 1), "");
}

void emit_arith(struct emit *em, enum expr_op op, int count, Value *a, Value *b,
                Value *c, Value *out)
{
    int i = 0;
    for (; em->packed_f32 && i + 1 < count; i += 2) {
        Value v = emit_arith_one(em, op, pair(em, a[i], a[i + 1]),
                                 b ? pair(em, b[i], b[i + 1]) : NULL,
                                 c ? pair(em, c[i], c[i + 1]) : NULL);
        out[i] = LLVMBuildExtractElement(em->at, v, emit_i32(em, 0), "");
        out[i + 1] = LLVMBuildExtractElement(em->at, v, emit_i32(em, 1), "");
    }
    for (; i < count; i++)
        out[i] = emit_arith_one(em, op, a[i], b ? b[i] : NULL, c ? c[i] : NULL);
}

Value emit_fold(struct emit *em, const char *intrinsic, Value *x, int count)
{
    while (count > 1) {
        int kept = 0;
        for (int i = 0; i < count; i += 3) {
            Value v = x[i];
            for (int k = i + 1; k < i + 3 && k < count; k++)
                v = emit_call2(em, intrinsic, v, x[k]);
            x[kept++] = v;
        }
        count = kept;
    }
    return x[0];
}

/* The 0 among them is for the block that has nothing but NaN. */
Value emit_amax(struct emit *em, Value *x, int count)
{
    Value *sizes = ARENA_ARRAY(em->arena, Value, (size_t)count + 1);
    for (int i = 0; i < count; i++)
        sizes[i] = emit_call1(em, "llvm.fabs", x[i]);
    sizes[count] = emit_f32(em, 0);
    return emit_fold(em, "llvm.maxnum", sizes, count + 1);
}
