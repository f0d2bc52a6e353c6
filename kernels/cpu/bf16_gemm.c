#include "kernels/cpu/bf16_gemm.h"
#include "kernels/cpu/onednn.h"
#include <cblas.h>
#include <string.h>

// Sides of a widened block: with its sums it takes 448 KiB of stack, and widening costs little compared with the
// product.
enum { BLOCK_M = 128, BLOCK_N = 192, BLOCK_K = 320 };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void widen(float *to, const uint16_t *from, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = dtype_from_bf16(from[i]);
}

// Widens the block of op(x) at (row, col) in its memory layout; returns the distance between its rows.
static size_t widen_block(float *to, struct gemm_operand x, size_t row, size_t col, size_t rows, size_t cols)
{
    size_t lines = x.transpose ? cols : rows, length = x.transpose ? rows : cols;
    const uint16_t *from = x.data;
    from += x.transpose ? col * x.stride + row : row * x.stride + col;
    for (size_t i = 0; i < lines; i++)
        widen(to + i * length, from + i * x.stride, length);
    return length;
}

static void store_block(const struct gemm_tile *tile, const float *sums, size_t row, size_t col, size_t rows,
                        size_t cols)
{
    float alpha = (float)tile->alpha, beta = (float)tile->beta;
    for (size_t i = 0; i < rows; i++) {
        size_t at = (row + i) * tile->c_stride + col;
        const float *sum = sums + i * cols;
        if (tile->c_dtype == DTYPE_F32) {
            float *c = (float *)tile->c + at;
            for (size_t j = 0; j < cols; j++)
                c[j] = alpha * sum[j] + (beta != 0 ? beta * c[j] : 0);
        } else {
            uint16_t *c = (uint16_t *)tile->c + at;
            for (size_t j = 0; j < cols; j++)
                c[j] = dtype_bf16(alpha * sum[j] + (beta != 0 ? beta * dtype_from_bf16(c[j]) : 0));
        }
    }
}

static void widened_gemm(const struct gemm_tile *tile, bool reverse)
{
    _Alignas(64) float a[BLOCK_M * BLOCK_K], b[BLOCK_K * BLOCK_N], sums[BLOCK_M * BLOCK_N];
    size_t blocks = (tile->k + BLOCK_K - 1) / BLOCK_K;
    // For one block, swaps its halves; cuts two into three, because the sum of two has one order.
    size_t depth = reverse && blocks <= 2 ? (tile->k + blocks) / (blocks + 1) : BLOCK_K;
    blocks = depth ? (tile->k + depth - 1) / depth : 0;
    for (size_t col = 0; col < tile->n; col += BLOCK_N) {
        size_t cols = min(BLOCK_N, tile->n - col);
        for (size_t row = 0; row < tile->m; row += BLOCK_M) {
            size_t rows = min(BLOCK_M, tile->m - row);
            if (blocks == 0)
                memset(sums, 0, rows * cols * sizeof *sums);
            for (size_t j = 0; j < blocks; j++) {
                size_t at = (reverse ? blocks - 1 - j : j) * depth, terms = min(depth, tile->k - at);
                size_t a_stride = widen_block(a, tile->a, row, at, rows, terms);
                size_t b_stride = widen_block(b, tile->b, at, col, terms, cols);
                cblas_sgemm(CblasRowMajor, tile->a.transpose ? CblasTrans : CblasNoTrans,
                            tile->b.transpose ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)terms, 1, a,
                            (int)a_stride, b, (int)b_stride, j > 0, sums, (int)cols);
            }
            store_block(tile, sums, row, col, rows, cols);
        }
    }
}

void bf16_gemm(struct onednn *onednn, const struct gemm_tile *tile, bool reverse)
{
    if (!onednn || reverse || !onednn_gemm(onednn, tile))
        widened_gemm(tile, reverse);
}
