// Curve: what a training run comes to, step by step and evaluation by evaluation, for its record.
#pragma once
#include "harness/record/record.h"
#include "harness/train/train.h"

struct curve {
    size_t steps, evaluations;
    double *loss, *gradient_norm;              // [steps]
    double *metrics[OBJECTIVE_METRICS];        // [steps]
    double *unchanged_weights, *lost_updates;  // [steps]
    double *evaluation_step, *evaluation_loss; // [evaluations], after so many steps each
    double *evaluation_metrics[OBJECTIVE_METRICS];
};

// With room for so many steps. Release with curve_close; a zeroed one needs none.
void curve_open(struct curve *curve, size_t steps);
void curve_close(struct curve *curve);
// The run's last step.
void curve_note_step(struct curve *curve, const struct train *train);
void curve_note_evaluation(struct curve *curve, size_t step, const struct objective_sums *found);
// As the record of the trial has it: of metrics those that its objective has, of lost updates none where they were
// not measured. To be freed with the record.
struct record_curve *curve_record(const struct curve *curve, const struct trial *trial);
