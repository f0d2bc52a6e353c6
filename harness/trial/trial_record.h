// Trial record: what a trial came to becomes its record, part by part, and the record a line of JSON.
#pragma once
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/record/record.h"
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"
#include "harness/trial/rank_figures.h"
#include "kernels/base/breakdown.h"

// A record of the trial that is ok and says nothing else. Texts are borrowed until its line is written.
void trial_record_open(struct record *record, const struct trial *trial);
// Memory and work of a step, of all ranks together; 0: not reached.
void trial_record_figures(struct record *record, const struct rank_figures *figures);
// A figure of each of several ranks; the record's, of whose engine nothing is said yet.
struct record_ranks *trial_record_ranks(struct record *record, const struct rank_figures *ranks, size_t count);
// Medians, means, rates and the estimate's range, from the record's samples, estimate and rate of a GEMM. asked_ms:
// of each sample; empty: not known.
void trial_record_times(struct record *record, const struct trial *trial, const struct counters *counters,
                        const struct number_list *asked_ms);
// The card's energy and clock over so many samples.
void trial_record_sensors(struct record *record, const struct watch_report *watched, size_t samples);
void trial_record_gradient(struct record *record, const struct gradient_report *report);
void trial_record_timeline(struct record *record, const struct arena *arena);
// The time and estimate of each kind of operation. ms: of the step; roofline: that the estimates were made with.
void trial_record_categories(struct record *record, const struct trial *trial, const struct breakdown *breakdown,
                             double ms, const struct roofline *roofline);
// The record as one line without its newline, to be freed; the record is released.
char *trial_record_line(struct record *record, const struct provenance *provenance);
