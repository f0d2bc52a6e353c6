// GEMM: BLAS or oneDNN, whichever is faster, on tiles of the output. Tiles depend on the shape alone and each is
// one single-threaded call, so bits do not depend on the number of threads, unlike with the libraries' own
// threading.
#include "kernels/cpu/bf16_gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/real/kernels.h"
#include <omp.h>

// Tiles are large enough that packing panels of A and B costs little, and of equal size and number enough to keep a
// workstation's threads busy: at least two per side, more for a large output.
static size_t tile_size(size_t extent, size_t preferred)
{
    size_t tiles = (extent + preferred - 1) / preferred;
    size_t size = (extent + tiles - 1) / tiles;
    return (size + 15) / 16 * 16;
}

static const stored *element(struct gemm_operand x, size_t row, size_t col)
{
    return (const stored *)x.data + (x.transpose ? col * x.stride + row : row * x.stride + col);
}

static void multiply_tile(const struct device *device, const struct gemm_tile *tile)
{
#if REAL_BITS == 16
    bf16_gemm(device->backend, tile, device->reverse_sums);
#else
    if (REAL_BITS == 32 && device->backend && tile->k > 0) {
        onednn_sgemm(device->backend, tile);
        return;
    }
    real_gemm(CblasRowMajor, tile->a.transpose ? CblasTrans : CblasNoTrans,
              tile->b.transpose ? CblasTrans : CblasNoTrans, (int)tile->m, (int)tile->n, (int)tile->k,
              (real)tile->alpha, tile->a.data, (int)tile->a.stride, tile->b.data, (int)tile->b.stride,
              (real)tile->beta, tile->c, (int)tile->c_stride);
#endif
}

static void multiply(const struct device *device, struct tensor c, struct gemm_operand a, struct gemm_operand b,
                     size_t k, double alpha, double beta)
{
    size_t m = c.rows, n = c.cols;
    if (m == 0 || n == 0)
        return;
    // A small chunk is one row of wide tiles, each of which packs its part of the weights once. Other tiles are
    // square, which packs least, unless that leaves some of four threads idle.
    size_t half = (n + 1) / 2, tile_m = tile_size(m, 512);
    size_t square = (m + 511) / 512 * ((n + 511) / 512) < 4 ? 384 : 512, max = m <= 256 ? 704 : square;
    size_t tile_n = tile_size(n, m <= 512 && half < max ? half : max);
    size_t tiles_m = (m + tile_m - 1) / tile_m, tiles_n = (n + tile_n - 1) / tile_n;
#pragma omp parallel if (tiles_m * tiles_n > 1 && (double)m * n * k > 1e5)
    {
        omp_set_num_threads(1); // within this region's tasks: BLAS must not start threads
#pragma omp for schedule(dynamic) collapse(2)
        for (size_t j = 0; j < tiles_n; j++) {
            for (size_t i = 0; i < tiles_m; i++) {
                size_t row = i * tile_m, col = j * tile_n;
                struct gemm_tile tile = {
                    .m = m - row < tile_m ? m - row : tile_m,
                    .n = n - col < tile_n ? n - col : tile_n,
                    .k = k,
                    .a = {element(a, row, 0), a.stride, a.transpose},
                    .b = {element(b, 0, col), b.stride, b.transpose},
                    .c = (char *)c.data + (row * n + col) * dtype_bytes(c.dtype),
                    .c_stride = n,
                    .c_dtype = c.dtype,
                    .alpha = alpha,
                    .beta = beta,
                };
                multiply_tile(device, &tile);
            }
        }
    }
}

void NAME(gemm)(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    size_t k = transpose_a ? a.rows : a.cols;
    struct gemm_operand left = {a.data, a.cols, transpose_a}, right = {b.data, b.cols, transpose_b};
    if (REAL_BITS == 16 || !device->reverse_sums || k <= device->reverse_sums) {
        multiply(device, c, left, right, k, alpha, beta);
        return;
    }
    size_t last = k / (1 + device->reverse_sums); // the first terms, added last
    struct gemm_operand left_rest = {element(left, 0, last), a.cols, transpose_a};
    struct gemm_operand right_rest = {element(right, last, 0), b.cols, transpose_b};
    multiply(device, c, left_rest, right_rest, k - last, alpha, beta);
    multiply(device, c, left, right, last, alpha, 1);
}

void NAME(gemm_onto)(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                     enum transpose transpose_a, struct tensor b, enum transpose transpose_b)
{
    NAME(copy)(device, d, c);
    NAME(gemm)(device, d, a, transpose_a, b, transpose_b, 1, 1);
}
