/* fake_libcuda.h - what tests/fake_libcuda.c remembers of the calls it got. */
#ifndef FP4GEN_FAKE_LIBCUDA_H
#define FP4GEN_FAKE_LIBCUDA_H

#include <stdint.h>

struct fake {
    int depth; /* of the context stack: 0 outside the runtime's calls */
    int max_depth;
    int launches, loads, unloads, encodes, retains, releases, memsets;
    uint32_t grid[3], block[3], cluster[3], smem_bytes; /* of the newest launch */
    void *stream;
    unsigned char
        params[1024]; /* its parameters as 8-byte values; maps: first 8 bytes */
    /* newest tensor map */
    uint64_t address, dims[5], strides[4];
    uint32_t box[5];
    int type, rank, swizzle, l2_promotion;
    /* newest 2D memset */
    uint64_t memset_to, memset_pitch, memset_width, memset_height;
    int smem_attribute; /* as set on the function */
};

#endif
