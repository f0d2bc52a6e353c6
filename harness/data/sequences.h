// Sequences: those of a batch file, or of all the *.safetensors in a folder in the order of their names, which a
// training run goes through again and again. What belongs together, a pair or a group, stays together.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/data/epochs.h"

struct sequences {
    struct batch_file *files;
    size_t file_count;
    size_t context, count, vocab; // count: of all files
    size_t together;              // so many, one after another, are taken at once
    struct epochs order;          // of such
};

// Their shape, without reading the rest; count: sequences. path: as share_resolve takes it. False and a status.
bool sequences_shape(const char *path, size_t *context, size_t *count, struct status *status);
// Held against what is asked for: they are of this context, and no fewer than `count`. False and a status.
bool sequences_expect(const char *path, size_t context, size_t count, struct status *status);
// shuffle: as of struct epochs. False and a status if a file is none, if they differ in context or tensors, or if
// one has no whole number of `together`. Values are checked as they are read. Release with sequences_close, also
// after a failure.
bool sequences_open(struct sequences *sequences, const char *path, size_t together, size_t vocab, uint64_t shuffle,
                    struct status *status);
// Leaves the last of them, a share of their number rounded down, to `held_out`, in the files' order. False and a
// status if that leaves either without any. held_out is released by itself.
bool sequences_split(struct sequences *sequences, double share, struct sequences *held_out, struct status *status);
// How many there are in an epoch.
size_t sequences_count(const struct sequences *sequences);
// The sequence of the files that comes as number `index`.
size_t sequences_item(struct sequences *sequences, size_t index);
// Those that come as number `index` and after it. False and a status, too, if a file of theirs was written to since
// it was opened. Release with batch_data_free, also after a failure.
bool sequences_read(struct sequences *sequences, size_t index, size_t count, struct batch_data *data,
                    struct status *status);
// Where sequence `item` stands: the file's path, and its number there.
const char *sequences_place(const struct sequences *sequences, size_t item, size_t *number);
// Bytes of all files; 0 if they cannot be read.
size_t sequences_bytes(const char *path);
// XXH3 of them, all of which are read; 0 if they cannot be.
uint64_t sequences_hash(const char *path);
void sequences_close(struct sequences *sequences);
