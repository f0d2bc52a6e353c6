#include "harness/sweep/sweep_table.h"
#include "harness/report/record_table_report.h"

#define ROWS_MAX 200

// The records of the spec's trials; other records in the file are not kept in memory.
struct rows {
    json_t *places;  // {id: index in the spec}
    json_t *records; // [trials], the records of each
    struct line_set lines;
    size_t repeated;
};

static bool keep(void *visitor, const struct result_line *line, struct status *status)
{
    (void)status;
    struct rows *rows = visitor;
    const json_t *place = json_object_get(rows->places, line->record->id);
    if (!place)
        return true;
    if (!line_set_add(&rows->lines, line->text, line->bytes)) {
        rows->repeated++;
        return true;
    }
    json_t *of_trial = json_array_get(rows->records, (size_t)json_integer_value(place));
    CHECK(json_array_append_new(of_trial, json_loadb(line->text, line->bytes, 0, NULL)) == 0);
    return true;
}

static struct rows rows_of(const struct spec *spec)
{
    struct rows rows = {.places = json_object(), .records = json_array()};
    for (size_t i = 0; i < spec->trial_count; i++) {
        CHECK(json_object_set_new(rows.places, spec->trials[i].id, json_integer((json_int_t)i)) == 0);
        CHECK(json_array_append_new(rows.records, json_array()) == 0);
    }
    return rows;
}

// All records, in the spec's order.
static json_t *records_of(const struct rows *rows)
{
    json_t *records = json_array();
    for (size_t i = 0; i < json_array_size(rows->records); i++)
        CHECK(json_array_extend(records, json_array_get(rows->records, i)) == 0);
    return records;
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
    bool fine = result_file_scan(&scanned, path, keep, &rows, status);
    json_t *records = records_of(&rows);
    fine = result_file_wrap(&found, path, records, status) && fine;
    found.repeated = rows.repeated;
    result_file_warn(&found);
    results_begin(&results, false);
    results_add(&results, &found);
    fine = fine && record_table_report(&request, &results, stream, status);
    results_close(&results);
    result_file_close(&scanned);
    json_decref(records);
    json_decref(rows.places);
    json_decref(rows.records);
    line_set_free(&rows.lines);
    return fine;
}
