// Record JSON: converts a record to JSON by the table of record_fields.h.
#pragma once
#include "harness/record/record.h"
#include "harness/record/record_fields.h"

// Sets every field to null.
void record_clear(struct record *record);
// The record as an object with its fields in the table's order, a new reference.
json_t *record_json(const struct record *record);
// A whole trial, a new reference; NULL: none.
json_t *record_trial_json(const struct record_trial *trial);
// The same, borrowed, with possibly 0 for counts (batch, context, seed and so on); everything else as written.
const json_t *record_trial_rest(const struct record_trial *trial);
// The field of this name; NULL: none.
const struct record_field *record_field_find(const struct record_field *fields, const char *name);
// A path into records: keys, and their fields, looked up once for many records.
#define RECORD_PATH_KEYS 8
struct record_path {
    const char *keys[RECORD_PATH_KEYS + 1]; // borrowed, ending in NULL
    const struct record_field
        *fields[RECORD_PATH_KEYS]; // NULL: unknown, or the key is a name in a map, a tally or JSON
};
struct record_path record_path_find(const char *const *keys);
// The value at the path, a new reference; null: none.
json_t *record_value(const struct record *record, const struct record_path *path);
// A field's value, a new reference; NULL: omitted.
json_t *record_field_json(const struct record_field *field, const void *value);
// A number for a field of this type; null if it is not finite.
json_t *record_number_json(enum field_type type, double value);
// Releases lists, parts and separate structs of a record that was filled in, not read, and clears it.
void record_free(struct record *record);
// A list of `count` numbers, to be filled in.
struct number_list number_list_make(size_t count);
struct number_list number_list_copy(const double *values, size_t count);
