/* emu_rate.c - how many warp instructions a second the emulator executes, one thread.
 *
 * Kernels below the driver API: a loop that a single lane goes round, as the roles of a
 * GEMM do; the same with all lanes; arithmetic of an epilogue; and shared memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/ptx.h"
#include "emu/machine.h"
#include "emu/report.h"

#define HEAD                                                                           \
    ".version 8.8\n.target sm_100a\n.address_size 64\n"                                \
    ".extern .shared .align 16 .b8 sm[];\n.visible .entry test(.param .u32 count) {\n" \
    ".reg .b32 i, n, a, b, c, d, x; .reg .b64 wide, desc; .reg .pred p, q, one;\n"     \
    ".reg .f32 f, g, h;\n"                                                             \
    "ld.param.u32 n, [count]; mov.u32 i, 0; mov.u32 a, %tid.x; mov.u32 b, sm;\n"       \
    "mov.u64 desc, 7; mov.f32 f, 0f3f800000; mov.f32 g, f;\n"                          \
    "shl.b32 x, a, 4; add.u32 x, x, b; elect.sync _|one, 0xffffffff;\n"

#define TAIL "add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra L;\nDONE: ret; }\n"

static const struct {
    const char *name, *text;
    int threads;
} kernels[] = {
    {"one_lane",
     HEAD "@!one bra DONE;\nL: shl.b32 c, i, 3; and.b32 c, c, 24; add.u32 c, c, b;\n"
          "mad.lo.u32 d, i, 36864, b; mul.lo.u32 c, i, 128; shr.u32 d, d, 4;\n"
          "cvt.u64.u32 wide, d; add.u64 desc, wide, 1024; setp.eq.u32 q, c, 6;\n"
          "@q mov.u32 c, 0; @q xor.b32 d, d, 1;\n" TAIL,
     32},
    {"all_lanes",
     HEAD "L: shl.b32 c, i, 3; and.b32 c, c, a; add.u32 c, c, b;\n"
          "mad.lo.u32 d, i, 36864, a; mul.lo.u32 c, i, 128; shr.u32 d, d, 4;\n"
          "cvt.u64.u32 wide, d; add.u64 desc, wide, 1024; setp.eq.u32 q, c, 6;\n"
          "@q mov.u32 c, 0; @q xor.b32 d, d, 1;\n" TAIL,
     32},
    {"epilogue",
     HEAD
     "L: mul.f32 f, f, g; fma.rn.f32 h, f, g, f; mul.f32 h, h, g; add.f32 f, h, g;\n"
     "cvt.rn.bf16x2.f32 c, f, h; cvt.rn.bf16x2.f32 d, h, f; max.f32 h, f, g;\n" TAIL,
     128},
    {"shared",
     HEAD "L: st.shared.v4.b32 [x], {a, c, d, i}; bar.warp.sync 0xffffffff;\n"
          "ld.shared.v4.b32 {c, d, a, c}, [x]; bar.warp.sync 0xffffffff;\n" TAIL,
     128},
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Warp instructions a second. */
static double measure(const char *text, int threads, bool checks)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct ptx_module *m = ptx_parse(a, "bench.ptx", text, strlen(text), d);
    const struct ptx_func *f = m ? ptx_find_func(m, "test") : NULL;
    struct kernel *k = f ? kernel_decode(a, m, f, NULL, 0, d) : NULL;
    double best = 0;
    for (int i = 0; k && i < 3; i++) {
        _Alignas(128) uint8_t params[128] = {0};
        uint32_t count = 200000;
        memcpy(params, &count, sizeof count);
        struct grid g = {.kernel = k,
                         .dim = {1, 1, 1},
                         .block = {(uint32_t)threads, 1, 1},
                         .cluster = {1, 1, 1},
                         .dyn_smem_bytes = 4096,
                         .params = params,
                         .param_bytes = f->param_bytes,
                         .no_checks = !checks,
                         .threads = 1,
                         .report = report_new()};
        double begin = now_s();
        bool ok = grid_run(&g);
        double rate = (double)atomic_load(&g.steps) / (now_s() - begin);
        if (!ok) {
            fputs(report_text(g.report), stderr);
            exit(1);
        }
        best = rate > best ? rate : best;
        report_free(g.report);
    }
    arena_free(a);
    return best;
}

int main(void)
{
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        printf("%s %.0f\n", kernels[i].name,
               measure(kernels[i].text, kernels[i].threads, false));
        printf("%s_checked %.0f\n", kernels[i].name,
               measure(kernels[i].text, kernels[i].threads, true));
    }
    return 0;
}
