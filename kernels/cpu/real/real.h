// Real: every file of this folder is compiled once per dtype of the device: f64, f32 and bf16. `stored` is a
// tensor's element type, `real` the type of computation: the same, except that bf16 is computed and summed in f32
// and rounded once, to nearest even, when stored. Statistics (rstd, logsumexp) are real. NAME(x) is a symbol's name
// per dtype; BLAS and vector functions have one name. Exponentials use glibc's vector functions (libmvec, below 4
// ulp).
#pragma once
#include "kernels/device/tensor.h"
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if REAL_BITS == 16
typedef float real;
typedef uint16_t stored;
#define NAME(x)    x##_bf16
#define REAL_DTYPE DTYPE_BF16
#elif REAL_BITS == 32
typedef float real;
typedef float stored;
#define NAME(x)    x##_f32
#define REAL_DTYPE DTYPE_F32
#elif REAL_BITS == 64
typedef double real;
typedef double stored;
#define NAME(x)    x##_f64
#define REAL_DTYPE DTYPE_F64
#else
#error "compile with -DREAL_BITS=16, 32 or 64"
#endif

#if REAL_BITS == 64
#define real_gemm     cblas_dgemm
#define real_exp      exp
#define real_sqrt     sqrt
#define REAL_INFINITY INFINITY
#else
#define real_gemm     cblas_sgemm
#define real_exp      expf
#define real_sqrt     sqrtf
#define REAL_INFINITY ((float)INFINITY)
#endif

static inline real load(stored value)
{
#if REAL_BITS == 16
    return dtype_from_bf16(value);
#else
    return value;
#endif
}
static inline stored store(real value)
{
#if REAL_BITS == 16
    return dtype_bf16(value);
#else
    return value;
#endif
}

// An accumulator tensor: weight gradients, gradients of keys and values, optimizer moments. On bf16 devices its
// dtype is real or stored; on others these are the same.
struct accumulator {
    void *data;
    bool narrow;
};
static inline struct accumulator accumulator_of(struct tensor t)
{
    return (struct accumulator){t.data, t.dtype == DTYPE_BF16};
}
static inline real accumulator_get(struct accumulator a, size_t i)
{
#if REAL_BITS == 16
    if (a.narrow)
        return load(((const stored *)a.data)[i]);
#endif
    return ((const real *)a.data)[i];
}
static inline void accumulator_set(struct accumulator a, size_t i, real value)
{
#if REAL_BITS == 16
    if (a.narrow) {
        ((stored *)a.data)[i] = store(value);
        return;
    }
#endif
    ((real *)a.data)[i] = value;
}

// Lets `#pragma omp simd` loops call the vector versions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((simd("notinbranch"))) float expf(float);
__attribute__((simd("notinbranch"))) double exp(double);
#endif
