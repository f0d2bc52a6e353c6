// Elementwise updates, each in one pass over memory: copies between dtypes, sums, scaling, and w = scale *
// level(code), in f32, one word of codes per thread.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 256;
using bf16 = __nv_bfloat16;

template <int N, class D, class S> __global__ void copy(D *dst, const S *src, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        wide_t<S> x[N];
        read(x, src + i, count - i);
        write(dst + i, x, count - i);
    }
}

// N divides cols and both row lengths.
template <int N, class T>
__global__ void copy_columns(T *dst, size_t dst_cols, const T *src, size_t src_cols, size_t cols, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        size_t row = i / cols, col = i % cols;
        wide_t<T> x[N];
        read(x, src + row * src_cols + col, N);
        write(dst + row * dst_cols + col, x, N);
    }
}

// dst, src: the first head's; head: from one head of the wide tensor to the next.
template <int N, class T>
__global__ void copy_heads(T *dst, const T *src, size_t cols, size_t head, unsigned heads, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        T *to = dst + i / cols * heads * head + i % cols;
        wide_t<T> x[N];
        read(x, src + i);
        for (unsigned h = 0; h < heads; h++)
            write(to + h * head, x);
    }
}

template <int N, class D, class S>
__global__ void sum_heads(D *dst, const S *src, size_t cols, size_t head, unsigned heads, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        const S *from = src + i / cols * heads * head + i % cols;
        wide_t<D> before[N], sum[N] = {}, x[N];
        for (unsigned h = 0; h < heads; h++) {
            read(x, from + h * head);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += x[j];
        }
        read(before, dst + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += before[j];
        write(dst + i, sum);
    }
}

template <int N, class D, class S>
__global__ void accumulate(D *dst0, const S *src0, D *dst1, const S *src1, size_t count)
{
    D *dst = blockIdx.y ? dst1 : dst0;
    const S *src = blockIdx.y ? src1 : src0;
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        wide_t<D> sum[N], x[N];
        read(sum, dst + i, count - i);
        read(x, src + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += x[j];
        write(dst + i, sum, count - i);
    }
}

// The same in bf16, rounded by `rounding0` and `rounding1`. N divides a group.
template <int N>
__global__ void accumulate_rounded(bf16 *dst0, const bf16 *src0, bf16_rounding rounding0, bf16 *dst1,
                                   const bf16 *src1, bf16_rounding rounding1, size_t count)
{
    bf16 *dst = blockIdx.y ? dst1 : dst0;
    const bf16 *src = blockIdx.y ? src1 : src0;
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        float sum[N], x[N];
        read(sum, dst + i, count - i);
        read(x, src + i, count - i);
        struct rounding_bits bits; // choosing between parameters by address would copy both to memory
        if (blockIdx.y)
            bits = rounding_bits(&rounding1, i / 8);
        else
            bits = rounding_bits(&rounding0, i / 8);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = stochastic_bf16(sum[j] + x[j], &bits, i % 8 + j);
        write(dst + i, sum, count - i);
    }
}

template <int N, class T> __global__ void scale(T *t, wide_t<T> factor, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        wide_t<T> x[N];
        read(x, t + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] *= factor;
        write(t + i, x, count - i);
    }
}

template <int N, class T> __global__ void scale_by(T *t, const T *factor, size_t count)
{
    wide_t<T> by[1];
    read(by, factor);
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        wide_t<T> x[N];
        read(x, t + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] *= by[0];
        write(t + i, x, count - i);
    }
}

// N: codes per word. A block of weights is whole words. VECTOR: w is written 16 bytes at a time.
template <int N, bool VECTOR, class T>
__global__ void dequantise(T *w, const uint32_t *words, const uint32_t *scales, enum quantisation quantisation,
                           size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        uint32_t word = words[i / N];
        float scale = quantised_scale(quantisation, scales, i), x[N];
        MOVED(sizeof word + (i % weights_per_scale_word(quantisation) ? 0 : sizeof scale));
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = scale * quantised_level(quantisation, word, j);
        if constexpr (VECTOR) {
            write(w + i, x, count - i);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) {
                if (i + j < count) {
                    const float one[1] = {x[j]};
                    write(w + i + j, one);
                }
            }
        }
    }
}

template <int N, class T>
void launch_dequantise(struct device *device, struct tensor w, enum quantisation quantisation, struct tensor codes,
                       struct tensor scales)
{
    size_t count = tensor_count(w);
    launch(aligned(1, count, w) ? dequantise<N, true, T> : dequantise<N, false, T>, blocks_for(count, THREADS * N),
           THREADS, 0, device, (T *)w.data, (const uint32_t *)codes.data, (const uint32_t *)scales.data,
           quantisation, count);
}

} // namespace

void cuda_copy(struct device *device, struct tensor dst, struct tensor src)
{
    size_t count = tensor_count(src);
    with_type(dst.dtype, [&](auto to) {
        with_type(src.dtype, [&](auto from) {
            using D = typename decltype(to)::type;
            using S = typename decltype(from)::type;
            constexpr int N = LANES<D> < LANES<S> ? LANES<D> : LANES<S>;
            with_lanes<N>(aligned(1, count, dst, src), [&](auto lanes) {
                launch(copy<lanes.value, D, S>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device,
                       (D *)dst.data, (S *)src.data, count);
            });
        });
    });
}

void cuda_copy_columns(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t from,
                       size_t cols)
{
    size_t count = dst.rows * cols;
    with_type(dst.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        T *first = (T *)dst.data + to;
        const T *source = (const T *)src.data + from;
        bool vector = to % N == 0 && from % N == 0 && dst.cols % N == 0 && src.cols % N == 0;
        with_lanes<N>(vector && aligned(N, cols, dst, src), [&](auto lanes) {
            launch(copy_columns<lanes.value, T>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device,
                   first, dst.cols, source, src.cols, cols, count);
        });
    });
}

void cuda_copy_heads(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t heads)
{
    size_t count = tensor_count(src), head = dst.cols / heads;
    with_type(dst.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        constexpr int N = LANES<T>;
        with_lanes<N>(to % N == 0 && head % N == 0 && aligned(N, src.cols, dst, src), [&](auto lanes) {
            launch(copy_heads<lanes.value, T>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device,
                   (T *)dst.data + to, (const T *)src.data, src.cols, head, heads, count);
        });
    });
}

void cuda_sum_heads(struct device *device, struct tensor dst, struct tensor src, size_t from, size_t heads)
{
    size_t count = tensor_count(dst), head = src.cols / heads;
    with_type(dst.dtype, [&](auto to) {
        with_type(src.dtype, [&](auto of) {
            using D = typename decltype(to)::type;
            using S = typename decltype(of)::type;
            constexpr int N = LANES<D> < LANES<S> ? LANES<D> : LANES<S>;
            with_lanes<N>(from % N == 0 && head % N == 0 && aligned(N, dst.cols, dst, src), [&](auto lanes) {
                launch(sum_heads<lanes.value, D, S>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device,
                       (D *)dst.data, (const S *)src.data + from, dst.cols, head, heads, count);
            });
        });
    });
}

void cuda_accumulate_each(struct device *device, const struct tensor *dst, const struct tensor *src, size_t count)
{
    struct tensor dst0 = dst[0], src0 = src[0], dst1 = dst[count - 1], src1 = src[count - 1];
    size_t elements = tensor_count(dst0);
    CHECK((count == 1 || count == 2) && tensor_count(dst1) == elements && dst0.dtype == dst1.dtype &&
          src0.dtype == src1.dtype);
    with_type(dst0.dtype, [&](auto to) {
        with_type(src0.dtype, [&](auto from) {
            using D = typename decltype(to)::type;
            using S = typename decltype(from)::type;
            constexpr int N = LANES<D> < LANES<S> ? LANES<D> : LANES<S>;
            bool vector = aligned(1, elements, dst0, src0, dst1, src1);
            dim3 grid = blocks_for(elements, THREADS * (vector ? N : 1));
            launch(vector ? accumulate<N, D, S> : accumulate<1, D, S>, dim3(grid.x, count), THREADS, 0, device,
                   (D *)dst0.data, (const S *)src0.data, (D *)dst1.data, (const S *)src1.data, elements);
        });
    });
}

void cuda_accumulate_rounded(struct device *device, const struct tensor dst[2], const struct tensor src[2],
                             const struct bf16_rounding rounding[2])
{
    size_t count = tensor_count(dst[0]);
    CHECK(dst[0].cols % KEY_ROUNDING_GROUP == 0 && tensor_count(dst[1]) == count && dst[0].dtype == DTYPE_BF16);
    constexpr int N = LANES<bf16>;
    bool vector = aligned(1, count, dst[0], src[0], dst[1], src[1]);
    dim3 grid = blocks_for(count, THREADS * (vector ? N : 1));
    launch(vector ? accumulate_rounded<N> : accumulate_rounded<1>, dim3(grid.x, 2), THREADS, 0, device,
           (bf16 *)dst[0].data, (const bf16 *)src[0].data, rounding[0], (bf16 *)dst[1].data,
           (const bf16 *)src[1].data, rounding[1], count);
}

void cuda_accumulate(struct device *device, struct tensor dst, struct tensor src)
{
    cuda_accumulate_each(device, &dst, &src, 1);
}

void cuda_scale(struct device *device, struct tensor t, double factor)
{
    size_t count = tensor_count(t);
    with_type(t.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(1, count, t), [&](auto lanes) {
            launch(scale<lanes.value, T>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device, (T *)t.data,
                   factor, count);
        });
    });
}

void cuda_scale_by(struct device *device, struct tensor t, struct tensor factor)
{
    size_t count = tensor_count(t);
    with_type(t.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(1, count, t), [&](auto lanes) {
            launch(scale_by<lanes.value, T>, blocks_for(count, THREADS * lanes.value), THREADS, 0, device,
                   (T *)t.data, (const T *)factor.data, count);
        });
    });
}

void cuda_dequantise(struct device *device, struct tensor w, enum quantisation quantisation, struct tensor codes,
                     struct tensor scales)
{
    with_type(w.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        if (codes_per_word(quantisation) == 8)
            launch_dequantise<8, T>(device, w, quantisation, codes, scales);
        else
            launch_dequantise<4, T>(device, w, quantisation, codes, scales);
    });
}
