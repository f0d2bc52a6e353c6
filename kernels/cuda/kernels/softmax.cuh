// Softmax: the maximum of a row of logits and the sum of exp(logit - maximum), computed by a block.
#pragma once
#include "kernels/cuda/kernels/element.cuh"
#include <cfloat>

// Maximum and sum of a set of logits.
template <class A> struct softmax {
    A largest, sum;
};

// Joins two sets. The empty set has the lowest number, whose exp(lowest - largest) is 0.
template <class A> __device__ softmax<A> join(softmax<A> a, softmax<A> b)
{
    A largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
}

template <int WARPS, class A> __device__ softmax<A> block_join(softmax<A> x)
{
    __shared__ softmax<A> parts[WARPS];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = join(x, softmax<A>{__shfl_xor_sync(0xffffffffu, x.largest, lanes),
                               __shfl_xor_sync(0xffffffffu, x.sum, lanes)});
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        x = join(x, parts[i]);
    __syncthreads(); // before the next row's parts are written
    return x;
}

template <class A> __device__ A lowest()
{
    return sizeof(A) == 8 ? (A)-DBL_MAX : (A)-FLT_MAX;
}

// Reads N logits, capped.
template <int N, class A, class T> __device__ __forceinline__ void read_logits(A (&x)[N], const T *from, A cap)
{
    read(x, from);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = capped(x[i], cap);
}

// For the elements of a row that this thread reads, N adjacent ones at a time.
template <int N, int THREADS, class T>
__device__ softmax<wide_t<T>> thread_softmax(const T *row, size_t cols, wide_t<T> cap)
{
    using A = wide_t<T>;
    softmax<A> all = {lowest<A>(), 0};
    A x[N];
    for (size_t j = threadIdx.x * N; j < cols; j += THREADS * N) {
        read_logits(x, row + j, cap);
        softmax<A> these = {x[0], 0};
#pragma unroll
        for (int i = 1; i < N; i++)
            these.largest = x[i] > these.largest ? x[i] : these.largest;
        these.largest = these.largest > all.largest ? these.largest : all.largest;
#pragma unroll
        for (int i = 0; i < N; i++)
            these.sum += exp(x[i] - these.largest);
        all = {these.largest, all.sum * exp(all.largest - these.largest) + these.sum};
    }
    return all;
}
