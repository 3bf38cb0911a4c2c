#include "gen/run_unused.h"

bool run_refuse_unused(const struct run_unused *all, size_t count, const char *op,
                       struct diags *d)
{
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        if (all[i].is_given) {
            diag_add(d, DIAG_FIELD_UNUSED, (struct loc){"gen", 0, 0}, all[i].name, op);
            diag_note(d, loc_none(), "it goes with %s", all[i].with);
            ok = false;
        }
    return ok;
}
