// A method with two options of its own, in one file: what tests/check_new_method adds to the program by one line.
#include "methods/method.h"

enum tone { TONE_QUIET, TONE_LOUD };

struct made_up_options {
    enum tone tone;
    size_t repeats;
};

static const struct option option_rows[] = {{.name = "repeats",
                                             .type = OPTION_COUNT,
                                             .offset = offsetof(struct made_up_options, repeats),
                                             .minimum = 1,
                                             .maximum = 9,
                                             .initial = 2,
                                             .help = "how often"},
                                            {.name = "tone",
                                             .type = OPTION_CHOICE,
                                             .offset = offsetof(struct made_up_options, tone),
                                             .initial = TONE_QUIET,
                                             .choices = OPTION_CHOICES("quiet", "loud"),
                                             .help = "how it is said"},
                                            {0}};

// Says loudly what it was asked.
static void walk(struct step *step)
{
    const struct made_up_options *options = step->options;
    if (options->tone == TONE_LOUD) {
        status_set(&step->model->device->status, STATUS_FAILED, "walked %zu times", options->repeats);
    }
}

static bool check(const void *given, const struct config *config, size_t context, struct status *status)
{
    (void)config;
    const struct made_up_options *options = given;
    return options->repeats <= context ||
           status_set(status, STATUS_BAD_INPUT, "%zu repeats of %zu tokens", options->repeats, context);
}

const struct method method_made_up = {
    .name = "made_up",
    .summary = "nothing, so many times",
    .source = "longbp",
    .options = {option_rows, sizeof(struct made_up_options)},
    .check = check,
    .walk = walk,
};
