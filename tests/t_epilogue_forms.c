/* t_epilogue_forms.c - what the sweep over named epilogues does not meet: the output
 * forms against references of their own, all formats and widths, extreme values,
 * several outputs, layouts, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/lower.h"
#include "gen/trace.h"
#include "tests/epilogue_lab.h"
#include "tests/ref.h"
#include "tests/test.h"

static const float alpha = 0.002f;

/* Runs and checks it; the caller looks at the outputs. */
static struct lab_run *checked(struct lab *lab, const struct lab_kernel *k,
                               const struct lab_problem *p, float factor)
{
    struct job *j = lab_job(k);
    struct lab_run *r = lab_run(lab, j, p, factor);
    lab_check(r);
    return r;
}

static void done(struct lab_run *r)
{
    job_free((struct job *)r->job);
    lab_run_free(r);
}

static void check(struct lab *lab, const struct lab_kernel *k,
                  const struct lab_problem *p, float factor)
{
    done(checked(lab, k, p, factor));
}

/* ---- the four forms of a gated layer, by arithmetic of this file */

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* silu(gate) * up as epilogues compute it: ex2.approx, rcp.approx, which the emulator
 * rounds correctly. */
static float swiglu(float gate, float up)
{
    float scaled = gate * -1.44269504088896340736f;
    float grown = flushed((float)exp2((double)flushed(scaled)));
    float sigmoid = flushed(1.0f / (grown + 1.0f));
    float silu = gate * sigmoid;
    return silu * up;
}

/* Pair column c of a row of sums: gate columns 16 i .. 16 i + 7, up columns behind. */
static float swiglu_at(const struct lab_problem *p, size_t row, size_t c, float factor)
{
    const float *sums = p->sums + row * p->n + c / 8 * 16 + c % 8;
    return swiglu(sums[0] * factor, sums[8] * factor);
}

static uint16_t bf16_at(const struct run_output *o, size_t row, size_t col)
{
    return (uint16_t)run_output_code(o, row, col);
}

TEST(form_1_interleaved_bf16)
{
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 150, 272, 192);
    struct lab_run *r =
        checked(lab, &(struct lab_kernel){.epilogue = "swiglu_interleaved"}, p, alpha);
    CHECK_EQ(r->outs[0].d.n, 272);
    for (size_t row = 0; row < 150; row++)
        for (size_t col = 0; col < 272; col++) {
            float x = col / 8 % 2 ? swiglu_at(p, row, col / 16 * 8 + col % 8, alpha)
                                  : p->sums[row * 272 + col] * alpha;
            CHECK_EQ(bf16_at(&r->outs[0], row, col), ref_bf16_nearest((double)x));
        }
    done(r);
    lab_close(lab);
}

TEST(form_2_compact_bf16)
{
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 150, 272, 192);
    struct lab_run *r =
        checked(lab, &(struct lab_kernel){.epilogue = "swiglu"}, p, alpha);
    CHECK_EQ(r->outs[0].d.n, 136);
    for (size_t row = 0; row < 150; row++)
        for (size_t col = 0; col < 136; col++)
            CHECK_EQ(bf16_at(&r->outs[0], row, col),
                     ref_bf16_nearest((double)swiglu_at(p, row, col, alpha)));
    done(r);
    lab_close(lab);
}

static float global_of(const struct lab_run *r)
{
    float global;
    memcpy(&global, &r->args[0].bits, sizeof global);
    return global;
}

/* GEMM in f32, swiglu of this file, quantiser of the reference, layout of the
 * reference: equal bit for bit. */
static void check_fused(const struct lab_run *r, bool halfstep)
{
    const struct lab_problem *p = r->problem;
    const struct run_output *o = &r->outs[0];
    const size_t cols = p->n / 2, blocks = (cols + 15) / 16;
    const size_t scale_bytes = ref_sf_bytes(p->m, cols);
    uint8_t *want = calloc(scale_bytes, 1);
    CHECK(want);
    for (size_t row = 0; row < p->m; row++)
        for (size_t b = 0; b < blocks; b++) {
            float x[16] = {0};
            uint8_t codes[16], scale;
            size_t count = cols - 16 * b < 16 ? cols - 16 * b : 16;
            for (size_t i = 0; i < count; i++)
                x[i] = swiglu_at(p, row, 16 * b + i, r->alpha);
            ref_quantize_block(x, 16, global_of(r), halfstep, codes, &scale);
            want[ref_sf_offset(row, b, cols)] = scale;
            const uint8_t *got = o->bytes + GUARD_BYTES + row * o->d.ld_bytes + 8 * b;
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(i % 2 ? got[i / 2] >> 4 : got[i / 2] & 15, codes[i]);
        }
    CHECK_EQ(o->scales_count, scale_bytes + 2 * GUARD_BYTES);
    CHECK(memcmp(o->scales + GUARD_BYTES, want, scale_bytes) == 0);
    free(want);
}

TEST(form_3_fused_nvfp4)
{
    static const int tile_ns[] = {64, 128, 192, 256};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 150, 272, 192);
    for (size_t i = 0; i < COUNT_OF(tile_ns); i++) {
        struct lab_run *r = checked(
            lab, &(struct lab_kernel){.tile_n = tile_ns[i], .epilogue = "swiglu_nvfp4"},
            p, alpha);
        CHECK(global_of(r) > 0);
        check_fused(r, false);
        done(r);
    }
    lab_close(lab);
}

#define SWIGLU_NVFP4(options)                                                          \
    "function(e) local gate, up = e.interleaved(8, { order = 'gate_up' }) "            \
    "return e.nvfp4(e.silu(gate) * up, { global = e.param 'd_global'" options          \
    " }) end"

/* Form 3 on both paths: the hardware's conversions, and integer arithmetic. */
TEST(both_paths_give_the_same_bits)
{
    static const char *const kernels[] = {
        SWIGLU_NVFP4(", path = 'hardware'"), SWIGLU_NVFP4(", path = 'integer'"),
        SWIGLU_NVFP4(", path = 'integer', rounding = 'halfstep'"),
        SWIGLU_NVFP4(", path = 'hardware', rounding = 'halfstep'")};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 300, 528, 192);
    struct lab_run *first = NULL;
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        struct lab_run *r =
            checked(lab, &(struct lab_kernel){.epilogue = kernels[i]}, p, alpha);
        check_fused(r, i >= 2);
        if (i % 2 == 0) {
            first = r;
            continue;
        }
        const struct run_output *a = &first->outs[0], *b = &r->outs[0];
        for (size_t row = 0; row < p->m; row++)
            CHECK(memcmp(a->bytes + GUARD_BYTES + row * a->d.ld_bytes,
                         b->bytes + GUARD_BYTES + row * b->d.ld_bytes, p->n / 4) == 0);
        CHECK(memcmp(a->scales, b->scales, a->scales_count) == 0);
        done(first);
        done(r);
    }
    lab_close(lab);
}

static unsigned one(size_t i)
{
    (void)i;
    return 2;
}

static unsigned one_then_two(size_t col)
{
    return col / 8 % 2 ? 4 : 2;
}

/* gate = 1 and up = 2 as the columns say, then the other way round. */
TEST(the_order_of_gate_and_up_is_that_of_the_config)
{
    static const struct {
        const char *order;
        double want;
    } rows[] = {{"gate_up", 1.4621171572600098}, {"up_gate", 1.7615941559557649}};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_pattern(lab, 130, 144, one, one_then_two);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *a = arena_new();
        const char *text = arena_printf(
            a,
            "function(e) local gate, up = e.interleaved(8, { order = '%s' }) "
            "return e.f32(e.silu(gate) * up) end",
            rows[i].order);
        struct lab_run *r = checked(lab, &(struct lab_kernel){.epilogue = text}, p, 1);
        for (size_t row = 0; row < 130; row++)
            for (size_t col = 0; col < 72; col++) {
                uint32_t bits = run_output_code(&r->outs[0], row, col);
                float x;
                memcpy(&x, &bits, sizeof x);
                CHECK_NEAR(x, rows[i].want, 1e-6);
            }
        done(r);
        arena_free(a);
    }
    lab_close(lab);
}

/* ---- formats, widths, values */

/* Every width up to one past two tiles' corner, so that each part of 16 bytes is the
 * last one; three rows of D. */
static void try_widths(const char *epilogue, int tile_n, uint32_t last)
{
    struct lab *lab = lab_open();
    struct job *j = lab_job(
        &(struct lab_kernel){.tile_n = tile_n, .tile_k = 128, .epilogue = epilogue});
    const uint32_t step = j->image.n_multiple;
    for (uint32_t n = step; n <= last; n += step) {
        struct lab_run *r = lab_run(lab, j, lab_problem(lab, 3, n, 64), alpha);
        lab_check(r);
        lab_run_free(r);
    }
    job_free(j);
    lab_close(lab);
}

TEST(widths_of_bf16)
{
    try_widths("relu", 64, 136);
}

TEST(widths_of_f32)
{
    try_widths("function(e) return e.f32(e.acc + e.bias) end", 64, 70);
}

TEST(widths_of_f16_of_pairs)
{
    try_widths("function(e) local g, u = e.interleaved(1) return e.f16(g - u) end", 64,
               140);
}

TEST(widths_of_fp8)
{
    try_widths("function(e) return e.e4m3(e.acc), e.e5m2(e.acc, { name = 'x' }) end",
               64, 140);
}

TEST(widths_of_packed_e2m1)
{
    try_widths("function(e) return e.e2m1(e.acc) end", 64, 140);
    try_widths("function(e) local g, u = e.interleaved(2) return e.e2m1(g * u) end", 64,
               140);
}

TEST(widths_of_nvfp4)
{
    try_widths("nvfp4", 64, 140);
    try_widths("function(e) local g, u = e.interleaved(1) "
               "return e.nvfp4(g + u, { global = e.param 'd_global' }) end",
               192, 200);
}

TEST(widths_of_mxfp8)
{
    try_widths("mxfp8", 64, 140);
    try_widths("function(e) local g, u = e.interleaved(4) return e.mxfp4(g + u) end",
               64, 280);
}

/* Each format in each tile, with what it can be told. */
TEST_SLOW(formats)
{
    static const char *const bodies[] = {
        "e.f16(e.acc)",
        "e.e5m2(e.acc, { scale = e.param 's' })",
        "e.e4m3(e.acc, { scale = e.param 's', division = 'reciprocal', path = "
        "'integer' })",
        "e.mxfp8(e.acc, { type = 'e5m2' })",
        "e.mxfp8(e.acc, { scale = 'down' })",
        "e.mxfp4(e.acc, { rounding = 'stochastic', seed = e.param('seed', { type = "
        "'u32' "
        "}) })",
        "e.mxfp4(e.acc, { rounding = 'halfstep', scale = 'down' })",
        "e.nvfp4(e.acc, { global = e.param 'd_global', division = 'reciprocal' })",
        "e.nvfp4(e.acc, { global = e.abs(e.row 'g') + 0.01, rounding = 'stochastic', "
        "seed = 7 })",
    };
    static const int tile_ns[] = {64, 128, 192, 256};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 150, 420, 96);
    for (size_t b = 0; b < COUNT_OF(bodies); b++)
        for (size_t n = 0; n < COUNT_OF(tile_ns); n++) {
            struct arena *a = arena_new();
            const char *text = arena_printf(a, "function(e) return %s end", bodies[b]);
            check(lab, &(struct lab_kernel){.tile_n = tile_ns[n], .epilogue = text}, p,
                  alpha);
            arena_free(a);
        }
    lab_close(lab);
}

TEST(several_outputs_and_all_kinds_of_arguments)
{
    static const char text[] =
        "function(e) \n"
        "  local h = (e.acc + e.col('bb', { type = 'bf16' })) * e.row_scale \n"
        "  h = h + e.param('beta', { default = 0.5 }) * e.aux('c', { type = 'f16' }) \n"
        "  h = h + e.from_int(e.param('shift', { type = 's32', default = -3 })) \n"
        "  return e.bf16(h), e.nvfp4(h, { global = e.param 'g', name = 'q' }), \n"
        "    e.amax(h), e.f32(h, { name = 'x' }) end";
    static const int tile_ns[] = {64, 128, 192, 256};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 300, 330, 96);
    for (size_t n = 0; n < COUNT_OF(tile_ns); n++)
        check(lab, &(struct lab_kernel){.tile_n = tile_ns[n], .epilogue = text}, p,
              alpha);
    lab_close(lab);
}

/* 64 columns at a time are 256 bytes of f32: a store of several boxes. */
TEST(rows_wider_than_a_box)
{
    static const char text[] =
        "function(e) local g, u = e.interleaved(8) \n"
        "  return e.mxfp8(e.silu(g) * u), e.f32(e.acc, { name = 'x' }), \n"
        "    e.f32(g, { name = 'g' }) end";
    struct lab *lab = lab_open();
    struct job *j = lab_job(&(struct lab_kernel){.tile_n = 128, .epilogue = text});
    CHECK_EQ(j->plan->chunk_cols, 64);
    CHECK_EQ(j->plan->outputs[1].panels, 4);
    CHECK_EQ(j->plan->outputs[2].panels, 2);
    static const uint32_t cols[] = {16, 144, 336};
    for (size_t i = 0; i < COUNT_OF(cols); i++) {
        struct lab_run *r = lab_run(lab, j, lab_problem(lab, 140, cols[i], 96), alpha);
        lab_check(r);
        lab_run_free(r);
    }
    job_free(j);
    lab_close(lab);
}

/* NaN, infinities, zeros, subnormals and overflow, whatever they come to. */
TEST(extreme_factors)
{
    static const float factors[] = {0,      -0.0f, INFINITY, -INFINITY, NAN,
                                    1e-42f, 1e38f, -1e30f,   0x1p-80f,  0x1p90f};
    static const char *const names[] = {"swiglu_nvfp4", "nvfp4",       "mxfp4",
                                        "mxfp8",        "swiglu_amax", "e4m3"};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 40, 80, 64);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct job *j =
            lab_job(&(struct lab_kernel){.tile_n = 64, .epilogue = names[i]});
        for (size_t f = 0; f < COUNT_OF(factors); f++) {
            struct lab_run *r = lab_run(lab, j, p, factors[f]);
            lab_check(r);
            lab_run_free(r);
        }
        job_free(j);
    }
    lab_close(lab);
}

/* Far from 1; and none, where the padding of the scales must stay 0.  Times 1, since as
 * it is the parameter would be refused. */
TEST(odd_global_scales)
{
    static const double globals[] = {1e-45, 0x1p-60, 0x1p60, 1e38,     0,   -0.0,
                                     -1,    -1e-45,  -1e38,  INFINITY, NAN, -INFINITY};
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 40, 80, 64);
    struct job *j =
        lab_job(&(struct lab_kernel){.tile_n = 64,
                                     .epilogue = "function(e) return e.nvfp4(e.acc, { "
                                                 "global = e.param 'g' * 1 }) end"});
    for (size_t i = 0; i < COUNT_OF(globals); i++) {
        const struct run_setting set = {"g", globals[i]};
        struct lab_run *r = lab_run_with(lab, j, p, alpha, &set, 1);
        lab_check(r);
        lab_run_free(r);
    }
    job_free(j);
    lab_close(lab);
}

/* The product is 0 then, and the epilogue makes of it what it makes of 0. */
TEST(without_k_the_epilogue_still_runs)
{
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 140, 80, 0);
    CHECK_NEAR(p->sums[140 * 80 - 1], 0, 0);
    check(lab, &(struct lab_kernel){.tile_n = 64, .epilogue = "bias"}, p, alpha);
    check(lab, &(struct lab_kernel){.epilogue = "swiglu_nvfp4"}, p, alpha);
    lab_close(lab);
}

/* ---- layout */

static void visit_plans(void (*visit)(const struct plan *p, const char *name))
{
    static const char *const tile_ns[] = {"64", "128", "192", "256"};
    struct arena *a = arena_new();
    int count;
    const struct trace_name *names = trace_names(a, &count);
    for (int i = 0; i < count; i++)
        for (size_t n = 0; n < COUNT_OF(tile_ns); n++) {
            const struct config_override set[] = {{"epilogue", names[i].name},
                                                  {"tile.n", tile_ns[n]}};
            const struct job_options o = {
                .overrides = set, .override_count = 2, .plan_only = true};
            struct job *j = job_run(&o);
            if (j->diags->count && j->diags->first->code == DIAG_EPILOGUE_NO_LLVM)
                SKIP("libfp4gen-llvm.so is not built: no LLVM 22");
            CHECK(j->plan);
            visit(j->plan, names[i].name);
            job_free(j);
        }
    arena_free(a);
}

/* Where 16-byte piece c of row r lies, by the tables of "Swizzling Modes" (PTX ISA
 * 9.0): bits of the address that are exclusive-ored. */
static uint32_t place(const struct plan_output *o, uint32_t row, uint32_t c)
{
    uint32_t at = row * o->row_bytes + 16 * c;
    switch (o->swizzle) {
    case 0:
        return at;
    case 1:
        return at ^ (at >> 7 & 1) << 4;
    case 2:
        return at ^ (at >> 7 & 3) << 4;
    default:
        return at ^ (at >> 7 & 7) << 4;
    }
}

/* The eight lanes that store 16 bytes at once meet 32 banks. */
static void count_conflicts(const struct plan *p, const char *name)
{
    for (int k = 0; k < p->output_count; k++) {
        const struct plan_output *o = &p->outputs[k];
        for (uint32_t c = 0; c < o->row_bytes / 16; c++)
            for (uint32_t quarter = 0; quarter < 4; quarter++) {
                bool met[32] = {false};
                for (uint32_t lane = 8 * quarter; lane < 8 * quarter + 8; lane++)
                    for (uint32_t word = 0; word < 4; word++) {
                        uint32_t bank = (place(o, lane, c) / 4 + word) % 32;
                        if (met[bank])
                            test_fail(__FILE__, __LINE__,
                                      "%s, tile of %d: rows of %u bytes conflict", name,
                                      p->config->tile_n, o->row_bytes);
                        met[bank] = true;
                    }
            }
    }
}

TEST(stores_to_staging_meet_each_bank_once)
{
    visit_plans(count_conflicts);
}

static void check_layout(const struct plan *p, const char *name)
{
    uint32_t end = 0;
    for (int k = 0; k < p->output_count; k++) {
        const struct plan_output *o = &p->outputs[k];
        if (!o->words)
            continue;
        uint32_t chunk_bytes = 4 * (uint32_t)o->words;
        uint32_t tile_bytes =
            (uint32_t)(p->config->tile_n >> o->cols_shift) * (uint32_t)o->bits / 8;
        CHECK_EQ(o->staging_offset, end);
        CHECK_EQ(o->staging_offset % 512, 0);
        CHECK_EQ(o->panel_bytes % 512, 0); /* the pattern of 64-byte rows */
        CHECK_EQ(tile_bytes % o->row_bytes, 0);
        CHECK_EQ(chunk_bytes * (uint32_t)o->group_chunks,
                 o->row_bytes * (uint32_t)o->panels);
        CHECK_EQ(chunk_bytes * (uint32_t)o->hold_words % 16, 0);
        CHECK(o->hold_words <= p->unroll && o->hold_scales <= p->unroll);
        CHECK_EQ(o->group_chunks % o->hold_words, 0);
        end = o->staging_offset + 4 * o->staging_warp;
    }
    CHECK_EQ(p->staging_bytes, end);
    CHECK(p->staging_offset + end <= p->full_bar);
    CHECK_EQ(p->config->tile_n % p->chunk_cols, 0);
    CHECK(p->epilogue_registers <= 255);
    /* Named epilogues cost no stage but for those with two kinds of rows. */
    if (p->stages < plan_max_stages(p->config, p->smem_limit_bytes))
        test_fail(__FILE__, __LINE__, "%s: %d stages", name, p->stages);
}

TEST(layouts)
{
    visit_plans(check_layout);
}

/* The packed tile of the reports: 64 bytes a row, one swizzled store. */
TEST(fused_fp4_goes_out_in_one_store_a_warp)
{
    struct job *j = lab_job(&(struct lab_kernel){.epilogue = "swiglu_nvfp4"});
    const struct plan_output *o = &j->plan->outputs[0];
    CHECK_EQ(o->row_bytes, 64);
    CHECK_EQ(o->swizzle, 2);
    CHECK_EQ(o->group_chunks * j->plan->chunk_cols, 256);
    CHECK_EQ(o->panels, 1);
    CHECK_EQ(o->scale_bytes * o->hold_scales, 4);
    CHECK_EQ(j->image.tensors[4].box[0], 64);
    CHECK_EQ(j->plan->stages, 4);
    job_free(j);
}

/* The parameters of the text are those of the manifest, in its order. */
TEST(parameters_of_text_and_manifest_agree)
{
    static const char text[] =
        "function(e) local h = e.acc + e.bias * e.param 's' + e.aux 'c' \n"
        "  return e.mxfp8(h), e.amax(h), e.d(h, { name = 'x' }) end";
    struct job *j = lab_job(&(struct lab_kernel){.epilogue = text});
    const char *at = strstr(j->image.ptx, ".visible .entry");
    CHECK(at);
    for (int i = 0; i < j->image.param_count; i++) {
        const struct image_param *p = &j->image.params[i];
        struct arena *a = arena_new();
        const char *prefix = p->kind == PARAM_TENSOR_MAP ? "map_" : "param_";
        at = strstr(at, " .param ");
        CHECK(at);
        const char *end = at + strcspn(at, "\n");
        const char *want = arena_printf(a, " %s%s", prefix, p->name);
        const char *found = strstr(at, want);
        if (!found || found > end)
            test_fail(__FILE__, __LINE__, "parameter %d is not %s: %.*s", i, p->name,
                      (int)(end - at), at);
        CHECK(!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", found[strlen(want)]));
        at = end;
        arena_free(a);
    }
    CHECK(strstr(at, ".reqntid") < strstr(at, "ld.param"));
    const char *more = strstr(at, " .param ");
    CHECK(!more || more > strstr(at, ".reqntid"));
    job_free(j);
}

/* An expression changes the kernel's name, and a comment or a line break does not. */
TEST(the_name_follows_the_expression)
{
    struct job *a = lab_job(
        &(struct lab_kernel){.epilogue = "function(e) return e.d(e.acc * 2) end"});
    struct job *b = lab_job(&(struct lab_kernel){
        .epilogue = "function(e) --x\n local y = e.acc return e.d(y * 2) end"});
    struct job *c = lab_job(
        &(struct lab_kernel){.epilogue = "function(e) return e.d(e.acc * 3) end"});
    CHECK_STR(a->image.kernel, b->image.kernel);
    CHECK(strcmp(a->image.kernel, c->image.kernel) != 0);
    CHECK_STR(a->image.epilogue, "custom");
    CHECK(strstr(a->image.ptx, "//   d = bf16(acc * 2)"));
    job_free(a);
    job_free(b);
    job_free(c);
}

/* ---- refusals, at the config's line */

static void check_refused(const char *epilogue, const char *code, int line,
                          const char *words)
{
    struct job *j =
        lab_job(&(struct lab_kernel){.epilogue = epilogue, .is_refused = true});
    CHECK_DIAG(j->diags, code, line);
    if (!strstr(j->diags->first->text, words))
        CHECK_STR(j->diags->first->text, words);
    CHECK_EQ(j->diags->count, 1);
    job_free(j);
}

TEST(refusals)
{
    /* gemm { is line 1, the function begins in line 2 */
    check_refused("function(e)\n local g, u = e.interleaved(3)\n return e.d(g * u) end",
                  "epilogue", 3, "groups of 3 columns");
    check_refused(
        "function(e)\n local g, u = e.interleaved(64)\n return e.d(g * u) end",
        "epilogue", 3, "groups of 64 columns");
    check_refused("function(e)\n return e.d(e.acc * e.block_amax(e.acc, 48)) end",
                  "epilogue", 3, "only 16 or 32");
    check_refused("function(e)\n\n return e.d(e.acc + e.to_int(e.acc)) end", "epilogue",
                  4, "convert one of them");
    check_refused("function(e)\n return e.nvfp4(e.acc, { globl = 1 }) end", "epilogue",
                  3, "no option 'globl'");
    check_refused("function(e)\n local b = e.bias() \n return e.d(e.acc) end",
                  "epilogue", 3, "'bias' is asked for");
    check_refused("function(e)\n return e.d(e.acc, { scale = 1 }) end", "epilogue", 3,
                  "no option 'scale'");
    check_refused("function(e) error('mine') end", "epilogue", 2, "mine");
    check_refused("function(e) while true do end end", "config-work", 2, "");
}

/* Mistakes of Lua's that would go unseen, each in the function's second line. */
TEST(what_would_be_ignored_is_refused)
{
    static const struct {
        const char *body, *words;
    } wrong[] = {
        {"return e.d(e.select(e.acc == 1, e.acc, 0))", "e.eq(a, b)"},
        {"return e.d(e.acc * (e.acc ~= 0))", "not true"},
        {"if e.acc == e.alpha then return e.d(e.acc) end", "e.eq(a, b)"},
        {"if e.acc < 1 then return e.d(e.acc) end", "e.lt"},
        {"e.acc = 3 return e.d(e.acc)", "e.acc = ... changes nothing"},
        {"e.exp = e.log return e.d(e.exp(e.acc))", "e is only read"},
        {"e.precise.exp = e.log return e.d(e.acc)", "e is only read"},
        {"e.mine = 3 return e.d(e.acc)", "e is only read"},
        {"e.acc.x = 3 return e.d(e.acc)", "assignment to a field"},
        {"e.amax(e.acc) return e.d(e.acc)", "does not return it"},
        {"return { e.d(e.acc), q = e.mxfp8(e.acc) }", "does not return it"},
        {"return e.d(e.bf16(e.acc, { name = 'q' }) * 2)", "does not return it"},
        {"return e.d(e.acc * e.param('s', { default = 0 / 0 }))", "'s' is NaN"},
        {"return e.bf16(e.acc), e.f32(e.acc * e.param 'd2')",
         "output 2, which has it by"},
        {"return e.bf16(e.acc * e.bias), e.amax(e.acc, { name = 'bias' })",
         "output 2, which has it: "},
        {"return e.bf16(e.acc, { name = 'alpha' })", "'alpha' is a parameter"},
        {"return e.d(e.acc), e.amax(e.acc), e.amax(e.acc * 2)", "have the name 'amax'"},
        {"return e.bf16(e.acc, { name = 'd2' }), e.f32(e.acc)", "have the name 'd2'"},
        {"return e.d(e.acc, {}, 1)", "d takes 2 values"},
        {"return e.nvfp4(e.acc, { global = 1 }, {})", "nvfp4 takes 2 values"},
        {"return e.d(e.acc * e.block_amax(e.acc, 16, 2))", "block_amax takes 2"},
        {"return e.d(e.interleave(8, e.acc, e.acc, 1))", "interleave takes 3"},
        {"return e.d(e.acc + e.from_uint(e.u32(1, 2)))", "u32 takes 1"},
        {"return e.d(e.acc + 1e39)", "too large for f32"},
        {"return e.d(e.acc % 2)", "% does not work"},
        {"return e.d(e.acc ^ 0.5)", "whole number from 1"},
        {"return e.d(e.acc / nil)", "not nil"},
        {"return e.d(e.accu)", "no 'accu'"},
        {"return e.d(e.precise.abs(e.acc))", "no function 'abs'"},
        {"return e.d(e.acc * e.param '1x')", "'1x' is no name"},
        {"return e.d(e.acc * e.col('v', { per = 'pair' }))", "the columns of pairs"},
        {"return e.nvfp4(e.acc, { global = e.bias })", "the same in all columns"},
        {"return e.nvfp4(e.acc, { global = 1, path = 'hard' })", "path"},
        {"return e.d(e.aux * e.alpha)", "use e.acc"},
        {"return e.d(e.bias * e.alpha)", "not one of each element"},
        {"return e.d(e.unscaled)", "alpha would be ignored"},
        {"return e.e4m3(e.acc, { division = 'exact', scale = e.u32(1) })", "u32"},
        {"return e.mxfp4(e.acc, { seed = e.u32(1) })", "seed is for"},
        {"local x <const> = e.acc x() return e.d(x)", "cannot be called"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[200];
        printf("%s\n", wrong[i].body); /* seen when it fails */
        snprintf(text, sizeof text, "function(e)\n %s\n end", wrong[i].body);
        check_refused(text, "epilogue", 3, wrong[i].words);
    }
    check_refused("function(e)\n return e.d(e.acc), nil end", "epilogue", 2,
                  "returns nil");
    check_refused("function(e)\n return e.d(e.acc), e.acc end", "epilogue", 2,
                  "a value without a type");
    const char *path = test_tmp_path("own.lua");
    static const char own[] = "gemm {\n  epilogue = math.abs,\n}\n";
    CHECK(file_write(path, own, strlen(own)));
    struct job *j = job_run(&(struct job_options){.path = path});
    CHECK_DIAG(j->diags, "field-type", 2);
    CHECK(strstr(j->diags->first->text, "one of Lua's own functions"));
    job_free(j);
    /* What is right stays right: a cast that is both, and an order that is the default.
     */
    j = lab_job(&(struct lab_kernel){
        .epilogue = "function(e) local q = e.bf16(e.acc, { name = 'q' }) \n"
                    "local g, u = e.interleaved(8) local x = e.bf16(g) \n"
                    "return q, e.amax(q * 2), e.d(x * u) end"});
    CHECK_STR(j->image.outputs[0].name, "q");
    CHECK_STR(j->image.outputs[1].name, "amax");
    CHECK_STR(j->image.outputs[2].name, "d3");
    job_free(j);
}

TEST(what_does_not_fit_is_refused)
{
    struct arena *a = arena_new();
    /* More values at once than a thread has registers: each of a block's columns is
     * wanted again when the maxima of all are known. */
    struct buf wide;
    buf_init(&wide, a);
    buf_puts(&wide, "function(e) local x, m, y = {}, 0, 0 \n");
    buf_puts(&wide, "for i = 1, 8 do x[i] = e.sqrt(e.acc + e.aux('c' .. i)) \n"
                    "  m = m + e.block_amax(x[i], 32) end \n"
                    "for i = 1, 8 do y = y + x[i] / m end \n"
                    "return e.f32(y), e.amax(y) end");
    struct job *j =
        lab_job(&(struct lab_kernel){.epilogue = wide.data, .is_refused = true});
    CHECK_DIAG(j->diags, "epilogue-registers", 2);
    CHECK(strstr(j->diags->first->text, "with 32 columns at a time"));
    CHECK(strstr(j->diags->first->text, "239 can be had"));
    CHECK(strstr(j->diags->first->notes->text, "without output 'd' it needs about"));
    CHECK(strstr(j->diags->first->notes->next->text, "without output 'amax'"));
    CHECK(strstr(j->diags->first->notes->next->next->text, "need 32 columns"));
    job_free(j);
    /* Stages that leave no room for the staging of four outputs. */
    const char *path = test_tmp_path("four.lua");
    static const char four[] =
        "gemm {\n  stages = 4,\n  epilogue = function(e) return e.f32(e.acc), \n"
        "    e.f32(e.acc * 2, { name = 'y' }), e.f32(e.acc * 3, { name = 'z' }) "
        "end,\n}\n";
    CHECK(file_write(path, four, strlen(four)));
    const struct job_options o = {.path = path};
    j = job_run(&o);
    CHECK_DIAG(j->diags, "smem-over", 2);
    CHECK(strstr(j->diags->first->notes->text, "epilogue 24576"));
    CHECK(strstr(j->diags->first->notes->next->text, "3 stages fit"));
    job_free(j);
    arena_free(a);
}

/* Outputs side by side, inputs, and polynomials of many registers: refused once, when
 * all columns of a chunk were always computed together. */
TEST_SLOW(large_epilogues_fit)
{
    static const char *const large[] = {
        "function(e) local g, u = e.interleaved(32, { of = e.acc + e.bias }) \n"
        "local h = e.precise.gelu_erf(g) * u \n"
        "return e.bf16(g), e.bf16(u, { name = 'u' }), \n"
        "  e.nvfp4(h, { global = e.param 'd_global' }), e.amax(h) end",
        "function(e) local g, u = e.interleaved(8) \n"
        "g = g + e.col('bg', { per = 'pair' }) u = u + e.col('bu', { per = 'pair' }) \n"
        "local h = e.precise.gelu_tanh(g) * u \n"
        "return e.f32(h), e.mxfp8(h), e.amax(h) end",
        "function(e) local g, u = e.acc + e.bias, e.aux('c', { type = 'f32' }) \n"
        "local h = e.precise.gelu_erf(g) * u \n"
        "return e.bf16(h), e.nvfp4(h, { global = e.param 'd_global', \n"
        "  rounding = 'stochastic', seed = e.param('seed', { type = 'u32' }) }), \n"
        "  e.mxfp4(h, { name = 'mx' }), e.amax(h) end",
        "function(e) local x = e.acc \n"
        "for i = 0, 7 do x = x + e.aux('c' .. i, { type = 'f32' }) end \n"
        "local m = e.block_amax(x, 32) \n"
        "return e.f32(x * m), e.f32(x - m, { name = 'y' }), \n"
        "  e.f32(x + m, { name = 'z' }), e.f32(m / x, { name = 'w' }) end",
    };
    struct lab *lab = lab_open();
    const struct lab_problem *p = lab_problem(lab, 150, 448, 192);
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        printf("%s\n", large[i]); /* seen when it fails */
        check(lab, &(struct lab_kernel){.epilogue = large[i]}, p, alpha);
    }
    lab_close(lab);
}

/* Lowering is done in seconds, whatever is asked for, or refused at once. */
TEST(the_length_of_an_expression_is_limited)
{
    struct job *j =
        lab_job(&(struct lab_kernel){.epilogue = "function(e) local x = e.acc \n"
                                                 "for i = 1, 300 do x = e.exp(x) end \n"
                                                 "return e.d(x) end"});
    CHECK_EQ(j->plan->chunk_cols, 16);
    job_free(j);
    check_refused("function(e) local x = e.acc \n"
                  "for i = 1, 3000 do x = e.exp(x) end \n"
                  "return e.d(x) end",
                  "epilogue-size", 2, "with 16 columns at a time");
    check_refused("function(e) local s = e.row_scale \n"
                  "for i = 1, 5000 do s = e.exp(s) end \n"
                  "return e.d(e.acc * s) end",
                  "epilogue-size", 2, "8192 are the most");
    /* By what LLVM makes of it: fourteen instructions for each operation. */
    check_refused("function(e) local x = e.acc \n"
                  "for i = 1, 60 do x = e.e4m3(x * i, { path = 'integer' }) * 2 end \n"
                  "return e.d(x) end",
                  "epilogue-size", 2, "8192 are the most");
}

TEST(a_type_of_d_that_nothing_has_is_refused)
{
    const struct config_override set[] = {{"epilogue", "swiglu_nvfp4"},
                                          {"d.type", "f32"}};
    const struct job_options o = {.overrides = set, .override_count = 2};
    struct job *j = job_run(&o);
    CHECK_DIAG(j->diags, "epilogue-d-type", 0);
    job_free(j);
    /* In a config, at its line. */
    const char *path = test_tmp_path("d.lua");
    static const char text[] = "gemm {\n  epilogue = 'swiglu_nvfp4',\n"
                               "  d = { type = 'bf16' },\n}\n";
    CHECK(file_write(path, text, strlen(text)));
    const struct job_options file = {.path = path};
    j = job_run(&file);
    CHECK_DIAG(j->diags, "epilogue-d-type", 3);
    job_free(j);
    /* Another epilogue in its place is asked for e.d(), and one of the command line
     * goes with the type of D that stands there. */
    const struct job_options other = {
        .path = path,
        .overrides = (struct config_override[]){{"epilogue", "swiglu"}},
        .override_count = 1,
        .plan_only = true};
    j = job_run(&other);
    CHECK_EQ(j->diags->count, 0);
    job_free(j);
}
