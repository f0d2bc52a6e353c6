// Null: no gradient at all. It takes no time, or fails, hangs, crashes or runs out of memory on request, so that
// the harness itself can be tested.
#include "methods/method.h"
#include <time.h>
#include <unistd.h>

enum behaviour { BEHAVIOUR_OK, BEHAVIOUR_FAIL, BEHAVIOUR_HANG, BEHAVIOUR_OOM, BEHAVIOUR_CRASH };

struct null_options {
    enum behaviour behaviour;
    double seconds;
};

static const struct option option_rows[] = {{.name = "behaviour",
                                             .type = OPTION_CHOICE,
                                             .offset = offsetof(struct null_options, behaviour),
                                             .initial = BEHAVIOUR_OK,
                                             .choices = OPTION_CHOICES("ok", "fail", "hang", "oom", "crash"),
                                             .help = "what the step of method null does"},
                                            {.name = "seconds",
                                             .type = OPTION_NUMBER,
                                             .offset = offsetof(struct null_options, seconds),
                                             .maximum = 1e6,
                                             .help = "how long the step of method null takes"},
                                            {0}};

static void walk(struct step *step)
{
    const struct null_options *options = step->options;
    struct device *device = step->model->device;
    double seconds = options->seconds;
    struct timespec pause = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
    switch (options->behaviour) {
    case BEHAVIOUR_OK:
        unit_done_all(step->model);
        break;
    case BEHAVIOUR_FAIL:
        status_set(&device->status, STATUS_FAILED, "method null was asked to fail");
        break;
    case BEHAVIOUR_HANG:
        for (;;) {
            sleep(1);
        }
    case BEHAVIOUR_OOM: {
        struct tensor t = tensor_new(device, (size_t)1 << 40, 1 << 10, DTYPE_F64, CATEGORY_WORKSPACE);
        tensor_free(device, &t);
        break;
    }
    case BEHAVIOUR_CRASH:
        abort();
    }
}

static double floor_bytes(const struct model *model, const void *options, size_t context)
{
    (void)model, (void)options, (void)context;
    return 0;
}

const struct method method_null = {
    .name = "null",
    .summary = "no gradient; can fail, hang, crash or run out of memory to test the harness",
    .source = "longbp",
    .options = {option_rows, sizeof(struct null_options)},
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
