// Tensor core: a warp's product of two factors in bf16, summed in f32; and what brings factors there: copies to
// shared memory that run beside a block's work, and reads of fragments from it.
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

// Transposes [8, 8] numbers of 16 bits: lane 4 g + t has [g][2t] and [g][2t + 1].
__device__ __forceinline__ uint32_t transposed(uint32_t x)
{
#ifdef __CUDACC__
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
#else
    return simt::movmatrix(x);
#endif
}

// Four matrices of [8, 8] numbers of 16 bits from shared memory, each as mma's fragments have them, or transposed.
// Lane 8 i + j names row j of matrix i, 16 bytes.
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const unsigned char *row)
{
#ifdef __CUDACC__
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
#else
    simt::ldmatrix<TRANSPOSED>(to, row);
#endif
}

// Begins a copy of 16 bytes to shared memory, or of zeros. copies_wait ends it for the thread that began it.
__device__ __forceinline__ void copy_async(unsigned char *to, const void *from, bool there)
{
    MOVED(there ? 16 : 0);
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#else
    simt::copy_async(to, from, there);
#endif
}
// Closes the group of the copies begun since the last call.
__device__ __forceinline__ void copies_commit()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    simt::copies_commit();
#endif
}
// Waits for all groups but the last LEFT.
template <int LEFT> __device__ __forceinline__ void copies_wait()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#else
    simt::copies_wait(LEFT);
#endif
}

// Brings the line of 128 bytes that holds this address into the L2 cache.
__device__ __forceinline__ void prefetch(const void *at)
{
#ifdef __CUDACC__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#else
    (void)at;
#endif
}
