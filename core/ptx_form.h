/* ptx_form.h - the columns `forms` and `operands` of ptx_ops.def, read once.
 *
 * Only the checker includes this. */
#ifndef FP4GEN_PTX_FORM_H
#define FP4GEN_PTX_FORM_H

#include "core/ptx.h"

/* A part of an opcode that is no type: a modifier, or a number of .v or .x. */
enum {
    PART_V1 = PTX_MOD_COUNT, /* .v2 is PART_V1 + 1, .v4 + 2 */
    PART_X1 = PART_V1 + 4,   /* .x1, .x2 + 1 ... .x128 + 7 */
    PART_COUNT = PART_X1 + 8,
};

/* One of several parts, or types. */
struct ptx_group {
    const uint16_t *any; /* `count` of them */
    int count;
    bool optional;
};

struct ptx_spec_alt {
    char kind;          /* see ptx_ops.def */
    enum ptx_type type; /* r.u32 */
    uint8_t position;   /* r2: the second type; 0: as the kind says */
    bool wide, wider;   /* rw, d+ */
};

/* What may stand at one operand. */
struct ptx_spec {
    struct ptx_spec_alt alts[3];
    int alt_count;
    bool optional;
    const uint16_t *when; /* only and always with one of these modifiers */
    int when_count;
};

struct ptx_form {
    int isa; /* 0: as the family */
    uint32_t needs;
    const struct ptx_group *groups, *types;
    int group_count, type_count;
    const struct ptx_spec *specs;
    int spec_count;
};

/* The forms of a family, in the order of the table. */
const struct ptx_form *ptx_forms(enum ptx_op op, int *count);

enum ptx_misfit {
    MISFIT_NONE,
    MISFIT_TYPES, /* no form has these types */
    MISFIT_PART,  /* `part` is not allowed beside the rest */
    MISFIT_LACKS, /* one of `group` is missing */
};

struct ptx_fit {
    enum ptx_misfit misfit;
    const struct ptx_form *form; /* the one that fits, or the one that comes closest */
    int part;                    /* PART */
    const struct ptx_group *group; /* LACKS */
};

/* Which form of its family an instruction has.  Of several that fit, the one that
 * `rank` likes best. */
typedef int ptx_rank_fn(const void *context, const struct ptx_insn *insn,
                        const struct ptx_form *form);
struct ptx_fit ptx_fit(const struct ptx_insn *insn, ptx_rank_fn *rank,
                       const void *context);
/* ".rn", ".v4": without the dot, in the arena when it must be made. */
const char *ptx_part_spelling(struct arena *a, int part);

#endif
