// Trial: its execution in this process: set-up, gradient check, bias, warm-up, samples, time line; in that order,
// for nothing is timed that was not checked, and an optimizer changes the weights from the first warm-up step on. A
// planned trial has been decoded to one sample without the rest.
//
// Where the method draws its columns, sample i walks draw i, and so does step i of the warm-up: their times are
// those of independent draws, the same ones whenever the trial is run. All else that is recorded is of draw 0:
// gradient check, loss, columns, peak, counts, the step that is taken apart and the time line. A later draw that
// takes more memory than there is ends the trial as oom.
//
// Of several ranks each is a process that comes through here, and all take the same steps. What one rank alone
// does, rank 0, the others wait for at rest. A plan has no processes: one rank is walked after another.
#include "harness/trial/trial_run.h"
#include "harness/calibrate/calibrate.h"
#include "harness/machine/cores.h"
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/plan/choice.h"
#include "harness/step/model_hash.h"
#include "harness/step/ranks.h"
#include "harness/step/ranks_possible.h"
#include "harness/step/setup.h"
#include "harness/step/step_logprobs.h"
#include "harness/trial/plan_ranks.h"
#include "harness/trial/rank_figures.h"
#include "harness/trial/reference_store.h"
#include "harness/trial/run_part.h"
#include "kernels/base/clock.h"
#include "kernels/base/timer.h"
#include <math.h>
#include <string.h>

static bool take_reference(struct run *run)
{
    if (reference_store_find(run->store, run->trial, &run->reference))
        return true;
    bool taken = reference_take(&run->reference, run->trial, &run->status);
    if (taken)
        reference_store_add(run->store, run->trial, &run->reference);
    return taken;
}

// All of them at once, for which the limit is not where a step never has them so.
static bool walk_for_gradients(struct run *run)
{
    struct arena *arena = &run->setup.device->arena;
    size_t limit = arena->limit_bytes;
    if (!run->setup.model.keeps_gradients)
        arena->limit_bytes = 0;
    bool done = run_step(run, 0, false);
    arena->limit_bytes = limit;
    return done;
}

static bool check_gradient(struct run *run)
{
    const struct trial *trial = run->trial;
    bool first = run_is_first(run);
    if (first && !take_reference(run))
        return false;
    run_rest(run);
    if (!walk_for_gradients(run))
        return false;
    struct gradient_set set;
    ranks_gradients(&set, &run->setup.model, trial_split(trial), trial->context, run->world);
    if (!first) {
        gradient_set_free(&set);
        run_rest(run);
        return true;
    }
    gradient_compare(&run->gradient, &set, &run->reference.gradients);
    run->result.gradient = &run->gradient;
    run->result.noise_floor = run->reference.floor.overall.relative_l2;
    struct gradient_report sums;
    bool done = reference_sums(&sums, &set, trial, run->options, &run->status);
    gradient_set_free(&set);
    if (sums.count)
        run->result.sums_relative_l2 = sums.overall.relative_l2;
    bool good = done && (!trial->method->exact || reference_judge(&run->result.verdict, &run->reference, trial,
                                                                  &run->gradient, &run->status));
    gradient_report_free(&sums);
    if (good)
        run_rest(run);
    return good;
}

static bool measure_bias(struct run *run)
{
    const struct trial *trial = run->trial;
    if (!run->result.gradient && !take_reference(run))
        return false;
    if (!bias_measure(&run->bias, trial->method, &run->setup.model, &run->setup.batch, trial->options,
                      &run->reference.gradients, &run->status))
        return false;
    run->result.bias = &run->bias;
    return true;
}

static bool measure_pair_sums(struct run *run)
{
    struct device *device = run->setup.device;
    const struct batch *batch = &run->setup.batch;
    struct tensor log_prob =
        tensor_new(device, batch->context * batch->batch, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    step_logprobs(log_prob, &run->setup.model, batch, false);
    if (device->status.code == STATUS_OK) {
        pair_sums_of(&run->pair_sums, device, batch, log_prob);
        run->result.pair_sums = &run->pair_sums;
    }
    tensor_free(device, &log_prob);
    run->status = device->status;
    return run_fine(run);
}

static bool record_timeline(struct run *run)
{
    struct arena *arena = &run->setup.device->arena;
    arena_timeline_start(arena);
    bool done = run_step(run, 0, !run->setup.model.keeps_gradients); // else all would be there
    arena_timeline_stop(arena);
    run->result.timeline = done ? arena : NULL;
    return done;
}

// What finding a peak rate may take of the trial's time.
static double peak_seconds(const struct trial *trial)
{
    return trial->measure.max_seconds > 0 ? trial->measure.max_seconds / 30 : INFINITY;
}

static bool take_breakdown(struct run *run)
{
    struct device *device = run->setup.device;
    // The rates that shares of a roofline are taken of: the profile's, else on the CPU those of now.
    if (!run->trial->profile && strcmp(run->trial->device, "cpu") == 0)
        calibrate_roofline(run->trial->dtype, run->result.gemm_flops_per_s, peak_seconds(run->trial),
                           &device->roofline);
    run->result.roofline = device->roofline;
    breakdown_start(&run->breakdown, device);
    bool done = run_step(run, 0, run->trial->optimizer);
    breakdown_stop(&run->breakdown, device);
    run->result.breakdown_ms = run->step.ms;
    run->result.breakdown = done ? &run->breakdown : NULL;
    return done;
}

static void note_device_memory(struct run *run)
{
    struct device *device = run->setup.device;
    if (device->ops->used_bytes)
        run->result.device_used_bytes = device->ops->used_bytes(device);
    if (device->ops->reserved_bytes)
        run->result.device_reserved_bytes = device->ops->reserved_bytes(device);
}

// On rank 0: the result of all.
static void gather_ranks(struct run *run)
{
    struct rank_figures own = rank_figures_of(&run->result, run->first.sums.loss);
    rank_figures_gather(run->world, run->ranks, &own, run->samples_ms, run->result.sample_count);
    if (run_is_first(run)) {
        run->first.sums.loss = rank_figures_loss(run->ranks, run->world->comm.size);
        rank_figures_merge(&run->result, run->ranks, run->world->comm.size);
    }
}

// From the set-up to the samples, in a process of its own.
static bool measure_rank(struct run *run)
{
    const struct trial *trial = run->trial;
    bool several = run->world->comm.size > 1;
    if (!run_open_part(run, several ? &run->world->comm : NULL))
        return false;
    bool checked = trial->measure.gradient == GRADIENT_FULL_F64 && !trial->method->no_gradient;
    if (checked && !check_gradient(run))
        return false;
    if (trial->measure.bias && !measure_bias(run))
        return false;
    if (trial->measure.pair_sums && !measure_pair_sums(run))
        return false;
    run->watch = watch_open(run->setup.device); // before the warm-up: what is loaded now does not let the card cool
    for (size_t i = 0; i < trial->measure.warmup; i++)
        if (!run_step(run, i, trial->optimizer))
            return false;
    if (!run_take_samples(run))
        return false;
    if (several)
        gather_ranks(run);
    // Rank 0 knows that of all.
    return trial->planned || !run_is_first(run) || isfinite(run->first.sums.loss) ||
           status_set(&run->status, STATUS_FAILED,
                      "the loss is not finite: a weight is not, or something is too large for %s",
                      dtype_name(trial->dtype));
}

static bool measure(struct run *run)
{
    const struct trial *trial = run->trial;
    if (!choose_within(&run->walked, run->world, &run->status) || !ranks_possible(trial, &run->status) ||
        !(trial->planned && trial_ranks(trial) > 1 ? plan_ranks(run) : measure_rank(run)))
        return false;
    if (!trial->planned) // whose clock measured this program
        run->result.samples_ms = run->samples_ms;
    if (run->draws)
        run->result.sample_columns = run->sample_columns;
    if (run->setup.device->ops->mark) // else it is the step's time once more
        run->result.asked_ms = run->asked_ms;
    else
        run->result.cpu_ms = run->cpu_ms;
    note_device_memory(run);
    if (trial->measure.gemm && run_is_first(run)) {
        run->result.gemm_flops_per_s =
            calibrate_gemm(trial->device, trial->dtype, peak_seconds(trial), &run->status);
        if (!run_fine(run))
            return false;
    }
    run_rest(run);
    return (!trial->measure.categories || take_breakdown(run)) &&
           (!trial->measure.timeline || record_timeline(run));
}

static enum record_status record_status_of(enum status_code code)
{
    return code == STATUS_OK            ? RECORD_OK
           : code == STATUS_OOM         ? RECORD_OOM
           : code == STATUS_UNSUPPORTED ? RECORD_UNSUPPORTED
                                        : RECORD_FAILED;
}

// The reason, by the rank that it is of.
static void note_reason(struct run *run)
{
    struct trial_result *result = &run->result;
    int used = 0;
    if (trial_ranks(run->trial) > 1 && run->setup.device)
        used = snprintf(result->reason, sizeof result->reason, "rank %zu of %zu: ", run->rank,
                        trial_ranks(run->trial));
    snprintf(result->reason + used, sizeof result->reason - (size_t)used, "%s", run->status.message);
}

static char *run_and_tell(const struct trial *trial, int store, struct world *world, bool *failed)
{
    struct run *run = calloc(1, sizeof *run);
    CHECK(run);
    run->walked = *trial; // what it points to is borrowed, but for the options
    run->walked.options = options_copy(&trial->method->options, trial->options);
    run->trial = &run->walked;
    run->store = store;
    run->world = world;
    run->rank = run->world->comm.rank;
    run->ranks = calloc(trial_ranks(trial), sizeof *run->ranks);
    run->start_ns = clock_ns();
    size_t samples = run_samples_max(trial);
    run->samples_ms = calloc(samples, sizeof *run->samples_ms);
    run->cpu_ms = calloc(samples, sizeof *run->cpu_ms);
    run->asked_ms = calloc(samples, sizeof *run->asked_ms);
    run->slowdown = calloc(samples, sizeof *run->slowdown);
    run->sample_columns = calloc(samples, sizeof *run->sample_columns);
    curve_open(&run->curve, samples);
    CHECK(run->samples_ms && run->cpu_ms && run->asked_ms && run->slowdown && run->sample_columns && run->ranks);
    struct trial_result *result = &run->result;
    result->trial = run->trial;
    provenance_take(&result->provenance);
    result->sums_relative_l2 = NAN;
    result->engine = run->world->engine;
    result->model_hash = run_is_first(run) ? model_hash(trial) : 0;
    result->oversubscribed = world->comm.size * (size_t)result->provenance.threads > cores_usable();

    *failed = !world_join(world, trial->device, &run->status) || !measure(run);
    if (*failed) {
        result->status = record_status_of(run->status.code);
        note_reason(run);
        // What a failed step took or reported measures nothing; where memory stood is why it failed.
        result->sample_count = 0;
        result->counters = (struct counters){0};
        result->ranks = NULL;
        result->curve = NULL;
        if (result->status == RECORD_OOM)
            result->step = NULL;
        if (run->setup.device) {
            run_note_peak(run);
            note_device_memory(run);
        }
    }
    result->provenance.clock_mhz_after = provenance_clock_mhz();
    result->wall_s = run_seconds(run);
    char *line = run_is_first(run) || *failed ? record_line(result) : NULL;

    yardstick_close(run->yardstick);
    watch_close(run->watch);
    train_close(&run->train);
    trace_free(&run->trace);
    setup_close(&run->setup);
    reference_free(&run->reference);
    gradient_report_free(&run->gradient);
    breakdown_free(&run->breakdown);
    options_free(&run->trial->method->options, run->options);
    options_free(&run->trial->method->options, run->walked.options);
    step_report_free(&run->step);
    step_report_free(&run->first);
    curve_close(&run->curve);
    free(run->samples_ms);
    free(run->cpu_ms);
    free(run->asked_ms);
    free(run->slowdown);
    free(run->sample_columns);
    free(run->ranks);
    free(run);
    return line;
}

char *trial_run(const struct trial *trial, int store)
{
    struct world alone;
    bool failed;
    world_open_alone(&alone);
    return run_and_tell(trial, store, &alone, &failed);
}

char *trial_run_rank(const struct trial *trial, struct world *world, bool *failed)
{
    return run_and_tell(trial, -1, world, failed);
}
