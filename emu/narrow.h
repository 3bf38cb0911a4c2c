/* narrow.h - cvt of packed 16-, 8-, 6- and 4-bit formats. */
#ifndef FP4EMU_NARROW_H
#define FP4EMU_NARROW_H

#include "emu/machine.h"

bool decode_narrow(struct decoder *d, struct op *o);

#endif
