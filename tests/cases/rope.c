// RoPE: near the context's beginning and far from it, there and back; pairs of every number that a thread may take;
// documents, whose positions begin with each, or continue a prefix; parts of heads, neighbours, and a gain.
#include "tests/cases/cases.h"

// document: how long documents are; 0: the positions are the context's. prefix: of the second sequence, one less of
// the first; 0: none.
// rest: numbers of a head that do not turn.
static void check_rope(struct cases *c, size_t start, size_t half, size_t rest, size_t tokens, size_t document,
                       size_t prefix, int direction)
{
    bool interleaved = (half + rest + tokens) % 2;
    struct rope_shape shape = {2 * half + rest, interleaved, rest ? 1.25 : 1};
    size_t batch = 2, heads = 3, rows = tokens * batch, cols = heads * shape.head_dim;
    struct operand *x = case_random(c, rows, cols, 1, "x");
    c->offset = 0;
    struct operand *frequencies = case_output_in(c, DTYPE_F64, 1, half);
    for (size_t j = 0; j < half; j++)
        frequencies->values[j] = pow(10000, -(double)j / (double)half);
    struct operand *starts = case_integers(c, rows, 0, 1);
    for (size_t row = 0; document && row < rows; row++) { // those of the second sequence end a token sooner
        size_t end = start + row / batch + row % batch, begin = end / document * document;
        starts->values[row] = (double)(begin > row % batch ? begin - row % batch : 0);
    }
    struct operand *prefixes = case_integers(c, batch, 0, 1);
    for (size_t b = 0; prefix && b < batch; b++)
        prefixes->values[b] = (double)(prefix - 1 + b);
    struct documents documents = {.device_starts = document ? starts->tensor : tensor_none(),
                                  .device_prefixes = prefix ? prefixes->tensor : tensor_none()};
    CASE_RUN(c, op_rope(c->device, x->tensor, frequencies->tensor, shape, start, batch, documents, direction));
    for (size_t i = 0; i < rows * heads * half; i++) {
        size_t row = i / (heads * half), head = i / half % heads, j = i % half;
        double *head_of = &x->values[row * cols + head * shape.head_dim];
        double *low = head_of + (interleaved ? 2 * j : j), *high = low + (interleaved ? 1 : half), a = *low,
               b = *high;
        double position = (double)(start + row / batch) - starts->values[row] +
                          (starts->values[row] > 0 ? prefixes->values[row % batch] : 0),
               angle = position * frequencies->values[j];
        double left = fma(position, frequencies->values[j], -angle); // what rounding the angle leaves
        long double sine = sinl(angle), cosine = cosl(angle);
        double cs = shape.gain * (double)(cosine - left * sine),
               sn = shape.gain * direction * (double)(sine + left * cosine);
        *low = a * cs - b * sn;
        *high = b * cs + a * sn;
    }
    // The CPU carries sines over 64 positions.
    case_check(c, x, 1, c->device->ops->dtype == DTYPE_F64 ? 512 : 16,
               "start %zu, documents of %zu after %zu, direction %d, %zu numbers of a head that stay%s", start,
               document, prefix, direction, rest, interleaved ? ", interleaved" : "");
    case_end(c);
}

void rope_cases(struct cases *c)
{
    static const size_t starts[] = {0, 1, 63, 64, 4095, 131072, 1000000, ((size_t)1 << 26) + 36},
                        halves[] = {1, 3, 6, 16, 32, 64, 156};
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        for (size_t h = 0; h < sizeof halves / sizeof *halves; h++) {
            // More tokens than the CPU carries a sine over, where few pairs make it cheap.
            size_t tokens = halves[h] <= 6 ? 70 : 5;
            c->offset = (s + h) % 4 == 3;
            check_rope(c, starts[s], halves[h], 0, tokens, 0, 0, s % 2 ? 1 : -1);
            check_rope(c, starts[s], halves[h], s % 3 * halves[h], tokens, h % 2 ? 40 : 2, 0, h % 2 ? 1 : -1);
            check_rope(c, starts[s], halves[h], 0, tokens, h % 2 ? 2 : 40, 1 + 60 * h, h % 2 ? 1 : -1);
            c->offset = (s + h) % 4 == 1;
            check_rope(c, starts[s], halves[h], s % 2 ? 2 : 16, 3, 0, 0, s % 2 ? -1 : 1);
        }
    }
}
