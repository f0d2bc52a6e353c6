#include "methods/training_step.h"
#include "kernels/measure/timer.h"

void training_step_begin(const struct training_step *step)
{
    if (step->framework)
        return;
    if (step->update && step->again)
        trainer_begin_again(step->trainer, step->update, step->rate_factor);
    else if (step->update)
        trainer_begin(step->trainer, step->update, step->rate_factor);
    trainer_zero(step->trainer);
}

static void start(const struct training_step *step)
{
    device_timer_start(step->trainer->model->device);
}

static void stop(const struct training_step *step, struct step_report *report)
{
    report->host_launch_ms += device_timer_host_launch_ms(step->trainer->model->device);
    report->ms += device_timer_stop_ms(step->trainer->model->device);
}

static bool add(struct training_step *step, size_t part, size_t parts, struct step_report *report)
{
    if (step->open && !step->open(step, part, report))
        return false;
    const struct step_report before = *report;
    trainer_expect_more(step->trainer, step->more_follow || part + 1 < parts);
    method_step(step->method, step->trainer->model, step->batch, step->options, report);
    if (step->close)
        step->close(step);
    if (part > 0)
        objective_sums_add(&report->sums, OBJECTIVE_SUMS, &before.sums, 1);
    report->ms += before.ms;
    report->host_launch_ms += before.host_launch_ms;
    return true;
}

bool training_step_take(struct training_step *step, struct step_report *report)
{
    size_t parts = step->micro_batches ? step->micro_batches : 1;
    report->sums = (struct objective_sums){0};
    report->ms = report->host_launch_ms = 0;
    if (step->framework) {
        framework_run_step(step->framework);
        return true;
    }
    start(step);
    training_step_begin(step);
    stop(step, report);
    for (size_t part = 0; part < parts; part++)
        if (!add(step, part, parts, report))
            return false;
    if (step->complete && !step->complete(step, report)) {
        trainer_cancel(step->trainer);
        return false;
    }
    if (step->update) {
        start(step);
        trainer_update(step->trainer);
        stop(step, report);
    }
    return true;
}
