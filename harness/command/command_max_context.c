// Command: `longbp max-context`, the longest context that each method can hold in a card's memory, from planned
// steps.
#include "harness/command/command.h"
#include "harness/command/plan_flags.h"
#include "harness/files/size.h"
#include "harness/results/setting.h"
#include "harness/run/max_context.h"
#include "harness/run/provenance.h"
#include "harness/spec/method_decode.h"
#include <string.h>

enum flag { FLAG_METHODS = 0x100, FLAG_JSON };

// What means nothing here, or has a flag of the command's own.
static const char *const without[] = {"device", "context",       "seed", "labels",       "row_weights",
                                      "method", "deterministic", "tf32", "memory_limit", NULL};

static const struct argp_option own_flags[] = {
    {.name = "methods", .key = FLAG_METHODS, .arg = "all|NAME,NAME", .doc = "which methods (all)"},
    PLAN_FLAG_LIKE,
    PLAN_FLAG_MEMORY_LIMIT,
    {.name = "json", .key = FLAG_JSON, .doc = "print JSON"},
    {0}};

struct arguments {
    struct trial_flags flags;
    struct plan_flags plan;
    const char *methods;
    bool json;
};

// One method's trial and what was found for it.
struct row {
    struct trial trial;
    struct max_context found;
};

struct table {
    size_t limit_bytes, resident[CATEGORY_COUNT], resident_bytes;
    char limit_what[128];
    size_t count;
    struct row *rows;
    json_t *left_out; // {"method", "reason"} of each method that has not the choice that an option was given
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case FLAG_METHODS:
        arguments->methods = text;
        return 0;
    case FLAG_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", text);
        return 0;
    case ARGP_KEY_END:
        if (!json_object_get(arguments->flags.trial, "model"))
            argp_error(state, "--model is needed");
        if (!arguments->plan.memory_limit && !json_object_get(arguments->flags.trial, "profile"))
            argp_error(state, "say how much memory there is: --memory-limit or --profile");
        return 0;
    default:
        if (plan_flags_parse(&arguments->plan, key, text) == 0)
            return 0;
        return trial_flags_parse(&arguments->flags, key, text);
    }
}

// At a context that the method's options go with: a budget needs its columns, and some columns are too many.
static bool decode(const struct trial_flags *flags, const char *method, struct trial *trial, struct status *status)
{
    struct status first = {0};
    for (int i = -1; i < 31; i++) {
        struct status why = {0};
        size_t context = i < 0 ? 65536 : (size_t)1 << i; // the first one's reason is the one to be shown
        json_object_set_new(flags->trial, "context", json_integer((json_int_t)context));
        if (trial_flags_decode(flags, method, trial, &why))
            return true;
        trial_free(trial);
        if (first.code == STATUS_OK)
            first = why;
    }
    *status = first;
    return false;
}

// Every option that was given must mean something to some method of the table.
static bool check_used(const struct trial_flags *flags, const struct table *table, struct status *status)
{
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        bool used = false;
        for (size_t i = 0; i < table->count; i++)
            used |= option_find(&table->rows[i].trial.method->options, key) != NULL;
        char knowing[256];
        method_names_knowing(key, knowing, sizeof knowing);
        if (!used)
            return status_set(status, STATUS_BAD_INPUT, "--%s: none of these methods has that option, but %s", key,
                              knowing);
    }
    return true;
}

static bool add_row(const struct arguments *arguments, struct table *table, const char *name, struct status *status)
{
    table->rows = realloc(table->rows, (table->count + 1) * sizeof *table->rows);
    CHECK(table->rows);
    struct row *row = &table->rows[table->count++];
    *row = (struct row){0};
    return decode(&arguments->flags, name, &row->trial, status);
}

// Whether an option was given that this method has, and no exact one.
static bool is_asked_for(const struct trial_flags *flags, const struct method *method)
{
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        bool own = option_find(&method->options, key);
        for (size_t i = 0; own && methods[i]; i++)
            own = !methods[i]->exact || !option_find(&methods[i]->options, key);
        if (own)
            return true;
    }
    return false;
}

// Whether it is an option with this choice.
static bool has_choice(const struct option *option, const char *text)
{
    for (size_t i = 0; option && option->type == OPTION_CHOICE && option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0)
            return true;
    return false;
}

// Whether an option was given a choice that this method does not have and another one has.
static bool is_choice_of_others(const struct trial_flags *flags, const struct method *method)
{
    const char *key;
    json_t *value;
    json_object_foreach(flags->method, key, value)
    {
        const char *text = json_string_value(value) ? json_string_value(value) : "";
        bool others = false;
        for (size_t i = 0; methods[i]; i++)
            others |= has_choice(option_find(&methods[i]->options, key), text);
        const struct option *own = option_find(&method->options, key);
        if (others && own && !has_choice(own, text))
            return true;
    }
    return false;
}

// All methods that have a gradient; those that draw columns only when asked for, for nothing here can choose how
// many they draw.
static bool add_all(const struct arguments *arguments, struct table *table, struct status *status)
{
    struct status why = {0};
    for (size_t i = 0; methods[i]; i++) {
        if (!methods[i]->exact && !(methods[i]->draw && is_asked_for(&arguments->flags, methods[i])))
            continue;
        why = (struct status){0};
        if (add_row(arguments, table, methods[i]->name, &why))
            continue;
        table->count--;
        if (!is_choice_of_others(&arguments->flags, methods[i])) {
            *status = why;
            return false;
        }
        json_array_append_new(table->left_out,
                              json_pack("{s:s, s:s}", "method", methods[i]->name, "reason", why.message));
    }
    if (table->count == 0)
        *status = why;
    return table->count > 0;
}

static bool add_named(const struct arguments *arguments, struct table *table, struct status *status)
{
    char *copy = strdup(arguments->methods), *rest = copy, *name;
    CHECK(copy);
    bool ok = true;
    while (ok && (name = strsep(&rest, ","))) {
        struct names known = {0};
        char hint[512];
        for (size_t i = 0; methods[i]; i++)
            names_add(&known, methods[i]->name);
        names_hint(&known, name, "methods", hint, sizeof hint);
        ok = method_find(name)
                 ? add_row(arguments, table, name, status)
                 : status_set(status, STATUS_BAD_INPUT, "--methods: no method \"%.64s\"; %s", name, hint);
    }
    free(copy);
    return ok;
}

static bool find_all(const struct arguments *arguments, struct table *table, struct status *status)
{
    const struct trial *first = &table->rows[0].trial;
    if (!plan_flags_limit(&arguments->plan, first, &table->limit_bytes, table->limit_what, sizeof table->limit_what,
                          status) ||
        !max_context_resident(first, table->resident, status))
        return false;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        table->resident_bytes += table->resident[i];
    for (size_t i = 0; i < table->count; i++)
        if (!max_context_find(&table->rows[i].found, &table->rows[i].trial, table->limit_bytes, status))
            return false;
    return true;
}

// "seco chunk=128": what tells most, and what was given.
static void describe(const struct trial_flags *flags, const struct trial *trial, char *text, size_t bytes)
{
    json_t *method = method_json(trial->method, trial->options);
    size_t used = (size_t)snprintf(text, bytes, "%s", trial->method->name);
    for (const struct option *option = trial->method->options.rows; option->name && used < bytes; option++) {
        json_t *value = json_object_get(method, option->name);
        char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (option->telling || json_object_get(flags->method, option->name))
            used += (size_t)snprintf(text + used, bytes - used, " %s=%s", option->name,
                                     json_is_string(value) ? json_string_value(value) : shown);
        free(shown);
    }
    json_decref(method);
}

static void print_table(const struct arguments *arguments, const struct table *table)
{
    json_t *setting = json_loads(table->rows[0].trial.canonical, 0, NULL);
    char text[512], limit[32], resident[32];
    setting_describe(setting, 0, text, sizeof text);
    json_decref(setting);
    size_text(table->limit_bytes, limit, sizeof limit);
    size_text(table->resident_bytes, resident, sizeof resident);
    printf("%s\nlimit     %12s  %zu bytes (%s)\n", text, limit, table->limit_bytes, table->limit_what);
    size_t host_limit_bytes = table->rows[0].trial.host_memory_limit_bytes;
    size_text(host_limit_bytes, limit, sizeof limit);
    if (host_limit_bytes)
        printf("on host   %12s  %zu bytes (--host-memory)\n", limit, host_limit_bytes);
    printf("resident  %12s ", resident);
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        size_text(table->resident[i], text, sizeof text);
        if (i <= CATEGORY_OPTIMIZER || table->resident[i])
            printf("%s %s %s", i ? "," : "", category_name((enum category)i), text);
    }
    if (table->resident_bytes > table->limit_bytes)
        printf("\nThe resident bytes alone do not fit the limit.");
    printf("\n\n%-32s %12s %12s %18s\n", "method", "max context", "its peak", "floor per token");
    for (size_t i = 0; i < table->count; i++) {
        const struct max_context *found = &table->rows[i].found;
        char peak[32] = "-", least[32] = "-";
        if (found->context) {
            size_text(found->peak_bytes, peak, sizeof peak);
            snprintf(least, sizeof least, "%.0f bytes", found->floor_bytes_per_token);
        }
        describe(&arguments->flags, &table->rows[i].trial, text, sizeof text);
        printf("%-32s %12zu %12s %18s", text, found->context, peak, least);
        if (table->rows[i].trial.method->largest_draw)
            printf("  in whole chunks, for the largest draw");
        bool telling = !found->context || !found->memory_bound || host_limit_bytes; // which of the two it was
        printf("%s%s\n", telling ? "  " : "", telling ? found->reason : "");
    }
    for (size_t i = 0; i < json_array_size(table->left_out); i++) {
        const json_t *left_out = json_array_get(table->left_out, i);
        printf("%-32s left out: %s\n", json_string_value(json_object_get(left_out, "method")),
               json_string_value(json_object_get(left_out, "reason")));
    }
}

static json_t *categories(const size_t by_category[CATEGORY_COUNT])
{
    json_t *object = json_object();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        json_object_set_new(object, category_name((enum category)i), json_integer((json_int_t)by_category[i]));
    return object;
}

static void print_json(const struct table *table)
{
    json_t *list = json_array(), *setting = json_loads(table->rows[0].trial.canonical, 0, NULL);
    static const char *const varying[] = {"method", "context", "measure", "limits", "data", "labels", "seed"};
    for (size_t i = 0; i < sizeof varying / sizeof *varying; i++)
        json_object_del(setting, varying[i]);
    for (size_t i = 0; i < table->count; i++) {
        const struct max_context *found = &table->rows[i].found;
        json_t *canonical = json_loads(table->rows[i].trial.canonical, 0, NULL);
        json_t *row =
            json_pack("{s:O, s:I, s:I, s:I, s:o, s:f, s:b, s:s}", "method", json_object_get(canonical, "method"),
                      "max_context", (json_int_t)found->context, "granularity", (json_int_t)found->granularity,
                      "peak_bytes", (json_int_t)found->peak_bytes, "peak_by_category",
                      categories(found->peak_by_category), "floor_bytes_per_token", found->floor_bytes_per_token,
                      "memory_bound", (int)found->memory_bound, "reason", found->reason);
        json_array_append_new(list, row);
        json_decref(canonical);
    }
    json_int_t host_limit = (json_int_t)table->rows[0].trial.host_memory_limit_bytes;
    json_t *object = json_pack("{s:o, s:I, s:s, s:o, s:I, s:o, s:o, s:O}", "setting", setting, "limit_bytes",
                               (json_int_t)table->limit_bytes, "limit", table->limit_what, "host_limit_bytes",
                               host_limit ? json_integer(host_limit) : json_null(), "resident_bytes",
                               (json_int_t)table->resident_bytes, "resident_by_category",
                               categories(table->resident), "methods", list, "left_out", table->left_out);
    struct provenance provenance;
    provenance_take(&provenance);
    json_object_set_new(object, "revision", json_string(provenance.revision));
    json_object_set_new(object, "dirty", provenance.dirty < 0 ? json_null() : json_boolean(provenance.dirty));
    CHECK(object && json_dumpf(object, stdout, JSON_INDENT(2)) == 0);
    putchar('\n');
    json_decref(object);
}

int command_max_context(int argc, char **argv)
{
    struct arguments arguments = {.methods = "all"};
    trial_flags_open(&arguments.flags, without, own_flags);
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc =
            "Finds the longest context whose step fits in so much memory, method by method, by planning steps: the "
            "peaks are exact, and nothing is computed.\vAn option goes to every method that has it. Methods that "
            "draw columns are among all of them only with an option of theirs, such as --budget; one that has an "
            "option "
            "but not the choice given is left out, with the reason."};
    struct status status = {0};
    struct table table = {.left_out = json_array()};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool all = strcmp(arguments.methods, "all") == 0;
    bool done = plan_flags_device(&arguments.plan, arguments.flags.trial, &status) &&
                (all ? add_all : add_named)(&arguments, &table, &status) &&
                check_used(&arguments.flags, &table, &status) && find_all(&arguments, &table, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    else if (arguments.json)
        print_json(&table);
    else
        print_table(&arguments, &table);
    for (size_t i = 0; i < table.count; i++)
        trial_free(&table.rows[i].trial);
    free(table.rows);
    json_decref(table.left_out);
    trial_flags_close(&arguments.flags);
    return done ? EXIT_FINE : EXIT_BAD_INPUT;
}
