// Fold and unfold: a block of threads per token, whose heads swap places with one another and with the rows of
// other sequences; heads stay contiguous. The logsumexp is so small that its strided writes stay in the cache.
// Added and merged rows belong to some of the batch's sequences.
#include "kernels/cuda/kernels/attention_blocks.h"
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr float LARGE = 1e38f; // a logsumexp that makes every probability 0
using bf16 = __nv_bfloat16;

struct folding {
    unsigned batch, kv_heads, group, head_dim, stride;

    __device__ unsigned cols() const { return kv_heads * group * head_dim; }
    // The operands' row for row `row` of the block's sequences.
    __device__ size_t operand(size_t row) const { return row / batch * stride + row % batch; }
    // The folded tensor's offset for column `col` of row `row`.
    __device__ size_t at(size_t row, unsigned col) const
    {
        unsigned head = col / head_dim, g = head / group, j = head % group;
        size_t t = row / batch, b = row % batch;
        return ((t * group + j) * batch + b) * kv_heads * head_dim + g * head_dim + col % head_dim;
    }
};

// Block (r, i): row r of tensor i.
template <int N>
__global__ void fold(bf16 *to0, const bf16 *from0, bf16 *to1, const bf16 *from1, bf16 *to2, const bf16 *from2,
                     folding f)
{
    bf16 *to = blockIdx.y == 0 ? to0 : blockIdx.y == 1 ? to1 : to2;
    const bf16 *from = blockIdx.y == 0 ? from0 : blockIdx.y == 1 ? from1 : from2;
    for (unsigned col = threadIdx.x * N; col < f.cols(); col += blockDim.x * N) {
        float x[N];
        read(x, from + f.operand(blockIdx.x) * f.cols() + col);
        write(to + f.at(blockIdx.x, col), x);
    }
}

// Block r: row r.
template <int N> __global__ void unfold(bf16 *to, bool accumulate, const float *sum, const bf16 *x, folding f)
{
    for (unsigned col = threadIdx.x * N; col < f.cols(); col += blockDim.x * N) {
        size_t i = f.operand(blockIdx.x) * f.cols() + col;
        float a[N] = {}, b[N] = {}, before[N] = {};
        if (sum)
            read(a, sum + f.at(blockIdx.x, col));
        if (x)
            read(b, x + i);
        if (accumulate)
            read(before, to + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            a[j] += b[j] + before[j];
        write(to + i, a);
    }
}

// Block (., h): head h of every token.
__global__ void fold_logsumexp(float *to, const float *from, size_t rows, size_t first, size_t end, folding f)
{
    size_t row = blockIdx.x * (size_t)THREADS + threadIdx.x, queries = rows / f.batch, t = row / f.batch;
    unsigned g = blockIdx.y / f.group, j = blockIdx.y % f.group;
    float x[1] = {LARGE};
    if (row < rows) {
        if (t >= first && t < end)
            read(x, from + f.operand(row) * f.kv_heads * f.group + blockIdx.y);
        write(to + ((row % f.batch * f.kv_heads + g) * queries + t) * f.group + j, x);
    }
}

// Block (r, i): row r of tensor i.
template <int N, class T>
__global__ void add_rows(T *to0, const bf16 *from0, bf16_rounding rounding0, T *to1, const bf16 *from1,
                         bf16_rounding rounding1, folding f)
{
    size_t row = f.operand(blockIdx.x);
    unsigned cols = f.kv_heads * f.head_dim;
    T *to = (blockIdx.y ? to1 : to0) + row * cols;
    bool stochastic = blockIdx.y ? rounding1.stochastic : rounding0.stochastic;
    const bf16 *from = (blockIdx.y ? from1 : from0) + (size_t)blockIdx.x * f.cols();
    for (unsigned col = threadIdx.x * N; col < cols; col += blockDim.x * N) {
        float sum[N], x[N], heads[N] = {};
        const bf16 *head = from + col / f.head_dim * f.group * f.head_dim + col % f.head_dim;
        for (unsigned j = 0; j < f.group; j++) {
            read(x, head + j * f.head_dim);
#pragma unroll
            for (int i = 0; i < N; i++)
                heads[i] += x[i];
        }
        read(sum, to + col);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += heads[i];
        if (stochastic) {
            uint64_t group = row * key_rounding_groups(cols) + col / KEY_ROUNDING_GROUP;
            struct rounding_bits bits; // choosing between parameters by address would copy both to memory
            if (blockIdx.y)
                bits = rounding_bits(&rounding1, group);
            else
                bits = rounding_bits(&rounding0, group);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] = stochastic_bf16(sum[i], &bits, col % KEY_ROUNDING_GROUP + i);
        }
        write(to + col, sum);
    }
}

// log(exp(a) + exp(b)); -infinity stands for no keys.
template <class A> __device__ A log_sum(A a, A b)
{
    A largest = a > b ? a : b, min = a > b ? b : a;
    return min == -A(INFINITY) ? largest : largest + log1p(exp(min - largest));
}

// A warp per head of a row.
template <int N, class O, class T, class A = wide_t<T>>
__global__ void merge_rows(O *o, A *logsumexp, const T *other_o, const A *other_logsumexp, unsigned parts,
                           bool first, folding f)
{
    unsigned heads = f.kv_heads * f.group;
    size_t other_row = (size_t)blockIdx.x / f.batch * parts * f.batch + blockIdx.x % f.batch;
    for (unsigned h = threadIdx.x / 32; h < heads; h += blockDim.x / 32) {
        size_t head = f.operand(blockIdx.x) * heads + h;
        const A *b = other_logsumexp + other_row * heads + h;
        A a = first ? -A(INFINITY) : logsumexp[head], m = a;
        for (unsigned p = 0; p < parts; p++)
            m = log_sum(m, b[(size_t)p * f.batch * heads]);
        __syncwarp(); // all lanes have read the logsumexp
        for (unsigned d = threadIdx.x % 32 * N; d < f.head_dim; d += 32 * N) {
            A x[N] = {}, y[N];
            if (!first)
                read(x, o + head * f.head_dim + d);
            A factor = m == -A(INFINITY) ? A(0) : exp(a - m);
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] *= factor;
            for (unsigned p = 0; p < parts; p++) {
                size_t other = (size_t)p * f.batch * heads;
                read(y, other_o + (other_row * heads + h + other) * f.head_dim + d);
                factor = m == -A(INFINITY) ? A(0) : exp(b[other] - m);
#pragma unroll
                for (int i = 0; i < N; i++)
                    x[i] += factor * y[i];
            }
            write(o + head * f.head_dim + d, x);
        }
        if (threadIdx.x % 32 == 0) {
            MOVED((parts + (first ? 1 : 2)) * sizeof(A));
            logsumexp[head] = m;
        }
    }
}

// Block r: row r of all parts.
template <int N>
__global__ void repeat_rows(bf16 *to, const bf16 *from, unsigned cols, unsigned batch, unsigned parts)
{
    size_t row = (size_t)blockIdx.x / batch * parts * batch + blockIdx.x % batch;
    for (unsigned col = threadIdx.x * N; col < cols; col += blockDim.x * N) {
        float x[N];
        read(x, from + (size_t)blockIdx.x * cols + col);
        for (unsigned p = 0; p < parts; p++)
            write(to + (row + (size_t)p * batch) * cols + col, x);
    }
}

folding folding_of(struct attention_shape s, size_t stride)
{
    return {(unsigned)s.batch, (unsigned)s.kv_heads, (unsigned)(s.heads / s.kv_heads), (unsigned)s.head_dim,
            (unsigned)stride};
}

} // namespace

void cuda_fold(struct device *device, const struct tensor to[3], const struct tensor from[3],
               struct attention_shape shape, size_t stride)
{
    with_lanes<LANES<bf16>>(
        aligned(LANES<bf16>, shape.head_dim, to[0], to[1], to[2], from[0], from[1], from[2]), [&](auto lanes) {
            launch(fold<decltype(lanes)::value>, dim3(shape.queries * shape.batch, 3), THREADS, 0, device,
                   (bf16 *)to[0].data, (const bf16 *)from[0].data, (bf16 *)to[1].data, (const bf16 *)from[1].data,
                   (bf16 *)to[2].data, (const bf16 *)from[2].data, folding_of(shape, stride));
        });
}

void cuda_unfold(struct device *device, struct tensor to, bool accumulate, struct tensor sum, struct tensor x,
                 struct attention_shape shape, size_t stride)
{
    with_lanes<LANES<bf16>>(aligned(LANES<bf16>, shape.head_dim, to, sum, x), [&](auto lanes) {
        launch(unfold<decltype(lanes)::value>, dim3(shape.queries * shape.batch), THREADS, 0, device,
               (bf16 *)to.data, accumulate, (const float *)sum.data, (const bf16 *)x.data,
               folding_of(shape, stride));
    });
}

void cuda_fold_logsumexp(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                         size_t stride, size_t first, size_t end)
{
    size_t rows = shape.queries * shape.batch;
    launch(fold_logsumexp, dim3(ceil_div(rows, THREADS), shape.heads), THREADS, 0, device, (float *)to.data,
           (const float *)from.data, rows, first, end, folding_of(shape, stride));
}

void cuda_add_keys(struct device *device, const struct tensor to[2], const struct tensor from[2],
                   const struct bf16_rounding rounding[2], struct attention_shape shape, size_t stride)
{
    with_lanes<LANES<bf16>>(aligned(LANES<bf16>, shape.head_dim, to[0], to[1], from[0], from[1]), [&](auto lanes) {
        with_accumulator<bf16>(to[0].dtype, DTYPE_BF16, [&](auto type) {
            using T = typename decltype(type)::type;
            unsigned warps = (unsigned)ceil_div(to[0].cols, 32 * decltype(lanes)::value);
            launch(add_rows<decltype(lanes)::value, T>, dim3(shape.keys * shape.batch, 2),
                   std::min<unsigned>(32 * warps, THREADS), 0, device, (T *)to[0].data, (const bf16 *)from[0].data,
                   rounding[0], (T *)to[1].data, (const bf16 *)from[1].data, rounding[1],
                   folding_of(shape, stride));
        });
    });
}

void cuda_merge_rows(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                     struct tensor other_logsumexp, struct attention_shape shape, size_t stride, size_t parts,
                     bool first)
{
    with_lanes<LANES<bf16>>(aligned(LANES<bf16>, shape.head_dim, o, other_o), [&](auto lanes) {
        launch(merge_rows<decltype(lanes)::value, bf16, bf16>, dim3(shape.queries * shape.batch), THREADS, 0,
               device, (bf16 *)o.data, (float *)logsumexp.data, (const bf16 *)other_o.data,
               (const float *)other_logsumexp.data, (unsigned)parts, first, folding_of(shape, stride));
    });
}

void cuda_repeat_rows(struct device *device, struct tensor to, struct tensor from, struct attention_shape shape,
                      size_t parts)
{
    with_lanes<LANES<bf16>>(aligned(LANES<bf16>, to.cols, to, from), [&](auto lanes) {
        launch(repeat_rows<decltype(lanes)::value>, dim3(shape.queries * shape.batch), THREADS, 0, device,
               (bf16 *)to.data, (const bf16 *)from.data, (unsigned)to.cols, (unsigned)shape.batch, (unsigned)parts);
    });
}

// A batch of one sequence with a key head for each head.
void cuda_attention_merge(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                          struct tensor other_logsumexp)
{
    unsigned heads = o.rows ? (unsigned)(tensor_count(logsumexp) / o.rows) : 1, head_dim = (unsigned)o.cols / heads;
    with_type(other_o.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_accumulator<T>(o.dtype, other_o.dtype, [&](auto sums) {
            using O = typename decltype(sums)::type;
            using A = wide_t<T>;
            with_lanes<LANES<O>>(aligned(LANES<T>, head_dim, o, other_o), [&](auto lanes) {
                launch(merge_rows<lanes.value, O, T>, dim3(o.rows), THREADS, 0, device, (O *)o.data,
                       (A *)logsumexp.data, (const T *)other_o.data, (const A *)other_logsumexp.data, 1, false,
                       folding{1, heads, 1, head_dim, 1});
            });
        });
    });
}
