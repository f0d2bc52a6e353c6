// Setting: the common values of a picture's records, and their description.
#pragma once
#include "harness/record/record.h"
#include <stddef.h>

// A trial without its method, measurement, context, and the keys in `within` (ending in NULL): a new reference.
json_t *setting_of(const json_t *trial, const char *const *within);
json_t *setting_of_record(const struct record *record, const char *const *within);
// The keys in which all records agree, without the method: a new reference.
json_t *setting_common(const struct record *const *records, size_t count);
// "tiny, f32, cpu, batch 1, context 4096", and values that are not defaults: "documents 512", "20 steps
// schedule=cosine"; context 0: omitted.
void setting_describe(const json_t *setting, double context, char *text, size_t bytes);
// Appends an optimizer or objective, "grpo beta=0.04", with options that are not defaults, or a shape, "4 layers of
// width 128". Returns false for other values.
bool setting_named(const char *key, const json_t *value, char *text, size_t bytes);
// "" if the setting is the only one; else "-f64-batch-2", "-schedule-cosine": the differing keys and members,
// worded as in setting_describe. For file names.
void setting_suffix(const json_t *setting, json_t *const *all, size_t count, char *text, size_t bytes);
// Reduces to lower-case letters, digits, dots and hyphens, for file names.
void setting_slug(char *text);
