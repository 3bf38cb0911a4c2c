/* tcgen05.h - between decode_tcgen05.c and the files that execute. */
#ifndef FP4EMU_TCGEN05_H
#define FP4EMU_TCGEN05_H

#include "emu/machine.h"

/* ld and st: op->aux[0] is the shape, [1] the registers of a lane, [2] whether pairs of
 * columns are packed into one register, [3] the column offset of the second half. */
enum tc_shape { TC_32X32B, TC_16X64B, TC_16X128B, TC_16X256B, TC_16X32BX2 };

/* cp: op->aux[0] is the CTA group, [1] the shape. */
enum tc_cp_shape {
    TC_CP_32X128B_X4,
    TC_CP_64X128B_02_13,
    TC_CP_64X128B_01_23,
    TC_CP_128X128B,
    TC_CP_128X256B,
    TC_CP_4X256B,
};

/* mma: op->aux[0] is the CTA group, [1] the elements of a block, [2] kind::mxf4.
 * commit: op->aux[0] is the CTA group, [1] multicast, [2] a .shared::cluster address.
 * wait: op->aux[0] is an enum tmem_kind. */
exec_fn tc_ld, tc_st, tc_wait, tc_fence, tc_cp, tc_mma, tc_commit;

#endif
