// Tokens: the token ids and labels of one batch, from text, from a file of ids, or at random; a batch file
// (batch_file.h) holds both.
// Sequence b of a batch is the ids [b * context, (b + 1) * context) of its source.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum data_kind { DATA_RANDOM, DATA_BYTES, DATA_U16, DATA_U32, DATA_BATCH };

struct data_source {
    enum data_kind kind;
    char *path; // as share_resolve takes it; NULL for DATA_RANDOM
};

// Of a source that is no batch file the first batch * context ids: [batch, context], each below vocab. Text gives
// one id per byte; ids in files are little-endian; random ones depend on the seed alone. NULL and a status if there
// are too few or one is not below vocab. To be freed.
int32_t *tokens_read(const struct data_source *source, size_t context, size_t batch, size_t vocab, uint64_t seed,
                     struct status *status);
// The same many labels from a file of little-endian int32: each a class below vocab, or NO_TARGET.
int32_t *tokens_read_labels(const char *path, size_t context, size_t batch, size_t vocab, struct status *status);

// A source that is read in parts, for training runs.
struct token_stream {
    const struct data_source *source; // borrowed
    FILE *file;                       // NULL: random
    size_t count;                     // ids; SIZE_MAX: random ones never end
    size_t vocab;
    uint64_t seed;
};
// False and a status if the file cannot be read, or not from any place as pipes cannot. Release with
// token_stream_close, also after a failure.
bool token_stream_open(struct token_stream *stream, const struct data_source *source, size_t vocab, uint64_t seed,
                       struct status *status);
// ids: those of the source from `first` on, which must be there.
bool token_stream_read(struct token_stream *stream, size_t first, size_t count, int32_t *ids,
                       struct status *status);
void token_stream_close(struct token_stream *stream);
