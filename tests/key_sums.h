// Key sums: gradients of keys and values in bf16 that attention's backward adds to, of operands by which what is
// added is a number of bf16, whatever the order of the terms: keys of 0 and a logsumexp of 0 make every P 1, and
// all other factors are small multiples of powers of two. Only the rounding of the sums can then differ.
#pragma once
#include "kernels/device/ops.h"
#include <stdlib.h>

struct key_sums {
    size_t count;  // of each
    double *k, *v; // [keys * batch, kv_heads * head_dim]
};

static inline void key_sums_free(struct key_sums *sums)
{
    free(sums->k);
    free(sums->v);
}

static inline struct tensor key_sums_drawn(struct device *device, size_t rows, size_t cols, enum dtype dtype,
                                           const char *name, uint64_t choices, double unit)
{
    struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_ACTIVATIONS);
    struct random random = random_named(11, name);
    double *values = malloc((rows * cols + 1) * sizeof *values);
    CHECK(values);
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = choices ? unit * ((double)random_below(&random, i, choices) - (double)(choices / 2)) : 0;
    tensor_write(device, t, values);
    free(values);
    return t;
}

// The sums after the same was added `times` times, each with queries one block further on than the last, to sums
// that began as numbers of bf16. Keys [0, cut) and [cut, keys) are segments of their own, or where `apart` given to
// calls of their own, which must see all keys.
static inline struct key_sums key_sums(struct device *device, struct attention_shape s,
                                       struct key_rounding rounding, size_t cut, bool apart, size_t times)
{
    size_t rows = s.queries * s.batch, cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    size_t keys = attention_keys(s), key_rows = keys * s.batch;
    struct tensor q = key_sums_drawn(device, rows, cols, DTYPE_BF16, "q", 3, 1);
    struct tensor o = key_sums_drawn(device, rows, cols, DTYPE_BF16, "o", 0, 0);
    struct tensor logsumexp = key_sums_drawn(device, rows, s.heads, DTYPE_F32, "logsumexp", 0, 0);
    struct tensor k = key_sums_drawn(device, key_rows, k_cols, DTYPE_BF16, "k", 0, 0);
    struct tensor v = key_sums_drawn(device, key_rows, k_cols, DTYPE_BF16, "v", 0, 0);
    struct tensor grad_o = key_sums_drawn(device, rows, cols, DTYPE_BF16, "grad_o", 5, 0.25);
    struct tensor grad_q = key_sums_drawn(device, rows, cols, DTYPE_BF16, "grad_q", 0, 0);
    struct tensor grad_k = key_sums_drawn(device, key_rows, k_cols, DTYPE_BF16, "grad_k", 200, 1);
    struct tensor grad_v = key_sums_drawn(device, key_rows, k_cols, DTYPE_BF16, "grad_v", 200, 1);
    double *one = calloc(key_rows * k_cols, sizeof *one); // of each head one number, so that dP is one of grad_o's
    CHECK(one);
    for (size_t i = 0; i < key_rows * k_cols; i += s.head_dim)
        one[i] = 1;
    tensor_write(device, v, one);
    free(one);
    size_t ends[] = {0, cut, keys};
    for (size_t n = 0; n < times; n++) {
        struct key_segment segments[2];
        for (size_t i = 0; i < 2; i++) {
            size_t row = ends[i] * s.batch, count = (ends[i + 1] - ends[i]) * s.batch;
            segments[i] = (struct key_segment){ends[i], ends[i + 1] - ends[i], tensor_rows(grad_k, row, count),
                                               tensor_rows(grad_v, row, count), rounding};
            if (apart && count > 0) {
                struct attention_shape part = s;
                struct key_segment alone = segments[i];
                part.start -= ends[i];
                part.keys = alone.count;
                alone.start = 0;
                alone.rounding.origin += ends[i];
                op_attention_backward(device, part, grad_q, false, &alone, 1, grad_o, o, logsumexp, q,
                                      tensor_rows(k, row, count), tensor_rows(v, row, count));
            }
        }
        if (!apart)
            op_attention_backward(device, s, grad_q, false, segments, 2, grad_o, o, logsumexp, q, k, v);
        s.keys = keys;
        s.start += s.queries;
    }
    CHECK(device->status.code == STATUS_OK);
    struct key_sums sums = {.count = key_rows * k_cols};
    sums.k = malloc(sums.count * sizeof *sums.k);
    sums.v = malloc(sums.count * sizeof *sums.v);
    CHECK(sums.k && sums.v);
    tensor_read(device, grad_k, sums.k);
    tensor_read(device, grad_v, sums.v);
    struct tensor *all[] = {&q, &o, &logsumexp, &k, &v, &grad_o, &grad_q, &grad_k, &grad_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(device, all[i]);
    return sums;
}

static inline struct key_rounding key_sums_rounding(uint64_t seed, size_t origin)
{
    return (struct key_rounding){true, random_named(seed, "grad_k"), random_named(seed, "grad_v"), origin};
}
