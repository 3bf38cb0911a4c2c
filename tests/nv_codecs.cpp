/* nv_codecs.cpp - NVIDIA's own host conversions as plain C functions.
 *
 * The second opinion of t_ref.c.  The headers are C++ and come with the CUDA toolkit, so
 * this file is built only where g++ and they are there (NV_CODECS in the Makefile). */
#include "tests/nv_codecs.h"

#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

bool nv_available(void)
{
    return true;
}

unsigned nv_e2m1_encode(float x)
{
    return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest) & 15u;
}

float nv_e2m1_decode(unsigned code)
{
    __half_raw raw = __nv_cvt_fp4_to_halfraw(static_cast<__nv_fp4_storage_t>(code & 15u),
                                             __NV_E2M1);
    return __half2float(__half(raw));
}

unsigned nv_e4m3_encode(float x)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

float nv_e4m3_decode(unsigned byte)
{
    __half_raw raw =
        __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(byte), __NV_E4M3);
    return __half2float(__half(raw));
}

unsigned nv_e5m2_encode(float x)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
}

unsigned nv_ue8m0_encode_up(float x)
{
    return __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf);
}

unsigned nv_ue8m0_encode_down(float x)
{
    return __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero);
}

float nv_ue8m0_decode(unsigned byte)
{
    __nv_bfloat16_raw raw =
        __nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(byte));
    return __bfloat162float(__nv_bfloat16(raw));
}

unsigned nv_bf16_encode(float x)
{
    __nv_bfloat16_raw raw = __float2bfloat16_rn(x);
    return raw.x;
}
