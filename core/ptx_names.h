/* ptx_names.h - spellings to ids: opcodes, types, modifiers, special registers.
 *
 * Only the parser and the checker include this; others read ids. */
#ifndef FP4GEN_PTX_NAMES_H
#define FP4GEN_PTX_NAMES_H

#include "core/ptx.h"

/* -1, and 0 for types and modifiers: there is none of that spelling. */
int ptx_find_op(const char *s, int bytes);
enum ptx_type ptx_find_type(const char *s, int bytes);
enum ptx_mod ptx_find_mod(const char *s, int bytes);
int ptx_find_sreg(const char *s, int bytes);
enum ptx_type ptx_sreg_type(int sreg);

/* What a dotted opcode says, without its place in a text. */
struct ptx_opcode {
    enum ptx_op op;
    uint8_t types[PTX_MAX_TYPES];
    uint16_t mods[PTX_MAX_MODS];
    int type_count, mod_count, vector, repeat;
};

enum ptx_opcode_error {
    PTX_OPCODE_OK,
    PTX_OPCODE_UNKNOWN, /* no family begins like this */
    PTX_OPCODE_PART,    /* *part is neither a type nor a modifier */
    PTX_OPCODE_LONG,    /* more parts than any instruction has */
};

enum ptx_opcode_error ptx_opcode_read(const char *text, int bytes,
                                      struct ptx_opcode *out, const char **part,
                                      int *part_bytes);

#endif
