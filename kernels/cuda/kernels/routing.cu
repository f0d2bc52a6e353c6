// Routing of a mixture of experts, forward and backward, a block per token; slots in the experts' order, a block
// per expert; and rows in that order, a warp each, and back. Contracts in kernels/device/device.h, formulas in
// kernels/cpu/real/routing.c.
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace
{

constexpr int THREADS = 128, WARPS = THREADS / 32;

template <class A> __device__ A block_max(A x)
{
    __shared__ A all[THREADS];
    all[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && all[threadIdx.x + half] > all[threadIdx.x])
            all[threadIdx.x] = all[threadIdx.x + half];
        __syncthreads();
    }
    x = all[0];
    __syncthreads();
    return x;
}

// The scores of the block's token, into shared memory.
template <class A> __device__ void scores_of(const struct routing &r, const A *logits, A *scores)
{
    if (r.score == ROUTER_SIGMOID) {
        for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
            scores[e] = A(1) / (A(1) + exp(-logits[e]));
        __syncthreads();
        return;
    }
    A max = logits[0], sum = 0;
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        max = logits[e] > max ? logits[e] : max;
    max = block_max(max);
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        sum += scores[e] = exp(logits[e] - max);
    sum = warps_sum<WARPS>(sum);
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        scores[e] /= sum;
    __syncthreads();
}

// A value and its number, in the order of choices: greater values first, of equal ones the lower number.
template <class A> struct candidate {
    A value;
    size_t number; // the end: none
    __device__ bool before(const candidate &other) const
    {
        return other.number == (size_t)-1 ||
               (number != (size_t)-1 && (value > other.value || (value == other.value && number < other.number)));
    }
};
template <class A> __device__ candidate<A> nobody()
{
    return {A(0), (size_t)-1};
}

// NaN is the greatest value: one that it reaches shows in the loss. Values have one order, so that a token takes as
// many experts as it must, whatever they are.
template <class A> __device__ A comparable(A value)
{
    return value == value ? value : A(INFINITY);
}

// The first of values [0, count) behind `last` (nobody: of all), by one thread.
template <class A> __device__ candidate<A> next_of(const A *values, size_t count, candidate<A> last)
{
    candidate<A> best = nobody<A>();
    for (size_t i = 0; i < count; i++) {
        candidate<A> at = {values[i], i};
        if ((last.number == (size_t)-1 || last.before(at)) && at.before(best))
            best = at;
    }
    return best;
}

// The same by a block; values whose group is outside do not count.
template <class A>
__device__ candidate<A> next_of_block(const A *values, size_t count, candidate<A> last, const bool *within,
                                      size_t group)
{
    __shared__ candidate<A> all[THREADS];
    candidate<A> best = nobody<A>();
    for (size_t i = threadIdx.x; i < count; i += THREADS) {
        candidate<A> at = {values[i], i};
        if (within[i / group] && (last.number == (size_t)-1 || last.before(at)) && at.before(best))
            best = at;
    }
    all[threadIdx.x] = best;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && all[threadIdx.x + half].before(all[threadIdx.x]))
            all[threadIdx.x] = all[threadIdx.x + half];
        __syncthreads();
    }
    best = all[0];
    __syncthreads();
    return best;
}

// Marks the groups that a token chooses within.
template <class A> __device__ void choose_groups(const struct routing &r, const A *values, bool *within)
{
    __shared__ A sums[ROUTING_GROUPS_MAX];
    size_t groups = r.groups ? r.groups : 1, size = r.experts / groups;
    for (size_t g = threadIdx.x; g < groups; g += THREADS) {
        candidate<A> last = nobody<A>();
        within[g] = r.groups == 0;
        sums[g] = 0;
        for (size_t i = 0; i < r.group_best && r.groups; i++) {
            last = next_of(values + g * size, size, last);
            sums[g] += last.value;
        }
        sums[g] = comparable(sums[g]);
    }
    __syncthreads();
    candidate<A> last = nobody<A>();
    for (size_t i = 0; i < r.top_groups && r.groups && threadIdx.x == 0; i++) {
        last = next_of(sums, groups, last);
        within[last.number] = true;
    }
    __syncthreads();
}

template <class A>
__global__ void route(struct routing r, int32_t *choices, A *weights, const A *logits, const A *bias, bool kept)
{
    __shared__ A scores[ROUTING_EXPERTS_MAX], values[ROUTING_EXPERTS_MAX], factor;
    __shared__ bool within[ROUTING_GROUPS_MAX], chosen[ROUTING_EXPERTS_MAX];
    size_t words = routing_words(&r);
    int32_t *row = choices + blockIdx.x * words;
    A *w = weights + blockIdx.x * r.chosen;
    scores_of(r, logits + blockIdx.x * r.experts, scores);
    if (!kept) {
        for (size_t e = threadIdx.x; e < r.experts; e += THREADS) {
            values[e] = comparable(scores[e] + (bias ? bias[e] : A(0)));
            chosen[e] = false;
        }
        for (size_t i = threadIdx.x; i < words; i += THREADS)
            row[i] = 0;
        __syncthreads();
        choose_groups(r, values, within);
        candidate<A> last = nobody<A>();
        for (size_t j = 0; j < r.chosen; j++) {
            last = next_of_block(values, r.experts, last, within, r.groups ? r.experts / r.groups : r.experts);
            if (threadIdx.x == 0)
                chosen[last.number] = true;
        }
        __syncthreads();
        for (size_t e = 0, j = 0; e < r.experts && threadIdx.x == 0; e++)
            if (chosen[e])
                routing_choose(&r, row, j++, e);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        A sum = (A)r.added;
        for (size_t j = 0; j < r.chosen; j++)
            sum += scores[routing_choice(&r, row, j)];
        factor = (A)r.scale;
        if (r.normalised)
            factor /= sum > (A)r.least ? sum : (A)r.least;
    }
    __syncthreads();
    for (size_t j = threadIdx.x; j < r.chosen; j += THREADS)
        w[j] = scores[routing_choice(&r, row, j)] * factor;
}

template <class A> __device__ A logsumexp_of(const A *logits, size_t experts)
{
    A max = logits[0], sum = 0;
    for (size_t e = threadIdx.x; e < experts; e += THREADS)
        max = logits[e] > max ? logits[e] : max;
    max = block_max(max);
    for (size_t e = threadIdx.x; e < experts; e += THREADS)
        sum += exp(logits[e] - max);
    return max + log(warps_sum<WARPS>(sum));
}

__device__ struct routing with_score(struct routing routing, bool softmax)
{
    routing.score = softmax ? ROUTER_SOFTMAX : routing.score;
    return routing;
}

// Writes the block's token's share of the losses in the gradient of its logits. totals: of its sequence.
template <class A>
__device__ void losses_of(const struct routing &r, struct router_terms terms, const double *totals, A repeats,
                          const A *logits, A *grad)
{
    __shared__ A p[ROUTING_EXPERTS_MAX];
    A tokens = terms.balance != 0 ? A(totals[2 * r.experts]) : A(0);
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        grad[e] = 0;
    if (terms.z != 0) {
        A factor = 2 * A(terms.z) * repeats * logsumexp_of(logits, r.experts);
        scores_of(with_score(r, true), logits, p);
        for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
            grad[e] = factor * p[e];
        __syncthreads();
    }
    if (tokens > 0) {
        struct routing of_p = with_score(r, terms.softmax);
        bool softmax = of_p.score == ROUTER_SOFTMAX;
        A scale = A(terms.balance) * repeats / tokens, sum = 0, dot = 0;
        scores_of(of_p, logits, p);
        for (size_t e = threadIdx.x; e < r.experts; e += THREADS) {
            sum += p[e];
            dot += p[e] * scale * A(totals[e]);
        }
        sum = warps_sum<WARPS>(sum);
        dot = warps_sum<WARPS>(dot);
        sum = softmax ? A(1) : sum;
        for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
            grad[e] += p[e] / sum * (softmax ? A(1) : A(1) - p[e]) * (scale * A(totals[e]) - dot / sum);
    }
    __syncthreads();
}

template <class A>
__global__ void route_back(struct routing r, A *logits, const int32_t *choices, const A *grad_weights,
                           struct router_terms terms, const double *totals, size_t sequences,
                           const int32_t *repeats)
{
    __shared__ A scores[ROUTING_EXPERTS_MAX], of_losses[ROUTING_EXPERTS_MAX], mean, below, of_scores;
    const int32_t *row = choices + blockIdx.x * routing_words(&r);
    const A *g = grad_weights + blockIdx.x * r.chosen;
    A *z = logits + blockIdx.x * r.experts, scale = (A)r.scale;
    bool losses = terms.balance != 0 || terms.z != 0;
    if (losses)
        losses_of(r, terms, totals + (totals ? blockIdx.x % sequences * router_totals(&r) : 0),
                  repeats ? A(repeats[blockIdx.x]) : A(1), z, of_losses);
    scores_of(r, z, scores);
    if (threadIdx.x == 0) {
        A sum = (A)r.added, dot = 0;
        for (size_t j = 0; j < r.chosen; j++) {
            A s = scores[routing_choice(&r, row, j)];
            sum += s;
            dot += g[j] * s;
        }
        bool bounded = sum <= (A)r.least;
        below = !r.normalised ? A(1) : bounded ? (A)r.least : sum;
        mean = !r.normalised || bounded ? A(0) : dot / sum;
        of_scores = 0;
        for (size_t j = 0; j < r.chosen; j++)
            of_scores += scale * (g[j] - mean) / below * scores[routing_choice(&r, row, j)];
    }
    __syncthreads();
    bool softmax = r.score == ROUTER_SOFTMAX;
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        z[e] = (losses ? of_losses[e] : A(0)) + (softmax ? -scores[e] * of_scores : A(0));
    __syncthreads();
    for (size_t j = threadIdx.x; j < r.chosen; j += THREADS) {
        size_t e = routing_choice(&r, row, j);
        A grad = scale * (g[j] - mean) / below;
        z[e] += softmax ? scores[e] * grad : grad * scores[e] * (A(1) - scores[e]);
    }
}

// By row: what its p are divided by, or is subtracted in their exponent; and logsumexp^2.
template <class A> __global__ void sum_rows(struct routing r, A *sums, const A *logits)
{
    const A *z = logits + blockIdx.x * r.experts;
    A logsumexp = logsumexp_of(z, r.experts), sum = 0;
    for (size_t e = threadIdx.x; e < r.experts; e += THREADS)
        sum += A(1) / (A(1) + exp(-z[e]));
    sum = warps_sum<WARPS>(sum);
    if (threadIdx.x > 0)
        return;
    sums[2 * blockIdx.x] = r.score == ROUTER_SOFTMAX ? logsumexp : sum;
    sums[2 * blockIdx.x + 1] = logsumexp * logsumexp;
}

// Which of a token's choices an expert is; `chosen`: none.
__device__ size_t choice_of(const struct routing &r, const int32_t *row, size_t expert)
{
    size_t found = r.chosen;
#pragma unroll 4
    for (size_t j = 0; j < r.chosen; j++)
        found = routing_choice(&r, row, j) == expert ? j : found;
    return found;
}

// Totals of an expert, and behind the last expert those of tokens, of a sequence.
template <class A>
__global__ void sum_totals(struct routing r, double *totals, const int32_t *choices, const A *logits, const A *sums,
                           const int32_t *repeats, size_t tokens)
{
    size_t e = blockIdx.x, sequences = gridDim.y;
    bool all = e == r.experts;
    double count = 0, sum = 0;
    for (size_t t = blockIdx.y + threadIdx.x * sequences; t < tokens; t += THREADS * sequences) {
        double times = repeats ? repeats[t] : 1;
        if (all) {
            count += times;
            sum += times * (double)sums[2 * t + 1];
            continue;
        }
        A z = logits[t * r.experts + e], of = sums[2 * t];
        count += choice_of(r, choices + t * routing_words(&r), e) < r.chosen ? times : 0;
        sum += times * (double)(r.score == ROUTER_SOFTMAX ? exp(z - of) : A(1) / (A(1) + exp(-z)) / of);
    }
    count = warps_sum<WARPS>(count);
    sum = warps_sum<WARPS>(sum);
    if (threadIdx.x > 0)
        return;
    totals += blockIdx.y * router_totals(&r);
    totals[all ? 2 * r.experts : e] += count;
    totals[all ? 2 * r.experts + 1 : r.experts + e] += sum;
}

constexpr unsigned PLACERS = 1024;

// Sums of a number of each warp: over the warps before this one, and over all of the block.
struct warp_sums {
    int before, all;
};
__device__ warp_sums sum_warps(int of_warp)
{
    __shared__ int parts[PLACERS / 32];
    unsigned warp = threadIdx.x / 32;
    __syncthreads(); // the last ones have been read
    if (threadIdx.x % 32 == 0)
        parts[warp] = of_warp;
    __syncthreads();
    warp_sums sums = {0, 0};
    for (unsigned i = 0; i < blockDim.x / 32; i++) {
        sums.before += i < warp ? parts[i] : 0;
        sums.all += parts[i];
    }
    return sums;
}

// An expert's first row, as many as choices are of experts before it; then its tokens in order, a thread each.
__global__ void place_slots(struct routing r, int32_t *rows, int32_t *slots, int32_t *starts,
                            const int32_t *choices, size_t tokens)
{
    size_t words = routing_words(&r), expert = blockIdx.x;
    int before = 0, lane = threadIdx.x % 32;
    for (size_t t = threadIdx.x; t < tokens; t += blockDim.x) {
#pragma unroll 4
        for (size_t j = 0; j < r.chosen; j++)
            before += routing_choice(&r, choices + t * words, j) < expert;
    }
    int next = sum_warps(warp_sum(before)).all;
    if (threadIdx.x == 0) {
        starts[expert] = next;
        starts[r.experts] = (int32_t)(tokens * r.chosen);
    }
    for (size_t first = 0; first < tokens; first += blockDim.x) {
        size_t t = first + threadIdx.x, j = t < tokens ? choice_of(r, choices + t * words, expert) : r.chosen;
        unsigned mine = __ballot_sync(0xffffffffu, j < r.chosen);
        warp_sums sums = sum_warps(__popc(mine));
        int row = next + sums.before + __popc(mine & ((1u << lane) - 1));
        next += sums.all;
        if (j < r.chosen) {
            rows[t * r.chosen + j] = row;
            slots[row] = (int32_t)(t * r.chosen + j);
        }
    }
}

constexpr int AHEAD = 4; // reads of a thread that are underway at a time

// A warp per row.
template <int N, class T>
__global__ void gather(T *dst, const T *src, const int32_t *slots, size_t chosen, size_t rows, size_t cols)
{
    size_t row = blockIdx.x * (size_t)WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    src += slots[row] / chosen * cols;
    dst += row * cols;
    for (size_t column = threadIdx.x % 32 * N; column < cols; column += AHEAD * 32 * N) {
        pack<T, N> x[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (column + i * 32 * N < cols)
                x[i] = load<N>(src + column + i * 32 * N);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (column + i * 32 * N < cols)
                store(dst + column + i * 32 * N, x[i]);
    }
}

// Rows of some of a token's slots are underway at a time, and are added in order.
template <int N, class T>
__global__ void scatter(wide_t<T> *dst, const T *src, const int32_t *rows, const wide_t<T> *weights, size_t chosen,
                        size_t first, size_t count, size_t cols)
{
    size_t column = (blockIdx.y * (size_t)THREADS + threadIdx.x) * N;
    if (column >= cols)
        return;
    wide_t<T> sum[N], x[AHEAD][N], weight[AHEAD], *to = dst + blockIdx.x * cols + column;
    bool there[AHEAD];
    read(sum, to);
    for (size_t j = 0; j < chosen; j += AHEAD) {
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ahead++) {
            size_t slot = blockIdx.x * chosen + j + ahead;
            size_t row = j + ahead < chosen ? (size_t)rows[slot] - first : count;
            there[ahead] = row < count;
            weight[ahead] = there[ahead] && weights ? weights[slot] : wide_t<T>(1);
            read(x[ahead], src + row * cols + column, there[ahead] ? N : 0);
        }
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ahead++)
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] = there[ahead] ? sum[i] + weight[ahead] * x[ahead][i] : sum[i];
    }
    write(to, sum);
}

} // namespace

void cuda_route_forward(struct device *device, struct routing routing, struct tensor choices, struct tensor weights,
                        struct tensor logits, struct tensor bias, bool kept)
{
    with_type(logits.dtype, [&](auto type) {
        using A = typename decltype(type)::type;
        if constexpr (std::is_same_v<A, wide_t<A>>)
            launch(route<A>, dim3(logits.rows), THREADS, 0, device, routing, (int32_t *)choices.data,
                   (A *)weights.data, (const A *)logits.data, (const A *)bias.data, kept);
    });
}

void cuda_route_backward(struct device *device, struct routing routing, struct tensor logits, struct tensor choices,
                         struct tensor grad_weights, struct router_terms terms, struct tensor totals,
                         struct tensor repeats)
{
    with_type(logits.dtype, [&](auto type) {
        using A = typename decltype(type)::type;
        if constexpr (std::is_same_v<A, wide_t<A>>)
            launch(route_back<A>, dim3(logits.rows), THREADS, 0, device, routing, (A *)logits.data,
                   (const int32_t *)choices.data, (const A *)grad_weights.data, terms, (const double *)totals.data,
                   totals.rows, (const int32_t *)repeats.data);
    });
}

void cuda_route_count(struct device *device, struct routing routing, struct tensor totals, struct tensor choices,
                      struct tensor logits, bool softmax, struct tensor repeats, struct tensor row_sums)
{
    routing.score = softmax ? ROUTER_SOFTMAX : routing.score;
    with_type(logits.dtype, [&](auto type) {
        using A = typename decltype(type)::type;
        if constexpr (std::is_same_v<A, wide_t<A>>) {
            launch(sum_rows<A>, dim3(logits.rows), THREADS, 0, device, routing, (A *)row_sums.data,
                   (const A *)logits.data);
            launch(sum_totals<A>, dim3(routing.experts + 1, totals.rows), THREADS, 0, device, routing,
                   (double *)totals.data, (const int32_t *)choices.data, (const A *)logits.data,
                   (const A *)row_sums.data, (const int32_t *)repeats.data, logits.rows);
        }
    });
}

void cuda_permute_slots(struct device *device, struct routing routing, struct tensor rows, struct tensor slots,
                        struct tensor starts, struct tensor choices)
{
    size_t threads = 32 * ceil_div(choices.rows, 32);
    launch(place_slots, dim3(routing.experts), threads < PLACERS ? threads : PLACERS, 0, device, routing,
           (int32_t *)rows.data, (int32_t *)slots.data, (int32_t *)starts.data, (const int32_t *)choices.data,
           choices.rows);
}

void cuda_gather_slots(struct device *device, struct tensor dst, struct tensor src, struct tensor slots,
                       size_t chosen, size_t first)
{
    with_type(dst.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        with_lanes<LANES<T>>(aligned(LANES<T>, dst.cols, dst, src), [&](auto lanes) {
            launch(gather<lanes.value, T>, dim3(ceil_div(dst.rows, WARPS)), THREADS, 0, device, (T *)dst.data,
                   (const T *)src.data, (const int32_t *)slots.data + first, chosen, dst.rows, dst.cols);
        });
    });
}

void cuda_scatter_slots(struct device *device, struct tensor dst, struct tensor src, struct tensor rows,
                        struct tensor weights, size_t first)
{
    with_type(src.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        with_lanes<LANES<A>>(aligned(LANES<T>, dst.cols, dst, src), [&](auto lanes) {
            launch(scatter<lanes.value, T>, dim3(dst.rows, ceil_div(dst.cols, THREADS * lanes.value)), THREADS, 0,
                   device, (A *)dst.data, (const T *)src.data, (const int32_t *)rows.data, (const A *)weights.data,
                   rows.cols, first, src.rows, dst.cols);
        });
    });
}
