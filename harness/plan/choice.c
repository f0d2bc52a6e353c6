#include "harness/plan/choice.h"
#include "harness/plan/planner.h"
#include "harness/spec/method_decode.h"
#include "harness/step/ranks.h"
#include "harness/step/ranks_possible.h"
#include "harness/text/size.h"
#include <string.h>

// Tells whether the trial's method is to be chosen.
static bool is_open(const struct trial *trial)
{
    return !trial->method->run;
}

// Appends " 512 bytes too few (limits.memory)" if a limit is exceeded.
static void say_missing(char *text, size_t bytes, size_t peak_bytes, size_t limit_bytes, const char *key)
{
    size_t used = strlen(text);
    if (peak_bytes > limit_bytes)
        snprintf(text + used, bytes - used, "%s %zu %s too few (%s)", used ? " and" : "", peak_bytes - limit_bytes,
                 size_text_unit(peak_bytes - limit_bytes), key);
}

static bool nothing_fits(const struct candidate *nearest, const struct space *space, struct planned_limits limits,
                         struct status *status)
{
    const struct planned_step *step = &nearest->step;
    char device[32], host[32], kept[80] = "", missing[160] = "";
    size_text(step->peak_bytes, device, sizeof device);
    size_text(step->host_peak_bytes, host, sizeof host);
    if (step->host_peak_bytes)
        snprintf(kept, sizeof kept, " and %s (%zu bytes) on the host", host, step->host_peak_bytes);
    if (step->why.code != STATUS_OK && step->why.code != STATUS_OOM)
        return status_take(status, &step->why);
    say_missing(missing, sizeof missing, step->peak_bytes, limits.device_bytes, "limits.memory");
    say_missing(missing, sizeof missing, step->host_peak_bytes, limits.host_bytes, "limits.host_memory");
    return status_set(status, STATUS_OOM, "no exact method fits: %s, the closest, takes %s (%zu bytes)%s,%s",
                      space->families[nearest->family].trial->method->name, device, step->peak_bytes, kept,
                      missing);
}

#define OFFLOADS (OFFLOAD_TRAINER + 1)

// Sets the method's offload targets; returns false if it or the decoder refuses them.
static bool set_offload(struct trial *trial, unsigned targets)
{
    const struct optimizer *optimizer = trial->optimizer;
    bool in_backward = optimizer && optimizer_updates_in_backward(optimizer, trial->optimizer_options);
    if (in_backward && !trial->method->by_layer && !trial->lora.rank)
        return false;
    unsigned none =
        (in_backward || trial->train.clip > 0 ? OFFLOAD_GRADIENTS : 0) | (optimizer ? 0 : OFFLOAD_OPTIMIZER);
    return !(targets & none) && trial_offload(trial, targets);
}

// Lists every exact method that ranks can share as requested, with the offload targets that were asked for; if none
// were, with host memory, with every combination of the trainer's. Except for options, members are borrowed from
// the trial. To be freed; returns their number. none: why a method is excluded.
static size_t list_trials(const struct trial *trial, bool host, struct trial **trials, struct status *none)
{
    size_t count = 0;
    unsigned asked = options_words(&trial->method->options, trial->options, "offload");
    while (methods[count])
        count++;
    *trials = calloc(count * OFFLOADS + 1, sizeof **trials);
    count = 0;
    for (size_t i = 0; methods[i]; i++) {
        unsigned end = !methods[i]->exact ? 0 : asked ? asked + 1 : host ? OFFLOADS : 1;
        for (unsigned targets = asked; targets < end; targets++) {
            struct trial *next = &(*trials)[count];
            *next = *trial;
            next->method = methods[i];
            next->options = options_new(&methods[i]->options);
            if (set_offload(next, targets) && ranks_fit(next, none))
                count++;
            else
                options_free(&methods[i]->options, next->options);
        }
    }
    return count;
}

static bool find(const struct space *space, struct planned_limits limits, struct candidate *fastest,
                 struct status *status)
{
    struct planner planner;
    bool found = planner_open(&planner, space, limits, status) && planner_fastest(&planner, fastest, status) &&
                 (fastest->step.fits || nothing_fits(fastest, space, limits, status));
    planner_close(&planner);
    return found;
}

static void take(struct trial *trial, const struct family *family, size_t index)
{
    options_free(&trial->method->options, trial->options);
    trial->method = family->trial->method;
    trial->options = family_options(family, index);
    trial->chosen = true;
}

// Rank 0 chooses, because estimates may differ between machines.
static bool choose(struct trial *trial, const struct world *world, struct planned_limits limits,
                   struct status *status)
{
    struct trial *trials;
    struct status none = {0};
    struct space space;
    struct candidate fastest = {0};
    struct {
        bool made;
        size_t family, index;
    } choice = {0};
    size_t count = list_trials(trial, limits.host_bytes > 0, &trials, &none);
    json_t *given = json_object(); // which the space does not vary
    if (options_words(&trial->method->options, trial->options, "offload"))
        json_object_set_new(given, "offload", json_null());
    space_open(&space, trials, count, given);
    if (world->comm.rank == 0 && count == 0) {
        status_set(status, STATUS_UNSUPPORTED, "no exact method can be shared so: %.900s", none.message);
    } else if (world->comm.rank == 0) {
        choice.made = find(&space, limits, &fastest, status);
        choice.family = fastest.family;
        choice.index = fastest.index;
    }
    world->ops->broadcast(world, &choice, sizeof choice);
    if (choice.made)
        take(trial, &space.families[choice.family], choice.index);
    space_close(&space);
    json_decref(given);
    for (size_t i = 0; i < count; i++)
        options_free(&trials[i].method->options, trials[i].options);
    free(trials);
    if (!choice.made && world->comm.rank > 0) {
        world->ops->rest(world);
        status_set(status, STATUS_FAILED, "rank 0 chose no method");
    }
    return choice.made;
}

bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status)
{
    struct world alone;
    world_open_alone(&alone);
    return !is_open(trial) || (ranks_possible(trial, status) && choose(trial, &alone, limits, status));
}

// The limits of this rank, if `ranks_beside` ranks share its machine.
static bool own_limits(const struct trial *trial, const struct world *world, size_t ranks_beside,
                       struct planned_limits *limits, struct status *status)
{
    char name[RANK_DEVICE_BYTES];
    // Nothing is offloaded to a host without a given memory limit or folder.
    size_t host_bytes = trial->host_folder ? NO_LIMIT : 0;
    *limits = (struct planned_limits){trial->memory_limit_bytes,
                                      trial->host_memory_limit_bytes ? trial->host_memory_limit_bytes : host_bytes};
    if (trial->planned) {
        if (!limits->device_bytes)
            limits->device_bytes = trial->profile ? profile_limit_bytes(trial->profile) : NO_LIMIT;
        return true;
    }
    ranks_device(name, trial, world);
    struct device *device = device_open(name, trial->dtype, trial->memory_limit_bytes, status);
    if (!device)
        return false;
    if (device->arena.limit_bytes == ARENA_LIMIT_NOTHING)
        status_set(status, STATUS_OOM, "no method fits: no memory is left on %s (%s)", name,
                   device->arena.limit_what);
    bool one_memory = device->arena.beside; // device and host share it
    if (!limits->device_bytes)
        limits->device_bytes = device->arena.limit_bytes / (one_memory ? ranks_beside : 1);
    device_close(device);
    return status->code == STATUS_OK;
}

// The maximum or minimum over all ranks.
static size_t among_ranks(const struct world *world, size_t own, bool largest)
{
    size_t *all = calloc(world->comm.size, sizeof *all);
    world->ops->gather(world, all, &own, sizeof own);
    for (size_t rank = 0; world->comm.rank == 0 && rank < world->comm.size; rank++)
        own = (all[rank] > own) == largest ? all[rank] : own;
    world->ops->broadcast(world, &own, sizeof own);
    free(all);
    return own;
}

bool choose_within(struct trial *trial, const struct world *world, struct status *status)
{
    struct planned_limits limits;
    if (!is_open(trial))
        return true;
    // The maximum number per machine; for ranks not yet started, all on this one.
    size_t beside = world->comm.size > 1 ? among_ranks(world, world->local_rank, true) + 1 : trial_ranks(trial);
    if (!ranks_possible(trial, status) || !own_limits(trial, world, beside, &limits, status))
        return false;
    limits.device_bytes = among_ranks(world, limits.device_bytes, false);
    limits.host_bytes = among_ranks(world, limits.host_bytes, false);
    return choose(trial, world, limits, status);
}
