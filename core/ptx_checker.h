/* ptx_checker.h - what the checker's files share; nobody else includes this.
 *
 *   ptx_check.c    the module, targets and versions, which form an opcode has
 *   ptx_match.c    operands against the form's list
 *   ptx_rule.c     what the table cannot say, family by family */
#ifndef FP4GEN_PTX_CHECKER_H
#define FP4GEN_PTX_CHECKER_H

#include "core/ptx_form.h"

/* A distinct opcode of the module, judged once for each number of operands. */
struct checked {
    const char *opcode; /* as ptx_insn.opcode, compared by address; NULL: free */
    int operand_count;
    const struct ptx_form *form; /* NULL: it was reported */
};

struct checker {
    const struct ptx_module *m;
    const struct ptx_func *f;
    struct diags *d;
    struct checked *opcodes;
    uint32_t opcode_count, opcode_slots;
    bool reported[PTX_OP_COUNT];  /* its family's target or version, once */
    const struct ptx_insn *group; /* first tcgen05 of this function with .cta_group */
    int errors;
    bool stopped;
};

/* False always, so that callers can return it. */
bool check_error(struct checker *c, enum diag_code code, int line, int col, ...);
bool check_operand_error(struct checker *c, const struct ptx_insn *insn, int index,
                         const char *expected);

/* Does register or literal type `type` fit where `want` stands?  wider: may be more
 * bits than needed. */
bool ptx_type_agrees(enum ptx_type want, enum ptx_type type, bool wider);
bool match_operands(struct checker *c, const struct ptx_insn *insn,
                    const struct ptx_form *form);
/* Fewest and most operands that the form takes. */
void match_range(const struct ptx_insn *insn, const struct ptx_form *form, int *least,
                 int *most);
bool check_rules(struct checker *c, const struct ptx_insn *insn);

#endif
