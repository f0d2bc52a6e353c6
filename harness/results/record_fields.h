// Record fields: one table of all that a record holds, by which records are checked and described
// (`longbp list fields`).
#pragma once
#include <stdbool.h>

enum field_type {
    FIELD_ANY,
    FIELD_BOOL,
    FIELD_STRING,
    FIELD_HASH,   // 16 hexadecimal digits
    FIELD_COUNT,  // a whole number >= 0
    FIELD_SIZE,   // a number >= 0
    FIELD_NUMBER, // of any sign
    FIELD_ARRAY,
    FIELD_TIMES,  // an array of numbers > 0
    FIELD_COUNTS, // an array of whole numbers >= 0
    FIELD_ROWS,   // an array of objects, each of `members`
    FIELD_OBJECT, // of `members`; NULL: any
    FIELD_MAP,    // an object whose values are objects, each of `members`, under names of their own
    FIELD_TALLY,  // an object of whole numbers >= 0 by category (kernels/base/arena.h)
};

struct record_field {
    const char *name;
    enum field_type type;
    bool required;                      // whatever the record's status; all others may be null or absent
    const char *unit;                   // NULL: none
    const char *meaning;                // NULL: the name says it
    const char *null;                   // when it is null or absent besides not having been reached; NULL: never
    const struct record_field *members; // ending in a NULL name
};

// Of the record itself, ending in a NULL name.
extern const struct record_field record_fields[];

// "a whole number >= 0"
const char *field_type_name(enum field_type type);
