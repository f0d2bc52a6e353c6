// RoPE: near the context's beginning and far from it, there and back; pairs of every number that a thread may take;
// documents, whose positions begin with each, or continue a prefix; parts of heads, neighbours, and a gain. And the
// factor of queries by position: below and beyond its length, with and without an offset, in the same documents.
#include "tests/cases/cases.h"

#define BATCH 2

// Documents of tokens from `start` on.
struct places {
    struct operand *starts, *prefixes;
    struct documents documents;
};
static struct places places_of(struct cases *c, size_t start, size_t tokens, size_t document, size_t prefix)
{
    struct places p = {.starts = case_integers(c, tokens * BATCH, 0, 1), .prefixes = case_integers(c, BATCH, 0, 1)};
    for (size_t row = 0; document && row < tokens * BATCH;
         row++) { // those of the second sequence end a token sooner
        size_t end = start + row / BATCH + row % BATCH, begin = end / document * document;
        p.starts->values[row] = (double)(begin > row % BATCH ? begin - row % BATCH : 0);
    }
    for (size_t b = 0; prefix && b < BATCH; b++)
        p.prefixes->values[b] = (double)(prefix - 1 + b);
    p.documents = (struct documents){.device_starts = document ? p.starts->tensor : tensor_none(),
                                     .device_prefixes = prefix ? p.prefixes->tensor : tensor_none()};
    return p;
}

static double position_at(const struct places *p, size_t start, size_t row)
{
    double before = p->starts->values[row];
    return (double)(start + row / BATCH) - before + (before > 0 ? p->prefixes->values[row % BATCH] : 0);
}

// document: how long documents are; 0: the positions are the context's. prefix: of the second sequence, one less of
// the first; 0: none.
// rest: numbers of a head that do not turn.
static void check_rope(struct cases *c, size_t start, size_t half, size_t rest, size_t tokens, size_t document,
                       size_t prefix, int direction)
{
    bool interleaved = (half + rest + tokens) % 2;
    struct rope_shape shape = {2 * half + rest, interleaved, rest ? 1.25 : 1};
    size_t batch = BATCH, heads = 3, rows = tokens * batch, cols = heads * shape.head_dim;
    struct operand *x = case_random(c, rows, cols, 1, "x");
    c->offset = 0;
    struct operand *frequencies = case_output_in(c, DTYPE_F64, 1, half);
    for (size_t j = 0; j < half; j++)
        frequencies->values[j] = pow(10000, -(double)j / (double)half);
    struct places places = places_of(c, start, tokens, document, prefix);
    struct documents documents = places.documents;
    CASE_RUN(c, op_rope(c->device, x->tensor, frequencies->tensor, shape, start, batch, documents, direction));
    for (size_t i = 0; i < rows * heads * half; i++) {
        size_t row = i / (heads * half), head = i / half % heads, j = i % half;
        double *head_of = &x->values[row * cols + head * shape.head_dim];
        double *low = head_of + (interleaved ? 2 * j : j), *high = low + (interleaved ? 1 : half), a = *low,
               b = *high;
        double position = position_at(&places, start, row), angle = position * frequencies->values[j];
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

static void check_position_scale(struct cases *c, struct position_scale scale, size_t start, size_t cols,
                                 size_t document, size_t prefix)
{
    size_t tokens = 67, rows = tokens * BATCH;
    struct operand *x = case_random(c, rows, cols, 1, "x");
    c->offset = 0;
    struct places places = places_of(c, start, tokens, document, prefix);
    CASE_RUN(c, op_position_scale(c->device, x->tensor, scale, start, BATCH, places.documents));
    for (size_t i = 0; i < rows * cols; i++) {
        double steps = floor((position_at(&places, start, i / cols) + (double)scale.offset) / (double)scale.length);
        x->values[i] *= 1 + scale.beta * log(1 + steps);
    }
    case_check(c, x, 1, 8, "start %zu, documents of %zu after %zu, length %zu, offset %zu", start, document, prefix,
               scale.length, scale.offset);
    case_end(c);
}

void position_scale_cases(struct cases *c)
{
    static const size_t starts[] = {0, 1, 63, 8191, 1000000}, lengths[] = {1, 16, 30};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            struct position_scale scale = {.beta = 0.1 + (double)j, .length = lengths[j], .offset = i % 2};
            c->offset = (i + j) % 3 == 1;
            check_position_scale(c, scale, starts[i], j == 1 ? 300 : 12, 0, 0);
            check_position_scale(c, scale, starts[i], 10, 60, i == 2 ? 17 : 0);
        }
    }
}
