/* memory.h - what a device address means: every live allocation, found by address.
 *
 * A device address is the host address of its byte, so pointers that the host puts
 * into parameter blocks work unchanged.  Device memory lies in one reserved window,
 * allocations at least MEMORY_GAP_BYTES apart and freed addresses reused last, so that
 * an access which leaves its allocation, or comes after the free, meets nothing.  New
 * memory is filled with MEMORY_POISON: NaN as e4m3, ue8m0, bf16, f16, f32 and f64.
 *
 * Locking: the functions that change the registry are called under the driver's one
 * lock (libcuda.h), which a launch holds from its first to its last instruction.  The
 * lookups take no lock: any number of worker threads of a running launch may call
 * them, and no range appears or goes meanwhile. */
#ifndef FP4EMU_MEMORY_H
#define FP4EMU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_POISON 0xff
#define MEMORY_GAP_BYTES (1u << 20)
#define MEMORY_ALIGN_BYTES 512 /* of every address that memory_alloc returns */

enum memory_kind {
    MEMORY_DEVICE,     /* cuMemAlloc and relatives */
    MEMORY_MANAGED,    /* cuMemAllocManaged: host and kernels */
    MEMORY_HOST,       /* cuMemHostAlloc: page-locked, host and kernels */
    MEMORY_REGISTERED, /* cuMemHostRegister: the program's own memory, borrowed */
    MEMORY_GLOBAL,     /* .global variable of a module */
    MEMORY_CONST,      /* .const variable of a module; kernels only read it */
    MEMORY_PARAM,      /* parameter block of the running launch; kernels only read it */
};

struct allocation {
    uint64_t address, bytes;
    enum memory_kind kind;
    bool writable;     /* by kernels */
    uint32_t flags;    /* of the call that made it: CU_MEMHOSTALLOC_ and so on */
    uint64_t id;       /* never used twice in one process */
    const void *owner; /* context, module or pool: borrowed, compared only */
    const char *name;  /* of a variable, for reports; NULL: none.  Borrowed */
};

/* ---- lookups */

/* The allocation that `address` lies in, NULL: none. */
const struct allocation *memory_find(uint64_t address);
/* Host pointer to [address, address + bytes) when all of it lies in one live allocation
 * (that kernels may write, if `write`); else NULL.  `bytes` 0 is judged as 1. */
uint8_t *memory_at(uint64_t address, uint64_t bytes, bool write);
/* As memory_at, read access, without the pointer. */
bool memory_contains(uint64_t address, uint64_t bytes);
/* For reports, into `text`, which it returns: "4 bytes past the end of the 4096-byte
 * allocation at 0x7f0000000200", "in memory freed before", "read-only variable lut". */
const char *memory_describe(uint64_t address, uint64_t bytes, char *text,
                            size_t text_bytes);
/* Is `address` in the window that device memory is taken from, allocated or not? */
bool memory_is_device_address(uint64_t address);
/* How many live allocations there are, and the i-th in order of address. */
size_t memory_count(void);
const struct allocation *memory_nth(size_t i);

/* ---- changes, under the driver's lock */

/* Poisoned memory (zeroed: HOST); 0 when there is none left.  `align_bytes` is a power
 * of two, at least MEMORY_ALIGN_BYTES is given.  `bytes` is not 0. */
uint64_t memory_alloc(enum memory_kind kind, uint64_t bytes, uint64_t align_bytes,
                      const void *owner);
/* Registers memory of the caller's.  False: it overlaps a live allocation. */
bool memory_add(enum memory_kind kind, const void *host, uint64_t bytes,
                const void *owner);
/* Fields that only reports and attribute queries read. */
void memory_label(uint64_t address, const char *name, uint32_t flags);
/* `address` must be the start of an allocation; false: it is not. */
bool memory_free(uint64_t address);
void memory_free_owned(const void *owner);
/* Bytes of live DEVICE, MANAGED and GLOBAL memory. */
uint64_t memory_used_bytes(void);

#endif
