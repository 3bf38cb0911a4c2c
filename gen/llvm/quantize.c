/* quantize.c - outputs with block scales, by the definition of docs/epilogues.md:
 *
 *   NVFP4   t = fl(fl(amax * fl(1/6)) / global)   scale = e4m3(t)   d = fl(scale *
 * global) code = e2m1(fl(x / d)), 0 where the scale is 0 MX      scale = a power of two
 * s              code = e2m1 or fp8 of x / s
 *
 * fl(x / d) without a division for each value: y = fl(1/d), q = fl(x y),
 * r = fl(d q - x), fl(x / d) = fl(q - r y), the two last ones fma.  That is exact as
 * long as nothing over- or underflows; tests/t_lower_fp4.c tries every d at every place
 * where the code changes.  d q - x instead of x - d q keeps the sign of zeros.
 *
 * The integer path wants 2 x / d, that is x / (d / 2), of sizes below 14 and without
 * NaN (emit_pack_doubled); a block that is not like that, which is rare, is made so. */
#include "gen/llvm/emit.h"

#include <math.h>
#include <string.h>

typedef LLVMValueRef Value;

enum {
    MAX_COLS = 64,
    MAX_BLOCKS = 4,
};

/* |x / d| up to this needs no limit: it is less than 7, and has the code of 6. */
static const float most_times = 6.5f;

struct blocks {
    int output, first, cols, count, block; /* first column; block: columns of one */
    bool is_last;                          /* has it the chunk's last column? */
    const struct expr_output *o;
    Value x[MAX_COLS];
    Value amax[MAX_BLOCKS];
    bool is_doubled; /* see emit_is_doubled() */
};

static LLVMBasicBlockRef new_block(struct emit *em)
{
    return LLVMAppendBasicBlockInContext(em->context, em->function, "");
}

static Value phi(struct emit *em, Value a, LLVMBasicBlockRef from_a, Value b,
                 LLVMBasicBlockRef from_b)
{
    Value v = LLVMBuildPhi(em->at, LLVMTypeOf(a), "");
    LLVMAddIncoming(v, &a, &from_a, 1);
    LLVMAddIncoming(v, &b, &from_b, 1);
    return v;
}

static void find_amax(struct emit *em, struct blocks *s, Value *amax)
{
    for (int b = 0; b < s->count; b++)
        amax[b] = emit_amax(em, s->x + b * s->block, s->block);
}

bool emit_is_doubled(const struct emit *em, const struct expr_output *o)
{
    return o->format == EXPR_OUT_NVFP4 && o->rounding == EXPR_NEAREST &&
           !o->reciprocal && !emit_uses_hardware(em, EXPR_TYPE_E2M1, o->path);
}

static void open_blocks(struct emit *em, struct blocks *s, int output, int first,
                        int cols)
{
    const struct expr_output *o = &em->e->outputs[output];
    enum expr_columns c = o->value->columns;
    *s = (struct blocks){.output = output, .o = o, .first = first, .cols = cols};
    s->is_last = first + cols == emit_cols(em, c);
    s->block = expr_scale_block(o->format);
    s->count = s->cols / s->block;
    for (int i = 0; i < s->cols; i++)
        s->x[i] = emit_masked(em, c, first + i, emit_value(em, o->value, first + i, 1));
    s->is_doubled = emit_is_doubled(em, o);
    if (!s->is_doubled) /* else it is looked at more closely */
        find_amax(em, s, s->amax);
}

/* The bytes of all blocks, four to a word; rows from M on are padding and get 0. */
static void out_scales(struct emit *em, const struct blocks *s, Value *bytes)
{
    Value *all = em->scales[s->output];
    const int before = s->first / s->block;
    memcpy(all + before, bytes, (size_t)s->count * sizeof *bytes);
    if (!s->is_last)
        return;
    Value word = emit_join_codes(em, all, before + s->count, 8);
    word = LLVMBuildSelect(em->at, emit_value(em, s->o->row_ok, 0, 1), word,
                           emit_i32(em, 0), "");
    emit_out(em, arena_printf(em->arena, "o%d_s0", s->output), word);
}

/* is_zero NULL: never. */
static void out_words(struct emit *em, const struct blocks *s, int word, int count,
                      Value *words, Value is_zero)
{
    const int at = s->first * expr_bits(s->o->format) / 32 + word;
    for (int i = 0; i < count; i++) {
        Value v = words[i];
        if (is_zero)
            v = LLVMBuildSelect(em->at, is_zero, emit_i32(em, 0), v, "");
        emit_out(em, arena_printf(em->arena, "o%d_w%d", s->output, at + i), v);
    }
}

static void splat(Value *to, Value v, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = v;
}

/* ---- E2M1 codes of a block */

/* To half steps first: a sum with 1.5 * 2^22 has a last place of 0.5. */
static Value to_half_steps(struct emit *em, Value x)
{
    Value most = emit_f32(em, 6), magic = emit_f32(em, 0x1.8p22f);
    Value v = emit_call2(em, "llvm.minnum", x, most);
    v = emit_call2(em, "llvm.maxnum", v, emit_f32(em, -6));
    Value size = emit_call1(em, "llvm.fabs", v);
    size = LLVMBuildFAdd(em->at, size, magic, "");
    size = LLVMBuildFSub(em->at, size, magic, "");
    return emit_call2(em, "llvm.copysign", size, v);
}

static Value scramble(struct emit *em, Value x)
{
    static const struct {
        uint32_t shift, factor;
    } steps[] = {{16, 0x7feb352du}, {15, 0x846ca68bu}, {16, 1}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        Value high = LLVMBuildLShr(em->at, x, emit_i32(em, steps[i].shift), "");
        x = LLVMBuildXor(em->at, x, high, "");
        x = LLVMBuildMul(em->at, x, emit_i32(em, steps[i].factor), "");
    }
    return x;
}

/* 32 random bits for columns 2p and 2p + 1 of the output. */
static Value random_bits(struct emit *em, const struct blocks *s, int i)
{
    bool pairs = s->o->value->columns == EXPR_PAIRS;
    Value p = emit_in(em, em->names->col, em->i32);
    p = LLVMBuildLShr(em->at, p, emit_i32(em, pairs ? 2 : 1), "");
    p = LLVMBuildAdd(em->at, p, emit_i32(em, (uint32_t)(s->first + i) / 2), "");
    p = LLVMBuildMul(em->at, p, emit_i32(em, 0x85ebca77u), "");
    return scramble(em,
                    LLVMBuildAdd(em->at, emit_value(em, s->o->row_hash, 0, 1), p, ""));
}

/* Of the two values around x the upper one with a probability of x's distance to the
 * lower one, in 65536ths. */
static Value stochastic_code(struct emit *em, Value x, Value random16)
{
    const uint32_t one = 127u << 23;
    Value v = emit_call2(em, "llvm.minnum", x, emit_f32(em, 6));
    v = emit_call2(em, "llvm.maxnum", v, emit_f32(em, -6));
    Value size = emit_call1(em, "llvm.fabs", v);
    Value exponent =
        LLVMBuildAnd(em->at, emit_bits(em, size), emit_i32(em, 0x7f800000), "");
    exponent = emit_call2(em, "llvm.umax", exponent, emit_i32(em, one));
    /* 2^(17 - exponent): steps of half the power of two, 16 bits of fraction */
    Value factor =
        LLVMBuildSub(em->at, emit_i32(em, 2 * one + (17u << 23)), exponent, "");
    Value steps = LLVMBuildFMul(em->at, size, emit_float(em, factor), "");
    Value fixed = emit_call1(em, "llvm.nvvm.f2ui.rz", steps);
    Value count = LLVMBuildAdd(em->at, fixed, random16, "");
    count = LLVMBuildLShr(em->at, count, emit_i32(em, 16), "");
    Value base = LLVMBuildSub(em->at, exponent, emit_i32(em, one), "");
    base = LLVMBuildLShr(em->at, base, emit_i32(em, 22), "");
    Value code = LLVMBuildAdd(em->at, count, base, "");
    Value sign = LLVMBuildLShr(em->at, emit_bits(em, v), emit_i32(em, 28), "");
    sign = LLVMBuildAnd(em->at, sign, emit_i32(em, 8), "");
    return LLVMBuildOr(em->at, code, sign, "");
}

static void stochastic_words(struct emit *em, const struct blocks *s, int first,
                             Value *q, Value *words)
{
    for (int w = 0; w < s->block / 8; w++) {
        Value codes[8];
        for (int k = 0; k < 8; k += 2) {
            Value bits = random_bits(em, s, first + w * 8 + k);
            Value low = LLVMBuildAnd(em->at, bits, emit_i32(em, 0xffff), "");
            Value high = LLVMBuildLShr(em->at, bits, emit_i32(em, 16), "");
            codes[k] = stochastic_code(em, q[w * 8 + k], low);
            codes[k + 1] = stochastic_code(em, q[w * 8 + k + 1], high);
        }
        words[w] = emit_join_codes(em, codes, 8, 4);
    }
}

/* q: the scaled values of block b. */
static void out_e2m1(struct emit *em, const struct blocks *s, int b, Value *q,
                     Value is_zero)
{
    Value words[MAX_COLS / 8];
    const int count = s->block / 8;
    if (s->o->rounding == EXPR_STOCHASTIC) {
        stochastic_words(em, s, b * s->block, q, words);
    } else {
        for (int i = 0; s->o->rounding == EXPR_HALFSTEP && i < s->block; i++)
            q[i] = to_half_steps(em, q[i]);
        if (s->is_doubled)
            emit_pack_doubled(em, s->block, q, words);
        else
            emit_pack(em, EXPR_TYPE_E2M1, s->o->path, s->block, q, words);
    }
    out_words(em, s, b * count, count, words, is_zero);
}

/* ---- NVFP4 */

/* Codes (i32) and values (f32) of the scales t, whose sign bits are clear. */
static void hardware_scales(struct emit *em, int count, Value *t, Value *codes,
                            Value *values)
{
    for (int b = 0; b < count; b += 2) {
        bool two = b + 1 < count;
        Value low = t[b], high = two ? t[b + 1] : emit_f32(em, 0);
        Value both = emit_call2(em, "llvm.nvvm.ff.to.e4m3x2.rn", high, low);
        Value halves = emit_call1(em, "llvm.nvvm.e4m3x2.to.f16x2.rn", both);
        Value wide = LLVMBuildZExt(em->at, both, em->i32, "");
        for (int k = 0; k < 1 + two; k++) {
            Value half =
                LLVMBuildExtractElement(em->at, halves, emit_i32(em, (uint32_t)k), "");
            values[b + k] = LLVMBuildFPExt(em->at, half, em->f32, "");
            Value code =
                LLVMBuildLShr(em->at, wide, emit_i32(em, (uint32_t)(8 * k)), "");
            if (two) /* else the other half is the code of 0 */
                code = LLVMBuildAnd(em->at, code, emit_i32(em, 0xff), "");
            codes[b + k] = code;
        }
    }
}

static void integer_scales(struct emit *em, int count, Value *t, Value *codes,
                           Value *values)
{
    for (int b = 0; b < count; b++) {
        Value size = t[b], value;
        codes[b] = emit_code(em, EXPR_TYPE_E4M3, size, &value);
        Value is_nan = LLVMBuildFCmp(em->at, LLVMRealUNO, size, size, "");
        values[b] = LLVMBuildSelect(em->at, is_nan, size, value, "");
    }
}

/* |x / d| of larger ones is cut; if NaN must stay one, far above 6. */
static Value cut(struct emit *em, const struct blocks *s, Value x, Value d)
{
    Value limit = emit_f32(em, s->is_doubled ? most_times : 0x1p20f);
    Value most = LLVMBuildFMul(em->at, d, limit, "");
    Value least = LLVMBuildFNeg(em->at, most, "");
    if (s->is_doubled) { /* NaN becomes `most` */
        x = emit_call2(em, "llvm.minnum", x, most);
        return emit_call2(em, "llvm.maxnum", x, least);
    }
    x = emit_call2(em, "llvm.minimum", x, most);
    return emit_call2(em, "llvm.maximum", x, least);
}

/* Brings d and x of every block to where the quotient is exact; what underflows is far
 * below 1/4.  x takes over a sign of d, that of a negative global scale.  d that is 0,
 * infinite or NaN becomes 1, and x what x / d is: x times infinity, 0 or NaN. */
static void scale_to_safety(struct emit *em, const struct blocks *s, Value *d, Value *x)
{
    for (int b = 0; b < s->count; b++) {
        Value sign_of = d[b], size = emit_call1(em, "llvm.fabs", d[b]);
        Value is_small =
            LLVMBuildFCmp(em->at, LLVMRealOLT, size, emit_f32(em, 0x1p-64f), "");
        Value is_large =
            LLVMBuildFCmp(em->at, LLVMRealOGT, size, emit_f32(em, 0x1p64f), "");
        Value is_some = LLVMBuildAnd(
            em->at, LLVMBuildFCmp(em->at, LLVMRealOGT, size, emit_f32(em, 0), ""),
            LLVMBuildFCmp(em->at, LLVMRealOLT, size, emit_f32(em, INFINITY), ""), "");
        Value factor = LLVMBuildSelect(em->at, is_large, emit_f32(em, 0x1p-80f),
                                       emit_f32(em, 1), "");
        factor = LLVMBuildSelect(em->at, is_small, emit_f32(em, 0x1p80f), factor, "");
        Value inverse = emit_call1(em, "llvm.nvvm.rcp.approx.ftz.f", size);
        factor = LLVMBuildSelect(em->at, is_some, factor, inverse, "");
        Value scaled = LLVMBuildFMul(em->at, size, factor, "");
        d[b] = LLVMBuildSelect(em->at, is_some, scaled, emit_f32(em, 1), "");
        factor = emit_call2(em, "llvm.copysign", factor, sign_of);
        for (int i = b * s->block; i < (b + 1) * s->block; i++)
            x[i] = cut(em, s, LLVMBuildFMul(em->at, x[i], factor, ""), d[b]);
    }
}

/* Almost always nothing; a branch that no thread takes costs less than caution. */
static void make_safe(struct emit *em, struct blocks *s, Value *d)
{
    Value amax[MAX_BLOCKS];
    memcpy(amax, s->amax, sizeof amax);
    Value most = emit_fold(em, "llvm.maxnum", amax, s->count);
    Value is_safe = LLVMBuildFCmp(em->at, LLVMRealOLE, most, emit_f32(em, 0x1p64f), "");
    is_safe = LLVMBuildAnd(em->at, is_safe, emit_value(em, s->o->global_ok, 0, 1), "");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(em->at);
    LLVMBasicBlockRef rare = new_block(em), next = new_block(em);
    LLVMBuildCondBr(em->at, is_safe, next, rare);
    LLVMPositionBuilderAtEnd(em->at, rare);
    Value rare_d[MAX_BLOCKS], rare_x[MAX_COLS];
    memcpy(rare_d, d, sizeof rare_d);
    memcpy(rare_x, s->x, sizeof rare_x);
    scale_to_safety(em, s, rare_d, rare_x);
    LLVMBuildBr(em->at, next);
    LLVMPositionBuilderAtEnd(em->at, next);
    for (int b = 0; b < s->count; b++)
        d[b] = phi(em, d[b], here, rare_d[b], rare);
    for (int i = 0; i < s->cols; i++)
        s->x[i] = phi(em, s->x[i], here, rare_x[i], rare);
}

/* fl(1 / d) of a d that is neither huge nor tiny, as the division does it there. */
static Value reciprocal(struct emit *em, Value d)
{
    Value y = emit_call1(em, "llvm.nvvm.rcp.approx.ftz.f", d);
    Value minus_d = LLVMBuildFNeg(em->at, d, "");
    Value rest = emit_arith_one(em, EXPR_FMA, y, minus_d, emit_f32(em, 1));
    return emit_arith_one(em, EXPR_FMA, y, rest, y);
}

/* q[i] = fl(x[i] / d), see the top; or fl(x[i] * y). */
static void quotients(struct emit *em, int count, Value *x, Value d, Value y,
                      bool exact, Value *q)
{
    Value ds[MAX_COLS], ys[MAX_COLS], minus_x[MAX_COLS], rest[MAX_COLS];
    splat(ys, y, count);
    emit_arith(em, EXPR_MUL, count, x, ys, NULL, q);
    if (!exact)
        return;
    splat(ds, d, count);
    for (int i = 0; i < count; i++)
        minus_x[i] = LLVMBuildFNeg(em->at, x[i], "");
    emit_arith(em, EXPR_FMA, count, ds, q, minus_x, rest);
    splat(ys, LLVMBuildFNeg(em->at, y, ""), count);
    emit_arith(em, EXPR_FMA, count, rest, ys, q, q);
}

/* Codes of the scales t, and d = scale * global. */
static void find_scales(struct emit *em, const struct blocks *s, Value *t, Value global,
                        Value *codes, Value *d)
{
    Value scales[MAX_BLOCKS];
    if (emit_uses_hardware(em, EXPR_TYPE_E4M3, s->o->path))
        hardware_scales(em, s->count, t, codes, scales);
    else
        integer_scales(em, s->count, t, codes, scales);
    for (int b = 0; b < s->count; b++)
        d[b] = LLVMBuildFMul(em->at, scales[b], global, "");
}

static Value sixth(struct emit *em, Value amax)
{
    return LLVMBuildFMul(em->at, amax, emit_f32(em, 0x1.555556p-3f), "");
}

/* A negative global scale, or a NaN, has a sign. */
static void divide_by_global(struct emit *em, const struct blocks *s, Value *t)
{
    Value global = emit_value(em, s->o->global, 0, 1);
    for (int b = 0; b < s->count; b++) {
        t[b] = LLVMBuildFDiv(em->at, sixth(em, s->amax[b]), global, "");
        t[b] = emit_call1(em, "llvm.fabs", t[b]);
    }
}

static void out_blocks(struct emit *em, struct blocks *s, Value *d, Value *codes)
{
    for (int b = 0; b < s->count; b++) {
        Value y, q[MAX_COLS];
        Value is_zero = LLVMBuildICmp(em->at, LLVMIntEQ, codes[b], emit_i32(em, 0), "");
        if (s->o->reciprocal)
            y = LLVMBuildFDiv(em->at, emit_f32(em, 1), d[b], "");
        else
            y = reciprocal(em, d[b]);
        quotients(em, s->block, s->x + b * s->block, d[b], y, !s->o->reciprocal, q);
        out_e2m1(em, s, b, q, is_zero);
    }
}

static Value halved(struct emit *em, Value x)
{
    return LLVMBuildFMul(em->at, x, emit_f32(em, 0.5f), "");
}

/* As if nothing were odd: NaN shows in the maximum, which is divided by `global` as x
 * is by d.  Then one comparison a block says whether that was right.  d is halved. */
static Value guess_scales(struct emit *em, struct blocks *s, Value *codes, Value *d)
{
    Value sizes[MAX_COLS], all[MAX_BLOCKS], t[MAX_BLOCKS];
    Value global = emit_value(em, s->o->global, 0, 1);
    Value inverse = emit_hoisted_inverse(em, s->o);
    for (int b = 0; b < s->count; b++) {
        for (int i = 0; i < s->block; i++)
            sizes[i] = emit_call1(em, "llvm.fabs", s->x[b * s->block + i]);
        all[b] = s->amax[b] = emit_fold(em, "llvm.maximum", sizes, s->block);
        Value part = sixth(em, s->amax[b]);
        quotients(em, 1, &part, global, inverse, true, &t[b]);
    }
    find_scales(em, s, t, halved(em, global), codes, d);
    Value most = emit_fold(em, "llvm.maximum", all, s->count);
    Value is_right =
        LLVMBuildFCmp(em->at, LLVMRealOLE, most, emit_f32(em, 0x1p64f), "");
    is_right =
        LLVMBuildAnd(em->at, is_right, emit_value(em, s->o->global_ok, 0, 1), "");
    for (int b = 0; b < s->count; b++) {
        Value limit = LLVMBuildFMul(em->at, d[b], emit_f32(em, 2 * most_times), "");
        Value is_below = LLVMBuildFCmp(em->at, LLVMRealOLE, s->amax[b], limit, "");
        is_right = LLVMBuildAnd(em->at, is_right, is_below, "");
    }
    return is_right;
}

static void emit_doubled(struct emit *em, struct blocks *s)
{
    Value codes[MAX_BLOCKS], d[MAX_BLOCKS], t[MAX_BLOCKS];
    Value is_right = guess_scales(em, s, codes, d);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(em->at);
    LLVMBasicBlockRef rare = new_block(em), next = new_block(em);
    LLVMBuildCondBr(em->at, is_right, next, rare);
    LLVMPositionBuilderAtEnd(em->at, rare);
    Value rare_codes[MAX_BLOCKS], rare_d[MAX_BLOCKS], rare_x[MAX_COLS];
    find_amax(em, s, s->amax);
    divide_by_global(em, s, t);
    find_scales(em, s, t, emit_value(em, s->o->global, 0, 1), rare_codes, rare_d);
    memcpy(rare_x, s->x, sizeof rare_x);
    scale_to_safety(em, s, rare_d, rare_x);
    for (int b = 0; b < s->count; b++)
        rare_d[b] = halved(em, rare_d[b]);
    LLVMBuildBr(em->at, next);
    LLVMPositionBuilderAtEnd(em->at, next);
    for (int b = 0; b < s->count; b++) {
        codes[b] = phi(em, codes[b], here, rare_codes[b], rare);
        d[b] = phi(em, d[b], here, rare_d[b], rare);
    }
    for (int i = 0; i < s->cols; i++)
        s->x[i] = phi(em, s->x[i], here, rare_x[i], rare);
    out_scales(em, s, codes);
    out_blocks(em, s, d, codes);
}

void emit_nvfp4(struct emit *em, int output, int first, int count)
{
    struct blocks s;
    Value t[MAX_BLOCKS], codes[MAX_BLOCKS], d[MAX_BLOCKS];
    open_blocks(em, &s, output, first, count);
    if (s.is_doubled) {
        emit_doubled(em, &s);
        return;
    }
    divide_by_global(em, &s, t);
    find_scales(em, &s, t, emit_value(em, s.o->global, 0, 1), codes, d);
    out_scales(em, &s, codes);
    if (!s.o->reciprocal)
        make_safe(em, &s, d);
    out_blocks(em, &s, d, codes);
}

/* ---- MX */

static const struct {
    enum expr_format format;
    enum expr_type type;
    uint32_t exponent; /* of the largest value */
    uint32_t rest;     /* 2^23 less its mantissa, less 1 */
} mx[] = {
    {EXPR_OUT_MXFP4, EXPR_TYPE_E2M1, 2, 0x3fffff},       /* 6 = 1.5 * 2^2 */
    {EXPR_OUT_MXFP8_E4M3, EXPR_TYPE_E4M3, 8, 0x1fffff},  /* 448 = 1.75 * 2^8 */
    {EXPR_OUT_MXFP8_E5M2, EXPR_TYPE_E5M2, 15, 0x1fffff}, /* 57344 = 1.75 * 2^15 */
};

/* The least s with amax / s <= the largest value, or (scale_down) 2^floor(log2(amax))
 * over its power of two.  amax is no NaN. */
static Value power_scale(struct emit *em, size_t row, bool down, Value amax)
{
    Value bits = emit_bits(em, amax);
    if (!down)
        bits = LLVMBuildAdd(em->at, bits, emit_i32(em, mx[row].rest), "");
    Value exponent = LLVMBuildLShr(em->at, bits, emit_i32(em, 23), "");
    Value least = emit_i32(em, mx[row].exponent);
    exponent = emit_call2(em, "llvm.umax", exponent, least);
    return LLVMBuildSub(em->at, exponent, least, "");
}

void emit_mx(struct emit *em, int output, int first, int count)
{
    struct blocks s;
    open_blocks(em, &s, output, first, count);
    size_t row = 0;
    while (mx[row].format != s.o->format)
        row++;
    Value codes[MAX_BLOCKS];
    for (int b = 0; b < s.count; b++) {
        codes[b] = power_scale(em, row, s.o->scale_down, s.amax[b]);
        Value inverse = LLVMBuildSub(em->at, emit_i32(em, 254), codes[b], "");
        inverse = LLVMBuildShl(em->at, inverse, emit_i32(em, 23), "");
        Value ys[MAX_COLS], q[MAX_COLS], words[MAX_COLS / 4];
        splat(ys, emit_float(em, inverse), s.block);
        emit_arith(em, EXPR_MUL, s.block, s.x + b * s.block, ys, NULL, q);
        if (mx[row].type == EXPR_TYPE_E2M1) {
            Value is_zero =
                LLVMBuildFCmp(em->at, LLVMRealOEQ, s.amax[b], emit_f32(em, 0), "");
            out_e2m1(em, &s, b, q, is_zero);
        } else { /* has a NaN of its own; zeros are codes 0 or 0x80 */
            emit_pack(em, mx[row].type, s.o->path, s.block, q, words);
            out_words(em, &s, b * s.block / 4, s.block / 4, words, NULL);
        }
    }
    out_scales(em, &s, codes);
}
