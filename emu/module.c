#include "emu/module.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/diag.h"
#include "emu/memory.h"

#define CONST_MAX_BYTES 65536
#define REGISTERS_PER_SM 65536
#define MAX_REGISTERS 255
#define MAX_BLOCK_THREADS 1024

PRINTF_LIKE(3, 4)
static void complain(struct buf *log, int line, const char *fmt, ...)
{
    va_list args;
    buf_printf(log, "line %d; error   : ", line);
    va_start(args, fmt);
    buf_vprintf(log, fmt, args);
    va_end(args);
    buf_puts(log, "\n");
}

static void log_diags(struct buf *log, const struct diags *d)
{
    for (const struct diag *g = d->first; g; g = g->next) {
        complain(log, g->loc.line, "%s [%s]", g->text, diag_code_name(g->code));
        for (const struct diag_note *n = g->notes; n; n = n->next)
            buf_printf(log, "line %d; note    : %s\n", n->loc.line, n->text);
    }
}

/* ---- what kind of image it is */

static const char *skip_blanks(const char *s, int *line)
{
    for (;;) {
        if (s[0] == '\n') {
            ++*line;
            s++;
        } else if (s[0] == ' ' || s[0] == '\t' || s[0] == '\r' || s[0] == '\f') {
            s++;
        } else if (s[0] == '/' && s[1] == '/') {
            s += strcspn(s, "\n");
        } else if (s[0] == '/' && s[1] == '*') {
            for (s += 2; s[0] && !(s[0] == '*' && s[1] == '/'); s++)
                *line += s[0] == '\n';
            s += s[0] ? 2 : 0;
        } else {
            return s;
        }
    }
}

/* Is it PTX, and of a version that is known?  The version is looked at here because a
 * text of a later one need not parse, and the caller is to be told why. */
static enum module_result sniff(const char *text, struct buf *log)
{
    if (strncmp(text,
                "\x7f"
                "ELF",
                4) == 0) {
        complain(log, 0, "this is machine code (a cubin); the emulator runs PTX only");
        return MODULE_NO_PTX;
    }
    if (strncmp(text, "\x50\xed\x55\xba", 4) == 0 ||
        strncmp(text, "\xb1\x43\x62\x46", 4) == 0) {
        complain(log, 0, "this is a fat binary; the emulator runs PTX text only");
        return MODULE_NO_PTX;
    }
    int line = 1, major = 0, minor = 0;
    const char *s = skip_blanks(text, &line);
    if (strncmp(s, ".version", 8) != 0) {
        complain(log, line, "PTX begins with .version; this does not");
        return MODULE_BAD_IMAGE;
    }
    if (sscanf(s + 8, "%d.%d", &major, &minor) == 2 &&
        (major > MODULE_PTX_VERSION / 10 || major * 10 + minor > MODULE_PTX_VERSION)) {
        complain(log, line,
                 ".version %d.%d is newer than the emulator, which knows "
                 "PTX up to %d.%d",
                 major, minor, MODULE_PTX_VERSION / 10, MODULE_PTX_VERSION % 10);
        return MODULE_BAD_VERSION;
    }
    return MODULE_OK;
}

static bool check_target(const struct ptx_module *m, struct buf *log)
{
    const struct device *now = device_current();
    const struct device *other = m->target ? device_for(m->target) : NULL;
    if (m->target && (now ? target_runs_on(m->target, now->cc) : other != NULL))
        return true;
    if (!other)
        complain(log, m->target_line,
                 ".target %s: the emulator has no device for it, "
                 "only sm_90, sm_100, sm_103 and sm_120",
                 m->target_name);
    else
        complain(log, m->target_line,
                 ".target %s does not run on the %s device that is "
                 "emulated; FP4EMU_DEVICE=%s would run it",
                 m->target_name, now->name, other->name);
    return false;
}

/* ---- variables */

static bool is_placed(const struct ptx_var *v)
{
    return v->space == PTX_GLOBAL || v->space == PTX_CONST;
}

static bool place(struct CUmod_st *m, const struct ptx_var *v, struct buf *log)
{
    if (!v->bytes) {
        complain(log, v->line, "variable %s is declared .extern and defined nowhere",
                 v->name);
        return false;
    }
    bool is_const = v->space == PTX_CONST;
    uint64_t address = memory_alloc(is_const ? MEMORY_CONST : MEMORY_GLOBAL, v->bytes,
                                    v->align_bytes ? v->align_bytes : 1, m);
    if (!address) {
        complain(log, v->line, "no memory for the %u bytes of %s", v->bytes, v->name);
        return false;
    }
    memory_label(address, v->name, 0);
    void *p = (void *)(uintptr_t)address;
    if (v->init)
        memcpy(p, v->init, v->bytes);
    else
        memset(p, 0, v->bytes);
    m->vars[m->var_count++] = (struct placed_var){v, address};
    return true;
}

static const struct placed_var *placed(const struct CUmod_st *m,
                                       const struct ptx_var *v)
{
    for (int i = 0; i < m->var_count; i++)
        if (m->vars[i].var == v)
            return &m->vars[i];
    return NULL;
}

/* Fills in the addresses that the initialiser of `p` holds. */
static bool relocate(const struct CUmod_st *m, const struct placed_var *p,
                     struct buf *log)
{
    for (int i = 0; i < p->var->reloc_count; i++) {
        const struct ptx_reloc *r = &p->var->relocs[i];
        const struct placed_var *to = r->var ? placed(m, r->var) : NULL;
        if (!to) {
            complain(log, p->var->line,
                     "initialiser of %s: the address of %s is not "
                     "emulated, only those of .global and .const variables",
                     p->var->name, r->var ? r->var->name : r->func);
            return false;
        }
        uint64_t value = to->address + (uint64_t)r->addend;
        for (uint32_t b = 0; b < r->bytes && b < 8; b++)
            ((uint8_t *)(uintptr_t)p->address)[r->offset_bytes + b] =
                (uint8_t)(value >> (8 * b));
    }
    return true;
}

static bool place_vars(struct CUmod_st *m, struct buf *log)
{
    const struct ptx_module *x = m->ptx;
    uint64_t const_bytes = 0;
    size_t count = (size_t)x->var_count;

    for (int i = 0; i < x->func_count; i++)
        count += (size_t)x->funcs[i]->var_count;
    m->vars = ARENA_ARRAY(m->arena, struct placed_var, count + 1);
    for (int i = 0; i < x->var_count; i++)
        if (is_placed(x->vars[i]) && !place(m, x->vars[i], log))
            return false;
    m->visible_count = m->var_count;
    for (int i = 0; i < x->func_count; i++)
        for (int k = 0; k < x->funcs[i]->var_count; k++)
            if (is_placed(x->funcs[i]->vars[k]) && !place(m, x->funcs[i]->vars[k], log))
                return false;
    for (int i = 0; i < m->var_count; i++) {
        if (!relocate(m, &m->vars[i], log))
            return false;
        if (m->vars[i].var->space == PTX_CONST)
            const_bytes += m->vars[i].var->bytes;
    }
    if (const_bytes > CONST_MAX_BYTES) {
        complain(log, 0, "%llu bytes of .const variables; a module may have %d",
                 (unsigned long long)const_bytes, CONST_MAX_BYTES);
        return false;
    }
    return true;
}

/* ---- functions */

static bool decode(struct CUmod_st *m, struct diags *d)
{
    const struct ptx_module *x = m->ptx;
    m->functions = ARENA_ARRAY(m->arena, struct CUfunc_st, (size_t)x->func_count + 1);
    for (int i = 0; i < x->func_count; i++) {
        const struct ptx_func *f = x->funcs[i];
        if (!f->is_entry || !f->has_body)
            continue;
        struct CUfunc_st *to = &m->functions[m->function_count++];
        to->module = m;
        to->ptx = f;
        to->carveout = -1;
        memcpy(to->cluster, f->reqnctapercluster, sizeof to->cluster);
        to->kernel = kernel_decode(m->arena, x, f, m->vars, m->var_count, d);
    }
    return d->count == 0;
}

static enum module_result load(struct CUmod_st *m, const char *text, const char *file,
                               struct buf *log)
{
    struct diags *d = diags_new(m->arena);
    size_t bytes = strlen(text);

    file = file ? arena_strndup(m->arena, file, strlen(file)) : NULL;
    m->ptx = ptx_parse(m->arena, file, arena_strndup(m->arena, text, bytes), bytes, d);
    if (!m->ptx) {
        log_diags(log, d);
        return MODULE_BAD_PTX;
    }
    if (!check_target(m->ptx, log))
        return MODULE_BAD_TARGET;
    if (!ptx_check(m->ptx, d)) {
        log_diags(log, d);
        return MODULE_BAD_PTX;
    }
    if (!place_vars(m, log))
        return MODULE_BAD_PTX;
    if (!decode(m, d)) {
        log_diags(log, d);
        return MODULE_NOT_EMULATED;
    }
    device_settle(m->ptx->target);
    return MODULE_OK;
}

enum module_result module_load(struct CUmod_st **out, const void *image,
                               const void *owner, const char *file, int max_registers,
                               struct buf *log)
{
    enum module_result r = sniff(image, log);
    if (r != MODULE_OK)
        return r;
    struct arena *a = arena_new();
    struct CUmod_st *m = ARENA_NEW(a, struct CUmod_st);
    m->arena = a;
    m->owner = owner;
    m->max_registers = max_registers;
    r = load(m, image, file, log);
    if (r != MODULE_OK) {
        module_unload(m);
        return r;
    }
    *out = m;
    return MODULE_OK;
}

void module_unload(struct CUmod_st *m)
{
    memory_free_owned(m);
    arena_free(m->arena);
}

/* ---- lookups */

struct CUfunc_st *module_find_kernel(struct CUmod_st *m, const char *name)
{
    for (int i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i].ptx->name, name) == 0)
            return &m->functions[i];
    return NULL;
}

const struct placed_var *module_variable(const struct CUmod_st *m, const char *name)
{
    for (int i = 0; i < m->visible_count; i++)
        if (strcmp(m->vars[i].var->name, name) == 0)
            return &m->vars[i];
    return NULL;
}

int function_max_threads(const struct CUfunc_st *f)
{
    const uint32_t *n = f->ptx->reqntid[0] ? f->ptx->reqntid : f->ptx->maxntid;
    if (!n[0])
        return MAX_BLOCK_THREADS;
    uint64_t threads = (uint64_t)n[0] * (n[1] ? n[1] : 1) * (n[2] ? n[2] : 1);
    return threads < MAX_BLOCK_THREADS ? (int)threads : MAX_BLOCK_THREADS;
}

int function_registers(const struct CUfunc_st *f)
{
    int given = f->ptx->maxnreg ? (int)f->ptx->maxnreg : f->module->max_registers;
    if (given > 0)
        return given < MAX_REGISTERS ? given : MAX_REGISTERS;
    int warps = (function_max_threads(f) + WARP_LANES - 1) / WARP_LANES;
    int most = REGISTERS_PER_SM / (warps * WARP_LANES) / 8 * 8;
    return most < FUNCTION_REGISTERS ? most : FUNCTION_REGISTERS;
}
