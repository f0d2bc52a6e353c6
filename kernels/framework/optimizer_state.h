// Optimizer state: what the optimizers of transformers' Trainer keep for each weight that trains, and what their
// updates make besides.
#pragma once
#include "kernels/framework/framework_run.h"

// The state of parameter i, which trains.
void optimizer_state_open(struct framework_run *run, size_t i);
void optimizer_state_update(struct framework_run *run);
