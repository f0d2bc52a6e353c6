// Largest turn: where an optimizer lets layers train by turns, the turn of which a step takes the most memory. It
// is what is planned, and what a trial measures that takes one step again and again.
#pragma once
#include "harness/step/setup.h"

// Gives that turn to its layer, of those that come up within the trial's steps. It is found by planning, at the
// rates of the setup's device and with its memo, if it has one. Nothing happens where all trains together.
void largest_block_activate(struct setup *setup, const struct trial *trial);
