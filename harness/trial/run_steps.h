// Run: the steps of a trial in this process, and its timed samples.
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

// A plan's estimate is the mean over this many draws, or fewer if its standard error falls to a hundredth of it.
#define PLANNED_DRAWS_MAX 64

struct run {
    const struct trial *trial;
    struct trial resolved;       // with its own options; the method may have been chosen
    int store;                   // descriptor of references; -1: none
    const struct world *world;   // the processes
    size_t rank;                 // of this process, or the rank being planned
    struct record record;        // measured so far, without the samples and values derived from them
    struct rank_figures figures; // of this rank, at the end
    struct rank_figures *ranks;  // [trial_ranks], on rank 0
    struct provenance provenance;
    struct setup setup;
    char device[RANK_DEVICE_BYTES];
    struct status status;
    struct reference reference;
    struct kept_choices choices; // of the step whose gradient is checked
    struct gradient_report gradient;
    struct breakdown breakdown;
    bool stepped;
    struct step_report first, step; // the first step's report is recorded: an optimizer moves later losses
    void *options;                  // of the current draw
    bool draws;
    size_t samples; // samples taken; arrays with a number for each:
    double *samples_ms, *cpu_ms, *host_launch_ms, *slowdown, *sample_chunks;
    struct reference_kernel *reference_kernel; // NULL: no slowdown is measured
    double estimate_ms;                        // mean over the samples
    double estimate_squares;                   // sum of squares of the estimates about their mean
    struct watch *watch;
    struct watch_report watched; // over the samples
    struct record_load load;     // over the samples
    struct event_counter instructions;
    int64_t start_ns;
    size_t updates; // of the optimizer
    struct train train;
    struct record_curve *curve; // NULL: the trial does not train, or is planned
    // Communication of the planned rank, in its step and in each sample; traces NULL: not recorded.
    struct trace trace, *traces;
    size_t draws_planned; // samples of earlier ranks; 0: the first
};

double run_seconds(const struct run *run);
// True while neither the run nor its device has failed; takes over a failed device's reason.
bool run_fine(struct run *run);
// Tells whether this is rank 0, which alone does some work while the others wait.
bool run_is_first(const struct run *run);
void run_rest(const struct run *run);
// Sets gradients as a step with an update begins, so that earlier ones are in no peak.
void run_begin_afresh(struct run *run);
void run_set_draw(struct run *run, size_t index);
// Runs one step over draw 0 and keeps all its gradients at once, without the limit if a step never does. The probe
// is of its choices.
bool run_for_gradients(struct run *run, const struct choices_probe *probe);
// Runs one step over a draw, timed from its first operation until the device is idle, without reading the loss.
bool run_step(struct run *run, size_t draw, bool update);
// Takes all samples: draw 0 and later ones, or the steps of a training run.
bool run_sample(struct run *run);
// Maximum number of samples.
size_t run_samples_max(const struct trial *trial);
void run_note_peak(struct run *run);
// Room for each step and evaluation of a training run; freed with the record.
struct record_curve *run_curve(size_t steps);

// --- run_part.c: one of the trial's ranks

// Opens the rank's part of the step and starts its peak. ranks NULL: a single rank.
bool run_open_part(struct run *run, const struct comm *ranks);
bool run_take_samples(struct run *run);

// --- plan_ranks.c: samples of a trial over several ranks, without data. Ranks with equal work run once.

// Computes each rank's figures and their totals; with a profile and an interconnect the estimate of a step, and
// each rank's waiting time. Leaves rank 0's part open.
bool plan_ranks(struct run *run);
