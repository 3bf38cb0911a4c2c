/* target.h - what each architecture has, and how much of it.
 *
 * Rows stand in targets.def.  Sources: PTX ISA 9.0 (target notes of each
 * instruction, ".target"), CUDA C++ Programming Guide (compute capabilities), and
 * ptxas 13.0, which a test asks again. */
#ifndef FP4GEN_TARGET_H
#define FP4GEN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

enum target_feature {
    FEAT_SM_80 = 1 << 0,      /* cp.async, mma, redux.sync integers */
    FEAT_SM_89 = 1 << 1,      /* cvt e4m3x2 */
    FEAT_SM_90 = 1 << 2,      /* TMA, mbarrier try_wait, clusters */
    FEAT_SM_90A = 1 << 3,     /* wgmma */
    FEAT_SETMAXNREG = 1 << 4, /* setmaxnreg, tensormap.replace */
    FEAT_SM_100 = 1 << 5,     /* 256-bit ld/st, f32x2, three-input max, CLC */
    FEAT_TCGEN05 = 1 << 6,    /* Tensor Memory, tcgen05, TMA .cta_group::2 */
    FEAT_SCALE_VEC = 1 << 7,  /* the spelling .scale_vec::4X of .block16 */
    FEAT_CVT_E2M1 = 1 << 8,   /* cvt e2m1x2, ue8m0x2 */
    FEAT_CVT_RS = 1 << 9,     /* cvt.rs e2m1x4 */
    FEAT_REDUX_F32 = 1 << 10, /* redux.sync f32 */
    FEAT_MMA_BLOCK = 1 << 11, /* mma.sync block_scale */
    FEAT_TC_SHIFT = 1 << 12,  /* tcgen05.shift */
    FEAT_TC_LD_RED = 1 << 13, /* tcgen05.ld.red */
    FEAT_K96 = 1 << 14,       /* mxf4nvf4 with K = 96 */
};

struct target {
    const char *name;    /* "sm_100f" */
    int cc;              /* compute capability times ten: 100 */
    char suffix;         /* 'a', 'f' or 0 */
    int ptx_version;     /* lowest .version that names it, times ten */
    uint32_t features;   /* enum target_feature */
    uint32_t smem_bytes; /* dynamic shared memory of one CTA, opt-in */
    int tmem_cols;       /* 32-bit columns of tensor memory */
    const char *runs_on; /* for people: "sm_100 and sm_103 parts" */
};

/* NULL when there is no such target. */
const struct target *target_find(const char *name);
const struct target *target_at(int i); /* i-th row, NULL past the end */
/* "tcgen05" for FEAT_TCGEN05 and so on; one bit. */
const char *target_feature_name(uint32_t feature);
/* Can PTX for `t` be loaded by a device of compute capability `cc` (times ten)?
 * ...a targets only on exactly theirs, ...f on the family, plain ones on later. */
bool target_runs_on(const struct target *t, int cc);

#endif
