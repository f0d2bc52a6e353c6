// Run: the steps that a trial's run takes, in this process, and its samples, which are what is timed.
#pragma once
#include "harness/machine/event_counter.h"
#include "harness/machine/machine_load.h"
#include "harness/machine/reference_kernel.h"
#include "harness/machine/watch.h"
#include "harness/step/ranks.h"
#include "harness/step/setup.h"
#include "harness/train/train.h"
#include "harness/trial/reference.h"
#include "harness/trial/trial_record.h"
#include "kernels/comm/world.h"
#include "kernels/measure/trace.h"

// A plan's estimate is the mean over this many draws, or fewer once its standard error is a hundredth of it.
#define PLANNED_DRAWS_MAX 64

struct run {
    const struct trial *trial;
    struct trial walked;         // with options of its own, and a method that may have been chosen
    int store;                   // of references; -1: none
    const struct world *world;   // the processes
    size_t rank;                 // of this process, or that is being planned
    struct record record;        // what was measured so far, but for the samples and what follows from them
    struct rank_figures figures; // of this rank, at the end of all
    struct rank_figures *ranks;  // [trial_ranks], on rank 0
    struct provenance provenance;
    struct setup setup;
    char device[RANK_DEVICE_BYTES];
    struct status status;
    struct reference reference;
    struct gradient_report gradient;
    struct breakdown breakdown;
    bool stepped;
    struct step_report first, step; // the first step's report is the recorded one: an optimizer moves later losses
    void *options;                  // of the current draw
    bool draws;
    size_t samples; // taken; a number of each:
    double *samples_ms, *cpu_ms, *host_launch_ms, *slowdown, *sample_chunks;
    struct reference_kernel *reference_kernel; // NULL: there is no slowdown
    double estimate_ms;                        // mean over the samples
    double estimate_squares;                   // sum of squares of the estimates about their mean
    struct watch *watch;
    struct watch_report watched; // over the samples
    struct record_load load;     // likewise
    struct event_counter instructions;
    int64_t start_ns;
    size_t updates; // of the optimizer
    struct train train;
    struct record_curve *curve; // NULL: the trial does not train, or is planned
    // Messages of the rank that is being planned, of its step and of each sample; traces NULL: not recorded.
    struct trace trace, *traces;
    size_t draws_planned; // samples that the ranks before it have taken; 0: it is the first
};

double run_seconds(const struct run *run);
// True while neither the run nor its device has failed; a failed device's reason becomes the run's.
bool run_fine(struct run *run);
// Rank 0's work alone; the others wait at rest.
bool run_is_first(const struct run *run);
void run_rest(const struct run *run);
// Gradients as a step with an update begins with them, so that what a step without one left is in no peak.
void run_begin_afresh(struct run *run);
void run_set_draw(struct run *run, size_t index);
// One step over a draw, timed from its first operation until the device is idle; reading the loss is no part of it.
bool run_step(struct run *run, size_t draw, bool update);
// All samples: draw 0 and those after it, or the steps of a training run.
bool run_sample(struct run *run);
// How many there can be.
size_t run_samples_max(const struct trial *trial);
void run_note_peak(struct run *run);
// Room for each step and evaluation of a training run; to be freed with the record.
struct record_curve *run_curve(size_t steps);

// --- run_part.c: of one of the trial's ranks

// The rank's part of the step; its peak begins with it. ranks NULL: there is one.
bool run_open_part(struct run *run, const struct comm *ranks);
bool run_take_samples(struct run *run);

// --- plan_ranks.c: the samples of a trial over several ranks, without data. Those that walk alike are walked once.

// Every rank's figures, and what they come to together; with a profile and an interconnect the estimate of a step,
// and how much of it each rank waits. What is left open is rank 0's part.
bool plan_ranks(struct run *run);
