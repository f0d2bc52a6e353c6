// Depthwise causal convolution of 4 taps, and SiLU; contracts in kernels/device/device.h. A thread walks through
// SEGMENT tokens of a column, the backward's from the last on, with the gradient of the window: the three rows
// before a token as it sees them. What that is behind a segment a first kernel finds from the three tokens there;
// where documents continue a prefix, whose gradient has one order, a segment is all of the run.
#include "kernels/cuda/kernels/columns.cuh"
#include <algorithm>

namespace
{

constexpr int THREADS = 128, WINDOW = 3;
constexpr size_t SEGMENT = 32;

// One column of one sequence.
template <class T> struct column {
    using A = wide_t<T>;
    struct run_sequence s;
    const T *x, *tail, *base, *weight; // base NULL: it is yet to be written, if the prefix ends in the run
    size_t cols, index;

    __device__ size_t place(size_t row) const { return (row * s.batch + s.sequence) * cols + index; }
    __device__ A value(const T *data, size_t row) const { return widen<A>(data[place(row)]); }
    // Row i of the base, before token 0 of a document that continues.
    __device__ A base_row(size_t i, bool written) const
    {
        size_t end = s.prefix > s.start ? s.prefix - s.start : 0; // of the prefix, in the run
        if (written || end == 0)
            return value(base, i);
        return end + i >= WINDOW ? value(x, end + i - WINDOW) : s.start == 0 ? A(0) : value(tail, end + i);
    }
    // Row i of the window before token t, as a token sees it whose document has token `of`.
    __device__ A window(size_t t, size_t i, size_t of, bool written) const
    {
        size_t first = run_first(&s, of);
        if (t + i >= first + WINDOW)
            return value(x, t + i - WINDOW);
        if (!run_begins(&s, first))
            return value(tail, t + i);
        return run_continues(&s, first) ? base_row(t + i - first, written) : A(0);
    }
    __device__ A tap(int j) const { return widen<A>(weight[index * 4 + j]); }
};

template <class T> struct conv {
    struct run_shape run;
    const T *x, *tail, *base, *weight;
    size_t cols;
    // That of this thread; blocks are strips, then sequences.
    __device__ column<T> mine(bool *inside) const
    {
        size_t strips = (cols + THREADS - 1) / THREADS, index = blockIdx.x % strips * THREADS + threadIdx.x;
        *inside = index < cols;
        return of(index, blockIdx.x / strips);
    }
    __device__ column<T> of(size_t index, size_t sequence) const
    {
        const struct documents &d = run.documents;
        return {run_sequence_of(&run, d.device_starts.data, d.device_prefixes.data, sequence),
                x,
                tail,
                base,
                weight,
                cols,
                index};
    }
};

template <class T> __global__ void forward(T *y, conv<T> c)
{
    using A = wide_t<T>;
    bool inside;
    column<T> at = c.mine(&inside);
    if (!inside)
        return;
    size_t first = blockIdx.y * SEGMENT, end = first + SEGMENT < c.run.tokens ? first + SEGMENT : c.run.tokens;
    A w[4] = {at.tap(0), at.tap(1), at.tap(2), at.tap(3)}, rows[WINDOW];
    for (size_t t = first; t < end; t++) {
        if (t == first || run_begins(&at.s, t))
            for (int i = 0; i < WINDOW; i++)
                rows[i] = at.window(t, i, t, false);
        A x = at.value(c.x, t), sum = w[0] * rows[0] + w[1] * rows[1] + w[2] * rows[2] + w[3] * x;
        narrow(y[at.place(t)], sum / (A(1) + exp(-sum)));
        rows[0] = rows[1], rows[1] = rows[2], rows[2] = x;
    }
}

// tail and base, after all tokens have read them.
template <class T> __global__ void move_on(T *tail, T *base, conv<T> c)
{
    using A = wide_t<T>;
    bool inside;
    column<T> at = c.mine(&inside);
    if (!inside)
        return;
    A rows[WINDOW], behind[WINDOW];
    size_t tokens = c.run.tokens, end = at.s.prefix > at.s.start ? at.s.prefix - at.s.start : 0;
    for (int i = 0; i < WINDOW; i++) {
        rows[i] = at.window(tokens, i, tokens - 1, false);
        behind[i] = end > 0 && end <= tokens ? at.window(end, i, end - 1, false) : A(0);
    }
    for (int i = 0; i < WINDOW; i++) {
        narrow(tail[at.place(i)], rows[i]);
        if (end > 0 && end <= tokens)
            narrow(base[at.place(i)], behind[i]);
    }
}

// The gradient of the sum before SiLU, by the taps' rows.
template <class T>
__device__ wide_t<T> sum_gradient(const column<T> &at, const T *grad_y, size_t t, wide_t<T> (&rows)[4])
{
    using A = wide_t<T>;
    A sum = 0;
    for (int j = 0; j < WINDOW; j++)
        rows[j] = at.window(t, j, t, true);
    rows[WINDOW] = at.value(at.x, t);
    for (int j = 0; j < 4; j++)
        sum += at.tap(j) * rows[j];
    A sigma = A(1) / (A(1) + exp(-sum));
    return at.value(grad_y, t) * sigma * (A(1) + sum * (A(1) - sigma));
}

// The window's gradient behind token t becomes that before it; returns x's.
template <class T>
__device__ wide_t<T> step_back(const column<T> &at, const T *grad_y, size_t t, wide_t<T> (&grads)[WINDOW])
{
    wide_t<T> rows[4], grad = sum_gradient(at, grad_y, t, rows), grad_x = grads[2] + at.tap(3) * grad;
    grads[2] = grads[1] + at.tap(2) * grad;
    grads[1] = grads[0] + at.tap(1) * grad;
    grads[0] = at.tap(0) * grad;
    return grad_x;
}

// behind: [segments, 3 batch, cols], the window's gradient behind each segment, but for what documents end.
template <class T>
__global__ void gradients_behind(wide_t<T> *behind, const wide_t<T> *grad_tail, const T *grad_y, conv<T> c,
                                 size_t segment)
{
    using A = wide_t<T>;
    bool inside;
    column<T> at = c.mine(&inside);
    if (!inside)
        return;
    size_t tokens = c.run.tokens, first = (blockIdx.y + 1) * segment, end = first < tokens ? first : tokens;
    first = end;
    while (end < tokens && end < first + WINDOW && !run_begins(&at.s, end))
        end++;
    A grads[WINDOW];
    for (int i = 0; i < WINDOW; i++)
        grads[i] = end == tokens ? grad_tail[at.place(i)] : A(0);
    while (end-- > first)
        step_back(at, grad_y, end, grads);
    for (int i = 0; i < WINDOW; i++)
        behind[blockIdx.y * WINDOW * at.s.batch * c.cols + at.place(i)] = grads[i];
}

// behind NULL: a segment is all of the run.
template <class T>
__global__ void backward(T *grad_x, wide_t<T> *grad_tail, wide_t<T> *grad_base, const wide_t<T> *behind,
                         const T *grad_y, conv<T> c, size_t segment)
{
    using A = wide_t<T>;
    bool inside;
    column<T> at = c.mine(&inside);
    if (!inside)
        return;
    size_t first = blockIdx.y * segment, end = first + segment < c.run.tokens ? first + segment : c.run.tokens;
    A grads[WINDOW];
    for (int i = 0; i < WINDOW; i++)
        grads[i] =
            behind ? behind[blockIdx.y * WINDOW * at.s.batch * c.cols + at.place(i)] : grad_tail[at.place(i)];
    for (size_t t = end; t-- > first;) {
        for (int i = 0; i < WINDOW; i++) {
            if (run_ends(&at.s, t))
                grads[i] = 0;
            if (run_ends_prefix(&at.s, t))
                grads[i] += grad_base[at.place(i)];
        }
        A gradient = step_back(at, grad_y, t, grads);
        narrow(grad_x[at.place(t)], gradient);
        for (int i = 0; i < WINDOW && run_continues(&at.s, t); i++)
            grad_base[at.place(i)] += grads[i];
    }
    for (int i = 0; i < WINDOW && first == 0; i++)
        grad_tail[at.place(i)] = run_begins(&at.s, 0) ? A(0) : grads[i];
}

// A channel's four weights.
template <class T> struct weight_gradient {
    conv<T> c;
    const T *grad_y;
    __device__ void add(wide_t<T> (&sum)[4], size_t row, size_t index) const
    {
        column<T> at = c.of(index / 4, row % c.run.batch);
        wide_t<T> rows[4], grad = sum_gradient(at, grad_y, row / c.run.batch, rows);
        for (int j = 0; j < 4; j++)
            sum[j] += grad * rows[j];
    }
};

template <class T>
conv<T> conv_of(struct run_shape run, struct tensor x, struct tensor tail, struct tensor base, struct tensor weight)
{
    return {run, (const T *)x.data, (const T *)tail.data, (const T *)base.data, (const T *)weight.data, x.cols};
}

} // namespace

void cuda_short_conv_forward(struct device *device, struct run_shape run, struct tensor y, struct tensor x,
                             struct tensor tail, struct tensor base, struct tensor weight)
{
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        size_t columns = ceil_div(x.cols, THREADS) * run.batch;
        conv<T> c = conv_of<T>(run, x, tail, base, weight);
        launch(forward<T>, dim3(columns, ceil_div(run.tokens, SEGMENT)), THREADS, 0, device, (T *)y.data, c);
        launch(move_on<T>, dim3(columns), THREADS, 0, device, (T *)tail.data, (T *)base.data, c);
    });
}

void cuda_short_conv_backward(struct device *device, struct run_shape run, struct tensor grad_x,
                              struct tensor grad_tail, struct tensor grad_base, struct tensor grad_weight,
                              struct tensor grad_y, struct tensor x, struct tensor tail, struct tensor base,
                              struct tensor weight)
{
    with_type(x.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using A = wide_t<T>;
        conv<T> c = conv_of<T>(run, x, tail, base, weight);
        // First, because grad_x may be grad_y.
        if (grad_weight.data) {
            weight_gradient<T> term = {c, (const T *)grad_y.data};
            column_sums<4, T>(device, tensor_reshape(grad_weight, 1, 4 * x.cols), term, x.dtype, x.rows);
        }
        size_t room = CUDA_SCRATCH_BYTES / (tensor_count(tail) * sizeof(A));
        bool whole = room < 2 || run.documents.device_prefixes.data;
        size_t segment = whole ? run.tokens : std::max(SEGMENT, ceil_div(run.tokens, room));
        dim3 grid(ceil_div(x.cols, THREADS) * run.batch, ceil_div(run.tokens, segment));
        A *behind = whole ? nullptr : (A *)cuda_workspace(device, cuda_stream(device));
        if (behind)
            launch(gradients_behind<T>, grid, THREADS, 0, device, behind, (const A *)grad_tail.data,
                   (const T *)grad_y.data, c, segment);
        launch(backward<T>, grid, THREADS, 0, device, (T *)grad_x.data, (A *)grad_tail.data, (A *)grad_base.data,
               (const A *)behind, (const T *)grad_y.data, c, segment);
    });
}
