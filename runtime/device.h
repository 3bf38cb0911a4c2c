/* device.h - what a fp4gen_device is, for the other files of the runtime. */
#ifndef FP4GEN_RUNTIME_DEVICE_H
#define FP4GEN_RUNTIME_DEVICE_H

#include "runtime/driver.h"

struct fp4gen_device { /* does not change after fp4gen_open, hence thread-safe */
    struct driver driver;
    CUdevice device;
    CUcontext context; /* the device's primary one */
    char note[256];    /* why AUTO took the emulator, or "" */
};

/* Makes the device's context current until device_leave(), which brings back the
 * caller's.  Every call into the driver stands between the two. */
fp4gen_status device_enter(const fp4gen_device *dev, fp4gen_error *err);
void device_leave(const fp4gen_device *dev);

/* 0 when the driver does not know the attribute. */
int device_query(const fp4gen_device *dev, CUdevice_attribute attribute);
int device_cc(const fp4gen_device *dev); /* compute capability times ten */

#endif
