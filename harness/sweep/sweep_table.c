#include "harness/sweep/sweep_table.h"
#include "harness/report/record_table_report.h"

#define ROWS_MAX 200

// Leaves the records of the spec's trials, in the spec's order.
static void keep_trials(struct result_file *file, const struct spec *spec)
{
    json_t *places = json_object(); // {id: its place in the spec, and one}
    struct record *kept = calloc(file->count + 1, sizeof *kept);
    size_t *at = calloc(file->count + 1, sizeof *at), count = 0;
    CHECK(places && kept && at);
    for (size_t i = 0; i < spec->trial_count; i++)
        CHECK(json_object_set_new(places, spec->trials[i].id, json_integer((json_int_t)i + 1)) == 0);
    for (size_t i = 0; i < file->count; i++)
        at[i] = (size_t)json_integer_value(json_object_get(places, file->records[i].id));
    for (size_t place = 1; place <= spec->trial_count; place++)
        for (size_t i = 0; i < file->count; i++)
            if (at[i] == place)
                kept[count++] = file->records[i];
    free(at);
    free(file->records);
    file->records = kept;
    file->count = count;
    json_decref(places);
}

bool sweep_table_write(const struct spec *spec, const char *path, FILE *stream, struct status *status)
{
    if (spec->trial_count > ROWS_MAX) {
        fprintf(stream, "%zu trials; longbp report %s shows them\n", spec->trial_count, path);
        return true;
    }
    const struct record_table_request request = {0};
    struct result_file file;
    struct results results;
    bool fine = result_file_read(&file, path, status);
    keep_trials(&file, spec);
    result_file_warn(&file);
    results_begin(&results, false);
    results_add(&results, &file);
    fine = fine && record_table_report(&request, &results, stream, status);
    results_close(&results);
    return fine;
}
