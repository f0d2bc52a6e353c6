#include "harness/results/results.h"

// places: {id: its place}.
static void add_records(struct results *results, const struct result_file *file, json_t *places)
{
    results->records = realloc(results->records, (results->count + file->count + 1) * sizeof *results->records);
    results->origins = realloc(results->origins, (results->count + file->count + 1) * sizeof *results->origins);
    CHECK(results->records && results->origins);
    for (size_t i = 0; i < file->count; i++) {
        const struct record *record = &file->records[i];
        const json_t *place = json_object_get(places, record->id);
        size_t at = place ? (size_t)json_integer_value(place) : results->count++;
        if (!place)
            CHECK(json_object_set_new(places, record->id, json_integer((json_int_t)at)) == 0);
        results->records[at] = record;
        results->origins[at] = file->path;
    }
}

bool results_open(struct results *results, const char *const *paths, size_t count, struct status *status)
{
    *results = (struct results){.files = calloc(count + 1, sizeof *results->files)};
    json_t *places = json_object();
    CHECK(results->files && places);
    bool fine = true;
    for (size_t i = 0; i < count && fine; i++) {
        struct result_file *file = &results->files[results->file_count++];
        fine = result_file_read(file, paths[i], status);
        result_file_warn(file);
        add_records(results, file, places);
    }
    json_decref(places);
    return fine;
}

void results_close(struct results *results)
{
    for (size_t i = 0; i < results->file_count; i++)
        result_file_close(&results->files[i]);
    free(results->files);
    free(results->records);
    free(results->origins);
    *results = (struct results){0};
}
