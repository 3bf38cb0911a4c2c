#include "core/ptx.h"
#include "gen/verbs.h"

/* "tcgen05" or "-"; rows need one feature, or several of which all are named. */
static void show_needs(uint32_t needs, FILE *out)
{
    if (!needs) {
        fputs("any target", out);
        return;
    }
    const char *comma = "";
    for (uint32_t bit = 1; bit && bit <= needs; bit <<= 1)
        if (needs & bit) {
            fprintf(out, "%s%s", comma, target_feature_name(bit));
            comma = ", ";
        }
}

int verb_ops(FILE *out)
{
    fprintf(out, "%-40s %-8s %-8s needs\n", "instruction", "PTX", "emulated");
    for (int i = 0; i < PTX_OP_COUNT; i++) {
        const struct ptx_op_info *op = ptx_op_info((enum ptx_op)i);
        fprintf(out, "%-40s %d.%-6d %-8s ", op->spelling, op->isa / 10, op->isa % 10,
                op->emulated ? "yes" : "no");
        show_needs(op->needs, out);
        fputc('\n', out);
    }
    return 0;
}
