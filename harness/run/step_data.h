// Step data: what one step of a trial is given, on the host: of its files, or at random by its seed.
#pragma once
#include "harness/files/batch_file.h"
#include "harness/spec/trial.h"

// All that the trial's objective reads. False and a status that says where what is missing. Release with
// batch_data_free, also after a failure.
bool step_data_read(struct batch_data *data, const struct trial *trial, struct status *status);
// The documents alone: what a step without data needs to know.
bool step_data_read_documents(struct batch_data *data, const struct trial *trial, struct status *status);
