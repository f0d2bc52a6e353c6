#include "harness/run/train.h"
#include "kernels/base/timer.h"
#include "kernels/transformer/forward.h"
#include "kernels/transformer/objective.h"
#include <math.h>
#include <string.h>

// torch.nn.utils.clip_grad_norm_ adds as much to the norm that it divides by.
#define CLIP_EPSILON 1e-6
#define BLOCK_VALUES ((size_t)1 << 16)

static bool open_held_out(struct train *train, struct status *status)
{
    const struct trial *trial = train->trial;
    const struct training *settings = &trial->train;
    if (settings->held_out > 0 && !windows_split(&train->windows, settings->held_out, &train->held_out, status))
        return false;
    if (settings->evaluate.path && trial->data.kind == DATA_RANDOM)
        return status_set(
            status, STATUS_BAD_INPUT,
            "%s: what is evaluated is read as the data are, and they are random; give a file of tokens",
            settings->evaluate.path);
    if (settings->evaluate.path && !windows_open(&train->held_out, &settings->evaluate, trial->context,
                                                 trial->config.vocab, trial->seed, 0, status))
        return false;
    size_t most = settings->evaluate_windows, count = train->held_out.count;
    train->evaluation_windows = most && most < count ? most : count;
    return true;
}

bool train_open(struct train *train, const struct trial *trial, struct setup *setup, struct status *status)
{
    *train = (struct train){.trial = trial, .setup = setup, .gradient_norm = NAN};
    batch_close(&setup->batch, setup->device);
    setup->batch = (struct batch){0};
    if (setup->device->ops->dataless) {
        bool evaluates = trial->train.held_out > 0 || trial->train.evaluate.path;
        train->evaluation_windows = evaluates ? trial->batch : 0;
        return true;
    }
    train->ids = calloc(trial->context * trial->batch, sizeof *train->ids);
    CHECK(train->ids);
    return windows_open(&train->windows, &trial->data, trial->context, trial->config.vocab, trial->seed,
                        trial->train.shuffle, status) &&
           open_held_out(train, status);
}

void train_close(struct train *train)
{
    windows_close(&train->windows);
    windows_close(&train->held_out);
    free(train->ids);
    *train = (struct train){0};
}

// --- one step

// A batch of `count` windows from number `first` on, of which `parts` make one step, or one mean. They must all
// have as many.
static bool open_batch(struct train *train, struct windows *windows, size_t first, size_t count, double parts,
                       struct status *status)
{
    struct setup *setup = train->setup;
    struct batch *batch = &setup->batch;
    if (train->ids && !windows_read(windows, first, count, train->ids, status))
        return false;
    batch_open(batch, setup->device, train->ids, NULL, train->trial->context, count);
    batch_set_objective(batch, setup->device, train->trial->objective, train->trial->objective_options, NULL);
    batch->normaliser.rows = (size_t)llround((double)batch->normaliser.rows * parts);
    batch->normaliser.sequences = (size_t)llround((double)count * parts);
    return true;
}

static void close_batch(struct train *train)
{
    batch_close(&train->setup->batch, train->setup->device);
    train->setup->batch = (struct batch){0};
}

// Adds the gradient of micro-batch number `part` of the step, and what it reports.
static bool add_micro_batch(struct train *train, size_t part, struct step_report *report, struct status *status)
{
    const struct trial *trial = train->trial;
    const struct method *method = trial->method;
    size_t index = train->step * trial->train.accumulate + part;
    double loss = report->loss, ms = report->ms, asked_ms = report->asked_ms;
    if (!open_batch(train, &train->windows, index * trial->batch, trial->batch, (double)trial->train.accumulate,
                    status))
        return false;
    void *options = options_copy(&method->options, trial->options);
    if (method->draw)
        method->draw(options, index);
    method_step(method, &train->setup->model, &train->setup->batch, options, report);
    options_free(&method->options, options);
    close_batch(train);
    report->loss += loss;
    report->ms += ms;
    report->asked_ms += asked_ms;
    return true;
}

static double squares(struct device *device, struct tensor t)
{
    size_t count = tensor_count(t), most = count < BLOCK_VALUES ? count : BLOCK_VALUES;
    double sum = 0, *values = malloc((most + 1) * sizeof *values);
    CHECK(values);
    t = tensor_reshape(t, count, 1);
    for (size_t first = 0; first < count; first += most) {
        size_t n = count - first < most ? count - first : most;
        tensor_read(device, tensor_rows(t, first, n), values);
        for (size_t i = 0; i < n; i++)
            sum += values[i] * values[i];
    }
    free(values);
    return sum;
}

// Gradients that are kept on the host are on the device only while they are used, and are not scaled there; of
// those that are freed or projected in the walk there is no norm.
static void clip(struct train *train)
{
    struct model *model = &train->setup->model;
    double most = train->trial->train.clip, sum = 0;
    bool data = !model->device->ops->dataless && model->keeps_gradients;
    for (size_t i = 0; data && i < model->parameter_count; i++)
        if (model->parameters[i].grad.data)
            sum += squares(model->device, model->parameters[i].grad);
    train->gradient_norm = data ? sqrt(sum) : NAN;
    double factor = data ? fmin(1, most / (train->gradient_norm + CLIP_EPSILON)) : 1;
    for (size_t i = 0; most > 0 && i < model->parameter_count; i++)
        if (model->parameters[i].grad.data)
            op_scale(model->device, model->parameters[i].grad, factor);
}

// What the rate of the step after `done` is multiplied by, as transformers' schedulers have it, but that step s of
// a warm-up over w has s / w of the rate, so that the first one has some.
static double rate_factor(const struct training *t, size_t done)
{
    if (done < t->warmup)
        return (double)(done + 1) / (double)t->warmup;
    double along = (double)(done - t->warmup) / (double)(t->steps - t->warmup);
    if (t->schedule == SCHEDULE_COSINE)
        return t->floor + (1 - t->floor) * (1 + cos(M_PI * along)) / 2;
    return t->schedule == SCHEDULE_LINEAR ? t->floor + (1 - t->floor) * (1 - along) : 1;
}

bool train_step(struct train *train, struct step_report *report, struct status *status)
{
    const struct trial *trial = train->trial;
    struct model *model = &train->setup->model;
    struct device *device = train->setup->device;
    double factor = rate_factor(&trial->train, train->step);
    train->rate = factor * options_number(&trial->optimizer->options, trial->optimizer_options, "rate", NAN);
    report->loss = 0;
    device_timer_start(device);
    if (device->ops->dataless) // a plan, of the turn that it was given
        optimizer_begin_again(model, train->step + 1, factor);
    else
        optimizer_begin(model, train->step + 1, factor);
    model_zero_gradients(model);
    report->asked_ms = device_timer_asked_ms(device);
    report->ms = device_timer_stop_ms(device);
    for (size_t part = 0; part < trial->train.accumulate; part++)
        if (!add_micro_batch(train, part, report, status))
            return false;
    if (device->status.code == STATUS_OK && !isfinite(report->loss))
        return status_set(status, STATUS_FAILED, "the loss of step %zu is not finite; try a smaller rate, or clip",
                          train->step + 1);
    device_timer_start(device);
    clip(train);
    bool known = !device->ops->dataless && model->keeps_gradients;
    if (known && device->status.code == STATUS_OK && !isfinite(train->gradient_norm))
        return status_set(status, STATUS_FAILED, "the gradient of step %zu is not finite; try a smaller rate",
                          train->step + 1);
    optimizer_step(model);
    report->asked_ms += device_timer_asked_ms(device);
    report->ms += device_timer_stop_ms(device);
    train->step++;
    return true;
}

// --- held-out tokens

bool train_evaluates(const struct train *train)
{
    const struct training *settings = &train->trial->train;
    size_t every = settings->evaluate_every, step = train->step;
    return train->evaluation_windows && (step == 0 || step == settings->steps || (every && step % every == 0));
}

bool train_evaluate(struct train *train, double *loss, struct status *status)
{
    const struct trial *trial = train->trial;
    const struct option_table *table = &trial->method->options;
    size_t chunk = options_count(table, trial->options, "chunk", 0);
    size_t head_chunk = options_count(table, trial->options, "head_chunk", 0);
    size_t all = train->evaluation_windows;
    *loss = 0;
    for (size_t first = 0; first < all; first += trial->batch) {
        size_t count = all - first < trial->batch ? all - first : trial->batch;
        if (!open_batch(train, &train->held_out, first, count, (double)all / (double)count, status))
            return false;
        *loss += forward_loss(&train->setup->model, &train->setup->batch, chunk, head_chunk);
        close_batch(train);
    }
    return true;
}
