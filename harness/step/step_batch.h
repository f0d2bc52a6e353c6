// Step batch: what one step of a trial is given (step_data.h), on a device.
#pragma once
#include "harness/data/batch_file.h"
#include "harness/spec/trial.h"

// A batch of the tokens, on any device; what fails is in the device's status. Release with batch_close.
void step_batch_open(struct batch *batch, struct device *device, const struct batch_data *data);
// And what the trial's objective reads besides.
void step_batch_set_objective(struct batch *batch, struct device *device, const struct trial *trial,
                              const struct batch_data *data);
// Leaves of it the tokens that are this rank's, where ranks have some of each sequence's.
void step_batch_share(struct batch *batch, const struct model *model);
