#include "harness/compare/comparison.h"
#include "harness/files/text.h"
#include "harness/results/record.h"
#include "harness/results/recorded_key.h"
#include "harness/results/rounds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- pairs

// The rounds of a list: what the revision and the machine of its last record measured. Written to *end, which moves
// on.
static struct record_list rounds_of(const struct record_list *list, const struct record ***end)
{
    struct record_list rounds = {.key = list->key, .records = *end};
    const struct record *last = record_list_last(list);
    for (size_t i = 0; i < list->count; i++)
        if (rounds_same_build(list->records[i], last) && record_same_machine(list->records[i], last))
            rounds.records[rounds.count++] = list->records[i];
    *end += rounds.count;
    return rounds;
}

static void set_side(struct comparison *comparison, struct trial_comparison *trial, size_t side,
                     const struct record_list *list, const struct record ***end)
{
    const struct record *last = record_list_last(list);
    *(side ? &trial->new : &trial->base) = last;
    trial->rounds[side] = rounds_of(list, end);
    comparison->older += list->count - trial->rounds[side].count;
}

static void make_pairs(struct comparison *comparison, const struct comparison_side *base,
                       const struct comparison_side *new)
{
    struct record_lists *lists = comparison->lists;
    record_lists_make(&lists[0], base->records, base->keys, base->count);
    record_lists_make(&lists[1], new->records, new->keys, new->count);
    record_lists_match(&lists[0], &lists[1]);
    comparison->trials = calloc(lists[0].count + lists[1].count + 1, sizeof *comparison->trials);
    comparison->rounds = calloc(base->count + new->count + 1, sizeof *comparison->rounds);
    CHECK(comparison->trials && comparison->rounds);
    const struct record **end = comparison->rounds;
    for (size_t i = 0; i < lists[0].count; i++) {
        const struct record_list *list = lists[0].in_order[i];
        struct trial_comparison *trial = &comparison->trials[comparison->count++];
        set_side(comparison, trial, 0, list, &end);
        if (list->match)
            set_side(comparison, trial, 1, list->match, &end);
        comparison->both += list->match != NULL;
    }
    comparison->base_only = comparison->count - comparison->both;
    for (size_t i = 0; i < lists[1].count; i++)
        if (!lists[1].in_order[i]->match)
            set_side(comparison, &comparison->trials[comparison->count++], 1, lists[1].in_order[i], &end);
    comparison->new_only = comparison->count - comparison->base_only - comparison->both;
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
        trial->time.groups[2] = text_or(record->trial.dtype, "");
    }
    trial_names_open(&comparison->names, comparison->named, comparison->count, true);
}

struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial)
{
    return trial_names_at(&comparison->names, (size_t)(trial - comparison->trials));
}

// --- status

// 0: a result; 1: an end that a sweep expects; 2: a fault.
static int severity(enum record_status status)
{
    return status == RECORD_OK ? 0 : status == RECORD_CRASH || status == RECORD_FAILED ? 2 : 1;
}

// The last of the rounds that ended worst; of those, one that ended as none of the other side's did.
static const struct record *worst_round(const struct record_list *rounds, unsigned others)
{
    const struct record *worst = NULL;
    for (size_t i = 0; i < rounds->count; i++) {
        const struct record *record = rounds->records[i];
        int more = worst ? severity(record->status) - severity(worst->status) : 1;
        bool known = others >> record->status & 1, worst_known = worst && others >> worst->status & 1;
        if (more > 0 || (more == 0 && (!known || worst_known)))
            worst = record;
    }
    return worst;
}

// Bit i: some round ended with status i, and none worse.
static unsigned statuses_of(const struct record_list *rounds)
{
    unsigned statuses = 0;
    int worst = 0;
    for (size_t i = 0; i < rounds->count; i++) {
        enum record_status status = rounds->records[i]->status;
        statuses = severity(status) > worst ? 0 : statuses;
        worst = severity(status) > worst ? severity(status) : worst;
        statuses |= severity(status) == worst ? 1U << status : 0;
    }
    return statuses;
}

static size_t count_ok(const struct record_list *rounds)
{
    size_t count = 0;
    for (size_t i = 0; i < rounds->count; i++)
        count += rounds->records[i]->status == RECORD_OK;
    return count;
}

// A trial that one side alone has: none must vanish, and a new one must not come with a fault.
static enum verdict judge_single(const struct record *base, const struct record *new)
{
    CHECK(base || new);
    if (base)
        return VERDICT_UNDECIDED;
    return severity(new->status) == 2 || new->status == RECORD_TIMEOUT ? VERDICT_WORSE : VERDICT_NONE;
}

// A plan foresees what is out of memory, under the same limit; a measurement may end otherwise for what no plan
// knows of.
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
    const unsigned before = statuses_of(&trial->rounds[0]), after = statuses_of(&trial->rounds[1]);
    const struct record *base = trial->statuses[0] = worst_round(&trial->rounds[0], after),
                        *new = trial->statuses[1] = worst_round(&trial->rounds[1], before);
    if (!base || !new)
        return options->rules.settings ? VERDICT_NONE : judge_single(base, new);
    if (record_one_is_planned(base, new))
        return judge_planned_status(base, new);
    bool none_left = count_ok(&trial->rounds[0]) && !count_ok(&trial->rounds[1]);
    // Another machine may be too slow for the limit of time.
    if (options->deterministic && base->status == RECORD_OK && new->status == RECORD_TIMEOUT)
        return VERDICT_UNDECIDED;
    if (severity(new->status) > severity(base->status) || none_left)
        return VERDICT_WORSE;
    if (severity(new->status) < severity(base->status))
        return VERDICT_BETTER;
    return before == after ? VERDICT_SAME : VERDICT_CHANGED;
}

// --- inputs, quantities, bits

static enum verdict judge_inputs(const struct trial_comparison *trial)
{
    const struct record *first = NULL;
    bool same = true;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < trial->rounds[side].count; i++) {
            const struct record *record = trial->rounds[side].records[i];
            if (record->status != RECORD_OK)
                continue;
            first = first ? first : record;
            same &= record_same_data(first, record) && record_same_model(first, record);
        }
    return same ? VERDICT_SAME : VERDICT_CHANGED;
}

// The first round of NEW whose bits are not those of BASE's last.
static struct gradient_bits compare_bits(const struct trial_comparison *trial)
{
    struct gradient_bits bits = {0};
    for (size_t i = trial->rounds[1].count; i-- > 0;) {
        struct gradient_bits other = gradient_bits_compare(trial->base, trial->rounds[1].records[i]);
        if (!bits.known || other.changed)
            bits = other;
    }
    return bits;
}

static void compare_records(struct comparison *comparison, struct trial_comparison *trial)
{
    const struct comparison_options *options = &comparison->options;
    trial->status = judge_status(trial, options);
    if (!trial->base || !trial->new || !count_ok(&trial->rounds[0]) || !count_ok(&trial->rounds[1]))
        return;
    bool planned = record_one_is_planned(trial->base, trial->new);
    if (planned)
        comparison->planned = record_is_planned(trial->base) ? "BASE" : "NEW";
    trial->inputs = options->rules.settings ? VERDICT_NONE : judge_inputs(trial);
    if (trial->inputs == VERDICT_CHANGED)
        return;
    trial->changes = quantity_changes(&trial->rounds[0], &trial->rounds[1], &options->rules);
    comparison->other_columns += quantity_other_columns(&trial->rounds[0], &trial->rounds[1]);
    if (!options->rules.settings)
        trial->bits = compare_bits(trial);
    if (!options->deterministic && !planned)
        trial->times = round_times_take(&trial->rounds[0], &trial->rounds[1], false);
}

// --- times

static void set_times(struct time_trial *time, const struct round_times *times)
{
    time->rounds = times->rounds;
    time->base = times->base;
    time->new = times->new;
    time->unusable = times->unusable;
}

// Processor time does not grow where threads wait for each other longer than before: the clock judges that.
static void judge_waits(struct comparison *comparison, struct time_trial *times)
{
    struct round_times *clocks = calloc(comparison->count + 1, sizeof *clocks);
    struct time_trial *by_clock = calloc(comparison->count + 1, sizeof *by_clock);
    struct time_change change;
    bool any = false;
    CHECK(clocks && by_clock);
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        if (trial->times.processor_time && trial->new->provenance.threads != 1) {
            clocks[i] = round_times_take(&trial->rounds[0], &trial->rounds[1], true);
            memcpy(by_clock[i].groups, trial->time.groups, sizeof by_clock[i].groups);
            set_times(&by_clock[i], &clocks[i]);
            any = true;
        }
    }
    if (any) {
        time_change_judge(&change, comparison->options.threshold, by_clock, comparison->count);
        for (size_t i = 0; i < comparison->count; i++)
            if (by_clock[i].verdict == VERDICT_WORSE && times[i].verdict < VERDICT_UNDECIDED) {
                times[i].verdict = VERDICT_UNDECIDED;
                times[i].reason = "slower by the clock, but not by processor time: threads waited, or other "
                                  "programs ran";
                comparison->time.verdict = verdict_worst(comparison->time.verdict, VERDICT_UNDECIDED);
            }
        time_change_free(&change);
    }
    for (size_t i = 0; i < comparison->count; i++)
        free(clocks[i].base);
    free(clocks);
    free(by_clock);
}

// Times are judged in one array, for they are judged together.
static void compare_times(struct comparison *comparison)
{
    struct time_trial *times = calloc(comparison->count + 1, sizeof *times);
    CHECK(times);
    for (size_t i = 0; i < comparison->count; i++) {
        times[i] = comparison->trials[i].time;
        set_times(&times[i], &comparison->trials[i].times);
    }
    time_change_judge(&comparison->time, comparison->options.threshold, times, comparison->count);
    judge_waits(comparison, times);
    for (size_t i = 0; i < comparison->count; i++) {
        struct trial_comparison *trial = &comparison->trials[i];
        trial->time = times[i];
        comparison->left_out += trial->times.left_out;
        comparison->processor_times += trial->times.processor_time;
    }
    free(times);
}

// --- the verdict

static void count_trial(struct comparison *comparison, struct trial_comparison *trial)
{
    trial->verdict = verdict_worst(verdict_worst(trial->status, trial->inputs), trial->time.verdict);
    for (size_t i = 0; i < trial->changes.count; i++) {
        const struct quantity_change *change = &trial->changes.items[i];
        trial->verdict = verdict_worst(trial->verdict, change->verdict);
        comparison->let_pass += change->allowed != NULL;
        comparison->news += change->news;
    }
    comparison->by_verdict[trial->verdict]++;
    comparison->bits_known += trial->bits.known;
    if (trial->bits.changed) {
        comparison->bits_changed++;
        comparison->bits_causes |= trial->bits.causes;
    }
}

static void append(struct comparison *comparison, size_t count, const char *one, const char *several)
{
    if (count)
        text_append(comparison->reason, sizeof comparison->reason, "%s%zu %s", *comparison->reason ? "; " : "",
                    count, count == 1 ? one : several);
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
                    ": %zu rounds of each build in turn would do, there %s %zu (`longbp run SPEC --rounds %zu "
                    "--against OTHER-BUILD`)",
                    time->rounds_wanted, time->rounds == 1 ? "is" : "are", time->rounds, time->rounds_wanted);
    else if (time->restless)
        text_append(reason, sizeof comparison->reason, ": not even %d rounds would do; use a quieter machine",
                    TIME_ROUNDS_MOST);
}

// Why nothing better can be said than that it changed, or that it is undecided.
static void explain(struct comparison *comparison)
{
    size_t inputs = 0, columns = 0, missing = 0, unknown = 0, ended = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_comparison *trial = &comparison->trials[i];
        bool lost = false, other = false;
        for (size_t j = 0; j < trial->changes.count; j++) {
            lost |= trial->changes.items[j].verdict == VERDICT_UNDECIDED;
            other |= trial->changes.items[j].verdict == VERDICT_CHANGED;
        }
        inputs += trial->inputs == VERDICT_CHANGED;
        columns += other;
        unknown += lost;
        missing += !trial->new && trial->status == VERDICT_UNDECIDED;
        ended += trial->new && (trial->status == VERDICT_CHANGED || trial->status == VERDICT_UNDECIDED);
    }
    if (!comparison->both)
        text_append(comparison->reason, sizeof comparison->reason, "no trial is in both files");
    append(comparison, missing, "trial is only in BASE", "trials are only in BASE");
    append(comparison, inputs, "trial read other data or another model", "trials read other data or another model");
    append(comparison, columns, "trial has figures of other columns or another loss",
           "trials have figures of other columns or another loss");
    append(comparison, unknown, "trial lacks figures that BASE has", "trials lack figures that BASE has");
    append(comparison, ended, "trial ended in another way", "trials ended in another way");
    append_times(comparison);
}

static void conclude(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++)
        count_trial(comparison, &comparison->trials[i]);
    comparison->verdict = comparison->time.verdict;
    for (enum verdict i = VERDICT_NONE; i < VERDICT_COUNT; i++)
        if (comparison->by_verdict[i])
            comparison->verdict = verdict_worst(comparison->verdict, i);
    if (!comparison->both)
        comparison->verdict = verdict_worst(comparison->verdict, VERDICT_UNDECIDED);
    if (comparison->verdict == VERDICT_CHANGED || comparison->verdict == VERDICT_UNDECIDED)
        explain(comparison);
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

// --- two files

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

// Whether two values are equal, as far as both say: an earlier version had fewer members.
static bool agree(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *member;
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_object(a) || !json_is_object(b))
        return json_equal(a, b);
    bool same = true;
    json_object_foreach((json_t *)a, name, member)
    {
        const json_t *other = json_object_get(b, name);
        same &= !other || agree(member, other);
    }
    return same;
}

// The first key of a trial in which two records differ that both say it; NULL: none.
static const char *differing_key(const struct record *a, const struct record *b)
{
    const char *differing = NULL;
    for (const struct trial_key *key = trial_keys; !differing && key->name; key++) {
        struct recorded_key recorded = recorded_key_of(key);
        if (recorded_key_alike(recorded, a, b))
            continue;
        json_t *one = recorded_key_value(recorded, a), *other = recorded_key_value(recorded, b);
        differing = one && other && !agree(one, other) ? key->name : NULL;
        json_decref(one);
        json_decref(other);
    }
    return differing;
}

// An id is a hash of its trial: another trial under it was written by hand.
static bool ids_hold(const struct comparison *comparison, struct status *status)
{
    for (size_t side = 0; side < 2; side++) {
        const struct record_lists *lists = &comparison->lists[side];
        for (size_t i = 0; i < lists->count; i++) {
            const struct record_list *list = &lists->lists[i];
            const struct record *first = list->match && side ? list->match->records[0] : list->records[0];
            for (size_t j = 0; j < list->count; j++) {
                const char *key = differing_key(first, list->records[j]);
                if (key)
                    return status_set(status, STATUS_BAD_INPUT,
                                      "id %s: two trials that differ in \"%s\" have it; an id is a hash of its "
                                      "trial, so that one of the records was edited. Measure it anew",
                                      list->key, key);
            }
        }
    }
    return true;
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
    return ids_hold(comparison, status);
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
    free(comparison->rounds);
    free(comparison->named);
    *comparison = (struct comparison){0};
}
