/* watch.h - registers that may be read before they are written (check 20).
 *
 * decode_watch.c finds them once and numbers them; check_fresh.c keeps for each which
 * lanes have written it, at the ops that have a watch and at no others. */
#ifndef FP4EMU_WATCH_H
#define FP4EMU_WATCH_H

#include "emu/machine.h"

#define WATCH_NONE 0xffffu /* a register that needs no watch, or something else */

/* Compilers move, pack and compute with registers that hold nothing where the result is
 * not used, so the lack goes on from register to register.  It is told where it
 * matters: in an address, a branch, memory, and everything else that others see. */
enum watch_rule {
    WATCH_TELL,  /* what is read must have been written */
    WATCH_FRESH, /* the result is there in any case */
    WATCH_ANY,   /* it lacks when any of what is read does */
    WATCH_ALL,   /* when all of it does: parts of a word */
    WATCH_SELP,
    WATCH_AND, /* of predicates: false and whatever is false */
    WATCH_OR,
    WATCH_EACH, /* element by element: accumulators of mma */
};

struct watch {
    uint8_t rule;
    uint16_t guard;
    uint16_t read_count, write_count;
    uint16_t apart; /* TELL: the first reads, one by one; the others are parts of what
                       is stored, which may have holes */
    uint16_t *reads, *writes;
};

#endif
