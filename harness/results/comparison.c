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

// The samples of a trial in one file, written to *end, which moves on.
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
    comparison->trials =
        calloc(json_object_size(base_lists) + json_object_size(new_lists) + 1, sizeof *comparison->trials);
    comparison->samples = malloc((sample_count(base) + sample_count(new) + 1) * sizeof *comparison->samples);
    CHECK(comparison->trials && comparison->samples);
    double *end = comparison->samples;
    json_object_foreach(base_lists, id, list)
    {
        struct trial_comparison *trial = &comparison->trials[comparison->count++];
        const json_t *match = json_object_get(new_lists, id);
        trial->base = last_of(list);
        trial->new = match ? last_of(match) : NULL;
        if (!match)
            continue;
        comparison->both++;
        if (status_of(trial->base) == RECORD_OK && status_of(trial->new) == RECORD_OK) {
            trial->time.base = pool(list, &end);
            trial->time.new = pool(match, &end);
            if (!same_machine(trial->base, trial->new))
                trial->time.unusable = "measured on another processor or card, or with another number of threads";
            else if (is_drawn(trial->base) && is_drawn(trial->new) && !same_draws(trial->base, trial->new))
                trial->time.unusable = "the same seeds drew other columns";
        }
    }
    comparison->base_only = comparison->count - comparison->both;
    json_object_foreach(new_lists, id, list)
    {
        if (!json_object_get(base_lists, id))
            comparison->trials[comparison->count++].new = last_of(list);
    }
    comparison->new_only = comparison->count - comparison->base_only - comparison->both;
    json_decref(base_lists);
    json_decref(new_lists);
}

// --- names

static const json_t *either(const struct trial_comparison *trial)
{
    return trial->new ? trial->new : trial->base;
}

static void name_trial(struct trial_comparison *trial, const char *label)
{
    const json_t *setting = json_object_get(either(trial), "trial");
    long long context = json_integer_value(json_object_get(setting, "context"));
    snprintf(trial->context, sizeof trial->context, "%lld", context);
    snprintf(trial->what, sizeof trial->what, "%s, context %s, %s %s", label, trial->context,
             text_of(either(trial), "trial", "dtype"), text_of(either(trial), "trial", "device"));
    trial->time.groups[0] = json_string_value(json_object_get(json_object_get(setting, "method"), "name"));
    trial->time.groups[1] = trial->context;
    trial->time.groups[2] = text_of(either(trial), "trial", "dtype");
}

static void name_trials(struct comparison *comparison)
{
    static const char *const none[] = {NULL};
    const json_t **records = calloc(comparison->count + 1, sizeof *records);
    CHECK(records);
    for (size_t i = 0; i < comparison->count; i++)
        records[i] = either(&comparison->trials[i]);
    struct series_table table;
    series_make(&table, records, comparison->count, none, true);
    for (size_t s = 0; s < table.count; s++)
        for (size_t r = 0; r < table.series[s].record_count; r++)
            for (size_t i = 0; i < comparison->count; i++)
                if (records[i] == table.series[s].records[r])
                    name_trial(&comparison->trials[i], table.series[s].label);
    series_free(&table);
    free(records);
}

// --- changes

// 0: a result; 1: an end that a sweep expects; 2: a fault.
static int severity(enum record_status status)
{
    return status == RECORD_OK ? 0 : status == RECORD_CRASH || status == RECORD_FAILED ? 2 : 1;
}

static enum change status_change(const struct trial_comparison *trial, bool deterministic)
{
    if (!trial->base || !trial->new) {
        bool result = trial->base && status_of(trial->base) == RECORD_OK;
        return result ? CHANGE_LOST : CHANGE_ALLOWED;
    }
    enum record_status base = status_of(trial->base), new = status_of(trial->new);
    // Another machine may be too slow for the limit of time.
    if (deterministic && base == RECORD_OK && new == RECORD_TIMEOUT)
        return CHANGE_LOST;
    if (severity(base) != severity(new))
        return severity(new) > severity(base) ? CHANGE_WORSE : CHANGE_BETTER;
    return base == new ? CHANGE_NONE : CHANGE_ALLOWED;
}

static void compare_records(struct comparison *comparison, struct trial_comparison *trial)
{
    trial->status = status_change(trial, comparison->options.deterministic);
    bool both = trial->base && trial->new;
    if (!both || status_of(trial->base) != RECORD_OK || status_of(trial->new) != RECORD_OK)
        return;
    trial->change_count = quantity_changes(trial->changes, trial->base, trial->new, comparison->options.allowances);
    trial->bits = gradient_bits_compare(trial->base, trial->new);
    comparison->bits_known += trial->bits.known;
    if (trial->bits.changed) {
        comparison->bits_changed++;
        comparison->bits_causes |= trial->bits.causes;
    }
}

// Times are judged in one array, for they are judged together.
static void compare_times(struct comparison *comparison)
{
    struct time_trial *times = calloc(comparison->count + 1, sizeof *times);
    CHECK(times);
    for (size_t i = 0; i < comparison->count; i++) {
        times[i] = comparison->trials[i].time;
        if (comparison->options.deterministic)
            times[i].base.count = times[i].new.count = 0;
    }
    time_change_judge(&comparison->time, comparison->options.threshold, times, comparison->count);
    for (size_t i = 0; i < comparison->count; i++)
        comparison->trials[i].time = times[i];
    free(times);
}

static enum change first_of(const struct trial_comparison *trial, enum change change)
{
    bool found = trial->status == change;
    for (size_t i = 0; i < trial->change_count; i++)
        found |= trial->changes[i].change == change;
    found |= change == CHANGE_WORSE && trial->time.regression;
    found |= change == CHANGE_LOST && trial->time.open;
    return found ? change : CHANGE_NONE;
}

static void count_changes(struct comparison *comparison)
{
    static const enum change order[] = {CHANGE_WORSE, CHANGE_LOST, CHANGE_BETTER, CHANGE_ALLOWED};
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        for (size_t j = 0; j < sizeof order / sizeof *order && trial->change == CHANGE_NONE; j++)
            trial->change = first_of(trial, order[j]);
        comparison->by_change[trial->change]++;
    }
}

static bool any_lost(const struct comparison *comparison, bool missing)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_comparison *trial = &comparison->trials[i];
        bool lost = trial->status == CHANGE_LOST;
        for (size_t j = 0; j < trial->change_count; j++)
            lost |= trial->changes[j].change == CHANGE_LOST;
        if (lost && (trial->new == NULL) == missing)
            return true;
    }
    return false;
}

static void conclude(struct comparison *comparison)
{
    const char *reason = "";
    if (comparison->both == 0)
        reason = "no trial is in both files";
    else if (any_lost(comparison, true))
        reason = "trials that were ok in BASE are not in NEW";
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
    name_trials(comparison);
    for (size_t i = 0; i < comparison->count; i++)
        compare_records(comparison, &comparison->trials[i]);
    compare_times(comparison);
    count_changes(comparison);
    conclude(comparison);
    return true;
}

void comparison_free(struct comparison *comparison)
{
    time_change_free(&comparison->time);
    free(comparison->trials);
    free(comparison->samples);
    *comparison = (struct comparison){0};
}
