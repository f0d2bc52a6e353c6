// Train schedule: what the number of a training run's step says of it: its learning rate, and whether an evaluation
// follows.
#pragma once
#include "harness/spec/trial.h"

// The share of the optimizer's rate that the step after `done` steps has. "wsd" is get_wsd_schedule of transformers
// 5.24, to the bit, with stable_steps 0 as no num_stable_steps, floor as min_lr_ratio and cycles as num_cycles
// (warmup-stable-decay: Hu et al. 2024, arXiv 2404.06395). The other schedules are transformers' but in the
// warm-up, whose step s of w has s / w, so that the first one moves the weights.
double train_schedule_factor(const struct training *training, size_t done);
// Whether what is held out is evaluated after `done` steps, of a run that evaluates any.
bool train_schedule_evaluates(const struct training *training, size_t done);
