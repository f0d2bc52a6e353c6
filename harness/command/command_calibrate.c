// Command: `longbp calibrate`, a device profile of this machine or one of its cards.
#include "harness/calibrate/calibrate.h"
#include "harness/calibrate/card_rates.h"
#include "harness/files/output_file.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/spec/device_kind.h"
#include "harness/spec/trial.h"
#include "harness/text/text.h"
#include "kernels/device/ops.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX 86400

enum { FLAG_SECONDS = 256 };

struct arguments {
    const char *out, *rates, *device, *operations, *steps, *profile;
    struct calibrate_request request;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    char *end;
    switch (key) {
    case FLAG_SECONDS:
        arguments->request.seconds = strtod(text, &end);
        if (end == text || *end || !(arguments->request.seconds > 0 && arguments->request.seconds <= SECONDS_MAX))
            argp_error(state, "--seconds is a number above 0 and up to %d, not \"%s\"", SECONDS_MAX, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// "cpu", "cuda", "cuda:1"; the profile of a card is named after its file.
static bool read_device(struct arguments *arguments, char name[PROFILE_NAME_BYTES], struct status *status)
{
    struct device_name parsed;
    const char *device = arguments->device, *out = arguments->out;
    if (!device_name_parse(&parsed, device, status))
        return false;
    if (trial_plans_on(device))
        return status_set(status, STATUS_BAD_INPUT, "--device is cpu, cuda or cuda:1, not \"%.64s\"", device);
    arguments->request.device = device;
    if (!out || !device_is_of_card(device))
        return true;
    const char *slash = strrchr(out, '/'), *base = slash ? slash + 1 : out;
    size_t length = strlen(base), suffix = strlen(".json");
    if (length > suffix && strcmp(base + length - suffix, ".json") == 0)
        length -= suffix;
    json_t *text = json_stringn(base, length); // NULL: not UTF-8
    json_decref(text);
    if (!text || length >= PROFILE_NAME_BYTES)
        return status_set(
            status, STATUS_BAD_INPUT,
            "--out: the profile is named after its file: a name in UTF-8 of at most %d bytes, not \"%.64s\"",
            PROFILE_NAME_BYTES - 1, base);
    snprintf(name, PROFILE_NAME_BYTES, "%.*s", (int)length, base);
    arguments->request.name = name;
    return true;
}

// "f32,bf16", or "none".
static bool read_rates(struct arguments *arguments, struct status *status)
{
    if (strcmp(arguments->rates, "none") == 0)
        return true;
    char *copy = strdup(arguments->rates), *rest = copy, *name;
    while (status->code == STATUS_OK && (name = strsep(&rest, ","))) {
        enum dtype dtype;
        if (dtype_from_name(name, &dtype) && dtype <= DTYPE_BF16)
            arguments->request.rated[dtype] = true;
        else
            status_set(status, STATUS_BAD_INPUT, "--rates is none, or some of f64, f32 and bf16, not \"%.64s\"",
                       name);
    }
    free(copy);
    return status->code == STATUS_OK;
}

static void write_profile(const struct profile *profile, const char *path, struct status *status)
{
    char *json = profile_text(profile), *text = text_new("%s\n", json);
    if (path)
        output_file_write(path, text, strlen(text), status);
    else
        fputs(text, stdout);
    free(text);
    free(json);
}

// Loads --profile and adds the rates of --operations and --steps, which were measured on that profile's card, on
// another machine.
static bool from_files(struct profile *profile, const struct arguments *arguments, struct status *status)
{
    if (!arguments->operations || !arguments->steps || !arguments->profile)
        return status_set(status, STATUS_BAD_INPUT, "--operations, --steps and --profile go together");
    return profile_load(profile, arguments->profile, status) &&
           card_rates(profile, arguments->operations, arguments->steps, status);
}

static bool make_profile(struct profile *profile, struct arguments *arguments, struct status *status)
{
    bool files = arguments->operations || arguments->steps || arguments->profile;
    return files ? from_files(profile, arguments, status) : calibrate(profile, &arguments->request, status);
}

int command_calibrate(int argc, char **argv)
{
    static const struct flag options[] = {
        {"out", .key = 'o', TEXT_AT(struct arguments, out), .arg = "FILE", .doc = "the profile (to stdout)"},
        {"device", TEXT_AT(struct arguments, device), .arg = "DEVICE",
         .doc = "device to measure: cpu, cuda, cuda:1 for a second card (cpu)"},
        {"rates", TEXT_AT(struct arguments, rates), .arg = "none|DTYPE,DTYPE",
         .doc = "dtypes whose operations are measured shape by shape, or none (f32)"},
        {"seconds", .key = FLAG_SECONDS, .arg = "N",
         .doc = "time per dtype, and maximum time of a peak; for a card with one dtype, the total (60)"},
        {"operations", TEXT_AT(struct arguments, operations), .arg = "FILE",
         .doc = "output of build/bench/bench_ops on a card, in bf16; measures nothing here (none)"},
        {"steps", TEXT_AT(struct arguments, steps), .arg = "FILE",
         .doc = "records of steps on that card; those of method full give the effect of its power limit (none)"},
        {"profile", TEXT_AT(struct arguments, profile), .arg = "NAME",
         .doc = "profile of that card, to which the rates are added (none)"},
        {0}};
    static const struct argp argp = {
        .parser = parse,
        .doc = "Measures this machine and writes its device profile, named host, or that of a card, named after "
               "its file. As experiments/devices/NAME.json it is found by that name.\vPeaks take some ten seconds, "
               "for a card three. With rates of operations by shape, the profile predicts step times, with a "
               "range; measure rates on an idle machine or card, with the number of threads that steps will use. "
               "For a card, --rates bf16 serves steps in bf16; a shape whose kernels are not compiled in time gets "
               "the rate of the next smaller one."};
    struct arguments arguments = {.rates = "f32", .device = "cpu", .request = {.seconds = 60}};
    char name[PROFILE_NAME_BYTES];
    struct status status = {0};
    struct profile *profile = calloc(1, sizeof *profile);
    arguments_parse(&argp, options, argc, argv, &arguments);
    const char *out = arguments.out;
    if (read_device(&arguments, name, &status) && read_rates(&arguments, &status) &&
        (!out || output_file_check(out, &status)) && make_profile(profile, &arguments, &status))
        write_profile(profile, out, &status);
    free(profile);
    return command_end(argv[0], &status);
}
