#include "runtime/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "runtime/error.h"

fp4gen_status device_enter(const fp4gen_device *dev, fp4gen_error *err)
{
    CUresult r = dev->driver.cuCtxPushCurrent_v2(dev->context);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_NO_DEVICE, r, "making the context",
                         "current");
    return FP4GEN_OK;
}

void device_leave(const fp4gen_device *dev)
{
    CUcontext ours;
    dev->driver.cuCtxPopCurrent_v2(&ours);
}

static int attribute_of(const struct driver *d, CUdevice device, CUdevice_attribute a)
{
    int value = 0;
    return d->cuDeviceGetAttribute(&value, a, device) ? 0 : value;
}

int device_query(const fp4gen_device *dev, CUdevice_attribute attribute)
{
    return attribute_of(&dev->driver, dev->device, attribute);
}

static int cc_of(const struct driver *d, CUdevice device)
{
    return 10 * attribute_of(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           attribute_of(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

int device_cc(const fp4gen_device *dev)
{
    return cc_of(&dev->driver, dev->device);
}

static bool can_run(const struct driver *d, CUdevice device, const struct target *t)
{
    /* The emulator becomes what its first module asks for. */
    return !t || d->emulated || target_runs_on(t, cc_of(d, device));
}

/* The device of that number; for -1 the first that can run `t`, else the first. */
static fp4gen_status choose_device(fp4gen_device *dev, int ordinal,
                                   const struct target *t, fp4gen_error *err)
{
    const struct driver *d = &dev->driver;
    int count = 0;
    CUresult r = d->cuDeviceGetCount(&count);
    if (r)
        return fail_cuda(d, err, FP4GEN_NO_DEVICE, r, "counting devices", NULL);
    if (count == 0 || ordinal >= count || ordinal < -1)
        return fail(err, FP4GEN_NO_DEVICE, ERROR(NO_DEVICE),
                    ordinal == -1 ? 0 : ordinal, d->emulated ? "emulator" : "driver",
                    count);
    int first = ordinal < 0 ? 0 : ordinal, last = ordinal < 0 ? count - 1 : ordinal;
    for (int i = first; i <= last; i++) {
        CUdevice device;
        r = d->cuDeviceGet(&device, i);
        if (r)
            return fail_cuda(d, err, FP4GEN_NO_DEVICE, r, "opening the device", NULL);
        if (i == first || can_run(d, device, t))
            dev->device = device;
        if (can_run(d, device, t))
            break;
    }
    return FP4GEN_OK;
}

static fp4gen_status open_with(fp4gen_device *dev, fp4gen_driver which, int ordinal,
                               const struct target *t, fp4gen_error *err)
{
    fp4gen_status status = driver_open(&dev->driver, which, err);
    if (!status)
        status = choose_device(dev, ordinal, t, err);
    return status;
}

/* The real driver if one of its devices can run the target, else the emulator.  The
 * reason for the emulator is kept: people want to know. */
static fp4gen_status open_auto(fp4gen_device *dev, int ordinal, const struct target *t,
                               fp4gen_error *err)
{
    fp4gen_error why = {0};
    if (open_with(dev, FP4GEN_DRIVER_CUDA, ordinal, t, &why) == FP4GEN_OK) {
        if (can_run(&dev->driver, dev->device, t))
            return FP4GEN_OK;
        char name[128] = "the device";
        dev->driver.cuDeviceGetName(name, sizeof name, dev->device);
        fail(&why, FP4GEN_NO_DEVICE, ERROR(DEVICE_TARGET), name,
             cc_of(&dev->driver, dev->device), t->name, t->runs_on);
    }
    snprintf(dev->note, sizeof dev->note, "%.*s", (int)sizeof dev->note - 1,
             why.status == FP4GEN_NO_DRIVER ? "there is no NVIDIA driver" : why.text);
    fp4gen_status status = open_with(dev, FP4GEN_DRIVER_EMU, ordinal, t, err);
    if (status)
        fail_note(err, "and no GPU: %s", dev->note);
    return status;
}

/* FP4GEN_DRIVER stands in where the program leaves the choice open. */
static fp4gen_status read_environment(fp4gen_driver *which, fp4gen_error *err)
{
    const char *value = getenv("FP4GEN_DRIVER");
    if (!value || !*value || strcmp(value, "auto") == 0)
        *which = FP4GEN_DRIVER_AUTO;
    else if (strcmp(value, "cuda") == 0)
        *which = FP4GEN_DRIVER_CUDA;
    else if (strcmp(value, "emu") == 0)
        *which = FP4GEN_DRIVER_EMU;
    else
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(DRIVER_NAME), value);
    return FP4GEN_OK;
}

fp4gen_status fp4gen_open(fp4gen_device **out, fp4gen_driver driver, int ordinal,
                          const char *target, fp4gen_error *err)
{
    if (!out)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_open");
    *out = NULL;
    const struct target *t = target ? target_find(target) : NULL;
    if (target && !t)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(TARGET_NAME), target);
    if (driver != FP4GEN_DRIVER_AUTO && driver != FP4GEN_DRIVER_CUDA &&
        driver != FP4GEN_DRIVER_EMU)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(DRIVER_VALUE), (int)driver);
    fp4gen_status status = FP4GEN_OK;
    if (driver == FP4GEN_DRIVER_AUTO)
        status = read_environment(&driver, err);
    if (status)
        return status;
    fp4gen_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return fail(err, FP4GEN_OUT_OF_MEMORY, ERROR(HOST_MEMORY), "fp4gen_open");
    status = driver == FP4GEN_DRIVER_AUTO ? open_auto(dev, ordinal, t, err)
                                          : open_with(dev, driver, ordinal, t, err);
    if (!status) {
        CUresult r = dev->driver.cuDevicePrimaryCtxRetain(&dev->context, dev->device);
        if (r)
            status = fail_cuda(&dev->driver, err, FP4GEN_NO_DEVICE, r,
                               "opening the device's context", NULL);
    }
    if (status) {
        free(dev);
        return status;
    }
    *out = dev;
    return FP4GEN_OK;
}

void fp4gen_close(fp4gen_device *dev)
{
    if (!dev)
        return;
    dev->driver.cuDevicePrimaryCtxRelease_v2(dev->device);
    free(dev);
}

void fp4gen_device_get_info(const fp4gen_device *dev, fp4gen_device_info *out)
{
    if (out)
        memset(out, 0, sizeof *out);
    if (!dev || !out)
        return;
    dev->driver.cuDeviceGetName(out->name, sizeof out->name, dev->device);
    out->cc = device_cc(dev);
    out->sm_count = device_query(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->driver_version = dev->driver.version;
    out->emulated = dev->driver.emulated;
    snprintf(out->note, sizeof out->note, "%s", dev->note);
}

void *fp4gen_driver_symbol(const fp4gen_device *dev, const char *name)
{
    return dev && name ? dlsym(dev->driver.library, name) : NULL;
}

fp4gen_status fp4gen_alloc(fp4gen_device *dev, uint64_t *address, size_t bytes,
                           fp4gen_error *err)
{
    if (!dev || !address)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_alloc");
    *address = 0;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUdeviceptr p = 0;
    CUresult r = dev->driver.cuMemAlloc_v2(&p, bytes ? bytes : 1);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_OUT_OF_MEMORY, r,
                         "allocating device memory", NULL);
    *address = p;
    return FP4GEN_OK;
}

fp4gen_status fp4gen_free(fp4gen_device *dev, uint64_t address, fp4gen_error *err)
{
    if (!dev)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_free");
    if (!address)
        return FP4GEN_OK;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemFree_v2(address);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_BAD_ARGUMENT, r,
                         "freeing device memory", NULL);
    return FP4GEN_OK;
}

fp4gen_status fp4gen_upload(fp4gen_device *dev, uint64_t to, const void *from,
                            size_t bytes, fp4gen_error *err)
{
    if (!dev || (bytes && (!to || !from)))
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_upload");
    if (!bytes)
        return FP4GEN_OK;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemcpyHtoD_v2(to, from, bytes);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_BAD_ARGUMENT, r,
                         "copying to the device", NULL);
    return FP4GEN_OK;
}

fp4gen_status fp4gen_download(fp4gen_device *dev, void *to, uint64_t from, size_t bytes,
                              fp4gen_error *err)
{
    if (!dev || (bytes && (!to || !from)))
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_download");
    if (!bytes)
        return FP4GEN_OK;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemcpyDtoH_v2(to, from, bytes);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_LAUNCH_FAILED, r,
                         "copying from the device", NULL);
    return FP4GEN_OK;
}

fp4gen_status fp4gen_fill(fp4gen_device *dev, uint64_t to, unsigned char byte,
                          size_t bytes, fp4gen_error *err)
{
    if (!dev || (bytes && !to))
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_fill");
    if (!bytes)
        return FP4GEN_OK;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemsetD8_v2(to, byte, bytes);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_BAD_ARGUMENT, r,
                         "filling device memory", NULL);
    return FP4GEN_OK;
}

fp4gen_status fp4gen_sync(fp4gen_device *dev, void *stream, fp4gen_error *err)
{
    if (!dev)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT), "fp4gen_sync");
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuStreamSynchronize((CUstream)stream);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_LAUNCH_FAILED, r,
                         "waiting for the kernel", NULL);
    return FP4GEN_OK;
}
