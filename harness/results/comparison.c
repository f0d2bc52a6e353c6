#include "harness/results/comparison.h"
#include "harness/files/text.h"
#include "harness/results/record.h"
#include "harness/results/series.h"
#include "harness/spec/trial_text.h"
#include <math.h>
#include <string.h>

const char *comparison_verdict_name(enum comparison_verdict verdict)
{
    static const char *const names[] = {"same", "better", "regression", "cannot tell"};
    return names[verdict];
}

// --- pairs

// Lists of the places of a file's records by id.
static json_t *by_id(const struct result_file *file)
{
    json_t *lists = json_object();
    for (size_t i = 0; i < file->count; i++) {
        const char *id = file->records[i].id;
        if (!json_object_get(lists, id))
            json_object_set_new(lists, id, json_array());
        json_array_append_new(json_object_get(lists, id), json_integer((json_int_t)i));
    }
    return lists;
}

static const struct record *record_at(const struct result_file *file, const json_t *list, size_t i)
{
    return &file->records[json_integer_value(json_array_get(list, i))];
}

static const struct record *last_of(const struct result_file *file, const json_t *list)
{
    return record_at(file, list, json_array_size(list) - 1);
}

static bool same_machine(const struct record *a, const struct record *b)
{
    double left_threads = a->provenance.threads, right_threads = b->provenance.threads;
    char left_card[128], right_card[128];
    record_card(a, left_card, sizeof left_card);
    record_card(b, right_card, sizeof right_card);
    return strcmp(text_or(a->provenance.cpu, ""), text_or(b->provenance.cpu, "")) == 0 &&
           (left_threads == right_threads || (isnan(left_threads) && isnan(right_threads))) &&
           strcmp(left_card, right_card) == 0;
}

// As far as both lists reach.
static bool begin_alike(const struct number_list *a, const struct number_list *b)
{
    bool same = true;
    for (size_t i = 0; same && i < a->count && i < b->count; i++)
        same = a->items[i] == b->items[i];
    return same;
}

static bool is_drawn(const struct record *record)
{
    return record->sample_columns.count > 0;
}

// Whether sample i of both walked the same columns, as far as records tell; also if no columns were drawn.
static bool same_draws(const struct record *a, const struct record *b)
{
    return is_drawn(a) == is_drawn(b) && begin_alike(&a->sample_columns, &b->sample_columns) &&
           a->columns.count == b->columns.count && begin_alike(&a->columns, &b->columns);
}

static bool is_pooled(const struct record *record, const struct record *last)
{
    return record->status == RECORD_OK && record->samples_ms.count > 0 && same_machine(record, last) &&
           same_draws(record, last) &&
           strcmp(text_or(record->provenance.revision, ""), text_or(last->provenance.revision, "")) == 0;
}

// A draw of no column takes next to no time: held against the same one, it would only hide what the others show.
static bool is_empty_draw(const struct record *record, size_t sample)
{
    return sample < record->sample_columns.count && record->sample_columns.items[sample] == 0;
}

// The samples of a trial in one file, written to *end, which moves on.
static struct time_samples pool(const struct result_file *file, const json_t *list, double **end)
{
    struct time_run *runs = malloc((json_array_size(list) + 1) * sizeof *runs);
    CHECK(runs);
    size_t run_count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct record *record = record_at(file, list, i);
        if (!is_pooled(record, last_of(file, list)))
            continue;
        struct time_run run = {.ms = *end};
        for (size_t j = 0; j < record->samples_ms.count; j++)
            if (!is_empty_draw(record, j))
                run.ms[run.count++] = record->samples_ms.items[j];
        *end += run.count;
        if (run.count)
            runs[run_count++] = run;
    }
    struct time_samples samples = time_samples_pool(runs, run_count, is_drawn(last_of(file, list)));
    free(runs);
    return samples;
}

static size_t sample_count(const struct result_file *file)
{
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++)
        count += file->records[i].samples_ms.count;
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
        trial->base = last_of(base, list);
        trial->new = match ? last_of(new, match) : NULL;
        if (!match)
            continue;
        comparison->both++;
        if (trial->base->status == RECORD_OK && trial->new->status == RECORD_OK) {
            trial->time.base = pool(base, list, &end);
            trial->time.new = pool(new, match, &end);
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
            comparison->trials[comparison->count++].new = last_of(new, list);
    }
    comparison->new_only = comparison->count - comparison->base_only - comparison->both;
    json_decref(base_lists);
    json_decref(new_lists);
}

// --- names

static const struct record *either(const struct trial_comparison *trial)
{
    return trial->new ? trial->new : trial->base;
}

// In what of a key the records differ: NULL: nothing; true: its value; an object: these members.
static json_t *differing(const char *key, const struct record *const *records, size_t count)
{
    const json_t *first = json_object_get(records[0]->trial.json, key);
    json_t *members = NULL, *member;
    const char *name;
    for (size_t i = 1; i < count; i++) {
        const json_t *value = json_object_get(records[i]->trial.json, key);
        if (first == value || json_equal(first, value)) // NULL: not recorded
            continue;
        if (!json_is_object(first) || !json_is_object(value)) {
            json_decref(members);
            return json_true();
        }
        members = members ? members : json_object();
        const json_t *const sides[] = {first, value};
        for (size_t side = 0; side < 2; side++)
            json_object_foreach((json_t *)sides[side], name, member)
            {
                if (!json_equal(member, json_object_get(sides[1 - side], name)))
                    json_object_set_new(members, name, json_true());
            }
    }
    return members;
}

// "kv_gradient_dtype bf16": the value, or of an object those of its members.
static void append_key(char *text, size_t bytes, const struct trial_key *key, json_t *value, const json_t *members)
{
    char words[200];
    json_t *part = json_is_object(members) ? json_object() : json_incref(value), *member;
    const char *name;
    json_object_foreach((json_t *)members, name, member)
    {
        json_object_set(part, name, json_object_get(value, name));
    }
    trial_key_text(key, part, words, sizeof words);
    text_append(text, bytes, ", %s", words);
    json_decref(part);
}

// by_key: of each of trial_keys, in what the trials differ.
static void name_trial(struct trial_comparison *trial, const char *label, json_t *const *by_key)
{
    const struct record_trial *own = &either(trial)->trial;
    snprintf(trial->context, sizeof trial->context, "%.0f", own->context);
    snprintf(trial->what, sizeof trial->what, "%s, context %s", label, trial->context);
    for (size_t i = 0; i < trial_key_count(); i++) {
        json_t *value = json_object_get(own->json, trial_keys[i].name);
        if (by_key[i] && value)
            append_key(trial->what, sizeof trial->what, &trial_keys[i], value, by_key[i]);
    }
    text_append(trial->what, sizeof trial->what, ", %s %s", own->dtype, own->device);
    trial->time.groups[0] = record_method(either(trial));
    trial->time.groups[1] = trial->context;
    trial->time.groups[2] = own->dtype;
}

static void name_trials(struct comparison *comparison)
{
    static const char *const none[] = {NULL};
    static const struct names always_said = {4, {"method", "context", "dtype", "device"}};
    const struct record **records = calloc(comparison->count + 1, sizeof *records);
    CHECK(records);
    for (size_t i = 0; i < comparison->count; i++)
        records[i] = either(&comparison->trials[i]);
    json_t *by_key[TRIAL_KEYS_MAX] = {NULL};
    for (size_t i = 0; comparison->count && i < trial_key_count(); i++)
        if (names_find(&always_said, trial_keys[i].name) == always_said.count)
            by_key[i] = differing(trial_keys[i].name, records, comparison->count);
    struct series_table table;
    series_make(&table, records, comparison->count, none, true);
    for (size_t s = 0; s < table.count; s++)
        for (size_t r = 0; r < table.series[s].record_count; r++)
            for (size_t i = 0; i < comparison->count; i++)
                if (records[i] == table.series[s].records[r])
                    name_trial(&comparison->trials[i], table.series[s].label, by_key);
    series_free(&table);
    for (size_t i = 0; i < trial_key_count(); i++)
        json_decref(by_key[i]);
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
        bool result = trial->base && trial->base->status == RECORD_OK;
        return result ? CHANGE_LOST : CHANGE_ALLOWED;
    }
    enum record_status base = trial->base->status, new = trial->new->status;
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
    if (!both || trial->base->status != RECORD_OK || trial->new->status != RECORD_OK)
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
