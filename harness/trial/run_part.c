#include "harness/machine/cores.h"
#include "harness/step/largest_block.h"
#include "harness/trial/run_steps.h"
#include <linux/perf_event.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

// From this many tokens on a plan computes a cell that all layers share once. That sums seconds and FLOPs in
// another order than the step; below, results equal the step's to the bit.
#define TOKENS_REMEMBERED (1.0 * (1 << 24))

// The card's description, or on the CPU the GEMM library if it is not the BLAS alone.
static void take_description(struct provenance *provenance, const struct device *device)
{
    size_t used = strlen(provenance->blas);
    if (strcmp(device->ops->name, "cpu") != 0)
        snprintf(provenance->card, sizeof provenance->card, "%s", device->description);
    else if (*device->description)
        snprintf(provenance->blas + used, sizeof provenance->blas - used, "; %s", device->description);
}

bool run_open_part(struct run *run, const struct comm *ranks)
{
    const struct trial *trial = run->trial;
    struct setup_options options = setup_options_of(trial);
    options.ranks = ranks;
    ranks_device(run->device, trial, run->world);
    options.device = run->device;
    if (trial->train.steps && !run->train.trial &&
        !train_open(&run->train, trial, run->world, trial->planned, &run->status))
        return false;
    if (!setup_open(&run->setup, trial, &options, &run->status))
        return false;
    // A training run's first micro-batch may have no targets where later ones do.
    if (!trial->planned && !trial->train.steps && !setup_check_targets(&run->setup, trial, &run->status))
        return false;
    struct rank_figures *figures = &run->figures;
    figures->tokens = (double)run->setup.batch.context * (double)run->setup.batch.batch;
    figures->idle_share = NAN;
    if (trial->planned && figures->tokens >= TOKENS_REMEMBERED)
        setup_remember(&run->setup);
    largest_block_activate(&run->setup, trial);
    take_description(&run->provenance, run->setup.device);
    // Rates were checked when the trial was decoded.
    if (trial->profile)
        profile_roofline(trial->profile, trial->dtype, &run->setup.device->roofline, &run->status);
    figures->resident_bytes = run->setup.device->arena.live_bytes;
    double model_flops = run->setup.model_flops * (double)(trial->train.steps ? trial->train.accumulate : 1);
    run->record.model_flops = model_flops > 0 ? model_flops : NAN;
    if (trial->framework)
        figures->lower_bound_bytes_per_token = NAN; // the method's is of this program's step
    else if (trial->method->lower_bound_bytes_per_token)
        figures->lower_bound_bytes_per_token =
            trial->method->lower_bound_bytes_per_token(&run->setup.model, trial->options, run->setup.batch.context);
    run->record.data_hash = run->setup.data_hash;
    return true;
}

// Counts instructions on the CPU; beside a card the host's threads only wait.
static void count_instructions(struct run *run)
{
    if (strcmp(run->trial->device, "cpu") == 0 && run->world->comm.size == 1)
        event_counter_open(&run->instructions, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
}

// Opens the reference kernel on the machine of the profile's rates, if it fits.
static void open_reference_kernel(struct run *run)
{
    const struct trial *trial = run->trial;
    const struct rates *rates = run->setup.device->roofline.rates;
    bool wanted = rates && rates->reference_kernel_s > 0 && !trial->train.steps && trial_ranks(trial) == 1 &&
                  strcmp(trial->device, "cpu") == 0;
    struct status why = {0};
    run->reference_kernel =
        wanted ? reference_kernel_open(trial->device, trial->dtype, REFERENCE_KERNEL_CPU, &why) : NULL;
}

bool run_take_samples(struct run *run)
{
    run_begin_afresh(run);
    arena_reset_peak(&run->setup.device->arena);
    arena_reset_peak(&run->setup.device->host);
    run_set_draw(run, 0);
    if (run->trial->train.steps)
        train_begin(&run->train, &run->setup);
    open_reference_kernel(run);
    watch_start(run->watch);
    count_instructions(run);
    const struct machine_time start = machine_time_take();
    bool sampled = run_sample(run);
    const struct machine_time end = machine_time_take();
    event_counter_close(&run->instructions);
    watch_stop(run->watch, &run->watched);
    run->load = machine_load_between(&start, &end, (size_t)sysconf(_SC_NPROCESSORS_ONLN), cores_usable(),
                                     (size_t)run->provenance.threads);
    return sampled;
}
