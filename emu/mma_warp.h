/* mma_warp.h - matrix instructions that live in registers: mma.sync and wgmma.
 *
 * In all of them a register of A or B is 32 bits of a row of 32 bytes: with g = lane /
 * 4, t = lane mod 4, register r of A has bytes 4t + 16 (r / 2) of row g + 8 (r mod 2),
 * register r of B bytes 4t + 16 r of row g (PTX ISA 9.0, "Matrix Fragments").  D has
 * two columns a lane: row g and then row g + 8, columns 2t and 2t + 1 of each eight. */
#ifndef FP4EMU_MMA_WARP_H
#define FP4EMU_MMA_WARP_H

#include "emu/machine.h"
#include "emu/mma_any.h"

#define MMA_WARP_ROWS 16

/* Type of an operand; false: there is none for it. */
bool mma_type_of(int ptx_type, enum mma_type *type);

/* Registers of A to 16 rows of 32 bytes; `count` of them, 1 to 4. */
void mma_gather_a(struct warp *w, const struct opnd *list, int count,
                  uint8_t rows[MMA_WARP_ROWS * MMA_ROW_BYTES]);
/* Registers of B to 8 rows. */
void mma_gather_b(struct warp *w, const struct opnd *list, int count,
                  uint8_t rows[8 * MMA_ROW_BYTES]);
/* D as mma_any() has it, d[column * 16 + row], from and to registers: f32 and s32 one a
 * register, f16 two. */
void mma_gather_d(struct warp *w, const struct opnd *list, enum mma_result type, int n,
                  uint32_t *d);
void mma_scatter_d(struct warp *w, const struct opnd *list, enum mma_result type, int n,
                   const uint32_t *d);
/* How many registers D has. */
static inline int mma_d_registers(enum mma_result type, int n)
{
    return type == MMA_TO_F16 ? n / 4 : n / 2;
}

#endif
