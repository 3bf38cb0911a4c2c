/* The emulator's libcuda.so.1: grids that have to do with one another - cooperative
 * launches, cluster launch control, dependent launches (check 39). */
#include "tests/libcuda_api.h"

#define HEAD ".version 8.8\n.target sm_100a\n.address_size 64\n"

static CUresult launch(CUfunction f, unsigned grid, unsigned block, void **params,
                       CUlaunchAttribute *attribute, CUstream stream)
{
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = block,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = attribute,
                             .numAttrs = attribute ? 1 : 0};
    return cu.cuLaunchKernelEx_(&config, f, params, NULL);
}

static unsigned *read_back(CUdeviceptr p, size_t count)
{
    unsigned *got = malloc(count * sizeof *got);
    CHECK(got != NULL);
    CHECK_EQ(cu.cuMemcpyDtoH_v2_(got, p, count * sizeof *got), CUDA_SUCCESS);
    return got;
}

/* ---- cooperative launches: the barrier of a grid, as cooperative groups make it */

static const char grid_barrier[] =
    HEAD ".visible .entry k(.param .u64 out)\n"
         "{\n"
         "  .reg .u32 hi, lo, n, i, old, now, add; .reg .u64 ws, o, x; .reg .pred p;\n"
         "  mov.u32 hi, %envreg1; mov.u32 lo, %envreg2; mov.b64 ws, {lo, hi};\n"
         "  ld.param.u64 o, [out]; mov.u32 n, %nctaid.x; mov.u32 i, %ctaid.x;\n"
         "  mul.wide.u32 x, i, 4; add.u64 x, o, x; st.global.u32 [x], i;\n"
         "  setp.eq.u32 p, i, 0; sub.u32 add, 0x80000001, n; selp.u32 add, add, 1, p;\n"
         "  atom.add.release.gpu.u32 old, [ws+4], add;\n"
         "WAIT: ld.acquire.gpu.u32 now, [ws+4]; xor.b32 now, now, old;\n"
         "  setp.ge.s32 p, now, 0;\n"
         "  @p bra WAIT;\n"
         "  add.u32 i, i, 1; setp.eq.u32 p, i, n; selp.u32 i, 0, i, p;\n"
         "  mad.wide.u32 o, i, 4, o; ld.global.u32 now, [o];\n"
         "  mul.wide.u32 ws, n, 4; add.u64 x, x, ws; st.global.u32 [x], now;\n"
         "  ret;\n"
         "}\n";

TEST(blocks_of_a_cooperative_launch_meet)
{
    enum { BLOCKS = 20 };
    api_start();
    CUfunction f = load_function(grid_barrier, "k");
    CUdeviceptr out = device_memory(BLOCKS * 8);
    void *params[] = {&out};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(
            cu.cuLaunchCooperativeKernel_(f, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, params),
            CUDA_SUCCESS);
        CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
        unsigned *got = read_back(out, BLOCKS * 2);
        for (unsigned k = 0; k < BLOCKS; k++)
            CHECK_EQ(got[BLOCKS + k], (k + 1) % BLOCKS);
        free(got);
    }
}

TEST(other_launches_have_no_workspace)
{
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CUfunction f = load_function(grid_barrier, "k");
    CUdeviceptr out = device_memory(64);
    void *params[] = {&out};
    CHECK_EQ(launch(f, 2, 1, params, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- cluster launch control */

/* Counts each tile, and the clusters that were launched. */
static const char stealing[] = HEAD
    ".visible .entry k(.param .u64 out)\n"
    "{\n"
    "  .shared .align 16 .b8 s[32]; .reg .u32 a, i, par; .reg .u64 o, x;\n"
    "  .reg .b128 r; .reg .pred p, q;\n"
    "  ld.param.u64 o, [out]; mov.u32 a, s; mov.u32 i, %ctaid.x; mov.u32 par, 0;\n"
    "  mbarrier.init.shared::cta.b64 [a+16], 1; fence.mbarrier_init.release.cluster;\n"
    "  red.global.add.u32 [o], 1;\n"
    "TILE: mad.wide.u32 x, i, 4, o; red.global.add.u32 [x+4], 1;\n"
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [a+16], 16;\n"
    "  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::"
    "bytes.b128 [a], [a+16];\n"
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [a+16], par;\n"
    "  @!p bra WAIT;\n"
    "  xor.b32 par, par, 1; ld.shared.b128 r, [a];\n"
    "  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 q, r;\n"
    "  @q clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 i, r;\n"
    "  fence.proxy.async.shared::cta;\n"
    "  @q bra TILE;\n"
    "  ret;\n"
    "}\n";

/* How many blocks were launched of `blocks`. */
static unsigned run_stealing(CUfunction f, unsigned blocks)
{
    CUdeviceptr out = device_memory(blocks * 4 + 4);
    CHECK_EQ(cu.cuMemsetD32_v2_(out, 0, blocks + 1), CUDA_SUCCESS);
    void *params[] = {&out};
    CHECK_EQ(launch(f, blocks, 1, params, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    unsigned *got = read_back(out, blocks + 1), count = got[0];
    for (unsigned i = 0; i < blocks; i++)
        CHECK_EQ(got[i + 1], 1);
    free(got);
    return count;
}

static unsigned launched(const char *clusters, unsigned blocks)
{
    if (clusters)
        setenv("FP4EMU_CLUSTERS", clusters, 1);
    api_start();
    return run_stealing(load_function(stealing, "k"), blocks);
}

TEST(a_quarter_takes_over_the_rest)
{
    CHECK_EQ(launched(NULL, 30), 8);
}

TEST(no_more_are_launched_than_there_is_room)
{
    CHECK_EQ(launched(NULL, 4000), 148);
}

TEST(chance_chooses_how_many_are_launched)
{
    void (*set_seed)(unsigned long long);
    int (*set_strategy)(const char *);
    unsigned first[41], seen = 0;
    api_start();
    CUfunction f = load_function(stealing, "k");
    API_EXTENSION(set_seed, "fp4emu_set_seed");
    API_EXTENSION(set_strategy, "fp4emu_set_strategy");
    for (int round = 0; round < 2; round++)
        for (unsigned seed = 1; seed <= 40; seed++) {
            CHECK(set_strategy(seed % 2 ? "random" : "pct"));
            set_seed(seed);
            unsigned count = run_stealing(f, 30);
            CHECK(count >= 1 && count <= 8);
            seen |= 1u << count;
            CHECK(round == 0 || count == first[seed]);
            first[seed] = count;
        }
    CHECK_EQ(seen, 0x1fe);
}

TEST(one_cluster_takes_all)
{
    CHECK_EQ(launched("1", 30), 1);
}

TEST(all_are_launched)
{
    CHECK_EQ(launched("all", 30), 30);
}

TEST(more_than_there_are)
{
    CHECK_EQ(launched("64", 30), 30);
}

/* ---- dependent launches */

#define NEXT_HEAD                                                                      \
    HEAD ".visible .entry first(.param .u64 out)\n"                                    \
         "{\n"                                                                         \
         "  .reg .u32 t, v; .reg .u64 o;\n"                                            \
         "  ld.param.u64 o, [out]; mov.u32 t, %tid.x; mad.wide.u32 o, t, 4, o;\n"      \
         "  griddepcontrol.launch_dependents;\n"                                       \
         "  ld.global.u32 v, [o+3072]; ld.global.u32 v, [o+2048];\n"                   \
         "  st.global.u32 [o+1024], t; st.global.u32 [o], t;\n"                        \
         "  ret;\n"                                                                    \
         "}\n"                                                                         \
         ".visible .entry second(.param .u64 out)\n"                                   \
         "{\n"                                                                         \
         "  .reg .u32 t, v; .reg .u64 o, x; .reg .pred p;\n"                           \
         "  ld.param.u64 o, [out]; mov.u32 t, %tid.x; mad.wide.u32 x, t, 4, o;\n"      \
         "  setp.lt.u32 p, t, 32;\n"

enum next { DEPENDENT, ORDERED, BEHIND_A_COPY, OTHER_STREAM, BEHIND_AN_UNRELATED };

/* The second kernel's result; it is launched after the first. */
static CUresult run_next(const char *body, enum next next)
{
    char text[4096];
    CUmodule m;
    CUfunction first, second;
    CUstream stream;
    snprintf(text, sizeof text, "%s%s  ret;\n}\n", NEXT_HEAD, body);
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CHECK_EQ(cu.cuModuleLoadData_(&m, text), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&first, m, "first"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuModuleGetFunction_(&second, m, "second"), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CUdeviceptr out = device_memory(4096), other = device_memory(4096);
    void *params[] = {&out}, *elsewhere[] = {&other};
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value.programmaticStreamSerializationAllowed = 1};
    CHECK_EQ(launch(first, 1, 64, params, NULL, stream), CUDA_SUCCESS);
    if (next == BEHIND_A_COPY)
        CHECK_EQ(cu.cuMemsetD32Async_(other, 1, 4, stream), CUDA_SUCCESS);
    if (next == BEHIND_AN_UNRELATED)
        CHECK_EQ(launch(first, 1, 64, elsewhere, NULL, stream), CUDA_SUCCESS);
    CHECK_EQ(launch(second, 1, 64, params, next == ORDERED ? NULL : &a,
                    next == OTHER_STREAM ? NULL : stream),
             CUDA_SUCCESS);
    return cu.cuCtxSynchronize_();
}

#define READ "  ld.global.u32 v, [x];\n"
#define WAIT "  griddepcontrol.wait;\n"

TEST(reading_without_a_wait)
{
    CHECK_EQ(run_next(READ, DEPENDENT), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(reading_behind_the_wait)
{
    CHECK_EQ(run_next(WAIT READ, DEPENDENT), CUDA_SUCCESS);
}

TEST(reading_before_the_wait)
{
    CHECK_EQ(run_next(READ WAIT, DEPENDENT), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(overwriting_without_a_wait)
{
    CHECK_EQ(run_next("  st.global.u32 [x], t;\n", DEPENDENT),
             CUDA_ERROR_LAUNCH_FAILED);
}

TEST(other_bytes_need_no_wait)
{
    CHECK_EQ(run_next("  st.global.u32 [x+256], t;\n", DEPENDENT), CUDA_SUCCESS);
}

/* Neither grid's first access to the allocation. */
TEST(later_accesses_count_as_well)
{
    CHECK_EQ(run_next("  ld.global.u32 v, [x+3072];\n" READ, DEPENDENT),
             CUDA_ERROR_LAUNCH_FAILED);
}

TEST(later_accesses_behind_the_wait)
{
    CHECK_EQ(run_next("  ld.global.u32 v, [x+3072];\n" WAIT READ, DEPENDENT),
             CUDA_SUCCESS);
}

#define OVERWRITE "  st.global.u32 [x+2048], t;\n"

TEST(overwriting_what_the_grid_before_reads)
{
    char text[4096];
    size_t (*report)(char *, size_t);
    CHECK_EQ(run_next(OVERWRITE, DEPENDENT), CUDA_ERROR_LAUNCH_FAILED);
    API_EXTENSION(report, "fp4emu_last_report");
    report(text, sizeof text);
    CHECK(strstr(text, "are overwritten, which the grid before has read"));
}

TEST(overwriting_behind_the_wait)
{
    CHECK_EQ(run_next(WAIT OVERWRITE, DEPENDENT), CUDA_SUCCESS);
}

TEST(both_may_read)
{
    CHECK_EQ(run_next("  ld.global.u32 v, [x+2048];\n", DEPENDENT), CUDA_SUCCESS);
}

TEST(a_warp_that_has_not_waited)
{
    CHECK_EQ(run_next("  @p griddepcontrol.wait;\n" READ, DEPENDENT),
             CUDA_ERROR_LAUNCH_FAILED);
}

TEST(a_warp_behind_a_barrier_with_one_that_has)
{
    CHECK_EQ(run_next("  @p griddepcontrol.wait;\n  bar.sync 0;\n" READ, DEPENDENT),
             CUDA_SUCCESS);
}

/* A bulk copy of the first 16 bytes. */
#define COPY                                                                           \
    "  .shared .align 16 .b8 s[64]; .reg .u32 a; mov.u32 a, s;\n"                      \
    "  setp.ne.u32 p, t, 0;\n"                                                         \
    "  @p ret;\n"                                                                      \
    "  mbarrier.init.shared::cta.b64 [a+32], 1;\n"                                     \
    "  fence.mbarrier_init.release.cluster;\n"                                         \
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [a+32], 16;\n"                     \
    "  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [o], 16, "   \
    "[a+32];\n"                                                                        \
    "W: mbarrier.try_wait.parity.shared::cta.b64 p, [a+32], 0;\n"                      \
    "  @!p bra W;\n"

TEST(bulk_copies_wait_too)
{
    CHECK_EQ(run_next(COPY, DEPENDENT), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(bulk_copies_behind_the_wait)
{
    CHECK_EQ(run_next(WAIT COPY, DEPENDENT), CUDA_SUCCESS);
}

TEST(launches_in_order_need_no_wait)
{
    CHECK_EQ(run_next(READ, ORDERED), CUDA_SUCCESS);
}

TEST(work_between_two_launches_ends_the_dependence)
{
    CHECK_EQ(run_next(READ, BEHIND_A_COPY), CUDA_SUCCESS);
}

TEST(launches_of_other_streams_do_not_count)
{
    CHECK_EQ(run_next(READ, OTHER_STREAM), CUDA_SUCCESS);
}

TEST(only_the_launch_before_counts)
{
    CHECK_EQ(run_next(READ, BEHIND_AN_UNRELATED), CUDA_SUCCESS);
}

TEST(the_report_says_what_is_missing)
{
    char text[4096];
    size_t (*report)(char *, size_t);
    CHECK_EQ(run_next(READ, DEPENDENT), CUDA_ERROR_LAUNCH_FAILED);
    API_EXTENSION(report, "fp4emu_last_report");
    report(text, sizeof text);
    CHECK(strstr(text, "error in kernel second: 4 bytes at 0x"));
    CHECK(strstr(text, "which the grid before has written"));
    CHECK(strstr(text, "check 39"));
    CHECK(strstr(text, "griddepcontrol.wait"));
}
