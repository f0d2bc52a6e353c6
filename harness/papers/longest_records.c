#include "harness/papers/longest_records.h"
#include "harness/json/json_source.h"
#include <string.h>

// The trial of a row; NULL: nothing fits. A new reference.
static json_t *trial_of(const json_t *setting, json_t *row)
{
    static const char *const extents[][2] = {{"max_context", "context"}, {"max_batch", "batch"}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        json_t *found = json_object_get(row, extents[i][0]);
        if (json_integer_value(found) <= 0)
            continue;
        json_t *trial = json_deep_copy(setting);
        CHECK(trial && json_object_set(trial, extents[i][1], found) == 0);
        json_object_set(trial, "method", json_object_get(row, "method"));
        return trial;
    }
    return NULL;
}

// An output and its number.
struct output {
    const char *path;
    size_t number;
};

// Takes ownership of the trial.
static json_t *record_of(const struct output *output, size_t number, json_t *trial, json_t *row)
{
    static const char *const kept[] = {"peak_bytes", "host_peak_bytes", "flops"};
    char id[40];
    snprintf(id, sizeof id, "%016zx%016zx", output->number, number);
    json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:o}", "schema", RECORD_SCHEMA, "id", id, "experiment",
                               "longest", "status", "ok", "trial", trial);
    CHECK(record);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(record, kept[i], json_object_get(row, kept[i])); // if the row has it
    return record;
}

// Adds a row as a record; none if nothing fits.
static void add_record(const struct output *output, size_t number, const json_t *setting, json_t *row,
                       json_t *records)
{
    json_t *trial = trial_of(setting, row);
    if (trial)
        CHECK(json_array_append_new(records, record_of(output, number, trial, row)) == 0);
}

static bool read_output(const struct output *output, json_t **records, struct status *status)
{
    struct json_source source;
    bool fine = json_source_open(&source, output->path, status);
    const json_t *setting = json_object_get(source.root, "setting"),
                 *rows = json_object_get(source.root, "methods");
    if (fine && !(json_is_object(setting) && json_is_array(rows)))
        fine = status_set(status, STATUS_BAD_INPUT,
                          "%s: not what `longbp max-context --json` or `longbp max-batch --json` prints",
                          output->path);
    *records = json_array();
    CHECK(*records);
    for (size_t i = 0; fine && i < json_array_size(rows); i++)
        add_record(output, i, setting, json_array_get(rows, i), *records);
    json_source_close(&source);
    return fine;
}

static bool is_output(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 5 && strcmp(path + bytes - 5, ".json") == 0;
}

bool longest_results_open(struct results *results, const char *const *paths, size_t count, bool every,
                          struct status *status)
{
    bool fine = true;
    results_begin(results, every);
    for (size_t i = 0; fine && i < count; i++) {
        struct result_file file = {0};
        json_t *records = NULL;
        if (is_output(paths[i]))
            fine = read_output(&(struct output){paths[i], i}, &records, status);
        else
            fine = result_file_read_next(&file, paths[i], &results->lines, status);
        if (records && fine)
            fine = result_file_wrap(&file, paths[i], records, status);
        json_decref(records);
        results_add(results, &file);
    }
    return fine;
}
