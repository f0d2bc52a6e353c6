// Reference model: a second model, from a folder, that computes an objective's reference log-probs by forward
// passes on a device of its own, opened like the trial's, without gradients.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/step/setup_options.h"
#include "kernels/trainer/trainer.h"

struct reference_model {
    struct device *device;
    struct model model;
    struct trainer trainer;
    bool adapted;     // the folder has its own adapter
    struct lora lora; // its factors
};

// Opens the trial's reference. options: of the trial's own model. Returns false and a status on failure. Release
// with reference_model_close, also after a failure.
bool reference_model_open(struct reference_model *reference, const struct trial *trial,
                          const struct setup_options *options, struct status *status);
// Log-probs of the labels: [batch, context], to be freed; NULL and a status on failure. longest: tokens of the
// longest document that the trial's own model goes by (struct normaliser); 0: the data's.
double *reference_model_logprobs(struct reference_model *reference, const struct batch_data *data, size_t longest,
                                 struct status *status);
void reference_model_close(struct reference_model *reference);
// Opens the reference, sets the data's reference_logprobs and closes it; does nothing if the trial's reference is
// no folder. Returns false and a status on failure.
bool reference_model_tell(struct batch_data *data, const struct trial *trial, const struct setup_options *options,
                          size_t longest, struct status *status);
