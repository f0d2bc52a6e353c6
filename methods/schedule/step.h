// Step: the input and the report of a method's schedule.
#pragma once
#include "kernels/attention/kv_ranks.h"
#include "kernels/layers/cell.h"
#include "kernels/layers/head.h"
#include "kernels/model/unit.h"
#include "methods/schedule/options.h"

// Report of a step, besides the gradients, which are in the model's parameters. Zero it before the first step;
// release with step_report_free after the last.
struct step_report {
    struct objective_sums sums; // see objective_sums_read
    double ms;                  // until the device finished the schedule
    double host_launch_ms;      // until the host had launched all of it
    // Left to right: the chunks that were drawn, of deferred those of the second pass; and its skipped ones.
    struct index_list drawn_chunks, skipped_chunks;
};

// Input of one step, the same for all schedules.
struct step {
    struct model *model;
    const struct batch *batch;
    const void *options; // the method's own struct
    struct tensor loss;  // see objective_sums_new
    struct step_report *report;
};
