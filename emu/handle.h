/* handle.h - which pointers are live handles, and of what.
 *
 * Every object that a program gets a handle of is entered here, so that a handle that
 * was destroyed, or is of another kind, is refused without being dereferenced.  Used
 * under the driver's lock. */
#ifndef FP4EMU_HANDLE_H
#define FP4EMU_HANDLE_H

#include <stdbool.h>
#include <stddef.h>

enum handle_kind {
    HANDLE_NONE,
    HANDLE_CONTEXT,
    HANDLE_MODULE,
    HANDLE_FUNCTION, /* CUkernel too: the same object */
    HANDLE_LIBRARY,
    HANDLE_LINK,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
};

bool handle_add(const void *p, enum handle_kind kind); /* false: out of memory */
void handle_drop(const void *p);
enum handle_kind handle_kind(const void *p);
size_t handle_count(void);

#endif
