/* desc_rows.c - operands in shared memory whose rows, not K, are contiguous.
 *
 * The canonical layouts of matrix descriptors with M or N along the bytes: CUTLASS,
 * cute/arch/mma_sm100_desc.hpp. */
#include "emu/check_desc.h"
#include "emu/report.h"

#define ROW_BYTES 32 /* of K, in one instruction */

/* Shared offset of the 16 bytes that hold element k of rows row .. row + 16/bytes - 1.
 */
static uint32_t chunk_by_row(const struct smem_desc *d, uint32_t row, uint32_t k,
                             uint32_t bytes)
{
    uint32_t chunk = row * bytes / 16;
    if (d->swizzle == TMAP_SWIZZLE_NONE)
        return d->start + chunk * d->sbo + k / 8 * d->lbo + k % 8 * 16;
    uint32_t span = d->pitch / 16;
    uint32_t at = d->start + chunk / span * d->lbo + k / 8 * d->sbo + k % 8 * d->pitch +
                  chunk % span * 16;
    return tmap_swizzle(at, d->swizzle, d->atom);
}

void desc_gather_by_row(const struct cta *c, const struct smem_desc *d, uint32_t bytes,
                        uint32_t rows, uint8_t *to)
{
    uint32_t each = 16 / bytes;
    for (uint32_t k = 0; k < ROW_BYTES / bytes; k++)
        for (uint32_t row = 0; row < rows; row += each) {
            const uint8_t *from = c->smem + chunk_by_row(d, row, k, bytes);
            for (uint32_t i = 0; i < each && row + i < rows; i++)
                memcpy(to + (row + i) * ROW_BYTES + k * bytes, from + i * bytes, bytes);
        }
}

/* The bytes that such an operand reaches; without the layout of copies, which may be
 * any here. */
bool desc_check_by_row(struct warp *w, struct cta *c, const struct smem_desc *d,
                       uint32_t bytes, const char *what, uint32_t rows)
{
    uint32_t from = UINT32_MAX, to = 0;
    for (uint32_t k = 0; k < ROW_BYTES / bytes; k++)
        for (uint32_t row = 0; row < rows; row += 16 / bytes) {
            uint32_t at = chunk_by_row(d, row, k, bytes);
            from = at < from ? at : from;
            to = at + 16 > to ? at + 16 : to;
        }
    if (from >= SMEM_RESERVED_BYTES && to <= c->smem_bytes)
        return true;
    report(
        w->cta->cluster->grid, w, CHECK_DESCRIPTOR,
        "descriptor of %s: it reaches from 0x%x to 0x%x, the shared memory of CTA %u "
        "from 0x%x to 0x%x",
        what, from, to, c->rank, SMEM_RESERVED_BYTES, c->smem_bytes);
    return false;
}

void desc_touch_by_row(struct async_op *o, struct cta *c, const struct smem_desc *d,
                       uint32_t bytes, uint32_t rows)
{
    uint32_t span = d->swizzle == TMAP_SWIZZLE_NONE ? 16 : d->pitch;
    for (uint32_t row = 0; row < rows; row += span / bytes)
        for (uint32_t k = 0; k < ROW_BYTES / bytes; k += 8) {
            uint32_t at = chunk_by_row(d, row, k, bytes) & ~(span * 8 - 1);
            if (d->swizzle == TMAP_SWIZZLE_NONE)
                at = chunk_by_row(d, row, k, bytes);
            async_touch(o, c, at, at + 8 * span, false);
        }
}
