#include "kernels/cuda/workspace.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t take(struct cuda_attention_workspace *w, size_t bytes)
{
    size_t offset = w->bytes;
    w->bytes += arena_rounded(bytes);
    return offset;
}

// cuDNN's tiles reach beyond the last row.
static size_t whole_tiles(size_t rows)
{
    return (rows + CUDA_ATTENTION_TILE - 1) / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE;
}

size_t cuda_attention_engine_bytes(struct attention_shape s, size_t queries, size_t keys)
{
    size_t row = s.batch * s.heads * s.head_dim * sizeof(float);
    return row * (whole_tiles(queries) + (s.heads == s.kv_heads ? 0 : whole_tiles(keys))) + 4096;
}

struct cuda_attention_workspace cuda_attention_layout(struct attention_shape s)
{
    size_t queries = smaller(s.queries, CUDA_ATTENTION_QUERIES);
    size_t keys = smaller(s.start + s.queries, CUDA_ATTENTION_KEYS);
    size_t q = queries * s.batch * s.heads * s.head_dim, k = keys * s.batch * s.kv_heads * s.head_dim;
    struct cuda_attention_workspace w = {0};
    w.grad_q_sum = take(&w, q * sizeof(float));
    w.grad_q = take(&w, q * 2);
    w.grad_k = take(&w, k * 2);
    w.grad_v = take(&w, k * 2);
    w.logsumexp_bytes = queries * s.batch * s.heads * sizeof(float);
    w.logsumexp = take(&w, w.logsumexp_bytes + CUDA_ATTENTION_TILE * sizeof(float));
    w.delta = take(&w, queries * s.batch * s.heads * sizeof(float));
    w.accumulator = take(&w, q * sizeof(float));
    w.engine_bytes = cuda_attention_engine_bytes(s, queries, keys);
    w.engine = take(&w, w.engine_bytes);
    return w;
}

bool cuda_attention_by_cudnn(struct attention_shape shape)
{
    return shape.head_dim % 8 == 0 && shape.head_dim <= 128 && shape.queries > 1;
}

size_t cuda_attention_backward_workspace(struct attention_shape shape, enum dtype dtype)
{
    return dtype == DTYPE_BF16 && cuda_attention_by_cudnn(shape) ? cuda_attention_layout(shape).bytes : 0;
}

// Of cuBLASLt's kernels for large products in bf16.
#define GEMM_TILE_ROWS 128
#define GEMM_TILE_COLS 256

// Of the waves that a product of so many rows takes, the share that is idle.
static double idle(size_t multiprocessors, size_t rows, size_t cols)
{
    size_t tiles = rows / GEMM_TILE_ROWS * ((cols + GEMM_TILE_COLS - 1) / GEMM_TILE_COLS);
    size_t waves = (tiles + multiprocessors - 1) / multiprocessors;
    return 1 - (double)tiles / (double)(waves * multiprocessors);
}

size_t cuda_block_rows(size_t multiprocessors, size_t cols)
{
    const size_t rows = 1024;
    bool longer = multiprocessors > 0 && idle(multiprocessors, rows, cols) > 0.1 &&
                  idle(multiprocessors, 2 * rows, cols) < idle(multiprocessors, rows, cols);
    return longer ? 2 * rows : rows;
}
