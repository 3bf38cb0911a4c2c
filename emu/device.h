/* device.h - what device the emulator pretends to be.
 *
 * Profiles of sm_90, sm_100, sm_103 and sm_120 parts: numbers that programs size their
 * grids and buffers by.  What kernels may do comes from the same architecture's row in
 * core/targets.def. */
#ifndef FP4EMU_DEVICE_H
#define FP4EMU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/target.h"

struct device {
    const char *name; /* "sm_100", as FP4EMU_DEVICE spells it */
    int cc;           /* compute capability times ten */
    const char *part; /* whose numbers these are: "B200" */
    int sm_count;
    uint64_t memory_bytes;
    int smem_per_sm_bytes;
    int threads_per_sm, blocks_per_sm;
    int l2_bytes;
    int clock_khz, memory_clock_khz, bus_bits;
    int max_cluster; /* portable and not */
};

const struct device *device_find(const char *name); /* NULL: no such profile */
const struct device *device_at(size_t i);           /* NULL past the end */
/* The profile that a module for `t` asks for: the one of t's own capability, else the
 * first that runs it.  NULL: none does. */
const struct device *device_for(const struct target *t);
/* The plain row of targets.def with the device's limits. */
const struct target *device_target(const struct device *d);

/* The device that the process has: FP4EMU_DEVICE's, else the one that the first module
 * was for.  NULL: undecided, device_at(0) is shown.  Used under the driver's lock. */
const struct device *device_current(void);
void device_force(const struct device *d);
void device_settle(const struct target *t); /* nothing if it is decided already */

/* Value of a CUdevice_attribute; false: there is no such attribute. */
bool device_attribute(const struct device *d, int attribute, int *value);

#endif
