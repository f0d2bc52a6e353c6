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

template <class A> constexpr size_t states_shared(size_t key_dim)
{
    return (4 * slice<A>::SIZE + key_dim * slice<A>::STRIDE + SQUARE) * sizeof(A);
}

template <class A> constexpr size_t blocks_shared()
{
    return (3 * slice<A>::SIZE + 2 * slice<A>::WIDTH * slice<A>::STRIDE + SQUARE) * sizeof(A);
}

// dU in registers becomes dR; dE's rows are left in e. m: strictly lower.
template <class A, int N> __device__ void solve_back(A (&u)[ROWS][N], A *e, const A *m, const A *beta)
{
#pragma unroll
    for (int i = ROWS - 1; i >= 0; i--) // a thread's row i is row j once
#pragma unroll 1
        for (int j = (i + 1) * SIDE - 1; j >= i * SIDE; j--) {
            if (side_y() + i * SIDE == j)
#pragma unroll
                for (int n = 0; n < N; n++)
                    e[j * slice<A>::STRIDE + side_x() + n * SIDE] = beta[j] * u[i][n];
            __syncthreads();
            each(u, [&](int row, int column, A &x) {
                if (row < j)
                    x -= m[j * SQUARE_STRIDE + row] * e[j * slice<A>::STRIDE + column];
            });
        }
    __syncthreads();
}

template <class T> __global__ void __launch_bounds__(THREADS) grad_states(rule<T> r, gradients<T> g)
{
    using A = wide_t<T>;
    using slice = struct slice<A>;
    DYNAMIC_SHARED(shared);
    __shared__ rows<A> of;
    A *q = (A *)shared, *k = q + slice::SIZE, *e = k + slice::SIZE, *o = e + slice::SIZE, *square = o + slice::SIZE;
    A *state = square + SQUARE; // its gradient
    size_t head = blockIdx.x, b = head / r.shape.heads, h = head % r.shape.heads, key_head = r.key_head(h);
    size_t key_dim = r.shape.key_dim, columns = r.shape.value_dim, first = blockIdx.y * slice::WIDTH;
    A *base = g.grad_base ? g.grad_base + head * key_dim * columns : nullptr;
    A *own = g.grad_state + head * key_dim * columns;
    block at = {r.sequence(b), 0, 0};
    load_state(state, (const A *)own, first, key_dim, columns);
    for (size_t end = at.s.tokens; end > 0; end = at.begin) {
        at.begin = delta_block_begin(&at.s, end - 1);
        at.count = (int)(end - at.begin);
        bool ends = run_ends(&at.s, end - 1), ends_prefix = base && run_ends_prefix(&at.s, end - 1);
        for (size_t i = side_y(); ends_prefix && i < key_dim; i += SIDE)
            for (int j = side_x(); j < slice::WIDTH; j += SIDE)
                if (first + j < columns)
                    state[i * slice::STRIDE + j] += base[i * columns + first + j];
        if (!ends)
            store_state(g.kept.grad_state(head, end), state, first, key_dim, columns);
        load_norms(of, r, at, key_head, true);
        load_gates(of, square, r, at, h);
        load_slice(o, (const A *)nullptr, at.count, first, columns,
                   [&](int i) { return g.grad_o + (at.row(i) * r.shape.heads + h) * columns; });
        A kk[ROWS][ROWS] = {}, qk[ROWS][ROWS] = {}, u[ROWS][slice::COLUMNS] = {};
        for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
            int terms = (int)(key_dim - j < slice::WIDTH ? key_dim - j : slice::WIDTH);
            load_slice(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            load_slice(q, of.q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
            __syncthreads();
            add_product(kk, k, slice::STRIDE, 1, k, 1, slice::STRIDE, terms);
            add_product(qk, q, slice::STRIDE, 1, k, 1, slice::STRIDE, terms);
            add_product(u, k, slice::STRIDE, 1, state + j * slice::STRIDE, slice::STRIDE, 1, terms);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < ROWS; j++) { // D becomes P, and K K^T M
                A *d = &square[(side_y() + i * SIDE) * SQUARE_STRIDE + side_x() + j * SIDE];
                kk[i][j] *= *d;
                *d *= qk[i][j];
            }
        each(u, [&](int i, int, A &x) { x *= of.tail[i]; });
        __syncthreads();
        add_product(u, square, 1, SQUARE_STRIDE, o, slice::STRIDE, 1, at.count);
        __syncthreads();
        each(kk, [&](int i, int j, A &x) { square[i * SQUARE_STRIDE + j] = i > j ? x : A(0); });
        __syncthreads();
        solve_back(u, e, square, of.beta);
        each(u, [&](int i, int j, A &x) {
            if (i < at.count && first + j < columns) {
                g.kept.grad_error(head, at.begin + i)[first + j] = x;
                narrow(g.grad_qkv[at.row(i) * r.columns + r.v_column(h) + first + j], e[i * slice::STRIDE + j]);
            }
            e[i * slice::STRIDE + j] *= -of.kept[i];
            o[i * slice::STRIDE + j] *= of.kept[i];
        });
        bool begins = run_begins(&at.s, at.begin), continues = base && run_continues(&at.s, at.begin);
        for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
            load_slice(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            load_slice(q, of.q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
            __syncthreads();
            A sum[slice::COLUMNS][slice::COLUMNS] = {};
            add_product(sum, q, 1, slice::STRIDE, o, slice::STRIDE, 1, at.count);
            add_product(sum, k, 1, slice::STRIDE, e, slice::STRIDE, 1, at.count);
#pragma unroll
            for (int i = 0; i < slice::COLUMNS; i++) {
                size_t row = j + side_y() + i * SIDE;
#pragma unroll
                for (int n = 0; n < slice::COLUMNS; n++) {
                    int column = side_x() + n * SIDE;
                    if (row >= key_dim || first + column >= columns)
                        continue;
                    A *to = state + row * slice::STRIDE + column;
                    A grad = of.kept[at.count - 1] * *to + sum[i][n];
                    *to = begins ? A(0) : grad;
                    if (continues)
                        base[row * columns + first + column] += grad;
                }
            }
            __syncthreads();
        }
    }
    store_state(own, state, first, key_dim, columns);
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
template <class T>
__device__ void load_values(wide_t<T> *o, wide_t<T> *e, wide_t<T> *d, const rule<T> &r, const gradients<T> &g,
                            const block &b, size_t h, size_t first)
{
    using A = wide_t<T>;
    const A *none = nullptr;
    size_t head = b.s.sequence * r.shape.heads + h, columns = r.shape.value_dim;
    load_slice(o, none, b.count, first, columns,
               [&](int i) { return g.grad_o + (b.row(i) * r.shape.heads + h) * columns; });
    load_slice(e, none, b.count, first, columns, [&](int i) { return g.kept.error(head, b.begin + i); });
    load_slice(d, none, b.count, first, columns, [&](int i) { return g.kept.grad_error(head, b.begin + i); });
}

// Shared memory of block_gradients.
template <class A> struct scratch {
    A *o, *e, *d, *state, *grad_state, *square;
    rows<A> *of;
    A *m, *last, *inner; // by token; by warp
};

// One value head of a block: its gradients of beta and decay; those of q and k into the workspace, added but for
// the first head's; by_p and by_m += D dP and D dM.
template <class T>
__device__ void head_gradients(const rule<T> &r, const gradients<T> &g, const block &at, size_t key_head, size_t h,
                               bool is_first, const scratch<wide_t<T>> &s, const wide_t<T> (&kk)[ROWS][ROWS],
                               const wide_t<T> (&qk)[ROWS][ROWS], wide_t<T> (&by_p)[ROWS][ROWS],
                               wide_t<T> (&by_m)[ROWS][ROWS])
{
    using A = wide_t<T>;
    using slice = struct slice<A>;
    size_t key_dim = r.shape.key_dim, columns = r.shape.value_dim, heads = r.shape.heads;
    size_t head = at.s.sequence * heads + h, size = g.kept.state_size;
    const A *state = state_before(at, g.state + head * size, g.base ? g.base + head * size : nullptr,
                                  at.begin > 0 ? (const A *)g.kept.state(head, at.begin) : nullptr);
    const A *behind = grad_behind(g, at, head);
    load_gates(*s.of, s.square, r, at, h);
    {
        A grad_p[ROWS][ROWS] = {}, grad_m[ROWS][ROWS] = {}, dots[ROWS] = {};
        for (size_t first = 0; first < columns; first += slice::WIDTH) {
            load_values(s.o, s.e, s.d, r, g, at, h, first);
            __syncthreads();
            add_product(grad_p, s.o, slice::STRIDE, 1, s.e, 1, slice::STRIDE, slice::WIDTH);
            add_product(grad_m, s.d, slice::STRIDE, 1, s.e, 1, slice::STRIDE, slice::WIDTH);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                for (int j = side_x(); j < slice::WIDTH; j += SIDE)
                    dots[i] += s.d[(side_y() + i * SIDE) * slice::STRIDE + j] *
                               s.e[(side_y() + i * SIDE) * slice::STRIDE + j];
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int row = side_y() + i * SIDE;
            A dot = side_sum(dots[i]);
            if (side_x() == 0 && row < at.count)
                g.grad_beta[at.row(row) * heads + h] = dot;
#pragma unroll
            for (int j = 0; j < ROWS; j++) {
                int column = side_x() + j * SIDE;
                A *d = &s.square[row * SQUARE_STRIDE + column], u = s.of->beta[column];
                A p = row >= column ? *d * grad_p[i][j] * u : A(0);
                A m = row > column ? -*d * grad_m[i][j] * s.of->beta[row] * u : A(0);
                by_p[i][j] += p;
                by_m[i][j] += m;
                *d = row > column ? p * qk[i][j] + m * kk[i][j] : A(0); // L
            }
        }
    }
    A sums[ROWS] = {}, lasts[ROWS] = {}, inner = 0;
    for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
        A by_o[ROWS][slice::COLUMNS] = {}, by_d[ROWS][slice::COLUMNS] = {}, by_e[ROWS][slice::COLUMNS] = {};
        for (size_t first = 0; first < columns; first += slice::WIDTH) {
            size_t rows_left = key_dim - j < slice::WIDTH ? key_dim - j : slice::WIDTH;
            load_values(s.o, s.e, s.d, r, g, at, h, first);
            for (size_t i = side_y(); i < slice::WIDTH; i += SIDE)
                for (int n = side_x(); n < slice::WIDTH; n += SIDE) {
                    bool inside = i < rows_left && first + n < columns;
                    A x = inside && state ? state[(j + i) * columns + first + n] : A(0);
                    A grad = inside && behind ? behind[(j + i) * columns + first + n] : A(0);
                    s.state[i * slice::STRIDE + n] = x;
                    s.grad_state[i * slice::STRIDE + n] = grad;
                    inner += x * grad;
                }
            __syncthreads();
            add_product(by_o, s.o, slice::STRIDE, 1, s.state, 1, slice::STRIDE, slice::WIDTH);
            add_product(by_d, s.d, slice::STRIDE, 1, s.state, 1, slice::STRIDE, slice::WIDTH);
            add_product(by_e, s.e, slice::STRIDE, 1, s.grad_state, 1, slice::STRIDE, slice::WIDTH);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int n = 0; n < slice::COLUMNS; n++) {
                int row = side_y() + i * SIDE;
                size_t column = j + side_x() + n * SIDE;
                if (row >= at.count || column >= key_dim)
                    continue;
                A q = by_o[i][n] * s.of->kept[row], k = -by_d[i][n] * s.of->kept[row] * s.of->beta[row];
                A t = by_e[i][n] * s.of->tail[row] * s.of->beta[row];
                A key = s.of->k_scale[row] * widen<A>(r.k(at.row(row), key_head)[column]);
                sums[i] += s.of->q_scale[row] * widen<A>(r.q(at.row(row), key_head)[column]) * q + key * k;
                lasts[i] += key * t;
                A *to = g.kept.keys + (at.row(row) * 2 * r.shape.key_heads + key_head) * key_dim + column;
                A *to_k = to + r.shape.key_heads * key_dim;
                *to = is_first ? q : *to + q;
                *to_k = is_first ? k + t : *to_k + (k + t);
            }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        A sum = side_sum(sums[i]), last = side_sum(lasts[i]);
        if (side_x() == 0)
            s.m[side_y() + i * SIDE] = sum, s.last[side_y() + i * SIDE] = last;
    }
    inner = warp_sum(inner);
    if (threadIdx.x % 32 == 0)
        s.inner[threadIdx.x / 32] = inner;
    __syncthreads();
    int t = threadIdx.x;
    if (t < at.count) { // sums down the columns of L
        A sum = s.last[t];
        for (int i = at.count - 1; i > t; i--)
            s.square[i * SQUARE_STRIDE + t] = sum += s.square[i * SQUARE_STRIDE + t];
    }
    __syncthreads();
    if (t < at.count) {
        A sum = 0;
        for (int i = 0; i < THREADS / 32; i++)
            sum += s.inner[i];
        sum *= s.of->kept[at.count - 1];
        for (int i = at.count - 1; i >= t; i--)
            sum += s.m[i];
        for (int j = 0; j < t; j++)
            sum += s.square[t * SQUARE_STRIDE + j];
        g.grad_decay[at.row(t) * heads + h] = sum;
    }
    __syncthreads();
}

// += of a slice of q's or k's gradients in the workspace. to: of the block's first row.
template <class A, int N>
__device__ void add_keys(A *to, size_t stride, const block &at, size_t first, size_t key_dim, A (&sum)[ROWS][N])
{
    each(sum, [&](int i, int j, A &x) {
        if (i < at.count && first + j < key_dim)
            to[i * stride + first + j] += x;
    });
}

template <class T>
__device__ void block_gradients(const rule<T> &r, const gradients<T> &g, const block &at, size_t key_head,
                                const scratch<wide_t<T>> &s)
{
    using A = wide_t<T>;
    using slice = struct slice<A>;
    size_t key_dim = r.shape.key_dim, group = r.shape.heads / r.shape.key_heads;
    A kk[ROWS][ROWS] = {}, qk[ROWS][ROWS] = {}, by_p[ROWS][ROWS] = {}, by_m[ROWS][ROWS] = {};
    auto load_keys = [&](size_t j) {
        load_slice(s.e, s.of->k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
        load_slice(s.o, s.of->q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
        __syncthreads();
    };
    load_norms(*s.of, r, at, key_head, true);
    __syncthreads();
    for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
        load_keys(j);
        add_product(kk, s.e, slice::STRIDE, 1, s.e, 1, slice::STRIDE, slice::WIDTH);
        add_product(qk, s.o, slice::STRIDE, 1, s.e, 1, slice::STRIDE, slice::WIDTH);
        __syncthreads();
    }
    for (size_t h = key_head * group; h < (key_head + 1) * group; h++)
        head_gradients(r, g, at, key_head, h, h == key_head * group, s, kk, qk, by_p, by_m);
    size_t width = 2 * r.shape.key_heads * key_dim;
    A *to_q = g.kept.keys + at.row(0) * width + key_head * key_dim, *to_k = to_q + r.shape.key_heads * key_dim;
    size_t stride = at.s.batch * width;
    each(by_p, [&](int i, int j, A &x) { s.square[i * SQUARE_STRIDE + j] = x; });
    for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
        A q[ROWS][slice::COLUMNS] = {}, k[ROWS][slice::COLUMNS] = {};
        load_keys(j);
        add_product(q, s.square, SQUARE_STRIDE, 1, s.e, slice::STRIDE, 1, at.count);
        add_product(k, s.square, 1, SQUARE_STRIDE, s.o, slice::STRIDE, 1, at.count);
        add_keys(to_q, stride, at, j, key_dim, q);
        add_keys(to_k, stride, at, j, key_dim, k);
        __syncthreads();
    }
    each(by_m, [&](int i, int j, A &x) { s.square[i * SQUARE_STRIDE + j] = x; });
    for (size_t j = 0; j < key_dim; j += slice::WIDTH) {
        A k[ROWS][slice::COLUMNS] = {};
        load_keys(j);
        add_product(k, s.square, SQUARE_STRIDE, 1, s.e, slice::STRIDE, 1, at.count);
        add_product(k, s.square, 1, SQUARE_STRIDE, s.e, slice::STRIDE, 1, at.count);
        add_keys(to_k, stride, at, j, key_dim, k);
        __syncthreads();
    }
}

// The blocks that begin within DELTA_BLOCK tokens: without documents one.
template <class T> __global__ void __launch_bounds__(THREADS) grad_blocks(rule<T> r, gradients<T> g, size_t windows)
{
    using A = wide_t<T>;
    using slice = struct slice<A>;
    DYNAMIC_SHARED(shared);
    __shared__ rows<A> of;
    __shared__ A m[C], last[C], inner[THREADS / 32];
    A *o = (A *)shared, *e = o + slice::SIZE, *d = e + slice::SIZE, *state = d + slice::SIZE;
    A *grad_state = state + slice::WIDTH * slice::STRIDE, *square = grad_state + slice::WIDTH * slice::STRIDE;
    scratch<A> s = {o, e, d, state, grad_state, square, &of, m, last, inner};
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
    with_type(qkv.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        size_t shared = states_shared<A>(shape.key_dim);
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
        launch(grad_states<T>, dim3(shape.run.batch * shape.heads, ceil_div(shape.value_dim, slice<A>::WIDTH)),
               THREADS, shared, device, r, g);
        launch(grad_blocks<T>, dim3(windows * shape.run.batch, shape.key_heads), THREADS, blocks_shared<A>(),
               device, r, g, windows);
        launch(grad_norms<T>, dim3(ceil_div(vectors, THREADS / 32)), THREADS, 0, device, r, g, vectors);
    });
}
