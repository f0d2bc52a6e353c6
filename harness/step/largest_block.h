// Largest block: for an optimizer of active blocks, the block whose step takes the most memory. Plans and trials
// that repeat one step use it.
#pragma once
#include "harness/step/setup.h"

// Activates that block, among those of the trial's steps. Finds it by planning, with the rates and memo of the
// setup's device, if any. Does nothing if all weights train together.
void largest_block_activate(struct setup *setup, const struct trial *trial);
