// Figures of searches: a step's time against memory (advise), and the longest context against memory (frontier).
#include "harness/plot/figure.h"
#include "harness/spec/method_decode.h"
#include "harness/table/trial_names.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_sought(const struct record *record, const char *sought)
{
    return record->status == RECORD_OK && strcmp(text_or(record->search->sought, ""), sought) == 0;
}

struct label {
    char text[200];
};

// The series of a row: as many as there were different labels before it.
static size_t series_of(const char *text, struct label *labels, size_t *count)
{
    size_t i = 0;
    while (i < *count && strcmp(labels[i].text, text) != 0)
        i++;
    if (i == *count)
        snprintf(labels[(*count)++].text, sizeof labels->text, "%s", text);
    return i + 1;
}

// --- advise

static bool tabulate_pareto_front(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct label *labels = calloc(count + 1, sizeof *labels), label;
    struct trial_names names;
    size_t label_count = 0;
    trial_names_open(&names, records, count, false);
    figure_table_columns(table, "peak_bytes\thost_peak_bytes\tseconds\tlimit_bytes\twords");
    for (size_t i = 0; i < count; i++) {
        const struct record *record = records[i];
        if (!is_sought(record, "time") || !isfinite(record->estimate_ms))
            continue;
        struct trial_name words = trial_names_at(&names, i);
        bool host = record->host_peak_bytes > 0;
        for (char *c = words.text; *c; c++)
            *c = *c == '_' ? '-' : *c; // an underscore would be markup
        snprintf(label.text, sizeof label.text, "%.100s%s", record_method(record),
                 host ? ", some of it on the host" : "");
        figure_table_row(table, series_of(label.text, labels, &label_count), record_method(record), host, "%s",
                         label.text);
        FIGURE_NUMBERS(table, record->peak_bytes, host ? record->host_peak_bytes : 0, 1e-3 * record->estimate_ms,
                       record->trial.limits->memory);
        figure_table_word(table, words.text);
    }
    trial_names_close(&names);
    free(labels);
    return label_count > 0;
}

static const char *const alike[] = {"weights", "kv_gradient_dtype", NULL};

const struct figure figure_pareto_front = {
    .name = "pareto-front",
    .searched = true,
    .own_axes = true,
    .one_context = true,
    .estimates = true,
    .needs = "records of `longbp advise` with a profile",
    .within = alike,
    .tabulate = tabulate_pareto_front,
};

// --- frontier

static double host_bytes(const struct record *record)
{
    return fmax(record->trial.limits->host_memory, 0);
}

// The longest of all within the same limits.
static double longest_beside(const struct record *const *records, size_t count, const struct record *record)
{
    double longest = 0;
    for (size_t i = 0; i < count; i++)
        if (is_sought(records[i], "frontier") && host_bytes(records[i]) == host_bytes(record) &&
            records[i]->trial.limits->memory == record->trial.limits->memory)
            longest = fmax(longest, records[i]->trial.context);
    return longest;
}

static struct label label_of(const char *method, double host)
{
    struct label label;
    char size[32];
    size_text((size_t)host, size, sizeof size);
    snprintf(label.text, sizeof label.text, "%.100s%s%s", method, host > 0 ? ", host " : "", host > 0 ? size : "");
    return label;
}

struct frontier {
    const struct record *const *records;
    size_t count, label_count, size_count;
    struct label *labels, *sizes;
};

// The rows of the series that begins with this record; all: of what goes furthest instead of the record's method.
static void add_series(struct frontier *frontier, size_t first, bool all, struct figure_table *table)
{
    const struct record *const *records = frontier->records;
    const char *method = all ? method_auto.name : record_method(records[first]);
    double host = host_bytes(records[first]);
    struct label label = label_of(method, host), size = label_of("", host);
    size_t before = frontier->label_count, series = series_of(label.text, frontier->labels, &frontier->label_count),
           rank = series_of(size.text, frontier->sizes, &frontier->size_count) - 1;
    double last = NAN; // bytes; one row for each
    for (size_t i = first; i < frontier->count && frontier->label_count > before; i++) {
        const struct record *record = records[i];
        double device = record->trial.limits->memory;
        if (!is_sought(record, "frontier") || host_bytes(record) != host || device == last ||
            (!all && strcmp(record_method(record), method) != 0))
            continue;
        last = device;
        figure_table_row(table, series, method, rank, "%s", label.text);
        FIGURE_NUMBERS(table, device,
                       all ? longest_beside(records, frontier->count, record) : record->trial.context);
    }
}

static bool tabulate_frontier(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct frontier frontier = {.records = records,
                                .count = count,
                                .labels = calloc(2 * count + 1, sizeof *frontier.labels),
                                .sizes = calloc(count + 1, sizeof *frontier.sizes)};
    figure_table_columns(table, "device_bytes\tmax_context");
    for (int all = 0; all < 2; all++)
        for (size_t i = 0; i < count; i++)
            if (is_sought(records[i], "frontier"))
                add_series(&frontier, i, all, table);
    free(frontier.labels);
    free(frontier.sizes);
    return frontier.label_count > 0;
}

static const char *const limited[] = {"limits", "weights", "kv_gradient_dtype", NULL};

const struct figure figure_frontier = {
    .name = "frontier",
    .searched = true,
    .own_axes = true,
    .needs = "records of `longbp frontier`",
    .within = limited,
    .tabulate = tabulate_frontier,
};

// --- max-context, max-batch: max_context_figure.h draws them

const struct figure figure_max_context = {
    .name = "max-context",
    .searched = true,
    .own_axes = true,
    .row_panels = true,
    .needs = "records of `longbp max-context` or `longbp max-batch`",
    .within = limited,
};
