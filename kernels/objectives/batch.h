// Batch: token ids and targets of one step on a device, time-major, the objective that they are to serve, and what
// that reads besides.
#pragma once
#include "kernels/device/ops.h"
#include "kernels/objectives/pieces.h"
#include <stdint.h>

#define NO_TARGET (-100)

// What objectives divide by: counts over the whole of a step, all its micro-batches.
struct normaliser {
    size_t rows;               // with a target
    size_t sequences;          // with a target or without
    size_t pairs, chosen_rows; // sequences 2i and 2i + 1 are a pair; rows with a target in those 2i
    double weight;             // sum of the weights of rows with a target; 0: none are given
    size_t desirable;          // sequences that are, of those 2i where the others are mismatched
};

// Adds what another batch of the step counts.
void normaliser_add(struct normaliser *step, const struct normaliser *batch);

// What objectives read besides, on the host: of rows [batch, context], sequence-major as files hold them, or of
// sequences [batch]; NULL: not given.
struct batch_values {
    const double *weights;            // of rows; none negative
    const double *old_logprobs;       // of rows, under the policy that sampled them; not given: this one
    const double *reference_logprobs; // of rows, under a reference; not given: whoever needs it writes it later
    const double *sampling_logprobs;  // of rows, as the engine that sampled them computed them
    const double *advantages;         // of sequences
    const double *token_advantages;   // of rows, in place of these; also on a device without data
    const int32_t *desirable;         // of sequences, 0 or 1
};

struct objective;
struct batch {
    size_t context, batch;             // tokens of a row of it, and such rows
    struct pieces pieces;              // of the sequences these tokens: all, unless ranks share them
    size_t sequences;                  // batch, but where rows have several
    struct normaliser normaliser;      // of this batch alone; whoever makes one step of several puts their sum here
    struct tensor ids, targets;        // [context * batch, 1] i32; row t * batch + b
    const struct objective *objective; // kernels/objectives/objective.h
    const void *settings;              // of the objective, borrowed
    // No tensor: the objective does not read it, or it was not given.
    struct tensor weights, old, reference; // [context * batch, 1]
    struct tensor token_advantages;        // [context * batch, 1], in place of the sequences'
    struct tensor gains;                   // [sequences, GAINS], of the rows' advantages
    struct tensor shares;                  // [context * batch, 1], what rows count in their sequence's sums
    struct tensor advantages; // [sequences, 1]; of desirable sequences their weight, of others minus it
    bool idle;                // a rank walks along: its sequences count in nothing that ranks sum
    struct tensor counts;     // [sequences, 1] i32, the sequence's rows with a target
    struct tensor sums;       // [sequences, 1] f64, of a first pass, and then what settles them
    struct tensor units;      // [sequences, 1] f64, where slopes may be deferred: those of a pair's S
    // By row the first token of its document, and by sequence what all but the first continue, on the host and on
    // the device; NULL and no tensor: each sequence is one.
    int32_t *starts, *prefixes;
    struct tensor device_starts, device_prefixes; // [context * batch, 1], [batch, 1] i32
    uint64_t documents;                           // a number that tells these from others, by all of them; 0: none
    // Of each piece of all ranks' tokens, in order, by own row: starts as keys from the piece's first on count
    // them.
    int32_t *shifted;
    struct tensor device_shifted; // [pieces * context * batch, 1] i32
    // By row its sequence, on the host and on the device; NULL and no tensor: row % batch.
    int32_t *of;
    struct tensor device_of; // [context * batch, 1] i32
};

// ids and targets: [batch, context], sequence-major as files hold them. targets NULL: the next token of the
// same sequence; the last position of a sequence has none. ids NULL: nothing is written, for devices without data.
void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch);
// Chooses another objective than the first of objectives[], with settings of its own struct, which must outlive the
// batch, or NULL if it has none. What it does not read of the values is left; what it must have is given, but for
// reference_logprobs. values NULL: nothing is given. A device without data reads no value; what the objective must
// have has its place there, and old_logprobs if its pointer is not NULL, and token_advantages, whose pointer says
// what advantages are of. Where groups are masked the targets of these are gone for good.
void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const void *settings, const struct batch_values *values);
// Several documents in a sequence: attention sees none but its own, positions begin with each, and its last token
// has no target where another follows. documents: [batch, context], a number for each token, which does not fall
// along a sequence. Before the objective is chosen. Also on a device without data: there, too, it says what is
// seen.
void batch_set_documents(struct batch *batch, struct device *device, const int32_t *documents);
// Several sequences in a row of the batch, which begin with the same tokens: these stand there once, then what each
// has of its own. Attention and positions are those of the sequences one by one. of: [batch, context], of each
// token the sequence below `count` that it is one of, in runs, or -1, of which a row has a run at its beginning: of
// the prefix. No token of that has a target. count: as many sequences as there are. Before the objective is chosen.
// Also on a device without data.
void batch_set_branches(struct batch *batch, struct device *device, const int32_t *of, size_t count);
// Those of tokens by position, as an operation takes them; also of other ranks' tokens.
struct documents batch_documents(const struct batch *batch, struct span tokens);
// Of so many ranks that share the sequences' tokens this one's alone are left (pieces.h), in their order;
// documents, and what counts sequences and targets, stay those of all. After the objective was chosen, if any is.
void batch_share(struct batch *batch, struct device *device, size_t ranks, size_t rank);
// For ranks whose keys go round, after batch_share: documents as each piece of keys that comes by counts them.
void batch_shift_documents(struct batch *batch, struct device *device);
// Those of a run of its own tokens, as keys from number `key` on count them, a piece's first: one that begins
// before these begins with them.
struct documents batch_documents_from(const struct batch *batch, size_t key, struct token_run run);
// Between rows of all ranks' tokens, by position, and rows of its own: out: of all tokens' these become own; else
// own becomes these.
void batch_copy_own(const struct batch *batch, struct device *device, struct tensor all, struct tensor own,
                    bool out);
static inline bool batch_is_shared(const struct batch *batch)
{
    return batch->pieces.ranks > 1;
}
void batch_close(struct batch *batch, struct device *device);
