// Setting: what the records of one picture have in common, and how it is put into words.
#pragma once
#include "harness/record/record.h"
#include <stddef.h>

// A trial without its method, its measurement, its context, and the keys in `within` (ending in NULL): a new
// reference.
json_t *setting_of(const json_t *trial, const char *const *within);
json_t *setting_of_record(const struct record *record, const char *const *within);
// The keys of a trial in which all records agree, without their method: a new reference.
json_t *setting_common(const struct record *const *records, size_t count);
// "tiny, f32, cpu, batch 1, context 4096", and whatever else is not the default: "documents 512", "20 steps
// schedule=cosine"; context 0: not said.
void setting_describe(const json_t *setting, double context, char *text, size_t bytes);
// Appends an optimizer or an objective, "grpo beta=0.04", its name and the options that are not the defaults, or a
// shape, "4 layers of width 128". False if the value is none of these.
bool setting_named(const char *key, const json_t *value, char *text, size_t bytes);
// "" if setting is alone among all; else "-f64-batch-2", "-schedule-cosine": the keys and members that differ, in
// the words of setting_describe. For a file's name.
void setting_suffix(const json_t *setting, json_t *const *all, size_t count, char *text, size_t bytes);
// Lower-case letters, digits, dots and hyphens only: for a file's name.
void setting_slug(char *text);
