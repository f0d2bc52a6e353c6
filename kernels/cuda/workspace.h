// Workspace: what the CUDA device's operations take from the arena besides their operands, and the blocks that
// attention runs in; functions of shapes and the environment, without a CUDA header, so that a plan can ask them
// where there is no CUDA.
#pragma once
#include "kernels/device/device.h"

// Held while the device is open: cuBLASLt's workspace, that of attention's forward and the kernels' partial sums,
// one operation at a time.
#define CUDA_WORKSPACE_BYTES ((size_t)32 << 20)

// The longest rank of low_rank's kernels, and the columns of a strip, of which a block of them keeps the gradient.
#define CUDA_LOW_RANK_MAX   32
#define CUDA_LOW_RANK_STRIP 512

// cuBLASLt's and cuDNN's kernels may count the elements of a matrix in 32 bits.
#define CUDA_ELEMENTS_MAX ((size_t)INT32_MAX)

// Attention in bf16 runs cuDNN over so many queries and keys at a time where it is cut, which the
// logsumexp makes exact: its workspace then does not grow with the context. No more queries than keys.
#ifndef CUDA_ATTENTION_QUERIES // smaller in a test
#define CUDA_ATTENTION_QUERIES 2048
#define CUDA_ATTENTION_KEYS    16384
#define CUDA_ATTENTION_TILE    128 // queries or keys: what an engine takes at once
#endif
#define CUDA_ATTENTION_QUERIES_MAX                                                                                 \
    ((size_t)CUDA_ATTENTION_KEYS / 2) // of a block, where the device is asked for more
#define CUDA_ATTENTION_WHOLE SIZE_MAX
// How many the device takes at most; CUDA_ATTENTION_WHOLE: all queries against all keys at once, or all whole tiles
// of them.
size_t cuda_attention_block_queries(const struct device *device);

// One run: a block of queries against a block of keys; they count from the operands' first tokens. A rectangle,
// which no mask touches, is a power of two of tiles of keys; in it the query heads that share a key head are rows,
// so that its gradients of keys and values need no sum over heads: row t * group + j of key head g is query t of
// head g * group + j ("folded"). A causal block is bottom-right aligned, a windowed one has a left bound besides.
// The device's own kernels run an untiled block, whose rows or keys fill no tile.
enum cuda_attention_kind { ATTENTION_RECTANGLE, ATTENTION_CAUSAL, ATTENTION_WINDOW, ATTENTION_UNTILED };
struct cuda_attention_block {
    size_t sequence, sequences; // of the batch
    size_t query, queries;      // whose results are taken
    size_t row, rows;           // that are run: these and, to whole tiles, others, whose results are not taken
    size_t key, keys;           // of which rows see all, or as the kind says
    size_t taken_keys;          // of them, those that the queries see
    size_t base, base_end;      // queries whose dQ is summed together
    enum cuda_attention_kind kind;
    bool prefix;      // a rectangle of a prefix's keys
    bool first, last; // of the keys of these queries
    bool summed;      // rectangles have a part in these queries' dQ
    bool prepared;    // the rows, and those taken, are those of the run before, in the same form
    // A forward's range of keys, run as so many sequences at once: part p of them has keys p, p + parts, ...; 0: as
    // one. prepared: the queries were repeated for the range before.
    size_t parts;
    // Said beforehand (cuda_attention_blocks):
    bool deterministic; // the engine keeps dS, in bf16, so that keys are as few as queries
    bool unfused;       // it also sums dK and dV over the query heads that share a key head
};
// Before the first block of a backward on the device.
struct cuda_attention_block cuda_attention_blocks(const struct device *device);
// The next block in order; false after all. A block that is empty, but for what is said beforehand, comes
// before the first. Per document of a sequence, or
// per sequence, blocks of at most `most` queries, in whole tiles; of a block first the rectangles, then the causal
// or windowed rest of its keys, last what rectangles leave of a prefix or of keys that all queries see. Documents
// that continue a prefix see it in blocks of queries of several documents. most SIZE_MAX: all queries against all
// keys at once, or all whole tiles of them, unless a mask or 2^31 elements of a tensor forbid it.
bool cuda_attention_next_block(struct attention_shape shape, size_t max, struct cuda_attention_block *block);
// The shape that a block's graph or the own kernels compute. Its queries are the block's rows, for the own kernels
// the block's queries; its batch is the block's sequences. Only the own kernels get a window.
struct attention_shape cuda_attention_block_shape(struct attention_shape shape,
                                                  const struct cuda_attention_block *block);
// Whether a block's queries are folded: a rectangle's, where heads share keys; and where it has not all sequences
// of the batch, whose rows the folded copies leave out.
bool cuda_attention_is_folded(struct attention_shape shape, const struct cuda_attention_block *block);
// Whether a block's dK and dV are those of every query head, which are summed where they are added to the segments.
bool cuda_attention_has_every_head(struct attention_shape shape, const struct cuda_attention_block *block);
// Query i of a windowed block sees no key below i + 1 - this, counted from the block's first.
size_t cuda_attention_left_bound(struct attention_shape shape, const struct cuda_attention_block *block);
// Pairs of a query and a key that the block is charged with: of a causal or windowed one those on and below the
// diagonal, of all sequences and a head.
double cuda_attention_block_pairs(const struct cuda_attention_block *block);
// The most queries of a forward's block, so that a block's O and logsumexp have room beside an engine's workspace.
size_t cuda_attention_forward_queries(struct attention_shape shape);
// The next block of the forward, as above. With a mask it is cuda_attention_next_block's. Without one, all queries
// run against all keys at once, or the keys that all queries see are cut into ranges (split-KV, Dao 2023, "Flash-
// Decoding"): first what is left of the shortest range, with the mask, then ranges from the last key to the first,
// each a longer power of two. So few lengths come up, whatever the context. A range runs in parts where the
// queries' tiles would leave multiprocessors idle. Keys are cut if they are many beside the queries, and fewer do
// if multiprocessors are idle.
bool cuda_attention_next_forward(const struct device *device, struct attention_shape shape,
                                 struct cuda_attention_block *block);
// Whether a forward's block is merged with those before it. Else it writes O and the logsumexp where they belong.
bool cuda_attention_is_merged(const struct cuda_attention_block *block);

// The rows of a segment within a block's keys, counted from the operands' first; count 0: none.
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

// Offsets and size of attention's workspace, for the largest block of each kind. rows: those of a block and of all
// sequences that it has; strided rows: those of all sequences of the batch.
struct cuda_attention_workspace {
    size_t grad_q_sum; // f32 [rows, heads * head_dim]: over the rectangles, folded; if there are any
    size_t grad_q;     // bf16, of one block of keys: [rows, heads * head_dim] folded, or [strided rows, ...]
    size_t logsumexp;  // f32 [sequences, heads, queries]
    size_t delta, accumulator; // cuDNN's: f32 [sequences, heads, queries], and with head_dim, if there is one
    size_t q, o, grad_o;       // bf16, folded; over them the other blocks' part: they are spent by then
    struct cuda_attention_part {
        size_t grad_k, grad_v; // bf16 [keys * sequences, kv_heads or heads * head_dim]: of one block of queries
        size_t engine, engine_bytes;
    } rectangle, masked; // masked: causal or windowed
    size_t bytes;
};
struct cuda_attention_workspace cuda_attention_layout(const struct device *device, struct attention_shape shape);

// Whether the device, or the environment by LONGBP_MASKED_ATTENTION=own, leaves all masks to own kernels, so that
// both can be measured.
bool cuda_masks_by_own_kernels(const struct device *device);
// Whether attention's forward is cuDNN's on this device, as it can be in bf16; else it is the device's own
// kernels'. With a mask that is so from a tile of queries on, but for windows of more than two blocks of keys and
// windows that reach into a prefix. Of a single query cuDNN's masks and gradients are not to be relied on (its
// release notes; cudnn-frontend, issue 1072).
bool cuda_attention_forward_by_cudnn(const struct device *device, struct attention_shape shape);
// Whether its backward is: cuDNN sums in one order only, and not always the same; it has engines for long heads on
// sm_90 alone. It takes whole tiles of queries, and of keys that all queries see.
bool cuda_attention_backward_by_cudnn(const struct device *device, struct attention_shape shape);

// Own kernels accumulate in place: they take no workspace, and have no glue. In bf16 they compute in f32.
extern const struct device_rules cuda_rules;
