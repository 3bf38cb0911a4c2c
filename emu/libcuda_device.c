#include "emu/libcuda.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "emu/device.h"

/* There is one device, ordinal 0; which one it is, device.h says. */

static const char bus_id[] = "0000:01:00.0";

static CUresult check(const void *out, CUdevice dev)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return dev == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static int attribute(CUdevice_attribute a)
{
    int value = 0;
    device_attribute(shown_device(), (int)a, &value);
    return value;
}

EXPORTED CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
    CUresult r = check(dev, ordinal);
    if (r == CUDA_SUCCESS)
        *dev = 0;
    return leave(r);
}

EXPORTED CUresult cuDeviceGetCount(int *count)
{
    CUresult r = check(count, 0);
    if (r == CUDA_SUCCESS)
        *count = 1;
    return leave(r);
}

EXPORTED CUresult cuDeviceGetName(char *name, int bytes, CUdevice dev)
{
    CUresult r = check(name, dev);
    if (r == CUDA_SUCCESS && bytes <= 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        snprintf(name, (size_t)bytes, "fp4gen emulator (%s)", shown_device()->name);
    return leave(r);
}

EXPORTED CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    CUresult r = check(uuid, dev);
    if (r == CUDA_SUCCESS) {
        memset(uuid->bytes, 0, sizeof uuid->bytes);
        memcpy(uuid->bytes, "fp4gen emulator", sizeof "fp4gen emulator" - 1);
    }
    return leave(r);
}

EXPORTED CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

EXPORTED CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CUresult r = check(bytes, dev);
    if (r == CUDA_SUCCESS)
        *bytes = (size_t)shown_device()->memory_bytes;
    return leave(r);
}

EXPORTED CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice dev)
{
    CUresult r = check(value, dev);
    if (r == CUDA_SUCCESS && !device_attribute(shown_device(), (int)a, value))
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

EXPORTED CUresult cuDeviceGetProperties(CUdevprop *p, CUdevice dev)
{
    CUresult r = check(p, dev);
    if (r != CUDA_SUCCESS)
        return leave(r);
    *p = (CUdevprop){
        .maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .maxThreadsDim = {attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                          attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                          attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
        .maxGridSize = {attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                        attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                        attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
        .sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        .totalConstantMemory = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        .memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        .regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        .clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    };
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    CUresult r = check(major, dev);
    if (r == CUDA_SUCCESS && !minor)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *major = shown_device()->cc / 10;
        *minor = shown_device()->cc % 10;
    }
    return leave(r);
}

EXPORTED CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice dev)
{
    CUresult r = check(id, dev);
    if (r == CUDA_SUCCESS && bytes <= 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        snprintf(id, (size_t)bytes, "%s", bus_id);
    return leave(r);
}

/* "domain:bus:device.function", of which domain and function may be left out. */
EXPORTED CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    CUresult r = check(dev, 0);
    if (r == CUDA_SUCCESS && !id)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    bool read = sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3;
    if (!read) {
        domain = function = 0;
        read = sscanf(id, "%x:%x.%x", &bus, &device, &function) >= 2;
    }
    if (!read)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (domain != 0 || bus != 1 || device != 0 || function != 0)
        return leave(CUDA_ERROR_INVALID_DEVICE);
    *dev = 0;
    return leave(CUDA_SUCCESS);
}

EXPORTED CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    CUresult r = check(can, dev);
    if (r == CUDA_SUCCESS && peer != 0)
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS)
        *can = 0; /* a device is not its own peer */
    return leave(r);
}

EXPORTED CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute a,
                                          CUdevice from, CUdevice to)
{
    CUresult r = check(value, from);
    (void)a;
    (void)to;
    return leave(r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_DEVICE : r);
}

EXPORTED CUresult cuDeviceGetExecAffinitySupport(int *supported,
                                                 CUexecAffinityType type, CUdevice dev)
{
    CUresult r = check(supported, dev);
    (void)type;
    if (r == CUDA_SUCCESS)
        *supported = 0;
    return leave(r);
}
