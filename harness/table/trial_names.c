#include "harness/table/trial_names.h"
#include "harness/record/recorded_key.h"
#include "harness/spec/trial_id.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_text.h"
#include "harness/table/setting.h"
#include "harness/text/text.h"
#include <stdlib.h>
#include <string.h>

static json_t *add_differing(json_t *members, const json_t *first, const json_t *value)
{
    const json_t *const sides[] = {first, value};
    const char *name;
    json_t *member;
    members = members ? members : json_object();
    for (size_t side = 0; side < 2; side++)
        json_object_foreach((json_t *)sides[side], name, member)
        {
            if (!json_equal(member, json_object_get(sides[1 - side], name)))
                json_object_set_new(members, name, json_true());
        }
    return members;
}

// The differences between records in a key: NULL: none; true: its value; an object: these members.
static json_t *differing(const struct trial_key *key, const struct record *const *records, size_t count)
{
    json_t *first = recorded_key_value(key, records[0]), *found = NULL;
    for (size_t i = 1; i < count && !json_is_true(found); i++) {
        if (recorded_key_alike(key, records[i], records[i - 1]))
            continue;
        json_t *value = recorded_key_value(key, records[i]);
        bool same = first == value || json_equal(first, value); // NULL: not recorded
        if (!same && json_is_object(first) && json_is_object(value)) {
            found = add_differing(found, first, value);
        } else if (!same) {
            json_decref(found);
            found = json_true();
        }
        json_decref(value);
    }
    json_decref(first);
    return found;
}

// "kv_gradient_dtype bf16": the value, or these members of an object.
static void append_value(char *text, size_t bytes, const struct trial_key *key, json_t *value,
                         const json_t *members, bool exact)
{
    char words[200];
    json_t *part = json_is_object(members) ? json_object() : json_incref(value), *member;
    const char *name;
    json_object_foreach((json_t *)members, name, member)
    {
        json_object_set(part, name, json_object_get(value, name));
    }
    (exact ? trial_key_text_exact : trial_key_text)(key, part, words, sizeof words);
    text_append(text, bytes, ", %s", words);
    json_decref(part);
}

static void append_key(char *text, size_t bytes, const struct trial_key *key, json_t *value, const json_t *members,
                       bool exact)
{
    char words[200] = "";
    bool whole = strcmp(key->name, "model") != 0 || !json_is_object(members); // shapes may differ in unnamed ways
    if (whole && setting_named(key->name, value, words, sizeof words))
        text_append(text, bytes, ", %s %s", key->name, words);
    else
        append_value(text, bytes, key, value, members, exact);
}

struct trial_name trial_names_at(const struct trial_names *names, size_t record)
{
    const struct record_trial *own = &names->records[record]->trial;
    struct trial_name name;
    snprintf(name.text, sizeof name.text, "%s", names->table.series[names->series[record]].label);
    if (names->framed)
        text_append(name.text, sizeof name.text, ", context %.0f", own->context);
    for (size_t i = 0; i < trial_key_count(); i++) {
        if (!names->differing[i])
            continue;
        json_t *value = recorded_key_value(&trial_keys[i], names->records[record]);
        if (value)
            append_key(name.text, sizeof name.text, &trial_keys[i], value, names->differing[i], names->exact[i]);
        json_decref(value);
    }
    if (names->framed)
        text_append(name.text, sizeof name.text, ", %s %s", own->dtype, own->device);
    char machine[RECORD_MACHINE_BYTES] = "";
    if (names->machines)
        record_machine(names->records[record], machine, sizeof machine);
    if (*machine)
        text_append(name.text, sizeof name.text, ", on %s", machine);
    return name;
}

struct numbered {
    const struct record *record;
    size_t at;
};

static int compare_numbered(const void *a, const void *b)
{
    const struct record *left = ((const struct numbered *)a)->record, *right = ((const struct numbered *)b)->record;
    return (left > right) - (left < right);
}

static struct numbered *numbered_of(const struct record *const *records, size_t count)
{
    struct numbered *places = calloc(count + 1, sizeof *places);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct numbered){records[i], i};
    qsort(places, count, sizeof *places, compare_numbered);
    return places;
}

static void find_series(struct trial_names *names)
{
    static const char *const none[] = {NULL};
    struct numbered *places = numbered_of(names->records, names->count);
    names->series = calloc(names->count + 1, sizeof *names->series);
    series_make(&names->table, names->records, names->count, none, true);
    for (size_t s = 0; s < names->table.count; s++) {
        for (size_t r = 0; r < names->table.series[s].record_count; r++) {
            struct numbered key = {.record = names->table.series[s].records[r]};
            const struct numbered *place = bsearch(&key, places, names->count, sizeof *places, compare_numbered);
            names->series[place->at] = s;
        }
    }
    free(places);
}

// Tells whether each record has its dtype's default, or lacks the value.
static bool go_without_saying(const struct trial_key *key, const struct record *const *records, size_t count)
{
    struct trial_defaults defaults = {0};
    bool all = strcmp(key->name, "dtype") != 0;
    for (size_t i = 0; all && i < count; i++) {
        json_t *value = recorded_key_value(key, records[i]);
        enum dtype dtype;
        all = !value || (records[i]->trial.dtype && dtype_from_name(records[i]->trial.dtype, &dtype) &&
                         trial_key_says_nothing(key, value, dtype, &defaults));
        json_decref(value);
    }
    trial_defaults_free(&defaults);
    return all;
}

// The part of a key that distinguishes these records' names.
static json_t *telling(const struct trial_key *key, const struct record *const *records, size_t count)
{
    json_t *found = differing(key, records, count);
    if (found && go_without_saying(key, records, count)) {
        json_decref(found);
        found = NULL;
    }
    return found;
}

// Tells whether some different values have the same rounded words.
static bool is_ambiguous(const struct trial_key *key, const struct record *const *records, size_t count)
{
    json_t *said = json_object();
    bool ambiguous = false;
    for (size_t i = 0; !ambiguous && i < count; i++) {
        if (i && recorded_key_alike(key, records[i], records[i - 1]))
            continue;
        json_t *value = recorded_key_value(key, records[i]);
        ambiguous = value && trial_key_text_is_ambiguous(said, key, value);
        json_decref(value);
    }
    json_decref(said);
    return ambiguous;
}

void trial_names_open(struct trial_names *names, const struct record *const *records, size_t count, bool framed)
{
    static const struct names in_label = {2, {"method", "measure"}},
                              in_frame = {4, {"method", "context", "dtype", "device"}};
    const struct names *said = framed ? &in_frame : &in_label;
    *names = (struct trial_names){.records = records, .count = count, .framed = framed};
    names->machines = records_of_several_machines(records, count);
    for (size_t i = 0; count && i < trial_key_count(); i++)
        if (names_find(said, trial_keys[i].name) == said->count)
            names->differing[i] = telling(&trial_keys[i], records, count);
    for (size_t i = 0; count && i < trial_key_count(); i++)
        names->exact[i] = names->differing[i] && is_ambiguous(&trial_keys[i], records, count);
    find_series(names);
}

void trial_names_close(struct trial_names *names)
{
    series_free(&names->table);
    free(names->series);
    for (size_t i = 0; i < trial_key_count(); i++)
        json_decref(names->differing[i]);
    *names = (struct trial_names){0};
}
