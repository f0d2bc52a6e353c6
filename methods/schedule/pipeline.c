#include "methods/schedule/pipeline.h"

struct delivery pipeline_start_input(struct model *model, struct tensor x)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (ranks_lowest(&model->ranks))
        return (struct delivery){0};
    return comm_start_receive(pipeline, model->device, pipeline->rank - 1, x);
}

struct delivery pipeline_start_output(struct model *model, struct tensor y)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (ranks_highest(&model->ranks))
        return (struct delivery){0};
    return comm_start_send(pipeline, model->device, pipeline->rank + 1, y);
}

struct delivery pipeline_start_gradient(struct model *model, struct tensor grad)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (ranks_highest(&model->ranks))
        return (struct delivery){0};
    return comm_start_receive(pipeline, model->device, pipeline->rank + 1, grad);
}

struct delivery pipeline_start_input_gradient(struct model *model, struct tensor grad)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (ranks_lowest(&model->ranks))
        return (struct delivery){0};
    return comm_start_send(pipeline, model->device, pipeline->rank - 1, grad);
}

void pipeline_wait(struct model *model, struct delivery *delivery)
{
    comm_wait(&model->ranks.pipeline, model->device, delivery);
}

void pipeline_take_input(struct model *model, struct tensor x)
{
    struct delivery delivery = pipeline_start_input(model, x);
    pipeline_wait(model, &delivery);
}

void pipeline_pass_output(struct model *model, struct tensor y)
{
    struct delivery delivery = pipeline_start_output(model, y);
    pipeline_wait(model, &delivery);
}

void pipeline_take_gradient(struct model *model, struct tensor grad)
{
    struct delivery delivery = pipeline_start_gradient(model, grad);
    pipeline_wait(model, &delivery);
}

void pipeline_pass_gradient(struct model *model, struct tensor grad)
{
    struct delivery delivery = pipeline_start_input_gradient(model, grad);
    pipeline_wait(model, &delivery);
}
