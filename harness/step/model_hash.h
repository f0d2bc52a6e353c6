// Model hash: what tells that a folder's files have changed behind its name.
#pragma once
#include "harness/spec/trial.h"

// XXH3 of what the trial reads of folders: its model's config.json and weights, its adapter, and a reference
// model's; of a trial that is planned, which reads no weights, without these. 0: it reads none, or something cannot
// be read.
uint64_t model_hash(const struct trial *trial);
