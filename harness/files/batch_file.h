// Batch file: the sequences of one step and what its objective asks of them, as tensors of a safetensors file. Two
// lines of Python write one:
//     from safetensors.numpy import save_file
//     save_file({"ids": ids, "labels": labels}, "batch.safetensors")
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

// [batch, context] unless said otherwise, sequence-major; NULL: there is no such tensor. Integers are I32 or I64 in
// a file, all else F64, F32, BF16 or F16.
struct batch_data {
    size_t context, batch;
    // Of no file: where rows hold several sequences (harness/run/shared_prompt.h), how many there are, and of each
    // token whose it is, as batch_set_branches takes it. NULL: a row is a sequence.
    size_t sequences;
    int32_t *of;
    int32_t *ids;
    int32_t *labels;            // what each position is to predict, or NO_TARGET
    int32_t *lengths;           // [batch] tokens of each sequence; the rest of its row is padding
    int32_t *documents;         // number of the document that a token is of; a sequence's do not decrease
    double *weights;            // of the rows
    double *old_logprobs;       // of the labels, by the policy that sampled them
    double *reference_logprobs; // of the labels, by the reference
    double *advantages;         // [batch], of sequences
};

// The shape of its ids, without reading the rest. path: as share_resolve takes it. False and a status if there are
// none.
bool batch_file_shape(const char *path, size_t *context, size_t *batch, struct status *status);
// The same, held against what was asked for: false and a status if it is another shape.
bool batch_file_expect(const char *path, size_t context, size_t batch, struct status *status);
// Reads and checks all of it: ids and labels are there, of this shape, and no other tensors than the above; every
// id and label is below vocab, every number finite, weights and lengths in their range; padding has no label; one
// row at least has. False and a status that names tensor, index and remedy. Release with batch_data_free, also
// after a failure.
bool batch_file_read(struct batch_data *file, const char *path, size_t context, size_t batch, size_t vocab,
                     struct status *status);
// Sequences [first, first + count), each in a row of its own, become all that there are.
void batch_data_keep(struct batch_data *data, size_t first, size_t count);
void batch_data_free(struct batch_data *file);
