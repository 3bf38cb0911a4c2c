/* tensor_map.h - the rules of cuTensorMapEncodeTiled, by name.
 *
 * The driver answers any mistake with "invalid argument"; asked here first, each has a
 * message that says which argument, its value and what is allowed.  Rules: cuda.h 13.0,
 * cuTensorMapEncodeTiled, for interleave NONE and element strides of 1. */
#ifndef FP4GEN_RUNTIME_TENSOR_MAP_H
#define FP4GEN_RUNTIME_TENSOR_MAP_H

#include "runtime/fp4gen.h"

fp4gen_status tensor_map_check(const fp4gen_tensor_desc *t, fp4gen_error *err);

#endif
