#include "harness/results/comparison.h"
#include "harness/results/processor_time.h"
#include "harness/results/record.h"
#include "harness/results/record_lists.h"
#include "harness/results/rounds.h"
#include <string.h>

const char *comparison_verdict_name(enum comparison_verdict verdict)
{
    static const char *const names[] = {"same", "better", "regression", "cannot tell"};
    return names[verdict];
}

// --- pairs

static bool is_drawn(const struct record *record)
{
    return record->sample_columns.count > 0;
}

// The records of a trial in one side, and which of them are pooled: those that may be, and whose threads waited as
// this record's did.
struct trial_side {
    const struct record_list *list;
    const struct record *waits;
};

static const struct record *pooled_at(const struct trial_side *trial, size_t i)
{
    const struct record *record = trial->list->records[i];
    bool pooled = rounds_belong(record, record_list_last(trial->list)) && record_waits_alike(record, trial->waits);
    return pooled ? record : NULL;
}

static size_t pooled_count(const struct trial_side *trial)
{
    size_t count = 0;
    for (size_t i = 0; i < trial->list->count; i++)
        count += pooled_at(trial, i) != NULL;
    return count;
}

// Of the ways in which threads waited, both sides are left the one that most records have in both, the latest of
// equals; *left_out counts the others.
static void choose_waits(struct trial_side *base, struct trial_side *new, size_t *left_out)
{
    struct trial_side a = *base, b = *new;
    size_t most = 0, pooled = 0, all = 0;
    base->waits = new->waits = record_list_last(new->list);
    for (size_t i = new->list->count; i-- > 0;) {
        a.waits = b.waits = new->list->records[i];
        if (most && record_waits_alike(a.waits, new->waits))
            continue;
        size_t before = pooled_count(&a), after = pooled_count(&b), least = before < after ? before : after;
        if (least > most) {
            most = least;
            pooled = before + after;
            base->waits = new->waits = a.waits;
        }
    }
    const struct trial_side *const sides[] = {base, new};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->list->count; i++)
            all += rounds_belong(sides[s]->list->records[i], record_list_last(sides[s]->list));
    *left_out += most ? all - pooled : 0;
}

// A draw of no column takes next to no time: held against the same one, it would only hide what the others show.
static bool is_empty_draw(const struct record *record, size_t sample)
{
    return sample < record->sample_columns.count && record->sample_columns.items[sample] == 0;
}

// What of a side's pooled records of a trial is known of processor time, and whether any was disturbed.
struct side_times {
    bool known, wanted;
};

static struct side_times times_of(const struct trial_side *trial)
{
    struct side_times times = {.known = true};
    for (size_t i = 0; i < trial->list->count; i++) {
        const struct record *record = pooled_at(trial, i);
        if (record) {
            times.known &= processor_time_known(record);
            times.wanted |= processor_time_wanted(record);
        }
    }
    return times;
}

enum pooling { POOL_SAMPLES, POOL_PROCESSOR_TIME, POOL_PROCESSOR_ROUNDS };

// The samples of a trial in one side, or their processor times, written to *end, which moves on.
static struct time_samples pool(const struct trial_side *trial, enum pooling pooling, double **end)
{
    struct time_run *runs = malloc((trial->list->count + 1) * sizeof *runs);
    CHECK(runs);
    size_t run_count = 0;
    for (size_t i = 0; i < trial->list->count; i++) {
        const struct record *record = pooled_at(trial, i);
        if (!record)
            continue;
        struct time_run run = {.ms = *end};
        const struct number_list *times = pooling == POOL_SAMPLES ? &record->samples_ms : &record->cpu_ms;
        for (size_t j = 0; j < times->count; j++)
            if (!is_empty_draw(record, j))
                run.ms[run.count++] = times->items[j];
        *end += run.count;
        if (run.count)
            runs[run_count++] = run;
    }
    struct time_samples samples = pooling == POOL_PROCESSOR_ROUNDS
                                      ? time_samples_rounds(runs, run_count)
                                      : time_samples_pool(runs, run_count, is_drawn(record_list_last(trial->list)));
    free(runs);
    return samples;
}

static size_t sample_count(const struct comparison_side *side)
{
    size_t count = 0;
    for (size_t i = 0; i < side->count; i++)
        count += side->records[i]->samples_ms.count;
    return count;
}

// Whether both sides have as many records of the trial, which `longbp run --against` takes in turn: beside other
// programs the processors' speed differs more from round to round than in one.
static bool in_rounds(const struct trial_side *base, const struct trial_side *new)
{
    size_t rounds = pooled_count(base);
    return rounds > 1 && rounds == pooled_count(new) && !is_drawn(record_list_last(base->list)) &&
           !is_drawn(record_list_last(new->list));
}

// The samples of a trial that both sides have, which go to *end, or why they may not be compared.
static void take_times(struct comparison *comparison, struct trial_comparison *trial, struct trial_side *base,
                       struct trial_side *new, double **end)
{
    struct time_trial *time = &trial->time;
    choose_waits(base, new, &comparison->other_waits);
    struct side_times before = times_of(base), after = times_of(new);
    time->processor_time = (before.wanted || after.wanted) && before.known && after.known;
    enum pooling pooling = time->processor_time ? POOL_PROCESSOR_TIME : POOL_SAMPLES;
    if (time->processor_time && in_rounds(base, new))
        pooling = POOL_PROCESSOR_ROUNDS;
    time->base = pool(base, pooling, end);
    time->new = pool(new, pooling, end);
    if (time->processor_time && trial->new->provenance.threads != 1) {
        time->clock_base = pool(base, POOL_SAMPLES, end);
        time->clock_new = pool(new, POOL_SAMPLES, end);
    }
    if (!record_same_machine(trial->base, trial->new))
        time->unusable = "measured on another processor or card, or with another number of threads";
    else if (is_drawn(trial->base) && is_drawn(trial->new) && !rounds_same_draws(trial->base, trial->new))
        time->unusable = "the same seeds drew other columns";
    else if (!time->base.count != !time->new.count && !record_waits_alike(trial->base, trial->new))
        time->unusable = "threads waited in another way at barriers (provenance.spin_count)";
}

static void make_pairs(struct comparison *comparison, const struct comparison_side *base,
                       const struct comparison_side *new)
{
    struct record_lists base_lists, new_lists;
    record_lists_make(&base_lists, base->records, base->keys, base->count);
    record_lists_make(&new_lists, new->records, new->keys, new->count);
    record_lists_match(&base_lists, &new_lists);
    comparison->trials = calloc(base_lists.count + new_lists.count + 1, sizeof *comparison->trials);
    comparison->samples = malloc((2 * (sample_count(base) + sample_count(new)) + 1) * sizeof *comparison->samples);
    CHECK(comparison->trials && comparison->samples);
    double *end = comparison->samples;
    for (size_t i = 0; i < base_lists.count; i++) {
        struct trial_comparison *trial = &comparison->trials[comparison->count++];
        const struct record_list *list = base_lists.in_order[i], *match = list->match;
        trial->base = record_list_last(list);
        trial->new = match ? record_list_last(match) : NULL;
        if (!match)
            continue;
        comparison->both++;
        if (record_one_is_planned(trial->base, trial->new))
            comparison->planned = record_is_planned(trial->base) ? "BASE" : "NEW";
        else if (trial->base->status == RECORD_OK && trial->new->status == RECORD_OK)
            take_times(comparison, trial, &(struct trial_side){.list = list}, &(struct trial_side){.list = match},
                       &end);
    }
    comparison->base_only = comparison->count - comparison->both;
    for (size_t i = 0; i < new_lists.count; i++)
        if (!new_lists.in_order[i]->match)
            comparison->trials[comparison->count++].new = record_list_last(new_lists.in_order[i]);
    comparison->new_only = comparison->count - comparison->base_only - comparison->both;
    record_lists_free(&base_lists);
    record_lists_free(&new_lists);
}

// --- names

static const struct record *either(const struct trial_comparison *trial)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    CHECK(record);
    return record;
}

static void name_trials(struct comparison *comparison)
{
    comparison->named = calloc(comparison->count + 1, sizeof *comparison->named);
    CHECK(comparison->named);
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        const struct record *record = comparison->named[i] = either(trial);
        snprintf(trial->context, sizeof trial->context, "%.0f", record->trial.context);
        trial->time.groups[0] = record_method(record);
        trial->time.groups[1] = trial->context;
        trial->time.groups[2] = record->trial.dtype;
    }
    trial_names_open(&comparison->names, comparison->named, comparison->count, true);
}

struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial)
{
    return trial_names_at(&comparison->names, (size_t)(trial - comparison->trials));
}

// --- changes

// 0: a result; 1: an end that a sweep expects; 2: a fault.
static int severity(enum record_status status)
{
    return status == RECORD_OK ? 0 : status == RECORD_CRASH || status == RECORD_FAILED ? 2 : 1;
}

// Of a trial that one side alone has: a result must not vanish, and what is new must not come with a fault.
static enum change single_change(const struct record *base, const struct record *new)
{
    if (base)
        return base->status == RECORD_OK ? CHANGE_LOST : CHANGE_OTHER;
    return severity(new->status) == 2 || new->status == RECORD_TIMEOUT ? CHANGE_WORSE : CHANGE_OTHER;
}

// A plan foresees what is out of memory, under the same limit; a measurement may end otherwise for what no plan
// knows of.
static enum change planned_status_change(const struct record *base, const struct record *new)
{
    bool base_planned = record_is_planned(base);
    enum record_status measured = base_planned ? new->status : base->status,
                       planned = base_planned ? base->status : new->status;
    bool foreseen = measured == RECORD_OK || measured == RECORD_OOM;
    bool limited = (planned == RECORD_OK || planned == RECORD_OOM) && record_one_is_limited(base, new);
    return measured == planned ? CHANGE_NONE : foreseen && !limited ? CHANGE_WORSE : CHANGE_OTHER;
}

static enum change status_change(const struct trial_comparison *trial, const struct comparison_options *options)
{
    if (!trial->base || !trial->new)
        return options->rules.settings ? CHANGE_OTHER : single_change(trial->base, trial->new);
    if (record_one_is_planned(trial->base, trial->new))
        return planned_status_change(trial->base, trial->new);
    enum record_status base = trial->base->status, new = trial->new->status;
    // Another machine may be too slow for the limit of time.
    if (options->deterministic && base == RECORD_OK && new == RECORD_TIMEOUT)
        return CHANGE_LOST;
    if (severity(base) != severity(new))
        return severity(new) > severity(base) ? CHANGE_WORSE : CHANGE_BETTER;
    return base == new ? CHANGE_NONE : CHANGE_OTHER;
}

static void compare_records(struct comparison *comparison, struct trial_comparison *trial)
{
    trial->status = status_change(trial, &comparison->options);
    bool both = trial->base && trial->new;
    if (!both || trial->base->status != RECORD_OK || trial->new->status != RECORD_OK)
        return;
    struct quantity_change changes[QUANTITY_CHANGES_MAX];
    trial->change_count = quantity_changes(changes, trial->base, trial->new, &comparison->options.rules);
    comparison->other_columns += record_other_columns(trial->base, trial->new);
    if (trial->change_count) {
        trial->changes = malloc(trial->change_count * sizeof *changes);
        CHECK(trial->changes);
        memcpy(trial->changes, changes, trial->change_count * sizeof *changes);
    }
    if (!comparison->options.rules.settings)
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
    if (comparison->planned)
        snprintf(comparison->time.reason, sizeof comparison->time.reason, "%s is planned, and a plan has none",
                 comparison->planned);
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
    static const enum change order[] = {CHANGE_WORSE, CHANGE_LOST, CHANGE_BETTER, CHANGE_ALLOWED, CHANGE_OTHER};
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        for (size_t j = 0; j < sizeof order / sizeof *order && trial->change == CHANGE_NONE; j++)
            trial->change = first_of(trial, order[j]);
        comparison->by_change[trial->change]++;
        comparison->processor_times += trial->time.processor_time && trial->time.judged;
        for (size_t j = 0; j < trial->change_count; j++)
            comparison->let_pass += trial->changes[j].change == CHANGE_ALLOWED;
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
    else if (comparison->other_columns && !comparison->options.rules.settings)
        reason = "the same seeds drew other columns, so that bytes, work and gradient error are not judged";
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

void comparison_make_sides(struct comparison *comparison, const struct comparison_side *base,
                           const struct comparison_side *new, const struct comparison_options *options)
{
    *comparison = (struct comparison){.options = *options};
    make_pairs(comparison, base, new);
    name_trials(comparison);
    for (size_t i = 0; i < comparison->count; i++)
        compare_records(comparison, &comparison->trials[i]);
    compare_times(comparison);
    count_changes(comparison);
    conclude(comparison);
}

void comparison_side_add(struct comparison_side *side, const struct record *record, const char *key)
{
    if ((side->count & (side->count - 1)) == 0) { // room for twice as many
        size_t capacity = side->count ? 2 * side->count : 1;
        side->records = realloc(side->records, capacity * sizeof *side->records);
        side->keys = realloc(side->keys, capacity * sizeof *side->keys);
        CHECK(side->records && side->keys);
    }
    side->records[side->count] = record;
    side->keys[side->count++] = key;
}

void comparison_side_free(struct comparison_side *side)
{
    free(side->records);
    free(side->keys);
    *side = (struct comparison_side){0};
}

static struct comparison_side side_of(const struct result_file *file)
{
    struct comparison_side side = {0};
    for (size_t i = 0; i < file->count; i++)
        comparison_side_add(&side, &file->records[i], file->records[i].id);
    return side;
}

bool comparison_is_whole(const struct result_file *file, struct status *status)
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
    if (!comparison_is_whole(base, status) || !comparison_is_whole(new, status))
        return false;
    struct comparison_side sides[2] = {side_of(base), side_of(new)};
    comparison_make_sides(comparison, &sides[0], &sides[1], options);
    comparison_side_free(&sides[0]);
    comparison_side_free(&sides[1]);
    return true;
}

void comparison_free(struct comparison *comparison)
{
    time_change_free(&comparison->time);
    trial_names_close(&comparison->names);
    for (size_t i = 0; i < comparison->count; i++)
        free(comparison->trials[i].changes);
    free(comparison->trials);
    free(comparison->named);
    free(comparison->samples);
    *comparison = (struct comparison){0};
}
