/* module.h - PTX text to functions that can be launched and variables with addresses.
 *
 * The structs have the names that cuda.h gives to what its handles point at.  A module
 * owns one arena and, in the memory registry, its variables. */
#ifndef FP4EMU_MODULE_H
#define FP4EMU_MODULE_H

#include "core/base.h"
#include "emu/device.h"
#include "emu/machine.h"

#define MODULE_PTX_VERSION 90 /* newest .version that ptx_parse knows, times ten */

struct CUmod_st {
    struct arena *arena;
    const struct ptx_module *ptx;
    struct placed_var *vars;      /* .global and .const ones, functions' own included */
    int var_count, visible_count; /* the first are those of module scope */
    struct CUfunc_st *functions;  /* the entries with a body */
    int function_count;
    int max_registers;     /* CU_JIT_MAX_REGISTERS, 0: not given */
    const void *owner;     /* the context or the library that it goes with */
    struct CUmod_st *next; /* of the same context */
};

/* Also what a CUkernel points at: a library's kernel is the function of its module. */
struct CUfunc_st {
    struct CUmod_st *module;
    const struct ptx_func *ptx;
    const struct kernel *kernel;
    uint32_t max_dyn_smem_bytes; /* as set by cuFuncSetAttribute */
    uint32_t cluster[3]; /* required, by .reqnctapercluster or attribute; 0: none */
    bool nonportable_cluster;
    int carveout, scheduling; /* accepted and given back */
};

enum module_result {
    MODULE_OK,
    MODULE_BAD_IMAGE,   /* neither PTX nor another format that is known */
    MODULE_NO_PTX,      /* machine code or a fat binary */
    MODULE_BAD_VERSION, /* .version is newer than MODULE_PTX_VERSION */
    MODULE_BAD_PTX,
    MODULE_BAD_TARGET,   /* for another device */
    MODULE_NOT_EMULATED, /* uses what the emulator does not have */
};

/* Loads NUL-terminated PTX, from this file (NULL: from memory); `max_registers` as
 * CU_JIT_MAX_REGISTERS, 0: no limit.
 * Settles which device this is (device_settle).  `log` receives "line N; error : ..."
 * lines when the result is not MODULE_OK. */
enum module_result module_load(struct CUmod_st **out, const void *image,
                               const void *owner, const char *file, int max_registers,
                               struct buf *log);
void module_unload(struct CUmod_st *m);
struct CUfunc_st *module_find_kernel(struct CUmod_st *m, const char *name);
/* NULL: the module has no such variable. */
const struct placed_var *module_variable(const struct CUmod_st *m, const char *name);

/* Largest block, and 32-bit registers of a thread.  PTX does not say how many registers
 * a kernel needs: .maxnreg or CU_JIT_MAX_REGISTERS if given, else FUNCTION_REGISTERS or
 * what the largest block leaves to each thread. */
#define FUNCTION_REGISTERS 168
int function_max_threads(const struct CUfunc_st *f);
int function_registers(const struct CUfunc_st *f);

#endif
