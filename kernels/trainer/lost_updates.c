#include "kernels/trainer/lost_updates.h"
#include "kernels/trainer/weight_options.h"
#include <math.h>

bool lost_updates_known(const struct optimizer *optimizer)
{
    return option_find(&optimizer->options, "master") && !optimizer->active_layer;
}

static double *values_of(struct device *device, struct tensor t)
{
    double *values = calloc(tensor_count(t) + 1, sizeof *values);
    tensor_read(device, t, values);
    return values;
}

// base: the values that u was added to; unrounded: their sum.
static void add(struct lost_updates *sums, const double *before, const double *after, const double *base,
                const double *unrounded, size_t count, bool mastered)
{
    for (size_t i = 0; i < count; i++) {
        double u = unrounded[i] - base[i];
        sums->moved += u != 0;
        sums->unchanged += u != 0 && after[i] == before[i];
        sums->asked += u * u;
        sums->taken += u * (mastered ? u : after[i] - before[i]);
    }
}

void lost_update_begin(struct lost_update *lost, const struct model *model, struct parameter *p, size_t age)
{
    struct device *device = model->device;
    if (!p->state[MASTER_STATE].data)
        p->unrounded = tensor_new(device, p->value.rows, p->value.cols, master_dtype(model), CATEGORY_OPTIMIZER);
    double *before = values_of(device, p->value);
    *lost =
        (struct lost_update){.device = device,
                             .parameter = p,
                             .before = before,
                             .base = weight_master_begins(p, age) ? before : values_of(device, weight_master(p))};
}

void lost_update_end(struct lost_update *lost, struct lost_updates *sums)
{
    struct device *device = lost->device;
    struct parameter *p = lost->parameter;
    double *after = values_of(device, p->value), *unrounded = values_of(device, weight_master(p));
    if (!device->ops->dataless && device->status.code == STATUS_OK)
        add(sums, lost->before, after, lost->base, unrounded, tensor_count(p->value), p->state[MASTER_STATE].data);
    if (lost->base != lost->before)
        free(lost->base);
    free(lost->before);
    free(after);
    free(unrounded);
    tensor_free(device, &p->unrounded);
}

void lost_updates_sum(struct lost_updates *sums, const struct world *world)
{
    double numbers[] = {sums->moved, sums->unchanged, sums->asked, sums->taken};
    world_sum(world, numbers, sizeof numbers / sizeof *numbers);
    *sums = (struct lost_updates){numbers[0], numbers[1], numbers[2], numbers[3]};
}

double lost_updates_unchanged(const struct lost_updates *sums)
{
    return sums->moved > 0 ? sums->unchanged / sums->moved : NAN;
}

double lost_updates_lost(const struct lost_updates *sums)
{
    return sums->asked > 0 ? 1 - sums->taken / sums->asked : NAN;
}
