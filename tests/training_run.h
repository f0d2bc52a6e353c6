// Training run: one in this process, for tests, of a trial in JSON written with ' for ".
#pragma once
#include "harness/train/train.h"
#include "tests/asked.h"

struct training_run {
    struct trial trial;
    struct setup setup;
    struct train train;
    struct step_report report;
    struct world world;
};

static inline void training_run_open_as(struct training_run *run, const char *json, const struct world *world)
{
    struct status status = {0};
    *run = (struct training_run){0};
    run->world = *world;
    run->trial = trial_of(json);
    struct setup_options options = setup_options_of(&run->trial);
    options.ranks = world->comm.size > 1 ? &run->world.comm : NULL;
    if (!train_open(&run->train, &run->trial, &run->world, run->trial.planned, &status) ||
        !setup_open(&run->setup, &run->trial, &options, &status))
        fail_msg("%s: %s", json, status.message);
    train_begin(&run->train, &run->setup);
}

static inline void training_run_open(struct training_run *run, const char *json)
{
    struct world alone;
    world_open_alone(&alone);
    training_run_open_as(run, json, &alone);
}

static inline void training_run_close(struct training_run *run)
{
    step_report_free(&run->report);
    train_close(&run->train);
    setup_close(&run->setup);
    trial_free(&run->trial);
}

static inline double training_run_step(struct training_run *run)
{
    struct status status = {0};
    if (!train_step(&run->train, &run->report, &status))
        fail_msg("%s", status.message);
    return run->train.sums.loss;
}

// All gradients, to be freed.
static inline double *training_run_gradients(struct training_run *run, size_t *count)
{
    struct model *model = &run->setup.model;
    double *values = NULL;
    *count = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        size_t n = tensor_count(model->parameters[i].grad);
        values = realloc(values, (*count + n + 1) * sizeof *values);
        assert_non_null(values);
        tensor_read(model->device, model->parameters[i].grad, values + *count);
        *count += n;
    }
    return values;
}

// L2 norm of a difference, or without `minus` of the values.
static inline double training_run_norm(const double *values, const double *minus, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = values[i] - (minus ? minus[i] : 0);
        sum += difference * difference;
    }
    return sqrt(sum);
}
