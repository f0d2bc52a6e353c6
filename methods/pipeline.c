#include "methods/pipeline.h"
#include "kernels/transformer/bucket.h"

void pipeline_take_input(struct model *model, struct tensor x)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (!ranks_lowest(&model->ranks)) {
        comm_receive(pipeline, model->device, pipeline->rank - 1, x);
    }
}

void pipeline_pass_output(struct model *model, struct tensor y)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (!ranks_highest(&model->ranks)) {
        comm_send(pipeline, model->device, pipeline->rank + 1, y);
    }
}

void pipeline_take_gradient(struct model *model, struct tensor grad)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (!ranks_highest(&model->ranks)) {
        comm_receive(pipeline, model->device, pipeline->rank + 1, grad);
    }
}

void pipeline_pass_gradient(struct model *model, struct tensor grad)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    if (!ranks_lowest(&model->ranks)) {
        comm_send(pipeline, model->device, pipeline->rank - 1, grad);
    }
}

void pipeline_sum_tied(struct model *model)
{
    const struct comm *pipeline = &model->ranks.pipeline;
    bool end = ranks_lowest(&model->ranks) || ranks_highest(&model->ranks);
    if (model->config.tied && pipeline->size > 1 && end && model->embedding->trains) {
        struct comm ends = comm_part(pipeline, 0, pipeline->size - 1, 2);
        struct parameter share = bucket_share(model, model->embedding); // the same at both ends
        comm_sum(&ends, model->device, share.grad);
    }
}
