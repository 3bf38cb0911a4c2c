/* t_tmap.c - rules of cuTensorMapEncodeTiled, and what survives in the 128 bytes. */
#include "emu/tmap.h"
#include "tests/test.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

/* A legal request: 4-bit, 3 dimensions, 128B swizzle.  Tests break one thing each. */
struct request {
    int type;
    uint32_t rank;
    uint64_t address;
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    int interleave, swizzle, promotion, fill;
};

static struct request legal(void)
{
    return (struct request){
        .type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
        .rank = 3,
        .address = 0x7f0000001000,
        .dims = {4096, 300, 7},
        .strides = {2048, 2048 * 300},
        .box = {256, 128, 2},
        .steps = {1, 1, 1},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
        .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    };
}

static _Alignas(64) uint8_t map[TMAP_BYTES];
static char why[256];

static bool encode(const struct request *r)
{
    return tmap_encode(map, r->type, r->rank, r->address, r->dims, r->strides, r->box,
                       r->steps, r->interleave, r->swizzle, r->promotion, r->fill, why,
                       sizeof why);
}

/* Refused, with this text in the reason, and the bytes untouched. */
static void check_refused(int line, const struct request *r, const char *text)
{
    memset(map, 0xa5, sizeof map);
    if (encode(r))
        test_fail(__FILE__, line, "accepted; expected \"%s\"", text);
    if (!strstr(why, text))
        test_fail(__FILE__, line, "reason is \"%s\"; expected \"%s\"", why, text);
    for (size_t i = 0; i < sizeof map; i++)
        CHECK_EQ(map[i], 0xa5);
}
#define CHECK_REFUSED(r, text) check_refused(__LINE__, &(r), text)

TEST(fields_come_back)
{
    struct request r = legal();
    CHECK(encode(&r));
    struct tmap t;
    CHECK(tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(t.type, TMAP_B4X16);
    CHECK_EQ(t.rank, 3);
    CHECK_EQ(t.address, r.address);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(t.dim[i], r.dims[i]);
        CHECK_EQ(t.box[i], r.box[i]);
        CHECK_EQ(t.step[i], 1);
    }
    CHECK_EQ(t.dim[3], 1);
    CHECK_EQ(t.box[4], 1);
    CHECK_EQ(t.stride[1], 2048);
    CHECK_EQ(t.stride[2], 2048 * 300);
    CHECK_EQ(t.swizzle, TMAP_SWIZZLE_128B);
    CHECK_EQ(t.atom, TMAP_ATOM_16B);
    CHECK_EQ(t.promotion, 3);
    CHECK_EQ(t.fill, TMAP_FILL_ZERO);
}

TEST(types_and_swizzles_are_translated)
{
    static const struct {
        int driver, ptx;
    } types[] = {
        {CU_TENSOR_MAP_DATA_TYPE_UINT8, 0},
        {CU_TENSOR_MAP_DATA_TYPE_UINT16, 1},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 7},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 8},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 9},
        {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 10},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 11},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 12},
        {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 13},
    };
    struct tmap t;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct request r = legal();
        r.type = types[i].driver;
        r.box[0] = 16;
        r.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
        if (r.type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B)
            r.box[0] = 32;
        CHECK(encode(&r));
        CHECK(tmap_decode(map, &t, why, sizeof why));
        CHECK_EQ(t.type, types[i].ptx);
    }
    static const int swizzles[7][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0},
                                       {3, 1}, {3, 2}, {3, 3}};
    for (int i = 0; i < 7; i++) {
        struct request r = legal();
        r.box[0] = 32;
        r.swizzle = i;
        CHECK(encode(&r));
        CHECK(tmap_decode(map, &t, why, sizeof why));
        CHECK_EQ(t.swizzle, swizzles[i][0]);
        CHECK_EQ(t.atom, swizzles[i][1]);
    }
}

TEST(survives_word_copies_and_a_cleared_bit_21)
{
    struct request r = legal();
    CHECK(encode(&r));
    struct tmap a, b;
    CHECK(tmap_decode(map, &a, why, sizeof why));
    _Alignas(64) uint64_t words[16];
    for (int i = 0; i < 16; i++)
        memcpy(&words[i], map + 8 * i, 8);
    CHECK_EQ(words[1] >> 21 & 1, 0);
    words[1] &= ~((uint64_t)1 << 21);
    memset(map, 0, sizeof map);
    CHECK(tmap_decode(words, &b, why, sizeof why));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    /* And from an odd address. */
    uint8_t shifted[TMAP_BYTES + 1];
    memcpy(shifted + 1, words, TMAP_BYTES);
    CHECK(tmap_decode(shifted + 1, &b, why, sizeof why));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
}

TEST(other_bytes_are_no_map)
{
    struct tmap t;
    memset(map, 0, sizeof map);
    CHECK(!tmap_decode(map, &t, why, sizeof why));
    CHECK_STR(why, "these 128 bytes are no tensor map");
    struct request r = legal();
    CHECK(encode(&r));
    map[4] = 9;
    CHECK(!tmap_decode(map, &t, why, sizeof why));
    CHECK_STR(why, "a tensor map of version 9, not 1");
    /* A field changed on the device to something illegal. */
    CHECK(encode(&r));
    map[16] = 8;
    CHECK(!tmap_decode(map, &t, why, sizeof why));
    CHECK(strstr(why, "globalAddress") != NULL);
}

TEST(largest_values)
{
    struct request r = legal();
    r.dims[1] = (uint64_t)1 << 32;
    r.strides[1] = ((uint64_t)1 << 40) - 16;
    CHECK(encode(&r));
    struct tmap t;
    CHECK(tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(t.dim[1], (long long)1 << 32);
    CHECK_EQ(t.stride[2], ((long long)1 << 40) - 16);
    r = legal();
    r.dims[2] = 1;
    r.strides[1] = 0;
    CHECK(encode(&r));
}

TEST(codes)
{
    struct request r = legal();
    r.type = 16;
    CHECK_REFUSED(r, "tensorDataType is 16");
    r = legal();
    r.rank = 0;
    CHECK_REFUSED(r, "tensorRank is 0: 1 to 5");
    r.rank = 6;
    CHECK_REFUSED(r, "tensorRank is 6: 1 to 5");
    r = legal();
    r.swizzle = 7;
    CHECK_REFUSED(r, "swizzle is 7: 0 to 6");
    r = legal();
    r.interleave = 3;
    CHECK_REFUSED(r, "interleave is 3");
    r = legal();
    r.promotion = 4;
    CHECK_REFUSED(r, "l2Promotion is 4");
    r = legal();
    r.fill = 2;
    CHECK_REFUSED(r, "oobFill is 2");
}

TEST(addresses_and_strides)
{
    struct request r = legal();
    r.address += 8;
    CHECK_REFUSED(r, "globalAddress 0x7f0000001008 is not a multiple of 16 bytes");
    r.address = 0;
    CHECK_REFUSED(r, "globalAddress is NULL");
    r = legal();
    r.strides[0] = 6932;
    CHECK_REFUSED(r, "globalStrides[0] is 6932 bytes: a multiple of 16");
    r = legal();
    r.strides[1] = (uint64_t)1 << 40;
    CHECK_REFUSED(r, "globalStrides[1] is 1099511627776 bytes: less than 2^40");
    r = legal();
    r.strides[1] = 0;
    CHECK_REFUSED(r, "globalStrides[1] is 0, but globalDim[2] is not 1");
    r = legal();
    r.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    r.box[0] = 128;
    r.address += 16;
    CHECK_REFUSED(r, "is not a multiple of 32 bytes, as needed of padded types");
    r.address += 16;
    r.strides[0] += 16;
    CHECK_REFUSED(r, "a multiple of 32 of padded types");
}

TEST(sizes_and_boxes)
{
    struct request r = legal();
    r.dims[1] = 0;
    CHECK_REFUSED(r, "globalDim[1] is 0: 1 to 2^32");
    r.dims[1] = ((uint64_t)1 << 32) + 1;
    CHECK_REFUSED(r, "globalDim[1] is 4294967297: 1 to 2^32");
    r = legal();
    r.dims[0] = 4095;
    CHECK_REFUSED(r, "globalDim[0] is 4095: a multiple of 2 for type b4x16");
    r = legal();
    r.box[1] = 257;
    CHECK_REFUSED(r, "boxDim[1] is 257: 1 to 256");
    r.box[1] = 0;
    CHECK_REFUSED(r, "boxDim[1] is 0: 1 to 256");
    r = legal();
    r.box[1] = 0x10001;
    CHECK_REFUSED(r, "boxDim[1] is");
    r = legal();
    r.box[0] = 48;
    CHECK_REFUSED(r, "boxDim[0] is 48 elements of 4 bits: a multiple of 16 bytes");
    r = legal();
    r.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    CHECK_REFUSED(r, "boxDim[0] is 128 bytes: at most 64 with 64B swizzle");
    r = legal();
    r.steps[2] = 9;
    CHECK_REFUSED(r, "elementStrides[2] is 9: 1 to 8");
}

TEST(modes)
{
    struct request r = legal();
    r.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    CHECK_REFUSED(r, "NaN fill needs a floating-point type, not b4x16");
    r = legal();
    r.rank = 2;
    r.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
    CHECK_REFUSED(r, "tensorRank is 2: at least 3 with interleave");
    r = legal();
    r.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
    CHECK_REFUSED(r, "interleave 32B needs the 32B swizzle");
    r = legal();
    r.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    CHECK_REFUSED(r, "boxDim[0] is 256: 128 for type b4x16_p64");
    r.box[0] = 128;
    r.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    CHECK_REFUSED(r, "type b4x16_p64 does not go with 64B swizzle");
    r = legal();
    r.address += 1;
    CHECK(!tmap_encode(map + 1, r.type, r.rank, r.address, r.dims, r.strides, r.box,
                       r.steps, 0, 0, 0, 0, why, sizeof why));
    CHECK(strstr(why, "is not aligned to 64 bytes") != NULL);
    CHECK(!tmap_encode(map, 0, 2, 4096, r.dims, NULL, r.box, r.steps, 0, 0, 0, 0, why,
                       sizeof why));
    CHECK_STR(why, "globalStrides is NULL");
}

TEST(boxes_in_shared_memory)
{
    struct request r = legal();
    CHECK(encode(&r));
    struct tmap t;
    CHECK(tmap_decode(map, &t, why, sizeof why));
    struct tmap_box b = tmap_box(&t);
    CHECK_EQ(b.row_bytes, 128);
    CHECK_EQ(b.pitch_bytes, 128);
    CHECK_EQ(b.rows, 256);
    CHECK_EQ(b.data_bytes, 32768);
    CHECK_EQ(b.smem_bytes, 32768);

    /* The same bytes, said in bytes. */
    r.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    r.box[0] = 128;
    CHECK(encode(&r) && tmap_decode(map, &t, why, sizeof why));
    struct tmap_box u8 = tmap_box(&t);
    CHECK_EQ(u8.data_bytes, b.data_bytes);
    CHECK_EQ(u8.pitch_bytes, b.pitch_bytes);

    /* Narrower than the swizzle: rows stay a span apart. */
    r.box[0] = 32;
    CHECK(encode(&r) && tmap_decode(map, &t, why, sizeof why));
    b = tmap_box(&t);
    CHECK_EQ(b.row_bytes, 32);
    CHECK_EQ(b.pitch_bytes, 128);
    CHECK_EQ(b.data_bytes, 32 * 256);
    CHECK_EQ(b.smem_bytes, 32768);

    /* Every third row. */
    r.steps[1] = 3;
    CHECK(encode(&r) && tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(tmap_box(&t).count[1], 43);
    CHECK_EQ(tmap_box(&t).rows, 86);

    /* Padded 4-bit elements: half of what shared memory holds is data. */
    r = legal();
    r.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    r.box[0] = 128;
    CHECK(encode(&r) && tmap_decode(map, &t, why, sizeof why));
    b = tmap_box(&t);
    CHECK_EQ(b.row_bytes, 64);
    CHECK_EQ(b.smem_row_bytes, 128);
    CHECK_EQ(b.data_bytes, 64 * 256);
    CHECK_EQ(b.smem_bytes, 128 * 256);
}

TEST(swizzle_formulas)
{
    for (uint32_t row = 0; row < 64; row++) {
        for (uint32_t chunk = 0; chunk < 8; chunk++) {
            uint32_t at = 4096 + row * 128 + chunk * 16;
            CHECK_EQ(tmap_swizzle(at, TMAP_SWIZZLE_128B, TMAP_ATOM_16B),
                     4096 + row * 128 + (chunk ^ (row & 7)) * 16);
            CHECK_EQ(tmap_swizzle(at, TMAP_SWIZZLE_128B, TMAP_ATOM_32B),
                     4096 + row * 128 + (chunk ^ (row & 3) << 1) * 16);
            CHECK_EQ(tmap_swizzle(at, TMAP_SWIZZLE_128B, TMAP_ATOM_64B),
                     4096 + row * 128 + (chunk ^ (row & 1) << 2) * 16);
            CHECK_EQ(tmap_swizzle(at, TMAP_SWIZZLE_NONE, TMAP_ATOM_16B), at);
        }
        for (uint32_t chunk = 0; chunk < 4; chunk++)
            CHECK_EQ(tmap_swizzle(4096 + row * 64 + chunk * 16, TMAP_SWIZZLE_64B, 0),
                     4096 + row * 64 + (chunk ^ (row >> 1 & 3)) * 16);
        for (uint32_t chunk = 0; chunk < 2; chunk++)
            CHECK_EQ(tmap_swizzle(4096 + row * 32 + chunk * 16, TMAP_SWIZZLE_32B, 0),
                     4096 + row * 32 + (chunk ^ (row >> 2 & 1)) * 16);
    }
}
