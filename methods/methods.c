#include "kernels/device/observer.h"
#include "kernels/layers/choices.h"
#include "kernels/measure/timer.h"
#include "methods/method.h"
#include <string.h>

// Every method once: method_full and so on, in the order of lists and labels.
#define METHODS(X)                                                                                                 \
    X(full)                                                                                                        \
    X(checkpoint)                                                                                                  \
    X(streambp)                                                                                                    \
    X(seco)                                                                                                        \
    X(spaco)                                                                                                       \
    X(deferred)                                                                                                    \
    X(forward)                                                                                                     \
    X(null)

#define DECLARED(name) extern const struct method method_##name;
#define LISTED(name)   &method_##name,
METHODS(DECLARED)
const struct method *const methods[] = {METHODS(LISTED) NULL};

const struct method *method_find(const char *name)
{
    for (const struct method *const *m = methods; *m; m++)
        if (strcmp((*m)->name, name) == 0)
            return *m;
    return NULL;
}

bool method_check_objective(const struct method *method, const void *options, const struct objective *objective,
                            const void *settings, struct status *status)
{
    return !method->check_sums || !objective_has_sums(objective, settings) || method->check_sums(options, status);
}

// Tells whether a method before number i has an option of the row's name.
static bool is_named_before(size_t i, const struct option *row)
{
    for (size_t m = 0; m < i; m++)
        if (option_find(&methods[m]->options, row->name))
            return true;
    return false;
}

const struct option *methods_option(size_t index)
{
    for (size_t i = 0; methods[i]; i++) {
        for (const struct option *row = methods[i]->options.rows; row->name; row++)
            if (!is_named_before(i, row) && index-- == 0)
                return row;
    }
    return NULL;
}

const struct option *methods_option_find(const char *name)
{
    const struct option *option = NULL;
    for (size_t i = 0; !option && methods[i]; i++)
        option = option_find(&methods[i]->options, name);
    return option;
}

void method_step(const struct method *method, struct model *model, const struct batch *batch, const void *options,
                 struct step_report *report)
{
    struct device *device = model->device;
    step_report_free(report);
    struct step step = {.model = model, .batch = batch, .options = options, .report = report};
    range_push(device, (struct range){.level = RANGE_STEP, .name = method->name});
    device_timer_start(device);
    step.loss = objective_sums_new(device, batch);
    if (!method->no_gradient)
        choices_open(model, batch);
    method->run(&step);
    choices_settle(model);
    unit_settle(model);
    model->micro_batch++;
    report->host_launch_ms = device_timer_host_launch_ms(device);
    report->ms = device_timer_stop_ms(device);
    range_pop(device);
    report->sums = objective_sums_read(device, batch, step.loss);
    choices_read_losses(model, batch, &report->sums);
    choices_close(model);
    tensor_free(device, &step.loss);
}

void step_report_free(struct step_report *report)
{
    index_list_free(&report->drawn_chunks);
    index_list_free(&report->skipped_chunks);
}
