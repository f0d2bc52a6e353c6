#include "kernels/cuda/workspace.h"

#define BF16 2.0 // bytes
#define F32  4.0

_Static_assert((CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE & (CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE - 1)) == 0 &&
                   CUDA_ATTENTION_QUERIES <= CUDA_ATTENTION_QUERIES_MAX &&
                   CUDA_ATTENTION_QUERIES_MAX + CUDA_ATTENTION_TILE <= CUDA_ATTENTION_KEYS,
               "rectangles are a power of two of tiles, and a causal block is no larger than one");

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// ---- blocks

size_t cuda_attention_block_queries(const struct device *device)
{
    return device->whole_attention     ? CUDA_ATTENTION_WHOLE
           : device->attention_queries ? smaller(device->attention_queries, CUDA_ATTENTION_QUERIES_MAX)
                                       : CUDA_ATTENTION_QUERIES;
}

static size_t block_queries(size_t left, size_t most)
{
    return left < most        ? left
           : left == most + 1 ? left / 2 // no block of one query
                              : most;
}

static size_t block_keys(const struct cuda_attention_block *b)
{
    return b->deterministic ? CUDA_ATTENTION_QUERIES : CUDA_ATTENTION_KEYS;
}

// Of so many keys, at least a tile, at most a block's.
static size_t rectangle_keys(size_t left, bool whole, size_t most)
{
    size_t keys = whole ? left / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE : most;
    while (keys > left) {
        keys /= 2;
    }
    return keys;
}

bool cuda_attention_next_block(struct attention_shape s, size_t most, struct cuda_attention_block *b)
{
    size_t keys = attention_keys(s);
    bool causal = attention_is_causal(s), whole = most == CUDA_ATTENTION_WHOLE && !b->deterministic;
    whole &= s.batch * larger(s.queries, keys) * s.heads * s.head_dim <= CUDA_ELEMENTS_MAX;
    if (b->deterministic || (most == CUDA_ATTENTION_WHOLE && !whole)) {
        most = smaller(most, CUDA_ATTENTION_QUERIES);
    }
    b->first = b->queries == 0 || b->last;
    b->key += b->keys;
    if (b->first) {
        b->query += b->queries;
        if (b->query == s.queries) {
            return false;
        }
        b->queries = block_queries(s.queries - b->query, most);
        b->key = 0;
    }
    size_t before = (causal ? s.start + b->query : keys) - b->key; // that are left of those that all queries see
    if (causal && (whole || before < CUDA_ATTENTION_TILE)) {
        b->kind = ATTENTION_CAUSAL;
        b->keys = before + b->queries;
    } else {
        b->kind = before < CUDA_ATTENTION_TILE ? ATTENTION_REST : ATTENTION_RECTANGLE;
        b->keys = b->kind == ATTENTION_REST ? before : rectangle_keys(before, whole, block_keys(b));
    }
    b->last = b->kind != ATTENTION_RECTANGLE || (!causal && b->keys == before);
    return true;
}

struct attention_shape cuda_attention_block_shape(struct attention_shape s, const struct cuda_attention_block *b)
{
    size_t group = b->kind == ATTENTION_RECTANGLE ? s.heads / s.kv_heads : 1;
    s.heads /= group;
    s.queries = b->queries * group;
    s.start = s.start + b->query - b->key;
    s.keys = b->keys;
    return s;
}

struct cuda_key_rows cuda_attention_rows_within(const struct key_segment *segment,
                                                const struct cuda_attention_block *b)
{
    size_t first = larger(segment->start, b->key);
    size_t end = smaller(segment->start + segment->count, b->key + b->keys);
    return (struct cuda_key_rows){first, first < end ? end - first : 0};
}

// Blocks that cost the same, of which attention over a long context has millions: rectangles of the longest kind
// one after another, neither the first nor the last of their queries; and all of these again for further queries,
// as many, that see the same keys.
struct equal_blocks {
    struct cuda_attention_block first;
    size_t of_keys, of_queries;
};

static bool next_equal_blocks(struct attention_shape s, size_t most, struct equal_blocks *blocks)
{
    struct cuda_attention_block *b = &blocks->first;
    bool causal = attention_is_causal(s);
    b->keys *= blocks->of_keys;
    b->query += b->last ? (blocks->of_queries - 1) * b->queries : 0;
    if (!cuda_attention_next_block(s, most, b)) {
        return false;
    }
    if (b->first) { // without what may be shorter
        bool again = !causal && b->queries < s.queries - b->query;
        blocks->of_queries = again ? larger((s.queries - b->query - 2) / b->queries, 1) : 1;
    }
    bool alike = b->kind == ATTENTION_RECTANGLE && !b->first && !b->last && b->keys == block_keys(b);
    size_t before = (causal ? s.start + b->query : attention_keys(s)) - b->key;
    blocks->of_keys = alike ? larger((before - 1) / block_keys(b), 1) : 1; // without what may be the last
    return true;
}

// ---- workspace

// cuDNN's tiles reach beyond the last row.
static size_t whole_tiles(size_t rows)
{
    return (rows + CUDA_ATTENTION_TILE - 1) / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE;
}

size_t cuda_attention_engine_bytes(struct attention_shape shape, const struct cuda_attention_block *b)
{
    struct attention_shape s = cuda_attention_block_shape(shape, b);
    size_t row = s.batch * s.heads * s.head_dim * sizeof(float);
    size_t kept = b->deterministic ? s.batch * s.heads * whole_tiles(s.queries) * whole_tiles(b->keys) * 2
                                   : row * whole_tiles(s.queries);
    return kept + row * (s.heads == s.kv_heads ? 0 : whole_tiles(b->keys)) + 4096;
}

static size_t take(size_t *end, size_t bytes)
{
    size_t offset = *end;
    *end += arena_rounded(bytes);
    return offset;
}

static struct cuda_attention_part take_part(size_t *end, size_t key_elements, size_t engine_bytes)
{
    return (struct cuda_attention_part){.grad_k = take(end, key_elements * 2),
                                        .grad_v = take(end, key_elements * 2),
                                        .engine = take(end, engine_bytes),
                                        .engine_bytes = engine_bytes};
}

struct cuda_attention_workspace cuda_attention_layout(struct attention_shape s, size_t most, bool deterministic)
{
    size_t queries = 0, keys[ATTENTION_REST + 1] = {0}, engine_bytes[ATTENTION_REST + 1] = {0};
    for (struct equal_blocks blocks = {.first.deterministic = deterministic};
         next_equal_blocks(s, most, &blocks);) {
        const struct cuda_attention_block *b = &blocks.first;
        queries = larger(queries, b->queries);
        keys[b->kind] = larger(keys[b->kind], b->keys);
        engine_bytes[b->kind] = larger(engine_bytes[b->kind], cuda_attention_engine_bytes(s, b));
    }
    struct cuda_attention_workspace w = {0};
    size_t rows = queries * s.batch * s.heads, q = rows * s.head_dim, k = s.batch * s.kv_heads * s.head_dim;
    size_t longest = keys[ATTENTION_RECTANGLE], folded = longest && s.heads > s.kv_heads ? q * 2 : 0;
    w.grad_q_sum = take(&w.bytes, longest ? q * sizeof(float) : 0);
    w.grad_q = take(&w.bytes, q * 2);
    w.logsumexp_bytes = rows * sizeof(float);
    w.logsumexp = take(&w.bytes, w.logsumexp_bytes + CUDA_ATTENTION_TILE * sizeof(float));
    w.delta = take(&w.bytes, rows * sizeof(float));
    w.accumulator = take(&w.bytes, deterministic ? 0 : q * sizeof(float));
    size_t causal_end = w.bytes;
    w.causal = take_part(&causal_end, keys[ATTENTION_CAUSAL] * k, engine_bytes[ATTENTION_CAUSAL]);
    w.q = take(&w.bytes, folded);
    w.o = take(&w.bytes, folded);
    w.grad_o = take(&w.bytes, folded);
    w.rectangle = take_part(&w.bytes, longest * k, engine_bytes[ATTENTION_RECTANGLE]);
    w.bytes = larger(w.bytes, causal_end);
    return w;
}

// ---- glue

// Bytes of the segments' rows within a block of keys, read and written, and of the block's own, read; of keys and
// values. Own kernels add to the segments at once.
static double segment_bytes(struct attention_shape s, const struct key_segment *segments, size_t segment_count,
                            const struct cuda_attention_block *b)
{
    double bytes = 0;
    for (size_t i = 0; i < segment_count && b->kind != ATTENTION_REST; i++) {
        double rows = (double)cuda_attention_rows_within(&segments[i], b).count;
        bytes += 2 * (BF16 + 2.0 * (double)dtype_bytes(segments[i].grad_k.dtype)) * rows;
    }
    return bytes * (double)(s.batch * s.kv_heads * s.head_dim);
}

// Of a block: what its graph stores, which is its results and what engines keep from one of their kernels to the
// next, written and read once each; and what is done around it.
static double block_bytes(struct attention_shape s, const struct cuda_attention_block *b)
{
    double rows = (double)(b->queries * s.batch * s.heads), q = rows * (double)s.head_dim;
    double k = (double)(b->keys * s.batch * s.kv_heads * s.head_dim);
    double every_head = (double)(b->keys * s.batch * s.heads * s.head_dim);
    bool grouped = s.heads > s.kv_heads, causal = b->kind == ATTENTION_CAUSAL;
    double bytes = BF16 * q; // dQ
    if (b->kind != ATTENTION_REST) {
        bytes += 2 * BF16 * k + 2 * F32 * rows;                                      // dK and dV; delta
        bytes += b->deterministic ? 2 * BF16 * rows * (double)b->keys : 2 * F32 * q; // dS, or the accumulator
    }
    if (causal && grouped) {
        bytes += 2 * 2 * BF16 * every_head; // dK and dV of every query head
    }
    if (b->first || (causal && grouped)) {
        bytes += 2 * F32 * rows; // logsumexp
    }
    if (b->first && !causal && grouped) {
        bytes += 3 * 2 * BF16 * q; // q, o and grad_o are folded
    }
    if (b->kind == ATTENTION_RECTANGLE) {
        bytes += (BF16 + (b->first ? 1 : 2) * F32) * q; // grad_q_sum
        bytes += b->last ? (F32 + BF16) * q : 0;        // the rows of grad_q
    } else {
        bytes += (2 * BF16 + (b->first ? 0 : F32)) * q; // the rows of grad_q
    }
    return bytes;
}

// ---- as the device asks

// The longest heads that cuDNN has engines for: of the forward on every card, of the backward on sm_90 and on
// others.
#define HEAD_DIM          256
#define BACKWARD_HEAD_DIM 128

bool cuda_attention_forward_by_cudnn(const struct device *device, struct attention_shape shape)
{
    return device->ops->dtype == DTYPE_BF16 && !attention_is_masked(shape) && shape.head_dim % 8 == 0 &&
           shape.head_dim <= HEAD_DIM && shape.queries > 1 && !device->reverse_sums;
}

bool cuda_attention_backward_by_cudnn(const struct device *device, struct attention_shape shape)
{
    size_t longest = device->compute_capability / 10 == 9 ? HEAD_DIM : BACKWARD_HEAD_DIM;
    bool tile = attention_is_causal(shape) || attention_keys(shape) >= CUDA_ATTENTION_TILE;
    bool ordered = device->compute_capability / 10 == 9 && !device->no_deterministic_attention;
    return cuda_attention_forward_by_cudnn(device, shape) && shape.head_dim <= longest && tile &&
           (ordered || !device->deterministic);
}

static double attention_f32_share(const struct device *device, struct attention_shape shape, bool backward)
{
    size_t keys = attention_keys(shape);
    bool by_cudnn =
        backward ? cuda_attention_backward_by_cudnn(device, shape) : cuda_attention_forward_by_cudnn(device, shape);
    bool rest = backward && !attention_is_causal(shape);
    if (device->ops->dtype != DTYPE_BF16) {
        return 0;
    }
    return !by_cudnn ? 1 : rest ? (double)(keys % CUDA_ATTENTION_TILE) / (double)keys : 0;
}

static size_t attention_backward_workspace(const struct device *device, struct attention_shape shape,
                                           const struct key_segment *segments, size_t segment_count)
{
    (void)segments, (void)segment_count;
    return cuda_attention_backward_by_cudnn(device, shape)
               ? cuda_attention_layout(shape, cuda_attention_block_queries(device), device->deterministic).bytes
               : 0;
}

static double attention_backward_glue(const struct device *device, struct attention_shape shape,
                                      const struct key_segment *segments, size_t segment_count)
{
    double bytes = 0;
    if (!cuda_attention_backward_by_cudnn(device, shape)) {
        return 0;
    }
    size_t most = cuda_attention_block_queries(device);
    for (struct equal_blocks blocks = {.first.deterministic = device->deterministic};
         next_equal_blocks(shape, most, &blocks);) {
        struct cuda_attention_block all = blocks.first; // their keys together
        all.keys *= blocks.of_keys;
        bytes += (double)blocks.of_queries * ((double)blocks.of_keys * block_bytes(shape, &blocks.first) +
                                              segment_bytes(shape, segments, segment_count, &all));
    }
    return bytes + CUDA_ATTENTION_TILE * F32; // zeros after the logsumexp
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

// 1,024, or 2,048 where these leave more than a tenth of the multiprocessors idle in the last wave of tiles and
// those leave fewer. A device with 0 multiprocessors is no card in particular.
static size_t block_rows(const struct device *device, size_t cols)
{
    const size_t rows = 1024, multiprocessors = device->multiprocessors;
    bool longer = multiprocessors > 0 && idle(multiprocessors, rows, cols) > 0.1 &&
                  idle(multiprocessors, 2 * rows, cols) < idle(multiprocessors, rows, cols);
    return longer ? 2 * rows : rows;
}

const struct device_rules cuda_rules = {.workspace_bytes = CUDA_WORKSPACE_BYTES,
                                        .elements_max = CUDA_ELEMENTS_MAX,
                                        .attention_backward_workspace = attention_backward_workspace,
                                        .attention_backward_glue = attention_backward_glue,
                                        .attention_f32_share = attention_f32_share,
                                        .block_rows = block_rows};
