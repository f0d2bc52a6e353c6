// Train keys: the members of a trial's key "train".
#pragma once
#include "harness/spec/trial_key.h"

// Ending in a NULL name.
extern const struct trial_key train_keys[];
