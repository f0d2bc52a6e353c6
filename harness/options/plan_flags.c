#include "harness/options/plan_flags.h"
#include "harness/folder/folder.h"
#include "harness/framework/run_file.h"
#include "harness/machine/exit_code.h"
#include "harness/spec/framework_decode.h"
#include "harness/text/size.h"
#include "kernels/framework/framework.h"
#include <string.h>

void plan_flags_open(struct plan_flags *flags, int needs, const char *const *without, const struct flag *own,
                     const char *host)
{
    *flags = (struct plan_flags){.needs = needs};
    trial_flags_open(&flags->trial, without, own);
    trial_flags_describe(&flags->trial, "host_memory", host);
}

void plan_flags_close(struct plan_flags *flags)
{
    json_decref(flags->theirs);
    json_decref(flags->unchecked);
    trial_flags_close(&flags->trial);
}

static bool is_given(const struct plan_flags *flags, const char *key)
{
    return json_object_get(flags->trial.trial, key);
}

// A batch file determines the context, even for searches of it.
static void check_needs(const struct plan_flags *flags, struct argp_state *state)
{
    bool file = json_object_get(json_object_get(flags->trial.trial, "data"), "batch");
    bool looked_for = !(flags->needs & NEEDS_CONTEXT);
    arguments_need(state, "--model", is_given(flags, "model"), "--context",
                   looked_for || file || is_given(flags, "context"));
    if (looked_for && file)
        argp_error(
            state,
            "--batch FILE fixes the context, which this command searches for; give --batch a number of sequences");
    if ((flags->needs & NEEDS_MEMORY) && !flags->memory && !is_given(flags, "profile"))
        argp_error(state, "say how much memory there is: --memory-limit or --profile");
}

static void set_device(struct plan_flags *flags)
{
    char device[TRIAL_DEVICE_BYTES] = "plan";
    if (flags->like)
        snprintf(device, sizeof device, "plan-%s", flags->like);
    json_object_set_new(flags->trial.trial, "device", json_string(device));
}

// Sets those keys of `from` that were not given.
static void set_absent(json_t *given, json_t *from)
{
    const char *key;
    json_t *value;
    json_object_foreach(from, key, value)
    {
        if (!json_object_get(given, key))
            json_object_set(given, key, value);
    }
}

// Takes from a run's own file what was not given.
static void take_run(struct plan_flags *flags, struct argp_state *state)
{
    struct run_file run;
    struct status status = {0};
    json_t *trial = flags->trial.trial;
    if (!flags->compares && flags->like && strcmp(flags->like, FRAMEWORK_NAME) != 0)
        argp_error(state, "--from plans a run of " FRAMEWORK_NAME ": leave --like %s out", flags->like);
    *(flags->compares ? &flags->against : &flags->like) = FRAMEWORK_NAME;
    if (!run_file_read(&run, flags->from, &status))
        argp_failure(state, EXIT_BAD_INPUT, 0, "%s", status.message);
    flags->unchecked = json_incref(run.unchecked);
    // Other commands show it with the step.
    bool searches = (flags->needs & NEEDS_MEMORY) && !flags->compares && !flags->json;
    for (size_t i = 0; searches && i < json_array_size(flags->unchecked); i++)
        fprintf(stderr, "longbp: %s: %s\n", flags->from, json_string_value(json_array_get(flags->unchecked, i)));
    if (!(flags->needs & NEEDS_CONTEXT))
        json_object_del(run.trial, "context");
    if (json_is_object(json_object_get(trial, "framework")))
        set_absent(json_object_get(trial, "framework"), json_object_get(run.trial, "framework"));
    if (flags->compares)
        flags->theirs = json_pack("{s:O}", "method", json_object_get(run.trial, "method"));
    // Commands that search for memory try a list of methods.
    if (!(flags->needs & NEEDS_MEMORY) && !json_object_get(flags->trial.method, "name"))
        json_object_set(flags->trial.method, "name", json_object_get(run.trial, "method"));
    json_object_del(run.trial, "method");
    set_absent(trial, run.trial);
    if (!is_given(flags, "model"))
        argp_error(state, "%s names %s%s%s: give --model a folder with its config.json, or a preset of its shape",
                   flags->from, run.model ? "a model that is not here, \"" : "no model", run.model ? run.model : "",
                   run.model ? "\"" : "");
    run_file_close(&run);
}

// Sets apart what is of the framework's step alone; frozen weights that it quantises are, here, too.
static void part_theirs(struct plan_flags *flags)
{
    json_t *trial = flags->trial.trial, *framework = json_object_get(trial, "framework");
    if (!flags->theirs)
        flags->theirs = json_pack("{s:s}", "method", "checkpoint");
    json_object_set_new(flags->theirs, "framework", framework ? json_deep_copy(framework) : json_object());
    if (framework_quantises(framework) && !json_object_get(trial, "weights"))
        json_object_set_new(trial, "weights", json_string("nf4"));
    json_object_del(trial, "framework");
}

error_t plan_flags_parse(struct plan_flags *flags, int key, const char *text, struct argp_state *state)
{
    switch (key) {
    case PLAN_MEMORY_LIMIT:
    case PLAN_DEVICE_MEMORY:
        flags->memory = text;
        flags->memory_flag = key == PLAN_MEMORY_LIMIT ? "--memory-limit" : "--device-memory";
        return 0;
    case ARGP_KEY_END:
        if (flags->from)
            take_run(flags, state);
        if (flags->against)
            part_theirs(flags);
        check_needs(flags, state);
        set_device(flags);
        return 0;
    default:
        return trial_flags_parse(&flags->trial, key, text);
    }
}

// Warns about a card's rates combined with the CPU's bytes, which is seldom intended.
static void say_device(const struct plan_flags *flags, const struct trial *trial)
{
    const struct profile *profile = trial->profile;
    if (profile && !flags->like && !flags->json && profile->multiprocessors.value > 0 && !trial_is_of_card(trial))
        fprintf(stderr,
                "longbp: profile %s describes a card, but %s is planned for the CPU: --dtype bf16 or --like cuda "
                "plans for the card; --like cpu confirms the CPU\n",
                profile->name, dtype_name(trial->dtype));
    // The same for a card's bytes with a processor's calibrated rates.
    if (profile && !flags->like && !flags->json && profile->multiprocessors.value == 0 && trial_is_of_card(trial))
        fprintf(stderr,
                "longbp: profile %s describes a processor, but %s is planned for a card: --like cpu plans for the "
                "processor; --like cuda confirms the card\n",
                profile->name, dtype_name(trial->dtype));
}

// Warns about an interconnect without an estimate of several ranks.
static void say_interconnect(const struct plan_flags *flags, const struct trial *trial)
{
    const char *why = trial_ranks(trial) == 1 ? "requires several ranks: give --parallel"
                      : !trial->profile       ? "only estimates of time use it: give --profile"
                                              : NULL;
    if (trial->interconnect && why && !flags->json)
        fprintf(stderr, "longbp: interconnect %s is not used: %s\n", trial->interconnect->name, why);
}

// Reads how much memory a step leaves free; `bytes` holds the default.
static bool read_reserve(const struct plan_flags *flags, size_t *bytes, struct status *status)
{
    const char *text = flags->reserve;
    if (text && strcmp(text, "0") == 0)
        *bytes = 0;
    else if (text && !size_parse(text, bytes))
        return status_set(status, STATUS_BAD_INPUT, "--reserve: expected 0 or %s, found \"%s\"",
                          size_expected(text), text);
    return true;
}

bool plan_flags_limit(const struct plan_flags *flags, const struct trial *trial, size_t *bytes, char *what,
                      size_t what_bytes, struct status *status)
{
    *bytes = 0;
    *what = 0;
    say_device(flags, trial);
    say_interconnect(flags, trial);
    if (!flags->json)
        folder_say(trial->model_folder);
    const struct profile *profile = trial->profile;
    size_t reserve_bytes = 0;
    if (flags->memory) {
        snprintf(what, what_bytes, "%s", flags->memory_flag);
        if (!size_parse(flags->memory, bytes))
            return status_set(status, STATUS_BAD_INPUT, "%s: expected %s, found \"%s\"", flags->memory_flag,
                              size_expected(flags->memory), flags->memory);
    } else if (profile) {
        snprintf(what, what_bytes, "usable, profile %s", profile->name);
        *bytes = (size_t)profile->usable_bytes.value;
        reserve_bytes = *bytes - profile_limit_bytes(profile);
    } else if (flags->reserve) {
        return status_set(status, STATUS_BAD_INPUT,
                          "--reserve needs a memory size: give --memory-limit or --profile");
    }
    if (!read_reserve(flags, &reserve_bytes, status))
        return false;
    char text[32];
    size_text(reserve_bytes, text, sizeof text);
    if (reserve_bytes && reserve_bytes >= *bytes) {
        char limit[32];
        size_text(*bytes, limit, sizeof limit);
        return status_set(status, STATUS_BAD_INPUT,
                          "--reserve %s takes all of the device's %s (%s); give a smaller one, or 0", text, limit,
                          what);
    }
    *bytes -= reserve_bytes;
    size_t used = strlen(what);
    if (reserve_bytes)
        snprintf(what + used, what_bytes - used, ", less --reserve %s", text);
    return true;
}
