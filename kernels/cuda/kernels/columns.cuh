// Columns: grad[j] += sum over rows of term(row, j), in two passes of fixed order. First every block sums one slice
// of the rows over one strip of columns into scratch; then the slices are added. Fewer strips get more slices, to
// fill the card; the number depends on the shape.
#pragma once
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

constexpr int COLUMN_WARPS = 8;
constexpr size_t COLUMN_SLICES = 64, COLUMN_BLOCKS = 512, COLUMN_SLICE_ROWS = 64;

// partial: [slices, cols]. Block (x, y): strip x of 32 N columns, slice y. Warp w adds rows w, w + COLUMN_WARPS,
// ... of its slice; term.add(sum, row, column) adds N terms.
template <int N, class A, class Term>
__global__ void column_slices(A *partial, Term term, size_t rows, size_t cols, size_t slice_rows)
{
    __shared__ A sums[COLUMN_WARPS][32 * N];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t column = ((size_t)blockIdx.x * 32 + lane) * N;
    size_t first = blockIdx.y * slice_rows, end = first + slice_rows < rows ? first + slice_rows : rows;
    A sum[N] = {};
    if (column < cols)
        for (size_t row = first + warp; row < end; row += COLUMN_WARPS)
            term.add(sum, row, column);
#pragma unroll
    for (int i = 0; i < N; i++)
        sums[warp][i * 32 + lane] = sum[i];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * N; i += blockDim.x) {
        A total = sums[0][i];
        for (int w = 1; w < COLUMN_WARPS; w++)
            total += sums[w][i];
        size_t to = ((size_t)blockIdx.x * 32 + i % 32) * N + i / 32;
        if (to < cols)
            partial[blockIdx.y * cols + to] = total;
    }
}

// to = or += the slices' sum, for 32 columns. Warp w adds slices w, w + COLUMN_WARPS, ...; then the warps' sums are
// added in order.
template <class G, class A>
__device__ void sum_slices(G *to, bool accumulate, const A *partial, size_t cols, size_t slices, size_t block)
{
    __shared__ A sums[COLUMN_WARPS][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t column = block * 32 + lane;
    A sum = 0;
    if (column < cols)
        for (size_t slice = warp; slice < slices; slice += COLUMN_WARPS)
            sum += partial[slice * cols + column];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= cols)
        return;
    for (int w = 1; w < COLUMN_WARPS; w++)
        sum += sums[w][lane];
    narrow(to[column], accumulate ? widen<A>(to[column]) + sum : sum);
}

template <class G, class A> __global__ void add_slices(G *grad, const A *partial, size_t cols, size_t slices)
{
    sum_slices(grad, true, partial, cols, slices, blockIdx.x);
}

// term: adds N columns at once of type T, which `dtype` names.
template <int N, class T, class Term>
void column_sums(struct device *device, struct tensor grad, Term term, enum dtype dtype, size_t rows)
{
    using A = wide_t<T>;
    size_t cols = grad.cols, room = CUDA_SCRATCH_BYTES / (cols * sizeof(A)), strips = ceil_div(cols, 32 * N);
    CHECK(room > 0);
    size_t slices = COLUMN_BLOCKS / strips > COLUMN_SLICES ? COLUMN_BLOCKS / strips : COLUMN_SLICES;
    slices = slices < room ? slices : room;
    size_t wanted = ceil_div(rows, COLUMN_SLICE_ROWS);
    slices = slices < wanted ? slices : wanted;
    if (slices == 0)
        return;
    size_t slice_rows = ceil_div(rows, slices);
    slices = ceil_div(rows, slice_rows);
    launch(column_slices<N, A, Term>, dim3(strips, slices), 32 * COLUMN_WARPS, 0, device,
           (A *)cuda_workspace(device, cuda_stream(device)), term, rows, cols, slice_rows);
    with_accumulator<T>(grad.dtype, dtype, [&](auto type) {
        using G = typename decltype(type)::type;
        launch(add_slices<G, A>, dim3(ceil_div(cols, 32)), 32 * COLUMN_WARPS, 0, device, (G *)grad.data,
               (const A *)cuda_workspace(device, cuda_stream(device)), cols, slices);
    });
}
