/* check_desc.h - matrix descriptors: taken apart, and check 29 on them.
 *
 * A descriptor is 64 bits that nobody looks at before the tensor core does, and a wrong
 * one gives wrong numbers, not a fault.  So each is compared with itself, with the
 * instruction, and with the copies that filled the memory it points to. */
#ifndef FP4EMU_CHECK_DESC_H
#define FP4EMU_CHECK_DESC_H

#include "emu/machine.h"
#include "emu/tmap.h"

/* A K-major operand in shared memory.  PTX ISA 9.0, "Shared memory descriptor". */
struct smem_desc {
    uint64_t bits;
    uint32_t start, lbo, sbo; /* bytes */
    enum tmap_swizzle swizzle;
    enum tmap_atom atom;
    uint32_t pitch; /* from row to row inside a group of eight */
};

/* Takes it apart; false after a report.  `what` names the operand: "A", "the scales".
 */
bool desc_decode(struct warp *w, uint64_t bits, const char *what, struct smem_desc *d);

/* Where 16-byte chunk `chunk` of row `row` lies in the CTA's shared window. */
static inline uint32_t desc_chunk(const struct smem_desc *d, uint32_t row,
                                  uint32_t chunk)
{
    uint32_t at = d->start + row / 8 * d->sbo + row % 8 * d->pitch;
    if (d->swizzle == TMAP_SWIZZLE_NONE)
        return at + chunk * d->lbo;
    return tmap_swizzle(at + chunk * 16, d->swizzle, d->atom);
}

/* Do `rows` rows of `chunks` chunks lie in this CTA's shared memory, in bytes that lie
 * as the copies that wrote them have laid them?  False after a report. */
bool desc_check(struct warp *w, struct cta *c, const struct smem_desc *d,
                const char *what, uint32_t rows, uint32_t chunks);
/* Further, for the 512-byte blocks of scale factors that 32x128b copies. */
bool desc_check_scales(struct warp *w, struct cta *c, const struct smem_desc *d,
                       const char *what);
/* Tells async.c which bytes the operation reads. */
void desc_touch(struct async_op *o, struct cta *c, const struct smem_desc *d,
                uint32_t rows, uint32_t chunks);
/* Packs the rows one behind the other. */
void desc_gather(const struct cta *c, const struct smem_desc *d, uint32_t rows,
                 uint32_t chunks, uint8_t *to);

/* The same for operands of `bytes` an element whose rows are contiguous, 32 bytes of K
 * (desc_rows.c); how copies have laid them is not looked at. */
bool desc_check_by_row(struct warp *w, struct cta *c, const struct smem_desc *d,
                       uint32_t bytes, const char *what, uint32_t rows);
void desc_touch_by_row(struct async_op *o, struct cta *c, const struct smem_desc *d,
                       uint32_t bytes, uint32_t rows);
void desc_gather_by_row(const struct cta *c, const struct smem_desc *d, uint32_t bytes,
                        uint32_t rows, uint8_t *to);

/* An instruction descriptor of kinds mxf4 and mxf4nvf4. */
struct instr_desc {
    uint32_t m, n;
    uint32_t sfa_id, sfb_id; /* byte of a scale word at which the instruction's begin */
    bool ue8m0, negate;      /* of the product */
};

/* `block` is 16 or 32.  False after a report. */
bool idesc_decode(struct warp *w, uint32_t bits, int cta_group, bool is_mxf4, int block,
                  struct instr_desc *i);

#endif
