/* input.c - columns, rows, and values from memory.
 *
 * Nothing outside a tensor is read: in a chunk that is inside N whole vectors are
 * loaded, in a tail element by element with the index held at the last one; rows from M
 * on read row M - 1. */
#include "gen/llvm/emit.h"

typedef LLVMValueRef Value;

int emit_cols(const struct emit *em, enum expr_columns c)
{
    return c == EXPR_PAIRS ? em->chunk / 2 : em->chunk;
}

/* First column of the chunk, or N, counted in tile columns or pairs. */
static Value in_columns(struct emit *em, const char *name, enum expr_columns c)
{
    Value v = emit_behind(em, emit_in(em, name, em->i32));
    return c == EXPR_PAIRS ? LLVMBuildLShr(em->at, v, emit_i32(em, 1), "") : v;
}

Value emit_column(struct emit *em, enum expr_columns c, int i)
{
    return LLVMBuildAdd(em->at, in_columns(em, em->names->col, c),
                        emit_i32(em, (uint32_t)i), "");
}

Value emit_masked(struct emit *em, enum expr_columns c, int i, Value x)
{
    if (em->block != EMIT_TAIL)
        return x;
    Value inside = LLVMBuildICmp(em->at, LLVMIntULT, emit_column(em, c, i),
                                 in_columns(em, em->names->n, c), "");
    return LLVMBuildSelect(em->at, inside, x, emit_f32(em, 0), "");
}

Value emit_row_inside(struct emit *em)
{
    Value m = emit_in(em, em->names->m, em->i32);
    Value last = LLVMBuildSub(em->at, m, emit_i32(em, 1), "");
    return emit_call2(em, "llvm.umin", emit_in(em, em->names->row, em->i32), last);
}

Value emit_wide(struct emit *em, Value i)
{
    return LLVMBuildZExt(em->at, i, em->i64, "");
}

const char *emit_arg_name(struct emit *em, const char *kind,
                          const struct expr_input *in)
{
    return arena_printf(em->arena, "%s_%s", kind, in->name);
}

static int elem_bytes(const struct expr_input *in)
{
    return in->type >= EXPR_TYPE_BF16 ? 2 : 4;
}

static Value element_address(struct emit *em, const struct expr_input *in, Value base,
                             Value index)
{
    const unsigned long long bytes = (unsigned long long)elem_bytes(in);
    Value offset =
        LLVMBuildMul(em->at, emit_wide(em, index), LLVMConstInt(em->i64, bytes, 0), "");
    return LLVMBuildAdd(em->at, base, offset, "");
}

static Value load(struct emit *em, LLVMTypeRef type, Value address,
                  unsigned align_bytes)
{
    Value p = LLVMBuildIntToPtr(em->at, address, em->pointer, "");
    Value v = LLVMBuildLoad2(em->at, type, p, "");
    LLVMSetAlignment(v, align_bytes);
    return v;
}

static Value widened_half(struct emit *em, Value half)
{
    half = LLVMBuildBitCast(em->at, half, LLVMHalfTypeInContext(em->context), "");
    return LLVMBuildFPExt(em->at, half, em->f32, "");
}

static Value load_one(struct emit *em, const struct expr_input *in, Value base,
                      Value index)
{
    Value at = element_address(em, in, base, index);
    if (elem_bytes(in) == 4)
        return load(em, in->type == EXPR_F32 ? em->f32 : em->i32, at, 4);
    Value v = load(em, em->i16, at, 2);
    if (in->type == EXPR_TYPE_F16)
        return widened_half(em, v);
    v = LLVMBuildZExt(em->at, v, em->i32, "");
    return emit_float(em, LLVMBuildShl(em->at, v, emit_i32(em, 16), ""));
}

/* Element(s) of a 32-bit word. */
static void unpack_word(struct emit *em, const struct expr_input *in, Value word,
                        Value *out)
{
    if (in->type == EXPR_F32) {
        out[0] = emit_float(em, word);
    } else if (in->type == EXPR_TYPE_BF16) {
        out[0] = emit_float(em, LLVMBuildShl(em->at, word, emit_i32(em, 16), ""));
        out[1] =
            emit_float(em, LLVMBuildAnd(em->at, word, emit_i32(em, 0xffff0000u), ""));
    } else if (in->type == EXPR_TYPE_F16) {
        Value high = LLVMBuildLShr(em->at, word, emit_i32(em, 16), "");
        out[0] = widened_half(em, LLVMBuildTrunc(em->at, word, em->i16, ""));
        out[1] = widened_half(em, LLVMBuildTrunc(em->at, high, em->i16, ""));
    } else {
        out[0] = word;
    }
}

int emit_input_unit(const struct emit *em, const struct expr_node *n)
{
    if (em->block == EMIT_TAIL)
        return 1;
    return 16 / elem_bytes(&em->e->inputs[n->imm]);
}

/* Elements from..to - 1 of a row, counted from the chunk's first column, 16 bytes at a
 * time. */
static void load_row(struct emit *em, const struct expr_input *in, Value base, int from,
                     int to, Value *out)
{
    const int per_word = 4 / elem_bytes(in);
    if (em->block == EMIT_TAIL) {
        Value n = in_columns(em, em->names->n, in->columns);
        Value last = LLVMBuildSub(em->at, n, emit_i32(em, 1), "");
        for (int i = from; i < to; i++) {
            Value at =
                emit_call2(em, "llvm.umin", emit_column(em, in->columns, i), last);
            out[i] = load_one(em, in, base, at);
        }
        return;
    }
    Value first =
        element_address(em, in, base, in_columns(em, em->names->col, in->columns));
    for (int i = from; i < to; i += 4 * per_word) {
        const unsigned offset = (unsigned)i * (unsigned)elem_bytes(in);
        Value at = LLVMBuildAdd(em->at, first, LLVMConstInt(em->i64, offset, 0), "");
        Value v = load(em, LLVMVectorType(em->i32, 4), at, 16);
        for (uint32_t k = 0; k < 4; k++) {
            Value word = LLVMBuildExtractElement(em->at, v, emit_i32(em, k), "");
            unpack_word(em, in, word, out + i + (int)k * per_word);
        }
    }
}

void emit_input(struct emit *em, const struct expr_node *n, int first, int count,
                Value *out)
{
    const struct expr_input *in = &em->e->inputs[n->imm];
    const int end = first + count;
    if (in->kind == EXPR_AUX) {
        load_row(em, in, emit_hoisted_row(em, (int)n->imm), first, end, out);
        return;
    }
    Value base = emit_in(em, emit_arg_name(em, "arg", in), em->i64);
    if (in->kind == EXPR_VEC_COL)
        load_row(em, in, base, first, end, out);
    else
        out[0] = load_one(em, in, base, emit_row_inside(em));
}
