// Random normals:  t[i] = mean + deviation * normal(i), rounded to `rounding` and then to t's dtype, by the same
// operations as on the host (kernels/base/random.h).
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;

__device__ double rounded(double x, enum dtype dtype)
{
    return dtype == DTYPE_BF16  ? (double)__bfloat162float(__float2bfloat16((float)x))
           : dtype == DTYPE_F32 ? (double)(float)x
                                : x;
}

template <int N, class T>
__global__ void draw(T *t, struct random random, double mean, double deviation, enum dtype rounding, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        double x[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = rounded(fma(deviation, random_normal(&random, i + j), mean), rounding);
        write(t + i, x, count - i);
    }
}

} // namespace

void cuda_random_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                        enum dtype rounding)
{
    CHECK(rounding == DTYPE_F64 || rounding == DTYPE_F32 || rounding == DTYPE_BF16);
    size_t count = tensor_count(t);
    with_type(t.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(1, count, t), [&](auto lanes) {
            launch(draw<lanes.value, T>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device, (T *)t.data,
                   random, mean, deviation, rounding, count);
        });
    });
}
