#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *checked(json_t *value)
{
    CHECK(value);
    return value;
}

static json_t *number(double value)
{
    return checked(isfinite(value) ? json_real(value) : json_null());
}

static json_int_t integer(size_t value)
{
    return (json_int_t)value;
}

static json_t *group_json(const struct time_group *group)
{
    const char *axis = group->axis < 0 ? NULL : comparison_axis_names[group->axis];
    return checked(json_pack("{s:s?, s:s, s:I, s:s, s:o, s:o, s:o}", "axis", axis, "name", group->name, "trials",
                             integer(group->trials), "verdict", verdict_name(group->verdict), "ratio",
                             number(group->ratio.estimate), "low", number(group->ratio.low), "high",
                             number(group->ratio.high)));
}

static json_t *times_json(const struct time_change *time)
{
    json_t *groups = json_array(),
           *wanted = time->rounds_wanted ? json_integer(integer(time->rounds_wanted)) : json_null();
    for (size_t i = 0; i < time->group_count; i++)
        json_array_append_new(groups, group_json(&time->groups[i]));
    return checked(json_pack("{s:s, s:f, s:I, s:I, s:I, s:o, s:b, s:o, s:f, s:o, s:o}", "verdict",
                             verdict_name(time->verdict), "threshold", time->threshold, "timed",
                             integer(time->timed), "judged", integer(time->judged), "rounds", integer(time->rounds),
                             "rounds_wanted", wanted, "paired", time->paired, "error", number(time->error),
                             "disturbed", time->disturbed, "all", group_json(&time->all), "groups", groups));
}

static json_t *least_json(const double *logs, size_t rounds)
{
    return number(rounds ? exp(sample_quantile(logs, rounds, 0)) : NAN);
}

static json_t *time_json(const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    if (time->verdict == VERDICT_NONE)
        return json_null();
    return checked(json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:b, s:o, s:o}", "verdict",
                             verdict_name(time->verdict), "reason", time->reason, "ratio",
                             number(time->ratio.estimate), "low", number(time->ratio.low), "high",
                             number(time->ratio.high), "rounds", integer(time->rounds), "processor_time",
                             trial->times.processor_time, "base_ms", least_json(trial->times.base, time->rounds),
                             "new_ms", least_json(trial->times.new, time->rounds)));
}

static json_t *bits_json(const struct gradient_bits *bits)
{
    return bits->known ? checked(json_pack("{s:I, s:I, s:s?}", "tensors", integer(bits->tensors), "changed",
                                           integer(bits->changed), "first", bits->first))
                       : json_null();
}

static const char *status_text(const struct record *record)
{
    return record ? record_status_name(record->status) : NULL;
}

static json_t *trial_json(const struct comparison *comparison, const struct trial_comparison *trial)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    json_t *quantities = json_array();
    for (size_t i = 0; i < trial->changes.count; i++) {
        const struct quantity_change *change = &trial->changes.items[i];
        json_array_append_new(quantities, json_pack("{s:s, s:o, s:o, s:s, s:s?}", "name", change->name, "base",
                                                    number(change->base), "new", number(change->new), "verdict",
                                                    verdict_name(change->verdict), "allowance", change->allowed));
    }
    return checked(json_pack("{s:s, s:s, s:s?, s:s, s:{s:s?, s:s?, s:s}, s:s, s:o, s:o, s:o}", "id", record->id,
                             "what", comparison_name(comparison, trial).text, "command", record->command, "verdict",
                             verdict_name(trial->verdict), "status", "base", status_text(trial->statuses[0]), "new",
                             status_text(trial->statuses[1]), "verdict", verdict_name(trial->status), "inputs",
                             verdict_name(trial->inputs), "quantities", quantities, "gradient_bits",
                             bits_json(&trial->bits), "time", time_json(trial)));
}

// All but the trials one by one.
static json_t *summary_json(const struct comparison *comparison)
{
    json_t *trials = json_pack("{s:I, s:I, s:I}", "both", integer(comparison->both), "base_only",
                               integer(comparison->base_only), "new_only", integer(comparison->new_only)),
           *causes = json_array();
    for (enum verdict i = VERDICT_NONE; i < VERDICT_COUNT; i++)
        json_object_set_new(trials, verdict_name(i), json_integer(integer(comparison->by_verdict[i])));
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++)
        if (comparison->bits_causes >> i & 1)
            json_array_append_new(causes, json_string(gradient_bits_causes[i]));
    return checked(json_pack("{s:s, s:s, s:o, s:s?, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:o}, s:o}", "verdict",
                             verdict_name(comparison->verdict), "reason", comparison->reason, "trials", trials,
                             "note", *comparison->note ? comparison->note : NULL, "news", integer(comparison->news),
                             "older", integer(comparison->older), "left_out", integer(comparison->left_out),
                             "other_columns", integer(comparison->other_columns), "gradient_bits", "known",
                             integer(comparison->bits_known), "changed", integer(comparison->bits_changed),
                             "not_the_same", causes, "time", times_json(&comparison->time)));
}

json_t *comparison_json(const struct comparison *comparison, bool all)
{
    json_t *object = summary_json(comparison), *changed = json_array();
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison_trial_shown(&comparison->trials[i], all))
            json_array_append_new(changed, trial_json(comparison, &comparison->trials[i]));
    json_object_set_new(object, "changed", changed);
    return object;
}

void comparison_json_write(const struct comparison *comparison, bool all, const char *title, FILE *stream)
{
    json_t *summary = summary_json(comparison);
    if (title)
        json_object_set_new(summary, "title", record_text(title));
    char *text = json_dumps(summary, 0);
    CHECK(text);
    fprintf(stream, "%.*s, \"changed\": [", (int)strlen(text) - 1, text);
    const char *separator = "\n ";
    for (size_t i = 0; i < comparison->count; i++) {
        if (!comparison_trial_shown(&comparison->trials[i], all))
            continue;
        json_t *trial = trial_json(comparison, &comparison->trials[i]);
        fputs(separator, stream);
        json_dumpf(trial, stream, 0);
        json_decref(trial);
        separator = ",\n ";
    }
    fputs("]}", stream);
    free(text);
    json_decref(summary);
}
