// RMSNorm (Zhang & Sennrich 2019) and LayerNorm without a bias, by row. With c = x - mean(x) of LayerNorm, c = x
// else:
//   forward:   rstd = 1 / sqrt(mean(c^2) + epsilon), y = c * rstd * (offset + gain).  y may be x.
//   backward:  u = grad_y * (offset + gain);  grad_x = or += rstd * (u - mean(u) - c * rstd^2 * mean(u * c)), of
//              RMSNorm without mean(u);  grad_gain += sum over rows of grad_y * c * rstd.  Without accumulate
//              grad_x may be x or grad_y.
// A short row is processed by one warp, a long one by a block of eight. Its threads hold it in registers until its
// sum is known; rows too long for that, and all rows on `unfused` devices, are read again.
#include "kernels/cuda/kernels/columns.cuh"

namespace
{

constexpr int BLOCK_WARPS = 8;
constexpr size_t SHORT_ROW = 1024; // elements
constexpr int HELD = 4;            // accesses to a row that a thread holds in registers

// The row of this thread's warp or block; below, the thread's first column.
template <int WARPS> __device__ size_t row_index()
{
    return WARPS == 1 ? (size_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / 32 : blockIdx.x;
}
template <int WARPS> __device__ unsigned row_lane()
{
    return threadIdx.x % (WARPS * 32);
}

// Calls body(column, n) for a thread's accesses to a row, each of N elements from a column on. HELD 0: any number.
template <int N, int WARPS, int HELD, class Body> __device__ __forceinline__ void along_row(size_t cols, Body body)
{
    constexpr size_t STEP = WARPS * 32 * N;
    size_t column = row_lane<WARPS>() * N;
    if constexpr (HELD > 0) {
#pragma unroll
        for (int n = 0; n < HELD; n++, column += STEP)
            if (column < cols)
                body(column, n);
    } else {
        for (; column < cols; column += STEP)
            body(column, 0);
    }
}

// A thread's elements of a row, read on first use and then held as stored, or read again.
template <int N, int HELD, class T> struct looked_at {
    const T *row;
    pack<T, N> held[HELD > 0 ? HELD : 1];
    __device__ explicit looked_at(const T *row) : row(row) {}
    __device__ __forceinline__ void first(wide_t<T> (&to)[N], size_t column, int n)
    {
        held[n] = load<N>(row + column);
        widen(to, held[n]);
    }
    __device__ __forceinline__ void again(wide_t<T> (&to)[N], size_t column, int n) const
    {
        if constexpr (HELD > 0)
            widen(to, held[n]);
        else
            read(to, row + column);
    }
};

// A norm's factors, from a column on; gain NULL: 1.
template <int N, class T>
__device__ __forceinline__ void factors(wide_t<T> (&to)[N], const T *gain, wide_t<T> offset, size_t column)
{
    if (gain)
        read(to, gain + column);
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = gain ? offset + to[i] : wide_t<T>(1);
}

// A row's rstd and its mean, which is 0 if not centred.
template <class A> struct statistics {
    A scale, mean;
    __device__ statistics(const A *rstd, bool centred, size_t row)
        : scale(rstd[centred ? 2 * row : row]), mean(centred ? rstd[2 * row + 1] : A(0))
    {
    }
};

template <int N, int WARPS, int HELD, class T>
__global__ void forward(T *y, wide_t<T> *rstd, const T *x, const T *gain, struct norm_shape shape, size_t rows,
                        size_t cols)
{
    using A = wide_t<T>;
    size_t row = row_index<WARPS>();
    if (row >= rows)
        return;
    looked_at<N, HELD, T> xs(x + row * cols);
    A sum = 0, mean = 0;
    if (shape.centred) {
        along_row<N, WARPS, HELD>(cols, [&](size_t j, int n) {
            A v[N];
            xs.first(v, j, n);
#pragma unroll
            for (int i = 0; i < N; i++)
                mean += v[i];
        });
        mean = warps_sum<WARPS>(mean) / (A)cols;
    }
    along_row<N, WARPS, HELD>(cols, [&](size_t j, int n) {
        A v[N];
        xs.first(v, j, n);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum += (v[i] - mean) * (v[i] - mean);
    });
    A scale = A(1) / sqrt(warps_sum<WARPS>(sum) / (A)cols + (A)shape.epsilon);
    along_row<N, WARPS, HELD>(cols, [&](size_t j, int n) {
        A v[N], g[N];
        xs.again(v, j, n);
        factors(g, gain, (A)shape.offset, j);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = (v[i] - mean) * (scale * g[i]);
        write(y + row * cols + j, v);
    });
    if (rstd && row_lane<WARPS>() == 0) {
        rstd[shape.centred ? 2 * row : row] = scale;
        if (shape.centred)
            rstd[2 * row + 1] = mean;
    }
}

template <int N, int WARPS, int HELD, class T>
__global__ void backward(T *grad_x, bool accumulate, const T *grad_y, const T *x, const T *gain,
                         struct norm_shape shape, const wide_t<T> *rstd, size_t rows, size_t cols)
{
    using A = wide_t<T>;
    size_t row = row_index<WARPS>();
    if (row >= rows)
        return;
    looked_at<N, HELD, T> xs(x + row * cols), grads(grad_y + row * cols);
    A dot = 0, sum = 0;
    const statistics<A> of(rstd, shape.centred, row);
    along_row<N, WARPS, HELD>(cols, [&](size_t j, int n) {
        A v[N], u[N], g[N];
        xs.first(v, j, n);
        grads.first(u, j, n);
        factors(g, gain, (A)shape.offset, j);
#pragma unroll
        for (int i = 0; i < N; i++) {
            dot += u[i] * g[i] * (v[i] - of.mean);
            sum += u[i] * g[i];
        }
    });
    A along = warps_sum<WARPS>(dot) / (A)cols * of.scale * of.scale, shift = 0;
    if (shape.centred)
        shift = warps_sum<WARPS>(sum) / (A)cols;
    along_row<N, WARPS, HELD>(cols, [&](size_t j, int n) {
        A v[N], u[N], g[N], out[N];
        xs.again(v, j, n);
        grads.again(u, j, n);
        factors(g, gain, (A)shape.offset, j);
        if (accumulate)
            read(out, grad_x + row * cols + j);
#pragma unroll
        for (int i = 0; i < N; i++) {
            A gradient = of.scale * (u[i] * g[i] - (v[i] - of.mean) * along - shift);
            out[i] = accumulate ? out[i] + gradient : gradient;
        }
        write(grad_x + row * cols + j, out);
    });
}

template <int N, class T> struct gain_gradient {
    const T *grad_y, *x;
    const wide_t<T> *rstd;
    bool centred;
    size_t cols;
    __device__ void add(wide_t<T> (&sum)[N], size_t row, size_t column) const
    {
        const statistics<wide_t<T>> of(rstd, centred, row);
        wide_t<T> g[N], v[N];
        read(g, grad_y + row * cols + column);
        read(v, x + row * cols + column);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += g[i] * (v[i] - of.mean) * of.scale;
    }
};

// Calls body(N, WARPS, HELD) with constants; the grid follows from WARPS.
template <class T, class Body> void with_row_shape(const struct device *device, size_t cols, bool vector, Body body)
{
    auto with_held = [&](auto elements, auto warps) {
        if (!device->unfused && cols <= (size_t)HELD * warps.value * 32 * elements.value)
            body(elements, warps, std::integral_constant<int, HELD>{});
        else
            body(elements, warps, std::integral_constant<int, 0>{});
    };
    auto with_warps = [&](auto elements) {
        if (cols <= SHORT_ROW)
            with_held(elements, std::integral_constant<int, 1>{});
        else
            with_held(elements, std::integral_constant<int, BLOCK_WARPS>{});
    };
    with_lanes<LANES<T>>(vector, with_warps);
}

dim3 grid_for(size_t rows, int warps)
{
    return dim3(warps == 1 ? ceil_div(rows, BLOCK_WARPS) : rows);
}

} // namespace

void cuda_rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                          struct tensor gain, struct norm_shape shape)
{
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        bool vector = aligned(LANES<T>, x.cols, y, x, gain);
        with_row_shape<T>(device, x.cols, vector, [&](auto elements, auto warps, auto held) {
            launch(forward<elements.value, warps.value, held.value, T>, grid_for(x.rows, warps.value),
                   32 * BLOCK_WARPS, 0, device, (T *)y.data, (wide_t<T> *)rstd.data, (const T *)x.data,
                   (const T *)gain.data, shape, x.rows, x.cols);
        });
    });
}

void cuda_rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                           struct tensor grad_y, struct tensor x, struct tensor gain, struct norm_shape shape,
                           struct tensor rstd)
{
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        bool vector = aligned(LANES<T>, x.cols, grad_x, grad_y, x, gain);
        const T *py = (const T *)grad_y.data, *px = (const T *)x.data;
        const A *pr = (const A *)rstd.data;
        with_row_shape<T>(device, x.cols, vector, [&](auto elements, auto warps, auto held) {
            constexpr int N = elements.value;
            // First, because grad_x may be x or grad_y.
            if (grad_gain.data)
                column_sums<N, T>(device, grad_gain, gain_gradient<N, T>{py, px, pr, shape.centred, x.cols},
                                  x.dtype, x.rows);
            if (grad_x.data)
                launch(backward<N, warps.value, held.value, T>, grid_for(x.rows, warps.value), 32 * BLOCK_WARPS, 0,
                       device, (T *)grad_x.data, accumulate, py, px, (const T *)gain.data, shape, pr, x.rows,
                       x.cols);
        });
    });
}
