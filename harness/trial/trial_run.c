// Trial: runs in this process: set-up, gradient check, bias, warm-up, samples, time line. This order checks
// everything before it is timed; an optimizer changes the weights from the first warm-up step on. A planned trial
// has one sample and nothing else.
//
// If the method draws chunks, sample i uses draw i, and so does warm-up step i: times are of independent draws, the
// same in every run of the trial. Everything else recorded is of draw 0: gradient check, loss, chunks, peak,
// counts, time by operation and the time line. A later draw that exceeds memory ends the trial as oom.
//
// With several ranks each process runs this, and all take the same steps. During rank 0's own work the others wait.
// A plan has no processes: its ranks run one after another.
#include "harness/trial/trial_run.h"
#include "harness/calibrate/calibrate.h"
#include "harness/machine/cores.h"
#include "harness/machine/provenance.h"
#include "harness/machine/watch.h"
#include "harness/plan/choice.h"
#include "harness/record/record_json.h"
#include "harness/step/model_hash.h"
#include "harness/step/ranks.h"
#include "harness/step/ranks_choices.h"
#include "harness/step/ranks_possible.h"
#include "harness/step/setup.h"
#include "harness/step/step_logprobs.h"
#include "harness/text/text.h"
#include "harness/trial/bias.h"
#include "harness/trial/pair_sums.h"
#include "harness/trial/reference_store.h"
#include "harness/trial/routing.h"
#include "harness/trial/run_steps.h"
#include "kernels/base/clock.h"
#include "kernels/measure/timer.h"
#include <math.h>
#include <string.h>

static bool take_reference(struct run *run)
{
    const struct kept_choices *given = reference_choices(run->trial, &run->choices);
    if (reference_store_find(run->store, run->trial, given, &run->reference))
        return true;
    bool taken = reference_take(&run->reference, run->trial, given, &run->status);
    if (taken)
        reference_store_add(run->store, run->trial, given, &run->reference);
    return taken;
}

static bool check_gradient(struct run *run)
{
    const struct trial *trial = run->trial;
    struct kept_choices own = {0};
    const struct choices_probe probe = {.taken = &own};
    bool done = run_for_gradients(run, &probe);
    if (done)
        ranks_choices(&run->choices, &own, trial, &run->setup.batch, run->setup.sequences, run->world);
    kept_choices_free(&own);
    if (!done)
        return false;
    struct gradient_set set;
    ranks_gradients(&set, &run->setup.model, trial_split(trial), trial->context, run->world);
    bool first = run_is_first(run);
    if (!first || !take_reference(run)) {
        gradient_set_free(&set);
        if (!first)
            run_rest(run);
        return !first;
    }
    struct record_gradient *gradient = &run->record.gradient;
    if (trial->config.experts.routing.experts)
        gradient->routing = reference_choices(trial, &run->choices) ? "trial" : "own";
    gradient_compare(&run->gradient, &set, &run->reference.gradients);
    trial_record_gradient(&run->record, &run->gradient);
    gradient->noise_floor = run->reference.floor.overall.relative_l2;
    struct gradient_report sums;
    bool good = reference_sums(&sums, &set, trial, run->options, &run->status);
    gradient_set_free(&set);
    if (sums.count)
        gradient->sums_relative_l2 = sums.overall.relative_l2;
    gradient_report_free(&sums);
    if (good && trial_is_exact(trial)) {
        struct rounding_verdict verdict = {0};
        good = reference_judge(&verdict, &run->reference, trial, &run->gradient, &run->status);
        gradient->verdict = verdict.name;
        gradient->bound = verdict.bound;
        gradient->bound_share = verdict.bound_share;
    }
    if (good)
        run_rest(run);
    return good;
}

static bool measure_bias(struct run *run)
{
    return (run->record.gradient.given || take_reference(run)) && bias_measure(run);
}

static bool measure_pair_sums(struct run *run)
{
    struct device *device = run->setup.device;
    const struct batch *batch = &run->setup.batch;
    struct tensor log_prob =
        tensor_new(device, batch->context * batch->batch, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    step_logprobs(log_prob, &run->setup.model, batch, false);
    if (device->status.code == STATUS_OK) {
        struct record_pair_sums *sums = malloc(sizeof *sums);
        pair_sums_of(sums, device, batch, log_prob);
        run->record.pair_sums = sums;
    }
    tensor_free(device, &log_prob);
    run->status = device->status;
    return run_fine(run);
}

static bool record_timeline(struct run *run)
{
    struct arena *arena = &run->setup.device->arena;
    arena_timeline_start(arena);
    bool done = run_step(run, 0, !run->setup.trainer.keeps_gradients); // otherwise all gradients would be present
    arena_timeline_stop(arena);
    if (done)
        trial_record_timeline(&run->record, arena);
    return done;
}

// Share of the trial's time for finding a peak rate.
static double peak_seconds(const struct trial *trial)
{
    return trial->measure.max_seconds > 0 ? trial->measure.max_seconds / 30 : INFINITY;
}

static bool take_breakdown(struct run *run)
{
    struct device *device = run->setup.device;
    double gemm = run->record.gemm_flops_per_s;
    // Rates for shares of the roofline: the profile's, or on the CPU the current ones.
    if (!run->trial->profile && strcmp(run->trial->device, "cpu") == 0)
        calibrate_roofline(run->trial->dtype, gemm > 0 ? gemm : 0, peak_seconds(run->trial), &device->roofline);
    const struct roofline roofline = device->roofline;
    breakdown_start(&run->breakdown, device);
    bool done = run_step(run, 0, run->trial->optimizer);
    breakdown_stop(&run->breakdown, device);
    if (done)
        trial_record_categories(&run->record, run->trial, &run->breakdown, run->step.ms, &roofline);
    return done;
}

static void note_device_memory(struct run *run)
{
    struct device *device = run->setup.device;
    if (device->ops->used_bytes)
        run->record.device_used_bytes = (double)device->ops->used_bytes(device);
    if (device->ops->reserved_bytes)
        run->record.device_reserved_bytes = (double)device->ops->reserved_bytes(device);
}

// On rank 0: the figures of all ranks.
static void gather_ranks(struct run *run)
{
    double *metrics = run->first.sums.metrics;
    run->figures.loss = run->first.sums.loss;
    run->figures.aux_loss = metrics[METRIC_AUX_LOSS];
    run->figures.router_z_loss = metrics[METRIC_ROUTER_Z_LOSS];
    rank_figures_gather(run->world, run->ranks, &run->figures, run->samples_ms, run->samples);
    if (run_is_first(run)) {
        run->figures = rank_figures_merge(run->ranks, run->world->comm.size);
        run->first.sums.loss = run->figures.loss;
        metrics[METRIC_AUX_LOSS] = run->figures.aux_loss;
        metrics[METRIC_ROUTER_Z_LOSS] = run->figures.router_z_loss;
    }
}

// Runs one rank from set-up to samples, in its own process.
static bool measure_rank(struct run *run)
{
    const struct trial *trial = run->trial;
    bool several = run->world->comm.size > 1;
    if (!run_open_part(run, several ? &run->world->comm : NULL))
        return false;
    bool checked = trial->measure.gradient == GRADIENT_FULL_F64 && !trial->method->no_gradient;
    if (checked && !check_gradient(run))
        return false;
    if (trial->measure.routing && !routing_measure(run))
        return false;
    if (trial->measure.bias && !measure_bias(run))
        return false;
    if (trial->measure.pair_sums && !measure_pair_sums(run))
        return false;
    run->watch = watch_open(run->setup.device); // before the warm-up: loading it later would let the card cool
    for (size_t i = 0; i < trial->measure.warmup; i++)
        if (!run_step(run, i, trial->optimizer))
            return false;
    if (!run_take_samples(run))
        return false;
    if (several)
        gather_ranks(run);
    // Only rank 0 has the loss of all ranks.
    return trial->planned || !run_is_first(run) || isfinite(run->first.sums.loss) ||
           status_set(&run->status, STATUS_FAILED,
                      "the loss is not finite: a weight is not, or something is too large for %s",
                      dtype_name(trial->dtype));
}

static bool measure(struct run *run)
{
    const struct trial *trial = run->trial;
    if (!choose_within(&run->resolved, run->world, &run->status) || !ranks_possible(trial, &run->status) ||
        !(trial->planned && trial_ranks(trial) > 1 ? plan_ranks(run) : measure_rank(run)))
        return false;
    note_device_memory(run);
    if (trial->measure.gemm && run_is_first(run)) {
        double rate = calibrate_gemm(trial->device, trial->dtype, peak_seconds(trial), &run->status);
        run->record.gemm_flops_per_s = rate > 0 ? rate : NAN;
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

static void write_reason(const struct run *run, char *reason, size_t bytes)
{
    *reason = 0;
    if (trial_ranks(run->trial) > 1 && run->setup.device)
        text_append(reason, bytes, "rank %zu of %zu: ", run->rank, trial_ranks(run->trial));
    text_append(reason, bytes, "%s", run->status.message);
}

// Moves the samples' numbers into the record; empty unless `wanted`.
static struct number_list take(const struct run *run, double **numbers, bool wanted)
{
    struct number_list list = {wanted ? run->samples : 0, *numbers};
    *numbers = NULL;
    return list;
}

static struct number_list numbers_of(const struct index_list *chunks)
{
    struct number_list list = number_list_make(chunks->count);
    for (size_t i = 0; i < chunks->count; i++)
        list.items[i] = (double)chunks->items[i];
    return list;
}

static void record_step(struct run *run)
{
    struct record *record = &run->record;
    record->loss = run->trial->planned ? NAN : run->first.sums.loss;
    if (!run->trial->planned && trial_has_metric(run->trial, METRIC_AUX_LOSS, false))
        record->aux_loss = run->first.sums.metrics[METRIC_AUX_LOSS];
    if (!run->trial->planned && trial_has_metric(run->trial, METRIC_ROUTER_Z_LOSS, false))
        record->router_z_loss = run->first.sums.metrics[METRIC_ROUTER_Z_LOSS];
    record->drawn_chunks = numbers_of(&run->first.drawn_chunks);
    record->skipped_chunks = numbers_of(&run->first.skipped_chunks);
}

static void record_ranks(struct run *run)
{
    struct record_ranks *ranks = trial_record_ranks(&run->record, run->ranks, trial_ranks(run->trial));
    if (run->trial->planned)
        return;
    ranks->engine = run->world->engine;
    ranks->oversubscribed = run->world->comm.size * (size_t)run->provenance.threads > cores_usable();
}

// Fills in the rest of the record. A failed step has no samples and counts, but its memory explains the failure.
static void record_run(struct run *run)
{
    const struct trial *trial = run->trial;
    struct record *record = &run->record;
    bool done = record->status == RECORD_OK, alone = trial_ranks(trial) == 1;
    bool timed = done && !trial->planned; // in a plan the clock measured this program
    bool marked = run->setup.device && run->setup.device->ops->mark;
    record->chosen = trial_chosen(trial);
    if (!done && run->setup.device) {
        run_note_peak(run);
        note_device_memory(run);
    }
    if (run->stepped && record->status != RECORD_OOM)
        record_step(run);
    record->samples_ms = take(run, &run->samples_ms, timed);
    record->cpu_ms = take(run, &run->cpu_ms, timed && alone && !marked);
    record->slowdown = take(run, &run->slowdown, timed && run->reference_kernel);
    record->sample_chunks = take(run, &run->sample_chunks, done && run->draws);
    struct number_list host_launch_ms =
        take(run, &run->host_launch_ms, timed && marked); // otherwise it would repeat the step's time
    if (run->curve) {
        run->curve->given = done;
        record->curve = run->curve;
        if (done) // over all micro-batches
            record->loss = run->curve->loss.items[0];
    }
    if (timed && alone)
        record->load = run->load;
    if (done && run->watch)
        trial_record_sensors(record, &run->watched, run->samples);
    if (done && !alone)
        record_ranks(run);
    if (!done) {
        record->instructions = NAN;
        run->figures.counters = (struct counters){0};
    }
    if (run->setup.framework)
        trial_record_framework(record, run->setup.framework);
    record->estimate_ms = run->estimate_ms;
    trial_record_figures(record, &run->figures);
    trial_record_times(record, trial, &run->figures.counters, &host_launch_ms);
    record->wall_s = run_seconds(run);
    free(host_launch_ms.items);
}

static char *run_and_tell(const struct trial *trial, int store, struct world *world, bool *failed)
{
    struct run *run = calloc(1, sizeof *run);
    char reason[1280];
    run->resolved = *trial; // borrowed, except the options
    run->resolved.options = options_copy(&trial->method->options, trial->options);
    run->trial = &run->resolved;
    run->store = store;
    run->world = world;
    run->rank = run->world->comm.rank;
    run->ranks = calloc(trial_ranks(trial), sizeof *run->ranks);
    run->start_ns = clock_ns();
    size_t samples = run_samples_max(trial);
    double **const numbers[] = {&run->samples_ms, &run->cpu_ms, &run->host_launch_ms, &run->slowdown,
                                &run->sample_chunks};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        CHECK((*numbers[i] = calloc(samples, sizeof **numbers[i])));
    run->curve = trial->train.steps && !trial->planned ? run_curve(samples) : NULL;
    provenance_take(&run->provenance);
    trial_record_open(&run->record, run->trial);
    run->record.model_hash = run_is_first(run) ? model_hash(trial) : 0;

    *failed = !world_join(world, trial->device, &run->status) || !measure(run);
    if (*failed) {
        write_reason(run, reason, sizeof reason);
        run->record.status = record_status_of(run->status.code);
        run->record.reason = reason;
    }
    record_run(run);
    run->provenance.clock_mhz_after = provenance_clock_mhz();
    char *line = trial_record_line(&run->record, &run->provenance);
    if (!run_is_first(run) && !*failed) { // rank 0 reports for all
        free(line);
        line = NULL;
    }

    reference_kernel_close(run->reference_kernel);
    watch_close(run->watch);
    train_close(&run->train);
    trace_free(&run->trace);
    setup_close(&run->setup);
    reference_free(&run->reference);
    kept_choices_free(&run->choices);
    gradient_report_free(&run->gradient);
    breakdown_free(&run->breakdown);
    options_free(&run->trial->method->options, run->options);
    options_free(&run->trial->method->options, run->resolved.options);
    step_report_free(&run->step);
    step_report_free(&run->first);
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
