#define _GNU_SOURCE // asprintf
#include "harness/results/comparison_by.h"
#include "harness/results/recorded_key.h"
#include "harness/results/series.h"
#include "harness/results/trial_rest.h"
#include "harness/spec/trial_text.h"
#include <string.h>
#include <xxhash.h>

// Where a trial has the key.
struct compared_key {
    const char *key;
    bool option; // of the method, not a key of the trial
};

static bool find_place(struct compared_key *place, const char *key, struct status *status)
{
    struct names known = {0};
    char hint[640];
    *place = (struct compared_key){.key = key, .option = trial_key_find(key) == trial_key_count()};
    if (!place->option || methods_option_find(key))
        return true;
    trial_key_names(&known, trial_keys);
    const struct option *option;
    for (size_t i = 0; (option = methods_option(i)); i++)
        names_add(&known, option->name);
    names_hint(&known, key, "known keys", hint, sizeof hint);
    return status_set(status, STATUS_BAD_INPUT, "--by: no key \"%.40s\"; %s", key, hint);
}

// NULL: the trial has none. A new reference.
static json_t *value_in(const struct compared_key *place, const struct record *record)
{
    if (place->option)
        return json_incref((json_t *)record_option(record, place->key));
    return recorded_key_value(recorded_key_of(&trial_keys[trial_key_find(place->key)]), record);
}

// A hash, as ids are, of what two records have in common that differ in these keys and this option alone.
static const char *hash_of_rest(const struct record *record, const char *const *keys, const char *option,
                                struct interned *interned)
{
    char *rest = trial_rest_of_record(record, keys, option), text[33];
    XXH128_hash_t hash = XXH3_128bits(rest, strlen(rest));
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    free(rest);
    return interned_text(interned, text, strlen(text));
}

static const char *rest_of(const struct compared_key *place, const struct record *record, struct interned *interned)
{
    const char *const keys[] = {place->option ? NULL : place->key, NULL};
    return hash_of_rest(record, keys, place->option ? place->key : NULL, interned);
}

// --- the sides

struct side {
    json_t *value;              // owned
    const struct record *first; // a record that has it
    struct comparison_side records;
};

struct sides {
    size_t count;
    struct side *sides;
    json_t *places; // {value: its place}
};

static void add_side(struct sides *sides, json_t *value, const struct record *record)
{
    sides->sides = realloc(sides->sides, (sides->count + 1) * sizeof *sides->sides);
    CHECK(sides->sides);
    sides->sides[sides->count++] = (struct side){.value = json_incref(value), .first = record};
}

static struct side *side_of(struct sides *sides, json_t *value, const struct record *record)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    const json_t *place = json_object_get(sides->places, text);
    size_t at = place ? (size_t)json_integer_value(place) : sides->count;
    if (!place) {
        CHECK(json_object_set_new(sides->places, text, json_integer((json_int_t)at)) == 0);
        add_side(sides, value, record);
    }
    free(text);
    return &sides->sides[at];
}

static void take_sides(struct sides *sides, struct interned *interned, const struct compared_key *place,
                       const struct result_file *file)
{
    for (size_t i = 0; i < file->count; i++) {
        const struct record *record = &file->records[i];
        json_t *value = value_in(place, record);
        if (value)
            comparison_side_add(&side_of(sides, value, record)->records, record, rest_of(place, record, interned));
        json_decref(value);
    }
}

static void free_sides(struct sides *sides)
{
    for (size_t i = 0; i < sides->count; i++) {
        json_decref(sides->sides[i].value);
        comparison_side_free(&sides->sides[i].records);
    }
    free(sides->sides);
    json_decref(sides->places);
}

// --- their names

static void name_method(const struct sides *sides, const struct side *side, char *text, size_t bytes)
{
    static const char *const none[] = {NULL};
    const struct record **records = calloc(sides->count + 1, sizeof *records);
    struct series_table table;
    CHECK(records);
    for (size_t i = 0; i < sides->count; i++)
        records[i] = sides->sides[i].first;
    series_make(&table, records, sides->count, none, true);
    for (size_t s = 0; s < table.count; s++)
        if (table.series[s].records[0] == side->first)
            snprintf(text, bytes, "%s", table.series[s].label);
    series_free(&table);
    free(records);
}

static void name_side(const struct compared_key *place, const struct sides *sides, const struct side *side,
                      char *text, size_t bytes)
{
    const struct trial_key *key = &trial_keys[trial_key_find(place->key)];
    const struct trial_key option = {.name = place->key};
    if (!place->option && key->type == KEY_METHOD)
        name_method(sides, side, text, bytes);
    else
        trial_key_text(place->option ? &option : key, side->value, text, bytes);
}

static char *title_of(const struct compared_key *place, const struct sides *sides, const struct side *new)
{
    char words[2][300] = {"", ""}, *title;
    name_side(place, sides, &sides->sides[0], words[0], sizeof words[0]);
    name_side(place, sides, new, words[1], sizeof words[1]);
    CHECK(asprintf(&title, "BASE: %s, NEW: %s", words[0], words[1]) > 0);
    return title;
}

// --- a plan and what was measured

// All records of a side have one device.
static bool one_is_planned(const struct compared_key *place, const struct side *base, const struct side *new)
{
    bool by_device = !place->option && strcmp(place->key, "device") == 0;
    return by_device && record_one_is_planned(base->first, new->first);
}

// Of the device, or of the host.
static bool any_limit(const struct side *side, bool host)
{
    bool any = false;
    for (size_t i = 0; i < side->records.count; i++) {
        const struct record_limits *limits = &side->records.records[i]->trial.limits;
        any |= (host ? limits->host_memory : limits->memory) > 0;
    }
    return any;
}

static struct comparison_side keyed_without(const struct side *side, const char *const *keys,
                                            struct interned *interned)
{
    struct comparison_side records = {0};
    for (size_t i = 0; i < side->records.count; i++) {
        const struct record *record = side->records.records[i];
        comparison_side_add(&records, record, hash_of_rest(record, keys, NULL, interned));
    }
    return records;
}

static void compare_planned(struct comparison *comparison, const struct side *base, const struct side *new,
                            const struct comparison_options *options, struct interned *interned)
{
    const char *keys[7] = {"device", "profile", "links", "measure"};
    size_t count = 4;
    if (!any_limit(base, false) || !any_limit(new, false))
        keys[count++] = "limits.memory";
    if (!any_limit(base, true) || !any_limit(new, true))
        keys[count++] = "limits.host_memory";
    struct comparison_side sides[2] = {keyed_without(base, keys, interned), keyed_without(new, keys, interned)};
    comparison_make_sides(comparison, &sides[0], &sides[1], options);
    comparison_side_free(&sides[0]);
    comparison_side_free(&sides[1]);
}

// --- all

static bool enough(const struct sides *sides, const char *key, const struct result_file *files, size_t file_count,
                   struct status *status)
{
    bool one = file_count == 1;
    return sides->count > 1 ||
           status_set(status, STATUS_BAD_INPUT, "--by %s: %s%s %s; two or more are held against each other", key,
                      files[0].path, one ? " has" : " and the other file have",
                      sides->count ? "one value of it" : "no record with it");
}

static bool all_whole(const struct result_file *files, size_t count, struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++)
        fine = comparison_is_whole(&files[i], status);
    return fine;
}

bool comparison_by_make(struct comparison_by *by, const struct result_file *files, size_t file_count,
                        const char *key, const struct comparison_options *options, struct status *status)
{
    struct compared_key place;
    struct sides sides = {.places = json_object()};
    struct comparison_options of_settings = *options;
    of_settings.rules.settings = true;
    *by = (struct comparison_by){0};
    CHECK(sides.places);
    bool fine = all_whole(files, file_count, status) && find_place(&place, key, status);
    for (size_t i = 0; fine && i < file_count; i++)
        take_sides(&sides, &by->interned, &place, &files[i]);
    fine = fine && enough(&sides, key, files, file_count, status);
    by->items = calloc(sides.count + 1, sizeof *by->items);
    CHECK(by->items);
    for (size_t i = 1; fine && i < sides.count; i++) {
        struct titled_comparison *item = &by->items[by->count++];
        const struct side *base = &sides.sides[0], *new = &sides.sides[i];
        item->title = title_of(&place, &sides, new);
        if (one_is_planned(&place, base, new))
            compare_planned(&item->comparison, base, new, &of_settings, &by->interned);
        else
            comparison_make_sides(&item->comparison, &base->records, &new->records, &of_settings);
    }
    free_sides(&sides);
    return fine;
}

void comparison_by_free(struct comparison_by *by)
{
    for (size_t i = 0; i < by->count; i++) {
        comparison_free(&by->items[i].comparison);
        free((char *)by->items[i].title);
    }
    free(by->items);
    interned_free(&by->interned);
    *by = (struct comparison_by){0};
}
