// A method with options of its own, in one file: what tests/check_new_method adds to the program by one line. It
// computes the gradient as full does, by whose walk it goes.
#include "methods/method.h"

struct made_up_options {
    int tone;
    size_t repeats;
    double pitch;
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
                                             .initial = 0,
                                             .choices = OPTION_CHOICES("quiet", "loud"),
                                             .help = "how it is said"},
                                            {.name = "pitch",
                                             .type = OPTION_NUMBER,
                                             .offset = offsetof(struct made_up_options, pitch),
                                             .maximum = 1,
                                             .initial = 1.5e-8,
                                             .help = "how high, in kHz"},
                                            {0}};

// At the highest pitch it says what it was asked, and fails.
static void run(struct step *step)
{
    const struct made_up_options *options = step->options;
    const struct method *full = method_find("full");
    struct step as_full = *step;
    void *defaults = options_new(&full->options);
    as_full.options = defaults;
    full->run(&as_full);
    options_free(&full->options, defaults);
    if (options->pitch == 1)
        status_set(&step->model->device->status, STATUS_FAILED, "ran %zu times", options->repeats);
}

static bool check(const void *given, const struct config *config, size_t context, struct status *status)
{
    (void)config;
    const struct made_up_options *options = given;
    return options->repeats <= context ||
           status_set(status, STATUS_BAD_INPUT, "%zu repeats of %zu tokens", options->repeats, context);
}

static double lower_bound_bytes(const struct model *model, const void *options, size_t context)
{
    (void)options;
    return method_find("full")->lower_bound_bytes_per_token(model, NULL, context);
}

const struct method method_made_up = {
    .name = "made_up",
    .summary = "the gradient, so many times said",
    .source = "longbp",
    .options = {option_rows, sizeof(struct made_up_options)},
    .exact = true,
    .by_layer = true,
    .parallel = PARALLEL_DATA | PARALLEL_SEQUENCE,
    .check = check,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
