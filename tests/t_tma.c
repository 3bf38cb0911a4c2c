/* t_tma.c - bulk copies on the machine, against layouts computed here from the formulas
 * of PTX ISA 9.0, "Swizzling Modes" and "Tensors", under both strategies. */
#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static char why[256];

/* ---- a tensor, its map, and what a box of it must look like */

struct tensor {
    CUtensorMapDataType type;
    int bits; /* of an element */
    uint32_t rank;
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    CUtensorMapSwizzle swizzle;
    CUtensorMapFloatOOBfill fill;
    size_t bytes; /* of the memory behind it */
    int32_t at[5];
    _Alignas(64) uint8_t map[128];
    uint64_t address;
};

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static void make_tensor(struct emu_run *r, struct tensor *t)
{
    for (uint32_t i = 0; i < 5; i++)
        if (t->steps[i] == 0)
            t->steps[i] = 1;
    t->address = emu_alloc(r, t->bytes);
    for (size_t i = 0; i < t->bytes; i++)
        emu_bytes(t->address)[i] = (uint8_t)random_bits();
    if (!tmap_encode(t->map, (int)t->type, t->rank, t->address, t->dims, t->strides,
                     t->box, t->steps, 0, (int)t->swizzle, 0, (int)t->fill, why,
                     sizeof why))
        test_fail(__FILE__, __LINE__, "%s", why);
}

static uint32_t swizzled(uint32_t address, CUtensorMapSwizzle swizzle)
{
    switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
        return address ^ ((address >> 7 & 1) << 4);
    case CU_TENSOR_MAP_SWIZZLE_64B:
        return address ^ ((address >> 7 & 3) << 4);
    case CU_TENSOR_MAP_SWIZZLE_128B:
        return address ^ ((address >> 7 & 7) << 4);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B:
        return address ^ ((address >> 7 & 3) << 5);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B:
        return address ^ ((address >> 7 & 3) << 5) ^ ((address >> 7 & 1) << 3);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B:
        return address ^ ((address >> 7 & 1) << 6);
    default:
        return address;
    }
}

static uint32_t span_bytes(CUtensorMapSwizzle swizzle)
{
    return swizzle == CU_TENSOR_MAP_SWIZZLE_NONE  ? 0
           : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32
           : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
                                                  : 128;
}

/* Rows of the box and bytes from one to the next. */
static uint32_t box_rows(const struct tensor *t)
{
    uint32_t rows = 1;
    for (uint32_t i = 1; i < t->rank; i++)
        rows *= (t->box[i] + t->steps[i] - 1) / t->steps[i];
    return rows;
}

static uint32_t box_pitch(const struct tensor *t)
{
    uint32_t row = t->box[0] * (uint32_t)t->bits / 8;
    return row < span_bytes(t->swizzle) ? span_bytes(t->swizzle) : row;
}

static uint32_t data_bytes(const struct tensor *t)
{
    return box_rows(t) * t->box[0] * (uint32_t)t->bits / 8;
}

/* Calls `visit` for each byte of the box: where it lies in shared memory (for a
 * destination `to`) and in the tensor; -1: outside of it. */
typedef void visit_fn(void *arg, uint32_t smem, int64_t global);

static void walk_box(const struct tensor *t, uint32_t to, visit_fn *visit, void *arg)
{
    uint32_t row_bytes = t->box[0] * (uint32_t)t->bits / 8;
    for (uint32_t row = 0; row < box_rows(t); row++) {
        bool inside = true;
        int64_t global = 0;
        uint32_t rest = row;
        for (uint32_t i = 1; i < t->rank; i++) {
            uint32_t count = (t->box[i] + t->steps[i] - 1) / t->steps[i];
            int64_t c = t->at[i] + (int64_t)(rest % count * t->steps[i]);
            rest /= count;
            inside &= c >= 0 && c < (int64_t)t->dims[i];
            global += c * (int64_t)t->strides[i - 1];
        }
        for (uint32_t b = 0; b < row_bytes; b++) {
            int64_t element = t->at[0] + (int64_t)(b * 8 / (uint32_t)t->bits);
            bool here = inside && element >= 0 && element < (int64_t)t->dims[0];
            int64_t at = global + (int64_t)t->at[0] * t->bits / 8 + b;
            visit(arg, swizzled(to + row * box_pitch(t) + b, t->swizzle),
                  here ? at : -1);
        }
    }
}

/* ---- load a box, dump shared memory */

#define LOAD_PARAMS                                                                    \
    ".param .align 64 .b8 map[128], .param .u64 out, .param .u32 at0, .param .u32 "    \
    "at1, "                                                                            \
    ".param .u32 at2, .param .u32 at3, .param .u32 at4, .param .u32 to, .param .u32 "  \
    "tx, "                                                                             \
    ".param .u32 dump"

/* %1$s: 2d and so on, %2$s: the coordinates. */
static const char load_body[] =
    ".reg .pred p; .reg .b32 t, a, i, v, c0, c1, c2, c3, c4, dst, n, bytes;\n"
    ".reg .b64 m, o, x;\n"
    "mov.u32 t, %%tid.x;\n"
    "mov.u32 a, sm;\n"
    "mov.b64 m, map; cvta.param.u64 m, m;\n"
    "ld.param.u64 o, [out]; ld.param.u32 dst, [to]; ld.param.u32 n, [dump];\n"
    "ld.param.u32 c0, [at0]; ld.param.u32 c1, [at1]; ld.param.u32 c2, [at2];\n"
    "ld.param.u32 c3, [at3]; ld.param.u32 c4, [at4]; ld.param.u32 bytes, [tx];\n"
    "add.u32 dst, dst, a;\n"
    "setp.ne.u32 p, t, 0;\n"
    "@p bra WAIT;\n"
    "mbarrier.init.shared::cta.b64 [a], 1;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], bytes;\n"
    "cp.async.bulk.tensor.%s.shared::cta.global.tile.mbarrier::complete_tx::bytes "
    "[dst], "
    "[m, {%s}], [a];\n" /* line 15 of the body */
    "WAIT: bar.sync 0;\n"
    "POLL: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"
    "@!p bra POLL;\n"
    "shl.b32 i, t, 2;\n"
    "DUMP: setp.ge.u32 p, i, n;\n"
    "@p bra END;\n"
    "add.u32 v, dst, i; ld.shared.b32 v, [v];\n"
    "cvt.u64.u32 x, i; add.u64 x, x, o; st.global.b32 [x], v;\n"
    "add.u32 i, i, 128;\n"
    "bra DUMP;\n"
    "END: ret;\n";
#define LOAD_LINE 16 /* of the copy, in the module */

static const char *const coordinate_lists[] = {
    "", "c0", "c0,c1", "c0,c1,c2", "c0,c1,c2,c3", "c0,c1,c2,c3,c4"};

/* Sets up everything but the launch.  `to` counts from the start of sm[]. */
static void prepare_load(struct emu_run *r, const struct tensor *t, uint32_t rank,
                         uint32_t to, uint32_t tx, uint64_t out, char *body,
                         size_t bytes)
{
    char rank_text[8];
    snprintf(rank_text, sizeof rank_text, "%ud", rank);
    snprintf(body, bytes, load_body, rank_text, coordinate_lists[rank]);
    r->body = body;
    r->params = LOAD_PARAMS;
    r->threads = 32;
    emu_param(r, t->map, 128);
    emu_param(r, &out, 8);
    for (int i = 0; i < 5; i++)
        emu_param(r, &t->at[i], 4);
    emu_param(r, &to, 4);
    emu_param(r, &tx, 4);
    uint32_t dump = box_rows(t) * box_pitch(t);
    emu_param(r, &dump, 4);
    r->smem_bytes = to + dump;
}

struct expect_load {
    const struct tensor *t;
    const uint8_t *got;
    uint32_t to;
    uint8_t outside;
};

static void expect_byte(void *arg, uint32_t smem, int64_t global)
{
    const struct expect_load *e = arg;
    uint8_t want = global < 0 ? e->outside : emu_bytes(e->t->address)[global];
    uint8_t got = e->got[smem - e->to];
    if (got != want)
        test_fail(__FILE__, __LINE__,
                  "shared 0x%x, tensor byte %lld: %02x, expected %02x", smem,
                  (long long)global, got, want);
}

/* Shared memory starts at 1024 in the window; sm[] does so too. */
static void check_load(struct tensor *t, uint32_t to)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        static char body[4096];
        struct emu_run r = {.lazy = lazy};
        make_tensor(&r, t);
        uint64_t out = emu_alloc(&r, box_rows(t) * box_pitch(t));
        prepare_load(&r, t, t->rank, to, data_bytes(t), out, body, sizeof body);
        EMU_FINE(&r);
        struct expect_load e = {t, emu_bytes(out), 1024 + to, 0};
        walk_box(t, 1024 + to, expect_byte, &e);
        emu_done(&r);
    }
}

static struct tensor fp4_tensor(void)
{
    return (struct tensor){
        .type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
        .bits = 4,
        .rank = 2,
        .dims = {1024, 70},
        .strides = {512},
        .box = {256, 40},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
        .bytes = 70 * 512,
        .at = {256, 8},
    };
}

TEST(fp4_boxes_with_each_swizzle)
{
    static const uint32_t widths[] = {512, 64, 128, 256, 256, 256, 256};
    static const int modes[] = {0, 1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct tensor t = fp4_tensor();
        t.box[0] = widths[i] > 256 ? 256 : widths[i];
        t.swizzle = (CUtensorMapSwizzle)modes[i];
        check_load(&t, 1024);
    }
}

TEST(fp4_and_bytes_place_the_same)
{
    struct tensor t = fp4_tensor();
    t.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    t.bits = 8;
    t.dims[0] = 512;
    t.box[0] = 128;
    t.at[0] = 128;
    check_load(&t, 1024);
    /* Formula of a 256-wide tile: byte of (row, k). */
    for (uint32_t row = 0; row < 40; row++)
        for (uint32_t k = 0; k < 256; k++)
            CHECK_EQ(swizzled(2048 + row * 128 + k / 2, CU_TENSOR_MAP_SWIZZLE_128B),
                     2048 + row * 128 + (((k >> 5) ^ (row & 7)) << 4) +
                         ((k & 31) >> 1));
}

TEST(destinations_off_the_pattern)
{
    struct tensor t = fp4_tensor();
    check_load(&t, 1024 + 128);
    check_load(&t, 1024 + 256);
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    t.box[0] = 128;
    check_load(&t, 1024 + 128);
}

TEST(rows_narrower_than_the_swizzle)
{
    struct tensor t = fp4_tensor();
    t.box[0] = 64;
    check_load(&t, 1024);
}

TEST(outside_of_the_tensor_is_zero_and_counts)
{
    static const int32_t at[][2] = {{896, 8},  {1024, 8}, {256, 50},  {-64, 8},
                                    {256, -3}, {-64, -3}, {256, 500}, {4096, 4096}};
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        struct tensor t = fp4_tensor();
        t.at[0] = at[i][0];
        t.at[1] = at[i][1];
        check_load(&t, 1024);
    }
    /* A row that ends inside a 16-byte chunk. */
    struct tensor t = fp4_tensor();
    t.dims[0] = 330;
    check_load(&t, 1024);
}

TEST(scale_factor_map_in_three_dimensions)
{
    /* K = 576: 9 groups of 64 columns; 300 rows: 3 blocks of 128. */
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
        .bits = 16,
        .rank = 3,
        .dims = {256, 9, 3},
        .strides = {512, 512 * 9},
        .box = {256, 4, 2},
        .bytes = 512 * 9 * 3,
        .at = {0, 4, 1},
    };
    check_load(&t, 1024);
    t.at[1] = 8;
    t.at[2] = 2;
    check_load(&t, 1024);
}

TEST(one_four_and_five_dimensions)
{
    struct tensor one = {
        .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        .bits = 32,
        .rank = 1,
        .dims = {100},
        .box = {64},
        .bytes = 400,
        .at = {60},
    };
    check_load(&one, 1024);
    struct tensor five = {
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .bits = 8,
        .rank = 5,
        .dims = {32, 7, 5, 4, 3},
        .strides = {32, 32 * 7, 32 * 7 * 5, 32 * 7 * 5 * 4},
        .box = {32, 4, 3, 3, 2},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_32B,
        .bytes = 32 * 7 * 5 * 4 * 3,
        .at = {0, 5, 3, 2, 2},
    };
    check_load(&five, 1024);
    five.rank = 4;
    check_load(&five, 1024);
    /* Every second row, every third plane. */
    five.rank = 5;
    five.at[1] = -1;
    five.at[2] = five.at[3] = five.at[4] = 0;
    five.steps[1] = 2;
    five.steps[3] = 3;
    check_load(&five, 1024);
}

TEST(nan_fill)
{
    static char body[4096];
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        .bits = 32,
        .rank = 2,
        .dims = {10, 3},
        .strides = {48},
        .box = {8, 2},
        .fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        .bytes = 48 * 3,
        .at = {8, 2},
    };
    struct emu_run r = {0};
    make_tensor(&r, &t);
    uint64_t out = emu_alloc(&r, 64);
    prepare_load(&r, &t, 2, 1024, 64, out, body, sizeof body);
    EMU_FINE(&r);
    CHECK_EQ(emu_u32(out)[1], emu_u32(t.address)[2 * 12 + 9]);
    for (int i = 2; i < 16; i++)
        CHECK_EQ(emu_u32(out)[i], 0x7ff77ff7);
    emu_done(&r);
}

/* As an H200 did it. */
TEST(loads_round_to_tf32)
{
    static const uint32_t from[8] = {0x3f801000, 0x3f800fff, 0x3f801001, 0x3f803000,
                                     0xbf801000, 0x7f800001, 0x7f7fffff, 0x00000fff};
    static const uint32_t to[8] = {0x3f800000, 0x3f800000, 0x3f802000, 0x3f804000,
                                   0xbf800000, 0x7fffe000, 0x7f800000, 0};
    static char body[4096];
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        .bits = 32,
        .rank = 2,
        .dims = {8, 1},
        .strides = {32},
        .box = {8, 1},
        .bytes = 32,
    };
    struct emu_run r = {0};
    make_tensor(&r, &t);
    memcpy(emu_bytes(t.address), from, sizeof from);
    uint64_t out = emu_alloc(&r, 32);
    prepare_load(&r, &t, 2, 1024, 32, out, body, sizeof body);
    EMU_FINE(&r);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(emu_u32(out)[i], to[i]);
    emu_done(&r);
}

TEST(padded_4_bit_elements)
{
    static char body[4096];
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
        .bits = 4,
        .rank = 2,
        .dims = {256, 9},
        .strides = {128},
        .box = {128, 8},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
        .bytes = 128 * 9,
        .at = {128, 1},
    };
    struct emu_run r = {0};
    make_tensor(&r, &t);
    uint64_t out = emu_alloc(&r, 1024);
    prepare_load(&r, &t, 2, 1024, 64 * 8, out, body, sizeof body);
    /* The kernel looks at everything, the undefined halves of slots too. */
    EMU_EXPECT(&r, CHECK_UNINITIALISED, 0, "are read, and nothing has written them");
    for (uint32_t row = 0; row < 8; row++)
        for (uint32_t b = 0; b < 64; b++) {
            uint32_t at = row * 128 + b / 8 * 16 + b % 8;
            CHECK_EQ(emu_bytes(out)[swizzled(at, CU_TENSOR_MAP_SWIZZLE_128B)],
                     emu_bytes(t.address)[(row + 1) * 128 + 64 + b]);
        }
    emu_done(&r);
}

/* ---- what a load must not be */

/* Prepares a correct load, lets `change` spoil it, expects the report. */
static void check_bad_load(struct tensor *t, uint32_t rank, uint32_t to, uint32_t tx,
                           enum check check, const char *words)
{
    static char body[4096];
    struct emu_run r = {0};
    uint64_t out = emu_alloc(&r, 65536);
    prepare_load(&r, t, rank, to, tx, out, body, sizeof body);
    EMU_EXPECT(&r, check, LOAD_LINE, words);
    emu_done(&r);
}

TEST(bad_loads)
{
    struct emu_run owner = {0};
    owner.arena = arena_new();
    owner.machine.report = report_new();
    struct tensor t = fp4_tensor();
    make_tensor(&owner, &t);
    uint32_t tx = data_bytes(&t);

    check_bad_load(&t, 3, 1024, tx, CHECK_OPERAND,
                   "tensor map map has 2 dimensions, the instruction 3");
    check_bad_load(
        &t, 2, 1024 + 64, tx, CHECK_ALIGNMENT,
        "the destination at shared offset 0x840 is not aligned to 128 bytes");
    check_bad_load(&t, 2, 0, tx, CHECK_BAD_BARRIER, "would overwrite an mbarrier");
    struct tensor bad = t;
    bad.at[0] = 16;
    check_bad_load(
        &bad, 2, 1024, tx, CHECK_ALIGNMENT,
        "coordinate 0 is 16: a multiple of 32, 16 bytes, for type b4x16 of map map");
    bad = t;
    bad.map[0] ^= 1;
    check_bad_load(&bad, 2, 1024, tx, CHECK_OPERAND,
                   "tensor map map: these 128 bytes are no tensor map");
    /* A tensor said to be larger than its memory, where the box leaves it. */
    bad = t;
    bad.dims[1] = 71;
    CHECK(tmap_encode(bad.map, (int)t.type, 2, t.address, bad.dims, t.strides, t.box,
                      t.steps, 0, 3, 0, 0, why, sizeof why));
    bad.at[1] = 60;
    check_bad_load(&bad, 2, 1024, tx, CHECK_OUT_OF_BOUNDS,
                   "tensor copy through map map");
    emu_done(&owner);
}

/* ---- stores */

#define STORE_PARAMS                                                                   \
    ".param .align 64 .b8 map[128], .param .u64 source, .param .u32 bytes, "           \
    ".param .u32 at0, .param .u32 at1, .param .u32 mode"

/* Fills shared memory from `source` with plain stores, then stores a box.  %s: the
 * instruction up to its operands; mode 1: lane 0 only, 0: all lanes. */
static const char store_body[] =
    ".reg .pred p, q; .reg .b32 t, a, i, v, c0, c1, n, md; .reg .b64 m, s, x;\n"
    "mov.u32 t, %%tid.x; mov.u32 a, sm;\n"
    "mov.b64 m, map; cvta.param.u64 m, m; ld.param.u64 s, [source];\n"
    "ld.param.u32 n, [bytes]; ld.param.u32 c0, [at0]; ld.param.u32 c1, [at1];\n"
    "ld.param.u32 md, [mode];\n"
    "shl.b32 i, t, 2;\n"
    "FILL: setp.ge.u32 p, i, n;\n"
    "@p bra FILLED;\n"
    "cvt.u64.u32 x, i; add.u64 x, x, s; ld.global.b32 v, [x];\n"
    "add.u32 c0, a, i; st.shared.b32 [c0], v;\n"
    "add.u32 i, i, 128;\n"
    "bra FILL;\n"
    "FILLED: fence.proxy.async.shared::cta;\n"
    "bar.sync 0;\n"
    "ld.param.u32 c0, [at0];\n"
    "setp.ge.u32 p, t, 1; setp.eq.u32 q, md, 1; and.pred p, p, q;\n"
    "@p bra END;\n"
    "%s [m, {c0, c1}], [a];\n" /* line 18 of the body */
    "cp.async.bulk.commit_group;\n"
    "cp.async.bulk.wait_group 0;\n"
    "END: ret;\n";
#define STORE_LINE 19

#define TENSOR_STORE "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"

static void prepare_store(struct emu_run *r, const struct tensor *t, const char *insn,
                          const uint8_t *image, uint32_t bytes, uint32_t mode,
                          char *body, size_t body_bytes)
{
    snprintf(body, body_bytes, store_body, insn);
    r->body = body;
    r->params = STORE_PARAMS;
    r->threads = 32;
    r->smem_bytes = bytes;
    uint64_t source = emu_alloc(r, bytes);
    memcpy(emu_bytes(source), image, bytes);
    emu_param(r, t->map, 128);
    emu_param(r, &source, 8);
    emu_param(r, &bytes, 4);
    emu_param(r, &t->at[0], 4);
    emu_param(r, &t->at[1], 4);
    emu_param(r, &mode, 4);
}

struct expect_store {
    const uint8_t *image;
    uint8_t *want; /* the tensor as it must become */
};

static void move_byte(void *arg, uint32_t smem, int64_t global)
{
    struct expect_store *e = arg;
    if (global >= 0)
        e->want[global] = e->image[smem - 1024];
}

/* A store writes whole 16-byte pieces of a row, past the last element too: measured on
 * an H200. */
static struct tensor as_written(const struct tensor *t)
{
    struct tensor whole = *t;
    uint64_t pieces = (t->dims[0] * (uint64_t)t->bits + 127) / 128;
    whole.dims[0] = pieces * 128 / (uint64_t)t->bits;
    return whole;
}

static void check_store(struct tensor *t)
{
    static uint8_t image[65536], want[65536];
    static char body[4096];
    for (int variant = 0; variant < 4; variant++) {
        struct emu_run r = {.lazy = variant & 1};
        make_tensor(&r, t);
        uint32_t bytes = box_rows(t) * box_pitch(t);
        for (uint32_t i = 0; i < bytes; i++)
            image[i] = (uint8_t)random_bits();
        memcpy(want, emu_bytes(t->address), t->bytes);
        prepare_store(&r, t, TENSOR_STORE, image, bytes, (uint32_t)variant >> 1, body,
                      sizeof body);
        EMU_FINE(&r);
        struct expect_store e = {image, want};
        struct tensor whole = as_written(t);
        walk_box(&whole, 1024, move_byte, &e);
        for (size_t i = 0; i < t->bytes; i++)
            if (emu_bytes(t->address)[i] != want[i])
                test_fail(__FILE__, __LINE__, "tensor byte %zu: %02x, expected %02x", i,
                          emu_bytes(t->address)[i], want[i]);
        emu_done(&r);
    }
}

TEST(stores_are_clipped)
{
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        .bits = 16,
        .rank = 2,
        .dims = {100, 50},
        .strides = {208},
        .box = {64, 32},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
        .bytes = 208 * 50,
    };
    static const int32_t at[][2] = {{0, 0},   {64, 0},  {0, 32},
                                    {64, 32}, {128, 0}, {8, 3}};
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        t.at[0] = at[i][0];
        t.at[1] = at[i][1];
        check_store(&t);
    }
    t.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    check_store(&t);
    struct tensor fp4 = fp4_tensor();
    fp4.at[1] = 50;
    check_store(&fp4);
}

/* Lanes with the same store store once, but reductions add up. */
TEST(reductions)
{
    static char body[4096];
    for (int lazy = 0; lazy < 2; lazy++)
        for (uint32_t one_lane = 0; one_lane < 2; one_lane++) {
            struct emu_run r = {.lazy = lazy, .checks = "default,-40"};
            struct tensor t = {
                .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                .bits = 32,
                .rank = 2,
                .dims = {6, 3},
                .strides = {32},
                .box = {4, 2},
                .bytes = 96,
                .at = {4, 2},
            };
            make_tensor(&r, &t);
            float image[8], *to = (float *)(void *)emu_bytes(t.address);
            for (int i = 0; i < 8; i++)
                image[i] = (float)i + 1;
            for (int i = 0; i < 24; i++)
                to[i] = 100;
            prepare_store(&r, &t,
                          "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile."
                          "bulk_group",
                          (const uint8_t *)image, 32, one_lane, body, sizeof body);
            EMU_FINE(&r);
            float times = one_lane ? 1 : 32;
            for (int i = 0; i < 24; i++)
                CHECK_EQ(to[i], i == 20   ? 100 + times
                                : i == 21 ? 100 + 2 * times
                                          : 100);
            emu_done(&r);
        }
}

TEST(bad_stores)
{
    static uint8_t image[4096];
    static char body[4096];
    struct tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .bits = 8,
        .rank = 2,
        .dims = {64, 8},
        .strides = {64},
        .box = {64, 8},
        .bytes = 512,
        .at = {0, -1},
    };
    struct emu_run r = {0};
    make_tensor(&r, &t);
    prepare_store(&r, &t, TENSOR_STORE, image, 512, 1, body, sizeof body);
    EMU_EXPECT(&r, CHECK_OPERAND, STORE_LINE, "coordinate 1 is -1");
    emu_done(&r);

    struct emu_run r2 = {0};
    t.at[1] = 0;
    make_tensor(&r2, &t);
    prepare_store(
        &r2, &t,
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", image,
        512, 1, body, sizeof body);
    EMU_EXPECT(&r2, CHECK_OPERAND, STORE_LINE,
               "tensors of type u8 cannot be reduced so");
    emu_done(&r2);
}
