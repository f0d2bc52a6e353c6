// Step log-probs: those of a step's labels under the models that its objective holds the trained one against, as
// far as they are computed: a second model, the trained one without its LoRA factors, or the trained one as it is
// before its first step, to which noise is added (step_data.h). They are the same in every step.
#pragma once
#include "harness/run/setup.h"
#include "harness/run/step_data.h"

// Of a batch's targets by the model, or by it without its adapter. log_prob: as log_prob_pass takes it.
void step_logprobs(struct tensor log_prob, struct model *model, const struct batch *batch, bool without_adapter);
// Where the trial's reference is a folder: that model is loaded onto a device of its own, opened like the trial's,
// walked forward alone, without room for gradients, and closed again. False and a status.
bool step_logprobs_of_folder(struct batch_data *data, const struct trial *trial,
                             const struct setup_options *options, struct status *status);
// That model alone, kept open for step_logprobs_by. Release with setup_close, also after a failure.
bool step_logprobs_open(struct setup *setup, const struct trial *trial, const char *device, struct status *status);
// Of the labels of any data by such a model: [batch, context], to be freed.
double *step_logprobs_by(struct setup *setup, const struct trial *trial, const struct batch_data *data,
                         struct status *status);
// Whether the trained model itself is asked for some: on a device without data by a training run alone, whose steps
// they are a part of.
bool step_logprobs_asked(const struct trial *trial, bool dataless);
// Those that the model itself tells, of a batch whose ids and targets are there. What fails is in the device's
// status.
void step_logprobs_of_model(struct batch_data *data, const struct trial *trial, struct model *model,
                            const struct batch *batch);
