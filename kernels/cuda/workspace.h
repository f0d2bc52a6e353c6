// Workspace: memory that the CUDA device's operations take from the arena besides operands, and attention's blocks;
// functions of shapes and the environment, without a CUDA header, so that plans use them without CUDA.
#pragma once
#include "kernels/device/device.h"

// Held while the device is open: workspace of cuBLASLt, attention's forward and the kernels' partial sums, for one
// operation at a time.
#define CUDA_WORKSPACE_BYTES ((size_t)32 << 20)

// The maximum rank of low_rank's kernels, and the columns of a strip, whose gradient a block keeps.
#define CUDA_LOW_RANK_MAX   32
#define CUDA_LOW_RANK_STRIP 512

// cuBLASLt's and cuDNN's kernels may count a matrix's elements in 32 bits.
#define CUDA_ELEMENTS_MAX ((size_t)INT32_MAX)
// The longest head that attention's own kernels hold; cuDNN's have no longer ones.
#define CUDA_HEAD_MAX 256

// Sizes of cuDNN's blocks of queries and keys in bf16 attention. The logsumexp makes blocks exact, and the
// workspace does not grow with the context. Queries <= keys.
#ifndef CUDA_ATTENTION_QUERIES // smaller in a test
#define CUDA_ATTENTION_QUERIES 2048
#define CUDA_ATTENTION_KEYS    16384
#define CUDA_ATTENTION_TILE    128 // queries or keys of an engine's tile
#endif
#define CUDA_ATTENTION_QUERIES_MAX                                                                                 \
    ((size_t)CUDA_ATTENTION_KEYS / 2) // of a block, where the device is asked for more
#define CUDA_ATTENTION_WHOLE SIZE_MAX
// Maximum queries of a block on the device; CUDA_ATTENTION_WHOLE: all queries against all keys at once, or all
// whole tiles of them.
size_t cuda_attention_block_queries(const struct device *device);

// A run: a block of queries against a block of keys, counted from the operands' first tokens. A rectangle, which
// has no mask, is a power of two of key tiles; its query heads that share a key head become rows ("folded"), so
// that its dK and dV need no sum over heads: row t * group + j of key head g is query t of head g * group + j. A
// causal block is bottom-right aligned, a windowed one also has a left bound. The device's own kernels run untiled
// blocks, whose rows or keys fill no tile.
enum cuda_attention_kind { ATTENTION_RECTANGLE, ATTENTION_CAUSAL, ATTENTION_WINDOW, ATTENTION_UNTILED };
struct cuda_attention_block {
    size_t sequence, sequences; // of the batch
    size_t query, queries;      // whose results are used
    size_t row, rows;           // rows that run: these and, to fill tiles, others whose results are discarded
    size_t key, keys;           // seen by all rows, or as the kind says
    size_t taken_keys;          // of these keys, the ones that the queries see
    size_t base, base_end;      // queries whose dQ is summed together
    enum cuda_attention_kind kind;
    bool prefix;      // a rectangle of a prefix's keys
    bool first, last; // among the keys of these queries
    bool summed;      // rectangles contribute to these queries' dQ
    bool prepared;    // rows and queries are those of the previous run, in the same form
    // A forward's range of keys, run as `parts` sequences: part p has keys p, p + parts, ...; 0: not split.
    // prepared: the queries were repeated for the previous range.
    size_t parts;
    // Set by cuda_attention_blocks:
    bool deterministic; // the engine keeps dS in bf16, so keys are limited like queries
    bool unfused;       // the engine sums dK and dV over query heads that share a key head
};
// The start value for a backward on the device.
struct cuda_attention_block cuda_attention_blocks(const struct device *device);
// Advances to the next block; returns false after the last. Begin with the value of cuda_attention_blocks. Per
// document of a sequence, or per sequence, blocks have at most `max` queries, in whole tiles. A block of queries
// runs its rectangles first, then the causal or windowed rest of its keys, last the remainders of a prefix or of
// keys that all queries see. Documents that continue a prefix see it in blocks of several documents' queries. max
// SIZE_MAX: all queries against all keys at once, or all whole tiles of them, unless a mask or 2^31 elements of a
// tensor forbid it.
bool cuda_attention_next_block(struct attention_shape shape, size_t max, struct cuda_attention_block *block);
// The shape that a block's graph or the own kernels compute. Its queries are the block's rows, for the own kernels
// the block's queries; its batch is the block's sequences. Only the own kernels get a window.
struct attention_shape cuda_attention_block_shape(struct attention_shape shape,
                                                  const struct cuda_attention_block *block);
// Tells whether a block's queries are folded: in rectangles of shared key heads, and in blocks without all
// sequences of the batch, which the copies leave out.
bool cuda_attention_is_folded(struct attention_shape shape, const struct cuda_attention_block *block);
// Tells whether a block has dK and dV of every query head, which are summed when they are added to the segments.
bool cuda_attention_has_every_head(struct attention_shape shape, const struct cuda_attention_block *block);
// Query i of a windowed block sees no key below i + 1 - this, counted from the block's first.
size_t cuda_attention_left_bound(struct attention_shape shape, const struct cuda_attention_block *block);
// Pairs of a query and a key that the block is charged for, over all sequences and one head: in a causal or
// windowed block those on and below the diagonal.
double cuda_attention_block_pairs(const struct cuda_attention_block *block);
// Maximum queries of a forward's block, so that its O and logsumexp fit beside an engine's workspace.
size_t cuda_attention_forward_queries(struct attention_shape shape);
// Advances to the next block of the forward. With a mask, blocks are those of cuda_attention_next_block. Without
// one, all queries run against all keys at once, or the keys that all queries see are cut into ranges (split-KV,
// Dao 2023, "Flash-Decoding"): first the remainder of the shortest range, with the mask, then ranges from the last
// key to the first, each a longer power of two, so that few lengths occur for any context. A range runs in parts if
// the queries' tiles would leave multiprocessors idle. Keys are cut if they are many compared with the queries, and
// earlier if multiprocessors are idle.
bool cuda_attention_next_forward(const struct device *device, struct attention_shape shape,
                                 struct cuda_attention_block *block);
// Tells whether a forward's block is merged with earlier ones. Otherwise it writes O and the logsumexp directly.
bool cuda_attention_is_merged(const struct cuda_attention_block *block);

// Rows of a segment within a block's keys, counted from the operands' first; count 0: none.
struct cuda_key_rows {
    size_t first, count;
};
struct cuda_key_rows cuda_attention_rows_within(const struct key_segment *segment,
                                                const struct cuda_attention_block *block);
// Upper bounds of an engine's workspace: a constant for a forward, a function of the block for a backward. A
// backward engine may keep a second f32 accumulator of dQ, or dS in bf16 if it is deterministic; and, if it sums
// them over query heads, dK and dV of every query head in bf16. The bound includes room for alignment.
#define CUDA_ATTENTION_FORWARD_BYTES ((size_t)8 << 20)
size_t cuda_attention_engine_bytes(struct attention_shape shape, const struct cuda_attention_block *block);

// Offsets and size of attention's workspace, for the largest block of each kind. rows: of a block, over its
// sequences; strided rows: over all sequences of the batch.
struct cuda_attention_workspace {
    size_t grad_q_sum; // f32 [rows, heads * head_dim]: over the rectangles, folded; if there are any
    size_t grad_q;     // bf16, of one block of keys: [rows, heads * head_dim] folded, or [strided rows, ...]
    size_t logsumexp;  // f32 [sequences, heads, queries]
    size_t delta,
        accumulator; // of cuDNN: f32 [sequences, heads, queries], the accumulator with head_dim, if there is one
    size_t q, o, grad_o; // bf16, folded; overlaid by the other blocks' part, which comes later
    struct cuda_attention_part {
        size_t grad_k, grad_v; // bf16 [keys * sequences, kv_heads or heads * head_dim]: of one block of queries
        size_t engine, engine_bytes;
    } rectangle, masked; // masked: causal or windowed
    size_t bytes;
};
struct cuda_attention_workspace cuda_attention_layout(const struct device *device, struct attention_shape shape);

// Tells whether the device, or the environment through LONGBP_MASKED_ATTENTION=own, runs all masked attention with
// own kernels, so that both can be measured.
bool cuda_masks_by_own_kernels(const struct device *device);
// Tell whether the delta rule and experts' products multiply on tensor cores on this device, which bf16 does unless
// the environment has LONGBP_DELTA=simt or LONGBP_GROUPED=simt, so that both can be measured.
bool cuda_delta_takes_tensor_cores(const struct device *device);
bool cuda_grouped_takes_tensor_cores(const struct device *device);
// Tells whether attention's forward uses cuDNN on this device, which requires bf16; else it uses the device's own
// kernels. Masked attention uses cuDNN from a tile of queries on, except windows of more than two blocks of keys
// and windows that reach into a prefix. For a single query cuDNN's masks and gradients are unreliable (its release
// notes; cudnn-frontend, issue 1072).
bool cuda_attention_forward_by_cudnn(const struct device *device, struct attention_shape shape);
// The same for the backward: cuDNN sums in one order only, and not always the same; it supports long heads on sm_90
// alone. It takes whole tiles of queries, and of keys that all queries see.
bool cuda_attention_backward_by_cudnn(const struct device *device, struct attention_shape shape);

// Own kernels accumulate in place: they need no workspace and no glue. In bf16 they compute in f32.
extern const struct device_rules cuda_rules;
