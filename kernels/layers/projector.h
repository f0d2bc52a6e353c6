// Projector: orthonormal directions P of the shorter side of a matrix, and its gradient G in them, R (Zhao et al.
// 2024, GaLore, arXiv 2403.03507, definition 3.6, one-sided as its code has it).
//     G: [m, n], m >= n:    P: [r, n], R = G P^T: [m, r], and a step N in them is N P
//               m <  n:     P: [m, r], R = P^T G: [r, n],                          P N
#pragma once
#include "kernels/device/ops.h"

// Whether a matrix of rows and cols, [m, n], is of the first kind.
bool projector_on_right(size_t rows, size_t cols);
// The shapes of P and of R alone, for r the smallest of rank, m and n.
struct tensor projector_shape(size_t rows, size_t cols, size_t rank);
struct tensor projected_shape(size_t rows, size_t cols, size_t rank);
// The r of a matrix's p.
size_t projector_rank(struct tensor p, size_t rows, size_t cols);
// p = the leading singular vectors of g, that of the largest value first. The host finds them, whatever the device
// (kernels/offload/host_work.h), by kernels/device/eigen.h: it holds g, p and what that works in.
void projector_find(struct device *device, struct tensor p, struct tensor g);
// r = g in the directions p; g in blocks of rows, which are converted to p's dtype.
void projector_project(struct device *device, struct tensor r, struct tensor p, struct tensor g);
// r += grad_y^T x in the directions p, for the gradient of a matrix of which y = x W^T: by two small products,
// without that gradient. grad_y: [n, rows], x: [n, cols]
void projector_add(struct device *device, struct tensor r, struct tensor p, struct tensor grad_y, struct tensor x,
                   double alpha);
// grad = alpha * rows [first, first + grad.rows), of so many, of the matrix's part of a step n. n: of R's shape and
// p's dtype.
void projector_back(struct device *device, struct tensor grad, struct tensor p, struct tensor n, size_t rows,
                    size_t first, double alpha);
