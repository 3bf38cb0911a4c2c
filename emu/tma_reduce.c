/* tma_reduce.c - element-wise reductions of cp.reduce.async.bulk and its tensor form.
 *
 * PTX ISA 9.0, "cp.reduce.async.bulk": additions of f16 and bf16 keep subnormals, and
 * minimum and maximum of floats ignore a NaN operand, as plain min and max do. */
#include "core/fp4.h"
#include "emu/tma.h"

static bool is_float(enum tmap_type type)
{
    return type == TMAP_F16 || type == TMAP_BF16 || type == TMAP_F32 ||
           type == TMAP_F64 || type == TMAP_F32_FTZ;
}

bool tma_can_reduce(enum tma_reduction op, enum tmap_type type)
{
    switch (type) {
    case TMAP_U32:
        return true;
    case TMAP_S32:
    case TMAP_U64:
    case TMAP_S64:
        return op != TMA_INC && op != TMA_DEC;
    case TMAP_F16:
    case TMAP_BF16:
        return op == TMA_ADD || op == TMA_MIN || op == TMA_MAX;
    case TMAP_F32:
    case TMAP_F32_FTZ:
    case TMAP_F64:
        return op == TMA_ADD;
    default:
        return false;
    }
}

static uint64_t reduce_integer(uint64_t a, uint64_t b, enum tma_reduction op,
                               bool is_signed)
{
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case TMA_ADD:
        return a + b;
    case TMA_MIN:
        return less ? a : b;
    case TMA_MAX:
        return less ? b : a;
    case TMA_INC:
        return a >= b ? 0 : a + 1;
    case TMA_DEC:
        return a == 0 || a > b ? b : a - 1;
    case TMA_AND:
        return a & b;
    case TMA_OR:
        return a | b;
    case TMA_XOR:
        return a ^ b;
    }
    return a;
}

/* f16 and bf16 sums are rounded twice, through f32, which has more than twice their
 * significant bits and so changes nothing. */
static float reduce_float(float a, float b, enum tma_reduction op)
{
    if (op == TMA_ADD)
        return a + b;
    if (a != a)
        return b;
    if (b != b)
        return a;
    return (a < b) == (op == TMA_MIN) ? a : b;
}

static void reduce_floats(uint8_t *to, const uint8_t *from, enum tma_reduction op,
                          enum tmap_type type)
{
    if (type == TMAP_F64) {
        double a, b;
        memcpy(&a, to, sizeof a);
        memcpy(&b, from, sizeof b);
        a += b;
        uint64_t bits;
        memcpy(&bits, &a, sizeof bits);
        if (a != a)
            bits = 0x7fffffffffffffff;
        memcpy(to, &bits, sizeof bits);
        return;
    }
    if (type == TMAP_F32 || type == TMAP_F32_FTZ) {
        float a, b;
        memcpy(&a, to, sizeof a);
        memcpy(&b, from, sizeof b);
        a = reduce_float(a, b, op);
        uint32_t bits;
        memcpy(&bits, &a, sizeof bits);
        if (a != a)
            bits = 0x7fffffff;
        memcpy(to, &bits, sizeof bits);
        return;
    }
    uint16_t a, b;
    memcpy(&a, to, sizeof a);
    memcpy(&b, from, sizeof b);
    a = type == TMAP_F16
            ? f16_encode(reduce_float(f16_decode(a), f16_decode(b), op))
            : bf16_encode(reduce_float(bf16_decode(a), bf16_decode(b), op));
    memcpy(to, &a, sizeof a);
}

static uint64_t load_integer(const uint8_t *at, size_t bytes, bool is_signed)
{
    uint64_t wide;
    uint32_t narrow;
    if (bytes == 8) {
        memcpy(&wide, at, 8);
        return wide;
    }
    memcpy(&narrow, at, 4);
    return is_signed ? (uint64_t)(int64_t)(int32_t)narrow : narrow;
}

void tma_reduce(uint8_t *to, const uint8_t *from, uint32_t bytes, enum tma_reduction op,
                enum tmap_type type)
{
    size_t size = (size_t)tmap_type_bits(type) / 8;
    bool is_signed = type == TMAP_S32 || type == TMAP_S64;
    for (size_t at = 0; at + size <= bytes; at += size) {
        if (is_float(type)) {
            reduce_floats(to + at, from + at, op, type);
            continue;
        }
        uint64_t r =
            reduce_integer(load_integer(to + at, size, is_signed),
                           load_integer(from + at, size, is_signed), op, is_signed);
        memcpy(to + at, &r, size); /* the low bytes: hosts are little-endian */
    }
}
