#include "kernels/model/unit.h"

void unit_prefetch(struct model *model, size_t unit)
{
    struct unit_keeper *keeper = model->keeper;
    if (unit == UNIT_NONE)
        return;
    keeper->prefetch(keeper, unit);
    if (unit == unit_of_head(model) && model->config.tied)
        keeper->prefetch(keeper, UNIT_EMBEDDING);
}

void unit_acquire(struct model *model, size_t unit)
{
    model->keeper->acquire(model->keeper, unit);
    if (model->listener && model->listener->acquire)
        model->listener->acquire(model->listener, model, unit);
}

void unit_add(struct model *model, size_t unit)
{
    model->keeper->add(model->keeper, unit);
}

void unit_release(struct model *model, size_t unit)
{
    if (model->listener && model->listener->release)
        model->listener->release(model->listener, model, unit);
    model->keeper->release(model->keeper, unit);
}

void unit_done(struct model *model, size_t unit)
{
    if (model->listener && model->listener->done)
        model->listener->done(model->listener, model, unit);
    model->keeper->done(model->keeper, unit);
}

void unit_done_below(struct model *model, size_t layer)
{
    for (size_t l = layer; l-- > 0;)
        unit_done(model, unit_of_layer(l));
}

void unit_done_all(struct model *model)
{
    for (size_t unit = unit_count(model); unit-- > 0;)
        unit_done(model, unit);
}

void unit_settle(struct model *model)
{
    model->keeper->settle(model->keeper);
}

void unit_sum_ends(struct model *model)
{
    model->keeper->sum_ends(model->keeper);
}
