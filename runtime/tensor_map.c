#include "runtime/tensor_map.h"

#include <cuda.h>

#include "runtime/device.h"
#include "runtime/error.h"

#define MAX_DIM ((uint64_t)1 << 32)
#define MAX_STRIDE ((uint64_t)1 << 40)
#define MAX_BOX 256

static const struct {
    const char *name;
    int bits;
} types[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {"uint8", 8},
    [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {"uint16", 16},
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {"uint32", 32},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {"int32", 32},
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {"uint64", 64},
    [CU_TENSOR_MAP_DATA_TYPE_INT64] = {"int64", 64},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {"float16", 16},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {"float32", 32},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {"float64", 64},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {"bfloat16", 16},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {"float32_ftz", 32},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {"tfloat32", 32},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {"tfloat32_ftz", 32},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B] = {"16u4_align8b", 4},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B] = {"16u4_align16b", 4},
    [CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B] = {"16u6_align16b", 6},
};

/* Values that the padded types lay out 16 at a time in 16-byte slots. */
static bool is_padded(int type)
{
    return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
           type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

static uint32_t swizzle_bytes(int swizzle)
{
    switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
        return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
        return 64;
    default:
        return 128;
    }
}

static fp4gen_status check_swizzle(const fp4gen_tensor_desc *t, fp4gen_error *err)
{
    static const char *const names[] = {
        "none",         "32b", "64b", "128b", "128b_atom_32b", "128b_atom_32b_flip_8b",
        "128b_atom_64b"};
    const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;
    const int s = t->swizzle;
    if (s < 0 || s >= (int)COUNT_OF(names))
        return fail(err, bad, ERROR(TENSOR_SWIZZLE), t->name, s);
    bool allowed = true; /* the padded types know fewer; cuda.h lists them */
    if (t->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B)
        allowed = s == CU_TENSOR_MAP_SWIZZLE_NONE || s == CU_TENSOR_MAP_SWIZZLE_128B ||
                  s == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
    if (t->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B)
        allowed = s == CU_TENSOR_MAP_SWIZZLE_NONE || s == CU_TENSOR_MAP_SWIZZLE_128B ||
                  s == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B ||
                  s == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B;
    if (!allowed)
        return fail(err, bad, ERROR(TENSOR_SWIZZLE_TYPE), t->name, names[s],
                    types[t->type].name);
    uint32_t box_bytes = t->box[0] * (uint32_t)types[t->type].bits / 8;
    if (s != CU_TENSOR_MAP_SWIZZLE_NONE && !is_padded(t->type) &&
        box_bytes > swizzle_bytes(s))
        return fail(err, bad, ERROR(TENSOR_SWIZZLE_BOX), t->name, box_bytes, names[s],
                    swizzle_bytes(s));
    return FP4GEN_OK;
}

static fp4gen_status check_dim(const fp4gen_tensor_desc *t, int i, fp4gen_error *err)
{
    const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;
    uint64_t unit = 1;
    if (i == 0 && t->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B)
        unit = 2;
    if (i == 0 && is_padded(t->type))
        unit = 128;
    if (t->dims[i] == 0 || t->dims[i] > MAX_DIM)
        return fail(err, bad, ERROR(TENSOR_DIM), t->name, i, U64(t->dims[i]));
    if (t->dims[i] % unit != 0)
        return fail(err, bad, ERROR(TENSOR_DIM_UNIT), t->name, U64(t->dims[i]),
                    U64(unit), types[t->type].name);
    if (t->box[i] == 0 || t->box[i] > MAX_BOX)
        return fail(err, bad, ERROR(TENSOR_BOX), t->name, i, t->box[i]);
    return FP4GEN_OK;
}

fp4gen_status tensor_map_check(const fp4gen_tensor_desc *t, fp4gen_error *err)
{
    const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;
    if (t->rank < 1 || t->rank > 5)
        return fail(err, bad, ERROR(TENSOR_RANK), t->name, t->rank);
    if (t->type < 0 || t->type >= (int)COUNT_OF(types))
        return fail(err, bad, ERROR(TENSOR_TYPE), t->name, t->type);
    const char *type = types[t->type].name;
    const uint64_t unit = is_padded(t->type) ? 32 : 16;
    if (t->address == 0)
        return fail(err, bad, ERROR(NULL_ADDRESS), t->name);
    if (t->address % unit != 0)
        return fail(err, bad, ERROR(TENSOR_ADDRESS), t->name, U64(t->address),
                    U64(unit), type);
    for (int i = 0; i < t->rank; i++) {
        fp4gen_status s = check_dim(t, i, err);
        if (s)
            return s;
    }
    for (int i = 0; i + 1 < t->rank; i++) {
        uint64_t stride = t->strides[i];
        if (stride % unit != 0)
            return fail(err, bad, ERROR(TENSOR_STRIDE), t->name, i + 1, U64(stride),
                        U64(unit), type, U64(stride / unit * unit + unit));
        if (stride >= MAX_STRIDE)
            return fail(err, bad, ERROR(TENSOR_STRIDE_RANGE), t->name, i + 1,
                        U64(stride));
        if (stride == 0 && t->dims[i + 1] > 1)
            return fail(err, bad, ERROR(TENSOR_STRIDE_ZERO), t->name, i + 1,
                        U64(t->dims[i + 1]));
    }
    if (is_padded(t->type) && t->box[0] != 128)
        return fail(err, bad, ERROR(TENSOR_BOX_PADDED), t->name, t->box[0], type);
    if (!is_padded(t->type) && t->box[0] * (uint32_t)types[t->type].bits % 128 != 0)
        return fail(err, bad, ERROR(TENSOR_BOX_BYTES), t->name, t->box[0], type,
                    t->box[0] * (uint32_t)types[t->type].bits);
    if (t->l2_promotion < 0 || t->l2_promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        return fail(err, bad, ERROR(TENSOR_L2), t->name, t->l2_promotion);
    return check_swizzle(t, err);
}

fp4gen_status fp4gen_encode(fp4gen_device *dev, fp4gen_tensor_map *out,
                            const fp4gen_tensor_desc *t, fp4gen_error *err)
{
    static const cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
    if (!dev || !out || !t || !t->name)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_encode");
    if ((uintptr_t)out % 64 != 0)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(TENSOR_MAP_ALIGN), t->name,
                    (void *)out);
    fp4gen_status status = tensor_map_check(t, err);
    if (status)
        return status;
    status = device_enter(dev, err);
    if (status)
        return status;
    cuuint64_t dims[5], strides[4];
    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dims[i];
    for (int i = 0; i + 1 < t->rank; i++)
        strides[i] = t->strides[i];
    CUresult r = dev->driver.cuTensorMapEncodeTiled(
        (CUtensorMap *)out, (CUtensorMapDataType)t->type, (cuuint32_t)t->rank,
        (void *)(uintptr_t)t->address, dims, strides, t->box, element_strides,
        CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)t->swizzle,
        (CUtensorMapL2promotion)t->l2_promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_BAD_ARGUMENT, r,
                         "encoding the tensor map", t->name);
    return FP4GEN_OK;
}
