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

/* mma of the other kinds: op->aux[0] is the CTA group, [1] the kind, [2] whether A is
 * in tensor memory, [3] the number of the operand that masks lanes off, 0: none, [4]
 * that of the predicate, [5] how far D is scaled down first. */
enum tc_kind {
    TC_KIND_F16,
    TC_KIND_TF32,
    TC_KIND_F8F6F4,
    TC_KIND_I8,
    TC_KIND_MXF8F6F4
};
exec_fn tc_mma_any;

/* ---- tc_mma.c, for tc_mma_any.c */

/* The CTAs that an instruction works for, the even one of a pair first. */
int tc_ctas(struct warp *w, uint32_t group, struct cta *ctas[2]);
typedef bool tc_issue_fn(struct warp *w, const struct op *op, int lane);
enum flow tc_issue_lanes(struct warp *w, const struct op *op, uint32_t lanes,
                         tc_issue_fn *issue);
/* Column of an address whose lane must be 0; of scales, which have a byte number too.
 */
bool tc_column(struct warp *w, uint32_t address, const char *what, uint32_t *col);
bool tc_scale_column(struct warp *w, const struct op *op, int index, int lane,
                     const char *what, uint32_t *col);
/* 32 rows of scales share a column of words. */
static inline uint32_t tc_scale_cols(uint32_t rows)
{
    return (rows + 31) / 32;
}
/* Scales of `rows` rows, four bytes each: one word of tensor memory for block16, half
 * of one, each byte twice, for block32, byte `id` of it four times where a row has one
 * scale.  Every quarter of the lanes holds a copy. */
#define TC_ONE_SCALE 0
bool tc_gather_scales(struct warp *w, struct cta *c, uint32_t col, uint32_t rows,
                      uint32_t block, uint32_t id, const char *what, uint8_t *to);

#endif
