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
 * 5, 10, 21, 35).  `write` also counts as an event for those who wait. */
struct access {
    uint8_t *at[WARP_LANES];
};
bool access_lanes(struct warp *w, const struct op *op, const struct opnd *o,
                  uint32_t lanes, enum space space, uint32_t bytes, bool write,
                  struct access *a);
/* Is this lane's address in shared memory?  For atom, whose global operations are
 * locked and whose shared ones need not be. */
bool access_is_shared(const struct warp *w, const struct opnd *o, enum space space,
                      int lane);

#endif
