// Higher layers keep less, except the lowest of all: its input is the embedding, which is looked up again, whereas
// other layers' inputs are kept. So the largest block is one of the two lowest.
#include "harness/step/largest_block.h"

#define COMPARED 2

struct peak {
    size_t device_bytes, host_bytes;
};

static struct peak plan_block(struct setup *setup, const struct trial *trial, size_t layer)
{
    struct device *device = setup->device;
    struct step_report report = {0};
    trainer_activate_block(&setup->trainer, layer);
    arena_reset_peak(&device->arena);
    arena_reset_peak(&device->host);
    struct training_step step = setup_update(setup, trial, 1);
    training_step_take(&step, &report);
    step_report_free(&report);
    return (struct peak){device->arena.peak_bytes, device->host.peak_bytes};
}

static bool is_larger(struct peak a, struct peak b)
{
    return a.device_bytes > b.device_bytes || (a.device_bytes == b.device_bytes && a.host_bytes > b.host_bytes);
}

static size_t largest(const struct trial *trial, const struct device *device)
{
    size_t layers[COMPARED], found = 0;
    size_t count = optimizer_lowest_active(trial->optimizer, trial->optimizer_options, &trial->config,
                                           trial->train.steps, layers, COMPARED);
    struct peak max = {0};
    struct setup setup;
    struct setup_options how = setup_options_planned(trial);
    struct status status = {0}; // failures occur for the caller too, who reports them
    how.memory_limit_bytes = 0;
    how.host_memory_limit_bytes = SIZE_MAX;
    if (count > 1 && setup_open(&setup, trial, &how, &status)) {
        setup.device->roofline = device->roofline;
        setup.device->memo = device->memo;
        for (size_t i = 0; i < count; i++) {
            struct peak peak = plan_block(&setup, trial, layers[i]);
            found = is_larger(peak, max) ? i : found;
            max = is_larger(peak, max) ? peak : max;
        }
    }
    if (count > 1)
        setup_close(&setup);
    return layers[found];
}

void largest_block_activate(struct setup *setup, const struct trial *trial)
{
    if (trial->optimizer && trial->optimizer->active_layer)
        trainer_activate_block(&setup->trainer, largest(trial, setup->device));
}
