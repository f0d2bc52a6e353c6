// Loaded model: a trial's model with weights on an open device, before any batch. Weights are rounded to the
// trial's dtype first, so they are equal on every device and in every dtype. Each rank has its own part.
#pragma once
#include "harness/step/setup_options.h"
#include "kernels/trainer/trainer.h"

// Reads no weights on a device without data. Returns false and a status (oom, unsupported, bad input). Release with
// loaded_model_close, also after a failure.
bool loaded_model_open(struct device **device, struct trainer *trainer, struct model *model,
                       const struct trial *trial, const struct setup_options *options, struct status *status);
// Gives a plan the numbers of its profile's card.
void planned_card(struct device *device, const struct trial *trial);
void loaded_model_close(struct device **device, struct trainer *trainer);
