/* convert.c - f32 into few bits: the hardware's conversions, and the same bits by
 * integer arithmetic.
 *
 * The integer path rounds by one float addition.  Let 2^x be the power of two below
 * |v|, but not less than the smallest normal number of the format.  With M = 2^(x + 23
 * - m), m mantissa bits, the last place of |v| + M is the format's, so that the
 * addition rounds to nearest even, and the low bits of the sum count last places. */
#include "gen/llvm/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

static const struct {
    enum expr_type type;
    int mantissa_bits, least_exponent, sign_shift; /* of bit 31 to the code's sign */
    float most;
    uint32_t feature; /* that has the conversion from f32 */
} narrow[] = {
    {EXPR_TYPE_E4M3, 3, -6, 24, 448.0f, FEAT_SM_89},
    {EXPR_TYPE_E5M2, 2, -14, 24, 57344.0f, FEAT_SM_89},
    {EXPR_TYPE_E2M1, 1, 0, 28, 6.0f, FEAT_CVT_E2M1},
};

static size_t row_of(enum expr_type t)
{
    size_t row = 0;
    while (narrow[row].type != t)
        row++;
    return row;
}

bool emit_uses_hardware(const struct emit *em, enum expr_type t, enum expr_path path)
{
    return path != EXPR_INTEGER && em->target->features & narrow[row_of(t)].feature;
}

/* ---- integer */

struct rounded {
    Value magic;      /* bits of M */
    Value sum;        /* |v| + M */
    Value step_above; /* x - least exponent, in units of 2^23 */
};

static struct rounded round_to_last_place(struct emit *em, size_t row, Value size)
{
    const uint32_t least = (uint32_t)(127 + narrow[row].least_exponent) << 23;
    const uint32_t shift = (uint32_t)(23 - narrow[row].mantissa_bits) << 23;
    Value exponent =
        LLVMBuildAnd(em->at, emit_bits(em, size), emit_i32(em, 0x7f800000), "");
    exponent = emit_call2(em, "llvm.umax", exponent, emit_i32(em, least));
    struct rounded r;
    r.step_above = LLVMBuildSub(em->at, exponent, emit_i32(em, least), "");
    r.magic = LLVMBuildAdd(em->at, exponent, emit_i32(em, shift), "");
    r.sum = LLVMBuildFAdd(em->at, size, emit_float(em, r.magic), "");
    return r;
}

Value emit_code(struct emit *em, enum expr_type t, Value x, Value *value)
{
    size_t row = row_of(t);
    const int m = narrow[row].mantissa_bits;
    const bool has_nan = t != EXPR_TYPE_E2M1; /* there NaN is +6 */
    Value most = emit_f32(em, narrow[row].most), size, sign_of = x;
    if (has_nan) {
        size = emit_call2(em, "llvm.minnum", emit_call1(em, "llvm.fabs", x), most);
    } else { /* twice, so that NaN becomes a positive number */
        sign_of = emit_call2(em, "llvm.minnum", x, most);
        sign_of =
            emit_call2(em, "llvm.maxnum", sign_of, emit_f32(em, -narrow[row].most));
        size = emit_call1(em, "llvm.fabs", sign_of);
    }
    struct rounded r = round_to_last_place(em, row, size);
    Value places = LLVMBuildSub(em->at, emit_bits(em, r.sum), r.magic, "");
    Value base =
        LLVMBuildLShr(em->at, r.step_above, emit_i32(em, (uint32_t)(23 - m)), "");
    Value code = LLVMBuildAdd(em->at, places, base, "");
    Value sign = LLVMBuildLShr(em->at, emit_bits(em, sign_of),
                               emit_i32(em, (uint32_t)narrow[row].sign_shift), "");
    sign = LLVMBuildAnd(em->at, sign, emit_i32(em, t == EXPR_TYPE_E2M1 ? 8 : 0x80), "");
    code = LLVMBuildOr(em->at, code, sign, "");
    if (value)
        *value = LLVMBuildFSub(em->at, r.sum, emit_float(em, r.magic), "");
    if (!has_nan)
        return code;
    Value is_nan = LLVMBuildFCmp(em->at, LLVMRealUNO, x, x, "");
    return LLVMBuildSelect(em->at, is_nan, emit_i32(em, 0x7f), code, "");
}

/* ---- hardware */

static Value two_halves(struct emit *em, Value low, Value high)
{
    LLVMTypeRef v2 = LLVMVectorType(em->i16, 2);
    Value v =
        LLVMBuildInsertElement(em->at, LLVMGetPoison(v2), low, emit_i32(em, 0), "");
    v = LLVMBuildInsertElement(em->at, v, high, emit_i32(em, 1), "");
    return LLVMBuildBitCast(em->at, v, em->i32, "");
}

static Value eight_e2m1(struct emit *em, Value *x)
{
    return emit_asm(em,
                    "{ .reg .b8 \tb0, b1, b2, b3;\n"
                    "\tcvt.rn.satfinite.e2m1x2.f32 \tb0, $2, $1;\n"
                    "\tcvt.rn.satfinite.e2m1x2.f32 \tb1, $4, $3;\n"
                    "\tcvt.rn.satfinite.e2m1x2.f32 \tb2, $6, $5;\n"
                    "\tcvt.rn.satfinite.e2m1x2.f32 \tb3, $8, $7;\n"
                    "\tmov.b32 \t$0, {b0, b1, b2, b3}; }",
                    "=r,f,f,f,f,f,f,f,f", em->i32, x, 8);
}

static Value four_fp8(struct emit *em, enum expr_type t, Value *x)
{
    const char *name =
        t == EXPR_TYPE_E4M3 ? "llvm.nvvm.ff.to.e4m3x2.rn" : "llvm.nvvm.ff.to.e5m2x2.rn";
    Value low = emit_call2(em, name, x[1], x[0]); /* the first one goes high */
    Value high = emit_call2(em, name, x[3], x[2]);
    return two_halves(em, low, high);
}

static Value two_16_bit(struct emit *em, enum expr_type t, Value low, Value high)
{
    const char *name =
        t == EXPR_TYPE_BF16 ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
    Value v = emit_call2(em, name, high, low);
    return LLVMBuildBitCast(em->at, v, em->i32, "");
}

/* ---- both */

Value emit_join_codes(struct emit *em, Value *codes, int count, int bits)
{
    Value word = codes[0];
    for (int i = 1; i < count; i++) {
        Value moved =
            LLVMBuildShl(em->at, codes[i], emit_i32(em, (uint32_t)(i * bits)), "");
        word = LLVMBuildOr(em->at, word, moved, "");
    }
    return word;
}

void emit_pack(struct emit *em, enum expr_type t, enum expr_path path, int count,
               Value *x, Value *words)
{
    if (t == EXPR_TYPE_BF16 || t == EXPR_TYPE_F16) {
        for (int i = 0; i < count / 2; i++)
            words[i] = two_16_bit(em, t, x[2 * i], x[2 * i + 1]);
        return;
    }
    const int bits = t == EXPR_TYPE_E2M1 ? 4 : 8, per_word = 32 / bits;
    for (int i = 0; i < count / per_word; i++) {
        Value *from = x + i * per_word;
        if (emit_uses_hardware(em, t, path)) {
            words[i] = bits == 4 ? eight_e2m1(em, from) : four_fp8(em, t, from);
            continue;
        }
        Value codes[8];
        for (int k = 0; k < per_word; k++)
            codes[k] = emit_code(em, t, from[k], NULL);
        words[i] = emit_join_codes(em, codes, per_word, bits);
    }
}

Value emit_round_trip(struct emit *em, enum expr_type t, Value x)
{
    if (t == EXPR_TYPE_BF16) {
        Value word = two_16_bit(em, t, x, emit_f32(em, 0));
        return emit_float(em, LLVMBuildShl(em->at, word, emit_i32(em, 16), ""));
    }
    if (t == EXPR_TYPE_F16) {
        Value word = two_16_bit(em, t, x, emit_f32(em, 0));
        Value low = LLVMBuildTrunc(em->at, word, em->i16, "");
        low = LLVMBuildBitCast(em->at, low, LLVMHalfTypeInContext(em->context), "");
        return LLVMBuildFPExt(em->at, low, em->f32, "");
    }
    size_t row = row_of(t);
    Value most = emit_f32(em, narrow[row].most), size, sign_of = x;
    if (t == EXPR_TYPE_E2M1) {
        sign_of = emit_call2(em, "llvm.minnum", x, most);
        sign_of =
            emit_call2(em, "llvm.maxnum", sign_of, emit_f32(em, -narrow[row].most));
        size = emit_call1(em, "llvm.fabs", sign_of);
    } else { /* NaN stays */
        size = emit_call2(em, "llvm.minimum", emit_call1(em, "llvm.fabs", x), most);
    }
    struct rounded r = round_to_last_place(em, row, size);
    Value v = LLVMBuildFSub(em->at, r.sum, emit_float(em, r.magic), "");
    return emit_call2(em, "llvm.copysign", v, sign_of);
}
