// Train data: the inputs of a training run, sequence by sequence: windows of tokens, or sequences of batch files
// with all their tensors; and their log-probs by a second model, computed before the first step.
#pragma once
#include "harness/data/sequences.h"
#include "harness/data/windows.h"
#include "harness/spec/trial.h"

// Layout of tokens in rows: the longest row's length, a hash of the positions of documents or a group's sequences,
// and the tokens of the longest of these.
struct layout {
    size_t tokens;
    uint64_t hash;
    size_t longest;
};

struct train_data {
    const struct trial *trial; // that trains; borrowed
    bool of_files;
    struct windows windows;
    struct sequences sequences;
    bool *blank, any_blank; // by sequence of the files: no label counts; whether any is blank
    struct layout *layouts; // per pair, group or sequence, in file order
    double *reference;      // [sequences of the files, context], by a second model; NULL: none
};

// Opens a whole source. context: tokens of a window to read, for the trial's context or trial_window. shuffle: see
// struct epochs. Returns false and a status if it cannot be read or lacks inputs of the trial's objective; checks
// every value of batch files. Release with train_data_close, also after a failure.
bool train_data_open(struct train_data *data, const struct trial *trial, const struct data_source *source,
                     size_t context, uint64_t shuffle, struct status *status);
// Splits off the last sequences, a share rounded down, into `held_out`. Returns false and a status if either would
// be empty. Release held_out separately.
bool train_data_split(struct train_data *data, double share, struct train_data *held_out, struct status *status);
// Sequences per epoch; SIZE_MAX: unlimited.
size_t train_data_count(const struct train_data *data);
// Tokens of the longest document of all files; 0: there are only windows.
size_t train_data_longest(const struct train_data *data);
// The layout of `count` sequences from number `index` on, as one batch; count: a multiple of pairs or groups.
struct layout train_data_layout(struct train_data *data, size_t index, size_t count);
// Checks that each of `steps` steps of `count` sequences has a label that counts. Returns false and a status if
// not.
bool train_data_feeds(struct train_data *data, size_t steps, size_t count, struct status *status);
// If the trial's reference is a folder: computes log-probs of the first `count` sequences by that model; longest:
// see reference_model_logprobs. Returns false and a status on failure.
bool train_data_refer(struct train_data *data, size_t count, size_t longest, const char *device,
                      struct status *status);
// Reads sequences from number `index` on, a group per row. Release with batch_data_free, also after a failure.
bool train_data_read(struct train_data *data, size_t index, size_t count, struct batch_data *read,
                     struct status *status);
void train_data_close(struct train_data *data);
