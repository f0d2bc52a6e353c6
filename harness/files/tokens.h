// Tokens: the token ids and labels of one batch, from text, from a file of ids, or at random; a batch file
// (batch_file.h) holds both.
// Sequence b of a batch is the ids [b * context, (b + 1) * context) of its source.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

enum data_kind { DATA_RANDOM, DATA_BYTES, DATA_U16, DATA_U32, DATA_BATCH };

struct data_source {
    enum data_kind kind;
    char *path; // as share_resolve takes it; NULL for DATA_RANDOM
};

// Of a source that is no batch file the first batch * context ids: [batch, context], each below vocab. Text gives one
// id per byte; ids in files are little-endian; random ones depend on the seed alone. NULL and a status if there are
// too few or one is not below vocab. To be freed.
int32_t *tokens_read(const struct data_source *source, size_t context, size_t batch, size_t vocab, uint64_t seed,
                     struct status *status);
// The same many labels from a file of little-endian int32: each a class below vocab, or NO_TARGET.
int32_t *tokens_read_labels(const char *path, size_t context, size_t batch, size_t vocab, struct status *status);
