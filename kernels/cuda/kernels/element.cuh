// Element: reads and writes N adjacent numbers of any dtype, and sums over warps and blocks.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

// The type in which numbers of type T are computed and summed.
template <class T> struct wide {
    using type = float;
};
template <> struct wide<double> {
    using type = double;
};
template <class T> using wide_t = typename wide<T>::type;

template <class T> constexpr int LANES = 16 / sizeof(T); // of a 16-byte access

template <class A> __device__ __forceinline__ A widen(double x)
{
    return (A)x;
}
template <class A> __device__ __forceinline__ A widen(float x)
{
    return (A)x;
}
template <class A> __device__ __forceinline__ A widen(__nv_bfloat16 x)
{
    return (A)__bfloat162float(x);
}

template <class A> __device__ __forceinline__ void narrow(double &to, A x)
{
    to = (double)x;
}
template <class A> __device__ __forceinline__ void narrow(float &to, A x)
{
    to = (float)x;
}
template <class A> __device__ __forceinline__ void narrow(__nv_bfloat16 &to, A x)
{
    to = __float2bfloat16((float)x);
}

// A number's soft cap, y = cap tanh(x / cap), and dy / dx at y. Cap 0: y = x.
template <class A> __device__ __forceinline__ A capped(A x, A cap)
{
    return cap > A(0) ? cap * tanh(x / cap) : x;
}
template <class A> __device__ __forceinline__ A cap_slope(A y, A cap)
{
    return cap > A(0) ? (A(1) - y / cap) * (A(1) + y / cap) : A(1);
}

#ifdef __CUDACC__
#define MOVED(bytes)
#else // on the CPU: tests/simt counts
#define MOVED(bytes) simt::moved(bytes)
#endif

// N elements, moved in accesses of up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {
    T at[N];
};

template <int N, class T> __device__ __forceinline__ pack<T, N> load(const T *from)
{
    MOVED(sizeof(T) * N);
    return *reinterpret_cast<const pack<T, N> *>(from);
}

template <int N, class T> __device__ __forceinline__ void store(T *to, const pack<T, N> &from)
{
    MOVED(sizeof(T) * N);
    *reinterpret_cast<pack<T, N> *>(to) = from;
}

template <int N, class A, class T> __device__ __forceinline__ void widen(A (&to)[N], const pack<T, N> &from)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = widen<A>(from.at[i]);
}

// to = from[0 .. N): the `left` remaining numbers, then 0.
template <int N, class A, class T> __device__ __forceinline__ void read(A (&to)[N], const T *from, size_t left = N)
{
    if (left >= N) {
        widen(to, load<N>(from));
    } else {
        MOVED(sizeof(T) * left);
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = (size_t)i < left ? widen<A>(from[i]) : A(0);
    }
}

// to[0 .. N) = from, as many as are left.
template <int N, class A, class T> __device__ __forceinline__ void write(T *to, const A (&from)[N], size_t left = N)
{
    MOVED(sizeof(T) * (left < N ? left : N));
    if (left >= N) {
        pack<T, N> p;
#pragma unroll
        for (int i = 0; i < N; i++)
            narrow(p.at[i], from[i]);
        *reinterpret_cast<pack<T, N> *>(to) = p;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if ((size_t)i < left)
                narrow(to[i], from[i]);
    }
}

// The elements of a thread in a one-dimensional grid: N from the first on, then N a stride further.
template <int N> __device__ __forceinline__ size_t first_element()
{
    return ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
}
template <int N> __device__ __forceinline__ size_t element_stride()
{
    return (size_t)gridDim.x * blockDim.x * N;
}

// Sum over the lanes of a warp, the same bits in each.
template <class A> __device__ __forceinline__ A warp_sum(A x)
{
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

// Sum over WARPS whole warps: a block, unless WARPS is 1.
template <int WARPS, class A> __device__ __forceinline__ A warps_sum(A x)
{
    x = warp_sum(x);
    if (WARPS == 1)
        return x;
    __shared__ A parts[WARPS];
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        x += parts[i];
    __syncthreads(); // before the next sum's parts are written
    return x;
}
