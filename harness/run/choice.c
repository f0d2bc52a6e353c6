#include "harness/run/choice.h"
#include "harness/files/size.h"
#include "harness/run/planner.h"
#include "harness/run/ranks.h"
#include <string.h>

bool choice_is_open(const struct trial *trial)
{
    return !trial->method->walk;
}

bool choice_limits(const struct trial *trial, struct planned_limits *limits, struct status *status)
{
    *limits = (struct planned_limits){trial->memory_limit_bytes, trial->host_memory_limit_bytes};
    if (trial->planned) {
        if (!limits->device_bytes)
            limits->device_bytes = trial->profile ? (size_t)trial->profile->usable_bytes.value : NO_LIMIT;
        return true;
    }
    struct device *device = device_open(trial->device, trial->dtype, trial->memory_limit_bytes, status);
    if (!device)
        return false;
    limits->device_bytes = device->arena.limit_bytes;
    if (!limits->host_bytes)
        limits->host_bytes = trial->host_folder ? NO_LIMIT : device->host.limit_bytes;
    device_close(device);
    return true;
}

static bool nothing_fits(const struct candidate *nearest, const struct space *space, struct planned_limits limits,
                         struct status *status)
{
    const struct planned_step *step = &nearest->step;
    char device[32], host[32], kept[80] = "";
    size_text(step->peak_bytes, device, sizeof device);
    size_text(step->host_peak_bytes, host, sizeof host);
    if (step->host_peak_bytes)
        snprintf(kept, sizeof kept, " and %s (%zu bytes) on the host", host, step->host_peak_bytes);
    return status_set(status, STATUS_OOM,
                      "no exact method fits: %s, which comes nearest, takes %s (%zu bytes)%s; there are %zu "
                      "bytes (limits.memory) and %zu on the host (limits.host_memory)",
                      space->families[nearest->family].trial->method->name, device, step->peak_bytes, kept,
                      limits.device_bytes, limits.host_bytes);
}

bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status)
{
    if (!choice_is_open(trial))
        return true;
    if (!ranks_possible(trial, status))
        return false;
    size_t count = 0;
    while (methods[count])
        count++;
    struct trial *trials = calloc(count, sizeof *trials); // what they point to is the trial's, but for the options
    CHECK(trials);
    count = 0;
    for (size_t i = 0; methods[i]; i++) {
        if (!methods[i]->exact)
            continue;
        trials[count] = *trial;
        trials[count].method = methods[i];
        trials[count++].options = options_new(&methods[i]->options);
    }
    struct space space;
    struct planner planner;
    struct candidate fastest = {0};
    space_open(&space, trials, count, NULL);
    bool chosen = planner_open(&planner, &space, limits, status) && planner_fastest(&planner, &fastest, status) &&
                  (fastest.step.fits || nothing_fits(&fastest, &space, limits, status));
    if (chosen) {
        const struct family *family = &space.families[fastest.family];
        options_free(&trial->method->options, trial->options);
        trial->method = family->trial->method;
        trial->options = family_options(family, fastest.rung);
        trial->chosen = true;
    }
    planner_close(&planner);
    space_close(&space);
    for (size_t i = 0; i < count; i++)
        options_free(&trials[i].method->options, trials[i].options);
    free(trials);
    return chosen;
}

bool choose_within(struct trial *trial, struct status *status)
{
    struct planned_limits limits;
    return !choice_is_open(trial) ||
           (choice_limits(trial, &limits, status) && choose_method(trial, limits, status));
}
