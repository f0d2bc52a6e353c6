// The gated delta rule's forward, by blocks (Yang et al. 2024, arXiv 2412.06464); formulas in
// kernels/cpu/real/delta.c, contract in kernels/device/device.h. A block of threads takes one head of one sequence
// and a slice of a value's columns, which are apart from each other, through all of the run; the state's slice
// stays in shared memory.
#include "kernels/cuda/kernels/delta_tile.cuh"

namespace
{

using namespace delta;

// The operands of forward besides the rule's.
template <class T> struct walk {
    using A = wide_t<T>;
    T *o; // NULL: the states alone
    A *state, *base;
    size_t columns;    // of a state: value_dim, or, of a transition, key_dim
    bool values;       // V is not 0
    workspace<A> kept; // of a backward's first pass, which moves neither state nor base; states NULL: none
};

template <class F> constexpr size_t shared_size(size_t key_dim)
{
    return (F::state_size(key_dim) + F::SQUARE + F::SOLVE) * sizeof(typename F::A) +
           3 * F::SIZE * sizeof(typename F::X);
}

// E in registers becomes what (I + M beta)^-1 makes of it; U's rows are left in u. m: strictly lower.
template <class F>
__device__ void solve(value_part<F> &e, typename F::X *u, const typename F::A *m, const typename F::A *beta)
{
    using A = typename F::A;
#pragma unroll
    for (int i = 0; i < ROWS; i++) // a thread's row i is row j once
#pragma unroll 1
        for (int j = i * SIDE; j < (i + 1) * SIDE; j++) {
            if (side_y() + i * SIDE == j)
#pragma unroll
                for (int n = 0; n < F::COLUMNS; n++)
                    u[j * F::STRIDE + side_x() + n * SIDE] = beta[j] * e.at[i * F::COLUMNS + n];
            __syncthreads();
            each(e, [&](int row, int column, A &x) {
                if (row > j)
                    x -= m[row * F::SQUARE_STRIDE + j] * u[j * F::STRIDE + column];
            });
        }
    __syncthreads();
}

template <class F>
__global__ void __launch_bounds__(THREADS, 1) forward(rule<typename F::T> r, walk<typename F::T> w)
{
    using A = typename F::A;
    using X = typename F::X;
    constexpr int STRIDE = F::STRIDE, STATE_STRIDE = F::STATE_STRIDE, SQUARE_STRIDE = F::SQUARE_STRIDE;
    DYNAMIC_SHARED(shared);
    __shared__ rows<A> of;
    size_t head = blockIdx.x, b = head / r.shape.heads, h = head % r.shape.heads, key_head = r.key_head(h);
    size_t first = blockIdx.y * F::WIDTH, key_dim = r.shape.key_dim, size = key_dim * w.columns;
    A *state = (A *)shared, *square = state + F::state_size(key_dim), *scratch = square + F::SQUARE;
    X *q = (X *)(scratch + F::SOLVE), *k = q + F::SIZE, *u = k + F::SIZE;
    A *own = w.state + head * size, *base = w.base ? w.base + head * size : nullptr;
    block at = {r.sequence(b), 0, 0};
    for (; at.begin < at.s.tokens; at.begin += at.count) {
        size_t end = delta_block_end(&at.s, at.begin);
        at.count = (int)(end - at.begin);
        if (at.begin == 0 || run_begins(&at.s, at.begin))
            load_state<F>(state, state_before<A>(at, own, base, nullptr), first, key_dim, w.columns);
        load_norms(of, r, at, key_head, w.o);
        load_gates<F>(of, square, r, at, h);
        square_part<F> kk, qk;
        value_part<F> ks, qs;
        for (size_t j = 0; j < key_dim; j += F::WIDTH) {
            int terms = (int)(key_dim - j < F::WIDTH ? key_dim - j : F::WIDTH);
            load_slice<F>(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            if (w.o)
                load_slice<F>(q, of.q_scale, at.count, j, key_dim, [&](int i) { return r.q(at.row(i), key_head); });
            __syncthreads();
            add_product(kk, k, STRIDE, 1, k, 1, STRIDE, terms);
            add_product(ks, k, STRIDE, 1, state + j * STATE_STRIDE, STATE_STRIDE, 1, terms);
            if (w.o) {
                add_product(qk, q, STRIDE, 1, k, 1, STRIDE, terms);
                add_product(qs, q, STRIDE, 1, state + j * STATE_STRIDE, STATE_STRIDE, 1, terms);
            }
            __syncthreads();
        }
        each(kk, [&](int i, int j, A &x) {
            A d = square[i * SQUARE_STRIDE + j];
            square[i * SQUARE_STRIDE + j] = i > j ? d * x : A(0);
            x = d;
        });
        each(ks, [&](int i, int j, A &x) {
            bool inside = w.values && i < at.count && first + j < w.columns;
            x = (inside ? widen<A>(r.qkv[at.row(i) * r.columns + r.v_column(h) + first + j]) : A(0)) -
                of.kept[i] * x;
        });
        __syncthreads();
        if constexpr (F::TENSOR)
            solve_blocks<F, false>(ks, u, square, of.beta, scratch);
        else
            solve(ks, u, square, of.beta);
        if (w.kept.states) // E
            each(ks, [&](int i, int j, A &x) {
                if (i < at.count && first + j < w.columns)
                    w.kept.error(head, at.begin + i)[first + j] = x;
            });
        if (w.o) {
#pragma unroll
            for (int i = 0; i < kk.COUNT; i++)
                square[kk.row(i) * SQUARE_STRIDE + kk.column(i)] = kk.at[i] * qk.at[i];
            each(qs, [&](int i, int, A &x) { x *= of.kept[i]; });
            __syncthreads();
            add_product(qs, square, SQUARE_STRIDE, 1, u, STRIDE, 1, at.count);
            each(qs, [&](int i, int j, A &x) {
                if (i < at.count && first + j < w.columns)
                    narrow(w.o[(at.row(i) * r.shape.heads + h) * w.columns + first + j], x);
            });
            __syncthreads();
        }
        for (int i = side_y(); i < C; i += SIDE)
            for (int j = side_x(); j < F::WIDTH; j += SIDE)
                narrow(u[i * STRIDE + j], of.tail[i] * widen<A>(u[i * STRIDE + j]));
        for (size_t j = 0; j < key_dim; j += F::WIDTH) {
            load_slice<F>(k, of.k_scale, at.count, j, key_dim, [&](int i) { return r.k(at.row(i), key_head); });
            __syncthreads();
            state_part<F> sum;
            add_product(sum, k, 1, STRIDE, u, STRIDE, 1, at.count);
            each(sum, [&](int i, int n, A &x) {
                A *to = state + (j + i) * STATE_STRIDE + n;
                if (j + i < key_dim)
                    *to = of.kept[at.count - 1] * *to + x;
            });
            __syncthreads();
        }
        if (w.kept.states) {
            if (end < at.s.tokens && !run_begins(&at.s, end))
                store_state<F>(w.kept.state(head, end), state, first, key_dim, w.columns);
        } else if (run_ends_prefix(&at.s, end - 1) && base) {
            store_state<F>(base, state, first, key_dim, w.columns);
        }
        __syncthreads();
    }
    if (!w.kept.states)
        store_state<F>(own, state, first, key_dim, w.columns);
}

// memory: where the backward's states are kept, or no tensor.
void run(struct device *device, struct delta_shape shape, struct tensor o, struct tensor state, struct tensor base,
         size_t columns, bool values, struct tensor qkv, struct tensor decay, struct tensor beta,
         struct tensor memory)
{
    with_form(device, qkv.dtype, [&](auto form) {
        using F = decltype(form);
        using T = typename F::T;
        using A = typename F::A;
        rule<T> r = rule_of<T>(shape, qkv, decay, beta);
        walk<T> w = {(T *)o.data, (A *)state.data, (A *)base.data, columns, values, {}};
        if (memory.data)
            w.kept = workspace_of<A>(memory, shape);
        launch(forward<F>, dim3(shape.run.batch * shape.heads, ceil_div(columns, F::WIDTH)), THREADS,
               shared_size<F>(shape.key_dim), device, r, w);
    });
}

template <class A> __global__ void identity(A *transition, size_t key_dim, size_t count)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
        transition[i] = i % (key_dim * key_dim) % (key_dim + 1) == 0;
}

// state = transition state, or of the transpose, a slice of its columns. row, column: steps of transition.
template <class A>
__global__ void carry(A *whole, const A *transition, size_t key_dim, size_t columns, size_t row, size_t column)
{
    using F = form<A, false>;
    DYNAMIC_SHARED(shared);
    A *state = (A *)shared;
    size_t first = blockIdx.y * F::WIDTH;
    whole += blockIdx.x * key_dim * columns;
    transition += blockIdx.x * key_dim * key_dim;
    load_state<F>(state, whole, first, key_dim, columns);
    __syncthreads();
    for (size_t i = side_y(); i < key_dim; i += SIDE) {
        for (int j = side_x(); j < F::WIDTH; j += SIDE) {
            A sum = 0;
            for (size_t n = 0; n < key_dim; n++)
                sum += transition[i * row + n * column] * state[n * F::STATE_STRIDE + j];
            if (first + j < columns)
                whole[i * columns + first + j] = sum;
        }
    }
}

} // namespace

void cuda_delta_rule_forward(struct device *device, struct delta_shape shape, struct tensor o, struct tensor state,
                             struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    run(device, shape, o, state, base, shape.value_dim, true, qkv, decay, beta, tensor_none());
}

void delta_states_forward(struct device *device, struct delta_shape shape, struct tensor state, struct tensor base,
                          struct tensor qkv, struct tensor decay, struct tensor beta, struct tensor memory)
{
    run(device, shape, tensor_none(), state, base, shape.value_dim, true, qkv, decay, beta, memory);
}

void cuda_delta_identity(struct device *device, struct tensor transition, size_t key_dim)
{
    with_type(transition.dtype, [&](auto type) {
        using A = typename decltype(type)::type;
        size_t count = tensor_count(transition);
        if constexpr (std::is_same_v<A, wide_t<A>>)
            launch(identity<A>, dim3(ceil_div(count, THREADS)), THREADS, 0, device, (A *)transition.data, key_dim,
                   count);
    });
}

// The states of V = 0, in as many columns as a key has: A is linear in what it begins with.
void cuda_delta_transition(struct device *device, struct delta_shape shape, struct tensor transition,
                           struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    run(device, shape, tensor_none(), transition, base, shape.key_dim, false, qkv, decay, beta, tensor_none());
}

void cuda_delta_carry(struct device *device, struct tensor state, struct tensor transition, size_t key_dim,
                      enum transpose transpose)
{
    size_t columns = state.cols / key_dim;
    with_type(state.dtype, [&](auto type) {
        using A = typename decltype(type)::type;
        if constexpr (std::is_same_v<A, wide_t<A>>)
            launch(carry<A>, dim3(state.rows, ceil_div(columns, form<A, false>::WIDTH)), THREADS,
                   form<A, false>::state_size(key_dim) * sizeof(A), device, (A *)state.data,
                   (const A *)transition.data, key_dim, columns, transpose ? 1 : key_dim, transpose ? key_dim : 1);
    });
}
