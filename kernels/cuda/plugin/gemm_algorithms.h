// GEMM algorithms: the fastest of cuBLASLt's candidates per product, in a file that one run writes and later ones
// read. The first line names the library and the card, each further one a product and its candidate.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#define GEMM_CANDIDATES 8 // candidates requested from cuBLASLt

// A product to choose an algorithm for. All fields have one type, so that problems compare as bytes. Strides count
// elements between rows.
struct gemm_problem {
    uint64_t m, n, k, transpose_a, transpose_b, stride_a, stride_b, stride_c, dtype, dtype_c, tf32;
    uint64_t alignment_a, alignment_b, alignment_c, alignment_d;
};

struct gemm_algorithms;
// Reads the file; a missing file is empty. Returns NULL and a status if it cannot be read, has another format, or
// was written for another `library`, a line such as "cuBLASLt 130101, NVIDIA H200". Release with
// gemm_algorithms_close.
struct gemm_algorithms *gemm_algorithms_open(const char *path, const char *library, struct status *status);
void gemm_algorithms_close(struct gemm_algorithms *algorithms);
// The product's candidate, from 0. Returns false if the file has none.
bool gemm_algorithms_find(const struct gemm_algorithms *algorithms, const struct gemm_problem *problem,
                          size_t *candidate);
// Adds a line to the file. Several processes may add at once; the first line of a product counts.
bool gemm_algorithms_add(struct gemm_algorithms *algorithms, const struct gemm_problem *problem, size_t candidate,
                         struct status *status);
