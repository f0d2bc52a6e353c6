// GEMM: BLAS on tiles of the output. The tiles depend on the shape alone and each is one single-threaded call, so
// the result has the same bits on any number of threads; BLAS's own threading does not promise that.
#include "kernels/cpu/real/kernels.h"
#include <omp.h>

// Tiles are large enough that packing a panel of A or B per tile costs little, and there are enough of them, of
// equal size, to keep the threads of a workstation busy to the end: at least two, and more where the output is
// large.
static size_t tile_size(size_t extent, size_t preferred)
{
    size_t tiles = (extent + preferred - 1) / preferred;
    size_t size = (extent + tiles - 1) / tiles;
    return (size + 15) / 16 * 16;
}

static void multiply(struct tensor c, const real *a, size_t a_stride, enum transpose transpose_a, const real *b,
                     size_t b_stride, enum transpose transpose_b, size_t k, double alpha, double beta)
{
    size_t m = c.rows, n = c.cols;
    // A small chunk is one row of tiles: each packs its part of the weights once, so they are wide.
    size_t half = (n + 1) / 2, most = m <= 256 ? 704 : 384;
    size_t tile_m = tile_size(m, 512), tile_n = tile_size(n, m <= 512 && half < most ? half : most);
    size_t tiles_m = (m + tile_m - 1) / tile_m, tiles_n = (n + tile_n - 1) / tile_n;
#pragma omp parallel if (tiles_m * tiles_n > 1 && (double)m * n * k > 1e5)
    {
        omp_set_num_threads(1); // of this region's tasks: BLAS must not start threads of its own
#pragma omp for schedule(dynamic) collapse(2)
        for (size_t j = 0; j < tiles_n; j++) {
            for (size_t i = 0; i < tiles_m; i++) {
                size_t row = i * tile_m, col = j * tile_n;
                size_t rows = m - row < tile_m ? m - row : tile_m, cols = n - col < tile_n ? n - col : tile_n;
                real_gemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                          transpose_b ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)k, (real)alpha,
                          a + (transpose_a ? row : row * a_stride), (int)a_stride,
                          b + (transpose_b ? col * b_stride : col), (int)b_stride, (real)beta,
                          (real *)c.data + row * n + col, (int)n);
            }
        }
    }
}

void NAME(gemm)(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    size_t k = transpose_a ? a.rows : a.cols;
    const real *pa = a.data, *pb = b.data;
    if (!device->reverse_sums || k < 2) {
        multiply(c, pa, a.cols, transpose_a, pb, b.cols, transpose_b, k, alpha, beta);
        return;
    }
    // The second half of the terms first.
    size_t half = k / 2;
    multiply(c, pa + (transpose_a ? half * a.cols : half), a.cols, transpose_a,
             pb + (transpose_b ? half : half * b.cols), b.cols, transpose_b, k - half, alpha, beta);
    multiply(c, pa, a.cols, transpose_a, pb, b.cols, transpose_b, half, alpha, 1);
}
