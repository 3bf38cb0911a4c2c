/* convert.c - f32 into few bits: the hardware's conversions, and the same bits by
 * integer arithmetic.
 *
 * The integer path rounds by one float addition.  Let 2^x be the power of two below
 * |v|, but not less than the smallest normal number of the format.  With M = 2^(x + 23
 * - m), m mantissa bits, the last place of |v| + M is the format's, so that the
 * addition rounds to nearest even, and the low bits of the sum count last places.
 *
 * E2M1 in eights does without the exponent.  Its code is rn(min(2a, a + 2, a / 2 + 4)),
 * a = |v|, and rn is an even number of last places at every tie, as it must be; each of
 * the three lines is rounded by one fma, the least of the three is the code, and 7 of
 * all that is larger.  The sum of codes times 16^i is a word. */
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

/* ---- eight E2M1 codes by integer arithmetic */

/* Times 2: exact, and the NaN of arithmetic is positive, as its code, 7, must be. */
static Value doubled(struct emit *em, Value x)
{
    return LLVMBuildFMul(em->at, x, emit_f32(em, 2), "");
}

/* The code plus the bits of `magic`. */
static Value code_and_magic(struct emit *em, Value twice, float magic, bool is_bounded)
{
    static const struct {
        float slope, start;
    } lines[] = {{1, 0}, {0.5f, 2}, {0.25f, 4}};
    Value size = emit_call1(em, "llvm.fabs", twice);
    Value least = is_bounded ? NULL : emit_f32(em, magic + 7);
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        Value start = emit_f32(em, magic + lines[i].start);
        Value slope = emit_f32(em, lines[i].slope);
        Value line = i == 0 ? emit_arith_one(em, EXPR_ADD, size, start, NULL)
                            : emit_arith_one(em, EXPR_FMA, size, slope, start);
        least = least ? emit_call2(em, "llvm.minnum", line, least) : line;
    }
    return emit_bits(em, least);
}

/* word * 16 + code, in assembly: LLVM would make two shifts and two additions of it. */
static Value shifted_sum(struct emit *em, Value word, Value code)
{
    Value args[] = {word, code};
    return emit_asm(em, "mad.lo.s32 \t$0, $1, 16, $2;", "=r,r,r", em->i32, args, 2);
}

/* Of eight values, or (is_doubled) of numbers below 14 that are twice the values. */
static Value eight_codes(struct emit *em, Value *x, bool is_doubled)
{
    const float magic = 0x1.8p23f;
    const uint32_t magic_bits = 0x4b400000, signs_of = 0x88888888;
    Value word = NULL, signs = emit_i32(em, 0);
    uint32_t magic_sum = 0;
    for (int i = 7; i >= 0; i--) {
        Value twice = is_doubled ? x[i] : doubled(em, x[i]);
        Value code = code_and_magic(em, twice, magic, is_doubled);
        Value three[] = {signs, emit_bits(em, twice), emit_i32(em, 4)};
        signs = emit_call(em, "llvm.fshl", em->i32, three, 3); /* the top four bits */
        word = word ? shifted_sum(em, word, code) : code;
        magic_sum = magic_sum * 16 + magic_bits;
    }
    word = LLVMBuildSub(em->at, word, emit_i32(em, magic_sum), "");
    signs = LLVMBuildAnd(em->at, signs, emit_i32(em, signs_of), "");
    return LLVMBuildOr(em->at, word, signs, "");
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

void emit_pack_doubled(struct emit *em, int count, Value *twice, Value *words)
{
    for (int i = 0; i < count / 8; i++)
        words[i] = eight_codes(em, twice + 8 * i, true);
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
        if (bits == 4) {
            words[i] = eight_codes(em, from, false);
            continue;
        }
        Value codes[4];
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
