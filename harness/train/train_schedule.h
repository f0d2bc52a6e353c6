// Train schedule: learning rate and evaluation of a training run, by step number.
#pragma once
#include "harness/spec/trial.h"

// The factor of the optimizer's rate for the step after `done` steps. "wsd" equals get_wsd_schedule of transformers
// 5.24 to the bit, with stable_steps 0 as no num_stable_steps, floor as min_lr_ratio and cycles as num_cycles
// (warmup-stable-decay: Hu et al. 2024, arXiv 2404.06395). The other schedules are transformers', except that step
// s of a warm-up of w has s / w, so that the first step moves the weights.
double train_schedule_factor(const struct training *training, size_t done);
// Tells whether an evaluation follows `done` steps, in a run that evaluates.
bool train_schedule_evaluates(const struct training *training, size_t done);
