// Launch: selects a kernel's types and starts it.
#pragma once
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/kernels.h"
#include <type_traits>

#ifdef __CUDACC__
#include "kernels/cuda/kernels/check.h"
#endif

// Runs kernel<<<grid, block, shared_bytes, stream of the device>>>(arguments...); an empty grid is no launch.
template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), dim3 grid, dim3 block, size_t shared_bytes, struct device *device,
            Argument... arguments)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
        return;
    }
    cudaStream_t stream = cuda_stream(device);
#ifdef __CUDACC__
    cudaError_t error;
    int attempt = 0;
    do {                                  // first launches load the kernel and allocate its stack
        error = shared_bytes > (48 << 10) // larger sizes must be requested
                    ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes)
                    : cudaSuccess;
        if (error == cudaSuccess) {
            kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameter>(arguments)...);
            error = cudaGetLastError();
        }
    } while (error == cudaErrorMemoryAllocation && cuda_make_room(device, attempt++));
    if (error != cudaErrorMemoryAllocation)
        CUDA_CHECK(error);
#else // on the CPU: tests/simt
    (simt::check_argument(arguments), ...);
    simt::ask(stream, grid, block, shared_bytes, [=] { kernel(static_cast<Parameter>(arguments)...); });
#endif
}

// A block's shared memory whose size the launch determines.
#ifdef __CUDACC__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#define DYNAMIC_SHARED(name) unsigned char *name = simt::dynamic_shared
#endif

inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

// For kernels whose threads loop with a stride: a bounded number of blocks.
inline dim3 blocks_for(size_t count, size_t elements_per_block)
{
    size_t blocks = ceil_div(count, elements_per_block);
    return dim3(blocks < 65536 ? blocks : 65536);
}

template <class T> struct type_of {
    using type = T;
};

// Calls body(type_of<T>) for the T of a dtype.
template <class Body> void with_type(enum dtype dtype, Body body)
{
    switch (dtype) {
    case DTYPE_F64:
        return body(type_of<double>{});
    case DTYPE_F32:
        return body(type_of<float>{});
    case DTYPE_BF16:
        return body(type_of<__nv_bfloat16>{});
    default:
        CHECK(!"a dtype that CUDA computes with");
    }
}

// Calls body(type_of<G>) for accumulators of numbers of type T: T itself, or T's wide type.
template <class T, class Body> void with_accumulator(enum dtype dtype, enum dtype narrow, Body body)
{
    CHECK(dtype == narrow || (dtype == DTYPE_F32 && narrow == DTYPE_BF16));
    if (dtype == narrow)
        body(type_of<T>{});
    else
        body(type_of<wide_t<T>>{});
}

// Calls body(N), the elements of a vector access, or body(1), as constants.
template <int N, class Body> void with_lanes(bool vector, Body body)
{
    if (vector)
        body(std::integral_constant<int, N>{});
    else
        body(std::integral_constant<int, 1>{});
}

// Tells whether rows of `cols` elements are aligned for 16-byte accesses.
template <class... Tensor> bool aligned(size_t elements, size_t cols, Tensor... tensors)
{
    return cols % elements == 0 && (... && ((uintptr_t)tensors.data % 16 == 0));
}
