#include "harness/run/sweep_table.h"
#include "harness/results/record_table.h"

#define ROWS_MAX 200

// The records of a spec's trials, as they are met in a file.
struct rows {
    json_t *places;  // {id: its place in the spec}
    json_t *records; // [trials], null: none yet
    bool *again;     // [trials]: there was another one before it
    size_t several;  // of which it is so
};

static bool keep_last(void *visitor, const struct result_line *line, struct status *status)
{
    struct rows *rows = visitor;
    const json_t *place = json_object_get(rows->places, line->id);
    json_t *record = place ? result_line_read(line, status) : NULL;
    if (record) {
        size_t at = (size_t)json_integer_value(place);
        bool again = !json_is_null(json_array_get(rows->records, at));
        rows->several += again && !rows->again[at];
        rows->again[at] |= again;
        json_array_set_new(rows->records, at, record);
    }
    return record || !place;
}

static struct rows rows_of(const struct spec *spec)
{
    struct rows rows = {json_object(), json_array(), calloc(spec->trial_count + 1, sizeof(bool)), 0};
    CHECK(rows.places && rows.records && rows.again);
    for (size_t i = 0; i < spec->trial_count; i++) {
        CHECK(json_object_set_new(rows.places, spec->trials[i].id, json_integer((json_int_t)i)) == 0);
        CHECK(json_array_append_new(rows.records, json_null()) == 0);
    }
    return rows;
}

static void drop_missing(json_t *records)
{
    for (size_t i = json_array_size(records); i-- > 0;)
        if (json_is_null(json_array_get(records, i)))
            json_array_remove(records, i);
}

bool sweep_table_write(const struct spec *spec, const char *path, FILE *stream, struct status *status)
{
    if (spec->trial_count > ROWS_MAX) {
        fprintf(stream, "%zu trials; longbp report %s shows them\n", spec->trial_count, path);
        return true;
    }
    const struct record_table_request request = {0};
    struct rows rows = rows_of(spec);
    struct result_file scanned, found;
    struct results results;
    bool fine = result_file_scan(&scanned, path, keep_last, &rows, status);
    drop_missing(rows.records);
    result_file_wrap(&found, path, rows.records);
    results_begin(&results, false);
    results_add(&results, &found);
    fine = fine && record_table_write(&request, &results, stream, status);
    if (fine)
        record_table_write_several(rows.several, results.count, stream);
    results_close(&results);
    result_file_close(&scanned);
    free(rows.again);
    json_decref(rows.places);
    json_decref(rows.records);
    return fine;
}
