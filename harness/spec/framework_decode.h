// Framework decode: the key "framework", and the keys that go with a plan of another framework's step.
#pragma once
#include "harness/json/json_field.h"
#include "harness/spec/trial.h"

#define FRAMEWORK_DEVICE "plan-" FRAMEWORK_NAME

json_t *decode_framework(struct trial *trial, struct json_field field, struct status *status);
// Whether the key's value has frozen weights quantised.
bool framework_quantises(const json_t *framework);
// Checks a decoded trial of another framework. own: its values that are not the defaults. Returns false, the key
// that is to be changed and why. A trial whose model or method the framework's step is not known for is marked
// unsupported.
bool framework_trial_check(struct trial *trial, const json_t *own, const char **key, struct status *why);
// The parts of the trial's step that nobody has checked against PyTorch, or nobody states: texts; NULL: none. A new
// reference.
json_t *framework_trial_unchecked(const struct trial *trial);
