"""A program on cuda.bindings, as it would run on a GPU; test_cuda_bindings.py starts it."""

import ctypes

from cuda.bindings import driver

PTX = b""".version 8.8
.target sm_100f
.address_size 64
.visible .global .u32 total = 3;
.visible .entry add_index(.param .u64 out, .param .u32 add, .param .u8 unused)
{
  .reg .u64 p, o;
  .reg .u32 t, v;
  ld.param.u64 p, [out];
  ld.param.u32 v, [add];
  mov.u32 t, %tid.x;
  mul.wide.u32 o, t, 4;
  add.u64 p, p, o;
  add.u32 v, v, t;
  st.global.u32 [p], v;
  ret;
}
"""


def ok(result):
    """The values of a call that must not fail."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, driver.cuGetErrorName(code)
    return values[0] if len(values) == 1 else values


def refused_ptx():
    log = bytearray(1000)
    option = driver.CUjit_option
    code, _ = driver.cuModuleLoadDataEx(
        PTX.replace(b"mul.wide", b"mul.wild"), 2,
        [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
        [log, len(log)])
    assert code == driver.CUresult.CUDA_ERROR_INVALID_PTX
    assert log.startswith(b"line 12; error"), bytes(log)


def main():
    ok(driver.cuInit(0))
    assert ok(driver.cuDriverGetVersion()) >= 13020
    device = ok(driver.cuDeviceGet(0))
    major = ok(driver.cuDeviceGetAttribute(
        driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    assert major == 10
    assert b"sm_100" in ok(driver.cuDeviceGetName(100, device))
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    ok(driver.cuCtxSetCurrent(context))
    refused_ptx()

    module = ok(driver.cuModuleLoadData(PTX))
    function = ok(driver.cuModuleGetFunction(module, b"add_index"))
    address, size = ok(driver.cuModuleGetGlobal(module, b"total"))
    assert size == 4
    total = bytearray(4)
    ok(driver.cuMemcpyDtoH(total, address, 4))
    assert total[0] == 3

    stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    start = ok(driver.cuEventCreate(0))
    end = ok(driver.cuEventCreate(0))
    out = ok(driver.cuMemAlloc(128))
    params = ((out, 5, 1), (None, ctypes.c_uint32, ctypes.c_uint8))
    ok(driver.cuEventRecord(start, stream))
    ok(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, 0))
    ok(driver.cuEventRecord(end, stream))
    ok(driver.cuStreamSynchronize(stream))
    assert ok(driver.cuEventElapsedTime(start, end)) >= 0
    words = bytearray(128)
    ok(driver.cuMemcpyDtoH(words, out, len(words)))
    assert list(memoryview(words).cast("I")) == list(range(5, 37))

    # One warp too many writes behind the allocation.
    ok(driver.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, params, 0))
    code, = driver.cuStreamSynchronize(stream)
    assert code == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    ok(driver.cuDevicePrimaryCtxReset(device))
    print("done")


main()
