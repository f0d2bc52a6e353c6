// Real: every file of this folder is compiled twice, for f32 and f64. `real` is the element, NAME(x) the symbol,
// and the BLAS and vector functions carry one name. Exponentials are glibc's vector functions (libmvec, below 4
// ulp).
#pragma once
#include <cblas.h>
#include <math.h>

#if REAL_BITS == 32
typedef float real;
#define NAME(x)       x##_f32
#define REAL_DTYPE    DTYPE_F32
#define real_gemm     cblas_sgemm
#define real_exp      expf
#define real_sqrt     sqrtf
#define REAL_INFINITY ((float)INFINITY)
#elif REAL_BITS == 64
typedef double real;
#define NAME(x)       x##_f64
#define REAL_DTYPE    DTYPE_F64
#define real_gemm     cblas_dgemm
#define real_exp      exp
#define real_sqrt     sqrt
#define REAL_INFINITY INFINITY
#else
#error "compile with -DREAL_BITS=32 or 64"
#endif

// Lets `#pragma omp simd` loops call the vector versions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((simd("notinbranch"))) float expf(float);
__attribute__((simd("notinbranch"))) double exp(double);
#endif
