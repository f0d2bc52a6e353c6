#include "harness/sweep/sweep_table.h"
#include "harness/report/record_table_report.h"
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 200

// Its place among the spec's trials; their count: it is none of them.
static size_t place_of(const struct spec *spec, const struct record *record)
{
    size_t i = 0;
    while (i < spec->trial_count && strcmp(spec->trials[i].id, record->id) != 0)
        i++;
    return i;
}

static bool is_wanted(void *spec, const struct record *record)
{
    return place_of(spec, record) < ((const struct spec *)spec)->trial_count;
}

// In the spec's order, those of one trial as they were.
static void sort_records(const struct spec *spec, struct result_file *file)
{
    struct record *sorted = calloc(file->count + 1, sizeof *sorted);
    size_t *places = calloc(file->count + 1, sizeof *places), n = 0;
    for (size_t i = 0; i < file->count; i++)
        places[i] = place_of(spec, &file->records[i]);
    for (size_t place = 0; place < spec->trial_count; place++)
        for (size_t i = 0; i < file->count; i++)
            if (places[i] == place)
                sorted[n++] = file->records[i];
    free(places);
    free(file->records);
    file->records = sorted;
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
    bool fine = result_file_read_some(&file, path, is_wanted, (void *)spec, status);
    sort_records(spec, &file);
    result_file_warn(&file);
    results_begin(&results, false);
    results_add(&results, &file);
    fine = fine && record_table_report(&request, &results, stream, status);
    results_close(&results);
    return fine;
}
