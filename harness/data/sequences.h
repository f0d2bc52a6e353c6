// Sequences: the sequences of a batch file, or of all *.safetensors of a folder in the order of their names,
// visited repeatedly by a training run. Pairs and groups stay together.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/data/epochs.h"

struct sequences {
    struct batch_file *files;
    size_t file_count;
    size_t context, count, vocab; // count: over all files
    size_t together;              // consecutive sequences taken at once
    struct epochs order;          // order of these groups
};

// Reads only the shape; count: sequences. path: see share_resolve. Returns false and a status on failure.
bool sequences_shape(const char *path, size_t *context, size_t *count, struct status *status);
// Checks the context and that there are at least `count` sequences.
bool sequences_expect(const char *path, size_t context, size_t count, struct status *status);
// shuffle: see struct epochs. Returns false and a status if a file is invalid, if files differ in context or
// tensors, or if a file's number of sequences is no multiple of `together`. Values are checked as they are read.
// Release with sequences_close, also after a failure.
bool sequences_open(struct sequences *sequences, const char *path, size_t together, size_t vocab, uint64_t shuffle,
                    struct status *status);
// Splits off the last sequences, a share rounded down, into `held_out`, in the files' order. Returns false and a
// status if either would be empty. Release held_out separately.
bool sequences_split(struct sequences *sequences, double share, struct sequences *held_out, struct status *status);
// Number of sequences per epoch.
size_t sequences_count(const struct sequences *sequences);
// The sequence of the files at position `index` of the run.
size_t sequences_item(struct sequences *sequences, size_t index);
// Reads `count` sequences from position `index` of the run. Also returns false and a status if one of their files
// was written to since it was opened. Release with batch_data_free, also after a failure.
bool sequences_read(struct sequences *sequences, size_t index, size_t count, struct batch_data *data,
                    struct status *status);
// The path of the file with sequence `item`, and the sequence's number in it.
const char *sequences_place(const struct sequences *sequences, size_t item, size_t *number);
// Bytes of all files; 0 if they cannot be read.
size_t sequences_bytes(const char *path);
// XXH3 of all files, which are read completely; 0 if they cannot be.
uint64_t sequences_hash(const char *path);
void sequences_close(struct sequences *sequences);
