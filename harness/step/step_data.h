// Step data: what one step of a trial is given, on the host: of its files, or at random by its seed.
//
// A prompt's tokens are, of sequences of a group, those of its first one. Of random data the first tokens of a
// sequence are a prompt without targets wherever an objective compares sequences; a weight is uniform in [0, 1), an
// advantage normal, half of all sequences desirable. What stands for log-probs of other models is noise first,
// normal with deviation STEP_DATA_NOISE, which whoever has the model's own adds to them. Each depends on the seed,
// the sequence and the token alone.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

#define STEP_DATA_NOISE 0.2

// All that the trial's objective reads, as far as it is not another model's. False and a status that says where
// what is missing. Release with batch_data_free, also after a failure.
bool step_data_read(struct batch_data *data, const struct trial *trial, struct status *status);
// XXH3 of what was read of files: tokens, labels, and what else an objective reads. 0: the data are random.
uint64_t step_data_hash(const struct batch_data *data, const struct trial *trial);
// Whether what a file has, as batch_file_take reads it, is all that the trial's objective needs; first: the number
// of its first sequence there. False and a status.
bool step_data_check(const struct batch_data *data, const struct trial *trial, const char *path, size_t first,
                     struct status *status);
// What a step without data needs to know alone: its documents, and the labels where sequences share a prompt.
bool step_data_read_shape(struct batch_data *data, const struct trial *trial, struct status *status);
// Sequences of groups into a row each group, as the trial has them; false and a status.
bool step_data_pack(struct batch_data *data, const struct trial *trial, struct status *status);
// Which of them are noise: a sum of enum batch_value.
unsigned step_data_noise(const struct trial *trial);
