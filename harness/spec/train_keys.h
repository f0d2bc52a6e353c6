// Train keys: the members of a trial's key "train".
#pragma once
#include "harness/spec/trial_keys.h"

// Ending in a NULL name.
extern const struct trial_key train_keys[];
