#include "tests/cuda/compare.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

bool compare_open(struct compare *compare, const char *name, enum dtype dtype)
{
    struct status status = {0};
    *compare = (struct compare){.dtype = dtype};
    compare->cuda = device_open(name, dtype, 0, &status);
    if (!compare->cuda) {
        fprintf(stderr, "%s\n", status.message);
        return false;
    }
    compare->cpu = device_open("cpu", DTYPE_F64, 0, &status);
    CHECK(compare->cpu);
    return true;
}

void compare_close(struct compare *compare)
{
    device_close(compare->cuda);
    device_close(compare->cpu);
}

static enum dtype sums(const struct compare *compare)
{
    return compare->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

// What the arena adds behind a tensor, as 16-bit numbers; the tensor may be none.
static struct tensor behind(struct tensor t)
{
    size_t bytes = t.data ? tensor_bytes(t) : 0;
    return (struct tensor){(char *)t.data + bytes, DTYPE_BF16, t.category, 1, (arena_rounded(bytes) - bytes) / 2};
}

enum { BEHIND_MAX = ARENA_ALIGNMENT / 2, MARK = 0x5a5a };

static struct both both_new(struct compare *compare, size_t rows, size_t cols, enum dtype cuda, enum dtype cpu,
                            const double *values)
{
    struct both both = {tensor_new(compare->cuda, rows, cols, cuda, CATEGORY_ACTIVATIONS),
                        tensor_new(compare->cpu, rows, cols, cpu, CATEGORY_ACTIVATIONS)};
    tensor_write(compare->cuda, both.cuda, values);
    tensor_write(compare->cpu, both.cpu, values);
    uint16_t marks[BEHIND_MAX];
    for (size_t i = 0; i < BEHIND_MAX; i++) {
        marks[i] = MARK;
    }
    struct tensor rest = behind(both.cuda);
    if (rest.cols) {
        compare->cuda->ops->upload(compare->cuda, rest, marks);
    }
    return both;
}

static struct both random_both(struct compare *compare, size_t rows, size_t cols, double deviation,
                               enum dtype dtype, const char *name)
{
    struct random random = random_named(rows * 1000003 + cols, name);
    double *values = malloc((rows * cols + 1) * sizeof *values);
    CHECK(values);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < rows * cols; i++) {
        values[i] = dtype_round(deviation * random_normal(&random, i), dtype);
    }
    struct both both = both_new(compare, rows, cols, dtype, DTYPE_F64, values);
    free(values);
    return both;
}

struct both both_random(struct compare *compare, size_t rows, size_t cols, double deviation, const char *name)
{
    return random_both(compare, rows, cols, deviation, compare->dtype, name);
}

struct both both_random_sums(struct compare *compare, size_t rows, size_t cols, const char *name)
{
    return random_both(compare, rows, cols, 1, sums(compare), name);
}

static struct both poisoned(struct compare *compare, size_t rows, size_t cols, enum dtype dtype)
{
    double *values = malloc((rows * cols + 1) * sizeof *values);
    CHECK(values);
    for (size_t i = 0; i < rows * cols; i++) {
        values[i] = NAN;
    }
    struct both both = both_new(compare, rows, cols, dtype, DTYPE_F64, values);
    free(values);
    return both;
}

struct both both_poisoned(struct compare *compare, size_t rows, size_t cols)
{
    return poisoned(compare, rows, cols, compare->dtype);
}

struct both both_poisoned_sums(struct compare *compare, size_t rows, size_t cols)
{
    return poisoned(compare, rows, cols, sums(compare));
}

struct both both_integers(struct compare *compare, size_t count, int32_t first, int32_t bound)
{
    struct random random = random_named(count, "integers");
    double *values = malloc((count + 1) * sizeof *values);
    CHECK(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)first + (double)random_below(&random, i, (uint64_t)(bound - first));
    }
    struct both both = both_new(compare, count, 1, DTYPE_I32, DTYPE_I32, values);
    free(values);
    return both;
}

struct both both_values(struct compare *compare, size_t rows, size_t cols, enum dtype dtype, const double *values)
{
    return both_new(compare, rows, cols, dtype, dtype, values);
}

void both_free(struct compare *compare, struct both *both)
{
    uint16_t marks[BEHIND_MAX];
    struct tensor rest = behind(both->cuda);
    if (rest.cols) {
        compare->cuda->ops->download(compare->cuda, marks, rest);
    }
    for (size_t i = 0; i < rest.cols; i++) {
        if (marks[i] != MARK) {
            fprintf(stderr, "FAIL %s: %zu bytes behind the end of a tensor [%zu, %zu] something was written\n",
                    dtype_name(compare->dtype), 2 * i, both->cuda.rows, both->cuda.cols);
            compare->failures++;
            break;
        }
    }
    tensor_free(compare->cuda, &both->cuda);
    tensor_free(compare->cpu, &both->cpu);
}

void both_adopt(struct compare *compare, struct both *both)
{
    double *values = malloc((tensor_count(both->cpu) + 1) * sizeof *values);
    CHECK(values);
    tensor_read(compare->cpu, both->cpu, values);
    tensor_write(compare->cuda, both->cuda, values);
    // Rounded there: both hold the same again.
    tensor_read(compare->cuda, both->cuda, values);
    tensor_write(compare->cpu, both->cpu, values);
    free(values);
}

static void check(struct compare *compare, const struct both *both, double tolerance, const char *format,
                  va_list arguments) __attribute__((format(printf, 4, 0)));
static void check(struct compare *compare, const struct both *both, double tolerance, const char *format,
                  va_list arguments)
{
    compare->checks++;
    if (compare->cuda->status.code != STATUS_OK || compare->cpu->status.code != STATUS_OK) {
        fprintf(stderr, "FAIL %s: %s%s\n", dtype_name(compare->dtype), compare->cuda->status.message,
                compare->cpu->status.message);
        compare->failures++;
        return;
    }
    size_t count = tensor_count(both->cpu), worst = 0;
    double *found = malloc((count + 1) * sizeof *found), *expected = malloc((count + 1) * sizeof *expected);
    CHECK(found && expected);
    tensor_read(compare->cuda, both->cuda, found);
    tensor_read(compare->cpu, both->cpu, expected);
    double largest = 1, difference = 0; // differences of numbers about 1 may cancel
    for (size_t i = 0; i < count; i++) {
        double d = fabs(found[i] - expected[i]);
        largest = fmax(largest, fabs(expected[i]));
        if (!(d <= difference)) { // NaN too
            difference = d;
            worst = i;
        }
    }
    if (!(difference <= tolerance * largest)) {
        char what[256];
        vsnprintf(what, sizeof what, format, arguments);
        fprintf(
            stderr,
            "FAIL %s %s [%zu, %zu]: element %zu is %.9g, expected %.9g; off by %.2e of the largest, %.2e allowed\n",
            dtype_name(compare->dtype), what, both->cpu.rows, both->cpu.cols, worst, found[worst], expected[worst],
            difference / largest, tolerance);
        compare->failures++;
    }
    free(found);
    free(expected);
}

void both_check(struct compare *compare, const struct both *both, double epsilons, const char *format, ...)
{
    enum dtype dtype = both->cuda.dtype == DTYPE_F32 ? DTYPE_F32 : compare->dtype;
    double tolerance = epsilons * dtype_epsilon(dtype);
    tolerance = dtype == DTYPE_F64   ? fmin(tolerance, 1e-12)
                : dtype == DTYPE_F32 ? fmin(tolerance, 1e-5)
                                     : tolerance;
    va_list arguments;
    va_start(arguments, format);
    check(compare, both, tolerance, format, arguments);
    va_end(arguments);
}

void both_check_within(struct compare *compare, const struct both *both, double tolerance, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    check(compare, both, tolerance, format, arguments);
    va_end(arguments);
}
