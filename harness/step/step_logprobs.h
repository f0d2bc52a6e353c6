// Step log-probs: computed reference log-probs of a step's labels: by a second model (reference_model.h), by the
// trained one without its LoRA factors, or by the trained one before its first step, plus noise (step_data.h). They
// are the same in every step.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

// Log-probs of a batch's targets by the model, or by it without its adapter. log_prob: see log_prob_pass.
void step_logprobs(struct tensor log_prob, struct model *model, const struct batch *batch, bool without_adapter);
// The same on the host: [batch, context], 0 for tokens of other ranks; to be freed. Failures are in the device's
// status.
double *step_logprobs_read(struct model *model, const struct batch *batch, bool without_adapter);
// Tells whether the trained model must compute some; on a device without data only in a training run, whose steps
// include it.
bool step_logprobs_asked(const struct trial *trial, bool dataless);
// Sets the log-probs that the model itself computes, for a batch with ids and targets. Failures are in the device's
// status.
void step_logprobs_of_model(struct batch_data *data, const struct trial *trial, struct model *model,
                            const struct batch *batch);
