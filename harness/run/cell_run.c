// Cell: its execution in this process: set-up, gradient check, bias, warm-up, samples, time line; in that order,
// for nothing is timed that was not checked, and an optimizer changes the weights from the first warm-up step on. A
// planned cell has been decoded to one sample without the rest.
#include "harness/run/calibrate.h"
#include "harness/run/provenance.h"
#include "harness/run/record_line.h"
#include "harness/run/reference.h"
#include "harness/run/setup.h"
#include "kernels/base/timer.h"
#include <string.h>
#include <time.h>

struct run {
    const struct cell *cell;
    struct record record;
    struct setup setup;
    struct status status;
    struct reference reference;
    struct gradient_report gradient;
    struct bias bias;
    struct breakdown breakdown;
    struct step_report first, step; // the first step's report is the recorded one: an optimizer moves later losses
    double *samples_ms, *asked_ms;
    int64_t start_ns;
    size_t updates; // of the optimizer
};

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static double seconds_since(int64_t start_ns)
{
    return (double)(now_ns() - start_ns) / 1e9;
}

// True while neither the run nor its device has failed; a failed device's reason becomes the run's.
static bool fine(struct run *run)
{
    struct device *device = run->setup.device;
    if (device && device->status.code != STATUS_OK)
        status_set(&run->status, device->status.code, "%s", device->status.message);
    return run->status.code == STATUS_OK;
}

// The optimizer's step, whose time is the step's too.
static void update_weights(struct run *run)
{
    struct device *device = run->setup.device;
    device_timer_start(device);
    optimizer_step(&run->setup.model, &run->cell->optimizer_settings, ++run->updates);
    run->step.asked_ms += device_timer_asked_ms(device);
    run->step.ms += device_timer_stop_ms(device);
}

// One step, timed from its first operation until the device is idle; reading the loss is no part of it.
static bool step(struct run *run, bool update, double *ms)
{
    const struct cell *cell = run->cell;
    struct setup *setup = &run->setup;
    setup->device->counters = (struct counters){0};
    method_step(cell->method, &setup->model, &setup->batch, &cell->options, &run->step);
    if (update)
        update_weights(run);
    *ms = run->step.ms;
    if (!fine(run))
        return false;
    if (!run->record.step) {
        run->first = run->step;
        run->record.step = &run->first;
    }
    return true;
}

static bool check_gradient(struct run *run)
{
    const struct cell *cell = run->cell;
    double ms;
    if (!reference_take(&run->reference, cell, &run->status) || !step(run, false, &ms))
        return false;
    struct gradient_set set;
    gradient_set_take(&set, &run->setup.model);
    gradient_compare(&run->gradient, &set, &run->reference.gradients);
    gradient_set_free(&set);
    run->record.gradient = &run->gradient;
    run->record.noise_floor = run->reference.floor.overall.relative_l2;
    return !cell->method->exact || reference_accepts(&run->reference, &run->gradient, &run->status);
}

static bool measure_bias(struct run *run)
{
    const struct cell *cell = run->cell;
    if (!run->record.gradient && !reference_take(&run->reference, cell, &run->status))
        return false;
    if (!bias_measure(&run->bias, cell->method, &run->setup.model, &run->setup.batch, &cell->options,
                      &run->reference.gradients, &run->status))
        return false;
    run->record.bias = &run->bias;
    return true;
}

// Whether another sample like the longest so far would end before the cell's time is over.
static bool time_left(const struct run *run, double longest_ms)
{
    double limit_s = run->cell->measure.max_seconds;
    return limit_s == 0 || seconds_since(run->start_ns) + 1.25e-3 * longest_ms < limit_s;
}

static bool sample(struct run *run)
{
    const struct cell *cell = run->cell;
    const struct device *device = run->setup.device;
    struct record *record = &run->record;
    double longest_ms = 0;
    for (size_t i = 0; i < cell->measure.samples; i++) {
        double *ms = &run->samples_ms[i];
        if (i > 0 && !time_left(run, longest_ms))
            break;
        if (!step(run, cell->optimizer, ms))
            return false;
        run->asked_ms[i] = run->step.asked_ms;
        longest_ms = *ms > longest_ms ? *ms : longest_ms;
        if (i > 0 && memcmp(&record->counters, &device->counters, sizeof record->counters) != 0)
            return status_set(&run->status, STATUS_FAILED, "sample %zu did not ask for the same work as sample 1",
                              i + 1);
        record->counters = device->counters;
        record->sample_count = i + 1;
    }
    return true;
}

static bool record_timeline(struct run *run)
{
    struct arena *arena = &run->setup.device->arena;
    double ms;
    arena_timeline_start(arena);
    bool done = step(run, false, &ms);
    arena_timeline_stop(arena);
    run->record.timeline = done ? arena : NULL;
    return done;
}

// The rates that shares of a roofline are taken of: the profile's, else on the CPU those of a large GEMM and a
// large copy now. Without them, or where the copy finds no room, there are no shares.
static void take_roofline(struct run *run)
{
    const struct cell *cell = run->cell;
    struct roofline *roofline = &run->setup.device->roofline;
    if (!cell->profile && strcmp(cell->device, "cpu") == 0) {
        struct status why = {0};
        double gemm = run->record.gemm_flops_per_s;
        if (!(gemm > 0))
            gemm = calibrate_gemm(cell->device, cell->dtype, &why);
        double copy = calibrate_copy(cell->device, cell->dtype, &why);
        if (why.code == STATUS_OK)
            *roofline = (struct roofline){.flops_per_s = gemm, .bytes_per_s = copy};
    }
    run->record.roofline = *roofline;
}

static bool take_breakdown(struct run *run)
{
    struct device *device = run->setup.device;
    take_roofline(run);
    breakdown_start(&run->breakdown, device);
    bool done = step(run, run->cell->optimizer, &run->record.breakdown_ms);
    breakdown_stop(&run->breakdown, device);
    run->record.breakdown = done ? &run->breakdown : NULL;
    return done;
}

static void note_memory(struct run *run)
{
    const struct device *device = run->setup.device;
    if (!device)
        return;
    run->record.peak_bytes = device->arena.peak_bytes;
    memcpy(run->record.peak_by_category, device->arena.peak_by_category, sizeof run->record.peak_by_category);
    if (device->ops->used_bytes)
        run->record.device_used_bytes = device->ops->used_bytes(run->setup.device);
    if (device->ops->reserved_bytes)
        run->record.device_reserved_bytes = device->ops->reserved_bytes(run->setup.device);
}

static bool measure(struct run *run)
{
    const struct cell *cell = run->cell;
    struct setup_options options = setup_options_of(cell);
    double ms;
    if (!setup_open(&run->setup, cell, &options, &run->status))
        return false;
    struct arena *arena = &run->setup.device->arena;
    snprintf(run->record.provenance.card, sizeof run->record.provenance.card, "%s", run->setup.device->description);
    // The rates were checked when the cell was decoded.
    if (cell->profile)
        profile_roofline(cell->profile, cell->dtype, &run->setup.device->roofline, &run->status);
    run->record.resident_bytes = arena->live_bytes;
    run->record.model_flops = model_flops(&cell->config, &cell->lora, cell->context, cell->batch);
    if (cell->method->floor_bytes_per_token)
        run->record.floor_bytes_per_token =
            cell->method->floor_bytes_per_token(&run->setup.model, &cell->options, cell->context);
    if (cell->measure.gradient == GRADIENT_FULL_F64 && !check_gradient(run))
        return false;
    if (cell->measure.bias && !measure_bias(run))
        return false;
    for (size_t i = 0; i < cell->measure.warmup; i++)
        if (!step(run, cell->optimizer, &ms))
            return false;
    arena_reset_peak(arena);
    if (!sample(run))
        return false;
    if (cell->planned) // its clock measured this program
        run->record.sample_count = 0;
    if (run->setup.device->ops->mark) // else it is the step's time once more
        run->record.asked_ms = run->asked_ms;
    note_memory(run); // the time line's own step is not the measured one
    if (cell->measure.gemm) {
        run->record.gemm_flops_per_s = calibrate_gemm(cell->device, cell->dtype, &run->status);
        if (!fine(run))
            return false;
    }
    return (!cell->measure.categories || take_breakdown(run)) && (!cell->measure.timeline || record_timeline(run));
}

static enum record_status record_status_of(enum status_code code)
{
    return code == STATUS_OK            ? RECORD_OK
           : code == STATUS_OOM         ? RECORD_OOM
           : code == STATUS_UNSUPPORTED ? RECORD_UNSUPPORTED
                                        : RECORD_FAILED;
}

char *cell_run(const struct cell *cell)
{
    struct run *run = calloc(1, sizeof *run);
    CHECK(run);
    run->cell = cell;
    run->start_ns = now_ns();
    run->samples_ms = calloc(cell->measure.samples + 1, sizeof(double));
    run->asked_ms = calloc(cell->measure.samples + 1, sizeof(double));
    CHECK(run->samples_ms && run->asked_ms);
    struct record *record = &run->record;
    record->cell = cell;
    record->samples_ms = run->samples_ms;
    provenance_take(&record->provenance);

    if (!measure(run)) {
        record->status = record_status_of(run->status.code);
        snprintf(record->reason, sizeof record->reason, "%s", run->status.message);
        // What a failed step took or reported measures nothing; where memory stood is why it failed.
        record->sample_count = 0;
        record->counters = (struct counters){0};
        if (record->status == RECORD_OOM)
            record->step = NULL;
        note_memory(run);
    }
    record->provenance.clock_mhz_after = provenance_clock_mhz();
    record->wall_s = seconds_since(run->start_ns);
    char *line = record_line(record);

    setup_close(&run->setup);
    reference_free(&run->reference);
    gradient_report_free(&run->gradient);
    breakdown_free(&run->breakdown);
    free(run->samples_ms);
    free(run->asked_ms);
    free(run);
    return line;
}
