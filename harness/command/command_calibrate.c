// Command: `longbp calibrate`, a device profile of this machine.
#define _GNU_SOURCE // asprintf
#include "harness/command/arguments.h"
#include "harness/command/command.h"
#include "harness/files/output_file.h"
#include "harness/run/calibrate.h"
#include <string.h>

static error_t parse(int key, char *text, struct argp_state *state)
{
    const char **out = state->input;
    switch (key) {
    case 'o':
        *out = text;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool write_profile(const struct profile *profile, const char *path, struct status *status)
{
    char *json = profile_text(profile), *text;
    CHECK(asprintf(&text, "%s\n", json) > 0);
    bool written = path ? output_file_write(path, text, strlen(text), status) : fputs(text, stdout) >= 0;
    free(text);
    free(json);
    return written;
}

int command_calibrate(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "out", .key = 'o', .arg = "FILE", .doc = "the profile (to stdout)"}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Measures this machine for some ten seconds and writes its device profile, called host. As "
               "experiments/devices/host.json it is found by that name."};
    const char *out = NULL;
    struct status status = {0};
    struct profile *profile = calloc(1, sizeof *profile);
    CHECK(profile);
    argp_parse(&argp, argc, argv, 0, NULL, &out);
    bool done = (!out || output_file_check(out, &status)) && calibrate(profile, &status) &&
                write_profile(profile, out, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    free(profile);
    return done ? EXIT_FINE : EXIT_BAD_INPUT;
}
