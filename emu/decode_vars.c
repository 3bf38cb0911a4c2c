/* decode_vars.c - where the variables of a kernel lie.
 *
 * Shared variables that the kernel mentions follow the reserved start of the window,
 * in the order of the text; .extern ones without a size share the dynamic part.  Local
 * variables make up a lane's depot, and .param variables inside bodies the call area.
 * Variables of .global and .const were placed by who loaded the module. */
#include "emu/decode.h"

/* As ptxas has them, of a thread and of a block. */
#define MOST_LOCAL_BYTES (512u * 1024)
#define MOST_SHARED_BYTES (48u * 1024)
#define MOST_CALL_BYTES (1024u * 1024)

static struct var_slot *find_slot(struct decoder *d, const struct ptx_var *var)
{
    for (int i = 0; i < d->var_count; i++)
        if (d->vars[i].var == var)
            return &d->vars[i];
    return NULL;
}

static void add_slot(struct decoder *d, const struct ptx_var *var, enum opnd_base base,
                     uint32_t offset)
{
    if (d->var_count == d->var_cap) {
        int cap = d->var_cap ? d->var_cap * 2 : 32;
        struct var_slot *more = ARENA_ARRAY(d->arena, struct var_slot, (size_t)cap);
        if (d->var_count)
            memcpy(more, d->vars, (size_t)d->var_count * sizeof *more);
        d->vars = more;
        d->var_cap = cap;
    }
    d->vars[d->var_count++] = (struct var_slot){var, base, offset};
}

/* What is too much stays so: no sum wraps round. */
static uint32_t take(uint32_t *end, const struct ptx_var *var)
{
    uint64_t align = var->align_bytes ? var->align_bytes : 1;
    uint64_t offset = (*end + align - 1) / align * align;
    *end =
        (uint32_t)(offset + var->bytes < INT32_MAX ? offset + var->bytes : INT32_MAX);
    return (uint32_t)offset;
}

static bool is_dynamic(const struct ptx_var *var)
{
    return var->space == PTX_SHARED && var->bytes == 0;
}

static void place(struct decoder *d, const struct ptx_var *var)
{
    struct kernel *k = d->kernel;
    if (find_slot(d, var))
        return;
    if (is_dynamic(var)) {
        if (var->align_bytes > k->dyn_smem_align)
            k->dyn_smem_align = var->align_bytes;
    } else if (var->space == PTX_SHARED) {
        uint32_t end = SMEM_RESERVED_BYTES + k->static_smem_bytes;
        uint32_t offset = take(&end, var);
        k->static_smem_bytes = end - SMEM_RESERVED_BYTES;
        add_slot(d, var, BASE_SHARED, offset);
    } else if (var->space == PTX_LOCAL) {
        if (var->align_bytes > d->local_align)
            d->local_align = var->align_bytes;
        add_slot(d, var, BASE_LOCAL, take(&k->local_bytes, var));
    } else if (var->space == PTX_PARAM) {
        add_slot(d, var, BASE_CALL, take(&k->call_bytes, var));
    }
}

static bool is_entry_param(const struct decoder *d, const struct ptx_var *var)
{
    const struct ptx_func *f = d->kernel->func;
    for (int i = 0; i < f->param_count; i++)
        if (f->params[i] == var)
            return true;
    return false;
}

static void place_operand(struct decoder *d, const struct ptx_operand *o)
{
    if (o->var && !is_entry_param(d, o->var))
        place(d, o->var);
    for (int i = 0; i < o->item_count; i++)
        place_operand(d, &o->items[i]);
}

static bool check_sum(struct decoder *d, uint32_t bytes, uint32_t most, const char *who,
                      const char *what)
{
    const struct kernel *k = d->kernel;
    if (bytes <= most)
        return true;
    diag_add(d->diags, DIAG_EMU_FORM, (struct loc){k->module->file, k->func->line, 0},
             k->func->name,
             arena_printf(d->arena, "%s has %u bytes of %s at most, and this takes %u",
                          who, most, what, bytes));
    return false;
}

bool decode_place_vars(struct decoder *d)
{
    for (int u = 0; u < d->unit_count; u++) {
        const struct ptx_func *f = d->units[u].func;
        /* Both sides of a call find parameters here even when no body reads them. */
        for (int i = 0; !f->is_entry && i < f->param_count; i++)
            place(d, f->params[i]);
        for (int i = 0; !f->is_entry && i < f->return_count; i++)
            place(d, f->returns[i]);
        for (int i = 0; i < f->insn_count; i++)
            for (int k = 0; k < f->insns[i].operand_count; k++)
                place_operand(d, &f->insns[i].operands[k]);
    }
    struct kernel *k = d->kernel;
    k->local_bytes =
        align_up(k->local_bytes, d->local_align > 16 ? d->local_align : 16);
    k->call_bytes = align_up(k->call_bytes, 16);
    return check_sum(d, k->local_bytes, MOST_LOCAL_BYTES, "a thread", "local memory") &&
           check_sum(d, k->static_smem_bytes, MOST_SHARED_BYTES, "a block",
                     "static shared memory") &&
           check_sum(d, k->call_bytes, MOST_CALL_BYTES, "a thread",
                     "parameters of functions");
}

uint32_t decode_call_offset(struct decoder *d, const struct ptx_var *var)
{
    place(d, var);
    return find_slot(d, var)->offset;
}

bool decode_var(struct decoder *d, const struct ptx_var *var, struct opnd *out)
{
    out->var = var;
    if (is_entry_param(d, var)) {
        out->base = BASE_PARAM;
        out->imm = var->offset_bytes;
        return true;
    }
    if (is_dynamic(var)) {
        out->base = BASE_SHARED;
        out->imm = kernel_dyn_smem_offset(d->kernel);
        return true;
    }
    const struct var_slot *slot = find_slot(d, var);
    if (slot) {
        out->base = (uint8_t)slot->base;
        out->imm = slot->offset;
        return true;
    }
    for (int i = 0; i < d->placed_count; i++) {
        if (d->placed[i].var == var) {
            out->base = BASE_NONE;
            out->imm = (int64_t)d->placed[i].address;
            return true;
        }
    }
    return false;
}
