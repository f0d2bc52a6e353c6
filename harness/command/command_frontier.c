// Command: `longbp frontier`, the longest context against device and host memory, for each method with its best
// options, and over all methods.
#include "harness/options/command.h"
#include "harness/options/search_records.h"
#include "harness/plan/longest.h"
#include "harness/sweep/progress.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include <math.h>
#include <string.h>

#define SIZES_MAX 16

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without[] = {"train",       "device",        "context",  "seed",         "labels",
                                      "reference",   "profile",       "method",   "tf32",         "memory_limit",
                                      "host_memory", "deterministic", "parallel", "interconnect", NULL};

struct arguments {
    struct plan_flags flags;
    const char *device, *host;
};

static const struct flag own_flags[] = {
    {.name = "methods",
     .flags = OPTION_FIRST,
     TEXT_AT(struct plan_flags, methods),
     .arg = "all|METHOD,METHOD",
     .doc = "which methods (all)"},
    PLAN_FLAG_ALSO,
    PLAN_FLAG_LIKE,
    {.name = "device-memory",
     .flags = OPTION_FIRST,
     TEXT_AT(struct arguments, device),
     .arg = "SIZE,SIZE",
     .doc = "device memory (8GiB,16GiB,24GiB,40GiB,80GiB,141GiB)"},
    {.name = "host-memory",
     .flags = OPTION_FIRST,
     TEXT_AT(struct arguments, host),
     .arg = "SIZE,SIZE",
     .doc = "host memory, in addition to none (only none)"},
    PLAN_FLAGS_RECORDS,
    {0},
};

struct sizes {
    size_t count, bytes[SIZES_MAX];
};

struct frontier {
    struct search_records records;
    struct method_trials asked;
    json_t *first;             // canonical, of what was asked for
    struct sizes device, host; // the first host size is 0
    // A method's trials at a size of device and host memory: [host][device][method]; after the methods, all of
    // them.
    struct span *methods; // of asked.trials
    size_t method_count;
    size_t *largest;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    return plan_flags_parse(&arguments->flags, key, text, state);
}

// Appends increasing sizes.
static bool read_sizes(struct sizes *sizes, const char *flag, const char *text, struct status *status)
{
    char *copy = strdup(text), *rest = copy, *item;
    while (status->code == STATUS_OK && (item = strsep(&rest, ","))) {
        size_t bytes;
        if (!size_parse(item, &bytes))
            status_set(status, STATUS_BAD_INPUT, "--%s: expected %s, found \"%.64s\"", flag, size_expected(item),
                       item);
        else if (sizes->count == SIZES_MAX)
            status_set(status, STATUS_BAD_INPUT, "--%s: at most %d sizes", flag, SIZES_MAX);
        else if (sizes->count && bytes <= sizes->bytes[sizes->count - 1])
            status_set(status, STATUS_BAD_INPUT, "--%s: \"%.64s\" is not above the size before it", flag, item);
        else
            sizes->bytes[sizes->count++] = bytes;
    }
    free(copy);
    return status->code == STATUS_OK;
}

static size_t *place_of(const struct frontier *frontier, size_t host, size_t device, size_t method)
{
    return &frontier->largest[(host * frontier->device.count + device) * (frontier->method_count + 1) + method];
}

// Groups the trials by method.
static void divide(struct frontier *frontier)
{
    const struct method_trials *asked = &frontier->asked;
    frontier->methods = calloc(asked->count + 1, sizeof *frontier->methods);
    for (size_t i = 0; i < asked->count; i++) {
        if (i == 0 || asked->trials[i].method != asked->trials[i - 1].method)
            frontier->methods[frontier->method_count++] = (struct span){i, 0};
        frontier->methods[frontier->method_count - 1].count++;
    }
}

// Finds one method's result at one pair of sizes; `which` counts method by method, device by device.
static bool find_one(struct frontier *frontier, size_t which, const json_t *given, struct status *status)
{
    size_t m = which % frontier->method_count, d = which / frontier->method_count % frontier->device.count,
           h = which / frontier->method_count / frontier->device.count;
    struct planned_limits limits = {frontier->device.bytes[d], frontier->host.bytes[h]};
    struct span span = frontier->methods[m];
    struct longest longest;
    bool fine = longest_find(&longest, frontier->asked.trials + span.start, span.count, given, EXTENT_CONTEXT,
                             limits, status);
    const struct max_context *best = &longest.found;
    const struct trial *trial = best->largest ? longest.trial : &frontier->asked.trials[span.start];
    const struct choice choice = {trial, best->largest ? longest.options : trial->options, NULL};
    const struct record_search search = {.sought = "frontier",
                                         .among = trial->method->name,
                                         .beyond = best->reason,
                                         .granularity = (double)best->granularity,
                                         .memory_bound = best->memory_bound,
                                         .forward_flops = best->largest ? best->forward_flops : NAN};
    fine = fine &&
           search_records_add(&frontier->records, "frontier", &choice, frontier->first, limits, &search, status);
    size_t found = best->largest, *all = place_of(frontier, h, d, frontier->method_count);
    *place_of(frontier, h, d, m) = found;
    *all = found > *all ? found : *all;
    longest_free(&longest);
    return fine;
}

static bool find_all(struct frontier *frontier, const json_t *given, struct status *status)
{
    struct progress progress;
    size_t done = 0, total = frontier->host.count * frontier->device.count * frontier->method_count;
    progress_open(&progress, NULL, total, PROGRESS_PLAIN);
    while (done < total && find_one(frontier, done, given, status)) {
        char words[80];
        snprintf(words, sizeof words, "%zu of %zu longest contexts found", ++done, total);
        progress_step(&progress, done, words);
    }
    progress_clear(&progress);
    return done == total;
}

static bool find(struct arguments *arguments, struct frontier *frontier, struct status *status)
{
    const struct method_request request = {.names = arguments->flags.methods,
                                           .exact = true,
                                           .variants = true,
                                           .also = arguments->flags.also,
                                           .host = arguments->host};
    frontier->host.count = 1;
    if (!read_sizes(&frontier->device, "device-memory", arguments->device, status) ||
        (arguments->host && !read_sizes(&frontier->host, "host-memory", arguments->host, status)) ||
        !method_trials_decode(&frontier->asked, &arguments->flags.trial, &request, status))
        return false;
    divide(frontier);
    frontier->first = json_loads(frontier->asked.trials[0].canonical, 0, NULL);
    frontier->largest = calloc(frontier->host.count * frontier->device.count * (frontier->method_count + 1),
                               sizeof *frontier->largest);
    return find_all(frontier, arguments->flags.trial.method, status);
}

static const char *name_of(const struct frontier *frontier, size_t m)
{
    return m < frontier->method_count ? frontier->asked.trials[frontier->methods[m].start].method->name
                                      : method_auto.name;
}

static void print_table(const struct frontier *frontier)
{
    char text[512], size[32];
    setting_describe(frontier->first, 0, text, sizeof text);
    printf("%s: the longest context that fits, in tokens\n\n%12s %12s", text, "device", "host");
    for (size_t m = 0; m <= frontier->method_count; m++)
        printf(" %12s", name_of(frontier, m));
    putchar('\n');
    for (size_t h = 0; h < frontier->host.count; h++)
        for (size_t d = 0; d < frontier->device.count; d++) {
            size_text(frontier->device.bytes[d], size, sizeof size);
            printf("%12s", size);
            size_text(frontier->host.bytes[h], size, sizeof size);
            printf(" %12s", h ? size : "-");
            for (size_t m = 0; m <= frontier->method_count; m++)
                printf(" %12zu", *place_of(frontier, h, d, m));
            putchar('\n');
        }
    method_trials_print_left_out(&frontier->asked, 0, stdout);
}

int command_frontier(int argc, char **argv)
{
    struct arguments arguments = {.device = "8GiB,16GiB,24GiB,40GiB,80GiB,141GiB"};
    plan_flags_open(&arguments.flags, 0, without, own_flags, NULL);
    arguments.flags.methods = "all";
    const struct argp argp = {.options = arguments.flags.trial.options,
                              .parser = parse,
                              .doc = "Finds the longest context whose step fits, for each size of device and host "
                                     "memory, by planning steps: for each method with its best options; auto is "
                                     "the best over all methods.\vGiven options are fixed."};
    struct status status = {0};
    struct frontier frontier = {0};
    arguments_parse(&argp, own_flags, argc, argv, &arguments);
    bool done = search_records_open(&frontier.records, &arguments.flags, argc, argv, &status) &&
                find(&arguments, &frontier, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    else if (!arguments.flags.json)
        print_table(&frontier);
    else
        method_trials_print_left_out(&frontier.asked, 0, stderr);
    search_records_close(&frontier.records);
    json_decref(frontier.first);
    free(frontier.largest);
    free(frontier.methods);
    method_trials_free(&frontier.asked);
    plan_flags_close(&arguments.flags);
    return done ? EXIT_FINE : EXIT_BAD_INPUT;
}
