// Parsed record: a record of a line of JSON, with what it borrows from.
#pragma once
#include "harness/record/record_json.h"
#include <stdlib.h>

struct parsed_record {
    struct record record;
    json_t *object;
};

// To be released with parsed_record_free.
static inline struct parsed_record *parsed_record(const char *line)
{
    json_error_t error;
    struct parsed_record *parsed = calloc(1, sizeof *parsed);
    if (!parsed || !(parsed->object = json_loads(line, 0, &error)))
        abort();
    record_read(&parsed->record, parsed->object);
    return parsed;
}

static inline void parsed_record_free(const struct record *record)
{
    struct parsed_record *parsed = (struct parsed_record *)record; // its first member
    record_free(&parsed->record);
    json_decref(parsed->object);
    free(parsed);
}
