#include "harness/compare/comparison.h"
#include "harness/record/recorded_key.h"
#include "harness/record/rounds.h"
#include "harness/text/text.h"
#include <stdlib.h>
#include <string.h>

const struct comparison_count_words comparison_counts[COMPARISON_COUNTS] = {
    {"let_pass", "figure changed and was let pass by --allow", "figures changed and were let pass by --allow"},
    {"news", "figure is only in NEW, and not judged", "figures are only in NEW, and not judged"},
    {"older", "record of another revision or machine than its trial's last is left out",
     "records of another revision or machine than their trial's last are left out"},
    {"other_chunks", "pair drew other chunks: its figures of one draw are not judged",
     "pairs drew other chunks: their figures of one draw are not judged"},
    {"left_out", "timed record has no round in the other file to be held against",
     "timed records have no round in the other file to be held against"},
    {"processor_times", "trial is judged by processor time, for other programs disturbed it: waits are not in it",
     "trials are judged by processor time, for other programs disturbed them: waits are not in it"},
    {"missing", "trial is only in BASE", "trials are only in BASE"},
    {"inputs", "trial read other data or another model", "trials read other data or another model"},
    {"another", "trial has figures of other chunks or another loss",
     "trials have figures of other chunks or another loss"},
    {"unknown", "trial lacks figures that BASE has", "trials lack figures that BASE has"},
    {"ended", "trial ended in another way", "trials ended in another way"},
};

// --- pairs

// Keeps the rounds of a list that have the revision and machine of its last record.
static void keep_rounds(struct comparison *comparison, struct record_list *list)
{
    const struct record *last = record_list_last(list);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (rounds_same_build(list->records[i], last) && record_same_machine(list->records[i], last))
            list->records[kept++] = list->records[i];
    comparison->counts[COUNT_OLDER] += list->count - kept;
    list->count = kept;
}

static void add_trial(struct comparison *comparison, const struct record_list *base, const struct record_list *new)
{
    static const struct record_list none;
    comparison->trials[comparison->count++] =
        (struct trial_comparison){.base = base ? record_list_last(base) : NULL,
                                  .new = new ? record_list_last(new) : NULL,
                                  .rounds = {base ? base : &none, new ? new : &none}};
}

static void make_lists(struct comparison *comparison, const struct keyed_records *base,
                       const struct keyed_records *new, const struct comparison_options *options)
{
    *comparison = (struct comparison){.options = *options};
    record_lists_make(&comparison->lists[0], base);
    record_lists_make(&comparison->lists[1], new);
    record_lists_match(&comparison->lists[0], &comparison->lists[1]);
}

static void make_pairs(struct comparison *comparison)
{
    struct record_lists *lists = comparison->lists;
    comparison->trials = calloc(lists[0].count + lists[1].count + 1, sizeof *comparison->trials);
    CHECK(comparison->trials);
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < lists[side].count; i++)
            keep_rounds(comparison, &lists[side].lists[i]);
    for (size_t i = 0; i < lists[0].count; i++) {
        add_trial(comparison, lists[0].in_order[i], lists[0].in_order[i]->match);
        comparison->both += lists[0].in_order[i]->match != NULL;
    }
    for (size_t i = 0; i < lists[1].count; i++)
        if (!lists[1].in_order[i]->match)
            add_trial(comparison, NULL, lists[1].in_order[i]);
    comparison->base_only = lists[0].count - comparison->both;
    comparison->new_only = lists[1].count - comparison->both;
}

// --- names

static void name_trials(struct comparison *comparison)
{
    comparison->named = calloc(comparison->count + 1, sizeof *comparison->named);
    CHECK(comparison->named);
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        comparison->named[i] = trial->new ? trial->new : trial->base;
        CHECK(comparison->named[i]); // it is in at least one file
        snprintf(trial->context, sizeof trial->context, "%.0f", comparison->named[i]->trial.context);
    }
    trial_names_open(&comparison->names, comparison->named, comparison->count, true);
}

struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial)
{
    return trial_names_at(&comparison->names, (size_t)(trial - comparison->trials));
}

// --- status

// 0: a result; 1: an end that sweeps expect; 2: a fault.
static int severity(enum record_status status)
{
    return status == RECORD_OK ? 0 : status == RECORD_CRASH || status == RECORD_FAILED ? 2 : 1;
}

// How the rounds of one side ended.
struct ends {
    int worst;         // severity
    unsigned statuses; // bit i: some round ended with status i, and none with a worse severity
    size_t ok;
};

static struct ends ends_of(const struct record_list *rounds)
{
    struct ends ends = {0};
    for (size_t i = 0; i < rounds->count; i++) {
        enum record_status status = rounds->records[i]->status;
        ends.ok += status == RECORD_OK;
        if (severity(status) > ends.worst)
            ends.statuses = 0;
        ends.worst = severity(status) > ends.worst ? severity(status) : ends.worst;
        ends.statuses |= severity(status) == ends.worst ? 1U << status : 0;
    }
    return ends;
}

// The last of the rounds with the worst severity; among those, one whose status the other side does not have.
static const struct record *worst_round(const struct record_list *rounds, unsigned statuses, unsigned others)
{
    const struct record *worst = NULL;
    for (size_t i = 0; i < rounds->count; i++) {
        const struct record *record = rounds->records[i];
        bool among = statuses >> record->status & 1, known = others >> record->status & 1;
        if (among && (!worst || !known || others >> worst->status & 1))
            worst = record;
    }
    return worst;
}

// Judges a trial of one side: a missing one is worse, and a new one must not be a fault.
static enum verdict judge_single(const struct record *base, const struct record *new)
{
    CHECK(base || new);
    if (base)
        return VERDICT_UNDECIDED;
    return severity(new->status) == 2 || new->status == RECORD_TIMEOUT ? VERDICT_WORSE : VERDICT_NONE;
}

// A plan predicts out of memory under the same limit; other failures of a measurement are beyond plans.
static enum verdict judge_planned_status(const struct record *base, const struct record *new)
{
    bool base_planned = record_is_planned(base);
    enum record_status measured = base_planned ? new->status : base->status,
                       planned = base_planned ? base->status : new->status;
    bool foreseen = measured == RECORD_OK || measured == RECORD_OOM;
    bool limited = (planned == RECORD_OK || planned == RECORD_OOM) && record_one_is_limited(base, new);
    return measured == planned ? VERDICT_SAME : foreseen && !limited ? VERDICT_WORSE : VERDICT_NONE;
}

static enum verdict judge_status(struct trial_comparison *trial, const struct comparison_options *options)
{
    const struct ends before = ends_of(trial->rounds[0]), after = ends_of(trial->rounds[1]);
    const struct record *base = worst_round(trial->rounds[0], before.statuses, after.statuses),
                        *new = worst_round(trial->rounds[1], after.statuses, before.statuses);
    trial->statuses[0] = base;
    trial->statuses[1] = new;
    if (!base || !new)
        return options->rules.settings ? VERDICT_NONE : judge_single(base, new);
    if (record_one_is_planned(base, new))
        return judge_planned_status(base, new);
    // Another machine may be too slow for the time limit.
    if (options->deterministic && base->status == RECORD_OK && new->status == RECORD_TIMEOUT)
        return VERDICT_UNDECIDED;
    if (after.worst > before.worst || (before.ok && !after.ok))
        return VERDICT_WORSE;
    if (after.worst < before.worst)
        return VERDICT_BETTER;
    return before.statuses == after.statuses ? VERDICT_SAME : VERDICT_CHANGED;
}

// --- inputs, quantities, bits

static enum verdict judge_inputs(const struct trial_comparison *trial)
{
    const struct record *first = NULL;
    bool same = true;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < trial->rounds[side]->count; i++) {
            const struct record *record = trial->rounds[side]->records[i];
            if (record->status != RECORD_OK)
                continue;
            first = first ? first : record;
            same &= record_same_data(first, record) && record_same_model(first, record);
        }
    return same ? VERDICT_SAME : VERDICT_CHANGED;
}

// The first round of NEW whose bits differ from BASE's last.
static struct gradient_bits compare_bits(const struct trial_comparison *trial)
{
    struct gradient_bits bits = {0};
    for (size_t i = trial->rounds[1]->count; i-- > 0;) {
        struct gradient_bits other = gradient_bits_compare(trial->base, trial->rounds[1]->records[i]);
        if (!bits.known || other.changed)
            bits = other;
    }
    return bits;
}

static void compare_records(struct comparison *comparison, struct trial_comparison *trial)
{
    const struct comparison_options *options = &comparison->options;
    trial->status = judge_status(trial, options);
    if (!trial->base || !trial->new || !ends_of(trial->rounds[0]).ok || !ends_of(trial->rounds[1]).ok)
        return;
    bool planned = record_one_is_planned(trial->base, trial->new);
    if (planned)
        comparison->planned = record_is_planned(trial->base) ? "BASE" : "NEW";
    trial->inputs = options->rules.settings ? VERDICT_NONE : judge_inputs(trial);
    if (trial->inputs == VERDICT_CHANGED)
        return;
    trial->changes = quantity_changes(trial->rounds[0], trial->rounds[1], &options->rules);
    comparison->counts[COUNT_OTHER_CHUNKS] += trial->changes.other_chunks;
    if (!options->rules.settings)
        trial->bits = compare_bits(trial);
    if (!options->deterministic && !planned)
        trial->times = round_times_take(trial->rounds[0], trial->rounds[1], false);
}

// --- times

static struct time_trial time_of(const struct trial_comparison *trial, const struct round_times *times)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    return (struct time_trial){.groups = {record_method(record), trial->context, text_or(record->trial.dtype, "")},
                               .rounds = times->rounds,
                               .base = times->base,
                               .new = times->new,
                               .places = times->places,
                               .unusable = times->unusable};
}

// Processor time hides longer waits between threads, which the wall clock judges.
static void judge_waits(struct comparison *comparison)
{
    struct round_times *clocks = calloc(comparison->count + 1, sizeof *clocks);
    struct time_trial *by_clock = calloc(comparison->count + 1, sizeof *by_clock), *times = comparison->times;
    struct time_change change;
    CHECK(clocks && by_clock);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_comparison *trial = &comparison->trials[i];
        if (trial->times.processor_time && trial->new->provenance.threads != 1)
            clocks[i] = round_times_take(trial->rounds[0], trial->rounds[1], true);
        by_clock[i] = time_of(trial, &clocks[i]);
    }
    time_change_judge(&change, comparison->options.threshold, by_clock, comparison->count);
    for (size_t i = 0; i < comparison->count; i++) {
        free(clocks[i].base);
        if (by_clock[i].verdict == VERDICT_WORSE && times[i].verdict < VERDICT_UNDECIDED) {
            times[i].verdict = VERDICT_UNDECIDED;
            times[i].reason = "slower in wall time, not in processor time: threads waited, or other programs ran";
            comparison->time.verdict = verdict_worst(comparison->time.verdict, VERDICT_UNDECIDED);
        }
    }
    time_change_free(&change);
    free(clocks);
    free(by_clock);
}

static void compare_times(struct comparison *comparison)
{
    comparison->times = calloc(comparison->count + 1, sizeof *comparison->times);
    CHECK(comparison->times);
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        comparison->times[i] = time_of(trial, &trial->times);
        trial->time = &comparison->times[i];
        comparison->counts[COUNT_LEFT_OUT] += trial->times.left_out;
        comparison->counts[COUNT_PROCESSOR_TIMES] += trial->times.processor_time;
        for (size_t side = 0; side < 2; side++)
            comparison->left_rounds[side] |= trial->times.left_rounds[side];
    }
    time_change_judge(&comparison->time, comparison->options.threshold, comparison->times, comparison->count);
    if (comparison->counts[COUNT_PROCESSOR_TIMES])
        judge_waits(comparison);
}

// --- the verdict

static void count_trial(struct comparison *comparison, struct trial_comparison *trial)
{
    size_t *counts = comparison->counts;
    bool lost = false, another = false,
         open = trial->status == VERDICT_CHANGED || trial->status == VERDICT_UNDECIDED;
    trial->verdict = verdict_worst(verdict_worst(trial->status, trial->inputs), trial->time->verdict);
    for (size_t i = 0; i < trial->changes.count; i++) {
        const struct quantity_change *change = &trial->changes.items[i];
        trial->verdict = verdict_worst(trial->verdict, change->verdict);
        counts[COUNT_LET_PASS] += change->allowed != NULL;
        counts[COUNT_NEWS] += change->news;
        lost |= change->verdict == VERDICT_UNDECIDED;
        another |= change->verdict == VERDICT_CHANGED;
    }
    counts[COUNT_MISSING] += open && !trial->new;
    counts[COUNT_ENDED] += open && trial->new;
    counts[COUNT_INPUTS] += trial->inputs == VERDICT_CHANGED;
    counts[COUNT_ANOTHER] += another;
    counts[COUNT_UNKNOWN] += lost;
    comparison->by_verdict[trial->verdict]++;
    comparison->verdict = verdict_worst(comparison->verdict, trial->verdict);
    comparison->bits_known += trial->bits.known;
    comparison->bits_changed += trial->bits.changed > 0;
    comparison->bits_causes |= trial->bits.changed ? trial->bits.causes : 0;
}

static void append_times(struct comparison *comparison)
{
    const struct time_change *time = &comparison->time;
    char *reason = comparison->reason;
    if (time->verdict != VERDICT_UNDECIDED)
        return;
    text_append(reason, sizeof comparison->reason, "%stimes", *reason ? "; " : "");
    if (time->judged < time->timed)
        text_append(reason, sizeof comparison->reason, " (of %zu of %zu trials none can be judged)",
                    time->timed - time->judged, time->timed);
    if (time->rounds_wanted)
        text_append(reason, sizeof comparison->reason,
                    ": %zu rounds of each build would suffice, there %s %zu (`longbp run SPEC --rounds %zu "
                    "--against OTHER-BUILD`)",
                    time->rounds_wanted, time->rounds == 1 ? "is" : "are", time->rounds, time->rounds_wanted);
    else if (time->restless)
        text_append(reason, sizeof comparison->reason, ": not even %d rounds would do; use a quieter machine",
                    TIME_ROUNDS_MAX);
}

// Explains the verdicts changed and undecided.
static void explain(struct comparison *comparison)
{
    char *reason = comparison->reason;
    if (!comparison->both)
        text_append(reason, sizeof comparison->reason, "no trial is in both files");
    for (enum comparison_count i = COUNT_REASONS; i < COMPARISON_COUNTS; i++) {
        size_t count = comparison->counts[i];
        if (count)
            text_append(reason, sizeof comparison->reason, "%s%zu %s", *reason ? "; " : "", count,
                        count == 1 ? comparison_counts[i].one : comparison_counts[i].several);
    }
    append_times(comparison);
}

static void conclude(struct comparison *comparison)
{
    comparison->verdict =
        verdict_worst(comparison->time.verdict, comparison->both ? VERDICT_NONE : VERDICT_UNDECIDED);
    for (size_t i = 0; i < comparison->count; i++)
        count_trial(comparison, &comparison->trials[i]);
    if (comparison->verdict == VERDICT_CHANGED || comparison->verdict == VERDICT_UNDECIDED)
        explain(comparison);
}

static void compare(struct comparison *comparison)
{
    make_pairs(comparison);
    name_trials(comparison);
    for (size_t i = 0; i < comparison->count; i++)
        compare_records(comparison, &comparison->trials[i]);
    compare_times(comparison);
    conclude(comparison);
}

void comparison_make_sides(struct comparison *comparison, const struct keyed_records *base,
                           const struct keyed_records *new, const struct comparison_options *options)
{
    make_lists(comparison, base, new, options);
    compare(comparison);
}

// --- two files

bool comparison_is_whole(const struct result_file *file, struct status *status)
{
    return !file->torn_line || status_set(status, STATUS_BAD_INPUT,
                                          "%s:%zu: the last line is incomplete, and the missing rest might be "
                                          "worse. `longbp run` with the same --out completes the file",
                                          file->path, file->torn_line);
}

// An id is a hash of its trial: another trial with the same id was edited by hand.
static bool ids_hold(const struct comparison *comparison, struct status *status)
{
    const char *key = NULL, *id = "";
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < comparison->lists[side].count; i++) {
            const struct record_list *list = &comparison->lists[side].lists[i];
            const struct record *first = list->match && side ? list->match->records[0] : list->records[0];
            for (size_t j = 0; !key && j < list->count; j++) {
                key = recorded_key_differing(first, list->records[j]);
                id = list->key;
            }
        }
    return !key || status_set(status, STATUS_BAD_INPUT,
                              "id %s: two trials that differ in \"%s\" have it; an id is a hash of its trial, so "
                              "that one of the records was edited. Measure it anew",
                              id, key);
}

bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status)
{
    const struct result_file *const files[2] = {base, new};
    struct keyed_records sides[2] = {0};
    *comparison = (struct comparison){0};
    if (!comparison_is_whole(base, status) || !comparison_is_whole(new, status))
        return false;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < files[side]->count; i++)
            keyed_records_add(&sides[side], &files[side]->records[i], files[side]->records[i].id);
    make_lists(comparison, &sides[0], &sides[1], options);
    bool fine = ids_hold(comparison, status);
    if (fine)
        compare(comparison);
    keyed_records_free(&sides[0]);
    keyed_records_free(&sides[1]);
    return fine;
}

void comparison_free(struct comparison *comparison)
{
    time_change_free(&comparison->time);
    trial_names_close(&comparison->names);
    for (size_t i = 0; i < comparison->count; i++) {
        free(comparison->trials[i].changes.items);
        free(comparison->trials[i].times.base);
    }
    for (size_t side = 0; side < 2; side++)
        record_lists_free(&comparison->lists[side]);
    free(comparison->trials);
    free(comparison->times);
    free(comparison->named);
    *comparison = (struct comparison){0};
}
