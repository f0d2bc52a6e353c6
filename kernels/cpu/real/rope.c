// RoPE (Su et al. 2021), in place; angles in f64. Pairs are (j, j + half), Hugging Face's order, or neighbours.
//   (a, b) = gain (a cos - b sin, b cos + a sin), angle = direction position frequency[j]
// Sines are computed at every 64th position and rotated to the others, with an error of a few f64 roundings. An
// angle's bits depend on the position alone, not on the chunk. The factor of queries by position is here, too.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

#define BLOCK 64  // positions
#define PAIRS 256 // pairs at once: head_dim 512

static void rotate(stored *x, const double *cosine, const double *sine, size_t pairs, size_t half)
{
#pragma omp simd
    for (size_t j = 0; j < pairs; j++) {
        real c = (real)cosine[j], s = (real)sine[j], low = load(x[j]), high = load(x[j + half]);
        x[j] = store(low * c - high * s);
        x[j + half] = store(high * c + low * s);
    }
}

static void rotate_interleaved(stored *x, const double *cosine, const double *sine, size_t pairs)
{
#pragma omp simd
    for (size_t j = 0; j < pairs; j++) {
        real c = (real)cosine[j], s = (real)sine[j], low = load(x[2 * j]), high = load(x[2 * j + 1]);
        x[2 * j] = store(low * c - high * s);
        x[2 * j + 1] = store(high * c + low * s);
    }
}

// Consecutive tokens from a position on: `rows` rows each, of `cols` columns, `step` rows apart.
struct run {
    stored *data;
    size_t position, tokens, rows, step, cols;
};

// Rotates the part of a run with positions in [base, base + BLOCK).
static void rotate_block(struct run run, size_t base, const double *frequency, size_t half, struct rope_shape shape,
                         int direction)
{
    size_t begin = base > run.position ? base : run.position, end = run.position + run.tokens;
    end = base + BLOCK < end ? base + BLOCK : end;
    for (size_t first = 0; first < half; first += PAIRS) {
        size_t pairs = half - first < PAIRS ? half - first : PAIRS;
        double step_cos[PAIRS], step_sin[PAIRS], c[PAIRS], s[PAIRS];
        for (size_t j = 0; j < pairs; j++) {
            // The angle as a sum of two numbers: rounded to one, it would be off by 1e-11 at position 131,072.
            double f = frequency[first + j], angle = f * base, rest = fma(f, base, -angle);
            c[j] = shape.gain * (cos(angle) - rest * sin(angle));
            s[j] = shape.gain * direction * (sin(angle) + rest * cos(angle));
            step_cos[j] = cos(f);
            step_sin[j] = direction * sin(f);
        }
        for (size_t position = base; position < end; position++) {
            if (position >= begin) {
                size_t row = (position - run.position) * run.step;
                stored *end_of_rows = run.data + (row + run.rows) * run.cols;
                for (stored *x = run.data + row * run.cols; x < end_of_rows; x += shape.head_dim)
                    if (shape.interleaved)
                        rotate_interleaved(x + 2 * first, c, s, pairs);
                    else
                        rotate(x + first, c, s, pairs, half);
            }
            for (size_t j = 0; j < pairs; j++) {
                double next = c[j] * step_cos[j] - s[j] * step_sin[j];
                s[j] = s[j] * step_cos[j] + c[j] * step_sin[j];
                c[j] = next;
            }
        }
    }
}

static void rotate_run(struct run run, const double *frequency, size_t half, struct rope_shape shape, int direction)
{
    size_t first = run.position / BLOCK;
    size_t blocks = run.tokens ? (run.position + run.tokens - 1) / BLOCK - first + 1 : 0;
#pragma omp parallel for schedule(static) if (run.tokens * run.rows * run.cols > PARALLEL_ELEMENTS)
    for (size_t block = 0; block < blocks; block++)
        rotate_block(run, (first + block) * BLOCK, frequency, half, shape, direction);
}

// Rotates the tokens of sequence b, document by document.
static void rotate_documents(struct run whole, struct documents documents, size_t b, const double *frequency,
                             size_t half, struct rope_shape shape, int direction)
{
    const int32_t *starts = documents.device_starts.data, *prefixes = documents.device_prefixes.data;
    size_t batch = whole.step, end = 0, prefix = prefixes ? (size_t)prefixes[b] : 0;
    for (size_t begin = 0; begin < whole.tokens; begin = end) {
        int32_t start = starts[begin * batch + b];
        for (end = begin + 1; end < whole.tokens && starts[end * batch + b] == start;)
            end++;
        struct run run = whole;
        run.data += (begin * batch + b) * run.cols;
        run.position += begin - (size_t)start + (start > 0 ? prefix : 0);
        run.tokens = end - begin;
        run.rows = 1;
        rotate_run(run, frequency, half, shape, direction);
    }
}

void NAME(rope)(struct device *device, struct tensor x, struct tensor frequencies, struct rope_shape shape,
                size_t start, size_t batch, struct documents documents, int direction)
{
    struct run run = {x.data, start, x.rows / batch, batch, batch, x.cols};
    for (size_t b = 0; documents.device_starts.data && b < batch; b++)
        rotate_documents(run, documents, b, frequencies.data, frequencies.cols, shape, direction);
    if (!documents.device_starts.data)
        rotate_run(run, frequencies.data, frequencies.cols, shape, direction);
}

void NAME(position_scale)(struct device *device, struct tensor x, struct position_scale scale, size_t start,
                          size_t batch, struct documents documents)
{
    const int32_t *starts = documents.device_starts.data, *prefixes = documents.device_prefixes.data;
#pragma omp parallel for schedule(static) if (tensor_count(x) > PARALLEL_ELEMENTS)
    for (size_t row = 0; row < x.rows; row++) {
        size_t before = starts ? (size_t)starts[row] : 0, prefix = prefixes ? (size_t)prefixes[row % batch] : 0;
        real factor = (real)position_factor(scale, start + row / batch - before + (before > 0 ? prefix : 0));
        stored *values = (stored *)x.data + row * x.cols;
#pragma omp simd
        for (size_t j = 0; j < x.cols; j++)
            values[j] = store(load(values[j]) * factor);
    }
}
