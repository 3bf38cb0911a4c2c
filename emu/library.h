/* library.h - functions that device code calls and that no module has: vprintf and
 * __assertfail. */
#ifndef FP4EMU_LIBRARY_H
#define FP4EMU_LIBRARY_H

#include "emu/machine.h"

/* Refuses names that it does not know. */
bool decode_library_call(struct decoder *d, struct op *o, const char *name);

#endif
