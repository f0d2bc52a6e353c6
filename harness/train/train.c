#include "harness/train/train.h"
#include "harness/step/ranks.h"
#include "harness/step/step_batch.h"
#include "harness/step/step_data.h"
#include "harness/train/train_schedule.h"
#include "kernels/measure/timer.h"
#include "kernels/objectives/objective_pass.h"
#include "methods/schedule/forward_pass.h"
#include <math.h>
#include <string.h>

// torch.nn.utils.clip_grad_norm_ adds the same to the norm.
#define CLIP_EPSILON 1e-6
#define BLOCK_VALUES ((size_t)1 << 16)

static bool is_dataless(const struct train *train)
{
    return !train->counter;
}

// Computes log-probs of the first `count` sequences by a second model; a plan has none.
static bool refer(const struct train *train, struct train_data *data, size_t count, struct status *status)
{
    char device[RANK_DEVICE_BYTES];
    ranks_device(device, train->trial, train->world);
    return is_dataless(train) || train_data_refer(data, count, train->longest, device, status);
}

static bool open_held_out(struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    const struct training *settings = &trial->train;
    if (settings->held_out > 0 && !train_data_split(&train->data, settings->held_out, &train->held_out, status))
        return false;
    if (settings->evaluate.path && trial->data.kind == DATA_RANDOM)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: evaluation needs a file of tokens, but the data are random; give \"data\"",
                          settings->evaluate.path);
    if (settings->evaluate.path &&
        !train_data_open(&train->held_out, trial, &settings->evaluate, trial_window(trial), 0, status))
        return false;
    if (settings->held_out == 0 && !settings->evaluate.path)
        return true;
    size_t max = settings->evaluate_windows, count = train_data_count(&train->held_out);
    size_t together = trial->data.kind == DATA_BATCH ? trial_together(trial) : 1;
    train->evaluated =
        max && max < count ? (max + together - 1) / together * together : count; // keeps pairs together
    return true;
}

// Evaluated windows of a plan: as many as run at once. If the file that determines their number is not present,
// assumes enough for a micro-batch.
static size_t evaluated_at_a_time(const struct trial *trial)
{
    const struct training *settings = &trial->train;
    struct train_data data = {0}, held_out = {0};
    struct status unread = {0};
    size_t count = trial->batch, max = settings->evaluate_windows, window = trial_window(trial);
    bool known = settings->held_out > 0
                     ? train_data_open(&data, trial, &trial->data, window, 0, &unread) &&
                           train_data_split(&data, settings->held_out, &held_out, &unread)
                     : train_data_open(&held_out, trial, &settings->evaluate, window, 0, &unread);
    if (known && train_data_count(&held_out) < count)
        count = train_data_count(&held_out);
    train_data_close(&data);
    train_data_close(&held_out);
    return max && max < count ? max : count;
}

// Checks that there are enough sequences for a micro-batch, with a target in each step.
static bool check_data(struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    size_t count = train_data_count(&train->data), of_step = trial->batch * trial->train.accumulate;
    if (train->data.of_files && count < trial->batch)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: only %zu sequences are left to train on, but a micro-batch takes %zu; give fewer",
                          trial->data.path, count, trial->batch);
    return train_data_feeds(&train->data, trial->train.steps, of_step, status);
}

// The reference's log-probs of all sequences that are used, by RoPE of the same longest document as the steps'.
static bool refer_all(struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    size_t own = train_data_longest(&train->data), other = train_data_longest(&train->held_out);
    train->longest = own > other ? own : other;
    return (!train->evaluated || refer(train, &train->held_out, train->evaluated, status)) &&
           refer(train, &train->data, trial->train.steps * trial->batch * trial->train.accumulate, status);
}

// Ranks that share the experts have as many sequences each.
static bool check_evaluated(const struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    size_t together = trial_together(trial), ranks = trial->parallel.data;
    return trial->parallel.experts <= 1 || train->evaluated / together % ranks == 0 ||
           status_set(status, STATUS_BAD_INPUT,
                      "%zu sequences to evaluate do not divide by %zu data ranks that share the experts: set "
                      "train.evaluate_windows to a multiple, or leave parallel.experts out",
                      train->evaluated, ranks);
}

// A plan over windows opens no data, because windows are all alike.
static void open_plan_of_windows(struct train *train)
{
    const struct trial *trial = train->trial;
    bool evaluates = trial->train.held_out > 0 || trial->train.evaluate.path;
    train->evaluated = evaluates ? evaluated_at_a_time(trial) : 0;
    train_shapes_list(&train->shapes, trial, NULL, NULL, train->evaluated);
}

static bool open_data(struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    return train_data_open(&train->data, trial, &trial->data, trial->context, trial->train.shuffle, status) &&
           open_held_out(train, status) && check_data(train, status) && refer_all(train, status);
}

bool train_open(struct train *train, const struct trial *trial, const struct world *world, bool dataless,
                struct status *status)
{
    *train = (struct train){.trial = trial, .world = world, .gradient_norm = NAN};
    if (dataless && trial->data.kind != DATA_BATCH) {
        open_plan_of_windows(train);
        return check_evaluated(train, status);
    }
    train->counter = dataless ? NULL : device_open("cpu", DTYPE_F32, 0, status);
    if (status->code != STATUS_OK || !open_data(train, status) || !check_evaluated(train, status))
        return false;
    if (dataless)
        train_shapes_list(&train->shapes, trial, &train->data, &train->held_out, train->evaluated);
    return true;
}

void train_begin(struct train *train, struct setup *setup)
{
    train->setup = setup;
    train->step = 0;
    setup->longest = train->longest;
    setup_close_batch(setup);
}

struct train train_like(const struct train *train, const struct trial *trial, struct setup *setup)
{
    struct train other = *train;
    other.trial = other.data.trial = other.held_out.trial = trial;
    train_begin(&other, setup);
    return other;
}

void train_close(struct train *train)
{
    train_data_close(&train->data);
    train_data_close(&train->held_out);
    train_shapes_free(&train->shapes);
    if (train->counter)
        device_close(train->counter);
    *train = (struct train){0};
}

// --- one step

// Reads sequences from number `first` on; any in a plan without files.
static bool read_data(struct train *train, struct train_data *from, size_t first, size_t count,
                      struct batch_data *data, struct status *status)
{
    const struct trial *trial = train->trial;
    if (!is_dataless(train) || trial->data.kind == DATA_BATCH)
        return train_data_read(from, first, count, data, status);
    struct trial of_windows = *trial;
    if (from == &train->held_out)
        of_windows.context = trial_window(trial);
    if (!step_data_read_shape(data, &of_windows, status))
        return false;
    batch_data_keep(data, first % trial->batch, count);
    return step_data_pack(data, &of_windows, status);
}

// Adds up the normaliser over `count` sequences, one micro-batch at a time.
static bool count_data(struct train *train, struct train_data *from, size_t first, size_t count,
                       struct normaliser *sum, struct status *status)
{
    size_t max = train->trial->batch;
    bool ok = !is_dataless(train);
    *sum = (struct normaliser){0};
    for (size_t i = 0; ok && i < count; i += max) {
        struct batch_data data;
        struct batch batch;
        ok = read_data(train, from, first + i, count - i < max ? count - i : max, &data, status);
        if (ok) {
            step_batch_open(&batch, train->counter, &data);
            step_batch_set_objective(&batch, train->counter, train->trial, &data);
            normaliser_add(sum, &batch.normaliser);
            batch_close(&batch, train->counter);
        }
        ok = ok && status_take(status, &train->counter->status);
        batch_data_free(&data);
    }
    return ok || is_dataless(train);
}

// Opens the setup's batch on these sequences; whole: the step's normaliser, NULL: the batch's own. report: adds the
// times, without reading.
static bool open_batch(struct train *train, struct train_data *from, size_t first, size_t count,
                       const struct normaliser *whole, struct step_report *report, struct status *status)
{
    struct device *device = train->setup->device;
    struct batch_data data;
    bool ok = read_data(train, from, first, count, &data, status);
    device_timer_start(device);
    if (ok)
        setup_open_batch(train->setup, train->trial, &data, whole);
    if (ok)
        setup_share_batch(train->setup);
    report->host_launch_ms += device_timer_host_launch_ms(device);
    report->ms += device_timer_stop_ms(device);
    batch_data_free(&data);
    return ok;
}

// Context of the step's hooks.
struct stepping {
    struct train *train;
    const struct normaliser *whole;  // normaliser of the step; NULL: its only batch's
    const struct train_shape *shape; // of a plan; NULL: the run's own step
    struct status *status;
};

static void *draw_options(const struct trial *trial, size_t draw)
{
    const struct method *method = trial->method;
    void *options = options_copy(&method->options, trial->options);
    if (method->draw)
        method->draw(options, trial_draw(trial, draw));
    return options;
}

// Opens micro-batch `part` of the step, with this rank's sequences.
static bool open_micro_batch(struct training_step *step, size_t part, struct step_report *report)
{
    struct stepping *stepping = step->caller;
    struct train *train = stepping->train;
    const struct trial *trial = train->trial;
    const struct row_range *own = &train->setup->sequences;
    size_t index = train->step * trial->train.accumulate + part;
    if (!open_batch(train, &train->data, index * trial->batch + own->start, own->count, stepping->whole, report,
                    stepping->status))
        return false;
    step->batch = &train->setup->batch;
    step->options = draw_options(trial, index);
    return true;
}

static void close_micro_batch(struct training_step *step)
{
    struct stepping *stepping = step->caller;
    options_free(&step->method->options, (void *)step->options);
    setup_close_batch(stepping->train->setup);
}

static double squares(struct device *device, struct tensor t)
{
    size_t count = tensor_count(t), max = count < BLOCK_VALUES ? count : BLOCK_VALUES;
    double sum = 0, *values = malloc((max + 1) * sizeof *values);
    t = tensor_reshape(t, count, 1);
    for (size_t first = 0; first < count; first += max) {
        size_t n = count - first < max ? count - first : max;
        tensor_read(device, tensor_rows(t, first, n), values);
        for (size_t i = 0; i < n; i++)
            sum += values[i] * values[i];
    }
    free(values);
    return sum;
}

// This rank's sum of a parameter's gradient, or its share.
static struct tensor gradient_of(const struct parameter *p)
{
    return p->bucket && p->trains ? bucket_share(p).grad : p->grad;
}

// Tells whether this rank counts the parameter: equal copies and tied embeddings count once.
static bool is_counted(const struct model *model, const struct parameter *p)
{
    const struct comm *copies = parameter_is_part(p) ? &model->ranks.copies : &model->ranks.replicas;
    bool shared = p->bucket && model->ranks.zero == ZERO_NOTHING;
    return (!shared || copies->rank == 0) && (p != model->embedding || ranks_lowest(&model->ranks));
}

// The norm of all ranks' gradients, added parameter by parameter, so that pipeline stages do not change a bit.
static double norm_of(const struct train *train)
{
    const struct model *model = &train->setup->model;
    double sum = 0, *parts = calloc(model->parameter_count + 1, sizeof *parts);
    for (size_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].trains && is_counted(model, &model->parameters[i]))
            parts[i] = squares(model->device, gradient_of(&model->parameters[i]));
    world_sum(train->world, parts, model->parameter_count);
    for (size_t i = 0; i < model->parameter_count; i++)
        sum += parts[i];
    free(parts);
    return sqrt(sum);
}

// Offloaded gradients are on the device only while in use and are not scaled; gradients freed or projected within
// the backward pass have no norm.
static void clip(struct train *train)
{
    struct model *model = &train->setup->model;
    double max = train->trial->train.clip;
    bool data = !model->device->ops->dataless && train->setup->trainer.keeps_gradients;
    train->gradient_norm = data ? norm_of(train) : NAN;
    double factor = data ? fmin(1, max / (train->gradient_norm + CLIP_EPSILON)) : 1;
    for (size_t i = 0; max > 0 && i < model->parameter_count; i++) {
        struct tensor grad = gradient_of(&model->parameters[i]);
        if (grad.data && tensor_count(grad) > 0)
            op_scale(model->device, grad, factor);
    }
}

// After a failure of this rank's device the other ranks do not wait for it.
static bool is_fine(const struct train *train)
{
    return train->setup->device->status.code == STATUS_OK;
}

static void sum_over_ranks(const struct train *train, struct objective_sums *sums)
{
    world_sum(train->world, (double *)sums, OBJECTIVE_SUMS);
}

// Collects the loss of all ranks and the norm of their gradients.
static bool complete_step(struct training_step *step, struct step_report *report)
{
    const struct stepping *stepping = step->caller;
    struct train *train = stepping->train;
    struct device *device = train->setup->device;
    train->sums = report->sums;
    if (!is_fine(train))
        return false; // the device's status has the reason
    sum_over_ranks(train, &train->sums);
    if (!isfinite(train->sums.loss))
        return status_set(stepping->status, STATUS_FAILED,
                          "the loss of step %zu is not finite; try a smaller rate, or clip", train->step + 1);
    device_timer_start(device);
    clip(train);
    report->host_launch_ms += device_timer_host_launch_ms(device);
    report->ms += device_timer_stop_ms(device);
    bool known = !device->ops->dataless && train->setup->trainer.keeps_gradients;
    return !known || !is_fine(train) || isfinite(train->gradient_norm) ||
           status_set(stepping->status, STATUS_FAILED, "the gradient of step %zu is not finite; try a smaller rate",
                      train->step + 1);
}

bool train_step(struct train *train, struct step_report *report, struct status *status)
{
    const struct trial *trial = train->trial;
    size_t parts = trial->train.accumulate, count = parts * trial->batch;
    bool others = parts > 1 || trial->parallel.data > 1;
    struct normaliser whole = {0};
    struct stepping stepping = {.train = train, .whole = others ? &whole : NULL, .status = status};
    struct training_step step = setup_update(train->setup, trial, train->step + 1);
    step.rate_factor = train_schedule_factor(&trial->train, train->step);
    step.again = train->setup->device->ops->dataless; // a plan keeps its active block
    step.micro_batches = parts;
    step.caller = &stepping;
    step.open = open_micro_batch;
    step.close = close_micro_batch;
    step.complete = complete_step;
    train->rate =
        step.rate_factor * options_number(&trial->optimizer->options, trial->optimizer_options, "rate", NAN);
    if (others && !count_data(train, &train->data, train->step * count, count, &whole, status))
        return false;
    train->lost_updates = (struct lost_updates){0};
    train->setup->trainer.lost_updates = trial->measure.lost_updates ? &train->lost_updates : NULL;
    bool taken = training_step_take(&step, report);
    train->setup->trainer.lost_updates = NULL;
    if (!taken)
        return status->code == STATUS_OK;
    if (trial->measure.lost_updates && is_fine(train))
        lost_updates_sum(&train->lost_updates, train->world);
    train->step++;
    return true;
}

// --- evaluation of held-out data

bool train_evaluates(const struct train *train)
{
    return train->evaluated && train_schedule_evaluates(&train->trial->train, train->step);
}

// The share of `count` sequences; all of them for a single replica.
static struct row_range share_of(const struct train *train, size_t count)
{
    const struct ranks *ranks = &train->setup->model.ranks;
    return trial_share(train->trial, count, ranks->replicas.rank / ranks->sequence.size);
}

// Opens this rank's share of `count` held-out sequences from number `first` on, as one batch. own: its sequences; a
// rank without any has count 0 and still runs, because others gather its weights.
static bool open_evaluation(struct train *train, size_t first, size_t count, const struct normaliser *whole,
                            struct row_range *own, struct status *status)
{
    struct step_report untold = {0};
    *own = share_of(train, count);
    struct row_range read = own->count ? *own : (struct row_range){0, trial_together(train->trial)};
    return open_batch(train, &train->held_out, first + read.start, read.count, whole, &untold, status);
}

static struct objective_sums evaluate_batch(struct train *train)
{
    const struct trial *trial = train->trial;
    const struct option_table *table = &trial->method->options;
    size_t chunk = options_count(table, trial->options, "chunk", 0);
    size_t head_chunk = options_count(table, trial->options, "head_chunk", 0);
    struct objective_sums sums = forward_loss(&train->setup->model, &train->setup->batch, chunk, head_chunk);
    setup_close_batch(train->setup);
    return sums;
}

bool train_evaluate(struct train *train, struct objective_sums *found, struct status *status)
{
    const struct trial *trial = train->trial;
    size_t all = train->evaluated;
    struct normaliser whole;
    *found = (struct objective_sums){0};
    if (is_dataless(train) && all > trial->batch) // train->shapes has the others
        all = trial->batch;
    if (!count_data(train, &train->held_out, 0, all, &whole, status))
        return false;
    if (!is_dataless(train) && whole.rows == 0)
        return status_set(
            status, STATUS_BAD_INPUT,
            "all labels of the %zu sequences to evaluate are -100, so the loss has no tokens; evaluate others",
            all);
    for (size_t first = 0; first < all; first += trial->batch) {
        size_t count = all - first < trial->batch ? all - first : trial->batch;
        struct row_range own;
        if (!open_evaluation(train, first, count, &whole, &own, status))
            return false;
        train->setup->batch.idle = own.count == 0;
        struct objective_sums part = evaluate_batch(train);
        if (own.count)
            objective_sums_add(found, OBJECTIVE_SUMS, &part, 1);
    }
    if (is_fine(train))
        sum_over_ranks(train, found);
    return true;
}

// --- plans

bool train_open_shape(struct train *train, const struct train_shape *shape, struct status *status)
{
    struct row_range own = train->setup->sequences;
    struct step_report untold = {0};
    return shape->evaluated
               ? open_evaluation(train, shape->first, shape->count, NULL, &own, status)
               : open_batch(train, &train->data, shape->first + own.start, own.count, NULL, &untold, status);
}

static bool open_shape(struct training_step *step, size_t part, struct step_report *report)
{
    const struct stepping *stepping = step->caller;
    (void)part, (void)report;
    if (!train_open_shape(stepping->train, stepping->shape, stepping->status))
        return false;
    step->batch = &stepping->train->setup->batch;
    step->options = draw_options(stepping->train->trial, stepping->shape->draw);
    return true;
}

static bool complete_shape(struct training_step *step, struct step_report *report)
{
    const struct stepping *stepping = step->caller;
    (void)report;
    if (stepping->shape->adds_more || !is_fine(stepping->train))
        return false;
    clip(stepping->train);
    return true;
}

bool train_run_shape(struct train *train, const struct train_shape *shape, struct step_report *report,
                     struct status *status)
{
    struct stepping stepping = {.train = train, .shape = shape, .status = status};
    struct training_step step = setup_update(train->setup, train->trial, 1);
    step.more_follow = shape->adds_more;
    step.caller = &stepping;
    step.open = open_shape;
    step.close = close_micro_batch;
    step.complete = complete_shape;
    if (!shape->evaluated) {
        training_step_take(&step, report);
        return status->code == STATUS_OK;
    }
    if (!train_open_shape(train, shape, status))
        return false;
    evaluate_batch(train);
    return true;
}
