#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define I(value)      ((json_int_t)(value))
#define NUMBER(value) record_number_json(FIELD_NUMBER, value)

static json_t *checked(json_t *value)
{
    CHECK(value);
    return value;
}

static json_t *group_json(const struct time_group *group)
{
    return checked(json_pack(
        "{s:s?, s:s, s:I, s:s, s:o, s:o, s:o}", "axis", group->axis < 0 ? NULL : comparison_axis_names[group->axis],
        "name", group->name, "trials", I(group->trials), "verdict", verdict_name(group->verdict), "ratio",
        NUMBER(group->ratio.estimate), "low", NUMBER(group->ratio.low), "high", NUMBER(group->ratio.high)));
}

static json_t *times_json(const struct time_change *time)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < time->group_count; i++)
        json_array_append_new(groups, group_json(&time->groups[i]));
    return checked(json_pack("{s:s, s:f, s:I, s:I, s:I, s:o, s:b, s:o, s:f, s:o, s:o}", "verdict",
                             verdict_name(time->verdict), "threshold", time->threshold, "timed", I(time->timed),
                             "judged", I(time->judged), "rounds", I(time->rounds), "rounds_wanted",
                             time->rounds_wanted ? json_integer(I(time->rounds_wanted)) : json_null(), "paired",
                             time->paired, "error", NUMBER(time->error), "disturbed", time->disturbed, "all",
                             group_json(&time->all), "groups", groups));
}

static json_t *min_json(const double *logs, size_t rounds)
{
    return NUMBER(rounds ? exp(sample_quantile(logs, rounds, 0)) : NAN);
}

static json_t *time_json(const struct trial_comparison *trial)
{
    const struct time_trial *time = trial->time;
    if (time->verdict == VERDICT_NONE)
        return json_null();
    return checked(json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:I, s:b, s:o, s:o}", "verdict", verdict_name(time->verdict), "reason",
        time->reason, "ratio", NUMBER(time->ratio.estimate), "low", NUMBER(time->ratio.low), "high",
        NUMBER(time->ratio.high), "rounds", I(time->rounds), "processor_time", trial->times.processor_time,
        "base_ms", min_json(time->base, time->rounds), "new_ms", min_json(time->new, time->rounds)));
}

static const char *status_text(const struct record *record)
{
    return record ? record_status_name(record->status) : NULL;
}

static json_t *trial_json(const struct comparison *comparison, const struct trial_comparison *trial)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    const struct gradient_bits *bits = &trial->bits;
    json_t *quantities = json_array(), *bits_json = json_null();
    for (size_t i = 0; i < trial->changes.count; i++) {
        const struct quantity_change *change = &trial->changes.items[i];
        json_array_append_new(quantities, json_pack("{s:s, s:o, s:o, s:s, s:s?}", "name", change->name, "base",
                                                    NUMBER(change->base), "new", NUMBER(change->new), "verdict",
                                                    verdict_name(change->verdict), "allowance", change->allowed));
    }
    if (bits->known)
        bits_json = checked(json_pack("{s:I, s:I, s:s?}", "tensors", I(bits->tensors), "changed", I(bits->changed),
                                      "first", bits->first));
    return checked(json_pack("{s:s, s:s, s:s?, s:s, s:{s:s?, s:s?, s:s}, s:s, s:o, s:o, s:o}", "id", record->id,
                             "what", comparison_name(comparison, trial).text, "command", record->command, "verdict",
                             verdict_name(trial->verdict), "status", "base", status_text(trial->statuses[0]), "new",
                             status_text(trial->statuses[1]), "verdict", verdict_name(trial->status), "inputs",
                             verdict_name(trial->inputs), "quantities", quantities, "gradient_bits", bits_json,
                             "time", time_json(trial)));
}

// Everything but the individual trials.
static json_t *summary_json(const struct comparison *comparison)
{
    json_t *trials = json_pack("{s:I, s:I, s:I}", "both", I(comparison->both), "base_only",
                               I(comparison->base_only), "new_only", I(comparison->new_only)),
           *causes = json_array(), *left = json_pack("{s:[], s:[]}", "base", "new");
    for (enum verdict i = VERDICT_NONE; i < VERDICT_COUNT; i++)
        json_object_set_new(trials, verdict_name(i), json_integer(I(comparison->by_verdict[i])));
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++)
        if (comparison->bits_causes >> i & 1)
            json_array_append_new(causes, json_string(gradient_bits_causes[i]));
    for (size_t i = 0; i < 2 * 64; i++)
        if (comparison->left_rounds[i / 64] >> i % 64 & 1)
            json_array_append_new(json_object_get(left, i / 64 ? "new" : "base"), json_integer(I(i % 64 + 1)));
    json_t *summary = checked(json_pack(
        "{s:s, s:s, s:o, s:s?, s:o, s:{s:I, s:I, s:o}, s:o}", "verdict", verdict_name(comparison->verdict),
        "reason", comparison->reason, "trials", trials, "note", *comparison->note ? comparison->note : NULL,
        "left_out_rounds", left, "gradient_bits", "known", I(comparison->bits_known), "changed",
        I(comparison->bits_changed), "not_the_same", causes, "time", times_json(&comparison->time)));
    for (enum comparison_count i = 0; i < COMPARISON_COUNTS; i++)
        json_object_set_new(summary, comparison_counts[i].key, json_integer(I(comparison->counts[i])));
    return summary;
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
