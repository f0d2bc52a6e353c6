// Delta tile: what the gated delta rule's kernels share: its operands, tiles of a block's tokens in shared memory,
// and products of them. Letters as kernels/cpu/real/delta.c has them.
//
// A form of the kernels is a dtype T of the tensors and the units that multiply. f32 and f64 have scalar units
// alone; bf16 has either. TENSOR: factors are bf16, or rounded to it as they are read, and tensor cores sum in f32;
// states, decays, gates and the solve stay f32. Which of the two is faster has not been measured on a card.
#pragma once
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/tensor_core.cuh"
extern "C" {
#include "kernels/cuda/workspace.h"
}

namespace delta
{

constexpr int SIDE = 16, THREADS = SIDE * SIDE; // thread (x, y) of a block
constexpr int C = DELTA_BLOCK, ROWS = C / SIDE, WARPS = THREADS / 32;

// Sizes of tiles. A slice has WIDTH columns of q and k or of values. Strides keep rows in other banks.
template <class T_, bool TENSOR_> struct form {
    using T = T_;
    using A = wide_t<T>;                         // of sums
    using X = std::conditional_t<TENSOR_, T, A>; // of tiles of a block's tokens
    static constexpr bool TENSOR = TENSOR_;
    static constexpr int COLUMNS = 8 / sizeof(A), WIDTH = SIDE * COLUMNS;
    static constexpr int STRIDE = WIDTH + (TENSOR ? 8 : 1), SIZE = C * STRIDE;
    static constexpr int STATE_STRIDE = WIDTH + (TENSOR ? 4 : 1);
    static constexpr int SQUARE_STRIDE = C + (TENSOR ? 4 : 1), SQUARE = C * SQUARE_STRIDE;
    // Rows of a state's slice: products take whole tiles of 16.
    static constexpr size_t state_rows(size_t key_dim) { return TENSOR ? (key_dim + 15) / 16 * 16 : key_dim; }
    static constexpr size_t state_size(size_t key_dim) { return state_rows(key_dim) * STATE_STRIDE; }
    // Scratch of the solve, in A: inverses of diagonal blocks, and a block's rows before and behind the solve.
    static constexpr int SOLVE = TENSOR ? C * (SIDE + 1) + 2 * SIDE * STATE_STRIDE : 0;
};

__device__ inline int side_x()
{
    return threadIdx.x % SIDE;
}
__device__ inline int side_y()
{
    return threadIdx.x / SIDE;
}

// A thread's elements of a tile of R x N sides: by scalar units rows y, y + SIDE, ... and columns x, x + SIDE, ...;
// by tensor cores those of a warp's fragments, R x 2 N of which are the tile.
template <class F, int R, int N> struct part {
    static constexpr int COUNT = R * N, FRAGMENTS = COUNT / 4;
    typename F::A at[COUNT] = {};

    __device__ static int row(int i)
    {
        if constexpr (F::TENSOR)
            return threadIdx.x / 32 % R * SIDE + i % 4 / 2 * 8 + threadIdx.x % 32 / 4;
        else
            return side_y() + i / N * SIDE;
    }
    __device__ static int column(int i)
    {
        if constexpr (F::TENSOR)
            return (threadIdx.x / 32 / R * FRAGMENTS + i / 4) * 8 + threadIdx.x % 4 * 2 + i % 2;
        else
            return side_x() + i % N * SIDE;
    }
    // A thread's rows, in which element i is of row `of_row(i)`.
    static constexpr int ITS_ROWS = F::TENSOR ? 2 : R;
    __device__ static int of_row(int i) { return F::TENSOR ? i % 4 / 2 : i / N; }
};
template <class F> using square_part = part<F, ROWS, ROWS>;
template <class F> using value_part = part<F, ROWS, F::COLUMNS>;
template <class F> using state_part = part<F, F::COLUMNS, F::COLUMNS>;

// Operands of the rule.
template <class T> struct rule {
    using A = wide_t<T>;
    struct delta_shape shape;
    const T *qkv;
    const A *decay, *beta;
    size_t columns; // of qkv

    __device__ struct run_sequence sequence(size_t b) const
    {
        const struct documents &d = shape.run.documents;
        return run_sequence_of(&shape.run, d.device_starts.data, d.device_prefixes.data, b);
    }
    __device__ size_t key_head(size_t head) const { return head / (shape.heads / shape.key_heads); }
    // q and k of a key head in a token's row; the column of a value head's v.
    __device__ const T *q(size_t row, size_t key_head) const
    {
        return qkv + row * columns + key_head * shape.key_dim;
    }
    __device__ const T *k(size_t row, size_t key_head) const { return q(row, shape.key_heads + key_head); }
    __device__ size_t v_column(size_t head) const
    {
        return 2 * shape.key_heads * shape.key_dim + head * shape.value_dim;
    }
};

template <class T>
rule<T> rule_of(struct delta_shape shape, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    return {shape, (const T *)qkv.data, (const wide_t<T> *)decay.data, (const wide_t<T> *)beta.data, qkv.cols};
}

// Tokens [begin, begin + count) of a sequence.
struct block {
    struct run_sequence s;
    size_t begin;
    int count;
    __device__ size_t row(int i) const { return (begin + i) * s.batch + s.sequence; }
};

// A block's numbers by token: the norms' factors, gates, G and t.
template <class A> struct rows {
    A q_scale[C], k_scale[C], beta[C], decay[C], kept[C], tail[C];
};

// The backward's workspace, by head: states before blocks, and their gradients behind them, the last block's in a
// place of its own; E and dR of all tokens; by row the gradients of q and k before the norm.
template <class A> struct workspace {
    A *states, *grad_states, *errors, *grad_errors, *keys;
    size_t count, tokens, state_size, value_dim; // states of a head
    __device__ A *state(size_t head, size_t begin) const
    {
        return states + (head * count + begin / C - 1) * state_size;
    }
    __device__ A *grad_state(size_t head, size_t end) const
    {
        return grad_states + (head * (count + 1) + (end == tokens ? count : end / C - 1)) * state_size;
    }
    __device__ A *error(size_t head, size_t t) const { return errors + (head * tokens + t) * value_dim; }
    __device__ A *grad_error(size_t head, size_t t) const { return grad_errors + (head * tokens + t) * value_dim; }
};

template <class A> workspace<A> workspace_of(struct tensor memory, const struct delta_shape &shape)
{
    size_t heads = shape.run.batch * shape.heads, count = delta_states(&shape);
    size_t state = shape.key_dim * shape.value_dim, errors = heads * shape.run.tokens * shape.value_dim;
    workspace<A> w = {(A *)memory.data, nullptr, nullptr,        nullptr, nullptr, count,
                      shape.run.tokens, state,   shape.value_dim};
    w.grad_states = w.states + heads * count * state;
    w.errors = w.grad_states + heads * (count + 1) * state;
    w.grad_errors = w.errors + errors;
    w.keys = w.grad_errors + errors;
    return w;
}

// Sum over the SIDE threads of a row, the same bits in each.
template <class A> __device__ A side_sum(A x)
{
#pragma unroll
    for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

// to[i][j] = factors[i] * row i's column first + j of so many; 0 beyond. row: where row i begins; factors NULL: 1.
template <class F, class Row>
__device__ void load_slice(typename F::X *to, const typename F::A *factors, int count, size_t first, size_t width,
                           Row row)
{
    using A = typename F::A;
    for (int i = side_y(); i < C; i += SIDE)
        for (int j = side_x(); j < F::WIDTH; j += SIDE)
            narrow(to[i * F::STRIDE + j], i < count && first + j < width
                                              ? (factors ? factors[i] : A(1)) * widen<A>(row(i)[first + j])
                                              : A(0));
}

// sum[i][j] += sum over terms of a[i][term] b[term][j]; strides of a's rows and terms, b's terms and columns. On
// tensor cores terms are a multiple of 16, or 0 up to the next.
template <class F, int R, int N, class Left, class Right>
__device__ void add_product(part<F, R, N> &sum, const Left *a, int a_row, int a_term, const Right *b, int b_term,
                            int b_column, int terms)
{
    if constexpr (F::TENSOR) {
        constexpr int FRAGMENTS = part<F, R, N>::FRAGMENTS;
        int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        a += (warp % R * SIDE + g) * a_row + 2 * t * a_term;
        b += (warp / R * FRAGMENTS * 8 + g) * b_column + 2 * t * b_term;
#pragma unroll 2
        for (int k = 0; k < terms; k += 16, a += 16 * a_term, b += 16 * b_term) {
            uint32_t left[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                left[i] = fragment_pair(a + i % 2 * 8 * a_row + i / 2 * 8 * a_term, a_term);
#pragma unroll
            for (int n = 0; n < FRAGMENTS; n++) {
                float of[4];
                const Right *column = b + n * 8 * b_column;
                uint32_t right[2] = {fragment_pair(column, b_term), fragment_pair(column + 8 * b_term, b_term)};
#pragma unroll
                for (int i = 0; i < 4; i++)
                    of[i] = sum.at[4 * n + i];
                mma(of, left, right);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum.at[4 * n + i] = of[i];
            }
        }
    } else {
        using A = typename F::A;
        a += side_y() * a_row;
        b += side_x() * b_column;
#pragma unroll(sizeof(A) == 8 ? 1 : 4) // f64 has few registers
        for (int k = 0; k < terms; k++, a += a_term, b += b_term) {
            A left[R], right[N];
#pragma unroll
            for (int i = 0; i < R; i++)
                left[i] = a[i * SIDE * a_row];
#pragma unroll
            for (int j = 0; j < N; j++)
                right[j] = b[j * SIDE * b_column];
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum.at[i * N + j] += left[i] * right[j];
        }
    }
}

// body(i, j, element) of a thread's part.
template <class F, int R, int N, class Body> __device__ void each(part<F, R, N> &of, Body body)
{
#pragma unroll
    for (int i = 0; i < R * N; i++)
        body(of.row(i), of.column(i), of.at[i]);
}

// Sums over a [C, columns of a slice]'s rows, of which a thread has those of its elements: in SHARES parts of C.
template <class F> constexpr int SHARES = F::TENSOR ? WARPS / ROWS : 1;
template <class F>
__device__ void store_row_sums(typename F::A *to, const typename F::A (&sums)[value_part<F>::ITS_ROWS])
{
#pragma unroll
    for (int i = 0; i < value_part<F>::ITS_ROWS; i++) {
        if constexpr (F::TENSOR) {
            typename F::A sum = sums[i] + __shfl_xor_sync(0xffffffffu, sums[i], 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (threadIdx.x % 4 == 0)
                to[threadIdx.x / 32 / ROWS * C + value_part<F>::row(2 * i)] = sum;
        } else {
            typename F::A sum = side_sum(sums[i]);
            if (side_x() == 0)
                to[side_y() + i * SIDE] = sum;
        }
    }
}

// With a strictly lower M of a block, as tensor cores compute it, 16 rows at a time: x becomes (I + M beta)^-1 x,
// or, back from the last row, (I + M^T beta)^-1 x; y = beta x. Products with solved rows take bf16; the inverses of
// M's diagonal blocks and products with them are f32. scratch: F::SOLVE numbers. Between barriers.
template <class F, bool BACK>
__device__ void solve_blocks(value_part<F> &x, typename F::X *y, const typename F::A *m, const typename F::A *beta,
                             typename F::A *scratch)
{
    using A = typename F::A;
    constexpr int STRIDE = F::STATE_STRIDE, SQUARE = F::SQUARE_STRIDE;
    A *inverses = scratch, *before = inverses + C * (SIDE + 1), *behind = before + SIDE * STRIDE;
    if (threadIdx.x < C) { // one column of (I + M beta)^-1, or of (I + beta M)^-1
        int first = threadIdx.x / SIDE * SIDE, column = threadIdx.x % SIDE;
        A inverse[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            A sum = i == column ? A(1) : A(0);
#pragma unroll
            for (int j = 0; j < i; j++)
                sum -= m[(first + i) * SQUARE + first + j] * beta[first + (BACK ? i : j)] * inverse[j];
            inverse[i] = sum;
            inverses[(first + i) * (SIDE + 1) + column] = sum;
        }
    }
    __syncthreads();
    for (int step = 0; step < ROWS; step++) {
        int first = (BACK ? ROWS - 1 - step : step) * SIDE, next = first + SIDE;
        bool own = (int)threadIdx.x / 32 % ROWS * SIDE == first;
        if (own) {
            value_part<F> sum;
            if constexpr (BACK)
                add_product(sum, m + next * SQUARE, 1, SQUARE, y + next * F::STRIDE, F::STRIDE, 1, C - next);
            else
                add_product(sum, m, SQUARE, 1, y, F::STRIDE, 1, first);
#pragma unroll
            for (int i = 0; i < sum.COUNT; i++)
                before[(sum.row(i) - first) * STRIDE + sum.column(i)] = x.at[i] - sum.at[i];
        }
        __syncthreads();
        int row = side_y();
        for (int j = side_x(); j < F::WIDTH; j += SIDE) {
            A sum = 0;
#pragma unroll
            for (int k = 0; k < SIDE; k++)
                sum +=
                    inverses[(first + (BACK ? k : row)) * (SIDE + 1) + (BACK ? row : k)] * before[k * STRIDE + j];
            behind[row * STRIDE + j] = sum;
            narrow(y[(first + row) * F::STRIDE + j], beta[first + row] * sum);
        }
        __syncthreads();
        if (own)
            each(x, [&](int i, int j, A &to) { to = behind[(i - first) * STRIDE + j]; });
    }
}

// The norms' factors of a block's keys, and of its queries, if queries. A barrier must follow.
template <class T>
__device__ void load_norms(rows<wide_t<T>> &to, const rule<T> &r, const block &b, size_t key_head, bool queries)
{
    using A = wide_t<T>;
    for (int i = side_y(); i < C; i += SIDE) {
        for (int of_k = queries ? 0 : 1; of_k < 2; of_k++) {
            A sum = 0;
            if (i < b.count) {
                const T *x = of_k ? r.k(b.row(i), key_head) : r.q(b.row(i), key_head);
                for (size_t j = side_x(); j < r.shape.key_dim; j += SIDE) {
                    A value = widen<A>(x[j]);
                    sum += value * value;
                }
            }
            A scale = A(1) / sqrt(side_sum(sum) + A(1e-6));
            if (side_x() == 0)
                (of_k ? to.k_scale : to.q_scale)[i] = of_k ? scale : scale / sqrt((A)r.shape.key_dim);
        }
    }
}

// A value head's gates, G and t; D, by columns, into the square: 0 above the diagonal and beyond the block. Between
// barriers.
template <class F, class T>
__device__ void load_gates(rows<wide_t<T>> &to, wide_t<T> *square, const rule<T> &r, const block &b, size_t head)
{
    using A = wide_t<T>;
    int j = threadIdx.x;
    if (j < C) {
        size_t at = j < b.count ? b.row(j) * r.shape.heads + head : 0;
        to.beta[j] = j < b.count ? r.beta[at] : A(0);
        to.decay[j] = j < b.count ? exp(r.decay[at]) : A(1);
    }
    __syncthreads();
    if (j < C) {
        A kept = 1, product = 1;
        for (int i = 0; i < C; i++) {
            if (i <= j)
                kept *= to.decay[i];
            if (i > j)
                product *= to.decay[i];
            square[i * F::SQUARE_STRIDE + j] = i < j || i >= b.count ? A(0) : product;
        }
        to.kept[j] = kept;
        to.tail[j] = j < b.count ? square[(b.count - 1) * F::SQUARE_STRIDE + j] : A(0);
    }
    __syncthreads();
}

// The state that a block begins with; NULL: 0. inner: where it is, if it lies within the run.
template <class A> __device__ const A *state_before(const block &b, const A *state, const A *base, const A *inner)
{
    if (run_begins(&b.s, b.begin))
        return run_continues(&b.s, b.begin) ? base : nullptr;
    return b.begin > 0 ? inner : state;
}

template <class F>
__device__ void load_state(typename F::A *to, const typename F::A *from, size_t first, size_t rows, size_t columns)
{
    for (size_t i = side_y(); i < F::state_rows(rows); i += SIDE)
        for (int j = side_x(); j < F::WIDTH; j += SIDE)
            to[i * F::STATE_STRIDE + j] =
                from && i < rows && first + j < columns ? from[i * columns + first + j] : typename F::A(0);
}

template <class F>
__device__ void store_state(typename F::A *to, const typename F::A *from, size_t first, size_t rows, size_t columns)
{
    for (size_t i = side_y(); i < rows; i += SIDE)
        for (int j = side_x(); j < F::WIDTH; j += SIDE)
            if (first + j < columns)
                to[i * columns + first + j] = from[i * F::STATE_STRIDE + j];
}

// Calls body(form) for the form of a dtype on this device.
template <class Body> void with_form(const struct device *device, enum dtype dtype, Body body)
{
    with_type(dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        if constexpr (std::is_same_v<T, __nv_bfloat16>)
            if (cuda_delta_takes_tensor_cores(device))
                return body(form<T, true>{});
        body(form<T, false>{});
    });
}

} // namespace delta

// The states before a run's blocks, and E, into the backward's workspace; state and base stay.
void delta_states_forward(struct device *device, struct delta_shape shape, struct tensor state, struct tensor base,
                          struct tensor qkv, struct tensor decay, struct tensor beta, struct tensor memory);
