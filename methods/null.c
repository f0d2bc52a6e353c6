// Null: computes no gradient. It takes no time, or fails, hangs, stops, crashes or runs out of memory on request,
// to test the harness.
#include "methods/method.h"
#include "methods/schedule/pipeline.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum behaviour {
    BEHAVIOUR_OK,
    BEHAVIOUR_FAIL,
    BEHAVIOUR_HANG,
    BEHAVIOUR_STOP,
    BEHAVIOUR_OOM,
    BEHAVIOUR_CRASH,
    BEHAVIOUR_KILL,
    BEHAVIOUR_EXIT
};

struct null_options {
    enum behaviour behaviour;
    size_t at_rank;
    double seconds;
    unsigned offload;
};

static const struct option option_rows[] = {
    {OPTION("behaviour", CHOICE, struct null_options, behaviour), .initial = BEHAVIOUR_OK,
     .choices = OPTION_CHOICES("ok", "fail", "hang", "stop", "oom", "crash", "kill", "exit"),
     .help = "behaviour of method null's step"},
    {OPTION("at_rank", COUNT, struct null_options, at_rank), .maximum = OPTION_COUNT_MAX,
     .help = "rank with this behaviour of method null"},
    {OPTION("seconds", NUMBER, struct null_options, seconds), .maximum = 1e6,
     .help = "duration of method null's step"},
    OPTION_OFFLOAD(struct null_options),
    {0}};

static void behave(struct device *device, enum behaviour behaviour)
{
    switch (behaviour) {
    case BEHAVIOUR_OK:
        break;
    case BEHAVIOUR_FAIL:
        status_set(&device->status, STATUS_FAILED, "method null failed, as its options demand");
        break;
    case BEHAVIOUR_HANG:
        for (;;)
            sleep(1);
    case BEHAVIOUR_STOP: // stops responding
        raise(SIGSTOP);
        break;
    case BEHAVIOUR_OOM: {
        struct tensor t = tensor_new(device, (size_t)1 << 40, 1 << 10, DTYPE_F64, CATEGORY_WORKSPACE);
        tensor_free(device, &t);
        break;
    }
    case BEHAVIOUR_CRASH:
        abort();
    case BEHAVIOUR_KILL:
        raise(SIGKILL);
        break;
    case BEHAVIOUR_EXIT:
        _exit(3);
    }
}

// Sends an empty loss up the pipeline and down again. Replicas synchronise when their units are done.
static void go_round(struct step *step)
{
    pipeline_take_input(step->model, step->loss);
    pipeline_pass_output(step->model, step->loss);
    pipeline_take_gradient(step->model, step->loss);
    pipeline_pass_gradient(step->model, step->loss);
}

static void run(struct step *step)
{
    const struct null_options *options = step->options;
    struct model *model = step->model;
    const struct comm *pipeline = &model->ranks.pipeline;
    size_t rank = comm_world_rank(pipeline, pipeline->rank);
    double seconds = options->seconds;
    struct timespec pause = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    bool planned = model->device->ops->dataless; // a plan takes no time and always ends
    if (!planned)
        nanosleep(&pause, NULL);
    go_round(step);
    if (!planned && rank == options->at_rank)
        behave(model->device, options->behaviour);
    go_round(step); // the others wait for the missing rank
    unit_done_all(model);
}

static double lower_bound_bytes(const struct model *model, const void *options, size_t context)
{
    (void)model, (void)options, (void)context;
    return 0;
}

const struct method method_null = {
    .name = "null",
    .summary = "no gradient; can fail, hang, crash, end or run out of memory to test the harness",
    .source = "longbp",
    .options = {option_rows, sizeof(struct null_options)},
    .no_gradient = true,
    .by_layer = true,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE | PARALLEL_SEQUENCE,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
