// Record line: what a trial's run came to, written as a line of JSON of the fields of
// harness/record/record_fields.h.
#pragma once
#include "harness/machine/machine_load.h"
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/record/record.h"
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "harness/step/rounding.h"
#include "harness/train/curve.h"
#include "harness/trial/bias.h"
#include "harness/trial/pair_sums.h"
#include "kernels/base/breakdown.h"

// What one rank of several came to.
struct rank_figures {
    size_t peak_bytes, resident_bytes, peak_by_category[CATEGORY_COUNT];
    size_t host_peak_bytes, host_peak_by_category[CATEGORY_COUNT];
    double floor_bytes_per_token, loss;
    double tokens;
    struct counters counters;
    double idle_share; // of a step, that it waits for others, by the links; NaN: not known
};

// What is known about a trial when it ends. Everything is borrowed; 0, NULL: not reached.
struct trial_result {
    const struct trial *trial;
    enum record_status status;
    char reason[1280];
    const struct step_report *step;
    size_t sample_count;
    const double *samples_ms;           // NULL: of a plan, not known
    const double *cpu_ms;               // NULL: not known
    const double *asked_ms;             // NULL: not known
    const size_t *sample_columns;       // NULL: none are drawn
    const double *slowdown;             // NULL: not known
    double estimate_ms;                 // mean over the samples
    const struct watch_report *watched; // the card while the samples ran
    const struct machine_load *load;    // the machine, likewise
    size_t peak_bytes, resident_bytes, peak_by_category[CATEGORY_COUNT];
    size_t host_peak_bytes, host_peak_by_category[CATEGORY_COUNT];
    size_t device_used_bytes, device_reserved_bytes; // as the driver counts them; 0: nobody does
    size_t unplanned_micro_batches;                  // of a planned training run (train_shapes.h)
    double tokens;                                   // of all rows that a step walks
    uint64_t data_hash;                              // 0: random data, or none
    uint64_t model_hash;                             // 0: no folder is read
    double floor_bytes_per_token, model_flops;
    struct counters counters;         // of one step
    double instructions;              // likewise; 0: not known
    const struct rank_figures *ranks; // [rank_count]; NULL: one rank, or not reached
    size_t rank_count;
    const char *engine; // of the ranks; "": planned
    bool oversubscribed;
    const struct gradient_report *gradient;
    double noise_floor, sums_relative_l2; // NaN: no sums in bf16
    struct rounding_verdict verdict;      // without a name: a method that is not exact
    double gemm_flops_per_s;
    const struct bias *bias;
    const struct pair_sums *pair_sums;
    const struct curve *curve;
    const struct arena *timeline; // the arena whose events are recorded
    const struct breakdown *breakdown;
    double breakdown_ms;      // of its step
    struct roofline roofline; // that its estimates were made with; 0: none
    struct provenance provenance;
    double wall_s;
};

// The record as one line without its newline, to be freed; experiment and command are left empty, for only the
// sweep knows them.
char *record_line(const struct trial_result *result);
