// Batch: token ids and targets of one step on a device, time-major, the step's objective, and its further inputs.
#pragma once
#include "kernels/device/ops.h"
#include "kernels/objectives/pieces.h"
#include <stdint.h>

#define NO_TARGET (-100)

// Counts over a whole step with all its micro-batches: divisors of objectives, and the longest document.
struct normaliser {
    size_t rows;               // with a target
    size_t sequences;          // with a target or without
    size_t pairs, chosen_rows; // sequences 2i and 2i + 1 are a pair; rows with a target in sequences 2i
    size_t tokens;             // as often as they count in router losses
    double weight;             // sum of the weights of rows with a target; 0: no weights
    size_t desirable;          // desirable sequences, among 2i if the others are mismatched
    size_t longest; // tokens of the longest document, with its prefix, which longrope and dynamic RoPE choose by
};

// Adds the counts of another batch of the step.
void normaliser_add(struct normaliser *step, const struct normaliser *batch);

// Further inputs of objectives on the host: by row [batch, context], sequence-major as in files, or by sequence
// [batch]; NULL: not given.
struct batch_values {
    const double *weights;            // by row, not negative
    const double *old_logprobs;       // by row, under the sampling policy; not given: the current one
    const double *reference_logprobs; // by row, under a reference; not given: written later if needed
    const double *sampling_logprobs;  // by row, computed by the sampling engine
    const double *advantages;         // by sequence
    const double *token_advantages;   // by row, in place of `advantages`; also on a device without data
    const int32_t *desirable;         // by sequence, 0 or 1
};

struct objective;
struct batch {
    size_t context, batch;             // tokens of a row, and number of rows
    struct pieces pieces;              // this rank's tokens of each sequence: all, unless ranks share them
    size_t sequences;                  // batch, unless rows have several
    struct normaliser normaliser;      // of this batch; for a step of several batches the caller stores their sum
    struct tensor ids, targets;        // [context * batch, 1] i32; row t * batch + b
    const struct objective *objective; // kernels/objectives/objective.h
    const void *settings;              // of the objective, borrowed
    // No tensor: not read by the objective, or not given.
    struct tensor weights, old, reference; // [context * batch, 1]
    struct tensor token_advantages;        // [context * batch, 1], in place of the sequences'
    struct tensor gains;                   // [sequences, GAINS], from the rows' advantages
    struct tensor shares;                  // [context * batch, 1], rows' weights in their sequence's sums
    struct tensor advantages; // [sequences, 1]; for desirable sequences the weight, for others minus it
    bool idle;                // a rank without sequences of its own: they count in no sum over ranks
    struct tensor counts;     // [sequences, 1] i32, rows with a target per sequence
    struct tensor sums;       // [sequences, 1] f64, sums of a first pass, later replaced by slopes
    struct tensor units;      // [sequences, 1] f64, if slopes may be deferred: sums for a pair's S
    // Per row the first token of its document, and per sequence the prefix that later documents continue, on host
    // and device; NULL and no tensor: each sequence is one document.
    int32_t *starts, *prefixes;
    struct tensor device_starts, device_prefixes; // [context * batch, 1], [batch, 1] i32
    uint64_t documents;                           // a hash that identifies these documents; 0: none
    // For each piece of all ranks' tokens, in order, by own row: starts counted from the piece's first key.
    int32_t *shifted;
    struct tensor device_shifted; // [pieces * context * batch, 1] i32
    // For layers with chunked attention: their chunk's length, and the same of the first token of a row's chunk,
    // NULL and no tensor where each document has one chunk.
    size_t chunk;
    int32_t *chunk_starts, *shifted_chunks;
    struct tensor device_chunk_starts, device_shifted_chunks;
    // For attention to blocks of keys: their length, 0: none; and for each block starts and prefixes counted from
    // its first key, of all rows.
    size_t key_block;
    int32_t *block_starts, *block_prefixes;
    struct tensor device_block_starts, device_block_prefixes; // [blocks * context * batch, 1], [blocks * batch, 1]
    // How often a row counts in router losses: as the sequences that share it, padding not at all; no tensor: once.
    struct tensor repeats; // [context * batch, 1] i32
    // Per row its sequence, on host and device; NULL and no tensor: row % batch.
    int32_t *of;
    struct tensor device_of; // [context * batch, 1] i32
};

// ids and targets: [batch, context], sequence-major as in files. targets NULL: the next token of the same sequence;
// the last position has none. ids NULL: writes nothing, for devices without data.
void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch);
// Chooses an objective other than objectives[0]. settings: its own struct, which must outlive the batch, or NULL if
// it has none. Unused values are ignored; required ones must be given, except reference_logprobs. values NULL: none
// are given. A device without data reads no values, but allocates required ones, old_logprobs if its pointer is not
// NULL, and token_advantages, whose pointer selects the kind of advantages. Masked groups lose their targets
// permanently.
void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const void *settings, const struct batch_values *values);
// Several documents per sequence: attention sees only its own document, positions start with each, and a document's
// last token has no target if another follows. documents: [batch, context], a number per token that never decreases
// along a sequence. Call before choosing the objective, also on a device without data.
void batch_set_documents(struct batch *batch, struct device *device, const int32_t *documents);
// Several sequences in a row of the batch that begin with the same tokens: the prefix is stored once, then each
// sequence's own tokens. Attention and positions are those of separate sequences. of: [batch, context], the
// sequence (below `count`) of each token, in contiguous runs, or -1 for the prefix at the row's beginning, whose
// tokens have no target. count: number of sequences. Call before choosing the objective, also on a device without
// data.
void batch_set_branches(struct batch *batch, struct device *device, const int32_t *of, size_t count);
// Makes `repeats` and counts the normaliser's tokens, for router losses. lengths: [batch], tokens of each sequence;
// NULL: the context. to_targets: rows end with their last target, as those of sequences with a shared prefix. Call
// before batch_share.
void batch_count_repeats(struct batch *batch, struct device *device, const int32_t *lengths, bool to_targets);
// Cuts documents, from their first tokens on, into chunks of this length, for layers with chunked attention. 0:
// does nothing. There are no shared prompts then. Call before batch_share, also on a device without data.
void batch_set_chunks(struct batch *batch, struct device *device, size_t chunk);
// For attention to blocks of so many keys: documents as each block sees them. 0, or without documents: does
// nothing. Call before batch_share, also on a device without data.
void batch_block_keys(struct batch *batch, struct device *device, size_t block);
// The documents of tokens by position, counted from key `key`, the first of a block.
struct documents batch_documents_in_block(const struct batch *batch, size_t key, struct span tokens);
// The documents of tokens by position, as operations take them; also for other ranks' tokens. And their chunks,
// which are documents to attention.
struct documents batch_documents(const struct batch *batch, struct span tokens);
struct documents batch_chunks(const struct batch *batch, struct span tokens);
// Keeps only this rank's tokens (pieces.h), in order, of `ranks` ranks that share the sequences; documents and
// counts of sequences and targets stay those of all. Call after choosing the objective, if any.
void batch_share(struct batch *batch, struct device *device, size_t ranks, size_t rank);
// For ring attention, after batch_share: computes documents relative to each piece of keys that passes.
void batch_shift_documents(struct batch *batch, struct device *device);
// The documents of a run of own tokens, relative to key `key`, the first of a piece; documents that begin earlier
// begin there. chunked: of their chunks.
struct documents batch_documents_from(const struct batch *batch, size_t key, struct token_run run, bool chunked);
// Copies between rows of all ranks' tokens, by position, and own rows: out: from all to own; else from own to all.
void batch_copy_own(const struct batch *batch, struct device *device, struct tensor all, struct tensor own,
                    bool out);
static inline bool batch_is_shared(const struct batch *batch)
{
    return batch->pieces.ranks > 1;
}
void batch_close(struct batch *batch, struct device *device);
