// Cases: what every operation of a device is held to: shapes, contracts and, written plainly in f64, its formula.
// One table for all devices: the CPU, CUDA's kernels in the SIMT layer (tests/simt), the emulated card and a GPU.
//
// NAME_cases of an operation NAME goes over its cases. Each makes operands, puts its inputs into their `values`,
// runs the operation, makes of `values` what is expected, checks, and ends:
//     struct operand *x = case_random(c, rows, cols, 1, "x");
//     CASE_RUN(c, op_scale(c->device, x->tensor, 3));
//     for (size_t i = 0; i < rows * cols; i++) { x->values[i] *= 3; }
//     case_check(c, x, 1, 2, "scale");
//     case_end(c);
// Outputs are NaN first, and so is what lies around every operand, which must stay as it is; so must the inputs. A
// device may refuse a case as unsupported; then it must have written nothing.
#pragma once
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#endif
#include "kernels/device/ops.h"
#include <math.h>

struct operand {
    struct tensor tensor;
    double *values; // [rows, cols]
    // The runner's:
    struct tensor memory; // what was allocated, as 16-bit numbers: the tensor and what lies around it
    size_t offset_bytes;  // of the tensor in it
    unsigned char *given, *found;
    bool checked; // an input otherwise: it must be as it was
};

enum { CASE_OPERANDS_MAX = 100 };
// Divisor of the largest case: the sanitizers take ten times as long.
#ifdef __SANITIZE_ADDRESS__
#define CASES_FEWER 10
#else
#define CASES_FEWER 1
#endif

struct cases {
    struct device *device;
    // Cases of more results than this (of attention: scores) are left out. 0: none.
    double largest;
    // Sets another order of threads, or the usual one, in which the same must come out to the bit. NULL: each case
    // is run once.
    void (*reorder)(bool another);
    // In units of the device's dtype: what attention's P and dS are off by, where they are rounded to it.
    double attention_roundings;
    // Likewise of a product that is rounded before it is added to what its result holds: cuBLASLt 13.1 does so on
    // an H200, of some shapes.
    double product_roundings;
    // Tensor cores multiply the delta rule's factors, which are rounded to the device's dtype.
    bool delta_rounds;
    bool omit;     // no operation is run: all cases must fail
    size_t offset; // elements by which the next operands are off an aligned address
    size_t checks, failures;
    size_t ended, passed, refused, left_out; // cases
    // The running case's:
    const char *operation;
    size_t failures_before;
    bool is_refused;
    struct status refusal; // the last one
    struct operand operands[CASE_OPERANDS_MAX];
    size_t operand_count;
};

typedef void operation_cases(struct cases *c);
#define OPERATION(name) operation_cases name##_cases;
DEVICE_OPERATIONS(OPERATION)
#undef OPERATION

// The cases of all operations that the device has, or of one; counts and prints a line on every failure.
void cases_run(struct cases *c, const char *operation);
// The names of all operations, ending in NULL.
const char *const *operation_names(void);

// Whether a case with this number of results is left out.
bool case_is_too_large(struct cases *c, double results);
// Operands of the device's dtype: drawn from a normal distribution, by name and shape; NaN, to be written.
struct operand *case_random(struct cases *c, size_t rows, size_t cols, double deviation, const char *name);
struct operand *case_output(struct cases *c, size_t rows, size_t cols);
// Likewise in another dtype. case_sums: what the device sums in.
enum dtype case_sums(const struct cases *c);
struct operand *case_random_in(struct cases *c, enum dtype dtype, size_t rows, size_t cols, double deviation,
                               const char *name);
struct operand *case_output_in(struct cases *c, enum dtype dtype, size_t rows, size_t cols);
// Integers in [first, bound), as a column.
struct operand *case_integers(struct cases *c, size_t count, int32_t first, int32_t bound);
// The dtypes that an accumulator may have: that of sums, and where it is another the device's.
size_t case_accumulators(const struct cases *c, enum dtype dtypes[2]);

// Runs the call, on the operands' values as they are now, rounded to their dtypes.
#define CASE_RUN(c, call)                                                                                          \
    for (int case_pass = 0; case_runs(c, case_pass); case_pass++)                                                  \
        call;
bool case_runs(struct cases *c, int pass);

// Every element is within roundings units of the device's dtype, and growth units of what it sums in, of its
// expected value, relative to the largest of them and 1. Both 0: it is that value.
void case_check(struct cases *c, struct operand *operand, double roundings, double growth, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// The result in f64; the caller frees it.
double *case_found(const struct operand *operand);
// Fails the case unless the condition holds.
void case_expect(struct cases *c, bool condition, const char *what);
void case_end(struct cases *c);

// Growth of a sum of this number of terms of either sign.
static inline double case_growth(size_t terms)
{
    return fmin(8 * sqrt((double)terms) + 64, 160);
}

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
