// RoPE (Su et al. 2021, in Hugging Face's half-rotation order), in place; angles in f64.
//   (x[j], x[j + D/2]) = (x[j] cos - x[j + D/2] sin, x[j + D/2] cos + x[j] sin), angle = direction position
//   frequency[j]
// Sines are computed at every 64th position and carried over the 64 by rotation, at an error of a few f64
// roundings. The angle's bits depend on the position alone, never on the chunk that it falls in.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

#define BLOCK 64  // positions
#define PAIRS 256 // pairs handled at a time: head_dim 512 in one go

static void rotate(stored *x, const double *cosine, const double *sine, size_t pairs, size_t half)
{
#pragma omp simd
    for (size_t j = 0; j < pairs; j++) {
        real c = (real)cosine[j], s = (real)sine[j], low = load(x[j]), high = load(x[j + half]);
        x[j] = store(low * c - high * s);
        x[j + half] = store(high * c + low * s);
    }
}

void NAME(rope)(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                int direction)
{
    (void)device;
    const double *frequency = frequencies.data;
    size_t half = frequencies.cols, heads = x.cols / (2 * half), tokens = x.rows / batch;
    size_t first_block = start / BLOCK, blocks = tokens ? (start + tokens - 1) / BLOCK - first_block + 1 : 0;
    stored *data = x.data;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > PARALLEL_ELEMENTS)
    for (size_t block = 0; block < blocks; block++) {
        size_t base = (first_block + block) * BLOCK;
        size_t begin = base > start ? base : start;
        size_t end = base + BLOCK < start + tokens ? base + BLOCK : start + tokens;
        for (size_t first = 0; first < half; first += PAIRS) {
            size_t pairs = half - first < PAIRS ? half - first : PAIRS;
            double step_cos[PAIRS], step_sin[PAIRS], c[PAIRS], s[PAIRS];
            for (size_t j = 0; j < pairs; j++) {
                // The angle as two numbers: rounded to one, at position 131,072 it would be off by 1e-11.
                double f = frequency[first + j], angle = f * base, rest = fma(f, base, -angle);
                c[j] = cos(angle) - rest * sin(angle);
                s[j] = direction * (sin(angle) + rest * cos(angle));
                step_cos[j] = cos(f);
                step_sin[j] = direction * sin(f);
            }
            for (size_t position = base; position < end; position++) {
                if (position >= begin) {
                    for (size_t r = (position - start) * batch; r < (position - start + 1) * batch; r++) {
                        for (size_t h = 0; h < heads; h++) {
                            rotate(data + r * x.cols + h * 2 * half + first, c, s, pairs, half);
                        }
                    }
                }
                for (size_t j = 0; j < pairs; j++) {
                    double next = c[j] * step_cos[j] - s[j] * step_sin[j];
                    s[j] = s[j] * step_cos[j] + c[j] * step_sin[j];
                    c[j] = next;
                }
            }
        }
    }
}
