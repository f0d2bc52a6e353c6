#define _GNU_SOURCE // asprintf
#include "harness/compare/comparison_by.h"
#include "harness/files/names.h"
#include "harness/files/text.h"
#include "harness/results/recorded_key.h"
#include "harness/results/series.h"
#include "harness/results/trial_rest.h"
#include "harness/spec/trial_text.h"
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

// The place of the key in a trial.
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
    bool exact;     // sizes are told to the byte, for some are not told apart otherwise
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

static bool any_ambiguous(const struct compared_key *place, const struct sides *sides)
{
    json_t *said = json_object();
    bool ambiguous = false;
    CHECK(said);
    for (size_t i = 0; !place->option && i < sides->count; i++)
        ambiguous |=
            trial_key_text_is_ambiguous(said, &trial_keys[trial_key_find(place->key)], sides->sides[i].value);
    json_decref(said);
    return ambiguous;
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
    else if (sides->exact)
        trial_key_text_exact(key, side->value, text, bytes);
    else
        trial_key_text(place->option ? &option : key, side->value, text, bytes);
}

// --- a plan and what was measured

static bool is_by_device(const struct compared_key *place)
{
    return !place->option && strcmp(place->key, "device") == 0;
}

// All records of a side have one device.
static bool one_is_planned(const struct compared_key *place, const struct side *base, const struct side *new)
{
    return is_by_device(place) && record_one_is_planned(base->first, new->first);
}

// ", profile h200-141g", ", no profile" or ", card NVIDIA H200": what of a plan, or of what was measured, the
// device does not say.
static void append_origin(const struct side *side, struct interned *interned, char *text, size_t bytes)
{
    bool planned = record_is_planned(side->first);
    struct names found = {0};
    for (size_t i = 0; i < side->records.count && found.count < NAMES_MAX; i++) {
        const struct record *record = side->records.records[i];
        char card[128] = "";
        record_card(record, card, sizeof card);
        const char *name = planned ? text_or(record->trial.profile, "none") : card;
        if (*name && names_find(&found, name) == found.count)
            names_add(&found, interned_text(interned, name, strlen(name)));
    }
    if (planned && found.count == 1 && strcmp(found.items[0], "none") == 0) {
        text_append(text, bytes, ", no profile");
        return;
    }
    for (size_t i = 0; i < found.count; i++)
        text_append(text, bytes, "%s%s", i ? " or " : planned ? ", profile " : ", card ", found.items[i]);
}

static char *title_of(const struct compared_key *place, const struct sides *sides, const struct side *new,
                      struct interned *interned)
{
    const struct side *const compared[2] = {&sides->sides[0], new};
    char words[2][600] = {"", ""}, *title;
    for (size_t i = 0; i < 2; i++) {
        name_side(place, sides, compared[i], words[i], sizeof words[i]);
        if (one_is_planned(place, compared[0], new))
            append_origin(compared[i], interned, words[i], sizeof words[i]);
    }
    CHECK(asprintf(&title, "BASE: %s, NEW: %s", words[0], words[1]) > 0);
    return title;
}

static bool any_of_no_card(const struct side *side)
{
    bool any = false;
    for (size_t i = 0; i < side->records.count; i++)
        any |= record_is_of_no_card(side->records.records[i]);
    return any;
}

static bool any_pair_differs(const struct comparison *comparison)
{
    bool differs = false;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct trial_comparison *trial = &comparison->trials[i];
        differs |= trial->base && trial->new && trial->verdict > VERDICT_SAME;
    }
    return differs;
}

static void note_profile(struct comparison *comparison, const struct side *base, const struct side *new)
{
    const char *side = any_of_no_card(base) ? "BASE" : any_of_no_card(new) ? "NEW" : NULL;
    if (side)
        snprintf(comparison->note, sizeof comparison->note,
                 "%s was planned without a profile, and a card's number of multiprocessors changes its plan%s",
                 side, any_pair_differs(comparison) ? ": plan with --profile NAME" : "");
}

// A limit of the device, or of the host.
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
    note_profile(comparison, base, new);
    comparison_side_free(&sides[0]);
    comparison_side_free(&sides[1]);
}

// --- all

static bool is_same_file(const struct result_file *a, const struct result_file *b)
{
    struct stat first, second;
    return strcmp(a->path, b->path) == 0 || (stat(a->path, &first) == 0 && stat(b->path, &second) == 0 &&
                                             first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

// "a.jsonl has", "a.jsonl and b.jsonl have".
static void name_files(const struct result_file *files, size_t count, char *text, size_t bytes)
{
    if (count == 2 && !is_same_file(&files[0], &files[1]))
        snprintf(text, bytes, "%.200s and %.200s have", files[0].path, files[1].path);
    else
        snprintf(text, bytes, "%.200s%s has", files[0].path, count == 2 ? ", given twice," : "");
}

// Names the command that makes the side that is missing.
static bool tell_other_device(const struct record *record, const char *files, struct status *status)
{
    const char *device = text_or(record->trial.device, "cpu");
    bool planned = record_is_planned(record), cuda = strstr(device, "cuda") != NULL;
    return status_set(status, STATUS_BAD_INPUT,
                      "--by device: %s one device, %s; what is missing is another result file, of %s: longbp run "
                      "SPEC --device %s%s%s --out FILE",
                      files, device, planned ? "what was measured" : "a plan", planned ? "" : "plan-",
                      cuda ? "cuda" : "cpu", cuda && !planned ? " --profile NAME" : "");
}

static bool enough(const struct compared_key *place, const struct sides *sides, const struct result_file *files,
                   size_t file_count, struct status *status)
{
    char words[440];
    name_files(files, file_count, words, sizeof words);
    if (sides->count == 1 && is_by_device(place))
        return tell_other_device(sides->sides[0].first, words, status);
    return sides->count > 1 ||
           status_set(status, STATUS_BAD_INPUT, "--by %s: %s %s; two or more are held against each other",
                      place->key, words, sides->count ? "one value of it" : "no record with it");
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
    fine = fine && enough(&place, &sides, files, file_count, status);
    sides.exact = fine && any_ambiguous(&place, &sides);
    by->items = calloc(sides.count + 1, sizeof *by->items);
    CHECK(by->items);
    for (size_t i = 1; fine && i < sides.count; i++) {
        struct titled_comparison *item = &by->items[by->count++];
        const struct side *base = &sides.sides[0], *new = &sides.sides[i];
        item->title = title_of(&place, &sides, new, &by->interned);
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
