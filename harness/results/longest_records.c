#define _GNU_SOURCE // asprintf
#include "harness/results/longest_records.h"
#include "harness/files/json_source.h"
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
        CHECK(json_object_set(trial, "method", json_object_get(row, "method")) == 0);
        return trial;
    }
    return NULL;
}

static json_t *record_of(const char *path, size_t number, const json_t *setting, json_t *row)
{
    char *id;
    json_t *trial = trial_of(setting, row);
    if (!trial)
        return NULL;
    CHECK(asprintf(&id, "%s:%zu", path, number) > 0);
    json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:o}", "schema", RECORD_SCHEMA, "id", id, "experiment",
                               "longest", "status", "ok", "trial", trial);
    free(id);
    CHECK(record);
    static const char *const kept[] = {"peak_bytes", "host_peak_bytes", "flops"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(row, kept[i]))
            CHECK(json_object_set(record, kept[i], json_object_get(row, kept[i])) == 0);
    return record;
}

static bool read_output(const char *path, json_t **records, struct status *status)
{
    struct json_source source;
    bool fine = json_source_open(&source, path, status);
    const json_t *setting = json_object_get(source.root, "setting"),
                 *rows = json_object_get(source.root, "methods");
    if (fine && !(json_is_object(setting) && json_is_array(rows)))
        fine = status_set(status, STATUS_BAD_INPUT,
                          "%s: not what `longbp max-context --json` or `longbp max-batch --json` prints", path);
    *records = json_array();
    CHECK(*records);
    for (size_t i = 0; fine && i < json_array_size(rows); i++) {
        json_t *record = record_of(path, i, setting, json_array_get(rows, i));
        if (record)
            CHECK(json_array_append_new(*records, record) == 0);
    }
    json_source_close(&source);
    return fine;
}

static bool is_output(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 5 && strcmp(path + bytes - 5, ".json") == 0;
}

bool longest_results_open(struct results *results, const char *const *paths, size_t count, struct status *status)
{
    bool fine = true;
    results_begin(results, false);
    for (size_t i = 0; fine && i < count; i++) {
        struct result_file file = {0};
        json_t *records = NULL;
        if (is_output(paths[i]))
            fine = read_output(paths[i], &records, status);
        else
            fine = result_file_read(&file, paths[i], status);
        if (records)
            result_file_wrap(&file, paths[i], records);
        json_decref(records);
        results_add(results, &file);
    }
    return fine;
}
