// Tokens: the token ids and labels of one batch, from text, from a file of ids, or random. A batch file
// (batch_file.h) holds both.
// Sequence b of a batch is the ids [b * context, (b + 1) * context) of its source.
#pragma once
#include "harness/data/token_format.h"
#include "harness/files/file_stamp.h"
#include <stddef.h>
#include <stdio.h>

// DATA_ARRAY: a file whose header says how its ids are stored (token_format.h).
enum data_kind { DATA_RANDOM, DATA_BYTES, DATA_U16, DATA_U32, DATA_ARRAY, DATA_BATCH };

struct data_source {
    enum data_kind kind;
    char *path; // see share_resolve; NULL for DATA_RANDOM
};

// Guesses the kind of a file: an array if its header says so; otherwise bytes if the vocabulary is 256 (0: any). A
// pipe, which can be read only once, counts as an array and may still turn out to be bytes. Returns false and a
// status with the remedy for other formats.
bool tokens_kind(const char *path, size_t vocab, enum data_kind *kind, struct status *status);
// The number of ids, or labels, in a file; SIZE_MAX: a pipe. vocab 0: any vocabulary. Returns false and a status if
// the file cannot be read or has another format.
bool tokens_count(const struct data_source *source, size_t vocab, size_t *count, struct status *status);
bool tokens_count_labels(const char *path, size_t vocab, size_t *count, struct status *status);
// The first context * batch ids of a source other than a batch file: [batch, context], each below vocab; to be
// freed. Text gives one id per byte; u16 and u32 are little-endian; random ids depend only on the seed. Returns
// NULL and a status if there are too few, one is not below vocab, or the format is another (token_format.h).
int32_t *tokens_read(const struct data_source *source, size_t context, size_t batch, size_t vocab, uint64_t seed,
                     struct status *status);
// The labels, from a file of little-endian int32 or an array: each a class below vocab, or NO_TARGET.
int32_t *tokens_read_labels(const char *path, size_t context, size_t batch, size_t vocab, struct status *status);

// A source read in parts, for training runs.
struct token_stream {
    const struct data_source *source; // borrowed
    FILE *file;                       // NULL: random
    struct file_stamp stamp;          // of the file when it was opened
    struct token_format format;       // of the file
    size_t count;                     // ids; SIZE_MAX: random ones never end
    size_t vocab;
    uint64_t seed;
};
// Returns false and a status if the file cannot be read or, like a pipe, has no random access. Release with
// token_stream_close, also after a failure.
bool token_stream_open(struct token_stream *stream, const struct data_source *source, size_t vocab, uint64_t seed,
                       struct status *status);
// Reads ids from `first` on, which must exist. Returns false and a status if the file was written to since it was
// opened.
bool token_stream_read(struct token_stream *stream, size_t first, size_t count, int32_t *ids,
                       struct status *status);
// Counts the distinct ids among the first `count`. Returns false and a status if one is not below vocab.
bool token_stream_survey(struct token_stream *stream, size_t count, size_t *distinct, struct status *status);
void token_stream_close(struct token_stream *stream);
