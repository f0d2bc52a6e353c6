// Record JSON: a record from JSON and to JSON, each by walking the table of record_fields.h.
#pragma once
#include "harness/results/record.h"
#include "harness/results/record_fields.h"

// Sets every field to null; of a struct of these fields, or of a record.
void record_fields_clear(const struct record_field *fields, void *owner);
void record_clear(struct record *record);
// Room for an object that stands apart, all null, where its field is.
void *record_apart(const struct record_field *field, void *value);
// Reads an object that record_check accepts; of any other JSON what is not of its field's type is null. Texts and
// JSON stay the object's. Release with record_free.
void record_read(struct record *record, const json_t *object);
// The record as an object with its fields in the table's order, a new reference.
json_t *record_json(const struct record *record);
// All of a trial, a new reference; NULL: there is none.
json_t *record_trial_json(const struct record_trial *trial);
// The same, borrowed, whose counts (batch, context, seed and so on) may be 0; all else is as it was written.
const json_t *record_trial_rest(const struct record_trial *trial);
// What is after these keys, which end in NULL, a new reference; null: nothing.
json_t *record_value(const struct record *record, const char *const *keys);
// A number of a field of that type; null if it is not finite.
json_t *record_number_json(enum field_type type, double value);
// Releases lists and parts, and clears the record.
void record_free(struct record *record);
// A list of `count` numbers, to be filled in.
struct number_list number_list_make(size_t count);
struct number_list number_list_copy(const double *values, size_t count);
