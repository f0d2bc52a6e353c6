// Loaded model: a trial's model with its weights, on a device that is opened for it, before there is any batch; the
// same weights on every device and in every dtype, for they are rounded to the trial's own dtype first. Of ranks
// that share the step each has its own part.
#pragma once
#include "harness/step/setup_options.h"
#include "kernels/trainer/trainer.h"

// On a device without data no weights are read. Release with loaded_model_close, also after a failure. False and a
// status (oom, unsupported, bad input).
bool loaded_model_open(struct device **device, struct trainer *trainer, struct model *model,
                       const struct trial *trial, const struct setup_options *options, struct status *status);
void loaded_model_close(struct device **device, struct trainer *trainer);
