// Train settings: what a training run is, to be held against when it is resumed.
#pragma once
#include "harness/spec/trial.h"
#include <jansson.h>

// JSON, a new reference: the trial, its method as it was chosen, the sizes and hashes of the files that it trains
// on and evaluates, all of which are read, and the hash of its model's folder; without what may be another when it
// goes on.
json_t *train_settings(const struct trial *trial);
