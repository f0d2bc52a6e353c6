// Elementwise updates: zeros, copies, sums, scaling, and dequantising.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

// Large fills and copies are split among threads, in pieces of this many bytes.
#define PIECE ((size_t)1 << 18)

void NAME(zero)(struct device *device, struct tensor t)
{
    size_t size = tensor_bytes(t);
#pragma omp parallel for schedule(static) if (size > 2 * PIECE)
    for (size_t first = 0; first < size; first += PIECE)
        memset((char *)t.data + first, 0, size - first < PIECE ? size - first : PIECE);
}

static void copy_bytes(struct tensor dst, struct tensor src)
{
    size_t size = tensor_bytes(dst);
#pragma omp parallel for schedule(static) if (size > 2 * PIECE)
    for (size_t first = 0; first < size; first += PIECE) {
        memcpy((char *)dst.data + first, (const char *)src.data + first,
               size - first < PIECE ? size - first : PIECE);
    }
}

void NAME(copy)(struct device *device, struct tensor dst, struct tensor src)
{
    if (dst.dtype == src.dtype) {
        copy_bytes(dst, src);
        return;
    }
    CHECK(REAL_BITS == 16); // the other devices have a single dtype
    struct accumulator to = accumulator_of(dst), from = accumulator_of(src);
    size_t count = tensor_count(dst);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++)
        accumulator_set(to, i, accumulator_get(from, i));
}

void NAME(copy_columns)(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t from,
                        size_t cols)
{
    size_t size = dtype_bytes(dst.dtype);
    char *first = (char *)dst.data + to * size;
    const char *source = (const char *)src.data + from * size;
#pragma omp parallel for schedule(static) if (dst.rows * cols * size > 2 * PIECE)
    for (size_t r = 0; r < dst.rows; r++)
        memcpy(first + r * dst.cols * size, source + r * src.cols * size, cols * size);
}

void NAME(copy_heads)(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t heads)
{
    size_t size = dtype_bytes(dst.dtype), width = dst.cols / heads, part = src.cols * size;
    char *first = (char *)dst.data + to * size;
    const char *source = src.data;
#pragma omp parallel for schedule(static) if (src.rows * heads * part > 2 * PIECE)
    for (size_t i = 0; i < src.rows * heads; i++)
        memcpy(first + i * width * size, source + i / heads * part, part);
}

void NAME(sum_heads)(struct device *device, struct tensor dst, struct tensor src, size_t from, size_t heads)
{
    struct accumulator to = accumulator_of(dst), of = accumulator_of(src);
    size_t width = src.cols / heads, cols = dst.cols;
#pragma omp parallel for schedule(static) if (dst.rows * heads * cols > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < dst.rows; r++)
        for (size_t first = 0; first < cols; first += STRIP) {
            size_t count = cols - first < STRIP ? cols - first : STRIP;
            real sum[STRIP] = {0};
            for (size_t h = 0; h < heads; h++)
#pragma omp simd
                for (size_t j = 0; j < count; j++)
                    sum[j] += accumulator_get(of, r * src.cols + h * width + from + first + j);
#pragma omp simd
            for (size_t j = 0; j < count; j++)
                accumulator_set(to, r * cols + first + j, accumulator_get(to, r * cols + first + j) + sum[j]);
        }
}

// Tells whether `real` is the accumulator of this dtype.
static bool is_summed(enum dtype dtype)
{
    return dtype == REAL_DTYPE || (REAL_BITS == 16 && dtype == DTYPE_F32);
}

static void add_doubles(struct tensor dst, struct tensor src)
{
    double *to = dst.data;
    const double *from = src.data;
    size_t count = tensor_count(dst);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

void NAME(accumulate)(struct device *device, struct tensor dst, struct tensor src)
{
    if (dst.dtype == DTYPE_F64 && src.dtype == DTYPE_F64) { // sums of a sequence are f64 in every dtype
        add_doubles(dst, src);
        return;
    }
    CHECK(is_summed(dst.dtype) && is_summed(src.dtype));
    struct accumulator to = accumulator_of(dst), from = accumulator_of(src);
    size_t count = tensor_count(dst);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++)
        accumulator_set(to, i, accumulator_get(to, i) + accumulator_get(from, i));
}

void NAME(scale)(struct device *device, struct tensor t, double factor)
{
    struct accumulator data = accumulator_of(t);
    size_t count = tensor_count(t);
#pragma omp parallel for simd schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++)
        accumulator_set(data, i, accumulator_get(data, i) * (real)factor);
}

void NAME(scale_by)(struct device *device, struct tensor t, struct tensor factor)
{
    NAME(scale)(device, t, (double)load(*(const stored *)factor.data));
}

void NAME(dequantise)(struct device *device, struct tensor w, enum quantisation quantisation, struct tensor codes,
                      struct tensor scales)
{
    stored *pw = w.data;
    const uint32_t *words = codes.data;
    const uint32_t *scale_words = scales.data;
    size_t count = tensor_count(w), per_word = codes_per_word(quantisation);
#pragma omp parallel for schedule(static) if (count > PARALLEL_ELEMENTS)
    for (size_t i = 0; i < count; i++) {
        float level = quantised_level(quantisation, words[i / per_word], i % per_word);
        pw[i] = store((real)(quantised_scale(quantisation, scale_words, i) * level));
    }
}
