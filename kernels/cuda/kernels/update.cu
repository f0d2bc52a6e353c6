// Updates of weights, in one pass over memory each (kernels/device/update.h):
//     adamw  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//            w = (before w - rate (unbias1 m) / (sqrt(unbias2 v) + epsilon)) after     (Loshchilov & Hutter 2019)
//     sgd    g' = g + decay w;  m = momentum m + g';  w = keep w - rate m
// adamw_coded: the same with 8-bit m and v: a block of threads per block of the scales, a word of codes per thread.
// A master, if there is one, is updated in place of w, which becomes the rounded master.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/device/dynamic_map.h"

namespace
{

constexpr int THREADS = 256;

// The updated weights. A: type of the master.
template <class W, class A> struct target {
    W *w;
    A *master;   // NULL: w itself is updated
    bool begins; // initialise the master from w
    struct bf16_rounding rounding;
};

template <int N, class W, class A>
__device__ void read_weights(A (&to)[N], const target<W, A> &from, size_t i, size_t count)
{
    if (from.master && !from.begins)
        read(to, from.master + i, count - i);
    else
        read(to, from.w + i, count - i);
}

// i: a multiple of N, and N of 8, so that the N weights are in one group.
template <int N, class W, class A>
__device__ void write_weights(const target<W, A> &to, A (&from)[N], size_t i, size_t count)
{
    if (to.master)
        write(to.master + i, from, count - i);
    if (to.rounding.stochastic && sizeof(W) == 2) {
        struct rounding_bits bits = rounding_bits(&to.rounding, i / 8);
#pragma unroll
        for (int j = 0; j < N; j++)
            from[j] = stochastic_bf16((float)from[j], &bits, i % 8 + j);
    }
    write(to.w + i, from, count - i);
}

template <class A> struct adamw_constants {
    A beta1, beta2, grad1, grad2, unbias1, unbias2, epsilon, rate, before, after;
};

// G: type of g. M: of m and v.
template <int N, class W, class G, class M, class A>
__global__ void adamw(target<W, A> to, M *m, M *v, const G *g, adamw_constants<A> f, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        A pw[N], pm[N], pv[N], pg[N];
        read_weights(pw, to, i, count);
        read(pm, m + i, count - i);
        read(pv, v + i, count - i);
        read(pg, g + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            pm[j] = f.beta1 * pm[j] + f.grad1 * pg[j];
            pv[j] = f.beta2 * pv[j] + f.grad2 * pg[j] * pg[j];
            pw[j] = pw[j] * f.before - f.rate * (pm[j] * f.unbias1) / (sqrt(pv[j] * f.unbias2) + f.epsilon);
            pw[j] *= f.after;
        }
        write_weights(to, pw, i, count);
        write(m + i, pm, count - i);
        write(v + i, pv, count - i);
    }
}

constexpr int CODES = 4, CODERS = MAP_BLOCK / CODES; // of a word; threads of a block
constexpr size_t CODER_BLOCKS = 16; // per multiprocessor, because each block computes the levels again

// The maximum over the block's two warps.
__device__ float block_largest(float x)
{
    __shared__ float parts[CODERS / 32];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = fmaxf(parts[0], parts[1]);
    __syncthreads(); // before the next call's parts are written
    return x;
}

template <class A>
__device__ void decode(A (&to)[CODES], const uint32_t *words, const float *scales, const float *levels, size_t i)
{
    uint32_t word = words[i / CODES];
    float scale = scales[i / MAP_BLOCK];
    MOVED(sizeof word + (i % MAP_BLOCK ? 0 : sizeof scale));
#pragma unroll
    for (int j = 0; j < CODES; j++)
        to[j] = (A)levels[word >> 8 * j & 0xff] * (A)scale;
}

// from: 0 from element `count` on, whose codes are not written.
template <class A>
__device__ void encode(uint32_t *words, float *scales, const float *levels, const A (&from)[CODES], size_t i,
                       size_t count, bool is_signed)
{
    float largest = 0;
#pragma unroll
    for (int j = 0; j < CODES; j++)
        largest = fmaxf(largest, fabsf((float)from[j]));
    largest = block_largest(largest);
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < CODES; j++) {
        float x = largest > 0 ? (float)from[j] / largest : 0;
        uint32_t code = is_signed ? map_nearest_signed(levels, x) : map_nearest(levels, x);
        word |= i + j < count ? code << 8 * j : 0;
    }
    if (i < count) {
        words[i / CODES] = word;
        MOVED(sizeof word);
    }
    if (threadIdx.x == 0) {
        scales[i / MAP_BLOCK] = largest;
        MOVED(sizeof largest);
    }
}

// VECTOR: elements are aligned for word-sized accesses.
template <bool VECTOR, class A, class T>
__device__ void read_word(A (&to)[CODES], const T *from, size_t i, size_t count)
{
    if constexpr (VECTOR) {
        read(to, from + i, i < count ? count - i : 0);
    } else {
#pragma unroll
        for (int j = 0; j < CODES; j++) {
            A one[1];
            read(one, from + i + j, i + j < count ? 1 : 0);
            to[j] = one[0];
        }
    }
}

template <bool VECTOR, class W, class G, class A>
__global__ void adamw_coded(target<W, A> to, uint32_t *m, float *m_scale, uint32_t *v, float *v_scale, const G *g,
                            adamw_constants<A> f, size_t count)
{
    __shared__ float m_levels[MAP_LEVELS], v_levels[MAP_LEVELS];
    for (int code = threadIdx.x; code < MAP_LEVELS; code += CODERS) {
        m_levels[code] = map_level(true, code);
        v_levels[code] = map_level(false, code);
    }
    __syncthreads();
    for (size_t first = blockIdx.x * MAP_BLOCK; first < count; first += gridDim.x * MAP_BLOCK) {
        size_t i = first + threadIdx.x * CODES;
        A pw[CODES], pm[CODES] = {}, pv[CODES] = {}, pg[CODES];
        read_word<VECTOR>(pw, to.w, i, count);
        read_word<VECTOR>(pg, g, i, count);
        if (i < count) {
            decode(pm, m, m_scale, m_levels, i);
            decode(pv, v, v_scale, v_levels, i);
        }
#pragma unroll
        for (int j = 0; j < CODES; j++) {
            bool inside = i + j < count;
            pm[j] = inside ? f.beta1 * pm[j] + f.grad1 * pg[j] : A(0);
            pv[j] = inside ? f.beta2 * pv[j] + f.grad2 * pg[j] * pg[j] : A(0);
            pw[j] = pw[j] * f.before - f.rate * (pm[j] * f.unbias1) / (sqrt(pv[j] * f.unbias2) + f.epsilon);
            pw[j] *= f.after;
        }
        if constexpr (VECTOR) {
            write_weights(to, pw, i < count ? i : count, count);
        } else {
#pragma unroll
            for (int j = 0; j < CODES; j++) {
                A one[1] = {pw[j]};
                if (i + j < count)
                    write_weights(to, one, i + j, count);
            }
        }
        encode(m, m_scale, m_levels, pm, i, count, true);
        encode(v, v_scale, v_levels, pv, i, count, false);
    }
}

template <class A> struct sgd_constants {
    A rate, momentum, decay, keep;
};

template <int N, class W, class G, class M, class A>
__global__ void sgd(target<W, A> to, M *m, const G *g, sgd_constants<A> f, size_t count)
{
    for (size_t i = first_element<N>(); i < count; i += element_stride<N>()) {
        A pw[N], pm[N], pg[N];
        read_weights(pw, to, i, count);
        read(pg, g + i, count - i);
        if (m)
            read(pm, m + i, count - i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            pg[j] += f.decay * pw[j];
            if (m)
                pg[j] += f.momentum * pm[j];
            pw[j] = pw[j] * f.keep - f.rate * pg[j];
        }
        write_weights(to, pw, i, count);
        if (m)
            write(m + i, pg, count - i);
    }
}

// Calls body(target, g, m, N) with the dtypes of w, g and m (v has m's or is no tensor). N: elements per thread.
template <class Body>
void with_types(struct tensor w, struct tensor master, struct tensor g, struct tensor m, struct tensor v,
                bool begins, const struct bf16_rounding &rounding, Body body)
{
    with_type(w.dtype, [&](auto type) {
        using W = typename decltype(type)::type;
        using A = wide_t<W>;
        with_accumulator<W>(g.dtype, w.dtype, [&](auto gradient) {
            using G = typename decltype(gradient)::type;
            with_accumulator<W>(m.dtype, w.dtype, [&](auto moment) {
                using M = typename decltype(moment)::type;
                constexpr int N = LANES<G> < LANES<M> ? LANES<G> : LANES<M>;
                const target<W, A> to = {(W *)w.data, (A *)master.data, begins, rounding};
                size_t count = tensor_count(w);
                with_lanes<N>(aligned(1, count, w, master, g, m, v), // no tensor counts as aligned
                              [&](auto lanes) { body(to, (const G *)g.data, (M *)m.data, lanes); });
            });
        });
    });
}

template <class A> adamw_constants<A> constants_of(const struct adam_step &step)
{
    struct adam_factors f = adam_factors(&step);
    return {
        .beta1 = (A)step.beta1,
        .beta2 = (A)step.beta2,
        .grad1 = (A)(1 - step.beta1),
        .grad2 = (A)(1 - step.beta2),
        .unbias1 = (A)f.unbias1,
        .unbias2 = (A)f.unbias2,
        .epsilon = (A)f.epsilon,
        .rate = (A)f.rate,
        .before = (A)f.before,
        .after = (A)f.after,
    };
}

} // namespace

void cuda_adamw(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
                struct tensor v, const struct adam_step *step)
{
    CHECK(m.dtype == v.dtype);
    size_t count = tensor_count(w);
    with_types(w, master, g, m, v, step->begins, step->rounding, [&](auto to, auto *pg, auto *pm, auto lanes) {
        constexpr int N = decltype(lanes)::value;
        using W = std::remove_pointer_t<decltype(to.w)>;
        using A = std::remove_pointer_t<decltype(to.master)>;
        using G = std::remove_cv_t<std::remove_pointer_t<decltype(pg)>>;
        using M = std::remove_pointer_t<decltype(pm)>;
        launch(adamw<N, W, G, M, A>, blocks_for(count, THREADS * N), THREADS, 0, device, to, pm, (M *)v.data, pg,
               constants_of<A>(*step), count);
    });
}

void cuda_adamw_coded(struct device *device, struct tensor w, struct tensor g, struct coded_moments moments,
                      const struct adam_step *step)
{
    size_t count = tensor_count(w), max = CODER_BLOCKS * device->multiprocessors;
    dim3 grid = blocks_for(count, MAP_BLOCK);
    grid.x = max > 0 && grid.x > max ? max : grid.x;
    with_types(w, tensor_none(), g, g, tensor_none(), step->begins, step->rounding,
               [&](auto to, auto *pg, auto *, auto lanes) {
                   constexpr bool VECTOR = decltype(lanes)::value > 1;
                   using W = std::remove_pointer_t<decltype(to.w)>;
                   using A = std::remove_pointer_t<decltype(to.master)>;
                   using G = std::remove_cv_t<std::remove_pointer_t<decltype(pg)>>;
                   launch(adamw_coded<VECTOR, W, G, A>, grid, CODERS, 0, device, to, (uint32_t *)moments.m.data,
                          (float *)moments.m_scale.data, (uint32_t *)moments.v.data, (float *)moments.v_scale.data,
                          pg, constants_of<A>(*step), count);
               });
}

void cuda_sgd(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
              const struct sgd_step *step)
{
    size_t count = tensor_count(w);
    struct tensor moment = m;
    moment.dtype = m.data ? m.dtype : g.dtype;
    with_types(w, master, g, moment, tensor_none(), step->begins, step->rounding,
               [&](auto to, auto *pg, auto *pm, auto lanes) {
                   constexpr int N = decltype(lanes)::value;
                   using W = std::remove_pointer_t<decltype(to.w)>;
                   using A = std::remove_pointer_t<decltype(to.master)>;
                   using G = std::remove_cv_t<std::remove_pointer_t<decltype(pg)>>;
                   using M = std::remove_pointer_t<decltype(pm)>;
                   const sgd_constants<A> constants = {
                       .rate = (A)step->rate,
                       .momentum = (A)step->momentum,
                       .decay = (A)(step->decoupled ? 0 : step->decay),
                       .keep = (A)(step->decoupled ? 1 - step->rate * step->decay : 1),
                   };
                   launch(sgd<N, W, G, M, A>, blocks_for(count, THREADS * N), THREADS, 0, device, to, pm, pg,
                          constants, count);
               });
}
