#define _GNU_SOURCE // asprintf
#include "harness/compare/comparison_report.h"
#include "harness/record/recorded_key.h"
#include "harness/spec/device_kind.h"
#include "harness/spec/trial_text.h"
#include "harness/table/series.h"
#include "harness/table/trial_rest.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

// The key of a trial; NULL: an option of the method.
struct compared_key {
    const char *name;
    const struct trial_key *key;
};

static bool find_key(struct compared_key *by, const char *name, struct status *status)
{
    struct names known = {0};
    char hint[640];
    *by = (struct compared_key){name, trial_key_named(name)};
    if (by->key || methods_option_find(name))
        return true;
    trial_key_names(&known, trial_keys);
    const struct option *option;
    for (size_t i = 0; (option = methods_option(i)); i++)
        names_add(&known, option->name);
    names_hint(&known, name, "known keys", hint, sizeof hint);
    return status_set(status, STATUS_BAD_INPUT, "--by: no key \"%.40s\"; %s", name, hint);
}

// A new reference; NULL: the trial has none.
static json_t *value_in(const struct compared_key *by, const struct record *record)
{
    return by->key ? recorded_key_value(by->key, record) : json_incref((json_t *)record_option(record, by->name));
}

// --- the sides

struct side {
    json_t *value; // owned
    size_t count;
    const struct record **records; // [count], with this value, at least one
};

struct sides {
    size_t count;
    struct side *sides;
    bool exact; // sizes are shown in bytes, because rounding would hide a difference
};

// Ignores records without the key.
static void add_record(struct sides *sides, const struct compared_key *by, const struct record *record)
{
    json_t *value = value_in(by, record);
    size_t at = 0;
    if (!value)
        return;
    while (at < sides->count && !json_equal(sides->sides[at].value, value))
        at++;
    if (at == sides->count) {
        sides->sides = realloc(sides->sides, ++sides->count * sizeof *sides->sides);
        CHECK(sides->sides);
        sides->sides[at] = (struct side){.value = json_incref(value)};
    }
    json_decref(value);
    struct side *side = &sides->sides[at];
    if ((side->count & (side->count - 1)) == 0) { // room for twice as many
        side->records = realloc(side->records, (2 * side->count + 1) * sizeof *side->records);
        CHECK(side->records);
    }
    side->records[side->count++] = record;
}

static bool any_ambiguous(const struct compared_key *by, const struct sides *sides)
{
    json_t *said = json_object();
    bool ambiguous = false;
    CHECK(said);
    for (size_t i = 0; by->key && i < sides->count; i++)
        ambiguous |= trial_key_text_is_ambiguous(said, by->key, sides->sides[i].value);
    json_decref(said);
    return ambiguous;
}

static void free_sides(struct sides *sides)
{
    for (size_t i = 0; i < sides->count; i++) {
        json_decref(sides->sides[i].value);
        free(sides->sides[i].records);
    }
    free(sides->sides);
}

// Keys a side's records by a hash of everything but these keys and this option, so that trials that differ only in
// them match.
static struct keyed_records keyed_without(const struct side *side, const char *const *keys, const char *option,
                                          struct interned *interned)
{
    struct keyed_records keyed = {0};
    for (size_t i = 0; i < side->count; i++) {
        char *rest = trial_rest_of_record(side->records[i], keys, option), text[33];
        XXH128_hash_t hash = XXH3_128bits(rest, strlen(rest));
        snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
                 (unsigned long long)hash.low64);
        free(rest);
        keyed_records_add(&keyed, side->records[i], interned_text(interned, text, strlen(text)));
    }
    return keyed;
}

// --- names of sides

static void name_method(const struct sides *sides, const struct side *side, char *text, size_t bytes)
{
    static const char *const none[] = {NULL};
    const struct record **records = calloc(sides->count + 1, sizeof *records);
    struct series_table table;
    CHECK(records);
    for (size_t i = 0; i < sides->count; i++)
        records[i] = sides->sides[i].records[0];
    series_make(&table, records, sides->count, none, true);
    for (size_t s = 0; s < table.count; s++)
        if (table.series[s].records[0] == side->records[0])
            snprintf(text, bytes, "%s", table.series[s].label);
    series_free(&table);
    free(records);
}

static void name_side(const struct compared_key *by, const struct sides *sides, const struct side *side, char *text,
                      size_t bytes)
{
    const struct trial_key option = {.name = by->name};
    if (by->key && by->key->type == KEY_METHOD)
        name_method(sides, side, text, bytes);
    else if (sides->exact)
        trial_key_text_exact(by->key, side->value, text, bytes);
    else
        trial_key_text(by->key ? by->key : &option, side->value, text, bytes);
}

// --- a plan against a measurement

static bool is_by_device(const struct compared_key *by)
{
    return by->key && strcmp(by->name, "device") == 0;
}

// All records of a side have one device.
static bool one_is_planned(const struct compared_key *by, const struct side *base, const struct side *new)
{
    return is_by_device(by) && record_one_is_planned(base->records[0], new->records[0]);
}

// ", profile h200-141g", ", no profile" or ", card NVIDIA H200": the origin of a plan or a measurement beyond its
// device.
static void append_origin(const struct side *side, struct interned *interned, char *text, size_t bytes)
{
    bool planned = record_is_planned(side->records[0]);
    struct names found = {0};
    for (size_t i = 0; i < side->count && found.count < NAMES_MAX; i++) {
        char card[128] = "";
        record_card(side->records[i], card, sizeof card);
        const char *name = planned ? text_or(side->records[i]->trial.profile, "none") : card;
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

static char *title_of(const struct compared_key *by, const struct sides *sides, const struct side *new,
                      struct interned *interned)
{
    const struct side *const compared[2] = {&sides->sides[0], new};
    char words[2][600] = {"", ""}, *title;
    for (size_t i = 0; i < 2; i++) {
        name_side(by, sides, compared[i], words[i], sizeof words[i]);
        if (one_is_planned(by, compared[0], new))
            append_origin(compared[i], interned, words[i], sizeof words[i]);
    }
    CHECK(asprintf(&title, "BASE: %s, NEW: %s", words[0], words[1]) > 0);
    return title;
}

static bool any(const struct side *side, bool (*is)(const struct record *record))
{
    bool any = false;
    for (size_t i = 0; i < side->count; i++)
        any |= is(side->records[i]);
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
    const char *side = any(base, record_is_of_no_card) ? "BASE" : any(new, record_is_of_no_card) ? "NEW" : NULL;
    if (side)
        snprintf(comparison->note, sizeof comparison->note,
                 "%s was planned without a profile, and a card's number of multiprocessors changes its plan%s",
                 side, any_pair_differs(comparison) ? ": plan with --profile NAME" : "");
}

static bool is_limited(const struct record *record)
{
    return record->trial.limits->memory > 0;
}

static bool is_host_limited(const struct record *record)
{
    return record->trial.limits->host_memory > 0;
}

static void compare_sides(struct comparison *comparison, const struct compared_key *by, const struct side *base,
                          const struct side *new, const struct comparison_options *options,
                          struct interned *interned)
{
    bool planned = one_is_planned(by, base, new);
    const char *keys[7] = {by->key ? by->name : NULL}; // ends in NULL
    size_t count = 1;
    if (planned) {
        keys[count++] = "profile";
        keys[count++] = "interconnect";
        keys[count++] = "measure";
    }
    if (planned && (!any(base, is_limited) || !any(new, is_limited)))
        keys[count++] = "limits.memory";
    if (planned && (!any(base, is_host_limited) || !any(new, is_host_limited)))
        keys[count++] = "limits.host_memory";
    const char *option = by->key ? NULL : by->name;
    struct keyed_records sides[2] = {keyed_without(base, keys, option, interned),
                                     keyed_without(new, keys, option, interned)};
    comparison_make_sides(comparison, &sides[0], &sides[1], options);
    if (planned)
        note_profile(comparison, base, new);
    keyed_records_free(&sides[0]);
    keyed_records_free(&sides[1]);
}

// --- comparison

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

// Names the command that makes the missing side.
static bool tell_other_device(const struct record *record, const char *files, struct status *status)
{
    const char *device = text_or(record->trial.device, "cpu");
    bool planned = record_is_planned(record), card = device_is_of_card(device);
    const struct device_kind *kind = device_kind_like(card);
    return status_set(status, STATUS_BAD_INPUT,
                      "--by device: %s one device, %s; a second result file is needed, of %s: longbp run SPEC "
                      "--device %s%s --out FILE",
                      files, device, planned ? "what was measured" : "a plan", planned ? kind->name : kind->planned,
                      card && !planned ? " --profile NAME" : "");
}

static bool enough(const struct compared_key *by, const struct sides *sides, const struct result_file *files,
                   size_t file_count, struct status *status)
{
    char words[440];
    name_files(files, file_count, words, sizeof words);
    if (sides->count == 1 && is_by_device(by))
        return tell_other_device(sides->sides[0].records[0], words, status);
    return sides->count > 1 ||
           status_set(status, STATUS_BAD_INPUT, "--by %s: %s %s; two or more are held against each other", by->name,
                      words, sides->count ? "one value of it" : "no record with it");
}

bool comparison_by_make(struct comparison_by *by, const struct result_file *files, size_t file_count,
                        const char *key, const struct comparison_options *options, struct status *status)
{
    struct compared_key compared;
    struct sides sides = {0};
    struct comparison_options of_settings = *options;
    of_settings.rules.settings = true;
    *by = (struct comparison_by){0};
    if (!key) {
        *by = (struct comparison_by){.count = 1, .items = calloc(1, sizeof *by->items)};
        CHECK(by->items);
        return comparison_make(&by->items->comparison, &files[0], &files[1], options, status);
    }
    bool fine = find_key(&compared, key, status);
    for (size_t i = 0; fine && i < file_count; i++) {
        fine = comparison_is_whole(&files[i], status);
        for (size_t j = 0; j < files[i].count; j++)
            add_record(&sides, &compared, &files[i].records[j]);
    }
    fine = fine && enough(&compared, &sides, files, file_count, status);
    sides.exact = fine && any_ambiguous(&compared, &sides);
    by->items = calloc(sides.count + 1, sizeof *by->items);
    CHECK(by->items);
    for (size_t i = 1; fine && i < sides.count; i++) {
        struct titled_comparison *item = &by->items[by->count++];
        item->title = title_of(&compared, &sides, &sides.sides[i], &by->interned);
        compare_sides(&item->comparison, &compared, &sides.sides[0], &sides.sides[i], &of_settings, &by->interned);
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
