// Record JSON: a record to JSON, by walking the table of record_fields.h.
#pragma once
#include "harness/record/record.h"
#include "harness/record/record_fields.h"

// Sets every field to null.
void record_clear(struct record *record);
// The record as an object with its fields in the table's order, a new reference.
json_t *record_json(const struct record *record);
// All of a trial, a new reference; NULL: there is none.
json_t *record_trial_json(const struct record_trial *trial);
// The same, borrowed, whose counts (batch, context, seed and so on) may be 0; all else is as it was written.
const json_t *record_trial_rest(const struct record_trial *trial);
// The field of that name; NULL: none, as of no fields (NULL).
const struct record_field *record_field_find(const struct record_field *fields, const char *name);
// A way into records: keys, and the fields that they name, which are looked up once for many records.
#define RECORD_PATH_KEYS 8
struct record_path {
    const char *keys[RECORD_PATH_KEYS + 1];              // borrowed, ending in NULL
    const struct record_field *fields[RECORD_PATH_KEYS]; // NULL: there is none of that name, or its key is a name
                                                         // in a map, a tally or in JSON
};
struct record_path record_path_find(const char *const *keys);
// What is there, a new reference; null: nothing.
json_t *record_value(const struct record *record, const struct record_path *path);
// The value of a field, a new reference; NULL: it is left out.
json_t *record_field_json(const struct record_field *field, const void *value);
// A number of a field of that type; null if it is not finite.
json_t *record_number_json(enum field_type type, double value);
// Releases lists, parts and what stands apart of a record that was filled in, not read, and clears it.
void record_free(struct record *record);
// A list of `count` numbers, to be filled in.
struct number_list number_list_make(size_t count);
struct number_list number_list_copy(const double *values, size_t count);
