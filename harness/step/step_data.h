// Step data: the data of one step on the host: from files, or random from the trial's seed.
//
// Sequences of a group have the first one's prompt. Random data: if the objective compares sequences, each begins
// with a prompt without targets; weights are uniform in [0, 1), advantages normal, half of all sequences desirable.
// Other models' log-probs are first normal noise with deviation STEP_DATA_NOISE, to which the caller adds the
// model's own. Each value depends only on the seed, the sequence and the token.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

#define STEP_DATA_NOISE 0.2

// Reads all inputs of the trial's objective, except other models'. Returns false and a status that names what is
// missing. Release with batch_data_free, also after a failure.
bool step_data_read(struct batch_data *data, const struct trial *trial, struct status *status);
// XXH3 of the data from files: tokens, labels and other inputs. 0: random data.
uint64_t step_data_hash(const struct batch_data *data, const struct trial *trial);
// Checks that a file's data, as batch_file_take reads them, suffice for the trial's objective; first: number of the
// first sequence. Returns false and a status if not.
bool step_data_check(const struct batch_data *data, const struct trial *trial, const char *path, size_t first,
                     struct status *status);
// Reads only what a step without data needs: documents, and labels if sequences share a prompt.
bool step_data_read_shape(struct batch_data *data, const struct trial *trial, struct status *status);
// Packs groups of sequences into rows if the trial does; returns false and a status on failure.
bool step_data_pack(struct batch_data *data, const struct trial *trial, struct status *status);
// The noise values, as a sum of enum batch_value.
unsigned step_data_noise(const struct trial *trial);
