/* must.h - memory that has to be there: the emulator cannot go on without it. */
#ifndef FP4EMU_MUST_H
#define FP4EMU_MUST_H

#include <stdlib.h>

static inline void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

#endif
