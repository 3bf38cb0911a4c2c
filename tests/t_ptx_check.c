/* ptx_check() against a table of instructions, and the table against ptxas. */
#include "core/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/ptx_form.h"
#include "tests/test.h"

#define DECLS                                                                          \
    ".reg .pred p<4>; .reg .b8 c<4>; .reg .b16 h<8>; .reg .b32 r<16>; .reg .u32 u<4>;" \
    " .reg .s32 s<4>; .reg .f32 f<16>; .reg .b64 d<16>; .reg .f64 g<8>;"               \
    " .reg .b128 q<4>; .reg .f16 hf<2>;\n"                                             \
    ".shared .align 16 .b8 sh[64];\n"

struct row {
    const char *target;
    int version;
    const char *insn;
    const char *code; /* of our refusal; NULL: right */
};

/* What we refuse, ptxas 13.0 refuses too, and so with what we take; the rows in
 * `stricter` below are the exceptions. */
static const struct row rows[] = {
    /* arithmetic: forms, rounding, operands */
    {"sm_100a", 90, "add.u32 r0, r1, 5;", NULL},
    {"sm_100a", 90, "add.s32 u0, s1, u1;", NULL},
    {"sm_100a", 90, "add.sat.u32 r0, r1, r2;", "op-modifier"},
    {"sm_100a", 90, "add.rn.s32 r0, r1, r2;", "op-modifier"},
    {"sm_100a", 90, "add.u8 c0, c1, c2;", "op-types"},
    {"sm_100a", 90, "add.u32 r0, f1, r2;", "op-operand"},
    {"sm_100a", 90, "add.u32 r0, d1, r2;", "op-operand"},
    {"sm_100a", 90, "add.u32 r0, %tid.x, 1;", "op-operand"},
    {"sm_100a", 90, "add.u32 r0, r1, sh;", "op-operand"},
    {"sm_100a", 90, "add.u32 r0, r1;", "op-count"},
    {"sm_100a", 90, "add.u32 r0, r1, r2, r3;", "op-count"},
    {"sm_100a", 90, "add.u32 5, r1, r2;", "op-operand"},
    {"sm_100a", 90, "add.u32 _, r1, r2;", "op-operand"},
    {"sm_100a", 90, "add.f32 f0, f1, 1;", "op-operand"},
    {"sm_100a", 90, "add.f32 f0, f1, 1.0;", NULL},
    {"sm_100a", 90, "add.f32 r0, r1, r2;", NULL},
    {"sm_100a", 90, "add.rn.ftz.f32x2 d0, d1, d2;", NULL},
    {"sm_90a", 90, "add.rn.f32x2 d0, d1, d2;", "op-target"},
    {"sm_100a", 90, "add.f16x2 f0, r1, r2;", "op-operand"},
    {"sm_100a", 90, "add.rn.f32.bf16 f0, h1, f2;", NULL},
    {"sm_100a", 90, "add.rn.f32.bf16 f0, f2, h1;", "op-operand"},
    {"sm_100a", 90, "mul.u32 r0, r1, r2;", "op-lacks"},
    {"sm_100a", 90, "mul.wide.u32 d0, r1, r2;", NULL},
    {"sm_100a", 90, "mul.wide.u32 r0, r1, r2;", "op-operand"},
    {"sm_100a", 90, "mad.wide.u32 d0, r1, 5, d2;", NULL},
    {"sm_100a", 90, "fma.f32 f0, f1, f2, f3;", "op-lacks"},
    {"sm_100a", 90, "fma.rn.ftz.f32 f0, f1, f2, f3;", NULL},
    {"sm_100a", 90, "rcp.approx.ftz.f32 f0, f1;", NULL},
    {"sm_100a", 90, "rcp.f32 f0, f1;", "op-lacks"},
    {"sm_100a", 90, "max.abs.f32 f0, f1, f2, f3;", NULL},
    {"sm_100a", 90, "max.f32 f0, f1, f2, f3;", NULL},
    {"sm_90a", 90, "max.f32 f0, f1, f2;", NULL},
    {"sm_90a", 90, "max.f32 f0, f1, f2, f3;", "op-target"},
    {"sm_100a", 87, "max.f32 f0, f1, f2, f3;", "op-version"},
    {"sm_100a", 90, "neg.u32 r0, r1;", "op-types"},
    {"sm_100a", 90, "shl.b32 r0, r1, d2;", "op-operand"},
    {"sm_100a", 90, "prmt.b32 r0, r1, r2, 0x1234;", NULL},
    {"sm_100a", 90, "lop3.b32 r0, r1, r2, r3, r4;", "op-operand"},
    {"sm_100a", 90, "and.pred p0, p1, !p2;", NULL},
    {"sm_100a", 90, "setp.eq.and.u32 p0|p1, r1, 2, !p3;", NULL},
    {"sm_100a", 90, "setp.eq.and.u32 p0, r1, 2;", "op-count"},
    {"sm_100a", 90, "setp.lo.s32 p0, r1, r2;", "op-modifier"},
    {"sm_100a", 90, "setp.lt.b32 p0, r1, r2;", "op-modifier"},
    {"sm_100a", 90, "setp.ltu.s32 p0, r1, r2;", "op-modifier"},
    {"sm_100a", 90, "setp.eq.u32 r0, r1, r2;", "op-operand"},
    {"sm_100a", 90, "selp.b32 r0, 1, 0, p1;", NULL},
    {"sm_100a", 90, "selp.b32 r0, 1, 0, r1;", "op-operand"},
    {"sm_100a", 90, "@r0 mov.u32 r1, 0;", "op-guard"},

    /* mov and cvt */
    {"sm_100a", 90, "mov.b32 f0, r1;", NULL},
    {"sm_100a", 90, "mov.u32 f0, r1;", "op-operand"},
    {"sm_100a", 90, "mov.u32 r0, h1;", "op-operand"},
    {"sm_100a", 90, "mov.f32 f0, 0;", "op-operand"},
    {"sm_100a", 90, "mov.b32 r0, {h0, h1};", NULL},
    {"sm_100a", 90, "mov.u32 r0, {h0, h1};", "op-operand"},
    {"sm_100a", 90, "mov.b32 r0, {h0, h1, h2};", "op-rule"},
    {"sm_100a", 90, "mov.b32 r0, {c0, c1, c2, c3};", NULL},
    {"sm_100a", 90, "mov.b64 {f0, _}, d0;", NULL},
    {"sm_100a", 90, "mov.b64 {_, _}, d0;", "op-rule"},
    {"sm_100a", 90, "mov.b64 {h0, h1}, d0;", "op-operand"},
    {"sm_100a", 90, "mov.b128 q0, {d0, d1};", NULL},
    {"sm_100a", 90, "mov.u64 d0, %clock64;", NULL},
    {"sm_100a", 90, "mov.u32 r0, %clock64;", "op-operand"},
    {"sm_100a", 90, "mov.u64 d0, sh;", NULL},
    {"sm_100a", 90, "mov.u32 _, r1;", "op-operand"},
    {"sm_100a", 90, "cvt.rn.f32.s32 f0, r1;", NULL},
    {"sm_100a", 90, "cvt.f32.s32 f0, r1;", "op-lacks"},
    {"sm_100a", 90, "cvt.rn.s32.f32 r0, f1;", "op-modifier"},
    {"sm_100a", 90, "cvt.u16.u32 r0, r1;", NULL},
    {"sm_100a", 90, "cvt.sat.s32.u32 r0, r1;", NULL},
    {"sm_100a", 90, "cvt.sat.u32.u32 r0, r1;", "op-rule"},
    {"sm_100a", 90, "cvt.sat.s64.s32 d0, r1;", "op-rule"},
    {"sm_100a", 90, "cvt.rn.f32.u32 f0, f1;", "op-operand"},
    {"sm_100a", 90, "cvt.rn.satfinite.e2m1x2.f32 c0, f0, f1;", NULL},
    {"sm_100f", 90, "cvt.rn.satfinite.e2m1x2.f32 c0, f0, f1;", NULL},
    {"sm_100a", 90, "cvt.rn.satfinite.e2m1x2.f32 h0, f0, f1;", "op-operand"},
    {"sm_100", 90, "cvt.rn.satfinite.e2m1x2.f32 c0, f0, f1;", "op-target"},
    {"sm_90a", 90, "cvt.rn.satfinite.e2m1x2.f32 c0, f0, f1;", "op-target"},
    {"sm_90a", 90, "cvt.rn.satfinite.e4m3x2.f32 h0, f0, f1;", NULL},
    {"sm_90a", 90, "cvt.rn.e4m3x2.f32 h0, f0, f1;", "op-lacks"},
    {"sm_90a", 90, "cvt.rn.f16x2.e4m3x2 r0, h0;", NULL},
    {"sm_80", 90, "cvt.rn.bf16.f32 h0, f0;", NULL},
    {"sm_80", 90, "cvt.rm.bf16.f32 h0, f0;", NULL},
    {"sm_80", 90, "cvt.rm.bf16.f64 h0, g0;", "op-target"},
    {"sm_80", 80, "ret;", "op-version"}, /* it declares .b128 registers */
    {"sm_103a", 90, "cvt.rs.satfinite.e2m1x4.f32 h0, {f0, f1, f2, f3}, r1;", NULL},
    {"sm_103f", 90, "cvt.rs.satfinite.e2m1x4.f32 h0, {f0, f1, f2, f3}, r1;",
     "op-target"},

    /* memory */
    {"sm_100a", 90, "ld.global.u32 d0, [d1];", NULL},
    {"sm_100a", 90, "ld.global.b32 {r0}, [d1];", NULL},
    {"sm_100a", 90, "shl.b32 {r0}, r1, 1;", "op-operand"},
    {"sm_100a", 90, "ld.global.u64 r0, [d1];", "op-operand"},
    {"sm_100a", 90, "ld.global.u32 f0, [d1];", "op-operand"},
    {"sm_100a", 90, "ld.global.f16 h0, [d1];", "op-types"},
    {"sm_100a", 90, "ld.global.u32 r0, [r1];", "op-operand"},
    {"sm_100a", 90, "ld.shared.u32 r0, [f1];", "op-operand"},
    {"sm_100a", 90, "ld.shared.u32 r0, [sh+4];", NULL},
    {"sm_100a", 90, "ld.global.u32 r0, [sh];", "op-space"},
    {"sm_100a", 90, "ld.u32 r0, [kn];", "op-space"},
    {"sm_100a", 90, "ld.param.u32 r0, [kn];", NULL},
    {"sm_100a", 90, "st.param.u32 [kn], r0;", "op-rule"},
    {"sm_100a", 90, "ld.shared.u32 r0, [16];", "op-operand"},
    {"sm_100a", 90, "ld.shared.u32 r0, sh;", "op-operand"},
    {"sm_100a", 90, "ld.relaxed.u32 r0, [d1];", "op-lacks"},
    {"sm_100a", 90, "ld.acquire.gpu.global.u32 r0, [d1];", NULL},
    {"sm_100a", 90, "ld.volatile.gpu.global.u32 r0, [d1];", "op-modifier"},
    {"sm_100a", 90, "ld.nc.u32 r0, [d1];", "op-lacks"},
    {"sm_100a", 90, "ld.volatile.global.L1::evict_last.u32 r0, [d1];", "op-modifier"},
    {"sm_100a", 90, "ld.global.f32 g0, [d1];", "op-operand"},
    {"sm_100a", 90, "mbarrier.init.b64 [r1], 1;", "op-operand"},
    {"sm_100a", 90, "elect.sync _|p1, f1;", "op-operand"},
    {"sm_100a", 90, "cvt.rn.bf16.f32 r0, f1;", "op-operand"},
    {"sm_100a", 90, "cvt.rn.f16.f32 r0, f1;", NULL},
    {"sm_100a", 90, "ld.global.nc.L1::no_allocate.v4.f32 {f0, f1, f2, f3}, [d1];",
     NULL},
    {"sm_100a", 90, "ld.shared.v4.f32 {f0, f1, f2}, [r1];", "op-operand"},
    {"sm_100a", 90, "ld.shared.v2.f32 {f0, _}, [r1];", NULL},
    {"sm_100a", 90, "ld.global.v4.b64 {d0, d1, d2, d3}, [d4];", NULL},
    {"sm_100a", 90, "ld.shared.v4.b64 {d0, d1, d2, d3}, [r4];", "op-rule"},
    {"sm_100a", 87, "ld.global.v4.b64 {d0, d1, d2, d3}, [d4];", "op-version"},
    {"sm_90a", 90, "ld.global.v4.b64 {d0, d1, d2, d3}, [d4];", "op-target"},
    {"sm_100a", 90, "ld.global.v2.b128 {q0, q1}, [d4];", "op-modifier"},
    {"sm_100a", 90, "ld.global.L2::cache_hint.u32 r0, [d1], d2;", NULL},
    {"sm_100a", 90, "ld.global.L2::cache_hint.u32 r0, [d1];", "op-count"},
    {"sm_100a", 90, "ld.global.u32 r0, [d1], d2;", "op-count"},
    {"sm_100a", 90, "ld.shared.L2::128B.u32 r0, [r1];", "op-rule"},
    {"sm_100a", 90, "ld.global.L2::evict_last.u32 r0, [d1];", "op-rule"},
    {"sm_100a", 90, "st.const.b32 [d1], r0;", "op-modifier"},
    {"sm_100a", 90, "st.global.v4.b32 [d1], {r0, r1, r2, 5};", NULL},
    {"sm_100a", 90, "st.global.v4.b32 [d1], {r0, _, r2, 5};", "op-operand"},
    {"sm_100a", 90, "st.global.v2.b32 [d1], {d1, r2};", "op-rule"},
    {"sm_100a", 90, "st.global.b8 [d1], h0;", NULL},
    {"sm_80", 90, "st.shared::cluster.u32 [r1], r2;", "op-target"},
    {"sm_100a", 90, "atom.global.add.u32 _, [d1], r2;", NULL},
    {"sm_100a", 90, "atom.global.min.f32 f0, [d1], f2;", "op-modifier"},
    {"sm_100a", 90, "atom.global.cas.b32 r0, [d1], r2;", "op-count"},
    {"sm_100a", 90, "atom.global.add.f16x2 r0, [d1], r2;", "op-lacks"},
    {"sm_100a", 90, "red.acquire.gpu.global.add.u32 [d1], 5;", "op-modifier"},
    {"sm_100a", 90, "cvta.to.shared.u64 d0, sh;", "op-operand"},
    {"sm_100a", 90, "cvta.shared.u64 d0, sh;", NULL},
    {"sm_100a", 90, "prefetch.tensormap [kp];", "op-space"},
    {"sm_100a", 90, "prefetch.param.tensormap [kp];", NULL},
    {"sm_100a", 90, "cp.async.cg.shared.global [r0], [d1], 8;", "op-value"},
    {"sm_100a", 90, "cp.async.ca.shared.global.L2::128B [r0], [d1], 8, r2;", NULL},

    /* warps and barriers */
    {"sm_100a", 90, "elect.sync _|p0, -1;", NULL},
    {"sm_100a", 90, "elect.sync p0, -1;", "op-operand"},
    {"sm_100a", 90, "shfl.sync.idx.b32 f0|p1, f2, r1, 31, -1;", NULL},
    {"sm_100a", 90, "shfl.sync.idx.b32 r0, r1, 0, 31;", "op-count"},
    {"sm_100a", 90, "shfl.idx.b32 r0, r1, 0, 31;", "op-lacks"},
    {"sm_100f", 90, "redux.sync.max.abs.f32 f0, f1, -1;", NULL},
    {"sm_120a", 90, "redux.sync.max.f32 f0, f1, -1;", "op-target"},
    {"sm_100a", 90, "redux.sync.add.f32 f0, f1, -1;", "op-modifier"},
    {"sm_100a", 90, "bar.sync 16;", "op-value"},
    {"sm_100a", 90, "bar.sync 1, 33;", "op-value"},
    {"sm_100a", 90, "bar.arrive 1;", "op-count"},
    {"sm_100a", 90, "bar.red.popc.u32 r0, 0, 64, !p1;", NULL},
    {"sm_100a", 90, "barrier 1;", "op-lacks"},
    {"sm_100a", 90, "fence.sc;", "op-lacks"},
    {"sm_100a", 90, "fence.proxy.async.shared::cta;", NULL},
    {"sm_100a", 90, "fence.proxy.async.local;", "op-modifier"},
    {"sm_100a", 90, "fence.proxy.tensormap::generic.acquire.gpu [d1], 64;", "op-value"},
    {"sm_100a", 90, "setmaxnreg.inc.sync.aligned.u32 232;", NULL},
    {"sm_100a", 90, "setmaxnreg.inc.sync.aligned.u32 25;", "op-value"},
    {"sm_100a", 90, "setmaxnreg.inc.sync.aligned.u32 264;", "op-value"},
    {"sm_100a", 90, "setmaxnreg.inc.sync.aligned.u32 r0;", "op-operand"},
    {"sm_100", 90, "setmaxnreg.inc.sync.aligned.u32 64;", "op-target"},
    {"sm_90", 90, "barrier.cluster.arrive.release.aligned;", NULL},
    {"sm_80", 90, "barrier.cluster.arrive.release.aligned;", "op-target"},

    /* mbarriers */
    {"sm_100a", 90, "mbarrier.arrive.shared::cta.b64 d0, [r1];", NULL},
    {"sm_100a", 90, "mbarrier.arrive.shared::cta.b64 [r1];", "op-count"},
    {"sm_100a", 90, "mbarrier.arrive.shared::cluster.b64 d0, [r1];", "op-operand"},
    {"sm_100a", 90, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r1];",
     NULL},
    {"sm_100a", 90, "mbarrier.arrive.release.shared::cta.b64 _, [r1];", "op-lacks"},
    {"sm_100a", 90, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [r1], 64;", NULL},
    {"sm_100a", 90, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [r1];", "op-count"},
    {"sm_100a", 90, "mbarrier.try_wait.parity.shared::cta.b64 p0, [r1], r2, 1000;",
     NULL},
    {"sm_100a", 90, "mbarrier.try_wait.parity.shared::cta.b64 p0, [r1], d2;",
     "op-operand"},
    {"sm_100a", 90, "mbarrier.try_wait.parity.shared::cluster.b64 p0, [r1], r2;",
     "op-modifier"},
    {"sm_100a", 90, "mbarrier.try_wait.shared::cta.b64 p0, [r1], r2;", "op-operand"},
    {"sm_80", 90, "mbarrier.try_wait.parity.shared::cta.b64 p0, [r1], r2;",
     "op-target"},

    /* TMA */
    {"sm_90a", 83,
     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
     "[r0], [d1, {r2, 3}], [r4];",
     NULL},
    {"sm_90a", 83,
     "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
     "[r0], [d1, {r2, 3}], [r4];",
     "op-version"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [d1, {r2}], [r4];",
     "op-list"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [d1, {r2, d3}], [r4];",
     "op-operand"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [kp, {r2, r3}], [r4];",
     "op-rule"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.tile."
     "mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
     "[r0], [d1, {r2, r3, 0}], [r4], h0, d2;",
     NULL},
    {"sm_120a", 90,
     "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile."
     "mbarrier::complete_tx::bytes [r0], [d1, {r2, r3}], [r4];",
     "op-target"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
     "multicast::cluster [r0], [d1, {r2, r3}], [r4];",
     "op-count"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[r0], [d1, {r2, r3}], [r4], h0;",
     "op-count"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes."
     "multicast::cluster [r0], [d1, {r2, r3}], [r4], h0;",
     "op-modifier"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4."
     "mbarrier::complete_tx::bytes [r0], [d1, {r2, r3, r5, r6, r7}], [r4];",
     NULL},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4."
     "mbarrier::complete_tx::bytes [r0], [d1, {r2, r3, r5, r6, r7}], [r4];",
     "op-modifier"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
     "[d1, {r2, r3}], [r4];",
     NULL},
    {"sm_100a", 90, "cp.async.bulk.tensor.2d.global.shared::cta [d1, {r2, r3}], [r4];",
     "op-lacks"},
    {"sm_100a", 90,
     "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [d1], 2040, [r2];",
     "op-value"},
    {"sm_100a", 90,
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.bf16 "
     "[d1], [r3], r5;",
     "op-lacks"},
    {"sm_100a", 90, "cp.async.bulk.wait_group.read 1;", NULL},
    {"sm_100a", 90, "cp.async.bulk.wait_group.read r1;", "op-operand"},

    /* matrices */
    {"sm_90a", 90,
     "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {r0, r1, r2, r3}, [r4];", NULL},
    {"sm_90a", 90, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 r0, [r4];", "op-operand"},
    {"sm_90a", 90, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1}, [r4];",
     "op-list"},
    {"sm_100f", 90, "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [r4], {r0};", NULL},
    {"sm_90a", 90, "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [r4], {r0};",
     "op-target"},
    {"sm_100a", 90, "stmatrix.sync.aligned.m16n8.x1.shared.b8 [r4], {r0};", "op-lacks"},
    {"sm_90a", 90,
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d0, d1, "
     "p0, "
     "1, 1, 0, 0;",
     NULL},
    {"sm_100a", 90,
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d0, d1, "
     "p0, "
     "1, 1, 0, 0;",
     "op-target"},
    {"sm_120a", 88,
     "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32."
     "e2m1."
     "e2m1.f32.ue4m3 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f4,f5,f6,f7}, r6, {0, 0}, "
     "r7,"
     " {0, 0};",
     NULL},
    {"sm_100a", 88,
     "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32."
     "e2m1."
     "e2m1.f32.ue4m3 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f4,f5,f6,f7}, r6, {0, 0}, "
     "r7,"
     " {0, 0};",
     "op-target"},

    /* tensor memory */
    {"sm_100f", 88,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], 512;", NULL},
    {"sm_100f", 88, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], 48;",
     "op-value"},
    {"sm_100f", 88,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], 1024;", "op-value"},
    {"sm_100f", 88, "tcgen05.alloc.sync.aligned.shared::cta.b32 [r1], 512;",
     "op-lacks"},
    {"sm_90a", 88, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r1], 512;",
     "op-target"},
    {"sm_100", 88, "tcgen05.wait::ld.sync.aligned;", "op-target"},
    {"sm_100a", 86, "tcgen05.wait::ld.sync.aligned;", NULL},
    {"sm_100f", 88, "tcgen05.wait::ld;", "op-lacks"},
    {"sm_100f", 88, "tcgen05.wait.sync.aligned;", "op-lacks"},
    {"sm_100f", 88, "tcgen05.fence::after_thread_sync;", NULL},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x2.b32 {f0, r1}, [r2+4];", NULL},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [r2];", NULL},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x1.b32 r0, [r2];", "op-operand"},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, _}, [r2];",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, r1, r2}, [r2];",
     "op-list"},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.16x256b.x1.b32 {r0, r1, r2, r3}, [r2];",
     NULL},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.16x256b.x64.b32 {r0, r1, r2, r3}, [r2];",
     "op-rule"},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, r1}, [d2];",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {r0}, [r2], 8;", NULL},
    {"sm_100f", 88, "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {r0}, [r2], r3;",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.st.sync.aligned.32x32b.x2.b32 [r2], {r1, 5};", NULL},
    {"sm_100f", 88, "tcgen05.cp.cta_group::1.32x128b.warpx4 [r1+4], d1;", NULL},
    {"sm_100f", 88, "tcgen05.cp.cta_group::1.32x128b [r1], d1;", "op-lacks"},
    {"sm_100f", 88, "tcgen05.cp.cta_group::1.128x256b.warpx4 [r1], d1;", "op-modifier"},
    {"sm_100f", 88, "tcgen05.shift.cta_group::1.down [r1];", "op-target"},
    {"sm_100a", 88, "tcgen05.shift.cta_group::1.down [r1];", NULL},

    /* tcgen05.mma and commit */
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [r1], d1, d2, "
     "0x08200480, [r4], [r5], p1;",
     NULL},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::a::use "
     "[r1], [r2], d2, r3, [r4], [r5], !p1;",
     NULL},
    {"sm_100a", 87,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [r1], d1, d2, r3, "
     "[r4], [r5], p1;",
     "op-version"},
    {"sm_100a", 87,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [r1], d1, d2, "
     "r3, [r4], [r5], p1;",
     NULL},
    {"sm_100a", 86,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [r1], d1, d2, "
     "r3, [r4], [r5], p1;",
     "op-version"},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [r1], d1, d2, "
     "r3, [r4], [r5], p1;",
     "op-target"},
    {"sm_103f", 90,
     "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [r1], d1, d2, r3, "
     "[r4], [r5], p1;",
     "op-target"},
    {"sm_90a", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [r1], d1, d2, r3, "
     "[r4], [r5], p1;",
     "op-target"},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [r1], d1, d2, r3, [r4], "
     "[r5], "
     "p1;",
     "op-lacks"},
    {"sm_100a", 88,
     "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X [r1], d1, d2, "
     "r3, "
     "[r4], [r5], p1;",
     "op-modifier"},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [r1], d1, d2, r3, "
     "[r4], [r5], p1, 5;",
     "op-count"},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [d1], d1, d2, r3, "
     "[r4], [r5], p1;",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.mma.cta_group::1.kind::f16 [r1], d1, d2, r3, r4;",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.mma.cta_group::1.kind::f16 [r1], r1, d2, r3, p1;",
     "op-operand"},
    {"sm_100f", 88, "tcgen05.mma.cta_group::1.kind::f16 [r1], d1, d2, 5, 1;", NULL},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::2.kind::f16 [r1], d1, d2, r3, {r4, r5, r6, r7}, p1;",
     "op-list"},
    {"sm_100f", 88, "tcgen05.mma.cta_group::1.kind::f16.ashift [r1], d1, d2, r3, p1;",
     "op-operand"},
    {"sm_100f", 88,
     "tcgen05.mma.cta_group::1.kind::f16.block_scale [r1], d1, d2, r3, "
     "[r4], [r5], p1;",
     "op-modifier"},
    {"sm_100a", 88, "tcgen05.mma.cta_group::1.kind::i8 [r1], d1, d2, r3, p1;", NULL},
    {"sm_100f", 88, "tcgen05.mma.cta_group::1.kind::i8 [r1], d1, d2, r3, p1;",
     "op-target"},
    {"sm_103a", 88, "tcgen05.mma.cta_group::1.kind::i8 [r1], d1, d2, r3, p1;",
     "op-target"},
    {"sm_100f", 88,
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [r1];",
     NULL},
    {"sm_100f", 88,
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64 [r1];",
     "op-modifier"},
    {"sm_100f", 88,
     "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster."
     "multicast::cluster.b64 [r1], h1;",
     NULL},
    {"sm_100f", 88,
     "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster."
     "multicast::cluster.b64 [r1], 3;",
     "op-operand"},
    {"sm_100f", 88,
     "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster."
     "multicast::cluster.b64 [r1], r1;",
     "op-operand"},
    {"sm_100f", 88,
     "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
     "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
     "op-cta-group"},

    /* the module's head */
    {"sm_100f", 86, "ret;", "ptx-version"},
    {"sm_100a", 91, "ret;", "ptx-version"},
    {"sm_42x", 90, "ret;", "ptx-target"},
};

/* ptxas takes these; we do not, since each hides a mistake. */
static const struct row stricter[] = {
    {"sm_100f", 88, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 96;",
     "op-value"},
    {"sm_100a", 90, "ld.shared.u32 r0, [h1];", "op-operand"},
    {"sm_100a", 90,
     "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [r1, {r2, r3}], [r4];",
     "op-operand"},
};

static const char *text_of(struct arena *a, const struct row *r)
{
    return arena_printf(
        a,
        ".version %d.%d\n.target %s\n.address_size 64\n"
        ".visible .entry k(.param .align 64 .b8 kp[128], .param .u32 kn)\n"
        "{\n" DECLS "%s\nret;\n}\n",
        r->version / 10, r->version % 10, r->target, r->insn);
}

static void check_row(const struct row *r)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const char *text = text_of(a, r);
    const struct ptx_module *m = ptx_parse(a, "t.ptx", text, strlen(text), d);
    if (!m)
        test_fail(__FILE__, __LINE__, "%s: does not parse: %s", r->insn,
                  d->first->text);
    bool ok = ptx_check(m, d);
    CHECK_EQ(ok, d->count == 0);
    const char *code = ok ? NULL : diag_code_name(d->first->code);
    if (r->code ? !code || strcmp(code, r->code) != 0 : code != NULL)
        test_fail(__FILE__, __LINE__, "%s for %s: %s %s", r->insn, r->target,
                  code ? code : "accepted", code ? d->first->text : "");
    CHECK(d->count <= 1);
    arena_free(a);
}

TEST(the_table_is_judged_as_it_says)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&rows[i]);
    for (size_t i = 0; i < COUNT_OF(stricter); i++)
        check_row(&stricter[i]);
}

/* ---- ptxas, the authority */

static const char *find_ptxas(struct arena *a)
{
    const char *home = getenv("CUDA_HOME");
    const char *guesses[] = {home ? arena_printf(a, "%s/bin/ptxas", home) : "",
                             "/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
    struct stat st;
    for (size_t i = 0; i < COUNT_OF(guesses); i++) {
        if (stat(guesses[i], &st) == 0)
            return guesses[i];
    }
    return NULL;
}

static bool ptxas_takes(struct arena *a, const char *ptxas, const char *path,
                        const struct row *r)
{
    const char *text = text_of(a, r);
    CHECK(file_write(path, text, strlen(text)));
    return system(arena_printf(a, "'%s' -arch=%s -o /dev/null '%s' >/dev/null 2>&1",
                               ptxas, r->target, path)) == 0;
}

TEST_SLOW(ptxas_says_the_same)
{
    struct arena *a = arena_new();
    const char *ptxas = find_ptxas(a), *path = test_tmp_path("row.ptx");
    if (!ptxas)
        SKIP("no ptxas");
    const struct row plain = {"sm_100f", 88, "ret;", NULL};
    if (!ptxas_takes(a, ptxas, path, &plain))
        SKIP("this ptxas does not know sm_100f");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool takes = ptxas_takes(a, ptxas, path, &rows[i]);
        if (takes != (rows[i].code == NULL))
            test_fail(__FILE__, __LINE__, "ptxas %s %s for %s",
                      takes ? "takes" : "refuses", rows[i].insn, rows[i].target);
    }
    for (size_t i = 0; i < COUNT_OF(stricter); i++)
        CHECK(ptxas_takes(a, ptxas, path, &stricter[i]));
    arena_free(a);
}

/* ---- messages */

static struct diags *refused(struct arena *a, const char *target, const char *insn)
{
    const struct row r = {target, 88, insn, ""};
    struct diags *d = diags_new(a);
    const char *text = text_of(a, &r);
    const struct ptx_module *m = ptx_parse(a, "t.ptx", text, strlen(text), d);
    CHECK(m);
    CHECK(!ptx_check(m, d));
    return d;
}

TEST(a_missing_instruction_is_told_once_with_its_targets)
{
    struct arena *a = arena_new();
    struct diags *d = refused(a, "sm_90a",
                              "tcgen05.fence::after_thread_sync;\n"
                              "tcgen05.fence::before_thread_sync;");
    CHECK_EQ(d->count, 1);
    CHECK_STR(d->first->text, "tcgen05.fence is not in sm_90a");
    CHECK_DIAG(d, "op-target", 8);
    CHECK_EQ(d->first->loc.col, 1);
    CHECK_STR(d->first->notes->text,
              "targets that have it: sm_100a, sm_100f, sm_103a, sm_103f");
    arena_free(a);
}

/* The spelling, not the instruction, needs an 'a' target: people took that for a limit
 * of the hardware. */
TEST(scale_vec_on_a_family_target_names_its_alias)
{
    struct arena *a = arena_new();
    struct diags *d =
        refused(a, "sm_100f",
                "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X\n"
                "  [r1], d1, d2, r3, [r4], [r5], p1;");
    CHECK_STR(d->first->text, "'.scale_vec::4X' of tcgen05.mma is not in sm_100f");
    CHECK_EQ(d->first->loc.col, 53);
    CHECK(strstr(d->first->notes->text, "write .block16"));
    CHECK_STR(d->first->notes->next->text, "targets that have it: sm_100a, sm_103a");
    arena_free(a);
}

TEST(an_operand_is_shown_where_it_stands)
{
    struct arena *a = arena_new();
    struct diags *d = refused(a, "sm_100f",
                              "tcgen05.mma.cta_group::1.kind::f16\n"
                              "  [r1], d1, d2,\n      d3, p1;");
    CHECK_DIAG(d, "op-operand", 10);
    CHECK_EQ(d->first->loc.col, 7);
    CHECK_STR(d->first->text,
              "operand 4 of 'tcgen05.mma.cta_group::1.kind::f16' is the .b64 register "
              "d3, expected a .u32 register or constant");
    d = refused(
        a, "sm_100f",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [d1, {r1, f2}], [r3];");
    CHECK(strstr(d->first->text, "a tensor with the .f32 register f2 as a coordinate"));
    d = refused(a, "sm_100f", "ld.global.ftz.u32 r1, [d1];");
    CHECK_DIAG(d, "op-modifier", 8);
    CHECK_EQ(d->first->loc.col, 11);
    d = refused(
        a, "sm_100f",
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes."
        "multicast::cluster [r1], [d1, {r2}], [r3];");
    CHECK(strstr(d->first->notes->text, "'.multicast::cluster' brings an operand"));
    arena_free(a);
}

TEST(twenty_errors_are_enough)
{
    struct arena *a = arena_new();
    struct buf b;
    buf_init(&b, a);
    for (int i = 0; i < 100; i++)
        buf_puts(&b, "add.u32 r0, r1, f1;\n");
    CHECK_EQ(refused(a, "sm_100f", b.data)->count, 20);
    arena_free(a);
}

/* ---- functions */

static struct diags *judge(struct arena *a, const char *text)
{
    struct diags *d = diags_new(a);
    const struct ptx_module *m = ptx_parse(a, "t.ptx", text, strlen(text), d);
    if (m)
        ptx_check(m, d);
    return d;
}

#define HEAD ".version 8.8\n.target sm_90\n"

TEST(calls_match_their_function)
{
    struct arena *a = arena_new();
    static const char f[] =
        HEAD ".func (.reg .b32 o) f(.reg .b32 i) { mov.b32 o, i; ret; }\n"
             ".entry e() { ret; }\n.entry k() { .reg .b32 r; .reg .b64 d;\n%s\n}\n";
    CHECK_EQ(judge(a, arena_printf(a, f, "call (r), f, (r);"))->count, 0);
    CHECK_DIAG(judge(a, arena_printf(a, f, "call f, (r);")), "op-call", 6);
    CHECK_DIAG(judge(a, arena_printf(a, f, "call (r), f, (r, r);")), "op-call", 6);
    CHECK_DIAG(judge(a, arena_printf(a, f, "call (r), d, (r);")), "op-rule", 6);
    CHECK_DIAG(judge(a, arena_printf(a, f, "call e;")), "op-rule", 6);
    arena_free(a);
}

TEST(extents_and_clusters_of_kernels)
{
    struct arena *a = arena_new();
    CHECK_EQ(
        judge(a, HEAD ".entry k() .reqntid 1024 .reqnctapercluster 2 { ret; }")->count,
        0);
    CHECK_DIAG(judge(a, HEAD ".entry k() .reqntid 64, 32 { ret; }"), "ptx-extent", 3);
    CHECK_DIAG(judge(a, HEAD ".entry k() .maxntid 2147483647, 2147483647, 2147483647 "
                             "{ ret; }"),
               "ptx-extent", 3);
    CHECK_DIAG(judge(a, ".version 8.0\n.target sm_80\n.entry k() .reqnctapercluster 2 "
                        "{ ret; }"),
               "op-target", 3);
    arena_free(a);
}

/* Two functions may use different groups: the rule is one function's. */
TEST(cta_groups_may_differ_between_functions)
{
    struct arena *a = arena_new();
    CHECK_EQ(
        judge(a,
              ".version 8.8\n.target sm_100f\n"
              ".entry a() { tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
              " ret; }\n"
              ".entry b() { tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"
              " ret; }\n")
            ->count,
        0);
    arena_free(a);
}

/* ---- the table itself */

TEST(every_family_has_forms_and_a_place_for_each_operand)
{
    for (int op = 0; op < PTX_OP_COUNT; op++) {
        int count;
        const struct ptx_form *forms = ptx_forms((enum ptx_op)op, &count);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            CHECK(forms[i].isa == 0 ||
                  forms[i].isa >= ptx_op_info((enum ptx_op)op)->isa);
            CHECK(forms[i].type_count <= PTX_MAX_TYPES);
            for (int s = 0; s < forms[i].spec_count; s++)
                CHECK(forms[i].specs[s].alt_count > 0);
        }
    }
}

TEST(the_emulated_families_are_those_of_one_nvfp4_gemm_and_more)
{
    static const enum ptx_op emulated[] = {
        PTX_ADD,
        PTX_CVT,
        PTX_LD,
        PTX_ST,
        PTX_ELECT,
        PTX_MBARRIER_TRY_WAIT,
        PTX_CP_ASYNC_BULK,
        PTX_TCGEN05_ALLOC,
        PTX_CP_ASYNC_BULK_TENSOR,
        PTX_TCGEN05_CP,
        PTX_TCGEN05_MMA,
        PTX_TCGEN05_COMMIT,
        PTX_TCGEN05_LD,
        PTX_TCGEN05_WAIT,
        PTX_FENCE_PROXY,
    };
    static const enum ptx_op refused_ones[] = {PTX_WMMA_MMA, PTX_MULTIMEM_RED,
                                               PTX_TCGEN05_SHIFT, PTX_TCGEN05_MMA_SP};
    for (size_t i = 0; i < COUNT_OF(emulated); i++)
        CHECK(ptx_op_info(emulated[i])->emulated);
    for (size_t i = 0; i < COUNT_OF(refused_ones); i++)
        CHECK(!ptx_op_info(refused_ones[i])->emulated);
}

/* ---- whole kernels */

/* One CTA: a stage of operands through TMA, scales into tensor memory, one MMA, bf16.
 */
static const char ONE_CTA[] =
    ".version 8.8\n.target sm_100f\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry one(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128],\n"
    "                    .param .u64 scales, .param .u64 out)\n"
    ".reqntid 192, 1, 1\n.minnctapersm 1\n{\n"
    "  .reg .pred p, lead, acc; .reg .b32 thr, warp, base, bar, tm, x, i<8>;\n"
    "  .reg .b64 pa, pb, da, db, ds, o; .reg .f32 v<8>; .reg .b16 h;\n"
    "  mov.u32 thr, %tid.x;  shr.u32 warp, thr, 5;  mov.b32 base, sm;\n"
    "  add.u32 bar, base, 64;\n"
    "  setp.ne.u32 p, thr, 0;\n  @p bra READY;\n"
    "  mbarrier.init.shared::cta.b64 [bar], 1;\n"
    "  mbarrier.init.shared::cta.b64 [bar+8], 1;\n"
    "  fence.mbarrier_init.release.cluster;\n"
    "READY:\n  bar.warp.sync 0xffffffff;\n"
    "  setp.ne.u32 p, warp, 5;\n  @p bra ALLOCATED;\n"
    "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 256;\n"
    "  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    "ALLOCATED:\n  tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n"
    "  tcgen05.fence::after_thread_sync;\n  ld.shared.b32 tm, [sm];\n"
    "  setp.lt.u32 p, warp, 4;\n  @p bra DRAIN;\n"
    "  elect.sync _|lead, 0xffffffff;\n  @!lead bra DONE;\n"
    "  setp.eq.u32 p, warp, 5;\n  @p bra MATH;\n"
    "  mov.b64 pa, ma;  cvta.param.u64 pa, pa;  prefetch.tensormap [pa];\n"
    "  mov.b64 pb, mb;  cvta.param.u64 pb, pb;  prefetch.tensormap [pb];\n"
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 36864;\n"
    "  add.u32 x, base, 1024;\n"
    "  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes\n"
    "    [x], [pa, {0, 0}], [bar];\n"
    "  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes\n"
    "    [x+16384], [pb, {0, i0}], [bar];\n"
    "  ld.param.u64 o, [scales];\n"
    "  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes\n"
    "    [x+32768], [o], 4096, [bar];\n"
    "  bra.uni DONE;\n"
    "MATH:\n  mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0, 10000000;\n"
    "  @!p bra MATH;\n  tcgen05.fence::after_thread_sync;\n"
    "  bfe.u32 x, base, 4, 14;  cvt.u64.u32 da, x;\n"
    "  or.b64 da, da, 0x4000404000010000;  add.s64 db, da, 1024;  add.s64 ds, da, "
    "2048;\n"
    "  add.u32 i1, tm, 128;\n"
    "  tcgen05.cp.cta_group::1.32x128b.warpx4 [i1], ds;\n"
    "  tcgen05.cp.cta_group::1.32x128b.warpx4 [i1+4], ds;\n"
    "  mov.pred acc, 0;\n"
    "  tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16\n"
    "    [tm], da, db, 0x08200480, [i1], [i1+4], acc;\n"
    "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
    "  bra.uni DONE;\n"
    "DRAIN:\n  mbarrier.try_wait.parity.shared::cta.b64 p, [bar+8], 0;\n"
    "  @!p bra DRAIN;\n  tcgen05.fence::after_thread_sync;\n"
    "  shl.b32 x, warp, 21;  add.u32 x, x, tm;\n"
    "  tcgen05.ld.sync.aligned.32x32b.x8.b32 {v0, v1, v2, v3, v4, v5, v6, v7}, [x];\n"
    "  tcgen05.wait::ld.sync.aligned;\n"
    "  max.abs.f32 v0, v0, v1, v2;  rcp.approx.ftz.f32 v1, v0;\n"
    "  cvt.rn.bf16x2.f32 i2, v1, v0;  cvt.rn.satfinite.e4m3x2.f32 h, v3, v4;\n"
    "  { .reg .b8 c<4>; cvt.rn.satfinite.e2m1x2.f32 c0, v1, v0;\n"
    "    mov.b32 i3, {c0, c0, c0, c0}; }\n"
    "  ld.param.u64 o, [out];  mad.wide.u32 o, thr, 8, o;\n"
    "  st.global.v2.b32 [o], {i2, i3};  st.global.b8 [o+4], h;\n"
    "DONE:\n  bar.warp.sync 0xffffffff;\n  bar.sync 0;\n"
    "  setp.ne.u32 p, warp, 5;\n  @p ret;\n"
    "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 256;\n  ret;\n}\n";

/* A pair of CTAs: leader's barrier through mapa, multicast, cluster barriers. */
static const char TWO_CTAS[] =
    ".version 8.8\n.target sm_100a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry two(.param .align 64 .b8 ma[128], .param .u64 unused)\n"
    ".reqntid 128 .reqnctapercluster 2, 1, 1\n{\n"
    "  .reg .pred p, lead; .reg .b32 base, bar, rank, tm, x; .reg .b64 m, d, pol;\n"
    "  .reg .b16 both;\n"
    "  mov.b32 base, sm;  mov.u32 rank, %cluster_ctarank;  mov.b16 both, 3;\n"
    "  mapa.shared::cluster.u32 bar, base, 0;\n"
    "  mbarrier.init.shared::cta.b64 [base], 2;\n"
    "  barrier.cluster.arrive.release.aligned;  barrier.cluster.wait.acquire.aligned;\n"
    "  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [base+8], 512;\n"
    "  ld.shared.b32 tm, [base+8];\n"
    "  mov.b64 m, ma;  cvta.param.u64 m, m;\n"
    "  createpolicy.fractional.L2::evict_first.b64 pol, 0f3F800000;\n"
    "  mbarrier.arrive.expect_tx.shared::cluster.b64 _, [bar], 32768;\n"
    "  cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint\n"
    "    [base+1024], [m, {0, rank}], [bar], both, pol;\n"
    "  setp.eq.u32 lead, rank, 0;\n  @!lead bra OUT;\n"
    "WAIT:\n  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [base], 0;\n"
    "  @!p bra WAIT;\n"
    "  tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X"
    ".collector::a::lastuse\n    [tm], d, d, x, [tm+256], [tm+288], 0;\n"
    "  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64 [base], both;\n"
    "OUT:\n  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];\n"
    "  barrier.cluster.arrive.relaxed.aligned;  barrier.cluster.wait.aligned;\n"
    "  tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 512;\n  ret;\n}\n";

static void check_whole(const char *text, const char *target, bool with_ptxas)
{
    struct arena *a = arena_new();
    struct diags *d = judge(a, text);
    if (d->count)
        test_fail("kernel", d->first->loc.line, "%s", d->first->text);
    const char *ptxas = with_ptxas ? find_ptxas(a) : NULL;
    if (ptxas) {
        const char *path = test_tmp_path("kernel.ptx");
        CHECK(file_write(path, text, strlen(text)));
        CHECK_EQ(system(arena_printf(a, "'%s' -arch=%s -o /dev/null '%s' >/dev/null",
                                     ptxas, target, path)),
                 0);
    }
    arena_free(a);
}

TEST(kernels_of_one_cta_and_of_a_pair_are_right)
{
    check_whole(ONE_CTA, "sm_100f", false);
    check_whole(TWO_CTAS, "sm_100a", false);
}

TEST_SLOW(ptxas_takes_both_kernels)
{
    check_whole(ONE_CTA, "sm_100f", true);
    check_whole(TWO_CTAS, "sm_100a", true);
}
