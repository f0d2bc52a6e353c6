// Train settings: a training run's settings, compared when it is resumed.
#pragma once
#include "harness/spec/trial.h"
#include <jansson.h>

// JSON, a new reference: the trial with the method as chosen, sizes and hashes of the training and evaluation
// files, which are read completely, and the hash of its model's folder; without settings that may change on resume.
json_t *train_settings(const struct trial *trial);
