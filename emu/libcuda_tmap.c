#include "emu/libcuda.h"

#include <string.h>

#include "emu/fp4emu.h"
#include "emu/tmap.h"

#define MAP_ALIGN_BYTES 64

/* The rules stand in tmap_encode(); a broken one is CUDA_ERROR_INVALID_VALUE, and which
 * it was can be asked for afterwards. */
static _Thread_local char last_reason[256];

EXPORTED CUresult
cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                       void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                       const cuuint32_t *box, const cuuint32_t *steps,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return leave(r);
    last_reason[0] = '\0';
    if (!map || (uintptr_t)map % MAP_ALIGN_BYTES || !dims || !box || !steps ||
        (rank > 1 && !strides))
        return leave(CUDA_ERROR_INVALID_VALUE);
    bool fine = tmap_encode(map, (int)type, rank, (uint64_t)(uintptr_t)address, dims,
                            strides, box, steps, (int)interleave, (int)swizzle,
                            (int)promotion, (int)fill, last_reason, sizeof last_reason);
    return leave(fine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- a map for another address */

static const CUtensorMapDataType driver_types[TMAP_TYPE_COUNT] = {
    [TMAP_U8] = CU_TENSOR_MAP_DATA_TYPE_UINT8,
    [TMAP_U16] = CU_TENSOR_MAP_DATA_TYPE_UINT16,
    [TMAP_U32] = CU_TENSOR_MAP_DATA_TYPE_UINT32,
    [TMAP_S32] = CU_TENSOR_MAP_DATA_TYPE_INT32,
    [TMAP_U64] = CU_TENSOR_MAP_DATA_TYPE_UINT64,
    [TMAP_S64] = CU_TENSOR_MAP_DATA_TYPE_INT64,
    [TMAP_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    [TMAP_F32] = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    [TMAP_F32_FTZ] = CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    [TMAP_F64] = CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    [TMAP_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    [TMAP_TF32] = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    [TMAP_TF32_FTZ] = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    [TMAP_B4X16] = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
    [TMAP_B4X16_P64] = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
    [TMAP_B6X16_P32] = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B,
};

static CUtensorMapSwizzle driver_swizzle(const struct tmap *t)
{
    static const CUtensorMapSwizzle of_128[] = {
        [TMAP_ATOM_16B] = CU_TENSOR_MAP_SWIZZLE_128B,
        [TMAP_ATOM_32B] = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
        [TMAP_ATOM_32B_FLIP_8B] = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
        [TMAP_ATOM_64B] = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B,
    };
    switch (t->swizzle) {
    case TMAP_SWIZZLE_32B:
        return CU_TENSOR_MAP_SWIZZLE_32B;
    case TMAP_SWIZZLE_64B:
        return CU_TENSOR_MAP_SWIZZLE_64B;
    case TMAP_SWIZZLE_128B:
        return of_128[t->atom];
    default:
        return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

/* Codes of interleave, promotion and fill are the same in both worlds. */
EXPORTED CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct tmap t;
    cuuint32_t box[TMAP_MAX_RANK], steps[TMAP_MAX_RANK];

    if (!map || !tmap_decode(map, &t, last_reason, sizeof last_reason))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < TMAP_MAX_RANK; i++) {
        box[i] = t.box[i];
        steps[i] = t.step[i];
    }
    return cuTensorMapEncodeTiled(
        map, driver_types[t.type], t.rank, address, t.dim, t.stride + 1, box, steps,
        (CUtensorMapInterleave)t.interleave, driver_swizzle(&t),
        (CUtensorMapL2promotion)t.promotion, (CUtensorMapFloatOOBfill)t.fill);
}

/* ---- extension */

EXPORTED size_t fp4emu_tensor_map_error(char *text, size_t bytes)
{
    if (text && bytes) {
        size_t keep = strlen(last_reason) < bytes ? strlen(last_reason) : bytes - 1;
        memcpy(text, last_reason, keep);
        text[keep] = '\0';
    }
    return strlen(last_reason);
}
