// Command: `longbp plan`, the exact bytes, FLOPs, traffic and launches of a step on a device that need not be
// present, and with a profile an estimate of its time.
#include "harness/files/output_file.h"
#include "harness/options/command.h"
#include "harness/options/plan_flags.h"
#include "harness/options/shell.h"
#include "harness/plan/choice.h"
#include "harness/plan/planned_step.h"
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include "harness/report/category_report.h"
#include "harness/spec/trial_text.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include "harness/trial/trial_run.h"
#include <math.h>
#include <string.h>

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without[] = {"train",         "device", "seed",         "labels", "reference",
                                      "deterministic", "tf32",   "memory_limit", NULL};

struct arguments {
    struct plan_flags flags;
    const char *timeline;
    bool categories;
};

static const struct flag own_flags[] = {
    PLAN_FLAG_LIKE,
    PLAN_FLAG_FROM,
    PLAN_FLAG_MEMORY_LIMIT,
    PLAN_FLAG_RESERVE,
    {"timeline", TEXT_AT(struct arguments, timeline), .arg = "FILE",
     .doc = "write the record with the live bytes over the step to FILE, for `longbp plot` (none)"},
    {"categories", SET_AT(struct arguments, categories),
     .doc = "print the step's operations by category, GEMM by shape; with a profile their time"},
    PLAN_FLAG_JSON(": the record, and whether it fits"),
    {0}};

// The planned step.
struct plan {
    struct trial trial;
    char *line; // the record as a sweep would write it
    struct record record;
    struct interned interned;             // storage of borrowed texts
    size_t limit_bytes, host_limit_bytes; // 0: none
    size_t largest_draw_bytes;            // exceeded by one draw in a million; 0: nothing is drawn
    char limit_what[PLAN_LIMIT_BYTES];
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    return plan_flags_parse(&arguments->flags, key, text, state);
}

// Missing bytes of a peak (NaN: 0) under a limit (0: none).
static double missing(double peak, size_t limit)
{
    return limit > 0 && peak > (double)limit ? peak - (double)limit : 0;
}

// The maximum memory over the steps, which may draw different chunks.
static double max_bytes(const struct plan *plan)
{
    return fmax(plan->record.peak_bytes, (double)plan->largest_draw_bytes);
}

static bool fits(const struct plan *plan)
{
    return missing(max_bytes(plan), plan->limit_bytes) == 0 &&
           missing(plan->record.host_peak_bytes, plan->host_limit_bytes) == 0;
}

// Writes the record as JSON Lines, as a sweep of one trial would.
static bool write_timeline(const struct plan *plan, const char *path, struct status *status)
{
    char *text = text_new("%s\n", plan->line);
    bool written = output_file_write(path, text, strlen(text), status);
    free(text);
    return written;
}

static bool plan_largest_draw(struct plan *plan, struct status *status)
{
    struct planned_memos memos;
    struct planned_step step;
    if (plan->record.sample_chunks.count == 0)
        return true;
    planned_memos_open(&memos);
    bool planned = planned_step(&step, &plan->trial, plan->trial.options,
                                (struct planned_limits){NO_LIMIT, NO_LIMIT}, &memos, status);
    planned_memos_close(&memos);
    plan->largest_draw_bytes = planned ? step.peak_bytes : 0;
    return planned;
}

// Above this many chunks over all layers, each planned separately, a message says that it takes long.
#define CHUNKS_UNTOLD 2e6

static void tell_long(const struct trial *trial)
{
    size_t chunk = options_count(&trial->method->options, trial->options, "chunk", 0),
           layers = trial->config.layers;
    double chunks = chunk ? ceil((double)trial->context / (double)chunk) : 0;
    if (chunks * (double)layers > CHUNKS_UNTOLD)
        fprintf(stderr,
                "longbp: planning %.0f chunks in each of %zu layers one by one takes seconds to minutes; a larger "
                "--chunk than %zu takes less\n",
                chunks, layers, chunk);
}

// Plans without limits, to tell how much memory is missing.
static bool make(struct arguments *arguments, const char *command, struct plan *plan, struct status *status)
{
    json_t *trial = arguments->flags.trial.trial;
    json_object_set_new(
        trial, "measure",
        json_pack("{s:b, s:b}", "timeline", arguments->timeline != NULL, "categories", arguments->categories));
    if (!trial_flags_decode(&arguments->flags.trial, NULL, &plan->trial, status) ||
        !plan_flags_limit(&arguments->flags, &plan->trial, &plan->limit_bytes, plan->limit_what,
                          sizeof plan->limit_what, status))
        return false;
    if (arguments->categories && plan->trial.framework)
        return status_set(status, STATUS_BAD_INPUT,
                          "--categories: operations are timed by this program's kernels, and this step is of "
                          "transformers; leave it out");
    plan->host_limit_bytes = plan->trial.host_memory_limit_bytes;
    if (!choose_method(
            &plan->trial,
            (struct planned_limits){plan->limit_bytes ? plan->limit_bytes : NO_LIMIT, plan->host_limit_bytes},
            status))
        return false;
    plan->trial.host_memory_limit_bytes = 0;
    tell_long(&plan->trial);
    plan->trial.experiment = "plan";
    plan->trial.command = command;
    plan->trial.unchecked = arguments->flags.unchecked;
    plan->line = trial_run(&plan->trial, -1);
    if (!record_read(&plan->record, plan->line, strlen(plan->line), &plan->interned, "plan", status))
        return false;
    if (plan->record.status == RECORD_OK)
        return plan_largest_draw(plan, status) &&
               (!arguments->timeline || write_timeline(plan, arguments->timeline, status));
    return status_set(status, plan->record.status == RECORD_UNSUPPORTED ? STATUS_BAD_INPUT : STATUS_FAILED, "%s",
                      plan->record.reason);
}

static void print_bytes(const char *what, size_t bytes, const char *note)
{
    char text[32];
    size_text(bytes, text, sizeof text);
    printf("  %-20s %12s %16zu%s%s\n", what, text, bytes, *note ? "  " : "", note);
}

// key: the trial's key for the limit.
static void print_limit(size_t limit, const char *what, size_t peak, const char *key)
{
    bool enough = peak <= limit;
    print_bytes("limit", limit, what);
    print_bytes(enough ? "fits, to spare" : "does not fit, short", enough ? limit - peak : peak - limit,
                enough ? "" : key);
}

// Prints host memory and the traffic over the host link.
static void print_host(const struct plan *plan)
{
    const struct record *record = &plan->record;
    bool kept = record->host_peak_bytes > 0;
    size_t peak = kept ? (size_t)record->host_peak_bytes : 0;
    if (kept || plan->host_limit_bytes)
        print_bytes("peak on the host", peak, "");
    if (plan->host_limit_bytes)
        print_limit(plan->host_limit_bytes, "--host-memory", peak, "limits.host_memory");
    if (!kept)
        return;
    print_bytes("copied to the host", isnan(record->link_out_bytes) ? 0 : (size_t)record->link_out_bytes, "");
    print_bytes("copied back", isnan(record->link_in_bytes) ? 0 : (size_t)record->link_in_bytes, "");
}

static void print_ranks(const struct plan *plan)
{
    const struct record_ranks *ranks = plan->record.ranks;
    bool timed = ranks->idle_share.count > 0;
    size_t first = 0;
    printf("ranks\n  %-15s %16s %16s %16s %10s%s\n", "rank", "peak bytes", "sent bytes", "received bytes",
           "messages", timed ? "  idle (estimate)" : "");
    for (size_t i = 0; i < ranks->peak_bytes.count; i++) {
        size_t alike = ranks->alike.count ? (size_t)ranks->alike.items[i] : 1;
        char name[32];
        snprintf(name, sizeof name, alike > 1 ? "%zu-%zu" : "%zu", first, first + alike - 1);
        printf("  %-15s %16.0f %16.0f %16.0f %10.0f", name, ranks->peak_bytes.items[i], ranks->sent_bytes.items[i],
               ranks->received_bytes.items[i], ranks->messages.items[i]);
        if (timed)
            printf("  %.1f %%", 100 * ranks->idle_share.items[i]);
        putchar('\n');
        first += alike;
    }
}

static void print_time(const struct plan *plan)
{
    const char *profile = plan->trial.profile->name;
    size_t draws = plan->record.sample_chunks.count;
    char mean[64] = "";
    if (draws > 1)
        snprintf(mean, sizeof mean, ", mean of %zu draws", draws);
    const struct interconnect *interconnect = plan->record.ranks->given ? trial_interconnect(&plan->trial) : NULL;
    if (plan->record.ranks->given && !trial_times_ranks(&plan->trial))
        printf("  %-20s %12s    none is estimated of more than %d ranks whose keys and values go round\n", "time",
               "unknown", RING_RANKS_TIMED);
    else if (plan->record.ranks->given && !interconnect)
        printf("  %-20s %12s    profile %s has no interconnect between so many ranks; --interconnect names one\n",
               "time", "unknown", profile);
    else if (isnan(plan->record.estimate_ms))
        printf("  %-20s %12s    profile %s has no host_link_bytes_per_s\n", "time", "unknown", profile);
    else
        printf("  %-20s %12.4g s  from %.4g to %.4g: estimate (%s, profile %s%s%s%s)\n", "time",
               plan->record.estimate_ms / 1e3, plan->record.estimate_low_ms / 1e3,
               plan->record.estimate_high_ms / 1e3, plan->record.estimate, profile,
               interconnect ? ", interconnect " : "", interconnect ? interconnect->name : "", mean);
}

// Prints the method's lower bound, which another framework's step has not.
static void print_bound(const struct record *record)
{
    char text[512];
    if (isnan(record->lower_bound_bytes))
        return;
    snprintf(text, sizeof text, "resident + %.0f per token of context and sequence",
             record->lower_bound_bytes_per_token);
    print_bytes("lower bound", (size_t)record->lower_bound_bytes, text);
}

static void print_work(const struct record *record)
{
    printf("work\n  %-20s %12.4g  %.3f of the model FLOPs\n", "counted FLOPs", record->flops,
           record->flops / record->model_flops);
    if (isnan(record->launches))
        return;
    printf("  %-20s %12.4g\n", "bytes moved", record->bytes_moved);
    if (record->attention_glue_bytes > 0)
        printf("  %-20s %12.4g  bytes besides, between the blocks of attention\n", "attention's glue",
               record->attention_glue_bytes);
    printf("  %-20s %12.0f\n", "launches", record->launches);
}

// Prints whose step it is, how far it was checked, and that its time is unknown.
// The verdict of the reserved bytes on a limit; NULL: there is none.
static const char *verdict(const struct plan *plan)
{
    const struct record_framework *framework = plan->record.framework;
    struct framework_reserved reserved = {(size_t)framework->reserved_low_bytes,
                                          (size_t)framework->reserved_high_bytes};
    return plan->limit_bytes ? framework_verdict((size_t)plan->record.peak_bytes, reserved, plan->limit_bytes)
                             : NULL;
}

static void print_reserved(const struct plan *plan)
{
    const struct record_framework *framework = plan->record.framework;
    char low[32], high[32];
    size_text((size_t)framework->reserved_low_bytes, low, sizeof low);
    size_text((size_t)framework->reserved_high_bytes, high, sizeof high);
    printf("  %-20s %s to %s  by PyTorch's allocator, simulated, to 1.3 times the peak; a context is beside it\n",
           "reserved", low, high);
    if (verdict(plan))
        printf("  %-20s %s, by the reserved bytes\n", "limit", verdict(plan));
}

static void print_framework(const struct plan *plan)
{
    const struct record_framework *framework = plan->record.framework;
    printf("framework\n  %-20s %s, PyTorch %s, checked %s\n", framework->name, framework->version, framework->torch,
           framework->checked);
    printf("  %-20s %s, %s\n", "peak", framework->peak_moment, framework->peak_operation);
    for (size_t i = 0; i < json_array_size(framework->unchecked); i++)
        printf("  %-20s %s\n", i ? "" : "not checked", json_string_value(json_array_get(framework->unchecked, i)));
    print_reserved(plan);
    printf("  %-20s unknown: its operations' times were not measured\n", "time");
}

static void print_table(const struct plan *plan)
{
    const struct record *record = &plan->record;
    char text[512];
    trial_text(&plan->trial, NULL, text, sizeof text);
    printf("%s\nbytes at the peak\n", text);
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        double bytes = record->peak_by_category[i];
        if (bytes > 0)
            print_bytes(category_name((enum category)i), (size_t)bytes, "");
    }
    size_t peak = (size_t)record->peak_bytes;
    size_t drawn = record->drawn_chunks.count;
    *text = 0;
    if (record->peak_over_bound > 0)
        snprintf(text, sizeof text, "%.4f of the lower bound", record->peak_over_bound);
    print_bytes("peak", peak, text);
    if (plan->largest_draw_bytes)
        print_bytes("largest draw", plan->largest_draw_bytes, "the largest draw, exceeded by one in a million");
    print_bytes("resident", (size_t)record->resident_bytes, "before the step");
    print_bound(record);
    if (plan->limit_bytes)
        print_limit(plan->limit_bytes, plan->limit_what, (size_t)max_bytes(plan), "limits.memory");
    print_host(plan);
    if (plan->largest_draw_bytes)
        printf("  all but the largest draw and the time is of the draw of --sampler-seed, of %zu chunk%s\n", drawn,
               drawn == 1 ? "" : "s");
    print_work(record);
    if (plan->trial.framework)
        print_framework(plan);
    else if (plan->trial.profile)
        print_time(plan);
    if (plan->record.ranks->given)
        print_ranks(plan);
    if (plan->trial.measure.categories) {
        putchar('\n');
        category_report_table(&(struct category_report){.operations = true}, record, stdout);
    }
}

static void set_limit(json_t *object, const char *limit_name, const char *missing_name, double peak, size_t limit)
{
    json_object_set_new(object, limit_name, limit ? json_integer((json_int_t)limit) : json_null());
    json_object_set_new(object, missing_name, limit ? json_integer((json_int_t)missing(peak, limit)) : json_null());
}

// Prints the record without its time line, and values known only to this command.
static void print_json(const struct plan *plan)
{
    json_t *object = record_json(&plan->record);
    bool limited = plan->limit_bytes || plan->host_limit_bytes;
    json_object_set_new(object, "timeline", json_null());
    if (plan->largest_draw_bytes)
        json_object_set_new(object, "largest_draw_bytes", json_integer((json_int_t)plan->largest_draw_bytes));
    set_limit(object, "limit_bytes", "missing_bytes", max_bytes(plan), plan->limit_bytes);
    set_limit(object, "host_limit_bytes", "host_missing_bytes", plan->record.host_peak_bytes,
              plan->host_limit_bytes);
    if (plan->trial.framework && plan->limit_bytes)
        json_object_set_new(object, "verdict", json_string(verdict(plan)));
    json_object_set_new(object, "fits", limited ? json_boolean(fits(plan)) : json_null());
    command_print(object, JSON_INDENT(2));
}

int command_plan(int argc, char **argv)
{
    char *command = shell_line(argc, argv);
    struct arguments arguments = {0};
    plan_flags_open(&arguments.flags, NEEDS_CONTEXT, without, own_flags,
                    "no limit; with --method auto nothing is offloaded");
    const struct argp argp = {
        .options = arguments.flags.trial.options,
        .parser = parse,
        .doc =
            "Runs one step without data: its peak bytes, FLOPs, bytes moved and launches are exact, on any machine "
            "and for any card.\vTimes are estimates with a range: each operation takes the longer of its FLOPs' "
            "and its bytes' time at the rate of its shape, and a launch; the card's power limit may lengthen the "
            "step. The rates are the profile's own if they were measured, otherwise those of h200-141g scaled by "
            "the ratio of the two cards' peaks. If chunks are drawn, the time is a mean over draws, and everything "
            "else is for the draw of --sampler-seed; the largest draw decides what fits. A step that does not fit "
            "is a result, with exit code 0; if --method auto finds nothing that fits, the exit code is 1."};
    struct status status = {0};
    struct plan plan = {0};
    arguments_parse(&argp, own_flags, argc, argv, &arguments);
    bool done = make(&arguments, command, &plan, &status);
    command_end(argv[0], &status);
    if (done)
        (arguments.flags.json ? print_json : print_table)(&plan);
    interned_free(&plan.interned);
    free(plan.line);
    trial_free(&plan.trial);
    plan_flags_close(&arguments.flags);
    free(command);
    bool failed = status.code == STATUS_FAILED || status.code == STATUS_OOM;
    return done ? EXIT_FINE : failed ? EXIT_CHECK_FAILED : EXIT_BAD_INPUT;
}
