/* The emulator's libcuda.so.1: kernels, copies and fills of different streams that race
 * (check 36 across grids, emu/across.h), and what orders them. */
#include "tests/libcuda_api.h"

/* Each thread writes its word, or reads it; and the rest as their names say. */
static const char kernels[] =
    ".version 8.8\n.target sm_100a\n.address_size 64\n"
    ".visible .entry write(.param .u64 out)\n"
    "{\n"
    "  .reg .u32 t; .reg .u64 o;\n"
    "  ld.param.u64 o, [out]; mov.u32 t, %tid.x; mad.wide.u32 o, t, 4, o;\n"
    "  st.global.u32 [o], t;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry read(.param .u64 in)\n"
    "{\n"
    "  .reg .u32 t, v; .reg .u64 o;\n"
    "  ld.param.u64 o, [in]; mov.u32 t, %tid.x; mad.wide.u32 o, t, 4, o;\n"
    "  ld.global.u32 v, [o];\n"
    "  ret;\n"
    "}\n"
    ".visible .entry bulk(.param .u64 in)\n"
    "{\n"
    "  .shared .align 16 .b8 s[64]; .reg .u32 a, t; .reg .u64 o; .reg .pred p;\n"
    "  mov.u32 a, s; mov.u32 t, %tid.x; ld.param.u64 o, [in];\n"
    "  setp.ne.u32 p, t, 0;\n"
    "  @p ret;\n"
    "  mbarrier.init.shared::cta.b64 [a+32], 1;\n"
    "  fence.mbarrier_init.release.cluster;\n"
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [a+32], 16;\n"
    "  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [o], 16, "
    "[a+32];\n"
    "W: mbarrier.try_wait.parity.shared::cta.b64 p, [a+32], 0;\n"
    "  @!p bra W;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry count(.param .u64 out)\n"
    "{\n"
    "  .reg .u64 o;\n"
    "  ld.param.u64 o, [out]; red.global.add.u32 [o], 1;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry announce(.param .u64 out)\n" /* data, and a flag 256 bytes on */
    "{\n"
    "  .reg .u32 t; .reg .u64 o, f;\n"
    "  ld.param.u64 f, [out]; mov.u32 t, %tid.x; mad.wide.u32 o, t, 4, f;\n"
    "  st.global.u32 [o], t; bar.sync 0; st.release.gpu.global.u32 [f+256], 1;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry hear(.param .u64 out)\n"
    "{\n"
    "  .reg .u32 t, v; .reg .u64 o, f; .reg .pred p;\n"
    "  ld.param.u64 f, [out]; mov.u32 t, %tid.x; mad.wide.u32 o, t, 4, f;\n"
    "W: ld.acquire.gpu.global.u32 v, [f+256]; setp.eq.u32 p, v, 0;\n"
    "  @p bra W;\n"
    "  ld.global.u32 v, [o];\n"
    "  ret;\n"
    "}\n";

static CUstream a, b;
static CUdeviceptr memory, other;
static unsigned host[64], *pinned;

static void begin(unsigned flags)
{
    void *p;
    setenv("FP4EMU_QUIET", "1", 1);
    api_start();
    CHECK_EQ(cu.cuStreamCreate_(&a, flags), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamCreate_(&b, flags), CUDA_SUCCESS);
    memory = device_memory(4096);
    other = device_memory(4096);
    CHECK_EQ(cu.cuMemHostAlloc_(&p, 4096, 0), CUDA_SUCCESS);
    pinned = p;
    CHECK_EQ(cu.cuMemsetD32_v2_(memory, 0, 1024), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
}

static void run_at(const char *kernel, CUdeviceptr p, CUstream stream)
{
    void *params[] = {&p};
    CHECK_EQ(cu.cuLaunchKernel_(load_function(kernels, kernel), 1, 1, 1, 64, 1, 1, 0,
                                stream, params, NULL),
             CUDA_SUCCESS);
}

static void run(const char *kernel, CUstream stream)
{
    run_at(kernel, memory, stream);
}

static const char *last_report(void)
{
    static char text[4096];
    size_t (*report)(char *, size_t);
    API_EXTENSION(report, "fp4emu_last_report");
    text[0] = '\0';
    report(text, sizeof text);
    return text;
}

static void expect(const char *words)
{
    if (!strstr(last_report(), words))
        test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", words, last_report());
}

static void expect_nothing(void)
{
    if (last_report()[0])
        test_fail(__FILE__, __LINE__, "reported: %s", last_report());
}

TEST(two_kernels_in_two_streams)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    expect_nothing();
    run("read", b);
    expect("warning in kernel read: global bytes 0x");
    expect(
        "are read in line 15 and written by kernel write (line 8) in another stream");
    expect("[check 36, data race]");
    expect("cuStreamWaitEvent");
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
}

TEST(a_read_that_is_overwritten)
{
    begin(CU_STREAM_DEFAULT);
    run("read", a);
    run("write", b);
    expect("are written in line 8 and read by kernel read (line 15) in another stream");
}

TEST(a_bulk_copy_reads_too)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("bulk", a);
    run("write", b);
    expect("read by kernel bulk (line 27)");
}

TEST(other_bytes_are_no_race)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    run_at("write", memory + 256, b);
    run_at("read", other, a);
    run_at("read", other, b);
    expect_nothing();
}

TEST(an_event_orders_them)
{
    CUevent e;
    begin(CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cu.cuEventCreate_(&e, 0), CUDA_SUCCESS);
    run("write", a);
    CHECK_EQ(cu.cuEventRecord_(e, a), CUDA_SUCCESS);
    CHECK_EQ(cu.cuStreamWaitEvent_(b, e, 0), CUDA_SUCCESS);
    run("read", b);
    expect_nothing();
    run("write", a); /* behind the event */
    expect("are written in line 8 and read by kernel read");
}

TEST(an_event_that_is_recorded_too_early)
{
    CUevent e;
    begin(CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cu.cuEventCreate_(&e, 0), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventRecord_(e, a), CUDA_SUCCESS);
    run("write", a);
    CHECK_EQ(cu.cuStreamWaitEvent_(b, e, 0), CUDA_SUCCESS);
    run("read", b);
    expect("[check 36");
}

TEST(waits_of_the_program_order_them)
{
    CUevent e;
    begin(CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cu.cuEventCreate_(&e, 0), CUDA_SUCCESS);
    run("write", a);
    CHECK_EQ(cu.cuStreamSynchronize_(a), CUDA_SUCCESS);
    run("write", b);
    CHECK_EQ(cu.cuEventRecord_(e, b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuEventSynchronize_(e), CUDA_SUCCESS);
    run("write", a);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_SUCCESS);
    run("write", b);
    expect_nothing();
}

TEST(the_default_stream_waits_for_blocking_ones)
{
    begin(CU_STREAM_DEFAULT);
    run("write", a);
    run("write", NULL);
    run("write", b);
    expect_nothing();
}

TEST(the_default_stream_does_not_wait_for_others)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    run("read", NULL);
    expect("kernel write (line 8)");
}

TEST(a_copy_into_what_a_kernel_reads)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("read", a);
    CHECK_EQ(cu.cuMemcpyHtoDAsync_v2_(memory, pinned, 256, b), CUDA_SUCCESS);
    expect("warning in a copy: global bytes 0x");
    expect("are written and read by kernel read (line 15) in another stream");
}

TEST(a_kernel_behind_a_copy_of_another_stream)
{
    begin(CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cu.cuMemcpyHtoDAsync_v2_(memory, pinned, 256, a), CUDA_SUCCESS);
    run("read", b);
    expect("are read in line 15 and written by a copy in another stream");
}

TEST(a_copy_of_what_a_kernel_writes)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    CHECK_EQ(cu.cuMemcpyDtoHAsync_v2_(pinned, memory, 256, b), CUDA_SUCCESS);
    expect("are read and written by kernel write (line 8)");
}

TEST(a_fill_of_what_a_kernel_writes)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    CHECK_EQ(cu.cuMemsetD32Async_(memory, 1, 4, b), CUDA_SUCCESS);
    expect("warning in a fill: ");
}

TEST(a_copy_to_pageable_memory_is_done_when_it_returns)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    CHECK_EQ(cu.cuMemcpyDtoHAsync_v2_(host, memory, 256, a), CUDA_SUCCESS);
    run("write", b);
    expect_nothing();
}

TEST(atomics_are_no_race)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("count", a);
    run("count", b);
    expect_nothing();
    run("read", a);
    expect_nothing(); /* its own stream's, and the other one's are strong */
}

TEST(a_flag_orders_two_kernels)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("announce", a);
    run("hear", b);
    expect_nothing();
}

TEST(freed_memory_is_another_when_it_comes_again)
{
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    CHECK_EQ(cu.cuMemFreeAsync_(memory, a), CUDA_SUCCESS);
    for (int i = 0; i < 100; i++) { /* until the address is used again */
        CUdeviceptr p = device_memory(4096);
        run_at("read", p, b);
    }
    expect_nothing();
}

TEST(it_can_be_switched_off)
{
    setenv("FP4EMU_CHECK", "default,-36", 1);
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    run("read", b);
    expect_nothing();
}

TEST(it_can_be_made_an_error)
{
    setenv("FP4EMU_CHECK", "default,36=error", 1);
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    run("read", b);
    expect("error in kernel read: ");
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(a_copy_can_be_made_an_error)
{
    setenv("FP4EMU_CHECK", "default,36=error", 1);
    begin(CU_STREAM_NON_BLOCKING);
    run("write", a);
    CHECK_EQ(cu.cuMemsetD32Async_(memory, 1, 4, b), CUDA_SUCCESS);
    CHECK_EQ(cu.cuCtxSynchronize_(), CUDA_ERROR_LAUNCH_FAILED);
}
