#include "harness/record/results.h"
#include "harness/record/rounds.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Two searches may find one trial, each with its own reason.
static bool same_search(const struct record_search *a, const struct record_search *b)
{
    return strcmp(text_or(a->among, ""), text_or(b->among, "")) == 0 &&
           (a->asked == b->asked || json_equal(a->asked, b->asked));
}

// The slot of the record's trial in its experiment, or a free one.
static uint32_t *slot_of(const struct results *results, const struct record *record)
{
    size_t mask = results->slots - 1;
    uint64_t hash = XXH3_64bits_withSeed(record->experiment, strlen(record->experiment),
                                         XXH3_64bits(record->id, strlen(record->id)));
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        const struct record *other = results->places[i] ? results->records[results->places[i] - 1] : NULL;
        if (!other || (strcmp(other->id, record->id) == 0 && strcmp(other->experiment, record->experiment) == 0 &&
                       same_search(other->search, record->search)))
            return &results->places[i];
    }
}

// For this many places, and half as many again.
static void make_slots(struct results *results, size_t count)
{
    while (2 * results->slots < 3 * count)
        results->slots = results->slots ? 2 * results->slots : 64;
    CHECK(count < UINT32_MAX);
    free(results->places);
    results->places = calloc(results->slots + 1, sizeof *results->places);
    for (size_t i = 0; i < results->count; i++)
        *slot_of(results, results->records[i]) = (uint32_t)i + 1;
}

static void make_room(struct results *results, size_t count)
{
    results->records = realloc(results->records, (count + 1) * sizeof *results->records);
    results->origins = realloc(results->origins, (count + 1) * sizeof *results->origins);
    results->found = realloc(results->found, (count + 1) * sizeof *results->found);
    results->rounds = realloc(results->rounds, (count + 1) * sizeof *results->rounds);
    results->joined = realloc(results->joined, (count + 1) * sizeof *results->joined);
    if (!results->every)
        make_slots(results, count);
}

void results_begin(struct results *results, bool every)
{
    *results = (struct results){.every = every};
}

// Appends a place.
static size_t new_place(struct results *results)
{
    results->found[results->count] = 0;
    results->joined[results->count] = NULL;
    return results->count++;
}

size_t results_place(const struct results *results, const struct record *record)
{
    uint32_t place = results->slots ? *slot_of(results, record) : 0;
    return place ? place - 1 : results->count;
}

// A record's place: its trial's in its experiment, else a new one.
static size_t place_of(struct results *results, const struct record *record)
{
    size_t at = results->every ? results->count : results_place(results, record);
    if (at < results->count)
        return at;
    if (!results->every)
        *slot_of(results, record) = (uint32_t)at + 1;
    results->records[at] = record;
    return new_place(results);
}

static void drop_joined(struct results *results, size_t at)
{
    if (results->joined[at])
        rounds_free(results->joined[at]);
    free(results->joined[at]);
    results->joined[at] = NULL;
}

// Joins the record of a place with the next one of its trial.
static void join(struct results *results, size_t at, const struct record *record)
{
    struct record *joined = malloc(sizeof *joined);
    *joined = rounds_join(results->records[at], results->rounds[at], record);
    drop_joined(results, at);
    results->records[at] = results->joined[at] = joined;
    results->rounds[at]++;
}

static void replace(struct results *results, size_t at, const struct record *record)
{
    drop_joined(results, at);
    results->records[at] = record;
    results->rounds[at] = 1;
}

static void add_record(struct results *results, const struct record *record, const char *origin)
{
    size_t at = place_of(results, record);
    if (results->found[at] && rounds_belong(results->records[at], record))
        join(results, at, record);
    else
        replace(results, at, record);
    results->origins[at] = origin;
    results->found[at]++;
}

void results_add(struct results *results, const struct result_file *file)
{
    results->files = realloc(results->files, (results->file_count + 1) * sizeof *results->files);
    results->files[results->file_count++] = *file;
    make_room(results, results->count + file->count);
    for (size_t i = 0; i < file->count; i++)
        add_record(results, &file->records[i], file->path);
}

void results_of(struct results *results, const struct results *all, bool every)
{
    results_begin(results, every);
    make_room(results, all->count);
    for (size_t i = 0; i < all->count; i++)
        add_record(results, all->records[i], all->origins[i]);
}

bool results_open(struct results *results, const char *const *paths, size_t count, bool every,
                  struct status *status)
{
    bool fine = true;
    results_begin(results, every);
    for (size_t i = 0; i < count && fine; i++) {
        struct result_file file;
        fine = result_file_read_next(&file, paths[i], &results->lines, status);
        result_file_warn(&file);
        results_add(results, &file);
    }
    return fine;
}

void results_keep(struct results *results, results_choice *keep, void *chooser)
{
    size_t kept = 0;
    for (size_t i = 0; i < results->count; i++) {
        if (!keep(chooser, results->records[i])) {
            drop_joined(results, i);
            continue;
        }
        struct record *joined = results->joined[i];
        results->joined[i] = NULL;
        results->joined[kept] = joined;
        results->records[kept] = results->records[i];
        results->found[kept] = results->found[i];
        results->rounds[kept] = results->rounds[i];
        results->origins[kept++] = results->origins[i];
    }
    results->count = kept;
}

size_t results_of_several(const struct results *results)
{
    size_t several = 0;
    for (size_t i = 0; i < results->count; i++)
        several += results->found[i] > results->rounds[i];
    return several;
}

size_t results_of_rounds(const struct results *results)
{
    size_t several = 0;
    for (size_t i = 0; i < results->count; i++)
        several += results->rounds[i] > 1;
    return several;
}

void results_close(struct results *results)
{
    for (size_t i = 0; i < results->file_count; i++)
        result_file_close(&results->files[i]);
    for (size_t i = 0; i < results->count; i++)
        drop_joined(results, i);
    free(results->places);
    line_set_free(&results->lines);
    free(results->files);
    free(results->records);
    free(results->origins);
    free(results->found);
    free(results->rounds);
    free(results->joined);
    *results = (struct results){0};
}
