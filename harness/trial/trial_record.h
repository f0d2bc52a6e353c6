// Trial record: what a trial came to becomes its record, part by part, and the record a line of JSON.
#pragma once
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/record/record.h"
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "kernels/comm/world.h"
#include "kernels/measure/breakdown.h"

// Memory and work of a step on one rank, or on all ranks of a trial; zeroed: not reached.
struct rank_figures {
    size_t peak_bytes, resident_bytes, peak_by_category[CATEGORY_COUNT];
    size_t host_peak_bytes, host_peak_by_category[CATEGORY_COUNT];
    double lower_bound_bytes_per_token, loss;
    double tokens; // of all rows that a step walks
    struct counters counters;
    double idle_share; // of a step, that it waits for others, by the interconnect; NaN: not known
};

// A record of the trial that is ok and says nothing else. Texts are borrowed until its line is written.
void trial_record_open(struct record *record, const struct trial *trial);
// Memory and work of a step, of all ranks together; 0: not reached.
void trial_record_figures(struct record *record, const struct rank_figures *figures);
// A figure of each of several ranks; the record's, of whose engine nothing is said yet.
struct record_ranks *trial_record_ranks(struct record *record, const struct rank_figures *ranks, size_t count);
// Medians, means, rates and the estimate's range, from the record's samples, estimate and rate of a GEMM.
// host_launch_ms: of each sample; empty: not known.
void trial_record_times(struct record *record, const struct trial *trial, const struct counters *counters,
                        const struct number_list *host_launch_ms);
// The card's energy and clock over so many samples.
void trial_record_sensors(struct record *record, const struct watch_report *watched, size_t samples);
void trial_record_gradient(struct record *record, const struct gradient_report *report);
void trial_record_timeline(struct record *record, const struct arena *arena);
// The time and estimate of each kind of operation. ms: of the step; roofline: that the estimates were made with.
void trial_record_categories(struct record *record, const struct trial *trial, const struct breakdown *breakdown,
                             double ms, const struct roofline *roofline);
// The record as one line without its newline, to be freed; the record is released.
char *trial_record_line(struct record *record, const struct provenance *provenance);

// --- rank_figures.c: several ranks put together

// all: on rank 0 the figures of every rank; and there samples_ms becomes that of the slowest rank each time.
void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                         double *samples_ms, size_t sample_count);
// Those of all ranks: the most memory, and what that rank had besides; everyone's work. The loss is the step's:
// that of the highest stages, of which each has its sequences'; the others' is 0.
struct rank_figures rank_figures_merge(const struct rank_figures *ranks, size_t count);
