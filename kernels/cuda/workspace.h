// Workspace: what the CUDA device's operations take from the arena besides their operands; pure functions of the
// shape, without a CUDA header, so that a plan can ask them where there is no CUDA.
#pragma once
#include "kernels/base/device.h"

// Held while the device is open: cuBLASLt's workspace, that of attention's forward and the kernels' partial sums,
// one operation at a time.
#define CUDA_WORKSPACE_BYTES ((size_t)32 << 20)

// cuBLASLt's and cuDNN's kernels may count the elements of a matrix in 32 bits.
#define CUDA_ELEMENTS_MAX ((size_t)INT32_MAX)

// Attention's backward in bf16 runs cuDNN over at most this many queries and keys at a time, which the saved
// logsumexp makes exact: its workspace then does not grow with the context. No more queries than keys.
#ifndef CUDA_ATTENTION_QUERIES // smaller in a test
#define CUDA_ATTENTION_QUERIES 2048
#define CUDA_ATTENTION_KEYS    4096
#define CUDA_ATTENTION_TILE    128 // keys: what an engine takes at once
#endif

// Offsets and size of attention's workspace, for one block of queries and one of keys.
struct cuda_attention_workspace {
    size_t grad_q_sum;                 // f32 [queries * batch, heads * head_dim]: over the blocks of keys
    size_t grad_q;                     // bf16, the same shape: of one block of keys
    size_t grad_k, grad_v;             // bf16 [keys * batch, kv_heads * head_dim]: of one block of queries
    size_t logsumexp, logsumexp_bytes; // f32 [batch, heads, queries]: of one block of queries; and a tile behind
    size_t delta, accumulator;         // cuDNN's: f32 [batch, heads, queries], and with head_dim
    size_t engine, engine_bytes;
    size_t bytes;
};
struct cuda_attention_workspace cuda_attention_layout(struct attention_shape shape);
// What an engine may take for a block of that many queries and keys: they keep dK and dV of every query head in
// bf16, where heads share keys, and one of them a second accumulator of dQ in f32; each aligned as it likes.
size_t cuda_attention_engine_bytes(struct attention_shape shape, size_t queries, size_t keys);

// Whether attention in bf16 is cuDNN's on every GPU built for; else it is the device's own kernels'. Of a single
// query cuDNN's masks and gradients are not to be relied on (its release notes; cudnn-frontend, issue 1072).
bool cuda_attention_by_cudnn(struct attention_shape shape);

// Rows of a block for GEMMs of so many columns: 1,024, or 2,048 where these leave more than a tenth of the
// multiprocessors idle in the last wave of tiles and those leave fewer. 0 multiprocessors: of no card in
// particular.
size_t cuda_block_rows(size_t multiprocessors, size_t cols);

// f32 and f64: own kernels, which accumulate in place.
size_t cuda_attention_backward_workspace(struct attention_shape shape, enum dtype dtype);
