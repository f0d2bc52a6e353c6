// JSON field: a value and its position, and readers that check its type and bounds. Their errors say what was
// expected and what was found.
#pragma once
#include "harness/json/json_source.h"
#include "harness/text/names.h"

// JSON integers up to this one are exact in every reader.
#define JSON_INTEGER_MAX ((size_t)1 << 53)

struct json_field {
    json_t *value; // NULL: left out. Borrowed from the source.
    const struct json_source *source;
    struct json_path path;
};

struct json_field json_field_root(const struct json_source *source);
struct json_field json_field_get(struct json_field object, const char *key);
struct json_field json_field_at(struct json_field list, size_t index);
bool json_field_given(struct json_field field); // there, and not null

// Sets `position: key "k": message` for the value, or `...: expected X, found VALUE`. Both return false.
bool json_field_fail(struct json_field field, struct status *status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool json_field_expected(struct json_field field, struct status *status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// NULL; a reader that returns a new value returns this after a refusal.
json_t *json_refused(bool read);

// An object whose keys are all known. `of` names the object in the message: `unknown key of "lora"`; or NULL.
bool json_field_object(struct json_field field, const struct names *known, const char *of, struct status *status);

// The readers succeed and leave *value, which holds the default, if the field was left out.
// unit: " of tokens", or "". maximum at most JSON_INTEGER_MAX.
bool json_field_count(struct json_field field, size_t minimum, size_t maximum, const char *unit, size_t *value,
                      struct status *status);
// The same for tokens, which may be written "32K" or "1M".
bool json_field_tokens(struct json_field field, size_t minimum, size_t maximum, const char *unit, size_t *value,
                       struct status *status);
// Accepts whole numbers too. Bounds are inclusive.
bool json_field_number(struct json_field field, double minimum, double maximum, double *value,
                       struct status *status);
bool json_field_bool(struct json_field field, bool *value, struct status *status);
// A non-empty text. Borrowed.
bool json_field_text(struct json_field field, const char *expected, const char **value, struct status *status);
// One of the names; sets *value to its index. `kind`, as in "sampler", is used in messages.
bool json_field_choice(struct json_field field, const struct names *names, const char *kind, size_t *value,
                       struct status *status);
// The same of an enum whose names end in NULL.
bool json_field_enum(struct json_field field, const char *const *names, const char *kind, int *value,
                     struct status *status);
