#include "harness/results/results.h"
#include "harness/results/result_file.h"

bool results_open(struct results *results, const char *const *paths, size_t count, struct status *status)
{
    *results = (struct results){json_object(), json_object()};
    CHECK(results->records && results->origins);
    for (size_t i = 0; i < count; i++) {
        struct result_file file;
        bool fine = result_file_read(&file, paths[i], status);
        result_file_warn(&file);
        size_t at;
        json_t *record;
        json_array_foreach(file.records, at, record)
        {
            const char *id = json_string_value(json_object_get(record, "id"));
            json_object_set(results->records, id, record);
            json_object_set_new(results->origins, id, json_string(file.path));
        }
        result_file_close(&file);
        if (!fine) {
            return false;
        }
    }
    return true;
}

void results_close(struct results *results)
{
    json_decref(results->records);
    json_decref(results->origins);
    *results = (struct results){0};
}
