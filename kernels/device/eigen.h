// Eigen: eigenvectors of Gram matrices, on the host in f64, by LAPACK. What a matrix varies along most are the
// leading ones of its own. Squaring halves the digits of small singular values: those above 1e-8 of the largest are
// found well.
#pragma once
#include "kernels/base/status.h"
#include "kernels/device/tensor.h"

// Numbers in f64 that eigen_leading works in, for a matrix of rows and cols.
size_t eigen_scratch(size_t rows, size_t cols, size_t rank);
// The unit eigenvectors of the `rank` largest eigenvalues of g^T g, where g has no more columns than rows, else of
// g g^T: the largest one's first, each with the sign that makes its largest number positive. Their numbers begin
// the scratch: [rank, s], or transposed [s, rank], s the smaller of rows and cols, and no smaller than rank. g is
// in this process's memory, in f64, f32 or bf16. The same bits on any number of threads. False and a status
// (failed): g holds a number that is not finite, or LAPACK gives up.
bool eigen_leading(struct tensor g, size_t rank, bool transposed, double *scratch, struct status *status);
// column = number `index` of (shift + gram)^-1, gram: [count, count], symmetric, which is spent. Eigenvalues below
// 0, which rounding alone makes, count as 0; shift > 0. False and a status as above.
bool eigen_inverse_column(double *gram, size_t count, double shift, size_t index, double *column,
                          struct status *status);
