// Train data: what the steps of a training run are given, sequence by sequence: windows of tokens, or sequences of
// batch files with all that these say of them; and their log-probs by a second model, which are computed before the
// first step.
#pragma once
#include "harness/data/sequences.h"
#include "harness/data/windows.h"
#include "harness/spec/trial.h"

// How tokens lie in rows: the longest row's number of them, and a hash of where documents or a group's sequences
// begin.
struct layout {
    size_t tokens;
    uint64_t hash;
};

struct train_data {
    const struct trial *trial; // that trains; borrowed
    bool of_files;
    struct windows windows;
    struct sequences sequences;
    bool *blank, any_blank; // by sequence of the files: no label of it counts; whether that is so of one
    struct layout *layouts; // of what belongs together, in the files' order
    double *reference;      // [sequences of the files, context], by a second model; NULL: there is none
};

// All of a source. shuffle: as of struct epochs. False and a status if it cannot be read, or is not what the
// trial's objective needs: of batch files every value is looked at. Release with train_data_close, also after a
// failure.
bool train_data_open(struct train_data *data, const struct trial *trial, const struct data_source *source,
                     uint64_t shuffle, struct status *status);
// Leaves the last sequences, a share of their number rounded down, to `held_out`. False and a status if that leaves
// either without any. held_out is released by itself.
bool train_data_split(struct train_data *data, double share, struct train_data *held_out, struct status *status);
// How many sequences there are in an epoch; SIZE_MAX: it never ends.
size_t train_data_count(const struct train_data *data);
// The layout of `count` sequences from number `index` on, as one batch; count: a multiple of what belongs together.
struct layout train_data_layout(struct train_data *data, size_t index, size_t count);
// Whether each of `steps` steps of `count` sequences has something that counts. False and a status if not.
bool train_data_feeds(struct train_data *data, size_t steps, size_t count, struct status *status);
// Where the trial's reference is a folder: the log-probs of the first `count` sequences that come, by that model.
// False and a status.
bool train_data_refer(struct train_data *data, size_t count, const char *device, struct status *status);
// The sequences that come as number `index` and after it, those of a group in a row. Release with batch_data_free,
// also after a failure.
bool train_data_read(struct train_data *data, size_t index, size_t count, struct batch_data *read,
                     struct status *status);
void train_data_close(struct train_data *data);
