// Compare: the same tensor on the CUDA device, in the dtype under test, and on the CPU in f64, from the same
// values.
#pragma once
#include "kernels/base/ops.h"
#include "kernels/base/random.h"

struct compare {
    struct device *cuda, *cpu;
    enum dtype dtype; // of activations and weights on the CUDA device
    size_t checks, failures;
};

// Opens both devices; false, with a line on stderr, if this machine has no such device. name: "cuda", or "cpu" to
// try a test itself.
bool compare_open(struct compare *compare, const char *name, enum dtype dtype);
void compare_close(struct compare *compare);

struct both {
    struct tensor cuda, cpu;
};

// Standard normal numbers times `deviation`, by name and shape, rounded to the dtype under test. `sums`: in the
// dtype of sums on the CUDA device (f32 above bf16).
struct both both_random(struct compare *compare, size_t rows, size_t cols, double deviation, const char *name);
struct both both_random_sums(struct compare *compare, size_t rows, size_t cols, const char *name);
// NaN, to be written.
struct both both_poisoned(struct compare *compare, size_t rows, size_t cols);
struct both both_poisoned_sums(struct compare *compare, size_t rows, size_t cols);
// Integers in [first, bound).
struct both both_integers(struct compare *compare, size_t count, int32_t first, int32_t bound);
// These values, in the given dtype on both.
struct both both_values(struct compare *compare, size_t rows, size_t cols, enum dtype dtype, const double *values);
// Fails if something was written behind the CUDA tensor's end, up to which the arena rounds.
void both_free(struct compare *compare, struct both *both);
// The CUDA values become the CPU's, where a formula is exact only about its own intermediate results.
void both_adopt(struct compare *compare, struct both *both);

// Every element within `epsilons` of the dtype under test (f32's where the tensor is f32) of the CPU's, relative to
// the largest of them and 1; f64 within 1e-12 and f32 within 1e-5 at most. Counts, and prints a line on failure.
void both_check(struct compare *compare, const struct both *both, double epsilons, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Likewise, within `tolerance` of the largest of them and 1.
void both_check_within(struct compare *compare, const struct both *both, double tolerance, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
