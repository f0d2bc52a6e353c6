#include "harness/trial/run_steps.h"
#include "harness/record/record_json.h"
#include "kernels/base/clock.h"
#include <math.h>
#include <string.h>
#include <time.h>

#define PLANNED_DRAWS_MIN     8
#define PLANNED_ERROR         0.01
#define REFERENCE_KERNEL_RUNS 8

double run_seconds(const struct run *run)
{
    return (double)(clock_ns() - run->start_ns) / 1e9;
}

bool run_fine(struct run *run)
{
    struct device *device = run->setup.device;
    if (device)
        status_take(&run->status, &device->status);
    return run->status.code == STATUS_OK;
}

static struct training_step step_of(struct run *run, size_t update)
{
    struct training_step step = setup_update(&run->setup, run->trial, update);
    step.options = run->options;
    return step;
}

static void take_step(struct run *run, bool update)
{
    if (update && run->trial->train.steps) {
        train_step(&run->train, &run->step, &run->status);
        return;
    }
    struct training_step step = step_of(run, update ? ++run->updates : 0);
    training_step_take(&step, &run->step);
}

void run_begin_afresh(struct run *run)
{
    struct training_step step = step_of(run, run->updates + 1);
    training_step_begin(&step);
    if (!run->setup.framework)
        trainer_cancel(&run->setup.trainer);
}

void run_set_draw(struct run *run, size_t index)
{
    const struct method *method = run->trial->method;
    options_free(&method->options, run->options);
    run->options = options_copy(&method->options, run->trial->options);
    run->draws = method->draw && method->draw(run->options, trial_draw(run->trial, index));
}

// Takes over a step's failure from its device; for later draws the reason names the draw, because the record's
// other figures are of the first.
static bool fine_after(struct run *run, size_t draw)
{
    const struct status *status = &run->setup.device->status;
    if (status->code != STATUS_OK && run->draws && draw > 0)
        status_set(&run->status, status->code, "draw %zu, of %zu chunks: %.900s", draw,
                   run->step.drawn_chunks.count, status->message);
    return run_fine(run);
}

bool run_step(struct run *run, size_t draw, bool update)
{
    run->setup.device->counters = (struct counters){0};
    trace_begin(&run->trace);
    run_set_draw(run, draw);
    take_step(run, update);
    if (!fine_after(run, draw))
        return false;
    if (!run->stepped) {
        run->first = run->step;
        run->first.drawn_chunks = index_list_copy(&run->step.drawn_chunks);
        run->first.skipped_chunks = index_list_copy(&run->step.skipped_chunks);
        run->stepped = true;
    }
    return true;
}

bool run_for_gradients(struct run *run, const struct choices_probe *probe)
{
    struct arena *arena = &run->setup.device->arena;
    size_t limit = arena->limit_bytes;
    if (!run->setup.trainer.keeps_gradients)
        arena->limit_bytes = 0;
    run->setup.model.probe = probe;
    bool done = run_step(run, 0, false);
    run->setup.model.probe = NULL;
    arena->limit_bytes = limit;
    return done;
}

bool run_is_first(const struct run *run)
{
    return run->world->comm.rank == 0;
}

void run_rest(const struct run *run)
{
    run->world->ops->rest(run->world);
}

// Tells whether another sample as long as the longest so far would end before the time limit; a draw may have more
// chunks than any before.
static bool time_left(const struct run *run, double longest_ms)
{
    double limit_s = run->trial->measure.max_seconds, reserve = run->draws ? 2 : 1.25;
    return limit_s == 0 || run_seconds(run) + 1e-3 * reserve * longest_ms < limit_s;
}

void run_note_peak(struct run *run)
{
    const struct arena *arena = &run->setup.device->arena, *host = &run->setup.device->host;
    struct rank_figures *figures = &run->figures;
    figures->peak_bytes = arena->peak_bytes;
    memcpy(figures->peak_by_category, arena->peak_by_category, sizeof figures->peak_by_category);
    figures->host_peak_bytes = host->peak_bytes;
    memcpy(figures->host_peak_by_category, host->peak_by_category, sizeof figures->host_peak_by_category);
}

// Updates the mean of the estimate over the samples, and the sum of squares about it (Welford 1962).
static void note_estimate(struct run *run, double ms, size_t count)
{
    double before = ms - run->estimate_ms;
    run->estimate_ms += before / (double)count;
    run->estimate_squares += before * (ms - run->estimate_ms);
}

// Tells whether each sample must do the same work as the first; a training step reports only the last micro-batch's
// chunks.
static bool same_work(const struct run *run)
{
    return index_list_equal(&run->step.drawn_chunks, &run->first.drawn_chunks) &&
           index_list_equal(&run->step.skipped_chunks, &run->first.skipped_chunks) &&
           !(run->draws && run->trial->train.accumulate > 1);
}

// Tells whether steps differ: sequences with their own lengths of documents and prompts, or an optimizer with
// uneven updates.
static bool steps_differ(const struct trial *trial)
{
    return (trial->train.steps && trial->data.kind == DATA_BATCH) || (trial->optimizer && trial->optimizer->uneven);
}

// Keeps the minimum over samples that did the same work as the first, because waiting threads retire instructions
// too.
static void note_instructions(struct run *run, size_t i, double retired)
{
    double *fewest = &run->record.instructions;
    if (i == 0 ? retired > 0 : !steps_differ(run->trial) && same_work(run) && retired < *fewest)
        *fewest = retired;
}

// Tells whether the peak covers all steps. With draws of windows it is that of the first draw.
static bool notes_all(const struct run *run)
{
    return steps_differ(run->trial) || (run->trial->train.steps && !run->draws);
}

// --- the curve of a training run

struct record_curve *run_curve(size_t steps)
{
    struct record_curve *curve = calloc(1, sizeof *curve);
    curve->given = true;
    for (const struct record_field *list = record_field_find(record_fields, "curve")->members; list->name; list++) {
        struct number_list *numbers = (void *)((char *)curve + list->offset);
        *numbers = number_list_make(steps + 1); // evaluations precede the first step and follow each
        numbers->count = 0;
    }
    return curve;
}

static void append(struct number_list *list, double value)
{
    list->items[list->count++] = value;
}

static void note_metrics(struct number_list *lists, const struct train *train, const struct objective_sums *sums)
{
    for (int m = 0; m < OBJECTIVE_METRICS; m++)
        if (trial_has_metric(train->trial, (enum objective_metric)m, sums != &train->sums))
            append(&lists[m], sums->metrics[m]);
}

static void note_step(struct record_curve *curve, const struct train *train)
{
    if (train->trial->method->draw)
        append(&curve->flops, train->setup->device->counters.flops);
    append(&curve->loss, train->sums.loss);
    append(&curve->gradient_norm, train->gradient_norm);
    if (train->trial->measure.lost_updates) {
        append(&curve->unchanged_weights, lost_updates_unchanged(&train->lost_updates));
        append(&curve->lost_updates, lost_updates_lost(&train->lost_updates));
    }
    note_metrics(curve->metrics, train, &train->sums);
}

static void note_evaluation(struct record_curve *curve, const struct train *train,
                            const struct objective_sums *found)
{
    append(&curve->evaluation_step, (double)train->step);
    append(&curve->evaluation_loss, found->loss);
    note_metrics(curve->evaluation_metrics, train, found);
}

// --- samples

// Counts and peak are the first sample's, unless steps differ. Samples over the same chunks must do the same work.
static bool note_sample(struct run *run, size_t i)
{
    const struct counters *counters = &run->setup.device->counters;
    if (i == 0) {
        run->figures.counters = *counters;
        run_note_peak(run);
    } else if (!steps_differ(run->trial) && same_work(run) &&
               memcmp(&run->figures.counters, counters, sizeof *counters) != 0) {
        return status_set(&run->status, STATUS_FAILED, "sample %zu did not ask for the same work as sample 1",
                          i + 1);
    }
    if (run->traces) {
        trace_end(&run->trace, run->setup.device);
        run->traces[i] = run->trace;
        run->trace = (struct trace){0};
    }
    run->samples_ms[i] = run->step.ms;
    run->host_launch_ms[i] = run->step.host_launch_ms;
    run->sample_chunks[i] = (double)run->step.drawn_chunks.count;
    run->samples = i + 1;
    if (run->curve)
        note_step(run->curve, &run->train);
    note_estimate(run, 1e3 * device_estimate_s(run->setup.device), i + 1);
    return true;
}

// A plan runs one draw, or for an estimate as many as it needs; each rank as many as the first.
static bool plan_wants_draw(const struct run *run, size_t taken)
{
    if (run->draws_planned)
        return taken < run->draws_planned;
    double n = (double)taken, error = sqrt(run->estimate_squares / (n - 1) / n);
    return run->draws && run->trial->profile && taken < PLANNED_DRAWS_MAX &&
           (taken < PLANNED_DRAWS_MIN || error > PLANNED_ERROR * run->estimate_ms);
}

// Rank 0 decides.
static bool wants_sample(const struct run *run, size_t taken, double longest_ms)
{
    const struct trial *trial = run->trial;
    bool training = trial->train.steps, wanted = taken < run_samples_max(trial);
    if (trial->planned)
        wanted = plan_wants_draw(run, taken);
    wanted =
        taken == 0 || (wanted && (training || time_left(run, longest_ms))); // a training run is never cut short
    run->world->ops->broadcast(run->world, &wanted, sizeof wanted);
    return wanted;
}

size_t run_samples_max(const struct trial *trial)
{
    return trial->planned ? PLANNED_DRAWS_MAX : trial->train.steps ? trial->train.steps : trial->measure.samples;
}

// Evaluates before the first step of a training run and after steps when due.
static bool evaluate(struct run *run)
{
    struct objective_sums found;
    if (!run->trial->train.steps || !train_evaluates(&run->train))
        return true;
    if (!train_evaluate(&run->train, &found, &run->status))
        return false;
    if (run->curve)
        note_evaluation(run->curve, &run->train, &found);
    return run_fine(run);
}

// Time of the reference kernel now over its time when the profile's rates were measured. NaN: no kernel.
static double slowdown_now(const struct run *run)
{
    const struct rates *rates = run->setup.device->roofline.rates;
    return run->reference_kernel
               ? reference_kernel_s(run->reference_kernel, REFERENCE_KERNEL_RUNS) / rates->reference_kernel_s
               : NAN;
}

// Over all threads of this process so far.
static double processor_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

// Runs the shapes of a training run beyond the step that its plan sampled.
static bool run_shapes(struct run *run)
{
    const struct train_shapes *shapes = &run->train.shapes;
    run->record.unplanned_micro_batches = shapes->unplanned ? (double)shapes->unplanned : NAN;
    for (size_t i = 0; i < shapes->count; i++)
        if (!train_run_shape(&run->train, &shapes->items[i], &run->step, &run->status) || !run_fine(run))
            return false;
    trace_free(&run->trace); // of the samples alone
    return true;
}

bool run_sample(struct run *run)
{
    double longest_ms = 0;
    if (!evaluate(run))
        return false;
    double last = slowdown_now(run);
    for (size_t i = 0; wants_sample(run, i, longest_ms); i++) {
        run->world->ops->meet(run->world);
        double before = event_counter_read(&run->instructions), cpu_before_ms = processor_ms();
        if (!run_step(run, i, run->trial->optimizer))
            return false;
        run->cpu_ms[i] = processor_ms() - cpu_before_ms;
        note_instructions(run, i, event_counter_read(&run->instructions) - before);
        if (!note_sample(run, i) || !evaluate(run))
            return false;
        longest_ms = fmax(longest_ms, run->step.ms);
        double now = slowdown_now(run);
        run->slowdown[i] = (last + now) / 2;
        last = now;
    }
    if (run->trial->planned && notes_all(run) && !run_shapes(run))
        return false;
    if (notes_all(run))
        run_note_peak(run);
    return true;
}
