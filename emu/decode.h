/* decode.h - what the parts of the decoder share; exec_ files use machine.h alone. */
#ifndef FP4EMU_DECODE_H
#define FP4EMU_DECODE_H

#include "emu/machine.h"

/* Where registers live.  One function's registers never share a slot with another's. */
struct slot_map {
    uint32_t *slot_of_reg; /* bytes from the start of the register file */
    uint32_t end_bytes;    /* first byte behind all slots */
    /* Registers that may be read before they are written, a bit each; NULL: none. */
    const uint64_t *unwritten;
};

/* Gives every register that the function mentions a slot from `from_bytes` on, the same
 * one to registers that are never needed at the same time. */
struct slot_map slots_assign(struct arena *a, const struct ptx_func *f,
                             uint32_t from_bytes);

uint8_t reg_bits(enum ptx_type t); /* of a register declared so: 1 8 16 32 64 128 */

/* One function of the kernel: its entry, or a .func that it calls. */
struct unit {
    const struct ptx_func *func;
    uint32_t *pc_of_insn; /* insn_count + 1 of them */
    uint32_t *slot_of_reg;
    const uint64_t *unwritten; /* as in slot_map */
    uint32_t return_slot;      /* of a .func: where each lane goes back to */
    uint32_t first_pc;
};

enum visit { VISIT_NONE, VISIT_OPEN, VISIT_DONE };

struct decoder {
    struct arena *arena;
    const struct ptx_module *module;
    struct kernel *kernel;
    struct diags *diags;
    const struct placed_var *placed;
    int placed_count;
    struct unit *units;
    int unit_count;
    enum visit *visits; /* of all functions of the module */
    struct unit *unit;  /* being decoded */
    struct var_slot {   /* shared, local and call variables */
        const struct ptx_var *var;
        enum opnd_base base;
        uint32_t offset;
    } * vars;
    int var_count, var_cap;
    uint8_t *consts;
    uint32_t const_bytes, const_cap;
    struct const_slot {
        uint64_t value;
        uint32_t slot;
        bool is_wide; /* 8 bytes a lane */
        struct const_slot *next;
    } * const_hash[256];
    int sreg_cap;
    uint32_t local_align;
    bool failed;
};

/* The unit of a .func by name; NULL: none of that name has a body. */
struct unit *decode_find_unit(struct decoder *d, const char *name);
/* Offset of a variable of space .param that carries a call's arguments, in the call
 * area of a lane. */
uint32_t decode_call_offset(struct decoder *d, const struct ptx_var *var);
/* decode_watch.c: gives ops of the unit a watch, when it may read what it has not
 * written. */
void decode_watch(struct decoder *d, const struct unit *u);
/* decode_fragments.c: gives ops of the unit their fragments. */
void decode_fragments(struct decoder *d, const struct unit *u);
/* Slot of a constant with lanes of 4 bytes, or 8. */
uint32_t decode_const(struct decoder *d, uint64_t value, bool is_wide);
/* decode_vars.c: gives the variables that the units mention their places. */
bool decode_place_vars(struct decoder *d);
/* Base and imm of an address that starts at a variable. */
bool decode_var(struct decoder *d, const struct ptx_var *var, struct opnd *out);

#endif
