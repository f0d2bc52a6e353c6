// RoPE (Su et al. 2021), in place; angles in f64. Pairs are (j, j + half), Hugging Face's order, or neighbours.
//   (a, b) = gain (a cos - b sin, b cos + a sin), angle = direction position frequency[j]
// A block processes one position: each pair's sine is computed once for all sequences and heads; with documents,
// whose positions differ, one row. An angle's bits depend on the position alone, not on the chunk. The factor of
// queries by position is here, too: a block multiplies one row.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;

// Position of row r, at start + r / batch of the context, in its document.
__device__ size_t position_of(size_t row, size_t start, size_t batch, const int *starts, const int *prefixes)
{
    size_t before = starts ? (size_t)starts[row] : 0;
    return start + row / batch - before + (prefixes && before > 0 ? (size_t)prefixes[row % batch] : 0);
}

// N: numbers read at once, 1 of interleaved pairs. count: heads of a block. Block r has position start + r / batch
// - starts[r], plus the prefix's length; without starts, start + r.
template <int N, class T>
__global__ void rotate(T *x, const double *frequencies, size_t start, size_t batch, const int *starts,
                       const int *prefixes, size_t count, size_t half, rope_shape shape, int direction)
{
    using A = wide_t<T>;
    DYNAMIC_SHARED(shared);
    A *cosines = (A *)shared, *sines = cosines + half; // [half] each
    for (size_t j = threadIdx.x; j < half; j += THREADS) {
        // The angle as a sum of two numbers: rounded to one, it would be off by 1e-11 at position 131,072.
        double position = (double)position_of(blockIdx.x, start, batch, starts, prefixes),
               angle = position * frequencies[j], sine, cosine;
        double rest = fma(position, frequencies[j], -angle);
        sincos(angle, &sine, &cosine);
        cosines[j] = (A)(shape.gain * (cosine - rest * sine));
        sines[j] = (A)(shape.gain * direction * (sine + rest * cosine));
    }
    __syncthreads();
    size_t packs = half / N, step = shape.interleaved ? 2 : 1, apart = shape.interleaved ? 1 : half;
    x += blockIdx.x * count * shape.head_dim;
    for (size_t i = threadIdx.x; i < count * packs; i += THREADS) {
        size_t j = i % packs * N;
        T *at = x + i / packs * shape.head_dim + j * step;
        A low[N], high[N];
        read(low, at);
        read(high, at + apart);
#pragma unroll
        for (int l = 0; l < N; l++) {
            A c = cosines[j + l], s = sines[j + l], a = low[l], b = high[l];
            low[l] = a * c - b * s;
            high[l] = b * c + a * s;
        }
        write(at, low);
        write(at + apart, high);
    }
}

template <class T>
__global__ void scale_rows(T *x, struct position_scale scale, size_t start, size_t batch, const int *starts,
                           const int *prefixes, size_t cols)
{
    using A = wide_t<T>;
    A factor = (A)position_factor(scale, position_of(blockIdx.x, start, batch, starts, prefixes));
    x += blockIdx.x * cols;
    for (size_t j = threadIdx.x; j < cols; j += THREADS) {
        A value[1];
        read(value, x + j);
        value[0] *= factor;
        write(x + j, value);
    }
}

} // namespace

void cuda_rope(struct device *device, struct tensor x, struct tensor frequencies, struct rope_shape shape,
               size_t start, size_t batch, struct documents documents, int direction)
{
    const int *starts = (const int *)documents.device_starts.data;
    size_t half = frequencies.cols, together = starts ? 1 : batch; // rows of a block
    size_t count = together * (x.cols / shape.head_dim);
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        bool together_read = !shape.interleaved && shape.head_dim % N == 0 && aligned(N, half, x);
        launch(together_read ? rotate<N, T> : rotate<1, T>, dim3(x.rows / together), THREADS,
               2 * half * sizeof(wide_t<T>), device, (T *)x.data, (const double *)frequencies.data, start,
               batch / together, starts, (const int *)documents.device_prefixes.data, count, half, shape,
               direction);
    });
}

void cuda_position_scale(struct device *device, struct tensor x, struct position_scale scale, size_t start,
                         size_t batch, struct documents documents)
{
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        launch(scale_rows<T>, dim3(x.rows), THREADS, 0, device, (T *)x.data, scale, start, batch,
               (const int *)documents.device_starts.data, (const int *)documents.device_prefixes.data, x.cols);
    });
}
