/* ptx.h - PTX text to struct ptx_module: the one place that understands PTX.
 *
 * The generator checks its output with it and the emulator runs what it returns.
 * ptx_parse() knows the grammar (PTX ISA 9.0, "Syntax", "Directives"), resolves
 * registers, labels and symbols in the innermost scope, and rejects opcodes and
 * modifiers that ptx_ops.def does not list.  ptx_check() asks whether the module's
 * .version and .target have what its instructions need, and whether operands fit. */
#ifndef FP4GEN_PTX_H
#define FP4GEN_PTX_H

#include "core/base.h"
#include "core/diag.h"
#include "core/target.h"

enum ptx_op {
#define PTX_OP(id, spelling, isa, needs, mods, operands, emulated) PTX_##id,
#include "core/ptx_ops.def"
#undef PTX_OP
    PTX_OP_COUNT
};

/* Dot parts of an opcode that are types, in the order of the text. */
enum ptx_type {
    PTX_NO_TYPE,
#define PTX_TYPE(id, spelling, bits) PTX_T_##id,
#include "core/ptx_types.def"
#undef PTX_TYPE
    PTX_TYPE_COUNT
};

/* All other dot parts: .rn, .shared::cta, .mbarrier::complete_tx::bytes ... */
enum ptx_mod {
    PTX_NO_MOD,
#define PTX_MOD(id, spelling) PTX_M_##id,
#include "core/ptx_mods.def"
#undef PTX_MOD
    PTX_MOD_COUNT
};

enum ptx_sreg {
#define PTX_SREG(id, spelling, type) PTX_S_##id,
#include "core/ptx_sregs.def"
#undef PTX_SREG
    PTX_SREG_COUNT
};

enum ptx_space {
    PTX_GENERIC,
    PTX_REG,
    PTX_PARAM,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_CONST,
};

enum ptx_operand_kind {
    PTX_OPND_REG,    /* reg */
    PTX_OPND_SREG,   /* sreg */
    PTX_OPND_IMM,    /* imm: an integer, or the bits of a float literal */
    PTX_OPND_VAR,    /* address of var, plus imm */
    PTX_OPND_ADDR,   /* [reg + imm], [var + imm] or [imm]: reg -1 and var NULL then */
    PTX_OPND_VECTOR, /* {items}: registers, immediates, sinks */
    PTX_OPND_TENSOR, /* [map, {coords}]: items[0] is the map's address (a REG or VAR
                        with imm), the rest are coordinates, innermost first */
    PTX_OPND_PAIR,   /* d|p: items[0], items[1] */
    PTX_OPND_LABEL,  /* target: index into the function's insns (count = the end) */
    PTX_OPND_FUNC,   /* name of a function: mov of its address, call */
    PTX_OPND_SINK,   /* _ */
};

/* Operands stand in the order of the text, with three conventions:
 *   call     {results}, callee (FUNC or REG), {arguments}, prototype (LABEL, only for
 *            a REG callee); both VECTORs are there even when empty
 *   brx.idx  index, {LABELs of its .branchtargets}
 *   float literals: imm holds the bits of a double where the instruction's type has
 *            64 bits, of a float everywhere else, however they were written */
struct ptx_operand {
    enum ptx_operand_kind kind;
    bool negated;  /* !p */
    bool is_float; /* IMM was written 0f.. or 0d.. or with a decimal point */
    int reg;       /* index into func->regs, -1: none */
    int sreg;      /* enum ptx_sreg */
    int target;    /* LABEL */
    int64_t imm;   /* bytes in addresses; float literals: see above */
    const struct ptx_var *var;
    const char *name; /* as written, for messages */
    struct ptx_operand *items;
    int item_count;
    int line, col;
};

#define PTX_MAX_TYPES 5
#define PTX_MAX_MODS 12

struct ptx_insn {
    enum ptx_op op;
    uint8_t types[PTX_MAX_TYPES];
    uint16_t mods[PTX_MAX_MODS];
    int type_count, mod_count;
    int vector; /* 2, 4 or 8 for .v2 .v4 .v8, else 1 */
    int repeat; /* 1..128 for .x1 .. .x128 (tcgen05.ld, ldmatrix), else 0 */
    int guard;  /* register index of @p, -1: none */
    bool guard_negated;
    struct ptx_operand *operands;
    int operand_count;
    int line, col;      /* of the opcode */
    const char *opcode; /* the whole dotted opcode as written */
};

struct ptx_reg {
    const char *name;
    enum ptx_type type;
    int line;
};

/* A place in an initialiser that holds the address of something. */
struct ptx_reloc {
    uint32_t offset_bytes, bytes; /* in the variable */
    const struct ptx_var *var;    /* NULL: the function `func` */
    const char *func;
    int64_t addend;
    bool generic; /* generic(x): the generic address, not the space's own */
};

struct ptx_var {
    const char *name;
    enum ptx_space space;
    enum ptx_type type;
    uint32_t align_bytes, bytes; /* bytes 0: extern array without a size */
    uint32_t offset_bytes; /* .param: in the parameter block; others: set by users */
    bool is_extern, is_visible;
    const uint8_t *init;      /* NULL: zero or undefined; else `bytes` bytes */
    struct ptx_reloc *relocs; /* addresses in init, which holds zeros there */
    int reloc_count;
    int reg; /* PTX_REG (parameters of .func): index into regs, else -1 */
    int line;
};

struct ptx_func {
    const char *name;
    bool is_entry, has_body;
    struct ptx_var **params; /* in order, offsets filled in */
    int param_count;
    uint32_t param_bytes;
    struct ptx_var **returns; /* of a .func */
    int return_count;
    struct ptx_var **vars; /* .shared, .local, .const, .global inside the body, and
                              the .param variables that carry a call's arguments */
    int var_count;
    struct ptx_reg *regs;
    int reg_count;
    struct ptx_insn *insns;
    int insn_count;
    uint32_t reqntid[3], maxntid[3]; /* 0: not stated */
    uint32_t reqnctapercluster[3];   /* 0: not stated */
    uint32_t minnctapersm, maxnreg;  /* 0: not stated */
    uint32_t maxclusterrank;         /* 0: not stated */
    bool explicit_cluster, blocks_are_clusters;
    int line;
};

struct ptx_module {
    const char *file; /* for messages; may be NULL */
    int version;      /* times ten: 88 */
    int version_line;
    const char *target_name; /* as written: "sm_100f" */
    int target_line, target_col;
    const struct target *target; /* NULL: not in targets.def */
    struct ptx_func **funcs;
    int func_count;
    struct ptx_var **vars; /* module scope */
    int var_count;
};

/* `file` is only for messages.  NULL when the text does not parse; `d` says why. */
struct ptx_module *ptx_parse(struct arena *a, const char *file, const char *text,
                             size_t bytes, struct diags *d);
/* For the module's own .target.  False when something was reported. */
bool ptx_check(const struct ptx_module *m, struct diags *d);

const struct ptx_func *ptx_find_func(const struct ptx_module *m, const char *name);
bool ptx_has(const struct ptx_insn *i, enum ptx_mod mod);
int ptx_type_bits(enum ptx_type t);
const char *ptx_op_spelling(enum ptx_op op);
const char *ptx_type_spelling(enum ptx_type t);
const char *ptx_mod_spelling(enum ptx_mod m);

/* One row of ptx_ops.def, for `gen ops` and the checker. */
struct ptx_op_info {
    const char *spelling; /* "mbarrier.try_wait" */
    int isa;              /* lowest .version, times ten */
    uint32_t needs;       /* enum target_feature, 0: every target */
    const char *mods;     /* allowed dot parts, see ptx_ops.def */
    const char *operands; /* see ptx_ops.def */
    bool emulated;
};
const struct ptx_op_info *ptx_op_info(enum ptx_op op);

#endif
