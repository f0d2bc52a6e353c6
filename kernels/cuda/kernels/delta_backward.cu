// The gated delta rule's backward, by blocks; formulas in kernels/cpu/real/delta.c, contract in
// kernels/device/device.h. Four passes: states and E from left to right (delta.cu); gradients of states, of E and
// of v from right to left, by slices of a value's columns; then those of q, k, decay and beta, all blocks at once,
// a key head's value heads in order; at last q and k go back through their norms.
#include "kernels/cuda/kernels/delta_tile.cuh"

namespace
{

using namespace delta;

template <class T> struct gradients {
    using A = wide_t<T>;
    T *grad_qkv;
    A *grad_decay, *grad_beta, *grad_state, *grad_base;
    const T *grad_o;
    const A *state, *base;
    workspace<A> kept;
};

template <class F> constexpr size_t states_shared(size_t key_dim)
{
    return (F::state_size(key_dim) + F::SQUARE + F::SOLVE) * sizeof(typename F::A) +
           4 * F::SIZE * sizeof(typename F::X);
}

static_assert(states_shared<form<__nv_bfloat16, true>>(DELTA_DIM_MAX) + sizeof(rows<float>) <= 99 << 10,
              "a block of sm_86 has room for the longest heads on tensor cores");

template <class F> constexpr size_t blocks_shared()
{
    return F::SQUARE * sizeof(typename F::A) + (3 * F::SIZE + 2 * F::WIDTH * F::STRIDE) * sizeof(typename F::X);
}

// dU in registers becomes dR; dE's rows are left in e. m: strictly lower.
template <class F>
__device__ void solve_back(value_part<F> &u, typename F::X *e, const typename F::A *m, const typename F::A *beta)
{
    using A = typename F::A;
#pragma unroll
    for (int i = ROWS - 1; i >= 0; i--) // a thread's row i is row j once
#pragma unroll 1
        for (int j = (i + 1) * SIDE - 1; j >= i * SIDE; j--) {
            if (side_y() + i * SIDE == j)
#pragma unroll
                for (int n = 0; n < F::COLUMNS; n++)
                    e[j * F::STRIDE + side_x() + n * SIDE] = beta[j] * u.at[i * F::COLUMNS + n];
            __syncthreads();
            each(u, [&](int row, int column, A &x) {
                if (row < j)
                    x -= m[j * F::SQUARE_STRIDE + row] * e[j * F::STRIDE + column];
            });
        }
    __syncthreads();
}

template <class F>
__global__ void __launch_bounds__(THREADS, 1) grad_states(rule<typename F::T> r, gradients<typename F::T> g)
{
    using A = typename F::A;
    using X = typename F::X;
    constexpr int STRIDE = F::STRIDE, STATE_STRIDE = F::STATE_STRIDE, SQUARE_STRIDE = F::SQUARE_STRIDE;
    DYNAMIC_SHARED(shared);
    __shared__ rows<A> of;
    size_t head = blockIdx.x, b = head / r.shape.heads, h = head % r.shape.heads, key_head = r.key_head(h);
    size_t key_dim = r.shape.key_dim, columns = r.shape.value_dim, first = blockIdx.y * F::WIDTH;
    A *state = (A *)shared; // its gradient
    A *square = state + F::state_size(key_dim), *scratch = square + F::SQUARE;
    X *q = (X *)(scratch + F::SOLVE), *k = q + F::SIZE, *e = k + F::SIZE, *o = e + F::SIZE;
    A *base = g.grad_base ? g.grad_base + head * key_dim * columns : nullptr;
    A *own = g.grad_state + head * key_dim * columns;
    block at = {r.sequence(b), 0, 0};
    load_state<F>(state, (const A *)own, first, key_dim, columns);
    for (size_t end = at.s.tokens; end > 0; end = at.begin) {
        at.begin = delta_block_begin(&at.s, end - 1);
        at.count = (int)(end - at.begin);
        bool ends = run_ends(&at.s, end - 1), ends_prefix = base && run_ends_prefix(&at.s, end - 1);
        for (size_t i = side_y(); ends_prefix && i < key_dim; i += SIDE)
            for (int j = side_x(); j < F::WIDTH; j += SIDE)
                if (first + j < columns)
                    state[i * STATE_STRIDE + j] += base[i * columns + first + j];
        if (!ends)
            store_state<F>(g.kept.grad_state(head, end), state, first, key_dim, columns);
        load_norms(of, r, at, key_head, true);
        load_gates<F>(of, square, r, at, h);
        load_slice<F>(o, (const A *)nullptr, at.count, first, columns,
                      [&](int i) { return g.grad_o + (at.row(i) * r.shape.heads + h) * columns; });
        square_part<F> kk, qk;
        value_part<F> u;
        for (size_t j = 0; j < key_dim; j += F::WIDTH) {
            int terms = (int)(key_dim - j < F::WIDTH ? key_dim - j : F::WIDTH);
            load_slice<F>(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            load_slice<F>(q, of.q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
            __syncthreads();
            add_product(kk, k, STRIDE, 1, k, 1, STRIDE, terms);
            add_product(qk, q, STRIDE, 1, k, 1, STRIDE, terms);
            add_product(u, k, STRIDE, 1, state + j * STATE_STRIDE, STATE_STRIDE, 1, terms);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < kk.COUNT; i++) { // D becomes P, and K K^T M
            A *d = &square[kk.row(i) * SQUARE_STRIDE + kk.column(i)];
            kk.at[i] *= *d;
            *d *= qk.at[i];
        }
        each(u, [&](int i, int, A &x) { x *= of.tail[i]; });
        __syncthreads();
        add_product(u, square, 1, SQUARE_STRIDE, o, STRIDE, 1, at.count);
        __syncthreads();
        each(kk, [&](int i, int j, A &x) { square[i * SQUARE_STRIDE + j] = i > j ? x : A(0); });
        __syncthreads();
        if constexpr (F::TENSOR)
            solve_blocks<F, true>(u, e, square, of.beta, scratch);
        else
            solve_back(u, e, square, of.beta);
        each(u, [&](int i, int j, A &x) {
            if (i < at.count && first + j < columns) {
                g.kept.grad_error(head, at.begin + i)[first + j] = x;
                narrow(g.grad_qkv[at.row(i) * r.columns + r.v_column(h) + first + j], of.beta[i] * x);
            }
            narrow(e[i * STRIDE + j], -of.kept[i] * of.beta[i] * x);
            narrow(o[i * STRIDE + j], of.kept[i] * widen<A>(o[i * STRIDE + j]));
        });
        bool begins = run_begins(&at.s, at.begin), continues = base && run_continues(&at.s, at.begin);
        for (size_t j = 0; j < key_dim; j += F::WIDTH) {
            load_slice<F>(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            load_slice<F>(q, of.q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
            __syncthreads();
            state_part<F> sum;
            add_product(sum, q, 1, STRIDE, o, STRIDE, 1, at.count);
            add_product(sum, k, 1, STRIDE, e, STRIDE, 1, at.count);
            each(sum, [&](int i, int n, A &x) {
                size_t row = j + i, column = first + n;
                if (row >= key_dim || column >= columns)
                    return;
                A *to = state + row * STATE_STRIDE + n;
                A grad = of.kept[at.count - 1] * *to + x;
                *to = begins ? A(0) : grad;
                if (continues)
                    base[row * columns + column] += grad;
            });
            __syncthreads();
        }
    }
    store_state<F>(own, state, first, key_dim, columns);
}

// The gradient of the state behind a block, whole; NULL: 0.
template <class T> __device__ const wide_t<T> *grad_behind(const gradients<T> &g, const block &b, size_t head)
{
    size_t last = b.begin + b.count - 1;
    if (!run_ends(&b.s, last))
        return g.kept.grad_state(head, last + 1);
    return g.grad_base && run_ends_prefix(&b.s, last) ? g.grad_base + head * g.kept.state_size : nullptr;
}

// dO, E and dR of a block, columns from `first` on.
template <class F, class T>
__device__ void load_values(typename F::X *o, typename F::X *e, typename F::X *d, const rule<T> &r,
                            const gradients<T> &g, const block &b, size_t h, size_t first)
{
    const typename F::A *none = nullptr;
    size_t head = b.s.sequence * r.shape.heads + h, columns = r.shape.value_dim;
    load_slice<F>(o, none, b.count, first, columns,
                  [&](int i) { return g.grad_o + (b.row(i) * r.shape.heads + h) * columns; });
    load_slice<F>(e, none, b.count, first, columns, [&](int i) { return g.kept.error(head, b.begin + i); });
    load_slice<F>(d, none, b.count, first, columns, [&](int i) { return g.kept.grad_error(head, b.begin + i); });
}

// Shared memory of block_gradients.
template <class F> struct scratch {
    using A = typename F::A;
    typename F::X *o, *e, *d, *state, *grad_state;
    A *square;
    rows<A> *of;
    A *m, *last, *inner; // by token, in shares of its sum; by warp
};

// One value head of a block: its gradients of beta and decay; those of q and k into the workspace, added but for
// the first head's; by_p and by_m += D dP and D dM.
template <class F, class T>
__device__ void head_gradients(const rule<T> &r, const gradients<T> &g, const block &at, size_t key_head, size_t h,
                               bool is_first, const scratch<F> &s, const square_part<F> &kk,
                               const square_part<F> &qk, square_part<F> &by_p, square_part<F> &by_m)
{
    using A = typename F::A;
    constexpr int STRIDE = F::STRIDE, SQUARE_STRIDE = F::SQUARE_STRIDE;
    size_t key_dim = r.shape.key_dim, columns = r.shape.value_dim, heads = r.shape.heads;
    size_t head = at.s.sequence * heads + h, size = g.kept.state_size;
    const A *state = state_before(at, g.state + head * size, g.base ? g.base + head * size : nullptr,
                                  at.begin > 0 ? (const A *)g.kept.state(head, at.begin) : nullptr);
    const A *behind = grad_behind(g, at, head);
    load_gates<F>(*s.of, s.square, r, at, h);
    {
        square_part<F> grad_p, grad_m;
        for (size_t first = 0; first < columns; first += F::WIDTH) {
            load_values<F>(s.o, s.e, s.d, r, g, at, h, first);
            __syncthreads();
            add_product(grad_p, s.o, STRIDE, 1, s.e, 1, STRIDE, F::WIDTH);
            add_product(grad_m, s.d, STRIDE, 1, s.e, 1, STRIDE, F::WIDTH);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < grad_p.COUNT; i++) {
            int row = grad_p.row(i), column = grad_p.column(i);
            A *d = &s.square[row * SQUARE_STRIDE + column], u = s.of->beta[column];
            A p = row >= column ? *d * grad_p.at[i] * u : A(0);
            A m = row > column ? -*d * grad_m.at[i] * s.of->beta[row] * u : A(0);
            by_p.at[i] += p;
            by_m.at[i] += m;
            *d = row > column ? p * qk.at[i] + m * kk.at[i] : A(0); // L
        }
    }
    A sums[value_part<F>::ITS_ROWS] = {}, lasts[value_part<F>::ITS_ROWS] = {}, inner = 0;
    for (size_t j = 0; j < key_dim; j += F::WIDTH) {
        value_part<F> by_o, by_d, by_e;
        for (size_t first = 0; first < columns; first += F::WIDTH) {
            size_t rows_left = key_dim - j < F::WIDTH ? key_dim - j : F::WIDTH;
            load_values<F>(s.o, s.e, s.d, r, g, at, h, first);
            for (size_t i = side_y(); i < F::WIDTH; i += SIDE)
                for (int n = side_x(); n < F::WIDTH; n += SIDE) {
                    bool inside = i < rows_left && first + n < columns;
                    A x = inside && state ? state[(j + i) * columns + first + n] : A(0);
                    A grad = inside && behind ? behind[(j + i) * columns + first + n] : A(0);
                    narrow(s.state[i * STRIDE + n], x);
                    narrow(s.grad_state[i * STRIDE + n], grad);
                    inner += x * grad;
                }
            __syncthreads();
            add_product(by_o, s.o, STRIDE, 1, s.state, 1, STRIDE, F::WIDTH);
            add_product(by_d, s.d, STRIDE, 1, s.state, 1, STRIDE, F::WIDTH);
            add_product(by_e, s.e, STRIDE, 1, s.grad_state, 1, STRIDE, F::WIDTH);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < by_o.COUNT; i++) {
            int row = by_o.row(i), of_row = by_o.of_row(i);
            size_t column = j + by_o.column(i);
            if (row >= at.count || column >= key_dim)
                continue;
            A q = by_o.at[i] * s.of->kept[row], k = -by_d.at[i] * s.of->kept[row] * s.of->beta[row];
            A t = by_e.at[i] * s.of->tail[row] * s.of->beta[row];
            A key = s.of->k_scale[row] * widen<A>(r.k(at.row(row), key_head)[column]);
            sums[of_row] += s.of->q_scale[row] * widen<A>(r.q(at.row(row), key_head)[column]) * q + key * k;
            lasts[of_row] += key * t;
            A *to = g.kept.keys + (at.row(row) * 2 * r.shape.key_heads + key_head) * key_dim + column;
            A *to_k = to + r.shape.key_heads * key_dim;
            *to = is_first ? q : *to + q;
            *to_k = is_first ? k + t : *to_k + (k + t);
        }
    }
    store_row_sums<F>(s.m, sums);
    store_row_sums<F>(s.last, lasts);
    inner = warp_sum(inner);
    if (threadIdx.x % 32 == 0)
        s.inner[threadIdx.x / 32] = inner;
    __syncthreads();
    for (int i = side_y(); i < C; i += SIDE) {
        A sum = 0;
        for (size_t j = side_x(); i < at.count && j < columns; j += SIDE)
            sum += g.kept.error(head, at.begin + i)[j] * g.kept.grad_error(head, at.begin + i)[j];
        sum = side_sum(sum);
        if (side_x() == 0 && i < at.count)
            g.grad_beta[at.row(i) * heads + h] = sum;
    }
    int t = threadIdx.x;
    if (t < at.count) { // sums down the columns of L
        A sum = 0;
        for (int share = 0; share < SHARES<F>; share++)
            sum += s.last[share * C + t];
        for (int i = at.count - 1; i > t; i--)
            s.square[i * SQUARE_STRIDE + t] = sum += s.square[i * SQUARE_STRIDE + t];
    }
    __syncthreads();
    if (t < at.count) {
        A sum = 0;
        for (int i = 0; i < WARPS; i++)
            sum += s.inner[i];
        sum *= s.of->kept[at.count - 1];
        for (int i = at.count - 1; i >= t; i--)
            for (int share = 0; share < SHARES<F>; share++)
                sum += s.m[share * C + i];
        for (int j = 0; j < t; j++)
            sum += s.square[t * SQUARE_STRIDE + j];
        g.grad_decay[at.row(t) * heads + h] = sum;
    }
    __syncthreads();
}

// += of a slice of q's or k's gradients in the workspace. to: of the block's first row.
template <class F>
__device__ void add_keys(typename F::A *to, size_t stride, const block &at, size_t first, size_t key_dim,
                         value_part<F> &sum)
{
    each(sum, [&](int i, int j, typename F::A &x) {
        if (i < at.count && first + j < key_dim)
            to[i * stride + first + j] += x;
    });
}

template <class F, class T>
__device__ void block_gradients(const rule<T> &r, const gradients<T> &g, const block &at, size_t key_head,
                                const scratch<F> &s)
{
    using A = typename F::A;
    constexpr int STRIDE = F::STRIDE, SQUARE_STRIDE = F::SQUARE_STRIDE;
    size_t key_dim = r.shape.key_dim, group = r.shape.heads / r.shape.key_heads;
    square_part<F> kk, qk, by_p, by_m;
    auto load_keys = [&](size_t j) {
        load_slice<F>(s.e, s.of->k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
        load_slice<F>(s.o, s.of->q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
        __syncthreads();
    };
    load_norms(*s.of, r, at, key_head, true);
    __syncthreads();
    for (size_t j = 0; j < key_dim; j += F::WIDTH) {
        load_keys(j);
        add_product(kk, s.e, STRIDE, 1, s.e, 1, STRIDE, F::WIDTH);
        add_product(qk, s.o, STRIDE, 1, s.e, 1, STRIDE, F::WIDTH);
        __syncthreads();
    }
    for (size_t h = key_head * group; h < (key_head + 1) * group; h++)
        head_gradients(r, g, at, key_head, h, h == key_head * group, s, kk, qk, by_p, by_m);
    size_t width = 2 * r.shape.key_heads * key_dim;
    A *to_q = g.kept.keys + at.row(0) * width + key_head * key_dim, *to_k = to_q + r.shape.key_heads * key_dim;
    size_t stride = at.s.batch * width;
    each(by_p, [&](int i, int j, A &x) { s.square[i * SQUARE_STRIDE + j] = x; });
    for (size_t j = 0; j < key_dim; j += F::WIDTH) {
        value_part<F> q, k;
        load_keys(j);
        add_product(q, s.square, SQUARE_STRIDE, 1, s.e, STRIDE, 1, at.count);
        add_product(k, s.square, 1, SQUARE_STRIDE, s.o, STRIDE, 1, at.count);
        add_keys(to_q, stride, at, j, key_dim, q);
        add_keys(to_k, stride, at, j, key_dim, k);
        __syncthreads();
    }
    each(by_m, [&](int i, int j, A &x) { s.square[i * SQUARE_STRIDE + j] = x; });
    for (size_t j = 0; j < key_dim; j += F::WIDTH) {
        value_part<F> k;
        load_keys(j);
        add_product(k, s.square, SQUARE_STRIDE, 1, s.e, STRIDE, 1, at.count);
        add_product(k, s.square, 1, SQUARE_STRIDE, s.e, STRIDE, 1, at.count);
        add_keys(to_k, stride, at, j, key_dim, k);
        __syncthreads();
    }
}

// The blocks that begin within DELTA_BLOCK tokens: without documents one.
template <class F>
__global__ void __launch_bounds__(THREADS, 1)
    grad_blocks(rule<typename F::T> r, gradients<typename F::T> g, size_t windows)
{
    using A = typename F::A;
    using X = typename F::X;
    DYNAMIC_SHARED(shared);
    __shared__ rows<A> of;
    __shared__ A m[SHARES<F> * C], last[SHARES<F> * C], inner[WARPS];
    A *square = (A *)shared;
    X *o = (X *)(square + F::SQUARE), *e = o + F::SIZE, *d = e + F::SIZE, *state = d + F::SIZE;
    scratch<F> s = {o, e, d, state, state + F::WIDTH * F::STRIDE, square, &of, m, last, inner};
    block at = {r.sequence(blockIdx.x / windows), blockIdx.x % windows * C, 0};
    size_t limit = at.begin + C < at.s.tokens ? at.begin + C : at.s.tokens;
    if (delta_block_begin(&at.s, at.begin) != at.begin)
        at.begin = delta_block_end(&at.s, at.begin);
    for (; at.begin < limit; at.begin += at.count) {
        at.count = (int)(delta_block_end(&at.s, at.begin) - at.begin);
        block_gradients(r, g, at, blockIdx.y, s);
    }
}

// A warp takes one head's q or k of a row.
template <class T> __global__ void grad_norms(rule<T> r, gradients<T> g, size_t count)
{
    using A = wide_t<T>;
    size_t vectors = 2 * r.shape.key_heads, key_dim = r.shape.key_dim;
    size_t index = (size_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (index >= count)
        return;
    size_t at = index / vectors * r.columns + index % vectors * key_dim;
    const A *grad = g.kept.keys + index * key_dim;
    A squares = 0, along = 0;
    for (size_t j = lane; j < key_dim; j += 32) {
        A x = widen<A>(r.qkv[at + j]);
        squares += x * x;
        along += x * grad[j];
    }
    A scale = A(1) / sqrt(warp_sum(squares) + A(1e-6)), factor = scale;
    along = warp_sum(along) * scale * scale;
    if (index % vectors < r.shape.key_heads)
        factor /= sqrt((A)key_dim);
    for (size_t j = lane; j < key_dim; j += 32)
        narrow(g.grad_qkv[at + j], factor * (grad[j] - widen<A>(r.qkv[at + j]) * along));
}

} // namespace

void cuda_delta_rule_backward(struct device *device, struct delta_shape shape, struct tensor grad_qkv,
                              struct tensor grad_decay, struct tensor grad_beta, struct tensor grad_state,
                              struct tensor grad_base, struct tensor grad_o, struct tensor state,
                              struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta,
                              struct tensor memory)
{
    with_form(device, qkv.dtype, [&](auto form) {
        using F = decltype(form);
        using T = typename F::T;
        using A = typename F::A;
        size_t shared = states_shared<F>(shape.key_dim);
        if (shared + sizeof(rows<A>) > cuda_shared_bytes(device)) {
            status_set(
                &device->status, STATUS_UNSUPPORTED,
                "the delta rule's backward on device cuda has no room for keys of %zu numbers in %s: a block of "
                "this card has %zu KiB of shared memory; in f32 and bf16 it takes half",
                shape.key_dim, dtype_name(device->ops->dtype), cuda_shared_bytes(device) >> 10);
            return;
        }
        rule<T> r = rule_of<T>(shape, qkv, decay, beta);
        gradients<T> g = {(T *)grad_qkv.data,    (A *)grad_decay.data, (A *)grad_beta.data,
                          (A *)grad_state.data,  (A *)grad_base.data,  (const T *)grad_o.data,
                          (const A *)state.data, (const A *)base.data, workspace_of<A>(memory, shape)};
        size_t windows = ceil_div(shape.run.tokens, C), vectors = qkv.rows * 2 * shape.key_heads;
        delta_states_forward(device, shape, state, base, qkv, decay, beta, memory);
        launch(grad_states<F>, dim3(shape.run.batch * shape.heads, ceil_div(shape.value_dim, F::WIDTH)), THREADS,
               shared, device, r, g);
        launch(grad_blocks<F>, dim3(windows * shape.run.batch, shape.key_heads), THREADS, blocks_shared<F>(),
               device, r, g, windows);
        launch(grad_norms<T>, dim3(ceil_div(vectors, THREADS / 32)), THREADS, 0, device, r, g, vectors);
    });
}
