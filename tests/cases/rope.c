// RoPE: near the context's beginning and far from it, there and back; pairs of every number that a thread may take;
// documents, whose positions begin with each, or continue a prefix.
#include "tests/cases/cases.h"

// document: how long documents are; 0: the positions are the context's. prefix: of the second sequence, one less of
// the first; 0: none.
static void check_rope(struct cases *c, size_t start, size_t half, size_t tokens, size_t document, size_t prefix,
                       int direction)
{
    size_t batch = 2, heads = 3, rows = tokens * batch, cols = heads * 2 * half;
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
    CASE_RUN(c, op_rope(c->device, x->tensor, frequencies->tensor, start, batch, documents, direction));
    for (size_t i = 0; i < rows * heads * half; i++) {
        size_t row = i / (heads * half), head = i / half % heads, j = i % half;
        double *low = &x->values[row * cols + head * 2 * half + j], *high = low + half, a = *low, b = *high;
        double position = (double)(start + row / batch) - starts->values[row] +
                          (starts->values[row] > 0 ? prefixes->values[row % batch] : 0),
               angle = position * frequencies->values[j];
        double rest = fma(position, frequencies->values[j], -angle); // what rounding the angle leaves
        long double sine = sinl(angle), cosine = cosl(angle);
        double cs = (double)(cosine - rest * sine), sn = direction * (double)(sine + rest * cosine);
        *low = a * cs - b * sn;
        *high = b * cs + a * sn;
    }
    // The CPU carries sines over 64 positions.
    case_check(c, x, 1, c->device->ops->dtype == DTYPE_F64 ? 512 : 16,
               "start %zu, documents of %zu after %zu, direction %d", start, document, prefix, direction);
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
            check_rope(c, starts[s], halves[h], tokens, 0, 0, s % 2 ? 1 : -1);
            check_rope(c, starts[s], halves[h], tokens, h % 2 ? 40 : 2, 0, h % 2 ? 1 : -1);
            check_rope(c, starts[s], halves[h], tokens, h % 2 ? 2 : 40, 1 + 60 * h, h % 2 ? 1 : -1);
            c->offset = (s + h) % 4 == 1;
            check_rope(c, starts[s], halves[h], 3, 0, 0, s % 2 ? -1 : 1);
        }
    }
}
