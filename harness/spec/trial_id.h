// Trial id: a hash of what of a trial differs from the defaults, so that a new key, or a new option of a method,
// changes the id of no trial there is.
#pragma once
#include "harness/spec/trial_decode.h"

// Sets trial->id. canonical: every key with its defaults spelled out, as the trial was decoded from the fields.
void trial_id_set(struct trial *trial, const struct trial_fields *fields, const json_t *canonical);
