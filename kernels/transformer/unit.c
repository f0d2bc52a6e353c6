#include "kernels/transformer/unit.h"
#include "kernels/transformer/training.h"
#include "kernels/transformer/weights.h"

void unit_prefetch(struct model *model, size_t unit)
{
    if (unit == UNIT_NONE) {
        return;
    }
    weights_prefetch(model, unit);
    if (unit == unit_of_head(model) && model->config.tied) {
        weights_prefetch(model, UNIT_EMBEDDING);
    }
}

void unit_acquire(struct model *model, size_t unit)
{
    weights_acquire(model, unit);
    if (model->listener && model->listener->acquire) {
        model->listener->acquire(model->listener, model, unit);
    }
}

void unit_release(struct model *model, size_t unit)
{
    if (model->listener && model->listener->release) {
        model->listener->release(model->listener, model, unit);
    }
    weights_release(model, unit);
}

void unit_add(struct model *model, size_t unit)
{
    gradients_acquire(model, unit);
}

void unit_done(struct model *model, size_t unit)
{
    if (model->listener && model->listener->done) {
        model->listener->done(model->listener, model, unit);
    }
    gradients_release(model, unit);
}

void unit_settle(struct model *model)
{
    gradients_settle(model);
    weights_settle(model);
}

void unit_done_below(struct model *model, size_t layer)
{
    for (size_t l = layer; l-- > 0;) {
        unit_done(model, unit_of_layer(l));
    }
}

void unit_done_all(struct model *model)
{
    for (size_t unit = unit_count(model); unit-- > 0;) {
        unit_done(model, unit);
    }
}
