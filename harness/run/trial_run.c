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
#include "harness/run/trial_run.h"
#include "harness/run/calibrate.h"
#include "harness/run/choice.h"
#include "harness/run/provenance.h"
#include "harness/run/ranks.h"
#include "harness/run/reference_store.h"
#include "harness/run/setup.h"
#include "harness/run/watch.h"
#include "kernels/base/clock.h"
#include "kernels/base/timer.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

// A plan's estimate is the mean over this many draws, or fewer once its standard error is this share of it.
#define PLANNED_DRAWS_MAX 64
#define PLANNED_DRAWS_MIN 8
#define PLANNED_ERROR     0.01

struct run {
    const struct trial *trial;
    struct trial walked;        // with options of its own, and a method that may have been chosen
    int store;                  // of references; -1: none
    const struct world *world;  // the processes
    size_t rank;                // of this process, or that is being planned
    struct rank_figures *ranks; // [trial_ranks], on rank 0
    struct trial_result result;
    struct setup setup;
    struct status status;
    struct reference reference;
    struct gradient_report gradient;
    struct bias bias;
    struct breakdown breakdown;
    struct step_report first, step; // the first step's report is the recorded one: an optimizer moves later losses
    void *options;                  // of the current draw
    bool draws;
    double *samples_ms, *asked_ms;
    size_t *sample_columns;
    double estimate_squares; // sum of squares of the estimates about their mean
    struct watch *watch;
    struct watch_report watched; // over the samples
    int64_t start_ns;
    size_t updates; // of the optimizer
};

static double seconds_since(int64_t start_ns)
{
    return (double)(clock_ns() - start_ns) / 1e9;
}

// True while neither the run nor its device has failed; a failed device's reason becomes the run's.
static bool fine(struct run *run)
{
    struct device *device = run->setup.device;
    if (device && device->status.code != STATUS_OK)
        status_set(&run->status, device->status.code, "%s", device->status.message);
    return run->status.code == STATUS_OK;
}

// Gradients from zero, the walk, and with update the optimizer's: the time is that of all.
static void walk(struct run *run, bool update)
{
    struct model *model = &run->setup.model;
    struct device *device = run->setup.device;
    device_timer_start(device);
    if (update)
        optimizer_begin(model, ++run->updates, 1);
    model_zero_gradients(model);
    double asked_ms = device_timer_asked_ms(device), ms = device_timer_stop_ms(device);
    method_step(run->trial->method, model, &run->setup.batch, run->options, &run->step);
    if (update) {
        device_timer_start(device);
        optimizer_step(model);
        asked_ms += device_timer_asked_ms(device);
        ms += device_timer_stop_ms(device);
    }
    run->step.asked_ms += asked_ms;
    run->step.ms += ms;
}

static void set_draw(struct run *run, size_t index)
{
    const struct method *method = run->trial->method;
    options_free(&method->options, run->options);
    run->options = options_copy(&method->options, run->trial->options);
    run->draws = method->draw && method->draw(run->options, index);
}

// The failure of a step is its device's; of a draw that the record's other figures are not of, it says which.
static bool fine_after(struct run *run, size_t draw)
{
    const struct status *status = &run->setup.device->status;
    if (status->code != STATUS_OK && run->draws && draw > 0)
        status_set(&run->status, status->code, "draw %zu, of %zu columns: %.900s", draw, run->step.columns.count,
                   status->message);
    return fine(run);
}

// One step over a draw, timed from its first operation until the device is idle; reading the loss is no part of it.
static bool step(struct run *run, size_t draw, bool update)
{
    run->setup.device->counters = (struct counters){0};
    set_draw(run, draw);
    walk(run, update);
    if (!fine_after(run, draw))
        return false;
    if (!run->result.step) {
        run->first = run->step;
        run->first.columns = index_list_copy(&run->step.columns);
        run->result.step = &run->first;
    }
    return true;
}

static bool take_reference(struct run *run)
{
    if (reference_store_find(run->store, run->trial, &run->reference))
        return true;
    bool taken = reference_take(&run->reference, run->trial, &run->status);
    if (taken)
        reference_store_add(run->store, run->trial, &run->reference);
    return taken;
}

// Rank 0's work alone; the others wait at rest.
static bool is_first(const struct run *run)
{
    return run->world->comm.rank == 0;
}
static void rest(const struct run *run)
{
    run->world->ops->rest(run->world);
}

static bool check_gradient(struct run *run)
{
    const struct trial *trial = run->trial;
    bool first = is_first(run);
    if (first && !take_reference(run))
        return false;
    rest(run);
    if (!step(run, 0, false))
        return false;
    struct gradient_set set;
    ranks_gradients(&set, &run->setup.model, trial->context, run->world);
    if (!first) {
        gradient_set_free(&set);
        rest(run);
        return true;
    }
    gradient_compare(&run->gradient, &set, &run->reference.gradients);
    run->result.gradient = &run->gradient;
    run->result.noise_floor = run->reference.floor.overall.relative_l2;
    bool done = reference_sums(&run->result.sums_relative_l2, &set, trial, run->options, &run->status);
    gradient_set_free(&set);
    bool good = done && (!trial->method->exact ||
                         reference_accepts(&run->reference, trial->dtype, &run->gradient, &run->status));
    if (good)
        rest(run);
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

// Whether another sample like the longest so far would end before the trial's time is over; a draw may have more
// columns than any before it.
static bool time_left(const struct run *run, double longest_ms)
{
    double limit_s = run->trial->measure.max_seconds, reserve = run->draws ? 2 : 1.25;
    return limit_s == 0 || seconds_since(run->start_ns) + 1e-3 * reserve * longest_ms < limit_s;
}

static void note_peak(struct run *run)
{
    const struct arena *arena = &run->setup.device->arena, *host = &run->setup.device->host;
    run->result.peak_bytes = arena->peak_bytes;
    memcpy(run->result.peak_by_category, arena->peak_by_category, sizeof run->result.peak_by_category);
    run->result.host_peak_bytes = host->peak_bytes;
    memcpy(run->result.host_peak_by_category, host->peak_by_category, sizeof run->result.host_peak_by_category);
}

// The estimate's mean over the samples, and the sum of squares about it (Welford 1962).
static void note_estimate(struct run *run, double ms, size_t count)
{
    double before = ms - run->result.estimate_ms;
    run->result.estimate_ms += before / (double)count;
    run->estimate_squares += before * (ms - run->result.estimate_ms);
}

// Peak and counts are those of the first sample. A sample that walks the same columns must ask for the same work.
static bool note_sample(struct run *run, size_t i)
{
    struct trial_result *result = &run->result;
    const struct counters *counters = &run->setup.device->counters;
    if (i == 0) {
        result->counters = *counters;
        note_peak(run);
    } else if (index_list_equal(&run->step.columns, &run->first.columns) &&
               memcmp(&result->counters, counters, sizeof *counters) != 0) {
        return status_set(&run->status, STATUS_FAILED, "sample %zu did not ask for the same work as sample 1",
                          i + 1);
    }
    run->samples_ms[i] = run->step.ms;
    run->asked_ms[i] = run->step.asked_ms;
    run->sample_columns[i] = run->step.columns.count;
    result->sample_count = i + 1;
    note_estimate(run, 1e3 * counters_clock_s(counters), i + 1);
    return true;
}

// A plan walks one draw, or where it makes an estimate as many as that needs.
static bool plan_wants_draw(const struct run *run, size_t taken)
{
    double n = (double)taken, error = sqrt(run->estimate_squares / (n - 1) / n);
    return run->draws && run->trial->profile && taken < PLANNED_DRAWS_MAX &&
           (taken < PLANNED_DRAWS_MIN || error > PLANNED_ERROR * run->result.estimate_ms);
}

// As rank 0 says.
static bool wants_sample(const struct run *run, size_t taken, double longest_ms)
{
    const struct trial *trial = run->trial;
    bool wanted = trial->planned ? plan_wants_draw(run, taken) : taken < trial->measure.samples;
    wanted = taken == 0 || (wanted && time_left(run, longest_ms));
    run->world->ops->broadcast(run->world, &wanted, sizeof wanted);
    return wanted;
}

static bool sample(struct run *run)
{
    double longest_ms = 0;
    for (size_t i = 0; wants_sample(run, i, longest_ms); i++) {
        run->world->ops->meet(run->world);
        if (!step(run, i, run->trial->optimizer) || !note_sample(run, i))
            return false;
        longest_ms = fmax(longest_ms, run->step.ms);
    }
    return true;
}

static bool record_timeline(struct run *run)
{
    struct arena *arena = &run->setup.device->arena;
    arena_timeline_start(arena);
    bool done = step(run, 0, false);
    arena_timeline_stop(arena);
    run->result.timeline = done ? arena : NULL;
    return done;
}

static bool take_breakdown(struct run *run)
{
    struct device *device = run->setup.device;
    // The rates that shares of a roofline are taken of: the profile's, else on the CPU those of now.
    if (!run->trial->profile && strcmp(run->trial->device, "cpu") == 0)
        calibrate_roofline(run->trial->dtype, run->result.gemm_flops_per_s, &device->roofline);
    run->result.roofline = device->roofline;
    breakdown_start(&run->breakdown, device);
    bool done = step(run, 0, run->trial->optimizer);
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

// A card's words about itself; of the CPU's what multiplies, where that is not the BLAS alone.
static void take_description(struct provenance *provenance, const struct device *device)
{
    size_t used = strlen(provenance->blas);
    if (strcmp(device->ops->name, "cpu") != 0)
        snprintf(provenance->card, sizeof provenance->card, "%s", device->description);
    else if (*device->description)
        snprintf(provenance->blas + used, sizeof provenance->blas - used, "; %s", device->description);
}

// The rank's part of the model; its peak begins with it. pipeline NULL: one rank.
static bool open_part(struct run *run, const struct comm *pipeline)
{
    const struct trial *trial = run->trial;
    struct setup_options options = setup_options_of(trial);
    options.pipeline = pipeline;
    if (!setup_open(&run->setup, trial, &options, &run->status))
        return false;
    take_description(&run->result.provenance, run->setup.device);
    // The rates were checked when the trial was decoded.
    if (trial->profile)
        profile_roofline(trial->profile, trial->dtype, &run->setup.device->roofline, &run->status);
    run->result.resident_bytes = run->setup.device->arena.live_bytes;
    run->result.model_flops = model_flops(&trial->config, &trial->lora, trial->context, trial->batch);
    if (trial->method->floor_bytes_per_token)
        run->result.floor_bytes_per_token =
            trial->method->floor_bytes_per_token(&run->setup.model, trial->options, trial->context);
    return true;
}

static bool take_samples(struct run *run)
{
    arena_reset_peak(&run->setup.device->arena);
    arena_reset_peak(&run->setup.device->host);
    set_draw(run, 0);
    watch_start(run->watch);
    bool sampled = sample(run);
    watch_stop(run->watch, &run->watched);
    run->result.watched = run->watch ? &run->watched : NULL;
    return sampled;
}

// The samples of every rank, one after another, the lowest last: what is left open is its.
static bool plan_ranks(struct run *run)
{
    size_t count = trial_ranks(run->trial);
    for (size_t left = count; left-- > 0;) {
        run->rank = left;
        struct comm comm = comm_planned(run->rank, count);
        setup_close(&run->setup);
        run->result.estimate_ms = run->estimate_squares = 0;
        if (!open_part(run, &comm) || !take_samples(run))
            return false;
        run->ranks[run->rank] = rank_figures_of(&run->result, run->first.loss);
    }
    ranks_merge(&run->result, run->ranks, count);
    return true;
}

// On rank 0: the result of all.
static void gather_ranks(struct run *run)
{
    struct rank_figures own = rank_figures_of(&run->result, run->first.loss);
    ranks_gather(run->world, run->ranks, &own, run->samples_ms, run->result.sample_count);
    if (is_first(run)) {
        run->first.loss = ranks_loss(run->ranks, run->world->comm.size);
        ranks_merge(&run->result, run->ranks, run->world->comm.size);
    }
}

// From the set-up to the samples, in a process of its own.
static bool measure_rank(struct run *run)
{
    const struct trial *trial = run->trial;
    bool several = run->world->comm.size > 1;
    if (!open_part(run, several ? &run->world->comm : NULL))
        return false;
    if (trial->measure.gradient == GRADIENT_FULL_F64 && !check_gradient(run))
        return false;
    if (trial->measure.bias && !measure_bias(run))
        return false;
    run->watch = watch_open(run->setup.device); // before the warm-up: what is loaded now does not let the card cool
    for (size_t i = 0; i < trial->measure.warmup; i++)
        if (!step(run, i, trial->optimizer))
            return false;
    if (!take_samples(run))
        return false;
    if (several)
        gather_ranks(run);
    return true;
}

static bool measure(struct run *run)
{
    const struct trial *trial = run->trial;
    if (!choose_within(&run->walked, &run->status) || !ranks_possible(trial, &run->status) ||
        !(trial->planned && trial_ranks(trial) > 1 ? plan_ranks(run) : measure_rank(run)))
        return false;
    if (!trial->planned) // whose clock measured this program
        run->result.samples_ms = run->samples_ms;
    if (run->draws)
        run->result.sample_columns = run->sample_columns;
    if (run->setup.device->ops->mark) // else it is the step's time once more
        run->result.asked_ms = run->asked_ms;
    note_device_memory(run);
    if (trial->measure.gemm && is_first(run)) {
        run->result.gemm_flops_per_s = calibrate_gemm(trial->device, trial->dtype, &run->status);
        if (!fine(run))
            return false;
    }
    rest(run);
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

static char *run_and_tell(const struct trial *trial, int store, const struct world *world, bool *failed)
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
    size_t samples = trial->planned ? PLANNED_DRAWS_MAX : trial->measure.samples;
    run->samples_ms = calloc(samples, sizeof *run->samples_ms);
    run->asked_ms = calloc(samples, sizeof *run->asked_ms);
    run->sample_columns = calloc(samples, sizeof *run->sample_columns);
    CHECK(run->samples_ms && run->asked_ms && run->sample_columns && run->ranks);
    struct trial_result *result = &run->result;
    result->trial = run->trial;
    provenance_take(&result->provenance);
    result->sums_relative_l2 = NAN;
    result->engine = run->world->engine;
    result->oversubscribed =
        world->comm.size * (size_t)result->provenance.threads > (size_t)sysconf(_SC_NPROCESSORS_ONLN);

    *failed = !measure(run);
    if (*failed) {
        result->status = record_status_of(run->status.code);
        note_reason(run);
        // What a failed step took or reported measures nothing; where memory stood is why it failed.
        result->sample_count = 0;
        result->counters = (struct counters){0};
        result->ranks = NULL;
        if (result->status == RECORD_OOM)
            result->step = NULL;
        if (run->setup.device) {
            note_peak(run);
            note_device_memory(run);
        }
    }
    result->provenance.clock_mhz_after = provenance_clock_mhz();
    result->wall_s = seconds_since(run->start_ns);
    char *line = is_first(run) || *failed ? record_line(result) : NULL;

    watch_close(run->watch);
    setup_close(&run->setup);
    reference_free(&run->reference);
    gradient_report_free(&run->gradient);
    breakdown_free(&run->breakdown);
    options_free(&run->trial->method->options, run->options);
    options_free(&run->trial->method->options, run->walked.options);
    step_report_free(&run->step);
    step_report_free(&run->first);
    free(run->samples_ms);
    free(run->asked_ms);
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

char *trial_run_rank(const struct trial *trial, const struct world *world, bool *failed)
{
    return run_and_tell(trial, -1, world, failed);
}
