// Step log-probs: those of a step's labels under the models that its objective holds the trained one against, as
// far as they are computed: a second model (reference_model.h), the trained one without its LoRA factors, or the
// trained one as it is before its first step, to which noise is added (step_data.h). They are the same in every
// step.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

// Of a batch's targets by the model, or by it without its adapter. log_prob: as log_prob_pass takes it.
void step_logprobs(struct tensor log_prob, struct model *model, const struct batch *batch, bool without_adapter);
// The same on the host: [batch, context], 0 where this rank does not have them; to be freed. What fails is in the
// device's status.
double *step_logprobs_read(struct model *model, const struct batch *batch, bool without_adapter);
// Whether the trained model itself is asked for some: on a device without data by a training run alone, whose steps
// they are a part of.
bool step_logprobs_asked(const struct trial *trial, bool dataless);
// Those that the model itself tells, of a batch whose ids and targets are there. What fails is in the device's
// status.
void step_logprobs_of_model(struct batch_data *data, const struct trial *trial, struct model *model,
                            const struct batch *batch);
