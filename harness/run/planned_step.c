#include "harness/run/planned_step.h"
#include "harness/run/largest_turn.h"
#include <math.h>
#include <string.h>

#define NOMINAL                                                                                                    \
    (struct roofline)                                                                                              \
    {                                                                                                              \
        .flops_per_s = 1e14, .bytes_per_s = 1e12, .launch_s = 5e-6, .link_bytes_per_s = 2.5e10                     \
    }

void planned_memos_open(struct planned_memos *memos)
{
    *memos = (struct planned_memos){memo_new(), memo_new()};
}

void planned_memos_close(struct planned_memos *memos)
{
    memo_free(memos->steps);
    memo_free(memos->bounds);
    *memos = (struct planned_memos){0};
}

void planned_roofline(const struct trial *trial, struct roofline *roofline)
{
    struct status why = {0};
    *roofline = NOMINAL;
    if (trial->profile)
        CHECK(profile_roofline(trial->profile, trial->dtype, roofline, &why)); // checked when it was decoded
}

static size_t all_rows(const struct device *device, size_t cols)
{
    (void)device, (void)cols;
    return SIZE_MAX;
}

static size_t no_workspace(const struct device *device, struct attention_shape shape,
                           const struct key_segment *segments, size_t segment_count)
{
    (void)device, (void)shape, (void)segments, (void)segment_count;
    return 0;
}

// The same rules, but that every operation runs at once.
static struct device_rules at_once(const struct device_rules *rules)
{
    struct device_rules own = *rules;
    own.attention_backward_workspace = no_workspace;
    own.attention_backward_glue = NULL; // of blocks, and no part of the time
    own.block_rows = all_rows;
    own.elements_max = 0;
    return own;
}

// No operation is faster, at whatever shape.
static void bound_roofline(struct roofline *roofline)
{
    if (!roofline->rates)
        return;
    roofline->flops_per_s = fmax(roofline->flops_per_s, rates_peak(roofline->rates, true));
    roofline->bytes_per_s = fmax(roofline->bytes_per_s, rates_peak(roofline->rates, false));
    roofline->launch_s = 0;
    roofline->rates = NULL;
}

// Of a step of which no queue waits. Sums are rounded in another order than a step's own.
static double bound_s(const struct device *device)
{
    const struct counters *counters = &device->counters;
    double out = counters->link_bytes[QUEUE_OUT], in = counters->link_bytes[QUEUE_IN], most = fmax(out, in);
    double link_s = most > 0 ? most / device->roofline.link_bytes_per_s : 0;
    return (1 - 1e-9) * fmax(counters->estimate_s, link_s);
}

static void walk(struct planned_step *step, const struct trial *trial, const void *options, struct setup *setup,
                 bool bound)
{
    struct device *device = setup->device;
    struct step_report report = {0};
    planned_roofline(trial, &device->roofline);
    if (bound)
        bound_roofline(&device->roofline);
    device->counters = (struct counters){0};
    if (trial->optimizer)
        optimizer_begin_again(&setup->model, 1, 1);
    model_zero_gradients(&setup->model);
    method_step(trial->method, &setup->model, &setup->batch, options, &report);
    if (trial->optimizer)
        optimizer_step(&setup->model);
    step_report_free(&report);
    step->peak_bytes = device->arena.peak_bytes;
    memcpy(step->peak_by_category, device->arena.peak_by_category, sizeof step->peak_by_category);
    step->host_peak_bytes = device->host.peak_bytes;
    step->seconds = bound ? bound_s(device) : counters_clock_s(&device->counters);
    step->flops = device->counters.flops;
}

static bool plan(struct planned_step *step, const struct trial *trial, size_t rank, const void *options,
                 struct planned_limits limits, bool bound, struct planned_memos *memos, struct status *status)
{
    const struct method *method = trial->method;
    *step = (struct planned_step){0};
    if (method->check && !method->check(options, &trial->config, trial_row_tokens(trial), &step->why))
        return true;
    struct setup setup;
    struct setup_options how = setup_options_planned(trial);
    how.memory_limit_bytes = limits.device_bytes == NO_LIMIT ? 0 : limits.device_bytes;
    how.host_memory_limit_bytes = limits.host_bytes ? limits.host_bytes : 1; // an arena's 0 is no limit
    void *own = options_copy(&method->options, options);                     // of the largest draw
    struct device_ops ops;
    struct device_rules rules;
    bool walked = false; // then it is memory that is too little, or a size that the device does not take
    if (method->largest_draw)
        method->largest_draw(own, trial_row_tokens(trial));
    struct comm comm = comm_planned(rank, trial_ranks(trial));
    how.ranks = comm.size > 1 ? &comm : NULL;
    if (setup_open(&setup, trial, &how, &step->why)) {
        largest_turn_give(&setup, trial, own, memos->steps);
        size_t resident = setup.device->arena.live_bytes, context = setup.batch.context;
        if (method->floor_bytes_per_token)
            step->floor_bytes_per_token = method->floor_bytes_per_token(&setup.model, own, context);
        step->tokens = context * setup.batch.batch;
        step->host_resident_bytes = setup.device->host.live_bytes;
        step->resident_bytes = resident;
        step->floor_bytes = resident + (size_t)(step->floor_bytes_per_token * (double)step->tokens);
        if (bound) {
            ops = *setup.device->ops;
            rules = at_once(ops.rules);
            ops.rules = &rules;
            setup.device->ops = &ops;
        }
        setup.device->memo = bound ? memos->bounds : memos->steps;
        walk(step, trial, own, &setup, bound);
        step->why = setup.device->status;
        walked = true;
        if (bound)
            step->peak_bytes = step->floor_bytes;
    }
    setup_close(&setup);
    options_free(&method->options, own);
    step->fits = step->why.code == STATUS_OK;
    return walked || step->why.code == STATUS_OOM || status_set(status, step->why.code, "%s", step->why.message);
}

bool planned_step(struct planned_step *step, const struct trial *trial, const void *options,
                  struct planned_limits limits, struct planned_memos *memos, struct status *status)
{
    return plan(step, trial, 0, options, limits, false, memos, status);
}

// The first rank of each stage: no replica of it takes more.
bool planned_stages(struct planned_step *largest, const struct trial *trial, const void *options,
                    struct planned_limits limits, struct status *status)
{
    size_t replicas = trial_ranks(trial) / trial->parallel.stage;
    bool fine = true;
    *largest = (struct planned_step){.fits = true};
    for (size_t stage = 0; fine && largest->fits && stage < trial->parallel.stage; stage++) {
        struct planned_memos memos; // a stage's cells may be of other layers
        struct planned_step step;
        planned_memos_open(&memos);
        fine = plan(&step, trial, stage * replicas, options, limits, false, &memos, status);
        planned_memos_close(&memos);
        if (fine && (!step.fits || step.peak_bytes > largest->peak_bytes))
            *largest = step;
    }
    return fine;
}

bool planned_bound(struct planned_step *bound, const struct trial *trial, const void *options,
                   struct planned_memos *memos, struct status *status)
{
    return plan(bound, trial, 0, options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, true, memos, status);
}
