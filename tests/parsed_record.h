// Parsed record: a record of a line of JSON, with what it borrows from.
#pragma once
#include "harness/record/record_read.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parsed_record {
    struct record record;
    struct interned interned;
};

// To be released with parsed_record_free.
static inline struct parsed_record *parsed_record(const char *line)
{
    struct status status = {0};
    struct parsed_record *parsed = calloc(1, sizeof *parsed);
    if (!parsed || !record_read(&parsed->record, line, strlen(line), &parsed->interned, "record", &status)) {
        fprintf(stderr, "%s\n%s\n", status.message, line);
        abort();
    }
    return parsed;
}

static inline void parsed_record_free(const struct record *record)
{
    struct parsed_record *parsed = (struct parsed_record *)record; // its first member
    interned_free(&parsed->interned);
    free(parsed);
}
