// Step: what a method's schedule works on, and what it reports.
#pragma once
#include "kernels/attention/kv_ranks.h"
#include "kernels/layers/cell.h"
#include "kernels/layers/head.h"
#include "kernels/model/unit.h"
#include "methods/schedule/options.h"

// Report of a step, besides the gradients, which are in the model's parameters. Zeroed before the first step;
// release with step_report_free after the last.
struct step_report {
    struct objective_sums sums; // as objective_sums_read has them
    double ms,
        host_launch_ms; // of the walk: until the device had done it, and until the host had asked for all of it
    struct index_list drawn_chunks; // that were drawn, left to right
};

// One step's setting, shared by all walks.
struct step {
    struct model *model;
    const struct batch *batch;
    const void *options; // the method's own struct
    struct tensor loss;  // as objective_sums_new has it
    struct step_report *report;
};
