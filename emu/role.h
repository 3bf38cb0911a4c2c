/* role.h - what a warp is there for, told by where its own code begins.
 *
 * Warps of a specialised kernel part ways and then go round loops of their own.  The
 * first loop that a warp does not share with all others of its CTA is in its role; the
 * role begins behind the last instruction in front of it that never goes on to the
 * next, and is called by the label there. */
#ifndef FP4EMU_ROLE_H
#define FP4EMU_ROLE_H

#include "emu/machine.h"

struct role {
    uint32_t pc;       /* where it begins; UINT32_MAX: the warp has none */
    const char *label; /* there, or NULL */
    int line;          /* 0: none */
};

struct role role_of(const struct warp *w);
/* "MMA, line 230"; "" when it has none. */
const char *role_text(const struct warp *w, char *text, size_t bytes);

/* The label that a branch goes to; NULL: it is none. */
const char *role_branch(const struct ptx_insn *i);
/* Does a branch of the module go to `wanted`?  `text`: the labels that any goes to. */
bool role_labels(const struct ptx_module *m, const char *wanted, char *text,
                 size_t bytes);

/* A branch back to `pc`. */
void role_loop(struct warp *w, uint32_t pc);

#endif
