// Reference model: a second model, of a folder, by which an objective's reference log-probs are computed: on a
// device of its own, opened like the trial's, walked forward alone, without room for gradients.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/step/setup_options.h"
#include "kernels/trainer/trainer.h"

struct reference_model {
    struct device *device;
    struct model model;
    struct trainer trainer;
    bool adapted;     // the folder has an adapter of its own
    struct lora lora; // its factors
};

// The folder of the trial's reference. options: those of the trial's own model. False and a status. Release with
// reference_model_close, also after a failure.
bool reference_model_open(struct reference_model *reference, const struct trial *trial,
                          const struct setup_options *options, struct status *status);
// Of the labels of any data: [batch, context], to be freed; NULL and a status.
double *reference_model_logprobs(struct reference_model *reference, const struct batch_data *data,
                                 struct status *status);
void reference_model_close(struct reference_model *reference);
// All of it for data of the trial, which get their reference_logprobs; nothing where its reference is no folder.
// False and a status.
bool reference_model_tell(struct batch_data *data, const struct trial *trial, const struct setup_options *options,
                          struct status *status);
