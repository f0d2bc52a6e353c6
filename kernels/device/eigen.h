// Eigen: eigenvectors of Gram matrices, in f64 on the host, by LAPACK: the singular vectors of a matrix. Squaring
// halves the digits of small singular values: those above 1e-8 of the largest are accurate.
#pragma once
#include "kernels/base/status.h"
#include "kernels/device/tensor.h"

// Size of eigen_leading's scratch for a rows x cols matrix, in f64 numbers.
size_t eigen_scratch(size_t rows, size_t cols, size_t rank);
// Unit eigenvectors of the `rank` largest eigenvalues of g^T g if g has no more columns than rows, else of g g^T,
// in descending order, signed so that each one's largest number is positive. They are at the start of the scratch:
// [rank, s], or transposed [s, rank], with s = min(rows, cols) >= rank. g is in this process's memory, in f64, f32
// or bf16. Bits do not depend on the number of threads. Returns false and a status (failed) if g holds a number
// that is not finite, or LAPACK does not converge.
bool eigen_leading(struct tensor g, size_t rank, bool transposed, double *scratch, struct status *status);
// column = column `index` of (shift + gram)^-1. gram: [count, count], symmetric, overwritten. Negative eigenvalues,
// due to rounding, count as 0; shift > 0. Returns false and a status as above.
bool eigen_inverse_column(double *gram, size_t count, double shift, size_t index, double *column,
                          struct status *status);
