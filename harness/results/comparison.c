#include "harness/results/comparison.h"
#include "harness/results/record.h"
#include "harness/results/series.h"
#include <string.h>

const char *comparison_verdict_name(enum comparison_verdict verdict)
{
    static const char *const names[] = {"same", "better", "regression", "cannot tell"};
    return names[verdict];
}

static const char *text_of(const json_t *record, const char *part, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(record, part), key));
    return text ? text : "";
}

static enum record_status status_of(const json_t *record)
{
    return record_status_from_name(json_string_value(json_object_get(record, "status")));
}

// --- pairs

// Lists of a file's records by id.
static json_t *by_id(const struct result_file *file)
{
    json_t *lists = json_object();
    for (size_t i = 0; i < json_array_size(file->records); i++) {
        json_t *record = json_array_get(file->records, i);
        const char *id = json_string_value(json_object_get(record, "id"));
        if (!json_object_get(lists, id))
            json_object_set_new(lists, id, json_array());
        json_array_append(json_object_get(lists, id), record);
    }
    return lists;
}

static json_t *last_of(const json_t *list)
{
    return json_array_get(list, json_array_size(list) - 1);
}

static bool same_machine(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"cpu", "threads"};
    const json_t *left = json_object_get(a, "provenance"), *right = json_object_get(b, "provenance");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *x = json_object_get(left, keys[i]), *y = json_object_get(right, keys[i]);
        if (x != y && !(x && y && json_equal(x, y)))
            return false;
    }
    char left_card[128], right_card[128];
    record_card(a, left_card, sizeof left_card);
    record_card(b, right_card, sizeof right_card);
    return strcmp(left_card, right_card) == 0;
}

// Whether sample i of both walked the same columns, as far as records tell; also if no columns were drawn.
static bool same_draws(const json_t *a, const json_t *b)
{
    const json_t *left = json_object_get(a, "sample_columns"), *right = json_object_get(b, "sample_columns");
    bool same = !left == !right;
    for (size_t i = 0; same && i < json_array_size(left) && i < json_array_size(right); i++)
        same = json_equal(json_array_get(left, i), json_array_get(right, i));
    left = json_object_get(a, "columns");
    right = json_object_get(b, "columns");
    return same && (left == right || (left && right && json_equal(left, right)));
}

static bool is_drawn(const json_t *record)
{
    return json_is_array(json_object_get(record, "sample_columns"));
}

static bool is_pooled(const json_t *record, const json_t *last)
{
    return status_of(record) == RECORD_OK && json_array_size(json_object_get(record, "samples_ms")) > 0 &&
           same_machine(record, last) && same_draws(record, last) &&
           strcmp(text_of(record, "provenance", "revision"), text_of(last, "provenance", "revision")) == 0;
}

// A draw of no column takes next to no time: held against the same one, it would only hide what the others show.
static bool is_empty_draw(const json_t *record, size_t sample)
{
    const json_t *columns = json_array_get(json_object_get(record, "sample_columns"), sample);
    return columns && json_integer_value(columns) == 0;
}

// The samples of a cell in one file, written to *end, which moves on.
static struct time_samples pool(const json_t *list, double **end)
{
    struct time_run *runs = malloc((json_array_size(list) + 1) * sizeof *runs);
    CHECK(runs);
    size_t run_count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *record = json_array_get(list, i), *ms = json_object_get(record, "samples_ms");
        if (!is_pooled(record, last_of(list)))
            continue;
        struct time_run run = {.ms = *end};
        for (size_t j = 0; j < json_array_size(ms); j++)
            if (!is_empty_draw(record, j))
                run.ms[run.count++] = json_number_value(json_array_get(ms, j));
        *end += run.count;
        if (run.count)
            runs[run_count++] = run;
    }
    struct time_samples samples = time_samples_pool(runs, run_count, is_drawn(last_of(list)));
    free(runs);
    return samples;
}

static size_t sample_count(const struct result_file *file)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(file->records); i++)
        count += json_array_size(json_object_get(json_array_get(file->records, i), "samples_ms"));
    return count;
}

static void make_pairs(struct comparison *comparison, const struct result_file *base, const struct result_file *new)
{
    json_t *base_lists = by_id(base), *new_lists = by_id(new), *list;
    const char *id;
    comparison->cells =
        calloc(json_object_size(base_lists) + json_object_size(new_lists) + 1, sizeof *comparison->cells);
    comparison->samples = malloc((sample_count(base) + sample_count(new) + 1) * sizeof *comparison->samples);
    CHECK(comparison->cells && comparison->samples);
    double *end = comparison->samples;
    json_object_foreach(base_lists, id, list)
    {
        struct cell_comparison *cell = &comparison->cells[comparison->count++];
        const json_t *match = json_object_get(new_lists, id);
        cell->base = last_of(list);
        cell->new = match ? last_of(match) : NULL;
        if (!match)
            continue;
        comparison->both++;
        if (status_of(cell->base) == RECORD_OK && status_of(cell->new) == RECORD_OK) {
            cell->time.base = pool(list, &end);
            cell->time.new = pool(match, &end);
            if (!same_machine(cell->base, cell->new))
                cell->time.unusable = "measured on another processor or card, or with another number of threads";
            else if (is_drawn(cell->base) && is_drawn(cell->new) && !same_draws(cell->base, cell->new))
                cell->time.unusable = "the same seeds drew other columns";
        }
    }
    comparison->base_only = comparison->count - comparison->both;
    json_object_foreach(new_lists, id, list)
    {
        if (!json_object_get(base_lists, id))
            comparison->cells[comparison->count++].new = last_of(list);
    }
    comparison->new_only = comparison->count - comparison->base_only - comparison->both;
    json_decref(base_lists);
    json_decref(new_lists);
}

// --- names

static const json_t *either(const struct cell_comparison *cell)
{
    return cell->new ? cell->new : cell->base;
}

static void name_cell(struct cell_comparison *cell, const char *label)
{
    const json_t *setting = json_object_get(either(cell), "cell");
    long long context = json_integer_value(json_object_get(setting, "context"));
    snprintf(cell->context, sizeof cell->context, "%lld", context);
    snprintf(cell->what, sizeof cell->what, "%s, context %s, %s %s", label, cell->context,
             text_of(either(cell), "cell", "dtype"), text_of(either(cell), "cell", "device"));
    cell->time.groups[0] = json_string_value(json_object_get(json_object_get(setting, "method"), "name"));
    cell->time.groups[1] = cell->context;
    cell->time.groups[2] = text_of(either(cell), "cell", "dtype");
}

static void name_cells(struct comparison *comparison)
{
    static const char *const none[] = {NULL};
    const json_t **records = calloc(comparison->count + 1, sizeof *records);
    CHECK(records);
    for (size_t i = 0; i < comparison->count; i++)
        records[i] = either(&comparison->cells[i]);
    struct series_table table;
    series_make(&table, records, comparison->count, none, true);
    for (size_t s = 0; s < table.count; s++)
        for (size_t r = 0; r < table.series[s].record_count; r++)
            for (size_t i = 0; i < comparison->count; i++)
                if (records[i] == table.series[s].records[r])
                    name_cell(&comparison->cells[i], table.series[s].label);
    series_free(&table);
    free(records);
}

// --- changes

// 0: a result; 1: an end that a sweep expects; 2: a fault.
static int severity(enum record_status status)
{
    return status == RECORD_OK ? 0 : status == RECORD_CRASH || status == RECORD_FAILED ? 2 : 1;
}

static enum change status_change(const struct cell_comparison *cell, bool deterministic)
{
    if (!cell->base || !cell->new) {
        bool result = cell->base && status_of(cell->base) == RECORD_OK;
        return result ? CHANGE_LOST : CHANGE_ALLOWED;
    }
    enum record_status base = status_of(cell->base), new = status_of(cell->new);
    // Another machine may be too slow for the limit of time.
    if (deterministic && base == RECORD_OK && new == RECORD_TIMEOUT)
        return CHANGE_LOST;
    if (severity(base) != severity(new))
        return severity(new) > severity(base) ? CHANGE_WORSE : CHANGE_BETTER;
    return base == new ? CHANGE_NONE : CHANGE_ALLOWED;
}

static void compare_records(struct comparison *comparison, struct cell_comparison *cell)
{
    cell->status = status_change(cell, comparison->options.deterministic);
    if (cell->base && cell->new &&status_of(cell->base) == RECORD_OK &&status_of(cell->new) == RECORD_OK)
        cell->change_count = quantity_changes(cell->changes, cell->base, cell->new, comparison->options.allowances);
}

// Times are judged in one array, for they are judged together.
static void compare_times(struct comparison *comparison)
{
    struct time_cell *times = calloc(comparison->count + 1, sizeof *times);
    CHECK(times);
    for (size_t i = 0; i < comparison->count; i++) {
        times[i] = comparison->cells[i].time;
        if (comparison->options.deterministic)
            times[i].base.count = times[i].new.count = 0;
    }
    time_change_judge(&comparison->time, comparison->options.threshold, times, comparison->count);
    for (size_t i = 0; i < comparison->count; i++)
        comparison->cells[i].time = times[i];
    free(times);
}

static enum change first_of(const struct cell_comparison *cell, enum change change)
{
    bool found = cell->status == change;
    for (size_t i = 0; i < cell->change_count; i++)
        found |= cell->changes[i].change == change;
    found |= change == CHANGE_WORSE && cell->time.regression;
    found |= change == CHANGE_LOST && cell->time.open;
    return found ? change : CHANGE_NONE;
}

static void count_changes(struct comparison *comparison)
{
    static const enum change order[] = {CHANGE_WORSE, CHANGE_LOST, CHANGE_BETTER, CHANGE_ALLOWED};
    for (size_t i = 0; i < comparison->count; i++) {
        struct cell_comparison *cell = &comparison->cells[i];
        for (size_t j = 0; j < sizeof order / sizeof *order && cell->change == CHANGE_NONE; j++)
            cell->change = first_of(cell, order[j]);
        comparison->by_change[cell->change]++;
    }
}

static bool any_lost(const struct comparison *comparison, bool missing)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const struct cell_comparison *cell = &comparison->cells[i];
        bool lost = cell->status == CHANGE_LOST;
        for (size_t j = 0; j < cell->change_count; j++)
            lost |= cell->changes[j].change == CHANGE_LOST;
        if (lost && (cell->new == NULL) == missing)
            return true;
    }
    return false;
}

static void conclude(struct comparison *comparison)
{
    const char *reason = "";
    if (comparison->both == 0)
        reason = "no cell is in both files";
    else if (any_lost(comparison, true))
        reason = "cells that were ok in BASE are not in NEW";
    else if (any_lost(comparison, false))
        reason = "something that BASE has measured is not known in NEW";
    else if (comparison->time.verdict == TIME_CANNOT_TELL)
        reason = comparison->time.reason;
    bool better = comparison->by_change[CHANGE_BETTER] || comparison->time.verdict == TIME_FASTER;
    for (size_t i = 0; i < comparison->time.group_count; i++)
        better |= comparison->time.groups[i].verdict == TIME_FASTER;
    comparison->verdict = better ? COMPARISON_BETTER : COMPARISON_SAME;
    if (comparison->by_change[CHANGE_WORSE] || comparison->time.verdict == TIME_SLOWER)
        comparison->verdict = COMPARISON_REGRESSION;
    else if (*reason)
        comparison->verdict = COMPARISON_CANNOT_TELL;
    if (comparison->verdict == COMPARISON_CANNOT_TELL)
        snprintf(comparison->reason, sizeof comparison->reason, "%s", reason);
}

static bool whole(const struct result_file *file, struct status *status)
{
    return !file->torn_line ||
           status_set(status, STATUS_BAD_INPUT,
                      "%s:%zu: the last line is torn; what was cut off might be what became worse. `longbp run` "
                      "with the same --out completes the file",
                      file->path, file->torn_line);
}

bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status)
{
    *comparison = (struct comparison){.options = *options};
    if (!whole(base, status) || !whole(new, status))
        return false;
    make_pairs(comparison, base, new);
    name_cells(comparison);
    for (size_t i = 0; i < comparison->count; i++)
        compare_records(comparison, &comparison->cells[i]);
    compare_times(comparison);
    count_changes(comparison);
    conclude(comparison);
    return true;
}

void comparison_free(struct comparison *comparison)
{
    time_change_free(&comparison->time);
    free(comparison->cells);
    free(comparison->samples);
    *comparison = (struct comparison){0};
}
