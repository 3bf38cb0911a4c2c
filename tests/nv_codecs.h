/* nv_codecs.h - NVIDIA's host conversions (cuda_fp4.h, cuda_fp8.h, cuda_bf16.h), where
 * they are there.  nv_codecs_none.c stands in for them elsewhere. */
#ifndef FP4GEN_NV_CODECS_H
#define FP4GEN_NV_CODECS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

bool nv_available(void); /* false: the others must not be called */
unsigned nv_e2m1_encode(float x);
float nv_e2m1_decode(unsigned code);
unsigned nv_e4m3_encode(float x);
float nv_e4m3_decode(unsigned byte);
unsigned nv_e5m2_encode(float x);
unsigned nv_ue8m0_encode_up(float x);
unsigned nv_ue8m0_encode_down(float x);
float nv_ue8m0_decode(unsigned byte);
unsigned nv_bf16_encode(float x);

#ifdef __cplusplus
}
#endif
#endif
