// Step batch: the data of one step (step_data.h) on a device.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

// Opens a batch of tokens on any device; failures are in the device's status. Release with batch_close.
void step_batch_open(struct batch *batch, struct device *device, const struct batch_data *data);
// Adds the inputs of the trial's objective.
void step_batch_set_objective(struct batch *batch, struct device *device, const struct trial *trial,
                              const struct batch_data *data);
// Cuts its documents into the chunks of the model's chunked attention, and reduces it to this rank's tokens, if
// ranks divide each sequence.
void step_batch_share(struct batch *batch, const struct model *model);
