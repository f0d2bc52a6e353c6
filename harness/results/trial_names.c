#include "harness/results/trial_names.h"
#include "harness/files/text.h"
#include "harness/results/series.h"
#include "harness/results/setting.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_text.h"
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

// In what of a key the records differ: NULL: nothing; true: its value; an object: these members.
static json_t *differing(const struct trial_key *key, const struct record *const *records, size_t count)
{
    json_t *first = trial_key_recorded(key, records[0]->trial.json), *found = NULL;
    for (size_t i = 1; i < count && !json_is_true(found); i++) {
        json_t *value = trial_key_recorded(key, records[i]->trial.json);
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

// "kv_gradient_dtype bf16": the value, or of an object those of its members.
static void append_value(char *text, size_t bytes, const struct trial_key *key, json_t *value,
                         const json_t *members)
{
    char words[200];
    json_t *part = json_is_object(members) ? json_object() : json_incref(value), *member;
    const char *name;
    json_object_foreach((json_t *)members, name, member)
    {
        json_object_set(part, name, json_object_get(value, name));
    }
    trial_key_text(key, part, words, sizeof words);
    text_append(text, bytes, ", %s", words);
    json_decref(part);
}

static void append_key(char *text, size_t bytes, const struct trial_key *key, json_t *value, const json_t *members)
{
    char words[200] = "";
    bool whole =
        strcmp(key->name, "model") != 0 || !json_is_object(members); // shapes may differ in what no name says
    if (whole && setting_named(key->name, value, words, sizeof words))
        text_append(text, bytes, ", %s %s", key->name, words);
    else
        append_value(text, bytes, key, value, members);
}

// What all names say, and in what of each of trial_keys the trials differ.
struct naming {
    bool framed;
    json_t *by_key[TRIAL_KEYS_MAX];
};

static void name_record(struct trial_name *name, const struct record *record, const char *label,
                        const struct naming *naming)
{
    const struct record_trial *own = &record->trial;
    snprintf(name->text, sizeof name->text, "%s", label);
    if (naming->framed)
        text_append(name->text, sizeof name->text, ", context %.0f", own->context);
    for (size_t i = 0; i < trial_key_count(); i++) {
        json_t *value = naming->by_key[i] ? trial_key_recorded(&trial_keys[i], own->json) : NULL;
        if (value)
            append_key(name->text, sizeof name->text, &trial_keys[i], value, naming->by_key[i]);
        json_decref(value);
    }
    if (naming->framed)
        text_append(name->text, sizeof name->text, ", %s %s", own->dtype, own->device);
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
    CHECK(places);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct numbered){records[i], i};
    qsort(places, count, sizeof *places, compare_numbered);
    return places;
}

void trial_names_make(struct trial_name *names, const struct record *const *records, size_t count, bool framed)
{
    static const char *const none[] = {NULL};
    static const struct names in_label = {2, {"method", "measure"}},
                              in_frame = {4, {"method", "context", "dtype", "device"}};
    const struct names *said = framed ? &in_frame : &in_label;
    struct naming naming = {.framed = framed};
    for (size_t i = 0; count && i < trial_key_count(); i++)
        if (names_find(said, trial_keys[i].name) == said->count)
            naming.by_key[i] = differing(&trial_keys[i], records, count);
    struct series_table table;
    struct numbered *places = numbered_of(records, count);
    series_make(&table, records, count, none, true);
    for (size_t s = 0; s < table.count; s++) {
        for (size_t r = 0; r < table.series[s].record_count; r++) {
            struct numbered key = {.record = table.series[s].records[r]};
            const struct numbered *place = bsearch(&key, places, count, sizeof *places, compare_numbered);
            name_record(&names[place->at], key.record, table.series[s].label, &naming);
        }
    }
    series_free(&table);
    free(places);
    for (size_t i = 0; i < trial_key_count(); i++)
        json_decref(naming.by_key[i]);
}
