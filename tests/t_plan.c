/* Layout arithmetic of gen/plan.c against numbers worked out by hand. */
#include "gen/plan.h"

#include <string.h>

#include "core/image.h"
#include "gen/config.h"
#include "tests/test.h"

static const int tile_ns[] = {64, 128, 192, 256};
static const int tile_ks[] = {128, 256};

static struct config config_of(int n, int k, int stages, enum d_type d_type)
{
    return (struct config){.file = "test.lua",
                           .name = "test",
                           .target = target_find("sm_100f"),
                           .tile_m = 128,
                           .tile_n = n,
                           .tile_k = k,
                           .stages = stages,
                           .d_type = d_type,
                           .epilogue = "identity",
                           .template_name = "gemm_tcgen05",
                           .group_m = 8};
}

TEST(stage_bytes_are_those_of_the_operands)
{
    static const struct {
        int n, k;
        uint32_t a, b, sfa, sfb, stage;
    } rows[] = {
        {64, 256, 16384, 8192, 2048, 2048, 28672},
        {128, 256, 16384, 16384, 2048, 2048, 36864},
        {192, 256, 16384, 24576, 2048, 4096, 47104},
        {256, 256, 16384, 32768, 2048, 4096, 55296},
        {64, 128, 8192, 4096, 1024, 1024, 14336},
        {192, 128, 8192, 12288, 1024, 2048, 23552},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *a = arena_new();
        struct config c = config_of(rows[i].n, rows[i].k, STAGES_AUTO, D_BF16);
        const struct plan *p = plan_build(a, &c, diags_new(a));
        CHECK(p);
        CHECK_EQ(p->a_bytes, rows[i].a);
        CHECK_EQ(p->b_bytes, rows[i].b);
        CHECK_EQ(p->sfa_bytes, rows[i].sfa);
        CHECK_EQ(p->sfb_bytes, rows[i].sfb);
        CHECK_EQ(p->stage_bytes, rows[i].stage);
        CHECK_EQ(p->tx_bytes, rows[i].stage);
        arena_free(a);
    }
}

/* A byte more or less of shared memory changes the count just where it should. */
TEST(auto_stages_are_the_exact_maximum)
{
    static const uint32_t limits[] = {232448, 101376};
    for (size_t l = 0; l < COUNT_OF(limits); l++)
        for (size_t n = 0; n < COUNT_OF(tile_ns); n++)
            for (size_t k = 0; k < COUNT_OF(tile_ks); k++) {
                struct config c = config_of(tile_ns[n], tile_ks[k], STAGES_AUTO, D_F32);
                int most = plan_max_stages(&c, limits[l]);
                struct arena *a = arena_new();
                struct target t = *c.target;
                c.target = &t;
                t.smem_bytes = limits[l];
                const struct plan *p = plan_build(a, &c, diags_new(a));
                if (most < 2) {
                    CHECK(!p);
                    arena_free(a);
                    continue;
                }
                CHECK(p);
                CHECK_EQ(p->stages, most);
                CHECK(p->smem_bytes <= limits[l]);
                CHECK(p->smem_bytes + p->stage_bytes + 16 > limits[l]);
                CHECK_EQ(plan_max_stages(&c, p->smem_bytes), most);
                CHECK_EQ(plan_max_stages(&c, p->smem_bytes - 1), most - 1);
                arena_free(a);
            }
}

TEST(one_stage_too_many_says_what_fits)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct config c = config_of(256, 256, 5, D_BF16);
    CHECK(!plan_build(a, &c, d));
    CHECK_EQ(d->count, 1);
    CHECK_STR(diag_code_name(d->first->code), "smem-over");
    /* 5 x 55296 + 8192 + barriers (2 x 5 + 2) x 8 + 4, rounded to 16 */
    CHECK(strstr(d->first->text, "5 stages need 284784 B"));
    CHECK(strstr(d->first->text, "52336 B too many"));
    CHECK(strstr(d->first->notes->next->text, "4 stages fit"));
    arena_free(a);
}

TEST(nothing_overlaps_and_everything_is_aligned)
{
    for (size_t n = 0; n < COUNT_OF(tile_ns); n++)
        for (size_t k = 0; k < COUNT_OF(tile_ks); k++)
            for (int f32 = 0; f32 < 2; f32++) {
                struct arena *a = arena_new();
                struct config c = config_of(tile_ns[n], tile_ks[k], STAGES_AUTO,
                                            f32 ? D_F32 : D_BF16);
                const struct plan *p = plan_build(a, &c, diags_new(a));
                CHECK(p);
                uint32_t pattern = 8 * p->row_bytes; /* of the swizzle */
                CHECK_EQ(p->stage_bytes % 1024, 0);
                CHECK_EQ((p->a_offset | p->b_offset) % pattern, 0);
                CHECK_EQ((p->sfa_offset | p->sfb_offset) % 128, 0);
                CHECK(p->a_offset + p->a_bytes <= p->b_offset);
                CHECK(p->b_offset + p->b_bytes <= p->sfa_offset);
                CHECK(p->sfa_offset + p->sfa_bytes <= p->sfb_offset);
                CHECK(p->sfb_offset + p->sfb_bytes <= p->stage_bytes);
                CHECK_EQ(p->staging_offset, (uint32_t)p->stages * p->stage_bytes);
                CHECK_EQ(p->staging_offset % 1024, 0);
                CHECK_EQ(p->outputs[0].staging_warp % 512, 0);
                CHECK(p->staging_offset + p->staging_bytes <= p->full_bar);
                CHECK_EQ(p->full_bar % 8, 0);
                CHECK(p->tmem_word + 4 <= p->smem_bytes);
                /* tensor memory */
                CHECK_EQ(p->acc_count, tile_ns[n] == 256 ? 1 : 2);
                CHECK(p->sf_sets >= 2 && p->sf_sets <= p->stages);
                CHECK(p->sf_col >= p->acc_count * p->acc_cols);
                CHECK_EQ(p->sf_col % 4, 0);
                CHECK_EQ(p->tmem_used_cols, p->sf_col + p->sf_sets * p->sf_set_cols);
                CHECK(p->tmem_used_cols <= p->tmem_cols && p->tmem_cols <= 512);
                CHECK(p->sf_sets == p->stages ||
                      p->tmem_used_cols + p->sf_set_cols > 512);
                arena_free(a);
            }
}

/* Values from the tables of the PTX ISA, written out. */
TEST(descriptors_are_the_documented_constants)
{
    static const uint32_t idescs[] = {0x08100480, 0x08200480, 0x08300480, 0x08400480};
    for (size_t n = 0; n < COUNT_OF(tile_ns); n++) {
        struct arena *a = arena_new();
        struct config c = config_of(tile_ns[n], 256, STAGES_AUTO, D_BF16);
        const struct plan *p = plan_build(a, &c, diags_new(a));
        CHECK_EQ(p->idesc, idescs[n]);
        CHECK_EQ(p->ab_desc, 0x4000404000010000);
        CHECK_EQ(p->sf_desc, 0x0000400800010000);
        c.tile_k = 128; /* rows of 64 bytes: 64-byte swizzle, groups of 512 bytes */
        p = plan_build(a, &c, diags_new(a));
        CHECK_EQ(p->ab_desc, 0x8000402000010000);
        arena_free(a);
    }
}

TEST(image_has_a_map_for_every_operand)
{
    struct arena *a = arena_new();
    struct config c = config_of(192, 256, STAGES_AUTO, D_F32);
    const struct plan *p = plan_build(a, &c, diags_new(a));
    struct image i;
    plan_image(p, &i);
    static const char *const names[] = {"a", "b", "sfa", "sfb", "o0"};
    CHECK_EQ(i.tensor_count, 5);
    for (int t = 0; t < 5; t++) {
        CHECK_STR(i.tensors[t].name, names[t]);
        CHECK_STR(i.params[t].name, names[t]);
        CHECK_EQ(i.params[t].kind, PARAM_TENSOR_MAP);
    }
    CHECK_EQ(i.tensors[1].box[0], 128); /* bytes: 256 elements */
    CHECK_EQ(i.tensors[1].box[1], 192);
    CHECK_EQ(i.tensors[3].box[2], 2); /* 192 columns touch two blocks of 128 */
    CHECK_EQ(i.tensors[4].box[0], 16);
    CHECK_EQ(i.param_count, 12);
    CHECK_EQ(i.smem_bytes, p->smem_bytes);
    arena_free(a);
}
