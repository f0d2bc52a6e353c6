// Workspace: what the CUDA device's operations take from the arena besides their operands, and the blocks that
// attention's backward runs in; pure functions, without a CUDA header, so that a plan can ask them where there is
// no CUDA.
#pragma once
#include "kernels/base/device.h"

// Held while the device is open: cuBLASLt's workspace, that of attention's forward and the kernels' partial sums,
// one operation at a time.
#define CUDA_WORKSPACE_BYTES ((size_t)32 << 20)

// cuBLASLt's and cuDNN's kernels may count the elements of a matrix in 32 bits.
#define CUDA_ELEMENTS_MAX ((size_t)INT32_MAX)

// Attention's backward in bf16 runs cuDNN over so many queries and keys at a time, which the saved logsumexp makes
// exact: its workspace then does not grow with the context. No more queries than keys.
#ifndef CUDA_ATTENTION_QUERIES // smaller in a test
#define CUDA_ATTENTION_QUERIES 2048
#define CUDA_ATTENTION_KEYS    16384
#define CUDA_ATTENTION_TILE    128 // keys: what an engine takes at once
#endif
#define CUDA_ATTENTION_QUERIES_MAX                                                                                 \
    ((size_t)CUDA_ATTENTION_KEYS / 2) // of a block, where the device is asked for more
#define CUDA_ATTENTION_WHOLE SIZE_MAX
// How many the device takes at most; CUDA_ATTENTION_WHOLE: all queries against all keys at once, or all whole tiles
// of them.
size_t cuda_attention_block_queries(const struct device *device);

// One run of the backward: a block of queries against a block of keys; they count from the operands' first rows.
// Per block of queries first rectangles, which no mask touches: a power of two of tiles of keys. Last the keys that
// remain of those that its last query sees, bottom-right causal; or, where all queries see all keys, what remains
// of a tile, which the device's own kernels take. In a rectangle the query heads that share a key head are rows of
// it, so that its gradients of keys and values need no sum over heads: row t * group + j of key head g is query t
// of head g * group + j ("folded").
enum cuda_attention_kind { ATTENTION_RECTANGLE, ATTENTION_CAUSAL, ATTENTION_REST };
struct cuda_attention_block {
    size_t query, queries, key, keys;
    enum cuda_attention_kind kind;
    bool first, last;   // of the keys of these queries
    bool deterministic; // said beforehand: the engine keeps dS, in bf16, so that keys are as few as queries
};
// The next block in order, of `most` queries; false after all. A block that is empty, but for `deterministic`,
// comes before the first. Where a tensor of the whole would have 2^31 elements it comes in blocks all the same.
bool cuda_attention_next_block(struct attention_shape shape, size_t most, struct cuda_attention_block *block);
// What the graph of a block sees, or the own kernels: its rows as queries, its heads, its keys.
struct attention_shape cuda_attention_block_shape(struct attention_shape shape,
                                                  const struct cuda_attention_block *block);
// The rows of a segment within a block of keys, counted from the operands' first; count 0: none.
struct cuda_key_rows {
    size_t first, count;
};
struct cuda_key_rows cuda_attention_rows_within(const struct key_segment *segment,
                                                const struct cuda_attention_block *block);
// What an engine may take for a block: they keep dK and dV of every query head in bf16, where heads share keys, and
// one of them a second accumulator of dQ in f32, or deterministic ones dS; each aligned as it likes.
size_t cuda_attention_engine_bytes(struct attention_shape shape, const struct cuda_attention_block *block);

// Offsets and size of attention's workspace, for the largest block of each kind; rows: queries * batch.
struct cuda_attention_workspace {
    size_t grad_q_sum; // f32 [rows, heads * head_dim]: over the rectangles, folded; if there are any
    size_t grad_q;     // bf16, as many elements: of one block of keys
    size_t logsumexp, logsumexp_bytes; // f32 [batch, heads, queries]; and a tile after
    size_t delta, accumulator;         // cuDNN's: f32 [batch, heads, queries], and with head_dim, if there is one
    size_t q, o, grad_o;               // bf16, folded; over them the causal block's part: they are spent by then
    struct cuda_attention_part {
        size_t grad_k, grad_v; // bf16 [keys * batch, kv_heads * head_dim]: of one block of queries
        size_t engine, engine_bytes;
    } rectangle, causal;
    size_t bytes;
};
struct cuda_attention_workspace cuda_attention_layout(struct attention_shape shape, size_t most,
                                                      bool deterministic);

// Whether attention's forward is cuDNN's on this device, as it can be in bf16; else it is the device's own
// kernels', as it is with a mask. Of a single query cuDNN's masks and gradients are not to be relied on (its
// release notes; cudnn-frontend, issue 1072).
bool cuda_attention_forward_by_cudnn(const struct device *device, struct attention_shape shape);
// Whether its backward is: cuDNN sums in one order only, and not always the same; it has engines for long heads on
// sm_90 alone, and there alone engines whose order is always the same. Of keys that all queries see it takes whole
// tiles.
bool cuda_attention_backward_by_cudnn(const struct device *device, struct attention_shape shape);

// Own kernels accumulate in place: they take no workspace, and have no glue. In bf16 they compute in f32.
extern const struct device_rules cuda_rules;
