/* access.h - from the addresses of an instruction's lanes to host memory. */
#ifndef FP4EMU_ACCESS_H
#define FP4EMU_ACCESS_H

#include "emu/machine.h"

enum space {
    SPACE_GENERIC,
    SPACE_GLOBAL, /* and const: both lie at their host address */
    SPACE_SHARED_CTA,
    SPACE_SHARED_CLUSTER,
    SPACE_LOCAL,
    SPACE_PARAM,
};

/* The state space that the opcode names; GENERIC when it names none. */
enum space access_space(const struct ptx_insn *i);

/* Where each lane's bytes are.  False after a report: outside, misaligned, read-only,
 * an mbarrier object, or bytes that an asynchronous operation is busy with (checks 4,
 * 5, 10, 21, 35). */
struct access {
    uint8_t *at[WARP_LANES];
    uint32_t shared, global; /* lanes whose bytes are there */
};
bool access_lanes(struct warp *w, const struct op *op, const struct opnd *o,
                  uint32_t lanes, enum space space, uint32_t bytes, bool write,
                  struct access *a);
/* What was found was written to: those who wait for a change must look again. */
void access_changed(struct warp *w, const struct access *a);

#endif
