// Trial record: builds a trial's record from its results, part by part, and writes it as a line of JSON.
#pragma once
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/record/record.h"
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "kernels/comm/world.h"
#include "kernels/framework/framework_run.h"
#include "kernels/measure/breakdown.h"

// Memory and work of a step on one rank, or on all ranks of a trial; zeroed: not reached.
struct rank_figures {
    size_t peak_bytes, resident_bytes, peak_by_category[CATEGORY_COUNT];
    size_t host_peak_bytes, host_peak_by_category[CATEGORY_COUNT];
    double lower_bound_bytes_per_token, loss, aux_loss, router_z_loss;
    double tokens; // of all rows of a step
    struct counters counters;
    double idle_share; // share of a step spent waiting for others, by the interconnect; NaN: unknown
};

// A record of an ok trial without results. Texts are borrowed until its line is written.
void trial_record_open(struct record *record, const struct trial *trial);
// Sets the place of the peak in another framework's step.
void trial_record_framework(struct record *record, const struct framework_run *run);
// Sets memory and work of a step over all ranks; 0: not reached.
void trial_record_figures(struct record *record, const struct rank_figures *figures);
// Sets the figures of each rank; returns the record's, without an engine yet.
struct record_ranks *trial_record_ranks(struct record *record, const struct rank_figures *ranks, size_t count);
// Sets medians, means, rates and the estimate's range, from the record's samples, estimate and GEMM rate.
// host_launch_ms: per sample; empty: unknown.
void trial_record_times(struct record *record, const struct trial *trial, const struct counters *counters,
                        const struct number_list *host_launch_ms);
// Sets the card's energy and clock over the samples.
void trial_record_sensors(struct record *record, const struct watch_report *watched, size_t samples);
void trial_record_gradient(struct record *record, const struct gradient_report *report);
void trial_record_timeline(struct record *record, const struct arena *arena);
// Sets time and estimate of each kind of operation. ms: of the step; roofline: used for the estimates.
void trial_record_categories(struct record *record, const struct trial *trial, const struct breakdown *breakdown,
                             double ms, const struct roofline *roofline);
// The record as a line without its newline, to be freed; releases the record.
char *trial_record_line(struct record *record, const struct provenance *provenance);

// --- rank_figures.c: combining ranks

// Gathers all ranks' figures on rank 0, where samples_ms becomes the slowest rank's time per sample.
void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                         double *samples_ms, size_t sample_count);
// Combines all ranks: the maximum memory, with that rank's other figures; total work. The loss is the sum over the
// highest stages, which each have their sequences'; other ranks' is 0.
struct rank_figures rank_figures_merge(const struct rank_figures *ranks, size_t count);
