// Updates of weights, in one pass over memory each (kernels/base/update.h):
//     adamw  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//            w = (before w - rate (unbias1 m) / (sqrt(unbias2 v) + epsilon)) after     (Loshchilov & Hutter 2019)
//     sgd    g' = g + decay w;  m = momentum m + g';  w = keep w - rate m
// A master, where there is one, moves in place of w, which becomes the master rounded.
#include "kernels/base/update.h"
#include "kernels/cuda/plugin/element.cuh"
#include "kernels/cuda/plugin/launch.cuh"

namespace
{

constexpr int THREADS = 256;

// The weights that move, A: of the master.
template <class W, class A> struct target {
    W *w;
    A *master; // NULL: w itself moves
    struct weight_rounding rounding;
};

template <int N, class W, class A>
__device__ void read_weights(A (&to)[N], const target<W, A> &from, size_t i, size_t count)
{
    if (from.master)
        read(to, from.master + i, count - i);
    else
        read(to, from.w + i, count - i);
}

// i: a multiple of N, and N of 8, so that the N are of one group.
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

// G: of g. M: of m and v.
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

// body(target, g, m, N): with the dtypes of w, g and m, and v's, which is m's or no tensor; N: elements to a
// thread.
template <class Body>
void with_types(struct tensor w, struct tensor master, struct tensor g, struct tensor m, struct tensor v,
                const struct weight_rounding &rounding, Body body)
{
    with_type(w.dtype, [&](auto type) {
        using W = typename decltype(type)::type;
        using A = wide_t<W>;
        with_accumulator<W>(g.dtype, w.dtype, [&](auto gradient) {
            using G = typename decltype(gradient)::type;
            with_accumulator<W>(m.dtype, w.dtype, [&](auto moment) {
                using M = typename decltype(moment)::type;
                constexpr int N = LANES<G> < LANES<M> ? LANES<G> : LANES<M>;
                const target<W, A> to = {(W *)w.data, (A *)master.data, rounding};
                size_t count = tensor_count(w);
                bool vector = aligned(1, count, w, master, g, m, v); // no tensor is aligned
                if (vector)
                    body(to, (const G *)g.data, (M *)m.data, std::integral_constant<int, N>{});
                else
                    body(to, (const G *)g.data, (M *)m.data, std::integral_constant<int, 1>{});
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
    with_types(w, master, g, m, v, step->rounding, [&](auto to, auto *pg, auto *pm, auto lanes) {
        constexpr int N = decltype(lanes)::value;
        using W = std::remove_pointer_t<decltype(to.w)>;
        using A = std::remove_pointer_t<decltype(to.master)>;
        using G = std::remove_cv_t<std::remove_pointer_t<decltype(pg)>>;
        using M = std::remove_pointer_t<decltype(pm)>;
        launch(adamw<N, W, G, M, A>, blocks_for(count, THREADS * N), THREADS, 0, device, to, pm, (M *)v.data, pg,
               constants_of<A>(*step), count);
    });
}

void cuda_sgd(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
              const struct sgd_step *step)
{
    size_t count = tensor_count(w);
    struct tensor moment = m;
    moment.dtype = m.data ? m.dtype : g.dtype;
    with_types(w, master, g, moment, tensor_none(), step->rounding, [&](auto to, auto *pg, auto *pm, auto lanes) {
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
        launch(sgd<N, W, G, M, A>, blocks_for(count, THREADS * N), THREADS, 0, device, to, pm, pg, constants,
               count);
    });
}
