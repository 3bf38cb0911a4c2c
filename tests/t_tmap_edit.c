/* t_tmap_edit.c - kernels that edit tensor maps, and check 34. */
#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- fields, one by one */

static void encode(uint8_t *map, uint64_t address)
{
    const uint64_t dims[3] = {64, 32, 4}, strides[2] = {256, 8192};
    const uint32_t box[3] = {32, 8, 1}, steps[3] = {1, 1, 1};
    char why[160];
    if (!tmap_encode(map, 7, 3, address, dims, strides, box, steps, 0, 0, 0, 0, why,
                     sizeof why))
        test_fail(__FILE__, __LINE__, "%s", why);
}

TEST(each_field_is_replaced_alone)
{
    _Alignas(64) uint8_t map[TMAP_BYTES];
    struct tmap was, t;
    char why[160];
    encode(map, 0x1000);
    CHECK(tmap_decode(map, &was, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_ADDRESS, 0, 0x123456789ab0, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_RANK, 0, 1, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_BOX, 1, 16, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_DIM, 0, 48, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_STRIDE, 0, 512, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_STEP, 1, 2, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_TYPE, 0, TMAP_U32, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_SWIZZLE, 0, TMAP_SWIZZLE_128B, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_ATOM, 0, TMAP_ATOM_32B, why, sizeof why));
    CHECK(tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(t.address, 0x123456789ab0);
    CHECK_EQ(t.rank, 2);
    CHECK_EQ(t.box[0], 32);
    CHECK_EQ(t.box[1], 16);
    CHECK_EQ(t.dim[0], 48);
    CHECK_EQ(t.dim[1], 32);
    CHECK_EQ(t.stride[1], 512);
    CHECK_EQ(t.step[1], 2);
    CHECK_EQ(t.type, TMAP_U32);
    CHECK_EQ(t.swizzle, TMAP_SWIZZLE_128B);
    CHECK_EQ(t.atom, TMAP_ATOM_32B);
    /* A rule that the new fields break shows when the map is used. */
    CHECK(tmap_replace(map, TMAP_FILL, 0, TMAP_FILL_NAN, why, sizeof why));
    CHECK(!tmap_decode(map, &t, why, sizeof why));
    CHECK_STR(why, "NaN fill needs a floating-point type, not u32");
    CHECK(tmap_replace(map, TMAP_FILL, 0, 0, why, sizeof why));
    CHECK(tmap_replace(map, TMAP_INTERLEAVE, 0, TMAP_INTERLEAVE_16B, why, sizeof why));
    CHECK(!tmap_decode(map, &t, why, sizeof why));
    CHECK(!tmap_replace(map, TMAP_BOX, 0, 65536, why, sizeof why));
    CHECK_STR(why, "box_dim cannot be 65536");
    map[0] ^= 1;
    CHECK(!tmap_replace(map, TMAP_RANK, 0, 0, why, sizeof why));
    CHECK_STR(why, "rank of 128 bytes that are no tensor map");
}

TEST(a_size_of_2_to_the_32_can_be_replaced)
{
    _Alignas(64) uint8_t map[TMAP_BYTES];
    const uint64_t dim = (uint64_t)1 << 32;
    const uint32_t box = 16, step = 1;
    struct tmap t;
    char why[160];
    CHECK(tmap_encode(map, 0, 1, 0x1000, &dim, NULL, &box, &step, 0, 0, 0, 0, why,
                      sizeof why));
    CHECK(tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(t.dim[0], dim);
    CHECK(tmap_replace(map, TMAP_DIM, 0, 64, why, sizeof why));
    CHECK(tmap_decode(map, &t, why, sizeof why));
    CHECK_EQ(t.dim[0], 64);
}

/* ---- grouped copy: block i edits a map to see matrix i, of its own size and place,
 * and copies one box of it */

#define PARAMS                                                                         \
    ".param .align 64 .b8 map[128], .param .u64 groups, .param .u64 slots, "           \
    ".param .u64 out"
/* A group is address, columns, rows, row pitch in bytes: 32 bytes. */
static const char grouped[] =
    ".reg .pred p, first; .reg .b32 t, a, b, c, r, j, z, m; .reg .b64 g, s, o, x, v, "
    "q;\n"
    "mov.u32 t, %tid.x; mov.u32 a, sm; mov.u32 b, %ctaid.x; mov.u32 z, 0;\n"
    "add.u32 m, a, 1024; setp.eq.u32 first, t, 0;\n"
    "ld.param.u64 g, [groups]; mad.wide.u32 g, b, 32, g;\n"
    "ld.param.u64 s, [slots]; mad.wide.u32 s, b, 128, s;\n"
    "ld.param.u64 o, [out]; mad.wide.u32 o, b, 1024, o;\n"
    "@first mbarrier.init.shared::cta.b64 [a], 1;\n"
    "@first fence.mbarrier_init.release.cluster;\n"
    /* 16 lanes copy the map, one word each. */
    "setp.gt.u32 p, t, 15; mul.wide.u32 x, t, 8; mov.b64 q, map; cvta.param.u64 q, q;\n"
    "add.u64 q, q, x; cvt.u32.u64 r, x; add.u32 r, r, m;\n"
    "@!p ld.global.u64 v, [q];\n"
    "@!p st.shared.u64 [r], v;\n"
    "bar.warp.sync 0xffffffff;\n"
    "@!first bra EDITED;\n"
    "ld.global.u64 v, [g];\n"
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [m], v;\n"
    "ld.global.v2.u32 {c, r}, [g+8];\n"
    "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [m], 0, c;\n"
    "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [m], 1, r;\n"
    "ld.global.u64 v, [g+16];\n"
    "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [m], 0, v;\n"
    "EDITED: bar.warp.sync 0xffffffff;\n"
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
    "aligned [s], [m], 128;\n"
    "@!first bra END;\n"
    "fence.proxy.tensormap::generic.acquire.gpu [s], 128;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 1024;\n"
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
    "[a+2048], [s, {z, z}], [a];\n" /* USE */
    "FULL: mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0;\n"
    "@!p bra FULL;\n"
    "fence.proxy.async.shared::cta;\n"
    "add.u32 r, a, 2048;\n"
    "cp.async.bulk.global.shared::cta.bulk_group [o], [r], 1024;\n"
    "cp.async.bulk.commit_group;\n"
    "cp.async.bulk.wait_group 0;\n"
    "END: ret;\n";

enum { GROUPS = 3 };
static const struct {
    uint32_t columns, rows, pitch_bytes;
} shapes[GROUPS] = {{64, 16, 256}, {20, 5, 512}, {7, 8, 32}};

/* `body` with `from` replaced by `to`; both NULL: as it is. */
static char *text_with(const char *body, const char *from, const char *to)
{
    const char *at = from ? strstr(body, from) : NULL;
    if (from && !at)
        test_fail(__FILE__, __LINE__, "the kernel has no %s", from);
    char *text = malloc(strlen(body) + (to ? strlen(to) : 0) + 1);
    if (!at)
        return strcpy(text, body);
    memcpy(text, body, (size_t)(at - body));
    text[at - body] = 0;
    strcat(text, to);
    return strcat(text, at + strlen(from));
}

struct group_run {
    struct emu_run r;
    char *text;
    uint64_t matrices[GROUPS], out;
};

static void prepare(struct group_run *x, bool lazy, const char *from, const char *to)
{
    *x = (struct group_run){.text = text_with(grouped, from, to)};
    struct emu_run *r = &x->r;
    r->body = x->text;
    r->params = PARAMS;
    r->threads = 32;
    r->grid[0] = GROUPS;
    r->smem_bytes = 4096;
    r->lazy = lazy;
    uint64_t groups = emu_alloc(r, 32 * GROUPS), slots = emu_alloc(r, 128 * GROUPS);
    x->out = emu_alloc(r, 1024 * GROUPS);
    for (uint32_t i = 0; i < GROUPS; i++) {
        x->matrices[i] = emu_alloc(r, 8192);
        for (uint32_t k = 0; k < 2048; k++)
            emu_u32(x->matrices[i])[k] = (i + 1) << 16 | k;
        memcpy(emu_bytes(groups) + 32 * i, &x->matrices[i], 8);
        memcpy(emu_bytes(groups) + 32 * i + 8, &shapes[i], 8);
        uint64_t pitch = shapes[i].pitch_bytes;
        memcpy(emu_bytes(groups) + 32 * i + 16, &pitch, 8);
    }
    _Alignas(64) uint8_t map[TMAP_BYTES];
    const uint64_t dims[2] = {32, 8}, stride = 128;
    const uint32_t box[2] = {32, 8}, steps[2] = {1, 1};
    char why[160];
    if (!tmap_encode(map, 2, 2, x->matrices[0], dims, &stride, box, steps, 0, 0, 0, 0,
                     why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s", why);
    emu_param(r, map, sizeof map);
    emu_param(r, &groups, 8);
    emu_param(r, &slots, 8);
    emu_param(r, &x->out, 8);
}

static void done(struct group_run *x)
{
    emu_done(&x->r);
    free(x->text);
}

static void check_result(const struct group_run *x)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        for (uint32_t row = 0; row < 8; row++)
            for (uint32_t column = 0; column < 32; column++) {
                bool inside = row < shapes[i].rows && column < shapes[i].columns;
                uint32_t at = row * shapes[i].pitch_bytes / 4 + column;
                CHECK_EQ(emu_u32(x->out)[i * 256 + row * 32 + column],
                         inside ? (i + 1) << 16 | at : 0);
            }
}

TEST(grouped_copy)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct group_run x;
        prepare(&x, lazy, NULL, NULL);
        EMU_FINE(&x.r);
        check_result(&x);
        done(&x);
    }
}

#define ACQUIRE "fence.proxy.tensormap::generic.acquire.gpu [s], 128;\n"
#define CP                                                                             \
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."  \
    "aligned [s], [m], 128;\n"

/* The edit in place: the map is copied first, then changed in global memory. */
#define IN_PLACE(release)                                                              \
    CP "@first tensormap.replace.tile.global_dim.global.b1024.b32 [s], 0, "            \
       "c;\n" release

TEST(edited_in_place)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct group_run x;
        prepare(&x, lazy, CP,
                IN_PLACE("@first fence.proxy.tensormap::generic.release.gpu;\n"));
        EMU_FINE(&x.r);
        check_result(&x);
        done(&x);
    }
}

static int use_line(const char *text)
{
    const char *use = strstr(text, "[a+2048], [s,");
    int line = 2;
    for (const char *p = text; p < use; p++)
        line += *p == '\n';
    return line;
}

static void misuse(const char *from, const char *to, enum check check, int line,
                   const char *words)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct group_run x;
        prepare(&x, lazy, from, to);
        EMU_EXPECT(&x.r, check, line < 0 ? use_line(x.text) : line, words);
        done(&x);
    }
}

TEST(use_without_acquire)
{
    misuse(ACQUIRE, "\n", CHECK_TENSOR_MAP, -1, "has not been acquired by this block");
}

TEST(acquire_before_the_change)
{
    misuse(CP "@!first bra END;\n" ACQUIRE, ACQUIRE CP "@!first bra END;\n",
           CHECK_TENSOR_MAP, -1, "has not been acquired by this block");
}

TEST(use_without_release)
{
    misuse(CP, IN_PLACE(""), CHECK_TENSOR_MAP, -1,
           "has not been released to the tensormap proxy");
}

TEST(ordinary_store_into_a_map)
{
    misuse(ACQUIRE, ACQUIRE "st.global.u32 [s+24], c;\nst.global.u32 [s+24], z;\n",
           CHECK_TENSOR_MAP, -1, "changed by ordinary stores");
}

TEST(map_in_shared_memory)
{
    misuse(ACQUIRE, "cvt.u64.u32 s, m; cvta.shared.u64 s, s;\n", CHECK_TENSOR_MAP, -1,
           "the tensor map lies in shared memory");
}

TEST(misaligned_slot)
{
    misuse("mad.wide.u32 s, b, 128, s;", "mad.wide.u32 s, b, 128, s; add.u64 s, s, 32;",
           CHECK_ALIGNMENT, 0, "is not aligned to 64 bytes");
}

TEST(no_map_at_all)
{
    misuse("@!p st.shared.u64 [r], v;", "@!p st.shared.u64 [r+64], v;", CHECK_OPERAND,
           0, "128 bytes that are no tensor map");
}

TEST(changed_while_a_copy_is_pending)
{
    struct group_run x;
    prepare(&x, true, "FULL: mbarrier",
            "tensormap.replace.tile.global_dim.global.b1024.b32 [s], 0, c;\n"
            "FULL: mbarrier");
    EMU_EXPECT(&x.r, CHECK_TENSOR_MAP, use_line(x.text) + 1,
               "while a copy through it is pending");
    done(&x);
}
