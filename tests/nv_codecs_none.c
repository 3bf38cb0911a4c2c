/* nv_codecs_none.c - stands in for nv_codecs.cpp where g++ or NVIDIA's headers are not
 * there; the tests that would ask it are skipped. */
#include "tests/nv_codecs.h"

#include <stdlib.h>

bool nv_available(void)
{
    return false;
}

unsigned nv_e2m1_encode(float x)
{
    (void)x;
    abort();
}

float nv_e2m1_decode(unsigned code)
{
    (void)code;
    abort();
}

unsigned nv_e4m3_encode(float x)
{
    (void)x;
    abort();
}

float nv_e4m3_decode(unsigned byte)
{
    (void)byte;
    abort();
}

unsigned nv_e5m2_encode(float x)
{
    (void)x;
    abort();
}

unsigned nv_ue8m0_encode_up(float x)
{
    (void)x;
    abort();
}

unsigned nv_ue8m0_encode_down(float x)
{
    (void)x;
    abort();
}

float nv_ue8m0_decode(unsigned byte)
{
    (void)byte;
    abort();
}

unsigned nv_bf16_encode(float x)
{
    (void)x;
    abort();
}
