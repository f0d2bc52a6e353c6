// Delta tile: what the gated delta rule's kernels share: its operands, tiles of a block's tokens in shared memory,
// and products of them. Letters as kernels/cpu/real/delta.c has them.
#pragma once
#include "kernels/cuda/kernels/element.cuh"
#include "kernels/cuda/kernels/launch.cuh"

namespace delta
{

constexpr int SIDE = 16, THREADS = SIDE * SIDE; // thread (x, y) of a block
constexpr int C = DELTA_BLOCK, ROWS = C / SIDE; // rows y, y + SIDE, ... of a tile are a thread's
constexpr int SQUARE_STRIDE = C + 1, SQUARE = C * SQUARE_STRIDE;

// Columns that are held of tiles, of q and k and of values; columns x, x + SIDE, ... are a thread's.
template <class A> struct slice {
    static constexpr int COLUMNS = 8 / sizeof(A), WIDTH = SIDE * COLUMNS, STRIDE = WIDTH + 1, SIZE = C * STRIDE;
};

__device__ inline int side_x()
{
    return threadIdx.x % SIDE;
}
__device__ inline int side_y()
{
    return threadIdx.x / SIDE;
}

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
template <class A, class Row>
__device__ void load_slice(A *to, const A *factors, int count, size_t first, size_t width, Row row)
{
    for (int i = side_y(); i < C; i += SIDE)
        for (int j = side_x(); j < slice<A>::WIDTH; j += SIDE)
            to[i * slice<A>::STRIDE + j] =
                i < count && first + j < width ? (factors ? factors[i] : A(1)) * widen<A>(row(i)[first + j]) : A(0);
}

// sum[i][j] += sum over terms of a[y + i SIDE][term] b[term][x + j SIDE]; strides of a's rows and terms, b's terms
// and columns.
template <int R, int N, class A>
__device__ void add_product(A (&sum)[R][N], const A *a, int a_row, int a_term, const A *b, int b_term, int b_column,
                            int terms)
{
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
                sum[i][j] += left[i] * right[j];
    }
}

// body(i, j, element): of a thread's part of [C, C], or of [C, columns of a slice].
template <class A, int N, class Body> __device__ void each(A (&part)[ROWS][N], Body body)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
            body(side_y() + i * SIDE, side_x() + j * SIDE, part[i][j]);
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
template <class T>
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
            square[i * SQUARE_STRIDE + j] = i < j || i >= b.count ? A(0) : product;
        }
        to.kept[j] = kept;
        to.tail[j] = j < b.count ? square[(b.count - 1) * SQUARE_STRIDE + j] : A(0);
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

template <class A> __device__ void load_state(A *to, const A *from, size_t first, size_t rows, size_t columns)
{
    for (size_t i = side_y(); i < rows; i += SIDE)
        for (int j = side_x(); j < slice<A>::WIDTH; j += SIDE)
            to[i * slice<A>::STRIDE + j] = from && first + j < columns ? from[i * columns + first + j] : A(0);
}

template <class A> __device__ void store_state(A *to, const A *from, size_t first, size_t rows, size_t columns)
{
    for (size_t i = side_y(); i < rows; i += SIDE)
        for (int j = side_x(); j < slice<A>::WIDTH; j += SIDE)
            if (first + j < columns)
                to[i * columns + first + j] = from[i * slice<A>::STRIDE + j];
}

} // namespace delta

// The states before a run's blocks, and E, into the backward's workspace; state and base stay.
void delta_states_forward(struct device *device, struct delta_shape shape, struct tensor state, struct tensor base,
                          struct tensor qkv, struct tensor decay, struct tensor beta, struct tensor memory);
