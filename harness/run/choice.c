#include "harness/run/choice.h"
#include "harness/files/size.h"
#include "harness/run/planner.h"
#include "harness/run/ranks.h"
#include "harness/spec/method_decode.h"
#include <string.h>

bool choice_is_open(const struct trial *trial)
{
    return !trial->method->walk;
}

bool choice_possible(const struct trial *trial, struct status *status)
{
    const struct parallel *parallel = &trial->parallel;
    if (parallel->stage > 1)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s chooses for one stage, and parallel.stage is %zu: name a method, seco or spaco",
                          method_auto.name, parallel->stage);
    return parallel->sequence == 1 ||
           status_set(
               status, STATUS_BAD_INPUT,
               "%s chooses for ranks with whole sequences, and parallel.sequence is %zu: name a method, full, "
               "checkpoint or streambp",
               method_auto.name, parallel->sequence);
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
    if (step->why.code != STATUS_OK && step->why.code != STATUS_OOM)
        return status_set(status, step->why.code, "%s", step->why.message);
    return status_set(status, STATUS_OOM,
                      "no exact method fits: %s, which comes nearest, takes %s (%zu bytes)%s; there are %zu "
                      "bytes (limits.memory) and %zu on the host (limits.host_memory)",
                      space->families[nearest->family].trial->method->name, device, step->peak_bytes, kept,
                      limits.device_bytes, limits.host_bytes);
}

#define PLACES 8 // of weights, gradients and optimizer state, on the device or on the host each

// What a trial may have on the host, by number; false: no other than one with a lower number, or what its decoder
// refuses.
static bool set_places(struct trial *trial, size_t number)
{
    const struct optimizer *optimizer = trial->optimizer;
    bool in_walk = optimizer && optimizer_updates_in_walk(optimizer, trial->optimizer_options);
    if (in_walk && !trial->method->rows && !trial->lora.rank)
        return false;
    bool none[] = {false, in_walk || trial->train.clip > 0, !optimizer};
    enum place *places[] = {&trial->weights_place, &trial->gradients_place, &trial->optimizer_place};
    for (size_t i = 0; i < 3; i++) {
        bool host = number >> i & 1;
        if (host && (*places[i] == PLACE_HOST || none[i]))
            return false;
        *places[i] = host ? PLACE_HOST : *places[i];
    }
    return true;
}

// Every exact method; with memory on the host in every choice of places. What they point to is the trial's, but for
// the options. To be freed; their number.
static size_t list_trials(const struct trial *trial, bool host, struct trial **trials)
{
    size_t count = 0;
    while (methods[count])
        count++;
    *trials = calloc(count * PLACES, sizeof **trials);
    CHECK(*trials);
    count = 0;
    for (size_t i = 0; methods[i]; i++) {
        for (size_t number = 0; methods[i]->exact && number < (host ? PLACES : 1); number++) {
            struct trial *next = &(*trials)[count];
            *next = *trial;
            next->method = methods[i];
            struct status why = {0};
            if (!set_places(next, number) || !ranks_fit(next, &why))
                continue;
            next->options = options_new(&methods[i]->options);
            count++;
        }
    }
    return count;
}

bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status)
{
    if (!choice_is_open(trial))
        return true;
    if (!ranks_possible(trial, status))
        return false;
    struct trial *trials;
    struct space space;
    struct planner planner;
    struct candidate fastest = {0};
    size_t count = list_trials(trial, limits.host_bytes > 0, &trials);
    space_open(&space, trials, count, NULL);
    bool chosen = planner_open(&planner, &space, limits, status) && planner_fastest(&planner, &fastest, status) &&
                  (fastest.step.fits || nothing_fits(&fastest, &space, limits, status));
    if (chosen) {
        const struct family *family = &space.families[fastest.family];
        options_free(&trial->method->options, trial->options);
        trial->method = family->trial->method;
        trial->options = family_options(family, fastest.rung);
        trial->weights_place = family->trial->weights_place;
        trial->gradients_place = family->trial->gradients_place;
        trial->optimizer_place = family->trial->optimizer_place;
        trial->chosen = true;
    }
    planner_close(&planner);
    space_close(&space);
    for (size_t i = 0; i < count; i++)
        options_free(&trials[i].method->options, trials[i].options);
    free(trials);
    return chosen;
}

json_t *choice_made(const struct trial *trial)
{
    if (!trial->chosen)
        return NULL;
    json_t *made = method_json(trial->method, trial->options), *places = json_object();
    const struct {
        const char *of;
        enum place place;
    } all[] = {{"weights", trial->weights_place},
               {"gradients", trial->gradients_place},
               {"optimizer", trial->optimizer_place}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].place == PLACE_HOST)
            json_object_set_new(places, all[i].of, json_string("host"));
    if (json_object_size(places))
        json_object_set(made, "place", places);
    json_decref(places);
    return made;
}

bool choose_within(struct trial *trial, struct status *status)
{
    struct planned_limits limits;
    return !choice_is_open(trial) ||
           (choice_limits(trial, &limits, status) && choose_method(trial, limits, status));
}
