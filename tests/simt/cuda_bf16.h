// Stands in for CUDA's header: bf16 as its 16 bits, rounded to nearest, ties to even.
#pragma once
extern "C" {
#include "kernels/base/dtype.h"
}

struct __nv_bfloat16 {
    unsigned short bits;
};

inline __nv_bfloat16 __float2bfloat16(float value)
{
    return {dtype_bf16(value)};
}
inline float __bfloat162float(__nv_bfloat16 value)
{
    return dtype_from_bf16(value.bits);
}
