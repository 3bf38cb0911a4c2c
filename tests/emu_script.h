/* emu_script.h - runs a PTX file as its own comments say, on the machine.
 *
 *     //: block 64                  threads of a block; also grid, cluster, smem
 *     //: registers 0               of a thread at launch (168 where not said); 0: no
 *                                   bound of them is stated
 *     //: in x u32 : 1 2 0..31      a buffer with these values, the next parameter
 *     //: out y f32 64              a zeroed buffer of 64 elements, the next parameter
 *     //: arg u32 7                 a value, the next parameter
 *     //: map x 64 16 : 32 8        a tensor map of 64 x 16 bytes over buffer x, boxes
 *                                   of 32 x 8, the next parameter
 *     //: expect y : 3*1.5 0..60    what the buffer must hold: N*V repeats, A..B counts
 *     //: report 25 words           the launch must end so, with these words, in the
 *                                   line that is marked //<
 *     //: refuse words              the decoder must not take it, in the line marked so
 *     //: strategy lazy             not in both ways
 *     //: checks pedantic           as FP4EMU_CHECK
 *     //: clusters 1 2 0            as often, with so many launched at first (0: all)
 */
#ifndef FP4GEN_EMU_SCRIPT_H
#define FP4GEN_EMU_SCRIPT_H

#include "core/base.h"

/* Nothing when a strategy directive names another one. */
void emu_script_run(const char *path, const char *text, const char *strategy,
                    uint64_t seed, uint32_t first_clusters);
/* What is reported when it is run, under the eager schedule where it does not name
 * another one; in the arena. */
const char *emu_script_report(struct arena *a, const char *path, const char *text);

#endif
