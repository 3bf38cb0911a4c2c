/* tmap.c - the encoding of tensor maps and the rules they obey.
 *
 *     byte   0  magic, 4 bytes, and version    56  strides of dimensions 1 .. 4, bytes,
 *            8  type       9  rank - 1             8 bytes each
 *           11  interleave                     88  box sizes, 2 bytes each
 *           12  swizzle   13  its atom         98  traversal steps, 1 byte each
 *           14  fill      15  L2 promotion    103  bit i: size i is 2^32, its field 0
 *           16  address, 8 bytes
 *           24  sizes, 4 bytes each
 *
 * Byte 10 stays zero: host code in wide use clears bit 21 of the second 64-bit word of
 * small tensors' maps (CUTLASS, cute/atom/copy_traits_sm90_tma.hpp). */
#include "emu/tmap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"

enum {
    MAGIC = 0x4d543446, /* "F4TM" */
    VERSION = 1,
    AT_VERSION = 4,
    AT_TYPE = 8,
    AT_RANK = 9,
    AT_INTERLEAVE = 11,
    AT_SWIZZLE = 12,
    AT_ATOM = 13,
    AT_FILL = 14,
    AT_PROMOTION = 15,
    AT_ADDRESS = 16,
    AT_DIM = 24,
    AT_STRIDE = 56,
    AT_BOX = 88,
    AT_STEP = 98,
    AT_HUGE = 103,
};

static const uint64_t max_dim = (uint64_t)1 << 32, max_stride = (uint64_t)1 << 40;

static const struct {
    const char *name;
    int bits;
    bool is_float;
} types[TMAP_TYPE_COUNT] = {
    [TMAP_U8] = {"u8", 8, false},
    [TMAP_U16] = {"u16", 16, false},
    [TMAP_U32] = {"u32", 32, false},
    [TMAP_S32] = {"s32", 32, false},
    [TMAP_U64] = {"u64", 64, false},
    [TMAP_S64] = {"s64", 64, false},
    [TMAP_F16] = {"f16", 16, true},
    [TMAP_F32] = {"f32", 32, true},
    [TMAP_F32_FTZ] = {"f32.ftz", 32, true},
    [TMAP_F64] = {"f64", 64, true},
    [TMAP_BF16] = {"bf16", 16, true},
    [TMAP_TF32] = {"tf32", 32, true},
    [TMAP_TF32_FTZ] = {"tf32.ftz", 32, true},
    [TMAP_B4X16] = {"b4x16", 4, false},
    [TMAP_B4X16_P64] = {"b4x16_p64", 4, false},
    [TMAP_B6X16_P32] = {"b6x16_p32", 6, false},
};

/* CUtensorMapDataType of cuda.h 13.0. */
static const uint8_t driver_types[] = {
    TMAP_U8,       TMAP_U16,   TMAP_U32,       TMAP_S32,       TMAP_U64,     TMAP_S64,
    TMAP_F16,      TMAP_F32,   TMAP_F64,       TMAP_BF16,      TMAP_F32_FTZ, TMAP_TF32,
    TMAP_TF32_FTZ, TMAP_B4X16, TMAP_B4X16_P64, TMAP_B6X16_P32,
};

/* CUtensorMapSwizzle. */
static const struct {
    uint8_t swizzle, atom;
} driver_swizzles[] = {
    {TMAP_SWIZZLE_NONE, TMAP_ATOM_16B}, {TMAP_SWIZZLE_32B, TMAP_ATOM_16B},
    {TMAP_SWIZZLE_64B, TMAP_ATOM_16B},  {TMAP_SWIZZLE_128B, TMAP_ATOM_16B},
    {TMAP_SWIZZLE_128B, TMAP_ATOM_32B}, {TMAP_SWIZZLE_128B, TMAP_ATOM_32B_FLIP_8B},
    {TMAP_SWIZZLE_128B, TMAP_ATOM_64B},
};

int tmap_type_bits(enum tmap_type type)
{
    return types[type].bits;
}

const char *tmap_type_name(enum tmap_type type)
{
    return types[type].name;
}

const char *tmap_swizzle_name(enum tmap_swizzle swizzle, enum tmap_atom atom)
{
    static const char *const plain[] = {"no", "32B", "64B", "128B"};
    static const char *const of_128[] = {
        "128B", "128B (32B atoms)", "128B (32B atoms, 8B flip)", "128B (64B atoms)"};
    return swizzle == TMAP_SWIZZLE_128B ? of_128[atom] : plain[swizzle];
}

static uint32_t swizzle_span(enum tmap_swizzle swizzle)
{
    return swizzle == TMAP_SWIZZLE_NONE ? 0 : 16u << swizzle;
}

static bool is_padded(int type)
{
    return type == TMAP_B4X16_P64 || type == TMAP_B6X16_P32;
}

struct tmap_box tmap_box(const struct tmap *t)
{
    struct tmap_box b = {.rows = 1};
    uint32_t bits = (uint32_t)types[t->type].bits;
    b.row_bytes = t->box[0] * bits / 8;
    b.smem_row_bytes = is_padded(t->type) ? t->box[0] : b.row_bytes;
    b.pitch_bytes = b.smem_row_bytes;
    if (swizzle_span(t->swizzle) > b.pitch_bytes)
        b.pitch_bytes = swizzle_span(t->swizzle);
    b.count[0] = t->box[0];
    for (int i = 1; i < TMAP_MAX_RANK; i++) {
        b.count[i] = i < t->rank ? (t->box[i] + t->step[i] - 1u) / t->step[i] : 1;
        b.rows *= b.count[i];
    }
    b.data_bytes = b.rows * b.row_bytes;
    b.smem_bytes = b.rows * b.pitch_bytes;
    return b;
}

/* ---- rules */

static bool broken(char *why, size_t bytes, const char *fmt, ...) PRINTF_LIKE(3, 4);

static bool broken(char *why, size_t bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, bytes, fmt, args);
    va_end(args);
    return false;
}

static bool check_memory(const struct tmap *t, char *why, size_t bytes)
{
    bool wide = is_padded(t->type) || t->interleave == TMAP_INTERLEAVE_32B;
    unsigned align = wide ? 32 : 16;
    const char *cause = is_padded(t->type)                     ? " of padded types"
                        : t->interleave == TMAP_INTERLEAVE_32B ? " with interleave 32B"
                                                               : "";
    if (t->address == 0)
        return broken(why, bytes, "globalAddress is NULL");
    if (t->address % align != 0)
        return broken(why, bytes,
                      "globalAddress 0x%" PRIx64
                      " is not a multiple of %u bytes, as needed%s",
                      t->address, align, cause);
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] == 0 || t->dim[i] > max_dim)
            return broken(why, bytes, "globalDim[%d] is %" PRIu64 ": 1 to 2^32", i,
                          t->dim[i]);
    unsigned multiple = is_padded(t->type) ? 128 : t->type == TMAP_B4X16 ? 2 : 1;
    if (t->dim[0] % multiple != 0)
        return broken(why, bytes,
                      "globalDim[0] is %" PRIu64 ": a multiple of %u for type %s",
                      t->dim[0], multiple, types[t->type].name);
    for (int i = 1; i < t->rank; i++) {
        if (t->stride[i] % align != 0)
            return broken(why, bytes,
                          "globalStrides[%d] is %" PRIu64 " bytes: a multiple of %u%s",
                          i - 1, t->stride[i], align, cause);
        if (t->stride[i] >= max_stride)
            return broken(why, bytes,
                          "globalStrides[%d] is %" PRIu64 " bytes: less than 2^40",
                          i - 1, t->stride[i]);
        if (t->stride[i] == 0 && t->dim[i] != 1)
            return broken(why, bytes,
                          "globalStrides[%d] is 0, but globalDim[%d] is not 1", i - 1,
                          i);
    }
    return true;
}

static bool check_box(const struct tmap *t, char *why, size_t bytes)
{
    for (int i = 0; i < t->rank; i++) {
        if (t->box[i] == 0 || t->box[i] > 256)
            return broken(why, bytes, "boxDim[%d] is %u: 1 to 256", i, t->box[i]);
        if (t->step[i] == 0 || t->step[i] > 8)
            return broken(why, bytes, "elementStrides[%d] is %u: 1 to 8", i,
                          t->step[i]);
    }
    if (is_padded(t->type) && t->box[0] != 128)
        return broken(why, bytes, "boxDim[0] is %u: 128 for type %s", t->box[0],
                      types[t->type].name);
    if (t->interleave != TMAP_INTERLEAVE_NONE)
        return true;
    uint32_t row_bits = t->box[0] * (uint32_t)types[t->type].bits;
    if (row_bits % 128 != 0)
        return broken(why, bytes,
                      "boxDim[0] is %u elements of %d bits: a multiple of 16 bytes",
                      t->box[0], types[t->type].bits);
    uint32_t row_bytes = is_padded(t->type) ? t->box[0] : row_bits / 8;
    uint32_t span = swizzle_span(t->swizzle);
    if (span != 0 && row_bytes > span)
        return broken(why, bytes, "boxDim[0] is %u bytes: at most %u with %s swizzle",
                      row_bytes, span, tmap_swizzle_name(t->swizzle, t->atom));
    return true;
}

static bool check_modes(const struct tmap *t, char *why, size_t bytes)
{
    if (t->interleave != TMAP_INTERLEAVE_NONE && t->rank < 3)
        return broken(why, bytes, "tensorRank is %u: at least 3 with interleave",
                      t->rank);
    if (t->interleave == TMAP_INTERLEAVE_32B && t->swizzle != TMAP_SWIZZLE_32B)
        return broken(why, bytes, "interleave 32B needs the 32B swizzle");
    if (t->type == TMAP_B6X16_P32 && t->interleave != TMAP_INTERLEAVE_NONE)
        return broken(why, bytes, "type %s allows no interleave", types[t->type].name);
    if (t->atom != TMAP_ATOM_16B && t->swizzle != TMAP_SWIZZLE_128B)
        return broken(why, bytes, "swizzle atoms other than 16B need the 128B swizzle");
    if (is_padded(t->type) && t->swizzle != TMAP_SWIZZLE_NONE &&
        (t->swizzle != TMAP_SWIZZLE_128B || t->atom == TMAP_ATOM_32B_FLIP_8B ||
         (t->type == TMAP_B4X16_P64 && t->atom == TMAP_ATOM_64B)))
        return broken(why, bytes, "type %s does not go with %s swizzle",
                      types[t->type].name, tmap_swizzle_name(t->swizzle, t->atom));
    if (t->fill == TMAP_FILL_NAN && !types[t->type].is_float)
        return broken(why, bytes, "NaN fill needs a floating-point type, not %s",
                      types[t->type].name);
    return true;
}

/* Codes that are out of range come first: the other rules index tables with them. */
static bool check_codes(int type, int interleave, int swizzle, int atom, int fill,
                        int promotion, uint32_t rank, char *why, size_t bytes)
{
    if (type < 0 || type >= TMAP_TYPE_COUNT)
        return broken(why, bytes, "tensorDataType is %d: 0 to 15", type);
    if (rank < 1 || rank > TMAP_MAX_RANK)
        return broken(why, bytes, "tensorRank is %" PRIu32 ": 1 to 5", rank);
    if (interleave < 0 || interleave > TMAP_INTERLEAVE_32B)
        return broken(why, bytes, "interleave is %d: 0 to 2", interleave);
    if (swizzle < 0 || swizzle > TMAP_SWIZZLE_128B || atom < 0 || atom > TMAP_ATOM_64B)
        return broken(why, bytes, "there is no swizzle mode %d with atoms %d", swizzle,
                      atom);
    if (promotion < 0 || promotion > 3)
        return broken(why, bytes, "l2Promotion is %d: 0 to 3", promotion);
    if (fill < 0 || fill > TMAP_FILL_NAN)
        return broken(why, bytes, "oobFill is %d: 0 or 1", fill);
    return true;
}

static bool check_all(const struct tmap *t, char *why, size_t bytes)
{
    return check_modes(t, why, bytes) && check_memory(t, why, bytes) &&
           check_box(t, why, bytes);
}

/* ---- bytes */

static void put(uint8_t *map, int at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        map[at + i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *map, int at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | map[at + i];
    return value;
}

bool tmap_encode(void *map, int type, uint32_t rank, uint64_t address,
                 const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                 const uint32_t *steps, int interleave, int swizzle, int promotion,
                 int fill, char *why, size_t why_bytes)
{
    if ((uintptr_t)map % 64 != 0)
        return broken(why, why_bytes, "tensorMap %p is not aligned to 64 bytes", map);
    if (swizzle < 0 ||
        swizzle >= (int)(sizeof driver_swizzles / sizeof driver_swizzles[0]))
        return broken(why, why_bytes, "swizzle is %d: 0 to 6", swizzle);
    if (!check_codes(type, interleave, 0, 0, fill, promotion, rank, why, why_bytes))
        return false;
    if (!dims || !box || !steps || (!strides && rank > 1))
        return broken(why, why_bytes, "%s is NULL",
                      !dims    ? "globalDim"
                      : !box   ? "boxDim"
                      : !steps ? "elementStrides"
                               : "globalStrides");
    struct tmap t = {
        .address = address,
        .rank = (uint8_t)rank,
        .type = driver_types[type],
        .interleave = (uint8_t)interleave,
        .swizzle = driver_swizzles[swizzle].swizzle,
        .atom = driver_swizzles[swizzle].atom,
        .fill = (uint8_t)fill,
        .promotion = (uint8_t)promotion,
    };
    for (uint32_t i = 0; i < rank; i++) {
        t.dim[i] = dims[i];
        t.stride[i] = i > 0 ? strides[i - 1] : 0;
        /* Too wide for their fields means out of range in any case. */
        t.box[i] = box[i] > 0xffff ? 0xffff : (uint16_t)box[i];
        t.step[i] = steps[i] > 0xff ? 0xff : (uint8_t)steps[i];
    }
    if (!check_all(&t, why, why_bytes))
        return false;

    uint8_t b[TMAP_BYTES] = {0};
    put(b, 0, MAGIC, 4);
    b[AT_VERSION] = VERSION;
    b[AT_TYPE] = t.type;
    b[AT_RANK] = (uint8_t)(rank - 1);
    b[AT_INTERLEAVE] = t.interleave;
    b[AT_SWIZZLE] = t.swizzle;
    b[AT_ATOM] = t.atom;
    b[AT_FILL] = t.fill;
    b[AT_PROMOTION] = t.promotion;
    put(b, AT_ADDRESS, t.address, 8);
    for (int i = 0; i < t.rank; i++) {
        put(b, AT_DIM + 4 * i, t.dim[i], 4);
        if (t.dim[i] == max_dim)
            b[AT_HUGE] |= (uint8_t)(1 << i);
        if (i > 0)
            put(b, AT_STRIDE + 8 * (i - 1), t.stride[i], 8);
        put(b, AT_BOX + 2 * i, t.box[i], 2);
        b[AT_STEP + i] = t.step[i];
    }
    memcpy(map, b, sizeof b);
    return true;
}

bool tmap_decode(const void *map, struct tmap *t, char *why, size_t why_bytes)
{
    uint8_t b[TMAP_BYTES];
    memcpy(b, map, sizeof b);
    if (get(b, 0, 4) != MAGIC)
        return broken(why, why_bytes, "these 128 bytes are no tensor map");
    if (b[AT_VERSION] != VERSION)
        return broken(why, why_bytes, "a tensor map of version %u, not %d",
                      b[AT_VERSION], VERSION);
    if (!check_codes(b[AT_TYPE], b[AT_INTERLEAVE], b[AT_SWIZZLE], b[AT_ATOM],
                     b[AT_FILL], b[AT_PROMOTION], b[AT_RANK] + 1u, why, why_bytes))
        return false;
    *t = (struct tmap){
        .address = get(b, AT_ADDRESS, 8),
        .rank = (uint8_t)(b[AT_RANK] + 1),
        .type = b[AT_TYPE],
        .interleave = b[AT_INTERLEAVE],
        .swizzle = b[AT_SWIZZLE],
        .atom = b[AT_ATOM],
        .fill = b[AT_FILL],
        .promotion = b[AT_PROMOTION],
    };
    for (int i = 0; i < TMAP_MAX_RANK; i++) {
        bool used = i < t->rank;
        t->dim[i] = used ? get(b, AT_DIM + 4 * i, 4) : 1;
        if (used && (b[AT_HUGE] >> i & 1))
            t->dim[i] = max_dim;
        t->stride[i] = used && i > 0 ? get(b, AT_STRIDE + 8 * (i - 1), 8) : 0;
        t->box[i] = used ? (uint16_t)get(b, AT_BOX + 2 * i, 2) : 1;
        t->step[i] = used ? b[AT_STEP + i] : 1;
    }
    return check_all(t, why, why_bytes);
}

bool tmap_replace(void *map, enum tmap_field field, int ordinal, uint64_t value,
                  char *why, size_t why_bytes)
{
    static const struct {
        const char *name;
        int at, bytes;
    } fields[] = {
        [TMAP_ADDRESS] = {"global_address", AT_ADDRESS, 8},
        [TMAP_RANK] = {"rank", AT_RANK, 1},
        [TMAP_BOX] = {"box_dim", AT_BOX, 2},
        [TMAP_DIM] = {"global_dim", AT_DIM, 4},
        [TMAP_STRIDE] = {"global_stride", AT_STRIDE, 8},
        [TMAP_STEP] = {"element_stride", AT_STEP, 1},
        [TMAP_TYPE] = {"elemtype", AT_TYPE, 1},
        [TMAP_INTERLEAVE] = {"interleave_layout", AT_INTERLEAVE, 1},
        [TMAP_SWIZZLE] = {"swizzle_mode", AT_SWIZZLE, 1},
        [TMAP_ATOM] = {"swizzle_atomicity", AT_ATOM, 1},
        [TMAP_FILL] = {"fill_mode", AT_FILL, 1},
    };
    uint8_t *b = map;
    int bytes = fields[field].bytes;
    if (get(b, 0, 4) != MAGIC)
        return broken(why, why_bytes, "%s of 128 bytes that are no tensor map",
                      fields[field].name);
    if (bytes < 8 && value >> (8 * bytes) != 0)
        return broken(why, why_bytes, "%s cannot be %" PRIu64, fields[field].name,
                      value);
    put(b, fields[field].at + bytes * ordinal, value, bytes);
    if (field == TMAP_DIM)
        b[AT_HUGE] &= (uint8_t) ~(1 << ordinal);
    return true;
}
