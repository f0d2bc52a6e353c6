// Embedding:  y[r] = table[ids[r]];  grad_table[ids[r]] += grad_y[r], rows in order, except the padding id. The
// backward needs no atomics: the first row with a token adds all rows with it, one warp per strip of columns. Rows
// run in slices, one launch each, which keeps the search within a slice short.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr size_t SLICE = 4096; // rows

template <int N, class T> __global__ void forward(T *y, const T *table, const int32_t *ids, size_t cols)
{
    T *to = y + blockIdx.x * cols;
    const T *from = table + ids[blockIdx.x] * cols;
    for (size_t j = threadIdx.x * N; j < cols; j += THREADS * N)
        *reinterpret_cast<pack<T, N> *>(to + j) = *reinterpret_cast<const pack<T, N> *>(from + j);
}

// Block (x, y): row x, strip y of THREADS * N columns. ids, grad_y: a slice of `rows` rows.
template <int N, class G, class T>
__global__ void backward(G *grad_table, const T *grad_y, const int32_t *ids, size_t rows, size_t cols,
                         int32_t padding)
{
    using A = wide_t<G>;
    unsigned lane = threadIdx.x % 32;
    size_t row = blockIdx.x, column = (blockIdx.y * (size_t)THREADS + threadIdx.x) * N;
    if (column - lane * N >= cols)
        return; // the whole warp
    int32_t id = ids[row];
    if (id == padding)
        return; // the whole block
    for (size_t r = 0; r < row; r += 32)
        if (__ballot_sync(0xffffffffu, r + lane < row && ids[r + lane] == id))
            return; // an earlier row adds this one
    bool inside = column < cols;
    G *to = grad_table + id * cols + column;
    A sum[N], g[N];
    read(sum, to, inside ? N : 0);
    for (size_t r = row; r < rows; r += 32) {
        unsigned same = __ballot_sync(0xffffffffu, r + lane < rows && ids[r + lane] == id);
        for (; same; same &= same - 1) {
            read(g, grad_y + (r + (__ffs((int)same) - 1)) * cols + column, inside ? N : 0);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += g[i];
        }
    }
    write(to, sum, inside ? N : 0);
}

} // namespace

void cuda_embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    with_type(y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        launch(aligned(LANES<T>, y.cols, y, table) ? forward<LANES<T>, T> : forward<1, T>, dim3(y.rows), THREADS, 0,
               device, (T *)y.data, (const T *)table.data, (const int32_t *)ids.data, y.cols);
    });
}

void cuda_embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y,
                             struct tensor ids, int32_t padding)
{
    size_t cols = grad_y.cols;
    with_type(grad_y.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_accumulator<T>(grad_table.dtype, grad_y.dtype, [&](auto table_type) {
            using G = typename decltype(table_type)::type;
            constexpr int N = LANES<G>;
            bool vector = aligned(N, cols, grad_table, grad_y);
            size_t strips = ceil_div(cols, THREADS * (vector ? N : 1));
            for (size_t first = 0; first < grad_y.rows; first += SLICE) {
                size_t rows = grad_y.rows - first < SLICE ? grad_y.rows - first : SLICE;
                launch(vector ? backward<N, G, T> : backward<1, G, T>, dim3(rows, strips), THREADS, 0, device,
                       (G *)grad_table.data, (const T *)grad_y.data + first * cols,
                       (const int32_t *)ids.data + first, rows, cols, padding);
            }
        });
    });
}
