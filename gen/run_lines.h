/* run_lines.h - lines of PTX that a report of the emulator names, as lines of
 * templates. */
#ifndef FP4GEN_RUN_LINES_H
#define FP4GEN_RUN_LINES_H

#include <stdio.h>

#include "gen/tmpl.h"
#include "runtime/fp4gen.h"

/* Below the report that the launch has left, if it has. */
void run_tell_lines(const fp4gen_device *d, const struct line_map *map, FILE *err);

#endif
