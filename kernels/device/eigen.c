#include "kernels/device/eigen.h"
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define SAMPLES  ((size_t)256) // rows, or columns, of the matrix that are multiplied at once
#define TILE     ((size_t)512) // rows and columns of the Gram matrix that one thread computes
#define WORK     40            // numbers per row of LAPACK's workspace; it requires at least 26
#define INTEGERS 10

// Fortran interfaces of BLAS and LAPACK. The lengths of strings come last.
void dgemm_(const char *transpose_a, const char *transpose_b, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t length_a, size_t length_b);
void dsyevr_(const char *job, const char *range, const char *triangle, const int *n, double *a, const int *lda,
             const double *lowest, const double *highest, const int *first, const int *last,
             const double *tolerance, int *found, double *values, double *vectors, const int *ldvectors,
             int *support, double *work, const int *work_count, int *integers, const int *integer_count, int *info,
             size_t length_job, size_t length_range, size_t length_triangle);

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The scratch's parts, in order.
struct scratch {
    double *vectors; // [rank, s]
    double *gram;    // [s, s], one triangle
    double *samples; // [SAMPLES, s]
    double *values;  // [s]
    double *work;    // [WORK s]
    int *integers;   // [INTEGERS s + 2 rank]
    size_t count;    // total, in f64
};

static struct scratch scratch_of(double *start, size_t s, size_t rank)
{
    size_t integers = (INTEGERS * s + 2 * rank + 1) / 2;
    struct scratch scratch = {.count = 2 * rank * s + s * s + SAMPLES * s + s + WORK * s + integers};
    if (start) {
        scratch.vectors = start;
        scratch.gram = start + 2 * rank * s; // after the vectors and their transpose
        scratch.samples = scratch.gram + s * s;
        scratch.values = scratch.samples + SAMPLES * s;
        scratch.work = scratch.values + s;
        void *rest = scratch.work + WORK * s;
        scratch.integers = rest;
    }
    return scratch;
}

size_t eigen_scratch(size_t rows, size_t cols, size_t rank)
{
    return scratch_of(NULL, smaller(rows, cols), rank).count;
}

// gram += samples^T samples, for `count` samples of s numbers.
static void add_samples(const struct scratch *scratch, size_t s, size_t count)
{
    const double one = 1;
    size_t tiles = (s + TILE - 1) / TILE;
#pragma omp parallel if (tiles > 1)
    {
        omp_set_num_threads(1); // inside this region's tasks: each tile is one call with its own bits
#pragma omp for schedule(dynamic) collapse(2)
        for (size_t j = 0; j < tiles; j++) {
            for (size_t i = 0; i < tiles; i++) {
                int rows = (int)smaller(TILE, s - i * TILE), cols = (int)smaller(TILE, s - j * TILE);
                int k = (int)count, stride = (int)s;
                if (i >= j) {
                    dgemm_("N", "T", &rows, &cols, &k, &one, scratch->samples + i * TILE, &stride,
                           scratch->samples + j * TILE, &stride, &one, scratch->gram + j * TILE * s + i * TILE,
                           &stride, 1, 1);
                }
            }
        }
    }
}

static void fill_gram(const struct scratch *scratch, struct tensor g)
{
    bool tall = g.cols <= g.rows;
    size_t s = tall ? g.cols : g.rows, all = tall ? g.rows : g.cols;
    memset(scratch->gram, 0, s * s * sizeof *scratch->gram);
    for (size_t first = 0; first < all; first += SAMPLES) {
        size_t count = smaller(SAMPLES, all - first);
#pragma omp parallel for schedule(static) if (count * s > 65536)
        for (size_t i = 0; i < s; i++) {
            for (size_t sample = 0; sample < count; sample++) {
                size_t other = first + sample;
                scratch->samples[sample * s + i] =
                    dtype_value(g.data, g.dtype, tall ? other * g.cols + i : i * g.cols + other);
            }
        }
        add_samples(scratch, s, count);
    }
}

// Computes the eigenvectors of the largest eigenvalues, in ascending order, into scratch->vectors and values.
// Overwrites the Gram matrix.
static bool find_vectors(const struct scratch *scratch, size_t s, size_t rank, struct status *status)
{
    double trace = 0;
    for (size_t i = 0; i < s; i++)
        trace += scratch->gram[i * s + i];
    if (!isfinite(trace))
        return status_set(status, STATUS_FAILED, "a gradient that is to be projected is not finite");
    int n = (int)s, first = (int)(s - rank + 1), work_count = WORK * (int)s, integer_count = INTEGERS * (int)s;
    int found = 0, info = 0;
    double none = 0; // limits and tolerance, unused with a range of indices
#pragma omp parallel num_threads(1)
    {
        omp_set_num_threads(1); // the library's own threads would change bits
        dsyevr_("V", "I", "L", &n, scratch->gram, &n, &none, &none, &first, &n, &none, &found, scratch->values,
                scratch->vectors, &n, scratch->integers + INTEGERS * s, scratch->work, &work_count,
                scratch->integers, &integer_count, &info, 1, 1, 1);
    }
    return (info == 0 && found == (int)rank) ||
           status_set(status, STATUS_FAILED, "LAPACK finds no %zu eigenvectors of %zu (%d)", rank, s, info);
}

bool eigen_leading(struct tensor g, size_t rank, bool transposed, double *start, struct status *status)
{
    size_t s = smaller(g.rows, g.cols);
    struct scratch scratch = scratch_of(start, s, rank);
    double *ordered = scratch.vectors + rank * s;
    CHECK(start && rank > 0 && rank <= s && s <= INT_MAX / WORK);
    fill_gram(&scratch, g);
    if (!find_vectors(&scratch, s, rank, status))
        return false;
    for (size_t r = 0; r < rank; r++) {
        const double *vector = scratch.vectors + (rank - 1 - r) * s;
        double largest = 0;
        for (size_t i = 0; i < s; i++)
            largest = fabs(vector[i]) > fabs(largest) ? vector[i] : largest;
        for (size_t i = 0; i < s; i++)
            ordered[transposed ? i * rank + r : r * s + i] = copysign(1, largest) * vector[i];
    }
    memcpy(scratch.vectors, ordered, rank * s * sizeof *ordered);
    return true;
}

bool eigen_inverse_column(double *gram, size_t count, double shift, size_t index, double *column,
                          struct status *status)
{
    double *start = calloc(eigen_scratch(count, count, count), sizeof *start);
    CHECK(start);
    struct scratch scratch = scratch_of(start, count, count);
    scratch.gram = gram;
    bool found = find_vectors(&scratch, count, count, status);
    for (size_t i = 0; i < count; i++) {
        column[i] = 0;
        for (size_t k = 0; found && k < count; k++) {
            const double *vector = scratch.vectors + k * count;
            column[i] += vector[i] * vector[index] / (shift + fmax(scratch.values[k], 0));
        }
    }
    free(start);
    return found;
}
