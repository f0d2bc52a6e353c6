#include "harness/plan/planned_step.h"
#include "harness/plan/rank_times.h"
#include "harness/plan/rank_traces.h"
#include "harness/step/largest_block.h"
#include "harness/step/ranks_possible.h"
#include "harness/train/train.h"
#include <math.h>
#include <string.h>

#define NOMINAL                                                                                                    \
    (struct roofline)                                                                                              \
    {                                                                                                              \
        .flops_per_s = 1e14, .bytes_per_s = 1e12, .launch_s = 5e-6, .link_bytes_per_s = 2.5e10                     \
    }

void planned_memos_open(struct planned_memos *memos)
{
    *memos = (struct planned_memos){.steps = memo_new(), .bounds = memo_new()};
}

void planned_memos_close(struct planned_memos *memos)
{
    memo_free(memos->steps);
    memo_free(memos->bounds);
    if (memos->train)
        train_close(memos->train);
    free(memos->train);
    *memos = (struct planned_memos){0};
}

void planned_roofline(const struct trial *trial, struct roofline *roofline)
{
    struct status why = {0};
    *roofline = NOMINAL;
    if (trial->profile)
        CHECK(profile_roofline(trial->profile, trial->dtype, roofline, &why)); // checked when it was decoded
}

struct estimate_range estimate_range_of(const struct trial *trial)
{
    const struct rates *rates = trial->profile ? &trial->profile->rates[trial->dtype] : NULL;
    const char *source = rates ? profile_estimate_source(trial->profile, trial->dtype) : "nominal rates";
    if (rates && !rates->scaled)
        return (struct estimate_range){rates->low, rates->high, rates->high / rates->low, source, true};
    return (struct estimate_range){SCALED_LOW, SCALED_HIGH, SCALED_APART, source, false};
}

bool estimates_tell_apart(struct estimate_range range, double a_seconds, double b_seconds)
{
    return fmax(a_seconds, b_seconds) > fmin(a_seconds, b_seconds) * range.apart;
}

// The ranks' interconnect; NULL: too many events to time.
static const struct interconnect *planned_interconnect(const struct trial *trial)
{
    static const struct interconnect nominal = {
        .count = 1, .levels = {{.bytes_per_s = {.value = 2.5e10}, .latency_s = {.value = 1e-5}}}};
    static const struct interconnect unknown = {.count = 1, .levels = {{.bytes_per_s = {.value = INFINITY}}}};
    const struct interconnect *known = trial_interconnect(trial);
    return !trial_times_ranks(trial) ? NULL : known ? known : trial->profile ? &unknown : &nominal;
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

// The same rules, but every operation runs at once.
static struct device_rules at_once(const struct device_rules *rules)
{
    struct device_rules own = *rules;
    own.attention_backward_workspace = no_workspace;
    own.block_rows = all_rows;
    own.elements_max = 0;
    return own;
}

#define ROUNDING 1e-9 // sums are rounded in another order than the step's

// Time of a step in which no queue waits.
static double bound_s(const struct device *device)
{
    const struct counters *counters = &device->counters;
    double out = counters->link_bytes[QUEUE_OUT], in = counters->link_bytes[QUEUE_IN], max = fmax(out, in);
    double link_s = max > 0 ? max / device->roofline.link_bytes_per_s : 0;
    double seconds = fmax(counters->estimate_s, link_s);
    return (1 - ROUNDING) * rates_limited_s(device->roofline.rates, seconds, counters->flops);
}

// Inputs and results of planning a step.
struct plan {
    struct trial trial; // borrowed, except the options: those of the largest draw
    bool bound;
    struct planned_limits limits;
    struct planned_memos *memos;
    struct setup setup;
    struct device_ops ops; // for a bound
    struct device_rules rules;
    struct planned_step *step;
    bool ran;            // a failure is then lack of memory, or a size that the device does not support
    struct trace *trace; // communication of a rank; NULL: not recorded
    double *flops;       // [ranks] of those that ran
};

// The optimizer of a training run steps without its batch.
static void close_batch(struct training_step *step)
{
    setup_close_batch(step->caller);
}

static void take_step(struct plan *plan)
{
    const struct trial *trial = &plan->trial;
    struct device *device = plan->setup.device;
    struct step_report report = {0};
    if (plan->bound) {
        plan->ops = *device->ops;
        plan->rules = at_once(plan->ops.rules);
        plan->ops.rules = &plan->rules;
        device->ops = &plan->ops;
        device->memo = plan->memos->bounds;
        device->roofline.min = true;
    }
    device->counters = (struct counters){0};
    if (plan->trace)
        trace_begin(plan->trace);
    struct training_step step = setup_update(&plan->setup, trial, 1);
    step.close = trial->train.steps ? close_batch : NULL;
    step.caller = &plan->setup;
    training_step_take(&step, &report);
    step_report_free(&report);
}

// The training run of the trial's step; NULL and a status if its data cannot be read.
static const struct train *train_of(struct planned_memos *memos, const struct trial *trial, struct status *status)
{
    struct world alone;
    if (memos->train)
        return memos->train;
    world_open_alone(&alone);
    CHECK(memos->train = calloc(1, sizeof *memos->train));
    if (train_open(memos->train, trial, &alone, true, status))
        return memos->train;
    train_close(memos->train);
    free(memos->train);
    memos->train = NULL;
    return NULL;
}

// Runs all shapes of the training run but the first, and leaves the first one's batch in the setup. Peaks are the
// run's, which does not use the setup's original batch.
static bool run_shapes(struct plan *plan, struct status *status)
{
    struct setup *setup = &plan->setup;
    struct step_report report = {0};
    const struct train *shared = train_of(plan->memos, &plan->trial, status);
    if (!shared)
        return false;
    struct train train = train_like(shared, &plan->trial, setup);
    const struct train_shapes *shapes = &train.shapes;
    arena_reset_peak(&setup->device->arena);
    arena_reset_peak(&setup->device->host);
    for (size_t i = 1; i < shapes->count && !plan->bound && setup->device->status.code == STATUS_OK; i++)
        if (!train_run_shape(&train, &shapes->items[i], &report, status))
            return false;
    step_report_free(&report);
    return train_open_shape(&train, &shapes->items[0], status);
}

static struct setup_options options_within(const struct trial *trial, struct planned_limits limits)
{
    struct setup_options how = setup_options_planned(trial);
    how.memory_limit_bytes = limits.device_bytes == NO_LIMIT ? 0 : limits.device_bytes;
    how.host_memory_limit_bytes = limits.host_bytes ? limits.host_bytes : ARENA_LIMIT_NOTHING;
    return how;
}

// Plans one rank, or a whole trial without ranks.
static struct planned_step plan_rank(struct plan *plan, const struct comm *comm)
{
    const struct trial *trial = &plan->trial;
    struct planned_step step = {0};
    struct setup_options how = options_within(trial, plan->limits);
    how.ranks = comm;
    setup_close(&plan->setup);
    if (!setup_open(&plan->setup, trial, &how, &step.why))
        return step;
    struct device *device = plan->setup.device;
    planned_roofline(trial, &device->roofline);
    device->memo = plan->memos->steps;
    largest_block_activate(&plan->setup, trial);
    if (trial->train.steps && !run_shapes(plan, &step.why))
        return step;
    size_t context = plan->setup.batch.context;
    if (trial->method->lower_bound_bytes_per_token && !trial->framework) {
        const struct model *model = &plan->setup.model;
        double bytes = trial->method->lower_bound_bytes_per_token(model, trial->options, context);
        step.lower_bound_bytes_per_token = step.further_bytes_per_token = bytes;
        if (plan->bound && trial->method->exact)
            step.further_bytes_per_token =
                2 * trial->method->lower_bound_bytes_per_token(model, trial->options, 2 * context) - bytes;
    }
    step.tokens = context * plan->setup.batch.batch;
    step.resident_bytes = device->arena.live_bytes;
    step.host_resident_bytes = device->host.live_bytes;
    step.lower_bound_bytes = step.resident_bytes + (size_t)(step.lower_bound_bytes_per_token * (double)step.tokens);
    take_step(plan);
    plan->ran = true;
    step.why = device->status;
    step.peak_bytes = plan->bound ? step.lower_bound_bytes : device->arena.peak_bytes;
    memcpy(step.peak_by_category, device->arena.peak_by_category, sizeof step.peak_by_category);
    step.host_peak_bytes = device->host.peak_bytes;
    if (plan->bound && config_max_window(&trial->config) > 0) // gradients that slide are fewer in smaller chunks
        step.host_peak_bytes -= device->host.peak_by_category[CATEGORY_KV_GRADIENTS];
    step.seconds = trial->framework ? NAN : plan->bound ? bound_s(device) : device_estimate_s(device);
    step.flops = device->counters.flops;
    return step;
}

static bool is_fine(const struct planned_step *step)
{
    return step->why.code == STATUS_OK;
}

// Combines steps: maximum bytes per place, and the longest time; a failure stands for all.
static void add_step(struct planned_step *all, const struct planned_step *own)
{
    size_t host_bytes = own->host_peak_bytes > all->host_peak_bytes ? own->host_peak_bytes : all->host_peak_bytes;
    double seconds = fmax(own->seconds, all->seconds);
    if (!is_fine(own) || own->peak_bytes >= all->peak_bytes)
        *all = *own;
    if (!is_fine(own))
        return;
    all->host_peak_bytes = host_bytes;
    all->seconds = seconds;
}

static const struct setup *trace_rank(void *tracer, struct comm comm, struct trace *traces)
{
    struct plan *plan = tracer;
    struct planned_step *all = plan->step;
    comm.trace = plan->trace = traces;
    struct planned_step own = plan_rank(plan, &comm);
    add_step(all, &own);
    if (!is_fine(&own))
        return NULL;
    plan->flops[comm.rank] = own.flops;
    if (traces)
        trace_end(traces, plan->setup.device);
    return &plan->setup;
}

static void plan_ranks(struct plan *plan)
{
    struct planned_step *step = plan->step;
    struct rank_traces traced = {.trial = &plan->trial,
                                 .interconnect = planned_interconnect(&plan->trial),
                                 .samples = 1,
                                 .trace = trace_rank,
                                 .tracer = plan};
    size_t count = trial_ranks(&plan->trial);
    plan->flops = calloc(count, sizeof *plan->flops);
    double *busy_s = calloc(count, sizeof *busy_s);
    if (rank_traces_open(&traced)) {
        step->flops = 0;
        for (size_t rank = 0; rank < count; rank++)
            step->flops += plan->flops[traced.source[rank]];
        if (traced.interconnect)
            rank_traces_time(&traced, 0, &step->seconds, busy_s, &step->why);
    }
    rank_traces_close(&traced);
    free(busy_s);
    free(plan->flops);
}

// Bounds a stage's first rank. Without overlap its waits for collectives do not depend on chunk sizes.
static struct planned_step bound_rank(struct plan *plan, size_t rank)
{
    struct comm comm = comm_planned(rank, trial_ranks(&plan->trial));
    const struct interconnect *interconnect =
        plan->trial.parallel.overlap ? NULL : planned_interconnect(&plan->trial);
    struct trace trace = {0};
    comm.trace = plan->trace = interconnect ? &trace : NULL;
    struct planned_step step = plan_rank(plan, &comm);
    if (interconnect)
        step.seconds += (1 - ROUNDING) * rank_waits_min_s(&trace, rank, interconnect);
    trace_free(&trace);
    plan->trace = NULL;
    return step;
}

// Averages over the first rank of each stage: a lower bound of the maximum.
static void bound_stages(struct plan *plan)
{
    const struct parallel *parallel = &plan->trial.parallel;
    struct planned_step *mean = plan->step;
    CHECK(parallel->stage > 0);
    for (size_t stage = 0; stage < parallel->stage && is_fine(mean); stage++) {
        struct planned_step own = bound_rank(plan, stage * parallel->data * parallel->sequence);
        mean->why = own.why;
        mean->tokens = own.tokens;
        mean->seconds = fmax(mean->seconds, own.seconds);
        mean->lower_bound_bytes_per_token += own.lower_bound_bytes_per_token / (double)parallel->stage;
        mean->further_bytes_per_token += own.further_bytes_per_token / (double)parallel->stage;
        mean->resident_bytes += own.resident_bytes;
        mean->host_resident_bytes += own.host_resident_bytes;
        mean->lower_bound_bytes += own.lower_bound_bytes;
        mean->host_peak_bytes += own.host_peak_bytes;
    }
    size_t *const bytes[] = {&mean->resident_bytes, &mean->host_resident_bytes, &mean->lower_bound_bytes,
                             &mean->host_peak_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        *bytes[i] /= parallel->stage;
    mean->peak_bytes = mean->lower_bound_bytes;
}

// Tells whether the method accepts these options, and ranks can share it; otherwise it is no candidate.
static bool is_possible(const struct trial *trial, struct status *why)
{
    const struct method *method = trial->method;
    struct status status = {0};
    return ((!method->check || method->check(trial->options, &trial->config, trial_row_tokens(trial), &status)) &&
            ranks_fit(trial, &status)) ||
           status_set(why, STATUS_BAD_INPUT, "%s", status.message);
}

// Selects draw `index` of the candidates for the maximum memory. Returns false if there is none.
static bool take_draw(struct plan *plan, const void *options, size_t index)
{
    const struct method *method = plan->trial.method;
    options_free(&method->options, plan->trial.options);
    plan->trial.options = options_copy(&method->options, options);
    return method->largest_draw ? method->largest_draw(plan->trial.options, &plan->trial.config,
                                                       trial_row_tokens(&plan->trial), index)
                                : index == 0;
}

static void plan_draw(struct plan *plan)
{
    *plan->step = (struct planned_step){0};
    if (trial_ranks(&plan->trial) == 1)
        *plan->step = plan_rank(plan, NULL);
    else if (plan->bound)
        bound_stages(plan);
    else
        plan_ranks(plan);
}

// The first one bounds them all.
static void plan_draws(struct plan *plan, const void *options)
{
    struct planned_step all = {0};
    for (size_t i = 0; is_fine(&all) && (i == 0 || !plan->bound) && take_draw(plan, options, i); i++) {
        plan_draw(plan);
        add_step(&all, plan->step);
    }
    *plan->step = all;
}

static bool plan(struct planned_step *step, const struct trial *trial, const void *options,
                 struct planned_limits limits, bool bound, struct planned_memos *memos, struct status *status)
{
    const struct method *method = trial->method;
    struct plan plan = {.trial = *trial, .bound = bound, .limits = limits, .memos = memos, .step = step};
    *step = (struct planned_step){0};
    plan.trial.options = options_copy(&method->options, options);
    bool possible = is_possible(&plan.trial, &step->why);
    if (possible)
        plan_draws(&plan, options);
    setup_close(&plan.setup);
    options_free(&method->options, plan.trial.options);
    step->fits = is_fine(step);
    return !possible || plan.ran || step->why.code == STATUS_OOM ||
           status_set(status, step->why.code, "%s", step->why.message);
}

bool planned_step(struct planned_step *step, const struct trial *trial, const void *options,
                  struct planned_limits limits, struct planned_memos *memos, struct status *status)
{
    return plan(step, trial, options, limits, false, memos, status);
}

bool planned_bound(struct planned_step *bound, const struct trial *trial, const void *options,
                   struct planned_memos *memos, struct status *status)
{
    return plan(bound, trial, options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, true, memos, status);
}
