#define _GNU_SOURCE // asprintf
#include "harness/plot/grouping.h"
#include "harness/results/record_json.h"
#include "harness/results/setting.h"
#include "kernels/base/status.h"
#include <string.h>

// The number of a key among those seen, which it joins.
static size_t number_of(json_t *seen, const char *key)
{
    if (!json_object_get(seen, key)) {
        CHECK(json_object_set_new(seen, key, json_integer((json_int_t)json_object_size(seen))) == 0);
    }
    return (size_t)json_integer_value(json_object_get(seen, key));
}

static void add_record(struct group *group, const struct record *record)
{
    group->records = realloc(group->records, (group->count + 1) * sizeof *group->records);
    CHECK(group->records);
    group->records[group->count++] = record;
}

// Whether its trial asked for that part of `measure`.
static bool has_part(const struct record *record, const char *part)
{
    json_t *trial = record_trial_json(&record->trial);
    const json_t *value = json_object_get(json_object_get(trial, "measure"), part);
    bool has = json_is_true(value) || (json_is_string(value) && strcmp(json_string_value(value), "none") != 0);
    json_decref(trial);
    return has;
}

// Adds the record, or lets one of it and that of the same trial, measured in another way, count: the last, but not
// in place of one that alone has what the figure shows. places: of the trials of all groups, each in its group,
// whose number this is.
static void add_trial(struct group *group, size_t number, const struct figure *figure, const struct record *record,
                      json_t *places)
{
    json_t *trial = record_trial_json(&record->trial);
    json_object_del(trial, "measure");
    char *words = json_dumps(trial, JSON_COMPACT | JSON_SORT_KEYS), *key;
    CHECK(words && asprintf(&key, "%zu %s", number, words) >= 0);
    const json_t *place = json_object_get(places, key);
    if (!place || figure->every_commit) {
        CHECK(json_object_set_new(places, key, json_integer((json_int_t)group->count)) == 0);
        add_record(group, record);
    } else {
        const struct record **counts = &group->records[json_integer_value(place)];
        group->repeated++;
        if (!figure->part || has_part(record, figure->part) || !has_part(*counts, figure->part))
            *counts = record;
    }
    free(key);
    free(words);
    json_decref(trial);
}

void grouping_make(struct grouping *grouping, const struct figure *figure, const struct results *results,
                   const struct published *published)
{
    json_t *kinds = json_object(), *places = json_object(), *trials = json_object();
    bool machines =
        figure->times && !figure->every_commit && records_of_several_machines(results->records, results->count);
    *grouping = (struct grouping){.groups = calloc(results->count + 1, sizeof *grouping->groups)};
    CHECK(kinds && places && trials && grouping->groups);
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        const char *experiment = record->experiment;
        double context = figure->one_context ? record->trial.context : 0;
        json_t *setting = setting_of_record(record, figure->within);
        char machine[RECORD_MACHINE_BYTES] = "", *key;
        if (machines)
            record_machine(record, machine, sizeof machine);
        if (*machine)
            CHECK(json_object_set_new(setting, "machine", record_text(machine)) == 0);
        char *words = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS);
        CHECK(words && asprintf(&key, "%s %s", words, experiment) >= 0);
        size_t kind = number_of(kinds, key);
        free(key);
        CHECK(asprintf(&key, "%zu %.17g", kind, context) >= 0);
        size_t at = number_of(places, key);
        struct group *group = &grouping->groups[at];
        if (at == grouping->count) {
            *group = (struct group){.experiment = experiment,
                                    .setting = json_incref(setting),
                                    .kind = kind,
                                    .context = context,
                                    .published = figure->tabulate_beside
                                                     ? published_find(published, experiment, figure->quantity)
                                                     : NULL};
            grouping->count++;
        }
        add_trial(group, at, figure, record, trials);
        free(key);
        free(words);
        json_decref(setting);
    }
    json_decref(kinds);
    json_decref(places);
    json_decref(trials);
}

void grouping_free(struct grouping *grouping)
{
    for (size_t i = 0; i < grouping->count; i++) {
        json_decref(grouping->groups[i].setting);
        free(grouping->groups[i].records);
        free(grouping->groups[i].table);
    }
    free(grouping->groups);
}
