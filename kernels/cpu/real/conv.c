// Depthwise causal convolution of 4 taps, and SiLU; contracts in kernels/device/device.h. A window is the three
// rows before a token as it sees them. Strips of columns walk through a sequence's tokens, the backward's from the
// last on with the window's gradient.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

// Strips are wide: rows lie far apart.
enum { TAPS = 4, WINDOW = TAPS - 1, WIDTH = 256, AHEAD = 4 };

// A strip of columns of one sequence.
struct strip {
    struct run_sequence sequence;
    size_t first, width, cols; // columns; of a row
    real weight[TAPS][WIDTH];
};

static struct strip strip_of(const struct run_shape *run, size_t b, size_t first, struct tensor weight)
{
    const stored *w = weight.data;
    size_t cols = weight.rows;
    struct strip s = {
        .sequence = run_sequence_of(run, run->documents.device_starts.data, run->documents.device_prefixes.data, b),
        .first = first,
        .width = cols - first < WIDTH ? cols - first : WIDTH,
        .cols = cols};
    for (size_t j = 0; j < TAPS; j++)
        for (size_t c = 0; c < s.width; c++)
            s.weight[j][c] = load(w[(first + c) * TAPS + j]);
    return s;
}

static size_t place(const struct strip *s, size_t row)
{
    return (row * s->sequence.batch + s->sequence.sequence) * s->cols + s->first;
}

// The window of a token whose document begins with it or before the run.
static void window_at(const struct strip *s, size_t t, const stored *tail, const stored *base,
                      stored window[WINDOW][WIDTH])
{
    bool begins = run_begins(&s->sequence, t);
    const stored *from = !begins ? tail : run_continues(&s->sequence, t) ? base : NULL;
    memset(window, 0, WINDOW * sizeof *window);
    for (size_t i = 0; from && i < WINDOW; i++)
        memcpy(window[i], from + place(s, i), s->width * sizeof **window);
}

// rows: of the taps of token t, which is one of the document that begins in the run with token `first` or before
// it.
static void rows_of(const struct strip *s, const stored *x, size_t t, size_t first, stored window[WINDOW][WIDTH],
                    const stored *rows[TAPS])
{
    for (size_t j = 0; j < TAPS; j++)
        rows[j] = t + j >= first + WINDOW ? x + place(s, t + j - WINDOW) : window[t + j - first];
}

// Rows of a strip lie on pages of their own, over which the processor fetches none ahead.
static void fetch(const struct strip *s, const stored *x, size_t t)
{
    const stored *row = x + place(s, t);
    for (size_t c = 0; t < s->sequence.tokens && c < s->width; c += 64 / sizeof *row)
        __builtin_prefetch(row + c);
}

static void put_window(const struct strip *s, stored *to, const stored *const rows[TAPS])
{
    for (size_t i = 0; i < WINDOW; i++)
        memcpy(to + place(s, i), rows[i + 1], s->width * sizeof *to);
}

static void forward(const struct strip *s, stored *y, const stored *x, stored *tail, stored *base)
{
    stored window[WINDOW][WIDTH];
    const stored *rows[TAPS];
    for (size_t t = 0, first = 0; t < s->sequence.tokens; t++) {
        if (t == 0 || run_begins(&s->sequence, t))
            window_at(s, first = t, tail, base, window);
        rows_of(s, x, t, first, window, rows);
        fetch(s, x, t + AHEAD);
        fetch(s, y, t + AHEAD);
        stored *to = y + place(s, t);
#pragma omp simd
        for (size_t c = 0; c < s->width; c++) {
            real sum = s->weight[0][c] * load(rows[0][c]) + s->weight[1][c] * load(rows[1][c]) +
                       s->weight[2][c] * load(rows[2][c]) + s->weight[3][c] * load(rows[3][c]);
            to[c] = store(sum / (1 + real_exp(-sum)));
        }
        if (run_ends_prefix(&s->sequence, t))
            put_window(s, base, rows);
        if (t + 1 == s->sequence.tokens)
            put_window(s, tail, rows);
    }
}

void NAME(short_conv_forward)(struct device *device, struct run_shape run, struct tensor y, struct tensor x,
                              struct tensor tail, struct tensor base, struct tensor weight)
{
    (void)device;
#pragma omp parallel for collapse(2) schedule(static) if (tensor_count(x) > PARALLEL_ELEMENTS)
    for (size_t b = 0; b < run.batch; b++) {
        for (size_t first = 0; first < x.cols; first += WIDTH) {
            struct strip s = strip_of(&run, b, first, weight);
            forward(&s, y.data, x.data, tail.data, base.data);
        }
    }
}

static void get_window(const struct strip *s, real window[WINDOW][WIDTH], const real *from)
{
    for (size_t i = 0; i < WINDOW; i++)
        for (size_t c = 0; c < s->width; c++)
            window[i][c] += from[place(s, i) + c];
}

// One token's: grad_x, and the gradient of the window behind it becomes that of the one before it. Gradients of the
// weights are added to sums.
static void step_back(const struct strip *s, const stored *const rows[TAPS], const stored *grad_y, stored *grad_x,
                      real window[WINDOW][WIDTH], real sums[TAPS][WIDTH])
{
#pragma omp simd
    for (size_t c = 0; c < s->width; c++) {
        real r0 = load(rows[0][c]), r1 = load(rows[1][c]), r2 = load(rows[2][c]), r3 = load(rows[3][c]);
        real sum = s->weight[0][c] * r0 + s->weight[1][c] * r1 + s->weight[2][c] * r2 + s->weight[3][c] * r3;
        real sigma = 1 / (1 + real_exp(-sum)), grad = load(grad_y[c]) * sigma * (1 + sum * (1 - sigma));
        sums[0][c] += grad * r0, sums[1][c] += grad * r1, sums[2][c] += grad * r2, sums[3][c] += grad * r3;
        grad_x[c] = store(window[2][c] + s->weight[3][c] * grad);
        window[2][c] = window[1][c] + s->weight[2][c] * grad;
        window[1][c] = window[0][c] + s->weight[1][c] * grad;
        window[0][c] = s->weight[0][c] * grad;
    }
}

static void backward(const struct strip *s, stored *grad_x, real *grad_tail, real *grad_base, const stored *grad_y,
                     const stored *x, const stored *tail, const stored *base, real sums[TAPS][WIDTH])
{
    stored window[WINDOW][WIDTH];
    const stored *rows[TAPS];
    real grads[WINDOW][WIDTH] = {{0}};
    get_window(s, grads, grad_tail);
    for (size_t t = s->sequence.tokens, first = t; t-- > 0;) {
        if (first > t)
            window_at(s, first = run_first(&s->sequence, t), tail, base, window);
        if (run_ends(&s->sequence, t))
            memset(grads, 0, sizeof grads);
        if (run_ends_prefix(&s->sequence, t))
            get_window(s, grads, grad_base);
        rows_of(s, x, t, first, window, rows);
        fetch(s, x, t - WINDOW - AHEAD);
        fetch(s, grad_y, t - AHEAD);
        fetch(s, grad_x, t - AHEAD);
        step_back(s, rows, grad_y + place(s, t), grad_x + place(s, t), grads, sums);
        for (size_t i = 0; i < WINDOW && run_continues(&s->sequence, t); i++)
            for (size_t c = 0; c < s->width; c++)
                grad_base[place(s, i) + c] += grads[i][c];
    }
    bool begins = run_begins(&s->sequence, 0);
    for (size_t i = 0; i < WINDOW; i++)
        for (size_t c = 0; c < s->width; c++)
            grad_tail[place(s, i) + c] = begins ? 0 : grads[i][c];
}

void NAME(short_conv_backward)(struct device *device, struct run_shape run, struct tensor grad_x,
                               struct tensor grad_tail, struct tensor grad_base, struct tensor grad_weight,
                               struct tensor grad_y, struct tensor x, struct tensor tail, struct tensor base,
                               struct tensor weight)
{
    (void)device;
    struct accumulator out = accumulator_of(grad_weight);
#pragma omp parallel for schedule(static) if (tensor_count(x) > PARALLEL_ELEMENTS)
    for (size_t first = 0; first < x.cols; first += WIDTH) {
        real sums[TAPS][WIDTH] = {{0}};
        size_t width = 0;
        for (size_t b = 0; b < run.batch; b++) {
            struct strip s = strip_of(&run, b, first, weight);
            width = s.width;
            backward(&s, grad_x.data, grad_tail.data, grad_base.data, grad_y.data, x.data, tail.data, base.data,
                     sums);
        }
        for (size_t i = 0; grad_weight.data && i < width * TAPS; i++) {
            size_t at = first * TAPS + i;
            accumulator_set(out, at, accumulator_get(out, at) + sums[i % TAPS][i / TAPS]);
        }
    }
}
