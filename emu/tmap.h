/* tmap.h - tensor maps: the emulator's own 128 bytes, and what they say.
 *
 * CUtensorMap is opaque, so the encoding is ours.  It holds no pointers to other tables
 * and survives being copied word by word; each field of tensormap.replace lies whole at
 * a fixed place (tmap.c has the table).  Codes of types, swizzles and fills are those
 * of PTX (PTX ISA 9.0, "tensormap.replace"), not the driver's. */
#ifndef FP4EMU_TMAP_H
#define FP4EMU_TMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TMAP_BYTES 128
#define TMAP_MAX_RANK 5

enum tmap_type {
    TMAP_U8,
    TMAP_U16,
    TMAP_U32,
    TMAP_S32,
    TMAP_U64,
    TMAP_S64,
    TMAP_F16,
    TMAP_F32,
    TMAP_F32_FTZ,
    TMAP_F64,
    TMAP_BF16,
    TMAP_TF32,
    TMAP_TF32_FTZ,
    TMAP_B4X16,     /* 16 elements in 8 bytes, dense */
    TMAP_B4X16_P64, /* 16 elements in the first 8 of 16 bytes of shared memory */
    TMAP_B6X16_P32, /* 16 elements in the first 12 of 16 bytes */
    TMAP_TYPE_COUNT
};

enum tmap_interleave { TMAP_INTERLEAVE_NONE, TMAP_INTERLEAVE_16B, TMAP_INTERLEAVE_32B };

enum tmap_swizzle {
    TMAP_SWIZZLE_NONE,
    TMAP_SWIZZLE_32B,
    TMAP_SWIZZLE_64B,
    TMAP_SWIZZLE_128B,
};

/* What moves as one piece under a 128-byte swizzle. */
enum tmap_atom { TMAP_ATOM_16B, TMAP_ATOM_32B, TMAP_ATOM_32B_FLIP_8B, TMAP_ATOM_64B };

enum tmap_fill { TMAP_FILL_ZERO, TMAP_FILL_NAN };

/* Dimension 0 is the innermost and dense. */
struct tmap {
    uint64_t address;
    uint64_t dim[TMAP_MAX_RANK];    /* elements */
    uint64_t stride[TMAP_MAX_RANK]; /* bytes; [0] is not used */
    uint16_t box[TMAP_MAX_RANK];    /* elements traversed */
    uint8_t step[TMAP_MAX_RANK];    /* of the traversal, elements */
    uint8_t rank, type, interleave, swizzle, atom, fill, promotion;
};

/* Arguments and codes in the order of cuTensorMapEncodeTiled, whose rules it enforces
 * (cuda.h 13.0).  False, with the broken rule in `why`, and nothing written. */
bool tmap_encode(void *map, int type, uint32_t rank, uint64_t address,
                 const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                 const uint32_t *steps, int interleave, int swizzle, int promotion,
                 int fill, char *why, size_t why_bytes);
/* Copies 128 bytes from any alignment.  False: not one of our maps, or one that breaks
 * a rule; `why` says which. */
bool tmap_decode(const void *map, struct tmap *t, char *why, size_t why_bytes);

/* What tensormap.replace can change. */
enum tmap_field {
    TMAP_ADDRESS,
    TMAP_RANK, /* less one */
    TMAP_BOX,
    TMAP_DIM,
    TMAP_STRIDE, /* bytes; ordinal 0 is that of dimension 1 */
    TMAP_STEP,
    TMAP_TYPE,
    TMAP_INTERLEAVE,
    TMAP_SWIZZLE,
    TMAP_ATOM,
    TMAP_FILL,
};
/* Stores one field, `ordinal` of it where there are several; the rules are checked when
 * the map is used.  False: these bytes are no map, or the field cannot hold the value.
 */
bool tmap_replace(void *map, enum tmap_field field, int ordinal, uint64_t value,
                  char *why, size_t why_bytes);

/* ---- geometry */

int tmap_type_bits(enum tmap_type type); /* of one element in global memory */
const char *tmap_type_name(enum tmap_type type);
const char *tmap_swizzle_name(enum tmap_swizzle swizzle, enum tmap_atom atom);

/* How a box lies in shared memory. */
struct tmap_box {
    uint32_t row_bytes;      /* of data, along dimension 0 in global memory */
    uint32_t smem_row_bytes; /* the same with the gaps of padded types */
    uint32_t pitch_bytes;    /* from row to row: the span of a swizzle, else dense */
    uint32_t rows;           /* product of the other dimensions */
    uint32_t count[TMAP_MAX_RANK]; /* elements taken along each dimension */
    uint32_t data_bytes;           /* what a barrier receives */
    uint32_t smem_bytes;           /* from the first byte to the end of the last row */
};
struct tmap_box tmap_box(const struct tmap *t);

/* Where the 16-byte chunk at this shared address really lies.  The absolute address
 * decides, so a tile that starts off the pattern still has a defined place. */
static inline uint32_t tmap_swizzle(uint32_t address, enum tmap_swizzle swizzle,
                                    enum tmap_atom atom)
{
    switch (swizzle) {
    case TMAP_SWIZZLE_32B:
        return address ^ (address >> 3 & 0x10);
    case TMAP_SWIZZLE_64B:
        return address ^ (address >> 3 & 0x30);
    case TMAP_SWIZZLE_128B:
        switch (atom) {
        case TMAP_ATOM_16B:
            return address ^ (address >> 3 & 0x70);
        case TMAP_ATOM_32B:
        case TMAP_ATOM_32B_FLIP_8B:
            return address ^ (address >> 2 & 0x60);
        case TMAP_ATOM_64B:
            return address ^ (address >> 1 & 0x40);
        }
        return address;
    case TMAP_SWIZZLE_NONE:
        break;
    }
    return address;
}

#endif
