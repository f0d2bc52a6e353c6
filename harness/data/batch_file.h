// Batch file: the sequences of one step and what its objective asks of them, as tensors of a safetensors file. Two
// lines of Python write one:
//     from safetensors.numpy import save_file
//     save_file({"ids": ids, "labels": labels}, "batch.safetensors")
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

// [batch, context] unless said otherwise, sequence-major; NULL: there is no such tensor. Integers are I32 or I64 in
// a file, all else F64, F32, BF16 or F16.
struct batch_data {
    size_t context, batch;
    // Number of sequences, and each token's sequence as batch_set_branches takes it, where rows hold several
    // (harness/data/shared_prompt.h). No file has them. NULL: a row is a sequence.
    size_t sequences;
    int32_t *of;
    int32_t *ids;
    int32_t *labels;            // what each position is to predict, or NO_TARGET
    int32_t *lengths;           // [batch] tokens of each sequence; the rest of its row is padding
    int32_t *documents;         // number of the document that a token is of; a sequence's do not decrease
    double *weights;            // of the rows
    double *old_logprobs;       // of the labels, by the policy that sampled them
    double *reference_logprobs; // of the labels, by the reference
    double *sampling_logprobs;  // of the labels, as the engine that sampled them computed them
    double *advantages;         // [batch], of sequences
    double *token_advantages;   // of the labels, where a file's tensor "advantages" is [batch, context]
    int32_t *desirable;         // [batch], 1 of a sequence that is, 0 of any other
};

// An open one, whose sequences are read as they are wanted.
struct batch_file {
    struct safetensors tensors;
    size_t context, batch; // of its ids
};

// path: as share_resolve takes it. False and a status if it is no such file, or has tensors besides the above.
// Release with batch_file_close, also after a failure.
bool batch_file_open(struct batch_file *file, const char *path, struct status *status);
void batch_file_close(struct batch_file *file);
// Whether it has the tensors that the other has; false and a status if not.
bool batch_file_like(const struct batch_file *file, const struct batch_file *other, struct status *status);
// Room for so many sequences, of the tensors that the file has. False and a status if one of them has another shape
// or type than it should. Release with batch_data_free, also after a failure.
bool batch_file_room(const struct batch_file *file, size_t sequences, struct batch_data *data,
                     struct status *status);
// Sequences [first, first + count) of the file become those from `at` on: every id and label is below vocab, every
// number finite, weights, log-probs and lengths in their range; padding has no label. False and a status that names
// tensor, index and remedy.
bool batch_file_take(const struct batch_file *file, size_t first, size_t count, size_t vocab,
                     struct batch_data *data, size_t at, struct status *status);

// The shape of its ids, without reading the rest. path: as share_resolve takes it. False and a status if there are
// none.
bool batch_file_shape(const char *path, size_t *context, size_t *batch, struct status *status);
// The same, held against what was asked for: false and a status if it is another shape.
bool batch_file_expect(const char *path, size_t context, size_t batch, struct status *status);
// Reads and checks all of it, as above: ids and labels are of this shape; one row at least has a label. False and a
// status. Release with batch_data_free, also after a failure.
bool batch_file_read(struct batch_data *data, const char *path, size_t context, size_t batch, size_t vocab,
                     struct status *status);
// Sequences [first, first + count), each in a row of its own, become all that there are.
void batch_data_keep(struct batch_data *data, size_t first, size_t count);
void batch_data_free(struct batch_data *data);
