// Commands: `longbp max-context` and `longbp max-batch`, the longest context, or the largest batch at a context,
// that fits each method into a card's memory, from planned steps.
#include "harness/json/named_options.h"
#include "harness/options/command.h"
#include "harness/options/search_records.h"
#include "harness/plan/longest.h"
#include "harness/spec/method_decode.h"
#include "harness/step/ranks_possible.h"
#include "harness/table/setting.h"
#include "harness/text/size.h"
#include <math.h>
#include <string.h>

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without_context[] = {"train",  "device",       "context", "seed",
                                              "labels", "reference",    "method",  "deterministic",
                                              "tf32",   "memory_limit", NULL},
                         *const without_batch[] = {"train",  "device",       "batch",  "seed",
                                                   "labels", "reference",    "method", "deterministic",
                                                   "tf32",   "memory_limit", NULL};

static const struct flag own_flags[] = {
    {.name = "methods",
     .flags = OPTION_FIRST,
     TEXT_AT(struct plan_flags, methods),
     .arg = "all|METHOD,METHOD",
     .doc = "methods; auto: the method and options with the largest result (all)"},
    {.name = "method", .flags = OPTION_ALIAS},
    PLAN_FLAG_ALSO,
    PLAN_FLAG_LIKE,
    PLAN_FLAG_FROM,
    PLAN_FLAG_MEMORY_LIMIT,
    PLAN_FLAG_RESERVE,
    PLAN_FLAGS_RECORDS,
    {0}};

struct arguments {
    struct plan_flags flags;
    enum extent extent;
};

struct table {
    size_t limit_bytes, resident[CATEGORY_COUNT], resident_bytes;
    char limit_what[PLAN_LIMIT_BYTES];
    struct method_trials asked, open; // open: candidates of auto; count 0: auto was not requested
    struct max_context *found;        // for each of `asked`
    struct longest longest;           // of auto
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    return plan_flags_parse(&arguments->flags, key, text, state);
}

// Removes auto from the list of methods and returns whether it was there; *rest is to be freed, NULL: empty.
static bool take_auto(const char *list, char **rest)
{
    char *copy = strdup(list), *left = copy, *name;
    bool found = false;
    size_t used = 0;
    *rest = calloc(strlen(list) + 2, 1);
    while ((name = strsep(&left, ",")))
        if (strcmp(name, method_auto.name) == 0)
            found = true;
        else
            used += (size_t)sprintf(*rest + used, "%s%s", used ? "," : "", name);
    free(copy);
    if (found && !used) {
        free(*rest);
        *rest = NULL;
    }
    return found;
}

static bool ask(struct arguments *arguments, struct table *table, struct status *status)
{
    struct plan_flags *flags = &arguments->flags;
    char *named;
    bool open = take_auto(flags->methods, &named), fine = true;
    const struct method_request asked = {.names = named},
                                any = {.names = "all",
                                       .exact = true,
                                       .variants = true,
                                       .also = flags->also,
                                       .host = json_object_get(json_object_get(flags->trial.trial, "limits"),
                                                               "host_memory")};
    if (flags->also && !open)
        fine = status_set(status, STATUS_BAD_INPUT, "--also: nothing is chosen without --methods auto");
    if (fine && named)
        fine = method_trials_decode(&table->asked, &flags->trial, &asked, status);
    free(named);
    return fine && (!open || method_trials_decode(&table->open, &flags->trial, &any, status));
}

// A trial that represents the setting, preferably one that ranks can share.
static const struct trial *first_of(const struct table *table)
{
    const struct method_trials *trials = table->asked.count ? &table->asked : &table->open;
    for (size_t i = 0; i < trials->count; i++) {
        struct status why = {0};
        if (ranks_fit(&trials->trials[i], &why))
            return &trials->trials[i];
    }
    return trials->trials;
}

static bool find_all(struct arguments *arguments, struct table *table, struct status *status)
{
    if (!ask(arguments, table, status))
        return false;
    const struct trial *first = first_of(table);
    if (!plan_flags_limit(&arguments->flags, first, &table->limit_bytes, table->limit_what,
                          sizeof table->limit_what, status) ||
        !max_context_resident(first, table->resident, status))
        return false;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        table->resident_bytes += table->resident[i];
    table->found = calloc(table->asked.count + 1, sizeof *table->found);
    for (size_t i = 0; i < table->asked.count; i++)
        if (!max_context_find(&table->found[i], &table->asked.trials[i], arguments->extent, table->limit_bytes, 0,
                              status))
            return false;
    struct planned_limits limits = {table->limit_bytes, first->host_memory_limit_bytes};
    struct method_trials *open = &table->open;
    const json_t *given = arguments->flags.trial.method;
    return !open->count ||
           (longest_find(&table->longest, open->trials, open->count, given, arguments->extent, limits, status) &&
            longest_choose(&table->longest, open->trials, open->count, given, limits, status));
}

// "seco chunk=128": the method with its main and its given options.
static void describe(const struct trial_flags *flags, const struct trial *trial, char *text, size_t bytes)
{
    json_t *method = method_json(trial->method, trial->options);
    size_t used = (size_t)snprintf(text, bytes, "%s", trial->method->name);
    for (const struct option *option = trial->method->options.rows; option->name && used < bytes; option++) {
        json_t *value = json_object_get(method, option->name);
        char *shown = named_option_words(value, 0);
        if (option->telling || json_object_get(flags->method, option->name))
            used += (size_t)snprintf(text + used, bytes - used, " %s=%s", option->name, shown);
        free(shown);
    }
    json_decref(method);
}

// Widths of the table's columns: names, contexts or batches, and host memory if it is used.
struct columns {
    int name;
    enum extent extent;
    bool host;
};

static struct columns columns_of(const struct arguments *arguments, const struct table *table)
{
    struct columns columns = {(int)strlen("checkpoint  "), arguments->extent,
                              table->longest.found.host_peak_bytes > 0};
    char text[512];
    for (size_t i = 0; i < table->asked.count; i++) {
        describe(&arguments->flags.trial, &table->asked.trials[i], text, sizeof text);
        columns.name = (int)strlen(text) > columns.name ? (int)strlen(text) : columns.name;
        columns.host |= table->found[i].host_peak_bytes > 0;
    }
    return columns;
}

static void print_row(const struct table *table, struct columns columns, const struct max_context *found,
                      const struct trial *trial, const char *text)
{
    char peak[32] = "-", host[32] = "-", min[32] = "-";
    if (found->largest) {
        size_text(found->peak_bytes, peak, sizeof peak);
        if (found->lower_bound_bytes_per_token > 0)
            snprintf(min, sizeof min, "%.0f bytes", found->lower_bound_bytes_per_token);
    }
    if (found->host_peak_bytes)
        size_text(found->host_peak_bytes, host, sizeof host);
    printf("%-*s %12zu %12s", columns.name, text, found->largest, peak);
    if (columns.host)
        printf(" %12s", host);
    printf(" %18s", min);
    if (trial->method->largest_draw)
        printf("  %sfor the largest draw", columns.extent == EXTENT_CONTEXT ? "in whole chunks, " : "");
    // Tells which of the two limits applied.
    bool telling = !found->largest || !found->memory_bound || first_of(table)->host_memory_limit_bytes;
    printf("%s%s\n", telling ? "  " : "", telling ? found->reason : "");
}

static struct choice choice_of(const struct longest *longest)
{
    return (struct choice){longest->trial, longest->options, &longest->step};
}

static void print_auto(const struct table *table, struct columns columns, const json_t *setting)
{
    const struct longest *longest = &table->longest;
    const struct choice choice = choice_of(longest);
    char text[512], peak[32], host[64] = "", kept[32];
    print_row(table, columns, &longest->found, first_of(table), method_auto.name);
    if (!longest->step.fits)
        return;
    choice_describe(&choice, setting, text, sizeof text);
    size_text(choice.step->peak_bytes, peak, sizeof peak);
    size_text(choice.step->host_peak_bytes, kept, sizeof kept);
    if (choice.step->host_peak_bytes)
        snprintf(host, sizeof host, ", %s on the host", kept);
    bool other = choice.step->peak_bytes != longest->found.peak_bytes;
    const struct estimate_range range = estimate_range_of(choice.trial);
    printf("  there the fastest is %s: %.4g s, from %.3g to %.3g (estimate, %s%s), %s%s%s\n", text,
           choice.step->seconds, range.low * choice.step->seconds, range.high * choice.step->seconds, range.source,
           choice_interconnect(choice.trial).text, peak, host,
           other ? "; the row has the peak of what fits with least" : "");
}

static void print_table(const struct arguments *arguments, const struct table *table)
{
    const struct trial *first = first_of(table);
    json_t *setting = json_loads(first->canonical, 0, NULL);
    char text[512], limit[32], resident[32];
    bool batch = arguments->extent == EXTENT_BATCH;
    if (batch)
        json_object_del(setting, "batch"); // it is the result
    setting_describe(setting, batch ? (double)first->context : 0, text, sizeof text);
    size_text(table->limit_bytes, limit, sizeof limit);
    size_text(table->resident_bytes, resident, sizeof resident);
    printf("%s\nlimit     %12s  %zu %s (%s)\n", text, limit, table->limit_bytes, size_text_unit(table->limit_bytes),
           table->limit_what);
    size_t host_limit_bytes = first->host_memory_limit_bytes;
    size_text(host_limit_bytes, limit, sizeof limit);
    if (host_limit_bytes)
        printf("on host   %12s  %zu %s (--host-memory)\n", limit, host_limit_bytes,
               size_text_unit(host_limit_bytes));
    if (trial_is_of_card(first))
        printf("sizes          least  head_chunk 256 and attention_queries 2048, where none are given\n");
    printf("resident  %12s ", resident);
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        size_text(table->resident[i], text, sizeof text);
        if (i <= CATEGORY_OPTIMIZER || table->resident[i])
            printf("%s %s %s", i ? "," : "", category_name((enum category)i), text);
    }
    if (table->resident_bytes > table->limit_bytes)
        printf("\nThe resident bytes alone do not fit the limit.");
    struct columns columns = columns_of(arguments, table);
    printf("\n\n%-*s %12s %12s", columns.name, "method", batch ? "max batch" : "max context", "its peak");
    if (columns.host)
        printf(" %12s", "on the host");
    printf(" %18s\n", "bound per token");
    for (size_t i = 0; i < table->asked.count; i++) {
        const struct trial *trial = &table->asked.trials[i];
        describe(&arguments->flags.trial, trial, text, sizeof text);
        print_row(table, columns, &table->found[i], trial, text);
    }
    if (table->open.count)
        print_auto(table, columns, setting);
    json_decref(setting);
    method_trials_print_left_out(table->asked.count ? &table->asked : &table->open, columns.name, stdout);
}

// Records a row at its largest extent, or as oom where nothing fits.
static bool record_found(struct search_records *records, enum extent extent, const struct max_context *found,
                         const struct choice *choice, const struct trial *first, bool chosen, size_t limit_bytes,
                         struct status *status)
{
    bool batch = extent == EXTENT_BATCH;
    struct trial trial = *choice->trial; // what it points to is borrowed
    if (found->largest)
        *(batch ? &trial.batch : &trial.context) = found->largest;
    json_t *asked = json_loads(first->canonical, 0, NULL);
    const struct record_search search = {.sought = batch ? "batch" : "context",
                                         .among = chosen ? method_auto.name : NULL,
                                         .beyond = found->reason,
                                         .granularity = (double)found->granularity,
                                         .memory_bound = found->memory_bound,
                                         .forward_flops = found->largest ? found->forward_flops : NAN};
    bool fine = search_records_add(
        records, batch ? "max-batch" : "max-context", &(struct choice){&trial, choice->options, NULL}, asked,
        (struct planned_limits){limit_bytes, trial.host_memory_limit_bytes}, &search, status);
    json_decref(asked);
    return fine;
}

static bool record_all(struct search_records *records, enum extent extent, const struct table *table,
                       struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < table->asked.count; i++) {
        const struct trial *trial = &table->asked.trials[i];
        fine = record_found(records, extent, &table->found[i], &(struct choice){trial, trial->options, NULL}, trial,
                            false, table->limit_bytes, status);
    }
    if (!fine || !table->open.count)
        return fine;
    const struct trial *first = table->open.trials;
    struct choice choice = choice_of(&table->longest);
    if (!choice.options)
        choice = (struct choice){first, first->options, NULL};
    return record_found(records, extent, &table->longest.found, &choice, first, true, table->limit_bytes, status);
}

static void set_two_groups(json_t *trial)
{
    json_int_t group = json_integer_value(json_object_get(trial, "group"));
    bool is_group = group > 1 && group <= (1 << 19); // within the maximum batch; other sizes are refused elsewhere
    json_object_set_new(trial, "batch", json_integer(is_group ? 2 * group : 2));
}

static int command(int argc, char **argv, enum extent extent, const char *doc)
{
    bool batch = extent == EXTENT_BATCH;
    struct arguments arguments = {.extent = extent};
    plan_flags_open(&arguments.flags, NEEDS_MEMORY | (batch ? NEEDS_CONTEXT : 0),
                    batch ? without_batch : without_context, own_flags,
                    "no limit; if a method is chosen, none: nothing is offloaded");
    arguments.flags.methods = "all";
    arguments.flags.trial.min_memory = true;
    const struct argp argp = {.options = arguments.flags.trial.options, .parser = parse, .doc = doc};
    struct status status = {0};
    struct table table = {0};
    arguments_parse(&argp, own_flags, argc, argv, &arguments);
    if (extent == EXTENT_BATCH) // for any objective, a step may have two groups
        set_two_groups(arguments.flags.trial.trial);
    struct search_records records;
    bool done = search_records_open(&records, &arguments.flags, argc, argv, &status) &&
                find_all(&arguments, &table, &status);
    if (done && !arguments.flags.json)
        print_table(&arguments, &table);
    else if (done)
        method_trials_print_left_out(&table.asked, 0, stderr);
    done = done && record_all(&records, extent, &table, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    search_records_close(&records);
    longest_free(&table.longest);
    method_trials_free(&table.asked);
    method_trials_free(&table.open);
    free(table.found);
    plan_flags_close(&arguments.flags);
    return done ? EXIT_FINE : EXIT_BAD_INPUT;
}

int command_max_context(int argc, char **argv)
{
    return command(argc, argv, EXTENT_CONTEXT,
                   "Finds the longest context whose step fits the memory, for each method, by planning steps: "
                   "peaks are exact, and nothing is computed.\vAn option applies to every method that has it. "
                   "Methods that draw chunks are included only if an option of theirs, such as --budget, is given; "
                   "a method that has an option but not the given choice is left out, with the reason.");
}

int command_max_batch(int argc, char **argv)
{
    return command(argc, argv, EXTENT_BATCH,
                   "Finds the largest batch at a context whose step fits the memory, for each method, by planning "
                   "steps: peaks are exact, and nothing is computed.\vAn option applies to every method that has "
                   "it; a method without the given choice is left out, with the reason.");
}
