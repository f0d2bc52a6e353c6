// Batch file: the sequences of one step and the inputs of its objective, as tensors of a safetensors file. Two
// lines of Python write one:
//     from safetensors.numpy import save_file
//     save_file({"ids": ids, "labels": labels}, "batch.safetensors")
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

// Shapes are [batch, context] unless stated, sequence-major; NULL: no such tensor. Integers are I32 or I64 in a
// file, other values F64, F32, BF16 or F16.
struct batch_data {
    size_t context, batch;
    // Number of sequences, and each token's sequence as batch_set_branches takes it, if rows hold several sequences
    // (harness/data/shared_prompt.h); files never have them. NULL: a row is a sequence.
    size_t sequences;
    int32_t *of;
    int32_t *ids;
    int32_t *labels;            // the target of each position, or NO_TARGET
    int32_t *lengths;           // [batch] tokens of each sequence; the rest of its row is padding
    int32_t *documents;         // document number of each token; never decreases within a sequence
    double *weights;            // weight of each label
    double *old_logprobs;       // of the labels, by the policy that sampled them
    double *reference_logprobs; // of the labels, by the reference
    double *sampling_logprobs;  // of the labels, as the engine that sampled them computed them
    double *advantages;         // [batch], of sequences
    double *token_advantages;   // of the labels, where a file's tensor "advantages" is [batch, context]
    int32_t *desirable;         // [batch], 1 of a sequence that is, 0 of any other
};

// An open file, whose sequences are read on demand.
struct batch_file {
    struct safetensors tensors;
    size_t context, batch; // of its ids
};

// Opens a path (see share_resolve). Returns false and a status if it is no batch file or has other tensors. Release
// with batch_file_close, also after a failure.
bool batch_file_open(struct batch_file *file, const char *path, struct status *status);
void batch_file_close(struct batch_file *file);
// Checks that both files have the same tensors; returns false and a status if not.
bool batch_file_like(const struct batch_file *file, const struct batch_file *other, struct status *status);
// Allocates `sequences` sequences of the tensors that the file has. Returns false and a status if a tensor has a
// wrong shape or type. Release with batch_data_free, also after a failure.
bool batch_file_room(const struct batch_file *file, size_t sequences, struct batch_data *data,
                     struct status *status);
// Reads sequences [first, first + count) of the file into position `at` and on. Checks that every id and label is
// below vocab, every number finite, weights, log-probs and lengths in range, and padding without labels. Returns
// false and a status that names tensor, index and remedy.
bool batch_file_take(const struct batch_file *file, size_t first, size_t count, size_t vocab,
                     struct batch_data *data, size_t at, struct status *status);

// Reads only the shape of the ids. path: see share_resolve. Returns false and a status if there are none.
bool batch_file_shape(const char *path, size_t *context, size_t *batch, struct status *status);
// Checks that the shape is the expected one.
bool batch_file_expect(const char *path, size_t context, size_t batch, struct status *status);
// Reads and checks the whole file, as above. The ids must have this shape, and at least one position a label.
// Release with batch_data_free, also after a failure.
bool batch_file_read(struct batch_data *data, const char *path, size_t context, size_t batch, size_t vocab,
                     struct status *status);
// Drops all but sequences [first, first + count), each in its own row.
void batch_data_keep(struct batch_data *data, size_t first, size_t count);
void batch_data_free(struct batch_data *data);
