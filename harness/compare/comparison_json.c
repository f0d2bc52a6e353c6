#include "harness/compare/comparison_report.h"
#include "harness/compare/comparison_rows.h"
#include <math.h>
#include <string.h>

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
    set(object, "axis", group->axis < 0 ? json_null() : json_string(comparison_axis_names[group->axis]));
    set(object, "name", json_string(group->name));
    set(object, "trials", json_integer((json_int_t)group->trials));
    set(object, "verdict", json_string(verdict_name(group->verdict)));
    set_ratio(object, group->trials > 0, group->ratio);
    return object;
}

static json_t *times_json(const struct comparison *comparison)
{
    const struct time_change *time = &comparison->time;
    json_t *object = json_object(), *groups = json_array();
    set(object, "verdict", json_string(verdict_name(time->verdict)));
    set(object, "threshold", number(time->threshold));
    set(object, "timed", json_integer((json_int_t)time->timed));
    set(object, "judged", json_integer((json_int_t)time->judged));
    set(object, "rounds", json_integer((json_int_t)time->rounds));
    set(object, "rounds_wanted", time->rounds_wanted ? json_integer((json_int_t)time->rounds_wanted) : json_null());
    set(object, "error", number(time->error));
    set(object, "disturbed", number(time->disturbed));
    set(object, "all", group_json(&time->all));
    for (size_t i = 0; i < time->group_count; i++)
        json_array_append_new(groups, group_json(&time->groups[i]));
    set(object, "groups", groups);
    return object;
}

static json_t *least_json(const double *logs, size_t rounds)
{
    return rounds ? number(exp(sample_quantile(logs, rounds, 0))) : json_null();
}

static json_t *time_json(const struct trial_comparison *trial)
{
    const struct time_trial *time = &trial->time;
    if (time->verdict == VERDICT_NONE)
        return json_null();
    json_t *object = json_object();
    set(object, "verdict", json_string(verdict_name(time->verdict)));
    set(object, "reason", json_string(time->reason));
    set_ratio(object, !isnan(time->ratio.estimate), time->ratio);
    set(object, "rounds", json_integer((json_int_t)time->rounds));
    set(object, "processor_time", json_boolean(trial->times.processor_time));
    set(object, "base_ms", least_json(trial->times.base, time->rounds));
    set(object, "new_ms", least_json(trial->times.new, time->rounds));
    return object;
}

static json_t *quantity_json(const struct quantity_change *change)
{
    json_t *object = json_object();
    set(object, "name", json_string(change->name));
    set(object, "base", number(change->base));
    set(object, "new", number(change->new));
    set(object, "verdict", json_string(verdict_name(change->verdict)));
    set(object, "allowance", change->allowed ? json_string(change->allowed) : json_null());
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

static json_t *trial_json(const struct comparison *comparison, const struct trial_comparison *trial)
{
    const struct record *record = trial->new ? trial->new : trial->base;
    json_t *object = json_object(), *status = json_object(), *quantities = json_array();
    set(object, "id", json_string(record->id));
    set(object, "what", json_string(comparison_name(comparison, trial).text));
    set(object, "command", record->command ? json_string(record->command) : json_null());
    set(object, "verdict", json_string(verdict_name(trial->verdict)));
    set(status, "base", status_json(trial->statuses[0]));
    set(status, "new", status_json(trial->statuses[1]));
    set(status, "verdict", json_string(verdict_name(trial->status)));
    set(object, "status", status);
    set(object, "inputs", json_string(verdict_name(trial->inputs)));
    for (size_t i = 0; i < trial->changes.count; i++)
        json_array_append_new(quantities, quantity_json(&trial->changes.items[i]));
    set(object, "quantities", quantities);
    set(object, "gradient_bits", bits_json(&trial->bits));
    set(object, "time", time_json(trial));
    return object;
}

// All but the trials one by one.
static json_t *summary_json(const struct comparison *comparison)
{
    json_t *object = json_object(), *trials = json_object();
    set(object, "verdict", json_string(verdict_name(comparison->verdict)));
    set(object, "reason", json_string(comparison->reason));
    set(trials, "both", json_integer((json_int_t)comparison->both));
    set(trials, "base_only", json_integer((json_int_t)comparison->base_only));
    set(trials, "new_only", json_integer((json_int_t)comparison->new_only));
    for (enum verdict i = VERDICT_NONE; i < VERDICT_COUNT; i++)
        set(trials, verdict_name(i), json_integer((json_int_t)comparison->by_verdict[i]));
    set(object, "trials", trials);
    set(object, "note", *comparison->note ? json_string(comparison->note) : json_null());
    set(object, "news", json_integer((json_int_t)comparison->news));
    set(object, "older", json_integer((json_int_t)comparison->older));
    set(object, "left_out", json_integer((json_int_t)comparison->left_out));
    set(object, "other_columns", json_integer((json_int_t)comparison->other_columns));
    set(object, "gradient_bits", bits_summary_json(comparison));
    set(object, "time", times_json(comparison));
    return object;
}

json_t *comparison_json(const struct comparison *comparison, bool all)
{
    json_t *object = summary_json(comparison), *changed = json_array();
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison_trial_shown(&comparison->trials[i], all))
            json_array_append_new(changed, trial_json(comparison, &comparison->trials[i]));
    set(object, "changed", changed);
    return object;
}

// --- written trial by trial, for there may be many

struct indented {
    int depth;
    FILE *stream;
};

static void begin_line(struct indented to)
{
    fprintf(to.stream, "\n%*s", to.depth, "");
}

static int write_indented(const char *text, size_t bytes, void *data)
{
    const struct indented *to = data;
    for (const char *end = text + bytes, *line; (line = memchr(text, '\n', (size_t)(end - text)));
         text = line + 1) {
        fwrite(text, 1, (size_t)(line - text), to->stream);
        begin_line(*to);
        bytes = (size_t)(end - line) - 1;
    }
    fwrite(text, 1, bytes, to->stream);
    return 0;
}

static void write_value(const json_t *value, struct indented to)
{
    json_dump_callback(value, write_indented, &to, JSON_INDENT(1) | JSON_ENCODE_ANY);
}

static void write_trials(const struct comparison *comparison, bool all, struct indented to)
{
    const struct indented inside = {to.depth + 1, to.stream};
    size_t written = 0;
    putc('[', to.stream);
    for (size_t i = 0; i < comparison->count; i++) {
        if (!comparison_trial_shown(&comparison->trials[i], all))
            continue;
        json_t *trial = trial_json(comparison, &comparison->trials[i]);
        fputs(written++ ? "," : "", to.stream);
        begin_line(inside);
        write_value(trial, inside);
        json_decref(trial);
    }
    if (written)
        begin_line(to);
    putc(']', to.stream);
}

void comparison_json_write(const struct comparison *comparison, bool all, const char *title, int depth,
                           FILE *stream)
{
    const struct indented to = {depth, stream}, inside = {depth + 1, stream};
    json_t *summary = summary_json(comparison), *value, *title_json = title ? record_text(title) : NULL;
    const char *key;
    putc('{', stream);
    json_object_foreach(summary, key, value)
    {
        begin_line(inside);
        fprintf(stream, "\"%s\": ", key);
        write_value(value, inside);
        putc(',', stream);
    }
    begin_line(inside);
    fputs("\"changed\": ", stream);
    write_trials(comparison, all, inside);
    if (title_json) {
        putc(',', stream);
        begin_line(inside);
        fputs("\"title\": ", stream);
        write_value(title_json, inside);
    }
    begin_line(to);
    putc('}', stream);
    json_decref(title_json);
    json_decref(summary);
}
