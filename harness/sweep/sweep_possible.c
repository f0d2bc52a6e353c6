#include "harness/sweep/sweep_possible.h"
#include "harness/process/child.h"
#include "harness/process/launch.h"
#include "harness/record/record_read.h"
#include "harness/step/ranks.h"
#include <string.h>
#include <unistd.h>

#define PROBE_SECONDS 60

// The latest probe, reused because trials of one device are adjacent.
struct probe {
    char device[16];
    enum dtype dtype;
    bool there, interrupted;
    struct status why;
};

// Runs the smallest trial that opens the device. Only an unavailable device counts as a failure.
static bool ask(struct probe *probe)
{
    json_t *trial = json_pack("{s:s, s:s, s:s, s:i, s:s, s:{s:i, s:i, s:s}}", "model", "tiny", "dtype",
                              dtype_name(probe->dtype), "device", probe->device, "context", 2, "method", "null",
                              "measure", "warmup", 0, "samples", 1, "gradient", "none");
    char *json = json_dumps(trial, JSON_COMPACT);
    struct child_result result = {0};
    struct status ignored = {0};
    struct record record;
    int signals = child_signals_open(&ignored);
    bool run = signals >= 0 && child_run(NULL, NULL, json, -1, PROBE_SECONDS, signals, &result, &ignored);
    struct interned interned = {0};
    bool read =
        run && result.line && record_read(&record, result.line, strlen(result.line), &interned, "record", &ignored);
    bool there = !read || record.status != RECORD_UNSUPPORTED;
    if (!there)
        status_set(&probe->why, STATUS_BAD_INPUT, "%s", text_or(record.reason, ""));
    probe->interrupted = result.interrupted;
    interned_free(&interned);
    child_result_free(&result);
    child_signals_close(signals);
    free(json);
    json_decref(trial);
    return there;
}

static bool has_device(struct probe *probe, const struct trial *trial)
{
    bool asked = strcmp(probe->device, trial->device) == 0 && probe->dtype == trial->dtype;
    if (trial->planned || strcmp(trial->device, "cpu") == 0)
        return true;
    if (!asked) {
        *probe = (struct probe){.dtype = trial->dtype};
        snprintf(probe->device, sizeof probe->device, "%s", trial->device);
        probe->there = ask(probe);
    }
    return probe->there;
}

static bool is_possible(struct probe *probe, const struct trial *trial, const char *words, struct status *why)
{
    if (trial->unsupported)
        return status_set(why, STATUS_BAD_INPUT, "%s", trial->unsupported);
    if (!has_device(probe, trial)) {
        *why = probe->why;
        return false;
    }
    if (trial_ranks(trial) == 1 || trial->planned)
        return true;
    struct launch launch = {0};
    bool possible = ranks_launch_open(&launch, trial, NULL, ranks_of_trial, words, why);
    launch_close(&launch);
    return possible;
}

bool sweep_possible(const struct spec *spec, const char *launch, bool *interrupted, struct status *status)
{
    struct probe probe = {0};
    struct status first = {0};
    bool possible = false;
    for (size_t i = 0; !possible && !probe.interrupted && i < spec->trial_count; i++) {
        struct trial trial;
        struct status why = {0};
        possible = !spec_trial(spec, i, &trial, &why) || is_possible(&probe, &trial, launch, &why);
        if (!possible && first.code == STATUS_OK)
            first = why;
        trial_free(&trial);
    }
    *interrupted = probe.interrupted;
    if (probe.interrupted)
        return false;
    return possible || spec->trial_count == 0 ||
           status_set(status, STATUS_BAD_INPUT, "none of the %zu trials can be measured here: %.900s",
                      spec->trial_count, first.message);
}
