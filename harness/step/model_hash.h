// Model hash: detects that a folder's files have changed.
#pragma once
#include "harness/spec/trial.h"

// XXH3 of a trial's inputs in folders: the model's config.json and weights, its adapter, and a reference model's;
// for a plan without weights. 0: none, or unreadable.
uint64_t model_hash(const struct trial *trial);
