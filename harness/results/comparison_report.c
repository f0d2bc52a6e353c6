#include "harness/results/comparison_report.h"
#include <math.h>
#include <string.h>

static const char *const axis_names[TIME_AXES] = {"method", "context", "dtype"};

// Whether a trial's times are worth a line by themselves.
static bool time_shown(const struct trial_comparison *trial, bool all)
{
    bool measured = trial->time.verdict != TIME_NOT_MEASURED;
    return measured && (all || trial->time.regression || trial->time.open);
}

// Changed bits are worth a line by themselves where nothing explains them but the program.
static bool bits_shown(const struct trial_comparison *trial, bool all)
{
    return trial->bits.changed && (all || !trial->bits.causes);
}

static bool trial_shown(const struct trial_comparison *trial, bool all)
{
    return all || trial->change != CHANGE_NONE || bits_shown(trial, all);
}

// --- table

static void print_head(const struct trial_comparison *trial, const char *change)
{
    printf("%-11s %.8s  %s: ", change, (trial->new ? trial->new : trial->base)->id, trial->what);
}

static void print_status(const struct trial_comparison *trial)
{
    print_head(trial, trial->status == CHANGE_ALLOWED ? "other" : change_name(trial->status));
    if (!trial->new)
        printf("only in BASE (%s)\n", record_status_name(trial->base->status));
    else if (!trial->base)
        printf("only in NEW (%s)\n", record_status_name(trial->new->status));
    else
        printf("%s became %s%s%.160s\n", record_status_name(trial->base->status),
               record_status_name(trial->new->status), *text_or(trial->new->reason, "") ? ": " : "",
               text_or(trial->new->reason, ""));
}

static void print_value(double value)
{
    if (isnan(value))
        printf("unknown");
    else if (value == floor(value))
        printf("%.0f", value);
    else
        printf("%.4g", value);
}

static void print_quantity(const struct trial_comparison *trial, const struct quantity_change *change)
{
    print_head(trial, change_name(change->change));
    printf("%s ", change->name);
    print_value(change->base);
    printf(" -> ");
    print_value(change->new);
    if (change->base > 0 && isfinite(change->new))
        printf(" (%+.3g %%)", 100 * (change->new / change->base - 1));
    putchar('\n');
}

static void print_bits(const struct trial_comparison *trial)
{
    print_head(trial, "bits");
    printf("gradient bits changed in %zu of %zu tensors, first in %s\n", trial->bits.changed, trial->bits.tensors,
           trial->bits.first);
}

static void print_ratio(struct shift ratio)
{
    printf("x%.3f [%.3f, %.3f]", ratio.estimate, ratio.low, ratio.high);
}

static const char *time_word(enum time_verdict verdict, bool open)
{
    return open ? "slower?" : time_verdict_name(verdict);
}

static void print_time(const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    print_head(trial, time_word(time->verdict, time->open));
    if (time->judged) {
        printf("time %.4g ms -> %.4g ms, ", time_samples_middle(time->base), time_samples_middle(time->new));
        if (time->base.draws)
            printf("mean of %zu draws, ", time->base.draws);
        print_ratio(time->ratio);
        printf(", p %.2g, for so many trials %.2g", time->p, time->p_holm);
    } else {
        printf("time, %zu and %zu samples", time->base.count, time->new.count);
    }
    printf("%s%s\n", *time->reason ? ": " : "", time->reason);
}

static void print_trial(const struct trial_comparison *trial, bool all)
{
    if (trial->status != CHANGE_NONE)
        print_status(trial);
    for (size_t i = 0; i < trial->change_count; i++)
        print_quantity(trial, &trial->changes[i]);
    if (bits_shown(trial, all))
        print_bits(trial);
    if (time_shown(trial, all))
        print_time(trial);
    else if (all && trial->change == CHANGE_NONE && !trial->bits.changed) {
        print_head(trial, "same");
        printf("%s\n", record_status_name(trial->new->status));
    }
}

static void print_group(const struct time_group *group)
{
    bool open = group->open || (group->verdict == TIME_SLOWER && !group->regression);
    printf("%-11s %s%s%s: time ", time_word(group->verdict, open), group->axis < 0 ? "" : axis_names[group->axis],
           group->axis < 0 ? "" : " ", group->name);
    print_ratio(group->ratio);
    printf(" over %zu trials\n", group->trials);
}

static void print_times(const struct time_change *time, bool all)
{
    for (size_t i = 0; i < time->group_count; i++) {
        const struct time_group *group = &time->groups[i];
        if (all || group->regression || group->open || group->verdict == TIME_FASTER)
            print_group(group);
    }
    if (time->judged)
        print_group(&time->all);
}

static void print_bits_summary(const struct comparison *comparison)
{
    if (!comparison->bits_known)
        return;
    printf("gradients: bits changed in %zu of %zu trials", comparison->bits_changed, comparison->bits_known);
    const char *separator = "; not the same in both: ";
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++) {
        if (comparison->bits_causes >> i & 1) {
            printf("%s%s", separator, gradient_bits_causes[i]);
            separator = ", ";
        }
    }
    putchar('\n');
}

static void print_summary(const struct comparison *comparison)
{
    const size_t *trials = comparison->by_change;
    printf("%zu trials in both, %zu only in BASE, %zu only in NEW: %zu worse, %zu open, %zu better, %zu otherwise "
           "changed\n",
           comparison->both, comparison->base_only, comparison->new_only, trials[CHANGE_WORSE], trials[CHANGE_LOST],
           trials[CHANGE_BETTER], trials[CHANGE_ALLOWED]);
    print_bits_summary(comparison);
    if (comparison->options.deterministic)
        printf("times: left out\n");
    else
        printf("times: %s (%zu of %zu trials judged, threshold %.3g %%)\n",
               time_verdict_name(comparison->time.verdict), comparison->time.judged, comparison->time.measured,
               100 * comparison->options.threshold);
    printf("verdict: %s%s%s\n", comparison_verdict_name(comparison->verdict), *comparison->reason ? ": " : "",
           comparison->reason);
}

void comparison_print(const struct comparison *comparison, bool all)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (trial_shown(&comparison->trials[i], all))
            print_trial(&comparison->trials[i], all);
    print_times(&comparison->time, all);
    print_summary(comparison);
}

// --- JSON

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(value && json_object_set_new(object, key, value) == 0);
}

static void set_ratio(json_t *object, bool known, struct shift ratio)
{
    set(object, "ratio", known ? number(ratio.estimate) : json_null());
    set(object, "low", known ? number(ratio.low) : json_null());
    set(object, "high", known ? number(ratio.high) : json_null());
}

static json_t *group_json(const struct time_group *group)
{
    json_t *object = json_object();
    set(object, "axis", group->axis < 0 ? json_null() : json_string(axis_names[group->axis]));
    set(object, "name", json_string(group->name));
    set(object, "trials", json_integer((json_int_t)group->trials));
    set(object, "verdict", json_string(time_verdict_name(group->verdict)));
    set_ratio(object, group->trials > 0, group->ratio);
    set(object, "regression", json_boolean(group->regression));
    set(object, "open", json_boolean(group->open));
    return object;
}

static json_t *times_json(const struct comparison *comparison)
{
    const struct time_change *time = &comparison->time;
    json_t *object = json_object(), *groups = json_array();
    set(object, "verdict", json_string(time_verdict_name(time->verdict)));
    set(object, "reason", json_string(time->reason));
    set(object, "threshold", number(time->threshold));
    set(object, "measured", json_integer((json_int_t)time->measured));
    set(object, "judged", json_integer((json_int_t)time->judged));
    set(object, "unsteady", json_integer((json_int_t)time->unsteady));
    set(object, "spread", time->spread_known ? number(time->spread) : json_null());
    set(object, "shared", number(time->shared));
    set(object, "disturbed", number(time->disturbed));
    set(object, "chance", number(time->chance));
    set(object, "all", group_json(&time->all));
    for (size_t i = 0; i < time->group_count; i++)
        json_array_append_new(groups, group_json(&time->groups[i]));
    set(object, "groups", groups);
    return object;
}

static json_t *middle_json(struct time_samples samples)
{
    return samples.count ? number(time_samples_middle(samples)) : json_null();
}

static json_t *time_json(const struct time_trial *time)
{
    if (time->verdict == TIME_NOT_MEASURED)
        return json_null();
    json_t *object = json_object();
    set(object, "verdict", json_string(time_verdict_name(time->verdict)));
    set(object, "reason", json_string(time->reason));
    set_ratio(object, time->judged, time->ratio);
    set(object, "p", time->judged ? number(time->p) : json_null());
    set(object, "p_holm", time->judged ? number(time->p_holm) : json_null());
    set(object, "regression", json_boolean(time->regression));
    set(object, "open", json_boolean(time->open));
    set(object, "base_samples", json_integer((json_int_t)time->base.taken));
    set(object, "new_samples", json_integer((json_int_t)time->new.taken));
    set(object, "draws", json_integer((json_int_t)time->base.draws));
    set(object, "base_ms", middle_json(time->base));
    set(object, "new_ms", middle_json(time->new));
    return object;
}

static json_t *quantity_json(const struct quantity_change *change)
{
    json_t *object = json_object();
    set(object, "name", json_string(change->name));
    set(object, "base", number(change->base));
    set(object, "new", number(change->new));
    set(object, "change", json_string(change_name(change->change)));
    return object;
}

static json_t *bits_json(const struct gradient_bits *bits)
{
    if (!bits->known)
        return json_null();
    json_t *object = json_object();
    set(object, "tensors", json_integer((json_int_t)bits->tensors));
    set(object, "changed", json_integer((json_int_t)bits->changed));
    set(object, "first", bits->first ? json_string(bits->first) : json_null());
    return object;
}

static json_t *bits_summary_json(const struct comparison *comparison)
{
    json_t *object = json_object(), *causes = json_array();
    set(object, "known", json_integer((json_int_t)comparison->bits_known));
    set(object, "changed", json_integer((json_int_t)comparison->bits_changed));
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++)
        if (comparison->bits_causes >> i & 1)
            json_array_append_new(causes, json_string(gradient_bits_causes[i]));
    set(object, "not_the_same", causes);
    return object;
}

static json_t *status_json(const struct record *record)
{
    return record ? json_string(record_status_name(record->status)) : json_null();
}

static json_t *trial_json(const struct trial_comparison *trial)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    json_t *object = json_object(), *status = json_object(), *quantities = json_array();
    set(object, "id", json_string(record->id));
    set(object, "what", json_string(trial->what));
    set(object, "command", record->command ? json_string(record->command) : json_null());
    set(object, "change", json_string(change_name(trial->change)));
    set(status, "base", status_json(trial->base));
    set(status, "new", status_json(trial->new));
    set(status, "change", json_string(change_name(trial->status)));
    set(object, "status", status);
    for (size_t i = 0; i < trial->change_count; i++)
        json_array_append_new(quantities, quantity_json(&trial->changes[i]));
    set(object, "quantities", quantities);
    set(object, "gradient_bits", bits_json(&trial->bits));
    set(object, "time", time_json(&trial->time));
    return object;
}

json_t *comparison_json(const struct comparison *comparison, bool all)
{
    const size_t *by_change = comparison->by_change;
    json_t *object = json_object(), *trials = json_object(), *changed = json_array();
    set(object, "verdict", json_string(comparison_verdict_name(comparison->verdict)));
    set(object, "reason", json_string(comparison->reason));
    set(trials, "both", json_integer((json_int_t)comparison->both));
    set(trials, "base_only", json_integer((json_int_t)comparison->base_only));
    set(trials, "new_only", json_integer((json_int_t)comparison->new_only));
    set(trials, "worse", json_integer((json_int_t)by_change[CHANGE_WORSE]));
    set(trials, "open", json_integer((json_int_t)by_change[CHANGE_LOST]));
    set(trials, "better", json_integer((json_int_t)by_change[CHANGE_BETTER]));
    set(trials, "allowed", json_integer((json_int_t)by_change[CHANGE_ALLOWED]));
    set(trials, "same", json_integer((json_int_t)by_change[CHANGE_NONE]));
    set(object, "trials", trials);
    set(object, "gradient_bits", bits_summary_json(comparison));
    set(object, "time", times_json(comparison));
    for (size_t i = 0; i < comparison->count; i++)
        if (trial_shown(&comparison->trials[i], all))
            json_array_append_new(changed, trial_json(&comparison->trials[i]));
    set(object, "changed", changed);
    return object;
}
