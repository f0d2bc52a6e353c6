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

// How a product [m, n] is cut.
struct tiling {
    size_t m, n;       // of a tile
    size_t rows, cols; // of tiles
};

static struct tiling tiling_of(size_t m, size_t n)
{
    // A small chunk is one row of wide tiles, each of which packs its part of the weights once. Other tiles are
    // square, which packs least, unless that leaves some of four threads idle.
    size_t half = (n + 1) / 2;
    size_t square = (m + 511) / 512 * ((n + 511) / 512) < 4 ? 384 : 512, max = m <= 256 ? 704 : square;
    struct tiling t = {.m = tile_size(m, 512), .n = tile_size(n, m <= 512 && half < max ? half : max)};
    t.rows = (m + t.m - 1) / t.m;
    t.cols = (n + t.n - 1) / t.n;
    return t;
}

struct product {
    struct tensor c;
    struct gemm_operand a, b;
    size_t k;
    double alpha, beta;
};

static void multiply_part(const struct device *device, const struct product *p, const struct tiling *t, size_t i,
                          size_t j)
{
    size_t row = i * t->m, col = j * t->n, m = p->c.rows, n = p->c.cols;
    struct gemm_tile tile = {
        .m = m - row < t->m ? m - row : t->m,
        .n = n - col < t->n ? n - col : t->n,
        .k = p->k,
        .a = {element(p->a, row, 0), p->a.stride, p->a.transpose},
        .b = {element(p->b, 0, col), p->b.stride, p->b.transpose},
        .c = (char *)p->c.data + (row * n + col) * dtype_bytes(p->c.dtype),
        .c_stride = n,
        .c_dtype = p->c.dtype,
        .alpha = p->alpha,
        .beta = p->beta,
    };
    // In another order the first terms are added last.
    size_t last = REAL_BITS == 16 || !device->reverse_sums || p->k <= device->reverse_sums
                      ? 0
                      : p->k / (1 + device->reverse_sums);
    if (last > 0) {
        tile.a.data = element(p->a, row, last);
        tile.b.data = element(p->b, last, col);
        tile.k -= last;
        multiply_tile(device, &tile);
        tile.a.data = element(p->a, row, 0);
        tile.b.data = element(p->b, 0, col);
        tile.k = last;
        tile.beta = 1;
    }
    multiply_tile(device, &tile);
}

void NAME(gemm)(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    struct product p = {
        c,   {a.data, a.cols, transpose_a}, {b.data, b.cols, transpose_b}, transpose_a ? a.rows : a.cols, alpha,
        beta};
    if (c.rows == 0 || c.cols == 0)
        return;
    struct tiling t = tiling_of(c.rows, c.cols);
#pragma omp parallel if (t.rows * t.cols > 1 && (double)c.rows * c.cols * p.k > 1e5)
    {
        omp_set_num_threads(1); // within this region's tasks: BLAS must not start threads
#pragma omp for schedule(dynamic) collapse(2)
        for (size_t j = 0; j < t.cols; j++)
            for (size_t i = 0; i < t.rows; i++)
                multiply_part(device, &p, &t, i, j);
    }
}

void NAME(gemm_onto)(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                     enum transpose transpose_a, struct tensor b, enum transpose transpose_b)
{
    NAME(copy)(device, d, c);
    NAME(gemm)(device, d, a, transpose_a, b, transpose_b, 1, 1);
}

// The tiles of all experts are one list, so that threads share what a single expert would not keep busy.
void NAME(grouped_gemm)(struct device *device, struct expert_rows experts, struct tensor c, struct tensor a,
                        enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha)
{
    size_t count = experts.starts.rows - 1, end = experts.first + a.rows, tiles[ROUTING_EXPERTS_MAX + 1] = {0};
    size_t out = (transpose_a ? c.rows : b.rows) / count;
    struct product products[ROUTING_EXPERTS_MAX];
    for (size_t e = 0; e < count; e++) {
        const int32_t *starts = experts.starts.data;
        size_t from = (size_t)starts[e], to = (size_t)starts[e + 1];
        from = from < experts.first ? experts.first : from > end ? end : from;
        to = to < experts.first ? experts.first : to > end ? end : to;
        size_t row = from - experts.first, rows = to - from;
        struct tensor part = tensor_rows(a, row, rows);
        struct product *p = &products[e];
        *p = (struct product){.alpha = alpha, .beta = 0};
        p->a = (struct gemm_operand){part.data, a.cols, transpose_a};
        if (transpose_a) {
            p->c = tensor_rows(c, e * out, out);
            p->b = (struct gemm_operand){tensor_rows(b, row, rows).data, b.cols, NO_TRANSPOSE};
            p->k = rows;
            p->beta = 1;
        } else {
            p->c = tensor_rows(c, row, rows);
            p->b = (struct gemm_operand){tensor_rows(b, e * out, out).data, b.cols, transpose_b};
            p->k = a.cols;
        }
        tiles[e + 1] = tiles[e];
        if (rows > 0) {
            struct tiling t = tiling_of(p->c.rows, p->c.cols);
            tiles[e + 1] += t.rows * t.cols;
        }
    }
#pragma omp parallel if (tiles[count] > 1)
    {
        omp_set_num_threads(1);
        size_t e = 0;
#pragma omp for schedule(dynamic)
        for (size_t tile = 0; tile < tiles[count]; tile++) {
            while (e > 0 && tile < tiles[e])
                e--;
            while (tile >= tiles[e + 1])
                e++;
            struct tiling t = tiling_of(products[e].c.rows, products[e].c.cols);
            multiply_part(device, &products[e], &t, (tile - tiles[e]) % t.rows, (tile - tiles[e]) / t.rows);
        }
    }
}
