// Record fields: one table of all fields of a record. It alone determines how records are written, read, checked
// (record_json.h, record_read.h) and described (`longbp list fields`). A trial's fields are made from its keys
// (harness/spec/trial_keys.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Types, with the member type in record.h.
enum field_type {
    FIELD_ANY,      // const json_t *; NULL: null
    FIELD_BOOL,     // int; -1: null
    FIELD_STRING,   // const char *; NULL: null
    FIELD_STATUS,   // enum record_status
    FIELD_HASH,     // uint64_t, written as 16 hexadecimal digits; 0: null
    FIELD_COUNT,    // double, a whole number >= 0 and at most 2^53; NaN: null, here and in all other numbers
    FIELD_SIZE,     // double, >= 0
    FIELD_WHOLE,    // double, >= 0, written without a fraction while it has none and is exact
    FIELD_POSITIVE, // double, > 0
    FIELD_NUMBER,   // double, of any sign
    FIELD_ARRAY,    // const json_t *, an array of anything; NULL: null
    FIELD_OBJECT,   // with members a struct of them that begins with `bool given`, else const json_t *
    FIELD_TRIAL,    // such a struct, with its original JSON, which is written, after `given`
    FIELD_ROWS,     // struct record_parts: an array of objects, each a struct of `members`
    FIELD_MAP,      // struct record_parts: an object of objects, each with its name
    FIELD_TALLY,    // const double * to [CATEGORY_COUNT], counts by category (kernels/device/arena.h); NaN: absent
};

// How an empty list is written.
enum field_none { NONE_NULL, NONE_EMPTY, NONE_LEFT_OUT };

// How `compare` treats a field (harness/compare/quantity.c).
enum field_compared {
    COMPARED_NOT,
    COMPARED_COUNT,
    COMPARED_HOST,  // bytes on the host; null: 0
    COMPARED_PARTS, // a tally, whose total is the row before
    COMPARED_INSTRUCTIONS,
    COMPARED_LOSS,
    COMPARED_RUN_LOSS,
    COMPARED_ERROR,
    COMPARED_TENSORS,
    COMPARED_BIAS,
    COMPARED_KINDS
};

// How the rounds of a trial are joined (rounds.h).
enum field_rounds {
    ROUNDS_LAST,      // the last round's value
    ROUNDS_MEAN,      // the mean over the rounds
    ROUNDS_SAMPLES,   // a list per sample: all of them; with draws each one's mean over the rounds
    ROUNDS_RATE,      // inverse to the time of a step
    ROUNDS_DRAW_RATE, // inverse to that of draw 0
    ROUNDS_TIMES,     // computed by rounds.c from the samples
};

struct record;
struct record_field {
    const char *name;
    size_t offset; // in the struct that contains the field
    enum field_type type;
    bool list; // of numbers, in a struct number_list: per sample, per chunk or per rank
    enum field_none none;
    bool required;                      // for every status; other fields may be null or absent
    const char *unit;                   // NULL: none
    const char *meaning;                // NULL: the name suffices
    const char *null;                   // when it is null or absent although the trial got there; NULL: never
    const struct record_field *members; // ending in a NULL name
    size_t part_bytes;                  // of a map's or rows' struct, or of a separate object
    const void *absent; // NULL, or the shared null value of a tally or of an object that few records have or many
                        // share: records point to a separate struct
    enum field_rounds rounds;
    enum field_compared compared;
    // The name and value compared in place of a list; NULL: the field itself.
    const char *compared_as;
    double (*compared_by)(const struct record *record);
};

// Fields of the record, ending in a NULL name.
extern const struct record_field record_fields[];

// The struct of an object with members.
static inline const void *record_field_members(const struct record_field *field, const void *value)
{
    return field->absent ? *(const void *const *)value : value;
}

struct trial_key;
const struct record_field *record_trial_field(const struct trial_key *key);
// Sets every field of a struct to null.
void record_fields_clear(const struct record_field *fields, void *owner);
// "a whole number >= 0"
const char *field_type_name(const struct record_field *field);
