// Tensor core: a warp's product of two factors in bf16, summed in f32.
#pragma once
#include "kernels/cuda/kernels/element.cuh"

// sum += a * b.  a: [16, 16], b: [16, 8], in PTX's fragments of mma.m16n8k16: lane 4 g + t has two numbers of a row
// each of a[g][2t], a[g + 8][2t], a[g][2t + 8], a[g + 8][2t + 8]; two of a column each of b[2t][g], b[2t + 8][g];
// and sum[g][2t], sum[g][2t + 1], sum[g + 8][2t], sum[g + 8][2t + 1].
__device__ __forceinline__ void mma(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    simt::mma_m16n8k16(sum, a, b);
#endif
}

// x[0] and x[stride] as a fragment has them. Adjacent numbers lie at a multiple of four bytes.
__device__ __forceinline__ uint32_t fragment_pair(const __nv_bfloat16 *x, int stride)
{
    pack<__nv_bfloat16, 2> pair;
    if (stride == 1)
        pair = *reinterpret_cast<const pack<__nv_bfloat16, 2> *>(x);
    else
        pair.at[0] = x[0], pair.at[1] = x[stride];
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
__device__ __forceinline__ uint32_t fragment_pair(const float *x, int stride)
{
    pack<__nv_bfloat16, 2> pair;
    pair.at[0] = __float2bfloat16(x[0]), pair.at[1] = __float2bfloat16(x[stride]);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
