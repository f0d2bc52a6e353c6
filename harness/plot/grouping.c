#define _GNU_SOURCE // asprintf
#include "harness/plot/grouping.h"
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/table/setting.h"
#include "kernels/base/status.h"
#include <string.h>
#include <xxhash.h>

// Numbers distinct keys in order of first occurrence. Zeroed: empty.
struct numbering {
    size_t count, capacity;
    struct numbered *items; // [capacity], a hash table
};

struct numbered {
    XXH128_hash_t hash;
    size_t after; // the key's number + 1; 0: free
};

// The slot that holds the hash, or the free slot for it. capacity: a power of two.
static struct numbered *slot_of(struct numbered *items, size_t capacity, XXH128_hash_t hash)
{
    size_t at = hash.low64 & (capacity - 1);
    while (items[at].after && !XXH128_isEqual(items[at].hash, hash))
        at = (at + 1) & (capacity - 1);
    return &items[at];
}

static void numbering_grow(struct numbering *numbering)
{
    size_t capacity = numbering->capacity ? 2 * numbering->capacity : 64;
    struct numbered *items = calloc(capacity, sizeof *items);
    CHECK(items);
    for (size_t i = 0; i < numbering->capacity; i++)
        if (numbering->items[i].after)
            *slot_of(items, capacity, numbering->items[i].hash) = numbering->items[i];
    free(numbering->items);
    numbering->items = items;
    numbering->capacity = capacity;
}

// The number of a key; a new key gets the count before it. Keys are compared by 128-bit hashes.
static size_t numbering_of(struct numbering *numbering, const void *key, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(key, bytes);
    if (4 * numbering->count >= 3 * numbering->capacity)
        numbering_grow(numbering);
    struct numbered *place = slot_of(numbering->items, numbering->capacity, hash);
    if (!place->after)
        *place = (struct numbered){hash, ++numbering->count};
    return place->after - 1;
}

static void numbering_free(struct numbering *numbering)
{
    free(numbering->items);
    *numbering = (struct numbering){0};
}

#define COUNTS_MAX 8

// A cheap identity of a trial: its interned text and its counts (record_trial).
struct glance {
    const void *text;
    double counts[COUNTS_MAX]; // 0: absent, or none
};

// Names computed once per distinct identity.
struct names_at_glance {
    struct numbering glances, names;
    size_t *numbers; // [glances.count], indices of names
};

struct grouping_work {
    const struct figure *figure;
    const struct record_field *counts[COUNTS_MAX]; // of a trial
    size_t count_count;
    struct names_at_glance settings; // with experiment and machine
    struct names_at_glance texts;    // of trials without measurement and counts
    struct numbering machines, groups, trials;
    size_t *places; // [trials.count], index of each in its group
};

static void find_counts(struct grouping_work *work)
{
    const struct record_field *field = record_field_find(record_fields, "trial")->members;
    for (; field->name; field++) {
        if (field->type != FIELD_COUNT)
            continue;
        CHECK(work->count_count < COUNTS_MAX);
        work->counts[work->count_count++] = field;
    }
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

static struct glance glance_of(const struct grouping_work *work, const struct record_trial *trial)
{
    struct glance glance = {.text = trial->rest ? (const void *)trial->rest : trial->json};
    for (size_t i = 0; i < work->count_count; i++)
        memcpy(&glance.counts[i], (const char *)trial + work->counts[i]->offset, sizeof *glance.counts);
    return glance;
}

// NULL: the identity is new, and a name must be added.
static const size_t *known(struct names_at_glance *names, const void *glance, size_t bytes)
{
    size_t before = names->glances.count, number = numbering_of(&names->glances, glance, bytes);
    return number < before ? &names->numbers[number] : NULL;
}

// Adds the name of the identity that known() has just added. Returns the name's number.
static size_t add_name(struct names_at_glance *names, const char *name)
{
    size_t count = names->glances.count;
    names->numbers = realloc(names->numbers, count * sizeof *names->numbers);
    CHECK(names->numbers);
    return names->numbers[count - 1] = numbering_of(&names->names, name, strlen(name));
}

static void free_names(struct names_at_glance *names)
{
    numbering_free(&names->glances);
    numbering_free(&names->names);
    free(names->numbers);
}

static json_t *setting_on(const struct record *record, const struct figure *figure, const char *machine)
{
    json_t *setting = setting_of_record(record, figure->within);
    if (*machine)
        CHECK(json_object_set_new(setting, "machine", record_text(machine)) == 0);
    return setting;
}

// The number of its experiment and setting.
static size_t kind_of(struct grouping_work *work, const struct record *record, const char *machine)
{
    struct {
        struct glance trial;
        const char *experiment;
        size_t machine;
    } glance = {glance_of(work, &record->trial), record->experiment,
                numbering_of(&work->machines, machine, strlen(machine))};
    for (size_t i = 0; i < work->count_count; i++)
        if (strcmp(work->counts[i]->name, "context") == 0 || is_among(work->counts[i]->name, work->figure->within))
            glance.trial.counts[i] = 0;
    const size_t *kind = known(&work->settings, &glance, sizeof glance);
    if (kind)
        return *kind;
    json_t *setting = setting_on(record, work->figure, machine);
    char *words = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS), *name;
    CHECK(words && asprintf(&name, "%s %s", words, record->experiment) >= 0);
    size_t number = add_name(&work->settings, name);
    free(name);
    free(words);
    json_decref(setting);
    return number;
}

// The number of the trial's text without measurement and counts.
static size_t text_of(struct grouping_work *work, const struct record_trial *trial)
{
    const void *text = glance_of(work, trial).text;
    const size_t *number = known(&work->texts, &text, sizeof text);
    if (number)
        return *number;
    json_t *rest = json_copy((json_t *)record_trial_rest(trial));
    json_object_del(rest, "measure");
    for (size_t i = 0; i < work->count_count; i++)
        if (json_is_integer(json_object_get(rest, work->counts[i]->name)))
            json_object_del(rest, work->counts[i]->name);
    char *words = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(words);
    size_t added = add_name(&work->texts, words);
    free(words);
    json_decref(rest);
    return added;
}

static void add_record(struct group *group, const struct record *record, const char *origin)
{
    group->records = realloc(group->records, (group->count + 1) * sizeof *group->records);
    group->origins = realloc(group->origins, (group->count + 1) * sizeof *group->origins);
    CHECK(group->records && group->origins);
    group->records[group->count] = record;
    group->origins[group->count++] = origin;
}

// Tells whether its trial requested that part of `measure`.
static bool has_part(const struct record *record, const char *part)
{
    const json_t *value = json_object_get(json_object_get(record_trial_rest(&record->trial), "measure"), part);
    return json_is_true(value) || (json_is_string(value) && strcmp(json_string_value(value), "none") != 0);
}

// The index of the record's trial in group `number`; one past the end if it has none yet.
static size_t *place_of(struct grouping_work *work, const struct group *group, size_t number,
                        const struct record *record)
{
    struct {
        struct glance trial;
        size_t text, group;
    } key = {glance_of(work, &record->trial), text_of(work, &record->trial), number};
    key.trial.text = NULL;
    size_t before = work->trials.count, trial = numbering_of(&work->trials, &key, sizeof key);
    if (trial == before) {
        work->places = realloc(work->places, (before + 1) * sizeof *work->places);
        CHECK(work->places);
        work->places[trial] = group->count;
    }
    return &work->places[trial];
}

// Adds the record, or keeps one of it and another measurement of the same trial: the last, unless only the other
// has what the figure shows.
static void add_trial(struct grouping_work *work, struct group *group, size_t number, const struct record *record,
                      const char *origin)
{
    const struct figure *figure = work->figure;
    size_t place = figure->every_commit ? group->count : *place_of(work, group, number, record);
    if (place == group->count) {
        add_record(group, record, origin);
        return;
    }
    group->repeated++;
    if (figure->part && !has_part(record, figure->part) && has_part(group->records[place], figure->part))
        return;
    group->records[place] = record;
    group->origins[place] = origin;
}

void grouping_make(struct grouping *grouping, const struct figure *figure, const struct results *results,
                   const struct published *published)
{
    struct grouping_work work = {.figure = figure};
    bool machines =
        figure->times && !figure->every_commit && records_of_several_machines(results->records, results->count);
    *grouping = (struct grouping){.groups = calloc(results->count + 1, sizeof *grouping->groups)};
    CHECK(grouping->groups);
    find_counts(&work);
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        char machine[RECORD_MACHINE_BYTES] = "";
        if (machines)
            record_machine(record, machine, sizeof machine);
        struct {
            size_t kind;
            double context;
        } key = {kind_of(&work, record, machine), figure->one_context ? record->trial.context : 0};
        size_t at = numbering_of(&work.groups, &key, sizeof key);
        struct group *group = &grouping->groups[at];
        if (at == grouping->count) {
            *group =
                (struct group){.experiment = record->experiment,
                               .setting = setting_on(record, figure, machine),
                               .kind = key.kind,
                               .context = key.context,
                               .published = figure->tabulate_beside
                                                ? published_find(published, record->experiment, figure->quantity)
                                                : NULL};
            grouping->count++;
        }
        add_trial(&work, group, at, record, results->origins[i]);
    }
    free_names(&work.settings);
    free_names(&work.texts);
    numbering_free(&work.machines);
    numbering_free(&work.groups);
    numbering_free(&work.trials);
    free(work.places);
}

void grouping_free(struct grouping *grouping)
{
    for (size_t i = 0; i < grouping->count; i++) {
        json_decref(grouping->groups[i].setting);
        free(grouping->groups[i].records);
        free(grouping->groups[i].origins);
        if (grouping->groups[i].table)
            figure_table_free(grouping->groups[i].table);
        free(grouping->groups[i].table);
    }
    free(grouping->groups);
}
