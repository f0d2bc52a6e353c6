// Trial id: a hash of what of a trial differs from the defaults, so that a new key, or a new option of a method,
// changes the id of no trial there is.
#pragma once
#include "harness/spec/trial_decode.h"

// What differs from the defaults, of objects their members: a new reference. canonical: the trial's, every key with
// its defaults spelled out. defaults: as for trial_decode_fields.
json_t *trial_differences(const struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
// Sets trial->id.
void trial_id_set(struct trial *trial, const json_t *canonical, struct trial_defaults *defaults);
